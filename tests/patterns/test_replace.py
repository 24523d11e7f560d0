"""Replacing: what is put in, what goes, what stays as it was, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.replace_models import (
    FLOAT,
    RESOURCE,
    axes,
    call,
    const,
    function,
    layer_norm_recipe,
    model_of,
    names,
    no_identity,
    node,
    placeholder,
    query,
    recipe_of,
    relu_recipe,
    square_recipe,
)

import tfsmith
from tfsmith import records
from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.graph import check_graph
from tfsmith.ir.model import Asset, Collection, Model, Saver, TensorInfo
from tfsmith.ir.node import Attr, Endpoint, Node
from tfsmith.ir.recipe import Expression, Recipe, Repeat, TargetNode
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.patterns.replace import Replacement, ReplaceOptions, replace


def squares() -> list[Node]:
    """Two places for `square_recipe`, one behind the other."""
    return [
        placeholder("x"),
        const("c", [1.0, 2.0, 3.0, 4.0]),
        node("a/inner", "Mul", "x", "x"),
        node("a/outer", "Mul", "a/inner", "c"),
        node("b/inner", "Mul", "a/outer", "a/outer"),
        node("b/outer", "Mul", "b/inner", "c"),
        node("y", "Identity", "b/outer"),
    ]


def checked(model: Model, recipe: Recipe, options: ReplaceOptions | None = None) -> Replacement:
    """Replaces, and holds the result against the rules of TensorFlow."""
    done = replace(model, recipe, options)
    check_graph(done.model.graph)
    for body in (done.model.graph, *done.model.graph.library.values()):
        for found in body:
            body.inputs_of(found)
    return done


def inputs(model: Model, name: str) -> tuple[str, ...]:
    return model.graph[name].inputs


def test_every_place_is_replaced_and_linked() -> None:
    done = checked(model_of(squares()), square_recipe())
    assert len(done.matches) == 2
    assert done.reason is None
    assert names(done.model.graph) == ["x", "c", "a/square", "a/product", "b/square", "b/product", "y"]
    assert inputs(done.model, "a/square") == ("x",)
    assert inputs(done.model, "b/square") == ("a/product",)
    assert inputs(done.model, "b/product") == ("b/square", "c")
    assert inputs(done.model, "y") == ("b/product",)
    assert done.model.graph["b/square"].get("T") == FLOAT


@pytest.mark.parametrize(
    ("require", "count", "says"),
    [
        ("rank(x) == 2", 2, None),
        ("rank(x) == 1", 0, "the recipe wants rank(x) == 1, which is not so here"),
        ("dim(x, 5) == 1", 0, "has no axis 5"),
    ],
)
def test_requirements_are_met_or_the_match_is_left_alone(require: str, count: int, says: str | None) -> None:
    recipe = square_recipe()
    variant = records.replace(recipe.variants[0], require=(Expression(require),))
    done = checked(model_of(squares()), records.replace(recipe, variants=(variant,)))
    assert len(done.matches) == count
    assert says is None or says in (done.reason or "")


def test_a_limit_stops() -> None:
    done = checked(model_of(squares()), square_recipe(), ReplaceOptions(limit=1))
    assert names(done.model.graph) == ["x", "c", "a/square", "a/product", "b/inner", "b/outer", "y"]
    assert len(done.matches) == 1


def test_other_nodes_keep_their_bytes(tmp_path: Path) -> None:
    tfsmith.save(model_of([*squares(), node("z", "Neg", "x")]), tmp_path / "old.pb")
    old = tfsmith.load(tmp_path / "old.pb")
    done = checked(old, square_recipe())
    tfsmith.save(done.model, tmp_path / "new.pb")
    new = tfsmith.load(tmp_path / "new.pb")
    for name in ("x", "c", "z"):
        before, after = old.graph[name].raw, new.graph[name].raw
        assert before is not None
        assert after is not None
        assert before.tobytes() == after.tobytes()
        assert done.model.graph[name] is old.graph[name]
    assert names(new.graph) == names(done.model.graph)
    assert new.graph["y"].inputs == ("b/product",)


def test_nothing_to_replace_gives_the_model_and_the_nearest_miss() -> None:
    model = model_of([placeholder("x"), node("a", "Mul", "x", "x"), node("y", "Neg", "a")])
    done = replace(model, square_recipe())
    assert done.model is model
    assert done.reason == "recipe 'test' matches nothing in this model"
    assert done.nearest_miss is not None
    assert done.nearest_miss.wanted_node == "inner"


def test_names_are_made_unique_and_may_follow_the_seed() -> None:
    nodes = [*squares(), node("a/square", "Neg", "x"), node("a/square_1", "Neg", "x")]
    done = checked(model_of(nodes), square_recipe())
    assert "a/square_2" in done.model.graph
    renamed = checked(model_of(squares()), square_recipe(rename="{seed}/new/{name}"))
    assert "a/outer/new/square" in renamed.model.graph
    assert "b/outer/new/product" in renamed.model.graph


def test_a_node_that_takes_the_seeds_name_leaves_its_users_alone(tmp_path: Path) -> None:
    tfsmith.save(
        model_of([placeholder("x"), const("zero", 0.0), node("m", "Maximum", "x", "zero"), node("y", "Neg", "m")]),
        tmp_path / "m.pb",
    )
    old = tfsmith.load(tmp_path / "m.pb")
    done = checked(old, relu_recipe(rename="{seed}"))
    assert names(done.model.graph) == ["x", "m", "y"]
    assert done.model.graph["m"].op == "Relu"
    assert done.model.graph["y"] is old.graph["y"]


def test_a_name_without_a_letter_is_refused() -> None:
    with pytest.raises(UsageError, match=r"target 'square'.*no name for a node"):
        replace(model_of(squares()), square_recipe(rename="a b"))


# Names that are used from outside


def test_a_fetched_name_stays_valid_in_a_graph_without_signatures() -> None:
    nodes = [placeholder("x"), const("zero", 0.0), node("scores", "Maximum", "x", "zero", device="/cpu:0")]
    done = checked(model_of(nodes), relu_recipe(rename="act/relu"))
    assert names(done.model.graph) == ["x", "act/relu", "scores"]
    kept = done.model.graph["scores"]
    assert (kept.op, kept.inputs, kept.device, kept.get("T")) == ("Identity", ("act/relu",), "/cpu:0", FLOAT)
    assert done.model.graph["act/relu"].device == "/cpu:0"
    assert [note.nodes for note in done.notes] == [("scores",)]


def test_a_name_of_a_signature_or_collection_stays_valid() -> None:
    nodes = [placeholder("x"), const("zero", 0.0), node("m", "Maximum", "x", "zero"), node("y", "Neg", "m")]
    signed = checked(model_of(nodes, outputs={"y": "y:0", "inner": "m:0"}), relu_recipe())
    assert signed.model.graph["m"].op == "Identity"
    assert inputs(signed.model, "y") == ("relu",)
    listed = model_of(nodes, outputs={"y": "y:0"}, collections={"activations": Collection("node", ("m:0",))})
    assert checked(listed, relu_recipe()).model.graph["m"].op == "Identity"
    free = checked(model_of(nodes, outputs={"y": "y:0"}), relu_recipe())
    assert "m" not in free.model.graph


def test_several_outputs_of_one_node_keep_their_name_together() -> None:
    nodes = [placeholder("x"), axes("k", 2), node("top", "TopKV2", "x", "k"), node("y", "Neg", "top")]
    target = TargetNode("best", "TopKV2", ("x", "k"), {"sorted": Attr("bool", False)})
    recipe = recipe_of([query("top", "TopKV2", "x", "k")], ["x", "k"], {"top": "best", "top:1": "best:1"}, target)
    model = model_of(nodes, outputs={"values": "y:0", "indices": "top:1"})
    done = checked(model, recipe)
    kept = done.model.graph["top"]
    assert (kept.op, kept.inputs) == ("IdentityN", ("best", "best:1"))
    assert [kind.name for kind in kept.get("T")] == ["float32", "int32"]
    assert inputs(done.model, "y") == ("best",)


def test_an_output_of_the_match_whose_name_is_used_but_not_mapped_is_a_user() -> None:
    nodes = [placeholder("x"), axes("k", 2), node("top", "TopKV2", "x", "k"), node("y", "Neg", "top")]
    recipe = recipe_of([query("top", "TopKV2", "x", "k")], ["x", "k"], {"top": "max"}, TargetNode("max", "Neg", ("x",)))
    done = replace(model_of(nodes, outputs={"values": "y:0", "indices": "top:1"}), recipe)
    assert done.reason is not None
    assert done.skipped[0].users == ("output 'indices' of signature 'serving_default'",)


# Who else uses a node


def shared() -> list[Node]:
    return [*squares()[:4], node("other", "Neg", "a/inner"), node("y", "Add", "a/outer", "other")]


def test_a_node_used_elsewhere_is_never_lost() -> None:
    model = model_of(shared())
    done = replace(model, square_recipe())
    assert done.model is model
    assert done.skipped[0].users == ("other (Neg)",)
    assert done.reason == "a match was found, but not replaced: node 'a/inner' is also used by other (Neg)"


def test_shared_nodes_can_be_kept_alive() -> None:
    done = checked(model_of(shared()), square_recipe(), ReplaceOptions(keep_shared=True))
    assert names(done.model.graph) == ["x", "c", "a/inner", "a/square", "a/product", "other", "y"]
    assert inputs(done.model, "other") == ("a/inner",)
    assert inputs(done.model, "y") == ("a/product", "other")


def test_users_that_lead_nowhere_are_pruned() -> None:
    shape = Node("a/Shape", "Shape", ("a/inner",), {"T": FLOAT})
    begin = axes("a/begin", [0])
    end = axes("a/end", [1])
    piece = Node("a/strided_slice", "StridedSlice", ("a/Shape", "a/begin", "a/end", "a/end"), {"T": shape.get("T")})
    done = checked(model_of([*squares(), shape, begin, end, piece]), square_recipe())
    assert names(done.model.graph) == ["x", "c", "a/square", "a/product", "b/square", "b/product", "y"]
    assert done.notes[0].nodes == ("a/Shape", "a/strided_slice")


def test_with_outputs_named_other_ends_do_not_count() -> None:
    nodes = [*shared()[:-1], node("y", "Neg", "a/outer")]
    assert replace(model_of(nodes), square_recipe()).reason is not None
    done = checked(model_of(nodes), square_recipe(), ReplaceOptions(outputs=("y",)))
    assert names(done.model.graph) == ["x", "c", "a/square", "a/product", "y"]
    signed = checked(model_of(nodes, outputs={"y": "y:0"}), square_recipe())
    assert "other" not in signed.model.graph
    with pytest.raises(NotFoundInModelError, match="no node 'z'"):
        replace(model_of(nodes), square_recipe(), ReplaceOptions(outputs=("z",)))


def test_in_a_part_that_leads_nowhere_everybody_counts() -> None:
    nodes = [*shared(), node("answer", "Neg", "x")]
    done = replace(model_of(nodes, outputs={"y": "answer:0"}), square_recipe())
    assert done.skipped[0].users == ("other (Neg)",)


def test_a_shared_constant_is_no_obstacle_and_goes_when_the_last_user_does() -> None:
    nodes = [placeholder("x"), const("zero", 0.0)]
    nodes += [node("m1", "Maximum", "x", "zero"), node("m2", "Maximum", "m1", "zero"), node("y", "Neg", "m2")]
    done = checked(model_of(nodes), relu_recipe())
    assert names(done.model.graph) == ["x", "relu", "relu_1", "y"]
    kept = checked(model_of([*nodes, node("z", "Add", "m2", "zero")]), relu_recipe())
    assert inputs(kept.model, "z") == ("relu_1", "zero")


def test_the_saver_initializers_and_assets_count() -> None:
    nodes = [*shared(), node("answer", "Neg", "a/outer")]
    saver = Saver(save_tensor_name="other:0")
    done = replace(model_of(nodes, outputs={"y": "answer:0"}, saver=saver), square_recipe())
    assert done.skipped[0].users == ("other (Neg)",)
    asset = Asset("a/inner:0", "words.txt")
    named = replace(model_of(nodes[:4] + nodes[-1:], outputs={"y": "answer:0"}, assets=(asset,)), square_recipe())
    assert named.skipped[0].users == ("the asset 'words.txt'",)


def test_a_node_that_is_fed_is_never_replaced() -> None:
    given = {"inner": TensorInfo("a/inner:0", FLOAT, Shape(None))}
    model = model_of(squares()[:4], outputs={"y": "a/outer:0"}, inputs=given)
    done = replace(model, square_recipe(), ReplaceOptions(keep_shared=True))
    assert done.skipped[0].reason == (
        "values are put in at node 'a/inner', which is input 'inner' of signature 'serving_default'"
    )


def test_a_match_that_took_from_the_inside_of_another_protects_it() -> None:
    """The first match is replaced, and its new nodes take what is inside of the second."""
    nodes = [
        placeholder("x"),
        const("c", 1.0),
        const("zero", 0.0),
        node("m", "Maximum", "inner", "zero"),
        node("inner", "Mul", "x", "x"),
        node("outer", "Mul", "inner", "c"),
        node("y", "Add", "m", "outer"),
    ]
    both = Recipe("both", "", (relu_recipe().variants[0], square_recipe().variants[0]))
    done = checked(model_of(nodes), both)
    assert len(done.matches) == 1
    assert done.skipped[0].users == ("relu (new)",)
    assert inputs(done.model, "relu") == ("inner",)


# Control edges


def test_what_the_match_waited_for_its_first_nodes_wait_for() -> None:
    nodes = [
        placeholder("x"),
        node("check", "NoOp", T=None),
        node("late", "NoOp", T=None),
        const("c", 1.0),
        node("inner", "Mul", "x", "x", "^check"),
        node("outer", "Mul", "inner", "c", "^late", "^inner"),
        node("y", "Neg", "outer"),
    ]
    done = checked(model_of(nodes), square_recipe())
    assert inputs(done.model, "square") == ("x", "^check", "^late")
    assert inputs(done.model, "product") == ("square", "c")


def test_who_waited_for_the_match_waits_for_what_took_its_place() -> None:
    nodes = [*squares()[:4], node("after", "NoOp", "^a/inner", "^a/outer", T=None), node("y", "Neg", "a/outer")]
    done = checked(model_of(nodes), square_recipe())
    assert inputs(done.model, "after") == ("^a/product",)


def test_new_constants_wait_for_what_the_old_ones_waited_for() -> None:
    """In TF1's loops a constant belongs where what it waits for belongs."""
    nodes = [
        placeholder("x"),
        node("pivot", "NoOp", T=None),
        const("zero", 0.0, "^pivot"),
        node("m", "Maximum", "x", "zero"),
        node("y", "Neg", "m"),
    ]
    wanted = relu_recipe().variants[0].query.nodes
    targets = (
        TargetNode("low", "Const", (), {"dtype": Expression("dtype(x)"), "value": Expression("value(zero)")}),
        TargetNode("clip", "Maximum", ("x", "low")),
    )
    done = checked(model_of(nodes), recipe_of(wanted, ["x"], {"max": "clip"}, *targets))
    assert inputs(done.model, "low") == ("^pivot",)
    assert inputs(done.model, "clip") == ("x", "low", "^pivot")


