"""Inputs and attributes that do not fit give TensorFlow's errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.native.cases import WEIGHTS, make_case

pytestmark = pytest.mark.tensorflow

Op = Callable[..., Any]


@pytest.fixture
def invalid() -> type[Exception]:
    import tensorflow as tf

    error: type[Exception] = tf.errors.InvalidArgumentError
    return error


@pytest.mark.parametrize("index", range(WEIGHTS))
@pytest.mark.parametrize("keras", [False, True])
def test_a_weight_of_another_shape(bert_op: Op, invalid: type[Exception], index: int, keras: bool) -> None:
    case = make_case(layers=2, keras=keras)
    weights = list(case.weights)
    weights[WEIGHTS + index] = np.zeros((1, *weights[index].shape), np.float32)
    with pytest.raises(invalid, match=rf"weights {WEIGHTS + index} \(.* of layer 1\) have shape"):
        case.run(bert_op, weights=weights)


@pytest.mark.parametrize("count", [1, 15, 17, 31])
def test_a_wrong_number_of_weights(bert_op: Op, invalid: type[Exception], count: int) -> None:
    case = make_case(layers=2)
    with pytest.raises(invalid, match=r"NumWeights|at least minimum 16"):
        case.run(bert_op, weights=case.weights[:count])


@pytest.mark.parametrize(
    "shape", [(16,), (1, 1, 8, 16), (8, 15), (1, 8, 17), (1, 9, 16), (2, 8, 16), (9, 16), (2, 4, 16)]
)
def test_embedded_of_another_shape(bert_op: Op, invalid: type[Exception], shape: tuple[int, ...]) -> None:
    with pytest.raises(invalid, match="embedded has shape"):
        make_case().run(bert_op, embedded=np.zeros(shape, np.float32))


@pytest.mark.parametrize("shape", [(8,), (1, 1, 1, 1, 8), (1, 7), (2, 8), (1, 3, 8), (1, 2, 1, 8), (1, 8, 1), ()])
def test_a_mask_of_another_shape(bert_op: Op, invalid: type[Exception], shape: tuple[int, ...]) -> None:
    with pytest.raises(invalid, match="input_mask"):
        make_case(keras=True).run(bert_op, input_mask=np.ones(shape, np.int32))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e38])
def test_a_mask_that_is_none(bert_op: Op, invalid: type[Exception], value: float) -> None:
    case = make_case(batch=2, mask=np.float32)
    mask = case.mask.copy()
    mask[1, 3] = value
    with pytest.raises(invalid, match="NaN"):
        case.run(bert_op, input_mask=mask)


def test_longer_than_the_attribute_says(bert_op: Op, invalid: type[Exception]) -> None:
    with pytest.raises(invalid, match="sequences of 8 are longer than MaxSequenceLength, 7: raise"):
        make_case().run(bert_op, MaxSequenceLength=7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HiddenSize", 0),
        ("HiddenSize", -16),
        ("HiddenSize", 2**62),
        ("NumAttentionHeads", 0),
        ("NumAttentionHeads", 3),
        ("NumAttentionHeads", -2),
        ("IntermediateSize", 0),
        ("IntermediateSize", 25),
        ("MaxSequenceLength", 0),
        ("LayerNormEpsilon", -1.0),
        ("LayerNormEpsilon", float("nan")),
        ("HiddenAct", "swish"),
    ],
)
def test_attributes_that_do_not_fit(bert_op: Op, invalid: type[Exception], name: str, value: Any) -> None:
    with pytest.raises(invalid):
        make_case().run(bert_op, **{name: value})


def test_types_that_there_are_not(bert_op: Op) -> None:
    import tensorflow as tf

    case = make_case()
    for changes in ({"QuantizableDataType": tf.int16}, {"NonQuantizableDataType": tf.float16}):
        with pytest.raises((tf.errors.InvalidArgumentError, TypeError)):
            case.run(bert_op, **changes)
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.NotFoundError, TypeError)):
        case.run(bert_op, input_mask=case.mask.astype(np.complex64))


def test_the_next_run_is_right(bert_op: Op, invalid: type[Exception]) -> None:
    case = make_case(layers=2, batch=2)
    with pytest.raises(invalid):
        case.run(bert_op, input_mask=np.full((2, 8), np.nan, np.float32))
    np.testing.assert_allclose(case.run(bert_op), case.expected, rtol=0, atol=3e-5)
