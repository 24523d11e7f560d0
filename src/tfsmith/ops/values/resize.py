"""Values of ops that resize, crop, transform and cut images. Positions and weights are float32, as in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.errors import UnsupportedError
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.convolution import mirrored
from tfsmith.ops.values.windows import axes, pad, patches, require_rank

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["area_weights", "cubic_weights", "near_places", "resize_bilinear", "resize_places"]

_F = numpy.float32
_TABLE = 1024
"""How many steps the table of cubic weights has."""
_TINY = 1000 * float(numpy.finfo(numpy.float32).tiny)
"""Below this, a sum of weights is none."""


def _sizes(images: NDArray[Any], size: NDArray[Any]) -> tuple[int, int]:
    require_rank(images, 4, "the images")
    if size.shape != (2,):
        raise OpError(f"the new size must be two numbers, not the shape {list(size.shape)}")
    height, width = (int(one) for one in size)
    if height <= 0 or width <= 0:
        raise OpError(f"the new size must be above 0, not {height} x {width}")
    if not images.shape[1] or not images.shape[2]:
        raise OpError("images without pixels cannot be resized")
    return height, width


def _scale(old: int, new: int, align: bool) -> Any:
    return _F(old - 1) / _F(new - 1) if align and new > 1 else _F(old) / _F(new)


def _check(align: bool, half: bool) -> None:
    if align and half:
        raise OpError("corners cannot be aligned where pixels have half centers")


def resize_places(old: int, new: int, align: bool, half: bool) -> Any:
    """Where each new pixel lies in the old image."""
    scale = _scale(old, new, align)
    at = numpy.arange(new).astype(_F)
    return (at + _F(0.5)) * scale - _F(0.5) if half else at * scale


def resize_bilinear(images: NDArray[Any], height: int, width: int, *, align: bool, half: bool) -> Any:
    """Images (batch, height, width, channels) of another size, in float32."""
    pixels = images.astype(_F, copy=False)
    if images.shape[1:3] == (height, width):
        return pixels
    rows, columns = (resize_places(old, new, align, half)
                     for old, new in ((images.shape[1], height), (images.shape[2], width)))  # fmt: skip
    (top, bottom, down), (left, right, across) = _near(rows, images.shape[1]), _near(columns, images.shape[2])
    across = across[:, None]
    upper = _blend(pixels[:, top], left, right, across)
    lower = _blend(pixels[:, bottom], left, right, across)
    lower -= upper
    lower *= down[:, None, None]
    lower += upper
    return lower


def _near(at: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The pixels before and after each place, and how far it is from the first of them."""
    floor = numpy.floor(at)
    first = floor.astype(numpy.int64)
    return numpy.maximum(first, 0), numpy.minimum(first + 1, size - 1), at - floor


def _blend(rows: NDArray[Any], left: NDArray[Any], right: NDArray[Any], share: NDArray[Any]) -> Any:
    first = rows[:, :, left]
    found = rows[:, :, right] - first
    found *= share
    found += first
    return found


@value("ResizeBilinear")
def _resize_bilinear(images: NDArray[Any], size: NDArray[Any], *, align_corners: bool, half_pixel_centers: bool) -> Any:
    height, width = _sizes(images, size)
    _check(align_corners, half_pixel_centers)
    return resize_bilinear(images, height, width, align=align_corners, half=half_pixel_centers)


@value("ResizeNearestNeighbor")
def _resize_nearest(images: NDArray[Any], size: NDArray[Any], *, align_corners: bool, half_pixel_centers: bool) -> Any:
    height, width = _sizes(images, size)
    _check(align_corners, half_pixel_centers)
    rows = near_places(images.shape[1], height, align_corners, half_pixel_centers)
    return images[:, rows][:, :, near_places(images.shape[2], width, align_corners, half_pixel_centers)]


