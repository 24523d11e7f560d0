"""Convolutions, pools and batch norms. They run channels first; `Builder.last` says so to who comes next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy

from tfsmith.ir.tensor_views import ReshapedTensor
from tfsmith.ir.types import Shape
from tfsmith.onnx.builder import BOOL, INT64, Refusal, Val
from tfsmith.onnx.elementwise import widened
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.onnx.segments import all_true
from tfsmith.ops.sizes import Dims, Known, Size

__all__ = ["from_first", "is_last", "to_first"]

_SINGLE = ("float32",)
_BOUNDED = ("Relu", "Clip", "Sigmoid", "Conv", "BatchNormalization")
"""What gives -inf only where it was given it."""


def is_last(n: NodeContext) -> bool:
    """Whether the channels of a node's images come last.

    Raises:
        Refusal: They are laid out in another way.
    """
    layout = n.text("data_format") or "NHWC"
    if layout not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise Refusal(f"it is not lowered for the layout {layout}")
    return layout.endswith("C")


def to_first(n: NodeContext, x: Val) -> Val:
    """The images with their channels first."""
    return n.b.first(x) if is_last(n) else x


def from_first(n: NodeContext, found: Val, number: int = 0) -> Val:
    """What was computed with the channels first, as the node gives it."""
    known = n.known[number]
    if not is_last(n):
        return found
    dims = known.dims
    if dims is None:
        raise Refusal("the rank of its output is not known before it runs")
    found.known = Known((dims[0], dims[-1], *dims[1:-1]))
    return n.b.last(found, known)


def _spatial(n: NodeContext, values: Sequence[int]) -> list[int]:
    """Of numbers for each axis, those of the places."""
    found = list(values[1:-1]) if is_last(n) else list(values[2:])
    others = (values[0], values[-1] if is_last(n) else values[1])
    if any(one != 1 for one in others):
        raise Refusal("it steps over the batch or the channels")
    return found


def _sizes(n: NodeContext, x: Val) -> list[Size]:
    """The sizes of the places of images."""
    dims = x.dims
    if dims is None:
        raise Refusal("the rank of its input is not known before it runs")
    return list(dims[1:-1] if is_last(n) else dims[2:])


def _channels(n: NodeContext, x: Val) -> Size:
    if x.dims is None:
        raise Refusal("the rank of its input is not known before it runs")
    return x.dims[-1] if is_last(n) else x.dims[1]


def _padding(
    n: NodeContext, sizes: Sequence[Size], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> dict[str, Any]:
    """The attributes that say how images are padded."""
    padding = n.text("padding")
    if padding == "VALID":
        return {"pads": [0] * (2 * len(kernel))}
    if padding == "EXPLICIT":
        pads = n.ints("explicit_paddings")
        pairs = [(pads[at], pads[at + 1]) for at in range(0, len(pads), 2)]
        places = pairs[1:-1] if is_last(n) else pairs[2:]
        return {"pads": [one for one, _ in places] + [other for _, other in places]}
    if padding != "SAME":
        raise Refusal(f"it is not lowered for the padding {padding}")
    before: list[int] = []
    behind: list[int] = []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        reach = (width - 1) * dilation + 1
        if stride == 1:
            total = reach - 1
        elif isinstance(size, int):
            total = max((-(-size // stride) - 1) * stride + reach - size, 0)
        else:
            return {"auto_pad": "SAME_UPPER"}
        before.append(total // 2)
        behind.append(total - total // 2)
    return {"pads": before + behind}


def _kernel(n: NodeContext, weights: Val) -> tuple[int, ...]:
    dims = weights.dims
    if dims is None or any(not isinstance(size, int) for size in dims):
        raise Refusal("the sizes of its kernel are not known before it runs")
    return tuple(size for size in dims if isinstance(size, int))


@lowering("Conv2D Conv3D")
def _conv(n: NodeContext) -> Val:
    b, x, weights = n.b, n.x, n.y
    kernel = _kernel(n, weights)
    count = len(kernel) - 2
    channels = _channels(n, x)
    if not isinstance(channels, int):
        group = 1  # with more groups than one, the runtime refuses what is fed
    elif kernel[-2] == 0 or channels % kernel[-2]:
        raise Refusal("its channels do not fit its kernel")
    else:
        group = channels // kernel[-2]
    return _convolved(n, b.transpose(weights, (count + 1, count, *range(count))), kernel[:count], group)


@lowering("DepthwiseConv2dNative")
def _depthwise(n: NodeContext) -> Val:
    b, weights = n.b, n.y
    height, width, channels, times = _kernel(n, weights)
    flat = (height, width, 1, channels * times)
    if weights.tensor is not None:
        wide = b.weight(ReshapedTensor(weights.tensor, Shape(flat)), weights.name)
    else:
        wide = b.reshape(weights, flat)
    return _convolved(n, b.transpose(wide, (3, 2, 0, 1)), (height, width), channels)


def _convolved(n: NodeContext, weights: Val, kernel: Sequence[int], group: int) -> Val:
    """ONNX' convolution of a node's first input.

    Args:
        n: The node; its attributes say how the kernel moves.
        weights: The kernel, with the channels that it gives first.
        kernel: Its sizes.
        group: In how many groups the channels are kept apart.
    """
    b, x = n.b, n.x
    kind = widened(x.dtype, _SINGLE)
    strides = _spatial(n, n.ints("strides"))
    dilations = _spatial(n, n.ints("dilations") or [1] * (len(kernel) + 2))
    attrs = _padding(n, _sizes(n, x), kernel, strides, dilations)
    found = b.op(
        "Conv",
        b.cast(to_first(n, x), kind),
        b.cast(weights, kind),
        kernel_shape=list(kernel),
        strides=strides,
        dilations=dilations,
        group=group,
        **attrs,
    )
    return from_first(n, b.cast(found, n.dtype))


@lowering("Conv2DBackpropInput Conv3DBackpropInputV2")
def _transposed(n: NodeContext) -> Val:
    b, sizes, weights, x = n.b, *n.inputs[:3]
    kind = widened(x.dtype, _SINGLE)
    kernel = _kernel(n, weights)
    count = len(kernel) - 2
    strides = _spatial(n, n.ints("strides"))
    dilations = _spatial(n, n.ints("dilations") or [1] * (count + 2))
    if n.out.dims is None:
        batch, places = (x.dims or (None,))[0], (None,) * count
        n.known[0] = Known((batch, *places, kernel[-2]) if is_last(n) else (batch, kernel[-2], *places))
    wanted: Dims = sizes.known.values or n.out.dims
    if wanted is None or len(wanted) != count + 2:
        raise Refusal("the sizes of its output are not known before it runs")
    ends = list(wanted[1:-1] if is_last(n) else wanted[2:])
    before: list[int] = []
    behind: list[int] = []
    more: list[int] = []
    for size, out, width, stride, dilation in zip(_sizes(n, x), ends, kernel, strides, dilations, strict=False):
        reach = (width - 1) * dilation + 1
        if not isinstance(size, int) or not isinstance(out, int):
            return _cut_to_size(n, kernel, strides, dilations)
        whole = (size - 1) * stride + reach
        if n.text("padding") == "EXPLICIT":
            raise Refusal("it is not lowered for the padding EXPLICIT")
        total = max(whole - out, 0) if n.text("padding") == "SAME" else 0
        before.append(total // 2)
        behind.append(total - total // 2)
        more.append(out - (whole - total))
    if any(one < 0 for one in more):
        raise Refusal("the sizes of its output do not fit its input")
    channels = kernel[-1]
    given = _channels(n, x)
    if isinstance(given, int) and given != channels:
        raise Refusal("its channels come in groups")
    moved = b.transpose(weights, (count + 1, count, *range(count)))
    if any(one >= stride for one, stride in zip(more, strides, strict=True)):
        raise Refusal("its output has places that its input does not reach")
    found = b.op(
        "ConvTranspose",
        b.cast(to_first(n, x), kind),
        b.cast(moved, kind),
        kernel_shape=list(kernel[:count]),
        strides=strides,
        dilations=dilations,
        pads=before + behind,
        output_padding=more,
    )
    return from_first(n, b.cast(found, n.dtype))


def _cut_to_size(n: NodeContext, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Val:
    """A transposed convolution whose sizes are known only when it runs: all of it, then what is wanted of it."""
    b, sizes, weights, x = n.b, *n.inputs[:3]
    count = len(kernel) - 2
    reaches = [(width - 1) * rate + 1 for width, rate in zip(kernel, dilations, strict=False)]
    if n.text("padding") not in ("SAME", "VALID") or _channels(n, x) != kernel[-1]:
        raise Refusal("it has explicit paddings or groups of channels, and no fixed sizes")
    if any(reach < stride for reach, stride in zip(reaches, strides, strict=True)):
        raise Refusal("its output has places that its input does not reach")
    kind = widened(x.dtype, _SINGLE)
    moved = b.transpose(weights, (count + 1, count, *range(count)))
    found = b.op(
        "ConvTranspose",
        b.cast(to_first(n, x), kind),
        b.cast(moved, kind),
        kernel_shape=list(kernel[:count]),
        strides=list(strides),
        dilations=list(dilations),
    )
    start = 1 if is_last(n) else 2
    wanted = b.op("Slice", b.int64(sizes), b.const([start]), b.const([start + count]), b.const([0]), dims=(count,))
    given = b.op("Slice", b.shape(to_first(n, x)), b.const([2]), b.const([2 + count]), b.const([0]), dims=(count,))
    less = [0] * count if n.text("padding") == "SAME" else [reach - 1 for reach in reaches]
    steps = b.op("Sub", wanted, b.const([one + 1 for one in less]))
    reached = b.op("Add", b.op("Div", steps, b.const(list(strides))), b.const(1))
    wanted = b.asserted(wanted, all_true(b, b.op("Equal", reached, given, dtype=BOOL)))
    before = b.const([0] * count)
    whole = b.op("Slice", b.op("Shape", found, dtype=INT64), b.const([2]), b.const([2 + count]), b.const([0]))
    if n.text("padding") == "SAME":
        before = b.op("Div", b.op("Sub", whole, wanted), b.const(2), dims=(count,))
    else:
        more = b.op("Max", b.op("Sub", wanted, whole), b.const(0), dims=(count,))
        found = b.op("Pad", found, b.concat([b.const([0] * (count + 4)), more], 0), b.const(0, kind))
    ends = b.op("Add", before, wanted)
    found = b.op("Slice", found, before, ends, b.const(list(range(2, 2 + count))))
    batch = b.op("Slice", b.int64(sizes), b.const([0]), b.const([1]), b.const([0]))
    found = b.op("Reshape", found, b.concat([batch, b.const([kernel[-2]]), wanted], 0))  # fails where it is another
    return from_first(n, b.cast(found, n.dtype))


@lowering("MaxPool MaxPoolV2 MaxPool3D AvgPool AvgPool3D")
def _pool(n: NodeContext) -> Val:
    b, x = n.b, n.x
    kind = widened(x.dtype, ("float32", "float64") if n.op.startswith("Max") else _SINGLE)
    if n.op == "MaxPoolV2":
        window, steps = n.y.integers("its window"), n.inputs[2].integers("its strides")
    else:
        window, steps = n.ints("ksize"), n.ints("strides")
    kernel, strides = _spatial(n, window), _spatial(n, steps)
    attrs = _padding(n, _sizes(n, x), kernel, strides, [1] * len(kernel))
    if n.op.startswith("Avg"):
        attrs["count_include_pad"] = 0
    op = "MaxPool" if n.op.startswith("Max") else "AveragePool"
    found = b.op(op, b.cast(to_first(n, x), kind), kernel_shape=kernel, strides=strides, **attrs)
    if op == "MaxPool":
        n.driver.notes["MaxPool: of NaN, runtimes make other numbers than TensorFlow"] = None
        found = _at_least(n, found)
    return from_first(n, b.cast(found, n.dtype))


def _at_least(n: NodeContext, found: Val) -> Val:
    """The greatest of windows, which TensorFlow starts at the least number that there is, and not at -inf."""
    maker = n.x.main_value()
    maker = None if maker is None else maker.producer()
    if (maker is not None and maker.op_type in _BOUNDED) or n.x.dtype.name not in ("float32", "float64"):
        return found
    least = float(numpy.finfo(n.x.dtype.numpy()).min)
    return n.b.op("Max", found, n.b.const(least, found.dtype))


@lowering("MaxPoolWithArgmax")
def _pool_with_places(n: NodeContext) -> list[Val]:
    """ONNX counts places channel by channel, TensorFlow pixel by pixel."""
    b, x = n.b, n.x
    n.allow("float32")
    kernel, strides = n.ints("ksize")[1:3], n.ints("strides")[1:3]
    height, width, depth = (b.size(x, at) for at in (1, 2, 3))
    attrs = _padding(n, list((x.dims or ())[1:3]), kernel, strides, [1, 1])
    found, places = b.ops(
        "MaxPool", b.first(x), dtypes=(x.dtype, INT64), kernel_shape=kernel, strides=strides, **attrs
    )  # fmt: skip
    area = b.op("Mul", height, width)
    pixel = b.op("Mod", places, area)
    channel = b.op("Mod", b.op("Div", places, area), depth)
    if n.attr("include_batch_in_index"):
        image = b.op("Div", places, b.op("Mul", area, depth))
        pixel = b.op("Add", pixel, b.op("Mul", image, area))
    moved = b.op("Add", b.op("Mul", pixel, depth), channel)
    n.driver.notes["MaxPool: of NaN, runtimes make other numbers than TensorFlow"] = None
    return [from_first(n, _at_least(n, found)), b.narrow(from_first(n, moved, 1), n.dtypes[1] or INT64)]


@lowering("BatchNormWithGlobalNormalization")
def _old_batch_norm(n: NodeContext) -> Val:
    b, x, mean, variance, offset, scale = n.b, *n.inputs
    kind = widened(x.dtype, _SINGLE)
    if not n.attr("scale_after_normalization"):
        scale = b.op("Expand", b.const(1, kind), b.shape(mean), dims=mean.dims)
    given = (b.cast(one, kind) for one in (scale, offset, mean, variance))
    epsilon = float(n.attr("variance_epsilon"))
    found = b.op("BatchNormalization", b.cast(b.first(x), kind), *given, epsilon=epsilon)
    return from_first(n, b.cast(found, n.dtype))


@lowering("FusedBatchNorm FusedBatchNormV2 FusedBatchNormV3")
def _batch_norm(n: NodeContext) -> list[Val | None]:
    b, x, scale, offset, mean, variance = n.b, *n.inputs[:5]
    if n.attr("is_training"):
        raise Refusal("it is in training, where it takes the mean of the batch; export the model for inference")
    kind = widened(x.dtype, _SINGLE)
    found = b.op(
        "BatchNormalization",
        b.cast(to_first(n, x), kind),
        *(b.cast(one, kind) for one in (scale, offset, mean, variance)),
        epsilon=float(n.attr("epsilon")),
    )
    count = len(n.dtypes)
    return [from_first(n, b.cast(found, n.dtype)), mean, variance, mean, variance, None][:count]


@lowering("LRN")
def _lrn(n: NodeContext) -> Val:
    b = n.b
    kind = widened(n.x.dtype, _SINGLE)
    size = 2 * int(n.attr("depth_radius")) + 1
    found = b.op(
        "LRN",
        b.cast(b.first(n.x), kind),
        size=size,
        alpha=float(n.attr("alpha")) * size,
        beta=float(n.attr("beta")),
        bias=float(n.attr("bias")),
    )
    found = b.cast(found, n.dtype)
    dims = n.out.dims or (None,) * 4
    found.known = Known((dims[0], dims[3], dims[1], dims[2]))
    return b.last(found, n.out)
