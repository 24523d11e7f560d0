"""Spellings of encoders that no published package of the corpus has: found and computed alike, or left alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.patterns.test_encoder_parity import (
    HEADS,
    INNER,
    LAYERS,
    LENGTH,
    SIZE,
    WIDTH,
    Spelling,
    computed,
    fused,
    made,
    written,
)

pytestmark = pytest.mark.tensorflow

Change = Callable[[Spelling], None]
EPSILON = 1e-5


def norm(formula: Callable[[Any, Any, Any, Any], Any]) -> Change:
    def change(one: Spelling) -> None:
        def normalized(tf: Any, x: Any) -> Any:
            return formula(tf, x, one.weight(tf, WIDTH), one.weight(tf, WIDTH))

        one.normalized = normalized  # type: ignore[method-assign]

    return change


def shares(formula: Callable[[Any, Any], Any]) -> Change:
    return lambda one: setattr(one, "shares", lambda tf, scores, mask: formula(tf, one.masked(tf, scores, mask)))


def masked(formula: Callable[[Any, Any, Any], Any]) -> Change:
    return lambda one: setattr(one, "masked", formula)


def activated(formula: Callable[[Any, Any], Any]) -> Change:
    return lambda one: setattr(one, "activated", formula)


def dense(kernel: Callable[[Any, Any, Any, int, int], Any]) -> Change:
    """A product with a constant of random numbers."""

    def change(one: Spelling) -> None:
        def product(tf: Any, x: Any, width: int, given: int) -> Any:
            values = np.random.default_rng(one.count).standard_normal((given, width)) / np.sqrt(given)
            return kernel(tf, x, values, given, width) + one.weight(tf, width)

        one.dense = product  # type: ignore[method-assign]

    return change


def layer(formula: Callable[[Any, Spelling, Any, Any], Any]) -> Change:
    return lambda one: setattr(one, "layer", lambda tf, x, mask: formula(tf, one, x, mask))


def mean(tf: Any, x: Any) -> Any:
    return tf.reduce_mean(x, -1, keepdims=True)


def wide(tf: Any, mask: Any) -> Any:
    return mask[:, tf.newaxis, tf.newaxis, :]


def by_squares(tf: Any, x: Any, gamma: Any, beta: Any) -> Any:
    average = mean(tf, x)
    return (x - average) / tf.sqrt(mean(tf, x * x) - average * average + EPSILON) * gamma + beta


def by_batch_norm(tf: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """As Keras does it."""
    shape = tf.shape(x)
    rows = shape[0] * shape[1]
    flat = tf.reshape(x, [1, -1, WIDTH, 1])
    found = tf.compat.v1.nn.fused_batch_norm(
        flat, tf.ones([rows]), tf.zeros([rows]), epsilon=EPSILON, data_format="NCHW", is_training=True
    )
    return tf.reshape(found[0], shape) * gamma + beta


def by_sums(tf: Any, x: Any, gamma: Any, beta: Any) -> Any:
    width = tf.cast(tf.shape(x)[-1], tf.float32)
    average = tf.reduce_sum(x, -1, keepdims=True) / width
    variance = tf.reduce_sum(tf.math.squared_difference(x, average), -1, keepdims=True) / width
    return (x - average) * tf.pow(variance + EPSILON, -0.5) * gamma + beta


def exponentials(tf: Any, x: Any) -> Any:
    found = tf.exp(x - tf.stop_gradient(tf.reduce_max(x, -1, keepdims=True)))
    return found / tf.reduce_sum(found, -1, keepdims=True)


def turned_softmax(tf: Any, x: Any) -> Any:
    return tf.transpose(tf.nn.softmax(tf.transpose(x, [0, 1, 3, 2]), axis=2), [0, 1, 3, 2])


def multiplied(tf: Any, scores: Any, mask: Any) -> Any:
    shown = tf.cast(tf.not_equal(wide(tf, mask), 0), tf.float32)
    return scores * shown + (1.0 - shown) * -1e9


def by_length(tf: Any, scores: Any, mask: Any) -> Any:
    """Made for each layer anew."""
    shown = tf.sequence_mask(tf.reduce_sum(mask, -1), LENGTH, tf.float32)
    return scores + (1.0 - wide(tf, shown)) * -10000.0


def hidden(tf: Any, scores: Any, mask: Any) -> Any:
    return scores + tf.cast(wide(tf, tf.equal(mask, 0)), tf.float32) * -1e9


def hidden_by_number(tf: Any, scores: Any, mask: Any) -> Any:
    words = tf.identity(tf.cast(tf.equal(mask, 0), tf.float32))
    return scores - 1e9 * wide(tf, words)


def of_both(tf: Any, scores: Any, mask: Any) -> Any:
    both = tf.cast(mask[:, :, tf.newaxis] * mask[:, tf.newaxis, :], tf.float32)
    return scores + (1.0 - both[:, tf.newaxis]) * -10000.0


def triangle(tf: Any, scores: Any, mask: Any) -> Any:
    seen = tf.linalg.band_part(tf.ones([LENGTH, LENGTH]), -1, 0)
    return scores + (1.0 - tf.cast(wide(tf, mask), tf.float32) * seen) * -10000.0


def folded(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
    """Heads as sentences of their own."""
    query, key, value = (tf.reshape(one.heads(tf, x), [-1, LENGTH, SIZE]) for _ in range(3))
    shown = tf.reshape(tf.tile(tf.cast(wide(tf, mask), tf.float32), [1, HEADS, 1, 1]), [-1, 1, LENGTH])
    found = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / np.float32(SIZE**0.5) + (1.0 - shown) * -10000.0)
    context = tf.transpose(tf.reshape(tf.matmul(found, value), [-1, HEADS, LENGTH, SIZE]), [0, 2, 1, 3])
    return behind(tf, one, x, tf.reshape(context, [-1, LENGTH, WIDTH]))


def behind(tf: Any, one: Spelling, x: Any, context: Any, residual: Any = None) -> Any:
    """The rest of a layer."""
    y = one.normalized(tf, x + one.dense(tf, context, WIDTH, WIDTH))
    inner = one.activated(tf, one.dense(tf, y, INNER, WIDTH))
    return one.normalized(tf, (y if residual is None else residual) + one.dense(tf, inner, WIDTH, INNER))


def attended(tf: Any, one: Spelling, x: Any, other: Any, mask: Any) -> Any:
    query, key, value = one.heads(tf, x), one.heads(tf, other), one.heads(tf, other)
    found = tf.matmul(one.shares(tf, one.scores(tf, query, key), mask), value)
    return tf.reshape(tf.transpose(found, [0, 2, 1, 3]), [-1, LENGTH, WIDTH])


def nested(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
    return tf.function(lambda a, b: Spelling.layer(one, tf, a, b))(x, mask)


def two_masks(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
    fill = -10000.0 if not one.count else -1e9
    one.masked = lambda tf, scores, mask: scores + (1.0 - tf.cast(wide(tf, mask), tf.float32)) * fill  # type: ignore[method-assign]
    return Spelling.layer(one, tf, x, mask)


def one_pixel(tf: Any, x: Any, values: Any, given: int, width: int) -> Any:
    kernel = tf.constant(values.reshape(1, 1, given, width).astype(np.float32))
    return tf.squeeze(tf.nn.conv2d(x[:, tf.newaxis], kernel, 1, "VALID"), 1)


def rest_of_attention(tf: Any, query: Any, key: Any, value: Any, mask: Any) -> Any:
    """Attention of tensors with heads in front of words."""
    scores = tf.matmul(query, key, transpose_b=True) / np.float32(SIZE**0.5)
    shares = tf.nn.softmax(scores + (1.0 - tf.cast(wide(tf, mask), tf.float32)) * -10000.0)
    return tf.matmul(shares, value)


def joined(tf: Any, context: Any) -> Any:
    return tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [-1, LENGTH, WIDTH])


def of_one_product(cut: Callable[[Any, Any], tuple[Any, Any, Any]]) -> Change:
    """One product gives queries, keys and values."""

    def formula(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
        query, key, value = cut(tf, one.dense(tf, x, 3 * WIDTH, WIDTH))
        return behind(tf, one, x, joined(tf, rest_of_attention(tf, query, key, value, mask)))

    return layer(formula)


def to_heads(tf: Any, x: Any) -> Any:
    return tf.transpose(tf.reshape(x, [-1, LENGTH, HEADS, SIZE]), [0, 2, 1, 3])


def split(tf: Any, x: Any) -> Any:
    return [to_heads(tf, part) for part in tf.split(x, 3, axis=-1)]


def split_by_sizes(tf: Any, x: Any) -> Any:
    return [to_heads(tf, part) for part in tf.split(x, [WIDTH, WIDTH, -1], axis=2)]


def unstacked(tf: Any, x: Any) -> Any:
    return tf.unstack(tf.transpose(tf.reshape(x, [-1, LENGTH, 3, HEADS, SIZE]), [2, 0, 3, 1, 4]))


def chosen(tf: Any, x: Any) -> Any:
    apart = tf.transpose(tf.reshape(x, [-1, LENGTH, 3, HEADS, SIZE]), [2, 0, 3, 1, 4])
    return apart[0], apart[1], tf.gather(apart, 2)


def head_by_head(tf: Any, x: Any) -> Any:
    """As GPT-NeoX stores them: query, key and value of each head side by side."""
    return tf.split(tf.transpose(tf.reshape(x, [-1, LENGTH, HEADS, 3 * SIZE]), [0, 2, 1, 3]), 3, axis=-1)


def sliced(tf: Any, x: Any) -> Any:
    first, second = x[..., :WIDTH], tf.slice(x, [0, 0, WIDTH], [-1, -1, WIDTH])
    return [to_heads(tf, part) for part in (first, second, x[:, :, -WIDTH:])]


def joined_weights(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
    """Three weights that are joined for one product."""
    kernel = tf.concat([one.weight(tf, WIDTH, WIDTH) for _ in range(3)], 1)
    bias = tf.concat([one.weight(tf, WIDTH) for _ in range(3)], 0)
    query, key, value = split(tf, tf.nn.bias_add(tf.tensordot(x, kernel, 1), bias))
    return behind(tf, one, x, joined(tf, rest_of_attention(tf, query, key, value, mask)))


def heads_by_parts(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
    """Heads into the batch and out of it by splitting and joining."""
    query, key, value = (tf.concat(tf.split(one.dense(tf, x, WIDTH, WIDTH), HEADS, 2), 0) for _ in range(3))
    shown = tf.tile(tf.cast(mask, tf.float32), [HEADS, 1])[:, tf.newaxis, :]
    scores = tf.matmul(query, key, transpose_b=True) / np.float32(SIZE**0.5)
    shares = tf.nn.softmax(scores + (1.0 - shown) * -10000.0)
    return behind(tf, one, x, tf.concat(tf.split(tf.matmul(shares, value), HEADS, 0), 2))


def stacked_heads(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
    """Heads by splitting and stacking."""
    query, key, value = (tf.stack(tf.split(one.dense(tf, x, WIDTH, WIDTH), HEADS, 2), 1) for _ in range(3))
    context = rest_of_attention(tf, query, key, value, mask)
    return behind(tf, one, x, tf.concat(tf.unstack(context, axis=1), -1))


def apart_all_along(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
    """Heads are an axis of the weights, before and behind."""
    query, key, value = (
        tf.einsum("bfd,dnh->bfnh", x, one.weight(tf, WIDTH, HEADS, SIZE)) + one.weight(tf, HEADS, SIZE)
        for _ in range(3)
    )
    scores = tf.einsum("bfnh,btnh->bnft", query, key) * SIZE**-0.5
    shares = tf.nn.softmax(scores + (1.0 - tf.cast(wide(tf, mask), tf.float32)) * -10000.0)
    context = tf.einsum("bnft,btnh->bfnh", shares, value)
    y = one.normalized(
        tf, x + tf.einsum("bfnh,nhd->bfd", context, one.weight(tf, HEADS, SIZE, WIDTH)) + one.weight(tf, WIDTH)
    )
    inner = one.activated(tf, one.dense(tf, y, INNER, WIDTH))
    return one.normalized(tf, y + one.dense(tf, inner, WIDTH, INNER))


def by_log_sum(tf: Any, x: Any) -> Any:
    return tf.exp(x - tf.reduce_logsumexp(x, -1, keepdims=True))


def where_scores(tf: Any, scores: Any, mask: Any) -> Any:
    hidden = tf.broadcast_to(wide(tf, mask), tf.shape(scores))
    return tf.where(tf.equal(hidden, 0), tf.ones_like(scores) * -1e9, scores)


def where_old(tf: Any, scores: Any, mask: Any) -> Any:
    hidden = tf.tile(tf.equal(wide(tf, mask), 0), [1, HEADS, LENGTH, 1])
    return tf.compat.v1.where(hidden, tf.fill(tf.shape(hidden), -1e9), scores)


def where_mask(tf: Any, scores: Any, mask: Any) -> Any:
    return scores + tf.where(tf.cast(wide(tf, mask), tf.bool), tf.zeros([]), tf.constant(np.finfo(np.float32).min))


def where_product(tf: Any, scores: Any, mask: Any) -> Any:
    return scores + tf.cast(tf.where(wide(tf, mask) > 0, 0, -10000), tf.float32)


MUST: dict[str, tuple[Change, list[int]]] = {
    "one product, split": (of_one_product(split), [LAYERS]),
    "one product, split by sizes": (of_one_product(split_by_sizes), [LAYERS]),
    "one product, unstacked": (of_one_product(unstacked), [LAYERS]),
    "one product, taken apart by numbers": (of_one_product(chosen), [LAYERS]),
    "one product, each head side by side": (of_one_product(head_by_head), [LAYERS]),
    "one product, sliced": (of_one_product(sliced), [LAYERS]),
    "weights joined for one product": (layer(joined_weights), [LAYERS]),
    "heads by split and concat": (layer(heads_by_parts), [LAYERS]),
    "heads by split and stack": (layer(stacked_heads), [LAYERS]),
    "heads are axes of weights": (layer(apart_all_along), [LAYERS]),
    "softmax by the logarithm of a sum": (shares(by_log_sum), [LAYERS]),
    "scores chosen by a wide condition": (masked(where_scores), [LAYERS]),
    "scores chosen by TensorFlow 1's where": (masked(where_old), [LAYERS]),
    "no mask": (masked(lambda tf, scores, mask: scores), [LAYERS]),
    "mask chosen": (masked(where_mask), [LAYERS]),
    "mask chosen as integers": (masked(where_product), [LAYERS]),
    "variance by squares": (norm(by_squares), [LAYERS]),
    "layer norm by a batch norm": (norm(by_batch_norm), [LAYERS]),
    "layer norm by sums": (norm(by_sums), [LAYERS]),
    "softmax by exponentials": (shares(exponentials), [LAYERS]),
    "softmax by its logarithm": (shares(lambda tf, x: tf.exp(tf.nn.log_softmax(x))), [LAYERS]),
    "softmax between transposes": (shares(turned_softmax), [LAYERS]),
    "scores times the mask": (masked(multiplied), [LAYERS]),
    "mask by lengths": (masked(by_length), [LAYERS]),
    "mask of what is hidden": (masked(hidden), [LAYERS]),
    "mask of what is hidden, as a number": (masked(hidden_by_number), [LAYERS]),
    "mask of queries and keys": (masked(of_both), [LAYERS]),
    "GELU by a sigmoid": (
        activated(lambda tf, x: x * tf.sigmoid(1.5957691216 * (x + 0.044715 * x * x * x))),
        [LAYERS],
    ),
    "ReLU by a maximum": (activated(lambda tf, x: tf.maximum(x, 0.0)), [LAYERS]),
    "weights in half precision": (
        dense(lambda tf, x, values, *_: tf.tensordot(x, tf.cast(values.astype(np.float16), tf.float32), 1)),
        [LAYERS],
    ),
    "kernels of one pixel": (dense(one_pixel), [LAYERS]),
    "heads in the batch": (layer(folded), [LAYERS]),
    "layers as functions": (layer(nested), [1, 1]),
    "another mask for each layer": (layer(two_masks), [1, 1]),
}


@pytest.mark.parametrize("name", MUST)
def test_it_becomes_one_node_that_computes_the_same(name: str, tmp_path: Path) -> None:
    change, layers = MUST[name]
    spelling = Spelling("rows", "after", "multiplied", "plain", "erf")
    change(spelling)
    data = made(spelling)
    found = fused(data)
    assert [len(encoder.stack.layers) for encoder in found.encoders] == layers, found
    np.testing.assert_allclose(computed(written(found.model, tmp_path)), computed(data), atol=1e-4, rtol=1e-4)


def two_epsilons(tf: Any, one: Spelling, x: Any, mask: Any) -> Any:
    context = attended(tf, one, x, x, mask)
    y = one.normalized(tf, x + one.dense(tf, context, WIDTH, WIDTH))
    one.epsilon, before = 1e-3, one.epsilon
    inner = one.activated(tf, one.dense(tf, y, INNER, WIDTH))
    found = one.normalized(tf, y + one.dense(tf, inner, WIDTH, INNER))
    one.epsilon = before
    return found


def in_half(tf: Any, x: Any, values: Any, given: int, width: int) -> Any:
    return tf.cast(tf.tensordot(tf.cast(x, tf.float16), tf.constant(values.astype(np.float16)), 1), tf.float32)


MUST_NOT: dict[str, tuple[Change, str]] = {
    "products in half precision": (dense(in_half), "it computes in float16, and the op in float32"),
    "epsilon beside the root": (
        norm(lambda tf, x, g, b: (x - mean(tf, x)) / (tf.math.reduce_std(x, -1, keepdims=True) + EPSILON) * g + b),
        "no layer of BERT",
    ),
    "no mean taken off": (
        norm(lambda tf, x, g, b: x / tf.sqrt(mean(tf, x * x) + EPSILON) * g + b),
        "no layer of BERT",
    ),
    "norm over words": (
        norm(
            lambda tf, x, g, b: (
                (x - tf.reduce_mean(x, 1, keepdims=True))
                / tf.sqrt(tf.math.reduce_variance(x, 1, keepdims=True) + EPSILON)
                * g
                + b
            )
        ),
        "no layer of BERT",
    ),
    "dropout of shares": (shares(lambda tf, x: tf.nn.dropout(tf.nn.softmax(x), 0.1)), "such as dropout"),
    "softmax over queries": (shares(lambda tf, x: tf.nn.softmax(x, axis=2)), ""),
    "mask that hides what comes behind": (masked(triangle), "as in a decoder"),
    "another GELU": (activated(lambda tf, x: x * tf.sigmoid(1.702 * x)), "no layer of BERT"),
    "residual of what the layer takes": (
        layer(lambda tf, one, x, mask: behind(tf, one, x, attended(tf, one, x, x, mask), x)),
        "no layer of BERT",
    ),
    "residual twice": (
        layer(lambda tf, one, x, mask: behind(tf, one, 2.0 * x, attended(tf, one, x, x, mask))),
        "no layer of BERT",
    ),
    "keys of another tensor": (
        layer(lambda tf, one, x, mask: behind(tf, one, x, attended(tf, one, x, tf.roll(x, 1, axis=1), mask))),
        "cross attention",
    ),
    "two epsilons in a layer": (layer(two_epsilons), "the epsilons 1e-06 and 0.001; the op has one"),
}


@pytest.mark.parametrize("name", MUST_NOT)
def test_it_is_left_alone_with_a_reason(name: str) -> None:
    change, words = MUST_NOT[name]
    spelling = Spelling("rows", "after", "multiplied", "plain", "erf")
    change(spelling)
    found = fused(made(spelling))
    assert not found.encoders
    said = [one.reason for one in found.refused] + [line for _, line in found.others]
    assert not words or any(words in line for line in said), said


def test_an_encoder_that_is_called_twice_becomes_one_node(tmp_path: Path) -> None:
    spelling = Spelling("tensordot", "after", "multiplied", "plain", "erf")
    weights: dict[int, Any] = {}

    def weight(tf: Any, *shape: int) -> Any:
        found = weights.get(spelling.count + 1)
        if found is None:
            found = Spelling.weight(spelling, tf, *shape)
            weights[spelling.count] = found
        else:
            spelling.count += 1
        return found

    def again(tf: Any, given: list[Any]) -> Any:
        spelling.count, y = 0, given[0]
        for _ in range(LAYERS):
            y = spelling.layer(tf, y, tf.compat.v1.get_default_graph().get_tensor_by_name("mask:0"))
        return 2.0 * y + given[-1]

    spelling.weight = weight  # type: ignore[method-assign]
    data = made(spelling, again)
    found = fused(data)
    assert [len(encoder.stack.layers) for encoder in found.encoders] == [LAYERS], found
    assert not any(node.op == "Softmax" for node in found.model.graph)
    np.testing.assert_allclose(computed(written(found.model, tmp_path)), computed(data), atol=1e-4, rtol=1e-4)
