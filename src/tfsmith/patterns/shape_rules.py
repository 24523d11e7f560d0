"""The shapes that common ops give, as far as the shapes of their inputs say it. Whatever is not listed is unknown."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

from tfsmith.ir.node import Node
from tfsmith.ir.shape import SCALAR, UNKNOWN, Shape
from tfsmith.limits import MAX_RANK

__all__ = ["SAME_SHAPE", "infer_shape"]

SAME_SHAPE = frozenset(
    {"Identity", "StopGradient", "Snapshot", "PreventGradient", "CheckNumerics", "Enter", "RefEnter", "Exit", "RefExit"}
    | {"RefIdentity", "Switch", "RefSwitch", "PlaceholderWithDefault", "Cast", "Neg", "Abs", "Sign", "Sqrt", "Rsqrt"}
    | {"Square", "Exp", "Expm1", "Log", "Log1p", "Erf", "Erfc", "Tanh", "Sigmoid", "Relu", "Relu6", "Elu", "Selu"}
    | {"LeakyRelu", "Gelu", "Softplus", "Softsign", "Softmax", "LogSoftmax", "Reciprocal", "Inv", "Floor", "Round"}
    | {"ZerosLike", "OnesLike", "BiasAdd", "Cumsum", "LogicalNot", "GuaranteeConst", "FusedBatchNormV3"}
    | {"FusedBatchNorm", "FusedBatchNormV2"}
)
"""Their first output has the shape of their first input."""
_BROADCAST = frozenset(
    {"Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "FloorDiv", "DivNoNan", "MulNoNan", "Maximum", "Minimum", "Pow"}
    | {"SquaredDifference", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd"}
    | {"LogicalOr", "FloorMod", "Atan2"}
)
_REDUCTIONS = frozenset({"Mean", "Sum", "Max", "Min", "Prod", "All", "Any"})

ShapeOf = Callable[[int], Shape]
"""The shape of an input, by its number."""
NumbersOf = Callable[[int], "tuple[int, ...] | None"]
"""The values of an input that is a small constant of integers, flat; None if it is none."""


def infer_shape(node: Node, output: int, shape_of: ShapeOf, numbers_of: NumbersOf) -> Shape:
    """The shape of an output; unknown where the op is not in the list, or its inputs do not say."""
    op, count = node.op, len(node.data_inputs)
    if op in SAME_SHAPE:
        return shape_of(0) if count and (output == 0 or op in ("Switch", "RefSwitch")) else UNKNOWN
    if output:
        return UNKNOWN
    if op in _BROADCAST and count == 2:
        return _broadcast(shape_of(0), shape_of(1))
    if op in _REDUCTIONS and count == 2:
        return _reduced(node, shape_of(0), numbers_of(1))
    rule = _RULES.get(op)
    return UNKNOWN if rule is None or count < rule[0] else rule[1](node, shape_of, numbers_of)


def _broadcast(left: Shape, right: Shape) -> Shape:
    if left.dims is None or right.dims is None:
        return UNKNOWN
    rank = max(len(left.dims), len(right.dims))
    padded = [(1,) * (rank - len(dims)) + dims for dims in (left.dims, right.dims)]
    return Shape(tuple(_common(one, other) for one, other in zip(*padded, strict=True)))


def _common(one: int, other: int) -> int:
    if one == 1 or one == other:
        return other
    if other == 1 or other < 0 < one:
        return one
    return other if one < 0 and other > 1 else -1


def _reduced(node: Node, shape: Shape, axes: tuple[int, ...] | None) -> Shape:
    keeps = bool(node.get("keep_dims", False))
    if shape.dims is None:
        return UNKNOWN
    rank = len(shape.dims)
    if axes is None:
        return Shape((-1,) * rank) if keeps else UNKNOWN
    gone = {axis + rank if axis < 0 else axis for axis in axes}
    if keeps:
        return Shape(tuple(1 if axis in gone else dim for axis, dim in enumerate(shape.dims)))
    return Shape(tuple(dim for axis, dim in enumerate(shape.dims) if axis not in gone))


def _matmul(node: Node, shape_of: ShapeOf, _: NumbersOf) -> Shape:
    left, right = shape_of(0).dims, shape_of(1).dims
    flips = (bool(node.get("transpose_a", False)), bool(node.get("transpose_b", False)))
    rows = -1 if left is None or len(left) != 2 else left[1 if flips[0] else 0]
    columns = -1 if right is None or len(right) != 2 else right[0 if flips[1] else 1]
    return Shape((rows, columns))


def _batch_matmul(node: Node, shape_of: ShapeOf, _: NumbersOf) -> Shape:
    left, right = shape_of(0).dims, shape_of(1).dims
    if left is None or right is None or min(len(left), len(right)) < 2:
        return UNKNOWN
    outer = _broadcast(Shape(left[:-2]), Shape(right[:-2])).dims or ()
    rows = left[-1] if node.get("adj_x", False) else left[-2]
    columns = right[-2] if node.get("adj_y", False) else right[-1]
    return Shape((*outer, rows, columns))


def _reshape(node: Node, shape_of: ShapeOf, numbers_of: NumbersOf) -> Shape:
    dims, size = numbers_of(1), shape_of(0).elements
    if dims is None:
        rank = shape_of(1).elements
        return UNKNOWN if rank is None or rank > MAX_RANK else Shape((-1,) * rank)
    known = prod(dim for dim in dims if dim >= 0)
    if dims.count(-1) == 1 and size is not None and known and size % known == 0:
        dims = tuple(size // known if dim < 0 else dim for dim in dims)
    return Shape(tuple(max(-1, dim) for dim in dims))


def _transpose(node: Node, shape_of: ShapeOf, numbers_of: NumbersOf) -> Shape:
    dims, order = shape_of(0).dims, numbers_of(1)
    if dims is None:
        return UNKNOWN if order is None else Shape((-1,) * len(order))
    if order is None or sorted(order) != list(range(len(dims))):
        return Shape((-1,) * len(dims))
    return Shape(tuple(dims[axis] for axis in order))


def _expand(node: Node, shape_of: ShapeOf, numbers_of: NumbersOf) -> Shape:
    dims, axes = shape_of(0).dims, numbers_of(1)
    if dims is None or axes is None or len(axes) != 1:
        return UNKNOWN
    at = axes[0] + len(dims) + 1 if axes[0] < 0 else axes[0]
    return Shape((*dims[:at], 1, *dims[at:]))


def _squeeze(node: Node, shape_of: ShapeOf, _: NumbersOf) -> Shape:
    dims, found = shape_of(0).dims, node.attrs.get("squeeze_dims")
    axes: tuple[int, ...] = found.value if found is not None and found.kind == "list(int)" else ()
    if dims is None or (not axes and -1 in dims):
        return UNKNOWN
    gone = {axis + len(dims) if axis < 0 else axis for axis in axes}
    return Shape(tuple(dim for axis, dim in enumerate(dims) if (axis not in gone if gone else dim != 1)))


def _gather(node: Node, shape_of: ShapeOf, numbers_of: NumbersOf) -> Shape:
    table, indices = shape_of(0).dims, shape_of(1).dims
    axes = numbers_of(2) if len(node.data_inputs) > 2 else (0,)
    if table is None or indices is None or axes != (0,) or node.get("batch_dims", 0):
        return UNKNOWN
    return Shape((*indices, *table[1:]))


def _shape(node: Node, shape_of: ShapeOf, _: NumbersOf) -> Shape:
    rank = shape_of(0).rank
    return Shape((-1 if rank is None else rank,))


def _scalar(node: Node, shape_of: ShapeOf, _: NumbersOf) -> Shape:
    return SCALAR


def _fill(node: Node, shape_of: ShapeOf, numbers_of: NumbersOf) -> Shape:
    dims = numbers_of(0)
    return UNKNOWN if dims is None else Shape(tuple(max(-1, dim) for dim in dims))


_RULES: Mapping[str, tuple[int, Callable[[Node, ShapeOf, NumbersOf], Shape]]] = MappingProxyType(
    {
        "MatMul": (2, _matmul),
        "_FusedMatMul": (2, _matmul),
        "BatchMatMul": (2, _batch_matmul),
        "BatchMatMulV2": (2, _batch_matmul),
        "BatchMatMulV3": (2, _batch_matmul),
        "Reshape": (2, _reshape),
        "Transpose": (2, _transpose),
        "ExpandDims": (2, _expand),
        "Squeeze": (1, _squeeze),
        "GatherV2": (3, _gather),
        "Gather": (2, _gather),
        "Shape": (1, _shape),
        "Size": (1, _scalar),
        "Rank": (1, _scalar),
        "Fill": (2, _fill),
    }
)
"""For an op: how many inputs it must have, and its rule."""
