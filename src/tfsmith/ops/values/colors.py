"""Values of ops on the colours of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.windows import wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


def _three(images: NDArray[Any], rank: int) -> None:
    if images.ndim < rank or images.shape[-1] != 3:
        raise OpError(f"the last of at least {rank} axes must be 3 colors, not the shape {list(images.shape)}")


def _to_hsv(red: NDArray[Any], green: NDArray[Any], blue: NDArray[Any]) -> tuple[Any, Any, Any]:
    kind = red.dtype.type
    top = numpy.maximum(numpy.maximum(red, green), blue)
    span = top - numpy.minimum(numpy.minimum(red, green), blue)
    saturation = numpy.where(top > 0, span / top, kind(0))
    norm = kind(1) / (kind(6) * span)
    hue = numpy.where(
        red == top,
        norm * (green - blue),
        numpy.where(green == top, norm * (blue - red) + kind(2 / 6), norm * (red - green) + kind(4 / 6)),
    )
    hue = numpy.where(span > 0, hue, kind(0))
    return numpy.where(hue < 0, hue + kind(1), hue), saturation, top


@value("RGBToHSV")
def _rgb_to_hsv(images: NDArray[Any]) -> Any:
    _three(images, 1)
    return numpy.stack(_to_hsv(*numpy.moveaxis(images, -1, 0)), -1)


@value("HSVToRGB")
def _hsv_to_rgb(images: NDArray[Any]) -> Any:
    _three(images, 1)
    return numpy.stack(_to_rgb(*numpy.moveaxis(images, -1, 0)), -1)


def _to_rgb(hue: NDArray[Any], saturation: NDArray[Any], top: NDArray[Any]) -> tuple[Any, ...]:
    kind = hue.dtype.type
    around = hue * kind(6)
    shares = (
        numpy.abs(around - kind(3)) - kind(1),
        -numpy.abs(around - kind(2)) + kind(2),
        -numpy.abs(around - kind(4)) + kind(2),
    )
    rest = -saturation + kind(1)
    return tuple((rest + saturation * numpy.minimum(numpy.maximum(share, kind(0)), kind(1))) * top for share in shares)


@value("AdjustContrastv2")
def _adjust_contrast(images: NDArray[Any], factor: NDArray[Any]) -> Any:
    if images.ndim < 3:
        raise OpError(f"images must have at least 3 axes, not the shape {list(images.shape)}")
    if factor.ndim:
        raise OpError("the factor must be a scalar")
    pixels = wide(images)
    mean = pixels.mean((-3, -2), keepdims=True)
    return ((pixels - mean) * factor + mean).astype(images.dtype)


@value("AdjustSaturation")
def _adjust_saturation(images: NDArray[Any], scale: NDArray[Any]) -> Any:
    _three(images, 3)
    if scale.ndim:
        raise OpError("the scale must be a scalar")
    hue, saturation, top = _to_hsv(*numpy.moveaxis(wide(images), -1, 0))
    found = _to_rgb(hue, numpy.clip(saturation * scale, numpy.float32(0), numpy.float32(1)), top)
    return numpy.stack(found, -1).astype(images.dtype)


@value("AdjustHue")
def _adjust_hue(images: NDArray[Any], delta: NDArray[Any]) -> Any:
    _three(images, 3)
    if delta.ndim:
        raise OpError("the delta must be a scalar")
    pixels = wide(images)
    kind = pixels.dtype.type
    red, green, blue = numpy.moveaxis(pixels, -1, 0)
    top, low = pixels.max(-1), pixels.min(-1)
    span = numpy.where(top > low, top - low, kind(1))
    hue = numpy.where(
        red == top, (green - blue) / span,
        numpy.where(green == top, kind(2) + (blue - red) / span, kind(4) + (red - green) / span),
    )  # fmt: skip
    hue = numpy.mod(numpy.where(top > low, hue, kind(0)) + delta * kind(6), kind(6))
    whole = numpy.floor(hue)
    part = hue - whole
    middle = low + numpy.where(whole % 2 == 0, part, kind(1) - part) * (top - low)
    order = [[0, 1, 2], [1, 0, 2], [2, 0, 1], [2, 1, 0], [1, 2, 0], [0, 2, 1]]  # of the greatest, middle and least
    choice = numpy.array(order)[whole.astype(numpy.int64) % 6]
    found = numpy.take_along_axis(numpy.stack([top, middle, low], -1), choice, -1)
    return found.astype(images.dtype)
