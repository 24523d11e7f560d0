"""What is no graph of TensorFlow on a page: layers of Keras files, nodes of ONNX files, variables of checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfsmith.errors import UsageError
from tfsmith.ir.keras import KerasFile, Layer
from tfsmith.ir.tensor import make_tensor
from tfsmith.testing.models import conv_net
from tfsmith.testing.write import write_frozen
from tfsmith.verbs.convert import convert
from tfsmith.verbs.view import view_data, view_model
from tfsmith.view.other_graphs import OtherNode, keras_nodes, other_sheet
from tfsmith.view.page_data import node_inputs

KERAS_3 = {"class_name": "__keras_tensor__", "config": {"keras_history": ["image", 0, 0]}}


def functional(inbound: Any) -> str:
    layers = [
        {"class_name": "InputLayer", "config": {"name": "image"}, "name": "image", "inbound_nodes": []},
        {"class_name": "Dense", "config": {"name": "d", "units": 4}, "name": "d", "inbound_nodes": inbound},
    ]
    return json.dumps({"class_name": "Functional", "config": {"layers": layers}})


@pytest.mark.parametrize("inbound", [[[["image", 0, 0, {}]]], [{"args": [KERAS_3], "kwargs": {}}]])
def test_layers_are_connected_as_the_config_says(inbound: Any) -> None:
    tensors = {"k": make_tensor(np.ones((3, 4), np.float32))}
    keras = KerasFile(
        "h5", "", layers=(Layer("image", "InputLayer"), Layer("d", "Dense", ("k",))), config=functional(inbound)
    )
    image, dense, weight = keras_nodes(keras, tensors)
    assert (image.kind, dense.op, dense.attrs["units"]) == ("input", "Dense", 4)
    assert dense.inputs == [("image", 0), ("d/k", 0)]
    assert (weight.kind, weight.key, weight.types) == ("constant", "k", (("float32", (3, 4)),))


def test_a_sequential_model_is_a_chain_and_inner_layers_are_scopes() -> None:
    inner = Layer("block", "Sequential", (), (Layer("a", "Dense"), Layer("b", "Dense")))
    config = {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "Sequential", "config": {"name": "block", "layers": [
            {"class_name": "Dense", "config": {"name": "a"}}, {"class_name": "Dense", "config": {"name": "b"}}]}},
        {"class_name": "Dense", "config": {"name": "last"}}]}}  # fmt: skip
    nodes = keras_nodes(KerasFile("h5", "", layers=(inner, Layer("last", "Dense")), config=json.dumps(config)), {})
    assert {node.name: list(node.inputs) for node in nodes} == {
        "block": [], "block/a": [], "block/b": [("block/a", 0)], "last": [("block", 0)],
    }  # fmt: skip


def test_damaged_configs_are_no_error() -> None:
    for config in ("", "{", "[]", '{"config": 3}', '{"config": {"layers": [1, {"config": null}, {"name": 3}]}}'):
        (node,) = keras_nodes(KerasFile("h5", "", layers=(Layer("d", "Dense"),), config=config), {})
        assert (node.name, list(node.inputs)) == ("d", [])


def test_constants_lie_where_they_are_taken_and_what_is_gone_is_missing() -> None:
    nodes = [
        OtherNode("w", "Initializer", (), "constant"),
        OtherNode("net/a", "Add", [("w", 0), ("gone", 0)]),
        OtherNode("net/b", "Add", [("w", 0)]),
    ]
    sheet, tables = other_sheet(nodes)
    assert sheet["scopes"] == ["net", "net", "net"]
    assert sheet["missing"] == ["gone"]
    assert node_inputs(sheet) == [[], [(0, 0), (-1, 0)], [(0, 0)]]
    assert [op["name"] for op in tables["ops"]] == ["Initializer", "Add"]


def test_an_onnx_file_is_shown_and_nothing_is_painted_on_it(tmp_path: Path) -> None:
    write_frozen(conv_net(), tmp_path / "conv.pb")
    convert(tmp_path / "conv.pb", out=tmp_path / "conv.onnx")
    data = view_data(tmp_path / "conv.onnx")
    (sheet,) = data["sheets"]
    ops = [data["tables"]["ops"][number]["name"] for number in sheet["ops"]]
    assert ops.count("Conv") == 2
    assert {"Input", "Output", "Initializer", "Softmax"} <= set(ops)
    assert not sheet["missing"]
    attrs = [data["tables"]["attrs"][number] for number, op in zip(sheet["attrs"], ops, strict=True) if op == "Conv"]
    assert attrs[0]["strides"] == [1, 1]
    assert data["summary"]["title"].startswith("ONNX, opset ")
    assert "pick a pattern" in view_model(tmp_path / "conv.onnx").html
    with pytest.raises(UsageError, match="nothing is painted"):
        view_model(tmp_path / "conv.onnx", scan=True)
