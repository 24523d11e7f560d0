"""Graphs know producers, consumers, control edges, name scopes and an order in which nodes can run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import pytest
from tests.support.helpers import attr_value, graph_def, node_def

import tfsmith
from tfsmith.errors import InvalidModelError, NotFoundInModelError, TfsmithError, UsageError, nearest
from tfsmith.ir.body import Body, FreeNames, Use, free_name
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Func, Node, attr, parse_input
from tfsmith.ir.opdef import ArgDef, AttrDef, OpDef
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import SCALAR, UNKNOWN, DType, Shape, dtype, dtype_named


def _graph(*rows: tuple[str, str, Iterable[str]]) -> Graph:
    return Graph(tuple(Node(name, op, tuple(inputs)) for name, op, inputs in rows))


NET = _graph(
    ("x", "Placeholder", ()),
    ("init", "NoOp", ()),
    ("net/conv/kernel", "Const", ()),
    ("net/conv/bn", "FusedBatchNormV3", ("x", "net/conv/kernel:0", "^init")),
    ("net/conv/mean", "Identity", ("net/conv/bn:1",)),
    ("net/both", "AddN", ("net/conv/bn:1", "net/conv/bn", "net/conv/bn:1")),
    ("end", "NoOp", ("^net/both", "^init")),
)


def _names(nodes: Iterable[Node]) -> list[str]:
    return [node.name for node in nodes]


def test_consumers_have_input_and_output_numbers() -> None:
    both, mean = NET["net/both"], NET["net/conv/mean"]
    assert NET.consumers("net/conv/bn") == (Use(mean, 0, 1), Use(both, 0, 1), Use(both, 1, 0), Use(both, 2, 1))
    assert NET.consumers("net/conv/bn", 0) == (Use(both, 1, 0),)
    assert NET.consumers("net/conv/bn", 2) == ()
    assert NET.consumers("end") == ()
    assert NET.consumers("nowhere") == ()


def test_control_edges_are_apart() -> None:
    assert NET.consumers("init") == ()
    assert NET.control_consumers("init") == (NET["net/conv/bn"], NET["end"])
    assert NET.control_consumers("x") == ()
    node = NET["net/conv/bn"]
    assert node.data_inputs == ("x", "net/conv/kernel:0")
    assert node.control_inputs == ("init",)
    assert NET.inputs_of(node) == (Endpoint("x", 0), Endpoint("net/conv/kernel", 0), Endpoint("init", CONTROL))
    assert [str(endpoint) for endpoint in NET.inputs_of(node)] == ["x:0", "net/conv/kernel:0", "^init"]


def test_producers() -> None:
    assert NET.producer(NET["net/both"], 0) is NET["net/conv/bn"]
    assert NET.producer(NET["end"], 1) is NET["init"]


def test_name_scopes() -> None:
    assert NET.scopes() == {"net": 4, "net/conv": 3}
    assert _names(NET.in_scope("net/conv")) == ["net/conv/kernel", "net/conv/bn", "net/conv/mean"]
    assert _names(NET.in_scope("net/conv/")) == _names(NET.in_scope("net/conv"))
    assert _names(NET.in_scope("net/con")) == []


def _assert_ordered(body: Body, order: tuple[Node, ...]) -> None:
    assert sorted(_names(order)) == sorted(_names(body))
    place = {node.name: number for number, node in enumerate(order)}
    for node in order:
        for source, _ in body.inputs_of(node):
            if source in place and body.by_name[source].op != "NextIteration":
                assert place[source] < place[node.name]


def test_topological_order() -> None:
    _assert_ordered(NET, NET.topological_order())
    backwards = Graph(tuple(reversed(NET.nodes)))
    _assert_ordered(backwards, backwards.topological_order())


def test_topological_order_of_a_loop() -> None:
    loop = _graph(
        ("merge", "Merge", ("enter", "next")),
        ("next", "NextIteration", ("body",)),
        ("body", "Identity", ("merge", "^merge")),
        ("enter", "Enter", ("x",)),
        ("x", "Placeholder", ()),
    )
    _assert_ordered(loop, loop.topological_order())


def test_cycle_is_refused() -> None:
    cycle = _graph(("a", "Identity", ("b",)), ("b", "Identity", ("a",)), ("c", "NoOp", ()))
    with pytest.raises(InvalidModelError, match="the graph, node 'a': its inputs lead back to itself"):
        cycle.topological_order()


def test_order_is_linear_in_a_long_chain() -> None:
    """Recursion would end at a thousand nodes."""
    chain = _graph(("n0", "NoOp", ()), *((f"n{i}", "Identity", (f"n{i - 1}",)) for i in range(1, 20_000)))
    assert chain.topological_order() == chain.nodes
    assert len(chain.ancestors(["n19999"])) == 20_000


def test_ancestors() -> None:
    assert NET.ancestors(["net/conv/mean"]) == {"net/conv/mean", "net/conv/bn", "x", "net/conv/kernel", "init"}
    assert NET.ancestors([]) == set()


def test_descendants() -> None:
    graph = _graph(("a", "NoOp", ()), ("b", "Identity", ("a",)), ("c", "Identity", ("b",)), ("d", "NoOp", ("^b",)))
    assert graph.descendants(["b"]) == {"b", "c", "d"}
    assert graph.descendants(["b"], control=False) == {"b", "c"}
    assert graph.descendants([]) == set()
    loop = _graph(("a", "Merge", ("b",)), ("b", "NextIteration", ("a",)))
    assert loop.descendants(["a"]) == {"a", "b"}


def test_missing_input_is_named() -> None:
    broken = _graph(("a", "Identity", ("gone:3",)))
    message = "node 'a': it takes 'gone', which is not in the graph; the graph is cut off"
    with pytest.raises(InvalidModelError, match=message):
        broken.consumers("a")
    with pytest.raises(InvalidModelError, match=message):
        broken.ancestors(["a"])
    with pytest.raises(InvalidModelError, match=message):
        broken.descendants(["a"])
    with pytest.raises(InvalidModelError, match=message):
        broken.producer(broken["a"], 0)


def test_duplicate_names_are_refused() -> None:
    twice = _graph(("a", "NoOp", ()), ("b", "NoOp", ()), ("b", "NoOp", ()))
    with pytest.raises(InvalidModelError, match="the graph, node 'b': two nodes have one name"):
        twice.by_name  # noqa: B018


def test_name_that_is_not_there_gets_the_nearest() -> None:
    with pytest.raises(NotFoundInModelError, match=r"there is no node 'net/conv/men'.*net/conv/mean"):
        NET["net/conv/men"]
    with pytest.raises(NotFoundInModelError, match="nodes=True"):
        NET["?"]
    assert "x" in NET
    assert "y" not in NET


def test_nearest_looks_at_a_bounded_number_of_names() -> None:
    names = [f"layer_{number}/kernel" for number in range(50_000)]
    assert "layer_3/kernel" in nearest("layer_3/kernal", names)
    assert nearest("", []) == []


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [
        ("a", ("a", 0)),
        ("a/b:12", ("a/b", 12)),
        ("^a/b", ("a/b", CONTROL)),
        ("a:out", ("a:out", 0)),
        ("a:", ("a:", 0)),
        ("a:" + "9" * 5000, ("a:" + "9" * 5000, 0)),
        ("a:²", ("a:²", 0)),
    ],
)
def test_inputs_are_read(text: str, endpoint: tuple[str, int]) -> None:
    assert parse_input(text) == endpoint


def test_op_counts_and_custom_ops() -> None:
    graph = _graph(("a", "NoOp", ()), ("b", "Mine", ()), ("c", "NoOp", ()), ("d", "Addons>Own", ()))
    assert list(graph.op_counts().items()) == [("NoOp", 2), ("Addons>Own", 1), ("Mine", 1)]
    assert graph.custom_ops() == ("Addons>Own", "Mine")


def test_map_nodes_keeps_places_and_identity() -> None:
    changed = NET.map_nodes({"init": NET["init"].replace(op="Other")})
    assert _names(changed) == _names(NET)
    assert changed["init"].op == "Other"
    assert all(new is old for new, old in zip(changed, NET, strict=True) if old.name != "init")
    assert NET["init"].op == "NoOp"


# Nodes and attributes


def test_node_in_memory() -> None:
    node = Node("n", "Op", ("a",), {"s": "text", "b": True, "i": 3, "f": 0.5, "l": [1, 2], "e": [], "t": dtype(1)})
    kinds = {"s": "string", "b": "bool", "i": "int", "f": "float", "l": "list(int)", "e": "list", "t": "type"}
    assert {key: value.kind for key, value in node.attrs.items()} == kinds
    assert node.get("s") == b"text"
    assert node.get("none", 5) == 5
    assert node.raw is None
    assert repr(node) == "<Node 'n' op=Op>"
    other = node.replace(name="m", device="/gpu:0", attrs={"i": None, "f": 1.5})
    assert (other.name, other.device, other.get("f"), "i" in other.attrs) == ("m", "/gpu:0", 1.5, False)
    assert (node.name, node.get("i")) == ("n", 3)


def test_attributes_of_every_kind() -> None:
    tensor = ArrayTensor.of([1.0])
    assert attr(tensor) == Attr("tensor", tensor)
    assert attr(Shape((1, -1))).kind == "shape"
    assert attr(Func("f", {})).kind == "func"
    assert attr((Shape(()), UNKNOWN)) == Attr("list(shape)", (SCALAR, UNKNOWN))
    assert attr(Attr("placeholder", "T")) == Attr("placeholder", "T")
    with pytest.raises(UsageError, match="cannot mix float and int"):
        attr([1, 2.0])
    with pytest.raises(UsageError, match="no attribute can hold a set"):
        attr({1})


def test_error_in_an_attribute_names_the_node() -> None:
    tensor = b"\x42\x06" + b"\x08\x01\x12\x02\x18\x01"  # a float of unknown rank
    model = tfsmith.load(graph_def([node_def("bad", "Const", attrs={"value": tensor})]))
    with pytest.raises(InvalidModelError, match=r"node 'bad': attribute 'value' has the impossible shape \?"):
        model.graph["bad"].attrs  # noqa: B018


def test_damaged_attributes_say_where() -> None:
    bad = b"\x0a\x05ab"
    model = tfsmith.load(graph_def([node_def("fine", "NoOp"), node_def("large", "Const", attrs={"v": bytes(50_000)})]))
    with pytest.raises(TfsmithError, match="node 'large'"):
        model.graph["large"].attrs  # noqa: B018
    with pytest.raises(TfsmithError, match=re.escape("byte ")):
        tfsmith.load(graph_def([node_def("fine", "NoOp"), node_def("x", "NoOp", extra=bad)])).graph  # noqa: B018


# Shapes, dtypes, op definitions


def test_shapes() -> None:
    assert str(Shape.of([1, None, 3])) == "[1, ?, 3]"
    assert str(UNKNOWN) == "?"
    assert (SCALAR.rank, SCALAR.elements, SCALAR.is_static) == (0, 1, True)
    assert (UNKNOWN.rank, UNKNOWN.elements, UNKNOWN.is_static) == (None, None, False)
    assert Shape((2, -1)).elements is None
    assert Shape((2**40, 2**40)).elements == 2**80
    assert Shape.of(None) is UNKNOWN


def test_dtypes() -> None:
    assert dtype(101).name == "float32_ref"
    assert dtype(101).base is dtype(1)
    assert dtype_named("DT_BFLOAT16") is dtype_named("bfloat16")
    assert dtype_named("half") is dtype(19)
    assert str(dtype(999)) == "unknown_999"
    assert dtype(999).itemsize == 0
    with pytest.raises(TfsmithError, match="TensorFlow has no dtype 'float13'"):
        dtype_named("float13")


def test_every_dtype_has_the_size_that_numpy_says() -> None:
    for number in range(1, 34):
        kind = dtype(number)
        if kind.name in ("string", "resource", "variant"):
            continue
        try:
            found = kind.numpy()
        except TfsmithError as error:
            assert "ml_dtypes" in str(error)  # noqa: PT017  # an older ml_dtypes lacks the newest types
            continue
        assert found.itemsize == kind.itemsize, kind
    for number in (20, 21, 999):
        with pytest.raises(TfsmithError, match="no values that can be read outside of TensorFlow"):
            dtype(number).numpy()


SPLIT = OpDef(
    "Demo",
    outputs=(
        ArgDef("first", type=dtype(1)),
        ArgDef("many", type_attr="T", number_attr="N"),
        ArgDef("mixed", type_list_attr="Tout"),
        ArgDef("last", type=dtype(3)),
    ),
    attrs=(AttrDef("N", "int"), AttrDef("T", "type", Attr("type", dtype(2))), AttrDef("Tout", "list(type)")),
)


def _attrs(number: object, types: list[DType]) -> dict[str, Attr]:
    return {"N": attr(number), "Tout": attr(types)}


def test_outputs_are_counted_through_lists() -> None:
    attrs = _attrs(3, [dtype(7), dtype(9)])
    names = ["first:0", "many:0", "many:1", "many:2", "mixed:0", "mixed:1", "last:0"]
    assert [SPLIT.output_name(number, attrs) for number in range(7)] == names
    assert SPLIT.output_name(7, attrs) is None
    assert SPLIT.output_name(-1, attrs) is None
    for number, name in enumerate(names):
        arg, _, offset = name.partition(":")
        assert SPLIT.output_index(arg, int(offset), attrs) == number
    assert SPLIT.output_index("many", 3, attrs) is None
    assert SPLIT.output_index("none", 0, attrs) is None
    assert [str(kind) for kind in SPLIT.output_types(attrs)] == [
        "float32", "float64", "float64", "float64", "string", "int64", "int32",
    ]  # fmt: skip
    assert SPLIT.output_index("last", 0, _attrs(0, [])) == 1


@pytest.mark.parametrize("number", [-1, 10**18, "three"])
def test_impossible_counts_are_refused(number: object) -> None:
    with pytest.raises(InvalidModelError, match="attribute 'N'"):
        SPLIT.output_types(_attrs(number, []))
    with pytest.raises(InvalidModelError, match="attribute 'N'"):
        SPLIT.output_index("last", 0, _attrs(number, []))


def test_attributes_that_were_left_out_have_their_defaults() -> None:
    """TensorFlow 2 writes no attribute that has its default."""
    argmax = Graph(()).op_def("ArgMax")
    assert argmax is not None
    assert argmax.output_types({}) == (dtype(9),)
    assert argmax.output_types({"output_type": attr(dtype(3))}) == (dtype(3),)
    parse_sequence = Graph(()).op_def("ParseSequenceExample")
    assert parse_sequence is not None
    assert parse_sequence.output_index("context_dense_values", 0, {}) is None
    attrs = {"Tcontext_dense": attr([dtype(1)])}
    assert parse_sequence.output_index("context_dense_values", 0, attrs) == 0


def test_types_of_wrong_kinds_are_unknown() -> None:
    op = OpDef("Odd", outputs=(ArgDef("a", type_attr="T"), ArgDef("b", type_list_attr="L")))
    assert op.output_types({"T": attr(5), "L": attr(5)}) == (None,)


def test_attribute_values_from_a_file() -> None:
    node = node_def(
        "n", "Op", attrs={"i": attr_value(i=-3), "s": attr_value(s=b"\xff"), "p": attr_value(placeholder="T")}
    )
    found = tfsmith.load(graph_def([node])).graph["n"].attrs
    assert found == {"i": Attr("int", -3), "s": Attr("string", b"\xff"), "p": Attr("placeholder", "T")}


def test_names_that_are_free() -> None:
    assert free_name("a", {"b"}) == "a"
    assert free_name("a", {"a"}, {"a_1"}) == "a_2"
    names = FreeNames(["a", "a_2"])
    assert [names.take("a"), names.take("a"), names.take("b"), names.take("a_1")] == ["a_1", "a_3", "b", "a_1_1"]
    assert {"a", "a_1", "a_2", "a_3", "b", "a_1_1"} == names
    second = FreeNames(first=2)
    assert [second.take("a"), second.take("a"), second.take("a")] == ["a", "a_2", "a_3"]


NODE = Node(
    "n",
    "Op",
    (),
    {
        "s": b"text",
        "i": 3,
        "f": 0.5,
        "b": True,
        "t": dtype_named("float32"),
        "h": Shape((2,)),
        "v": ArrayTensor.of([1.0]),
        "g": Func("g", {}),
        "is": (1, 2),
        "ts": (dtype_named("int32"),),
        "hs": (Shape(()),),
        "empty": (),
    },
)


def test_attributes_by_kind() -> None:
    assert (NODE.string("s"), NODE.int("i"), NODE.float("f"), NODE.bool("b")) == (b"text", 3, 0.5, True)
    assert (NODE.dtype("t"), NODE.shape("h"), NODE.func("g")) == (dtype_named("float32"), Shape((2,)), Func("g", {}))
    assert (NODE.ints("is"), NODE.dtypes("ts"), NODE.shapes("hs")) == ((1, 2), (dtype_named("int32"),), (SCALAR,))
    assert (NODE.ints("empty"), NODE.dtypes("empty"), NODE.shapes("empty")) == ((), (), ())
    assert NODE.tensor("v").numpy().tolist() == [1.0]
    assert (NODE.int("gone", 7), NODE.bool("gone", False), NODE.shape("gone", UNKNOWN)) == (7, False, UNKNOWN)


@pytest.mark.parametrize(
    ("use", "what"),
    [
        (lambda: NODE.int("gone"), "attribute 'gone' is missing"),
        (lambda: NODE.int("s"), "attribute 's' is of kind string, not int"),
        (lambda: NODE.int("s", 3), "attribute 's' is of kind string, not int"),
        (lambda: NODE.dtypes("is"), "attribute 'is' is of kind list(int), not list(type)"),
        (lambda: NODE.tensor("empty"), "attribute 'empty' is of kind list, not tensor"),
    ],
)
def test_attributes_of_another_kind(use: Callable[[], object], what: str) -> None:
    with pytest.raises(InvalidModelError) as error:
        use()
    remedy = "node.attrs has what is there; if its op wants it so, the file is damaged"
    assert str(error.value) == f"node 'n' (Op): {what}; {remedy}"


def test_what_an_attribute_holds() -> None:
    found = NODE.attrs
    assert found["v"].tensor is NODE.tensor("v")
    assert (found["i"].tensor, found["i"].dtype, found["i"].items, found["i"].funcs) == (None, None, (), ())
    assert (found["t"].dtype, found["is"].items, found["ts"].dtypes) == (
        dtype_named("float32"),
        (1, 2),
        (dtype_named("int32"),),
    )
    assert (found["hs"].shapes, found["g"].funcs) == ((SCALAR,), (Func("g", {}),))
    assert attr((Func("a", {}), Func("b", {}))).funcs == (Func("a", {}), Func("b", {}))
    assert NODE.constant is None
    tensor = ArrayTensor.of([1.0])
    assert Node("c", "Const", (), {"value": tensor}).constant is tensor
    assert Node("c", "Const", (), {"value": 3}).constant is None
    with pytest.raises(UsageError) as error:
        Attr.of_kind("number", 3)
    assert str(error.value) == "there is no attribute of kind 'number'; use the kinds of OpDef"
