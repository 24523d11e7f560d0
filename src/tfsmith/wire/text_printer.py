"""Prints a message as protobuf prints it, in either of its two ways, several times faster than `text_format`.

`str()` differs from `text_format.MessageToString` in how it spells floats, in the order of a map's entries, in showing
empty keys and values there, and in leaving an `Any` packed. It is not used itself, because that of protobuf 5 writes
quotes and backslashes in bytes without escaping them.

The message is first serialised deterministically, so that what is printed is a plain walk over well-formed bytes with
the fields in the order of their numbers. Small messages inside (a node's attributes above all) come back again and
again and are printed once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Any, Final

from tfsmith.errors import CorruptFileError
from tfsmith.limits import MAX_DEPTH
from tfsmith.records import record
from tfsmith.wire.descriptors import full_name
from tfsmith.wire.messages import parse
from tfsmith.wire.plan import tag
from tfsmith.wire.scan import BYTES
from tfsmith.wire.schema import schema
from tfsmith.wire.text_fields import STRUCT_FORMS, child_message, fields_of, is_map_entry, is_packable, wire_type
from tfsmith.wire.text_values import shown_bytes, shown_string, value_printer

__all__ = ["Printer", "message_text"]

_ANY: Final = "google.protobuf.Any"
_INVERTED = bytes(range(255, -1, -1))
"""`str()` sorts strings from last to first, but a short one before those that begin with it."""
_REMEMBERED, _MEMORIES = 512, 4096
"""The longest message that is remembered, and how many are before all are forgotten."""


def message_text(message: Any) -> str:
    """The text of a small message of the schema, exactly as `text_format.MessageToString` gives it. Copies it."""
    name = str(message.DESCRIPTOR.full_name).removeprefix("tensorflow.")
    copy = type(message)()
    copy.CopyFrom(message)
    return Printer().text(name, copy)


@record(eq=False)
class _Rule:
    """How a field is shown."""

    name: str
    tag: bytes
    child: str | None
    packed: bool
    form: str | None
    """The struct form of a number of fixed size."""
    show: Callable[[float], str]
    """Shows a number."""
    escape: Callable[[bytes], str]
    """Shows a string."""
    key: Callable[[bytes], Any] | None
    """For a map: what its entries are sorted by."""
    hides_default: bool
    """The key and value of a map's entry are on the wire whatever they are, but defaults are not in the text."""


