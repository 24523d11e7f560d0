"""Nodes are read in two ways, runs of small ones by protobuf and large ones by hand; both must say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.helpers import field, payloads

from tfsmith.errors import CorruptFileError, TfsmithError
from tfsmith.formats.graph import nodes as attrs_module
from tfsmith.formats.graph import nodes as nodes_module
from tfsmith.formats.graph.graphdef import plan_graph, read_graph
from tfsmith.formats.graph.nodes import attr_from_message, plan_attr, plan_node
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Attr, Func, Node
from tfsmith.ir.tensor import OpaqueTensor, StringTensor, Tensor
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import encode_varint, new, parse, tag

pytestmark = pytest.mark.slow

names = st.text(st.characters(codec="utf-8"), max_size=12)
inputs = st.one_of(names, st.from_regex(r"\^?[a-z]{1,3}(:[0-9]{1,2})?", fullmatch=True))
sizes = st.one_of(st.integers(0, 40), st.sampled_from([1022, 1023, 1024, 1025, 3000]))
unknown_fields = st.builds(
    lambda number, data: field(number, data), st.integers(20, 2000), st.binary(max_size=20)
) | st.builds(
    lambda number, value: tag(number, 0) + encode_varint(value), st.integers(20, 2000), st.integers(0, 2**64 - 1)
)


def _shape(message: Any, dims: list[int] | None) -> None:
    if dims is None:
        message.unknown_rank = True
        return
    message.SetInParent()
    for dim in dims:
        message.dim.add(size=dim)


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    """TensorProtos: raw bytes, lists that may be short or long, strings, and types that nobody knows."""
    message = new("TensorProto")
    count = draw(sizes)
    kind = draw(
        st.sampled_from(["content", "float", "double", "int", "int64", "half", "bool", "string", "odd", "zero"])
    )
    _shape(message.tensor_shape, [count] if draw(st.booleans()) else [count, 1])
    given_count = draw(st.one_of(st.just(count), st.integers(0, 5)))
    if kind == "content":
        message.dtype, message.tensor_content = 1, bytes(4 * count)
    elif kind == "float":
        message.dtype = 1
        message.float_val.extend([0.5] * given_count)
    elif kind == "double":
        message.dtype = 2
        message.double_val.extend([0.25] * given_count)
    elif kind in ("int", "half", "bool", "int64"):
        message.dtype = {"int": draw(st.sampled_from([3, 4, 5, 6, 11, 29])), "half": 19, "bool": 10, "int64": 9}[kind]
        getattr(message, f"{kind}_val").extend([1, 0, 1][: min(given_count, 3)])
    elif kind == "string":
        message.dtype = 7
        message.string_val.extend(draw(st.lists(st.binary(max_size=9), max_size=4)))
    else:
        message.dtype = draw(st.sampled_from([-1, 20, 21, 999])) if kind == "odd" else 1
    return message


@st.composite
def attr_values(draw: st.DrawFn, depth: int = 2) -> Any:
    """AttrValues of every kind."""
    message = new("AttrValue")
    kind = draw(st.sampled_from(["s", "i", "f", "b", "type", "shape", "tensor", "placeholder", "none", "list", "func"]))
    if kind == "s":
        message.s = draw(st.binary(max_size=10)) * draw(st.sampled_from([1, 1, 500]))
    elif kind == "i":
        message.i = draw(st.integers(-(2**63), 2**63 - 1))
    elif kind == "f":
        message.f = draw(st.floats(width=32, allow_nan=False))
    elif kind == "b":
        message.b = draw(st.booleans())
    elif kind == "type":
        message.type = draw(st.integers(-5, 200))
    elif kind == "shape":
        _shape(message.shape, draw(st.none() | st.lists(st.integers(-1, 2**15), max_size=4)))
    elif kind == "tensor":
        message.tensor.CopyFrom(draw(tensors()))
    elif kind == "placeholder":
        message.placeholder = draw(names)
    elif kind == "list":
        _fill_list(draw, message.list)
    elif kind == "func" and depth:
        message.func.name = draw(names)
        for key in draw(st.lists(names, max_size=2)):
            message.func.attr[key].CopyFrom(draw(attr_values(depth=depth - 1)))
    return message


def _fill_list(draw: st.DrawFn, message: Any) -> None:
    message.SetInParent()
    kind = draw(st.sampled_from(["s", "i", "b", "type", "shape", "tensor", "none"]))
    count = draw(st.integers(0, 3))
    if kind in ("i", "b", "type"):
        getattr(message, kind).extend([1] * count)
    elif kind == "s":
        message.s.extend([b"abc"] * count)
    elif kind == "shape":
        for _ in range(count):
            _shape(message.shape.add(), [1, -1])
    elif kind == "tensor":
        for _ in range(count):
            message.tensor.add().CopyFrom(draw(tensors()))


@st.composite
def entries(draw: st.DrawFn) -> bytes:
    """An entry of the map of attributes; keys may repeat, parts may be missing, come twice or in another order."""
    key = field(1, draw(st.sampled_from(["T", "dtype", "value", "_class", ""])).encode())
    value = field(2, draw(attr_values()).SerializeToString())
    number = field(2, b"\x18\x05")
    forms = [key + value] * 6 + [value + key, value, key, number + key + number, key + draw(unknown_fields) + number]
    return field(5, draw(st.sampled_from(forms)))


@st.composite
def nodes(draw: st.DrawFn) -> bytes:
    """NodeDefs whose fields stand in any order, repeat, or are unknown."""
    parts = [field(1, draw(names).encode()), field(2, draw(names).encode())]
    parts += [field(3, text.encode()) for text in draw(st.lists(inputs, max_size=3))]
    parts += [field(4, draw(names).encode())] if draw(st.booleans()) else []
    parts += draw(st.lists(entries(), max_size=4))
    parts += draw(st.lists(unknown_fields, max_size=2))
    return b"".join(draw(st.permutations(parts)) if draw(st.booleans()) else parts)


@st.composite
def graphs(draw: st.DrawFn) -> bytes:
    """GraphDefs with their nodes between other fields."""
    parts = [field(1, node) for node in draw(st.lists(nodes(), max_size=6))]
    parts += draw(st.lists(unknown_fields, max_size=2))
    if draw(st.booleans()):
        parts.append(field(4, b"\x08\x15"))
    return b"".join(draw(st.permutations(parts)))


def plain(value: Any) -> Any:
    """Something that can be compared, whatever kind of object holds a tensor's values."""
    if isinstance(value, Attr):
        return (value.kind, plain(value.value))
    if isinstance(value, Func):
        return (value.name, plain(value.attrs))
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    return _plain_tensor(value) if hasattr(value, "parts") else value


