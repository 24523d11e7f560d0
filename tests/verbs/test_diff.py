"""`tfsmith diff`: what changed between two models."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.convert_models import TF2_MODEL, saved_model, small

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import InvalidModelError, UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library, Versions
from tfsmith.ir.model import Asset, Collection, MetaGraph, Model
from tfsmith.ir.node import Attr, Func, Node
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.tensor import ArrayTensor, FilledTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.records import replace
from tfsmith.testing.models import linear_regression
from tfsmith.testing.write import write_checkpoint_files, write_frozen, write_saved_model
from tfsmith.verbs.diff import SECTIONS, ModelDiff

FLOAT, INT32 = dtype_named("float32"), dtype_named("int32")


def model(nodes: Sequence[Node], *, library: Library | None = None, **parts: Any) -> Model:
    graph = Graph(tuple(nodes), Versions(21), library)
    return Model("graphdef", (MetaGraph(Part.of(graph), **parts),))


def floats(*values: float) -> ArrayTensor:
    return ArrayTensor.of(np.array(values, np.float32))


def const(name: str, *values: float) -> Node:
    return Node(name, "Const", (), {"dtype": FLOAT, "value": floats(*values)})


def base() -> list[Node]:
    return [
        Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((-1, 2))}),
        const("w", 1, 2),
        Node("mul", "Mul", ("x", "w"), {"T": FLOAT}),
        Node("out", "Identity", ("mul", "^w"), {"T": FLOAT}),
    ]


def swap(nodes: Sequence[Node], name: str, **changes: Any) -> list[Node]:
    return [node.replace(**changes) if node.name == name else node for node in nodes]


def nodes_of(found: ModelDiff) -> dict[str, Any]:
    return dict(found.facts()["nodes"])


def test_the_same_model_has_no_difference() -> None:
    found = tfsmith.diff(model(base()), model(base()))
    assert found.is_equal
    assert found.structure.nodes.same == 4
    assert found.weight_count == 1
    assert list(found.counts()) == list(SECTIONS)


def test_added_and_removed() -> None:
    found = tfsmith.diff(model(base()), model([*base()[:3], Node("end", "Relu", ("mul",), {"T": FLOAT})]))
    facts = nodes_of(found)
    assert [one["name"] for one in facts["added"]] == ["end"]
    assert [one["name"] for one in facts["removed"]] == ["out"]
    assert facts["changed"] == facts["renamed"] == []
    assert not found.is_equal


def test_what_changed_in_a_node() -> None:
    other = swap(base(), "mul", inputs=("w", "x"), op="AddV2", device="/cpu:0", attrs={"T": INT32})
    (change,) = nodes_of(tfsmith.diff(model(base()), model(other)))["changed"]
    assert change == {
        "name": "mul",
        "op": {"first": "Mul", "second": "AddV2"},
        "device": {"first": "", "second": "/cpu:0"},
        "inputs": [{"index": 0, "first": "x", "second": "w"}, {"index": 1, "first": "w", "second": "x"}],
        "attrs": [{"name": "T", "first": "float32", "second": "int32"}],
    }


def test_outputs_of_inputs_and_controls_count() -> None:
    other = swap(swap(base(), "mul", inputs=("x:1", "w:0")), "out", inputs=("mul:0", "^x"))
    changed = nodes_of(tfsmith.diff(model(base()), model(other)))["changed"]
    assert changed[0]["inputs"] == [{"index": 0, "first": "x", "second": "x:1"}]  # w and w:0 are the same
    assert changed[1]["inputs"] == [
        {"index": None, "first": "^w", "second": None},
        {"index": None, "first": None, "second": "^x"},
    ]


def test_more_and_fewer_inputs() -> None:
    changed = nodes_of(tfsmith.diff(model(base()), model(swap(base(), "mul", inputs=("x",)))))["changed"]
    assert changed[0]["inputs"] == [{"index": 1, "first": "w", "second": None}]


def test_the_order_of_control_inputs_does_not_count() -> None:
    first, second = (swap(base(), "out", inputs=("mul", *ends)) for ends in (("^w", "^x"), ("^x", "^w")))
    assert tfsmith.diff(model(first), model(second)).is_equal


def test_an_attribute_left_out_has_its_default() -> None:
    first = [*base(), Node("m", "MatMul", ("x", "x"), {"T": FLOAT})]
    second = swap([*first], "m", attrs={"transpose_a": False})
    assert tfsmith.diff(model(first), model(second)).is_equal
    second = swap([*first], "m", attrs={"transpose_a": True})
    (change,) = nodes_of(tfsmith.diff(model(first), model(second)))["changed"]
    assert change["attrs"] == [{"name": "transpose_a", "first": None, "second": True}]


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        (Attr("float", float("nan")), Attr("float", float("nan")), True),
        (Attr("float", 0.0), Attr("float", -0.0), False),
        (Attr("list", ()), Attr("list(int)", ()), True),
        (Attr("list(int)", (1,)), Attr("list(float)", (1.0,)), False),
        (Attr("list(int)", (1, 2)), Attr("list(int)", (1,)), False),
        (Attr("int", 1), Attr("bool", True), False),
        (Attr("func", Func("f", {})), Attr("func", Func("f", {"T": Attr("type", FLOAT)})), False),
    ],
)
def test_values_of_attributes(first: Attr, second: Attr, is_same: bool) -> None:
    one, other = (model([Node("n", "Custom", (), {"a": value})]) for value in (first, second))
    assert tfsmith.diff(one, other).is_equal is is_same


def test_a_renamed_scope_is_no_rewiring() -> None:
    def scope(name: str) -> list[Node]:
        inner = [
            const(f"{name}/w", 1, 2),
            Node(f"{name}/mul", "Mul", ("x", f"{name}/w"), {"T": FLOAT}),
            Node(f"{name}/out", "Identity", (f"{name}/mul", f"^{name}/w"), {"T": FLOAT}),
        ]
        return [base()[0], *inner, Node("end", "Relu", (f"{name}/out",), {"T": FLOAT})]

    facts = nodes_of(tfsmith.diff(model(scope("a")), model(scope("b"))))
    assert [(one["first"], one["second"]) for one in facts["renamed"]] == [
        ("a/w", "b/w"),
        ("a/mul", "b/mul"),
        ("a/out", "b/out"),
    ]
    assert facts["added"] == facts["removed"] == facts["changed"] == []


def test_a_renamed_constant_has_the_same_values() -> None:
    one = model([const("a", 1, 2), const("b", 3, 4)])
    other = model([const("c", 3, 4), const("d", 5, 6)])
    facts = nodes_of(tfsmith.diff(one, other))
    assert [(found["first"], found["second"]) for found in facts["renamed"]] == [("b", "c")]
    assert [found["name"] for found in facts["removed"]] == ["a"]
    assert [found["name"] for found in facts["added"]] == ["d"]


def test_alike_nodes_are_paired_by_their_last_word() -> None:
    one = model([const("w", 1), *(Node(f"a/{name}", "Relu", ("w",), {"T": FLOAT}) for name in ("p", "q"))])
    other = model([const("w", 1), *(Node(f"b/{name}", "Relu", ("w",), {"T": FLOAT}) for name in ("q", "p"))])
    renamed = nodes_of(tfsmith.diff(one, other))["renamed"]
    assert {(found["first"], found["second"]) for found in renamed} == {("a/p", "b/p"), ("a/q", "b/q")}


def test_another_attribute_is_no_rename() -> None:
    one = model([const("w", 1), Node("a", "Cast", ("w",), {"SrcT": FLOAT, "DstT": INT32})])
    other = model([const("w", 1), Node("b", "Cast", ("w",), {"SrcT": FLOAT, "DstT": FLOAT})])
    facts = nodes_of(tfsmith.diff(one, other))
    assert not facts["renamed"]
    assert len(facts["added"]) == len(facts["removed"]) == 1


def test_a_loop_of_another_name_is_renamed() -> None:
    def loop(name: str) -> Model:
        return model(
            [
                const("w", 1),
                Node(f"{name}/Enter", "Enter", ("w",), {"T": FLOAT, "frame_name": "f"}),
                Node(f"{name}/Merge", "Merge", (f"{name}/Enter", f"{name}/Next"), {"T": FLOAT, "N": 2}),
                Node(f"{name}/Next", "NextIteration", (f"{name}/Merge",), {"T": FLOAT}),
            ]
        )

    facts = nodes_of(tfsmith.diff(loop("a"), loop("b")))
    assert [one["second"] for one in facts["renamed"]] == ["b/Enter", "b/Merge", "b/Next"]
    assert facts["changed"] == facts["added"] == facts["removed"] == []


def test_constants_are_compared_by_value() -> None:
    found = tfsmith.diff(model(base()), model(swap(base(), "w", attrs={"value": floats(1, 2.5)})))
    assert nodes_of(found)["changed"] == []
    (one,) = found.weights
    assert (one.name, one.max_difference, one.unequal) == ("w", 0.5, 1)
    assert tfsmith.diff(found.first, found.second, tolerance=0.6).is_equal
    assert tfsmith.diff(found.first, found.second, weights=False).is_equal


def test_a_constant_of_another_shape_is_an_attribute() -> None:
    other = swap(base(), "w", attrs={"value": floats(1, 2, 3)})
    (change,) = nodes_of(tfsmith.diff(model(base()), model(other)))["changed"]
    assert change["attrs"] == [
        {"name": "value", "first": {"dtype": "float32", "shape": [2]}, "second": {"dtype": "float32", "shape": [3]}}
    ]


def test_a_filled_constant_is_compared_without_its_size() -> None:
    huge = FilledTensor(FLOAT, Shape((2**40,)), b"\0\0\x80?")
    nodes = [Node("w", "Const", (), {"dtype": FLOAT, "value": huge})]
    copy = [Node("w", "Const", (), {"dtype": FLOAT, "value": replace(huge)})]
    assert tfsmith.diff(model(nodes), model(copy)).is_equal


def test_inferred_shapes_count_only_when_wanted() -> None:
    other = model(swap(base(), "mul", attrs={"_output_shapes": [Shape((1, 2))]}))
    assert tfsmith.diff(model(base()), other).is_equal
    assert tfsmith.diff(model(base()), other, inferred_shapes=True).counts()["nodes"] == 1


def function(name: str, op: str = "Relu") -> Function:
    signature = OpDef(name, (ArgDef("x", FLOAT),), (ArgDef("y", FLOAT),))
    nodes = (Node("a", op, ("x",), {"T": FLOAT}),)
    return Function(name, Part.of(FunctionParts(signature, nodes, {"y": "a:activations:0"})))


def caller(*names: str) -> list[Node]:
    return [Node(f"call{number}", "PartitionedCall", (), {"f": Func(name, {})}) for number, name in enumerate(names)]


def with_functions(*functions: Function) -> Model:
    names = [one.name for one in functions]
    return model(caller(*names), library=Library(dict(zip(names, functions, strict=True))))


def test_functions() -> None:
    first = with_functions(function("f"), function("gone"))
    second = with_functions(function("f", "Elu"), function("new"))
    facts = tfsmith.diff(first, second).facts()["functions"]
    assert facts["added"] == ["new"]
    assert facts["removed"] == ["gone"]
    (change,) = facts["changed"]
    assert change["name"] == "f"
    assert change["nodes"]["changed"] == [{"name": "a", "op": {"first": "Relu", "second": "Elu"}}]


def test_the_number_of_a_function_is_no_change_of_its_callers() -> None:
    first = with_functions(function("__inference_f_12"), function("__inference_f_110"))
    second = with_functions(function("__inference_f_34"), function("__inference_f_209"))
    found = tfsmith.diff(first, second)
    assert found.facts()["functions"]["renamed"] == [
        {"first": "__inference_f_12", "second": "__inference_f_34"},
        {"first": "__inference_f_110", "second": "__inference_f_209"},
    ]
    assert found.counts() | {"functions": 0} == dict.fromkeys(SECTIONS, 0)


def test_what_a_function_takes_and_gives() -> None:
    other = function("f")
    parts = other.part.value
    changed = replace(parts, signature=replace(parts.signature, is_stateful=True), ret={"y": "x"})
    found = tfsmith.diff(with_functions(function("f")), with_functions(Function("f", Part.of(changed))))
    (change,) = found.facts()["functions"]["changed"]
    assert change["facts"] == [
        {"name": "stateful", "first": False, "second": True},
        {"name": "result y", "first": "a:activations:0", "second": "x"},
    ]


def test_signatures_collections_assets_versions() -> None:
    first = saved_model(serving_default="y:0")
    meta = first.meta
    second = replace(
        saved_model(other="y:0"),
        meta_graphs=(
            replace(
                meta,
                graph_part=Part.of(meta.graph.replace(versions=Versions(99, 12))),
                signatures_part=saved_model(other="y:0").meta.signatures_part,
                collections_part=Part.of({"losses": Collection("node", ("a:0", "b:0"))}),
                assets_part=Part.of((Asset("a:0", "words.txt"),)),
            ),
        ),
    )
    facts = tfsmith.diff(first, second, only=["signatures", "collections", "assets", "versions"]).facts()
    assert [one["name"] for one in facts["signatures"]] == ["other", "serving_default"]
    assert {one["name"] for one in facts["versions"]} >= {"producer", "min_consumer"}
    assert facts["assets"] == [{"name": "words.txt", "first": None, "second": "a:0"}]
    assert {"name": "losses", "first": None, "second": "2 values"} in facts["collections"]
    assert "nodes" not in facts


def test_a_changed_signature_is_told_entry_by_entry() -> None:
    first = saved_model(serving_default="y:0")
    signature = first.signatures["serving_default"]
    key, info = next(iter(signature.outputs.items()))
    other = replace(signature, outputs={key: replace(info, dtype=INT32)}, method_name="m")
    meta = replace(first.meta, signatures_part=Part.of({"serving_default": other}))
    found = tfsmith.diff(first, replace(first, meta_graphs=(meta,)))
    assert [change.name for change in found.structure.signatures] == [
        "serving_default, method",
        f"serving_default, output {key}",
    ]


def test_variables_are_compared() -> None:
    changed = small({"w": floats(9, 2), "b": floats(1)})
    first = small({"w": floats(1, 2), "c": floats(1)})
    found = tfsmith.diff(first, changed, only=["weights"])
    assert [(one.name, one.verdict) for one in found.weights if one.name in "wbc"] == [
        ("b", "only in second"),
        ("c", "only in first"),
        ("w", "differs"),
    ]


def test_a_frozen_graph_against_what_it_was_made_of(tmp_path: Path) -> None:
    made = linear_regression()
    prefix = write_checkpoint_files(made, tmp_path / "training")
    frozen = write_frozen(made, tmp_path / "frozen.pb")
    found = tfsmith.diff(prefix, frozen)
    ops = [change.second.op for change in found.structure.nodes.changed]
    assert ops.count("Const") == len(made.model.variables)
    assert found.weights == ()
    assert found.weight_count >= len(made.model.variables)
    assert any("a graph alone" in note for note in found.notes)
    assert not found.structure.collections  # a graph cannot hold them: told, not counted


def test_a_planted_weight_is_found_between_kinds(tmp_path: Path) -> None:
    made = linear_regression()
    saved = write_saved_model(made, tmp_path / "saved")
    frozen = tfsmith.load(write_frozen(made, tmp_path / "frozen.pb"))
    name = next(node.name for node in frozen.graph if node.op == "Const" and node.name in made.model.variables)
    value = frozen.graph[name].get("value").numpy() + np.float32(0.25)
    planted = frozen.graph[name].replace(attrs={"value": ArrayTensor.of(value)})
    wrong = frozen.replace_graph(frozen.graph.map_nodes({name: planted}))
    found = tfsmith.diff(saved, wrong)
    assert [(one.name, one.max_difference) for one in found.weights] == [(name, 0.25)]


def test_a_checkpoint_alone(tmp_path: Path) -> None:
    made = linear_regression()
    prefix = write_checkpoint_files(made, tmp_path / "training")
    for ending in (".meta",):
        prefix.with_name(prefix.name + ending).unlink()
    (tmp_path / "training" / "graph.pbtxt").unlink(missing_ok=True)
    frozen = write_frozen(made, tmp_path / "frozen.pb")
    found = tfsmith.diff(prefix, frozen)
    assert any("has no graph" in note for note in found.notes)
    assert found.is_equal
    assert found.weight_count == len(made.model.variables)


def test_tf2_saved_models(tmp_path: Path) -> None:
    assert tfsmith.diff(TF2_MODEL, TF2_MODEL).is_equal
    copy = Path(shutil.copytree(TF2_MODEL, tmp_path / "copy"))
    data = next((copy / "variables").glob("variables.data-*"))
    data.write_bytes(bytes(data.stat().st_size))
    with pytest.raises(tfsmith.TfsmithError, match="checksum"):
        tfsmith.diff(TF2_MODEL, copy)
    assert tfsmith.diff(TF2_MODEL, copy, weights=False).is_equal


def test_tf2_and_its_frozen_graph() -> None:
    found = tfsmith.diff(TF2_MODEL, tfsmith.freeze(tfsmith.load(TF2_MODEL)).model)
    assert found.structure.functions_removed
    assert {change.first.name for change in found.structure.nodes.changed} >= {"w", "b"}
    assert found.weights == ()
    assert found.weight_count >= 2


def test_variables_without_a_constant_are_told() -> None:
    found = tfsmith.diff(small(), model(base()))
    assert any("have no constant of their name" in note and "freeze it first" in note for note in found.notes)


def test_an_asset_with_another_content(tmp_path: Path) -> None:
    source = TF2_MODEL.parent / "vocabulary"
    copy = Path(shutil.copytree(source, tmp_path / "copy"))
    (copy / "assets" / "words.txt").write_text("alpha\nbeta\nDELTA\n")
    found = tfsmith.diff(source, copy)
    assert [change.name for change in found.structure.assets] == ["assets/words.txt, its content"]


def test_the_same_file_is_not_read_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = Node("w", "Const", (), {"dtype": FLOAT, "value": ArrayTensor.of(np.arange(300_000, dtype=np.float32))})
    for name in ("a.pb", "b.pb"):
        tfsmith.save(model([large]), tmp_path / name)

    def refuse(*_: object) -> None:
        raise AssertionError("values were read")

    monkeypatch.setattr("tfsmith.weights.compare.read_pieces", refuse)
    found = tfsmith.diff(tmp_path / "a.pb", tmp_path / "a.pb")
    assert found.is_equal
    assert found.weight_count == 1
    with pytest.raises(AssertionError, match="values were read"):
        tfsmith.diff(tmp_path / "a.pb", tmp_path / "b.pb")


def test_two_nodes_of_one_name() -> None:
    with pytest.raises(InvalidModelError, match="two nodes have one name"):
        tfsmith.diff(model([*base(), base()[0]]), model(base()))


def test_wrong_section() -> None:
    with pytest.raises(UsageError, match="no section 'node'; the sections are: versions"):
        tfsmith.diff(model(base()), model(base()), only=["node"])


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """A graph, and another with a few changes of every kind."""
    other = swap(base(), "mul", inputs=("w", "x"), attrs={"T": INT32})
    other = swap(other, "w", attrs={"value": floats(1, 4)})
    other += [Node(f"new{number}", "Relu", ("mul",), {"T": FLOAT}) for number in range(30)]
    for name, nodes in (("a.pb", base()), ("b.pb", other)):
        tfsmith.save(model(nodes), tmp_path / name)
    return str(tmp_path / "a.pb"), str(tmp_path / "b.pb")


def test_command(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", pair[0], pair[0]]) == 0
    assert capsys.readouterr().out == "no difference (4 nodes and 1 weights are the same)\n"
    assert main(["diff", *pair]) == 1
    out = capsys.readouterr().out
    assert "nodes: 30 added, 1 changed (1 rewired)" in out
    assert "input 0  x -> w" in out
    assert "T        float32 -> int32" in out
    assert "and 11 more; --all shows them" in out
    assert "~  w  1 values differ by at most 2" in out
    assert out.endswith("32 differences: nodes 31, weights 1 (3 nodes and 0 weights are the same)\n")


def test_command_limits(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["diff", *pair, "--limit", "2", "--only", "nodes"])
    out = capsys.readouterr().out
    assert "new0" in out
    assert "new1" not in out
    assert "weights" not in out
    main(["diff", *pair, "--all", "--no-weights"])
    out = capsys.readouterr().out
    assert "new29" in out
    assert "weights" not in out
    assert main(["diff", *pair, "--tolerance", "nan"]) == 2
    wrong = "error: --tolerance nan makes no sense; pass a finite number, 0 or more\n"
    assert capsys.readouterr().err == wrong
    assert main(["diff", *pair, "--limit", "-1"]) == 2
    assert "pass 0 or more" in capsys.readouterr().err


def test_command_json(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diff", *pair, "--json", "--limit", "1"]) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["equal"] is False
    assert len(facts["nodes"]["added"]) == 30  # all of them: a program reads it
    assert facts["weights"][0]["max_difference"] == 2.0
    assert main(["diff", *pair, "--json", "--only", "versions,signatures"]) == 0
    assert set(json.loads(capsys.readouterr().out)) >= {"versions", "signatures"}


def test_the_same_each_time(pair: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    texts = set()
    for _ in range(3):
        main(["diff", *pair, "--json"])
        texts.add(capsys.readouterr().out)
    assert len(texts) == 1
