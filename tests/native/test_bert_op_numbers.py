"""What the op computes in float32, against plain numpy in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.native.cases import WEIGHTS, Activation, Case, encode, make_case

pytestmark = pytest.mark.tensorflow

Op = Callable[..., Any]
ATOL = 3e-5


def _check(case: Case, op: Op, **changes: Any) -> None:
    np.testing.assert_allclose(case.run(op, **changes), case.expected, rtol=0, atol=ATOL)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    layers=st.integers(1, 3),
    batch=st.integers(1, 4),
    length=st.integers(1, 70),
    heads=st.integers(1, 5),
    head_size=st.integers(8, 40),
    inner=st.integers(1, 150),
    keras=st.booleans(),
    activation=st.sampled_from(["gelu_tanh", "gelu_erf", "relu"]),
    mask=st.sampled_from([np.int32, np.int64, np.float32, np.bool_]),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_sizes(bert_op: Op, **sizes: Any) -> None:
    _check(make_case(**sizes), bert_op)


@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu_erf"])
@pytest.mark.parametrize("keras", [False, True])
def test_the_sizes_of_bert_base(bert_op: Op, keras: bool, activation: Activation) -> None:
    _check(
        make_case(
            batch=2, length=128, heads=12, head_size=64, inner=3072, keras=keras, activation=activation, spread=0.1
        ),
        bert_op,
    )


@pytest.mark.parametrize("length", [127, 300, 1100])
def test_long_sentences(bert_op: Op, length: int) -> None:
    _check(make_case(batch=1, length=length, heads=1, head_size=16), bert_op)


def test_a_head_wider_than_a_panel(bert_op: Op) -> None:
    _check(make_case(heads=1, head_size=400, inner=900, length=20), bert_op)


def test_many_layers(bert_op: Op) -> None:
    _check(make_case(layers=24, batch=2, length=16), bert_op)


@pytest.mark.parametrize("shape", [(3, 9), (3, 1, 9), (3, 1, 1, 9)])
@pytest.mark.parametrize("keras", [False, True])
def test_shapes_of_masks(bert_op: Op, shape: tuple[int, ...], keras: bool) -> None:
    case = make_case(batch=3, length=9, keras=keras)
    _check(case, bert_op, input_mask=case.mask.reshape(shape))


@pytest.mark.parametrize("dimensions", [3, 4])
def test_a_mask_for_each_word(bert_op: Op, dimensions: int) -> None:
    case = make_case(batch=2, length=10, keras=True, layers=2)
    mask = np.tril(np.ones((2, 10, 10), np.float32))
    expected = encode(case.embedded, mask, case.weights, case.heads, case.activation)
    result = case.run(bert_op, input_mask=mask if dimensions == 3 else mask[:, None])
    np.testing.assert_allclose(result, expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize("repeats", [1, 2, 3])
def test_weights_may_be_shared_by_layers(bert_op: Op, repeats: int) -> None:
    case = make_case(layers=2, batch=2, length=9)
    sets = [case.weights[at : at + 16] for at in (0, 16)]
    every = [tensor for one in sets for _ in range(repeats) for tensor in one]
    expected = replace(case, weights=every).run(bert_op)
    np.testing.assert_array_equal(case.run(bert_op, WeightRepeats=repeats), expected)
    with pytest.raises(Exception, match="WeightRepeats is 0, expected 1 to 4096"):
        case.run(bert_op, WeightRepeats=0)


def test_words_do_not_see_padding(bert_op: Op) -> None:
    case = make_case(batch=1, length=12, keras=True, layers=2)
    mask = (np.arange(12) < 7).astype(np.int32)[None]
    other = case.embedded.copy()
    other[:, 7:] *= 5
    first = case.run(bert_op, input_mask=mask)
    second = case.run(bert_op, input_mask=mask, embedded=other)
    np.testing.assert_array_equal(first[:, :7], second[:, :7])
    assert np.abs(first[:, 7:] - second[:, 7:]).max() > 0.1


def test_a_sentence_of_padding_only(bert_op: Op) -> None:
    case = make_case(batch=2, length=6, keras=True)
    mask = case.mask.copy()
    mask[1] = 0
    expected = encode(case.embedded, mask, case.weights, case.heads, case.activation)
    # A float has three digits left beside 10000, so the scores of such a sentence are rough, in TensorFlow too.
    np.testing.assert_allclose(case.run(bert_op, input_mask=mask), expected, rtol=0, atol=5e-3)


@pytest.mark.parametrize("mask", [np.int32, np.bool_])
@pytest.mark.parametrize("adder", [-1e9, -3.4e38, -np.inf])
def test_what_is_hidden_may_have_no_share_at_all(bert_op: Op, adder: float, mask: Any) -> None:
    case = make_case(batch=3, length=9, layers=2, keras=True)
    words = case.mask.astype(mask)
    words[1] = 0
    with np.errstate(invalid="ignore"):  # a softmax of -inf alone
        expected = encode(
            case.embedded, words, case.weights, case.heads, case.activation, adder=float(adder), clear=True
        )
    result = case.run(bert_op, input_mask=words, MaskAdder=adder, ClearMasked=True)
    np.testing.assert_allclose(result, expected, rtol=0, atol=ATOL)
    assert np.isfinite(result).all()


def test_an_infinite_adder_spoils_sentences_of_padding_only(bert_op: Op) -> None:
    case = make_case(batch=3, length=9, keras=True)
    mask = case.mask.copy()
    mask[1] = 0
    result = case.run(bert_op, input_mask=mask, MaskAdder=-np.inf)
    assert np.isnan(result[1]).all()
    np.testing.assert_allclose(result[[0, 2]], case.expected[[0, 2]], rtol=0, atol=ATOL)


def test_epsilon_and_adder(bert_op: Op) -> None:
    case = make_case(batch=2, length=9, keras=True)
    expected = encode(case.embedded, case.mask, case.weights, case.heads, case.activation, epsilon=0.1, adder=-1.5)
    result = case.run(bert_op, LayerNormEpsilon=0.1, MaskAdder=-1.5)
    np.testing.assert_allclose(result, expected, rtol=0, atol=ATOL)


@pytest.mark.parametrize("shape", [(0, 7, 16), (3, 0, 16)])
def test_nothing_to_encode(bert_op: Op, shape: tuple[int, ...]) -> None:
    case = make_case(keras=True)
    empty = np.zeros(shape, np.float32)
    assert case.run(bert_op, embedded=empty, input_mask=np.zeros(shape[:2], np.int32)).shape == shape


@pytest.mark.parametrize("scale", [1e-20, 1e-3, 1e6, 1e15])
def test_values_of_any_size(bert_op: Op, scale: float) -> None:
    case = make_case(batch=2, length=9, keras=True)
    embedded = case.embedded * np.float32(scale)
    expected = encode(embedded, case.mask, case.weights, case.heads, case.activation)
    np.testing.assert_allclose(case.run(bert_op, embedded=embedded), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("times", [30, 1000])
def test_columns_that_stand_out(bert_op: Op, times: float) -> None:
    """As in trained BERTs, where a few columns are much larger than the rest: the rest must not lose its digits."""
    case = make_case(batch=2, length=30, heads=4, head_size=16, inner=200, layers=3, keras=True)
    weights = [one.copy() for one in case.weights]
    for layer in range(0, len(weights), WEIGHTS):
        weights[layer + 9][5] = times  # beta: what the next product takes
        weights[layer + 10][:, 7] *= times
        weights[layer + 12][7] /= times
    expected = encode(case.embedded, case.mask, weights, case.heads, case.activation)
    result = case.run(bert_op, weights=weights)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-4)


def test_zero_weights(bert_op: Op) -> None:
    case = make_case(keras=True)
    zeros = [np.zeros_like(one) for one in case.weights]
    assert not case.run(bert_op, weights=zeros).any()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_no_number_spoils_its_sentence_only(bert_op: Op, value: float) -> None:
    case = make_case(batch=2, length=9, keras=True, mask=np.float32)
    embedded = case.embedded.copy()
    embedded[0, 0, 3] = value
    result = case.run(bert_op, embedded=embedded)
    assert np.isnan(result[0]).all()
    np.testing.assert_allclose(result[1], case.expected[1], rtol=0, atol=ATOL)


def test_a_weight_that_is_no_number(bert_op: Op) -> None:
    case = make_case(keras=True)
    weights = [one.copy() for one in case.weights]
    weights[10][0, 0] = np.nan
    assert np.isnan(case.run(bert_op, weights=weights)).all()
