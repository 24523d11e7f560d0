"""Every sentence of "honest edges" has a test: the numbered cases here, end to end, with their exact texts.

`ELSEWHERE` names the tests of what is proven in another file; a test checks that each of them is there.
"""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.attack import FLOAT, X, Y, write_graph
from tests.support.helpers import attr_value, files_of, graph_def, node_def

import tfsmith
from tfsmith.cli.main import main, make_parser, parser_of
from tfsmith.cli.render import fit_section
from tfsmith.errors import TfsmithError, UsageError
from tfsmith.testing.models import bert_classifier, linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model
from tfsmith.verbs import VERBS
from tfsmith.verbs._declare import WORDS, read_verb, words_of
from tfsmith.view import Section

ROOT = Path(__file__).parents[2]
IDENTITY = {"T": FLOAT}
TF2_MODEL = ROOT / "tests" / "docs" / "files" / "tf2_model"

ELSEWHERE = {
    "1: inner nodes come later": "passes/test_endpoints.py::test_outputs_of_a_frozen_graph_are_its_ends",
    "1: gradients never": "passes/test_endpoints.py::test_outputs_are_named_or_last_and_never_of_the_training",
    "1: saver ops never": "passes/test_endpoints.py::test_savers_are_neither_inputs_nor_outputs",
    "1: pairs by names and keys": "verbs/test_verify.py::test_outputs_are_paired_by_names_and_keys",
    "1: verify --outputs": "verbs/test_verify.py::test_the_command_names_outputs",
    "1: TF2 placeholders": "verbs/test_freeze_tf2_parity.py::test_frozen_inputs_and_outputs_are_called_by_their_keys",
    "1: TF1 names stay": "verbs/test_freeze_tf1_parity.py::test_meta_and_checkpoint",
    "3: other inputs are tried": "verbs/test_verify.py::test_other_inputs_are_tried_where_an_output_is_constant",
    "4: names of variables": "weights/test_weights.py::test_compare_pairs_by_the_names_of_variables",
    "5: what the converter does": "verbs/test_check_parity.py::test_tflite_has_what_the_table_says",
    "5: with types": "verbs/test_check_parity.py::test_tflite_takes_the_types_that_the_table_says",
    "5: what was not tried": "verbs/test_check.py::test_what_was_not_tried_with_its_types_is_said",
    "5: LSTM and GRU": "verbs/test_check_parity.py::test_tflite_converts_recurrent_models_of_a_fixed_batch",
    "5: Erfc": "verbs/test_check_parity.py::test_tflite_converts_the_gelus_that_are_clean",
    "6: signatures load": "verbs/test_export.py::test_a_signature_has_every_input_that_its_outputs_need",
    "7: filename_tensor": "verbs/test_freeze_traps_parity.py"
    "::test_a_variable_that_the_init_op_fills_stays_in_a_frozen_saved_model",
    "10: values are sized again": "storage/test_storage.py::test_values_of_a_file_that_shrinks_are_an_error",
    "10: copying": "storage/test_storage.py::test_a_file_that_shrinks_is_an_error",
    "10: SIGHUP": "hostile/test_memory.py::test_a_terminated_command_leaves_nothing_behind",
    "13: cut off": "verbs/test_show.py::test_a_graph_that_is_cut_off_is_shown_with_a_warning",
    "13: cut off, viewed": "verbs/test_view.py::test_a_graph_that_is_cut_off_is_viewed_with_a_warning",
    "13: an empty base name": "formats/test_opener.py::test_a_checkpoint_with_an_empty_base_name",
    "14: warnings are grouped": "verbs/test_patterns.py::test_alike_warnings_are_one",
    "14: errors are short": "test_errors.py::test_an_error_is_one_short_line_and_keeps_its_parts",
    "Python: immutable": "ir/test_immutable.py::test_attributes_cannot_be_set",
    "Python: edits": "ir/test_editor.py::test_a_node_is_put_between",
    "Python: attributes are coerced": "ir/test_editor.py::test_attributes_are_what_the_op_wants",
    "Python: functions too": "ir/test_editor.py::test_functions_too",
    "Python: signatures too": "ir/test_editor.py::test_signatures_are_added_changed_and_removed",
    "Python: checked when it closes": "ir/test_editor.py::test_refused",
    "Python: find": "verbs/test_patterns.py::test_find",
    "Python: tensors as arrays": "ir/test_as_numpy.py::test_tensors_are_arrays",
    "Python: shapes as tuples": "ir/test_as_numpy.py::test_shapes_are_like_tuples",
    "Python: dtypes": "ir/test_as_numpy.py::test_dtypes_are_like_numpys",
    "Python: public names": "ir/test_as_numpy.py::test_public_names",
    "Python: pickles": "ir/test_pickle.py::test_an_edited_model_by_value",
    "Python: threads read": "ir/test_pickle.py::test_many_threads_read_one_model",
    "Python: threads run": "verbs/test_verify.py::test_a_runner_may_be_called_from_many_threads",
    "Python: a closed runner": "verbs/test_verify.py::test_a_closed_runner_says_so",
    "Python: reprs": "ir/test_reprs.py::test_texts",
    "Python: notebooks": "ir/test_reprs.py::test_notebooks",
    "Terminal: show --function": "verbs/test_show.py::test_a_function",
    "Terminal: TF2 keys": "weights/test_weights.py::test_keys_of_tensorflow_2_stand_beside_the_names_of_variables",
    "Terminal: progress": "verbs/test_verify.py::test_progress_is_shown_on_a_terminal_for_long_steps",
    "Terminal: progress of every verb": "verbs/test_verify.py::test_every_command_shows_that_it_works",
    "Terminal: completion": "verbs/test_declared.py::test_bash_completes_verbs_options_and_values",
    "Terminal: did you mean": "verbs/test_declared.py::test_did_you_mean",
    "Terminal: examples in every --help": "verbs/test_declared.py"
    "::test_every_option_is_explained_and_every_verb_has_an_example",
    "Terminal: check --for all": "verbs/test_check.py::test_command_for_all_targets",
    "Must show: pages": "docs/test_docs.py::test_what_a_document_shows_is_what_comes_out",
}
"""What is said, and the test that proves it."""


