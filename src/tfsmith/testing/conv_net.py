"""A small convolutional classifier of images in NHWC, with the names that `tf.layers` gives."""

from __future__ import annotations

from collections.abc import Sequence

from tfsmith.records import record
from tfsmith.testing.builder import GraphBuilder
from tfsmith.testing.ops import dense
from tfsmith.testing.values import FLOAT32, Output
from tfsmith.testing.variables import Kind, glorot_uniform, ones, zeros
from tfsmith.testing.weights import Weights

__all__ = ["EPSILON", "ConvNetConfig", "build_conv_net"]

EPSILON = 1e-3
"""What batch normalization adds to the variance; the default of `tf.layers`."""


@record
class ConvNetConfig:
    """The sizes of the network: square images, one block for each number of filters."""

    size: int = 8
    channels: int = 3
    filters: Sequence[int] = (4, 6)
    classes: int = 5


def build_conv_net(
    config: ConvNetConfig, kind: Kind, batch: int | None, weights: Weights
) -> tuple[GraphBuilder, dict[str, Output]]:
    """Adds the nodes: blocks of convolution, batch normalization, Relu and pooling; then mean, dense layer, softmax.

    Returns:
        The builder, and its tensors by key: images, probabilities.
    """
    builder = GraphBuilder(kind)
    images = builder.placeholder(FLOAT32, [batch, config.size, config.size, config.channels], "images")
    net = images
    for number, depth in enumerate(config.filters):
        suffix = f"_{number}" if number else ""
        net = _convolve(builder, net, depth, f"conv2d{suffix}", weights)
        net = _normalize(builder, net, depth, f"batch_normalization{suffix}", weights)
        net = builder.node("Relu", [net]).out
        with builder.name_scope(f"max_pooling2d{suffix}"):
            window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
            net = builder.node("MaxPool", [net], window).out
    net = builder.node("Mean", [net, [1, 2]]).out
    kernel = weights.normal(net.dims[1], config.classes, stddev=0.5)
    bias = weights.normal(config.classes, stddev=0.1)
    net = dense(builder, net, kernel, bias, "dense", glorot_uniform)
    return builder, {"images": images, "probabilities": builder.node("Softmax", [net], {}, "probabilities").out}


def _convolve(builder: GraphBuilder, net: Output, depth: int, name: str, weights: Weights) -> Output:
    with builder.variable_scope(name):
        kernel = builder.variable("kernel", glorot_uniform, weights.normal(3, 3, net.dims[3], depth, stddev=0.2))
        bias = builder.variable("bias", zeros, weights.normal(depth, stddev=0.1))
        product = builder.node("Conv2D", [net, kernel], {"strides": [1, 1, 1, 1], "padding": "SAME"}).out
        return builder.node("BiasAdd", [product, bias]).out


def _normalize(builder: GraphBuilder, net: Output, depth: int, name: str, weights: Weights) -> Output:
    around_one = weights.normal(depth, stddev=0.1, center=1.0)
    around_zero = weights.normal(depth, stddev=0.1)
    with builder.variable_scope(name):
        gamma = builder.variable("gamma", ones, around_one)
        beta = builder.variable("beta", zeros, around_zero)
        mean = builder.variable("moving_mean", zeros, around_zero, trainable=False)
        variance = builder.variable("moving_variance", ones, around_one, trainable=False)
        # TensorFlow reads scale and offset before it enters the node's scope, the moments inside.
        inputs = [net, builder.read(gamma), builder.read(beta), mean, variance]
        return builder.node("FusedBatchNormV3", inputs, {"epsilon": EPSILON, "is_training": False}).out
