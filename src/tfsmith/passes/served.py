"""What a model serves: for each signature one flat graph, with calls in place and without what only training needs."""

from __future__ import annotations

from collections.abc import Iterator

from tfsmith.ir.graph import Graph, check_nodes
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input
from tfsmith.ops import DIRECT_CALLS
from tfsmith.passes.inline import inline_calls
from tfsmith.passes.interface import INIT_SIGNATURE, collected, guess_outputs, tensor_names
from tfsmith.passes.prune import prune, prune_library
from tfsmith.records import record

__all__ = ["Served", "served_graphs"]


@record
class Served:
    """A graph that answers.

    Attributes:
        signature: The signature whose outputs it gives; None where the model has none.
        graph: The nodes that these need, calls inlined. Loops and conditions keep their functions.
        outputs: The nodes that give the outputs.
    """

    signature: str | None
    graph: Graph
    outputs: tuple[str, ...]


def served_graphs(model: Model) -> Iterator[Served]:
    """The graphs that a model serves, in the order of its signatures. Linear; reads no weight.

    Without a signature, it is what the likely outputs need, else the whole graph. Every node fits the definition of its
    op: who looks at one need not ask whether its inputs and attributes are there.

    Raises:
        InvalidModelError: The graph is damaged; names the node.
        LimitError: Functions call each other without end.
    """
    named: list[tuple[str | None, list[str]]] = [
        (key, [name for info in signature.outputs.values() for name in tensor_names(info)])
        for key, signature in model.signatures.items()
        if key != INIT_SIGNATURE and signature.outputs
    ]
    if not named:
        found = collected(model, "outputs") or guess_outputs(model.graph, limit=len(model.graph))
        named = [(None, [candidate.tensor for candidate in found])]
    for key, tensors in named:
        served = _served(model.graph, key, [parse_input(text).node for text in tensors])
        for body in (served.graph, *prune_library(served.graph).library.values()):
            check_nodes(body)
        yield served


def _served(graph: Graph, key: str | None, names: list[str]) -> Served:
    """What some nodes need, with calls in place."""
    wanted = [name for name in names if name in graph]
    needed = prune(graph, wanted, keep_colocated=False) if wanted else graph
    if not any(node.op in DIRECT_CALLS or node.op in graph.library for node in needed):
        return Served(key, needed, tuple(wanted))
    flat, moved = inline_calls(needed)
    given: dict[str, list[str]] = {}
    for tensor, now in moved.items():
        given.setdefault(tensor.partition(":")[0], []).append(parse_input(now).node)
    ends = [now for name in wanted for now in ([name] if name in flat else given.get(name, ()))]
    return Served(key, prune(flat, ends, keep_colocated=False) if ends else flat, tuple(dict.fromkeys(ends)))
