"""The nearest miss: of all attempts, the one in which most nodes fitted, and what was wrong there."""

from __future__ import annotations

from collections.abc import Collection, Container, Sequence

from tfsmith.ir.node import Endpoint
from tfsmith.ir.recipe import Miss, NameRule
from tfsmith.patterns.index import BodyIndex
from tfsmith.patterns.query import Plan, PlanNode, Slot, misfit

__all__ = ["Nearest", "describe_misfit", "describe_name", "Resemblance"]


class Nearest:
    """Keeps the nearest miss of a search. A sentence is made only for one that is nearer than those before.

    Attributes:
        miss: The nearest so far; None while nothing failed.
        already: Nodes that fitted before the present attempt began, and count with it.
    """

    __slots__ = ("_body", "_is_fixed", "_outside", "_variant", "already", "miss")

    def __init__(self, body: str | None, outside: Container[str] = ()) -> None:
        """Begins without a miss; `outside` are the nodes that something other than this search has taken."""
        self.miss: Miss | None = None
        self.already = 0
        self._body = body
        self._outside = outside
        self._variant = ""
        self._is_fixed = False

    def turn_to(self, variant: str) -> None:
        """From here on, another variant is looked for."""
        self._variant = variant

    def is_own(self, name: str) -> bool:
        """Whether a node that is taken was taken by this search."""
        return name not in self._outside

    def is_beaten_by(self, matched: int) -> bool:
        """Whether an attempt in which so many nodes fitted is nearer than all before; of equals, the first counts."""
        return not self._is_fixed and (self.miss is None or matched + self.already > self.miss.matched)

    def offer(self, matched: int, wanted: str, found: str, reason: str, *, must: bool = False) -> None:
        """A failed attempt. One that `must` be told stays the nearest."""
        if self.is_beaten_by(matched) or (must and not self._is_fixed):
            self.miss = Miss(self._body, self._variant, matched + self.already, wanted, found, reason)
            self._is_fixed = must


def describe_misfit(wanted: PlanNode, endpoint: Endpoint, output: int, index: BodyIndex) -> str:
    """What is wrong with what stands in the place of a wanted node."""
    node = index.nodes.get(endpoint.node)
    ops = " or ".join(wanted.query.ops)
    if node is None:
        what = "it is an argument of the function" if endpoint.node in index.body.args else "there is no such node"
        return f"{what}, and the op must be {ops}"
    if endpoint.output != output:
        return f"it must be output {output}, and it is output {endpoint.output}"
    return misfit(wanted, node, index) or "it does not fit"


def describe_name(rule: NameRule, names: Sequence[str], number: int | None) -> str | None:
    """What is wrong with the names of one thing; None if they fit. `number` is what `{i}` is elsewhere in the unit."""
    found = rule.count(names)
    if found is None:
        return f"its name must fit {rule.text!r}, and it is {names[-1]!r}"
    if rule.count(names, number) is None:
        return f"{{i}} is {number} in other names of the unit, and {found} in {names[-1]!r}"
    return None


_MOST_FLAWS = 3
"""With more than this, a place is no likeness."""


