"""The general parser of text format: google.protobuf's own, with its errors explained. About 0.8 MB a second."""

from __future__ import annotations

from collections.abc import Iterator

from tfsmith.errors import CorruptFileError, LimitError
from tfsmith.limits import MAX_DEPTH
from tfsmith.wire.descriptors import pool
from tfsmith.wire.messages import message_class, new

__all__ = ["parse_slowly"]

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
        # A value that its field cannot hold. The SystemError is upb's answer to a name with a lone surrogate.
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
    """Where a parse error lies, and what it says without the line that it quotes, which may be megabytes long."""
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
