"""`Draft`: a message that is put together from encoded parts, with fields of its own put in, and never decoded whole.

Protobuf's rule makes this cheap: two encodings of a message, one behind the other, are the encoding of both merged.
A draft keeps its parts as they are. Only when a field deep inside must change is the message opened, which means that
the places of its fields are listed; the bytes still stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from tfsmith import records
from tfsmith.errors import CorruptFileError, LimitError, TfsmithError
from tfsmith.formats.riegeli import Record
from tfsmith.limits import MAX_DEPTH
from tfsmith.storage.source import from_bytes
from tfsmith.storage.span import Span
from tfsmith.wire.plan import WritePlan, encode_varint, tag
from tfsmith.wire.scan import BYTES, VARINT, RawField, fields
from tfsmith.wire.schema import Field, schema

__all__ = ["Draft", "is_message"]

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
    """A field of an opened message: where it stands, and what takes its place if it changed."""

    number: int
    whole: Span
    raw: RawField | None
    changed: Draft | Record | None = None
    gone: bool = False

    def payload(self) -> Record:
        """What the field holds, if it is one that has a length."""
        if self.raw is None or self.raw.wire_type != BYTES:
            return Record(())
        return Record((Span(self.whole.source, self.raw.start, self.raw.stop),))


class Draft:
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

    def child(self, number: int, index: int | None = None) -> Draft:
        """The message in a field, or in element `index` of a repeated one; made if it is the next one.

        Raises:
            CorruptFileError: The field holds no message, or has not so many.
        """
        field = self.field(number)
        if not is_message(field) or (field.label == "many") != (index is not None):
            raise self._misfit(f"field {field.name!r} is not a message that can be taken so")
        self._clear_rivals(field)
        entry = self._entry(number, index)
        if isinstance(entry.changed, Draft):
            return entry.changed
        place = f"{self.place}.{field.name}" if index is None else f"{self.place}.{field.name}[{index}]"
        draft = entry.changed = Draft(field.type, self.path, place, self.depth + 1)
        draft.merge(entry.payload())
        for other in self._where[number][1:] if index is None else ():
            draft.merge(other.payload())
            other.gone = True
        if index is None:
            self._where[number] = [entry]
        return draft

    def entry(self, number: int, key: str | int) -> Draft:
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
        if isinstance(entry.changed, Draft):
            return entry.changed
        parts = {
            _KEY: Field("key", _KEY, "one", str(field.key_type)),
            _VALUE: Field("value", _VALUE, "one", field.type),
        }
        draft = entry.changed = Draft(parts, self.path, f"{self.place}.{field.name}[{key!r}]", self.depth + 1)
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
            elif isinstance(entry.changed, Draft):
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
