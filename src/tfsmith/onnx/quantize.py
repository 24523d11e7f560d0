"""Numbers that are rounded as if they were small integers, as models are trained for quantization."""

from __future__ import annotations

from typing import Any

import numpy

from tfsmith.onnx.builder import FLOAT32, Refusal, Val
from tfsmith.onnx.registry import NodeContext, lowering

__all__: list[str] = []

_F = numpy.float32


@lowering("FakeQuantWithMinMaxArgs FakeQuantWithMinMaxVars FakeQuantWithMinMaxVarsPerChannel", elementwise=False)
def _fake(n: NodeContext) -> Val:
    """The nearest numbers that integers of so many bits can say; scale and zero are computed beforehand."""
    b, bits = n.b, int(n.attr("num_bits"))
    low: Any
    high: Any
    if n.op.endswith("Args"):
        low, high = _F(n.attr("min")), _F(n.attr("max"))
        if low >= high:
            raise Refusal("its range is none")
    else:
        low, high = n.y.array, n.inputs[2].array
        if low is None or high is None:
            raise Refusal("its range must be a constant")
        if not n.op.endswith("Channel") and (low.ndim or high.ndim):
            raise Refusal("its range is no two scalars")
    if not 2 <= bits <= 16 or (numpy.asarray(low) > numpy.asarray(high)).any():
        raise Refusal("its bits or its range make no sense")
    least, most = _F(1 if n.attr("narrow_range") else 0), _F((1 << bits) - 1)
    is_nothing = (low == 0) & (high == 0)
    with numpy.errstate(all="ignore"):
        scale = numpy.where(is_nothing, _F(1), (high - low) / (most - least)).astype(_F)
        zero = least - low / scale
        rounded = numpy.trunc(zero + numpy.copysign(_F(0.5), zero))
        zero = numpy.where(zero < least, least, numpy.where(zero > most, most, rounded))
        bottom, top = (least - zero) * scale, (most - zero) * scale
        inverse = _F(1) / scale
        offset = numpy.floor(-bottom * inverse + _F(0.5))
    low_end, high_end, start, times, back, step = (
        b.const(one, FLOAT32) for one in (bottom, top, bottom, inverse, offset - _F(0.5), scale)
    )
    x = b.op("Min", b.op("Max", n.x, low_end), high_end)
    found = b.op("Floor", b.op("Sub", b.op("Mul", b.op("Sub", x, start), times), back))
    found = b.op("Mul", found, step)
    if not numpy.any(is_nothing):
        return found
    keep = b.const(numpy.where(is_nothing, _F(0), _F(1)), FLOAT32)
    return b.op("Mul", found, keep)
