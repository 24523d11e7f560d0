"""The shipped recipes whose results run: the real TensorFlow gives the same answers before and after."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.recipe_models import (
    IDS,
    MASK,
    exact_gelu,
    google,
    google_gelu,
    google_tanh,
    norm,
    older_gelu,
    save_functions,
    tanh_gelu,
)

import tfsmith
from tfsmith.ir.body import Body
from tfsmith.ir.node import Node
from tfsmith.testing.models import bert_classifier, conv_net
from tfsmith.testing.write import write_frozen, write_saved_model
from tfsmith.verbs.replace import Replaced

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(4, 6)).astype(np.float32)
CUBE = RNG.normal(size=(3, 5, 6)).astype(np.float32)
IMAGES = RNG.normal(size=(2, 7, 7, 6)).astype(np.float32)
HEADS = RNG.normal(size=(2, 3, 5, 4)).astype(np.float32)
Build = Callable[[Any, Any], Any]


def numbers(*dims: int, center: float = 0.0) -> Any:
    return (np.random.default_rng(sum(dims)).normal(size=dims) * 0.5 + center).astype(np.float32)


def session(tf: Any, graph: Any) -> Any:
    """Runs a graph as it is: TensorFlow's own optimizer would fuse layer norms, with an epsilon of its own."""
    config = tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    return tf.compat.v1.Session(graph=graph, config=config)


def write(build: Build, shape: Sequence[int | None], path: Path) -> Path:
    """A graph of constants: placeholder x, output y."""
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.identity(build(tf, tf.compat.v1.placeholder(tf.float32, shape, "x")), name="y")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def run(path: Path, feeds: Mapping[str, Any], output: str = "y") -> Any:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default(), session(tf, graph) as running:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        return running.run(f"{output}:0", {f"{name}:0": value for name, value in feeds.items()})


def replaced(path: Path, recipe: str, matches: int = 1) -> Replaced:
    done = tfsmith.replace(tfsmith.load(path), recipe, outputs=["y"])
    assert len(done.matches) == matches, (done.reason, done.nearest_miss, done.skipped)
    return done


def ops(body: Body) -> list[str]:
    return [node.op for node in body if node.op not in ("Const", "Placeholder")]


def same(path: Path, recipe: str, x: Any, *, exact: bool = False, **feeds: Any) -> Replaced:
    """Replaces once, and compares what TensorFlow computes."""
    done = replaced(path, recipe)
    tfsmith.save(done.model, path.with_name("new.pb"), force=True)
    before = run(path, {"x": x, **feeds})
    after = run(path.with_name("new.pb"), {"x": x, **feeds})
    if exact:
        np.testing.assert_array_equal(after, before)
    else:
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    return done


def changed(path: Path, op: str, number: int = 0, **changes: Any) -> Path:
    """The graph with one node of this op changed; gives the new file."""
    model = tfsmith.load(path)
    node = [node for node in model.graph if node.op == op][number]
    other = model.replace_graph(model.graph.map_nodes({node.name: node.replace(**changes)}))
    tfsmith.save(other, path.with_name("changed.pb"), force=True)
    return path.with_name("changed.pb")


def nothing(path: Path, recipe: str) -> Replaced:
    model = tfsmith.load(path)
    done = tfsmith.replace(model, recipe, outputs=["y"])
    assert not done.matches
    assert done.model is model
    assert done.reason
    return done


# layer-norm


def own_norm(tf: Any, x: Any, *, axis: int, epsilon: float = 1e-12) -> Any:
    return norm(tf, x, numbers(6, center=1.0), numbers(6), axis, epsilon)


def keras_norm(tf: Any, x: Any) -> Any:
    """What the LayerNormalization of Keras 3 does, on constants."""
    shape = [1] * (len(x.shape) - 1) + [6]
    gamma, beta = (tf.reshape(tf.constant(value), shape) for value in (numbers(6, center=1.0), numbers(6)))
    mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
    inverse = tf.math.rsqrt(variance + 1e-3) * gamma
    return x * inverse + (-mean * inverse + beta)


