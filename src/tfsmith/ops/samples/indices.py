"""Samples of ops that look up, scatter, search, sort and count by indices."""

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
_KINDS = tuple(types_of("Reshape"))


def _types(op: str, without: str = "", name: str = "T") -> Iterator[str]:
    """The types that TensorFlow computes on a CPU: not the quantized ones, and not those named."""
    return (kind for kind in types_of(op, name) if not kind.startswith("q") and kind not in without.split())


def _array(kind: str, values: Any) -> Any:
    return numpy.array(values).astype(as_dtype(kind).numpy())


def _ints(*values: Any, kind: str = "int32") -> Any:
    return numpy.array(values, kind)


# Gathering


@samples("Gather GatherV2", exact=True)
def _gather(op: str) -> Iterator[Case]:
    def made(x: Any, ids: Any, axis: int = 0, **more: Any) -> Case:
        return case(op, x, ids, *([numpy.array(axis, "int32")] if op == "GatherV2" else []), **more)

    for kind, index in product(_KINDS, _INDEX):
        yield made(numbers(kind, 4, 3), _ints(3, 0, 3, kind=index), name=f"{kind}, {index}")
    x = numbers("float32", 4, 3)
    yield made(x, numpy.array(2, "int32"), name="one id")
    yield made(numpy.array([b"a", b"b\0"], object), numpy.array(1, "int32"), name="one word")
    yield made(x, _ints([0, 1], [2, 3]), name="a matrix of ids")
    yield made(x, numpy.zeros((0,), "int32"), name="no ids")
    yield made(numbers("float32", 5), _ints(4, 4), name="vector")
    yield made(numbers("float32", 4, 0), _ints(1, 2), name="no columns")
    for ids in ((4,), (-1,), (0, 1, 100)):
        yield made(x, _ints(*ids), name=f"outside {ids}", unknown=True)
    if op == "Gather":
        return
    for axis in (0, 1, -1, -2, 2):
        yield made(x, _ints(2, 0), axis, name=f"axis {axis}", unknown=True)
        yield made(x, _ints([2, 0], [1, 1]), axis, name=f"axis {axis}, a matrix", unknown=True)
    y = numbers("float32", 2, 3, 4)
    yield made(y, _ints([0, 2], [1, 1]), 1, name="batch", batch_dims=1)
    yield made(y, _ints([0, 3], [1, 1]), 2, name="batch, a later axis", batch_dims=1)
    yield made(y, _ints([0, 3], [1, 1]), -1, name="batch, the last axis", batch_dims=-1)
    yield made(y, _ints([[0, 3], [1, 1], [2, 2]], [[3, 3], [0, 1], [1, 2]]), 2, name="a batch of two", batch_dims=2)
    yield made(y, _ints([[0, 1], [2, 2]], [[0, 0], [1, 1]]), 1, name="batch, matrices", batch_dims=1)
    yield made(y, _ints(1, 0), 1, name="batch, one each", batch_dims=1)
    yield made(y, _ints([0, 9], [1, 1]), 1, name="batch, outside", batch_dims=1, unknown=True)
    yield made(y, _ints([0, 1]), 1, name="batches differ", batch_dims=1, unknown=True)


@samples("GatherNd", exact=True)
def _gather_nd(op: str) -> Iterator[Case]:
    for kind, index in product(_KINDS, (*_INDEX, "int16")):
        yield case(op, numbers(kind, 3, 4), _ints([0, 1], [2, 3], kind=index), name=f"{kind}, {index}")
    x = numbers("float32", 2, 3, 4)
    for name, ids in (
        ("rows", [[1], [0], [1]]),
        ("deep", [[1, 2, 3], [0, 0, 0]]),
        ("pairs", [[[1, 2], [0, 1]], [[0, 0], [1, 1]]]),
        ("one", [1, 2]),
        ("outside", [[2, 0]]),
        ("negative", [[-1, 0]]),
        ("too deep", [[0, 0, 0, 0]]),
    ):
        yield case(op, x, numpy.array(ids, "int32"), name=name, unknown=True)
    yield case(op, numbers("float32", 2, 2), numpy.zeros((3, 0), "int32"), name="no axes")
    yield case(op, x, numpy.zeros((0, 2), "int32"), name="no ids")
    yield case(op, numbers("float32", 6, 0), numpy.zeros((2, 1), "int32"), name="rows without elements", unknown=True)
    yield case(op, numbers("float32", 6, 0), numpy.zeros((2, 0), "int32"), name="no axes, no elements", unknown=True)
    yield case(op, numbers("float32", 0, 6), numpy.zeros((0, 1), "int32"), name="no rows, no ids", unknown=True)
    yield case(op, numpy.array([b"a", b"b\0"], object), _ints(1), name="one word")
    yield case(op, x, _ints([5, 0], [1, 1]), name="ignored", bad_indices_policy="IGNORE")


