"""`python -m tfsmith.compat.freeze_graph`: the documents' commands as written, against TensorFlow's own script."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.verbs.test_freeze_tf1_parity import assert_same_nodes, parse_graph

import tfsmith
from tfsmith.compat.freeze_graph import main
from tfsmith.testing.models import TestModel, bert_classifier, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_saved_model

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module", params=["ref", "resource"])
def bert(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, TestModel]:
    folder = tmp_path_factory.mktemp(f"bert_{request.param}")
    model = bert_classifier(variables=request.param, batch=1)
    write_checkpoint_files(model, folder / "mrpc_model")
    (folder / "saved_models").mkdir()
    write_saved_model(model, folder / "saved_models" / "1564086017")
    return folder, model


def tensorflow_script(*flags: str) -> None:
    """Runs TensorFlow's own freeze_graph with these flags, in this process."""
    import tensorflow as tf
    from tensorflow.python.tools import freeze_graph

    values: dict[str, Any] = dict.fromkeys(("input_graph", "input_saver", "input_checkpoint", "input_meta_graph"), "")
    values |= {"input_binary": False, "clear_devices": True, "input_saved_model_dir": "", "output_graph": ""}
    for flag in flags:
        name, _, value = flag.removeprefix("--").partition("=")
        values[name] = value.lower() in ("", "true") if name in ("input_binary", "clear_devices") else value
    with tf.Graph().as_default():
        freeze_graph.freeze_graph(
            restore_op_name="save/restore_all",
            filename_tensor_name="save/Const:0",
            initializer_nodes="",
            saved_model_tags="serve",
            **values,
        )


def assert_same(flags: list[str], folder: Path, capsys: pytest.CaptureFixture[str], variables: int) -> None:
    assert main([*flags, f"--output_graph={folder / 'ours.pb'}"]) == 0
    assert capsys.readouterr().out == f"Converted {variables} variables to const ops.\n"
    tensorflow_script(*flags, f"--output_graph={folder / 'theirs.pb'}")
    capsys.readouterr()
    assert_same_nodes(parse_graph(folder / "ours.pb"), parse_graph(folder / "theirs.pb"))


def test_the_command_of_the_migraphx_document(
    bert: tuple[Path, TestModel], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = bert
    flags = [
        f"--input_graph={folder}/mrpc_model/graph.pbtxt",
        "--input_binary=false",
        f"--input_checkpoint={folder}/mrpc_model/model.ckpt-1603",
        f"--input_saved_model_dir={folder}/saved_models/1564086017",
        "--output_node_names=loss/output",
    ]
    assert_same(flags, tmp_path, capsys, 41)


def test_the_command_of_the_graphcore_document(
    bert: tuple[Path, TestModel], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = bert
    flags = [
        f"--input_meta_graph={folder}/mrpc_model/model.ckpt-1603.meta",
        f"--input_checkpoint={folder}/mrpc_model/model.ckpt-1603",
        "--output_node_names=loss/output",
        "--clear_devices",
        "--input_binary=True",
    ]
    assert_same(flags, tmp_path, capsys, 41)


def test_the_command_of_the_import_export_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_checkpoint_files(linear_regression(), tmp_path / "saved_model", step=2000)
    output = linear_regression().output_nodes[0]
    flags = [
        f"--input_graph={tmp_path}/saved_model/graph.pbtxt",
        f"--input_checkpoint={tmp_path}/saved_model/model.ckpt-2000",
        f"--output_node_names={output}",
    ]
    assert_same(flags, tmp_path, capsys, 2)


def test_lists_of_variables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = write_checkpoint_files(linear_regression(), tmp_path / "m", step=1)
    base = [
        f"--input_meta_graph={prefix}.meta",
        f"--input_checkpoint={prefix}",
        "--input_binary=true",
        f"--output_node_names={linear_regression().output_nodes[0]}",
    ]
    assert_same([*base, "--variable_names_whitelist=model_variables/slope"], tmp_path, capsys, 1)
    assert_same([*base, "--variable_names_denylist=model_variables/slope"], tmp_path, capsys, 1)
    kept = tfsmith.load(tmp_path / "ours.pb").graph
    assert kept["model_variables/slope"].op == "VariableV2"


def test_a_saver_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The saver says that the names are crossed; without it the values would be wrong."""
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.disable_resource_variables()
    with tf.Graph().as_default() as graph, v1.Session() as session:
        a = v1.get_variable("a", [2], initializer=v1.constant_initializer([1.0, 2.0]))
        b = v1.get_variable("b", [2], initializer=v1.constant_initializer([3.0, 4.0]))
        tf.subtract(a, b, name="y")
        saver = v1.train.Saver({"b": a, "a": b})
        session.run(v1.global_variables_initializer())
        prefix = saver.save(session, str(tmp_path / "m.ckpt"))
        (tmp_path / "saver.pb").write_bytes(saver.as_saver_def().SerializeToString())
        (tmp_path / "saver.pbtxt").write_text(str(saver.as_saver_def()))
        tf.io.write_graph(graph, str(tmp_path), "graph.pb", as_text=False)
    v1.enable_resource_variables()
    base = [
        f"--input_graph={tmp_path}/graph.pb",
        f"--input_checkpoint={prefix}",
        "--output_node_names=y",
        "--input_binary=true",
    ]
    assert_same([*base, f"--input_saver={tmp_path}/saver.pb"], tmp_path, capsys, 2)
    assert main([*base, f"--input_saver={tmp_path}/saver.pbtxt", f"--output_graph={tmp_path}/text.pb"]) == 0
    assert tfsmith.load(tmp_path / "text.pb").graph["a"].get("value").numpy().tolist() == [1.0, 2.0]
    assert (tmp_path / "text.pb").read_bytes() == (tmp_path / "ours.pb").read_bytes()


def test_initializers_give_what_is_not_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        saved = v1.get_variable("saved", [], use_resource=True, initializer=v1.constant_initializer(2.0))
        local = v1.get_variable(
            "local", [], use_resource=True, initializer=v1.constant_initializer(5.0), collections=["local_variables"]
        )
        tf.multiply(saved, local, name="y")
        v1.local_variables_initializer()
        session.run(v1.global_variables_initializer())
        prefix = v1.train.Saver().save(session, str(tmp_path / "m.ckpt"))
    flags = [f"--input_meta_graph={prefix}.meta", f"--input_checkpoint={prefix}", "--output_node_names=y"]
    out = f"--output_graph={tmp_path}/f.pb"
    assert main([*flags, out]) == 2
    assert "no value for variable 'local'" in capsys.readouterr().err
    assert main([*flags, out, "--initializer_nodes=init"]) == 0
    assert tfsmith.load(tmp_path / "f.pb").graph["local"].get("value").numpy() == 5.0
