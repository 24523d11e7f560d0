"""Names that are nearly right: what to offer when a name is not found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

__all__ = ["nearest"]

_MOST_WORK = 4_000_000
"""Comparing two names takes time by the product of their lengths; this much is about a second at worst."""


def nearest(wanted: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names most like `wanted`, best first; empty if none is near. Bounded work, whatever the names."""
    from difflib import get_close_matches

    tail = wanted.rpartition("/")[2]
    pool = list(names)
    likely = [name for name in pool if tail and tail in name][:500] or pool[:2000]
    return get_close_matches(wanted, list(_affordable(wanted, likely)), count, 0.5)


def _affordable(wanted: str, names: Iterable[str]) -> Iterator[str]:
    left = _MOST_WORK
    for name in names:
        cost = len(wanted) * len(name)
        if cost <= left:
            left -= cost
            yield name
