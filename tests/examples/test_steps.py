"""How stories are run: what is printed is kept, what is missing is skipped, and what fails is told."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.steps import BUILD, Step, StoryError, folder_argument, tell

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def story(tmp_path: Path) -> Path:
    folder = tmp_path / "story"
    (folder / "tool" / "inner").mkdir(parents=True)
    (folder / "left").mkdir()
    (folder / ".gitignore").write_text("# left behind\nleft/\ntool/tool\n")
    for name in ("left/output", "tool/tool", "tool/inner/tool", "words"):
        (folder / name).write_text(name)
    return folder


def test_commands_run_in_a_copy(story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    told = tell(story, folder, [Step("One", "cat words && echo noise >&2 && touch made"), Step("Two", "ls -A")])
    assert told[0].output == "words"
    assert told[1].output.split() == [".gitignore", ".story", "made", "story.log", "tool", "words"]
    assert sorted(path.name for path in (folder / "tool").iterdir()) == ["inner"]  # tool/tool is an output
    assert (folder / "tool" / "inner" / "tool").exists()
    assert (folder / "story.log").read_text() == "noise\n"
    assert not (story / "made").exists()
    printed = capsys.readouterr().out
    assert "== One\n$ cat words" in printed
    assert "noise" not in printed.replace("echo noise", "")


def test_this_python_comes_first(story: Path, tmp_path: Path) -> None:
    (told,) = tell(story, tmp_path / "run", [Step("Which", "python -c 'import sys; print(sys.prefix)'")])
    assert told.output.strip() == sys.prefix


def test_what_is_missing_is_skipped(story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [Step("Not here", "no-such-program --run", ("no-such-program", "sh")), Step("Here", "echo on", ("sh",))]
    skipped, ran = tell(story, tmp_path / "run", steps)
    assert skipped.skipped == "no-such-program is not installed"
    assert (ran.skipped, ran.output) == (None, "on\n")
    assert "skipped: no-such-program is not installed: no-such-program --run\n" in capsys.readouterr().out


def test_a_failure_ends_the_story(story: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = [
        Step("Fine", "echo old news >&2"),
        Step("Wrong", "echo the reason >&2; exit 3"),
        Step("Never", "touch never"),
    ]
    with pytest.raises(StoryError, match="ended with 3"):
        tell(story, tmp_path / "run", steps)
    printed = capsys.readouterr().out
    assert "the reason\n" in printed
    assert "old news\n" not in printed.replace("$ echo old news >&2\n", "")
    assert not (tmp_path / "run" / "never").exists()


def test_only_a_story_is_replaced(story: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    tell(story, folder, [Step("An empty folder will do", "touch made")])
    tell(story, folder, [Step("So will an earlier run", "true")])
    assert not (folder / "made").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").touch()
    with pytest.raises(StoryError, match="not empty"):
        tell(story, tmp_path / "other", [])
    assert (tmp_path / "other" / "precious").exists()


def test_the_folder_of_a_story(tmp_path: Path) -> None:
    assert folder_argument(Path("examples/name"), []) == BUILD / "name"
    assert folder_argument(Path("examples/name"), ["--folder", str(tmp_path)]) == tmp_path
    assert BUILD == ROOT / "build" / "stories"


def test_make_names_the_stories() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    stories = sorted(path.parent.name for path in (ROOT / "examples").glob("*/story.py"))
    assert f"one of: {' '.join(stories)}\n" in done.stdout
    readme = (ROOT / "examples" / "README.md").read_text()
    assert [name for name in stories if f"[{name}]({name}/README.md)" not in readme] == []
