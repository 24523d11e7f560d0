"""Text format to wire bytes: what is read fast, what steps aside, and what errors say."""

from __future__ import annotations

import math

import pytest

from tfsmith.errors import CorruptFileError, LimitError
from tfsmith.limits import MAX_DEPTH
from tfsmith.wire import message_class, new
from tfsmith.wire.text_reader import read_printed, text_to_wire

NODE = """
name: "a/b"
op: "Const"
input: "x:0"
input: "^y"
attr {
  key: "dtype"
  value {
    type: DT_FLOAT
  }
}
attr {
  key: "value"
  value {
    tensor {
      dtype: DT_FLOAT
      tensor_shape {
        dim {
          size: 3
        }
        dim {
          size: -1
        }
      }
      tensor_content: "\\000\\001\\377\\"\\'\\\\\\n"
      float_val: 1.5
      float_val: -inf
      float_val: nan
      int_val: -1
    }
  }
}
"""


def test_a_node_is_read_fast() -> None:
    wire = read_printed(NODE, "NodeDef")
    assert wire is not None
    node = message_class("NodeDef").FromString(wire)
    assert (node.name, node.op, list(node.input)) == ("a/b", "Const", ["x:0", "^y"])
    assert node.attr["dtype"].type == 1
    tensor = node.attr["value"].tensor
    assert [dim.size for dim in tensor.tensor_shape.dim] == [3, -1]
    assert tensor.tensor_content == b"\x00\x01\xff\"'\\\n"
    assert list(tensor.float_val[:2]) == [1.5, -math.inf]
    assert math.isnan(tensor.float_val[2])
    assert list(tensor.int_val) == [-1]


def test_the_bytes_are_those_that_protobuf_writes() -> None:
    tensor = new("TensorProto")
    tensor.dtype = 3
    tensor.tensor_shape.dim.add(size=2, name="rows")
    tensor.tensor_shape.dim.add()
    tensor.int_val.extend([1, -1, 300])
    tensor.string_val.extend([b"", b"x"])
    tensor.half_val.append(7)
    text = (
        "dtype: DT_INT32\ntensor_shape {\n  dim {\n    size: 2\n    name: 'rows'\n  }\n  dim {\n    size: 0\n  }\n}\n"
        'int_val: 1\nint_val: -1\nint_val: 300\nstring_val: ""\nstring_val: "x"\nhalf_val: 7\n'
    )
    assert read_printed(text, "TensorProto") == tensor.SerializeToString(deterministic=True)


def test_nothing_is_the_empty_message() -> None:
    for text in ("", "\n", "  \n\t\r\n", "# only a comment"):
        assert read_printed(text, "GraphDef") == b""


@pytest.mark.parametrize("layout", ["\r\n", "  \n", "\n\n", "\n# a comment } {\n", "\n\t"])
def test_other_line_ends_blank_lines_and_comments_are_read_fast(layout: str) -> None:
    assert read_printed(NODE.replace("\n", layout), "NodeDef") == read_printed(NODE, "NodeDef")


def test_indentation_means_nothing() -> None:
    expected = read_printed(NODE, "NodeDef")
    flat = "\n".join(line.strip() for line in NODE.split("\n"))
    assert read_printed(flat, "NodeDef") == expected
    for spaces in (1, 2, 4, 6, 10, 13):
        shifted = "\n".join(" " * spaces + line for line in NODE.split("\n"))
        assert text_to_wire(shifted, "NodeDef") == expected


def test_blocks_across_pieces_are_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = "".join(f"node {{\n{NODE}}}\n".replace("\n", "\n  ") for _ in range(3)).replace(
        "\n  }\n  node", "\n}\nnode"
    )
    expected = text_to_wire(graph, "GraphDef")
    assert message_class("GraphDef").FromString(expected).node[2].name == "a/b"
    for size in (1, 7, 50, 333):
        monkeypatch.setattr("tfsmith.wire.text_reader._PIECE", size)
        assert read_printed(graph, "GraphDef") == expected


