"""Samples of pooling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples

__all__: list[str] = []

_FLOATS = ("float32", "float64", "float16", "bfloat16")
_REAL = (*_FLOATS, "int32", "int64", "uint8", "int16", "int8", "uint16")


@samples("MaxPool AvgPool")
def _pool(op: str) -> Iterator[Case]:
    one: dict[str, Any] = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    for kind in _REAL if op == "MaxPool" else _FLOATS:
        yield case(op, numbers(kind, 1, 4, 4, 2), name=kind, **one)
        yield case(op, numbers(kind, 1, 3, 5, 2), name=f"{kind}, SAME", ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1],
                   padding="SAME")  # fmt: skip
    x = numbers("float32", 2, 5, 3, 2)
    yield case(op, x, name="unknown", unknown=True, **one)
    for padding in ("SAME", "VALID"):
        for ksize, strides in (([1, 3, 2, 1], [1, 1, 1, 1]), ([1, 1, 1, 1], [1, 2, 2, 1]), ([1, 2, 3, 1], [1, 3, 1, 1]),
                               ([1, 5, 3, 1], [1, 1, 1, 1])):  # fmt: skip
            yield case(op, x, name=f"{padding}, {ksize[1:3]} by {strides[1:3]}", ksize=ksize, strides=strides,
                       padding=padding)  # fmt: skip
    yield case(op, x[:0], name="no batch", **one)
    yield case(op, -1 - numbers("float32", 1, 4, 4, 1, low=0), name="negative", ksize=[1, 3, 3, 1],
               strides=[1, 1, 1, 1], padding="SAME")  # fmt: skip
    infinite = numpy.full((1, 3, 3, 1), -numpy.inf, "float32")
    infinite[0, 0, 0, 0] = numpy.inf
    yield case(op, infinite, name="infinities", **{**one, "strides": [1, 1, 1, 1]})
    some = numbers("float32", 1, 4, 4, 1)
    some[0, 1, 1, 0] = some[0, 0, 3, 0] = numpy.nan
    yield case(op, some, name="NaN", **{**one, "strides": [1, 1, 1, 1]})
    yield case(op, x, name="window too large", ksize=[1, 7, 7, 1], strides=[1, 1, 1, 1], padding="VALID")
    yield case(op, x, name="along the batch", ksize=[2, 1, 1, 1], strides=[1, 1, 1, 1], padding="VALID", unknown=True)
    yield case(op, x[0], name="3 axes", unknown=True, **one)
    if op == "MaxPool":
        channels = numbers("float32", 1, 2, 2, 6)
        for size in (2, 3, 4):
            yield case(op, channels, name=f"{size} channels", ksize=[1, 1, 1, size], strides=[1, 1, 1, size],
                       padding="VALID", unknown=True)  # fmt: skip
        yield case(op, x, name="explicit", ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding="EXPLICIT",
                   explicit_paddings=[0, 0, 1, 0, 0, 1, 0, 0])  # fmt: skip
        yield case(op, -5 - numbers("float32", 1, 2, 2, 1, low=0), name="explicit, negative", ksize=[1, 2, 2, 1],
                   strides=[1, 1, 1, 1], padding="EXPLICIT", explicit_paddings=[0, 0, 1, 1, 1, 1, 0, 0])  # fmt: skip


@samples("MaxPoolV2", exact=True)
def _pool_v2(op: str) -> Iterator[Case]:
    ksize, strides = numpy.array([1, 3, 2, 1], "int32"), numpy.array([1, 2, 1, 1], "int32")
    for kind in _REAL:
        for padding in ("SAME", "VALID"):
            yield case(op, numbers(kind, 1, 4, 4, 2), ksize, strides, name=f"{kind}, {padding}", padding=padding,
                       constants=(1, 2))  # fmt: skip
    x = numbers("float32", 1, 4, 4, 2)
    yield case(op, x, ksize, strides, name="unknown", padding="SAME", unknown=True)
    yield case(op, x, ksize[:3], strides, name="three numbers", padding="SAME", unknown=True)


@samples("MaxPool3D AvgPool3D")
def _pool_3d(op: str) -> Iterator[Case]:
    for kind in ("float32", "bfloat16"):
        for padding in ("SAME", "VALID"):
            yield case(op, numbers(kind, 1, 3, 4, 2, 2), name=f"{kind}, {padding}", ksize=[1, 2, 2, 2, 1],
                       strides=[1, 1, 2, 1, 1], padding=padding)  # fmt: skip
    x = numbers("float32", 1, 3, 4, 5, 1)
    for padding in ("SAME", "VALID"):
        yield case(op, x, name=padding, ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 2, 1], padding=padding)
    some = numbers("float32", 1, 2, 3, 3, 1)
    some[0, 1, 1, 1, 0] = some[0, 0, 0, 0, 0] = numpy.nan
    yield case(op, some, name="NaN", ksize=[1, 1, 2, 1, 1], strides=[1, 1, 1, 1, 1], padding="VALID")
    yield case(op, x[:0], name="no batch", ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID")
    yield case(op, x[0], name="4 axes", ksize=[1, 2, 3, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID", unknown=True)


@samples("MaxPoolWithArgmax", exact=True)
def _pool_where(op: str) -> Iterator[Case]:
    for kind in (*_REAL, "uint32", "uint64"):
        for padding in ("SAME", "VALID"):
            yield case(op, numbers(kind, 2, 3, 3, 2), name=f"{kind}, {padding}", ksize=[1, 2, 2, 1],
                       strides=[1, 2, 1, 1], padding=padding)  # fmt: skip
    x = numbers("float32", 2, 4, 3, 2, low=-3, high=-1)
    yield case(op, x, name="ties", ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME")
    yield case(op, numpy.zeros_like(x), name="all equal", ksize=[1, 3, 3, 1], strides=[1, 1, 1, 1], padding="SAME")
    some = x.copy()
    some[0, 1, 1, 0] = some[0, 0, 0, 0] = numpy.nan
    yield case(op, some, name="NaN", ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="VALID")
    yield case(op, x[:0], name="empty", ksize=[1, 2, 2, 1], strides=[1, 1, 1, 1], padding="SAME", unknown=True)
    yield case(op, x, name="with the batch", ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding="SAME",
               include_batch_in_index=True)  # fmt: skip
    yield case(op, x, name="int32 places", ksize=[1, 3, 2, 1], strides=[1, 2, 2, 1], padding="SAME", Targmax="int32")


@samples("FractionalMaxPool FractionalAvgPool", ulps=4)
def _fractional(op: str) -> Iterator[Case]:
    usual: dict[str, Any] = {"deterministic": True, "seed": 3, "seed2": 4}
    for kind in ("float32", "float64", "int32", "int64"):
        yield case(op, numbers(kind, 1, 5, 6, 2), name=kind, pooling_ratio=[1.0, 1.4, 1.6, 1.0], **usual)
    x = numbers("float32", 1, 7, 9, 1)
    for pseudo, overlap in ((True, False), (False, True), (True, True)):
        for seed in (1, 2, 9):
            attrs = {**usual, "pseudo_random": pseudo, "overlapping": overlap, "seed": seed, "seed2": 0}
            name = f"pseudo {pseudo}, overlap {overlap}, seed {seed}"
            yield case(op, x, name=name, pooling_ratio=[1.0, 1.5, 1.7, 1.0], **attrs)
    yield case(op, x, name="even", pooling_ratio=[1.0, 1.0, 3.0, 1.0], **usual)
    yield case(op, x, name="along channels", pooling_ratio=[1.0, 1.0, 2.0, 2.0], **usual)
    yield case(op, x, name="a ratio below 1", pooling_ratio=[1.0, 0.5, 2.0, 1.0], **usual)
    yield case(op, x[0], name="3 axes", pooling_ratio=[1.0, 1.5, 2.0, 1.0], unknown=True, **usual)
    yield case(op, x, name="seeds that do not count", pooling_ratio=[1.0, 1.5, 2.0, 1.0], seed=3)