NORMS: dict[str, tuple[Build, Any]] = {
    "rows": (partial(own_norm, axis=1), ROWS),
    "rows, last": (partial(own_norm, axis=-1, epsilon=1e-3), ROWS),
    "cube": (partial(own_norm, axis=2, epsilon=1e-5), CUBE),
    "cube, last": (partial(own_norm, axis=-1, epsilon=0.1), CUBE),
    "keras": (keras_norm, CUBE),
}


@pytest.mark.parametrize(("build", "x"), NORMS.values(), ids=NORMS)
def test_layer_norm(build: Build, x: Any, tmp_path: Path) -> None:
    path = write(build, [None, *x.shape[1:]], tmp_path / "old.pb")
    done = same(path, "layer-norm", x)
    assert ops(done.model.graph) == ["_MklLayerNorm", "Identity"]


def test_layer_norm_over_another_axis_stays(tmp_path: Path) -> None:
    """Instance norm: the mean of each column, scaled by the columns' gammas."""
    path = write(partial(own_norm, axis=1), [None, 5, 6], tmp_path / "old.pb")
    done = nothing(path, "layer-norm")
    assert done.nearest_miss is not None
    assert "not along the axes that it normalizes" in done.nearest_miss.reason
    nothing(write(partial(own_norm, axis=0), [None, 6], tmp_path / "old.pb"), "layer-norm")
    # The op takes no more than three axes.
    nothing(write(partial(own_norm, axis=-1), [None, 7, 7, 6], tmp_path / "old.pb"), "layer-norm")


def test_layer_norm_that_is_not_quite_one_stays(tmp_path: Path) -> None:
    path = write(partial(own_norm, axis=-1), [None, 6], tmp_path / "old.pb")
    graph = tfsmith.load(path).graph
    sub = next(node for node in graph if node.op == "Sub")
    nothing(changed(path, "Sub", inputs=sub.inputs[::-1]), "layer-norm")
    nothing(changed(path, "Mean", attrs={"keep_dims": False}), "layer-norm")
    mean = next(node for node in graph if node.op == "Mean")
    nothing(changed(path, "SquaredDifference", inputs=(mean.name, mean.name)), "layer-norm")
    squares = next(node for node in graph if node.op == "SquaredDifference")
    nothing(changed(path, "Rsqrt", inputs=(squares.name,)), "layer-norm")


def test_layer_norm_of_doubles_or_wide_gammas_stays(tmp_path: Path) -> None:
    def doubles(tf: Any, x: Any) -> Any:
        return norm(tf, tf.cast(x, tf.float64), np.ones(6), np.zeros(6), 1)

    def wide(tf: Any, x: Any) -> Any:
        return norm(tf, x, numbers(1, 6), numbers(6), 1)

    nothing(write(doubles, [None, 6], tmp_path / "old.pb"), "layer-norm")
    nothing(write(wide, [None, 6], tmp_path / "old.pb"), "layer-norm")


def test_layer_norm_whose_mean_is_used_stays(tmp_path: Path) -> None:
    def build(tf: Any, x: Any) -> Any:
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        normed = tf.nn.batch_normalization(x, mean, variance, numbers(6), numbers(6), 1e-6)
        return normed + mean

    done = nothing(write(build, [None, 6], tmp_path / "old.pb"), "layer-norm")
    assert "is also used by" in (done.reason or "")


# gelu-tanh and gelu-erf


def dense_gelu(tf: Any, x: Any, gelu: Any, transposed: bool = False) -> Any:
    kernel = numbers(9, 6) if transposed else numbers(6, 9)
    return gelu(tf, tf.nn.bias_add(tf.linalg.matmul(x, kernel, transpose_b=transposed), numbers(9)))


def hugging_face(tf: Any, x: Any) -> Any:
    return x * (0.5 * (1.0 + tf.math.erf(x / tf.cast(tf.constant(np.sqrt(2.0), tf.float32), x.dtype))))


GELUS = {
    "tanh of google": (google_tanh, "gelu-tanh"),
    "tanh of tf.nn": (tanh_gelu, "gelu-tanh"),
    "erf of google": (google_gelu, "gelu-erf"),
    "erf of hugging face": (hugging_face, "gelu-erf"),
    "erf of tf.nn": (older_gelu, "gelu-erf"),
    "erfc of tf.nn": (exact_gelu, "gelu-erf"),
}


