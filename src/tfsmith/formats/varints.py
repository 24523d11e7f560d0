"""Runs of varints as arrays: the lengths of strings in checkpoints, packed integers in old ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfsmith.errors import CorruptFileError

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

__all__ = ["decode_varints"]

_MAX_BYTES = 10
_CHUNK = 1 << 20


def decode_varints(
    data: bytes | memoryview, count: int | None, *, path: str, offset: int
) -> tuple[NDArray[numpy.uint64], int]:
    """Decodes the first `count` varints of some bytes, or all of them.

    Args:
        data: The bytes.
        count: How many varints to take; with None the bytes must hold nothing else.
        path: The file, for errors.
        offset: Where the bytes stand in it, for errors.

    Returns:
        The numbers, and how many bytes they took. Memory is a few times that, whatever follows.

    Raises:
        CorruptFileError: There are fewer varints, or one is longer than ten bytes.
    """
    import numpy

    wanted = len(data) if count is None else min(len(data), count * _MAX_BYTES)
    raw = numpy.frombuffer(data, numpy.uint8, wanted)
    pieces: list[NDArray[numpy.uint64]] = []
    found = used = 0
    while used < wanted and (count is None or found < count):
        window = raw[used : used + _CHUNK]
        ends = numpy.flatnonzero(window < 0x80)
        if count is not None:
            ends = ends[: count - found]
        if not ends.size:
            break
        pieces.append(_decode(window, ends, path, offset + used))
        found += ends.size
        used += int(ends[-1]) + 1
    if found < count if count is not None else used < wanted:
        raise _damaged("a run of numbers is cut off", path, offset + used)
    return (numpy.concatenate(pieces) if pieces else numpy.zeros(0, numpy.uint64)), used


def _decode(window: NDArray[numpy.uint8], ends: NDArray[Any], path: str, offset: int) -> NDArray[numpy.uint64]:
    """The varints that end at `ends`, which begin at the first byte and follow each other."""
    import numpy

    if int(ends[-1]) + 1 == ends.size:  # one byte each
        return window[: ends.size].astype(numpy.uint64)
    starts = numpy.concatenate((numpy.zeros(1, ends.dtype), ends[:-1] + 1))
    lengths = ends - starts + 1
    if int(lengths.max()) > _MAX_BYTES:
        raise _damaged("a number has over ten bytes", path, offset)
    values: NDArray[numpy.uint64] = (window[starts] & 0x7F).astype(numpy.uint64)
    for place in range(1, int(lengths.max())):
        longer = numpy.flatnonzero(lengths > place)
        values[longer] |= (window[starts[longer] + place] & 0x7F).astype(numpy.uint64) << numpy.uint64(7 * place)
    return values


def _damaged(what: str, path: str, offset: int) -> CorruptFileError:
    return CorruptFileError(what, path=path, offset=offset, remedy="the file is damaged; fetch it again")
