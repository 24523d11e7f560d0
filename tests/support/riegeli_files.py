"""Makes Riegeli files and split SavedModels for tests: TensorFlow's wheel can read both, but writes neither."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from tfsmith.formats.cpb.riegeli import highwayhash64
from tfsmith.wire import encode_varint, new

BLOCK, BLOCK_HEADER, USABLE, CHUNK_HEADER = 1 << 16, 24, (1 << 16) - 24, 40
KEY = (0x2F696C6567656952, 0x0A7364726F636572) * 2
MESSAGE, BYTES = 1, 2
Tag = int | tuple[int] | str
"""A step of a path: a field's number, `(index,)`, or a key of a map."""


class RiegeliWriter:
    """Lays chunks into a file as Riegeli's own writer does, block headers and padding included."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.chunk("s")

    def chunk(self, kind: str, data: bytes = b"", records: int = 0, decoded_size: int = 0) -> int:
        """Adds a chunk; returns where it begins."""
        begin = len(self.data)
        rest = struct.pack("<QQQQ", len(data), highwayhash64(KEY, data), ord(kind) | records << 8, decoded_size)
        body = struct.pack("<Q", highwayhash64(KEY, rest)) + rest + data
        end = max(with_headers(begin, len(body)), possible_end(begin + records))
        at = 0
        while len(self.data) < end:
            position = len(self.data)
            if position % BLOCK == 0:
                header = struct.pack("<QQ", position - begin, end - position)
                self.data += struct.pack("<Q", highwayhash64(KEY, header)) + header
                continue
            taken = min(BLOCK - position % BLOCK, end - position)
            self.data += body[at : at + taken].ljust(taken, b"\0")
            at += taken
        return begin

    def records(
        self, records: Sequence[bytes], kind: int = 0, pack: Callable[[bytes], bytes] | None = None
    ) -> list[int]:
        """Adds a simple chunk with records, compressed by `pack` under the type `kind`; returns their positions."""
        values = b"".join(records)
        data = simple_data(records, kind, pack)
        begin = self.chunk("r", data, len(records), len(values))
        return [begin + index for index in range(len(records))]


def simple_data(records: Sequence[bytes], kind: int = 0, pack: Callable[[bytes], bytes] | None = None) -> bytes:
    """The data of a simple chunk."""
    sizes = b"".join(encode_varint(len(record)) for record in records)
    values = b"".join(records)
    if pack is not None:
        sizes = encode_varint(len(sizes)) + pack(sizes)
        values = encode_varint(len(values)) + pack(values)
    return bytes((kind,)) + encode_varint(len(sizes)) + sizes + values


def with_headers(begin: int, size: int) -> int:
    position = begin
    while size:
        if position % BLOCK == 0:
            position += BLOCK_HEADER
        taken = min(BLOCK - position % BLOCK, size)
        position, size = position + taken, size - taken
    return position


def possible_end(position: int) -> int:
    inside = position % BLOCK
    return position + (BLOCK_HEADER + 1 - inside if 0 < inside <= BLOCK_HEADER else 0)


class Parts:
    """The chunks of a split message and the tree that tells where they belong."""

    def __init__(self, base: bytes | None = None) -> None:
        self.chunks: list[tuple[int, bytes]] = []
        self.message = new("ChunkedMessage")
        if base is not None:
            self.message.chunk_index = self.chunk(base)

    def chunk(self, data: bytes, kind: int = MESSAGE) -> int:
        """Adds a chunk that nothing names yet; returns its index."""
        self.chunks.append((kind, data))
        return len(self.chunks) - 1

    def add(self, data: bytes, tags: Sequence[Tag], kind: int = MESSAGE, parent: Any = None) -> Any:
        """Adds a chunk at a path; returns its `ChunkedMessage`."""
        field = (self.message if parent is None else parent).chunked_fields.add()
        for tag in tags:
            set_tag(field.field_tag.add(), tag)
        field.message.chunk_index = self.chunk(data, kind)
        return field.message

    def file(
        self,
        kind: int = 0,
        pack: Callable[[bytes], bytes] | None = None,
        edit: Callable[[Any], None] | None = None,
        together: bool = False,
    ) -> bytes:
        """The `.cpb`; `edit` may change the metadata first.

        With `together`, all records share one Riegeli chunk, as small ones do. Its offset is then 64.
        """
        writer = RiegeliWriter()
        metadata = new("ChunkMetadata")
        metadata.version.splitter_version = 1
        metadata.message.CopyFrom(self.message)
        for index, (type_, data) in enumerate(self.chunks):
            offset = len(writer.data) + index if together else writer.records([data], kind, pack)[0]
            metadata.chunks.add(type=type_, size=len(data), offset=offset)
        if edit is not None:
            edit(metadata)
        last = metadata.SerializeToString(deterministic=True)
        writer.records([*(data for _, data in self.chunks if together), last], kind, pack)
        return bytes(writer.data)


def set_tag(target: Any, tag: Tag) -> None:
    if isinstance(tag, str):
        target.map_key.s = tag
    elif isinstance(tag, tuple):
        target.index = tag[0]
    else:
        target.field = tag


GRAPH: tuple[Tag, ...] = (2, (0,), 2)
LIBRARY: tuple[Tag, ...] = (*GRAPH, 2)
CONTENT: tuple[Tag, ...] = (5, "value", 8, 4)


def split(model: Any, *, constant: int = 1 << 30, run: int | None = None, whole_graph: bool = False) -> Parts:
    """Splits a SavedModel in the ways of TensorFlow's splitter.

    Args:
        model: The message; it is not changed.
        constant: Constants of at least so many bytes get chunks of their own.
        run: How many nodes, and functions, go into one chunk; without it they stay in their message.
        whole_graph: Whether the rest of the graph gets a chunk of its own too.
    """
    rest = new("SavedModel")
    rest.ParseFromString(model.SerializeToString(deterministic=True))
    parts = Parts(b"")
    graph = rest.meta_graphs[0].graph_def
    _take_constants(parts, graph.node, (*GRAPH, 1), constant)
    for index, function in enumerate(graph.library.function):
        _take_constants(parts, function.node_def, (*LIBRARY, 1, (index,), 3), constant)
    if run is not None:
        _take_runs(parts, graph.node, "GraphDef", "node", GRAPH, run)
        _take_runs(parts, graph.library.function, "FunctionDefLibrary", "function", LIBRARY, run)
    if whole_graph:
        data = graph.SerializeToString(deterministic=True)
        graph.Clear()
        graph.SetInParent()
        parts.add(data, GRAPH)
        _move_to_front(parts)
    parts.chunks[0] = (MESSAGE, rest.SerializeToString(deterministic=True))
    return parts


def _take_constants(parts: Parts, nodes: Any, tags: tuple[Tag, ...], constant: int) -> None:
    for index, node in enumerate(nodes):
        content = node.attr["value"].tensor.tensor_content if node.op == "Const" else b""
        if len(content) >= max(constant, 1):
            parts.add(content, (*tags, (index,), *CONTENT), BYTES)
            node.attr["value"].tensor.tensor_content = b""


def _take_runs(parts: Parts, nodes: Any, message: str, field: str, tags: tuple[Tag, ...], run: int) -> None:
    taken = list(nodes)
    for start in range(0, len(taken), run):
        part = new(message)
        getattr(part, field).extend(taken[start : start + run])
        parts.add(part.SerializeToString(deterministic=True), tags)
    if taken:
        del nodes[:]


def _move_to_front(parts: Parts) -> None:
    """Makes the last chunk chunk 1: where tags are equal, the lower index is merged first."""
    last = len(parts.chunks) - 1
    parts.chunks.insert(1, parts.chunks.pop())
    for field in parts.message.chunked_fields:
        at = field.message.chunk_index
        field.message.chunk_index = 1 if at == last else at + (at >= 1)