@pytest.mark.parametrize(("gelu", "recipe"), GELUS.values(), ids=GELUS)
@pytest.mark.parametrize("transposed", [False, True])
def test_gelu(gelu: Any, recipe: str, transposed: bool, tmp_path: Path) -> None:
    path = write(partial(dense_gelu, gelu=gelu, transposed=transposed), [None, 6], tmp_path / "old.pb")
    done = same(path, recipe, ROWS)
    assert ops(done.model.graph) == ["_FusedMatMul", "Identity"]
    nothing(path, {"gelu-erf": "gelu-tanh", "gelu-tanh": "gelu-erf"}[recipe])


def test_gelu_that_is_not_quite_one_stays(tmp_path: Path) -> None:
    def off(tf: Any, x: Any, third: float = 3.0, half: float = 0.5, other: bool = False) -> Any:
        x = tf.nn.bias_add(tf.linalg.matmul(x, numbers(6, 9)), numbers(9))
        y = x + 0.01 if other else x
        return y * (half * (1.0 + tf.tanh(0.7978845608028654 * (x + 0.044715 * tf.pow(x, third)))))

    assert replaced(write(off, [None, 6], tmp_path / "old.pb"), "gelu-tanh").matches
    for wrong in ({"third": 2.0}, {"half": 0.51}, {"other": True}):
        nothing(write(partial(off, **wrong), [None, 6], tmp_path / "old.pb"), "gelu-tanh")

    def used(tf: Any, x: Any) -> Any:
        x = tf.nn.bias_add(tf.linalg.matmul(x, numbers(6, 9)), numbers(9))
        return google_tanh(tf, x) + x

    assert "is also used by" in (nothing(write(used, [None, 6], tmp_path / "old.pb"), "gelu-tanh").reason or "")


# dropout-removal


def today(tf: Any, x: Any, rate: Any) -> Any:
    return tf.compat.v1.nn.dropout(x, rate=rate)


def spread(tf: Any, x: Any) -> Any:
    low, high = tf.constant(0.0), tf.constant(1.0)
    return tf.raw_ops.RandomUniform(shape=tf.shape(x), dtype=tf.float32) * (high - low) + low


def middle(tf: Any, x: Any, rate: Any) -> Any:
    """`tf.nn.dropout` of TensorFlow 1.15 and 2.0: a product with the mask."""
    scale = 1.0 / (1.0 - rate)
    return x * scale * tf.cast(spread(tf, x) >= rate, tf.float32)


def middle_of_numbers(tf: Any, x: Any, rate: Any) -> Any:
    """The same of a rate that is a number, with a shape that is known."""
    numbers = tf.raw_ops.RandomUniform(shape=[4, 6], dtype=tf.float32)
    return tf.raw_ops.Mul(x=x, y=tf.constant(1.0)) * tf.cast(numbers >= 0.0, tf.float32)


def oldest(tf: Any, x: Any, rate: Any) -> Any:
    """`tf.nn.dropout` of the first years, with keep_prob."""
    keep = 1.0 - rate
    return tf.math.divide(x, keep) * tf.floor(keep + spread(tf, x))


def conditional(tf: Any, x: Any, rate: Any) -> Any:
    training = tf.compat.v1.placeholder_with_default(False, [], "training")
    return tf.compat.v1.cond(training, lambda: tf.nn.dropout(x, 0.4), lambda: tf.identity(x))


DROPOUTS = {
    "today": today,
    "middle": middle,
    "middle, numbers": middle_of_numbers,
    "oldest": oldest,
    "condition": conditional,
}


