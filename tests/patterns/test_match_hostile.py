"""The matcher on queries that make no sense, and on graphs and queries that would take forever."""

from __future__ import annotations

import pytest
from tests.support.pattern_queries import query, recipe, wanted

from tfsmith import limits
from tfsmith.errors import InvalidModelError, LimitError, UsageError
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.recipe import ConstantQuery, Query, Recipe, Repeat
from tfsmith.patterns import index as budget_module
from tfsmith.patterns.matcher import find_matches
from tfsmith.patterns.query import validate

pytestmark = pytest.mark.slow

RELU = wanted("r", "Relu", "x")


@pytest.mark.parametrize(
    ("one", "where", "words"),
    [
        (query("x", "r"), "variant 'way 0'", "has no nodes"),
        (query("x", "", RELU), "variant 'way 0'", "has no outputs"),
        (query("x", "q", RELU), "variant 'way 0'", "the output q:0 is of no node"),
        (query("x", "x", RELU), "variant 'way 0'", "the output x:0 is of no node"),
        (query("x", "^r", RELU), "variant 'way 0'", "is no tensor"),
        (query("x", "r r", RELU), "variant 'way 0'", "names an output twice"),
        (query("x", "r", RELU, RELU), "node 'r'", "have this name"),
        (query("x r", "r", RELU), "node 'r'", "have this name"),
        (query("x x", "r", RELU), "node 'x'", "have this name"),
        (query("", "r", RELU), "node 'r'", "takes 'x', which is neither"),
        (query("x y", "r", RELU), "variant 'way 0'", "no node takes the input 'y'"),
        (query("x", "r", wanted("r", "Relu", "x:1")), "node 'r'", "has only output 0"),
        (query("x", "r", RELU, wanted("s", "Relu", "r")), "node 's'", "no output of the query needs it"),
        (query("x", "r", wanted("r", "AddV2", "x r")), "node 'r'", "lead back to itself"),
        (query("x", "r", wanted("r", "AddV2", "x s"), wanted("s", "Relu", "r")), "node 'r'", "lead back to itself"),
        (query("x", "r", wanted("r", "AddV2", "x ^s"), wanted("s", "Relu", "r")), "node 'r'", "lead back to itself"),
        (query("x y", "r s", RELU, wanted("s", "Relu", "y")), "node 's'", "nothing connects it"),
        (query("x", "r", wanted("r", "AddN", "x", both=True)), "node 'r'", "fewer than two inputs"),
        (query("x", "r", wanted("r", "AddN", "x ^x", both=True)), "node 'r'", "fewer than two inputs"),
        (query("", "c", wanted("c", "Const", constant=ConstantQuery((1, 2), (3,)))), "node 'c'", "its shape takes 3"),
        (query("", "c", wanted("c", "Const", constant=ConstantQuery((1,), (-1,)))), "node 'c'", "negative"),
        (query("", "c", wanted("c", "Const", constant=ConstantQuery((1,), None, -1))), "node 'c'", "tolerance of -1"),
        (
            query("", "c", wanted("c", "Const", constant=ConstantQuery((1,), None, float("nan")))),
            "node 'c'",
            "tolerance of nan",
        ),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_by_name(one: Query, where: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        find_matches(Graph(()), recipe(one))
    assert caught.value.where is not None
    assert caught.value.where.startswith("recipe 'test', variant 'way 0'")
    assert caught.value.where.endswith(where)
    assert words in caught.value.what
    assert caught.value.remedy


def test_a_node_needs_an_op_and_outputs_are_not_below_zero() -> None:
    bad = query("x", "r", wanted("r", "Relu", "x"))
    no_ops = Query((type(bad.nodes[0])("r", (), (Endpoint("x", 0),)),), ("x",), (Endpoint("r", 0),))
    with pytest.raises(UsageError, match="names no op"):
        validate(recipe(no_ops))
    below = Query((type(bad.nodes[0])("r", ("Relu",), (Endpoint("r2", -2),)), RELU), ("x",), (Endpoint("r", 0),))
    with pytest.raises(UsageError):
        validate(recipe(below))
    with pytest.raises(UsageError, match="no variants"):
        validate(Recipe("empty", "", ()))


CARRY = {"x": Endpoint("r", 0)}
FRONT = query("y", "t", wanted("t", "Tanh", "y"))


@pytest.mark.parametrize(
    ("repeat", "words"),
    [
        (Repeat({}), "carries nothing"),
        (Repeat(CARRY, least=0), "at least 0 times"),
        (Repeat({"z": Endpoint("r", 0)}), "names 'z'"),
        (Repeat({"x": Endpoint("z", 0)}), "the carried output z:0 is of no node"),
        (Repeat({"x": Endpoint("r", -1)}), "is no tensor"),
        (Repeat(CARRY, ("z",)), "names 'z'"),
        (Repeat(CARRY, ("x",)), "both carried and shared"),
        (Repeat(CARRY, before=FRONT), "go together"),
        (Repeat(CARRY, links={"x": Endpoint("t", 0)}), "go together"),
        (Repeat(CARRY, before=FRONT, links={"z": Endpoint("t", 0)}), "names 'z'"),
        (Repeat(CARRY, before=FRONT, links={"x": Endpoint("r", 0)}), "the linked output r:0 is of no node"),
        (Repeat(CARRY, before=query("y", "t", RELU), links={"x": Endpoint("r", 0)}), "which is neither"),
    ],
)
def test_so_is_a_repetition(repeat: Repeat, words: str) -> None:
    with pytest.raises(UsageError, match="recipe 'test', variant 'way 0'") as caught:
        find_matches(Graph(()), recipe(query("x", "r", RELU), repeat=repeat))
    assert words in caught.value.what


def test_a_graph_with_two_nodes_of_one_name_is_refused() -> None:
    with pytest.raises(InvalidModelError):
        find_matches(Graph((Node("r", "Relu", ("p",)), Node("r", "Relu", ("p",)))), recipe(query("x", "r", RELU)))


# Size: no recursion, and no more steps than the size of what is searched can explain


def adds(count: int, bottom: str = "Relu") -> Graph:
    nodes = [Node("p", "Placeholder"), Node("a0", bottom, ("p",))]
    nodes += [Node(f"a{n}", "AddV2", (f"a{n - 1}", "p") if n % 2 else ("p", f"a{n - 1}")) for n in range(1, count + 1)]
    return Graph(tuple(nodes))


def sum_query(count: int, bottom: str = "Relu") -> Query:
    nodes = [wanted("w0", bottom, "x")]
    nodes += [wanted(f"w{n}", "AddV2", f"w{n - 1} x", both=True) for n in range(1, count + 1)]
    return query("x", f"w{count}", *nodes)


def test_a_chain_of_2000_commutative_nodes() -> None:
    found = find_matches(adds(2000), recipe(sum_query(2000)))
    assert len(found.matches) == 1
    assert found.steps < 100_000
    assert found.matches[0].units[0].nodes["w1"] == "a1"


@pytest.mark.parametrize(("there", "wish", "count"), [(4000, 2000, 1), (2000, 1999, 1), (1999, 2000, 0)])
def test_chains_of_other_lengths(there: int, wish: int, count: int) -> None:
    found = find_matches(adds(there), recipe(sum_query(wish)))
    assert len(found.matches) == count
    assert found.steps < 300_000


def test_a_chain_without_an_end_fits_as_often_as_there_is_room() -> None:
    nodes = [wanted(f"w{n}", "AddV2", f"w{n - 1} s{n}", both=True) for n in range(1, 1001)]
    inputs = " ".join(["w0", *(f"s{n}" for n in range(1, 1001))])
    found = find_matches(adds(3500), recipe(query(inputs, "w1000", *nodes)))
    assert [match.units[0].nodes["w1000"] for match in found.matches] == ["a1000", "a2000", "a3000"]
    assert found.steps < 400_000


def test_a_chain_that_ends_wrong_is_told_without_trying_everything() -> None:
    found = find_matches(adds(4000), recipe(sum_query(1000, "Tanh")))
    assert found.matches == ()
    assert found.steps < 400_000
    assert found.miss is not None
    assert (found.miss.matched, found.miss.wanted_node) == (1000, "w0")


def test_every_node_takes_the_one_before_twice() -> None:
    nodes = [Node("p", "Placeholder"), *(Node(f"a{n}", "Mul", (f"a{n - 1}",) * 2) for n in range(1, 2001))]
    nodes[1] = Node("a1", "Mul", ("p", "p"))
    rows = [wanted(f"w{n}", "Mul", f"w{n - 1} w{n - 1}", both=True) for n in range(1, 2001)]
    found = find_matches(Graph(tuple(nodes)), recipe(query("w0", "w2000", *rows)))
    assert len(found.matches) == 1
    assert found.steps < 100_000


def test_a_query_of_10000_nodes() -> None:
    found = find_matches(adds(10_000), recipe(sum_query(9_999)))
    assert len(found.matches) == 1


def repeated_layers(count: int) -> Graph:
    nodes = [Node("in", "Placeholder"), Node("eps", "Const")]
    below = "in"
    for n in range(count):
        nodes += [
            Node(f"{n}/k", "Const"),
            Node(f"{n}/mm", "MatMul", (below, f"{n}/k")),
            Node(f"{n}/b", "Const"),
            Node(f"{n}/bias", "BiasAdd", (f"{n}/mm", f"{n}/b")),
            Node(f"{n}/erf", "Erf", (f"{n}/bias",)),
            Node(f"{n}/mul", "Mul", (f"{n}/bias", f"{n}/erf")),
            Node(f"{n}/add", "AddV2", (f"{n}/mul", below)),
            Node(f"{n}/eps", "AddV2", (f"{n}/add", "eps")),
            Node(f"{n}/r", "Rsqrt", (f"{n}/eps",)),
            Node(f"{n}/out", "AddV2", (f"{n}/r", f"{n}/add")),
        ]
        below = f"{n}/out"
    return Graph(tuple(nodes))


LAYER = query(
    "x k b",
    "out",
    wanted("mm", "MatMul", "x k"),
    wanted("bias", "BiasAdd", "mm b"),
    wanted("erf", "Erf", "bias"),
    wanted("mul", "Mul", "bias erf", both=True),
    wanted("add", "AddV2", "mul x", both=True),
    wanted("eps", "Const"),
    wanted("padded", "AddV2", "add eps", both=True),
    wanted("r", "Rsqrt", "padded"),
    wanted("out", "AddV2", "r add", both=True),
    through="Identity",
)


def test_the_work_grows_with_the_graph_and_no_faster() -> None:
    steps = {}
    for count in (200, 2000):
        found = find_matches(repeated_layers(count), recipe(LAYER, repeat=Repeat({"x": Endpoint("out", 0)})))
        assert [len(match.units) for match in found.matches] == [count]
        steps[count] = found.steps
    assert steps[2000] < 11 * steps[200]
    assert steps[2000] < 30 * 2000 * 10


# Limits


def tangle(levels: int) -> tuple[Graph, Query]:
    """Pairs of Relus that all fit each other's places, and a last one that no choice can please."""
    nodes = [Node("p", "Placeholder"), Node("q", "Placeholder"), Node("elsewhere", "Tanh", ("p",))]
    rows = []
    for n in range(levels):
        nodes += [
            Node(f"l{n}", "Relu", ("p",)),
            Node(f"r{n}", "Relu", ("q",)),
            Node(f"s{n}", "AddV2", (f"l{n}", f"r{n}")),
        ]
        rows += [
            wanted(f"l{n}", "Relu", f"x{n}"),
            wanted(f"r{n}", "Relu", f"y{n}"),
            wanted(f"s{n}", "AddV2", f"l{n} r{n}", both=True),
        ]
    nodes.append(Node("top", "AddN", (*(f"s{n}" for n in range(levels)), "p")))
    names = " ".join(f"s{n}" for n in range(levels))
    rows += [wanted("top", "AddN", f"{names} t"), wanted("t", "Tanh", "x0")]
    inputs = " ".join(f"x{n} y{n}" for n in range(levels))
    return Graph(tuple(nodes)), query(inputs, "top", *rows)


def test_an_attempt_that_takes_too_long_is_a_miss_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "MAX_MATCH_STEPS", 5_000)
    body, one = tangle(40)
    found = find_matches(body, recipe(one))
    assert found.matches == ()
    assert 5_000 <= found.steps <= 5_100
    assert found.miss is not None
    assert "the search was given up after" in found.miss.reason
    small_body, small = tangle(4)
    found = find_matches(small_body, recipe(small))
    assert found.miss is not None
    assert found.miss.wanted_node == "t"


def test_so_many_of_them_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget_module, "MAX_MATCH_STEPS", 1_000)
    monkeypatch.setattr(budget_module, "_STEPS_PER_NODE", 1)
    body, one = tangle(40)
    tops = [body["top"].replace(name=f"top{n}") for n in range(30)]
    with pytest.raises(LimitError, match="recipe 'test', variant 'way 0', the graph: looking for it takes more than"):
        find_matches(Graph((*body.nodes, *tops)), recipe(one))


def test_a_long_row_of_nodes_to_pass() -> None:
    nodes = [Node("i0", "Relu", ("p",)), *(Node(f"i{n}", "Identity", (f"i{n - 1}",)) for n in range(1, 20_001))]
    nodes += [Node("p", "Placeholder"), Node("t", "Tanh", ("i20000",))]
    one = query("x", "t", wanted("r", "Relu", "x"), wanted("t", "Tanh", "r"), through="Identity")
    (match,) = find_matches(Graph(tuple(nodes)), recipe(one)).matches
    assert len(match.units[0].passed) == 20_000


def test_the_limit_is_far_above_real_models() -> None:
    assert limits.MAX_MATCH_STEPS >= 100_000
