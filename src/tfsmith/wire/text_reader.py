"""Text format to wire bytes, many times faster than the general parser.

Printers put one statement on a line, and the same lines come back thousands of times (`key: "T"`, `type: DT_FLOAT`),
as do whole `attr` blocks. So every kind of message has a dictionary from a line or block to what it means, filled as
they turn up; what was seen before costs one look-up. A text with anything else in it (lists, `<...>`, several
statements on a line, ...) goes to the general parser as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeAlias

from tfsmith.errors import LimitError
from tfsmith.limits import MAX_DEPTH, MAX_PROTO_BYTES
from tfsmith.records import record
from tfsmith.wire.plan import encode_varint, tag
from tfsmith.wire.scan import BYTES, FIXED32, FIXED64, VARINT
from tfsmith.wire.text_fields import child_message, fields_of, is_map_entry, is_packable, wire_type
from tfsmith.wire.text_scalars import Unusual, encoder
from tfsmith.wire.text_slow import parse_slowly

__all__ = ["read_printed", "text_to_wire"]

_BLOCK = r"{0}attr \{{\n(?:{0} .*\n)*{0}\}}"
_UNIT = re.compile("|".join([*(_BLOCK.format(" " * indent) for indent in (2, 4, 6, 8, 10)), ".+"]))
"""An `attr` block at the indents where nodes have them, or else a line. Wrong guesses cost time, never truth."""
_STATEMENT = re.compile(r"[ \t\r]*([A-Za-z_][A-Za-z0-9_]*)[ \t\r]*(:?)[ \t\r]*")
_SPACES: Final = " \t\r"
_PIECE = 1 << 20
_REMEMBERED = 1024
"""Longer units are not kept: they hardly come back, and a tensor's may be megabytes."""
_BLOCK_DEPTH = 20
"""A block that is nested deeper is left to the general parser, so that depths add up to MAX_DEPTH at most."""
_DEFAULTS: Final = MappingProxyType({VARINT: b"\0", BYTES: b"\0", FIXED32: bytes(4), FIXED64: bytes(8)})


def text_to_wire(text: str, message: str, path: str = "<memory>") -> bytes:
    """Turns the text format of a message into its wire bytes.

    Text as TensorFlow writes it takes some 20 ms a megabyte; what people wrote by hand may need the general parser,
    which takes a second a megabyte. Holds the bytes in memory, a few times over.

    Args:
        text: The text.
        message: The message's name in the schema, such as "GraphDef".
        path: Where the text comes from, for errors.

    Raises:
        CorruptFileError: The text is no such message; says at which line.
        LimitError: Messages are nested too deep, or the message is larger than any can be.
    """
    wire = read_printed(text, message)
    if wire is None:
        wire = parse_slowly(text, message, path)
    if len(wire) > MAX_PROTO_BYTES:
        raise LimitError("the message is over 2 GiB, more than any may hold", path=path, remedy="split the model")
    return wire


def read_printed(text: str, message: str) -> bytes | None:
    """The wire bytes of text that is laid out as printers do it, or None: then only the general parser can tell."""
    try:
        return _read(_units(text), _Lines(message, {}), MAX_DEPTH - _BLOCK_DEPTH)[1]
    except Unusual:
        return None


def _units(text: str) -> Iterator[str]:
    """The blocks and lines of the text, found in pieces of about a megabyte. Empty lines are dropped."""
    return chain.from_iterable(map(_UNIT.findall, _pieces(text)))


def _pieces(text: str) -> Iterator[str]:
    start, size = 0, len(text)
    while start < size:
        stop = text.find("\n", start + _PIECE)
        stop = size if stop < 0 else stop
        yield text[start:stop]
        start = stop + 1


@record
class _Rule:
    """How a field is read."""

    tag: bytes
    bit: int
    """Stands for the field, or for its oneof, among those seen in a message; 0 for repeated fields."""
    message: str | None
    """The message inside, if the field holds one."""
    encode: Callable[[str], bytes] | None
    default: bytes | None
    """The payload that is left out, because an absent field means the same."""
    packed: bool


_Step: TypeAlias = tuple[int, bytes, object]
"""What a unit does: a field's bit, some bytes, and what to do with them. None adds them, a tag adds them to the packed
field of that tag, `_Lines` opens a message after them, `_CLOSE` ends one."""
_CLOSE: Final = object()
_END: Final = (0, b"", _CLOSE)
_NOTHING: Final = (0, b"", None)


