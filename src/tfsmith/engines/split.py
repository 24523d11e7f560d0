"""A program on two engines: OpenVINO for the parts that it is proven for, the reference engine for the rest.

The nodes are put into segments by a topological partition: a node is one segment behind those that it takes from, if
its engine is another. A segment of OpenVINO that multiplies too little to pay for itself goes to the reference engine,
too. What is left is as few segments as possible, which run one after the other; tensors go from one to the next
without a copy. Each segment of OpenVINO has the guard of a whole program, which sees what is fed to the segment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.choose import compile_on, installed_openvino
from tfsmith.engines.guard import Guard
from tfsmith.engines.program import FlatProgram
from tfsmith.engines.protocol import (
    Compiled,
    FlatGraph,
    Lack,
    Options,
    Port,
    Program,
    cut_graph,
    engine_named,
    usual_inputs,
)
from tfsmith.errors import EngineError
from tfsmith.ir.body import free_name
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Endpoint, Node, parse_input
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.ops import CALLS, CONTROL_FLOW, CONVOLUTIONS, GIVEN, PASSES_ON, PRODUCTS, TABLES
from tfsmith.ops.inference import Inference
from tfsmith.ops.traits import leaves_no_trace
from tfsmith.passes.interface import output_type
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SPLIT", "Segment", "SplitProgram", "compile_split", "split_graph"]

SPLIT = "openvino+reference"
"""What the engine of such a program is called."""
_LEAST_WORK = 1 << 20
"""A segment of OpenVINO multiplies at least so often in one run, or the reference engine is as quick."""
_PLACES = 64
"""For how many places of an image a convolution is counted at least."""
_MOST_SEGMENTS = 15
_MOST_STEPS = 8
_HANDLES = ("resource", "variant")
_DEPTH = 8


@record
class Segment:
    """A part of a program that runs on one engine.

    Attributes:
        engine: The engine's name.
        nodes: The names of its nodes, in order; constants and placeholders are not among them.
        inputs: The tensors that it takes from what is fed and from segments before it.
        outputs: The tensors that it gives.
        kept: Nodes that run for what they do, such as assertions.
    """

    engine: str
    nodes: tuple[str, ...]
    inputs: tuple[Endpoint, ...]
    outputs: tuple[Endpoint, ...]
    kept: tuple[str, ...] = ()


def split_graph(flat: FlatGraph, doubtful: Collection[str]) -> tuple[Segment, ...]:
    """Cuts a graph into segments; none if that does not pay, or the graph cannot be cut. Linear.

    Args:
        flat: The graph.
        doubtful: The nodes that OpenVINO may not get.
    """
    graph = flat.graph
    outputs = [parse_input(name) for name in flat.outputs.values()]
    needed = graph.ancestors(dict.fromkeys(tensor.node for tensor in outputs))
    order = [node for node in graph.topological_order() if node.name in needed and node.op not in GIVEN]
    if any(node.op in CONTROL_FLOW for node in order):
        return ()  # the frames of TensorFlow 1's loops cannot be cut
    reference = {node.name for node in order if node.name in doubtful or _is_for_reference(graph, node)}
    levels: dict[str, int] = {}
    for _ in range(_MOST_STEPS):
        levels = _levels(graph, order, reference)
        work = dict.fromkeys((level for level in levels.values() if level % 2), 0)
        for node in order:
            if levels[node.name] % 2:
                work[levels[node.name]] += _work(graph, node)
        idle = {level for level, count in work.items() if count < _LEAST_WORK}
        if not idle:
            break
        reference |= {name for name, level in levels.items() if level in idle}
    count = max(levels.values(), default=0) + 1
    if not any(level % 2 for level in levels.values()) or count > _MOST_SEGMENTS:
        return ()
    return _segments(graph, order, levels, outputs)


def _levels(graph: Graph, order: Iterable[Node], reference: Collection[str]) -> dict[str, int]:
    """The number of each node's segment; those of OpenVINO are odd."""
    levels: dict[str, int] = {}
    for node in order:
        least = max((levels.get(source.node, 0) for source in graph.inputs_of(node)), default=0)
        levels[node.name] = least + (least % 2 == (node.name in reference))
    return levels


def _is_for_reference(graph: Graph, node: Node) -> bool:
    """Whether a node needs the reference engine: it calls functions, has or takes a handle, or is an assertion."""
    if node.op in CALLS or node.op in graph.library or node.op == "Assert":
        return True
    tensors = [source for source in graph.inputs_of(node) if source.output != CONTROL]
    definition = graph.op_def(node.op)
    tensors += [
        Endpoint(node.name, at) for at in range(0 if definition is None else definition.output_count(node.attrs))
    ]
    return any(_kind(graph, tensor) in _HANDLES for tensor in tensors)


