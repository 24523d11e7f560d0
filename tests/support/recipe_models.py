"""Transformers as TensorFlow's users build them, for the tests of the shipped recipes. All want the real TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

LENGTH, WIDTH, HEADS, INNER, WORDS = 6, 8, 2, 12, 20
SIZE = WIDTH // HEADS
IDS = np.random.default_rng(1).integers(0, WORDS, (3, LENGTH)).astype(np.int32)
MASK = (np.arange(LENGTH)[None, :] < np.array([[6], [4], [1]])).astype(np.int32)
NAMES = (
    *("query/kernel", "query/bias", "key/kernel", "key/bias", "value/kernel", "value/bias"),
    *("attention_output/kernel", "attention_output/bias", "attention_norm/gamma", "attention_norm/beta"),
    *("intermediate/kernel", "intermediate/bias", "output/kernel", "output/bias"),
    *("output_norm/gamma", "output_norm/beta"),
)


def shapes(heads: bool) -> dict[str, tuple[int, ...]]:
    """The shapes of a layer's weights; with heads, the kernels of the attention have three dimensions."""
    found: dict[str, tuple[int, ...]] = dict.fromkeys(NAMES, (WIDTH,))
    kernel, bias = ((WIDTH, HEADS, SIZE), (HEADS, SIZE)) if heads else ((WIDTH, WIDTH), (WIDTH,))
    for name in ("query", "key", "value"):
        found[f"{name}/kernel"], found[f"{name}/bias"] = kernel, bias
    found["attention_output/kernel"] = (HEADS, SIZE, WIDTH) if heads else (WIDTH, WIDTH)
    found["intermediate/kernel"], found["intermediate/bias"] = (WIDTH, INNER), (INNER,)
    return found | {"output/kernel": (INNER, WIDTH)}


def norm(tf: Any, x: Any, gamma: Any, beta: Any, axis: int, epsilon: float = 1e-12) -> Any:
    """Layer normalization in the words of TensorFlow 1 and Keras 2."""
    mean, variance = tf.nn.moments(x, [axis], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, epsilon)


def google_gelu(tf: Any, x: Any) -> Any:
    """The first formula of Google's BERT."""
    return x * (0.5 * (1.0 + tf.math.erf(x / tf.sqrt(2.0))))


def google_tanh(tf: Any, x: Any) -> Any:
    """The second one."""
    return x * (0.5 * (1.0 + tf.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * tf.pow(x, 3)))))


def exact_gelu(tf: Any, x: Any) -> Any:
    """`tf.nn.gelu`, exact."""
    return tf.nn.gelu(x)


def older_gelu(tf: Any, x: Any) -> Any:
    """`tf.nn.gelu` before it was computed by erfc."""
    return 0.5 * x * (1.0 + tf.math.erf(x / tf.cast(1.4142135623730951, x.dtype)))


def tanh_gelu(tf: Any, x: Any) -> Any:
    """`tf.nn.gelu`, by tanh."""
    return tf.nn.gelu(x, approximate=True)


Weights = Mapping[str, Any]
Gelu = Callable[[Any, Any], Any]


def _matrix_layer(tf: Any, x: Any, w: Weights, batch: Any, adder: Any, gelu: Gelu, axis: int) -> Any:
    def dense(x: Any, name: str) -> Any:
        return tf.nn.bias_add(tf.matmul(x, w[f"{name}/kernel"]), w[f"{name}/bias"])

    def split(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, [batch, LENGTH, HEADS, SIZE]), [0, 2, 1, 3])

    query, key, value = (split(dense(x, name)) for name in ("query", "key", "value"))
    scores = tf.multiply(tf.matmul(query, key, transpose_b=True), 1 / np.sqrt(SIZE)) + adder()
    context = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), [0, 2, 1, 3])
    tf.shape(context)  # Google's code leaves many of these behind
    attended = dense(tf.reshape(context, [batch * LENGTH, WIDTH]), "attention_output")
    attended = norm(tf, attended + x, w["attention_norm/gamma"], w["attention_norm/beta"], axis)
    inner = dense(gelu(tf, dense(attended, "intermediate")), "output")
    return norm(tf, inner + attended, w["output_norm/gamma"], w["output_norm/beta"], axis)


def google(tf: Any, ids: Any, mask: Any, table: Any, layers: Sequence[Weights], gelu: Gelu) -> Any:
    """Google's encoder: matrices of two dimensions, an adder in each layer."""
    batch = tf.shape(ids)[0]
    to_mask = tf.cast(tf.reshape(mask, [batch, 1, LENGTH]), tf.float32)
    rows = tf.ones([batch, LENGTH, 1], tf.float32) * to_mask
    x = tf.reshape(tf.gather(table, ids), [-1, WIDTH])
    for weights in layers:
        x = _matrix_layer(
            tf, x, weights, batch, lambda: (1.0 - tf.expand_dims(rows, axis=[1])) * -10000.0, gelu, axis=1
        )
    return tf.reshape(x, [batch, LENGTH, WIDTH])


