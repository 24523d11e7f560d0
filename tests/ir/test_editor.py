"""`with model.edit() as g:` changes graphs, functions and signatures, and refuses what does not fit together."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.support import planted
from tests.support.attack import call, function, tf2_model
from tests.support.helpers import attr_value, node_def

import tfsmith
from tfsmith.errors import InvalidModelError, NotFoundInModelError, TfsmithError, UsageError
from tfsmith.formats.graph.graphdef import plan_graph
from tfsmith.ir.body import Part
from tfsmith.ir.editor import Editor
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Asset, Collection, MetaGraph, Model, Saver, Signature, TensorInfo
from tfsmith.ir.node import Attr, Func, Node, attr
from tfsmith.ir.opdef import ArgDef, AttrDef, OpDef, builtin_op
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import UNKNOWN, Shape, dtype_named

FLOAT, INT = dtype_named("float32"), dtype_named("int32")
MINE = OpDef(
    "Mine",
    (ArgDef("x", type_attr="T"),),
    (ArgDef("y", type_attr="T"),),
    (
        AttrDef("T", "type", None, None, (FLOAT,)),
        AttrDef("mode", "string", Attr("string", b"A"), None, (b"A", b"B")),
        AttrDef("size", "int", Attr("int", 2), 1),
        AttrDef("sizes", "list(int)", Attr("list", ()), 0),
        AttrDef("rate", "float", Attr("float", 0.5)),
        AttrDef("flag", "bool", Attr("bool", False)),
    ),
)


def _op(name: str) -> OpDef | None:
    return MINE if name == "Mine" else builtin_op(name)


def _model() -> Model:
    shape = Shape((2, 3))
    nodes = (
        Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": shape, "_output_shapes": (shape,)}),
        Node("w", "Const", (), {"dtype": FLOAT, "value": ArrayTensor.of(numpy.ones((3, 4), "float32"))}),
        Node("h", "MatMul", ("x", "w"), {"T": FLOAT, "_output_shapes": (Shape((2, 4)),)}),
        Node("drop", "Identity", ("h",), {"T": FLOAT, "_class": (b"loc:@h",), "_output_shapes": (Shape((2, 4)),)}),
        Node("mine", "Mine", ("drop",), {"T": FLOAT}),
        Node("y", "Softmax", ("mine", "^w"), {"T": FLOAT, "_output_shapes": (Shape((2, 4)),)}),
    )
    info = {"x": TensorInfo("x:0", FLOAT, shape)}, {"y": TensorInfo("y:0", FLOAT, Shape((2, 4)))}
    variable = {"variable_name": "w:0", "initializer_name": "drop"}
    meta = MetaGraph(
        Part.of(Graph(nodes, ops=_op)),
        signatures_part=Part.of({"serving_default": Signature(*info)}),
        collections_part=Part.of(
            {"outs": Collection("node", ("y:0", "h:0")), "variables": Collection.of_messages([variable])}
        ),
        saver_part=Part.of(Saver("drop:0", "drop:0", "h")),
        assets_part=Part.of((Asset("w:0", "vocab.txt"),)),
    )
    return Model("metagraph", (meta,))


def _edited(*steps: Callable[[Editor], object]) -> Model:
    with _model().edit() as g:
        for step in steps:
            step(g)
    return g.model


def _refusal(*steps: Callable[[Editor], object]) -> str:
    model = _model()
    before = model.graph.nodes, dict(model.signatures)
    g = model.edit()

    def run() -> None:
        with g:
            for step in steps:
                step(g)

    with pytest.raises(TfsmithError) as error:
        run()
    assert (model.graph.nodes, dict(model.signatures)) == before
    assert len(str(error.value)) < 300
    with pytest.raises(UsageError, match=r"the edit is given up; read g\.model after the with block"):
        _ = g.model
    return str(error.value)


# Adding


def test_a_node_says_by_its_inputs_what_it_is() -> None:
    with _model().edit() as g:
        relu = g.add("Relu", ["h:0"], name="relu")
    assert (relu, relu.node, relu.outputs) == ("relu:0", "relu", ("relu:0",))
    node = g.model.graph["relu"]
    assert (node.op, node.inputs, dict(node.attrs)) == ("Relu", ("h",), {"T": attr(FLOAT)})


def test_defaults_are_written_as_tensorflow_writes_them() -> None:
    graph = _edited(lambda g: g.add("MatMul", ["x", "w"], transpose_b=True, name="m")).graph
    assert graph["m"].get("transpose_a") is False
    assert graph["m"].get("transpose_b") is True


def test_attributes_are_what_the_op_wants() -> None:
    model = _edited(
        lambda g: g.add("Placeholder", dtype="int64", shape=(None, 3), name="a"),
        lambda g: g.add("Placeholder", dtype=numpy.int64, shape=None, name="b"),
        lambda g: g.add("Const", value=numpy.array([1, 2], "int64"), dtype=numpy.dtype("int64"), name="c"),
        lambda g: g.add("Mine", "x", mode="B", size=numpy.int32(3), rate=1, sizes=numpy.array([1, 2]), name="d"),
        lambda g: g.add("Mine", "x", sizes=[], flag=numpy.bool_(True), _mark="m", name="e"),
    )
    graph = model.graph
    assert (graph["a"].get("dtype"), graph["a"].get("shape")) == (dtype_named("int64"), Shape((-1, 3)))
    assert graph["b"].attrs == graph["a"].replace(attrs={"shape": UNKNOWN}).attrs
    assert graph["c"].get("value").numpy().tolist() == [1, 2]
    assert graph["d"].attrs == {
        "T": attr(FLOAT),
        "mode": attr(b"B"),
        "size": attr(3),
        "sizes": attr((1, 2)),
        "rate": attr(1.0),
        "flag": attr(False),
    }
    assert graph["e"].attrs["sizes"] == Attr("list", ())
    assert (graph["e"].get("flag"), graph["e"].get("_mark")) == (True, b"m")


def test_lists_of_tensors() -> None:
    with _model().edit() as g:
        flat = g.add("ConcatV2", ["x", "x", "x", 0], name="flat")
        nested = g.add("ConcatV2", [["x", flat], 1], name="nested")
        split = g.add("Split", [0, nested], num_split=3, name="split")
        several = g.add("IdentityN", [split.outputs[2], "flat/axis"], name="several")
    graph = g.model.graph
    assert (graph["flat"].inputs, graph["flat"].get("N")) == (("x", "x", "x", "flat/axis"), 3)
    assert graph["flat/axis"].get("value").dtype == INT
    assert (graph["nested"].inputs, graph["nested"].get("N")) == (("x", "flat", "nested/axis"), 2)
    assert split.outputs == ("split:0", "split:1", "split:2")
    assert (graph["several"].inputs, graph["several"].get("T")) == (("split:2", "flat/axis"), (FLOAT, INT))
    assert several.outputs == ("several:0", "several:1")


def test_values_become_constants_beside_the_node() -> None:
    graph = _edited(lambda g: g.add("AddV2", ["h", 1], name="scope/add")).graph
    assert graph["scope/add"].inputs == ("h", "scope/add/y")
    assert (graph["scope/add/y"].get("value").numpy().item(), graph["scope/add/y"].get("dtype")) == (1.0, FLOAT)


def test_nodes_and_names_are_inputs_too() -> None:
    with _model().edit() as g:
        g.add("AddV2", [g["h"], "h"], name="sum")
        g.add("NoOp", ["^h", "^x"], name="end")
        g.add("Relu", "sum", name="last", device="/cpu:0")
    graph = g.model.graph
    assert [graph[name].inputs for name in ("sum", "end", "last")] == [("h", "h"), ("^h", "^x"), ("sum",)]
    assert graph["last"].device == "/cpu:0"


def test_names_that_nobody_gave_are_free() -> None:
    with _model().edit() as g:
        assert [g.add("Relu", ["h"]), g.add("Relu", ["h"]), g.const(1), g.const(2)] == [
            "Relu:0",
            "Relu_1:0",
            "Const:0",
            "Const_1:0",
        ]


def test_constants_and_placeholders() -> None:
    array = numpy.arange(3, dtype="float64")
    with _model().edit() as g:
        g.const(array, name="a")
        g.const([1, 2], name="b")
        g.const([1.5], name="c")
        g.const("text", name="d")
        g.const([1, 2], dtype="int64", name="e")
        g.const(ArrayTensor.of([1, 2, 3]), name="f")
        g.placeholder("float32", (None, 4), name="p")
        g.placeholder(numpy.int32, name="q")
    array[0] = 7.0
    graph = g.model.graph
    kinds = [graph[name].get("dtype").name for name in "abcdef"]
    assert kinds == ["float64", "int32", "float32", "string", "int64", "int64"]
    assert graph["a"].get("value").numpy().tolist() == [0.0, 1.0, 2.0]
    assert graph["d"].get("value").numpy().item() == b"text"
    assert (graph["p"].get("shape"), graph["q"].get("shape")) == (Shape((-1, 4)), UNKNOWN)


def test_an_op_of_ones_own() -> None:
    graph = _edited(lambda g: g.add("Ours", ["h"], custom=True, T=FLOAT, n=3, name="ours")).graph
    assert (graph["ours"].inputs, graph["ours"].attrs) == (("h",), {"T": attr(FLOAT), "n": attr(3)})


# Renaming


def test_a_new_name_is_followed_everywhere() -> None:
    model = _edited(lambda g: g.rename("h", "dense/h"), lambda g: g.rename("w", "dense/w"))
    graph = model.graph
    assert [node.name for node in graph] == ["x", "dense/w", "dense/h", "drop", "mine", "y"]
    assert graph["dense/h"].inputs == ("x", "dense/w")
    assert graph["drop"].inputs == ("dense/h",)
    assert graph["drop"].get("_class") == (b"loc:@dense/h",)
    assert graph["y"].inputs == ("mine", "^dense/w")
    assert model.collections["outs"].values == ("y:0", "dense/h:0")
    assert model.get_collection("variables") == ({"variable_name": "dense/w:0", "initializer_name": "drop"},)
    assert model.meta.saver == Saver("drop:0", "drop:0", "dense/h")
    assert model.meta.assets == (Asset("dense/w:0", "vocab.txt"),)
    assert graph["drop"].get("_output_shapes") == (Shape((2, 4)),)


def test_names_can_be_swapped_and_signatures_follow() -> None:
    with _model().edit() as g:
        g.rename("x", "tmp")
        g.rename("y", "x")
        g.rename("tmp", "y")
    signature = g.model.signatures["serving_default"]
    assert (signature.inputs["x"].name, signature.outputs["y"].name) == ("y:0", "x:0")
    assert g.model.graph["h"].inputs == ("y", "w")
    assert g.model.collections["outs"].values == ("x:0", "h:0")


def test_a_node_that_takes_itself_can_be_renamed() -> None:
    loop = (
        Node("enter", "Enter", ("x",), {"T": FLOAT, "frame_name": b"f"}),
        Node("merge", "Merge", ("enter", "next"), {"T": FLOAT, "N": 2}),
        Node("next", "NextIteration", ("merge",), {"T": FLOAT}),
    )
    model = _model()
    model = model.replace_graph(model.graph.replace(nodes=(*model.graph.nodes, *loop)))
    with model.edit() as g:
        g.rename("merge", "m")
        g.rewire("m:0", g.add("Relu", ["m"], name="relu"))
    graph = g.model.graph
    assert (graph["m"].inputs, graph["next"].inputs, graph["relu"].inputs) == (("enter", "next"), ("relu",), ("m",))


# Rewiring


def test_a_node_is_put_between() -> None:
    def step(g: Editor) -> None:
        relu = g.add("Relu", [g.add("Neg", ["h"], name="neg")], name="relu")
        assert g.rewire("h:0", relu) == 1

    graph = _edited(step).graph
    assert (graph["neg"].inputs, graph["relu"].inputs, graph["drop"].inputs) == (("h",), ("neg",), ("relu",))


def test_shapes_behind_a_change_are_forgotten() -> None:
    graph = _edited(lambda g: g.rewire("h", g.add("Relu", ["h"]))).graph
    assert ["_output_shapes" in graph[name].attrs for name in ("x", "h", "drop", "y")] == [True, True, False, False]
    same = _edited(lambda g: g.rewire("drop", "h")).graph
    assert ["_output_shapes" in same[name].attrs for name in ("x", "h", "drop", "y")] == [True, True, True, True]


def test_signatures_when_asked() -> None:
    with _model().edit() as g:
        assert g.rewire("y:0", g.add("ArgMax", ["y", 1], name="best"), signatures=True) == 1
    info = g.model.signatures["serving_default"].outputs["y"]
    assert (info.name, info.dtype.name, info.shape) == ("best:0", "int64", UNKNOWN)


def test_only_some_users_and_control_edges() -> None:
    with _model().edit() as g:
        g.add("Relu", ["h"], name="a")
        g.add("Relu", ["h"], name="b")
        assert g.rewire("h", "x", only=["a"]) == 1
        assert g.users("h:0") in {("drop", "b"), ("b", "drop")}
        assert g.rewire("^w", "^x") == 1
    assert [g.model.graph[name].inputs for name in ("a", "b", "y")] == [("x",), ("h",), ("mine", "^x")]


# Removing


def test_what_is_removed_leaves_no_trace() -> None:
    with _model().edit() as g:
        g.rewire("drop:0", "h:0")
        g.remove("drop")
    model = g.model
    assert ("drop" in model.graph, model.graph["mine"].inputs) == (False, ("h",))
    assert (model.meta.saver, model.get_collection("variables")) == (None, ())
    with model.edit() as g:
        g.add("Relu", ["y"], name="a", _class=["loc:@h", "loc:@x"])
        g.rewire("h", "x")
        g.remove(g["h"])
    assert g.model.graph["a"].get("_class") == (b"loc:@x",)
    assert g.model.collections["outs"].values == ("y:0",)


def test_all_that_a_tensor_does_not_need() -> None:
    with _model().edit() as g:
        assert g.prune("h:0") == 3
        g.signature("serving_default", outputs={"h": "h:0"})
    assert [node.name for node in g.model.graph] == ["x", "w", "h"]
    assert g.model.signatures["serving_default"].outputs["h"].shape == Shape((2, 4))


# Attributes


def test_attributes_are_set() -> None:
    with _model().edit() as g:
        g.set("x", shape=(None, 3))
        g.set("w", value=numpy.zeros((3, 4), "float32"))
        g.set("mine", {"mode": "B"}, size=5, _note="n")
        g.set(g["drop"], _class=None)
    graph = g.model.graph
    assert graph["x"].get("shape") == Shape((-1, 3))
    assert not graph["w"].get("value").numpy().any()
    assert (graph["mine"].get("mode"), graph["mine"].get("size"), graph["mine"].get("_note")) == (b"B", 5, b"n")
    assert "_class" not in graph["drop"].attrs
    assert not any("_output_shapes" in graph[name].attrs for name in ("x", "h", "drop", "y"))


def test_plain_values_of_a_constant_have_its_type() -> None:
    graph = _edited(lambda g: g.set("w", value=[[1, 2, 3]] * 3), lambda g: g.set("x", shape=None)).graph
    assert graph["w"].get("value").dtype == FLOAT
    assert graph["x"].get("shape") == UNKNOWN


def test_what_is_so_already_changes_nothing() -> None:
    model = _model()
    with model.edit() as g:
        g.set("mine", T="float32")
        g.rename("x", "x")
    assert g.model is model


# Functions and signatures


@pytest.fixture
def with_function(tmp_path: Path) -> Model:
    kind = attr_value(type=1)
    nodes = [node_def("a", "Relu", ["x"], {"T": kind}), node_def("b", "Neg", ["a:activations:0"], {"T": kind})]
    outer = [node_def("x", "Placeholder", attrs={"dtype": kind}), call("c", "f")]
    return tfsmith.load(tf2_model(tmp_path / "m", outer, [function("f", nodes, "b:y:0")]))


def test_functions_too(with_function: Model) -> None:
    with with_function.edit() as g:
        f = g.function("f")
        split = f.add("Split", [0, f.add("Abs", ["x"], name="abs")], num_split=2, name="split")
        f.rewire("a:0", f.add("AddV2", [split, split.outputs[1]], name="sum"))
        f.rename("b", "negated")
        f.rewire("negated", f.add("Relu", ["negated"], name="last"), signatures=True)
        assert (f.args, f.results) == (("x",), {"y": "last:activations:0"})
    found = g.model.graph.library["f"]
    assert {node.name: node.inputs for node in found} == {
        "a": ("x",),
        "negated": ("sum:z:0",),
        "abs": ("x",),
        "split": ("split/split_dim:output:0", "abs:y:0"),
        "split/split_dim": (),
        "sum": ("split:output:0", "split:output:1"),
        "last": ("negated:y:0",),
    }
    assert found.ret == {"y": "last:activations:0"}
    assert g.model.graph.nodes == with_function.graph.nodes


def test_functions_are_checked(with_function: Model) -> None:
    def refused(step: Callable[[Any], object]) -> str:
        with pytest.raises(TfsmithError) as error, with_function.edit() as g:
            step(g.function("f"))
        return str(error.value)

    assert refused(lambda f: f.remove("a")) == (
        "function 'f', node 'b': it takes 'a', which is not in function 'f'; rewire what takes it, or remove that too"
    )
    assert refused(lambda f: f.remove("b")) == (
        "function 'f': its result 'y' is 'b:y:0', which is not in it; rewire it with signatures=True"
    )
    assert refused(lambda f: f.add("Relu", ["nowhere:activations:0"], T=FLOAT)) == (
        "function 'f', node 'Relu': it takes 'nowhere', which is not in function 'f'; "
        "rewire what takes it, or remove that too"
    )
    assert refused(lambda f: f.rewire("b", f.add("Cast", ["b"], DstT="int32", name="i"), signatures=True)) == (
        "function 'f': its result 'y' is int32, not float32; let a tensor of that type be the result"
    )
    assert refused(lambda f: f.add("Relu", ["x"], name="x")) == (
        "function 'f' has a node 'x' already; choose another, such as x_1"
    )
    with with_function.edit() as g, pytest.raises(NotFoundInModelError) as error:
        g.function("g")
    assert str(error.value) == "there is no function 'g'; the functions are: f"


def test_signatures_are_added_changed_and_removed() -> None:
    with _model().edit() as g:
        g.signature("hidden", inputs={"x": "x:0"}, outputs={"h": "h", "d": g["drop"]})
        g.signature("serving_default", inputs={"in": TensorInfo("x:0", FLOAT, UNKNOWN)}, method_name="m")
    signatures = g.model.signatures
    assert {key: (info.name, info.shape) for key, info in signatures["hidden"].outputs.items()} == {
        "h": ("h:0", Shape((2, 4))),
        "d": ("drop:0", Shape((2, 4))),
    }
    assert signatures["hidden"].method_name == "tensorflow/serving/predict"
    assert (list(signatures["serving_default"].inputs), signatures["serving_default"].method_name) == (["in"], "m")
    assert signatures["serving_default"].outputs == _model().signatures["serving_default"].outputs
    with g.model.edit() as g:
        g.remove_signature("hidden")
    assert list(g.model.signatures) == ["serving_default"]


# What is refused


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (
            [lambda g: g.add("Rellu", ["h"])],
            "there is no op 'Rellu'; the nearest are *; for an op of your own pass custom=True",
        ),
        (
            [lambda g: g.add("Relu", ["h"], name="")],
            "no node can be called ''; use letters, digits and _ . - / after a letter or digit",
        ),
        (
            [lambda g: g.add("Relu", ["h"], name="a:b")],
            "no node can be called 'a:b'; use letters, digits and _ . - / after a letter or digit",
        ),
        (
            [lambda g: g.rename("h", "_h")],
            "no node can be called '_h'; use letters, digits and _ . - / after a letter or digit",
        ),
        ([lambda g: g.add("Relu", ["h"], name="x")], "the graph has a node 'x' already; choose another, such as x_1"),
        ([lambda g: g.rename("h", "x")], "the graph has a node 'x' already; choose another, such as x_1"),
        ([lambda g: g.rename("hh", "z")], "there is no node 'hh' in the graph; the nearest names are h"),
        ([lambda g: g.set("nowhere", T=FLOAT)], "there is no node 'nowhere' in the graph; *"),
        ([lambda g: g.remove("nowhere")], "there is no node 'nowhere' in the graph; *"),
        (
            [lambda g: g.add("Relu", ["h"], n=1)],
            "node 'Relu': op Relu: the op has no attribute 'n'; its attributes are: T",
        ),
        (
            [lambda g: g.set("h", n=1)],
            "node 'h': op MatMul: the op has no attribute 'n'; "
            "its attributes are: transpose_a, transpose_b, T, grad_a, grad_b",
        ),
        (
            [lambda g: g.set("mine", size="3")],
            "node 'mine': attribute 'size' cannot be set: '3' is no int; pass an int",
        ),
        (
            [lambda g: g.set("mine", size=True)],
            "node 'mine': attribute 'size' cannot be set: True is no int; pass an int",
        ),
        ([lambda g: g.set("mine", flag=1)], "node 'mine': attribute 'flag' cannot be set: 1 is no bool; pass a bool"),
        (
            [lambda g: g.set("mine", sizes=1)],
            "node 'mine': attribute 'sizes' cannot be set: 1 is no list(int); pass a list(int)",
        ),
        (
            [lambda g: g.set("mine", size=2**63)],
            "node 'mine': attribute 'size' cannot be set: 9223372036854775808 does not fit 64 bits; "
            "pass a smaller number",
        ),
        (
            [lambda g: g.set("mine", T="floof")],
            "node 'mine': attribute 'T' cannot be set: TensorFlow has no dtype 'floof'; "
            "use a name such as float32 or int64",
        ),
        (
            [lambda g: g.set("x", shape=("a",))],
            "node 'x': attribute 'shape' cannot be set: ('a',) is no shape; pass sizes, such as (None, 3)",
        ),
        (
            [lambda g: g.set("x", shape=(-3,))],
            "node 'x': attribute 'shape' cannot be set: no tensor has the shape *: it has a dimension of -3; *",
        ),
        (
            [lambda g: g.set("mine", size=Attr("string", b"3"))],
            "node 'mine': op Mine: attribute 'size' is of kind string, not int; pass another value",
        ),
        (
            [lambda g: g.set("mine", size=0)],
            "node 'mine': op Mine: attribute 'size' is 0, and the least is 1; pass another value",
        ),
        (
            [lambda g: g.set("mine", mode="C")],
            "node 'mine': op Mine: attribute 'mode' cannot be C; it may be A, B; pass another value",
        ),
        (
            [lambda g: g.set("mine", T="int32")],
            "node 'mine': op Mine: attribute 'T' cannot be int32; it may be float32; pass another value",
        ),
        (
            [lambda g: g.set("h", T="float64")],
            "the graph, node 'h': op MatMul: input 'a' is float32, not float64; "
            "put a Cast before it, or take another tensor",
        ),
        (
            [lambda g: g.set("h", T=None)],
            "the graph, node 'h': op MatMul: attribute 'T' is missing; set its attributes with g.set",
        ),
        (
            [lambda g: g.set("x", dtype="int32")],
            "the graph, node 'h': op MatMul: input 'a' is int32, not float32; "
            "put a Cast before it, or take another tensor",
        ),
        (
            [lambda g: g.set("w", value=numpy.ones(3))],
            "the graph, node 'w': op Const: attribute 'value' is float64, but 'dtype' is float32; "
            "set its attributes with g.set",
        ),
        ([lambda g: g.add("AddV2", ["h"])], "node 'AddV2': op AddV2 does not take 1 input; its inputs are: x, y"),
        (
            [lambda g: g.add("Relu", ["h", "x"])],
            "node 'Relu': op Relu does not take 2 inputs; its inputs are: features",
        ),
        (
            [lambda g: g.add("AddV2", ["h", numpy.ones(3)])],
            "the graph, node 'AddV2': op AddV2: input 'y' is float64, not float32; "
            "put a Cast before it, or take another tensor",
        ),
        (
            [lambda g: g.add("Relu", ["mnie"], T=FLOAT)],
            "the graph, node 'Relu': it takes 'mnie', which is not in the graph; the nearest names are mine",
        ),
        (
            [lambda g: g.add("Relu", ["h:1"])],
            "the graph, node 'Relu': its input 'h:1' does not exist: op MatMul has 1 output; "
            "the outputs of a node are numbered from 0",
        ),
        (
            [lambda g: g.remove("h")],
            "the graph, node 'drop': it takes 'h', which is not in the graph; rewire what takes it, or remove that too",
        ),
        (
            [lambda g: g.remove("y")],
            "signature 'serving_default', output 'y': there is no node 'y'; give it another tensor with g.signature",
        ),
        (
            [lambda g: g.rewire("x:0", "y:0", only=["h"])],
            "nothing takes 'x:0'; check its name; for what signatures give pass signatures=True",
        ),
        (
            [lambda g: g.add("AddV2", ["a", "b"], T=FLOAT, name="a")],
            "the graph, node 'a': it takes 'b', which is not in the graph; *",
        ),
        (
            [lambda g: g.add("Relu", ["b"], T=FLOAT, name="a"), lambda g: g.add("Relu", ["a"], name="b")],
            "the graph, node 'a': its inputs lead back to itself: a <- b <- a; rewire one of them",
        ),
        (
            [lambda g: g.add("Relu", ["a"], T=FLOAT, name="a")],
            "the graph, node 'a': its inputs lead back to itself: a <- a; rewire one of them",
        ),
        (
            [lambda g: g.rewire("y:0", "x:0")],
            "nothing takes 'y:0'; check its name; for what signatures give pass signatures=True",
        ),
        (
            [lambda g: g.rewire("x:0", "^y")],
            "x:0 and ^y: one is a tensor, the other waits for a node; rewire a tensor to a tensor, or ^node to ^node",
        ),
        ([lambda g: g.rewire(0, "x")], '0 is no name of a tensor; pass a name such as "x:0"'),
        (
            [lambda g: g.signature("", outputs={"y": "y"})],
            "'' is no key of a signature; use a name such as serving_default",
        ),
        (
            [lambda g: g.signature("new", inputs={"x": "x"})],
            "there is no signature 'new', and a new one needs outputs; "
            'pass outputs={"y": "y:0"}, and inputs likewise',
        ),
        (
            [lambda g: g.signature("new", outputs={"y": "yy"})],
            "there is no node 'yy' in the graph; the nearest names are y",
        ),
        (
            [lambda g: g.signature("new", outputs={"y": "y:1"})],
            "signature 'new', output 'y': 'y:1' does not exist: op Softmax has 1 output; "
            "the outputs of a node are numbered from 0",
        ),
        (
            [lambda g: g.signature("new", outputs={"y": TensorInfo("y:0", INT, UNKNOWN)})],
            "signature 'new', output 'y': 'y:0' is float32, but the signature says int32; "
            "set it again with g.signature",
        ),
        ([lambda g: g.remove_signature("new")], "there is no signature 'new'; the signatures are: serving_default"),
        ([lambda g: g.rewire("w", "h:0", only=["h"])], "nothing takes 'w:0'; *"),
        (
            [
                lambda g: g.rewire("w", g.const(numpy.ones((3, 4), "float32"))),
                lambda g: g.rewire("^w", "^x"),
                lambda g: g.remove("w"),
            ],
            "asset 'vocab.txt': it is fed to 'w:0', which is gone; leave that node where it is",
        ),
        (
            [lambda g: g.add("PartitionedCall", [["x"]], Tout=[FLOAT], f=Func("f", {}), name="c")],
            "the graph, node 'c': attribute 'f' calls function 'f', which is not there; the graph has no functions",
        ),
        (
            [lambda g: g.const([[1, 2], [3]])],
            "these are no values of a tensor: *; pass an array, or lists of one length",
        ),
        ([lambda g: g.const(object())], "these are no values of a tensor; pass numbers, or strings"),
        ([lambda g: g.function("f")], "there is no function 'f'; the graph has none"),
    ],
)
def test_refused(steps: list[Callable[[Editor], object]], text: str) -> None:
    told = _refusal(*steps)
    assert fnmatchcase(told, text), told


def test_an_error_in_the_block_leaves_all_as_it_was() -> None:
    model = _model()
    g = model.edit()

    def run() -> None:
        with g:
            g.remove("y")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run()
    assert "y" in model.graph
    with pytest.raises(UsageError) as error:
        g.add("Relu", ["h"])
    assert str(error.value) == "this edit is given up; use it inside of `with model.edit() as g:`"


def test_an_edit_has_one_block() -> None:
    g = _model().edit()
    with pytest.raises(UsageError) as error:
        g.remove("y")
    assert str(error.value) == "this edit is not open; use it inside of `with model.edit() as g:`"
    with g, pytest.raises(UsageError) as error:
        _ = g.model
    assert str(error.value) == "the edit is open; read g.model after the with block"
    with pytest.raises(UsageError) as error, g:
        pass
    assert str(error.value) == "an edit has one with block; call model.edit() again"
    with pytest.raises(NotFoundInModelError, match="a checkpoint holds variables but no graph"):
        Model("checkpoint").edit()


def test_duplicates_in_a_file_are_found() -> None:
    model = _model()
    model = model.replace_graph(model.graph.replace(nodes=(*model.graph.nodes, model.graph["x"])))
    with pytest.raises(InvalidModelError, match="two nodes have one name"):
        model.edit()


def test_looking_inside() -> None:
    with _model().edit() as g:
        g.add("Relu", ["h"], name="relu")
        assert ("relu" in g, "nowhere" in g, len(g)) == (True, False, 7)
        assert [node.name for node in g][-1] == g.nodes[-1].name == "relu"
        assert repr(g) == "<Editor of the graph, 7 nodes>"
        assert list(g.signatures) == ["serving_default"]


# Lossless


def test_untouched_nodes_keep_their_bytes(tmp_path: Path) -> None:
    model = tfsmith.load(planted.write_saved_model(tmp_path / "m"))
    with model.edit() as g:
        pass
    assert g.model is model
    node = next(node for node in model.graph if node.data_inputs)
    with model.edit() as g:
        g.rewire(node.data_inputs[0], g.add("Identity", [node.data_inputs[0]], name="new"))
    old, new = model.graph, g.model.graph
    changed = {one.name for one in new if one.raw is None}
    assert changed <= {"new"} | {use.node.name for use in old.consumers(old.resolve(node.data_inputs[0]).node)}
    assert all(new[one.name] is one for one in old if one.name not in changed)
    assert b"in GraphDef" in plan_graph(new).tobytes()
    tfsmith.save(g.model, tmp_path / "n")
    assert tfsmith.load(tmp_path / "n").graph["new"].op == "Identity"
