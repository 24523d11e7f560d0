"""A process that ends itself with SIGKILL at the n-th step at which a command touches the file system.

    python -m tests.support.killed COMMAND...

It reads numbers, a line each, and does the command once for each of them. For 0 it does all of it; for others in a
forked child, which is killed before the step of that number. Each time it writes how that went, a negative number for
a signal, else the exit code; and how many steps there were.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tfsmith.storage.place as place
from tfsmith.cli.main import main

STEPS = ("open", "rename", "replace", "mkdir", "link", "fsync", "unlink", "rmdir", "write", "copy_file_range")


class Killer:
    """A command that is killed where one likes.

    Args:
        words: The command, without `tfsmith`.
    """

    def __init__(self, *words: str | Path) -> None:
        command = [sys.executable, "-m", "tests.support.killed", *map(str, words)]
        root = str(Path(__file__).parents[2])  # for the command may be given in another folder
        known = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=known
        )

    def __enter__(self) -> Killer:
        return self

    def __exit__(self, *problem: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def kill(self, step: int) -> tuple[int, int]:
        """Does the command up to a step, 0 for all of it; returns how it ended, and how many steps it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{step}\n")
        self._process.stdin.flush()
        code, steps = self._process.stdout.readline().split()
        return int(code), int(steps)


class _Steps:
    """Counts the steps of what runs in its context, and kills the process before one of them."""

    def __init__(self, last: int) -> None:
        self.done = 0
        self._last = last
        self._usual = [(os, name, getattr(os, name)) for name in STEPS if hasattr(os, name)]
        self._usual.append((place, "_exchange", place._exchange))

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            self.done += 1
            if self.done == self._last:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **options)

        return called

    def __enter__(self) -> _Steps:
        for module, name, function in self._usual:
            setattr(module, name, self._counted(function))
        return self

    def __exit__(self, *problem: object) -> None:
        for module, name, function in self._usual:
            setattr(module, name, function)


def _run(words: list[str]) -> int:
    try:
        return main(words)
    except SystemExit:
        return 2


def _serve(words: list[str]) -> None:
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the command prints
    for line in sys.stdin:
        step = int(line)
        if step == 0:  # here, so that what it imports is there for all children
            with _Steps(0) as steps:
                code = _run(words)
            print(code, steps.done, file=told, flush=True)
            continue
        child = os.fork()
        if child == 0:
            with _Steps(step):
                os._exit(_run(words))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), step, file=told, flush=True)


if __name__ == "__main__":
    _serve(sys.argv[1:])
