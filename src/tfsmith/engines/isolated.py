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
from tfsmith.engines.program import FlatProgram
from tfsmith.engines.protocol import (
    Clock,
    FlatGraph,
    Lack,
    LackError,
    Options,
    Port,
    Program,
    engine_named,
    usual_inputs,
)
from tfsmith.errors import EngineError, TfsmithError, data_of
from tfsmith.ir.model import Model
from tfsmith.ir.node import parse_input
from tfsmith.ir.types import UNKNOWN

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["IsolatedProgram", "serve"]

_START = start_code("tfsmith.engines.isolated")
_TITLES = {"openvino": "OpenVINO"}
_MOST_NODES = 3
_NODES, _TIMES = "\0nodes", "\0seconds"
"""What comes back with the outputs, where a clock was given: what each node took in this run."""


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
        self._program = program
        self._engine = engine
        self._options = options
        self._suspects = tuple(suspects)
        self._child = ChildProcess(_TITLES.get(engine, engine), _START, "install the engine again", self._path)
        say = {"do": "load", "engine": engine, "settings": dict(options.settings)} | {
            "clock": options.clock is not None
        }
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
        found = self._ask({"do": "run"}, feeds)[1]
        if self._options.clock is not None:
            for node, seconds in zip(found.pop(_NODES).tolist(), found.pop(_TIMES).tolist(), strict=True):
                self._options.clock.add("", node.decode(), seconds)
        return found

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
            raise self._blamed(error, arrays if say.get("do") == "run" else None) from error
        refused = told.get("refused")
        if isinstance(refused, dict):
            raise self._refusal(refused)
        return told, found

    def _blamed(self, error: ChildDiedError, feeds: Mapping[str, NDArray[Any]] | None) -> EngineError:
        """Names the node that killed it; where that cannot be found out, all that may have."""
        if not self._suspects:
            return error
        ops = {node: lack.op for lack in self._suspects for node in lack.nodes}
        culprit = self._culprit(list(ops), feeds) if len(ops) > 1 else None
        nodes = [f"{node} ({op})" for node, op in ops.items() if culprit in (None, node)]
        shown = ", ".join(nodes[:_MOST_NODES])
        more = f" and {len(nodes) - _MOST_NODES} more" if len(nodes) > _MOST_NODES else ""
        where = f"node {shown}" if len(nodes) == 1 else f"one of the nodes {shown}{more}"
        remedy = "run it with another engine ({engine='reference'})"
        return EngineError(f"{error.what} by {where}", path=self._path, remedy=remedy)

    def _culprit(self, suspects: Sequence[str], feeds: Mapping[str, NDArray[Any]] | None) -> str | None:
        """The first of the suspects, in the order in which they run, of which a process of its own dies, by bisection.

        Each process computes the suspects up to one of them, from the same inputs. None if no process dies.
        """
        fed = usual_inputs(self._program) if feeds is None else frozenset(feeds)
        flat = self._program.flat(fed)
        order = [node.name for node in flat.graph.topological_order() if node.name in set(suspects)]
        if not order or not self._dies(flat, order, feeds):
            return None
        low, high = 0, len(order)
        while high - low > 1:
            middle = (low + high) // 2
            if self._dies(flat, order[:middle], feeds):
                high = middle
            else:
                low = middle
        return order[high - 1]

    def _dies(self, flat: FlatGraph, names: Sequence[str], feeds: Mapping[str, NDArray[Any]] | None) -> bool:
        try:
            program = _part(self._program, flat, names)
            with IsolatedProgram(program, self._engine, self._options) as part:
                if feeds is not None:
                    part.run({key: feeds[key] for key in program.inputs})
        except ChildDiedError:
            return True
        except TfsmithError:  # it refuses what is cut out; that is no death
            return False
        return False

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


def _part(whole: Program, flat: FlatGraph, names: Sequence[str]) -> FlatProgram:
    """Some nodes of a program, with all that they need."""
    outputs: dict[str, Port] = {}
    for name in names:
        definition = flat.graph.op_def(flat.graph[name].op)
        kinds = () if definition is None else definition.output_types(flat.graph[name].attrs)
        outputs |= {f"{name}:{number}": Port(f"{name}:{number}", kind, UNKNOWN) for number, kind in enumerate(kinds)}
    needed = flat.graph.ancestors(dict.fromkeys(names))
    graph = flat.graph.replace(nodes=tuple(node for node in flat.graph if node.name in needed))
    inputs = {key: name for key, name in flat.inputs.items() if parse_input(name).node in needed}
    cut = FlatGraph(graph, inputs, {key: port.tensor for key, port in outputs.items()})
    return FlatProgram(whole.path, {key: whole.inputs[key] for key in inputs}, outputs, cut)


def main() -> None:
    """Serves until the parent closes the pipe. What the engine prints goes to stderr, not between the answers."""
    serve(*parent_pipes())


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answers requests, one after the other."""
    serve_frames(requests, answers, _load, _explain)


def _load(say: Mapping[str, Any], arrays: Arrays) -> tuple[dict[str, Any], Run]:
    program = pickle.loads(arrays["program"].tobytes())
    clock = Clock() if say.get("clock") else None
    options = Options(_write, settings=say["settings"], clock=clock)
    compiled = engine_named(say["engine"]).compile(program, options)

    def run(_: Mapping[str, Any], feeds: Arrays) -> Arrays:
        found = compiled.run(feeds)
        return found if clock is None else {**found, **_times(clock)}

    return {"version": compiled.version, "notes": list(compiled.notes)}, run


def _times(clock: Clock) -> Arrays:
    """What each node took, as arrays; the clock starts again."""
    names = [node.encode() for _, node in clock.times]
    nodes = numpy.empty(len(names), object)
    nodes[:] = names
    seconds = numpy.array(list(clock.times.values()), numpy.float64)
    clock.times.clear()
    return {_NODES: nodes, _TIMES: seconds}


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
