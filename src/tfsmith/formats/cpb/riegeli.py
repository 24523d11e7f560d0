"""Reads Riegeli/records files: chunks of records, compressed, each with its HighwayHash checksum."""

from __future__ import annotations

import importlib
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from operator import itemgetter
from typing import Any, Final

from tfsmith.errors import (
    ChecksumError,
    CorruptFileError,
    LimitError,
    TruncatedFileError,
    UnsupportedError,
    WrongFileError,
)
from tfsmith.formats.checkpoint import table as snappy
from tfsmith.limits import MAX_FILLED_BYTES
from tfsmith.records import record
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import read_varint

__all__ = [
    "highwayhash64",
    "BROTLI",
    "SNAPPY",
    "UNCOMPRESSED",
    "ZSTD",
    "inflate",
    "SIGNATURE",
    "Chunk",
    "Record",
    "RecordFile",
]

Lanes = tuple[int, int, int, int]

_MASK = 0xFFFFFFFFFFFFFFFF
_LOW = 0xFFFFFFFF
_MUL0: Lanes = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MUL1: Lanes = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_PACKET = struct.Struct("<4Q")

# Byte i of a pair of lanes, after the zipper, is byte _ZIPPER[i] before it; the second pair is done alike.
_ZIPPER = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)
_zip = itemgetter(*_ZIPPER, *(16 + index for index in _ZIPPER))


def highwayhash64(key: Lanes, data: bytes) -> int:
    """The 64-bit hash of some bytes under a key of four 64-bit numbers."""
    state = _State(key)
    whole = len(data) & ~31
    for packet in _PACKET.iter_unpack(memoryview(data)[:whole]):
        state.update(packet)
    if whole < len(data):
        state.update_rest(data[whole:])
    return state.finish()


class _State:
    """The four arrays; `v0` and `v1` mix, `mul0` and `mul1` multiply."""

    __slots__ = ("mul0", "mul1", "v0", "v1")

    def __init__(self, key: Lanes) -> None:
        self.mul0, self.mul1 = _MUL0, _MUL1
        self.v0 = tuple(lane ^ part for lane, part in zip(_MUL0, key, strict=True))
        self.v1 = tuple(lane ^ _swap(part) for lane, part in zip(_MUL1, key, strict=True))

    def update(self, packet: Lanes) -> None:
        """Mixes one packet in. Written out lane by lane: this is the loop that costs."""
        p0, p1, p2, p3 = packet
        a0, a1, a2, a3 = self.v0
        b0, b1, b2, b3 = self.v1
        m0, m1, m2, m3 = self.mul0
        n0, n1, n2, n3 = self.mul1
        b0 = b0 + m0 + p0 & _MASK
        b1 = b1 + m1 + p1 & _MASK
        b2 = b2 + m2 + p2 & _MASK
        b3 = b3 + m3 + p3 & _MASK
        self.mul0 = (
            m0 ^ (b0 & _LOW) * (a0 >> 32),
            m1 ^ (b1 & _LOW) * (a1 >> 32),
            m2 ^ (b2 & _LOW) * (a2 >> 32),
            m3 ^ (b3 & _LOW) * (a3 >> 32),
        )
        a0 = a0 + n0 & _MASK
        a1 = a1 + n1 & _MASK
        a2 = a2 + n2 & _MASK
        a3 = a3 + n3 & _MASK
        self.mul1 = (
            n0 ^ (a0 & _LOW) * (b0 >> 32),
            n1 ^ (a1 & _LOW) * (b1 >> 32),
            n2 ^ (a2 & _LOW) * (b2 >> 32),
            n3 ^ (a3 & _LOW) * (b3 >> 32),
        )
        z0, z1, z2, z3 = _PACKET.unpack(bytes(_zip(_PACKET.pack(b0, b1, b2, b3))))
        a0, a1, a2, a3 = self.v0 = (a0 + z0 & _MASK, a1 + z1 & _MASK, a2 + z2 & _MASK, a3 + z3 & _MASK)
        z0, z1, z2, z3 = _PACKET.unpack(bytes(_zip(_PACKET.pack(a0, a1, a2, a3))))
        self.v1 = (b0 + z0 & _MASK, b1 + z1 & _MASK, b2 + z2 & _MASK, b3 + z3 & _MASK)

    def update_rest(self, rest: bytes) -> None:
        """Mixes in the last one to 31 bytes, and how many they are."""
        size = len(rest)
        self.v0 = tuple(lane + (size << 32 | size) & _MASK for lane in self.v0)
        self.v1 = tuple(_rotate_halves(lane, size) for lane in self.v1)
        packet = bytearray(32)
        words = size & ~3
        packet[:words] = rest[:words]
        if size & 16:
            packet[28:] = rest[-4:]
        elif odd := rest[words:]:
            packet[16:19] = bytes((odd[0], odd[len(odd) >> 1], odd[-1]))
        self.update(_PACKET.unpack(packet))

    def finish(self) -> int:
        """Four more rounds on the state itself, then the sum of the first lanes."""
        for _ in range(4):
            a0, a1, a2, a3 = self.v0
            self.update((_swap(a2), _swap(a3), _swap(a0), _swap(a1)))
        return self.v0[0] + self.v1[0] + self.mul0[0] + self.mul1[0] & _MASK


