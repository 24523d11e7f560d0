"""The matcher against a slow one that tries everything; and a piece that was cut out is found in its own place."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.pattern_queries import recipe

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Endpoint, Node, parse_input
from tfsmith.ir.recipe import NodeQuery, Query, Repeat
from tfsmith.patterns import matcher as anchors_module
from tfsmith.patterns import matcher as search_module
from tfsmith.patterns.matcher import find_matches

pytestmark = pytest.mark.slow

OPS = {"Const": 0, "Relu": 1, "Identity": 1, "Add": 2, "Sub": 2}
COMMUTATIVE = ("Add",)


@st.composite
def graphs(draw: st.DrawFn, most: int) -> Graph:
    """Small graphs without cycles, in no particular order, with control edges and second outputs."""
    nodes = [Node("n0", "Const")]
    for number in range(1, draw(st.integers(1, most))):
        op = draw(st.sampled_from(sorted(OPS)))
        sources = st.integers(max(0, number - 5), number - 1)
        outputs = st.sampled_from(["", "", "", ":1"])
        inputs = [f"n{draw(sources)}{draw(outputs)}" for _ in range(OPS[op])]
        if draw(st.integers(0, 5)) == 0:
            inputs.append(f"^n{draw(sources)}")
        nodes.append(Node(f"n{number}", op, tuple(inputs), {"a": draw(st.integers(0, 1))}))
    return Graph(tuple(draw(st.permutations(nodes))))


@st.composite
def pieces(draw: st.DrawFn, body: Graph, most: int) -> tuple[Query, dict[str, str]]:
    """A connected piece of a graph as a query, with the node that each wanted one was made from."""
    chosen = [draw(st.sampled_from(body.nodes)).name]
    for _ in range(draw(st.integers(0, most - 1))):
        near = {parse_input(text).node for name in chosen for text in body[name].inputs}
        near |= {use.node.name for name in chosen for use in body.uses[name]}
        left = sorted(near.difference(chosen))
        if not left:
            break
        chosen.append(draw(st.sampled_from(left)))
    order = draw(st.permutations(chosen))
    names = {name: f"w{number}" for number, name in enumerate(order)}
    inputs: dict[Endpoint, str] = {}
    nodes = []
    for name in order:
        node = body[name]
        ends = []
        for source, output in body.inputs_of(node):
            if source in names:
                ends.append(Endpoint(names[source], output))
            elif output != CONTROL:  # control edges that lead out of the piece need not be named
                ends.append(Endpoint(inputs.setdefault(Endpoint(source, output), f"x{len(inputs)}"), 0))
        is_commutative = node.op in COMMUTATIVE
        if is_commutative and draw(st.booleans()):
            ends[0], ends[1] = ends[1], ends[0]
        nodes.append(NodeQuery(names[name], (node.op,), tuple(ends), dict(node.attrs), None, is_commutative))
    taken = {end.node for node in nodes for end in node.inputs}
    tops = [Endpoint(node.name, 0) for node in nodes if node.name not in taken]
    through = ("Identity",) if draw(st.booleans()) else ()
    query = Query(tuple(nodes), tuple(inputs.values()), tuple(tops), through)
    return query, {wish: name for name, wish in names.items()}


def is_connected(query: Query) -> bool:
    """By nodes or inputs; by edges to what is not in the query, a piece may hang together without being a query."""
    groups = {name: {name} for name in (*query.inputs, *(node.name for node in query.nodes))}
    for node in query.nodes:
        for end in node.inputs:
            merged = groups[node.name] | groups[end.node]
            for name in merged:
                groups[name] = merged
    return len({id(group) for group in groups.values()}) == 1


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_a_piece_is_found_in_its_own_place(data: st.DataObject) -> None:
    body = data.draw(graphs(40))
    query, place = data.draw(pieces(body, 9))
    if not is_connected(query) or all(node.ops == ("Const",) for node in query.nodes):
        return
    others = tuple(node.name for node in body.nodes if node.name not in place.values())
    found = find_matches(body, recipe(query), taken=others)
    assert len(found.matches) == 1
    nodes = found.matches[0].units[0].nodes
    shown = {name: body[name].op for name in nodes.values()}
    assert {name: op for name, op in shown.items() if op != "Const"} == {
        name: body[name].op for name in place.values() if body[name].op != "Const"
    }
    assert is_occurrence(body, query, dict(nodes))


def is_occurrence(body: Graph, query: Query, nodes: dict[str, str]) -> bool:
    """Whether wanted nodes bound like this make an occurrence: the definition, written down as plainly as can be."""
    bound = [name for name in nodes.values() if body[name].op != "Const"]
    if len(set(bound)) < len(bound):
        return False
    choices = [(0, 1) if node.is_commutative else (0,) for node in query.nodes]
    return any(fits_in_order(body, query, nodes, swaps) for swaps in product(*choices))


def fits_in_order(body: Graph, query: Query, nodes: dict[str, str], swaps: tuple[int, ...]) -> bool:
    tensors: dict[str, Endpoint] = {}
    waits: list[tuple[Node, Endpoint]] = []
    for wish, is_swapped in zip(query.nodes, swaps, strict=True):
        node = body[nodes[wish.name]]
        if node.op not in wish.ops or any(node.attrs.get(key) != value for key, value in wish.attrs.items()):
            return False
        data = [end for end in wish.inputs if end.output != CONTROL]
        if is_swapped:
            data[0], data[1] = data[1], data[0]
        there = [end for end in body.inputs_of(node) if end.output != CONTROL]
        if len(data) != len(there):
            return False
        for end, found in zip(data, there, strict=True):
            if end.node in query.inputs:
                if tensors.setdefault(end.node, found) != found:
                    return False
            elif Endpoint(nodes[end.node], end.output) not in way_back(body, query, found):
                return False
        waits += [(node, end) for end in wish.inputs if end.output == CONTROL]
    return all(nodes[end.node] in node.control_inputs for node, end in waits)


def way_back(body: Graph, query: Query, end: Endpoint) -> Iterator[Endpoint]:
    yield end
    while body[end.node].op in query.through and end.output == 0:
        (end,) = (one for one in body.inputs_of(body[end.node]) if one.output != CONTROL)
        yield end


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_it_finds_something_exactly_where_trying_everything_does(data: st.DataObject) -> None:
    body = data.draw(graphs(9))
    other = data.draw(graphs(9))
    query, _ = data.draw(pieces(data.draw(st.sampled_from([body, other])), 4))
    if not is_connected(query):
        return
    names = [node.name for node in query.nodes]
    candidates = [[node.name for node in body.nodes if node.op in wish.ops] for wish in query.nodes]
    everything = [
        nodes
        for choice in product(*candidates)
        for nodes in [dict(zip(names, choice, strict=True))]
        if is_occurrence(body, query, nodes)
    ]
    found = find_matches(body, recipe(query))
    assert bool(found.matches) == bool(everything)
    owned: set[str] = set()
    for match in found.matches:
        unit = match.units[0]
        assert dict(unit.nodes) in everything
        mine = {name for name in (*unit.nodes.values(), *unit.passed) if body[name].data_inputs}
        assert owned.isdisjoint(mine)
        owned |= mine
    if not found.matches:
        assert found.miss is not None
        assert found.miss.reason
        assert found.miss.matched <= len(query.nodes)


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_places_that_are_skipped_have_nothing(data: st.DataObject) -> None:
    """Deep queries and those with a rare node are not tried everywhere; here all are taken for such."""
    body = data.draw(graphs(30))
    query, _ = data.draw(pieces(body, 6))
    if not is_connected(query):
        return
    plain = find_matches(body, recipe(query))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "_DEEP", 0)
        patch.setattr(search_module, "_MANY", 0)
        patch.setattr(anchors_module, "_RARE", 0)
        quick = find_matches(body, recipe(query))
        patch.setattr(search_module.Search, "_has_enough", lambda self: True)
        slow = find_matches(body, recipe(query))
    assert plain.matches == quick.matches == slow.matches


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_results_do_not_depend_on_anything_but_the_input(data: st.DataObject) -> None:
    body = data.draw(graphs(25))
    query, _ = data.draw(pieces(body, 3))
    if not is_connected(query):
        return
    repeats = [None, *(Repeat({name: query.outputs[0]}) for name in query.inputs[:1])]
    for repeat in repeats:
        first, second = (find_matches(Graph(body.nodes), recipe(query, repeat=repeat)) for _ in range(2))
        assert (first.matches, first.miss, first.steps) == (second.matches, second.miss, second.steps)
        units = [unit for match in first.matches for unit in match.units]
        owned = [name for unit in units for name in unit.nodes.values() if body[name].data_inputs]
        assert len(set(owned)) == len(owned)
