"""Rows that belong together: segments, counts of numbers, partitions and what joins them again."""

from __future__ import annotations

from types import MappingProxyType

import numpy

from tfsmith.ir.types import DType
from tfsmith.onnx.arrays import SCATTERED, movable
from tfsmith.onnx.builder import BOOL, FLOAT32, INT32, INT64, Builder, Refusal, Val
from tfsmith.onnx.elementwise import widened
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops.sizes import Dims, Known

__all__ = ["added_rows", "all_true", "counted", "strides"]

_REDUCTIONS = MappingProxyType({"Sum": "add", "Mean": "add", "SqrtN": "add", "Prod": "mul", "Max": "max", "Min": "min"})


def all_true(b: Builder, truths: Val) -> Val:
    """Whether all of a tensor's truths hold: a scalar. Of none, it is true."""
    wrong = b.cast(b.op("Not", truths, dtype=BOOL), INT32)
    flat = b.concat([b.reshape(wrong, [-1]), b.const([0], INT32)], 0)
    return b.op("Equal", b.op("ReduceMax", flat, keepdims=0), b.const(0, INT32), dtype=BOOL, dims=())


def counted(b: Builder, count: Val) -> Val:
    """The whole numbers below a number, which is a vector of one."""
    size = (count.known.values or (None,))[0]
    return b.op("Range", b.const(0), b.squeeze(count, [0]), b.const(1), dtype=INT64, dims=(size,))


def _rows_of(b: Builder, x: Val, axes: int) -> Val:
    """A tensor whose first axes are made one."""
    rest = [b.size(x, at) for at in range(axes, x.rank)]
    dims: Dims = (None, *(x.dims or ())[axes:])
    return b.reshape(x, b.concat([b.const([-1]), *rest], 0), dims) if axes != 1 else x


def _flat(b: Builder, x: Val) -> Val:
    """A tensor as a vector."""
    return x if x.rank == 1 else b.op("Reshape", x, b.const([-1]), dims=(None,))


def added_rows(b: Builder, x: Val, ids: Val, count: Val, reduction: str, start: Val) -> Val:
    """Rows, put together by the row that their id names; with an id below zero they go nowhere.

    Args:
        b: The builder.
        x: The rows.
        ids: Their ids, int64.
        count: How many rows there are to be, a vector of one.
        reduction: What two rows give.
        start: What a row is that no id names.
    """
    is_none = b.op("Less", ids, b.const(0), dtype=BOOL)
    most = b.op("ReduceMax", b.concat([ids, b.const([-1])], 0), keepdims=0)
    end = b.asserted(count, b.op("Less", b.reshape(most, [1]), count, dtype=BOOL))
    rest = [b.size(x, at) for at in range(1, x.rank)]
    empty = b.op("Expand", start, b.concat([b.op("Add", end, b.const([1])), *rest], 0))
    places = b.unsqueeze(b.op("Where", is_none, end, ids, dtype=INT64, dims=ids.dims), [1])
    found = b.op("ScatterND", empty, places, x, reduction=reduction)
    kept = b.op("Slice", found, b.const([0]), end, b.const([0]))
    kept.known = Known((None, *(x.dims or ())[1:]))
    return kept


def _start(reduction: str, kind: DType, own: DType, *, is_sorted: bool) -> object:
    """What nothing is, for a reduction; of sorted ids, an extreme of nothing is replaced afterwards."""
    if reduction in ("add", "mul"):
        return int(reduction == "mul")
    is_least = reduction == "max"
    if kind.name in ("float32", "float64"):
        if is_sorted:
            return float("-inf" if is_least else "inf")
        limits = numpy.finfo(own.numpy())
        return limits.min if is_least else limits.max
    whole = numpy.iinfo(own.numpy())
    return whole.min if is_least else whole.max


