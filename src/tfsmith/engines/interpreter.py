"""Runs graphs and functions node by node, with the values of `ops`: what the reference engine consists of.

A body (the graph, or a function) is compiled once into a `Plan`: its nodes in an order in which each comes behind what
it takes, each with the numbers of the places where its inputs and outputs are. Constants stay where they lie, mapped,
and are read when the plan runs first; other values are let go after their last use. Functions are compiled when they
are called first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from tfsmith.engines.protocol import Clock
from tfsmith.errors import EngineError, InvalidModelError, TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.node import Attr, Endpoint, Func, Node
from tfsmith.ir.opdef import OpDef, builtin_op
from tfsmith.ir.tensor import Tensor
from tfsmith.limits import MAX_CALL_DEPTH, MAX_LOOP_STEPS
from tfsmith.ops import CALLS, CONTROL_FLOW, DIRECT_CALLS, LOOPS, ORDERING
from tfsmith.ops.traits import leaves_no_trace
from tfsmith.ops.values import OpError, OpFunction, State, bind, has_value
from tfsmith.records import record

__all__ = [
    "Interpreter",
    "Layout",
    "Plan",
    "PlanNode",
    "called_functions",
    "endless",
    "explained",
    "is_known",
    "last_uses",
]

_NOT_RUN = ORDERING | {"Const"}
"""They compute nothing when the plan runs."""
_MOST_TEXT = 200
_REMEDY = "check the shapes and values of the inputs"


def is_known(op: str, graph: Graph) -> bool:
    """Whether a node of this op can be run: it has a value, or is a call, a loop, a condition or a constant."""
    return has_value(op) or op in CALLS or op in CONTROL_FLOW or op in _NOT_RUN or op in graph.library


def called_functions(graph: Graph, nodes: Iterable[Node]) -> Iterator[Function]:
    """The functions that a run of these nodes may call, each once."""
    seen: set[str] = set()
    todo: list[Iterable[Node]] = [nodes]
    while todo:
        for node in todo.pop():
            if node.op not in CALLS and node.op not in graph.library:
                continue
            names = {func.name for name in _functions_of(node) for func in node.attrs[name].funcs}
            for name in (names | {node.op}) & graph.library.keys() - seen:
                seen.add(name)
                todo.append(graph.library[name].nodes)
                yield graph.library[name]


def _functions_of(node: Node) -> Iterable[str]:
    return [name for name in CALLS[node.op].functions if name in node.attrs] if node.op in CALLS else ()


@record
class PlanNode:
    """A node as a plan runs it.

    Attributes:
        name: Its name.
        op: Its op.
        attrs: Its attributes; those that stand for a parameter of the function have the caller's values.
        inputs: The places of its data inputs.
        controls: The nodes that it waits for besides.
        start: The place of its first output.
        count: How many outputs it has.
    """

    name: str
    op: str
    attrs: Mapping[str, Attr]
    inputs: tuple[int, ...]
    controls: tuple[str, ...]
    start: int
    count: int

    @property
    def outputs(self) -> range:
        """The places of its outputs."""
        return range(self.start, self.start + self.count)


_Step = tuple[OpFunction, tuple[int, ...], int, int, tuple[int, ...], PlanNode]
"""What computes a node, its inputs' places, its outputs' first place and number, the places let go after it, it."""


class Interpreter:
    """What the plans of one program share: its functions, its state, and the files that it may read."""

    def __init__(
        self,
        graph: Graph,
        kept: dict[tuple[str, str], Any],
        files: Callable[[bytes], Path],
        say: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self._graph = graph
        self._kept = kept
        self._files = files
        self._say = say
        self._clock = clock
        self._inner = 0.0
        self._functions: dict[str, list[tuple[Mapping[str, Attr], Plan]]] = {}
        self._depth = 0

    def plan(self, fed: Sequence[str], wanted: Sequence[str], nodes: Sequence[str] = ()) -> Plan:
        """The plan of the graph itself.

        Args:
            fed: The tensors that are fed, in order.
            wanted: The tensors that it computes, in order.
            nodes: Nodes that run besides, for what they do.
        """
        graph = self._graph
        inputs = [graph.resolve(text) for text in fed]
        outputs = [graph.resolve(text) for text in wanted]
        starts = [*(tensor.node for tensor in outputs), *nodes]
        layout = Layout(graph, {}, inputs, starts, self.definition)
        return self._made(layout, [layout.place(tensor) for tensor in outputs])

    def function(self, func: Func, where: str) -> Plan:
        """The plan of a function with the attributes of a call; made the first time.

        Raises:
            InvalidModelError: It is not in the library.
        """
        found = self._functions.setdefault(func.name, [])
        for attrs, plan in found:
            if attrs == func.attrs:
                return plan
        found.append((func.attrs, self._compiled(func, where)))
        return found[-1][1]

    def _compiled(self, func: Func, where: str) -> Plan:
        function = self._graph.library.get(func.name)
        if function is None:
            what = f"it calls {func.name!r}, which is not in the library"
            raise InvalidModelError(what, where=where, remedy="the file is damaged")
        signature = function.signature
        attrs = signature.with_defaults(func.attrs)
        inputs = [Endpoint(arg.name, index) for arg in signature.inputs for index in range(arg.count(attrs))]
        starts = [*(function.source(text) for text in function.ret.values()), *function.control_ret.values()]
        starts += [node.name for node in function if self._has_effect(node)]
        own = frozenset(function.args)
        layout = Layout(function, attrs, inputs, [name for name in starts if name not in own], self.definition)
        missing = [found.name for found in signature.outputs if found.name not in function.ret]
        if missing:
            what = f"result {missing[0]!r} is not given by any node"
            raise InvalidModelError(what, where=function.title, remedy="the file is damaged")
        places = [place for found in signature.outputs for place in layout.places(function.ret[found.name])]
        return self._made(layout, places)

    def definition(self, op: str) -> OpDef | None:
        """What an op takes and gives; a function counts as an op."""
        return builtin_op(op) or (
            self._graph.library[op].signature if op in self._graph.library else self._graph.op_def(op)
        )

    def _has_effect(self, node: Node) -> bool:
        """Whether TensorFlow runs a node of a function though no result needs it."""
        definition = self.definition(node.op)
        return definition is not None and definition.is_stateful and not leaves_no_trace(node.op)

    def _made(self, layout: Layout, outputs: Sequence[int]) -> Plan:
        if any(node.op in CONTROL_FLOW for node in layout.nodes):
            from tfsmith.engines.tf1_flow import FlowPlan

            return FlowPlan(self, layout, outputs)
        return _StraightPlan(self, layout, outputs)

    def bound(self, node: PlanNode, title: str) -> OpFunction:
        """What computes a node.

        Raises:
            UnsupportedError: Nothing does.
        """
        found = self._bound(node, title)
        return found if self._clock is None else self._timed(found, node, title, self._clock)

    def _timed(self, call: OpFunction, node: PlanNode, title: str, clock: Clock) -> OpFunction:
        """The same with a clock. What the nodes of a called function take is theirs, not the call's."""
        function = next((name for name, one in self._graph.library.items() if one.title == title), "")

        def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
            outer, self._inner = self._inner, 0.0
            start = perf_counter()
            try:
                return call(inputs)
            finally:
                took = perf_counter() - start
                clock.add(function, node.name, took - self._inner)
                self._inner = outer + took

        return run

    def _bound(self, node: PlanNode, title: str) -> OpFunction:
        where = f"node {node.name!r} in {title}"
        if node.op in self._graph.library:
            return self._call(Func(node.op, dict(node.attrs)), where)
        if node.op in DIRECT_CALLS:
            return self._call(_func(node, "f", where), where)
        if node.op in LOOPS:
            return self._loop(*(self._call(_func(node, name, where), where) for name in ("cond", "body")))
        if node.op in CALLS:
            names = CALLS[node.op].functions
            branches = [self._call(func, where) for name in names for func in _attr(node, name, where).funcs]
            return self._branches(branches, is_if=len(names) > 1)
        prefix = "" if title == self._graph.title else f"{title}/"
        state = State(prefix + node.name, self._kept, self._files, self._say)
        try:
            return bind(node.op, node.attrs, state=state)
        except TfsmithError as error:
            raise error.at(where=error.where or where) from error

    def _call(self, func: Func, where: str) -> OpFunction:
        """What runs a function; it is compiled when it is called first."""
        plan: Plan | None = None

        def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
            nonlocal plan
            if self._depth >= MAX_CALL_DEPTH:
                raise OpError(f"functions call each other more than {MAX_CALL_DEPTH} deep")
            if plan is None:
                plan = self.function(func, where)
            self._depth += 1
            try:
                return plan.run(inputs)
            finally:
                self._depth -= 1

        return run

    def _branches(self, branches: Sequence[OpFunction], *, is_if: bool) -> OpFunction:
        """If takes the first branch where its first input is true; Case takes one by number, the last for a bad one."""
        last = len(branches) - 1

        def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
            number = int(not _truth(inputs[0])) if is_if else int(inputs[0])
            return branches[number if 0 <= number <= last else last](inputs[1:])

        return run

    def _loop(self, condition: OpFunction, body: OpFunction) -> OpFunction:
        def run(inputs: Sequence[Any]) -> tuple[Any, ...]:
            values = tuple(inputs)
            for _ in range(MAX_LOOP_STEPS):
                if not _truth(condition(values)[0]):
                    return values
                values = body(values)
            raise endless()

        return run