@pytest.mark.parametrize("sentence", ELSEWHERE)
def test_the_map_is_true(sentence: str) -> None:
    path, _, name = ELSEWHERE[sentence].partition("::")
    assert re.search(rf"^def {name}\(", (ROOT / "tests" / path).read_text(), re.MULTILINE)


def test_the_pages_are_there() -> None:
    for name in ("wrong-inputs.md", "side-by-side.md", "guides/edit.md"):
        assert (ROOT / "docs" / name).is_file()
    both = (ROOT / "docs" / "side-by-side.md").read_text()
    assert "saved_model_cli" in both
    assert "onnx-graphsurgeon" in both


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a small BERT in every form: `training`, `saved_model`, `frozen.pb`, and `tf2_model`."""
    monkeypatch.chdir(tmp_path)
    model = bert_classifier()
    write_checkpoint_files(model, tmp_path / "training", step=1603)
    write_saved_model(model, tmp_path / "saved_model")
    write_frozen(model, tmp_path / "frozen.pb")
    shutil.copytree(TF2_MODEL, tmp_path / "tf2_model")
    return tmp_path


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command, and gives what it said: stderr, then stdout."""

    def run(code: int, *words: str) -> str:
        capsys.readouterr()
        assert main(list(words)) == code, capsys.readouterr().err
        out, err = capsys.readouterr()
        return err + out

    return run


Says = Callable[..., str]


def refused(work: Callable[[], object]) -> str:
    """What Python says of a mistake."""
    with pytest.raises(TfsmithError) as caught:
        work()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 300
    assert caught.value.remedy
    return text


def test_case_1_outputs_and_keys(folder: Path, says: Says) -> None:
    says(0, "freeze", "saved_model", "-o", "mine.pb")
    assert tfsmith.likely_outputs("mine.pb")[0].tensor == "loss/output:0"
    assert "The models answer the same." in says(0, "verify", "saved_model", "mine.pb")
    assert "loss/output:0" in says(0, "run", "mine.pb", "-i", "zeros")
    says(0, "freeze", "tf2_model", "-o", "tf2.pb", "--input-shape", "x=3,4")
    frozen = tfsmith.load("tf2.pb")
    assert frozen.graph["x"].shape("shape") == (3, 4)
    assert [found.tensor for found in tfsmith.likely_outputs(frozen)] == ["probabilities:0"]
    assert "probabilities" in says(0, "verify", "tf2_model", "tf2.pb", "-i", "x=[[1.5,2,3,4],[4,3,2,1],[0,0,0,9]]")


def test_case_2_the_truth_of_the_answer(folder: Path) -> None:
    with tfsmith.load("frozen.pb").edit() as g:
        g.set(g["loss/BiasAdd"].inputs[1].partition(":")[0].removesuffix("/read"), value=np.array([9, -9], np.float32))
    assert tfsmith.verify("frozen.pb", "training", outputs=["loss/output"])
    assert not tfsmith.verify("frozen.pb", g.model, outputs=["loss/output"])
    assert not tfsmith.check("training", "migraphx")
    assert not tfsmith.diff("frozen.pb", g.model)


def test_case_3_constant_outputs_and_numbers(folder: Path, says: Says) -> None:
    found = says(0, "verify", "tf2_model", "tf2_model")
    assert (
        "warning: output 'probabilities' is the same for all 10 inputs that were tried, so equal results prove "
        in found
    )
    assert "results prove little; pass inputs of your own (`tfsmith verify --input ...`)\n" in found
    assert "same, but constant" in found
    both = ("verify", "frozen.pb", "frozen.pb")
    assert says(2, *both, "--seed", "-1") == "error: --seed -1 makes no sense; pass 0 or more\n"
    assert says(2, *both, "--atol", "nan") == "error: --atol nan makes no sense; pass a finite number, 0 or more\n"
    text = "seed=-1 makes no sense; pass 0 or more"
    assert refused(lambda: tfsmith.verify("frozen.pb", "frozen.pb", seed=-1)) == text