def test_a_removed_node_hands_its_input_on() -> None:
    nodes = [
        placeholder("x"),
        node("a", "Identity", "x"),
        node("b", "Identity", "a"),
        node("wait", "NoOp", "^b", T=None),
        node("y", "Neg", "b"),
    ]
    done = checked(model_of(nodes), no_identity())
    assert names(done.model.graph) == ["x", "wait", "y"]
    assert inputs(done.model, "y") == ("x",)
    assert inputs(done.model, "wait") == ("^x",)


def test_a_removed_node_that_waits_or_is_needed_for_its_name_stays() -> None:
    waiting = [placeholder("x"), node("p", "NoOp", T=None), node("a", "Identity", "x", "^p"), node("y", "Neg", "a")]
    done = replace(model_of(waiting), no_identity())
    assert done.skipped[0].reason == "it waits for 'p', and nothing takes its place that could wait"
    named = replace(model_of([placeholder("x"), node("a", "Identity", "x")]), no_identity())
    assert "is needed for its name" in named.skipped[0].reason
    branch = [
        placeholder("x"),
        const("p", True, kind=dtype_named("bool")),
        node("switch", "Switch", "x", "p"),
        node("a", "Identity", "switch:1"),
        node("y", "Neg", "x", "^a"),
        node("z", "Neg", "a"),
    ]
    pivot = replace(model_of(branch), no_identity())
    assert "others wait for it" in pivot.skipped[0].reason


