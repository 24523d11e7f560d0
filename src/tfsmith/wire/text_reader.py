"""Text format to wire bytes: a fast reader of what protobuf prints, and protobuf's own parser for the rest."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from types import MappingProxyType
from typing import Final, TypeAlias

from tfsmith.errors import CorruptFileError, LimitError
from tfsmith.limits import MAX_DEPTH, MAX_PROTO_BYTES
from tfsmith.records import record
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import BYTES, FIXED32, FIXED64, VARINT, encode_varint, message_class, new, pool, tag
from tfsmith.wire.schema import (
    INTEGER_RANGES,
    STRUCT_FORMS,
    child_message,
    fields_of,
    is_map_entry,
    is_packable,
    schema,
    wire_type,
)

__all__ = ["Unusual", "encoder", "parse_slowly", "read_printed", "read_text", "text_to_wire"]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")
_FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf|nan)")
_STRANGE_ESCAPE = re.compile(r"""\\(?![abfnrtv'"0-3]|[4-7][0-7]?(?![0-7])|x[0-9a-fA-F]{2})""")
"""A backslash before anything but the escapes that Python's codec and protobuf read alike."""
_BOOLS = MappingProxyType(
    {"true": b"\1", "t": b"\1", "1": b"\1", "True": b"\1", "false": b"\0", "f": b"\0", "0": b"\0", "False": b"\0"}
)


class Unusual(Exception):
    """The text is not as a printer writes it. It may still be right: the general parser must say."""


def encoder(type_name: str) -> Callable[[str], bytes]:
    """The function that turns a value's text into the field's payload; strings get their length in front.

    It raises `Unusual` for what it does not know, which includes all that is wrong.
    """
    if type_name == "string":
        return _encode_string
    if type_name == "bytes":
        return _encode_bytes
    if type_name == "bool":
        return _encode_bool
    if type_name in ("float", "double"):
        return _float_encoder(STRUCT_FORMS[type_name])
    if type_name in INTEGER_RANGES:
        return _integer_encoder(type_name)
    return _enum_encoder(schema().enums[type_name])


def _encode_bool(value: str) -> bytes:
    payload = _BOOLS.get(value)
    if payload is None:
        raise Unusual
    return payload


def _float_encoder(form: str) -> Callable[[str], bytes]:
    pack = struct.Struct(form).pack

    def encode(value: str) -> bytes:
        if _FLOAT.fullmatch(value) is None:
            raise Unusual
        try:
            return pack(float(value))
        except OverflowError as error:  # beyond what a float can hold
            raise Unusual from error

    return encode


def _integer_encoder(type_name: str) -> Callable[[str], bytes]:
    low, high = INTEGER_RANGES[type_name]
    form = STRUCT_FORMS.get(type_name)
    zigzag = type_name.startswith("sint")

    def encode(value: str) -> bytes:
        number = _integer(value, low, high)
        if form is not None:
            return struct.pack(form, number)
        if zigzag:
            number = number << 1 if number >= 0 else (~number << 1) | 1
        return encode_varint(number)

    return encode


def _enum_encoder(values: Mapping[str, int]) -> Callable[[str], bytes]:
    known = {name: encode_varint(number) for name, number in values.items()}
    low, high = INTEGER_RANGES["int32"]

    def encode(value: str) -> bytes:
        payload = known.get(value)
        return encode_varint(_integer(value, low, high)) if payload is None else payload

    return encode


def _integer(value: str, low: int, high: int) -> int:
    if _INTEGER.fullmatch(value) is None:
        raise Unusual
    number = int(value)
    if not low <= number < high:
        raise Unusual
    return number


def _encode_string(value: str) -> bytes:
    data = _unquote(value)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unusual from error
    return encode_varint(len(data)) + data


def _encode_bytes(value: str) -> bytes:
    data = _unquote(value)
    return encode_varint(len(data)) + data


def _unquote(value: str) -> bytes:
    quote, body = value[:1], value[1:-1]
    if len(value) < 2 or quote not in ('"', "'") or value[-1] != quote:
        raise Unusual
    try:
        if "\\" in body:
            return _unescape(body, quote)
        if quote in body:  # two strings side by side
            raise Unusual
        return body.encode("utf-8")
    except UnicodeError as error:  # a lone surrogate
        raise Unusual from error


def _unescape(body: str, quote: str) -> bytes:
    single = body.replace(r"\\", " ")  # now each backslash that is left begins an escape of another kind
    if _STRANGE_ESCAPE.search(single) is not None or single.count(quote) != single.count("\\" + quote):
        raise Unusual
    return body.encode("utf-8").decode("unicode_escape").encode("latin-1")


_LONGEST = 200
"""As much of an error as is shown."""
_BACKSLASHES = 256
"""The parser takes time with the square of a run of backslashes, so that a megabyte of them would take hours."""


def parse_slowly(text: str, message: str, path: str) -> bytes:
    """Any text format at all, as wire bytes.

    Raises:
        CorruptFileError: The text is no such message.
        LimitError: Messages are nested too deep.
    """
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError, EncodeError

    if "\\" * _BACKSLASHES in text:
        what = f"more than {_BACKSLASHES} backslashes stand in a row"
        raise LimitError(what, path=path, remedy=r"write each as \134, or print the file anew with protobuf")
    lines = _CountedLines(text)
    parsed = new(message)
    remedy = f"correct the text there, or check that the file is a {message}"
    try:
        text_format.ParseLines(lines, parsed, descriptor_pool=pool())  # type: ignore[attr-defined]
        wire = bytes(parsed.SerializeToString(deterministic=True))
        message_class(message).FromString(wire)
    except (RecursionError, EncodeError, DecodeError) as error:  # it must be readable again, too
        what = f"messages are nested more than {MAX_DEPTH} deep"
        raise LimitError(what, path=path, remedy="no model needs that; the text is damaged or hostile") from error
    except text_format.ParseError as error:
        where, what = _explained(error, lines)
        raise CorruptFileError(what, path=path, where=where, remedy=remedy) from error
    except (ValueError, TypeError, KeyError, AttributeError, SystemError, Warning) as error:
        # A value that its field cannot hold. upb raises the SystemError for a name with a lone surrogate.
        where = f"near line {max(lines.count, 1)}"
        raise CorruptFileError(_short(str(error)), path=path, where=where, remedy=remedy) from error
    return wire


class _CountedLines:
    """The lines of a text, one by one; remembers how far it was read."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.count = 0

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            self.count += 1
            yield line


def _explained(error: Exception, lines: _CountedLines) -> tuple[str, str]:
    """Where a parse error is, and what it says without the line that it quotes, which may be megabytes long."""
    line, column = error.GetLine(), error.GetColumn()  # type: ignore[attr-defined]
    what = str(error)
    if line is None:
        return f"near line {max(lines.count, 1)}", _short(what)
    what = what.removeprefix(f"{line}:{column} : ")
    if 0 < line <= len(lines.lines):
        what = what.removeprefix(f"'{lines.lines[line - 1]}': ")
    return f"line {line}, column {column}", _short(what)


def _short(what: str) -> str:
    what = what.rstrip(".") or "this is not text format"
    return what if len(what) <= _LONGEST else what[:_LONGEST] + "..."


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


def read_text(span: Span, message: str) -> Span:
    """Reads the text of a message and returns its wire bytes, in memory.

    Raises:
        CorruptFileError: It is not UTF-8, or not the text of such a message; the error has line and column.
    """
    try:
        text = span.tobytes().decode()
    except UnicodeDecodeError as error:
        remedy = "pass a text file in UTF-8"
        raise CorruptFileError("this is not text", path=span.name, offset=error.start, remedy=remedy) from error
    return from_bytes(text_to_wire(text, message, span.name), span.name)


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
    """The wire bytes of text that is laid out as printers do it, or None: then only the general parser can decide."""
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
