"""`Search`: all occurrences of one query in one body, none of which overlap."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from types import MappingProxyType

from tfsmith.errors import LimitError
from tfsmith.ir.match import Unit
from tfsmith.ir.node import Endpoint, Node
from tfsmith.patterns.anchors import reachable_seeds
from tfsmith.patterns.attempt import Attempt
from tfsmith.patterns.body_index import BodyIndex
from tfsmith.patterns.budget import Budget
from tfsmith.patterns.cones import Cones
from tfsmith.patterns.explain import Nearest
from tfsmith.patterns.moves import Goal, Rule
from tfsmith.patterns.plan import Plan, Slot, depth_of
from tfsmith.patterns.resemble import Resemblance

__all__ = ["Search", "owned_by"]

_NO_RULES: Mapping[int, Rule] = MappingProxyType({})
_DEEP = 32
"""Queries that go down this far are not tried where the body does not."""
_MANY = 200
"""With more places to begin at than this, it pays to look for the rarest node first."""
_EXPLAIN_STEPS = 100_000
"""What the nearest miss may cost besides; some 0.2 s. In a large body, only the first places are looked at."""


def owned_by(units: Iterable[Unit], index: BodyIndex) -> set[str]:
    """The nodes that no other match may have: all, but for constants and the like, which take nothing."""
    return {name for unit in units for name in (*unit.nodes.values(), *unit.passed) if index.data(name)}


class Search:
    """A search for one query. What it finds is taken; what is taken, it does not find.

    Attributes:
        plan: The query.
        index: The body.
        taken: Nodes that belong to a match already.
    """

    def __init__(self, plan: Plan, index: BodyIndex, budget: Budget, nearest: Nearest, taken: Collection[str]) -> None:
        self.plan = plan
        self.index = index
        self.taken = set(taken)
        self.nearest = nearest
        self._budget = budget
        self._cones = Cones(plan, index, budget)
        self._depths: dict[str, float] = {}
        self._untried: Sequence[Node] = ()
        self._failed: list[str] = []
        self._skipped: list[str] = []

    def units(self) -> list[Unit]:
        """All occurrences, first come, first served, in the order of the nodes that give the query's output.

        Raises:
            LimitError: It takes too many steps.
        """
        seed = self.plan.wanted[self.plan.seed]
        candidates = self.index.of_ops(seed.query.ops)
        if not candidates:
            reason = f"there is no node of op {' or '.join(seed.query.ops)}"
            self.nearest.offer(0, seed.name, "", reason)
        if not self._has_enough():
            self._untried = candidates
            return []
        return self._try(candidates)

    def _try(self, candidates: Sequence[Node]) -> list[Unit]:
        reachable = reachable_seeds(self.plan, self.index) if len(candidates) > _MANY else None
        units: list[Unit] = []
        for node in candidates:
            if node.name in self.taken:
                continue
            if self._is_too_shallow(node.name) or (reachable is not None and node.name not in reachable):
                self._skipped.append(node.name)
                continue
            unit = self.at(node.name)
            if unit is None:
                self._failed.append(node.name)
            else:
                units.append(unit)
                self.taken |= owned_by([unit], self.index)
        return units

    def _has_enough(self) -> bool:
        """Whether there are as many free nodes of each op as the query wants. The rarest op is looked at first."""
        wants = Counter(wanted.ops for wanted in self.plan.wanted if wanted.data)
        for ops in sorted(wants, key=self.index.count_ops):
            free = (node for node in self.index.of_ops(ops) if node.name not in self.taken)
            if sum(1 for _ in islice(free, wants[ops])) < wants[ops]:
                return False
        return True

    def explain(self) -> None:
        """Looks how near to a match the places are where `units` found none."""
        with contextlib.suppress(LimitError):  # what was seen by then must do
            self._try(self._untried)
        steps = 0
        for name in (*self._failed, *sorted(self._skipped, key=lambda name: -self._depths.get(name, 0))):
            if name in self.taken or steps >= _EXPLAIN_STEPS:
                continue
            walk = Resemblance(self.plan, self.index, self.taken, self.nearest)
            walk.walk(name, _EXPLAIN_STEPS - steps)
            steps += walk.steps

    def at(self, name: str, rules: Mapping[int, Rule] = _NO_RULES) -> Unit | None:
        """The occurrence that begins at a node, if there is one."""
        goal = Goal(Slot(self.plan.seed, -1, 0), Endpoint(name, 0), is_exact=True)
        return self.reach([goal], rules)

    def reach(self, goals: Iterable[Goal], rules: Mapping[int, Rule] = _NO_RULES) -> Unit | None:
        """The occurrence in which these goals are reached, if there is one."""
        attempt = Attempt(self.plan, self.index, self._cones, self._budget, self.nearest, taken=self.taken, rules=rules)
        return attempt.run(goals)

    def again(self, unit: Unit, rules: Mapping[int, Rule]) -> Unit | None:
        """Another occurrence in the place of this one, in which the inputs follow these rules. Counts as no miss."""
        taken, nearest = self.taken, self.nearest
        self.taken = taken - owned_by([unit], self.index)
        self.nearest = Nearest(None)
        other = self.at(unit.nodes[self.plan.wanted[self.plan.seed].name], rules)
        self.nearest = nearest
        self.taken = taken if other is None else self.taken | owned_by([other], self.index)
        return other

    @cached_property
    def _wanted_depth(self) -> int:
        return depth_of(self.plan)

    def _is_too_shallow(self, name: str) -> bool:
        """Whether the longest way down from a node, over nodes that are free, is shorter than the query's.

        A node's depth is worked out once; those that are taken later only make it less.
        """
        if self._wanted_depth < _DEEP:
            return False
        depths = self._depths
        open_nodes: set[str] = set()
        stack = [name]
        while stack:
            one = stack[-1]
            if one in depths:
                stack.pop()
                continue
            below = [source for source, _ in self.index.data(one) if source in self.index.nodes]
            missing = [source for source in below if source not in depths and source not in self.taken]
            if one not in open_nodes and missing:
                open_nodes.add(one)
                stack.extend(source for source in missing if source not in open_nodes)
                continue
            # What is still missing here is above itself: a loop, which is as deep as one likes.
            values = [depths.get(source, float("inf")) for source in below if source not in self.taken]
            depths[one] = 1 + max(values, default=0)
            stack.pop()
        return depths[name] < self._wanted_depth
