"""`tfsmith check`: which parts of a model another program cannot import."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.convert_models import TF2_MODEL, saved_model, small

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library, Versions
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import Func, Node
from tfsmith.ir.opdef import ArgDef, OpDef, builtin_ops
from tfsmith.ir.tensor import ArrayTensor, StringTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.passes.check_target import find_target, target_names
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model

FLOAT, STRING = dtype_named("float32"), dtype_named("string")
X = Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((1, 2))})
TABLES = Path(tfsmith.__file__).parent / "passes" / "targets"


def model(nodes: Sequence[Node], *, library: Library | None = None, versions: Versions | None = None) -> Model:
    graph = Graph(tuple(nodes), versions or Versions(21), library)
    return Model("graphdef", (MetaGraph(Part.of(graph)),))


def relu(name: str, source: str, op: str = "Relu", **attrs: Any) -> Node:
    return Node(name, op, (source,), {"T": FLOAT, **attrs})


def test_the_tables_are_sound() -> None:
    known = builtin_ops()
    for name in target_names():
        target = find_target(name)
        assert target.title
        assert target.source
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", target.date)
        assert {"Const", "Placeholder", "Identity", "MatMul", "Relu", "Reshape"} <= target.ops, name
    for name in ("migraphx", "openvino", "tflite", "tflite-flex"):
        assert find_target(name).ops <= known.keys(), name
    assert all(re.fullmatch(r"[ -~]*", line) for path in TABLES.glob("*.txt") for line in path.read_text().splitlines())


def test_releases_of_tensorflow() -> None:
    last = find_target("tensorflow-2.21")
    assert last.ops >= builtin_ops().keys()
    assert not last.later_attrs
    assert (last.graph_version, find_target("tf-1.15.3").graph_version) == (2474, 134)
    for op, first in (("BatchMatMulV2", "1.14"), ("Einsum", "1.15"), ("BatchMatMulV3", "2.6"), ("GatherV2", "1.3")):
        releases = [name for name in target_names() if name.startswith("tensorflow-") and op in find_target(name).ops]
        assert releases[0] == f"tensorflow-{first}"
    assert "FusedBatchNormV3.exponential_avg_factor" in find_target("tensorflow-2.1").later_attrs
    assert "FusedBatchNormV3.exponential_avg_factor" not in find_target("tensorflow-2.2").later_attrs


@pytest.mark.parametrize("name", ["migrafx", "tensorflow", "tensorflow-9.9", "", "tensorflow-2", "../migraphx"])
def test_no_such_target(name: str) -> None:
    with pytest.raises(UsageError, match=r"`tfsmith\.list_targets\(\)` shows all"):
        find_target(name)


def test_unknown_ops_with_their_nodes() -> None:
    nodes = [X, relu("a", "x", "Selu"), relu("b", "a", "Selu"), relu("c", "b", "Mish2")]
    found = tfsmith.check(model(nodes), "migraphx")
    assert [(one.kind, one.subject, one.nodes) for one in found.obstacles] == [
        ("op", "Selu", ("a", "b")),
        ("op", "Mish2", ("c",)),
    ]
    assert "no op of TensorFlow's own" in found.obstacles[1].remedy
    assert not found.is_clean


def test_only_what_the_outputs_need() -> None:
    nodes = [X, relu("a", "x"), relu("b", "x", "Selu")]
    assert tfsmith.check(model(nodes), "migraphx", outputs=["a"]).is_clean
    assert not tfsmith.check(model(nodes), "migraphx").is_clean
    with pytest.raises(NotFoundInModelError, match="no node 'q'"):
        tfsmith.check(model(nodes), "migraphx", outputs=["q"])


def test_what_only_an_assert_needs_is_passed_over() -> None:
    nodes = [
        X,
        relu("range", "x", "Selu"),
        Node("all", "All", ("range",), {}),
        Node("check/Assert", "Assert", ("all",), {}),
        Node("y", "Relu", ("x", "^check/Assert"), {"T": FLOAT}),
    ]
    found = tfsmith.check(model(nodes), "migraphx")
    assert found.is_clean
    assert found.notes == (
        "Selu is not known, but only Assert and NoOp need it, which MIGraphX passes over: range",
        "of MIGraphX only the ops' names are known: types, attributes and shapes were not tried",
    )
    nodes.append(relu("z", "all"))  # somebody else takes it
    assert [one.subject for one in tfsmith.check(model(nodes), "migraphx").obstacles] == ["Selu"]


def test_strings() -> None:
    text = Node("s", "Const", (), {"dtype": STRING, "value": StringTensor(Shape(()), [b"a"])})
    found = tfsmith.check(model([X, relu("a", "x"), text]), "migraphx")
    assert [(one.kind, one.subject, one.nodes) for one in found.obstacles] == [("dtype", "string", ("s",))]
    named = text.replace(name="check/Assert/data_0")  # MIGraphX goes by names, too
    assert tfsmith.check(model([X, relu("a", "x"), named]), "migraphx").is_clean


@pytest.mark.parametrize(
    ("shape", "option"),
    [
        (Shape((-1, 128)), "batch_size=1"),
        (Shape((-1, -1)), "input_shapes={'x': [1, '...']}"),
        (Shape(None), "input_shapes={'x': [1, '...']}"),
    ],
)
def test_open_dimensions(shape: Shape, option: str) -> None:
    nodes = [X.replace(attrs={"shape": shape}), relu("a", "x")]
    (found,) = tfsmith.check(model(nodes), "migraphx").obstacles
    assert (found.kind, found.nodes) == ("shape", ("x",))
    assert option in found.remedy
    assert tfsmith.check(model(nodes), "openvino").is_clean


def test_bert_frozen_with_a_fixed_batch_is_clean_for_migraphx(tmp_path: Path) -> None:
    path = write_frozen(bert_classifier(batch=1), tmp_path / "frozen.pb")
    found = tfsmith.check(path, "migraphx")
    assert found.obstacles == ()
    assert [note.partition(" ")[0] for note in found.notes] == ["Range", "of"]
    for target in ("openvino", "tflite", "onnx", "tf2onnx", "tensorflow-2.21"):
        assert tfsmith.check(path, target).is_clean, target


def test_bert_with_an_open_batch_is_told(tmp_path: Path) -> None:
    made = bert_classifier()
    found = tfsmith.check(write_frozen(made, tmp_path / "frozen.pb"), "migraphx").obstacles
    # a batch that is known only when it runs needs an op that fills a tensor of that size
    assert [(one.kind, one.subject) for one in found] == [("op", "Fill"), ("shape", "")]
    assert "batch_size=1" in found[1].remedy
    loaded = tfsmith.load(write_checkpoint_files(made, tmp_path))
    fixed = tfsmith.freeze(loaded, outputs=made.output_nodes, batch_size=1).model
    assert "shape" not in [one.kind for one in tfsmith.check(fixed, "migraphx").obstacles]


def test_freezing_is_the_remedy(tmp_path: Path) -> None:
    path = write_saved_model(bert_classifier(batch=1), tmp_path / "saved")
    found = tfsmith.check(path, "migraphx")
    assert [(one.kind, one.subject) for one in found.obstacles] == [("format", ""), ("op", "VariableV2")]
    assert {one.remedy for one in found.obstacles} == {f"`tfsmith.freeze({str(path)!r}, out='frozen.pb')`"}


def test_what_freezing_does_not_remove_is_found_beforehand() -> None:
    made = small()
    nodes = (*made.graph.nodes, relu("end", "y", "Selu"))
    found = tfsmith.check(made.replace_graph(made.graph.replace(nodes=nodes)), "migraphx", outputs=["end"])
    remedies = {one.subject: one.remedy for one in found.obstacles}
    assert "tfsmith.freeze(" in remedies["VariableV2"]
    assert "tfsmith.freeze(" not in remedies["Selu"]


def test_functions_are_uncovered() -> None:
    found = tfsmith.check(TF2_MODEL, "migraphx", signature="serving_default")
    subjects = {one.subject: one.remedy for one in found.obstacles if one.kind == "op"}
    assert set(subjects) == {"StatefulPartitionedCall", "VarHandleOp"}
    assert all("tfsmith.freeze(" in remedy for remedy in subjects.values())


def function(name: str, *nodes: Node) -> Function:
    signature = OpDef(name, (ArgDef("x", FLOAT),), (ArgDef("y", FLOAT),))
    return Function(name, Part.of(FunctionParts(signature, nodes, {"y": f"{nodes[-1].name}:z:0"})))


def test_ops_inside_of_functions() -> None:
    inner = function("inner", relu("deep", "x", "Betainc"))
    outer = function("outer", Node("call", "PartitionedCall", ("x",), {"f": Func("inner", {})}))
    unused = function("unused", relu("far", "x", "Betainc"))
    library = Library({one.name: one for one in (outer, inner, unused)})
    graph = model([X, Node("y", "StatefulPartitionedCall", ("x",), {"f": Func("outer", {})})], library=library)
    (found,) = tfsmith.check(graph, "openvino").obstacles
    assert (found.subject, found.nodes) == ("Betainc", ("inner/deep",))


def test_functions_that_call_each_other_come_to_an_end() -> None:
    one = function("one", Node("call", "PartitionedCall", ("x",), {"f": Func("two", {})}))
    two = function("two", Node("call", "PartitionedCall", ("x",), {"f": Func("one", {})}))
    library = Library({"one": one, "two": two})
    graph = model([X, Node("y", "one", ("x",), {})], library=library)
    assert tfsmith.check(graph, "openvino").node_count == 4


def test_releases_lack_ops_attributes_and_versions() -> None:
    attrs = {"T": FLOAT, "Tidx": dtype_named("int32")}
    nodes = [X, Node("e", "Einsum", ("x", "x"), {"N": 2, "T": FLOAT, "equation": "ab,ab->a"})]
    nodes.append(Node("m", "MatMul", ("x", "x"), {**attrs, "grad_a": True, "grad_b": False}))
    found = tfsmith.check(model(nodes, versions=Versions(2000, 500)), "tensorflow-1.14")
    assert [(one.kind, one.subject) for one in found.obstacles] == [
        ("version", ""),
        ("op", "Einsum"),
        ("attribute", "MatMul.grad_a"),
        ("attribute", "MatMul.grad_b"),
    ]
    assert "can go" in found.obstacles[3].remedy
    assert "can go" not in found.obstacles[2].remedy
    assert tfsmith.check(model(nodes, versions=Versions(2000)), "tensorflow-2.21").is_clean
    (left,) = tfsmith.check(model(nodes, versions=Versions(2000)), "tensorflow-2.5").obstacles
    assert (left.subject, left.what.endswith("and would work without it")) == ("MatMul.grad_a", True)


def test_a_later_producer_is_a_note() -> None:
    found = tfsmith.check(model([X], versions=Versions(2000)), "tensorflow-2.3")
    assert found.is_clean
    assert "a later TensorFlow wrote the graph (version 2000; TensorFlow 2.3 has 440)" in found.notes[0]
    bad = tfsmith.check(model([X], versions=Versions(2000, 0, (440,))), "tensorflow-2.3")
    assert [one.kind for one in bad.obstacles] == ["version"]


def test_default_attributes_of_a_saved_model_are_no_obstacle() -> None:
    made = saved_model()
    node = Node("y2", "MatMul", ("x", "x"), {"T": FLOAT, "grad_a": False})
    nodes = (*made.graph.nodes, node)
    graph = made.replace_graph(made.graph.replace(nodes=nodes))
    assert tfsmith.check(graph, "tensorflow-2.3", outputs=["y2"]).is_clean


def test_select_ops() -> None:
    graph = model([X, relu("a", "x", "Erf")])
    (found,) = tfsmith.check(graph, "tflite").obstacles
    assert "SELECT_TF_OPS" in found.remedy
    assert tfsmith.check(graph, "tflite-flex").is_clean


def _constant(name: str, value: Any) -> Node:
    tensor = ArrayTensor.of(value, dtype_named("int32" if isinstance(value, list) else "float32"))
    return Node(name, "Const", (), {"dtype": tensor.dtype, "value": tensor})


def _product(name: str, first: str, second: str, op: str = "Mul") -> Node:
    return Node(name, op, (first, second), {"T": FLOAT})


@pytest.mark.parametrize(
    ("ends", "is_clean"),
    [
        ([relu("e", "x", "Erf"), _product("sum", "e", "one", "AddV2"), _product("y", "half_x", "sum")], True),
        ([relu("e", "x", "Erf"), _product("sum", "one", "e", "AddV2"), _product("y", "half_x", "sum")], True),
        ([relu("e", "x", "Erf"), _product("sum", "half", "e", "AddV2"), _product("y", "half_x", "sum")], False),
        ([relu("e", "x", "Erf"), _product("y", "half_x", "e")], False),
        ([relu("e", "x", "Erf"), _product("sum", "e", "one", "AddV2"), _product("y", "x", "sum")], False),
        ([relu("e", "scaled", "Erfc"), _product("y", "half_x", "e")], True),
        ([relu("e", "scaled", "Erfc"), _product("y", "e", "half_x")], False),
        ([relu("e", "x", "Erfc"), _product("y", "half_x", "e")], False),
        ([relu("e", "scaled", "Erfc"), _product("y", "half_x", "e"), relu("z", "e")], False),
        ([relu("e", "scaled", "Erfc")], False),
    ],
)
def test_tflite_takes_erf_and_erfc_as_parts_of_a_gelu(ends: list[Node], is_clean: bool) -> None:
    """These are what its converter takes and does not take: `test_check_parity.py` asks it."""
    start = [X, _constant("half", 0.5), _constant("one", 1.0), _product("half_x", "half", "x"), relu("neg", "x", "Neg")]
    found = tfsmith.check(model([*start, _product("scaled", "neg", "one"), *ends]), "tflite")
    assert found.is_clean == is_clean
    assert tuple(one.subject for one in found.obstacles) == (() if is_clean else (ends[0].op,))


@pytest.mark.parametrize(("sizes", "obstacles", "notes"), [([1, 6], 0, 0), ([-1, 6], 1, 0), (-1.0, 0, 1)])
def test_tflite_takes_lists_of_tensors_of_one_shape(sizes: Any, obstacles: int, notes: int) -> None:
    """As the recurrent layers of Keras have them."""
    made = Node("list", "TensorListReserve", ("sizes", "x"), {"element_dtype": FLOAT})
    graph = model([X, _constant("sizes", sizes), made])
    found = tfsmith.check(graph, "tflite")
    assert [(one.kind, one.subject, one.what, one.nodes) for one in found.obstacles] == obstacles * [
        ("shape", "TensorListReserve", "TensorFlow Lite takes no TensorListReserve whose elements have open dimensions",
         ("list",)),
    ]  # fmt: skip
    assert len([note for note in found.notes if "elements" in note]) == notes
    assert tfsmith.check(graph, "tflite-flex").obstacles == ()


def test_tflite_was_asked_about_types() -> None:
    double = dtype_named("float64")
    x = Node("x", "Placeholder", (), {"dtype": double, "shape": Shape((2, 3))})
    absolute = Node("a", "Abs", ("x",), {"T": double})
    (found,) = tfsmith.check(model([x, absolute]), "tflite").obstacles
    assert (found.kind, found.subject, found.nodes) == ("dtype", "Abs", ("a",))
    assert found.what == "TensorFlow Lite takes no Abs with T=float64"
    assert "SELECT_TF_OPS" in found.remedy
    assert tfsmith.check(model([x, absolute]), "tflite-flex").is_clean
    assert tfsmith.check(model([X, relu("a", "x", "Abs")]), "tflite").is_clean


def test_tflite_computes_what_depends_on_constants_only() -> None:
    tensor = ArrayTensor.of([1.0, -2.0], dtype_named("float64"))
    constant = Node("c", "Const", (), {"dtype": tensor.dtype, "value": tensor})
    absolute = Node("a", "Abs", ("c",), {"T": tensor.dtype})
    cast = Node("b", "Cast", ("a",), {"SrcT": tensor.dtype, "DstT": FLOAT})
    graph = model([X, constant, absolute, cast, _product("y", "x", "b")])
    assert tfsmith.check(graph, "tflite").is_clean


def test_what_was_not_tried_with_its_types_is_said() -> None:
    found = tfsmith.check(
        model([X, Node("a", "Bitcast", ("x",), {"T": FLOAT, "type": dtype_named("int32")})]), "tflite"
    )
    assert found.notes == (
        "TensorFlow Lite was asked about other ops with their types; of Bitcast only the names are known",
        "TensorFlow Lite 2.21 was asked op by op, and with types: attributes and shapes were not tried",
    )


def test_how_it_is_known_is_said_for_every_target() -> None:
    for found in tfsmith.check(model([X, relu("a", "x")]), "all").each:
        assert found.notes[-1] == found.target.known
        assert found.to_json()["target"]["known_by"] == found.target.known_by
    known = [find_target(name).known_by for name in ("migraphx", "openvino", "tf2onnx", "tflite", "tflite-flex")]
    assert known == ["names", "ops", "names", "types", "types"]
    assert find_target("tensorflow-2.3").known_by == "attributes"
    assert find_target("openvino").known == (
        "OpenVINO 2026.4.1 was asked op by op: types, attributes and shapes were not tried"
    )


def test_text_is_no_binary_graph(tmp_path: Path) -> None:
    tfsmith.save(model([X, relu("a", "x")]), tmp_path / "g.pbtxt")
    (found,) = tfsmith.check(tmp_path / "g.pbtxt", "migraphx").obstacles
    assert (found.kind, "tfsmith.convert(" in found.remedy) == ("format", True)


def test_a_checkpoint_has_no_graph(tmp_path: Path) -> None:
    tfsmith.save(small(saver=True), tmp_path / "m.meta")
    (tmp_path / "m.meta").unlink()
    with pytest.raises(NotFoundInModelError, match="no graph"):
        tfsmith.check(tmp_path / "m", "migraphx")


@pytest.fixture
def path(tmp_path: Path) -> str:
    nodes = [X, *(relu(f"n{number}", "x", "Selu") for number in range(5))]
    tfsmith.save(model(nodes), tmp_path / "g.pb")
    return str(tmp_path / "g.pb")


def test_command(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", path, "--for", "onnx", "--outputs", "n0,n1"]) == 0
    assert capsys.readouterr().out == (
        "ONNX opset 18: nothing stands in the way (3 nodes, as freezing leaves them)\n"
        "  note: the model was lowered to ONNX as convert does it: what is not named here has a form in it\n"
    )
    assert main(["check", path, "--for", "tf2onnx"]) == 0
    assert capsys.readouterr().out == (
        "ONNX (tf2onnx) opset 17: nothing stands in the way (6 nodes)\n"
        "  note: of ONNX (tf2onnx) only the ops' names are known: types, attributes and shapes were not tried\n"
    )
    assert main(["check", path, "--for", "migraphx"]) == 1
    out = capsys.readouterr().out
    assert "MIGraphX has no Selu: 5 nodes" in out
    assert "and 2 more; --all shows them" in out
    assert "n4" not in out
    assert main(["check", path, "--for", "migraphx", "--all"]) == 1
    assert "n4" in capsys.readouterr().out


def test_command_json(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", path, "--for", "migraphx", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["clean"] is False
    assert facts["obstacles"][0]["nodes"] == ["n0", "n1", "n2", "n3", "n4"]
    assert facts["target"]["version"] == find_target("migraphx").version
    assert "AMDMIGraphX" in facts["target"]["source"]


def test_command_for_all_targets(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", path, "--for", "all"]) == 1
    assert (
        capsys.readouterr().out
        == """\
  target                  known by    obstacles
  onnx                    trial               0  nothing stands in the way
  migraphx                names               1  op Selu
  openvino                ops                 0  nothing stands in the way
  tf2onnx                 names               0  nothing stands in the way
  tflite                  types               0  nothing stands in the way
  tflite-flex             types               0  nothing stands in the way
  tensorflow-1.0 to 1.3   attributes          1  op Selu
  tensorflow-1.4 to 2.21  attributes          0  nothing stands in the way
  `tfsmith check --for TARGET` lists the nodes and what to do