def test_wishes_for_a_place_with_a_node_that_is_gone_are_dropped() -> None:
    nodes = squares()
    nodes[-1] = node("y", "Identity", "b/outer", _class=("loc:@b/inner", "loc:@x"))
    done = checked(model_of(nodes), square_recipe())
    assert done.model.graph["y"].get("_class") == (b"loc:@x",)


# Cycles


def two_sums() -> Recipe:
    """Two Negs of anything, as one node."""
    wanted = [query("one", "Neg", "x"), query("sum", "Mul", "x", "z"), query("two", "Exp", "sum")]
    target = TargetNode("both", "IdentityN", ("x", "z"), {"T": Attr("list(type)", (FLOAT, FLOAT))})
    return recipe_of(wanted, ["x", "z"], {"one": "both", "two": "both:1"}, target)


def test_a_match_that_would_wait_for_itself_is_left() -> None:
    nodes = [
        placeholder("x"),
        node("one", "Neg", "x"),
        node("between", "Tanh", "one"),
        node("sum", "Mul", "x", "between"),
        node("two", "Exp", "sum"),
        node("y", "Neg", "two"),
    ]
    done = replace(model_of(nodes), two_sums())
    assert "would wait for itself" in done.skipped[0].reason
    nodes[2] = node("between", "Tanh", "x")
    fine = checked(model_of([*nodes, node("w", "Tanh", "one")]), two_sums())
    assert inputs(fine.model, "both") == ("x", "between")
    assert inputs(fine.model, "y") == ("both:1",)
    assert inputs(fine.model, "w") == ("both",)


