"""The story of the loader, run whole: the files are tested, and the weights answer the same elsewhere."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from examples.bert_classifier.story import output_of
from examples.bert_loader import story
from examples.steps import StoryError, Told
from tests.examples.story_readme import Run, check_links, check_no_machine, check_rest, check_steps

import tfsmith

pytestmark = pytest.mark.tensorflow

README = story.HERE / "README.md"
MEASURED = ("python numpy_bert.py", "python torch_bert.py")


@pytest.fixture(scope="module")
def run(stories_with_bert: Path) -> Run:
    folder = stories_with_bert / "bert_loader"
    return Run(folder, story.run(folder))


def test_the_bert_is_trained_once(run: Run) -> None:
    """The one that was there is taken: no step but the story's own ran."""
    assert [one.step for one in run.told] == list(story.STEPS)
    results = run.folder.parent / "bert_classifier" / "mrpc_output" / "test_results.tsv"
    when = results.stat().st_mtime_ns
    assert story.train_if_needed(run.folder.parent / "bert_classifier") == []
    assert results.stat().st_mtime_ns == when


def test_the_tests_of_the_files_pass(run: Run) -> None:
    assert "2 passed, 3 skipped" in output_of(run.told, "checkpoint")
    assert "5 passed" in output_of(run.told, "frozen")
    assert output_of(run.told, "freeze") == "Converted 41 variables to const ops.\n"


def test_they_can_fail(run: Run, tmp_path: Path) -> None:
    weights = dict(tfsmith.load_weights(run.folder / "bert_model.ckpt"))
    del weights["bert/encoder/layer_1/attention/self/key/bias"]
    tfsmith.save_weights(weights, tmp_path / "lacks.ckpt")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--pyargs", "tfsmith.testing.bert"]
    command += ["--config-path", story.CONFIG, "--chkpt-path", str(tmp_path / "lacks.ckpt")]
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "bert/encoder/layer_1/attention/self/key/bias" in done.stdout


def test_numpy_answers_as_tensorflow_did(run: Run) -> None:
    answer = story.read_answer(output_of(run.told, "numpy"))
    assert answer is not None
    assert answer.pairs == 200
    assert answer.right > 180
    assert answer.furthest <= story.TOLERANCE


def test_pytorch_does_too_or_says_why_not(run: Run) -> None:
    output = output_of(run.told, "PyTorch")
    answer = story.read_answer(output)
    if answer is None:
        missing = [name for name in ("torch", "transformers") if find_spec(name) is None]
        assert missing
        assert output == f"PyTorch: skipped, for {' and '.join(missing)} cannot be imported\n"
        pytest.skip(output.strip())
    assert answer.furthest <= story.TOLERANCE


def test_numpy_needs_neither_tensorflow_nor_tfsmith(run: Run) -> None:
    code = "import runpy, sys; sys.modules.update(tensorflow=None, tfsmith=None); sys.path.insert(0, '.')\n"
    code += "runpy.run_path('numpy_bert.py', run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code], cwd=run.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == output_of(run.told, "numpy")


def test_a_wrong_weight_is_noticed(run: Run, tmp_path: Path) -> None:
    """A kernel that is not transposed has the same shape here, and every answer would still be a probability."""
    from safetensors.numpy import load_file, save_file

    folder = tmp_path / "bert_loader"
    folder.mkdir()
    for name in ("answers.py", "numpy_bert.py"):
        (folder / name).write_text((run.folder / name).read_text())
    (tmp_path / "bert_classifier").symlink_to(run.folder.parent / "bert_classifier")
    weights = load_file(run.folder / "huggingface.safetensors")
    name = "bert.encoder.layer.0.attention.self.value.weight"
    weights[name] = np.ascontiguousarray(weights[name].T)
    save_file(weights, folder / "huggingface.safetensors")
    done = subprocess.run([sys.executable, "numpy_bert.py"], cwd=folder, capture_output=True, text=True, check=False)
    answer = story.read_answer(done.stdout)
    assert answer is not None
    assert answer.furthest > story.TOLERANCE


def test_the_weights_are_those_of_the_checkpoint(run: Run) -> None:
    before = tfsmith.load(run.folder.parent / "bert_classifier" / "mrpc_output").variables
    after = tfsmith.load_weights(run.folder / "huggingface.safetensors")
    kernel = before["bert/encoder/layer_1/intermediate/dense/kernel"].numpy()
    np.testing.assert_array_equal(after["bert.encoder.layer.1.intermediate.dense.weight"].numpy(), kernel.T)
    assert len(after) == 41


def test_the_report(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.report(run.told, run.folder) == 0
    assert "The weights arrived" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("key", "output"),
    [
        ("numpy", "numpy: 200 of 200 right, at most 1.0e-02 away from what TensorFlow answered\n"),
        ("same", "  40 of 41 are equal (40 same)\n"),
        ("back", "  40 of 41 are equal (40 same)\n"),
    ],
)
def test_what_is_wrong_is_reported(run: Run, key: str, output: str, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [Told(one.step, output) if one.step.key == key else one for one in run.told]
    assert story.report(wrong, run.folder) == 1
    assert "DID NOT ARRIVE" in capsys.readouterr().out


def test_a_network_that_says_nothing() -> None:
    with pytest.raises(StoryError, match="no answer"):
        story.read_answer("numpy: what?\n")


def test_the_readme_shows_what_the_story_prints(run: Run) -> None:
    told = [one for one in run.told if one.step in story.STEPS]
    check_steps(README, told, (run.folder / "story.log").read_text(), MEASURED)


def test_the_rest_of_the_readme(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rest(README, story.STEPS, run.folder, tmp_path, monkeypatch)


def test_links_and_names() -> None:
    check_links(README)
    check_no_machine(story.HERE)