def _swap(lane: int) -> int:
    """Exchanges the 32-bit halves."""
    return lane >> 32 | (lane & _LOW) << 32


def _rotate_halves(lane: int, count: int) -> int:
    """Rotates each 32-bit half left by `count`, which is below 32."""
    low, high = lane & _LOW, lane >> 32
    low = (low << count | low >> 32 - count) & _LOW
    high = (high << count | high >> 32 - count) & _LOW
    return high << 32 | low


UNCOMPRESSED, BROTLI, ZSTD, SNAPPY = 0, ord("b"), ord("z"), ord("s")
_STEP = 1 << 20  # what a decompressor may return at a time


def inflate(kind: int, pieces: Iterable[bytes | memoryview], size: int, path: str, offset: int) -> bytearray:
    """The plain bytes of a compressed run. Memory is `size` and about a megabyte.

    Args:
        kind: `BROTLI`, `ZSTD` or `SNAPPY`.
        pieces: The compressed bytes, in order.
        size: How many bytes must come out.
        path: The file that they came from, for errors.
        offset: Where they are in it, for errors.

    Raises:
        CorruptFileError: They are damaged, or hold more or less than `size` bytes.
        LimitError: `size` bytes do not fit into memory.
        UnsupportedError: The package that knows this compression is not installed.
    """
    decoders: dict[int, Callable[[Iterable[bytes | memoryview]], Iterator[bytes]]] = {
        BROTLI: _brotli,
        ZSTD: _zstd,
        SNAPPY: _snappy,
    }
    if kind not in decoders:
        what = f"compression {kind:#04x} is not known"
        raise CorruptFileError(what, path=path, offset=offset, remedy="the file is damaged; fetch it again")
    try:
        return _gather(decoders[kind](pieces), size)
    except (_Damaged, CorruptFileError) as error:
        what = f"compressed data are damaged ({error})"
        remedy = "the file is damaged; fetch it again"
        raise CorruptFileError(what, path=path, offset=offset, remedy=remedy) from error
    except _Missing as error:
        what = f"the data are compressed with {error.name}, which Python cannot undo by itself"
        raise UnsupportedError(what, path=path, offset=offset, remedy=f"pip install '{error.package}'") from error
    except MemoryError as error:
        what = f"{size} bytes of decompressed data do not fit into memory"
        raise LimitError(what, path=path, offset=offset, remedy="use a machine with more memory") from error


class _Damaged(Exception):
    """Why a run cannot be decompressed; never leaves this file."""


class _Missing(Exception):
    """A package is not there; never leaves this file."""

    def __init__(self, name: str, package: str) -> None:
        super().__init__(name)
        self.name = name
        self.package = package


def _gather(parts: Iterator[bytes], size: int) -> bytearray:
    out = bytearray(size)
    view = memoryview(out)  # a bytearray would copy each part before it takes it
    filled = 0
    for part in parts:
        stop = filled + len(part)
        if stop > size:
            raise _Damaged(f"they hold more than the {size} bytes that they claim")
        view[filled:stop] = part
        filled = stop
    if filled < size:
        raise _Damaged(f"they hold {filled} bytes, but claim {size}")
    return out


