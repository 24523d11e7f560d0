"""What an engine is: it says what it lacks, compiles a program, and runs it with arrays. And the engines by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tfsmith.errors import EngineError, UsageError
from tfsmith.ir.body import free_name
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import CONTROL, Endpoint, Node, parse_input
from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.records import field, record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Port",
    "Lack",
    "LackError",
    "FlatGraph",
    "ProgramFiles",
    "ProgramStart",
    "WriteModel",
    "Program",
    "Clock",
    "Options",
    "Compiled",
    "Engine",
    "ENGINES",
    "engine_named",
    "cut_graph",
    "usual_inputs",
]

_SHOWN_NODES = 3
_SHOWN_LACKS = 10


@record
class Port:
    """An input or output of a program.

    Attributes:
        tensor: Its name in the model's graph, such as "x:0".
        dtype: Its type; None if the model does not say it.
        shape: Its shape, as far as the model says it.
        required: Whether the outputs need it. Inputs that they do not need, or that have a default, may be left out.
    """

    tensor: str
    dtype: DType | None
    shape: Shape
    required: bool = True

    def wants(self) -> str:
        """What it takes, in words: "float32 [?, 4]"."""
        return f"{'any type' if self.dtype is None else self.dtype.base} {self.shape}"


@record
class Lack:
    """Something that an engine cannot do: an op, the nodes that have it, and why."""

    op: str
    nodes: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        shown = ", ".join(self.nodes[:_SHOWN_NODES])
        more = f" and {len(self.nodes) - _SHOWN_NODES} more" if len(self.nodes) > _SHOWN_NODES else ""
        return f"{self.op} ({shown}{more}): {self.reason}" if shown else f"{self.op}: {self.reason}"


class LackError(EngineError):
    """An engine lacks what a model needs; `lacks` says what, op by op."""

    def __init__(self, engine: str, lacks: Iterable[Lack], *, path: Path | None = None, remedy: str = "") -> None:
        self.lacks = tuple(lacks)
        told = "; ".join(map(str, self.lacks[:_SHOWN_LACKS]))
        if len(self.lacks) > _SHOWN_LACKS:
            told += f"; and {len(self.lacks) - _SHOWN_LACKS} more ops"
        super().__init__(f"{engine} lacks what this model needs: {told}", path=path, remedy=remedy)


@record
class FlatGraph:
    """A program as one graph without variables.

    Attributes:
        graph: The nodes that the outputs need, and no others.
        inputs: For each key the tensor that is fed; keys that the graph does not need are left out.
        outputs: For each key the tensor that is the answer.
    """

    graph: Graph
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]


@record
class ProgramFiles:
    """A program on disk, as TensorFlow loads it.

    Attributes:
        kind: A SavedModel folder, whose loader restores variables and fills tables, or a GraphDef without either.
        path: The folder or file.
        inputs: For each key the tensor that is fed.
        outputs: For each key the tensor that is the answer.
        tags: The tag set of a SavedModel.
    """

    kind: Literal["saved_model", "graph"]
    path: Path
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    tags: tuple[str, ...] = ()


@record
class ProgramStart:
    """What must run once before a program runs first: what fills its tables.

    Attributes:
        graph: A graph without variables that has these nodes.
        nodes: The nodes to run.
        assets: For each tensor that is the path of a file of the model, where the file lies.
    """

    graph: Graph
    nodes: tuple[str, ...]
    assets: Mapping[str, Path]


WriteModel = Callable[[Model, Path, Literal["pb", "saved_model"]], None]
"""Writes a model in one of the forms that TensorFlow loads. The verbs bring it, for only they know the formats."""


class Program(Protocol):
    """A model with chosen inputs and outputs. Each engine takes from it the form that it runs."""

    @property
    def path(self) -> Path | None:
        """Where the model lies, for messages."""
        ...

    @property
    def inputs(self) -> Mapping[str, Port]:
        """What it takes, by key."""
        ...

    @property
    def outputs(self) -> Mapping[str, Port]:
        """What it answers, by key."""
        ...

    @property
    def graph(self) -> Graph:
        """The model's graph as it is, with variables and calls."""
        ...

    def flat(self, fed: frozenset[str]) -> FlatGraph:
        """One graph without variables, for a run that feeds these keys. No value is read."""
        ...

    def start(self) -> ProgramStart | None:
        """What must run once before the first run; None if there is nothing. No value is read."""
        ...

    def files(self, folder: Path, write: WriteModel) -> ProgramFiles:
        """What TensorFlow loads: the model's own files, or what `write` writes into `folder`."""
        ...


def usual_inputs(program: Program) -> frozenset[str]:
    """The keys of the inputs that must be fed."""
    return frozenset(key for key, port in program.inputs.items() if port.required)


