"""Shape inference: what a graph says of its tensors before anything runs: shapes, types, constants, elements of shapes.

It starts at the tensor that is asked for and goes back, through functions and their callers. Each node is looked at
once. Nothing is run; what is not said is unknown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from tfsmith.errors import InvalidModelError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.model import ObjectGraph
from tfsmith.ir.node import Attr, Endpoint, Func, Node
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import UNKNOWN, DType, Shape
from tfsmith.ops import CALLS, LOOPS, PASSES_ON, PLACEHOLDERS
from tfsmith.ops.shapes import check_run, computed_ops, infer, refusing_ops
from tfsmith.ops.sizes import NOTHING, Conflict, Dims, Known
from tfsmith.records import record

__all__ = ["Inference", "ShapeConflict", "find_conflicts"]

_DEPTH = 50
"""How many nodes are followed back to find a constant."""
_SCALARS_UNKNOWN = 21
"""Up to this version of the producer, a Placeholder's shape of no dimensions means that it is unknown."""


@record
class ShapeConflict:
    """Shapes that no run could have.

    Attributes:
        where: The graph or function, in words.
        node: The node whose inputs do not fit.
        op: Its op.
        what: What does not fit.
    """

    where: str
    node: str
    op: str
    what: str

    def __str__(self) -> str:
        return f"{self.op} {self.node!r}: {self.what}"


def find_conflicts(graph: Graph) -> tuple[ShapeConflict, ...]:
    """The nodes of a graph and its functions whose inputs cannot have the shapes that follow from its inputs. Linear.

    Shapes that are only noted down at nodes (`_output_shapes`) do not count.
    """
    inference = Inference(graph, trust_notes=False)
    for body in (graph, *graph.library.values()):
        for node in body:
            inference.known(body, Endpoint(node.name, 0))
            inference.check_run(body, node)
    return tuple(inference.conflicts)


@record
class _Call:
    """A place where a function is called: in which body, by which node, and which input is its first argument."""

    body: Body
    node: Node
    first: int


_ALIKE = "inputs"
"""The owner of sizes that all inputs have in common."""


class _Facts:
    """What was found in one body, by the names of its nodes and arguments."""

    __slots__ = ("inputs", "known")

    def __init__(self) -> None:
        self.known: dict[str, tuple[Known, ...]] = {}
        self.inputs: dict[str, tuple[Endpoint, ...]] = {}


