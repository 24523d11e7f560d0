"""The well-known traps of freezing, on real TensorFlow models: each is handled, or named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.freeze_models import make_tf1
from tests.verbs.test_freeze_tf1_parity import frozen_by_tensorflow, parse_graph, run

import tfsmith
from tfsmith.api import FreezeOptions, freeze_report

pytestmark = pytest.mark.tensorflow


def batch_norm_with_updates(tf: Any) -> tuple[list[Any], dict[Any, Any]]:
    """Batch norm as early TF1 code had it: reference variables, updated inside a tf.cond that the output waits for."""
    v1 = tf.compat.v1
    v1.disable_resource_variables()
    v1.disable_control_flow_v2()
    x = v1.placeholder(tf.float32, [None, 3], "x")
    training = v1.placeholder_with_default(False, [], "training")
    mean = v1.get_variable("bn/moving_mean", [3], initializer=v1.random_normal_initializer(), trainable=False)
    var = v1.get_variable("bn/moving_variance", [3], initializer=v1.ones_initializer(), trainable=False)

    def update() -> Any:
        batch_mean, batch_var = tf.nn.moments(x, [0])
        with tf.control_dependencies(
            [v1.assign_sub(mean, (mean - batch_mean) * 0.1), v1.assign_sub(var, (var - batch_var) * 0.1)]
        ):
            return tf.identity(batch_mean), tf.identity(batch_var)

    used_mean, used_var = tf.cond(training, update, lambda: (tf.identity(mean), tf.identity(var)))
    y = tf.nn.batch_normalization(x, used_mean, used_var, None, None, 1e-3)
    v1.enable_resource_variables()
    return [tf.identity(y, name="normal")], {x: np.arange(6, dtype=np.float32).reshape(2, 3)}


def test_reference_batch_norm_becomes_inference_form(tmp_path: Path) -> None:
    """TensorFlow freezes it into a graph that it cannot load ("expects to be a float_ref"); ours answers."""
    import tensorflow as tf

    made = make_tf1(tmp_path / "model", batch_norm_with_updates)
    theirs = frozen_by_tensorflow(
        made, tmp_path / "theirs.pb", input_meta_graph=f"{made.prefix}.meta", input_checkpoint=str(made.prefix)
    )
    with tf.Graph().as_default(), pytest.raises(ValueError, match="_ref"):
        tf.import_graph_def(theirs, name="")
    report = freeze_report(tfsmith.load(made.prefix), FreezeOptions(made.outputs))
    tfsmith.save(report.model, tmp_path / "ours.pb")
    (answer,) = run(parse_graph(tmp_path / "ours.pb"), made)
    np.testing.assert_array_equal(answer, made.answers[0])
    ops = {node.op for node in report.model.graph}
    assert not {op for op in ops if op.startswith(("Ref", "Assign"))}


def resource_updates(tf: Any) -> tuple[list[Any], dict[Any, Any]]:
    """A counter that every run increments before it answers."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [2], "x")
    scale = v1.get_variable("scale", [2], use_resource=True, initializer=v1.ones_initializer())
    counter = v1.get_variable("counter", [], use_resource=True, initializer=v1.zeros_initializer())
    with tf.control_dependencies([counter.assign_add(1.0)]):
        return [tf.multiply(x, scale, name="scaled")], {x: np.array([1.0, 2.0], np.float32)}


def test_assignments_to_resource_variables_are_dropped_and_told(tmp_path: Path) -> None:
    made = make_tf1(tmp_path / "model", resource_updates)
    report = freeze_report(tfsmith.load(made.prefix), FreezeOptions(made.outputs))
    tfsmith.save(report.model, tmp_path / "ours.pb")
    (answer,) = run(parse_graph(tmp_path / "ours.pb"), made)
    np.testing.assert_array_equal(answer, made.answers[0])
    assert [note.what for note in report.notes] == ["assignments to variables were dropped"]
    assert report.notes[0].nodes == ("AssignAddVariableOp",)
    assert "counter" not in report.model.graph


