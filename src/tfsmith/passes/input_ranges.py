"""What integers an input can stand: ids stay below the vocabulary that they choose from, classes below their number."""

from __future__ import annotations

from collections.abc import Iterable

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Endpoint, Node, parse_input
from tfsmith.ir.tensor import Tensor
from tfsmith.ops import ID_INPUTS, SOME_OF_INPUT

__all__ = ["integer_limits"]

_MOST_STEPS = 10_000


def integer_limits(graph: Graph, inputs: Iterable[str]) -> dict[str, int]:
    """For each input of which that can be told, how many different integers it may hold, counted from 0.

    The values are followed to where rows are gathered by them, or to a one-hot encoding. No weight is read.

    Args:
        graph: A graph without variables and calls.
        inputs: Names of tensors.
    """
    limits: dict[str, int] = {}
    for name in inputs:
        found = _limit(graph, parse_input(name))
        if found is not None:
            limits[name] = found
    return limits


def _limit(graph: Graph, start: Endpoint) -> int | None:
    smallest: int | None = None
    todo, seen = [start], {start}
    for _ in range(_MOST_STEPS):
        if not todo:
            break
        tensor = todo.pop()
        for use in graph.consumers(tensor.node, tensor.output):
            bound = _bound(graph, use.node, use.input)
            if bound is not None:
                smallest = bound if smallest is None else min(smallest, bound)
            elif use.node.op in SOME_OF_INPUT and use.input == 0:
                following = [Endpoint(use.node.name, output) for output in _outputs(graph, use.node)]
                todo += [one for one in following if one not in seen]
                seen.update(following)
    return smallest


def _outputs(graph: Graph, node: Node) -> set[int]:
    return {use.output for use in graph.uses.get(node.name, ()) if use.output != CONTROL}


def _bound(graph: Graph, node: Node, position: int) -> int | None:
    """How many ids a node knows, if it takes ids there."""
    if node.op == "OneHot" and position == 0:
        depth = _constant(graph, node, 1)
        return None if depth is None or depth.shape.elements != 1 else max(1, int(depth.numpy().reshape(-1)[0]))
    if ID_INPUTS.get(node.op) != position:
        return None
    table = _constant(graph, node, 0)
    dims = None if table is None else table.shape.dims
    axis = _constant(graph, node, 2) if node.op == "GatherV2" else None
    at = 0 if axis is None or axis.shape.elements != 1 else int(axis.numpy().reshape(-1)[0])
    return max(1, dims[at]) if dims and -len(dims) <= at < len(dims) else None


def _constant(graph: Graph, node: Node, position: int) -> Tensor | None:
    """The constant that an input is, also behind identities."""
    for _ in range(100):
        if position >= len(node.inputs):
            return None
        source = graph.by_name.get(graph.resolve(node.inputs[position]).node)
        if source is None:
            return None
        if source.op == "Const":
            value = source.peek("value")
            return None if value is None else value.tensor
        if source.op != "Identity":
            return None
        node, position = source, 0
    return None
