"""The story of the fleet, run whole: a line for each model, and the README tells what happens."""

from __future__ import annotations

import pytest
from examples.fleet import story
from examples.steps import Told, tell
from tests.examples.story_readme import Run, check_links, check_no_machine, check_steps

pytestmark = pytest.mark.slow

README = story.HERE / "README.md"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("stories") / "fleet"
    return Run(folder, tell(story.HERE, folder, story.STEPS))


def test_each_model_has_its_line(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.report(run.told, run.folder) == 0
    assert "Each model has its line, the damaged one too." in capsys.readouterr().out


def test_the_report_can_say_no(run: Run) -> None:
    changed = [Told(one.step, "11\n") if one.step.key == "frozen" else one for one in run.told]
    assert story.report(changed, run.folder) == 1


def test_the_readme_shows_what_happens(run: Run) -> None:
    check_steps(README, run.told, (run.folder / "story.log").read_text("utf-8"), ())
    check_links(README)
    check_no_machine(story.HERE)
