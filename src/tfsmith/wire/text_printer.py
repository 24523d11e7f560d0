"""Prints a message as protobuf's Python text format prints it, several times faster.

The message is first serialised deterministically, so that what is printed is a plain walk over well-formed bytes with
the fields in the order of their numbers. Small messages inside (a node's attributes above all) come back again and
again and are printed once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from tfsmith.errors import LimitError
from tfsmith.limits import MAX_DEPTH
from tfsmith.wire.descriptors import full_name
from tfsmith.wire.messages import parse
from tfsmith.wire.scan import BYTES, VARINT
from tfsmith.wire.schema import schema
from tfsmith.wire.text_fields import STRUCT_FORMS, child_message, fields_of, is_map_entry, is_packable, wire_type
from tfsmith.wire.text_values import shown_bytes, shown_string, value_printer

__all__ = ["Printer", "message_text"]

_ANY: Final = "google.protobuf.Any"
_REMEMBERED, _MEMORIES = 512, 4096
"""The longest message that is remembered, and how many are before all are forgotten."""


def message_text(message: Any) -> str:
    """The text of a small message of the schema, exactly as `text_format.MessageToString` gives it. Copies it."""
    name = str(message.DESCRIPTOR.full_name).removeprefix("tensorflow.")
    copy = type(message)()
    copy.CopyFrom(message)
    return Printer().text(name, copy)


@dataclass(frozen=True, slots=True)
class _Rule:
    """How a field is shown."""

    name: str
    child: str | None
    packed: bool
    form: str | None
    """The struct form of a value of fixed size."""
    show: Callable[[float], str]
    """Shows a number."""
    escape: Callable[[bytes], str]
    """Shows a string."""
    in_entry: bool
    """Whether this is the key or value of a map's entry, where defaults are on the wire but not in the text."""
    key: Callable[[bytes], object] | None
    """For a map: what its entries are sorted by."""


class Printer:
    """Prints messages one after another and remembers the small ones inside them."""

    def __init__(self) -> None:
        self._memory: dict[tuple[str, str, bytes], str] = {}

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
        if len(data) > _REMEMBERED:
            return self._print(name, data, pad)
        key = (name, pad, data)
        text = self._memory.get(key)
        if text is None:
            text = self._print(name, data, pad)
            if len(self._memory) >= _MEMORIES:
                self._memory.clear()
            self._memory[key] = text
        return text

    def _print(self, name: str, data: bytes, pad: str) -> str:
        if len(pad) > 4 * MAX_DEPTH:
            raise LimitError(f"messages are nested more than {2 * MAX_DEPTH} deep", remedy="the model is hostile")
        if name == _ANY:
            expanded = self._expanded(data, pad)
            if expanded is not None:
                return expanded
        rules = _rules(name)
        out: list[str] = []
        position, stop = 0, len(data)
        while position < stop:
            start = position
            tag, position = _varint(data, position)
            rule = rules[tag]
            if rule.key is not None:
                position = self._map(rule, tag, data, start, pad, out)
                continue
            if tag & 7 == BYTES:
                size, position = _varint(data, position)
                payload = data[position : position + size]
                position += size
                out += self._delimited(rule, payload, pad)
                continue
            value, position = _number(rule, data, position)
            if value or not rule.in_entry:
                out.append(f"{pad}{rule.name}: {rule.show(value)}\n")
        return "".join(out)

    def _delimited(self, rule: _Rule, payload: bytes, pad: str) -> Iterator[str]:
        if rule.child is not None:
            yield f"{pad}{rule.name} {{\n{self._lines(rule.child, payload, pad + '  ')}{pad}}}\n"
        elif rule.packed:
            for value in _unpacked(rule, payload):
                yield f"{pad}{rule.name}: {rule.show(value)}\n"
        elif payload or not rule.in_entry:
            yield f'{pad}{rule.name}: "{rule.escape(payload)}"\n'

    def _map(self, rule: _Rule, tag: int, data: bytes, position: int, pad: str, out: list[str]) -> int:
        """Prints all the entries of a map, which stand together, by key."""
        entries: list[tuple[Any, str]] = []
        stop = len(data)
        while position < stop:
            found, start = _varint(data, position)
            if found != tag:
                break
            size, start = _varint(data, start)
            position = start + size
            payload = data[start:position]
            entries.append((rule.key(payload), "".join(self._delimited(rule, payload, pad))))
        entries.sort()
        out += [text for _, text in entries]
        return position

    def _expanded(self, data: bytes, pad: str) -> str | None:
        """An `Any` whose content the schema knows is shown as that content."""
        packed = parse(_ANY, data)
        name = packed.type_url.rpartition("/")[2].removeprefix("tensorflow.")
        if "/" not in packed.type_url or name not in schema().messages or full_name(name) != packed.TypeName():
            return None
        inner = self.text(name, parse(name, packed.value), pad + "  ")
        return f"{pad}[{packed.type_url}] {{\n{inner}{pad}}}\n"


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """Reads a varint. Unchecked: the bytes come straight from the serialiser."""
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


def _number(rule: _Rule, data: bytes, position: int) -> tuple[float, int]:
    if rule.form is None:
        return _varint(data, position)
    value: float = struct.unpack_from(rule.form, data, position)[0]
    return value, position + struct.calcsize(rule.form)


def _unpacked(rule: _Rule, payload: bytes) -> Iterator[float]:
    if rule.form is not None:
        for (value,) in struct.iter_unpack(rule.form, payload):
            yield value
        return
    position = 0
    while position < len(payload):
        value, position = _varint(payload, position)
        yield value


@cache
def _rules(message: str) -> Mapping[int, _Rule]:
    """The fields of a message by tag."""
    rules: dict[int, _Rule] = {}
    for field in fields_of(message):
        child = child_message(message, field)
        packed = is_packable(field)
        rules[field.number << 3 | (BYTES if packed else wire_type(field))] = _Rule(
            name=field.name,
            child=child,
            packed=packed,
            form=None if child is not None else STRUCT_FORMS.get(field.type),
            show=value_printer(field.type),
            escape=shown_bytes if field.type == "bytes" else shown_string,
            in_entry=is_map_entry(message),
            key=_entry_key(str(field.key_type)) if field.label == "map" else None,
        )
    return MappingProxyType(rules)


def _entry_key(key_type: str) -> Callable[[bytes], object]:
    """Reads the key from a map's entry. UTF-8 sorts like the characters it stands for."""
    form = STRUCT_FORMS.get(key_type)

    def key(entry: bytes) -> object:
        if form is not None:
            return struct.unpack_from(form, entry, 1)[0]
        value, start = _varint(entry, 1)
        return entry[start : start + value] if key_type == "string" else value

    return key
