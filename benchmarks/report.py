"""Rows of figures, as a table for people and as JSON for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field

from benchmarks.measure import Figures

__all__ = ["Goal", "Row", "at_most", "faster", "table", "to_json", "under", "within"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What was promised: in words, the figure that came out, and whether that is enough."""

    words: str
    figure: str
    is_met: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One comparison.

    Attributes:
        topic: Which file measured it.
        what: What was done.
        ours: What we took.
        peer_name: Who else did it; "" for nobody.
        peer: What they took.
        goals: What was promised about it; none where the figure is only told.
    """

    topic: str
    what: str
    ours: Figures
    peer_name: str = ""
    peer: Figures | None = None
    goals: Sequence[Goal] = field(default=())


def faster(times: float, ours: Figures, peer: Figures) -> Goal:
    """That we are so many times faster, by the best times."""
    ratio = peer.best / ours.best
    return Goal(f"{times:g} times faster", f"{ratio:.1f} times", ratio >= times)


def at_most(times: float, ours: Figures, peer: Figures, what: str) -> Goal:
    """That we take at most so many times what the peer takes, by the best times."""
    ratio = ours.best / peer.best
    return Goal(f"at most {times:g} times {what}", f"{ratio:.2f} times", ratio <= times)


def within(seconds: float, ours: Figures) -> Goal:
    """That the best time is short enough."""
    return Goal(f"under {seconds:g} s", f"{ours.best:.3f} s", ours.best < seconds)


def under(megabytes: float, ours: Figures) -> Goal:
    """That the peak of memory is low enough."""
    peak = ours.peak_bytes / 1e6
    return Goal(f"under {megabytes:g} MB", f"{peak:.0f} MB", peak < megabytes)


def table(rows: Iterable[Row], *, judged: bool = True) -> str:
    """A table in Markdown. Times are "best (median)"; `judged` says whether goals apply to these sizes at all."""
    head = ("what", "tfsmith", "peak", "peer", "its time", "its peak", "ratio", "goal", "met")
    lines = [head, tuple("---" for _ in head)]
    for row in rows:
        peer = row.peer
        cells = (
            row.what,
            _time(row.ours),
            _peak(row.ours),
            row.peer_name or "-",
            "-" if peer is None else _time(peer),
            "-" if peer is None else _peak(peer),
            "-" if peer is None else _ratio(row.ours, peer),
        )
        goals = [("-", "-"), *((f"{goal.words}: {goal.figure}", _verdict(goal, judged)) for goal in row.goals)]
        lines.append((*cells, *(goals[1] if row.goals else goals[0])))
        lines += [(*("" for _ in cells), *goal) for goal in goals[2:]]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _verdict(goal: Goal, judged: bool) -> str:
    return "not judged" if not judged else "yes" if goal.is_met else "**no**"


def _time(figures: Figures) -> str:
    return f"{_seconds(figures.best)} ({_seconds(figures.median)})"


def _seconds(value: float) -> str:
    return f"{value * 1e3:.0f} ms" if value < 1 else f"{value:.2f} s"


def _peak(figures: Figures) -> str:
    return f"{figures.peak_bytes / 1e6:.0f} MB" if figures.peak_bytes else "-"


def _ratio(ours: Figures, peer: Figures) -> str:
    """How many times our time the peer takes, by best and by median."""
    return f"{peer.best / ours.best:.2f} ({peer.median / ours.median:.2f})"


def to_json(rows: Iterable[Row]) -> list[dict[str, object]]:
    """The same as plain data, with every single time."""
    return [asdict(row) for row in rows]
