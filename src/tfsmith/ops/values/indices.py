"""Values of ops that look up, scatter, search, sort and count by indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import axis_of, check, check_ids, check_room, is_float, scalar, sizes_of, wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


# Gathering


@value("GatherV2")
def _gather_v2(params: NDArray[Any], indices: NDArray[Any], axis: NDArray[Any], *, batch_dims: int) -> Any:
    place = axis_of(scalar(axis, "the axis", strict=True), params.ndim)
    check(-indices.ndim <= batch_dims <= indices.ndim, f"{batch_dims} axes of a batch are not in the indices")
    batch = batch_dims + indices.ndim if batch_dims < 0 else batch_dims
    check(batch <= place, f"the axis {place} is one of the {batch} axes of the batch")
    check(
        params.shape[:batch] == indices.shape[:batch],
        f"shapes {list(params.shape)} and {list(indices.shape)} differ in the {batch} axes of the batch",
    )
    check_ids(indices, params.shape[place])
    if batch == 0:
        return _taken(params, indices, place)
    shape = (*params.shape[:place], *indices.shape[batch:], *params.shape[place + 1 :])
    moved = numpy.moveaxis(params, place, batch)
    grid = numpy.ix_(*(numpy.arange(size) for size in indices.shape[:batch]))
    rows = tuple(one.reshape(one.shape + (1,) * (indices.ndim - batch)) for one in grid)
    found = moved[rows + (indices,)]  # noqa: RUF005  (a star in an index needs Python 3.11)
    kept = range(batch, batch + indices.ndim - batch)
    found = numpy.moveaxis(found, tuple(kept), tuple(range(place, place + indices.ndim - batch)))
    return found.reshape(shape)


@value("Gather")
def _gather(params: NDArray[Any], indices: NDArray[Any]) -> Any:
    check(params.ndim > 0, "a scalar has nothing to gather from")
    check_ids(indices, params.shape[0])
    return _taken(params, indices, 0)


@value("GatherNd")
def _gather_nd(params: NDArray[Any], indices: NDArray[Any], *, bad_indices_policy: bytes) -> Any:
    check(params.ndim > 0 and indices.ndim > 0, "params and indices must not be scalars")
    depth = indices.shape[-1]
    check(depth <= params.ndim, f"indices of {depth} axes do not fit shape {list(params.shape)}")
    check(params.size > 0 or 0 in indices.shape[:-1], f"there is nothing to gather in shape {list(params.shape)}")
    ids = [indices[..., axis] for axis in range(depth)]
    if bad_indices_policy == b"IGNORE":
        return _gather_known(params, indices, ids)
    for axis, one in enumerate(ids):
        check_ids(one, params.shape[axis], f"on axis {axis}, index")
    if depth == 0:
        return numpy.broadcast_to(params, indices.shape[:-1] + params.shape)
    place: tuple[Any, ...] = (*ids, ...)  # one element is a tensor, too
    return params[place]


def _taken(params: NDArray[Any], indices: NDArray[Any], axis: int) -> Any:
    if indices.ndim == 0:  # one element is a tensor, too
        place: tuple[Any, ...] = (*(slice(None),) * axis, int(indices), ...)
        return params[place]
    return numpy.take(params, indices, axis)


def _gather_known(params: NDArray[Any], indices: NDArray[Any], ids: list[NDArray[Any]]) -> NDArray[Any]:
    """What lies at the indices, and zeros where there is none."""
    good = numpy.ones(indices.shape[:-1], bool)
    for axis, one in enumerate(ids):
        good &= (one >= 0) & (one < params.shape[axis])
    fill: Any = b"" if params.dtype == object else 0
    found = numpy.full(indices.shape[:-1] + params.shape[len(ids) :], fill, params.dtype)
    found[good] = params[tuple(one[good] for one in ids)]
    return found


@value("Where")
def _where(condition: NDArray[Any]) -> Any:
    check(condition.ndim > 0, "a scalar has no places")
    check(condition.dtype != numpy.float16, "TensorFlow has no places of halves")
    return numpy.argwhere(condition != b"" if condition.dtype == object else condition != 0).astype(numpy.int64)


@value("DynamicPartition")
def _dynamic_partition(data: NDArray[Any], partitions: NDArray[Any], *, num_partitions: int) -> Any:
    depth = partitions.ndim
    check(
        data.shape[:depth] == partitions.shape,
        f"shape {list(data.shape)} does not begin with the partitions' {list(partitions.shape)}",
    )
    check_ids(partitions, num_partitions, "partition")
    return tuple(data[partitions == number] for number in range(num_partitions))


@value("DynamicStitch ParallelDynamicStitch")
def _dynamic_stitch(indices: tuple[NDArray[Any], ...], data: tuple[NDArray[Any], ...]) -> Any:
    size = max((int(one.max()) + 1 for one in indices if one.size), default=0)
    rest = data[0].shape[indices[0].ndim :]
    check_room([size, *rest], data[0].dtype)
    found = numpy.zeros((size, *rest), data[0].dtype)
    if data[0].dtype == object:
        found[...] = b""
    for ids, given in zip(indices, data, strict=True):
        check(
            given.shape == ids.shape + rest,
            f"data of shape {list(given.shape)} do not fit indices of shape {list(ids.shape)}",
        )
        check_ids(ids, size)
        found[ids.reshape(-1)] = given.reshape(-1, *rest)
    return found


# Scattering


@value("ScatterNd")
def _scatter_nd(indices: NDArray[Any], updates: NDArray[Any], shape: NDArray[Any], *, bad_indices_policy: bytes) -> Any:
    sizes = sizes_of(shape, "the shape")
    check(all(size >= 0 for size in sizes), f"shape {sizes} has a negative size")
    check_room(sizes, updates.dtype)
    if updates.dtype == object:
        return _scattered(numpy.full(sizes, b"", object), indices, updates, None, bad_indices_policy)
    update = numpy.logical_or if updates.dtype == bool else numpy.add
    return _scattered(numpy.zeros(sizes, updates.dtype), indices, updates, update, bad_indices_policy)


@value("TensorScatterUpdate")
def _tensor_scatter_update(
    x: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], *, bad_indices_policy: bytes
) -> Any:
    return _scattered(x.copy(), indices, updates, None, bad_indices_policy)


@value("TensorScatterAdd ScatterNdNonAliasingAdd")
def _tensor_scatter_add(
    x: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], *, bad_indices_policy: bytes
) -> Any:
    update = numpy.logical_or if x.dtype == bool else numpy.add
    return _scattered(x.copy(), indices, updates, update, bad_indices_policy)


@value("TensorScatterSub")
def _tensor_scatter_sub(
    x: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], *, bad_indices_policy: bytes
) -> Any:
    return _scattered(x.copy(), indices, updates, numpy.subtract, bad_indices_policy)


@value("TensorScatterMax")
def _tensor_scatter_max(
    x: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], *, bad_indices_policy: bytes
) -> Any:
    return _extreme(numpy.fmax, x, indices, updates, bad_indices_policy)


@value("TensorScatterMin")
def _tensor_scatter_min(
    x: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], *, bad_indices_policy: bytes
) -> Any:
    return _extreme(numpy.fmin, x, indices, updates, bad_indices_policy)


@value("InplaceUpdate")
def _inplace_update(x: NDArray[Any], i: NDArray[Any], v: NDArray[Any]) -> Any:
    found = _rows(x, i, v)
    found[i % max(len(x), 1)] = v
    return found


@value("InplaceAdd")
def _inplace_add(x: NDArray[Any], i: NDArray[Any], v: NDArray[Any]) -> Any:
    found = _rows(x, i, v)
    numpy.add.at(found, i % max(len(x), 1), v)
    return found


@value("InplaceSub")
def _inplace_sub(x: NDArray[Any], i: NDArray[Any], v: NDArray[Any]) -> Any:
    found = _rows(x, i, v)
    numpy.subtract.at(found, i % max(len(x), 1), v)
    return found


# Sorting and searching


@value("TopKV2")
def _top_k_v2(x: NDArray[Any], k: NDArray[Any], *, index_type: DType) -> Any:
    return _top(x, scalar(k, "k"), index_type.numpy())


@value("IsotonicRegression")
def _isotonic_regression(x: NDArray[Any], *, output_dtype: DType) -> Any:
    """The nearest numbers that fall along each row, and which of them are one (pool adjacent violators)."""
    check(x.ndim > 0, "a scalar has no rows")
    shape, x = x.shape, x.reshape(-1, x.shape[-1])
    found, segments = numpy.zeros(x.shape, output_dtype.numpy()), numpy.zeros(x.shape, numpy.int32)
    kind = found.dtype.type if found.dtype.itemsize > 2 else numpy.float32
    for row in range(len(x)):
        pools: list[tuple[Any, int]] = []
        for one in x[row].tolist():
            total, count = kind(one), 1
            while pools and pools[-1][0] / kind(pools[-1][1]) <= total / kind(count):
                before, more = pools.pop()
                total, count = before + total, more + count
            pools.append((total, count))
        counts = [count for _, count in pools]
        found[row] = numpy.repeat([total / kind(count) for total, count in pools], counts)
        segments[row] = numpy.repeat(numpy.arange(len(pools)), counts)
    return found.reshape(shape), segments.reshape(shape)


@value("NearestNeighbors")
def _nearest_neighbors(points: NDArray[Any], centers: NDArray[Any], k: NDArray[Any]) -> Any:
    fits = points.ndim == centers.ndim == 2 and points.shape[1] == centers.shape[1]
    check(fits, f"points {list(points.shape)} do not fit centers {list(centers.shape)}")
    count = int(k)
    check(count >= 0, f"{count} neighbors cannot be found")
    distances = ((points[:, None] - centers[None]) ** 2).sum(2)
    nearest = numpy.argsort(distances, 1, kind="stable")[:, :count]
    return nearest, numpy.take_along_axis(distances, nearest, 1)


@value("ApproxTopK")
def _approx_top_k(
    x: NDArray[Any], *, k: int, reduction_dimension: int, is_max_k: bool, aggregate_to_topk: bool
) -> Any:  # fmt: skip
    check(aggregate_to_topk, "without aggregation the number of results depends on the device")
    axis = axis_of(reduction_dimension, x.ndim)
    check(0 <= k <= x.shape[axis], f"there are not {k} of {x.shape[axis]}")
    ranked = -wide(x) if is_max_k else wide(x)
    order = numpy.argsort(ranked, axis, kind="stable").take(range(k), axis)
    return numpy.take_along_axis(x, order, axis), order.astype(numpy.int32)


@value("NthElement")
def _nth_element(x: NDArray[Any], n: NDArray[Any], *, reverse: bool) -> Any:
    place = scalar(n, "n", strict=True)
    check(x.ndim > 0, "a scalar has no n-th element")
    check(0 <= place < x.shape[-1], f"n = {place} is not in [0, {x.shape[-1]})")
    ordered = numpy.sort(x, axis=-1)
    return numpy.asarray(ordered[..., -1 - place if reverse else place])


@value("InTopK")
def _in_top_k(predictions: NDArray[Any], targets: NDArray[Any], *, k: int) -> Any:
    return _among_top(predictions, targets, k)


@value("InTopKV2")
def _in_top_k_v2(predictions: NDArray[Any], targets: NDArray[Any], k: NDArray[Any]) -> Any:
    return _among_top(predictions, targets, scalar(k, "k", strict=True))


@value("LowerBound")
def _lower_bound(sorted_inputs: NDArray[Any], values: NDArray[Any], *, out_type: DType) -> Any:
    return _searched(sorted_inputs, values, numpy.less, out_type)


@value("UpperBound")
def _upper_bound(sorted_inputs: NDArray[Any], values: NDArray[Any], *, out_type: DType) -> Any:
    return _searched(sorted_inputs, values, numpy.less_equal, out_type)


@value("Bucketize")
def _bucketize(x: NDArray[Any], *, boundaries: tuple[float, ...]) -> Any:
    edges = numpy.array(boundaries, numpy.float32)
    check(bool((edges[1:] >= edges[:-1]).all()), "the boundaries must be sorted")
    kept = x if is_float(x) else x.astype(numpy.float64)
    return numpy.searchsorted(edges.astype(kept.dtype), kept, side="right").astype(numpy.int32)


# Sets of values


@value("Unique")
def _unique(x: NDArray[Any], *, out_idx: DType) -> Any:
    check(x.ndim == 1, f"a vector is needed, not shape {list(x.shape)}")
    return _distinct(x, 0, out_idx.numpy())[:2]


@value("UniqueWithCounts")
def _unique_with_counts(x: NDArray[Any], *, out_idx: DType) -> Any:
    check(x.ndim == 1, f"a vector is needed, not shape {list(x.shape)}")
    return _distinct(x, 0, out_idx.numpy())


@value("UniqueV2")
def _unique_v2(x: NDArray[Any], axis: NDArray[Any], *, out_idx: DType) -> Any:
    return _distinct(x, _axis_of_unique(x, axis), out_idx.numpy())[:2]


@value("UniqueWithCountsV2")
def _unique_with_counts_v2(x: NDArray[Any], axis: NDArray[Any], *, out_idx: DType) -> Any:
    return _distinct(x, _axis_of_unique(x, axis), out_idx.numpy())


@value("ListDiff")
def _list_diff(x: NDArray[Any], y: NDArray[Any], *, out_idx: DType) -> Any:
    check(x.ndim == 1 and y.ndim == 1, "two vectors are needed")
    gone = set(y.tolist())
    kept = numpy.array([place for place, one in enumerate(x.tolist()) if one not in gone], numpy.int64)
    return x[kept], kept.astype(out_idx.numpy())


def _scattered(
    found: NDArray[Any],
    indices: NDArray[Any],
    updates: NDArray[Any],
    update: Callable[..., Any] | None,
    policy: bytes,
) -> NDArray[Any]:
    """A tensor with updates at indices; without a function they take the place of what was there."""
    check(indices.ndim > 1, f"the indices must be vectors, and have shape {list(indices.shape)}")
    depth = indices.shape[-1]
    check(depth <= found.ndim, f"indices of {depth} axes do not fit shape {list(found.shape)}")
    rest = found.shape[depth:]
    check(
        updates.shape == indices.shape[:-1] + rest,
        f"updates of shape {list(updates.shape)} do not fit indices of shape {list(indices.shape)}",
    )
    ids = tuple(indices[..., axis].reshape(-1) for axis in range(depth))
    flat = updates.reshape(-1, *rest)
    if policy == b"IGNORE":
        good = numpy.ones(len(flat), bool)
        for axis, one in enumerate(ids):
            good &= (one >= 0) & (one < found.shape[axis])
        ids, flat = tuple(one[good] for one in ids), flat[good]
    for axis, one in enumerate(ids):
        check_ids(one, found.shape[axis], f"on axis {axis}, index")
    if depth == 0:  # every update is for the whole tensor
        for one in flat:
            found[...] = one if update is None else update(found, one)
    elif update is None:
        found[ids] = flat
    else:
        update.at(found, ids, flat)  # type: ignore[attr-defined]  # a ufunc
    return found


def _extreme(
    function: Callable[..., Any], x: NDArray[Any], indices: NDArray[Any], updates: NDArray[Any], policy: bytes
) -> Any:
    """The larger or smaller of a tensor and updates: a NaN in the tensor stays, one in the updates does not count."""
    found = _scattered(x.copy(), indices, updates, function, policy)
    return numpy.where(numpy.isnan(x), x, found) if is_float(x) else found


def _rows(x: NDArray[Any], i: NDArray[Any], v: NDArray[Any]) -> Any:
    check(i.ndim == 1 and v.shape == i.shape + x.shape[1:], "the values must be rows of the tensor, one for each index")
    return x.copy()


def _top(x: NDArray[Any], k: int, kind: numpy.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The largest along the last axis, in falling order; of equal ones the first."""
    check(k >= 0, f"k = {k} is negative")
    check(x.ndim > 0 and x.shape[-1] >= k, f"there are no {k} elements in shape {list(x.shape)}")
    kept = wide(x)
    order = numpy.argsort(kept[..., ::-1], axis=-1, kind="stable")[..., ::-1][..., :k]
    ids = x.shape[-1] - 1 - order
    return numpy.take_along_axis(x, ids, -1), ids.astype(kind)


