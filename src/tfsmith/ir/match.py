"""`Match` and `Miss`: what a search for a recipe's query found, or how near it came."""

from __future__ import annotations

from collections.abc import Mapping

from tfsmith.ir.node import Endpoint
from tfsmith.ir.recipe import Variant
from tfsmith.records import record

__all__ = ["Match", "Miss", "Unit"]


@record
class Unit:
    """One occurrence of a query.

    Attributes:
        nodes: For each wanted node, the name of the node that was found.
        inputs: For each input of the query, the output that stands there.
        passed: Names of the nodes that were passed through.
        number: What `{i}` is in its names, where the query has rules for names that count.
    """

    nodes: Mapping[str, str]
    inputs: Mapping[str, Endpoint]
    passed: tuple[str, ...] = ()
    number: int | None = None


@record
class Match:
    """One occurrence of a variant: a unit, or a chain of them.

    Attributes:
        body: The name of the function that it is in; None for the graph itself.
        variant: What was looked for.
        units: The occurrences of the query, first to last; one where it does not repeat.
        before: The occurrence of what stands in front of the chain.
    """

    body: str | None
    variant: Variant
    units: tuple[Unit, ...]
    before: Unit | None = None


@record
class Miss:
    """The attempt that came nearest to a match.

    Attributes:
        body: The name of the function; None for the graph itself.
        variant: The variant's name.
        matched: How many nodes of the query fitted.
        wanted_node: The first node of the query that did not fit.
        found_node: The node that stood in its place; "" where there was none.
        reason: What was wanted and what was found, in a sentence.
    """

    body: str | None
    variant: str
    matched: int
    wanted_node: str
    found_node: str
    reason: str
