"""`freeze --fold-shapes` changes no answer: TensorFlow and OpenVINO give the same before and after."""

from __future__ import annotations

from pathlib import Path

import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import bert_classifier, conv_net
from tfsmith.testing.write import write_frozen


@pytest.mark.parametrize("engine", ["openvino", pytest.param("tensorflow", marks=pytest.mark.tensorflow)])
def test_the_answers_stay(tmp_path: Path, engine: str) -> None:
    write_frozen(bert_classifier(BertConfig.tiny()), tmp_path / "open.pb")
    words = ["--outputs", "loss/output", "--batch-size", "3", "--fold-shapes", "-o", str(tmp_path / "fixed.pb")]
    assert main(["freeze", str(tmp_path / "open.pb"), *words]) == 0
    found = tfsmith.verify(tmp_path / "open.pb", tmp_path / "fixed.pb", engine=engine)
    assert found.is_same
    assert found.batches == ()
    before, after = (tfsmith.load(tmp_path / name).graph.op_counts() for name in ("open.pb", "fixed.pb"))
    assert {"Shape", "Pack", "Fill"} <= set(before)
    assert not {"Shape", "Pack", "Fill"} & set(after)


def test_a_model_without_shape_arithmetic_stays_as_it_is(tmp_path: Path) -> None:
    write_frozen(conv_net(), tmp_path / "net.pb")
    plain, folded = (tmp_path / "plain.pb", tmp_path / "folded.pb")
    assert main(["freeze", str(tmp_path / "net.pb"), "--batch-size", "2", "-o", str(plain)]) == 0
    assert main(["freeze", str(tmp_path / "net.pb"), "--batch-size", "2", "-o", str(folded), "--fold-shapes"]) == 0
    assert tfsmith.verify(plain, folded, engine="openvino").is_same
