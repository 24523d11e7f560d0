"""What a model's file says of its tensors, without running anything."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.replace_models import (
    FLOAT,
    INT32,
    RESOURCE,
    axes,
    call,
    const,
    function,
    model_of,
    node,
    placeholder,
)

from tfsmith.ir.body import Body, Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import ObjectGraph, ObjectNode
from tfsmith.ir.node import Endpoint, Func, Node
from tfsmith.ir.types import UNKNOWN, Shape
from tfsmith.ops.inference import Inference, find_conflicts
from tfsmith.ops.sizes import Conflict, Dims, Size, broadcast, minus, over, plus, times

NODES = [
    placeholder("x", (None, 4)),
    placeholder("any", None),
    const("k", [[1.0] * 3] * 4),
    const("b", [0.0] * 3),
    axes("last", [-1]),
    axes("minus", -1),
    axes("perm", [1, 0]),
    axes("flat", [-1]),
    axes("pairs", [2, -1]),
    axes("zero", 0),
    placeholder("dynamic", (2,)),
    Node("v", "VariableV2", (), {"dtype": FLOAT, "shape": Shape((4, 3))}),
    node("v/read", "Identity", "v"),
    Node("h", "VarHandleOp", (), {"dtype": FLOAT, "shape": Shape((7, 4))}),
    Node("h/read", "ReadVariableOp", ("h",), {"dtype": FLOAT}),
    node("m", "MatMul", "x", "k"),
    node("mt", "MatMul", "x", "h/read", transpose_b=True),
    node("s", "BiasAdd", "m", "b"),
    node("broad", "Mul", "s", "b"),
    node("unknown", "Mul", "any", "b"),
    node("mean", "Mean", "x", "last", keep_dims=True),
    node("sum", "Sum", "x", "last"),
    node("t", "Transpose", "k", "perm"),
    node("r", "Reshape", "k", "flat"),
    node("r2", "Reshape", "x", "pairs"),
    node("r3", "Reshape", "x", "dynamic"),
    node("e", "ExpandDims", "k", "minus"),
    node("q", "Squeeze", "e", squeeze_dims=(2,)),
    node("g", "GatherV2", "h/read", "perm", "zero"),
    node("shape", "Shape", "k"),
    Node("said", "Mystery", (), {"_output_shapes": (Shape((9,)), Shape((8, 2)))}),
    node("mystery", "Mystery", "x"),
    node("k/same", "Identity", "k"),
    node("batch", "BatchMatMulV2", "e", "e", adj_y=True),
]


@pytest.mark.parametrize(
    ("name", "dims"),
    [
        ("x", (-1, 4)),
        ("any", None),
        ("k", (4, 3)),
        ("v", (4, 3)),
        ("v/read", (4, 3)),
        ("h/read", (7, 4)),
        ("m", (-1, 3)),
        ("mt", (-1, 7)),
        ("s", (-1, 3)),
        ("broad", (-1, 3)),
        ("unknown", None),
        ("mean", (-1, 1)),
        ("sum", (-1,)),
        ("t", (3, 4)),
        ("r", (12,)),
        ("r2", (2, -1)),
        ("r3", (-1, -1)),
        ("e", (4, 3, 1)),
        ("q", (4, 3)),
        ("g", (2, 4)),
        ("shape", (2,)),
        ("said", (9,)),
        ("mystery", None),
        ("batch", (4, 3, 3)),
        ("absent", None),
    ],
)
def test_shapes(name: str, dims: tuple[int, ...] | None) -> None:
    graph = model_of(NODES).graph
    assert Inference(graph).shape(graph, Endpoint(name, 0)) == Shape(dims)


def test_other_outputs_types_and_constants() -> None:
    graph = model_of(NODES).graph
    known = Inference(graph)
    assert known.shape(graph, Endpoint("said", 1)) == Shape((8, 2))
    assert known.shape(graph, Endpoint("said", 2)) == UNKNOWN
    assert known.dtype(graph, Endpoint("m", 0)) == FLOAT
    assert known.dtype(graph, Endpoint("shape", 0)) == INT32
    assert known.dtype(graph, Endpoint("h", 0)) == RESOURCE
    assert known.dtype(graph, Endpoint("mystery", 0)) is None
    assert known.dtype(graph, Endpoint("m", 1)) is None
    constant = known.constant(graph, Endpoint("k/same", 0))
    assert constant is not None
    assert constant.shape == Shape((4, 3))
    assert known.constant(graph, Endpoint("v/read", 0)) is None
    assert known.integers(graph, Endpoint("perm", 0)) == (1, 0)
    assert known.integers(graph, Endpoint("k", 0)) is None


def test_a_long_chain_is_followed_to_its_end() -> None:
    nodes = [placeholder("n0", (2, 3))] + [node(f"n{at}", "Neg", f"n{at - 1}") for at in range(1, 5000)]
    graph = model_of(nodes).graph
    known = Inference(graph)
    assert known.shape(graph, Endpoint("n20", 0)) == Shape((2, 3))
    assert known.shape(graph, Endpoint("n4999", 0)) == Shape((2, 3))


def test_a_cycle_ends() -> None:
    graph = model_of([node("a", "Identity", "b"), node("b", "Identity", "a")]).graph
    known = Inference(graph)
    assert known.shape(graph, Endpoint("a", 0)) == UNKNOWN
    assert known.constant(graph, Endpoint("a", 0)) is None


# Functions


def in_calls(
    *calls: Node, nodes: tuple[Node, ...] = (), objects: ObjectGraph | None = None
) -> tuple[Inference, Function]:
    body = function(
        "net",
        {"x": FLOAT, "h": RESOURCE},
        [
            Node("read", "ReadVariableOp", ("h",), {"dtype": FLOAT}),
            node("m", "MatMul", "x", "read:value:0", transpose_b=True),
        ],
        {"out": "m:product:0"},
    )
    graph = Graph((*NODES, *nodes, *calls), library=Library({"net": body}))
    return Inference(graph, objects), body


BOTH = (FLOAT, RESOURCE)


def test_arguments_are_what_all_callers_give() -> None:
    known, body = in_calls(call("c1", "net", "x", "h", types=BOTH))
    assert known.shape(body, Endpoint("x", 0)) == Shape((-1, 4))
    assert known.shape(body, Endpoint("read", 0)) == Shape((7, 4))
    assert known.shape(body, Endpoint("m", 0)) == Shape((-1, 7))
    assert known.dtype(body, Endpoint("x", 0)) == FLOAT
    assert known.dtype(body, Endpoint("nobody", 0)) is None
    other = Node("h2", "VarHandleOp", (), {"dtype": FLOAT, "shape": Shape((7, 5))})
    known, body = in_calls(
        call("c1", "net", "x", "h", types=BOTH), call("c2", "net", "s", "h2", types=BOTH), nodes=(other,)
    )
    assert known.shape(body, Endpoint("x", 0)) == UNKNOWN
    assert known.shape(body, Endpoint("read", 0)) == UNKNOWN
    known, body = in_calls()
    assert known.shape(body, Endpoint("read", 0)) == UNKNOWN


def test_a_call_gives_what_its_function_gives() -> None:
    found = call("c1", "net", "x", "h", types=BOTH)
    known, _ = in_calls(found)
    graph = known._graph
    assert known.shape(graph, Endpoint("c1", 0)) == Shape((-1, 7))
    assert known.shape(graph, Endpoint("c1", 5)) == UNKNOWN


def test_constants_come_from_the_only_caller() -> None:
    known, body = in_calls(call("c1", "net", "k", "h", types=BOTH))
    constant = known.constant(body, Endpoint("x", 0))
    assert constant is not None
    assert constant.shape == Shape((4, 3))
    known, body = in_calls(call("c1", "net", "k", "h", types=BOTH), call("c2", "net", "k", "h", types=BOTH))
    assert known.constant(body, Endpoint("x", 0)) is None


def test_python_may_call_with_anything_but_its_variables_are_known() -> None:
    variable = ObjectNode("variable", {}, {"shape": {"dim": ({"size": 11}, {"size": 4})}})
    objects = ObjectGraph((ObjectNode("user_object", {}, {}), variable), {"net": {"bound_inputs": (1,)}})
    known, body = in_calls(call("c1", "net", "k", "h", types=BOTH), objects=objects)
    assert known.shape(body, Endpoint("x", 0)) == UNKNOWN
    assert known.constant(body, Endpoint("x", 0)) is None
    assert known.shape(body, Endpoint("read", 0)) == Shape((11, 4))


def test_arguments_say_their_shapes_themselves() -> None:
    known, body = in_calls()
    parts = body.part.value
    attrs: dict[int, dict[str, Any]] = {0: {"_output_shapes": node("n", "Neg", s=(Shape((5, 6)),)).attrs["s"]}}
    said = Function("net", Part.of(FunctionParts(parts.signature, parts.nodes, parts.ret, arg_attrs=attrs)))
    assert known.shape(said, Endpoint("x", 0)) == Shape((5, 6))


@pytest.mark.parametrize(("ret", "dims"), [("x", (-1, 4)), ("n:y:0", None)])
def test_a_loop_may_change_what_it_is_given(ret: str, dims: tuple[int, ...] | None) -> None:
    turn = function("turn", {"x": FLOAT}, [node("n", "Neg", "x")], {"out": ret})
    loop = Node("loop", "While", ("x",), {"T": (FLOAT,), "body": Func("turn", {}), "cond": Func("turn", {})})
    graph = Graph((*NODES, loop), library=Library({"turn": turn}))
    body: Body = graph.library["turn"]
    assert Inference(graph).shape(body, Endpoint("x", 0)) == Shape(dims)


# Shapes that cannot be


def test_conflicts_are_found_with_their_nodes() -> None:
    graph = model_of([placeholder("x", (2, 3)), const("k", [[1.0] * 5] * 4), node("m", "MatMul", "x", "k")]).graph
    (found,) = find_conflicts(graph)
    assert (found.where, found.node, found.op) == ("the graph", "m", "MatMul")
    assert str(found) == "MatMul 'm': inner sizes of [2, 3] and [4, 5] are 3 and 4"
    assert find_conflicts(model_of(NODES).graph) == ()


def test_conflicts_in_functions_are_found() -> None:
    known, _ = in_calls(call("c1", "net", "k", "h", types=BOTH))
    (found,) = find_conflicts(known._graph)
    assert (found.where, found.node) == ("function 'net'", "m")


def test_notes_do_not_make_conflicts() -> None:
    """What was inferred for other inputs, and still stands there, does not count."""
    stale = node("s", "Neg", "x").replace(attrs={"_output_shapes": (Shape((2, 9)),)})
    graph = model_of(
        [placeholder("x", (2, 4)), const("k", [[1.0] * 5] * 4), stale, node("m", "MatMul", "s", "k")]
    ).graph
    assert find_conflicts(graph) == ()
    assert Inference(graph).shape(graph, Endpoint("s", 0)) == Shape((2, 9))


def test_open_sizes_have_names_and_are_followed() -> None:
    nodes = [
        placeholder("x", (None, 12, 64)),
        axes("zero", [0]),
        axes("one", [1]),
        axes("flat", [-1, 64]),
        axes("twelve", 12),
        axes("four", 4),
        axes("sixteen", 16),
        node("shape", "Shape", "x"),
        node("batch", "StridedSlice", "shape", "zero", "one", "one", shrink_axis_mask=1),
        node("dims", "Pack", "batch", "twelve", "four", "sixteen", N=4),
        node("rows", "Reshape", "x", "flat"),
        node("heads", "Reshape", "rows", "dims"),
        node("total", "Size", "heads"),
    ]
    graph = model_of(nodes).graph
    known = Inference(graph)
    assert known.known(graph, Endpoint("shape", 0)).values == ("x.0", 12, 64)
    assert known.known(graph, Endpoint("rows", 0)).dims == ("12*x.0", 64)
    assert known.known(graph, Endpoint("heads", 0)).dims == ("x.0", 12, 4, 16)
    assert known.known(graph, Endpoint("total", 0)).values == ("768*x.0",)
    assert known.shape(graph, Endpoint("heads", 0)) == Shape((-1, 12, 4, 16))
    assert known.integers(graph, Endpoint("shape", 0)) is None


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (times(("n", 3, "m")), "3*m*n"),
        (times((None, 3)), None),
        (times(("n", 0)), 0),
        (over("12*n", 4), "3*n"),
        (over("12*n", "n"), 12),
        (over("n", "m"), None),
        (over(7, 2), None),
        (over(7, 0), None),
        (plus("n", 0), "n"),
        (plus("n", 1), "(1+n)"),
        (plus(2, 3), 5),
        (minus("n", "n"), 0),
        (minus("n", 2), None),
        (times(("n" * 99, "m")), None),
    ],
)
def test_arithmetic_of_sizes(found: Size, wanted: Size) -> None:
    assert found == wanted


@pytest.mark.parametrize(
    ("left", "right", "wanted"),
    [
        (("n", 3), ("n", 1), ("n", 3)),
        (("n",), ("m",), (None,)),
        (("n",), (5,), (5,)),
        ((None, 2), (2,), (None, 2)),
        (None, (2,), None),
        (("n",), (1,), ("n",)),
    ],
)
def test_broadcasting(left: Dims, right: Dims, wanted: Dims) -> None:
    assert broadcast(left, right) == wanted
    assert broadcast(right, left) == wanted


def test_what_cannot_be_broadcast() -> None:
    with pytest.raises(Conflict, match=r"shapes are \[2, 3\] and \[4\], which cannot be broadcast"):
        broadcast((2, 3), (4,))


def test_a_huge_shape_is_given_up() -> None:
    """A hostile file may ask for thousands of dimensions, or count to billions."""
    nodes = [
        axes("many", [1] * 1000),
        axes("start", 0),
        axes("limit", 2_000_000_000),
        axes("step", 1),
        node("r", "Reshape", "start", "many"),
        node("c", "Range", "start", "limit", "step"),
    ]
    graph = model_of(nodes).graph
    known = Inference(graph)
    assert known.shape(graph, Endpoint("r", 0)) == UNKNOWN
    assert known.known(graph, Endpoint("c", 0)).values is None
    assert known.shape(graph, Endpoint("c", 0)) == Shape((2_000_000_000,))
