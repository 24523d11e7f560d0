"""Computes what follows from the shapes of inputs: where these are fixed, `Shape` and what is made of it are constants.

Graphs with an open batch size ask for it with `Shape` and build the shapes of `Reshape` and `Fill` from it. When the
size is fixed, that is known before anything runs, and importers that lack such ops can do without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.ir.dtype import DType
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Node
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, Tensor

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FOLDED_OPS", "fold_shapes"]

Dims = tuple[int, ...]
_INTEGERS = ("int32", "int64")
_SMALL = 1 << 10
"""Bytes of integers that are looked at: shapes are small."""
_MOST_FILLED = 1 << 24
"""Bytes of a constant in place of a Fill; larger ones stay as they are."""
_LIMIT = 1 << 31
_CONTROL_FLOW = frozenset({"Switch", "RefSwitch", "_SwitchN", "Enter", "RefEnter"})


def fold_shapes(graph: Graph) -> Graph:
    """Another graph in which nodes that only depend on the sizes of inputs are constants, under their names. Linear.

    A constant keeps the control edges of the node whose place it takes. In graphs with loops or conditions of
    TensorFlow 1, nodes with control edges, and what they lead to, stay as they are: whether they run matters there.
    What nothing needs any more is still there; `prune` takes it away. Reads constants of a few integers.
    """
    known = _Known(graph)
    changes = {node.name: found for node in graph.topological_order() if (found := known.look(node)) is not None}
    return graph.map_nodes(changes) if changes else graph


class _Known:
    """What is known of the nodes that were looked at: the shape of their first output, and integers in it."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._is_plain = not any(node.op in _CONTROL_FLOW for node in graph)
        self._shapes: dict[str, Dims] = {}
        self._values: dict[str, NDArray[Any]] = {}

    def look(self, node: Node) -> Node | None:
        """Takes note of a node whose sources were looked at; the constant that can take its place, if one can."""
        if node.control_inputs and not self._is_plain:
            return None
        if node.op == "Placeholder":
            self._note_shape(node, node.get("shape"))
            return None
        if node.op == "Const":
            self._note_constant(node)
            return None
        sources = [source for source in self._graph.inputs_of(node) if source.output != CONTROL]
        if not sources or any(source.output != 0 for source in sources):
            return None
        values = [self._values.get(source.node) for source in sources]
        shapes = [self._shapes.get(source.node) for source in sources]
        shape = _SHAPES.get(node.op, _no_shape)(node, values, shapes)
        if shape is not None and all(0 <= dim < _LIMIT for dim in shape):
            self._shapes[node.name] = shape
        value = _VALUES[node.op](node, values, shapes) if node.op in _VALUES else None
        if value is not None and value.nbytes <= _SMALL:
            self._values[node.name] = value
            self._shapes[node.name] = value.shape
            return _constant(node, ArrayTensor.of(value))
        return self._filled(node) if node.op == "Fill" else None

    def _note_shape(self, node: Node, shape: Any) -> None:
        if isinstance(shape, Shape) and shape.dims is not None and shape.is_static:
            self._shapes[node.name] = shape.dims

    def _note_constant(self, node: Node) -> None:
        tensor = _tensor(node)
        if tensor is None:
            return
        self._note_shape(node, tensor.shape)
        if tensor.dtype.name in _INTEGERS and tensor.nbytes <= _SMALL:
            self._values[node.name] = tensor.numpy()

    def _filled(self, node: Node) -> Node | None:
        dims = self._shapes.get(node.name)
        sources = [source for source in self._graph.inputs_of(node) if source.output != CONTROL]
        value = _tensor(self._graph[sources[1].node]) if len(sources) > 1 else None
        if dims is None or value is None or value.shape.dims != () or not value.dtype.itemsize:
            return None
        if prod(dims) * value.dtype.itemsize > _MOST_FILLED or not prod(dims):
            return None
        return _constant(node, FilledTensor(value.dtype, Shape(dims), value.numpy().tobytes()))


def _tensor(node: Node) -> Tensor | None:
    found = node.peek("value") if node.op == "Const" else None
    return found.value if found is not None and found.kind == "tensor" else None


def _constant(node: Node, value: ArrayTensor | FilledTensor) -> Node:
    controls = tuple(text for text in node.inputs if text.startswith("^"))
    return Node(node.name, "Const", controls, {"dtype": value.dtype, "value": value}, node.device)


Values = Sequence["NDArray[Any] | None"]
Shapes = Sequence["Dims | None"]


def _no_shape(node: Node, values: Values, shapes: Shapes) -> Dims | None:
    return None


def _same(node: Node, values: Values, shapes: Shapes) -> Dims | None:
    return shapes[0]


def _broadcast(node: Node, values: Values, shapes: Shapes) -> Dims | None:
    one, other = shapes if len(shapes) == 2 else (None, None)
    if one is None or other is None:
        return None
    rank = max(len(one), len(other))
    pairs = list(zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True))
    if any(left != right and 1 not in (left, right) for left, right in pairs):
        return None
    return tuple(right if left == 1 else left for left, right in pairs)


