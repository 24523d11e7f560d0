"""Drafts from what TensorFlow and Keras built: functions without scopes, Keras layers, a stack of convolutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.recipe_models import NAMES, google, google_tanh, save_functions, save_keras

import tfsmith

pytestmark = pytest.mark.tensorflow


def check(path: Path, units: int, weights: int) -> list[str]:
    """Drafts, applies the draft to the model that it came from; gives the names of the weights."""
    model = tfsmith.load(path)
    drafted = tfsmith.draft_recipe(model, op="Fused")
    found = [one.name for one in drafted.block.inputs if one.kind == "weight"]
    assert (drafted.block.units, len(found)) == (units, weights)
    replaced = tfsmith.replace(model, drafted.recipe)
    assert max(len(match.units) for match in replaced.matches) == units, replaced.reason
    body = model.graph if drafted.block.body is None else replaced.model.graph.library[drafted.block.body]
    body = replaced.model.graph if drafted.block.body is None else body
    node = next(node for node in body if node.op == "Fused")
    assert node.get("NumWeights") == units * weights
    return found


def test_functions_without_scopes(tmp_path: Path) -> None:
    save_functions(tmp_path / "model", google, google_tanh, layers=3)
    assert check(tmp_path / "model", 3, 16) == list(NAMES)


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_a_keras_transformer(dropout: float, tmp_path: Path) -> None:
    save_keras(tmp_path / "model", dropout=dropout, approximate=True, layers=3)
    found = check(tmp_path / "model", 3, 16)
    assert found[:2] == ["attention/query/kernel", "attention/query/bias"]


def test_a_residual_net(tmp_path: Path) -> None:
    import tensorflow as tf

    rng = np.random.default_rng(4)

    def weight(*dims: int) -> Any:
        return tf.constant(rng.normal(size=dims).astype(np.float32) * 0.1)

    graph = tf.Graph()
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float32, [None, 8, 8, 3], "x")
        x = tf.nn.relu(tf.nn.conv2d(x, weight(3, 3, 3, 20), 1, "SAME"))
        for number in range(4):
            with tf.name_scope(f"block_{number}"):
                y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weight(3, 3, 20, 20), 1, "SAME"), weight(20)))
                y = tf.nn.bias_add(tf.nn.conv2d(y, weight(3, 3, 20, 20), 1, "SAME"), weight(20))
                x = tf.nn.relu(x + y)
        tf.nn.softmax(tf.linalg.matmul(tf.reduce_mean(x, [1, 2]), weight(20, 5)), name="probabilities")
    (tmp_path / "net.pb").write_bytes(graph.as_graph_def().SerializeToString())
    assert len(check(tmp_path / "net.pb", 4, 4)) == 4