@lowering("UnsortedSegmentSum UnsortedSegmentProd UnsortedSegmentMax UnsortedSegmentMin")
def _unsorted(n: NodeContext) -> Val:
    b, x = n.b, n.x
    reduction = _REDUCTIONS[n.op.removeprefix("UnsortedSegment")]
    if n.inputs[2].dims != ():
        raise Refusal("the number of its segments is no scalar")
    kind = widened(x.dtype, SCATTERED, wraps=reduction in ("add", "mul"))
    if x.dtype.name in ("float16", "bfloat16") and reduction in ("max", "min"):
        raise Refusal(f"it is not lowered for {x.dtype.name}")
    axes = n.y.rank
    if axes < 1 or axes > x.rank:
        raise Refusal("its ids are no tensor, or have more axes than its rows")
    ids = _flat(b, b.int64(n.y))
    rows = b.cast(_rows_of(b, x, axes), kind)
    count = b.reshape(b.int64(n.inputs[2]), [1])
    found = added_rows(b, rows, ids, count, reduction, b.const(_start(reduction, kind, x.dtype, is_sorted=False), kind))
    return b.cast(found, n.dtype)


@lowering(
    "SegmentSum SegmentMean SegmentProd SegmentMax SegmentMin SparseSegmentSum SparseSegmentMean SparseSegmentSqrtN "
    "SparseSegmentSumWithNumSegments SparseSegmentMeanWithNumSegments SparseSegmentSqrtNWithNumSegments"
)
def _sorted(n: NodeContext) -> Val:
    """Of rising ids, which the run checks; the sparse ones pick their rows first."""
    b, x = n.b, n.x
    is_sparse = n.op.startswith("Sparse")
    name = n.op.removeprefix("Sparse").removeprefix("Segment").removesuffix("WithNumSegments")
    reduction = _REDUCTIONS[name]
    ids = b.int64(n.inputs[2] if is_sparse else n.y)
    if ids.rank != 1 or x.rank < 1:
        raise Refusal("its ids are no vector")
    if name in ("Max", "Min") and x.dtype.name in ("float16", "bfloat16"):
        raise Refusal(f"it is not lowered for {x.dtype.name}")
    if name in ("Mean", "SqrtN") and x.dtype.name not in ("float32", "float64"):
        raise Refusal(f"it is not lowered for {x.dtype.name}")
    kind = widened(x.dtype, SCATTERED, wraps=reduction in ("add", "mul"))
    if is_sparse:
        x = b.op("Gather", x, b.indices(n.y), axis=0, dims=(None, *(x.dims or ())[1:]))
    ids = b.asserted(ids, _is_rising(b, ids))
    if n.op.endswith("WithNumSegments"):
        if n.inputs[3].dims != ():
            raise Refusal("the number of its segments is no scalar")
        count = b.reshape(b.int64(n.inputs[3]), [1])
    else:
        most = b.op("ReduceMax", b.concat([ids, b.const([-1])], 0), keepdims=1, dims=(1,))
        count = b.op("Add", most, b.const([1]), dims=(1,))
    rows = b.cast(x, kind)
    found = added_rows(b, rows, ids, count, reduction, b.const(_start(reduction, kind, x.dtype, is_sorted=True), kind))
    if name in ("Sum", "Prod"):
        return b.cast(found, n.dtype)
    ones = b.op("Expand", b.const(1), b.shape(ids), dims=ids.dims)
    sizes = b.reshape(added_rows(b, ones, ids, count, "add", b.const(0)), [-1, *([1] * (n.x.rank - 1))])
    if name in ("Max", "Min"):
        is_empty = b.op("Equal", sizes, b.const(0), dtype=BOOL)
        return b.cast(b.op("Where", is_empty, b.const(0, kind), found, dtype=kind), n.dtype)
    parts = b.cast(b.op("Max", b.cast(sizes, FLOAT32), b.const(1, FLOAT32)), kind)
    return b.cast(b.op("Div", found, parts if name == "Mean" else b.op("Sqrt", parts)), n.dtype)


def _is_rising(b: Builder, ids: Val) -> Val:
    """Whether ids are not below zero, and none is less than the one before it."""
    before = b.concat([b.const([0]), b.slice(ids, [0], [-1], [0])], 0)
    before = b.op("Slice", before, b.const([0]), b.shape(ids), b.const([0]))  # of no ids, none is before one
    return all_true(b, b.op("GreaterOrEqual", ids, before, dtype=BOOL))


# Counting


