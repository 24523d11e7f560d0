"""Values of convolutions: products of a matrix of windows with the filter, in BLAS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.nn import activation, add_bias, normalized
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

__all__ = ["convolve", "mirrored"]

_BLOCK = 1 << 22
"""How many elements the matrix of windows may have at once; more are made in blocks."""
_ROWS = 1 << 16
"""How many elements of a sum that is made term by term are in work at once: they stay in the processor's cache."""


def convolve(
    x: NDArray[Any],
    kernel: NDArray[Any],
    strides: Sequence[int],
    rates: Sequence[int],
    padding: bytes,
    explicit: Sequence[int] = (),
) -> Any:
    """The convolution of a tensor (batch, space, channels) with a filter (space, channels of a group, outputs).

    Args:
        x: The input.
        kernel: The filter.
        strides: The steps along the spatial axes.
        rates: The dilations along the spatial axes.
        padding: SAME, VALID or EXPLICIT.
        explicit: Two paddings for each spatial axis.

    Raises:
        OpError: The shapes do not fit together.
    """
    depth, part, outputs = x.shape[-1], *kernel.shape[-2:]
    if not part or depth % part or not depth:
        raise OpError(f"the input has {depth} channels, but the filter takes {part}")
    groups = depth // part
    if outputs % groups:
        raise OpError(f"the filter's {outputs} outputs cannot be divided into {groups} groups")
    where = axes(x.shape[1:-1], kernel.shape[:-2], strides, rates, padding, explicit)
    shape = (len(x), *(axis.out for axis in where), outputs)
    if 0 in shape:
        return numpy.zeros(shape, x.dtype)
    padded, wider = pad(wide(x), where, 0), wide(kernel)
    share = outputs // groups
    if groups == 1:
        return _product(padded, wider, where).reshape(shape).astype(x.dtype, copy=False)
    found = [
        _product(padded[..., one * part : (one + 1) * part], wider[..., one * share : (one + 1) * share], where)
        for one in range(groups)
    ]
    return numpy.concatenate(found, -1).reshape(shape).astype(x.dtype, copy=False)


