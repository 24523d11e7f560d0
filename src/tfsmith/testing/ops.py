"""What functions of TensorFlow's Python add to a graph, call for call: the names of nodes come from the calls.

Only where a function does more than add one node; for the others, `GraphBuilder.node` is the function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from tfsmith.testing.builder import GraphBuilder, Operand
from tfsmith.testing.values import FLOAT32, INT32, Operation, Output
from tfsmith.testing.variables import Initializer, Values, filled, ones, zeros

__all__ = [
    "Activation",
    "Dim",
    "assert_less_equal",
    "dense",
    "gelu",
    "layer_norm",
    "matmul",
    "one_hot",
    "ones_of",
    "reduce_all_axes",
    "reshape",
    "shape_list",
    "strided_slice",
    "transpose",
]

Dim: TypeAlias = "int | Output"
"""A dimension: a number, or a scalar of the graph where it is known only when the graph runs."""

Activation: TypeAlias = Callable[[GraphBuilder, Output], Output]


def shape_list(builder: GraphBuilder, tensor: Output) -> list[Dim]:
    """BERT's `get_shape_list`: dimensions as numbers where they are known, else as nodes that slice a Shape."""
    unknown = [axis for axis, dim in enumerate(tensor.dims) if dim < 0]
    shape: list[Dim] = list(tensor.dims)
    if not unknown:
        return shape
    dynamic = builder.node("Shape", [tensor]).out
    for axis in unknown:
        shape[axis] = strided_slice(builder, dynamic, [axis], [axis + 1], shrink=1)
    return shape


def strided_slice(
    builder: GraphBuilder,
    tensor: Output,
    begin: Sequence[int],
    end: Sequence[int],
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    shrink: int = 0,
) -> Output:
    """`tensor[begin:end, ...]`, with steps of one."""
    masks = {"begin_mask": begin_mask, "end_mask": end_mask, "shrink_axis_mask": shrink}
    with builder.name_scope("strided_slice") as scope:
        bounds = [builder.const(list(part), INT32, "stack") for part in (begin, end, [1] * len(begin))]
    return builder.node("StridedSlice", [tensor, *bounds], masks, scope).out


def reshape(builder: GraphBuilder, tensor: Output, dims: Sequence[Dim]) -> Output:
    """`tf.reshape`."""
    return builder.node("Reshape", [tensor, list(dims)]).out


def transpose(builder: GraphBuilder, tensor: Output, axes: Sequence[int]) -> Output:
    """`tf.transpose`."""
    return builder.node("Transpose", [tensor, list(axes)], {}, "transpose").out


def matmul(builder: GraphBuilder, left: Output, right: Operand, *, transpose_right: bool = False) -> Output:
    """`tf.matmul`; of more than two dimensions, in batches."""
    if len(left.dims) > 2:
        return builder.node("BatchMatMulV2", [left, right], {"adj_y": transpose_right}, "MatMul").out
    return builder.node("MatMul", [left, right], {"transpose_b": transpose_right}).out


def one_hot(builder: GraphBuilder, indices: Output, depth: int) -> Output:
    """`tf.one_hot`, of float32."""
    with builder.name_scope("one_hot") as scope:
        on, off = builder.const(1.0, FLOAT32, "on_value"), builder.const(0.0, FLOAT32, "off_value")
    return builder.node("OneHot", [indices, depth, on, off], {}, scope).out


def ones_of(builder: GraphBuilder, dims: Sequence[Dim]) -> Output:
    """`tf.ones`, of float32."""
    known = [dim for dim in dims if isinstance(dim, int)]
    if len(known) == len(dims):
        return filled(builder, 1, tuple(known), FLOAT32, "ones")
    with builder.name_scope("ones") as scope:
        packed = builder.tensor(list(dims), INT32, "packed")
        return builder.node("Fill", [packed, builder.const(1.0, FLOAT32)], {}, scope).out


