"""`optimize` without TensorFlow and without the op: what is found, written, refused, and told."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.support.helpers import files_of, python

import tfsmith
from tfsmith.cli.main import main
from tfsmith.engines.compare import Tolerance
from tfsmith.engines.program import ModelProgram
from tfsmith.engines.protocol import Port
from tfsmith.engines.samples import batch_and_length, has_open_length, split_rows, with_hidden_row
from tfsmith.errors import EngineError, UsageError
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.passes.bert_node import BERT
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, linear_regression
from tfsmith.testing.write import write_frozen, write_saved_model
from tfsmith.verbs import optimize as optimizing
from tfsmith.verbs.optimize import Accuracy, compare_results
from tfsmith.verbs.verify import OutputCheck, Verified

CONFIG = BertConfig(60, 32, 2, 4, 64, max_position_embeddings=32)
QUICK = ["--no-verify", "--repeat", "0"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers as SavedModel and frozen, and one with a fixed batch."""
    folder = tmp_path_factory.mktemp("bert")
    made = bert_classifier(CONFIG, length=12)
    write_saved_model(made, folder / "saved_model")
    write_frozen(made, folder / "frozen.pb")
    write_frozen(bert_classifier(CONFIG, length=12, batch=2), folder / "fixed.pb")
    return folder


@pytest.fixture(autouse=True)
def no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The op's package is not there, whatever is installed."""
    monkeypatch.setitem(sys.modules, "tfsmith_bert_op", None)


def fused_node(model: tfsmith.Model) -> tfsmith.Node:
    (node,) = (node for node in model.graph if node.op == "Bert")
    return node


# The library


def test_the_library_is_not_installed() -> None:
    with pytest.raises(EngineError, match=r"not installed; pip install \./native/bert_op") as caught:
        tfsmith.bert_op.library()
    assert "\n" not in str(caught.value)


