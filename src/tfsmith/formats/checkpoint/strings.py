"""How a checkpoint stores the values of string tensors: varint lengths, then the bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.errors import ChecksumError, CorruptFileError
from tfsmith.storage import Span, extend, mask
from tfsmith.wire import encode_varint, read_varint

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

__all__ = ["decode_varints", "ByteOrder", "StoredStrings", "encode_strings", "read_strings", "variant_crc"]

_MAX_BYTES = 10
_CHUNK = 1 << 20


def decode_varints(
    data: bytes | memoryview, count: int | None, *, path: str, offset: int
) -> tuple[NDArray[numpy.uint64], int]:
    """Decodes the first `count` varints of some bytes, or all of them.

    Args:
        data: The bytes.
        count: How many varints to take; with None the bytes must hold nothing else.
        path: The file, for errors.
        offset: Where the bytes are in it, for errors.

    Returns:
        The numbers, and how many bytes they took. Memory is a few times that, whatever follows.

    Raises:
        CorruptFileError: There are fewer varints, or one is longer than ten bytes.
    """
    import numpy

    wanted = len(data) if count is None else min(len(data), count * _MAX_BYTES)
    raw = numpy.frombuffer(data, numpy.uint8, wanted)
    pieces: list[NDArray[numpy.uint64]] = []
    found = used = 0
    while used < wanted and (count is None or found < count):
        window = raw[used : used + _CHUNK]
        ends = numpy.flatnonzero(window < 0x80)
        if count is not None:
            ends = ends[: count - found]
        if not ends.size:
            break
        pieces.append(_decode(window, ends, path, offset + used))
        found += ends.size
        used += int(ends[-1]) + 1
    if found < count if count is not None else used < wanted:
        raise _damaged("a run of numbers is cut off", path, offset + used)
    return (numpy.concatenate(pieces) if pieces else numpy.zeros(0, numpy.uint64)), used


def _decode(window: NDArray[numpy.uint8], ends: NDArray[Any], path: str, offset: int) -> NDArray[numpy.uint64]:
    """The varints that end at `ends`, which begin at the first byte and follow each other."""
    import numpy

    if int(ends[-1]) + 1 == ends.size:  # one byte each
        return window[: ends.size].astype(numpy.uint64)
    starts = numpy.concatenate((numpy.zeros(1, ends.dtype), ends[:-1] + 1))
    lengths = ends - starts + 1
    if int(lengths.max()) > _MAX_BYTES:
        raise _damaged("a number has over ten bytes", path, offset)
    values: NDArray[numpy.uint64] = (window[starts] & 0x7F).astype(numpy.uint64)
    for place in range(1, int(lengths.max())):
        longer = numpy.flatnonzero(lengths > place)
        values[longer] |= (window[starts[longer] + place] & 0x7F).astype(numpy.uint64) << numpy.uint64(7 * place)
    return values


def _damaged(what: str, path: str, offset: int) -> CorruptFileError:
    return CorruptFileError(what, path=path, offset=offset, remedy="the file is damaged; fetch it again")


ByteOrder = Literal["little", "big"]

_REMEDY = "the file is damaged, or comes from another step than its index; fetch the set again"
_CHECKSUM_SIZE = 4
_MAX_UINT32 = 0xFFFFFFFF


class StoredStrings:
    """A string tensor's bytes, with the lengths read and checked and the strings not yet touched."""

    __slots__ = ("_crc", "_ends", "_rest")

    def __init__(self, lengths: NDArray[numpy.uint64], crc: int, rest: Span) -> None:
        self._ends: NDArray[numpy.uint64] = lengths.cumsum(dtype="uint64")
        self._crc = crc
        self._rest = rest  # the checksum of the lengths, then the strings
        total = len(rest) - _CHECKSUM_SIZE
        is_sound = not lengths.size or (int(lengths.max()) <= total and not (self._ends[1:] < self._ends[:-1]).any())
        if not is_sound or (int(self._ends[-1]) if lengths.size else 0) != total:
            what = f"the lengths of strings do not add up to the {total} bytes that there are"
            raise CorruptFileError(what, path=rest.name, offset=rest.start, remedy=_REMEDY)

    def crc_chunks(self) -> Iterator[tuple[int, int]]:
        """Reads everything through a small buffer: the checksum so far and the bytes that it took, step by step."""
        crc = self._crc
        for chunk in self._rest.chunks():
            crc = extend(crc, chunk)
            yield crc, len(chunk)

    def values(self) -> list[bytes]:
        """The strings; copies them."""
        data = self._rest.view()[_CHECKSUM_SIZE:]
        out, start = [], 0
        for stop in self._ends.tolist():
            out.append(data[start:stop].tobytes())
            start = stop
        return out


def read_strings(span: Span, count: int, order: ByteOrder = "little") -> StoredStrings:
    """Reads the lengths of a stored string tensor and checks them; the strings come later.

    Raises:
        CorruptFileError: The lengths are cut off or do not add up.
        ChecksumError: They do not fit their checksum.
    """
    lengths, used = decode_varints(span.view(), count, path=span.name, offset=span.start)
    rest = span.sub(used, len(span))
    if len(rest) < _CHECKSUM_SIZE:
        raise CorruptFileError("the strings are cut off", path=span.name, offset=rest.start, remedy=_REMEDY)
    crc = _lengths_crc(lengths, order)
    if mask(crc) != int.from_bytes(rest.view()[:_CHECKSUM_SIZE], order):
        what = "the lengths of strings do not fit their checksum"
        raise ChecksumError(what, path=span.name, offset=span.start, remedy=_REMEDY)
    return StoredStrings(lengths, crc, rest)


def encode_strings(values: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """The stored form of some strings, piece by piece, each with the plain checksum of everything up to there."""
    import numpy

    strings = list(values)
    lengths = [len(value) for value in strings]
    crc = _lengths_crc(numpy.array(lengths, numpy.uint64), "little")
    checksum = mask(crc).to_bytes(_CHECKSUM_SIZE, "little")
    crc = extend(crc, checksum)
    yield b"".join(map(encode_varint, lengths)) + checksum, crc
    for value in strings:
        crc = extend(crc, value)
        yield value, crc


def variant_crc(span: Span, count: int) -> int:
    """The plain checksum of a stored variant tensor: per element a varint length, bytes, and a checksum so far.

    Raises:
        CorruptFileError: It is cut off.
    """
    buffer, position, crc = span.source.buffer, span.start, 0
    for _ in range(count):
        length, position = read_varint(buffer, position, span.stop, span.name)
        crc = extend(crc, length.to_bytes(8, "little"))
        element = span.sub(position - span.start, position - span.start + length + _CHECKSUM_SIZE, "a variant")
        for chunk in element.chunks():
            crc = extend(crc, chunk)
        position = element.stop
    if position != span.stop:
        raise CorruptFileError("a variant tensor goes on", path=span.name, offset=position, remedy=_REMEDY)
    return crc


def _lengths_crc(lengths: NDArray[numpy.uint64], order: ByteOrder) -> int:
    mark = "<" if order == "little" else ">"
    if not lengths.size or int(lengths.max()) <= _MAX_UINT32:
        return extend(0, lengths.astype(f"{mark}u4").tobytes())
    sizes = ((length, 4 if length <= _MAX_UINT32 else 8) for length in lengths.tolist())
    return extend(0, b"".join(length.to_bytes(size, order) for length, size in sizes))