@pytest.mark.parametrize("form", DROPOUTS.values(), ids=DROPOUTS)
def test_dropout(form: Any, tmp_path: Path) -> None:
    import tensorflow as tf

    def build(tf: Any, x: Any) -> Any:
        rate = tf.compat.v1.placeholder(tf.float32, [], "rate")
        return tf.tanh(form(tf, x * 2.0, rate)) + 1.0

    tf.compat.v1.disable_control_flow_v2()
    try:
        path = write(build, [4, 6], tmp_path / "old.pb")
    finally:
        tf.compat.v1.enable_control_flow_v2()
    done = same(path, "dropout-removal", ROWS, exact=True, rate=0.0)
    assert set(ops(done.model.graph)) - {"Identity", "Switch", "PlaceholderWithDefault", "Sub"} == {
        "Mul",
        "Tanh",
        "AddV2",
    }
    # Whoever feeds the rate may go on doing so.
    after = run(tmp_path / "new.pb", {"x": ROWS, "rate": 0.5})
    np.testing.assert_allclose(after, np.tanh(ROWS * 2) + 1, rtol=1e-5, atol=1e-6)


def test_a_choice_that_is_no_dropout_stays(tmp_path: Path) -> None:
    def choice(tf: Any, x: Any) -> Any:
        return tf.where(x >= 0.5, x * 2.0, 0.0)

    def noise(tf: Any, x: Any) -> Any:
        numbers = tf.raw_ops.RandomUniform(shape=tf.shape(x), dtype=tf.float32)
        return tf.where(numbers >= 0.5, x * 2.0, -1.0)

    for build in (choice, noise):
        nothing(write(build, [4, 6], tmp_path / "old.pb"), "dropout-removal")


# fold-batch-norm


def normalized(tf: Any, x: Any, product: Build, *, bias: bool, fused: bool, channels: int) -> Any:
    x = product(tf, x)
    x = tf.nn.bias_add(x, numbers(channels)) if bias else x
    gamma, beta, mean = (numbers(channels, 1, 1, number, center=1.0)[:, 0, 0, 0] for number in (1, 2, 3))
    variance = np.abs(numbers(channels, center=2.0)) + 0.1
    if not fused:
        weights = [tf.constant(value) for value in (mean, variance, beta, gamma)]
        return tf.nn.batch_normalization(x, *weights, 1e-3)
    return tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, mean, variance, epsilon=2e-3, is_training=False)[0]


def conv(tf: Any, x: Any) -> Any:
    return tf.nn.conv2d(x, numbers(3, 3, 6, 4), [1, 2, 2, 1], "SAME")


def explicit(tf: Any, x: Any) -> Any:
    padding = [[0, 0], [1, 2], [0, 1], [0, 0]]
    return tf.nn.conv2d(x, numbers(3, 3, 6, 4), 1, padding, dilations=[1, 2, 1, 1])


def depthwise(tf: Any, x: Any) -> Any:
    return tf.nn.depthwise_conv2d(x, numbers(3, 3, 6, 2), [1, 1, 1, 1], "VALID")


def matrix(tf: Any, x: Any) -> Any:
    return tf.linalg.matmul(x, numbers(6, 5))


IMAGE_FOLDS: list[tuple[Any, int]] = [(conv, 4), (explicit, 4), (depthwise, 12)]
FOLDS: list[tuple[Any, int, Any, bool]] = [
    *((product, channels, IMAGES, fused) for product, channels in IMAGE_FOLDS for fused in (False, True)),
    (matrix, 5, ROWS, False),  # a fused batch norm takes images
]


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize(
    ("product", "channels", "x", "fused"),
    FOLDS,
    ids=[f"{product.__name__}-{'fused' if fused else 'unfused'}" for product, _, _, fused in FOLDS],
)
def test_fold_batch_norm(product: Build, channels: int, x: Any, fused: bool, bias: bool, tmp_path: Path) -> None:
    build = partial(normalized, product=product, bias=bias, fused=fused, channels=channels)
    path = write(build, [None, *x.shape[1:]], tmp_path / "old.pb")
    done = same(path, "fold-batch-norm", x)
    left = ops(done.model.graph)
    assert len(left) == 3
    assert left[1:] == ["BiasAdd", "Identity"]


