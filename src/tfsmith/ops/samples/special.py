"""Samples of special functions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy

from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, numbers, samples, types_of

__all__: list[str] = []

_INF, _NAN = float("inf"), float("nan")


def _array(kind: str, values: Any) -> Any:
    return numpy.array(values).astype(as_dtype(kind).numpy())


def _unary(op: str, values: tuple[float, ...], without: str = "") -> Iterator[Case]:
    for kind in (kind for kind in types_of(op) if kind not in without.split()):
        yield case(op, _array(kind, values), name=kind)
    yield case(op, numbers("float32", 0, 2), name="empty")
    yield case(op, _array("float32", values[0]), name="scalar")
    yield case(op, _array("float32", values[:6]).reshape(2, 1, 3), name="unknown shape", unknown=True)


@samples("Erfc", ulps=12, n_eps=4)
def _erfc(op: str) -> Iterator[Case]:
    yield from _errors(op)
    yield case(op, _array("float32", [4.0, 4.5, 5.25, 6.0, 7.5, 9.0]), name="float32, far")


@samples("Erf", ulps=12, n_eps=4, scale=1)
def _erf(op: str) -> Iterator[Case]:
    yield from _errors(op)
    small = [2.0**-20, -(2.0**-20), 2.0**-13, -1.5 * 2.0**-13, 2.0**-30, -(2.0**-9)]
    yield case(op, _array("float32", small), name="float32, small")


def _errors(op: str) -> Iterator[Case]:
    small = (0.5, -0.25, 0.0, -0.0, 2.0**-10, 1.0, -1.0, 0.875, 1.5, -1.125, 2.0, 2.5, -3.0, 3.5, -2.75, 3.875)
    yield from _unary(op, (*small, 4.0, 5.0, -5.5, 6.0, _NAN))
    for kind in ("float32", "float16", "bfloat16"):  # TensorFlow 2.21 has NaN for infinities of float64
        yield case(op, _array(kind, [_INF, -_INF]), name=f"{kind}, infinities")
    yield case(op, _array("float64", [8.0, 10.0, -10.0, 20.0, 0.46875, 0.953125]), name="float64, far")


@samples("Erfinv", ulps=16, n_eps=8)
def _erfinv(op: str) -> Iterator[Case]:
    values = (0.5, -0.25, 0.0, 0.125, -0.75, 0.875, 0.96875, -0.984375, 1.0, -1.0, 1.5, _NAN)
    yield from _unary(op, values, "float16 bfloat16")


@samples("Ndtri", ulps=16, n_eps=8)
def _ndtri(op: str) -> Iterator[Case]:
    values = (0.5, 0.25, 0.125, 0.75, 0.875, 0.96875, 0.984375, 2.0**-8, 2.0**-12, 0.0, 1.0, 1.5, -1.0, _NAN)
    yield from _unary(op, values, "float16 bfloat16")


@samples("Lgamma", ulps=8, n_eps=4)
def _lgamma(op: str) -> Iterator[Case]:
    values = (0.5, 1.0, 2.0, 3.0, 1.5, 0.25, 2.5, 7.25, 12.0, 15.5, 40.0, 0.125, -0.5, -1.5, -3.25, -7.75)
    yield from _unary(op, (*values, 2.0**-10, 0.0, -0.0, -1.0, -4.0, _INF, -_INF, _NAN), "bfloat16")
    yield case(op, _array("float64", [100.0, 1000.0, 1e5, 171.0, 3.5, 4.5, 5.5, 11.875]), name="float64, large")


@samples("Digamma", ulps=16, n_eps=8)
def _digamma(op: str) -> Iterator[Case]:
    values = (0.5, 1.0, 2.0, 3.0, 1.5, 0.25, 2.5, 7.25, 12.0, 15.5, 40.0, 0.125, -0.5, -1.25, -3.25, -7.75)
    yield from _unary(op, (*values, 0.0, -1.0, -4.0, _NAN), "bfloat16")


@samples("Igamma Igammac", ulps=512, n_eps=64)
def _igamma(op: str) -> Iterator[Case]:
    places = (0.25, 0.5, 1.0, 1.5, 3.0, 7.5, 20.0)
    pairs = numpy.array(list(product(places, places)))
    for kind in ("float32", "float64"):
        yield case(op, _array(kind, pairs[:, 0]), _array(kind, pairs[:, 1]), name=kind)
        edges = [(1, 0), (0, 1), (1, _INF), (-1, 1), (1, -1), (_NAN, 1), (1, _NAN), (0, 0), (100, 90), (90, 100)]
        yield case(op, *_array(kind, edges).T.copy(), name=f"{kind}, edges")
    yield case(op, numbers("float32", 3, 1, low=1), numbers("float32", 4, low=1), name="broadcast")
    yield case(op, numbers("float32", 0), numbers("float32", 1), name="empty")


@samples("Betainc", ulps=256, n_eps=64)
def _betainc(op: str) -> Iterator[Case]:
    places = (0.25, 1.0, 2.5, 9.0)
    triples = numpy.array(list(product(places, places, (0.125, 0.5, 0.875))))
    for kind in ("float32", "float64"):
        yield case(op, *_array(kind, triples).T.copy(), name=kind)
        edges = [(1, 1, 0), (1, 1, 1), (2, 3, 0), (2, 3, 1), (1, 1, 1.5), (1, 1, -1), (-1, 1, 0.5), (1, 1, _NAN)]
        yield case(op, *_array(kind, edges).T.copy(), name=f"{kind}, edges")
    half = _array("float32", 0.5)
    yield case(op, half, half, _array("float32", [0.25, 0.5]), name="scalars")
    yield case(op, half, _array("float32", [1, 2, 3]), _array("float32", [0.25, 0.5]), name="do not fit", unknown=True)
    yield case(
        op, half, _array("float32", [[1], [2]]), _array("float32", [0.25, 0.5]), name="no broadcast", unknown=True
    )


@samples("Zeta", ulps=32, n_eps=8)
def _zeta(op: str) -> Iterator[Case]:
    pairs = numpy.array(list(product((1.5, 2.0, 3.0, 4.5, 8.0), (0.25, 0.5, 1.0, 2.5, 7.0, 30.0))))
    for kind in ("float32", "float64"):
        yield case(op, *_array(kind, pairs).T.copy(), name=kind)
        edges = [(1, 1), (0.5, 1), (2, 0), (2, -1), (2, -0.5), (3, -2.5), (2.5, -0.5), (_NAN, 1), (2, _NAN)]
        edges += [(3, 0), (3, -2), (4, -3), (1, _NAN), (2.5, 0), (1, -1)]
        yield case(op, *_array(kind, edges).T.copy(), name=f"{kind}, edges")


@samples("Polygamma", ulps=32, n_eps=8)
def _polygamma(op: str) -> Iterator[Case]:
    pairs = numpy.array(list(product((0.0, 1.0, 2.0, 3.0, 5.0), (0.25, 0.5, 1.0, 2.5, 7.0, 30.0))))
    for kind in ("float32", "float64"):
        yield case(op, *_array(kind, pairs).T.copy(), name=kind)
        edges = [(-1, 1), (0.5, 1), (1, 0), (1, -1), (1, -0.5), (2, -1.5), (1, _NAN)]
        yield case(op, *_array(kind, edges).T.copy(), name=f"{kind}, edges")


_SPREAD = (0.5, 0.125, 1.0, 1.5, 2.5, 4.0, 7.25, 8.5, 12.0, 19.0, 25.0, 40.0)


@samples("BesselI0e BesselI1e BesselI0 BesselI1", ulps=16, n_eps=4)
def _modified(op: str) -> Iterator[Case]:
    values = (*_SPREAD, *(-one for one in _SPREAD), 0.0, -0.0, _NAN)
    yield from _unary(op, values if op.endswith("e") else tuple(one for one in values if not abs(one) > 10), "bfloat16")


@samples("BesselK0 BesselK0e BesselK1 BesselK1e", ulps=16, n_eps=4)
def _modified_second(op: str) -> Iterator[Case]:
    values = (*(one for one in _SPREAD if one < 9), 2.0**-6, 0.0, -1.0, _NAN)
    yield from _unary(op, values, "bfloat16 float16")
    if op.endswith("e"):
        yield case(op, _array("float64", _SPREAD), name="float64, far")


@samples("BesselJ0 BesselJ1", ulps=16, n_eps=8)
def _oscillating(op: str) -> Iterator[Case]:
    yield from _unary(op, (*_SPREAD, *(-one for one in _SPREAD), 0.0, _NAN), "bfloat16 float16")


@samples("BesselY0 BesselY1", ulps=32, n_eps=8)
def _second_kind(op: str) -> Iterator[Case]:
    yield from _unary(op, (*_SPREAD, -1.0, _NAN), "bfloat16 float16")


@samples("Dawsn", ulps=16, n_eps=4)
def _dawsn(op: str) -> Iterator[Case]:
    values = (*_SPREAD, *(-one for one in _SPREAD), 0.0, 2.0**-10, 60.0, 1000.0, _NAN)
    yield from _unary(op, values, "bfloat16 float16")


@samples("Expint", ulps=32, n_eps=4)
def _expint(op: str) -> Iterator[Case]:
    yield from _unary(op, (*_SPREAD, 0.0, -1.0, _NAN, 60.0), "bfloat16 float16")


@samples("FresnelCos FresnelSin", ulps=16, n_eps=8)
def _fresnel(op: str) -> Iterator[Case]:
    values = (*_SPREAD, *(-one for one in _SPREAD), 0.0, 1.25, 1.75, 2.0, 3.0, _NAN)
    yield from _unary(op, values, "bfloat16 float16")


@samples("Spence", ulps=16, n_eps=4)
def _spence(op: str) -> Iterator[Case]:
    yield from _unary(op, (*_SPREAD, 0.0, 0.25, 0.75, 1.25, 2.0, 1000.0, -1.0, _NAN), "bfloat16 float16")
