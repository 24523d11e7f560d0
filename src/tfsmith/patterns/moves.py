"""`Goal` and `Move`: what an attempt has to reach, and how it could."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tfsmith.ir.node import Endpoint
from tfsmith.patterns.plan import Slot, Wanted

__all__ = ["Goal", "Move", "Rule"]

Rule = Callable[[Endpoint], bool]
"""Whether an input of the query may stand for this tensor."""


class Goal(NamedTuple):
    """That a wanted node's output must be this tensor.

    Attributes:
        slot: The wanted node and its output.
        endpoint: The tensor.
        user: The number of the wanted node that takes it; -1 for none.
        is_exact: Whether nothing may be passed through on the way.
    """

    slot: Slot
    endpoint: Endpoint
    user: int = -1
    is_exact: bool = False


class Move(NamedTuple):
    """One way to reach a goal.

    Attributes:
        wanted: The wanted node that is bound; None where it is bound already.
        found: The node that it is bound to.
        slots: What it takes, in one of the orders that it may have.
        start: Where passing through begins.
        passed: How many nodes are passed.
        input: The number of the input of the query that is bound to `start`, if that is what the move does.
    """

    wanted: Wanted | None
    found: str
    slots: tuple[Slot, ...]
    start: Endpoint
    passed: int = 0
    input: int = -1
