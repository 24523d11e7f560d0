"""Signs in a frozen graph that a constant was a variable: who takes it, and how.

Freezing leaves the names of what read a variable: an Identity `X/read` of a TF1 reference, Identities named
`.../ReadVariableOp` of a resource. What gathered from a resource gets the axis that it lacked as a new constant behind
all other nodes, where code that gathers has it before. Loops, branches and functions hand a variable on to such reads
inside of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfsmith.ir.body import Body, Use
from tfsmith.ir.graph import Function, Graph
from tfsmith.ops import CALLS
from tfsmith.passes.prune import called

__all__ = ["Signs"]

_READ = re.compile(r"(^|/)ReadVariableOp(_\d+)?$")
_MAYBE = frozenset({"GatherNd", "Shape"})
"""What ResourceGatherNd and VariableShape become; their names say nothing."""


class Signs:
    """Looks for the signs in one graph."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._places: dict[str, dict[str, int]] = {}

    def was_variable(self, name: str) -> bool:
        """Whether all that takes this node reads it as a variable is read, and something does so for sure."""
        sure = False
        todo: list[tuple[Body, str]] = [(self._graph, name)]
        seen = {("", name)}
        while todo:
            body, source = todo.pop()
            for use in body.consumers(source):
                answer = self._is_read(body, use, source)
                if answer is None:
                    onward = list(self._onward(body, use))
                    if not onward:
                        return False
                    fresh = [(inner, text) for inner, text in onward if (_key(inner), text) not in seen]
                    seen.update((_key(inner), text) for inner, text in fresh)
                    todo += fresh
                sure = sure or bool(answer)
        return sure

    def _is_read(self, body: Body, use: Use, source: str) -> bool | None:
        """Whether a use is a read for sure, or may be one; None if it is not one itself."""
        node = use.node
        if use.input != 0:
            return None
        if node.op == "Identity" and (node.name == f"{source}/read" or _READ.search(node.name)):
            return True
        if node.op == "GatherV2" and len(node.inputs) > 2 and self._is_late(body, f"{node.name}/axis", node.name):
            return True
        return False if node.op in _MAYBE else None

    def _is_late(self, body: Body, name: str, user: str) -> bool:
        """Whether a node stands behind its user in the file."""
        places = self._places.get(_key(body))
        if places is None:
            places = self._places[_key(body)] = {node.name: place for place, node in enumerate(body.nodes)}
        return places.get(name, -1) > places[user]

    def _onward(self, body: Body, use: Use) -> Iterator[tuple[Body, str]]:
        """Where the tensor goes on behind an op that only hands it on; nothing if the op does more."""
        node = use.node
        if node.op in ("Enter", "Switch") and use.input == 0:
            yield body, node.name
            return
        index = use.input - (CALLS[node.op].first if node.op in CALLS else 0)
        for name in called(node, self._graph.library) if index >= 0 else ():
            function = self._graph.library.get(name)
            if function is not None and index < len(function.args):
                yield function, function.args[index]


def _key(body: Body) -> str:
    return body.name if isinstance(body, Function) else ""
