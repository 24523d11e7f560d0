from __future__ import annotations

import hashlib
import random
import sys
from collections.abc import Iterable

import pytest
from tests.support.riegeli_files import BLOCK, RiegeliWriter, simple_data

from tfsmith.errors import ChecksumError, CorruptFileError, LimitError, UnsupportedError, WrongFileError
from tfsmith.formats.cpb import riegeli
from tfsmith.formats.cpb.riegeli import SIGNATURE, Record, RecordFile, highwayhash64, inflate
from tfsmith.storage import from_bytes
from tfsmith.wire import encode_varint

# What google/highwayhash gives for bytes 0, 1, 2, ... under the key of bytes 0 to 31.
KNOWN_HASHES = {
    0: 0x907A56DE22C26E53, 1: 0x7EAB43AAC7CDDD78, 3: 0x5C6BEFAB8A463D80, 4: 0xF205A46893007EDA,
    7: 0x4D02AE1738F59482, 15: 0x40793F86A449F33B, 16: 0xCFAB3489F97EB832, 17: 0x19FE67D2C8C5C0E2,
    18: 0x04DD90A69C565CC2, 19: 0x75D9518E2371C504, 21: 0x0264432CCD8A70E0, 31: 0x9FC7007CCF035A68,
    32: 0xA0C964D9ECD580FC, 33: 0x2C90F73CA03181FC, 63: 0xAB8EEBE9BF2139A0, 64: 0x75542C5D4CD2A6FF,
    100: 0x7E42CC4F1EF90033,
}  # fmt: skip

# Chunks that Riegeli's own writer made, as they follow the signature: "hello" 20 times and an empty record, then (but
# for Snappy) 200000 times "x" and "last".
REAL = {
    "brotli": "b721c7538d56d1d918000000000000002253260aff6ba531720200000000000064000000000000006207028b0080640003641b"
    "63000024006a10c0aaf09c9e0143193199f084fab82300000000000000547214975ecde98d7202000000000000440d0300000000006209"
    "048b0180c09a0c0403c49a0c5b430d034060030e88f3ace112e5b140e6130c9c34",
    "zstd": "33ebca41638ad4df240000000000000084804ad397d3c997720200000000000064000000000000007a0c0228b52ffd2002110000"
    "64006428b52ffd20646500002868656c6c6f01008ca96801849acb139eb64f8e3600000000000000568023b1f7773b1772020000000000"
    "00440d0300000000007a0e0428b52ffd2004210000c09a0c04c49a0c28b52ffd00505400001078780100fbff39c0026d000028786c6173"
    "7401003c0d391002",
    "snappy": "884d814f29f864a215000000000000004b116e6a290654c1720200000000000064000000000000007305020204640064641068"
    "656c6c6ffe05007a0500",
    "transpose": "7f6fecd6bc663b754400000000000000acca19f5ed999b11740200000000000064000000000000007a170d28b52ffd200d69"
    "00000202160b6401020103000200016428b52ffd20646500002868656c6c6f01008ca968010128b52ffd2001090000640028b52ffd2000"
    "010000",
}


def opened(data: bytes | bytearray) -> RecordFile:
    return RecordFile(from_bytes(bytes(data), "some.cpb"))


def contents(file: RecordFile) -> list[bytes]:
    positions = [chunk.begin + index for chunk in file.chunks for index in range(chunk.records)]
    return [file.record(position).join().tobytes() for position in positions]


@pytest.mark.parametrize("size", KNOWN_HASHES)
def test_the_hash_is_highwayhash(size: int) -> None:
    lane = (0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1716151413121110, 0x1F1E1D1C1B1A1918)
    assert highwayhash64(lane, bytes(range(size))) == KNOWN_HASHES[size]


def test_the_writer_of_these_tests_writes_what_riegeli_writes() -> None:
    writer = RiegeliWriter()
    assert writer.data == SIGNATURE
    for record in (b"hello" * 20, b"", b"x" * 200_000, b"last"):
        writer.records([record])
    real = "74c696a0022e811af9f033d06b58427370f959cb717c65c0b5c1097cfcbcee26"  # of a file by Riegeli's own writer
    assert hashlib.sha256(writer.data).hexdigest() == real
    assert contents(opened(writer.data)) == [b"hello" * 20, b"", b"x" * 200_000, b"last"]


