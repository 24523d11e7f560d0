"""Where an occurrence can begin: the rarest wanted node says more of that than the one that the search begins at."""

from __future__ import annotations

from tfsmith.ir.node import Endpoint
from tfsmith.patterns.body_index import BodyIndex
from tfsmith.patterns.plan import Plan

__all__ = ["reachable_seeds"]

_RARE = 2
"""How many times rarer than the seed a node must be to be worth the walk."""
_STEPS_PER_SEED = 16
"""How far the walk may go for each node that the search could begin at; it is cheaper than an attempt."""


def reachable_seeds(plan: Plan, index: BodyIndex) -> set[str] | None:
    """The nodes that a node of the rarest wanted op leads up to, by the way that the query shows.

    An occurrence begins at one of them. None where there is no rare op, or where the ways branch so much that nothing
    is gained. Takes no more steps than a few for each node of the seed's op.
    """
    ways = _ways_up(plan)
    seeds = index.count_ops(plan.wanted[plan.seed].ops)
    counts = {number: index.count_ops(plan.wanted[number].ops) for number in ways}
    rarest = min(ways, key=lambda number: counts[number])  # of equals the first, which is the nearest to the seed
    if counts[rarest] * _RARE > seeds:
        return None
    level = {node.name for node in index.of_ops(plan.wanted[rarest].ops)}
    left = seeds * _STEPS_PER_SEED
    number = rarest
    while number != plan.seed and level:
        user, output = ways[number]
        ops = plan.wanted[user].ops
        above: set[str] = set()
        for name in level:
            for node in index.users(Endpoint(name, output), plan.through):
                left -= 1
                if node.op in ops:
                    above.add(node.name)
            if left < 0:
                return None
        level, number = above, user
    return level


def _ways_up(plan: Plan) -> dict[int, tuple[int, int]]:
    """For each wanted node below the seed: the one that takes it on a shortest way up, and the output that it takes."""
    ways = {plan.seed: (plan.seed, 0)}
    todo = [plan.seed]
    for number in todo:  # grows while it is walked
        for slot in plan.wanted[number].data:
            if slot.node >= 0 and slot.node not in ways:
                ways[slot.node] = (number, slot.output)
                todo.append(slot.node)
    return ways
