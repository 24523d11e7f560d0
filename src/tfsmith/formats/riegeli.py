"""Reads Riegeli/records files: a run of chunks, each with some records, cut by a header at every 64 KiB.

    block header, 24 bytes: hash, distance back to the chunk that it cuts, distance on to that chunk's end
    chunk header, 40 bytes: hash, data size, data hash, type (1 byte), records (7 bytes), size of the records
    chunk:                  its header, its data, and padding so that it is at least as long as it has records

Block headers stand at every multiple of 64 KiB and may cut anything, a chunk header too; sizes do not count them. A
record's position is its chunk's offset plus its index there. Numbers are little-endian, hashes are HighwayHash-64.
docs/formats/saved_model_cpb.md has the details.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Final

from tfsmith.errors import (
    ChecksumError,
    CorruptFileError,
    LimitError,
    TruncatedFileError,
    UnsupportedError,
    WrongFileError,
)
from tfsmith.formats.inflate import UNCOMPRESSED, inflate
from tfsmith.limits import MAX_FILLED_BYTES
from tfsmith.records import record
from tfsmith.storage.highwayhash import highwayhash64
from tfsmith.storage.source import from_bytes
from tfsmith.storage.span import Span
from tfsmith.wire.scan import read_varint

__all__ = ["SIGNATURE", "Chunk", "Record", "RecordFile"]

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
    """What a chunk's header says, and where the chunk stands in the file."""

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
    """Values that stand in the file as they are, cut by block headers only."""

    __slots__ = ("_begin", "_span", "_start", "size")

    def __init__(self, span: Span, begin: int, start: int, size: int) -> None:
        self._span, self._begin, self._start = span, begin, start
        self.size = size

    def pieces(self, start: int, stop: int) -> tuple[Span, ...]:
        """Some of the bytes; reads none."""
        return _between_headers(self._span, self._begin, self._start + start, self._start + stop)


class _Inflated:
    """A source of compressed values. They are undone whenever they are asked for, and kept only if `keep` is set."""

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
    """Bytes `start` to `stop` of a chunk's data; if they are compressed, their plain size stands first."""
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
