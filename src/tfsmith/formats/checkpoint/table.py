"""Sorted tables, the LevelDB-like files that TensorFlow's checkpoints are made of: read and written."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from tfsmith.errors import ChecksumError, CorruptFileError, TruncatedFileError
from tfsmith.limits import MAX_SNAPPY_RATIO
from tfsmith.storage import Sink, Span, crc32c, extend, from_bytes, mask, span_crc32c
from tfsmith.wire import encode_varint, read_varint

__all__ = [
    "decompress",
    "SortedTable",
    "MAGIC",
    "FOOTER_SIZE",
    "TRAILER_SIZE",
    "TableWriter",
    "BLOCK_SIZE",
    "RESTART_INTERVAL",
]

_LONG_LITERAL = 60


def decompress(data: bytes, *, path: str | None = None, offset: int | None = None) -> bytes:
    """The plain bytes of one raw Snappy block. Time and memory are linear in their size.

    Args:
        data: The compressed bytes.
        path: The file that they came from, for errors.
        offset: Where they are in it, for errors.

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
    """Short lengths are in the first byte; longer ones in one to four bytes after it. Both are stored less one."""
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


MAGIC = 0xDB4775248B80FB57
FOOTER_SIZE = 48
TRAILER_SIZE = 5

_PLAIN, _SNAPPY = 0, 1
_SMALL_BLOCK = 1 << 22
_REMEDY = "the file is damaged or is of another kind; fetch it again"

# A key may repeat the start of the one before it for the price of a byte, so a small block could need much memory.
# Names of a thousand letters come to about a third of this.
_MAX_KEY_RATIO = 128


class SortedTable:
    """A sorted table in a span. Opening it reads the footer and the index; blocks are read and checked when needed.

    Every block's checksum is checked before anything in it is believed.
    """

    __slots__ = ("_blocks", "_bounds", "_end", "_last", "_span")

    def __init__(self, span: Span) -> None:
        """Reads the footer and the index.

        Raises:
            CorruptFileError: This is no table, or it is damaged.
        """
        self._span = span
        self._end = len(span) - FOOTER_SIZE
        self._last: tuple[int, Span] | None = None
        metaindex, index = self._footer()
        self._block(*metaindex)  # nothing is in it, but damage there should be found too
        self._bounds: list[bytes] = []
        self._blocks: list[tuple[int, int]] = []
        self._read_index(self._block(*index))

    @property
    def name(self) -> str:
        """The file's name, for messages."""
        return self._span.name

    @property
    def size(self) -> int:
        """The table's length in bytes."""
        return len(self._span)

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """All keys and values, in the order of the keys. Reads every block; holds one at a time."""
        for block, key, start, stop in self._walk():
            yield key, bytes(block[start:stop])

    def spans(self) -> Iterator[tuple[bytes, Span]]:
        """As `entries`, with each value as a span: of the file itself where the block is not compressed."""
        for (offset, size), bound, floor in self._data_blocks():
            contents = self._block(offset, size)
            for key, start, stop in _between(_Block(contents), floor, bound):
                yield key, contents.sub(start, stop)

    def find(self, key: bytes) -> Span | None:
        """The value of a key, or None. Reads one block and searches it by halves."""
        number = bisect_left(self._bounds, key)
        if number == len(self._bounds):
            return None
        contents = self._block(*self._blocks[number])
        place = _Block(contents).find(key)
        return None if place is None else contents.sub(*place)

    def get(self, key: bytes) -> bytes | None:
        """As `find`, copied."""
        found = self.find(key)
        return None if found is None else found.tobytes()

    def _walk(self) -> Iterator[tuple[bytes | memoryview, bytes, int, int]]:
        for place, bound, floor in self._data_blocks():
            block = _Block(self._block(*place))
            for key, start, stop in _between(block, floor, bound):
                yield block.data, key, start, stop

    def _data_blocks(self) -> Iterator[tuple[tuple[int, int], bytes, bytes | None]]:
        """Place, index key, and the index key before it, of every data block."""
        floor = None
        for place, bound in zip(self._blocks, self._bounds, strict=True):
            yield place, bound, floor
            floor = bound

    def _footer(self) -> tuple[tuple[int, int], tuple[int, int]]:
        span = self._span
        if self._end < 0:
            what = f"too short ({len(span)} bytes) to be a table, the form that a checkpoint's index has"
            raise TruncatedFileError(what, path=span.name, offset=span.start, remedy=_REMEDY)
        footer = span.sub(self._end, len(span)).view()
        if int.from_bytes(footer[-8:], "little") != MAGIC:
            what = "the mark at the end of a table is missing: the file is cut off, or is no checkpoint index"
            raise CorruptFileError(what, path=span.name, offset=span.stop - 8, remedy=_REMEDY)
        numbers, position = [], 0
        for _ in range(4):
            number, position = read_varint(footer, position, FOOTER_SIZE - 8, span.name)
            numbers.append(number)
        return (numbers[0], numbers[1]), (numbers[2], numbers[3])

    def _read_index(self, contents: Span) -> None:
        """Fills in where the data blocks are.

        Each must begin behind the one before: a table that led to one block again and again would cost time without
        end.
        """
        block = _Block(contents)
        used = 0
        for key, start, stop in block.entries():
            offset, start = read_varint(memoryview(block.data), start, stop, self.name)
            size, start = read_varint(memoryview(block.data), start, stop, self.name)
            if start != stop or offset < used:
                raise block.damaged("the index has an entry that makes no sense", start)
            used = offset + size + TRAILER_SIZE
            if used > self._end:
                raise block.damaged(f"a block would end at byte {used}, behind the last ({self._end})", start)
            self._bounds.append(key)
            self._blocks.append((offset, size))

    def _block(self, offset: int, size: int) -> Span:
        """A block's contents, checked and decompressed. The last one is kept."""
        last = self._last
        if last is not None and last[0] == offset:
            return last[1]
        stop = offset + size
        if stop + TRAILER_SIZE > self._end:
            what = f"a block of {size} bytes would end behind the last byte of blocks ({self._end})"
            raise TruncatedFileError(what, path=self.name, offset=self._span.start + offset, remedy=_REMEDY)
        trailer = self._span.sub(stop, stop + TRAILER_SIZE).tobytes()
        if mask(span_crc32c(self._span.sub(offset, stop + 1))) != int.from_bytes(trailer[1:], "little"):
            what = "a block of the table does not fit its checksum"
            raise ChecksumError(what, path=self.name, offset=self._span.start + offset, remedy=_REMEDY)
        contents = self._span.sub(offset, stop)
        if trailer[0] == _SNAPPY:
            plain = decompress(contents.tobytes(), path=self.name, offset=self._span.start + offset)
            contents = from_bytes(plain, self.name)
        elif trailer[0] != _PLAIN:
            what = f"a block is compressed in an unknown way ({trailer[0]})"
            raise CorruptFileError(what, path=self.name, offset=self._span.start + offset, remedy=_REMEDY)
        self._last = (offset, contents)
        return contents


