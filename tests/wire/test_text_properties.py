"""Text format against protobuf's own: every fast path gives what the slow one gives."""

from __future__ import annotations

import struct
from typing import Any

import google.protobuf
import pytest
from google.protobuf import text_format
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from tests.support.helpers import MemorySink

from tfsmith.errors import TfsmithError
from tfsmith.storage import from_bytes
from tfsmith.wire import message_class, new, pool
from tfsmith.wire.schema import Field, schema
from tfsmith.wire.text_reader import parse_slowly, read_printed, text_to_wire
from tfsmith.wire.text_writer import Printer, message_text, write_text

pytestmark = pytest.mark.slow

STR_IS_SOUND = int(google.protobuf.__version__.partition(".")[0]) >= 6
"""That of protobuf 5 does not escape quotes in bytes, and prints fields in another order."""

ROOTS = (
    "GraphDef",
    "MetaGraphDef",
    "SavedModel",
    "NodeDef",
    "FunctionDef",
    "AttrValue",
    "TensorProto",
    "CheckpointState",
    "OpDef",
    "SavedObject",
    "StructuredValue",
    "GraphDebugInfo",
    "BundleEntryProto",
    "SaverDef",
)
SHELLS = ("GraphDef", "MetaGraphDef", "SavedModel", "FunctionDefLibrary")
INTEGERS = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "sint64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
    "fixed32": (0, 2**32 - 1),
    "fixed64": (0, 2**64 - 1),
}
WORDS = st.sampled_from(
    ["", "T", "dtype", "a/b:0", 'q"q', "it's", "back\\slash", "é", "\U0001f600", "\x00\x7f", "}", "# no"]
)


def written(name: str, wire: bytes) -> str:
    sink = MemorySink()
    write_text(name, from_bytes(wire), sink)
    return sink.data.decode("utf-8")


def as_tensorflow_writes(name: str, message: Any) -> str:
    if name == "SavedModel":
        assume(STR_IS_SOUND)
        return str(message)
    return text_format.MessageToString(message, descriptor_pool=pool())


def scalars(type_name: str) -> st.SearchStrategy[Any]:
    if type_name == "string":
        return WORDS | st.text(max_size=6)
    if type_name == "bytes":
        return WORDS.map(str.encode) | st.binary(max_size=6)
    if type_name == "bool":
        return st.booleans()
    if type_name == "double":
        return st.floats()
    if type_name == "float":
        return st.floats(width=32) | st.binary(min_size=4, max_size=4).map(lambda data: struct.unpack("<f", data)[0])
    if type_name in INTEGERS:
        low, high = INTEGERS[type_name]
        return st.integers(low, high) | st.integers(max(low, -2), 2)
    return st.sampled_from(sorted(schema().enums[type_name].values())) | st.integers(-(2**31), 2**31 - 1)


@st.composite
def messages(draw: st.DrawFn, name: str, depth: int = 5) -> Any:
    """A message with a few of its fields set, of any kind that the schema has."""
    message = new(name)
    fields = schema().messages[name]
    if depth == 0 or not fields:
        return message
    for field in draw(st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda field: field.number)):
        fill(draw, message, field, depth)
    return message


def fill(draw: st.DrawFn, message: Any, field: Field, depth: int) -> None:
    inner = field.type in schema().messages
    values = messages(field.type, depth - 1) if inner else scalars(field.type)
    if field.label == "map":
        target = getattr(message, field.name)
        for key in draw(st.lists(scalars(str(field.key_type)), max_size=3)):
            if inner:
                target[key].CopyFrom(draw(values))
            else:
                target[key] = draw(values)
    elif field.label == "many":
        getattr(message, field.name).extend(draw(st.lists(values, max_size=3)))
    elif inner:
        child = draw(values)
        getattr(message, field.name).CopyFrom(child)
        getattr(message, field.name).SetInParent()
    else:
        setattr(message, field.name, draw(values))


@st.composite
def named_messages(draw: st.DrawFn, names: tuple[str, ...] = ROOTS) -> tuple[str, Any]:
    name = draw(st.sampled_from(names))
    return name, draw(messages(name))


def canonical(name: str, wire: bytes) -> bytes:
    return bytes(message_class(name).FromString(wire).SerializeToString(deterministic=True))