@pytest.mark.parametrize(
    "text",
    [
        "float_val: [1, 2]",
        "float_val: 1 float_val: 2",
        "float_val: 1, float_val: 2;",
        "int_val: 0x1 float_val: 1 float_val: 2f",
        'string_val: "ab" "c"',
        'string_val: "a"\n"bc"',
        "tensor_shape { dim { size: 1 } }",
        "tensor_shape <\n  dim <\n    size: 1\n  >\n>",
        "tensor_shape: {\n}",
        "tensor_shape {}",
        'tensor_content: "x"  # why not',
        "dtype: 0 dtype: 1",
    ],
)
def test_other_spellings_are_read_as_well(text: str) -> None:
    from google.protobuf import text_format

    expected = text_format.Parse(text, new("TensorProto"))
    assert message_class("TensorProto").FromString(text_to_wire(text, "TensorProto")) == expected


def test_defaults_are_left_out_except_where_they_say_something() -> None:
    assert read_printed("size: 0\nname: ''", "TensorShapeProto.Dim") == b""
    assert read_printed("keep_checkpoint_every_n_hours: -0.0", "SaverDef") == b"5\x00\x00\x00\x80"
    assert read_printed("i: 0", "AttrValue") == b"\x18\x00"
    assert read_printed("shape {\n}", "AttrValue") == b"\x3a\x00"


def test_an_expanded_any_is_packed() -> None:
    text = "any_info {\n  [type.googleapis.com/tensorflow.VersionDef] {\n    producer: 4\n  }\n}\n"
    info = message_class("MetaGraphDef.MetaInfoDef").FromString(text_to_wire(text, "MetaGraphDef.MetaInfoDef"))
    assert info.any_info.type_url == "type.googleapis.com/tensorflow.VersionDef"
    assert info.any_info.value == b"\x08\x04"


def nested(depth: int) -> str:
    return "args {\n" * depth + "}\n" * depth


def test_the_deepest_message_that_protobuf_reads_is_read() -> None:
    for depth in (10, MAX_DEPTH - 21, MAX_DEPTH - 20, MAX_DEPTH - 19, MAX_DEPTH):
        message_class("FullTypeDef").FromString(text_to_wire(nested(depth), "FullTypeDef"))
    with pytest.raises(LimitError, match="nested more than 100 deep"):
        text_to_wire(nested(MAX_DEPTH + 1), "FullTypeDef", "x.pbtxt")


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        (
            'node {\n  name: "a"\n  colour: "red"\n}\n',
            "line 3, column 3",
            '"tensorflow.NodeDef" has no field named "colour"',
        ),
        ('node {\n  name: "a"\n  name: "b"\n}\n', "line 3, column", 'multiple "name" fields'),
        ("node {\n", "line 1, column", 'Expected "}"'),
        ("}\n", "line 1, column 1", "Expected identifier"),
        ("node {\n  name: 7\n}\n", "line 2, column 9", "Expected string but found: '7'"),
        ("versions {\n  producer: 3000000000\n}\n", "line 2, column 13", "Value out of range: 3000000000"),
        (
            'node {\n  attr {\n    key: "T"\n    value {\n      type: DT_FLOAT\n      i: 1\n    }\n  }\n}\n',
            "line 6, column",
            'Field "i" is specified along with field "type"',
        ),
        (
            'node {\n  attr {\n    key: "T"\n    value {\n      type: 99999999999\n    }\n  }\n}\n',
            "near line",
            "Value out of range: 99999999999",
        ),
    ],
)
def test_an_error_says_what_and_where(text: str, where: str, what: str) -> None:
    with pytest.raises(CorruptFileError) as caught:
        text_to_wire(text, "GraphDef", "graph.pbtxt")
    assert caught.value.path == "graph.pbtxt"
    assert caught.value.where is not None
    assert caught.value.where.startswith(where)
    assert what in caught.value.what
    assert "GraphDef" in str(caught.value.remedy)


def test_an_error_does_not_quote_megabytes() -> None:
    with pytest.raises(CorruptFileError) as caught:
        text_to_wire(f'node {{\n  name: "{"x" * 100_000}\n}}\n', "GraphDef")
    assert len(str(caught.value)) < 500