def test_case_4_one_truth_about_weights(folder: Path, says: Says) -> None:
    found = says(0, "weights", "training", "--compare", "frozen.pb")
    assert "  41 of 41 are equal (41 same)\n" in found
    assert "no difference" in says(0, "diff", "training", "frozen.pb", "--only", "weights")


def test_case_5_tables_name_their_versions(folder: Path, says: Says) -> None:
    listed = {one["name"]: one for one in json.loads(says(0, "check", "--list", "--json"))}
    assert all(one["version"] and one["source"] and one["date"] for one in listed.values())
    found = says(0, "check", "frozen.pb", "--for", "tf2onnx")
    assert re.search(r"note: of .* only the ops' names are known: types, attributes and shapes were not tried\n", found)
    found = says(0, "check", "frozen.pb", "--for", "openvino")
    assert re.search(r"note: OpenVINO .* was asked op by op: types, attributes and shapes were not tried\n", found)
    facts = json.loads(says(0, "check", "frozen.pb", "--for", "openvino", "--json"))
    assert facts["target"]["known_by"] == "ops"


NODES = {
    "dangling": (
        [X, node_def("y", "Identity", ["gone"], IDENTITY)],
        "node 'y': it takes 'gone', which is not in the graph",
    ),
    "twice": ([X, Y, Y], "the graph, node 'y': two nodes have one name"),
    "cycle": (
        [X, node_def("y", "Identity", ["b"], IDENTITY), node_def("b", "Identity", ["y"], IDENTITY)],
        "the graph, node 'y': its inputs lead back to itself",
    ),
    "no name": ([X, Y, node_def("", "Identity", ["x"], IDENTITY)], "the graph: a node has no name"),
    "kind": (
        [X, node_def("y", "Identity", ["x"], {"T": attr_value(s=b"float")})],
        "the graph, node 'y': attribute 'T' of op Identity is of kind string, not type",
    ),
    "value": (
        [X, node_def("y", "Relu", ["x"], {"T": attr_value(type=7)})],
        "the graph, node 'y': op Relu: attribute 'T' cannot be string",
    ),
    "nothing": (
        [X, node_def("y", "Identity", ["x"], {"T": b""})],
        "the graph, node 'y': attribute 'T' of op Identity is of kind none, not type",
    ),
    "bad name": (
        [X, Y, node_def("a b", "Identity", ["x"], IDENTITY)],
        "the graph, node 'a b': TensorFlow takes no node of this name",
    ),
    "missing": ([X, node_def("y", "Identity", ["x"])], "the graph, node 'y': attribute 'T' of op Identity is missing"),
}


@pytest.mark.parametrize("what", NODES)
def test_case_6_what_tensorflow_refuses_is_not_written(tmp_path: Path, says: Says, what: str) -> None:
    nodes, text = NODES[what]
    path = write_graph(tmp_path, nodes)
    before = files_of(tmp_path)
    for name in ("new.pb", "new.pbtxt", "new.meta", "new"):
        said = says(2, "convert", str(path), "-o", str(tmp_path / name))
        assert said.startswith(f"error: {path}, {text}; ")
        assert text in refused(lambda name=name: tfsmith.save(tfsmith.load(path), tmp_path / name))  # type: ignore[misc]
    if what not in ("no name", "bad name"):
        assert text in says(2, "freeze", str(path), "-o", str(tmp_path / "f.pb"), "--outputs", "y")
    edited = tfsmith.load(path)
    changed = tuple(node.replace(device="/cpu:0") for node in edited.graph.nodes)
    edited = edited.replace_graph(edited.graph.replace(nodes=changed))
    assert text in refused(lambda: tfsmith.save(edited, tmp_path / "edited.pb"))
    assert files_of(tmp_path) == before
    assert text in says(2, "convert", str(path), "-o", str(tmp_path / "copy"), "--as", "keep")
    if what == "twice":  # which of the two an input means, nobody knows
        assert text in says(2, "show", str(path))
        return
    shown = "the graph is cut off: y takes 'gone'" if what == "dangling" else f"TensorFlow refuses the graph: {text}"
    looks = (("scan",), ("diff", str(path)), ("view", "-o", str(tmp_path / "page.html")))
    assert all(shown in says(0, verb, str(path), *more) for verb, *more in looks)
    at_a_glance = what not in ("kind", "value", "nothing", "bad name", "missing")  # it reads no attributes for that
    assert (shown in says(0, "show", str(path))) == at_a_glance


def test_case_6_what_a_later_tensorflow_may_take_is_written(tmp_path: Path, says: Says) -> None:
    nodes, text = NODES["value"]
    for producer, code in ((2474, 2), (2475, 0)):
        path = tmp_path / "m.pb"
        path.write_bytes(graph_def(nodes, producer=producer))
        assert (text in says(code, "convert", str(path), "-o", str(tmp_path / "new.pb"))) == (code == 2)


def test_case_6_names_of_tensorflows_own_nodes_are_written(tmp_path: Path, says: Says) -> None:
    path = write_graph(tmp_path, [X, Y, node_def("_arg_x_0_0", "_Arg", [], {"T": FLOAT, "index": attr_value(i=0)})])
    says(0, "convert", str(path), "-o", str(tmp_path / "new.pb"))
    assert (tmp_path / "new.pb").read_bytes() == path.read_bytes()