def _plain_tensor(tensor: Tensor) -> Any:
    if isinstance(tensor, OpaqueTensor):
        return (tensor.dtype, tensor.shape)
    if isinstance(tensor, StringTensor):
        return (tensor.dtype, tensor.shape, tensor.numpy().tolist())
    data = b"".join(part if isinstance(part, bytes) else part.tobytes() for part in tensor.parts())
    return (tensor.dtype, tensor.shape, data)


def _read(data: bytes, *, large: int) -> list[Any]:
    """All that a graph says of its nodes, where nodes over this size are read by hand."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes_module, "_LARGE", large)
        patch.setattr(attrs_module, "_LARGE", large)
        graph = read_graph(from_bytes(data))
        return [(node.name, node.op, node.inputs, node.device, _node_bytes(node), plain(node.attrs)) for node in graph]


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_both_ways_of_reading_say_the_same(data: bytes) -> None:
    fast = _read(data, large=1 << 30)
    slow = _read(data, large=-1)
    assert slow == fast
    assert _read(data, large=4096) == fast


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_protobuf_says_the_same(data: bytes) -> None:
    graph = read_graph(from_bytes(data))
    message = parse("GraphDef", data)
    found = [(node.name, node.op, list(node.inputs), node.device) for node in graph]
    assert found == [(node.name, node.op, list(node.input), node.device) for node in message.node]
    for node, wanted in zip(graph, message.node, strict=True):
        if len(UnknownFieldSet(wanted)) == 0:  # where protobuf for Python puts entries that have unknown fields
            expected = {key: plain(attr_from_message(value, key)) for key, value in wanted.attr.items()}
            assert plain(node.attrs) == expected


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_edited_nodes_say_what_protobuf_says_after_the_same_edit(data: bytes, choose: st.DataObject) -> None:
    graph = read_graph(from_bytes(data))
    edited, want = [], parse("GraphDef", data)
    for node, message in zip(graph.nodes, want.node, strict=True):
        if not choose.draw(st.booleans()):
            edited.append(node)
            continue
        drop = choose.draw(st.sampled_from([*node.attrs, "nothing"]))
        edited.append(node.replace(op="New", inputs=("a", "^b"), attrs={drop: None, "added": 7}))
        message.op = "New"
        message.input[:] = ["a", "^b"]
        message.attr.pop(drop, None)
        message.attr["added"].i = 7
    again = _planned(Graph(tuple(edited)))
    assert [_canonical(node) for node in again.node] == [_canonical(node) for node in want.node]
    assert [plain(a.attrs) for a in edited] == [plain(b.attrs) for b in read_graph(from_bytes(_bytes(edited))).nodes]


def _bytes(edited: list[Node]) -> bytes:
    plan = plan_graph(Graph(tuple(edited)))
    return plan.tobytes()


def _planned(graph: Graph) -> Any:
    return parse("GraphDef", plan_graph(graph).tobytes())


def _canonical(node: Any) -> Any:
    """The fields that the schema knows; the order of the unknown ones means nothing."""
    copy = type(node).FromString(node.SerializeToString())
    copy.DiscardUnknownFields()
    return copy


@settings(max_examples=40, deadline=None)
@given(graphs(), st.integers(0, 10**6))
def test_untouched_nodes_are_written_verbatim(data: bytes, number: int) -> None:
    graph = read_graph(from_bytes(data))
    assert graph.raw is not None
    assert [_node_bytes(node) for node in graph] == payloads(data, 1)
    if graph.nodes:
        at = number % len(graph.nodes)
        changed = [node.replace(device="/x") if place == at else node for place, node in enumerate(graph.nodes)]
        found = payloads(_bytes(changed), 1)
        assert found[:at] + found[at + 1 :] == payloads(data, 1)[:at] + payloads(data, 1)[at + 1 :]


def _node_bytes(node: Node) -> bytes:
    return plan_node(node).tobytes()


@settings(max_examples=60, deadline=None)
@given(attr_values())
def test_attributes_are_written_as_they_were_read(message: Any) -> None:
    try:
        attr = attr_from_message(message, "a")
        again = parse("AttrValue", plan_attr(attr).tobytes())
    except TfsmithError:
        return  # a resource or an unknown type has no values that could be written
    assert plain(attr_from_message(again, "a")) == plain(attr)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.data())
def test_damage_is_found_alike(data: bytes, choose: st.DataObject) -> None:
    """Bytes that were changed are refused by both ways, or both give the same."""
    if not data:
        return
    at = choose.draw(st.integers(0, len(data) - 1))
    damaged = bytearray(data)
    damaged[at] ^= 1 << choose.draw(st.integers(0, 7))
    results: list[Any] = []
    for large in (1 << 30, -1):
        try:
            results.append(_read(bytes(damaged), large=large))
        except TfsmithError as error:
            results.append(isinstance(error, CorruptFileError))
    first, second = results
    if isinstance(first, list) and isinstance(second, list):
        assert first == second


def _assert_has_place(error: CorruptFileError) -> None:
    assert error.offset is not None
    assert error.remedy is not None


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_cut_files_are_refused_or_are_whole(data: bytes, choose: st.DataObject) -> None:
    cut = data[: choose.draw(st.integers(0, len(data)))]
    try:
        graph = read_graph(from_bytes(cut))
    except CorruptFileError as error:
        _assert_has_place(error)
        return
    assert len(graph) == len(parse("GraphDef", cut).node)
    assert isinstance(graph.raw, Span)
