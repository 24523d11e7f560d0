"""Whole models with ops that OpenVINO lacks, built as their public kinds are: `auto` runs them as TensorFlow does.

A text classifier with a vocabulary file, an Estimator's export that parses Examples, a tagger with a TensorFlow 1 loop,
a sound classifier that takes wav bytes, a detector with non-max suppression. They are a few kB each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith

pytestmark = pytest.mark.tensorflow

WORDS = (b"good", b"bad", b"film", b"the", b"not")


def weights(*shape: int) -> Any:
    count = int(np.prod(shape))
    return ((np.arange(count) * 37 % 101 - 50) / 64).astype(np.float32).reshape(shape)


def texts(*found: bytes) -> Any:
    array = np.empty(len(found), object)
    array[:] = found
    return array


def classifier(tf: Any, folder: Path) -> dict[str, Any]:
    """Normalized, split and looked-up words, as `TextVectorization` and the text modules of TF Hub do it."""
    vocabulary = folder / "vocabulary.txt"
    vocabulary.write_bytes(b"\n".join(WORDS) + b"\n")

    class Model(tf.Module):
        def __init__(self) -> None:
            first = tf.lookup.TextFileInitializer(
                str(vocabulary), tf.string, tf.lookup.TextFileIndex.WHOLE_LINE, tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            )  # fmt: skip
            self.table = tf.lookup.StaticVocabularyTable(first, 3)
            self.embedding = tf.Variable(weights(len(WORDS) + 3, 4))
            self.kernel = tf.Variable(weights(4, 2))

        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
        def serve(self, text: Any) -> Any:
            plain = tf.strings.regex_replace(tf.strings.lower(text), r"[^a-z ]", "")
            ids = self.table.lookup(tf.strings.split(plain).to_tensor("the"))
            mean = tf.reduce_mean(tf.gather(self.embedding, ids), 1)
            scores = tf.nn.softmax(mean @ self.kernel)
            best = tf.argmax(scores, 1)
            return {"scores": scores, "ids": ids, "label": tf.gather(tf.constant(["no", "yes"]), best)}

    made = Model()
    tf.saved_model.save(made, str(folder / "model"), signatures=made.serve)
    feeds = {"text": texts(b"The GOOD film!", b"not bad, not at all", b"")}
    return {"feeds": feeds, "wanted": {key: one.numpy() for key, one in made.serve(feeds["text"]).items()}}


def example(tf: Any, age: float, jobs: list[bytes]) -> bytes:
    def feature(kind: str, values: list[Any]) -> Any:
        return tf.train.Feature(**{f"{kind}_list": getattr(tf.train, f"{kind.capitalize()}List")(value=values)})

    features = {"age": feature("float", [age]), "job": feature("bytes", jobs)}
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def estimator(tf: Any, folder: Path) -> dict[str, Any]:
    """What a `LinearClassifier` exports: a ParseExample, hash buckets and a vocabulary, classes as texts."""
    v1 = tf.compat.v1
    serialized = texts(example(tf, 30.0, [b"nurse"]), example(tf, 51.5, [b"cook", b"judge"]), example(tf, 7.0, []))
    with tf.Graph().as_default(), v1.Session() as session:
        given = v1.placeholder(tf.string, [None], "input_example_tensor")
        spec = {"age": tf.io.FixedLenFeature([1], tf.float32), "job": tf.io.VarLenFeature(tf.string)}
        parsed = v1.parse_example(given, spec)
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer([b"nurse", b"cook"], np.array([0, 1])), default_value=2
        )
        known = tf.one_hot(table.lookup(tf.sparse.to_dense(parsed["job"], "")), 3)
        hashed = tf.strings.to_hash_bucket_fast(tf.sparse.to_dense(parsed["job"], ""), 5)
        columns = [parsed["age"] / 100.0, tf.reduce_sum(known, 1), tf.reduce_sum(tf.one_hot(hashed, 5), 1)]
        kernel = v1.get_variable("linear/weights", initializer=weights(9, 2))
        scores = tf.nn.softmax(tf.concat(columns, 1) @ kernel)
        classes = tf.tile(tf.constant([["0", "1"]]), [tf.shape(scores)[0], 1])
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        outputs = {"scores": scores, "classes": classes}
        v1.saved_model.simple_save(
            session, str(folder / "model"), {"inputs": given}, outputs, legacy_init_op=v1.tables_initializer()
        )
        wanted = session.run(outputs, {given: serialized})
    return {"feeds": {"inputs": serialized}, "wanted": wanted}


def tagger(tf: Any, folder: Path) -> dict[str, Any]:
    """A recurrent cell in a loop of TensorFlow 1, with TensorArrays, masked by the lengths; frozen, as taggers are."""
    v1 = tf.compat.v1
    feeds = {"ids": np.array([[1, 5, 2, 7], [3, 3, 0, 0]], np.int32), "lengths": np.array([4, 2], np.int32)}
    with tf.Graph().as_default() as graph, v1.Session() as session:
        v1.disable_control_flow_v2()
        try:
            ids = v1.placeholder(tf.int32, [None, None], "ids")
            lengths = v1.placeholder(tf.int32, [None], "lengths")
            steps = tf.transpose(tf.gather(tf.constant(weights(8, 4)), ids), [1, 0, 2])
            count = tf.shape(steps)[0]
            rows = tf.TensorArray(tf.float32, size=count).unstack(steps)

            def step(time: Any, state: Any, out: Any) -> Any:
                new = tf.tanh(tf.concat([rows.read(time), state], 1) @ tf.constant(weights(7, 3)))
                state = tf.where(tf.broadcast_to((time < lengths)[:, None], tf.shape(new)), new, state)
                return time + 1, state, out.write(time, state)

            first = tf.zeros([tf.shape(ids)[0], 3])
            _, _, out = v1.while_loop(
                lambda time, state, out: time < count, step, [0, first, tf.TensorArray(tf.float32, size=count)]
            )
        finally:
            v1.enable_control_flow_v2()
        logits = tf.identity(tf.transpose(out.stack(), [1, 0, 2]), "logits")
        tags = tf.argmax(logits, -1, name="tags")
        wanted = session.run({"logits": logits, "tags": tags}, {f"{key}:0": one for key, one in feeds.items()})
        assert "Enter" in {operation.type for operation in graph.get_operations()}
        tf.io.write_graph(graph.as_graph_def(), str(folder), "model.pb", as_text=False)
    return {"feeds": feeds, "wanted": wanted, "path": folder / "model.pb"}


def wav(samples: Any, rate: int) -> bytes:
    data = bytes(samples.astype("<i2").tobytes())
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16,
                       b"data", len(data))  # fmt: skip
    return head + data


def sound(tf: Any, folder: Path) -> dict[str, Any]:
    """TensorFlow's own speech commands: wav bytes, a spectrogram, mel frequencies, a convolution."""
    v1 = tf.compat.v1
    data = wav(np.arange(1600) * 977 % 20001 - 10000, 16000)
    with tf.Graph().as_default() as graph, v1.Session() as session:
        given = v1.placeholder(tf.string, [], "wav_data")
        decoded = tf.audio.decode_wav(given, desired_channels=1, desired_samples=1600)
        spectrogram = tf.raw_ops.AudioSpectrogram(
            input=decoded.audio, window_size=480, stride=160, magnitude_squared=True
        )
        found = tf.raw_ops.Mfcc(spectrogram=spectrogram, sample_rate=decoded.sample_rate, dct_coefficient_count=13)
        images = tf.nn.relu(tf.nn.conv2d(found[..., None], weights(3, 3, 1, 2), 2, "SAME") / 16)
        scores = tf.nn.softmax(tf.reshape(images, [-1, 56]) @ weights(56, 3) / 64, name="scores")
        wanted = session.run({"scores": scores}, {given: data})
        tf.io.write_graph(graph.as_graph_def(), str(folder), "model.pb", as_text=False)
    return {"feeds": {"wav_data": np.array(data, object)}, "wanted": wanted, "path": folder / "model.pb"}


