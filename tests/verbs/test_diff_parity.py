"""`tfsmith diff` on what the real TensorFlow writes: the same model saved twice, and models with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfsmith
from tfsmith.verbs.diff import ModelDiff

pytestmark = pytest.mark.tensorflow


def save_tf2(path: Path, *, scale: float = 1.0, activation: str = "relu", twice: bool = False) -> Path:
    import tensorflow as tf

    class Model(tf.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(tf.ones([4, 2]) * scale, name="w")

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def serve(self, x: Any) -> Any:
            y = tf.matmul(x, self.w)
            return {"y": getattr(tf.nn, activation)(y * 2.0 if twice else y)}

    model = Model()
    tf.saved_model.save(model, str(path), signatures={"serving_default": model.serve})
    return path


def save_tf1(path: Path, build: Callable[[Any], Any], *, scope: str = "net") -> Path:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 4], "x")
        with v1.variable_scope(scope):
            w = v1.get_variable("w", [4, 2], initializer=v1.ones_initializer(), use_resource=False)
            tf.identity(build(tf.matmul(x, w)), name="y")
        session.run(v1.global_variables_initializer())
        path.mkdir()
        v1.train.Saver(save_relative_paths=True).save(session, str(path / "model.ckpt"))
    return path / "model.ckpt"


def counts(found: ModelDiff) -> dict[str, int]:
    return {name: count for name, count in found.counts().items() if count}


def test_saved_twice(tmp_path: Path) -> None:
    first, second = save_tf2(tmp_path / "a"), save_tf2(tmp_path / "b")
    found = tfsmith.diff(first, second)
    assert set(counts(found)) <= {"functions"}, found.facts()  # the functions got other numbers, and nothing else
    assert not found.facts()["functions"]["changed"]
    assert not found.structure.functions_added
    assert not found.structure.functions_removed
    assert tfsmith.diff(first, first).is_equal


def test_one_weight(tmp_path: Path) -> None:
    found = tfsmith.diff(save_tf2(tmp_path / "a"), save_tf2(tmp_path / "b", scale=1.5))
    assert [(one.max_difference, one.unequal) for one in found.weights] == [(0.5, 8)]
    assert set(counts(found)) <= {"functions", "weights"}


def test_another_activation(tmp_path: Path) -> None:
    found = tfsmith.diff(save_tf2(tmp_path / "a"), save_tf2(tmp_path / "b", activation="elu"))
    changed = found.facts()["functions"]["changed"]
    nodes = [one["nodes"] for one in changed]
    assert len(nodes) == 1
    assert [one["op"] for one in nodes[0]["removed"]] == ["Relu"]
    assert [one["op"] for one in nodes[0]["added"]] == ["Elu"]
    assert [one["name"] for one in nodes[0]["changed"]] == ["Identity"]  # rewired to the other one


def test_a_node_put_between(tmp_path: Path) -> None:
    found = tfsmith.diff(save_tf2(tmp_path / "a"), save_tf2(tmp_path / "b", twice=True))
    (nodes,) = (one["nodes"] for one in found.facts()["functions"]["changed"])
    assert sorted(one["op"] for one in nodes["added"]) == ["Const", "Mul"]
    assert nodes["removed"] == []
    assert nodes["changed"] == [
        {"name": "Relu", "op": "Relu", "inputs": [{"index": 0, "first": "MatMul:product:0", "second": "mul:z:0"}]}
    ]


def test_a_renamed_scope(tmp_path: Path) -> None:
    first = save_tf1(tmp_path / "a", lambda y: y + 1.0)
    second = save_tf1(tmp_path / "b", lambda y: y + 1.0, scope="tower")
    found = tfsmith.diff(first, second)
    renamed = {old.name: new.name for old, new in found.structure.nodes.renamed}
    assert renamed["net/MatMul"] == "tower/MatMul"
    assert renamed["net/y"] == "tower/y"
    assert [(one.name, one.verdict) for one in found.weights if one.name.endswith("/w")] == [
        ("net/w", "only in first"),
        ("tower/w", "only in second"),
    ]


def test_a_frozen_graph_is_its_checkpoint(tmp_path: Path) -> None:
    from tensorflow.python.tools import freeze_graph

    prefix = save_tf1(tmp_path / "a", lambda y: y + 1.0)
    frozen = tmp_path / "frozen.pb"
    freeze_graph.freeze_graph(
        "", "", True, str(prefix), "net/y", "save/restore_all", "save/Const:0", str(frozen), True, "",
        input_meta_graph=f"{prefix}.meta",
    )  # fmt: skip
    found = tfsmith.diff(prefix, frozen)
    assert [change.second.name for change in found.structure.nodes.changed] == ["net/w"]
    assert found.weights == ()
    assert not found.structure.nodes.added
    assert tfsmith.diff(tfsmith.freeze(tfsmith.load(prefix), outputs=["net/y"]).model, frozen).is_equal
