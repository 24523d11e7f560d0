"""A graph cut at the tensors that are fed: they become placeholders, and what only they needed is gone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfsmith.engines.protocol import FlatGraph, Port
from tfsmith.ir.dtype import dtype_named
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Endpoint, Node, parse_input

__all__ = ["cut_graph"]


def cut_graph(graph: Graph, fed: Mapping[str, Port], outputs: Mapping[str, str], kept: Iterable[str] = ()) -> FlatGraph:
    """The part of a graph between what is fed and the outputs. Linear; no value is read.

    Args:
        graph: A graph without variables.
        fed: What is fed, by key.
        outputs: The tensors that are wanted, by key.
        kept: Nodes that stay with what they need, though no output needs them: those that fill tables.
    """
    added: list[Node] = []
    moved: dict[Endpoint, str] = {}
    inputs: dict[str, str] = {}
    for key, port in fed.items():
        tensor = parse_input(port.tensor)
        node = graph.by_name.get(tensor.node)
        if node is None:
            continue  # nothing needs it
        inputs[key] = str(tensor)
        if node.op == "Placeholder":
            continue
        name = _free(f"{tensor.node}_{tensor.output}_fed", graph, moved.values())
        kind = dtype_named("float32") if port.dtype is None else port.dtype.base
        added.append(Node(name, "Placeholder", (), {"dtype": kind, "shape": port.shape}))
        moved[tensor] = name
        inputs[key] = f"{name}:0"
    nodes = tuple(_rewired(node, graph, moved) for node in graph) if moved else graph.nodes
    nodes = tuple(node.replace(op="Identity", attrs={"shape": None, "T": node.get("dtype"), "dtype": None})
                  if node.op == "PlaceholderWithDefault" else node for node in nodes)  # fmt: skip
    cut = graph.replace(nodes=(*nodes, *added))
    wanted = {key: _moved(parse_input(name), moved) for key, name in outputs.items()}
    needed = cut.ancestors(dict.fromkeys([*(parse_input(name).node for name in wanted.values()), *kept]))
    return FlatGraph(
        cut.replace(nodes=tuple(node for node in cut if node.name in needed)),
        {key: name for key, name in inputs.items() if parse_input(name).node in needed},
        wanted,
    )


def _moved(tensor: Endpoint, moved: Mapping[Endpoint, str]) -> str:
    return f"{moved[tensor]}:0" if tensor in moved else str(tensor)


def _rewired(node: Node, graph: Graph, moved: Mapping[Endpoint, str]) -> Node:
    sources = graph.inputs_of(node)
    if not any(source in moved for source in sources):
        return node
    pairs = zip(node.inputs, sources, strict=True)
    return node.replace(
        inputs=tuple(text if source.output == CONTROL else moved.get(source, text) for text, source in pairs)
    )


def _free(name: str, graph: Graph, taken: Iterable[str]) -> str:
    used, number, free = set(taken), 0, name
    while free in graph or free in used:
        number += 1
        free = f"{name}_{number}"
    return free
