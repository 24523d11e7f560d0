"""Shapes and movement: reshape, slice, gather, scatter, pad, tile, split, join, fill."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

import numpy

from tfsmith.ir.tensor_views import ReshapedTensor
from tfsmith.onnx.builder import BOOL, FLOAT32, INT32, INT64, Builder, Refusal, Val
from tfsmith.onnx.elementwise import NUMBERS, widened
from tfsmith.onnx.reductions import axis_of
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops.sizes import Known, Size

__all__ = ["SCATTERED", "as_vector", "movable"]

_FAR = 2**63 - 1
_BEFORE = -(2**63)


def as_vector(b: Builder, x: Val) -> Val:
    """A number as a vector of one."""
    return b.reshape(x, [1]) if x.dims != (1,) else x


# Shapes


@lowering("Shape ShapeN")
def _shape(n: NodeContext) -> list[Val]:
    b = n.b
    return [b.narrow(b.shape(x), n.dtypes[at] or INT32) for at, x in enumerate(n.inputs)]


@lowering("Size")
def _size(n: NodeContext) -> Val:
    return n.b.narrow(n.b.op("Size", n.x, dtype=INT64, dims=()), n.dtype)


@lowering("Rank")
def _rank(n: NodeContext) -> Val:
    b = n.b
    return b.narrow(b.squeeze(b.op("Shape", b.shape(n.x), dtype=INT64, dims=(1,)), [0]), n.dtype)


def _target(n: NodeContext, shape: Val, x: Val) -> Val | list[int]:
    """The target of a reshape: numbers where at most one is open, for which -1 stands; else the tensor."""
    numbers = shape.known.numbers
    if numbers is not None:
        return list(numbers)
    values = shape.known.values
    if values is None:
        return shape
    found = [size if isinstance(size, int) else -1 for size in values]
    if found.count(-1) == 1 and 0 not in found:
        return found
    dims = x.dims or ()
    copied = [
        0 if not isinstance(size, int) and size is not None and at < len(dims) and dims[at] == size else found[at]
        for at, size in enumerate(values)
    ]
    return copied if copied.count(-1) <= 1 and 0 not in found else shape


@lowering("Reshape")
def _reshape(n: NodeContext) -> Val:
    b, x = n.b, n.x
    target = _target(n, n.y, x)
    if isinstance(target, Val):
        return b.op("Reshape", x, b.int64(target), allowzero=1)
    sizes = n.out.shape
    if x.tensor is not None and sizes.is_static and x.dtype.name != "string":
        return b.weight(ReshapedTensor(x.tensor, sizes), f"{x.name}/reshaped")
    is_copied = n.y.known.numbers is None
    if 0 in target and not is_copied:
        return b.op("Reshape", x, b.const(target), allowzero=1)
    return b.op("Reshape", x, b.const(target))


@lowering("Squeeze")
def _squeeze(n: NodeContext) -> Val:
    b, x = n.b, n.x
    axes = [axis_of(axis, x.rank) for axis in n.ints("squeeze_dims")]
    if not axes:
        dims = x.dims or ()
        if any(not isinstance(size, int) for size in dims):
            raise Refusal("which axes have size 1 is not known before it runs")
        axes = [at for at, size in enumerate(dims) if size == 1]
    rank = x.rank
    if x.is_first and sorted(axes) == list(range(1, rank - 1)):
        return b.squeeze(b.first(x), list(range(2, rank)))
    return b.squeeze(x, sorted(set(axes))) if axes else b.op("Identity", x)


@lowering("ExpandDims")
def _expand_dims(n: NodeContext) -> Val:
    b, x = n.b, n.x
    axis = n.y.integer("its axis")
    if axis >= 0 and x.dims is None:
        return b.op("Unsqueeze", x, b.const([axis]))
    return b.unsqueeze(x, [axis_of(axis, x.rank + 1)])


@lowering("Transpose")
def _transpose(n: NodeContext) -> Val:
    b, x = n.b, n.x
    perm = n.y.integers("its order of axes")
    order = [axis_of(axis, len(perm)) for axis in perm]
    if sorted(order) != list(range(x.rank)):
        raise Refusal("its order of axes does not fit")
    if order == list(range(len(order))):
        return b.op("Identity", x)
    if x.is_first and tuple(order) == (0, x.rank - 1, *range(1, x.rank - 1)):
        return b.op("Identity", b.first(x))
    return b.transpose(x, order)


# Joining and splitting


@lowering("ConcatV2 Concat")
def _concat(n: NodeContext) -> Val:
    b = n.b
    parts, axis = (n.inputs[:-1], n.inputs[-1]) if n.op == "ConcatV2" else (n.inputs[1:], n.inputs[0])
    at = axis.integer("its axis")
    rank = next((len(one.dims) for one in parts if one.dims is not None), None)
    if rank is None and at < 0:
        raise Refusal("the rank of its inputs is not known before it runs")
    at = axis_of(at, rank) if rank is not None else at
    if rank is not None and rank > 2 and all(one.is_first for one in parts):
        moved = 1 if at == rank - 1 else at + 1 if at else 0
        found = b.concat([b.first(one) for one in parts], moved)
        dims = n.out.dims or (None,) * rank
        found.known = Known((dims[0], dims[-1], *dims[1:-1]))
        return b.last(found, n.out)
    if len(parts) == 1:
        return b.op("Identity", parts[0])
    return b.concat(parts, at, n.out)


@lowering("Pack")
def _pack(n: NodeContext) -> Val:
    b = n.b
    axis = axis_of(int(n.attr("axis")), n.rank)
    found = [b.unsqueeze(one, [axis]) for one in n.inputs]
    return b.concat(found, axis, n.out) if len(found) > 1 else b.op("Identity", found[0], known=n.out)


@lowering("ParallelConcat")
def _parallel_concat(n: NodeContext) -> Val:
    return n.b.concat(n.inputs, 0, n.out)


@lowering("Unpack")
def _unpack(n: NodeContext) -> list[Val]:
    b, x = n.b, n.x
    axis = axis_of(int(n.attr("axis")), x.rank)
    return [b.op("Gather", x, b.const(at), axis=axis) for at in range(int(n.attr("num")))]


@lowering("Split")
def _split(n: NodeContext) -> list[Val]:
    b, x = n.b, n.y
    count = int(n.attr("num_split"))
    axis = axis_of(n.x.integer("its axis"), x.rank)
    if count == 1:
        return [b.op("Identity", x)]
    size = (x.dims or ())[axis]
    if isinstance(size, int):
        if size % count:
            raise Refusal("it does not split evenly")
        return b.ops("Split", x, b.const([size // count] * count), dtypes=[x.dtype] * count, axis=axis)
    part = b.op("Div", b.size(x, axis), b.const([count]))
    sizes = b.op("Expand", part, b.const([count]))
    return b.ops("Split", x, sizes, dtypes=[x.dtype] * count, axis=axis)


@lowering("SplitV")
def _split_v(n: NodeContext) -> list[Val]:
    b, x = n.b, n.x
    axis = axis_of(n.inputs[2].integer("its axis"), x.rank)
    count = int(n.attr("num_split"))
    if count == 1:
        return [b.op("Identity", x)]
    if n.y.is_constant:
        sizes = n.y.integers("its sizes")
        if -1 in sizes:
            whole = (x.dims or ())[axis]
            if not isinstance(whole, int):
                rest = b.op("Sub", b.size(x, axis), b.const([sum(sizes) + 1]))
                parts = [rest if size == -1 else b.const([size]) for size in sizes]
                return b.ops("Split", x, b.concat(parts, 0), dtypes=[x.dtype] * count, axis=axis)
            sizes = [whole - sum(sizes) - 1 if size == -1 else size for size in sizes]
        return b.ops("Split", x, b.const(sizes), dtypes=[x.dtype] * count, axis=axis)
    raise Refusal("its sizes must be a constant")


# Slices


@lowering("Slice")
def _slice(n: NodeContext) -> Val:
    b, x, begin, size = n.b, n.x, n.y, n.inputs[2]
    rank = x.rank
    starts = begin.known.numbers or (None if begin.array is None else begin.integers("begin"))
    counts = size.known.numbers or (None if size.array is None else size.integers("size"))
    axes = b.const(list(range(rank)))
    if rank == 0:
        return b.op("Identity", x)
    if counts is not None and starts is not None:
        for start, count, size_of in zip(starts, counts, x.dims or (), strict=True):
            if start < 0 or count < -1 or (isinstance(size_of, int) and start + max(count, 0) > size_of):
                raise Refusal("it takes what is not there")
        ends = [_FAR if count == -1 else start + count for start, count in zip(starts, counts, strict=True)]
        found = b.op("Slice", x, b.const(list(starts)), b.const(ends), axes)
        if all(
            (start, count) == (0, -1) or isinstance(size_of, int)
            for start, count, size_of in zip(starts, counts, x.dims or (), strict=True)
        ):
            return found
    first = b.int64(b.indices(begin))
    sizes = b.int64(size)
    if counts is None or -1 in counts:
        is_rest = b.op("Equal", sizes, b.const(-1), dtype=BOOL)
        sizes = b.indices(b.op("Where", is_rest, b.op("Sub", b.shape(x), first), sizes, dtype=INT64))
    found = b.op("Slice", x, first, b.op("Add", first, sizes), axes)
    return b.op("Reshape", found, sizes, allowzero=1)  # fails where ONNX gives less than was asked for


class _Masks:
    """What the masks of a StridedSlice say, axis by axis of its specification."""

    def __init__(self, n: NodeContext) -> None:
        names = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")
        self.begin, self.end, self.ellipsis, self.new, self.shrink = (int(n.attr(name) or 0) for name in names)


@lowering("StridedSlice")
def _strided_slice(n: NodeContext) -> Val:
    b, x = n.b, n.x
    begin, end, strides = n.inputs[1:4]
    steps = strides.integers("its strides")
    masks = _Masks(n)
    count = len(steps)
    if masks.ellipsis & (masks.ellipsis - 1):
        raise Refusal("it has two ellipses")
    if any(masks.shrink >> at & 1 and steps[at] < 0 for at in range(count)):
        raise Refusal("it takes one element backward")
    is_new = [bool(masks.new >> at & 1) and not masks.ellipsis >> at & 1 for at in range(count)]
    ellipsis = next((at for at in range(count) if masks.ellipsis >> at & 1), None)
    taken = sum(not is_new[at] for at in range(count) if at != ellipsis)
    rank = x.rank if ellipsis is not None and ellipsis < count - 1 else None
    axes: list[int] = []
    chosen: list[int] = []
    squeezed: list[int] = []
    added: list[int] = []
    axis = place = 0
    for at in range(count):
        if at == ellipsis:
            if rank is None:
                continue
            skipped = rank - taken
            axis += skipped
            place += skipped
        elif is_new[at]:
            added.append(place)
            place += 1
        else:
            axes.append(axis)
            chosen.append(at)
            if masks.shrink >> at & 1:
                squeezed.append(axis)
            else:
                place += 1
            axis += 1
    found = x
    if axes:
        starts = _bounds(b, begin, chosen, steps, masks.begin, masks.shrink, is_start=True)
        ends = _ends(b, begin, end, chosen, steps, masks)
        found = _sliced(b, x, starts, ends, axes, [1 if masks.shrink >> at & 1 else steps[at] for at in chosen])
    if squeezed:
        found = b.op("Squeeze", found, b.const(squeezed))
    if added:
        found = b.op("Unsqueeze", found, b.const(added))
    return found if found is not x else b.op("Identity", x)


def _sliced(b: Builder, x: Val, starts: Val, ends: Val, axes: Sequence[int], steps: Sequence[int]) -> Val:
    first, last = starts.known.numbers, ends.known.numbers
    if first is not None and last is not None:
        kept = [at for at in range(len(axes)) if not (first[at] == 0 and last[at] == _FAR and steps[at] == 1)]
        if not kept:
            return x
        starts, ends = b.const([first[at] for at in kept]), b.const([last[at] for at in kept])
        axes, steps = [axes[at] for at in kept], [steps[at] for at in kept]
    more = () if all(step == 1 for step in steps) else (b.const(list(steps)),)
    return b.op("Slice", x, starts, ends, b.const(list(axes)), *more)


def _element(b: Builder, vector: Val, at: int) -> Val | int:
    """An element of a vector: a number if it is known, else a vector of one."""
    values: Sequence[Size] | None = vector.known.values
    if values is not None and isinstance(values[at], int):
        return int(values[at])  # type: ignore[arg-type]
    if vector.array is not None:
        return int(vector.array.reshape(-1)[at])
    return b.slice(b.int64(vector), [at], [at + 1], [0])


def _joined(b: Builder, parts: Sequence[Val | int]) -> Val:
    if all(isinstance(one, int) for one in parts):
        return b.const(list(parts))
    return b.concat([b.const([one]) if isinstance(one, int) else one for one in parts], 0)


def _bounds(
    b: Builder, vector: Val, chosen: Sequence[int], steps: Sequence[int], mask: int, shrink: int, *, is_start: bool
) -> Val:
    parts: list[Val | int] = []
    for at in chosen:
        if mask >> at & 1 and not (shrink >> at & 1):
            forward = steps[at] > 0
            parts.append((0 if forward else _FAR) if is_start else (_FAR if forward else _BEFORE))
        else:
            parts.append(_element(b, vector, at))
    return _joined(b, parts)


def _ends(b: Builder, begin: Val, end: Val, chosen: Sequence[int], steps: Sequence[int], masks: _Masks) -> Val:
    parts: list[Val | int] = []
    for at in chosen:
        if masks.shrink >> at & 1:
            start = _element(b, begin, at)
            if isinstance(start, int):
                parts.append(_FAR if start == -1 else start + 1)
            else:
                is_last = b.op("Equal", start, b.const([-1]), dtype=BOOL)
                after = b.op("Add", start, b.const([1]))
                parts.append(b.op("Where", is_last, b.const([_FAR]), after, dtype=INT64))
        elif masks.end >> at & 1:
            parts.append(_FAR if steps[at] > 0 else _BEFORE)
        else:
            parts.append(_element(b, end, at))
    return _joined(b, parts)


@lowering("ReverseV2 Reverse")
def _reverse(n: NodeContext) -> Val:
    b, x = n.b, n.x
    chosen = n.y.integers("its axes")
    if n.op == "Reverse":
        if len(chosen) != x.rank or any(size == 0 for size in (x.dims or ())[:1]):
            raise Refusal("its flags do not fit its axes")
        chosen = [at for at, is_turned in enumerate(chosen) if is_turned]
    axes = [axis_of(axis, x.rank) for axis in chosen]
    if not axes:
        return b.op("Identity", x)
    return b.slice(x, [-1] * len(axes), [_BEFORE] * len(axes), axes, [-1] * len(axes))


@lowering("Roll")
def _roll(n: NodeContext) -> Val:
    """The last places come first, axis after axis; by constants, of axes whose sizes are known."""
    b, found = n.b, n.x
    shifts, axes = n.y.integers("how far it rolls"), n.inputs[2].integers("its axes")
    if len(shifts) != len(axes):
        raise Refusal("it has other numbers of axes than of shifts")
    for shift, axis in zip(shifts, (axis_of(axis, n.x.rank) for axis in axes), strict=True):
        size = (n.x.dims or ())[axis]
        if not isinstance(size, int):
            raise Refusal("the size of an axis that it rolls is not known before it runs")
        if size and shift % size:
            places = [(at - shift) % size for at in range(size)]
            found = b.op("Gather", found, b.const(places), axis=axis, known=n.x.known)
    return found if found is not n.x else b.op("Identity", n.x)


@lowering("ReverseSequence")
def _reverse_sequence(n: NodeContext) -> Val:
    b, x = n.b, n.x
    batch, time = int(n.attr("batch_dim")), int(n.attr("seq_dim"))
    rank = x.rank
    order = [batch, time, *(at for at in range(rank) if at not in (batch, time))]
    back = [int(at) for at in numpy.argsort(order)]
    kind = x.dtype
    lengths = b.int64(n.y)
    moved = movable(b, b.transpose(x, order))
    found = b.op("ReverseSequence", moved, lengths, batch_axis=0, time_axis=1)
    found.known = Known(None if x.dims is None else tuple(x.dims[at] for at in order))
    return b.transpose(b.cast(found, kind), back)


# Gathering and scattering


@lowering("Gather GatherV2")
def _gather(n: NodeContext) -> Val:
    b, x, indices = n.b, n.x, n.y
    axis = axis_of(n.inputs[2].integer("its axis"), x.rank) if n.op == "GatherV2" else 0
    batch = int(n.attr("batch_dims") or 0) if n.op == "GatherV2" else 0
    if batch < 0:
        batch += indices.rank
    indices = b.indices(indices)
    if x.dtype.name == "string" and x.rank > axis + 1:
        raise Refusal("onnxruntime loses strings that are gathered in rows")
    if not batch:
        return b.op("Gather", x, indices, axis=axis)
    if axis != batch:
        raise Refusal("it gathers along another axis than that behind the batch")
    places = b.unsqueeze(b.int64(indices), [indices.rank])
    return b.op("GatherND", x, places, batch_dims=batch)


@lowering("GatherNd")
def _gather_nd(n: NodeContext) -> Val:
    b = n.b
    depth = None if n.y.dims is None else n.y.dims[-1]
    if n.x.dtype.name == "string" and (n.x.dims is None or depth != len(n.x.dims)):
        raise Refusal("onnxruntime loses strings that are gathered in rows")
    if depth == 0:
        raise Refusal("it gathers by no index")
    return b.op("GatherND", n.x, b.int64(b.indices(n.y)), batch_dims=0)


SCATTERED = ("float32", "float64", "int32", "int64")
_REDUCTIONS = MappingProxyType(
    {
        "TensorScatterUpdate": "none",
        "TensorScatterAdd": "add",
        "ScatterNdNonAliasingAdd": "add",
        "TensorScatterSub": "add",
        "TensorScatterMax": "max",
        "TensorScatterMin": "min",
    }
)


@lowering("ScatterNd")
def _scatter_nd(n: NodeContext) -> Val:
    b, indices, updates, shape = n.b, *n.inputs
    if indices.rank < 2:
        raise Refusal("its indices are no rows")
    if updates.dtype.name in ("bool", "string"):
        raise Refusal(f"it is not lowered for {updates.dtype.name}")
    kind = widened(updates.dtype, SCATTERED, wraps=True)
    zeros = b.op("Expand", b.const(0, kind), b.int64(shape))
    found = b.op("ScatterND", zeros, b.int64(b.indices(indices)), b.cast(updates, kind), reduction="add")
    return b.cast(found, n.dtype)


@lowering(" ".join(_REDUCTIONS))
def _tensor_scatter(n: NodeContext) -> Val:
    b, x, indices, updates = n.b, *n.inputs
    reduction = _REDUCTIONS[n.op]
    places = b.int64(b.indices(indices))
    if reduction == "none":
        return b.op("ScatterND", x, places, updates)
    if reduction in ("max", "min") and x.dtype.name.startswith(("float", "bfloat")):
        raise Refusal("onnxruntime takes NaN for other than TensorFlow does")
    kind = widened(x.dtype, SCATTERED)
    more = b.cast(updates, kind)
    if n.op == "TensorScatterSub":
        more = b.op("Neg", more)
    return b.cast(b.op("ScatterND", b.cast(x, kind), places, more, reduction=reduction), n.dtype)


# Filling


@lowering("Fill")
def _fill(n: NodeContext) -> Val:
    return n.b.cast(n.b.op("Expand", movable(n.b, n.y), n.b.int64(n.x)), n.dtype)


def movable(b: Builder, x: Val) -> Val:
    """What is repeated or moved, in a type that there are kernels for."""
    return b.cast(x, FLOAT32) if x.dtype.name == "bfloat16" else x


@lowering("Empty")
def _empty(n: NodeContext) -> Val:
    if n.dtype.name == "string":
        raise Refusal("it is not lowered for string")
    return n.b.cast(n.b.op("Expand", movable(n.b, n.b.const(0, n.dtype)), n.b.int64(n.x)), n.dtype)


@lowering("LinSpace")
def _lin_space(n: NodeContext) -> Val:
    b, start, stop, count = n.b, *n.inputs
    if (start.dims, stop.dims, count.dims) != ((), (), ()):
        raise Refusal("its bounds are no scalars")
    kind = widened(start.dtype, ("float32", "float64"))
    first, last = b.cast(start, kind), b.cast(stop, kind)
    number = b.int64(count)
    if number.known.numbers is None:
        number = b.asserted(number, b.op("Greater", number, b.const(0), dtype=BOOL))
    elif number.known.numbers[0] < 1:
        raise Refusal("it gives no numbers")
    steps = b.op("Sub", number, b.const(1), dims=())
    whole = b.cast(b.op("Max", steps, b.const(1)), kind)
    step = b.op("Div", b.op("Sub", last, first), whole)
    at = b.op("Range", b.const(0), number, b.const(1), dtype=INT64, dims=(None,))
    found = b.op("Add", first, b.op("Mul", b.cast(at, kind), step))
    is_end = b.op("And", b.op("Equal", at, steps, dtype=BOOL), b.op("Greater", steps, b.const(0), dtype=BOOL))
    return b.cast(b.op("Where", is_end, last, found, dtype=kind), n.dtype)


@lowering("DataFormatDimMap DataFormatVecPermute")
def _data_format(n: NodeContext) -> Val:
    """Which axis becomes which; a vector, or rows, of something for each axis."""
    b, old, new = n.b, n.text("src_format"), n.text("dst_format")
    if sorted(old) != sorted(new) or len(set(old)) != len(old) or len(old) not in (4, 5):
        raise Refusal("its layouts do not fit each other")
    if n.op == "DataFormatDimMap":
        count = len(old)
        order = b.const([new.index(one) for one in old], n.dtype)
        axes = b.int64(n.x)
        places = b.op("Mod", axes, b.const(count))
        is_in = b.op("Less", axes, b.const(count), dtype=BOOL)
        far = b.op("Where", is_in, places, b.const(count), dtype=INT64)  # what is too large is refused
        return b.op("Gather", order, far, axis=0)
    size = (n.x.dims or (None,))[0]
    if size == len(old) - 2:
        old, new = (text.replace("N", "").replace("C", "") for text in (old, new))
    elif size != len(old):
        raise Refusal("its rows are not known to be one for each axis")
    return b.op("Gather", n.x, b.const([old.index(one) for one in new]), axis=0)


@lowering("ZerosLike OnesLike")
def _like(n: NodeContext) -> Val:
    b = n.b
    if n.x.dtype.name == "string":
        raise Refusal("it is not lowered for string")
    return b.cast(b.op("Expand", movable(b, b.const(int(n.op == "OnesLike"), n.x.dtype)), b.shape(n.x)), n.dtype)


@lowering("BroadcastTo")
def _broadcast_to(n: NodeContext) -> Val:
    sizes, own = n.y.known.values, n.x.dims
    if sizes is not None and own is not None:
        pairs = list(zip(own[::-1], sizes[::-1], strict=False))
        if len(own) > len(sizes) or any(isinstance(a, int) and a != 1 and c == 1 for a, c in pairs):
            raise Refusal("its target is smaller than what it has")
    found = n.b.cast(n.b.op("Expand", movable(n.b, n.x), n.b.int64(n.y)), n.dtype)
    if sizes is not None and own is not None and all(_fits(one, other) for one, other in pairs):
        return found
    return n.b.op("Reshape", found, n.b.int64(n.y), allowzero=1)  # fails where the target is smaller


def _fits(own: Size, size: Size) -> bool:
    """Whether an axis is known to become another size by being repeated."""
    return own == 1 or (own is not None and own == size)


@lowering("BroadcastArgs")
def _broadcast_args(n: NodeContext) -> Val:
    """The run fails where neither of two sizes is 1 and they differ."""
    b = n.b
    if n.x.dims is None or n.x.dims != n.y.dims:
        raise Refusal("its shapes have different ranks")
    x, y = b.int64(n.x), b.int64(n.y)
    is_one = b.op("Equal", x, b.const(1), dtype=BOOL)
    found = b.op("Where", is_one, y, x, dtype=INT64, dims=n.out.dims)
    fits = b.op("Or", b.op("Equal", y, b.const(1), dtype=BOOL), b.op("Equal", y, found, dtype=BOOL))
    wrong = b.cast(b.op("Not", fits, dtype=BOOL), INT32)
    most = b.op("ReduceMax", b.concat([wrong, b.const([0], INT32)], 0), keepdims=0)
    return b.narrow(b.asserted(found, b.op("Equal", most, b.const(0, INT32), dtype=BOOL)), n.dtype)


@lowering("Range")
def _range(n: NodeContext) -> Val:
    b = n.b
    kind = widened(n.x.dtype, NUMBERS)
    start, limit, step = (b.cast(b.reshape(one, []), kind) for one in n.inputs)
    if not _is_upward(*n.inputs):  # ONNX gives nothing for what TensorFlow refuses
        far = b.op("Mul", b.op("Sub", limit, start), b.op("Sign", step))
        limit = b.asserted(limit, b.op("GreaterOrEqual", far, b.const(0, kind), dtype=BOOL))
    return b.cast(b.op("Range", start, limit, step), n.dtype)


def _is_upward(start: Val, limit: Val, step: Val) -> bool:
    """Whether a range from 0 upward ends at a size, which is not below zero; or all of it is constant."""
    if start.known.numbers == (0,) and step.known.numbers == (1,):
        return limit.known.values is not None and limit.known.values != (None,)
    return False


@lowering("Tile")
def _tile(n: NodeContext) -> Val:
    b = n.b
    kinds = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
    kind = widened(n.x.dtype, kinds)
    return b.cast(b.op("Tile", b.cast(n.x, kind), b.int64(n.y)), n.dtype)


@lowering("OneHot")
def _one_hot(n: NodeContext) -> Val:
    """By comparing: an index that is out of range gives no one, where ONNX' own op counts from behind."""
    b = n.b
    indices, depth, on, off = n.inputs
    rank = indices.rank
    axis = axis_of(int(n.attr("axis")), rank + 1)
    if depth.known.numbers is not None and depth.known.numbers[0] < 0:
        raise Refusal("its depth is negative")
    places = b.op("Range", b.const(0), b.reshape(b.int64(depth), []), b.const(1), dtype=INT64)
    shape = [1] * (rank + 1)
    shape[axis] = -1
    is_there = b.op("Equal", b.unsqueeze(b.int64(indices), [axis]), b.reshape(places, shape), dtype=BOOL)
    if n.dtype.name == "bool":
        return b.op("Or", b.op("And", is_there, on), b.op("And", b.op("Not", is_there), off))
    kind = widened(n.dtype, ("float32", "float64", "int32", "int64", "string", "uint8"), wraps=True)
    return b.cast(b.op("Where", is_there, b.cast(on, kind), b.cast(off, kind), dtype=kind), n.dtype)


