"""Inlines function calls, so that a TensorFlow 2 model becomes one flat graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfsmith.errors import InvalidModelError, LimitError
from tfsmith.ir.body import FreeNames
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.node import CONTROL, Attr, Func, Node, parse_input
from tfsmith.limits import MAX_DEPTH, MAX_INLINED_CALLS, MAX_INLINED_SIZE
from tfsmith.ops import DIRECT_CALLS, PLACEHOLDERS, VARIABLES

__all__ = ["rename_output", "rename_outputs", "inline_calls"]


def rename_outputs(nodes: Iterable[Node], outputs: Mapping[str, str]) -> tuple[Node, ...]:
    """The nodes of a function, some of which became other ops, whose outputs have other names: by node, that name."""
    return tuple(_renamed(node, outputs) for node in nodes)


def _renamed(node: Node, outputs: Mapping[str, str]) -> Node:
    if not any(text.partition(":")[0] in outputs for text in node.inputs):
        return node
    return node.replace(inputs=tuple(rename_output(text, outputs) for text in node.inputs))


def rename_output(text: str, outputs: Mapping[str, str]) -> str:
    """In functions an input names the output argument, whose name differs from op to op."""
    name, _, rest = text.partition(":")
    if name not in outputs or not rest:
        return text
    return f"{name}:{outputs[name]}:{rest.rpartition(':')[2] if ':' in rest else '0'}"


_NODE_SIZE = 500
"""About what a node takes in memory, besides its name."""
_NEEDS_NO_ORDER = VARIABLES | PLACEHOLDERS | {"Const", "NoOp"}


def inline_calls(graph: Graph) -> tuple[Graph, Mapping[str, str]]:
    """A graph in which every call is replaced by the body of what it calls, calls in bodies too.

    Nodes of a body are named "call/node". Control flow (If, While, Case) keeps its functions.

    Returns:
        The flat graph, and for each output of a replaced call ("call:0") the tensor that it is now.

    Raises:
        LimitError: Functions call each other without end.
        InvalidModelError: A call does not fit its function.
    """
    inliner = _Inliner(graph)
    for node in graph:
        inliner.add(node, 0)
    return inliner.finish()


class _Inliner:
    """Collects the flat nodes; names of tensors that calls gave are settled at the end."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: list[Node] = []
        self._names = FreeNames(graph.by_name)
        self._aliases: dict[tuple[str, int], str] = {}
        self._controls: dict[str, tuple[str, ...]] = {}
        self._waited: dict[str, tuple[str, ...]] = {}
        self._size = 0

    def add(self, node: Node, depth: int) -> None:
        """Adds a node of the flat graph, or in place of a call the body that it calls."""
        function = self._called(node)
        if function is None:
            self._nodes.append(node)
            return
        if depth > MAX_DEPTH:
            what = "functions call each other without end"
            raise LimitError(what, where=f"node {node.name!r}", remedy="do not trust the file")
        if len(self._controls) >= MAX_INLINED_CALLS:
            raise self._endless(node)
        self._grow(len(function.nodes) * (len(node.name) + _NODE_SIZE), node)
        self._expand(node, function, depth)

    def _grow(self, size: int, node: Node) -> None:
        """Counts, before it is made, about how many bytes of names and nodes are added."""
        self._size += size
        if self._size > MAX_INLINED_SIZE:
            raise self._endless(node)

    def _endless(self, node: Node) -> LimitError:
        what = "the graph grows without end when its functions are put in place of their calls"
        return LimitError(what, where=f"node {node.name!r}", remedy="do not trust the file")

    def _called(self, node: Node) -> Function | None:
        library = self._graph.library
        if node.op in library:
            return library[node.op]
        if node.op not in DIRECT_CALLS:
            return None
        func = node.get("f")
        function = library.get(func.name) if isinstance(func, Func) else None
        if function is None:
            what = f"it calls {repr(func.name) if isinstance(func, Func) else 'nothing'}, which is not in the library"
            raise InvalidModelError(what, where=f"node {node.name!r}", remedy="the file is damaged")
        return function

    def _expand(self, call: Node, function: Function, depth: int) -> None:
        data = call.data_inputs
        flat_args = [(arg.name, index) for arg in function.signature.inputs for index in range(arg.count(call.attrs))]
        if len(data) != len(flat_args):
            what = f"it gives {len(data)} arguments to {function.name!r}, which takes {len(flat_args)}"
            raise InvalidModelError(what, where=f"node {call.name!r}", remedy="the file is damaged")
        given = dict(zip(flat_args, data, strict=True))
        names = {node.name: self._names.take(f"{call.name}/{node.name}") for node in function}
        scope = _Scope(function, given, names)
        waits = tuple(f"^{name}" for name in call.control_inputs)
        for node in function:
            inputs = tuple(text for old in node.inputs for text in scope.flat(old))
            if waits and node.op not in _NEEDS_NO_ORDER and self._is_stateful(node):
                inputs += waits
            self._grow(8 * len(inputs), call)
            attrs: dict[str, Attr | None] = dict(_bound(node, call))
            if "_class" in node.attrs:
                attrs["_class"] = None  # names of the body mean nothing in the flat graph
            self.add(node.replace(name=names[node.name], inputs=inputs, attrs=attrs), depth + 1)
        index = 0
        for output in function.signature.outputs:
            text = function.ret.get(output.name)
            if text is None:
                what = f"result {output.name!r} is not given by any node"
                raise InvalidModelError(what, where=f"function {function.name!r}", remedy="the file is damaged")
            for flat in scope.flat(text):
                self._aliases[call.name, index] = flat
                index += 1
        results = dict.fromkeys(function.control_ret.values())  # several may wait for one node
        self._controls[call.name] = tuple(f"^{names[name]}" for name in results if name in names)

    def _is_stateful(self, node: Node) -> bool:
        op = self._graph.op_def(node.op)
        return op is None or op.is_stateful

    def finish(self) -> tuple[Graph, Mapping[str, str]]:
        """The flat graph with every input settled."""
        if not self._controls:
            return self._graph, {}
        nodes = tuple(self._settle(node) for node in self._nodes)
        settled = {f"{name}:{index}": self._tensor(name, index) for name, index in self._aliases}
        return self._graph.replace(nodes=nodes), settled

    def _settle(self, node: Node) -> Node:
        inputs: list[str] = []
        controls: dict[str, None] = {}
        changed = False
        for text in node.inputs:
            name, output = parse_input(text)
            if output != CONTROL:
                found = self._tensor(name, output) if name in self._controls else text
                changed |= found is not text
                inputs.append(found)
                continue
            if name in self._controls:
                changed = True
                controls.update(dict.fromkeys(self._waits(name)))
            else:
                controls[text] = None
        self._grow(8 * len(controls), node)
        return node.replace(inputs=(*inputs, *controls)) if changed else node

    def _tensor(self, name: str, output: int) -> str:
        for _ in range(MAX_DEPTH * 10):
            if name not in self._controls:
                return name if output == 0 else f"{name}:{output}"
            found = self._aliases.get((name, output))
            if found is None:
                what = f"output {output} is used, but its function does not give it"
                raise InvalidModelError(what, where=f"node {name!r}", remedy="the file is damaged")
            name, output = parse_input(found)
        raise LimitError("calls hand a tensor on without end", where=f"node {name!r}", remedy="do not trust the file")

    def _waits(self, name: str) -> tuple[str, ...]:
        """What a control edge from a call waits for: the body's control outputs, through calls in it.

        Calls are nested at most `MAX_DEPTH` deep, for `add` allows no more.
        """
        known = self._waited.get(name)
        if known is None:
            found: dict[str, None] = {}
            for text in self._controls[name]:
                found.update(dict.fromkeys(self._waits(text[1:]) if text[1:] in self._controls else (text,)))
            known = self._waited[name] = tuple(found)
        return known


