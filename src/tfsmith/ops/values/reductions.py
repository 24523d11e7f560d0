"""Values of ops that reduce along axes, of running sums and of segments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import axes_of, axis_of, check, check_ids, check_room, is_float, scalar, wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_ORDERS: Mapping[Any, Callable[..., Any]] = MappingProxyType({numpy.maximum: numpy.greater, numpy.minimum: numpy.less})


@value("Sum")
def _sum(x: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool) -> Any:
    return _reduce(lambda x, axis: x.sum(axis=axis, dtype=x.dtype, keepdims=keep_dims), x, axes)


@value("Prod")
def _prod(x: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool) -> Any:
    return _reduce(lambda x, axis: x.prod(axis=axis, dtype=x.dtype, keepdims=keep_dims), x, axes)


@value("Mean")
def _mean(x: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool) -> Any:
    def mean(x: NDArray[Any], axis: tuple[int, ...]) -> Any:
        count = int(numpy.prod([x.shape[one] for one in axis], dtype=numpy.int64))
        if x.dtype.kind not in "iu":
            total = x.sum(axis=axis, dtype=x.dtype, keepdims=keep_dims)
            return total / x.dtype.type(count or (x.dtype.kind == "c"))  # of no complex numbers it is 0
        check(count > 0, "there is no mean of no whole numbers")
        total = x.sum(axis=axis, dtype=f"{x.dtype.kind}8", keepdims=keep_dims)
        divisor = total.dtype.type(count)
        return (total - numpy.fmod(total, divisor)) // divisor

    return _reduce(mean, x, axes)


@value("Max")
def _max(x: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool) -> Any:
    least = _least(x.dtype)
    return _reduce(lambda x, axis: numpy.max(x, axis=axis, keepdims=keep_dims, initial=least), x, axes)


@value("Min")
def _min(x: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool) -> Any:
    most = _most(x.dtype)
    return _reduce(lambda x, axis: numpy.min(x, axis=axis, keepdims=keep_dims, initial=most), x, axes)


@value("All")
def _all(x: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool) -> Any:
    return _reduce(lambda x, axis: x.all(axis=axis, keepdims=keep_dims), x, axes)


@value("Any")
def _any(x: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool) -> Any:
    return _reduce(lambda x, axis: x.any(axis=axis, keepdims=keep_dims), x, axes)


@value("EuclideanNorm")
def _euclidean_norm(x: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool) -> Any:
    squares = _reduce(
        lambda x, axis: x.sum(axis=axis, dtype=x.dtype, keepdims=keep_dims), x * x.conj(), axes
    )  # of halves, each square and the sum are rounded, so that they may overflow
    return numpy.sqrt(wide(squares)).astype(x.dtype)


@value("ArgMax")
def _arg_max(x: NDArray[Any], axis: NDArray[Any], *, output_type: DType) -> Any:
    place = _axis_to_search(x, axis)
    known = numpy.where(numpy.isnan(x), _least(x.dtype), x) if is_float(x) else x
    return numpy.asarray(numpy.argmax(wide(known), place)).astype(output_type.numpy())


@value("ArgMin")
def _arg_min(x: NDArray[Any], axis: NDArray[Any], *, output_type: DType) -> Any:
    place = _axis_to_search(x, axis)
    known = numpy.where(numpy.isnan(x), _most(x.dtype), x) if is_float(x) else x
    return numpy.asarray(numpy.argmin(wide(known), place)).astype(output_type.numpy())


# Along an axis


@value("Cumsum")
def _cumsum(x: NDArray[Any], axis: NDArray[Any], *, exclusive: bool, reverse: bool) -> Any:
    return _running(numpy.add, x, axis, 0, exclusive, reverse)


@value("Cumprod")
def _cumprod(x: NDArray[Any], axis: NDArray[Any], *, exclusive: bool, reverse: bool) -> Any:
    return _running(numpy.multiply, x, axis, 1, exclusive, reverse)


@value("CumulativeLogsumexp")
def _cumulative_logsumexp(x: NDArray[Any], axis: NDArray[Any], *, exclusive: bool, reverse: bool) -> Any:
    return _running(numpy.logaddexp, x, axis, -numpy.inf, exclusive, reverse)


# Segments


@value("SegmentSum")
def _segment_sum(data: NDArray[Any], ids: NDArray[Any]) -> Any:
    return _segments(data, ids, _count_sorted(data, ids), numpy.add, 0)


@value("SegmentProd")
def _segment_prod(data: NDArray[Any], ids: NDArray[Any]) -> Any:
    return _segments(data, ids, _count_sorted(data, ids), numpy.multiply, 1)


@value("SegmentMax")
def _segment_max(data: NDArray[Any], ids: NDArray[Any]) -> Any:
    return _filled(data, ids, numpy.maximum, _least(data.dtype))


@value("SegmentMin")
def _segment_min(data: NDArray[Any], ids: NDArray[Any]) -> Any:
    return _filled(data, ids, numpy.minimum, _most(data.dtype))


@value("SegmentMean")
def _segment_mean(data: NDArray[Any], ids: NDArray[Any]) -> Any:
    count = _count_sorted(data, ids)
    kept = wide(data)
    totals = _segments(kept, ids, count, numpy.add, 0)
    sizes = numpy.bincount(ids.astype(numpy.int64), minlength=count)
    divisors = numpy.maximum(sizes, 1).reshape(-1, *(1,) * (data.ndim - 1)).astype(kept.dtype)
    if data.dtype.kind in "iu":
        return numpy.asarray((totals - numpy.fmod(totals, divisors)) // divisors)
    return (totals / divisors).astype(data.dtype)


@value("SparseSegmentSum SparseSegmentSumWithNumSegments")
def _sparse_segment_sum(
    data: NDArray[Any], indices: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any] | None = None
) -> Any:
    return _picked(data, indices, ids, num_segments, 0)


@value("SparseSegmentMean SparseSegmentMeanWithNumSegments")
def _sparse_segment_mean(
    data: NDArray[Any], indices: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any] | None = None
) -> Any:
    return _picked(data, indices, ids, num_segments, 1)


@value("SparseSegmentSqrtN SparseSegmentSqrtNWithNumSegments")
def _sparse_segment_sqrt_n(
    data: NDArray[Any], indices: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any] | None = None
) -> Any:
    return _picked(data, indices, ids, num_segments, 0.5)


@value("UnsortedSegmentSum")
def _unsorted_segment_sum(data: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any]) -> Any:
    return _unsorted(data, ids, num_segments, numpy.add, 0)


@value("UnsortedSegmentProd")
def _unsorted_segment_prod(data: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any]) -> Any:
    return _unsorted(data, ids, num_segments, numpy.multiply, 1)


@value("UnsortedSegmentMax")
def _unsorted_segment_max(data: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any]) -> Any:
    return _unsorted(data, ids, num_segments, numpy.maximum, _lowest(data.dtype))


@value("UnsortedSegmentMin")
def _unsorted_segment_min(data: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any]) -> Any:
    return _unsorted(data, ids, num_segments, numpy.minimum, _highest(data.dtype))


def _reduce(function: Callable[[Any, tuple[int, ...]], Any], x: NDArray[Any], axes: NDArray[Any]) -> NDArray[Any]:
    """Reduces along axes; halves are computed wide and rounded once."""
    return numpy.asarray(function(wide(x), axes_of(axes, x.ndim))).astype(x.dtype, copy=False)


def _axis_to_search(x: NDArray[Any], axis: NDArray[Any]) -> int:
    place = axis_of(scalar(axis, "the axis", strict=True), x.ndim)
    check(x.shape[place] > 0, f"axis {place} of shape {list(x.shape)} is empty")
    return place


def _least(kind: numpy.dtype[Any]) -> Any:
    if kind.kind == "b":
        return False
    return numpy.iinfo(kind).min if kind.kind in "iu" else kind.type(-numpy.inf)


def _most(kind: numpy.dtype[Any]) -> Any:
    if kind.kind == "b":
        return True
    return numpy.iinfo(kind).max if kind.kind in "iu" else kind.type(numpy.inf)


def _lowest(kind: numpy.dtype[Any]) -> Any:
    return _least(kind) if kind.kind in "iu" else numpy.nextafter(_least(kind), kind.type(0))


def _highest(kind: numpy.dtype[Any]) -> Any:
    return _most(kind) if kind.kind in "iu" else numpy.nextafter(_most(kind), kind.type(0))


def _running(
    function: Callable[..., Any], x: NDArray[Any], axis: NDArray[Any], start: float, exclusive: bool, reverse: bool
) -> NDArray[Any]:
    """Runs a function of two along an axis: from its end if reversed, without the element itself if exclusive."""
    place = axis_of(scalar(axis, "the axis", strict=True), x.ndim)
    if not x.size:
        return x
    turned = numpy.moveaxis(x, place, 0)
    turned = turned[::-1] if reverse else turned
    if exclusive:
        first = numpy.full((1, *turned.shape[1:]), start, x.dtype)
        turned = numpy.concatenate([first, turned[:-1]])
    found = function.accumulate(turned, 0, x.dtype)  # type: ignore[attr-defined]  # a ufunc
    return numpy.moveaxis(found[::-1] if reverse else found, 0, place)


def _count_sorted(data: NDArray[Any], ids: NDArray[Any]) -> int:
    """How many segments sorted ids make."""
    check(ids.ndim == 1, f"the ids must be a vector, and have shape {list(ids.shape)}")
    check(data.ndim > 0 and len(ids) == len(data), f"{len(ids)} ids do not fit shape {list(data.shape)}")
    if not len(ids):
        return 0
    check(int(ids[0]) >= 0, f"segment id {int(ids[0])} is negative")
    check(bool((ids[1:] >= ids[:-1]).all()), "the segment ids are not sorted")
    return int(ids[-1]) + 1


def _segments(
    data: NDArray[Any], ids: NDArray[Any], count: int, function: Callable[..., Any], start: Any
) -> NDArray[Any]:
    check_room([count, *data.shape[1:]], data.dtype)
    found = numpy.full((count, *data.shape[1:]), start, data.dtype)
    if function in _ORDERS and is_float(data) and numpy.isnan(data).any():
        for place, row in zip(ids, data, strict=True):  # a NaN wins over what came before, and not over what follows
            found[place] = numpy.where(_ORDERS[function](found[place], row), found[place], row)
        return found
    function.at(found, ids, data)  # type: ignore[attr-defined]  # a ufunc
    return found


def _picked(
    data: NDArray[Any], indices: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any] | None, power: float
) -> NDArray[Any]:
    """Sums of the rows that are picked for each segment, divided by a power of their number."""
    check(data.ndim > 0, "a scalar has no rows")
    check(indices.ndim == 1 and indices.shape == ids.shape, f"{ids.size} ids do not fit {indices.size} indices")
    check_ids(indices, len(data))
    count = _count_sorted(indices, ids)
    if num_segments is not None:
        wanted = scalar(num_segments, "the number of segments", strict=True)
        check(wanted >= count, f"segment id {count - 1} is not in [0, {wanted})")
        count = wanted
    totals = _segments(wide(data)[indices], ids, count, numpy.add, 0)
    if power:
        sizes = numpy.maximum(numpy.bincount(ids.astype(numpy.int64), minlength=count), 1)
        divisors = (sizes if power == 1 else numpy.sqrt(sizes)).astype(totals.dtype)
        totals = totals / divisors.reshape(-1, *(1,) * (data.ndim - 1))
    return totals.astype(data.dtype, copy=False)


def _filled(data: NDArray[Any], ids: NDArray[Any], function: Callable[..., Any], start: Any) -> NDArray[Any]:
    """Segments whose gaps are 0, whatever the function starts from."""
    count = _count_sorted(data, ids)
    found = _segments(data, ids, count, function, start)
    gaps = numpy.ones(count, bool)
    gaps[ids] = False
    found[gaps] = 0
    return found


def _unsorted(
    data: NDArray[Any], ids: NDArray[Any], num_segments: NDArray[Any], function: Callable[..., Any], start: Any
) -> NDArray[Any]:
    """Segments in any order; what has a negative id belongs to none."""
    count = scalar(num_segments, "the number of segments", strict=True)
    check(count >= 0, f"the number of segments is negative: {count}")
    check(data.shape[: ids.ndim] == ids.shape, f"ids of shape {list(ids.shape)} do not begin shape {list(data.shape)}")
    rest = data.shape[ids.ndim :]
    flat = ids.reshape(-1)
    kept = flat >= 0
    check_ids(flat[kept], count, "segment id")
    return _segments(data.reshape(-1, *rest)[kept], flat[kept], count, function, start)