# Padding

_PADDED = ("float32", "float64", "int8", "int32", "int64", "uint8", "uint32", "uint64", "bool")


@lowering("Pad PadV2")
def _pad(n: NodeContext) -> Val:
    b, x = n.b, n.x
    if x.dtype.name == "string":
        raise Refusal("it is not lowered for string")
    kind = widened(x.dtype, _PADDED)
    value = b.cast(n.inputs[2], kind) if n.op == "PadV2" else b.const(0, kind)
    pads = None if n.y.array is None else n.y.array.astype(numpy.int64)
    rank = x.rank
    if pads is not None and (pads < 0).any():
        raise Refusal("its paddings are negative")
    if pads is None:
        flat = b.reshape(b.op("Transpose", b.int64(b.indices(n.y)), perm=(1, 0)), [-1])
        return b.cast(b.op("Pad", b.cast(x, kind), flat, value, mode="constant"), n.dtype)
    if x.is_first and rank > 2:
        order = [0, rank - 1, *range(1, rank - 1)]
        first = b.cast(b.first(x), kind)
        found = b.cast(b.op("Pad", first, b.const(pads[order].T.reshape(-1)), value, mode="constant"), n.dtype)
        dims = n.out.dims or (None,) * rank
        found.known = Known(tuple(dims[at] for at in order))
        return b.last(found, n.out)
    return b.cast(b.op("Pad", b.cast(x, kind), b.const(pads.T.reshape(-1)), value, mode="constant"), n.dtype)


