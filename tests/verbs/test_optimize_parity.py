"""`optimize` with the real op in the real TensorFlow: TF1 and TF2, frozen and SavedModel, proven and timed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.bert_library import answers_of, bert_library
from tests.support.helpers import files_of
from tests.support.recipe_models import IDS, MASK, einsum, save_functions, save_keras, tanh_gelu

import tfsmith
from tfsmith.cli.main import main
from tfsmith.ir.node import Attr
from tfsmith.ir.opdef import OpDatabase
from tfsmith.passes.bert_node import BERT, bert_nodes, change_bert_nodes
from tfsmith.records import replace
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import TestModel, bert_classifier
from tfsmith.testing.variables import Kind
from tfsmith.testing.write import write_frozen, write_saved_model
from tfsmith.verbs import optimize as optimizing
from tfsmith.verbs.optimize import fuse_encoder
from tfsmith.verbs.replace import Replaced

pytestmark = pytest.mark.tensorflow

CONFIG = BertConfig(60, 32, 2, 4, 64, max_position_embeddings=32)
KEYS = {"before_ms", "after_ms", "speedup", "max_abs_diff", "batch", "sequence_length"}


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Path:
    return bert_library(request.config)


def google(variables: Kind = "ref") -> TestModel:
    return bert_classifier(CONFIG, length=12, variables=variables)


def weights(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in files_of(folder).items() if name.startswith("variables/")}


def node_of(model: tfsmith.Model) -> tfsmith.Node:
    ((_, node),) = bert_nodes(model)
    return node


def test_the_op_is_the_one_that_models_carry(library: Path) -> None:
    import tensorflow as tf
    from tensorflow.python.framework import op_def_registry
    from tools.make_op_database import _row

    tf.load_op_library(str(library))
    row = json.dumps(_row(op_def_registry.get("Bert")))
    assert OpDatabase("", {"Bert": row})["Bert"] == BERT


def test_a_saved_model_of_tensorflow_1(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole way: the folder as it is written, its weights untouched, run by the command line."""
    made = google("ref")
    source = write_saved_model(made, tmp_path / "model")
    before = files_of(source)
    command = ["optimize", str(source), "-o", str(tmp_path / "out"), "--op-library", str(library)]
    assert main([*command, "--batch-size", "2", "--repeat", "3", "--json", "--force"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert set(facts) >= KEYS
    assert facts["before_ms"] > 0
    assert facts["speedup"] == pytest.approx(facts["before_ms"] / facts["after_ms"])
    assert facts["max_abs_diff"] < 1e-5
    assert (facts["batch"], facts["sequence_length"]) == (2, 12)
    assert (facts["verified"], facts["encoders"][0]["layers"]) == (True, 2)
    assert files_of(source) == before
    assert weights(tmp_path / "out") == weights(source)

    feeds = made.example_inputs(3, 4)
    np.savez(tmp_path / "feeds.npz", **feeds)  # type: ignore[arg-type]
    command = ["run", str(tmp_path / "out"), "-i", str(tmp_path / "feeds.npz"), "--engine", "tensorflow"]
    assert main([*command, "--op-library", str(library), "-o", str(tmp_path / "answers.npz")]) == 0
    with np.load(tmp_path / "answers.npz") as answers:
        np.testing.assert_allclose(answers["probabilities"], made.reference(feeds)["probabilities"], atol=2e-6)


def test_of_resource_variables_the_graph_alone(library: Path, tmp_path: Path) -> None:
    source = write_saved_model(google("resource"), tmp_path / "model")
    before = files_of(source)
    done = tfsmith.optimize(source, tmp_path / "out.pb", op_libraries=[library], repeat=0, as_="keep")
    assert done.is_right
    assert done.verified is not None
    assert done.speed is None
    assert files_of(source) == before
    # put in the place of saved_model.pb, it is the optimized model
    (source / "saved_model.pb").write_bytes((tmp_path / "out.pb").read_bytes())
    feeds = google().example_inputs(3, 2)
    (found,) = answers_of(source, library, feeds)
    np.testing.assert_allclose(found, google().reference(feeds)["probabilities"], atol=2e-6)


def test_a_frozen_graph_in_bfloat16(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_frozen(google(), tmp_path / "frozen.pb")
    command = ["optimize", str(source), "-o", str(tmp_path / "out.pb"), "--op-library", str(library)]
    assert main([*command, "--bfloat16", "--repeat", "2", "--force"]) == 0
    told = capsys.readouterr().out
    assert "+ bert/encoder/fused_bert (Bert, 34 inputs)" in told
    assert "times faster" in told
    node = node_of(tfsmith.load(tmp_path / "out.pb"))
    assert str(node.get("NonQuantizableDataType")) == "bfloat16"


def test_functions_of_tensorflow_2(library: Path, tmp_path: Path) -> None:
    """Loaded as users load it, it also answers for sentences that are hidden as a whole."""
    source, out = tmp_path / "model", tmp_path / "out"
    save_functions(source, einsum, tanh_gelu)
    done = tfsmith.optimize(source, out, op_libraries=[library], repeat=0)
    assert done.is_right, done
    assert weights(out) == weights(source)
    assert node_of(done.replaced.model).get("MaskAdder") == -1e9
    feeds = {"ids": IDS, "mask": np.concatenate([MASK[:2], np.zeros_like(MASK[:1])])}
    (before,), (after,) = (answers_of(path, library, feeds) for path in (source, out))
    np.testing.assert_allclose(after, before, rtol=0, atol=2e-6)


def test_keras(library: Path, tmp_path: Path) -> None:
    save_keras(tmp_path / "model", dropout=0.0, approximate=False)
    done = tfsmith.optimize(tmp_path / "model", tmp_path / "out.pb", op_libraries=[library], repeat=0)
    assert done.is_right, done
    assert node_of(done.replaced.model).get("HiddenAct") == b"gelu_erf"


def test_a_wrong_result_is_not_left(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fuse_wrongly(model: tfsmith.Model, outputs: Any = ()) -> Replaced:
        done = fuse_encoder(model, outputs)
        wrong = {"LayerNormEpsilon": Attr("float", 3.0)}
        return replace(done, model=change_bert_nodes(done.model, lambda body, node: wrong))

    monkeypatch.setattr(optimizing, "fuse_encoder", fuse_wrongly)
    source = write_frozen(google(), tmp_path / "frozen.pb")
    assert main(["optimize", str(source), "-o", str(tmp_path / "out.pb"), "--op-library", str(library)]) == 1
    told = capsys.readouterr()
    assert "differ by more than is usual" in told.out
    assert "was not written" in told.err
    assert [path.name for path in tmp_path.iterdir()] == ["frozen.pb"]


def test_what_the_op_refuses_is_told(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write_frozen(google(), tmp_path / "frozen.pb")
    command = ["optimize", str(source), "-o", str(tmp_path / "out.pb"), "--op-library", str(library)]
    assert main([*command, "--max-sequence-length", "5", "--no-verify", "--repeat", "1"]) == 2
    told = capsys.readouterr().err
    assert "sequences of 12 are longer than MaxSequenceLength, 5" in told
    assert [path.name for path in tmp_path.iterdir()] == ["frozen.pb"]
