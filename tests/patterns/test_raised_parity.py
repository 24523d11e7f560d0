"""The raised graph: spellings of one computation have one reading, which computes what TensorFlow computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.support.raised_values import compute, leaves

import tfsmith
from tfsmith.ir.node import Endpoint
from tfsmith.ops.inference import Inference
from tfsmith.patterns.raised import Raised

pytestmark = pytest.mark.tensorflow

WIDTH, HEADS, LENGTH = 8, 2, 5


class Made:
    """A graph that was built by TensorFlow, raised, and its tensors' values."""

    def __init__(self, build: Callable[[Any, Any], Any], shape: tuple[int | None, ...] = (None, LENGTH, WIDTH)) -> None:
        import tensorflow as tf

        random = np.random.default_rng(7)
        with tf.Graph().as_default() as graph:
            x = tf.compat.v1.placeholder(tf.float32, shape, "x")
            output = build(tf, x)
            tf.identity(output, "out")
            self.raised = Raised(*self._opened(graph))
            fed = random.standard_normal([3 if size is None else size for size in shape]).astype(np.float32)
            reading = self.raised.reading(Endpoint("out", 0))
            assert reading is not None
            self.reading = reading
            names = sorted(leaves(self.raised.algebra, reading.value))
            with tf.compat.v1.Session(graph=graph) as session:
                *values, self.expected = session.run([*names, "out:0"], {"x:0": fed})
        self.tensors = dict(zip(names, values, strict=True))

    @staticmethod
    def _opened(graph: Any) -> tuple[Any, Inference]:
        opened = tfsmith.load(graph.as_graph_def().SerializeToString()).graph
        return opened, Inference(opened)

    @property
    def kinds(self) -> Counter[str]:
        return Counter(kind for kind, _, _ in self.raised.recognised())

    def check(self) -> None:
        found = compute(self.raised.algebra, self.reading, self.tensors, {"axis0": 3})
        np.testing.assert_allclose(found, self.expected, rtol=2e-4, atol=2e-5)


def weight(tf: Any, *shape: int) -> Any:
    values = np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)
    return tf.constant(values / np.sqrt(shape[0], dtype=np.float32))


def vectors(tf: Any) -> tuple[Any, Any]:
    return weight(tf, WIDTH), weight(tf, WIDTH) + 0.5


def norm_by_moments(tf: Any, x: Any) -> Any:
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, *vectors(tf)[::-1], 1e-6)


def norm_plain(tf: Any, x: Any) -> Any:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.square(x - mean), -1, keepdims=True)
    beta, gamma = vectors(tf)
    return gamma * (x - mean) / tf.sqrt(variance + 1e-6) + beta


def norm_by_maximum(tf: Any, x: Any) -> Any:
    centered = x - tf.reduce_mean(x, [2], keepdims=True)
    variance = tf.reduce_mean(centered * centered, [2], keepdims=True)
    beta, gamma = vectors(tf)
    return centered * (1.0 / tf.sqrt(tf.maximum(variance + 1e-6, 1e-12))) * gamma + beta


def norm_by_squares(tf: Any, x: Any) -> Any:
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(x * x, -1, keepdims=True) - mean * mean
    beta, gamma = vectors(tf)
    return tf.math.divide_no_nan(x - mean, tf.sqrt(variance + 1e-6)) * gamma + beta


def norm_by_sums(tf: Any, x: Any) -> Any:
    mean = tf.reduce_sum(x, -1, keepdims=True) / WIDTH
    variance = tf.reduce_sum(tf.math.squared_difference(x, mean), -1, keepdims=True) * (1 / WIDTH)
    beta, gamma = vectors(tf)
    return (x - mean) * tf.math.rsqrt(variance + 1e-6) * gamma + beta


def norm_fused(tf: Any, x: Any) -> Any:
    rows = tf.reshape(x, [1, 3 * LENGTH, WIDTH, 1])
    ones, zeros = tf.ones([3 * LENGTH]), tf.zeros([3 * LENGTH])
    found = tf.raw_ops.FusedBatchNormV3(
        x=rows, scale=ones, offset=zeros, mean=[], variance=[], epsilon=1e-6, data_format="NCHW", is_training=True
    )
    beta, gamma = vectors(tf)
    return tf.reshape(found.y, tf.shape(x)) * gamma + beta


