"""What `tfsmith show` costs as models grow: linear in the nodes, flat in the bytes of the weights."""

from __future__ import annotations

import shutil

from benchmarks.measure import Command, Figures, script
from benchmarks.report import Goal, Row
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "scaling"
_SLACK = 2.0
"""How much more the last step may cost for each node than the one before, and still be called linear.

Both are differences of noisy times, so there must be room; where something is quadratic, it would be ten times.
"""
_FLAT = 1.2
_ROOM = 2.0
"""So many times a model's size must be free on the disk."""


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    return _graphs(setup) + _checkpoints(setup)


def _graphs(setup: Setup) -> list[Row]:
    sizes = (100, 1000, 10_000) if setup.quick else (1000, 10_000, 100_000)
    turns = (6, 6, 3)
    commands = {
        str(size): Command(script("tfsmith", "show", setup.models.graph(size)), turns=turn)
        for size, turn in zip(sizes, turns, strict=True)
    }
    found = list(setup.compare(commands).values())
    steps = [
        (after.best - before.best) / (large - small)
        for before, after, small, large in zip(found, found[1:], sizes, sizes[1:], strict=False)
    ]
    made = [Row(_TOPIC, f"show, graph of {sizes[0]:,} nodes", found[0])]
    for size, figures, step, before in zip(sizes[1:], found[1:], steps, [None, *steps], strict=False):
        words = f"linear (at most {_SLACK:g} times as much for each more node)"
        figure = f"{step * 1e6:.1f} us for each more node"
        goals = [] if before is None else [Goal(words, f"{figure}, {step / before:.2f} times", step <= _SLACK * before)]
        what = f"show, graph of {size:,} nodes" + ("" if goals else f" ({figure})")
        made.append(Row(_TOPIC, what, figures, f"{sizes[0]:,} nodes", found[0], goals))
    return made


def _checkpoints(setup: Setup) -> list[Row]:
    free = shutil.disk_usage(setup.output("x").parent).free
    wanted = (1, 10, 40) if setup.quick else (100, 1000, 4000)
    sizes = [size for size in wanted if size * 1e6 * _ROOM < free]
    prefixes = {size: setup.models.bare_checkpoint(size) for size in sizes}
    commands = {str(size): Command(script("tfsmith", "show", prefix), turns=5) for size, prefix in prefixes.items()}
    found = setup.compare(commands)
    setup.models.forget(prefixes[sizes[-1]])
    first, last = found[str(sizes[0])], found[str(sizes[-1])]
    made = []
    for size in sizes:
        figures = found[str(size)]
        goals = [_flat(first, last)] if size == sizes[-1] else []
        made.append(Row(_TOPIC, f"show, checkpoint of {size / 1000:g} GB", figures, "the smallest", first, goals))
    return made


def _flat(first: Figures, last: Figures) -> Goal:
    times = last.best / first.best
    return Goal(f"flat (at most {_FLAT:g} times the smallest)", f"{times:.2f} times", times <= _FLAT)