def test_a_batch_norm_that_learns_or_is_looked_into_stays(tmp_path: Path) -> None:
    def learning(tf: Any, x: Any) -> Any:
        return tf.compat.v1.nn.fused_batch_norm(conv(tf, x), numbers(4), numbers(4), is_training=True)[0]

    def looked_into(tf: Any, x: Any) -> Any:
        x = conv(tf, x)
        y = tf.compat.v1.nn.fused_batch_norm(x, *[np.ones(4, np.float32)] * 4, is_training=False)[0]
        return x + y

    def turned(tf: Any, x: Any) -> Any:
        x = tf.linalg.matmul(x, numbers(5, 6), transpose_b=True)
        return tf.nn.batch_normalization(x, *[tf.constant(np.ones(5, np.float32))] * 4, 1e-3)

    nothing(write(learning, IMAGES.shape, tmp_path / "old.pb"), "fold-batch-norm")
    assert "Conv2D" in (nothing(write(looked_into, IMAGES.shape, tmp_path / "old.pb"), "fold-batch-norm").reason or "")
    nothing(write(turned, ROWS.shape, tmp_path / "old.pb"), "fold-batch-norm")


def test_fold_batch_norm_of_a_convolutional_net(tmp_path: Path) -> None:
    test = conv_net()
    path = write_frozen(test, tmp_path / "net.pb")
    done = tfsmith.replace(tfsmith.load(path), "fold-batch-norm")
    assert len(done.matches) == 2
    assert not any("BatchNorm" in node.op for node in done.model.graph)
    tfsmith.save(done.model, tmp_path / "new.pb")
    feeds = {"images": test.example_inputs()["images"]}
    output = test.output_nodes[0]
    before, after = (run(tmp_path / name, feeds, output) for name in ("net.pb", "new.pb"))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


# attention


def attend(tf: Any, x: Any, *, mask: Sequence[int] = (2, 1, 5, 5), scale: Any = 0.5, turned: bool = False) -> Any:
    key = x * 0.7 + 0.1
    key = tf.transpose(key, [0, 1, 3, 2]) if turned else key
    scores = tf.linalg.matmul(x, key, transpose_b=not turned) * scale + numbers(*mask)
    return tf.linalg.matmul(tf.nn.softmax(scores), x * 0.3)


def test_attention(tmp_path: Path) -> None:
    for more in ({}, {"mask": (1, 1, 1, 5)}, {"mask": (2, 3, 1, 5)}, {"turned": True}):
        path = write(partial(attend, **more), HEADS.shape, tmp_path / "old.pb")
        done = same(path, "attention", HEADS)
        assert "_MklFusedBatchMatMulV2" in ops(done.model.graph)


def attend_apart(tf: Any, x: Any, masked: Callable[[Any, Any], Any]) -> Any:
    """Words in front of heads, as in Keras."""
    scores = tf.einsum("bfnh,btnh->bnft", x * 0.5, x * 0.7 + 0.1)
    return tf.einsum("bnft,btnh->bfnh", masked(tf, scores), x * 0.3)


def is_shown(tf: Any) -> Any:
    """Whole, padded, and fully masked rows."""
    return tf.constant([[True, True, False], [False, False, False]])[:, tf.newaxis, tf.newaxis, :]


def cleared(tf: Any, x: Any, shown: Any) -> Any:
    """Hidden words have no share, even where all are hidden."""
    return tf.where(shown, tf.nn.softmax(tf.where(shown, x, -1e9)), 0.0)


MASKED: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda tf, x: tf.nn.softmax(x),
    "added": lambda tf, x: tf.nn.softmax(x + numbers(2, 1, 3, 3)),
    "subtracted": lambda tf, x: tf.nn.softmax(x - 1e4 * (1.0 - tf.cast(is_shown(tf), tf.float32))),
    "chosen": lambda tf, x: tf.nn.softmax(tf.where(is_shown(tf), x, -1e9)),
    "hidden": lambda tf, x: tf.nn.softmax(tf.where(tf.logical_not(is_shown(tf)), -1e9, x)),
    "made wide": lambda tf, x: tf.nn.softmax(tf.where(is_shown(tf) & tf.ones_like(x, tf.bool), x, -1e9)),
    "cleared": lambda tf, x: cleared(tf, x, is_shown(tf)),
}


@pytest.mark.parametrize("name", MASKED)
def test_attention_with_words_in_front_of_heads(name: str, tmp_path: Path) -> None:
    """It has three words and five heads; with these exchanged, it would be another."""
    path = write(partial(attend_apart, masked=MASKED[name]), HEADS.shape, tmp_path / "old.pb")
    done = same(path, "attention", HEADS)
    assert ("_MklFusedBatchMatMulV2" in ops(done.model.graph)) == (name == "added")
    assert "Einsum" not in ops(done.model.graph)


