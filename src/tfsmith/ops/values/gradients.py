"""Values of gradients of elementwise ops, convolution, pooling, norms and resizing: some graphs explain answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import check, rounded
from tfsmith.ops.values.pooling import counts, windows_of
from tfsmith.ops.values.resize import near_places, resize_places
from tfsmith.ops.values.windows import (
    Axis,
    axes,
    channels_last,
    explicit_of,
    is_first,
    layout,
    lowest,
    pad,
    patches,
    positions,
    require_rank,
    scatter,
    spatial,
    taken,
    wide,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


def _check_places(back: NDArray[Any], where: Sequence[Axis], batch: int, depth: int) -> None:
    wanted = (batch, *(axis.out for axis in where), depth)
    if back.shape != wanted:
        raise OpError(f"the gradient has the shape {list(back.shape)}, but {list(wanted)} is needed")


@value("MaxPoolGrad")
def _max_pool_grad(
    x: NDArray[Any], y: NDArray[Any], back: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int],
    padding: bytes, data_format: bytes,
) -> Any:  # fmt: skip
    return _max_grad(x, y, back, ksize, strides, padding, data_format)


@value("MaxPoolGradV2")
def _max_pool_grad_v2(
    x: NDArray[Any], y: NDArray[Any], back: NDArray[Any], ksize: NDArray[Any], strides: NDArray[Any],
    *, padding: bytes, data_format: bytes,
) -> Any:  # fmt: skip
    return _max_grad(x, y, back, ksize.tolist(), strides.tolist(), padding, data_format)


def _max_grad(
    x: NDArray[Any], y: NDArray[Any], back: NDArray[Any], ksize: Sequence[int], strides: Sequence[int], padding: bytes,
    data_format: bytes,
) -> Any:  # fmt: skip
    """Each gradient goes to the first element of its window that is the greatest."""
    require_rank(x, 4, "the input")
    if padding == b"EXPLICIT":
        raise OpError("the gradient of explicit paddings is not known")
    last, where = windows_of(x, ksize, strides, padding, data_format)
    y, back = channels_last(y, data_format), channels_last(back, data_format)
    _check_places(back, where, len(x), last.shape[-1])
    _check_places(y, where, len(x), last.shape[-1])
    windows = patches(pad(last, where, lowest(x.dtype)), where)
    flat = windows.reshape(*windows.shape[:3], -1, windows.shape[-1])
    first = numpy.argmax(flat == flat.max(3, keepdims=True), 3)[:, :, :, None]
    hit = numpy.arange(flat.shape[3])[:, None] == first
    columns = numpy.where(hit, back[:, :, :, None], back.dtype.type(0)).reshape(windows.shape)
    return layout(scatter(wide(columns), last.shape[1:3], where).astype(x.dtype, copy=False), data_format)


@value("AvgPoolGrad")
def _avg_pool_grad(
    shape: NDArray[Any], back: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int], padding: bytes,
    data_format: bytes,
) -> Any:  # fmt: skip
    return _mean_grad(shape, back, 4, ksize, strides, padding, data_format)


@value("AvgPool3DGrad")
def _avg_pool_3d_grad(
    shape: NDArray[Any], back: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int], padding: bytes,
    data_format: bytes,
) -> Any:  # fmt: skip
    return _mean_grad(shape, back, 5, ksize, strides, padding, data_format)


def _mean_grad(
    shape: NDArray[Any], back: NDArray[Any], rank: int, ksize: Sequence[int], strides: Sequence[int], padding: bytes,
    data_format: bytes,
) -> Any:  # fmt: skip
    require_rank(back, rank, "the gradient")
    if shape.shape != (rank,) or (shape < 0).any():
        raise OpError(f"the shape of the input must be {rank} numbers, not {shape.tolist()}")
    whole = numpy.broadcast_to(back.dtype.type(0), tuple(int(one) for one in shape))
    last, where = windows_of(whole, ksize, strides, padding, data_format)
    back = channels_last(back, data_format)
    _check_places(back, where, len(last), last.shape[-1])
    shares = wide(back) / counts(where)[..., None].astype(wide(back).dtype)
    lead = (slice(None),) * (rank - 1) + (None,) * (rank - 2)
    kernel = tuple(axis.kernel for axis in where)
    columns = numpy.broadcast_to(shares[lead], (*shares.shape[:-1], *kernel, shares.shape[-1]))
    return layout(scatter(columns, last.shape[1:-1], where).astype(back.dtype, copy=False), data_format)


@value("BiasAddGrad")
def _bias_add_grad(back: NDArray[Any], *, data_format: bytes) -> Any:
    if back.ndim < 2:
        raise OpError(f"the gradient must have at least 2 axes, not the shape {list(back.shape)}")
    kept = 1 if is_first(data_format) else back.ndim - 1
    others = tuple(axis for axis in range(back.ndim) if axis != kept)
    return wide(back).sum(others, dtype=wide(back).dtype).astype(back.dtype)


@value("Conv2DBackpropFilter")
def _conv2d_filter(
    x: NDArray[Any], sizes: NDArray[Any], back: NDArray[Any], *, strides: Sequence[int], padding: bytes,
    explicit_paddings: Sequence[int], data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    return _filter(x, sizes, back, 4, strides, padding, explicit_paddings, data_format, dilations)


@value("Conv3DBackpropFilterV2")
def _conv3d_filter(
    x: NDArray[Any], sizes: NDArray[Any], back: NDArray[Any], *, strides: Sequence[int], padding: bytes,
    data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    return _filter(x, sizes, back, 5, strides, padding, (), data_format, dilations)


def _windows_of_filter(
    x: NDArray[Any], sizes: NDArray[Any], back: NDArray[Any], rank: int, strides: Sequence[int], padding: bytes,
    explicit: Sequence[int], data_format: bytes, dilations: Sequence[int],
) -> tuple[NDArray[Any], NDArray[Any], list[Axis], tuple[int, ...]]:  # fmt: skip
    """The input and the gradient with their channels last, the windows, and the filter's shape."""
    require_rank(x, rank, "the input")
    require_rank(back, rank, "the gradient")
    if sizes.shape != (rank,) or (sizes < 1).any():
        raise OpError(f"the shape of the filter must be {rank} numbers above 0, not {sizes.tolist()}")
    shape = tuple(int(one) for one in sizes)
    last, back = channels_last(x, data_format), channels_last(back, data_format)
    where = axes(
        last.shape[1:-1], shape[:-2], spatial(strides, rank, data_format, "strides"),
        spatial(dilations, rank, data_format, "dilations"), padding, explicit_of(explicit, rank, data_format, padding),
    )  # fmt: skip
    return last, back, where, shape