def endless() -> OpError:
    """What to raise for a loop that goes on and on."""
    return OpError(f"it is a loop that never ends: {MAX_LOOP_STEPS:,} steps were not enough")


def _truth(value: Any) -> bool:
    """What counts as true: a number that is not 0, a text that is not empty, an array that has elements."""
    return bool(value.size) if value.ndim else bool(value[()])


def _func(node: PlanNode, name: str, where: str) -> Func:
    found = _attr(node, name, where).funcs
    if not found:
        raise InvalidModelError(f"attribute {name!r} names no function", where=where, remedy="the file is damaged")
    return found[0]


def _attr(node: PlanNode, name: str, where: str) -> Attr:
    found = node.attrs.get(name)
    if found is None:
        raise InvalidModelError(f"attribute {name!r} is missing", where=where, remedy="the file is damaged")
    return found


class Layout:
    """The nodes of a body that are needed, in order, and the places of all tensors.

    Attributes:
        title: What to call the body in messages.
        nodes: The nodes in order.
        size: How many places there are.
        fed: The places of what is fed, in order.
        constants: The places of constants, with their tensors.
    """

    def __init__(
        self,
        body: Body,
        given: Mapping[str, Attr],
        inputs: Sequence[Endpoint],
        starts: Sequence[str],
        definition: Callable[[str], OpDef | None],
    ) -> None:
        self.title = body.title
        self._body = body
        self._places: dict[Endpoint, int] = {}
        self._lists: dict[str, list[int]] = {}
        for tensor in inputs:
            place = self._places.setdefault(tensor, len(self._places))
            self._lists.setdefault(tensor.node, []).append(place)
        self.fed = [self._places[tensor] for tensor in inputs]
        self.size = len(self._places)
        self.constants: list[tuple[int, Tensor]] = []
        self.nodes: list[PlanNode] = []
        known = {tensor.node for tensor in inputs}
        needed = body.ancestors([name for name in dict.fromkeys(starts) if name not in known], known)
        order = [node for node in body.topological_order() if node.name in needed]
        found: list[tuple[Node, Mapping[str, Attr], int, int]] = []
        for node in order:
            attrs = _given_attrs(node.attrs, given)
            defined = definition(node.op)
            count = 0 if defined is None else defined.output_count(attrs)
            found.append((node, attrs, self.size, count))
            for index in range(count):
                self._places[Endpoint(node.name, index)] = self.size + index
            if node.op == "Const":
                self.constants.append((self.size, _constant(node, attrs, body.title)))
            self.size += count
        for node, attrs, start, count in found:  # when all places are known: the back edges of loops lead to later ones
            data: list[int] = []
            controls: list[str] = []
            for text in node.inputs:
                if text.startswith("^"):
                    controls.append(text[1:])
                else:
                    data += self.places(text, node)
            self.nodes.append(PlanNode(node.name, node.op, attrs, tuple(data), tuple(controls), start, count))

    def places(self, text: str, node: Node | None = None) -> list[int]:
        """The places of what an input's text means; an argument that is a list has several.

        Raises:
            InvalidModelError: There is no such tensor.
        """
        if ":" not in text and text in self._lists:
            return self._lists[text]
        return [self.place(self._body.resolve(text), node)]

    def place(self, tensor: Endpoint, node: Node | None = None) -> int:
        """The place of a tensor."""
        found = self._places.get(tensor)
        if found is None:
            where = self.title if node is None else f"node {node.name!r} in {self.title}"
            raise InvalidModelError(f"it takes {tensor}, which is not there", where=where, remedy="the file is damaged")
        return found


