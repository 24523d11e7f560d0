"""Values of ops that compute with sparse tensors: sums along axes, elementwise with sparse and dense ones, sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import axis_of, check, check_room, scalar, wide
from tfsmith.ops.values.sparse import check_bounds, check_sparse, sorted_order
from tfsmith.ops.values.strings import texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


# Reductions


def _groups(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], axes: NDArray[Any], least: bool
) -> tuple[NDArray[Any], NDArray[Any], list[int]]:
    """The places that are left without the reduced axes, in order, what they get, and the axes that are left."""
    check_sparse(indices, values, shape)
    check_bounds(indices, shape)
    gone = {axis_of(int(axis), len(shape)) for axis in axes.ravel()}
    kept = [axis for axis in range(len(shape)) if axis not in gone]
    places, numbers = numpy.unique(indices[:, kept], axis=0, return_inverse=True)
    if not kept:
        places, numbers = indices[:1, :0], numpy.zeros(len(indices), numpy.int64)
    numbers = numbers.reshape(-1)
    order = numpy.argsort(numbers, kind="stable")
    starts = numpy.searchsorted(numbers[order], numpy.arange(len(places)))
    reduce = numpy.maximum.reduceat if least else numpy.add.reduceat
    data = wide(values)[order]
    found = reduce(data, starts) if len(starts) else data[:0]
    return places, found.astype(values.dtype), kept


@value("SparseReduceSum")
def _reduce_sum(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool
) -> NDArray[Any]:
    return _reduced(indices, values, shape, axes, keep_dims, least=False)


@value("SparseReduceMax")
def _reduce_max(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool
) -> NDArray[Any]:
    return _reduced(indices, values, shape, axes, keep_dims, least=True)


def _reduced(
    indices: NDArray[Any],
    values: NDArray[Any],
    shape: NDArray[Any],
    axes: NDArray[Any],
    keep_dims: bool,
    *,
    least: bool,
) -> NDArray[Any]:
    places, found, kept = _groups(indices, values, shape, axes, least)
    sizes = [int(shape[axis]) for axis in kept]
    check_room(sizes, values.dtype)
    whole = numpy.zeros(sizes, values.dtype)
    whole[tuple(places.T)] = found if kept else found.sum() if len(found) else 0
    if keep_dims:
        whole = whole.reshape([int(size) if axis in kept else 1 for axis, size in enumerate(shape)])
    return whole


@value("SparseReduceSumSparse")
def _reduce_sum_sparse(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool
) -> tuple[Any, ...]:
    return _reduced_sparse(indices, values, shape, axes, keep_dims, least=False)


@value("SparseReduceMaxSparse")
def _reduce_max_sparse(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool
) -> tuple[Any, ...]:
    return _reduced_sparse(indices, values, shape, axes, keep_dims, least=True)


def _reduced_sparse(
    indices: NDArray[Any],
    values: NDArray[Any],
    shape: NDArray[Any],
    axes: NDArray[Any],
    keep_dims: bool,
    *,
    least: bool,
) -> tuple[Any, ...]:
    places, found, kept = _groups(indices, values, shape, axes, least)
    if not keep_dims:
        return places, found, shape[kept]
    whole = numpy.zeros((len(places), len(shape)), numpy.int64)
    whole[:, kept] = places
    sizes = numpy.ones(len(shape), numpy.int64)
    sizes[kept] = shape[kept]
    return whole, found, sizes


# Element by element


@value("SparseAdd")
def _add(
    one: NDArray[Any], one_values: NDArray[Any], one_shape: NDArray[Any], other: NDArray[Any],
    other_values: NDArray[Any], other_shape: NDArray[Any], threshold: NDArray[Any],
) -> tuple[Any, ...]:  # fmt: skip
    _check_pair(one, one_values, one_shape, other, other_values, other_shape)
    places, numbers = _united(one, other, one_shape)
    total = numpy.zeros(len(places), wide(one_values).dtype)
    numpy.add.at(total, numbers, wide(numpy.concatenate([one_values, other_values])))
    total = total.astype(one_values.dtype)
    least = scalar(threshold, "the threshold")
    kept = (numpy.abs(total) >= least) | (
        numpy.bincount(numbers, minlength=len(places)) < 2
    )  # only sums are held to it
    return places[kept], total[kept], one_shape


def _check_pair(
    one: NDArray[Any], one_values: NDArray[Any], one_shape: NDArray[Any], other: NDArray[Any],
    other_values: NDArray[Any], other_shape: NDArray[Any],
) -> None:  # fmt: skip
    check_sparse(one, one_values, one_shape)
    check_sparse(other, other_values, other_shape)
    check_bounds(one, one_shape)
    check_bounds(other, other_shape)
    check(one_shape.tolist() == other_shape.tolist(), f"shapes {one_shape.tolist()} and {other_shape.tolist()} differ")


def _united(one: NDArray[Any], other: NDArray[Any], shape: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The places of both, in order, and the number of the place of each element."""
    both = numpy.concatenate([one, other])
    if not len(shape):
        return both[:1], numpy.zeros(len(both), numpy.int64)
    places, numbers = numpy.unique(both, axis=0, return_inverse=True)
    return places.reshape(-1, len(shape)), numbers.reshape(-1)


