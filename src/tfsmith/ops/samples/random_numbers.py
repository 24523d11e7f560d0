"""Samples of random ops with seeds: the same bits as TensorFlow's, and normal numbers of the same bits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples, types_of

__all__: list[str] = []

_SHAPES = ((), (1,), (5,), (3, 4), (0, 2), (2, 3, 4))
_FLOATS = ("float16", "bfloat16", "float32", "float64")


def _shape(shape: tuple[int, ...], kind: str = "int32") -> Any:
    return numpy.array(shape, kind)


@samples("RandomUniform", exact=True)
def _uniform(op: str) -> Iterator[Case]:
    for kind, shape in product(_FLOATS, _SHAPES):
        yield case(op, _shape(shape), name=f"{kind}, {shape}", dtype=kind, seed=87654321, seed2=42)
    yield case(op, _shape((7,), "int64"), name="shape in int64", dtype="float32", seed=1)
    yield case(op, _shape((7,)), name="second seed alone", dtype="float32", seed2=3)
    yield case(op, _shape((7,)), name="negative seeds", dtype="float32", seed=-5, seed2=-6)
    yield case(op, _shape((60,)), name="large seeds", dtype="float32", seed=2**40 + 3, seed2=2**50 + 9)
    yield case(op, _shape((2, -1)), name="negative size", dtype="float32", seed=1)


@samples("RandomStandardNormal TruncatedNormal", ulps=8, n_eps=8)
def _normal(op: str) -> Iterator[Case]:
    for kind, shape in product(_FLOATS, _SHAPES):
        yield case(op, _shape(shape), name=f"{kind}, {shape}", dtype=kind, seed=87654321, seed2=42)
    yield case(op, _shape((64,)), name="more", dtype="float32", seed=7, seed2=9)
    yield case(op, _shape((2, -1)), name="negative size", dtype="float32", seed=1)


@samples("RandomUniformInt", exact=True)
def _uniform_int(op: str) -> Iterator[Case]:
    for kind, shape in product(("int32", "int64"), _SHAPES):
        given = _shape(shape), numpy.array(-3, kind), numpy.array(10, kind)
        yield case(op, *given, name=f"{kind}, {shape}", seed=87654321, seed2=42)
    for kind in ("int32", "int64"):
        limits = numpy.iinfo(kind)
        given = _shape((8,)), numpy.array(limits.min, kind), numpy.array(limits.max, kind)
        yield case(op, *given, name=f"{kind}, wide", seed=3)
        given = _shape((8,)), numpy.array(4, kind), numpy.array(4, kind)
        yield case(op, *given, name=f"{kind}, no range", seed=3)


@samples("RandomShuffle", exact=True)
def _shuffle(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        yield case(op, numbers(kind, 9), name=kind, seed=87654321, seed2=42)
        yield case(op, numbers(kind, 5, 2), name=f"{kind}, rows", seed=87654321, seed2=42)
    yield case(op, numbers("float32"), name="scalar", seed=1)
    yield case(op, numbers("float32", 1, 4), name="one row", seed=1)
    yield case(op, numbers("float32", 0, 4), name="no rows", seed=1)
    yield case(op, numbers("float32", 64), name="many", seed=1, seed2=2)


_SEEDS = ((0, 0), (1, 2), (-3, 2**31 - 1))


@samples("StatelessRandomUniform", exact=True)
def _stateless_uniform(op: str) -> Iterator[Case]:
    for kind, shape in product(_FLOATS, _SHAPES):
        yield case(op, _shape(shape), _shape((5, -6)), name=f"{kind}, {shape}", dtype=kind)
    for seed, kind in product(_SEEDS, ("int32", "int64")):
        yield case(op, _shape((5,)), _shape(seed, kind), name=f"seed {seed} in {kind}", dtype="float32")
    yield case(op, _shape((5,)), _shape((1, 2, 3)), name="three seeds", dtype="float32", unknown=True)


@samples("StatelessRandomNormal StatelessTruncatedNormal", ulps=8, n_eps=8)
def _stateless_normal(op: str) -> Iterator[Case]:
    for kind, shape in product(_FLOATS, _SHAPES):
        yield case(op, _shape(shape), _shape((5, -6)), name=f"{kind}, {shape}", dtype=kind)


@samples("StatelessRandomUniformInt", exact=True)
def _stateless_int(op: str) -> Iterator[Case]:
    for kind, shape in product(("int32", "int64"), _SHAPES):
        bounds = numpy.array(-3, kind), numpy.array(10, kind)
        yield case(op, _shape(shape), _shape((5, -6)), *bounds, name=f"{kind}, {shape}")
        yield case(op, _shape(shape), _shape((5, -6)), *bounds[::-1], name=f"{kind}, {shape}, no range")


@samples("StatelessRandomUniformFullInt", exact=True)
def _stateless_full(op: str) -> Iterator[Case]:
    for kind, shape in product(types_of(op, "dtype"), _SHAPES):
        seed = _shape((5, 6), "int64")
        yield case(op, _shape(shape), seed, name=f"{kind}, {shape}", dtype=kind)


@samples("StatelessRandomGetKeyCounter StatelessRandomGetKeyCounterAlg", exact=True)
def _key_counter(op: str) -> Iterator[Case]:
    for seed, kind in product(_SEEDS, ("int32", "int64")):
        yield case(op, _shape(seed, kind), name=f"seed {seed} in {kind}")
    yield case(op, _shape((1,)), name="one seed", unknown=True)


@samples("StatelessRandomGetAlg", exact=True)
def _alg(op: str) -> Iterator[Case]:
    yield case(op, name="the algorithm")


_KEY = numpy.array([2**63 + 12345], "uint64")
_COUNTER = numpy.array([2**64 - 2, 2**40 + 1], "uint64")


@samples("StatelessRandomUniformV2", exact=True)
def _uniform_v2(op: str) -> Iterator[Case]:
    for kind, shape in product(_FLOATS, _SHAPES):
        given = _shape(shape), _KEY, _COUNTER, numpy.array(1, "int32")
        yield case(op, *given, name=f"{kind}, {shape}", dtype=kind)
    for alg in (3, 7):
        yield case(
            op, _shape((5,)), _KEY, _COUNTER, numpy.array(alg, "int32"), name=f"algorithm {alg}", dtype="float32"
        )


@samples("StatelessRandomNormalV2 StatelessTruncatedNormalV2", ulps=8, n_eps=8)
def _normal_v2(op: str) -> Iterator[Case]:
    for kind, shape in product(_FLOATS, _SHAPES):
        given = _shape(shape), _KEY, _COUNTER, numpy.array(1, "int32")
        yield case(op, *given, name=f"{kind}, {shape}", dtype=kind)


@samples("StatelessRandomUniformIntV2", exact=True)
def _int_v2(op: str) -> Iterator[Case]:
    for kind, shape in product(types_of(op, "dtype"), _SHAPES):
        given = _shape(shape), _KEY, _COUNTER, numpy.array(1, "int32"), numpy.array(3, kind), numpy.array(10, kind)
        yield case(op, *given, name=f"{kind}, {shape}")


@samples("StatelessRandomUniformFullIntV2", exact=True)
def _full_v2(op: str) -> Iterator[Case]:
    for kind, shape in product(types_of(op, "dtype"), _SHAPES):
        given = _shape(shape), _KEY, _COUNTER, numpy.array(1, "int32")
        yield case(op, *given, name=f"{kind}, {shape}", dtype=kind)


@samples("Multinomial StatelessMultinomial", exact=True)
def _multinomial(op: str) -> Iterator[Case]:
    def made(logits: Any, count: int, **more: Any) -> Case:
        if op == "Multinomial":
            return case(op, logits, numpy.array(count, "int32"), seed=87654321, seed2=42, **more)
        return case(op, logits, numpy.array(count, "int32"), _shape((5, 6)), **more)

    for kind, out in product(_FLOATS, ("int32", "int64")):
        yield made(numbers(kind, 3, 5, low=-2, high=2), 7, name=f"{kind} as {out}", output_dtype=out)
    inf = float("inf")
    yield made(numpy.array([[0, -inf, 1, -inf], [-inf, 0, -inf, -inf]], "float32"), 9, name="impossible classes")
    yield made(numbers("float32", 2, 3), 0, name="no samples")
    yield made(numbers("float32", 0, 3), 2, name="no rows")
    yield made(numbers("float32", 3), 2, name="a vector", unknown=True)
    yield made(numbers("float32", 2, 3), -2, name="negative", unknown=True)


@samples("StatelessShuffle", exact=True)
def _stateless_shuffle(op: str) -> Iterator[Case]:
    key, counter, philox = numpy.array([3], "uint64"), numpy.array([1, 2], "uint64"), numpy.array(1, "int32")
    for kind, shape in (("int64", (5,)), ("float32", (9, 2)), ("string", (3,)), ("int32", (1, 4)), ("float32", (0,))):
        yield case(op, numbers(kind, *shape), key, counter, philox, name=f"{kind}, {shape}")
