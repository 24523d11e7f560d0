from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.riegeli_files import BLOCK, BYTES, CONTENT, GRAPH, LIBRARY, Parts, split

from tfsmith.errors import CorruptFileError, UnsupportedError
from tfsmith.formats.cpb.chunked import is_chunked, plan_chunked, read_chunked
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import fields, new


def saved_model(nodes: int = 6, functions: int = 3, content: int = 100) -> Any:
    model = new("SavedModel")
    model.saved_model_schema_version = 1
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    meta.signature_def["serving_default"].method_name = "tensorflow/serving/predict"
    meta.graph_def.versions.producer = 2000
    for index in range(nodes):
        fill_node(meta.graph_def.node.add(), index, content)
    for index in range(functions):
        function = meta.graph_def.library.function.add()
        function.signature.name = f"f{index}"
        for inner in range(index + 1):
            fill_node(function.node_def.add(), inner, content)
    meta.object_graph_def.nodes.add().user_object.identifier = "root"
    return model


def fill_node(node: Any, index: int, content: int) -> None:
    node.name, node.op = f"n{index}", "Const" if index % 2 else "Identity"
    node.attr["T"].type = 1
    if index % 2:
        tensor = node.attr["value"].tensor
        tensor.dtype = 1
        tensor.tensor_shape.dim.add(size=content // 4)
        tensor.tensor_content = bytes((index,)) * content


def span_of(data: bytes) -> Span:
    return from_bytes(data, "some/saved_model.cpb")


def merged(data: bytes) -> Any:
    model = new("SavedModel")
    model.ParseFromString(read_chunked(span_of(data)).tobytes())
    return model


def encoded(message: Any) -> bytes:
    return bytes(message.SerializeToString(deterministic=True))


@given(
    nodes=st.integers(0, 9),
    functions=st.integers(0, 4),
    content=st.integers(0, 400),
    constant=st.integers(1, 300),
    run=st.none() | st.integers(1, 5),
    whole_graph=st.booleans(),
    together=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_what_was_split_is_merged(
    nodes: int, functions: int, content: int, constant: int, run: int | None, whole_graph: bool, together: bool
) -> None:
    model = saved_model(nodes, functions, content)
    parts = split(model, constant=constant, run=run, whole_graph=whole_graph)
    assert merged(parts.file(together=together)) == model


def test_taking_constants_out_and_in_gives_the_same_bytes() -> None:
    model = saved_model(content=3 * BLOCK)
    parts = split(model, constant=1000)
    assert len(parts.chunks) > 3
    assert read_chunked(span_of(parts.file())).tobytes() == encoded(model)


def test_large_constants_are_not_read_by_the_plan() -> None:
    model = saved_model(functions=0, content=3 * BLOCK)
    span = span_of(split(model, constant=1000).file())
    plan = plan_chunked(span)
    held = sum(len(part) for part in plan.parts() if not isinstance(part, Span) or part.source is not span.source)
    assert held < 2000
    assert plan.size == len(encoded(model))
    assert plan.tobytes() == encoded(model)


def test_the_result_names_its_file() -> None:
    assert read_chunked(span_of(split(saved_model(), constant=50).file())).name == "some/saved_model.cpb (merged)"


def test_is_chunked_looks_at_the_signature() -> None:
    assert is_chunked(span_of(split(saved_model()).file()))
    assert not is_chunked(span_of(encoded(saved_model())))
    assert not is_chunked(span_of(b""))


def test_there_may_be_no_chunk_for_the_whole() -> None:
    meta = new("MetaGraphDef")
    meta.graph_def.node.add(name="a")
    parts = Parts()
    parts.add(encoded(meta), [2, (0,)])
    expected = new("SavedModel")
    expected.meta_graphs.add().CopyFrom(meta)
    assert merged(parts.file()) == expected


def test_fields_are_put_in_by_depth_and_index_not_by_order() -> None:
    model = saved_model()
    parts = split(model, constant=50, run=2, whole_graph=True)
    in_order = list(parts.message.chunked_fields)
    del parts.message.chunked_fields[:]
    parts.message.chunked_fields.extend(reversed(in_order))
    assert merged(parts.file()) == model


def test_chunks_may_hold_chunks() -> None:
    model = saved_model()
    graph = model.meta_graphs[0].graph_def
    base, rest = new("SavedModel"), new("GraphDef")
    base.CopyFrom(model)
    base.meta_graphs[0].ClearField("graph_def")
    rest.CopyFrom(graph)
    content = rest.node[3].attr["value"].tensor.tensor_content
    rest.node[3].attr["value"].tensor.ClearField("tensor_content")
    parts = Parts(encoded(base))
    inner = parts.add(encoded(rest), GRAPH)
    parts.add(content, (1, (3,), *CONTENT), BYTES, parent=inner)
    assert merged(parts.file()) == model


def test_messages_merge_as_protobuf_merges_them() -> None:
    """Lists grow, the last number wins, messages merge inside, and a key's last entry wins."""
    first, second = saved_model(nodes=2).meta_graphs[0], saved_model(nodes=1, functions=1).meta_graphs[0]
    first.meta_info_def.tensorflow_version = "1"
    second.meta_info_def.tensorflow_version = "2"
    second.graph_def.versions.min_consumer = 12
    second.signature_def["serving_default"].method_name = "other"
    expected = new("SavedModel")
    expected.meta_graphs.add().CopyFrom(first)
    parts = Parts(encoded(expected))
    expected.meta_graphs[0].MergeFrom(second)
    parts.add(encoded(second), [2, (0,)])
    assert merged(parts.file()) == expected
    (meta,) = payloads(read_chunked(span_of(parts.file())), 2)
    assert len(payloads(meta, 2)) == 1  # a reader that takes the first or the last GraphDef sees all of it


def payloads(span: Span, number: int) -> list[Span]:
    return [Span(span.source, raw.start, raw.stop) for raw in fields(span) if raw.number == number]


def test_a_missing_key_is_made() -> None:
    node = new("NodeDef")
    node.name = "a"
    model = new("SavedModel")
    model.meta_graphs.add().graph_def.node.add().CopyFrom(node)
    parts = Parts(encoded(model))
    parts.add(b"raw", (*GRAPH, 1, (0,), *CONTENT), BYTES)
    model.meta_graphs[0].graph_def.node[0].attr["value"].tensor.tensor_content = b"raw"
    assert merged(parts.file()) == model


def test_a_value_replaces_the_others_of_its_oneof() -> None:
    model = saved_model()
    model.meta_graphs[0].graph_def.node[0].attr["value"].placeholder = "p"
    parts = Parts(encoded(model))
    parts.add(b"name", (*GRAPH, 1, (0,), 5, "value", 2), BYTES)
    assert merged(parts.file()).meta_graphs[0].graph_def.node[0].attr["value"].s == b"name"


def test_a_later_value_of_a_oneof_has_cleared_the_first() -> None:
    model = saved_model()
    value = new("AttrValue")
    value.placeholder = "p"
    parts = Parts(encoded(model))
    parts.add(encoded(value), (*GRAPH, 1, (1,), 5, "value"))
    parts.add(b"raw", (*GRAPH, 1, (1,), *CONTENT), BYTES)
    value.tensor.tensor_content = b"raw"  # and neither dtype nor shape
    model.meta_graphs[0].graph_def.node[1].attr["value"].CopyFrom(value)
    assert merged(parts.file()) == model


def test_a_later_entry_of_a_map_is_the_one_to_walk_into() -> None:
    model = saved_model()
    path = (*GRAPH, 1, (1,))
    node = new("NodeDef")
    node.attr["value"].tensor.dtype = 3
    parts = Parts(encoded(model))
    for text in (b"first", b"second"):
        inner = parts.add(encoded(node), path)
        parts.add(text, CONTENT, BYTES, parent=inner)
    node.attr["value"].tensor.tensor_content = b"second"
    model.meta_graphs[0].graph_def.node[1].attr["value"].CopyFrom(node.attr["value"])
    assert merged(parts.file()) == model


def test_bytes_are_set_not_joined() -> None:
    """As TensorFlow's merger does, whatever the comment in chunk.proto says."""
    model = saved_model()
    parts = Parts(encoded(model))
    for text in (b"first", b"second"):
        parts.add(text, (*GRAPH, 1, (1,), *CONTENT), BYTES)
    assert merged(parts.file()).meta_graphs[0].graph_def.node[1].attr["value"].tensor.tensor_content == b"second"


def test_integer_keys_and_elements_of_lists() -> None:
    model = saved_model()
    function = model.meta_graphs[0].graph_def.library.function[0]
    function.arg_attr[3].attr["a"].s = b"old"
    function.node_def[0].input.extend(["x", "y"])
    parts = Parts(encoded(model))
    path = (*LIBRARY, 1, (0,))
    field = parts.message.chunked_fields.add()
    for number, kind in (
        (2, "field"),
        (0, "index"),
        (2, "field"),
        (2, "field"),
        (1, "field"),
        (0, "index"),
        (7, "field"),
    ):
        setattr(field.field_tag.add(), kind, number)
    field.field_tag.add().map_key.ui32 = 3
    field.field_tag.add().field = 1
    field.field_tag.add().map_key.s = "a"
    field.field_tag.add().field = 2
    field.message.chunk_index = parts.chunk(b"new", BYTES)
    parts.add(b"z", (*path, 3, (0,), 3, (1,)), BYTES)
    function.arg_attr[3].attr["a"].s = b"new"
    function.node_def[0].input[1] = "z"
    assert merged(parts.file()) == model


def test_unknown_fields_stay() -> None:
    model = saved_model()
    unknown = b"\xfa\x7d\x03abc"  # field 2015
    parts = Parts(encoded(model) + unknown)
    parts.add(b"q" * 9, (*GRAPH, 1, (1,), *CONTENT), BYTES)
    assert read_chunked(span_of(parts.file())).tobytes().endswith(unknown)


def test_a_newer_way_of_merging_is_refused() -> None:
    def newer(metadata: Any) -> None:
        metadata.version.join_version = 1

    with pytest.raises(UnsupportedError, match="version 1 of merging"):
        plan_chunked(span_of(split(saved_model()).file(edit=newer)))


def test_an_error_says_where() -> None:
    parts = split(saved_model())
    parts.add(b"", (*GRAPH, 1, (77,), *CONTENT), BYTES)
    with pytest.raises(CorruptFileError) as caught:
        plan_chunked(span_of(parts.file()))
    assert caught.value.where == "SavedModel.meta_graphs[0].graph_def"
    assert caught.value.path == "some/saved_model.cpb"
    assert "'node' has no element 77, only 6" in str(caught.value)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("several", [False, True])
def test_compressed_chunks(several: bool, together: bool) -> None:
    brotli = pytest.importorskip("brotli")
    model = saved_model(content=3 * BLOCK)
    parts = split(model, constant=1000, run=2 if several else None)
    data = parts.file(ord("b"), brotli.compress, together=together)
    assert len(data) < 10_000
    assert merged(data) == model


def test_walking_into_a_oneof_clears_the_others() -> None:
    model = saved_model()
    model.meta_graphs[0].graph_def.node[0].attr["value"].placeholder = "p"
    parts = Parts(encoded(model))
    parts.add(b"raw", (*GRAPH, 1, (0,), *CONTENT), BYTES)
    model.meta_graphs[0].graph_def.node[0].attr["value"].tensor.tensor_content = b"raw"
    assert merged(parts.file()) == model
