"""The nearest miss: of all attempts, the one in which the most nodes fitted, and what was wrong there."""

from __future__ import annotations

from collections.abc import Container, Sequence

from tfsmith.ir.match import Miss
from tfsmith.ir.name_rule import NameRule
from tfsmith.ir.node import Endpoint
from tfsmith.patterns.body_index import BodyIndex
from tfsmith.patterns.fitting import misfit
from tfsmith.patterns.plan import Wanted

__all__ = ["Nearest", "describe_misfit", "describe_name"]


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


def describe_misfit(wanted: Wanted, endpoint: Endpoint, output: int, index: BodyIndex) -> str:
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
