"""Graphs cut at what is fed."""

from __future__ import annotations

from tfsmith.engines.protocol import Port, cut_graph
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.ir.types import Shape, dtype_named

FLOAT = dtype_named("float32")
GRAPH = Graph(
    (
        Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((2,))}),
        Node("rate", "PlaceholderWithDefault", ("one",), {"dtype": FLOAT, "shape": Shape(())}),
        Node("one", "Const", (), {"dtype": FLOAT}),
        Node("parts", "Split", ("one", "x"), {"num_split": 2, "T": FLOAT}),
        Node("sum", "AddV2", ("parts", "parts:1", "^x"), {"T": FLOAT}),
        Node("y", "Mul", ("sum", "rate"), {"T": FLOAT}),
        Node("other", "Neg", ("x",), {"T": FLOAT}),
    )
)


def port(tensor: str) -> Port:
    return Port(tensor, FLOAT, Shape((2,)))


def test_only_what_the_outputs_need_is_left() -> None:
    cut = cut_graph(GRAPH, {"in": port("x:0"), "gone": port("elsewhere:0")}, {"out": "y:0"})
    assert [node.name for node in cut.graph] == ["x", "rate", "one", "parts", "sum", "y"]
    assert cut.inputs == {"in": "x:0"}
    assert cut.outputs == {"out": "y:0"}
    assert cut.graph["rate"].op == "Identity"  # its default counts
    assert cut.graph["rate"].get("T") == FLOAT
    assert cut.graph["x"] is GRAPH["x"]


def test_a_default_is_replaced_where_it_is_fed() -> None:
    cut = cut_graph(GRAPH, {"in": port("x:0"), "rate": port("rate:0")}, {"out": "y:0"})
    name = cut.inputs["rate"].partition(":")[0]
    assert cut.graph[name].op == "Placeholder"
    assert cut.graph["y"].inputs == ("sum", name)
    assert "rate" not in cut.graph


def test_one_output_of_several_is_fed() -> None:
    cut = cut_graph(GRAPH, {"in": port("x:0"), "half": port("parts:1")}, {"out": "sum:0", "same": "parts:1"})
    name = cut.inputs["half"].partition(":")[0]
    assert cut.graph["sum"].inputs == ("parts", name, "^x")
    assert cut.outputs == {"out": "sum:0", "same": f"{name}:0"}


def test_what_comes_before_the_cut_is_gone() -> None:
    cut = cut_graph(GRAPH, {"in": port("x:0"), "sum": port("sum:0")}, {"out": "y:0"})
    assert sorted(cut.inputs) == ["sum"]
    assert "x" not in cut.graph


def test_names_that_are_taken() -> None:
    graph = GRAPH.replace(nodes=(*GRAPH.nodes, Node("sum_0_fed", "NoOp")))
    cut = cut_graph(graph, {"sum": port("sum:0")}, {"out": "y:0"})
    assert cut.inputs == {"sum": "sum_0_fed_1:0"}
