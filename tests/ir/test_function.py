"""Functions have the same questions as graphs, and names of their own for outputs."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from tests.support.helpers import attr_value, field, node_def

import tfsmith
from tfsmith.errors import InvalidModelError, TfsmithError
from tfsmith.ir.body import Part, Use
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library
from tfsmith.ir.model import Model
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Node
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.types import dtype
from tfsmith.wire import new, parse


def _meta_graph(*, with_op_list: bool = True) -> bytes:
    """A meta graph with two functions; one calls the other, and a custom op that only the file defines."""
    meta = new("MetaGraphDef")
    if with_op_list:
        custom = meta.meta_info_def.stripped_op_list.op.add(name="MyOp")
        custom.output_arg.add(name="head", type_attr="T")
        custom.output_arg.add(name="tails", type_attr="T", number_attr="N")
        custom.output_arg.add(name="end", type=3)
    graph = meta.graph_def
    graph.node.add(name="x", op="Placeholder")
    graph.node.add(name="call", op="net", input=["x", "x"])
    inner = graph.library.function.add()
    inner.signature.name = "inner"
    inner.signature.input_arg.add(name="a", type=1)
    inner.signature.output_arg.add(name="one", type=1)
    inner.signature.output_arg.add(name="two", type=1)
    inner.ret["one"], inner.ret["two"] = "a", "a"
    net = graph.library.function.add()
    net.signature.name = "net"
    net.signature.input_arg.add(name="images", type=1)
    net.signature.input_arg.add(name="list", type=1, number_attr="M")
    net.signature.output_arg.add(name="y", type=1)
    net.signature.control_output.append("done")
    net.signature.is_stateful = True
    _node(net, "bn", "FusedBatchNormV3", ["images", "list:0", "list:1"])
    _node(net, "mean", "Identity", ["bn:batch_mean:0"])
    split = _node(net, "split", "Split", ["bn:y:0", "bn:reserve_space_3:0", "^mean"])
    split.attr["num_split"].i = 4
    own = _node(net, "own", "MyOp", ["split:output:2"])
    own.attr["N"].i = 2
    _node(net, "inner_call", "inner", ["own:tails:1"])
    _node(net, "add", "AddV2", ["inner_call:two:0", "own:end:0"])
    net.ret["y"] = "add:z:0"
    net.control_ret["done"] = "mean"
    net.attr["_input_shapes"].list.shape.add().unknown_rank = True
    net.arg_attr[0].attr["_user_specified_name"].s = b"images"
    return bytes(meta.SerializeToString(deterministic=True))


def _node(function: Any, name: str, op: str, inputs: list[str]) -> Any:
    return function.node_def.add(name=name, op=op, input=inputs)


@pytest.fixture(scope="module")
def model() -> Model:
    return tfsmith.load(_meta_graph())


@pytest.fixture(scope="module")
def net(model: Model) -> Function:
    return model.graph.functions["net"]


def test_outputs_have_numbers(net: Function) -> None:
    assert net.inputs_of(net["bn"]) == (("images", 0), ("list", 0), ("list", 1))
    assert net.inputs_of(net["mean"]) == (("bn", 1),)
    assert net.inputs_of(net["split"]) == (("bn", 0), ("bn", 5), ("mean", CONTROL))
    assert net.inputs_of(net["own"]) == (("split", 2),)


def test_custom_op_of_the_file_and_called_function(net: Function) -> None:
    assert net.inputs_of(net["inner_call"]) == (("own", 2),)
    assert net.inputs_of(net["add"]) == (("inner_call", 1), ("own", 3))


def test_results_and_arguments(net: Function) -> None:
    assert net.args == ("images", "list")
    assert net.ret == {"y": "add:z:0"}
    assert net.resolve(net.ret["y"]) == ("add", 0)
    assert net.control_ret == {"done": "mean"}
    assert net.signature.is_stateful
    assert net.signature.control_outputs == ("done",)
    assert net.attrs["_input_shapes"].kind == "list(shape)"
    arg_attrs = net.part.value.arg_attrs
    assert arg_attrs[0]["_user_specified_name"] == Attr("string", b"images")
    assert pickle.loads(pickle.dumps(arg_attrs)) == arg_attrs
    with pytest.raises(KeyError):
        arg_attrs[99]
    assert 99 not in arg_attrs  # asking makes no entry
    with pytest.raises(TypeError, match="immutable"):
        arg_attrs[0] = {}  # type: ignore[index]


def test_consumers_and_producers(net: Function) -> None:
    assert net.consumers("images") == (Use(net["bn"], 0, 0),)
    assert net.consumers("list") == (Use(net["bn"], 1, 0), Use(net["bn"], 2, 1))
    assert net.consumers("bn") == (Use(net["mean"], 0, 1), Use(net["split"], 0, 0), Use(net["split"], 1, 5))
    assert net.control_consumers("mean") == (net["split"],)
    assert net.producer(net["bn"], 0) is None
    assert net.producer(net["own"], 0) is net["split"]


def test_order_and_ancestors(net: Function) -> None:
    assert [node.name for node in net.topological_order()] == ["bn", "mean", "split", "own", "inner_call", "add"]
    assert net.ancestors(["split"]) == {"split", "bn", "mean"}


def test_calling_node_in_the_graph(model: Model) -> None:
    op = model.graph.op_def("net")
    assert op is not None
    assert [arg.name for arg in op.outputs] == ["y"]
    assert model.graph.custom_ops() == ("MyOp",)
    assert model.graph.op_def("nothing") is None


def test_shorter_spellings(net: Function) -> None:
    assert net.resolve("mean:output") == ("mean", 0)
    assert net.resolve("list:1") == ("list", 1)
    assert net.resolve("images") == ("images", 0)
    assert net.resolve("^mean") == Endpoint("mean", CONTROL)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bn:nothing:0", "function 'net', node 'bn': op 'FusedBatchNormV3' has no output nothing:0"),
        ("split:output:4", "function 'net', node 'split': op 'Split' has no output output:4"),
        ("split:output:" + "9" * 5000, "has no output"),
    ],
)
def test_outputs_that_are_not_there(net: Function, text: str, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        net.resolve(text)


def test_op_that_nobody_defines() -> None:
    net = tfsmith.load(_meta_graph(with_op_list=False)).graph.library["net"]
    with pytest.raises(InvalidModelError, match=r"op 'MyOp' is not known.*stripped_op_list"):
        net.resolve("own:head:0")
    assert net.resolve("^own") == ("own", CONTROL)


def test_names_are_known_before_bodies_are_read() -> None:
    """Only the names of functions are read when a library is opened."""
    signature = new("OpDef")
    signature.name = "broken"
    library = field(1, field(1, signature.SerializeToString()) + field(3, b"\x0a\x7f"))
    graph = tfsmith.load(field(1, node_def("a", "broken")) + field(2, library)).graph
    assert list(graph.library) == ["broken"]
    with pytest.raises(TfsmithError, match="byte "):
        graph.library["broken"].nodes  # noqa: B018


def test_two_functions_of_one_name_are_refused() -> None:
    signature = new("OpDef")
    signature.name = "f"
    function = field(1, field(1, signature.SerializeToString()))
    with pytest.raises(InvalidModelError, match="function 'f': two functions have one name"):
        tfsmith.load(field(1, node_def("a", "f")) + field(2, function + function)).graph  # noqa: B018


def test_function_made_in_memory_is_written_whole() -> None:
    signature = OpDef("f", (ArgDef("x", type=dtype(1)),), (ArgDef("y", type=dtype(1)),), is_stateful=True)
    attrs = {"_noinline": Attr("bool", True)}
    nodes = (Node("id", "Identity", ("x",), {"T": dtype(1)}),)
    parts = FunctionParts(signature, nodes, {"y": "id:output:0"}, {"c": "id"}, attrs, {0: {"k": Attr("int", 3)}})
    graph = Graph((Node("call", "f", ("call",)),), library=Library({"f": Function("f", Part.of(parts))}))
    from tfsmith.formats.graph.graphdef import plan_graph
    from tfsmith.storage import Span

    plan = plan_graph(graph)
    assert not isinstance(plan, Span)
    data = plan.tobytes()
    found = tfsmith.load(data).graph.library["f"]
    assert found.signature == signature
    assert (found.ret, found.control_ret, found.attrs) == ({"y": "id:output:0"}, {"c": "id"}, attrs)
    assert found.part.value.arg_attrs == {0: {"k": Attr("int", 3)}}
    assert found["id"].get("T") == dtype(1)
    message = parse("GraphDef", data).library.function[0]
    assert message.node_def[0].attr["T"].type == 1
    assert message.arg_attr[0].attr["k"].i == 3


def test_large_nodes_in_functions_are_found_too() -> None:
    signature = new("OpDef")
    signature.name = "f"
    large = node_def("large", "Const", attrs={"text": attr_value(s=b"x" * 9000)})
    body = (
        field(1, signature.SerializeToString())
        + field(3, large)
        + field(3, node_def("id", "Identity", ["large:output:0"]))
    )
    function = tfsmith.load(field(1, node_def("a", "f")) + field(2, field(1, body))).graph.library["f"]
    assert [node.name for node in function] == ["large", "id"]
    assert function["large"].get("text") == b"x" * 9000
    assert function.inputs_of(function["id"]) == (("large", 0),)


def test_maps_of_a_function_have_one_order() -> None:
    """Whoever freezes twice gets the same bytes, though protobuf gives a map in another order in each process."""
    graph = new("GraphDef")
    graph.node.add(name="x", op="NoOp")
    function = graph.library.function.add()
    function.signature.name = "f"
    names = [f"n{number}" for number in range(40)]
    for name in reversed(names):
        function.node_def.add(name=name, op="NoOp")
        function.control_ret[name] = name
    found = tfsmith.load(graph.SerializeToString()).graph.library["f"]
    assert list(found.control_ret) == sorted(names)
