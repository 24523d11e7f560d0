"""Every shipped recipe whose result TensorFlow runs, on variables: TF1's of both kinds, and TF2's in functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.support.recipe_models import google_gelu, google_tanh, norm

import tfsmith

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(23)
Variables = Callable[[str, Any], Any]


def draw(*dims: int, center: float = 0.0) -> Any:
    return (np.random.default_rng(sum(dims)).normal(size=dims) * 0.5 + center).astype(np.float32)


def normed(tf: Any, x: Any, variable: Variables) -> Any:
    return norm(tf, x, variable("gamma", draw(6, center=1.0)), variable("beta", draw(6)), 1, 1e-5)


def dense(tf: Any, x: Any, variable: Variables, *, gelu: Any) -> Any:
    product = tf.linalg.matmul(x, variable("kernel", draw(6, 9)))
    return gelu(tf, tf.nn.bias_add(product, variable("bias", draw(9))))


def attending(tf: Any, x: Any, variable: Variables) -> Any:
    key = tf.linalg.matmul(x, variable("keys", draw(4, 4, center=1.0)))
    scores = tf.linalg.matmul(x, key, transpose_b=True) * 0.5 + variable("mask", draw(2, 1, 5, 5))
    return tf.linalg.matmul(tf.nn.softmax(scores), x * 0.3)


def folding(tf: Any, x: Any, variable: Variables, *, fused: bool) -> Any:
    x = tf.nn.conv2d(x, variable("kernel", draw(3, 3, 6, 4)), [1, 2, 2, 1], "SAME")
    gamma, beta, mean = (variable(name, draw(4, center=1.0)) for name in ("gamma", "beta", "mean"))
    variance = variable("variance", np.abs(draw(4)) + np.float32(0.1))
    if not fused:
        return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)
    return tf.compat.v1.nn.fused_batch_norm(x, gamma, beta, mean, variance, epsilon=2e-3, is_training=False)[0]


def dropping(tf: Any, x: Any, variable: Variables) -> Any:
    rate = variable("rate", np.float32(0.0))
    return tf.tanh(tf.nn.dropout(x * variable("scale", draw(6)), rate=rate)) + 1.0


def handing_on(tf: Any, x: Any, variable: Variables) -> Any:
    x = tf.identity(tf.stop_gradient(tf.identity(x * variable("scale", draw(6)))))
    return tf.tanh(tf.raw_ops.CheckNumerics(tensor=tf.identity(x) * 1.0, message="no"))


class Case(NamedTuple):
    """A recipe, what builds something that it fits, the shape of x, an op that comes, and one that goes."""

    recipe: str
    build: Any
    shape: Sequence[int]
    comes: str
    goes: str


CASES = [
    Case("layer-norm", normed, (4, 6), "_MklLayerNorm", "Rsqrt"),
    Case("gelu-tanh", partial(dense, gelu=google_tanh), (4, 6), "_FusedMatMul", "Tanh"),
    Case("gelu-erf", partial(dense, gelu=google_gelu), (4, 6), "_FusedMatMul", "Erf"),
    Case("attention", attending, (2, 3, 5, 4), "_MklFusedBatchMatMulV2", "AddV2"),
    Case("fold-batch-norm", partial(folding, fused=True), (2, 7, 7, 6), "BiasAdd", "FusedBatchNormV3"),
    Case("fold-batch-norm", partial(folding, fused=False), (2, 7, 7, 6), "BiasAdd", ""),
    Case("dropout-removal", dropping, (4, 6), "Tanh", "RandomUniform"),
    Case("remove-identity", handing_on, (4, 6), "StopGradient", ""),
    Case("remove-no-ops", handing_on, (4, 6), "Tanh", "StopGradient"),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.recipe}-{case.comes}-{case.goes}")


def test_every_recipe_is_here() -> None:
    others = {"bert-encoder"}  # stock TensorFlow has no op Bert
    assert {case.recipe for case in CASES} | others == set(tfsmith.list_recipes().recipes)


def replace_once(folder: Path, case: Case) -> None:
    """Writes the model with what the recipe puts in, beside it."""
    model = tfsmith.load(folder / "old")
    done = tfsmith.replace(model, case.recipe)
    assert done.matches, (done.reason, done.nearest_miss, done.skipped)
    before, after = (_ops(one) for one in (model, done.model))
    assert case.comes in after
    assert case.goes not in after
    assert not case.goes or case.goes in before
    assert sorted(after) != sorted(before)
    tfsmith.save(done.model, folder / "new")


def _ops(model: tfsmith.Model) -> list[str]:
    return [node.op for body in (model.graph, *model.graph.library.values()) for node in body]


def compare(case: Case, before: Any, after: Any) -> None:
    if case.comes.startswith("_") or case.recipe == "fold-batch-norm":
        np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-5)
    else:  # nothing is computed otherwise
        np.testing.assert_array_equal(after, before)
    assert np.ptp(before) > 0.1


@each_case
@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_variables_of_tensorflow_1(case: Case, resource: bool, tmp_path: Path) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    config = v1.ConfigProto()  # TensorFlow's own optimizer would fuse layer norms, with an epsilon of its own
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph, config=config) as session:

        def variable(name: str, value: Any) -> Any:
            return tf.convert_to_tensor(v1.get_variable(name, initializer=value, use_resource=resource))

        x = v1.placeholder(tf.float32, [None, *case.shape[1:]], "x")
        y = tf.identity(case.build(tf, x, variable), name="y")
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(tmp_path / "old"), {"x": x}, {"y": y})
    replace_once(tmp_path, case)
    value = RNG.normal(size=case.shape).astype(np.float32)
    answers = []
    for name in ("old", "new"):
        graph = tf.Graph()
        with graph.as_default(), v1.Session(graph=graph, config=config) as session:
            meta = v1.saved_model.load(session, ["serve"], str(tmp_path / name))
            output = meta.signature_def["serving_default"].outputs["y"].name
            answers.append(session.run(output, {"x:0": value}))
    compare(case, *answers)


@each_case
def test_functions_of_tensorflow_2(case: Case, tmp_path: Path) -> None:
    import tensorflow as tf

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.made: dict[str, Any] = {}

        def variable(self, name: str, value: Any) -> Any:
            with tf.init_scope():
                if name not in self.made:
                    self.made[name] = tf.Variable(value, name=name)
            return tf.convert_to_tensor(self.made[name])

        @tf.function(input_signature=[tf.TensorSpec([None, *case.shape[1:]], tf.float32, "x")])
        def __call__(self, x: Any) -> Any:
            return {"y": case.build(tf, x, self.variable)}

    net = Net()
    net(tf.zeros(case.shape))
    tf.saved_model.save(net, str(tmp_path / "old"))
    replace_once(tmp_path, case)
    value = tf.constant(RNG.normal(size=case.shape).astype(np.float32))
    options = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        loaded = [tf.saved_model.load(str(tmp_path / name)) for name in ("old", "new")]
        answers = [one.signatures["serving_default"](x=value)["y"].numpy() for one in loaded]
    finally:
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": False, **options})
    compare(case, *answers)
