"""Values of ops on sparse and ragged tensors. Sparse ones are indices [n, rank], values [n] and a shape [rank]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.strings import texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["check_bounds", "check_sparse", "check_splits", "sorted_order"]


def check_sparse(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any]) -> None:
    """Raises an `OpError` where the three parts of a sparse tensor do not fit each other."""
    if indices.ndim != 2 or values.ndim != 1 or shape.ndim != 1:
        raise OpError("a sparse tensor has indices [n, rank], values [n] and a shape [rank]")
    if indices.shape != (len(values), len(shape)):
        what = f"indices {list(indices.shape)}, values {list(values.shape)} and shape {list(shape.shape)} do not fit"
        raise OpError(what)


def check_bounds(indices: NDArray[Any], shape: NDArray[Any]) -> None:
    """Raises an `OpError` where an index lies outside of the shape."""
    outside: Any = numpy.flatnonzero(((indices < 0) | (indices >= shape)).any(1)) if indices.size else ()
    if len(outside):
        raise OpError(f"index {indices[outside[0]].tolist()} lies outside of shape {shape.tolist()}")


def _dense(shape: Sequence[int], kind: numpy.dtype[Any], fill: Any) -> NDArray[Any]:
    count = 1
    for size in shape:
        count *= int(size)
    if any(size < 0 for size in shape) or count * max(kind.itemsize, 1) > 4 * MAX_PROTO_BYTES:
        raise OpError(f"a tensor of shape {list(shape)} cannot be made")
    return numpy.full(tuple(shape), fill, kind)


def sorted_order(indices: NDArray[Any]) -> NDArray[Any]:
    """The order in which indices come row by row."""
    return numpy.lexsort(indices.T[::-1]) if indices.shape[1] else numpy.arange(len(indices))


@value("SparseToDense")
def _to_dense(
    indices: NDArray[Any], shape: NDArray[Any], values: NDArray[Any], default: NDArray[Any], *, validate_indices: bool
) -> NDArray[Any]:
    if shape.ndim != 1 or default.ndim:
        raise OpError("the shape must be a vector, the default a scalar")
    rank = len(shape)
    places = indices.reshape(-1, 1) if indices.ndim < 2 else indices
    if places.shape[1] != rank:
        raise OpError(f"indices of {places.shape[1]} numbers do not fit a shape of {rank}")
    if values.ndim > 1 or (values.ndim == 1 and len(values) != len(places)):
        raise OpError(f"{len(places)} indices do not fit values of shape {list(values.shape)}")
    found = _dense(shape.tolist(), values.dtype, default.item() if values.dtype == object else default)
    check_bounds(places, shape)
    if validate_indices and len(places) > 1:
        pairs = places[sorted_order(places)]
        if not (pairs == places).all():
            raise OpError("the indices are out of order")
        if (pairs[1:] == pairs[:-1]).all(1).any():
            raise OpError("an index is given twice")
    found[tuple(places.T)] = values
    return found


@value("SparseReorder")
def _reorder(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any]) -> tuple[Any, ...]:
    check_sparse(indices, values, shape)
    order = sorted_order(indices)
    return indices[order], values[order]


@value("SparseReshape")
def _reshape(indices: NDArray[Any], shape: NDArray[Any], new: NDArray[Any]) -> tuple[Any, ...]:
    if indices.ndim != 2 or shape.ndim != 1 or new.ndim != 1 or indices.shape[1] != len(shape):
        raise OpError("the indices must be a matrix, and the shapes vectors that fit")
    total = int(numpy.prod(shape, dtype=object)) if len(shape) else 1
    dims = [int(size) for size in new]
    if dims.count(-1) > 1 or any(size < -1 for size in dims):
        raise OpError(f"the shape {dims} has more than one open size, or a negative one")
    if -1 in dims:
        rest = int(numpy.prod([size for size in dims if size != -1], dtype=object))
        if not rest or total % rest:
            raise OpError(f"{total} elements do not fit shape {dims}")
        dims[dims.index(-1)] = total // rest
    if int(numpy.prod(dims, dtype=object)) != total:
        raise OpError(f"{total} elements do not fit shape {dims}")
    check_bounds(indices, shape)
    flat = (
        numpy.ravel_multi_index(tuple(indices.T), tuple(shape))
        if len(shape) and len(indices)
        else numpy.zeros(len(indices), numpy.int64)
    )
    places = (
        numpy.stack(numpy.unravel_index(flat, tuple(dims)), 1)
        if dims and len(flat)
        else numpy.zeros((len(flat), len(dims)))
    )
    return places.astype(numpy.int64), numpy.array(dims, numpy.int64)


@value("SparseFillEmptyRows")
def _fill_rows(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], default: NDArray[Any]
) -> tuple[Any, ...]:
    check_sparse(indices, values, shape)
    if default.ndim:
        raise OpError("the default must be a scalar")
    rows = int(shape[0]) if len(shape) else 0
    outside: Any = numpy.flatnonzero((indices[:, 0] < 0) | (indices[:, 0] >= rows)) if len(indices) else ()
    if len(outside):
        raise OpError(f"row {int(indices[outside[0], 0])} is not one of {rows}")
    counts = numpy.bincount(indices[:, 0], minlength=rows) if rows else numpy.zeros(0, numpy.int64)
    empty = counts == 0
    missing = numpy.flatnonzero(empty)
    added = numpy.zeros((len(missing), indices.shape[1]), numpy.int64)
    added[:, :1] = missing[:, None]
    places = numpy.concatenate([indices, added])
    fill = (
        texts([default.item()] * len(missing), (len(missing),))
        if values.dtype == object
        else numpy.full(len(missing), default)
    )
    order = numpy.argsort(places[:, 0], kind="stable")
    where = numpy.empty(len(order), numpy.int64)
    where[order] = numpy.arange(len(order))
    return places[order], numpy.concatenate([values, fill])[order], empty, where[: len(indices)]


@value("SparseConcat")
def _concat(
    indices: Sequence[NDArray[Any]], values: Sequence[NDArray[Any]], shapes: Sequence[NDArray[Any]], *, concat_dim: int
) -> tuple[Any, ...]:
    rank = len(shapes[0])
    if not -rank <= concat_dim < rank:
        raise OpError(f"axis {concat_dim} is not one of {rank}")
    axis = concat_dim % rank
    total = shapes[0].copy()
    total[axis] = 0
    moved: list[NDArray[Any]] = []
    for place, one, shape in zip(indices, values, shapes, strict=True):
        check_sparse(place, one, shape)
        if len(shape) != rank or (numpy.delete(shape, axis) != numpy.delete(total, axis)).any():
            raise OpError(f"shapes {shapes[0].tolist()} and {shape.tolist()} differ outside of axis {axis}")
        shifted = place.copy()
        shifted[:, axis] += total[axis]
        moved.append(shifted)
        total[axis] += shape[axis]
    whole = numpy.concatenate(moved)
    order = sorted_order(whole)
    return whole[order], numpy.concatenate(list(values))[order], total


@value("SparseSlice")
def _slice(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], start: NDArray[Any], size: NDArray[Any]
) -> tuple[Any, ...]:
    check_sparse(indices, values, shape)
    if start.shape != shape.shape or size.shape != shape.shape:
        raise OpError("start and size must have a number for each dimension")
    if (start < 0).any() or (size < 0).any():
        raise OpError("start and size must not be negative")
    stop = numpy.minimum(start + size, shape)
    inside = ((indices >= start) & (indices < stop)).all(1)
    return indices[inside] - start, values[inside], numpy.maximum(stop - start, 0)


@value("SparseTensorDenseMatMul")
def _matmul(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], b: NDArray[Any], *, adjoint_a: bool,
    adjoint_b: bool,
) -> NDArray[Any]:  # fmt: skip
    check_sparse(indices, values, shape)
    if len(shape) != 2 or b.ndim != 2:
        raise OpError("both must be matrices")
    rows, columns = (indices[:, 1], indices[:, 0]) if adjoint_a else (indices[:, 0], indices[:, 1])
    height, width = (int(shape[1]), int(shape[0])) if adjoint_a else (int(shape[0]), int(shape[1]))
    right = b.conj().T if adjoint_b else b
    if right.shape[0] != width:
        raise OpError(f"a matrix of width {width} does not fit one of height {right.shape[0]}")
    check_bounds(indices, shape)
    left = values.conj() if adjoint_a else values
    wide = numpy.float32 if values.dtype.name in ("float16", "bfloat16") else values.dtype
    found = numpy.zeros((height, right.shape[1]), wide)
    numpy.add.at(found, rows, left[:, None].astype(wide) * right[columns].astype(wide))
    return found.astype(values.dtype)


# Ragged


def check_splits(splits: NDArray[Any], total: int) -> None:
    """Raises an `OpError` where row splits do not divide so many rows."""
    if splits.ndim != 1 or not len(splits) or splits[0] != 0:
        raise OpError("row splits must be a vector that begins with 0")
    if (numpy.diff(splits) < 0).any() or splits[-1] != total:
        raise OpError(f"the row splits do not fit {total} rows")


@value("RaggedTensorToSparse")
def _ragged_to_sparse(splits: Sequence[NDArray[Any]], values: NDArray[Any]) -> tuple[Any, ...]:
    sizes = [*(len(one) - 1 for one in splits[1:]), len(values) if values.ndim else 0]
    for one, size in zip(splits, sizes, strict=True):
        check_splits(one, size)
    inner = values.shape[1:]
    places = (
        numpy.indices((len(values), *inner)).reshape(1 + len(inner), -1).T
        if values.size
        else numpy.zeros((0, 1 + len(inner)), numpy.int64)
    )
    rows, rest = places[:, 0], places[:, 1:]
    columns: list[NDArray[Any]] = []
    widths: list[int] = []
    for one in reversed(splits):
        parent = numpy.searchsorted(one, rows, "right") - 1
        columns.insert(0, rows - one[parent])
        widths.insert(0, int(numpy.diff(one).max(initial=0)))
        rows = parent
    indices = numpy.concatenate([numpy.stack([rows, *columns], 1), rest], 1).astype(numpy.int64)
    shape = numpy.array([len(splits[0]) - 1, *widths, *inner], numpy.int64)
    return indices, values.ravel(), shape


@value("RaggedFillEmptyRows")
def _ragged_fill_rows(
    rowids: NDArray[Any], values: NDArray[Any], rows: NDArray[Any], default: NDArray[Any]
) -> tuple[Any, ...]:
    if rowids.shape != values.shape or rowids.ndim != 1 or rows.ndim or default.ndim:
        raise OpError("row ids and values must be vectors of one length, the number of rows and the default scalars")
    places, found, empty, where = _fill_rows(rowids[:, None], values, rows.reshape(1), default)
    return places[:, 0] if len(empty) else places, found, empty, where  # TensorFlow has two axes for no rows


@value("RaggedRange")
def _ragged_range(
    starts: NDArray[Any], limits: NDArray[Any], deltas: NDArray[Any], *, Tsplits: DType
) -> tuple[Any, ...]:
    sizes = {len(one) for one in (starts, limits, deltas) if one.ndim}
    if len(sizes) > 1 or any(one.ndim > 1 for one in (starts, limits, deltas)):
        raise OpError("starts, limits and deltas must be scalars, or vectors of one length")
    count = next(iter(sizes), 1)
    rows: list[NDArray[Any]] = []
    for start, limit, delta in zip(
        *(numpy.broadcast_to(one, (count,)) for one in (starts, limits, deltas)), strict=True
    ):
        if delta == 0:
            raise OpError("a delta is 0")
        number = 0
        if (delta > 0 and start < limit) or (delta < 0 and start > limit):
            span = abs(float(limit) - float(start)) / abs(float(delta))
            number = int(numpy.ceil(span))
        if number > MAX_PROTO_BYTES:
            raise OpError(f"a range has {number} numbers")
        row = numpy.empty(number, starts.dtype)
        reached = start
        for place in range(number if starts.dtype.kind == "f" else 0):
            row[place] = reached
            reached = reached + delta
        rows.append(row if starts.dtype.kind == "f" else start + numpy.arange(number, dtype=starts.dtype) * delta)
    splits = numpy.cumsum([0, *map(len, rows)]).astype(Tsplits.numpy())
    return splits, numpy.concatenate(rows).astype(starts.dtype) if rows else numpy.zeros(0, starts.dtype)


@value("RaggedGather")
def _ragged_gather(splits: Sequence[NDArray[Any]], values: NDArray[Any], indices: NDArray[Any]) -> tuple[Any, ...]:
    sizes = [*(len(one) - 1 for one in splits[1:]), len(values)]
    for one, size in zip(splits, sizes, strict=True):
        check_splits(one, size)
    count = len(splits[0]) - 1
    if indices.size and (indices.min() < 0 or indices.max() >= count):
        raise OpError(f"an index is not one of {count} rows")
    made: list[NDArray[Any]] = []
    for size in indices.shape[:0:-1]:
        outer = int(numpy.prod(indices.shape[: indices.ndim - 1 - len(made)], dtype=numpy.int64))
        made.insert(0, numpy.arange(0, outer * size + 1, max(size, 1)) if size else numpy.zeros(outer + 1, numpy.int64))
    rows = indices.ravel().astype(numpy.int64)
    for one in splits:
        lengths = one[rows + 1] - one[rows]
        made.append(numpy.cumsum([0, *lengths]))
        rows = (
            numpy.concatenate([numpy.arange(one[row], one[row + 1]) for row in rows]).astype(numpy.int64)
            if len(rows)
            else rows
        )
    kind = splits[0].dtype
    return (*(one.astype(kind) for one in made), values[rows])


@value("RaggedTensorToTensor")
def _ragged_to_tensor(
    shape: NDArray[Any], values: NDArray[Any], default: NDArray[Any], partitions: Sequence[NDArray[Any]], *,
    row_partition_types: tuple[bytes, ...],
) -> NDArray[Any]:  # fmt: skip
    splits, first = _row_splits(partitions, row_partition_types, len(values))
    widths = [first, *(int(numpy.diff(one).max(initial=0)) for one in splits)]
    wanted = [-1] * (len(widths) + values.ndim - 1) if not shape.ndim else [int(size) for size in shape]
    if not shape.ndim and int(shape) != -1:
        raise OpError("a scalar shape must be -1")
    if len(wanted) != len(widths) + values.ndim - 1:
        raise OpError(f"the shape {wanted} does not fit a tensor of rank {len(widths) + values.ndim - 1}")
    inner = values.shape[1:]
    for size, there in zip(wanted[len(widths) :], inner, strict=True):
        if size not in (-1, there):
            raise OpError(f"the inner size {there} does not fit {size}")
    dims = [there if size < 0 else size for size, there in zip(wanted, widths, strict=False)]
    found = _dense([*dims, *inner], values.dtype, default.item() if not default.ndim and values.dtype == object else 0)
    if default.ndim or values.dtype != object:
        try:
            found[...] = numpy.broadcast_to(default, found.shape)
        except ValueError as error:
            raise OpError(f"a default of shape {list(default.shape)} does not fit rows of {list(inner)}") from error
    rows = numpy.arange(len(values))
    columns: list[NDArray[Any]] = []
    for one in reversed(splits):
        parent = numpy.searchsorted(one, rows, "right") - 1
        columns.insert(0, rows - one[parent])
        rows = parent
    places = numpy.stack([rows, *columns], 1) if len(values) else numpy.zeros((0, len(dims)), numpy.int64)
    inside = (places < numpy.array(dims)).all(1)
    found[tuple(places[inside].T)] = values[inside]
    return found


def _row_splits(
    partitions: Sequence[NDArray[Any]], kinds: tuple[bytes, ...], total: int
) -> tuple[list[NDArray[Any]], int]:
    """All partitions as row splits, and how many rows the outermost has."""
    if kinds and kinds[0] == b"FIRST_DIM_SIZE":
        rows = first = int(partitions[0])
        found: list[NDArray[Any]] = []
        for one, kind in zip(partitions[1:], kinds[1:], strict=True):
            if kind != b"VALUE_ROWIDS":
                raise OpError("row splits do not follow the first size")
            if len(one) and ((numpy.diff(one) < 0).any() or one[0] < 0 or one[-1] >= rows):
                raise OpError("the row ids are not sorted, or outside")
            found.append(numpy.cumsum([0, *numpy.bincount(one, minlength=rows)]))
            rows = len(one)
        return found, first
    for one, kind in zip(partitions, kinds, strict=True):
        if kind != b"ROW_SPLITS" or one.ndim != 1 or not len(one) or one[0] != 0 or (numpy.diff(one) < 0).any():
            raise OpError("the row partitions are not row splits")
    for one, size in zip(partitions, [*(len(two) - 1 for two in partitions[1:]), total], strict=True):
        check_splits(one, size)
    return list(partitions), len(partitions[0]) - 1
