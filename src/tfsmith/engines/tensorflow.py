"""TensorFlow, in a process of its own: the caller never imports it, and a crash there is an error here.

To start it takes seconds, and verbs run several models one after the other. So a process whose program was closed rests
for a while, and takes the next program that would be started in the same way.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import threading
from collections.abc import Hashable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.child import ChildDiedError, ChildProcess, start_code
from tfsmith.engines.protocol import Lack, LackError, Options, Program, ProgramFiles
from tfsmith.errors import EngineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TensorFlow", "TensorFlowProgram", "measure_speed"]

_INSTALL = "pip install 'tfsmith[tensorflow]'"
_START = start_code("tfsmith.engines.tensorflow_child")
_resting: dict[Hashable, ChildProcess] = {}
"""The process that waits for another program, by how it was started: one at most."""
_resting_lock = threading.Lock()


class TensorFlow:
    """The engine. Each compiled program has a process of TensorFlow for itself, until it is closed."""

    name = "tensorflow"

    def available(self) -> str | None:
        """None if TensorFlow is installed, else how to install it. Does not import it."""
        return None if find_spec("tensorflow") else f"TensorFlow is not installed; {_INSTALL}"

    def lacks(self, program: Program) -> tuple[Lack, ...]:
        """The ops that stock TensorFlow does not have; without loading it."""
        graph = program.graph
        custom = graph.custom_ops()
        bodies = (graph, *graph.library.values())
        return tuple(
            Lack(op, tuple(node.name for body in bodies for node in body.nodes if node.op == op), "it is a custom op")
            for op in custom
        )

    def compile(self, program: Program, options: Options) -> TensorFlowProgram:
        """Starts TensorFlow, loads the op libraries and the model, restores variables, fills tables."""
        missing = self.available()
        if missing is not None:
            what, _, remedy = missing.partition("; ")
            raise EngineError(what, remedy=remedy)
        for library in options.op_libraries:
            if not library.is_file():
                remedy = "pass the path of the shared library (.so) that has the op"
                raise EngineError("there is no such op library", path=library, remedy=remedy)
        lacks = () if options.op_libraries else self.lacks(program)
        if lacks:
            remedy = "pass the library that has them ({op_libraries})"
            raise LackError(self.name, lacks, path=program.path, remedy=remedy)
        return TensorFlowProgram(program, options)


class _Process:
    """A process of TensorFlow that has loaded something: the one that rests, or a new one.

    Args:
        say: What to load.
        path: The model, for messages.
        options: The libraries with custom ops.
        environment: Variables that it gets whatever this process has.
    """

    def __init__(
        self, say: Mapping[str, Any], path: Path | None, options: Options, environment: Mapping[str, str] | None = None
    ) -> None:
        libraries = [library.absolute() for library in options.op_libraries]
        self._start = _start_of(libraries, environment or {})
        said = {"do": "load", "op_libraries": list(map(str, libraries)), **say}
        with _resting_lock:
            rested = _resting.pop(self._start, None)
        if rested is not None and rested.wake(path):
            with contextlib.suppress(ChildDiedError):  # its time was over, or the model kills it: a new one will tell
                self._load(rested, said)
                return
        self._load(ChildProcess("TensorFlow", _START, f"try: {_INSTALL}", path, environment), said)

    def _load(self, child: ChildProcess, said: Mapping[str, Any]) -> None:
        try:
            self.told = child.ask(said)[0]
        except BaseException:
            child.close()
            raise
        self._child = child

    def ask(
        self, say: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]] | None = None
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Sends a request and waits for the answer, as `ChildProcess.ask` does."""
        return self._child.ask(say, arrays)

    def release(self) -> None:
        """Lets the process rest; one that rested before ends."""
        self._child.rest()
        with _resting_lock:
            others = list(_resting.values())
            _resting.clear()
            _resting[self._start] = self._child
        for other in others:
            other.close()


def _start_of(libraries: Sequence[Path], environment: Mapping[str, str]) -> Hashable:
    """All that a new process would take over from this one, and what it loads once for all programs."""
    folder = Path().stat()
    files = [(path, path.stat().st_ino, path.stat().st_mtime_ns) for path in libraries if path.is_file()]
    variables = {**os.environ, **environment}
    return os.getpid(), _START, folder.st_dev, folder.st_ino, *sys.path, *sorted(variables.items()), *files


class TensorFlowProgram:
    """A program that is loaded in TensorFlow's process."""

    notes: tuple[str, ...] = ()

    def __init__(self, program: Program, options: Options) -> None:
        self._path = program.path
        self._folder = tempfile.TemporaryDirectory(prefix="tfsmith-")
        files = program.files(Path(self._folder.name), options.write)
        self._inputs = files.inputs
        self._outputs = files.outputs
        say = {"kind": files.kind, "path": str(files.path.absolute()), "tags": list(files.tags)}
        try:
            self._process: _Process | None = _Process(say, self._path, options)
        except BaseException:
            self._folder.cleanup()
            raise
        self.version = str(self._process.told.get("version", ""))

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once. The arrays go through a pipe."""
        fed = {self._inputs[key]: values for key, values in feeds.items() if key in self._inputs}
        names = list(dict.fromkeys(self._outputs.values()))
        if self._process is None:
            raise EngineError("the program was closed", path=self._path, remedy="compile the model again")
        _, found = self._process.ask({"do": "run", "fetches": names}, fed)
        if set(found) != set(names):
            raise EngineError("TensorFlow's process gave other tensors than asked for", path=self._path)
        return {key: found[name] for key, name in self._outputs.items()}

    def close(self) -> None:
        """Gives the process up and removes what was written for it; may be called again."""
        process, self._process = self._process, None
        if process is not None:
            process.release()
        self._folder.cleanup()

    def __enter__(self) -> TensorFlowProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def measure_speed(
    programs: Sequence[Program], feeds: Mapping[str, NDArray[Any]], options: Options, *, repeat: int
) -> tuple[tuple[float, ...], ...]:
    """Seconds of each run of each program; runs that warm up are not among them. Starts TensorFlow.

    Args:
        programs: What to run.
        feeds: What to feed to each, by key; keys that a program does not have are left out.
        options: What writes models, and the libraries with custom ops.
        repeat: How often to run each.

    Raises:
        EngineError: TensorFlow is not installed, refused, or its process died.
    """
    with tempfile.TemporaryDirectory(prefix="tfsmith-") as folder:
        files = []
        for number, program in enumerate(programs):
            place = Path(folder) / str(number)
            place.mkdir()
            files.append(program.files(place, options.write))
        # oneDNN is on by default; somebody who turned it off for exact answers must not see us win by that.
        environment = {"TF_ENABLE_ONEDNN_OPTS": "1"} if "TF_ENABLE_ONEDNN_OPTS" in os.environ else None
        process = _Process({"programs": [_told(one, feeds) for one in files]}, programs[0].path, options, environment)
        _, seconds = process.ask({"do": "run", "repeat": repeat}, feeds)
        process.release()
    if len(seconds) != len(files):
        raise EngineError("TensorFlow's process measured other programs than asked for", path=programs[0].path)
    return tuple(tuple(map(float, seconds[str(number)])) for number in range(len(files)))


def _told(files: ProgramFiles, feeds: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    return {
        "kind": files.kind,
        "path": str(files.path.absolute()),
        "tags": list(files.tags),
        "inputs": {files.inputs[key]: key for key in feeds if key in files.inputs},
        "fetches": list(dict.fromkeys(files.outputs.values())),
    }
