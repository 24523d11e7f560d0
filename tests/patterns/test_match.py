"""The matcher on one query: what fits, and above all what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.support.pattern_queries import graph, node, query, recipe, wanted

from tfsmith.ir.body import Body, Part
from tfsmith.ir.graph import Function, FunctionParts, Graph
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.recipe import ConstantQuery, Match, Miss, Query
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, OpaqueTensor, SpanTensor, StringTensor, Tensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.patterns.matcher import Matcher, find_matches
from tfsmith.storage import from_bytes
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import frozen_graph

FLOAT = dtype_named("float32")
DOUBLE = dtype_named("float64")


def find(body: Body, *queries: Query, taken: tuple[str, ...] = ()) -> tuple[Match, ...]:
    return find_matches(body, recipe(*queries), taken=taken).matches


def found_nodes(body: Body, *queries: Query, taken: tuple[str, ...] = ()) -> list[dict[str, str]]:
    return [dict(match.units[0].nodes) for match in find(body, *queries, taken=taken)]


def miss_of(body: Body, one: Query) -> Miss:
    found = find_matches(body, recipe(one))
    assert not found.matches
    assert found.miss is not None
    return found.miss


DENSE = query(
    "x kernel bias",
    "add",
    wanted("product", "MatMul", "x kernel", {"transpose_b": False, "T": FLOAT}),
    wanted("add", "BiasAdd", "product bias"),
)
DENSE_ROWS: tuple[tuple[Any, ...], ...] = (
    ("in", "Placeholder"),
    ("k", "VariableV2"),
    ("b", "VariableV2"),
    ("d/MatMul", "MatMul", "in k", {"transpose_b": False, "T": FLOAT}),
    ("d/BiasAdd", "BiasAdd", "d/MatMul b", {"T": FLOAT}),
    ("out", "Relu", "d/BiasAdd"),
)


def changed(name: str, **changes: Any) -> Graph:
    """The dense layer with one node changed."""
    found = graph(*DENSE_ROWS)
    return found.map_nodes({name: found[name].replace(**changes)})


def test_a_dense_layer_is_found_with_all_that_stands_around_it() -> None:
    found = find_matches(graph(*DENSE_ROWS), recipe(DENSE))
    assert len(found.matches) == 1
    match = found.matches[0]
    assert match.body is None
    assert match.variant.name == "way 0"
    assert match.before is None
    unit = match.units[0]
    assert unit.nodes == {"product": "d/MatMul", "add": "d/BiasAdd"}
    assert unit.inputs == {"x": Endpoint("in", 0), "kernel": Endpoint("k", 0), "bias": Endpoint("b", 0)}
    assert unit.passed == ()
    assert found.miss is None


@pytest.mark.parametrize(
    ("body", "matched", "missed", "place", "words"),
    [
        (changed("d/MatMul", attrs={"transpose_b": True}), 1, "product", "d/MatMul", "transpose_b must be False"),
        (changed("d/MatMul", attrs={"T": DOUBLE}), 1, "product", "d/MatMul", "T must be float32, and it is float64"),
        (changed("d/MatMul", attrs={"T": None}), 1, "product", "d/MatMul", "T must be float32, and it has none"),
        (changed("d/MatMul", op="BatchMatMulV2"), 1, "product", "d/MatMul", "must be MatMul, and it is BatchMatMulV2"),
        (changed("d/MatMul", inputs=("in", "k", "b")), 1, "product", "d/MatMul", "must have 2 inputs, and it has 3"),
        (changed("d/MatMul", inputs=("in",)), 1, "product", "d/MatMul", "must have 2 inputs, and it has 1"),
        (changed("d/BiasAdd", inputs=("b", "d/MatMul")), 1, "product", "b", "must be MatMul, and it is VariableV2"),
        (changed("d/BiasAdd", inputs=("d/MatMul:1", "b")), 1, "product", "d/MatMul", "output 0, and it is output 1"),
        (changed("d/BiasAdd", op="Add"), 0, "add", "", "there is no node of op BiasAdd"),
        (changed("d/BiasAdd", inputs=("gone", "b")), 1, "product", "gone", "there is no such node"),
        (changed("d/BiasAdd", inputs=("^d/MatMul", "b")), 0, "add", "d/BiasAdd", "must have 2 inputs, and it has 1"),
    ],
)
def test_one_thing_off_is_no_match_and_the_miss_says_which(
    body: Graph, matched: int, missed: str, place: str, words: str
) -> None:
    miss = miss_of(body, DENSE)
    assert (miss.matched, miss.wanted_node, miss.found_node) == (matched, missed, place)
    assert words in miss.reason
    assert (miss.body, miss.variant) == (None, "way 0")


def test_what_the_query_does_not_name_does_not_matter() -> None:
    extra = {"transpose_b": False, "T": FLOAT, "_class": 1}
    body = changed("d/MatMul", attrs=extra, device="/cpu:0", inputs=("in", "k", "^b"))
    assert len(find(body, DENSE)) == 1


def test_an_attribute_that_the_file_leaves_out_has_its_default() -> None:
    assert len(find(changed("d/MatMul", attrs={"transpose_b": None}), DENSE)) == 1
    other = query("x k", "m", wanted("m", "MatMul", "x k", {"transpose_b": True}))
    miss = miss_of(changed("d/MatMul", attrs={"transpose_b": None}), other)
    assert "must be True, and it is False" in miss.reason
    unknown = query("x", "m", wanted("m", "NobodyKnowsThis", "x", {"transpose_b": True}))
    assert "it has none" in miss_of(graph(("a", "P"), ("n", "NobodyKnowsThis", "a")), unknown).reason


@pytest.mark.parametrize(
    ("wish", "there", "fits"),
    [
        (0.2, float(np.float32(0.2)), True),  # a file holds 32 bits
        (0.2, 0.3, False),
        (float("nan"), float("nan"), False),
        (1e300, 1e300, True),
        (1, 1.0, False),
        ((), [], True),
        ((1, 2), [1, 2], True),
        ((1, 2), [2, 1], False),
        ((1, 2), [1, 2, 3], False),
        ((0.1,), [float(np.float32(0.1))], True),
        (Shape((1, -1)), Shape((1, -1)), True),
        (Shape((1, -1)), Shape(None), False),
        ("SAME", b"SAME", True),
        ("SAME", b"VALID", False),
        (ArrayTensor.of([1, 2]), ArrayTensor.of([1, 2]), True),
        (ArrayTensor.of([1, 2]), ArrayTensor.of([1, 3]), False),
        (ArrayTensor.of([1, 2]), ArrayTensor.of([[1, 2]]), False),
        (ArrayTensor.of(1.0), OpaqueTensor(DOUBLE, Shape(())), False),
    ],
)
def test_attributes_of_all_kinds(wish: Any, there: Any, fits: bool) -> None:
    body = graph(("x", "P"), ("n", "Some", "x", {"a": there}))
    assert len(find(body, query("x", "n", wanted("n", "Some", "x", {"a": wish})))) == fits


def test_one_of_several_ops_will_do() -> None:
    body = graph(("a", "P"), ("s", "Add", "a a"), ("t", "AddV2", "s s"), ("u", "Sub", "t t"))
    assert found_nodes(body, query("x", "n", wanted("n", "AddV2|Add|AddV2", "x x"))) == [{"n": "s"}, {"n": "t"}]


def test_the_same_input_is_the_same_tensor_everywhere() -> None:
    square = query("x", "m", wanted("m", "Mul", "x x"))
    body = graph(("a", "P"), ("b", "P"), ("m", "Mul", "a b"))
    assert "takes b:0 in the place of 'x', but that is a:0 elsewhere" in miss_of(body, square).reason
    assert find(graph(("a", "Split"), ("m", "Mul", "a a:1")), square) == ()
    assert len(find(graph(("a", "Split"), ("m", "Mul", "a:1 a:1")), square)) == 1


def test_output_indexes() -> None:
    norm = query("x", "n:1 r", wanted("n", "FusedBatchNormV3", "x"), wanted("r", "Relu", "n:2"))
    assert len(find(graph(("a", "P"), ("n", "FusedBatchNormV3", "a"), ("r", "Relu", "n:2")), norm)) == 1
    assert find(graph(("a", "P"), ("n", "FusedBatchNormV3", "a"), ("r", "Relu", "n:1")), norm) == ()
    assert find(graph(("a", "P"), ("n", "FusedBatchNormV3", "a"), ("r", "Relu", "n")), norm) == ()


# Commutative ops


GELU_PART = query(
    "x y",
    "m",
    wanted("e", "Erf", "x"),
    wanted("a", "AddV2", "e one", both=True),
    wanted("one", "Const", constant=ConstantQuery((1.0,))),
    wanted("m", "Mul", "y a", both=True),
)
ONE = {"value": ArrayTensor.of(1.0, FLOAT), "dtype": FLOAT}


@pytest.mark.parametrize("add", ["e one", "one e"])
@pytest.mark.parametrize("mul", ["h a", "a h"])
def test_commutative_nodes_fit_in_both_orders(add: str, mul: str) -> None:
    body = graph(
        ("p", "P"), ("h", "P"), ("one", "Const", "", ONE), ("e", "Erf", "p"), ("a", "AddV2", add), ("m", "Mul", mul)
    )
    (match,) = find(body, GELU_PART)
    assert match.units[0].nodes == {"e": "e", "a": "a", "one": "one", "m": "m"}
    assert match.units[0].inputs == {"x": Endpoint("p", 0), "y": Endpoint("h", 0)}


def test_others_fit_only_as_they_are_written() -> None:
    minus = query("x y", "s", wanted("r", "Relu", "x"), wanted("s", "Sub", "r y"))
    assert find(graph(("p", "P"), ("q", "P"), ("r", "Relu", "p"), ("s", "Sub", "q r")), minus) == ()
    assert len(find(graph(("p", "P"), ("q", "P"), ("r", "Relu", "p"), ("s", "Sub", "r q")), minus)) == 1


def test_only_the_first_two_inputs_may_be_exchanged() -> None:
    three = query("x y", "s", wanted("r", "Relu", "x"), wanted("s", "AddN", "r y y", both=True))
    rows: tuple[tuple[Any, ...], ...] = (("p", "P"), ("q", "P"), ("r", "Relu", "p"))
    assert find(graph(*rows, ("s", "AddN", "q q r")), three) == ()
    assert len(find(graph(*rows, ("s", "AddN", "q r q")), three)) == 1


def test_a_choice_is_taken_back_when_it_turns_out_wrong_far_away() -> None:
    """Both Relus fit both places of the Add; only the Sub at the other end tells which is which."""
    two = query(
        "x y",
        "top",
        wanted("left", "Relu", "x"),
        wanted("right", "Relu", "y"),
        wanted("sum", "AddV2", "left right", both=True),
        wanted("top", "Sub", "sum x"),
    )
    rows: tuple[tuple[Any, ...], ...] = (("a", "P"), ("b", "P"), ("ra", "Relu", "a"), ("rb", "Relu", "b"))
    body = graph(*rows, ("s", "AddV2", "ra rb"), ("t", "Sub", "s b"))
    (match,) = find(body, two)
    assert match.units[0].nodes == {"left": "rb", "right": "ra", "sum": "s", "top": "t"}
    assert find(graph(*rows, ("c", "P"), ("s", "AddV2", "ra rb"), ("t", "Sub", "s c")), two) == ()


def test_two_wanted_nodes_are_two_nodes() -> None:
    two = query("x", "s", wanted("a", "Relu", "x"), wanted("b", "Relu", "x"), wanted("s", "AddV2", "a b"))
    miss = miss_of(graph(("p", "P"), ("r", "Relu", "p"), ("s", "AddV2", "r r")), two)
    assert "'s' takes 'r' in the place of 'b', but it is 'a' already" in miss.reason
    assert len(find(graph(("p", "P"), ("r", "Relu", "p"), ("q", "Relu", "p"), ("s", "AddV2", "r q")), two)) == 1


# Control inputs


WAITS = query("x", "r", wanted("check", "Assert", "x"), wanted("r", "Relu", "x ^check"))


def test_a_listed_control_input_must_be_there() -> None:
    rows: tuple[tuple[Any, ...], ...] = (("p", "P"), ("other", "NoOp"), ("assert", "Assert", "p"))
    (match,) = find(graph(*rows, ("r", "Relu", "p ^other ^assert")), WAITS)
    assert match.units[0].nodes == {"check": "assert", "r": "r"}
    miss = miss_of(graph(*rows, ("r", "Relu", "p ^other")), WAITS)
    assert miss.wanted_node == "r"
    assert "'r' must wait for 'check' by a control edge, and does not" in miss.reason
    assert find(graph(*rows, ("r", "Relu", "p")), WAITS) == ()
    assert find(graph(*rows, ("q", "P"), ("wrong", "Assert", "q"), ("r", "Relu", "p ^wrong")), WAITS) == ()


def test_a_control_input_may_be_an_input_of_the_query() -> None:
    also_data = query("x y", "r", wanted("r", "Relu", "x ^y"), through="Identity")
    (match,) = find(graph(("p", "P"), ("q", "P"), ("r", "Relu", "p ^q")), also_data)
    assert match.units[0].inputs == {"x": Endpoint("p", 0), "y": Endpoint("q", -1)}
    same = query("x", "r", wanted("r", "Relu", "x ^x"))
    assert find(graph(("p", "P"), ("q", "P"), ("r", "Relu", "p ^q")), same) == ()
    assert len(find(graph(("p", "P"), ("q", "P"), ("r", "Relu", "p ^q ^p")), same)) == 1


def test_a_node_that_only_waits_is_found_from_what_it_waits_for() -> None:
    after = query("x", "r done", wanted("r", "Relu", "x"), wanted("done", "NoOp", "^r"))
    body = graph(("p", "P"), ("r", "Relu", "p"), ("no", "NoOp"), ("yes", "NoOp", "^r"))
    assert found_nodes(body, after) == [{"r": "r", "done": "yes"}]
    assert find(graph(("p", "P"), ("r", "Relu", "p"), ("no", "NoOp", "^p")), after) == ()


# Passing through


RELU_TANH = query("x", "t", wanted("r", "Relu", "x"), wanted("t", "Tanh", "r"), through="Identity StopGradient")


def test_identities_on_an_edge_are_passed_and_belong_to_the_match() -> None:
    body = graph(
        ("p", "P"), ("i", "Identity", "p"), ("r", "Relu", "i"), ("j", "Identity", "r"), ("k", "StopGradient", "j"),
        ("t", "Tanh", "k"),
    )  # fmt: skip
    (match,) = find(body, RELU_TANH)
    assert match.units[0].nodes == {"r": "r", "t": "t"}
    assert set(match.units[0].passed) == {"j", "k"}
    assert match.units[0].inputs == {"x": Endpoint("i", 0)}, "what stands at an input is bound as it is"
    plain = query("x", "t", wanted("r", "Relu", "x"), wanted("t", "Tanh", "r"))
    assert find(body, plain) == ()


def test_only_a_node_of_one_input_is_passed_and_only_its_first_output() -> None:
    body = graph(("p", "P"), ("r", "Relu", "p"), ("j", "Identity", "r p"), ("t", "Tanh", "j"))
    assert find(body, RELU_TANH) == ()
    body = graph(("p", "P"), ("r", "Relu", "p"), ("j", "Identity", "r"), ("t", "Tanh", "j:1"))
    assert find(body, RELU_TANH) == ()
    body = graph(("p", "P"), ("r", "Relu", "p"), ("j", "Identity", "r:1"), ("t", "Tanh", "j"))
    assert find(body, RELU_TANH) == ()


def test_an_op_that_may_be_passed_may_also_be_wanted() -> None:
    wish = query("x", "t", wanted("i", "Identity", "x", {"T": FLOAT}), wanted("t", "Tanh", "i"), through="Identity")
    body = graph(
        ("p", "P"), ("a", "Identity", "p", {"T": FLOAT}), ("b", "Identity", "a", {"T": DOUBLE}), ("t", "Tanh", "b")
    )
    (match,) = find(body, wish)
    assert match.units[0].nodes == {"i": "a", "t": "t"}
    assert match.units[0].passed == ("b",)


def test_the_first_that_fits_is_meant_but_another_if_what_follows_demands_it() -> None:
    wish = query(
        "x", "t", wanted("r", "Relu", "x"), wanted("i", "Identity", "r"), wanted("t", "Tanh", "i"), through="Identity"
    )
    body = graph(("p", "P"), ("r", "Relu", "p"), ("a", "Identity", "r"), ("b", "Identity", "a"), ("t", "Tanh", "b"))
    (match,) = find(body, wish)
    assert match.units[0].nodes == {"r": "r", "i": "b", "t": "t"}
    assert match.units[0].passed == ("a",)


def test_a_ring_of_identities_is_no_trap() -> None:
    body = graph(("a", "Identity", "b"), ("b", "Identity", "a"), ("t", "Tanh", "a"))
    assert find(body, RELU_TANH) == ()


# Several outputs


QKV = query(
    "x q k v",
    "a b c",
    wanted("a", "MatMul", "x q", {"transpose_a": True}),
    wanted("b", "MatMul", "x k"),
    wanted("c", "MatMul", "x v", {"transpose_b": True}),
)


def test_other_outputs_are_found_among_the_users_of_what_is_bound() -> None:
    def rows(suffix: str) -> tuple[tuple[Any, ...], ...]:
        return (
            (f"x{suffix}", "P"),
            (f"c{suffix}", "MatMul", f"x{suffix} w2", {"transpose_b": True}),
            (f"b{suffix}", "MatMul", f"x{suffix} w1"),
            (f"a{suffix}", "MatMul", f"x{suffix} w0", {"transpose_a": True}),
        )

    body = graph(*((f"w{n}", "P") for n in range(3)), *rows("1"), *rows("2"))
    assert found_nodes(body, QKV) == [{"a": f"a{n}", "b": f"b{n}", "c": f"c{n}"} for n in "12"]


def test_an_output_that_is_not_there_is_a_miss() -> None:
    body = graph(("x", "P"), ("w", "P"), ("a", "MatMul", "x w", {"transpose_a": True}), ("b", "MatMul", "x w"))
    miss = miss_of(body, QKV)
    assert (miss.matched, miss.wanted_node) == (2, "c")
    split = query("x", "r t", wanted("r", "Relu", "x"), wanted("t", "Tanh", "r"))
    miss = miss_of(graph(("p", "P"), ("r", "Relu", "p")), split)
    assert (miss.wanted_node, miss.found_node, miss.reason) == ("t", "", "'t' must take r:0, and nothing does")
    miss = miss_of(graph(("p", "P"), ("r", "Relu", "p"), ("s", "Sigmoid", "r")), split)
    assert miss.reason == "'s' takes r:0 in the place of 't', but the op must be Tanh, and it is Sigmoid"


def test_outputs_are_found_by_way_of_nodes_that_are_passed() -> None:
    split = query(
        "x", "r t s", wanted("r", "Relu", "x"), wanted("t", "Tanh", "r"), wanted("s", "Sub", "t r"), through="Identity"
    )
    body = graph(
        ("p", "P"),
        ("r", "Relu", "p"),
        ("i", "Identity", "r"),
        ("t", "Tanh", "i"),
        ("j", "Identity", "t"),
        ("s", "Sub", "j i"),
    )
    (match,) = find(body, split)
    assert match.units[0].nodes == {"r": "r", "t": "t", "s": "s"}
    assert set(match.units[0].passed) == {"i", "j"}


# Occurrences


def test_occurrences_that_overlap_first_come_first_served() -> None:
    pair = query("x", "b", wanted("a", "Relu", "x"), wanted("b", "Relu", "a"))
    body = graph(("r0", "P"), *((f"r{n}", "Relu", f"r{n - 1}") for n in range(1, 6)))
    assert found_nodes(body, pair) == [{"a": "r1", "b": "r2"}, {"a": "r3", "b": "r4"}]
    assert found_nodes(body, pair, taken=("r1",)) == [{"a": "r2", "b": "r3"}, {"a": "r4", "b": "r5"}]
    assert found_nodes(body, pair, taken=("r2", "r4", "not there")) == []
    reversed_body = Graph(tuple(reversed(body.nodes)))
    assert found_nodes(reversed_body, pair) == [{"a": "r4", "b": "r5"}, {"a": "r2", "b": "r3"}]


def test_a_node_that_was_passed_is_in_no_other_match() -> None:
    body = graph(("p", "P"), ("r", "Relu", "p"), ("i", "Identity", "r"), ("t", "Tanh", "i"), ("u", "Tanh", "i"))
    assert found_nodes(body, RELU_TANH) == [{"r": "r", "t": "t"}]
    assert found_nodes(body, RELU_TANH, taken=("i",)) == []


def test_matches_may_share_constants_and_so_may_wanted_ones() -> None:
    body = graph(
        ("p", "P"), ("one", "Const", "", ONE), ("a", "AddV2", "p one"), ("b", "AddV2", "a one"),
    )  # fmt: skip
    plus = query("x", "a", wanted("a", "AddV2", "x c"), wanted("c", "Const", constant=ConstantQuery((1,))))
    assert found_nodes(body, plus) == [{"a": "a", "c": "one"}, {"a": "b", "c": "one"}]
    assert found_nodes(body, plus, taken=("one",)) == [{"a": "a", "c": "one"}, {"a": "b", "c": "one"}]
    twice = query(
        "x", "b", wanted("b", "AddV2", "a d"), wanted("a", "AddV2", "x c"), wanted("c", "Const"), wanted("d", "Const")
    )
    assert found_nodes(body, twice) == [{"b": "b", "a": "a", "c": "one", "d": "one"}]


def test_variants_are_tried_in_order_and_do_not_overlap() -> None:
    body = graph(("p", "P"), ("r", "Relu", "p"), ("t", "Tanh", "r"), ("s", "Relu", "t"))
    longer = query("x", "t", wanted("r", "Relu", "x"), wanted("t", "Tanh", "r"))
    shorter = query("x", "r", wanted("r", "Relu", "x"))
    found = find_matches(body, recipe(longer, shorter))
    assert [(match.variant.name, match.units[0].nodes) for match in found.matches] == [
        ("way 0", {"r": "r", "t": "t"}),
        ("way 1", {"r": "s"}),
    ]
    assert len(find(body, shorter, longer)) == 2


def test_the_nearest_miss_is_told_beside_matches_too() -> None:
    body = graph(*DENSE_ROWS, ("m", "MatMul", "in k", {"T": DOUBLE}), ("n", "BiasAdd", "m b"), ("o", "BiasAdd", "in b"))
    found = find_matches(body, recipe(DENSE))
    assert len(found.matches) == 1
    assert found.miss is not None
    assert found.miss.found_node == "m"


# Constants


def span_tensor(values: Any) -> SpanTensor:
    data = values.tobytes()
    return SpanTensor(dtype_named(values.dtype.name), Shape(values.shape), from_bytes(data))


class Untouchable(ArrayTensor):
    """Values that nobody may read."""

    def numpy(self) -> Any:
        raise AssertionError("a large tensor was read")


BIG = Shape((1 << 40,))


@pytest.mark.parametrize(
    ("wish", "there", "fits"),
    [
        (ConstantQuery((1e-12,)), ArrayTensor.of(1e-12, FLOAT), True),
        (ConstantQuery((1e-12,)), span_tensor(np.float32(1e-12)), True),
        (ConstantQuery((1e-12,)), ArrayTensor.of(1e-5, FLOAT), False),
        (ConstantQuery((1e-12,)), ArrayTensor.of(0.0, FLOAT), False),
        (ConstantQuery((1e-3,), tolerance=0.1), ArrayTensor.of(1.05e-3, FLOAT), True),
        (ConstantQuery((0.1,), tolerance=0), ArrayTensor.of(0.1, FLOAT), True),  # as near as 32 bits come
        (ConstantQuery((0.1,)), ArrayTensor.of(0.1, dtype_named("bfloat16")), True),
        (ConstantQuery((0.1,)), ArrayTensor.of(0.11, dtype_named("bfloat16")), False),
        (ConstantQuery((1e-12,)), ArrayTensor.of(0, dtype_named("float16")), False),
        (ConstantQuery((float("nan"),)), ArrayTensor.of(float("nan"), FLOAT), False),
        (ConstantQuery((1.0,)), ArrayTensor.of(float("nan"), FLOAT), False),
        (ConstantQuery((float("inf"),)), ArrayTensor.of(float("inf"), FLOAT), True),
        (ConstantQuery((float("inf"),)), ArrayTensor.of(3e38, FLOAT), False),
        (ConstantQuery((1e39,)), ArrayTensor.of(float("inf"), FLOAT), False),
        (ConstantQuery((10**400,)), ArrayTensor.of(1.0, FLOAT), False),
        (ConstantQuery((1.0,)), ArrayTensor.of(1 + 2j), False),
        (ConstantQuery((0, 2, 1, 3)), ArrayTensor.of([0, 2, 1, 3]), True),
        (ConstantQuery((0, 2, 1, 3)), ArrayTensor.of([0, 2, 3, 1]), False),
        (ConstantQuery((0, 2, 1, 3)), ArrayTensor.of([0, 2, 1]), False),
        (ConstantQuery((0, 2, 1, 3)), ArrayTensor.of([[0, 2], [1, 3]]), True),
        (ConstantQuery((0, 2, 1, 3), (4,)), ArrayTensor.of([[0, 2], [1, 3]]), False),
        (ConstantQuery((2,), tolerance=0.5), ArrayTensor.of(3), False),  # integers have no tolerance
        (ConstantQuery((1,), ()), ArrayTensor.of([1]), False),
        (ConstantQuery((True,)), ArrayTensor.of(True), True),
        (ConstantQuery((True,)), ArrayTensor.of(False), False),
        (ConstantQuery(()), ArrayTensor.of([], FLOAT), True),
        (ConstantQuery((1,)), ArrayTensor.of([], FLOAT), False),
        (ConstantQuery((0,)), FilledTensor(FLOAT, BIG, b""), True),
        (ConstantQuery((0.5,)), FilledTensor(FLOAT, BIG, np.float32(0.5).tobytes()), True),
        (ConstantQuery((0.5,)), FilledTensor(FLOAT, BIG, np.float32(0.25).tobytes()), False),
        (ConstantQuery((0.5,), BIG.dims), FilledTensor(FLOAT, BIG, np.float32(0.5).tobytes()), True),
        (ConstantQuery((0.5, 0.5)), FilledTensor(FLOAT, BIG, np.float32(0.5).tobytes()), False),
        (ConstantQuery((0.5,)), FilledTensor(FLOAT, BIG, np.array([0.5, 0.25], np.float32).tobytes()), False),
        (ConstantQuery((1, 2, 2)), FilledTensor(FLOAT, Shape((3,)), np.array([1, 2], np.float32).tobytes()), True),
        (ConstantQuery((1.0,)), Untouchable(FLOAT, np.ones(2, np.float32)), False),
        (ConstantQuery((1.0,), (3,)), Untouchable(FLOAT, np.ones(2, np.float32)), False),
        (ConstantQuery((1.0,), (2,)), ArrayTensor.of([1.0, 1.0], FLOAT), True),
        (ConstantQuery((1.0,), (2,)), ArrayTensor.of([1.0, 2.0], FLOAT), False),
        (ConstantQuery((b"abc",)), StringTensor(Shape(()), [b"abc"]), True),
        (ConstantQuery((b"abc",)), StringTensor(Shape(()), [b"abd"]), False),
        (ConstantQuery((b"a", b"b")), StringTensor(Shape((2,)), [b"a", b"b"]), True),
        (ConstantQuery((b"",)), StringTensor(BIG, []), True),
        (ConstantQuery((b"1",)), ArrayTensor.of(1), False),
        (ConstantQuery((1,)), StringTensor(Shape(()), [b"1"]), False),
        (ConstantQuery((1,)), OpaqueTensor(dtype_named("resource"), Shape(())), False),
    ],
)
def test_values_of_constants(wish: ConstantQuery, there: Tensor, fits: bool) -> None:
    body = graph(("c", "Const", "", {"value": there}), ("r", "Rsqrt", "c"))
    one = query("", "r", wanted("r", "Rsqrt", "c"), wanted("c", "Const", constant=wish))
    found = find_matches(body, recipe(one))
    assert len(found.matches) == fits
    if not fits:
        assert found.miss is not None
        assert "'r' takes 'c' in the place of 'c', but its value must" in found.miss.reason


def test_a_constant_without_a_value_is_none() -> None:
    one = query("", "c", wanted("c", "Const", constant=ConstantQuery((1,))))
    assert "and it has none" in miss_of(graph(("c", "Const")), one).reason


# Functions


def function(*nodes: Node) -> Function:
    signature = OpDef("f", (ArgDef("a", FLOAT), ArgDef("b", FLOAT)))
    return Function("f", Part.of(FunctionParts(signature, nodes, {"r": "add:output:0"})))


def test_a_query_fits_functions_as_it_fits_graphs() -> None:
    body = function(
        node("mm", "MatMul", "a b", {"T": FLOAT}),
        node("add", "BiasAdd", "mm:product:0 b", {"T": FLOAT}),
    )
    found = find_matches(body, recipe(DENSE), name="f")
    (match,) = found.matches
    assert match.body == "f"
    assert match.units[0].nodes == {"product": "mm", "add": "add"}
    assert match.units[0].inputs == {"x": Endpoint("a", 0), "kernel": Endpoint("b", 0), "bias": Endpoint("b", 0)}


def test_outputs_with_names_have_numbers() -> None:
    norm = query("x s", "r", wanted("n", "FusedBatchNormV3", "x s s s s"), wanted("r", "Relu", "n:2"))
    attrs = {"T": FLOAT, "U": FLOAT}
    rows = [node("n", "FusedBatchNormV3", "a b b b b", attrs), node("r", "Relu", "n:batch_variance:0")]
    assert len(find(function(*rows), norm)) == 1
    rows[1] = node("r", "Relu", "n:batch_mean:0")
    assert find(function(*rows), norm) == ()


def test_an_argument_is_no_node() -> None:
    miss = find_matches(function(node("add", "BiasAdd", "a b")), recipe(DENSE), name="f").miss
    assert miss is not None
    assert (miss.body, miss.found_node) == ("f", "a")
    assert miss.reason == (
        "'add' takes 'a' in the place of 'product', but it is an argument of the function, and the op must be MatMul"
    )


# A real model


LAYER_NORM = query(
    "x axes gamma beta",
    "out",
    wanted("mean", "Mean", "x axes", {"keep_dims": True}),
    wanted("still", "StopGradient", "mean"),
    wanted("squares", "SquaredDifference", "x still", both=True),
    wanted("variance", "Mean", "squares axes2", {"keep_dims": True}),
    wanted("axes2", "Const"),
    wanted("epsilon", "Const", constant=ConstantQuery((1e-12,))),
    wanted("padded", "AddV2|Add", "variance epsilon", both=True),
    wanted("inverse", "Rsqrt", "padded"),
    wanted("scale", "Mul", "gamma inverse", both=True),
    wanted("scaled", "Mul", "scale x", both=True),
    wanted("moved", "Mul", "scale mean", both=True),
    wanted("shift", "Sub", "beta moved"),
    wanted("out", "AddV2|Add", "scaled shift", both=True),
    through="Identity",
)


@pytest.mark.parametrize("variables", ["ref", "resource"])
def test_every_layer_norm_of_bert(variables: Any) -> None:
    model = bert_classifier(variables=variables)
    body = model.model.graph
    for one in (body, frozen_graph(body, model.model.variables, model.output_nodes)):
        found = find_matches(one, recipe(LAYER_NORM))
        scopes = [match.units[0].nodes["out"].removesuffix("/LayerNorm/batchnorm/add_1") for match in found.matches]
        assert scopes == [
            "bert/embeddings",
            *(f"bert/encoder/layer_{n}/{part}output" for n in range(2) for part in ("attention/", "")),
        ]
        for match, scope in zip(found.matches, scopes, strict=True):
            unit = match.units[0]
            assert all(name.startswith(f"{scope}/LayerNorm/") for name in unit.nodes.values())
            sources = [one[one[unit.inputs[key].node].data_inputs[0]].name for key in ("beta", "gamma")]
            assert sources == [f"{scope}/LayerNorm/beta", f"{scope}/LayerNorm/gamma"]


def test_a_model_that_is_one_constant_off_has_one_match_less_and_the_miss_names_it() -> None:
    body = bert_classifier().model.graph
    name = "bert/encoder/layer_1/output/LayerNorm/batchnorm/add/y"
    body = body.map_nodes({name: body[name].replace(attrs={"value": ArrayTensor.of(1e-5, FLOAT)})})
    found = find_matches(body, recipe(LAYER_NORM))
    assert len(found.matches) == 4
    assert found.miss is not None
    assert found.miss.found_node == name
    assert "its value must be 1e-12, and it is 9.99" in found.miss.reason


def test_a_matcher_serves_for_many_bodies() -> None:
    matcher = Matcher(recipe(DENSE))
    assert [len(matcher.find(body).matches) for body in (graph(*DENSE_ROWS), graph(), graph(*DENSE_ROWS))] == [1, 0, 1]