class Printer:
    """Prints messages one after another and remembers the small ones inside them.

    Args:
        like_str: Print as `str()` does, not as `text_format.MessageToString`.
    """

    def __init__(self, *, like_str: bool = False) -> None:
        self._like_str = like_str
        self._memory: dict[tuple[_Rule, str, bytes], tuple[Any, str]] = {}

    def text(self, name: str, message: Any, pad: str = "") -> str:
        """The text of a message that may be changed: fields that the schema does not know are dropped.

        Args:
            name: The message's name in the schema.
            message: The message.
            pad: The spaces before each line.
        """
        message.DiscardUnknownFields()
        return self._lines(name, message.SerializeToString(deterministic=True), pad)

    def _lines(self, name: str, data: bytes, pad: str) -> str:
        """All the fields of a message."""
        if name == _ANY and not self._like_str:
            expanded = self._expanded(data, pad)
            if expanded is not None:
                return expanded
        rules = _rules(name, self._like_str)
        out: list[str] = []
        position, stop = 0, len(data)
        while position < stop:
            key, position = _varint(data, position)
            rule = rules[key]
            if rule.key is not None:
                position = self._map(rule, data, position, pad, out)
                continue
            if key & 7 != BYTES:
                value, position = _number(rule.form, data, position)
                if value or not rule.hides_default:
                    out.append(f"{pad}{rule.name}: {rule.show(value)}\n")
                continue
            size, position = _varint(data, position)
            payload = data[position : position + size]
            position += size
            if rule.child is not None:
                out.append(self._block(rule, payload, pad)[1])
            elif rule.packed:
                out += [f"{pad}{rule.name}: {rule.show(value)}\n" for value in _numbers(rule.form, payload)]
            elif payload or not rule.hides_default:
                out.append(f'{pad}{rule.name}: "{rule.escape(payload)}"\n')
        return "".join(out)

    def _map(self, rule: _Rule, data: bytes, position: int, pad: str, out: list[str]) -> int:
        """The entries of a map, which stand together on the wire, from after the first tag; gives where they end."""
        entries: list[tuple[Any, str]] = []
        more = True
        while more:
            size, start = _varint(data, position)
            position = start + size
            entries.append(self._block(rule, data[start:position], pad))
            more = data.startswith(rule.tag, position)
            position += len(rule.tag) if more else 0
        entries.sort()
        out += [text for _, text in entries]
        return position

    def _block(self, rule: _Rule, payload: bytes, pad: str) -> tuple[Any, str]:
        """A message field with its braces, after what it is sorted by if it is the entry of a map."""
        if len(payload) > _REMEMBERED:
            return self._print_block(rule, payload, pad)
        key = (rule, pad, payload)
        block = self._memory.get(key)
        if block is None:
            block = self._print_block(rule, payload, pad)
            if len(self._memory) >= _MEMORIES:
                self._memory.clear()
            self._memory[key] = block
        return block

    def _print_block(self, rule: _Rule, payload: bytes, pad: str) -> tuple[Any, str]:
        lines = self._lines(str(rule.child), payload, pad + "  ")
        return None if rule.key is None else rule.key(payload), f"{pad}{rule.name} {{\n{lines}{pad}}}\n"

    def _expanded(self, data: bytes, pad: str) -> str | None:
        """An `Any` is shown as what it holds, if the schema knows that and it is sound."""
        packed = parse(_ANY, data)
        _, slash, full = packed.type_url.rpartition("/")
        name = full.removeprefix("tensorflow.")
        if not slash or name not in schema().messages or full_name(name) != full:
            return None
        if len(pad) > 2 * MAX_DEPTH:  # one inside another, without end
            return None
        try:
            inner = parse(name, packed.value)
        except CorruptFileError:
            return None
        return f"{pad}[{packed.type_url}] {{\n{self.text(name, inner, pad + '  ')}{pad}}}\n"


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Reads a varint. Unchecked, as the bytes come straight from the serialiser."""
    value = data[position]
    position += 1
    if value < 0x80:
        return value, position
    value &= 0x7F
    shift = 7
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


def _number(form: str | None, data: bytes, position: int) -> tuple[float, int]:
    if form is None:
        return _varint(data, position)
    value: float = struct.unpack_from(form, data, position)[0]
    return value, position + struct.calcsize(form)


def _numbers(form: str | None, payload: bytes) -> Iterator[float]:
    if form is not None:
        yield from chain.from_iterable(struct.iter_unpack(form, payload))
        return
    position = 0
    while position < len(payload):
        value, position = _varint(payload, position)
        yield value


@cache
def _rules(message: str, like_str: bool) -> Mapping[int, _Rule]:
    """The fields of a message by tag."""
    rules: dict[int, _Rule] = {}
    for field in fields_of(message):
        child = child_message(message, field)
        packed = is_packable(field)
        number, kind = field.number, BYTES if packed else wire_type(field)
        rules[number << 3 | kind] = _Rule(
            name=field.name,
            tag=tag(number, kind),
            child=child,
            packed=packed,
            form=STRUCT_FORMS.get(field.type),
            show=value_printer(field.type, like_str),
            escape=shown_bytes if field.type == "bytes" else shown_string,
            key=_entry_key(str(field.key_type), like_str) if field.label == "map" else None,
            hides_default=is_map_entry(message) and not like_str,
        )
    return MappingProxyType(rules)


def _entry_key(key_type: str, like_str: bool) -> Callable[[bytes], Any]:
    """Reads what an entry is sorted by: its key, at its start. UTF-8 sorts like the characters that it stands for."""
    form = STRUCT_FORMS.get(key_type)

    def key(entry: bytes) -> Any:
        value, start = _number(form, entry, 1)
        if key_type != "string":
            return value
        text = entry[start : start + int(value)]
        return text.translate(_INVERTED) if like_str else text

    return key