@given(named_messages(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_what_printers_print_is_read_by_the_fast_path_as_the_slow_one_reads_it(
    case: tuple[str, Any], by_str: bool
) -> None:
    name, message = case
    text = str(message) if by_str and STR_IS_SOUND else text_format.MessageToString(message)
    fast = read_printed(text, name)
    assert fast is not None
    assert canonical(name, fast) == text_format.Parse(text, new(name)).SerializeToString(deterministic=True)


SNIPPETS = (
    "{", "}", " ", "\n", "\t", '"', "'", "\\", ":", ",", ";", "[", "]", "<", ">", "#", "0", "-", "1", "x", "_",
    "\xe9", "\r", "\x0c", "\u2028", "\\u0041", "\\x4", "\\400", "\\q", "0x10", "1f", "inf", "true", "\ufeff",
    "\ud800", "  attr {\n", "  }\n", 'key: "a"\n', "name: 'x'\n", "# comment\n", "i: 007\n", "size: -1\n",
    "type: 1\n", "{}", "value {\n",
)  # fmt: skip
VALUES = (
    "0", "-0", "+1", "01", "0x1F", "1_0", "1.", ".5", "-.5", "1e5", "1E+5", "1e400", "3.4028236e38", "-1e39",
    "nan", "-nan", "NaN", "inf", "-inf", "infinity", "1f", "1.5f", "- 1", "00.5", "True", "t", "f", "2",
    "DT_FLOAT", "DT_FLOAT ", "2147483648", "-2147483649", "9223372036854775808", "18446744073709551616",
    "\u0661", "'a'", '"a" "b"', '"a"# b"', '"a"b"', '\'"\'', '"\\""', '"\\\\"', '"\\\\\\""', '"\\377"',
    '"\\777"', '"\\x"', '"\\x4g"', '"\\xe9"', '"\\u00e9"', '"\\U0001f600"', '"\\ud800"', '"\\?"',
    '"\\x4\\\\1"', '"\\4\\\\77"', '"\\40\\\\0"', '"\\x414"', '"\\1234"', '"\\47"', '"\\477"',
    '"\\N{DIGIT ONE}"', '"\\e9"', '"\\\u4e2d"', '"\\\\\u4e2d"', "[1, 2]", "{", "{ }", "<", '"', "", "1;", "1,",
)  # fmt: skip


@st.composite
def edited_texts(draw: st.DrawFn) -> tuple[str, str]:
    """The text of a message after some edits, by character and by line."""
    name, message = draw(named_messages())
    text = text_format.MessageToString(message)
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        stop = min(len(text), start + draw(st.integers(0, 4)))
        kind = draw(
            st.sampled_from(["insert", "cut", "replace", "repeat line", "drop line", "swap lines", "value", "value"])
        )
        lines = text.split("\n")
        line = draw(st.integers(0, len(lines) - 1))
        if kind == "insert":
            text = text[:start] + draw(st.sampled_from(SNIPPETS)) + text[start:]
        elif kind == "cut":
            text = text[:start] + text[stop:]
        elif kind == "replace":
            text = text[:start] + draw(st.sampled_from(SNIPPETS)) + text[stop:]
        elif kind == "value":
            lines[line] = lines[line].partition(": ")[0] + ": " + draw(st.sampled_from(VALUES))
            text = "\n".join(lines)
        elif kind == "repeat line":
            text = "\n".join([*lines[: line + 1], *lines[line:]])
        elif kind == "drop line":
            text = "\n".join([*lines[:line], *lines[line + 1 :]])
        else:
            other = draw(st.integers(0, len(lines) - 1))
            lines[line], lines[other] = lines[other], lines[line]
            text = "\n".join(lines)
    return name, text


def slow_result(name: str, text: str) -> bytes | None:
    try:
        return parse_slowly(text, name, "<memory>")
    except TfsmithError:
        return None


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # protobuf's own, about escapes that it lets pass
@given(edited_texts())
@settings(max_examples=600, deadline=None)
def test_the_fast_path_never_takes_what_the_slow_one_refuses_nor_reads_it_otherwise(case: tuple[str, str]) -> None:
    name, text = case
    fast = read_printed(text, name)
    event("fast" if fast is not None else "slow")
    if fast is not None:
        assert slow_result(name, text) == canonical(name, fast)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(edited_texts())
@settings(max_examples=200, deadline=None)
def test_both_ways_fail_together_or_agree(case: tuple[str, str]) -> None:
    name, text = case
    try:
        ours = canonical(name, text_to_wire(text, name))
    except TfsmithError:
        ours = None
    try:
        parsed = text_format.Parse(text, new(name), descriptor_pool=pool())
    except (text_format.ParseError, ValueError, SystemError):
        parsed = None
    assert ours == (None if parsed is None else parsed.SerializeToString(deterministic=True))


FIELDS = (
    ("NodeDef", "name"),
    ("TensorProto", "tensor_content"),
    ("TensorProto", "float_val"),
    ("TensorProto", "double_val"),
    ("TensorProto", "bool_val"),
    ("TensorProto", "int_val"),
    ("TensorProto", "int64_val"),
    ("TensorProto", "uint32_val"),
    ("TensorProto", "uint64_val"),
    ("TensorProto", "dtype"),
    ("BundleEntryProto", "crc32c"),
    ("GraphDebugInfo.StackTrace", "frame_id"),
    ("StructuredValue", "int64_value"),
    ("SaverDef", "keep_checkpoint_every_n_hours"),
)
"""One field of each type of scalar."""

DIGITS = st.text("0123456789.-+eExXfF_", max_size=8)
LETTERS = st.sampled_from(
    ['"', "'", "\\", "\\", "x", "0", "7", "n", "u", "U", "N", "{", "a", "é", "\u4e2d", " ", "#", "\ud800"]
)
QUOTED = st.lists(LETTERS, max_size=7).map("".join).flatmap(lambda body: st.sampled_from([f'"{body}"', f"'{body}'"]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("field", FIELDS)
def test_strange_values_are_read_as_the_slow_path_reads_them(field: tuple[str, str]) -> None:
    message, name = field
    for value in VALUES:
        text = f"{name}: {value}\n"
        fast = read_printed(text, message)
        assert fast is None or slow_result(message, text) == canonical(message, fast)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@given(
    st.sampled_from(FIELDS), st.sampled_from(VALUES) | DIGITS | QUOTED | st.integers().map(str) | st.floats().map(str)
)
@settings(max_examples=1500, deadline=None)
def test_a_single_value_is_read_as_the_slow_path_reads_it(field: tuple[str, str], value: str) -> None:
    message, name = field
    text = f"{name}: {value}\n"
    fast = read_printed(text, message)
    if fast is not None:
        assert slow_result(message, text) == canonical(message, fast)


@given(st.lists(scalars("float")), st.lists(scalars("double")), st.lists(scalars("bytes") | st.binary()), st.text())
@settings(max_examples=500, deadline=None)
def test_values_print_as_protobuf_prints_them(
    floats: list[float], doubles: list[float], strings: list[bytes], name: str
) -> None:
    node = new("NodeDef")
    node.name = name
    tensor = node.attr["value"].tensor
    tensor.float_val.extend(floats)
    tensor.double_val.extend(doubles)
    tensor.string_val.extend(strings)
    assert message_text(node) == text_format.MessageToString(node)
    if STR_IS_SOUND:
        assert Printer(like_str=True).text("NodeDef", node) == str(node)


@given(named_messages())
@settings(max_examples=300, deadline=None)
def test_a_message_prints_as_protobuf_prints_it(case: tuple[str, Any]) -> None:
    _, message = case
    assert message_text(message) == text_format.MessageToString(message, descriptor_pool=pool())


@pytest.mark.skipif(not STR_IS_SOUND, reason="protobuf 5")
@given(named_messages())
@settings(max_examples=300, deadline=None)
def test_the_other_way_to_print_is_that_of_str(case: tuple[str, Any]) -> None:
    name, message = case
    expected = str(message)
    assert Printer(like_str=True).text(name, message) == expected


@given(named_messages((*SHELLS, "NodeDef", "CheckpointState")))
@settings(max_examples=300, deadline=None)
def test_streamed_text_is_that_of_the_whole_message(case: tuple[str, Any]) -> None:
    name, message = case
    assert written(name, message.SerializeToString()) == as_tensorflow_writes(name, message)


@given(st.sampled_from(SHELLS).flatmap(lambda name: st.tuples(st.just(name), messages(name), messages(name))))
@settings(max_examples=200, deadline=None)
def test_a_shell_in_parts_prints_as_their_sum(case: tuple[str, Any, Any]) -> None:
    name, first, second = case
    wire = first.SerializeToString() + second.SerializeToString()
    assert written(name, wire) == as_tensorflow_writes(name, message_class(name).FromString(wire))


@given(named_messages())
@settings(max_examples=200, deadline=None)
def test_out_and_in_again_changes_nothing(case: tuple[str, Any]) -> None:
    name, message = case
    wire = message.SerializeToString(deterministic=True)
    text = written(name, wire)
    assume("nan" not in text)  # text keeps no more of a NaN than that it is one
    assert canonical(name, text_to_wire(text, name)) == wire
