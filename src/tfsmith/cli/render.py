"""Sections of text and tables: plain in a pipe, coloured on a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from tfsmith.cli.common import emit
from tfsmith.view.text import Section, plain_text, printable

__all__ = ["Section", "print_sections"]


def print_sections(sections: Iterable[Section | str]) -> None:
    """Prints lines and tables to stdout: with colours and fitted columns on a terminal, as plain text otherwise."""
    report = list(sections)
    if sys.stdout.isatty() and any(isinstance(part, Section) for part in report):
        _print_rich(report)
    else:
        emit(plain_text(report), exact=True)


def _print_rich(report: Sequence[Section | str]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    last: Section | str = ""
    for section in report:
        if isinstance(section, str):
            console.print(Text(printable(section)))
            last = section
            continue
        if isinstance(last, Section):
            console.print()
        last = section
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
