"""Samples of quantization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_Q = ("qint8", "quint8", "qint32", "qint16", "quint16")
_FEW = {"qint8": (-128, 128), "quint8": (0, 256), "qint16": (-32768, 32768), "quint16": (0, 65536),
        "qint32": (-1000000, 1000000)}  # fmt: skip


def f32(*values: float) -> NDArray[Any]:
    """A scalar for one number, else a vector."""
    return numpy.array(values if len(values) != 1 else values[0], "float32")


def _any(kind: str, *shape: int, start: int = 0) -> NDArray[Any]:
    low, high = _FEW[kind]
    return numbers("int64", *shape, start=start, low=low, high=high)


@samples("FakeQuantWithMinMaxArgs", n_eps=1)
def _fake_args(op: str) -> Iterator[Case]:
    x = numbers("float32", 4, 6)
    for low, high in ((-6.0, 6.0), (0.0, 4.0), (-3.0, 0.0), (0.5, 4.5), (-4.5, -0.5), (-1.1, 3.3)):
        yield case(op, x, name=f"{low} to {high}", min=low, max=high)
    for bits in (2, 4, 8, 16):
        for narrow in (False, True):
            yield case(
                op, x, name=f"{bits} bits, narrow {narrow}", min=-5.0, max=3.0, num_bits=bits, narrow_range=narrow
            )
    yield case(op, x, name="unknown", unknown=True)
    yield case(op, x[:0], name="empty")
    yield case(op, f32(numpy.inf, -numpy.inf, 0.0), name="infinities")
    yield case(op, x, name="wrong range", min=2.0, max=2.0)


@samples("FakeQuantWithMinMaxVars", n_eps=1)
def _fake_vars(op: str) -> Iterator[Case]:
    x = numbers("float32", 4, 6)
    for low, high in ((-6.0, 6.0), (0.0, 4.0), (0.5, 4.5), (-4.5, -0.5), (-1.1, 3.3), (0.0, 0.0)):
        yield case(op, x, f32(low), f32(high), name=f"{low} to {high}")
        yield case(op, x, f32(low), f32(high), name=f"{low} to {high}, constants", constants=(1, 2), num_bits=4)
    yield case(op, x, f32(-1.0), f32(2.5), name="narrow", narrow_range=True)
    yield case(op, x, f32(-1.0, 1), f32(2.5), name="two numbers", unknown=True)


@samples("FakeQuantWithMinMaxVarsPerChannel", n_eps=1)
def _fake_channels(op: str) -> Iterator[Case]:
    low, high = f32(-6.0, 0.0, -0.5, 0.0), f32(6.0, 4.0, 0.75, 0.0)
    for shape in ((4,), (3, 4), (2, 2, 2, 4)):
        yield case(op, numbers("float32", *shape), low, high, name=f"{len(shape)} axes")
        yield case(op, numbers("float32", *shape), low, high, name=f"{len(shape)} axes, narrow", narrow_range=True)
    yield case(op, numbers("float32", 2, 3), low, high, name="other channels", unknown=True)


@samples("QuantizeV2", n_eps=1)
def _quantize(op: str) -> Iterator[Case]:
    x = numbers("float32", 3, 4)
    for kind in _Q:
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            if kind == "qint32" and mode == "MIN_COMBINED":
                continue  # a float32 cannot hold its ends, and what overflows is left to the processor
            yield case(op, x, f32(-9.0), f32(9.0), name=f"{kind}, {mode}", T=kind, mode=mode)
            if kind in ("qint8", "quint8"):
                for low, high in ((0.0, 7.0), (-5.0, 0.0), (1.0, 6.0), (-6.0, -1.0), (0.0, 0.0)):
                    yield case(op, x, f32(low), f32(high), name=f"{kind}, {mode}, {low} to {high}", T=kind, mode=mode)
                yield case(
                    op, x, f32(-9, -6, -3), f32(3, 6, 9), name=f"{kind}, {mode}, axis", T=kind, mode=mode, axis=0
                )
    for kind in ("qint8", "quint8"):
        even: dict[str, Any] = {"mode": "SCALED", "round_mode": "HALF_TO_EVEN", "T": kind}
        yield case(op, x, f32(-6.0), f32(6.0), name=f"{kind}, to even", **even)
        yield case(op, x, f32(-6.0), f32(6.0), name=f"{kind}, to even, narrow", narrow_range=True, **even)
    yield case(op, x, f32(-6.0), f32(6.0), name="unknown", unknown=True, T="quint8")
    yield case(op, x[:0], f32(-6.0), f32(6.0), name="empty", T="quint8")
    yield case(op, x, f32(6.0), f32(-6.0), name="wrong range", T="quint8")
    yield case(op, x, f32(-6, 1), f32(6, 7), name="two ranges", T="quint8", unknown=True)


@samples("Dequantize", ulps=4, n_eps=1)
def _dequantize(op: str) -> Iterator[Case]:
    for kind in _Q:
        x = _any(kind, 3, 4)
        for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
            kinds = [kind, "float32", "float32"]
            yield case(op, x, f32(-6.0), f32(6.0), name=f"{kind}, {mode}", mode=mode, kinds=kinds)
            yield case(op, x, f32(-1.0), f32(6.0), name=f"{kind}, {mode}, -1 to 6", mode=mode, kinds=kinds)
            yield case(op, x, f32(-6.0), f32(6.0), name=f"{kind}, {mode}, bfloat16", mode=mode, kinds=kinds,
                       dtype="bfloat16")  # fmt: skip
            yield case(op, x, f32(-9, -6, -3), f32(3, 6, 9), name=f"{kind}, {mode}, axis", mode=mode, kinds=kinds,
                       axis=0)  # fmt: skip
        yield case(op, x, f32(-6.0), f32(6.0), name=f"{kind}, narrow", mode="SCALED", narrow_range=True, kinds=kinds)
    yield case(op, _any("qint8", 3, 4), f32(-6, 1), f32(6, 7), name="two ranges", unknown=True,
               kinds=["qint8", "float32", "float32"])  # fmt: skip


@samples("QuantizeAndDequantizeV2 QuantizeAndDequantizeV4", ulps=4, n_eps=1)
def _there_and_back(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "float16", "bfloat16"):
        x = numbers(kind, 3, 4)
        ends = [numpy.asarray(end, x.dtype) for end in (-6, 5)]
        for signed in (True, False):
            for given in (True, False):
                yield case(op, x, *ends, name=f"{kind}, signed {signed}, given {given}", signed_input=signed,
                           range_given=given)  # fmt: skip
    x, ends = numbers("float32", 3, 4), [f32(-6.0), f32(5.0)]
    for mode in ("HALF_TO_EVEN", "HALF_UP"):
        for narrow in (False, True):
            yield case(op, x, *ends, name=f"{mode}, narrow {narrow}", range_given=True, round_mode=mode,
                       narrow_range=narrow)  # fmt: skip
    for bits in (1, 4, 16):
        yield case(op, x, *ends, name=f"{bits} bits", range_given=True, num_bits=bits)
    rows = [f32(-6, -1, 0), f32(5, 1, 3)]
    yield case(op, x, *rows, name="axis, given", axis=0, range_given=True)
    yield case(op, x, *rows, name="axis", axis=0)
    yield case(op, x * 0, *ends, name="zeros")
    yield case(op, x, *reversed(ends), name="wrong range", range_given=True)
    yield case(op, x, *rows, name="too many ranges", range_given=True, unknown=True)


@samples("QuantizeAndDequantizeV3", ulps=4, n_eps=1)
def _there_and_back_v3(op: str) -> Iterator[Case]:
    x, ends = numbers("float32", 3, 4), [f32(-6.0), f32(5.0)]
    for bits in (2, 8, 12):
        for signed in (True, False):
            for given in (True, False):
                name = f"{bits} bits, signed {signed}, given {given}"
                yield case(op, x, *ends, numpy.array(bits, "int32"), name=name,
                           signed_input=signed, range_given=given)  # fmt: skip
    yield case(
        op, x.astype("float64"), *[end.astype("float64") for end in ends], numpy.array(8, "int32"), name="float64"
    )
    yield case(op, x, f32(-6, -1, 0), f32(5, 1, 3), numpy.array(8, "int32"), name="axis", axis=0)
    yield case(op, x, *ends, numpy.array(0, "int32"), name="no bits")


@samples("RequantizationRange", n_eps=1)
def _requantization_range(op: str) -> Iterator[Case]:
    kinds = ["qint32", "float32", "float32"]
    for ends in ((-2000.0, 2000.0), (-100.0, 4000.0)):
        yield case(op, _any("qint32", 3, 4), f32(ends[0]), f32(ends[1]), name=f"{ends}", kinds=kinds)
        yield case(op, abs(_any("qint32", 3, 4)) + 9, f32(ends[0]), f32(ends[1]), name=f"above, {ends}", kinds=kinds)


@samples("RequantizationRangePerChannel", n_eps=1)
def _requantization_range_of_channels(op: str) -> Iterator[Case]:
    kinds = ["qint32", "float32", "float32"]
    low, high = numpy.array([-3.0, -0.5, 0.0], "float32"), numpy.array([2.0, 4.0, 1.5], "float32")
    x = numbers("int64", 1, 2, 2, 3, low=-2000000000, high=2000000000)
    for clip in (6.0, 0.5, 100.0):
        yield case(op, x, low, high, name=f"up to {clip}", kinds=kinds, clip_value_max=clip)
        yield case(op, abs(x), low, high, name=f"above 0, up to {clip}", kinds=kinds, clip_value_max=clip)
    yield case(op, x, low[:2], high[:2], name="other channels", kinds=kinds, clip_value_max=6.0)


@samples("Requantize", n_eps=1)
def _requantize(op: str) -> Iterator[Case]:
    kinds = ["qint32", *["float32"] * 4]
    x = numbers("int64", 3, 4, low=-2000000000, high=2000000000)
    for kind in ("qint8", "quint8"):
        for new in ((-60.0, 60.0), (0.0, 90.0), (-100.0, 10.0)):
            yield case(op, x, f32(-100.0), f32(100.0), f32(new[0]), f32(new[1]), name=f"{kind}, {new}", kinds=kinds,
                       out_type=kind)  # fmt: skip
    yield case(op, x, f32(-9.0), f32(9.0), f32(1.0), f32(2.0), name="above 0", kinds=kinds, out_type="quint8")


@samples("QuantizeDownAndShrinkRange", n_eps=1)
def _shrink(op: str) -> Iterator[Case]:
    kinds = ["qint32", "float32", "float32"]
    x = numbers("int64", 3, 4, low=-2000000000, high=2000000000)
    yield case(op, x, f32(-100.0), f32(100.0), name="large", kinds=kinds, out_type="quint8")
    yield case(op, x // 65536, f32(-100000.0), f32(100000.0), name="small", kinds=kinds, out_type="quint8")


@samples("QuantizedConv2D", n_eps=1)
def _quantized_conv(op: str) -> Iterator[Case]:
    kinds = ["quint8", "quint8", *["float32"] * 4]
    for padding in ("SAME", "VALID"):
        for stride in (1, 2):
            yield case(op, _any("quint8", 1, 4, 4, 2), _any("quint8", 3, 2, 2, 3), f32(-1.0), f32(3.0), f32(-2.0),
                       f32(1.5), name=f"{padding}, stride {stride}", kinds=kinds, padding=padding,
                       strides=[1, stride, stride, 1])  # fmt: skip


@samples("QuantizedMatMul", n_eps=1)
def _quantized_matmul(op: str) -> Iterator[Case]:
    kinds = ["quint8", "quint8", *["float32"] * 4]
    a, b, ends = _any("quint8", 2, 4), _any("quint8", 4, 3, start=9), [f32(-1.0), f32(3.0), f32(0.0), f32(5.0)]
    yield case(op, a, b, *ends, name="plain", kinds=kinds)
    yield case(op, a.T, b, *ends, name="a transposed", kinds=kinds, transpose_a=True)
    yield case(op, a, b.T, *ends, name="b transposed", kinds=kinds, transpose_b=True)
    yield case(op, a, b.T, *ends, name="do not fit", kinds=kinds, unknown=True)


@samples("QuantizedMul", n_eps=1)
def _quantized_mul(op: str) -> Iterator[Case]:
    kinds = ["quint8", "quint8", *["float32"] * 4]
    x, ends = _any("quint8", 3, 4), [f32(-1.0), f32(3.0), f32(0.0), f32(5.0)]
    yield case(op, x, _any("quint8", 3, 4, start=9), *ends, name="plain", kinds=kinds)
    yield case(op, x, _any("quint8", 4, start=9), *ends, name="vector", kinds=kinds)
    yield case(op, x, _any("quint8", 1, start=9)[0], *ends, name="scalar", kinds=kinds)


@samples("QuantizedRelu QuantizedRelu6", n_eps=1)
def _quantized_relu(op: str) -> Iterator[Case]:
    for kind in ("quint8", "qint32"):
        kinds = [kind, "float32", "float32"]
        for low, high in ((-8.0, 8.0), (0.0, 10.0), (-3.0, 20.0)):
            yield case(op, _any(kind, 3, 4), f32(low), f32(high), name=f"{kind}, {low} to {high}", kinds=kinds,
                       out_type=kind)  # fmt: skip


@samples("QuantizedMaxPool QuantizedAvgPool", n_eps=1)
def _quantized_pool(op: str) -> Iterator[Case]:
    for kind in ("quint8", "qint8"):
        for padding in ("SAME", "VALID"):
            yield case(op, _any(kind, 1, 5, 4, 2), f32(-2.0), f32(3.0), name=f"{kind}, {padding}", padding=padding,
                       kinds=[kind, "float32", "float32"], ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1])  # fmt: skip


@samples("QuantizedBiasAdd", n_eps=1)
def _quantized_bias_add(op: str) -> Iterator[Case]:
    for kind in ("quint8", "qint8"):
        kinds = [kind, kind, *["float32"] * 4]
        x, y = _any(kind, 3, 4), _any(kind, 4, start=9)
        for ends in ((-1.0, 3.0, 0.0, 5.0), (0.0, 100.0, -1.0, 1.0), (-2.0, 2.0, -2.0, 2.0)):
            yield case(op, x, y, *[f32(end) for end in ends], name=f"{kind}, {ends}", kinds=kinds, out_type="qint32")
        yield case(op, x, y[:3], f32(-1.0), f32(3.0), f32(0.0), f32(5.0), name=f"{kind}, too few", kinds=kinds,
                   unknown=True, out_type="qint32")  # fmt: skip


@samples("QuantizedConcat", n_eps=1)
def _quantized_concat(op: str) -> Iterator[Case]:
    kinds = ["int32", "quint8", "quint8", *["float32"] * 4]
    parts = [_any("quint8", 2, 3), _any("quint8", 2, 3, start=9)]
    for lows, highs in (((-1.0, -1.0), (3.0, 3.0)), ((-1.0, -2.0), (3.0, 2.0)), ((0.0, 0.5), (6.0, 2.0))):
        ends = [[f32(end) for end in side] for side in (lows, highs)]
        for axis in (0, 1):
            name = f"axis {axis}, {lows} to {highs}"
            yield case(op, numpy.array(axis, "int32"), parts, *ends, name=name, kinds=kinds)
    yield case(op, numpy.array(2, "int32"), parts, *ends, name="no such axis", kinds=kinds, unknown=True)


@samples("QuantizedReshape", n_eps=1)
def _quantized_reshape(op: str) -> Iterator[Case]:
    for kind in ("quint8", "qint32"):
        for shape in ("int32", "int64"):
            yield case(op, _any(kind, 3, 4), numpy.array([2, -1], shape), f32(-2.0), f32(3.0), name=f"{kind}, {shape}",
                       kinds=[kind, shape, "float32", "float32"])  # fmt: skip
    yield case(op, _any("quint8", 3, 4), numpy.array([5, -1], "int32"), f32(-2.0), f32(3.0), name="does not fit",
               kinds=["quint8", "int32", "float32", "float32"], unknown=True)  # fmt: skip


def _uniform(**parts: tuple[int, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, (low, high) in parts.items():
        whole = f"{name}_quantization" if name != "own" else "quantization"
        found |= {f"{whole}_min_val": low, f"{whole}_max_val": high}
    return found


_BYTE = (-128, 127)
_WORD = (-(2**31), 2**31 - 1)


@samples("UniformQuantize")
def _uniform_quantize(op: str) -> Iterator[Case]:
    x = numbers("float32", 3, 4)
    for kind, ends in (("qint8", _BYTE), ("quint8", (0, 255)), ("qint32", _WORD)):
        yield case(op, x, f32(0.25), numpy.array(3, "int32"), name=kind, Tout=kind, **_uniform(own=ends))
        yield case(op, x, f32(0.25, 0.5, 0.1), numpy.array([3, 0, 7], "int32"), name=f"{kind}, axis", Tout=kind,
                   quantization_axis=0, **_uniform(own=ends))  # fmt: skip
    yield case(op, x, f32(0.01), numpy.array(3, "int32"), name="narrow", Tout="qint8", **_uniform(own=(-127, 127)))
    yield case(op, x, f32(-1.0), numpy.array(3, "int32"), name="negative scale", Tout="qint8", **_uniform(own=_BYTE))


@samples("UniformDequantize", n_eps=1)
def _uniform_dequantize(op: str) -> Iterator[Case]:
    for kind, ends in (("qint8", _BYTE), ("quint8", (0, 255)), ("qint32", _WORD)):
        kinds = [kind, "float32", "int32"]
        yield case(op, _any(kind, 3, 4), f32(0.25), numpy.array(3, "int32"), name=kind, Tout="float32", kinds=kinds,
                   **_uniform(own=ends))  # fmt: skip
        yield case(op, _any(kind, 3, 4), f32(0.25, 0.5, 0.1), numpy.array([3, 0, 7], "int32"), name=f"{kind}, axis",
                   Tout="float32", quantization_axis=0, kinds=kinds, **_uniform(own=ends))  # fmt: skip


@samples("UniformRequantize")
def _uniform_requantize(op: str) -> Iterator[Case]:
    for kind, ends in (("qint8", _BYTE), ("qint32", _WORD)):
        kinds = [kind, "float32", "int32", "float32", "int32"]
        for old, new in ((0.25, 0.5), (0.5, 0.3), (0.001, 0.7)):
            yield case(op, _any(kind, 3, 4), f32(old), numpy.array(3, "int32"), f32(new), numpy.array(-5, "int32"),
                       name=f"{kind}, {old} to {new}", Tout="qint8", kinds=kinds,
                       **_uniform(input=ends, output=_BYTE))  # fmt: skip
        yield case(op, _any(kind, 3, 4), f32(0.25, 0.5, 0.1), numpy.array([3, 0, 7], "int32"), f32(0.5),
                   numpy.array(-5, "int32"), name=f"{kind}, axis", Tout="qint8", kinds=kinds,
                   input_quantization_axis=0, **_uniform(input=ends, output=_BYTE))  # fmt: skip


@samples("UniformQuantizedDot")
def _uniform_dot(op: str) -> Iterator[Case]:
    a, b, ends = _any("qint8", 2, 4), _any("qint8", 4, 3, start=9), _uniform(lhs=_BYTE, rhs=(-127, 127), output=_WORD)
    kinds = ["qint8", "qint8", *["float32", "int32"] * 3]
    zero = numpy.array(2, "int32")
    yield case(op, a, b, f32(0.25), zero, f32(0.5), zero * 0, f32(0.125), zero, name="plain", Tout="qint32",
               kinds=kinds, **ends)  # fmt: skip
    yield case(op, a, b, f32(0.25), zero, f32(0.5, 0.1, 0.3), numpy.array([0, 0, 0], "int32"), f32(0.125, 0.5, 1),
               numpy.array([1, 2, 3], "int32"), name="channels", Tout="qint32", rhs_quantization_axis=1,
               output_quantization_axis=1, kinds=kinds, **ends)  # fmt: skip


@samples("UniformQuantizedAdd")
def _uniform_add(op: str) -> Iterator[Case]:
    kinds, ends = ["qint32", "qint32", *["float32", "int32"] * 3], _uniform(lhs=_WORD, rhs=_WORD, output=_WORD)
    zero = numpy.array(2, "int32")
    for name, shape in (("plain", (3, 4)), ("vector", (4,))):
        yield case(op, _any("qint32", 3, 4), _any("qint32", *shape, start=9), f32(0.25), zero, f32(0.5), zero * 0,
                   f32(0.3), zero, name=name, kinds=kinds, **ends)  # fmt: skip
        yield case(op, _any("qint32", 3, 4), _any("qint32", *shape, start=9), f32(0.25), zero, f32(0.25), zero,
                   f32(0.25), zero, name=f"{name}, one scale", kinds=kinds, **ends)  # fmt: skip


@samples("UniformQuantizedClipByValue")
def _uniform_clip(op: str) -> Iterator[Case]:
    kinds, ends = ["qint32", "qint32", "qint32", "float32", "int32"], _uniform(own=_WORD)
    x = _any("qint32", 3, 4)
    yield case(op, x, numpy.array(-9000), numpy.array(80000), f32(0.5), numpy.array(0, "int32"), name="plain",
               kinds=kinds, **ends)  # fmt: skip
    yield case(op, x, numpy.array([-9, 0, -90000]), numpy.array([900, 80000, 0]), f32(0.5, 1, 2),
               numpy.array([0, 1, 2], "int32"), name="axis", quantization_axis=0, kinds=kinds, **ends)  # fmt: skip
