"""Export: a training run's graph and checkpoint become a SavedModel with real variables. No value is read."""

from __future__ import annotations

from collections.abc import Mapping

from tfsmith.errors import Note, NotFoundInModelError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph, check_graph
from tfsmith.ir.model import PREDICT, Asset, Collection, MetaGraph, MetaInfo, Model, Saver, SideFile, Signature
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.opdef import OpDef, builtin_ops
from tfsmith.ir.tensor import StringTensor, Tensor
from tfsmith.ir.types import Shape
from tfsmith.ops import FILES_OF_TABLES, TABLE_FILLS, VARIABLES
from tfsmith.passes.interface import (
    INIT_COLLECTIONS,
    Interface,
    check_shapes,
    check_tensor,
    find_training,
    init_nodes,
    input_keys,
    input_shapes,
    make_signatures,
    set_input_shapes,
    tensor_names,
)
from tfsmith.passes.prune import clean_colocation, prune, prune_library
from tfsmith.passes.saver import SavedVariable, add_saver, free_scope
from tfsmith.passes.variables import CheckpointSlice, find_source, find_value, restore_sources
from tfsmith.records import field, record

__all__ = [
    "AssetFile",
    "add_main_op",
    "find_assets",
    "ExportOptions",
    "ExportedGraph",
    "export",
    "meta_info",
    "side_assets",
]


@record
class AssetFile:
    """A file that a table is filled from: the tensor that names it, and its path as the graph has it."""

    tensor_name: str
    path: str

    def definition(self) -> Asset:
        """How a SavedModel tells of it: by its name among the assets."""
        return Asset(self.tensor_name, self.path.replace("\\", "/").rpartition("/")[2])


def add_main_op(meta: MetaGraph, graph: Graph) -> tuple[Graph, str | None]:
    """The graph with a node that fills all tables, and that node's name; None if there is nothing to fill.

    A node that the model has for it already is used as it is.
    """
    there = [name for name in init_nodes(meta) if name in graph]
    if len(there) == 1:
        return graph, there[0]
    collected = meta.collections.get("table_initializer")
    names = there or [parse_input(name).node for name in (collected.values if collected is not None else ())]
    names = [name for name in names if name in graph] or [node.name for node in graph if node.op in TABLE_FILLS]
    if not names:
        return graph, None
    name = free_scope(graph, "init_all_tables")
    node = Node(name, "NoOp", tuple(f"^{found}" for found in dict.fromkeys(names)))
    return graph.replace(nodes=(*graph.nodes, node)), name


def find_assets(meta: MetaGraph, graph: Graph) -> list[AssetFile]:
    """The files that the graph reads when its tables are filled, by the constants that name them."""
    named = meta.collections.get("asset_filepaths")
    tensors = [parse_input(name).node for name in (named.values if named is not None and named.kind == "node" else ())]
    for node in graph:
        position = FILES_OF_TABLES.get(node.op)
        if position is not None and position < len(node.inputs):
            tensors.append(graph.resolve(node.inputs[position]).node)
    found: dict[str, AssetFile] = {}
    for name in tensors:
        value = graph[name].get("value") if name in graph and graph[name].op == "Const" else None
        if isinstance(value, StringTensor) and value.shape.elements == 1:
            found[name] = AssetFile(f"{name}:0", value.numpy().reshape(-1)[0].decode("utf-8", "replace"))
    return list(found.values())


_KEPT_COLLECTIONS = ("variables", "trainable_variables", "model_variables", "local_variables", "table_initializer")


@record
class ExportOptions:
    """What exporting may be told.

    Attributes:
        signatures: For each signature, its inputs and outputs: keys to tensor names. Empty: those that the model has,
            else its collections `inputs` and `outputs`.
        method_name: The method of new signatures.
        tags: The tag set.
        batch_size: Fixes the first dimension of every placeholder.
        input_shapes: New shapes of placeholders, by name.
        all_variables: Whether to keep variables that the outputs do not need.
        prune: Whether to drop nodes that the outputs do not need.
    """

    signatures: Interface = field(default_factory=dict)
    method_name: str = PREDICT
    tags: tuple[str, ...] = ("serve",)
    batch_size: int | None = None
    input_shapes: Mapping[str, Shape] = field(default_factory=dict)
    all_variables: bool = False
    prune: bool = False


@record
class ExportedGraph:
    """What exporting gave: the SavedModel, the files it reads, the variables it keeps, and what to beware of."""

    model: Model
    assets: tuple[AssetFile, ...]
    variables: tuple[str, ...]
    notes: tuple[Note, ...]


def export(model: Model, options: ExportOptions) -> ExportedGraph:
    """Makes a SavedModel of the selected meta graph.

    Raises:
        NotFoundInModelError: A tensor or a variable's value is not there.
        UsageError: Nothing says what the inputs and outputs are.
    """
    meta = model.meta
    graph, notes = _shaped(model, options)
    signatures = make_signatures(model, graph, options.signatures, options.method_name)
    graph, main_op = add_main_op(meta, graph)
    outputs = {check_tensor(model, name).node for found in signatures.values() for name in _outputs(found)}
    kept = [*outputs, *([] if main_op is None else [main_op])]
    inputs = {check_tensor(model, name).node for found in signatures.values() for name in _inputs(found)}
    needed = prune(graph, [*kept, *inputs])
    check_shapes(model.graph, needed if options.prune else graph, notes)
    check_graph(prune_library(needed))
    variables = _variables(model, graph if options.all_variables else needed, options)
    if options.prune:
        graph = needed
    graph, saver = _saver(meta, graph, variables)
    graph = clean_colocation(prune_library(graph))
    assets = find_assets(meta, graph)
    notes += find_training(needed)
    values = {variable.key: model.variables[variable.key] for variable in variables}
    exported = MetaGraph(
        graph_part=Part.of(graph),
        info_part=Part.of(meta_info(meta, graph, options.tags)),
        saver_part=Part.of(saver),
        collections_part=Part.of(_collections(meta, graph, main_op, variables)),
        signatures_part=Part.of(signatures),
        assets_part=Part.of(tuple(asset.definition() for asset in assets)),
    )
    result = Model(
        "saved_model",
        (exported,),
        values,
        path=model.path,
        checkpoint=model.checkpoint if _is_all(model, values) else None,
        side_files=side_assets(model),
        origins=model.origins,
    )
    return ExportedGraph(result, tuple(assets), tuple(variable.key for variable in variables), tuple(notes))


