"""A linear regression in float64, y = slope * x + intercept: the smallest model that has everything."""

from __future__ import annotations

from tfsmith.testing.builder import GraphBuilder
from tfsmith.testing.ops import reduce_all_axes
from tfsmith.testing.values import FLOAT64, Output
from tfsmith.testing.variables import Kind
from tfsmith.testing.weights import fixed

__all__ = ["build_linear_regression"]


def build_linear_regression(kind: Kind, slope: float, intercept: float) -> tuple[GraphBuilder, dict[str, Output]]:
    """Adds the nodes: placeholders, variables, the line, and the loss that it was trained with.

    Returns:
        The builder, and its tensors by key: x, y_sample, y, loss.
    """
    builder = GraphBuilder(kind)
    with builder.name_scope("inputs"):
        x = builder.placeholder(FLOAT64, [None, None], "x_sample")
        sample = builder.placeholder(FLOAT64, [None, None], "y_sample")
        builder.add_to_collection("inputs", x)
        builder.add_to_collection("inputs", sample)
    with builder.variable_scope("model_variables"):
        weight = builder.variable("slope", builder.const(1.0, FLOAT64), fixed(slope))
        offset = builder.variable("intercept", builder.const(1.0, FLOAT64), fixed(intercept))
    with builder.name_scope("linear_regression"):
        product = builder.node("Mul", [builder.read(weight), x], {}, "mul").out
        y = builder.node("AddV2", [product, offset], {}, "add").out
        builder.add_to_collection("outputs", y)
    with builder.name_scope("optimizer"):
        error = builder.node("Sub", [y, sample], {}, "sub").out
        loss = reduce_all_axes(builder, "Sum", builder.node("Pow", [error, 2.0], {}, "pow").out)
    return builder, {"x": x, "y_sample": sample, "y": y, "loss": loss}
