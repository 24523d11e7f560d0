"""A model with chosen inputs and outputs, in the forms that engines take. Made once per command."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from tfsmith import records
from tfsmith.engines.feeds import find_input, unknown_input
from tfsmith.engines.protocol import FlatGraph, Port, ProgramFiles, ProgramStart, WriteModel, cut_graph
from tfsmith.errors import LimitError, NotFoundInModelError, UsageError, nearest
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import SERVING_DEFAULT, Collection, MetaGraph, Model, Signature, TensorInfo
from tfsmith.ir.node import Endpoint, parse_input
from tfsmith.ops import PLACEHOLDERS, TABLE_FILLS
from tfsmith.passes.export import ExportOptions, add_main_op, find_assets
from tfsmith.passes.export import export as export_pass
from tfsmith.passes.freeze import FreezeOptions, FrozenGraph
from tfsmith.passes.freeze import freeze as freeze_pass
from tfsmith.passes.interface import (
    check_tensor,
    choose_outputs,
    choose_signature,
    collected,
    init_nodes,
    output_shape,
    output_type,
)
from tfsmith.storage import is_mounted

__all__ = ["FlatProgram", "ModelProgram", "make_program"]

_TAGS = ("serve",)
"""What a SavedModel of a graph without tags gets when it is written."""


def make_program(
    model: Model, outputs: Sequence[str] | None = None, *, signature: str | None = None, inputs: Iterable[str] = ()
) -> ModelProgram:
    """Finds a model's inputs and outputs: by its signature, else by its collections, else what is likely.

    Args:
        model: The model.
        outputs: What to compute: keys of the signature's outputs, or names of any tensors; its outputs by default.
        signature: Which signature.
        inputs: Names that are to be fed: inputs, or inner tensors of the graph, which become inputs.

    Raises:
        NotFoundInModelError: There is no such signature or tensor.
        UsageError: Nothing says what the outputs are.
    """
    chosen = _choose(model, outputs, signature)
    found = None if chosen is None else chosen[1]
    known = {} if outputs and found is None else choose_outputs(model, None, signature)
    ports: dict[str, Port] = {}
    inner: list[str] = []
    for name in outputs or known:
        if name in known:
            ports[name] = _output(model, known[name], found, name)
        elif parse_input(name).node in model.graph or found is None or model.meta.objects is None:
            ports[name] = _output(model, check_tensor(model, name), None, name)
        else:
            inner.append(name)
    program = ModelProgram(model, {}, ports, None if chosen is None else chosen[0], not inner)
    for name in inner:  # of a function: it is there when all calls are inlined
        program = _with_inner(program, name)
    if inner:
        program = dataclasses.replace(program, outputs={name: program.outputs[name] for name in outputs or ()})
    starts = [parse_input(port.tensor).node for port in program.outputs.values()]
    return dataclasses.replace(program, inputs=_inputs(model, found, starts, inner)).feeding(inputs)


def _choose(model: Model, outputs: Sequence[str] | None, signature: str | None) -> tuple[str, Signature] | None:
    """The signature; none is needed where all outputs are named."""
    try:
        return choose_signature(model, signature)
    except UsageError:
        if not outputs:
            raise
        return None


def _output(model: Model, tensor: Endpoint, signature: Signature | None, key: str) -> Port:
    info = None if signature is None else signature.outputs.get(key)
    if info is not None and info.encoding == "dense":
        return Port(str(tensor), info.dtype, info.shape)
    return _port(model.graph, tensor)


def _port(graph: Graph, tensor: Endpoint, *, required: bool = True) -> Port:
    node = graph[tensor.node]
    kind = output_type(graph, node, tensor.output)
    return Port(str(tensor), None if kind is None else kind.base, output_shape(node, tensor.output), required)


def _with_inner(program: ModelProgram, name: str) -> ModelProgram:
    """The program with one more output: a tensor inside of a function."""
    graph = program.frozen.model.graph
    tensor = parse_input(name)
    if tensor.node not in graph:
        near = nearest(tensor.node, graph.by_name)
        remedy = f"the nearest names are {', '.join(near)}" if near else "{show(model, functions=True)} lists them"
        what = f"there is no output and no node {tensor.node!r} in what the signature needs"
        raise NotFoundInModelError(what, path=program.path, remedy=remedy)
    return dataclasses.replace(program, outputs={**program.outputs, name: _port(graph, tensor)})


def _inputs(
    model: Model, signature: Signature | None, outputs: Sequence[str], inner: Sequence[str], fed: Iterable[str] = ()
) -> dict[str, Port]:
    """What is fed, by key: the signature's inputs, what a collection names, and placeholders that the outputs need.

    Args:
        model: The model.
        signature: Its signature, if it has one.
        outputs: The nodes of the outputs.
        inner: Outputs that lie inside of functions.
        fed: Inner tensors that are fed; what only they need is not.
    """
    graph = model.graph
    tensors = {str(check_tensor(model, name)): name for name in fed}
    cut = {parse_input(name).node for name in tensors}
    starts = [name for name in outputs if name in graph]
    if inner and signature is not None:
        starts += [parse_input(info.name).node for info in signature.outputs.values() if info.encoding == "dense"]
    needed = graph.ancestors(starts, known=cut - set(starts)) | cut
    ports: dict[str, Port] = {}
    for key, info in _dense(signature.inputs if signature is not None else {}):
        tensor = parse_input(info.name)
        optional = tensor.node not in needed or _has_default(graph, tensor.node)
        default = signature is not None and key in signature.defaults
        ports[key] = Port(str(tensor), info.dtype, info.shape, not optional and not default)
    if signature is None:
        for candidate in collected(model, "inputs"):
            tensor = parse_input(candidate.tensor)
            required = tensor.node in needed and not _has_default(graph, tensor.node)
            ports[_key(tensor)] = Port(candidate.tensor, candidate.dtype, candidate.shape, required)
    named = {port.tensor for port in ports.values()}
    inside = {parse_input(name).node for name in named} & needed  # what only an inner input needs is never asked for
    if any(graph[name].op not in PLACEHOLDERS for name in inside):
        needed = graph.ancestors(starts, known=(cut | inside) - set(starts))
    for node in graph:
        if node.op in PLACEHOLDERS and node.name in needed and f"{node.name}:0" not in named:
            tensor = Endpoint(node.name, 0)
            ports[_key(tensor)] = _port(graph, tensor, required=not _has_default(graph, node.name))
    named = {port.tensor for port in ports.values()}
    ports.update({name: _port(graph, parse_input(tensor)) for tensor, name in tensors.items() if tensor not in named})
    return ports


def _dense(inputs: Mapping[str, TensorInfo]) -> Iterable[tuple[str, TensorInfo]]:
    """The inputs that are one tensor each; a sparse one is several, numbered as those of outputs are."""
    for key, info in inputs.items():
        if info.encoding == "dense":
            yield key, info
            continue
        for number, (_, part) in enumerate(_dense(info.components)):
            yield f"{key}_{number}", part


def _has_default(graph: Graph, name: str) -> bool:
    return name in graph and graph[name].op == "PlaceholderWithDefault"


def _key(tensor: Endpoint) -> str:
    return tensor.node if tensor.output == 0 else str(tensor)


@dataclasses.dataclass(frozen=True, eq=False)
class ModelProgram:
    """A model with chosen inputs and outputs. Freezing waits until an engine wants it.

    Attributes:
        model: The model.
        inputs: What it takes, by key.
        outputs: What it answers, by key.
        signature: The signature that they are of, if they are.
        is_plain: Whether all outputs are tensors of the graph as it is, none inside of a function.
    """

    model: Model
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    signature: str | None = None
    is_plain: bool = True

    @property
    def path(self) -> Path | None:
        """Where the model lies."""
        return self.model.path

    @property
    def graph(self) -> Graph:
        """The model's graph as it is."""
        return self.model.graph

    def feeding(self, names: Iterable[str]) -> ModelProgram:
        """The program that is fed these: inner tensors among them become inputs, and what only they need is cut off.

        Raises:
            NotFoundInModelError: A name is neither an input nor a tensor of the graph.
        """
        inner = [name for name in names if find_input(self.inputs, name) is None]
        for name in inner:
            if parse_input(name).node not in self.model.graph:
                raise unknown_input(self.inputs, name)
        if not inner:
            return self
        signature = None if self.signature is None else self.model.signatures[self.signature]
        starts = [parse_input(port.tensor).node for port in self.outputs.values()]
        inside = [name for name, port in self.outputs.items() if parse_input(port.tensor).node not in self.model.graph]
        return dataclasses.replace(self, inputs=_inputs(self.model, signature, starts, inside, inner))

    @cached_property
    def frozen(self) -> FrozenGraph:
        """The model without variables. No value is read."""
        return freeze_pass(self.model, self._options())

    def _options(self, *, keep_init: bool = False) -> FreezeOptions:
        if not self.is_plain:
            return FreezeOptions(signature=self.signature, clear_devices=True, keep_init=keep_init, keep_inputs=True)
        names = tuple(dict.fromkeys(port.tensor for port in self.outputs.values()))
        return FreezeOptions(names, clear_devices=True, keep_init=keep_init)

    def _frozen_name(self, frozen: FrozenGraph, port: Port) -> str:
        return frozen.outputs.get(port.tensor, port.tensor) if self.is_plain else self._inner_name(frozen, port)

    def _inner_name(self, frozen: FrozenGraph, port: Port) -> str:
        key = next((key for key, found in self.outputs.items() if found is port), "")
        return frozen.outputs.get(key, port.tensor)

    def flat(self, fed: frozenset[str]) -> FlatGraph:
        """One graph without variables, for a run that feeds these keys."""
        frozen = self.filled or self.frozen
        outputs = {key: self._frozen_name(frozen, port) for key, port in self.outputs.items()}
        inputs = {key: self.inputs[key] for key in self.inputs if key in fed}
        kept = [node.name for node in frozen.model.graph if node.op in TABLE_FILLS]
        return cut_graph(frozen.model.graph, inputs, outputs, kept)

    def start(self) -> ProgramStart | None:
        """What fills the tables, with the files of the model that it reads; None if there is nothing to fill."""
        filled = self.filled
        if filled is None:
            return None
        meta, graph = filled.model.meta, filled.model.graph
        nodes = tuple(init_nodes(meta))
        needed = graph.ancestors(nodes)
        cut = graph.replace(nodes=tuple(node for node in graph if node.name in needed))
        found = {str(parse_input(name)): path for name, path in self._assets(filled.model)}
        assets = {name: path for name, path in found.items() if parse_input(name).node in needed}
        return ProgramStart(cut, nodes, assets)

    def _assets(self, model: Model) -> Iterable[tuple[str, Path]]:
        """Tensors that are the paths of files, with the files of the model that they mean.

        A SavedModel lists them. A graph without such a list may name files of its own folder.
        """
        meta = model.meta
        listed = meta.collections.get("saved_model_assets")
        told = {asset.tensor_name: asset.filename for asset in self.model.meta.assets}
        for message in () if listed is None else listed.messages:
            told[str(message.get("tensor_info", {}).get("name", ""))] = str(message.get("filename", ""))
        beside = {side.name: side for side in self.model.side_files}
        for tensor, name in told.items():
            side = beside.get(f"assets/{name}")
            if side is None or not side.leads_out:
                yield tensor, Path("assets") / name if side is None else side.path
        if self.path is None:
            return
        folder = (self.path if self.path.is_dir() else self.path.parent).resolve()
        for asset in find_assets(meta, model.graph):
            place = (folder / asset.path).resolve()
            if asset.tensor_name not in told and place.is_relative_to(folder):
                yield asset.tensor_name, place

    def files(self, folder: Path, write: WriteModel) -> ProgramFiles:
        """What TensorFlow loads: the model's own files where nobody edited them, else what is written now."""
        own = self._own_files()
        if own is not None:
            return own
        filled = self.filled
        frozen = self.frozen if filled is None else filled
        outputs = {key: self._frozen_name(frozen, port) for key, port in self.outputs.items()}
        inputs = {
            key: port.tensor for key, port in self.inputs.items() if parse_input(port.tensor).node in frozen.model.graph
        }
        if filled is not None:
            target = folder / "saved_model"
            write(frozen.model, target, "saved_model")
            return ProgramFiles("saved_model", target, inputs, outputs, frozen.model.meta.tags or _TAGS)
        try:
            write(frozen.model, folder / "graph.pb", "pb")
        except LimitError:
            return self._large_files(folder / "saved_model", write)
        return ProgramFiles("graph", folder / "graph.pb", inputs, outputs)

    def _named(self) -> tuple[dict[str, str], dict[str, str]]:
        """Inputs and outputs by the names that they have in the model itself."""
        inputs = {key: port.tensor for key, port in self.inputs.items()}
        return inputs, {key: port.tensor for key, port in self.outputs.items()}

    def _own_files(self) -> ProgramFiles | None:
        """The SavedModel as it lies on disk, if it is what we have in memory."""
        model = self.model
        if model.kind != "saved_model" or model.raw is None or model.path is None or not self.is_plain:
            return None
        if is_mounted(model.path):  # TensorFlow would read what was not fetched yet
            return None
        own = model.path / "variables" / "variables"
        if model.checkpoint is not None and model.checkpoint.prefix != own:
            return None
        return ProgramFiles("saved_model", model.path, *self._named(), tags=model.meta.tags)

    def _large_files(self, folder: Path, write: WriteModel) -> ProgramFiles:
        """A model over 2 GiB, which only a SavedModel with its variables can hold."""
        inputs, outputs = self._named()
        tags = self.model.meta.tags or _TAGS
        exported = export_pass(self.model, ExportOptions({SERVING_DEFAULT: (inputs, outputs)}, tags=tags, prune=True))
        write(exported.model, folder, "saved_model")
        return ProgramFiles("saved_model", folder, inputs, outputs, tags)

    @cached_property
    def filled(self) -> FrozenGraph | None:
        """Frozen together with what fills the tables; None if there are none, or nothing in the graph fills them."""
        if not any("Table" in node.op for node in self.frozen.model.graph):
            return None
        meta = self.model.meta
        graph, name = add_main_op(meta, self.model.graph)
        if name is None:
            return None
        fill = {"saved_model_main_op": Collection("node", (name,))}
        whole = records.replace(
            meta, graph_part=Part.of(graph), collections_part=Part.of({**meta.collections, **fill}), raw=None
        )
        model = records.replace(self.model.alone(), meta_graphs=(whole,), raw=None)
        return freeze_pass(model, self._options(keep_init=True))


class FlatProgram:
    """A part of a program, which is one graph without variables, as a program of its own.

    Attributes:
        path: Where the model lies.
        inputs: What it takes, by key; all of that is always fed.
        outputs: What it gives, by key.
        graph: Its nodes.
    """

    def __init__(
        self,
        path: Path | None,
        inputs: Mapping[str, Port],
        outputs: Mapping[str, Port],
        flat: FlatGraph,
        start: ProgramStart | None = None,
    ) -> None:
        self.path = path
        self.inputs = inputs
        self.outputs = outputs
        self.graph = flat.graph
        self._flat = flat
        self._start = start

    def flat(self, fed: frozenset[str]) -> FlatGraph:
        """The graph."""
        return self._flat

    def start(self) -> ProgramStart | None:
        """What fills its tables; None if there is nothing to fill."""
        return self._start

    def files(self, folder: Path, write: WriteModel) -> ProgramFiles:
        """The graph as a file."""
        write(Model("graphdef", (MetaGraph(Part.of(self.graph)),)), folder / "graph.pb", "pb")
        return ProgramFiles("graph", folder / "graph.pb", self._flat.inputs, self._flat.outputs)
