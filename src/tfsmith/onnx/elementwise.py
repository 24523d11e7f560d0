"""Element by element: arithmetic, functions, comparisons, choices, casts.

onnxruntime has kernels for some types only. Others are computed in a wider type that holds all their numbers, and
rounded once, which gives the same; a type without such a way is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tfsmith.ir.types import DType, dtype_named
from tfsmith.onnx.builder import BOOL, FLOAT32, INT32, Builder, Refusal, Val
from tfsmith.onnx.registry import Complex, NodeContext, lowering

__all__ = ["COUNTED", "FLOATS", "NUMBERS", "arc_tangent", "widened"]

FLOATS = ("float32", "float64")
NUMBERS = ("float32", "float64", "int32", "int64")
COUNTED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_WIDER = {
    "float16": ("float32",), "bfloat16": ("float32",), "int8": ("int32", "int64"), "int16": ("int32", "int64"),
    "uint8": ("int32", "int64"), "uint16": ("int32", "int64"), "uint32": ("int64",),
}  # fmt: skip


def widened(dtype: DType, kinds: Sequence[str], *, wraps: bool = False) -> DType:
    """The type to compute in, where there are kernels for these: the type itself, or one that holds its numbers.

    Args:
        dtype: The type.
        kinds: The types with kernels.
        wraps: Whether only the low bits matter, as in sums and products, so that uint64 can be int64.

    Raises:
        Refusal: There is none.
    """
    if dtype.name in kinds:
        return dtype
    wider = (*_WIDER.get(dtype.name, ()), *(("int64",) if wraps and dtype.name == "uint64" else ()))
    for name in wider:
        if name in kinds:
            return dtype_named(name)
    raise Refusal(f"onnxruntime has no kernel for {dtype.name}")


def _computed(n: NodeContext, kinds: Sequence[str], function: Callable[..., Val], *, wraps: bool = False) -> Val:
    """Computes in a type that there are kernels for."""
    kind = widened(n.x.dtype, kinds, wraps=wraps)
    found = function(*(n.b.cast(one, kind) for one in n.inputs))
    return n.b.cast(found, n.dtype)


_PLAIN_BINARY = {
    "Add": ("Add", NUMBERS), "AddV2": ("Add", NUMBERS), "Sub": ("Sub", NUMBERS), "Mul": ("Mul", NUMBERS),
    "RealDiv": ("Div", NUMBERS), "Maximum": ("Max", NUMBERS), "Minimum": ("Min", NUMBERS),
}  # fmt: skip


@lowering(" ".join(_PLAIN_BINARY), elementwise=True)
def _binary(n: NodeContext) -> Val:
    op, kinds = _PLAIN_BINARY[n.op]
    wraps = op in ("Add", "Sub", "Mul")
    if n.x.dtype.name == "string":
        if n.op not in ("Add", "AddV2") or n.b.opset < 20:
            raise Refusal("ONNX joins strings from opset 20 on", 20 if n.op in ("Add", "AddV2") else 0)
        return n.b.op("StringConcat", n.x, n.y)
    if op == "Div" and n.x.dtype.name not in (*FLOATS, "float16", "bfloat16"):
        raise Refusal(f"it is not lowered for {n.x.dtype.name}")
    if op in ("Max", "Min") and widened(n.x.dtype, kinds).name == "int64":  # onnxruntime looks at 32 bits of them
        is_more = "Greater" if op == "Max" else "Less"
        return _computed(n, kinds, lambda x, y: n.b.op("Where", n.b.op(is_more, x, y, dtype=BOOL), x, y, dtype=x.dtype))
    return _computed(n, kinds, lambda x, y: n.b.op(op, x, y), wraps=wraps)


@lowering("Div TruncateDiv", elementwise=True)
def _div(n: NodeContext) -> Val:
    b = n.b
    if n.x.dtype.name in ("float32", "float64", "float16", "bfloat16"):
        found = _computed(n, FLOATS, lambda x, y: b.op("Div", x, y))
        return found if n.op == "Div" else _trunc(b, found)
    return _computed(n, NUMBERS, lambda x, y: b.op("Div", x, y))


def _trunc(b: Builder, x: Val) -> Val:
    return b.cast(_truncated(b, b.cast(x, widened(x.dtype, FLOATS))), x.dtype)


def _truncated(b: Builder, x: Val) -> Val:
    zero = b.const(0, x.dtype)
    return b.op("Where", b.op("Less", x, zero, dtype=BOOL), b.op("Ceil", x), b.op("Floor", x), dtype=x.dtype)


@lowering("FloorDiv", elementwise=True)
def _floor_div(n: NodeContext) -> Val:
    b = n.b

    def floats(x: Val, y: Val) -> Val:
        return b.op("Floor", b.op("Div", x, y))

    def whole(x: Val, y: Val) -> Val:
        quotient = b.op("Div", x, y)
        rest = b.op("Sub", x, b.op("Mul", quotient, y))
        zero = b.const(0, x.dtype)
        is_other = b.op("Xor", b.op("Less", rest, zero, dtype=BOOL), b.op("Less", y, zero, dtype=BOOL), dtype=BOOL)
        is_rest = b.op("Not", b.op("Equal", rest, zero, dtype=BOOL), dtype=BOOL)
        return b.op("Sub", quotient, b.cast(b.op("And", is_other, is_rest, dtype=BOOL), x.dtype))

    if n.x.dtype.name in ("float32", "float64", "float16", "bfloat16"):
        return _computed(n, FLOATS, floats)
    return _computed(n, ("int32", "int64"), whole)


@lowering("FloorMod Mod TruncateMod", elementwise=True)
def _mod(n: NodeContext) -> Val:
    b = n.b

    def floats(x: Val, y: Val) -> Val:
        rest = b.op("Mod", x, y, fmod=1)
        if n.op != "FloorMod":
            return rest
        zero = b.const(0, x.dtype)
        is_other = b.op("Xor", b.op("Less", rest, zero, dtype=BOOL), b.op("Less", y, zero, dtype=BOOL), dtype=BOOL)
        is_rest = b.op("Not", b.op("Equal", rest, zero, dtype=BOOL), dtype=BOOL)
        moved = b.op("And", is_other, is_rest, dtype=BOOL)
        return b.op("Where", moved, b.op("Add", rest, y), rest, dtype=x.dtype)

    if n.x.dtype.name in ("float32", "float64", "float16", "bfloat16"):
        return _computed(n, FLOATS, floats)
    fmod = int(n.op != "FloorMod")
    return _computed(n, ("int32", "int64"), lambda x, y: b.op("Mod", x, y, fmod=fmod))


@lowering("DivNoNan MulNoNan Xdivy Xlogy Xlog1py", elementwise=True)
def _no_nan(n: NodeContext) -> Val:
    b = n.b

    def compute(x: Val, y: Val) -> Val:
        zero = b.const(0, x.dtype)
        if n.op == "DivNoNan":
            is_zero, found = b.op("Equal", y, zero, dtype=BOOL), b.op("Div", x, y)
        elif n.op == "MulNoNan":
            is_zero, found = b.op("Equal", y, zero, dtype=BOOL), b.op("Mul", x, y)
        elif n.op == "Xdivy":
            is_zero, found = b.op("Equal", x, zero, dtype=BOOL), b.op("Div", x, y)
        elif n.op == "Xlogy":
            is_zero, found = b.op("Equal", x, zero, dtype=BOOL), b.op("Mul", x, b.op("Log", y))
        else:
            is_zero, found = b.op("Equal", x, zero, dtype=BOOL), b.op("Mul", x, _log1p(b, y))
        return b.op("Where", is_zero, zero, found, dtype=x.dtype)

    return _computed(n, FLOATS, compute)


@lowering("SquaredDifference", elementwise=True)
def _squared_difference(n: NodeContext) -> Val:
    b = n.b

    def compute(x: Val, y: Val) -> Val:
        difference = b.op("Sub", x, y)
        return b.op("Mul", difference, difference)

    return _computed(n, NUMBERS, compute)


@lowering("Pow", elementwise=True)
def _pow(n: NodeContext) -> Val:
    b = n.b
    if n.x.dtype.name in ("float32", "float64", "float16", "bfloat16"):
        return _computed(n, FLOATS, lambda x, y: b.op("Pow", x, y))
    array = n.y.array
    if array is None or array.size != 1 or not 1 <= int(array.reshape(-1)[0]) <= 8 or array.ndim > n.x.rank:
        raise Refusal("a power of whole numbers is lowered only for a constant exponent from 1 to 8")

    def multiply(x: Val, y: Val) -> Val:
        found = x
        for _ in range(int(array.reshape(-1)[0]) - 1):
            found = b.op("Mul", found, x)
        return found

    return _computed(n, NUMBERS, multiply, wraps=True)


@lowering("AddN AccumulateNV2", elementwise=True)
def _add_n(n: NodeContext) -> Val:
    b = n.b
    if n.x.dtype.name in ("variant", "string"):
        raise Refusal(f"it is not lowered for {n.x.dtype.name}")
    are_same = all(one.dims is not None and one.dims == n.x.dims and None not in one.dims for one in n.inputs)
    if len(n.inputs) > 1 and not are_same:
        raise Refusal("its inputs are not known to have the same shape")
    kind = widened(n.x.dtype, NUMBERS, wraps=True)
    parts = [b.cast(one, kind) for one in n.inputs]
    found = parts[0]
    for one in parts[1:]:
        found = b.op("Add", found, one)
    return b.cast(found, n.dtype)


# Functions of one number

_FLOAT_FUNCTIONS = {
    "Exp": "Exp", "Log": "Log", "Sqrt": "Sqrt", "Sigmoid": "Sigmoid", "Tanh": "Tanh", "Sin": "Sin", "Cos": "Cos",
    "Floor": "Floor", "Ceil": "Ceil", "Reciprocal": "Reciprocal", "Inv": "Reciprocal", "Rint": "Round",
}  # fmt: skip
_SINGLE_FUNCTIONS = {
    "Tan": "Tan", "Asin": "Asin", "Acos": "Acos", "Atan": "Atan", "Sinh": "Sinh", "Cosh": "Cosh", "Asinh": "Asinh",
    "Acosh": "Acosh", "Atanh": "Atanh", "Erf": "Erf", "Softsign": "Softsign", "Softplus": "Softplus",
}  # fmt: skip


@lowering(" ".join((*_FLOAT_FUNCTIONS, *_SINGLE_FUNCTIONS)), elementwise=True)
def _function(n: NodeContext) -> Val:
    op = _FLOAT_FUNCTIONS.get(n.op) or _SINGLE_FUNCTIONS[n.op]
    kinds = FLOATS if n.op in _FLOAT_FUNCTIONS else ("float32",)
    return _computed(n, kinds, lambda x: n.b.op(op, x))


@lowering("Abs Neg Sign", elementwise=True)
def _sign(n: NodeContext) -> Val:
    return _computed(n, NUMBERS, lambda x: n.b.op(n.op, x))


@lowering("Square", elementwise=True)
def _square(n: NodeContext) -> Val:
    return _computed(n, NUMBERS, lambda x: n.b.op("Mul", x, x), wraps=True)


@lowering("Rsqrt", elementwise=True)
def _rsqrt(n: NodeContext) -> Val:
    return _computed(n, FLOATS, lambda x: n.b.op("Reciprocal", n.b.op("Sqrt", x)))


@lowering("Round", elementwise=True)
def _round(n: NodeContext) -> Val:
    if n.x.dtype.name in COUNTED:
        return n.b.op("Identity", n.x)
    return _computed(n, FLOATS, lambda x: n.b.op("Round", x))


@lowering("Log1p", elementwise=True)
def _log_1p(n: NodeContext) -> Val:
    return _computed(n, FLOATS, lambda x: _log1p(n.b, x))


def _log1p(b: Builder, x: Val) -> Val:
    """log(1 + x), right also for small x: what the sum lost is put right by x / ((1 + x) - 1)."""
    one = b.const(1, x.dtype)
    total = b.op("Add", x, one)
    lost = b.op("Sub", total, one)
    found = b.op("Mul", b.op("Log", total), b.op("Div", x, lost))
    is_small = b.op("Equal", lost, b.const(0, x.dtype), dtype=BOOL)
    is_large = b.op("IsInf", total, dtype=BOOL, detect_negative=0)
    return b.op("Where", b.op("Or", is_small, is_large, dtype=BOOL), x, found, dtype=x.dtype)


@lowering("Expm1", elementwise=True)
def _exp_m1(n: NodeContext) -> Val:
    b = n.b

    def compute(x: Val) -> Val:
        one = b.const(1, x.dtype)
        power = b.op("Exp", x)
        less = b.op("Sub", power, one)
        found = b.op("Mul", less, b.op("Div", x, b.op("Log", power)))
        is_small = b.op("Equal", less, b.const(0, x.dtype), dtype=BOOL)
        is_far = b.op("Or", b.op("IsInf", power, dtype=BOOL), b.op("Equal", less, b.const(-1, x.dtype), dtype=BOOL))
        found = b.op("Where", is_far, less, found, dtype=x.dtype)
        return b.op("Where", is_small, x, found, dtype=x.dtype)

    return _computed(n, FLOATS, compute)


_ERFC = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223,
    0.17087277,
)  # fmt: skip
"""Coefficients of the Chebyshev fit of erfc in t = 1 / (1 + x / 2), right to 1.2e-7 of its value for all x."""


@lowering("Erfc", elementwise=True)
def _erfc(n: NodeContext) -> Val:
    """1 - erf(x) loses all digits of what is near 0, so that is computed in float64, by a fit."""
    b, kind = n.b, dtype_named("float64")
    n.allow("float32", "float16", "bfloat16")
    x = b.cast(n.x, kind)
    size = b.op("Abs", x)
    t = b.op("Reciprocal", b.op("Add", b.op("Mul", size, b.const(0.5, kind)), b.const(1, kind)))
    total = _polynomial(b, t, _ERFC[::-1])
    power = b.op("Exp", b.op("Sub", total, b.op("Mul", size, size)))
    tail = b.op("Mul", t, power)
    is_less = b.op("Less", x, b.const(0, kind), dtype=BOOL)
    return b.cast(b.op("Where", is_less, b.op("Sub", b.const(2, kind), tail), tail, dtype=kind), n.dtype)


@lowering("Atan2", elementwise=True)
def _atan2(n: NodeContext) -> Val:
    return _computed(n, ("float32",), lambda y, x: arc_tangent(n.b, y, x))


def arc_tangent(b: Builder, y: Val, x: Val) -> Val:
    """The angle of the point (x, y), of float32: that of its sizes, turned into its quadrant."""

    def is_negative(value: Val) -> Val:
        below = b.op("Less", value, zero, dtype=BOOL)
        return b.op("Or", below, b.op("Less", b.op("Reciprocal", value), zero, dtype=BOOL))  # zeros have signs, too

    zero, one = b.const(0, FLOAT32), b.const(1, FLOAT32)
    tall, broad = b.op("Abs", y), b.op("Abs", x)
    both = b.op("Equal", tall, broad, dtype=BOOL)
    slope = b.op("Where", both, one, b.op("Div", tall, broad), dtype=FLOAT32)
    is_origin = b.op("And", both, b.op("Equal", tall, zero, dtype=BOOL))
    angle = b.op("Where", is_origin, zero, b.op("Atan", slope), dtype=FLOAT32)
    turned = b.op("Sub", b.const(math.pi, FLOAT32), angle)
    angle = b.op("Where", is_negative(x), turned, angle, dtype=FLOAT32)
    return b.op("Where", is_negative(y), b.op("Neg", angle), angle, dtype=FLOAT32)


_QUANTILE_NEAR = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_QUANTILE_FAR = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
"""The inverse of erf, over its argument, in w = -log(1 - x x): in w - 2.5 below 5, else in sqrt(w) - 3 (Giles)."""


@lowering("Erfinv", elementwise=True)
def _erfinv(n: NodeContext) -> Val:
    b, kind = n.b, dtype_named("float64")
    n.allow("float32", "float16", "bfloat16")
    x = b.cast(n.x, kind)
    one = b.const(1, kind)
    far = b.op("Neg", b.op("Log", b.op("Mul", b.op("Sub", one, x), b.op("Add", one, x))))
    near = _polynomial(b, b.op("Sub", far, b.const(2.5, kind)), _QUANTILE_NEAR)
    behind = _polynomial(b, b.op("Sub", b.op("Sqrt", far), b.const(3, kind)), _QUANTILE_FAR)
    is_near = b.op("Less", far, b.const(5, kind), dtype=BOOL)
    found = b.op("Mul", x, b.op("Where", is_near, near, behind, dtype=kind))
    is_end = b.op("Equal", b.op("Abs", x), one, dtype=BOOL)
    infinite = b.op("Mul", x, b.const(math.inf, kind))
    return b.cast(b.op("Where", is_end, infinite, found, dtype=kind), n.dtype)


def _polynomial(b: Builder, x: Val, factors: Sequence[float]) -> Val:
    found = b.const(factors[0], x.dtype)
    for one in factors[1:]:
        found = b.op("Add", b.op("Mul", found, x), b.const(one, x.dtype))
    return found


# Activations


@lowering("Relu", elementwise=True)
def _relu(n: NodeContext) -> Val:
    return _computed(n, ("float32", "float64", "int32"), lambda x: n.b.op("Relu", x))


@lowering("Relu6", elementwise=True)
def _relu6(n: NodeContext) -> Val:
    b = n.b
    return _computed(n, NUMBERS, lambda x: b.op("Clip", x, b.const(0, x.dtype), b.const(6, x.dtype)))


@lowering("ClipByValue", elementwise=True)
def _clip(n: NodeContext) -> Val:
    b = n.b
    if any(one.dims != () and (one.dims is None or one.dims != n.x.dims or None in one.dims) for one in n.inputs[1:]):
        raise Refusal("its bounds are not known to be scalars, or of the shape of what it clips")
    return _computed(n, (*FLOATS, "int32"), lambda x, low, high: b.op("Max", b.op("Min", x, high), low))


@lowering("LeakyRelu", elementwise=True)
def _leaky_relu(n: NodeContext) -> Val:
    alpha = float(n.attr("alpha"))
    return _computed(n, ("float32",), lambda x: n.b.op("LeakyRelu", x, alpha=alpha))


@lowering("Elu", elementwise=True)
def _elu(n: NodeContext) -> Val:
    return _computed(n, ("float32",), lambda x: n.b.op("Elu", x, alpha=1.0))


@lowering("Selu", elementwise=True)
def _selu(n: NodeContext) -> Val:
    return _computed(n, ("float32",), lambda x: n.b.op("Selu", x, alpha=1.6732632423543772, gamma=1.0507009873554805))


# Truth

_COMPARISONS = {
    "Less": "Less", "LessEqual": "LessOrEqual", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual",
}  # fmt: skip


@lowering(" ".join(_COMPARISONS), elementwise=True)
def _compare(n: NodeContext) -> Val:
    kind = widened(n.x.dtype, NUMBERS)
    return n.b.op(_COMPARISONS[n.op], n.b.cast(n.x, kind), n.b.cast(n.y, kind), dtype=BOOL)


@lowering("Equal NotEqual", elementwise=True)
def _equal(n: NodeContext) -> Val:
    b = n.b
    if n.attr("incompatible_shape_error") is False and not _fit(n.x, n.y):
        raise Refusal("shapes that do not fit are unequal, which ONNX cannot say")
    if n.x.dtype.name == "string":
        if b.opset < 19:
            raise Refusal("ONNX compares strings from opset 19 on", 19)
        found = b.op("Equal", n.x, n.y, dtype=BOOL)
    else:
        kind = widened(n.x.dtype, (*NUMBERS, "bool"), wraps=True)
        found = b.op("Equal", b.cast(n.x, kind), b.cast(n.y, kind), dtype=BOOL)
    return found if n.op == "Equal" else b.op("Not", found, dtype=BOOL)


def _fit(x: Val, y: Val) -> bool:
    if x.dims is None or y.dims is None:
        return False
    pairs = zip(x.dims[::-1], y.dims[::-1], strict=False)
    return all(one == other or 1 in (one, other) for one, other in pairs)


@lowering("ApproximateEqual", elementwise=True)
def _nearly(n: NodeContext) -> Val:
    b = n.b
    kind = widened(n.x.dtype, NUMBERS)
    if n.x.dims is None or n.x.dims != n.y.dims:
        raise Refusal("its shapes are not known to be the same")
    far = b.op("Abs", b.op("Sub", b.cast(n.x, kind), b.cast(n.y, kind)))
    wide = far if kind.name in FLOATS else b.cast(far, dtype_named("float64"))
    return b.op("Less", wide, b.const(float(n.attr("tolerance")), wide.dtype), dtype=BOOL)


@lowering("Bucketize")
def _bucketize(n: NodeContext) -> Val:
    """How many of the bounds are not above each number."""
    b = n.b
    kind = widened(n.x.dtype, NUMBERS)
    kind = dtype_named("float64") if kind.name.startswith("int") else kind
    borders = [float(one) for one in n.attr("boundaries") or ()]
    if borders != sorted(borders):
        raise Refusal("its boundaries are not sorted")
    bounds = b.const(borders, kind)
    wide = b.unsqueeze(b.cast(n.x, kind), [n.x.rank])
    is_past = b.op("GreaterOrEqual", wide, bounds, dtype=BOOL)
    return b.op("ReduceSum", b.cast(is_past, INT32), b.const([n.x.rank]), keepdims=0)


@lowering("LogicalAnd LogicalOr LogicalNot", elementwise=True)
def _logical(n: NodeContext) -> Val:
    return n.b.op(n.op.removeprefix("Logical"), *n.inputs, dtype=BOOL)


@lowering("IsNan IsInf IsFinite", elementwise=True)
def _is(n: NodeContext) -> Val:
    b = n.b
    x = b.cast(n.x, widened(n.x.dtype, FLOATS))
    if n.op == "IsFinite":
        found = b.op("Or", b.op("IsNaN", x, dtype=BOOL), b.op("IsInf", x, dtype=BOOL))
        return b.op("Not", found)
    return b.op("IsNaN" if n.op == "IsNan" else "IsInf", x, dtype=BOOL)


@lowering("SelectV2", elementwise=True)
def _select_v2(n: NodeContext) -> Val:
    return _where(n.b, n.x, n.y, n.inputs[2])


@lowering("Select")
def _select(n: NodeContext) -> Val:
    """The condition has the shape of the others, or is a vector of one truth for each row, or one truth."""
    b, condition, x, y = n.b, n.x, n.y, n.inputs[2]
    if condition.rank not in (0, 1, x.rank) or (x.rank == 0 and condition.rank):
        raise Refusal("its condition has another rank than its values")
    if x.dims != y.dims:
        raise Refusal("its values are not known to have the same shape")
    if condition.rank == x.rank and any(
        one == 1 and other != 1 for one, other in zip(condition.dims or (), x.dims or (), strict=True)
    ):
        raise Refusal("its condition has another shape than its values")
    if condition.rank == 1 and x.rank > 1:
        condition = b.unsqueeze(condition, list(range(1, x.rank)))
    return _where(b, condition, x, y)


def _where(b: Builder, condition: Val, x: Val, y: Val) -> Val:
    kinds = ("float32", "float64", "int32", "int64", "string", "uint8", "bool")
    if x.dtype.name == "bool":
        both = b.op("And", condition, x)
        return b.op("Or", both, b.op("And", b.op("Not", condition), y))
    kind = widened(x.dtype, kinds, wraps=True)
    return b.cast(b.op("Where", condition, b.cast(x, kind), b.cast(y, kind), dtype=kind), x.dtype)


@lowering("Cast", elementwise=True)
def _cast(n: NodeContext) -> Val:
    b, x, kind = n.b, n.x, n.dtype
    if n.attr("Truncate"):
        raise Refusal("ONNX rounds where it drops digits")
    if x.dtype == kind:
        return b.op("Identity", x)
    if "string" in (x.dtype.name, kind.name):
        raise Refusal("strings are not cast")
    if kind.name in ("complex64", "complex128"):
        part = dtype_named("float32" if kind.name == "complex64" else "float64")
        found = Val(kind, n.out, None, None)
        real = b.cast(x, part)
        found.held = Complex(real, b.op("Mul", real, b.const(0, part), known=n.out))
        return found
    if kind.name == "bool" and x.dtype.name in ("float16", "bfloat16"):
        x = b.cast(x, FLOAT32)
    return b.cast(x, kind)


@lowering("CheckNumerics")
def _checked(n: NodeContext) -> Val:
    """What is checked goes on, in its own shape, which nobody gets where a number is not finite."""
    b, x = n.b, n.x
    single = b.cast(x, widened(x.dtype, FLOATS))
    is_bad = b.op("Or", b.op("IsNaN", single, dtype=BOOL), b.op("IsInf", single, dtype=BOOL))
    flat = b.concat([b.reshape(b.cast(is_bad, INT32), [-1]), b.const([0], INT32)], 0)
    most = b.op("ReduceMax", flat, keepdims=0)
    is_right = b.op("Equal", most, b.const(0, INT32), dtype=BOOL)
    return b.op("Reshape", x, b.asserted(b.shape(x), is_right), allowzero=1, known=x.known)


@lowering("EnsureShape")
def _ensured(n: NodeContext) -> Val:
    """By a reshape, which fails where the sizes are others; open sizes are copied."""
    b, shape = n.b, n.attr("shape")
    wanted = None if shape is None else shape.dims
    own = n.x.dims
    if wanted is None or (
        own is not None and all(size < 0 or size == there for size, there in zip(wanted, own, strict=True))
    ):
        return b.op("Identity", n.x)
    if 0 in wanted:
        raise Refusal("it ensures that there is nothing")
    return b.op("Reshape", n.x, b.const([max(size, 0) for size in wanted]))


# Bits

_BITS = {"BitwiseAnd": "BitwiseAnd", "BitwiseOr": "BitwiseOr", "BitwiseXor": "BitwiseXor", "Invert": "BitwiseNot"}


@lowering(" ".join(_BITS), elementwise=True)
def _bits(n: NodeContext) -> Val:
    n.allow(*COUNTED)
    return n.b.op(_BITS[n.op], *n.inputs)
