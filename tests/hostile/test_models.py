"""Damaged graphs, meta graphs and SavedModels: looked at in every way, they raise our errors and no others."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import planted
from tests.support.helpers import attr_value, field, graph_def, node_def, write_files

import tfsmith
from tfsmith.errors import TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.model import Model
from tfsmith.wire import new

BASES = (planted.graph(), planted.meta_graph("serve"), planted.saved_model())


def look(data: bytes) -> None:
    """Asks a model for everything that it has."""
    model = tfsmith.load(data)
    shown = tfsmith.show(model, all=True)
    json.dumps(shown.to_json(), allow_nan=False)
    assert str(shown)
    tfsmith.graph_text(model)
    _look_inside(model)


def _look_inside(model: Model) -> None:
    for meta in model.meta_graphs:
        assert (meta.objects, meta.saver, meta.assets, dict(meta.info.ops)) is not None
        for body in (meta.graph, *meta.graph.library.values()):
            _walk(body)


def _walk(body: Body) -> None:
    with suppress(TfsmithError):
        body.topological_order()
    with suppress(TfsmithError):
        body.ancestors(list(body.by_name)[:3])
    body.scopes()
    for node in body:
        value: Any = node.get("value")
        if hasattr(value, "parts"):
            with suppress(TfsmithError):
                value.numpy()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A sound file, with a few bytes changed, cut out, put in or copied from elsewhere."""
    data = bytearray(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        deed = draw(st.sampled_from(["set", "flip", "cut", "insert", "copy", "end"]))
        if deed == "set":
            data[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        elif deed == "flip":
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif deed == "cut":
            del data[at : at + draw(st.integers(1, 20))]
        elif deed == "insert":
            data[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif deed == "copy":
            start = draw(st.integers(0, len(data) - 1))
            data[at:at] = data[start : start + 40]
        else:
            del data[at + 1 :]
        if not data:
            return b""
    return bytes(data)


@settings(max_examples=150, deadline=None)
@given(damaged())
def test_damage_raises_our_errors_only(data: bytes) -> None:
    with suppress(TfsmithError):
        look(data)


def test_sound_files_raise_nothing() -> None:
    """Guards the test above: what it damages is looked at in full."""
    for data in BASES:
        look(data)


NUMBER = attr_value(i=2**62)


@pytest.mark.parametrize(
    "node",
    [
        node_def("c", "Const", attrs={"value": NUMBER, "dtype": NUMBER}),
        node_def("s", "Split", ["s:9", "s"], {"num_split": NUMBER, "T": NUMBER}),
        node_def("p", "Placeholder", attrs={"shape": NUMBER, "_output_shapes": NUMBER}),
        node_def("v", "VarHandleOp", attrs={"dtype": NUMBER, "shape": NUMBER}),
        node_def("i", "IteratorGetNext", ["i"], {"output_types": NUMBER}),
        node_def("", ""),
        node_def("^", "NoOp", ["^^", ":", ":0", "^:0"]),
        node_def("a:0", "Identity", ["a:" + "9" * 5000]),
        node_def("x" * 100_000, "Identity", ["x" * 100_000]),
        node_def("_detections" * 10_000, "Softmax"),
        node_def("a/" * 5000, "NoOp"),
    ],
)
def test_strange_nodes(node: bytes) -> None:
    with suppress(TfsmithError):
        look(graph_def([node, node_def("end", "NoOp")]))


def test_functions_that_call_themselves_and_each_other() -> None:
    graph = new("GraphDef")
    graph.node.add(name="start", op="a")
    for name, other in (("a", "b"), ("b", "a"), ("c", "c")):
        function = graph.library.function.add()
        function.signature.name = name
        function.signature.output_arg.add(name="y", type=1)
        function.node_def.add(name="call", op=other, input=["call:y:0"])
        function.ret["y"] = "call:y:0"
    model = tfsmith.load(graph)
    _look_inside(model)
    assert tfsmith.show(model, all=True).facts["graph"]["functions"] == 3


def test_depth_is_bounded() -> None:
    value = attr_value(i=1)
    for _ in range(300):
        value = field(10, field(1, b"f") + field(2, field(1, b"k") + field(2, value)))  # a func in a func in ...
    data = graph_def([node_def("deep", "NoOp", attrs={"f": value})])
    with pytest.raises(TfsmithError, match="byte"):
        look(data)


def test_side_files_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfsmith.formats import savedmodel

    monkeypatch.setattr(savedmodel, "_MAX_SIDE_FILES", 3)
    write_files(tmp_path, {"saved_model.pb": planted.saved_model(), **{f"assets/{number}": b"" for number in range(9)}})
    with pytest.raises(TfsmithError, match="the folder holds over 3 files; pass the SavedModel's own folder"):
        tfsmith.load(tmp_path)