def test_case_6_signatures_attributes_and_shapes(folder: Path, says: Says) -> None:
    for verb, source in (("export", "training"), ("thaw", "frozen.pb")):
        said = says(0, verb, source, "-o", verb, "--output", "y=loss/output:0")
        assert "signature serving_default: input_ids, input_mask, segment_ids -> y\n" in said
        assert set(tfsmith.load(verb).signatures["serving_default"].inputs) == {
            "input_ids",
            "input_mask",
            "segment_ids",
        }
    place = "node 'bert/encoder/layer_0/attention/self/Softmax': op Softmax: "
    allowed = "it may be float16, bfloat16, float32, float64; pass another value"
    said = says(2, "configure", "frozen.pb", "--op", "Softmax", "--set", "T=string", "-o", "c.pb")
    assert said == f"error: {place}attribute 'T' cannot be string; {allowed}\n"
    said = says(2, "freeze", "training", "-o", "f.pb", "--input-shape", "input_ids=1,21", "--outputs", "loss/output")
    assert "the new shapes of the inputs do not fit: " in said
    assert not {"c.pb", "f.pb"} & {path.name for path in Path().iterdir()}


def test_case_7_convert_verify_on_tf2(folder: Path, says: Says) -> None:
    said = says(0, "convert", "tf2_model", "-o", "copy", "--verify")
    assert "pass inputs of your own (`tfsmith verify --input ...`)\n" in said
    assert "tfsmith.verify(" not in said
    assert "The models answer the same.\n" in said
    assert "__saved_model_init_op" not in said
    says(0, "freeze", "training", "-o", "frozen_model", "--as", "saved_model", "--outputs", "loss/output")
    assert "The models answer the same." in says(0, "verify", "frozen.pb", "frozen_model", "--outputs", "loss/output")


def test_case_14_remedies_name_what_the_verb_has(folder: Path, says: Says) -> None:
    Path("none.pb").write_bytes(graph_def([node_def("x", "NoOp")]))
    found = says(2, "convert", "none.pb", "-o", "again.pb", "--verify")
    assert found.endswith("write it without --verify, then say it: `tfsmith verify MODEL RESULT --outputs NAME`\n"), (
        found
    )
    nodes = [node_def("x", "Placeholder", attrs={"dtype": attr_value(type=1)}), node_def("y", "Mine", ["x"])]
    Path("mine.pb").write_bytes(graph_def(nodes))
    found = says(1, "check", "mine.pb", "--for", "onnx", "--outputs", "y")
    assert "or keep it (`tfsmith convert --map-op OP=DOMAIN:OP`)\n" in found


def test_case_8_inputs_are_never_replaced(folder: Path, says: Says) -> None:
    says(0, "recipe", "draft", "frozen.pb", "-o", "r.toml")
    Path("names.txt").write_text("output_bias bias\n")
    before = files_of(folder)
    also = "the output is also the input; choose another name"
    replace = ("replace", "frozen.pb", "-r", "r.toml", "-o", "r.toml", "--as", "pb", "--force")
    assert says(2, *replace) == f"error: r.toml: {also}\n"
    rename = ("convert", "training", "-o", "names.txt", "--as", "pb", "--rename", "names.txt", "--force")
    assert f"names.txt: {also}" in says(2, *rename)
    assert f"training/checkpoint: {also}" in says(
        2, "freeze", "training", "-o", "training/checkpoint", "--as", "pb", "--force", "--outputs", "loss/output"
    )
    inside = "error: saved_model/inside: the output lies inside of an input; choose a place outside of saved_model\n"
    assert says(2, "convert", "saved_model", "-o", "saved_model/inside") == inside
    assert files_of(folder) == before


def test_case_8_beside_other_checkpoints(folder: Path, says: Says) -> None:
    """A folder of checkpoints is a place for many: others may be written there, beside the one that is read."""
    before = files_of(folder)
    says(0, "convert", "training", "-o", "training/new.ckpt")
    after = files_of(folder)
    assert {name: after[name] for name in before} == before
    assert sorted(after.keys() - before.keys()) == ["training/new.ckpt.data-00000-of-00001", "training/new.ckpt.index"]


def test_case_8_a_remedy_that_works(folder: Path, says: Says) -> None:
    """`--force` is offered only where it helps."""
    Path("mine").mkdir()
    Path("mine/letter.txt").write_text("x")
    kept = "so it is not replaced; choose another name, or remove"
    for force in ((), ("--force",)):
        said = says(2, "convert", "saved_model", "-o", "mine", *force)
        assert said == f"error: mine: the folder exists and is no SavedModel, {kept} the folder yourself\n"
        said = says(2, "convert", "saved_model", "-o", "frozen.pb", "--as", "saved_model", *force)
        assert said == f"error: frozen.pb: the output exists and is no folder, {kept} it yourself\n"
    exists = "error: tf2_model: the output exists already; choose another, or pass --force\n"
    assert says(2, "convert", "saved_model", "-o", "tf2_model") == exists
    says(0, "convert", "saved_model", "-o", "tf2_model", "--force")


