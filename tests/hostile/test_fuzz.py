"""Thousands of damaged models, the same in every run: looked at, frozen and saved, they raise our errors and no others.

The models are small and of every kind: TF1 with references and with resources, a network with functions, text, a
checkpoint. Damage is done to their bytes, and to the messages in them, which gets further.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import pytest
from tests.support.attack import FLOAT, X, call, function, if_node, remove, sound, tf2_model
from tests.support.helpers import attr_value, field, node_def
from tests.support.mutate import byte_mutations, confuse, mutate
from tests.support.riegeli_files import split

import tfsmith
from tfsmith import records
from tfsmith.errors import TfsmithError
from tfsmith.formats.checkpoint.writer import write_checkpoint
from tfsmith.formats.savedmodel import write_saved_model as write_folder
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import dtype_named
from tfsmith.testing.models import conv_net, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model
from tfsmith.wire import parse

T = TypeVar("T")
PARTS = ("variables", "ops", "nodes", "collections", "functions", "outputs")


def functions_model(folder: Path) -> Path:
    """A model as TensorFlow 2 saves it: a variable that functions and branches read, and that a function restores."""
    variable = {"dtype": FLOAT, "shape": field(7, b""), "shared_name": attr_value(s=b"v")}
    predicate = node_def("p", "Placeholder", attrs={"dtype": attr_value(type=10)})
    read = function("read", [node_def("r", "ReadVariableOp", ["v"], {"dtype": FLOAT})], "r:value:0", {"v": 20})
    inner = [
        node_def("r", "ReadVariableOp", ["v"], {"dtype": FLOAT}),
        node_def("m", "Mul", ["x", "r:value:0"], {"T": FLOAT}),
    ]
    outer = [
        call("c", "inner", ["x", "v"], [1, 20]),
        node_def("p", "Const", attrs={"dtype": attr_value(type=10), "value": field(8, b"\x08\x0a\x12\0\x5a\1\1")}),
        if_node("i", "read", ["p:output:0", "v"], [20]),
        node_def("a", "AddV2", ["c:output:0", "i:output:0"], {"T": FLOAT}),
    ]
    made = [
        read,
        function("inner", inner, "m:z:0", {"x": 1, "v": 20}, {"done": "m"}),
        function("outer", outer, "a:z:0", {"x": 1, "v": 20}, {"done": "c"}),
    ]
    nodes = [
        X,
        predicate,
        node_def("v", "VarHandleOp", attrs=variable),
        call("y", "outer", ["x", "v"], [1, 20]),
        if_node("z", "read", ["p", "v"], [20]),
        node_def("last", "AddV2", ["y", "z", "^y"], {"T": FLOAT}),
    ]
    path = tf2_model(folder, nodes, made)
    (path / "variables").mkdir()
    write_checkpoint(path / "variables/variables", {"v": ArrayTensor.of(3.0, dtype_named("float32"))})
    return path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    write_saved_model(linear_regression(), folder / "ref")
    write_saved_model(linear_regression(variables="resource"), folder / "resource")
    write_folder(tfsmith.load(folder / "ref"), folder / "text", text=True)
    write_checkpoint_files(linear_regression(), folder / "training")
    write_frozen(conv_net(), folder / "frozen.pb")
    functions_model(folder / "functions")
    message = parse("SavedModel", (folder / "functions/saved_model.pb").read_bytes())
    (folder / "split").mkdir()
    (folder / "split/saved_model.cpb").write_bytes(split(message, constant=20).file())
    return folder


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written here need not outlive the machine; waiting for the disk would take most of the time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def attempt(job: Callable[[], T]) -> T | None:
    """Does a job, which may raise an error of ours that has a remedy, and no other."""
    try:
        return job()
    except TfsmithError as error:
        if not (error.what and error.remedy):
            raise AssertionError("an error must say what is wrong and what to do") from error
        return None


def use(path: Path, out: Path) -> bool:
    """Looks at a model, freezes it and saves the result, in several ways; says whether it was frozen."""
    model = attempt(lambda: tfsmith.load(path))
    if model is None:
        return False

    def look() -> None:
        shown = tfsmith.show(model, all=True)
        json.dumps(shown.to_json(), allow_nan=False)
        assert str(shown)

    attempt(look)
    attempt(lambda: tfsmith.graph_text(model))
    options: list[dict[str, Any]] = [{}, {"batch_size": 3, "clear_devices": True}, {"as_": "saved_model"}]
    done = False
    for told in options:
        frozen = attempt(lambda: tfsmith.freeze(model, **told).model)  # noqa: B023
        if frozen is not None:
            remove(out)
            kind = "saved_model" if "keep_init" in told else "graphdef"
            made = records.replace(frozen, kind=kind)
            attempt(lambda: tfsmith.save(made, out))  # noqa: B023
            done = True
    return done


def test_sound_models_are_frozen(models: Path, tmp_path: Path) -> None:
    """Guards the tests below: what they damage is used in full."""
    for name in ("ref", "resource", "text", "training", "frozen.pb", "functions"):
        assert use(models / name, tmp_path / "out"), name
    frozen = tfsmith.freeze(tfsmith.load(models / "functions"), outputs=["last"]).model
    assert {node.op for node in frozen.graph} >= {"Const", "Mul", "If"}
    assert "VarHandleOp" not in {node.op for node in frozen.graph}


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("ref", "saved_model.pb"),
        ("ref", "variables/variables.index"),
        ("ref", "variables/variables.data-00000-of-00001"),
        ("text", "saved_model.pbtxt"),
        ("training", "checkpoint"),
        ("training", "model.ckpt-1603.meta"),
        ("frozen.pb", ""),
        ("functions", "saved_model.pb"),
        ("split", "saved_model.cpb"),
    ],
)
def test_damaged_bytes(models: Path, tmp_path: Path, name: str, file: str) -> None:
    whole = models / name
    target = tmp_path / name
    if whole.is_dir():
        for found in whole.rglob("*"):
            copy = target / found.relative_to(whole)
            copy.parent.mkdir(parents=True, exist_ok=True)
            if found.is_file():
                copy.write_bytes(found.read_bytes())
    data = (whole / file).read_bytes() if file else whole.read_bytes()
    damaged = target / file if file else target
    for number, mutated in enumerate(byte_mutations(data, Random(f"{name} {file}"), 60)):
        damaged.write_bytes(mutated)
        use(target, tmp_path / "out")
        if number % 10 == 0:
            sound("show", target, "--all", "--verify")
            sound("freeze", target, "-o", tmp_path / "out.pb")


@pytest.mark.parametrize("name", ["ref", "resource", "functions"])
@pytest.mark.parametrize("how", ["anything", "what passes look into"])
def test_damaged_messages(models: Path, tmp_path: Path, name: str, how: str) -> None:
    whole, target = models / name, tmp_path / "m"
    (target / "variables").mkdir(parents=True)
    for found in (whole / "variables").iterdir():
        (target / "variables" / found.name).write_bytes(found.read_bytes())
    data = (whole / "saved_model.pb").read_bytes()
    frozen = 0
    for seed in range(100):
        random = Random(f"{name} {how} {seed}")
        message = parse("SavedModel", data)
        graph = message.meta_graphs[0].graph_def
        names = [node.name for node in graph.node] + [made.signature.name for made in graph.library.function]
        for _ in range(random.choice([1, 1, 2, 5])):
            if how == "anything":
                mutate(random.choice([message, *message.meta_graphs, graph]), random, names)
            else:
                confuse(graph, random)
        (target / "saved_model.pb").write_bytes(message.SerializeToString())
        frozen += use(target, tmp_path / "out")
    assert 5 < frozen < 98  # it neither breaks everything nor nothing
