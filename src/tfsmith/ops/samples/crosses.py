"""Samples of crossed features."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, samples, string, texts

__all__: list[str] = []

_PLACES = numpy.array([[0, 0], [0, 1], [1, 0], [3, 0], [3, 1]], "int64")
_SHAPE = numpy.array([4, 2], "int64")
_WORDS = texts([b"a", b"bc", b"", b"some longer text of more than sixteen bytes", b"\xff\x00"])
_NUMBERS = numpy.array([1, -7, 0, 2**40, 12], "int64")
_DENSE_WORDS = texts([b"p", b"q", b"r", b"s"], 4, 1)
_DENSE_NUMBERS = numpy.array([[1, 2], [3, 4], [-5, 6], [7, 2**50]], "int64")


def _columns() -> Iterator[tuple[str, tuple[Any, ...]]]:
    yield "texts", ([_PLACES], [_WORDS], [_SHAPE], [_DENSE_WORDS])
    yield "numbers", ([_PLACES], [_NUMBERS], [_SHAPE], [_DENSE_NUMBERS])
    yield "both", ([_PLACES, _PLACES], [_WORDS, _NUMBERS], [_SHAPE, _SHAPE], [_DENSE_NUMBERS, _DENSE_WORDS])
    yield "dense alone", ([], [], [], [_DENSE_NUMBERS, _DENSE_WORDS])
    yield "one column", ([_PLACES], [_WORDS], [_SHAPE], [])
    yield "nothing", ([_PLACES[:0], _PLACES], [_WORDS[:0], _NUMBERS], [_SHAPE, _SHAPE], [])
    yield "other rows", ([_PLACES], [_WORDS], [_SHAPE], [_DENSE_WORDS[:3]])
    yield "a vector", ([_PLACES], [_WORDS], [_SHAPE], [_DENSE_WORDS[:, 0]])


@samples("SparseCross", exact=True)
def _cross(op: str) -> Iterator[Case]:
    for name, columns in _columns():
        kinds: dict[str, Any] = {"out_type": "int64", "internal_type": "int64", "hashed_output": True}
        is_text = all(one.dtype == object for one in (*columns[1], *columns[3]))
        if is_text:
            yield case(op, *columns, name=name, out_type="string", internal_type="string", hashed_output=False,
                       num_buckets=0, hash_key=956888297470)  # fmt: skip
        for buckets, key in product((0, 10, 1000), (956888297470, 3)):
            yield case(op, *columns, name=f"{name}, {buckets} by {key}", num_buckets=buckets, hash_key=key, **kinds)


@samples("SparseCrossV2", exact=True)
def _cross_v2(op: str) -> Iterator[Case]:
    for (name, columns), mark in product(_columns(), (b"_X_", b"")):
        yield case(op, *columns, string(mark), name=f"{name}, {mark!r}")


@samples("SparseCrossHashed", exact=True)
def _cross_hashed(op: str) -> Iterator[Case]:
    for (name, columns), buckets, strong in product(_columns(), (0, 10), (False, True)):
        if strong and any(one.dtype != object for one in columns[3]):
            continue  # TensorFlow dies of it
        salt = numpy.array([137, -5], "int64")
        yield case(op, *columns, numpy.array(buckets, "int64"), numpy.array(strong), salt,
                   name=f"{name}, {buckets}, strong {strong}")  # fmt: skip


@samples("RaggedCross", exact=True)
def _ragged(op: str) -> Iterator[Case]:
    ends = numpy.array([0, 2, 3, 3, 5], "int64")
    sparse = ([_PLACES], [_NUMBERS], [_SHAPE])
    kinds: dict[str, Any] = {"hash_key": 956888297470, "out_row_splits_type": "int64"}
    for order, ragged, rest in (
        ("RD", [_WORDS], ([], [], [], [_DENSE_WORDS])),
        ("RSD", [_NUMBERS], (*sparse, [_DENSE_NUMBERS])),
        ("DSR", [_WORDS], (*sparse, [_DENSE_WORDS])),
        ("RR", [_WORDS, _NUMBERS], ([], [], [], [])),
        ("R", [_WORDS], (*sparse, [])),
    ):
        splits = [ends] * len(ragged)
        for buckets in (0, 10):
            yield case(op, ragged, splits, *rest, name=f"{order}, {buckets}", input_order=order, hashed_output=True,
                       num_buckets=buckets, out_values_type="int64", **kinds)  # fmt: skip
        yield case(op, ragged, splits, *rest, name=order, input_order=order, hashed_output=False, num_buckets=0,
                   out_values_type="string", **kinds)  # fmt: skip
    short = {**kinds, "out_row_splits_type": "int32"}
    yield case(op, [_WORDS], [ends.astype("int32")], [], [], [], [_DENSE_WORDS], name="int32 splits", input_order="RD",
               hashed_output=False, num_buckets=0, out_values_type="string", **short)  # fmt: skip
    for name, bad in (("splits", [0, 2, 1, 3, 5]), ("too few", [0, 2, 3, 3, 4]), ("rows", [0, 2, 5])):
        yield case(op, [_WORDS], [numpy.array(bad, "int64")], [], [], [], [_DENSE_WORDS], name=f"bad {name}",
                   input_order="RD", hashed_output=False, num_buckets=0, out_values_type="string", **kinds)  # fmt: skip