@value("SparseSparseMaximum")
def _maximum(
    one: NDArray[Any], one_values: NDArray[Any], one_shape: NDArray[Any], other: NDArray[Any],
    other_values: NDArray[Any], other_shape: NDArray[Any],
) -> tuple[Any, ...]:  # fmt: skip
    return _paired(numpy.maximum, one, one_values, one_shape, other, other_values, other_shape)


@value("SparseSparseMinimum")
def _minimum(
    one: NDArray[Any], one_values: NDArray[Any], one_shape: NDArray[Any], other: NDArray[Any],
    other_values: NDArray[Any], other_shape: NDArray[Any],
) -> tuple[Any, ...]:  # fmt: skip
    return _paired(numpy.minimum, one, one_values, one_shape, other, other_values, other_shape)


def _paired(
    function: Callable[..., Any], one: NDArray[Any], one_values: NDArray[Any], one_shape: NDArray[Any],
    other: NDArray[Any], other_values: NDArray[Any], other_shape: NDArray[Any],
) -> tuple[Any, ...]:  # fmt: skip
    _check_pair(one, one_values, one_shape, other, other_values, other_shape)
    places, numbers = _united(one, other, one_shape)
    left, right = numpy.zeros(len(places), one_values.dtype), numpy.zeros(len(places), one_values.dtype)
    left[numbers[: len(one)]] = one_values
    right[numbers[len(one) :]] = other_values
    return places, function(left, right)


def _at_places(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], dense: NDArray[Any]) -> Any:
    """The elements of a dense tensor, broadcast to the shape, at the places of a sparse one."""
    check_sparse(indices, values, shape)
    check_bounds(indices, shape)
    sizes = (1,) * (len(shape) - dense.ndim) + dense.shape
    fits = len(sizes) == len(shape) and all(size in (1, int(whole)) for size, whole in zip(sizes, shape, strict=True))
    check(fits, f"shape {list(dense.shape)} cannot be broadcast to {shape.tolist()}")
    plain = dense.reshape(sizes)
    return plain[tuple(numpy.where(numpy.array(sizes) == 1, 0, indices).T)]


@value("SparseDenseCwiseAdd")
def _dense_add(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], dense: NDArray[Any]) -> Any:
    return values + _at_places(indices, values, shape, dense)


@value("SparseDenseCwiseMul")
def _dense_mul(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], dense: NDArray[Any]) -> Any:
    return values * _at_places(indices, values, shape, dense)


@value("SparseDenseCwiseDiv")
def _dense_div(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], dense: NDArray[Any]) -> Any:
    other = _at_places(indices, values, shape, dense)
    if values.dtype.kind in "iu":
        check(bool((other != 0).all()), "a division by zero")
        whole = numpy.abs(values) // numpy.abs(other)
        return (whole * (numpy.sign(values) * numpy.sign(other))).astype(values.dtype)
    return values / other


@value("SparseTensorDenseAdd")
def _tensor_dense_add(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], dense: NDArray[Any]) -> Any:
    check_sparse(indices, values, shape)
    check(shape.tolist() == list(dense.shape), f"shapes {shape.tolist()} and {list(dense.shape)} differ")
    check_bounds(indices, shape)
    found = dense.copy()
    numpy.add.at(found, tuple(indices.T), values)
    return found


@value("SparseSoftmax")
def _softmax(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any]) -> Any:
    check_sparse(indices, values, shape)
    check(len(shape) >= 2, f"a tensor of rank {len(shape)} has no rows of its own")
    check_bounds(indices, shape)
    _, rows = numpy.unique(indices[:, :-1], axis=0, return_inverse=True)
    rows = rows.reshape(-1)
    count = int(rows.max(initial=-1)) + 1
    data = wide(values)
    most = numpy.full(count, -numpy.inf, data.dtype)
    numpy.maximum.at(most, rows, data)
    powers = numpy.exp(data - most[rows])
    total = numpy.zeros(count, data.dtype)
    numpy.add.at(total, rows, powers)
    return (powers / total[rows]).astype(values.dtype)


@value("SparseSplit")
def _split(
    axis: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], *, num_split: int
) -> tuple[Any, ...]:
    check_sparse(indices, values, shape)
    at = axis_of(scalar(axis, "the axis"), len(shape))
    size = int(shape[at])
    check(1 <= num_split <= size, f"{size} rows cannot be cut into {num_split} parts")
    check_bounds(indices, shape)
    small, more = divmod(size, num_split)
    starts = [number * small + min(number, more) for number in range(num_split + 1)]
    places: list[Any] = []
    found: list[Any] = []
    shapes: list[Any] = []
    for start, stop in pairwise(starts):
        inside = (indices[:, at] >= start) & (indices[:, at] < stop)
        moved = indices[inside].copy()
        moved[:, at] -= start
        part = shape.copy()
        part[at] = stop - start
        places.append(moved)
        found.append(values[inside])
        shapes.append(part)
    return (*places, *found, *shapes)


