"""`extract`: from the seeds back to the barriers, and what it says where that cannot be."""

from __future__ import annotations

import pytest
from tests.support.helpers import UNKNOWN, field, graph_def, node_def

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError
from tfsmith.formats.graph.graphdef import read_graph
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph
from tfsmith.ir.node import Node
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.recipe import Pattern
from tfsmith.patterns.extract import extract
from tfsmith.storage import from_bytes


def graph(*nodes: tuple[str, str, str]) -> Graph:
    """Each node: name, op, inputs joined by blanks."""
    return Graph(tuple(Node(name, op, tuple(inputs.split())) for name, op, inputs in nodes))


def names(pattern: Pattern) -> tuple[list[str], list[str], list[str]]:
    seeds, others = ([node.name for node in nodes] for nodes in (pattern.seed_nodes, pattern.internal_nodes))
    return seeds, others, list(pattern.inputs)


DIAMOND = graph(
    ("x", "Placeholder", ""),
    ("w", "Const", ""),
    ("a", "MatMul", "x w"),
    ("b", "Relu", "a"),
    ("c", "Neg", "a"),
    ("split", "Split", "b c"),
    ("y", "AddV2", "split:1 split"),
    ("z", "Identity", "y"),
)


def test_from_the_seed_back_to_the_barriers() -> None:
    found = extract(DIAMOND, ["y"], ["x"], ["Const"])
    assert names(found) == (["y"], ["split", "c", "a", "b"], ["w", "x"])
    assert [node.name for node in found.nodes] == ["y", "split", "c", "a", "b"]
    assert found.seed_nodes[0] is DIAMOND["y"]


def test_seeds_stand_in_the_order_of_the_graph_and_may_need_each_other() -> None:
    assert names(extract(DIAMOND, ["y", "b"], ["a"])) == (["b", "y"], ["split", "c"], ["a"])


def test_barriers_that_are_not_reached_are_no_inputs() -> None:
    assert names(extract(DIAMOND, ["b"], ["a", "z"], ["Const", "NoSuchOp"])) == (["b"], [], ["a"])


def test_order_is_that_of_the_original_tool() -> None:
    """It keeps a stack: of what a node takes, the last in the graph comes first, whatever the order of the inputs."""
    found = graph(
        ("x", "Placeholder", ""),
        ("a", "A", "x"),
        ("b", "B", "a"),
        ("c", "C", "x"),
        ("d", "D", "c b"),
        ("y", "Y", "a d b"),
    )
    assert names(extract(found, ["y"], ["x"])) == (["y"], ["d", "c", "b", "a"], ["x"])


@pytest.mark.parametrize("constants", [False, True])
def test_constants(constants: bool) -> None:
    if constants:
        assert names(extract(DIAMOND, ["a"], ["x"], constants=True)) == (["a"], ["w"], ["x"])
        return
    with pytest.raises(UsageError, match="node 'w' has no inputs"):
        extract(DIAMOND, ["a"], ["x"])


def test_an_open_end_is_named_with_the_path_to_it() -> None:
    with pytest.raises(UsageError) as caught:
        extract(DIAMOND, ["z"], [], ["Const"])
    assert str(caught.value) == (
        "the graph: node 'x' has no inputs and is no barrier, so the pattern is open there (from the seed: "
        "z <- y <- split <- c <- a <- x); name it as a barrier (barriers=), "
        "or all nodes of its op (barrier_ops=Placeholder)"
    )


def test_other_open_ends_and_long_paths() -> None:
    chain = [(f"n{number}", "Relu", f"n{number - 1}" if number else "p q") for number in range(20)]
    found = graph(("p", "Placeholder", ""), ("q", "VariableV2", ""), *chain)
    with pytest.raises(UsageError) as caught:
        extract(found, ["n19"])
    assert "n19 <- n18 <- n17 <- n16 <- ... <- n2 <- n1 <- n0 <- q)" in str(caught.value)
    assert str(caught.value).endswith("(barrier_ops=VariableV2); also open: p (Placeholder)")


