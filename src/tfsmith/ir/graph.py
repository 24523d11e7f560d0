"""`Graph`: the nodes of a model, and its library of functions."""

from __future__ import annotations

from collections.abc import Mapping

from tfsmith.ir.body import Body
from tfsmith.ir.function import Library
from tfsmith.ir.node import Endpoint, Node, parse_input
from tfsmith.ir.opdb import OpLookup, builtin_op, builtin_ops
from tfsmith.ir.part import Part
from tfsmith.records import record
from tfsmith.storage.span import Span

__all__ = ["Graph", "Versions"]


@record
class Versions:
    """Who may read a graph: the version that wrote it, and the oldest reader that it allows."""

    producer: int = 0
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()


_DEFAULT_VERSIONS = Versions()


class Graph(Body):
    """A graph. Inputs are written "node", "node:1" or "^node".

    Attributes:
        versions_part: Producer and consumer versions.
        library: The functions that nodes may call, by name, with gradients.
        op_def: Finds the definition of an op by name, or None: the model's own, then TensorFlow's.
        raw: Its bytes, while nobody has edited it.
        extras: Other fields of its file, tags included, which are written back as they are.
    """

    def __init__(
        self,
        nodes: tuple[Node, ...],
        versions: Versions | Part[Versions] = _DEFAULT_VERSIONS,
        library: Library | None = None,
        *,
        ops: OpLookup = builtin_op,
        raw: Span | None = None,
        extras: tuple[Span, ...] = (),
    ) -> None:
        self.op_def = ops
        self._nodes = nodes
        self.versions_part = Part.of(versions) if isinstance(versions, Versions) else versions
        self.library = Library() if library is None else library
        self.raw = raw
        self.extras = extras

    def __repr__(self) -> str:
        return f"<Graph {len(self._nodes)} nodes, {len(self.library)} functions>"

    @property
    def title(self) -> str:
        """What to call it in messages."""
        return "the graph"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the file's order."""
        return self._nodes

    @property
    def versions(self) -> Versions:
        """Producer and consumer versions."""
        return self.versions_part.value

    @property
    def functions(self) -> Library:
        """The functions by name; another word for `library`."""
        return self.library

    def resolve(self, text: str) -> Endpoint:
        """Reads "node", "node:1" or "^node"."""
        return parse_input(text)

    def replace(
        self,
        *,
        nodes: tuple[Node, ...] | None = None,
        versions: Versions | None = None,
        library: Library | None = None,
    ) -> Graph:
        """Another graph with these changes; what is not named stays as it is, byte for byte."""
        return Graph(
            self._nodes if nodes is None else nodes,
            self.versions_part if versions is None else versions,
            self.library if library is None else library,
            ops=self.op_def,
            extras=self.extras,
        )

    def map_nodes(self, changes: Mapping[str, Node]) -> Graph:
        """Another graph in which the nodes named are swapped for others, in their places."""
        return self.replace(nodes=tuple(changes.get(node.name, node) for node in self._nodes))

    def op_counts(self) -> dict[str, int]:
        """How many nodes each op has, most first."""
        return count_ops(self._nodes)

    def custom_ops(self) -> tuple[str, ...]:
        """Ops that stock TensorFlow does not have and that are no functions of the library, sorted."""
        known = builtin_ops()
        used = {node.op for node in self._nodes}
        for function in self.library.values():
            used |= {node.op for node in function.nodes}
        return tuple(sorted(op for op in used if op not in known and op not in self.library))


def count_ops(nodes: tuple[Node, ...]) -> dict[str, int]:
    """How many nodes each op has, most first."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.op] = counts.get(node.op, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
