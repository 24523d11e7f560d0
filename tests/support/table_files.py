"""Makes tables and checkpoints for tests, sound ones and such as no honest writer makes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfsmith.formats.checkpoint.table import FOOTER_SIZE, MAGIC, TableWriter
from tfsmith.storage import Span, crc32c, mask
from tfsmith.wire import encode_varint, new


class MemorySink:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    def write_span(self, span: Span) -> None:
        self.data += span.tobytes()


def table(entries: Iterable[tuple[bytes, bytes]], *, block_size: int = 262144, restart_interval: int = 16) -> bytes:
    """A sound table."""
    sink = MemorySink()
    writer = TableWriter(sink, block_size=block_size, restart_interval=restart_interval)
    for key, value in entries:
        writer.add(key, value)
    assert writer.finish() == len(sink.data)
    return bytes(sink.data)


def entry(shared: int, key: bytes, value: bytes) -> bytes:
    """An entry of a block, true or not."""
    return encode_varint(shared) + encode_varint(len(key)) + encode_varint(len(value)) + key + value


def block(entries: bytes, restarts: Sequence[int] = (0,)) -> bytes:
    """A block of such entries."""
    return entries + b"".join(number.to_bytes(4, "little") for number in (*restarts, len(restarts)))


def sealed(contents: bytes, kind: int = 0) -> bytes:
    """A block with its trailer."""
    data = contents + bytes((kind,))
    return data + mask(crc32c(data)).to_bytes(4, "little")


def place(offset: int, size: int) -> bytes:
    """A block's place, as the index and the footer have it."""
    return encode_varint(offset) + encode_varint(size)


def raw_table(blocks: Sequence[tuple[bytes, bytes]], *, kind: int = 0, index: bytes | None = None) -> bytes:
    """A table of given blocks, each with its key in the index; or with a given index."""
    out = bytearray()
    entries = b""
    for bound, contents in blocks:
        entries += entry(0, bound, place(len(out), len(contents)))
        out += sealed(contents, kind)
    index_block = block(entries, (0,)) if index is None else index
    meta = place(len(out), len(block(b"")))
    out += sealed(block(b""))
    footer = meta + place(len(out), len(index_block))
    out += sealed(index_block)
    return bytes(out + footer.ljust(FOOTER_SIZE - 8, b"\x00") + MAGIC.to_bytes(8, "little"))


def header(shards: int = 1, *, big_endian: bool = False) -> Any:
    """A `BundleHeaderProto`."""
    proto = new("BundleHeaderProto")
    proto.num_shards = shards
    proto.endianness = int(big_endian)
    proto.version.producer = 1
    return proto


def bundle_entry(number: int, dims: Sequence[int], data: bytes, *, offset: int = 0, crc: int | None = None) -> Any:
    """A `BundleEntryProto` of raw bytes."""
    proto = new("BundleEntryProto")
    proto.dtype = number
    proto.shape.SetInParent()
    for dim in dims:
        proto.shape.dim.add().size = dim
    proto.offset = offset
    proto.size = len(data)
    proto.crc32c = mask(crc32c(data) if crc is None else crc)
    return proto


def write_raw_bundle(prefix: Path, entries: Mapping[bytes, Any], data: Sequence[bytes], head: Any = None) -> None:
    """Writes a checkpoint with any header and entries, sound or not."""
    items = [(b"", (head or header(len(data))).SerializeToString())]
    items += [(key, entries[key].SerializeToString()) for key in sorted(entries)]
    Path(f"{prefix}.index").write_bytes(table(items))
    for shard, contents in enumerate(data):
        Path(f"{prefix}.data-{shard:05d}-of-{len(data):05d}").write_bytes(contents)


def snappy_compress(data: bytes) -> bytes:
    """A small compressor that uses literals of all sizes and copies, overlapping ones too."""
    out = bytearray(encode_varint(len(data)))
    seen: dict[bytes, int] = {}
    literal = position = 0
    while position + 4 <= len(data):
        here = data[position : position + 4]
        start = seen.get(here)
        seen[here] = position
        if start is None:
            position += 1
            continue
        length = 4
        while length < 64 and position + length < len(data) and data[start + length] == data[position + length]:
            length += 1
        out += _literal(data[literal:position]) + _copy(position - start, length)
        position += length
        literal = position
    return bytes(out + _literal(data[literal:]))


def _literal(data: bytes) -> bytes:
    if not data:
        return b""
    size = len(data) - 1
    if size < 60:
        return bytes((size << 2,)) + data
    extra = (size.bit_length() + 7) // 8
    return bytes(((59 + extra) << 2,)) + size.to_bytes(extra, "little") + data


def _copy(back: int, length: int) -> bytes:
    if length <= 11 and back < 1 << 11:
        return bytes((back >> 8 << 5 | (length - 4) << 2 | 1, back & 0xFF))
    if back < 1 << 16:
        return bytes(((length - 1) << 2 | 2,)) + back.to_bytes(2, "little")
    return bytes(((length - 1) << 2 | 3,)) + back.to_bytes(4, "little")


GOLDEN_INDEX = bytes.fromhex(
    "00000608011a020801000d1500706172740001010280838082080312081202080312020802203c281835a83fa5da0904"
    "1583818082080312081202080112020802205428083543eb534b000a116c617965722f62696173080112041202080320"
    "18280c35c94aaae10606136b65726e656c0801120812020802120208032818357aebf5ab000422706172740803120812"
    "020804120208023a080a0210030a0210023a0a0a04080310010a02100200040d73746570080912002034280835ec5ba3"
    "67000511776f72647308071204120208032024281035ba07012d00000000010000000042662d21000000000100000000"
    "c0f2a1b00001037800e201000000000100000000c23350bde70108f4010f000000000000000000000000000000000000"
    "0000000000000000000000000000000057fb808b247547db"
)
"""What TensorFlow 2.21's SaveV2 wrote for `GOLDEN_VALUES`, in this order."""

GOLDEN_DATA = bytes.fromhex(
    "0000803f0000004000004040000080400000a0400000c040000080bf0000003f000000400700027def1a176772c3bcc3"
    "9f6500ff43060000000000000100000002000000030000000400000005000000060000000700000008000000"
)

GOLDEN_VALUES: dict[str, tuple[str, Any]] = {
    "layer/kernel": ("float32", [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
    "layer/bias": ("float32", [-1.0, 0.5, 2.0]),
    "words": ("string", ["grüße".encode(), b"", b"\x00\xff"]),
    "step": ("int64", 1603),
    "part": ("int32", [[1, 2], [3, 4], [5, 6], [7, 8]]),  # saved as two slices, of three rows and of one
}


def write_golden(prefix: Path) -> None:
    """Puts the golden checkpoint there."""
    Path(f"{prefix}.index").write_bytes(GOLDEN_INDEX)
    Path(f"{prefix}.data-00000-of-00001").write_bytes(GOLDEN_DATA)
