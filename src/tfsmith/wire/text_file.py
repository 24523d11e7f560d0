"""Files in protobuf's text format: read into wire bytes in memory, written one node at a time."""

from __future__ import annotations

from pathlib import Path

from tfsmith.errors import CorruptFileError
from tfsmith.storage.sink import FileSink
from tfsmith.storage.span import Span, from_bytes
from tfsmith.wire.plan import WritePlan

__all__ = ["read_text", "write_text_file"]


def read_text(span: Span, message: str) -> Span:
    """Reads the text of a message and returns its wire bytes, in memory.

    Raises:
        CorruptFileError: It is not UTF-8, or not the text of such a message; the error has line and column.
    """
    from tfsmith.wire.text_reader import text_to_wire  # most files are binary: loaded when needed

    try:
        text = span.tobytes().decode()
    except UnicodeDecodeError as error:
        remedy = "pass a text file in UTF-8"
        raise CorruptFileError("this is not text", path=span.name, offset=error.start, remedy=remedy) from error
    return from_bytes(text_to_wire(text, message, span.name), span.name)


def write_text_file(path: Path, message: str, plan: Span | WritePlan) -> None:
    """Writes a message as text, exactly as TensorFlow writes it. The file must not exist."""
    from tfsmith.wire.text_writer import write_text

    span = plan if isinstance(plan, Span) else from_bytes(plan.tobytes())
    with FileSink(path) as sink:
        write_text(message, span, sink)
