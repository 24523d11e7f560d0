"""Other names for the tensors of a checkpoint: by a map, by regular expressions, or away with them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.names import nearest
from tfsmith.ir.variable_names import OBJECT_GRAPH_KEY

__all__ = ["PATTERN", "matching", "new_names"]

PATTERN = "re:"
"""A rule whose old name begins with this is a regular expression."""


def new_names(names: Collection[str], rules: Sequence[tuple[str, str]]) -> dict[str, str]:
    """What the tensors are called by these rules; those that keep their names are left out.

    Args:
        names: The names that there are.
        rules: Old and new name; or `re:` and a regular expression, and what takes the place of all that it finds. For
            each name the first rule that fits counts.

    Raises:
        NotFoundInModelError: A rule fits no name; the remedy has the nearest.
        UsageError: Two tensors would have one name, or a regular expression is none.
    """
    exact = {old: new for old, new in reversed(rules) if not old.startswith(PATTERN)}
    patterns = [(_compiled(old), new, old) for old, new in rules if old.startswith(PATTERN)]
    used: set[str] = set()
    found: dict[str, str] = {}
    for name in names:
        if name == OBJECT_GRAPH_KEY:
            continue
        if name in exact:
            used.add(name)
            found[name] = exact[name]
            continue
        for pattern, new, rule in patterns:
            if pattern.search(name):
                used.add(rule)
                found[name] = _replaced(pattern, new, name)
                break
    for old, _ in rules:
        if old not in used:
            raise _nothing(old, names, f"the rule {old!r} fits no tensor" if old.startswith(PATTERN) else None)
    _check_distinct(names, found)
    return {old: new for old, new in found.items() if old != new}


def _compiled(rule: str) -> re.Pattern[str]:
    text = rule[len(PATTERN) :]
    try:
        return re.compile(text)
    except re.error as error:
        what = f"{text!r} is no regular expression ({error})"
        raise UsageError(what, remedy="write re:PATTERN=REPLACEMENT in Python's syntax") from error


def _replaced(pattern: re.Pattern[str], new: str, name: str) -> str:
    try:
        return pattern.sub(new, name)
    except (re.error, IndexError) as error:
        what = f"{new!r} cannot take the place of what {pattern.pattern!r} finds ({error})"
        raise UsageError(what, remedy="use groups that the pattern has, as \\1 or \\g<name>") from error


def _check_distinct(names: Iterable[str], found: dict[str, str]) -> None:
    taken: dict[str, str] = {}
    for old in names:
        new = found.get(old, old)
        if not new:
            raise UsageError(f"tensor {old!r} would have no name", remedy="give it one")
        if new in taken:
            what = f"two tensors would be called {new!r}: {taken[new]!r} and {old!r}"
            raise UsageError(what, remedy="rename or drop one of them, or write a narrower pattern")
        taken[new] = old


def matching(names: Collection[str], globs: Sequence[str]) -> frozenset[str]:
    """The names that fit any of these globs.

    Raises:
        NotFoundInModelError: A glob fits none; the remedy has the nearest.
    """
    found: set[str] = set()
    for glob in globs:
        fitting = {name for name in names if fnmatchcase(name, glob)} - {OBJECT_GRAPH_KEY}
        if not fitting:
            raise _nothing(glob, names)
        found |= fitting
    return frozenset(found)


def _nothing(wanted: str, names: Iterable[str], what: str | None = None) -> NotFoundInModelError:
    near = nearest(wanted.strip("*?").removeprefix(PATTERN), names)
    remedy = f"the nearest names are {', '.join(near)}" if near else "`tfsmith show --variables` lists them"
    return NotFoundInModelError(what or f"there is no tensor {wanted!r}", remedy=remedy)
