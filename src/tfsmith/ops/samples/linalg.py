"""Samples of linear algebra. What is defined up to signs is multiplied together before it is compared."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy

from tfsmith.ir.node import Node
from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, chain, numbers, samples

__all__: list[str] = []

_KINDS = ("float32", "float64", "complex64", "complex128")


def _array(kind: str, values: Any) -> Any:
    return numpy.array(values).astype(as_dtype(kind).numpy())


def _good(kind: str, size: int, *batch: int, start: int = 0) -> Any:
    """Matrices with an inverse: the diagonal is larger than the rest of its row."""
    found = numbers(kind, *batch, size, size, start=start, low=-2, high=2)
    places = numpy.arange(size)
    found[..., places, places] += found.dtype.type(4 * size)
    return found


def _symmetric(kind: str, size: int, *batch: int, start: int = 0) -> Any:
    found = _good(kind, size, *batch, start=start)
    turned = found.swapaxes(-1, -2)
    return (found + numpy.conj(turned)) / found.dtype.type(2)


@samples("Cholesky", n_eps=16)
def _cholesky(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, _symmetric(kind, 3), name=kind)
        yield case(op, _symmetric(kind, 2, 2), name=f"{kind}, batch")
    x = _symmetric("float32", 3)
    x[0, 1:] = 100
    yield case(op, x, name="the upper part does not count")
    yield case(op, numbers("float32", 0, 0), name="empty")
    yield case(op, numbers("float32", 2, 3), name="not square", unknown=True)


@samples("MatrixInverse", n_eps=64)
def _inverse(op: str) -> Iterator[Case]:
    for kind, adjoint in product(_KINDS, (False, True)):
        yield case(op, _good(kind, 3), name=f"{kind}, adjoint {adjoint}", adjoint=adjoint)
    yield case(op, _good("float32", 2, 2, 2), name="batch")
    yield case(op, numbers("float32", 0, 0), name="empty")
    yield case(op, numpy.zeros((2, 2), "float32"), name="zeros", unknown=True)
    yield case(op, numbers("float32", 2, 3), name="not square", unknown=True)


@samples("MatrixDeterminant LogMatrixDeterminant", n_eps=64)
def _determinant(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, _good(kind, 3), name=kind)
        yield case(op, _good(kind, 2, 2), name=f"{kind}, batch")
    yield case(op, -_good("float32", 3), name="negative")
    yield case(op, numpy.zeros((2, 2), "float32"), name="zeros")
    yield case(op, numbers("float32", 0, 0), name="empty")
    yield case(op, numbers("float32", 2, 3), name="not square", unknown=True)


@samples("MatrixSolve", n_eps=64)
def _solve(op: str) -> Iterator[Case]:
    for kind, adjoint in product(_KINDS, (False, True)):
        given = _good(kind, 3), numbers(kind, 3, 2, start=30)
        yield case(op, *given, name=f"{kind}, adjoint {adjoint}", adjoint=adjoint)
    yield case(op, _good("float32", 2, 2), numbers("float32", 2, 2, 1), name="batch")
    yield case(op, numpy.zeros((2, 2), "float32"), numbers("float32", 2, 1), name="zeros", unknown=True)
    yield case(op, _good("float32", 2), numbers("float32", 3, 1), name="do not fit", unknown=True)


@samples("MatrixTriangularSolve", n_eps=64)
def _triangular_solve(op: str) -> Iterator[Case]:
    for kind, lower, adjoint in product(_KINDS, (True, False), (False, True)):
        given = _good(kind, 3), numbers(kind, 3, 2, start=30)
        yield case(op, *given, name=f"{kind}, lower {lower}, adjoint {adjoint}", lower=lower, adjoint=adjoint)
    yield case(op, _good("float32", 2, 2), numbers("float32", 2, 1), name="broadcast")
    yield case(op, _good("float32", 2), numbers("float32", 3, 2, 1), name="broadcast the matrix")
    yield case(op, numpy.zeros((2, 2), "float32"), numbers("float32", 2, 1), name="zeros", unknown=True)
    yield case(op, _good("float32", 2), numbers("float32", 3, 1), name="do not fit", unknown=True)


@samples("BandedTriangularSolve", n_eps=64)
def _banded_solve(op: str) -> Iterator[Case]:
    for kind, lower, adjoint in product(_KINDS, (True, False), (False, True)):
        bands = numbers(kind, 2, 4, low=-2, high=2)
        bands[0 if lower else -1] += bands.dtype.type(8)
        given = bands, numbers(kind, 4, 2, start=30)
        yield case(op, *given, name=f"{kind}, lower {lower}, adjoint {adjoint}", lower=lower, adjoint=adjoint)
    yield case(op, numbers("float32", 1, 3, low=1), numbers("float32", 3, 1), name="one band")


@samples("MatrixSolveLs", n_eps=256)
def _solve_ls(op: str) -> Iterator[Case]:
    for kind, fast in product(_KINDS, (True, False)):
        matrix = numpy.concatenate([_good(kind, 2), numbers(kind, 2, 2, start=50, low=-2, high=2)])
        given = matrix, numbers(kind, 4, 1, start=30), numpy.array(0.5)
        yield case(op, *given, name=f"{kind}, tall, fast {fast}", fast=fast)
        given = matrix.T.copy(), numbers(kind, 2, 1, start=30), numpy.array(0.0)
        yield case(op, *given, name=f"{kind}, wide, fast {fast}", fast=fast)


@samples("Qr", n_eps=32)
def _qr(op: str) -> Iterator[Case]:
    for kind, full in product(("float32", "float64"), (False, True)):
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2)):
            x = numbers(kind, *shape, low=1, high=9)
            yield case(op, x, name=f"{kind}, {shape}, full {full}", full_matrices=full)
    for kind in ("complex64", "complex128"):
        yield _product(op, kind, numbers(kind, 3, 2, low=1, high=9), f"{kind}, multiplied")


def _product(op: str, kind: str, x: Any, name: str) -> Case:
    """The product of the two factors, which is the matrix again."""
    held = as_dtype(kind)
    nodes = [
        Node("f", op, ("x",), {"T": held}),
        Node("y", "MatMul", ("f", "f:1"), {"T": held}),
    ]
    return chain(op, name, nodes, {"x": x}, ["y:0"])


@samples("Svd", n_eps=64)
def _svd(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        held = as_dtype(kind)
        for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2)):
            x = numbers(kind, *shape, low=1, high=9)
            yield chain(op, f"{kind}, {shape}, values", [_svd_node(op, held, compute_uv=False)], {"x": x}, ["f:0"])
            for full in (False, True):
                nodes = [_svd_node(op, held, full_matrices=full), *_shapes(held)]
                fetches = ["f:0", "u:0", "v:0"]
                yield chain(op, f"{kind}, {shape}, full {full}, shapes", nodes, {"x": x}, fetches)
            nodes = [
                _svd_node(op, held),
                Node("d", "MatrixDiag", ("f",), {"T": held}),
                Node("us", "BatchMatMulV2", ("f:1", "d"), {"T": held}),
                Node("y", "BatchMatMulV2", ("us", "f:2"), {"T": held, "adj_y": True}),
            ]
            yield chain(op, f"{kind}, {shape}, multiplied", nodes, {"x": x}, ["y:0"])


def _svd_node(op: str, held: Any, **attrs: Any) -> Node:
    return Node("f", op, ("x",), {"T": held, **attrs})


def _shapes(held: Any) -> list[Node]:
    return [Node(name, "Shape", (f"f:{number}",), {"T": held}) for number, name in ((1, "u"), (2, "v"))]


@samples("SelfAdjointEigV2", n_eps=64)
def _eigen(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        held = as_dtype(kind)
        for batch in ((), (2,)):
            x = _symmetric(kind, 3, *batch)
            yield chain(
                op,
                f"{kind}, {batch}, values",
                [Node("f", op, ("x",), {"T": held, "compute_v": False})],
                {"x": x},
                ["f:0"],
            )
            nodes = [
                Node("f", op, ("x",), {"T": held}),
                Node("d", "MatrixDiag", ("f",), {"T": held}),
                Node("vs", "BatchMatMulV2", ("f:1", "d"), {"T": held}),
                Node("y", "BatchMatMulV2", ("vs", "f:1"), {"T": held, "adj_y": True}),
            ]
            yield chain(op, f"{kind}, {batch}, multiplied", nodes, {"x": x}, ["f:0", "y:0"])


@samples("Lu", n_eps=32)
def _lu(op: str) -> Iterator[Case]:
    for kind, index in product(_KINDS, ("int32", "int64")):
        yield case(op, _good(kind, 3)[::-1].copy(), name=f"{kind}, {index}", output_idx_type=index)
    yield case(op, _good("float32", 3, 2), name="batch")
    yield case(op, numpy.zeros((2, 2), "float32"), name="zeros", unknown=True)


@samples("TridiagonalMatMul", n_eps=8)
def _tridiagonal_mat_mul(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        diagonals = [numbers(kind, 1, 4, start=start) for start in (0, 9, 20)]
        yield case(op, *diagonals, numbers(kind, 4, 2, start=30), name=kind)
    diagonals = [numbers("float32", 2, 1, 3, start=start) for start in (0, 9, 20)]
    yield case(op, *diagonals, numbers("float32", 2, 3, 2), name="batch")


@samples("TridiagonalSolve", n_eps=64)
def _tridiagonal_solve(op: str) -> Iterator[Case]:
    for kind, pivot in product(_KINDS, (True, False)):
        diagonals = numbers(kind, 3, 4, low=-2, high=2)
        diagonals[1] += diagonals.dtype.type(8)
        given = diagonals, numbers(kind, 4, 2, start=30)
        yield case(op, *given, name=f"{kind}, pivoting {pivot}", partial_pivoting=pivot)
    yield case(op, numbers("float32", 2, 4), numbers("float32", 4, 1), name="two diagonals", unknown=True)


@samples("Eig", n_eps=64)
def _eig(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        held = as_dtype("complex64" if kind in ("float32", "complex64") else "complex128")
        for batch in ((), (2,)):
            x = _good(kind, 3, *batch)
            # the product of the eigenvalues, whose order is free, and the matrix that they make again
            nodes = [
                Node("f", op, ("x",), {"T": as_dtype(kind), "Tout": held}),
                Node("d", "MatrixDiag", ("f",), {"T": held}),
                Node("i", "MatrixInverse", ("f:1",), {"T": held}),
                Node("vd", "BatchMatMulV2", ("f:1", "d"), {"T": held}),
                Node("y", "BatchMatMulV2", ("vd", "i"), {"T": held}),
                Node("p", "MatrixDeterminant", ("d",), {"T": held}),
            ]
            yield chain(op, f"{kind}, {batch}, multiplied", nodes, {"x": x}, ["y:0", "p:0"])
            alone = [
                Node("f", op, ("x",), {"T": as_dtype(kind), "Tout": held, "compute_v": False}),
                *nodes[1:2],
                nodes[-1],
            ]
            yield chain(op, f"{kind}, {batch}, values alone", alone, {"x": x}, ["p:0"])
    yield case(op, numbers("float32", 0, 0), name="empty", Tout="complex64")
    yield case(op, numbers("float32", 2, 3), name="not square", unknown=True, Tout="complex64")


@samples("MatrixSquareRoot MatrixLogarithm", n_eps=128)
def _functions_of_matrices(op: str) -> Iterator[Case]:
    kinds = _KINDS[2:] if op == "MatrixLogarithm" else _KINDS
    for kind in kinds:
        yield case(op, _good(kind, 3), name=kind)
        yield case(op, _symmetric(kind, 2, 2), name=f"{kind}, batch")
        yield case(op, _array(kind, [[4, 1], [0, 9]]), name=f"{kind}, triangle")
    kind = kinds[0]
    yield case(op, _array(kind, [[0, -2], [2, 0]]), name="a turn")
    yield case(op, numbers(kind, 0, 0), name="empty")
    yield case(op, numbers(kind, 2, 3), name="not square", unknown=True)
    if op == "MatrixSquareRoot":
        yield case(op, _array(kind, [[-4, 1], [0, 9]]), name="a negative eigenvalue")