def _brotli(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    brotli = _package("brotli", "Brotli", "brotli>=1.2")
    decoder = brotli.Decompressor()
    if not hasattr(decoder, "can_accept_more_data"):  # before 1.2 nothing bounded the output of one call
        raise _Missing("Brotli", "brotli>=1.2")
    try:
        for piece in pieces:
            yield decoder.process(piece, output_buffer_limit=_STEP)
            while not decoder.can_accept_more_data():
                yield decoder.process(b"", output_buffer_limit=_STEP)
        while not decoder.is_finished() and (rest := decoder.process(b"", output_buffer_limit=_STEP)):
            yield rest  # it can accept more, and still hold back output of what it has
    except brotli.error as error:
        raise _Damaged("Brotli refuses them") from error
    if not decoder.is_finished():
        raise _Damaged("they are cut off")


def _zstd(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    try:
        zstd = importlib.import_module("compression.zstd")
    except ImportError:
        zstd = _package("backports.zstd", "Zstandard", "backports.zstd")
    decoder = zstd.ZstdDecompressor()
    try:
        for piece in pieces:
            if decoder.eof:
                raise _Damaged("bytes follow their end")
            yield decoder.decompress(piece, _STEP)
            while not decoder.eof and not decoder.needs_input:
                yield decoder.decompress(b"", _STEP)
    except zstd.ZstdError as error:
        raise _Damaged("Zstandard refuses them") from error
    if not decoder.eof or decoder.unused_data:
        raise _Damaged("bytes follow their end" if decoder.eof else "they are cut off")


def _snappy(pieces: Iterable[bytes | memoryview]) -> Iterator[bytes]:
    yield snappy.decompress(b"".join(pieces))


def _package(module: str, name: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise _Missing(name, package) from error


SIGNATURE: Final = bytes.fromhex(
    "83af70d10d884a3f 0000000000000000 4000000000000000 91bac23c9287e1a9"
    "0000000000000000 e19f13c0e9b1c372 7300000000000000 0000000000000000"
)
"""The first 64 bytes of every file: a block header and an empty chunk of type "s"."""

MAX_CHUNKS: Final = 1_000_000
"""Chunks of one file. TensorFlow writes one for each large tensor and for each megabyte of small ones."""

MAX_CHECKED: Final = 1 << 18
"""Data up to this size are checked against their hash, at about 4 MB/s; for larger ones that would take too long."""

_BLOCK, _BLOCK_HEADER = 1 << 16, 24
_USABLE = _BLOCK - _BLOCK_HEADER
_HEADER = struct.Struct("<5Q")
_KEY = (0x2F696C6567656952, 0x0A7364726F636572) * 2  # "Riegeli/" "records\n", twice
_SIMPLE, _TRANSPOSED = b"rt"
_MAX_VARINT = 10
_DAMAGED = "the file is damaged; fetch it again"


@record
class Chunk:
    """What a chunk's header says, and where the chunk is in the file."""

    begin: int
    end: int
    kind: int
    data_size: int
    data_hash: int
    records: int
    decoded_size: int


@record
class Record:
    """A record, in as many spans as block headers cut it into. A compressed one is undone each time it is read."""

    pieces: tuple[Span, ...]

    @property
    def size(self) -> int:
        """Length in bytes; no I/O."""
        return sum(map(len, self.pieces))

    def join(self) -> Span:
        """The record as one span of bytes that are there: of the file if nothing cuts it, else of memory."""
        if not self.pieces:
            return from_bytes(b"")
        first = self.pieces[0]
        name = f"{first.name} (one record)"  # offsets in it are not those of the file
        if len(self.pieces) > 1:
            return from_bytes(_joined(self.pieces), name)
        return from_bytes(first.view(), name) if isinstance(first.source, _Inflated) else first


class RecordFile:
    """The records of a file. Opening it reads the chunk headers only, some 50 microseconds each.

    Args:
        span: The whole file.

    Raises:
        WrongFileError: It is no such file.
        CorruptFileError: It is cut off, or a header does not fit its hash.
        LimitError: It has absurdly many chunks, or claims to hold absurdly much.
    """

    __slots__ = ("_begins", "_opened", "_span", "chunks")

    def __init__(self, span: Span) -> None:
        if len(span) < len(SIGNATURE) and SIGNATURE.startswith(span.tobytes()):
            raise TruncatedFileError("the file ends in its first header", path=span.name, remedy=_DAMAGED)
        if span.view()[: len(SIGNATURE)] != SIGNATURE:
            remedy = "pass a saved_model.cpb; if this is one, it is damaged"
            raise WrongFileError("this is no Riegeli file", path=span.name, offset=span.start, remedy=remedy)
        self._span = span
        self.chunks: tuple[Chunk, ...] = tuple(chunk for chunk in _walk(span) if chunk.records)
        self._begins = [chunk.begin for chunk in self.chunks]
        self._opened: dict[int, tuple[tuple[int, ...], _Values]] = {}
        held = sum(chunk.decoded_size for chunk in self.chunks)
        if held > max(len(span), MAX_FILLED_BYTES):
            raise LimitError(f"{len(span)} bytes claim to hold {held}", path=span.name, remedy=_DAMAGED)

    def record(self, position: int) -> Record:
        """The record at a position. Reads its chunk's sizes, and checks the chunk's hash if it is small.

        Raises:
            CorruptFileError: No record has that position, or its chunk is damaged.
            UnsupportedError: Its chunk is of a kind, or has a compression, that cannot be read.
        """
        at = bisect_right(self._begins, position) - 1
        index = position - self._begins[at] if at >= 0 else 0
        if at < 0 or index >= self.chunks[at].records:
            raise CorruptFileError(f"no record has position {position}", path=self._span.name, remedy=_DAMAGED)
        if at not in self._opened:
            self._opened[at] = _open(self._span, self.chunks[at])
        bounds, values = self._opened[at]
        return Record(values.pieces(bounds[index], bounds[index + 1]))

    def last(self) -> Record:
        """The last record of the file.

        Raises:
            CorruptFileError: There is none, or it is damaged.
        """
        if not self.chunks:
            raise CorruptFileError("the file holds no records", path=self._span.name, remedy=_DAMAGED)
        return self.record(self.chunks[-1].begin + self.chunks[-1].records - 1)


def _walk(span: Span) -> Iterator[Chunk]:
    """All chunks, in order, of whatever type; those without records only fill space or describe the others."""
    begin = count = 0
    while begin < len(span):
        chunk = _header(span, begin)
        yield chunk
        begin, count = chunk.end, count + 1
        if count > MAX_CHUNKS:
            what = f"there are over {MAX_CHUNKS} chunks"
            raise LimitError(what, path=span.name, offset=span.start + begin, remedy=_DAMAGED)


def _header(span: Span, begin: int) -> Chunk:
    if _after(begin, _HEADER.size) > len(span):
        raise _cut_off(span, "a chunk header", begin)
    header = _joined(_between_headers(span, begin, 0, _HEADER.size))
    stored, data_size, data_hash, packed, decoded_size = _HEADER.unpack(header)
    if highwayhash64(_KEY, header[8:]) != stored:
        what = "a chunk header does not fit its checksum"
        raise ChecksumError(what, path=span.name, offset=span.start + begin, remedy=_DAMAGED)
    kind, records = packed & 0xFF, packed >> 8
    end = max(_after(begin, _HEADER.size + data_size), _possible_end(begin + records))
    if end > len(span):
        raise _cut_off(span, f"a chunk of {end - begin} bytes", begin)
    return Chunk(begin, end, kind, data_size, data_hash, records, decoded_size)


def _cut_off(span: Span, what: str, begin: int) -> TruncatedFileError:
    text = f"{what} reaches past the end of the file, byte {span.stop}"
    remedy = "the file is cut off; fetch it again"
    return TruncatedFileError(text, path=span.name, offset=span.start + begin, remedy=remedy)


class _Plain:
    """Values that are in the file as they are, cut by block headers only."""

    __slots__ = ("_begin", "_span", "_start", "size")

    def __init__(self, span: Span, begin: int, start: int, size: int) -> None:
        self._span, self._begin, self._start = span, begin, start
        self.size = size

    def pieces(self, start: int, stop: int) -> tuple[Span, ...]:
        """Some of the bytes; reads none."""
        return _between_headers(self._span, self._begin, self._start + start, self._start + stop)


class _Inflated:
    """A source of compressed values. They are decompressed whenever they are read, and kept only if `keep` is set."""

    __slots__ = ("_keep", "_kept", "_kind", "_packed", "name", "size")

    def __init__(self, kind: int, packed: tuple[Span, ...], size: int, *, keep: bool) -> None:
        self._kind, self._packed, self._keep = kind, packed, keep
        self._kept: memoryview | None = None
        self.name = packed[0].name if packed else "<memory>"
        self.size = size

    @property
    def buffer(self) -> memoryview:
        """The plain bytes, in memory."""
        if self._kept is not None:
            return self._kept
        offset = self._packed[0].start if self._packed else 0
        views = (piece.view() for piece in self._packed)
        plain = memoryview(inflate(self._kind, views, self.size, self.name, offset)).toreadonly()
        if self._keep:
            self._kept = plain
        return plain

    def fileno(self) -> int | None:
        """There is none."""
        return None

    def pieces(self, start: int, stop: int) -> tuple[Span, ...]:
        """Some of the bytes; undoes nothing yet."""
        return (Span(self, start, stop),) if start < stop else ()


_Values = _Plain | _Inflated


def _open(span: Span, chunk: Chunk) -> tuple[tuple[int, ...], _Values]:
    """Where each record of a chunk begins and ends in the chunk's values, and these."""
    path, offset = span.name, span.start + chunk.begin
    if chunk.kind == _TRANSPOSED:
        remedy = "write the file again without Riegeli's option 'transpose'"
        raise UnsupportedError("the records are transposed", path=path, offset=offset, remedy=remedy)
    if chunk.kind != _SIMPLE:
        what = f"a chunk of type {chunk.kind:#04x} has records"
        raise UnsupportedError(what, path=path, offset=offset, remedy="a newer tfsmith may know it")
    _check_data(span, chunk)
    head_size = _HEADER.size + min(1 + _MAX_VARINT, chunk.data_size)
    head = memoryview(_joined(_between_headers(span, chunk.begin, _HEADER.size, head_size)))
    if not head:
        raise CorruptFileError("a chunk with records has no data", path=path, offset=offset, remedy=_DAMAGED)
    sizes_size, start = read_varint(head, 1, len(head), path)
    stop = start + sizes_size
    if stop > chunk.data_size:
        what = "the sizes of a chunk's records reach past its end"
        raise TruncatedFileError(what, path=path, offset=offset, remedy=_DAMAGED)
    sizes = _run(span, chunk, head[0], start, stop, keep=False)
    if sizes.size > _MAX_VARINT * chunk.records:
        what = f"the sizes of {chunk.records} records take {sizes.size} bytes"
        raise CorruptFileError(what, path=path, offset=offset, remedy=_DAMAGED)
    values = _run(span, chunk, head[0], stop, chunk.data_size, keep=chunk.records > 1)
    bounds = tuple(accumulate(_numbers(_joined(sizes.pieces(0, sizes.size)), path), initial=0))
    if len(bounds) != chunk.records + 1 or not bounds[-1] == values.size == chunk.decoded_size:
        what = f"a chunk's header claims {chunk.records} records of {chunk.decoded_size} bytes, but its data hold"
        what = f"{what} {len(bounds) - 1} sizes of {bounds[-1]} bytes and {values.size} bytes"
        raise CorruptFileError(what, path=path, offset=offset, remedy=_DAMAGED)
    return bounds, values


def _check_data(span: Span, chunk: Chunk) -> None:
    """Compares data with their hash, unless they are so large that this would take long."""
    if chunk.data_size > MAX_CHECKED:
        return
    data = _joined(_between_headers(span, chunk.begin, _HEADER.size, _HEADER.size + chunk.data_size))
    if highwayhash64(_KEY, data) != chunk.data_hash:
        what = "a chunk's data do not fit their checksum"
        raise ChecksumError(what, path=span.name, offset=span.start + chunk.begin, remedy=_DAMAGED)


def _run(span: Span, chunk: Chunk, kind: int, start: int, stop: int, *, keep: bool) -> _Values:
    """Bytes `start` to `stop` of a chunk's data; if they are compressed, their plain size comes first."""
    first = _HEADER.size + start
    if kind == UNCOMPRESSED:
        return _Plain(span, chunk.begin, first, stop - start)
    head = memoryview(_joined(_between_headers(span, chunk.begin, first, first + min(_MAX_VARINT, stop - start))))
    size, used = read_varint(head, 0, len(head), span.name)
    if size > max(chunk.decoded_size, _MAX_VARINT * chunk.records):
        what = f"compressed data claim {size} bytes, more than the whole chunk"
        raise CorruptFileError(what, path=span.name, offset=span.start + chunk.begin, remedy=_DAMAGED)
    packed = _between_headers(span, chunk.begin, first + used, _HEADER.size + stop)
    return _Inflated(kind, packed, size, keep=keep)


def _numbers(data: bytes, path: str) -> Iterator[int]:
    view, position = memoryview(data), 0
    while position < len(view):
        value, position = read_varint(view, position, len(view), path)
        yield value


def _joined(pieces: tuple[Span, ...]) -> bytes:
    return b"".join(piece.view() for piece in pieces)


def _between_headers(span: Span, begin: int, start: int, stop: int) -> tuple[Span, ...]:
    """Bytes `start` to `stop` of the chunk at `begin`, its header counted and block headers left out."""
    position, left = _after(begin, start), stop - start
    pieces = []
    while left > 0:
        position += max(_BLOCK_HEADER - position % _BLOCK, 0)
        taken = min(_BLOCK - position % _BLOCK, left)
        pieces.append(span.sub(position, position + taken, "a chunk"))
        position, left = position + taken, left - taken
    return tuple(pieces)


def _after(begin: int, size: int) -> int:
    """Where `size` bytes that begin at `begin` end in the file, with the block headers between them."""
    return begin + size + (size + (begin + _USABLE - 1) % _BLOCK) // _USABLE * _BLOCK_HEADER


def _possible_end(position: int) -> int:
    """The next position at which a chunk may end: not in a block header, nor right behind one."""
    return position + max(-position % _BLOCK - (_USABLE - 1), 0)