def shared(tf: Any, ids: Any, mask: Any, table: Any, layers: Sequence[Weights], gelu: Gelu) -> Any:
    """The same with one adder for all layers."""
    batch = tf.shape(ids)[0]
    adder = (1.0 - tf.cast(mask[:, None, None, :], tf.float32)) * -10000.0
    x = tf.reshape(tf.gather(table, ids), [-1, WIDTH])
    for weights in layers:
        x = _matrix_layer(tf, x, weights, batch, lambda: adder, gelu, axis=-1)
    return tf.reshape(x, [batch, LENGTH, WIDTH])


def einsum(tf: Any, ids: Any, mask: Any, table: Any, layers: Sequence[Weights], gelu: Gelu) -> Any:
    """What tf-models-official's TransformerEncoderBlock builds with Keras 2."""
    batch = tf.shape(ids)[0]
    to_mask = tf.cast(tf.reshape(mask, [batch, 1, LENGTH]), tf.float32)
    rows = tf.ones([batch, LENGTH, 1], tf.float32) * to_mask
    x = tf.identity(tf.gather(table, ids), name="dropout/Identity")
    for w in layers:

        def project(x: Any, name: str, equation: str, w: Weights = w) -> Any:
            return tf.einsum(equation, x, w[f"{name}/kernel"]) + w[f"{name}/bias"]

        query, key, value = (project(x, name, "abc,cde->abde") for name in ("query", "key", "value"))
        scores = tf.einsum("aecd,abcd->acbe", key, tf.multiply(query, 1 / np.sqrt(SIZE)))
        adder = (1.0 - tf.expand_dims(rows, axis=-3)) * -1e9
        shares = tf.identity(tf.nn.softmax(scores + adder), name="dropout/Identity")
        context = tf.einsum("acbe,aecd->abcd", shares, value)
        attended = tf.identity(project(context, "attention_output", "abcd,cde->abe"))
        attended = norm(tf, x + attended, w["attention_norm/gamma"], w["attention_norm/beta"], 2)
        inner = project(gelu(tf, project(attended, "intermediate", "abc,cd->abd")), "output", "abc,cd->abd")
        x = norm(tf, attended + tf.identity(inner), w["output_norm/gamma"], w["output_norm/beta"], 2)
    return x


def rows(tf: Any, ids: Any, mask: Any, table: Any, layers: Sequence[Weights], gelu: Gelu) -> Any:
    """What transformers' TFBertModel (4.49) builds: Keras 2's Dense on three dimensions is `tf.tensordot`."""
    batch = ids.shape[0] or tf.shape(ids)[0]
    adder = (1.0 - tf.cast(tf.reshape(mask, [batch, 1, 1, LENGTH]), tf.float32)) * -10000.0
    x = tf.identity(tf.gather(table, ids), name="dropout/Identity")
    for w in layers:

        def dense(x: Any, name: str, w: Weights = w) -> Any:
            return tf.nn.bias_add(tf.tensordot(x, w[f"{name}/kernel"], [[2], [0]]), w[f"{name}/bias"])

        def split(x: Any, name: str) -> Any:
            return tf.transpose(tf.reshape(dense(x, name), [batch, -1, HEADS, SIZE]), [0, 2, 1, 3])

        query, key, value = (split(x, name) for name in ("query", "key", "value"))
        scores = tf.divide(tf.matmul(query, key, transpose_b=True), tf.constant(np.sqrt(SIZE), tf.float32)) + adder
        shares = tf.identity(tf.nn.softmax(scores + 1e-9), name="dropout/Identity")
        context = tf.reshape(tf.transpose(tf.matmul(shares, value), [0, 2, 1, 3]), [batch, -1, WIDTH])
        attended = tf.identity(dense(context, "attention_output"))
        attended = norm(tf, attended + x, w["attention_norm/gamma"], w["attention_norm/beta"], 2)
        inner = tf.identity(dense(gelu(tf, dense(attended, "intermediate")), "output"))
        x = norm(tf, inner + attended, w["output_norm/gamma"], w["output_norm/beta"], 2)
    return x


