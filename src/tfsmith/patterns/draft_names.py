"""Names for the parts of a drafted recipe, from the names of two layers: `layer_{i}/attention/self/query/kernel`."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

__all__ = ["from_block_on", "is_made_unique", "local_name", "rule_of", "rules_of_units"]

_NUMBER = re.compile(r"([0-9]{1,9})")
_READ = re.compile(r"/(Read/ReadVariableOp|ReadVariableOp(_\d+)?|read)$")
_COPY = re.compile(r"_[0-9]{1,6}")


def rule_of(first: str, second: str) -> str | None:
    """What two names have in common, with `{i}` for the number that counts layers; None if there is no such number."""
    words, others = first.split("/"), second.split("/")
    if len(words) != len(others):
        return None
    found: list[str] = []
    steps: set[int] = set()
    for word, other in zip(words, others, strict=True):
        if _COPY.fullmatch(other.removeprefix(word)):  # TensorFlow counts dense, dense_1, dense_2
            steps.add(int(other[len(word) + 1 :]))
            found.append(f"{word}_{{i}}")
            continue
        parts, changed = _NUMBER.split(word), _NUMBER.split(other)
        if len(parts) != len(changed) or parts[::2] != changed[::2]:
            return None
        text = ""
        for at, (part, new) in enumerate(zip(parts, changed, strict=True)):
            steps |= {int(new) - int(part)} if at % 2 and part != new else set()
            text += "{i}" if at % 2 and part != new else new
        found.append(text)
    return "/".join(found) if len(steps) == 1 else None


def local_name(rule: str | None, op: str) -> str:
    """A short name for a node or tensor inside of its layer: what follows the layer's own scope."""
    if rule is None:
        return op.lower()
    text = _READ.sub("", rule)
    before, mark, rest = text.rpartition("{i}")
    if not mark:
        return text.rpartition("/")[2] or op.lower()
    scope, slash, name = rest.partition("/")
    if slash and not scope:
        return name
    stem = before.rpartition("/")[2]
    return "/".join(part for part in (scope.strip("_.") or stem.strip("_."), name) if part) or op.lower()


class _Number(NamedTuple):
    """A number in the names of all blocks: what it is in the first, and by how much it goes up with each."""

    start: int
    step: int


def rules_of_units(names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Rules for names, as `ir.name_rule` has them.

    Args:
        names: For each input of a block, what it is called in the first block, the second, and so on to the last.

    Returns:
        For each input whose names are counted evenly, its rule. `{i}` is what most of them count.
    """
    found = {name: parts for name, texts in names.items() if (parts := _counted(texts)) is not None}
    starts = Counter(
        part.start for parts in found.values() for part in parts if isinstance(part, _Number) and part.step == 1
    )
    first = starts.most_common(1)[0][0] if starts else 0
    return {name: "".join(_text(part, first) for part in parts) for name, parts in found.items()}


def _counted(names: Sequence[str]) -> list[str | _Number] | None:
    """A name in parts, of which some are numbers that go up evenly; None if the names differ otherwise."""
    rows = [_NUMBER.split(name) for name in _with_zeros(names)]
    if len({len(row) for row in rows}) != 1:
        return None
    found: list[str | _Number] = []
    has_number = False
    for at, column in enumerate(zip(*rows, strict=True)):
        if len(set(column)) == 1:
            found.append(column[0])
            continue
        values = [int(text) for text in column] if at % 2 else []
        step = values[1] - values[0] if values else 0
        if step < 1 or any(later - value != step for value, later in itertools.pairwise(values)):
            return None
        found.append(_Number(values[0], step))
        has_number = True
    return found if has_number else None


def _with_zeros(names: Sequence[str]) -> list[str]:
    """TensorFlow counts dense, dense_1, dense_2; that is dense_0, dense_1, dense_2."""
    first, *others = (name.split("/") for name in names)
    if not others or any(len(words) != len(first) for words in others):
        return list(names)
    filled = [
        f"{word}_0" if _COPY.fullmatch(other.removeprefix(word)) and other != word else word
        for word, other in zip(first, others[0], strict=True)
    ]
    return ["/".join(filled), *names[1:]]


def _text(part: str | _Number, first: int) -> str:
    if isinstance(part, str):
        return part
    offset = part.start - part.step * first
    return f"{{{part.step if part.step > 1 else ''}i{f'{offset:+d}' if offset else ''}}}"


def is_made_unique(rule: str) -> bool:
    """Whether a rule counts otherwise than block by block, as names do that TensorFlow made unique."""
    return "{i}" not in rule or rule.count("{") != rule.count("{i}")


def from_block_on(rule: str) -> str:
    """A rule without the scopes that are the same for all blocks; what a model is called differs."""
    words = rule.split("/")
    at = next((number for number, word in enumerate(words) if "{" in word), 0)
    return "/".join(words[at:])