@lowering("MirrorPad")
def _mirror_pad(n: NodeContext) -> Val:
    """By gathering along each padded axis, whose size must be known."""
    b, found = n.b, n.x
    if n.y.array is None:
        raise Refusal("its paddings must be a constant")
    pads = n.y.array.astype(numpy.int64)
    if (pads < 0).any():
        raise Refusal("its paddings are negative")
    mode = "reflect" if n.text("mode") == "REFLECT" else "symmetric"
    for axis, (before, behind) in enumerate(pads.tolist()):
        if not before and not behind:
            continue
        size = (n.x.dims or ())[axis] if n.x.dims is not None else None
        if not isinstance(size, int):
            if mode == "reflect" and n.x.dtype.name in _PADDED:
                return b.op("Pad", n.x, b.const(pads.T.reshape(-1)), mode="reflect")
            raise Refusal("the size of a padded axis is not known before it runs")
        if max(before, behind) > size - (mode == "reflect"):
            raise Refusal("it pads more than there is")
        places = numpy.pad(numpy.arange(size), (before, behind), mode=mode)  # type: ignore[call-overload]
        found = b.op("Gather", found, b.const(places), axis=axis)
    return found if found is not n.x else b.op("Identity", n.x)


# Sets


@lowering("Where")
def _where(n: NodeContext) -> Val:
    b, x = n.b, n.x
    if x.rank == 0:
        raise Refusal("it takes no scalar")
    truth = x if x.dtype.name == "bool" else b.cast(x, BOOL)
    return b.op("Transpose", b.op("NonZero", truth, dtype=INT64), perm=(1, 0))