def _kind(graph: Graph, tensor: Endpoint) -> str:
    found = output_type(graph, graph[tensor.node], tensor.output)
    return "" if found is None else found.base.name


def _work(graph: Graph, node: Node) -> int:
    """How often a node multiplies at least, for one row, by a weight."""
    if node.op not in PRODUCTS and node.op not in CONVOLUTIONS:
        return 0
    sizes = [_constant_size(graph, source) for source in graph.inputs_of(node)]
    return max(sizes, default=0) * (_PLACES if node.op in CONVOLUTIONS else 1)


def _constant_size(graph: Graph, tensor: Endpoint) -> int:
    node = graph[tensor.node]
    for _ in range(_DEPTH):
        if node.op not in PASSES_ON or not node.inputs:
            break
        node = graph[graph.inputs_of(node)[0].node]
    constant = node.constant
    return 0 if constant is None else constant.shape.elements or 0


def _segments(
    graph: Graph, order: Iterable[Node], levels: Mapping[str, int], outputs: Iterable[Endpoint]
) -> tuple[Segment, ...]:
    """The segments with what they take and give; none if a handle would have to go from one to another."""
    nodes: dict[int, list[Node]] = {}
    for node in order:
        nodes.setdefault(levels[node.name], []).append(node)
    given: dict[int, dict[Endpoint, None]] = {level: {} for level in nodes}
    taken: dict[int, dict[Endpoint, None]] = {level: {} for level in nodes}
    kept: dict[int, dict[str, None]] = {level: {} for level in nodes}
    for level, members in nodes.items():
        for node in members:
            for source in graph.inputs_of(node):
                other = levels.get(source.node, level)
                if source.output == CONTROL:
                    if other != level and _has_effect(graph, graph[source.node]):
                        kept[other][source.node] = None
                elif graph[source.node].op == "Placeholder":
                    taken[level][source] = None
                elif other != level and _kind(graph, source) not in _HANDLES:
                    taken[level][source] = given[other][source] = None
                elif other != level and graph[source.node].op not in TABLES:
                    return ()  # TensorLists and their like
    first = min(nodes)
    for tensor in outputs:
        level = levels.get(tensor.node, first)
        given[level][tensor] = None
        if graph[tensor.node].op == "Placeholder":
            taken[level][tensor] = None
    return tuple(
        Segment(
            "openvino" if level % 2 else "reference",
            tuple(node.name for node in nodes[level]),
            tuple(taken[level]),
            tuple(given[level]),
            tuple(kept[level]),
        )
        for level in sorted(nodes)
    )


def _has_effect(graph: Graph, node: Node) -> bool:
    definition = graph.op_def(node.op)
    return definition is not None and definition.is_stateful and not leaves_no_trace(node.op)


def _program(whole: Program, flat: FlatGraph, inference: Inference, segment: Segment) -> FlatProgram:
    """A segment as a program of its own; its keys are names of tensors.

    Args:
        whole: The program that it is a part of.
        flat: The graph of that program.
        inference: The shapes of the tensors of that graph.
        segment: The segment.
    """
    graph = flat.graph
    inputs = {str(tensor): _port(graph, inference, tensor) for tensor in segment.inputs}
    outputs = {str(tensor): _port(graph, inference, tensor) for tensor in segment.outputs}
    own = frozenset(segment.nodes)
    nodes = [_without_controls(node, graph, own) if node.name in own else node for node in graph]
    for name in segment.kept:
        made = _done(free_name(f"{name}_done", graph), name)
        nodes += made
        outputs[made[-1].name] = Port(f"{made[-1].name}:0", dtype_named("int32"), Shape(()))
    tensors = {key: port.tensor for key, port in outputs.items()}
    cut = cut_graph(graph.replace(nodes=tuple(nodes)), inputs, tensors)
    start = whole.start() if any(node.op in TABLES for node in cut.graph) else None
    return FlatProgram(whole.path, inputs, outputs, cut, start)


def _port(graph: Graph, inference: Inference, tensor: Endpoint) -> Port:
    kind = output_type(graph, graph[tensor.node], tensor.output)
    return Port(str(tensor), None if kind is None else kind.base, inference.shape(graph, tensor))


def _without_controls(node: Node, graph: Graph, own: Collection[str]) -> Node:
    """A node that waits for none but those of its own segment; those before it have run."""
    sources = graph.inputs_of(node)
    if all(source.output != CONTROL or source.node in own for source in sources):
        return node
    pairs = zip(node.inputs, sources, strict=True)
    return node.replace(inputs=tuple(text for text, one in pairs if one.output != CONTROL or one.node in own))


