"""Values of linear algebra: factors, inverses, solutions. They go to LAPACK."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import check, scalar

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_NOISE = 1e-9
"""What rounding leaves of a number that is 0, relative to the others."""


@value("Cholesky")
def _cholesky(x: NDArray[Any]) -> Any:
    _check_square(x)
    return _stacked(numpy.linalg.cholesky, x, "the matrix is not positive definite")


@value("MatrixInverse")
def _matrix_inverse(x: NDArray[Any], *, adjoint: bool) -> Any:
    _check_square(x)
    return _stacked(numpy.linalg.inv, _adjoint(x) if adjoint else x, "the matrix has no inverse")


@value("MatrixDeterminant")
def _matrix_determinant(x: NDArray[Any]) -> Any:
    _check_square(x)
    return numpy.asarray(numpy.linalg.det(x)).astype(x.dtype)


@value("LogMatrixDeterminant")
def _log_matrix_determinant(x: NDArray[Any]) -> Any:
    _check_square(x)
    sign, size = numpy.linalg.slogdet(x)
    return numpy.asarray(sign).astype(x.dtype), numpy.asarray(size).astype(x.dtype)


@value("MatrixSolve")
def _matrix_solve(matrix: NDArray[Any], rhs: NDArray[Any], *, adjoint: bool) -> Any:
    _check_square(matrix)
    check(
        rhs.ndim == matrix.ndim and rhs.shape[:-1] == matrix.shape[:-1],
        f"a right side of shape {list(rhs.shape)} does not fit shape {list(matrix.shape)}",
    )
    return _solved(_adjoint(matrix) if adjoint else matrix, rhs)


@value("MatrixTriangularSolve")
def _matrix_triangular_solve(matrix: NDArray[Any], rhs: NDArray[Any], *, lower: bool, adjoint: bool) -> Any:
    _check_square(matrix)
    check(
        rhs.ndim >= 2 and rhs.shape[-2] == matrix.shape[-1],
        f"a right side of shape {list(rhs.shape)} does not fit shape {list(matrix.shape)}",
    )
    return _substituted(_adjoint(matrix) if adjoint else matrix, rhs, lower != adjoint)


@value("BandedTriangularSolve")
def _banded_triangular_solve(matrix: NDArray[Any], rhs: NDArray[Any], *, lower: bool, adjoint: bool) -> Any:
    check(matrix.ndim >= 2 and matrix.shape[-2] > 0, f"there are no bands in shape {list(matrix.shape)}")
    bands, size = matrix.shape[-2:]
    check(bands <= size, f"{bands} bands are more than the {size} rows")
    check(
        rhs.ndim >= 2 and rhs.shape[-2] == size,
        f"a right side of shape {list(rhs.shape)} does not fit shape {list(matrix.shape)}",
    )
    whole = numpy.zeros((*matrix.shape[:-2], size, size), matrix.dtype)
    for number in range(bands):  # the diagonal is the first band of a lower matrix and the last of an upper one
        rows = numpy.arange(number if lower else 0, size if lower else size - (bands - 1 - number))
        shift = number if lower else bands - 1 - number
        whole[..., rows, rows - shift if lower else rows + shift] = matrix[..., number, rows]
    return _substituted(_adjoint(whole) if adjoint else whole, rhs, lower != adjoint)


@value("MatrixSolveLs")
def _matrix_solve_ls(matrix: NDArray[Any], rhs: NDArray[Any], l2_regularizer: NDArray[Any], *, fast: bool) -> Any:
    _check_matrix(matrix)
    check(
        rhs.ndim == matrix.ndim and rhs.shape[:-1] == matrix.shape[:-1],
        f"a right side of shape {list(rhs.shape)} does not fit shape {list(matrix.shape)}",
    )
    if not fast:
        return numpy.matmul(numpy.linalg.pinv(matrix), rhs).astype(matrix.dtype)
    penalty = matrix.dtype.type(scalar(l2_regularizer, "the regularizer", strict=True))
    turned = _adjoint(matrix)
    if matrix.shape[-2] >= matrix.shape[-1]:
        inner = numpy.matmul(turned, matrix) + penalty * numpy.eye(matrix.shape[-1], dtype=matrix.dtype)
        return _solved(inner, numpy.matmul(turned, rhs))
    inner = numpy.matmul(matrix, turned) + penalty * numpy.eye(matrix.shape[-2], dtype=matrix.dtype)
    return numpy.matmul(turned, _solved(inner, rhs))


@value("Qr")
def _qr(x: NDArray[Any], *, full_matrices: bool) -> Any:
    _check_matrix(x)
    rows, columns = x.shape[-2:]
    if not x.size:
        side = rows if full_matrices else min(rows, columns)
        q = numpy.zeros((*x.shape[:-2], rows, side), x.dtype)
        q[..., numpy.arange(min(rows, side)), numpy.arange(min(rows, side))] = 1
        return q, numpy.zeros((*x.shape[:-2], side, columns), x.dtype)
    found = numpy.linalg.qr(x, "complete" if full_matrices else "reduced")
    return found[0], found[1]


@value("Svd")
def _svd(x: NDArray[Any], *, compute_uv: bool, full_matrices: bool) -> Any:
    _check_matrix(x)
    if not compute_uv:
        nothing = numpy.zeros(0, x.dtype)
        return numpy.asarray(numpy.linalg.svd(x, compute_uv=False)).astype(x.dtype), nothing, nothing
    u, s, vh = numpy.linalg.svd(x, full_matrices=full_matrices)
    return s.astype(x.dtype), u, _adjoint(vh)


@value("SelfAdjointEigV2")
def _self_adjoint_eig(x: NDArray[Any], *, compute_v: bool) -> Any:
    _check_square(x)
    if not compute_v:
        return numpy.linalg.eigvalsh(x).astype(x.dtype), numpy.zeros(0, x.dtype)
    values, vectors = numpy.linalg.eigh(x)
    return values.astype(x.dtype), vectors


@value("Eig")
def _eig(x: NDArray[Any], *, compute_v: bool, Tout: DType) -> Any:
    _check_square(x)
    kind = Tout.numpy()
    if not x.size:
        return numpy.zeros(x.shape[:-1], kind), numpy.zeros(x.shape if compute_v else 0, kind)
    try:
        if not compute_v:
            return numpy.linalg.eigvals(x).astype(kind), numpy.zeros(0, kind)
        values, vectors = numpy.linalg.eig(x)
    except numpy.linalg.LinAlgError as error:
        raise OpError("the eigenvalues were not found") from error
    return values.astype(kind), vectors.astype(kind)


@value("MatrixSquareRoot")
def _matrix_square_root(x: NDArray[Any]) -> Any:
    """The root whose eigenvalues have no negative real part; NaN where a real matrix has none that is real."""
    _check_square(x)
    found = _of_matrix(x.astype(numpy.complex128), numpy.sqrt)
    if x.dtype.kind == "c":
        return found.astype(x.dtype)
    size = numpy.abs(found).max(axis=(-1, -2), keepdims=True, initial=0)
    is_real = (numpy.abs(found.imag) <= _NOISE * size).all(axis=(-1, -2), keepdims=True)
    return numpy.where(is_real, found.real, numpy.nan).astype(x.dtype)


@value("MatrixLogarithm")
def _matrix_logarithm(x: NDArray[Any]) -> Any:
    _check_square(x)
    return _of_matrix(x.astype(numpy.complex128), numpy.log).astype(x.dtype)


def _of_matrix(x: NDArray[Any], function: Any) -> NDArray[Any]:
    """A function of matrices, by their eigenvalues.

    Raises:
        OpError: The eigenvectors of a matrix do not span the space, so that they say nothing.
    """
    if not x.size:
        return x
    try:
        values, vectors = numpy.linalg.eig(x)
        inverse = numpy.linalg.inv(vectors)
    except numpy.linalg.LinAlgError as error:
        raise OpError("the matrix has too few eigenvectors") from error
    back = numpy.matmul(vectors * values[..., None, :], inverse)
    size = numpy.abs(x).max(initial=0)
    worth = numpy.abs(inverse).max(initial=0) * numpy.abs(back - x).max(initial=0)
    check(not numpy.isfinite(size) or worth <= _NOISE * size, "the matrix has too few eigenvectors")
    return numpy.asarray(numpy.matmul(vectors * function(values)[..., None, :], inverse))


@value("Lu")
def _lu(x: NDArray[Any], *, output_idx_type: DType) -> Any:
    """Rows are swapped so that each pivot is the largest of its column."""
    _check_square(x)
    size = x.shape[-1]
    found = x.reshape(-1, size, size).copy()
    order = numpy.tile(numpy.arange(size), (len(found), 1))
    every = numpy.arange(len(found))
    for place in range(size):
        best = place + numpy.argmax(numpy.abs(found[:, place:, place]), axis=1)
        for one in (found, order):
            swapped = one[every, best].copy()
            one[every, best] = one[:, place]
            one[:, place] = swapped
        pivot = found[:, place, place]
        check(bool((pivot != 0).all()), "the matrix has no inverse")
        found[:, place + 1 :, place] /= pivot[:, None]
        found[:, place + 1 :, place + 1 :] -= found[:, place + 1 :, place, None] * found[:, None, place, place + 1 :]
    return found.reshape(x.shape), order.reshape(x.shape[:-1]).astype(output_idx_type.numpy())


@value("TridiagonalMatMul")
def _tridiagonal_mat_mul(
    superdiag: NDArray[Any], maindiag: NDArray[Any], subdiag: NDArray[Any], rhs: NDArray[Any]
) -> Any:
    check(rhs.ndim >= 2, f"a matrix is needed, not shape {list(rhs.shape)}")
    wanted = (*rhs.shape[:-2], 1, rhs.shape[-2])
    for one in (superdiag, maindiag, subdiag):
        check(one.shape == wanted, f"a diagonal of shape {list(one.shape)} does not fit shape {list(rhs.shape)}")
    above, middle, below = (one.swapaxes(-1, -2) for one in (superdiag, maindiag, subdiag))
    found = middle * rhs
    found[..., :-1, :] += above[..., :-1, :] * rhs[..., 1:, :]
    found[..., 1:, :] += below[..., 1:, :] * rhs[..., :-1, :]
    return found


@value("TridiagonalSolve")
def _tridiagonal_solve(
    diagonals: NDArray[Any], rhs: NDArray[Any], *, partial_pivoting: bool, perturb_singular: bool
) -> Any:
    del partial_pivoting  # it is more exact with it
    check(not perturb_singular, "singular matrices are not perturbed on a CPU")
    fits = (
        diagonals.ndim >= 2
        and rhs.ndim >= 2
        and diagonals.shape[-2] == 3
        and rhs.shape[:-2] == diagonals.shape[:-2]
        and rhs.shape[-2] == diagonals.shape[-1]
    )
    check(fits, f"diagonals of shape {list(diagonals.shape)} do not fit shape {list(rhs.shape)}")
    size = diagonals.shape[-1]
    whole = numpy.zeros((*diagonals.shape[:-2], size, size), diagonals.dtype)
    place = numpy.arange(size)
    whole[..., place, place] = diagonals[..., 1, :]
    whole[..., place[:-1], place[1:]] = diagonals[..., 0, :-1]
    whole[..., place[1:], place[:-1]] = diagonals[..., 2, 1:]
    return _solved(whole, rhs)


def _check_matrix(x: NDArray[Any]) -> None:
    check(x.ndim >= 2, f"a matrix is needed, not shape {list(x.shape)}")


def _check_square(x: NDArray[Any]) -> None:
    check(x.ndim >= 2 and x.shape[-1] == x.shape[-2], f"a square matrix is needed, not shape {list(x.shape)}")


def _adjoint(x: NDArray[Any]) -> Any:
    turned = x.swapaxes(-1, -2)
    return turned.conj() if x.dtype.kind == "c" else turned


def _stacked(function: Any, x: NDArray[Any], refusal: str) -> Any:
    try:
        return function(x) if x.size else x
    except numpy.linalg.LinAlgError as error:
        raise OpError(refusal) from error


def _solved(matrix: NDArray[Any], rhs: NDArray[Any]) -> Any:
    try:
        return numpy.linalg.solve(matrix, rhs)
    except numpy.linalg.LinAlgError as error:
        raise OpError("the matrix has no inverse") from error


def _substituted(matrix: NDArray[Any], rhs: NDArray[Any], lower: bool) -> Any:
    """Solves with one triangle of a matrix, row by row; a zero on its diagonal gives infinities, as in TensorFlow."""
    size = matrix.shape[-1]
    batch = numpy.broadcast_shapes(matrix.shape[:-2], rhs.shape[:-2])
    found = numpy.empty((*batch, *rhs.shape[-2:]), rhs.dtype)
    for row in range(size) if lower else range(size - 1, -1, -1):
        known = slice(0, row) if lower else slice(row + 1, size)
        sums = numpy.matmul(matrix[..., row : row + 1, known], found[..., known, :])
        found[..., row : row + 1, :] = (rhs[..., row : row + 1, :] - sums) / matrix[..., row : row + 1, row : row + 1]
    return found
