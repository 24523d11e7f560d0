"""What the stories share: a story is a list of commands, which are run one after the other in a folder of their own.

The commands are those that the story's README shows, and they are run as one would type them: by a shell, in a copy
of the example's folder. What they print is shown as it comes. What they say on stderr goes to `story.log`, and is shown
only if a command fails; TensorFlow says much there.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BUILD", "Step", "Told", "StoryError", "tell", "folder_argument", "main_of"]

BUILD = Path(__file__).resolve().parents[1] / "build" / "stories"
_MARK = ".story"
_LOG = "story.log"
_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "PYTHONUNBUFFERED": "1"}


class StoryError(Exception):
    """A story cannot go on."""


@dataclass(frozen=True, slots=True)
class Step:
    """A command of a story.

    Attributes:
        title: What it is for.
        command: What to type.
        needs: The programs that it needs besides Python; where one is missing, the step is skipped.
        key: A name by which the story finds what was printed.
    """

    title: str
    command: str
    needs: tuple[str, ...] = ()
    key: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a step: what it printed, how long it took, and why it was skipped, if it was."""

    step: Step
    output: str = ""
    seconds: float = 0.0
    skipped: str | None = None


def folder_argument(story: Path, arguments: Sequence[str] | None = None) -> Path:
    """The folder to run in, from the command line: `--folder`, by default one below `build/stories`."""
    parser = argparse.ArgumentParser(description="Runs the story whole.")
    text = f"a new folder to run in (default: build/stories/{story.name})"
    parser.add_argument("--folder", type=Path, default=BUILD / story.name, help=text)
    folder: Path = parser.parse_args(arguments).folder
    return folder.absolute()


def main_of(
    story: Path,
    run: Callable[[Path], list[Told]],
    report: Callable[[list[Told], Path], int],
    arguments: Sequence[str] | None = None,
) -> int:
    """A story's command: runs it in the folder that was asked for, and reports; 1 if a command failed."""
    folder = folder_argument(story, arguments)
    try:
        return report(run(folder), folder)
    except StoryError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1


def tell(story: Path, folder: Path, steps: Sequence[Step]) -> list[Told]:
    """Copies an example to a folder and runs its steps there.

    Args:
        story: The example's folder, which stays as it is.
        folder: Where to run; it must be new, empty, or left by an earlier run, which is removed.
        steps: What to run, in this order.

    Raises:
        StoryError: A command failed, or the folder holds something else.
    """
    _prepare(story, folder)
    return [_run(step, folder) for step in steps]


def _prepare(story: Path, folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / _MARK).exists():
        raise StoryError(f"{folder} is not empty, and no story left it; choose another")
    shutil.rmtree(folder, ignore_errors=True)
    left = _ignored(story)

    def skip(inside: str, names: list[str]) -> set[str]:
        return {name for name in names if name == "__pycache__" or Path(inside, name) in left}

    shutil.copytree(story, folder, ignore=skip)
    (folder / _MARK).touch()


def _ignored(story: Path) -> set[Path]:
    """The paths in the example's `.gitignore`: what somebody who ran the commands by hand has left there."""
    file = story / ".gitignore"
    lines = file.read_text().splitlines() if file.exists() else []
    return {story / line.strip("/") for line in lines if line and not line.startswith("#")}


def _run(step: Step, folder: Path) -> Told:
    _say(f"\n== {step.title}\n")
    missing = [program for program in step.needs if shutil.which(program) is None]
    if missing:
        reason = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        _say(f"skipped: {reason}: {step.command}\n")
        return Told(step, skipped=reason)
    _say(f"$ {step.command}\n")
    begin = time.monotonic()
    with open(folder / _LOG, "a+", encoding="utf-8") as log:
        start = log.tell()
        code, output = _shell(step.command, folder, log.fileno())
        if code:
            log.seek(start)
            _say(log.read())
            raise StoryError(f"`{step.command}` ended with {code}")
    return Told(step, output, time.monotonic() - begin)


def _shell(command: str, folder: Path, log: int) -> tuple[int, str]:
    """Runs a command with this Python's programs first on the path: the exit code, and what it printed."""
    tools = str(Path(sys.executable).parent)
    environment = _QUIET | dict(os.environ) | {"PATH": tools + os.pathsep + os.environ.get("PATH", "")}
    lines: list[str] = []
    with subprocess.Popen(
        command,
        shell=True,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        encoding="utf-8",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            _say(line)
    return process.returncode, "".join(lines)


def _say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
