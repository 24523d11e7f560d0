"""Values of ops that read, write and make diagonals and bands of matrices."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import check, check_room, scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


@value("Diag")
def _diag(x: NDArray[Any]) -> Any:
    check(x.ndim > 0, "a scalar has no diagonal")
    check_room([x.size, x.size], x.dtype)
    return numpy.diag(x.reshape(-1)).reshape(x.shape * 2)


@value("DiagPart")
def _diag_part(x: NDArray[Any]) -> Any:
    half = x.ndim // 2
    fits = x.ndim > 0 and x.ndim % 2 == 0 and x.shape[:half] == x.shape[half:]
    check(fits, f"shape {list(x.shape)} is not that of a matrix with equal sides")
    size = int(numpy.prod(x.shape[:half], dtype=numpy.int64))
    return numpy.diagonal(x.reshape(size, size)).reshape(x.shape[:half])


@value("MatrixBandPart")
def _matrix_band_part(x: NDArray[Any], num_lower: NDArray[Any], num_upper: NDArray[Any]) -> Any:
    _check_matrix(x)
    rows, columns = x.shape[-2:]
    low = scalar(num_lower, "the number of lower diagonals", strict=True)
    high = scalar(num_upper, "the number of upper diagonals", strict=True)
    check(low <= rows, f"{low} lower diagonals are more than the {rows} rows")
    check(high <= columns, f"{high} upper diagonals are more than the {columns} columns")
    steps = numpy.arange(columns) - numpy.arange(rows)[:, None]
    kept = (steps >= (-low if low >= 0 else -rows)) & (steps <= (high if high >= 0 else columns))
    return numpy.where(kept, x, x.dtype.type(0))


@value("MatrixDiag")
def _matrix_diag(diagonal: NDArray[Any]) -> Any:
    check(diagonal.ndim > 0, "a scalar has no diagonal")
    return _made(diagonal, (0, 0), -1, -1, diagonal.dtype.type(0), b"LEFT_LEFT")


@value("MatrixDiagV2")
def _matrix_diag_v2(
    diagonal: NDArray[Any], k: NDArray[Any], num_rows: NDArray[Any], num_cols: NDArray[Any], padding: NDArray[Any]
) -> Any:
    return _matrix_diag_v3(diagonal, k, num_rows, num_cols, padding, align=b"LEFT_LEFT")


@value("MatrixDiagV3")
def _matrix_diag_v3(
    diagonal: NDArray[Any], k: NDArray[Any], num_rows: NDArray[Any], num_cols: NDArray[Any], padding: NDArray[Any], *,
    align: bytes,
) -> Any:  # fmt: skip
    check(diagonal.ndim > 0, "a scalar has no diagonal")
    rows, columns = scalar(num_rows, "the number of rows"), scalar(num_cols, "the number of columns")
    return _made(diagonal, _range(k), rows, columns, scalar(padding, "the padding"), align)


@value("MatrixDiagPart")
def _matrix_diag_part(x: NDArray[Any]) -> Any:
    _check_matrix(x)
    return numpy.diagonal(x, 0, -2, -1)


@value("MatrixDiagPartV2")
def _matrix_diag_part_v2(x: NDArray[Any], k: NDArray[Any], padding: NDArray[Any]) -> Any:
    return _matrix_diag_part_v3(x, k, padding, align=b"LEFT_LEFT")


@value("MatrixDiagPartV3")
def _matrix_diag_part_v3(x: NDArray[Any], k: NDArray[Any], padding: NDArray[Any], *, align: bytes) -> Any:
    _check_matrix(x)
    low, high = _range(k)
    rows, columns = x.shape[-2:]
    _check_inside(low, high, rows, columns)
    longest = _longest(low, high, rows, columns)
    places, good = _places(low, high, rows, columns, longest, align)
    row, column = (numpy.where(good, one, 0) for one in places)
    found = (
        numpy.where(good, x[..., row, column], padding.reshape(())[()])
        if x.size
        else numpy.empty((*x.shape[:-2], high - low + 1, longest), x.dtype)
    )
    return found[..., 0, :] if low == high else found


@value("MatrixSetDiag")
def _matrix_set_diag(x: NDArray[Any], diagonal: NDArray[Any]) -> Any:
    _check_matrix(x)
    return _set(x, diagonal, (0, 0), b"LEFT_LEFT")


@value("MatrixSetDiagV2")
def _matrix_set_diag_v2(x: NDArray[Any], diagonal: NDArray[Any], k: NDArray[Any]) -> Any:
    return _matrix_set_diag_v3(x, diagonal, k, align=b"LEFT_LEFT")


@value("MatrixSetDiagV3")
def _matrix_set_diag_v3(x: NDArray[Any], diagonal: NDArray[Any], k: NDArray[Any], *, align: bytes) -> Any:
    _check_matrix(x)
    low, high = _range(k)
    _check_inside(low, high, *x.shape[-2:])
    return _set(x, diagonal, (low, high), align)


def _check_matrix(x: NDArray[Any]) -> None:
    check(x.ndim >= 2, f"a matrix is needed, not shape {list(x.shape)}")


def _range(k: NDArray[Any]) -> tuple[int, int]:
    """The lowest and the highest diagonal."""
    check(k.ndim <= 1 and k.size in (1, 2), f"one or two numbers name the diagonals, not shape {list(k.shape)}")
    low, high = int(k.reshape(-1)[0]), int(k.reshape(-1)[-1])
    check(low <= high, f"the lowest diagonal {low} is above the highest {high}")
    return low, high


def _check_inside(low: int, high: int, rows: int, columns: int) -> None:
    for one in (low, high):
        check(-rows < one < columns or one == 0, f"diagonal {one} is not in a matrix of {rows} rows, {columns} columns")


def _longest(low: int, high: int, rows: int, columns: int) -> int:
    return min(rows + min(high, 0), columns - max(low, 0))


def _places(
    low: int, high: int, rows: int, columns: int, longest: int, align: bytes
) -> tuple[tuple[NDArray[Any], NDArray[Any]], NDArray[Any]]:
    """The row and column of each element of packed diagonals, the highest diagonal first, and which are elements."""
    above, _, below = align.partition(b"_")
    step = numpy.arange(high, low - 1, -1)[:, None]
    length = numpy.minimum(rows + numpy.minimum(step, 0), columns - numpy.maximum(step, 0))
    left = (step >= 0) & (above == b"LEFT") | (step <= 0) & (below == b"LEFT")
    number = numpy.arange(longest) - numpy.where(left, 0, longest - length)
    good = (number >= 0) & (number < length)
    return (number - numpy.minimum(step, 0), number + numpy.maximum(step, 0)), good


def _made(
    diagonal: NDArray[Any], k: tuple[int, int], rows: int, columns: int, padding: Any, align: bytes
) -> NDArray[Any]:
    """Matrices with these diagonals."""
    low, high = k
    packed = diagonal[..., None, :] if low == high else diagonal
    check(
        packed.ndim >= 2 and packed.shape[-2] == high - low + 1,
        f"diagonals of shape {list(diagonal.shape)} are not those from {low} to {high}",
    )
    longest = packed.shape[-1]
    least_rows, least_columns = longest - min(high, 0), longest + max(low, 0)
    if rows == columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    check(rows >= least_rows, f"{rows} rows are too few: {least_rows} are needed")
    check(columns >= least_columns, f"{columns} columns are too few: {least_columns} are needed")
    fits = rows == least_rows or columns == least_columns
    check(fits, f"{rows} rows and {columns} columns are both more than the diagonals need")
    check_room([*packed.shape[:-2], rows, columns], diagonal.dtype)
    found = numpy.full((*packed.shape[:-2], rows, columns), padding, diagonal.dtype)
    return _written(found, packed, low, high, align)


def _set(x: NDArray[Any], diagonal: NDArray[Any], k: tuple[int, int], align: bytes) -> NDArray[Any]:
    low, high = k
    packed = diagonal[..., None, :] if low == high and diagonal.ndim == x.ndim - 1 else diagonal
    wanted = (*x.shape[:-2], high - low + 1, _longest(low, high, *x.shape[-2:]))
    check(
        packed.shape == wanted and (low == high) == (diagonal.ndim == x.ndim - 1),
        f"diagonals of shape {list(diagonal.shape)} do not fit shape {list(x.shape)}",
    )
    return _written(x.copy(), packed, low, high, align)


def _written(found: NDArray[Any], packed: NDArray[Any], low: int, high: int, align: bytes) -> NDArray[Any]:
    rows, columns = found.shape[-2:]
    (row, column), good = _places(low, high, rows, columns, packed.shape[-1], align)
    found[..., row[good], column[good]] = packed[..., good]
    return found
