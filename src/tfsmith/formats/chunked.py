"""Reads `saved_model.cpb`, the form in which TensorFlow splits a SavedModel that is too large for one message.

The file is a Riegeli file. Its last record is a `ChunkMetadata`: where each other record stands, and a tree that tells
where in the SavedModel it belongs. A record is part of a message, to be merged, or the value of a bytes field.
"""

from __future__ import annotations

from typing import Any

from tfsmith.errors import CorruptFileError, LimitError, UnsupportedError
from tfsmith.formats.draft import Draft, is_message
from tfsmith.formats.riegeli import SIGNATURE, Record, RecordFile
from tfsmith.limits import MAX_FILLED_BYTES, MAX_SMALL_MESSAGE
from tfsmith.storage.source import from_bytes
from tfsmith.storage.span import Span
from tfsmith.wire.messages import parse
from tfsmith.wire.plan import WritePlan

__all__ = ["is_chunked", "plan_chunked", "read_chunked"]

_JOIN_VERSION = 0
_MAP_VALUE = 2
_DAMAGED = "the file is damaged; fetch it again"


def is_chunked(span: Span) -> bool:
    """Whether a file begins as a Riegeli file does. Reads 64 bytes."""
    return span.view()[: len(SIGNATURE)] == SIGNATURE


def read_chunked(span: Span) -> Span:
    """The SavedModel of a `saved_model.cpb` as one message in memory, each byte copied into it once.

    Memory: the message, and those parts of it that other parts had to be put into. Large constants are not among
    these: they go from the file, or from the decompressor, to their place. The message may be over 2 GiB.

    Raises:
        TfsmithError: See `plan_chunked`.
        LimitError: It does not fit into memory.
    """
    plan = plan_chunked(span)
    try:
        whole = memoryview(bytearray(plan.size))
    except MemoryError as error:
        what, remedy = f"its {plan.size} bytes do not fit into memory", "use a machine with more memory"
        raise LimitError(what, path=span.name, remedy=remedy) from error
    at = 0
    for part in plan.parts():
        assert isinstance(part, (bytes, Span))  # nothing here is made on the way
        whole[at : at + len(part)] = part.view() if isinstance(part, Span) else part
        at += len(part)
    return from_bytes(whole, f"{span.name} (merged)")


def plan_chunked(span: Span) -> WritePlan:
    """The SavedModel of a `saved_model.cpb` as a plan. Reads its structure; large constants stay where they are.

    Raises:
        WrongFileError: This is no Riegeli file.
        CorruptFileError: It is damaged, or its parts do not fit together.
        LimitError: It claims to hold absurdly much.
        UnsupportedError: It was written in a way that cannot be read here, or a package for its compression is missing.
    """
    file = RecordFile(span)
    last = file.last()
    if last.size > MAX_SMALL_MESSAGE:
        what = f"the last record, which tells how to merge the others, has {last.size} bytes"
        raise LimitError(what, path=span.name, remedy=_DAMAGED)
    metadata = parse("ChunkMetadata", last.join(), "the last record, which tells how to merge the others")
    others = sum(chunk.records for chunk in file.chunks) - 1
    if not metadata.HasField("message") or len(metadata.chunks) != others:
        what = f"the last record does not tell how to merge the {others} others"
        raise CorruptFileError(what, path=span.name, remedy="the file is cut off or of another kind; fetch it again")
    if metadata.version.join_version > _JOIN_VERSION:
        what = f"the file asks for version {metadata.version.join_version} of merging"
        raise UnsupportedError(what, path=span.name, remedy="a newer tfsmith may know it")
    model = Draft("SavedModel", span.name, "SavedModel")
    _apply(model, metadata.message, _Chunks(file, metadata.chunks, span))
    return model.plan()