@samples("Where", exact=True)
def _where(op: str) -> Iterator[Case]:
    for kind in _types(op):
        yield case(op, numbers(kind, 3, 4, low=-1, high=2), name=kind)
    yield case(op, numbers("bool", 2, 2, 3), name="three axes")
    yield case(op, numbers("bool", 7), name="vector")
    yield case(op, numbers("bool", 0, 2), name="empty")
    yield case(op, numbers("bool"), name="scalar", unknown=True)
    yield case(op, numpy.zeros((2, 2), bool), name="none")
    yield case(op, _array("float32", [0.0, -0.0, _NAN, _INF]), name="edges")


@samples("DynamicPartition", exact=True)
def _dynamic_partition(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 4, 2), _ints(1, 0, 1, 2), name=kind, num_partitions=3)
    x = numbers("float32", 2, 3)
    yield case(op, x, _ints([0, 1, 0], [1, 1, 0]), name="a matrix", num_partitions=2)
    yield case(op, x[0, 0], numpy.array(1, "int32"), name="a scalar", num_partitions=2)
    yield case(op, x, _ints(0, 2), name="outside", num_partitions=2, unknown=True)
    yield case(op, x, _ints(0, -1), name="negative", num_partitions=2, unknown=True)
    yield case(op, x, _ints(0, 1, 0), name="do not fit", num_partitions=2, unknown=True)
    yield case(op, x[:0], numpy.zeros(0, "int32"), name="empty", num_partitions=2)