class _Scope:
    """Turns the names of a function's body into those of the flat graph."""

    def __init__(self, function: Function, given: Mapping[tuple[str, int], str], names: Mapping[str, str]) -> None:
        self._function = function
        self._given = given
        self._names = names
        self._by_arg: dict[str, list[str]] = {}
        for (arg, _), text in given.items():
            self._by_arg.setdefault(arg, []).append(text)

    def flat(self, text: str) -> list[str]:
        """An input of the body; an argument that is a list may stand for several."""
        if text.startswith("^"):
            name = text[1:]
            if name in self._names:
                return [f"^{self._names[name]}"]
            return [f"^{parse_input(given).node}" for given in self._by_arg.get(name, ())]
        name, output = self._function.resolve(text)
        if name in self._names:
            flat = self._names[name]
            return [flat if output == 0 else f"{flat}:{output}"]
        if ":" in text:
            return [self._given[name, output]] if (name, output) in self._given else self._unknown(text)
        return self._by_arg.get(name) or self._unknown(text)

    def _unknown(self, text: str) -> list[str]:
        where = f"function {self._function.name!r}"
        raise InvalidModelError(f"it takes {text!r}, which is not there", where=where, remedy="the file is damaged")


def _bound(node: Node, call: Node) -> dict[str, Attr]:
    """Attributes of a body that stand for a type parameter of the function, with what the call binds it to."""
    if not any(attr.kind == "placeholder" for attr in node.attrs.values()):
        return {}
    func = call.get("f")
    values = func.attrs if isinstance(func, Func) else call.attrs
    return {
        key: values[attr.value]
        for key, attr in node.attrs.items()
        if attr.kind == "placeholder" and isinstance(attr.value, str) and attr.value in values
    }
