"""`Part`: a piece of a model that stays bytes until someone asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from tfsmith.storage.span import Span

__all__ = ["Part"]

T = TypeVar("T")


class Part(Generic[T]):
    """A value that is decoded on first use, with the bytes that it came from.

    Attributes:
        raw: The fields of the file that hold it, tags included, to be written back verbatim. None for a part that was
            made or changed in memory, which is encoded afresh.
    """

    __slots__ = ("_load", "_value", "raw")

    def __init__(self, load: Callable[[], T], raw: tuple[Span, ...] | None) -> None:
        self._load: Callable[[], T] | None = load
        self._value: T | None = None
        self.raw = raw

    @staticmethod
    def of(value: T) -> Part[T]:
        """A part made in memory."""
        return Part(lambda: value, None)

    @property
    def value(self) -> T:
        """The decoded value; decoding happens once."""
        if self._load is not None:
            self._value, self._load = self._load(), None
        return self._value  # type: ignore[return-value]  # set by _load, and T may itself be None