def _among_top(predictions: NDArray[Any], targets: NDArray[Any], k: int) -> NDArray[Any]:
    check(predictions.ndim == 2 and targets.ndim == 1, "a matrix of predictions and a vector of targets are needed")
    check(len(predictions) == len(targets), f"{len(targets)} targets do not fit {len(predictions)} predictions")
    inside = (targets >= 0) & (targets < predictions.shape[1])
    wanted = predictions[numpy.arange(len(targets)), numpy.where(inside, targets, 0)]
    larger = (predictions > wanted[:, None]).sum(axis=1)
    return numpy.asarray(inside & numpy.isfinite(wanted) & numpy.isfinite(predictions).all(axis=1) & (larger < k))


def _searched(ordered: NDArray[Any], values: NDArray[Any], before: Callable[..., Any], out_type: DType) -> NDArray[Any]:
    check(ordered.ndim == 2 and values.ndim == 2, "two matrices are needed")
    check(len(ordered) == len(values), f"{len(ordered)} and {len(values)} rows do not fit")
    low = numpy.zeros(values.shape, numpy.int64)
    high = numpy.full(values.shape, ordered.shape[1], numpy.int64)
    rows = numpy.arange(len(ordered))[:, None]
    while (low < high).any():
        middle = (low + high) // 2
        right = (low < high) & before(ordered[rows, numpy.minimum(middle, ordered.shape[1] - 1)], values)
        low, high = numpy.where(right, middle + 1, low), numpy.where(right | (low >= high), high, middle)
    return low.astype(out_type.numpy())


