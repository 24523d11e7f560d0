"""An engine in a process of its own: where native code may die, its death is an error that names the engine.

The program goes to the child as it is, by pickle, from this process to one that it started; what comes back are frames,
which hold numbers and text alone. Weights stay in their files: both processes map them.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import numpy

from tfsmith.engines.child import ChildDiedError, ChildProcess, start_code
from tfsmith.engines.frames import Arrays, Run, parent_pipes, serve_frames
from tfsmith.engines.protocol import Lack, LackError, Options, Program, engine_named
from tfsmith.errors import EngineError, TfsmithError, data_of
from tfsmith.ir.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["IsolatedProgram", "serve"]

_START = start_code("tfsmith.engines.isolated")
_TITLES = {"openvino": "OpenVINO"}
_MOST_NODES = 3


class IsolatedProgram:
    """A program that is compiled in the process of an engine.

    Args:
        program: The program.
        engine: The engine's name.
        options: How the engine is to run it.
        suspects: What to name where the process dies: ops that the engine was not proven to compute, with their nodes.
    """

    def __init__(self, program: Program, engine: str, options: Options, suspects: Sequence[Lack] = ()) -> None:
        self._path = program.path
        self._engine = engine
        self._suspects = tuple(suspects)
        self._child = ChildProcess(_TITLES.get(engine, engine), _START, "install the engine again", self._path)
        say = {"do": "load", "engine": engine, "settings": dict(options.settings)}
        data = numpy.frombuffer(pickle.dumps(program), numpy.uint8)
        try:
            told, _ = self._ask(say, {"program": data})
        except BaseException:
            self.close()
            raise
        self.version = str(told.get("version", ""))
        self.notes: tuple[str, ...] = tuple(map(str, told.get("notes", ())))

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once. The arrays go through a pipe."""
        return self._ask({"do": "run"}, feeds)[1]

    def close(self) -> None:
        """Ends the process."""
        self._child.close()

    def __enter__(self) -> IsolatedProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(
        self, say: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        try:
            told, found = self._child.ask(say, arrays)
        except ChildDiedError as error:
            raise self._blamed(error) from error
        refused = told.get("refused")
        if isinstance(refused, dict):
            raise self._refusal(refused)
        return told, found

    def _blamed(self, error: ChildDiedError) -> EngineError:
        """Names the nodes that may have killed it."""
        if not self._suspects:
            return error
        nodes = [f"{node} ({lack.op})" for lack in self._suspects for node in lack.nodes]
        shown = ", ".join(nodes[:_MOST_NODES])
        more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
        where = f"node {shown}" if len(nodes) == 1 else f"one of the nodes {shown}{more}"
        remedy = "run it with another engine ({engine='reference'})"
        return EngineError(f"{error.what} by {where}", path=self._path, remedy=remedy)

    def _refusal(self, told: Mapping[str, Any]) -> EngineError:
        what, remedy = str(told.get("what", "")), told.get("remedy")
        lacks = [
            Lack(str(one.get("op", "")), tuple(map(str, one.get("nodes", ()))), str(one.get("reason", "")))
            for one in told.get("lacks", ())
            if isinstance(one, dict)
        ]
        if lacks:
            return LackError(self._engine, lacks, path=self._path, remedy=str(remedy or ""))
        where = told.get("where")
        return EngineError(
            what,
            path=self._path,
            where=where if isinstance(where, str) else None,
            remedy=remedy if isinstance(remedy, str) else None,
        )


def main() -> None:
    """Serves until the parent closes the pipe. What the engine prints goes to stderr, not between the answers."""
    serve(*parent_pipes())


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests, one after the other."""
    serve_frames(requests, answers, _load, _explain)


def _load(say: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Run]:
    program = pickle.loads(arrays["program"].tobytes())
    compiled = engine_named(say["engine"]).compile(program, Options(_write, settings=say["settings"]))
    return {"version": compiled.version, "notes": list(compiled.notes)}, lambda _, feeds: compiled.run(feeds)


def _explain(error: Exception) -> dict[str, Any]:
    if isinstance(error, TfsmithError):
        return {"refused": _told(error)}
    return {"error": " ".join(f"{type(error).__name__}: {error}".split())}


def _told(error: TfsmithError) -> dict[str, Any]:
    lacks = error.lacks if isinstance(error, LackError) else ()
    return {
        "what": data_of(error.what),  # who shows it, words its options
        "where": error.where,
        "remedy": None if error.remedy is None else data_of(error.remedy),
        "lacks": [{"op": lack.op, "nodes": list(lack.nodes), "reason": lack.reason} for lack in lacks],
    }


def _write(model: Model, path: Path, kind: Literal["pb", "saved_model"]) -> None:
    raise EngineError("an engine that is isolated takes models from memory", path=path)