# Functions


def in_function(nodes: list[Node], ret: str = "y:y:0", **more: dict[str, str]) -> Model:
    body = function("net", {"x": FLOAT}, nodes, {"out": ret}, **more)
    return model_of([placeholder("p"), call("call", "net", "p")], [body], {"y": "call:0"})


def test_functions_are_replaced_and_spelled_by_the_definitions_of_ops() -> None:
    nodes = [
        const("c", 1.0),
        node("inner", "Mul", "x", "x"),
        node("outer", "Mul", "inner:z:0", "c:output:0"),
        node("y", "Neg", "outer:z:0"),
    ]
    done = checked(in_function(nodes), square_recipe())
    body = done.model.graph.library["net"]
    assert names(body) == ["c", "square", "product", "y"]
    assert body["square"].inputs == ("x",)
    assert body["product"].inputs == ("square:y:0", "c:output:0")
    assert body["y"].inputs == ("product:z:0",)
    assert done.matches[0].body == "net"
    assert dict(body.ret) == {"out": "y:y:0"}
    left = replace(in_function(nodes), square_recipe(), ReplaceOptions(functions=False))
    assert left.reason is not None


def test_results_of_a_function_follow() -> None:
    nodes = [const("c", 1.0), node("inner", "Mul", "x", "x"), node("outer", "Mul", "inner:z:0", "c:output:0")]
    done = checked(in_function(nodes, "outer:z:0", control_ret={"done": "outer"}), square_recipe())
    body = done.model.graph.library["net"]
    assert dict(body.ret) == {"out": "product:z:0"}
    assert dict(body.control_ret) == {"done": "product"}
    assert body.signature.control_outputs == ("done",)
    passed = checked(in_function([node("same", "Identity", "x")], "same:output:0"), no_identity())
    assert dict(passed.model.graph.library["net"].ret) == {"out": "x"}


