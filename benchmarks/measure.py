"""Measures whole commands from process start: wall time, and peak memory as the kernel counts it.

A machine is never quiet, so the commands that are to be compared take turns, each several times; the best time says
what the work costs, and the median beside it says how noisy the machine was.

This process must stay small: Linux hands a parent's peak on to its child, so what we import here would be the least
that any command seems to take. Everything heavy, such as making models, happens in processes of its own.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Command", "Figures", "compare", "environment", "python", "script"]


@dataclass(frozen=True, slots=True)
class Command:
    """Something to run.

    Attributes:
        argv: What to run.
        prepare: Called before each run, outside of the clock.
        turns: How often it runs in each round; quick commands can afford more.
        own_clock: Whether to take the seconds that the command prints in its last line, in place of the wall time.
    """

    argv: Sequence[str]
    prepare: Callable[[], object] | None = None
    turns: int = 1
    own_clock: bool = False


@dataclass(frozen=True, slots=True)
class Figures:
    """What a command took in several runs."""

    seconds: tuple[float, ...]
    peak_bytes: int
    """The most memory that any of the runs held."""

    @property
    def best(self) -> float:
        """The shortest time."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The time in the middle."""
        return statistics.median(self.seconds)


def compare(commands: dict[str, Command], rounds: int, *, warm: bool = True) -> dict[str, Figures]:
    """Runs all commands in turns and gives the figures of each, under its key.

    Args:
        commands: What to run.
        rounds: How often each gets its turns.
        warm: Whether to run each once before, uncounted, so that files and bytecode are in place.
    """
    if warm:
        for command in commands.values():
            _run(command)
    seconds: dict[str, list[float]] = {key: [] for key in commands}
    peaks = dict.fromkeys(commands, 0)
    for _ in range(rounds):
        for key, command in commands.items():
            for _ in range(command.turns):
                taken, peak = _run(command)
                seconds[key].append(taken)
                peaks[key] = max(peaks[key], peak)
    return {key: Figures(tuple(taken), peaks[key]) for key, taken in seconds.items()}


def _run(command: Command) -> tuple[float, int]:
    if command.prepare is not None:
        command.prepare()
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            list(command.argv), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment()
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        printed = output.read().decode("utf-8", "replace")
    if process.returncode:
        raise RuntimeError(f"{' '.join(command.argv)} failed with {process.returncode}:\n{printed[-2000:]}")
    if command.own_clock:
        seconds = float(printed.split()[-1])
    return seconds, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def environment() -> dict[str, str]:
    """What a command finds around it: no Python settings of ours (such as one against bytecode), a quiet TensorFlow."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    return {**kept, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}


def python(code: str, *arguments: str | Path) -> list[str]:
    """The command that runs some Python code."""
    return [sys.executable, "-c", code, *map(str, arguments)]


def script(name: str, *arguments: str | Path) -> list[str]:
    """The command that runs a script of this venv, such as `tfsmith`."""
    return [str(Path(sys.executable).with_name(name)), *map(str, arguments)]
