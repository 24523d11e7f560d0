"""Samples of random ops with seeds: the same bits as TensorFlow's, normals within the last places."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, samples

__all__: list[str] = []

_SHAPES = ((), (1,), (3,), (4, 4), (5, 7), (0,), (2, 3, 5))
_FLOATS = ("float32", "float64", "float16", "bfloat16")


def _shape(*dims: int) -> Any:
    return numpy.array(dims, "int32")


@samples("RandomUniform", exact=True)
def _uniform(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        for dims in _SHAPES:
            yield case(op, _shape(*dims), name=f"{kind}, {dims}", dtype=kind, seed=7, seed2=9)
    yield case(op, _shape(8), name="large seeds", dtype="float32", seed=1 << 40, seed2=-3)
    yield case(op, numpy.array([3], "int64"), name="int64 shape", dtype="float32", seed=1)
    yield case(op, numpy.array([-1], "int32"), name="negative", dtype="float32", seed=1)


@samples("RandomStandardNormal TruncatedNormal", ulps=64, n_eps=4)
def _normal(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        for dims in _SHAPES:
            yield case(op, _shape(*dims), name=f"{kind}, {dims}", dtype=kind, seed=7, seed2=9)
    yield case(op, _shape(8, 8), name="other seeds", dtype="float32", seed=123, seed2=0)


@samples("RandomUniformInt", exact=True)
def _integers(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64"):
        for low, high in ((0, 10), (-5, 5), (0, 1), (3, 3), (5, 2), (-(1 << 31), (1 << 31) - 1)):
            bounds = (numpy.array(low, kind), numpy.array(high, kind))
            yield case(op, _shape(3, 5), *bounds, name=f"{kind}, {low} to {high}", seed=3, seed2=4)


def _seed(op: str, *numbers: int) -> tuple[Any, ...]:
    if op.endswith("V2"):
        counter = numpy.array([numbers[1], 5], "uint64")
        return numpy.array([numbers[0]], "uint64"), counter, numpy.array(1, "int32")
    return (numpy.array(numbers, "int64"),)


@samples("StatelessRandomUniform StatelessRandomUniformV2", exact=True)
def _stateless_uniform(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        for dims in _SHAPES:
            yield case(op, _shape(*dims), *_seed(op, 1, 2), name=f"{kind}, {dims}", dtype=kind)
    yield case(op, _shape(9), *_seed(op, (1 << 62) + 5, 1 << 33), name="large seeds", dtype="float32")


@samples(
    "StatelessRandomNormal StatelessRandomNormalV2 StatelessTruncatedNormal StatelessTruncatedNormalV2",
    ulps=64, n_eps=4,
)  # fmt: skip
def _stateless_normal(op: str) -> Iterator[Case]:
    for kind in _FLOATS:
        for dims in _SHAPES:
            yield case(op, _shape(*dims), *_seed(op, 1, 2), name=f"{kind}, {dims}", dtype=kind)


@samples("StatelessRandomUniformInt StatelessRandomUniformIntV2", exact=True)
def _stateless_int(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64"):
        for low, high in ((0, 10), (-5, 5), (5, 2)):
            bounds = (numpy.array(low, kind), numpy.array(high, kind))
            yield case(op, _shape(3, 5), *_seed(op, 1, 2), *bounds, name=f"{kind}, {low} to {high}", dtype=kind)


@samples("StatelessRandomUniformFullInt StatelessRandomUniformFullIntV2", exact=True)
def _stateless_full(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64", "uint32", "uint64"):
        yield case(op, _shape(3, 5), *_seed(op, 1, 2), name=kind, dtype=kind)


@samples("StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg", exact=True)
def _key_counter(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64"):
        for seed in ((1, 2), (0, 0), (-1, 1 << 20)):
            yield case(op, numpy.array(seed, kind), name=f"{kind}, {seed}")


@samples("StatelessRandomGetAlg", exact=True)
def _algorithm(op: str) -> Iterator[Case]:
    yield case(op, name="CPU")
