"""Text format against the files that TensorFlow itself writes: the same bytes out, the same message in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.helpers import MemorySink

from tfsmith.storage import Span, from_bytes, open_file
from tfsmith.wire import message_class, new
from tfsmith.wire.text_reader import read_printed, text_to_wire
from tfsmith.wire.text_writer import message_text, write_text

pytestmark = pytest.mark.tensorflow


def written(name: str, data: Span) -> bytes:
    sink = MemorySink()
    write_text(name, data, sink)
    return sink.data


@pytest.fixture(scope="module")
def tf() -> Any:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def graph(tf: Any) -> Any:
    """A TF1 graph with all that is awkward in text: floats, infinities, any bytes, empty messages, functions."""
    import numpy

    tf1 = tf.compat.v1
    floats = [0.0, -0.0, 1.0, 0.1, 1e-12, 1e6, 16777217.0, 3.4028235e38, 1e-45, float("inf"), float("-inf")]
    graph = tf.Graph()
    with graph.as_default():
        for number, value in enumerate([*floats, float("nan")]):
            tf1.constant(value, tf.float32, name=f"float_{number}")
            tf1.constant(value, tf.float64, name=f"double_{number}")
            tf1.constant(value, tf.complex64, name=f"complex_{number}")
            tf1.constant(min(value, 60000.0), tf.float16, name=f"half_{number}")
        tf1.constant(bytes(range(256)), name="all_bytes")
        tf1.constant(["héllo", "", "\U0001f600", 'it\'s "quoted"\n\\'], name="strings")
        tf1.constant(numpy.arange(300, dtype=numpy.float32).reshape(3, 100), name="content")
        tf1.constant([], tf.float32, name="empty")
        tf1.constant([True, False], name="bools")
        tf1.constant([2**63 - 1, -(2**63)], tf.int64, name="wide")
        x = tf1.placeholder(tf.float32, [None, 3], name="x")
        tf1.placeholder(tf.float32, None, name="unknown_rank")
        tf1.disable_resource_variables()
        kernel = tf1.get_variable("scope/kernel", [3, 2], initializer=tf1.truncated_normal_initializer(stddev=0.02))
        tf1.enable_resource_variables()
        bias = tf1.get_variable("scope/bias", [2], use_resource=True, initializer=tf1.zeros_initializer())

        @tf.function
        def inner(value: Any) -> Any:
            return tf.cond(tf.reduce_sum(value) > 0.5, lambda: value * 2.5, lambda: value - 1e-7)

        @tf.function
        def outer(value: Any) -> Any:
            return tf.while_loop(lambda step, _: step < 3, lambda step, each: (step + 1, inner(each)), [0, value])[1]

        logits = tf1.add(tf1.matmul(x, kernel), bias, name="logits")
        tf1.identity(outer(logits), name="output")
        operation = graph.get_operation_by_name("x")
        operation._set_attr("_bytes", tf1.AttrValue(s=b"\xff\x00'\""))
        operation._set_attr("_floats", tf1.AttrValue(list=tf1.AttrValue.ListValue(f=floats)))
        operation._set_attr("_nothing", tf1.AttrValue(list=tf1.AttrValue.ListValue()))
        tf1.train.Saver(name="save")
    return graph


def check_in(name: str, path: Path, expected: Any) -> None:
    """Our reader makes of TensorFlow's text what TensorFlow meant by it, on the fast path."""
    text = path.read_text("utf-8")
    assert read_printed(text, name) is not None
    ours = message_class(name).FromString(text_to_wire(text, name, str(path)))
    assert ours.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


def test_a_graph_is_written_and_read_as_tensorflow_does(tf: Any, graph: Any, tmp_path: Path) -> None:
    graph_def = graph.as_graph_def(add_shapes=True)
    path = Path(tf.io.write_graph(graph_def, str(tmp_path), "graph.pbtxt", as_text=True))
    assert b"inf" in path.read_bytes()
    assert b"\nlibrary {" in path.read_bytes()
    assert written("GraphDef", from_bytes(graph_def.SerializeToString())) == path.read_bytes()
    check_in("GraphDef", path, graph_def)


