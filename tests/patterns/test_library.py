"""The shipped recipes, on models that tfsmith builds itself: what bert-encoder gives, and what it leaves alone."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.support.helpers import python
from tests.support.replace_models import axes, match_of, model_of, node, placeholder, query, recipe_of
from tools.make_recipes import texts

import tfsmith
from tfsmith.errors import UnsupportedError
from tfsmith.ir.body import Body, Part
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import Attr, Endpoint, Node
from tfsmith.ir.recipe import Recipe, Repeat, TargetNode
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import dtype_named
from tfsmith.ops.inference import Inference
from tfsmith.ops.shapes import flat_values
from tfsmith.patterns.build import MatchFacts
from tfsmith.patterns.expressions import evaluate
from tfsmith.patterns.matcher import Matcher
from tfsmith.testing.bert_config import BertConfig
from tfsmith.testing.models import TestModel, bert_classifier
from tfsmith.testing.variables import Kind
from tfsmith.testing.write import frozen_graph, write_frozen
from tfsmith.verbs.recipe import builtin_recipe, builtin_recipes
from tfsmith.verbs.replace import Replaced

pytestmark = pytest.mark.slow

FLOAT = dtype_named("float32")
WEIGHTS = (
    *(f"attention/self/{name}/{what}" for name in ("query", "key", "value") for what in ("kernel", "bias")),
    *("attention/output/dense/kernel", "attention/output/dense/bias"),
    *("attention/output/LayerNorm/gamma", "attention/output/LayerNorm/beta"),
    *("intermediate/dense/kernel", "intermediate/dense/bias", "output/dense/kernel", "output/dense/bias"),
    *("output/LayerNorm/gamma", "output/LayerNorm/beta"),
)


@cache
def recipe(name: str) -> Recipe:
    return tfsmith.load_recipe(name)


def test_the_list_is_complete_and_each_recipe_makes_sense() -> None:
    names = builtin_recipes()
    assert names == [
        *("attention", "bert-encoder", "dropout-removal", "fold-batch-norm", "gelu-erf", "gelu-tanh"),
        *("layer-norm", "remove-identity", "remove-no-ops"),
    ]
    for name in names:
        found = recipe(name)
        if not isinstance(found, tfsmith.Rule):  # which are proven when they are made
            Matcher(found)  # it refuses what cannot be
        assert found.name == name
        assert found.description
        assert len({variant.name for variant in found.variants}) == len(found.variants)


def test_the_files_are_what_the_tool_writes() -> None:
    for name, text in texts().items():
        assert builtin_recipe(name).read_text() == text, f"run python -m tools.make_recipes ({name})"


# bert-encoder


def frozen(test: TestModel) -> Model:
    graph = frozen_graph(test.model.graph, test.model.variables, test.output_nodes)
    return Model("graphdef", (MetaGraph(Part.of(graph)),))


def fused(replaced: Replaced) -> Node:
    assert len(replaced.matches) == 1, (replaced.reason, replaced.nearest_miss)
    return next(node for node in replaced.model.graph if node.op == "Bert")


def source(body: Body, text: str) -> str:
    """The name of the variable or constant behind a read."""
    node = body.by_name[body.resolve(text).node]
    while node.op in ("Identity", "ReadVariableOp"):
        node = body.by_name[body.resolve(node.inputs[0]).node]
    return node.name


def weights(layers: int) -> list[str]:
    return [f"bert/encoder/layer_{number}/{name}" for number in range(layers) for name in WEIGHTS]


@pytest.mark.parametrize("batch", [None, 2], ids=["open", "fixed"])
@pytest.mark.parametrize("variables", ["ref", "resource"])
@pytest.mark.parametrize("form", ["frozen", "saved_model"])
def test_bert_of_tensorflow_1(form: str, variables: Kind, batch: int | None) -> None:
    test = bert_classifier(variables=variables, batch=batch)
    model = frozen(test) if form == "frozen" else test.saved_model(output_shapes=False)
    replaced = tfsmith.replace(model, recipe("bert-encoder"))
    graph = replaced.model.graph
    node = fused(replaced)
    assert node.name == "bert/encoder/fused_bert"
    assert node.inputs[:2] == ("bert/encoder/Reshape_1", "bert/encoder/Reshape")
    assert [source(graph, text) for text in node.inputs[2:]] == weights(2)
    assert {name: attr.value for name, attr in node.attrs.items()} == {
        "HiddenAct": b"gelu_tanh",
        "HiddenSize": 16,
        "IntermediateSize": 32,
        "MaskT": dtype_named("int32"),
        "MaxSequenceLength": 20,
        "NonQuantizableDataType": FLOAT,
        "NumAttentionHeads": 2,
        "NumWeights": 32,
        "QuantizableDataType": FLOAT,
    }
    users = [use.node.op for use in graph.uses[node.name]]
    assert users in (["Reshape"], ["Shape", "Reshape"])  # the second if nobody prunes
    left = {other.op for other in graph.in_scope("bert/encoder")}
    assert not left & {"MatMul", "Softmax", "BatchMatMulV2", "Cast", "Fill", "ExpandDims", "Tanh"}
    graph.topological_order()


@pytest.mark.parametrize(("layers", "heads"), [(1, 2), (12, 12), (24, 16)], ids=["one", "base", "large"])
def test_bert_of_any_depth(layers: int, heads: int) -> None:
    test = bert_classifier(BertConfig(30, 4 * heads, layers, heads, 8 * heads), length=8)
    model = frozen(test)
    replaced = tfsmith.replace(model, recipe("bert-encoder"))
    node = fused(replaced)
    assert len(node.inputs) == 2 + 16 * layers
    assert node.get("NumWeights") == 16 * layers
    assert node.get("NumAttentionHeads") == heads
    assert [source(replaced.model.graph, text) for text in node.inputs[2:]] == weights(layers)
    computing = [one.op for one in replaced.model.graph.in_scope("bert/encoder") if one.op not in ("Const", "Identity")]
    shape = ["Shape", "StridedSlice"]
    assert sorted(computing) == sorted(["Bert", *["Reshape", "Pack"] * 2, "Reshape", *shape * 2])


def test_untouched_nodes_stay_the_same_objects() -> None:
    model = frozen(bert_classifier())
    replaced = tfsmith.replace(model, recipe("bert-encoder"))
    for one in replaced.model.graph:
        if one.op != "Bert" and one.name != "bert/encoder/Reshape_3":
            assert one is model.graph[one.name]


def edited(model: Model, name: str, **changes: Any) -> Model:
    node = model.graph[name]
    return model.replace_graph(model.graph.map_nodes({name: node.replace(**changes)}))


def constant(value: Any) -> dict[str, Any]:
    return {"attrs": {"value": ArrayTensor.of(value, FLOAT)}}


LAYER = "bert/encoder/layer_0"
OFF: dict[str, tuple[str, dict[str, Any]]] = {
    "an epsilon": (f"{LAYER}/output/LayerNorm/batchnorm/add/y", constant(1e-3)),
    "a factor of gelu": (f"{LAYER}/intermediate/dense/mul/x", constant(0.05)),
    "a mask that shows what it hides": (f"{LAYER}/attention/self/mul_1/y", constant(1.0)),
    "the scale": (f"{LAYER}/attention/self/Mul/y", constant(0.3)),
    "an attribute": (f"{LAYER}/attention/self/MatMul", {"attrs": {"adj_y": False}}),
    "another attribute": (f"{LAYER}/output/LayerNorm/moments/mean", {"attrs": {"keep_dims": False}}),
    "an op": (f"{LAYER}/intermediate/dense/Tanh", {"op": "Sigmoid"}),
    "an axis": (
        f"{LAYER}/attention/self/transpose/perm",
        {"attrs": {"value": ArrayTensor.of([0, 1, 2, 3], dtype_named("int32"))}},
    ),
}


@pytest.mark.parametrize(("name", "change"), OFF.values(), ids=OFF)
def test_one_thing_off_is_no_match(name: str, change: dict[str, Any]) -> None:
    model = frozen(bert_classifier(BertConfig(30, 16, 1, 2, 32)))
    node = model.graph[name]
    if "op" in change:
        new = Node(node.name, change["op"], node.inputs, dict(node.attrs), node.device)
        model = model.replace_graph(model.graph.map_nodes({name: new}))
    else:
        model = edited(model, name, **change)
    replaced = tfsmith.replace(model, recipe("bert-encoder"))
    assert not replaced.matches
    assert replaced.model is model
    assert replaced.nearest_miss is not None or replaced.skipped


def test_what_hides_words_may_be_any_number() -> None:
    model = frozen(bert_classifier(BertConfig(30, 16, 1, 2, 32)))
    other = edited(model, f"{LAYER}/attention/self/mul_1/y", **constant(-5000.0))
    assert fused(tfsmith.replace(other, recipe("bert-encoder"))).get("MaskAdder") == -5000.0


def test_an_epsilon_that_both_norms_have_is_in_the_node() -> None:
    model = frozen(bert_classifier(BertConfig(30, 16, 1, 2, 32)))
    for part in ("output", "attention/output"):
        model = edited(model, f"{LAYER}/{part}/LayerNorm/batchnorm/add/y", **constant(1e-3))
    assert fused(tfsmith.replace(model, recipe("bert-encoder"))).get("LayerNormEpsilon") == pytest.approx(1e-3)


def swapped(model: Model, name: str) -> Model:
    first, second = model.graph[name].data_inputs[:2]
    return edited(model, name, inputs=(second, first))


def test_a_swapped_edge_is_no_match_unless_the_op_commutes() -> None:
    model = frozen(bert_classifier(BertConfig(30, 16, 1, 2, 32)))
    assert not tfsmith.replace(
        swapped(model, f"{LAYER}/output/LayerNorm/batchnorm/sub"), recipe("bert-encoder")
    ).matches
    assert not tfsmith.replace(swapped(model, f"{LAYER}/attention/self/sub"), recipe("bert-encoder")).matches
    for name in ("output/LayerNorm/batchnorm/add_1", "intermediate/dense/mul_1", "attention/self/add", "output/add"):
        assert tfsmith.replace(swapped(model, f"{LAYER}/{name}"), recipe("bert-encoder")).matches, name


@pytest.mark.parametrize("name", ["attention/self/query", "attention/output/dense", "output/dense"])
def test_a_turned_kernel_is_turned_back_and_a_turned_input_is_no_match(name: str) -> None:
    model = frozen(bert_classifier(BertConfig(30, 16, 1, 2, 16)))
    assert tfsmith.replace(model, recipe("bert-encoder")).matches
    turned = edited(model, f"{LAYER}/{name}/MatMul", attrs={"transpose_b": True})
    graph = tfsmith.replace(turned, recipe("bert-encoder")).model.graph
    (back,) = (graph[node.inputs[0]].name for node in graph if node.op == "Transpose")
    assert source(graph, back) == f"{LAYER}/{name}/kernel"
    other = edited(model, f"{LAYER}/{name}/MatMul", attrs={"transpose_a": True})
    replaced = tfsmith.replace(other, recipe("bert-encoder"))
    assert not replaced.matches
    assert replaced.nearest_miss is not None
    assert replaced.nearest_miss.reason.startswith("layer 0: ")


def test_a_mask_that_is_added_after_the_softmax_is_named_so() -> None:
    model = frozen(bert_classifier(BertConfig(30, 16, 2, 2, 32)))
    for layer in range(2):
        scope = f"bert/encoder/layer_{layer}/attention/self"
        late, user = model.graph[f"{scope}/add"], model.graph[f"{scope}/MatMul_1"]
        changes = {
            f"{scope}/Softmax": model.graph[f"{scope}/Softmax"].replace(inputs=(f"{scope}/Mul",)),
            late.name: late.replace(inputs=(f"{scope}/Softmax", late.inputs[1])),
            user.name: user.replace(inputs=(late.name, user.inputs[1])),
        }
        model = model.replace_graph(model.graph.map_nodes(changes))
    found = tfsmith.find(model, "bert-encoder")
    assert not found
    assert found.nearest_miss is not None
    assert found.nearest_miss.reason == "attention of layer 1: the mask is added after the softmax"
    assert found.nearest_miss.found_node == f"{scope}/MatMul_1"


def test_query_and_key_from_different_layers_are_no_match() -> None:
    model = frozen(bert_classifier())
    wrong = edited(
        model,
        "bert/encoder/layer_1/attention/self/key/MatMul",
        inputs=("bert/encoder/Reshape_1", model.graph["bert/encoder/layer_1/attention/self/key/MatMul"].inputs[1]),
    )
    replaced = tfsmith.replace(wrong, recipe("bert-encoder"))
    assert all(len(match.units) == 1 for match in replaced.matches)


def test_an_output_index_off_is_no_match() -> None:
    model = frozen(bert_classifier(BertConfig(30, 16, 1, 2, 32)))
    name = f"{LAYER}/attention/self/Softmax"
    user = f"{LAYER}/attention/self/MatMul_1"
    other = edited(model, user, inputs=(f"{name}:1", model.graph[user].inputs[1]))
    assert not tfsmith.replace(other, recipe("bert-encoder")).matches


def test_an_inner_value_that_others_use_is_not_lost() -> None:
    test = bert_classifier()
    model = frozen(test)
    inner = "bert/encoder/layer_1/attention/self/Softmax"
    looking = Node("shares", "Identity", (inner,), {"T": FLOAT})
    model = model.replace_graph(model.graph.replace(nodes=(*model.graph.nodes, looking)))
    replaced = tfsmith.replace(model, recipe("bert-encoder"))
    assert not replaced.matches
    assert "Softmax" in (replaced.reason or "")
    assert any("shares" in user for user in replaced.skipped[0].users)
    kept = tfsmith.replace(model, recipe("bert-encoder"), keep_shared=True)
    assert kept.model.graph["shares"].inputs == (inner,)
    assert len(fused(kept).inputs) == 34


def test_a_broken_layer_in_the_middle_leaves_a_sound_graph() -> None:
    model = frozen(bert_classifier(BertConfig(30, 16, 3, 2, 32)))
    model = edited(model, "bert/encoder/layer_1/output/LayerNorm/batchnorm/add/y", **constant(1e-3))
    replaced = tfsmith.replace(model, recipe("bert-encoder"))
    assert replaced.matches or replaced.skipped
    graph = replaced.model.graph
    graph.topological_order()
    for one in graph:
        assert all(end.node in graph for end in graph.inputs_of(one))
    assert "bert/encoder/layer_1/output/LayerNorm/batchnorm/add_1" in graph


def test_erf_is_told_from_tanh() -> None:
    """BERT's first activation, x * 0.5 * (1 + erf(x / sqrt(2))), put in the place of the other."""
    model = frozen(bert_classifier(BertConfig(30, 16, 1, 2, 32)))
    scope = f"{LAYER}/intermediate/dense"
    two = Node(f"{scope}/Sqrt/x", "Const", (), {"dtype": FLOAT, "value": ArrayTensor.of(2.0, FLOAT)})
    root = Node(f"{scope}/Sqrt", "Sqrt", (two.name,), {"T": FLOAT})
    ratio = Node(f"{scope}/truediv", "RealDiv", (f"{scope}/BiasAdd", root.name), {"T": FLOAT})
    erf = Node(f"{scope}/Tanh", "Erf", (ratio.name,), {"T": FLOAT})
    nodes = [erf if node.name == erf.name else node for node in model.graph]
    model = model.replace_graph(model.graph.replace(nodes=(two, root, ratio, *nodes)))
    assert (
        fused(tfsmith.replace(model, recipe("bert-encoder"), outputs=["loss/output"])).get("HiddenAct") == b"gelu_erf"
    )