"""
    )
    assert main(["check", path, "--for", "all", "--json"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["path"], facts["clean"]) == (path, False)
    assert [one["target"]["name"] for one in facts["targets"]] == ["onnx", *target_names()]
    assert facts["targets"][1] == tfsmith.check(path, "migraphx").to_json()


def test_all_targets_in_python() -> None:
    found = tfsmith.check(model([X, relu("a", "x")]), "all")
    assert found
    assert [one.target.name for one in found.each] == ["onnx", *target_names()]
    assert str(found).splitlines()[-2] == "  tensorflow-1.0 to 2.21  attributes          0  nothing stands in the way"
    wrong = tfsmith.check(model([X, relu("a", "x", "Mish2")]), "all")
    assert [one.subject for one in wrong.obstacles] == ["Mish2"] * (1 + len(target_names()))


def test_command_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in target_names())
    assert main(["check", "--list", "--json"]) == 0
    assert [row["name"] for row in json.loads(capsys.readouterr().out)] == [
        one.name for one in tfsmith.list_targets().targets
    ]


@pytest.mark.parametrize(
    ("arguments", "lacking"), [([], "MODEL, --for"), (["g.pb"], "--for"), (["--for", "migraphx"], "MODEL")]
)
def test_command_wants_both(arguments: list[str], lacking: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 2
    assert f"the following arguments are required: {lacking}; " in capsys.readouterr().err


def test_a_recipe_is_the_remedy_where_it_removes_the_obstacle() -> None:
    nodes = [X, relu("a", "x", "PreventGradient"), relu("b", "a"), relu("c", "b", "Selu")]
    remedies = {one.subject: one.remedy for one in tfsmith.check(model(nodes), "migraphx", outputs=["c"]).obstacles}
    assert remedies["PreventGradient"] == "`tfsmith.replace(model, 'remove-no-ops', out='OUT')`"
    assert "replace" not in remedies["Selu"]
    replaced = tfsmith.replace(model(nodes), "remove-no-ops", outputs=["c"]).model
    assert [one.subject for one in tfsmith.check(replaced, "migraphx", outputs=["c"]).obstacles] == ["Selu"]


def test_dropout_has_a_recipe() -> None:
    path = TF2_MODEL.parent / "training"
    found = tfsmith.check(path, "migraphx")
    random = [one for one in found.obstacles if one.subject == "RandomUniform"]
    command = f"`tfsmith.replace({str(tfsmith.load(path).path)!r}, 'dropout-removal', out='OUT')`"
    assert [one.remedy for one in random] == [command]