class Inference:
    """What is known of the tensors of a graph and its functions. Results are kept; the model never changes.

    Open sizes of the graph's placeholders have names ("tokens.0"), so that sizes that must be equal are known to be.

    Args:
        graph: The graph, with its library.
        objects: What TensorFlow 2 saved of the Python objects: it knows the variables that functions capture.
        trust_notes: Whether shapes count that were noted down at nodes and arguments by who wrote the file.
        inside: A function that is looked at by itself: the open sizes of its arguments have names, too.
        are_alike: Whether the same axis of all inputs is taken to be equally long, as words and their mask are.

    Attributes:
        conflicts: What was found so far that cannot be.
    """

    def __init__(
        self,
        graph: Graph,
        objects: ObjectGraph | None = None,
        *,
        trust_notes: bool = True,
        inside: Function | None = None,
        are_alike: bool = False,
    ) -> None:
        self._inside = inside
        self._are_alike = are_alike
        self.conflicts: list[ShapeConflict] = []
        self._graph = graph
        self._objects = objects
        self._trust_notes = trust_notes
        self._calls: dict[str, list[_Call]] | None = None
        self._in_graph = _Facts()
        self._in_functions: dict[str, _Facts] = {}

    def _facts(self, body: Body) -> _Facts:
        """What was found in a body so far."""
        if body is self._graph or not isinstance(body, Function):  # most are, and to ask for a class takes longer
            return self._in_graph
        return self._in_functions.setdefault(body.name, _Facts())

    def inputs(self, body: Body, node: Node) -> tuple[Endpoint, ...]:
        """The tensors that a node takes."""
        inputs = (self._in_graph if body is self._graph else self._facts(body)).inputs
        found = inputs.get(node.name)
        if found is None:
            found = inputs[node.name] = tuple([body.resolve(text) for text in node.inputs if text[:1] != "^"])
        return found

    def known(self, body: Body, tensor: Endpoint) -> Known:
        """All that is known of a tensor."""
        name, output = tensor
        known = (self._in_graph if body is self._graph else self._facts(body)).known
        found = known.get(name)
        if found is None:
            self._look(body, name)
            found = known[name]
        return found[output] if 0 <= output < len(found) else NOTHING

    def check_run(self, body: Body, node: Node) -> None:
        """Notes a conflict where a node would refuse what it takes when it runs."""
        if node.op in refusing_ops():
            try:
                check_run(node.op, [self.known(body, tensor) for tensor in self.inputs(body, node)], node.attrs)
            except Conflict as conflict:
                self.conflicts.append(ShapeConflict(body.title, node.name, node.op, str(conflict)))

    def shape(self, body: Body, tensor: Endpoint) -> Shape:
        """The shape of a tensor, as far as it is known."""
        return self.known(body, tensor).shape

    def integers(self, body: Body, tensor: Endpoint) -> tuple[int, ...] | None:
        """The elements of a small tensor of integers, row by row, if they are known."""
        return self.known(body, tensor).numbers

    def dtype(self, body: Body, tensor: Endpoint) -> DType | None:
        """The type of a tensor; None where neither op, attributes nor arguments say it."""
        node = body.by_name.get(tensor.node)
        if node is None:
            return _argument_type(body, tensor.node)
        op = body.op_def(node.op)
        return None if op is None else op.output_type(node.attrs, tensor.output)

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
                return None if found is None else found.tensor
            elif node.op in PASSES_ON and node.inputs:
                tensor = body.resolve(node.inputs[0])
            else:
                return None
        return None

    def _looked(self, body: Body, name: str) -> bool:
        """Finds what is known of a node that calls nothing and whose inputs are known: most are, in a file's order."""
        node, known = body.by_name.get(name), self._facts(body).known
        if node is None or node.op in CALLS or node.op in self._graph.library:
            return False
        for source, _ in self.inputs(body, node):
            if source not in known:
                return False
        known[name] = self._outputs(body, node, self._said(node))
        return True

    def _look(self, body: Body, name: str) -> None:
        """Finds what is known of a node or argument, after all that it depends on; without recursion."""
        if self._looked(body, name):
            return
        todo: list[tuple[Body, _Facts, str, tuple[Shape, ...] | None]] = [(body, self._facts(body), name, None)]
        begun: set[tuple[_Facts, str]] = set()
        computed = computed_ops()
        while todo:
            body, facts, name, said = todo.pop()
            if name in facts.known:
                continue
            node = body.by_name.get(name)
            if said is not None:
                outputs = (self._argument(body, name),) if node is None else self._outputs(body, node, said)
                facts.known[name] = outputs
                continue
            if (facts, name) in begun:
                continue  # a circle: who asks again goes on without it
            begun.add((facts, name))
            said = () if node is None else self._said(node)
            todo.append((body, facts, name, said))
            if said and node is not None and node.op not in computed and all(shape.is_static for shape in said):
                continue
            if node is None or node.op in CALLS or node.op in self._graph.library:
                sources = (self._callers(body, name) or []) if node is None else self._results(node)
                todo += [(inner, self._facts(inner), source.node, None) for inner, source in sources]
            else:
                known = facts.known
                todo += [(body, facts, source, None) for source, _ in self.inputs(body, node) if source not in known]

    def _outputs(self, body: Body, node: Node, said: tuple[Shape, ...]) -> tuple[Known, ...]:
        if node.op in CALLS or node.op in self._graph.library:
            found = self._called(node)
        else:
            found = self._inferred(body, node, len(said))
        if node.op in PLACEHOLDERS and body is self._graph:
            found = (self._named(node, found[0]),)
        if not said:
            return tuple(found)
        if len(said) == len(found) == 1:
            return (_merged(said[0], found[0]),)
        return tuple(
            _merged(said[at], found[at] if at < len(found) else NOTHING) if at < len(said) else found[at]
            for at in range(max(len(said), len(found)))
        )

    def _inferred(self, body: Body, node: Node, said: int) -> tuple[Known, ...]:
        definition = body.op_def(node.op)
        try:
            count = max(said, 1) if definition is None else definition.output_count(node.attrs)
        except InvalidModelError:
            return (NOTHING,)
        known = self._facts(body).known
        inputs = [
            found[output] if 0 <= output < len(found := known.get(name, ())) else NOTHING
            for name, output in self.inputs(body, node)
        ]
        try:
            return infer(node.op, inputs, node.attrs, max(count, 1))
        except Conflict as conflict:
            self.conflicts.append(ShapeConflict(body.title, node.name, node.op, str(conflict)))
            return (NOTHING,) * count

    def _now(self, body: Body, tensor: Endpoint) -> Known:
        """What was found of a tensor; nothing in a circle."""
        found = self._facts(body).known.get(tensor.node, ())
        return found[tensor.output] if 0 <= tensor.output < len(found) else NOTHING

    def _named(self, node: Node, known: Known) -> Known:
        """A placeholder, with names for its open sizes."""
        if known.dims is None or (not known.dims and self._graph.versions.producer <= _SCALARS_UNKNOWN):
            return NOTHING
        return _with_names(_ALIKE if self._are_alike else node.name, known)

    def _argument(self, body: Body, name: str) -> Known:
        found = self._given(body, name)
        return _with_names(_ALIKE if self._are_alike else name, found) if body is self._inside else found

    def _given(self, body: Body, name: str) -> Known:
        if not isinstance(body, Function) or name not in body.args:
            return NOTHING
        captured = self._captured(body, name)
        if captured is not None:
            return captured
        number = body.args.index(name)
        said = UNKNOWN
        if self._trust_notes:
            attrs = body.part.value.arg_attrs.get(number, {})
            said = _shape_in(attrs.get("_output_shapes"), 0)
            said = _merged(said, Known.of(_shape_in(body.attrs.get("_input_shapes"), number))).shape
        calls = self._callers(body, name)
        if not calls:
            return Known.of(said)
        given = _agreed([self._now(caller, tensor) for caller, tensor in calls])
        if self._is_exported(body):
            given = Known(held=given.held)
        return _merged(said, given)

    def _results(self, node: Node) -> list[tuple[Body, Endpoint]]:
        """The results of all functions that a node calls; none for a loop, or where one is not there."""
        found: list[tuple[Body, Endpoint]] = []
        for function in self._functions(node):
            found += [(function, function.resolve(text)) for text in function.ret.values()]
        return found

    def _functions(self, node: Node) -> list[Function]:
        names = [func.name for func in _functions(node)] or [node.op]
        if node.op in LOOPS or any(name not in self._graph.library for name in names):
            return []
        return [self._graph.library[name] for name in names]

    def _called(self, node: Node) -> tuple[Known, ...]:
        branches: list[list[Known]] = []
        for function in self._functions(node):
            texts = [function.ret.get(result.name) for result in function.signature.outputs]
            branches.append(
                [NOTHING if text is None else self._now(function, function.resolve(text)) for text in texts]
            )
        return tuple(_agreed(results) for results in zip(*branches, strict=False))

    def _captured(self, body: Function, name: str) -> Known | None:
        """The variable that a function of the Python objects captures as its last arguments."""
        if self._objects is None:
            return None
        bound = self._objects.concrete_functions.get(body.name, {}).get("bound_inputs", ())
        at = body.args.index(name) - (len(body.args) - len(bound))
        if at < 0 or not isinstance(bound[at], int) or not 0 <= bound[at] < len(self._objects.nodes):
            return None
        captured = self._objects.nodes[bound[at]]
        if captured.kind != "variable":
            return None
        return Known((), held=_plain_dims(captured.details.get("shape")))

    def _said(self, node: Node) -> tuple[Shape, ...]:
        """The shapes that were noted down at the node."""
        if not self._trust_notes:
            return ()
        found = node.attrs.get("_output_shapes")
        if found is None or not isinstance(found.value, tuple):
            return ()
        if found.kind == "list(shape)":
            return cast("tuple[Shape, ...]", found.value)
        return tuple(_shape_in(found, at) for at in range(len(found.value)))

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
            if at >= len(data) or (call.node.op in LOOPS and not self._stays(call.node, number)):
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
                    elif node.op in CALLS:
                        for func in _functions(node):
                            calls.setdefault(func.name, []).append(_Call(body, node, CALLS[node.op].first))
            self._calls = calls
        return self._calls


