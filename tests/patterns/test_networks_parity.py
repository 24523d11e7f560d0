"""Networks that TensorFlow and Keras build: what they are said to be, and what must not be taken for them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.patterns.convnet import ConvNet
from tfsmith.patterns.recurrent import RecurrentNet

pytestmark = pytest.mark.tensorflow

Build = Callable[[Any, Any], Any]


def texts(model: Any) -> list[str]:
    return [str(network) for network in tfsmith.show(model).architecture]


def graph_of(build: Build, shape: tuple[int | None, ...]) -> bytes:
    """A graph of TensorFlow 1, from a function of a placeholder."""
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        tf.identity(build(tf, tf.compat.v1.placeholder(tf.float32, shape, "x")), "output")
    data: bytes = graph.as_graph_def().SerializeToString()
    return data


def frozen(model: Any) -> bytes:
    """The graph of a Keras model, with its weights as constants."""
    import tensorflow as tf
    from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

    spec = tf.TensorSpec(model.inputs[0].shape, model.inputs[0].dtype)
    function = tf.function(lambda x: model(x, training=False)).get_concrete_function(spec)
    data: bytes = (
        convert_variables_to_constants_v2(function, lower_control_flow=False).graph.as_graph_def().SerializeToString()
    )
    return data


def weight(tf: Any, *shape: int) -> Any:
    return tf.constant(np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32))


# Convolutional nets


def test_published_nets_in_numbers() -> None:
    from keras import applications

    net = applications.ResNet50(weights=None, input_shape=(32, 32, 3), classes=7)
    assert texts(frozen(net)) == [
        "convolutional net (residual, like ResNet), 53 convolutions (1x1 x36, 3x3 x16, 7x7), 53 batch norms, "
        "16 residual blocks, global average pooling, classifier of 7"
    ]
    net = applications.MobileNetV2(weights=None, input_shape=(32, 32, 3), classes=7)
    assert texts(frozen(net)) == [
        "convolutional net (depthwise separable, like MobileNet), 52 convolutions (1x1 x34, 3x3 x18), 17 depthwise, "
        "52 batch norms, 10 residual blocks, global average pooling, classifier of 7"
    ]


def test_gates_of_channels_are_seen_through() -> None:
    from keras import applications

    net = applications.MobileNetV3Small(weights=None, input_shape=(32, 32, 3), classes=7)
    (network,) = tfsmith.show(frozen(net)).architecture
    assert isinstance(network.found, ConvNet)
    assert (network.found.residual, network.found.pooling, network.found.family) == (6, "average", "MobileNet")


def test_kernels_of_one_axis_and_max_pooling() -> None:
    from keras import Input, Sequential, layers

    net = Sequential(
        [Input((30, 4)), layers.Conv1D(6, 5), layers.Conv1D(6, 3), layers.GlobalMaxPool1D(), layers.Dense(5)]
    )
    assert texts(frozen(net)) == ["convolutional net, 2 convolutions (5, 3), global max pooling, 5 outputs"]


def _conv(tf: Any, x: Any, size: int = 3, depth: int = 4) -> Any:
    return tf.nn.relu(tf.nn.conv2d(x, weight(tf, size, size, x.shape[-1], depth), 1, "SAME"))


CONVOLUTIONS: dict[str, tuple[Build, str | None]] = {
    "one place only is no convolution": (lambda tf, x: _conv(tf, x, 1), None),
    "a kernel that is computed is no weight": (
        lambda tf, x: tf.nn.conv2d(x, tf.reshape(x[0, :3, :3], [3, 3, 4, 1]), 1, "SAME"),
        None,
    ),
    "two convolutions of one thing are no residual block": (
        lambda tf, x: _conv(tf, x) + _conv(tf, x, 5),
        "convolutional net, 2 convolutions (3x3, 5x5)",
    ),
    "a block that is added to its input is one": (
        lambda tf, x: _conv(tf, _conv(tf, x)) + x,
        "convolutional net, 2 convolutions (3x3 x2), 1 residual block",
    ),
    "a convolution may fit the bypass": (
        lambda tf, x: _conv(tf, _conv(tf, x)) + _conv(tf, x, 1),
        "convolutional net, 3 convolutions (3x3 x2, 1x1), 1 residual block",
    ),
    "the mean of channels is no pooling of places": (
        lambda tf, x: tf.reduce_mean(_conv(tf, x), [3]),
        "convolutional net, 1 convolution (3x3)",
    ),
    "groups of channels": (
        lambda tf, x: tf.nn.conv2d(x, weight(tf, 3, 3, 2, 4), 1, "SAME"),
        "convolutional net, 1 convolution (3x3), 1 grouped",
    ),
    "the way up": (
        lambda tf, x: tf.nn.conv2d_transpose(x, weight(tf, 3, 3, 4, 4), [2, 16, 16, 4], 2),
        "convolutional net, 1 convolution (3x3), 1 transposed",
    ),
    "a batch norm that is spelled out": (
        lambda tf, x: tf.nn.batch_normalization(_conv(tf, x), *(weight(tf, 4) for _ in range(4)), 1e-3),
        "convolutional net, 1 convolution (3x3), 1 batch norm",
    ),
    "without a softmax nothing is classified": (
        lambda tf, x: tf.reduce_mean(_conv(tf, x), [1, 2]) @ weight(tf, 4, 9),
        "convolutional net, 1 convolution (3x3), global average pooling, 9 outputs",
    ),
}


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_small_convolutional_nets(case: str) -> None:
    build, wanted = CONVOLUTIONS[case]
    assert texts(graph_of(build, (2, 8, 8, 4))) == ([] if wanted is None else [wanted])


# Recurrent nets


def _keras(*layers: Any, **options: Any) -> Any:
    from keras import Input, Sequential

    return Sequential([Input((6, 8), **options), *layers])


def test_keras_layers_as_saved_models(tmp_path: Path) -> None:
    from keras import layers

    net = _keras(layers.Bidirectional(layers.LSTM(16)), layers.Dense(3, activation="softmax"))
    net.export(str(tmp_path / "both"), verbose=False)
    assert texts(tmp_path / "both") == ["bidirectional LSTM, 16 units each way; classifier of 3"]


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (lambda layers: [layers.LSTM(16)], "LSTM, 16 units"),
        (lambda layers: [layers.LSTM(16, unroll=True)], "LSTM, 16 units, unrolled to 6 steps"),
        (lambda layers: [layers.GRU(12, return_sequences=True), layers.GRU(10)], "GRU, 12 units; GRU, 10 units"),
        (lambda layers: [layers.GRU(12, reset_after=False)], "GRU, 12 units"),
        (lambda layers: [layers.SimpleRNN(12)], None),
        (lambda layers: [layers.Dense(12, activation="relu"), layers.Dense(3, activation="softmax")], None),
    ],
    ids=["lstm", "unrolled", "gru", "gru before", "plain", "perceptron"],
)
def test_keras_layers(make: Callable[[Any], list[Any]], wanted: str | None) -> None:
    from keras import layers

    assert texts(frozen(_keras(*make(layers)))) == ([] if wanted is None else [wanted])


def _lstm(tf: Any, x: Any, h: Any, c: Any, kernel: Any) -> tuple[Any, Any]:
    i, j, f, o = tf.split(tf.concat([x, h], 1) @ kernel, 4, 1)
    c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
    return tf.tanh(c) * tf.sigmoid(o), c


def _loop(tf: Any, x: Any) -> Any:
    """An LSTM in a loop of TensorFlow 1."""
    v1 = tf.compat.v1
    is_new = v1.control_flow_v2_enabled()
    v1.disable_control_flow_v2()
    try:
        kernel, zero = weight(tf, 8 + 5, 20), tf.zeros([2, 5])

        def step(at: Any, h: Any, c: Any) -> tuple[Any, Any, Any]:
            return (at + 1, *_lstm(tf, tf.gather(x, at, axis=1), h, c, kernel))

        return v1.while_loop(lambda at, h, c: at < 6, step, [tf.constant(0), zero, zero])[1]
    finally:
        (v1.enable_control_flow_v2 if is_new else v1.disable_control_flow_v2)()


def _steps(tf: Any, x: Any) -> Any:
    h = c = tf.zeros([2, 5])
    kernel = weight(tf, 8 + 5, 20)
    for at in range(3):
        h, c = _lstm(tf, x[:, at], h, c, kernel)
    return h


def _block(tf: Any, x: Any) -> Any:
    zero, vector = tf.zeros([2, 5]), tf.zeros([5])
    found = tf.raw_ops.LSTMBlockCell(
        x=x[:, 0], cs_prev=zero, h_prev=zero, w=weight(tf, 13, 20), wci=vector, wcf=vector, wco=vector, b=tf.zeros([20])
    )
    return found.h


def _highway(tf: Any, x: Any) -> Any:
    """z * x + (1 - z) * tanh(...) without a second gate."""
    z = tf.sigmoid(x[:, 0] @ weight(tf, 8, 8))
    return z * x[:, 0] + (1.0 - z) * tf.tanh(x[:, 0] @ weight(tf, 8, 8))


def _gated(tf: Any, x: Any) -> Any:
    """sigmoid * tanh, as in WaveNet."""
    return tf.sigmoid(x[:, 0] @ weight(tf, 8, 8)) * tf.tanh(x[:, 0] @ weight(tf, 8, 8))


def _no_weights(tf: Any, x: Any) -> Any:
    """The formula of an LSTM without a product."""
    i, j, f, o = (x[:, at] for at in range(4))
    c = x[:, 4] * tf.sigmoid(f) + tf.sigmoid(i) * tf.tanh(j)
    return tf.tanh(c) * tf.sigmoid(o)


@pytest.mark.parametrize(
    ("build", "wanted"),
    [
        (_loop, "LSTM, 5 units"),
        (_steps, "LSTM, 5 units, unrolled to 3 steps"),
        (_block, "LSTM, 5 units"),
        (_highway, None),
        (_gated, None),
        (_no_weights, None),
    ],
)
def test_cells_by_their_gates(build: Build, wanted: str | None) -> None:
    assert texts(graph_of(build, (2, 6, 8))) == ([] if wanted is None else [wanted])


def test_facts_of_layers() -> None:
    (network,) = tfsmith.show(graph_of(_steps, (2, 6, 8))).architecture
    assert isinstance(network.found, RecurrentNet)
    assert network.facts()["layers"] == [
        {"kind": "LSTM", "units": 5, "backward": False, "bidirectional": False, "unrolled": 3}
    ]


# Decoders


def _decoder(mask: Callable[[Any, int], Any]) -> Build:
    """One pre-norm layer whose mask is added to the scores."""

    def build(tf: Any, x: Any) -> Any:
        length, width = x.shape[1], x.shape[2]

        def norm(value: Any) -> Any:
            mean, variance = tf.nn.moments(value, [-1], keepdims=True)
            return (value - mean) * tf.math.rsqrt(variance + 1e-5) * weight(tf, width) + weight(tf, width)

        def heads(value: Any) -> Any:
            return tf.transpose(tf.reshape(value, [-1, length, 2, width // 2]), [0, 2, 1, 3])

        y = norm(x)
        q, k, v = (heads(tf.einsum("bld,de->ble", y, weight(tf, width, width)) + weight(tf, width)) for _ in range(3))
        scores = tf.matmul(q, k, transpose_b=True) * (width // 2) ** -0.5 + mask(tf, length)
        mixed = tf.reshape(tf.transpose(tf.nn.softmax(scores) @ v, [0, 2, 1, 3]), [-1, length, width])
        x = x + tf.einsum("bld,de->ble", mixed, weight(tf, width, width)) + weight(tf, width)
        inner = tf.nn.gelu(tf.einsum("bld,de->ble", norm(x), weight(tf, width, 12)) + weight(tf, 12))
        return x + tf.einsum("bld,de->ble", inner, weight(tf, 12, width)) + weight(tf, width)

    return build


def _seen(compare: Callable[[Any, Any, Any], Any]) -> Callable[[Any, int], Any]:
    def mask(tf: Any, length: int) -> Any:
        numbers = tf.range(length)
        shown = compare(tf, numbers[:, None], numbers[None, :])
        return (1.0 - tf.cast(shown, tf.float32)) * -1e9

    return mask


MASKS: dict[str, tuple[Callable[[Any, int], Any], bool]] = {
    "rows are not before columns": (_seen(lambda tf, i, j: i >= j), True),
    "columns are not behind rows": (_seen(lambda tf, i, j: j <= i), True),
    "a band": (lambda tf, n: (1.0 - tf.linalg.band_part(tf.ones([n, n]), -1, 0)) * -1e9, True),
    "a constant triangle": (lambda tf, n: (1.0 - tf.constant(np.tri(n, dtype=np.float32))) * -1e9, True),
    "columns before the next row": (_seen(lambda tf, i, j: j < i + 1), True),
    "what is behind is hidden": (lambda tf, n: tf.cast(tf.range(n)[:, None] < tf.range(n), tf.float32) * -1e9, True),
    "an upper band less its diagonal": (
        lambda tf, n: (
            tf.linalg.band_part(tf.fill([n, n], -1e8), 0, -1) - tf.linalg.band_part(tf.fill([n, n], -1e8), 0, 0)
        ),
        True,
    ),
    "an upper band of what is shown": (lambda tf, n: tf.linalg.band_part(tf.fill([n, n], 1e8), 0, -1), False),
    "the other way around": (_seen(lambda tf, i, j: i <= j), False),
    "neighbours only": (lambda tf, n: (1.0 - tf.linalg.band_part(tf.ones([n, n]), 1, 1)) * -1e9, False),
    "a bias": (lambda tf, n: weight(tf, n, n), False),
    "what is shown is hidden": (
        lambda tf, n: tf.cast(tf.range(n)[:, None] >= tf.range(n)[None, :], tf.float32) * -1e9,
        False,
    ),
}


@pytest.mark.parametrize("case", MASKS)
def test_causal_masks(case: str) -> None:
    mask, is_causal = MASKS[case]
    (text,) = texts(graph_of(_decoder(mask), (2, 5, 8)))
    what = "pre-norm decoder" if is_causal else "pre-norm transformer"
    assert text == f"{what} of 1 layer, hidden 8, heads 2, intermediate 12, gelu erf, epsilon 1e-05"