class _Lines(dict[str, _Step]):
    """What each line or block means inside one kind of message. Made for one text and dropped with it."""

    __slots__ = ("_all", "_rules")

    def __init__(self, message: str, all_lines: dict[str, _Lines]) -> None:
        super().__init__()
        self._rules = _rules(message)
        self._all = all_lines
        all_lines[message] = self

    def __missing__(self, unit: str) -> _Step:
        step = self._block(unit) if "\n" in unit else self._line(unit)
        if len(unit) <= _REMEMBERED:
            self[unit] = step
        return step

    def _block(self, block: str) -> _Step:
        seen, data = _read(block.split("\n"), self, _BLOCK_DEPTH)
        return (seen, data, None)

    def _line(self, line: str) -> _Step:
        match = _STATEMENT.match(line)
        if match is None:
            return _without_name(line.strip(_SPACES))
        rule = self._rules.get(match[1])
        if rule is None:
            raise Unusual
        value = line[match.end() :].rstrip(_SPACES)
        if rule.message is not None:
            return self._open(rule, rule.message, value)
        if rule.encode is None or not match[2]:
            raise Unusual
        payload = rule.encode(value)
        if rule.packed:
            return (0, payload, rule.tag)
        return (rule.bit, b"" if payload == rule.default else rule.tag + payload, None)

    def _open(self, rule: _Rule, message: str, value: str) -> _Step:
        if value != "{":
            raise Unusual
        inner = self._all.get(message)
        return (rule.bit, rule.tag, _Lines(message, self._all) if inner is None else inner)


def _without_name(line: str) -> _Step:
    if line == "}":
        return _END
    if line and line[0] != "#":
        raise Unusual
    return _NOTHING


_Runs: TypeAlias = dict[bytes, tuple[int, list[bytes]]]
"""Packed fields under way: the tag, its place among the parts, its values."""


def _read(units: Iterable[str], here: _Lines, depth: int) -> tuple[int, bytes]:
    """The machine: a stack of open messages, each a list of finished parts. Gives the fields seen and the bytes.

    This loop is what the time goes to; it is flat for that reason.
    """
    stack: list[tuple[_Lines, list[bytes], int, _Runs | None, bytes]] = []
    parts: list[bytes] = []
    seen = 0
    runs: _Runs | None = None
    for unit in units:
        bit, data, kind = here[unit]
        if seen & bit:  # a second value of a field that has one, or of a oneof
            raise Unusual
        seen |= bit
        if kind is None:
            parts.append(data)
        elif kind is _CLOSE:
            if not stack:
                raise Unusual
            body = b"".join(parts) if runs is None else _packed(parts, runs)
            here, parts, seen, runs, data = stack.pop()
            parts += (data, encode_varint(len(body)), body)
        elif isinstance(kind, _Lines):
            stack.append((here, parts, seen, runs, data))
            if len(stack) > depth:
                raise Unusual
            here, parts, seen, runs = kind, [], 0, None
        elif isinstance(kind, bytes):
            runs = {} if runs is None else runs
            if kind not in runs:
                runs[kind] = (len(parts), [])
                parts.append(b"")  # keeps its place; the length is known at the end
            runs[kind][1].append(data)
    if stack:
        raise Unusual
    return seen, b"".join(parts) if runs is None else _packed(parts, runs)


def _packed(parts: list[bytes], runs: _Runs) -> bytes:
    for key, (place, values) in runs.items():
        payload = b"".join(values)
        parts[place] = key + encode_varint(len(payload)) + payload
    return b"".join(parts)


@cache
def _rules(message: str) -> Mapping[str, _Rule]:
    """The fields of a message by name."""
    groups: dict[str, int] = {}
    rules: dict[str, _Rule] = {}
    for field in fields_of(message):
        child = child_message(message, field)
        packed = is_packable(field)
        group = groups.setdefault(field.oneof or f"the field {field.name}", len(groups))
        implicit = field.label == "one" and field.oneof is None and not is_map_entry(message)
        rules[field.name] = _Rule(
            tag=tag(field.number, BYTES if packed else wire_type(field)),
            bit=1 << group if field.label == "one" else 0,
            message=child,
            encode=None if child is not None else encoder(field.type),
            default=_DEFAULTS[wire_type(field)] if implicit else None,
            packed=packed,
        )
    return MappingProxyType(rules)
