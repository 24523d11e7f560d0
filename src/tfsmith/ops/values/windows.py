"""What convolution, pooling and patches share: where windows lie, padding, and the type in which sums are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy
from numpy.lib.stride_tricks import as_strided

from tfsmith.ops.values import OpError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Axis",
    "axes",
    "channels_last",
    "explicit_of",
    "is_first",
    "layout",
    "limits",
    "lowest",
    "pad",
    "patches",
    "positions",
    "require_rank",
    "scatter",
    "spatial",
    "taken",
    "wide",
]


class Axis:
    """Windows along one axis.

    Attributes:
        size: The size of the input.
        kernel: The elements of a window.
        stride: The step from window to window.
        rate: The step from element to element within a window.
        before: Padding before the input.
        after: Padding after the input; negative where the last elements belong to no window.
        out: How many windows there are.
    """

    __slots__ = ("after", "before", "kernel", "out", "rate", "size", "stride")

    def __init__(
        self, size: int, kernel: int, stride: int, rate: int, padding: bytes, explicit: Sequence[int] = (0, 0)
    ) -> None:
        self.size, self.kernel, self.stride, self.rate = size, kernel, stride, rate
        if stride < 1 or rate < 1:
            raise OpError(f"strides and dilations must be at least 1, not {stride} and {rate}")
        if kernel < 1:
            raise OpError(f"a window must have elements, not {kernel}")
        reach = (kernel - 1) * rate + 1
        if padding == b"SAME":
            self.out = -(-size // stride)
            self.before = max((self.out - 1) * stride + reach - size, 0) // 2
        else:
            if padding == b"EXPLICIT" and min(explicit) < 0:
                raise OpError(f"padding must not be negative, as in {tuple(explicit)}")
            self.before = explicit[0] if padding == b"EXPLICIT" else 0
            whole = size + self.before + (explicit[1] if padding == b"EXPLICIT" else 0)
            if whole < reach:  # its kernels give nothing for some of these; its shape functions refuse all
                raise OpError(f"a window of {reach} does not fit into {whole} elements")
            self.out = (whole - reach) // stride + 1
        self.after = (self.out - 1) * stride + reach - size - self.before if self.out else 0


def axes(
    sizes: Sequence[int],
    kernels: Sequence[int],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: bytes,
    explicit: Sequence[int] = (),
) -> list[Axis]:
    """The windows along each spatial axis; `explicit` has two paddings for each of them."""
    pairs = [tuple(explicit[2 * number : 2 * number + 2]) or (0, 0) for number in range(len(sizes))]
    return [
        Axis(size, kernel, stride, rate, padding, pair)
        for size, kernel, stride, rate, pair in zip(sizes, kernels, strides, rates, pairs, strict=True)
    ]


def is_first(data_format: bytes) -> bool:
    """Whether the channels come before the spatial axes."""
    if data_format == b"NCHW_VECT_C":
        raise OpError("the layout NCHW_VECT_C is for graphics processors only")
    return data_format in (b"NCHW", b"NCDHW", b"CHANNELS_FIRST")


def channels_last(x: NDArray[Any], data_format: bytes) -> NDArray[Any]:
    """The tensor with its channels as the last axis; a view."""
    return numpy.moveaxis(x, 1, -1) if is_first(data_format) else x


def require_rank(x: NDArray[Any], rank: int, what: str) -> None:
    """Checks the rank of an input.

    Raises:
        OpError: It is another one.
    """
    if x.ndim != rank:
        raise OpError(f"{what} must have {rank} axes, not the shape {list(x.shape)}")


def wide(x: NDArray[Any]) -> NDArray[Any]:
    """The numbers in the type in which products are summed: half and bfloat16 as float32, others as they are."""
    return x.astype(numpy.float32) if x.dtype.itemsize == 2 and x.dtype.kind in "fV" else x


def limits(kind: numpy.dtype[Any]) -> Any:
    """The `finfo` or `iinfo` of a type, bfloat16 too."""
    import ml_dtypes

    info: Any = ml_dtypes
    return numpy.iinfo(kind) if kind.kind in "iu" else info.finfo(kind)


def lowest(kind: numpy.dtype[Any]) -> Any:
    """The least finite number of a type."""
    return limits(kind).min


def pad(x: NDArray[Any], where: Sequence[Axis], filler: Any, start: int = 1) -> NDArray[Any]:
    """The input with `filler` around it as the windows need it; axes from `start` on are spatial."""
    if all(axis.before <= 0 and axis.after <= 0 for axis in where):
        return x
    shape = list(x.shape)
    inner = [slice(None)] * x.ndim
    for number, axis in enumerate(where, start):
        shape[number] += axis.before + max(axis.after, 0)
        inner[number] = slice(axis.before, axis.before + x.shape[number])
    padded = numpy.full(shape, filler, x.dtype)
    padded[tuple(inner)] = x
    return padded


def patches(padded: NDArray[Any], where: Sequence[Axis]) -> NDArray[Any]:
    """A view: batch, a place on each spatial axis, an element of the window on each spatial axis, channels."""
    step = padded.strides
    middle = range(1, 1 + len(where))
    return as_strided(
        padded,
        (len(padded), *(axis.out for axis in where), *(axis.kernel for axis in where), padded.shape[-1]),
        (
            step[0],
            *(step[number] * axis.stride for number, axis in zip(middle, where, strict=True)),
            *(step[number] * axis.rate for number, axis in zip(middle, where, strict=True)),
            step[-1],
        ),
        writeable=False,
    )


def positions(where: Sequence[Axis]) -> list[tuple[int, ...]]:
    """Each element of a window, in order."""
    return list(numpy.ndindex(*(axis.kernel for axis in where)))


def taken(where: Sequence[Axis], position: Sequence[int]) -> tuple[slice, ...]:
    """The slices of a padded input that this element of the window covers, batch first."""
    return (
        slice(None),
        *(
            slice(at * axis.rate, at * axis.rate + (axis.out - 1) * axis.stride + 1 if axis.out else 0, axis.stride)
            for at, axis in zip(position, where, strict=True)
        ),
    )


def layout(y: Any, data_format: bytes) -> Any:
    """The tensor with its channels where the layout has them; a view."""
    return numpy.moveaxis(y, -1, 1) if is_first(data_format) else y


def spatial(values: Sequence[int], rank: int, data_format: bytes, what: str) -> list[int]:
    """The numbers of an attribute for the spatial axes; those for batch and channels must be 1."""
    if len(values) != rank:
        raise OpError(f"{what} must have {rank} numbers, not {len(values)}")
    channel = 1 if is_first(data_format) else rank - 1
    if values[0] != 1 or values[channel] != 1:
        raise OpError(f"{what} along batch and channels must be 1, not {list(values)}")
    return [one for number, one in enumerate(values) if number not in (0, channel)]


def explicit_of(values: Sequence[int], rank: int, data_format: bytes, padding: bytes) -> list[int]:
    """The paddings of the spatial axes, two for each of them."""
    if padding != b"EXPLICIT":
        if values:
            raise OpError("explicit paddings are for the padding EXPLICIT only")
        return []
    if len(values) != 2 * rank:
        raise OpError(f"explicit paddings must be {2 * rank} numbers, not {len(values)}")
    channel = 1 if is_first(data_format) else rank - 1
    if any(values[2 * number + side] for number in (0, channel) for side in (0, 1)):
        raise OpError("explicit paddings of batch and channels must be 0")
    return [one for number, one in enumerate(values) if number // 2 not in (0, channel)]


def scatter(columns: NDArray[Any], sizes: Sequence[int], where: Sequence[Axis]) -> Any:
    """Adds each window (batch, places, elements of the window, channels) into an input of these sizes."""
    padded = numpy.zeros(
        (len(columns), *(size + axis.before + max(axis.after, 0) for size, axis in zip(sizes, where, strict=True)),
         columns.shape[-1]), columns.dtype,
    )  # fmt: skip
    lead = (slice(None),) * (1 + len(where))
    for position in positions(where):
        padded[taken(where, position)] += columns[lead + position]
    inner = [slice(axis.before, axis.before + size) for size, axis in zip(sizes, where, strict=True)]
    place = (slice(None), *inner)
    return padded[place]