def near_places(old: int, new: int, align: bool, half: bool) -> Any:
    """The old pixel that is nearest to each new one."""
    at = (numpy.arange(new).astype(_F) + _F(0.5 if half else 0)) * _scale(old, new, align)
    near = _rounded(at) if align else numpy.floor(at)
    return numpy.clip(near.astype(numpy.int64), 0, old - 1)


def _rounded(at: NDArray[Any]) -> Any:
    """Rounded as C does: halves go away from zero."""
    return numpy.trunc(at + numpy.copysign(at.dtype.type(0.5), at))


@value("ResizeBicubic")
def _resize_bicubic(images: NDArray[Any], size: NDArray[Any], *, align_corners: bool, half_pixel_centers: bool) -> Any:
    height, width = _sizes(images, size)
    _check(align_corners, half_pixel_centers)
    pixels = images.astype(_F, copy=False)
    if images.shape[1:3] == (height, width):
        return pixels
    for axis, new in ((1, height), (2, width)):
        places, weights = cubic_weights(images.shape[axis], new, align_corners, half_pixel_centers)
        shape = (-1, 1, 1) if axis == 1 else (-1, 1)
        pixels = sum(
            numpy.take(pixels, places[:, number], axis) * weights[:, number].reshape(shape) for number in range(4)
        )
    return pixels


