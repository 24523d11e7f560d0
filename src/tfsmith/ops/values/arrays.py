"""Values of ops that make, shape, join, split, cut and move tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType, Shape
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import axes_of, axis_of, check, check_ids, check_room, scalar, sizes_of, variants

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["cut"]

_NOT_TILED = (numpy.dtype(numpy.uint16),)


# Shapes


@value("Shape")
def _shape(x: NDArray[Any], *, out_type: DType) -> Any:
    return numpy.array(x.shape, out_type.numpy())


@value("ShapeN")
def _shape_n(inputs: tuple[NDArray[Any], ...], *, out_type: DType) -> Any:
    return tuple(numpy.array(one.shape, out_type.numpy()) for one in inputs)


@value("Size")
def _size(x: NDArray[Any], *, out_type: DType) -> Any:
    return numpy.array(x.size, out_type.numpy())


@value("Rank")
def _rank(x: NDArray[Any]) -> Any:
    return numpy.array(x.ndim, numpy.int32)


@value("Reshape")
def _reshape(x: NDArray[Any], shape: NDArray[Any]) -> Any:
    sizes = sizes_of(shape, "the shape")
    check(all(size >= -1 for size in sizes), f"shape {sizes} has a negative size")
    check(sizes.count(-1) <= 1, f"shape {sizes} has two unknown sizes")
    if -1 in sizes:  # sizes of zero do not count where the shape has one, too
        known = int(numpy.prod([size for size in sizes if size > 0], dtype=numpy.int64))
        given = int(numpy.prod([size for size in x.shape if size or 0 not in sizes], dtype=numpy.int64))
        sizes[sizes.index(-1)] = given // known
    check(int(numpy.prod(sizes, dtype=numpy.int64)) == x.size, f"{x.size} elements do not fit into shape {sizes}")
    return x.reshape(sizes)


@value("ExpandDims")
def _expand_dims(x: NDArray[Any], axis: NDArray[Any]) -> Any:
    return numpy.expand_dims(x, axis_of(scalar(axis, "the axis"), x.ndim + 1))


@value("Squeeze")
def _squeeze(x: NDArray[Any], *, squeeze_dims: tuple[int, ...]) -> Any:
    axes = {axis_of(axis, x.ndim) for axis in squeeze_dims}
    for axis in axes:
        check(x.shape[axis] == 1, f"axis {axis} of shape {list(x.shape)} cannot be squeezed: its size is not 1")
    sizes = [n for axis, n in enumerate(x.shape) if (axis not in axes if squeeze_dims else n != 1)]
    return x.reshape(sizes)


@value("EnsureShape")
def _ensure_shape(x: NDArray[Any], *, shape: Shape) -> Any:
    sizes = None if shape.dims is None else [size if size is not None and size >= 0 else None for size in shape.dims]
    fits = sizes is None or (
        len(sizes) == x.ndim and all(size in (None, found) for size, found in zip(sizes, x.shape, strict=True))
    )
    check(fits, f"shape {list(x.shape)} is not compatible with {shape}")
    return x


@value("BroadcastTo")
def _broadcast_to(x: NDArray[Any], shape: NDArray[Any]) -> Any:
    sizes = sizes_of(shape, "the shape")
    check(all(size >= 0 for size in sizes), f"shape {sizes} has a negative size")
    check_room(sizes, x.dtype)
    return numpy.broadcast_to(x, sizes)


@value("BroadcastArgs")
def _broadcast_args(x: NDArray[Any], y: NDArray[Any]) -> Any:
    sizes = numpy.broadcast_shapes(tuple(sizes_of(x, "a shape")), tuple(sizes_of(y, "a shape")))
    return numpy.array(sizes, x.dtype)


@value("BroadcastGradientArgs")
def _broadcast_gradient_args(x: NDArray[Any], y: NDArray[Any]) -> Any:
    left, right = sizes_of(x, "a shape"), sizes_of(y, "a shape")
    numpy.broadcast_shapes(tuple(left), tuple(right))
    rank = max(len(left), len(right))
    padded = [(1,) * (rank - len(one)) + tuple(one) for one in (left, right)]
    if padded[0] == padded[1]:
        return numpy.zeros(0, x.dtype), numpy.zeros(0, x.dtype)
    found = [numpy.array([axis for axis in range(rank) if one[axis] == 1], x.dtype) for one in padded]
    return tuple(found)


@value("ConcatOffset")
def _concat_offset(axis: NDArray[Any], shapes: tuple[NDArray[Any], ...]) -> Any:
    sizes = [sizes_of(one, "a shape") for one in shapes]
    along = axis_of(scalar(axis, "the axis", strict=True), len(sizes[0]))
    found, start = [], 0
    for one in sizes:
        same = len(one) == len(sizes[0]) and all(
            a == b for place, (a, b) in enumerate(zip(one, sizes[0], strict=True)) if place != along
        )
        check(same, f"shapes {sizes[0]} and {one} do not match outside of axis {along}")
        offset = numpy.zeros(len(one), shapes[0].dtype)
        offset[along] = start
        start += one[along]
        found.append(offset)
    return tuple(found)


@value("UnravelIndex")
def _unravel_index(indices: NDArray[Any], dims: NDArray[Any]) -> Any:
    sizes = sizes_of(dims, "the sizes")
    check(indices.ndim <= 1, f"the indices must be a scalar or a vector, and have shape {list(indices.shape)}")
    total = int(numpy.prod(sizes, dtype=numpy.int64))
    check(total > 0 and indices.size > 0, f"there are no indices, or sizes {sizes} hold no element")
    check_ids(indices, total)
    return numpy.array(numpy.unravel_index(indices, sizes)).astype(indices.dtype)


# New tensors


@value("Fill")
def _fill(dims: NDArray[Any], x: NDArray[Any]) -> Any:
    sizes = sizes_of(numpy.atleast_1d(dims), "the shape")
    check(x.size == 1 and x.ndim < 2, f"the value must be a scalar, and has shape {list(x.shape)}")
    check(all(size >= 0 for size in sizes), f"shape {sizes} has a negative size")
    check_room(sizes, x.dtype)
    return numpy.full(sizes, x.reshape(())[()], x.dtype)


@value("Empty")
def _empty(shape: NDArray[Any], *, dtype: DType) -> Any:
    sizes = sizes_of(shape, "the shape")
    kind = dtype.numpy()
    check(all(size >= 0 for size in sizes), f"shape {sizes} has a negative size")
    check_room(sizes, kind)
    return numpy.full(sizes, b"", kind) if kind.kind == "O" else numpy.zeros(sizes, kind)


@value("Range")
def _range(start: NDArray[Any], limit: NDArray[Any], delta: NDArray[Any]) -> Any:
    for one, name in ((start, "start"), (limit, "limit"), (delta, "delta")):
        scalar(one, f"the {name}")
    kind = start.dtype
    first, last, step = start.reshape(())[()], limit.reshape(())[()], delta.reshape(())[()]
    check(step != 0, "the step of a range must not be 0")
    check(bool(first <= last if step > 0 else first >= last), f"no steps of {step} go from {first} to {last}")
    count = _steps(first, last, step)
    check_room([count], kind)
    if kind.kind in "iu":
        return numpy.arange(int(first), int(last), int(step), dtype=kind)
    return (first + numpy.arange(count).astype(kind) * step).astype(kind)


@value("LinSpace")
def _lin_space(start: NDArray[Any], stop: NDArray[Any], num: NDArray[Any]) -> Any:
    for one, name in ((start, "start"), (stop, "stop"), (num, "number")):
        check(one.ndim == 0, f"the {name} must be a scalar, and has shape {list(one.shape)}")
    count = int(num)
    check(count > 0, f"{count} numbers were asked for; at least one is needed")
    check_room([count], start.dtype)
    if count == 1:
        return start.reshape(1)
    step = (stop - start) / start.dtype.type(count - 1)
    found = start + step * numpy.arange(count).astype(start.dtype)
    found[-1] = stop
    return found.astype(start.dtype)


@value("OneHot")
def _one_hot(
    indices: NDArray[Any], depth: NDArray[Any], on_value: NDArray[Any], off_value: NDArray[Any], *, axis: int
) -> Any:
    for one, name in ((depth, "depth"), (on_value, "value of what is on"), (off_value, "value of what is off")):
        check(one.ndim == 0, f"the {name} must be a scalar, and has shape {list(one.shape)}")
    size = int(depth)
    check(size >= 0, f"the depth is negative: {size}")
    place = axis_of(axis, indices.ndim + 1)
    check_room([*indices.shape, size], on_value.dtype)
    steps = numpy.arange(size).reshape(-1, *(1,) * (indices.ndim - place))
    ids = numpy.expand_dims(indices, place).astype(numpy.int64)
    return numpy.where(ids == steps, on_value, off_value).astype(on_value.dtype, copy=False)


# Joining and splitting


@value("ConcatV2")
def _concat_v2(values: tuple[NDArray[Any], ...], axis: NDArray[Any]) -> Any:
    return _joined(values, scalar(axis, "the axis"))


@value("Concat")
def _concat(axis: NDArray[Any], values: tuple[NDArray[Any], ...]) -> Any:
    return _joined(values, scalar(axis, "the axis"))


@value("ParallelConcat")
def _parallel_concat(values: tuple[NDArray[Any], ...], *, shape: Shape) -> Any:
    del shape  # it says what is found anyhow
    for one in values:
        check(one.ndim > 0 and len(one) == 1, f"a part of shape {list(one.shape)} is not one row")
    return _joined(values, 0)


@value("Pack")
def _pack(values: tuple[NDArray[Any], ...], *, axis: int) -> Any:
    if not isinstance(values[0], numpy.ndarray):
        return variants(values)
    for one in values:
        check(one.shape == values[0].shape, f"cannot pack shapes {list(values[0].shape)} and {list(one.shape)}")
    return numpy.stack(values, axis_of(axis, values[0].ndim + 1))


@value("Unpack")
def _unpack(x: NDArray[Any], *, num: int, axis: int) -> Any:
    place = axis_of(axis, x.ndim)
    check(x.shape[place] == num, f"axis {place} of shape {list(x.shape)} does not unpack into {num}")
    moved = numpy.moveaxis(x, place, 0)
    if x.dtype == object and x.ndim == 1 and not all(isinstance(one, bytes) for one in x):
        return tuple(x.tolist())  # variants
    return tuple(moved[number, ...] for number in range(num))


@value("Split")
def _split(axis: NDArray[Any], x: NDArray[Any], *, num_split: int) -> Any:
    place = axis_of(scalar(axis, "the axis", strict=True), x.ndim)
    check(x.shape[place] % num_split == 0, f"axis {place} of shape {list(x.shape)} does not split into {num_split}")
    return tuple(numpy.split(x, num_split, place))


@value("SplitV")
def _split_v(x: NDArray[Any], size_splits: NDArray[Any], axis: NDArray[Any]) -> Any:
    place = axis_of(scalar(axis, "the axis"), x.ndim)
    sizes = sizes_of(size_splits, "the sizes")
    check(sizes.count(-1) <= 1 and all(size >= -1 for size in sizes), f"sizes {sizes} cannot be split into")
    rest = x.shape[place] - sum(size for size in sizes if size >= 0)
    check(rest >= 0 and (rest == 0 or -1 in sizes), f"sizes {sizes} do not add up to {x.shape[place]}")
    ends = numpy.cumsum([rest if size == -1 else size for size in sizes])
    return tuple(numpy.split(x, ends[:-1], place))


# Cutting


@value("Slice")
def _slice(x: NDArray[Any], begin: NDArray[Any], size: NDArray[Any]) -> Any:
    starts, sizes = sizes_of(begin, "begin"), sizes_of(size, "size")
    check(len(starts) == x.ndim == len(sizes), f"begin and size must have {x.ndim} elements")
    cuts: list[slice] = []
    for axis, (start, count) in enumerate(zip(starts, sizes, strict=True)):
        length = x.shape[axis] - start if count == -1 else count
        fits = 0 <= start <= x.shape[axis] and 0 <= length <= x.shape[axis] - start
        check(fits, f"the slice from {start} of {count} is not inside of axis {axis} of size {x.shape[axis]}")
        cuts.append(slice(start, start + length))
    place: tuple[Any, ...] = (*cuts, ...)
    return x[place]


@value("StridedSlice")
def _strided_slice(
    x: NDArray[Any], begin: NDArray[Any], end: NDArray[Any], strides: NDArray[Any], *, begin_mask: int, end_mask: int,
    ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
) -> Any:  # fmt: skip
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    return x[cut(x.shape, begin, end, strides, *masks)]


@value("TensorStridedSliceUpdate")
def _tensor_strided_slice_update(
    x: NDArray[Any], begin: NDArray[Any], end: NDArray[Any], strides: NDArray[Any], given: NDArray[Any], *,
    begin_mask: int, end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
) -> Any:  # fmt: skip
    masks = (begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
    found = x.copy()
    found[cut(x.shape, begin, end, strides, *masks)] = given
    return found


# Padding and repeating


@value("Pad")
def _pad(x: NDArray[Any], paddings: NDArray[Any]) -> Any:
    fill: Any = b"" if x.dtype == object else 0
    return _padded(x, paddings, numpy.array(fill, x.dtype))


@value("PadV2")
def _pad_v2(x: NDArray[Any], paddings: NDArray[Any], constant: NDArray[Any]) -> Any:
    check(constant.ndim == 0, f"the constant must be a scalar, and has shape {list(constant.shape)}")
    return _padded(x, paddings, constant)


@value("MirrorPad")
def _mirror_pad(x: NDArray[Any], paddings: NDArray[Any], *, mode: bytes) -> Any:
    widths = _widths(x, paddings)
    border = int(mode == b"REFLECT")
    for axis, (before, after) in enumerate(widths):
        size = x.shape[axis]
        check(max(before, after) <= size - border, f"padding {before}, {after} is too wide for axis {axis} of {size}")
    found = x
    for axis, (before, after) in enumerate(widths):
        size = x.shape[axis]
        ids = numpy.concatenate(
            [
                numpy.arange(before - 1 + border, border - 1, -1),
                numpy.arange(size),
                numpy.arange(size - 1 - border, size - 1 - border - after, -1),
            ]
        )
        found = numpy.take(found, ids, axis) if before or after else found
    return found


@value("Tile")
def _tile(x: NDArray[Any], multiples: NDArray[Any]) -> Any:
    times = sizes_of(multiples, "the multiples")
    check(x.dtype not in _NOT_TILED, f"TensorFlow does not tile {x.dtype}")
    check(len(times) == x.ndim, f"{len(times)} multiples do not fit rank {x.ndim}")
    check(all(one >= 0 for one in times), f"multiples {times} must not be negative")
    check_room([size * one for size, one in zip(x.shape, times, strict=True)], x.dtype)
    return numpy.tile(x, times)


# Moving


@value("Transpose")
def _transpose(x: NDArray[Any], perm: NDArray[Any]) -> Any:
    return x.transpose(_permutation(x, perm))


@value("ConjugateTranspose")
def _conjugate_transpose(x: NDArray[Any], perm: NDArray[Any]) -> Any:
    moved = x.transpose(_permutation(x, perm))
    return numpy.conjugate(moved) if x.dtype.kind == "c" else moved


@value("InvertPermutation")
def _invert_permutation(x: NDArray[Any]) -> Any:
    order = sizes_of(x, "the permutation")
    check(sorted(order) == list(range(len(order))), f"{order} is not a permutation")
    return numpy.argsort(x, kind="stable").astype(x.dtype)


@value("Reverse")
def _reverse(x: NDArray[Any], dims: NDArray[Any]) -> Any:
    check(dims.shape == (x.ndim,), f"{list(dims.shape)} flags do not fit rank {x.ndim}")
    check(x.ndim == 0 or len(x) > 0, "there is no first element")
    return numpy.flip(x, tuple(int(axis) for axis in numpy.flatnonzero(dims)))


@value("ReverseV2")
def _reverse_v2(x: NDArray[Any], axis: NDArray[Any]) -> Any:
    return numpy.flip(x, axes_of(sizes_of(axis, "the axes"), x.ndim))


@value("ReverseSequence")
def _reverse_sequence(x: NDArray[Any], lengths: NDArray[Any], *, seq_dim: int, batch_dim: int) -> Any:
    check(0 <= seq_dim < x.ndim and 0 <= batch_dim < x.ndim, f"axes {seq_dim}, {batch_dim} are not of rank {x.ndim}")
    check(seq_dim != batch_dim, f"axis {seq_dim} cannot be both the sequence's and the batch's")
    check(lengths.shape == (x.shape[batch_dim],), f"there must be {x.shape[batch_dim]} lengths")
    size = x.shape[seq_dim]
    bad = lengths[(lengths < 0) | (lengths > size)]
    check(not bad.size, f"a length is not in [0, {size}]")
    steps, counts = numpy.arange(size), lengths.astype(numpy.int64)[:, None]
    ids = numpy.where(steps < counts, counts - 1 - steps, steps)
    moved = numpy.moveaxis(x, (batch_dim, seq_dim), (0, 1))
    found = moved[numpy.arange(len(ids))[:, None], ids]
    return numpy.moveaxis(found, (0, 1), (batch_dim, seq_dim))


@value("Roll")
def _roll(x: NDArray[Any], shift: NDArray[Any], axis: NDArray[Any]) -> Any:
    check(x.ndim > 0, "a scalar cannot be rolled")
    check(shift.ndim <= 1 and shift.shape == axis.shape, "there must be a shift for each axis")
    found = x
    for by, along in zip(shift.reshape(-1), axis.reshape(-1), strict=True):
        found = numpy.roll(found, int(by), axis_of(int(along), x.ndim))
    return found


# Space, batch and depth


@value("SpaceToDepth")
def _space_to_depth(x: NDArray[Any], *, block_size: int, data_format: bytes) -> Any:
    check(x.ndim == 4 and data_format == b"NHWC", "four axes in the format NHWC are needed")
    batch, height, width, depth = x.shape
    fits = height % block_size == 0 and width % block_size == 0
    check(fits, f"{height} x {width} cannot be divided into blocks of {block_size}")
    rows, columns = height // block_size, width // block_size
    parts = x.reshape(batch, rows, block_size, columns, block_size, depth).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(batch, rows, columns, block_size * block_size * depth)


@value("DepthToSpace")
def _depth_to_space(x: NDArray[Any], *, block_size: int, data_format: bytes) -> Any:
    check(x.ndim == 4 and data_format == b"NHWC", "four axes in the format NHWC are needed")
    batch, height, width, depth = x.shape
    check(depth % block_size**2 == 0, f"a depth of {depth} cannot be divided into blocks of {block_size}")
    rest = depth // block_size**2
    parts = x.reshape(batch, height, width, block_size, block_size, rest).transpose(0, 1, 3, 2, 4, 5)
    return parts.reshape(batch, height * block_size, width * block_size, rest)


@value("SpaceToBatchND")
def _space_to_batch_nd(x: NDArray[Any], block_shape: NDArray[Any], paddings: NDArray[Any]) -> Any:
    return _to_batch(x, sizes_of(block_shape, "the block's shape"), paddings)


@value("SpaceToBatch")
def _space_to_batch(x: NDArray[Any], paddings: NDArray[Any], *, block_size: int) -> Any:
    check(x.ndim == 4, f"four axes are needed, not shape {list(x.shape)}")
    return _to_batch(x, [block_size, block_size], paddings)


@value("BatchToSpaceND")
def _batch_to_space_nd(x: NDArray[Any], block_shape: NDArray[Any], crops: NDArray[Any]) -> Any:
    return _to_space(x, sizes_of(block_shape, "the block's shape"), crops)


@value("BatchToSpace")
def _batch_to_space(x: NDArray[Any], crops: NDArray[Any], *, block_size: int) -> Any:
    check(x.ndim == 4, f"four axes are needed, not shape {list(x.shape)}")
    return _to_space(x, [block_size, block_size], crops)


def _steps(first: Any, last: Any, step: Any) -> int:
    """How many numbers a range has."""
    if isinstance(first, numpy.integer):
        return -((int(first) - int(last)) // int(step)) if int(step) > 0 else -((int(last) - int(first)) // -int(step))
    count = float(numpy.ceil(numpy.abs((last - first) / step)))
    check(math.isfinite(count), f"a range from {first} to {last} by {step} has no end")
    return int(count)


def _joined(values: Sequence[NDArray[Any]], axis: int) -> NDArray[Any]:
    first = values[0]
    check(first.ndim > 0, "scalars cannot be joined")
    place = axis_of(axis, first.ndim)
    for one in values[1:]:
        same = one.ndim == first.ndim and all(
            a == b for at, (a, b) in enumerate(zip(one.shape, first.shape, strict=True)) if at != place
        )
        check(same, f"shapes {list(first.shape)} and {list(one.shape)} cannot be joined along axis {place}")
    return numpy.concatenate(values, place)


def _permutation(x: NDArray[Any], perm: NDArray[Any]) -> list[int]:
    order = sizes_of(perm, "the permutation")
    fits = sorted(axis % x.ndim for axis in order) == list(range(x.ndim)) if x.ndim else not order
    check(fits and all(-x.ndim <= axis < x.ndim for axis in order), f"{order} does not order {x.ndim} axes")
    return order


def _widths(x: NDArray[Any], paddings: NDArray[Any]) -> list[tuple[int, int]]:
    check(paddings.shape == (x.ndim, 2), f"paddings of shape {list(paddings.shape)} do not fit rank {x.ndim}")
    widths = [(int(before), int(after)) for before, after in paddings]
    check(all(before >= 0 and after >= 0 for before, after in widths), f"paddings {widths} must not be negative")
    return widths


def _padded(x: NDArray[Any], paddings: NDArray[Any], constant: NDArray[Any]) -> NDArray[Any]:
    widths = _widths(x, paddings)
    sizes = [before + size + after for (before, after), size in zip(widths, x.shape, strict=True)]
    check_room(sizes, x.dtype)
    found = numpy.full(sizes, constant[()], x.dtype)
    found[tuple(slice(before, before + size) for (before, _), size in zip(widths, x.shape, strict=True))] = x
    return found


def cut(
    shape: tuple[int, ...], begin: NDArray[Any], end: NDArray[Any], strides: NDArray[Any], begin_mask: int,
    end_mask: int, ellipsis_mask: int, new_axis_mask: int, shrink_axis_mask: int,
) -> tuple[Any, ...]:  # fmt: skip
    """The index of a strided slice, in numpy's words."""
    starts, ends, steps = sizes_of(begin, "begin"), sizes_of(end, "end"), sizes_of(strides, "strides")
    check(len(starts) == len(ends) == len(steps), "begin, end and strides differ in length")
    ellipses = [place for place in range(len(starts)) if ellipsis_mask >> place & 1]
    check(len(ellipses) <= 1, "there are two ellipses")
    new = [place for place in range(len(starts)) if new_axis_mask >> place & 1 and place not in ellipses]
    used = len(starts) - len(new) - len(ellipses)
    check(used <= len(shape), f"a slice of {used} axes does not fit shape {list(shape)}")
    found: list[Any] = []
    axis = 0
    for place, (start, stop, step) in enumerate(zip(starts, ends, steps, strict=True)):
        if place in ellipses:
            found.append(Ellipsis)
            axis += len(shape) - used
            continue
        if place in new:
            found.append(None)
            continue
        check(step != 0, f"the stride of axis {axis} is 0")
        if shrink_axis_mask >> place & 1:
            check(step > 0, f"the stride of axis {axis} must be positive, since one element is taken")
            check(-shape[axis] <= start < shape[axis], f"index {start} is not inside of axis {axis} of {shape[axis]}")
            found.append(start)
        else:
            found.append(
                slice(None if begin_mask >> place & 1 else start, None if end_mask >> place & 1 else stop, step)
            )
        axis += 1
    return tuple(found) if ellipses else (*found, ...)  # so that one element is a tensor, too


