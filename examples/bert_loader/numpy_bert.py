"""BERT's forward pass in numpy, with the weights under the names that transformers gives them. Nothing of TensorFlow.

In that layout a dense layer's weight is [out, in], so it is transposed where it is used, as PyTorch does.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from answers import WEIGHTS, load_config, load_features, report
from safetensors.numpy import load_file


class NumpyBert:
    """A `BertForSequenceClassification` without a framework."""

    def __init__(self, weights: dict[str, Any], layers: int, heads: int) -> None:
        """Takes the weights as they are; nothing is copied."""
        self.weights = weights
        self.layers = layers
        self.heads = heads

    def __call__(self, input_ids: Any, input_mask: Any, segment_ids: Any) -> Any:
        """The probabilities of the classes, [batch, classes]."""
        scope = "bert.embeddings"
        hidden = self.weights[f"{scope}.word_embeddings.weight"][input_ids]
        hidden = hidden + self.weights[f"{scope}.token_type_embeddings.weight"][segment_ids]
        hidden = hidden + self.weights[f"{scope}.position_embeddings.weight"][: input_ids.shape[1]]
        hidden = self._layer_norm(hidden, scope)
        adder = (1 - input_mask[:, None, None, :].astype(np.float32)) * np.float32(-10000)
        for number in range(self.layers):
            hidden = self._layer(hidden, adder, f"bert.encoder.layer.{number}")
        pooled = np.tanh(self._dense(hidden[:, 0], "bert.pooler.dense"))
        return _softmax(self._dense(pooled, "classifier"))

    def _layer(self, hidden: Any, adder: Any, scope: str) -> Any:
        attended = self._attend(hidden, adder, f"{scope}.attention.self")
        attended = self._dense(attended, f"{scope}.attention.output.dense")
        attended = self._layer_norm(attended + hidden, f"{scope}.attention.output")
        inner = self._dense(_gelu(self._dense(attended, f"{scope}.intermediate.dense")), f"{scope}.output.dense")
        return self._layer_norm(inner + attended, f"{scope}.output")

    def _attend(self, hidden: Any, adder: Any, scope: str) -> Any:
        batch, length, width = hidden.shape
        shape = (batch, length, self.heads, width // self.heads)
        query, key, value = (
            self._dense(hidden, f"{scope}.{name}").reshape(shape).swapaxes(1, 2) for name in ("query", "key", "value")
        )
        scores = query @ key.swapaxes(2, 3) / np.float32(math.sqrt(width // self.heads)) + adder
        return (_softmax(scores) @ value).swapaxes(1, 2).reshape(hidden.shape)

    def _dense(self, inputs: Any, scope: str) -> Any:
        return inputs @ self.weights[f"{scope}.weight"].T + self.weights[f"{scope}.bias"]

    def _layer_norm(self, inputs: Any, scope: str) -> Any:
        centred = inputs - inputs.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + np.float32(1e-12))
        return scaled * self.weights[f"{scope}.LayerNorm.weight"] + self.weights[f"{scope}.LayerNorm.bias"]


def _gelu(x: Any) -> Any:
    inner = np.float32(math.sqrt(2 / math.pi)) * (x + np.float32(0.044715) * x**3)
    return x * (np.float32(0.5) * (1 + np.tanh(inner)))


def _softmax(x: Any) -> Any:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def main() -> None:
    """Loads the weights and asks the network."""
    config, features = load_config(), load_features()
    network = NumpyBert(load_file(WEIGHTS), config["num_hidden_layers"], config["num_attention_heads"])
    report("numpy", network(features["input_ids"], features["input_mask"], features["segment_ids"]))


if __name__ == "__main__":
    main()
