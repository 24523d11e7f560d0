"""The geometry of partitioned variables: do their slices lie inside the whole, and cover it exactly once?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

__all__ = ["Box", "Extents", "box", "extents_of", "find_flaw", "fill_slice_proto"]

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
    """Where a slice lies in a whole of these dimensions; None if it does not lie inside."""
    if len(extents) != len(dims):
        return None
    sizes = tuple(dim if length < 0 else length for (_, length), dim in zip(extents, dims, strict=True))
    starts = tuple(start for start, _ in extents)
    if any(at < 0 or at + size > dim for at, size, dim in zip(starts, sizes, dims, strict=True)):
        return None
    return starts, sizes


def find_flaw(boxes: Sequence[Box], dims: tuple[int, ...]) -> str | None:
    """What is wrong with the way some boxes, all inside the whole, cover it; None if they do exactly once.

    Linear in the number of boxes. A box is told by its corners, signed by turns; boxes cover the whole exactly once if
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