@samples("DynamicStitch ParallelDynamicStitch", exact=True)
def _dynamic_stitch(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        ids = [_ints(0, 2), numpy.array(1, "int32"), _ints([4, 3])]
        yield case(
            op, ids, [numbers(kind, 2, 2), numbers(kind, 2, start=5), numbers(kind, 1, 2, 2, start=9)], name=kind
        )
    if op == "DynamicStitch":
        yield case(
            op, [_ints(0, 1), _ints(1, 0)], [numbers("float32", 2), numbers("float32", 2, start=9)], name="twice"
        )
    yield case(op, [_ints(0, 1)], [numbers("float32", 3)], name="do not fit", unknown=True)
    yield case(op, [numpy.zeros(0, "int32")], [numbers("float32", 0, 2)], name="empty")


# Scattering


@samples("ScatterNd", exact=True)
def _scatter_nd(op: str) -> Iterator[Case]:
    for kind, index in product(_KINDS, _INDEX):
        if kind == "string" and index == "int64":
            continue
        given = _ints([1], [3], kind=index), numbers(kind, 2, 3), _ints(4, 3, kind=index)
        yield case(op, *given, name=f"{kind}, {index}")
    for kind in ("float32", "int32", "bool", "complex64"):
        yield case(op, _ints([1], [1], [0]), numbers(kind, 3), _ints(3), name=f"{kind}, twice")
    x = numbers("float32", 2)
    yield case(op, _ints([0, 1], [1, 2]), x, _ints(2, 3), name="pairs")
    yield case(op, _ints([[0], [1]], [[2], [0]]), numbers("float32", 2, 2, 2), _ints(3, 2), name="a matrix of ids")
    yield case(op, _ints(1), numbers("float32", 2), _ints(3, 2), name="one")
    yield case(op, _ints(1, 0, 2), numbers("float32", 3, 2), _ints(3, 2), name="ids of rows")
    yield case(op, _ints(1, 0, 2), numbers("float32", 3), _ints(3), name="ids")
    yield case(op, numpy.zeros((0, 1), "int32"), numbers("float32", 0, 2), _ints(3, 2), name="none")
    yield case(op, _ints([0], [3]), x, _ints(3), name="outside", unknown=True)
    yield case(op, _ints([0], [-1]), x, _ints(3), name="negative", unknown=True)
    yield case(op, _ints([0], [1]), numbers("float32", 3), _ints(3), name="do not fit", unknown=True)
    yield case(op, _ints([0], [5]), x, _ints(3), name="ignored", bad_indices_policy="IGNORE")


@samples(
    "TensorScatterUpdate TensorScatterAdd TensorScatterSub TensorScatterMax TensorScatterMin ScatterNdNonAliasingAdd",
    exact=True,
)
def _tensor_scatter(op: str) -> Iterator[Case]:
    without = {
        "TensorScatterUpdate": "",
        "TensorScatterAdd": "bool string",
        "TensorScatterSub": "bool string",
        "ScatterNdNonAliasingAdd": "",
    }.get(op, "bool string complex64 complex128")
    for kind, index in product(_types(op, without), _INDEX):
        given = _ints([1], [3], kind=index), numbers(kind, 2, 3, start=30)
        yield case(op, numbers(kind, 4, 3), *given, name=f"{kind}, {index}")
    x = numbers("float32", 3, 4)
    y = numbers("float32", 2, start=30)
    yield case(op, x, _ints([0, 1], [2, 2]), y, name="pairs")
    yield case(op, x, numpy.zeros((0, 1), "int32"), numbers("float32", 0, 4), name="none")
    yield case(op, x, _ints(1, 0), numbers("float32", 2, 4), name="ids of rows")
    yield case(op, x[0], _ints([1], [1], [0]), numbers("float32", 3, start=30), name="twice")
    yield case(op, x, _ints([0, 4], [2, 2]), y, name="outside", unknown=True)
    yield case(op, x, _ints([0, -1], [2, 2]), y, name="negative", unknown=True)
    yield case(op, x, _ints([0, 1], [2, 2]), x[0], name="do not fit", unknown=True)
    edges = _array("float32", [1, _NAN, _NAN, 2])
    given = _ints([0], [1], [2], [3], [3]), _array("float32", [_NAN, 1, _NAN, 5, _INF])
    yield case(op, edges, *given, name="edges")


@samples("InplaceUpdate InplaceAdd InplaceSub", exact=True)
def _inplace(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "int64"):
        yield case(op, numbers(kind, 4, 2), _ints(3, 0), numbers(kind, 2, 2, start=9), name=kind)
    yield case(op, numbers("float32", 4, 2), _ints(-1, 5), numbers("float32", 2, 2), name="modulo")
    yield case(op, numbers("float32", 4, 2), _ints(0), numbers("float32", 2, 2), name="do not fit", unknown=True)


# Sorting and searching


@samples("TopKV2", exact=True)
def _top_k(op: str) -> Iterator[Case]:
    for kind in _types(op):
        for name, k in (("three", 3), ("all", 6), ("the first of equals", 1)):
            yield case(op, _array(kind, [1, 3, 2, 3, 1, 3]), _ints(k)[0], name=f"{kind}, {name}")
        yield case(op, numbers(kind, 2, 5), numpy.array(3, "int32"), name=f"{kind}, rows")
    x = numbers("float32", 2, 2, 4)
    for k in (0, 1, 4, 5, -1):
        yield case(op, x, numpy.array(k, "int32"), name=f"k = {k}", unknown=True)
    edges = _array("float32", [_INF, -_INF, 0.0, -0.0, 1.0])
    yield case(op, edges, numpy.array(5, "int32"), name="edges")
    yield case(op, numbers("float32", 0, 3), numpy.array(2, "int32"), name="no rows")
    yield case(op, numbers("float32"), numpy.array(1, "int32"), name="scalar", unknown=True)
    yield case(op, x, numpy.array(2, "int32"), name="ids in int64", index_type="int64")
    yield case(op, x, numpy.array(2, "int64"), name="k in int64")
    yield case(op, x, numpy.array(2, "int16"), name="k and ids in int16", index_type="int16")


@samples("NthElement", exact=True)
def _nth_element(op: str) -> Iterator[Case]:
    for kind, reverse in product(_types(op), (False, True)):
        x = numbers(kind, 2, 5)
        yield case(op, x, numpy.array(1, "int32"), name=f"{kind}, reverse {reverse}", reverse=reverse)
    for n in (0, 4, 5, -1):
        yield case(op, numbers("float32", 5), numpy.array(n, "int32"), name=f"n = {n}", unknown=True)


@samples("InTopK InTopKV2", exact=True)
def _in_top_k(op: str) -> Iterator[Case]:
    def made(x: Any, targets: Any, k: int, **more: Any) -> Case:
        if op == "InTopK":
            return case(op, x, targets, k=k, **more)
        return case(op, x, targets, numpy.array(k, targets.dtype), **more)

    x = numbers("float32", 4, 5)
    for kind, k in product(_INDEX, (0, 1, 2, 5, 9)):
        yield made(x, _ints(0, 4, 2, 1, kind=kind), k, name=f"{kind}, k = {k}")
    rows = _array("float32", [[1, 1, 0], [_NAN, 1, 0], [_INF, 1, 0], [0, 1, 0], [1, 2, 3]])
    yield made(rows, _ints(1, 1, 1, 5, -1), 1, name="edges")
    yield made(rows, _ints(0, 2, 0, 1, 2), 2, name="more edges")
    yield made(x, _ints(0, 1), 1, name="do not fit", unknown=True)


@samples("LowerBound UpperBound", exact=True)
def _bounds(op: str) -> Iterator[Case]:
    for kind in (kind for kind in _KINDS if kind not in ("bool", "string", "complex64", "complex128")):
        ordered = _array(kind, [[1, 2, 2, 5], [0, 1, 7, 9]])
        yield case(op, ordered, _array(kind, [[0, 2, 3, 5, 9], [1, 0, 9, 8, 10]]), name=kind)
    ordered, values = _array("float32", [[1, 2, 2, 5]]), _array("float32", [[2, _INF, -_INF]])
    yield case(op, ordered, values, name="in int64", out_type="int64")
    yield case(op, ordered[:, :0], values, name="empty")
    yield case(op, ordered, numbers("float32", 2, 2), name="rows differ", unknown=True)


@samples("Bucketize", exact=True)
def _bucketize(op: str) -> Iterator[Case]:
    for kind in _types(op):
        yield case(op, numbers(kind, 3, 4), name=kind, boundaries=[-3.0, 0.0, 2.5, 6.0])
    edges = _array("float32", [0, -0.0, 2.5, 6, _INF, -_INF, 5.75])
    yield case(op, edges, name="edges", boundaries=[0.0, 2.5, 6.0])
    yield case(op, edges, name="not sorted", boundaries=[2.5, 0.0])
    yield case(op, edges[:0], name="empty", boundaries=[0.0])


# Sets of values


@samples("Unique UniqueWithCounts", exact=True)
def _unique(op: str) -> Iterator[Case]:
    for kind, out in product(_types(op, "complex64 complex128"), _INDEX):
        yield case(op, numbers(kind, 12, low=0, high=4), name=f"{kind} as {out}", out_idx=out)
    yield case(op, numbers("int32", 0), name="empty")
    yield case(op, _array("float32", [_NAN, 1, 1, 0.0, -0.0]), name="edges")
    yield case(op, numbers("int32", 2, 2), name="a matrix", unknown=True)


@samples("UniqueV2 UniqueWithCountsV2", exact=True)
def _unique_v2(op: str) -> Iterator[Case]:
    none = numpy.zeros(0, "int32")
    for kind in _types(op, "complex64 complex128"):
        yield case(op, numbers(kind, 12, low=0, high=4), none, name=kind)
        yield case(op, numbers(kind, 6, 2, low=0, high=2), _ints(0), name=f"{kind}, rows")
    x = numbers("int32", 2, 3, 2, low=0, high=2)
    for axis in (0, 1, 2, -1, 3):
        yield case(op, x, _ints(axis, kind="int64"), name=f"axis {axis}", unknown=True)
    yield case(op, x, none, name="no axis", unknown=True)
    yield case(op, x[0], _ints(1), name="in int64", out_idx="int64")


@samples("ListDiff", exact=True)
def _list_diff(op: str) -> Iterator[Case]:
    for kind, out in product(_types(op, "bool complex64 complex128"), _INDEX):
        x, y = numbers(kind, 10, low=0, high=9), numbers(kind, 3, start=4, low=0, high=9)
        yield case(op, x, y, name=f"{kind} as {out}", out_idx=out)
    yield case(op, numbers("int32", 4), numbers("int32", 0), name="of nothing")
    yield case(op, numbers("int32", 2, 2), numbers("int32", 2), name="a matrix", unknown=True)


@samples("ApproxTopK", exact=True)
def _approx_top_k(op: str) -> Iterator[Case]:
    for kind in ("float32", "float16", "bfloat16"):
        yield case(op, numbers(kind, 3, 6), name=kind, k=2)
    yield case(op, _array("float32", [[1, 3, 3, 3, 2]]), name="ties", k=3)


@samples("IsotonicRegression", ulps=4)
def _isotonic(op: str) -> Iterator[Case]:
    for kind, out in (("float32", "float32"), ("float64", "float64"), ("int32", "float32"), ("int8", "float64")):
        yield case(op, numbers(kind, 3, 7), name=f"{kind} to {out}", output_dtype=out)
    yield case(op, _array("float32", [[3, 3, 3, 4, 4, 1], [1, 2, 3, 4, 5, 6], [6, 5, 4, 3, 2, 1]]), name="ties")
    yield case(op, numbers("float32", 0, 3), name="no rows")
    yield case(op, numbers("float32", 3), name="a vector", unknown=True)


@samples("NearestNeighbors", n_eps=8)
def _nearest(op: str) -> Iterator[Case]:
    points, centers = numbers("float32", 4, 3), numbers("float32", 5, 3, start=40)
    for k in (1, 2, 5, 9):
        yield case(op, points, centers, numpy.array(k, "int64"), name=f"{k} of 5")
    yield case(op, points, centers[:, :2], numpy.array(1, "int64"), name="do not fit", unknown=True)
    yield case(op, points, centers, numpy.array(0, "int64"), name="none")
