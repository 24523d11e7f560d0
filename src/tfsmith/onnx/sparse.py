"""Sparse tensors: indices, values and a shape; made dense, multiplied, reshaped, filled, and read out of frames."""

from __future__ import annotations

from tfsmith.onnx.arrays import SCATTERED
from tfsmith.onnx.builder import BOOL, INT64, Builder, Refusal, Val
from tfsmith.onnx.elementwise import widened
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.onnx.segments import all_true, counted, strides
from tfsmith.ops.sizes import Known

__all__ = ["from_mask"]

_FILLED = ("float32", "float64", "int32", "int64", "uint8", "bool", "string")


def _flat(b: Builder, places: Val, sizes: Val, rank: int) -> Val:
    """The numbers of places, row by row: a vector of int64. The run fails where one is outside."""
    inside = b.op(
        "And", b.op("GreaterOrEqual", places, b.const(0), dtype=BOOL), b.op("Less", places, sizes, dtype=BOOL)
    )
    steps = b.op("Mul", places, strides(b, sizes, rank))
    found = b.op("ReduceSum", steps, b.const([1]), keepdims=0, dims=(None,))
    return b.asserted(found, all_true(b, inside))


@lowering("SparseToDense")
def _dense(n: NodeContext) -> Val:
    b, indices, shape, values, other = n.b, *n.inputs
    rank = (shape.dims or (None,))[0]
    if not isinstance(rank, int) or not rank:
        raise Refusal("its rank is not known before it runs")
    if other.dims != () or values.rank > 1 or indices.rank > 2:
        raise Refusal("its default is no scalar, or its values are no vector")
    kind = widened(values.dtype, _FILLED)
    if kind.name == "string":
        raise Refusal("it is not lowered for string")
    places = b.int64(indices)
    if indices.rank < 2:
        if rank != 1:
            raise Refusal("its indices do not fit its shape")
        places = b.reshape(places, [-1, 1])
    sizes = b.int64(shape)
    flat = _flat(b, places, sizes, rank)
    if n.attr("validate_indices"):
        after, before = b.slice(flat, [1], [2**63 - 1], [0]), b.slice(flat, [0], [-1], [0])
        places = b.asserted(places, all_true(b, b.op("Greater", after, before, dtype=BOOL)))
    whole = b.op("Expand", b.cast(other, kind), sizes)
    count = b.op("Shape", flat, dtype=INT64, dims=(1,))
    rows = b.op("Expand", b.cast(values, kind), count) if values.rank == 0 else b.cast(values, kind)
    places = b.op("Add", places, b.unsqueeze(b.op("Mul", flat, b.const(0), dims=(None,)), [1]))  # what was checked
    return b.cast(b.op("ScatterND", whole, places, rows), n.dtype)


@lowering("SparseTensorDenseMatMul")
def _product(n: NodeContext) -> Val:
    """Rows of the dense matrix, multiplied, are added to the row that the index names."""
    b, indices, values, shape, dense = n.b, *n.inputs
    kind = widened(values.dtype, SCATTERED)
    if dense.rank != 2 or dense.dtype != values.dtype:
        raise Refusal("it takes a matrix of the type of its values")
    turned = b.transpose(dense, (1, 0)) if n.attr("adjoint_b") else dense
    is_turned = bool(n.attr("adjoint_a"))
    places, sizes = b.int64(indices), b.int64(shape)
    own = (1, 0) if is_turned else (0, 1)
    row, column = (b.slice(places, [at], [at + 1], [1]) for at in own)
    height, width = (b.slice(sizes, [at], [at + 1], [0]) for at in own)
    row.known = column.known = Known((None, 1))
    height = b.asserted(height, b.op("Equal", width, b.size(turned, 0), dtype=BOOL))
    taken = b.op("Gather", b.cast(turned, kind), b.indices(b.squeeze(column, [1])), axis=0)
    loads = b.op("Mul", taken, b.unsqueeze(b.cast(values, kind), [1]))
    zeros = b.op("Expand", b.const(0, kind), b.concat([height, b.size(turned, 1)], 0))
    return b.cast(b.op("ScatterND", zeros, b.indices(row), loads, reduction="add"), n.dtype)