def _product(padded: NDArray[Any], kernel: NDArray[Any], where: Sequence[Axis]) -> Any:
    """One row for each place of the window, one column for each output."""
    if all(axis.kernel == 1 for axis in where):
        return padded[taken(where, [0] * len(where))].reshape(-1, padded.shape[-1]) @ kernel.reshape(kernel.shape[-2:])
    windows = patches(padded, where)
    matrix = kernel.reshape(-1, kernel.shape[-1])
    rows = windows.size // len(matrix)
    if windows.size <= _BLOCK:
        return windows.reshape(rows, -1) @ matrix
    found = numpy.empty((*windows.shape[: 1 + len(where)], kernel.shape[-1]), padded.dtype)
    inner = windows[0, 0].size
    step = max(_BLOCK // inner, 1)
    for one, item in enumerate(windows):
        for start in range(0, len(item), step):
            part = item[start : start + step]
            numpy.matmul(
                part.reshape(-1, len(matrix)),
                matrix,
                out=found[one, start : start + step].reshape(-1, kernel.shape[-1]),
            )
    return found.reshape(rows, -1)


def _convolution(
    x: NDArray[Any], kernel: NDArray[Any], rank: int, strides: Sequence[int], padding: bytes,
    explicit_paddings: Sequence[int], data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    require_rank(x, rank, "the input")
    require_rank(kernel, rank, "the filter")
    y = convolve(
        channels_last(x, data_format),
        kernel,
        spatial(strides, rank, data_format, "strides"),
        spatial(dilations, rank, data_format, "dilations"),
        padding,
        explicit_of(explicit_paddings, rank, data_format, padding),
    )
    return layout(y, data_format)


@value("Conv2D")
def _conv2d(
    x: NDArray[Any], kernel: NDArray[Any], *, strides: Sequence[int], padding: bytes, explicit_paddings: Sequence[int],
    data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    return _convolution(x, kernel, 4, strides, padding, explicit_paddings, data_format, dilations)


@value("Conv3D")
def _conv3d(
    x: NDArray[Any], kernel: NDArray[Any], *, strides: Sequence[int], padding: bytes, data_format: bytes,
    dilations: Sequence[int],
) -> Any:  # fmt: skip
    return _convolution(x, kernel, 5, strides, padding, (), data_format, dilations)


@value("Conv")
def _conv(
    x: NDArray[Any], kernel: NDArray[Any], *, strides: Sequence[int], padding: bytes, explicit_paddings: Sequence[int],
    data_format: bytes, dilations: Sequence[int], batch_dims: int, groups: int,
) -> Any:  # fmt: skip
    rank = kernel.ndim
    if rank not in (4, 5):
        raise OpError(f"the filter must have 4 or 5 axes, not the shape {list(kernel.shape)}")
    if batch_dims < 1 or groups != 1 or x.ndim != rank - 1 + batch_dims:
        raise OpError(
            f"an input of shape {list(x.shape)} with {batch_dims} batch axes and {groups} groups is not known"
        )
    batch = x.shape[:batch_dims]
    y = _convolution(
        x.reshape(-1, *x.shape[batch_dims:]), kernel, rank, strides, padding, explicit_paddings, data_format,
        dilations or (1,) * rank,
    )  # fmt: skip
    return y.reshape(*batch, *y.shape[1:])


@value("DepthwiseConv2dNative")
def _depthwise(
    x: NDArray[Any], kernel: NDArray[Any], *, strides: Sequence[int], padding: bytes, explicit_paddings: Sequence[int],
    data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    require_rank(kernel, 4, "the filter")
    last = channels_last(x, data_format)
    depth, times = kernel.shape[2:]
    if depth != last.shape[-1]:
        raise OpError(f"the input has {last.shape[-1]} channels, but the filter takes {depth}")
    where = axes(
        last.shape[1:3], kernel.shape[:2], spatial(strides, 4, data_format, "strides"),
        spatial(dilations, 4, data_format, "dilations"), padding,
        explicit_of(explicit_paddings, 4, data_format, padding),
    )  # fmt: skip
    if where[0].stride != where[1].stride:
        raise OpError("the strides of rows and columns must be equal")
    padded, wider = pad(wide(last), where, 0), wide(kernel)
    shape = (len(x), where[0].out, where[1].out, depth, times)
    total = numpy.zeros(shape, padded.dtype)
    views = [(padded[taken(where, position)][..., None], wider[position]) for position in positions(where)]
    step = max(_ROWS // max(where[1].out * depth * times, 1), 1)
    for one in range(len(x)):
        for start in range(0, where[0].out, step):
            part = total[one, start : start + step]
            product = numpy.empty_like(part)
            for view, weight in views:
                numpy.multiply(view[one, start : start + step], weight, out=product)
                part += product
    return layout(total.reshape(*shape[:3], depth * times).astype(x.dtype, copy=False), data_format)


def _transposed(
    sizes: NDArray[Any], kernel: NDArray[Any], back: NDArray[Any], rank: int, strides: Sequence[int], padding: bytes,
    explicit_paddings: Sequence[int], data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    require_rank(kernel, rank, "the filter")
    require_rank(back, rank, "the gradient")
    back = channels_last(back, data_format)
    part, outputs = kernel.shape[-2:]
    shape = [int(one) for one in sizes]
    if len(shape) == rank - 2:
        shape = [len(back), part, *shape] if is_first(data_format) else [len(back), *shape, part]
    if len(shape) != rank or min(shape) < 0:
        raise OpError(f"the sizes of the input must be {rank} numbers, not {shape}")
    if is_first(data_format):
        shape = [shape[0], *shape[2:], shape[1]]
    if shape[0] != len(back):
        raise OpError(f"the batch is {shape[0]} in the sizes, but {len(back)} in the gradient")
    if back.shape[-1] != outputs or not part or shape[-1] % part:
        raise OpError(f"the filter {list(kernel.shape)} does not fit {shape[-1]} and {back.shape[-1]} channels")
    groups = shape[-1] // part
    where = axes(
        shape[1:-1], kernel.shape[:-2], spatial(strides, rank, data_format, "strides"),
        spatial(dilations, rank, data_format, "dilations"), padding,
        explicit_of(explicit_paddings, rank, data_format, padding),
    )  # fmt: skip
    if [axis.out for axis in where] != list(back.shape[1:-1]):
        raise OpError(f"the gradient is {list(back.shape[1:-1])} large, but {[axis.out for axis in where]} is needed")
    flat, matrix = wide(back).reshape(-1, outputs), wide(kernel).reshape(-1, outputs)
    places = (*back.shape[:-1], *kernel.shape[:-2], part)
    share = outputs // groups if groups else 0
    parts = [
        scatter(
            (flat[:, one * share : (one + 1) * share] @ matrix[:, one * share : (one + 1) * share].T).reshape(places),
            shape[1:-1],
            where,
        )
        for one in range(groups)
    ]
    if not parts:
        return layout(numpy.zeros(shape, back.dtype), data_format)
    y = parts[0] if groups == 1 else numpy.concatenate(parts, -1)
    return layout(y.astype(back.dtype, copy=False), data_format)


@value("Conv2DBackpropInput")
def _conv2d_transposed(
    sizes: NDArray[Any], kernel: NDArray[Any], back: NDArray[Any], *, strides: Sequence[int], padding: bytes,
    explicit_paddings: Sequence[int], data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    return _transposed(sizes, kernel, back, 4, strides, padding, explicit_paddings, data_format, dilations)


@value("Conv3DBackpropInputV2")
def _conv3d_transposed(
    sizes: NDArray[Any], kernel: NDArray[Any], back: NDArray[Any], *, strides: Sequence[int], padding: bytes,
    data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    return _transposed(sizes, kernel, back, 5, strides, padding, (), data_format, dilations)


@value("DepthwiseConv2dNativeBackpropInput")
def _depthwise_transposed(
    sizes: NDArray[Any], kernel: NDArray[Any], back: NDArray[Any], *, strides: Sequence[int], padding: bytes,
    explicit_paddings: Sequence[int], data_format: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    require_rank(kernel, 4, "the filter")
    require_rank(back, 4, "the gradient")
    back = channels_last(back, data_format)
    shape = [int(one) for one in sizes]
    if len(shape) != 4:
        raise OpError(f"the sizes of the input must be 4 numbers, not {shape}")
    if is_first(data_format):
        shape = [shape[0], *shape[2:], shape[1]]
    depth, times = kernel.shape[2:]
    if shape[0] != len(back) or shape[3] != depth or back.shape[3] != depth * times:
        raise OpError(f"sizes {shape}, filter {list(kernel.shape)} and gradient {list(back.shape)} do not fit together")
    where = axes(
        shape[1:3], kernel.shape[:2], spatial(strides, 4, data_format, "strides"),
        spatial(dilations, 4, data_format, "dilations"), padding,
        explicit_of(explicit_paddings, 4, data_format, padding),
    )  # fmt: skip
    if [axis.out for axis in where] != list(back.shape[1:3]):
        raise OpError(f"the gradient is {list(back.shape[1:3])} large, but {[axis.out for axis in where]} is needed")
    columns = numpy.einsum("bijct,klct->bijklc", wide(back).reshape(*back.shape[:3], depth, times), wide(kernel))
    return layout(scatter(columns, shape[1:3], where).astype(back.dtype, copy=False), data_format)


@value("Dilation2D")
def _dilation(
    x: NDArray[Any], kernel: NDArray[Any], *, strides: Sequence[int], rates: Sequence[int], padding: bytes
) -> Any:
    require_rank(x, 4, "the input")
    require_rank(kernel, 3, "the filter")
    if kernel.shape[2] != x.shape[3]:
        raise OpError(f"the input has {x.shape[3]} channels, but the filter {kernel.shape[2]}")
    where = axes(x.shape[1:3], kernel.shape[:2], spatial(strides, 4, b"NHWC", "strides"),
                 spatial(rates, 4, b"NHWC", "rates"), padding)  # fmt: skip
    inside = pad(numpy.ones(x.shape[:3], bool), where, False)
    padded = pad(x, where, 0)
    total = numpy.full((len(x), where[0].out, where[1].out, x.shape[3]), lowest(x.dtype), x.dtype)
    for position in positions(where):
        place = taken(where, position)
        found = padded[place] + kernel[position]
        numpy.copyto(total, found, where=inside[place][..., None] & (found > total))
    return total


def mirrored(
    x: NDArray[Any], paddings: NDArray[Any], mode: bytes, kernel: NDArray[Any], strides: Sequence[int], padding: bytes
) -> Any:
    """The convolution of an input that is mirrored at its edges first.

    Raises:
        OpError: The paddings or the shapes do not fit.
    """
    if paddings.shape != (x.ndim, 2) or (paddings < 0).any():
        raise OpError(f"the paddings must be {x.ndim} pairs that are not negative")
    edge = 1 if mode == b"REFLECT" else 0
    if (paddings > numpy.array(x.shape)[:, None] - edge).any():
        raise OpError(f"the paddings {paddings.tolist()} are larger than the input {list(x.shape)}")
    padded = numpy.pad(x, paddings, "reflect" if edge else "symmetric")
    return _convolution(padded, kernel, 4, strides, padding, (), b"NHWC", (1, 1, 1, 1))


@value("FusedPadConv2D")
def _pad_conv(
    x: NDArray[Any], paddings: NDArray[Any], kernel: NDArray[Any], *, mode: bytes, strides: Sequence[int],
    padding: bytes,
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    return mirrored(x, paddings, mode, kernel, strides, padding)


def _fused(
    y: NDArray[Any], args: Sequence[NDArray[Any]], fused_ops: Sequence[bytes], epsilon: float, alpha: float,
    data_format: bytes = b"NHWC",
) -> Any:  # fmt: skip
    """What the fused ops make of a product: a bias or a batch norm first, then perhaps a sum, then an activation."""
    rest = list(args)
    for name in fused_ops:
        if name == b"BiasAdd":
            y = add_bias(y, rest.pop(0), data_format=data_format)
        elif name == b"FusedBatchNorm":
            scale, offset, mean, variance, *rest = rest
            y = layout(normalized(channels_last(y, data_format), mean, variance, scale, offset, epsilon), data_format)
        elif name in (b"Add", b"AddV2"):
            y = y + rest.pop(0)
        else:
            y = activation(y, name, alpha=alpha)
    return y


@value("_FusedConv2D")
def _fused_conv(
    x: NDArray[Any], kernel: NDArray[Any], args: tuple[NDArray[Any], ...], host: tuple[NDArray[Any], ...],
    *, strides: Sequence[int], padding: bytes, explicit_paddings: Sequence[int], data_format: bytes,
    filter_format: bytes, dilations: Sequence[int], fused_ops: Sequence[bytes], epsilon: float, leakyrelu_alpha: float,
) -> Any:  # fmt: skip
    if filter_format != b"HWIO" or host:
        raise OpError("a filter that is not HWIO is for graphics processors only")
    y = _convolution(x, kernel, 4, strides, padding, explicit_paddings, data_format, dilations)
    return _fused(y, args, fused_ops, epsilon, leakyrelu_alpha, data_format)


@value("_FusedMatMul")
def _fused_matmul(
    a: NDArray[Any], b: NDArray[Any], args: tuple[NDArray[Any], ...], *, transpose_a: bool, transpose_b: bool,
    fused_ops: Sequence[bytes], epsilon: float, leakyrelu_alpha: float,
) -> Any:  # fmt: skip
    require_rank(a, 2, "a")
    require_rank(b, 2, "b")
    left, right = wide(a.T if transpose_a else a), wide(b.T if transpose_b else b)
    if left.shape[1] != right.shape[0]:
        raise OpError(f"matrices {list(left.shape)} and {list(right.shape)} cannot be multiplied")
    return _fused((left @ right).astype(a.dtype, copy=False), args, fused_ops, epsilon, leakyrelu_alpha)