def _reshaped(node: Node, values: Values, shapes: Shapes) -> Dims | None:
    wanted = values[1] if len(values) == 2 else None
    if wanted is None or wanted.ndim != 1:
        return None
    dims = tuple(int(dim) for dim in wanted)
    if -1 not in dims:
        return dims
    rest = prod(dim for dim in dims if dim != -1)
    if shapes[0] is None or dims.count(-1) > 1 or rest <= 0 or prod(shapes[0]) % rest:
        return None
    return tuple(prod(shapes[0]) // rest if dim == -1 else dim for dim in dims)


def _expanded(node: Node, values: Values, shapes: Shapes) -> Dims | None:
    axis = values[1] if len(values) == 2 else None
    if shapes[0] is None or axis is None or axis.size != 1:
        return None
    dims, at = shapes[0], int(axis.reshape(-1)[0])
    at = at + len(dims) + 1 if at < 0 else at
    return (*dims[:at], 1, *dims[at:]) if 0 <= at <= len(dims) else None


def _reduced(node: Node, values: Values, shapes: Shapes) -> Dims | None:
    axes = values[1] if len(values) == 2 else None
    if shapes[0] is None or axes is None:
        return None
    rank = len(shapes[0])
    gone = {int(axis) % rank for axis in axes.reshape(-1)} if rank else set()
    if node.get("keep_dims"):
        return tuple(1 if number in gone else dim for number, dim in enumerate(shapes[0]))
    return tuple(dim for number, dim in enumerate(shapes[0]) if number not in gone)


def _dims_of_fill(node: Node, values: Values, shapes: Shapes) -> Dims | None:
    return tuple(int(dim) for dim in values[0]) if values[0] is not None and values[0].ndim == 1 else None


Rule = Callable[[Node, Values, Shapes], "Dims | None"]
_BINARY = ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum", "RealDiv", "SquaredDifference", "Pow")
_UNARY = (
    "Identity",
    "StopGradient",
    "Cast",
    "Neg",
    "Relu",
    "Tanh",
    "Erf",
    "Exp",
    "Sqrt",
    "Rsqrt",
    "Softmax",
    "BiasAdd",
)
_SHAPES: Mapping[str, Rule] = MappingProxyType(
    {
        **dict.fromkeys(_UNARY, _same),
        **dict.fromkeys(_BINARY, _broadcast),
        **dict.fromkeys(("Mean", "Sum", "Max", "Min"), _reduced),
        "Reshape": _reshaped,
        "ExpandDims": _expanded,
        "Fill": _dims_of_fill,
    }
)


def _integers(values: Sequence[int] | int, kind: Any) -> NDArray[Any] | None:
    import numpy

    if not isinstance(kind, DType) or kind.base.name not in _INTEGERS:
        return None
    if kind.base.name == "int32" and any(not -_LIMIT <= one < _LIMIT for one in numpy.atleast_1d(values).tolist()):
        return None
    return numpy.array(values, kind.base.numpy())


def _shape_of(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    return None if shapes[0] is None else _integers(shapes[0], _out_type(node))


def _size_of(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    return None if shapes[0] is None else _integers(prod(shapes[0]), _out_type(node))


def _out_type(node: Node) -> Any:
    from tfsmith.ir.dtype import dtype_named

    return node.get("out_type", dtype_named("int32"))


def _handed_on(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    return values[0]


def _cast(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    return None if values[0] is None else _integers(values[0].tolist(), node.get("DstT"))


def _packed(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    import numpy

    scalars = [value for value in values if value is not None and value.ndim == 0]
    if len(scalars) != len(values) or node.get("axis", 0) != 0 or len({value.dtype for value in scalars}) != 1:
        return None
    return numpy.stack(scalars)


def _joined(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    import numpy

    parts = [value for value in values[:-1] if value is not None and value.ndim == 1]
    axis = values[-1]
    if (
        len(parts) != len(values) - 1
        or not parts
        or axis is None
        or axis.size != 1
        or int(axis.reshape(-1)[0]) not in (0, -1)
    ):
        return None
    return numpy.concatenate(parts) if len({part.dtype for part in parts}) == 1 else None


def _computed(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    import numpy

    one, other = values if len(values) == 2 else (None, None)
    if (
        one is None
        or other is None
        or one.dtype != other.dtype
        or _broadcast(node, (), (one.shape, other.shape)) is None
    ):
        return None
    with numpy.errstate(all="ignore"):
        return numpy.asarray(getattr(numpy, _FUNCTIONS[node.op])(one, other))


def _product(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    import numpy

    one, axes = values if len(values) == 2 else (None, None)
    if (
        one is None
        or axes is None
        or one.ndim != 1
        or axes.reshape(-1).tolist() not in ([0], [-1])
        or node.get("keep_dims")
    ):
        return None
    return _integers(prod(numpy.asarray(one).tolist()), node.get("T"))


def _sliced(node: Node, values: Values, shapes: Shapes) -> NDArray[Any] | None:
    """A slice of a vector: what is asked of a shape."""
    import numpy

    if len(values) != 4 or any(value is None or value.shape != (1,) for value in values[1:]):
        return None
    vector, begin, end, stride = values
    if vector is None or begin is None or end is None or stride is None or vector.ndim != 1:
        return None
    if node.get("ellipsis_mask", 0) or node.get("new_axis_mask", 0) or stride[0] == 0:
        return None
    first = int(begin[0])
    if node.get("shrink_axis_mask", 0) & 1:
        return numpy.asarray(vector[first]) if -len(vector) <= first < len(vector) else None
    start = None if node.get("begin_mask", 0) & 1 else first
    stop = None if node.get("end_mask", 0) & 1 else int(end[0])
    return numpy.asarray(vector[start : stop : int(stride[0])])


_FUNCTIONS = MappingProxyType({"Add": "add", "AddV2": "add", "Sub": "subtract", "Mul": "multiply"})
_VALUES: Mapping[str, Callable[[Node, Values, Shapes], NDArray[Any] | None]] = MappingProxyType(
    {
        "Shape": _shape_of,
        "Size": _size_of,
        "Identity": _handed_on,
        "Cast": _cast,
        "Pack": _packed,
        "ConcatV2": _joined,
        "StridedSlice": _sliced,
        "Prod": _product,
        **dict.fromkeys(_FUNCTIONS, _computed),
    }
)
FOLDED_OPS = frozenset(_VALUES) | {"Fill"}
"""The ops that may be gone afterwards."""
