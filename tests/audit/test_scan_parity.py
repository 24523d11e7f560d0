"""Models that the real TensorFlow and Keras write: what they can do is found, and what they always do is no alarm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tfsmith

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def tf() -> Any:
    """The real TensorFlow."""
    import tensorflow

    return tensorflow


def saved(tf: Any, folder: Path, function: Callable[..., Any], *specs: Any) -> Path:
    """A SavedModel of one function."""
    module = tf.Module()
    module.f = tf.function(function, input_signature=list(specs))
    tf.saved_model.save(module, str(folder), signatures=module.f.get_concrete_function())
    return folder


def worst(path: Path) -> tuple[str, str, str] | None:
    """The worst finding: its level, its kind and its constant."""
    found = tfsmith.scan(path).findings
    return (found[0].level, found[0].kind, found[0].constant) if found else None


def test_what_models_can_do(tf: Any, tmp_path: Path) -> None:
    x = tf.TensorSpec([None], tf.float32, name="x")
    name = tf.TensorSpec([], tf.string, name="name")
    dataset = tf.data.Dataset.from_tensor_slices([b"/etc/passwd"]).map(tf.io.read_file)
    graph = dataset._as_serialized_graph().numpy()

    def loop(x: Any) -> Any:
        return {"y": tf.while_loop(lambda i, y: tf.constant(True), lambda i, y: (i + 1, y * 2.0), (0, x))[1]}

    def nested(x: Any) -> Any:
        inner = tf.raw_ops.DatasetFromGraph(graph_def=tf.constant(graph))
        kinds: dict[str, Any] = {"output_types": [tf.string], "output_shapes": [[]]}
        return {"y": x, "text": tf.raw_ops.DatasetToSingleElement(dataset=inner, **kinds)[0]}

    cases: dict[str, tuple[Callable[..., Any], Any, tuple[str, str, str]]] = {
        "read": (lambda x: {"y": x, "s": tf.io.read_file("/etc/a")}, x, ("dangerous", "reads-files", "/etc/a")),
        "write": (lambda x: {"y": (tf.io.write_file("/a", "b"), x)[1]}, x, ("dangerous", "writes-files", "/a")),
        "fed": (lambda name: {"y": tf.io.read_file(name)}, name, ("suspicious", "reads-files", "")),
        "list": (lambda x: {"y": x, "f": tf.io.matching_files("/home/*")}, x, ("suspicious", "lists-files", "/home/*")),
        "code": (lambda x: {"y": tf.numpy_function(lambda a: a, [x], tf.float32)}, x, ("dangerous", "runs-code", "")),
        "bomb": (lambda x: {"y": tf.reduce_sum(tf.fill([99999, 99999], x[0]))}, x, ("suspicious", "memory", "")),
        "loop": (loop, x, ("suspicious", "endless-loop", "")),
        "nested": (nested, x, ("dangerous", "reads-files", "/etc/passwd")),
    }  # fmt: skip
    for key, (function, spec, wanted) in cases.items():
        assert (key, worst(saved(tf, tmp_path / key, function, spec))) == (key, wanted)


def test_plain_models_raise_no_alarm(tf: Any, tmp_path: Path) -> None:
    layers, v1 = tf.keras.layers, tf.compat.v1
    (tmp_path / "vocab.txt").write_text("a\nb\n")
    whole, line = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
    source = tf.lookup.TextFileInitializer(str(tmp_path / "vocab.txt"), tf.string, whole, tf.int64, line)
    module = tf.Module()
    module.table = tf.lookup.StaticHashTable(source, -1)
    module.f = tf.function(
        lambda x: {"y": module.table.lookup(x)}, input_signature=[tf.TensorSpec([None], tf.string, name="x")]
    )
    tf.saved_model.save(module, str(tmp_path / "table"), signatures=module.f.get_concrete_function())
    vectors = layers.TextVectorization(max_tokens=10)
    vectors.adapt(["a b", "c"])
    nets = {
        "dense": [layers.Input([4]), layers.Dense(3), layers.Dropout(0.5), layers.BatchNormalization()],
        "lstm": [layers.Input([5, 3]), layers.LSTM(3)],
        "conv": [layers.Input([8, 8, 3]), layers.Conv2D(4, 3), layers.GlobalAveragePooling2D(), layers.Dense(2)],
        "text": [layers.Input([1], dtype=tf.string), vectors, layers.Embedding(10, 2)],
    }
    for key, parts in nets.items():
        tf.keras.Sequential(parts).export(str(tmp_path / key), verbose=False)
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, 2], name="x")
        y = tf.matmul(x, v1.get_variable("w", [2, 2], use_resource=False), name="y")
        v1.summary.scalar("s", tf.reduce_sum(y))
        v1.summary.merge_all()
        saver = v1.train.Saver()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            saver.save(session, str(tmp_path / "model.ckpt"))
            v1.train.write_graph(session.graph, str(tmp_path), "graph.pbtxt")
            builder = v1.saved_model.Builder(str(tmp_path / "tf1"))
            signature = v1.saved_model.predict_signature_def({"x": x}, {"y": y})
            builder.add_meta_graph_and_variables(session, ["serve"], signature_def_map={"serving_default": signature})
            builder.save()
    for name in ("table", *nets, "model.ckpt", "graph.pbtxt", "tf1"):
        found = tfsmith.scan(tmp_path / name)
        assert (name, [one.what for one in found.findings if one.level != "note"]) == (name, [])
