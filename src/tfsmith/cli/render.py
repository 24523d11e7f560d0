"""Sections of text and tables: plain in a pipe, coloured on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tfsmith.cli.common import emit, printable
from tfsmith.records import record

__all__ = ["Section", "print_sections"]

_WIDEST = 160
"""Cells are filled up to this width at most: a single name of a megabyte would make every row that long."""


@record
class Section:
    """A titled table; `header` may be empty, and `notes` are lines below it."""

    title: str
    rows: Sequence[tuple[str, ...]] = ()
    header: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    right: frozenset[int] = frozenset()
    """Columns that are aligned to the right."""


def print_sections(sections: Sequence[Section]) -> None:
    """Prints to stdout: with colours and fitted columns on a terminal, as plain aligned text otherwise."""
    if sys.stdout.isatty():
        _print_rich(sections)
    else:
        emit("\n".join(_plain(section) for section in sections), exact=True)


def _plain(section: Section) -> str:
    rows = [tuple(map(printable, row)) for row in ((section.header, *section.rows) if section.header else section.rows)]
    columns = max((len(row) for row in rows), default=0)
    widths = [max((len(row[column]) for row in rows if column < len(row)), default=0) for column in range(columns)]
    widths = [min(width, _WIDEST) for width in widths]
    lines = [printable(section.title)] if section.title else []
    for row in rows:
        cells = [
            cell.rjust(widths[column]) if column in section.right else cell.ljust(widths[column])
            for column, cell in enumerate(row)
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    lines += [f"  {printable(note)}" for note in section.notes]
    return "\n".join(lines) + "\n"


def _print_rich(sections: Sequence[Section]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for number, section in enumerate(sections):
        if number:
            console.print()
        if section.title:
            console.print(Text(printable(section.title), style="bold cyan"))
        columns = max((len(row) for row in (section.header, *section.rows)), default=0)
        if columns:
            table = Table(box=None, show_header=bool(section.header), pad_edge=False, padding=(0, 2, 0, 0))
            for column in range(columns):
                title = section.header[column] if column < len(section.header) else ""
                style = "dim" if column == 0 and not section.header else None
                side = "right" if column in section.right else "left"
                table.add_column(title, justify=side, style=style, header_style="dim", overflow="fold")  # type: ignore[arg-type]
            for row in section.rows:
                table.add_row(*(Text(printable(cell)) for cell in row))
            console.print(table)
        for note in section.notes:
            console.print(Text(printable(note), style="yellow"))