@lowering("Unique UniqueWithCounts UniqueV2 UniqueWithCountsV2")
def _unique(n: NodeContext) -> list[Val]:
    b = n.b
    if n.op.endswith("V2") and (n.x.rank != 1 or any(axis not in (0, -1) for axis in n.y.integers("its axis"))):
        raise Refusal("its rows are no numbers")
    if n.x.dtype.name.startswith(("float", "bfloat")):
        raise Refusal("onnxruntime takes NaN for one and the same, TensorFlow does not")
    kind = widened(n.x.dtype, ("int64", "string"))
    found = b.ops("Unique", b.cast(n.x, kind), dtypes=(kind, INT64, INT64, INT64), sorted=0)
    index = n.dtypes[1] or INT32
    more = [b.narrow(found[3], index)] if n.op.startswith("UniqueWithCounts") else []
    return [b.cast(found[0], n.dtype), b.narrow(found[2], index), *more]


@lowering("InvertPermutation")
def _invert_permutation(n: NodeContext) -> Val:
    b = n.b
    places = b.op("Range", b.const(0), b.squeeze(b.shape(n.x), [0]), b.const(1), dtype=INT64)
    nowhere = b.op("Expand", b.const(-1), b.shape(n.x))
    found = b.op("ScatterElements", nowhere, b.int64(b.indices(n.x)), places, axis=0)
    least = b.op("ReduceMin", b.concat([found, b.const([0])], 0), keepdims=0)
    return b.narrow(b.asserted(found, b.op("Equal", least, b.const(0), dtype=BOOL)), n.dtype)


