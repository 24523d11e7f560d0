"""A BERT classifier with the nodes and names of Google's own (modeling.py and run_classifier.py, TensorFlow 1)."""

from __future__ import annotations

import math

from tfsmith.records import record
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.builder import GraphBuilder
from tfsmith.testing.ops import (
    Activation,
    Dim,
    assert_less_equal,
    dense,
    gelu,
    layer_norm,
    matmul,
    one_hot,
    ones_of,
    reduce_all_axes,
    reshape,
    shape_list,
    strided_slice,
    transpose,
)
from tfsmith.testing.values import FLOAT32, INT32, INT64, Output
from tfsmith.testing.variables import Kind, truncated_normal, zeros
from tfsmith.testing.weights import Weights, fixed

__all__ = ["BertSetup", "build_bert_classifier"]

_ONLY_FIRST_REPLICA = 3


@record
class BertSetup:
    """How to build it.

    Attributes:
        config: The sizes of the network.
        length: The sequence length; Google's code fixes it.
        batch: The batch size; None leaves it open, and the graph gets the nodes that ask for it when it runs.
        labels: How many classes it tells apart.
        variables: The kind of the variables.
        weights: Where their values come from.
        global_step: The value of a `global_step` variable, as checkpoints of a training have it; None for none.
    """

    config: BertConfig
    length: int
    batch: int | None
    labels: int
    variables: Kind
    weights: Weights
    global_step: int | None = None


def build_bert_classifier(setup: BertSetup) -> tuple[GraphBuilder, dict[str, Output]]:
    """Adds the nodes.

    Returns:
        The builder, and its tensors by key: the four inputs, probabilities, loss.
    """
    builder = GraphBuilder(setup.variables)
    if setup.global_step is not None:
        _add_global_step(builder, setup.global_step)
    tensors = {
        key: builder.placeholder(INT32, [setup.batch, setup.length], key)
        for key in ("input_ids", "input_mask", "segment_ids")
    }
    tensors["label_ids"] = builder.placeholder(INT32, [setup.batch], "label_ids")
    network = _Network(builder, setup)
    shape_list(builder, tensors["input_ids"])
    with builder.variable_scope("bert"):
        pooled = network.encode(tensors["input_ids"], tensors["input_mask"], tensors["segment_ids"])
    return builder, tensors | network.classify(pooled, tensors["label_ids"])


def _add_global_step(builder: GraphBuilder, step: int) -> None:
    """`tf.train.create_global_step`."""
    values = fixed(step, INT64)
    builder.variable(
        "global_step",
        zeros,
        values,
        trainable=False,
        collections=["global_step"],
        aggregation=_ONLY_FIRST_REPLICA,
    )


