"""The found piece as it is drawn: nodes folded into boxes, boxes in rows from inputs to outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from tfsmith.ir.node import CONTROL
from tfsmith.ir.recipe import Query
from tfsmith.records import field, record
from tfsmith.view.drawing.folding import TIMES, fold_names, scope_groups, scope_numbers

__all__ = ["Box", "Piece", "lay_out"]

_MOST_BOXES = 28
_MOST_OPS = 4
_FEW = 2


@record(frozen=False)
class Box:
    """Some wanted nodes that are drawn as one.

    Attributes:
        title: Their name, or the scope that they are in.
        names: The names of the nodes.
        ops: How often each op is among them.
        is_seed: Whether the rest of the graph may use one of them.
        row: In which row it stands; 0 is nearest to the inputs.
    """

    title: str
    names: list[str] = field(default_factory=list)
    ops: Counter[str] = field(default_factory=Counter)
    is_seed: bool = False
    row: int = 0

    def lines(self, strip: str) -> list[str]:
        """What is written into it."""
        title = self.title.removeprefix(strip)
        if len(self.names) == 1:
            return [title, next(iter(self.ops))]
        if len(self.names) <= _FEW:
            return [title, ", ".join(self.ops)]
        listed = [op if count == 1 else f"{op} {TIMES}{count}" for op, count in self.ops.most_common(_MOST_OPS)]
        more = len(self.ops) - _MOST_OPS
        return [title, f"{len(self.names)} nodes: " + ", ".join(listed) + (f", +{more} ops" if more > 0 else "")]


@record
class Piece:
    """What is to be drawn of a query.

    Attributes:
        boxes: By title, in order.
        edges: Which box feeds which.
        carries: Edges from one repetition to the next.
        users: For each input of the query, the boxes that take it.
    """

    boxes: Mapping[str, Box]
    edges: frozenset[tuple[str, str]]
    carries: frozenset[tuple[str, str]]
    users: Mapping[str, tuple[str, ...]]


def lay_out(query: Query) -> Piece:
    """Folds and layers a query; linear but for the few boxes that remain."""
    ops = {node.name: "|".join(node.ops) for node in query.nodes}
    folded = fold_names(ops, ops)
    title_of = {name: fold.title for fold in folded for name in fold.names}
    owners = _owners(query)
    scopes = scope_groups(
        (fold.title for fold in folded if not all(name in owners for name in fold.names)), _MOST_BOXES
    )
    box_of = {name: scopes[title_of[name]] for name in title_of if name not in owners}
    box_of |= {name: box_of[owner] for name, owner in owners.items()}
    turn = {name: scope_numbers(name) for fold in folded if len(fold.names) > 1 for name in fold.names}
    seeds = {endpoint.node for endpoint in query.outputs}
    boxes: dict[str, Box] = {}
    users: dict[str, list[str]] = {name: [] for name in query.inputs}
    edges: set[tuple[str, str]] = set()
    carries: set[tuple[str, str]] = set()
    for node in query.nodes:
        own = box_of[node.name]
        box = boxes.setdefault(own, Box(own))
        box.names.append(node.name)
        box.ops[ops[node.name]] += 1
        box.is_seed |= node.name in seeds
        for source in (endpoint.node for endpoint in node.inputs if endpoint.output != CONTROL):
            if source not in box_of:
                users.setdefault(source, []).append(own)
            elif box_of[source] == own:
                continue
            elif source in turn and node.name in turn and turn[source] != turn[node.name]:
                carries.add((box_of[source], own))
            else:
                edges.add((box_of[source], own))
    kept = _rank(boxes, edges)
    carries |= edges - kept
    return Piece(
        boxes,
        frozenset(kept),
        frozenset(carries),
        {name: tuple(dict.fromkeys(found)) for name, found in users.items()},
    )


def _owners(query: Query) -> dict[str, str]:
    """For constants and their like that one node takes, that node: they are drawn in its box."""
    users: dict[str, set[str]] = {}
    for node in query.nodes:
        for source in node.inputs:
            users.setdefault(source.node, set()).add(node.name)
    seeds = {endpoint.node for endpoint in query.outputs}
    lonely = [node.name for node in query.nodes if not node.inputs and node.name not in seeds]
    return {name: next(iter(users[name])) for name in lonely if len(users.get(name, ())) == 1}


def _rank(boxes: Mapping[str, Box], edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Gives each box its row, and returns the edges that go forward; those that would close a circle are left out."""
    after: dict[str, list[str]] = {title: [] for title in boxes}
    for start, stop in sorted(edges):
        after[start].append(stop)
    order: list[str] = []
    state: dict[str, int] = {}
    kept: set[tuple[str, str]] = set()
    for root in boxes:
        todo = [(root, iter(after[root]))] if root not in state else []
        state.setdefault(root, 1)
        while todo:
            title, rest = todo[-1]
            following = next(rest, None)
            if following is None:
                state[title] = 2
                order.append(title)
                todo.pop()
                continue
            if state.get(following) != 1:
                kept.add((title, following))
            if following not in state:
                state[following] = 1
                todo.append((following, iter(after[following])))
    for title in reversed(order):
        for following in after[title]:
            if (title, following) in kept:
                boxes[following].row = max(boxes[following].row, boxes[title].row + 1)
    return kept
