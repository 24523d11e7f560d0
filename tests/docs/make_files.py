"""Writes the small models in `files/` that the documents use, with the real TensorFlow. Not part of the tests.

Run it from the project's folder: `python -m tests.docs.make_files`. The files are kept in the repository, so that the
documents can be run without TensorFlow.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.docs.runner import chdir

FILES = Path(__file__).resolve().with_name("files")
_Tensors = list[Any]


def _write_tf1(
    name: str,
    build: Callable[[Any], tuple[_Tensors, _Tensors]],
    *,
    names: Callable[[Any], Mapping[str, Any]] | None = None,
    saved_model: bool = False,
    version: int = 2,
) -> None:
    """A TF1 graph with its checkpoint, as a training leaves them, or as a SavedModel."""
    import tensorflow as tf

    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(7)
        inputs, outputs = build(tf)
        saver = None
        if not saved_model:
            variables = None if names is None else names(v1)
            saver = v1.train.Saver(variables, save_relative_paths=True, write_version=version)
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        if saver is not None:
            (FILES / name).mkdir()
            saver.save(session, str(FILES / name / "model.ckpt"), global_step=3)
            return
        info = v1.saved_model.utils.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {tensor.op.name: info(tensor) for tensor in inputs},
            {tensor.op.name: info(tensor) for tensor in outputs},
            "tensorflow/serving/predict",
        )
        builder = v1.saved_model.Builder(str(FILES / name))
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": signature},
            assets_collection=v1.get_collection(v1.GraphKeys.ASSET_FILEPATHS),
            main_op=v1.tables_initializer(),
        )
        builder.save()


def _batch_norm(tf: Any) -> tuple[_Tensors, _Tensors]:
    """Batch norm as early TF1 code had it: reference variables, updated inside of a tf.cond."""
    v1 = tf.compat.v1
    v1.disable_resource_variables()
    v1.disable_control_flow_v2()
    x = v1.placeholder(tf.float32, [None, 3], "x")
    training = v1.placeholder_with_default(False, [], "training")
    mean = v1.get_variable("bn/moving_mean", [3], initializer=v1.zeros_initializer(), trainable=False)
    variance = v1.get_variable("bn/moving_variance", [3], initializer=v1.ones_initializer(), trainable=False)

    def update() -> Any:
        now, spread = tf.nn.moments(x, [0])
        changes = [v1.assign_sub(mean, (mean - now) * 0.1), v1.assign_sub(variance, (variance - spread) * 0.1)]
        with tf.control_dependencies(changes):
            return tf.identity(now), tf.identity(spread)

    used = tf.cond(training, update, lambda: (tf.identity(mean), tf.identity(variance)))
    y = tf.nn.batch_normalization(x, *used, None, None, 1e-3)
    v1.enable_resource_variables()
    return [x], [tf.identity(y, name="normal")]


def _embedding(tf: Any) -> tuple[_Tensors, _Tensors]:
    """A lookup in a resource variable."""
    v1 = tf.compat.v1
    ids = v1.placeholder(tf.int32, [None], "ids")
    table = v1.get_variable("table", [10, 4], use_resource=True, initializer=v1.random_normal_initializer())
    return [ids], [tf.identity(tf.nn.embedding_lookup(table, ids), name="rows")]


def _training(tf: Any) -> tuple[_Tensors, _Tensors]:
    """Dropout and batch norm, both in the form that is for training."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [None, 1, 1, 3], "x")
    kernel = v1.get_variable("kernel", [3, 2], use_resource=True, initializer=v1.ones_initializer())
    scale = v1.get_variable("bn/gamma", [3], use_resource=True, initializer=v1.ones_initializer())
    offset = v1.get_variable("bn/beta", [3], use_resource=True, initializer=v1.zeros_initializer())
    y, _, _ = v1.nn.fused_batch_norm(x, scale, offset, is_training=True, name="bn/FusedBatchNorm")
    y = v1.nn.dropout(tf.reshape(y, [-1, 3]), rate=0.1, name="dropout")
    return [x], [tf.nn.softmax(tf.matmul(y, kernel), name="probabilities")]


def _averages(tf: Any) -> tuple[_Tensors, _Tensors]:
    """A variable with a moving average."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [None], "x")
    w = v1.get_variable("w", [], use_resource=True, initializer=v1.constant_initializer(3.0))
    tf.train.ExponentialMovingAverage(0.5).apply([w])
    return [x], [tf.multiply(x, w, name="output")]


def _renamed(tf: Any) -> tuple[_Tensors, _Tensors]:
    """A graph whose variables have other names in the checkpoint."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [None], "x")
    w = v1.get_variable("student/w", [], use_resource=True, initializer=v1.constant_initializer(2.0))
    b = v1.get_variable("student/b", [], use_resource=True, initializer=v1.constant_initializer(1.0))
    return [x], [tf.add(x * w, b, name="output")]


