"""The nearest miss of a search in which no attempt was made: what is wrong where a graph only resembles the query."""

from __future__ import annotations

from collections.abc import Collection

from tfsmith.ir.node import Endpoint
from tfsmith.patterns.attempt import Nearest, describe_misfit, describe_name
from tfsmith.patterns.index import BodyIndex
from tfsmith.patterns.query import Plan, PlanNode, Slot, misfit

__all__ = ["Resemblance"]

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
