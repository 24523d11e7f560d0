"""The graph builder and the test models, without TensorFlow."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tfsmith.errors import UsageError
from tfsmith.formats.graph.graphdef import plan_graph
from tfsmith.formats.opener import open_model
from tfsmith.ir.check import graph_problems
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.ir.types import Shape
from tfsmith.storage import Span
from tfsmith.testing.builder import GraphBuilder, Names
from tfsmith.testing.models import BertConfig, ConvNetConfig, TestModel, bert_classifier, conv_net, linear_regression
from tfsmith.testing.values import FLOAT32, INT32, INT64
from tfsmith.testing.variables import Kind, truncated_normal, zeros
from tfsmith.testing.weights import SeededTensor, Weights
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

KINDS: tuple[Kind, ...] = ("ref", "resource")


def models(kind: Kind) -> list[TestModel]:
    return [
        linear_regression(variables=kind),
        conv_net(variables=kind),
        conv_net(ConvNetConfig(9, 1, (2,), 3), variables=kind, batch=4, output_shapes=False),
        bert_classifier(variables=kind),
        bert_classifier(variables=kind, batch=3, length=5, labels=4, global_step=7),
    ]


def encoded(graph: Graph) -> bytes:
    plan = plan_graph(graph)
    return plan.tobytes()


def nodes_of(graph: Graph) -> dict[str, Node]:
    return {node.name: node for node in graph.nodes}


# Names


def test_names_are_unique_without_regard_to_case() -> None:
    names = Names()
    assert [names.unique(name) for name in ("Mul", "mul", "mul", "MUL", "mul_1")] == [
        "Mul",
        "mul_1",
        "mul_2",
        "MUL_3",
        "mul_1_1",
    ]


def test_scopes_are_unique_and_can_be_entered_again() -> None:
    names = Names()
    with names.enter("a") as first, names.enter("b"):
        assert names.unique("x") == "a/b/x"
    with names.enter("a") as second:
        assert names.unique("x") == "a_1/x"
    with names.enter(first):
        assert names.unique("x") == "a/x"
        with names.at_root():
            assert names.unique("x") == "x"
    assert (first, second, names.scope) == ("a/", "a_1/", "")


# Nodes


def test_values_become_constants_inside_the_scope_of_their_node() -> None:
    builder = GraphBuilder()
    x = builder.placeholder(FLOAT32, [None, 3], "x")
    builder.node("Mul", [2.0, x], {}, "mul")
    nodes = nodes_of(builder.graph())
    assert list(nodes) == ["x", "mul/x", "mul"]
    assert nodes["mul"].inputs == ("mul/x", "x")
    assert nodes["mul"].get("T") == FLOAT32
    assert nodes["mul/x"].get("value").numpy() == np.float32(2)
    assert nodes["mul"].get("_output_shapes") == (Shape((-1, 3)),)


def test_a_list_with_tensors_is_packed() -> None:
    builder = GraphBuilder()
    x = builder.placeholder(FLOAT32, [None, 6], "x")
    rows = builder.placeholder(INT32, [], "rows")
    output = builder.node("Reshape", [x, [rows, 2, 3]]).out
    nodes = nodes_of(builder.graph())
    assert nodes["Reshape/shape"].op == "Pack"
    assert nodes["Reshape/shape"].inputs == ("rows", "Reshape/shape/1", "Reshape/shape/2")
    assert output.shape == Shape((-1, 2, 3))


def test_defaults_are_filled_in() -> None:
    builder = GraphBuilder()
    x = builder.placeholder(FLOAT32, [2, 3], "x")
    builder.node("MatMul", [x, x], {"transpose_b": True})
    node = builder.graph(output_shapes=False)["MatMul"]
    assert node.get("transpose_a") is False
    assert node.get("transpose_b") is True
    assert "_output_shapes" not in node.attrs


def test_control_dependencies_hold_unless_an_input_has_them() -> None:
    builder = GraphBuilder()
    x = builder.placeholder(FLOAT32, [2], "x")
    first = builder.group(["x"], "first")
    with builder.control_dependencies([first.name]):
        inside = builder.node("Neg", [x]).out
        builder.node("Neg", [inside])
        builder.variable("v", zeros, Weights().normal(2))
    nodes = nodes_of(builder.graph())
    assert nodes["Neg"].inputs == ("x", "^first")
    assert nodes["Neg_1"].inputs == ("Neg",)
    assert nodes["v"].inputs == ()
    assert nodes["first"].inputs == ("^x",)


@pytest.mark.parametrize(
    ("op", "inputs", "attrs", "what"),
    [
        ("Nonesuch", [], {}, "no op"),
        ("Neg", [], {}, "takes 1 inputs"),
        ("Neg", ["x"], {"nonesuch": 1}, "no attribute 'nonesuch'"),
        ("Cast", ["x"], {}, "'DstT' is missing"),
        ("Cast", ["x"], {"DstT": 1}, "is of kind int, not type"),
        ("AddV2", ["x", "i"], {}, "input 'x' is float32, not int32"),
        ("Assign", ["x", "x"], {}, "not a reference"),
    ],
)
def test_a_node_against_its_definition_is_refused(op: str, inputs: list[str], attrs: dict[str, Any], what: str) -> None:
    builder = GraphBuilder()
    given = {"x": builder.placeholder(FLOAT32, [2], "x"), "i": builder.placeholder(INT32, [2], "i")}
    with pytest.raises(UsageError, match=what):
        builder.node(op, [given[name] for name in inputs], attrs)


# Variables


def test_a_ref_variable() -> None:
    builder = GraphBuilder("ref")
    with builder.variable_scope("dense"):
        builder.variable("kernel", truncated_normal(0.02), Weights().normal(3, 2), collections=["mine"])
    graph = builder.graph()
    assert [(node.name, node.op) for node in graph.nodes][-3:] == [
        ("dense/kernel", "VariableV2"),
        ("dense/kernel/Assign", "Assign"),
        ("dense/kernel/read", "Identity"),
    ]
    assert "dense/kernel/Initializer/truncated_normal/TruncatedNormal" in graph
    assert all(node.get("_class") == (b"loc:@dense/kernel",) for node in graph.nodes)
    assert set(builder.collections) == {"variables", "trainable_variables", "mine"}


def test_a_resource_variable() -> None:
    builder = GraphBuilder("resource")
    with builder.variable_scope("dense"):
        kernel = builder.variable("kernel", zeros, Weights().normal(3, 2), trainable=False)
        x = builder.placeholder(FLOAT32, [1, 3], "x")
        builder.node("MatMul", [x, kernel])
    assert [(node.name, node.op) for node in builder.graph().nodes] == [
        ("dense/kernel/Initializer/zeros", "Const"),
        ("dense/kernel", "VarHandleOp"),
        ("dense/kernel/IsInitialized/VarIsInitializedOp", "VarIsInitializedOp"),
        ("dense/kernel/Assign", "AssignVariableOp"),
        ("dense/kernel/Read/ReadVariableOp", "ReadVariableOp"),
        ("dense/x", "Placeholder"),
        ("dense/MatMul/ReadVariableOp", "ReadVariableOp"),
        ("dense/MatMul", "MatMul"),
    ]
    assert set(builder.collections) == {"variables"}


@pytest.mark.parametrize("kind", KINDS)
def test_collections_describe_the_variables(kind: Kind, tmp_path: Path) -> None:
    prefix = write_checkpoint_files(linear_regression(variables=kind), tmp_path)
    model = open_model(prefix)
    found = model.get_collection("trainable_variables")
    resource = {"is_resource": True} if kind == "resource" else {}
    snapshot = "read:0" if kind == "ref" else "Read/ReadVariableOp:0"
    assert found[0] == {
        "variable_name": "model_variables/slope:0",
        "initializer_name": "model_variables/slope/Assign",
        "snapshot_name": f"model_variables/slope/{snapshot}",
        "initial_value_name": "model_variables/Const:0",
        "trainable": True,
        **resource,
    }
    assert model.get_collection("inputs") == ("inputs/x_sample:0", "inputs/y_sample:0")
    assert model.get_collection("outputs") == ("linear_regression/add:0",)


# Models


@pytest.mark.parametrize("kind", KINDS)
def test_every_node_fits_its_definition(kind: Kind) -> None:
    for model in models(kind):
        for graph in (model.model.graph, model.saved_model().graph):
            assert list(graph_problems(graph)) == []
            assert len(graph.topological_order()) == len(graph.nodes)


@pytest.mark.parametrize(
    ("name", "changes", "what"),
    [
        ("add", {"op": "Nonesuch"}, "there is no op"),
        ("add", {"inputs": ("x",)}, "it has 1 input, not 2"),
        ("add", {"inputs": ("x", "gone")}, "'gone' is not there"),
        ("add", {"inputs": ("x", "x:1")}, "'x:1' does not exist"),
        ("add", {"attrs": {"T": INT64}}, "input 'x' is float32, not int64"),
        ("add", {"attrs": {"T": None}}, "'T' is missing"),
        ("add", {"attrs": {"other": 1}}, "no attribute 'other'"),
        ("v/Assign", {"inputs": ("x", "x")}, "not a reference"),
    ],
)
def test_the_check_finds_what_is_wrong(name: str, changes: dict[str, Any], what: str) -> None:
    builder = GraphBuilder()
    x = builder.placeholder(FLOAT32, [2], "x")
    builder.variable("v", zeros, Weights().normal(2))
    builder.node("AddV2", [x, x], {}, "add")
    graph = builder.graph()
    assert list(graph_problems(graph)) == []
    changed = graph.map_nodes({name: graph[name].replace(**changes)})
    assert any(what in problem for problem in graph_problems(changed))


def test_bert_has_the_nodes_that_documents_name() -> None:
    graph = bert_classifier(BertConfig(30, 16, 12, 2, 32, 20), length=6).model.graph
    for name in (
        "input_ids",
        "bert/encoder/Reshape",
        "bert/encoder/Reshape_1",
        "bert/encoder/strided_slice",
        "bert/encoder/strided_slice_2",
        "bert/encoder/layer_0/attention/self/query/kernel/read",
        "bert/encoder/layer_3/attention/self/MatMul_1",
        "bert/encoder/layer_5/intermediate/dense/mul_3",
        "bert/encoder/layer_11/output/LayerNorm/batchnorm/add_1",
        "bert/pooler/dense/Tanh",
        "loss/output",
        "loss/Mean",
    ):
        assert name in graph
    assert graph["loss/output"].op == "Softmax"
    fixed = bert_classifier(batch=1).model.graph
    assert not any(node.op == "Shape" for node in fixed.nodes)


def test_bert_base_has_the_size_of_the_real_one() -> None:
    base = bert_classifier(BertConfig.base(), length=128)
    total = sum(tensor.shape.elements or 0 for tensor in base.model.variables.values())
    assert total == 109_482_240 + 2 * 768 + 2  # uncased_L-12_H-768_A-12, and the classifier
    assert len(base.model.variables) == 199 + 2
    assert json.loads(BertConfig.large().to_json())["num_hidden_layers"] == 24
    with pytest.raises(UsageError, match="does not split"):
        BertConfig(30, 16, 2, 3, 32)


def test_example_inputs_fit_the_placeholders() -> None:
    for model in models("ref"):
        feeds = model.example_inputs(1, 6)
        assert set(feeds) == set(model.inputs)
        for key, info in model.signature.inputs.items():
            dims = info.shape.dims or ()
            assert feeds[key].dtype == info.dtype.numpy()
            assert all(dim in (-1, size) for dim, size in zip(dims, feeds[key].shape, strict=True))
        again, other = model.example_inputs(1, 6), model.example_inputs(2, 6)
        assert all(np.array_equal(feeds[key], again[key]) for key in feeds)
        assert not all(np.array_equal(feeds[key], other[key]) for key in feeds)


# Weights and references


def test_weights_do_not_depend_on_how_they_are_read() -> None:
    tensor = SeededTensor("w", Shape((700, 1000)), 3, 0.02, 1.0)
    parts = [part for part in tensor.parts() if not isinstance(part, Span)]
    assert len(parts) == 3
    array = tensor.numpy()
    assert b"".join(parts) == array.tobytes()
    assert tensor.nbytes == array.nbytes
    assert np.abs(array - 1).max() <= 0.04 + 1e-6
    assert abs(float(array.std()) - 0.02 * 0.88) < 1e-4  # a normal cut off at two standard deviations
    assert not np.array_equal(array, SeededTensor("w", tensor.shape, 4, 0.02, 1.0).numpy())
    assert not np.array_equal(array, SeededTensor("v", tensor.shape, 3, 0.02, 1.0).numpy())


def test_the_line_is_a_line() -> None:
    model = linear_regression(slope=2.0, intercept=1.0)
    found = model.reference({"x": np.array([[1.0, 2.0]]), "y_sample": np.array([[3.0, 6.0]])})
    assert found["y"].tolist() == [[3.0, 5.0]]
    assert found["loss"] == 1.0


def test_probabilities_sum_to_one_and_depend_on_the_weights() -> None:
    for make in (conv_net, bert_classifier):
        model, other = make(seed=1), make(seed=2)
        feeds = model.example_inputs(batch=4)
        found = model.reference(feeds)["probabilities"]
        assert found.dtype == np.float32
        assert np.allclose(found.sum(-1), 1, atol=1e-6)
        assert np.ptp(found, 0).max() > 1e-4  # each example has its own
        assert not np.allclose(found, other.reference(feeds)["probabilities"], atol=1e-5)


def test_bert_does_not_see_what_is_masked() -> None:
    model = bert_classifier(length=8)
    feeds = model.example_inputs(batch=3)
    feeds["input_mask"][:, 5:] = 0
    found = model.reference(feeds)["probabilities"]
    feeds["input_ids"][:, 5:] += 1
    assert np.allclose(found, model.reference(feeds)["probabilities"], atol=1e-6)


# Files


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_read_back(kind: Kind, tmp_path: Path) -> None:
    for number, model in enumerate(models(kind)):
        folder = tmp_path / str(number)
        prefix = write_checkpoint_files(model, folder, step=12)
        assert prefix == folder / "model.ckpt-12"
        loaded = open_model(folder)
        assert encoded(loaded.graph) == encoded(model.model.graph)
        assert encoded(open_model(folder / "graph.pbtxt").graph) == encoded(model.model.graph)
        assert loaded.meta.saver == model.model.meta.saver
        assert set(loaded.meta.info.ops) == {node.op for node in model.model.graph.nodes}
        assert loaded.checkpoint is not None
        assert loaded.checkpoint.step == 12
        same_variables(loaded.variables, model.model.variables)
        saved = open_model(write_saved_model(model, folder / "saved"))
        assert saved.signatures == {"serving_default": model.signature}
        assert saved.tag_sets == (("serve",),)
        assert encoded(saved.graph) == encoded(model.saved_model().graph)
        same_variables(saved.variables, model.model.variables)


def same_variables(found: Any, wanted: Any) -> None:
    assert list(found) == list(wanted)
    for name, tensor in wanted.items():
        assert found[name].dtype == tensor.dtype
        assert np.array_equal(found[name].numpy(), tensor.numpy())


@pytest.mark.parametrize("kind", KINDS)
def test_frozen_graphs_have_constants_for_variables(kind: Kind, tmp_path: Path) -> None:
    for number, model in enumerate(models(kind)):
        graph = open_model(write_frozen(model, tmp_path / f"{number}.pb")).graph
        assert list(graph_problems(graph)) == []
        assert graph.ancestors(model.output_nodes) == set(graph.by_name)
        assert not {"VariableV2", "VarHandleOp", "ReadVariableOp", "Assign", "SaveV2"} & set(graph.op_counts())
        for name in set(model.model.variables) & set(graph.by_name):
            assert np.array_equal(graph[name].get("value").numpy(), model.model.variables[name].numpy())
        assert len(set(model.model.variables) & set(graph.by_name)) >= len(model.model.variables) - 1  # global_step
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{number}.pb" for number in range(5)]


def test_a_frozen_resource_gather_takes_an_axis(tmp_path: Path) -> None:
    graph = open_model(write_frozen(bert_classifier(variables="resource"), tmp_path / "frozen.pb")).graph
    gather = graph["bert/embeddings/Gather"]
    assert (gather.op, gather.inputs[2]) == ("GatherV2", "bert/embeddings/Gather/axis")
    assert graph["bert/encoder/layer_0/attention/self/query/MatMul/ReadVariableOp"].op == "Identity"


def test_memory_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    model = bert_classifier(BertConfig(60_000, 256, 1, 2, 64, 16))
    total = sum(tensor.nbytes for tensor in model.model.variables.values())
    assert total > 60_000_000
    tracemalloc.start()
    try:
        write_checkpoint_files(model, tmp_path)
        write_frozen(model, tmp_path / "frozen.pb")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (tmp_path / "frozen.pb").stat().st_size > total
    assert peak < 16_000_000


def test_shapes_that_cannot_be_are_refused() -> None:
    builder = GraphBuilder()
    left, right = (builder.placeholder(FLOAT32, dims, "x") for dims in ((2, 3), (4, 5)))
    with pytest.raises(UsageError, match=r"node 'MatMul' \(MatMul\): inner sizes of \[2, 3\] and \[4, 5\] are 3 and 4"):
        builder.node("MatMul", [left, right])
