from __future__ import annotations

import pytest
from tests.support.table_files import GOLDEN_INDEX, block, entry, place, raw_table, snappy_compress, table

from tfsmith.errors import ChecksumError, CorruptFileError, TruncatedFileError
from tfsmith.formats.checkpoint.table import SortedTable, TableWriter
from tfsmith.storage import from_bytes

ENTRIES = [(b"", b"head")] + [(b"layer_%03d/kernel" % number, b"v" * (number % 7)) for number in range(200)]


def read(data: bytes) -> list[tuple[bytes, bytes]]:
    return list(SortedTable(from_bytes(data, "t.index")).entries())


def test_reads_and_writes_a_table_of_tensorflow() -> None:
    entries = read(GOLDEN_INDEX)
    assert [key for key, _ in entries] == [
        b"",
        b"\x00part\x00\x01\x01\x02\x80\x83\x80\x82",
        b"\x00part\x00\x01\x01\x02\x83\x81\x80\x82",
        b"layer/bias",
        b"layer/kernel",
        b"part",
        b"step",
        b"words",
    ]
    assert entries[0][1] == bytes.fromhex("08011a020801")
    assert table(entries) == GOLDEN_INDEX


@pytest.mark.parametrize("block_size", [1, 64, 1000, 262144])
@pytest.mark.parametrize("restart_interval", [1, 3, 16])
def test_reads_back_what_it_writes(block_size: int, restart_interval: int) -> None:
    data = table(ENTRIES, block_size=block_size, restart_interval=restart_interval)
    found = SortedTable(from_bytes(data))
    assert list(found.entries()) == ENTRIES
    assert [(key, span.tobytes()) for key, span in found.spans()] == ENTRIES
    assert [(key, found.get(key)) for key, _ in ENTRIES] == ENTRIES


def test_what_is_not_there_is_not_found() -> None:
    found = SortedTable(from_bytes(table(ENTRIES[1:], block_size=100)))
    for key in (b"", b"a", b"layer_003", b"layer_003/kernel\x00", b"layer_0035", b"layer_199/kernem", b"\xff" * 9):
        assert found.find(key) is None
    assert SortedTable(from_bytes(table([]))).find(b"") is None
    assert read(table([])) == []


def test_values_are_spans_of_the_file_itself() -> None:
    data = table(ENTRIES, block_size=100)
    source = from_bytes(data)
    for key, span in SortedTable(source).spans():
        assert span.source is source.source
        assert data[: span.start].endswith(key[-1:])


def test_a_table_may_lie_inside_of_a_file() -> None:
    data = b"before" + table(ENTRIES) + b"behind"
    assert list(SortedTable(from_bytes(data).sub(6, len(data) - 6)).entries()) == ENTRIES


def test_a_large_value_gets_a_block_of_its_own_and_is_not_copied() -> None:
    large = bytes(range(256)) * 40_000
    entries = [(b"a", b"1"), (b"b", large), (b"c", b"2")]
    data = table(entries)
    assert read(data) == entries
    found = SortedTable(from_bytes(data)).find(b"b")
    assert found is not None
    assert found.tobytes() == large
    assert data[found.start : found.stop] == large


def test_compressed_blocks() -> None:
    plain = block(b"".join(entry(0, key, value) for key, value in ENTRIES))
    data = raw_table([(b"z", snappy_compress(plain))], kind=1)
    assert len(data) < len(plain)
    assert read(data) == ENTRIES
    assert SortedTable(from_bytes(data)).get(b"layer_005/kernel") == b"v" * 5


def test_index_keys_are_short() -> None:
    entries = [(b"the quick brown fox", b"1"), (b"the who", b"2")]
    data = table(entries, block_size=1)
    assert b"the r" in data  # between the two
    assert data.count(b"the who") == 1
    assert read(data) == entries
    assert read(table([(b"\xff\xff", b"1")])) == [(b"\xff\xff", b"1")]
    assert read(table([(b"a", b"1"), (b"ab", b"2"), (b"b", b"3")], block_size=1))[1] == (b"ab", b"2")


def test_the_writer_wants_ascending_keys() -> None:
    with pytest.raises(ValueError, match="come after"):
        table([(b"b", b""), (b"a", b"")])
    with pytest.raises(ValueError, match="come after"):
        table([(b"a", b""), (b"a", b"")])


