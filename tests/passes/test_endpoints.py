"""Likely inputs and outputs of graphs without a signature, and the reasons given."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

import tfsmith
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Collection, MetaGraph, Model
from tfsmith.ir.node import Node, attr
from tfsmith.ir.types import UNKNOWN, Shape, dtype
from tfsmith.passes.interface import Candidate, clear_outputs, guess_inputs, guess_outputs, output_shape, output_type
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_saved_model

FLOAT = {"dtype": dtype(1), "T": dtype(1)}


def _graph(*rows: tuple[str, str, Iterable[str]]) -> Graph:
    return Graph(tuple(Node(name, op, tuple(inputs), FLOAT) for name, op, inputs in rows))


def _tensors(found: Iterable[Candidate]) -> list[str]:
    return [candidate.tensor for candidate in found]


TRAINING = _graph(
    ("input_ids", "Placeholder", ()),
    ("unused", "Placeholder", ()),
    ("save/filename/input", "Placeholder", ()),
    ("w", "VariableV2", ()),
    ("w/read", "Identity", ("w",)),
    ("dense/MatMul", "MatMul", ("input_ids", "w/read")),
    ("loss/Softmax", "Softmax", ("dense/MatMul",)),
    ("loss/logits", "BiasAdd", ("dense/MatMul", "w/read")),
    ("loss/mean", "Mean", ("loss/logits", "w/read")),
    ("gradients/MatMul_grad", "MatMul", ("loss/mean", "w/read")),
    ("Adam/update_w/ApplyAdam", "ApplyAdam", ("w", "gradients/MatMul_grad")),
    ("save/SaveV2", "SaveV2", ("save/filename/input", "w/read")),
    ("summary", "ScalarSummary", ("loss/mean", "w/read")),
    ("init", "NoOp", ("^w",)),
    ("constant_end", "Identity", ("w",)),
)


def test_inputs_are_placeholders_that_somebody_uses() -> None:
    [found] = guess_inputs(TRAINING)
    assert (found.tensor, found.op, found.dtype, found.reason) == (
        "input_ids:0",
        "Placeholder",
        dtype(1),
        "it is fed from outside",
    )


def test_outputs_are_named_or_last_and_never_of_the_training() -> None:
    [found] = guess_outputs(TRAINING)
    assert found.tensor == "loss/Softmax:0"
    assert found.reason == (
        "nothing takes its output, it is named like an output, an input reaches it, Softmax often ends a model"
    )


def test_outputs_that_are_nearly_as_likely_come_too() -> None:
    graph = _graph(
        ("x", "Placeholder", ()),
        ("w", "VariableV2", ()),
        ("scores", "Sigmoid", ("x",)),
        ("boxes", "Identity", ("x",)),
        ("end", "Tanh", ("x",)),
    )
    assert _tensors(guess_outputs(graph)) == ["scores:0"]
    assert clear_outputs(graph) == guess_outputs(graph)
    unnamed = graph.replace(nodes=(graph["x"], graph["w"], graph["boxes"], graph["end"]))
    assert _tensors(guess_outputs(unnamed)) == ["boxes:0", "end:0"]
    assert clear_outputs(unnamed) == ()


def test_outputs_of_a_frozen_graph_are_its_ends() -> None:
    graph = _graph(
        ("x", "Placeholder", ()),
        ("attention/Softmax", "Softmax", ("x",)),
        ("probs", "Sigmoid", ("attention/Softmax",)),
        ("first", "StridedSlice", ("attention/Softmax",)),
        ("mean", "Mean", ("attention/Softmax",)),
    )
    assert _tensors(guess_outputs(graph)) == ["probs:0", "first:0", "mean:0"]
    assert _tensors(clear_outputs(graph)) == ["probs:0", "first:0", "mean:0"]


def test_ends_come_before_inner_nodes_that_are_named_like_outputs() -> None:
    rows = (("x", "Placeholder", ()), ("w", "VariableV2", ()), ("attention/Softmax", "Softmax", ("x",)))
    graph = _graph(*rows, ("hidden", "Tanh", ("attention/Softmax",)))
    assert _tensors(guess_outputs(graph)) == ["hidden:0"]
    training = _graph(*rows, ("loss/mean", "Mean", ("attention/Softmax",)), ("g", "SoftmaxGrad", ("loss/mean",)))
    assert _tensors(guess_outputs(training)) == ["attention/Softmax:0"]


def test_savers_are_neither_inputs_nor_outputs() -> None:
    graph = _graph(
        ("x", "Placeholder", ()),
        ("file", "Placeholder", ()),
        ("keep/SaveV2", "SaveV2", ("file",)),
        ("keep/RestoreV2", "RestoreV2", ("file",)),
        ("keep/output", "Identity", ("keep/RestoreV2",)),
        ("y", "Tanh", ("x",)),
    )
    assert _tensors(guess_inputs(graph)) == ["x:0"]
    assert _tensors(guess_outputs(graph)) == ["y:0"]


def test_number_of_outputs_is_bounded() -> None:
    many = _graph(("x", "Placeholder", ()), *((f"head_{number}", "Softmax", ("x",)) for number in range(50)))
    assert len(guess_outputs(many)) == 10
    assert len(guess_outputs(many, limit=3)) == 3


def test_loop_and_empty_graph() -> None:
    assert guess_outputs(Graph(())) == ()
    assert guess_inputs(Graph(())) == ()
    cycle = _graph(("x", "Placeholder", ()), ("a", "Merge", ("x", "b")), ("b", "NextIteration", ("a",)))
    assert guess_outputs(cycle) == ()


def _model(graph: Graph, **collections: Collection) -> Model:
    return Model("metagraph", (MetaGraph(Part.of(graph), collections_part=Part.of(collections)),))


def test_collections_win() -> None:
    inputs = Collection("node", ("unused:0", "gone:0"))
    outputs = Collection("node", ("dense/MatMul:0", "loss/mean"))
    model = _model(TRAINING, inputs=inputs, outputs=outputs)
    assert _tensors(tfsmith.likely_inputs(model)) == ["unused:0"]
    assert _tensors(tfsmith.likely_outputs(model)) == ["dense/MatMul:0", "loss/mean:0"]
    assert tfsmith.likely_outputs(model)[0].reason == "it is in the collection 'outputs'"


def test_signatures_win(tmp_path: Path) -> None:
    """Nobody needs a guess of what the model itself says: each tensor once, with who names it."""
    model = tfsmith.load(write_saved_model(linear_regression(), tmp_path / "m"))
    (given,) = tfsmith.likely_inputs(model)
    assert (given.tensor, given.reason) == ("inputs/x_sample:0", "signature serving_default names it 'x'")
    (found,) = tfsmith.likely_outputs(model)
    assert (found.tensor, found.reason) == ("linear_regression/add:0", "signature serving_default names it 'y'")


@pytest.mark.parametrize("other", [Collection("bytes", (b"x",)), Collection("node", ()), Collection("node", ("gone",))])
def test_collections_that_tell_nothing(other: Collection) -> None:
    model = _model(TRAINING, inputs=other, outputs=other)
    assert _tensors(tfsmith.likely_inputs(model)) == ["input_ids:0"]
    assert _tensors(tfsmith.likely_outputs(model)) == ["loss/Softmax:0"]


def test_types_and_shapes_come_from_attributes() -> None:
    shapes = (Shape((1, 2)), Shape((3,)))
    node = Node("t", "TopKV2", ("x", "k"), {"T": dtype(1), "_output_shapes": attr(shapes)})
    graph = Graph((node,))
    assert (output_type(graph, node, 0), output_type(graph, node, 1)) == (dtype(1), dtype(3))
    assert output_type(graph, node, 2) is None
    assert output_type(graph, node, -1) is None
    assert [output_shape(node, number) for number in range(3)] == [*shapes, UNKNOWN]
    placeholder = Node("p", "Placeholder", attrs={"dtype": dtype(1), "shape": Shape((-1, 4))})
    assert output_shape(placeholder) == Shape((-1, 4))
    assert output_type(graph, Node("c", "Unknown")) is None
    assert output_type(graph, Node("s", "Split", attrs={"T": dtype(1)})) is None
