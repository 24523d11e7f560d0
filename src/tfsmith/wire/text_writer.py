"""Wire bytes to text format, exactly as TensorFlow writes it, with one node in memory at a time.

TensorFlow prints GraphDef, MetaGraphDef and the checkpoint state by `text_format.MessageToString`, but a SavedModel
by `str()`, which shows floats and orders maps in another way (`1` for `1.0`; keys from last to first).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

from tfsmith.storage.sink import Sink
from tfsmith.storage.source import from_bytes
from tfsmith.storage.span import Span
from tfsmith.wire.messages import parse
from tfsmith.wire.scan import BYTES, fields
from tfsmith.wire.schema import Field, schema
from tfsmith.wire.text_printer import Printer, message_text

__all__ = ["message_text", "write_text"]

_SHELLS: Final = frozenset({"SavedModel", "MetaGraphDef", "GraphDef", "FunctionDefLibrary"})
"""The messages that hold the whole model; they are walked over, never parsed."""

_Body: TypeAlias = Callable[[str, Any, str], str]
"""Prints a message, given its name, itself and the spaces before each line."""


def write_text(message: str, data: Span, sink: Sink) -> None:
    """Writes a message as text, as TensorFlow would. Fields that the schema does not know are left out, as there.

    Memory stays at one node, function or collection. Reads the tags of a large message once per kind of field.

    Args:
        message: The message's name in the schema.
        data: Its wire bytes.
        sink: What takes the text, as UTF-8.

    Raises:
        CorruptFileError: The bytes are no such message.
    """
    body = _printed_by_str if message == "SavedModel" else Printer().text
    texts = _shell(message, [data], "", body) if message in _SHELLS else iter([body(message, parse(message, data), "")])
    for text in texts:
        sink.write(text.encode("utf-8"))


def _printed_by_str(name: str, message: Any, pad: str) -> str:
    text = str(message)
    return pad + text[:-1].replace("\n", "\n" + pad) + "\n" if text else ""


def _shell(name: str, parts: list[Span], pad: str, body: _Body) -> Iterator[str]:
    """The text of a shell whose bytes lie in `parts`: a message that comes in parts is the sum of them."""
    known = {field.number: field for field in schema().messages[name]}
    present = {raw.number for part in parts for raw in fields(part)}
    for number in sorted(present & known.keys()):
        field = known[number]
        if field.type in _SHELLS or (field.label == "many" and field.type in schema().messages):
            yield from _blocks(field, _payloads(parts, number), pad, body)
        else:
            yield body(name, parse(name, _joined(parts, number)), pad)


def _blocks(field: Field, payloads: Iterator[Span], pad: str, body: _Body) -> Iterator[str]:
    """The blocks of a field: one for each payload if it is repeated, else one for all of them."""
    split = ([payload] for payload in payloads) if field.label == "many" else (together for together in [list(payloads)] if together)
    for parts in split:
        yield f"{pad}{field.name} {{\n"
        if field.type in _SHELLS:
            yield from _shell(field.type, parts, pad + "  ", body)
        else:
            yield body(field.type, parse(field.type, parts[0]), pad + "  ")
        yield f"{pad}}}\n"


def _payloads(parts: list[Span], number: int) -> Iterator[Span]:
    for part in parts:
        for raw in fields(part):
            if raw.number == number and raw.wire_type == BYTES:
                yield Span(part.source, raw.start, raw.stop)


def _joined(parts: list[Span], number: int) -> Span:
    """All that a shell says about one field, tags included: itself a message of the shell's kind."""
    found = [(part, raw) for part in parts for raw in fields(part) if raw.number == number]
    part, first = found[0]
    if len(found) == 1:  # keeps the place in the file for errors
        return Span(part.source, first.tag_start, first.stop)
    return from_bytes(b"".join(Span(part.source, raw.tag_start, raw.stop).tobytes() for part, raw in found), part.name)