def _partitioned(tf: Any) -> tuple[_Tensors, _Tensors]:
    """A table that lies in three parts."""
    v1 = tf.compat.v1
    ids = v1.placeholder(tf.int32, [None], "ids")
    with v1.variable_scope("", partitioner=v1.fixed_size_partitioner(3), use_resource=True):
        table = v1.get_variable("table", [8, 2], initializer=v1.random_normal_initializer())
    return [ids], [tf.identity(tf.gather(tf.convert_to_tensor(table), ids), name="rows")]


def _batch_of_32(tf: Any) -> tuple[_Tensors, _Tensors]:
    """A graph that was traced with a fixed batch size."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [32, 6], "x")
    w = v1.get_variable("w", [3, 2], use_resource=True, initializer=v1.ones_initializer())
    y = tf.matmul(tf.reshape(x, [64, 3]), w)
    return [x], [tf.reshape(y, [32, 4], name="output")]


def _old(tf: Any) -> tuple[_Tensors, _Tensors]:
    """A graph with an optimizer, as TensorFlow before 1.0 saved it: reference variables."""
    v1 = tf.compat.v1
    v1.disable_resource_variables()
    x = v1.placeholder(tf.float32, [None, 4], "x")
    w = v1.get_variable("net/w", [4, 2], initializer=v1.random_normal_initializer())
    b = v1.get_variable("net/b", [2], initializer=v1.zeros_initializer())
    y = tf.add(tf.matmul(x, w), b, name="y")
    step = v1.train.get_or_create_global_step()
    v1.train.AdamOptimizer().minimize(tf.reduce_mean(y * y), global_step=step)
    v1.enable_resource_variables()
    return [x], [y]


def _vocabulary(tf: Any) -> tuple[_Tensors, _Tensors]:
    """A vocabulary file, a hash table, and an embedding behind it."""
    v1 = tf.compat.v1
    Path("words.txt").write_text("alpha\nbeta\ngamma\n")
    text = v1.placeholder(tf.string, [None], "words")
    index = tf.lookup.TextFileIndex
    filled = tf.lookup.TextFileInitializer("words.txt", tf.string, index.WHOLE_LINE, tf.int64, index.LINE_NUMBER)
    table = v1.lookup.StaticHashTable(filled, default_value=3)
    weights = v1.get_variable("weights", [4, 2], use_resource=True, initializer=v1.random_normal_initializer())
    return [text], [tf.identity(tf.gather(weights, table.lookup(text)), name="vectors")]


def _variables(v1: Any) -> _Tensors:
    return list(v1.global_variables())


def _write_tf2(name: str) -> None:
    """A tf.Module with a function that calls another, and two signatures."""
    import tensorflow as tf

    class Model(tf.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.w = tf.Variable(tf.ones([4, 2]), name="w")
            self.b = tf.Variable(tf.zeros([2]), name="b")

        @tf.function
        def dense(self, x: Any) -> Any:
            return tf.matmul(x, self.w) + self.b

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def serve(self, x: Any) -> Any:
            return {"probabilities": tf.nn.softmax(self.dense(x))}

        @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
        def logits(self, x: Any) -> Any:
            return {"logits": self.dense(x)}

    model = Model()
    signatures = {"serving_default": model.serve, "logits": model.logits}
    tf.saved_model.save(model, str(FILES / name), signatures=signatures)


def main() -> None:
    """Writes them all afresh."""
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir()
    _write_tf1("batch_norm", _batch_norm)
    _write_tf1("embedding", _embedding)
    _write_tf1("training", _training)
    _write_tf1("averages", _averages)
    _write_tf1(
        "renamed", _renamed, names=lambda v1: {one.op.name.replace("student", "teacher"): one for one in _variables(v1)}
    )
    _write_tf1("partitioned", _partitioned)
    _write_tf1("batch_of_32", _batch_of_32)
    _write_tf1("old", _old, version=1)
    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(Path(folder)),
    ):  # the graph has the path in it, so let it be short
        _write_tf1("vocabulary", _vocabulary, saved_model=True)
    _write_tf2("tf2_model")


if __name__ == "__main__":
    main()