def _shaped(model: Model, options: ExportOptions) -> tuple[Graph, list[Note]]:
    if options.batch_size is None and not options.input_shapes:
        return model.graph, []
    shapes = input_shapes(model.graph, options.batch_size, options.input_shapes, _input_keys(model, options))
    return set_input_shapes(model.graph, shapes)


def _input_keys(model: Model, options: ExportOptions) -> dict[str, str]:
    """The placeholders by key, those of new signatures too."""
    asked = [inputs for inputs, _ in options.signatures.values()]
    return input_keys(model) | {key: parse_input(tensor).node for inputs in asked for key, tensor in inputs.items()}


def _outputs(signature: Signature) -> list[str]:
    return [name for info in signature.outputs.values() for name in tensor_names(info)]


def _inputs(signature: Signature) -> list[str]:
    return [name for info in signature.inputs.values() for name in tensor_names(info)]


def _variables(model: Model, graph: Graph, options: ExportOptions) -> list[SavedVariable]:
    """The variables that are needed, each with its place in the checkpoint, which is checked."""
    sources = restore_sources(model.meta)
    found: list[SavedVariable] = []
    for node in graph:
        if node.op not in VARIABLES:
            continue
        source: CheckpointSlice = find_source(model, node, sources)
        if options.all_variables and source.key not in model.variables:
            continue  # a local variable, which nobody saved
        try:
            find_value(model, node, sources)
        except NotFoundInModelError:
            if node.name not in sources and _is_local(model, node.name):
                continue
            raise
        found.append(SavedVariable(node, source.key, source.extents))
    return found


def _is_local(model: Model, name: str) -> bool:
    """Whether a variable is one that TensorFlow initialises on every start."""
    local = model.collections.get("local_variables")
    return local is not None and any(message.get("variable_name") == f"{name}:0" for message in local.messages)


def _saver(meta: MetaGraph, graph: Graph, variables: list[SavedVariable]) -> tuple[Graph, Saver | None]:
    """The model's own saver if it restores exactly these variables and its nodes are there; else a new one."""
    if not variables:
        return graph, None
    own = meta.saver
    if own is not None and own.restore_op_name in graph and own.version == 2:
        restored = {name: (source.key, source.extents) for name, source in restore_sources(meta).items()}
        if restored == {variable.node.name: (variable.key, variable.extents) for variable in variables}:
            return graph, own
    return add_saver(graph, variables)


def meta_info(meta: MetaGraph, graph: Graph, tags: tuple[str, ...]) -> MetaInfo:
    """What a meta graph around another graph says of itself: tags, version, and the ops that it uses now."""
    builtin = builtin_ops()
    used = {node.op for node in graph}
    for function in graph.library.values():
        used |= {node.op for node in function}
    ops: dict[str, OpDef] = {}
    for name in sorted(used):
        op = meta.info.ops.get(name) or builtin.get(name)
        if op is not None:
            ops[name] = op
    version = meta.info.tensorflow_version or builtin.version
    return MetaInfo(tags, version, meta.info.tensorflow_git_version or "unknown", ops=ops)


def _collections(
    meta: MetaGraph, graph: Graph, main_op: str | None, variables: list[SavedVariable]
) -> dict[str, Collection]:
    """The collections that still make sense: variables that are there, and what fills the tables."""
    there = {f"{variable.node.name}:0" for variable in variables}
    kept: dict[str, Collection] = {}
    for key in _KEPT_COLLECTIONS:
        found = meta.collections.get(key)
        if found is None:
            continue
        if found.kind == "bytes":
            pairs = zip(found.values, found.messages, strict=False)
            values = tuple(value for value, message in pairs if _is_whole(message, there, graph, key))
            kept[key] = Collection("bytes", values)
        elif found.kind == "node":
            kept[key] = Collection("node", tuple(name for name in found.values if name in graph))
    if main_op is not None:
        kept[INIT_COLLECTIONS[0]] = Collection("node", (main_op,))
    return {key: found for key, found in kept.items() if found.values}


def _is_whole(message: Mapping[str, object], there: set[str], graph: Graph, key: str) -> bool:
    """Whether a VariableDef names only nodes that are still there."""
    name = str(message.get("variable_name", ""))
    if name not in there and key != "local_variables":
        return False
    names = (message.get(part, "") for part in ("variable_name", "initializer_name", "snapshot_name"))
    return all(str(found).rpartition(":")[0] in graph or str(found) in graph for found in names if found)


def side_assets(model: Model) -> tuple[SideFile, ...]:
    """The assets that lie beside the model already."""
    return tuple(side for side in model.side_files if side.name.startswith("assets"))


def _is_all(model: Model, values: Mapping[str, Tensor]) -> bool:
    """Whether the checkpoint can be copied as it is, because all of it is kept."""
    return model.checkpoint is not None and model.checkpoint.version == 2 and set(values) == set(model.variables)