@pytest.mark.parametrize("option", ["inputs", "calibrate"])
def test_case_8_data_are_inputs_too(folder: Path, option: str) -> None:
    ids = np.ones((1, 20), np.int32)
    np.savez("data.npz", input_ids=ids, input_mask=ids, segment_ids=ids * 0)
    given: dict[str, Any] = {option: "data.npz", "op_libraries": ["bert_op.so"]}
    what = "data.npz: the output is also the input; choose another name"
    assert refused(lambda: tfsmith.optimize("frozen.pb", "data.npz", as_="pb", force=True, **given)) == what


def test_case_9_endings(folder: Path, says: Says) -> None:
    said = says(2, "freeze", "frozen.pb", "-o", "m.onnx")
    assert said.startswith(
        "error: m.onnx: only convert writes ONNX, to a name that ends in .onnx; use .pb (GraphDef), .pbtxt (its text), "
    )
    said = says(2, "weights", "training", "-o", "x.pt")
    listed = "use .ckpt (checkpoint), .npz, .safetensors, .h5 (Keras' weights), .keras"
    assert said == f"error: x.pt: the ending .pt is of no kind of file that is written; {listed}\n"
    assert not {"m.onnx", "x.pt"} & {path.name for path in Path().iterdir()}
    tfsmith.save_weights({"dense/kernel": np.ones((2, 3), np.float32)}, "w.npz")
    for name in ("w.npz", "w.safetensors", "w.h5"):
        if name != "w.npz":
            tfsmith.save(tfsmith.load("w.npz"), name, as_=name[2:])  # type: ignore[arg-type]
        assert "Wrote kept (weights, 1 tensor, " in says(0, "convert", name, "-o", "kept", "--as", "keep")
        assert Path("kept").read_bytes() == Path(name).read_bytes()
        Path("kept").unlink()


def test_case_10_a_file_that_shrinks(folder: Path) -> None:
    data = Path("training/model.ckpt-1603.data-00000-of-00001")
    model = tfsmith.load("training")
    os.truncate(data, 100)
    said = refused(lambda: tfsmith.freeze(model, ["loss/output"]).save("new.pb"))
    assert said.startswith(str(data))
    assert not Path("new.pb").exists()
    assert str(data) in refused(model.variables["output_bias"].numpy)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["freeze", "training", "-o", "n.pb", "--outputs", ""], "--outputs names nothing; write A,B, or leave it out"),
        (
            ["export", "training", "-o", "n", "--output", "y=loss/output", "--output", "y=loss/MatMul"],
            "--output names 'y' twice; leave one of them out",
        ),
        (
            ["weights", "training", "-o", "n.npz", "--metadata", "a=b", "--metadata", "a=c"],
            "--metadata names 'a' twice; leave one of them out",
        ),
        (
            ["freeze", "training", "-o", "n.pb", "--input-shape", "input_ids=1,20", "--input-shape", "input_ids=1,20"],
            "--input-shape names 'input_ids' twice; leave one of them out",
        ),
        (
            ["freeze", "training", "-o", "n.pb", "--batch-size", "1", "--batch-size", "2"],
            "--batch-size is given twice; `tfsmith freeze --help` lists what it takes",
        ),
        (["run", "frozen.pb", "-i", "input_ids=zeros", "-i", "input_ids=zeros"],
         "input 'input_ids' is given twice; leave one of them out"),
        (
            ["freeze", "training", "-o", "n.pb", "--except", "no*"],
            "training/model.ckpt-1603.meta: no variable is called 'no*'; `tfsmith show --variables` lists them",
        ),
        (
            ["freeze", "training", "-o", "n.pb", "--verify-engine", "openvino"],
            "--verify-engine goes with --verify; add --verify, or leave it out",
        ),
        (
            ["weights", "training", "-o", "n.ckpt", "--metadata", "a=b"],
            "n.ckpt: a checkpoint holds no metadata; leave it out, or write .npz, .h5 or .safetensors",
        ),
        (
            ["weights", "training", "--compare", "frozen.pb", "--tolerance", "-1"],
            "--tolerance -1.0 makes no sense; pass a finite number, 0 or more",
        ),
        (["freeze", "training", "-o", "-"], "-: a model is not written to stdout; pass the name of a file or folder"),
        (
            ["configure", "frozen.pb", "--op", "Softmax", "--set", "T=float", "--as", "pbtxt"],
            "--as goes with --out; add --out, or leave it out",
        ),
    ],
)  # fmt: skip
def test_case_11_no_option_is_ignored(folder: Path, says: Says, words: list[str], text: str) -> None:
    before = files_of(folder)
    assert says(2, *words) == f"error: {text}\n"
    assert files_of(folder) == before


