"""The nodes that save and restore variables: made, renamed, removed, kept in step with the checkpoint."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from typing import Literal

from tfsmith.errors import InvalidModelError, UnsupportedError
from tfsmith.ir.body import Body, FreeNames, Part, free_name
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.model import OBJECT_GRAPH_KEY, MetaGraph, Model, Saver
from tfsmith.ir.model import Collection as GraphCollection
from tfsmith.ir.node import Func, Node, parse_input
from tfsmith.ir.tensor import StringTensor, integer_tensor
from tfsmith.ir.types import SCALAR, DType, Shape, dtype_named
from tfsmith.ops import DIRECT_CALLS, RESTORES, SAVER_OPS, SAVES, VARIABLES
from tfsmith.passes.variables import find_source, find_value, restore_sources
from tfsmith.records import record, replace

__all__ = [
    "SavedVariable",
    "add_saver",
    "free_scope",
    "has_saver",
    "new_saver",
    "remove_saver",
    "rename_in_saver",
    "saved_variables",
]

_STRING, _INT32 = dtype_named("string"), dtype_named("int32")


@record
class SavedVariable:
    """A variable of the graph, its key in the checkpoint, and which part of that tensor it is ("" for all)."""

    node: Node
    key: str
    extents: str = ""

    @property
    def is_resource(self) -> bool:
        """Whether it is a resource, not a TF1 reference."""
        return self.node.op == "VarHandleOp"

    @property
    def dtype(self) -> DType:
        """The type of its value."""
        return self.node.dtype("dtype")


def free_scope(graph: Graph, name: str) -> str:
    """A name scope that no node is in: `save`, then `save_1`, ..."""
    return free_name(name, {node.name.partition("/")[0] for node in graph})


def add_saver(graph: Graph, variables: Sequence[SavedVariable], *, sharded: bool = True) -> tuple[Graph, Saver]:
    """Adds a saver of these variables in a scope of its own.

    Args:
        graph: The graph.
        variables: What to save and restore, in this order.
        sharded: Whether to save by way of a temporary part, as SavedModels do.

    Returns:
        The graph with the new nodes behind the old, and the names that a SaverDef holds.
    """
    made = _Saver(graph, free_scope(graph, "save"))
    saver = made.build(sorted(variables, key=lambda variable: (variable.key, variable.node.name)), sharded)
    return graph.replace(nodes=(*graph.nodes, *made.nodes)), saver


class _Saver:
    """Collects the nodes of one saver."""

    def __init__(self, graph: Graph, scope: str) -> None:
        self._graph = graph
        self._scope = scope
        self._taken = FreeNames(graph.by_name)
        self.nodes: list[Node] = []

    def build(self, variables: Sequence[SavedVariable], sharded: bool) -> Saver:
        default = self._strings("filename/input", ["model"], SCALAR)
        attrs = {"dtype": _STRING, "shape": SCALAR}
        inner = self._add("filename", "PlaceholderWithDefault", (default,), attrs)
        filename = self._add("Const", "PlaceholderWithDefault", (inner,), attrs)
        saved = self._save_sharded(filename, variables) if sharded else self._save(filename, variables)
        restored = self._restore(filename, variables, sharded)
        return Saver(f"{filename}:0", f"{saved}:0", restored, 5, sharded, 10000.0, 2)

    def _add(self, name: str, op: str, inputs: Sequence[str], attrs: Mapping[str, object] | None = None) -> str:
        full = self._taken.take(f"{self._scope}/{name}")
        self.nodes.append(Node(full, op, tuple(inputs), attrs or {}))
        return full

    def _strings(self, name: str, values: Sequence[str], shape: Shape | None = None) -> str:
        tensor = StringTensor(Shape((len(values),)) if shape is None else shape, [value.encode() for value in values])
        return self._add(name, "Const", (), {"dtype": _STRING, "value": tensor})

    def _number(self, name: str, value: int) -> str:
        return self._add(name, "Const", (), {"dtype": _INT32, "value": integer_tensor(value, _INT32)})

    def _save(self, filename: str, variables: Sequence[SavedVariable]) -> str:
        names = self._strings("SaveV2/tensor_names", [variable.key for variable in variables])
        extents = self._strings("SaveV2/shape_and_slices", [variable.extents for variable in variables])
        values = [self._value(variable) for variable in variables]
        attrs: dict[str, object] = {"dtypes": tuple(variable.dtype for variable in variables)}
        save = self._add("SaveV2", "SaveV2", (filename, names, extents, *values), attrs)
        return self._add("control_dependency", "Identity", (filename, f"^{save}"), {"T": _STRING})

    def _value(self, variable: SavedVariable) -> str:
        """What to save: a reference itself, of a resource what is read from it."""
        if not variable.is_resource:
            return variable.node.name
        reader = f"{variable.node.name}/Read/ReadVariableOp"
        found = self._graph.by_name.get(reader)
        if found is not None and found.op == "ReadVariableOp" and found.inputs[:1] == (variable.node.name,):
            return reader
        return self._add("ReadVariableOp", "ReadVariableOp", (variable.node.name,), {"dtype": variable.dtype})

    def _save_sharded(self, filename: str, variables: Sequence[SavedVariable]) -> str:
        suffix = self._strings("Const_1", ["_temp/part"], SCALAR)
        joined = self._add("StringJoin", "StringJoin", (filename, suffix), {"N": 2, "separator": b""})
        count, number = self._number("num_shards", 1), self._number("ShardedFilename/shard", 0)
        shard = self._add("ShardedFilename", "ShardedFilename", (joined, number, count))
        done = self._save(shard, variables)
        attrs: dict[str, object] = {"N": 1, "T": _STRING, "axis": 0}
        prefixes = self._add("MergeV2Checkpoints/checkpoint_prefixes", "Pack", (shard, f"^{done}"), attrs)
        options: dict[str, object] = {"delete_old_dirs": True, "allow_missing_files": False}
        merged = self._add("MergeV2Checkpoints", "MergeV2Checkpoints", (prefixes, filename), options)
        return self._add("Identity", "Identity", (filename, f"^{done}", f"^{merged}"), {"T": _STRING})

    def _restore(self, filename: str, variables: Sequence[SavedVariable], sharded: bool) -> str:
        names = self._strings("RestoreV2/tensor_names", [variable.key for variable in variables])
        extents = self._strings("RestoreV2/shape_and_slices", [variable.extents for variable in variables])
        attrs: dict[str, object] = {"dtypes": tuple(variable.dtype for variable in variables)}
        read = self._add("RestoreV2", "RestoreV2", (filename, names, extents), attrs) if variables else ""
        waits = []
        for index, variable in enumerate(variables):
            value = read if index == 0 else f"{read}:{index}"
            waits.append(f"^{self._assign(variable, value)}")
        if sharded:
            waits = [f"^{self._add('restore_shard', 'NoOp', waits)}"]
        return self._add("restore_all", "NoOp", waits)

    def _assign(self, variable: SavedVariable, value: str) -> str:
        kind = variable.dtype
        if variable.is_resource:
            copy = self._add("Identity", "Identity", (value,), {"T": kind})
            attrs: dict[str, object] = {"dtype": kind, "validate_shape": False}
            return self._add("AssignVariableOp", "AssignVariableOp", (variable.node.name, copy), attrs)
        place = (f"loc:@{variable.node.name}".encode(),)
        attrs = {"T": kind, "validate_shape": True, "use_locking": True, "_class": place}
        return self._add("Assign", "Assign", (variable.node.name, value), attrs)


# Ops that name tensors of a checkpoint; the names are always their second input.
_NAMING = SAVES | RESTORES


def has_saver(meta: MetaGraph) -> bool:
    """Whether the graph can restore its variables from a checkpoint of version 2, and save them as one."""
    saver = meta.saver
    return saver is not None and saver.version == 2 and meta.graph.resolve(saver.restore_op_name).node in meta.graph


def saved_variables(model: Model) -> list[SavedVariable]:
    """The variables of the graph that have a value in the checkpoint, as the saver says it, else by name.

    Raises:
        InvalidModelError: A value that was found by name is of another dtype or shape.
        NotFoundInModelError: The graph has variables, the checkpoint has tensors, and none of them fit.
    """
    sources = restore_sources(model.meta)
    nodes = [node for node in model.graph if node.op in VARIABLES]
    found: list[SavedVariable] = []
    for node in nodes:
        source = find_source(model, node, sources)
        if source.key not in model.variables:
            continue  # a local variable, which nobody saved
        if node.name not in sources:
            find_value(model, node, sources)
        found.append(SavedVariable(node, source.key, source.extents))
    if nodes and model.variables and not found:
        find_value(model, nodes[0], sources)
    return found


def rename_in_saver(meta: MetaGraph, names: Mapping[str, str]) -> MetaGraph:
    """The meta graph whose saver calls tensors by other names. Only the constants with their names change.

    Raises:
        UnsupportedError: A name is computed when the graph runs.
    """
    graph, changes = meta.graph, dict[str, dict[str, Node]]()
    for body, node in _naming_nodes(meta):
        const, old = _names_of(body, node)
        new = [names.get(name, name) for name in old]
        if new != old:
            tensor = StringTensor(const.tensor("value").shape, [name.encode() for name in new])
            scope = body.name if isinstance(body, Function) else ""
            changes.setdefault(scope, {})[const.name] = const.replace(attrs={"value": tensor})
    if not changes:
        return meta
    own = changes.pop("", {})
    if changes:
        functions = {name: _with_nodes(found, changes.get(name, {})) for name, found in graph.library.items()}
        graph = graph.replace(library=graph.library.replace(functions))
    return meta.replace_graph(graph.map_nodes(own) if own else graph)


def _with_nodes(function: Function, changes: Mapping[str, Node]) -> Function:
    if not changes:
        return function
    return function.replace_nodes(tuple(changes.get(node.name, node) for node in function))


def _roots(graph: Graph, saver: Saver | None) -> list[str]:
    names = () if saver is None else (saver.save_tensor_name, saver.restore_op_name, saver.filename_tensor_name)
    return [node for name in names if name and (node := graph.resolve(name).node) in graph]


def _naming_nodes(meta: MetaGraph) -> Iterator[tuple[Body, Node]]:
    """The nodes of the saver that name tensors, in the graph and in the functions that it calls."""
    graph = meta.graph
    todo: list[tuple[Body, list[str]]] = [(graph, sorted(graph.ancestors(_roots(graph, meta.saver))))]
    seen: set[str] = set()
    while todo:
        body, names = todo.pop()
        for node in (body[name] for name in names):
            func = node.get("f") if node.op in DIRECT_CALLS else None
            if node.op in _NAMING:
                yield body, node
            elif isinstance(func, Func) and func.name in graph.library and func.name not in seen:
                seen.add(func.name)
                function = graph.library[func.name]
                todo.append((function, list(function.by_name)))


def _names_of(body: Body, node: Node) -> tuple[Node, list[str]]:
    """The constant with the names of tensors that a node takes, and these."""
    const = body.producer(node, 1) if len(node.data_inputs) > 1 else None
    value = None if const is None or const.op != "Const" else const.get("value")
    where = f"{body.title}, node {node.name!r}"
    if const is None or not isinstance(value, StringTensor):
        what = f"the names that {node.op} uses in the checkpoint are not a constant"
        raise UnsupportedError(what, where=where, remedy="convert the checkpoint alone ({as_='checkpoint'})")
    try:
        return const, [name.decode() for name in value.numpy().reshape(-1).tolist()]
    except UnicodeDecodeError as error:
        what = "a name of a tensor in the checkpoint is no text"
        raise InvalidModelError(what, where=where, remedy="the file is damaged; fetch it again") from error


def new_saver(
    meta: MetaGraph, graph: Graph, variables: Sequence[SavedVariable], *, dropped: Collection[str] = ()
) -> MetaGraph:
    """The meta graph around another graph, with a new saver of these variables in place of its own.

    Args:
        meta: What everything else is taken from.
        graph: The graph, without the old saver (see `remove_saver`).
        variables: What to save and restore.
        dropped: Nodes of variables that are no longer saved; collections forget them.

    Raises:
        UnsupportedError: The old saver also restores what is no variable (tables), which a new one could not.
    """
    _refuse_others(meta)
    old, saver = meta.saver, None
    if variables:
        graph, saver = add_saver(graph, variables, sharded=old is None or old.sharded)
        if old is not None and old.max_to_keep:
            hours = old.keep_checkpoint_every_n_hours
            saver = replace(saver, max_to_keep=old.max_to_keep, keep_checkpoint_every_n_hours=hours)
    changed = replace(meta.replace_graph(graph), saver_part=Part.of(saver))
    collections = _collections(meta, graph, frozenset(dropped))
    return changed if collections is None else replace(changed, collections_part=Part.of(collections))


def _refuse_others(meta: MetaGraph) -> None:
    known = {source.key for source in restore_sources(meta).values()} | {OBJECT_GRAPH_KEY}
    for body, node in _naming_nodes(meta):
        if not node.op.startswith("Restore"):
            continue
        for name in _names_of(body, node)[1]:
            if name not in known:
                what = f"the saver also restores {name!r}, which is no variable (a table?)"
                remedy = "a new saver could not; convert the checkpoint alone ({as_='checkpoint'}), or only rename"
                raise UnsupportedError(what, where=f"node {node.name!r}", remedy=remedy)


def remove_saver(graph: Graph, saver: Saver | None) -> Graph:
    """The graph without the nodes that only the saver needs."""
    roots = _roots(graph, saver)
    if saver is None or not roots:
        return graph
    scope = saver.restore_op_name.rpartition("/")[0]
    own = {
        name
        for name in graph.ancestors(roots)
        if (name.startswith(f"{scope}/") if scope else graph[name].op in SAVER_OPS) or name in roots
    }
    kept = graph.ancestors(node.name for node in graph if node.name not in own)
    return graph.replace(nodes=tuple(node for node in graph if node.name in kept or node.name not in own))


def _collections(meta: MetaGraph, graph: Graph, dropped: Collection[str]) -> dict[str, GraphCollection] | None:
    """The collections without savers and without what names nodes that are gone; None if nothing changes."""
    before = meta.graph.by_name
    kept: dict[str, GraphCollection] = {}
    for key, found in meta.collections.items():
        if key == "savers":
            continue
        kept[key] = found
        if found.kind == "bytes" and found.messages:
            pairs = zip(found.values, found.messages, strict=True)
            left = [value for value, message in pairs if _is_whole(message, before, graph, dropped)]
            kind: Literal["bytes", "node"] = "bytes"
        elif found.kind == "node":
            left = [name for name in found.values if (node := parse_input(name).node) in graph or node not in before]
            kind = "node"
        else:
            continue
        if len(left) < len(found.values):
            kept[key] = GraphCollection(kind, tuple(left))
    kept = {key: found for key, found in kept.items() if found.values or found is meta.collections[key]}
    return (
        None
        if kept.keys() == meta.collections.keys() and all(kept[key] is meta.collections[key] for key in kept)
        else kept
    )


def _is_whole(message: object, before: Container[str], graph: Graph, dropped: Container[str]) -> bool:
    """Whether a message (a VariableDef, a context of control flow) names only nodes that are still there."""
    if isinstance(message, str):
        node = parse_input(message).node
        return node not in dropped and (node in graph or node not in before)
    if isinstance(message, Mapping):
        return all(_is_whole(value, before, graph, dropped) for value in message.values())
    if isinstance(message, (list, tuple)):
        return all(_is_whole(value, before, graph, dropped) for value in message)
    return True
