"""Weights by what they do, of BERTs that TensorFlow 2 saved: what is written computes what the model computes."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.errors import NotFoundInModelError
from tfsmith.testing import reference
from tfsmith.testing.models import BertConfig
from tfsmith.verbs.weights import weights

pytestmark = pytest.mark.tensorflow

CONFIG = BertConfig(19, 12, 2, 3, 20, max_position_embeddings=9)
SIZES: dict[str, Any] = json.loads(CONFIG.to_json())
SIZE = CONFIG.hidden_size // CONFIG.num_attention_heads
Change = Callable[[Any, Any], Any]


class Bert:
    """A BERT in one of several layouts, whose variables have no names that say anything.

    Args:
        layout: "apart" for kernels with an axis for the heads, "turned" for kernels whose rows are what they give,
            "flat" for plain ones.
        positions: What the numbers of positions are made of, by their plain numbers.
    """

    def __init__(self, layout: str, positions: Change = lambda tf, numbers: numbers) -> None:
        import tensorflow as tf

        self.tf, self.layout, self.positions = tf, layout, positions
        self.random = np.random.default_rng(5)
        self.module = tf.Module()
        self.module.held = []
        hidden = CONFIG.hidden_size
        self.words, self.places, self.types = (
            self.weight(rows, hidden) for rows in (CONFIG.vocab_size, CONFIG.max_position_embeddings, 2)
        )
        self.norms = [(self.weight(hidden), self.weight(hidden)) for _ in range(1 + 2 * CONFIG.num_hidden_layers)]
        self.denses = [self.dense(name) for _ in range(CONFIG.num_hidden_layers) for name in "qkvoab"]
        self.pooler = (self.weight(hidden, hidden), self.weight(hidden))
        self.classifier = (self.weight(hidden, 3), self.weight(3))

    def weight(self, *shape: int) -> Any:
        found = self.tf.Variable(self.random.standard_normal(shape).astype(np.float32) * 0.5, name="w")
        self.module.held.append(found)
        return found

    def dense(self, name: str) -> tuple[Any, Any]:
        hidden, heads, inner = CONFIG.hidden_size, CONFIG.num_attention_heads, CONFIG.intermediate_size
        rows, columns = {"a": (hidden, inner), "b": (inner, hidden)}.get(name, (hidden, hidden))
        if self.layout == "apart" and name in "qkv":
            return self.weight(hidden, heads, SIZE), self.weight(heads, SIZE)
        if self.layout == "apart" and name == "o":
            return self.weight(heads, SIZE, hidden), self.weight(hidden)
        return self.weight(*((columns, rows) if self.layout == "turned" else (rows, columns))), self.weight(columns)

    def times(self, x: Any, number: int) -> Any:
        tf = self.tf
        kernel, bias = self.denses[number]
        if self.layout == "turned":
            return tf.matmul(tf.reshape(x, [-1, kernel.shape[1]]), kernel, transpose_b=True) + bias
        return tf.reshape(x, [-1, kernel.shape[0]]) @ kernel + bias

    def norm(self, x: Any, number: int) -> Any:
        mean, variance = self.tf.nn.moments(x, [-1], keepdims=True)
        gamma, beta = self.norms[number]
        return (x - mean) * self.tf.math.rsqrt(variance + 1e-12) * gamma + beta

    def attend(self, x: Any, adder: Any, first: int, length: int) -> Any:
        tf, heads, hidden = self.tf, CONFIG.num_attention_heads, CONFIG.hidden_size
        if self.layout == "apart":
            q, k, v = (
                tf.einsum("bfh,hnd->bfnd", x, self.denses[first + at][0]) + self.denses[first + at][1]
                for at in range(3)
            )
            scores = tf.einsum("bfnd,btnd->bnft", q, k) / math.sqrt(SIZE) + adder
            mixed = tf.einsum("bnft,btnd->bfnd", tf.nn.softmax(scores), v)
            return tf.einsum("bfnd,ndh->bfh", mixed, self.denses[first + 3][0]) + self.denses[first + 3][1]
        q, k, v = (
            tf.transpose(tf.reshape(self.times(x, first + at), [-1, length, heads, SIZE]), [0, 2, 1, 3])
            for at in range(3)
        )
        shares = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / math.sqrt(SIZE) + adder)
        mixed = tf.reshape(tf.transpose(shares @ v, [0, 2, 1, 3]), [-1, length, hidden])
        return tf.reshape(self.times(mixed, first + 3), [-1, length, hidden])

    def __call__(self, ids: Any, mask: Any, segments: Any) -> Any:
        tf, length, hidden = self.tf, ids.shape[1], CONFIG.hidden_size
        numbers = self.positions(tf, tf.range(length))
        x = tf.gather(self.words, ids) + tf.gather(self.places, numbers) + tf.gather(self.types, segments)
        x = self.norm(x, 0)
        adder = (1.0 - tf.cast(mask, tf.float32)[:, None, None, :]) * -10000.0
        for layer in range(CONFIG.num_hidden_layers):
            y = self.norm(x + self.attend(x, adder, 6 * layer, length), 1 + 2 * layer)
            inner = tf.nn.gelu(self.times(y, 6 * layer + 4), approximate=True)
            x = self.norm(y + tf.reshape(self.times(inner, 6 * layer + 5), [-1, length, hidden]), 2 + 2 * layer)
        pooled = tf.tanh(x[:, 0] @ self.pooler[0] + self.pooler[1])
        return tf.nn.softmax(pooled @ self.classifier[0] + self.classifier[1])

    def save(self, path: Path) -> Path:
        tf = self.tf
        specs = [tf.TensorSpec([None, 7], tf.int32, name) for name in ("ids", "mask", "segments")]
        self.module.serve = tf.function(
            lambda ids, mask, segments: {"y": self(ids, mask, segments)}, input_signature=specs
        )
        tf.saved_model.save(self.module, str(path), signatures=self.module.serve)
        return path


def feeds() -> dict[str, Any]:
    random = np.random.default_rng(1)
    mask = np.array([[1] * 7, [1, 1, 1, 0, 0, 0, 0]], np.int32)
    return {
        "input_ids": random.integers(0, CONFIG.vocab_size, (2, 7)).astype(np.int32),
        "input_mask": mask,
        "segment_ids": random.integers(0, 2, (2, 7)).astype(np.int32),
    }


@pytest.mark.parametrize("layout", ["flat", "turned", "apart"])
def test_every_layout_computes_the_same_under_googles_names(layout: str, tmp_path: Path) -> None:
    bert = Bert(layout)
    path = bert.save(tmp_path / "model")
    assert all(".ATTRIBUTES/VARIABLE_VALUE" in name for name in tfsmith.load_weights(path))
    mapped = tfsmith.map_weights(path, "bert", config=SIZES, strict=True)
    fed = feeds()
    wanted = bert(*(bert.tf.constant(value) for value in fed.values())).numpy()
    found = reference.bert_classifier(CONFIG, mapped.weights, fed)["probabilities"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_the_file_for_transformers_has_its_names_and_layout(tmp_path: Path) -> None:
    bert = Bert("apart")
    config = tmp_path / "config.json"
    config.write_text(CONFIG.to_json())
    out = tmp_path / "m.safetensors"
    report = weights(bert.save(tmp_path / "model"), map="huggingface-bert", config=config, strict=True, out=out)
    assert [note.partition(" encoder")[0] for note in report.notes] == ["the weights were named by what they do (BERT"]
    written = tfsmith.load_weights(out)
    query = bert.denses[0][0].numpy().reshape(CONFIG.hidden_size, -1)
    np.testing.assert_array_equal(written["bert.encoder.layer.0.attention.self.query.weight"].numpy(), query.T)
    output = bert.denses[9][0].numpy().reshape(-1, CONFIG.hidden_size)
    np.testing.assert_array_equal(written["bert.encoder.layer.1.attention.output.dense.weight"].numpy(), output.T)
    np.testing.assert_array_equal(written["classifier.weight"].numpy(), bert.classifier[0].numpy().T)
    assert written.metadata["format"] == "pt"
    assert len(written) == 5 + 16 * CONFIG.num_hidden_layers + 4


def test_positions_that_are_counted_otherwise_are_no_bert(tmp_path: Path) -> None:
    path = Bert("flat", lambda tf, numbers: numbers + 2).save(tmp_path / "model")
    with pytest.raises(NotFoundInModelError, match="by structure this is no BERT: it is RoBERTa"):
        tfsmith.map_weights(path, "huggingface-bert")


def test_keys_have_the_names_of_their_variables(tmp_path: Path) -> None:
    import tensorflow as tf

    module = tf.Module()
    module.held = [tf.Variable([1.0], name="encoder/kernel"), tf.Variable([2.0], name="encoder/bias")]
    tf.saved_model.save(module, str(tmp_path / "model"))
    for facts in (
        tfsmith.show(tmp_path / "model", variables=True).facts["variable_list"],
        weights(tmp_path / "model").to_json()["weights"],
    ):
        names = {row["name"]: row.get("variable") for row in facts}
        assert names["held/0/.ATTRIBUTES/VARIABLE_VALUE"] == "encoder/kernel"
        assert names["held/1/.ATTRIBUTES/VARIABLE_VALUE"] == "encoder/bias"
