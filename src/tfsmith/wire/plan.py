"""`WritePlan`: what will be written, with its size known before the first byte goes out.

A length comes before the bytes that it counts, and the bytes may be gigabytes in another file. So a message
is first planned as a list of literal bytes and spans, and only then streamed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tfsmith.storage.sink import Sink
from tfsmith.storage.span import Span

__all__ = ["Stream", "WritePlan", "encode_field", "encode_varint", "tag"]


class Stream(Protocol):
    """Bytes of a known number that are made while they are written."""

    def __len__(self) -> int:
        """How many there are; known without making them."""
        ...

    def chunks(self) -> Iterator[bytes]:
        """The bytes, piece by piece; exactly as many as `len` says."""
        ...


def encode_varint(value: int) -> bytes:
    """A varint; negative numbers take ten bytes, as protobuf writes them."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int = 2) -> bytes:
    """The tag of a field."""
    return encode_varint(number << 3 | wire_type)


def encode_field(number: int, payload: bytes) -> bytes:
    """A length-delimited field: tag, length, payload."""
    size = len(payload)
    if size < 0x80 and number < 0x10:
        return bytes((number << 3 | 2, size)) + payload
    return tag(number) + encode_varint(size) + payload


_SHORT = 1 << 10
"""Literal bytes up to this size become one part with their neighbours."""


class WritePlan:
    """Ordered literal bytes, spans and streams of a known total size. Nothing is read until it is written."""

    __slots__ = ("_parts", "size")

    def __init__(self) -> None:
        self._parts: list[bytes | Span | Stream] = []
        self.size = 0

    def add(self, part: bytes | Span | Stream) -> None:
        """Adds bytes, or a span or stream that will be copied. Joins neighbours: spans of one file, short bytes."""
        size = len(part)
        if not size:
            return
        self.size += size
        last = self._parts[-1] if self._parts else None
        if isinstance(part, bytes):
            if isinstance(last, bytes) and len(last) + size <= _SHORT:
                self._parts[-1] = last + part
            else:
                self._parts.append(part)
            return
        if isinstance(part, Span) and isinstance(last, Span) and last.source is part.source and last.stop == part.start:
            self._parts[-1] = Span(part.source, last.start, part.stop)
            return
        self._parts.append(part)

    def extend(self, other: WritePlan) -> None:
        """Adds all of another plan; its own neighbours are joined already, so only its first part may be."""
        if not other._parts:
            return
        first = other._parts[0]
        self.add(first)
        self._parts.extend(other._parts[1:])
        self.size += other.size - len(first)

    def add_field(self, number: int, payload: bytes | Span | WritePlan) -> None:
        """Adds a length-delimited field: tag, length, payload."""
        if isinstance(payload, bytes):
            self.add(encode_field(number, payload))
            return
        self.add(tag(number) + encode_varint(payload.size if isinstance(payload, WritePlan) else len(payload)))
        if isinstance(payload, WritePlan):
            self.extend(payload)
        else:
            self.add(payload)

    def parts(self) -> Iterator[bytes | Span | Stream]:
        """The parts, in order."""
        return iter(self._parts)

    def write_to(self, sink: Sink) -> None:
        """Streams everything; large spans are copied inside the kernel."""
        for part in self._parts:
            if isinstance(part, Span):
                sink.write_span(part)
                continue
            size = 0
            for chunk in (part,) if isinstance(part, bytes) else part.chunks():
                sink.write(chunk)
                size += len(chunk)
            assert size == len(part), "a stream made another number of bytes than it said"

    def tobytes(self) -> bytes:
        """Everything in memory; for what is known to be small."""
        return b"".join(_bytes(part) for part in self._parts)


def _bytes(part: bytes | Span | Stream) -> bytes:
    if isinstance(part, bytes):
        return part
    return part.tobytes() if isinstance(part, Span) else b"".join(part.chunks())
