"""The pieces that the shipped recipes are put together from: what TensorFlow's own code builds, form by form."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

ADD = ["AddV2", "Add"]
BATCH_MATMUL = ["BatchMatMulV2", "BatchMatMul", "BatchMatMulV3"]
SQRT_2 = 1.4142135623730951
PLAIN = {"transpose_a": False, "transpose_b": False}
"""A MatMul of its inputs as they are."""
PLAIN_BATCH = {"adj_x": False, "adj_y": False}
"""The same of a BatchMatMul."""


@dataclass
class Nodes:
    """The wanted nodes of a query, added one by one; each call gives the name that the next ones take."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, op: str | list[str], *inputs: str, **more: Any) -> str:
        line: dict[str, Any] = {"name": name, "op": op}
        if inputs:
            line["inputs"] = list(inputs)
        self.lines.append(line | more)
        return name

    def const(self, name: str, value: Any = None) -> str:
        return self.add(name, "Const") if value is None else self.add(name, "Const", value=value)


def layer_norm(nodes: Nodes, name: str, x: str, axis: int, epsilon: float | None, attrs: dict[str, Any]) -> str:
    """`tf.nn.moments` and `tf.nn.batch_normalization` over one axis: TensorFlow 1, Keras 2, and anybody's own."""
    inverse, mean = _moments(nodes, name, x, axis, epsilon, f"{name}_gamma", attrs)
    scaled = nodes.add(f"{name}_scaled", "Mul", x, inverse)
    moved = nodes.add(f"{name}_moved", "Mul", mean, inverse)
    shift = nodes.add(f"{name}_shift", "Sub", f"{name}_beta", moved)
    return nodes.add(name, ADD, scaled, shift)


def keras_layer_norm(nodes: Nodes, name: str, x: str, axis: int, epsilon: float | None, attrs: dict[str, Any]) -> str:
    """The LayerNormalization of Keras 3, which gives gamma and beta the rank of x first."""
    gamma = nodes.add(f"{name}_wide_gamma", "Reshape", f"{name}_gamma", f"{name}_gamma_shape")
    beta = nodes.add(f"{name}_wide_beta", "Reshape", f"{name}_beta", f"{name}_beta_shape")
    inverse, mean = _moments(nodes, name, x, axis, epsilon, gamma, attrs)
    negative = nodes.add(f"{name}_negative", "Neg", mean)
    moved = nodes.add(f"{name}_moved", "Mul", negative, inverse)
    shift = nodes.add(f"{name}_shift", ADD, moved, beta)
    scaled = nodes.add(f"{name}_scaled", "Mul", x, inverse)
    return nodes.add(name, ADD, scaled, shift)


def _moments(
    nodes: Nodes, name: str, x: str, axis: int, epsilon: float | None, gamma: str, attrs: dict[str, Any]
) -> tuple[str, str]:
    keep = {"keep_dims": True}
    axes = [nodes.const(f"{name}_axis_{number}", axis) for number in (1, 2)]
    mean = nodes.add(f"{name}_mean", "Mean", x, axes[0], attrs=keep | attrs)
    squares = nodes.add(f"{name}_squares", "SquaredDifference", x, mean)
    variance = nodes.add(f"{name}_variance", "Mean", squares, axes[1], attrs=keep)
    small = nodes.const(f"{name}_epsilon", epsilon)
    root = nodes.add(f"{name}_rsqrt", "Rsqrt", nodes.add(f"{name}_padded", ADD, variance, small))
    return nodes.add(f"{name}_inverse", "Mul", root, gamma), mean


GELU_TANH = ("tanh", "tf.nn tanh")
GELU_ERF = ("erf", "erf sqrt", "tf.nn erf", "tf.nn erfc")


def gelu(nodes: Nodes, form: str, x: str) -> str:
    """The activation, in one of the forms that TensorFlow's and BERT's own code give it."""
    half = nodes.const("gelu_half", 0.5)
    if form == "tf.nn erfc":  # tf.nn.gelu of TensorFlow 2.21
        factor = nodes.const("gelu_factor", 1 / SQRT_2)
        inner = nodes.add("gelu_inner", "Mul", nodes.add("gelu_negative", "Neg", x), factor)
        return nodes.add("gelu", "Mul", nodes.add("gelu_share", "Mul", half, x), nodes.add("gelu_erfc", "Erfc", inner))
    shifted = nodes.add("gelu_shifted", ADD, nodes.const("gelu_one", 1.0), _gelu_inner(nodes, form, x))
    if form.startswith("tf.nn"):
        return nodes.add("gelu", "Mul", nodes.add("gelu_share", "Mul", half, x), shifted)
    return nodes.add("gelu", "Mul", x, nodes.add("gelu_share", "Mul", half, shifted))


def _gelu_inner(nodes: Nodes, form: str, x: str) -> str:
    if "tanh" in form:
        cubed = nodes.add("gelu_cubed", "Pow", x, nodes.const("gelu_three", 3.0))
        small = nodes.add("gelu_small", "Mul", nodes.const("gelu_coefficient", 0.044715), cubed)
        inner = nodes.add("gelu_inner", ADD, x, small)
        scaled = nodes.add("gelu_scaled", "Mul", nodes.const("gelu_factor", 0.7978845608028654), inner)
        return nodes.add("gelu_tanh", "Tanh", scaled)
    if "sqrt" in form:
        root = nodes.add("gelu_root", "Sqrt", nodes.const("gelu_two", 2.0))
    else:
        root = nodes.const("gelu_root", SQRT_2)
    return nodes.add("gelu_erf", "Erf", nodes.add("gelu_inner", "RealDiv", x, root))


def dense(nodes: Nodes, name: str, x: str, op: str | list[str] = "MatMul", **attrs: Any) -> str:
    """A dense layer; its weights are the query's inputs NAME_kernel and NAME_bias."""
    more = {"attrs": attrs} if attrs else {}
    product = nodes.add(f"{name}_product", op, x, f"{name}_kernel", **more)
    return nodes.add(name, "BiasAdd", product, f"{name}_bias")


def dense_of_rows(nodes: Nodes, name: str, x: str, *, is_open: bool) -> str:
    """The Dense of Keras 2 on [batch, length, width], which is `tf.tensordot`: a product of matrices, and back.

    Where a dimension is open, the order of axes is made at run time, though it is always the same; the shapes are, too.
    """
    if is_open:
        axes = [nodes.const(f"{name}_{what}", value) for what, value in (("free", [0, 1]), ("axes", 2), ("along", 0))]
        x = nodes.add(f"{name}_turned", "Transpose", x, nodes.add(f"{name}_order", "ConcatV2", *axes))
    rows = nodes.add(f"{name}_rows", "Reshape", x, f"{name}_rows_shape")
    product = nodes.add(f"{name}_product", "MatMul", rows, f"{name}_kernel", attrs=PLAIN)
    back = nodes.add(f"{name}_back", "Reshape", product, f"{name}_back_shape")
    return nodes.add(name, "BiasAdd", back, f"{name}_bias")
