"""What a model's file says of a tensor: shape, type, constant value. Nothing is run; what is not said is unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import prod
from types import MappingProxyType

from tfsmith.errors import InvalidModelError
from tfsmith.ir.attr import Func
from tfsmith.ir.body import Body
from tfsmith.ir.dtype import DType, dtype_named
from tfsmith.ir.function import Function
from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import ObjectGraph
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.shape import SCALAR, UNKNOWN, Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.limits import MAX_RANK
from tfsmith.passes.inline import CALLERS
from tfsmith.patterns.query import flat_values
from tfsmith.records import record

__all__ = ["SAME_SHAPE", "infer_shape", "Knowledge", "small_integers"]

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


_DEPTH = 50
"""How many nodes are followed back for one question; what lies further is unknown."""
_SMALL = 4096
"""Bytes of a constant that is read to tell a shape."""
_PASS_ON = frozenset({"Identity", "StopGradient", "Snapshot", "GuaranteeConst", "PreventGradient"})
_HAND_ON = frozenset({"Identity", "Enter", "Switch", "RefIdentity", "RefEnter", "RefSwitch"})
_WITH_SHAPE = frozenset({"VariableV2", "Variable", "Placeholder", "PlaceholderV2", "TemporaryVariable"})
_READS = frozenset({"ReadVariableOp"})
_LOOPS = frozenset({"While", "StatelessWhile"})


@record
class _Call:
    """A place where a function is called: in which body, by which node, and which input is its first argument."""

    body: Body
    node: Node
    first: int


@record
class _Variable:
    """What a handle leads to."""

    shape: Shape


class Knowledge:
    """Answers about the tensors of a graph and its functions. Answers are kept; the model never changes.

    Args:
        graph: The graph, with its library.
        objects: What TensorFlow 2 saved of the Python objects: it knows the variables that functions capture.
    """

    def __init__(self, graph: Graph, objects: ObjectGraph | None = None) -> None:
        self._graph = graph
        self._objects = objects
        self._calls: dict[str, list[_Call]] | None = None
        self._shapes: dict[tuple[str | None, Endpoint], Shape] = {}

    def shape(self, body: Body, tensor: Endpoint) -> Shape:
        """The shape of a tensor, as far as it is known."""
        return self._shape(body, tensor, 0)

    def dtype(self, body: Body, tensor: Endpoint) -> DType | None:
        """The type of a tensor; None where neither op, attributes nor arguments say it."""
        node = body.by_name.get(tensor.node)
        if node is None:
            return _argument_type(body, tensor.node)
        op = body.op_def(node.op)
        if op is None:
            return None
        try:
            types = op.output_types(node.attrs)
        except InvalidModelError:
            return None
        return types[tensor.output] if 0 <= tensor.output < len(types) else None

    def constant(self, body: Body, tensor: Endpoint) -> Tensor | None:
        """The value of a tensor that is a constant, also behind Identity or given by the only caller; not read."""
        for _ in range(_DEPTH):
            node = body.by_name.get(tensor.node)
            if node is None:
                calls = self._callers(body, tensor.node)
                if calls is None or len(calls) != 1 or (isinstance(body, Function) and self._is_exported(body)):
                    return None
                body, tensor = calls[0]
            elif node.op == "Const":
                found = node.attrs.get("value")
                return found.value if found is not None and found.kind == "tensor" else None
            elif node.op in _PASS_ON and node.inputs:
                tensor = body.resolve(node.inputs[0])
            else:
                return None
        return None

    def integers(self, body: Body, tensor: Endpoint) -> tuple[int, ...] | None:
        """The values of a small constant of integers, flat; reads it."""
        found = self.constant(body, tensor)
        return None if found is None else small_integers(found)

    def _shape(self, body: Body, tensor: Endpoint, depth: int) -> Shape:
        key = (body.name if isinstance(body, Function) else None, tensor)
        known = self._shapes.get(key)
        if known is None:
            if depth > _DEPTH:
                return UNKNOWN
            known = self._shapes[key] = self._find_shape(body, tensor, depth)
        return known

    def _find_shape(self, body: Body, tensor: Endpoint, depth: int) -> Shape:
        node = body.by_name.get(tensor.node)
        if node is None:
            return self._argument_shape(body, tensor.node, depth)
        said = _said(node, tensor.output)
        if said.is_static:
            return said
        if node.op in _READS and node.inputs:
            variable = self._variable(body, body.resolve(node.inputs[0]))
            found = UNKNOWN if variable is None else variable.shape
        elif node.op in CALLERS or node.op in self._graph.library:
            found = self._result_shape(node, tensor.output, depth)
        else:
            inputs = [body.resolve(text) for text in node.data_inputs]
            found = infer_shape(
                node,
                tensor.output,
                lambda number: self._shape(body, inputs[number], depth + 1),
                lambda number: self._numbers(node, body, inputs[number]),
            )
        return _merged(said, found)

    def _numbers(self, node: Node, body: Body, tensor: Endpoint) -> tuple[int, ...] | None:
        """What `integers` gives; of the sizes that a Reshape or Fill asks for, also some of them: -1 for the others."""
        source = body.by_name.get(tensor.node)
        if source is None or source.op != "Pack" or node.op not in ("Reshape", "Fill"):
            return self.integers(body, tensor)
        sizes = [self.integers(body, body.resolve(text)) for text in source.data_inputs]
        return tuple(size[0] if size is not None and len(size) == 1 else -1 for size in sizes)

    def _argument_shape(self, body: Body, name: str, depth: int) -> Shape:
        if not isinstance(body, Function) or name not in body.args:
            return UNKNOWN
        number = body.args.index(name)
        attrs = body.part.value.arg_attrs.get(number, {})
        said = _first_shape(attrs.get("_output_shapes"), 0)
        said = _merged(said, _first_shape(body.attrs.get("_input_shapes"), number))
        calls = self._callers(body, name)
        if said.is_static or not calls or self._is_exported(body):
            return said
        found = {self._shape(caller, given, depth + 1) for caller, given in calls}
        return _merged(said, found.pop()) if len(found) == 1 else said

    def _result_shape(self, node: Node, output: int, depth: int) -> Shape:
        names = [func.name for func in _functions(node)] or [node.op]
        if node.op in _LOOPS or any(name not in self._graph.library for name in names):
            return UNKNOWN
        found: set[Shape] = set()
        for name in names:
            function = self._graph.library[name]
            results = function.signature.outputs
            if output >= len(results) or results[output].name not in function.ret:
                return UNKNOWN
            given = function.resolve(function.ret[results[output].name])
            found.add(self._shape(function, given, depth + 1))
        return found.pop() if len(found) == 1 else UNKNOWN

    def _variable(self, body: Body, tensor: Endpoint) -> _Variable | None:
        """The variable behind a handle, through what hands it on and through calls that agree."""
        todo, seen = [(body, tensor)], 0
        found: set[_Variable] = set()
        while todo:
            seen += 1
            if seen > 10 * _DEPTH:
                return None
            body, tensor = todo.pop()
            node = body.by_name.get(tensor.node)
            if node is None:
                captured = self._captured(body, tensor.node)
                if captured is not None:
                    found.add(captured)
                    continue
                calls = self._callers(body, tensor.node)
                if not calls:
                    return None
                todo += calls
            elif node.op == "VarHandleOp":
                found.add(_Variable(_first_shape(node.attrs.get("shape"), 0)))
            elif node.op in _HAND_ON and node.inputs:
                todo.append((body, body.resolve(node.inputs[0])))
            else:
                return None
        return found.pop() if len(found) == 1 else None

    def _captured(self, body: Body, name: str) -> _Variable | None:
        """The variable that a function of the Python objects captures as its last arguments."""
        if self._objects is None or not isinstance(body, Function) or name not in body.args:
            return None
        bound = self._objects.concrete_functions.get(body.name, {}).get("bound_inputs", ())
        at = body.args.index(name) - (len(body.args) - len(bound))
        if at < 0 or not isinstance(bound[at], int) or not 0 <= bound[at] < len(self._objects.nodes):
            return None
        captured = self._objects.nodes[bound[at]]
        if captured.kind != "variable":
            return None
        return _Variable(_plain_shape(captured.details.get("shape")))

    def _is_exported(self, function: Function) -> bool:
        """Whether Python may call it, with arguments that no node gives."""
        return self._objects is not None and function.name in self._objects.concrete_functions

    def _callers(self, body: Body, name: str) -> list[tuple[Body, Endpoint]] | None:
        """What the callers of a function give for an argument; None if that cannot be told."""
        if not isinstance(body, Function) or name not in body.args:
            return None
        signature = body.signature
        if any(arg.number_attr or arg.type_list_attr for arg in signature.inputs):
            return None
        number = body.args.index(name)
        found: list[tuple[Body, Endpoint]] = []
        for call in self._call_sites().get(body.name, ()):
            data = call.node.data_inputs
            at = call.first + number
            if at >= len(data) or (call.node.op in _LOOPS and not self._stays(call.node, number)):
                return None
            found.append((call.body, call.body.resolve(data[at])))
        return found

    def _stays(self, loop: Node, number: int) -> bool:
        """Whether a loop hands this value on unchanged from turn to turn."""
        func = loop.get("body")
        function = self._graph.library.get(func.name) if isinstance(func, Func) else None
        if function is None or number >= min(len(function.args), len(function.signature.outputs)):
            return False
        text = function.ret.get(function.signature.outputs[number].name, "")
        for _ in range(_DEPTH):
            source = function.resolve(text).node
            if source == function.args[number]:
                return True
            node = function.by_name.get(source)
            if node is None or node.op != "Identity" or not node.inputs:
                return False
            text = node.inputs[0]
        return False

    def _call_sites(self) -> dict[str, list[_Call]]:
        """All calls by the name of what they call; made on first use, linear in all nodes."""
        if self._calls is None:
            calls: dict[str, list[_Call]] = {}
            library = self._graph.library
            bodies: list[Body] = [self._graph, *library.values()]
            for body in bodies:
                for node in body:
                    if node.op in library:
                        calls.setdefault(node.op, []).append(_Call(body, node, 0))
                    elif node.op in CALLERS:
                        for func in _functions(node):
                            calls.setdefault(func.name, []).append(_Call(body, node, CALLERS[node.op][0]))
            self._calls = calls
        return self._calls


def small_integers(tensor: Tensor) -> tuple[int, ...] | None:
    """The values of a small tensor of 32-bit or 64-bit integers, flat, or None; reads it."""
    if tensor.dtype not in (dtype_named("int32"), dtype_named("int64")) or tensor.nbytes > _SMALL:
        return None
    return tuple(int(value) for value in flat_values(tensor))


def _functions(node: Node) -> Iterator[Func]:
    if node.op not in CALLERS:
        return
    for key in CALLERS[node.op][2]:
        found = node.attrs.get(key)
        if found is not None and found.kind == "func":
            yield found.value
        elif found is not None and found.kind == "list(func)":
            yield from found.value


def _argument_type(body: Body, name: str) -> DType | None:
    if not isinstance(body, Function):
        return None
    return next((arg.type for arg in body.signature.inputs if arg.name == name), None)


def _said(node: Node, output: int) -> Shape:
    """The shape that the node itself names."""
    if node.op == "Const":
        found = node.attrs.get("value")
        return found.value.shape if found is not None and found.kind == "tensor" else UNKNOWN
    said = _first_shape(node.attrs.get("_output_shapes"), output)
    if node.op in _WITH_SHAPE:
        return _merged(said, _first_shape(node.attrs.get("shape"), 0))
    return said


def _first_shape(attr: object, index: int) -> Shape:
    """The shape in an attribute, or number `index` of a list of them."""
    value = getattr(attr, "value", None)
    if isinstance(value, tuple):
        value = value[index] if index < len(value) else None
    return value if isinstance(value, Shape) else UNKNOWN


def _merged(one: Shape, other: Shape) -> Shape:
    """What both say together; where they contradict each other, the first counts."""
    if one.dims is None:
        return other
    if other.dims is None or len(one.dims) != len(other.dims):
        return one
    return Shape(tuple(new if dim < 0 else dim for dim, new in zip(one.dims, other.dims, strict=True)))


def _plain_shape(value: object) -> Shape:
    """A TensorShapeProto as plain data."""
    if not isinstance(value, dict) or value.get("unknown_rank"):
        return UNKNOWN
    dims = value.get("dim", ())
    return Shape(tuple(int(dim.get("size", 0)) for dim in dims if isinstance(dim, dict)))
