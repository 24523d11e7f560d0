"""BERT in the style of TensorFlow 1, with the names that Google's code gives to variables and nodes.

`tf.layers` and `tf.contrib` are gone from TensorFlow, so what they did is spelled out: a dense layer, a layer norm.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import tensorflow.compat.v1 as tf


class BertConfig(NamedTuple):
    """The sizes of a BERT, as `bert_config.json` has them."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    max_position_embeddings: int = 512
    type_vocab_size: int = 2
    initializer_range: float = 0.02
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1

    @classmethod
    def load(cls, path: str | Path) -> BertConfig:
        """Reads a `bert_config.json`; what it has besides is ignored."""
        found = json.loads(Path(path).read_text())
        config = cls(**{name: found[name] for name in cls._fields if name in found})
        if config.hidden_act != "gelu":
            raise SystemExit(f"{path}: hidden_act is {config.hidden_act!r}; this code has gelu only")
        return config


class Classifier(NamedTuple):
    """The tensors of the classifier."""

    loss: Any
    probabilities: Any


def build_classifier(config: BertConfig, features: dict[str, Any], labels: int, *, is_training: bool) -> Classifier:
    """Adds the network to the default graph: the encoder, the pooler, and a layer that tells the classes apart."""
    network = _Network(config, is_training)
    with tf.variable_scope("bert"):
        pooled = network.encode(features["input_ids"], features["input_mask"], features["segment_ids"])
    normal = tf.truncated_normal_initializer(stddev=0.02)
    weights = tf.get_variable("output_weights", [labels, config.hidden_size], initializer=normal)
    bias = tf.get_variable("output_bias", [labels], initializer=tf.zeros_initializer())
    with tf.variable_scope("loss"):
        if is_training:
            pooled = _dropout(pooled, 0.1)
        logits = tf.nn.bias_add(tf.matmul(pooled, weights, transpose_b=True), bias)
        probabilities = tf.nn.softmax(logits, axis=-1, name="output")
        wanted = tf.one_hot(features["label_ids"], depth=labels, dtype=tf.float32)
        losses = -tf.reduce_sum(wanted * tf.nn.log_softmax(logits, axis=-1), axis=-1)
        return Classifier(tf.reduce_mean(losses), probabilities)


class _Network:
    """The parts of the encoder; each is called within the variable scope that gives it its names."""

    def __init__(self, config: BertConfig, is_training: bool) -> None:
        self.config = config
        self.hidden_dropout = config.hidden_dropout_prob if is_training else 0.0
        self.attention_dropout = config.attention_probs_dropout_prob if is_training else 0.0
        self.initializer = tf.truncated_normal_initializer(stddev=config.initializer_range)

    def encode(self, input_ids: Any, input_mask: Any, segment_ids: Any) -> Any:
        """What the pooler makes of the first token, [batch, hidden]."""
        with tf.variable_scope("embeddings"):
            hidden = self._embed(input_ids, segment_ids)
        with tf.variable_scope("encoder"):
            batch, length = _dims(input_ids)
            # Every token may look at every token that is not padding: 0 for these, and -10000 for the others.
            mask = tf.cast(tf.reshape(input_mask, [batch, 1, 1, length]), tf.float32)
            adder = (1.0 - mask) * -10000.0
            hidden = tf.reshape(hidden, [-1, self.config.hidden_size])
            for number in range(self.config.num_hidden_layers):
                with tf.variable_scope(f"layer_{number}"):
                    hidden = self._layer(hidden, adder, batch, length)
            hidden = tf.reshape(hidden, [batch, length, self.config.hidden_size])
        with tf.variable_scope("pooler"):
            first = tf.squeeze(hidden[:, 0:1, :], axis=1)
            return tf.tanh(self._dense(first, self.config.hidden_size, "dense"))

    def _embed(self, input_ids: Any, segment_ids: Any) -> Any:
        config = self.config
        batch, length = _dims(input_ids)
        words = self._table("word_embeddings", config.vocab_size)
        types = self._table("token_type_embeddings", config.type_vocab_size)
        positions = self._table("position_embeddings", config.max_position_embeddings)
        hidden = tf.gather(words, tf.reshape(input_ids, [-1]))
        segments = tf.one_hot(tf.reshape(segment_ids, [-1]), depth=config.type_vocab_size)
        hidden = tf.reshape(hidden + tf.matmul(segments, types), [batch, length, config.hidden_size])
        hidden += tf.reshape(tf.slice(positions, [0, 0], [length, -1]), [1, length, config.hidden_size])
        return _dropout(self._layer_norm(hidden), self.hidden_dropout)

    def _layer(self, hidden: Any, adder: Any, batch: Any, length: int) -> Any:
        width = self.config.hidden_size
        with tf.variable_scope("attention"):
            with tf.variable_scope("self"):
                attended = self._attend(hidden, adder, batch, length)
            with tf.variable_scope("output"):
                attended = _dropout(self._dense(attended, width, "dense"), self.hidden_dropout)
                attended = self._layer_norm(attended + hidden)
        with tf.variable_scope("intermediate"):
            inner = _gelu(self._dense(attended, self.config.intermediate_size, "dense"))
        with tf.variable_scope("output"):
            inner = _dropout(self._dense(inner, width, "dense"), self.hidden_dropout)
            return self._layer_norm(inner + attended)

    def _attend(self, hidden: Any, adder: Any, batch: Any, length: int) -> Any:
        heads = self.config.num_attention_heads
        size = self.config.hidden_size // heads

        def split(name: str) -> Any:
            """From [batch * length, hidden] to [batch, heads, length, size]."""
            flat = self._dense(hidden, heads * size, name)
            return tf.transpose(tf.reshape(flat, [batch, length, heads, size]), [0, 2, 1, 3])

        query, key, value = split("query"), split("key"), split("value")
        scores = tf.multiply(tf.matmul(query, key, transpose_b=True), 1.0 / math.sqrt(size))
        shares = _dropout(tf.nn.softmax(scores + adder), self.attention_dropout)
        context = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])
        return tf.reshape(context, [-1, heads * size])

    def _table(self, name: str, rows: int) -> Any:
        return tf.get_variable(name, [rows, self.config.hidden_size], initializer=self.initializer)

    def _dense(self, inputs: Any, units: int, name: str) -> Any:
        with tf.variable_scope(name):
            kernel = tf.get_variable("kernel", [int(inputs.shape[-1]), units], initializer=self.initializer)
            bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
            return tf.nn.bias_add(tf.matmul(inputs, kernel), bias)

    def _layer_norm(self, inputs: Any) -> Any:
        width = [self.config.hidden_size]
        with tf.variable_scope("LayerNorm"):
            beta = tf.get_variable("beta", width, initializer=tf.zeros_initializer())
            gamma = tf.get_variable("gamma", width, initializer=tf.ones_initializer())
            mean, variance = tf.nn.moments(inputs, [len(inputs.shape) - 1], keep_dims=True)
            return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def _dims(tensor: Any) -> list[Any]:
    """The dimensions: numbers where the graph knows them, else tensors."""
    dynamic = None
    dims: list[Any] = tensor.shape.as_list()
    for index, dim in enumerate(dims):
        if dim is None:
            dynamic = tf.shape(tensor) if dynamic is None else dynamic
            dims[index] = dynamic[index]
    return dims


def _gelu(x: Any) -> Any:
    """Google's gelu, by tanh."""
    return x * (0.5 * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * tf.pow(x, 3)))))


def _dropout(x: Any, rate: float) -> Any:
    return tf.nn.dropout(x, rate=rate) if rate else x
