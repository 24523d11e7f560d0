"""Walks over the fields of a message without decoding them, so that what nobody needs is never read.

Wire format: a message is a run of fields; a field is a varint tag (number << 3 | wire type), then a varint (0), 8
bytes (1), a varint length and so many bytes (2), or four bytes (5). Types 3 and 4 are proto1 groups, which no
TensorFlow message uses; a file that has them is not what it claims to be.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfsmith.errors import CorruptFileError, LimitError, TruncatedFileError
from tfsmith.records import record
from tfsmith.storage.span import Span

__all__ = [
    "VARINT",
    "FIXED64",
    "BYTES",
    "FIXED32",
    "RawField",
    "fields",
    "too_many_fields",
    "read_varint",
    "as_int32",
    "as_int64",
]

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_DAMAGED = "the file is damaged or is of another kind; fetch it again"


@record
class RawField:
    """A field and its place: its tag at `tag_start`, its payload from `start` to `stop` (absolute offsets)."""

    number: int
    wire_type: int
    value: int
    """The number of a varint field; 0 for the others."""
    tag_start: int
    start: int
    stop: int


def read_varint(buffer: memoryview, position: int, stop: int, path: str) -> tuple[int, int]:
    """Reads a varint that must end before `stop`; returns its value (64 bits) and where it ends."""
    value = shift = 0
    start = position
    while True:
        if position >= stop:
            raise TruncatedFileError("a number is cut off", path=path, offset=start, remedy=_DAMAGED)
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
        if shift >= 70:
            raise CorruptFileError("a number has over ten bytes", path=path, offset=start, remedy=_DAMAGED)


def as_int64(value: int) -> int:
    """An unsigned 64-bit varint as the signed number that an int64 field means by it."""
    return value - (1 << 64) if value >= 1 << 63 else value


def as_int32(value: int) -> int:
    """An unsigned 64-bit varint as the number that an int32 or enum field means by it: its low 32 bits, signed."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def fields(span: Span, most: int | None = None) -> Iterator[RawField]:
    """The fields of the message that `span` holds, in order. Touches tags and lengths only.

    Args:
        span: The message.
        most: How many fields it may have: a field takes two bytes of a file, and a hundred times that once it is read.

    Raises:
        CorruptFileError: The bytes are no message, or a length points past its end.
        LimitError: It has more than `most` fields.
    """
    found = _fields(span)
    return found if most is None else _counted(span, found, most)


def too_many_fields(span: Span, field: RawField) -> LimitError:
    """What to raise at the first field that is too many."""
    remedy = "no real model has so many; do not trust the file"
    return LimitError("a message has too many fields", path=span.name, offset=field.tag_start, remedy=remedy)


def _counted(span: Span, found: Iterator[RawField], most: int) -> Iterator[RawField]:
    for count, field in enumerate(found):
        if count == most:
            raise too_many_fields(span, field)
        yield field


def _fields(span: Span) -> Iterator[RawField]:
    buffer, path = span.source.buffer, span.name
    position, stop = span.start, span.stop
    while position < stop:
        tag_start = position
        tag = buffer[position]
        position += 1
        if tag >= 0x80:  # most tags and lengths take one byte
            tag, position = read_varint(buffer, tag_start, stop, path)
        number, wire_type = tag >> 3, tag & 7
        value = 0
        start = position
        if number == 0 or number > 0x1FFFFFFF:
            raise CorruptFileError(f"field number {number} cannot be", path=path, offset=tag_start, remedy=_DAMAGED)
        if wire_type == BYTES:
            length, start = (buffer[position], position + 1) if position < stop else (0x80, position)
            if length >= 0x80:
                length, start = read_varint(buffer, position, stop, path)
            position = start + length
        elif wire_type == VARINT:
            value, position = read_varint(buffer, position, stop, path)
        elif wire_type == FIXED32:
            position += 4
        elif wire_type == FIXED64:
            position += 8
        else:
            raise CorruptFileError(f"wire type {wire_type} cannot be", path=path, offset=tag_start, remedy=_DAMAGED)
        if position > stop:
            what = f"field {number} claims {position - start} bytes, but only {max(stop - start, 0)} are left"
            raise TruncatedFileError(what, path=path, offset=tag_start, remedy="the file is cut off; fetch it again")
        yield RawField(number, wire_type, value, tag_start, start, position)
