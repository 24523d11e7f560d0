"""Thawing: the constants of a frozen graph become variables again. An ordinary pass; no value is read."""

from __future__ import annotations

import re
from collections.abc import Collection as AnyCollection
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from tfsmith.errors import Note, UsageError, nearest
from tfsmith.ir.body import FreeNames, Part, Use
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import PREDICT, Collection, MetaGraph, Model, Signature
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.tensor import FilledTensor, StringTensor, Tensor, integer_tensor
from tfsmith.ir.types import SCALAR, DType, Shape, dtype_named
from tfsmith.ops import BATCH_NORMS, VARIABLES
from tfsmith.passes.export import AssetFile, add_main_op, find_assets, meta_info, side_assets
from tfsmith.passes.former_variables import Signs
from tfsmith.passes.interface import (
    INIT_COLLECTIONS,
    INIT_SIGNATURE,
    Interface,
    collected,
    make_signatures,
    tensor_names,
)
from tfsmith.passes.saver import SavedVariable, add_saver, free_scope
from tfsmith.passes.variables import CheckpointContent, Place, store
from tfsmith.passes.variables_to_constants import added_read, const_to_handle, identity_to_read, renamed_input
from tfsmith.records import field, record

__all__ = ["MIN_ELEMENTS", "Wanted", "Choice", "choose_constants", "is_float", "ThawOptions", "ThawedGraph", "thaw"]

MIN_ELEMENTS = 1024
"""So many elements make a constant large, if nobody says another number."""
_FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})


@record
class Wanted:
    """What the user asked for: the least size (None: large ones, and all that were variables), and globs of names."""

    min_elements: int | None = None
    only: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()


@record
class Choice:
    """The constants that become variables, by name, and what the user should know about them."""

    values: dict[str, Tensor]
    notes: tuple[Note, ...]


def is_float(tensor: Tensor) -> bool:
    """Whether a tensor can be trained."""
    return tensor.dtype.name in _FLOATS


def choose_constants(model: Model, wanted: Wanted, kept: AnyCollection[str]) -> Choice:
    """The constants that are large, that were variables, or that the user named; in the file's order. Reads no value.

    Args:
        model: The frozen model.
        wanted: What the user asked for.
        kept: Nodes that must stay as they are, because they are inputs or outputs.

    Raises:
        UsageError: There is none, or a glob fits none.
    """
    if wanted.min_elements is not None and wanted.min_elements < 0:
        raise UsageError(f"{{min_elements={wanted.min_elements}}} cannot be", remedy="pass 0 or more")
    graph = model.graph
    constants = [node for node in graph if node.op == "Const" and _is_named(node.name, wanted)]
    _check_globs(model, wanted.only, constants)
    _check_globs(model, wanted.excluded, [node for node in graph if node.op == "Const"])
    signs = Signs(graph)
    values: dict[str, Tensor] = {}
    bare: list[str] = []
    stuck: list[str] = []
    for node in constants:
        tensor = _value(node)
        if tensor is None:
            continue
        was_variable = signs.was_variable(node.name)
        if not _is_wanted(node.name, tensor, wanted, was_variable):
            continue
        if node.inputs or node.name in kept:
            stuck.append(node.name)
        elif graph.consumers(node.name):
            values[node.name] = tensor
            bare += [] if was_variable else [node.name]
    if not values:
        raise _nothing(model, wanted, constants, stuck)
    return Choice(values, tuple(_notes(bare if len(bare) < len(values) else [], stuck)))


def _is_named(name: str, wanted: Wanted) -> bool:
    if wanted.only and not any(fnmatchcase(name, glob) for glob in wanted.only):
        return False
    return not any(fnmatchcase(name, glob) for glob in wanted.excluded)


def _is_wanted(name: str, tensor: Tensor, wanted: Wanted, was_variable: bool) -> bool:
    """A number rules; without one, a constant that was a variable or is named in full counts whatever its size."""
    if not (is_float(tensor) or was_variable or name in wanted.only or (wanted.only and tensor.dtype.itemsize)):
        return False
    size = tensor.shape.elements or 0
    if wanted.min_elements is not None:
        return size >= wanted.min_elements
    return size >= MIN_ELEMENTS or was_variable or name in wanted.only


