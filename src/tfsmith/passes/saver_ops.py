"""Makes the nodes that save and restore variables, for graphs that have none or none that fit.

They have the form that `tf.train.Saver` gives them; the sharded form writes by way of a temporary part, as the savers
of SavedModels do.
"""

from __future__ import annotations

from collections.abc import Sequence

from tfsmith.ir.dtype import DType, dtype_named
from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import Saver
from tfsmith.ir.node import Node
from tfsmith.ir.shape import SCALAR, Shape
from tfsmith.ir.tensor import ArrayTensor, StringTensor
from tfsmith.records import record

__all__ = ["SavedVariable", "add_saver", "free_scope"]

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
        kind: DType = self.node.get("dtype")
        return kind


def free_scope(graph: Graph, name: str) -> str:
    """A name scope that no node is in: `save`, then `save_1`, ..."""
    taken = {node.name.partition("/")[0] for node in graph}
    number, scope = 0, name
    while scope in taken:
        number += 1
        scope = f"{name}_{number}"
    return scope


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
        self._taken: set[str] = set(graph.by_name)
        self.nodes: list[Node] = []

    def build(self, variables: Sequence[SavedVariable], sharded: bool) -> Saver:
        default = self._strings("filename/input", ["model"], SCALAR)
        attrs = {"dtype": _STRING, "shape": SCALAR}
        inner = self._add("filename", "PlaceholderWithDefault", (default,), attrs)
        filename = self._add("Const", "PlaceholderWithDefault", (inner,), attrs)
        saved = self._save_sharded(filename, variables) if sharded else self._save(filename, variables)
        restored = self._restore(filename, variables, sharded)
        return Saver(f"{filename}:0", f"{saved}:0", restored, 5, sharded, 10000.0, 2)

    def _add(self, name: str, op: str, inputs: Sequence[str], attrs: dict[str, object] | None = None) -> str:
        base = full = f"{self._scope}/{name}"
        number = 0
        while full in self._taken:
            number += 1
            full = f"{base}_{number}"
        self._taken.add(full)
        self.nodes.append(Node(full, op, tuple(inputs), attrs or {}))
        return full

    def _strings(self, name: str, values: Sequence[str], shape: Shape | None = None) -> str:
        tensor = StringTensor(Shape((len(values),)) if shape is None else shape, [value.encode() for value in values])
        return self._add(name, "Const", (), {"dtype": _STRING, "value": tensor})

    def _number(self, name: str, value: int) -> str:
        return self._add(name, "Const", (), {"dtype": _INT32, "value": ArrayTensor.of(value, _INT32)})

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
