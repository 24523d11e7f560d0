"""`optimize --calibrate`: ranges are found by running data, and the node has them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.bert_library import answers_of, bert_library, graph_answers
from tests.support.recipe_models import LENGTH, WORDS, google, google_tanh, save_functions

import tfsmith
from tfsmith.cli.main import main
from tfsmith.passes.bert_node import bert_nodes
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import write_frozen

pytestmark = pytest.mark.tensorflow

CONFIG = BertConfig(60, 32, 2, 4, 64, max_position_embeddings=32)


@pytest.fixture(scope="module")
def library(request: pytest.FixtureRequest) -> Path:
    return bert_library(request.config)


def ranges_of(model: tfsmith.Model) -> Any:
    ((_, node),) = bert_nodes(model)
    assert str(node.get("QuantizableDataType")) == "qint8"
    assert node.get("CalibrateQuantFactors") in (None, False)
    assert not node.get("QuantizationFactorsPath")
    return np.array(node.get("QuantizationFactors")).reshape(2, 8)


def test_a_frozen_graph(library: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = bert_classifier(CONFIG, length=12)
    source = write_frozen(made, tmp_path / "frozen.pb")
    data = {key: value for key, value in made.example_inputs(1, 40).items() if key != "label_ids"}
    np.savez(tmp_path / "data.npz", **data)  # type: ignore[arg-type]
    out = tmp_path / "out.pb"
    command = ["optimize", str(source), "-o", str(out), "--op-library", str(library), "--repeat", "2"]
    command.append("--force")  # a busy machine may be slower
    assert main([*command, "--calibrate", str(tmp_path / "data.npz"), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    calibration = facts["calibration"]
    assert calibration["rows"] == 40
    (output,) = calibration["outputs"]
    assert 0 < output["max_abs_diff"] < 0.01
    assert facts["max_abs_diff"] == output["max_abs_diff"]
    assert output["same_argmax"] > 0.9
    assert facts["speedup"] > 0

    ranges = ranges_of(tfsmith.load(out))
    assert (ranges[:, ::2] <= 0).all()
    assert (ranges[:, 1::2] >= 0).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.npz", "frozen.pb", "out.pb"]
    answers = graph_answers(out, library, data, "loss/output:0")
    wanted = made.reference(made.example_inputs(1, 40))["probabilities"]
    assert np.abs(answers - wanted).max() == pytest.approx(output["max_abs_diff"], abs=1e-6)

    # The ranges are what it goes by: others give other answers, and without any each row is rounded to its own.
    narrow = ",".join(str(number / 10) for number in ranges.reshape(-1))
    assert main(["configure", str(out), "--op", "Bert", "--set", f"QuantizationFactors:list(float)={narrow}"]) == 0
    assert np.abs(graph_answers(out, library, data, "loss/output:0") - answers).max() > 1e-4
    assert main(["configure", str(out), "--op", "Bert", "--set", "QuantizationFactors:list(float)="]) == 0
    np.testing.assert_allclose(graph_answers(out, library, data, "loss/output:0"), wanted, rtol=0, atol=0.01)


def test_a_saved_model_of_tensorflow_2(library: Path, tmp_path: Path) -> None:
    save_functions(tmp_path / "model", google, google_tanh)
    random = np.random.default_rng(2)
    data = {
        "ids": random.integers(0, WORDS, (50, LENGTH)).astype(np.int32),
        "mask": (np.arange(LENGTH)[None] < random.integers(1, LENGTH + 1, (50, 1))).astype(np.int32),
    }
    out = tmp_path / "out"
    done = tfsmith.optimize(tmp_path / "model", out, calibrate=data, op_libraries=[library], bfloat16=True, repeat=0)
    assert done.is_right, done
    assert done.rows == 50
    assert done.verified is not None
    assert (ranges_of(tfsmith.load(out))[:, 1::2] > 0).all()
    (before,), (after,) = (answers_of(path, library, data) for path in (tmp_path / "model", out))
    assert done.max_abs_diff == pytest.approx(np.abs(before - after).max(), abs=1e-6)
    assert done.accuracy[0].same_argmax == pytest.approx((before.argmax(-1) == after.argmax(-1)).mean())
