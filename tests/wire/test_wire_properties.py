"""Scans and write plans: what was put in comes out, and nothing else happens to any bytes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.helpers import MemorySink

from tfsmith.errors import CorruptFileError, LimitError, TruncatedFileError
from tfsmith.storage import FileSink, Span, from_bytes, open_file
from tfsmith.wire import (
    BYTES,
    FIXED32,
    FIXED64,
    VARINT,
    WritePlan,
    as_int32,
    as_int64,
    encode_varint,
    fields,
    new,
    parse,
    read_varint,
    tag,
)

numbers = st.one_of(st.integers(1, 20), st.integers(1, 0x1FFFFFFF))
uint64 = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1))


@st.composite
def raw_fields(draw: st.DrawFn) -> tuple[int, int, int, bytes, bytes]:
    """A field: number, wire type, value of a varint, payload, all of its bytes."""
    number, wire_type = draw(numbers), draw(st.sampled_from([VARINT, FIXED64, BYTES, FIXED32]))
    value = draw(uint64) if wire_type == VARINT else 0
    if wire_type == VARINT:
        payload = encode_varint(value)
    elif wire_type == BYTES:
        payload = draw(st.binary(max_size=300))
    else:
        payload = draw(st.binary(min_size=4 if wire_type == FIXED32 else 8, max_size=4 if wire_type == FIXED32 else 8))
    length = encode_varint(len(payload)) if wire_type == BYTES else b""
    return number, wire_type, value, payload, tag(number, wire_type) + length + payload


@settings(max_examples=100, deadline=None)
@given(st.lists(raw_fields(), max_size=12), st.binary(max_size=5), st.binary(max_size=5))
def test_fields_joined_again_are_the_message(found: list[Any], before: bytes, after: bytes) -> None:
    data = b"".join(whole for *_, whole in found)
    span = from_bytes(before + data + after).sub(len(before), len(before) + len(data))
    scanned = list(fields(span))
    buffer = bytes(span.source.buffer)
    assert [(f.number, f.wire_type, f.value, buffer[f.start : f.stop]) for f in scanned] == [f[:4] for f in found]
    assert b"".join(buffer[f.tag_start : f.stop] for f in scanned) == data


@settings(max_examples=100, deadline=None)
@given(st.lists(raw_fields(), min_size=1, max_size=8), st.data())
def test_every_cut_is_found(found: list[Any], choose: st.DataObject) -> None:
    wholes = [whole for *_, whole in found]
    data = b"".join(wholes)
    cut = choose.draw(st.integers(0, len(data) - 1))
    ends = {sum(map(len, wholes[:count])) for count in range(len(wholes))}
    span = from_bytes(data[:cut], "f.pb")
    if cut in ends:
        assert sum(f.stop - f.tag_start for f in fields(span)) == cut
        return
    with pytest.raises(TruncatedFileError, match=r"f\.pb, byte \d+") as caught:
        list(fields(span))
    assert caught.value.offset is not None
    assert caught.value.offset <= cut
    assert caught.value.remedy is not None


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60))
def test_random_bytes_raise_nothing_else(data: bytes) -> None:
    try:
        for found in fields(from_bytes(data)):
            assert 0 <= found.tag_start < found.start <= found.stop <= len(data)
    except CorruptFileError as error:
        assert error.offset is not None  # noqa: PT017


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x01", "byte 0: field number 0 cannot be"),
        (b"\x08\x01\x0b", "byte 2: wire type 3 cannot be"),
        (b"\x0c", "byte 0: wire type 4 cannot be"),
        (b"\x0f", "byte 0: wire type 7 cannot be"),
        (b"\x08" + b"\xff" * 10 + b"\x01", "byte 1: a number has over ten bytes"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "claims 18446744073709551615 bytes, but only 0 are left"),
        (b"\xff\xff\xff\xff\xff\x01\x00", "cannot be"),
    ],
)
def test_messages_of_errors(data: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        list(fields(from_bytes(data)))


@given(st.integers(-(2**63), 2**63 - 1))
def test_varints_come_back(value: int) -> None:
    data = encode_varint(value)
    read, end = read_varint(memoryview(data), 0, len(data), "f")
    assert end == len(data)
    assert as_int64(read) == value
    assert len(data) == (10 if value < 0 else max(1, (value.bit_length() + 6) // 7))
    message = new("AttrValue")
    message.i = value
    assert message.SerializeToString() == b"\x18" + data


@given(st.integers(-(2**63), 2**63 - 1))
def test_narrow_numbers_are_cut_as_protobuf_cuts_them(value: int) -> None:
    message = parse("AttrValue", b"\x30" + encode_varint(value))  # `type`, an enum
    assert as_int32(value & 0xFFFFFFFFFFFFFFFF) == message.type


def test_long_forms_of_a_varint_are_read() -> None:
    data = b"\x88\x80\x00" + b"\x85\x80\x80\x00"
    [found] = fields(from_bytes(data))
    assert (found.number, found.value) == (1, 5)


# Plans: nested lists of bytes and spans


@st.composite
def plans(draw: st.DrawFn, source: Span) -> tuple[WritePlan, bytes]:
    """A plan and what it must write."""
    plan, expected = WritePlan(), b""
    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(["bytes", "span", "field", "plan", "extend"]))
        data = draw(st.binary(max_size=200))
        start = draw(st.integers(0, len(source)))
        span = source.sub(start, draw(st.integers(start, len(source))))
        inner = WritePlan()
        inner.add(span)
        inner.add(data)
        if kind == "bytes":
            plan.add(data)
            expected += data
        elif kind == "span":
            plan.add(span)
            expected += span.tobytes()
        elif kind == "extend":
            plan.extend(inner)
            expected += span.tobytes() + data
        else:
            payload = data if kind == "field" else inner
            plan.add_field(3, payload)
            want = data if kind == "field" else span.tobytes() + data
            expected += b"\x1a" + encode_varint(len(want)) + want
    return plan, expected


SOURCE = from_bytes(bytes(range(256)) * 3)


@settings(max_examples=80, deadline=None)
@given(plans(SOURCE))
def test_plans_know_their_size_and_write_it(made: tuple[WritePlan, bytes]) -> None:
    plan, expected = made
    sink = MemorySink()
    plan.write_to(sink)
    assert plan.tobytes() == sink.data == expected
    assert plan.size == len(expected)
    assert all(len(part) for part in plan.parts())


@settings(max_examples=30, deadline=None)
@given(cuts=st.lists(st.integers(0, len(SOURCE)), max_size=8))
def test_neighbours_in_a_file_become_one(cuts: list[int]) -> None:
    places = sorted({0, *cuts, len(SOURCE)})
    plan = WritePlan()
    for start, stop in pairwise(places):
        plan.add(SOURCE.sub(start, stop))
    assert len(list(plan.parts())) == 1
    assert plan.tobytes() == SOURCE.tobytes()


def test_plan_of_large_spans_goes_to_a_file(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    (tmp_path / "in").write_bytes(data)
    plan = WritePlan()
    plan.add_field(8, open_file(tmp_path / "in"))
    plan.add(b"end")
    with FileSink(tmp_path / "out") as sink:
        plan.write_to(sink)
    assert (tmp_path / "out").read_bytes() == b"\x42" + encode_varint(len(data)) + data + b"end"


# Messages


def test_messages_are_parsed_or_refused() -> None:
    assert parse("NodeDef", b"\x0a\x01a").name == "a"
    with pytest.raises(CorruptFileError, match="f, byte 0: NodeDef cannot be decoded"):
        parse("NodeDef", from_bytes(b"\x0a\x05a", "f"))
    with pytest.raises(CorruptFileError, match="the thing cannot be decoded"):
        parse("NodeDef", b"\x0a\x01\xff", "the thing")
    deep = b""
    for _ in range(200):
        deep = b"\x52" + encode_varint(len(_func(deep))) + _func(deep)
    with pytest.raises(CorruptFileError):
        parse("AttrValue", deep)


def _func(inner: bytes) -> bytes:
    entry = b"\x0a\x01k\x12" + encode_varint(len(inner)) + inner
    return b"\x12" + encode_varint(len(entry)) + entry


class _Huge:
    name = "huge.pb"
    size = 2**31

    def fileno(self) -> int | None:
        return None

    @property
    def buffer(self) -> memoryview:
        raise AssertionError("it was read")


def test_message_over_two_gibibytes_is_refused_unread() -> None:
    with pytest.raises(LimitError, match=r"huge\.pb, byte 0: GraphDef is over 2 GiB"):
        parse("GraphDef", Span(_Huge(), 0, 2**31))
