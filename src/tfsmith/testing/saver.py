"""The nodes that `tf.train.Saver` adds to save and restore variables."""

from __future__ import annotations

from collections.abc import Sequence

from tfsmith.ir.metagraph import Saver
from tfsmith.ir.shape import SCALAR
from tfsmith.testing.builder import GraphBuilder
from tfsmith.testing.values import INT32, Operation, Output
from tfsmith.testing.variables import Variable

__all__ = ["add_saver"]

_CPU = "/device:CPU:0"
_ANY_CPU = "/device:CPU:*"


def add_saver(builder: GraphBuilder, *, sharded: bool = False) -> Saver:
    """Adds a saver of all variables, in a scope of its own (`save`, then `save_1`, ...).

    Args:
        builder: The graph.
        sharded: Whether to save by way of a temporary folder, as SavedModelBuilder and Estimator have it.
    """
    variables = sorted(builder.variables, key=lambda variable: variable.name)
    with builder.name_scope("save"):
        filename = _filename(builder)
        saved = _save_sharded(builder, filename, variables) if sharded else _save(builder, filename, variables)
        restored = _restore(builder, filename, variables, sharded=sharded)
    return Saver(filename.tensor_name, saved.tensor_name, restored.name, 5, sharded, 10000.0)


def _filename(builder: GraphBuilder) -> Output:
    attrs = {"shape": SCALAR}
    with builder.name_scope("filename") as scope:
        default = builder.const("model", name="input")
    filename = builder.node("PlaceholderWithDefault", [default], attrs, scope).out
    return builder.node("PlaceholderWithDefault", [filename], attrs, "Const").out


def _save(builder: GraphBuilder, filename: Output, variables: Sequence[Variable]) -> Output:
    """Writes all variables, and gives the file's name back when that is done."""
    names = [variable.name for variable in variables]
    # A reference is saved itself; of a resource, the value that was read for it.
    values = [variable.handle if variable.kind == "ref" else variable.snapshot for variable in variables]
    saved = builder.node("SaveV2", [filename, names, [""] * len(names), values])
    return _after(builder, saved, filename, "control_dependency")


def _after(builder: GraphBuilder, first: Operation, output: Output, name: str) -> Output:
    with builder.control_dependencies([first.name]), builder.colocated_with(output.node):
        return builder.node("Identity", [output], {}, name).out


def _save_sharded(builder: GraphBuilder, filename: Output, variables: Sequence[Variable]) -> Output:
    with builder.device(_ANY_CPU):
        on_s3 = builder.node("StaticRegexFullMatch", [filename], {"pattern": "^s3://.*"}).out
        part, temporary = builder.const(".part"), builder.const("_temp/part")
        suffix = builder.node("Select", [on_s3, part, temporary]).out
        joined = builder.node("StringJoin", [[filename, suffix]]).out
    count = builder.const(1, INT32, "num_shards")
    with builder.device(_CPU):
        shard = builder.node("ShardedFilename", [joined, 0, count]).out
        saved = _save(builder, shard, variables)
        with builder.control_dependencies([saved.node]):
            with builder.name_scope("MergeV2Checkpoints") as scope:
                prefixes = builder.node("Pack", [[shard]], {}, "checkpoint_prefixes").out
            merged = builder.node("MergeV2Checkpoints", [prefixes, filename], {}, scope)
            with builder.control_dependencies([merged.name]):
                return builder.node("Identity", [filename]).out


def _restore(builder: GraphBuilder, filename: Output, variables: Sequence[Variable], *, sharded: bool) -> Operation:
    names = [variable.name for variable in variables]
    attrs = {"dtypes": [variable.dtype for variable in variables]}
    with builder.device(_CPU):
        read = builder.node("RestoreV2", [filename, names, [""] * len(names)], attrs)
    assigned = [_assign(builder, variable, value) for variable, value in zip(variables, read.outputs, strict=True)]
    if not sharded:
        return builder.group(assigned, "restore_all")
    return builder.group([builder.group(assigned, "restore_shard").name], "restore_all")


def _assign(builder: GraphBuilder, variable: Variable, value: Output) -> str:
    if variable.kind == "ref":
        with builder.colocated_with(variable.name):
            return builder.node("Assign", [variable.handle, value]).name
    copy = builder.node("Identity", [value]).out
    return builder.node("AssignVariableOp", [variable.handle, copy]).name
