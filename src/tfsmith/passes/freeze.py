"""Freezing: variables become constants. An ordinary pass; no value is read, the writer streams them.

For TF1 graphs the result is, node for node, what TensorFlow's `freeze_graph` writes. A TensorFlow 2 model, which is in
functions, is inlined first and becomes one flat graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from tfsmith.errors import Note, NotFoundInModelError, UnsupportedError, UsageError, nearest
from tfsmith.ir.body import Part, free_name
from tfsmith.ir.graph import Graph, check_graph
from tfsmith.ir.model import Collection, MetaGraph, MetaInfo, Model, Signature, TensorInfo
from tfsmith.ir.node import Endpoint, Node, parse_input
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.ops import DIRECT_CALLS, TABLES, VARIABLES
from tfsmith.passes.interface import (
    INIT_COLLECTIONS,
    check_shapes,
    choose_outputs,
    choose_signature,
    find_training,
    init_nodes,
    input_keys,
    input_shapes,
    output_type,
    set_input_shapes,
)
from tfsmith.passes.prune import clean_colocation, prune, prune_library
from tfsmith.passes.variables import find_value, initial_values, restore_sources
from tfsmith.passes.variables_to_constants import convert_variables, renamed_input
from tfsmith.records import field, record, replace

__all__ = ["FreezeOptions", "FrozenGraph", "freeze"]

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.\\/>-]")
_KEPT_COLLECTIONS = (
    "saved_model_main_op",
    "legacy_init_op",
    "table_initializer",
    "asset_filepaths",
    "saved_model_assets",
)


@record
class FreezeOptions:
    """What freezing may be told.

    Attributes:
        outputs: Names of the outputs; by default those of the signature, else the likely one.
        signature: Which signature.
        clear_devices: Whether to drop the devices of all nodes.
        only: Globs of variables to freeze; all others stay variables.
        excluded: Globs of variables to leave as they are.
        ema: Whether to take moving averages where the checkpoint has them.
        batch_size: Fixes the first dimension of every placeholder.
        input_shapes: New shapes of placeholders, by name.
        inline: Whether to inline functions; by default for models that TensorFlow 2 saved.
        initializers: Nodes that initialise variables; their constants count where the checkpoint has no value.
        keep_init: Whether to keep what fills the tables, as a SavedModel needs it.
        fold_shapes: Whether what follows from fixed shapes of inputs becomes constants.
        keep_inputs: Whether the placeholders of a TensorFlow 2 signature keep their names, such as
            `serving_default_x`; else they are called by their keys.
    """

    outputs: tuple[str, ...] = ()
    signature: str | None = None
    clear_devices: bool = False
    only: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    ema: bool = False
    batch_size: int | None = None
    input_shapes: Mapping[str, Shape] = field(default_factory=dict)
    inline: bool | None = None
    initializers: tuple[str, ...] = ()
    keep_init: bool = False
    fold_shapes: bool = False
    keep_inputs: bool = False


@record
class FrozenGraph:
    """What freezing gave.

    Attributes:
        model: The frozen model. Its signature names the tensors as they are now.
        converted: For each frozen variable, its key in the checkpoint.
        outputs: For each output key, its tensor now.
        notes: What the user should know.
    """

    model: Model
    converted: Mapping[str, str]
    outputs: Mapping[str, str]
    notes: tuple[Note, ...]


def freeze(model: Model, options: FreezeOptions) -> FrozenGraph:
    """Freezes the selected meta graph.

    Raises:
        NotFoundInModelError: An output or a variable's value is not there.
        UsageError: It is not clear what the outputs are, or there is nothing to freeze.
        UnsupportedError: A variable is used in a way that no constant can serve.
    """
    meta = model.meta
    outputs = choose_outputs(model, options.outputs, options.signature)
    kept = init_nodes(meta) if options.keep_init else []
    graph = prune_library(prune(model.graph, [*(endpoint.node for endpoint in outputs.values()), *kept]))
    check_graph(graph)
    notes: list[Note] = []
    inline = meta.objects is not None if options.inline is None else options.inline
    inputs: Mapping[str, str] = {}
    if inline:
        graph, inputs = _rename_inputs(model, graph, options)
        outputs = {key: Endpoint(inputs.get(found.node, found.node), found.output) for key, found in outputs.items()}
        graph, outputs = _flatten(graph, outputs, kept)
    if options.clear_devices:
        graph = graph.map_nodes({node.name: node.replace(device="") for node in graph if node.device})
    values, keys = _values(model, graph, options)
    conversion = convert_variables(graph, values, {endpoint.node for endpoint in outputs.values()})
    graph = conversion.graph
    if inline or conversion.dropped:
        graph = prune(graph, [*(endpoint.node for endpoint in outputs.values()), *kept], keep_colocated=False)
    graph = clean_colocation(prune_library(graph))
    if options.batch_size is not None or options.input_shapes:
        known = {key: inputs.get(node, node) for key, node in input_keys(model, options.signature).items()}
        known |= {**inputs, **{f"{old}:0": new for old, new in inputs.items()}}
        shapes = input_shapes(graph, options.batch_size, options.input_shapes, known)
        shaped, baked = set_input_shapes(graph, shapes)
        check_shapes(graph, shaped, baked)
        graph = shaped
        notes += baked
    if options.fold_shapes:
        from tfsmith.passes.fold_shapes import fold_shapes

        folded = fold_shapes(graph)
        graph = prune(folded, [*(endpoint.node for endpoint in outputs.values()), *kept], keep_colocated=False)
        graph = clean_colocation(graph)
    if conversion.dropped:
        remedy = "the value in the checkpoint is used; if that is wrong, export the inference graph"
        notes.append(Note("assignments to variables were dropped", tuple(conversion.dropped), remedy))
    if not keys and not any(node.op in VARIABLES for node in graph):
        names = tuple(endpoint.node for endpoint in outputs.values())
        notes.append(
            Note("the outputs need no variables", names, "if the graph was frozen before, there is nothing to do")
        )
    notes += find_training(graph)
    notes += _tables(graph, options)
    frozen = _model(model, graph, inputs, outputs, options)
    named = {key: str(endpoint) for key, endpoint in outputs.items()}
    return FrozenGraph(frozen, keys, named, tuple(notes))


def _values(model: Model, graph: Graph, options: FreezeOptions) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The values of the variables that are to be frozen, by node, and their keys."""
    variables = [node for node in graph if node.op in VARIABLES]
    wanted = [node for node in variables if _is_wanted(node.name, options)]
    for glob in options.only:
        _require_match(model, glob, [node.name for node in variables], "no variable that the outputs need")
    for glob in options.excluded:
        names = [node.name for node in model.graph if node.op in VARIABLES]
        _require_match(model, glob, names, "no variable")
    sources = restore_sources(model.meta)
    if options.keep_init and len(wanted) < len(variables):
        what = "some variables are to stay variables, which a SavedModel must be able to restore"
        raise UnsupportedError(
            what, path=model.path, remedy="write a plain graph instead ({as_='pb'}), or freeze them all"
        )
    initial = initial_values(model.graph, options.initializers) if options.initializers else {}
    values: dict[str, Tensor] = {}
    keys: dict[str, str] = {}
    for node in wanted:
        if node.name in initial and node.name not in sources and node.name not in model.variables:
            keys[node.name], values[node.name] = node.name, initial[node.name]
            continue
        if node.name not in sources and options.keep_init and _is_initialised(graph, node):
            continue  # the model's own initializer fills it, as it does for the paths of assets
        keys[node.name], values[node.name] = find_value(model, node, sources, ema=options.ema)
    return values, keys