# Blocks


@lowering("DepthToSpace SpaceToDepth")
def _depth(n: NodeContext) -> Val:
    b, layout = n.b, n.text("data_format")
    if layout == "NCHW_VECT_C":
        raise Refusal(f"it is not lowered for {layout}")
    kind = widened(n.x.dtype, ("float32", "float64"))
    x = b.cast(n.x, kind) if kind != n.x.dtype else n.x
    first = b.first(x) if layout == "NHWC" else x
    attrs: dict[str, Any] = {"mode": "DCR"} if n.op == "DepthToSpace" else {}
    found = b.op(n.op, first, blocksize=int(n.attr("block_size")), **attrs)
    found = b.cast(found, n.dtype)
    if layout != "NHWC":
        return found
    dims = n.out.dims or (None,) * 4
    found.known = Known((dims[0], dims[3], dims[1], dims[2]))
    return b.last(found, n.out)


def _blocks(n: NodeContext, what: str) -> tuple[list[int], list[int]]:
    """The block of a node, and its paddings or crops; the older ops have a square as an attribute."""
    if not n.op.endswith("ND"):
        return [int(n.attr("block_size"))] * 2, n.y.integers(what)
    return n.y.integers("its block"), n.inputs[2].integers(what)


@lowering("SpaceToBatchND SpaceToBatch")
def _space_to_batch(n: NodeContext) -> Val:
    b, x = n.b, n.x
    block, pads = _blocks(n, "its paddings")
    count, rank = len(block), x.rank
    if any(size == 0 for size in x.dims or ()):
        raise Refusal("its images have no elements")
    if x.dtype.name == "string":
        raise Refusal("it is not lowered for string")
    kind = widened(x.dtype, _PADDED)
    before = [0, *pads[0::2], *(0 for _ in range(rank - 1 - count))]
    behind = [0, *pads[1::2], *(0 for _ in range(rank - 1 - count))]
    padded = b.cast(b.op("Pad", b.cast(x, kind), b.const([*before, *behind]), b.const(0, kind)), x.dtype)
    padded.known = Known(
        tuple(size + before[at] + behind[at] if isinstance(size, int) else None for at, size in enumerate(x.dims or ()))
    )
    sizes: list[Val] = [b.size(padded, 0)]
    for at, step in enumerate(block):
        sizes += [b.op("Div", b.size(padded, at + 1), b.const([step])), b.const([step])]
    sizes += [b.size(padded, at) for at in range(count + 1, rank)]
    wide = b.reshape(padded, b.concat(sizes, 0))
    places = [2 * at + 1 for at in range(count)]
    order = [*(at + 1 for at in places), 0, *places, *range(2 * count + 1, rank + count)]
    moved = b.op("Transpose", wide, perm=tuple(order))
    target = [b.const([-1]), *sizes[1 : 2 * count + 1 : 2], *sizes[2 * count + 1 :]]
    sizes_of = padded.dims or ()
    dims: list[Size] = [None] * rank
    for at in range(1, rank):
        size = sizes_of[at]
        step = block[at - 1] if at <= count else 1
        dims[at] = size // step if isinstance(size, int) else None
    return b.reshape(moved, b.concat(target, 0), tuple(dims))


