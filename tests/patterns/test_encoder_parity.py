"""Encoders in many spellings become one node `Bert`, which computes the same in TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.patterns.encoder import Fused, fuse_encoders

pytestmark = pytest.mark.tensorflow

WIDTH, HEADS, INNER, LENGTH, LAYERS = 16, 4, 32, 6, 2
SIZE = WIDTH // HEADS


class Spelling:
    """One way to write the encoder of a BERT down."""

    def __init__(self, projection: str, scale: str, mask: str, norm: str, gelu: str, epsilon: float = 1e-6) -> None:
        self.projection, self.scale, self.mask = projection, scale, mask
        self.norm, self.gelu, self.epsilon = norm, gelu, epsilon
        self.count = 0

    def weight(self, tf: Any, *shape: int) -> Any:
        self.count += 1
        values = np.random.default_rng(self.count).standard_normal(shape) / np.sqrt(shape[0])
        return tf.constant(values.astype(np.float32), name=f"weight_{self.count}")

    def dense(self, tf: Any, x: Any, width: int, given: int) -> Any:
        if self.projection == "rows":
            flat = tf.matmul(tf.reshape(x, [-1, given]), self.weight(tf, given, width))
            return tf.reshape(tf.nn.bias_add(flat, self.weight(tf, width)), [-1, LENGTH, width])
        if self.projection == "turned":
            return tf.einsum("abc,dc->abd", x, self.weight(tf, width, given)) + self.weight(tf, width)
        return tf.tensordot(x, self.weight(tf, given, width), 1) + self.weight(tf, width)

    def heads(self, tf: Any, x: Any) -> Any:
        if self.projection == "einsum":
            return (
                tf.einsum("abc,cde->adbe", x, self.weight(tf, WIDTH, HEADS, SIZE))
                + self.weight(tf, HEADS, 1, SIZE)[:, :, :] * 0
            )
        cut = tf.reshape(self.dense(tf, x, WIDTH, WIDTH), [-1, LENGTH, HEADS, SIZE])
        return tf.transpose(cut, [0, 2, 1, 3])

    def scores(self, tf: Any, query: Any, key: Any) -> Any:
        if self.scale == "query":
            return tf.matmul(query * (1 / np.sqrt(SIZE).astype(np.float32)), key, transpose_b=True)
        if self.scale == "rsqrt":
            found = tf.matmul(query, key, transpose_b=True)
            return found * tf.math.rsqrt(tf.cast(tf.shape(query)[-1], tf.float32))
        return tf.matmul(query, key, transpose_b=True) / tf.sqrt(tf.constant(float(SIZE)))

    def masked(self, tf: Any, scores: Any, mask: Any) -> Any:
        wide = tf.cast(mask, tf.float32)[:, tf.newaxis, tf.newaxis, :]
        if self.mask == "multiplied":
            return scores + (1.0 - wide) * -10000.0
        if self.mask == "subtracted":
            return scores - 1e9 * (1.0 - wide)
        if self.mask == "with ones":
            ones = tf.ones([1, LENGTH, 1])
            return scores + (1.0 - tf.expand_dims(ones * tf.cast(mask, tf.float32)[:, tf.newaxis, :], 1)) * -10000.0
        condition = tf.cast(mask, tf.bool)[:, tf.newaxis, tf.newaxis, :]
        if self.mask == "infinite":
            return tf.where(condition, scores, -np.inf)
        if self.mask == "infinite, added":
            return scores + tf.where(condition, 0.0, -np.inf)
        if self.mask == "hidden":
            return tf.where(tf.logical_not(condition), -1e9, scores)
        if self.mask == "chosen":
            return scores + tf.where(mask[:, tf.newaxis, tf.newaxis, :] > 0, 0.0, -1e9)
        return tf.where(condition, scores, -1e9)

    def shares(self, tf: Any, scores: Any, mask: Any) -> Any:
        found = tf.nn.softmax(self.masked(tf, scores, mask))
        if self.mask not in ("cleared", "cleared product", "cleared by another"):
            return found
        condition = tf.cast(mask, tf.bool)[:, tf.newaxis, tf.newaxis, :]
        if self.mask == "cleared":
            return tf.where(condition, found, 0.0)
        if self.mask == "cleared product":
            return found * tf.cast(condition, tf.float32)
        return tf.where(mask[:, tf.newaxis, tf.newaxis, :] > 1, found, 0.0)

    def normalized(self, tf: Any, x: Any) -> Any:
        gamma, beta = self.weight(tf, WIDTH), self.weight(tf, WIDTH)
        if self.norm == "moments":
            mean, variance = tf.nn.moments(x, [-1], keepdims=True)
            return tf.nn.batch_normalization(x, mean, variance, beta, gamma, self.epsilon)
        centered = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
        return gamma * centered / tf.sqrt(variance + self.epsilon) + beta

    def activated(self, tf: Any, x: Any) -> Any:
        if self.gelu == "relu":
            return tf.nn.relu(x)
        if self.gelu == "tanh":
            return x * 0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi).astype(np.float32) * (x + 0.044715 * tf.pow(x, 3))))
        return 0.5 * x * (1.0 + tf.math.erf(x / np.sqrt(2.0).astype(np.float32)))

    def layer(self, tf: Any, x: Any, mask: Any) -> Any:
        query, key, value = (self.heads(tf, x) for _ in range(3))
        shares = self.shares(tf, self.scores(tf, query, key), mask)
        context = tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3])
        joined = tf.reshape(context, [-1, LENGTH, WIDTH])
        y = self.normalized(tf, x + self.dense(tf, joined, WIDTH, WIDTH))
        inner = self.activated(tf, self.dense(tf, y, INNER, WIDTH))
        return self.normalized(tf, y + self.dense(tf, inner, WIDTH, INNER))


def made(spelling: Spelling, more: Callable[[Any, list[Any]], Any] | None = None) -> bytes:
    """The graph of an encoder, as bytes."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, LENGTH, WIDTH], "x")
        mask = tf.compat.v1.placeholder(tf.int32, [None, LENGTH], "mask")
        given = [x]
        for _ in range(LAYERS):
            given.append(spelling.layer(tf, given[-1], mask))
        tf.identity(tf.reduce_sum(given[-1], 1) if more is None else more(tf, given), "out")
        data: bytes = graph.as_graph_def().SerializeToString()
    return data


