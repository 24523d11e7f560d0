"""Who counts as a user of a node, and who does not."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.replace_models import FLOAT, axes, const, function, model_of, node, placeholder

from tfsmith.errors import NotFoundInModelError
from tfsmith.ir.body import Part
from tfsmith.ir.model import Asset, Collection, MetaGraph, Model, ObjectGraph, ObjectNode, Saver
from tfsmith.ir.node import CONTROL, Endpoint, Node
from tfsmith.ir.types import dtype_named
from tfsmith.patterns.replaceable import examine, may_be_pruned, outside_of_function, outside_of_graph, stale_contexts

INT32 = dtype_named("int32")
NODES = [
    placeholder("x"),
    node("a", "Neg", "x"),
    node("b", "Exp", "a"),
    node("y", "Neg", "b"),
    node("side", "Tanh", "a"),
    node("shape", "Shape", "a"),
    axes("zero", [0]),
    Node("first", "StridedSlice", ("shape", "zero", "zero", "zero"), {"T": INT32, "Index": INT32}),
    Node("product", "Prod", ("first", "zero"), {"T": INT32}),
]


def named(model: Model, **more: Any) -> dict[str, list[str]]:
    found = outside_of_graph(model, **more)
    return {name: [item.who for item in items] for name, items in found.named.items()}


def test_every_end_of_a_graph_without_outputs_counts_but_for_shapes() -> None:
    found = outside_of_graph(model_of(NODES))
    assert set(found.named) == {"y", "side"}
    assert found.live == {"x", "a", "b", "y", "side"}


def test_ends_that_do_more_than_look_at_shapes_count() -> None:
    mixed = Node("mixed", "Add", ("first", "number"), {"T": INT32})
    number = Node("number", "Placeholder", (), {"dtype": INT32})
    assert "mixed" in named(model_of([*NODES, number, mixed]))
    constants = Node("sum", "Add", ("zero", "zero"), {"T": INT32})
    assert "sum" in named(model_of([*NODES, constants]))


def test_outputs_or_signatures_leave_ends_out() -> None:
    assert set(named(model_of(NODES), outputs=("y",))) == {"y"}
    assert named(model_of(NODES, outputs={"k": "side:0"})) == {"side": ["output 'k' of signature 'serving_default'"]}
    both = named(model_of(NODES, outputs={"k": "side:0"}), outputs=("y:0",))
    assert both == {"side": ["output 'k' of signature 'serving_default'"], "y": ["the output 'y:0'"]}
    with pytest.raises(NotFoundInModelError):
        outside_of_graph(model_of(NODES), ("nowhere",))


def test_all_parts_of_a_meta_graph_refer_to_nodes() -> None:
    variables = Collection.of_messages([{"variable_name": "a:0", "initializer_name": "b"}])
    context = Collection.of_messages(
        [{"pivot_name": "shape:0", "values_def": {"values": ("first:0",), "external_values": {"first:0": "zero:0"}}}]
    )
    saved = ObjectGraph((ObjectNode("constant", {}, {"operation": "product"}),), {})
    model = model_of(
        NODES,
        outputs={"k": "y:0"},
        collections={"variables": variables, "while_context": context, "keep": Collection("node", ("side:0", "gone"))},
        saver=Saver("x:0", "absent:0", "restore"),
        assets=(Asset("zero:0", "f"),),
        objects=saved,
    )
    found = named(model)
    assert found["a"] == found["b"] == ["the collection 'variables'"]
    assert found["side"] == ["the collection 'keep'"]
    assert found["shape"] == ["the collection 'while_context'"]
    assert found["zero"] == ["the asset 'f'", "the collection 'while_context'"]
    assert found["x"] == ["the saver"]
    assert found["product"] == ["a Python object"]
    assert "first" not in found
    assert stale_contexts(model.meta, {"first"}) == ("while_context",)
    assert stale_contexts(model.meta, {"y"}) == ()


def test_functions_give_results_and_have_effects() -> None:
    nodes = [
        node("a", "Neg", "x"),
        node("b", "Exp", "a:y:0"),
        node("dead", "Tanh", "a:y:0"),
        Node("log", "PrintV2", ("a:y:0",)),
        Node("custom", "Mystery", ("a:y:0",)),
        Node("read", "ReadVariableOp", ("x",), {"dtype": FLOAT}),
    ]
    body = function("net", {"x": FLOAT}, nodes, {"out": "b:y:0"}, {"done": "a"})
    saved = ObjectNode("captured_tensor", {}, {"name": "dead:0", "concrete_function": "net"})
    graph = model_of([], [body]).meta
    found = outside_of_function(body, graph)
    kinds = {name: [item.kind for item in items] for name, items in found.named.items()}
    assert kinds == {"b": ["result"], "a": ["control"], "log": ["name"], "custom": ["name"]}
    assert found.live == {"a", "b", "log", "custom"}
    captured = MetaGraph(graph.graph_part, objects_part=Part.of(ObjectGraph((saved,), {})))
    assert "dead" in outside_of_function(body, captured).named


def test_users_are_shared_doomed_waiting_or_named() -> None:
    nodes = [*NODES, node("late", "NoOp", "^a", T=None), node("echo", "Neg", "side")]
    model = model_of(nodes, outputs={"y": "y:0", "b": "b:0"})
    graph = model.graph
    found = examine(graph, outside_of_graph(model), {"a", "b"}, {Endpoint("b", 0)})
    assert found.shared == {}
    assert found.doomed == {"side", "echo", "shape", "first", "product"}
    assert found.waiting
    assert [item.who for item in found.named["b"]] == ["output 'b' of signature 'serving_default'"]
    live = model_of(nodes, outputs={"y": "y:0", "echo": "echo:0", "a": "a:0"})
    found = examine(graph, outside_of_graph(live), {"a", "b"}, {Endpoint("b", 0)})
    assert found.shared == {"a": ("side (Tanh)", "output 'a' of signature 'serving_default'")}
    assert found.doomed == {"shape", "first", "product"}
    taken = {"a": {Endpoint("a", 0): "new"}, "y": {Endpoint("y", 0): "other"}}
    gone = examine(graph, outside_of_graph(live), {"a", "b"}, {Endpoint("b", 0)}, {"side"}, taken)
    assert gone.shared == {"a": ("new (new)", "output 'a' of signature 'serving_default'")}


def test_what_may_be_pruned() -> None:
    nodes = [
        *NODES,
        const("c", 1.0),
        Node("v", "VariableV2", (), {"dtype": FLOAT}),
        Node("r", "RandomUniform", ("zero",), {"T": INT32, "dtype": FLOAT}),
        Node("m", "Mystery"),
    ]
    model = model_of(nodes, outputs={"y": "y:0"})
    outside = outside_of_graph(model)
    free = {found.name for found in nodes if may_be_pruned(model.graph, outside, found)}
    assert free == {"a", "b", "side", "shape", "zero", "first", "product", "c", "r"}


def test_control_outputs_name_nodes() -> None:
    body = function("net", {"x": FLOAT}, [node("a", "Neg", "x")], {"out": "x"}, {"done": "a"})
    outside = outside_of_function(body, model_of([], [body]).meta)
    assert outside.named["a"][0].endpoint == Endpoint("a", CONTROL)
    found = examine(body, outside, {"a"}, {Endpoint("a", 0)})
    assert found.named["a"][0].kind == "control"
    assert found.shared == {}
