"""The matcher on queries that repeat: units become chains, with what stands in front of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.pattern_queries import graph, query, recipe, wanted

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.recipe import Match, Query, Repeat
from tfsmith.patterns.matcher import Found, find_matches

CARRY = {"x": Endpoint("out", 0)}
LAYER = query(
    "x mask w",
    "out",
    wanted("scores", "MatMul", "x w"),
    wanted("masked", "AddV2", "scores mask", both=True),
    wanted("soft", "Softmax", "masked"),
    wanted("out", "AddV2", "soft x", both=True),
    through="Identity",
)
BEFORE = query(
    "m",
    "adder",
    wanted("less", "Sub", "one m"),
    wanted("one", "Const"),
    wanted("adder", "Mul", "less big"),
    wanted("big", "Const"),
    through="Identity",
)


def layers(count: int, *, mask: str = "adder", first: str = "in", prefix: str = "l") -> list[Node]:
    nodes = []
    below = first
    for n in range(count):
        at = f"{prefix}{n}"
        nodes += [
            Node(f"{at}/w", "VariableV2"),
            Node(f"{at}/scores", "MatMul", (below, f"{at}/w")),
            Node(f"{at}/masked", "AddV2", (f"{at}/scores", mask) if n % 2 else (mask, f"{at}/scores")),
            Node(f"{at}/soft", "Softmax", (f"{at}/masked",)),
            Node(f"{at}/out", "AddV2", (below, f"{at}/soft") if n % 3 else (f"{at}/soft", below)),
        ]
        below = f"{at}/out"
    return nodes


def front() -> list[Node]:
    return [
        Node("in", "Placeholder"),
        Node("mask", "Placeholder"),
        Node("one", "Const"),
        Node("big", "Const"),
        Node("less", "Sub", ("one", "mask")),
        Node("adder", "Mul", ("less", "big")),
    ]


def encoder(count: int) -> Graph:
    return Graph((*front(), *layers(count), Node("end", "Identity", (f"l{count - 1}/out",))))


def find(
    body: Graph,
    one: Query = LAYER,
    *,
    carry: Mapping[str, Endpoint] = CARRY,
    shared: tuple[str, ...] = ("mask",),
    before: Query | None = None,
    least: int = 1,
) -> Found:
    links = {} if before is None else {"mask": Endpoint("adder", 0)}
    return find_matches(body, recipe(one, repeat=Repeat(carry, shared, before, links, least)))


def outs(match: Match) -> list[str]:
    return [unit.nodes["out"] for unit in match.units]


@pytest.mark.parametrize("count", [1, 2, 12])
def test_layers_become_one_match_with_what_stands_in_front(count: int) -> None:
    found = find(encoder(count), before=BEFORE)
    (match,) = found.matches
    assert outs(match) == [f"l{n}/out" for n in range(count)]
    assert [unit.inputs["w"].node for unit in match.units] == [f"l{n}/w" for n in range(count)]
    assert [unit.inputs["x"].node for unit in match.units] == ["in", *(f"l{n}/out" for n in range(count - 1))]
    assert match.before is not None
    assert match.before.nodes == {"less": "less", "one": "one", "adder": "adder", "big": "big"}
    assert match.before.inputs == {"m": Endpoint("mask", 0)}


def test_the_order_of_the_file_does_not_matter() -> None:
    body = Graph(tuple(reversed(encoder(5).nodes)))
    (match,) = find(body, before=BEFORE).matches
    assert outs(match) == [f"l{n}/out" for n in range(5)]


def test_a_chain_that_is_broken_in_the_middle_is_two() -> None:
    body = encoder(12)
    body = body.map_nodes({"l6/soft": body["l6/soft"].replace(op="Sigmoid")})
    found = find(body)
    assert [outs(match) for match in found.matches] == [
        [f"l{n}/out" for n in range(6)],
        [f"l{n}/out" for n in range(7, 12)],
    ]
    assert found.miss is not None
    assert (found.miss.wanted_node, found.miss.found_node) == ("soft", "l6/soft")
    found = find(body, least=6)
    assert [len(match.units) for match in found.matches] == [6]
    assert found.miss is not None
    assert found.miss.reason == "at least 6 in a row are wanted, and from 'l7/out' to 'l11/out' there are 5"
    assert found.miss.matched == 20


def test_a_node_between_two_units_that_is_not_passed_breaks_the_chain() -> None:
    nodes = [*front(), *layers(2), Node("between", "Relu", ("l1/out",)), *layers(3, first="between", prefix="k")]
    assert [len(match.units) for match in find(Graph(tuple(nodes))).matches] == [2, 3]


def test_identities_between_units_are_passed_and_belong_to_the_second() -> None:
    nodes = [*front(), *layers(2), Node("between", "Identity", ("l1/out",)), *layers(3, first="between", prefix="k")]
    (match,) = find(Graph(tuple(nodes))).matches
    assert [unit.passed for unit in match.units] == [(), (), ("between",), (), ()]
    assert match.units[2].inputs["x"] == Endpoint("between", 0)


def test_shared_inputs_must_be_the_same_in_all_units() -> None:
    nodes = [*front(), Node("other", "Placeholder"), *layers(2), *layers(2, first="l1/out", prefix="k", mask="other")]
    body = Graph(tuple(nodes))
    assert [len(match.units) for match in find(body).matches] == [2, 2]
    assert [len(match.units) for match in find(body, shared=()).matches] == [4]


def test_a_wrong_front_is_no_match_and_the_miss_says_so() -> None:
    body = encoder(3)
    body = body.map_nodes({"less": body["less"].replace(op="AddV2")})
    found = find(body, before=BEFORE)
    assert found.matches == ()
    assert found.miss is not None
    assert found.miss.matched == 3 * 4 + 1
    assert found.miss.reason == "'adder' takes 'less' in the place of 'less', but the op must be Sub, and it is AddV2"


def test_the_front_may_stand_behind_nodes_that_are_passed() -> None:
    body = Graph((*front(), Node("same", "Identity", ("adder",)), *layers(3, mask="same")))
    (match,) = find(body, before=BEFORE).matches
    assert match.before is not None
    assert match.before.nodes["adder"] == "adder"
    assert match.before.passed == ("same",)


def test_a_front_serves_one_chain() -> None:
    nodes = [*front(), Node("in2", "Placeholder"), *layers(2), *layers(3, first="in2", prefix="k")]
    found = find(Graph(tuple(nodes)), before=BEFORE)
    assert [outs(match) for match in found.matches] == [["l0/out", "l1/out"]]


def test_two_chains_of_their_own() -> None:
    nodes = [*front(), Node("in2", "Placeholder"), *layers(2), *layers(3, first="in2", prefix="k")]
    assert [len(match.units) for match in find(Graph(tuple(nodes))).matches] == [2, 3]


def test_of_two_units_that_follow_one_the_first_goes_on() -> None:
    nodes = [*front(), *layers(2), *layers(2, first="l1/out", prefix="a"), *layers(1, first="l1/out", prefix="b")]
    assert [outs(match) for match in find(Graph(tuple(nodes))).matches] == [
        ["l0/out", "l1/out", "a0/out", "a1/out"],
        ["b0/out"],
    ]


@pytest.mark.parametrize("order", ["{below} k{n}", "k{n} {below}"])
def test_an_exchange_that_leaves_both_ways_open_is_settled_by_the_chain(order: str) -> None:
    """Add(x, k): both are inputs, and only the chain tells which one is carried on."""
    plus = query("x k", "out", wanted("out", "AddV2", "x k", both=True))
    rows: list[tuple[Any, ...]] = [("start", "P")]
    below = "start"
    for n in range(5):
        rows += [(f"k{n}", "P"), (f"a{n}", "AddV2", order.format(below=below, n=n))]
        below = f"a{n}"
    (match,) = find(graph(*rows), plus, shared=()).matches
    assert outs(match) == [f"a{n}" for n in range(5)]
    assert [unit.inputs["k"].node for unit in match.units[1:]] == [f"k{n}" for n in range(1, 5)]


@pytest.mark.parametrize("order", ["{below} k", "k {below}"])
def test_so_is_one_with_a_shared_input(order: str) -> None:
    plus = query("x k", "out", wanted("out", "AddV2", "x k", both=True))
    rows: list[tuple[Any, ...]] = [("start", "P"), ("k", "P")]
    below = "start"
    for n in range(5):
        rows.append((f"a{n}", "AddV2", order.format(below=below)))
        below = f"a{n}"
    (match,) = find(graph(*rows), plus, shared=("k",)).matches
    assert outs(match) == [f"a{n}" for n in range(5)]
    assert {unit.inputs["k"] for unit in match.units} == {Endpoint("k", 0)}


def test_several_carried_inputs_come_from_one_unit() -> None:
    cell = query(
        "h c",
        "a b",
        wanted("a", "Tanh", "h"),
        wanted("b", "Mul", "a c"),
    )
    carry = {"h": Endpoint("a", 0), "c": Endpoint("b", 0)}
    rows: list[tuple[Any, ...]] = [("h", "P"), ("c", "P")]
    for n in range(3):
        h, c = ("h", "c") if not n else (f"a{n - 1}", f"b{n - 1}")
        rows += [(f"a{n}", "Tanh", h), (f"b{n}", "Mul", f"a{n} {c}")]
    (match,) = find(graph(*rows), cell, carry=carry, shared=()).matches
    assert [unit.nodes["a"] for unit in match.units] == ["a0", "a1", "a2"]
    rows[-1] = ("b2", "Mul", "a2 b0")
    assert [len(match.units) for match in find(graph(*rows), cell, carry=carry, shared=()).matches] == [2, 1]


def test_a_ring_of_units_ends_somewhere() -> None:
    relu = query("x", "out", wanted("out", "Relu", "x"))
    body = graph(("a", "Relu", "c"), ("b", "Relu", "a"), ("c", "Relu", "b"), ("d", "Relu", "d"))
    assert [outs(match) for match in find(body, relu, shared=()).matches] == [["d"], ["a", "b", "c"]]
