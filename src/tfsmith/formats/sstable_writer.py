"""Writes sorted tables, byte for byte as TensorFlow's own table builder does without compression."""

from __future__ import annotations

from tfsmith.formats.sstable import FOOTER_SIZE, MAGIC
from tfsmith.storage.crc32c import crc32c, extend, mask
from tfsmith.storage.sink import Sink
from tfsmith.wire.plan import encode_varint

__all__ = ["TableWriter", "BLOCK_SIZE", "RESTART_INTERVAL"]

BLOCK_SIZE = 262144
RESTART_INTERVAL = 16

_NO_COMPRESSION = b"\x00"
_LARGE_ENTRY = 2
"""An entry of so many block sizes gets a block of its own."""


class TableWriter:
    """Takes entries in the order of their keys and writes them to a sink. Holds one block in memory.

    Args:
        sink: Where the table goes; it must stand at the table's first byte.
        block_size: When a block is full.
        restart_interval: How many keys may share a start before one is written in full.
    """

    def __init__(self, sink: Sink, *, block_size: int = BLOCK_SIZE, restart_interval: int = RESTART_INTERVAL) -> None:
        self._sink = sink
        self._block_size = block_size
        self._restart_interval = restart_interval
        self._offset = 0
        self._data = _BlockBuilder(restart_interval)
        self._index = _BlockBuilder(1)
        self._last_key: bytes | None = None
        self._pending: bytes | None = None
        """The place of a finished block whose index entry waits for the next key: it may then be shorter."""

    def add(self, key: bytes, value: bytes) -> None:
        """Adds an entry; its key must be behind all before it."""
        if self._last_key is not None and key <= self._last_key:
            raise ValueError(f"key {key!r} does not come after {self._last_key!r}")
        if self._last_key is not None and len(key) + len(value) >= _LARGE_ENTRY * self._block_size:
            self._flush()
        if self._pending is not None and self._last_key is not None:
            self._index.add(_separator(self._last_key, key), self._pending)
            self._pending = None
        self._last_key = key
        self._data.add(key, value)
        if self._data.size >= self._block_size:
            self._flush()

    def finish(self) -> int:
        """Writes what is left, the index and the footer; returns the size of the whole table."""
        self._flush()
        metaindex = self._write_block(_BlockBuilder(self._restart_interval).finish())
        if self._pending is not None and self._last_key is not None:
            self._index.add(_successor(self._last_key), self._pending)
        index = self._write_block(self._index.finish())
        self._write((metaindex + index).ljust(FOOTER_SIZE - 8, b"\x00") + MAGIC.to_bytes(8, "little"))
        return self._offset

    def _flush(self) -> None:
        if self._data.is_empty:
            return
        self._pending = self._write_block(self._data.finish())
        self._data = _BlockBuilder(self._restart_interval)

    def _write_block(self, contents: bytes) -> bytes:
        """Writes a block and its trailer; returns its place as the index stores it."""
        place = encode_varint(self._offset) + encode_varint(len(contents))
        checksum = mask(extend(crc32c(contents), _NO_COMPRESSION))
        self._write(contents)
        self._write(_NO_COMPRESSION + checksum.to_bytes(4, "little"))
        return place

    def _write(self, data: bytes) -> None:
        self._sink.write(data)
        self._offset += len(data)


class _BlockBuilder:
    """Gathers the entries of one block."""

    def __init__(self, restart_interval: int) -> None:
        self._restart_interval = restart_interval
        self._buffer = bytearray()
        self._restarts = [0]
        self._since_restart = 0
        self._last_key = b""

    @property
    def is_empty(self) -> bool:
        return not self._buffer

    @property
    def size(self) -> int:
        """What the block would take if it ended here."""
        return len(self._buffer) + 4 * len(self._restarts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._since_restart < self._restart_interval:
            shared = _shared(self._last_key, key)
        else:
            self._restarts.append(len(self._buffer))
            self._since_restart = 0
        self._buffer += encode_varint(shared) + encode_varint(len(key) - shared) + encode_varint(len(value))
        self._buffer += key[shared:]
        self._buffer += value
        self._last_key = key
        self._since_restart += 1

    def finish(self) -> bytes:
        numbers = [*self._restarts, len(self._restarts)]
        return bytes(self._buffer) + b"".join(number.to_bytes(4, "little") for number in numbers)


def _shared(a: bytes, b: bytes) -> int:
    """How many bytes two keys have in common at their start."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if b.startswith(a[:middle]):
            low = middle
        else:
            high = middle - 1
    return low


def _separator(last: bytes, following: bytes) -> bytes:
    """A short key that is not before `last` and is before `following`."""
    at = _shared(last, following)
    if at >= min(len(last), len(following)) or last[at] + 1 >= following[at]:
        return last
    return last[:at] + bytes((last[at] + 1,))


def _successor(last: bytes) -> bytes:
    """A short key that is not before `last`."""
    for at, byte in enumerate(last):
        if byte != 0xFF:
            return last[:at] + bytes((byte + 1,))
    return last
