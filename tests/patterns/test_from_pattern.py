"""A recipe made of a pattern and a node: what is wanted, and where the node's inputs lead."""

from __future__ import annotations

from typing import Any

import pytest

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError
from tfsmith.ir.node import Attr, Endpoint, Node
from tfsmith.ir.recipe import NodeQuery, Pattern, Query
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.patterns.extract import recipe_from_pattern

FLOAT = dtype_named("float32")
MINE = Node("fused", "Mine", ("x",), {"N": 3}, device="/gpu:0")


def pattern(*nodes: Node, seeds: int = 1) -> Pattern:
    return Pattern(nodes[:seeds], nodes[seeds:], ("x",))


def query(found: Pattern, target: Node | None = None, **options: Any) -> Query:
    return recipe_from_pattern(found, target or Node("fused", "Mine"), **options).variants[0].query


def wanted(found: Pattern, name: str, **options: Any) -> NodeQuery:
    return next(node for node in query(found, **options).nodes if node.name == name)


RELU = Node("y", "Relu", ("x",), {"T": FLOAT, "_output_shapes": [Shape((2,))], "extra": 1})


def test_nodes_edges_and_outputs() -> None:
    found = recipe_from_pattern(
        pattern(
            Node("y", "AddV2", ("split:1", "split", "^a"), {"T": FLOAT}),
            Node("split", "Split", ("axis", "a"), {"T": FLOAT, "num_split": 2}),
            Node("a", "Relu", ("x:2", "^outside"), {"T": FLOAT}),
        ),
        Node("fused", "Mine", ("axis", "x:2"), {"N": 3}, device="/gpu:0"),
    )
    (variant,) = found.variants
    y, split, a = variant.query.nodes
    assert y.inputs == (Endpoint("split", 1), Endpoint("split", 0), Endpoint("a", -1))
    assert split.inputs == (Endpoint("axis", 0), Endpoint("a", 0))
    assert a.inputs == (Endpoint("x", 0),)  # a control input from outside is not wanted
    assert variant.query.inputs == ("axis", "x")
    assert variant.query.outputs == (Endpoint("y", 0),)
    assert (y.is_commutative, split.is_commutative, a.is_commutative) == (True, False, False)
    (target,) = variant.targets
    assert (target.name, target.op, target.inputs, target.device) == ("fused", "Mine", ("axis", "x"), "/gpu:0")
    assert target.attrs == {"N": Attr("int", 3)}
    assert target.rename == "fused"
    assert variant.outputs == {Endpoint("y", 0): Endpoint("fused", 0)}
    assert found.source_pattern is not None
    assert found.target_node is not None


def test_two_outputs_of_one_node_are_two_inputs() -> None:
    found = pattern(Node("y", "AddV2", ("x", "x:1"), {"T": FLOAT}), Node("z", "Relu", ("x:0",), {"T": FLOAT}), seeds=2)
    assert query(found).inputs == ("x", "x.1")
    assert wanted(found, "z").inputs == (Endpoint("x", 0),)
    assert recipe_from_pattern(found, Node("f", "Mine", ("x:1", "x", "x:0"))).variants[0].targets[0].inputs == (
        "x.1",
        "x",
        "x",
    )


def test_names_that_are_taken() -> None:
    found = pattern(Node("y", "AddV2", ("x", "x:1"), {"T": FLOAT}), Node("x.1", "Relu", ("x",), {"T": FLOAT}), seeds=2)
    assert query(found).inputs == ("x", "x.1_1")
    made = recipe_from_pattern(found, Node("y", "Mine", ("x:1", "y"))).variants[0]
    assert made.targets[0].name == "y_1"
    assert made.targets[0].rename == "y"
    assert made.targets[0].inputs == ("x.1_1", "y")  # the last is the wanted node, not the new one
    assert made.outputs[Endpoint("y", 0)] == Endpoint("y_1", 0)


