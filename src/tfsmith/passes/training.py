"""Traces of training in a graph that is to answer: what makes frozen models answer wrongly."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.records import record

__all__ = ["Note", "find_training"]

_BATCH_NORM = frozenset({"FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3", "_FusedBatchNormEx"})
_RANDOM = re.compile(r"(Stateless)?(Random|TruncatedNormal|Multinomial)")
_QUEUES = frozenset({"QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2", "IteratorGetNext", "ReaderReadV2"})
_DROPOUT = re.compile(r"dropout", re.IGNORECASE)


@record
class Note:
    """Something that the user should know about the result: what, which nodes, and what to do."""

    what: str
    nodes: tuple[str, ...]
    remedy: str

    def __str__(self) -> str:
        shown = ", ".join(self.nodes[:3]) + (f" and {len(self.nodes) - 3} more" if len(self.nodes) > 3 else "")
        return f"{self.what}: {shown}; {self.remedy}" if shown else f"{self.what}; {self.remedy}"


def find_training(graph: Graph) -> list[Note]:
    """What in a pruned graph only makes sense in training. Looks at every node once."""
    found: list[Note] = []
    nodes = list(graph)
    for function in graph.library.values():
        nodes += function.nodes
    training_norms = [node for node in nodes if node.op in _BATCH_NORM and node.get("is_training", True)]
    _add(
        found,
        training_norms,
        "batch norm uses the batch's own statistics (is_training=True)",
        "export the inference graph",
    )
    randoms = [node for node in nodes if _RANDOM.match(node.op)]
    drops = [node for node in randoms if _DROPOUT.search(node.name)]
    _add(found, drops, "dropout is live, so answers are random", "export the inference graph, with dropout off")
    others = [node for node in randoms if not _DROPOUT.search(node.name)]
    _add(found, others, "random numbers are drawn on every run", "if this is dropout, export the inference graph")
    queues = [node for node in nodes if node.op in _QUEUES]
    _add(
        found,
        queues,
        "the input comes from a training pipeline",
        "export a graph with placeholders, or cut it at --outputs",
    )
    return found


def _add(found: list[Note], nodes: Iterable[Node], what: str, remedy: str) -> None:
    names = tuple(node.name for node in nodes)
    if names:
        found.append(Note(what, names, remedy))