def _check_globs(model: Model, globs: Sequence[str], constants: Sequence[Node]) -> None:
    for glob in globs:
        if any(fnmatchcase(node.name, glob) for node in constants):
            continue
        near = nearest(glob.strip("*?"), (node.name for node in model.graph if node.op == "Const"))
        remedy = f"the nearest names are {', '.join(near)}" if near else "{show(model, nodes=True)} lists them"
        raise UsageError(f"no constant of the graph is called {glob!r}", path=model.path, remedy=remedy)


def _nothing(model: Model, wanted: Wanted, constants: Sequence[Node], stuck: Sequence[str]) -> UsageError:
    """Why there is nothing to thaw, and what to do about it."""
    least = MIN_ELEMENTS if wanted.min_elements is None else wanted.min_elements
    what = f"there is nothing to thaw: no constant has {least} elements"
    what += " or was a variable" if wanted.min_elements is None else ""
    if stuck:
        what = f"there is nothing to thaw: {stuck[0]!r} waits for other nodes, or is itself an input or output"
        return UsageError(what, path=model.path, remedy="thaw other constants")
    if any(_has_large(function.nodes, least) for function in model.graph.library.values()):
        remedy = "its constants are in functions: freeze it first, which makes one flat graph ({freeze(model)})"
        return UsageError(what, path=model.path, remedy=remedy)
    sizes = {node.name: _float_elements(node) for node in constants if _float_elements(node)}
    if not sizes:
        return UsageError(what, path=model.path, remedy="it has no constants of floats at all; is this the right file?")
    largest = max(sizes, key=lambda name: sizes[name])
    remedy = f"the largest of floats is {largest!r} with {sizes[largest]}; ask for less ({{min_elements=N}})"
    return UsageError(what, path=model.path, remedy=remedy)


def _value(node: Node) -> Tensor | None:
    """The value of a constant, if it is one that a variable can hold."""
    tensor = node.constant
    if tensor is None:
        return None
    can_hold = tensor.dtype.itemsize or tensor.dtype.name == "string"
    return tensor if can_hold and node.get("dtype") == tensor.dtype else None


def _float_elements(node: Node) -> int:
    tensor = _value(node)
    return (tensor.shape.elements or 0) if tensor is not None and is_float(tensor) else 0


def _has_large(nodes: Sequence[Node], least: int) -> bool:
    return any(_float_elements(node) >= max(1, least) for node in nodes)


def _notes(bare: Sequence[str], stuck: Sequence[str]) -> list[Note]:
    notes: list[Note] = []
    if bare:
        remedy = "the original checkpoint may lack them; {excluded} leaves them constants"
        notes.append(Note("large constants that show no sign of having been variables", tuple(bare), remedy))
    if stuck:
        remedy = "they wait for other nodes, or are themselves inputs or outputs"
        notes.append(Note("constants that stay what they are", tuple(stuck), remedy))
    return notes


_INT32, _INT64 = dtype_named("int32"), dtype_named("int64")
_STATISTICS = re.compile(r"(^|/)(moving_(mean|variance|average)|ExponentialMovingAverage|global_step)(_\d+)?(/|$)")


@record
class ThawOptions:
    """What thawing may be told.

    Attributes:
        min_elements: Thaw the constants with so many elements or more, and no others. By default those with 1024, and
            smaller ones whose readers show that they were variables.
        only: Globs of constants to thaw; integers count too. A name in full counts whatever its size.
        excluded: Globs of constants to leave as they are.
        signatures: For each signature, its inputs and outputs: keys to tensor names. Empty: those that the model has,
            else the likely ones.
        method_name: The method of new signatures.
        kind: What to make: a SavedModel, or a `.meta` with its checkpoint, which needs no signature.
    """

    min_elements: int | None = None
    only: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    signatures: Interface = field(default_factory=dict)
    method_name: str = PREDICT
    kind: Literal["saved_model", "metagraph"] = "saved_model"


@record
class ThawedGraph:
    """What thawing gave.

    Attributes:
        model: The model, with its variables.
        variables: For each variable's node, its key in the checkpoint.
        trainable: The nodes of those that an optimizer should change.
        assets: The files that fill its tables, where the model did not have them among its assets.
        notes: What the user should know.
    """

    model: Model
    variables: Mapping[str, str]
    trainable: tuple[str, ...]
    assets: tuple[AssetFile, ...]
    notes: tuple[Note, ...]


