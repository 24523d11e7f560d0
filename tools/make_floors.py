"""Draws `docs/images/floors.svg` from the table of rooms in `docs/architecture.md`: `python -m tools.make_floors`.

Boxes have colours of their own and dark text; what is outside of them is a grey that can be read on white and on black.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

__all__ = ["PICTURE", "Room", "draw", "main", "rooms"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/architecture.md"
PICTURE = ROOT / "docs/images/floors.svg"
WIDTH, ROW, BOX, LEFT, GAP, RIGHT = 960, 66, 50, 48, 10, 210
_ROOM = re.compile(r"^\| (F\d|beside) \| `([^`]+)` \| ([^|]+?) \| ([^|]+?) \|$", re.MULTILINE)
_FILLS = ("#cfd8dc", "#bbdefb", "#b3e5fc", "#b2dfdb", "#c8e6c9", "#dcedc8", "#ffecb3", "#ffccbc")


class Room(NamedTuple):
    """A row of the table: the floor (None: beside the house), the names, what it is in a few words."""

    floor: int | None
    names: tuple[str, ...]
    words: str


def rooms() -> list[Room]:
    """The rooms of the table, in its order."""
    return [
        Room(None if floor == "beside" else int(floor[1]), tuple(re.findall(r"\w+(?=\.py|/)", names)), words)
        for floor, names, words, _ in _ROOM.findall(PAGE.read_text())
    ]


def draw(found: list[Room]) -> str:
    """The picture: a band for each floor, the lowest at the bottom, a box for each room."""
    floors = sorted({room.floor for room in found if room.floor is not None}, reverse=True)
    height = ROW * len(floors) + 34
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" role="img">',
        "<title>The floors of tfsmith: a room imports from lower floors only</title>",
        "<style>.name{font-weight:bold;font-size:16px;fill:#1a237e}.words{font-size:13px;fill:#263238}"
        ".side{font-size:15px;fill:#7f8c99}</style>",
    ]
    inner = WIDTH - LEFT - RIGHT
    for row, floor in enumerate(floors):
        top = row * ROW + 4
        here = [room for room in found if room.floor == floor]
        lines.append(f'<text class="side" x="8" y="{top + 31}">F{floor}</text>')
        wide = (inner - GAP * (len(here) - 1)) / len(here)
        for number, room in enumerate(here):
            lines += _box(LEFT + number * (wide + GAP), top, wide, room, _FILLS[floor % len(_FILLS)])
    beside = [room for room in found if room.floor is None]
    for number, room in enumerate(beside):
        lines += _box(WIDTH - RIGHT + 2 * GAP, 4 + number * ROW, RIGHT - 2 * GAP, room, "#eceff1")
    arrow = f"M{WIDTH - RIGHT + 40} {4 + len(beside) * ROW + 30}V{height - 48}m-5 -9l5 9l5 -9"
    lines += [
        f'<path d="{arrow}" fill="none" stroke="#7f8c99" stroke-width="2"/>',
        f'<text class="side" x="{WIDTH - RIGHT + 54}" y="{height // 2 + 40}">imports go down only</text>',
        f'<text class="side" x="{LEFT}" y="{height - 8}">bytes on the disk</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _box(left: float, top: float, wide: float, room: Room, fill: str) -> Iterator[str]:
    middle = left + wide / 2
    yield f'<rect x="{left:.0f}" y="{top}" width="{wide:.0f}" height="{BOX}" rx="6" fill="{fill}" stroke="#78909c"/>'
    name, words = escape(", ".join(room.names)), escape(room.words)
    yield f'<text class="name" x="{middle:.0f}" y="{top + 21}" text-anchor="middle">{name}</text>'
    yield f'<text class="words" x="{middle:.0f}" y="{top + 40}" text-anchor="middle">{words}</text>'


def main() -> int:
    PICTURE.write_text(draw(rooms()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
