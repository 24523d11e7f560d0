"""The forward passes of the test models in plain numpy: what the graphs must compute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tfsmith.ir.tensor import Tensor
from tfsmith.testing.bert_config import BertConfig

__all__ = ["EPSILON", "Array", "bert_classifier", "conv_net", "linear_regression"]

EPSILON = 1e-3
"""What the batch normalization of the conv net adds to the variance."""
Array: TypeAlias = NDArray[Any]
Variables: TypeAlias = Mapping[str, Tensor]
Feeds: TypeAlias = Mapping[str, Array]


def linear_regression(variables: Variables, feeds: Feeds) -> dict[str, Array]:
    """A line, and, if samples are given, how far they are from it."""
    slope = variables["model_variables/slope"].numpy()
    y = slope * feeds["x"] + variables["model_variables/intercept"].numpy()
    if "y_sample" not in feeds:
        return {"y": y}
    return {"y": y, "loss": np.sum((y - feeds["y_sample"]) ** 2)}


def conv_net(variables: Variables, feeds: Feeds, blocks: int) -> dict[str, Array]:
    """Blocks of convolution, batch normalization, Relu and pooling; then mean, dense layer, softmax."""
    net = feeds["images"].astype(np.float32)
    for number in range(blocks):
        suffix = f"_{number}" if number else ""
        net = _convolve(net, variables[f"conv2d{suffix}/kernel"].numpy()) + variables[f"conv2d{suffix}/bias"].numpy()
        net = _pool(np.maximum(_normalize(net, variables, f"batch_normalization{suffix}"), 0))
    net = net.mean((1, 2), dtype=np.float32) @ variables["dense/kernel"].numpy() + variables["dense/bias"].numpy()
    return {"probabilities": _softmax(net)}


def _convolve(images: Array, kernel: Array) -> Array:
    """Three by three, with zeros around so that the size stays."""
    padded = np.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))  # [B, H, W, C, 3, 3]
    result: Array = np.einsum("bhwcij,ijcd->bhwd", windows, kernel)
    return result


def _normalize(net: Array, variables: Variables, scope: str) -> Array:
    gamma, beta, mean, variance = (
        variables[f"{scope}/{name}"].numpy() for name in ("gamma", "beta", "moving_mean", "moving_variance")
    )
    result: Array = (net - mean) * (gamma / np.sqrt(variance + np.float32(EPSILON))) + beta
    return result


def _pool(net: Array) -> Array:
    """The largest of each two by two; an odd row or column is left out."""
    batch, height, width, depth = net.shape
    net = net[:, : height // 2 * 2, : width // 2 * 2]
    result: Array = net.reshape(batch, height // 2, 2, width // 2, 2, depth).max((2, 4))
    return result


def bert_classifier(config: BertConfig, variables: Variables, feeds: Feeds) -> dict[str, Array]:
    """Probabilities, and, if labels are given, the loss. Holds one layer's weights at a time."""
    sequence = _encode(config, variables, feeds)
    pooled = np.tanh(_dense(sequence[:, 0], variables, "bert/pooler/dense"))
    logits = pooled @ variables["output_weights"].numpy().T + variables["output_bias"].numpy()
    probabilities = _softmax(logits)
    if "label_ids" not in feeds:
        return {"probabilities": probabilities}
    shifted = logits - logits.max(-1, keepdims=True)
    logs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    labels = feeds["label_ids"]
    return {"probabilities": probabilities, "loss": -logs[np.arange(len(labels)), labels].mean(dtype=np.float32)}


def _encode(config: BertConfig, variables: Variables, feeds: Feeds) -> Array:
    """The last layer's output, [B, F, N*H]."""
    ids = feeds["input_ids"]
    length = ids.shape[1]
    net = variables["bert/embeddings/word_embeddings"].numpy()[ids]
    net = net + variables["bert/embeddings/token_type_embeddings"].numpy()[feeds["segment_ids"]]
    net = net + variables["bert/embeddings/position_embeddings"].numpy()[:length]
    net = _layer_norm(net, variables, "bert/embeddings/LayerNorm")
    adder = (1 - feeds["input_mask"][:, None, None, :].astype(np.float32)) * np.float32(-10000)
    for number in range(config.num_hidden_layers):
        scope = f"bert/encoder/layer_{number}"
        attended = _attend(config, variables, f"{scope}/attention/self", net, adder)
        attended = _dense(attended, variables, f"{scope}/attention/output/dense")
        attended = _layer_norm(attended + net, variables, f"{scope}/attention/output/LayerNorm")
        inner = _gelu(_dense(attended, variables, f"{scope}/intermediate/dense"))
        inner = _dense(inner, variables, f"{scope}/output/dense")
        net = _layer_norm(inner + attended, variables, f"{scope}/output/LayerNorm")
    return net


def _attend(config: BertConfig, variables: Variables, scope: str, net: Array, adder: Array) -> Array:
    batch, length, width = net.shape
    heads = config.num_attention_heads
    query, key, value = (
        _dense(net, variables, f"{scope}/{name}").reshape(batch, length, heads, width // heads).swapaxes(1, 2)
        for name in ("query", "key", "value")
    )
    scores = query @ key.swapaxes(2, 3) * np.float32(1 / math.sqrt(width // heads)) + adder
    result: Array = (_softmax(scores) @ value).swapaxes(1, 2).reshape(batch, length, width)
    return result


def _dense(net: Array, variables: Variables, scope: str) -> Array:
    result: Array = net @ variables[f"{scope}/kernel"].numpy() + variables[f"{scope}/bias"].numpy()
    return result


def _layer_norm(net: Array, variables: Variables, scope: str) -> Array:
    mean = net.mean(-1, keepdims=True)
    variance = ((net - mean) ** 2).mean(-1, keepdims=True)
    scaled = (net - mean) / np.sqrt(variance + np.float32(1e-12))
    result: Array = scaled * variables[f"{scope}/gamma"].numpy() + variables[f"{scope}/beta"].numpy()
    return result


def _gelu(net: Array) -> Array:
    inner = np.float32(math.sqrt(2 / math.pi)) * (net + np.float32(0.044715) * net**3)
    result: Array = net * (np.float32(0.5) * (1 + np.tanh(inner)))
    return result


def _softmax(net: Array) -> Array:
    powers = np.exp(net - net.max(-1, keepdims=True))
    result: Array = powers / powers.sum(-1, keepdims=True)
    return result
