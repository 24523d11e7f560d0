"""Short ways to write queries and graphs, for the tests of patterns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Attr, Endpoint, Node, attr, parse_input
from tfsmith.ir.recipe import ConstantQuery, NodeQuery, Query, Recipe, Repeat, Variant

__all__ = ["graph", "query", "recipe", "wanted"]


def graph(*rows: tuple[Any, ...]) -> Graph:
    """A graph from rows: name, op, inputs in one string, attributes."""
    return Graph(tuple(node(*row) for row in rows))


def node(name: str, op: str, inputs: str = "", attrs: Mapping[str, Any] | None = None) -> Node:
    return Node(name, op, tuple(inputs.split()), attrs or {})


def wanted(
    name: str,
    op: str,
    inputs: str = "",
    attrs: Mapping[str, Any] | None = None,
    *,
    constant: ConstantQuery | None = None,
    both: bool = False,
) -> NodeQuery:
    """A wanted node; alternatives of ops are separated by bars."""
    values: dict[str, Attr] = {key: attr(value) for key, value in (attrs or {}).items()}
    ends = tuple(parse_input(text) for text in inputs.split())
    return NodeQuery(name, tuple(op.split("|")), ends, values, constant, both)


def query(inputs: str, outputs: str, *nodes: NodeQuery, through: str = "") -> Query:
    ends = tuple(parse_input(text) for text in outputs.split())
    return Query(nodes, tuple(inputs.split()), ends, tuple(through.split()))


def recipe(*queries: Query, repeat: Repeat | None = None) -> Recipe:
    variants = tuple(
        Variant(f"way {number}", one, (), dict[Endpoint, Endpoint](), repeat) for number, one in enumerate(queries)
    )
    return Recipe("test", "", variants)
