"""Shape functions of ops that move, cut and join elements, and the arithmetic that graphs do on shapes.

Where an input is a scalar or vector of integers whose elements are known, if only in part, so are those of the output:
`Shape` -> `StridedSlice` -> `Pack` -> `Reshape` is followed, with an open batch size as a name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from tfsmith.ir.types import Shape
from tfsmith.limits import MAX_RANK
from tfsmith.ops.shapes import Ask, reduced, refusal, shape, shape_from
from tfsmith.ops.sizes import (
    NOTHING,
    Conflict,
    Dims,
    Known,
    Size,
    broadcast,
    equal,
    minus,
    over,
    plus,
    same,
    text,
    times,
)

__all__: list[str] = []
_MOST = 1024


def _unknown(rank: int | None) -> Dims:
    return None if rank is None or rank > MAX_RANK else (None,) * rank


def _axis(axis: int, rank: int, dims: Dims) -> int:
    if not -rank <= axis < rank:
        raise Conflict(f"axis {axis} is asked for, but the shape is {text(dims)}")
    return axis % rank


def _single(values: tuple[int, ...] | None) -> int | None:
    return values[0] if values is not None and len(values) == 1 else None


# Questions about shapes


@shape("Shape", values=True)
def _shape(ask: Ask) -> Known:
    dims = ask.dims(0)
    return Known((None if dims is None else len(dims),), dims)


@shape("ShapeN", values=True)
def _shapes(ask: Ask) -> tuple[Known, ...]:
    return tuple(Known((one.rank,), one.dims) for one in ask.inputs)


@shape("Size", values=True)
def _size(ask: Ask) -> Known:
    dims = ask.dims(0)
    return Known((), None if dims is None else (times(dims),))


@shape("Rank", values=True)
def _rank(ask: Ask) -> Known:
    rank = ask.known(0).rank
    return Known((), None if rank is None else (rank,))


# Arithmetic


def _floor_div(one: Size, other: Size) -> Size:
    if isinstance(one, int) and isinstance(other, int):
        return one // other if other else None
    return over(one, other)


def _largest(one: Size, other: Size) -> Size:
    return max(one, other) if isinstance(one, int) and isinstance(other, int) else one if one == other else None


def _smallest(one: Size, other: Size) -> Size:
    return min(one, other) if isinstance(one, int) and isinstance(other, int) else one if one == other else None


_ARITHMETIC: Mapping[str, Callable[[Size, Size], Size]] = MappingProxyType(
    {
        "Add": plus,
        "AddV2": plus,
        "Sub": minus,
        "Mul": lambda one, other: times((one, other)),
        "FloorDiv": _floor_div,
        "Maximum": _largest,
        "Minimum": _smallest,
    }
)


@shape("Add AddV2 Sub Mul FloorDiv Maximum Minimum", values=True)
def _arithmetic(ask: Ask) -> Known:
    dims = broadcast(ask.dims(0), ask.dims(1))
    left, right = ask.values(0), ask.values(1)
    if left is None or right is None or dims is None or len(dims) > 1 or 0 in (len(left), len(right)):
        return Known(dims)
    count = max(len(left), len(right))
    pairs = zip(left * (count // len(left)), right * (count // len(right)), strict=True)
    function = _ARITHMETIC[ask.op]
    return Known(dims, tuple(function(one, other) for one, other in pairs))


@shape("Prod", values=True)
def _prod(ask: Ask) -> Known:
    dims, values = reduced(ask), ask.values(0)
    if values is None or ask.known(0).rank != 1 or not ask.numbers(1):
        return Known(dims)
    return Known(dims, (times(values),))


@shape("Range", values=True)
def _range(ask: Ask) -> Known:
    start, limit, delta = (_single(ask.numbers(number)) for number in range(3))
    if start is not None and limit is not None and delta is not None:
        if delta == 0 or (limit - start) * delta < 0:
            raise Conflict(f"a range from {start} to {limit} by {delta} is asked for")
        found = range(start, limit, delta)
        return Known((len(found),), tuple(found) if len(found) <= _MOST else None)
    size = ask.values(1)
    return Known((size[0] if start == 0 and delta == 1 and size is not None else None,))


@shape("LinSpace")
def _lin_space(ask: Ask) -> Known:
    return Known((_single(ask.numbers(2)),))


# Other shapes of the same elements


@shape("Reshape", values=True)
def _reshape(ask: Ask) -> Known:
    dims, wanted = ask.dims(0), ask.values(1)
    if wanted is None or ask.known(1).rank != 1:
        rank = ask.known(1).dims
        return Known(_unknown(rank[0]) if rank is not None and len(rank) == 1 and isinstance(rank[0], int) else None)
    if any(isinstance(size, int) and size < -1 for size in wanted):
        raise Conflict(f"a shape of {list(wanted)} is asked for")
    if wanted.count(-1) > 1:  # no run gets over it, but TensorFlow loads it
        return Known(tuple(None if size == -1 else size for size in wanted))
    elements = None if dims is None else times(dims)
    rest = times(size for size in wanted if size != -1)
    if -1 in wanted:
        if isinstance(elements, int) and isinstance(rest, int) and rest and elements % rest:
            raise Conflict(f"shape {text(dims)} cannot become {list(wanted)}")
        found = over(elements, rest)
        wanted = tuple(found if size == -1 else size for size in wanted)
    elif isinstance(elements, int) and isinstance(rest, int) and elements != rest:
        raise Conflict(f"shape {text(dims)} of {elements} elements cannot become {list(wanted)}")
    elif wanted.count(None) == 1 and isinstance(elements, int):
        known = times(size for size in wanted if size is not None)
        wanted = tuple(over(elements, known) if size is None else size for size in wanted)
    return Known(wanted, ask.values(0))


@shape("ExpandDims", values=True)
def _expand_dims(ask: Ask) -> Known:
    dims, axis = ask.dims(0), _single(ask.numbers(1))
    if dims is None:
        return NOTHING
    if axis is None:
        return Known(_unknown(len(dims) + 1))
    at = _axis(axis, len(dims) + 1, dims)
    return Known((*dims[:at], 1, *dims[at:]), ask.values(0))


@shape("Squeeze", values=True)
def _squeeze(ask: Ask) -> Known:
    dims, axes = ask.dims(0), ask.integers("squeeze_dims")
    if dims is None or (not axes and any(not isinstance(dim, int) for dim in dims)):
        return NOTHING
    gone = {_axis(axis, len(dims), dims) for axis in axes} or {at for at, dim in enumerate(dims) if dim == 1}
    for at in gone:
        equal(dims[at], 1, f"size {at} of {text(dims)} and what is dropped")
    kept = tuple(dim for at, dim in enumerate(dims) if at not in gone)
    return Known(kept, ask.values(0))


@shape("Transpose ConjugateTranspose")
def _transpose(ask: Ask) -> Known:
    dims, order = ask.dims(0), ask.numbers(1)
    if order is None:
        return Known(_unknown(None if dims is None else len(dims)))
    if dims is None:
        return Known(_unknown(len(order)) if len(order) > 1 else None)
    if len(order) != len(dims) or any(not -len(dims) <= axis < len(dims) for axis in order):
        raise Conflict(f"shape {text(dims)} is transposed by {list(order)}")
    if len({axis % len(dims) for axis in order}) < len(dims):  # no run gets over it, but TensorFlow loads it
        return Known(_unknown(len(dims)))
    return Known(tuple(dims[axis] for axis in order))


@shape("BroadcastArgs", values=True)
def _broadcast_args(ask: Ask) -> Known:
    one, other = shape_from(ask.known(0)), shape_from(ask.known(1))
    found = broadcast(one, other)
    return Known((None if found is None else len(found),), found)


@shape("BroadcastTo")
def _broadcast_to(ask: Ask) -> Known:
    wanted, dims = shape_from(ask.known(1)), ask.dims(0)
    if wanted is not None and dims is not None:
        if len(dims) > len(wanted):
            raise Conflict(f"shape {text(dims)} is broadcast to {text(wanted)}")
        for dim, size in zip(dims[::-1], wanted[::-1], strict=False):
            if isinstance(dim, int) and isinstance(size, int) and dim not in (1, size):
                raise Conflict(f"shape {text(dims)} is broadcast to {text(wanted)}")
    return Known(wanted)


@shape("Fill Empty")
def _fill(ask: Ask) -> Known:
    return Known(shape_from(ask.known(0)))


# Joins and parts


@shape("Pack", values=True)
def _pack(ask: Ask) -> Known:
    dims: Dims = None
    for one in ask.inputs:
        dims = same(dims, one.dims)
    if dims is None:
        return NOTHING
    at = _axis(ask.integer("axis"), len(dims) + 1, dims)
    values = None if dims else tuple(None if one.values is None else one.values[0] for one in ask.inputs)
    return Known((*dims[:at], len(ask.inputs), *dims[at:]), values)


@shape("Unpack", values=True)
def _unpack(ask: Ask) -> tuple[Known, ...]:
    dims = ask.dims(0)
    if dims is None:
        return (NOTHING,) * ask.count
    at = _axis(ask.integer("axis"), len(dims), dims)
    equal(dims[at], ask.count, f"size {at} of {text(dims)} and the number of its parts")
    kept, values = (*dims[:at], *dims[at + 1 :]), ask.values(0)
    if values is None or len(values) != ask.count or kept:
        return (Known(kept),) * ask.count
    return tuple(Known((), (value,)) for value in values)


@shape("ConcatV2 Concat", values=True)
def _concat(ask: Ask) -> Known:
    parts = ask.inputs[:-1] if ask.op == "ConcatV2" else ask.inputs[1:]
    axis = _single(ask.numbers(-1 if ask.op == "ConcatV2" else 0))
    ranks = {one.rank for one in parts} - {None}
    if not parts or not ranks:
        return NOTHING
    if len(ranks) > 1:
        raise Conflict(f"shapes {', '.join(text(one.dims) for one in parts[:4])} are joined")
    rank = ranks.pop() or 0
    if axis is None:
        return Known(_unknown(rank))
    at = _axis(axis, rank, parts[0].dims) if rank else 0
    if not rank:
        raise Conflict("scalars are joined")
    outer: Dims = None
    total: Size = 0
    for one in parts:
        dims = one.dims or (None,) * rank
        outer = same(outer, (*dims[:at], *dims[at + 1 :]), "shapes that are joined, without the axis,")
        total = plus(total, dims[at])
    known = [one.values for one in parts]
    values = None
    if rank == 1 and any(known):
        values = _joined(parts, known)
    return Known((*(outer or ())[:at], total, *(outer or ())[at:]), values)


def _joined(parts: Sequence[Known], known: Sequence[tuple[Size, ...] | None]) -> tuple[Size, ...] | None:
    found: list[Size] = []
    for part, values in zip(parts, known, strict=True):
        size = None if part.dims is None else part.dims[0]
        if values is None and not (isinstance(size, int) and size <= _MOST):
            return None
        found += values if values is not None else (None,) * (size if isinstance(size, int) else 0)
    return tuple(found)


@shape("Split")
def _split(ask: Ask) -> tuple[Known, ...]:
    dims, axis = ask.dims(1), _single(ask.numbers(0))
    if dims is None or axis is None:
        return (Known(_unknown(None if dims is None else len(dims))),) * ask.count
    at = _axis(axis, len(dims), dims)
    if isinstance(dims[at], int) and dims[at] % ask.count:  # type: ignore[operator]  # it is an int
        raise Conflict(f"size {at} of {text(dims)} is split into {ask.count}")
    return (Known((*dims[:at], over(dims[at], ask.count), *dims[at + 1 :])),) * ask.count


@shape("SplitV")
def _split_v(ask: Ask) -> tuple[Known, ...]:
    dims, axis, sizes = ask.dims(0), _single(ask.numbers(2)), ask.numbers(1)
    if dims is None or axis is None:
        return (Known(_unknown(None if dims is None else len(dims))),) * ask.count
    at = _axis(axis, len(dims), dims)
    if ask.count == 1:
        return (Known(dims),)
    if sizes is None or len(sizes) != ask.count:
        return (Known((*dims[:at], None, *dims[at + 1 :])),) * ask.count
    rest = minus(dims[at], sum(size for size in sizes if size >= 0))
    return tuple(Known((*dims[:at], rest if size < 0 else size, *dims[at + 1 :])) for size in sizes)


@shape("Slice", values=True)
def _slice(ask: Ask) -> Known:
    dims, starts, sizes = ask.dims(0), ask.numbers(1), ask.numbers(2)
    if dims is None:
        rank = next((one.dims[0] for one in ask.inputs[1:] if one.dims), None)
        if sizes is not None and all(size >= 0 for size in sizes):
            return Known(sizes)
        return Known(_unknown(rank) if isinstance(rank, int) else None)
    for number in (1, 2):
        equal((ask.dims(number, 1) or (None,))[0], len(dims), "the sizes of what a slice takes and of its bounds")
    if sizes is None:
        return Known(_unknown(len(dims)))
    kept: list[Size] = []
    for at, (dim, size) in enumerate(zip(dims, sizes, strict=True)):
        rest = None if starts is None else minus(dim, starts[at])
        kept.append(size if size >= 0 else None if isinstance(rest, int) and rest < 0 else rest)
    values, count = ask.values(0), kept[0] if kept else None
    if values is None or starts is None or len(dims) != 1 or not isinstance(count, int):
        return Known(tuple(kept))
    found = values[starts[0] : starts[0] + count]
    return Known(tuple(kept), found if len(found) == count and starts[0] >= 0 else None)


@refusal("Slice")
def _slice_outside(ask: Ask) -> None:
    dims, starts, sizes = ask.dims(0), ask.numbers(1), ask.numbers(2)
    if dims is None or starts is None or sizes is None or not len(dims) == len(starts) == len(sizes):
        return
    for dim, start, size in zip(dims, starts, sizes, strict=True):
        is_outside = isinstance(dim, int) and start + max(size, 0) > dim
        if size < -1 or start < 0 or is_outside:
            raise Conflict(f"{size} elements from {start} on are taken of shape {text(dims)}")


@shape("StridedSlice", values=True)
def _strided_slice(ask: Ask) -> Known:
    dims, strides = ask.dims(0), ask.numbers(3)
    bounds = ask.dims(1)
    count = bounds[0] if bounds is not None and len(bounds) == 1 else None
    if dims is None or strides is None or (isinstance(count, int) and count != len(strides)):
        return NOTHING
    begins = ask.values(1) or (None,) * len(strides)
    ends = ask.values(2) or (None,) * len(strides)
    if len(begins) != len(strides) or len(ends) != len(strides) or 0 in strides:
        raise Conflict("the bounds of a slice do not fit each other")
    masks = {name: ask.integer(f"{name}_mask") for name in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    ellipsis = next((at for at in range(len(strides)) if masks["ellipsis"] >> at & 1), None)
    later = len(strides) if ellipsis is None else ellipsis
    fixed = sum(1 for at in range(len(strides)) if at != ellipsis and (not masks["new_axis"] >> at & 1))
    if fixed > len(dims):
        raise Conflict(f"{fixed} dimensions are sliced of shape {text(dims)}")
    kept: list[Size] = []
    place = 0
    for at, stride in enumerate(strides):
        if at == later:
            kept += dims[place : place + len(dims) - fixed]
            place += len(dims) - fixed
        elif masks["new_axis"] >> at & 1:
            kept.append(1)
        else:
            begin, end = begins[at], ends[at]
            is_single = bool(masks["shrink_axis"] >> at & 1)
            if is_single:
                _check_index(begin, stride, dims[place], dims)
            else:
                is_open = (bool(masks["begin"] >> at & 1), bool(masks["end"] >> at & 1))
                kept.append(_sliced(dims[place], begin, end, stride, is_open))
            place += 1
    kept += dims[place:]
    found = Known(tuple(kept))
    values = ask.values(0)
    is_plain = len(dims) == 1 and len(strides) == 1 and not masks["ellipsis"] and not masks["new_axis"]
    return _elements(found, values, begins[0], ends[0], strides[0], masks) if is_plain and values is not None else found


def _check_index(index: Size, stride: int, dim: Size, dims: Dims) -> None:
    if stride <= 0 and isinstance(dim, int):
        raise Conflict(f"one element is taken with a step of {stride}")
    if isinstance(dim, int) and isinstance(index, int) and not -dim <= index < dim:
        raise Conflict(f"element {index} is taken of shape {text(dims)}")


def _sliced(dim: Size, begin: Size, end: Size, stride: int, is_open: tuple[bool, bool]) -> Size:
    if is_open == (True, True) and stride in (1, -1):
        return dim
    first, last = None if is_open[0] else begin, None if is_open[1] else end
    if not isinstance(dim, int):
        if stride == 1 and is_open[1] is False and isinstance(end, str) and end == dim and first in (0, None):
            return dim if is_open[0] or begin == 0 else None
        return None
    if (not is_open[0] and not isinstance(begin, int)) or (not is_open[1] and not isinstance(end, int)):
        return None
    return len(range(dim)[slice(_plain(first), _plain(last), stride)])


def _plain(size: Size) -> int | None:
    return size if isinstance(size, int) else None


def _elements(
    found: Known, values: tuple[Size, ...], begin: Size, end: Size, stride: int, masks: Mapping[str, int]
) -> Known:
    """What a slice of a vector takes of its elements."""
    if masks["shrink_axis"] & 1:
        if not isinstance(begin, int) or not -len(values) <= begin < len(values):
            return found
        return found._replace(values=(values[begin],))
    open_begin, open_end = masks["begin"] & 1, masks["end"] & 1
    if (not open_begin and not isinstance(begin, int)) or (not open_end and not isinstance(end, int)):
        return found
    part = slice(None if open_begin else _plain(begin), None if open_end else _plain(end), stride)
    return found._replace(values=values[part])


# Rows by ids


@shape("Gather GatherV2 ResourceGather", values=True)
def _gather(ask: Ask) -> Known:
    table = ask.known(0).held if ask.op == "ResourceGather" else ask.at_least(0, 1)
    ids, batch = ask.dims(1), ask.integer("batch_dims")
    axis = _single(ask.numbers(2)) if ask.op == "GatherV2" else 0
    if table is None or ids is None:
        return NOTHING
    if axis is None:
        return Known(_unknown(len(table) - 1 + len(ids) - max(batch, 0)) if batch >= 0 else None)
    batch = batch + len(ids) if batch < 0 else batch
    if ask.op == "ResourceGather":
        axis = batch
    at = _axis(axis, len(table), table)
    if not 0 <= batch <= min(at, len(ids)):
        raise Conflict(f"{batch} batch dimensions are gathered of shape {text(table)} by {text(ids)}")
    outer = same(table[:batch], ids[:batch], "batches of the table and of the ids") or ()
    dims = (*outer, *table[batch:at], *ids[batch:], *table[at + 1 :])
    values, numbers = ask.values(0), ask.numbers(1)
    if values is None or numbers is None or len(table) != 1 or len(ids) > 1:
        return Known(dims)
    if any(not 0 <= number < len(values) for number in numbers):
        return Known(dims)
    return Known(dims, tuple(values[number] for number in numbers))


@shape("GatherNd ResourceGatherNd")
def _gather_nd(ask: Ask) -> Known:
    table = ask.known(0).held if ask.op == "ResourceGatherNd" else ask.dims(0)
    ids = ask.at_least(1, 1)
    if table is None or ids is None or not isinstance(ids[-1], int):
        return NOTHING
    if ids[-1] > len(table):
        raise Conflict(f"{ids[-1]} ids are given for shape {text(table)}")
    return Known((*ids[:-1], *table[ids[-1] :]))


@shape("OneHot")
def _one_hot(ask: Ask) -> Known:
    dims, depth = ask.dims(0), ask.values(1)
    if dims is None:
        return NOTHING
    axis = ask.integer("axis", -1)
    if not -1 <= axis <= len(dims):
        return NOTHING
    at = len(dims) if axis < 0 else axis
    return Known((*dims[:at], None if depth is None else depth[0], *dims[at:]))


@shape("Where")
def _where(ask: Ask) -> Known:
    return Known((None, ask.known(0).rank))


@shape("Unique")
def _unique(ask: Ask) -> tuple[Known, ...]:
    return Known((None,)), Known(ask.dims(0))


# More of the same


@shape("Tile")
def _tile(ask: Ask) -> Known:
    dims, counts = ask.dims(0), ask.values(1)
    if dims is None or counts is None:
        size = ask.known(1).dims
        rank = len(dims) if dims is not None else size[0] if size is not None and len(size) == 1 else None
        return Known(_unknown(rank) if isinstance(rank, int) else None)
    if len(counts) != len(dims):
        raise Conflict(f"shape {text(dims)} is repeated by {len(counts)} numbers")
    return Known(tuple(times(pair) for pair in zip(dims, counts, strict=True)))


@refusal("Tile")
def _tile_negative(ask: Ask) -> None:
    for count in ask.numbers(1) or ():
        if count < 0:
            raise Conflict(f"shape {text(ask.dims(0))} is repeated {count} times")


@shape("Pad PadV2 MirrorPad")
def _pad(ask: Ask) -> Known:
    dims, paddings = ask.dims(0), ask.dims(1, 2) or (None, None)
    equal(paddings[1], 2, "the width of paddings")
    if dims is None:
        return Known(_unknown(paddings[0]) if isinstance(paddings[0], int) else None)
    equal(paddings[0], len(dims), f"the dimensions of {text(dims)} and the paddings")
    added = ask.values(1)
    if added is None or len(added) != 2 * len(dims):
        return Known(_unknown(len(dims)))
    if any(isinstance(size, int) and size < 0 for size in added):
        raise Conflict(f"shape {text(dims)} is padded by a negative number")
    return Known(tuple(plus(plus(dim, added[2 * at]), added[2 * at + 1]) for at, dim in enumerate(dims)))


# Examples


@shape("ParseExample")
def _parse_example(ask: Ask) -> tuple[Known, ...]:
    """Sparse columns as indices, values and shapes; then the dense ones, a row for each example."""
    count = int(ask.attrs["Nsparse"].value or 0)  # type: ignore[arg-type]
    shapes = ask.attrs["dense_shapes"].value
    batch = ask.dims(0)
    dense = [one.dims for one in shapes if isinstance(one, Shape)] if isinstance(shapes, tuple) else []
    rows = (
        Known(None if dims is None or batch is None else (*batch, *(None if size < 0 else size for size in dims)))
        for dims in dense
    )
    return (*[Known((None, 2))] * count, *[Known((None,))] * count, *[Known((2,))] * count, *rows)