def test_as_functions_spell_it() -> None:
    found = pattern(
        Node("y", "AddV2", ("split:output:1", "moments:variance:0"), {"T": FLOAT}),
        Node("split", "Split", ("axis", "outside:z:0"), {"num_split": 2, "T": FLOAT}),
        Node("moments", "FusedBatchNorm", ("arg", "arg", "arg", "outside:w:0", "list:3"), {"T": FLOAT}),
    )
    with pytest.raises(InvalidModelError, match="op 'FusedBatchNorm' has no output variance:0"):
        query(found)
    found = pattern(found.nodes[0].replace(inputs=("split:output:1", "moments:batch_variance:0")), *found.nodes[1:])
    assert wanted(found, "y").inputs == (Endpoint("split", 1), Endpoint("moments", 2))
    assert query(found, Node("f", "Mine", ("arg",))).inputs == ("axis", "outside", "arg", "outside.w", "list")
    inputs = recipe_from_pattern(
        found, Node("f", "Mine", ("outside:w:0", "outside", "arg", "split:output:1", "list:3"))
    )
    assert inputs.variants[0].targets[0].inputs == ("outside.w", "outside", "arg", "split:1", "list")


def test_outputs_of_unknown_ops_in_functions() -> None:
    other = Node("a", "Custom", ("x",))
    found = pattern(Node("y", "AddV2", ("a:z:1", "a:z:0")), other)
    assert wanted(found, "y").inputs == (Endpoint("a", 1), Endpoint("a", 0))
    with pytest.raises(InvalidModelError, match="op 'Custom' is not known, so its outputs z and w have no numbers"):
        query(pattern(Node("y", "AddV2", ("a:z:0", "a:w:0")), other))


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({}, {"T"}),
        ({"attrs": "declared"}, {"T"}),
        ({"attrs": "none"}, set()),
        ({"attrs": "none", "match_attrs": ["_output_shapes"]}, {"_output_shapes"}),
        ({"match_attrs": ["_output_shapes", "gone"]}, {"T", "_output_shapes"}),
        ({"ignore_attrs": ["T"]}, set()),
        ({"match_attrs": ["extra"]}, {"T", "extra"}),
    ],
)
def test_which_attributes_must_be_equal(options: dict[str, Any], names: set[str]) -> None:
    assert set(wanted(pattern(RELU), "y", **options).attrs) == names


def test_types_alone_defaults_and_unknown_ops() -> None:
    product = Node("y", "MatMul", ("x", "w"), {"T": FLOAT, "transpose_a": True})
    everything = wanted(pattern(product), "y").attrs
    assert everything["transpose_a"] == Attr("bool", True)
    assert everything["transpose_b"] == Attr("bool", False)  # left out in the file, so it has its default
    assert set(wanted(pattern(product), "y", attrs="types").attrs) == {"T"}
    custom = Node("y", "Custom", ("x",), {"a": 1, "_b": 2, "K": FLOAT})
    assert set(wanted(pattern(custom), "y").attrs) == {"a", "K"}
    assert set(wanted(pattern(custom), "y", attrs="types").attrs) == {"K"}
    with pytest.raises(UsageError, match="say declared, types or none"):
        query(pattern(custom), attrs="all")


@pytest.mark.parametrize(
    ("value", "values", "shape"),
    [
        ([0, 2, 1], (0, 2, 1), (3,)),
        (1e-12, (1e-12,), ()),
        ([b"a", b"b"], (b"a", b"b"), (2,)),
        ([[True]], (True,), (1, 1)),
    ],
)
def test_small_constants_must_have_their_values(value: Any, values: tuple[Any, ...], shape: tuple[int, ...]) -> None:
    kind = dtype_named("float64") if isinstance(value, float) else None
    const = Node("c", "Const", (), {"value": ArrayTensor.of(value, kind)})
    found = pattern(Node("y", "Custom", ("x", "c")), const)
    constant = wanted(found, "c").constant
    assert constant is not None
    assert (constant.values, constant.shape) == (values, shape)
    assert "value" not in wanted(found, "c").attrs
    assert wanted(found, "c", values=False).constant is None


