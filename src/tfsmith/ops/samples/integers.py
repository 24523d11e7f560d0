"""Samples of integers that do not fit 32 bits, which some engines take for granted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, samples
from tfsmith.ops.samples.draft import Draft

__all__: list[str] = []

_WIDE = numpy.array([[2**40, -(2**40), 7], [2**31, -(2**31) - 1, 2**62 + 1]], "int64")


@samples("Identity AddV2 Sub Mul Equal Less Reshape Transpose ConcatV2 Pack GatherV2 Cast Squeeze ExpandDims Tile Sum"
         " Max StridedSlice Slice SelectV2 Neg Abs Pad Split Maximum Minimum FloorDiv FloorMod NotEqual Greater",
         exact=True)  # fmt: skip
def _wide_integers(op: str) -> Iterator[Case]:
    draft = Draft()
    x, one = draft.feed(_WIDE), draft.const(numpy.array(3, "int64"))
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
    yield draft.case(op, "int64 that does not fit 32 bits", y)
