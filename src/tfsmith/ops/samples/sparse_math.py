"""Samples of computing with sparse tensors, and of sets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples, texts

__all__: list[str] = []

_PLACES = numpy.array([[0, 1], [0, 3], [2, 0], [3, 3]], "int64")
_OTHERS = numpy.array([[0, 1], [1, 4], [2, 0]], "int64")
_SHAPE = numpy.array([4, 5], "int64")
_CUBE = numpy.array([[0, 0, 1], [0, 1, 0], [0, 1, 2], [1, 0, 0], [1, 2, 2]], "int64")
_NONE = numpy.zeros((0, 2), "int64")


def _ints(*found: int, kind: str = "int64") -> Any:
    return numpy.array(found, kind)


@samples("SparseReduceSum SparseReduceMax SparseReduceSumSparse SparseReduceMaxSparse", n_eps=4)
def _reductions(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "int64", "uint8"):
        yield case(op, _PLACES, numbers(kind, 4), _SHAPE, _ints(1, kind="int32"), name=kind)
    x = numbers("float32", 5)
    cube = _ints(2, 3, 4)
    for axes in ((0,), (1,), (2,), (-1,), (0, 2), (0, 1, 2), ()):
        for keep in (False, True):
            yield case(op, _CUBE, x, cube, _ints(*axes, kind="int32"), keep_dims=keep, name=f"{axes}, keep {keep}")
    yield case(op, _CUBE, x, cube, numpy.int32(1), name="axis in a scalar")
    yield case(op, _PLACES, numbers("float32", 4), _SHAPE, _ints(2, kind="int32"), name="no such axis")
    yield case(op, _NONE, numbers("float32", 0), _SHAPE, _ints(1, kind="int32"), name="empty")


@samples("SparseAdd", n_eps=2)
def _add(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "int64"):
        zero = numbers(kind, 1).reshape(()) * numpy.array(0, kind)
        yield case(op, _PLACES, numbers(kind, 4), _SHAPE, _OTHERS, numbers(kind, 3, start=7), _SHAPE, zero, name=kind)
    x, y = numbers("float32", 4), numbers("float32", 3, start=7)
    for least in (0.0, 2.0, 20.0):
        yield case(op, _PLACES, x, _SHAPE, _OTHERS, y, _SHAPE, numpy.float32(least), name=f"at least {least}")
    yield case(op, _PLACES, x, _SHAPE, _PLACES, -x, _SHAPE, numpy.float32(0), name="cancels")
    yield case(op, _PLACES, x, _SHAPE, _PLACES, -x, _SHAPE, numpy.float32(0.5), name="cancels, least")
    yield case(op, _PLACES, x, _SHAPE, _OTHERS, y, _ints(4, 6), numpy.float32(0), name="shapes differ")
    yield case(op, _NONE, x[:0], _SHAPE, _NONE, y[:0], _SHAPE, numpy.float32(0), name="empty")


@samples("SparseSparseMaximum SparseSparseMinimum", exact=True)
def _pairs(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "int64"):
        yield case(op, _PLACES, numbers(kind, 4), _SHAPE, _OTHERS, numbers(kind, 3, start=7), _SHAPE, name=kind)
    x, y = numbers("float32", 4), numbers("float32", 3, start=7)
    yield case(op, _PLACES, x, _SHAPE, _OTHERS, y, _ints(4, 6), name="shapes differ")
    yield case(op, _NONE, x[:0], _SHAPE, _OTHERS, y, _SHAPE, name="one is empty")


@samples("SparseDenseCwiseAdd SparseDenseCwiseMul SparseDenseCwiseDiv", ulps=1)
def _with_dense(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "int64"):
        dense = numbers(kind, 4, 5, low=1)
        yield case(op, _PLACES, numbers(kind, 4), _SHAPE, dense, name=kind)
    x = numbers("float32", 4)
    for shape in ((5,), (1, 5), (4, 1), (1,), ()):
        yield case(op, _PLACES, x, _SHAPE, numbers("float32", *shape, low=1), name=f"broadcast {shape}")
    yield case(op, _PLACES, x, _SHAPE, numbers("float32", 3), name="does not fit")
    yield case(op, _PLACES, x, _SHAPE, numbers("float32", 1, 4, 5), name="more dimensions")


@samples("SparseTensorDenseAdd", n_eps=2)
def _tensor_dense_add(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32"):
        yield case(op, _PLACES, numbers(kind, 4), _SHAPE, numbers(kind, 4, 5, start=3), name=kind)
    twice = numpy.array([[0, 1], [0, 1]], "int64")
    yield case(op, twice, numbers("float32", 2), _SHAPE, numbers("float32", 4, 5), name="twice")
    yield case(op, _PLACES, numbers("float32", 4), _SHAPE, numbers("float32", 4, 4), name="shapes differ")


@samples("SparseSoftmax", ulps=8)
def _softmax(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64"):
        yield case(op, _PLACES, numbers(kind, 4), _SHAPE, name=kind)
        yield case(op, _CUBE, numbers(kind, 5), _ints(2, 3, 4), name=f"{kind}, three axes")
    yield case(op, _ints(0, 2).reshape(2, 1), numbers("float32", 2), _ints(4), name="a vector")


@samples("SparseSplit", exact=True)
def _split(op: str) -> Iterator[Case]:
    for axis in (0, 1):
        for count in (1, 2, 3):
            given = numbers("float32", 4)
            yield case(op, _ints(axis)[0], _PLACES, given, _SHAPE, num_split=count, name=f"axis {axis}, {count} parts")
    yield case(op, _ints(0)[0], _PLACES, numbers("float32", 4), _SHAPE, num_split=5, name="too many parts")


_LEFT = numpy.array([[1, 2, 3], [5, 5, 9]], "int64")
_RIGHT = numpy.array([[3, 4, 1, 7], [5, 8, 8, 9]], "int64")
_WORDS = (b"a-b", b"b-a", b"intersection", b"union")


@samples("DenseToDenseSetOperation", exact=True)
def _dense_sets(op: str) -> Iterator[Case]:
    for word in _WORDS:
        yield case(op, _LEFT, _RIGHT, set_operation=word, name=word.decode())
        words = texts([b"a", b"b", b"a", b"c"]).reshape(2, 2), texts([b"b", b"z", b"c", b"c"]).reshape(2, 2)
        yield case(op, *words, set_operation=word, name=f"{word.decode()} of texts")
        yield case(
            op, _LEFT.astype("int32"), _RIGHT.astype("int32"), set_operation=word, name=f"{word.decode()}, int32"
        )
    cube = _LEFT.reshape(1, 2, 3)
    yield case(op, cube, _RIGHT.reshape(1, 2, 4), set_operation=b"union", name="three axes")
    yield case(op, _LEFT, _RIGHT[:1], set_operation=b"union", name="rows differ")
    yield case(op, _LEFT[0], _RIGHT[0], set_operation=b"union", name="vectors")
    yield case(op, _LEFT, _RIGHT, set_operation=b"nothing", name="no operation")


@samples("DenseToSparseSetOperation", exact=True)
def _mixed_sets(op: str) -> Iterator[Case]:
    places = numpy.array([[0, 0], [0, 1], [1, 0]], "int64")
    for word in _WORDS:
        yield case(op, _LEFT, places, _ints(3, 8, 5), _ints(2, 4), set_operation=word, name=word.decode())
    yield case(op, _LEFT, places[::-1], _ints(3, 8, 5), _ints(2, 4), set_operation=b"union", name="out of order")
    yield case(op, _LEFT, places, _ints(3, 8, 5), _ints(3, 4), set_operation=b"union", name="rows differ")


@samples("SparseToSparseSetOperation", exact=True)
def _sparse_sets(op: str) -> Iterator[Case]:
    one = numpy.array([[0, 0], [0, 1], [1, 0]], "int64"), _ints(1, 2, 5), _ints(3, 2)
    other = numpy.array([[0, 0], [2, 0], [2, 1]], "int64"), _ints(2, 9, 8), _ints(3, 4)
    for word in _WORDS:
        yield case(op, *one, *other, set_operation=word, name=word.decode())
    yield case(op, *one, *other[:2], _ints(4, 4), set_operation=b"union", name="rows differ")
    texts_of = one[0], texts([b"a", b"b", b"c"]), one[2], other[0], texts([b"b", b"x", b"w"]), other[2]
    yield case(op, *texts_of, set_operation=b"union", name="texts")


@samples("SetSize", exact=True)
def _set_size(op: str) -> Iterator[Case]:
    places = numpy.array([[0, 0], [0, 1], [0, 2], [2, 0]], "int64")
    for kind in ("int32", "int64", "string"):
        values = texts([b"a", b"a", b"b", b"c"]) if kind == "string" else numpy.array([4, 4, 7, 1], kind)
        yield case(op, places, values, _ints(3, 3), name=kind)
    yield case(op, places[::-1], _ints(1, 2, 3, 4), _ints(3, 3), name="out of order")
    yield case(op, places[::-1], _ints(1, 2, 3, 4), _ints(3, 3), validate_indices=False, name="not checked")