def reduce_all_axes(builder: GraphBuilder, op: str, tensor: Output) -> Output:
    """`tf.reduce_sum` and its like without an axis."""
    return builder.node(op, [tensor, builder.const(list(range(len(tensor.dims))), INT32)]).out


def assert_less_equal(builder: GraphBuilder, left: int, right: int) -> Operation:
    """`tf.assert_less_equal` of two numbers: TensorFlow checks them again whenever the graph runs."""
    with builder.name_scope("assert_less_equal"):
        x, y = builder.const(left, INT32, "x"), builder.const(right, INT32, "y")
        less = builder.node("LessEqual", [x, y]).out
        rank = builder.const(0, INT32, "Rank")
        with builder.name_scope("range") as scope:
            start, step = builder.const(0, INT32, "start"), builder.const(1, INT32, "delta")
        axes = builder.node("Range", [start, rank, step], {}, scope).out
        condition = builder.node("All", [less, axes]).out
        names = [f"{letter} ({output.tensor_name}) = " for letter, output in (("x", x), ("y", y))]
        texts = ["Condition x <= y did not hold element-wise:", *names]
        with builder.name_scope("Assert"):
            for text in texts:
                builder.const(text)
            return builder.node("Assert", [condition, [texts[0], texts[1], x, texts[2], y]])


def dense(
    builder: GraphBuilder,
    inputs: Output,
    kernel: Values,
    bias: Values,
    name: str,
    initializer: Initializer,
    activation: Activation | None = None,
) -> Output:
    """`tf.layers.dense` of a matrix."""
    with builder.variable_scope(name):
        weights = builder.variable("kernel", initializer, kernel)
        offset = builder.variable("bias", zeros, bias)
        product = matmul(builder, inputs, weights)
        output = builder.node("BiasAdd", [product, offset]).out
        return output if activation is None else activation(builder, output)


def gelu(builder: GraphBuilder, x: Output) -> Output:
    """BERT's activation, by its tanh formula."""
    cubed = builder.node("Pow", [x, 3.0]).out
    inner = builder.node("AddV2", [x, builder.node("Mul", [0.044715, cubed], {}, "mul").out], {}, "add").out
    scaled = builder.node("Mul", [math.sqrt(2 / math.pi), inner], {}, "mul").out
    shifted = builder.node("AddV2", [1.0, builder.node("Tanh", [scaled]).out], {}, "add").out
    share = builder.node("Mul", [0.5, shifted], {}, "mul").out
    return builder.node("Mul", [x, share], {}, "mul").out


def layer_norm(builder: GraphBuilder, x: Output, beta: Values, gamma: Values) -> Output:
    """`tf.contrib.layers.layer_norm` over the last axis."""
    axis = [len(x.dims) - 1]
    keep = {"keep_dims": True}
    with builder.variable_scope("LayerNorm"):
        offset = builder.variable("beta", zeros, beta, collections=["model_variables"])
        scale = builder.variable("gamma", ones, gamma, collections=["model_variables"])
        with builder.name_scope("moments"):
            mean = builder.node("Mean", [x, axis], keep, "mean").out
            still = builder.node("StopGradient", [mean]).out
            squares = builder.node("SquaredDifference", [x, still]).out
            variance = builder.node("Mean", [squares, axis], keep, "variance").out
        with builder.name_scope("batchnorm"):
            padded = builder.node("AddV2", [variance, 1e-12], {}, "add").out
            inverse = builder.node("Mul", [builder.node("Rsqrt", [padded]).out, scale], {}, "mul").out
            scaled = builder.node("Mul", [x, inverse], {}, "mul").out
            moved = builder.node("Mul", [mean, inverse], {}, "mul").out
            # The left operand is the variable itself: TensorFlow reads it before it enters the scope of the Sub.
            shift = builder.node("Sub", [builder.read(offset), moved], {}, "sub").out
            return builder.node("AddV2", [scaled, shift], {}, "add").out