def test_case_11_what_works(folder: Path, says: Says) -> None:
    outputs = ("--outputs", "loss/output", "--outputs", "loss/MatMul")
    said = says(0, "freeze", "training", "-o", "two.pb", *outputs)
    assert "output loss/output:0\noutput loss/MatMul:0\n" in said
    says(0, "weights", "training", "-o", "m.npz", "--metadata", "from=me")
    assert tfsmith.load_weights("m.npz").metadata == {"from": "me"}
    facts = json.loads(says(0, "show", "two.pb", "--text", "--json"))
    assert facts["text"] == tfsmith.graph_text("two.pb")
    text = "as_= goes with out=; add out=, or leave it out"
    assert refused(lambda: tfsmith.convert("frozen.pb", as_="pbtxt")) == text
    assert refused(lambda: tfsmith.freeze("training", force=True)) == "force= goes with out=; add out=, or leave it out"


def test_case_12_python(folder: Path) -> None:
    tfsmith.load_weights("training").verify()
    assert tfsmith.freeze(Path("training"), outputs="loss/output").outputs == {"loss/output": "loss/output:0"}
    assert tfsmith.thaw(Path("frozen.pb")).variables
    tfsmith.save_weights({"a": np.arange(3)}, "a.npz")
    assert tfsmith.load_weights("a.npz")["a"].numpy().tolist() == [0, 1, 2]
    assert tfsmith.load("training", step="1603").checkpoint.step == 1603  # type: ignore[arg-type, union-attr]
    graph = tfsmith.load("frozen.pb").graph
    by_name = 'use a name, as in graph["x"], or a number on its nodes, as in graph.nodes[0]'
    assert refused(lambda: graph[0]) == f"the graph has nodes by name, and 0 is no name; {by_name}"  # type: ignore[index]
    wrong: dict[str, Callable[[], object]] = {
        "batch_size= takes a whole number, not the text '3'; pass batch_size=3": lambda: tfsmith.freeze(
            "training",
            batch_size="3",  # type: ignore[arg-type]
        ),
        "freeze() has no argument 'forse'; did you mean force=?": lambda: tfsmith.freeze("training", forse=True),  # type: ignore[call-arg]
        "outputs= takes names, but 1 is in it; pass outputs=['a', 'b']": lambda: tfsmith.freeze("training", [1]),  # type: ignore[list-item]
        "outputs= names nothing; leave it out, or pass names": lambda: tfsmith.freeze("training", outputs=""),
        "path= takes a path, not 3; pass path='...'": lambda: tfsmith.freeze("training").save(3),  # type: ignore[arg-type]
        "weights= takes tensors by name, but a list is in it; pass what load_weights gives, or a dict of arrays": (
            lambda: tfsmith.save_weights({"a": [1]}, "b.npz")  # type: ignore[dict-item]
        ),
        "None is no model; pass a path, bytes, or a GraphDef, MetaGraphDef or SavedModel message": (
            lambda: tfsmith.thaw(None)
        ),
        "training: 'last' is no step; pass a whole number": lambda: tfsmith.load("training", step="last"),  # type: ignore[arg-type]
        "model= takes a Model or what a verb returned, not the text 'frozen.pb'; open a path with tfsmith.load first": (
            lambda: tfsmith.save("frozen.pb", "b.pb")  # type: ignore[arg-type]
        ),
    }
    for text, work in wrong.items():
        assert refused(work) == text


FUNCTIONS = [
    name
    for name in tfsmith.__all__
    if type(found := getattr(tfsmith, name)).__name__ == "function" and found.__module__.startswith("tfsmith.verbs.")
]
ODD = (None, 3, 2.5, True, b"x", "", [1], {"x": 1}, {1: 2}, np.zeros(2), np.array("x"), object(), int, iter(()), 10**30)
"""Values of all kinds; of a text nobody could say beforehand what it names."""


@pytest.mark.parametrize("name", FUNCTIONS)
def test_case_12_every_public_function_checks_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """No argument of any kind makes a function fail otherwise than with an error of ours."""
    monkeypatch.chdir(tmp_path)
    function = getattr(tfsmith, name)
    words = words_of(function)
    assert all(kind.removesuffix(" | None") in WORDS or kind.startswith("Literal[") for kind in words.values())
    for odd in ODD:
        first = next(iter(words), None)
        if first is None:
            continue
        given: dict[str, Any] = dict.fromkeys(_needed(function), "no such file")
        with pytest.raises(TfsmithError):
            function(**{**given, first: odd})
    for option, kind in words.items():
        taken = [odd for odd in ODD if option != "step" and not _fits(kind, odd)]
        for odd in taken:
            rest: dict[str, Any] = {one: "no such file" for one in _needed(function) if one != option}
            given = {option: odd, **rest}
            text = refused(lambda given=given: function(**given))  # type: ignore[misc]
            assert text.startswith((f"{option}= ", "force= "))


def _needed(function: Any) -> list[str]:
    plain = function.__wrapped__ if hasattr(function, "__wrapped__") else function
    names = plain.__code__.co_varnames[: plain.__code__.co_argcount]
    more = plain.__code__.co_varnames[plain.__code__.co_argcount :][: plain.__code__.co_kwonlyargcount]
    by_name = (name for name in more if name not in (plain.__kwdefaults__ or {}))
    return [*names[: len(names) - len(plain.__defaults__ or ())], *by_name]


