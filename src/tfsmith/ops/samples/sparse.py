"""Samples of sparse and ragged tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples

__all__: list[str] = []

_PLACES = numpy.array([[0, 1], [0, 3], [2, 0], [3, 3]], "int64")
_SHAPE = numpy.array([4, 5], "int64")


def _ints(*found: int, kind: str = "int64") -> Any:
    return numpy.array(found, kind)


@samples("SparseToDense", exact=True)
def _to_dense(op: str) -> Iterator[Case]:
    for kind in ("float32", "int32", "int64", "bool", "string", "float64", "uint8"):
        default = numbers(kind, 1, start=9).reshape(())
        yield case(op, _PLACES, _SHAPE, numbers(kind, 4), default, name=kind)
        yield case(op, _PLACES, _SHAPE, numbers(kind, 1).reshape(()), default, name=f"{kind}, one value")
    zero = numpy.float32(0)
    x = numbers("float32", 3)
    yield case(op, _ints(0, 2, 3), _ints(5), x, zero, name="vector")
    yield case(op, _ints(1).reshape(()), _ints(5), numpy.float32(2), zero, name="scalar")
    yield case(op, _ints(2, 0, 3), _ints(5), x, zero, name="out of order")
    yield case(op, _ints(0, 0, 3), _ints(5), x, zero, name="twice")
    yield case(op, _ints(2, 0, 3), _ints(5), x, zero, name="out of order, not checked", validate_indices=False)
    yield case(op, _ints(0, 2, 5), _ints(5), x, zero, name="outside")
    yield case(op, _ints(-1, 2, 3), _ints(5), x, zero, name="negative")
    yield case(op, numpy.zeros((0, 2), "int64"), _SHAPE, x[:0], zero, name="empty")
    yield case(op, _PLACES.astype("int32"), _SHAPE.astype("int32"), numbers("float32", 4), zero, name="int32 indices")


@samples("SparseReorder", exact=True)
def _reorder(op: str) -> Iterator[Case]:
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]):
        yield case(op, _PLACES[order], numbers("float32", 4), _SHAPE, name=str(order))
    yield case(op, _PLACES[::-1], numbers("string", 4), _SHAPE, name="texts")
    yield case(op, numpy.zeros((0, 2), "int64"), numbers("float32", 0), _SHAPE, name="empty")


@samples("SparseReshape", exact=True)
def _reshape(op: str) -> Iterator[Case]:
    for new in ((20,), (2, 10), (-1, 4), (5, 2, 2), (20, -1), (3, 3), (-1, -1), (4, 5)):
        yield case(op, _PLACES, _SHAPE, _ints(*new), name=str(new))


@samples("SparseFillEmptyRows", exact=True)
def _fill_rows(op: str) -> Iterator[Case]:
    for kind in ("float32", "int64", "string"):
        default = numbers(kind, 1, start=9).reshape(())
        yield case(op, _PLACES, numbers(kind, 4), _SHAPE, default, name=kind)
    one = numpy.float32(1)
    yield case(op, _PLACES[::-1], numbers("float32", 4), _SHAPE, one, name="out of order")
    yield case(op, numpy.zeros((0, 2), "int64"), numbers("float32", 0), _SHAPE, one, name="all empty")
    yield case(op, _PLACES, numbers("float32", 4), _ints(3, 5), one, name="outside")
    yield case(op, numpy.zeros((0, 2), "int64"), numbers("float32", 0), _ints(0, 5), one, name="no rows")


@samples("SparseConcat", exact=True)
def _concat(op: str) -> Iterator[Case]:
    values = [numbers("float32", 4), numbers("float32", 4, start=7)]
    for axis in (0, 1, -1, -2, 2):
        yield case(op, [_PLACES, _PLACES], values, [_SHAPE, _SHAPE], name=f"axis {axis}", concat_dim=axis)
    yield case(op, [_PLACES, _PLACES], values, [_SHAPE, _ints(4, 6)], name="shapes that differ", concat_dim=0)
    yield case(op, [_PLACES, _PLACES], values, [_SHAPE, _ints(4, 6)], name="wider", concat_dim=1)


@samples("SparseSlice", exact=True)
def _slice(op: str) -> Iterator[Case]:
    for start, size in (((0, 0), (4, 5)), ((1, 0), (2, 2)), ((0, 1), (9, 9)), ((3, 3), (1, 1)), ((5, 0), (1, 1))):
        at = (_ints(*start), _ints(*size))
        yield case(op, _PLACES, numbers("float32", 4), _SHAPE, *at, name=f"{start}, {size}")


@samples("SparseTensorDenseMatMul", ulps=4, n_eps=8)
def _matmul(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "complex64"):
        x = numbers(kind, 4)
        yield case(op, _PLACES, x, _SHAPE, numbers(kind, 5, 3), name=kind)
        yield case(op, _PLACES, x, _SHAPE, numbers(kind, 4, 3), name=f"{kind}, adjoint", adjoint_a=True)
        yield case(op, _PLACES, x, _SHAPE, numbers(kind, 3, 5), name=f"{kind}, both", adjoint_b=True)
    x = numbers("float32", 4)
    yield case(op, _PLACES, x, _SHAPE, numbers("float32", 4, 3), name="does not fit")
    yield case(op, _PLACES + 2, x, _SHAPE, numbers("float32", 5, 3), name="outside")


_SPLITS = numpy.array([0, 2, 2, 5], "int64")
_OUTER = numpy.array([0, 1, 3], "int64")


@samples("RaggedTensorToSparse", exact=True)
def _ragged_to_sparse(op: str) -> Iterator[Case]:
    for kind in ("float32", "int64", "string"):
        yield case(op, [_SPLITS], numbers(kind, 5), name=kind)
    yield case(op, [_OUTER, _SPLITS], numbers("float32", 5), name="two deep")
    yield case(op, [_SPLITS], numbers("float32", 5, 2), name="inner size")
    yield case(op, [_SPLITS + 1], numbers("float32", 5), name="no start")
    yield case(op, [_SPLITS], numbers("float32", 4), name="too few")


@samples("RaggedRange", exact=True)
def _ragged_range(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64", "float32", "float64"):
        a, b, c = (numpy.array(one, kind) for one in ([0, 5, 8], [4, 0, 8], [1, -2, 3]))
        yield case(op, a, b, c, name=kind)
        yield case(op, a[0], b, numpy.array(1, kind), name=f"{kind}, broadcast")
    yield case(op, a, b, c * 0, name="no step")
    yield case(op, a, b[:2], c, name="lengths that differ", unknown=True)
    yield case(op, a.astype("int32"), b.astype("int32"), c.astype("int32"), name="int32 splits", Tsplits="int32")


@samples("RaggedGather", exact=True)
def _ragged_gather(op: str) -> Iterator[Case]:
    for rows in ([2, 0], [1], [], [[0, 2], [1, 1]], [3], [-1]):
        index = numpy.array(rows, "int32")
        rank = index.ndim
        yield case(op, [_SPLITS], numbers("float32", 5), index, name=str(rows), OUTPUT_RAGGED_RANK=rank)
    index = numpy.array([1, 0], "int64")
    yield case(op, [_OUTER, _SPLITS], numbers("string", 5), index, name="two deep", OUTPUT_RAGGED_RANK=2)


@samples("RaggedTensorToTensor", exact=True)
def _ragged_to_tensor(op: str) -> Iterator[Case]:
    kinds = ("ROW_SPLITS",)
    any_size = numpy.array(-1, "int64")
    for kind in ("float32", "int64", "string"):
        default = numbers(kind, 1, start=9).reshape(())
        yield case(
            op, any_size, numbers(kind, 5), default, [_SPLITS], name=kind, row_partition_types=kinds, constants=(0,)
        )
    zero, x = numpy.float32(0), numbers("float32", 5)
    for shape in ((3, 4), (2, 2), (-1, 6), (4, -1), (3,)):
        yield case(op, _ints(*shape), x, zero, [_SPLITS], name=str(shape), row_partition_types=kinds)
    two = ("ROW_SPLITS", "ROW_SPLITS")
    yield case(op, any_size, x, zero, [_OUTER, _SPLITS], name="two deep", row_partition_types=two, constants=(0,))
    inner = numbers("float32", 5, 2)
    yield case(op, any_size, inner, zero, [_SPLITS], name="inner size", row_partition_types=kinds, constants=(0,))
    yield case(
        op,
        any_size,
        inner,
        numbers("float32", 2),
        [_SPLITS],
        name="default row",
        row_partition_types=kinds,
        constants=(0,),
    )
    ids = [_ints(3).reshape(()), _ints(0, 0, 2, 2, 2)]
    by_ids = ("FIRST_DIM_SIZE", "VALUE_ROWIDS")
    yield case(op, any_size, x, zero, ids, name="row ids", row_partition_types=by_ids, constants=(0,))
