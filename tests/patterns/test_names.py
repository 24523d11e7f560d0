"""Rules for names in a recipe: `layer_{i}/query/kernel`, with one number in a unit and the next in the next."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.pattern_queries import query, recipe, wanted

from tfsmith.errors import UsageError
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.recipe import Query, Repeat, parse_name_rule
from tfsmith.ir.types import dtype_named
from tfsmith.patterns.matcher import Found, Matcher, find_matches
from tfsmith.records import replace

FLOAT, RESOURCE = dtype_named("float32"), dtype_named("resource")


@pytest.mark.parametrize(
    ("rule", "name", "number"),
    [
        ("layer_{i}/kernel", "layer_3/kernel", 3),
        ("layer_{i}/kernel", "bert/encoder/layer_11/kernel", 11),
        ("layer_{i}/kernel", "bert/player_3/kernel", None),
        ("layer_{i}/kernel", "bert/layer_3/kernel_1", None),
        ("layer_{i}/kernel", "layer_x/kernel", None),
        ("layer_{i}/kernel", "layer/kernel", 0),  # TensorFlow counts layer, layer_1, layer_2
        ("layer_{i}_x/kernel", "layer_x/kernel", None),
        ("layer{i}/kernel", "layer/kernel", None),
        ("{i}/kernel", "a/7/kernel", 7),
        ("dense_{i}", "a/dense_00012", 12),
        ("layer_{i+1}/w", "layer_3/w", 2),
        ("layer_{i-1}/w", "layer_3/w", 4),
        ("dense_{6i+2}/w", "dense_20/w", 3),
        ("dense_{6*i+2}/w", "dense_20/w", 3),
        ("dense_{6i+2}/w", "dense_21/w", None),
        ("a_{i}/b_{2i}/w", "a_3/b_6/w", 3),
        ("a_{i}/b_{2i}/w", "a_3/b_8/w", None),
        ("a.b/w", "axb/w", None),
        ("mask", "x/mask", 0),
        ("mask", "x/mask_1", None),
    ],
)
def test_what_fits(rule: str, name: str, number: int | None) -> None:
    assert parse_name_rule(rule).count([name]) == number
    assert parse_name_rule(rule).count(["other/x", name]) == number


def test_of_several_names_the_one_with_the_wanted_number_counts() -> None:
    rule = parse_name_rule("a_{i}")
    assert rule.count(["a_1", "a_2"]) == 1
    assert rule.count(["a_1", "a_2"], 2) == 2
    assert rule.count(["a_1", "a_2"], 3) is None
    assert parse_name_rule("a").count(["b/a"], 3) == 0


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "0 characters"),
        ("/", "1 characters"),
        ("a" * 1001, "1001 characters"),
        ("layer_{j}", "braces that are no number"),
        ("layer_{i", "braces that are no number"),
        ("layer_{0i}", "does not count"),
        ("layer_{i}{i}", "where the number of {i} ends"),
        ("layer_1{i}", "where the number of {i} ends"),
        ("layer_{i}0", "where the number of {i} ends"),
        ("kernel:0", "names an output"),
        ("^kernel", "a control input"),
    ],
)
def test_what_is_no_rule(rule: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_name_rule(rule)
    assert words in caught.value.what
    assert caught.value.remedy


LAYER = query(
    "x gamma beta",
    "out",
    wanted("scaled", "Mul", "x gamma", both=True),
    wanted("norm", "Mul", "scaled beta", both=True),
    wanted("out", "Tanh", "norm"),
)
RULES = {"gamma": "layer_{i}/gamma", "beta": "layer_{i}/beta"}
CARRY = Repeat({"x": Endpoint("out", 0)})


def named(rules: Mapping[str, str], one: Query = LAYER) -> Query:
    return replace(one, names={name: parse_name_rule(rule) for name, rule in rules.items()})


def net(*numbers: int, beta: str = "beta") -> list[Node]:
    """Layers with these numbers in their names, each of which takes what the one before gives."""
    nodes, below = [Node("in", "Placeholder")], "in"
    for number in numbers:
        at = f"net/layer_{number}"
        nodes += [
            Node(f"{at}/gamma", "VariableV2"),
            Node(f"{at}/gamma/read", "Identity", (f"{at}/gamma",)),
            Node(f"{at}/{beta}", "Const"),
            Node(f"{at}/scaled", "Mul", (f"{at}/gamma/read", below)),
            Node(f"{at}/norm", "Mul", (f"{at}/scaled", f"{at}/{beta}")),
            Node(f"{at}/out", "Tanh", (f"{at}/norm",)),
        ]
        below = f"{at}/out"
    return nodes


def find(nodes: list[Node], rules: Mapping[str, str] = RULES, repeat: Repeat = CARRY) -> Found:
    return find_matches(Graph(tuple(nodes)), recipe(named(rules), repeat=repeat))


def numbers(found: Found) -> list[list[int | None]]:
    return [[unit.number for unit in match.units] for match in found.matches]


def test_units_are_counted_from_any_number() -> None:
    assert numbers(find(net(0, 1, 2))) == [[0, 1, 2]]
    assert numbers(find(net(9, 10, 11))) == [[9, 10, 11]]
    assert numbers(find(net(0, 1), {})) == [[None, None]]
    (match,) = find(net(9, 10)).matches
    assert [unit.inputs["gamma"].node for unit in match.units] == ["net/layer_9/gamma/read", "net/layer_10/gamma/read"]
    for rules in ({"gamma": "gamma/read"}, {"gamma": "net/layer_{i}/gamma/read"}, {"out": "layer_{i}/out"}):
        assert [len(match.units) for match in find(net(0, 1, 2), rules).matches] == [3]


def test_a_number_that_does_not_follow_ends_a_chain() -> None:
    assert numbers(find(net(0, 1, 3, 4))) == [[0, 1], [3, 4]]
    assert numbers(find(net(2, 1, 0))) == [[2], [1], [0]]
    assert numbers(find(net(0, 2, 4), {"gamma": "layer_{2i}/gamma"})) == [[0, 1, 2]]
    found = find(net(0, 1, 3), repeat=Repeat(CARRY.carry, least=3))
    assert not found.matches
    assert found.miss is not None
    assert found.miss.reason == (
        "at least 3 in a row are wanted, and from 'net/layer_0/out' to 'net/layer_1/out' there are 2; "
        "{i} is 1 in its last names, and 3 in those of the next one"
    )


def test_a_name_that_is_off_is_no_match_and_the_miss_says_so() -> None:
    found = find(net(0, 1, beta="shift"))
    assert not found.matches
    assert found.miss is not None
    assert (found.miss.wanted_node, found.miss.found_node) == ("beta", "net/layer_0/shift")
    assert found.miss.reason.endswith(
        "in the place of 'beta', but its name must fit 'layer_{i}/beta', and it is 'net/layer_0/shift'"
    )
    found = find(net(0, 1), {"scaled": "layer_{i}/product"})
    assert not found.matches
    assert found.miss is not None
    assert found.miss.reason == (
        "'net/layer_0/norm' takes 'net/layer_0/scaled' in the place of 'scaled', "
        "but its name must fit 'layer_{i}/product', and it is 'net/layer_0/scaled'"
    )


def test_all_names_of_a_unit_have_one_number() -> None:
    nodes = {node.name: node for node in net(0, 1)}
    nodes["net/layer_1/norm"] = Node("net/layer_1/norm", "Mul", ("net/layer_1/scaled", "net/layer_0/beta"))
    found = find(list(nodes.values()))
    assert numbers(found) == [[0]]
    assert found.miss is not None
    assert found.miss.reason.endswith("but {i} is 0 in other names of the unit, and 1 in 'net/layer_1/gamma'")
    assert numbers(find(list(nodes.values()), {"gamma": RULES["gamma"]})) == [[0, 1]]
    wrong = {"norm": "layer_{i}/norm", "out": "layer_{i+1}/out"}
    found = find(net(0, 1), wrong)
    assert not found.matches
    assert found.miss is not None
    assert "{i} is -1 in other names of the unit, and 0 in 'net/layer_0/norm'" in found.miss.reason


@pytest.mark.parametrize("order", [("gamma", "beta"), ("beta", "gamma")])
def test_names_say_which_of_two_is_which(order: tuple[str, str]) -> None:
    pair = query("gamma beta", "out", wanted("out", "Mul", "gamma beta", both=True))
    body = Graph(
        (Node("s_1/gamma", "Const"), Node("s_1/beta", "Const"), Node("p", "Mul", tuple(f"s_1/{n}" for n in order)))
    )
    (match,) = find_matches(body, recipe(named({"beta": "s_{i}/beta"}, pair))).matches
    assert match.units[0].inputs["beta"].node == "s_1/beta"
    assert not find_matches(body, recipe(named({"beta": "s_{i}/beta", "gamma": "s_{i}/beta"}, pair))).matches


def test_of_two_units_that_follow_one_the_next_in_number_goes_on() -> None:
    branch = [
        Node(node.name, node.op, tuple("net/layer_0/out" if text == "in" else text for text in node.inputs))
        for node in net(7)[1:]
    ]
    nodes = net(0, 1, 2)
    first = [*nodes[:7], *branch, *nodes[7:]]
    assert numbers(find(first)) == [[0, 1, 2], [7]]
    assert numbers(find(first, {})) == [[None, None], [None, None]]  # without names, the first one in the file


def test_variables_that_a_function_captures() -> None:
    nodes = [
        Node("Read_5", "ReadVariableOp", ("a",)),
        Node("Read_3", "ReadVariableOp", ("b",)),
        Node("mul", "Mul", ("Read_5:value:0", "x")),
        Node("mul_1", "Mul", ("mul:z:0", "Read_3:value:0")),
        Node("tanh", "Tanh", ("mul_1:z:0",)),
    ]
    nodes = [node.replace(attrs={"dtype": FLOAT} if node.op == "ReadVariableOp" else {"T": FLOAT}) for node in nodes]
    signature = OpDef("f", (ArgDef("x", FLOAT), ArgDef("a", RESOURCE), ArgDef("b", RESOURCE)))
    body = Function("f", Part.of(FunctionParts(signature, tuple(nodes), {"r": "tanh:y:0"})))
    matcher = Matcher(recipe(named(RULES), repeat=CARRY))
    assert matcher.goes_by_names
    names = {"a": "layer_4/gamma", "b": "layer_4/beta"}
    assert numbers(matcher.find(body, name="f", variables=names)) == [[4]]
    assert not matcher.find(body, name="f").matches
    assert not matcher.find(body, name="f", variables={**names, "b": "layer_5/beta"}).matches


@pytest.mark.parametrize(
    ("rules", "repeat", "words"),
    [
        ({"z": "a"}, CARRY, "a rule for the names of 'z', which is no node and no input"),
        ({"x": "a_{i}"}, CARRY, "the input 'x' has a rule for its names, but it is carried"),
        ({"beta": "a_{i}"}, Repeat(CARRY.carry, ("beta",)), "'a_{i}' counts, but all units share the input 'beta'"),
    ],
)
def test_rules_that_cannot_be(rules: Mapping[str, str], repeat: Repeat, words: str) -> None:
    with pytest.raises(UsageError, match="recipe 'test', variant 'way 0'") as caught:
        find(net(0), rules, repeat)
    assert words in caught.value.what


def test_a_shared_input_may_have_a_name() -> None:
    shared = Repeat(CARRY.carry, ("beta",))
    assert not find(net(0), {"beta": "other/beta"}, shared).matches
    assert find(net(0), {"beta": "net/layer_0/beta"}, shared).matches
