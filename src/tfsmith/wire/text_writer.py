"""Wire bytes to text format, exactly as protobuf and TensorFlow print it, with one node in memory at a time."""

from __future__ import annotations

import math
import re
import struct
from array import array
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from tfsmith.errors import CorruptFileError
from tfsmith.limits import MAX_DEPTH
from tfsmith.records import record
from tfsmith.storage import FileSink, Sink, Span, from_bytes
from tfsmith.wire import BYTES, WritePlan, as_int64, fields, full_name, parse, tag
from tfsmith.wire.schema import (
    STRUCT_FORMS,
    Field,
    child_message,
    fields_of,
    is_map_entry,
    is_packable,
    schema,
    wire_type,
)

__all__ = ["shown_bytes", "shown_string", "value_printer", "Printer", "message_text", "write_text", "write_text_file"]

_PLAIN = re.compile(rb"[ !#-&(-\[\]-~]*")
_STRING_ESCAPES = {code: f"\\{code:03o}" for code in (*range(32), 127)} | {
    ord("\t"): r"\t", ord("\n"): r"\n", ord("\r"): r"\r", ord('"'): r"\"", ord("'"): r"\'", ord("\\"): r"\\",
}  # fmt: skip
_BYTE_TEXTS = tuple(_STRING_ESCAPES.get(code, chr(code) if code < 128 else f"\\{code:03o}") for code in range(256))
_PIECE = 1 << 16
_FLOAT = struct.Struct("<f")


def shown_string(data: bytes) -> str:
    """A string field's UTF-8 with its escapes, without the quotes."""
    if _PLAIN.fullmatch(data) is not None:
        return data.decode("ascii")
    return data.decode("utf-8").translate(_STRING_ESCAPES)