def residual(norm: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda tf, x: norm(tf, x + tf.nn.bias_add(tf.tensordot(x, weight(tf, WIDTH, WIDTH), 1), weight(tf, WIDTH)))


NORMS = [norm_by_moments, norm_plain, norm_by_maximum, norm_by_squares, norm_by_sums]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("wrap", [lambda norm: norm, residual])
def test_layer_norms(norm: Callable[[Any, Any], Any], wrap: Callable[[Any], Any]) -> None:
    made = Made(wrap(norm))
    assert made.kinds == {"norm": 1}
    made.check()


def test_spellings_of_a_layer_norm_have_one_reading() -> None:
    def both(tf: Any, x: Any) -> Any:
        beta, gamma = vectors(tf)
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        first = tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-6)
        centered = x - tf.reduce_mean(x, 2, keepdims=True)
        second = gamma * centered / tf.sqrt(tf.reduce_mean(centered**2, 2, keepdims=True) + 1e-6) + beta
        return first - second

    made = Made(both)
    assert made.reading.value == ()


def test_layer_norm_by_a_fused_batch_norm() -> None:
    made = Made(norm_fused, (3, LENGTH, WIDTH))
    assert made.kinds == {"norm": 1}


GELUS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "op": ("erf", lambda tf, x: tf.nn.gelu(x)),
    "erf": ("erf", lambda tf, x: 0.5 * x * (1.0 + tf.math.erf(x / np.sqrt(2.0).astype(np.float32)))),
    "cdf": ("erf", lambda tf, x: x * (0.5 * (1.0 + tf.math.erf(x * 0.70710678)))),
    "half": ("erf", lambda tf, x: x * (0.5 + 0.5 * tf.math.erf(x / tf.sqrt(2.0)))),
    "erfc": ("erf", lambda tf, x: 0.5 * x * tf.math.erfc(-x * 0.70710678)),
    "tanh": ("tanh", lambda tf, x: tf.nn.gelu(x, approximate=True)),
    "pow": ("tanh", lambda tf, x: 0.5 * x * (1 + tf.tanh(0.7978845608 * (x + 0.044715 * tf.pow(x, 3))))),
    "factored": ("tanh", lambda tf, x: 0.5 * x * (1 + tf.tanh(x * 0.7978845608 * (1 + 0.044715 * x * x)))),
}


@pytest.mark.parametrize("name", GELUS)
@pytest.mark.parametrize("dense", [False, True])
def test_gelus(name: str, dense: bool) -> None:
    kind, gelu = GELUS[name]

    def build(tf: Any, x: Any) -> Any:
        return gelu(tf, tf.tensordot(x, weight(tf, WIDTH, WIDTH), 1) + weight(tf, WIDTH) if dense else x)

    made = Made(build)
    assert made.kinds == {"gelu": 1}
    ((_, _, atom),) = made.raised.recognised()
    assert made.raised.algebra.head(atom)[2] == kind
    made.check()


SOFTMAXES: dict[str, Callable[[Any, Any], Any]] = {
    "op": lambda tf, x: tf.nn.softmax(x),
    "axis": lambda tf, x: tf.transpose(tf.nn.softmax(tf.transpose(x, [0, 2, 1]), axis=-1), [0, 2, 1]),
    "exp": lambda tf, x: tf.exp(x) / tf.reduce_sum(tf.exp(x), -1, keepdims=True),
    "max": lambda tf, x: (lambda e: e / tf.reduce_sum(e, -1, keepdims=True))(
        tf.exp(x - tf.reduce_max(x, -1, keepdims=True))
    ),
}


@pytest.mark.parametrize("name", SOFTMAXES)
def test_softmaxes(name: str) -> None:
    made = Made(SOFTMAXES[name])
    assert made.kinds == {"softmax": 1}
    made.check()


