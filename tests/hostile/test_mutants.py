"""Two thousand structure-aware mutants of all formats, and every file that a longer run has ever found.

`make fuzz` runs more of them, with limits of time and memory on each; see `tests/fuzz/`.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from tests.fuzz.targets import TARGETS, attempt

FOUND = Path(__file__).parent / "found"
EACH = 92
"""Times the number of targets: over 2,000."""


@pytest.fixture(autouse=True)
def _quick_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def test_there_are_enough() -> None:
    assert EACH * len(TARGETS) >= 2000


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(TARGETS))
def test_mutants(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    (tmp_path / "seeds").mkdir()
    seeds = list(target.seeds(tmp_path / "seeds"))
    mutants = set()
    for number in range(EACH):
        data = target.mutant(seeds, Random(f"{name} {number}"))
        mutants.add(data)
        folder = tmp_path / str(number)
        folder.mkdir()
        attempt(lambda: target.use(data, folder))  # noqa: B023
    assert len(mutants) > EACH // 2  # the mutator does change something


def _target(path: Path) -> str:
    """A file is named TARGET-WHATEVER, and names of targets have dashes too."""
    return max((name for name in TARGETS if path.name.startswith(f"{name}-")), key=len)


@pytest.mark.parametrize("path", sorted(FOUND.iterdir()), ids=lambda path: path.name)
def test_what_was_found(path: Path, tmp_path: Path) -> None:
    target = TARGETS[_target(path)]
    attempt(lambda: target.use(path.read_bytes(), tmp_path))