class _Block:
    """The contents of one block, whose checksum was right; it may still be built to do harm."""

    __slots__ = ("data", "limit", "path", "restarts", "start")

    def __init__(self, contents: Span) -> None:
        # Small blocks are copied, because bytes are read faster than a memoryview; large ones (a checkpoint of version
        # 1 has whole tensors in them) are not.
        self.data: bytes | memoryview = contents.tobytes() if len(contents) <= _SMALL_BLOCK else contents.view()
        self.path = contents.name
        self.start = contents.start
        size = len(self.data)
        self.restarts = int.from_bytes(self.data[-4:], "little") if size >= 4 else 0
        self.limit = size - 4 - 4 * self.restarts
        if self.limit < 0 or self.restarts == 0:
            raise self.damaged("the list of restarts of a block is cut off", size)

    def damaged(self, what: str, position: int) -> CorruptFileError:
        return CorruptFileError(what, path=self.path, offset=self.start + position, remedy=_REMEDY)

    def entries(self, position: int = 0) -> Iterator[tuple[bytes, int, int]]:
        """The entries from a restart on: the key, and where the value starts and stops in the block."""
        data, limit = self.data, self.limit
        key: bytes | None = None
        left = _MAX_KEY_RATIO * len(data)
        while position < limit:
            # The restarts behind `limit` make it safe to look at three bytes.
            shared, unshared, length = data[position], data[position + 1], data[position + 2]
            start = position + 3
            if (shared | unshared | length) >= 0x80:
                shared, unshared, length, start = self._numbers(position)
            middle = start + unshared
            stop = middle + length
            if stop > limit:
                raise self.damaged("an entry reaches past the end of its block", position)
            if key is None:
                if shared:
                    raise self.damaged("the first key of a run refers to one before it", position)
                key = bytes(data[start:middle])
            else:
                if shared > len(key):
                    raise self.damaged("a key shares more than there is with the one before", position)
                before, key = key, key[:shared] + data[start:middle]
                if key <= before:
                    raise self.damaged("the keys do not ascend", position)
            left -= len(key)
            if left < 0:
                raise self.damaged("the keys of a block are out of all proportion to its size", position)
            yield key, middle, stop
            position = stop

    def find(self, key: bytes) -> tuple[int, int] | None:
        """Where the value of a key starts and stops, or None."""
        low, high = 0, self.restarts - 1  # the last restart whose key is not behind the one wanted
        while low < high:
            middle = (low + high + 1) // 2
            if self._restart_key(middle) <= key:
                low = middle
            else:
                high = middle - 1
        for found, start, stop in self.entries(self._restart(low)):
            if found >= key:
                return (start, stop) if found == key else None
        return None

    def _restart(self, number: int) -> int:
        at = self.limit + 4 * number
        position = int.from_bytes(self.data[at : at + 4], "little")
        if position > self.limit:
            raise self.damaged("a restart lies outside of its block", at)
        return position

    def _restart_key(self, number: int) -> bytes:
        position = self._restart(number)
        for key, _, _ in self.entries(position):
            return key
        raise self.damaged("a restart has no entry", position)

    def _numbers(self, position: int) -> tuple[int, int, int, int]:
        view = memoryview(self.data)
        shared, position = read_varint(view, position, self.limit, self.path)
        unshared, position = read_varint(view, position, self.limit, self.path)
        length, position = read_varint(view, position, self.limit, self.path)
        return shared, unshared, length, position


def _between(block: _Block, floor: bytes | None, bound: bytes) -> Iterator[tuple[bytes, int, int]]:
    """A data block's entries, which must be between two keys of the index, else a search would miss them."""
    key = None
    for key, start, stop in block.entries():
        if floor is not None and key <= floor:
            raise block.damaged("the keys do not ascend from block to block", start)
        floor = None
        yield key, start, stop
    if key is not None and key > bound:
        raise block.damaged("a key is behind the one that the index has for its block", block.limit)


BLOCK_SIZE = 262144
RESTART_INTERVAL = 16

_NO_COMPRESSION = b"\x00"
_LARGE_ENTRY = 2
"""An entry of so many block sizes gets a block of its own."""


class TableWriter:
    """Takes entries in the order of their keys and writes them to a sink. Holds one block in memory.

    Args:
        sink: Where the table goes; it must be at the table's first byte.
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
