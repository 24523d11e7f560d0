"""Values of pooling: the greatest or the mean of each window. There is no loop over places, only over a window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, State, value
from tfsmith.ops.values.arguments import check
from tfsmith.ops.values.random_numbers import Generator, drawn, fractions_double, shuffled
from tfsmith.ops.values.windows import (
    Axis,
    axes,
    channels_last,
    is_first,
    layout,
    lowest,
    pad,
    positions,
    require_rank,
    taken,
    wide,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["counts", "largest", "windows_of"]


def _last(values: Sequence[int], rank: int, data_format: bytes, what: str) -> list[int]:
    """The numbers of an attribute as for a tensor with its channels last; the batch has 1."""
    found = [int(one) for one in values]
    if len(found) != rank:
        raise OpError(f"{what} must have {rank} numbers, not {len(found)}")
    if found[0] != 1:
        raise OpError(f"{what} along the batch must be 1, not {found[0]}")
    if min(found) < 1:
        raise OpError(f"{what} must be at least 1, not {found}")
    return [found[0], *found[2:], found[1]] if is_first(data_format) else found


def windows_of(
    x: NDArray[Any], ksize: Sequence[int], strides: Sequence[int], padding: bytes, data_format: bytes,
    explicit: Sequence[int] = (),
) -> tuple[NDArray[Any], list[Axis]]:  # fmt: skip
    """The input with its channels last, and the windows along its spatial axes."""
    last = channels_last(x, data_format)
    sizes, steps = _last(ksize, x.ndim, data_format, "ksize"), _last(strides, x.ndim, data_format, "strides")
    if sizes[-1] != 1 or steps[-1] != 1:
        raise OpError("pooling along channels and along space at once is not known")
    inner = last.shape[1:-1]
    return last, axes(inner, sizes[1:-1], steps[1:-1], [1] * len(inner), padding, explicit)


def largest(x: NDArray[Any], where: Sequence[Axis]) -> Any:
    """The greatest element of each window."""
    padded = pad(x, where, lowest(x.dtype))
    total = numpy.full((len(x), *(axis.out for axis in where), x.shape[-1]), lowest(x.dtype), x.dtype)
    for position in positions(where):
        numpy.fmax(total, padded[taken(where, position)], out=total)  # NaN loses, as in TensorFlow
    return total


def _max_pool(
    x: NDArray[Any], ksize: Sequence[int], strides: Sequence[int], padding: bytes, explicit_paddings: Sequence[int],
    data_format: bytes,
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    sizes, steps = _last(ksize, 4, data_format, "ksize"), _last(strides, 4, data_format, "strides")
    if sizes[3] != 1:
        return _max_of_channels(channels_last(x, data_format), sizes, steps)
    explicit: Sequence[int] = ()
    if padding == b"EXPLICIT":
        pairs = _last_pairs(explicit_paddings, data_format)
        explicit = pairs[2:6]
    last, where = windows_of(x, ksize, strides, padding, data_format, explicit)
    return layout(largest(last, where), data_format)


def _last_pairs(values: Sequence[int], data_format: bytes) -> list[int]:
    if len(values) != 8:
        raise OpError(f"explicit paddings must be 8 numbers, not {len(values)}")
    found = list(values)
    found = [*found[:2], *found[4:], *found[2:4]] if is_first(data_format) else found
    if any(found[:2]) or any(found[6:]):
        raise OpError("explicit paddings of batch and channels must be 0")
    return found


def _max_of_channels(x: NDArray[Any], sizes: Sequence[int], steps: Sequence[int]) -> Any:
    size = sizes[3]
    if sizes[1:3] != [1, 1] or steps[1:3] != [1, 1]:
        raise OpError("pooling along channels and along space at once is not known")
    if size != steps[3] or x.shape[3] % size:
        raise OpError(f"a window of {size} channels must be the stride {steps[3]} and divide {x.shape[3]} channels")
    return x.reshape(*x.shape[:3], -1, size).max(-1)


@value("MaxPool")
def _max_pool_v1(
    x: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int], padding: bytes,
    explicit_paddings: Sequence[int], data_format: bytes,
) -> Any:  # fmt: skip
    return _max_pool(x, ksize, strides, padding, explicit_paddings, data_format)


@value("MaxPoolV2")
def _max_pool_v2(
    x: NDArray[Any], ksize: NDArray[Any], strides: NDArray[Any], *, padding: bytes, data_format: bytes
) -> Any:
    return _max_pool(x, ksize.tolist(), strides.tolist(), padding, (), data_format)


@value("MaxPool3D")
def _max_pool_3d(
    x: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int], padding: bytes, data_format: bytes
) -> Any:
    require_rank(x, 5, "the input")
    last, where = windows_of(x, ksize, strides, padding, data_format)
    padded = pad(last, where, lowest(x.dtype))
    total = numpy.full((len(x), *(axis.out for axis in where), last.shape[-1]), lowest(x.dtype), x.dtype)
    for position in positions(where):
        new = padded[taken(where, position)]
        numpy.copyto(total, new, where=~(new < total))  # NaN wins over what came before it, and loses to what follows
    return layout(total, data_format)


@value("MaxPoolWithArgmax")
def _max_pool_where(
    x: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int], padding: bytes, Targmax: DType,
    include_batch_in_index: bool,
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    check(x.size > 0, f"shape {list(x.shape)} has no elements")
    x, where = windows_of(x, ksize, strides, padding, b"NHWC")
    index = numpy.arange(x.size, dtype=numpy.int64).reshape(x.shape)
    if not include_batch_in_index:
        index -= index[:, :1, :1, :1]
    padded, places = pad(x, where, lowest(x.dtype)), pad(index, where, -1)
    shape = (len(x), where[0].out, where[1].out, x.shape[3])
    best, found = numpy.full(shape, lowest(x.dtype), x.dtype), numpy.full(shape, -1, numpy.int64)
    for position in positions(where):
        place = taken(where, position)
        new, at = padded[place], places[place]
        better = (at >= 0) & ((new > best) | (found < 0))
        numpy.copyto(best, new, where=better)
        numpy.copyto(found, at, where=better)
    return best, found.astype(Targmax.numpy())


def _avg_pool_of(rank: int) -> Callable[..., Any]:
    def avg_pool(
        x: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int], padding: bytes, data_format: bytes
    ) -> Any:
        require_rank(x, rank, "the input")
        last, where = windows_of(x, ksize, strides, padding, data_format)
        return layout(_mean(last, where), data_format)

    return avg_pool


value("AvgPool")(_avg_pool_of(4))
value("AvgPool3D")(_avg_pool_of(5))


def _mean(x: NDArray[Any], where: Sequence[Axis]) -> Any:
    padded = pad(wide(x), where, 0)
    total = numpy.zeros((len(x), *(axis.out for axis in where), x.shape[-1]), padded.dtype)
    for position in positions(where):
        total += padded[taken(where, position)]
    return (total / counts(where)[..., None].astype(padded.dtype)).astype(x.dtype, copy=False)


def counts(where: Sequence[Axis]) -> NDArray[Any]:
    """How many elements of the input each window has; padding is none."""
    count = numpy.ones((), numpy.int64)
    for axis in where:
        start = numpy.arange(axis.out) * axis.stride - axis.before
        here = numpy.minimum(start + axis.kernel, axis.size) - numpy.maximum(start, 0)
        count = count[..., None] * here
    return count


# Windows of uneven sizes (Graham, 2015), which are drawn at random


def _declare_fractional(op: str, pool: Callable[[NDArray[Any], list[list[slice]]], NDArray[Any]]) -> None:
    @value(op)
    def fractional(
        x: NDArray[Any], *, pooling_ratio: Sequence[float], pseudo_random: bool, overlapping: bool, deterministic: bool,
        seed: int, seed2: int, state: State | None,
    ) -> Any:  # fmt: skip
        require_rank(x, 4, "the input")
        ratios = list(pooling_ratio)
        check(len(ratios) == 4 and min(ratios) >= 1, f"the ratios {ratios} are not four from 1 on")
        check(ratios[0] == ratios[3] == 1, "pooling along batch or channels is not known")
        check(deterministic or seed == seed2 == 0, "seeds are only for what is deterministic")
        places: list[list[int]] = []
        for size, ratio in zip(x.shape[1:3], ratios[1:3], strict=True):
            count = int(size / ratio)
            check(count > 0, f"no window of ratio {ratio} fits into {size} elements")
            places.append(_uneven(size, count, pseudo_random, lambda counters: drawn(state, seed, seed2, counters)))
        spans = [
            [slice(start, min(stop + overlapping, size)) for start, stop in pairwise(ends)]
            for ends, size in zip(places, x.shape[1:3], strict=True)
        ]
        return pool(x, spans), *(numpy.asarray(ends, numpy.int64) for ends in places)


def _uneven(size: int, count: int, pseudo: bool, draw: Callable[[int], Generator]) -> list[int]:
    """Where so many windows begin, and where the last one ends."""
    if size % count == 0:
        return list(range(0, size + 1, size // count))
    if not pseudo:
        sizes = [size // count + (place < size % count) for place in range(count)]
        words = draw((count + 3) // 4).words((count + 3) // 4).reshape(-1)
        return [0, *numpy.cumsum([sizes[place] for place in shuffled(count, words)]).tolist()]
    ratio, least = size / count, size // count
    most = min((least + 2) / ratio - 1, (size + 1 - least) / ratio - (count - 1))
    shift = float(fractions_double(draw(1).words(1))[0]) * most
    return [0, *(math.ceil(ratio * (place + shift)) - 1 for place in range(1, count)), size]


def _greatest_of(x: NDArray[Any], spans: list[list[slice]]) -> NDArray[Any]:
    rows = numpy.stack([x[:, span].max(1) for span in spans[0]], 1)
    return numpy.stack([rows[:, :, span].max(2) for span in spans[1]], 2)


def _mean_of(x: NDArray[Any], spans: list[list[slice]]) -> NDArray[Any]:
    rows = numpy.stack([x[:, span].sum(1, dtype=x.dtype) for span in spans[0]], 1)
    sums = numpy.stack([rows[:, :, span].sum(2, dtype=x.dtype) for span in spans[1]], 2)
    sizes = [numpy.array([span.stop - span.start for span in one]) for one in spans]
    count = (sizes[0][:, None] * sizes[1]).astype(x.dtype)[None, :, :, None]
    means = sums / count
    return numpy.asarray(numpy.trunc(means).astype(x.dtype) if x.dtype.kind == "i" else means)


_declare_fractional("FractionalMaxPool", _greatest_of)
_declare_fractional("FractionalAvgPool", _mean_of)