def test_a_meta_graph_is_written_and_read_as_tensorflow_does(tf: Any, graph: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.meta"
    with graph.as_default():
        graph.add_to_collection("words", "héllo")
        graph.add_to_collection("numbers", 7)
        graph.add_to_collection("rates", 1e-5)
        saver = tf.compat.v1.train.Saver(name="another").as_saver_def()
        meta = tf.compat.v1.train.export_meta_graph(filename=str(path), saver_def=saver, as_text=True)
    assert len(meta.collection_def) > 3
    assert written("MetaGraphDef", from_bytes(meta.SerializeToString())) == path.read_bytes()
    check_in("MetaGraphDef", path, meta)


def test_a_saved_model_of_tf1_is_written_and_read_as_tensorflow_does(tf: Any, graph: Any, tmp_path: Path) -> None:
    tf1 = tf.compat.v1
    builder = tf1.saved_model.builder.SavedModelBuilder(str(tmp_path / "model"))
    x, y = graph.get_tensor_by_name("x:0"), graph.get_tensor_by_name("output:0")
    with tf1.Session(graph=graph) as session:
        signature = tf1.saved_model.predict_signature_def({"x": x, "a": x, "b": x}, {"y": y, "probabilities": y})
        session.run(tf1.global_variables_initializer())
        signatures = {"serving_default": signature, "another": signature}
        builder.add_meta_graph_and_variables(session, ["serve", "gpu"], signature_def_map=signatures)
    builder.save()
    path = Path(os.fsdecode(builder.save(as_text=True)))
    assert written("SavedModel", open_file(tmp_path / "model" / "saved_model.pb")) == path.read_bytes()
    check_in("SavedModel", path, message_class("SavedModel").FromString((path.parent / "saved_model.pb").read_bytes()))


def test_a_saved_model_of_tf2_is_written_as_tensorflow_would(tf: Any, tmp_path: Path) -> None:
    from tensorflow.core.protobuf import saved_model_pb2

    class Net(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable([[0.1, 1e-7], [3.0, -2.5]], name="weight")
            self.table = {"é": tf.Variable(1.0), "plain": [tf.Variable(2)]}

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def __call__(self, x: Any) -> Any:
            return {"y": tf.nn.relu(x @ self.weight) + 0.1, "z": tf.strings.as_string(x)}

    net = Net()
    tf.saved_model.save(net, str(tmp_path), signatures=net.__call__)
    data = open_file(tmp_path / "saved_model.pb")
    theirs = saved_model_pb2.SavedModel.FromString(data.tobytes())
    text = written("SavedModel", data).decode("utf-8")
    assert text == str(theirs)
    back = message_class("SavedModel").FromString(text_to_wire(text, "SavedModel"))
    assert back.SerializeToString(deterministic=True) == theirs.SerializeToString(deterministic=True)


def test_a_checkpoint_state_is_written_and_read_as_tensorflow_does(tf: Any, tmp_path: Path) -> None:
    from tensorflow.python.checkpoint.checkpoint_management import update_checkpoint_state_internal

    paths = [str(tmp_path / name) for name in ("model.ckpt-1", "modèle.ckpt-20", "it's.ckpt-300")]
    update_checkpoint_state_internal(
        str(tmp_path),
        paths[2],
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=[1.5, 1700000000.123456, 1e300],
        last_preserved_timestamp=1700000000.0,
        save_relative_paths=True,
    )
    path = tmp_path / "checkpoint"
    state = new("CheckpointState")
    state.ParseFromString(text_to_wire(path.read_text("utf-8"), "CheckpointState", str(path)))
    assert state.all_model_checkpoint_paths[1] == "modèle.ckpt-20"
    assert message_text(state).encode("utf-8") == path.read_bytes()


def test_a_packed_any_is_shown_as_tensorflow_shows_it(tf: Any, tmp_path: Path) -> None:
    from tensorflow.core.framework import versions_pb2
    from tensorflow.core.protobuf import meta_graph_pb2

    meta = meta_graph_pb2.MetaGraphDef()
    meta.meta_info_def.any_info.Pack(versions_pb2.VersionDef(producer=7, bad_consumers=[1, 2]))
    value = meta.collection_def["any"].any_list.value
    value.add(type_url="no slash", value=b"\x01")
    value.add(type_url="example.com/not.Known", value=b"\x01")
    value.add().Pack(meta_graph_pb2.MetaGraphDef())
    path = Path(tf.io.write_graph(meta, str(tmp_path), "any.pbtxt", as_text=True))
    assert b"[type.googleapis.com/tensorflow.VersionDef] {" in path.read_bytes()
    assert written("MetaGraphDef", from_bytes(meta.SerializeToString())) == path.read_bytes()
    back = message_class("MetaGraphDef").FromString(text_to_wire(path.read_text("utf-8"), "MetaGraphDef"))
    assert back.SerializeToString(deterministic=True) == meta.SerializeToString(deterministic=True)