def computed(data: bytes) -> Any:
    """What a graph gives for whole and padded sentences, one with a single word, and one of padding only."""
    import tensorflow as tf

    tf.load_op_library(str(tfsmith.bert_op.library()))
    definition = tf.compat.v1.GraphDef.FromString(data)
    random = np.random.default_rng(3)
    mask = np.ones((5, LENGTH), np.int32)
    mask[1, 3:] = mask[2, 1:] = mask[3] = 0
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        options = tf.compat.v1.ConfigProto()
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.compat.v1.Session(graph=graph, config=options) as session:
            x = random.standard_normal((5, LENGTH, WIDTH)).astype(np.float32)
            return session.run("out:0", {"x:0": x, "mask:0": mask})


def fused(data: bytes) -> Fused:
    return fuse_encoders(tfsmith.load(data), ["out"])


def written(model: tfsmith.Model, folder: Path) -> bytes:
    tfsmith.save(model, folder / "fused.pb")
    return (folder / "fused.pb").read_bytes()


PROJECTIONS = ("rows", "tensordot", "turned", "einsum")
MASKS = (
    *("multiplied", "subtracted", "with ones", "where", "hidden", "chosen", "infinite", "infinite, added"),
    *("cleared", "cleared product"),
)
CASES: list[tuple[str, str, str, str, str]] = [
    *product(PROJECTIONS, ("query",), ("multiplied",), ("moments",), ("tanh",)),
    *product(("rows",), ("query",), MASKS[1:], ("plain",), ("erf",)),
    ("rows", "query", "multiplied", "plain", "relu"),
    *product(("tensordot",), ("after", "rsqrt"), ("multiplied",), ("moments", "plain"), ("erf",)),
]


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_every_spelling_becomes_one_node(case: tuple[str, str, str, str, str], tmp_path: Path) -> None:
    data = made(Spelling(*case))
    found = fused(data)
    assert [len(encoder.stack.layers) for encoder in found.encoders] == [LAYERS], found.refused
    assert sum(node.op == "Bert" for node in found.model.graph) == 1
    assert not any(node.op in ("Softmax", "Tanh", "Erf", "BatchMatMulV2") for node in found.model.graph)
    np.testing.assert_allclose(computed(written(found.model, tmp_path)), computed(data), atol=1e-4, rtol=1e-4)


