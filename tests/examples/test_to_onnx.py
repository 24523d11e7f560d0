"""The story of the way to ONNX, run whole: every file answers as the BERT does."""

from __future__ import annotations

import pytest
from examples.steps import Told
from examples.to_onnx import story
from tests.examples.story_readme import Run, check_links, check_no_machine, check_steps

README = story.HERE / "README.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("stories") / "to_onnx"
    return Run(folder, story.run(folder))


def test_all_files_answer_as_the_bert(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.report(run.told, run.folder) == 0
    assert "The 5 files answer as the BERT did" in capsys.readouterr().out
    assert (run.folder / "apart.onnx.data").stat().st_size > 0


def test_the_report_can_say_no(run: Run) -> None:
    changed = [
        Told(one.step, one.output.replace("at most ", "at most 1e3 away, at most 1")) if one.step.key == "ask" else one
        for one in run.told
    ]
    assert story.report(changed, run.folder) == 1


def test_the_readme_shows_what_happens(run: Run) -> None:
    check_steps(README, run.told, (run.folder / "story.log").read_text("utf-8"), ())
    check_links(README)
    check_no_machine(story.HERE)
