"""Which engine may run a program: what conformance has proven of OpenVINO, held against the nodes and what is fed.

Some proofs hold for some inputs only. Such a program gets a guard (`guard.py`), which looks at the inputs before each
run, and at the outputs after it. What TensorFlow would refuse is refused; what is not proven runs on another engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.guard import Guard
from tfsmith.engines.isolated import IsolatedProgram
from tfsmith.engines.protocol import Compiled, Engine, Lack, LackError, Options, Program, engine_named, usual_inputs
from tfsmith.errors import EngineError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GuardedProgram", "UnprovenError", "compile_on", "installed_openvino"]

_OTHERS = ("reference", "tensorflow")
"""What runs where OpenVINO is not proven."""


class UnprovenError(LackError):
    """An engine is not proven to compute a model as TensorFlow does; `lacks` says why not, op by op."""

    def __init__(self, engine: str, lacks: Sequence[Lack], **place: Any) -> None:
        super().__init__(engine, lacks, **place)
        self.what = self.what.replace(f"{engine} lacks what this model needs", f"{engine} is not proven for this model")
        self.args = (self._render(),)


def compile_on(engine: Engine, program: Program, options: Options, *, only_proven: bool) -> Compiled:
    """Compiles on an engine. OpenVINO runs in this process only what is proven of it.

    Args:
        engine: The engine.
        program: The program.
        options: How to run it.
        only_proven: Whether to refuse what is not proven; else it runs in a process of its own, if the options do not
            forbid that.

    Raises:
        UnprovenError: It is not proven.
        EngineError: The engine lacks what the program needs, is not installed, or failed.
    """
    if engine.name != "openvino" or options.op_libraries:
        return engine.compile(program, options)
    number = installed_openvino()
    if number is None or engine.available() is not None:
        return engine.compile(program, options)  # which says so
    guard = Guard(program.flat(usual_inputs(program)), number)
    proof = guard.proof
    if only_proven:
        doubts = proof.doubts or tuple(guard.static_doubts())
        if doubts:
            remedy = "to run it all the same, name the engine ({engine='openvino'})"
            raise UnprovenError("openvino", doubts, path=program.path, remedy=remedy)
        return GuardedProgram(program, options, engine.compile(program, options), number, guard)
    if not options.isolate or not proof.suspects:
        return engine.compile(program, options)
    if proof.doubts or any(guard.static_doubts()):
        return IsolatedProgram(program, "openvino", options, proof.suspects)
    return GuardedProgram(program, options, engine.compile(program, options), number, only_deadly=True)


def installed_openvino() -> str | None:
    """The version of OpenVINO that is installed; None if there is none. Imports nothing of it."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("openvino")
    except PackageNotFoundError:
        return None


class GuardedProgram:
    """A program on OpenVINO that is proven, if only for some inputs; what is not, or fails, runs on another engine.

    Args:
        program: The program.
        options: How to run it.
        compiled: The program on OpenVINO.
        number: The version of OpenVINO.
        guard: The guard for what is usually fed, if there is one.
        only_deadly: Whether only those inputs count that kill the process; they run on OpenVINO in another process.
    """

    def __init__(
        self,
        program: Program,
        options: Options,
        compiled: Compiled,
        number: str,
        guard: Guard | None = None,
        *,
        only_deadly: bool = False,
    ) -> None:
        self.version = compiled.version
        self._program = program
        self._options = options
        self._compiled = compiled
        self._number = number
        self._only_deadly = only_deadly
        self._guards: dict[frozenset[str], Guard] = {} if guard is None else {usual_inputs(program): guard}
        self._other: Compiled | None = None
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how it computes, and which runs went to another engine."""
        return (*self._compiled.notes, *self._notes)

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once, on OpenVINO if it is proven for these inputs."""
        fed = frozenset(feeds)
        if fed not in self._guards:
            self._guards[fed] = Guard(self._program.flat(fed), self._number, only_deadly=self._only_deadly)
        guard = self._guards[fed]
        try:
            reason = guard.doubt(feeds)
        except EngineError as error:
            raise error.at(error.path or self._program.path) from error
        if reason is not None:
            return self._elsewhere(feeds, reason)
        if self._only_deadly:
            return self._compiled.run(feeds)
        try:
            found = self._compiled.run(feeds)
        except EngineError as error:
            return self._elsewhere(feeds, f"for this input, at which it failed ({error.what})")
        reason = guard.doubt_of(found)
        return found if reason is None else self._elsewhere(feeds, reason)

    def close(self) -> None:
        """Lets go of the engines; may be called again."""
        self._compiled.close()
        if self._other is not None:
            self._other.close()
        self._guards.clear()

    def __enter__(self) -> GuardedProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _elsewhere(self, feeds: Mapping[str, NDArray[Any]], reason: str) -> dict[str, NDArray[Any]]:
        if self._only_deadly and self._other is None:
            suspects = self._guards[frozenset(feeds)].proof.suspects
            self._other = IsolatedProgram(self._program, "openvino", self._options, suspects)
        for name in _OTHERS if self._other is None else ():
            engine = engine_named(name)
            if engine.available() is not None:
                continue
            try:
                self._other = engine.compile(self._program, self._options)
            except LackError:
                continue
            self._notes[f"it ran on {name}, for OpenVINO is not proven {reason}"] = None
            break
        if self._other is None:
            remedy = "to run it all the same, name the engine ({engine='openvino'})"
            what = f"OpenVINO is not proven {reason}, and no other engine can run it"
            raise EngineError(what, path=self._program.path, remedy=remedy)
        return self._other.run(feeds)
