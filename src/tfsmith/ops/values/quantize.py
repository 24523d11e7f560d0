"""Values of quantization: to integers and back, and the ops that compute with quantized numbers.

A quantized type is a plain integer here; what its numbers mean lies in the range (the least and the greatest number)
that goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.errors import UnsupportedError
from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.convolution import convolve
from tfsmith.ops.values.pooling import largest, windows_of
from tfsmith.ops.values.windows import limits, pad, positions, require_rank, taken

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_F = numpy.float32


def _away(x: Any) -> Any:
    """Rounded as C does: halves go away from zero."""
    return numpy.trunc(x + numpy.copysign(x.dtype.type(0.5), x))


def _scalar(x: NDArray[Any], what: str) -> Any:
    if x.size != 1:
        raise OpError(f"{what} must be one number, not the shape {list(x.shape)}")
    return x.reshape(())[()]


def _along(x: NDArray[Any], axis: int, rank: int) -> NDArray[Any]:
    """A vector of numbers for each slice, in a shape that spreads over them."""
    return x.reshape((-1,) + (1,) * (rank - 1 - axis))


def _ranges(
    low: NDArray[Any], high: NDArray[Any], shape: Sequence[int], axis: int
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The ranges of a tensor or of each of its slices, in shapes that spread over it."""
    if axis == -1:
        return numpy.asarray(_scalar(low, "the least number")), numpy.asarray(_scalar(high, "the greatest number"))
    if not 0 <= axis < len(shape):
        raise OpError(f"there is no axis {axis} in the shape {list(shape)}")
    if low.shape != (shape[axis],) or high.shape != (shape[axis],):
        raise OpError(f"axis {axis} has {shape[axis]} slices, but there are {low.size} and {high.size} ranges")
    return _along(low, axis, len(shape)), _along(high, axis, len(shape))


@value("FakeQuantWithMinMaxArgs")
def _fake_args(x: NDArray[Any], *, min: float, max: float, num_bits: int, narrow_range: bool) -> Any:
    if min >= max:
        raise OpError(f"the least number {min} must be below the greatest {max}")
    return _fake(x, _F(min), _F(max), num_bits, narrow_range)


@value("FakeQuantWithMinMaxVars")
def _fake_vars(x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, num_bits: int, narrow_range: bool) -> Any:
    if low.ndim or high.ndim:
        raise OpError("the range must be two scalars")
    return _fake(x, low, high, num_bits, narrow_range)


@value("FakeQuantWithMinMaxVarsPerChannel")
def _fake_channels(x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, num_bits: int, narrow_range: bool) -> Any:
    if not x.ndim or low.shape != x.shape[-1:] or high.shape != x.shape[-1:]:
        raise OpError(f"ranges {list(low.shape)} and {list(high.shape)} do not fit the channels of {list(x.shape)}")
    return _fake(x, low, high, num_bits, narrow_range)


def _fake(x: NDArray[Any], low: Any, high: Any, bits: int, narrow: bool) -> Any:
    """The nearest numbers that integers of so many bits can say; zero is among them."""
    if not 2 <= bits <= 16:
        raise OpError(f"the bits must be in [2, 16], not {bits}")
    least, most = _F(1 if narrow else 0), _F((1 << bits) - 1)
    scale = (high - low) / (most - least)
    zero = least - low / scale
    zero = numpy.where(zero < least, least, numpy.where(zero > most, most, _away(numpy.asarray(zero))))
    bottom, top = (least - zero) * scale, (most - zero) * scale
    inverse = _F(1) / scale
    offset = numpy.floor(-bottom * inverse + _F(0.5))
    found = numpy.floor((numpy.minimum(numpy.maximum(x, bottom), top) - bottom) * inverse - offset + _F(0.5)) * scale
    return numpy.where((low == 0) & (high == 0), _F(0), found).astype(_F)


