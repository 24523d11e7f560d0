"""Reads `saved_model.cpb`: the message that TensorFlow split is put together from its chunks, never decoded whole."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from tfsmith import records
from tfsmith.errors import CorruptFileError, LimitError, TfsmithError, UnsupportedError
from tfsmith.formats.cpb.riegeli import SIGNATURE, Record, RecordFile
from tfsmith.limits import MAX_DEPTH, MAX_FILLED_BYTES, MAX_SMALL_MESSAGE
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import BYTES, VARINT, RawField, WritePlan, encode_varint, fields, parse, tag
from tfsmith.wire.schema import Field, schema

__all__ = ["MessageDraft", "is_message", "is_chunked", "plan_chunked", "read_chunked"]

_KEY, _VALUE = 1, 2
_INTEGERS = frozenset(("bool", "int32", "int64", "uint32", "uint64"))
_MASK = 0xFFFFFFFFFFFFFFFF
_DAMAGED = "the file is damaged; fetch it again"


def is_message(field: Field) -> bool:
    """Whether a field holds messages."""
    return field.type in schema().messages


@cache
def _fields_of(message: str) -> Mapping[int, Field]:
    return {field.number: field for field in schema().messages[message]}


@records.record(frozen=False)
class _Entry:
    """A field of an opened message: where it is, and what takes its place if it changed."""

    number: int
    whole: Span
    raw: RawField | None
    changed: MessageDraft | Record | None = None
    gone: bool = False

    def payload(self) -> Record:
        """What the field holds, if it is one that has a length."""
        if self.raw is None or self.raw.wire_type != BYTES:
            return Record(())
        return Record((Span(self.whole.source, self.raw.start, self.raw.stop),))


class MessageDraft:
    """A message in the making.

    Args:
        message: The message's name, or the fields of a map's entry.
        path: The file that it comes from, for errors.
        place: What to call it in errors, such as "SavedModel.meta_graphs[0]".
        depth: How many messages it is nested in.
    """

    __slots__ = ("_entries", "_fields", "_keys", "_records", "_where", "depth", "path", "place")

    def __init__(self, message: str | Mapping[int, Field], path: str, place: str, depth: int = 0) -> None:
        if depth > MAX_DEPTH:
            raise LimitError(f"messages are nested over {MAX_DEPTH} deep", path=path, where=place, remedy=_DAMAGED)
        self._fields = _fields_of(message) if isinstance(message, str) else message
        self._records: list[Record] = []
        self._entries: list[_Entry] | None = None
        self._where: dict[int, list[_Entry]] = {}
        self._keys: dict[int, dict[bytes | int, _Entry]] = {}
        self.path, self.place, self.depth = path, place, depth

    def field(self, number: int) -> Field:
        """What the schema says of a field.

        Raises:
            CorruptFileError: The message has no such field.
        """
        if number not in self._fields:
            raise self._misfit(f"there is no field {number}")
        return self._fields[number]

    def merge(self, record: Record) -> None:
        """Merges an encoded message of the same kind in. The first is only noted; later ones open the message."""
        if not record.size:
            return
        if self._entries is None and not self._records:
            self._records.append(record)
            return
        self._open()
        for entry in _scan(record):
            if entry.number in self._where and self._merges_inside(entry):
                self.child(entry.number).merge(entry.payload())
            else:
                self._append(entry)

    def child(self, number: int, index: int | None = None) -> MessageDraft:
        """The message in a field, or in element `index` of a repeated one; made if it is the next one.

        Raises:
            CorruptFileError: The field holds no message, or has not so many.
        """
        field = self.field(number)
        if not is_message(field) or (field.label == "many") != (index is not None):
            raise self._misfit(f"field {field.name!r} is not a message that can be taken so")
        self._clear_rivals(field)
        entry = self._entry(number, index)
        if isinstance(entry.changed, MessageDraft):
            return entry.changed
        place = f"{self.place}.{field.name}" if index is None else f"{self.place}.{field.name}[{index}]"
        draft = entry.changed = MessageDraft(field.type, self.path, place, self.depth + 1)
        draft.merge(entry.payload())
        for other in self._where[number][1:] if index is None else ():
            draft.merge(other.payload())
            other.gone = True
        if index is None:
            self._where[number] = [entry]
        return draft

    def entry(self, number: int, key: str | int) -> MessageDraft:
        """The entry of a map under a key; made if there is none. Its value is its field 2.

        Raises:
            CorruptFileError: The field is no map, or has other keys.
        """
        field = self.field(number)
        if field.label != "map" or (field.key_type == "string") != isinstance(key, str):
            raise self._misfit(f"field {field.name!r} is no map with such a key as {key!r}")
        if not isinstance(key, str) and field.key_type not in _INTEGERS:
            raise self._misfit(f"field {field.name!r} has keys of type {field.key_type}")
        wanted = key.encode() if isinstance(key, str) else key & _MASK
        keys = self._keys_of(number)
        if wanted not in keys:
            keys[wanted] = self._new(number)
        entry = keys[wanted]
        if isinstance(entry.changed, MessageDraft):
            return entry.changed
        parts = {
            _KEY: Field("key", _KEY, "one", str(field.key_type)),
            _VALUE: Field("value", _VALUE, "one", field.type),
        }
        draft = entry.changed = MessageDraft(parts, self.path, f"{self.place}.{field.name}[{key!r}]", self.depth + 1)
        draft.merge(entry.payload() if entry.raw is not None else _key_field(wanted))
        return draft

    def put(self, number: int, index: int | None, record: Record) -> None:
        """Sets a string or bytes field, or one element of a repeated one.

        Raises:
            CorruptFileError: The field is of another type, or has not so many elements.
        """
        field = self.field(number)
        if (
            field.type not in ("string", "bytes")
            or field.label == "map"
            or (field.label == "many") != (index is not None)
        ):
            raise self._misfit(f"field {field.name!r} is not bytes that can be set so")
        if index is not None:
            self._entry(number, index).changed = record
            return
        self._clear_rivals(field)
        self._clear(number)
        self._new(number).changed = record

    def plan(self) -> WritePlan:
        """The encoded message. Reads nothing."""
        plan = WritePlan()
        for record in self._records:
            _add_pieces(plan, record)
        for entry in self._entries or ():
            if entry.gone:
                continue
            if entry.changed is None:
                plan.add(entry.whole)
            elif isinstance(entry.changed, MessageDraft):
                plan.add_field(entry.number, entry.changed.plan())
            else:
                part = WritePlan()
                _add_pieces(part, entry.changed)
                plan.add_field(entry.number, part)
        return plan

    def _merges_inside(self, entry: _Entry) -> bool:
        """Whether a second value merges into the first. Those of a oneof are left to whoever reads: the last wins."""
        field = self._fields.get(entry.number)
        if field is None or field.label != "one" or field.oneof is not None or not is_message(field):
            return False
        return entry.raw is not None and entry.raw.wire_type == BYTES

    def _clear_rivals(self, field: Field) -> None:
        """Setting one field of a oneof clears the others, as a later one of them has cleared this one before."""
        if field.oneof is None:
            return
        self._open()
        numbers = {other.number for other in self._fields.values() if other.oneof == field.oneof}
        live = (entry for entry in reversed(self._entries or ()) if entry.number in numbers and not entry.gone)
        last = next(live, None)
        if last is not None and last.number == field.number:
            numbers.remove(field.number)
        for number in numbers:
            self._clear(number)

    def _clear(self, number: int) -> None:
        self._open()
        for entry in self._where.pop(number, ()):
            entry.gone = True

    def _open(self) -> None:
        if self._entries is not None:
            return
        self._entries = []
        for record in self._records:
            for entry in _scan(record):
                self._append(entry)
        self._records = []

    def _append(self, entry: _Entry) -> None:
        assert self._entries is not None  # it was opened
        self._entries.append(entry)
        self._where.setdefault(entry.number, []).append(entry)
        self._keys.pop(entry.number, None)

    def _new(self, number: int) -> _Entry:
        keys = self._keys.get(number)
        entry = _Entry(number, from_bytes(b""), None)
        self._append(entry)
        if keys is not None:
            self._keys[number] = keys
        return entry

    def _entry(self, number: int, index: int | None) -> _Entry:
        self._open()
        entries = self._where.get(number, [])
        at = index or 0
        if at == len(entries):
            return self._new(number)
        if at > len(entries):
            raise self._misfit(f"field {self.field(number).name!r} has no element {at}, only {len(entries)}")
        entry = entries[at]
        if entry.raw is not None and entry.raw.wire_type != BYTES:
            raise self._misfit(f"field {self.field(number).name!r} is not encoded as bytes")
        return entry

    def _keys_of(self, number: int) -> dict[bytes | int, _Entry]:
        self._open()
        if number not in self._keys:
            empty: bytes | int = b"" if self.field(number).key_type == "string" else 0
            self._keys[number] = {_key_of(entry, empty): entry for entry in self._where.get(number, ())}
        return self._keys[number]

    def _misfit(self, what: str) -> TfsmithError:
        return CorruptFileError(what, path=self.path, where=self.place, remedy=_DAMAGED)


def _scan(record: Record) -> list[_Entry]:
    span = record.join()
    return [_Entry(raw.number, Span(span.source, raw.tag_start, raw.stop), raw) for raw in fields(span)]


def _key_of(entry: _Entry, empty: bytes | int) -> bytes | int:
    """The key of a map's entry; the last one counts, and one that is left out is the type's zero."""
    key = empty
    for piece in entry.payload().pieces:
        for raw in fields(piece):
            if raw.number == _KEY and raw.wire_type == BYTES and isinstance(empty, bytes):
                key = piece.source.buffer[raw.start : raw.stop].tobytes()
            elif raw.number == _KEY and raw.wire_type == VARINT and isinstance(empty, int):
                key = raw.value
    return key


def _key_field(key: bytes | int) -> Record:
    if isinstance(key, bytes):
        encoded = tag(_KEY) + encode_varint(len(key)) + key
    else:
        encoded = tag(_KEY, VARINT) + encode_varint(key)
    return Record((from_bytes(encoded),))


def _add_pieces(plan: WritePlan, record: Record) -> None:
    for piece in record.pieces:
        plan.add(piece)


_JOIN_VERSION = 0
_MAP_VALUE = 2


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
    model = MessageDraft("SavedModel", span.name, "SavedModel")
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


def _apply(draft: MessageDraft, message: Any, chunks: _Chunks) -> None:
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


def _apply_field(draft: MessageDraft, field: Any, chunks: _Chunks) -> None:
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


def _step(draft: MessageDraft, tags: list[Any]) -> tuple[MessageDraft, int, int | None]:
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


def _misfit(draft: MessageDraft, what: str) -> CorruptFileError:
    return CorruptFileError(what, path=draft.path, where=draft.place, remedy=_DAMAGED)
