"""How far two results may be apart and still count as the same, how far apart they are, and what is strange in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.records import record, replace

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ArrayDifference", "Tolerance", "blocks", "compare_arrays", "constant_keys", "non_finite", "tolerance_for"]


@record
class Tolerance:
    """Two numbers are the same if they differ by at most `absolute + relative * |one of A|`."""

    relative: float
    absolute: float

    def times(self, factor: float) -> Tolerance:
        """A wider one."""
        return Tolerance(self.relative * factor, self.absolute * factor)

    def shown(self) -> str:
        """As a formula."""
        return f"{self.absolute:g} + {self.relative:g}|a|"


_EXACT = Tolerance(0.0, 0.0)
_OF_DTYPE = MappingProxyType(
    {
        "float64": Tolerance(1e-6, 1e-7),  # engines may compute in float32 on the way
        "float32": Tolerance(2e-5, 2e-6),
        "complex64": Tolerance(2e-5, 2e-6),
        "complex128": Tolerance(1e-6, 1e-7),
        "float16": Tolerance(1e-2, 1e-3),
        "bfloat16": Tolerance(3e-2, 1e-2),
    }
)
_REORDERED = 50.0
"""Where sums are computed in another order, by another engine or after other optimizations, there is more room."""
_BLOCK = 1 << 20
"""So many values are compared at a time."""


def tolerance_for(dtype: str, *, reordered: bool) -> Tolerance:
    """The usual tolerance: that of the dtype; integers and strings must be equal.

    Args:
        dtype: The name of the numpy dtype.
        reordered: Whether the answers come from different engines, or from one that rearranges what it runs.
    """
    found = _OF_DTYPE.get(dtype, Tolerance(1e-1, 1e-1) if dtype.startswith("float") else _EXACT)
    return found.times(_REORDERED) if reordered else found


@record
class ArrayDifference:
    """How far two arrays are apart.

    Attributes:
        max_abs: The largest difference; infinite where shapes, types or what is no number differ.
        max_rel: The largest difference relative to the value of A.
        reason: What is wrong, if they are not the same.
    """

    max_abs: float
    max_rel: float
    reason: str = ""


def compare_arrays(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance) -> ArrayDifference:
    """Compares two arrays, element by element. NaN equals NaN."""
    import numpy

    if a.shape != b.shape:
        return ArrayDifference(float("inf"), float("inf"), f"the shapes are {list(a.shape)} and {list(b.shape)}")
    if a.dtype.kind == "O" or b.dtype.kind == "O" or a.dtype.kind == "b" or b.dtype.kind == "b":
        count = int(numpy.count_nonzero(a != b))
        return ArrayDifference(
            float(bool(count)), float(bool(count)), f"{count} of {a.size} values differ" if count else ""
        )
    worst = ArrayDifference(0.0, 0.0)
    bad = strange = 0
    one, other = a.reshape(-1), b.reshape(-1)
    for start in range(0, a.size, _BLOCK):  # what is made on the way is several times as large
        found = _of_block(one[start : start + _BLOCK], other[start : start + _BLOCK], tolerance)
        bad, strange = bad + found[2], strange + found[3]
        worst = ArrayDifference(max(worst.max_abs, found[0]), max(worst.max_rel, found[1]))
    if strange:
        reason = f"{strange} of {a.size} values are no numbers in one of them only"
        return ArrayDifference(float("inf"), float("inf"), reason)
    return replace(worst, reason=f"{bad} of {a.size} values differ by more than is usual" if bad else "")


def _of_block(a: NDArray[Any], b: NDArray[Any], tolerance: Tolerance) -> tuple[float, float, int, int]:
    """The largest differences, how many values are too far apart, and how many are numbers in one of them only."""
    import numpy

    wide = numpy.complex128 if "c" in (a.dtype.kind, b.dtype.kind) else numpy.float64
    is_whole = a.dtype.kind in "iu" and b.dtype.kind in "iu"
    one, other = (a, b) if is_whole else (a.astype(wide), b.astype(wide))
    strange = 0 if is_whole else int(numpy.count_nonzero(numpy.isfinite(one) != numpy.isfinite(other)))
    same = _same(one, other)
    with numpy.errstate(all="ignore"):
        apart = numpy.where(same, 0.0, numpy.abs(one.astype(wide) - other.astype(wide)))
        size = numpy.where(same, 0.0, numpy.abs(one.astype(wide)))
        relative = numpy.where(same, 0.0, apart / numpy.maximum(size, numpy.finfo(numpy.float64).tiny))
        is_near = (apart <= tolerance.absolute + tolerance.relative * size) & numpy.isfinite(apart)
    bad = int(numpy.count_nonzero(~is_near))
    return float(apart.max()), float(numpy.nan_to_num(relative, nan=numpy.inf).max()), bad, strange


def _same(one: NDArray[Any], other: NDArray[Any]) -> Any:
    """Equal, or no number in both."""
    import numpy

    same = one == other
    return same if one.dtype.kind in "iu" else same | (numpy.isnan(one) & numpy.isnan(other))


def blocks(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """The values of an array, so many at a time: it may be a mapped file that is larger than memory."""
    flat = values.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        yield flat[start : start + _BLOCK]


def non_finite(results: Mapping[str, NDArray[Any]]) -> list[str]:
    """A sentence for each output that has values that are NaN or infinite."""
    import numpy

    notes: list[str] = []
    for key, values in results.items():
        if values.dtype.kind not in "fc" and "float" not in values.dtype.name:
            continue
        count = nans = 0
        for block in blocks(values):
            plain = block if block.dtype.kind in "fc" else block.astype(numpy.float32)
            count += int(plain.size - numpy.count_nonzero(numpy.isfinite(plain)))
            nans += int(numpy.count_nonzero(numpy.isnan(plain)))
        if count:
            notes.append(f"output {key!r}: {nans} of {values.size} values are NaN, and {count - nans} are infinite")
    return notes


def constant_keys(runs: Sequence[Mapping[str, NDArray[Any]]], keys: Sequence[str], batches: Sequence[int]) -> list[str]:
    """The outputs that are the same for all inputs: in every run, and in every row of a batch.

    Args:
        runs: What a model gave for one input after the other.
        keys: The outputs to look at.
        batches: The batch size of each run; 0 where rows are not known to be inputs of their own.
    """
    return [key for key in keys if _is_constant([run[key] for run in runs], batches)]


def _is_constant(values: Sequence[NDArray[Any]], batches: Sequence[int]) -> bool:
    import numpy

    by_row = all(array.ndim and len(array) == batch for array, batch in zip(values, batches, strict=True))
    rows = [row for array in values for row in array] if by_row else values
    kinds = {array.dtype.kind for array in values}
    same_nan = kinds <= {"f", "c"}
    return all(numpy.array_equal(row, rows[0], equal_nan=same_nan) for row in rows[1:])