@value("QuantizeV2")
def _quantize(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, T: DType, mode: bytes, round_mode: bytes,
    narrow_range: bool, axis: int, ensure_minimum_range: float,
) -> Any:  # fmt: skip
    if round_mode == b"HALF_TO_EVEN" and mode != b"SCALED":
        raise OpError("halves are rounded to even in the mode SCALED only")
    low, high = _ranges(low, high, x.shape, axis)
    if (low > high).any():
        raise OpError("the least number is above the greatest")
    span = numpy.maximum(_F(1), numpy.maximum(numpy.abs(low), numpy.abs(high))) * _F(ensure_minimum_range)
    bottom = numpy.minimum(_F(0), low)
    top = numpy.maximum(_F(0), numpy.maximum(high, bottom + span))
    kind = T.numpy()
    least, most = float(limits(kind).min), float(limits(kind).max)
    if mode == b"SCALED":
        least += narrow_range
        scale = numpy.minimum(_side(_F(least), bottom), _side(_F(most), top))
        bottom, top = _F(least) / scale, _F(most) / scale
        inner = numpy.maximum(numpy.minimum(x, top), bottom) * scale
        found = numpy.rint(inner) if round_mode == b"HALF_TO_EVEN" else _away(inner)
    elif mode == b"MIN_FIRST":
        found = _to_steps(x, bottom, top, kind)
    else:
        scale = ((most - least) / (top - bottom)).astype(_F)
        inner = (numpy.maximum(numpy.minimum(x, top), bottom) - bottom) * scale
        found = _away(inner - _F((most - least + 1) / 2)) if least < 0 else numpy.trunc(inner + _F(0.5))
    return (
        _whole(found, kind),
        bottom.astype(_F).reshape(low.shape if axis == -1 else -1),
        top.astype(_F).reshape(low.shape if axis == -1 else -1),
    )


def _side(limit: Any, number: NDArray[Any]) -> Any:
    return numpy.where(limit * number > 0, limit / number, _F(numpy.finfo(_F).max))


def _whole(x: NDArray[Any], kind: Any) -> Any:
    """Floating numbers as integers; what is too large for them becomes their limit."""
    info = limits(kind)
    return numpy.clip(x.astype(numpy.float64), info.min, info.max).astype(kind)


def _to_steps(x: NDArray[Any], low: Any, high: Any, kind: Any) -> Any:
    """Numbers as steps from the least one; not yet integers."""
    info = limits(kind)
    steps = 2.0 ** (8 * kind.itemsize) - 1
    span = numpy.asarray(high - low)
    scale = numpy.where(span == 0, 0.0, steps / numpy.where(span == 0, 1, span).astype(numpy.float64)).astype(_F)
    start = _away(numpy.asarray(low * scale))
    found = _away(x * scale) - (start - _F(info.min))
    return numpy.clip(found, max(_F(info.min), _F(-2147483648.0)), min(_F(info.max), _F(2147483520.0)))


def _from_steps(x: NDArray[Any], low: Any, high: Any, start_type: Any = _F) -> Any:
    """The numbers that steps from the least one mean; TensorFlow has the least one in one of two types."""
    scale = numpy.asarray(high - low, numpy.float64) / (2.0 ** (8 * x.dtype.itemsize) - 1)
    short = scale.astype(start_type)
    start = numpy.where(low == high, low, _away(numpy.asarray(low / short)) * short).astype(numpy.float64)
    return (start + (x.astype(numpy.float64) - limits(x.dtype).min) * scale).astype(_F)


@value("Dequantize")
def _dequantize(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, mode: bytes, narrow_range: bool, axis: int,
    dtype: DType,
) -> Any:  # fmt: skip
    if dtype.name == "bfloat16" and mode != b"MIN_COMBINED":
        raise OpError("bfloat16 is for the mode MIN_COMBINED only")
    low, high = _ranges(low, high, x.shape, axis)
    info = limits(x.dtype)
    least, most = float(info.min), float(info.max)
    if mode == b"MIN_COMBINED":
        scale = ((high - low) / (most - least)).astype(_F)
        half = _F((most - least + 1) / 2 if least < 0 else 0)
        found = (x.astype(_F) + half) * scale + low
    elif mode == b"MIN_FIRST":
        found = _from_steps(x, low, high, numpy.float64)
    else:
        from_top = high / _F(most)
        scale = from_top if not least else numpy.maximum(low / _F(least + narrow_range), from_top)
        found = x.astype(_F) * scale
    return found.astype(dtype.numpy())


