"""Hostile text and bytes: an error of ours, or a result; never anything else, and never without end."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.helpers import MemorySink

from tfsmith.errors import CorruptFileError, LimitError, TfsmithError
from tfsmith.storage import from_bytes
from tfsmith.wire import message_class, new
from tfsmith.wire.text_reader import text_to_wire
from tfsmith.wire.text_writer import write_text

BAD = {
    "no field": "x",
    "no value": "node",
    "a scalar without a colon": 'node {\n  name "x"\n}\n',
    "a scalar in braces": "node {\n  name {\n  }\n}\n",
    "a message as a scalar": "node: 1\n",
    "closed too often": "node {\n}\n}\n",
    "never closed": "node {\n" * 5,
    "closed by another bracket": "node <\n}\n",
    "an open string": 'node {\n  name: "x\n}\n',
    "a string that ends in a backslash": 'node {\n  name: "x\\"\n}\n',
    "bad escapes": 'node {\n  name: "\\x"\n}\n',
    "an octal escape over a byte": 'node {\n  name: "\\777"\n}\n',
    "no UTF-8 in a string": 'node {\n  name: "\\377"\n}\n',
    "half a surrogate": 'node {\n  name: "\ud800"\n}\n',
    "half a surrogate as a name": "\ud800: 1\n",
    "half a surrogate as an enum": "node {\n  attr {\n    value {\n      type: \ud800\n    }\n  }\n}\n",
    "a number of a million digits": "version: " + "9" * 1_000_000,
    "an enum of a million digits": "node {\n  attr {\n    value {\n      type: "
    + "9" * 1_000_000
    + "\n    }\n  }\n}\n",
    "an enum past 32 bits": "node {\n  attr {\n    value {\n      type: 4294967296\n    }\n  }\n}\n",
    "an unknown enum": "node {\n  attr {\n    value {\n      type: DT_NONSENSE\n    }\n  }\n}\n",
    "two of a oneof": "node {\n  attr {\n    value {\n      i: 1\n      b: true\n    }\n  }\n}\n",
    "a byte order mark": "\ufeffversion: 1\n",
    "a field number": "1 {\n}\n",
    "an extension": "[tensorflow.ext]: 1\n",
    "another language": '{"node": [{"name": "x"}]}',
    "nul bytes": "\0" * 100,
    "wire bytes taken for text": "\n\x05\n\x01a\x12\x00",
}


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_bad_text_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(CorruptFileError) as caught:
        text_to_wire(text, "GraphDef", "bad.pbtxt")
    assert caught.value.path == "bad.pbtxt"
    assert "line " in str(caught.value.where)
    assert caught.value.remedy
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("opening", ["args {\n", "args { ", "args <", "  args {\n    # x\n"])
@pytest.mark.parametrize("depth", [101, 500, 20_000])
def test_bottomless_text_is_refused(opening: str, depth: int) -> None:
    closing = ">" if "<" in opening else "}\n"
    with pytest.raises(LimitError, match="nested"):
        text_to_wire(opening * depth + closing * depth, "FullTypeDef")
    with pytest.raises(TfsmithError):
        text_to_wire(opening * depth, "FullTypeDef")


def test_bottomless_blocks_are_refused() -> None:
    once = "  attr {\n   value {\n   func {\n"
    with pytest.raises(LimitError, match="nested"):
        text_to_wire("node {\n" + once * 50 + "   }\n   }\n  }\n" * 50 + "}\n", "GraphDef")


@pytest.mark.parametrize(
    "text",
    [
        "  attr {\n" * 30_000,
        ("  attr {\n" + "   x\n" * 3) * 10_000,
        "".join(" " * indent + "attr {\n" for indent in (2, 4, 6, 8, 10)) * 10_000,
        "  attr {\n" + "   key: 'x'\n" * 100_000,
        "name: '" + "\\'" * 500_000,
        " " * 2_000_000 + "}",
        "\n" * 2_000_000 + "}",
        "#" * 2_000_000 + "\n}",
    ],
    ids=range(8),
)
def test_text_made_to_be_slow_is_refused(text: str) -> None:
    with pytest.raises(CorruptFileError):
        text_to_wire(text, "NodeDef")


def test_a_million_backslashes_are_read_or_refused_at_once() -> None:
    wire = text_to_wire('name: "' + "\\" * 1_000_000 + '"', "NodeDef")
    assert message_class("NodeDef").FromString(wire).name == "\\" * 500_000
    with pytest.raises(LimitError, match="backslashes"):
        text_to_wire('name: "' + "\\" * 1_000_001 + '"', "NodeDef")


WORDS = st.sampled_from(
    ["node", "attr", "key", "value", "name", "tensor", "i", "f", "s", "type", "list", "shape", "any_info", "[", "]",
     "{", "}", "<", ">", ":", ",", ";", "\n", "  ", "#", '"', "'", "\\", '"a"', "1", "-1", "0x", "1e9", "inf", "true",
     "DT_FLOAT", "type.googleapis.com/tensorflow.NodeDef", "\ud800", "\x00", "é"]
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(st.lists(WORDS, max_size=30).map("".join), st.sampled_from(["GraphDef", "NodeDef", "AttrValue", "MetaGraphDef"]))
@settings(max_examples=500, deadline=None)
def test_any_text_gives_a_message_or_an_error_of_ours(text: str, name: str) -> None:
    try:
        wire = text_to_wire(text, name)
    except TfsmithError:
        return
    message_class(name).FromString(wire)


@given(
    st.binary(max_size=40), st.sampled_from(["GraphDef", "SavedModel", "MetaGraphDef", "FunctionDefLibrary", "NodeDef"])
)
@settings(max_examples=500, deadline=None)
def test_any_bytes_give_text_or_an_error_of_ours(data: bytes, name: str) -> None:
    try:
        write_text(name, from_bytes(data), MemorySink())
    except CorruptFileError:
        return


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_models_give_text_or_an_error_of_ours(data: st.DataObject) -> None:
    model = new("SavedModel")
    meta = model.meta_graphs.add()
    meta.meta_info_def.any_info.Pack(new("VersionDef"))
    meta.collection_def["c"].node_list.value.append("x")
    meta.graph_def.node.add(name="a", op="Const").attr["v"].tensor.float_val.extend([1.0, 2.0])
    meta.graph_def.library.function.add().ret["a"] = "b"
    wire = bytearray(model.SerializeToString())
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))
    for name in ("SavedModel", "MetaGraphDef", "GraphDef"):
        try:
            write_text(name, from_bytes(bytes(wire)), MemorySink())
        except CorruptFileError:
            continue
