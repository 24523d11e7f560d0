"""F4: The first node at which two models part."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfsmith.api.pairing import Pair
from tfsmith.api.program import ModelProgram
from tfsmith.api.running import compile
from tfsmith.api.tolerance import Tolerance, difference
from tfsmith.errors import NotFoundInModelError, TfsmithError
from tfsmith.ir.attr import Attr
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import CONTROL, Node, parse_input
from tfsmith.passes.endpoints import output_type
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Parted", "Twins", "first_difference"]

_AT_ONCE = 400
"""So many tensors are asked for in one run: more would take much memory, fewer would compile the models too often."""
_LOOPS = frozenset({"Enter", "RefEnter"})
_NOT_ASKED = frozenset({"Placeholder", "PlaceholderWithDefault", "PlaceholderV2", "NoOp", "Assert", "Const"})
_MOST_ATTR = 60


@record
class Parted:
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
class Twins:
    """Two models that should answer the same.

    Attributes:
        a: The one.
        b: The other.
        inputs: Which of their inputs belong together.
        tolerance: How far values of a dtype may be apart.
        engines: What they run on.
        op_libraries: Libraries with custom ops.
    """

    a: ModelProgram
    b: ModelProgram
    inputs: Sequence[Pair]
    tolerance: Callable[[str], Tolerance]
    engines: tuple[str, str]
    op_libraries: tuple[str | os.PathLike[str], ...] = ()


def first_difference(twins: Twins, feeds: Mapping[str, NDArray[Any]]) -> Parted | None:
    """Looks at the nodes that both models have, from the inputs on, and names the first whose values differ.

    Constants are held against each other first, for a changed weight is a difference by itself. Then the tensors of all
    other nodes are asked for, some hundreds at a time, in an order in which a node comes behind all that it takes.

    Args:
        twins: The models.
        feeds: Inputs for which they differ, by the pairs' keys.

    Returns:
        The node; None if no node that both have differs: what differs is then in nodes that only one of them has.

    Raises:
        NotFoundInModelError: The models have no node in common.
    """
    model_a, model_b = twins.a.frozen.model, twins.b.frozen.model
    order = [name for name in _order(model_a.graph) if name in model_b.graph]
    if not order:
        what = "the models have no node in common, so no first difference can be named"
        raise NotFoundInModelError(what, remedy="compare models that were made of one another")
    seen = 0
    pending: list[str] = []
    for name in order:
        node, other = model_a.graph[name], model_b.graph[name]
        if node.op == other.op == "Const":
            seen += 1
            found = _constants_differ(name, node, other, seen)
            if found is not None and _is_used(model_a.graph, name):
                earlier = _ask(twins, model_a, model_b, pending, feeds, seen)
                return earlier or found
        elif _can_be_asked(model_a.graph, node) and _can_be_asked(model_b.graph, other):
            pending.append(name)
        if len(pending) == _AT_ONCE:
            parted = _ask(twins, model_a, model_b, pending, feeds, seen)
            if parted is not None:
                return parted
            seen += len(pending)
            pending = []
    return _ask(twins, model_a, model_b, pending, feeds, seen)


def _order(graph: Graph) -> Iterator[str]:
    """Names of nodes, each behind what it takes; those inside of loops, whose values change, are left out."""
    inside: set[str] = set()
    for node in graph.topological_order():
        sources = [source.node for source in graph.inputs_of(node)]
        if node.op in _LOOPS or (any(name in inside for name in sources) and node.op not in ("Exit", "RefExit")):
            inside.add(node.name)
            continue
        yield node.name


def _is_used(graph: Graph, name: str) -> bool:
    return bool(graph.consumers(name))


def _constants_differ(name: str, a: Node, b: Node, seen: int) -> Parted | None:
    one, other = a.peek("value"), b.peek("value")
    if one is None or other is None or one.kind != "tensor" or other.kind != "tensor":
        return None
    mine, theirs = one.value, other.value
    if mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        reason = f"the constant is {mine.dtype} {mine.shape} in A and {theirs.dtype} {theirs.shape} in B"
        return Parted(name, a.op, reason, None, seen - 1)
    if mine.dtype.itemsize == 0 and mine.dtype.name != "string":
        return None
    found = difference(mine.numpy(), theirs.numpy(), Tolerance(0.0, 0.0))
    if not found.reason:
        return None
    return Parted(
        name,
        a.op,
        f"the constant differs: {found.reason.replace(' by more than is usual', '')}",
        found.max_abs,
        seen - 1,
    )


def _can_be_asked(graph: Graph, node: Node) -> bool:
    if node.op in _NOT_ASKED or node.op in _LOOPS:
        return False
    kind = output_type(graph, node, 0)
    return kind is not None and bool(kind.base.itemsize)


def _ask(
    twins: Twins, a: Model, b: Model, names: Sequence[str], feeds: Mapping[str, NDArray[Any]], seen: int
) -> Parted | None:
    """Runs both for these nodes' first outputs, and gives the first one that differs."""
    if not names:
        return None
    tensors = [f"{name}:0" for name in names]
    answers = []
    for model, program, side, engine in ((a, twins.a, "a", twins.engines[0]), (b, twins.b, "b", twins.engines[1])):
        given = _given(program, model.graph, twins.inputs, side, feeds)
        try:
            with compile(model, tensors, engine=engine, op_libraries=twins.op_libraries) as runner:
                known = {port.tensor: key for key, port in runner.inputs.items()}
                wanted = {known[name]: value for name, value in given.items() if name in known}
                answers.append(runner.run(wanted, warn=False))
        except TfsmithError:
            if len(names) == 1:  # this one cannot be run alone, as when the fault is that its inputs do not fit
                return _structure(a.graph, b.graph, names[0], seen)
            half = len(names) // 2
            first = _ask(twins, a, b, names[:half], feeds, seen)
            return first or _ask(twins, a, b, names[half:], feeds, seen + half)
    for number, (name, tensor) in enumerate(zip(names, tensors, strict=True)):
        one, other = answers[0][tensor], answers[1][tensor]
        found = difference(one, other, twins.tolerance(one.dtype.name))
        if found.reason:
            told = _structure(a.graph, b.graph, name, 0)
            reason = found.reason if told is None else f"{told.reason}; {found.reason}"
            return Parted(name, a.graph[name].op, reason, found.max_abs, seen + number)
    return None


def _given(
    program: ModelProgram, graph: Graph, pairs: Sequence[Pair], side: str, feeds: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """The feeds by the names of the frozen graph's tensors."""
    given: dict[str, NDArray[Any]] = {}
    for pair in pairs:
        key = pair.a if side == "a" else pair.b
        if key is None or pair.key not in feeds:
            continue
        tensor = program.inputs[key].tensor
        if parse_input(tensor).node in graph:
            given[tensor] = feeds[pair.key]
    return given


def _structure(a: Body, b: Body, name: str, seen: int) -> Parted | None:
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
    return Parted(name, one.op, "; ".join(reasons), None, seen) if reasons else None


def _shown(attr: Attr) -> str:
    text = attr.value.decode("utf-8", "replace") if isinstance(attr.value, bytes) else str(attr.value)
    return text if len(text) <= _MOST_ATTR else f"{text[:_MOST_ATTR]}..."