@value("QuantizeAndDequantizeV2 QuantizeAndDequantizeV4")
def _there_and_back(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, signed_input: bool, num_bits: int, range_given: bool,
    round_mode: bytes, narrow_range: bool, axis: int,
) -> Any:  # fmt: skip
    if not 0 < num_bits < (62 if signed_input else 63):
        raise OpError(f"{num_bits} bits are impossible")
    if range_given and (low.ndim or high.ndim):
        raise OpError("the range must be two scalars")
    return _there(x, low, high, signed_input, num_bits, range_given, round_mode, narrow_range, axis)


@value("QuantizeAndDequantizeV3")
def _there_and_back_v3(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], num_bits: NDArray[Any], *, signed_input: bool,
    range_given: bool, narrow_range: bool, axis: int,
) -> Any:  # fmt: skip
    bits = int(_scalar(num_bits, "the number of bits"))
    if not 0 < bits < (62 if signed_input else 63):
        raise OpError(f"{bits} bits are impossible")
    return _there(x, low, high, signed_input, bits, range_given, b"HALF_TO_EVEN", narrow_range, axis)


def _there(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], signed: bool, bits: int, given: bool, round_mode: bytes,
    narrow: bool, axis: int,
) -> Any:  # fmt: skip
    kind = x.dtype.type
    if axis != -1 and not 0 <= axis < x.ndim:
        raise OpError(f"there is no axis {axis} in the shape {list(x.shape)}")
    if given:
        low, high = _ranges(low, high, x.shape, axis)
        if (low > high).any():
            raise OpError("the least number is above the greatest")
    elif not x.size:
        return x
    else:
        others = None if axis == -1 else tuple(number for number in range(x.ndim) if number != axis)
        low, high = x.min(others, keepdims=True), x.max(others, keepdims=True)
    least = kind((-(1 << (bits - 1)) + narrow) if signed else 0)
    most = kind((1 << (bits - 1)) - 1 if signed else (1 << bits) - 1)
    huge = kind(limits(x.dtype).max)
    from_low = numpy.where(least * low > 0, least / low, huge)
    from_high = numpy.where(most * high > 0, most / high, huge)
    by_low = from_low < from_high
    scale = numpy.where(by_low, from_low, from_high)
    with numpy.errstate(all="ignore"):
        inverse = numpy.where(by_low, low / least, high / most)
    bottom, top = numpy.where(by_low, low, least * inverse), numpy.where(by_low, most * inverse, high)
    inner = (numpy.minimum(numpy.maximum(x, bottom), top) if given else x) * scale
    found = numpy.rint(inner) if round_mode == b"HALF_TO_EVEN" else numpy.floor(inner + kind(0.5))
    return (found * inverse).astype(x.dtype, copy=False)


@value("RequantizationRange")
def _requantization_range(x: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Any:
    if low.size < 1 or high.size < 1:
        raise OpError("the range must be two numbers")
    if not x.size:
        raise OpError("there are no numbers to take the range of")
    ends = numpy.array([x.min(), x.max()], x.dtype)
    bottom, top = _from_steps(ends, _scalar(low, "the least number"), _scalar(high, "the greatest number"))
    return numpy.minimum(bottom, _F(0)), top


@value("RequantizationRangePerChannel")
def _requantization_range_of_channels(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, clip_value_max: float
) -> Any:
    if x.ndim != 4 or low.shape != (x.shape[-1],) or high.shape != low.shape:
        raise OpError(f"shapes {list(x.shape)}, {list(low.shape)} and {list(high.shape)} are not of channels")
    if not x.size:
        raise OpError("there are no numbers to take the range of")
    ends = x.reshape(-1, x.shape[-1]).astype(numpy.int64)
    largest = numpy.abs(ends).max(0).astype(_F)
    scale = numpy.maximum(numpy.abs(low), numpy.abs(high))
    top = _F(min(float((scale * largest / _F(1 << 31)).max()), clip_value_max))
    return numpy.asarray(_F(0) if (ends >= 0).all() else -top), numpy.asarray(top)


@value("Requantize")
def _requantize(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], new_low: NDArray[Any], new_high: NDArray[Any],
    *, out_type: DType,
) -> Any:  # fmt: skip
    bottom, top = _scalar(new_low, "the least number"), _scalar(new_high, "the greatest number")
    if bottom > 0 or bottom >= top:
        raise OpError(f"the range must go from at most 0 upward, not from {bottom} to {top}")
    old_bottom, old_top = _scalar(low, "the least number"), _scalar(high, "the greatest number")
    if out_type.name == "quint8":
        found = _moved(x, old_bottom, old_top, bottom, top)
    else:
        found = _whole(_to_steps(_from_steps(x, old_bottom, old_top), bottom, top, out_type.numpy()), out_type.numpy())
    return found, numpy.asarray(bottom), numpy.asarray(top)


