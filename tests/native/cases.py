"""Encoders with random weights, and what they compute, in plain numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Activation", "Array", "Case", "encode", "make_case"]

Array: TypeAlias = NDArray[Any]
Activation: TypeAlias = Literal["gelu_tanh", "gelu_erf", "relu"]
WEIGHTS = 16


@dataclass(frozen=True, eq=False)
class Case:
    """An encoder and something to encode.

    Attributes:
        embedded: [batch, sequence, hidden], or [batch * sequence, hidden] in the layout of TensorFlow 1.
        mask: [batch, sequence], 1 for words.
        weights: 16 for each layer.
        heads: How many there are.
        activation: What is between the dense layers.
    """

    embedded: Array
    mask: Array
    weights: list[Array]
    heads: int
    activation: Activation

    @property
    def attributes(self) -> dict[str, Any]:
        """Those of the op."""
        return {
            "HiddenSize": self.embedded.shape[-1],
            "NumAttentionHeads": self.heads,
            "IntermediateSize": self.weights[10].shape[1],
            "MaxSequenceLength": self.mask.shape[1],
            "HiddenAct": self.activation,
        }

    @property
    def expected(self) -> Array:
        """What the op shall give."""
        batch, length = self.mask.shape
        rows = self.embedded.reshape(batch, length, -1)
        return encode(rows, self.mask, self.weights, self.heads, self.activation).reshape(self.embedded.shape)

    def run(self, op: Callable[..., Any], **changes: Any) -> Array:
        """What the op gives. Changes are of its inputs and attributes."""
        arguments = {
            "embedded": self.embedded,
            "input_mask": self.mask,
            "weights": self.weights,
            **self.attributes,
            **changes,
        }
        result: Array = op(**arguments).numpy()
        return result


def make_case(
    *,
    layers: int = 1,
    batch: int = 1,
    length: int = 8,
    heads: int = 2,
    head_size: int = 8,
    inner: int = 24,
    keras: bool = False,
    activation: Activation = "gelu_tanh",
    mask: Any = np.int32,
    seed: int = 0,
    spread: float = 0.3,
) -> Case:
    """A case with padding in its sentences, but at least one word in each.

    Args:
        layers: How many.
        batch: How many sentences.
        length: How many words in each, with padding.
        heads: How many.
        head_size: The hidden size is this times `heads`.
        inner: The intermediate size.
        keras: Whether inputs and kernels have the shapes of Keras's layers, or of TensorFlow 1's.
        activation: What is between the dense layers.
        mask: The type of the mask.
        seed: What all values follow from.
        spread: How far weights are from zero, before they are divided by the root of their depth.
    """
    random = np.random.default_rng(seed)
    hidden = heads * head_size
    embedded = random.standard_normal((batch, length, hidden), np.float32)
    words = random.integers(1, length + 1, batch)[:, None]
    return Case(
        embedded if keras else embedded.reshape(batch * length, hidden),
        (np.arange(length)[None] < words).astype(mask),
        [one for _ in range(layers) for one in _layer(random, heads, head_size, inner, keras=keras, spread=spread)],
        heads,
        activation,
    )


def _layer(
    random: np.random.Generator, heads: int, head_size: int, inner: int, *, keras: bool, spread: float
) -> list[Array]:
    hidden = heads * head_size

    def values(*shape: int, depth: int = 1, middle: float = 0) -> Array:
        drawn: Array = middle + random.standard_normal(shape, np.float32) * np.float32(spread / math.sqrt(depth))
        return drawn

    into = (hidden, heads, head_size) if keras else (hidden, hidden)
    out = (heads, head_size, hidden) if keras else (hidden, hidden)
    bias = (heads, head_size) if keras else (hidden,)
    result = []
    for _ in range(3):
        result += [3 * values(*into, depth=hidden), values(*bias)]
    result += [3 * values(*out, depth=hidden), values(hidden), values(hidden, middle=1), values(hidden)]
    result += [3 * values(hidden, inner, depth=hidden), values(inner)]
    return [*result, 3 * values(inner, hidden, depth=inner), values(hidden), values(hidden, middle=1), values(hidden)]


def encode(
    embedded: Array,
    mask: Array,
    weights: list[Array],
    heads: int,
    activation: Activation,
    *,
    epsilon: float = 1e-12,
    adder: float = -10000,
    clear: bool = False,
) -> Array:
    """The encoder in float64. The mask is [batch, sequence] or [batch, sequence, sequence]."""
    net = embedded.astype(np.float64)
    batch, length, _ = net.shape
    hidden = 1 - mask.astype(np.float64).reshape(batch, 1, -1, length)
    added = np.multiply(hidden, adder, where=hidden != 0, out=np.zeros_like(hidden))
    shown = (hidden != 1) if clear else np.ones_like(hidden)
    for number in range(0, len(weights), WEIGHTS):
        layer = [one.astype(np.float64) for one in weights[number : number + WEIGHTS]]
        attended = _attend(net, added, shown, layer, heads)
        attended = _normalize(_dense(attended, layer[6], layer[7]) + net, layer[8], layer[9], epsilon)
        inner = _activate(_dense(attended, layer[10], layer[11]), activation)
        net = _normalize(_dense(inner, layer[12], layer[13]) + attended, layer[14], layer[15], epsilon)
    return net


def _dense(net: Array, kernel: Array, bias: Array) -> Array:
    result: Array = net @ kernel.reshape(net.shape[-1], -1) + bias.reshape(-1)
    return result


def _attend(net: Array, added: Array, shown: Array, layer: list[Array], heads: int) -> Array:
    batch, length, hidden = net.shape
    query, key, value = (
        _dense(net, layer[at], layer[at + 1]).reshape(batch, length, heads, hidden // heads).swapaxes(1, 2)
        for at in (0, 2, 4)
    )
    scores = query @ key.swapaxes(2, 3) / math.sqrt(hidden // heads) + added
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    shares = np.where(shown, powers / powers.sum(-1, keepdims=True), 0)
    result: Array = (shares @ value).swapaxes(1, 2).reshape(batch, length, hidden)
    return result


def _normalize(net: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
    middle = net - net.mean(-1, keepdims=True)
    result: Array = middle / np.sqrt((middle**2).mean(-1, keepdims=True) + epsilon) * gamma + beta
    return result


def _activate(net: Array, activation: Activation) -> Array:
    if activation == "relu":
        return np.maximum(net, 0)
    if activation == "gelu_tanh":
        below = 1 + np.tanh(math.sqrt(2 / math.pi) * (net + 0.044715 * net**3))
    else:
        below = 1 + np.vectorize(math.erf)(net / math.sqrt(2))
    result: Array = net * 0.5 * below
    return result
