"""A small training run and its SavedModel, made without TensorFlow, for the tests of convert."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tfsmith
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, MetaInfo, Model, Saver
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.passes.interface import make_signatures
from tfsmith.passes.saver import SavedVariable, add_saver
from tfsmith.records import replace

FLOAT, HALF, BFLOAT = dtype_named("float32"), dtype_named("float16"), dtype_named("bfloat16")
STRING, INT64 = dtype_named("string"), dtype_named("int64")
TF2_MODEL = Path(__file__).parents[1] / "docs" / "files" / "tf2_model"


def array(*values: float) -> Tensor:
    return ArrayTensor.of(np.array(values, np.float32))


def small(values: Mapping[str, Tensor] | None = None, *, saver: bool = True) -> Model:
    """y = x * w with a reference variable, an Adam slot and a step, as a training leaves them."""
    nodes = [Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((-1, 2))})]
    for name, kind, shape in (("w", FLOAT, (2,)), ("w/Adam", FLOAT, (2,)), ("global_step", INT64, ())):
        nodes.append(Node(name, "VariableV2", (), {"dtype": kind, "shape": Shape(shape)}))
        nodes.append(Node(f"{name}/read", "Identity", (name,), {"T": kind}))
    nodes.append(Node("y", "Mul", ("x", "w/read"), {"T": FLOAT}))
    nodes.append(Node("update", "ApplyAdam", ("w", "w/Adam", "w/Adam", *["w/read"] * 7), {"T": FLOAT}))
    nodes.append(Node("train", "NoOp", ("^update",)))
    found = {"w": array(1, 2), "w/Adam": array(3, 4), "global_step": ArrayTensor.of(np.int64(7))}
    graph, made = Graph(tuple(nodes)), None
    if saver:
        graph, made = _with_saver(graph, list(found))
    meta = MetaGraph(Part.of(graph), saver_part=Part.of(made))
    return Model("metagraph", (meta,), found if values is None else values)


def _with_saver(graph: Graph, names: list[str]) -> tuple[Graph, Saver]:
    return add_saver(graph, [SavedVariable(graph[name], name) for name in names], sharded=False)


def saved_model(**signatures: str) -> Model:
    """The same as a SavedModel with signatures: key to output."""
    model = small()
    asked = {key: ({"x": "x:0"}, {"y": tensor}) for key, tensor in (signatures or {"serving_default": "y:0"}).items()}
    meta = replace(
        model.meta,
        signatures_part=Part.of(make_signatures(model, model.graph, asked)),
        info_part=Part.of(MetaInfo(("serve",))),
    )
    return replace(model, kind="saved_model", meta_graphs=(meta,))


def write_models(folder: Path) -> Path:
    """Writes the model as `.meta` with its checkpoint and as a SavedModel into the folder `in`; gives the folder."""
    (folder / "in").mkdir()
    tfsmith.save(small(), folder / "in" / "m.meta")
    tfsmith.save(saved_model(), folder / "in" / "sm")
    return folder


def values_of(path: Path) -> dict[str, Any]:
    return {name: tensor.numpy().tolist() for name, tensor in tfsmith.load(path).variables.items()}


def edits(**changes: Any) -> dict[str, Any]:
    """What to do to the signatures, as arguments of `convert`."""
    return {f"{what}_signatures": value for what, value in changes.items()}


def ops(model: Model) -> dict[str, str]:
    return {node.name: node.op for node in model.graph}