def test_saved_with_the_custom_op_and_read_again(tmp_path: Path) -> None:
    replaced = tfsmith.replace(frozen(bert_classifier()), recipe("bert-encoder"))
    tfsmith.save(replaced.model, tmp_path / "bert.pb")
    again = tfsmith.load(tmp_path / "bert.pb")
    assert again.graph.custom_ops() == ("Bert",)
    assert again.graph["bert/encoder/fused_bert"].inputs == fused(replaced).inputs
    assert again.graph["bert/encoder/fused_bert"].attrs["MaskT"] == Attr("type", dtype_named("int32"))


# What the recipes rely on


def test_a_size_that_nobody_knows_may_have_a_default() -> None:
    model = model_of([placeholder("x", (None, 4)), node("y", "Relu", "x")])
    facts = MatchFacts(
        match_of(recipe_of([query("r", "Relu", "x")], ["x"], {"r": "x"}), {"r": "y"}, {"x": "x"}),
        model.graph,
        Inference(model.graph),
    )
    assert evaluate("dim(x, 0, 128)", facts) == 128
    assert evaluate("dim(x, 1, 128)", facts) == 4
    assert evaluate("dim(x, 7, 128)", facts) == 128
    with pytest.raises(UnsupportedError, match="axis 0"):
        evaluate("dim(x, 0)", facts)