def test_an_op_that_nobody_knows_is_spelled_by_the_recipe(tmp_path: Path) -> None:
    nodes = [const("c", 1.0), node("inner", "Mul", "x", "x"), node("outer", "Mul", "inner:z:0", "c:output:0")]
    nodes.append(node("y", "Neg", "outer:z:0"))
    wanted = square_recipe().variants[0].query.nodes
    target = TargetNode("my", "MyOp", ("x", "y"), {"T": Expression("attr(inner, T)")}, output_args=("result",))
    done = checked(in_function(nodes), recipe_of(wanted, ["x", "y"], {"outer": "my"}, target))
    assert done.model.graph.library["net"]["y"].inputs == ("my:result:0",)
    tfsmith.save(done.model, tmp_path / "model", format="saved_model")
    again = tfsmith.load(tmp_path / "model")
    body = again.graph.library["net"]
    assert body.inputs_of(body["y"]) == (Endpoint("my", 0),)
    without = TargetNode("my", "MyOp", ("x", "y"))
    with pytest.raises(UsageError, match="output_args"):
        replace(in_function(nodes), recipe_of(wanted, ["x", "y"], {"outer": "my"}, without))


# Repetition


def test_a_chain_becomes_one_node_with_all_weights_in_order() -> None:
    nodes = [placeholder("x"), placeholder("mask_in"), node("mask", "Neg", "mask_in")]
    last = "x"
    for number in range(3):
        scope = f"net/layer_{number}"
        nodes += [const(f"{scope}/w", float(number)), const(f"{scope}/v", float(-number))]
        nodes += [
            node(f"{scope}/mul", "Mul", last, f"{scope}/w"),
            node(f"{scope}/add", "AddV2", f"{scope}/mul", f"{scope}/v"),
        ]
        nodes += [node(f"{scope}/masked", "Mul", f"{scope}/add", "mask")]
        last = f"{scope}/masked"
    nodes.append(node("y", "Neg", last))
    wanted = [query("mul", "Mul", "h", "w"), query("add", "AddV2", "mul", "v"), query("masked", "Mul", "add", "mask")]
    before = recipe_of([query("neg", "Neg", "mask_in")], ["mask_in"], {"neg": "neg"}).variants[0].query
    repeat = Repeat({"h": Endpoint("masked", 0)}, ("mask",), before, {"mask": Endpoint("neg", 0)}, 2)
    attrs = {"N": Expression("count(w, v)"), "units": Expression("units()")}
    target = TargetNode("encoder", "MyEncoder", ("h", "mask_in", "each(w, v)"), attrs)
    recipe = recipe_of(wanted, ["h", "w", "v", "mask"], {"masked": "encoder"}, target, repeat=repeat)
    done = checked(model_of(nodes), recipe)
    weights = [f"net/layer_{number}/{name}" for number in range(3) for name in "wv"]
    assert inputs(done.model, "encoder") == ("x", "mask_in", *weights)
    assert done.model.graph["encoder"].get("N") == 6
    assert done.model.graph["encoder"].get("units") == 3
    assert inputs(done.model, "y") == ("encoder",)
    assert len(done.model.graph) == 2 + 6 + 2