def _blocks(x: NDArray[Any], block: list[int], widths: NDArray[Any]) -> None:
    check(x.ndim > len(block), f"blocks of {len(block)} axes do not fit shape {list(x.shape)}")
    check(all(size >= 1 for size in block), f"block {block} must be positive")
    check(widths.shape == (len(block), 2), f"widths of shape {list(widths.shape)} do not fit {len(block)} axes")
    check(not (widths < 0).any(), f"widths {widths.tolist()} must not be negative")


def _to_batch(x: NDArray[Any], block: list[int], paddings: NDArray[Any]) -> Any:
    _blocks(x, block, paddings)
    count = len(block)
    every = numpy.zeros((x.ndim, 2), numpy.int64)
    every[1 : 1 + count] = paddings
    padded = _padded(x, every, numpy.zeros((), x.dtype))
    sizes = padded.shape[1 : 1 + count]
    fits = all(size % one == 0 for size, one in zip(sizes, block, strict=True))
    check(fits, f"padded sizes {list(sizes)} cannot be divided into blocks {block}")
    split = [part for size, one in zip(sizes, block, strict=True) for part in (size // one, one)]
    parts = padded.reshape(x.shape[0], *split, *x.shape[1 + count :])
    inner = range(1 + 2 * count, parts.ndim)
    moved = parts.transpose(*range(2, 1 + 2 * count, 2), 0, *range(1, 1 + 2 * count, 2), *inner)
    batch = x.shape[0] * int(numpy.prod(block, dtype=numpy.int64))
    return moved.reshape(batch, *split[::2], *x.shape[1 + count :])


def _to_space(x: NDArray[Any], block: list[int], crops: NDArray[Any]) -> Any:
    _blocks(x, block, crops)
    count, blocks = len(block), int(numpy.prod(block, dtype=numpy.int64))
    check(x.shape[0] % blocks == 0, f"a batch of {x.shape[0]} cannot be divided by the block {block}")
    parts = x.reshape(*block, x.shape[0] // blocks, *x.shape[1:])
    order = [count, *(axis for place in range(count) for axis in (count + 1 + place, place))]
    moved = parts.transpose(*order, *range(2 * count + 1, parts.ndim))
    sizes = [size * one for size, one in zip(x.shape[1 : 1 + count], block, strict=True)]
    found = moved.reshape(x.shape[0] // blocks, *sizes, *x.shape[1 + count :])
    cuts = [slice(None)]
    for size, (before, after) in zip(sizes, crops, strict=True):
        if before + after > size:
            raise OpError(f"crops {int(before)}, {int(after)} are wider than the size {size}")
        cuts.append(slice(int(before), size - int(after)))
    return found[tuple(cuts)]
