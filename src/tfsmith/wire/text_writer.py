"""Wire bytes to text format, exactly as TensorFlow writes it, with one node in memory at a time.

TensorFlow prints GraphDef, MetaGraphDef and the checkpoint state by `text_format.MessageToString`, but a SavedModel
by `str()`, which shows floats and orders maps in another way (`1` for `1.0`, keys from last to first). Both are as
in current releases of protobuf, whichever is installed.
"""

from __future__ import annotations

from array import array
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
    """The text of a shell that lies in `parts` of one source: a message that comes in parts is the sum of them."""
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
