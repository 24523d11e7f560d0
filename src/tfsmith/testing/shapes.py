"""Shapes of outputs, for the ops that the test models use; what TensorFlow's own inference gives for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, TypeAlias

from tfsmith.ir.attr import Attr
from tfsmith.ir.shape import SCALAR, UNKNOWN, Shape
from tfsmith.records import record
from tfsmith.testing.values import Inferred, Output

__all__ = ["infer"]


@record
class _Node:
    inputs: Sequence[Output]
    attrs: Mapping[str, Attr]

    def attr(self, name: str) -> Any:
        return self.attrs[name].value

    def dims(self, index: int) -> tuple[int, ...]:
        return self.inputs[index].dims

    def values(self, index: int) -> tuple[int | None, ...] | None:
        return self.inputs[index].known.values

    def integers(self, index: int) -> tuple[int, ...]:
        """The values of an input that must be known for good."""
        values = self.values(index) or ()
        return tuple(value for value in values if value is not None)


_Rule: TypeAlias = Callable[[_Node], Inferred]


def infer(op: str, inputs: Sequence[Output], attrs: Mapping[str, Attr], count: int) -> tuple[Inferred, ...]:
    """What is known of each of the `count` outputs of a node; an op that has no rule here gives unknown shapes."""
    node = _Node(inputs, attrs)
    if op == "FusedBatchNormV3":
        return (Inferred(inputs[0].shape), *(Inferred(inputs[1].shape),) * 4, Inferred(UNKNOWN))[:count]
    rule = _RULES.get(op)
    if rule is None or count != 1:
        return (Inferred(UNKNOWN),) * count
    return (rule(node),)


def _same(node: _Node) -> Inferred:
    return Inferred(node.inputs[0].shape, node.values(0))


def _scalar(_: _Node) -> Inferred:
    return Inferred(SCALAR)


def _attribute(node: _Node) -> Inferred:
    return Inferred(node.attr("shape"))


def _const(node: _Node) -> Inferred:
    tensor = node.attr("value")
    known = tensor.dtype.name in ("int32", "int64") and (tensor.shape.rank or 0) <= 1
    values = tuple(int(value) for value in tensor.numpy().reshape(-1)) if known else None
    return Inferred(tensor.shape, values)


def _broadcast(node: _Node) -> Inferred:
    if UNKNOWN in (node.inputs[0].shape, node.inputs[1].shape):
        return Inferred(UNKNOWN)
    left, right = node.dims(0), node.dims(1)
    rank = max(len(left), len(right))
    pairs = zip((1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right, strict=True)
    return Inferred(Shape(tuple(_wider(*pair) for pair in pairs)))


def _wider(left: int, right: int) -> int:
    if 1 in (left, right):
        return right if left == 1 else left
    return max(left, right)  # one that is known wins over one that is not


def _shape(node: _Node) -> Inferred:
    dims = node.dims(0)
    return Inferred(Shape((len(dims),)), tuple(None if dim < 0 else dim for dim in dims))


def _pack(node: _Node) -> Inferred:
    shape = Shape((len(node.inputs), *node.dims(0)))
    if node.inputs[0].shape.rank or not node.inputs[0].dtype.name.startswith("int"):
        return Inferred(shape)
    parts = [part.known.values for part in node.inputs]
    return Inferred(shape, tuple(part[0] if part else None for part in parts))


def _shape_from_values(values: tuple[int | None, ...] | None) -> Shape:
    if values is None:
        return UNKNOWN
    return Shape(tuple(-1 if value is None else value for value in values))


def _reshape(node: _Node) -> Inferred:
    shape = _shape_from_values(node.values(1))
    source = node.inputs[0].shape.elements
    dims = shape.dims or ()
    if source is None or dims.count(-1) != 1:
        return Inferred(shape)
    rest = source // prod(dim for dim in dims if dim >= 0)
    return Inferred(Shape(tuple(rest if dim < 0 else dim for dim in dims)))


def _fill(node: _Node) -> Inferred:
    return Inferred(_shape_from_values(node.values(0)))


def _expand_dims(node: _Node) -> Inferred:
    dims = list(node.dims(0))
    axis = node.integers(1)[0]
    dims.insert(axis if axis >= 0 else axis + len(dims) + 1, 1)
    return Inferred(Shape(tuple(dims)))


def _squeeze(node: _Node) -> Inferred:
    dropped = node.attr("squeeze_dims")
    return Inferred(Shape(tuple(dim for axis, dim in enumerate(node.dims(0)) if axis not in dropped)))


def _gather(node: _Node) -> Inferred:
    return Inferred(Shape(node.dims(1) + node.dims(0)[1:]))


def _resource_gather(node: _Node) -> Inferred:
    return Inferred(Shape(node.dims(1) + (node.inputs[0].known.held.dims or ())[1:]))


def _one_hot(node: _Node) -> Inferred:
    return Inferred(Shape(node.dims(0) + node.integers(1)))


def _matmul(node: _Node) -> Inferred:
    rows = node.dims(0)[1 if node.attr("transpose_a") else 0]
    columns = node.dims(1)[0 if node.attr("transpose_b") else 1]
    return Inferred(Shape((rows, columns)))


def _batch_matmul(node: _Node) -> Inferred:
    rows = node.dims(0)[-1 if node.attr("adj_x") else -2]
    columns = node.dims(1)[-2 if node.attr("adj_y") else -1]
    outer = tuple(_wider(*pair) for pair in zip(node.dims(0)[:-2], node.dims(1)[:-2], strict=True))
    return Inferred(Shape((*outer, rows, columns)))


def _slice(node: _Node) -> Inferred:
    sizes = zip(node.dims(0), node.integers(1), node.integers(2), strict=True)
    return Inferred(Shape(tuple(size if size >= 0 else dim - start for dim, start, size in sizes)))


def _strided_slice(node: _Node) -> Inferred:
    """Slices without ellipsis and new axes, with steps of one."""
    dims = node.dims(0)
    begins, ends = node.integers(1), node.integers(2)
    kept: list[int] = []
    ranges: list[slice] = []
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        part = slice(
            None if node.attr("begin_mask") >> axis & 1 else begin, None if node.attr("end_mask") >> axis & 1 else end
        )
        ranges.append(part)
        if node.attr("shrink_axis_mask") >> axis & 1:
            continue
        whole = part.start is None and part.stop is None
        kept.append(dims[axis] if whole or dims[axis] < 0 else len(range(dims[axis])[part]))
    kept.extend(dims[len(begins) :])
    values = node.values(0)
    return Inferred(Shape(tuple(kept)), None if values is None or len(dims) != 1 else values[ranges[0]])


def _transpose(node: _Node) -> Inferred:
    return Inferred(Shape(tuple(node.dims(0)[axis] for axis in node.integers(1))))


def _reduce(node: _Node) -> Inferred:
    dims = node.dims(0)
    axes = {axis % len(dims) for axis in node.integers(1)}
    if node.attr("keep_dims"):
        return Inferred(Shape(tuple(1 if axis in axes else dim for axis, dim in enumerate(dims))))
    return Inferred(Shape(tuple(dim for axis, dim in enumerate(dims) if axis not in axes)))


def _range(node: _Node) -> Inferred:
    values = tuple(range(*(node.integers(index)[0] for index in range(3))))
    return Inferred(Shape((len(values),)), values)


def _windowed(node: _Node, window: Sequence[int], depth: int) -> Inferred:
    """NHWC convolution and pooling."""
    batch, *spatial, _ = node.dims(0)
    strides = node.attr("strides")[1:3]
    same = node.attr("padding") == b"SAME"
    sizes = [
        -(-(dim if same else dim - size + 1) // stride) if dim >= 0 else -1
        for dim, size, stride in zip(spatial, window, strides, strict=True)
    ]
    return Inferred(Shape((batch, *sizes, depth)))


def _conv(node: _Node) -> Inferred:
    height, width, _, depth = node.dims(1)
    return _windowed(node, (height, width), depth)


def _max_pool(node: _Node) -> Inferred:
    return _windowed(node, node.attr("ksize")[1:3], node.dims(0)[-1])


def _assign(node: _Node) -> Inferred:
    return Inferred(node.inputs[0].shape if node.inputs[1].shape == UNKNOWN else node.inputs[1].shape)


def _select(node: _Node) -> Inferred:
    return Inferred(node.inputs[1].shape)


def _handle(node: _Node) -> Inferred:
    return Inferred(SCALAR, None, node.attr("shape"))


def _read(node: _Node) -> Inferred:
    return Inferred(node.inputs[0].known.held)


_SAME = ("BiasAdd", "Cast", "Identity", "LogSoftmax", "Neg", "Relu", "Rsqrt", "Softmax", "StopGradient", "Tanh")
_BROADCAST = ("Add", "AddV2", "LessEqual", "Mul", "Pow", "SquaredDifference", "Sub")
_SCALARS = ("ShardedFilename", "StaticRegexFullMatch", "StringJoin", "VarIsInitializedOp")
_RULES: MappingProxyType[str, _Rule] = MappingProxyType(
    dict.fromkeys(_SAME, _same)
    | dict.fromkeys(_BROADCAST, _broadcast)
    | dict.fromkeys(_SCALARS, _scalar)
    | dict.fromkeys(("Placeholder", "PlaceholderWithDefault", "VariableV2"), _attribute)
    | dict.fromkeys(("All", "Mean", "Sum"), _reduce)
    | dict.fromkeys(("Fill", "RandomUniform", "TruncatedNormal"), _fill)
    | {
        "Assign": _assign,
        "BatchMatMulV2": _batch_matmul,
        "Const": _const,
        "Conv2D": _conv,
        "ExpandDims": _expand_dims,
        "GatherV2": _gather,
        "MatMul": _matmul,
        "MaxPool": _max_pool,
        "OneHot": _one_hot,
        "Pack": _pack,
        "Range": _range,
        "ReadVariableOp": _read,
        "Reshape": _reshape,
        "ResourceGather": _resource_gather,
        "Select": _select,
        "Shape": _shape,
        "Slice": _slice,
        "Squeeze": _squeeze,
        "StridedSlice": _strided_slice,
        "Transpose": _transpose,
        "VarHandleOp": _handle,
    }
)