def test_attention_with_masks_that_the_fused_op_does_not_take(tmp_path: Path) -> None:
    """Its kernel would end the process."""
    for mask in ((5, 5), (1, 5, 5)):
        done = same(write(partial(attend, mask=mask), HEADS.shape, tmp_path / "old.pb"), "attention", HEADS)
        assert "_MklFusedBatchMatMulV2" not in ops(done.model.graph)


def test_attention_with_another_scale_for_each_word_stays(tmp_path: Path) -> None:
    nothing(write(partial(attend, scale=numbers(5)), HEADS.shape, tmp_path / "old.pb"), "attention")


def test_gelu_behind_a_product_of_higher_rank(tmp_path: Path) -> None:
    def build(tf: Any, x: Any) -> Any:
        return tf.nn.gelu(tf.tensordot(x, numbers(4, 6), 1) + numbers(6))

    done = same(write(build, [None, 3, 5, 4], tmp_path / "old.pb"), "gelu-erf", HEADS)
    assert "_FusedMatMul" in ops(done.model.graph)


# remove-identity and remove-no-ops


def busy(tf: Any, x: Any) -> Any:
    x = tf.identity(tf.stop_gradient(tf.identity(x)))
    with tf.control_dependencies([tf.debugging.assert_less(x, 1e9)]):
        x = tf.identity(x, name="waits")
    x = tf.raw_ops.CheckNumerics(tensor=tf.raw_ops.Cast(x=x, DstT=tf.float32) * 1.0, message="no")
    x = tf.transpose(tf.transpose(x, [0, 3, 1, 2]), [0, 2, 3, 1]) / 1.0
    x = tf.reshape(tf.reshape(x, [-1, 42]), [-1, 6])
    return tf.tanh(tf.raw_ops.PreventGradient(input=x))


def test_remove_identity(tmp_path: Path) -> None:
    path = write(busy, [None, 7, 7, 6], tmp_path / "old.pb")
    done = tfsmith.replace(tfsmith.load(path), "remove-identity", outputs=["y"])
    left = [node.name for node in done.model.graph if node.op == "Identity"]
    assert [name for name in left if "assert" not in name] == ["waits", "y"]
    tfsmith.save(done.model, tmp_path / "new.pb")
    np.testing.assert_array_equal(run(tmp_path / "new.pb", {"x": IMAGES}), run(path, {"x": IMAGES}))


def test_remove_no_ops(tmp_path: Path) -> None:
    path = write(busy, [None, 7, 7, 6], tmp_path / "old.pb")
    model, count = tfsmith.load(path), 0
    while (done := tfsmith.replace(model, "remove-no-ops", outputs=["y"])).matches:
        model, count = done.model, count + 1
    assert count <= 2
    checks = ("Assert", "All", "Less", "LogicalNot", "NoOp", "If", "Switch", "Merge", "Identity")
    assert [op for op in ops(model.graph) if op not in checks] == ["Reshape", "Tanh"]
    assert {"waits", "y"} <= {node.name for node in model.graph if node.op == "Identity"}
    tfsmith.save(model, tmp_path / "new.pb")
    np.testing.assert_array_equal(run(tmp_path / "new.pb", {"x": IMAGES}), run(path, {"x": IMAGES}))


def test_what_does_something_stays(tmp_path: Path) -> None:
    def build(tf: Any, x: Any) -> Any:
        x = tf.raw_ops.Cast(x=tf.raw_ops.Cast(x=x, DstT=tf.float64), DstT=tf.float32)
        x = x * tf.ones([6]) * 1.0000001 * tf.constant([1.0])
        return tf.transpose(tf.transpose(x, [0, 3, 1, 2]), [0, 3, 1, 2])

    path = write(build, [None, 7, 7, 6], tmp_path / "old.pb")
    done = tfsmith.replace(tfsmith.load(path), "remove-no-ops", outputs=["y"])
    assert not done.matches


# Whole models


FUSING = ["layer-norm", "gelu-tanh", "attention", "remove-no-ops"]


