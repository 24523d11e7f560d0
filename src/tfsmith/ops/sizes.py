"""Sizes that may be known, named or unknown, and what is known of a tensor before anything runs.

A named size is text: equal names are equal sizes, whatever they are. Products are kept in one form ("128*batch"), so
that they can be divided again; sums are names of their own ("(batch+1)").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from tfsmith.ir.types import Shape
from tfsmith.limits import MAX_RANK

__all__ = [
    "Conflict",
    "Dims",
    "Known",
    "NOTHING",
    "Size",
    "broadcast",
    "equal",
    "minus",
    "over",
    "plus",
    "same",
    "times",
]

Size: TypeAlias = "int | str | None"
"""A number, a name, or None for what is not known."""
Dims: TypeAlias = "tuple[Size, ...] | None"
"""The sizes of a tensor; None where not even their number is known."""
_LONGEST = 100
"""A name that grows longer than this is given up."""


class Conflict(Exception):  # it is no error of ours: the inference notes it down
    """Shapes or values that no run could have."""


class Known(NamedTuple):
    """What is known of a tensor.

    Attributes:
        dims: Its sizes.
        values: For a small tensor of integers, its elements, row by row.
        held: For the handle of a variable, the sizes of the variable.
    """

    dims: Dims = None
    values: tuple[Size, ...] | None = None
    held: Dims = None

    @staticmethod
    def of(shape: Shape) -> Known:
        """A tensor of this shape."""
        return Known(_dims(shape))

    @property
    def shape(self) -> Shape:
        """Its shape; names count as unknown."""
        if self.dims is None or len(self.dims) > MAX_RANK:
            return Shape(None)
        return Shape(tuple(dim if isinstance(dim, int) else -1 for dim in self.dims))

    @property
    def rank(self) -> int | None:
        """How many dimensions it has, if known."""
        return None if self.dims is None else len(self.dims)

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """Its elements, if all of them are known."""
        if self.values is None:
            return None
        found = tuple(value for value in self.values if isinstance(value, int))
        return found if len(found) == len(self.values) else None


NOTHING = Known()


def _dims(shape: Shape) -> Dims:
    dims = shape.dims
    if not dims or min(dims) >= 0:
        return dims
    return tuple([None if dim < 0 else dim for dim in dims])


def equal(one: Size, other: Size, what: str = "sizes") -> Size:
    """A size that must be both.

    Raises:
        Conflict: It cannot be.
    """
    if one is None or isinstance(other, int):
        if isinstance(one, int) and one != other:
            raise Conflict(f"{what} are {one} and {other}")
        return one if other is None else other
    return one


def same(one: Dims, other: Dims, what: str = "shapes") -> Dims:
    """Sizes that must be both.

    Raises:
        Conflict: They cannot be.
    """
    if one is None or other is None:
        return other if one is None else one
    if len(one) != len(other):
        raise Conflict(f"{what} are {text(one)} and {text(other)}")
    try:
        return tuple(equal(left, right) for left, right in zip(one, other, strict=True))
    except Conflict:
        raise Conflict(f"{what} are {text(one)} and {text(other)}") from None


def text(dims: Dims) -> str:
    """Sizes as messages write them, such as "[?, 128]"."""
    return str(Known(dims).shape)


def broadcast(one: Dims, other: Dims) -> Dims:
    """The sizes of what two tensors give that are combined element by element.

    Raises:
        Conflict: They cannot be.
    """
    if one is None or other is None:
        return None
    if one == other or not other:
        return one
    rank = max(len(one), len(other))
    pairs = zip((1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other, strict=True)
    try:
        return tuple(_wider(left, right) for left, right in pairs)
    except Conflict:
        raise Conflict(f"shapes are {text(one)} and {text(other)}, which cannot be broadcast") from None


def _wider(one: Size, other: Size) -> Size:
    if one == 1 or one == other:
        return other
    if other == 1:
        return one
    if isinstance(one, int) and isinstance(other, int):
        raise Conflict("they differ")
    for size in (one, other):
        if isinstance(size, int) and size > 1:
            return size
    return min(str(one), str(other)) if is_same_axis(one, other) else None


def is_same_axis(one: Size, other: Size) -> bool:
    """Whether two open sizes belong to the same axis of two inputs, as those of words and of their mask do.

    Inputs that meet are given in the same sizes, or could not meet; that one of them has size one, nothing says.
    """
    if not isinstance(one, str) or not isinstance(other, str) or not set("*+").isdisjoint(one + other):
        return False
    return one.rpartition(".")[2] == other.rpartition(".")[2]


def times(sizes: Iterable[Size]) -> Size:
    """The product."""
    number, names = 1, list[str]()
    for size in sizes:
        if size is None:
            return None
        factor, more = _factors(size)
        number *= factor
        names += more
    return _product(number, names)


def over(whole: Size, part: Size) -> Size:
    """What `whole` is, divided by `part`; None where that is not known, or does not come out even."""
    if whole is None or part is None:
        return None
    number, names = _factors(whole)
    divisor, others = _factors(part)
    if divisor == 0 or number % divisor:
        return None
    for name in others:
        if name not in names:
            return None
        names.remove(name)
    return _product(number // divisor, names)


def _factors(size: int | str) -> tuple[int, list[str]]:
    if isinstance(size, int):
        return size, []
    first, _, rest = size.partition("*")
    if first.isdecimal():
        return int(first), rest.split("*")
    return 1, size.split("*")


def _product(number: int, names: Sequence[str]) -> Size:
    if not names or number == 0:
        return number
    if number < 0:
        return None
    found = "*".join(sorted(names))
    found = found if number == 1 else f"{number}*{found}"
    return found if len(found) <= _LONGEST else None


def plus(one: Size, other: Size) -> Size:
    """The sum."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    if one is None or other is None:
        return None
    if 0 in (one, other):
        return other if one == 0 else one
    found = "+".join(sorted((str(one), str(other))))
    return f"({found})" if len(found) <= _LONGEST else None


def minus(one: Size, other: Size) -> Size:
    """The difference."""
    if isinstance(one, int) and isinstance(other, int):
        return one - other
    if one is None or other is None:
        return None
    return one if other == 0 else 0 if one == other else None
