"""`pytest --pyargs tfsmith.testing.bert`: run as a user runs it, on generated models, sound ones and spoiled ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from tests.support.helpers import python

import tfsmith
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.testing.models import BertConfig, bert_classifier
from tfsmith.testing.write import write_checkpoint_files, write_frozen

pytestmark = pytest.mark.slow

CONFIG = BertConfig.tiny()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    write_checkpoint_files(bert_classifier(CONFIG), folder / "training")
    write_frozen(bert_classifier(CONFIG), folder / "frozen.pb")
    write_frozen(bert_classifier(CONFIG, seed=1), folder / "other.pb")
    (folder / "bert_config.json").write_text(CONFIG.to_json())
    (folder / "wrong.json").write_text(json.dumps({**json.loads(CONFIG.to_json()), "intermediate_size": 64}))
    weights = dict(tfsmith.load_weights(folder / "training"))
    values = weights["output_bias"].numpy().copy()
    values[0] = np.nan
    weights["output_bias"] = ArrayTensor.of(values)
    tfsmith.save_weights(weights, folder / "spoiled.ckpt")
    return folder


def run(folder: Path, *options: str) -> tuple[int, dict[str, int], str]:
    """The exit code, how many tests ended how, and what was printed."""
    named = [word if word.startswith("--") else str(folder / word) for word in options]
    plugin = [
        "-p",
        "tfsmith.testing.bert_options",
        "-p",
        "no:cacheprovider",
        "-c",
        "/dev/null",
        "--rootdir",
        str(folder),
    ]
    done = python("-m", "pytest", "-rs", *plugin, "--pyargs", "tfsmith.testing.bert", *named)
    counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|skipped|errors?)", done.stdout)}
    return done.returncode, counts, done.stdout + done.stderr


def test_a_sound_model(files: Path) -> None:
    options = ["--config-path", "bert_config.json", "--chkpt-path", "training"]
    assert run(files, *options, "--frozen-path", "frozen.pb")[:2] == (0, {"passed": 5})
    code, counts, told = run(files, *options)
    assert (code, counts) == (0, {"passed": 2, "skipped": 3})
    assert "--frozen-path was not given: the graph frozen from that checkpoint" in told


def test_missing_options_are_told_of(files: Path) -> None:
    code, counts, told = run(files)
    assert (code, counts) == (0, {"skipped": 5})
    assert "--config-path was not given: the bert_config.json of the weights" in told


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--config-path", "wrong.json", "--chkpt-path", "training"], "intermediate_size is 64"),
        (["--config-path", "bert_config.json", "--chkpt-path", "spoiled.ckpt"], "1 NaN, 0 infinite"),
        (
            ["--config-path", "bert_config.json", "--chkpt-path", "training", "--frozen-path", "other.pb"],
            "'differs'",
        ),
        (
            ["--config-path", "bert_config.json", "--chkpt-path", "training", "--bert-task=SQUAD"],
            "cls/squad/output_weights",
        ),
    ],
)
def test_a_model_that_is_not_sound(files: Path, options: list[str], words: str) -> None:
    code, counts, told = run(files, *options)
    assert code == 1
    assert counts.keys() & {"failed", "error", "errors"}
    assert words in told
