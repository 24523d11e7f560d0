"""Whatever the graph: a replacement whose target means the same gives a sound graph with the same answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.replace_models import (
    FLOAT,
    call,
    const,
    function,
    model_of,
    no_identity,
    node,
    placeholder,
    relu_recipe,
    square_recipe,
)

from tfsmith.ir.body import Body
from tfsmith.ir.graph import check_graph
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Recipe
from tfsmith.patterns.replace import ReplaceOptions, replace

pytestmark = pytest.mark.slow

_ONE = ("Identity", "Neg", "Relu", "Square", "Shape")
_TWO = ("Mul", "Mul", "Mul", "Maximum", "AddV2")


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Node], tuple[str, ...]]:
    """A few nodes, of which one recipe or another fits some, with edges to wait for; and which of them are outputs."""
    nodes = [placeholder("x"), const("zero", 0.0), const("two", 2.0)]
    floats = ["x", "zero", "two"]
    for number in range(draw(st.integers(1, 14))):
        op = draw(st.sampled_from(_ONE + _TWO))
        recent = st.sampled_from(floats[-4:] + floats)
        first = draw(recent)
        inputs = [first] if op in _ONE else [first, draw(st.one_of(st.just(first), recent))]
        if draw(st.integers(0, 5)) == 0:
            inputs.append("^" + draw(st.sampled_from([found.name for found in nodes])))
        name = draw(st.sampled_from(["", "a/", "a/b/"])) + f"n{number}"
        nodes.append(node(name, op, *inputs))
        if op != "Shape":
            floats.append(name)
    named = draw(st.lists(st.sampled_from(floats[3:] or floats), min_size=1, max_size=3, unique=True))
    order = draw(st.permutations(nodes)) if draw(st.booleans()) else nodes
    return list(order), tuple(named)


def run(graph: Body, outputs: tuple[str, ...]) -> list[Any]:
    """The answers, by numpy."""
    x = np.linspace(-2, 3, 7)
    values: dict[str, Any] = {"x": x}
    for found in graph.topological_order():
        given = [values[graph.resolve(text).node] for text in found.data_inputs]
        op = found.op
        if op == "Placeholder":
            values[found.name] = x
        elif op == "Const":
            values[found.name] = found.get("value").numpy().astype(float)
        elif op in ("Identity", "Neg", "Square", "Relu", "Shape"):
            one = given[0]
            table = {"Identity": one, "Neg": -one, "Square": one * one, "Relu": np.maximum(one, 0), "Shape": one}
            values[found.name] = table[op]
        else:
            left, right = given
            values[found.name] = {"Mul": left * right, "Maximum": np.maximum(left, right), "AddV2": left + right}[op]
    return [values[name] for name in outputs]


@settings(max_examples=300, deadline=None)
@given(graphs(), st.booleans(), st.booleans(), st.sampled_from(["{scope}/{name}", "{seed}", "n1"]))
def test_the_answers_stay(
    made: tuple[list[Node], tuple[str, ...]], keep_shared: bool, is_signed: bool, rename: str
) -> None:
    nodes, outputs = made
    signed = {f"o{at}": f"{name}:0" for at, name in enumerate(outputs)}
    model = model_of(nodes, outputs=signed) if is_signed else model_of(nodes)
    variants = (square_recipe(rename=rename), relu_recipe(rename=rename), no_identity())
    recipe = Recipe("all", "", tuple(one.variants[0] for one in variants))
    options = ReplaceOptions(keep_shared=keep_shared, outputs=() if is_signed else outputs)
    with np.errstate(all="ignore"):
        before = run(model.graph, outputs)
        done = replace(model, recipe, options)
        check_graph(done.model.graph)
        for one, other in zip(before, run(done.model.graph, outputs), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)
    replaced = {name for match in done.matches for name in match.nodes}
    users = {use.node.name for name in replaced for use in model.graph.uses[name]}
    for found in model.graph:
        if found.name not in replaced | users and found.name in done.model.graph:
            assert done.model.graph[found.name] is found
    assert len(done.matches) + len(done.skipped) > 0 or done.reason is not None


_OUTPUT_ARGS = {"Const": "output", "Identity": "output", "Shape": "output", "Relu": "activations"}
_OUTPUT_ARGS |= {"Neg": "y", "Square": "y"} | dict.fromkeys(_TWO, "z")


@settings(max_examples=200, deadline=None)
@given(graphs(), st.booleans())
def test_the_results_of_a_function_stay(made: tuple[list[Node], tuple[str, ...]], keep_shared: bool) -> None:
    nodes, outputs = made
    texts = {found.name: f"{found.name}:{_OUTPUT_ARGS[found.op]}:0" for found in nodes if found.name != "x"}
    texts["x"] = "x"
    inner = [
        found.replace(inputs=tuple(texts.get(text, text) for text in found.inputs))
        for found in nodes
        if found.name != "x"
    ]
    ret = {f"o{at}": texts[name] for at, name in enumerate(outputs)}
    body = function("net", {"x": FLOAT}, inner, ret, {"done": outputs[0]} if outputs[0] != "x" else {})
    top = [placeholder("p"), call("call", "net", "p", count=len(ret))]
    recipe = Recipe("all", "", tuple(one.variants[0] for one in (square_recipe(), relu_recipe(), no_identity())))
    model = model_of(top, [body], {"y": "call:0"})
    done = replace(model, recipe, ReplaceOptions(keep_shared=keep_shared))
    check_graph(done.model.graph)
    new = done.model.graph.library["net"]
    assert all(name in new for name in new.control_ret.values())
    results = tuple(new.resolve(text).node for text in new.ret.values())
    with np.errstate(all="ignore"):
        for one, other in zip(run(body, outputs), run(new, results), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)
