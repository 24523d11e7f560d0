"""Shapes and slices of stored tensors: their keys (OrderedCode), their checks, and whether slices cover the whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

from tfsmith.errors import CorruptFileError
from tfsmith.limits import MAX_RANK

__all__ = [
    "FULL_EXTENT",
    "encode_slice_key",
    "decode_slice_key",
    "write_num",
    "read_num",
    "write_signed",
    "read_signed",
    "write_string",
    "read_string",
    "Box",
    "Extents",
    "box",
    "extents_of",
    "find_flaw",
    "fill_slice_proto",
]

FULL_EXTENT = (0, -1)
"""The extent (start, length) of a dimension that is not cut."""

_SEPARATOR = b"\x00\x01"
_SPECIAL = re.compile(rb"[\x00\xff]")
_MAX_SIGNED_BYTES = 10


def write_num(value: int) -> bytes:
    """A number from 0 to 2**64 - 1: how many bytes it takes, then these, highest first."""
    if not 0 <= value < 1 << 64:
        raise ValueError(f"{value} does not fit into 64 bits")
    payload = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes((len(payload),)) + payload


def read_num(data: bytes, position: int = 0) -> tuple[int, int]:
    """The number at `position`, and where it ends."""
    length = _byte(data, position, "a number")
    start, stop = position + 1, position + 1 + length
    if length > 8 or stop > len(data):
        raise _damaged("a number is cut off or too long")
    if length and data[start] == 0:
        raise _damaged("a number has a leading zero")
    return int.from_bytes(data[start:stop], "big"), stop


def write_signed(value: int) -> bytes:
    """A number of 64 bits with a sign.

    With n bytes in all, the first n bits give the length: ones for a number from 0 up, zeros for a negative one; the
    number itself, in two's complement, fills the rest.
    """
    if not -(1 << 63) <= value < 1 << 63:
        raise ValueError(f"{value} does not fit into 64 bits")
    size = (value if value >= 0 else ~value).bit_length() // 7 + 1
    return ((value & (1 << 8 * size) - 1) ^ _length_bits(size)).to_bytes(size, "big")


def read_signed(data: bytes, position: int = 0) -> tuple[int, int]:
    """The signed number at `position`, and where it ends."""
    first = _byte(data, position, "a signed number")
    bits = first << 8 | (data[position + 1] if position + 1 < len(data) else 0)
    if first < 0x80:
        bits ^= 0xFFFF
    size = 16 - (bits ^ 0xFFFF).bit_length()
    stop = position + size
    if size > _MAX_SIGNED_BYTES or stop > len(data):
        raise _damaged("a signed number is cut off or too long")
    value = int.from_bytes(data[position:stop], "big") ^ _length_bits(size)
    if first < 0x80:
        value -= 1 << 8 * size
    if not -(1 << 63) <= value < 1 << 63 or write_signed(value) != data[position:stop]:
        raise _damaged("a signed number is not written as it should be")
    return value, stop


def write_string(value: bytes) -> bytes:
    """The bytes with 00 as 00 FF and FF as FF 00, ended by 00 01."""
    return _SPECIAL.sub(lambda found: b"\x00\xff" if found[0] == b"\x00" else b"\xff\x00", value) + _SEPARATOR


def read_string(data: bytes, position: int = 0) -> tuple[bytes, int]:
    """The string at `position`, and where it ends."""
    out = []
    while True:
        special = _SPECIAL.search(data, position)
        if special is None:
            raise _damaged("a name has no end")
        out.append(data[position : special.start()])
        pair = data[special.start() : special.start() + 2]
        position = special.start() + 2
        if pair == _SEPARATOR:
            return b"".join(out), position
        if pair not in (b"\x00\xff", b"\xff\x00"):
            raise _damaged("a name has an escape that means nothing")
        out.append(pair[:1])


def encode_slice_key(name: str, extents: tuple[tuple[int, int], ...]) -> bytes:
    """The key under which a checkpoint stores a slice of a tensor.

    Args:
        name: The tensor's name.
        extents: Start and length in each dimension; `FULL_EXTENT` where it is not cut.
    """
    parts = [write_num(0), write_string(name.encode()), write_num(len(extents))]
    parts.extend(write_signed(number) for extent in extents for number in extent)
    return b"".join(parts)


def decode_slice_key(key: bytes, *, path: str | None = None) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The inverse of `encode_slice_key`.

    Raises:
        CorruptFileError: The bytes are no such key.
    """
    try:
        return _decode_slice_key(key)
    except (CorruptFileError, UnicodeDecodeError) as error:
        what = error.what if isinstance(error, CorruptFileError) else "a name is no UTF-8"
        remedy = "the file is damaged; fetch it again"
        where = f"key {key[:80]!r}"
        raise CorruptFileError(f"not a key of a slice ({what})", path=path, where=where, remedy=remedy) from error