@lowering("Bincount DenseBincount")
def _bincount(n: NodeContext) -> Val:
    """Numbers that are too large are counted in a place behind the others, which is cut off."""
    b, x, weights = n.b, _whole(n, n.x), n.inputs[2]
    if n.y.dims != ():
        raise Refusal("its size is no scalar")
    if weights.dims is None or (any(not isinstance(size, int) for size in weights.dims) and weights.dims != x.dims):
        raise Refusal("whether it has weights is not known before it runs")
    has_weights = 0 not in weights.dims
    kind = widened(weights.dtype, SCATTERED, wraps=True)
    is_matrix = x.rank == 2 and n.op == "DenseBincount"
    if n.op == "DenseBincount" and x.rank > 2:
        raise Refusal("it counts vectors and matrices")
    size = b.reshape(b.int64(n.y), [1])
    size = b.asserted(size, b.op("GreaterOrEqual", size, b.const([0]), dtype=BOOL))
    room = b.op("Add", size, b.const([1]), dims=(1,))
    x = b.asserted(x, all_true(b, b.op("GreaterOrEqual", x, b.const(0), dtype=BOOL)))
    places = b.op("Where", b.op("Less", x, size, dtype=BOOL), x, size, dtype=INT64, dims=x.dims)
    rows = b.size(x, 0) if is_matrix else b.const([1])
    if is_matrix:
        starts = b.op("Mul", counted(b, rows), room, dims=(None,))
        places = b.op("Add", places, b.unsqueeze(starts, [1]))
    flat = b.reshape(places, [-1])
    zeros = b.op("Expand", b.const(0, kind), b.op("Mul", rows, room))
    is_binary = n.op == "DenseBincount" and bool(n.attr("binary_output"))
    if is_binary or not has_weights:
        loads = b.op("Expand", b.const(1, kind), b.op("Shape", flat, dtype=INT64, dims=(1,)))
    else:
        if weights.dims != x.dims:
            raise Refusal("its weights are not known to have the shape of its numbers")
        loads = b.reshape(b.cast(weights, kind), [-1])
    reduction = "max" if is_binary else "add"
    found = b.op("ScatterND", zeros, b.op("Unsqueeze", flat, b.const([1])), loads, reduction=reduction)
    wide = b.op("Reshape", found, b.concat([rows, room], 0), dims=(None, None), allowzero=1)
    kept = b.op("Slice", wide, b.const([0]), size, b.const([1]), dims=(None, None))
    return b.cast(kept if is_matrix else b.squeeze(kept, [0]), n.dtype)


def _whole(n: NodeContext, x: Val) -> Val:
    """Numbers that are counted, as int64."""
    if x.dtype.name not in ("int32", "int64"):
        raise Refusal(f"it is not lowered for {x.dtype.name}")
    return n.b.int64(x)


# Partitions


@lowering("DynamicPartition")
def _partition(n: NodeContext) -> list[Val]:
    b, x, count = n.b, n.x, int(n.attr("num_partitions"))
    axes = n.y.rank
    if x.dtype.name == "string" and x.rank > axes:
        raise Refusal("onnxruntime loses strings that are gathered in rows")
    ids = _flat(b, n.y)
    inside = b.op("And", b.op("GreaterOrEqual", ids, b.const(0, ids.dtype), dtype=BOOL),
                  b.op("Less", ids, b.const(count, ids.dtype), dtype=BOOL))  # fmt: skip
    ids = b.asserted(ids, all_true(b, inside))
    rows = movable(b, _rows_of(b, x, axes) if axes else b.unsqueeze(x, [0]))
    dims = (None, *(x.dims or ())[axes:])
    chosen = [b.op("Equal", ids, b.const(at, ids.dtype), dtype=BOOL) for at in range(count)]
    return [b.cast(b.op("Compress", rows, one, axis=0, dims=dims), x.dtype) for one in chosen]


