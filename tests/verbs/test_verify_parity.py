"""`verify` with real engines: planted faults are found and named, and nothing wrong is left in place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.helpers import files_of

import tfsmith
from tfsmith import records
from tfsmith.cli.main import main
from tfsmith.ir.body import Part
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, conv_net, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

pytestmark = pytest.mark.tensorflow

CONFIG = BertConfig(60, 32, 3, 4, 64, max_position_embeddings=32)
LAYER = "bert/encoder/layer_1"


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT as checkpoint with its graph, SavedModel and frozen graph."""
    folder = tmp_path_factory.mktemp("bert")
    made = bert_classifier(CONFIG, length=12)
    write_checkpoint_files(made, folder / "training", step=5)
    write_saved_model(made, folder / "saved_model")
    write_frozen(made, folder / "frozen.pb")
    return folder


def changed(model: Model, *nodes: Node) -> Model:
    """The model with other nodes of these names."""
    graph = model.graph.map_nodes({node.name: node for node in nodes})
    meta = records.replace(model.meta, graph_part=Part.of(graph), raw=None)
    return records.replace(model, meta_graphs=(meta,), raw=None)


def test_every_kind_against_every_other(bert: Path) -> None:
    kinds = [bert / "training" / "model.ckpt-5.meta", bert / "saved_model", bert / "frozen.pb"]
    for a, b in zip(kinds, [*kinds[1:], kinds[0]], strict=True):
        found = tfsmith.verify(a, b, signature=None)
        assert found.is_same, (a, b, found)
        assert found.batches == (1, 3)
        assert all(output.max_abs == 0 for output in found.outputs)


def test_what_only_one_model_has_is_told(bert: Path) -> None:
    notes = tfsmith.verify(bert / "saved_model", bert / "frozen.pb").notes
    assert notes == ("input 'label_ids' is only in A, not in B; it is fed to A alone, if it needs it",)


@pytest.mark.parametrize("make", [linear_regression, conv_net])
def test_other_models(tmp_path: Path, make: Any) -> None:
    made = make()
    write_saved_model(made, tmp_path / "saved_model")
    write_frozen(made, tmp_path / "frozen.pb")
    assert tfsmith.verify(tmp_path / "saved_model", tmp_path / "frozen.pb").is_same


def test_between_engines(bert: Path) -> None:
    found = tfsmith.verify(bert / "saved_model", bert / "saved_model", engine="openvino", other_engine="tensorflow")
    assert found.is_same
    assert found.engines[0].startswith("openvino ")
    assert found.engines[1].startswith("tensorflow ")
    assert (
        found.outputs[0].tolerance.absolute
        > tfsmith.verify(bert / "frozen.pb", bert / "frozen.pb").outputs[0].tolerance.absolute
    )


def _weight(model: Model) -> Node:
    node = model.graph[f"{LAYER}/intermediate/dense/kernel"]
    values = node.get("value").numpy().copy()
    values[3, 5] += 1.0
    return node.replace(attrs={"value": ArrayTensor.of(values)})


def _edge(model: Model) -> Node:
    node = model.graph[f"{LAYER}/output/LayerNorm/batchnorm/sub"]
    return node.replace(inputs=node.inputs[::-1])


def _attribute(model: Model) -> Node:
    return model.graph[f"{LAYER}/attention/self/query/MatMul"].replace(attrs={"transpose_b": True})


@pytest.mark.parametrize(
    ("engine", "plant", "node", "says"),
    [
        ("openvino", _weight, f"{LAYER}/intermediate/dense/kernel", "the constant differs: 1 of 2048 values differ"),
        ("openvino", _edge, f"{LAYER}/output/LayerNorm/batchnorm/sub", "in A and"),
        (
            "openvino",
            _attribute,
            f"{LAYER}/attention/self/query/MatMul",
            "attribute transpose_b is False in A and True",
        ),
        ("tensorflow", _attribute, f"{LAYER}/attention/self/query/MatMul", "attribute transpose_b is False in A"),
    ],
)
def test_a_planted_fault_is_found(bert: Path, engine: str, plant: Any, node: str, says: str) -> None:
    sound = tfsmith.load(bert / "frozen.pb")
    found = tfsmith.verify(sound, changed(sound, plant(sound)), engine=engine, bisect=True, batches=[1])
    assert found.parted is not None
    assert found.parted.node == node
    assert says in found.parted.reason