@lowering("SparseReshape")
def _reshape(n: NodeContext) -> list[Val]:
    b, indices, shape, new = n.b, *(n.b.int64(one) for one in n.inputs)
    ranks = [(one.dims or (None,))[0] for one in (shape, new)]
    if not all(isinstance(rank, int) and rank > 0 for rank in ranks):
        raise Refusal("its ranks are not known before it runs")
    old_rank, new_rank = (int(rank) for rank in ranks if isinstance(rank, int))
    whole = _product_of(b, shape, old_rank)
    is_open = b.op("Less", new, b.const(0), dtype=BOOL)
    rest = _product_of(b, b.op("Where", is_open, b.const(1), new, dtype=INT64), new_rank)
    filled = b.op("Div", whole, b.op("Max", rest, b.const([1])))
    sizes = b.op("Where", is_open, filled, new, dtype=INT64, dims=(new_rank,))
    sizes = b.asserted(sizes, b.op("Equal", _product_of(b, sizes, new_rank), whole, dtype=BOOL))
    sizes.known = Known((new_rank,))
    flat = _flat(b, indices, shape, old_rank)
    steps = b.op("Div", b.unsqueeze(flat, [1]), b.op("Max", strides(b, sizes, new_rank), b.const([1])))
    return [b.op("Mod", steps, b.op("Max", sizes, b.const([1])), dims=(None, new_rank)), sizes]


def _product_of(b: Builder, sizes: Val, count: int) -> Val:
    """The product of so many sizes: a vector of one."""
    found = b.slice(sizes, [0], [1], [0])
    for at in range(1, count):
        found = b.op("Mul", found, b.slice(sizes, [at], [at + 1], [0]))
    found.known = Known((1,))
    return found


@lowering("SparseFillEmptyRows")
def _fill_rows(n: NodeContext) -> list[Val]:
    """Rows come in rising order, which the run checks; an empty one gets the default in its first place."""
    b, indices, values, shape, other = n.b, *n.inputs
    rank = (indices.dims or (None, None))[1]
    if not isinstance(rank, int) or not rank or other.dims != ():
        raise Refusal("its rank is not known before it runs")
    if values.dtype.name == "string":
        raise Refusal("it is not lowered for string")
    kind = widened(values.dtype, _FILLED)
    places = b.int64(indices)
    row = b.slice(places, [0], [1], [1])
    row.known = Known((None, 1))
    row = b.squeeze(row, [1])
    after, before = b.slice(row, [1], [2**63 - 1], [0]), b.slice(row, [0], [-1], [0])
    row = b.indices(b.asserted(row, all_true(b, b.op("GreaterOrEqual", after, before, dtype=BOOL))))
    count = b.slice(b.int64(shape), [0], [1], [0])
    count.known = Known((1,))
    ones = b.op("Expand", b.const(1), b.op("Shape", row, dtype=INT64, dims=(1,)), dims=(None,))
    zeros = b.op("Expand", b.const(0), count)
    sizes = b.op("ScatterND", zeros, b.unsqueeze(row, [1]), ones, reduction="add", dims=(None,))
    is_empty = b.op("Equal", sizes, b.const(0), dtype=BOOL, dims=(None,))
    missing = b.op("Compress", counted(b, count), is_empty, axis=0, dims=(None,))
    skipped = b.op("CumSum", b.cast(is_empty, INT64), b.const(0), dims=(None,))  # empty rows up to each row
    where = b.op("Add", counted(b, b.op("Shape", row, dtype=INT64, dims=(1,))), b.op("Gather", skipped, row, axis=0))
    where.known = Known((None,))
    starts = b.op("CumSum", sizes, b.const(0), exclusive=1, dims=(None,))
    new = b.op("Gather", b.op("Add", starts, b.op("Sub", skipped, b.const(1)), dims=(None,)), missing, axis=0)
    new.known = Known((None,))
    more = b.op("Pad", b.unsqueeze(missing, [1]), b.const([0, 0, 0, rank - 1]), b.const(0), dims=(None, rank))
    total = b.op("Add", b.op("Shape", row, dtype=INT64, dims=(1,)), b.op("Shape", missing, dtype=INT64, dims=(1,)))
    room = b.op("Expand", b.const(0), b.concat([total, b.const([rank])], 0))
    order = b.unsqueeze(b.concat([where, new], 0, Known((None,))), [1])
    found = b.op("ScatterND", room, order, b.concat([places, more], 0), dims=(None, rank))
    fill = b.op("Expand", b.cast(other, kind), b.op("Shape", missing, dtype=INT64, dims=(1,)))
    blank = b.op("Expand", b.cast(other, kind), total)
    taken = b.op("ScatterND", blank, order, b.concat([b.cast(values, kind), fill], 0), dims=(None,))
    return [found, b.cast(taken, values.dtype), is_empty, where]


