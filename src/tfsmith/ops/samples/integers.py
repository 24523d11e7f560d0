"""Samples of integers that do not fit 32 bits, and of those that a float32 does not hold: engines compute with such."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.samples import Case, case, samples
from tfsmith.ops.samples.draft import Draft

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_LARGE = numpy.array([[2**24 + 1, -(2**24) - 3, 7], [2**30 + 1, -(2**30) - 1, 2**31 - 1]], "int32")
_SMALL = numpy.array([[3, -5, 2], [1, 7, -2]], "int32")
_PAIRS = ("AddV2", "Sub", "Mul", "Equal", "Less", "Maximum", "Minimum", "FloorDiv", "FloorMod", "NotEqual", "Greater")
_AXIS = numpy.array([0], "int32")
_WIDE = numpy.array([[2**40, -(2**40), 7], [2**31, -(2**31) - 1, 2**62 + 1]], "int64")


@samples("Add Div TruncateDiv TruncateMod Mod SquaredDifference BitwiseAnd BitwiseOr BitwiseXor LeftShift"
         " RightShift GreaterEqual LessEqual Pow", exact=True)  # fmt: skip
def _large_pairs(op: str) -> Iterator[Case]:
    yield from _large_of_two(op)


def _large_of_two(op: str) -> Iterator[Case]:
    small = numpy.abs(_SMALL) if op in ("LeftShift", "RightShift", "Pow") else _SMALL
    yield case(op, _LARGE, small, name="int32 that a float32 does not hold")


@samples("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3 Einsum", exact=True)
def _large_products(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64"):
        x, y = _LARGE.astype(kind), numpy.array([[1, 0], [1, 1], [0, 1]], kind)
        pair = [[x, y]] if op == "Einsum" else [x, y]
        attrs: dict[str, Any] = {"Einsum": {"equation": "ab,bc->ac"}, "BatchMatMulV3": {"Tout": kind}}.get(op, {})
        yield case(op, *pair, name=f"{kind} that a float32 does not hold", **attrs)


@samples("Prod Mean Min Cumsum Cumprod Square Sign Relu Relu6 ArgMax ArgMin TopKV2 AddN ClipByValue ScatterNd"
         " TensorScatterAdd TensorScatterUpdate UnsortedSegmentSum UnsortedSegmentMax SegmentSum Concat Unpack"
         " ReverseV2 BroadcastTo OneHot GatherNd MirrorPad PadV2 SpaceToDepth Roll Range Unique Bucketize"
         " EuclideanNorm",
         exact=True)  # fmt: skip
def _large_integers(op: str) -> Iterator[Case]:
    x, rows = _LARGE, numpy.array([1, 1], "int32")
    many: dict[str, list[Any]] = {
        "Prod Mean Min EuclideanNorm ReverseV2": [x, _AXIS],
        "Cumsum Cumprod ArgMax ArgMin": [x, _AXIS[0]],
        "Square Sign Relu Relu6 Bucketize Unpack": [x],
        "TopKV2": [x, numpy.array(2, "int32")],
        "AddN": [[x, _SMALL]],
        "ClipByValue": [x, numpy.array(-(2**24) - 1, "int32"), numpy.array(2**30 - 1, "int32")],
        "ScatterNd": [numpy.array([[1], [1]], "int32"), x, numpy.array([3, 3], "int32")],
        "TensorScatterAdd TensorScatterUpdate": [x, numpy.array([[1]], "int32"), x[:1]],
        "UnsortedSegmentSum UnsortedSegmentMax": [x, rows, numpy.array(2, "int32")],
        "SegmentSum": [x, rows],
        "Concat": [_AXIS[0], [x, x]],
        "BroadcastTo": [x, numpy.array([2, 2, 3], "int32")],
        "OneHot": [numpy.array([1, 0], "int32"), numpy.array(3, "int32"), x[0, 0], x[1, 0]],
        "GatherNd": [x, numpy.array([[1, 2], [0, 0]], "int32")],
        "MirrorPad": [x, numpy.array([[1, 0], [0, 1]], "int32")],
        "PadV2": [x, numpy.array([[1, 0], [0, 1]], "int32"), x[0, 0]],
        "SpaceToDepth": [x[:, :2].reshape(1, 2, 2, 1)],
        "Roll": [x, rows, numpy.array([0, 1], "int32")],
        "Range": [x[0, 0], x[0, 0] + 9, numpy.array(2, "int32")],
        "Unique": [x.reshape(-1)],
    }
    given = {name: inputs for names, inputs in many.items() for name in names.split()}
    attrs: dict[str, Any] = {
        "Unpack": {"num": 2},
        "Bucketize": {"boundaries": [2.0**24, 2.0**30]},
        "MirrorPad": {"mode": "SYMMETRIC"},
        "SpaceToDepth": {"block_size": 2},
    }
    yield case(op, *given[op], name="int32 that a float32 does not hold", **attrs.get(op, {}))


@samples("Identity AddV2 Sub Mul Equal Less Reshape Transpose ConcatV2 Pack GatherV2 Cast Squeeze ExpandDims Tile Sum"
         " Max StridedSlice Slice SelectV2 Neg Abs Pad Split Maximum Minimum FloorDiv FloorMod NotEqual Greater",
         exact=True)  # fmt: skip
def _wide_integers(op: str) -> Iterator[Case]:
    if op in _PAIRS:
        yield from _large_of_two(op)
    yield _one_integer_op(op, _WIDE, "int64 that does not fit 32 bits")
    if op not in _PAIRS:
        yield _one_integer_op(op, _LARGE, "int32 that a float32 does not hold")


def _one_integer_op(op: str, values: NDArray[Any], name: str) -> Case:
    draft = Draft()
    x, one = draft.feed(values), draft.const(numpy.array(3, values.dtype))
    if op in ("Identity", "Neg", "Abs", "Squeeze"):
        y = draft.add(op, x)
    elif op in ("Reshape", "Transpose", "Tile", "Sum", "Max", "ExpandDims"):
        given: dict[str, Any] = {
            "Reshape": [3, 2],
            "Transpose": [1, 0],
            "Tile": [1, 2],
            "Sum": [0],
            "Max": [0],
            "ExpandDims": 1,
        }
        y = draft.add(op, x, draft.const(given[op]))
    elif op in ("ConcatV2", "Pack"):
        y = draft.add(op, [x, x], draft.const(0)) if op == "ConcatV2" else draft.add(op, [x, x], axis=0)
    elif op == "GatherV2":
        y = draft.add(op, x, draft.const([1, 0]), draft.const(0))
    elif op == "Cast":
        y = draft.add(op, x, DstT="float32")
    elif op == "StridedSlice":
        y = draft.add(op, x, draft.const([0]), draft.const([1]), draft.const([1]), shrink_axis_mask=1)
    elif op == "Slice":
        y = draft.add(op, x, draft.const([0, 1]), draft.const([2, 2]))
    elif op == "SelectV2":
        y = draft.add(op, draft.add("Less", x, one), x, one)
    elif op == "Pad":
        y = draft.add(op, x, draft.const([[1, 0], [0, 1]]))
    elif op == "Split":
        y = draft.add(op, draft.const(0), x, num_split=2)
    else:
        y = draft.add(op, x, one)
    return draft.case(op, name, y)
