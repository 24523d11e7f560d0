"""A plain freezer for the test models: constants in place of variables, and only what the outputs need.

It knows just the nodes that `tfsmith.testing` makes. What users call is `tfsmith.freeze`; this one is here so that
tests of other things can have a frozen graph, and that one can be compared with something.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tfsmith.ir.dtype import DType
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.testing.values import INT32

__all__ = ["frozen_graph"]

_VARIABLES = ("VariableV2", "VarHandleOp")


def frozen_graph(graph: Graph, variables: Mapping[str, Tensor], outputs: Iterable[str]) -> Graph:
    """A graph without variables. Reads no values.

    Args:
        graph: A graph made by `GraphBuilder`.
        variables: The values of its variables, by name.
        outputs: The names of the nodes that must stay, with all that they need.
    """
    needed = graph.ancestors(outputs)
    kept = tuple(node for node in graph.nodes if node.name in needed)
    return graph.replace(nodes=tuple(frozen for node in kept for frozen in _frozen(node, variables)))


def _frozen(node: Node, variables: Mapping[str, Tensor]) -> Iterator[Node]:
    if node.op in _VARIABLES:
        tensor = variables[node.name]
        yield _const(node.name, tensor)
    elif node.op == "ReadVariableOp":
        yield Node(node.name, "Identity", node.inputs, {"T": node.get("dtype")})
    elif node.op == "ResourceGather":
        yield from _gather(node, node.get("dtype"))
    else:
        yield node.replace(attrs={"_output_shapes": None})


def _gather(node: Node, kind: DType) -> Iterator[Node]:
    """A gather from a tensor needs an axis, which one from a variable does not have."""
    axis = f"{node.name}/axis"
    attrs = {"Tparams": kind, "Tindices": node.get("Tindices"), "Taxis": INT32, "batch_dims": node.get("batch_dims")}
    yield _const(axis, ArrayTensor.of(0, INT32))
    yield Node(node.name, "GatherV2", (*node.data_inputs, axis, *(f"^{one}" for one in node.control_inputs)), attrs)


def _const(name: str, tensor: Tensor) -> Node:
    return Node(name, "Const", (), {"dtype": tensor.dtype, "value": tensor})
