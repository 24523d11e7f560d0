"""Exporting without TensorFlow: what is asked for, what is refused, what is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import NotFoundInModelError, OutputError, UsageError
from tfsmith.ir.types import Shape
from tfsmith.records import replace
from tfsmith.testing.models import bert_classifier, conv_net, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_saved_model

INTERFACE: dict[str, Any] = {
    "inputs": {"input_ids": "input_ids:0", "input_mask": "input_mask", "segment_ids": "segment_ids:0"},
    "outputs": {"probabilities": "loss/output"},
}


@pytest.fixture(scope="module", params=["ref", "resource"])
def training(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert") / "training"
    write_checkpoint_files(bert_classifier(variables=request.param, batch=1, global_step=7), folder)
    return folder


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_the_folder_of_the_document(training: Path, tmp_path: Path) -> None:
    tfsmith.export(training, tmp_path / "saved_model", **INTERFACE)
    assert files(tmp_path / "saved_model") == [
        "saved_model.pb",
        "variables/variables.data-00000-of-00001",
        "variables/variables.index",
    ]


def test_only_what_the_outputs_need_is_kept(training: Path, tmp_path: Path) -> None:
    exported = tfsmith.export(training, tmp_path / "out", **INTERFACE)
    assert "global_step" not in exported.variables
    saved = tfsmith.load(tmp_path / "out")
    assert set(saved.variables) == set(exported.variables)
    before = tfsmith.load(training)
    assert all(
        saved.variables[key].numpy().tobytes() == before.variables[key].numpy().tobytes() for key in saved.variables
    )
    tfsmith.export(training, tmp_path / "all", **INTERFACE, all_variables=True)
    copied = (tmp_path / "all" / "variables" / "variables.data-00000-of-00001").read_bytes()
    assert copied == (training / "model.ckpt-1603.data-00000-of-00001").read_bytes()


def test_the_saver_is_reused_where_it_fits(training: Path, tmp_path: Path) -> None:
    model = tfsmith.load(training)
    reused = tfsmith.export(model, tmp_path / "all", **INTERFACE, all_variables=True).model
    made = tfsmith.export(model, tmp_path / "some", **INTERFACE).model
    assert reused.meta.saver == model.meta.saver
    assert made.meta.saver is not None
    assert made.meta.saver.restore_op_name == "save_1/restore_all"
    assert made.meta.saver.sharded


def test_exported_and_frozen_are_the_same_graph(training: Path, tmp_path: Path) -> None:
    tfsmith.export(training, tmp_path / "out", **INTERFACE, prune=True)
    direct = tfsmith.freeze(tfsmith.load(training), ["loss/output"]).model.graph
    by_way = tfsmith.freeze(tfsmith.load(tmp_path / "out")).model.graph
    assert [(node.name, node.op, node.inputs) for node in by_way] == [
        (node.name, node.op, node.inputs) for node in direct
    ]


def test_shapes_are_fixed(training: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"batch_size": 4, "input_shapes": {"label_ids": [4]}}
    write_checkpoint_files(bert_classifier(), tmp_path / "open")
    found = tfsmith.export(tmp_path / "open", tmp_path / "out", **INTERFACE, **options).model
    assert found.signatures["serving_default"].inputs["input_ids"].shape == Shape((4, 20))
    with pytest.raises(
        UsageError, match=r"do not fit: .*constants bake in the old batch size 1; export the model with an"
    ):
        tfsmith.export(training, tmp_path / "baked", **INTERFACE, **options)
    assert not (tmp_path / "baked").exists()


def test_collections_name_inputs_and_outputs(tmp_path: Path) -> None:
    prefix = write_checkpoint_files(linear_regression(), tmp_path / "training")
    signature = tfsmith.export(prefix, tmp_path / "out").model.signatures["serving_default"]
    assert {key: info.name for key, info in signature.inputs.items()} == {"x_sample": "inputs/x_sample:0"}
    assert [info.name for info in signature.outputs.values()] == [linear_regression().outputs["y"]]


def test_a_saved_model_keeps_its_signatures(tmp_path: Path) -> None:
    write_saved_model(bert_classifier(batch=1), tmp_path / "before")
    exported = tfsmith.export(tmp_path / "before", tmp_path / "after").model
    assert exported.signatures == tfsmith.load(tmp_path / "before").signatures


def test_a_checkpoint_without_a_graph(training: Path, tmp_path: Path) -> None:
    for path in training.glob("model.ckpt-1603.[id]*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UsageError, match=r"has no graph to export; it holds \d+ tensors: bert/.*pass the .meta"):
        tfsmith.export(tmp_path / "model.ckpt-1603", tmp_path / "out")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--output", "p=loss/outputs"],
            "there is no node 'loss/outputs' in the graph; the nearest names are loss/output",
        ),
        (["--output", "p"], "--output 'p' is not understood; write KEY=TENSOR"),
        (["--input", "x=input_ids"], "signature 'serving_default' has no output"),
        (["--output", "p=save/restore_all"], "is an operation (NoOp) that gives no tensor"),
        (["--output", "p=loss/output:7"], "node 'loss/output' gives 1 tensor, so there is no output 7"),
        ([], "nothing says what the inputs and outputs are"),
        (["--output", "p=loss/output", "--checkpoint", "nowhere"], "there is no checkpoint with this prefix"),
        (["--output", "p=loss/output", "--step", "3"], "the steps are: 1603"),
    ],
)
def test_wrong_arguments(
    training: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert main(["export", str(training), "-o", str(tmp_path / "out"), *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_refused(training: Path, tmp_path: Path) -> None:
    tfsmith.export(training, tmp_path / "out", **INTERFACE)
    before = (tmp_path / "out" / "saved_model.pb").read_bytes()
    with pytest.raises(OutputError, match="exists already"):
        tfsmith.export(training, tmp_path / "out", **INTERFACE, prune=True)
    assert (tmp_path / "out" / "saved_model.pb").read_bytes() == before
    tfsmith.export(training, tmp_path / "out", **INTERFACE, prune=True, force=True)
    assert (tmp_path / "out" / "saved_model.pb").read_bytes() != before


def test_a_variable_without_a_value(training: Path, tmp_path: Path) -> None:
    model = tfsmith.load(training)
    some = {key: tensor for key, tensor in model.variables.items() if key != "output_bias"}
    with pytest.raises(NotFoundInModelError, match="no value for variable 'output_bias'"):
        tfsmith.export(replace(model, variables=some, checkpoint=None), tmp_path / "out", **INTERFACE)
    assert not list(tmp_path.iterdir())


def test_the_command_tells_what_it_did(training: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--signature", "a", "--output", "p=loss/output"]
    for key in ("input_ids", "input_mask", "segment_ids"):
        words += ["--input", f"{key[6:] if key == 'input_ids' else key}={key}"]
    words += ["--signature", "b", "--output", "logits=loss/BiasAdd", "--json"]
    assert main(["export", str(training), "-o", str(tmp_path / "out"), *words]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert sorted(facts["signatures"]) == ["a", "b"]
    assert len(facts["variables"]) == 41
    assert main(["export", str(training), "-o", str(tmp_path / "again"), *words[:-1]]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "signature a: ids, input_mask, segment_ids -> p",
        "signature b: input_ids, input_mask, segment_ids -> logits",
    ]


def test_a_signature_has_every_input_that_its_outputs_need(training: Path, tmp_path: Path) -> None:
    """TensorFlow cannot load one that lacks some."""
    model = tfsmith.load(training)
    message = (
        r"the outputs need 2 more inputs: input_mask, segment_ids; "
        r"name them as inputs too, or leave all inputs out to have them found$"
    )
    with pytest.raises(UsageError, match=message):
        tfsmith.export(model, tmp_path / "out", inputs={"ids": "input_ids:0"}, outputs={"p": "loss/output:0"})
    assert not (tmp_path / "out").exists()
    tfsmith.export(model, tmp_path / "out", outputs={"p": "loss/output:0"})
    found = tfsmith.load(tmp_path / "out").signatures["serving_default"]
    assert {key: info.name for key, info in found.inputs.items()} == {
        "input_ids": "input_ids:0",
        "input_mask": "input_mask:0",
        "segment_ids": "segment_ids:0",
    }
    embedded = "bert/embeddings/LayerNorm/batchnorm/add_1:0"
    # An inner tensor cuts off what is before it.
    inner = {"embedded": embedded, "mask": "input_mask:0", "ids": "input_ids:0"}
    tfsmith.export(model, tmp_path / "inner", inputs=inner, outputs={"p": "loss/output:0"})


def test_a_fixed_batch_leaves_what_is_known_of_outputs(tmp_path: Path) -> None:
    """Sizes that were open are fixed, so the others still hold; one that was another before says nothing."""
    for batch, wanted in ((None, Shape((-1, 5))), (8, Shape(None))):
        write_checkpoint_files(conv_net(batch=batch), tmp_path / str(batch))
        model = tfsmith.load(tmp_path / str(batch))
        names: dict[str, Any] = {"inputs": {"x": "images:0"}, "outputs": {"p": "probabilities:0"}}
        exported = tfsmith.export(model, tmp_path / f"{batch}-out", **names, batch_size=1).model
        found = exported.signatures["serving_default"]
        assert found.inputs["x"].shape.dims is not None
        assert found.inputs["x"].shape.dims[0] == 1
        assert found.outputs["p"].shape == wanted


def test_own_signatures_get_the_new_shapes(tmp_path: Path) -> None:
    write_saved_model(bert_classifier(), tmp_path / "sm")
    tfsmith.export(tfsmith.load(tmp_path / "sm"), tmp_path / "fixed", batch_size=3)
    found = tfsmith.load(tmp_path / "fixed").signatures["serving_default"]
    assert found.inputs["input_ids"].shape == Shape((3, 20))
    assert found.outputs["probabilities"].shape == Shape((-1, 2))


def test_over_two_gib_the_weights_stay_variables(
    training: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`freeze --as saved_model` works for any size; the limit is lowered here."""
    monkeypatch.setattr("tfsmith.verbs.freeze.MAX_PROTO_BYTES", 1000)
    words = ["--as", "saved_model", "--outputs", "loss/output"]
    assert main(["freeze", str(training), "-o", str(tmp_path / "out"), *words]) == 0
    assert "the weights are over 2 GiB, so they stay variables" in capsys.readouterr().err
    saved = tfsmith.load(tmp_path / "out")
    assert len(saved.variables) == 41
    signature = saved.signatures["serving_default"]
    assert {info.name for info in signature.inputs.values()} == {"input_ids:0", "input_mask:0", "segment_ids:0"}
    assert {info.name for info in signature.outputs.values()} == {"loss/output:0"}
