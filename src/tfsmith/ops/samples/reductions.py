"""Samples of ops that reduce along axes, of running sums and of segments."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy

from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, numbers, samples, types_of

__all__: list[str] = []

_INF, _NAN = float("inf"), float("nan")
_INDEX = ("int32", "int64")


def _types(op: str) -> Iterator[str]:
    """The types that TensorFlow computes on a CPU: not the quantized ones."""
    return (kind for kind in types_of(op) if not kind.startswith("q"))


def _array(kind: str, values: Any) -> Any:
    return numpy.array(values).astype(as_dtype(kind).numpy())


@samples("Sum Prod Mean Max Min EuclideanNorm All Any", n_eps=8)
def _reductions(op: str) -> Iterator[Case]:
    logic = op in ("All", "Any")
    kinds = ["bool"] if logic else list(_types(op))
    low, high = (-2, 2) if op == "Prod" else (-8, 8)
    for kind in kinds:
        x = numbers(kind, 3, 4, low=low, high=high)
        yield case(op, x, numpy.array(1, "int32"), name=kind)
        yield case(op, x, numpy.array([0, 1], "int32"), name=f"{kind}, whole")
        if kind.startswith(("float", "bfloat")):
            for axis in (0, 1):
                edges = _array(kind, [[1, _NAN, 2, _INF, -_INF, -0.0], [_NAN, 1, _INF, _INF, -_INF, -0.0]])
                yield case(op, edges, numpy.array(axis, "int32"), name=f"{kind}, edges along {axis}")
    main = "bool" if logic else "float32"
    x = numbers(main, 2, 3, 4, low=low, high=high)
    for axes in ((0,), (2,), (-1,), (0, 2), (1, 2), (2, 0), (-3, -1), (0, 1, 2), ()):
        for keep, index in product((False, True), _INDEX):
            given = numpy.array(axes, index)
            name = f"axes {axes} in {index}, keep {keep}"
            yield case(op, x, given, name=name, keep_dims=keep, unknown=keep)
    if not logic:
        large = _array("float16", [[300, 4, 2], [250, -200, 1], [0.001, 0.0001, 0]])
        yield case(op, large, numpy.array(1, "int32"), name="float16, squares that are not halves")
    for axes in ((3,), (-4,), (0, 0), (1, -2)):
        yield case(op, x, numpy.array(axes, "int32"), name=f"wrong axes {axes}", unknown=True)
    for kind in kinds:
        if op != "Mean" or kind[:3] not in ("int", "uin"):  # this divides by zero
            yield case(op, numbers(kind, 0, 3), numpy.array(0, "int32"), name=f"{kind}, of nothing")
        if kind[:3] in ("int", "uin"):
            limits = numpy.iinfo(kind)
            x = numpy.array([limits.max, limits.max, limits.max - 3, 2, limits.min, limits.max], kind)
            yield case(op, x, numpy.array(0, "int32"), name=f"{kind}, limits")
    yield case(op, numbers(main, 0, 3), numpy.array(1, "int32"), name="to nothing")
    yield case(op, numbers(main, 0, 0), numpy.array([0, 1], "int32"), name="whole of nothing")
    yield case(op, numbers(main), numpy.zeros(0, "int32"), name="scalar")
    yield case(op, numbers(main, 2, 3), numpy.array([[1], [0]], "int32"), name="a matrix of axes", unknown=True)
    yield case(op, numbers(main, 1, 1), numpy.array([0, 1], "int32"), name="one element")
    yield case(op, numbers(main, 2, 3, 4), numpy.array([1], "int32"), name="constant axes", constants=(1,))


@samples("ArgMax ArgMin")
def _arguments(op: str) -> Iterator[Case]:
    for kind in [*_types(op)]:
        if kind.startswith("complex"):
            continue
        yield case(op, numbers(kind, 3, 4), numpy.array(1, "int32"), name=kind)
        yield case(op, _array(kind, [[1, 2, 2], [0, 0, 0], [2, 1, 2]]), numpy.array(1, "int32"), name=f"{kind}, equals")
        if kind.startswith(("float", "bfloat")):
            edges = [[_NAN, 1, 2], [1, _NAN, 2], [_NAN, _NAN, _NAN], [-_INF, -_INF, -_INF], [_INF, _INF, 1]]
            yield case(op, _array(kind, edges), numpy.array(1, "int32"), name=f"{kind}, edges")
            yield case(
                op, _array(kind, [*edges, [_NAN, -_INF, _INF]]), numpy.array(0, "int32"), name=f"{kind}, edges down"
            )
    x = numbers("float32", 2, 3, 4)
    for axis in (0, 1, 2, -1, -3, 3, -4):
        for index, out in product(_INDEX, _INDEX):
            given = numpy.array(axis, index)
            yield case(op, x, given, name=f"axis {axis} in {index} as {out}", output_type=out, unknown=True)
    yield case(op, numbers("float32", 5), numpy.array(0, "int32"), name="vector")
    yield case(op, numbers("float32", 5), numpy.array([0], "int32"), name="axis in a vector", unknown=True)
    yield case(op, numbers("float32", 0, 3), numpy.array(0, "int32"), name="of nothing", unknown=True)
    yield case(op, numbers("float32", 0, 3), numpy.array(1, "int32"), name="to nothing")


@samples("Cumsum Cumprod CumulativeLogsumexp", n_eps=8)
def _running(op: str) -> Iterator[Case]:
    low, high = (-2, 3) if op == "Cumprod" else (-8, 8)
    for kind in _types(op):
        for exclusive, reverse in product((False, True), repeat=2):
            x = numbers(kind, 3, 4, low=low, high=high)
            name = f"{kind}, exclusive {exclusive}, reverse {reverse}"
            yield case(op, x, numpy.array(1, "int32"), name=name, exclusive=exclusive, reverse=reverse)
    x = numbers("float32", 2, 3, 4, low=low, high=high)
    for axis in (0, 1, -1, -3, 3):
        yield case(op, x, numpy.array(axis, "int64"), name=f"axis {axis}", unknown=True)
        yield case(op, x, numpy.array(axis, "int32"), name=f"axis {axis}, exclusive", exclusive=True, unknown=True)
    yield case(op, numbers("float32", 0, 3), numpy.array(0, "int32"), name="empty")
    edges = _array("float32", [1, _INF, 2, -_INF, 0, _NAN, 1])
    yield case(op, edges, numpy.array(0, "int32"), name="edges")
    yield case(
        op, edges[:3], numpy.array(0, "int32"), name="infinity, exclusive, reverse", exclusive=True, reverse=True
    )
    yield case(op, numbers("float32"), numpy.array(0, "int32"), name="scalar", unknown=True)
    yield case(op, numbers("float32", 3), numpy.array([0], "int32"), name="axis in a vector", unknown=True)


@samples("SegmentSum SegmentProd SegmentMax SegmentMin SegmentMean", n_eps=8)
def _segments(op: str) -> Iterator[Case]:
    low, high = (-3, 3) if op == "SegmentProd" else (-8, 8)
    for kind, index in product(_types(op), _INDEX):
        x = numbers(kind, 5, 2, low=low, high=high)
        yield case(op, x, numpy.array([0, 0, 1, 1, 1], index), name=f"{kind}, {index}")
        yield case(op, x, numpy.array([0, 1, 1, 4, 4], index), name=f"{kind}, {index}, gaps")
        yield case(op, x, numpy.array([2, 2, 3, 3, 3], index), name=f"{kind}, {index}, from two")
    x = numbers("float32", 3)
    for name, ids in (("not sorted", (0, 2, 1)), ("negative", (-1, 0, 1)), ("too few", (0, 1)), ("one", (0, 0, 0))):
        yield case(op, x, numpy.array(ids, "int32"), name=name, unknown=True)
    yield case(op, x[:0], numpy.zeros(0, "int32"), name="empty")
    yield case(op, _array("float32", [_NAN, 1, _INF, -_INF]), numpy.array([0, 0, 1, 2], "int32"), name="edges")


@samples("UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin", n_eps=8)
def _unsorted_segments(op: str) -> Iterator[Case]:
    low, high = (-3, 3) if op == "UnsortedSegmentProd" else (-8, 8)
    for kind, index in product(_types(op), _INDEX):
        x = numbers(kind, 5, 2, low=low, high=high)
        given = numpy.array([2, 0, -1, 2, 0], index), numpy.array(4, "int32")
        yield case(op, x, *given, name=f"{kind}, {index}")
    x = numbers("float32", 2, 3)
    count = numpy.array(3, "int64")
    yield case(op, x, numpy.array([[0, 1, 2], [2, 1, 0]], "int32"), count, name="a matrix of ids")
    yield case(op, x, numpy.array([0, 3], "int32"), count, name="outside", unknown=True)
    yield case(op, x, numpy.array([0, 1, 2], "int32"), count, name="do not fit", unknown=True)
    yield case(op, x, numpy.array([0, 1], "int32"), numpy.array(-1, "int32"), name="negative count", unknown=True)
    yield case(op, x[:0], numpy.zeros(0, "int32"), count, name="empty")
    yield case(op, x, numpy.array([0, 1], "int32"), numpy.array(0, "int32"), name="no segments", unknown=True)
    yield case(op, x, numpy.array([0, 1], "int32"), numpy.array([3], "int32"), name="count in a vector", unknown=True)
    edges = _array("float32", [_NAN, 1, _INF, -_INF])
    yield case(op, edges, numpy.array([0, 0, 1, 2], "int32"), count, name="edges")


@samples(
    "SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN SparseSegmentSumWithNumSegments "
    "SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments",
    n_eps=8,
)
def _sparse_segments(op: str) -> Iterator[Case]:
    def made(x: Any, indices: Any, ids: Any, count: int = 5, **more: Any) -> Case:
        given = [numpy.array(count, "int32")] if "Num" in op else []
        return case(op, x, indices, ids, *given, **more)

    picked, ids = numpy.array([3, 0, 0, 4, 1, 3]), numpy.array([0, 0, 1, 3, 3, 3])
    for kind, index, segment in product(_types(op), _INDEX, _INDEX):
        x = numbers(kind, 5, 3)
        yield made(x, picked.astype(index), ids.astype(segment), name=f"{kind}, {index}, {segment}")
    x = numbers("float32", 5, 3)
    yield made(numbers("float32", 5), picked, ids, name="a vector")
    yield made(numbers("float32", 5, 2, 2), picked, ids, name="three axes")
    yield made(x, picked[:0], ids[:0], name="empty")
    yield made(x, picked, ids + 1, name="from one")
    for name, indices, segments in (
        ("outside", [0, 5], [0, 1]),
        ("negative", [0, -1], [0, 1]),
        ("not sorted", [0, 1], [1, 0]),
        ("negative id", [0, 1], [-1, 0]),
        ("do not fit", [0, 1], [0]),
        ("many", [0, 1], [0, 7]),
    ):
        yield made(x, numpy.array(indices), numpy.array(segments), name=name, unknown=True)
