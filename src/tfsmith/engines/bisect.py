"""The first node at which two models part, or how far apart they are at each node.

Both are run in steps, each from the values of those before it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsmith.engines.compare import Tolerance, compare_arrays
from tfsmith.engines.program import ModelProgram, make_program
from tfsmith.engines.protocol import Options, Port, cut_graph
from tfsmith.engines.runner import compile_program
from tfsmith.engines.samples import PortPair
from tfsmith.errors import NotFoundInModelError, TfsmithError
from tfsmith.ir.body import Body, Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import CONTROL, Attr, Node, parse_input
from tfsmith.ir.types import Shape
from tfsmith.ops import ENTERS, EXITS, MERGES, PLACEHOLDERS, WITHOUT_OUTPUTS
from tfsmith.passes.interface import output_type
from tfsmith.records import record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FirstDifference", "ModelPair", "NodeDifference", "first_difference", "node_differences"]

_AT_ONCE = 200
"""So many nodes are asked for in one run: more would take much memory, fewer would compile too often."""
_OF_TENSORFLOW = 1000
"""The same for TensorFlow, whose process takes seconds to start."""
_NOT_ASKED = ENTERS | PLACEHOLDERS | WITHOUT_OUTPUTS | {"Const"}
_NAME = re.compile(r"[\w./>-]+")
_MOST_ATTR = 60


@record
class FirstDifference:
    """The first node at which two models part.

    Attributes:
        node: Its name in both.
        op: Its op in A.
        reason: What differs there: values that flow, the weight, attributes, inputs.
        max_abs: How far the values are apart; None where only the structure tells.
        checked: How many nodes before it, and beside it, were found to be the same.
    """

    node: str
    op: str
    reason: str
    max_abs: float | None
    checked: int


@record
class NodeDifference:
    """How far apart two models are at a node.

    Attributes:
        node: Its name in both.
        max_abs: How far the values are apart; None where only the structure tells.
        reason: What differs there by more than is usual; "" where nothing does.
    """

    node: str
    max_abs: float | None
    reason: str


@record
class ModelPair:
    """Two models that should answer the same.

    Attributes:
        a: The one.
        b: The other.
        inputs: Which of their inputs belong together.
        tolerance: How far values of a dtype may be apart.
        engines: What they run on.
        options: How the engines are to run them.
    """

    a: ModelProgram
    b: ModelProgram
    inputs: Sequence[PortPair]
    tolerance: Callable[[str], Tolerance]
    engines: tuple[str, str]
    options: Options


def first_difference(models: ModelPair, feeds: Mapping[str, NDArray[Any]]) -> FirstDifference | None:
    """Looks at the nodes that both models have, from the inputs on, and names the first whose values differ.

    Constants are held against each other first, for a changed weight is a difference by itself. Then the tensors of all
    other nodes are asked for, some hundreds at a time, in an order in which a node comes behind all that it takes. Each
    step starts from the values of the steps before it, so that memory is taken for the weights of one step alone.

    Args:
        models: The models.
        feeds: Inputs for which they differ, by the pairs' keys.

    Returns:
        The node, which may also be one that only one of the models can run. None if no node that both have differs:
        what differs is then in nodes that only one of them has.

    Raises:
        NotFoundInModelError: The models have no node in common.
    """
    return _Search(models, feeds).run()


def node_differences(
    models: ModelPair, feeds: Mapping[str, NDArray[Any]]
) -> tuple[FirstDifference | None, tuple[NodeDifference, ...]]:
    """As `first_difference`, but goes on behind the first: gives it, and all nodes that were compared, in order.

    Each model goes on with its own values, so that what follows from a difference differs as well.
    """
    search = _Search(models, feeds, every=True)
    search.run()
    return search.first, tuple(search.compared)


class _Search:
    """One search: both models, and what is known of them so far.

    Attributes:
        first: The first difference, once it was found.
        compared: The nodes that were compared, if `every` node is to be.
    """

    def __init__(self, models: ModelPair, feeds: Mapping[str, NDArray[Any]], *, every: bool = False) -> None:
        self._models = models
        self._every = every
        self.first: FirstDifference | None = None
        self.compared: list[NodeDifference] = []
        self._a, self._b = (
            _SteppedModel(program, engine, models.options, _given(program, models.inputs, side, feeds))
            for program, side, engine in ((models.a, "a", models.engines[0]), (models.b, "b", models.engines[1]))
        )
        self._seen = 0
        self._lost: set[str] = set()

    def run(self) -> FirstDifference | None:
        """Goes through the nodes in order."""
        a, b = self._a.graph, self._b.graph
        order = [name for name in _order(a) if name in b]
        if not order:
            what = "the models have no node in common, so no first difference can be named"
            raise NotFoundInModelError(what, remedy="compare models that were made of one another")
        most = _OF_TENSORFLOW if "tensorflow" in self._models.engines else _AT_ONCE
        pending: list[str] = []
        for name in order:
            if a[name].op == b[name].op == "Const":
                found = _constants_differ(name, a[name], b[name])
                if found is not None and a.consumers(name):
                    parted = self._ask(pending) or self._differs(replace(found, checked=self._seen))
                    if parted is not None:
                        return parted
                    pending = []
                    continue
                self._same(name, 0.0)
            elif self._tensors(name) and not _reads_a_constant(a, b, name):
                pending.append(name)
            if len(pending) == most:
                parted = self._ask(pending)
                if parted is not None:
                    return parted
                pending = []
        return self._ask(pending)

    def _tensors(self, name: str) -> list[str]:
        """The outputs of a node that somebody takes, or the first; none where engines cannot give them."""
        sides = (self._a.graph, self._b.graph)
        used = {use.output for graph in sides for use in graph.consumers(name)}
        for graph in sides:
            node = graph[name]
            kinds = [output_type(graph, node, number) for number in used or {0}]
            if node.op in _NOT_ASKED or not all(kind is not None and kind.base.itemsize for kind in kinds):
                return []
        return [f"{name}:{number}" for number in sorted(used or {0})]

    def _ask(self, names: Sequence[str]) -> FirstDifference | None:
        """Runs both for these nodes, and gives the first one that differs."""
        names = [name for name in names if not self._is_lost(name)]
        if not names:
            return None
        tensors = {name: self._tensors(name) for name in names}
        wanted = [tensor for found in tensors.values() for tensor in found]
        answers: list[Mapping[str, NDArray[Any]]] = []
        errors: list[tuple[str, TfsmithError]] = []
        for side, title in ((self._a, "A"), (self._b, "B")):
            try:
                answers.append(side.ask(wanted))
            except TfsmithError as error:
                if len(names) > 1:
                    return self._ask_apart(names, error)
                errors.append((title, error))
        if errors:
            return self._failed(names[0], errors)
        for name, found in tensors.items():
            parted = self._compare(name, found, answers)
            if parted is not None:
                return parted
        self._a.keep(answers[0], names)
        self._b.keep(answers[1], names)
        return None

    def _ask_apart(self, names: Sequence[str], error: TfsmithError) -> FirstDifference | None:
        """Goes on where a step failed: with what comes before the node that the engine blames, or else in halves."""
        blamed = set(_NAME.findall(error.what))
        at = next((number for number, name in enumerate(names) if name in blamed), None)
        if at is None:
            half = len(names) // 2
            return self._ask(names[:half]) or self._ask(names[half:])
        return self._ask(names[:at]) or self._ask([names[at]]) or self._ask(names[at + 1 :])

    def _is_lost(self, name: str) -> bool:
        """Whether it needs what neither model can run."""
        sources = [source.node in self._lost for source in self._a.graph.inputs_of(self._a.graph[name])]
        if not (all(sources) if self._a.graph[name].op in MERGES else any(sources)) or not sources:
            return False
        self._lost.add(name)
        return True

    def _failed(self, name: str, errors: Sequence[tuple[str, TfsmithError]]) -> FirstDifference | None:
        """What to say of a node that does not run by itself; nothing, if it runs in neither model."""
        if len(errors) > 1:
            self._lost.add(name)
            return None
        title, error = errors[0]
        told = _structure(self._a.graph, self._b.graph, name)
        reason = f"it does not run in {title}: {error.what}"
        op = self._a.graph[name].op
        self._lost.add(name)
        return self._differs(FirstDifference(name, op, "; ".join([*told, reason]), None, self._seen))

    def _differs(self, found: FirstDifference) -> FirstDifference | None:
        """Takes note of a difference; gives it, if the search ends with it."""
        self.first = self.first or found
        if not self._every:
            return found
        self.compared.append(NodeDifference(found.node, found.max_abs, found.reason))
        return None

    def _same(self, name: str, max_abs: float) -> None:
        self._seen += 1
        if self._every:
            self.compared.append(NodeDifference(name, max_abs, ""))

    def _compare(
        self, name: str, tensors: Sequence[str], answers: Sequence[Mapping[str, NDArray[Any]]]
    ) -> FirstDifference | None:
        most = 0.0
        for tensor in tensors:
            one, other = answers[0][tensor], answers[1][tensor]
            found = compare_arrays(one, other, self._models.tolerance(one.dtype.name))
            if found.reason:
                told = _structure(self._a.graph, self._b.graph, name)
                reason = "; ".join([*told, found.reason])
                return self._differs(FirstDifference(name, self._a.graph[name].op, reason, found.max_abs, self._seen))
            most = max(most, found.max_abs)
        self._same(name, most)
        return None


def _order(graph: Graph) -> Iterator[str]:
    """Names of nodes, each behind what it takes; those inside of loops, whose values change, are left out."""
    inside: set[str] = set()
    for node in graph.topological_order():
        sources = [source.node for source in graph.inputs_of(node)]
        if node.op in ENTERS or (any(name in inside for name in sources) and node.op not in EXITS):
            inside.add(node.name)
            continue
        yield node.name


def _reads_a_constant(a: Graph, b: Graph, name: str) -> bool:
    """Whether a node only hands on a constant that was compared: to ask for it would copy the weights."""
    one, other = a[name], b[name]
    if one.op != "Identity" or other.op != "Identity" or a.inputs_of(one)[:1] != b.inputs_of(other)[:1]:
        return False
    source = a.inputs_of(one)[0].node
    return source in b and a[source].op == b[source].op == "Const"


def _constants_differ(name: str, a: Node, b: Node) -> FirstDifference | None:
    import numpy

    one, other = a.peek("value"), b.peek("value")
    mine, theirs = (None if found is None else found.tensor for found in (one, other))
    if mine is None or theirs is None:
        return None
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        reason = f"the constant is {mine.dtype} {mine.shape} in A and {theirs.dtype} {theirs.shape} in B"
        return FirstDifference(name, a.op, reason, None, 0)
    if mine is theirs or (mine.dtype.itemsize == 0 and mine.dtype.name != "string"):
        return None
    values = mine.numpy(), theirs.numpy()
    if numpy.array_equal(*values):
        return None
    found = compare_arrays(*values, Tolerance(0.0, 0.0))
    if not found.reason:
        return None
    reason = f"the constant differs: {found.reason.replace(' by more than is usual', '')}"
    return FirstDifference(name, a.op, reason, found.max_abs, 0)


def _given(
    program: ModelProgram, pairs: Sequence[PortPair], side: str, feeds: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """The feeds by the keys of one of the models."""
    keys = {pair.key: pair.a if side == "a" else pair.b for pair in pairs}
    return {key: feeds[name] for name, key in keys.items() if key is not None and name in feeds}


def _structure(a: Body, b: Body, name: str) -> list[str]:
    """What differs between two nodes of one name, apart from values."""
    one, other = a[name], b[name]
    reasons: list[str] = []
    if one.op != other.op:
        reasons.append(f"its op is {one.op} in A and {other.op} in B")
    mine, theirs = (
        [source for source in body.inputs_of(node) if source.output != CONTROL] for body, node in ((a, one), (b, other))
    )
    if mine != theirs:
        listed = [", ".join(map(str, found)) or "nothing" for found in (mine, theirs)]
        reasons.append(f"it takes {listed[0]} in A and {listed[1]} in B")
    for key in sorted({*one.attrs, *other.attrs}):
        if key.startswith("_"):
            continue
        left, right = one.attrs.get(key), other.attrs.get(key)
        if left is not None and right is not None and left.kind != "tensor" and left != right:
            reasons.append(f"attribute {key} is {_shown(left)} in A and {_shown(right)} in B")
    return reasons


def _shown(attr: Attr) -> str:
    text = attr.value.decode("utf-8", "replace") if isinstance(attr.value, bytes) else str(attr.value)
    return text if len(text) <= _MOST_ATTR else f"{text[:_MOST_ATTR]}..."


class _SteppedModel:
    """One of two models that are compared node by node.

    A step runs only the nodes between the tensors that are asked for and those that are known already. Of these, only
    such are kept as a later step can still need. Computed again are what follows from constants alone, and integers:
    engines want to see where shapes and axes come from.

    Attributes:
        graph: The frozen graph.
    """

    def __init__(
        self,
        program: ModelProgram,
        engine: str,
        options: Options,
        feeds: Mapping[str, NDArray[Any]],
    ) -> None:
        self.graph: Graph = program.frozen.model.graph
        self._path = program.path
        self._engine = engine
        self._options = options
        ports = {
            key: program.inputs[key] for key in feeds if parse_input(program.inputs[key].tensor).node in self.graph
        }
        self._known = {port.tensor: (port, feeds[key]) for key, port in ports.items()}
        self._moving = self.graph.descendants(parse_input(tensor).node for tensor in self._known)
        self._done: set[str] = set()
        self._last: dict[str, NDArray[Any]] = {}

    def ask(self, tensors: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Computes these tensors, unless the last step gave them. The engine lives no longer than this.

        Raises:
            TfsmithError: They cannot be computed.
        """
        if all(name in self._last for name in tensors):
            return {name: self._last[name] for name in tensors}
        ports = {name: port for name, (port, _) in self._known.items()}
        flat = cut_graph(self.graph, ports, {name: name for name in tensors})
        model = Model("graphdef", (MetaGraph(graph_part=Part.of(flat.graph)),), path=self._path)
        with compile_program(make_program(model, tensors), self._engine, self._options) as runner:
            keys = {port.tensor: key for key, port in runner.inputs.items()}
            feeds = {keys[name]: self._known[key][1] for key, name in flat.inputs.items() if name in keys}
            self._last = runner.run(feeds, warn=False)
        return self._last

    def keep(self, values: Mapping[str, NDArray[Any]], nodes: Iterable[str]) -> None:
        """Takes note of the values of all tensors of these nodes; those that no later step needs are let go."""
        self._done.update(nodes)
        for name, value in values.items():
            tensor = parse_input(name)
            kind = output_type(self.graph, self.graph[tensor.node], tensor.output)
            if kind is None or "int" in kind.base.name:
                self._done.discard(tensor.node)  # what it takes stays
            elif tensor.node in self._moving:
                self._known[name] = (Port(name, kind.base, Shape(value.shape)), value)
        self._known = {name: found for name, found in self._known.items() if self._is_needed(name)}

    def _is_needed(self, name: str) -> bool:
        tensor = parse_input(name)
        return any(use.node.name not in self._done for use in self.graph.consumers(tensor.node, tensor.output))