def _fits(kind: str, value: Any) -> bool:
    """Whether a value is of the kind that an annotation names, or left to who opens models."""
    plain = kind.removesuffix(" | None")
    if value is None or plain == "ModelOrPath":
        return True
    if plain.startswith("Literal["):
        return isinstance(value, str)
    try:
        WORDS[plain].take(value)
    except Exception:
        return False
    return True


def test_case_13_parts_of_models(folder: Path, says: Says) -> None:
    cut = write_graph(folder, [X, node_def("y", "Identity", ["gone"], IDENTITY)])
    assert "the graph is cut off: y takes 'gone', which is not there" in says(0, "show", str(cut))
    assert "of the first: the graph is cut off: y takes 'gone', which is not there" in says(
        1, "diff", str(cut), "frozen.pb"
    )
    assert "it takes 'gone', which is not in the graph" in says(2, "freeze", str(cut), "-o", "f.pb", "--outputs", "y")
    Path("bare").mkdir()
    for ending in (".index", ".data-00000-of-00001"):
        shutil.copy(f"training/model.ckpt-1603{ending}", f"bare/{ending}")
    assert "checkpoint (V2) without a graph" in says(0, "show", "bare/.index")
    assert "SavedModel" in says(0, "show", "saved_model/saved_model.pb")


def test_case_14_texts(folder: Path, says: Says) -> None:
    Path("loop").symlink_to("loop")
    said = says(2, "show", "loop")
    assert said == "error: loop: this link leads back to itself; mend the link, or pass what it should lead to\n"
    said = says(2, "run", "tf2_model", "-i", "zeros", "--batch", "99999999999")
    assert said.startswith("error: a batch of 99999999999 takes 1,599,999,999,984 bytes for ")
    assert said.endswith("; pass a smaller batch, or feed an array\n")
    assert refused(lambda: tfsmith.check("frozen.pb", "onxx")).endswith("; `tfsmith.list_targets()` shows all")
    assert says(2, "check", "frozen.pb", "--for", "onxx").endswith("; `tfsmith check --list` shows all\n")
    missing = "training/model.ckpt-1603.meta: there is no node 'qqqq' in the graph; "
    said = refused(lambda: tfsmith.freeze("training", ["qqqq"]))
    assert said == f"{missing}`tfsmith.show(model, outputs=True)` lists likely ones"
    said = says(2, "freeze", "training", "-o", "f.pb", "--outputs", "qqqq")
    assert said == f"error: {missing}`tfsmith show --outputs` lists likely ones\n"


FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+|`tfsmith [a-z]+|\(-[a-z]\)")
DOORS = ("verbs", "cli", "compat", "testing", "native")


def _texts(path: Path) -> list[str]:
    """All texts in a file that are no docstrings."""
    tree = ast.parse(path.read_text())
    docs = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def test_case_14_nobody_below_the_verbs_names_a_flag() -> None:
    source = ROOT / "src" / "tfsmith"
    below = [path for path in source.rglob("*.py") if path.relative_to(source).parts[0] not in DOORS]
    assert len(below) > 100
    found = {str(path.relative_to(source)): text for path in below for text in _texts(path) if FLAG.search(text)}
    assert found == {}


CALL = re.compile(r"\{(\w+\([^{}]*\))\}")


def test_case_14_calls_in_remedies_are_commands_too() -> None:
    """What a remedy names is there, in both forms."""
    from tfsmith.cli.common import spelled

    calls = {
        found
        for path in (ROOT / "src" / "tfsmith").rglob("*.py")
        for text in _texts(path)
        for found in CALL.findall(text)
        if not path.is_relative_to(ROOT / "src" / "tfsmith" / "errors.py")
    }
    assert len(calls) > 8
    for one in calls:
        command = spelled(one, None).strip("`").split()
        assert command[0] == "tfsmith"
        assert hasattr(tfsmith, one.partition("(")[0]), one


def test_terminal_what_was_written_and_its_size(folder: Path, says: Says) -> None:
    said = says(0, "freeze", "training", "-o", "f.pb", "--outputs", "loss/output")
    size = Path("f.pb").stat().st_size
    assert said.splitlines()[-1] == f"Wrote f.pb ({size / 1000:.1f} kB)"
    facts = json.loads(says(0, "freeze", "training", "-o", "g.pb", "--outputs", "loss/output", "--json"))
    assert (facts["output"], facts["bytes"]) == ("g.pb", size)
    for words in (
        ["export", "training", "-o", "e", "--output", "y=loss/output"],
        ["thaw", "frozen.pb", "-o", "t", "--output", "y=loss/output"],
        ["convert", "frozen.pb", "-o", "c.pbtxt"],
        ["convert", "training", "-o", "c.meta"],
        ["replace", "frozen.pb", "-r", "remove-identity", "-o", "r.pb", "--outputs", "loss/output"],
        ["configure", "frozen.pb", "--op", "Softmax", "--set", "T=float", "-o", "k.pb"],
        ["extract", "frozen.pb", "-s", "loss/output", "-b", "loss/MatMul", "-B", "Identity", "-o", "p.pb"],
    ):
        said = says(0, *words)
        assert re.search(rf"{re.escape(words[words.index('-o') + 1])} \((.*, )?[\d.]+ [kM]?B\)\n", said), said


