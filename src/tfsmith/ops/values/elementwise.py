"""Values of ops that compute element by element: arithmetic, comparison, logic, bits, types."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import BFLOAT16, check, is_float, rounded, wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


def _declare_unary(functions: dict[str, Callable[[Any], Any]]) -> None:
    def declared(function: Callable[[Any], Any]) -> Callable[..., Any]:
        def computed(x: NDArray[Any]) -> NDArray[Any]:
            return rounded(function, x)

        return computed

    for op, function in functions.items():
        value(op)(declared(function))


def _declare_binary(functions: dict[str, Callable[[Any, Any], Any]]) -> None:
    def declared(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
        def computed(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
            return numpy.asarray(function(x, y))

        return computed

    for op, function in functions.items():
        value(op)(declared(function))


_declare_unary(
    {
        "Acos": numpy.arccos,
        "Acosh": numpy.arccosh,
        "Asin": numpy.arcsin,
        "Asinh": numpy.arcsinh,
        "Atan": numpy.arctan,
        "Atanh": numpy.arctanh,
        "Ceil": numpy.ceil,
        "Conj": numpy.conjugate,
        "Cos": numpy.cos,
        "Cosh": numpy.cosh,
        "Exp": numpy.exp,
        "Expm1": numpy.expm1,
        "Floor": numpy.floor,
        "Log": numpy.log,
        "Log1p": numpy.log1p,
        "Neg": numpy.negative,
        "Rint": numpy.rint,
        "Sin": numpy.sin,
        "Sinh": numpy.sinh,
        "Sqrt": numpy.sqrt,
        "Square": numpy.square,
        "Tan": numpy.tan,
        "Tanh": numpy.tanh,
    }
)
_declare_binary(
    {
        "Add AddV2": lambda x, y: numpy.asarray(numpy.add(x, y), x.dtype),
        "Sub": numpy.subtract,
        "Mul": numpy.multiply,
        "Greater": numpy.greater,
        "GreaterEqual": numpy.greater_equal,
        "Less": numpy.less,
        "LessEqual": numpy.less_equal,
        "LogicalAnd": numpy.logical_and,
        "LogicalOr": numpy.logical_or,
        "BitwiseAnd": numpy.bitwise_and,
        "BitwiseOr": numpy.bitwise_or,
        "BitwiseXor": numpy.bitwise_xor,
        "NextAfter": numpy.nextafter,
        "Atan2": lambda x, y: rounded(numpy.arctan2, x, y),
    }
)


# Arithmetic


@value("RealDiv")
def _real_div(x: NDArray[Any], y: NDArray[Any]) -> Any:
    check(x.dtype.kind not in "iu", f"RealDiv does not divide {x.dtype}")
    return numpy.asarray(x / y)


@value("Div")
def _div(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return _quotient(x, y) if x.dtype.kind in "iu" else numpy.asarray(x / y)


@value("TruncateDiv")
def _truncate_div(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return _quotient(x, y) if x.dtype.kind in "iu" else numpy.asarray(numpy.trunc(x / y))


@value("FloorDiv")
def _floor_div(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind not in "iu":
        return numpy.asarray(numpy.floor(x / y))
    _check_divisor(x, y)
    return numpy.asarray(x // y)


@value("FloorMod")
def _floor_mod(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind in "iu":
        _check_divisor(x, y)
        return numpy.asarray(x % y)
    rest = rounded(numpy.fmod, x, y)
    return numpy.where((rest != 0) & ((rest < 0) != (y < 0)), rest + y, rest)


@value("Mod TruncateMod")
def _truncate_mod(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind in "iu":
        _check_divisor(x, y)
    return rounded(numpy.fmod, x, y)


@value("DivNoNan")
def _div_no_nan(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return numpy.where(y == 0, x.dtype.type(0), x / y)


@value("MulNoNan")
def _mul_no_nan(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return numpy.where(y == 0, x.dtype.type(0), x * y)


@value("Xdivy")
def _xdivy(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return numpy.where(x == 0, x, x / y)


@value("Xlogy")
def _xlogy(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return numpy.where(x == 0, x, x * rounded(numpy.log, y))


@value("Xlog1py")
def _xlog1py(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return numpy.where(x == 0, x, x * rounded(numpy.log1p, y))


@value("Pow")
def _pow(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype.kind in "iu":
        check(not x.size or not (y < 0).any(), "a whole number has no negative power in whole numbers")
    elif y.size == 1 and y.ndim <= x.ndim and y.reshape(())[()] in (2, 3):  # many times faster
        return rounded(lambda x: x * x if y.reshape(())[()] == 2 else x * x * x, x)
    return rounded(numpy.power, x, y)


@value("SquaredDifference")
def _squared_difference(x: NDArray[Any], y: NDArray[Any]) -> Any:
    difference = numpy.asarray(x - y)
    return numpy.asarray(difference * (difference.conj() if x.dtype.kind == "c" else difference))


@value("Maximum")
def _maximum(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype == BFLOAT16:  # of equal ones, such as zeros with signs, the first
        return numpy.where((x >= y) | numpy.isnan(x), x, y)
    return numpy.asarray(numpy.maximum(x, y))


@value("Minimum")
def _minimum(x: NDArray[Any], y: NDArray[Any]) -> Any:
    if x.dtype == BFLOAT16:
        return numpy.where((x <= y) | numpy.isnan(x), x, y)
    return numpy.asarray(numpy.minimum(x, y))


@value("AddN AccumulateNV2")
def _add_n(inputs: tuple[NDArray[Any], ...]) -> Any:
    shape = inputs[0].shape
    for one in inputs[1:]:
        check(one.shape == shape, f"cannot add shapes {list(shape)} and {list(one.shape)}")
    total = inputs[0]
    for one in inputs[1:]:
        total = total + one
    return numpy.asarray(total)


@value("Abs ComplexAbs")
def _abs(x: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.abs(x))


@value("Inv Reciprocal")
def _reciprocal(x: NDArray[Any]) -> Any:
    check(x.dtype.kind not in "iu", f"there are no reciprocals of {x.dtype}")
    return numpy.asarray(x.dtype.type(1) / x)


@value("Rsqrt")
def _rsqrt(x: NDArray[Any]) -> Any:
    return rounded(lambda x: x.dtype.type(1) / numpy.sqrt(x), x)


@value("Sigmoid")
def _sigmoid(x: NDArray[Any]) -> Any:
    def sigmoid(x: NDArray[Any]) -> Any:
        found = numpy.asarray(numpy.exp(numpy.negative(x)))
        found += x.dtype.type(1)
        return numpy.divide(x.dtype.type(1), found, out=found)

    return rounded(sigmoid, x)


@value("Sign")
def _sign(x: NDArray[Any]) -> Any:
    if x.dtype.kind == "c":
        size = numpy.abs(x)
        return numpy.where(size == 0, x.dtype.type(0), x / size).astype(x.dtype)
    return numpy.asarray(numpy.sign(wide(x)).astype(x.dtype))


@value("Round")
def _round(x: NDArray[Any]) -> Any:
    check(is_float(x), f"TensorFlow's versions do not agree on Round of {x.dtype}")
    return rounded(numpy.rint, x)


@value("ClipByValue")
def _clip_by_value(x: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Any:
    for bound in (low, high):
        check(
            bound.ndim == 0 or bound.shape == x.shape,
            f"a bound must be a scalar or of shape {list(x.shape)}, and has shape {list(bound.shape)}",
        )
    return numpy.asarray(_maximum(_minimum(x, high), low))


@value("CheckNumerics CheckNumericsV2")
def _check_numerics(x: NDArray[Any], *, message: bytes) -> Any:
    bad = [word for word, found in (("NaN", numpy.isnan(x)), ("infinity", numpy.isinf(x))) if found.any()]
    check(not bad, f"{message.decode('utf-8', 'replace')}: the tensor has {' and '.join(bad)}")
    return x


@value("ZerosLike")
def _zeros_like(x: NDArray[Any]) -> Any:
    return numpy.full(x.shape, b"", dtype=object) if x.dtype == object else numpy.zeros(x.shape, x.dtype)


@value("OnesLike")
def _ones_like(x: NDArray[Any]) -> Any:
    return numpy.ones(x.shape, x.dtype)


# Comparison and choice


@value("Equal")
def _equal(x: NDArray[Any], y: NDArray[Any], *, incompatible_shape_error: bool) -> Any:
    if not incompatible_shape_error and not _broadcast(x, y):
        return numpy.asarray(False)
    return numpy.asarray(numpy.equal(x, y))


@value("NotEqual")
def _not_equal(x: NDArray[Any], y: NDArray[Any], *, incompatible_shape_error: bool) -> Any:
    if not incompatible_shape_error and not _broadcast(x, y):
        return numpy.asarray(True)
    return numpy.asarray(numpy.not_equal(x, y))


@value("ApproximateEqual")
def _approximate_equal(x: NDArray[Any], y: NDArray[Any], *, tolerance: float) -> Any:
    check(x.shape == y.shape, f"cannot compare shapes {list(x.shape)} and {list(y.shape)}")
    return numpy.asarray(numpy.abs(x - y) < x.dtype.type(tolerance))


@value("IsFinite")
def _is_finite(x: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.isfinite(x))


@value("IsInf")
def _is_inf(x: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.isinf(x))


@value("IsNan")
def _is_nan(x: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.isnan(x))


@value("LogicalNot")
def _logical_not(x: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.logical_not(x))


@value("SelectV2")
def _select_v2(condition: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> Any:
    return numpy.where(condition, x, y)


@value("Select")
def _select(condition: NDArray[Any], x: NDArray[Any], y: NDArray[Any]) -> Any:
    check(x.shape == y.shape, f"cannot choose between shapes {list(x.shape)} and {list(y.shape)}")
    if condition.ndim == 1 and x.ndim > 1 and condition.shape == x.shape[:1]:
        condition = condition.reshape(-1, *(1,) * (x.ndim - 1))
    else:
        check(
            condition.ndim == 0 or condition.shape == x.shape,
            f"a condition of shape {list(condition.shape)} does not choose in shape {list(x.shape)}",
        )
    return numpy.where(condition, x, y)


# Bits


@value("Invert")
def _invert(x: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.invert(x))


@value("LeftShift")
def _left_shift(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.left_shift(x, _shift(y)))


@value("RightShift")
def _right_shift(x: NDArray[Any], y: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.right_shift(x, _shift(y)))


@value("PopulationCount")
def _population_count(x: NDArray[Any]) -> Any:
    octets = numpy.ascontiguousarray(x).reshape(-1).view(numpy.uint8).reshape(*x.shape, x.dtype.itemsize)
    return numpy.unpackbits(octets, axis=-1).sum(axis=-1, dtype=numpy.uint8).reshape(x.shape)


# Types


@value("Identity")
def _identity(x: NDArray[Any]) -> NDArray[Any]:
    return x


@value("Cast")
def _cast(x: NDArray[Any], *, DstT: DType, Truncate: bool) -> NDArray[Any]:  # attributes have TensorFlow's names
    kind = DstT.numpy()
    if x.dtype == kind:
        return x
    if x.dtype.kind == "c" and kind.kind != "c":
        x = x.real
    if Truncate and is_float(x) and kind.itemsize < x.dtype.itemsize:
        return _truncated(x, kind)
    if kind.itemsize == 2 and kind.kind in "fV" and x.dtype.kind in "iu":
        x = x.astype(numpy.float32)
    return x.astype(kind, copy=False)


@value("Bitcast")
def _bitcast(x: NDArray[Any], *, type: DType) -> NDArray[Any]:
    kind = type.numpy()
    before, after = x.dtype.itemsize, kind.itemsize
    plain = numpy.ascontiguousarray(x)
    if before == after:
        return plain.view(kind).reshape(x.shape)
    if before > after:
        return plain.reshape(-1).view(kind).reshape(*x.shape, before // after)
    check(
        x.ndim > 0 and x.shape[-1] == after // before,
        f"shape {list(x.shape)} of {x.dtype} cannot become {kind}: the last size must be {after // before}",
    )
    return plain.reshape(-1).view(kind).reshape(x.shape[:-1])


@value("Complex")
def _complex(real: NDArray[Any], imag: NDArray[Any], *, Tout: DType) -> Any:
    shape = numpy.broadcast_shapes(real.shape, imag.shape)
    found = numpy.empty(shape, Tout.numpy())
    found.real, found.imag = real, imag
    return found


@value("Real")
def _real(x: NDArray[Any]) -> Any:
    return numpy.asarray(x.real)


@value("Imag")
def _imag(x: NDArray[Any]) -> Any:
    return numpy.asarray(x.imag)


@value("Angle")
def _angle(x: NDArray[Any]) -> Any:
    return numpy.asarray(numpy.arctan2(x.imag, x.real))


def _broadcast(x: NDArray[Any], y: NDArray[Any]) -> bool:
    try:
        numpy.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return True


def _check_divisor(x: NDArray[Any], y: NDArray[Any]) -> None:
    if x.size and not y.all():
        raise OpError("division of whole numbers by zero")


def _quotient(x: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
    """The quotient of whole numbers, rounded toward zero."""
    _check_divisor(x, y)
    rest = numpy.fmod(x, y)
    return numpy.asarray((x - rest) // y)


def _shift(y: NDArray[Any]) -> Any:
    """By how many bits to shift: at least none, at most all but one."""
    return numpy.clip(y, 0, y.dtype.itemsize * 8 - 1).astype(y.dtype)


def _truncated(x: NDArray[Any], kind: numpy.dtype[Any]) -> NDArray[Any]:
    """Floats in a narrower type, with the bits that do not fit cut off; NaN stays NaN."""
    near = x.astype(kind)
    back = near.astype(x.dtype)
    far = numpy.abs(back) > numpy.abs(x)
    return numpy.where(far, numpy.nextafter(near, kind.type(0)), near)
