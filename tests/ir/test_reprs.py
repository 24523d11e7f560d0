"""Every object says what it is, as text and in a notebook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.docs.runner import ROOT
from tests.support.attack import function, tf2_model
from tests.support.helpers import attr_value, node_def

import tfsmith
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import MetaGraph, Model, Signature, TensorInfo
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor, Weights
from tfsmith.ir.types import UNKNOWN, Shape, dtype_named
from tfsmith.storage import from_bytes

FLOAT = dtype_named("float32")
INFO = TensorInfo("x:0", FLOAT, Shape((-1, 3)))
NODE = Node("<x>", "Placeholder", (), {"dtype": FLOAT})
META = MetaGraph(Part.of(Graph((NODE,))), signatures_part=Part.of({"s": Signature({"a": INFO}, {"b": INFO})}))


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (FLOAT, "DType('float32')"),
        (Shape((-1, 3)), "Shape.of([None, 3])"),
        (UNKNOWN, "Shape.of(None)"),
        (INFO, "<TensorInfo 'x:0' float32 [?, 3]>"),
        (Signature({"a": INFO}, {}), "<Signature a: float32 [?, 3] -> nothing>"),
        (NODE, "<Node '<x>' op=Placeholder>"),
        (META.graph, "<Graph 1 nodes, 0 functions>"),
        (META.graph.library, "<Library 0 functions>"),
        (META, "<MetaGraph without tags: <Graph 1 nodes, 0 functions>>"),
        (Model("metagraph", (META,)), "<Model metagraph, 1 meta graphs, 0 variables>"),
        (Weights({"a": ArrayTensor.of([1.0])}, path=Path("w.npz")), "<Weights 'w.npz', 1 tensors>"),
        (ArrayTensor.of([1.0]), "<ArrayTensor float64 [1]>"),
        (from_bytes(b"abc"), "<Span '<memory>', bytes 0 to 3>"),
        (Part(lambda: 1, None), "<Part 'not read yet'>"),
        (NODE.attrs, "{'dtype': Attr(kind='type', value=DType('float32'))}"),
    ],
)
def test_texts(made: Any, text: str) -> None:
    assert repr(made) == text


def test_functions(tmp_path: Path) -> None:
    nodes = [node_def("a", "Relu", ["x"], {"T": attr_value(type=1)})]
    found = tfsmith.load(
        tf2_model(tmp_path / "m", [], [function("f", nodes, "a:activations:0"), function("g", nodes, "a")])
    )
    assert repr(found.graph.library["f"]) == "<Function 'f' (x) -> (y), 1 nodes>"


def test_notebooks() -> None:
    assert Model("metagraph", (META,), path=Path("<p>"))._repr_html_() == (
        "<table><caption>&lt;p&gt;</caption><tr><th>kind</th><td>metagraph</td></tr>"
        "<tr><th>variables</th><td>0</td></tr><tr><th>nodes</th><td>1</td></tr><tr><th>functions</th><td>0</td></tr>"
        "<tr><th>s, input a</th><td>float32 [?, 3]</td></tr>"
        "<tr><th>s, output b</th><td>float32 [?, 3]</td></tr></table>"
    )
    assert Model("checkpoint")._repr_html_().startswith("<table><caption>Model</caption>")
    summary = tfsmith.summarize(tfsmith.load(ROOT / "tests" / "docs" / "files" / "tf2_model"))
    shown = summary._repr_html_()
    assert shown.startswith(f"<table><caption>{summary.title}</caption><tr><th>written by</th><td>TensorFlow 2.21")
    assert "<tr><th>ops</th>" in shown
    assert "custom ops" not in shown