class _Chunks:
    """The records that the metadata name, each to be taken once: no file can grow by naming one again and again."""

    def __init__(self, file: RecordFile, infos: Any, span: Span) -> None:
        total = sum(info.size for info in infos)
        if total > max(len(span), MAX_FILLED_BYTES):
            raise LimitError(f"{len(span)} bytes claim to hold {total}", path=span.name, remedy=_DAMAGED)
        self._file, self._infos, self._path = file, infos, span.name
        self._taken: set[int] = set()

    def take(self, index: int, place: str) -> Record:
        """The record of a chunk. Reads only its chunk's sizes."""
        if index >= len(self._infos):
            raise self._bad(f"chunk {index} is named, but there are only {len(self._infos)}", place)
        if index in self._taken:
            raise self._bad(f"chunk {index} is named twice", place)
        self._taken.add(index)
        info = self._infos[index]
        record = self._file.record(info.offset)
        if record.size != info.size:
            raise self._bad(f"chunk {index} has {record.size} bytes, but should have {info.size}", place)
        return record

    def _bad(self, what: str, place: str) -> CorruptFileError:
        return CorruptFileError(what, path=self._path, where=place, remedy=_DAMAGED)


def _apply(draft: Draft, message: Any, chunks: _Chunks) -> None:
    """Merges a `ChunkedMessage` into a draft: its own chunk, then its fields, outer ones and low indices first."""
    if message.HasField("chunk_index"):
        draft.merge(chunks.take(message.chunk_index, draft.place))
    for field in sorted(message.chunked_fields, key=_order):
        _apply_field(draft, field, chunks)


def _order(field: Any) -> tuple[list[tuple[str, int, bytes]], int]:
    """How TensorFlow sorts them, so that a message is there before what goes into it, and node 3 before node 4."""
    tags = []
    for step in field.field_tag:
        kind = step.WhichOneof("kind") or ""
        key = step.map_key.SerializeToString() if kind == "map_key" else b""
        tags.append((kind, step.field if kind == "field" else step.index, key))
    return tags, field.message.chunk_index


def _apply_field(draft: Draft, field: Any, chunks: _Chunks) -> None:
    """Walks the tags of a `ChunkedField` down from `draft` and puts its chunk there."""
    tags = list(field.field_tag)
    if not tags:  # a further part of the message itself, such as the next run of a graph's nodes
        _apply(draft, field.message, chunks)
        return
    while True:
        draft, number, index = _step(draft, tags)
        if not is_message(draft.field(number)):
            break
        draft = draft.child(number, index)
        if not tags:
            _apply(draft, field.message, chunks)
            return
    if tags:
        raise _misfit(draft, f"field {draft.field(number).name!r} is no message, yet something inside it is named")
    if not field.message.HasField("chunk_index"):
        raise _misfit(draft, f"no chunk is named for field {draft.field(number).name!r}")
    draft.put(number, index, chunks.take(field.message.chunk_index, draft.place))


def _step(draft: Draft, tags: list[Any]) -> tuple[Draft, int, int | None]:
    """Takes the next field off `tags`, with its index or key: the message that has the field, its number and index."""
    first = tags.pop(0)
    if first.WhichOneof("kind") != "field":
        raise _misfit(draft, "an index or a key stands where a field should be named")
    label = draft.field(first.field).label
    if label == "one":
        return draft, first.field, None
    selector: Any = tags.pop(0) if tags else None
    kind = None if selector is None else selector.WhichOneof("kind")
    if label == "many" and kind == "index":
        return draft, first.field, selector.index
    key = selector.map_key.WhichOneof("type") if kind == "map_key" else None
    if label != "map" or key is None:
        raise _misfit(draft, f"field {draft.field(first.field).name!r} is named without a fitting index or key")
    return draft.entry(first.field, getattr(selector.map_key, key)), _MAP_VALUE, None


def _misfit(draft: Draft, what: str) -> CorruptFileError:
    return CorruptFileError(what, path=draft.path, where=draft.place, remedy=_DAMAGED)
