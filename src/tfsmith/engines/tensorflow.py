"""TensorFlow, in a process of its own: the caller never imports it, and a crash there is an error here."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.child import ChildProcess, start_code
from tfsmith.engines.protocol import Lack, LackError, Options, Program, ProgramFiles
from tfsmith.errors import EngineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["TensorFlow", "TensorFlowProgram", "measure_speed"]

_INSTALL = "pip install 'tfsmith[tensorflow]'"
_START = start_code("tfsmith.engines.tensorflow_child")


class TensorFlow:
    """The engine. TensorFlow's own process lives as long as the compiled program."""

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


class TensorFlowProgram:
    """A program that is loaded in TensorFlow's process."""

    notes: tuple[str, ...] = ()

    def __init__(self, program: Program, options: Options) -> None:
        self._path = program.path
        self._folder = tempfile.TemporaryDirectory(prefix="tfsmith-")
        files = program.files(Path(self._folder.name), options.write)
        self._inputs = files.inputs
        self._outputs = files.outputs
        self._child = ChildProcess("TensorFlow", _START, f"try: {_INSTALL}", self._path)
        say = {
            "do": "load",
            "kind": files.kind,
            "path": str(files.path.absolute()),
            "tags": list(files.tags),
            "op_libraries": [str(path.absolute()) for path in options.op_libraries],
        }
        try:
            told, _ = self._child.ask(say)
        except BaseException:
            self.close()
            raise
        self.version = str(told.get("version", ""))

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once. The arrays go through a pipe."""
        fed = {self._inputs[key]: values for key, values in feeds.items() if key in self._inputs}
        names = list(dict.fromkeys(self._outputs.values()))
        _, found = self._child.ask({"do": "run", "fetches": names}, fed)
        if set(found) != set(names):
            raise EngineError("TensorFlow's process gave other tensors than asked for", path=self._path)
        return {key: found[name] for key, name in self._outputs.items()}

    def close(self) -> None:
        """Ends the process and removes what was written for it."""
        self._child.close()
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
        say = {
            "do": "load",
            "op_libraries": [str(path.absolute()) for path in options.op_libraries],
            "programs": [_told(one, feeds) for one in files],
        }
        # oneDNN is on by default; somebody who turned it off for exact answers must not see us win by that.
        environment = {"TF_ENABLE_ONEDNN_OPTS": "1"}
        child = ChildProcess("TensorFlow", _START, f"try: {_INSTALL}", programs[0].path, environment)
        try:
            child.ask(say)
            _, seconds = child.ask({"do": "run", "repeat": repeat}, feeds)
        finally:
            child.close()
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
