"""`Cones`: whether all that a wanted node needs can stand below a node, looked at from that node alone.

It is less than a match: a tensor may stand for an input here and another one there, and one node for two wanted ones.
But what fails here fails everywhere, whatever else is found, and so it is worked out once for each pair of a wanted
and a found node. That is what keeps long chains of commutative ops, where each may stand in two orders, from taking
time that doubles with every link.
"""

from __future__ import annotations

from tfsmith.ir.node import Endpoint
from tfsmith.patterns.body_index import BodyIndex
from tfsmith.patterns.budget import Budget
from tfsmith.patterns.fitting import misfit
from tfsmith.patterns.plan import Plan, Slot

__all__ = ["Cones"]

_MOST_PAIRS = 500_000
"""What is remembered, some 100 MB; beyond that, it is worked out again."""

_Pair = tuple[int, str]


class Cones:
    """What can stand where, for one query in one body."""

    def __init__(self, plan: Plan, index: BodyIndex, budget: Budget) -> None:
        self._plan = plan
        self._index = index
        self._budget = budget
        self._known: dict[_Pair, bool] = {}

    def can_stand(self, slot: Slot, endpoint: Endpoint) -> bool:
        """Whether this output of a wanted node, with all that it needs, can be this tensor. Never recurses.

        Raises:
            GaveUp: It takes too many steps.
        """
        if len(self._known) > _MOST_PAIRS:
            self._known.clear()
        todo: list[_Pair] = []
        while True:
            verdict = self._at(slot, endpoint, todo)
            if verdict is not None:
                return verdict
            while todo:
                pair = todo[-1]
                judged = True if pair in self._known else self._judge(pair, todo)
                if judged is None:
                    continue
                self._known.setdefault(pair, judged)
                todo.pop()

    def _at(self, slot: Slot, endpoint: Endpoint, todo: list[_Pair]) -> bool | None:
        """Whether one of the nodes on the way back from a tensor will do; None, and more to do, if nobody knows yet."""
        ops = self._plan.wanted[slot.node].ops
        unknown: list[_Pair] = []
        for (name, output), _ in self._index.way_back(endpoint, self._plan.through):
            self._budget.spend()
            node = self._index.nodes.get(name)
            if node is None or output != slot.output or node.op not in ops:
                continue
            pair = (slot.node, name)
            verdict = self._known.get(pair)
            if verdict:
                return True
            if verdict is None:
                unknown.append(pair)
        todo.extend(unknown)
        return None if unknown else False

    def _judge(self, pair: _Pair, todo: list[_Pair]) -> bool | None:
        """Whether a node will do for a wanted one; None, and more to do, if nobody knows yet."""
        self._budget.spend()
        wanted = self._plan.wanted[pair[0]]
        if misfit(wanted, self._index.nodes[pair[1]], self._index) is not None:
            return False
        data = self._index.data(pair[1])
        for slots in (wanted.data, wanted.swapped):
            if slots is None:
                continue
            unknown: list[_Pair] = []
            verdicts = [
                self._at(slot, endpoint, unknown) for slot, endpoint in zip(slots, data, strict=True) if slot.node >= 0
            ]
            if all(verdicts):
                return True
            if False not in verdicts:
                todo.extend(unknown)
                return None
        return False
