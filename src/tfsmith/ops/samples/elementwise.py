"""Samples of ops that compute element by element."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy

from tfsmith.ir.node import Node
from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, chain, numbers, samples, types_of

__all__: list[str] = []

_INF, _NAN = float("inf"), float("nan")
_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, _INF, -_INF, _NAN, 2.0, -7.25)


def _types(op: str, without: str = "") -> Iterator[str]:
    """The types that TensorFlow computes on a CPU: not the quantized ones, and not those named."""
    for kind in types_of(op):
        if not kind.startswith(("q", "float8")) and kind not in without.split():
            yield kind


def _is_float(kind: str) -> bool:
    return kind.startswith(("float", "bfloat"))


def _array(kind: str, values: Any) -> Any:
    return numpy.array(values).astype(as_dtype(kind).numpy())


# One input


def _unary(op: str, without: str = "", *, low: int = -8, high: int = 8, edges: tuple[float, ...] = _EDGES) -> Any:
    for kind in _types(op, without):
        yield case(op, numbers(kind, 3, 5, low=low, high=high), name=kind)
        if _is_float(kind):
            yield case(op, _array(kind, edges), name=f"{kind}, edges")
    first = next(_types(op, without))
    yield case(op, numbers(first, 0, 3), name="empty")
    yield case(op, numbers(first, low=low, high=high), name="scalar")
    yield case(op, numbers(first, 2, 1, 3, 4, low=low, high=high), name="unknown shape", unknown=True)


@samples("Abs Neg Square Sign Softsign Relu Relu6 Floor Ceil Real Imag Conj ComplexAbs OnesLike ZerosLike")
def _plain(op: str) -> Iterator[Case]:
    if op in ("Real", "Imag", "ComplexAbs"):
        for kind, part in (("complex64", "float32"), ("complex128", "float64")):
            yield case(op, numbers(kind, 3, 4), name=kind, Tout=part)
            yield case(op, numbers(kind), name=f"{kind}, scalar", Tout=part)
            yield case(op, numbers(kind, 0), name=f"{kind}, empty", Tout=part)
        return
    yield from _unary(op, "variant")


@samples("Rint Round", exact=True)
def _rounds(op: str) -> Iterator[Case]:
    without = "float16 bfloat16" if op == "Rint" else "int8 int16 int32 int64 complex64 complex128"
    yield from _unary(op, without, edges=(0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.25, -0.25, -0.0, _INF, -_INF, _NAN))


@samples("Sqrt Rsqrt Log", n_eps=4)
def _of_positive(op: str) -> Iterator[Case]:
    yield from _unary(op, low=1, high=20)


@samples("Inv Reciprocal", n_eps=4)
def _reciprocal(op: str) -> Iterator[Case]:
    yield from _unary(op, "int8 int16 int32 int64", low=1, high=20)


@samples("Exp Expm1 Sigmoid Tanh Sin Cos Sinh Cosh Asinh Atan", n_eps=4)
def _smooth(op: str) -> Iterator[Case]:
    yield from _unary(op, low=-6, high=6)
    yield from _small_and_large(op)


@samples("Elu Selu", n_eps=4, scale=1)
def _nearly_zero(op: str) -> Iterator[Case]:
    yield from _unary(op, low=-6, high=6)
    yield from _small_and_large(op)


@samples("Softplus", n_eps=20, scale=1)
def _softplus(op: str) -> Iterator[Case]:
    yield from _nearly_zero(op)


def _small_and_large(op: str) -> Iterator[Case]:
    """Numbers of one size, where an approximation for others shows its error."""
    for kind in ("float32", "float64"):
        small = [2.0**-20, -(2.0**-20), 2.0**-13, -1.5 * 2.0**-13, 2.0**-30, -(2.0**-9)]
        yield case(op, _array(kind, small), name=f"{kind}, small")
        yield case(op, _array(kind, [-12.0, -14.5, -16.25, -20.0, -30.0, -40.5]), name=f"{kind}, far below")


@samples("Tan", n_eps=4)
def _tan(op: str) -> Iterator[Case]:
    yield from _unary(op, "int8 int16 int32 int64", low=-1, high=1, edges=(0.0, -0.0, 0.5, _INF, _NAN, 1.25))


@samples("Acos Asin Atanh", n_eps=4)
def _inside(op: str) -> Iterator[Case]:
    yield from _unary(op, low=-1, high=1, edges=(0.0, -0.0, 1.0, -1.0, 1.5, -3.0, _NAN, 0.25))


@samples("Acosh", n_eps=4)
def _above_one(op: str) -> Iterator[Case]:
    yield from _unary(op, low=1, high=30, edges=(1.0, 1.5, 0.5, -2.0, _INF, _NAN, 20.0))


@samples("Log1p", n_eps=4)
def _log1p(op: str) -> Iterator[Case]:
    yield from _unary(op, low=0, high=20, edges=(0.0, -0.0, -0.5, -1.0, -2.0, _INF, _NAN, 2.0**-20))
    small = [2.0**-20, -(2.0**-20), 2.0**-13, -1.5 * 2.0**-13, 2.0**-30, -(2.0**-9)]
    yield case(op, _array("float32", small), name="float32, small")


@samples("IsFinite IsInf IsNan", exact=True)
def _kinds_of_floats(op: str) -> Iterator[Case]:
    yield from _unary(op)


@samples("Angle")
def _angle(op: str) -> Iterator[Case]:
    for kind, part in (("complex64", "float32"), ("complex128", "float64")):
        yield case(op, numbers(kind, 3, 4), name=kind, Tout=part)
        yield case(op, _array(kind, [1 + 0j, -1 + 0j, 1j, -1j, 0j]), name=f"{kind}, on the axes", Tout=part)


@samples("LeakyRelu")
def _leaky_relu(op: str) -> Iterator[Case]:
    for kind in _types(op):
        yield case(op, numbers(kind, 3, 5), name=kind)
        yield case(op, _array(kind, _EDGES), name=f"{kind}, alpha", alpha=0.125)
    yield case(op, _array("float32", _EDGES), name="negative alpha", alpha=-0.5)
    yield case(op, _array("float32", _EDGES), name="large alpha", alpha=2.0)


@samples("LogicalNot", exact=True)
def _logical_not(op: str) -> Iterator[Case]:
    yield case(op, numbers("bool", 3, 4), name="bool")
    yield case(op, numbers("bool"), name="scalar")
    yield case(op, numbers("bool", 0), name="empty")


@samples("Invert PopulationCount", exact=True)
def _bits(op: str) -> Iterator[Case]:
    for kind in _types(op):
        edges = numpy.iinfo(kind)
        yield case(op, numbers(kind, 3, 5, low=-100, high=100), name=kind)
        yield case(op, numpy.array([edges.min, edges.max, 0, 1], kind), name=f"{kind}, limits")


@samples("CheckNumerics CheckNumericsV2", exact=True)
def _check_numerics(op: str) -> Iterator[Case]:
    for kind in _types(op):
        yield case(op, numbers(kind, 2, 3), name=kind, message="x")
        yield case(op, _array(kind, [1.0, _NAN]), name=f"{kind}, NaN", message="x")
        yield case(op, _array(kind, [1.0, -_INF]), name=f"{kind}, infinity", message="x")


# Two inputs


def _binary(op: str, without: str = "", *, low: int = -8, high: int = 8, edges: bool = True) -> Iterator[Case]:
    for kind in _types(op, without):
        x, y = numbers(kind, 3, 4, low=low, high=high), numbers(kind, 3, 4, start=30, low=low, high=high)
        yield case(op, x, y, name=kind)
        if edges and _is_float(kind):
            e = _array(kind, [0.0, -0.0, 1.0, -2.5, _INF, -_INF, _NAN])
            yield case(op, numpy.repeat(e, 7), numpy.tile(e, 7), name=f"{kind}, edges")
            yield case(op, e.reshape(7, 1), e.reshape(1, 7), name=f"{kind}, edges by broadcast")
    first = next(_types(op, without))
    for name, left, right in (
        ("scalar on the left", (), (2, 3)),
        ("scalar on the right", (2, 3), ()),
        ("scalars", (), ()),
        ("rows and columns", (3, 1), (1, 4)),
        ("ranks", (2, 1, 3), (4, 1)),
        ("empty", (0, 3), (1, 3)),
        ("ones and empty", (0,), (1,)),
        ("four axes", (2, 1, 2, 3), (2, 3, 1, 1)),
        ("shapes that do not fit", (2, 3), (2,)),
    ):
        x, y = numbers(first, *left, low=low, high=high), numbers(first, *right, start=9, low=low, high=high)
        yield case(op, x, y, name=name)
        yield case(op, x, y, name=f"{name}, unknown shapes", unknown=True)


@samples("Add AddV2 Sub Mul SquaredDifference Maximum Minimum Greater GreaterEqual Less LessEqual")
def _arithmetic(op: str) -> Iterator[Case]:
    yield from _binary(op)
    for kind in _types(op):
        if kind[:3] in ("int", "uin"):
            limits = numpy.iinfo(kind)
            x = numpy.array([limits.min, limits.max, limits.max, limits.min], kind)
            yield case(op, x, x[::-1].copy(), name=f"{kind}, limits")
    if op == "Add":
        yield case(op, numpy.array(b"a", object), numpy.array(b"b\0", object), name="two words")


@samples("Div RealDiv", n_eps=4)
def _division(op: str) -> Iterator[Case]:
    without = "int8 int16 int32 int64 uint8 uint16 uint32 uint64" if op == "RealDiv" else ""
    yield from _binary(op, without, low=1, high=20)
    if op == "Div":
        yield from _whole_division(op)


@samples("FloorDiv FloorMod TruncateDiv TruncateMod Mod")
def _rests(op: str) -> Iterator[Case]:
    without = "float16 bfloat16" if op in ("TruncateMod", "Mod") else "complex64 complex128"
    yield from _binary(op, without, low=1, high=20)
    for kind in ("float32", "float64"):
        x, y = _array(kind, [7.5, -7.5, 7.5, -7.5, 6.0, -6.0]), _array(kind, [2.0, 2.0, -2.0, -2.0, 3.0, 3.0])
        yield case(op, x, y, name=f"{kind}, signs")
        y = numpy.arange(3, 51, dtype=kind) / 7  # a product with 1 / y is not a quotient by y
        yield case(op, y, y, name=f"{kind}, by itself")
        yield case(op, y * 3, y, name=f"{kind}, three times the divisor")
    yield from _whole_division(op)


def _whole_division(op: str) -> Iterator[Case]:
    for kind in (kind for kind in _types(op) if kind.startswith("int")):
        x, y = numpy.array([7, -7, 7, -7, 6, -6], kind), numpy.array([2, 2, -2, -2, 3, 3], kind)
        yield case(op, x, y, name=f"{kind}, signs")
        yield case(op, x, numpy.array(0, kind), name=f"{kind}, by zero")


@samples("DivNoNan MulNoNan Xdivy Xlogy Xlog1py", n_eps=8)
def _no_nan(op: str) -> Iterator[Case]:
    yield from _binary(op, low=0, high=9, edges=op != "Xlog1py")


@samples("Pow", n_eps=4)
def _pow(op: str) -> Iterator[Case]:
    for kind in _types(op):
        yield case(op, numbers(kind, 3, 4, low=1, high=4), numbers(kind, 3, 4, start=9, low=0, high=4), name=kind)
        if _is_float(kind):
            x, y = [2.0, -2.0, 0.0, 0.0, 1.0, -1.0, _INF, 2.0, _NAN], [3.0, 3.0, 0.0, 2.0, _NAN, 0.5, -1.0, -_INF, 0.0]
            yield case(op, _array(kind, x), _array(kind, y), name=f"{kind}, edges")
        elif kind.startswith("int"):
            yield case(op, numpy.array([2, 3], kind), numpy.array([2, -1], kind), name=f"{kind}, negative power")
            yield case(op, numpy.array([3, -7], kind), numpy.array([50, 51], kind), name=f"{kind}, overflow")
    yield case(op, numbers("int32", 0), numpy.array([-6], "int32"), name="negative power of nothing")
    yield case(op, numbers("float32", 2, 1, 3, low=1, high=4), numbers("float32", 4, 1), name="broadcast")
    for kind, power in product(("float16", "bfloat16", "float32", "float64", "complex64", "int32"), (2, 3, 1, 0)):
        yield case(op, numbers(kind, 2, 5), _array(kind, power), name=f"{kind}, to the power of {power}")
        if _is_float(kind):
            yield case(op, _array(kind, _EDGES), _array(kind, power), name=f"{kind}, edges to the power of {power}")
    yield case(op, numbers("float32", 3), _array("float32", [[2]]), name="two axes of powers")


@samples("Atan2")
def _atan2(op: str) -> Iterator[Case]:
    yield from _binary(op)


@samples("NextAfter", exact=True)
def _next_after(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64"):
        x, y = _array(kind, [1.0, 1.0, -1.0, 2.0, _INF, _NAN]), _array(kind, [2.0, 0.0, -3.0, 2.0, 0.0, 1.0])
        yield case(op, x, y, name=kind)


@samples("Equal NotEqual", exact=True)
def _equality(op: str) -> Iterator[Case]:
    yield from _binary(op, low=0, high=3)
    for x, y in (((2, 3), (2,)), ((2,), (3,)), ((2, 3), (3,))):
        arrays = numbers("float32", *x), numbers("float32", *y)
        yield case(op, *arrays, name=f"{x} and {y}, no error", incompatible_shape_error=False, unknown=True)
    words = numpy.array([b"a", b"b", b"", b"a"], object)
    yield case(op, words, numpy.array(b"a", object), name="words")


@samples("ApproximateEqual", exact=True)
def _approximate_equal(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64"):
        x, y = _array(kind, [1.0, 1.0, 1.0, _NAN, _INF]), _array(kind, [1.0, 1.25, 1.5, _NAN, _INF])
        yield case(op, x, y, name=kind, tolerance=0.3)
        yield case(op, x, y, name=f"{kind}, by default")
    yield case(op, numbers("float32", 2), numbers("float32"), name="shapes differ", unknown=True)


@samples("LogicalAnd LogicalOr", exact=True)
def _logic(op: str) -> Iterator[Case]:
    yield case(op, numbers("bool", 3, 4), numbers("bool", 3, 4, start=7), name="bool")
    yield case(op, numbers("bool", 3, 1), numbers("bool", 4), name="broadcast")
    yield case(op, numbers("bool"), numbers("bool", 0), name="empty")


@samples("BitwiseAnd BitwiseOr BitwiseXor", exact=True)
def _bitwise(op: str) -> Iterator[Case]:
    yield from _binary(op, low=-100, high=100)


@samples("LeftShift RightShift", exact=True)
def _shifts(op: str) -> Iterator[Case]:
    for kind in _types(op):
        y = numbers(kind, 3, 4, low=0, high=numpy.dtype(kind).itemsize * 8)
        yield case(op, numbers(kind, 3, 4, low=-100, high=100), y, name=kind)
        if kind.startswith("int"):
            yield case(op, numpy.array([5, -5], kind), numpy.array([-1, 100], kind), name=f"{kind}, too far")


@samples("Complex", exact=True)
def _complex(op: str) -> Iterator[Case]:
    for kind, whole in (("float32", "complex64"), ("float64", "complex128")):
        yield case(op, numbers(kind, 3, 1), numbers(kind, 4), name=kind, Tout=whole)
        yield case(op, _array(kind, [_NAN, -0.0]), _array(kind, [1.0, -0.0]), name=f"{kind}, edges", Tout=whole)


# More inputs


@samples("AddN", exact=True)
def _add_n(op: str) -> Iterator[Case]:
    for kind in _types(op, "variant"):
        yield case(op, [numbers(kind, 2, 3, start=start) for start in (0, 9, 20)], name=kind)
    yield case(op, [numbers("float32", 2)], name="one")
    yield case(op, [numbers("float32", 2)] * 10, name="ten")
    yield case(op, [numbers("float32", 2), numbers("float32")], name="shapes differ", unknown=True)


@samples("AccumulateNV2", exact=True)
def _accumulate(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "complex64"):
        yield case(op, [numbers(kind, 2, 3, start=start) for start in (0, 9, 20)], name=kind, shape=[2, 3])


@samples("ClipByValue", exact=True)
def _clip(op: str) -> Iterator[Case]:
    for kind in _types(op, "uint32 uint64 complex64 complex128"):
        low, high = numpy.asarray(1).astype(as_dtype(kind).numpy()), numpy.asarray(5).astype(as_dtype(kind).numpy())
        yield case(op, numbers(kind, 3, 4), low, high, name=kind)
        if _is_float(kind):
            yield case(op, _array(kind, _EDGES), low, high, name=f"{kind}, edges")
    x = numbers("float32", 2, 3)
    yield case(op, x, x - 1, x + 1, name="bounds by element")
    yield case(op, x, numbers("float32"), x + 1, name="one bound by element")
    yield case(op, x, numbers("float32", 3), numbers("float32"), name="broadcast", unknown=True)


@samples("Select SelectV2", exact=True)
def _select(op: str) -> Iterator[Case]:
    for kind in _types(op, "variant"):
        x, y = numbers(kind, 3, 4), numbers(kind, 3, 4, start=20)
        yield case(op, numbers("bool", 3, 4), x, y, name=kind)
    x, y = numbers("float32", 3, 4), numbers("float32", 3, 4, start=20)
    yield case(op, numbers("bool"), x, y, name="scalar condition")
    yield case(op, numbers("bool", 3), x, y, name="a condition by row", unknown=True)
    yield case(op, numbers("bool", 4), x, y, name="a condition by column", unknown=True)
    yield case(op, numbers("bool", 3, 4), x, y[0, 0], name="a scalar to choose", unknown=True)
    yield case(op, numbers("bool", 3, 1), x, y, name="a column", unknown=True)
    yield case(op, numbers("bool", 1), numbers("float32"), numbers("float32"), name="scalars", unknown=True)
    yield case(op, numbers("bool", 0, 4), x[:0], y[:0], name="empty")
    yield case(op, numbers("bool", 2), _array("float32", [_NAN, 1]), _array("float32", [1, _NAN]), name="NaN")


@samples("Cast", exact=True)
def _cast(op: str) -> Iterator[Case]:
    kinds = [kind for kind in types_of("AddV2") if kind != "string"] + ["bool"]
    for before in kinds:
        for after in kinds:
            x = numbers(before, 2, 3, low=0, high=9) if after.startswith("u") else numbers(before, 2, 3)
            yield case(op, x, name=f"{before} to {after}", DstT=after)
    for kind in ("float16", "bfloat16", "float32"):
        x = _array("float64", [1.0 + 2.0**-9, 1.0 + 2.0**-12, -1.0 - 2.0**-8, 3.0 + 2.0**-8, _INF, _NAN, 0.0, -0.0])
        yield case(op, x, name=f"rounds to {kind}", DstT=kind)
        if kind != "float32":
            yield case(op, x.astype(numpy.float32), name=f"rounds float32 to {kind}", DstT=kind)
            yield case(op, x.astype(numpy.float32), name=f"truncates to {kind}", DstT=kind, Truncate=True)
    yield case(op, _array("float32", [0.0, -0.0, _NAN, 0.5]), name="edges to bool", DstT="bool")
    yield case(op, numpy.array([2**24 + 1, 2**31 - 1], "int32"), name="large to float32", DstT="float32")
    yield case(
        op, numpy.array([65519, 65520, 70000, -70000, 2049, 2051], "int32"), name="large to half", DstT="float16"
    )
    yield case(op, numpy.array([257, 259, 2**24 + 3], "int64"), name="large to bfloat16", DstT="bfloat16")
    yield case(op, numpy.array([300, -1, 65536], "int32"), name="wraps", DstT="uint8")
    yield case(op, numbers("float32", 0, 2), name="empty", DstT="int32")


@samples("Bitcast", exact=True)
def _bitcast(op: str) -> Iterator[Case]:
    for before, after, shape in (
        ("float32", "int32", (2, 3)),
        ("float32", "uint8", (2, 3)),
        ("uint8", "float32", (3, 4)),
        ("int64", "float32", (3,)),
        ("float64", "complex64", (2,)),
        ("int32", "complex64", (3, 2)),
        ("float16", "bfloat16", (4,)),
        ("int8", "uint8", (0, 2)),
        ("float64", "int64", ()),
        ("uint8", "int16", (3,)),
        ("int16", "int64", (2, 4)),
    ):
        yield case(op, numbers(before, *shape), name=f"{before} to {after}, {shape}", type=after, unknown=True)


# What engines fuse or move


@samples("Identity", exact=True)
def _identity(op: str) -> Iterator[Case]:
    for kind in types_of("AddV2"):
        yield case(op, numbers(kind, 2, 3), name=kind)
    yield case(op, numbers("bool", 0), name="empty")
    float32 = as_dtype("float32")
    x = _array("float32", _EDGES)
    yield chain(
        op,
        "minus the minus",
        [Node("a", "Neg", ("x",), {"T": float32}), Node("y", "Neg", ("a",), {"T": float32})],
        {"x": x},
        ["y:0"],
    )