# What is put in


def test_attributes_are_copied_and_computed_and_told_by_inputs() -> None:
    nodes = [placeholder("x", (2, 4)), const("k", [[1.0] * 3] * 4), node("m", "MatMul", "x", "k", transpose_b=False)]
    nodes += [const("b", [0.0] * 3), node("s", "BiasAdd", "m", "b"), node("y", "Neg", "s")]
    wanted = [query("m", "MatMul", "x", "k"), query("s", "BiasAdd", "m", "b")]
    attrs: dict[str, Attr | Expression] = {
        "fused_ops": Attr("list(string)", (b"BiasAdd",)),
        "transpose_b": Expression("attr(m, transpose_b)"),
        "epsilon": Expression("dim(k, 0) / dim(k, 1)"),
    }
    target = TargetNode("fused", "_FusedMatMul", ("x", "k", "b"), attrs)
    done = checked(model_of(nodes), recipe_of(wanted, ["x", "k", "b"], {"s": "fused"}, target))
    fused = done.model.graph["fused"]
    assert fused.attrs["num_args"] == Attr("int", 1)
    assert fused.attrs["T"] == Attr("type", FLOAT)
    assert fused.attrs["transpose_b"] == Attr("bool", False)
    assert fused.get("epsilon") == 4 / 3


def test_what_is_not_known_skips_the_match_and_says_where() -> None:
    recipe = relu_recipe(attrs={"size": Expression("dim(x, 0)")})
    nodes = [placeholder("x"), const("zero", 0.0), node("m", "Maximum", "x", "zero"), node("y", "Neg", "m")]
    done = replace(model_of(nodes), recipe)
    assert done.skipped[0].reason.startswith(
        "recipe 'test', variant 'only', target 'relu', attribute 'size': "
        "axis 0 of 'x', whose shape is [?, 4], is not known"
    )
    with pytest.raises(UsageError, match=r"recipe 'test'.*target 'relu', attribute 'size': there is no 'z'"):
        replace(model_of(nodes), relu_recipe(attrs={"size": Expression("dim(z, 0)")}))


