"""Keeps what the outputs need, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function, Graph, Library
from tfsmith.ir.node import Node
from tfsmith.ir.opdef import OpDef

__all__ = ["prune", "prune_library", "called", "clean_colocation"]


def prune(graph: Graph, outputs: Iterable[str], *, keep_colocated: bool = True) -> Graph:
    """The nodes that these nodes need, control edges counted, in the file's order. Linear.

    Args:
        graph: The graph.
        outputs: Names of nodes.
        keep_colocated: Whether the nodes that `_class` names are needed too, as TensorFlow has it.

    Raises:
        NotFoundInModelError: An output is not in the graph; the remedy has the nearest names.
        InvalidModelError: An input names a node that is not there.
    """
    keep = graph.ancestors(outputs)
    todo = list(keep) if keep_colocated else []
    while todo:
        new = [name for name in graph[todo.pop()].colocated if name in graph and name not in keep]
        if new:
            added = graph.ancestors(new, known=keep)
            keep |= added
            todo += added
    nodes = tuple(node for node in graph if node.name in keep)
    return graph if len(nodes) == len(graph) else graph.replace(nodes=nodes)


def clean_colocation(graph: Graph) -> Graph:
    """Drops wishes to be placed with nodes that are not there, which TensorFlow refuses to load."""
    changes: dict[str, Node] = {}
    for node in graph:
        there = [name for name in node.colocated if name in graph]
        if len(there) < len(node.colocated):
            changes[node.name] = node.colocate(there)
    return graph.map_nodes(changes) if changes else graph


def prune_library(graph: Graph) -> Graph:
    """Drops the functions that nothing calls any more."""
    if not graph.library:
        return graph
    used: set[str] = set()
    todo = list(_called_in(graph, graph))
    while todo:
        name = todo.pop()
        if name in used or name not in graph.library:
            continue
        used.add(name)
        todo += _called_in(graph.library[name], graph)
        gradient = graph.library.gradients.get(name)
        todo += [] if gradient is None else [gradient]
    if len(used) == len(graph.library):
        return graph
    kept: dict[str, Function] = {name: graph.library[name] for name in graph.library if name in used}
    return graph.replace(library=Library(kept) if not kept else graph.library.replace(kept))


def _called_in(body: Body, graph: Graph) -> Iterator[str]:
    """The functions that the nodes of a body call."""
    never = {op for op in {node.op for node in body} - set(graph.library) if _never_calls(graph.op_def(op))}
    return (name for node in body if node.op not in never for name in called(node, graph.library))


def _never_calls(op: OpDef | None) -> bool:
    """Whether no attribute of this op can name a function, so that its nodes need not be looked into."""
    return op is not None and not any(attr.kind in ("func", "list(func)") for attr in op.attrs)


def called(node: Node, library: Library) -> Iterator[str]:
    """The functions that a node calls."""
    if node.op in library:
        yield node.op
    if not library:
        return
    for attr in node.attrs.values():
        yield from (func.name for func in attr.funcs)
