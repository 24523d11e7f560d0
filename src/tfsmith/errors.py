"""The whole tree of errors that bad input or a failed job can raise.

Every error says *what* is wrong, *where* (file, byte offset, node or tensor) and *what to do*. The three parts are
kept apart, so that a program can read them and the command line can print them as one line.

An error, or a note, that is about an option names it as the verb's function does, in braces: `{checkpoint}`,
`{force=True}`, `{min_elements=0}`. Python shows that as it is, the command line as its flags. A whole call is written
so, too, by `call`: `{show(model, outputs=True)}` is `tfsmith.show(model, outputs=True)` in Python, and a command where
one was typed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType
from typing import Any

from tfsmith.records import record

__all__ = [
    "BRACES",
    "Hint",
    "Speller",
    "call",
    "data_of",
    "in_python",
    "worded",
    "Note",
    "TfsmithError",
    "UsageError",
    "NotFoundInModelError",
    "UnreadableFileError",
    "WrongFileError",
    "CorruptFileError",
    "TruncatedFileError",
    "ChecksumError",
    "LimitError",
    "UnsupportedError",
    "InvalidModelError",
    "OutputError",
    "EngineError",
    "nearest",
    "shortened",
]

Speller = Callable[[str, "str | None"], str]
"""How an option is given, by its name in Python and its value, if that is spoken of; or a call of a verb, as a name
with its arguments in parentheses."""
_OPTION = r"\{([a-z]\w+(?:\([^{}]*\))?)(?:=([^{}]*))?\}"

_OPEN, _CLOSE = "\ue000", "\ue001"
BRACES = MappingProxyType({ord(_OPEN): "{", ord(_CLOSE): "}"})
"""What stands for braces inside of a call; `str.translate` takes it."""


def in_python(name: str, value: str | None) -> str:
    """An option as an argument in Python; a call as it is."""
    if name.endswith(")"):
        if name.startswith("weights("):  # the package has the verb's name
            name = f"load_{name}"
        return f"`tfsmith.{name.translate(BRACES).replace('(MODEL', '(model')}`"
    return f"{name}=" if value is None else f"{name}={value}"


def call(function: str, /, *given: Any, **options: Any) -> str:
    """A call of a public function in an error, a note or a remedy, as data, which each door words as its own.

    Args:
        function: Its name.
        given: What it gets by place: paths, or the word `MODEL`, or `model`, which the command line leaves out.
        options: What it gets by name.
    """
    words = [str(one) if str(one) in ("MODEL", "model") else repr(str(one)) for one in given]
    words += [f"{name}={value!r}" for name, value in options.items()]
    inside = ", ".join(words).replace("{", _OPEN).replace("}", _CLOSE)
    return f"{{{function}({inside})}}"


def worded(text: str, spell: Speller = in_python) -> str:
    """A text with the options in it as a door spells them.

    Args:
        text: What an error or a note says, with options in braces.
        spell: Takes an option's name in Python, and its value if there is one, and says how to give it. By default as
            an argument in Python.
    """
    text = data_of(text)
    return re.sub(_OPTION, lambda found: spell(found[1], found[2]), text) if "{" in text else text


def data_of(text: str) -> str:
    """A text with its options in braces, as it was written."""
    return text.data if isinstance(text, Hint) else text


class Hint(str):
    """A text that names options: as Python words it, and as data for who words it otherwise.

    Attributes:
        data: The text with options in braces; see `worded`.
    """

    data: str

    def __new__(cls, text: str) -> Hint:
        """The text as Python words it."""
        made = str.__new__(cls, worded(text))
        made.data = data_of(text)
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return Hint, (self.data,)


@record
class Note:
    """Something that the user should know about the result: what, which nodes, and what to do."""

    what: str
    nodes: tuple[str, ...]
    remedy: str

    def __str__(self) -> str:
        return self.worded()

    def worded(self, spell: Speller = in_python) -> str:
        """The note as one line, with options as a door spells them; by default as arguments in Python."""
        shown = ", ".join(self.nodes[:3]) + (f" and {len(self.nodes) - 3} more" if len(self.nodes) > 3 else "")
        what, remedy = worded(self.what, spell), worded(self.remedy, spell)
        return f"{what}: {shown}; {remedy}" if shown else f"{what}; {remedy}"


class TfsmithError(Exception):
    """The base of every error that bad input or a failed job raises.

    Args:
        what: What is wrong, as a sentence without a final stop.
        path: The file concerned, if there is one.
        offset: The byte offset in that file, if known.
        where: The node, tensor, key or line concerned, in words ("node 'a/b'").
        remedy: What to do about it.
    """

    def __init__(
        self,
        what: str,
        *,
        path: str | os.PathLike[str] | None = None,
        offset: int | None = None,
        where: str | None = None,
        remedy: str | None = None,
    ) -> None:
        self.what: str = Hint(what)
        self.path = None if path is None else os.fspath(path)
        self.offset = offset
        self.where = where
        self.remedy: str | None = None if remedy is None else Hint(remedy)
        super().__init__(self._render())

    def at(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        offset: int | None = None,
        where: str | None = None,
        remedy: str | None = None,
    ) -> TfsmithError:
        """The same error, with a place or remedy that who raised it did not know; what is None stays as it is."""
        self.path = self.path if path is None else os.fspath(path)
        self.offset = self.offset if offset is None else offset
        self.where = self.where if where is None else where
        self.remedy = self.remedy if remedy is None else Hint(remedy)
        self.args = (self._render(),)
        return self

    def worded(self, spell: Speller) -> str:
        """The error as one line, with options as a door spells them."""
        return self._render(spell)

    def _render(self, spell: Speller = in_python) -> str:
        """One line of at most `LONGEST` characters: the longest parts lose their middles."""
        what, remedy = worded(self.what, spell), worded(self.remedy or "", spell)
        parts = {"path": self.path or "", "where": self.where or "", "what": what, "remedy": remedy}
        parts = {name: _printable(part) for name, part in parts.items()}
        while (over := len(self._joined(parts)) - LONGEST) > 0:
            name = max(parts, key=lambda name: len(parts[name]))
            size = len(parts[name])
            other = max(len(part) for key, part in parts.items() if key != name)
            parts[name] = _elided(parts[name], max(size - over, min(other, size - 1)))
        return self._joined(parts)

    def _joined(self, parts: dict[str, str]) -> str:
        place = [parts["path"]] if parts["path"] else []
        if self.offset is not None:
            place.append(f"byte {self.offset}")
        if parts["where"]:
            place.append(parts["where"])
        head = ", ".join(place)
        text = f"{head}: {parts['what']}" if head else parts["what"]
        return f"{text}; {parts['remedy']}" if parts["remedy"] else text


LONGEST = 290
"""So long is the text of an error at most, which leaves room for what a door puts before it."""


_CUT = " [...] "


def _printable(text: str) -> str:
    """The text on one line: names of a model may hold line breaks, and what commands a terminal."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _elided(text: str, size: int) -> str:
    """The text with its middle left out where it is longer than this."""
    if len(text) <= size:
        return text
    room = max(0, size - len(_CUT))
    head = room * 2 // 3
    return f"{text[:head]}{_CUT}{text[len(text) - (room - head) :]}"


