"""Checks the README of a story against a run of it: its commands are the story's, and print what is shown.

The rules are those of the documents (`tests/docs/runner.py`). What a story prints on stderr is in its `story.log`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from examples.steps import Step, Told
from tests.docs.runner import LANGUAGES, blocks, commands, matches, run_document

import tfsmith

__all__ = ["Run", "alarms", "check_links", "check_no_machine", "check_rest", "check_steps", "shown_commands"]

_NUMBER = re.compile(r"\b\d+(?:\.\d+)?(?:e-?\d+)?\b")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_MACHINE = re.compile(r"/(?:root|home|work|Users|tmp)/")


class Run(NamedTuple):
    """A story that was run: where, and what came of each step."""

    folder: Path
    told: list[Told]


def check_steps(readme: Path, told: Sequence[Told], log: str, measured: Sequence[str]) -> None:
    """Every step is shown, with what it printed.

    Args:
        readme: The tutorial.
        told: What came of the steps.
        log: What they said on stderr; the warnings that are shown must be in there.
        measured: How commands begin whose numbers depend on the processor; these are not compared.
    """
    shown = shown_commands(readme)
    assert [one.step.command for one in told if one.step.command not in shown] == []
    wrong: list[str] = []
    for one in told:
        lines = shown[one.step.command].splitlines(keepends=True)
        warnings = [line for line in lines if line.startswith("warning: ")]
        expected, actual = "".join(line for line in lines if line not in warnings), one.output
        if one.step.command.startswith(tuple(measured)):
            expected, actual = _without_numbers(expected), _without_numbers(actual)
        if not matches(expected, actual):
            wrong.append(f"$ {one.step.command}\n{one.output}")
        said = [line for line in log.splitlines() if line.startswith("warning: ")]
        wrong += [warning for warning in warnings if not any(matches(warning, line) for line in said)]
    assert not wrong, "\n".join(wrong)


def shown_commands(readme: Path) -> dict[str, str]:
    """The commands of a tutorial, with what is shown as their output."""
    return {
        command.text: command.expected
        for block in blocks(readme.read_text())
        if block.language == "console"
        for command in commands(block)
    }


def _without_numbers(text: str) -> str:
    """A text whose columns are not as wide as the numbers in them, which are left out."""
    return re.sub(r" +", " ", _NUMBER.sub("#", text))


def check_rest(
    readme: Path, steps: Sequence[Step], folder: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch, least: int = 1
) -> None:
    """The commands and the Python that the README has besides, so many at least, do what it says after the story."""
    monkeypatch.setattr("tests.docs.runner.ROOT", scratch)
    ran = {step.command for step in steps}
    rest: list[str] = []
    for block in blocks(readme.read_text()):
        assert block.language in LANGUAGES
        if block.language == "python":
            rest.append(f"```python\n{block.text}```\n")
        if block.language != "console":
            continue
        for command in commands(block):
            if command.text not in ran:
                rest.append(f"```console\n$ {command.text}\n{command.expected}```\n")
    assert len(rest) >= least
    document = scratch / "README.md"
    document.write_text("\n".join(rest))
    problems = run_document(document, folder)
    assert not problems, "\n".join(map(str, problems))


def check_links(readme: Path) -> None:
    """Links to files lead somewhere."""
    for link in _LINK.findall(readme.read_text()):
        target = link.partition("#")[0]
        assert not target or (readme.parent / target).exists(), link


def check_no_machine(folder: Path) -> None:
    """No file of a story names a path of somebody's machine, or a host."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "."]
    names = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.split()
    assert names
    for name in names:
        text = (folder / name).read_text()
        assert not _MACHINE.search(text), name
        assert not re.findall(r"https?://", text), name


def alarms(folder: Path) -> dict[str, list[str]]:
    """What `scan` finds above a note in the models of a story, by their places; it must look at some."""
    models = [path.parent for path in folder.rglob("saved_model.pb")]
    models += [path for path in folder.rglob("*.pb") if path.name not in ("saved_model.pb", "fingerprint.pb")]
    models += [path.with_suffix("") for path in folder.rglob("*.meta")]
    scanned = 0
    found: dict[str, list[str]] = {}
    for path in models:
        try:
            result = tfsmith.scan(path)
        except tfsmith.TfsmithError:
            continue  # a recipe or another file that is no model
        scanned += 1
        if any(one.level != "note" for one in result.findings):
            found[str(path)] = [one.what for one in result.findings if one.level != "note"]
    assert scanned, models
    return found