class Clock:
    """Takes what each node takes, from engines that say so: the reference engine and OpenVINO.

    Attributes:
        times: Seconds by the function that a node is in, "" for the graph, and the node's name; of all runs together.
    """

    def __init__(self) -> None:
        self.times: dict[tuple[str, str], float] = {}

    def add(self, function: str, node: str, seconds: float) -> None:
        """Adds to the time of a node."""
        self.times[function, node] = self.times.get((function, node), 0.0) + seconds


@record
class Options:
    """How an engine is to run a program.

    Attributes:
        write: Writes models for engines that load files.
        op_libraries: Shared libraries with ops that TensorFlow lacks.
        settings: Settings of the engine itself, by its own names.
        isolate: Whether native code that is not proven runs in a process of its own.
        clock: Where to say what each node takes, if somebody asks; that slows a run down.
    """

    write: WriteModel
    op_libraries: tuple[Path, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    isolate: bool = True
    clock: Clock | None = None


class Compiled(Protocol):
    """A program that is ready to run, as often as wanted."""

    @property
    def version(self) -> str:
        """The version of the engine."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """What the user should know of how it computes."""
        ...

    def run(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once: arrays by input key to arrays by output key.

        Raises:
            EngineError: The engine failed.
        """
        ...

    def close(self) -> None:
        """Lets go of everything; may be called again."""
        ...

    def __enter__(self) -> Compiled: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Engine(Protocol):
    """Something that runs programs."""

    @property
    def name(self) -> str:
        """What users call it."""
        ...

    def available(self) -> str | None:
        """None if it is installed, else what to do about that. Imports nothing."""
        ...

    def lacks(self, program: Program) -> tuple[Lack, ...]:
        """What the program needs and the engine has not; runs nothing."""
        ...

    def compile(self, program: Program, options: Options) -> Compiled:
        """Makes a program ready to run.

        Raises:
            LackError: The engine lacks what the program needs.
            EngineError: The engine is not installed, or failed.
        """
        ...


ENGINES = ("openvino", "reference", "tensorflow")
_HOMES = MappingProxyType({"openvino": "OpenVino", "reference": "Reference", "tensorflow": "TensorFlow"})


def engine_named(name: str) -> Engine:
    """The engine called so. Only its own file is loaded.

    Raises:
        UsageError: There is none.
    """
    if name not in _HOMES:
        remedy = f"choose {', '.join(('auto', *ENGINES[:-1]))} or {ENGINES[-1]}"
        raise UsageError(f"there is no engine {name!r}", remedy=remedy)
    found: Engine = getattr(import_module(f"tfsmith.engines.{name}"), _HOMES[name])()
    return found


def cut_graph(graph: Graph, fed: Mapping[str, Port], outputs: Mapping[str, str], kept: Iterable[str] = ()) -> FlatGraph:
    """The part of a graph between what is fed and the outputs. Linear; no value is read.

    Args:
        graph: A graph without variables.
        fed: What is fed, by key.
        outputs: The tensors that are wanted, by key.
        kept: Nodes that stay with what they need, though no output needs them: those that fill tables.
    """
    added: list[Node] = []
    moved: dict[Endpoint, str] = {}
    inputs: dict[str, str] = {}
    for key, port in fed.items():
        tensor = parse_input(port.tensor)
        node = graph.by_name.get(tensor.node)
        if node is None:
            continue  # nothing needs it
        inputs[key] = str(tensor)
        if node.op == "Placeholder":
            continue
        name = free_name(f"{tensor.node}_{tensor.output}_fed", graph, set(moved.values()))
        kind = dtype_named("float32") if port.dtype is None else port.dtype.base
        added.append(Node(name, "Placeholder", (), {"dtype": kind, "shape": port.shape}))
        moved[tensor] = name
        inputs[key] = f"{name}:0"
    nodes = tuple(_rewired(node, graph, moved) for node in graph) if moved else graph.nodes
    nodes = tuple(node.replace(op="Identity", attrs={"shape": None, "T": node.get("dtype"), "dtype": None})
                  if node.op == "PlaceholderWithDefault" else node for node in nodes)  # fmt: skip
    cut = graph.replace(nodes=(*nodes, *added))
    wanted = {key: _moved(parse_input(name), moved) for key, name in outputs.items()}
    needed = cut.ancestors(dict.fromkeys([*(parse_input(name).node for name in wanted.values()), *kept]))
    return FlatGraph(
        cut.replace(nodes=tuple(node for node in cut if node.name in needed)),
        {key: name for key, name in inputs.items() if parse_input(name).node in needed},
        wanted,
    )


def _moved(tensor: Endpoint, moved: Mapping[Endpoint, str]) -> str:
    return f"{moved[tensor]}:0" if tensor in moved else str(tensor)


def _rewired(node: Node, graph: Graph, moved: Mapping[Endpoint, str]) -> Node:
    sources = graph.inputs_of(node)
    if not any(source in moved for source in sources):
        return node
    pairs = zip(node.inputs, sources, strict=True)
    return node.replace(
        inputs=tuple(text if source.output == CONTROL else moved.get(source, text) for text, source in pairs)
    )