def test_control_inputs_are_not_followed() -> None:
    found = graph(
        ("x", "Placeholder", ""),
        ("check", "Assert", "x"),
        ("a", "Relu", "x ^check"),
        ("b", "Neg", "a ^a"),
        ("n", "NoOp", "^a"),
    )
    pattern = extract(found, ["b"], ["x"])
    assert names(pattern) == (["b"], ["a"], ["x"])
    assert pattern.internal_nodes[0].inputs == ("x", "^check")
    with pytest.raises(UsageError, match="node 'n' has no inputs and is no barrier"):
        extract(found, ["n"], ["x"])


def test_loops_end() -> None:
    found = graph(
        ("x", "Placeholder", ""),
        ("enter", "Enter", "x"),
        ("merge", "Merge", "enter next"),
        ("body", "Relu", "merge"),
        ("next", "NextIteration", "body"),
        ("y", "Exit", "merge"),
    )
    assert set(names(extract(found, ["y"], ["x"]))[1]) == {"merge", "next", "body", "enter"}


@pytest.mark.parametrize(
    ("seeds", "barriers", "ops", "says"),
    [
        ([], ["x"], [], "there is no seed"),
        (["y", "y"], ["x"], [], "seed 'y' is given twice"),
        (["y"], ["x", "x"], [], "barrier 'x' is given twice"),
        (["y"], ["y"], [], "'y' is seed and barrier at once"),
        (["y"], ["x"], ["AddV2"], "seed 'y' is a barrier by its op AddV2"),
    ],
)
def test_what_makes_no_sense(seeds: list[str], barriers: list[str], ops: list[str], says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        extract(DIAMOND, seeds, barriers, ops)
    assert caught.value.remedy


def test_unknown_names_get_the_nearest() -> None:
    with pytest.raises(NotFoundInModelError, match=r"seed 'splt' is not in the graph; the nearest names are split"):
        extract(DIAMOND, ["splt"], ["x"])
    with pytest.raises(NotFoundInModelError, match=r"barrier 'splt' is not in the graph; .* split"):
        extract(DIAMOND, ["y"], ["splt"])
    with pytest.raises(InvalidModelError, match="node 'a': it takes 'gone'"):
        extract(graph(("a", "Relu", "gone")), ["a"])


def function() -> Function:
    nodes = (
        Node("a", "MatMul", ("x", "w"), {"T": 1}),
        Node("s", "Split", ("axis", "a:product:0"), {"num_split": 2}),
        Node("y", "AddV2", ("s:output:1", "s:output:0")),
    )
    signature = OpDef("f", tuple(ArgDef(name) for name in ("x", "w", "axis")), (ArgDef("out"),))
    return Function("f", Part.of(FunctionParts(signature, nodes, {"out": "y:z:0"})))


def test_arguments_of_a_function_are_inputs() -> None:
    body = function()
    assert names(extract(body, ["y"])) == (["y"], ["s", "a"], ["axis", "w", "x"])
    assert names(extract(body, ["y"], ["a", "axis"])) == (["y"], ["s"], ["a", "axis"])
    with pytest.raises(UsageError, match="seed 'x' is an argument of function 'f', not a node"):
        extract(body, ["x"])
    with pytest.raises(NotFoundInModelError, match="barrier 'axes' is not in function 'f'; the nearest names are axis"):
        extract(body, ["y"], ["axes"])


def test_nodes_keep_their_bytes() -> None:
    """Also what no schema knows; and nothing of a large node is decoded on the way."""
    seed = node_def("y", "Relu", ["x"], {"T": b"\xff not to be decoded"}, extra=UNKNOWN + field(1236, bytes(20_000)))
    data = graph_def([node_def("x", "Placeholder"), seed])
    found = extract(read_graph(from_bytes(data)), ["y"], ["x"]).seed_nodes[0]
    assert found.raw is not None
    assert found.raw.tobytes() == seed
