"""Values of ops that count: histograms, and how often each number occurs in dense, sparse and ragged tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import check, check_ids, check_room, scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


@value("Bincount")
def _bincount(x: NDArray[Any], size: NDArray[Any], weights: NDArray[Any]) -> Any:
    check(not x.size or int(x.min()) >= 0, "a negative number cannot be counted")
    count = scalar(size, "the size", strict=True)
    check(count >= 0, f"the size is negative: {count}")
    flat, loads = x.reshape(-1), weights.reshape(-1)
    check(weights.size in (0, x.size), f"weights of shape {list(weights.shape)} do not fit")
    inside = flat < count
    return _counted(flat[inside], loads[inside] if weights.size else None, count, weights.dtype)


@value("DenseBincount")
def _dense_bincount(x: NDArray[Any], size: NDArray[Any], weights: NDArray[Any], *, binary_output: bool) -> Any:
    check(x.ndim <= 2, f"a scalar, a vector or a matrix is needed, not shape {list(x.shape)}")
    check(not weights.size or weights.shape == x.shape, f"weights of shape {list(weights.shape)} do not fit")
    rows = numpy.repeat(numpy.arange(len(x)), x.shape[1]) if x.ndim == 2 else numpy.zeros(x.size, numpy.int64)
    found = _binned(rows, x.reshape(-1), size, weights, len(x) if x.ndim == 2 else 1, binary_output)
    return found if x.ndim == 2 else found[0]


@value("SparseBincount")
def _sparse_bincount(
    indices: NDArray[Any], values: NDArray[Any], dense_shape: NDArray[Any], size: NDArray[Any], weights: NDArray[Any],
    *, binary_output: bool,
) -> Any:  # fmt: skip
    rows, count = _rows_of_sparse(indices, values, dense_shape)
    check(weights.size in (0, values.size), f"{weights.size} weights do not fit {values.size} values")
    found = _binned(rows, values, size, weights, count, binary_output)
    return found if dense_shape.size == 2 else found[0]


@value("RaggedBincount")
def _ragged_bincount(
    splits: NDArray[Any], values: NDArray[Any], size: NDArray[Any], weights: NDArray[Any], *, binary_output: bool
) -> Any:
    rows = _rows_of_ragged(splits, values)
    check(weights.size in (0, values.size), f"{weights.size} weights do not fit {values.size} values")
    return _binned(rows, values, size, weights, len(splits) - 1, binary_output)


@value("DenseCountSparseOutput")
def _dense_count(
    values: NDArray[Any], weights: NDArray[Any], *, minlength: int, maxlength: int, binary_output: bool
) -> Any:
    check(values.ndim in (1, 2), f"a vector or a matrix is needed, not shape {list(values.shape)}")
    check(values.ndim == 1 or len(values) > 0, "there are no rows")
    check(not weights.size or weights.shape == values.shape, f"weights of shape {list(weights.shape)} do not fit")
    count = len(values) if values.ndim == 2 else 1
    rows = numpy.repeat(numpy.arange(count), values.size // max(count, 1))
    found = _listed(rows, values.reshape(-1), weights, count, minlength, maxlength, binary_output)
    return found if values.ndim == 2 else _of_one_row(found)


@value("SparseCountSparseOutput")
def _sparse_count(
    indices: NDArray[Any], values: NDArray[Any], dense_shape: NDArray[Any], weights: NDArray[Any], *, minlength: int,
    maxlength: int, binary_output: bool,
) -> Any:  # fmt: skip
    rows, count = _rows_of_sparse(indices, values, dense_shape)
    check(not weights.size or weights.shape == values.shape, f"weights of shape {list(weights.shape)} do not fit")
    found = _listed(rows, values, weights, count, minlength, maxlength, binary_output)
    return found if dense_shape.size > 1 else _of_one_row(found)


@value("RaggedCountSparseOutput")
def _ragged_count(
    splits: NDArray[Any], values: NDArray[Any], weights: NDArray[Any], *, minlength: int, maxlength: int,
    binary_output: bool,
) -> Any:  # fmt: skip
    rows = _rows_of_ragged(splits, values)
    check(not weights.size or weights.shape == values.shape, f"weights of shape {list(weights.shape)} do not fit")
    return _listed(rows, values, weights, len(splits) - 1, minlength, maxlength, binary_output)


@value("HistogramFixedWidth")
def _histogram_fixed_width(x: NDArray[Any], value_range: NDArray[Any], nbins: NDArray[Any], *, dtype: DType) -> Any:
    bins = scalar(nbins, "the number of bins", strict=True)
    check(bins > 0, f"there must be bins, not {bins}")
    check_room([bins], dtype.numpy())
    check(value_range.shape == (2,), f"the range must be two numbers, not shape {list(value_range.shape)}")
    low, high = value_range
    check(bool(low < high), f"the range from {low} to {high} is empty")
    step = (high - low) / value_range.dtype.type(bins)
    places = numpy.clip(numpy.floor((x.reshape(-1) - low) / step), 0, bins - 1).astype(numpy.int64)
    return numpy.bincount(places, minlength=bins).astype(dtype.numpy())


def _counted(places: NDArray[Any], loads: NDArray[Any] | None, count: int, kind: numpy.dtype[Any]) -> NDArray[Any]:
    check_room([count], kind)
    if loads is None:
        return numpy.bincount(places, minlength=count)[:count].astype(kind)
    found = numpy.zeros(count, kind)
    numpy.add.at(found, places, loads)
    return found


def _binned(
    rows: NDArray[Any], values: NDArray[Any], size: NDArray[Any], weights: NDArray[Any], count: int, binary: bool
) -> NDArray[Any]:
    """How often each number below a size occurs in each row, or the sum of its weights, or whether it occurs."""
    check(not values.size or int(values.min()) >= 0, "a negative number cannot be counted")
    bins = scalar(size, "the size", strict=True)
    check(bins >= 0, f"the size is negative: {bins}")
    inside = values < bins
    places = (rows * bins + values)[inside]
    check_room([count, bins], weights.dtype)
    if binary:
        found = numpy.zeros(count * bins, weights.dtype)
        found[places] = 1
    else:
        loads = weights.reshape(-1)[inside] if weights.size else None
        found = _counted(places, loads, count * bins, weights.dtype)
    return found.reshape(count, bins)


def _listed(
    rows: NDArray[Any], values: NDArray[Any], weights: NDArray[Any], count: int, least: int, most: int, binary: bool
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The numbers that occur in each row, in rising order, with their counts, as the parts of a sparse tensor."""
    check(not values.size or int(values.min()) >= 0, "a negative number cannot be counted")
    size = most if most > 0 else max(int(values.max(initial=0)) + 1, least)
    kept = values < most if most > 0 else numpy.ones(values.shape, bool)
    pairs = numpy.stack([rows[kept], values[kept].astype(numpy.int64)], 1)
    found, where = numpy.unique(pairs, axis=0, return_inverse=True)
    if binary:
        counts = numpy.ones(len(found), weights.dtype)
    else:
        loads = weights.reshape(-1)[kept] if weights.size else None
        counts = _counted(where.reshape(-1), loads, len(found), weights.dtype)
    return found.reshape(-1, 2), counts, numpy.array([count, size], numpy.int64)


def _of_one_row(
    found: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    return found[0][:, 1:], found[1], found[2][1:]


def _rows_of_sparse(indices: NDArray[Any], values: NDArray[Any], dense_shape: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """The row of each value of a sparse vector or matrix, and how many rows there are."""
    fits = indices.ndim == 2 and values.ndim == 1 and len(indices) == len(values)
    check(fits, f"indices of shape {list(indices.shape)} do not fit {values.size} values")
    rank = dense_shape.size
    check(rank in (1, 2) and indices.shape[1] == rank, f"indices of {indices.shape[1]} axes do not fit rank {rank}")
    if rank == 1:
        return numpy.zeros(len(values), numpy.int64), 1
    check_ids(indices[:, 0], int(dense_shape[0]), "row")
    return indices[:, 0], int(dense_shape[0])


def _rows_of_ragged(splits: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    check(splits.ndim == 1 and splits.size > 0 and int(splits[0]) == 0, "the splits must begin with 0")
    check(bool((splits[1:] >= splits[:-1]).all()), "the splits must not fall")
    check(values.ndim == 1 and int(splits[-1]) == len(values), f"the splits must end with {values.size}")
    return numpy.repeat(numpy.arange(len(splits) - 1), numpy.diff(splits))
