"""Computes what follows from the shapes of inputs: where these are fixed, `Shape` and what is made of it are constants.

Graphs with an open batch size ask for it with `Shape` and build the shapes of `Reshape` and `Fill` from it. When the
size is fixed, that is known before anything runs, and importers that lack such ops can do without them.
"""

from __future__ import annotations

from math import prod

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, Tensor
from tfsmith.ir.types import DType, Shape
from tfsmith.ops import CONTROL_FLOW
from tfsmith.ops.inference import Inference
from tfsmith.ops.shapes import computed_ops

__all__ = ["folded_ops", "fold_shapes"]

_MOST_FILLED = 1 << 24
"""Bytes of a constant in place of a Fill; larger ones stay as they are."""


def folded_ops() -> frozenset[str]:
    """The ops that may be gone afterwards."""
    return computed_ops() | {"Fill"}


def fold_shapes(graph: Graph) -> Graph:
    """Another graph in which nodes that only depend on the sizes of inputs are constants, under their names. Linear.

    A constant keeps the control edges of the node whose place it takes. In graphs with loops or conditions of
    TensorFlow 1, nodes with control edges, and what they lead to, stay as they are: whether they run matters there.
    What nothing needs any more is still there; `prune` takes it away. Reads constants of a few integers.
    """
    inference = Inference(graph, trust_notes=False)
    conditional = _conditional(graph)
    changes: dict[str, Node] = {}
    for node in graph:
        found = None if node.name in conditional else _constant(graph, inference, node)
        if found is not None:
            controls = tuple(text for text in node.inputs if text.startswith("^"))
            attrs = {"dtype": found.dtype, "value": found}
            changes[node.name] = Node(node.name, "Const", controls, attrs, node.device)
    return graph.map_nodes(changes) if changes else graph


def _conditional(graph: Graph) -> set[str]:
    """The nodes that may not run: of a loop or condition, or behind a control edge in a graph that has such."""
    if not any(node.op in CONTROL_FLOW for node in graph):
        return set()
    found: set[str] = set()
    for node in graph.topological_order():
        sources = (graph.resolve(text).node for text in node.data_inputs)
        if node.op in CONTROL_FLOW or node.control_inputs or any(source in found for source in sources):
            found.add(node.name)
    return found


def _constant(graph: Graph, inference: Inference, node: Node) -> Tensor | None:
    """The constant that can take a node's place."""
    if node.op == "Fill":
        return _filled(graph, inference, node)
    if node.op not in computed_ops() or not node.data_inputs:
        return None
    kind, known = inference.dtype(graph, Endpoint(node.name, 0)), inference.known(graph, Endpoint(node.name, 0))
    numbers, dims = known.numbers, known.shape.dims
    if numbers is None or dims is None or not isinstance(kind, DType) or prod(dims) != len(numbers):
        return None
    if any(use.output > 0 for use in graph.uses.get(node.name, ())):
        return None
    import numpy

    return ArrayTensor.of(numpy.array(numbers, kind.base.numpy()).reshape(dims))


def _filled(graph: Graph, inference: Inference, node: Node) -> Tensor | None:
    dims = inference.shape(graph, Endpoint(node.name, 0)).dims
    value = inference.constant(graph, graph.resolve(node.data_inputs[1])) if len(node.data_inputs) > 1 else None
    if dims is None or value is None or value.shape.dims != () or not value.dtype.itemsize:
        return None
    if min(dims, default=1) < 1 or prod(dims) * value.dtype.itemsize > _MOST_FILLED:
        return None
    return FilledTensor(value.dtype, Shape(dims), value.numpy().tobytes())