def test_terminal_names_are_never_broken() -> None:
    name = "tf_bert_model/bert/encoder/layer_._0/attention/self/query/kernel"
    rows = [
        (f"variables/{number}/.ATTRIBUTES/VARIABLE_VALUE", "float32", "[32, 32]", "4.1 kB", name) for number in (5, 16)
    ]
    table = Section("", rows, ("name", "dtype", "shape", "size", "variable"), right=frozenset({3}), drop=(3, 1, 2))
    fitted = fit_section(table, 80)
    lines = ["  ".join(line).rstrip() for row in fitted.lines for line in row]
    assert fitted.left_out == ("dtype", "size")
    assert lines == [
        "name                                     shape     variable",
        "variables/5/.ATTRIBUTES/VARIABLE_VALUE   [32, 32]",
        f"    {name}",
        "variables/16/.ATTRIBUTES/VARIABLE_VALUE  [32, 32]",
        f"    {name}",
    ]
    wide = ["  ".join(line).rstrip() for row in fit_section(table, 200).lines for line in row]
    assert wide[1] == f"variables/5/.ATTRIBUTES/VARIABLE_VALUE   float32  [32, 32]  4.1 kB  {name}"
    prose = Section("", [("ops", "Const x222, Identity x56, Cast x38")])
    assert fit_section(prose, 30).lines == ((("ops", "Const x222, Identity x56,"), ("   ", "Cast x38")),)
    long = Section("", [("a" * 90, "Relu", "x"), ("b", "Relu", "y")], ("name", "op", "inputs"))
    assert ["  ".join(line).rstrip() for row in fit_section(long, 60).lines[1:] for line in row][:2] == [
        "a" * 90,
        f"{'':46}  Relu  x",
    ]


def test_terminal_did_you_mean(folder: Path, says: Says) -> None:
    assert says(2, "frezee", "x").startswith("error: there is no verb 'frezee' (did you mean freeze?); ")
    assert says(2, "recipe", "lst").startswith("error: there is no action 'lst' (did you mean list?); ")
    assert says(2, "show", "x", "--nods").startswith("error: there is no option --nods (did you mean --nodes?); ")
    said = says(2, "freeze", "training", "-o", "f.pb", "--outputs", "loss/outptu")
    assert said.endswith(
        "there is no node 'loss/outptu' in the graph; the nearest names are loss/output, loss/Const, loss/MatMul\n"
    )
    assert "the nearest names are loss/output" in refused(lambda: tfsmith.load("frozen.pb").graph["loss/outptu"])


def test_terminal_examples_and_json_everywhere() -> None:
    for name, (home, _) in VERBS.items():
        if not home:
            continue
        assert "\nexamples:\n" in parser_of(name).format_help()
        assert any("--json" in action.option_strings for action in make_parser(read_verb(name, home))._actions)


def test_terminal_one_form_for_nan_and_infinity(tmp_path: Path, says: Says) -> None:
    tfsmith.save_weights({"a": np.array([np.nan, np.inf, -np.inf], np.float32)}, tmp_path / "a.npz")
    rows = json.loads(says(0, "weights", str(tmp_path / "a.npz"), "--stats", "--json"))["weights"]
    assert (rows[0]["nan"], rows[0]["inf"]) == (1, 2)
    values = Path(tmp_path / "b.npz")
    tfsmith.save_weights({"a": np.zeros(3, np.float32)}, values)
    said = says(1, "weights", str(tmp_path / "a.npz"), "--compare", str(values), "--json")
    assert json.loads(said, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))["equal"] is False
    relu = node_def("y", "Log", ["x"], {"T": FLOAT})
    (tmp_path / "log.pb").write_bytes(graph_def([X, relu]))
    said = says(0, "run", str(tmp_path / "log.pb"), "-i", "x=[0, -1]", "--outputs", "y", "--json")
    assert '"-Infinity"' in said
    assert '"NaN"' in said


def test_python_results_and_threads(folder: Path) -> None:
    model = tfsmith.load("training")
    again = pickle.loads(pickle.dumps(model))
    assert list(again.graph.by_name) == list(model.graph.by_name)
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(len(model.graph.nodes))) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [len(model.graph.nodes)] * 8
    with pytest.raises(AttributeError, match=r"is immutable; use `with model\.edit"):
        model.graph.nodes[0].op = "Relu"


def test_one_spelling_for_the_kind_of_file(tmp_path: Path) -> None:
    write_frozen(linear_regression(), tmp_path / "m.pb")
    model = tfsmith.load(tmp_path / "m.pb")
    tfsmith.save(model, tmp_path / "a.x", as_="pbtxt")
    tfsmith.save(model, tmp_path / "b.x", format="pbtxt")
    assert (tmp_path / "a.x").read_text() == (tmp_path / "b.x").read_text()
    with pytest.raises(UsageError, match="as_= and format= are the same; give one of them"):
        tfsmith.save(model, tmp_path / "c.x", as_="pb", format="pb")
