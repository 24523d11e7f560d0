"""`python -m tests.fuzz.make_seeds`: writes `seeds.zip`, small graphs as TensorFlow makes them; needs TensorFlow.

They have what the builders of `tfsmith.testing` do not: functions, loops and branches of both kinds, recurrent layers,
attention, datasets, texts, and many ops that take shapes and axes as tensors.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

PLACE = Path(__file__).with_name("seeds.zip")


def _spec(*dims: int | None, dtype: Any = tf.float32) -> Any:
    return tf.TensorSpec(dims, dtype)


def _graph(function: Callable[..., Any], *specs: Any) -> bytes:
    found: bytes = tf.function(function).get_concrete_function(*specs).graph.as_graph_def().SerializeToString()
    return found


def _arrays(x: Any, i: Any) -> Any:
    """Ops whose shapes follow from values."""
    image = tf.reshape(x, [1, 3, 4, 1])
    return [
        *(tf.gather(x, i, axis=1), tf.split(tf.concat([x, x], 0), 2)[1], tf.transpose(x), x[:2, 1:3]),
        *(tf.pad(x, [[1, 1], [0, 2]]), tf.einsum("ab,cb->ac", x, x), tf.math.top_k(x, 2)[0], tf.one_hot(i, 4)),
        *(tf.where(x > 0, x, -x), tf.stack([x, x], 1), tf.unstack(x)[0], tf.reduce_sum(x, [0, 1]), tf.argmax(x, 1)),
        *(tf.fill(tf.shape(x), 2.0), tf.tile(x, [2, 1]), tf.cumsum(x, 1), tf.squeeze(tf.expand_dims(x, 0), [0])),
        *(tf.reverse(x, [1]), tf.scatter_nd([[0], [2]], [1.0, 2.0], [4]), tf.image.resize(image, [6, 8]), tf.sort(x)),
        *(tf.image.non_max_suppression(x, [0.1, 0.2, 0.3], 2), tf.math.unsorted_segment_sum(x, [0, 1, 0], 2)),
        *(tf.space_to_batch(image[:, :2], [2, 2], [[0, 0], [0, 0]]), tf.broadcast_to(x[0], [2, 4])),
    ]  # fmt: skip


def _layers() -> Iterator[tuple[str, bytes]]:
    """Layers of Keras, frozen: loops as functions, and as TensorFlow 1 has them."""
    layers = tf.keras.layers
    x = tf.keras.Input((6, 8))
    attended = layers.LayerNormalization()(layers.MultiHeadAttention(2, 4)(x, x) + x)
    image = tf.keras.Input((8, 8, 3))
    net = layers.MaxPool2D()(layers.BatchNormalization()(layers.Conv2D(4, 3, activation="relu")(image)))
    for name, model in (
        ("lstm", tf.keras.Model(x, layers.LSTM(3)(x))),
        ("attention", tf.keras.Model(x, layers.Dense(8, activation="gelu")(attended))),
        ("convolution", tf.keras.Model(image, layers.Dense(3, activation="softmax")(layers.Flatten()(net)))),
    ):
        spec = _spec(None, *model.input_shape[1:])
        function = tf.function(lambda value, model=model: model(value)).get_concrete_function(spec)
        for lowered in (False, True) if name == "lstm" else (False,):
            frozen = convert_variables_to_constants_v2(function, lower_control_flow=lowered)
            yield f"{name}_lowered" if lowered else name, frozen.graph.as_graph_def().SerializeToString()


def seeds() -> Iterator[tuple[str, bytes]]:
    """Each graph, by its name."""
    yield (
        "while",
        _graph(lambda x: tf.while_loop(lambda i, a: i < 5, lambda i, a: (i + 1, a * 2.0), [0, x]), _spec(2, 3)),
    )
    yield (
        "cond",
        _graph(lambda x, p: tf.cond(p, lambda: tf.nn.relu(x), lambda: x * 2), _spec(None, 3), _spec(dtype=tf.bool)),
    )
    yield (
        "case",
        _graph(
            lambda x, i: tf.switch_case(i, [lambda: x + 1.0, lambda: tf.exp(x), lambda: -x]),
            _spec(2),
            _spec(dtype=tf.int32),
        ),
    )
    inner = tf.function(lambda x: tf.nn.softmax(x @ tf.ones((3, 3))))
    yield "call", _graph(lambda x: inner(x) + inner(x * 2), _spec(None, 3))
    yield "arrays", _graph(_arrays, _spec(3, 4), _spec(2, dtype=tf.int32))
    yield (
        "texts",
        _graph(
            lambda s: (
                tf.strings.length(s),
                tf.strings.split(s, ",").flat_values,
                tf.strings.regex_replace(s, "a", "1"),
            ),
            _spec(None, dtype=tf.string),
        ),
    )
    data = tf.data.Dataset.range(5).map(lambda value: value * 2)
    yield "dataset", _graph(lambda: data.reduce(tf.constant(0, tf.int64), lambda a, b: a + b))
    yield from _layers()


if __name__ == "__main__":
    with zipfile.ZipFile(PLACE, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, graph in seeds():
            archive.writestr(zipfile.ZipInfo(f"{name}.pb"), graph, zipfile.ZIP_DEFLATED)
