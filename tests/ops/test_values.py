"""What values refuse, what they leave alone, and special functions against known numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tfsmith.ir.node import Attr
from tfsmith.ir.types import as_dtype
from tfsmith.ops.values import OpError, compute

HUGE = 2**40
ONE = np.array(1, np.float32)
FLOAT = {"dtype": Attr("type", as_dtype("float32"))}


def f32(*values: Any) -> NDArray[Any]:
    return np.array(values, np.float32)


def ints(*values: Any) -> NDArray[Any]:
    return np.array(values, np.int64)


def scalar(value: Any, kind: Any = np.int64) -> NDArray[Any]:
    return np.array(value, kind)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("Fill", [ints(HUGE), ONE], {}),
        ("Empty", [ints(HUGE).astype(np.int64)], FLOAT),
        ("Range", [scalar(0), scalar(HUGE), scalar(1)], {}),
        ("Range", [scalar(0, np.float32), scalar(1e30, np.float32), scalar(1e-30, np.float32)], {}),
        ("LinSpace", [ONE, ONE, scalar(HUGE)], {}),
        ("OneHot", [ints(1), scalar(HUGE), ONE, ONE], {}),
        ("BroadcastTo", [ONE, ints(HUGE)], {}),
        ("Tile", [f32(1, 2), ints(HUGE)], {}),
        ("Pad", [f32(1), ints([0, HUGE])], {}),
        ("ScatterNd", [ints([0]), f32(1), ints(HUGE)], {}),
        ("DynamicStitch", [ints(HUGE), f32(1)], {"N": Attr("int", 1)}),
        ("SegmentSum", [f32(1), ints(HUGE)], {}),
        ("UnsortedSegmentSum", [f32(1), ints(0), scalar(HUGE)], {}),
        ("Bincount", [ints(1).astype(np.int32), scalar(HUGE), f32()], {}),
        ("HistogramFixedWidth", [f32(1), f32(0, 1), scalar(HUGE)], {}),
        ("StatelessRandomUniform", [ints(HUGE), ints(1, 2)], FLOAT),
    ],
)
def test_a_size_in_a_few_bytes_takes_no_memory(op: str, inputs: list[Any], attrs: dict[str, Attr]) -> None:
    with pytest.raises(OpError, match=r"bytes|no end"):
        compute(op, inputs, attrs)


@pytest.mark.parametrize(
    ("op", "inputs", "words"),
    [
        ("GatherV2", [f32(1, 2), ints(-1), scalar(0)], "index -1 is not in [0, 2)"),
        ("GatherNd", [f32(1, 2), ints([2])], "on axis 0, index 2 is not in [0, 2)"),
        ("FloorDiv", [ints(1), ints(0)], "division of whole numbers by zero"),
        ("Reshape", [f32(1, 2, 3), ints(2, -1)], "3 elements do not fit into shape [2, 1]"),
        ("ConcatV2", [f32([1]), f32(1), scalar(0)], "shapes [1, 1] and [1] cannot be joined along axis 0"),
        ("MatMul", [f32([1, 2]), f32([1, 2])], "shapes [1, 2] and [1, 2] cannot be multiplied"),
        ("Sum", [f32(1, 2), ints(1)], "axis 1 is not one of a tensor of rank 1"),
        ("TopKV2", [f32(1, 2), scalar(3)], "there are no 3 elements in shape [2]"),
        ("MatrixInverse", [f32([0, 0], [0, 0])], "the matrix has no inverse"),
        ("CheckNumerics", [f32(1, math.nan)], "a: the tensor has NaN"),
    ],
)
def test_a_refusal_says_why(op: str, inputs: list[Any], words: str) -> None:
    attrs = {"message": Attr("string", b"a")} if op == "CheckNumerics" else {}
    attrs |= {"N": Attr("int", 2)} if op == "ConcatV2" else {}
    with pytest.raises(OpError) as refused:
        compute(op, inputs, attrs)
    assert str(refused.value) == words


@pytest.mark.parametrize(
    ("op", "inputs"),
    [
        ("TensorScatterUpdate", [f32(1, 2), ints([0]), f32(5)]),
        ("InplaceAdd", [f32([1], [2]), ints(0).astype(np.int32), f32([5])]),
        ("MatrixSetDiag", [f32([1, 2], [3, 4]), f32(8, 9)]),
        ("Lu", [f32([1, 2], [3, 4])]),
        ("Erf", [f32(1, 2)]),
        ("Cumsum", [f32(1, 2), scalar(0)]),
    ],
)
def test_inputs_stay_as_they_are(op: str, inputs: list[Any]) -> None:
    before = [one.copy() for one in inputs]
    for one in inputs:
        one.flags.writeable = False  # as weights in a mapped file are
    compute(op, inputs)
    assert all((one == other).all() for one, other in zip(inputs, before, strict=True))


@pytest.mark.parametrize(("op", "function"), [("Erf", math.erf), ("Erfc", math.erfc), ("Lgamma", math.lgamma)])
def test_special_functions_on_many_numbers(op: str, function: Any) -> None:
    x = np.linspace(0.01, 25, 999) if op == "Lgamma" else np.linspace(-6, 6, 999)
    wanted = np.array([function(one) for one in x])
    (found,) = compute(op, [x])
    assert np.abs(found - wanted).max() <= 8 * np.spacing(np.abs(wanted).max())
    (short,) = compute(op, [x.astype(np.float32)])
    near = np.array([function(float(one)) for one in x.astype(np.float32)])
    assert np.abs(short - near).max() <= 8 * np.spacing(np.float32(np.abs(near).max()))


def test_the_error_function_is_computed_in_blocks() -> None:
    x = np.linspace(-5, 5, 100_001, dtype=np.float32).reshape(-1, 1)
    (whole,) = compute("Erf", [x])
    parts = np.concatenate([compute("Erf", [part])[0] for part in np.array_split(x, 7)])
    assert whole.shape == x.shape
    assert (whole == parts).all()
    assert (np.abs(whole) <= 1).all()


def test_einsum_is_numpys() -> None:
    rng = np.random.default_rng(0)
    for equation in ("abc,cde->abde", "abcd,aecd->acbe", "...ab,bc->...ac", "ab,ab->b", "abc->ca", "aab->b"):
        shapes = [
            [{"a": 2, "b": 3, "c": 4, "d": 5, "e": 6}[letter] for letter in term.replace("...", "")]
            for term in equation.split("->")[0].split(",")
        ]
        arrays = [rng.normal(size=shape) for shape in shapes]
        attrs = {"equation": Attr("string", equation.encode()), "N": Attr("int", len(arrays))}
        np.testing.assert_allclose(compute("Einsum", arrays, attrs)[0], np.einsum(equation, *arrays), rtol=1e-12)
