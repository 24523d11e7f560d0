"""A plain freezer for the test models: constants in place of variables, and only what the outputs need.

It knows just the nodes that `tfsmith.testing` makes. What users call is `tfsmith.freeze`; this one is here so that
tests of other things can have a frozen graph, and that one can be compared with something.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tfsmith.formats.checkpoint import write_checkpoint_state
from tfsmith.formats.checkpoint.bundle import open_bundle
from tfsmith.formats.checkpoint.writer import write_bundle
from tfsmith.formats.graph.graphdef import check_size, plan_graph
from tfsmith.formats.graph.metagraph import plan_meta_graph
from tfsmith.formats.savedmodel import write_saved_model as write_folder
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.ir.types import DType
from tfsmith.ops import VARIABLES
from tfsmith.storage import FileSink, Span
from tfsmith.storage.place import Output
from tfsmith.testing.models import TestModel
from tfsmith.testing.values import INT32
from tfsmith.wire import WritePlan
from tfsmith.wire.text_writer import write_text_file

__all__ = ["frozen_graph", "write_checkpoint_files", "write_frozen", "write_saved_model"]


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
    if node.op in VARIABLES:
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


def write_checkpoint_files(model: TestModel, folder: Path, *, step: int = 1603, name: str = "model.ckpt") -> Path:
    """Writes what a training leaves behind: the checkpoint, its `.meta`, `graph.pbtxt` and the `checkpoint` file.

    Args:
        model: The model.
        folder: The folder; made if it is missing.
        step: The number at the end of the prefix.
        name: The beginning of the prefix.

    Returns:
        The checkpoint's prefix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    prefix = folder / f"{name}-{step}"
    graph = plan_graph(model.model.graph)
    with Output(folder / "graph.pbtxt", force=True) as output:
        write_text_file(output.aside, "GraphDef", graph)
    with Output(prefix, force=True) as output:
        write_bundle(output.aside, model.model.variables)
    _write(prefix.with_name(f"{prefix.name}.meta"), plan_meta_graph(model.model.meta))
    write_checkpoint_state(folder, prefix.name)
    return prefix


def write_saved_model(model: TestModel, folder: Path) -> Path:
    """Writes a SavedModel with the signature `serving_default`, as SavedModelBuilder would; returns the folder."""
    with Output(folder, folder=True) as output:
        write_folder(model.saved_model(), output.aside)
    return folder


def write_frozen(model: TestModel, path: Path) -> Path:
    """Writes the graph with constants in place of variables, pruned to the outputs; returns the path.

    The values go to a file beside it first, because a message needs all its sizes before its bytes, and are then
    copied inside the kernel.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        prefix = Path(work) / "values"
        write_bundle(prefix, model.model.variables)
        plan = plan_graph(frozen_graph(model.model.graph, open_bundle(prefix), model.output_nodes))
        check_size(plan, path)
        _write(path, plan)
    return path


def _write(path: Path, plan: Span | WritePlan) -> None:
    with Output(path, force=True) as output, FileSink(output.aside) as sink:
        sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)