@lowering("BatchToSpaceND BatchToSpace")
def _batch_to_space(n: NodeContext) -> Val:
    b, x = n.b, n.x
    block, crops = _blocks(n, "its crops")
    count, rank = len(block), x.rank
    sizes = [*(b.const([step]) for step in block), b.const([-1]), *(b.size(x, at) for at in range(1, rank))]
    wide = b.reshape(x, b.concat(sizes, 0))
    order = [count]
    for at in range(count):
        order += [count + 1 + at, at]
    order += list(range(2 * count + 1, rank + count))
    moved = b.op("Transpose", wide, perm=tuple(order))
    target = [b.const([-1])]
    target += [b.op("Mul", b.size(x, at + 1), b.const([step])) for at, step in enumerate(block)]
    target += [b.size(x, at) for at in range(count + 1, rank)]
    found = b.reshape(moved, b.concat(target, 0))
    dims: list[Size] = [None] * rank
    for at in range(1, rank):
        size = (x.dims or ())[at]
        times = block[at - 1] if at <= count else 1
        less = crops[2 * at - 2] + crops[2 * at - 1] if at <= count else 0
        dims[at] = size * times - less if isinstance(size, int) else None
    if any(crops):
        starts, ends = crops[0::2], [-one if one else _FAR for one in crops[1::2]]
        found = b.slice(found, starts, ends, list(range(1, count + 1)))
    found.known = Known(tuple(dims))
    return found
