"""The same networks as `tfsmith.testing` builds, written for the real TensorFlow in the style of TensorFlow 1.

What stands here is the yardstick: our builders must give the very graphs that TensorFlow makes of this code. The BERT
follows the structure of Google's release (modeling.py, run_classifier.py) call for call, because the names of the nodes
come from the order of the calls. `tf.layers` and `tf.contrib.layers.layer_norm` are gone, so what they did is
spelled out.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from tfsmith.testing.bert_config import BertConfig

v1 = tf.compat.v1


def _variable(name: str, shape: list[int], initializer: Any, *, trainable: bool = True, model: bool = False) -> Any:
    keys = [v1.GraphKeys.GLOBAL_VARIABLES] + ([v1.GraphKeys.MODEL_VARIABLES] if model else [])
    return v1.get_variable(name, shape, tf.float32, initializer, trainable=trainable, collections=keys)


def linear_regression() -> None:
    with v1.name_scope("inputs"):
        x_sample = v1.placeholder(tf.float64, [None, None], "x_sample")
        y_sample = v1.placeholder(tf.float64, [None, None], "y_sample")
        v1.add_to_collection("inputs", x_sample)
        v1.add_to_collection("inputs", y_sample)
    with v1.variable_scope("model_variables"):
        slope = v1.get_variable("slope", dtype=tf.float64, initializer=tf.constant(1.0, tf.float64))
        intercept = v1.get_variable("intercept", dtype=tf.float64, initializer=tf.constant(1.0, tf.float64))
    with v1.name_scope("linear_regression"):
        y_calc = slope * x_sample + intercept
        v1.add_to_collection("outputs", y_calc)
    with v1.name_scope("optimizer"):
        v1.reduce_sum((y_calc - y_sample) ** 2)


def conv_net(batch: int | None, size: int, channels: int, filters: tuple[int, ...], classes: int) -> None:
    net = v1.placeholder(tf.float32, [batch, size, size, channels], "images")
    for number, depth in enumerate(filters):
        suffix = f"_{number}" if number else ""
        with v1.variable_scope(f"conv2d{suffix}"):
            kernel = _variable("kernel", [3, 3, net.shape[3], depth], v1.glorot_uniform_initializer())
            bias = _variable("bias", [depth], v1.zeros_initializer())
            net = tf.nn.bias_add(v1.nn.conv2d(net, kernel, [1, 1, 1, 1], "SAME"), bias)
        with v1.variable_scope(f"batch_normalization{suffix}"):
            net = _batch_norm(net, depth)
        net = tf.nn.relu(net)
        with v1.name_scope(f"max_pooling2d{suffix}"):
            net = v1.nn.max_pool(net, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    net = v1.reduce_mean(net, [1, 2])
    with v1.variable_scope("dense"):
        kernel = _variable("kernel", [net.shape[1], classes], v1.glorot_uniform_initializer())
        bias = _variable("bias", [classes], v1.zeros_initializer())
        net = tf.nn.bias_add(tf.matmul(net, kernel), bias)
    v1.nn.softmax(net, name="probabilities")


def _batch_norm(net: Any, depth: int) -> Any:
    gamma = _variable("gamma", [depth], v1.ones_initializer())
    beta = _variable("beta", [depth], v1.zeros_initializer())
    mean = _variable("moving_mean", [depth], v1.zeros_initializer(), trainable=False)
    variance = _variable("moving_variance", [depth], v1.ones_initializer(), trainable=False)
    return v1.nn.fused_batch_norm(net, gamma, beta, mean, variance, epsilon=1e-3, is_training=False)[0]


def bert_classifier(
    config: BertConfig, batch: int | None, length: int, labels: int, *, global_step: bool = False
) -> None:
    if global_step:
        v1.train.create_global_step()
    input_ids = v1.placeholder(tf.int32, [batch, length], "input_ids")
    input_mask = v1.placeholder(tf.int32, [batch, length], "input_mask")
    segment_ids = v1.placeholder(tf.int32, [batch, length], "segment_ids")
    label_ids = v1.placeholder(tf.int32, [batch], "label_ids")
    _shape_list(input_ids)
    with v1.variable_scope("bert"):
        with v1.variable_scope("embeddings"):
            embedded = _embed(config, input_ids, segment_ids)
        with v1.variable_scope("encoder"):
            layers = _encode(config, embedded, _attention_mask(input_ids, input_mask))
        with v1.variable_scope("pooler"):
            first = tf.squeeze(layers[-1][:, 0:1, :], axis=1)
            pooled = _dense(first, config.hidden_size, "dense", tf.tanh)
    weights = _variable("output_weights", [labels, config.hidden_size], v1.truncated_normal_initializer(stddev=0.02))
    bias = _variable("output_bias", [labels], v1.zeros_initializer())
    with v1.variable_scope("loss"):
        logits = tf.nn.bias_add(tf.matmul(pooled, weights, transpose_b=True), bias)
        v1.nn.softmax(logits, axis=-1, name="output")
        log_probs = v1.nn.log_softmax(logits, axis=-1)
        one_hot = tf.one_hot(label_ids, depth=labels, dtype=tf.float32)
        v1.reduce_mean(-v1.reduce_sum(one_hot * log_probs, axis=-1))


def _shape_list(tensor: Any) -> list[Any]:
    shape: list[Any] = tensor.shape.as_list()
    unknown = [index for index, dim in enumerate(shape) if dim is None]
    if unknown:
        dynamic = v1.shape(tensor)
        for index in unknown:
            shape[index] = dynamic[index]
    return shape


def _initializer() -> Any:
    return v1.truncated_normal_initializer(stddev=0.02)


def _dense(inputs: Any, units: int, name: str, activation: Any = None) -> Any:
    with v1.variable_scope(name):
        kernel = _variable("kernel", [int(inputs.shape[-1]), units], _initializer())
        bias = _variable("bias", [units], v1.zeros_initializer())
        output = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
        return output if activation is None else activation(output)


def _layer_norm(inputs: Any) -> Any:
    with v1.variable_scope("LayerNorm"):
        width = int(inputs.shape[-1])
        beta = _variable("beta", [width], v1.zeros_initializer(), model=True)
        gamma = _variable("gamma", [width], v1.ones_initializer(), model=True)
        mean, variance = v1.nn.moments(inputs, [len(inputs.shape) - 1], keep_dims=True)
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)


def _gelu(x: Any) -> Any:
    return x * (0.5 * (1.0 + tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * tf.pow(x, 3)))))


def _embed(config: BertConfig, input_ids: Any, segment_ids: Any) -> Any:
    ids = v1.expand_dims(input_ids, axis=[-1])
    table = _variable("word_embeddings", [config.vocab_size, config.hidden_size], _initializer())
    output = v1.gather(table, tf.reshape(ids, [-1]))
    shape = _shape_list(ids)
    output = tf.reshape(output, [*shape[0:-1], shape[-1] * config.hidden_size])

    batch, length, width = _shape_list(output)
    types = _variable("token_type_embeddings", [config.type_vocab_size, width], _initializer())
    one_hot = tf.one_hot(tf.reshape(segment_ids, [-1]), depth=config.type_vocab_size)
    output += tf.reshape(tf.matmul(one_hot, types), [batch, length, width])
    check = v1.assert_less_equal(length, config.max_position_embeddings)
    with tf.control_dependencies([check]):
        positions = _variable("position_embeddings", [config.max_position_embeddings, width], _initializer())
        output += tf.reshape(tf.slice(positions, [0, 0], [length, -1]), [1, length, width])
    return _layer_norm(output)


def _attention_mask(input_ids: Any, input_mask: Any) -> Any:
    batch, length = _shape_list(input_ids)
    to_length = _shape_list(input_mask)[1]
    mask = v1.cast(tf.reshape(input_mask, [batch, 1, to_length]), tf.float32)
    return v1.ones(shape=[batch, length, 1], dtype=tf.float32) * mask


def _encode(config: BertConfig, embedded: Any, mask: Any) -> list[Any]:
    shape = _shape_list(embedded)
    batch, length, width = shape
    previous = tf.reshape(embedded, [-1, embedded.shape[-1]])
    outputs = []
    for number in range(config.num_hidden_layers):
        with v1.variable_scope(f"layer_{number}"):
            with v1.variable_scope("attention"):
                with v1.variable_scope("self"):
                    attended = _attend(config, previous, mask, batch, length)
                with v1.variable_scope("output"):
                    attended = _layer_norm(_dense(attended, width, "dense") + previous)
            with v1.variable_scope("intermediate"):
                inner = _dense(attended, config.intermediate_size, "dense", _gelu)
            with v1.variable_scope("output"):
                previous = _layer_norm(_dense(inner, width, "dense") + attended)
                outputs.append(previous)
    finals = []
    for output in outputs:
        inner_width = _shape_list(output)[-1]
        finals.append(tf.reshape(output, [*shape[0:-1], inner_width]))
    return finals


def _attend(config: BertConfig, layer: Any, mask: Any, batch: Any, length: int) -> Any:
    heads = config.num_attention_heads
    size = config.hidden_size // heads

    def split(tensor: Any) -> Any:
        return tf.transpose(tf.reshape(tensor, [batch, length, heads, size]), [0, 2, 1, 3])

    _shape_list(layer)
    _shape_list(layer)
    query, key, value = (_dense(layer, heads * size, name) for name in ("query", "key", "value"))
    scores = tf.matmul(split(query), split(key), transpose_b=True)
    scores = tf.multiply(scores, 1.0 / math.sqrt(float(size)))
    mask = v1.expand_dims(mask, axis=[1])
    scores += (1.0 - v1.cast(mask, tf.float32)) * -10000.0
    probabilities = v1.nn.softmax(scores)
    context = tf.transpose(tf.matmul(probabilities, split(value)), [0, 2, 1, 3])
    return tf.reshape(context, [batch * length, heads * size])