def test_without_a_fault_nothing_is_named(bert: Path) -> None:
    sound = tfsmith.load(bert / "frozen.pb")
    assert tfsmith.verify(sound, sound, bisect=True, batches=[1]).parted is None


def test_a_model_that_no_engine_can_run_is_told(bert: Path) -> None:
    """Of kernels that are not square, the product with the transposed one does not exist."""
    sound = tfsmith.load(bert / "frozen.pb")
    spoiled = sound.graph[f"{LAYER}/intermediate/dense/MatMul"].replace(attrs={"transpose_b": True})
    with pytest.raises(tfsmith.TfsmithError):
        tfsmith.verify(sound, changed(sound, spoiled))


def test_a_signature_names_the_outputs_of_a_graph_without_one(bert: Path, tmp_path: Path) -> None:
    """Of two outputs, none of which is likelier than the other."""
    model = tfsmith.load(bert / "training" / "model.ckpt-5.meta")
    names = {"a": "loss/output:0", "b": "bert/pooler/dense/Tanh:0"}
    inputs = {key: f"{key}:0" for key in ("input_ids", "input_mask", "segment_ids")}
    tfsmith.export(model, tmp_path / "two", inputs=inputs, outputs=names)
    tfsmith.freeze(model, outputs=list(names.values())).save(tmp_path / "two.pb")
    for one, other in (("two", "two.pb"), ("two.pb", "two")):
        found = tfsmith.verify(tmp_path / one, tmp_path / other, batches=[1])
        assert found.is_same
        assert len(found.outputs) == 2


def test_given_inputs(bert: Path, tmp_path: Path) -> None:
    feeds = bert_classifier(CONFIG, length=12).example_inputs(batch=2)
    feeds.pop("label_ids", None)
    np.savez(tmp_path / "in.npz", allow_pickle=False, **feeds)
    arguments = [str(bert / "saved_model"), str(bert / "frozen.pb"), "--inputs", str(tmp_path / "in.npz")]
    assert main(["verify", *arguments]) == 0


def test_the_command_tells_and_exits_by_the_answer(
    bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sound = tfsmith.load(bert / "frozen.pb")
    tfsmith.save(changed(sound, _edge(sound)), tmp_path / "bad.pb")
    assert main(["verify", str(bert / "frozen.pb"), str(tmp_path / "bad.pb"), "--bisect", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["same"] is False
    assert facts["parted"]["node"] == f"{LAYER}/output/LayerNorm/batchnorm/sub"
    assert main(["verify", str(bert / "frozen.pb"), str(tmp_path / "bad.pb")]) == 1
    assert "The models differ." in capsys.readouterr().out
    loose = ["--atol", "10", "--rtol", "10", "--samples", "2", "--batches", "2"]
    assert main(["verify", str(bert / "frozen.pb"), str(tmp_path / "bad.pb"), *loose]) == 0
    assert "2 runs, batch sizes 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--batches", "x"], "'x' is no number"),
        (["--samples", "0"], "--samples 0 makes no sense"),
        (["--output", "nothing"], "no node 'nothing'"),
        (["--inputs", "nothing.npz"], "nothing.npz"),
        (["--engine", "onnx"], "no engine 'onnx'"),
        (["--signature", "other"], "other"),
    ],
)
def test_bad_arguments(bert: Path, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(bert / "saved_model"), str(bert / "saved_model"), *arguments]) == 2
    error = capsys.readouterr().err.splitlines()
    assert says in error[-1]
    assert error[-1].startswith("error: ")