class Resemblance:
    """A walk from one node.

    Attributes:
        steps: How many nodes it looked at.
    """

    def __init__(self, plan: Plan, index: BodyIndex, taken: Collection[str], nearest: Nearest) -> None:
        self.steps = 0
        self._plan = plan
        self._index = index
        self._taken = taken
        self._nearest = nearest
        self._bound: dict[int, str] = {}
        self._owner: dict[str, int] = {}
        self._tensors: dict[int, Endpoint] = {}
        self._flaws: list[tuple[str, str, str]] = []
        self._fitting = 0
        self._number: int | None = None

    def walk(self, seed: str, most: int) -> None:
        """Looks at what stands below a node, at most so many steps, and offers the first thing that is wrong."""
        todo = [(Slot(self._plan.seed, -1, 0), Endpoint(seed, 0), "")]
        while todo and len(self._flaws) <= _MOST_FLAWS and self.steps < most:
            self.steps += 1
            slot, endpoint, user = todo.pop()
            if slot.node < 0:
                self._look_at_input(slot, endpoint, user)
            elif endpoint.node in self._taken and self._nearest.is_own(endpoint.node):
                return  # an occurrence that overlaps a match is no miss
            elif slot.node not in self._bound:
                todo += self._look_at(slot, endpoint, user)
        if self._flaws:
            self._nearest.offer(self._fitting, *self._flaws[0])

    def _look_at_input(self, slot: Slot, endpoint: Endpoint, user: str) -> None:
        known = self._tensors.setdefault(slot.input, endpoint)
        why = f"that is {known} elsewhere" if known != endpoint else None
        rule = self._plan.rules.get(slot.input)
        if why is None and rule is not None:
            names = self._index.names(endpoint)
            why = describe_name(rule, names, self._number)
            self._number = rule.count(names) if self._number is None and rule.counts else self._number
        if why is not None:
            name = self._plan.query.inputs[slot.input]
            reason = f"{user!r} takes {endpoint} in the place of {name!r}, but {why}"
            self._flaws.append((name, endpoint.node, reason))

    def _look_at(self, slot: Slot, endpoint: Endpoint, user: str) -> list[tuple[Slot, Endpoint, str]]:
        """Binds a node, right or wrong; gives what to look at next, last first."""
        wanted = self._plan.wanted[slot.node]
        through = self._plan.through if user else ()
        for place, _ in self._index.way_back(endpoint, through, self._taken):
            self.steps += 1
            if self._fits(wanted, place, slot.output):
                self._fitting += 1
                return self._below(wanted, place.node)
        head = f"{user!r} takes {endpoint.node!r}" if user else f"{endpoint.node!r} stands"
        owner = self._owner.get(endpoint.node)
        if owner is None:
            why = describe_misfit(wanted, endpoint, slot.output, self._index)
        else:
            why = f"it is {self._plan.wanted[owner].name!r} already"
        reason = f"{head} in the place of {wanted.name!r}, but {why}"
        self._flaws.append((wanted.name, endpoint.node, reason))
        is_node = endpoint.node in self._index.nodes and owner is None
        if not is_node or len(self._index.data(endpoint.node)) != len(wanted.data):
            self._bound[wanted.number] = ""
            return []
        return self._below(wanted, endpoint.node)

    def _fits(self, wanted: PlanNode, place: Endpoint, output: int) -> bool:
        node = self._index.nodes.get(place.node)
        if node is None or place.output != output or node.op not in wanted.ops or node.name in self._taken:
            return False
        return (node.name not in self._owner or node.op == "Const") and misfit(wanted, node, self._index) is None

    def _below(self, wanted: PlanNode, name: str) -> list[tuple[Slot, Endpoint, str]]:
        self._bound[wanted.number] = name
        self._owner.setdefault(name, wanted.number)
        data = self._index.data(name)
        slots = wanted.data
        if wanted.swapped is not None and self._likeness(wanted.swapped, data) > self._likeness(slots, data):
            slots = wanted.swapped
        return [(slot, endpoint, name) for slot, endpoint in zip(slots, data, strict=True)][::-1]

    def _likeness(self, slots: tuple[Slot, ...], data: tuple[Endpoint, ...]) -> int:
        """How many of the first two inputs are right at first sight."""
        count = 0
        for slot, endpoint in zip(slots[:2], data, strict=False):
            if slot.node < 0:
                rule = self._plan.rules.get(slot.input)
                is_called_so = rule is None or rule.count(self._index.names(endpoint)) is not None
                count += is_called_so and self._tensors.get(slot.input, endpoint) == endpoint
                continue
            for place, _ in self._index.way_back(endpoint, self._plan.through):
                self.steps += 1
                node = self._index.nodes.get(place.node)
                if node is not None and node.op in self._plan.wanted[slot.node].ops:
                    count += 1
                    break
        return count