def _done(name: str, waits_for: str) -> list[Node]:
    """Nodes that give something when another has run."""
    import numpy

    from tfsmith.ir.node import Attr
    from tfsmith.ir.tensor import ArrayTensor

    kind = dtype_named("int32")
    one = Node(
        f"{name}/one",
        "Const",
        (),
        {"dtype": kind, "value": Attr("tensor", ArrayTensor(kind, numpy.ones((), numpy.int32)))},
    )
    return [one, Node(name, "Identity", (one.name, f"^{waits_for}"), {"T": kind})]


def compile_split(program: Program, options: Options, lacks: Iterable[Lack]) -> SplitProgram | None:
    """Makes a program ready to run on OpenVINO and the reference engine; None if it cannot be, or that does not pay.

    Args:
        program: The program.
        options: How to run it.
        lacks: What OpenVINO lacks for it, or is not proven for.
    """
    number = installed_openvino()
    if number is None or options.op_libraries or engine_named("reference").lacks(program):
        return None
    try:
        return SplitProgram(program, options, number, tuple(lacks))
    except EngineError:
        return None


class SplitProgram:
    """A program in segments. Which optional inputs are fed decides what they are.

    Raises:
        EngineError: It cannot be split, or that does not pay.
    """

    def __init__(self, program: Program, options: Options, number: str, lacks: tuple[Lack, ...]) -> None:
        self._program = program
        self._options = options
        self._number = number
        self._lacks = lacks
        self._parts: dict[frozenset[str], _Parts] = {}
        self.version = self._of(usual_inputs(program)).version

    @property
    def notes(self) -> tuple[str, ...]:
        """Which engine has what, and why; and what the segments say."""
        return tuple(dict.fromkeys(note for parts in self._parts.values() for note in parts.notes))

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once, one segment after the other."""
        return self._of(frozenset(feeds)).run(feeds)

    def close(self) -> None:
        """Lets go of the engines; may be called again."""
        for parts in self._parts.values():
            parts.close()
        self._parts.clear()

    def __enter__(self) -> SplitProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _of(self, fed: frozenset[str]) -> _Parts:
        if fed not in self._parts:
            self._parts[fed] = _Parts(self._program, self._options, self._number, self._lacks, fed)
        return self._parts[fed]


class _Parts:
    """The compiled segments for one choice of what is fed."""

    def __init__(
        self, program: Program, options: Options, number: str, lacks: tuple[Lack, ...], fed: frozenset[str]
    ) -> None:
        self._flat = program.flat(fed)
        guard = Guard(self._flat, number)
        reasons = [*lacks, *guard.proof.doubts, *guard.static_doubts()]
        doubtful = {name for lack in reasons for name in lack.nodes}
        self._segments = split_graph(self._flat, doubtful)
        if not self._segments:
            raise EngineError("it cannot be split", path=program.path, remedy="run it on one engine")
        self._path = program.path
        inference = Inference(self._flat.graph, trust_notes=False)
        self._compiled: list[Compiled] = []
        self._programs = [_program(program, self._flat, inference, one) for one in self._segments]
        try:
            for one, part in zip(self._segments, self._programs, strict=True):
                self._compiled.append(compile_on(engine_named(one.engine), part, options, only_proven=True))
        except BaseException:
            self.close()
            raise
        self.version = ", ".join(dict.fromkeys(f"{one.engine} {made.version}" for one, made in self._made()))
        counts = {
            name: sum(len(one.nodes) for one in self._segments if one.engine == name)
            for name in ("openvino", "reference")
        }
        self._note = (
            f"{counts['openvino']} nodes run on openvino and {counts['reference']} on reference, "
            f"in {len(self._segments)} segments; openvino is not proven for {reasons[0]}"
        )

    def _made(self) -> Iterable[tuple[Segment, Compiled]]:
        return zip(self._segments, self._compiled, strict=True)

    @property
    def notes(self) -> tuple[str, ...]:
        return (self._note, *(note for made in self._compiled for note in made.notes))

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        values = {str(parse_input(name)): feeds[key] for key, name in self._flat.inputs.items()}
        for part, made in zip(self._programs, self._compiled, strict=True):
            values |= made.run({key: values[key] for key in part.inputs})
        given = {id(array) for array in feeds.values()}
        results: dict[str, NDArray[Any]] = {}
        for key, name in self._flat.outputs.items():
            found = values[str(parse_input(name))]
            results[key] = found.copy() if id(found) in given else found
            given.add(id(found))
        return results

    def close(self) -> None:
        for made in self._compiled:
            made.close()
