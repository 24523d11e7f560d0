"""F5: what people look at. Works on `ir` alone.

Here: sections of text and tables as plain text, made safe for a terminal, and numbers as people read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tfsmith.records import record

__all__ = ["Section", "human_bytes", "human_count", "json_value", "plain_text", "plural", "printable"]

_WIDEST = 160
"""Cells are filled up to this width at most: a single name of a megabyte would make every row that long."""


@record
class Section:
    """A titled table; `header` may be empty, and `notes` are lines below it. Its first column always stays."""

    title: str
    rows: Sequence[tuple[str, ...]] = ()
    header: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    right: frozenset[int] = frozenset()
    """Columns that are aligned to the right."""
    drop: tuple[int, ...] = ()
    """Columns in the order in which they go where there is no room; by default the last one first."""

    @property
    def less_important(self) -> tuple[int, ...]:
        """The columns that go where there is no room, the least important first. The first column always stays."""
        rest = [column for column in range(len(self.header) - 1, 0, -1) if column not in self.drop]
        return (*self.drop, *rest)

    def __str__(self) -> str:
        rows = [tuple(map(printable, row)) for row in ((self.header, *self.rows) if self.header else self.rows)]
        columns = max((len(row) for row in rows), default=0)
        widths = [max((len(row[column]) for row in rows if column < len(row)), default=0) for column in range(columns)]
        widths = [min(width, _WIDEST) for width in widths]
        lines = [printable(self.title)] if self.title else []
        for row in rows:
            cells = [
                cell.rjust(widths[column]) if column in self.right else cell.ljust(widths[column])
                for column, cell in enumerate(row)
            ]
            lines.append(("  " + "  ".join(cells)).rstrip())
        lines += [f"  {printable(note)}" for note in self.notes]
        return "\n".join(lines) + "\n"


def plain_text(report: Iterable[Section | str]) -> str:
    """Lines and tables as text; an empty line parts a table from the next one."""
    pieces: list[str] = []
    last: Section | str = ""
    for part in report:
        if isinstance(part, Section):
            pieces.append(f"\n{part}" if isinstance(last, Section) else str(part))
        else:
            pieces.append(f"{printable(part)}\n")
        last = part
    return "".join(pieces)


def printable(text: str) -> str:
    """Text from a file, made safe for a terminal: one line, and no control characters that would command it."""
    return text if text.isprintable() else "".join(char if char.isprintable() else escaped(char) for char in text)


def escaped(char: str) -> str:
    """A character as its escape sequence."""
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def human_bytes(size: int) -> str:
    """A size as people read it: 438.0 MB."""
    if size < 1000:
        return f"{size} B"
    value = float(size)
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.95 or unit == "TB":
            return f"{value:.1f} {unit}"
    raise AssertionError("unreachable")


def human_count(count: int) -> str:
    """A count with thin groups: 109,483,778."""
    return f"{count:,}"


def plural(count: int, word: str) -> str:
    """A number of things: 1 node, 2 nodes."""
    return f"{count:,} {word}{'s' * (count != 1)}"


def json_value(value: Any) -> Any:
    """Data as JSON can hold it: bytes are text, complex numbers are pairs, NaN and infinity are text, too."""
    if isinstance(value, dict):
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, complex):
        return [json_value(value.real), json_value(value.imag)]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
