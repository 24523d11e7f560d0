"""`Budget`: how much work a search may still do."""

from __future__ import annotations

from tfsmith.errors import LimitError
from tfsmith.limits import MAX_MATCH_STEPS

__all__ = ["Budget", "GaveUp"]

_ATTEMPTS = 10
"""So many hopeless attempts may go to their limit before the whole search gives up."""
_STEPS_PER_NODE = 100
"""What the search of a large body may take besides; real ones take some ten."""


class GaveUp(Exception):
    """One attempt took more steps than it may. Never leaves this package."""


class Budget:
    """Counts steps: for one attempt at most `MAX_MATCH_STEPS`; for all of them, a multiple that grows with the body.

    Attributes:
        steps: All steps so far.
    """

    __slots__ = ("_attempt_ends", "_ends", "_what", "steps")

    def __init__(self, what: str, nodes: int) -> None:
        self.steps = 0
        self._what = what
        self._ends = _ATTEMPTS * MAX_MATCH_STEPS + _STEPS_PER_NODE * nodes
        self._attempt_ends = MAX_MATCH_STEPS

    def begin(self) -> None:
        """Another attempt begins.

        Raises:
            LimitError: All attempts together took too many steps.
        """
        self._attempt_ends = self.steps + MAX_MATCH_STEPS
        if self.steps > self._ends:
            raise LimitError(
                f"looking for it takes more than {self._ends} steps",
                where=self._what,
                remedy="say more in the recipe: ops, attributes, fewer commutative nodes, fewer ops to pass through",
            )

    def spend(self, count: int = 1) -> None:
        """So many steps more.

        Raises:
            GaveUp: The attempt took too many.
        """
        self.steps += count
        if self.steps > self._attempt_ends:
            raise GaveUp
