"""Nodes outside of a match that live by it alone: they use its inner values, and only it uses them.

Many programs ask for the shape of every layer's output and shape the layer's own tensors with the answer. Where the
new nodes take no such answer, all of this goes with the match.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set

from tfsmith.ir.body import Body
from tfsmith.ir.node import CONTROL, Endpoint
from tfsmith.patterns.users import Outside, may_be_pruned

__all__ = ["enclosed_users"]

_MOST = 10_000
"""Nodes outside that are looked at; a match that feeds more is not looked into."""


def enclosed_users(
    body: Body,
    outside: Outside,
    nodes: Set[str],
    shared: Collection[str],
    outputs: Collection[Endpoint],
    needed: Set[str],
    gone: Set[str],
    taken: Mapping[str, object],
) -> set[str] | None:
    """The nodes outside of a match that use its inner values, if all that they lead to is the match; else None.

    Args:
        body: The graph or function.
        outside: What is used of it.
        nodes: The nodes of the match.
        shared: Those of them that others use.
        outputs: Its outputs, which others may use.
        needed: Nodes that what takes the match's place needs.
        gone: Nodes that do not count, because they are gone already.
        taken: Nodes that new nodes of other matches take.
    """
    found: set[str] = set()
    for name in shared:
        named = [item for item in outside.named.get(name, ()) if item.endpoint not in outputs]
        if name in taken or any(item.kind != "control" for item in named):
            return None
        uses = [use for use in body.uses[name] if use.output != CONTROL and Endpoint(name, use.output) not in outputs]
        found |= {use.node.name for use in uses} - nodes - gone
    todo = list(found)
    while todo:
        name = todo.pop()
        if name in needed or name in taken or len(found) > _MOST or not may_be_pruned(body, outside, body[name]):
            return None
        for use in body.uses[name]:
            user = use.node.name
            if user in gone or (user in nodes and use.output != CONTROL):
                continue
            if user in nodes:
                return None  # the match waits for it
            if user not in found:
                found.add(user)
                todo.append(user)
    return found
