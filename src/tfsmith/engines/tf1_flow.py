"""Bodies with the control flow of TensorFlow 1: Switch and Merge, and loops of Enter, NextIteration and Exit.

A value that a Switch did not let through is dead, and so is what follows from it, up to a Merge. The nodes of one step
of a loop run in order, as those of a graph do; what NextIteration takes is what Merge gives in the next step. A loop is
over when nothing alive reaches a NextIteration.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

import numpy

from tfsmith.engines.interpreter import Interpreter, Layout, Plan, PlanNode, endless, explained, last_uses
from tfsmith.errors import InvalidModelError
from tfsmith.ir.tensor import Tensor
from tfsmith.limits import MAX_CALL_DEPTH, MAX_LOOP_STEPS
from tfsmith.ops import CONTROL_FLOW, ENTERS, EXITS, MERGES, NEXT_ITERATIONS, ORDERING, SWITCHES
from tfsmith.ops.values import OpError, OpFunction

__all__ = ["FlowPlan"]

_DEAD = object()
"""The value of a tensor that nobody computed, for its branch was not taken."""
_Path = tuple[str, ...]
"""The loops that a node is in, the outermost first."""
_REMEDY = "no TensorFlow runs this graph; write it again from its source"


class FlowPlan(Plan):
    """A body with control flow of TensorFlow 1 that is ready to run.

    Behind the places of the tensors there is one for each node, which says whether it ran.
    """

    def __init__(self, interpreter: Interpreter, layout: Layout, outputs: Sequence[int]) -> None:
        bound = {node.start for node in layout.nodes if node.op == "Const" and node.controls}
        fixed = [(place, tensor) for place, tensor in layout.constants if place not in bound]
        super().__init__(layout, outputs, fixed, len(layout.nodes))
        self._flow = _Builder(interpreter, layout).steps()
        frees = last_uses(((step.reads, step.writes) for step in self._flow), dict(fixed), outputs)
        self._frees = [tuple(place for place in free if place < layout.size) for free in frees]

    def run(self, feeds: Sequence[Any]) -> tuple[Any, ...]:
        """The values of the outputs for these inputs.

        Raises:
            EngineError: An op failed; says the node.
            OpError: An output is in a branch that was not taken.
        """
        values = self._start(feeds)
        for step, frees in zip(self._flow, self._frees, strict=True):
            step.run(values)
            for place in frees:
                values[place] = None
        found = tuple(values[place] for place in self._outputs)
        if any(value is _DEAD for value in found):
            raise OpError(f"an output of {self._title} is in a branch that was not taken")
        return found


class _Builder:
    """Makes the steps of a plan."""

    def __init__(self, interpreter: Interpreter, layout: Layout) -> None:
        self._interpreter = interpreter
        self._title = layout.title
        self._nodes = layout.nodes
        self._constants = dict(layout.constants)
        self._alive = {node.name: layout.size + number for number, node in enumerate(layout.nodes)}
        self._makers = {place: node.name for node in layout.nodes for place in node.outputs}
        self._paths = self._find_paths()

    def steps(self) -> list[_FlowStep]:
        """The steps outside of all loops, each loop being one."""
        return self._level((), [node for node in self._nodes if node.op != "Const" or node.controls])

    def _sources(self, node: PlanNode) -> Iterator[str]:
        """The nodes that it waits for; what is fed is none."""
        yield from (self._makers[place] for place in node.inputs if place in self._makers)
        yield from (name for name in node.controls if name in self._alive)

    def _find_paths(self) -> dict[str, _Path]:
        """The loops that each node is in: those of its inputs, one more for Enter, one fewer behind Exit."""
        paths: dict[str, _Path] = {}
        behind: dict[str, _Path] = {}
        for node in self._nodes:
            path: _Path = ()
            for source in self._sources(node):
                other = behind.get(source, ())  # a back edge comes from a node that is not known yet
                longer, shorter = (other, path) if len(other) > len(path) else (path, other)
                if longer[: len(shorter)] != shorter:
                    raise InvalidModelError("it takes values of two loops", where=self._where(node), remedy=_REMEDY)
                path = longer
            if node.op in ENTERS:
                frame = node.attrs.get("frame_name")
                path = (*path, "" if frame is None else str(frame.value))
            if len(path) > MAX_CALL_DEPTH:
                raise InvalidModelError("loops are nested too deep", where=self._where(node), remedy=_REMEDY)
            paths[node.name] = path
            behind[node.name] = path[:-1] if node.op in EXITS else path
        return paths

    def _where(self, node: PlanNode) -> str:
        return f"node {node.name!r} in {self._title}"

    def _level(self, path: _Path, nodes: Sequence[PlanNode]) -> list[_FlowStep]:
        """The steps of these nodes of a loop, in order; each loop inside of it is one step."""
        units: dict[str | _Path, list[PlanNode]] = {}
        unit_of: dict[str, str | _Path] = {}
        for node in nodes:
            own = self._paths[node.name]
            unit = node.name if own == path else own[: len(path) + 1]
            units.setdefault(unit, []).append(node)
            unit_of[node.name] = unit
        needs: dict[str | _Path, dict[str | _Path, None]] = {unit: {} for unit in units}
        for node in nodes:
            unit = unit_of[node.name]
            needs[unit].update({unit_of[name]: None for name in self._sources(node) if unit_of.get(name, unit) != unit})
        try:
            order = list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            raise InvalidModelError("a loop needs what it gives", where=self._title, remedy=_REMEDY) from error
        return [
            self._step(units[unit][0]) if isinstance(unit, str) else self._loop(unit, units[unit]) for unit in order
        ]

    def _loop(self, path: _Path, nodes: Sequence[PlanNode]) -> _Loop:
        own = [node for node in nodes if self._paths[node.name] == path]
        ends = [node for node in own if node.op in ENTERS or node.op in NEXT_ITERATIONS]
        apart = {node.name for node in ends}
        return _Loop(
            [self._step(node) for node in ends if node.op in ENTERS],
            self._level(path, [node for node in nodes if node.name not in apart]),
            [self._step(node) for node in ends if node.op in NEXT_ITERATIONS],
            [self._step(node) for node in own if node.op in EXITS],
            self._title,
        )

    def _step(self, node: PlanNode) -> _NodeStep:
        controls = tuple(self._alive[name] for name in node.controls if name in self._alive)
        kind = _MergeStep if node.op in MERGES else _ExitStep if node.op in EXITS else _NodeStep
        return kind(node, self._function(node), controls, self._alive[node.name], self._title)

    def _function(self, node: PlanNode) -> OpFunction:
        if node.op == "Const":
            return _constant(self._constants[node.start])
        if node.op in SWITCHES:
            return _switch_of(node.count) if node.op.endswith("SwitchN") else _switch
        if node.op in MERGES:
            return _merge
        if node.op in CONTROL_FLOW or node.op in ORDERING:
            return tuple
        return self._interpreter.bound(node, self._title)


class _FlowStep(ABC):
    """A node, or a loop, that runs in its turn.

    Attributes:
        reads: The places that it reads.
        writes: The places that it writes.
    """

    reads: tuple[int, ...]
    writes: tuple[int, ...]

    @abstractmethod
    def run(self, values: list[Any]) -> None:
        """Reads and writes the places."""


class _NodeStep(_FlowStep):
    """A node; dead if one of its inputs is, or a node that it waits for.

    Attributes:
        node: The node.
        alive: The place that says whether it ran.
    """

    def __init__(self, node: PlanNode, call: OpFunction, controls: tuple[int, ...], alive: int, title: str) -> None:
        self.node = node
        self.alive = alive
        self.reads = (*node.inputs, *controls)
        self.writes = (*node.outputs, alive)
        self._call = call
        self._controls = controls
        self._title = title

    def kill(self, values: list[Any]) -> None:
        """Makes its outputs dead."""
        for place in self.node.outputs:
            values[place] = _DEAD
        values[self.alive] = False

    def run(self, values: list[Any]) -> None:
        node = self.node
        inputs = [values[place] for place in node.inputs]
        if any(value is _DEAD for value in inputs) or any(values[place] is False for place in self._controls):
            self._skip(values)
            return
        self._set(values, inputs)

    def _skip(self, values: list[Any]) -> None:
        self.kill(values)

    def _set(self, values: list[Any], inputs: Sequence[Any]) -> None:
        node = self.node
        try:
            found = self._call(inputs)
            if len(found) != node.count:
                raise OpError(f"it gives {len(found)} outputs, not {node.count}")
        except Exception as error:
            raise explained(error, node, self._title) from error
        values[node.start : node.start + node.count] = found
        values[self.alive] = True


class _MergeStep(_NodeStep):
    """Takes the first input that is alive."""

    def run(self, values: list[Any]) -> None:
        inputs = [values[place] for place in self.node.inputs]
        if all(value is _DEAD for value in inputs):
            self.kill(values)
        else:
            self._set(values, inputs)


class _ExitStep(_NodeStep):
    """Gives a value of the last step of its loop; in all steps before, its input is dead."""

    def _skip(self, values: list[Any]) -> None:
        """Leaves what it gave, or that it is dead."""


class _Loop(_FlowStep):
    """A loop with all of its steps."""

    def __init__(
        self,
        enters: Sequence[_NodeStep],
        body: Sequence[_FlowStep],
        nexts: Sequence[_NodeStep],
        exits: Sequence[_NodeStep],
        title: str,
    ) -> None:
        inner = (*enters, *body, *nexts)
        self.reads = tuple(dict.fromkeys(place for step in inner for place in step.reads))
        self.writes = tuple(dict.fromkeys(place for step in inner for place in step.writes))
        self._enters = enters
        self._body = body
        self._nexts = nexts
        self._exits = exits
        self._first = [step for step in enters if not _is_invariant(step.node)]
        self._title = title

    def run(self, values: list[Any]) -> None:
        for step in (*self._nexts, *self._exits):
            step.kill(values)
        for step in self._enters:
            step.run(values)
        if not any(values[step.alive] for step in self._enters):
            return  # the loop is in a branch that was not taken
        for _ in range(MAX_LOOP_STEPS):
            for inner in self._body:
                inner.run(values)
            for step in self._nexts:
                step.run(values)
            if not any(values[step.alive] for step in self._nexts):
                return
            for step in self._first:  # Merge takes what NextIteration gives from now on
                step.kill(values)
        raise explained(endless(), self._enters[0].node, self._title)


def _is_invariant(node: PlanNode) -> bool:
    found = node.attrs.get("is_constant")
    return found is not None and bool(found.value)


def _switch(inputs: Sequence[Any]) -> tuple[Any, ...]:
    data, chosen = inputs
    return (_DEAD, data) if chosen else (data, _DEAD)


def _switch_of(count: int) -> OpFunction:
    def switch(inputs: Sequence[Any]) -> tuple[Any, ...]:
        data, chosen = inputs
        number = int(chosen)
        number = number if 0 <= number < count else count - 1
        return tuple(data if number == index else _DEAD for index in range(count))

    return switch


def _merge(inputs: Sequence[Any]) -> tuple[Any, ...]:
    number = next(number for number, value in enumerate(inputs) if value is not _DEAD)
    return inputs[number], numpy.asarray(number, numpy.int32)


def _constant(tensor: Tensor) -> OpFunction:
    """A constant that is dead where its branch is not taken; read when it is wanted first."""
    found: list[Any] = []

    def constant(inputs: Sequence[Any]) -> tuple[Any, ...]:
        if not found:
            found.append(tensor.numpy())
        return tuple(found)

    return constant