def heads_by_transposes(tf: Any, x: Any, kernels: Any = None, *, scale_first: bool = False) -> Any:
    def project(seed: int) -> Any:
        kernel = weight(tf, WIDTH, WIDTH) * (1.0 + seed) if kernels is None else kernels[seed]
        rows = tf.matmul(tf.reshape(x, [-1, WIDTH]), kernel)
        cut = tf.reshape(rows, [-1, LENGTH, HEADS, WIDTH // HEADS])
        return tf.transpose(cut, [0, 2, 1, 3])

    query, key, value = project(0), project(1), project(2)
    factor = 1 / np.sqrt(WIDTH // HEADS).astype(np.float32)
    scores = (
        tf.matmul(query * factor, key, transpose_b=True)
        if scale_first
        else tf.matmul(query, key, transpose_b=True) * factor
    )
    context = tf.matmul(tf.nn.softmax(scores), value)
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, LENGTH, WIDTH])


def heads_by_einsum(tf: Any, x: Any) -> Any:
    def project(seed: int) -> Any:
        kernel = tf.reshape(weight(tf, WIDTH, WIDTH) * (1.0 + seed), [WIDTH, HEADS, WIDTH // HEADS])
        return tf.einsum("abc,cde->abde", x, kernel)

    query, key, value = project(0), project(1), project(2)
    scores = tf.einsum("aecd,abcd->acbe", key, query / np.sqrt(WIDTH // HEADS).astype(np.float32))
    context = tf.einsum("acbe,aecd->abcd", tf.nn.softmax(scores), value)
    return tf.reshape(context, [-1, LENGTH, WIDTH])


def heads_in_the_batch(tf: Any, x: Any) -> Any:
    def project(seed: int) -> Any:
        rows = tf.tensordot(x, weight(tf, WIDTH, WIDTH) * (1.0 + seed), 1)
        cut = tf.transpose(tf.reshape(rows, [-1, LENGTH, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])
        return tf.reshape(cut, [-1, LENGTH, WIDTH // HEADS])

    query, key, value = project(0), project(1), project(2)
    scores = tf.matmul(query, key, transpose_b=True) * tf.math.rsqrt(tf.cast(WIDTH // HEADS, tf.float32))
    context = tf.reshape(tf.matmul(tf.nn.softmax(scores), value), [-1, HEADS, LENGTH, WIDTH // HEADS])
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, LENGTH, WIDTH])


ATTENTIONS = {
    "transposes": heads_by_transposes,
    "scaled queries": lambda tf, x: heads_by_transposes(tf, x, scale_first=True),
    "einsum": heads_by_einsum,
    "heads in the batch": heads_in_the_batch,
}


@pytest.mark.parametrize("name", ATTENTIONS)
def test_attentions(name: str) -> None:
    made = Made(ATTENTIONS[name], (3, LENGTH, WIDTH))
    assert made.kinds == {"softmax": 1, "attention": 1}
    made.check()


def test_scale_before_or_after_the_product_is_the_same() -> None:
    def both(tf: Any, x: Any) -> Any:
        kernels = [weight(tf, WIDTH, WIDTH) * (1.0 + number) for number in range(3)]
        return heads_by_transposes(tf, x, kernels) - heads_by_transposes(tf, x, kernels, scale_first=True)

    assert Made(both, (3, LENGTH, WIDTH)).reading.value == ()


MUST_NOT = {
    "a mean of squares is no variance": lambda tf, x: (
        (x - tf.reduce_mean(x, -1, keepdims=True)) / tf.sqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6)
    ),
    "epsilon behind the root": lambda tf, x: (
        (x - tf.reduce_mean(x, -1, keepdims=True)) / (tf.sqrt(tf.nn.moments(x, [-1], keepdims=True)[1]) + 1e-6)
    ),
    "mean and variance over other axes": lambda tf, x: (
        (x - tf.reduce_mean(x, 1, keepdims=True)) * tf.math.rsqrt(tf.nn.moments(x, [2], keepdims=True)[1] + 1e-6)
    ),
    "the mean of something else": lambda tf, x: (
        (x - tf.reduce_mean(2 * x, -1, keepdims=True)) * tf.math.rsqrt(tf.nn.moments(x, [2], keepdims=True)[1] + 1e-6)
    ),
    "another cubic": lambda tf, x: 0.5 * x * (1 + tf.tanh(0.7978845608 * (x + 0.05 * tf.pow(x, 3)))),
    "another slope": lambda tf, x: 0.5 * x * (1 + tf.math.erf(x * 0.7)),
    "a gate of something else": lambda tf, x: 0.5 * x * (1 + tf.math.erf((x + 1) * 0.70710678)),
    "exp over a sum along another axis": lambda tf, x: (
        tf.exp(x) / tf.reduce_sum(tf.exp(x), 1, keepdims=True) / 2
        + tf.exp(x) / tf.reduce_sum(tf.exp(2 * x), -1, keepdims=True)
    ),
    "two minus": lambda tf, x: x * (2 - tf.math.erf(x * 0.70710678)),
}


@pytest.mark.parametrize("name", MUST_NOT)
def test_what_only_looks_like_it_is_not_recognised(name: str) -> None:
    made = Made(MUST_NOT[name])
    assert set(made.kinds) <= {"softmax"} if name.startswith("exp") else not made.kinds
    made.check()


# Each raised op: spellings that are the same, whose difference reads as nothing, and computations that only look alike.

SIDE = 4
"""All axes of a square are as long, so that a wrong axis is no error of shapes."""
Pair = Callable[[Any, Any], tuple[Any, Any]]


def shown(tf: Any, x: Any) -> Any:
    return x > 0.3


def conv(tf: Any, x: Any, kernel: Any, **more: Any) -> Any:
    return tf.nn.conv2d(x[:, tf.newaxis], kernel[tf.newaxis, tf.newaxis], 1, "SAME", **more)[:, 0]


def batch_norms(tf: Any, x: Any, epsilon: float = 1e-3) -> tuple[Any, Any]:
    """By its op, and by arithmetic, whose epsilon is 0.001."""
    scale, offset, mean = weight(tf, SIDE) + 0.5, weight(tf, SIDE), weight(tf, SIDE) * 0.1
    variance = tf.abs(weight(tf, SIDE)) + 1.0
    found = tf.raw_ops.FusedBatchNormV3(
        x=x[:, tf.newaxis], scale=scale, offset=offset, mean=mean, variance=variance, epsilon=epsilon, is_training=False
    )
    return found.y[:, 0], tf.nn.batch_normalization(x, mean, variance, offset, scale, 1e-3)


def rows(tf: Any, x: Any, number: float = 0.0) -> Any:
    return tf.gather(weight(tf, SIDE, SIDE) + number, tf.cast(x > 0.3, tf.int32))


SAME: dict[str, Pair] = {
    "Contract: Einsum": lambda tf, x: (
        tf.einsum("qrs,st->qrt", x, k := weight(tf, SIDE, SIDE)),
        tf.reshape(tf.matmul(tf.reshape(x, [-1, SIDE]), k), tf.shape(x)),
    ),
    "Contract: a kernel of one pixel": lambda tf, x: (
        conv(tf, x, k := weight(tf, SIDE, SIDE)),
        tf.tensordot(x, k, 1),
    ),
    "Contract: transposed": lambda tf, x: (
        tf.matmul(x, tf.transpose(k := tf.tile(weight(tf, SIDE, SIDE)[tf.newaxis], [3, 1, 1]), [0, 2, 1])),
        tf.matmul(x, k, transpose_b=True),
    ),
    "Bias": lambda tf, x: (tf.nn.bias_add(x, b := weight(tf, SIDE)), b + x),
    "Bias: in front": lambda tf, x: (
        tf.nn.bias_add(x[:, :, tf.newaxis], b := weight(tf, SIDE), data_format="NCHW")[:, :, 0],
        x + b[:, tf.newaxis],
    ),
    "BatchNorm": batch_norms,
    "Mask": lambda tf, x: (
        tf.where(shown(tf, x), 0.0, -1e4),
        (1.0 - tf.cast(tf.logical_not(tf.logical_not(shown(tf, x))), tf.float32)) * -1e4,
    ),
    "Dropout: none": lambda tf, x: (tf.nn.dropout(x, 0.0), tf.identity(x)),
    "Embedding": lambda tf, x: (
        tf.gather(t := weight(tf, SIDE, SIDE), i := tf.cast(shown(tf, x), tf.int32)),
        tf.gather(t, i),
    ),
    "Residual": lambda tf, x: (x + (x + (b := weight(tf, SIDE))), 2.0 * x + b),
    "Scale": lambda tf, x: (
        tf.tensordot(x * 0.125, k := weight(tf, SIDE, SIDE), 1),
        tf.tensordot(x, k, 1) * tf.math.rsqrt(tf.cast(tf.constant(64), tf.float32)),
    ),
    "Scale: a quotient": lambda tf, x: (x / 8.0, x * 0.125),
    "Softmax": lambda tf, x: (
        tf.nn.softmax(x, axis=1),
        tf.transpose(tf.nn.softmax(tf.transpose(x, [0, 2, 1])), [0, 2, 1]),
    ),
    "a quotient that is never of 0": lambda tf, x: (
        tf.math.divide_no_nan(x, tf.sqrt(x * x + 1.0)),
        x / tf.sqrt(x * x + 1.0),
    ),
}
OTHER: dict[str, Pair] = {
    "Contract: other letters": lambda tf, x: (
        tf.einsum("abc,cd->abd", x, k := weight(tf, SIDE, SIDE)),
        tf.einsum("abc,dc->abd", x, k),
    ),
    "Contract: another axis": lambda tf, x: (
        tf.einsum("abc,cd->abd", x, k := weight(tf, SIDE, SIDE)),
        tf.einsum("abc,bd->adc", x, k),
    ),
    "Contract: a diagonal": lambda tf, x: (
        tf.einsum("abb->ab", x)[:, :, tf.newaxis],
        tf.reduce_sum(x, -1, keepdims=True),
    ),
    "Contract: three pixels": lambda tf, x: (
        tf.nn.conv2d(
            x[:, tf.newaxis], tf.tile(weight(tf, SIDE, SIDE)[tf.newaxis, tf.newaxis], [1, 3, 1, 1]), 1, "SAME"
        )[:, 0],
        conv(tf, x, weight(tf, SIDE, SIDE)),
    ),
    "Bias: another axis": lambda tf, x: (x + (b := weight(tf, SIDE)), x + b[:, tf.newaxis]),
    "BatchNorm: another epsilon": lambda tf, x: batch_norms(tf, x, 0.5),
    "BatchNorm: of something else": lambda tf, x: (batch_norms(tf, x)[0], batch_norms(tf, 2 * x)[0]),
    "Mask: turned": lambda tf, x: (tf.where(shown(tf, x), 0.0, -1e4), tf.where(shown(tf, x), -1e4, 0.0)),
    "Mask: another fill": lambda tf, x: (tf.where(shown(tf, x), 0.0, -1e4), tf.where(shown(tf, x), 0.0, -1e9)),
    "Dropout": lambda tf, x: (tf.nn.dropout(x, 0.5), tf.identity(x)),
    "Dropout: twice": lambda tf, x: (tf.nn.dropout(x, 0.5), tf.nn.dropout(x, 0.5)),
    "Embedding: another table": lambda tf, x: (rows(tf, x), rows(tf, x, 1.0)),
    "Residual: none": lambda tf, x: (x + tf.tanh(x), tf.tanh(x)),
    "Scale: another number": lambda tf, x: (x * 0.125, x * 0.25),
    "Softmax: another axis": lambda tf, x: (tf.nn.softmax(x, axis=1), tf.nn.softmax(x, axis=2)),
    "Softmax: a logarithm": lambda tf, x: (tf.nn.softmax(x), tf.nn.log_softmax(x)),
    "a cast to integers": lambda tf, x: (tf.cast(tf.cast(3 * x, tf.int32), tf.float32), 3 * x),
    "a cast to half precision": lambda tf, x: (tf.cast(tf.cast(1000 * x, tf.bfloat16), tf.float32), 1000 * x),
    "a quotient of 0": lambda tf, x: (tf.math.divide_no_nan(x, tf.nn.relu(x)), x * tf.nn.relu(x)),
    "another power": lambda tf, x: (tf.abs(x) ** 0.5, tf.abs(x)),
}


def difference(pair: Pair) -> Callable[[Any, Any], Any]:
    def build(tf: Any, x: Any) -> Any:
        one, other = pair(tf, x)
        return one - other

    return build


@pytest.mark.parametrize("name", SAME)
def test_spellings_of_one_op_have_one_reading(name: str) -> None:
    made = Made(difference(SAME[name]), (3, SIDE, SIDE))
    assert made.reading.value == ()
    np.testing.assert_allclose(made.expected, np.zeros_like(made.expected), atol=1e-5)


@pytest.mark.parametrize("name", OTHER)
def test_what_computes_something_else_has_another_reading(name: str) -> None:
    made = Made(difference(OTHER[name]), (3, SIDE, SIDE))
    assert made.reading.value != ()
    assert np.abs(made.expected).max() > 1e-2


def fused_node(tf: Any, op: str, inputs: list[str], **attrs: Any) -> Any:
    """A node of an op that only grappler writes."""
    node = tf.compat.v1.NodeDef(name="fused", op=op, input=inputs)
    kinds = {bool: "b", int: "i", float: "f", bytes: "s"}
    for key, value in attrs.items():
        if key in ("T", "U"):
            node.attr[key].type = value
        elif isinstance(value, list):
            field = "type" if key == "TArgs" else kinds[type(value[0])]
            getattr(node.attr[key].list, field).extend(value)
        else:
            setattr(node.attr[key], kinds[type(value)], value)
    return node


def fused_conv(tf: Any, activation: bytes, **more: Any) -> Any:
    ops = [b"BiasAdd", activation]
    settings = {"T": 1, "num_args": 1, "TArgs": [1], "strides": [1, 1, 1, 1], "padding": b"SAME", "fused_ops": ops}
    return fused_node(tf, "_FusedConv2D", ["x", "kernel", "bias"], **settings, **more)


def fused_norm(tf: Any, activation: bytes) -> Any:
    settings = {"T": 1, "U": 1, "epsilon": 1e-3, "num_side_inputs": 1, "activation_mode": activation}
    inputs = ["x", "bias", "ones", "third", "ones", "x"]
    return fused_node(tf, "_FusedBatchNormEx", inputs, is_training=False, data_format=b"NHWC", **settings)


@pytest.mark.parametrize("activation", [b"Relu", b"Elu", b"Identity"])
@pytest.mark.parametrize("op", ["_FusedConv2D", "_FusedBatchNormEx"])
def test_what_grappler_fuses_reads_as_it_was_before(op: str, activation: bytes) -> None:
    import tensorflow as tf

    random = np.random.default_rng(3)
    function = {b"Relu": tf.nn.relu, b"Elu": tf.nn.elu, b"Identity": tf.identity}[activation]
    is_conv = op == "_FusedConv2D"
    with tf.Graph().as_default() as plain:
        x = tf.compat.v1.placeholder(tf.float32, (3, 2, 4, SIDE), "x")
        kernel = tf.constant(random.standard_normal((1, 1, SIDE, SIDE)).astype(np.float32), name="kernel")
        bias = tf.constant(random.standard_normal(SIDE).astype(np.float32), name="bias")
        ones, third = tf.ones([SIDE], name="ones"), tf.fill([SIDE], np.float32(0.3), name="third")
        normal = tf.raw_ops.FusedBatchNormV3(
            x=x, scale=bias, offset=ones, mean=third, variance=ones, epsilon=1e-3, is_training=False
        )
        before = tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "SAME"), bias) if is_conv else normal.y + x
        tf.identity(function(before), "out")
    data = plain.as_graph_def()
    data.node.append(fused_conv(tf, activation) if is_conv else fused_norm(tf, activation))
    graph = tfsmith.load(data.SerializeToString()).graph
    raised = Raised(graph, Inference(graph))
    fused, out = (raised.reading(Endpoint(name, 0)) for name in ("fused", "out"))
    assert fused is not None
    assert out is not None
    is_known = (
        activation == b"Relu" or (is_conv and activation == b"Elu") or (not is_conv and activation == b"Identity")
    )
    assert (raised.algebra.intern(fused.value)[0] == raised.algebra.intern(out.value)[0]) == is_known
    if not is_known or not is_conv:  # TensorFlow has no kernel of the batch norm for CPUs
        return
    with tf.Graph().as_default() as both:
        tf.import_graph_def(data, name="")
        options = tf.compat.v1.ConfigProto()
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        with tf.compat.v1.Session(graph=both, config=options) as session:
            fed = random.standard_normal((3, 2, 4, SIDE))
            fast, slow = session.run(["fused:0", "out:0"], {"x:0": fed})
    np.testing.assert_allclose(fast, slow, atol=1e-5)


def test_a_fused_convolution_with_another_layout_of_weights_is_no_product() -> None:
    import tensorflow as tf

    with tf.Graph().as_default() as plain:
        tf.compat.v1.placeholder(tf.float32, (3, 2, 4, 1), "x")
        tf.ones([1, 1, 1, 1], name="kernel"), tf.ones([1], name="bias")
    data = plain.as_graph_def()
    data.node.append(fused_conv(tf, b"Relu", filter_format=b"OIHW"))
    graph = tfsmith.load(data.SerializeToString()).graph
    raised = Raised(graph, Inference(graph))
    reading = raised.reading(Endpoint("fused", 0))
    assert reading is None or leaves(raised.algebra, reading.value) == {"fused:0"}