def cubic_weights(old: int, new: int, align: bool, half: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """The four old pixels that each new one is made of, and their weights."""
    table = _cubic(-0.5 if half else -0.75)
    at = resize_places(old, new, align, half)
    floor = numpy.floor(at)
    step = numpy.rint((at - floor) * _F(_TABLE)).astype(numpy.int64)
    wanted = floor.astype(numpy.int64)[:, None] + numpy.arange(-1, 3)
    places = numpy.clip(wanted, 0, old - 1)
    weights = numpy.stack(
        [table[1, step], table[0, step], table[0, _TABLE - step], table[1, _TABLE - step]], 1
    )  # fmt: skip
    return places, _normalized(numpy.where(places == wanted, weights, _F(0))) if half else weights


def _cubic(a: float) -> Any:
    """The weights of the two nearest pixels, and of the two after them, for each step between pixels."""
    near = numpy.arange(_TABLE + 1) / _TABLE
    far = near + 1
    table = [((a + 2) * near - (a + 3)) * near * near + 1, ((a * far - 5 * a) * far + 8 * a) * far - 4 * a]
    return numpy.stack(table).astype(_F)


def _normalized(weights: NDArray[Any]) -> Any:
    total = weights.sum(1, keepdims=True, dtype=weights.dtype)
    return numpy.where(numpy.abs(total) >= _TINY, weights * (_F(1) / total), weights)


@value("ResizeArea")
def _resizearea_weights(images: NDArray[Any], size: NDArray[Any], *, align_corners: bool) -> Any:
    height, width = _sizes(images, size)
    down = area_weights(images.shape[1], height, align_corners)
    across = area_weights(images.shape[2], width, align_corners)
    return _weighted(images, down, across)


def area_weights(old: int, new: int, align: bool) -> Any:
    """A row for each new pixel: how much of each old one it covers; what lies outside counts for the last one."""
    scale = _scale(old, new, align and old > 1)
    start = (numpy.arange(new).astype(_F) * scale)[:, None]
    end = (numpy.arange(1, new + 1).astype(_F) * scale)[:, None]
    places = numpy.arange(int(numpy.ceil(end.max())) + 1).astype(_F)
    share = numpy.maximum(numpy.minimum(places + 1, end) - numpy.maximum(places, start), 0)
    found = share[:, :old].copy()
    if found.shape[1] != old:
        found = numpy.pad(found, ((0, 0), (0, old - found.shape[1])))
    found[:, old - 1] += share[:, old:].sum(1)
    return found / scale


def _weighted(images: NDArray[Any], down: NDArray[Any], across: NDArray[Any]) -> Any:
    """The images with a weight for each old row and column in each new one."""
    batch, height, width, depth = images.shape
    pixels = images.astype(_F, copy=False)
    tall = (down @ pixels.reshape(batch, height, width * depth)).reshape(-1, width, depth)
    return (across @ tall).reshape(batch, len(down), len(across), depth)


_KERNELS: Mapping[bytes, tuple[float, Callable[[NDArray[Any]], Any]]] = MappingProxyType({
    b"lanczos1": (1, lambda x: _lanczos(x, 1)),
    b"lanczos3": (3, lambda x: _lanczos(x, 3)),
    b"lanczos5": (5, lambda x: _lanczos(x, 5)),
    b"gaussian": (1.5, lambda x: numpy.where(x >= _F(1.5), _F(0), numpy.exp(-x * x / _F(0.5)))),
    b"box": (1, lambda x: numpy.where(x < _F(0.5), _F(1), numpy.where(x == _F(0.5), _F(0.5), _F(0)))),
    b"triangle": (1, lambda x: numpy.maximum(_F(1) - x, _F(0))),
    b"keyscubic": (2, lambda x: _piecewise(
        x, ((_F(1.5) * x - _F(2.5)) * x) * x + _F(1), ((_F(-0.5) * x + _F(2.5)) * x - _F(4)) * x + _F(2))),
    b"mitchellcubic": (2, lambda x: _piecewise(
        x, ((_F(7 / 6) * x - _F(2)) * x) * x + _F(8 / 9),
        ((_F(-7 / 18) * x + _F(2)) * x - _F(10 / 3)) * x + _F(16 / 9))),
})  # fmt: skip


def _lanczos(x: NDArray[Any], radius: int) -> Any:
    pi = _F(numpy.pi)
    safe = numpy.where(x <= _F(1e-3), _F(1), x)
    found = _F(radius) * numpy.sin(pi * safe) * numpy.sin(pi * safe / _F(radius)) / (pi * pi * safe * safe)
    return numpy.where(x > _F(radius), _F(0), numpy.where(x <= _F(1e-3), _F(1), found))


def _piecewise(x: NDArray[Any], near: NDArray[Any], far: NDArray[Any]) -> Any:
    return numpy.where(x >= _F(2), _F(0), numpy.where(x >= _F(1), far, near))


@value("ScaleAndTranslate")
def _scale_and_translate(
    images: NDArray[Any], size: NDArray[Any], scale: NDArray[Any], translation: NDArray[Any],
    *, kernel_type: bytes, antialias: bool,
) -> Any:  # fmt: skip
    height, width = _sizes(images, size)
    if kernel_type not in _KERNELS:
        raise OpError(f"the kernel {kernel_type.decode(errors='replace')!r} is not known")
    if scale.shape != (2,) or translation.shape != (2,):
        raise OpError("scale and translation must be two numbers each")
    if not (scale > 0).all():
        raise OpError(f"the scale must be above 0, not {scale.tolist()}")
    down = _spans(images.shape[1], height, scale[0], translation[0], kernel_type, antialias)
    across = _spans(images.shape[2], width, scale[1], translation[1], kernel_type, antialias)
    return _weighted(images, down, across)


def _spans(old: int, new: int, scale: Any, translation: Any, kernel_type: bytes, antialias: bool) -> Any:
    """A row for each new pixel with the weights of the old ones."""
    radius, kernel = _KERNELS[kernel_type]
    inverse = _F(1) / scale
    stretch = max(inverse, _F(1)) if antialias else _F(1)
    sample = (numpy.arange(new).astype(_F) + _F(0.5)) * inverse - inverse * translation
    first = numpy.clip(numpy.ceil(sample - _F(radius) * stretch - _F(0.5)), 0, old - 1)[:, None]
    last = numpy.clip(numpy.floor(sample + _F(radius) * stretch - _F(0.5)), 0, old - 1)[:, None]
    places = numpy.arange(old).astype(_F)
    weights = kernel(numpy.abs((places + _F(0.5) - sample[:, None]) * (_F(1) / stretch)))
    inside = (places >= first) & (places <= last) & ((sample >= 0) & (sample <= old))[:, None]
    return _normalized(numpy.where(inside, weights, _F(0)))


@value("CropAndResize")
def _crop_and_resize(
    images: NDArray[Any], boxes: NDArray[Any], owners: NDArray[Any], size: NDArray[Any], *, method: bytes,
    extrapolation_value: float,
) -> Any:  # fmt: skip
    require_rank(images, 4, "the images")
    if size.shape != (2,) or (size <= 0).any():
        raise OpError(f"the size of a crop must be two numbers above 0, not {size.tolist()}")
    if not images.shape[1] or not images.shape[2]:
        raise OpError("images without pixels cannot be cropped")
    if owners.ndim != 1 or boxes.size != 4 * len(owners) or (boxes.size and boxes.shape != (len(owners), 4)):
        raise OpError(f"boxes {list(boxes.shape)} and their images {list(owners.shape)} do not fit together")
    if ((owners < 0) | (owners >= len(images))).any():
        raise OpError(f"a box is of an image outside of [0, {len(images)})")
    boxes = boxes.reshape(-1, 4)
    height, width = (int(one) for one in size)
    rows, row_in = _crop_places(boxes[:, 0], boxes[:, 2], images.shape[1], height)
    columns, column_in = _crop_places(boxes[:, 1], boxes[:, 3], images.shape[2], width)
    which = owners[:, None, None]
    if method == b"nearest":
        found = images[which, _rounded(rows).astype(int)[:, :, None], _rounded(columns).astype(int)[:, None]].astype(_F)
    else:
        top, left = numpy.floor(rows).astype(int)[:, :, None], numpy.floor(columns).astype(int)[:, None]
        bottom, right = numpy.ceil(rows).astype(int)[:, :, None], numpy.ceil(columns).astype(int)[:, None]
        down = (rows[:, :, None] - top.astype(_F))[..., None]
        across = (columns[:, None] - left.astype(_F))[..., None]
        a, b = images[which, top, left].astype(_F), images[which, top, right].astype(_F)
        c, d = images[which, bottom, left].astype(_F), images[which, bottom, right].astype(_F)
        upper = a + (b - a) * across
        found = upper + (c + (d - c) * across - upper) * down
    inside = row_in[:, :, None] & column_in[:, None]
    return numpy.where(inside[..., None], found, _F(extrapolation_value))


def _crop_places(start: NDArray[Any], end: NDArray[Any], old: int, new: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """For each box the places of its pixels in the image, and which of them lie inside."""
    if new > 1:
        step = (end - start) * _F(old - 1) / _F(new - 1)
        at = (start * _F(old - 1))[:, None] + numpy.arange(new).astype(_F) * step[:, None]
    else:
        at = (_F(0.5) * (start + end) * _F(old - 1))[:, None]
    inside = (at >= 0) & (at <= old - 1)
    return numpy.where(inside, at, _F(0)), inside


@value("ExtractImagePatches")
def _image_patches(
    images: NDArray[Any], *, ksizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: bytes
) -> Any:
    require_rank(images, 4, "the images")
    return _cut(images, ksizes, strides, rates, padding)


@value("ExtractVolumePatches")
def _volume_patches(x: NDArray[Any], *, ksizes: Sequence[int], strides: Sequence[int], padding: bytes) -> Any:
    require_rank(x, 5, "the input")
    return _cut(x, ksizes, strides, (1,) * 5, padding)


def _cut(x: NDArray[Any], ksizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: bytes) -> Any:
    for what, found in (("ksizes", ksizes), ("strides", strides), ("rates", rates)):
        if len(found) != x.ndim or found[0] != 1 or found[-1] != 1:
            raise OpError(f"{what} must be {x.ndim} numbers with 1 for batch and channels, not {list(found)}")
    where = axes(x.shape[1:-1], ksizes[1:-1], strides[1:-1], rates[1:-1], padding)
    shape = (len(x), *(axis.out for axis in where), int(numpy.prod(ksizes)) * x.shape[-1])
    if 0 in shape:
        return numpy.zeros(shape, x.dtype)
    return patches(pad(x, where, 0), where).reshape(shape)


@value("ExtractGlimpse")
def _glimpse(
    x: NDArray[Any], size: NDArray[Any], offsets: NDArray[Any], *, centered: bool, normalized: bool,
    uniform_noise: bool, noise: bytes,
) -> Any:  # fmt: skip
    whole, part = _glimpse_sizes(x, size, offsets)
    start = offsets * whole if normalized else offsets
    return _glimpses(x, size, (start / _F(2) + whole / _F(2) if centered else start) - part / _F(2), noise)


@value("ExtractGlimpseV2")
def _glimpse_v2(
    x: NDArray[Any], size: NDArray[Any], offsets: NDArray[Any], *, centered: bool, normalized: bool,
    uniform_noise: bool, noise: bytes,
) -> Any:  # fmt: skip
    whole, part = _glimpse_sizes(x, size, offsets)
    start = offsets * whole if normalized else offsets
    if centered:
        start = start / _F(2) + whole / _F(2) - part / _F(2) if normalized else start + whole / _F(2)
    return _glimpses(x, size, start, noise)


def _glimpse_sizes(x: NDArray[Any], size: NDArray[Any], offsets: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    require_rank(x, 4, "the images")
    if size.shape != (2,) or (size <= 0).any() or offsets.shape != (len(x), 2):
        raise OpError(f"size {size.tolist()} and offsets {list(offsets.shape)} do not fit images {list(x.shape)}")
    return numpy.array(x.shape[1:3], _F), size.astype(_F)


def _glimpses(x: NDArray[Any], size: NDArray[Any], start: NDArray[Any], noise: bytes) -> Any:
    """A part of each image from a place on; what lies outside is zero."""
    found = numpy.zeros((len(x), int(size[0]), int(size[1]), x.shape[3]), x.dtype)
    for one, (top, left) in enumerate(start.astype(numpy.int64).tolist()):
        rows, columns = slice(max(top, 0), max(top + int(size[0]), 0)), slice(max(left, 0), max(left + int(size[1]), 0))
        seen = x[one, rows, columns]
        down, across = max(-top, 0), max(-left, 0)
        found[one, down : down + seen.shape[0], across : across + seen.shape[1]] = seen
        if seen.size < found[one].size and noise != b"zero":
            raise UnsupportedError("a glimpse over the edge of an image is filled with random numbers",
                                   remedy="use the engine tensorflow")  # fmt: skip
    return found


@value("FusedResizeAndPadConv2D")
def _resize_pad_conv(
    x: NDArray[Any], size: NDArray[Any], paddings: NDArray[Any], kernel: NDArray[Any], *, resize_align_corners: bool,
    mode: bytes, strides: Sequence[int], padding: bytes,
) -> Any:  # fmt: skip
    height, width = _sizes(x, size)
    resized = resize_bilinear(x, height, width, align=resize_align_corners, half=False).astype(x.dtype)
    return mirrored(resized, paddings, mode, kernel, strides, padding)


@value("ImageProjectiveTransformV2")
def _projective_v2(
    images: NDArray[Any], transforms: NDArray[Any], shape: NDArray[Any], *, interpolation: bytes, fill_mode: bytes
) -> Any:
    return _projective(images, transforms, shape, interpolation, fill_mode, _F(0))


@value("ImageProjectiveTransformV3")
def _projective_v3(
    images: NDArray[Any], transforms: NDArray[Any], shape: NDArray[Any], fill: NDArray[Any], *, interpolation: bytes,
    fill_mode: bytes,
) -> Any:  # fmt: skip
    if fill.ndim:
        raise OpError("the fill value must be a scalar")
    return _projective(images, transforms, shape, interpolation, fill_mode, fill[()])


def _projective(
    images: NDArray[Any], transforms: NDArray[Any], shape: NDArray[Any], interpolation: bytes, fill_mode: bytes,
    fill: Any,
) -> Any:  # fmt: skip
    require_rank(images, 4, "the images")
    if transforms.ndim != 2 or transforms.shape[1] != 8 or len(transforms) not in (1, len(images)):
        raise OpError(f"transforms must have 8 numbers for each image, not the shape {list(transforms.shape)}")
    if shape.shape != (2,) or (shape <= 0).any():
        raise OpError(f"the new size must be two numbers above 0, not {shape.tolist()}")
    if interpolation not in (b"NEAREST", b"BILINEAR") or fill_mode not in _FILLS:
        raise OpError(f"{interpolation!r} with {fill_mode!r} is not known")
    rows, columns = numpy.mgrid[: int(shape[0]), : int(shape[1])].astype(_F)
    t = transforms[:, :, None, None]
    depth = t[:, 6] * columns + t[:, 7] * rows + _F(1)
    x = (t[:, 0] * columns + t[:, 1] * rows + t[:, 2]) / depth
    y = (t[:, 3] * columns + t[:, 4] * rows + t[:, 5]) / depth
    place = _FILLS[fill_mode]
    x, y = place(x, images.shape[2]), place(y, images.shape[1])
    x, y, depth = (numpy.broadcast_to(one, (len(images), *one.shape[1:])) for one in (x, y, depth))
    filler = images.dtype.type(fill)
    if interpolation == b"NEAREST":
        found = _read(images, _rounded(y), _rounded(x), filler, images.dtype)
    else:
        top, left = numpy.floor(y), numpy.floor(x)
        bottom, right = top + _F(1), left + _F(1)
        after, before = (x - left)[..., None], (right - x)[..., None]
        upper = before * _read(images, top, left, filler) + after * _read(images, top, right, filler)
        lower = before * _read(images, bottom, left, filler) + after * _read(images, bottom, right, filler)
        found = ((bottom - y)[..., None] * upper + (y - top)[..., None] * lower).astype(images.dtype)
    return numpy.where((depth == 0)[..., None], filler, found)


def _read(images: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], filler: Any, kind: Any = _F) -> Any:
    """The pixels at these places in another type; `filler` for those that lie outside."""
    inside = (rows >= 0) & (rows < images.shape[1]) & (columns >= 0) & (columns < images.shape[2])
    which = numpy.arange(len(images))[:, None, None]
    at = [numpy.where(inside, one, _F(0)).astype(numpy.int64) for one in (rows, columns)]
    return numpy.where(inside[..., None], images[which, at[0], at[1]], filler).astype(kind)


def _reflected(at: NDArray[Any], size: int) -> Any:
    if size <= 1:
        return numpy.where((at < 0) | (at > size - 1), _F(0), at)
    period = _F(2 * size)
    low = numpy.where(at < period, period * numpy.trunc(-at / period) + at, at)
    low = numpy.where(low < -size, low + period, -low - _F(1))
    high = at - period * numpy.trunc(at / period)
    high = numpy.where(high >= size, period - high - _F(1), high)
    return numpy.clip(numpy.where(at < 0, low, numpy.where(at > size - 1, high, at)), _F(0), _F(size - 1))


def _wrapped(at: NDArray[Any], size: int) -> Any:
    if size <= 1:
        return numpy.where((at < 0) | (at > size - 1), _F(0), at)
    step = _F(size - 1)
    low = at + _F(size) * (numpy.trunc(-at / step) + _F(1))
    high = at - _F(size) * numpy.trunc(at / step)
    return numpy.clip(numpy.where(at < 0, low, numpy.where(at > size - 1, high, at)), _F(0), _F(size - 1))


_FILLS: Mapping[bytes, Callable[[NDArray[Any], int], Any]] = MappingProxyType({
    b"CONSTANT": lambda at, size: at,
    b"NEAREST": lambda at, size: numpy.clip(at, _F(0), _F(size - 1)),
    b"REFLECT": _reflected,
    b"WRAP": _wrapped,
})  # fmt: skip
