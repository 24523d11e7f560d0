"""`Span`: a checked range of a source. What a tensor is until someone asks for its values."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tfsmith.errors import TruncatedFileError
from tfsmith.records import record

if TYPE_CHECKING:
    from tfsmith.storage.source import Source

__all__ = ["Span"]

_PIECE = 1 << 18
_LARGE_FILE = 1 << 24
"""Pieces of a larger file are read, not looked up in its mapping: the system may map megabytes of it for a byte."""


@record(eq=False)
class Span:
    """Bytes `start` to `stop` of a source. Holding a span keeps the source's mapping alive."""

    source: Source
    start: int
    stop: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.stop <= self.source.size:
            raise TruncatedFileError(
                f"bytes {self.start} to {self.stop} are wanted, but the file ends at {self.source.size}",
                path=self.source.name,
                offset=self.source.size,
                remedy="the file is cut off or damaged; fetch it again",
            )

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def name(self) -> str:
        """The name of the source, for messages."""
        return self.source.name

    def view(self) -> memoryview:
        """The bytes, read-only and without a copy; pages are read when touched."""
        return self.source.buffer[self.start : self.stop]

    def tobytes(self) -> bytes:
        """A copy of the bytes."""
        if len(self) <= _PIECE and self.source.size > _LARGE_FILE:
            return next(self.chunks(_PIECE), b"")
        return self.source.buffer[self.start : self.stop].tobytes()

    def chunks(self, size: int = _PIECE) -> Iterator[bytes]:
        """The bytes in pieces of at most `size`; memory stays at a few pieces, whatever the span's length.

        A megabyte at a time takes half as long again: so large a piece is memory fresh from the system each time.
        """
        descriptor = self.source.fileno()
        for start in range(self.start, self.stop, size):
            stop = min(start + size, self.stop)
            piece = b"" if descriptor is None else os.pread(descriptor, stop - start, start)
            yield piece if len(piece) == stop - start else self.source.buffer[start:stop].tobytes()

    def sub(self, start: int, stop: int, what: str = "a field") -> Span:
        """The part from `start` to `stop`, counted from this span's own start.

        Raises:
            TruncatedFileError: The part does not lie inside this span.
        """
        if not 0 <= start <= stop <= self.stop - self.start:
            raise TruncatedFileError(
                f"{what} reaches to byte {self.start + stop}, past the end of what holds it ({self.stop})",
                path=self.source.name,
                offset=self.start + start,
                remedy="the file is cut off or damaged; fetch it again",
            )
        return Span(self.source, self.start + start, self.start + stop)
