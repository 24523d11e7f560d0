"""Samples of ops that make, shape, join, split, cut and move tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ir.node import Node
from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, chain, numbers, samples, types_of

__all__: list[str] = []

_KINDS = tuple(kind for kind in types_of("Reshape"))
_INDEX = ("int32", "int64")


def _ints(*values: Any, kind: str = "int32") -> Any:
    return numpy.array(values, kind)


def _one(value: int, kind: str = "int32") -> Any:
    return numpy.array(value, kind)


# Shapes


@samples("Shape Size", exact=True)
def _shape(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3), name=kind)
    for shape in ((), (0,), (4,), (2, 0, 3), (1, 2, 3, 4)):
        for out in _INDEX:
            yield case(op, numbers("float32", *shape), name=f"{shape} as {out}", out_type=out)
    yield case(op, numbers("float32", 2, 3), name="unknown shape", unknown=True)


@samples("ShapeN", exact=True)
def _shape_n(op: str) -> Iterator[Case]:
    for out in _INDEX:
        yield case(op, [numbers("float32", 2, 3), numbers("float32"), numbers("float32", 0)], name=out, out_type=out)
    yield case(op, [numbers("string", 2, 3)], name="one")


@samples("Rank", exact=True)
def _rank(op: str) -> Iterator[Case]:
    for shape in ((), (0,), (2, 3), (1, 1, 1, 1)):
        yield case(op, numbers("float32", *shape), name=f"{shape}")
    yield case(op, numbers("string", 2), name="words")


@samples("Reshape", exact=True)
def _reshape(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 6), _ints(3, 4), name=kind)
    x = numbers("float32", 2, 6)
    for shape in ((12,), (-1,), (3, -1), (1, 12, 1), (2, 3, 2), (-1, 1)):
        for kind in _INDEX:
            yield case(op, x, _ints(*shape, kind=kind), name=f"to {shape} in {kind}")
            yield case(op, x, _ints(*shape, kind=kind), name=f"to constant {shape} in {kind}", constants=(1,))
    yield case(op, numbers("float32", 1), numpy.zeros(0, "int32"), name="to a scalar")
    yield case(op, numbers("float32"), _ints(1, 1), name="from a scalar")
    yield case(op, numbers("float32", 0, 3), _ints(3, 0), name="empty")
    yield case(op, numbers("float32", 0, 3), _ints(-1, 3), name="empty, a size to infer")
    yield case(op, numbers("float32", 0, 3), _ints(0, -1), name="empty, not to infer")
    for shape in ((5, 2), (-1, -1), (-2, 6), (5, -1)):
        yield case(op, x, _ints(*shape), name=f"wrong shape {shape}", unknown=True)


@samples("ExpandDims", exact=True)
def _expand_dims(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3), _one(1), name=kind)
    for axis in (0, 2, -1, -3, 3, -4):
        for kind in _INDEX:
            x = numbers("float32", 2, 3)
            yield case(op, x, _one(axis, kind), name=f"axis {axis} in {kind}", unknown=True)
    yield case(op, numbers("float32"), _one(0), name="scalar")
    yield case(op, numbers("float32", 0), _ints(-1), name="axis in a vector")


@samples("Squeeze", exact=True)
def _squeeze(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 1, 3, 1), name=kind)
    x = numbers("float32", 1, 3, 1, 2)
    for axes in ((0,), (2,), (-2,), (0, 2), (-4, -2), (1,), (4,), (-5,)):
        yield case(op, x, name=f"axes {axes}", squeeze_dims=axes, unknown=True)
    yield case(op, numbers("float32", 1, 1), name="to a scalar")
    yield case(op, numbers("float32", 0, 1), name="empty")


@samples("EnsureShape", exact=True)
def _ensure_shape(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3), name=kind, shape=[2, 3])
    x = numbers("float32", 2, 3)
    for shape in ((None, 3), (2, 4), (2,), (None, None)):
        yield case(op, x, name=f"{shape}", shape=list(shape), unknown=True)


@samples("BroadcastTo", exact=True)
def _broadcast_to(op: str) -> Iterator[Case]:
    for kind in (kind for kind in _KINDS if kind != "string"):
        yield case(op, numbers(kind, 1, 3), _ints(2, 3), name=kind)
    for shape, to in (
        ((), (2, 3)),
        ((3,), (2, 3)),
        ((2, 1), (2, 3)),
        ((3, 1), (2, 3, 4)),
        ((1,), (0,)),
        ((0,), (2, 0)),
    ):
        for kind in _INDEX:
            yield case(op, numbers("float32", *shape), _ints(*to, kind=kind), name=f"{shape} to {to} in {kind}")
    for shape, to in (((2,), (3,)), ((2, 3), (3,)), ((2, 3), (2, 1))):
        yield case(op, numbers("float32", *shape), _ints(*to), name=f"wrong, {shape} to {to}", unknown=True)


@samples("BroadcastArgs BroadcastGradientArgs", exact=True)
def _broadcast_args(op: str) -> Iterator[Case]:
    for kind in _INDEX:
        for x, y in (((2, 3), (3,)), ((2, 1), (1, 4)), ((), (2,)), ((2, 3), (2, 3)), ((5, 1, 3), (4, 1)), ((1,), (0,))):
            yield case(op, _ints(*x, kind=kind), _ints(*y, kind=kind), name=f"{x} and {y} in {kind}")
        yield case(op, _ints(2, 3, kind=kind), _ints(2, kind=kind), name=f"do not fit in {kind}")


@samples("ConcatOffset", exact=True)
def _concat_offset(op: str) -> Iterator[Case]:
    shapes = [_ints(2, 3, 4), _ints(2, 5, 4), _ints(2, 0, 4)]
    yield case(op, _one(1), shapes, name="axis 1")
    yield case(op, _one(-2), shapes, name="axis -2")
    yield case(op, _one(0), shapes, name="other axes differ")
    yield case(op, _one(3), shapes, name="no such axis")
    yield case(op, _ints(1), shapes, name="axis in a vector", unknown=True)


@samples("UnravelIndex", exact=True)
def _unravel_index(op: str) -> Iterator[Case]:
    for kind in _INDEX:
        yield case(op, _ints(0, 5, 11, kind=kind), _ints(3, 4, kind=kind), name=kind)
        yield case(op, _one(7, kind), _ints(2, 2, 3, kind=kind), name=f"{kind}, scalar")
        yield case(op, _ints(12, kind=kind), _ints(3, 4, kind=kind), name=f"{kind}, outside")


# New tensors


@samples("Fill", exact=True)
def _fill(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, _ints(2, 3), numbers(kind), name=kind)
    yield case(op, _ints(2, 3, kind="int64"), numbers("float32"), name="in int64")
    yield case(op, numpy.zeros(0, "int32"), numbers("float32"), name="scalar")
    yield case(op, _ints(2, 0), numbers("float32"), name="empty")
    yield case(op, _ints(2, -1), numbers("float32"), name="negative", unknown=True)
    yield case(op, _ints(2), numbers("float32", 1), name="not a scalar", unknown=True)
    yield case(op, _one(2), numbers("float32"), name="shape in a scalar", unknown=True)


@samples("Empty", exact=True)
def _empty(op: str) -> Iterator[Case]:
    for kind in ("float32", "int32", "string", "bool"):
        yield case(op, _ints(2, 3), name=kind, dtype=kind, init=True)
    yield case(op, _ints(0, 3), name="nothing", dtype="float32")
    yield case(op, _ints(-1), name="negative", dtype="float32", init=True)


@samples("Range")
def _range(op: str) -> Iterator[Case]:
    for kind in ("bfloat16", "float16", "float32", "float64", "int32", "int64"):
        for start, limit, delta in ((0, 5, 1), (5, 0, -1), (3, 18, 4), (0, 0, 1), (-3, 4, 2)):
            given = [numpy.array(one).astype(as_dtype(kind).numpy()) for one in (start, limit, delta)]
            yield case(op, *given, name=f"{kind}, {start} to {limit} by {delta}")
    for kind in ("float32", "float64"):
        given = [numpy.array(one, kind) for one in (0.5, 3.0, 0.375)]
        yield case(op, *given, name=f"{kind}, fractions")
    yield case(op, _one(0), _one(5), _one(0), name="no step", unknown=True)
    yield case(op, _one(0), _one(5), _one(-1), name="wrong way", unknown=True)
    yield case(op, _one(0), _one(5), _one(1), name="constant", constants=(0, 1, 2))


@samples("LinSpace")
def _lin_space(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64"):
        for start, stop, num in ((0, 1, 5), (-3, 7, 4), (2, 2, 3), (5, 1, 1), (1, -1, 9)):
            given = numpy.array(start, kind), numpy.array(stop, kind), _one(num)
            yield case(op, *given, name=f"{kind}, {start} to {stop} in {num}")
    yield case(op, numpy.array(0, "float32"), numpy.array(1, "float32"), _one(0), name="none", unknown=True)
    yield case(op, numpy.array(0, "float32"), numpy.array(1, "float32"), _one(3, "int64"), name="in int64")


@samples("OneHot", exact=True)
def _one_hot(op: str) -> Iterator[Case]:
    ids = _ints(0, 2, -1, 5)
    for kind in _KINDS:
        yield case(op, ids, _one(3), numbers(kind, start=1), numbers(kind, start=9), name=kind)
    on, off = numpy.array(1, "float32"), numpy.array(0, "float32")
    for kind in ("uint8", "int8", "int32", "int64"):
        yield case(op, numpy.array([[0, 1], [2, 3]], kind), _one(3), on, off, name=f"ids in {kind}")
    for axis in (-1, 0, 1, 2):
        yield case(op, _ints([0, 1, 2], [2, 1, 3]), _one(4), on, off, name=f"axis {axis}", axis=axis)
    yield case(op, _one(1), _one(3), on, off, name="scalar")
    yield case(op, ids, _one(0), on, off, name="no depth")
    yield case(op, ids[:0], _one(2), on, off, name="no ids")
    yield case(op, ids, _one(-1), on, off, name="negative depth", unknown=True)
    yield case(op, ids, _one(3), on, off, name="constant depth", constants=(1, 2, 3))


# Joining and splitting


@samples("ConcatV2 Concat", exact=True)
def _concat(op: str) -> Iterator[Case]:
    def joined(values: list[Any], axis: Any, **more: Any) -> Case:
        return case(op, values, axis, **more) if op == "ConcatV2" else case(op, axis, values, **more)

    for kind in _KINDS:
        yield joined([numbers(kind, 2, 3), numbers(kind, 2, 1, start=9)], _one(1), name=kind)
    x, y = numbers("float32", 2, 3), numbers("float32", 2, 3, start=9)
    for axis in (0, 1, -1, -2, 2, -3):
        yield joined([x, y, x], _one(axis), name=f"axis {axis}", unknown=True)
    yield joined([numbers("float32", 0), numbers("float32", 3)], _one(0), name="with an empty one")
    yield joined([numbers("float32", 2, 0), x], _one(1), name="with no columns")
    yield joined([x, numbers("float32", 3, 3)], _one(1), name="rows differ", unknown=True)
    yield joined([x, numbers("float32", 3)], _one(0), name="ranks differ", unknown=True)
    yield joined([numbers("float32"), numbers("float32")], _one(0), name="scalars", unknown=True)
    yield joined([numbers("float32", 1, 2, 2, 2), numbers("float32", 1, 2, 1, 2)], _one(2), name="four axes")
    if op == "ConcatV2":
        yield joined([x, y], _one(1, "int64"), name="in int64")


@samples("ParallelConcat", exact=True)
def _parallel_concat(op: str) -> Iterator[Case]:
    for kind in ("float32", "int32", "float64"):
        yield case(op, [numbers(kind, 1, 3), numbers(kind, 1, 3, start=9)], name=kind, shape=[2, 3])


@samples("Pack", exact=True)
def _pack(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, [numbers(kind, 3), numbers(kind, 3, start=9)], name=kind)
    x, y = numbers("float32", 2, 3), numbers("float32", 2, 3, start=9)
    for axis in (0, 1, 2, -1, -3, 3, -4):
        yield case(op, [x, y], name=f"axis {axis}", axis=axis, unknown=True)
    yield case(op, [numbers("float32"), numbers("float32", start=3)], name="scalars")
    yield case(op, [x], name="one")
    yield case(op, [x[:0], y[:0]], name="empty")
    yield case(op, [x, numbers("float32", 3)], name="shapes differ", unknown=True)


@samples("Unpack", exact=True)
def _unpack(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3), name=kind, num=2)
    x = numbers("float32", 2, 3, 2)
    for axis, num in ((0, 2), (1, 3), (-1, 2), (-2, 3), (1, 2), (3, 2)):
        yield case(op, x, name=f"axis {axis} into {num}", axis=axis, num=num, unknown=True)
    yield case(op, numbers("float32", 3), name="to scalars", num=3)
    yield case(op, _WORDS, name="to words", num=3)
    yield case(op, numbers("float32", 0, 2), name="of no columns", axis=1, num=2)


@samples("Split", exact=True)
def _split(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, _one(1), numbers(kind, 2, 4), name=kind, num_split=2)
    x = numbers("float32", 2, 6, 2)
    for axis, num in ((0, 2), (1, 3), (-1, 2), (-2, 6), (1, 4), (3, 2), (0, 1)):
        yield case(op, _one(axis), x, name=f"axis {axis} into {num}", num_split=num, unknown=True)
        yield case(op, _one(axis), x, name=f"constant axis {axis} into {num}", num_split=num, constants=(0,))
    yield case(op, _one(0), numbers("float32", 0, 2), name="empty", num_split=2)
    yield case(op, _ints(0), numbers("float32", 2), name="axis in a vector", num_split=2, unknown=True)


@samples("SplitV", exact=True)
def _split_v(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 4), _ints(1, 3), _one(1), name=kind, num_split=2)
    x = numbers("float32", 2, 6)
    for sizes, axis in (((1, 2, 3), 1), ((-1, 2), -1), ((0, 2), 0), ((6,), 1), ((1, 2), 1), ((-1, -1), 1), ((4, 4), 1)):
        for kind in _INDEX:
            given = _ints(*sizes, kind=kind)
            name = f"{sizes} along {axis} in {kind}"
            yield case(op, x, given, _one(axis), name=name, num_split=len(sizes), unknown=True)


# Cutting


@samples("Slice", exact=True)
def _slice(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 3, 4), _ints(1, 0), _ints(2, -1), name=kind)
    x = numbers("float32", 3, 4)
    for begin, size in (((0, 0), (3, 4)), ((1, 2), (-1, 2)), ((3, 0), (0, 4)), ((1, 1), (0, 0)), ((3, 4), (-1, -1))):
        for kind in _INDEX:
            given = _ints(*begin, kind=kind), _ints(*size, kind=kind)
            yield case(op, x, *given, name=f"{begin}, {size} in {kind}")
    for start, count in (((0, 0), (4, 1)), ((-1, 0), (1, 1)), ((0, 5), (1, -1)), ((0,), (1,)), ((0, 0), (-2, 1))):
        yield case(op, x, _ints(*start), _ints(*count), name=f"wrong, {start}, {count}", unknown=True)
    yield case(op, numbers("float32"), numpy.zeros(0, "int32"), numpy.zeros(0, "int32"), name="scalar")
    yield case(op, numbers("string"), numpy.zeros(0, "int32"), numpy.zeros(0, "int32"), name="one word")


_CUTS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ("plain", (0, 1), (2, 3), (1, 1), {}),
    ("steps", (0, 0), (3, 4), (2, 3), {}),
    ("backward", (2, 3), (0, 0), (-1, -2), {}),
    ("backward to the front", (2, 3), (0, 0), (-1, -1), {"end_mask": 3}),
    ("backward from the end", (0, 0), (0, 1), (-1, -1), {"begin_mask": 3}),
    ("negative", (-2, -3), (-1, -1), (1, 1), {}),
    ("far outside", (-9, -9), (9, 9), (1, 1), {}),
    ("far outside, backward", (9, 9), (-9, -9), (-1, -1), {}),
    ("empty", (2, 0), (1, 4), (1, 1), {}),
    ("begin mask", (1, 1), (3, 3), (1, 1), {"begin_mask": 2}),
    ("end mask", (1, 1), (2, 2), (1, 1), {"end_mask": 1}),
    ("one element, begin mask alone", (1, 1), (2, 2), (1, 1), {"shrink_axis_mask": 1, "begin_mask": 1}),
    ("one element, end mask", (1, 1), (2, 2), (1, 1), {"shrink_axis_mask": 2, "end_mask": 2}),
    ("one element, both masks", (1, 1), (2, 2), (1, 1), {"shrink_axis_mask": 1, "begin_mask": 1, "end_mask": 1}),
    ("new axis, begin and end mask", (1, 1), (2, 2), (1, 1), {"new_axis_mask": 1, "begin_mask": 1, "end_mask": 1}),
    ("new axis, one element", (1, 1), (2, 2), (1, 1), {"new_axis_mask": 1, "shrink_axis_mask": 1}),
    ("ellipsis, other masks", (1, 1), (2, 2), (1, 1), {"ellipsis_mask": 1, "begin_mask": 1, "end_mask": 1}),
    ("ellipsis, one element in it", (1, 1), (2, 2), (1, 1), {"ellipsis_mask": 1, "shrink_axis_mask": 1}),
    ("ellipsis, new axis in it", (1, 1), (2, 2), (1, 1), {"ellipsis_mask": 1, "new_axis_mask": 1}),
    ("fewer axes", (1,), (3,), (1,), {}),
    ("one element", (1,), (2,), (1,), {"shrink_axis_mask": 1}),
    ("one negative element", (-1, 0), (0, 4), (1, 1), {"shrink_axis_mask": 1}),
    ("one element of each", (1, 2), (2, 3), (1, 1), {"shrink_axis_mask": 3}),
    ("one element, begin mask", (1,), (2,), (1,), {"shrink_axis_mask": 1, "begin_mask": 1}),
    ("one element, its end elsewhere", (1,), (0,), (1,), {"shrink_axis_mask": 1}),
    ("one element, far step", (1,), (2,), (2,), {"shrink_axis_mask": 1}),
    ("one element, backward", (1,), (0,), (-1,), {"shrink_axis_mask": 1}),
    ("one element outside", (3,), (4,), (1,), {"shrink_axis_mask": 1}),
    ("one element far outside", (-4,), (-3,), (1,), {"shrink_axis_mask": 1}),
    ("new axis", (0, 0), (1, 2), (1, 1), {"new_axis_mask": 1}),
    ("new axis at the end", (0, 0, 0), (3, 2, 1), (1, 1, 1), {"new_axis_mask": 4}),
    ("new axis and one element", (0, 1), (1, 2), (1, 1), {"new_axis_mask": 1, "shrink_axis_mask": 3}),
    ("ellipsis", (0, 1), (0, 3), (1, 1), {"ellipsis_mask": 1}),
    ("ellipsis for nothing", (0, 0, 1), (2, 0, 3), (1, 1, 1), {"ellipsis_mask": 2}),
    ("ellipsis, new axis", (0, 0, 1), (0, 1, 3), (1, 1, 1), {"ellipsis_mask": 1, "new_axis_mask": 2}),
    ("ellipsis, one element", (0, -1), (0, 0), (1, 1), {"ellipsis_mask": 1, "shrink_axis_mask": 2}),
    ("two ellipses", (0, 0), (0, 0), (1, 1), {"ellipsis_mask": 3}),
    ("no step", (0, 0), (1, 1), (0, 1), {}),
    ("too many axes", (0, 0, 0), (1, 1, 1), (1, 1, 1), {}),
    ("nothing", (), (), (), {}),
)


@samples("StridedSlice", exact=True)
def _strided_slice(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 3, 4), _ints(0, 3), _ints(3, 0), _ints(2, -1), name=kind)
    x = numbers("float32", 3, 4)
    for name, begin, end, strides, masks in _CUTS:
        given = [numpy.array(one, "int32") for one in (begin, end, strides)]
        yield case(op, x, *given, name=name, unknown=True, **masks)
        yield case(op, x, *given, name=f"{name}, constant", constants=(1, 2, 3), **masks)
    given = [numpy.array(one, "int64") for one in ((0, 1), (2, 3), (1, 1))]
    yield case(op, x, *given, name="in int64")
    yield case(op, x, *(one.astype("int16") for one in given), name="in int16")
    yield case(op, numbers("float32"), *(numpy.zeros(0, "int32"),) * 3, name="scalar")
    yield case(op, _WORDS, _ints(1), _ints(2), _ints(1), name="one word", shrink_axis_mask=1)


_WORDS = numpy.array([b"a", b"b\0", b""], object)


@samples("TensorStridedSliceUpdate", exact=True)
def _tensor_strided_slice_update(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        given = _ints(0, 3), _ints(3, 0), _ints(2, -1), numbers(kind, 2, 3, start=9)
        yield case(op, numbers(kind, 3, 4), *given, name=kind)
    x = numbers("float32", 3, 4)
    row = numbers("float32", 4, start=9)
    yield case(op, x, _ints(1), _ints(2), _ints(1), row, name="one row", shrink_axis_mask=1)
    yield case(op, x, _ints(1), _ints(2), _ints(1), row[:3], name="a short row", shrink_axis_mask=1, unknown=True)
    yield case(op, x, _ints(0, 1), _ints(0, 2), _ints(1, 1), x[:, :1], name="ellipsis", ellipsis_mask=1)
    yield case(op, x, _ints(0), _ints(2), _ints(1), row, name="a row for all", unknown=True)
    one = _ints(1), _ints(2), _ints(1), numpy.array(b"c", object)
    yield case(op, _WORDS, *one, name="one word", shrink_axis_mask=1)


# Padding and repeating


@samples("Pad PadV2", exact=True)
def _pad(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        if kind != "string" or op == "PadV2":
            more = () if op == "Pad" else (numbers(kind, start=5),)
            yield case(op, numbers(kind, 2, 3), _ints([1, 0], [2, 1]), *more, name=kind)
    more = () if op == "Pad" else (numbers("float32", start=5),)
    for shape in ((3,), (1, 2, 2), (1, 2, 1, 2), (2, 1, 1, 1, 2)):
        widths = numpy.array([[place % 2, (place + 1) % 2] for place in range(len(shape))], "int32")
        yield case(op, numbers("float32", *shape), widths, *more, name=f"{shape}")
        yield case(op, numbers("float32", *shape), widths.astype("int64"), *more, name=f"{shape} in int64")
    yield case(op, numbers("float32", 0, 2), _ints([1, 1], [0, 0]), *more, name="empty")
    yield case(op, numbers("float32"), numpy.zeros((0, 2), "int32"), *more, name="scalar")
    yield case(op, numbers("float32", 2, 3), _ints([0, 0], [0, 0]), *more, name="nothing")
    yield case(op, numbers("float32", 2, 3), _ints([1, -1], [0, 0]), *more, name="negative", unknown=True)
    yield case(op, numbers("float32", 2, 3), _ints([1, 1]), *more, name="ranks differ", unknown=True)


@samples("MirrorPad", exact=True)
def _mirror_pad(op: str) -> Iterator[Case]:
    for mode in ("REFLECT", "SYMMETRIC"):
        for kind in (kind for kind in _KINDS if kind != "string"):
            yield case(op, numbers(kind, 3, 3), _ints([1, 0], [2, 1]), name=f"{kind}, {mode}", mode=mode)
        x = numbers("float32", 2, 3, 2)
        yield case(op, x, _ints([1, 1], [2, 2], [0, 1]), name=f"three axes, {mode}", mode=mode)
        yield case(op, x, _ints([0, 0], [3, 3], [0, 0]), name=f"wide, {mode}", mode=mode, unknown=True)
        yield case(op, x, _ints([0, 0], [0, 4], [0, 0]), name=f"too wide, {mode}", mode=mode, unknown=True)
        yield case(op, x, _ints([0, 0], [-1, 0], [0, 0]), name=f"negative, {mode}", mode=mode, unknown=True)
        yield case(op, numbers("float32", 4), _ints([3, 3], kind="int64"), name=f"in int64, {mode}", mode=mode)


@samples("Tile", exact=True)
def _tile(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3), _ints(2, 1), name=kind)
    for shape, times in (((3,), (4,)), ((2, 1, 2), (1, 3, 2)), ((), ()), ((2, 2), (0, 1)), ((0, 2), (2, 3))):
        for kind in _INDEX:
            given = numpy.array(times, kind)
            yield case(op, numbers("float32", *shape), given, name=f"{shape} by {times} in {kind}")
    yield case(op, numbers("float32", 2), _ints(-1), name="negative", unknown=True)
    yield case(op, numbers("float32", 2), _ints(1, 2), name="too many", unknown=True)


# Moving


@samples("Transpose ConjugateTranspose", exact=True)
def _transpose(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3), _ints(1, 0), name=kind)
    for shape, perm in (
        ((2, 3, 4), (2, 0, 1)),
        ((2, 3, 4), (0, 2, 1)),
        ((1, 2, 3, 4), (0, 3, 1, 2)),
        ((1, 2, 3, 2, 2), (4, 2, 0, 3, 1)),
        ((3,), (0,)),
        ((), ()),
        ((0, 2), (1, 0)),
        ((2, 3), (-1, 0)),
    ):
        for kind in _INDEX:
            yield case(op, numbers("float32", *shape), numpy.array(perm, kind), name=f"{shape} by {perm} in {kind}")
    for perm in ((0, 0), (0, 2), (0,), (0, 1, 2)):
        yield case(op, numbers("float32", 2, 3), _ints(*perm), name=f"wrong, {perm}", unknown=True)
    yield case(op, numbers("float32", 2, 3, 2), _ints(2, 0, 1), name="constant", constants=(1,))
    if op == "Transpose":
        float32, int32 = as_dtype("float32"), as_dtype("int32")
        nodes = [
            Node("a", op, ("x", "p"), {"T": float32, "Tperm": int32}),
            Node("b", "Reshape", ("a", "s"), {"T": float32, "Tshape": int32}),
            Node("c", op, ("b", "q"), {"T": float32, "Tperm": int32}),
        ]
        feeds = {"x": numbers("float32", 2, 3, 4), "p": _ints(0, 2, 1), "s": _ints(4, 6), "q": _ints(1, 0)}
        yield chain(op, "around a reshape", nodes, feeds, ["c:0"])


@samples("InvertPermutation", exact=True)
def _invert_permutation(op: str) -> Iterator[Case]:
    for kind in _INDEX:
        yield case(op, _ints(3, 0, 2, 1, kind=kind), name=kind)
        yield case(op, _ints(0, 0, 1, kind=kind), name=f"{kind}, twice")
        yield case(op, _ints(0, 3, kind=kind), name=f"{kind}, outside")
        yield case(op, numpy.zeros(0, kind), name=f"{kind}, empty")


@samples("Reverse", exact=True)
def _reverse(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        yield case(op, numbers(kind, 2, 3), numpy.array([True, False]), name=kind)
    yield case(op, numbers("float32", 2, 3), numpy.array([True, True]), name="both")
    yield case(op, numbers("float32", 2, 2, 3), numpy.array([False, True, True]), name="three axes")
    yield case(op, numbers("float32", 2, 3), numpy.array([True]), name="too few", unknown=True)


@samples("ReverseV2", exact=True)
def _reverse_v2(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        yield case(op, numbers(kind, 2, 3), _ints(1), name=kind)
    for axes in ((0,), (0, 1), (-1,), (), (-2, 1), (0, 0), (0, -2), (2,)):
        for kind in _INDEX:
            given = numpy.array(axes, kind)
            yield case(op, numbers("float32", 2, 3), given, name=f"axes {axes} in {kind}", unknown=True)
    yield case(op, numbers("float32", 2, 2, 2, 2), _ints(1, 3), name="four axes")
    yield case(op, numbers("float32", 0, 3), _ints(1), name="empty")
    yield case(op, numbers("float32"), numpy.zeros(0, "int32"), name="scalar")
    yield case(op, numbers("float32", 2), _one(0), name="axis in a scalar", unknown=True)


@samples("ReverseSequence", exact=True)
def _reverse_sequence(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 3, 4), _ints(2, 4, 0, kind="int64"), name=kind, seq_dim=1)
    x = numbers("float32", 2, 3, 4)
    yield case(op, x, _ints(1, 2, kind="int32"), name="in int32", seq_dim=1)
    yield case(op, x, _ints(1, 2, 3, 4), name="last batch axis", seq_dim=0, batch_dim=2, unknown=True)
    yield case(op, x, _ints(1, 2, 0, 2), name="batch axis behind", seq_dim=0, batch_dim=2)
    yield case(op, x, _ints(1, 2, 0), name="middle batch axis", seq_dim=2, batch_dim=1)
    yield case(op, x, _ints(1, 9), name="too long", seq_dim=1, unknown=True)
    yield case(op, x, _ints(1, -1), name="negative", seq_dim=1, unknown=True)
    yield case(op, x, _ints(1), name="too few", seq_dim=1, unknown=True)


@samples("Roll", exact=True)
def _roll(op: str) -> Iterator[Case]:
    for kind in _KINDS:
        yield case(op, numbers(kind, 2, 3), _one(1), _one(1), name=kind)
    x = numbers("float32", 3, 4)
    for shift, axis in (((1, 2), (0, 1)), ((-1,), (1,)), ((7,), (0,)), ((1, 1), (1, 1)), ((1,), (-1,)), ((1,), (2,))):
        for kind in _INDEX:
            given = _ints(*shift, kind=kind), _ints(*axis, kind=kind)
            yield case(op, x, *given, name=f"{shift} along {axis} in {kind}", unknown=True)
    yield case(op, numbers("float32"), _one(1), _one(0), name="scalar", unknown=True)
    yield case(op, numbers("float32", 0), _one(1), _one(0), name="empty")


# Space, batch and depth


@samples("SpaceToDepth DepthToSpace", exact=True)
def _depth(op: str) -> Iterator[Case]:
    shape = (1, 2, 4, 2) if op == "SpaceToDepth" else (1, 1, 2, 8)
    for kind in _KINDS:
        yield case(op, numbers(kind, *shape), name=kind, block_size=2)
    yield case(op, numbers("float32", 2, *shape[1:]), name="batch", block_size=2)
    yield case(op, numbers("float32", 1, 3, 3, 2), name="does not divide", block_size=2, unknown=True)
    yield case(op, numbers("float32", 1, 3, 3, 1), name="by three", block_size=3, unknown=True)
    yield case(op, numbers("float32", 1, 1, 1, 9), name="nine deep", block_size=3, unknown=True)


@samples("SpaceToBatchND SpaceToBatch", exact=True)
def _space_to_batch(op: str) -> Iterator[Case]:
    if op == "SpaceToBatch":
        for kind in (kind for kind in _KINDS if kind not in ("bool", "string", "complex64", "complex128")):
            yield case(op, numbers(kind, 1, 3, 4, 1), _ints([0, 1], [0, 0]), name=kind, block_size=2)
        yield case(op, numbers("float32", 2, 2, 2, 3), _ints([1, 1], [0, 2]), name="padded", block_size=2)
        yield case(op, numbers("float32", 1, 3, 4, 1), _ints([0, 0], [0, 0]), name="odd", block_size=2, unknown=True)
        return
    for kind in (kind for kind in _KINDS if kind not in ("bool", "string", "complex64", "complex128")):
        yield case(op, numbers(kind, 1, 3, 4, 1), _ints(2, 2), _ints([0, 1], [0, 0]), name=kind)
    for shape, block, pads in (
        ((2, 6), (3,), ([0, 0],)),
        ((1, 4, 2, 3), (2,), ([1, 1],)),
        ((1, 2, 3, 2, 2), (2, 3, 2), ([0, 0], [1, 2], [0, 0])),
        ((2, 2, 2, 1), (1, 2), ([0, 0], [2, 0])),
        ((1, 0, 2, 1), (2, 2), ([0, 0], [0, 0])),
    ):
        for kind in _INDEX:
            given = _ints(*block, kind=kind), _ints(*pads, kind=kind)
            yield case(op, numbers("float32", *shape), *given, name=f"{shape} by {block} in {kind}")
    x = numbers("float32", 1, 3, 4, 1)
    yield case(op, x, _ints(2, 2), _ints([0, 0], [0, 0]), name="odd", unknown=True)
    yield case(op, x, _ints(0, 2), _ints([0, 1], [0, 0]), name="no block", unknown=True)
    yield case(op, x, _ints(2, 2), _ints([0, -1], [0, 0]), name="negative", unknown=True)


@samples("BatchToSpaceND BatchToSpace", exact=True)
def _batch_to_space(op: str) -> Iterator[Case]:
    if op == "BatchToSpace":
        for kind in (kind for kind in _KINDS if kind not in ("bool", "string", "complex64", "complex128")):
            yield case(op, numbers(kind, 4, 2, 2, 1), _ints([0, 1], [0, 0]), name=kind, block_size=2)
        yield case(op, numbers("float32", 4, 2, 2, 3), _ints([1, 1], [0, 2]), name="cropped", block_size=2)
        yield case(op, numbers("float32", 3, 2, 2, 1), _ints([0, 0], [0, 0]), name="odd", block_size=2, unknown=True)
        return
    for kind in (kind for kind in _KINDS if kind not in ("bool", "string", "complex64", "complex128")):
        yield case(op, numbers(kind, 4, 2, 2, 1), _ints(2, 2), _ints([0, 1], [0, 0]), name=kind)
    for shape, block, crops in (
        ((6, 2), (3,), ([0, 1],)),
        ((2, 4, 2, 3), (2,), ([1, 1],)),
        ((12, 1, 2, 2, 1), (2, 3, 2), ([0, 0], [1, 2], [0, 0])),
        ((2, 2, 2, 1), (1, 2), ([0, 0], [2, 0])),
    ):
        for kind in _INDEX:
            given = _ints(*block, kind=kind), _ints(*crops, kind=kind)
            yield case(op, numbers("float32", *shape), *given, name=f"{shape} by {block} in {kind}")
    x = numbers("float32", 4, 2, 2, 1)
    yield case(op, x, _ints(3, 2), _ints([0, 0], [0, 0]), name="odd", unknown=True)
    yield case(op, x, _ints(2, 2), _ints([3, 3], [0, 0]), name="cropped too much", unknown=True)
    yield case(op, x, _ints(2, 2), _ints([0, -1], [0, 0]), name="negative", unknown=True)