def _moved(x: NDArray[Any], low: Any, high: Any, new_low: Any, new_high: Any) -> Any:
    """Integers of 32 bits in a range as bytes in another, by fixed-point numbers with 16 bits after the point."""
    one = 1 << 16
    span, new_span = _F(high - low), _F(new_high - new_low)
    middle = _F((low + high) / _F(2))
    scale = int(255.0 * one * float(span) / float(new_span))
    offset = int(float(middle * _F(255.0 / float(new_span)) * _F(one)))
    start = int(one * (float(new_low) * 255.0) / float(new_span))
    found = (((x.astype(numpy.int64) * scale) >> 32) + offset - start + one // 2) >> 16
    return numpy.clip(found, 0, 255).astype(numpy.uint8)


@value("QuantizeDownAndShrinkRange")
def _shrink(x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, out_type: DType) -> Any:
    bottom, top = _requantization_range(x, low, high)
    return _requantize(x, low, high, numpy.asarray(bottom), numpy.asarray(top), out_type=out_type)


def _place(number: float, low: NDArray[Any], high: NDArray[Any], kind: Any) -> int:
    """The integer that means a number; it may lie outside of its type."""
    low, high = _scalar(low, "the least number"), _scalar(high, "the greatest number")
    if low == high:
        return 0
    scale = (2.0 ** (8 * kind.itemsize) - 1) / float(high - low)
    steps = _away(numpy.float64(number * scale)) - _away(numpy.float64(float(low) * scale))
    return int(steps) + int(limits(kind).min)


def _zero(low: NDArray[Any], high: NDArray[Any], kind: Any) -> int:
    return _place(0, low, high, kind)


def _step(low: NDArray[Any], high: NDArray[Any], kind: Any) -> Any:
    """What one step of a quantized number means."""
    low, high = _scalar(low, "the least number"), _scalar(high, "the greatest number")
    return _F(float(high - low) / (2.0 ** (8 * kind.itemsize) - 1))


def _product_range(
    low_a: NDArray[Any], high_a: NDArray[Any], a: Any, low_b: NDArray[Any], high_b: NDArray[Any], b: Any
) -> tuple[Any, Any]:
    step = _step(low_a, high_a, a) * _step(low_b, high_b, b)
    return numpy.asarray(step * _F(-2147483648)), numpy.asarray(step * _F(2147483647))


@value("QuantizedConv2D")
def _quantized_conv(
    x: NDArray[Any], kernel: NDArray[Any], low: NDArray[Any], high: NDArray[Any], low_kernel: NDArray[Any],
    high_kernel: NDArray[Any], *, strides: Sequence[int], padding: bytes, dilations: Sequence[int],
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    require_rank(kernel, 4, "the filter")
    if tuple(dilations) != (1, 1, 1, 1) or strides[0] != 1 or strides[3] != 1 or strides[1] != strides[2]:
        raise OpError(f"strides {list(strides)} and dilations {list(dilations)} are not known")
    left = x.astype(numpy.float64) - _zero(low, high, x.dtype)  # exact, and there is BLAS for it
    right = kernel.astype(numpy.float64) - _zero(low_kernel, high_kernel, kernel.dtype)
    found = convolve(left, right, strides[1:3], dilations[1:3], padding)
    return found.astype(numpy.int32), *_product_range(low, high, x.dtype, low_kernel, high_kernel, kernel.dtype)


@value("QuantizedMatMul")
def _quantized_matmul(
    a: NDArray[Any], b: NDArray[Any], low_a: NDArray[Any], high_a: NDArray[Any], low_b: NDArray[Any],
    high_b: NDArray[Any], *, transpose_a: bool, transpose_b: bool,
) -> Any:  # fmt: skip
    require_rank(a, 2, "a")
    require_rank(b, 2, "b")
    left = (a.T if transpose_a else a).astype(numpy.float64) - _zero(low_a, high_a, a.dtype)
    right = (b.T if transpose_b else b).astype(numpy.float64) - _zero(low_b, high_b, b.dtype)
    if left.shape[1] != right.shape[0]:
        raise OpError(f"matrices {list(left.shape)} and {list(right.shape)} cannot be multiplied")
    return (left @ right).astype(numpy.int32), *_product_range(low_a, high_a, a.dtype, low_b, high_b, b.dtype)


@value("QuantizedMul")
def _quantized_mul(
    x: NDArray[Any], y: NDArray[Any], low_x: NDArray[Any], high_x: NDArray[Any], low_y: NDArray[Any],
    high_y: NDArray[Any],
) -> Any:  # fmt: skip
    left = x.astype(numpy.int32) - _zero(low_x, high_x, x.dtype)
    right = y.astype(numpy.int32) - _zero(low_y, high_y, y.dtype)
    return left * right, *_product_range(low_x, high_x, x.dtype, low_y, high_y, y.dtype)


def _quantized_number(number: float, low: NDArray[Any], high: NDArray[Any], kind: Any) -> Any:
    info = limits(kind)
    return kind.type(min(max(_place(number, low, high, kind), int(info.min)), int(info.max)))


@value("QuantizedRelu")
def _quantized_relu(x: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Any:
    return numpy.maximum(x, _quantized_number(0, low, high, x.dtype)), low, high


@value("QuantizedRelu6")
def _quantized_relu6(x: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Any:
    zero, six = (_quantized_number(number, low, high, x.dtype) for number in (0, 6))
    return numpy.minimum(numpy.maximum(x, zero), six), low, high


@value("QuantizedMaxPool")
def _quantized_max_pool(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int],
    padding: bytes,
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    last, where = windows_of(x, ksize, strides, padding, b"NHWC")
    return largest(last, where), low, high


@value("QuantizedAvgPool")
def _quantized_avg_pool(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, ksize: Sequence[int], strides: Sequence[int],
    padding: bytes,
) -> Any:  # fmt: skip
    require_rank(x, 4, "the input")
    last, where = windows_of(x, ksize, strides, padding, b"NHWC")
    padded, inside = pad(last.astype(numpy.int32), where, 0), pad(numpy.ones(x.shape, numpy.int32), where, 0)
    total = sum(padded[taken(where, position)] for position in positions(where))
    count = sum(inside[taken(where, position)] for position in positions(where))
    return numpy.trunc(total / count).astype(x.dtype), low, high


@value("QuantizedBiasAdd")
def _quantized_bias_add(
    x: NDArray[Any], y: NDArray[Any], low_x: NDArray[Any], high_x: NDArray[Any], low_y: NDArray[Any],
    high_y: NDArray[Any],
) -> Any:  # fmt: skip
    if not x.ndim or y.shape != x.shape[-1:]:
        raise OpError(f"the bias {list(y.shape)} does not fit the channels of {list(x.shape)}")
    return _sum(x, y, low_x, high_x, low_y, high_y)


def _sum(
    x: NDArray[Any], y: NDArray[Any], low_x: NDArray[Any], high_x: NDArray[Any], low_y: NDArray[Any],
    high_y: NDArray[Any],
) -> Any:  # fmt: skip
    """The sum in 32 bits, whose range has 17 bits of room above what is added."""
    ends = [_scalar(end, "an end of a range") for end in (low_x, high_x, low_y, high_y)]
    high = _F(max(-float(ends[0]), float(ends[1]), -float(ends[2]), float(ends[3])) * (1 << 17))
    left, right = (_steps(_from_steps(one, *own).astype(numpy.float64), -high, high, numpy.dtype(numpy.int32))
                   for one, own in ((x, ends[:2]), (y, ends[2:])))  # fmt: skip
    return left + right, numpy.asarray(-high), numpy.asarray(high)


def _steps(x: NDArray[Any], low: Any, high: Any, kind: Any) -> Any:
    """Numbers as integers: as `_place`, for many, and within their type."""
    scale = (2.0 ** (8 * kind.itemsize) - 1) / float(high - low)
    return _whole(_away(x * scale) - _away(numpy.float64(float(low) * scale)) + float(limits(kind).min), kind)


@value("QuantizedConcat")
def _quantized_concat(
    axis: NDArray[Any], values: tuple[NDArray[Any], ...], lows: tuple[NDArray[Any], ...],
    highs: tuple[NDArray[Any], ...],
) -> Any:  # fmt: skip
    kind = values[0].dtype
    if kind != numpy.uint8:
        raise UnsupportedError(
            "only quantized tensors of type quint8 can be joined", remedy="use the engine tensorflow"
        )
    low = _F(min(0.0, *(float(_scalar(one, "the least number")) for one in lows)))
    high = _F(max(float(_scalar(one, "the greatest number")) for one in highs))
    place = int(_scalar(axis, "the axis"))
    if not -values[0].ndim <= place < values[0].ndim:
        raise OpError(f"there is no axis {place} in the shape {list(values[0].shape)}")
    parts = []
    for one, bottom, top in zip(values, lows, highs, strict=True):
        own = (_scalar(bottom, "the least number"), _scalar(top, "the greatest number"))
        same = own == (low, high)
        parts.append(one if same else _whole(_to_steps(_from_steps(one, *own), low, high, kind), kind))
    return numpy.concatenate(parts, place), numpy.asarray(low), numpy.asarray(high)


@value("QuantizedReshape")
def _quantized_reshape(x: NDArray[Any], shape: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Any:
    return x.reshape(tuple(int(one) for one in shape)), low, high


def _scales(
    scales: NDArray[Any], zeros: NDArray[Any], axis: int, shape: Sequence[int]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Scales and zero points in shapes that spread over the tensor."""
    if scales.shape != zeros.shape:
        raise OpError(f"scales {list(scales.shape)} and zero points {list(zeros.shape)} do not fit together")
    if axis == -1:
        if scales.ndim:
            raise OpError("the scale of a whole tensor must be a scalar")
        return scales, zeros
    if not 0 <= axis < len(shape) or scales.shape != (shape[axis],):
        raise OpError(f"the shape {list(shape)} has no {scales.size} slices along axis {axis}")
    return _along(scales, axis, len(shape)), _along(zeros, axis, len(shape))


@value("UniformQuantize")
def _uniform_quantize(
    x: NDArray[Any], scales: NDArray[Any], zeros: NDArray[Any], *, Tout: DType, quantization_axis: int,
    quantization_min_val: int, quantization_max_val: int,
) -> Any:  # fmt: skip
    scales, zeros = _scales(scales, zeros, quantization_axis, x.shape)
    found = numpy.floor(x * (_F(1) / scales) + _F(0.5)).astype(numpy.float64) + zeros
    return numpy.clip(found, quantization_min_val, quantization_max_val).astype(Tout.numpy())


@value("UniformDequantize")
def _uniform_dequantize(x: NDArray[Any], scales: NDArray[Any], zeros: NDArray[Any], *, quantization_axis: int) -> Any:
    scales, zeros = _scales(scales, zeros, quantization_axis, x.shape)
    return (x.astype(numpy.int32) - zeros).astype(_F) * scales


def _rescaled(x: NDArray[Any], factor: NDArray[Any]) -> Any:
    """Integers times a factor, as a product with a fixed-point number of 31 bits that is rounded once."""
    fraction, shift = numpy.frexp(factor.astype(numpy.float64))
    fixed = _away(fraction * 2.0**31).astype(numpy.int64)
    grown = fixed == 1 << 31
    fixed, shift = numpy.where(grown, fixed // 2, fixed), shift + grown
    move = (31 - shift).astype(numpy.int64)
    return (x.astype(numpy.int64) * fixed + (numpy.int64(1) << (move - 1))) >> move


@value("UniformRequantize")
def _uniform_requantize(
    x: NDArray[Any], scales: NDArray[Any], zeros: NDArray[Any], new_scales: NDArray[Any], new_zeros: NDArray[Any],
    *, Tout: DType, input_quantization_axis: int, output_quantization_axis: int, output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Any:  # fmt: skip
    scales, zeros = _scales(scales, zeros, input_quantization_axis, x.shape)
    new_scales, new_zeros = _scales(new_scales, new_zeros, output_quantization_axis, x.shape)
    factor = scales.astype(numpy.float64) / new_scales
    found = _rescaled(x.astype(numpy.int64) - zeros, factor) + new_zeros
    return numpy.clip(found, output_quantization_min_val, output_quantization_max_val).astype(Tout.numpy())


@value("UniformQuantizedDot")
def _uniform_dot(
    a: NDArray[Any], b: NDArray[Any], a_scales: NDArray[Any], a_zeros: NDArray[Any], b_scales: NDArray[Any],
    b_zeros: NDArray[Any], scales: NDArray[Any], zeros: NDArray[Any], *, Tout: DType, rhs_quantization_axis: int,
    output_quantization_axis: int, output_quantization_min_val: int, output_quantization_max_val: int,
) -> Any:  # fmt: skip
    _check_matrices(a, b)
    a_scales, a_zeros = _scales(a_scales, a_zeros, -1, a.shape)
    b_scales, b_zeros = _scales(b_scales, b_zeros, rhs_quantization_axis, b.shape)
    product = (a.astype(numpy.float64) - a_zeros) @ (b.astype(numpy.float64) - b_zeros)
    scales, zeros = _scales(scales, zeros, output_quantization_axis, product.shape)
    factor = a_scales.astype(numpy.float64) * b_scales / scales
    found = _rescaled(product, factor) + zeros
    return numpy.clip(found, output_quantization_min_val, output_quantization_max_val).astype(Tout.numpy())


def _check_matrices(a: NDArray[Any], b: NDArray[Any]) -> None:
    require_rank(a, 2, "the left side")
    require_rank(b, 2, "the right side")
    if a.shape[1] != b.shape[0]:
        raise OpError(f"matrices {list(a.shape)} and {list(b.shape)} cannot be multiplied")


@value("UniformQuantizedAdd")
def _uniform_add(
    a: NDArray[Any], b: NDArray[Any], a_scales: NDArray[Any], a_zeros: NDArray[Any], b_scales: NDArray[Any],
    b_zeros: NDArray[Any], scales: NDArray[Any], zeros: NDArray[Any], *, T: DType, lhs_quantization_axis: int,
    rhs_quantization_axis: int, output_quantization_axis: int, output_quantization_min_val: int,
    output_quantization_max_val: int,
) -> Any:  # fmt: skip
    shape = numpy.broadcast_shapes(a.shape, b.shape)
    scales, zeros = _scales(scales, zeros, output_quantization_axis, shape)
    total = zeros.astype(numpy.int64)
    for x, x_scales, x_zeros, axis in ((a, a_scales, a_zeros, lhs_quantization_axis),
                                       (b, b_scales, b_zeros, rhs_quantization_axis)):  # fmt: skip
        own_scales, own_zeros = _scales(x_scales, x_zeros, axis, x.shape)
        total = total + _rescaled(x.astype(numpy.int64) - own_zeros, own_scales.astype(numpy.float64) / scales)
    return numpy.clip(total, output_quantization_min_val, output_quantization_max_val).astype(T.numpy())


@value("UniformQuantizedClipByValue")
def _uniform_clip(
    x: NDArray[Any], low: NDArray[Any], high: NDArray[Any], scales: NDArray[Any], zeros: NDArray[Any],
    *, quantization_axis: int,
) -> Any:  # fmt: skip
    _scales(scales, zeros, quantization_axis, x.shape)
    if low.shape != high.shape:
        raise OpError(f"limits {list(low.shape)} and {list(high.shape)} do not fit together")
    if quantization_axis == -1:
        low, high = numpy.asarray(_scalar(low, "the least number")), numpy.asarray(_scalar(high, "the greatest number"))
    else:
        low, high = _along(low, quantization_axis, x.ndim), _along(high, quantization_axis, x.ndim)
    return numpy.minimum(numpy.maximum(x, low), high)