def _constant(node: Node, attrs: Mapping[str, Attr], title: str) -> Tensor:
    found = attrs.get("value")
    if found is None or found.tensor is None:
        where = f"node {node.name!r} in {title}"
        raise InvalidModelError("the constant has no value", where=where, remedy="the file is damaged")
    return found.tensor


def _given_attrs(attrs: Mapping[str, Attr], given: Mapping[str, Attr]) -> Mapping[str, Attr]:
    """Attributes of which some stand for parameters of the function, with what the call gives for these."""
    if not given or not any(found.kind in ("placeholder", "func", "list(func)") for found in attrs.values()):
        return attrs
    return {name: _given(found, given) for name, found in attrs.items()}


def _given(found: Attr, given: Mapping[str, Attr]) -> Attr:
    if found.kind == "placeholder" and isinstance(found.value, str):
        return given.get(found.value, found)
    if found.kind == "func" and isinstance(found.value, Func):
        return Attr("func", Func(found.value.name, dict(_given_attrs(found.value.attrs, given))))
    return found


class Plan(ABC):
    """A body that is ready to run."""

    def __init__(
        self, layout: Layout, outputs: Sequence[int], constants: Iterable[tuple[int, Tensor]], more: int = 0
    ) -> None:
        self._title = layout.title
        self._size = layout.size + more
        self._fed = tuple(layout.fed)
        self._outputs = tuple(outputs)
        self._constants: tuple[tuple[int, Tensor], ...] | None = tuple(constants)
        self._template: list[Any] = []

    @abstractmethod
    def run(self, feeds: Sequence[Any]) -> tuple[Any, ...]:
        """The values of the outputs for these inputs.

        Raises:
            EngineError: An op failed; says the node.
            OpError: The inputs are not as many as it takes, or an output is not computed.
        """

    def _start(self, feeds: Sequence[Any]) -> list[Any]:
        """All places, with constants and what is fed. Constants are read the first time; they stay mapped."""
        if self._constants is not None:
            template: list[Any] = [None] * self._size
            for place, tensor in self._constants:
                template[place] = tensor.numpy()
            self._template, self._constants = template, None
        if len(feeds) != len(self._fed):
            raise OpError(f"{self._title} takes {len(self._fed)} arguments, and is given {len(feeds)}")
        values = self._template.copy()
        for place, fed in zip(self._fed, feeds, strict=True):
            values[place] = fed
        return values


