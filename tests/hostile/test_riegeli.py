"""Damaged and malicious `.cpb` files: every one ends in a `TfsmithError`, or in a message, and soon."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.riegeli_files import BLOCK, BYTES, CONTENT, GRAPH, KEY, Parts, RiegeliWriter, Tag, simple_data, split

from tfsmith.errors import CorruptFileError, LimitError, TfsmithError, TruncatedFileError
from tfsmith.formats.cpb import chunked
from tfsmith.formats.cpb.chunked import plan_chunked, read_chunked
from tfsmith.formats.cpb.riegeli import highwayhash64
from tfsmith.storage import from_bytes
from tfsmith.wire import new


def model(content: int = 60) -> Any:
    message = new("SavedModel")
    graph = message.meta_graphs.add().graph_def
    for index in range(4):
        node = graph.node.add(name=f"n{index}", op="Const")
        node.attr["value"].tensor.tensor_content = b"c" * content
    graph.library.function.add().signature.name = "f"
    return message


def good(content: int = 60) -> bytes:
    return split(model(content), constant=50, run=2).file()


def read(data: bytes | bytearray) -> None:
    """Reads a file that is likely bad; anything but a result or a `TfsmithError` fails the test."""
    try:
        read_chunked(from_bytes(bytes(data), "bad.cpb"))
    except TfsmithError as error:
        assert error.path is not None  # noqa: PT017  # other errors must pass through
        assert error.remedy is not None  # noqa: PT017


def refused(data: bytes, kind: type[TfsmithError] = CorruptFileError, match: str | None = None) -> None:
    with pytest.raises(kind, match=match) as caught:
        read_chunked(from_bytes(data, "bad.cpb"))
    assert caught.value.path is not None
    assert caught.value.remedy is not None


def test_cut_off_anywhere() -> None:
    """Right behind a chunk too, where what is left is a sound file with another last record."""
    data = good()
    for size in range(len(data)):
        with pytest.raises(TfsmithError) as caught:
            read_chunked(from_bytes(data[:size], "bad.cpb"))
        assert isinstance(caught.value, CorruptFileError)


def test_cut_off_in_later_blocks() -> None:
    data = good(BLOCK)
    assert len(data) > 4 * BLOCK
    edges = [block * BLOCK + offset for block in range(1, 5) for offset in (-40, -1, 0, 1, 23, 24, 25, 64)]
    for size in edges:
        refused(data[:size])


def test_flipped_bytes_are_found() -> None:
    """All of a small file is under one hash or another, but for block headers, of which only the first matters."""
    data = good()
    for at in range(len(data)):
        for mask in (0x01, 0x80):
            bad = bytearray(data)
            bad[at] ^= mask
            with pytest.raises(TfsmithError):
                read_chunked(from_bytes(bytes(bad), "bad.cpb"))


def resealed(data: bytearray) -> bytearray:
    """Makes the hashes of the chunks fit again, as far as the headers can be followed."""
    begin = 0
    while begin < len(data):
        start = begin + 24 if begin % BLOCK == 0 else begin
        if start + 40 > len(data):
            return data
        size = struct.unpack_from("<Q", data, start + 8)[0]
        body = bytes(data[start + 40 : start + 40 + size])
        struct.pack_into("<Q", data, start + 16, highwayhash64(KEY, body))
        struct.pack_into("<Q", data, start, highwayhash64(KEY, bytes(data[start + 8 : start + 40])))
        records = struct.unpack_from("<Q", data, start + 24)[0] >> 8
        begin = max(start + 40 + size, begin + records)
    return data


def test_flipped_bytes_under_fitting_hashes() -> None:
    data = good()
    chance = random.Random(3)
    for _ in range(1500):
        bad = bytearray(data)
        for _ in range(chance.randint(1, 3)):
            bad[chance.randrange(64, len(bad))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        read(resealed(bad))


@given(st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_any_data_in_a_chunk(data: bytes) -> None:
    for records, decoded_size in ((1, len(data)), (2, 10), (200, 3)):
        writer = RiegeliWriter()
        writer.chunk("r", data, records, decoded_size)
        read(writer.data)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_last_record(data: bytes) -> None:
    writer = RiegeliWriter()
    writer.records([b"\x08\x01"])
    writer.records([data])
    read(writer.data)


@pytest.mark.parametrize(
    ("data", "records", "decoded_size"),
    [
        (b"", 1, 0),
        (b"\0", 1, 0),
        (b"\0\x01", 1, 5),
        (b"\0\x80", 1, 5),
        (b"\0" + b"\xff" * 11, 1, 5),
        (b"\0\x01\x05abcd", 1, 5),
        (b"\0\x01\x05abcdef", 1, 5),
        (b"\0\x01\x05abcde", 2, 5),
        (b"\0\x02\x05\x00abcde", 1, 5),
        (b"\0\x7f\x05abcde", 1, 5),
        (b"\0\x01\x80abcde", 1, 5),
        (b"\0\x0b" + b"\x80" * 10 + b"\x01", 1, 0),
        (b"?\x03\x01\x05\x05abcde", 1, 5),
        (b"s\x00", 1, 0),
        (b"s\x03\x01\x05\x05abcde", 1, 5),
        (b"s\x04\x01\x01\x00\x05\xff\xff\xff\xff\x7fabcde", 1, 5),
    ],
)
def test_simple_chunks_that_contradict_themselves(data: bytes, records: int, decoded_size: int) -> None:
    writer = RiegeliWriter()
    writer.chunk("r", data, records, decoded_size)
    refused(bytes(writer.data))


def test_chunks_that_claim_too_much() -> None:
    writer = RiegeliWriter()
    writer.chunk("r", b"b\x04\x01aaa" + b"\xff" * 8 + b"\x01", 1, 1 << 62)
    refused(bytes(writer.data), LimitError)
    for records, size in ((1, 1 << 40), (1 << 50, 3), (1, (1 << 64) - 1)):
        rest = struct.pack("<QQQQ", size, 0, ord("r") | records << 8, 3)
        refused(bytes(RiegeliWriter().data) + struct.pack("<Q", highwayhash64(KEY, rest)) + rest, TruncatedFileError)


def test_a_bomb_stops_at_what_it_claims() -> None:
    brotli = pytest.importorskip("brotli")
    bomb = brotli.compress(bytes(1 << 24), quality=1)
    for claimed in (10, 1 << 20):
        writer = RiegeliWriter()
        sizes = b"\x01" + brotli.compress(b"\x0a")
        head = b"b" + bytes((len(sizes),)) + sizes
        if claimed > 10:
            sizes = b"\x03" + brotli.compress(b"\x80\x80\x40")
            head = b"b" + bytes((len(sizes),)) + sizes + b"\x80\x80\x40"
        else:
            head += b"\x0a"
        writer.chunk("r", head + bomb, 1, claimed)
        refused(bytes(writer.data), match="more than the")


@pytest.mark.parametrize("cut", [0, 1, 5, -1])
def test_compressed_data_that_are_cut_off(cut: int) -> None:
    brotli = pytest.importorskip("brotli")
    metadata = b"\x1a\x00" * 50
    writer = RiegeliWriter()
    sizes = b"\x01" + brotli.compress(b"\x64")
    body = brotli.compress(metadata)[:cut] if cut else b""
    writer.chunk("r", b"b" + bytes((len(sizes),)) + sizes + b"\x64" + body, 1, 100)
    refused(bytes(writer.data), match="damaged")


def changed(edit: Callable[[Any], None]) -> bytes:
    return split(model(), constant=50, run=2).file(edit=edit)


def test_chunk_indices_out_of_range() -> None:
    def far(metadata: Any) -> None:
        metadata.message.chunked_fields[1].message.chunk_index = 1 << 60

    def base(metadata: Any) -> None:
        metadata.message.chunk_index = len(metadata.chunks)

    refused(changed(far), match="chunk 1152921504606846976 is named, but there are only")
    refused(changed(base), match="is named, but there are only")


def test_one_chunk_named_twice() -> None:
    def twice(metadata: Any) -> None:
        metadata.message.chunked_fields[1].message.chunk_index = 0

    refused(changed(twice), match="chunk 0 is named twice")


def test_positions_and_sizes_that_do_not_fit() -> None:
    def position(metadata: Any) -> None:
        metadata.chunks[1].offset += 1

    def far(metadata: Any) -> None:
        metadata.chunks[1].offset = (1 << 64) - 1

    def size(metadata: Any) -> None:
        metadata.chunks[1].size += 1

    def total(metadata: Any) -> None:
        metadata.chunks[1].size = 1 << 60

    refused(changed(position), match="no record has position")
    refused(changed(far), match="no record has position")
    refused(changed(size), match="but should have")
    refused(changed(total), LimitError, match="claim to hold")


@pytest.mark.parametrize(
    "tags",
    [
        (99,),
        (0,),
        ((0,),),
        ("key",),
        (2,),
        (2, 2),
        (2, "key", 2),
        (2, (0,), (0,)),
        (2, (0,), 2, (0,)),
        (2, (5,), 2),
        (2, ((1 << 64) - 1,), 2),
        (1,),
        (1, 2),
        (2, (0,), 2, 1, (0,), 5),
        (2, (0,), 2, 1, (0,), 5, (0,), 8),
        (2, (0,), 2, 1, (0,), 1, 4),
        (2, (0,), 2, 1, (0,), 3),
        (2, (0,), 2, 1, (0,), 3, (9,)),
        (2, (0,), 2, 1, (0,), 3, (0,), 1),
        (2, (0,), 2, 1, (0,), 5, "value", 8, 1),
        (2, (0,), 2, 1, (0,), 5, "value", 8, 5, (0,)),
    ],
)
def test_field_tags_that_do_not_fit(tags: tuple[Tag, ...]) -> None:
    parts = split(model())
    parts.add(b"\xff\xff", tags, BYTES)
    refused(parts.file())


def test_tags_without_a_kind() -> None:
    parts = split(model())
    field = parts.message.chunked_fields.add()
    field.field_tag.add()
    refused(parts.file())
    field.field_tag[0].field = 2
    field.field_tag.add()
    refused(parts.file())
    field.field_tag[1].map_key.SetInParent()
    refused(parts.file())


def test_bytes_without_a_chunk() -> None:
    parts = split(model())
    parts.add(b"", (*GRAPH, 1, (0,), *CONTENT), BYTES).ClearField("chunk_index")
    refused(parts.file(), match="no chunk is named")


def test_chunks_that_are_no_messages() -> None:
    for garbage in (b"\xff\xff\xff", b"\x0a\x7f", b"\x0b", b"\x00", b"\x12\x05\x12\x7fabc"):
        parts = Parts(garbage)
        parts.add(b"x", (2, (0,), 2, 1, (0,), *CONTENT), BYTES)
        refused(parts.file())


def test_fields_of_another_wire_type() -> None:
    parts = Parts(b"\x10\x05")  # meta_graphs as a varint
    parts.add(b"", (2, (0,), 2))
    refused(parts.file(), match="not encoded as bytes")


def test_deep_paths() -> None:
    path: list[Tag] = [2, (0,), 2, 1, (0,), 5, "f"]
    for _ in range(5000):
        path += (10, 2, "g")  # a function of a function of a function
    parts = split(model())
    parts.add(b"", path)
    refused(parts.file(), LimitError, match="nested")


def test_deep_metadata() -> None:
    inner = b""
    for _ in range(3000):
        field = b"\x1a" + varint(len(inner)) + inner
        inner = b"\x12" + varint(len(field)) + field
    writer = RiegeliWriter()
    writer.records([b"\x1a" + varint(len(inner)) + inner])
    refused(bytes(writer.data))


def test_deep_messages_that_merge() -> None:
    """Two chunks with a StructuredValue of a TypeSpecProto of a StructuredValue, thousands of times over."""
    inner = b""
    for _ in range(3000):
        inner = b"\x12" + varint(len(inner)) + inner
        inner = b"\x92\x02" + varint(len(inner)) + inner
    path: tuple[Tag, ...] = (2, (0,), 7, 1, (0,), 6, 2, 1)
    for tags in (path, (*path, 34), (*path, 34, 2)):
        parts = split(model())
        parts.add(inner, tags)
        parts.add(inner, tags)
        read(parts.file())


def varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def test_a_huge_last_record_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunked, "MAX_SMALL_MESSAGE", 10)
    refused(good(), LimitError, match="the last record")


def test_no_memory_for_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(size: int) -> bytearray:
        raise MemoryError

    monkeypatch.setattr(chunked, "bytearray", none_left, raising=False)
    refused(good(), LimitError, match="fit into memory")


def test_the_file_of_these_tests_is_good() -> None:
    data = good()
    assert plan_chunked(from_bytes(data)).size == len(model().SerializeToString())
    assert len(simple_data([b"a"])) == 4