class _Network:
    """Adds the network's parts, each in the order of the calls in Google's code."""

    def __init__(self, builder: GraphBuilder, setup: BertSetup) -> None:
        self.builder = builder
        self.setup = setup
        self.config = setup.config
        self.weights = setup.weights
        self.initializer = truncated_normal(setup.config.initializer_range)

    def encode(self, input_ids: Output, input_mask: Output, segment_ids: Output) -> Output:
        """The pooled output."""
        builder = self.builder
        with builder.variable_scope("embeddings"):
            embedded = self._embed(input_ids, segment_ids)
        with builder.variable_scope("encoder"):
            mask = self._attention_mask(input_ids, input_mask)
            sequence = self._transform(embedded, mask)
        with builder.variable_scope("pooler"):
            first = strided_slice(builder, sequence, [0, 0, 0], [0, 1, 0], begin_mask=0b101, end_mask=0b101)
            token = builder.node("Squeeze", [first], {"squeeze_dims": [1]}).out
            return self._dense(token, self.config.hidden_size, activation=_tanh)

    def classify(self, pooled: Output, label_ids: Output) -> dict[str, Output]:
        """Probabilities and loss."""
        builder, labels = self.builder, self.setup.labels
        drawn = self.weights.normal(labels, self.config.hidden_size)
        weights = builder.variable("output_weights", truncated_normal(0.02), drawn)
        bias = builder.variable("output_bias", zeros, self.weights.normal(labels))
        with builder.variable_scope("loss"):
            product = matmul(builder, pooled, weights, transpose_right=True)
            logits = builder.node("BiasAdd", [product, bias]).out
            probabilities = builder.node("Softmax", [logits], {}, "output").out
            log_probabilities = builder.node("LogSoftmax", [logits]).out
            wanted = one_hot(builder, label_ids, labels)
            found = builder.node("Mul", [wanted, log_probabilities], {}, "mul").out
            per_example = builder.node("Neg", [builder.node("Sum", [found, -1]).out]).out
            loss = reduce_all_axes(builder, "Mean", per_example)
        return {"probabilities": probabilities, "loss": loss}

    def _embed(self, input_ids: Output, segment_ids: Output) -> Output:
        builder, config = self.builder, self.config
        width = config.hidden_size
        ids = builder.node("ExpandDims", [input_ids, [-1]]).out
        words = builder.variable("word_embeddings", self.initializer, self.weights.normal(config.vocab_size, width))
        flat = reshape(builder, ids, [-1])
        if words.kind == "ref":
            output = builder.node("GatherV2", [words, flat, 0]).out
        else:
            output = builder.node("ResourceGather", [words, flat], {"dtype": FLOAT32}, "Gather").out
        batch, length, _ = shape_list(builder, ids)
        output = reshape(builder, output, [batch, length, width])

        batch, length, _ = shape_list(builder, output)
        drawn = self.weights.normal(config.type_vocab_size, width)
        types = builder.variable("token_type_embeddings", self.initializer, drawn)
        selected = one_hot(builder, reshape(builder, segment_ids, [-1]), config.type_vocab_size)
        segments = reshape(builder, matmul(builder, selected, types), [batch, length, width])
        output = builder.node("AddV2", [output, segments], {}, "add").out
        check = assert_less_equal(builder, self.setup.length, config.max_position_embeddings)
        with builder.control_dependencies([check.name]):
            drawn = self.weights.normal(config.max_position_embeddings, width)
            positions = builder.variable("position_embeddings", self.initializer, drawn)
            part = builder.node("Slice", [positions, [0, 0], [self.setup.length, -1]]).out
            part = reshape(builder, part, [1, self.setup.length, width])
            output = builder.node("AddV2", [output, part], {}, "add").out
        return self._layer_norm(output)

    def _attention_mask(self, input_ids: Output, input_mask: Output) -> Output:
        builder = self.builder
        batch, length = shape_list(builder, input_ids)
        _, to_length = shape_list(builder, input_mask)
        mask = reshape(builder, input_mask, [batch, 1, to_length])
        mask = builder.node("Cast", [mask], {"DstT": FLOAT32}).out
        return builder.node("Mul", [ones_of(builder, [batch, length, 1]), mask], {}, "mul").out

    def _transform(self, embedded: Output, mask: Output) -> Output:
        """All layers; the last one's output, as three dimensions again."""
        builder, width = self.builder, self.config.hidden_size
        batch, length, _ = shape_list(builder, embedded)
        previous = reshape(builder, embedded, [-1, width])
        outputs = []
        for number in range(self.config.num_hidden_layers):
            with builder.variable_scope(f"layer_{number}"):
                previous = self._layer(previous, mask, batch)
                outputs.append(previous)
        finals = []
        for output in outputs:  # Google's code reshapes every layer's output, though only the last is used
            shape_list(builder, output)
            finals.append(reshape(builder, output, [batch, length, width]))
        return finals[-1]

    def _layer(self, previous: Output, mask: Output, batch: Dim) -> Output:
        builder, width = self.builder, self.config.hidden_size
        with builder.variable_scope("attention"):
            with builder.variable_scope("self"):
                attended = self._attend(previous, mask, batch)
            with builder.variable_scope("output"):
                attended = self._dense(attended, width)
                attended = self._layer_norm(builder.node("AddV2", [attended, previous], {}, "add").out)
        with builder.variable_scope("intermediate"):
            inner = self._dense(attended, self.config.intermediate_size, activation=gelu)
        with builder.variable_scope("output"):
            inner = self._dense(inner, width)
            return self._layer_norm(builder.node("AddV2", [inner, attended], {}, "add").out)

    def _attend(self, layer: Output, mask: Output, batch: Dim) -> Output:
        builder, length = self.builder, self.setup.length
        heads = self.config.num_attention_heads
        size = self.config.hidden_size // heads
        shape_list(builder, layer)
        shape_list(builder, layer)
        query, key, value = (self._dense(layer, heads * size, name) for name in ("query", "key", "value"))
        query, key = self._split(query, batch), self._split(key, batch)
        scores = matmul(builder, query, key, transpose_right=True)
        scores = builder.node("Mul", [scores, 1.0 / math.sqrt(size)]).out
        wide = builder.node("ExpandDims", [mask, [1]]).out
        hidden = builder.node("Sub", [1.0, wide], {}, "sub").out
        adder = builder.node("Mul", [hidden, -10000.0], {}, "mul").out
        scores = builder.node("AddV2", [scores, adder], {}, "add").out
        shares = builder.node("Softmax", [scores]).out
        context = matmul(builder, shares, self._split(value, batch))
        context = transpose(builder, context, [0, 2, 1, 3])
        rows: Dim = batch * length if isinstance(batch, int) else builder.node("Mul", [batch, length], {}, "mul").out
        return reshape(builder, context, [rows, heads * size])

    def _split(self, tensor: Output, batch: Dim) -> Output:
        """From [B*F, N*H] to [B, N, F, H]."""
        heads = self.config.num_attention_heads
        dims = [batch, self.setup.length, heads, self.config.hidden_size // heads]
        return transpose(self.builder, reshape(self.builder, tensor, dims), [0, 2, 1, 3])

    def _dense(self, inputs: Output, units: int, name: str = "dense", activation: Activation | None = None) -> Output:
        kernel, bias = self.weights.normal(inputs.dims[-1], units), self.weights.normal(units)
        return dense(self.builder, inputs, kernel, bias, name, self.initializer, activation)

    def _layer_norm(self, inputs: Output) -> Output:
        width = self.config.hidden_size
        beta, gamma = self.weights.normal(width), self.weights.normal(width, center=1.0)
        return layer_norm(self.builder, inputs, beta, gamma)


def _tanh(builder: GraphBuilder, inputs: Output) -> Output:
    return builder.node("Tanh", [inputs]).out