def test_verbs_verify_what_they_write(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = str(bert / "training" / "model.ckpt-5.meta"), tmp_path
    signature = ["--input", "ids=input_ids:0", "--input", "mask=input_mask:0", "--input", "segments=segment_ids:0"]
    signature += ["--output", "p=loss/output:0"]
    commands = [
        ["freeze", model, "--outputs", "loss/output", "-o", str(out / "f.pb")],
        ["freeze", str(bert / "saved_model"), "--as", "saved_model", "-o", str(out / "f")],
        ["export", model, "-o", str(out / "e"), *signature],
        ["thaw", str(out / "f.pb"), "-o", str(out / "t"), *signature],
        ["thaw", str(out / "f.pb"), "-o", str(out / "m.ckpt"), "--as", "meta"],
        ["convert", str(bert / "saved_model"), "-o", str(out / "c"), "--dtype", "bfloat16"],
        ["convert", str(bert / "saved_model"), "-o", str(out / "c.meta")],
        ["replace", str(out / "f.pb"), "-r", "remove-identity", "-o", str(out / "r.pb")],
    ]
    for command in commands:
        assert main([*command, "--verify"]) == 0, capsys.readouterr().err
        assert "The models answer the same." in capsys.readouterr().err
    there = {path.name for path in tmp_path.iterdir()}
    wanted = {"f.pb", "f", "e", "t", "m.ckpt.meta", "m.ckpt.index", "c", "c.meta", "c.index", "checkpoint"}
    assert wanted <= there
    assert not any("tfsmith" in name for name in there)
    assert tfsmith.verify(model, out / "m.ckpt.meta", outputs={"loss/output": "loss/output"}).is_same


def _wrong_recipe(folder: Path) -> Path:
    """Adds where it should multiply."""
    recipe = folder / "wrong.toml"
    recipe.write_text(
        """
[recipe]
name = "wrong"
description = "a sum in place of a product"
[[variant]]
name = "v"
inputs = ["x", "kernel", "bias"]
[[variant.node]]
name = "product"
op = "MatMul"
inputs = ["x", "kernel"]
attrs = {transpose_b = false}
[[variant.node]]
name = "sum"
op = "BiasAdd"
inputs = ["product", "bias"]
[[variant.target]]
name = "only"
op = "MatMul"
inputs = ["x", "kernel"]
attrs = {T = "float32", transpose_a = false, transpose_b = false}
[variant.replace]
"sum" = "only:0"
"""
    )
    return recipe


@pytest.mark.parametrize("output", ["new.pb", "kept.pb"])
def test_a_wrong_result_is_not_left_in_place(
    bert: Path, tmp_path: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = _wrong_recipe(tmp_path)
    if output == "kept.pb":
        (tmp_path / output).write_bytes(b"what was there")
    before = sorted(tmp_path.iterdir())
    command = ["replace", str(bert / "frozen.pb"), "-r", str(recipe), "-o", str(tmp_path / output), "--force"]
    assert main([*command, "--verify"]) == 1
    assert "was not written" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
    if output == "kept.pb":
        assert (tmp_path / output).read_bytes() == b"what was there"
    assert main(command) == 0
    assert not tfsmith.verify(bert / "frozen.pb", tmp_path / output).is_same


def test_what_is_there_is_not_replaced_without_force(bert: Path, tmp_path: Path) -> None:
    """With it, a SavedModel is replaced by one, and any other folder stays."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "file").write_text("mine")
    command = ["convert", str(bert / "saved_model"), "-o", str(there), "--verify"]
    assert main(command) == main([*command, "--force"]) == 2
    assert files_of(there) == {"file": b"mine"}
    (there / "saved_model.pb").write_text("old")
    assert main(command) == 2
    assert files_of(there) == {"file": b"mine", "saved_model.pb": b"old"}
    assert main([*command, "--force"]) == 0
    assert not (there / "file").exists()
    assert (there / "saved_model.pb").read_bytes() == (bert / "saved_model/saved_model.pb").read_bytes()


def test_a_tensorflow_2_model_is_converted_and_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its init op has a signature of its own, which gives no tensor."""
    import tensorflow as tf

    module = tf.Module()
    module.w = tf.Variable([2.0, 3.0])
    x = tf.TensorSpec([None, 2], tf.float32, "x")
    double = tf.function(lambda x: {"y": x * module.w}, input_signature=[x])
    single = tf.function(lambda x: {"y": x + module.w}, input_signature=[x])
    tf.saved_model.save(module, str(tmp_path / "tf2"), {"serving_default": double, "other": single})
    assert main(["convert", str(tmp_path / "tf2"), "-o", str(tmp_path / "out"), "--as", "saved_model", "--verify"]) == 0
    assert "The models answer the same." in capsys.readouterr().err