@pytest.mark.parametrize(("name", "package"), [("brotli", "brotli"), ("zstd", "zstd"), ("snappy", None)])
def test_reads_what_riegeli_compressed(name: str, package: str | None) -> None:
    if package == "zstd" and sys.version_info < (3, 14):
        package = "backports.zstd"
    if package is not None and package != "zstd":
        pytest.importorskip(package)
    expected = [b"hello" * 20, b""] if name == "snappy" else [b"hello" * 20, b"", b"x" * 200_000, b"last"]
    assert contents(opened(SIGNATURE + bytes.fromhex(REAL[name]))) == expected


@pytest.mark.slow
@pytest.mark.parametrize("size", [1 << 20, 3_000_000, 1 << 22])
@pytest.mark.parametrize("name", ["brotli", "zstd"])
def test_large_compressed_records_come_out_whole(name: str, size: int) -> None:
    if name == "zstd":
        package = pytest.importorskip("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    else:
        package = pytest.importorskip(name)
    for record in (bytes(size), random.Random(size).randbytes(200_000) * (size // 200_000)):
        packed = package.compress(record)
        pieces = [packed[at : at + BLOCK] for at in range(0, len(packed), BLOCK)]
        assert inflate(ord(name[0]), pieces, len(record), "some.cpb", 0) == record
        assert inflate(ord(name[0]), [packed], len(record), "some.cpb", 0) == record
        for wrong in ([*pieces[:-1], pieces[-1][:-1]], [*pieces, b"more"], pieces[1:]):
            with pytest.raises(CorruptFileError):
                inflate(ord(name[0]), wrong, len(record), "some.cpb", 0)
        for claimed in (len(record) - 1, len(record) + 1, 0):
            with pytest.raises(CorruptFileError):
                inflate(ord(name[0]), pieces, claimed, "some.cpb", 0)


@pytest.mark.parametrize(
    ("name", "module", "command"),
    [("brotli", "brotli", "pip install 'brotli>=1.2'"), ("zstd", "backports.zstd", "pip install 'backports.zstd'")],
)
def test_a_missing_package_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, command: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    with pytest.raises(UnsupportedError) as caught:
        opened(SIGNATURE + bytes.fromhex(REAL[name])).record(64)
    assert caught.value.remedy == command
    assert "\n" not in str(caught.value)


def test_transposed_records_are_refused() -> None:
    file = opened(SIGNATURE + bytes.fromhex(REAL["transpose"]))
    with pytest.raises(UnsupportedError, match="transposed") as caught:
        file.record(64)
    assert caught.value.remedy is not None


def test_another_file_is_told_apart_from_a_damaged_one() -> None:
    with pytest.raises(WrongFileError, match="no Riegeli file"):
        opened(b"\x08\x01\x12\x00" * 40)


@pytest.mark.parametrize("gap", [0, 1, 8, 23, 24, 25, 39, 40, 41, 42, 44, 45, 46, 47, 60, 76, 77, 78])
def test_block_headers_may_cut_anything(gap: int) -> None:
    """The second chunk begins `gap` bytes before a block's end: in its header, its sizes, its values, or not at all."""
    writer = RiegeliWriter()
    first = b"a" * (BLOCK - 64 - 40 - 5 - gap)
    records = [b"bc", b"", b"d" * 30]
    writer.records([first])
    assert BLOCK - gap == len(writer.data)
    positions = writer.records(records)
    last = b"e" * 100
    writer.records([last])
    file = opened(writer.data)
    assert contents(file) == [first, *records, last]
    assert file.record(positions[2]).join().tobytes() == records[2]
    assert file.last().join().tobytes() == last


def test_plain_records_stay_spans_of_the_file() -> None:
    writer = RiegeliWriter()
    small, large = writer.records([b"small"])[0], writer.records([b"z" * 2 * BLOCK])[0]
    span = from_bytes(bytes(writer.data))
    file = RecordFile(span)
    assert file.record(small).join().source is span.source
    pieces = file.record(large).pieces
    assert len(pieces) == 3
    assert all(piece.source is span.source for piece in pieces)
    assert all(piece.start // BLOCK == (piece.stop - 1) // BLOCK for piece in pieces)


def test_compressed_records_are_undone_only_when_read(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(kind: int, pieces: Iterable[bytes | memoryview], size: int, path: str, offset: int) -> bytearray:
        calls.append(size)
        return inflate(kind, pieces, size, path, offset)

    monkeypatch.setattr(riegeli, "inflate", counted)
    file = opened(SIGNATURE + bytes.fromhex(REAL["snappy"]))
    assert calls == []
    record = file.record(64)
    assert (record.size, calls) == (100, [2])  # only the sizes of the two records
    record.join()
    file.record(64).join()
    assert calls == [2, 100]  # a chunk of several records is kept


def test_chunks_without_records_are_passed_over() -> None:
    writer = RiegeliWriter()
    writer.chunk("m", b"whatever describes the records")
    writer.records([b"one"])
    writer.chunk("p", bytes(70_000))
    writer.chunk("s")
    writer.records([b"two"])
    writer.chunk("p")
    file = opened(writer.data)
    assert contents(file) == [b"one", b"two"]
    assert file.last().join().tobytes() == b"two"


@pytest.mark.parametrize(("claimed", "ends"), [(-1, -1), (0, 0), (1, 25), (24, 25), (25, 25), (26, 26)])
def test_a_chunk_is_as_long_as_it_has_records(claimed: int, ends: int) -> None:
    """So that each has a position; but a chunk ends neither in a block header nor right behind one."""
    writer = RiegeliWriter()
    count = BLOCK + claimed - len(writer.data)
    data = simple_data([b""] * count, ord("s"), snappy_zeros)
    assert len(data) < 4000
    begin = writer.chunk("r", data, count, 0)
    assert writer.records([b"end"]) == [BLOCK + ends]
    file = opened(writer.data)
    assert file.record(begin + count - 1) == Record(())
    assert file.last().join().tobytes() == b"end"


def snappy_zeros(data: bytes) -> bytes:
    """Zeros as Snappy packs them: one, and copies of it."""
    assert not any(data)
    lengths = [min(64, len(data) - at) for at in range(1, len(data), 64)]
    first = b"\x00\x00" if data else b""
    return encode_varint(len(data)) + first + b"".join(bytes((length - 1 << 2 | 2, 1, 0)) for length in lengths)


def test_positions_between_records_are_refused() -> None:
    writer = RiegeliWriter()
    begin = writer.records([b"one", b"two"])[0]
    file = opened(writer.data)
    for position in (0, begin - 1, begin + 2, len(writer.data), 1 << 63):
        with pytest.raises(CorruptFileError, match="no record has position"):
            file.record(position)


def test_a_file_without_records_has_no_last_one() -> None:
    with pytest.raises(CorruptFileError, match="no records"):
        opened(SIGNATURE).last()


def test_damage_is_found_by_the_hashes() -> None:
    writer = RiegeliWriter()
    begin = writer.records([b"some record"])[0]
    header, data = bytearray(writer.data), bytearray(writer.data)
    header[begin + 20] ^= 1
    data[-1] ^= 1
    with pytest.raises(ChecksumError, match="header") as caught:
        opened(header)
    assert caught.value.offset == begin
    with pytest.raises(ChecksumError, match="data"):
        opened(data).record(begin)


def test_absurd_claims_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RiegeliWriter()
    writer.chunk("r", b"b\0\0", 1, 1 << 40)
    with pytest.raises(LimitError, match="claim to hold"):
        opened(writer.data)
    monkeypatch.setattr(riegeli, "MAX_CHUNKS", 10)
    writer = RiegeliWriter()
    for _ in range(11):
        writer.chunk("p")
    with pytest.raises(LimitError, match="over 10 chunks"):
        opened(writer.data)