def test_the_writer_holds_one_block() -> None:
    class Counter:
        most = 0

        def write(self, data: bytes) -> None:
            self.most = max(self.most, len(data))

        def write_span(self, span: object) -> None:
            raise AssertionError

    counter = Counter()
    writer = TableWriter(counter)
    for number in range(20_000):
        writer.add(b"%08d" % number, b"x" * 100)
    writer.finish()
    assert 200_000 < counter.most < 300_000


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "too short"),
        (b"x" * 47, "too short"),
        (b"x" * 100, "mark at the end"),
        (raw_table([], index=b"\x00\x00"), "restarts"),
        (raw_table([], index=block(b"", ())), "restarts"),
        (raw_table([], index=b"\xff\xff\xff\xff"), "restarts"),
        (raw_table([], index=block(entry(0, b"a", place(0, 1 << 40)))), "behind the last"),
        (raw_table([], index=block(entry(0, b"a", place((1 << 64) - 1, 5)))), "behind the last"),
        (raw_table([], index=block(entry(0, b"a", b"\x01"))), "cut off"),
        (raw_table([], index=block(entry(0, b"a", place(0, 0) + b"x"))), "makes no sense"),
        (raw_table([(b"a", block(b"\x00\x09\x01a"))]), "past the end"),
        (raw_table([(b"a", block(b"\x00"))]), "past the end|cut off"),
        (raw_table([(b"a", block(b"\xff" * 12))]), "ten bytes|cut off"),
        (raw_table([(b"a", block(entry(1, b"a", b"")))]), "one before it"),
        (raw_table([(b"c", block(entry(0, b"a", b"") + entry(2, b"b", b"")))]), "more than there is"),
        (raw_table([(b"c", block(entry(0, b"b", b"") + entry(0, b"a", b"")))]), "ascend"),
        (raw_table([(b"c", block(entry(0, b"b", b"") + entry(1, b"", b"")))]), "ascend"),
        (raw_table([(b"b", block(entry(0, b"b", b""))), (b"c", block(entry(0, b"a", b"")))]), "block to block"),
        (raw_table([(b"a", block(entry(0, b"b", b"")))]), "behind the one that the index has"),
        (raw_table([(b"a", block(b""))], kind=2), "unknown way"),
        (raw_table([(b"a", b"\xff\xff\xff\x7f\x00a")], kind=1), "compressed block"),
    ],
)
def test_refuses_damage(data: bytes, reason: str) -> None:
    with pytest.raises(CorruptFileError, match=reason) as caught:
        read(data)
    assert caught.value.path == "t.index"
    assert caught.value.remedy


def test_every_byte_is_covered_by_a_checksum_or_a_rule() -> None:
    data = table(ENTRIES[:20], block_size=100)
    padding = range(len(data) - 48 + 6, len(data) - 8)  # the places in the footer take six bytes here
    for position in set(range(len(data))) - set(padding):
        damaged = bytearray(data)
        damaged[position] ^= 0x10
        with pytest.raises(CorruptFileError):
            read(bytes(damaged))


def test_damage_in_a_block_is_told_with_its_place() -> None:
    data = bytearray(table(ENTRIES, block_size=1000))
    data[1500] ^= 1
    with pytest.raises(ChecksumError) as caught:
        read(bytes(data))
    assert caught.value.offset is not None
    assert 900 < caught.value.offset <= 1500


def test_one_block_cannot_be_read_again_and_again() -> None:
    contents = block(entry(0, b"a", b"x"))
    index = b"".join(entry(0, b"%05d" % number, place(0, len(contents))) for number in range(1000))
    with pytest.raises(CorruptFileError, match="makes no sense"):
        SortedTable(from_bytes(raw_table([(b"z", contents)], index=block(index))))


def test_keys_cannot_grow_out_of_proportion() -> None:
    long = b"k" * 60_000
    grown = entry(0, long, b"") + b"".join(entry(60_000 + number, b"k", b"") for number in range(10_000))
    with pytest.raises(CorruptFileError, match="proportion"):
        read(raw_table([(b"l", block(grown))]))


def test_restarts_that_lie_do_no_harm() -> None:
    entries = b"".join(entry(0, key, value) for key, value in ENTRIES)
    for restarts in ([1 << 31], [0, len(entries)], [0, 3, 1], [5]):
        found = SortedTable(from_bytes(raw_table([(b"z", block(entries, restarts))])))
        with pytest.raises(CorruptFileError):
            list(map(found.get, dict(ENTRIES)))


def test_a_cut_off_table_is_refused_at_every_length() -> None:
    for size in range(len(GOLDEN_INDEX)):
        with pytest.raises(CorruptFileError) as caught:
            read(GOLDEN_INDEX[:size])
        assert isinstance(caught.value, TruncatedFileError) == (size < 48)
