"""What is fed against what the model wants: casts that keep every value, and errors that say what to do."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tfsmith.engines.compare import non_finite
from tfsmith.engines.feeds import as_fed, bind_feeds, find_input, make_input
from tfsmith.engines.protocol import Lack, LackError, Port
from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.types import UNKNOWN, Shape, dtype_named


def port(kind: str | None, *dims: int, tensor: str = "x:0", required: bool = True) -> Port:
    return Port(tensor, None if kind is None else dtype_named(kind), Shape(dims), required)


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("float32", [1, 2], [1.0, 2.0]),
        ("float32", [0.1, 2.5], [np.float32(0.1), 2.5]),
        ("float64", np.array([1, 2], np.float32), [1.0, 2.0]),
        ("float32", np.array([1, 0.5], np.float64), [1.0, 0.5]),
        ("bfloat16", [1.5, 2], [1.5, 2]),
        ("int32", [1, 2], [1, 2]),
        ("int32", np.array([1, -2], np.int64), [1, -2]),
        ("uint8", np.array([1, 255], np.int64), [1, 255]),
        ("int64", np.array([1, 2], np.int32), [1, 2]),
        ("bool", [True, False], [True, False]),
        ("string", ["a", b"b"], [b"a", b"b"]),
        ("string", np.array(["a", "gr\u00fcn"]), [b"a", "gr\u00fcn".encode()]),
        ("float32", np.array([np.nan, 1], np.float64), [np.nan, 1]),
    ],
)
def test_values_that_fit(kind: str, value: Any, wanted: list[Any]) -> None:
    found = as_fed("x", port(kind, 2), value)
    assert found.dtype == dtype_named(kind).numpy()
    if kind == "string":
        assert found.tolist() == wanted
    else:
        np.testing.assert_array_equal(found, np.array(wanted).astype(found.dtype))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("float32", np.array([0.1, 2])),  # would be rounded
        ("float32", np.array([1, 2])),  # whole numbers are ids, not measurements
        ("int32", np.array([1.0, 2.0], np.float32)),
        ("int32", [1.5, 2]),
        ("int32", np.array([2**40, 1])),
        ("uint8", np.array([-1, 1])),
        ("uint64", np.array([-1, 1])),
        ("int64", np.array([2**64 - 1, 1], np.uint64)),
        ("bool", np.array([0, 1])),
        ("int32", np.array([True, False])),
        ("float32", ["a", "b"]),
        ("string", [1, 2]),
        ("float32", [{}, None]),
        ("float32", np.array([1j, 2])),
    ],
)
def test_values_of_another_type(kind: str, value: Any) -> None:
    with pytest.raises(UsageError, match=rf"input 'x' .*the model wants {kind} \[2\]"):
        as_fed("x", port(kind, 2), value)


def test_values_that_do_not_fit_are_told_and_not_to_be_converted() -> None:
    with pytest.raises(UsageError, match=r"int64 \[2\] with values from 1 to 1099511627776; .* int32 \[2\]$"):
        as_fed("x", port("int32", 2), np.array([2**40, 1]))


@pytest.mark.parametrize(
    ("dims", "shape", "words"),
    [
        ((-1, 4), (2, 5), r"given shape \[2, 5\]; the model wants float32 \[\?, 4\]$"),
        ((-1, 4), (4,), r"add the batch dimension, as with array\[None\]"),
        ((1, 4), (4,), "add the batch dimension"),
        ((2, 4), (4,), r"the model wants float32 \[2, 4\]$"),
        ((), (1,), r"the model wants float32 \[\]"),
    ],
)
def test_values_of_another_shape(dims: tuple[int, ...], shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        as_fed("x", port("float32", *dims), np.zeros(shape, np.float32))


def test_what_is_no_array() -> None:
    with pytest.raises(UsageError, match="input 'x'"):
        as_fed("x", port("float32", 2), [[1], [1, 2]])


def test_unknown_shapes_and_types_take_anything() -> None:
    assert as_fed("x", Port("x:0", None, UNKNOWN), np.ones((2, 3))).dtype == np.float64
    values = np.ones((2, 3), np.float32)
    assert as_fed("x", port("float32", -1, -1), values) is values


INPUTS = {
    "ids": port("int32", -1, tensor="model/input_ids:0"),
    "mask": port("int32", -1, tensor="model/input_mask:0"),
    "label": port("int32", -1, tensor="label_ids:0", required=False),
}


@pytest.mark.parametrize("name", ["ids", "model/input_ids:0", "model/input_ids", "input_ids"])
def test_an_input_has_many_names(name: str) -> None:
    assert find_input(INPUTS, name) == "ids"
    assert list(bind_feeds(INPUTS, {name: [1], "mask": [1]})) == ["ids", "mask"]


def test_names_that_are_wrong() -> None:
    with pytest.raises(NotFoundInModelError, match="no input 'mosk'; the nearest is mask"):
        bind_feeds(INPUTS, {"mosk": [1]})
    with pytest.raises(NotFoundInModelError, match="the inputs are: ids, mask, label"):
        bind_feeds(INPUTS, {"zzzzzzz": [1]})
    with pytest.raises(UsageError, match=r"the model also wants mask \(int32 \[\?\]\)"):
        bind_feeds(INPUTS, {"ids": [1]})
    with pytest.raises(UsageError, match=r"the model wants ids \(int32 \[\?\]\), mask"):
        bind_feeds(INPUTS, {})
    with pytest.raises(UsageError, match="'ids' is given twice"):
        bind_feeds(INPUTS, {"ids": [1], "input_ids": [1], "mask": [1]})


def test_inputs_that_are_made_up() -> None:
    generator = np.random.default_rng(1)
    made = {
        kind: make_input(port(kind, -1, 3, -1), "random", generator=generator, batch=5)
        for kind in ("float32", "int64", "uint8", "bool", "bfloat16", "string")
    }
    assert {values.shape for values in made.values()} == {(5, 3, 16)}
    assert all(made[kind].dtype == dtype_named(kind).numpy() for kind in made)
    assert set(made["int64"].reshape(-1).tolist()) == {0, 1}
    assert made["uint8"].max() > 200
    assert made["bfloat16"].dtype == ml_dtypes.bfloat16
    again = make_input(port("float32", -1, 3, -1), "random", generator=np.random.default_rng(1), batch=5)
    np.testing.assert_array_equal(made["float32"], again)
    assert not make_input(port("float32", 2), "zeros").any()
    with pytest.raises(UsageError, match="what shape"):
        make_input(Port("x:0", dtype_named("float32"), UNKNOWN), "zeros")
    with pytest.raises(UsageError, match="of what type"):
        make_input(port(None, 2), "zeros")


def test_answers_that_are_no_numbers() -> None:
    answers = {
        "good": np.ones(3),
        "ids": np.array([1]),
        "text": np.array([b"a"], object),
        "bad": np.array([1, np.nan, np.inf, -np.inf], np.float32),
        "small": np.array([np.nan], ml_dtypes.bfloat16),
    }
    assert non_finite(answers) == [
        "output 'bad': 1 of 4 values are NaN, and 2 are infinite",
        "output 'small': 1 of 1 values are NaN, and 0 are infinite",
    ]


def test_lacks_are_told_in_few_words() -> None:
    lack = Lack("Case", tuple(f"n{number}" for number in range(9)), "there is none")
    assert str(lack) == "Case (n0, n1, n2 and 6 more): there is none"
    error = LackError("engine", [lack] * 12, remedy="use another")
    assert str(error).endswith("and 2 more ops; use another")
    assert len(error.lacks) == 12


def test_a_batch_that_no_memory_holds_is_refused() -> None:
    port = Port("x:0", dtype_named("float32"), Shape((-1, 4)))
    message = r"a batch of 99999999999 takes 1,599,999,999,984 bytes for x:0, \[99999999999, 4\]; pass a smaller batch"
    with pytest.raises(UsageError, match=message):
        make_input(port, "random", batch=99999999999)
    with pytest.raises(UsageError, match="a batch of -1 cannot be; pass a positive number"):
        make_input(port, "zeros", batch=-1)