class UsageError(TfsmithError):
    """The call is invalid or incomplete."""


class NotFoundInModelError(TfsmithError):
    """A name (node, signature, tag set, variable) is not in the model."""


class UnreadableFileError(TfsmithError):
    """A file is missing, or the operating system will not let us read it."""


class WrongFileError(TfsmithError):
    """The file is sound but is not the one to pass; the remedy names the right one."""


class CorruptFileError(TfsmithError):
    """The bytes break the rules of their format."""


class TruncatedFileError(CorruptFileError):
    """A length points past the end of what holds it."""


class ChecksumError(CorruptFileError):
    """A stored checksum does not fit the bytes."""


class LimitError(TfsmithError):
    """The input goes past a cap of `tfsmith.limits`, or past what the format can hold."""


class UnsupportedError(TfsmithError):
    """The file is sound, but holds something that cannot be done with it."""


class InvalidModelError(TfsmithError):
    """The model breaks a rule of TensorFlow's: duplicate nodes, missing inputs, impossible shapes."""


class OutputError(TfsmithError):
    """The result could not be written; what was there before is untouched."""


class EngineError(TfsmithError):
    """An engine is not installed, lacks what the model needs, or failed while it ran."""


_MOST_WORK = 4_000_000
"""Comparing two names takes time by the product of their lengths; this much is about a second at worst."""


def nearest(wanted: str, names: Iterable[str], count: int = 3) -> list[str]:
    """The names most like `wanted`, best first; empty if none is near. Bounded work, whatever the names."""
    from difflib import get_close_matches

    tail = wanted.rpartition("/")[2]
    pool = list(names)
    likely = [name for name in pool if tail and tail in name][:500] or pool[:2000]
    return get_close_matches(wanted, list(_affordable(wanted, likely)), count, 0.5)


def shortened(names: Sequence[str], size: int = 120) -> str:
    """The first of some names, joined by commas, and how many more there are: at least one, about `size` characters."""
    shown: list[str] = []
    for name in names:
        if shown and sum(map(len, shown)) + 2 * len(shown) + len(name) > size:
            break
        shown.append(name)
    left = len(names) - len(shown)
    return ", ".join(shown) + (f" and {left} more" if left else "")


def _affordable(wanted: str, names: Iterable[str]) -> Iterator[str]:
    left = _MOST_WORK
    for name in names:
        cost = len(wanted) * len(name)
        if cost <= left:
            left -= cost
            yield name