def package(monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    found = ModuleType("tfsmith_bert_op")
    found.LibraryError = type("LibraryError", (Exception,), {})  # type: ignore[attr-defined]

    def library() -> Path:
        if isinstance(answer, str):
            raise found.LibraryError(answer)
        return Path(answer)

    found.library = library  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tfsmith_bert_op", found)


def test_the_library_is_the_package_s(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package(monkeypatch, tmp_path / "op.so")
    assert tfsmith.bert_op.library() == tmp_path / "op.so"


def test_a_library_of_another_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, "it was built for TensorFlow 2.20, and this is 2.21; reinstall it")
    with pytest.raises(EngineError, match="built for TensorFlow") as caught:
        tfsmith.bert_op.library()
    assert caught.value.remedy == "reinstall it"


def test_importing_looks_for_no_library() -> None:
    code = "import sys, tfsmith; assert 'tfsmith.bert_op' not in sys.modules; tfsmith.bert_op.library"
    assert python("-c", code).returncode == 0


def test_without_the_library_nothing_is_written(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["optimize", str(bert / "frozen.pb"), "-o", str(tmp_path / "o.pb")]) == 2
    told = capsys.readouterr().err
    assert told.startswith("error: the library of the op Bert is not installed; pip install ./native/bert_op")
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


# What is found


def test_no_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_saved_model(linear_regression(), tmp_path / "model")
    assert main(["optimize", str(tmp_path / "model"), "-o", str(tmp_path / "o")]) == 1
    assert capsys.readouterr().out.startswith("No match: recipe 'bert-encoder' matches nothing in this model")
    assert not (tmp_path / "o").exists()


def test_nearly_an_encoder(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    node = "bert/encoder/layer_*/attention/self/MatMul"
    other = tmp_path / "other.pb"
    command = ["configure", str(bert / "frozen.pb"), "--node", node, "--set", "adj_y=false", "-o", str(other)]
    assert main(command) == 0
    capsys.readouterr()
    assert main(["optimize", str(other), "-o", str(tmp_path / "o.pb")]) == 1
    told = capsys.readouterr().out
    assert "nearest miss in the graph" in told
    assert "layer 1: a product with a weight is wanted" in told
    assert main(["optimize", str(other), "-o", str(tmp_path / "o.pb"), "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["output"] is None
    assert facts["encoders"] == []
    assert facts["nearest_miss"]["found_node"].startswith("bert/encoder/layer_1/")


def test_optimized_already(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    once = str(tmp_path / "once.pb")
    assert main(["optimize", str(bert / "frozen.pb"), "-o", once, *QUICK]) == 0
    capsys.readouterr()
    assert main(["optimize", once, "-o", str(tmp_path / "twice.pb"), *QUICK]) == 1
    assert "it has a node Bert already, bert/encoder/fused_bert" in capsys.readouterr().out


def test_what_the_layers_add_to_hide_words_is_in_the_node(bert: Path) -> None:
    model = tfsmith.load(bert / "frozen.pb")
    with model.edit() as g:
        for layer in range(2):
            g.set(f"bert/encoder/layer_{layer}/attention/self/mul_1/y", value=-5000.0)
    assert fused_node(optimizing.fuse_encoder(g.model).model).get("MaskAdder") == -5000.0
    with model.edit() as g:
        g.set("bert/encoder/layer_1/attention/self/mul_1/y", value=-5000.0)
    done = optimizing.fuse_encoder(g.model)
    assert sorted(node.get("MaskAdder") for node in done.model.graph if node.op == "Bert") == [-10000.0, -5000.0]


# What is written


def test_a_frozen_graph(bert: Path, tmp_path: Path) -> None:
    done = tfsmith.optimize(bert / "frozen.pb", tmp_path / "o.pb", verify=False, repeat=0)
    assert done.is_right
    assert (done.verified, done.speed, done.max_abs_diff) == (None, None, None)
    assert done.out == tmp_path / "o.pb"
    node = fused_node(tfsmith.load(tmp_path / "o.pb"))
    assert len(node.inputs) == 2 + 32
    # all that the node has is what the op knows, and of its kind
    kinds = {one.name: one.kind for one in BERT.attrs}
    assert all(kinds.get(name) == value.kind for name, value in node.attrs.items() if not name.startswith("_"))
    assert {one.name for one in BERT.attrs if one.default is None} <= set(node.attrs)
    assert (node.get("MaxSequenceLength"), node.get("MaskAdder")) == (12, -10000.0)
    assert node.get("NonQuantizableDataType") == dtype_named("float32")


def test_options_become_attributes(bert: Path, tmp_path: Path) -> None:
    options = ["--bfloat16", "--max-sequence-length", "64"]
    assert main(["optimize", str(bert / "frozen.pb"), "-o", str(tmp_path / "o.pb"), *QUICK, *options]) == 0
    node = fused_node(tfsmith.load(tmp_path / "o.pb"))
    assert node.get("NonQuantizableDataType") == dtype_named("bfloat16")
    assert node.get("MaxSequenceLength") == 64


def test_of_a_saved_model_the_graph_alone(bert: Path, tmp_path: Path) -> None:
    before = files_of(bert)
    assert main(["optimize", str(bert / "saved_model"), "-o", str(tmp_path / "o.pb"), "--as", "keep", *QUICK]) == 0
    assert files_of(bert) == before
    assert [path.name for path in tmp_path.iterdir()] == ["o.pb"]
    model = tfsmith.load(tmp_path / "o.pb")
    assert model.kind == "saved_model"
    assert model.meta.info.ops["Bert"] == BERT


def test_a_saved_model_with_its_weights(bert: Path, tmp_path: Path) -> None:
    assert main(["optimize", str(bert / "saved_model"), "-o", str(tmp_path / "o"), *QUICK]) == 0
    before, after = files_of(bert / "saved_model"), files_of(tmp_path / "o")
    assert {name: data for name, data in after.items() if name != "saved_model.pb"} == {
        name: data for name, data in before.items() if name != "saved_model.pb"
    }
    # attributes that the recipe does not set can be set, and only those that there are
    path = str(tmp_path / "o")
    assert main(["configure", path, "--op", "Bert", "--set", "QuantizationFactorsPath=/x/ranges.txt"]) == 0
    assert fused_node(tfsmith.load(path)).get("QuantizationFactorsPath") == b"/x/ranges.txt"
    assert main(["configure", path, "--op", "Bert", "--set", "Nothing=1"]) == 2


def test_what_is_there_stays(bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "o.pb"
    out.write_text("mine")
    assert main(["optimize", str(bert / "frozen.pb"), "-o", str(out), *QUICK]) == 2
    assert "exists already" in capsys.readouterr().err
    assert out.read_text() == "mine"
    assert main(["optimize", str(bert / "frozen.pb"), "-o", str(out), *QUICK, "--force"]) == 0
    assert fused_node(tfsmith.load(out))


def verdict(reason: str) -> Verified:
    check = OutputCheck("y", "y:0", "y:0", "float32", 0.5 if reason else 0.0, 1.0, Tolerance(0, 0), reason)
    return Verified((check,), ("tensorflow", "tensorflow"), 1, ())


@pytest.mark.parametrize("reason", ["2 of 2 values differ", ""])
def test_a_result_that_answers_otherwise_is_not_left(
    reason: str, bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(optimizing, "verify_on", lambda *_, **__: verdict(reason))
    command = ["optimize", str(bert / "frozen.pb"), "-o", str(tmp_path / "o.pb"), "--op-library", "op.so"]
    assert main([*command, "--repeat", "0", "--json"]) == (1 if reason else 0)
    told = capsys.readouterr()
    facts = json.loads(told.out)
    assert facts["verified"] is not bool(reason)
    assert facts["max_abs_diff"] == (0.5 if reason else 0.0)
    assert (tmp_path / "o.pb").exists() is not bool(reason)
    assert ("does not answer as the original does" in told.err) is bool(reason)


@pytest.mark.parametrize(("after", "is_slower"), [(0.004, True), (0.001, False)])
def test_a_slower_result_is_told(
    after: float,
    is_slower: bool,
    bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(optimizing, "measure_speed", lambda *_, **__: ((0.002,), (after,)))
    command = ["optimize", str(bert / "frozen.pb"), "-o", str(tmp_path / "o.pb"), "--op-library", "op.so"]
    assert main([*command, "--no-verify"]) == int(is_slower)
    told = capsys.readouterr()
    assert ("slower than the original here, so it was not written; --force" in told.err) is is_slower
    assert "2.00 ms" in told.out
    assert (tmp_path / "o.pb").exists() is not is_slower
    assert main([*command, "--no-verify", "--force"]) == 0
    assert (tmp_path / "o.pb").exists()
    assert ("slower than the original" in capsys.readouterr().err) is is_slower


# Wrong use


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--repeat", "-1"], "--repeat -1 makes no sense"),
        (["--batch-size", "0"], "--batch-size 0 makes no sense"),
        (["--sequence-length", "0"], "--sequence-length 0 makes no sense"),
        (["--max-sequence-length", "-3"], "--max-sequence-length -3 makes no sense"),
        (["--batch-size", "3"], "the model takes batches of 2, and no others"),
        (["--sequence-length", "13"], "the model takes sequences of 12, and no others"),
        (["--calibrate", "data.txt"], "inputs are given as .npz"),
        (["--inputs", "none.npz"], "there is no such file"),
        (["--tag-set", "serve", "--meta-graph", "0"], "both choose a meta graph"),
        (["--signature", "nothing"], "nothing"),
    ],
)
def test_wrong_use(
    options: list[str], words: str, bert: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["optimize", str(bert / "fixed.pb"), "-o", str(tmp_path / "o.pb"), "--op-library", "op.so"]
    assert main([*command, *options]) == 2
    told = capsys.readouterr().err
    assert words in told
    assert told.count("\n") == 1
    assert not list(tmp_path.iterdir())


# The parts


def program(**shapes: tuple[int, ...]) -> ModelProgram:
    ports = {key: Port(f"{key}:0", dtype_named("int32"), Shape(dims)) for key, dims in shapes.items()}
    found: Any = SimpleNamespace(inputs=ports)
    return found  # type: ignore[no-any-return]


def test_an_open_length() -> None:
    assert has_open_length(program(ids=(-1, -1)))
    assert not has_open_length(program(ids=(-1, 12), label=(-1,)))


def test_data_in_batches() -> None:
    data = {"ids": np.arange(140).reshape(70, 2), "mask": np.ones((70, 2))}
    batches, rows = split_rows(program(ids=(-1, 2), mask=(-1, 2)), data)
    assert ([len(one["ids"]) for one in batches], rows) == ([32, 32, 6], 70)
    assert np.array_equal(np.concatenate([one["ids"] for one in batches]), data["ids"])
    batches, rows = split_rows(program(ids=(8, 2), mask=(8, 2)), data)
    assert ({len(one["ids"]) for one in batches}, rows) == ({8}, 64)
    with pytest.raises(UsageError, match="70 rows of data do not fill a batch of 71"):
        split_rows(program(ids=(71, 2), mask=(71, 2)), data)
    with pytest.raises(UsageError, match="ids has 70, mask has 3"):
        split_rows(program(ids=(-1, 2), mask=(-1, 2)), {**data, "mask": np.ones((3, 2))})


def test_a_row_is_hidden() -> None:
    feeds: dict[str, Any] = {
        "ids": np.ones((2, 3), np.int32),
        "input_mask": np.ones((2, 3), np.int32),
        "x": np.ones((2, 4)),
    }
    hidden = with_hidden_row(feeds)
    assert hidden is not None
    assert hidden["input_mask"].tolist() == [[1, 1, 1], [0, 0, 0]]
    assert hidden["ids"].tolist() == [[1, 1, 1], [1, 1, 1]]
    assert feeds["input_mask"].all()
    words_alone = with_hidden_row({"ids": np.ones((2, 3), np.int32)})
    assert words_alone is not None
    assert words_alone["ids"].tolist() == [[1, 1, 1], [0, 0, 0]]
    assert with_hidden_row({"x": np.ones((2, 4))}) is None


def test_verified_on_padded_odd_and_hidden_sentences(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Any] = []

    def verify_on(a: Any, b: Any, outputs: Any, given: Any, **_: Any) -> Verified:
        tried.extend(given)
        return verdict("")

    monkeypatch.setattr(optimizing, "verify_on", verify_on)
    source = tmp_path / "open.pb"
    stored = Path(__file__).parents[1] / "data/encoders/bert-open-length.pb.xz"
    source.write_bytes(lzma.decompress(stored.read_bytes()))
    tfsmith.optimize(source, repeat=0, sequence_length=12, op_libraries=["op.so"])
    masks = [next(value for key, value in feeds.items() if "mask" in key) for feeds in tried]
    assert [mask.shape[1] for mask in masks] == [12, 7, 12, 7]
    assert [not mask[-1].any() for mask in masks] == [False, False, True, True]
    assert all(mask[:, 0].all() for mask in masks[:2])


def test_sizes_as_run() -> None:
    assert batch_and_length({"label": np.zeros(4), "ids": np.zeros((4, 9))}) == (4, 9)
    assert batch_and_length({"label": np.zeros(4)}) == (None, None)


def test_accuracy() -> None:
    before = [{"p": np.array([[0.9, 0.1], [0.2, 0.8]]), "n": np.array([3.0])}, {"p": np.eye(2), "n": np.array([5.0])}]
    after = [{"p": np.array([[0.4, 0.6], [0.2, 0.8]]), "n": np.array([3.5])}, {"p": np.eye(2), "n": np.array([5.0])}]
    first, second = compare_results(before, after)
    assert (first.key, first.max_abs, first.same_argmax) == ("p", 0.5, 0.75)
    assert second == Accuracy("n", 0.5, None)
    (worst,) = compare_results([{"p": np.eye(2)}], [{"p": np.eye(2) * np.nan}])
    assert worst.max_abs == float("inf")


def test_speed() -> None:
    speed = optimizing.Speed((0.004, 0.001, 0.002), (0.001, 0.001, 0.009), 1, 128)
    assert (speed.before_ms, speed.after_ms, speed.speedup) == (2.0, 1.0, 2.0)
