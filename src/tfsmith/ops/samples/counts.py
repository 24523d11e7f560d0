"""Samples of ops that count."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy

from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, numbers, samples, types_of

__all__: list[str] = []

_INF = float("inf")
_INDEX = ("int32", "int64")


def _array(kind: str, values: Any) -> Any:
    return numpy.array(values).astype(as_dtype(kind).numpy())


@samples("Bincount", n_eps=8)
def _bincount(op: str) -> Iterator[Case]:
    x = numpy.array([0, 2, 2, 5, 1, 9], "int32")
    for kind in types_of(op):
        yield case(op, x, numpy.array(6, "int32"), numbers(kind, 6, low=0, high=5), name=kind)
        yield case(op, x, numpy.array(6, "int32"), numbers(kind, 0), name=f"{kind}, no weights")
    none = numbers("float32", 0)
    yield case(op, x.reshape(2, 3), numpy.array(3, "int32"), none, name="a matrix")
    yield case(op, x, numpy.array(0, "int32"), none, name="no size")
    yield case(op, x[:0], numpy.array(3, "int32"), none, name="empty")
    yield case(op, x, numpy.array(-1, "int32"), none, name="negative size")
    yield case(op, -x, numpy.array(6, "int32"), none, name="negative numbers")


@samples("DenseBincount", n_eps=8)
def _dense_bincount(op: str) -> Iterator[Case]:
    x = numpy.array([0, 2, 2, 5, 1, 9])
    for kind, index in product(types_of(op), _INDEX):
        for shape, binary in product(((6,), (2, 3)), (False, True)):
            given = x.astype(index).reshape(shape), numpy.array(6, index)
            name = f"{kind}, {index}, {shape}, binary {binary}"
            yield case(op, *given, numbers(kind, *shape, low=0, high=5), name=name, binary_output=binary)
            yield case(op, *given, numbers(kind, 0), name=f"{name}, no weights", binary_output=binary)
    none = numbers("float32", 0)
    yield case(op, x.reshape(1, 2, 3), numpy.array(3), none, name="three axes", unknown=True)
    yield case(op, -x, numpy.array(6), none, name="negative numbers")
    yield case(op, x, numpy.array(-2), none, name="negative size", unknown=True)


@samples("HistogramFixedWidth")
def _histogram(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        x = numbers(kind, 4, 3, low=-4, high=9)
        for out in _INDEX:
            yield case(op, x, _array(kind, [0, 5]), numpy.array(5, "int32"), name=f"{kind} as {out}", dtype=out)
    bounds = _array("float32", [0, 5])
    edges = _array("float32", [-1, 0, 5, 15, 1.5, 2, 5, _INF, -_INF])
    yield case(op, edges, bounds, numpy.array(5, "int32"), name="edges")
    yield case(op, edges, bounds, numpy.array(0, "int32"), name="no bins", unknown=True)
    yield case(op, edges, bounds[::-1].copy(), numpy.array(3, "int32"), name="an empty range", unknown=True)
    yield case(op, edges[:0], bounds, numpy.array(3, "int32"), name="empty")


_VALUES = numpy.array([0, 2, 2, 5, 1, 9])
_PLACES = numpy.array([[0, 0], [0, 1], [0, 3], [2, 0], [2, 1], [2, 2]])


@samples("SparseBincount", n_eps=8)
def _sparse_bincount(op: str) -> Iterator[Case]:
    for kind, index, binary in product(types_of(op), _INDEX, (False, True)):
        given = _PLACES, _VALUES.astype(index), numpy.array([4, 4]), numpy.array(6, index)
        name = f"{kind}, {index}, binary {binary}"
        yield case(op, *given, numbers(kind, 6, low=0, high=5), name=name, binary_output=binary)
        yield case(op, *given, numbers(kind, 0), name=f"{name}, no weights", binary_output=binary)
    none = numbers("float32", 0)
    yield case(op, _PLACES[:, 1:], _VALUES, numpy.array([9]), numpy.array(6), none, name="a vector")
    yield case(op, _PLACES, _VALUES, numpy.array([4, 4]), numpy.array(-6), none, name="negative size", unknown=True)


@samples("RaggedBincount", n_eps=8)
def _ragged_bincount(op: str) -> Iterator[Case]:
    splits = numpy.array([0, 3, 3, 6])
    for kind, index, binary in product(types_of(op), _INDEX, (False, True)):
        given = splits, _VALUES.astype(index), numpy.array(6, index)
        name = f"{kind}, {index}, binary {binary}"
        yield case(op, *given, numbers(kind, 6, low=0, high=5), name=name, binary_output=binary)
        yield case(op, *given, numbers(kind, 0), name=f"{name}, no weights", binary_output=binary)
    none = numbers("float32", 0)
    yield case(op, splits[1:], _VALUES, numpy.array(6), none, name="from three", unknown=True)
    yield case(op, splits, -_VALUES, numpy.array(6), none, name="negative numbers", unknown=True)


_LENGTHS = ((-1, -1), (12, -1), (-1, 4), (3, 6))


@samples("DenseCountSparseOutput", n_eps=8)
def _dense_count(op: str) -> Iterator[Case]:
    for index, kind in product(_INDEX, types_of(op, "output_type")):
        for (least, most), shape in product(_LENGTHS, ((6,), (2, 3))):
            x = _VALUES.astype(index).reshape(shape)
            lengths: dict[str, Any] = {"minlength": least, "maxlength": most}
            name = f"{index}, {kind}, {shape}, {least} to {most}"
            yield case(op, x, numbers(kind, 0), name=name, binary_output=False, **lengths)
            if least == most:
                weights = numbers(kind, *shape, low=0, high=5)
                yield case(op, x, weights, name=f"{name}, weights", binary_output=False, **lengths)
                yield case(op, x, numbers(kind, 0), name=f"{name}, binary", binary_output=True, **lengths)
    none = numbers("float32", 0)
    yield case(op, -_VALUES, none, name="negative numbers", binary_output=False, unknown=True)
    yield case(op, _VALUES, numbers("float32", 2), name="weights do not fit", binary_output=False, unknown=True)
    yield case(op, _VALUES[:0], none, name="empty", binary_output=False)


@samples("SparseCountSparseOutput", n_eps=8)
def _sparse_count(op: str) -> Iterator[Case]:
    for index, kind in product(_INDEX, types_of(op, "output_type")):
        for least, most in _LENGTHS:
            given = _PLACES, _VALUES.astype(index), numpy.array([4, 4])
            lengths: dict[str, Any] = {"minlength": least, "maxlength": most}
            name = f"{index}, {kind}, {least} to {most}"
            yield case(op, *given, numbers(kind, 0), name=name, binary_output=False, **lengths)
            yield case(op, *given, numbers(kind, 6), name=f"{name}, weights", binary_output=False, **lengths)
    none = numbers("float32", 0)
    yield case(op, _PLACES[:, 1:], _VALUES, numpy.array([9]), none, name="a vector", binary_output=True)
    yield case(op, _PLACES, -_VALUES, numpy.array([4, 4]), none, name="negative numbers", binary_output=False)


@samples("RaggedCountSparseOutput", n_eps=8)
def _ragged_count(op: str) -> Iterator[Case]:
    splits = numpy.array([0, 3, 3, 6])
    for index, kind in product(_INDEX, types_of(op, "output_type")):
        for least, most in _LENGTHS:
            given = splits, _VALUES.astype(index)
            lengths: dict[str, Any] = {"minlength": least, "maxlength": most}
            name = f"{index}, {kind}, {least} to {most}"
            yield case(op, *given, numbers(kind, 0), name=name, binary_output=False, **lengths)
            yield case(op, *given, numbers(kind, 6), name=f"{name}, weights", binary_output=False, **lengths)
    none = numbers("float32", 0)
    yield case(op, splits, _VALUES, none, name="binary", binary_output=True)
    yield case(op, splits[1:], _VALUES, none, name="from three", binary_output=False, unknown=True)
