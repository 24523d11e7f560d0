"""`Pattern`: a piece of a graph as it was extracted, with the nodes themselves."""

from __future__ import annotations

from tfsmith.ir.node import Node
from tfsmith.records import record

__all__ = ["Pattern"]


@record
class Pattern:
    """Nodes cut out of a model, from the seeds back to the barriers; the barriers themselves are not part of it.

    Attributes:
        seed_nodes: The nodes whose outputs the rest of the model may use.
        internal_nodes: The nodes between the seeds and the barriers, in the order in which they were found.
        inputs: The names of the barrier nodes (or function arguments) that were reached, sorted.
    """

    seed_nodes: tuple[Node, ...]
    internal_nodes: tuple[Node, ...]
    inputs: tuple[str, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, seeds first."""
        return (*self.seed_nodes, *self.internal_nodes)
