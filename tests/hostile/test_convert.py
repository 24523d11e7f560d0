"""Graphs whose nodes contradict each other: converting them works or raises our errors, and leaves nothing behind."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.convert_models import TF2_MODEL, saved_model, small

import tfsmith
from tfsmith.errors import TfsmithError
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Func, Node
from tfsmith.ir.tensor import ArrayTensor, StringTensor
from tfsmith.ir.types import Shape, dtype_named

FILES = TF2_MODEL.parent
OPTIONS: tuple[dict[str, Any], ...] = (
    {"inference_only": True},
    {"inference_only": True, "dtype": "float16", "saturate": True},
    {"dtype": "bfloat16", "only": ("*",)},
    {"rename": (("re:^", "x/"),)},
    {"drop": ("*w*",)},
    {},
)
WRONG = (
    Attr("int", 5),
    Attr("bool", True),
    Attr("string", b"\xff"),
    Attr("type", dtype_named("string")),
    Attr("list", ()),
    Attr("list(type)", (dtype_named("float32"),)),
    Attr("none", None),
    Attr("shape", Shape(None)),
    Attr("tensor", StringTensor(Shape((2,)), (b"\xff",))),
    Attr("tensor", ArrayTensor.of([1.0, 2.0])),
    Attr("func", Func("nothing", {})),
    Attr("placeholder", "T"),
    None,
)
OPS = (
    *("Identity", "ReadVariableOp", "Assign", "AssignVariableOp", "Const", "RestoreV2", "SaveV2", "While", "If"),
    *(
        "StatefulPartitionedCall",
        "VarHandleOp",
        "VariableV2",
        "Merge",
        "RefSwitch",
        "ResourceGather",
        "NoOp",
        "Unknown",
    ),
)


def models() -> list[Model]:
    loaded = [tfsmith.load(FILES / name) for name in ("tf2_model", "partitioned", "batch_norm", "old", "vocabulary")]
    return [small(), saved_model(), *loaded]


def damage(node: Node, names: list[str], chance: random.Random) -> Node:
    deed = chance.random()
    if deed < 0.6 and node.attrs:
        return node.replace(attrs={chance.choice(sorted(node.attrs)): chance.choice(WRONG)})
    if deed < 0.8:
        inputs = list(node.inputs)
        if inputs and chance.random() < 0.5:
            del inputs[chance.randrange(len(inputs))]
        else:
            inputs.insert(0, chance.choice(names) + chance.choice(["", ":1", ":7"]))
        return node.replace(inputs=tuple(inputs))
    return node.replace(op=chance.choice(OPS)) if deed < 0.95 else node.replace(name=chance.choice(names))


def damaged(model: Model, chance: random.Random) -> Model:
    graph = model.graph
    nodes, library = list(graph.nodes), dict(graph.library)
    if library and chance.random() < 0.5:
        function = library[chance.choice(sorted(library))]
        inner = list(function.nodes)
        at = chance.randrange(len(inner))
        inner[at] = damage(inner[at], [*function.by_name, *function.args], chance)
        library[function.name] = function.replace_nodes(tuple(inner))
    else:
        at = chance.randrange(len(nodes))
        nodes[at] = damage(nodes[at], [node.name for node in nodes], chance)
    return model.replace_graph(graph.replace(nodes=tuple(nodes), library=graph.library.replace(library)))


@pytest.mark.parametrize("seed", range(6))
def test_damaged_nodes(seed: int, tmp_path: Path) -> None:
    chance, sound = random.Random(seed), models()
    worked = 0
    for number in range(60):
        model = damaged(chance.choice(sound), chance)
        out = tmp_path / f"{number}.meta"
        before = sorted(tmp_path.iterdir())
        with suppress(TfsmithError):
            tfsmith.convert(model, out, **chance.choice(OPTIONS))
            worked += 1
        if not out.exists():
            assert sorted(tmp_path.iterdir()) == before
    assert worked > 10  # else nothing was tested


def test_sound_models_are_converted(tmp_path: Path) -> None:
    """Guards the test above."""
    for number, model in enumerate(models()):
        tfsmith.convert(model, tmp_path / f"{number}.meta", rename=(("re:^", "x/"),))