def test_the_sizes_that_a_packed_shape_says_are_known() -> None:
    nodes = [
        placeholder("x", None),
        Node("batch", "Placeholder", (), {"dtype": dtype_named("int32")}),
        axes("heads", 3),
        axes("size", 4),
        Node("shape", "Pack", ("batch", "heads", "size"), {"T": dtype_named("int32"), "N": 3, "axis": 0}),
        node("split", "Reshape", "x", "shape"),
    ]
    knowledge = Inference(model_of(nodes).graph)
    assert knowledge.shape(model_of(nodes).graph, Endpoint("split", 0)).dims == (-1, 3, 4)


def layers_that_ask_for_their_shape(*, outside: bool) -> Model:
    """Two blocks, tanh(reshape(x, shape(x))): each asks for the shape of what the other gives."""
    nodes = [placeholder("x")]
    for number, below in enumerate(("x", "tanh_0")):
        nodes.append(Node(f"shape_{number}", "Shape", (below,), {"T": FLOAT}))
        nodes.append(node(f"reshaped_{number}", "Reshape", below, f"shape_{number}"))
        nodes.append(node(f"tanh_{number}", "Tanh", f"reshaped_{number}"))
    if outside:
        nodes.append(node("y", "Reshape", "tanh_1", "shape_1"))
    return model_of([*nodes, node("z", "Neg", "y" if outside else "tanh_1")])


