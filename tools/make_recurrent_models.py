"""Makes the small recurrent models of `tests/data/recurrent`: trained on nothing, frozen, compressed.

    python -m tools.make_recurrent_models

Needs TensorFlow with Keras 3, and tf_keras for the layers of Keras 2 and the cells of TensorFlow 1. The weights come
from a seed.
"""

from __future__ import annotations

import lzma
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy

import tfsmith

_OUT = Path(__file__).resolve().parents[1] / "tests/data/recurrent"
_VOCABULARY, _WIDTH, _UNITS = 20, 6, 5


def main() -> None:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    _OUT.mkdir(exist_ok=True)
    import keras
    import tf_keras

    for name, layers, is_masked in _layers(keras.layers):
        _keep(f"keras-{name}", _exported(keras, layers, is_masked=is_masked))
    for name, layers, is_masked in _layers(tf_keras.layers)[:2]:
        _keep(f"keras2-{name.removesuffix('-tagger')}", _exported(tf_keras, layers, is_masked=is_masked))
    for name, build in _cells().items():
        _keep(f"tf1-{name}", _frozen(build))


def _layers(layers: Any) -> list[tuple[str, list[Any], bool]]:
    """Name, layers behind the embedding, whether it masks words that are 0."""
    tags = layers.Dense(3, activation="softmax")
    return [
        ("lstm-tagger", [layers.LSTM(_UNITS, return_sequences=True), tags], False),
        ("gru-tagger", [layers.GRU(_UNITS, return_sequences=True), layers.Dense(3)], False),
        ("gru-before", [layers.GRU(_UNITS, reset_after=False), layers.Dense(3)], False),
        ("lstm-last", [layers.LSTM(_UNITS), layers.Dense(3)], False),
        ("lstm-back", [layers.LSTM(_UNITS, go_backwards=True, return_sequences=True), layers.Dense(3)], False),
        ("lstm-bi-mask", [layers.Bidirectional(layers.LSTM(_UNITS, return_sequences=True)), layers.Dense(3)], True),
        ("simple-rnn", [layers.SimpleRNN(_UNITS, return_sequences=True), layers.Dense(3)], False),
    ]


def _exported(keras: Any, layers: list[Any], *, is_masked: bool) -> bytes:
    words = keras.Input((None,), dtype="int32", name="words")
    x = keras.layers.Embedding(_VOCABULARY, _WIDTH, mask_zero=is_masked)(words)
    for layer in layers:
        x = layer(x)
    model = keras.Model(words, x)
    random = numpy.random.default_rng(1)
    model.set_weights([random.normal(size=weight.shape) * 0.5 for weight in model.weights])
    with tempfile.TemporaryDirectory() as folder:
        model.export(f"{folder}/model")
        tfsmith.freeze(f"{folder}/model").save(f"{folder}/frozen.pb")
        return Path(folder, "frozen.pb").read_bytes()


def _cells() -> dict[str, Callable[[Any], Any]]:
    def rnn(tf: Any, cell: str, *, has_lengths: bool = False) -> Any:
        v1 = tf.compat.v1
        x = v1.placeholder(tf.float32, (None, None, _WIDTH), "x")
        lengths = v1.placeholder(tf.int32, (None,), "n") if has_lengths else None
        made = getattr(v1.nn.rnn_cell, cell)(_UNITS)
        return v1.nn.dynamic_rnn(made, x, sequence_length=lengths, dtype=tf.float32)[0]

    def rows(tf: Any) -> Any:
        return tf.compat.v1.placeholder(tf.float32, (None, 3), "x")

    def steps(tf: Any) -> Any:
        """A loop of as many steps as are asked for, and a condition."""
        x, count = rows(tf), tf.compat.v1.placeholder(tf.int32, (), "n")
        more = lambda at, _: at < count  # noqa: E731
        y = tf.while_loop(more, lambda at, y: (at + 1, tf.tanh(y @ tf.ones((3, 3)) * 0.1 + x)), (0, x))[1]
        return tf.cond(tf.reduce_sum(y) > 0, lambda: y * 2, lambda: y - 1)

    return {
        "lstm": lambda tf: rnn(tf, "BasicLSTMCell"),
        "gru": lambda tf: rnn(tf, "GRUCell"),
        "lstm-len": lambda tf: rnn(tf, "BasicLSTMCell", has_lengths=True),
        "while": steps,
        "map": lambda tf: tf.map_fn(lambda row: tf.reduce_sum(row) * row, rows(tf)),
        "scan": lambda tf: tf.scan(lambda total, row: total * 0.5 + row, rows(tf)),
    }


def _frozen(build: Callable[[Any], Any]) -> bytes:
    import tensorflow as tf

    v1 = tf.compat.v1
    v1.disable_control_flow_v2()
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.set_random_seed(1)
        tf.identity(build(tf), name="y")
        session.run(v1.global_variables_initializer())
        made = v1.graph_util.convert_variables_to_constants(session, graph.as_graph_def(), ["y"])
        data: bytes = made.SerializeToString()
        return data


def _keep(name: str, graph: bytes) -> None:
    (_OUT / f"{name}.pb.xz").write_bytes(lzma.compress(graph, preset=9))


if __name__ == "__main__":
    main()
