"""Samples of ops that read, write and make diagonals and bands of matrices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples, types_of

__all__: list[str] = []

_KINDS = tuple(kind for kind in types_of("Reshape") if kind != "string")
_ALIGNED = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")


def _ints(*values: Any) -> Any:
    return numpy.array(values, "int32")


def _one(value: int) -> Any:
    return numpy.array(value, "int32")


@samples("Diag", exact=True)
def _diag(op: str) -> Iterator[Case]:
    for kind in (kind for kind in types_of(op) if kind != "bfloat16"):
        yield case(op, numbers(kind, 3), name=kind)
    yield case(op, numbers("float32", 2, 2), name="a matrix")
    yield case(op, numbers("float32", 0), name="empty")
    yield case(op, numbers("float32"), name="scalar", unknown=True)


@samples("DiagPart", exact=True)
def _diag_part(op: str) -> Iterator[Case]:
    for kind in (kind for kind in types_of(op) if kind != "bfloat16"):
        yield case(op, numbers(kind, 3, 3), name=kind)
    yield case(op, numbers("float32", 2, 3, 2, 3), name="four axes")
    yield case(op, numbers("float32", 2, 3), name="sides differ", unknown=True)
    yield case(op, numbers("float32", 2), name="a vector", unknown=True)


@samples("MatrixBandPart", exact=True)
def _band(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 3, 4), _one(1), _one(0), name=kind)
    x = numbers("float32", 2, 4, 3)
    for low, high in ((-1, 0), (0, -1), (0, 0), (-1, -1), (2, 1), (4, 3), (5, 0), (0, 4)):
        yield case(op, x, _one(low), _one(high), name=f"{low}, {high}", unknown=True)
    wide = numpy.array(1, "int64")
    yield case(op, numbers("float32", 3, 3), wide, wide, name="in int64")
    yield case(op, numbers("float32", 3), _one(0), _one(0), name="a vector", unknown=True)
    yield case(op, numbers("float32", 3, 3), _ints(1), _one(0), name="a number in a vector", unknown=True)
    edges = numpy.array([[1, float("nan")], [float("inf"), 2]], "float32")
    yield case(op, edges, _one(0), _one(0), name="NaN and infinity")


@samples("MatrixDiag", exact=True)
def _matrix_diag(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3), name=kind)
    yield case(op, numbers("float32", 3), name="a vector")
    yield case(op, numbers("float32", 2, 0), name="empty")
    yield case(op, numbers("float32"), name="scalar", unknown=True)


@samples("MatrixDiagPart", exact=True)
def _matrix_diag_part(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3, 4), name=kind)
    yield case(op, numbers("float32", 4, 2), name="tall")
    yield case(op, numbers("float32", 3), name="a vector", unknown=True)


@samples("MatrixSetDiag", exact=True)
def _matrix_set_diag(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3, 4), numbers(kind, 2, 3, start=30), name=kind)
    yield case(op, numbers("float32", 4, 2), numbers("float32", 2, start=30), name="tall")
    yield case(op, numbers("float32", 4, 2), numbers("float32", 4, start=30), name="too long", unknown=True)


@samples("MatrixDiagV2 MatrixDiagV3", exact=True)
def _matrix_diag_k(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        pad = numbers(kind, start=7)
        yield case(op, numbers(kind, 2, 3), _one(1), _one(-1), _one(-1), pad, name=kind)
    pad = numpy.array(9, "float32")
    for name, shape, k, rows, columns in (
        ("above", (3,), (1,), -1, -1),
        ("below", (3,), (-2,), -1, -1),
        ("rows", (3,), (0,), 5, 3),
        ("columns", (3,), (0,), -1, 4),
        ("above, rows", (3,), (1,), 3, -1),
        ("band", (3, 3), (-1, 1), -1, -1),
        ("band, wide", (2, 3), (0, 1), 3, 4),
        ("band, tall", (2, 2), (-2, -1), 4, 2),
        ("one of two", (3,), (1, 1), -1, -1),
        ("too few rows", (3,), (0,), 2, 3),
        ("both larger", (3,), (0,), 4, 5),
        ("wrong count", (2, 3), (-1, 1), -1, -1),
        ("wrong order", (2, 3), (1, 0), -1, -1),
    ):
        given = numbers("float32", *shape), _ints(*k), _one(rows), _one(columns), pad
        if op == "MatrixDiagV2":
            yield case(op, *given, name=name, unknown=True)
            continue
        for align in _ALIGNED:
            yield case(op, *given, name=f"{name}, {align}", align=align, unknown=True)


@samples("MatrixDiagPartV2 MatrixDiagPartV3", exact=True)
def _matrix_diag_part_k(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3, 4), _one(1), numbers(kind, start=7), name=kind)
    pad = numpy.array(9, "float32")
    for shape in ((3, 4), (4, 3), (2, 3, 3)):
        for k in ((0,), (-1,), (2,), (-1, 1), (0, 2), (-2, -1), (-2, 2), (3,), (-3, 0), (1, 0), (5,)):
            given = numbers("float32", *shape), _ints(*k), pad
            if op == "MatrixDiagPartV2":
                yield case(op, *given, name=f"{shape}, {k}", unknown=True)
                continue
            for align in _ALIGNED:
                yield case(op, *given, name=f"{shape}, {k}, {align}", align=align, unknown=True)


@samples("MatrixSetDiagV2 MatrixSetDiagV3", exact=True)
def _matrix_set_diag_k(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3, 4), numbers(kind, 2, 3, start=30), _one(1), name=kind)
    for name, shape, diagonal, k in (
        ("main", (3, 4), (3,), (0,)),
        ("above", (3, 4), (2,), (2,)),
        ("below", (3, 4), (2,), (-1,)),
        ("band", (3, 4), (3, 3), (-1, 1)),
        ("band, batch", (2, 3, 3), (2, 2, 3), (0, 1)),
        ("band below", (4, 3), (2, 3), (-2, -1)),
        ("too long", (3, 4), (4,), (0,)),
        ("too few", (3, 4), (2, 3), (-1, 1)),
        ("outside", (3, 4), (1,), (4,)),
    ):
        given = numbers("float32", *shape), numbers("float32", *diagonal, start=30), _ints(*k)
        if op == "MatrixSetDiagV2":
            yield case(op, *given, name=name, unknown=True)
            continue
        for align in _ALIGNED:
            yield case(op, *given, name=f"{name}, {align}", align=align, unknown=True)
