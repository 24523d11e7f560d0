"""`Shape`: dimensions, any of which may be unknown, or an unknown number of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import prod
from operator import index
from typing import overload

from tfsmith.errors import UsageError
from tfsmith.limits import MAX_ELEMENTS, MAX_RANK
from tfsmith.records import Immutable, record

__all__ = ["Shape", "UNKNOWN", "SCALAR"]

_SHOWN = 16
"""So many dimensions are printed; a hostile file may claim millions."""


@record
class Shape(Immutable):
    """A shape, which compares, counts and iterates as a tuple of its sizes, where None is an unknown one.

    `dims` has the same sizes with -1 for an unknown one; it is None when even their number is unknown.
    """

    __remedy__ = "make another one"

    dims: tuple[int, ...] | None

    @staticmethod
    def of(dims: Iterable[int | None] | None) -> Shape:
        """From numbers, where None or -1 means unknown."""
        try:
            return UNKNOWN if dims is None else Shape(tuple(-1 if dim is None else index(dim) for dim in dims))
        except TypeError:
            raise UsageError(f"{dims!r} is no shape", remedy="pass sizes, such as (None, 3)") from None

    @property
    def rank(self) -> int | None:
        """How many dimensions, if known."""
        return None if self.dims is None else len(self.dims)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return self.dims is not None and min(self.dims, default=0) >= 0

    @property
    def elements(self) -> int | None:
        """How many elements, if every dimension is known."""
        return prod(self.dims) if self.dims is not None and self.is_static else None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shape):
            return self.dims == other.dims
        if isinstance(other, (tuple, list)):
            return self.dims is not None and self._sizes() == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(None if self.dims is None else self._sizes())

    def __len__(self) -> int:
        return len(self._sizes())

    def __bool__(self) -> bool:
        """False for a scalar, as the empty tuple."""
        return self.dims != ()

    def __iter__(self) -> Iterator[int | None]:
        return iter(self._sizes())

    @overload
    def __getitem__(self, at: int) -> int | None: ...
    @overload
    def __getitem__(self, at: slice) -> Shape: ...
    def __getitem__(self, at: int | slice) -> int | Shape | None:
        """A size, None if it is unknown; of a slice, the shape of those sizes."""
        found = self._sizes()[at]
        return Shape.of(found) if isinstance(found, tuple) else found

    def _sizes(self) -> tuple[int | None, ...]:
        if self.dims is None:
            raise UsageError("even the rank of this shape is unknown", remedy="look at shape.rank first")
        return tuple(None if dim < 0 else dim for dim in self.dims)

    def flaw(self) -> str | None:
        """Why no tensor can have this shape, or None: the rules are TensorFlow's own."""
        dims = self.dims or ()
        if len(dims) > MAX_RANK:
            return f"it has {len(dims)} dimensions, and no tensor has more than {MAX_RANK}"
        if dims and min(dims) < -1:
            return f"it has a dimension of {min(dims)}"
        if abs(prod(dims)) > MAX_ELEMENTS:
            return "it has more elements than can be counted"
        return None

    def __repr__(self) -> str:
        return f"Shape.of({None if self.dims is None else list(self._sizes()[:_SHOWN])})"

    def __str__(self) -> str:
        if self.dims is None:
            return "?"
        shown = ["?" if dim < 0 else str(dim) for dim in self.dims[:_SHOWN]]
        return "[" + ", ".join([*shown, "..."] if len(self.dims) > _SHOWN else shown) + "]"


UNKNOWN = Shape(None)
SCALAR = Shape(())
