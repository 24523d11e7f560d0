"""Recurrent layers: LSTM, GRU and RNN where a loop is that, else a loop; TensorFlow 1 and Keras, old and new."""

from __future__ import annotations

import lzma
from pathlib import Path

import numpy
import pytest

import onnx
import tfsmith
from tfsmith.engines.onnxruntime import OnnxSession

MODELS = Path(__file__).parents[1] / "data/recurrent"


def model(name: str, folder: Path) -> Path:
    path = folder / f"{name}.pb"
    path.write_bytes(lzma.decompress((MODELS / f"{name}.pb.xz").read_bytes()))
    return path


@pytest.mark.parametrize(
    ("name", "op", "attrs"),
    [
        ("keras-lstm-tagger", "LSTM", {"activations": [b"Sigmoid", b"Tanh", b"Tanh"], "hidden_size": 5}),
        ("keras-gru-tagger", "GRU", {"linear_before_reset": 1}),
        ("keras-gru-before", "GRU", {"linear_before_reset": 0}),
        ("keras-lstm-last", "LSTM", {}),
        ("keras-lstm-back", "LSTM", {}),
        ("keras-simple-rnn", "RNN", {"activations": [b"Tanh"]}),
        ("keras2-lstm", "LSTM", {}),
        ("keras2-gru", "GRU", {"linear_before_reset": 1}),
        ("tf1-lstm", "LSTM", {}),
        ("tf1-gru", "GRU", {"linear_before_reset": 0}),
        ("keras-lstm-bi-mask", "Loop", {}),
        ("tf1-lstm-len", "LSTM", {}),
        ("tf1-while", "Loop", {}),
        ("tf1-map", "Loop", {}),
        ("tf1-scan", "Loop", {}),
    ],
)
def test_layers(name: str, op: str, attrs: dict[str, object], tmp_path: Path) -> None:
    """The op, valid, with all shapes, and the same answers; what masks stays a loop."""
    out = tmp_path / "model.onnx"
    done = tfsmith.convert(model(name, tmp_path), out, verify=True)
    assert done.verified is not None
    assert max(one.max_abs for one in done.verified.outputs) < 1e-5
    onnx.checker.check_model(out, full_check=True)
    nodes = [node for node in onnx.load(out).graph.node if node.op_type in ("LSTM", "GRU", "RNN", "Loop")]
    assert {node.op_type for node in nodes} == {op}
    found = {one.name: onnx.helper.get_attribute_value(one) for one in nodes[0].attribute}
    assert {key: found.get(key, 0) for key in attrs} == attrs
    assert all("?" not in shape for shape in done.outputs.values())


def test_any_length_and_batch(tmp_path: Path) -> None:
    """One file for all lengths: each row is tagged as it is alone."""
    tfsmith.convert(model("keras-lstm-tagger", tmp_path), tmp_path / "t.onnx")
    words = numpy.random.default_rng(0).integers(0, 20, (3, 7)).astype(numpy.int32)
    with OnnxSession(tmp_path / "t.onnx") as session:
        (key,) = session.inputs
        whole = next(iter(session.run({key: words}).values()))
        alone = next(iter(session.run({key: words[1:2, :4]}).values()))
    assert whole.shape == (3, 7, 3)
    assert numpy.allclose(whole[1, :4], alone[0], atol=1e-6)


def test_sequences_have_lengths(tmp_path: Path) -> None:
    """Zeros behind the end of each, one of them empty and none as long as all rows: as the loop gives them."""
    path = model("tf1-lstm-len", tmp_path)
    tfsmith.convert(path, tmp_path / "t.onnx")
    feeds = {"x": numpy.random.default_rng(0).normal(size=(3, 7, 6)).astype(numpy.float32)}
    feeds["n"] = numpy.array([4, 0, 6], numpy.int32)
    wanted = next(iter(tfsmith.run(path, feeds, engine="reference").values()))
    with OnnxSession(tmp_path / "t.onnx") as session:
        found = next(iter(session.run(feeds).values()))
    assert not found[1].any()
    assert found[0, 3].any()
    assert not found[0, 4:].any()
    assert numpy.allclose(found, wanted, atol=1e-6)


def test_what_is_nearly_an_lstm_is_none(tmp_path: Path) -> None:
    """The memory goes through another function than ONNX has: a loop, and right."""
    path = model("keras-lstm-tagger", tmp_path)
    found = tfsmith.load(path)
    text = path.with_suffix(".pbtxt")
    tfsmith.save(found, text)
    changed = text.read_text()
    start = changed.index("lstm_cell_1/Tanh_1")
    op = changed.index('op: "Tanh"', start)
    text.write_text(changed[:op] + 'op: "Sin"' + changed[op + len('op: "Tanh"') :])
    done = tfsmith.convert(text, tmp_path / "n.onnx", verify=True)
    assert done
    assert "LSTM" not in done.ops
    assert done.ops["Loop"] == 1
