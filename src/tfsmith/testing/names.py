"""Name scopes and unique names, as TensorFlow 1 gives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["Names"]


class Names:
    """Hands out names. The first to ask for "add" gets it, the next "add_1"; letter case does not count.

    Attributes:
        scope: The scope that is open, such as "bert/encoder"; "" outside of all.
    """

    def __init__(self) -> None:
        self.scope = ""
        self._used: dict[str, int] = {}

    def unique(self, name: str) -> str:
        """A full name in the open scope that nothing has yet."""
        full = f"{self.scope}/{name}" if self.scope else name
        key = full.lower()
        count = self._used.get(key, 0)
        self._used[key] = count + 1
        if not count:
            return full
        while f"{key}_{count}" in self._used:
            count += 1
        self._used[f"{key}_{count}"] = 1
        return f"{full}_{count}"

    @contextmanager
    def enter(self, name: str) -> Iterator[str]:
        """Opens a scope: a new one inside the open one, or, for a name that ends in "/", exactly that one.

        Gives its full name with "/" at the end; a node of that very name can then be added (see `GraphBuilder.node`).
        """
        before = self.scope
        self.scope = name[:-1] if name.endswith("/") else self.unique(name)
        try:
            yield f"{self.scope}/"
        finally:
            self.scope = before

    @contextmanager
    def at_root(self) -> Iterator[None]:
        """Leaves all scopes for a while."""
        before, self.scope = self.scope, ""
        try:
            yield
        finally:
            self.scope = before