def from_mask(b: Builder, is_there: Val, values: Val) -> tuple[Val, Val, Val]:
    """A sparse matrix of what a mask leaves of each row, moved to the left: indices, values and shape."""
    found = b.op("Transpose", b.op("NonZero", is_there, dtype=INT64), perm=(1, 0), dims=(None, 2))
    row = b.slice(found, [0], [1], [1])
    counts = b.cast(is_there, INT64)
    place = b.op("Sub", b.op("CumSum", counts, b.const(1)), b.const(1))
    left = b.unsqueeze(b.op("GatherND", place, found, dims=(None,)), [1])
    sums = b.op("ReduceSum", counts, b.const([1]), keepdims=0, dims=(None,))
    longest = b.op("ReduceMax", b.concat([sums, b.const([0])], 0), keepdims=1)
    shape = b.concat([b.size(is_there, 0), longest], 0)
    return b.concat([row, left], 1), b.op("GatherND", values, found), shape


@lowering("CTCGreedyDecoder")
def _greedy(n: NodeContext) -> list[Val]:
    """The best class of each frame, without blanks and repetitions."""
    b, x, lengths = n.b, n.x, n.y
    n.allow("float32", "float64")
    classes = (x.dims or ())[2] if x.rank == 3 else None
    if not isinstance(classes, int):
        raise Refusal("the number of its classes is not known before it runs")
    blank = int(n.attr("blank_index"))
    blank += classes if blank < 0 else 0
    if not 0 <= blank < classes:
        raise Refusal("its blank is no class")
    turned = b.transpose(x, (1, 0, 2))
    best = b.op("ArgMax", turned, dtype=INT64, axis=2, keepdims=0, dims=(None, None))
    frames = counted(b, b.size(x, 0))
    ends = b.unsqueeze(b.int64(lengths), [1])
    ends = b.asserted(ends, all_true(b, b.op("LessOrEqual", ends, b.size(x, 0), dtype=BOOL)))
    is_in = b.op("Less", b.unsqueeze(frames, [0]), ends, dtype=BOOL, dims=(None, None))
    kept = b.op("And", is_in, b.op("Not", b.op("Equal", best, b.const(blank), dtype=BOOL)), dims=(None, None))
    if n.attr("merge_repeated"):
        last = b.op("Pad", b.slice(best, [0], [-1], [1]), b.const([0, 1, 0, 0]), b.const(-1), dims=(None, None))
        kept = b.op("And", kept, b.op("Not", b.op("Equal", best, last, dtype=BOOL)), dims=(None, None))
    places, values, shape = from_mask(b, kept, best)
    top = b.op("ReduceMax", turned, b.const([2]), keepdims=0)
    scores = b.op("Where", is_in, top, b.const(0, x.dtype), dtype=x.dtype)
    total = b.op("Neg", b.op("ReduceSum", scores, b.const([1]), keepdims=1))
    return [places, values, shape, total]
