"""The test models: each a `Model` as TensorFlow's Saver would have left it, with inputs, outputs and a reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

import numpy as np

from tfsmith.ir.body import Part
from tfsmith.ir.model import SERVING_DEFAULT, MetaGraph, MetaInfo, Model, Signature, TensorInfo
from tfsmith.ir.opdef import builtin_ops
from tfsmith.records import field, record, replace
from tfsmith.testing import reference
from tfsmith.testing.bert import BertSetup, build_bert_classifier
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.builder import GraphBuilder
from tfsmith.testing.ops import dense, reduce_all_axes
from tfsmith.testing.reference import Array
from tfsmith.testing.values import FLOAT32, FLOAT64, Output
from tfsmith.testing.variables import Kind, add_saver, glorot_uniform, ones, zeros
from tfsmith.testing.weights import Weights, fixed

__all__ = [
    "assemble",
    "build_linear_regression",
    "ConvNetConfig",
    "build_conv_net",
    "BertConfig",
    "TestModel",
    "bert_classifier",
    "conv_net",
    "linear_regression",
]


def build_linear_regression(kind: Kind, slope: float, intercept: float) -> tuple[GraphBuilder, dict[str, Output]]:
    """Adds the nodes: placeholders, variables, the line, and the loss that it was trained with.

    Returns:
        The builder, and its tensors by key: x, y_sample, y, loss.
    """
    builder = GraphBuilder(kind)
    with builder.name_scope("inputs"):
        x = builder.placeholder(FLOAT64, [None, None], "x_sample")
        sample = builder.placeholder(FLOAT64, [None, None], "y_sample")
        builder.add_to_collection("inputs", x)
        builder.add_to_collection("inputs", sample)
    with builder.variable_scope("model_variables"):
        weight = builder.variable("slope", builder.const(1.0, FLOAT64), fixed(slope))
        offset = builder.variable("intercept", builder.const(1.0, FLOAT64), fixed(intercept))
    with builder.name_scope("linear_regression"):
        product = builder.node("Mul", [builder.read(weight), x], {}, "mul").out
        y = builder.node("AddV2", [product, offset], {}, "add").out
        builder.add_to_collection("outputs", y)
    with builder.name_scope("optimizer"):
        error = builder.node("Sub", [y, sample], {}, "sub").out
        loss = reduce_all_axes(builder, "Sum", builder.node("Pow", [error, 2.0], {}, "pow").out)
    return builder, {"x": x, "y_sample": sample, "y": y, "loss": loss}


@record
class ConvNetConfig:
    """The sizes of the network: square images, one block for each number of filters."""

    size: int = 8
    channels: int = 3
    filters: Sequence[int] = (4, 6)
    classes: int = 5


def build_conv_net(
    config: ConvNetConfig, kind: Kind, batch: int | None, weights: Weights
) -> tuple[GraphBuilder, dict[str, Output]]:
    """Adds the nodes: blocks of convolution, batch normalization, Relu and pooling; then mean, dense layer, softmax.

    Returns:
        The builder, and its tensors by key: images, probabilities.
    """
    builder = GraphBuilder(kind)
    images = builder.placeholder(FLOAT32, [batch, config.size, config.size, config.channels], "images")
    net = images
    for number, depth in enumerate(config.filters):
        suffix = f"_{number}" if number else ""
        net = _convolve(builder, net, depth, f"conv2d{suffix}", weights)
        net = _normalize(builder, net, depth, f"batch_normalization{suffix}", weights)
        net = builder.node("Relu", [net]).out
        with builder.name_scope(f"max_pooling2d{suffix}"):
            window = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
            net = builder.node("MaxPool", [net], window).out
    net = builder.node("Mean", [net, [1, 2]]).out
    kernel = weights.normal(net.dims[1], config.classes, stddev=0.5)
    bias = weights.normal(config.classes, stddev=0.1)
    net = dense(builder, net, kernel, bias, "dense", glorot_uniform)
    return builder, {"images": images, "probabilities": builder.node("Softmax", [net], {}, "probabilities").out}


def _convolve(builder: GraphBuilder, net: Output, depth: int, name: str, weights: Weights) -> Output:
    with builder.variable_scope(name):
        kernel = builder.variable("kernel", glorot_uniform, weights.normal(3, 3, net.dims[3], depth, stddev=0.2))
        bias = builder.variable("bias", zeros, weights.normal(depth, stddev=0.1))
        product = builder.node("Conv2D", [net, kernel], {"strides": [1, 1, 1, 1], "padding": "SAME"}).out
        return builder.node("BiasAdd", [product, bias]).out


def _normalize(builder: GraphBuilder, net: Output, depth: int, name: str, weights: Weights) -> Output:
    around_one = weights.normal(depth, stddev=0.1, center=1.0)
    around_zero = weights.normal(depth, stddev=0.1)
    with builder.variable_scope(name):
        gamma = builder.variable("gamma", ones, around_one)
        beta = builder.variable("beta", zeros, around_zero)
        mean = builder.variable("moving_mean", zeros, around_zero, trainable=False)
        variance = builder.variable("moving_variance", ones, around_one, trainable=False)
        # TensorFlow reads scale and offset before it enters the node's scope, the moments inside.
        inputs = [net, builder.read(gamma), builder.read(beta), mean, variance]
        return builder.node("FusedBatchNormV3", inputs, {"epsilon": reference.EPSILON, "is_training": False}).out


SaverKind = Literal["plain", "sharded"]
_Build = Callable[[], tuple[GraphBuilder, dict[str, Output]]]


@record(eq=False)
class TestModel:
    """A model and all that a test wants to know of it.

    Attributes:
        name: What kind of model it is.
        model: What a `.meta` and its checkpoint hold: graph, saver, collections, variables. The values of large
            variables are made when they are read.
        signature: Its inputs and outputs by key.
        tensors: The tensors that `reference` speaks of, by key: inputs, outputs, and others such as the loss.
        reference: The forward pass in numpy: arrays by input key to arrays by key.
    """

    __test__: ClassVar[bool] = False  # it is no test, whatever pytest thinks of its name

    name: str
    model: Model
    signature: Signature
    tensors: Mapping[str, str]
    reference: Callable[[Mapping[str, Array]], dict[str, Array]]
    _draw: Callable[[np.random.Generator, int], dict[str, Array]] = field(repr=False)
    _build: _Build = field(repr=False)

    @property
    def inputs(self) -> dict[str, str]:
        """The input tensors by key, such as "input_ids:0"."""
        return {key: info.name for key, info in self.signature.inputs.items()}

    @property
    def outputs(self) -> dict[str, str]:
        """The output tensors by key, such as "loss/output:0"."""
        return {key: info.name for key, info in self.signature.outputs.items()}

    @property
    def output_nodes(self) -> list[str]:
        """The names of the nodes that give the outputs."""
        return [name.rpartition(":")[0] for name in self.outputs.values()]

    def example_inputs(self, seed: int = 0, batch: int = 2) -> dict[str, Array]:
        """Inputs by key. A model with a fixed batch gets that, whatever `batch` says."""
        shape = next(iter(self.signature.inputs.values())).shape.dims or ()
        return self._draw(np.random.default_rng(seed), shape[0] if shape and shape[0] >= 0 else batch)

    def saved_model(self, *, output_shapes: bool = True) -> Model:
        """The model as SavedModelBuilder would export it: a sharded saver, the tag "serve", the signature."""
        builder, _ = self._build()
        model = assemble(builder, "sharded", output_shapes=output_shapes)
        signatures: dict[str, Signature] = {SERVING_DEFAULT: self.signature}
        info = replace(model.meta.info, tags=("serve",))
        meta = replace(model.meta, info_part=Part.of(info), signatures_part=Part.of(signatures))
        return replace(model, kind="saved_model", meta_graphs=(meta,))


def linear_regression(
    *,
    variables: Kind = "ref",
    slope: float = 1.5000040359253222,
    intercept: float = -2.9987834928787764,
    output_shapes: bool = True,
) -> TestModel:
    """y = slope * x + intercept in float64; inputs x, output y."""

    def draw(random: np.random.Generator, batch: int) -> dict[str, Array]:
        return {"x": random.uniform(-10, 10, (batch, 3))}

    build = partial(build_linear_regression, variables, slope, intercept)
    return _finish("linear_regression", build, ["x"], ["y"], reference.linear_regression, draw, output_shapes)


def conv_net(
    config: ConvNetConfig | None = None,
    *,
    variables: Kind = "ref",
    batch: int | None = None,
    seed: int = 0,
    output_shapes: bool = True,
) -> TestModel:
    """A small classifier of NHWC images; input images, output probabilities."""
    sizes = config or ConvNetConfig()

    def draw(random: np.random.Generator, batch: int) -> dict[str, Array]:
        shape = (batch, sizes.size, sizes.size, sizes.channels)
        return {"images": random.standard_normal(shape, np.float32)}

    def compute(values: reference.Variables, feeds: Mapping[str, Array]) -> dict[str, Array]:
        return reference.conv_net(values, feeds, len(sizes.filters))

    build = partial(build_conv_net, sizes, variables, batch, Weights(seed))
    return _finish("conv_net", build, ["images"], ["probabilities"], compute, draw, output_shapes)


def bert_classifier(
    config: BertConfig | None = None,
    *,
    length: int | None = None,
    batch: int | None = None,
    labels: int = 2,
    variables: Kind = "ref",
    seed: int = 0,
    global_step: int | None = None,
    output_shapes: bool = True,
) -> TestModel:
    """Google's BERT with a classifier on top; inputs input_ids, input_mask, segment_ids, label_ids.

    Args:
        config: Its sizes; `BertConfig.tiny()` by default.
        length: The sequence length; by default 128, or what the position embeddings allow, if less.
        batch: The batch size; None leaves it open.
        labels: How many classes.
        variables: The kind of the variables.
        seed: What the weights follow from.
        global_step: The value of a variable `global_step`; None leaves it out.
        output_shapes: Whether nodes carry `_output_shapes`.
    """
    sizes = config or BertConfig.tiny()
    words = min(128, sizes.max_position_embeddings) if length is None else length

    def draw(random: np.random.Generator, batch: int) -> dict[str, Array]:
        used = random.integers(1, words + 1, batch)[:, None]  # at least one word, then padding
        mask = np.arange(words)[None, :] < used
        second = np.arange(words)[None, :] >= used // 2
        return {
            "input_ids": np.where(mask, random.integers(0, sizes.vocab_size, (batch, words)), 0).astype(np.int32),
            "input_mask": mask.astype(np.int32),
            "segment_ids": (mask & second).astype(np.int32),
            "label_ids": random.integers(0, labels, batch).astype(np.int32),
        }

    setup = BertSetup(sizes, words, batch, labels, variables, Weights(seed), global_step)
    inputs = ["input_ids", "input_mask", "segment_ids", "label_ids"]
    compute = partial(reference.bert_classifier, sizes)
    build = partial(build_bert_classifier, setup)
    return _finish("bert_classifier", build, inputs, ["probabilities"], compute, draw, output_shapes)


def _finish(
    name: str,
    build: _Build,
    inputs: list[str],
    outputs: list[str],
    compute: Callable[[reference.Variables, Mapping[str, Array]], dict[str, Array]],
    draw: Callable[[np.random.Generator, int], dict[str, Array]],
    output_shapes: bool,
) -> TestModel:
    builder, tensors = build()
    signature = Signature(
        {key: _info(tensors[key]) for key in sorted(inputs)}, {key: _info(tensors[key]) for key in sorted(outputs)}
    )
    model = assemble(builder, "plain", output_shapes=output_shapes)
    names = {key: output.tensor_name for key, output in tensors.items()}
    return TestModel(name, model, signature, names, partial(compute, model.variables), draw, build)


def _info(output: Output) -> TensorInfo:
    return TensorInfo(output.tensor_name, output.dtype, output.shape)


def assemble(builder: GraphBuilder, saver: SaverKind, *, output_shapes: bool = True) -> Model:
    """Adds a saver and puts the parts of a meta graph together."""
    added = add_saver(builder, sharded=saver == "sharded")
    version = builtin_ops().version
    info = MetaInfo(tensorflow_version=version, tensorflow_git_version="unknown", ops=builder.ops_used())
    meta = MetaGraph(
        Part.of(builder.graph(output_shapes=output_shapes)),
        info_part=Part.of(info),
        saver_part=Part.of(added),
        collections_part=Part.of(builder.all_collections()),
    )
    # A saver writes the variables in the order of their names.
    return Model("metagraph", (meta,), {name: builder.values[name] for name in sorted(builder.values)})
