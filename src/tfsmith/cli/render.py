"""Sections of text and tables: plain in a pipe, coloured on a terminal and fitted to its width."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from textwrap import wrap

from tfsmith.cli.common import emit
from tfsmith.records import record
from tfsmith.view import Section, plain_text, printable

__all__ = ["Section", "fit_section", "print_sections"]

_GAP = "  "
_INDENT = "    "
_NARROWEST = 24
"""Prose is not wrapped into less."""


def print_sections(sections: Iterable[Section | str]) -> None:
    """Prints lines and tables to stdout: with colours and fitted columns on a terminal, as plain text otherwise."""
    report = list(sections)
    if sys.stdout.isatty() and any(isinstance(part, Section) for part in report):
        _print_rich(report)
    else:
        emit(plain_text(report), exact=True)


@record
class Fitted:
    """A table as it fits a terminal.

    Attributes:
        lines: For each row the cells of each line that it takes, filled up to the widths of their columns.
        left_out: The titles of the columns that found no room.
    """

    lines: tuple[tuple[tuple[str, ...], ...], ...]
    left_out: tuple[str, ...]


def fit_section(section: Section, width: int) -> Fitted:
    """Lays a table out. A name is never broken: the least important columns go, and prose is wrapped between words.

    A name that is longer than most is alone on its line, and so is a last cell that finds no room in its row.

    Args:
        section: The table; its header counts as the first row.
        width: How many characters a line has.
    """
    rows = [tuple(map(printable, row)) for row in ((section.header, *section.rows) if section.header else section.rows)]
    count = max(map(len, rows), default=0)
    rows = [row + ("",) * (count - len(row)) for row in rows]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(count)]
    kept = list(range(count))
    order = [column for column in section.less_important if column < count] if section.header else []
    first = min(widths[0], max(_NARROWEST, width // 2)) if widths else 0
    while order and first + _least(kept[1:], widths) > width:
        kept.remove(order.pop(0))
    if len(kept) > 1:
        widths[0] = min(widths[0], max(first, width - _least(kept[1:], widths)))
    left_out = tuple(section.header[column] for column in range(count) if section.header and column not in kept)
    lines = [tuple(_lines(row, kept, widths, width, section.right)) for row in rows]
    return Fitted(tuple(lines), left_out)


def _least(kept: Sequence[int], widths: Sequence[int]) -> int:
    """How much the columns behind the first take at least: the last one may be wrapped, or go to the next line."""
    inner = sum(len(_GAP) + widths[column] for column in kept[:-1])
    return inner + (len(_GAP) + min(widths[kept[-1]], _NARROWEST) if kept else 0)


def _lines(
    row: Sequence[str], kept: Sequence[int], widths: Sequence[int], width: int, right: frozenset[int]
) -> Iterator[tuple[str, ...]]:
    """The lines of one row, each as cells."""
    if len(kept) < 2:
        yield tuple(row[column] for column in kept)
        return
    *others, last = kept
    cells = {column: row[column].rjust(widths[column]) if column in right else row[column] for column in kept}
    if len(row[others[0]]) > widths[0]:
        yield (row[others[0]],)
        cells[others[0]] = ""
    head = tuple(cells[column].ljust(widths[column]) for column in others)
    room = width - sum(len(cell) + len(_GAP) for cell in head)
    if len(cells[last].rstrip()) <= room:
        yield (*head, cells[last])
        return
    if max(map(len, row[last].split(" "))) > room:
        yield head
        yield from ((f"{_INDENT}{part}",) for part in _wrapped(row[last], width - len(_INDENT)))
        return
    blank = tuple(" " * len(cell) for cell in head)
    for number, part in enumerate(_wrapped(row[last], room)):
        yield (*(blank if number else head), part)


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]


def _print_rich(report: Sequence[Section | str]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    last: Section | str = ""
    for section in report:
        if isinstance(section, str):
            console.print(Text(printable(section)), soft_wrap=True)
            last = section
            continue
        if isinstance(last, Section):
            console.print()
        last = section
        if section.title:
            console.print(Text(printable(section.title), style="bold cyan"), soft_wrap=True)
        fitted = fit_section(section, console.width)
        for line, is_head in _marked(fitted, section):
            text = Text()
            for column, cell in enumerate(line):
                is_dim = is_head or (column == 0 and not section.header and len(line) > 1)
                text.append(cell if column == 0 else f"{_GAP}{cell}", "dim" if is_dim else "")
            text.rstrip()
            console.print(text, soft_wrap=True)
        for note in (*section.notes, *_left_out(fitted)):
            console.print(Text(printable(note), style="yellow"), soft_wrap=True)


def _marked(fitted: Fitted, section: Section) -> Iterator[tuple[tuple[str, ...], bool]]:
    """Every line, and whether it belongs to the header."""
    for number, lines in enumerate(fitted.lines):
        for line in lines:
            yield line, bool(section.header) and number == 0


def _left_out(fitted: Fitted) -> tuple[str, ...]:
    titles = [title or "details" for title in fitted.left_out]
    return (f"no room for {', '.join(titles)}; a wider terminal, a pipe or --json has all",) if titles else ()