def shaped_recipe() -> Recipe:
    unit = [query("reshaped", "Reshape", "x", "shape"), query("tanh", "Tanh", "reshaped")]
    target = TargetNode("fused", "Tanh", ("x",))
    return recipe_of(unit, ["x", "shape"], {"tanh": "fused"}, target, repeat=Repeat({"x": Endpoint("tanh", 0)}))


def test_what_only_serves_the_match_goes_with_it() -> None:
    done = tfsmith.replace(layers_that_ask_for_their_shape(outside=False), shaped_recipe())
    assert [(one.name, one.inputs) for one in done.model.graph][1:] == [("fused", ("x",)), ("z", ("fused",))]


def test_what_also_serves_others_is_refused() -> None:
    done = tfsmith.replace(layers_that_ask_for_their_shape(outside=True), shaped_recipe())
    assert not done.matches
    assert "shape_1 (Shape)" in (done.reason or "")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        *(("float32", [0.1, -3.5, 1e-12]), ("float64", [0.1, 2.0]), ("int32", [-7, 8]), ("int64", [2**40, -1])),
        *(("bool", [True, False]), ("uint8", [0, 255]), ("bfloat16", [0.5, 3.0]), ("float16", [0.5, -2.0])),
    ],
)
def test_small_values_are_those_of_numpy(kind: str, values: list[Any]) -> None:
    dtype = dtype_named(kind)
    for tensor in (ArrayTensor.of(values, dtype), ArrayTensor.of(values[0], dtype), ArrayTensor.of([values], dtype)):
        assert flat_values(tensor) == tensor.numpy().reshape(-1).tolist()


def test_a_search_takes_no_numpy(tmp_path: Path) -> None:
    write_frozen(bert_classifier(), tmp_path / "bert.pb")
    arguments = ["replace", str(tmp_path / "bert.pb"), "-r", "bert-encoder", "-o", str(tmp_path / "new.pb")]
    program = f"import sys; from tfsmith.cli.main import main; sys.exit(main({arguments}) or 'numpy' in sys.modules)"
    done = python("-c", program)
    assert done.returncode == 0, done.stderr
