"""Which engine may run a program: what conformance has proven of OpenVINO, held against the nodes and what is fed.

Some proofs hold for some inputs only: not for empty tensors, not for infinities and NaN, or not for what TensorFlow
refuses (ids out of range, shapes that do not fit). Such a program gets a guard, which looks at the inputs before each
run, and at the outputs after it. What TensorFlow would refuse is refused; what is not proven runs on another engine.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.compare import non_finite
from tfsmith.engines.conformance import BAD, EMPTY, NONFINITE, WIDE, Condition, Proof, proven
from tfsmith.engines.isolated import IsolatedProgram
from tfsmith.engines.protocol import Compiled, Engine, FlatGraph, Lack, LackError, Options, Program, engine_named
from tfsmith.errors import EngineError, TfsmithError
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Endpoint, Node, parse_input
from tfsmith.ir.shape import Shape
from tfsmith.ops.families import GIVEN, ID_INPUTS, LEAST_RANK, PASSES_ON, PLACEHOLDERS
from tfsmith.passes.interface import output_shape, output_type
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfsmith.engines.interpreter import Plan
    from tfsmith.ops.inference import Inference

__all__ = ["GuardedProgram", "ProgramProof", "UnprovenError", "check_program", "compile_on"]

_ALWAYS = PASSES_ON | GIVEN | {"IdentityN"}
"""Every case of the conformance suite has them, or they compute nothing."""
_OTHERS = ("reference", "tensorflow")
"""What runs where OpenVINO is not proven."""
_SMALL = 1024
"""Constants of so many elements are looked at: masks are among them, weights are not."""


class UnprovenError(LackError):
    """An engine is not proven to compute a model as TensorFlow does; `lacks` says why not, op by op."""

    def __init__(self, engine: str, lacks: Sequence[Lack], **place: Any) -> None:
        super().__init__(engine, lacks, **place)
        self.what = self.what.replace(f"{engine} lacks what this model needs", f"{engine} is not proven for this model")
        self.args = (self._render(),)


@record
class ProgramProof:
    """What conformance says of a program on an engine.

    Attributes:
        doubts: The ops that are not proven, with their nodes and why.
        except_for: Kinds of inputs for which nodes are not proven, with these nodes.
        deadly: Nodes of which some inputs kill the process.
    """

    doubts: tuple[Lack, ...]
    except_for: Mapping[Condition, tuple[Node, ...]]
    deadly: tuple[Node, ...] = ()

    def of_deadly(self) -> ProgramProof:
        """What it says of the nodes that may kill the process."""
        names = {node.name for node in self.deadly}
        found = {
            condition: tuple(node for node in nodes if node.name in names)
            for condition, nodes in self.except_for.items()
        }
        return ProgramProof(self.doubts, {condition: nodes for condition, nodes in found.items() if nodes}, self.deadly)

    @property
    def suspects(self) -> tuple[Lack, ...]:
        """What native code may die of."""
        return (*self.doubts, *(Lack(node.op, (node.name,), "some inputs kill the process") for node in self.deadly))


def check_program(engine: str, version: str, graph: Graph) -> ProgramProof:
    """Holds all nodes of a graph, and of the functions that it calls, against the table of an engine."""
    from tfsmith.engines.interpreter import called_functions

    doubts: dict[tuple[str, str], list[str]] = {}
    except_for: dict[Condition, list[Node]] = {}
    deadly: list[Node] = []
    for title, node in _all_nodes(graph, called_functions(graph, graph.nodes)):
        proof = _proof(engine, version, node)
        reason = proof.reason
        if title and (proof.may_die or (BAD in proof.except_for and _must_be_checked(node))):
            reason = f"{node.op} in a function cannot be checked before it runs"
        if proof.may_die:
            deadly.append(node)
        if reason:
            doubts.setdefault((node.op, reason), []).append(node.name + title)
        for condition in proof.except_for:
            except_for.setdefault(condition, []).append(node)
    return ProgramProof(
        tuple(Lack(op, tuple(names), reason) for (op, reason), names in doubts.items()),
        {condition: tuple(nodes) for condition, nodes in except_for.items()},
        tuple(deadly),
    )


def _proof(engine: str, version: str, node: Node) -> Proof:
    if node.op == "Assert":
        return Proof(except_for=frozenset({BAD}))  # OpenVINO leaves it out
    if node.op not in GIVEN and any(found.dtype == "string" for found in node.attrs.values()):
        return Proof("strings lose zeros at their end on the way to OpenVINO")
    return Proof() if node.op in _ALWAYS else proven(engine, version, node.op, node.attrs)


def _must_be_checked(node: Node) -> bool:
    """Whether shapes do not tell if TensorFlow refuses what it takes."""
    return node.op in ID_INPUTS or node.op == "Assert"


def _all_nodes(graph: Graph, functions: Iterator[Any]) -> Iterator[tuple[str, Node]]:
    yield from (("", node) for node in graph)
    for function in functions:
        yield from ((f" in {function.title}", node) for node in function)


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
    number = _installed()
    if number is None:
        return engine.compile(program, options)  # which says so
    flat = program.flat(_usual(program))
    proof = check_program("openvino", number, flat.graph)
    if only_proven:
        doubts = proof.doubts or tuple(_static_doubts(flat.graph, proof))
        if doubts:
            remedy = "to run it all the same, name the engine ({engine='openvino'})"
            raise UnprovenError("openvino", doubts, path=program.path, remedy=remedy)
        return GuardedProgram(program, options, engine.compile(program, options), number)
    if not options.isolate or not proof.suspects:
        return engine.compile(program, options)
    if proof.doubts or any(_static_doubts(flat.graph, proof)):
        return IsolatedProgram(program, "openvino", options, proof.suspects)
    return GuardedProgram(program, options, engine.compile(program, options), number, only_deadly=True)


def _static_doubts(graph: Graph, proof: ProgramProof) -> Iterator[Lack]:
    """Nodes that are not proven for empty tensors where the graph itself has some: an engine may die compiling it."""
    empty = [node.name for node in graph if node.op in PLACEHOLDERS and 0 in (output_shape(node).dims or ())]
    for node in proof.except_for.get(EMPTY, ()):
        sources = [graph.by_name.get(source.node) for source in graph.inputs_of(node)] if node.name in graph else []
        if empty or any(source is not None and _is_empty(source) for source in sources):
            yield Lack(node.op, (node.name,), f"{node.op} is not proven for empty tensors")


def _is_empty(node: Node) -> bool:
    found = node.attrs.get("value") if node.op == "Const" else None
    return found is not None and found.tensor is not None and found.tensor.shape.elements == 0


def _installed() -> str | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("openvino")
    except PackageNotFoundError:
        return None


def _usual(program: Program) -> frozenset[str]:
    return frozenset(key for key, port in program.inputs.items() if port.required)


class GuardedProgram:
    """A program on OpenVINO that is proven, if only for some inputs; what is not, or fails, runs on another engine.

    Args:
        program: The program.
        options: How to run it.
        compiled: The program on OpenVINO.
        number: The version of OpenVINO.
        only_deadly: Whether only those inputs count that kill the process; they run on OpenVINO in another process.
    """

    def __init__(
        self, program: Program, options: Options, compiled: Compiled, number: str, *, only_deadly: bool = False
    ) -> None:
        self.version = compiled.version
        self._program = program
        self._options = options
        self._compiled = compiled
        self._number = number
        self._only_deadly = only_deadly
        self._guards: dict[frozenset[str], _Guard] = {}
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
            self._guards[fed] = _Guard(self._program.flat(fed), self._number, only_deadly=self._only_deadly)
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
            suspects = self._guards[frozenset(feeds)].suspects
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


class _Guard:
    """Looks at what goes into and comes out of a program that is proven for some inputs only."""

    def __init__(self, flat: FlatGraph, number: str, *, only_deadly: bool) -> None:
        self._flat = flat
        self._proof = check_program("openvino", number, flat.graph)
        if only_deadly:
            self._proof = self._proof.of_deadly()
        self._shapes: dict[tuple[tuple[str, tuple[int, ...]], ...], str | None] = {}
        found = self._proof.except_for
        small = list(_small_constants(flat.graph)) if NONFINITE in found or WIDE in found else []
        self._has_infinite = any(non_finite({"": array}) for array in small)
        self._has_wide = any(map(_is_wide, small))
        deadly = {node.name for node in self._proof.deadly}
        self._checks = [_check_of(flat, node, node.name in deadly) for node in found.get(BAD, ())]
        self._used: list[_Check] = []
        self._plan: Plan | None = None

    @property
    def suspects(self) -> tuple[Lack, ...]:
        """What native code may die of."""
        return self._proof.suspects

    def doubt(self, feeds: Mapping[str, NDArray[Any]]) -> str | None:
        """Why these inputs may not go to OpenVINO; None if they may.

        Raises:
            EngineError: TensorFlow would refuse them.
        """
        if self._proof.doubts:
            return f"for {self._proof.doubts[0]}"
        found = self._proof.except_for
        used = {key: feeds[key] for key in self._flat.inputs}
        if EMPTY in found and any(array.size == 0 for array in used.values()):
            return "for empty tensors"
        if NONFINITE in found and (self._has_infinite or non_finite(used)):
            return "for infinities and NaN"
        if WIDE in found and (self._has_wide or any(map(_is_wide, used.values()))):
            return "for integers that do not fit 32 bits"
        if BAD in found:
            return self._check(used)
        return None

    def doubt_of(self, results: Mapping[str, NDArray[Any]]) -> str | None:
        """Why results may not be trusted; None if they may."""
        found = self._proof.except_for
        if EMPTY in found and any(array.size == 0 for array in results.values()):
            return "for empty tensors"
        if WIDE in found and any(map(_is_wide, results.values())):
            return "for integers that do not fit 32 bits"
        return "for infinities and NaN" if NONFINITE in found and non_finite(results) else None

    def _check(self, feeds: Mapping[str, NDArray[Any]]) -> str | None:
        key = tuple((name, array.shape) for name, array in feeds.items())
        if key not in self._shapes:
            self._shapes = {key: self._check_shapes(feeds)}
        if self._shapes[key] is not None:
            return self._shapes[key]
        return self._check_values(feeds)

    def _check_shapes(self, feeds: Mapping[str, NDArray[Any]]) -> str | None:
        """Holds the shapes of all nodes against each other, and prepares the other checks.

        Raises:
            EngineError: They do not fit.
        """
        from tfsmith.ops.inference import Inference, find_conflicts

        graph = self._flat.graph
        nodes = {parse_input(self._flat.inputs[key]).node: array.shape for key, array in feeds.items()}
        changes = {name: graph[name].replace(attrs={"shape": Shape(shape)}) for name, shape in nodes.items()}
        shaped = graph.map_nodes(changes)
        for conflict in find_conflicts(shaped):
            remedy = "check the shapes of the inputs"
            raise EngineError(f"{conflict.op}: {conflict.what}", where=f"node {conflict.node!r}", remedy=remedy)
        inference = Inference(shaped, trust_notes=False)
        for node in self._proof.except_for[BAD]:
            dims = inference.shape(shaped, shaped.inputs_of(node)[0]).dims if node.op in LEAST_RANK else None
            if dims is not None and len(dims) < LEAST_RANK[node.op]:
                what = f"{node.op} failed: a tensor without dimensions"
                raise EngineError(what, where=f"node {node.name!r}", remedy="check the shapes of the inputs")
        self._plan = None
        self._used = []
        for check in self._checks:
            if check.prepare(shaped, inference):
                self._used.append(check)
            elif check.is_needed:
                return f"for what {check.node.name} takes, which cannot be checked before it runs"
        return None

    def _check_values(self, feeds: Mapping[str, NDArray[Any]]) -> str | None:
        """Computes ids and conditions, by themselves, and looks at them.

        Raises:
            EngineError: An id is out of range, or an assertion does not hold.
        """
        if not self._used:
            return None
        import numpy

        if self._plan is None:
            from tfsmith.engines.reference import plan_tensors

            try:
                self._plan = plan_tensors(self._flat, [check.tensor for check in self._used])
            except TfsmithError as error:
                return f"for what cannot be checked before it runs ({error.what})"
        with numpy.errstate(all="ignore"):
            values = self._plan.run([feeds[key] for key in self._flat.inputs])
        for check, array in zip(self._used, values, strict=True):
            check.look(array)
        return None


def _small_constants(graph: Graph) -> Iterator[NDArray[Any]]:
    """The values of constants that are no weights, such as masks."""
    for node in graph:
        found = node.attrs.get("value") if node.op == "Const" else None
        tensor = None if found is None else found.tensor
        if tensor is not None and tensor.dtype.itemsize and (tensor.shape.elements or 0) <= _SMALL:
            yield tensor.numpy()


def _is_wide(array: NDArray[Any]) -> bool:
    """Whether it has integers that do not fit 32 bits with a sign."""
    if array.dtype.kind not in "iu" or array.dtype.itemsize < 4 or not array.size:
        return False
    return int(array.min()) < -(2**31) or int(array.max()) >= 2**31


def _check_of(flat: FlatGraph, node: Node, is_deadly: bool) -> _Check:
    kind = _AssertCheck if node.op == "Assert" else _IdCheck if node.op in ID_INPUTS else _ValueCheck
    return kind(flat, node, is_deadly or _must_be_checked(node))


class _Check(ABC):
    """A node of which TensorFlow refuses some inputs, whatever their shapes.

    Attributes:
        node: The node.
        is_needed: Whether the engine must not run without this check.
        tensor: What is computed to be looked at.
    """

    def __init__(self, flat: FlatGraph, node: Node, is_needed: bool) -> None:
        self.node = node
        self.is_needed = is_needed
        self._sources = flat.graph.inputs_of(node)
        self._at = self._looked_at()
        self.tensor = str(self._at)

    def _looked_at(self) -> Endpoint:
        return self._sources[ID_INPUTS.get(self.node.op, 0)]

    def prepare(self, graph: Graph, inference: Inference) -> bool:
        """Whether it can be computed before a run with these shapes."""
        return _is_whole(graph, self._at)

    @abstractmethod
    def look(self, values: NDArray[Any]) -> None:
        """Looks at the values.

        Raises:
            EngineError: TensorFlow refuses them.
        """

    def _refusal(self, what: str, remedy: str) -> EngineError:
        return EngineError(f"{self.node.op} failed: {what}", where=f"node {self.node.name!r}", remedy=remedy)


class _ValueCheck(_Check):
    """A node that is computed by itself, with all that leads to it; if TensorFlow refuses something, that fails."""

    def _looked_at(self) -> Endpoint:
        return Endpoint(self.node.name, 0)

    def look(self, values: NDArray[Any]) -> None:
        """There is no more to see."""


class _AssertCheck(_Check):
    """An assertion must hold."""

    def look(self, values: NDArray[Any]) -> None:
        if not values.all():
            raise self._refusal("the assertion does not hold", "check the shapes and values of the inputs")


class _IdCheck(_Check):
    """Ids must be in range."""

    _sizes: tuple[int, ...] = ()

    def prepare(self, graph: Graph, inference: Inference) -> bool:
        dims = inference.shape(graph, self._sources[0]).dims
        if dims is None or not super().prepare(graph, inference):
            return False
        if self.node.op == "GatherNd":
            dims = dims[: (inference.shape(graph, self._at).dims or (0,))[-1]]
        elif self.node.op == "GatherV2":
            axis = inference.integers(graph, self._sources[2])
            dims = () if axis is None else dims[axis[0] :][:1]
        else:
            dims = dims[:1]
        self._sizes = dims
        return bool(dims) and all(size >= 0 for size in dims)

    def look(self, values: NDArray[Any]) -> None:
        columns = [values]
        if self.node.op == "GatherNd":
            columns = [values[..., number] for number in range(values.shape[-1])]
        for column, size in zip(columns, self._sizes, strict=True):
            wrong = column[(column < 0) | (column >= size)]
            if wrong.size:
                what = f"index {int(wrong.reshape(-1)[0])} is not in [0, {size})"
                raise self._refusal(what, "check the ids that are fed")


def _is_whole(graph: Graph, tensor: Endpoint) -> bool:
    """Whether all that leads to a tensor are whole numbers, which are quick to compute."""
    for name in graph.ancestors([tensor.node]):
        kind = output_type(graph, graph[name])
        if kind is not None and not kind.base.name.startswith(("int", "uint", "bool", "string")):
            return False
    return True