def _axis_of_unique(x: NDArray[Any], axis: NDArray[Any]) -> int:
    check(axis.ndim == 1 and axis.size <= 1, "the axis must be a vector of at most one element")
    if axis.size:
        return axis_of(int(axis[0]), x.ndim)
    check(x.ndim == 1, f"a vector is needed, or an axis, not shape {list(x.shape)}")
    return 0


def _distinct(x: NDArray[Any], axis: int, kind: numpy.dtype[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The distinct slices along an axis in the order in which they come, where each slice is, and the counts."""
    if x.ndim > 1 or x.dtype == object or x.dtype.kind == "V":
        rows = numpy.moveaxis(x, axis, 0).reshape(x.shape[axis], -1).tolist()
        places: dict[Any, int] = {}
        where = numpy.array([places.setdefault(tuple(row), len(places)) for row in rows], numpy.int64)
        first = numpy.unique(where, return_index=True)[1]
    else:
        _, starts, inverse = numpy.unique(x, return_index=True, return_inverse=True, equal_nan=False)
        rank = numpy.empty(len(starts), numpy.int64)
        rank[numpy.argsort(starts)] = numpy.arange(len(starts))
        where, first = rank[inverse.reshape(-1)], numpy.sort(starts)
    counts = numpy.bincount(where, minlength=len(first))
    return numpy.take(x, first, axis), where.astype(kind), counts.astype(kind)