# Sets: the last axis of a tensor holds the elements


def _rows_of_dense(found: NDArray[Any]) -> dict[tuple[int, ...], list[Any]]:
    check(found.ndim >= 2, f"a tensor of rank {found.ndim} holds no rows of sets")
    return {place: found[place].tolist() for place in numpy.ndindex(*found.shape[:-1])}


def _rows_of_sparse(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], validate: bool
) -> dict[tuple[int, ...], list[Any]]:
    check_sparse(indices, values, shape)
    check(len(shape) >= 2, f"a tensor of rank {len(shape)} holds no rows of sets")
    check_bounds(indices, shape)
    if validate and len(indices) > 1:
        order = sorted_order(indices)
        check(bool((order == numpy.arange(len(order))).all()), "the indices are out of order")
        check(not bool((indices[1:] == indices[:-1]).all(1).any()), "an index is given twice")
    rows: dict[tuple[int, ...], list[Any]] = {}
    for place, one in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        rows.setdefault(tuple(place), []).append(one)
    return rows


def _combined(
    one: dict[tuple[int, ...], list[Any]],
    other: dict[tuple[int, ...], list[Any]],
    sizes: Sequence[int],
    operation: bytes,
    kind: numpy.dtype[Any],
) -> tuple[Any, ...]:
    """The set operation for each row, as a sparse tensor."""
    function = _OPERATIONS.get(operation.lower())
    if function is None:
        raise OpError(f"{operation.decode('utf-8', 'replace')!r} is no set operation")
    places: list[tuple[int, ...]] = []
    found: list[Any] = []
    longest = 0
    for row in sorted(one.keys() | other.keys()):
        items = sorted(function(set(one.get(row, ())), set(other.get(row, ()))))
        places += [(*row, number) for number in range(len(items))]
        found += items
        longest = max(longest, len(items))
    values = texts(found, (len(found),)) if kind.kind == "O" else numpy.array(found, kind)
    shape = numpy.array([*sizes, longest], numpy.int64)
    return numpy.array(places, numpy.int64).reshape(-1, len(shape)), values, shape


_OPERATIONS: dict[bytes, Callable[[set[Any], set[Any]], set[Any]]] = {
    b"a-b": lambda one, other: one - other,
    b"b-a": lambda one, other: other - one,
    b"intersection": lambda one, other: one & other,
    b"union": lambda one, other: one | other,
}


def _check_groups(one: Sequence[int], other: Sequence[int]) -> None:
    check(list(one) == list(other), f"the rows have shapes {list(one)} and {list(other)}")


@value("DenseToDenseSetOperation")
def _dense_sets(one: NDArray[Any], other: NDArray[Any], *, set_operation: bytes) -> tuple[Any, ...]:
    rows = _rows_of_dense(one), _rows_of_dense(other)
    _check_groups(one.shape[:-1], other.shape[:-1])
    return _combined(*rows, one.shape[:-1], set_operation, one.dtype)


@value("DenseToSparseSetOperation")
def _dense_and_sparse_sets(
    one: NDArray[Any], indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], *, set_operation: bytes,
    validate_indices: bool,
) -> tuple[Any, ...]:  # fmt: skip
    rows = _rows_of_dense(one), _rows_of_sparse(indices, values, shape, validate_indices)
    _check_groups(one.shape[:-1], shape[:-1].tolist())
    return _combined(*rows, one.shape[:-1], set_operation, one.dtype)


@value("SparseToSparseSetOperation")
def _sparse_sets(
    one: NDArray[Any], one_values: NDArray[Any], one_shape: NDArray[Any], other: NDArray[Any],
    other_values: NDArray[Any], other_shape: NDArray[Any], *, set_operation: bytes, validate_indices: bool,
) -> tuple[Any, ...]:  # fmt: skip
    rows = (
        _rows_of_sparse(one, one_values, one_shape, validate_indices),
        _rows_of_sparse(other, other_values, other_shape, validate_indices),
    )
    _check_groups(one_shape[:-1].tolist(), other_shape[:-1].tolist())
    return _combined(*rows, one_shape[:-1].tolist(), set_operation, one_values.dtype)


@value("SetSize")
def _set_size(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], *, validate_indices: bool
) -> NDArray[Any]:
    rows = _rows_of_sparse(indices, values, shape, validate_indices)
    sizes = [int(size) for size in shape[:-1]]
    check_room(sizes, numpy.dtype(numpy.int32))
    found = numpy.zeros(sizes, numpy.int32)
    for place, items in rows.items():
        found[place] = len(set(items))
    return found
