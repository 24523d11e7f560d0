"""The reference engine: TensorFlow's results in numpy, op by op. Nothing to install, and correct before fast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.protocol import Clock, FlatGraph, Lack, LackError, Options, Port, Program, usual_inputs
from tfsmith.errors import EngineError, TfsmithError
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import parse_input
from tfsmith.ops import TABLES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfsmith.engines.interpreter import Plan

__all__ = ["Reference", "ReferenceProgram", "plan_tensors"]

_OTHER = "run it with TensorFlow ({engine='tensorflow'})"
_MOST_LINES = 20
"""Lines that a model prints, among the notes."""


class Reference:
    """The engine. Loads numpy only when something is compiled."""

    name = "reference"

    def available(self) -> str | None:
        """None: it is part of tfsmith."""
        return None

    def lacks(self, program: Program) -> tuple[Lack, ...]:
        """The ops that it has no value for, with their nodes; runs nothing."""
        flat = program.flat(usual_inputs(program))
        return _lacks(flat.graph, _output_nodes(flat))

    def compile(self, program: Program, options: Options) -> ReferenceProgram:
        """Puts the nodes in order, and fills the tables."""
        if options.op_libraries:
            what = "it cannot load TensorFlow's op libraries"
            raise LackError(self.name, [Lack("custom ops", (), what)], path=program.path, remedy=_OTHER)
        return ReferenceProgram(program, options.clock)


def _lacks(graph: Graph, wanted: Iterable[str]) -> tuple[Lack, ...]:
    """What the engine lacks for these nodes and what they need."""
    from tfsmith.engines.interpreter import called_functions, is_known

    names = graph.ancestors(dict.fromkeys(wanted))
    needed = [node for node in graph if node.name in names]
    found: dict[str, list[str]] = {}
    for node in needed:
        if not is_known(node.op, graph):
            found.setdefault(node.op, []).append(node.name)
    for function in called_functions(graph, needed):
        for node in function.nodes:
            if not is_known(node.op, graph):
                found.setdefault(node.op, []).append(f"{node.name} in {function.title}")
    return tuple(Lack(op, tuple(nodes), "the reference engine has no such op") for op, nodes in found.items())


def _output_nodes(flat: FlatGraph) -> list[str]:
    return [parse_input(name).node for name in flat.outputs.values()]


def plan_tensors(flat: FlatGraph, tensors: Sequence[str]) -> Plan:
    """The plan of a few tensors inside of a program that keeps no state; takes its inputs in order.

    Raises:
        UnsupportedError: They need an op that has no value.
    """
    from tfsmith.engines.interpreter import Interpreter

    return Interpreter(flat.graph, {}, _no_file, lambda line: None).plan(list(flat.inputs.values()), tensors)


def _no_file(name: bytes) -> Path:
    from tfsmith.ops.values import OpError

    raise OpError("it reads a file")


class ReferenceProgram:
    """A program that is ready to run.

    Which optional inputs are fed decides what the graph is, so that each such choice is planned by itself. What the
    program keeps from run to run (tables, the state of random numbers) starts with it.

    Args:
        program: The program.
        clock: What is told how long each node took.
        is_run: Whether it is to be run; else only its tables are filled.
    """

    def __init__(self, program: Program, clock: Clock | None = None, *, is_run: bool = True) -> None:
        import numpy

        self.version = f"with numpy {numpy.__version__}"
        self._program = program
        self._clock = clock
        self._kept: dict[tuple[str, str], Any] = {}
        self._assets: Mapping[bytes, Path] = {}
        self._lines: list[str] = []
        self._plans: dict[frozenset[str], tuple[Plan, tuple[str, ...]]] = {}
        self._tables: dict[str, Any] = {}
        try:
            if is_run:
                self._plan(usual_inputs(program))
            self._start()
        except TfsmithError as error:
            raise error.at(error.path or program.path) from error

    @property
    def notes(self) -> tuple[str, ...]:
        """What the model printed."""
        return tuple(f"the model prints: {line}" for line in self._lines)

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once. The arrays are not copied."""
        import numpy

        program = self._program
        try:
            plan, keys = self._plan(frozenset(feeds))
            with numpy.errstate(all="ignore"):
                found = _run(plan, [feeds[key] for key in keys])
        except TfsmithError as error:
            raise error.at(error.path or program.path) from error
        given = {id(array) for array in feeds.values()}
        return {
            key: _own(value, key, port, given)
            for (key, port), value in zip(program.outputs.items(), found, strict=True)
        }

    def tables(self) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
        """The keys and values of the tables as the model fills them, by their nodes."""
        return {name: table.exported() for name, table in self._tables.items()}

    def close(self) -> None:
        """Lets go of the plans, the weights and the tables."""
        self._plans.clear()
        self._kept.clear()
        self._tables.clear()

    def __enter__(self) -> ReferenceProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _plan(self, fed: frozenset[str]) -> tuple[Plan, tuple[str, ...]]:
        """The plan for a run that feeds these keys, and those of them that it takes, in order."""
        if fed not in self._plans:
            flat = self._program.flat(fed)
            lacks = _lacks(flat.graph, _output_nodes(flat))
            if lacks:
                raise LackError("reference", lacks, path=self._program.path, remedy=_OTHER)
            outputs = [flat.outputs[key] for key in self._program.outputs]
            plan = self._interpreter(flat.graph).plan(list(flat.inputs.values()), outputs)
            self._plans[fed] = (plan, tuple(flat.inputs))
        return self._plans[fed]

    def _interpreter(self, graph: Graph) -> Any:
        from tfsmith.engines.interpreter import Interpreter

        return Interpreter(graph, self._kept, self._file, self._say, self._clock)

    def _start(self) -> None:
        """Runs what fills the tables."""
        import numpy

        start = self._program.start()
        if start is None:
            return
        lacks = _lacks(start.graph, start.nodes)
        if lacks:
            raise LackError("reference", lacks, path=self._program.path, remedy=_OTHER)
        self._assets = {str(path).encode(): path for path in start.assets.values()}
        tables = [node.name for node in start.graph if node.op in TABLES]
        plan = self._interpreter(start.graph).plan(list(start.assets), tables, start.nodes)
        with numpy.errstate(all="ignore"):
            found = _run(plan, [_text(str(path).encode()) for path in start.assets.values()])
        self._tables = dict(zip(tables, found, strict=True))

    def _say(self, line: str) -> None:
        if len(self._lines) < _MOST_LINES:
            self._lines.append(line)

    def _file(self, name: bytes) -> Path:
        from tfsmith.ops.values import OpError

        found = self._assets.get(name)
        shown = Path(name.decode("utf-8", "replace")).name
        if found is None:
            what = f"it reads the file {shown!r}, which is no asset of the model"
            raise OpError(what, f"write a SavedModel that has it, or {_OTHER}")
        if not found.is_file():
            raise OpError(f"the asset {found.name!r} is missing", "fetch the model again, with its assets")
        return found


def _run(plan: Plan, feeds: list[Any]) -> tuple[Any, ...]:
    from tfsmith.ops.values import OpError

    try:
        return plan.run(feeds)
    except OpError as error:
        raise EngineError(str(error), remedy=error.remedy or "check what is fed and asked for") from error


def _text(value: bytes) -> NDArray[Any]:
    import numpy

    made = numpy.empty((), object)
    made[()] = value
    return made


def _own(value: Any, key: str, port: Port, given: set[int]) -> NDArray[Any]:
    """An output as the caller may keep and change it: no view of a weight or of an input."""
    import numpy

    if not isinstance(value, numpy.ndarray):
        what = f"output {key!r} ({port.tensor}) is no tensor but a {type(value).__name__}"
        raise EngineError(what, remedy="ask for a tensor that is made of it")
    return value if value.flags.owndata and value.flags.writeable and id(value) not in given else value.copy()
