"""TF1 graphs with all the ways in which variables are used, trained or initialised for real, for the freeze tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Made:
    """A TF1 model on disk, and what it answers."""

    folder: Path
    prefix: Path
    saved_model: Path
    outputs: tuple[str, ...]
    feeds: dict[str, Any]
    answers: list[Any]


def make_tf1(folder: Path, build: Callable[[Any], tuple[list[Any], dict[Any, Any]]]) -> Made:
    """Builds a graph by `build(tf)`, which gives its outputs and feeds, and writes it in every form."""
    import tensorflow as tf

    v1 = tf.compat.v1
    folder.mkdir(parents=True)
    graph = tf.Graph()
    with graph.as_default(), v1.Session(graph=graph) as session:
        v1.set_random_seed(7)
        outputs, feeds = build(tf)
        saver = v1.train.Saver()
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        answers = session.run(outputs, feeds)
        prefix = saver.save(session, str(folder / "model.ckpt"), global_step=3)
        v1.train.write_graph(graph, str(folder), "graph.pb", as_text=False)
        v1.train.write_graph(graph, str(folder), "graph.pbtxt", as_text=True)
        builder = v1.saved_model.Builder(str(folder / "saved_model"))
        info = v1.saved_model.utils.build_tensor_info
        signature = v1.saved_model.build_signature_def(
            {tensor.op.name.replace("/", "_"): info(tensor) for tensor in feeds},
            {tensor.op.name.replace("/", "_"): info(tensor) for tensor in outputs},
            "tensorflow/serving/predict",
        )
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature}, main_op=v1.tables_initializer()
        )
        builder.save()
    names = tuple(tensor.op.name for tensor in outputs)
    fed = {tensor.name: value for tensor, value in feeds.items()}
    return Made(folder, Path(prefix), folder / "saved_model", names, fed, answers)


def dense(tf: Any, *, resource: bool, partitions: int = 0) -> tuple[list[Any], dict[Any, Any]]:
    """Two dense layers, an optimizer with slots, and a global step."""
    v1 = tf.compat.v1
    (v1.enable_resource_variables if resource else v1.disable_resource_variables)()
    x = v1.placeholder(tf.float32, [None, 6], "x")
    partitioner = v1.fixed_size_partitioner(partitions) if partitions else None
    with v1.variable_scope("net", use_resource=resource, partitioner=partitioner):
        w = v1.get_variable("w", [6, 4], initializer=v1.random_normal_initializer())
        b = v1.get_variable("b", [4], initializer=v1.random_normal_initializer(), partitioner=None)
        hidden = tf.nn.relu(tf.matmul(x, tf.convert_to_tensor(w)) + b)
        w2 = v1.get_variable("w2", [4, 2], initializer=v1.random_normal_initializer())
        logits = tf.matmul(hidden, tf.convert_to_tensor(w2), name="logits")
    y = tf.nn.softmax(logits, name="probabilities")
    step = v1.train.get_or_create_global_step()
    v1.train.AdamOptimizer().minimize(tf.reduce_mean(tf.square(logits)), global_step=step)
    v1.enable_resource_variables()
    return [y], {x: np.arange(12, dtype=np.float32).reshape(2, 6) / 10}


def embedding(tf: Any) -> tuple[list[Any], dict[Any, Any]]:
    """Gathers from a resource variable, in both ways."""
    v1 = tf.compat.v1
    ids = v1.placeholder(tf.int32, [None], "ids")
    table = v1.get_variable("table", [10, 4], use_resource=True, initializer=v1.random_normal_initializer())
    rows = tf.nn.embedding_lookup(table, ids, name="rows")
    cells = tf.gather_nd(table, tf.stack([ids, ids % 4], axis=1), name="cells")
    total = tf.add(tf.reduce_sum(rows, axis=1), cells, name="total")
    return [total], {ids: np.array([1, 3, 9], np.int32)}


def batch_norm(tf: Any) -> tuple[list[Any], dict[Any, Any]]:
    """A convolution with batch norm in inference form, as TF1 slim code made it."""
    v1 = tf.compat.v1
    x = v1.placeholder(tf.float32, [None, 8, 8, 3], "image")
    with v1.variable_scope("conv", use_resource=False):
        kernel = v1.get_variable("kernel", [3, 3, 3, 5], initializer=v1.random_normal_initializer())
        gamma = v1.get_variable("gamma", [5], initializer=v1.ones_initializer())
        beta = v1.get_variable("beta", [5], initializer=v1.random_normal_initializer())
        mean = v1.get_variable("moving_mean", [5], initializer=v1.random_normal_initializer(), trainable=False)
        var = v1.get_variable("moving_variance", [5], initializer=v1.ones_initializer(), trainable=False)
        out = tf.nn.conv2d(x, kernel, 1, "SAME")
        out, _, _ = v1.nn.fused_batch_norm(out, gamma, beta, mean, var, is_training=False)
    y = tf.reduce_mean(tf.nn.relu(out), axis=[1, 2], name="features")
    return [y], {x: np.linspace(-1, 1, 2 * 192, dtype=np.float32).reshape(2, 8, 8, 3)}


def control_flow(tf: Any, *, resource: bool, v2: bool) -> tuple[list[Any], dict[Any, Any]]:
    """tf.cond and tf.while_loop that read variables inside, in TF1's or TF2's form."""
    v1 = tf.compat.v1
    (v1.enable_control_flow_v2 if v2 else v1.disable_control_flow_v2)()
    try:
        x = v1.placeholder(tf.float32, [3], "x")
        w = v1.get_variable("w", [3], use_resource=resource, initializer=v1.random_normal_initializer())
        b = v1.get_variable("b", [3], use_resource=resource, initializer=v1.random_normal_initializer())
        chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: x * w, lambda: x - b, name="choose")
        _, looped = tf.while_loop(
            lambda i, _: i < 4, lambda i, value: (i + 1, value * 0.5 + w), [tf.constant(0), chosen], name="loop"
        )
        return [tf.identity(looped, name="answer")], {x: np.array([1.0, -2.0, 3.0], np.float32)}
    finally:
        v1.disable_control_flow_v2()


def vocabulary(tf: Any, words: Path) -> tuple[list[Any], dict[Any, Any]]:
    """A vocabulary file, a hash table, and an embedding behind it."""
    v1 = tf.compat.v1
    words.write_text("alpha\nbeta\ngamma\n")
    text = v1.placeholder(tf.string, [None], "text")
    file = tf.constant(str(words), name="vocabulary_file")
    v1.add_to_collection(v1.GraphKeys.ASSET_FILEPATHS, file)
    init = tf.lookup.TextFileInitializer(
        file, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER
    )
    table = v1.lookup.StaticHashTable(init, default_value=3)
    weights = v1.get_variable("weights", [4, 2], use_resource=True, initializer=v1.random_normal_initializer())
    rows = tf.gather(weights, table.lookup(text), name="rows")
    return [tf.identity(rows, name="vectors")], {text: np.array([b"beta", b"nothing", b"gamma"], object)}