def _require_match(model: Model, glob: str, names: Sequence[str], what: str) -> None:
    if any(fnmatchcase(name, glob) for name in names):
        return
    near = nearest(glob.strip("*?"), names)
    remedy = f"the nearest names are {', '.join(near)}" if near else "{show(model, variables=True)} lists them"
    raise UsageError(f"{what} is called {glob!r}", path=model.path, remedy=remedy)


def _is_initialised(graph: Graph, variable: Node) -> bool:
    users = graph.consumers(variable.name, 0)
    return any(use.node.op in ("Assign", "AssignVariableOp") and use.input == 0 for use in users)


def _is_wanted(name: str, options: FreezeOptions) -> bool:
    if options.only and not any(fnmatchcase(name, glob) for glob in options.only):
        return False
    return not any(fnmatchcase(name, glob) for glob in options.excluded)


def _rename_inputs(model: Model, graph: Graph, options: FreezeOptions) -> tuple[Graph, dict[str, str]]:
    """Calls the placeholders that TensorFlow 2 made for a signature by their keys: `serving_default_x` becomes `x`.

    Returns:
        The graph, and the new names by the old ones.
    """
    chosen = None if options.outputs or options.keep_inputs else choose_signature(model, options.signature)
    if chosen is None:
        return graph, {}
    signature, found = chosen
    taken = set(graph.by_name)
    names: dict[str, str] = {}
    for key, info in found.inputs.items():
        node = parse_input(info.name).node if info.encoding == "dense" else ""
        if node == f"{signature}_{key}" and node in graph and graph[node].op == "Placeholder" and node not in names:
            names[node] = free_name(_node_name(key, "input"), taken)
            taken.add(names[node])
    if not names:
        return graph, {}
    nodes = (_with_inputs(node, names) for node in graph)
    return graph.replace(nodes=tuple(nodes)), names


def _with_inputs(node: Node, names: Mapping[str, str]) -> Node:
    inputs = tuple(renamed_input(text, names) for text in node.inputs)
    changed = node if inputs == node.inputs else node.replace(inputs=inputs)
    return changed.replace(name=names[node.name]) if node.name in names else changed


def _node_name(key: str, default: str) -> str:
    """A key as TensorFlow lets a node be called."""
    return _NOT_IN_NAMES.sub("_", parse_input(key).node).lstrip("_-/\\>") or default


