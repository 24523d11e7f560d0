"""New nodes, made from matches that are put together by hand."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.replace_models import FLOAT, axes, const, match_of, model_of, node, placeholder, query, recipe_of

from tfsmith.errors import UnsupportedError, UsageError
from tfsmith.ir.node import Attr, Endpoint, Node
from tfsmith.ir.recipe import Expression, Match, Recipe, TargetNode, Unit
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.ops.inference import Inference
from tfsmith.patterns.build import Built, InputRef, build, common_scope, target_name

NODES = [
    placeholder("x", (2, 4)),
    const("net/k", [[1.0] * 3] * 4),
    axes("net/perm", [1, 0]),
    node("net/a/mul", "Mul", "x", "x"),
    node("net/b/matmul", "MatMul", "net/a/mul", "net/k", device="/gpu:0"),
]


def made(*targets: TargetNode, outputs: dict[str, str] | None = None, nodes: list[Node] | None = None) -> Built:
    """What these targets give for Mul and MatMul of the graph above."""
    wanted = [query("mul", "Mul", "x", "x"), query("mm", "MatMul", "mul", "k")]
    recipe = recipe_of(wanted, ["x", "k"], outputs or {"mm": targets[-1].name}, *targets)
    found = match_of(recipe, {"mul": "net/a/mul", "mm": "net/b/matmul"}, {"x": "x:0", "k": "net/k:0"})
    return built(recipe, found, nodes or NODES)


def built(recipe: Recipe, match: Match, nodes: list[Node]) -> Built:
    graph = model_of(nodes).graph
    return build(match, recipe, graph, Inference(graph))


def test_scopes_and_names() -> None:
    assert common_scope(("a/b/c", "a/b/d/e")) == "a/b"
    assert common_scope(("a/b", "ab/c")) == ""
    assert common_scope(("a",)) == ""
    assert common_scope(("a/b/c", "a/b/c/d")) == "a/b"
    assert target_name("{scope}/{name}", "new", "s", ("a", "b")) == "new"
    assert target_name("{seed}_{name}", "new", "a/s", ()) == "a/s_new"
    assert target_name("{nothing}".replace("{nothing}", "plain"), "new", "s", ()) == "plain"
    for bad in ("{other}", "a b", "", "-x", "a:0"):
        with pytest.raises(UsageError, match="no name for a node"):
            target_name(bad, "new", "s", ())


def test_inputs_are_query_inputs_targets_and_wanted_nodes() -> None:
    found = made(TargetNode("sq", "Square", ("x",)), TargetNode("out", "AddN", ("sq", "mul", "x:0", "^mul")))
    square, total = found.new_nodes
    assert square.inputs == (InputRef(Endpoint("x", 0), "given"),)
    assert total.inputs == (
        InputRef(Endpoint("sq", 0), "new"),
        InputRef(Endpoint("net/a/mul", 0), "found"),
        InputRef(Endpoint("x", 0), "given"),
    )
    assert total.waits_for == (InputRef(Endpoint("net/a/mul", 0), "found"),)
    assert found.kept == {"net/a/mul"}
    assert found.outputs == {Endpoint("net/b/matmul", 0): InputRef(Endpoint("out", 0), "new")}
    assert (square.name, square.device) == ("net/sq", "/gpu:0")
    assert total.attrs == {"N": Attr("int", 3), "T": Attr("type", FLOAT)}


def test_targets_may_stand_in_any_order_but_in_no_circle() -> None:
    found = made(TargetNode("out", "Neg", ("sq",)), TargetNode("sq", "Square", ("x",)), outputs={"mm": "out"})
    assert [new.key for new in found.new_nodes] == ["sq", "out"]
    with pytest.raises(UsageError, match="in a circle"):
        made(TargetNode("a", "Neg", ("b",)), TargetNode("b", "Neg", ("a",)))


def test_a_target_may_have_the_name_of_a_wanted_node_and_take_it() -> None:
    (new,) = made(TargetNode("mul", "Neg", ("mul",)), outputs={"mm": "mul"}).new_nodes
    assert new.inputs == (InputRef(Endpoint("net/a/mul", 0), "found"),)


def test_each_goes_through_the_units() -> None:
    wanted = [query("mul", "Mul", "h", "w")]
    target = TargetNode("all", "MyOp", ("h", "each(w, mul)", "m"), {"N": Expression("count(w, mul)")})
    recipe = recipe_of(wanted, ["h", "w"], {"mul": "all"}, target)
    units = tuple(
        Unit({"mul": f"mul{at}"}, {"h": Endpoint(f"mul{at - 1}" if at else "x", 0), "w": Endpoint(f"w{at}", 0)})
        for at in range(2)
    )
    before = Unit({"mask": "mask"}, {"m": Endpoint("raw", 0)})
    nodes = [placeholder("x"), placeholder("raw"), const("w0", 1.0), const("w1", 1.0), node("mask", "Neg", "raw")]
    nodes += [node("mul0", "Mul", "x", "w0"), node("mul1", "Mul", "mul0", "w1")]
    match = Match(None, recipe.variants[0], units, before)
    assert match.nodes == ("mul0", "mul1", "mask")
    (new,) = built(recipe, match, nodes).new_nodes
    assert [str(source.endpoint) for source in new.inputs] == ["x:0", "w0:0", "mul0:0", "w1:0", "mul1:0", "raw:0"]
    assert [source.kind for source in new.inputs] == ["given", "given", "found", "given", "found", "given"]
    assert new.attrs["N"] == Attr("int", 4)
    carried = recipe_of(wanted, ["h", "w"], {"mul": "all"}, TargetNode("all", "MyOp", ("each(h)",)))
    (new,) = built(carried, Match(None, carried.variants[0], units, before), nodes).new_nodes
    assert [source.kind for source in new.inputs] == ["given", "found"]


def test_attributes_are_of_the_kind_that_the_op_says() -> None:
    attrs: dict[str, Any] = {"strides": Expression("[1, dim(k, 0) / 2]"), "T": Expression("'float32'")}
    attrs |= {"padding": Expression("'SAME'"), "mine": Expression("2 * 3.0")}
    (new,) = made(TargetNode("conv", "Conv2D", ("x", "k"), attrs)).new_nodes
    assert new.attrs["strides"] == Attr("list(int)", (1, 2))
    assert new.attrs["T"] == Attr("type", FLOAT)
    assert new.attrs["padding"] == Attr("string", b"SAME")
    assert new.attrs["mine"] == Attr("float", 6.0)
    (unknown,) = made(TargetNode("my", "MyOp", ("x",), {"T": Expression("attr(mm, transpose_a)")})).new_nodes
    assert unknown.attrs["T"] == Attr("bool", False)
    assert not unknown.is_known


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        (TargetNode("t", "Neg", ("nose",)), UsageError, "target 't': there is no 'nose'"),
        (TargetNode("t", "MyOp", ("each(nose)",)), UsageError, "there is no 'nose'"),
        (TargetNode("t", "Neg", ("x",), {"T": Expression("3")}), UsageError, "attribute 'T': 3 is no type"),
        (TargetNode("t", "Neg", ("x",), {"n": Expression("dim(")}), UsageError, "attribute 'n': .* no expression"),
        (TargetNode("t", "Neg", ("x",), {"n": Expression("dim(x, 7)")}), UnsupportedError, "has no axis 7"),
        (TargetNode("t", "Cast", ("x",)), UnsupportedError, "op Cast needs the attribute 'DstT'"),
    ],
)
def test_errors_say_where_in_the_recipe(target: TargetNode, error: type[Exception], message: str) -> None:
    with pytest.raises(
        error, match=rf"^recipe 'test', variant 'only', target 't'.*{message.partition(': ')[2] or message}"
    ):
        made(target)


def test_an_output_must_lead_somewhere() -> None:
    with pytest.raises(UsageError, match="recipe 'test', variant 'only', outputs: there is no 'nowhere'"):
        made(TargetNode("t", "Neg", ("x",)), outputs={"mm": "nowhere"})


def test_a_removed_match_hands_its_input_on() -> None:
    wanted = [query("mul", "Mul", "x", "x"), query("mm", "MatMul", "mul", "k")]
    recipe = recipe_of(wanted, ["x", "k"], {"mm": "x"})
    match = match_of(recipe, {"mul": "net/a/mul", "mm": "net/b/matmul"}, {"x": "x:0", "k": "net/k:0"})
    found = built(recipe, match, NODES)
    assert found.new_nodes == ()
    assert found.outputs == {Endpoint("net/b/matmul", 0): InputRef(Endpoint("x", 0), "given")}


def test_constants_are_folded_and_what_only_served_that_is_left_out() -> None:
    perm: dict[str, Any] = {"dtype": Expression("'int32'"), "value": Expression("[1, 0]")}
    targets = (
        TargetNode("perm", "Const", (), perm),
        TargetNode("turned", "Transpose", ("k", "perm"), fold=True),
        TargetNode("flat", "Identity", ("turned",), fold=True),
        TargetNode("out", "MatMul", ("x", "flat"), {"transpose_b": Attr("bool", True)}),
    )
    found = made(*targets)
    assert [(new.key, new.op) for new in found.new_nodes] == [("flat", "Const"), ("out", "MatMul")]
    tensor = found.new_nodes[0].attrs["value"].tensor
    assert tensor is not None
    assert tensor.shape == Shape((3, 4))
    variable = Node("net/k", "VariableV2", (), {"dtype": FLOAT, "shape": Shape((4, 3))})
    live = made(*targets, nodes=[variable if node.name == "net/k" else node for node in NODES])
    assert [new.op for new in live.new_nodes] == ["Const", "Transpose", "Identity", "MatMul"]
    assert "Tperm" not in live.new_nodes[1].attrs  # int32 is what it means to leave it out


def test_a_type_that_is_not_the_default_is_told_by_the_input() -> None:
    perm: dict[str, Any] = {"dtype": Expression("'int64'"), "value": Expression("[1, 0]")}
    found = made(TargetNode("perm", "Const", (), perm), TargetNode("out", "Transpose", ("x", "perm")))
    assert found.new_nodes[1].attrs["Tperm"] == Attr("type", dtype_named("int64"))