class _StraightPlan(Plan):
    """A body without control flow of TensorFlow 1: each node runs once."""

    def __init__(self, interpreter: Interpreter, layout: Layout, outputs: Sequence[int]) -> None:
        super().__init__(layout, outputs, layout.constants)
        fixed = {place for place, _ in layout.constants}
        nodes = [node for node in layout.nodes if node.op not in _NOT_RUN]
        frees = last_uses(((node.inputs, node.outputs) for node in nodes), fixed, outputs)
        self._steps: list[_Step] = [
            (interpreter.bound(node, layout.title), node.inputs, node.start, node.count, free, node)
            for node, free in zip(nodes, frees, strict=True)
        ]

    def run(self, feeds: Sequence[Any]) -> tuple[Any, ...]:
        values = self._start(feeds)
        step: _Step | None = None
        try:
            for step in self._steps:
                call, inputs, start, count, frees, _ = step
                found = call([values[place] for place in inputs])
                if len(found) != count:
                    raise OpError(f"it gives {len(found)} outputs, not {count}")
                values[start : start + count] = found
                for place in frees:
                    values[place] = None
        except Exception as error:
            assert step is not None
            raise explained(error, step[-1], self._title) from error
        return tuple(values[place] for place in self._outputs)


def last_uses(
    uses: Iterable[tuple[Iterable[int], Iterable[int]]], fixed: Iterable[int], wanted: Iterable[int]
) -> list[tuple[int, ...]]:
    """For each step, given by the places that it reads and writes, the places that nobody needs after it."""
    listed = [(tuple(read), tuple(written)) for read, written in uses]
    seen = {*fixed, *wanted}
    found: list[tuple[int, ...]] = []
    for read, written in reversed(listed):
        free = tuple(dict.fromkeys(place for place in (*read, *written) if place not in seen))
        seen.update(free)
        found.append(free)
    return found[::-1]


def explained(error: Exception, node: PlanNode, title: str) -> TfsmithError:
    """An error of an op as ours, with the node; one that has a node already gets the one that called it."""
    where = f"node {node.name!r} in {title}"
    if isinstance(error, TfsmithError):
        return error.at(where=where if error.where is None else f"{error.where}, called by node {node.name!r}")
    if isinstance(error, MemoryError):
        what = f"{node.op} needs more memory than there is"
        return EngineError(what, where=where, remedy="run the batch in chunks ({chunk})")
    if isinstance(error, RecursionError):
        return EngineError("functions call each other too deep", where=where, remedy="do not trust the file")
    text = " ".join(str(error).split()) or type(error).__name__
    text = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]} [...]"
    remedy = error.remedy if isinstance(error, OpError) else None
    return EngineError(f"{node.op} failed: {text}", where=where, remedy=remedy or _REMEDY)