def thaw(model: Model, options: ThawOptions) -> ThawedGraph:
    """Thaws the selected meta graph.

    Raises:
        NotFoundInModelError: A tensor of a signature is not there.
        UsageError: There is nothing to thaw, it has variables already, or nothing says what the outputs are.
    """
    _require_frozen(model)
    meta = model.meta
    signatures = _signatures(model, options)
    choice = choose_constants(
        model, Wanted(options.min_elements, options.only, options.excluded), _kept(model, signatures)
    )
    stored = store(model.graph, choice.values)
    trainable = {name for name, value in choice.values.items() if _is_trainable(model.graph, name, value)}
    graph, definitions = _thaw_graph(model.graph, choice.values, stored.places, trainable)
    graph, main_op = add_main_op(meta, graph) if options.kind == "saved_model" else (graph, None)
    graph, saver = add_saver(graph, _saved(graph, stored), sharded=options.kind == "saved_model")
    told = {asset.tensor_name: asset for asset in meta.assets}
    found = find_assets(meta, graph) if options.kind == "saved_model" else []
    assets = [asset for asset in found if asset.tensor_name not in told]
    tags = (meta.tags or ("serve",)) if options.kind == "saved_model" else ()
    thawed = MetaGraph(
        graph_part=Part.of(graph),
        info_part=Part.of(meta_info(meta, graph, tags)),
        saver_part=Part.of(saver),
        collections_part=Part.of(_collections(meta, definitions, main_op)),
        signatures_part=Part.of(signatures),
        assets_part=Part.of((*told.values(), *(asset.definition() for asset in assets))),
    )
    sides, origins = side_assets(model), model.origins
    result = Model(options.kind, (thawed,), stored.tensors, path=model.path, side_files=sides, origins=origins)
    keys = {name: place.key for name, place in stored.places.items()}
    return ThawedGraph(result, keys, tuple(name for name in keys if name in trainable), tuple(assets), choice.notes)


def _require_frozen(model: Model) -> None:
    if not model.has_graph:
        raise model.no_graph()
    there = [node.name for node in model.graph if node.op in VARIABLES]
    if not there:
        return
    what = f"the graph has {len(there)} variables already, such as {there[0]!r}"
    remedy = "thaw is for frozen graphs; {export(model)} makes a SavedModel of this one"
    raise UsageError(what, path=model.path, remedy=remedy)


def _signatures(model: Model, options: ThawOptions) -> Mapping[str, Signature]:
    if options.kind == "saved_model" or options.signatures:
        return make_signatures(model, model.graph, options.signatures, options.method_name, guess=True)
    return {key: found for key, found in model.signatures.items() if key != INIT_SIGNATURE}


def _kept(model: Model, signatures: Mapping[str, Signature]) -> set[str]:
    """The nodes that are fed or fetched by name, which a handle cannot stand for."""
    infos = [info for found in signatures.values() for info in (*found.inputs.values(), *found.outputs.values())]
    names = [name for info in infos for name in tensor_names(info)]
    names += [found.tensor for key in ("inputs", "outputs") for found in collected(model, key)]
    return {parse_input(name).node for name in names}


def _is_trainable(graph: Graph, name: str, value: Tensor) -> bool:
    """Whether training changes a variable: floats, but no statistics, which are gathered."""
    if not is_float(value) or _STATISTICS.search(name):
        return False
    seen, takers = {name}, [name]
    uses: list[Use] = []
    for source in takers:  # grows while it is walked
        for use in graph.consumers(source):
            if use.node.op != "Identity":
                uses.append(use)
            elif use.node.name not in seen:
                seen.add(use.node.name)
                takers.append(use.node.name)
    return not uses or not all(use.node.op in BATCH_NORMS and use.input in (3, 4) for use in uses)


def _thaw_graph(
    graph: Graph, values: Mapping[str, Tensor], places: Mapping[str, Place], trainable: set[str]
) -> tuple[Graph, list[dict[str, Any]]]:
    """The graph with variables, what they need behind the old nodes; and the variables' definitions."""
    work = _Work(graph)
    for name, tensor in values.items():
        work.thaw(graph[name], tensor, places[name], name in trainable)
    init = Node(free_scope(graph, "init"), "NoOp", tuple(f"^{found['initializer_name']}" for found in work.definitions))
    nodes = (*(work.changes.get(node.name, node) for node in graph), *work.added, init)
    return graph.replace(nodes=nodes), work.definitions


