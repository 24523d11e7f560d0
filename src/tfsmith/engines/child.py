"""A process of its own for an engine: a crash there is an error here. Requests and answers are frames."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from tfsmith.engines.frames import read_frame, write_frame
from tfsmith.errors import CorruptFileError, EngineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ChildDiedError", "ChildProcess", "start_code"]

_PATIENCE = 5.0
_REMEDY = "check what is fed, or choose other outputs"
_LAST_WORDS = 2000


def start_code(module: str) -> str:
    """Code that runs `main` of a module in a new process, whose first argument is the search path as JSON.

    The process is isolated, so that nothing of the working directory is imported, and then takes our own search path.
    """
    return f"import json, sys\nsys.path[:] = json.loads(sys.argv[1])\nfrom {module} import main\nmain()\n"


class ChildDiedError(EngineError):
    """The process of an engine ended before it answered."""


class ChildProcess:
    """Another process that runs models, and its two pipes. It ends with this one.

    Args:
        title: What runs there: "TensorFlow".
        start: The code that it runs; the first argument is the search path for modules, as JSON.
        remedy: What to do where it ends by itself.
        path: The model, for messages.
        environment: Variables that it gets whatever this process has.
    """

    def __init__(
        self, title: str, start: str, remedy: str, path: Path | None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._title = title
        self._remedy = remedy
        self._path = path
        self._heard = 0  # what it wrote to stderr before that is of an earlier model
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the process)
        search = [str(Path(entry).absolute()) for entry in sys.path if entry]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", start, json.dumps(search)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env={"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **(environment or {}), "PYTHONIOENCODING": "utf-8"},
        )
        self._end = weakref.finalize(self, _end, self._process, self._errors)

    def ask(
        self, say: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Sends a request and waits for the answer.

        Raises:
            ChildDiedError: The process died.
            EngineError: The engine refused.
        """
        if not self._end.alive:
            what = f"{self._title}'s process was closed"
            raise EngineError(what, path=self._path, remedy="compile the model again")
        sender, receiver = self._pipes()
        try:
            write_frame(sender, say, arrays)
            told, found = read_frame(receiver)
        except (CorruptFileError, OSError) as error:  # OSError: the pipe broke
            raise self._death(error) from error
        except BaseException:  # Ctrl-C while an answer is on its way: what comes next would be half of it
            self._end()
            raise
        if "error" in told:
            remedy = told.get("remedy")
            what = f"{self._title}: {told['error']}"
            raise EngineError(what, path=self._path, remedy=remedy if isinstance(remedy, str) else _REMEDY)
        return told, found

    def rest(self) -> None:
        """Has the process forget its model; `wake` gives it the next. If none comes, it ends after a while."""
        if self._end.alive:
            try:
                write_frame(self._pipes()[0], {"do": "rest"})
            except OSError:  # the pipe broke
                self._end()

    def wake(self, path: Path | None) -> bool:
        """Whether the process, which rested, can be asked again, about the model of this path."""
        if not self._end.alive:
            return False
        receiver = self._pipes()[1]
        try:
            is_awake = bool(select.select([receiver], [], [], _PATIENCE)[0]) and read_frame(receiver)[0] == {}
        except (CorruptFileError, OSError):
            is_awake = False
        if not is_awake or self._process.poll() is not None:
            self._end()
            return False
        self._path = path
        self._heard = self._errors.seek(0, os.SEEK_END)
        return True

    def _pipes(self) -> tuple[BinaryIO, BinaryIO]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout  # type: ignore[return-value]

    def _death(self, error: Exception) -> ChildDiedError:
        """What to raise when the process is gone, or speaks nonsense."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        code = self._process.poll()
        words = self._last_words()
        self._end()
        if code is None:
            return ChildDiedError(f"{self._title}'s process is not to be understood ({error})", path=self._path)
        how = f"ended with {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                how = f"was ended by {signal.Signals(-code).name}"
        remedy = "the model, an op library or a lack of memory broke it" if code < 0 else self._remedy
        return ChildDiedError(f"{self._title}'s process {how}{words}", path=self._path, remedy=remedy)

    def _last_words(self) -> str:
        self._errors.seek(max(self._heard, self._errors.seek(0, os.SEEK_END) - _LAST_WORDS))
        lines = [line.strip() for line in self._errors.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return f" ({lines[-1]})" if lines else ""

    def close(self) -> None:
        """Ends the process; may be called again."""
        self._end()


def _end(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    """Closing its input tells the process to end; if it does not, it is ended."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
    try:
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    errors.close()