@pytest.mark.parametrize("value", [[0.0] * 17, []])
def test_weights_may_differ(value: list[float]) -> None:
    const = Node("c", "Const", (), {"value": ArrayTensor.of(value, FLOAT)})
    assert wanted(pattern(Node("y", "Custom", ("x", "c")), const), "c").constant is None


def test_strings_are_not_added_in_any_order() -> None:
    text, number = ({"T": dtype_named(name)} for name in ("string", "float32"))
    assert not wanted(pattern(Node("y", "Add", ("x", "b"), text)), "y").is_commutative
    assert wanted(pattern(Node("y", "Add", ("x", "b"), number)), "y").is_commutative
    assert not wanted(pattern(Node("y", "Sub", ("x", "b"), number)), "y").is_commutative


TWO = pattern(Node("a", "Relu", ("x",), {"T": FLOAT}), Node("b", "Neg", ("x",), {"T": FLOAT}), seeds=2)


def test_several_seeds() -> None:
    """All of them are output 0 of the node, unless its definition has several outputs: then one for each."""
    one = recipe_from_pattern(TWO, MINE).variants[0]
    assert one.outputs == {Endpoint("a", 0): Endpoint("fused", 0), Endpoint("b", 0): Endpoint("fused", 0)}
    several = recipe_from_pattern(TWO, Node("u", "Unique", ("x",), {"T": FLOAT})).variants[0]
    assert several.outputs == {Endpoint("a", 0): Endpoint("u", 0), Endpoint("b", 0): Endpoint("u", 1)}
    three = pattern(*TWO.nodes, Node("c", "Abs", ("x",), {"T": FLOAT}), seeds=3)
    with pytest.raises(UsageError, match="the new node has 2 outputs, and the pattern has 3 seeds"):
        recipe_from_pattern(three, Node("u", "Unique", ("x",), {"T": FLOAT}))


def test_output_names_of_the_bert_op() -> None:
    assert recipe_from_pattern(TWO, Node("f", "Bert", ("x",))).variants[0].targets[0].output_args == ("encoded",)
    assert recipe_from_pattern(TWO, Node("f", "Relu", ("x",))).variants[0].targets[0].output_args == ()


@pytest.mark.parametrize(
    ("text", "found"), [("x", "x"), ("x:0", "x"), ("a", "a"), ("^x", "^x"), ("^a", "^a"), ("x:out:0", "x")]
)
def test_what_an_input_may_name(text: str, found: str) -> None:
    assert recipe_from_pattern(TWO, Node("f", "Mine", (text,))).variants[0].targets[0].inputs == (found,)


def test_an_output_that_is_not_named_is_the_first_that_is_taken() -> None:
    """As in the original tool, whose recipes name nodes."""
    found = pattern(Node("y", "Custom", ("s:2", "s:1")))
    assert recipe_from_pattern(found, Node("f", "Mine", ("s", "s:1"))).variants[0].targets[0].inputs == ("s", "s.1")
    with pytest.raises(NotFoundInModelError):
        recipe_from_pattern(found, Node("f", "Mine", ("s:0",)))


@pytest.mark.parametrize("text", ["gone", "x:1", "^gone", "xx"])
def test_inputs_that_the_pattern_does_not_take(text: str) -> None:
    with pytest.raises(NotFoundInModelError, match="is no tensor that the pattern takes") as caught:
        recipe_from_pattern(TWO, Node("f", "Mine", (text,)))
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("nodes", "target", "says"),
    [
        ((), MINE, "the pattern has no seed"),
        ((RELU, RELU), MINE, "two nodes of this name"),
        ((Node("", "Relu"),), MINE, "no name or no op"),
        ((RELU,), Node("", "Mine"), "no sound name"),
        ((RELU,), Node("a{b}", "Mine"), "no sound name"),
        ((RELU,), Node("f", ""), "no op"),
    ],
)
def test_what_cannot_be(nodes: tuple[Node, ...], target: Node, says: str) -> None:
    with pytest.raises((InvalidModelError, UsageError), match=says):
        recipe_from_pattern(pattern(*nodes), target)
