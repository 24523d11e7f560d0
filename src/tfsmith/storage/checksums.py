"""CRC-32C as TensorFlow stores it: masked, so that a checksum of checksums is still a good one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import google_crc32c

if TYPE_CHECKING:
    from tfsmith.storage.span import Span

__all__ = ["crc32c", "extend", "mask", "unmask", "span_crc32c", "stream_crc32c"]

_MASK_DELTA = 0xA282EAD8
_CHUNK = 1 << 20


def crc32c(data: bytes) -> int:
    """The plain checksum of some bytes."""
    return int(google_crc32c.value(data))


def extend(crc: int, data: bytes) -> int:
    """The plain checksum of what `crc` covers followed by `data`."""
    return int(google_crc32c.extend(crc, data))


def mask(crc: int) -> int:
    """Rotates right by 15 bits and adds a constant, as LevelDB's tables and TensorFlow's checkpoints do."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def unmask(masked: int) -> int:
    """The inverse of `mask`."""
    rotated = (masked - _MASK_DELTA) & 0xFFFFFFFF
    return ((rotated >> 17) | (rotated << 15)) & 0xFFFFFFFF


def span_crc32c(span: Span, crc: int = 0) -> int:
    """The plain checksum of a span's bytes, after those that `crc` covers. Reads them all, copies none."""
    if len(span) <= _CHUNK:
        return extend(crc, span.tobytes())
    import numpy  # the library takes a read-only ndarray where it refuses a memoryview

    return int(google_crc32c.extend(crc, numpy.frombuffer(span.view(), numpy.uint8)))


def stream_crc32c(span: Span, crc: int = 0) -> int:
    """As `span_crc32c`, but reads through a small buffer, so that the bytes never count as our memory."""
    for chunk in span.chunks():
        crc = extend(crc, chunk)
    return crc