def _filter(
    x: NDArray[Any], sizes: NDArray[Any], back: NDArray[Any], rank: int, strides: Sequence[int], padding: bytes,
    explicit: Sequence[int], data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    last, back, where, shape = _windows_of_filter(x, sizes, back, rank, strides, padding, explicit, data_format,
                                                  dilations)  # fmt: skip
    if shape[-2] != last.shape[-1]:
        raise OpError(f"the input has {last.shape[-1]} channels, but the filter takes {shape[-2]}")
    _check_places(back, where, len(x), shape[-1])
    if not back.size:
        return numpy.zeros(shape, x.dtype)
    windows = patches(pad(wide(last), where, 0), where)
    rows = windows.reshape(back.size // shape[-1], -1)
    return (rows.T @ wide(back).reshape(-1, shape[-1])).reshape(shape).astype(x.dtype, copy=False)


@value("DepthwiseConv2dNativeBackpropFilter")
def _depthwise_filter(
    x: NDArray[Any], sizes: NDArray[Any], back: NDArray[Any], *, strides: Sequence[int], padding: bytes,
    explicit_paddings: Sequence[int], data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    last, back, where, shape = _windows_of_filter(x, sizes, back, 4, strides, padding, explicit_paddings, data_format,
                                                  dilations)  # fmt: skip
    depth, times = shape[2:]
    if depth != last.shape[-1]:
        raise OpError(f"the input has {last.shape[-1]} channels, but the filter takes {depth}")
    _check_places(back, where, len(x), depth * times)
    padded, split = pad(wide(last), where, 0), wide(back).reshape(*back.shape[:3], depth, times)
    found = numpy.zeros(shape, padded.dtype)
    for position in positions(where):
        found[position] = numpy.einsum("bijc,bijct->ct", padded[taken(where, position)], split)
    return found.astype(x.dtype, copy=False)


@value("FusedBatchNormGrad FusedBatchNormGradV2")
def _batch_norm_grad(
    back: NDArray[Any], x: NDArray[Any], scale: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any],
    *, epsilon: float, data_format: bytes, is_training: bool,
) -> Any:  # fmt: skip
    return _norm_grad(back, x, scale, mean, variance, epsilon, data_format, is_training)


@value("FusedBatchNormGradV3")
def _batch_norm_grad_v3(
    back: NDArray[Any], x: NDArray[Any], scale: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any],
    rest: NDArray[Any], *, epsilon: float, data_format: bytes, is_training: bool,
) -> Any:  # fmt: skip
    return _norm_grad(back, x, scale, mean, variance, epsilon, data_format, is_training)


def _norm_grad(
    back: NDArray[Any], x: NDArray[Any], scale: NDArray[Any], mean: NDArray[Any], variance: NDArray[Any],
    epsilon: float, data_format: bytes, is_training: bool,
) -> Any:  # fmt: skip
    if back.shape != x.shape or x.ndim not in (4, 5):
        raise OpError(f"the gradient {list(back.shape)} does not fit the input {list(x.shape)}")
    last, slope = wide(channels_last(x, data_format)), wide(channels_last(back, data_format))
    for what, found in (("scale", scale), ("mean", mean), ("variance", variance)):
        if found.shape != last.shape[-1:]:
            raise OpError(f"the {what} has the shape {list(found.shape)}, but the channels are {last.shape[-1]}")
    others = tuple(range(last.ndim - 1))
    inverse = 1 / numpy.sqrt(variance + variance.dtype.type(epsilon))
    centered = last - mean
    to_offset = slope.sum(others)
    product = (slope * centered).sum(others)
    inner = slope
    if is_training:
        count = max(last.size // max(last.shape[-1], 1), 1)
        inner = slope - to_offset / count - centered * (inverse * inverse * (product / count))
    found = (inner * (scale * inverse)).astype(x.dtype, copy=False)
    empty = numpy.zeros(0, scale.dtype)
    return layout(found, data_format), product * inverse, to_offset, empty, empty


@value("ResizeBilinearGrad")
def _resize_bilinear_grad(
    back: NDArray[Any], images: NDArray[Any], *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    require_rank(back, 4, "the gradient")
    require_rank(images, 4, "the images")
    if len(back) != len(images) or back.shape[3] != images.shape[3]:
        raise OpError(f"the gradient {list(back.shape)} does not fit the images {list(images.shape)}")
    rows, columns = (
        _shares(images.shape[axis], back.shape[axis], align_corners, half_pixel_centers) for axis in (1, 2)
    )
    found = numpy.zeros(images.shape, wide(images).dtype)
    for row, down in rows:
        for column, across in columns:
            part = back * down[:, None, None] * across[:, None]
            _add_at(found, row, column, part.astype(found.dtype, copy=False))
    return found.astype(images.dtype)


def _add_at(found: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], part: NDArray[Any]) -> None:
    """Adds pixels at these rows and columns; some may be the same."""
    place: Any = (slice(None), rows[:, None], columns)
    numpy.add.at(found, place, part)


def _shares(old: int, new: int, align: bool, half: bool) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """The old pixel before and the one after each new pixel, with how much of it is in there."""
    at = resize_places(old, new, align, half)
    floor = numpy.floor(at)
    share = at - floor
    first = numpy.maximum(floor, 0).astype(numpy.int64)
    second = numpy.minimum(numpy.ceil(at), old - 1).astype(numpy.int64)
    return [(first, 1 - share), (second, share)]


@value("ResizeNearestNeighborGrad")
def _resize_nearest_grad(
    back: NDArray[Any], size: NDArray[Any], *, align_corners: bool, half_pixel_centers: bool
) -> Any:
    require_rank(back, 4, "the gradient")
    if size.shape != (2,) or (size <= 0).any():
        raise OpError(f"the size must be two numbers above 0, not {size.tolist()}")
    height, width = (int(one) for one in size)
    rows = near_places(height, back.shape[1], align_corners, half_pixel_centers)
    columns = near_places(width, back.shape[2], align_corners, half_pixel_centers)
    found = numpy.zeros((len(back), height, width, back.shape[3]), wide(back).dtype)
    _add_at(found, rows, columns, wide(back))
    return found.astype(back.dtype, copy=False)


# Of elementwise ops


@value("TanhGrad")
def _tanh_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    _check_real(y)
    return rounded(lambda y, dy: (1 - y * y) * dy, y, dy)


@value("SigmoidGrad")
def _sigmoid_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    _check_real(y)
    return rounded(lambda y, dy: (1 - y) * y * dy, y, dy)


@value("InvGrad ReciprocalGrad")
def _reciprocal_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    return rounded(lambda y, dy: numpy.conj(-y * y) * dy, y, dy)


@value("SqrtGrad")
def _sqrt_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    return rounded(lambda y, dy: dy * y.dtype.type(0.5) / numpy.conj(y), y, dy)


@value("RsqrtGrad")
def _rsqrt_grad(y: NDArray[Any], dy: NDArray[Any]) -> Any:
    _check_same(y, dy)
    return rounded(lambda y, dy: y.dtype.type(-0.5) * dy * numpy.conj(y * y * y), y, dy)


@value("ReluGrad")
def _relu_grad(gradients: NDArray[Any], features: NDArray[Any]) -> Any:
    _check_same(gradients, features)
    return numpy.where(features > 0, gradients, gradients.dtype.type(0))


@value("Relu6Grad")
def _relu6_grad(gradients: NDArray[Any], features: NDArray[Any]) -> Any:
    _check_same(gradients, features)
    inside = (features > 0) & (features < features.dtype.type(6))
    return numpy.where(inside, gradients, gradients.dtype.type(0))


@value("LeakyReluGrad")
def _leaky_relu_grad(gradients: NDArray[Any], features: NDArray[Any], *, alpha: float) -> Any:
    _check_same(gradients, features)
    return numpy.where(features > 0, gradients, gradients * gradients.dtype.type(alpha))


@value("EluGrad")
def _elu_grad(gradients: NDArray[Any], outputs: NDArray[Any]) -> Any:
    _check_same(gradients, outputs)
    return rounded(lambda g, y: numpy.where(y < 0, (y + 1) * g, g), gradients, outputs)


@value("SeluGrad")
def _selu_grad(gradients: NDArray[Any], outputs: NDArray[Any]) -> Any:
    _check_same(gradients, outputs)
    scale, scale_alpha = 1.0507009873554805, 1.7580993408473768

    def selu_grad(g: NDArray[Any], y: NDArray[Any]) -> Any:
        kind = g.dtype.type
        return numpy.where(y < 0, g * (y + kind(scale_alpha)), g * kind(scale))

    return rounded(selu_grad, gradients, outputs)


@value("SoftplusGrad")
def _softplus_grad(gradients: NDArray[Any], features: NDArray[Any]) -> Any:
    _check_same(gradients, features)
    return rounded(lambda g, x: g / (numpy.exp(-x) + 1), gradients, features)


@value("SoftsignGrad")
def _softsign_grad(gradients: NDArray[Any], features: NDArray[Any]) -> Any:
    _check_same(gradients, features)
    return rounded(lambda g, x: g / numpy.square(1 + numpy.abs(x)), gradients, features)


def _check_same(x: NDArray[Any], y: NDArray[Any]) -> None:
    check(x.shape == y.shape, f"shapes {list(x.shape)} and {list(y.shape)} differ")


def _check_real(x: NDArray[Any]) -> None:
    """TensorFlow takes the conjugate of some elements only, depending on how it packs them."""
    check(x.dtype.kind != "c", f"TensorFlow does not agree with itself on this of {x.dtype}")
