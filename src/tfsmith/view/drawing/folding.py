"""Repeated layers folded: names that differ in the number of a scope become one, as `layer_{i}/dense/kernel`."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping

from tfsmith.records import record

__all__ = ["Folded", "TIMES", "fold_names", "scope_groups", "scope_numbers"]

_NUMBER = re.compile(r"(?<=[^/\d])\d+(?=/)")
_LETTERS = "ijklmn"
TIMES = "\N{MULTIPLICATION SIGN}"


@record
class Folded:
    """One or several names that are drawn as one.

    Attributes:
        title: The name, with `{i}` where it was a number.
        names: What it stands for, in order.
    """

    title: str
    names: tuple[str, ...]


def fold_names(names: Iterable[str], kinds: Mapping[str, Hashable] | None = None) -> list[Folded]:
    """Folds names whose scopes are numbered; in order of first appearance, linear.

    Args:
        names: The names.
        kinds: What a name stands for (its op, say); only names of one kind are folded.
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

    A title that has no such deep scope stands for itself. Where no title has scopes, the words of the names, which `_`
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
