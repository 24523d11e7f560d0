"""Undoes raw Snappy, the compression that table blocks of old checkpoints may have.

Format: a varint with the size of the result, then elements. The low two bits of an element's first byte tell its kind:
0 literal bytes, 1 to 3 a copy of earlier output, with an offset of 11, 16 or 32 bits.
"""

from __future__ import annotations

from tfsmith.errors import CorruptFileError
from tfsmith.limits import MAX_SNAPPY_RATIO

__all__ = ["decompress"]

_LONG_LITERAL = 60


def decompress(data: bytes, *, path: str | None = None, offset: int | None = None) -> bytes:
    """The plain bytes of one raw Snappy block. Time and memory are linear in their size.

    Args:
        data: The compressed bytes.
        path: The file that they came from, for errors.
        offset: Where they stand in it, for errors.

    Raises:
        CorruptFileError: The block is cut off, refers to what is not there, or claims more than it can hold.
    """
    try:
        return _decompress(data)
    except _BadBlock as error:
        what = f"a compressed block is damaged ({error})"
        remedy = "the file is damaged; fetch it again"
        raise CorruptFileError(what, path=path, offset=offset, remedy=remedy) from error


class _BadBlock(Exception):
    """Why a block cannot be read; never leaves this file."""


def _decompress(data: bytes) -> bytes:
    claimed, position = _size(data)
    if claimed > MAX_SNAPPY_RATIO * len(data):
        raise _BadBlock(f"{len(data)} bytes claim to hold {claimed}")
    out = bytearray()
    end = len(data)
    while position < end:
        first = data[position]
        kind = first & 3
        position += 1
        if kind == 0:
            length, position = _literal_length(data, position, first >> 2)
            if length > end - position:
                raise _BadBlock("literal bytes are cut off")
            out += data[position : position + length]
            position += length
        else:
            length, back, position = _copy(data, position, first)
            if not 0 < back <= len(out):
                raise _BadBlock("a copy starts before the block")
            _copy_earlier(out, back, length)
        if len(out) > claimed:
            raise _BadBlock(f"it holds more than the {claimed} bytes that it claims")
    if len(out) != claimed:
        raise _BadBlock(f"it holds {len(out)} bytes, but claims {claimed}")
    return bytes(out)


def _size(data: bytes) -> tuple[int, int]:
    """The size of the result, a varint of at most 32 bits, and where it ends."""
    size = 0
    for position, byte in enumerate(data[:5]):
        size |= (byte & 0x7F) << 7 * position
        if byte < 0x80:
            if size >= 1 << 32:
                break
            return size, position + 1
    raise _BadBlock("its size cannot be read")


def _literal_length(data: bytes, position: int, code: int) -> tuple[int, int]:
    """Short lengths stand in the first byte; longer ones in one to four bytes behind it. Both are stored less one."""
    if code < _LONG_LITERAL:
        return code + 1, position
    stop = position + code - _LONG_LITERAL + 1
    if stop > len(data):
        raise _BadBlock("the length of a literal is cut off")
    return int.from_bytes(data[position:stop], "little") + 1, stop


def _copy(data: bytes, position: int, first: int) -> tuple[int, int, int]:
    """Length and distance of a copy, and where the element ends."""
    kind = first & 3
    stop = position + (1, 2, 4)[kind - 1]
    if stop > len(data):
        raise _BadBlock("a copy is cut off")
    low = int.from_bytes(data[position:stop], "little")
    if kind == 1:
        return (first >> 2 & 7) + 4, (first >> 5) << 8 | low, stop
    return (first >> 2) + 1, low, stop


def _copy_earlier(out: bytearray, back: int, length: int) -> None:
    """Appends `length` bytes that start `back` before the end; where they overlap their source, it repeats."""
    start = len(out) - back
    if back >= length:
        out += out[start : start + length]
        return
    pattern = bytes(out[start:])
    out += (pattern * (length // back + 1))[:length]
