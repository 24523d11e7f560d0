"""Names with placeholders: `bert/encoder/layer_{n}/attention`."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tfsmith.errors import UsageError
from tfsmith.records import record

__all__ = ["Template"]

_HOLE = re.compile(r"\{(\w+)(?::(\w+))?\}")
_KINDS = {None: r"\d+", "word": r"[^/.]+", "path": r".+"}


@record
class Template:
    """A name in which `{n}` stands for a number, `{x:word}` for a word, `{x:path}` for anything."""

    text: str
    holes: tuple[str, ...]
    pattern: re.Pattern[str]

    @staticmethod
    def of(text: str) -> Template:
        """Reads a template.

        Raises:
            UsageError: A placeholder is of no known kind.
        """
        holes: list[str] = []
        pattern, at = "", 0
        for hole in _HOLE.finditer(text):
            pattern += re.escape(text[at : hole.start()])
            name, kind = hole[1], hole[2]
            if kind not in _KINDS:
                what = f"the placeholder {hole[0]} is of no known kind"
                raise UsageError(what, where=f"name {text!r}", remedy="write {n}, {x:word} or {x:path}")
            pattern += f"(?P={name})" if name in holes else f"(?P<{name}>{_KINDS[kind]})"
            holes += [] if name in holes else [name]
            at = hole.end()
        try:
            return Template(text, tuple(holes), re.compile(pattern + re.escape(text[at:])))
        except re.error as error:  # such as a placeholder whose name begins with a digit
            raise UsageError(f"{text!r} is no name with placeholders ({error})", remedy="write {n}") from error

    def match(self, name: str) -> dict[str, str] | None:
        """What the placeholders stand for in a name; None if it does not fit."""
        found = self.pattern.fullmatch(name)
        return None if found is None else found.groupdict()

    def fill(self, binding: Mapping[str, str]) -> str:
        """The name with its placeholders filled.

        Raises:
            UsageError: One of them is not bound: it is on one side of a rule only.
        """
        for hole in self.holes:
            if hole not in binding:
                what = f"the placeholder {{{hole}}} of {self.text!r} is not on the other side of its rule"
                raise UsageError(what, remedy="correct the map")
        return _HOLE.sub(lambda hole: binding[hole[1]], self.text)
