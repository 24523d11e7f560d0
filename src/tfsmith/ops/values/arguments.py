"""What the families of values share: checks of arguments, and types that are computed in a wider one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy

from tfsmith.limits import MAX_FILLED_BYTES
from tfsmith.ops.values import OpError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "BFLOAT16",
    "axes_of",
    "axis_of",
    "check",
    "check_ids",
    "check_room",
    "is_float",
    "rounded",
    "scalar",
    "sizes_of",
    "variants",
    "wide",
]

BFLOAT16 = numpy.dtype(ml_dtypes.bfloat16)
_SHORT = (numpy.dtype(numpy.float16), BFLOAT16)
_FLOATS = (numpy.dtype(numpy.float32), numpy.dtype(numpy.float64), *_SHORT)


def check(holds: bool, text: str) -> None:
    """Raises an `OpError` with this text where a condition does not hold."""
    if not holds:
        raise OpError(text)


def is_float(x: NDArray[Any]) -> bool:
    """Whether the elements are real floats, of any width."""
    return x.dtype in _FLOATS


def wide(x: NDArray[Any]) -> NDArray[Any]:
    """Halves and bfloat16 as float32, in which TensorFlow computes with them; others as they are."""
    return x.astype(numpy.float32) if x.dtype in _SHORT else x


def rounded(function: Callable[..., Any], *inputs: NDArray[Any]) -> NDArray[Any]:
    """What a function gives for these inputs, computed wide and rounded once to the type of the first."""
    kind = inputs[0].dtype
    if kind not in _SHORT:
        return numpy.asarray(function(*inputs))
    return numpy.asarray(function(*map(wide, inputs))).astype(kind)


def scalar(x: NDArray[Any], what: str, *, strict: bool = False) -> Any:
    """The one number of a tensor that must be a scalar; one element in another rank will do, unless it is strict."""
    check(x.size == 1 and not (strict and x.ndim), f"{what} must be a scalar, and has shape {list(x.shape)}")
    return x.reshape(()).item()


def sizes_of(x: NDArray[Any], what: str) -> list[int]:
    """The whole numbers of a tensor that must be a vector."""
    check(x.ndim == 1, f"{what} must be a vector, and has shape {list(x.shape)}")
    return [int(one) for one in x]


def variants(items: Sequence[Any]) -> NDArray[Any]:
    """A vector of variants; one alone is the Python object itself."""
    found = numpy.empty(len(items), object)
    for place, one in enumerate(items):
        found[place] = one
    return found


def axis_of(axis: int, rank: int, what: str = "axis") -> int:
    """An axis, counted from the front.

    Raises:
        OpError: There is no such axis.
    """
    check(-rank <= axis < rank, f"{what} {axis} is not one of a tensor of rank {rank}")
    return axis % rank


def axes_of(axes: NDArray[Any] | Sequence[int], rank: int, what: str = "axis") -> tuple[int, ...]:
    """Axes, counted from the front, each at most once.

    Raises:
        OpError: There is no such axis, or one is named twice.
    """
    found = tuple(axis_of(int(axis), rank, what) for axis in numpy.ravel(axes))
    check(len(set(found)) == len(found), f"{what} {list(map(int, numpy.ravel(axes)))} names one axis twice")
    return found


def check_room(sizes: Sequence[int], kind: numpy.dtype[Any]) -> None:
    """Raises an `OpError` where a tensor whose size is a mere number of the graph would be too large to make."""
    wanted = math.prod(sizes) * kind.itemsize
    check(wanted <= MAX_FILLED_BYTES, f"a tensor of shape {list(sizes)} would take {wanted} bytes")


def check_ids(ids: NDArray[Any], size: int, what: str = "index") -> None:
    """Raises an `OpError` where one of the ids is negative or not below the size."""
    if ids.size and (int(ids.min()) < 0 or int(ids.max()) >= size):
        bad = ids[(ids < 0) | (ids >= size)].reshape(-1)[0]
        raise OpError(f"{what} {bad} is not in [0, {size})")