def detector(tf: Any, folder: Path) -> dict[str, Any]:
    """One-stage detection: a convolution, boxes relative to anchors, non-max suppression for each class."""

    class Model(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1, 16, 16, 3], tf.float32, name="image")])
        def serve(self, image: Any) -> Any:
            cells = tf.nn.relu6(tf.nn.conv2d(image, weights(3, 3, 3, 6), 4, "SAME") / 8)
            flat = tf.reshape(cells, [1, 16, 6])
            grid = tf.constant(np.stack(np.meshgrid(range(4), range(4), indexing="ij"), -1).reshape(16, 2), tf.float32)
            corner = (grid + flat[0, :, :2] / 6) / 4
            boxes = tf.concat([corner, corner + 0.3], -1)[None, :, None, :]
            scores = tf.sigmoid(flat[..., 2:4] - 2.0)
            found = tf.image.combined_non_max_suppression(boxes, scores, 4, 6, 0.4, 0.2)
            best = tf.image.non_max_suppression(boxes[0, :, 0], scores[0, :, 0], 5, 0.4, 0.2)
            return {**found._asdict(), "best": tf.gather(boxes[0, :, 0], best)}

    made = Model()
    tf.saved_model.save(made, str(folder / "model"), signatures=made.serve)
    feeds = {"image": np.abs(weights(1, 16, 16, 3))}
    return {"feeds": feeds, "wanted": {key: one.numpy() for key, one in made.serve(feeds["image"]).items()}}


@pytest.mark.parametrize("build", [classifier, estimator, tagger, sound, detector])
def test_a_model_that_openvino_lacks_ops_for(build: Callable[[Any, Path], dict[str, Any]], tmp_path: Path) -> None:
    import tensorflow as tf

    made = build(tf, tmp_path)
    wanted = made["wanted"]
    found = tfsmith.run(made.get("path", tmp_path / "model"), made["feeds"], list(wanted))
    assert found.engine == "reference"
    for key, value in wanted.items():
        assert found[key].dtype == value.dtype
        if value.dtype.kind in "OSU":
            assert found[key].tolist() == value.tolist()
        else:
            np.testing.assert_allclose(found[key], value, rtol=2e-5, atol=1e-6)
