"""Wire bytes to text format: the flavours, the order of fields, and what is streamed."""

from __future__ import annotations

import pytest
from tests.support.helpers import MemorySink

from tfsmith.errors import CorruptFileError, TruncatedFileError
from tfsmith.storage import from_bytes
from tfsmith.wire import message_class, new
from tfsmith.wire.text_reader import text_to_wire
from tfsmith.wire.text_writer import message_text, write_text


class CountingSink(MemorySink):
    """Remembers how often it was written to."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0

    def write(self, data: bytes) -> None:
        super().write(data)
        self.writes += 1


def written(name: str, wire: bytes) -> str:
    sink = MemorySink()
    write_text(name, from_bytes(wire, "model.pb"), sink)
    return sink.data.decode("utf-8")


def test_a_node_is_printed_with_its_attributes_by_name() -> None:
    node = new("NodeDef")
    node.name, node.op = "it's", "Const"
    node.attr["dtype"].type = 1
    node.attr["T"].type = 77
    node.attr["value"].tensor.float_val.extend([1.0, 0.1, float("nan")])
    node.attr["b"].s = b"\xff\n"
    assert message_text(node) == (
        'name: "it\\\'s"\nop: "Const"\n'
        'attr {\n  key: "T"\n  value {\n    type: 77\n  }\n}\n'
        'attr {\n  key: "b"\n  value {\n    s: "\\377\\n"\n  }\n}\n'
        'attr {\n  key: "dtype"\n  value {\n    type: DT_FLOAT\n  }\n}\n'
        'attr {\n  key: "value"\n  value {\n    tensor {\n'
        "      float_val: 1.0\n      float_val: 0.1\n      float_val: nan\n    }\n  }\n}\n"
    )


def test_printing_changes_nothing() -> None:
    wire = b"\x0a\x01a" + b"\xc2\x3e\x01x"  # a field that the schema does not know
    node = message_class("NodeDef").FromString(wire)
    assert message_text(node) == 'name: "a"\n'
    assert node.SerializeToString() == wire


def test_fields_come_by_number_whatever_the_order_on_the_wire() -> None:
    graph = new("GraphDef")
    graph.node.add(name="a")
    graph.node.add(name="b")
    graph.library.function.add().signature.name = "f"
    graph.versions.producer = 9
    parts = [new("GraphDef") for _ in range(4)]
    parts[0].versions.producer = 9
    parts[1].node.add(name="a")
    parts[2].library.CopyFrom(graph.library)
    parts[3].node.add(name="b")
    wire = b"".join(part.SerializeToString() for part in parts)
    assert written("GraphDef", wire) == message_text(graph)
    assert written("GraphDef", wire).startswith(
        'node {\n  name: "a"\n}\nnode {\n  name: "b"\n}\nlibrary {\n  function {\n'
    )


def test_unknown_fields_and_wrong_wire_types_are_left_out() -> None:
    graph = new("GraphDef")
    graph.node.add(name="a")
    wire = graph.SerializeToString() + b"\x08\x05" + b"\x10\x05" + b"\x22\x00" + b"\xc0\x3e\x01" + b"\x1a\x02hi"
    assert written("GraphDef", wire) == 'node {\n  name: "a"\n}\nversions {\n}\n'


def test_a_library_without_a_byte_is_still_a_library() -> None:
    assert written("GraphDef", b"\x12\x00") == "library {\n}\n"
    assert written("GraphDef", b"") == ""


def test_a_saved_model_is_printed_as_str_prints_it() -> None:
    model = new("SavedModel")
    model.saved_model_schema_version = 1
    meta = model.meta_graphs.add()
    meta.meta_info_def.any_info.Pack(new("VersionDef"))
    meta.saver_def.keep_checkpoint_every_n_hours = 10000.0
    for key in ("a", "", "b", "ab"):
        meta.signature_def[key].SetInParent()
    meta.graph_def.node.add(name="it's \U0001f600").attr["f"].f = 0.1
    tensor = meta.graph_def.node.add().attr["t"].tensor
    tensor.float_val.extend([1.0, 1e6, 1 / 3, -0.0])
    tensor.double_val.extend([1.0, 1e15, 1 / 3, float("-inf")])
    tensor.string_val.append(b'"\\\xff')
    assert written("SavedModel", model.SerializeToString()) == (
        "saved_model_schema_version: 1\nmeta_graphs {\n"
        "  meta_info_def {\n    any_info {\n"
        '      type_url: "type.googleapis.com/tensorflow.VersionDef"\n    }\n  }\n'
        "  graph_def {\n"
        '    node {\n      name: "it\\\'s \U0001f600"\n'
        '      attr {\n        key: "f"\n        value {\n          f: 0.1\n        }\n      }\n    }\n'
        '    node {\n      attr {\n        key: "t"\n        value {\n          tensor {\n'
        "            float_val: 1\n            float_val: 1e+06\n"
        "            float_val: 0.333333343\n            float_val: -0\n"
        "            double_val: 1\n            double_val: 1e+15\n"
        "            double_val: 0.33333333333333331\n            double_val: -inf\n"
        '            string_val: "\\"\\\\\\377"\n'
        "          }\n        }\n      }\n    }\n  }\n"
        "  saver_def {\n    keep_checkpoint_every_n_hours: 10000\n  }\n"
        '  signature_def {\n    key: ""\n    value {\n    }\n  }\n'
        '  signature_def {\n    key: "b"\n    value {\n    }\n  }\n'
        '  signature_def {\n    key: "a"\n    value {\n    }\n  }\n'
        '  signature_def {\n    key: "ab"\n    value {\n    }\n  }\n'
        "}\n"
    )
    alone = written("MetaGraphDef", meta.SerializeToString())
    assert alone == message_text(meta)
    assert "keep_checkpoint_every_n_hours: 10000.0\n" in alone


def test_one_node_at_a_time_reaches_the_sink() -> None:
    graph = new("GraphDef")
    for number in range(50):
        graph.node.add(name=f"node_{number}", op="NoOp")
    sink = CountingSink()
    write_text("GraphDef", from_bytes(graph.SerializeToString()), sink)
    assert sink.writes == 50
    assert sink.data.decode("utf-8") == message_text(graph)


def test_more_blocks_than_are_remembered_are_printed_alike() -> None:
    graph = new("GraphDef")
    for number in range(5000):
        graph.node.add(name="n").attr["i"].i = number
    text = written("GraphDef", graph.SerializeToString())
    assert message_class("GraphDef").FromString(text_to_wire(text, "GraphDef")) == graph


def test_a_large_constant_is_escaped_right() -> None:
    node = new("NodeDef")
    node.attr["value"].tensor.tensor_content = bytes(range(256)) * 1000
    text = message_text(node)
    assert text.count("\\000") == 1000
    assert message_class("NodeDef").FromString(text_to_wire(text, "NodeDef")) == node


def test_an_any_that_cannot_be_expanded_is_shown_as_it_is() -> None:
    meta = new("MetaGraphDef")
    info = meta.meta_info_def.any_info
    info.type_url, info.value = "type.googleapis.com/tensorflow.VersionDef", b"\xff"
    assert 'value: "\\377"' in message_text(meta)
    info.type_url, info.value = "type.googleapis.com/VersionDef", b""
    assert 'type_url: "type.googleapis.com/VersionDef"' in message_text(meta)


def test_an_any_inside_an_any_without_end_is_shown_in_finite_space() -> None:
    meta = new("MetaGraphDef")
    for _ in range(300):
        outer = new("MetaGraphDef")
        outer.meta_info_def.any_info.Pack(meta)
        meta = outer
    text = message_text(meta)
    assert text.count("[type.googleapis.com/tensorflow.MetaGraphDef]") > 10
    assert message_class("MetaGraphDef").FromString(text_to_wire(text, "MetaGraphDef")) == meta


def test_damage_is_reported_with_its_place() -> None:
    with pytest.raises(TruncatedFileError) as cut:
        written("GraphDef", b"\x22\x00\x0a\x7fxx")
    assert (cut.value.path, cut.value.offset) == ("model.pb", 2)
    with pytest.raises(CorruptFileError) as bad:
        written("GraphDef", b"\x22\x00\x0a\x03\x0a\x01\xff")  # a name that is no UTF-8
    assert (bad.value.path, bad.value.offset) == ("model.pb", 4)
