"""Rules whose new nodes run: the real TensorFlow computes the same before and after, with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith import op

pytestmark = pytest.mark.tensorflow

RNG = np.random.default_rng(7)
CUBE = RNG.normal(size=(3, 5, 6)).astype(np.float32)
ROWS = RNG.normal(size=(4, 6)).astype(np.float32)


def numbers(*dims: int) -> Any:
    return (np.random.default_rng(sum(dims)).normal(size=dims) * 0.5).astype(np.float32)


def write(build: Any, shape: tuple[int | None, ...], path: Path) -> Path:
    import tensorflow as tf

    graph = tf.Graph()
    with graph.as_default():
        tf.identity(build(tf, tf.compat.v1.placeholder(tf.float32, shape, "x")), name="y")
    path.write_bytes(graph.as_graph_def().SerializeToString())
    return path


def run(path: Path, feeds: Mapping[str, Any]) -> Any:
    import tensorflow as tf

    graph, config = tf.Graph(), tf.compat.v1.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True  # it would fuse by itself
    with graph.as_default(), tf.compat.v1.Session(graph=graph, config=config) as session:
        tf.import_graph_def(tf.compat.v1.GraphDef.FromString(path.read_bytes()), name="")
        return session.run("y:0", {f"{name}:0": value for name, value in feeds.items()})


def check(rule: tfsmith.Rule, build: Any, x: Any, path: Path, wanted: list[str]) -> None:
    """Replaces once; the nodes are those that are wanted, and TensorFlow gives the same numbers."""
    old = write(build, (None, *x.shape[1:]), path / "old.pb")
    done = tfsmith.replace(old, rule, outputs=["y"])
    assert len(done.matches) == 1, (done.reason, done.nearest_miss)
    assert [node.op for node in done.model.graph if node.op not in ("Const", "Placeholder")] == wanted
    done.save(path / "new.pb", force=True)
    np.testing.assert_allclose(run(path / "new.pb", {"x": x}), run(old, {"x": x}), rtol=2e-5, atol=2e-6)


def test_a_softmax_by_hand_becomes_a_softmax(tmp_path: Path) -> None:
    rule = tfsmith.rule(name="softmax")(lambda x: op.Softmax(x))
    rule.replace(lambda g, x: g.add("Softmax", [x]))

    def build(tf: Any, x: Any) -> Any:
        shares = tf.exp(x - tf.reduce_max(x, -1, keepdims=True))
        return shares / tf.reduce_sum(shares, axis=-1, keepdims=True)

    check(rule, build, CUBE, tmp_path, ["Softmax", "Identity"])


def test_a_product_of_einsum_becomes_one_of_matrices(tmp_path: Path) -> None:
    rule = tfsmith.rule(name="dense", where=lambda x: x.rank == 2)(lambda x, kernel, bias: op.Dense(x, kernel, bias))
    rule.replace(
        lambda g, x, kernel, bias: g.add(
            "BiasAdd", [g.add("MatMul", [x, kernel], transpose_b=kernel.transposed), bias], name="{scope}/sum"
        )
    )
    for equation, kernel in (("ab,bc->ac", numbers(6, 4)), ("ab,cb->ac", numbers(4, 6))):

        def build(tf: Any, x: Any, equation: str = equation, kernel: Any = kernel) -> Any:
            return tf.einsum(equation, x * 3.0, kernel) + numbers(4)

        check(rule, build, ROWS, tmp_path, ["Mul", "MatMul", "BiasAdd", "Identity"])


def test_swish_becomes_a_product_with_tanh(tmp_path: Path) -> None:
    rule = tfsmith.rule(name="swish")(lambda x: x * op.sigmoid(x))
    rule.replace(
        lambda g, x: g.add(
            "Mul", [x, g.add("AddV2", [g.add("Mul", [g.add("Tanh", [g.add("Mul", [x, 0.5])]), 0.5]), 0.5])]
        )
    )
    check(
        rule,
        lambda tf, x: tf.sigmoid(x) * x,
        CUBE,
        tmp_path,
        ["Mul", "Tanh", "Mul", "AddV2", "Mul", "Identity"],
    )


def test_a_tower_of_layers_becomes_fused_products(tmp_path: Path) -> None:
    block = tfsmith.rule(name="block")(lambda x, kernel, bias: op.relu(op.Dense(x, kernel, bias)))
    tower = tfsmith.rule(name="tower")(lambda x, layers: op.Repeat(block, x, layers))

    @tower.replace
    def _(g: Any, x: Any, layers: Any) -> Any:
        for one in layers:
            turned = one.kernel.transposed
            x = g.add(
                "_FusedMatMul", [x, one.kernel, one.bias], num_args=1, fused_ops=["BiasAdd", "Relu"], transpose_b=turned
            )
        return x

    def build(tf: Any, x: Any) -> Any:
        for number in range(3):
            x = tf.nn.relu(tf.linalg.matmul(x, numbers(6, 6) + number, transpose_b=number == 1) + numbers(6) * number)
        return x

    check(tower, build, ROWS, tmp_path, [*["_FusedMatMul"] * 3, "Identity"])


def test_attention_by_einsum_becomes_products(tmp_path: Path) -> None:
    rule = tfsmith.rule(name="attention")(lambda q, k, v, scale: op.Attention(q, k, v, scale=scale))

    @rule.replace
    def _(g: Any, q: Any, k: Any, v: Any, scale: float) -> Any:
        scores = g.add("Mul", [g.add("BatchMatMulV2", [q, k], adj_y=not k.transposed), scale])
        return g.add("BatchMatMulV2", [g.add("Softmax", [scores]), v])

    def build(tf: Any, x: Any) -> Any:
        scores = tf.einsum("bqk,bok->bqo", x * 0.25, tf.tanh(x))
        return tf.einsum("boq,bod->bqd", tf.transpose(tf.nn.softmax(scores), [0, 2, 1]), tf.sin(x) * 3.0)

    old = write(build, (None, 5, 6), tmp_path / "old.pb")
    done = tfsmith.replace(old, rule, outputs=["y"])
    assert len(done.matches) == 1, (done.reason, done.nearest_miss)
    assert "Einsum" not in {node.op for node in done.model.graph}
    done.save(tmp_path / "new.pb")
    np.testing.assert_allclose(run(tmp_path / "new.pb", {"x": CUBE}), run(old, {"x": CUBE}), rtol=2e-5, atol=2e-6)
