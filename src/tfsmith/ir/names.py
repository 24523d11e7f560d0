"""Names that are nearly right: what to offer when a name is not found."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["nearest"]


def nearest(wanted: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names most like `wanted`, best first; empty if none is near. Bounded work, whatever the number of names."""
    from difflib import get_close_matches

    tail = wanted.rpartition("/")[2]
    pool = list(names)
    likely = [name for name in pool if tail and tail in name][:500] or pool[:2000]
    return get_close_matches(wanted, likely, count, 0.5)