def test_an_output_between_layers_splits_the_encoder(tmp_path: Path) -> None:
    data = made(Spelling("rows", "after", "multiplied", "plain", "erf"), lambda tf, given: given[1] + 2 * given[2])
    found = fused(data)
    assert [len(encoder.stack.layers) for encoder in found.encoders] == [1, 1]
    np.testing.assert_allclose(computed(written(found.model, tmp_path)), computed(data), atol=1e-4, rtol=1e-4)


def test_an_output_keeps_its_name(tmp_path: Path) -> None:
    data = made(Spelling("tensordot", "after", "multiplied", "plain", "erf"), lambda tf, given: given[2])
    found = fused(data)
    assert len(found.encoders) == 1
    np.testing.assert_allclose(computed(written(found.model, tmp_path)), computed(data), atol=1e-4, rtol=1e-4)


def test_the_verbs_say_what_it_is_and_optimize_it(tmp_path: Path) -> None:
    path = tmp_path / "model.pb"
    path.write_bytes(made(Spelling("tensordot", "rsqrt", "where", "plain", "erf")))
    (facts,) = tfsmith.show(path, architecture=True).facts["architecture"]
    assert facts["text"] == "encoder of 2 layers, hidden 16, heads 4, intermediate 32, gelu erf, epsilon 1e-06"
    done = tfsmith.optimize(path, tmp_path / "fast.pb", outputs=["out"], repeat=0, batch_size=3)
    assert done, list(done.report())
    assert [len(match.units) for match in done.replaced.matches] == [LAYERS]
    assert "Bert" in {node.op for node in tfsmith.load(tmp_path / "fast.pb").graph}


REFUSED: dict[str, tuple[Callable[[Spelling], None], str]] = {
    "another scale": (
        lambda one: setattr(one, "scores", lambda tf, q, k: tf.matmul(q, k, transpose_b=True) / 3.0),
        "scores",
    ),
    "sigmoid": (lambda one: setattr(one, "activated", lambda tf, x: tf.nn.sigmoid(x)), "activation"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_op_cannot_do_stays_with_a_reason(name: str) -> None:
    change, words = REFUSED[name]
    spelling = Spelling("rows", "after", "multiplied", "plain", "erf")
    change(spelling)
    found = fused(made(spelling))
    assert not found.encoders
    assert words in found.refused[0].reason


MUST_NOT: dict[str, Callable[[Spelling], None]] = {
    "a mask behind the softmax": lambda one: setattr(one, "masked", lambda tf, scores, mask: tf.nn.softmax(scores)),
    "shares cleared by another mask": lambda one: setattr(one, "mask", "cleared by another"),
    "no residual": lambda one: setattr(one, "normalized", lambda tf, x: Spelling.normalized(one, tf, x * x)),
}


@pytest.mark.parametrize("name", MUST_NOT)
def test_what_is_no_encoder_is_left_alone(name: str) -> None:
    spelling = Spelling("rows", "after", "multiplied", "plain", "erf")
    MUST_NOT[name](spelling)
    found = fused(made(spelling))
    assert not found.encoders
    assert not found.refused
