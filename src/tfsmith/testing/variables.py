"""Variables of both kinds, with the nodes and names that TensorFlow 1 gives them, and their initializers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt
from typing import TYPE_CHECKING, Literal, TypeAlias

from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.records import record
from tfsmith.testing.values import INT32, Output
from tfsmith.wire.messages import new

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