class _Work:
    """One graph under thawing."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._taken = FreeNames(graph.by_name)
        self.changes: dict[str, Node] = {}
        self.added: list[Node] = []
        self.definitions: list[dict[str, Any]] = []

    def thaw(self, const: Node, tensor: Tensor, place: Place, trainable: bool) -> None:
        """Makes a constant a variable, with the nodes that TensorFlow gives every variable."""
        name = const.name
        handle = self.changes[name] = const_to_handle(const, tensor)
        initial = self._zeros(f"{name}/Initializer/zeros", tensor.dtype, tensor.shape)
        self._add(Node(self._taken.take(f"{name}/IsInitialized/VarIsInitializedOp"), "VarIsInitializedOp", (name,)))
        kind = {"dtype": tensor.dtype}
        assign = self._add(Node(self._taken.take(f"{name}/Assign"), "AssignVariableOp", (name, initial), kind))
        read = self._add(added_read(self._taken.take(f"{name}/Read/ReadVariableOp"), handle))
        self._rewire(name, read, tensor.dtype)
        definition: dict[str, Any] = {
            "variable_name": f"{name}:0",
            "initializer_name": assign,
            "snapshot_name": f"{read}:0",
            "initial_value_name": f"{initial}:0",
            "is_resource": True,
            "trainable": trainable,
        }
        if place.full:
            shapes = {"full_shape": place.full, "var_offset": place.start, "var_shape": place.shape}
            definition["save_slice_info_def"] = {"full_name": place.key, **shapes}
        self.definitions.append(definition)

    def _rewire(self, name: str, read: str, kind: DType) -> None:
        """An Identity of the constant becomes a read; all others take the read that was added."""
        for use in self._graph.consumers(name):
            node = self.changes.get(use.node.name, use.node)
            if use.node.op == "Identity" and use.input == 0:
                self.changes[node.name] = identity_to_read(node, kind)
                continue
            inputs = list(node.inputs)
            inputs[use.input] = renamed_input(inputs[use.input], {name: read})
            self.changes[node.name] = node.replace(inputs=tuple(inputs))

    def _zeros(self, name: str, kind: DType, shape: Shape) -> str:
        """What a variable holds before it is restored."""
        index = _INT32 if all(dim < 2**31 for dim in shape.dims or ()) else _INT64
        dims = integer_tensor(shape.dims or (), index)
        zero = FilledTensor(kind, SCALAR, b"") if kind.itemsize else StringTensor(SCALAR, (b"",))
        free = self._taken.take
        size = self._add(Node(free(f"{name}/shape_as_tensor"), "Const", (), {"dtype": index, "value": dims}))
        value = self._add(Node(free(f"{name}/Const"), "Const", (), {"dtype": kind, "value": zero}))
        return self._add(Node(free(name), "Fill", (size, value), {"T": kind, "index_type": index}))

    def _add(self, node: Node) -> str:
        self.added.append(node)
        return node.name


def _saved(graph: Graph, stored: CheckpointContent) -> list[SavedVariable]:
    return [SavedVariable(graph[name], place.key, place.extents) for name, place in stored.places.items()]


def _collections(meta: MetaGraph, definitions: list[dict[str, Any]], main_op: str | None) -> dict[str, Collection]:
    """The model's own collections but for variables that it no longer has, and those of the variables."""
    kept = {key: found for key, found in meta.collections.items() if key != "savers" and not _is_of_variables(found)}
    kept["variables"] = Collection.of_messages(definitions)
    kept["trainable_variables"] = Collection.of_messages([found for found in definitions if found["trainable"]])
    if main_op is not None:
        kept = {key: found for key, found in kept.items() if key not in INIT_COLLECTIONS}
        kept[INIT_COLLECTIONS[0]] = Collection("node", (main_op,))
    return {key: found for key, found in kept.items() if found.values}


def _is_of_variables(collection: Collection) -> bool:
    return collection.kind == "bytes" and any("variable_name" in message for message in collection.messages)
