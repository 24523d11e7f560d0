"""The story of the rescue, run whole: the weights are what transformers itself converts."""

from __future__ import annotations

from importlib.util import find_spec

import pytest
from examples.keras_rescue import story
from examples.steps import Told
from tests.examples.story_readme import Run, check_links, check_steps

README = story.HERE / "README.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("stories") / "keras_rescue"
    return Run(folder, story.run(folder))


def test_the_weights_are_rescued(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.report(run.told, run.folder) == 0
    assert "The weights are rescued: 41 of 41 are equal (41 same)" in capsys.readouterr().out


def test_the_report_can_say_no(run: Run) -> None:
    changed = [Told(one.step, "  40 of 41 are equal\n") if one.step.key == "all" else one for one in run.told]
    assert story.report(changed, run.folder) == 1


def test_the_readme_shows_what_happens(run: Run) -> None:
    told = [one for one in run.told if one.step.key != "load" or find_spec("torch") is None]
    check_steps(README, told, (run.folder / "story.log").read_text("utf-8"), ())
    check_links(README)
