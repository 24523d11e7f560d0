"""A small writer of SVG, everything escaped; and names of repeated layers folded to `layer_{i}/dense/kernel`."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping

from tfsmith.records import record

__all__ = [
    "Canvas",
    "escape",
    "shorten",
    "text_width",
    "Folded",
    "TIMES",
    "fold_names",
    "scope_groups",
    "scope_numbers",
]

_CHARACTER = 6.7
"""The width of a character of the fixed-width font at 11 pixels, with a little room."""
_CONTROL = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 65534, 65535))
"""Characters that XML cannot hold."""

_STYLE = """
text { font: 11px "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1c2733; }
.title { font: bold 15px "DejaVu Sans", Helvetica, Arial, sans-serif; }
.head { font: bold 12px "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #44546a; }
.note { font: 11px "DejaVu Sans", Helvetica, Arial, sans-serif; fill: #66758a; }
.small { fill: #66758a; font-size: 10px; }
.box { fill: #f4f7fb; stroke: #8aa0b8; }
.seed { fill: #fff4dc; stroke: #d49a1f; stroke-width: 1.5; }
.barrier { fill: #e9f6ec; stroke: #57a66b; }
.idle { fill: #f3f3f3; stroke: #b5b5b5; }
.target { fill: #eef0ff; stroke: #5b63c7; stroke-width: 1.5; }
.port { fill: #5b63c7; }
.edge { fill: none; stroke: #9fb0c3; }
.carry { fill: none; stroke: #d49a1f; stroke-dasharray: 5 4; stroke-width: 1.5; }
.map { fill: none; stroke: #57a66b; stroke-width: 1.5; }
.use { fill: none; stroke: #c9d6c9; }
.out { fill: none; stroke: #d49a1f; stroke-width: 1.5; }
"""
_ARROW = (
    '<marker id="{0}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    '<path d="M0 0 L8 4 L0 8 z" fill="{1}"/></marker>'
)


def escape(text: str) -> str:
    """Text escaped for XML."""
    text = text.translate(_CONTROL).encode("utf-8", "replace").decode()
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")


def text_width(text: str) -> float:
    """Roughly how wide a line is drawn."""
    return len(text) * _CHARACTER


def shorten(text: str, most: int) -> str:
    """The text, cut in its middle where it is longer than can be read."""
    if len(text) <= most:
        return text
    half = (most - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


class Canvas:
    """Collects shapes; `svg` returns the drawing. Lines are under boxes, so that all text can be read."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._shapes: list[str] = []
        self.width = 0.0
        self.height = 0.0

    def box(
        self,
        x: float,
        y: float,
        width: float,
        lines: Iterable[str],
        *,
        kind: str,
        hint: str = "",
        round_: float = 4,
        room: float = 0,
    ) -> float:
        """A box with lines of text, the first dark and the others small, and room below; returns its height."""
        listed = list(lines)
        height = 10 + 14 * len(listed) + room
        self._add(
            f'<g><title>{escape(hint or listed[0])}</title><rect class="{kind}" x="{x:.1f}" y="{y:.1f}" '
            f'width="{width:.1f}" height="{height:.1f}" rx="{round_:g}"/>',
            x + width,
            y + height,
        )
        for number, line in enumerate(listed):
            self.text(x + 8, y + 16 + 14 * number, line, kind="small" if number else "")
        self._shapes.append("</g>")
        return height

    def text(self, x: float, y: float, text: str, *, kind: str = "") -> None:
        """A line of text that starts there."""
        name = f' class="{kind}"' if kind else ""
        self._add(f'<text{name} x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>', x + text_width(text), y)

    def dot(self, x: float, y: float) -> None:
        """The place at which a target takes an input."""
        self._add(f'<circle class="port" cx="{x:.1f}" cy="{y:.1f}" r="3"/>', x, y)

    def down(self, start: tuple[float, float], stop: tuple[float, float], *, kind: str = "edge") -> None:
        """A curve that leaves downwards and arrives from above."""
        (x, y), (to_x, to_y) = start, stop
        bend = max(12.0, (to_y - y) / 2)
        self._curve(x, y, x, y + bend, to_x, to_y - bend, to_x, to_y, kind)

    def across(self, start: tuple[float, float], stop: tuple[float, float], *, kind: str) -> None:
        """A curve that leaves and arrives sideways."""
        (x, y), (to_x, to_y) = start, stop
        bend = (to_x - x) / 2
        self._curve(x, y, x + bend, y, to_x - bend, to_y, to_x, to_y, kind)

    def back(self, start: tuple[float, float], stop: tuple[float, float], left: float) -> None:
        """A curve around the left side, from the end of a repeated piece to its beginning."""
        (x, y), (to_x, to_y) = start, stop
        self._curve(x, y, left, y, left, to_y, to_x, to_y, "carry")

    def _curve(
        self, x: float, y: float, x1: float, y1: float, x2: float, y2: float, to_x: float, to_y: float, kind: str
    ) -> None:
        arrow = f' marker-end="url(#{kind})"' if kind != "use" else ""
        path = f"M{x:.1f} {y:.1f} C{x1:.1f} {y1:.1f} {x2:.1f} {y2:.1f} {to_x:.1f} {to_y:.1f}"
        self._lines.append(f'<path class="{kind}" d="{path}"{arrow}/>')
        self._grow(max(x, to_x), max(y, to_y))

    def _add(self, shape: str, right: float, bottom: float) -> None:
        self._shapes.append(shape)
        self._grow(right, bottom)

    def _grow(self, right: float, bottom: float) -> None:
        self.width = max(self.width, right)
        self.height = max(self.height, bottom)

    def svg(self) -> str:
        """The whole drawing, as a file of its own."""
        width, height = self.width + 20, self.height + 20
        colors = {"edge": "#9fb0c3", "carry": "#d49a1f", "map": "#57a66b", "out": "#d49a1f"}
        arrows = "".join(_ARROW.format(kind, color) for kind, color in colors.items())
        body = "\n".join([*self._lines, *self._shapes])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}">\n<style>{_STYLE}</style>\n<defs>{arrows}</defs>\n'
            f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
        )


_NUMBER = re.compile(r"(?<=[^/\d])\d+(?=/)")
_LETTERS = "ijklmn"
TIMES = "\N{MULTIPLICATION SIGN}"


@record
class Folded:
    """One or several names that are drawn as one.

    Attributes:
        title: The name, with `{i}` where it was a number.
        names: What it represents, in order.
    """

    title: str
    names: tuple[str, ...]


def fold_names(names: Iterable[str], kinds: Mapping[str, Hashable] | None = None) -> list[Folded]:
    """Folds names whose scopes are numbered; in order of first appearance, linear.

    Args:
        names: The names.
        kinds: What a name is (its op, for example); only names of one kind are folded.
    """
    found: dict[tuple[str, Hashable], list[str]] = {}
    for name in names:
        found.setdefault((_template(name), (kinds or {}).get(name)), []).append(name)
    return [
        Folded(template if len(members) > 1 else members[0], tuple(members)) for (template, _), members in found.items()
    ]


def scope_numbers(name: str) -> tuple[str, ...]:
    """The numbers of the scopes that a name is in."""
    return tuple(_NUMBER.findall(name))


def _template(name: str) -> str:
    letters = iter(_LETTERS)
    return _NUMBER.sub(lambda found: "{" + next(letters, "n") + "}", name)


def scope_groups(titles: Iterable[str], most: int) -> dict[str, str]:
    """For each title, the scope that it is drawn in: as deep as possible with at most `most` of them.

    A title that has no such deep scope is kept. Where no title has scopes, the words of the names, which `_`
    joins, are as good.
    """
    listed = list(titles)
    mark = "/" if any("/" in title for title in listed) else "_"
    deepest = max((title.count(mark) for title in listed), default=0)
    for depth in range(deepest, -1, -1):
        groups = {title: _scope(title, depth, mark) for title in listed}
        if len(set(groups.values())) <= most or depth == 0:
            return groups
    return {}


def _scope(title: str, depth: int, mark: str) -> str:
    parts = title.split(mark)
    return title if len(parts) <= depth + 1 else mark.join(parts[: depth + 1])