def shown_bytes(data: bytes) -> str:
    """A bytes field with its escapes, without the quotes; about 50 ms a megabyte."""
    if _PLAIN.fullmatch(data) is not None:
        return data.decode("ascii")
    pieces = (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
    return "".join(["".join([_BYTE_TEXTS[byte] for byte in piece]) for piece in pieces])


def value_printer(type_name: str, like_str: bool) -> Callable[[float], str]:
    """The function that shows a number: the unsigned varint of a field, or what its fixed bytes hold."""
    if type_name == "bool":
        return _shown_bool
    if type_name == "float":
        return _float_like_str if like_str else _shown_float
    if type_name == "double" and like_str:
        return _double_like_str
    if type_name in ("int32", "int64"):
        return _shown_signed
    if type_name in ("sint32", "sint64"):
        return _shown_zigzag
    enum = schema().enums.get(type_name)
    return str if enum is None else _enum_printer(enum)


def _shown_bool(value: float) -> str:
    return "true" if value else "false"


def _shown_signed(value: float) -> str:
    return str(as_int64(int(value)))


def _shown_zigzag(value: float) -> str:
    number = int(value)
    return str(number >> 1 ^ -(number & 1))


def _shown_float(value: float) -> str:
    """The fewest digits, six at least, that give the same 32-bit float; then as Python shows the number they make."""
    if math.isnan(value):
        return str(value)
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if _as_float32(short) == value:
            return str(short)
    return str(float(f"{value:.9g}"))


def _float_like_str(value: float) -> str:
    short = f"{value:.6g}"
    return short if math.isnan(value) or _as_float32(float(short)) == value else f"{value:.9g}"


def _double_like_str(value: float) -> str:
    short = f"{value:.15g}"
    return short if math.isnan(value) or float(short) == value else f"{value:.17g}"


def _as_float32(value: float) -> float:
    if math.isinf(value):
        return value
    rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    return rounded


def _enum_printer(values: Mapping[str, int]) -> Callable[[float], str]:
    names = {number: name for name, number in values.items()}

    def show(value: float) -> str:
        number = as_int64(int(value))
        return names.get(number) or str(number)

    return show


_ANY: Final = "google.protobuf.Any"
_INVERTED = bytes(range(255, -1, -1))
"""`str()` sorts strings from last to first, but a short one before those that begin with it."""
_REMEMBERED, _MEMORIES = 512, 4096
"""The longest message that is remembered, and how many are before all are forgotten."""


def message_text(message: Any) -> str:
    """The text of a small message of the schema, exactly as `text_format.MessageToString` returns it. Copies it."""
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
        """The entries of a map, which are together on the wire, from after the first tag; returns where they end."""
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
    """Reads what an entry is sorted by: its key, at its start. UTF-8 sorts like the characters that it encodes."""
    form = STRUCT_FORMS.get(key_type)

    def key(entry: bytes) -> Any:
        value, start = _number(form, entry, 1)
        if key_type != "string":
            return value
        text = entry[start : start + int(value)]
        return text.translate(_INVERTED) if like_str else text

    return key


_SHELLS: Final = frozenset({"SavedModel", "MetaGraphDef", "GraphDef", "FunctionDefLibrary"})
"""The messages that hold the whole model; they are walked over, never parsed."""

_Body: TypeAlias = Callable[[str, Any, str], str]
"""Prints a message, given its name, itself and the spaces before each line."""


def write_text_file(path: Path, message: str, plan: Span | WritePlan) -> None:
    """Writes a message as text, exactly as TensorFlow writes it. The file must not exist."""
    span = plan if isinstance(plan, Span) else from_bytes(plan.tobytes())
    with FileSink(path) as sink:
        write_text(message, span, sink)


def write_text(message: str, data: Span, sink: Sink) -> None:
    """Writes a message as text, as TensorFlow would. Fields that the schema does not know are left out, as there.

    Memory stays at one node or function, and sixteen bytes for each.

    Args:
        message: The message's name in the schema.
        data: Its wire bytes.
        sink: What takes the text, as UTF-8.

    Raises:
        CorruptFileError: The bytes are no such message.
    """
    body = Printer(like_str=message == "SavedModel").text
    texts = _shell(message, [data], "", body) if message in _SHELLS else iter([body(message, parse(message, data), "")])
    for text in texts:
        sink.write(text.encode("utf-8"))


def _shell(name: str, parts: list[Span], pad: str, body: _Body) -> Iterator[str]:
    """The text of a shell that is in `parts` of one source: a message that comes in parts is the sum of them."""
    known = {field.number: field for field in schema().messages[name]}
    source = parts[0].source
    found: dict[int, array[int]] = {}  # from where to where; a graph may have a million nodes
    for part in parts:
        for raw in fields(part):
            field = known.get(raw.number)
            if field is None or (_is_block(field) and raw.wire_type != BYTES):
                continue
            start = raw.start if _is_block(field) else raw.tag_start
            found.setdefault(raw.number, array("Q")).extend((start, raw.stop))
    for number in sorted(found):
        field, ends = known[number], iter(found[number])
        spans = (Span(source, start, stop) for start, stop in zip(ends, ends, strict=True))
        if not _is_block(field):
            yield body(name, parse(name, _joined(list(spans))), pad)
        elif field.label == "many":
            for span in spans:
                yield from _block(field, [span], pad, body)
        else:
            yield from _block(field, list(spans), pad, body)


def _is_block(field: Field) -> bool:
    """Whether each message in the field is printed for itself. The rest is small and is parsed as part of its shell."""
    return field.type in _SHELLS or (field.label == "many" and field.type in schema().messages)


def _block(field: Field, parts: list[Span], pad: str, body: _Body) -> Iterator[str]:
    if field.type not in _SHELLS:
        yield f"{pad}{field.name} {{\n{body(field.type, parse(field.type, parts[0]), pad + '  ')}{pad}}}\n"
        return
    yield f"{pad}{field.name} {{\n"
    yield from _shell(field.type, parts, pad + "  ", body)
    yield f"{pad}}}\n"


def _joined(spans: list[Span]) -> Span:
    """All that a shell says about one field, tags included, which is itself a message of the shell's kind."""
    if len(spans) == 1:  # keeps its place in the file, for errors
        return spans[0]
    return from_bytes(b"".join(span.view() for span in spans), spans[0].name)