def _with_names(owner: str, known: Known) -> Known:
    """With names for its open sizes."""
    if known.dims is None or not set("*+()").isdisjoint(owner):
        return known
    return known._replace(dims=tuple(f"{owner}.{at}" if size is None else size for at, size in enumerate(known.dims)))


def _functions(node: Node) -> Iterator[Func]:
    if node.op not in CALLS:
        return
    for key in CALLS[node.op].functions:
        found = node.attrs.get(key)
        yield from () if found is None else found.funcs


def _argument_type(body: Body, name: str) -> DType | None:
    if not isinstance(body, Function):
        return None
    return next((arg.type for arg in body.signature.inputs if arg.name == name), None)


def _shape_in(attr: Attr | None, index: int) -> Shape:
    """Number `index` of the shapes in an attribute."""
    value = None if attr is None else attr.value
    if isinstance(value, tuple):
        value = value[index] if index < len(value) else None
    return value if isinstance(value, Shape) else UNKNOWN


def _merged(said: Shape, known: Known) -> Known:
    """What both say together; where they contradict each other, what was noted down counts."""
    noted, dims = said.dims, known.dims
    if noted is None or noted == dims:
        return known
    if dims is None or len(dims) != len(noted):
        return Known(Known.of(said).dims, None, known.held)
    both = tuple([old if new < 0 else new for new, old in zip(noted, dims, strict=True)])
    return known if both == dims else Known(both, known.values, known.held)


def _agreed(found: list[Known] | tuple[Known, ...]) -> Known:
    """What all of several tensors are, any of which it may be."""
    first = found[0]
    if all(one == first for one in found):
        return first
    held = first.held if all(one.held == first.held for one in found) else None
    if any(one.shape != first.shape for one in found) or first.dims is None:
        return Known(held=held)
    return Known(_common(*(one.dims or () for one in found)), None, held)


def _common(*found: tuple[object, ...]) -> Dims:
    """Sizes of tensors of one shape: where their names differ, they are unknown."""
    return tuple(sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*found, strict=True))


def _plain_dims(value: object) -> Dims:
    """A TensorShapeProto as plain data."""
    if not isinstance(value, dict) or value.get("unknown_rank"):
        return None
    dims = [int(dim.get("size", 0)) for dim in value.get("dim", ()) if isinstance(dim, dict)]
    return tuple(None if dim < 0 else dim for dim in dims)