def one_after_the_other(model: tfsmith.Model, recipes: Sequence[str]) -> tfsmith.Model:
    for recipe in recipes:
        done = tfsmith.replace(model, recipe)
        assert done.matches, (recipe, done.reason, done.nearest_miss)
        model = done.model
    return model


def test_all_on_a_frozen_bert(tmp_path: Path) -> None:
    test = bert_classifier()
    path = write_frozen(test, tmp_path / "old.pb")
    model = one_after_the_other(tfsmith.load(path), FUSING)
    counts = model.graph.op_counts()
    assert (counts["_MklLayerNorm"], counts["_FusedMatMul"], counts["_MklFusedBatchMatMulV2"]) == (5, 2, 2)
    assert len(model.graph) < 0.65 * len(tfsmith.load(path).graph)
    tfsmith.save(model, tmp_path / "new.pb")
    inputs = {key: value for key, value in test.example_inputs().items() if key != "label_ids"}
    before, after = (run(tmp_path / name, inputs, test.output_nodes[0]) for name in ("old.pb", "new.pb"))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("variables", ["ref", "resource"])
def test_all_on_a_saved_bert_of_tensorflow_1(variables: Any, tmp_path: Path) -> None:
    import tensorflow as tf

    test = bert_classifier(variables=variables)
    write_saved_model(test, tmp_path / "old")
    tfsmith.save(one_after_the_other(tfsmith.load(tmp_path / "old"), FUSING[:3]), tmp_path / "new")
    inputs = test.example_inputs()
    answers = []
    for name in ("old", "new"):
        graph = tf.Graph()
        with graph.as_default(), session(tf, graph) as running:
            tf.compat.v1.saved_model.load(running, ["serve"], str(tmp_path / name))
            feeds = {test.inputs[key]: value for key, value in inputs.items()}
            answers.append(running.run(test.outputs["probabilities"], feeds))
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-5, atol=1e-6)


def test_all_on_functions(tmp_path: Path) -> None:
    import tensorflow as tf

    save_functions(tmp_path / "old", google, google_tanh)
    tfsmith.save(one_after_the_other(tfsmith.load(tmp_path / "old"), FUSING), tmp_path / "new")
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        answers = []
        for name in ("old", "new"):
            loaded = tf.saved_model.load(str(tmp_path / name))
            found = loaded.signatures["serving_default"](ids=tf.constant(IDS), mask=tf.constant(MASK))
            answers.append(found["probabilities"].numpy())
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False})
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-5, atol=1e-6)


def test_keras_layers_with_variables(tmp_path: Path) -> None:
    """Batch norms, a layer norm and GELU of Keras 3: the weights stay variables, and nodes compute the new ones."""
    import keras
    import tensorflow as tf

    make = keras.layers
    x = keras.Input((7, 7, 6))
    y = make.Conv2D(5, 3)(x)
    y = make.BatchNormalization()(y)
    y = make.DepthwiseConv2D(2, depth_multiplier=2, use_bias=False)(y)
    y = make.BatchNormalization()(make.Dropout(0.5)(y))
    y = make.Dense(8, activation="gelu")(make.LayerNormalization()(make.Flatten()(y)))
    model = keras.Model(x, y)
    rng = np.random.default_rng(2)
    model.set_weights([np.abs(rng.normal(size=value.shape)) + 0.1 for value in model.get_weights()])
    model.export(str(tmp_path / "old"), verbose=False)
    opened = tfsmith.load(tmp_path / "old")
    folded = tfsmith.replace(opened, "fold-batch-norm")
    assert len(folded.matches) == 2
    after = one_after_the_other(folded.model, ["layer-norm", "gelu-erf"])
    found = [node.op for function in after.graph.library.values() for node in function]
    assert {"_MklLayerNorm", "_FusedMatMul"} <= set(found)
    tfsmith.save(after, tmp_path / "new")
    loaded = [tf.saved_model.load(str(tmp_path / name)) for name in ("old", "new")]
    answers = [one.serve(IMAGES).numpy() for one in loaded]
    np.testing.assert_allclose(answers[1], answers[0], rtol=1e-4, atol=1e-4)
    assert isinstance(next(iter(opened.graph)), Node)