def _decode_slice_key(key: bytes) -> tuple[str, tuple[tuple[int, int], ...]]:
    zero, position = read_num(key)
    if zero != 0:
        raise _damaged("it does not begin with 0")
    name, position = read_string(key, position)
    rank, position = read_num(key, position)
    if rank > MAX_RANK:
        raise _damaged(f"it has {rank} dimensions")
    extents = []
    for _ in range(rank):
        start, position = read_signed(key, position)
        length, position = read_signed(key, position)
        extents.append((start, length))
    if position != len(key):
        raise _damaged("something follows its end")
    return name.decode(), tuple(extents)


def _length_bits(size: int) -> int:
    return ((1 << size) - 1) << 7 * size


def _byte(data: bytes, position: int, what: str) -> int:
    if position >= len(data):
        raise _damaged(f"{what} is missing")
    return data[position]


def _damaged(what: str) -> CorruptFileError:
    return CorruptFileError(what, remedy="the file is damaged; fetch it again")


Extents = tuple[tuple[int, int], ...]
"""Start and length in each dimension, as a file says it; a length of -1 means all of it."""

Box = tuple[tuple[int, ...], tuple[int, ...]]
"""Starts and sizes, with real numbers throughout."""

_MAX_CORNERS = 1 << 22


def extents_of(proto: Any) -> Extents:
    """From a `TensorSliceProto`."""
    return tuple(
        (extent.start, extent.length) if extent.HasField("length") else (extent.start, -1) for extent in proto.extent
    )


def fill_slice_proto(proto: Any, extents: Extents) -> None:
    """Writes extents into an empty `TensorSliceProto`, as TensorFlow does."""
    for start, length in extents:
        extent = proto.extent.add()
        if length >= 0:
            extent.start = start
            extent.length = length


def box(extents: Extents, dims: tuple[int, ...]) -> Box | None:
    """Where a slice is in a whole of these dimensions; None if it is not inside."""
    if len(extents) != len(dims):
        return None
    sizes = tuple(dim if length < 0 else length for (_, length), dim in zip(extents, dims, strict=True))
    starts = tuple(start for start, _ in extents)
    if any(at < 0 or at + size > dim for at, size, dim in zip(starts, sizes, dims, strict=True)):
        return None
    return starts, sizes


def find_flaw(boxes: Sequence[Box], dims: tuple[int, ...]) -> str | None:
    """What is wrong with the way some boxes, all inside the whole, cover it; None if they do exactly once.

    Linear in the number of boxes. A box is given by its corners, signed by turns; boxes cover the whole exactly once if
    and only if all their corners cancel out except the corners of the whole.
    """
    if 0 in dims:  # nothing to cover
        return None
    whole: Box = (tuple(0 for _ in dims), dims)
    cut = [axis for axis, dim in enumerate(dims) if any(sizes[axis] != dim for _, sizes in boxes)]
    if len(boxes) << len(cut) > _MAX_CORNERS:
        return f"there are too many of them ({len(boxes)}, along {len(cut)} axes)"
    corners: dict[tuple[int, ...], int] = {}
    for starts, sizes in boxes:
        _add_corners(corners, cut, starts, sizes, 1)
    _add_corners(corners, cut, *whole, -1)
    if not any(corners.values()):
        return None
    covered, wanted = sum(prod(sizes) for _, sizes in boxes), prod(dims)
    return "they leave a hole" if covered < wanted else "they overlap"


def _add_corners(
    corners: dict[tuple[int, ...], int], cut: list[int], starts: tuple[int, ...], sizes: tuple[int, ...], count: int
) -> None:
    for ends in product((0, 1), repeat=len(cut)):
        corner = tuple(starts[axis] + end * sizes[axis] for axis, end in zip(cut, ends, strict=True))
        corners[corner] = corners.get(corner, 0) + (-count if sum(ends) % 2 else count)