def _flatten(graph: Graph, outputs: Mapping[str, Endpoint], kept: Sequence[str]) -> tuple[Graph, dict[str, Endpoint]]:
    """Inlines all calls; an output that a call gave becomes an Identity named after its key."""
    from tfsmith.passes.inline import inline_calls  # graphs of TensorFlow 1 have no calls

    flat, moved = inline_calls(graph)
    names = set(flat.by_name)
    added: list[Node] = []
    found: dict[str, Endpoint] = {}
    for key, endpoint in outputs.items():
        if graph[endpoint.node].op not in DIRECT_CALLS and graph[endpoint.node].op not in graph.library:
            found[key] = endpoint
            continue
        tensor = moved.get(str(endpoint))
        if tensor is None:
            what = f"the function that it calls gives no output {endpoint.output}"
            remedy = "{show(model, outputs=True)} lists likely outputs"
            raise NotFoundInModelError(what, where=f"node {endpoint.node!r}", remedy=remedy)
        name = free_name(_node_name(key, "output"), names)
        names.add(name)
        source = parse_input(tensor)
        kind = output_type(flat, flat[source.node], source.output)
        added.append(Node(name, "Identity", (tensor,), {"T": dtype_named("float32") if kind is None else kind}))
        found[key] = Endpoint(name, 0)
    flat = flat.replace(nodes=(*flat.nodes, *added))
    return prune(flat, [*(endpoint.node for endpoint in found.values()), *kept], keep_colocated=False), found


def _tables(graph: Graph, options: FreezeOptions) -> list[Note]:
    tables = tuple(node.name for node in graph if node.op in TABLES)
    if not tables or options.keep_init:
        return []
    remedy = "a plain graph cannot fill them; write a SavedModel instead ({as_='saved_model'})"
    return [Note("tables need to be filled before the first answer", tables, remedy)]


def _model(
    model: Model,
    graph: Graph,
    inputs: Mapping[str, str],
    outputs: Mapping[str, Endpoint],
    options: FreezeOptions,
) -> Model:
    """The frozen model around the graph: signatures with the names of today, tables' initializers and assets."""
    meta = model.meta
    signatures: dict[str, Signature] = {}
    chosen = None if options.outputs else choose_signature(model, options.signature)
    if chosen is not None:
        key, old = chosen
        signatures[key] = _signature(old, inputs, outputs, graph)
    collections = {key: meta.collections[key] for key in _KEPT_COLLECTIONS if key in meta.collections}
    if not any(key in collections for key in INIT_COLLECTIONS):
        # The init op as TF1 has it: TensorFlow takes a signature for it as one more function of the model.
        collections[INIT_COLLECTIONS[0]] = Collection("node", tuple(init_nodes(meta)))
    assets = tuple(asset for asset in meta.assets if parse_input(asset.tensor_name).node in graph)
    info = MetaInfo(
        meta.info.tags,
        meta.info.tensorflow_version,
        meta.info.tensorflow_git_version,
        meta.info.meta_graph_version,
        meta.info.stripped_default_attrs,
        {node.op: found for node in graph if (found := meta.info.ops.get(node.op)) is not None},
    )
    frozen = MetaGraph(
        graph_part=Part.of(graph),
        info_part=Part.of(info),
        signatures_part=Part.of(signatures),
        collections_part=Part.of(
            {key: found for key, found in collections.items() if options.keep_init and found.values}
        ),
        assets_part=Part.of(assets if options.keep_init else ()),
    )
    beside = tuple(side for side in model.side_files if side.name.startswith("assets"))
    left = any(node.op in VARIABLES and not _is_wanted(node.name, options) for node in graph)
    if left:  # some stay variables, so their values, and what restores them, must stay too
        frozen = replace(frozen, saver_part=meta.saver_part)
    return Model(
        "graphdef",
        (frozen,),
        variables=model.variables if left else {},
        checkpoint=model.checkpoint if left else None,
        path=model.path,
        side_files=beside,
        origins=model.origins,
    )


def _signature(old: Signature, renamed: Mapping[str, str], outputs: Mapping[str, Endpoint], graph: Graph) -> Signature:
    inputs: dict[str, TensorInfo] = {}
    for key, info in old.inputs.items():
        node = parse_input(info.name).node
        now = replace(info, name=f"{renamed[node]}:0") if node in renamed else info
        if parse_input(now.name).node in graph:
            inputs[key] = replace(now, shape=_shape(now, graph))
    named = {
        key: replace(info, name=str(outputs[key])) if key in outputs else info for key, info in old.outputs.items()
    }
    return Signature(inputs, named, old.method_name, {key: old.defaults[key] for key in old.defaults if key in inputs})


def _shape(info: TensorInfo, graph: Graph) -> Shape:
    shape = graph[parse_input(info.name).node].get("shape")
    return shape if isinstance(shape, Shape) and shape.dims is not None else info.shape