@lowering("DynamicStitch ParallelDynamicStitch")
def _stitch(n: NodeContext) -> Val:
    """Which row comes last of those that go to a place, then that row; zeros where none goes."""
    b, count = n.b, int(n.attr("N"))
    places, data = n.inputs[:count], n.inputs[count:]
    kind = n.dtype
    if kind.name == "string":
        raise Refusal("it is not lowered for string")
    joined = b.indices(b.concat([_flat(b, b.int64(one)) for one in places], 0, Known((None,))))
    rest = data[0].rank - places[0].rank
    parts = [_rows_of(b, one, where.rank) if where.rank else b.unsqueeze(one, [0])
             for one, where in zip(data, places, strict=True)]  # fmt: skip
    rows = movable(b, b.concat(parts, 0, Known((None, *(data[0].dims or ())[data[0].rank - rest :]))))
    most = b.op("ReduceMax", b.concat([joined, b.const([-1])], 0), keepdims=1, dims=(1,))
    size = b.op("Add", most, b.const([1]), dims=(1,))
    numbers = b.op("Add", counted(b, b.op("Shape", joined, dtype=INT64, dims=(1,))), b.const(1), dims=(None,))
    last = b.op("ScatterND", b.op("Expand", b.const(0), size), b.unsqueeze(joined, [1]), numbers, reduction="max")
    zero = b.op(
        "Expand", b.const(0, rows.dtype), b.concat([b.const([1]), *(b.size(rows, at) for at in range(1, rows.rank))], 0)
    )
    return b.cast(b.op("Gather", b.concat([zero, rows], 0), last, axis=0), kind)


# Sets and places


@lowering("ListDiff")
def _difference(n: NodeContext) -> list[Val]:
    b, x, y = n.b, n.x, n.y
    kind = widened(x.dtype, ("int32", "int64", "float32", "float64"))
    if x.rank != 1 or y.rank != 1:
        raise Refusal("its lists are no vectors")
    alike = b.op("Equal", b.unsqueeze(b.cast(x, kind), [1]), b.unsqueeze(b.cast(y, kind), [0]), dtype=BOOL)
    times = b.op("ReduceSum", b.cast(alike, INT32), b.const([1]), keepdims=0)
    is_left = b.op("Equal", times, b.const(0, INT32), dtype=BOOL, dims=x.dims)
    places = counted(b, b.shape(x))
    found = [b.op("Compress", one, is_left, axis=0, dims=(None,)) for one in (movable(b, x), places)]
    return [b.cast(found[0], x.dtype), b.narrow(found[1], n.dtypes[1] or INT32)]


@lowering("LowerBound UpperBound")
def _bound(n: NodeContext) -> Val:
    """How many of the sorted numbers are less, or not more."""
    b = n.b
    if n.x.rank != 2 or n.y.rank != 2:
        raise Refusal("its rows are no matrix")
    if (n.x.dims or ())[0] != (n.y.dims or ())[0]:
        raise Refusal("its rows are not known to be as many")
    kind = widened(n.x.dtype, ("int32", "int64", "float32", "float64"))
    rows, wanted = b.unsqueeze(b.cast(n.x, kind), [1]), b.unsqueeze(b.cast(n.y, kind), [2])
    is_before = b.op("Less" if n.op == "LowerBound" else "LessOrEqual", rows, wanted, dtype=BOOL)
    count = b.op("ReduceSum", b.cast(is_before, INT64), b.const([2]), keepdims=0, dims=n.y.dims)
    return b.narrow(count, n.dtype)


@lowering("UnravelIndex")
def _unravel(n: NodeContext) -> Val:
    b = n.b
    if n.y.rank != 1 or n.x.rank > 1:
        raise Refusal("it takes a vector of sizes, and numbers or a vector of them")
    sizes, flat = b.int64(n.y), b.indices(b.int64(n.x))
    count = (n.y.dims or (None,))[0]
    if not isinstance(count, int) or not count:
        raise Refusal("how many axes there are is not known before it runs")
    steps = strides(b, sizes, count)
    whole = b.op("Mul", b.slice(steps, [0], [1], [0]), b.slice(sizes, [0], [1], [0]))
    flat = b.asserted(flat, all_true(b, b.op("Less", flat, whole, dtype=BOOL)))
    shape = [count, *([1] * n.x.rank)]
    found = b.op("Div", b.unsqueeze(flat, [0]), b.reshape(steps, shape))
    found = b.op("Mod", found, b.reshape(sizes, shape))
    return b.narrow(found, n.dtype)


def strides(b: Builder, sizes: Val, count: int) -> Val:
    """How far places lie from each other along each of so many axes: a vector of int64."""
    found = [b.const([1])]
    for at in range(count - 1, 0, -1):
        found.append(b.op("Mul", found[-1], b.slice(sizes, [at], [at + 1], [0]), dims=(1,)))
    return b.concat(found[::-1], 0, Known((count,)))
