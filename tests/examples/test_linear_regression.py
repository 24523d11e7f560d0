"""The story of the line, run whole: the consumers agree, and the README tells what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from examples.linear_regression import story
from examples.steps import Told, tell
from tests.docs.runner import matches
from tests.examples.story_readme import alarms, check_rest, shown_commands

pytestmark = pytest.mark.tensorflow

README = story.HERE / "README.md"
_LONG_NUMBER = re.compile(r"-?\d+\.\d{6,}(?:[eE][-+]?\d+)?")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


class Run(NamedTuple):
    """A story that was run: where, and what came of each step."""

    folder: Path
    told: list[Told]

    def output(self, key: str) -> str:
        """What a consumer printed; skips the test if it did not run."""
        (found,) = [one for one in self.told if one.step.key == key]
        if found.skipped:
            pytest.skip(found.skipped)
        return found.output


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("linear_regression") / "run"
    return Run(folder, tell(story.HERE, folder, story.STEPS))


CONSUMERS = [step.key for step in story.STEPS if step.key]


def test_there_are_four_consumers() -> None:
    assert [key.partition(",")[0] for key in CONSUMERS] == [
        "Python with TensorFlow",
        "Python with tfsmith",
        "Java",
        "Java",
        "Go",
        "Go",
    ]


@pytest.mark.parametrize("key", CONSUMERS)
def test_a_consumer_agrees_with_python(run: Run, key: str) -> None:
    expected = story.read_results(run.output(CONSUMERS[0]))
    assert story.read_results(run.output(key)) == pytest.approx(expected, rel=0, abs=1e-6)
    assert expected == pytest.approx([1.5 * x - 3 for x in story.X], rel=0, abs=1e-3)


def test_the_report(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.report(run.told, run.folder) == 0
    printed = capsys.readouterr().out
    assert "They agree" in printed
    written = (run.folder / "answers.md").read_text()
    assert written in printed
    assert written == story.table(story.collect(run.told))


def test_a_wrong_answer_is_noticed(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [
        Told(one.step, "The calculation results : [-3.0 -1.5 -4.5 0.1]\n") if one.step.key == CONSUMERS[1] else one
        for one in run.told
    ]
    assert story.report(wrong, tmp_path) == 1
    assert "They DIFFER" in capsys.readouterr().out


def test_the_training_prints_its_columns(run: Run) -> None:
    number = r"-?\d+\.\d+(?:e-?\d+)?"
    lines = run.told[0].output.splitlines()
    assert len(lines) == 20
    for index, line in enumerate(lines):
        assert re.fullmatch(rf"epoch: {100 * index}, loss: {number}, slope: {number}, intercept: {number}", line)
    first, *_, last = ([float(text) for text in re.findall(r": (\S+?)(?:,|$)", line)] for line in lines)
    assert first[2:] == pytest.approx([1.8, 1.8], abs=1e-7)  # one step of Adagrad at 0.8, from 1 and 1
    assert last[2:] == pytest.approx([1.5, -3.0], abs=1e-3)


def test_freezing_says_what_it_did(run: Run) -> None:
    (said,) = [one.output for one in run.told if one.step.command == "./freeze_graph_linear_regression.sh"]
    assert said == "Converted 2 variables to const ops.\n"


def test_the_collections_are_those_of_the_document(run: Run) -> None:
    x, y = "inputs/x_sample:0", "inputs/y_sample:0"
    shown = f"[<tf.Tensor '{x}' shape=(None, None) dtype=float64>, <tf.Tensor '{y}' shape=(None, None) dtype=float64>]"
    assert run.output(CONSUMERS[0]).splitlines()[0] == shown
    assert run.output(CONSUMERS[1]).splitlines()[0] == str((x, y))


def test_one_consumer_needs_no_tensorflow(run: Run) -> None:
    code = "import runpy, sys; sys.modules['tensorflow'] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    command = [sys.executable, "-c", code, "model_consumer_tfsmith.py"]
    done = subprocess.run(command, cwd=run.folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == run.output(CONSUMERS[1])


def test_the_summaries_can_be_read(run: Run) -> None:
    import tensorflow.compat.v1 as tf

    (file,) = (run.folder / "summaries" / "run_1").iterdir()
    steps: dict[str, list[int]] = {}
    values: dict[str, float] = {}
    graphs = 0
    for event in tf.train.summary_iterator(str(file)):
        graphs += bool(event.graph_def)
        for value in event.summary.value:
            steps.setdefault(value.tag, []).append(event.step)
            values[value.tag] = value.simple_value
    assert graphs == 1
    assert steps == {f"training/{name}": list(range(2000)) for name in ("loss", "slope", "intercept")}
    assert values["training/slope"] == pytest.approx(1.5, abs=1e-3)


def plain(text: str) -> str:
    """A text with its long numbers cut to six digits: the last ones depend on the processor."""
    return _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.6f}", text)


def test_the_readme_shows_what_the_story_prints(run: Run) -> None:
    shown = shown_commands(README)
    assert [step.command for step in story.STEPS if step.command not in shown] == []
    wrong = [
        f"$ {one.step.command}\n{one.output}"
        for one in run.told
        if not one.skipped and not matches(plain(shown[one.step.command]), plain(one.output))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_rest_of_the_readme(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_rest(README, story.STEPS, run.folder, tmp_path, monkeypatch, least=6)


def rows(text: str) -> dict[str, list[float]]:
    """The rows of a table of answers."""
    found = re.findall(r"^\| (.+?) \| (-?\d.*) \|$", text, re.MULTILINE)
    return {key: [float(number) for number in numbers.split(" | ")] for key, numbers in found}


def test_the_table_in_the_readme(run: Run) -> None:
    told = rows(README.read_text())
    assert list(told) == CONSUMERS
    for key, values in rows(story.table(story.collect(run.told))).items():
        assert told[key] == pytest.approx(values, rel=0, abs=1e-6)


def test_links_lead_somewhere() -> None:
    for document in (README, story.HERE.parent / "README.md"):
        for link in _LINK.findall(document.read_text()):
            assert (document.parent / link.partition("#")[0]).exists(), link


def test_nothing_names_a_machine() -> None:
    names = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."],
        cwd=story.HERE,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in names.stdout.split():
        text = (story.HERE / name).read_text()
        assert not re.search(r"/(?:root|home|work|Users|tmp)/", text), name
        assert set(re.findall(r"https?://([\w.]+)", text)) <= {"maven.apache.org", "www.w3.org"}, name


def test_scan_raises_no_alarm(run: Run) -> None:
    assert alarms(run.folder) == {}
