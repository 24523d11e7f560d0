"""Variables of both kinds, with the nodes and names that TensorFlow 1 gives them, and their initializers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import TYPE_CHECKING, Literal, TypeAlias

from tfsmith.ir.model import Saver
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import SCALAR, DType, Shape
from tfsmith.records import record
from tfsmith.testing.values import INT32, Operation, Output
from tfsmith.wire import new

if TYPE_CHECKING:
    from tfsmith.testing.builder import GraphBuilder

__all__ = [
    "Initializer",
    "Kind",
    "Values",
    "Variable",
    "filled",
    "glorot_uniform",
    "make_variable",
    "ones",
    "truncated_normal",
    "zeros",
    "add_saver",
]

Kind: TypeAlias = Literal["ref", "resource"]
Initializer: TypeAlias = "Callable[[GraphBuilder, tuple[int, ...], DType], Output]"
"""Makes the nodes that give a variable of some shape and dtype its first value."""

Values: TypeAlias = Callable[[str], Tensor]
"""Gives the trained values of the variable with some full name."""

_SMALL = 1000
"""TensorFlow makes a Const of so many equal elements less one; more get a Fill."""


@record
class Variable:
    """A variable of the graph.

    Attributes:
        name: Its name, in the graph and in checkpoints.
        kind: "ref" or "resource".
        handle: The reference or the resource.
        snapshot: The read that was made with it (`/read`, or `/Read/ReadVariableOp`).
        initial_value: What it is initialized with.
        trainable: Whether an optimizer changes it.
        aggregation: How replicas' copies are joined, by its number in `VariableAggregation`.
    """

    name: str
    kind: Kind
    dtype: DType
    shape: Shape
    handle: Output
    snapshot: Output
    initial_value: Output
    trainable: bool
    aggregation: int

    def definition(self) -> bytes:
        """The serialized VariableDef that collections hold."""
        message = new("VariableDef")
        message.variable_name = f"{self.name}:0"
        message.initializer_name = f"{self.name}/Assign"
        message.snapshot_name = self.snapshot.tensor_name
        message.initial_value_name = self.initial_value.tensor_name
        message.is_resource = self.kind == "resource"
        message.trainable = self.trainable
        message.aggregation = self.aggregation
        return bytes(message.SerializeToString())


def make_variable(
    builder: GraphBuilder,
    name: str,
    initializer: Initializer | Output,
    values: Tensor,
    *,
    trainable: bool,
    aggregation: int,
) -> Variable:
    """Adds the nodes of a variable with this full name. Callers use `GraphBuilder.variable`."""
    kind = builder.variable_kind
    make = _ref_variable if kind == "ref" else _resource_variable
    with builder.detached(), builder.name_scope(name) as scope:
        handle, snapshot, initial = make(builder, scope, initializer, values)
    return Variable(name, kind, values.dtype, values.shape, handle, snapshot, initial, trainable, aggregation)


def _ref_variable(
    builder: GraphBuilder, scope: str, initializer: Initializer | Output, values: Tensor
) -> tuple[Output, Output, Output]:
    attrs = {"shape": values.shape, "dtype": values.dtype}
    if isinstance(initializer, Output):  # then TensorFlow leaves the variable itself without a colocation
        initial = initializer
        handle = builder.node("VariableV2", (), attrs, scope).out
    else:
        with builder.colocated_with(scope[:-1]):
            initial = _initialize(builder, initializer, values)
            handle = builder.node("VariableV2", (), attrs, scope).out
    with builder.colocated_with(scope[:-1]):
        builder.node("Assign", [handle, initial], {}, "Assign")
        snapshot = builder.node("Identity", [handle], {}, "read").out
    return handle, snapshot, initial


def _resource_variable(
    builder: GraphBuilder, scope: str, initializer: Initializer | Output, values: Tensor
) -> tuple[Output, Output, Output]:
    attrs = {"shape": values.shape, "dtype": values.dtype, "shared_name": scope[:-1], "debug_name": scope}
    with builder.colocated_with(scope[:-1]):
        initial = initializer if isinstance(initializer, Output) else _initialize(builder, initializer, values)
        handle = builder.node("VarHandleOp", (), attrs, scope).out
    with builder.name_scope("IsInitialized"):
        builder.node("VarIsInitializedOp", [handle])
    builder.node("AssignVariableOp", [handle, initial], {}, "Assign")
    with builder.name_scope("Read"):
        snapshot = builder.node("ReadVariableOp", [handle], {"dtype": values.dtype}).out
    return handle, snapshot, initial


def _initialize(builder: GraphBuilder, initializer: Initializer, values: Tensor) -> Output:
    with builder.name_scope("Initializer"):
        return initializer(builder, values.shape.dims or (), values.dtype)


def filled(builder: GraphBuilder, value: float, dims: tuple[int, ...], dtype: DType, name: str) -> Output:
    """Adds the nodes that `tf.zeros` and `tf.ones` make for a known shape."""
    if prod(dims) < _SMALL:
        return builder.const(value, dtype, name, dims)
    with builder.name_scope(name) as scope:
        shape = builder.const(list(dims), INT32, "shape_as_tensor")
        return builder.node("Fill", [shape, builder.const(value, dtype)], {}, scope).out


def zeros(builder: GraphBuilder, dims: tuple[int, ...], dtype: DType) -> Output:
    """The initializer `tf.zeros_initializer`."""
    return filled(builder, 0, dims, dtype, "zeros")


def ones(builder: GraphBuilder, dims: tuple[int, ...], dtype: DType) -> Output:
    """The initializer `tf.ones_initializer`."""
    return filled(builder, 1, dims, dtype, "ones")


def truncated_normal(stddev: float) -> Initializer:
    """The initializer `tf.truncated_normal_initializer`."""

    def make(builder: GraphBuilder, dims: tuple[int, ...], dtype: DType) -> Output:
        with builder.name_scope("truncated_normal") as scope:
            shape = builder.const(list(dims), INT32, "shape")
            mean = builder.const(0.0, dtype, "mean")
            spread = builder.const(stddev, dtype, "stddev")
            drawn = builder.node("TruncatedNormal", [shape], {"dtype": dtype}).out
            return builder.node("AddV2", [builder.node("Mul", [drawn, spread], {}, "mul").out, mean], {}, scope).out

    return make


def glorot_uniform(builder: GraphBuilder, dims: tuple[int, ...], dtype: DType) -> Output:
    """The initializer `tf.glorot_uniform_initializer`, the default of `tf.layers`."""
    *window, inputs, outputs = dims
    limit = sqrt(3.0 / max(1.0, prod(window) * (inputs + outputs) / 2.0))
    with builder.name_scope("random_uniform") as scope:
        shape = builder.const(list(dims), INT32, "shape")
        low, high = builder.const(-limit, dtype, "min"), builder.const(limit, dtype, "max")
        drawn = builder.node("RandomUniform", [shape], {"dtype": dtype}).out
        width = builder.node("Sub", [high, low], {}, "sub").out
        return builder.node("AddV2", [builder.node("Mul", [drawn, width], {}, "mul").out, low], {}, scope).out


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
    """Writes all variables, and returns the file's name when that is done."""
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
