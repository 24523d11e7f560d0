"""What a program keeps between its nodes and from run to run: random numbers, resources, files, what it prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

__all__ = ["State"]

_Kept = TypeVar("_Kept")


class State:
    """The state of one compiled program as one of its nodes sees it; it starts anew with each program.

    Attributes:
        node: The node's name.
        say: Takes a line that the program prints.
    """

    def __init__(self, node: str, kept: dict[tuple[str, str], Any], files: Callable[[bytes], Path],
                 say: Callable[[str], None]) -> None:  # fmt: skip
        self.node = node
        self.say = say
        self._kept = kept
        self._files = files

    def keep(self, kind: str, make: Callable[[], _Kept], name: str | None = None) -> _Kept:
        """What the program keeps under this name (the node's by default); `make` makes it the first time."""
        key = (kind, self.node if name is None else name)
        if key not in self._kept:
            self._kept[key] = make()
        found: _Kept = self._kept[key]
        return found

    def file(self, name: bytes) -> Path:
        """The file of this name, if it belongs to the model.

        Raises:
            OpError: It lies outside of the model, or is missing.
        """
        return self._files(name)