def save_functions(path: Path, build: Any, gelu: Gelu, layers: int = 2, batch: int | None = None) -> list[str]:
    """Saves one of these as a SavedModel of TensorFlow 2; gives the names of the layers' weights, in Bert's order."""
    import tensorflow as tf

    rng = np.random.default_rng(7)

    def weight(name: str, dims: Sequence[int]) -> Any:
        value = rng.normal(size=dims).astype(np.float32) * 0.3 + (1 if name.endswith("gamma") else 0)
        return tf.Variable(value, name=name)

    class Model(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = weight("table", (WORDS, WIDTH))
            sizes = shapes(heads=build is einsum)
            self.layers = [
                {name: weight(f"layer_{number}/{name}", sizes[name]) for name in NAMES} for number in range(layers)
            ]
            self.kernel = weight("classifier", (WIDTH, 3))

        @tf.function(
            input_signature=[
                tf.TensorSpec([batch, LENGTH], tf.int32, "ids"),
                tf.TensorSpec([batch, LENGTH], tf.int32, "mask"),
            ]
        )
        def __call__(self, ids: Any, mask: Any) -> Any:
            layers = [{name: tf.convert_to_tensor(value) for name, value in one.items()} for one in self.layers]
            encoded = build(tf, ids, mask, self.table, layers, gelu)
            return {"probabilities": tf.nn.softmax(tf.matmul(encoded[:, 0], self.kernel))}

    model = Model()
    tf.saved_model.save(model, str(path), signatures=model.__call__)
    return [f"layer_{number}/{name}" for number in range(layers) for name in NAMES]


def save_keras(path: Path, *, dropout: float, approximate: bool, layers: int = 2) -> list[str]:
    """Saves an encoder of Keras 3's own layers; gives the names of the layers' weights, in Bert's order."""
    import keras
    import tensorflow as tf

    make = keras.layers
    ids = keras.Input((LENGTH,), dtype="int32", name="ids")
    mask = keras.Input((LENGTH,), dtype="int32", name="mask")
    x = make.Embedding(WORDS, WIDTH)(ids)
    rows = make.Lambda(lambda m: tf.cast(m[:, None, :], tf.float32) * tf.ones_like(m, tf.float32)[:, :, None])(mask)
    for number in range(layers):
        scope = f"layer_{number}"
        # Without names of its own, Keras calls all of these the same.
        attention = make.MultiHeadAttention(HEADS, SIZE, dropout=dropout, name=f"{scope}_attention")
        norms = [
            make.LayerNormalization(epsilon=1e-12, name=f"{scope}_{name}_norm") for name in ("attention", "output")
        ]
        wide = make.EinsumDense(
            "abc,cd->abd",
            output_shape=(None, INNER),
            bias_axes="d",
            activation=lambda x: keras.activations.gelu(x, approximate=approximate),
            name=f"{scope}_intermediate",
        )
        narrow = make.EinsumDense("abc,cd->abd", output_shape=(None, WIDTH), bias_axes="d", name=f"{scope}_output")
        drop = make.Dropout(0.1)
        x = norms[0](x + drop(attention(x, x, attention_mask=rows)))
        x = norms[1](x + drop(narrow(wide(x))))
    model = keras.Model([ids, mask], make.Dense(3, activation="softmax", name="classifier")(x[:, 0]))
    rng = np.random.default_rng(3)
    model.set_weights([value + rng.normal(size=value.shape).astype(np.float32) * 0.2 for value in model.get_weights()])
    model.export(str(path), verbose=False)
    found = []
    for number in range(layers):
        scope = f"layer_{number}"
        for name in NAMES:
            part, _, what = name.partition("/")
            inner = part in ("query", "key", "value", "attention_output")
            found.append(f"{scope}_attention/{part}/{what}" if inner else f"{scope}_{part}/{what}")
    return found


def encode(x: Any, mask: Any, weights: Sequence[Any], heads: int, activation: str, epsilon: float = 1e-12) -> Any:
    """What the op Bert must compute, in numpy: [batch, length, width] from such an x and a mask of 0 and 1."""
    x = x.reshape(len(mask), -1, x.shape[-1]).astype(np.float64)
    batch, length, width = x.shape
    adder = (1 - mask.reshape(batch, 1, -1, length).astype(np.float64)) * -10000

    def dense(x: Any, kernel: Any, bias: Any) -> Any:
        return x @ kernel.reshape(x.shape[-1], -1) + bias.reshape(-1)

    def normed(x: Any, gamma: Any, beta: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta

    def split(x: Any) -> Any:
        return x.reshape(batch, length, heads, width // heads).swapaxes(1, 2)

    for at in range(0, len(weights), 16):
        w = weights[at : at + 16]
        query, key, value = (split(dense(x, w[i], w[i + 1])) for i in (0, 2, 4))
        scores = query @ key.swapaxes(2, 3) / np.sqrt(width // heads) + adder
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        context = (powers / powers.sum(-1, keepdims=True) @ value).swapaxes(1, 2).reshape(batch, length, width)
        attended = normed(dense(context, w[6], w[7]) + x, w[8], w[9])
        x = normed(dense(_gelu(dense(attended, w[10], w[11]), activation), w[12], w[13]) + attended, w[14], w[15])
    return x


def _gelu(x: Any, activation: str) -> Any:
    if activation == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    import math

    return 0.5 * x * (1 + np.vectorize(math.erf)(x / np.sqrt(2)))
