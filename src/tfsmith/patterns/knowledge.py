"""What a model's file says of a tensor: shape, type, constant value. Nothing is run; what is not said is unknown.

Sources are constants, variables (also behind reads and calls), placeholders, `_output_shapes`, the arguments of
functions, what their callers give them, and the shapes that common ops give.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfsmith.errors import InvalidModelError
from tfsmith.ir.attr import Func
from tfsmith.ir.body import Body
from tfsmith.ir.dtype import DType, dtype_named
from tfsmith.ir.function import Function
from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import ObjectGraph
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.shape import UNKNOWN, Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.passes.calls import CALLERS
from tfsmith.patterns.shape_rules import infer_shape
from tfsmith.patterns.small_values import flat_values
from tfsmith.records import record

__all__ = ["Knowledge", "small_integers"]

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