def test_constants_are_folded_and_variables_are_not() -> None:
    k, scale = const("k", [[1.0, 2.0], [3.0, 4.0]]), const("scale", [10.0, 100.0])
    wanted = [query("m", "MatMul", "x", "k"), query("s", "Mul", "m", "scale")]
    targets = (
        TargetNode("weights", "Mul", ("k", "scale"), fold=True),
        TargetNode("product", "MatMul", ("x", "weights")),
    )
    recipe = recipe_of(wanted, ["x", "k", "scale"], {"s": "product"}, *targets)
    rest = [placeholder("x"), node("m", "MatMul", "x", "k"), node("s", "Mul", "m", "scale"), node("y", "Neg", "s")]
    done = checked(model_of([k, scale, *rest]), recipe)
    assert names(done.model.graph) == ["x", "weights", "product", "y"]
    assert done.model.graph["weights"].get("value").numpy().tolist() == [[10.0, 200.0], [30.0, 400.0]]
    variable = Node("k", "VariableV2", (), {"dtype": FLOAT, "shape": Shape((2, 2))})
    live = checked(model_of([variable, scale, *rest]), recipe)
    assert live.model.graph["weights"].op == "Mul"
    assert inputs(live.model, "weights") == ("k", "scale")


def test_layer_norm_in_fewer_nodes() -> None:
    nodes = [
        placeholder("x"),
        const("gamma", [1.0] * 4),
        const("beta", [0.0] * 4),
        axes("ln/axes", [1]),
        axes("ln/axes_1", [1]),
        const("ln/eps", 1e-6),
        node("ln/mean", "Mean", "x", "ln/axes", keep_dims=True),
        node("ln/stop", "StopGradient", "ln/mean"),
        node("ln/sd", "SquaredDifference", "x", "ln/stop"),
        node("ln/var", "Mean", "ln/sd", "ln/axes_1", keep_dims=True),
        node("ln/add", "AddV2", "ln/var", "ln/eps"),
        node("ln/rsqrt", "Rsqrt", "ln/add"),
        node("ln/mul", "Mul", "ln/rsqrt", "gamma"),
        node("ln/mul_1", "Mul", "x", "ln/mul"),
        node("ln/mul_2", "Mul", "ln/mean", "ln/mul"),
        node("ln/sub", "Sub", "beta", "ln/mul_2"),
        node("ln/add_1", "AddV2", "ln/mul_1", "ln/sub"),
        node("y", "Neg", "ln/add_1"),
    ]
    done = checked(model_of(nodes), layer_norm_recipe())
    graph = done.model.graph
    assert graph["ln/mean"].inputs == ("x", "ln/axes")
    assert graph["y"].inputs == ("ln/layer_norm",)
    assert "ln/axes_1" not in graph
    assert len(graph) == len(nodes) - 3
    assert [found.name for found in graph if found.op == "StopGradient"] == []


@pytest.mark.parametrize(
    "change",
    [
        node("a/outer", "AddV2", "a/inner", "c"),
        node("a/outer", "Mul", "c", "a/inner"),
        node("a/inner", "Mul", "x", "c"),
    ],
    ids=["another op", "edges swapped", "another tensor"],
)
def test_what_differs_is_not_replaced(change: Node) -> None:
    nodes = [change if found.name == change.name else found for found in squares()[:4]]
    assert replace(model_of([*nodes, node("y", "Neg", "a/outer")]), square_recipe()).matches == ()


def test_a_variable_behind_a_handle_tells_its_shape_in_functions() -> None:
    handle = Node("w", "VarHandleOp", (), {"dtype": FLOAT, "shape": Shape((4, 7))})
    nodes = [
        Node("read", "ReadVariableOp", ("v",), {"dtype": FLOAT}),
        node("m", "MatMul", "x", "read:value:0"),
        node("y", "Neg", "m:product:0"),
    ]
    body = function("net", {"x": FLOAT, "v": RESOURCE}, nodes, {"out": "y:y:0"})
    top = [placeholder("p"), handle, call("call", "net", "p", "w", types=(FLOAT, RESOURCE))]
    target = TargetNode("my", "MyOp", ("x", "k"), {"width": Expression("dim(k, 1)")}, output_args=("z",))
    recipe = recipe_of([query("m", "MatMul", "x", "k")], ["x", "k"], {"m": "my"}, target)
    done = checked(model_of(top, [body], {"y": "call:0"}), recipe)
    assert done.model.graph.library["net"]["my"].get("width") == 7