def dropout_left_on(tf: Any) -> tuple[list[Any], dict[Any, Any]]:
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [4, 3], "x")
    w = v1.get_variable("w", [3, 3], use_resource=True, initializer=v1.ones_initializer())
    y = v1.nn.dropout(tf.matmul(x, w), rate=0.5, name="dropout")
    ones, zeros = tf.ones([3]), tf.zeros([3])
    y, _, _ = v1.nn.fused_batch_norm(tf.reshape(y, [4, 1, 1, 3]), ones, zeros, is_training=True, name="bn")
    return [tf.identity(y, name="out")], {x: np.ones((4, 3), np.float32)}


def test_a_training_graph_is_recognised(tmp_path: Path) -> None:
    made = make_tf1(tmp_path / "model", dropout_left_on)
    report = freeze_report(tfsmith.load(made.prefix), FreezeOptions(made.outputs))
    told = {note.what: note.nodes for note in report.notes}
    assert told["batch norm uses the batch's own statistics (is_training=True)"] == ("bn",)
    (dropout,) = told["dropout is live, so answers are random"]
    assert dropout.startswith("dropout/")


def test_names_in_the_checkpoint_may_differ(tmp_path: Path) -> None:
    """The saver's own map counts, not the names of the nodes."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2], "x")
        a = v1.get_variable("a", [2], use_resource=True, initializer=v1.constant_initializer([1.0, 2.0]))
        b = v1.get_variable("b", [2], use_resource=False, initializer=v1.constant_initializer([3.0, 4.0]))
        tf.add(x * a, b, name="y")
        saver = v1.train.Saver({"b": a, "elsewhere/b": b})  # crossed on purpose
        session.run(v1.global_variables_initializer())
        prefix = saver.save(session, str(tmp_path / "m.ckpt"))
    report = freeze_report(tfsmith.load(prefix), FreezeOptions(("y",)))
    assert report.converted == {"a": "b", "b": "elsewhere/b"}
    values = {node.name: node.get("value").numpy().tolist() for node in report.model.graph if node.op == "Const"}
    assert values == {"a": [1.0, 2.0], "b": [3.0, 4.0]}


def test_moving_averages(tmp_path: Path) -> None:
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [], "x")
        w = v1.get_variable("w", [], use_resource=True, initializer=v1.constant_initializer(1.0))
        average = tf.train.ExponentialMovingAverage(0.5)
        apply = average.apply([w])
        tf.multiply(x, w, name="y")
        saver = v1.train.Saver()
        session.run(v1.global_variables_initializer())
        session.run(w.assign(3.0))
        session.run(apply)
        prefix = saver.save(session, str(tmp_path / "m.ckpt"))
    plain = freeze_report(tfsmith.load(prefix), FreezeOptions(("y",)))
    averaged = freeze_report(tfsmith.load(prefix), FreezeOptions(("y",), ema=True))
    assert plain.model.graph["w"].get("value").numpy() == 3.0
    assert averaged.model.graph["w"].get("value").numpy() == 2.0
    assert averaged.converted == {"w": "w/ExponentialMovingAverage"}


@pytest.mark.parametrize("resource", [False, True])
def test_a_variable_that_the_init_op_fills_stays_in_a_frozen_saved_model(tmp_path: Path, resource: bool) -> None:
    """As TensorFlow's own half_plus_two has it: `filename_tensor` is in no collection, so no checkpoint holds it."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None], "x")
        y = tf.multiply(x, v1.get_variable("a", [], initializer=v1.constant_initializer(0.5)), name="y")
        (v1.enable_resource_variables if resource else v1.disable_resource_variables)()
        name = v1.Variable("foo.txt", name="filename_tensor", trainable=False, collections=[])
        v1.enable_resource_variables()
        init = tf.group(name.assign("bar.txt"))
        session.run(v1.global_variables_initializer())
        builder = v1.saved_model.Builder(str(tmp_path / "saved"))
        signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": signature}, main_op=init)
        builder.save()
    report = freeze_report(tfsmith.load(tmp_path / "saved"), FreezeOptions(keep_init=True))
    assert list(report.converted) == ["a"]
    tfsmith.save(report.model, tmp_path / "frozen", format="saved_model")
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.load(session, ["serve"], str(tmp_path / "frozen"))
        assert session.run("y:0", {"x:0": [4.0]}).tolist() == [2.0]
