"""Names for the parts of a drafted recipe, from the names of two layers: `layer_{i}/attention/self/query/kernel`."""

from __future__ import annotations

import re

__all__ = ["local_name", "rule_of"]

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
