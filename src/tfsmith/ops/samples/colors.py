"""Samples of ops on the colours of images."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples, types_of

__all__: list[str] = []


@samples("RGBToHSV HSVToRGB", ulps=8, n_eps=4)
def _convert(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        yield case(op, numbers(kind, 4, 5, 3, low=0, high=1), name=kind)
    yield case(op, numbers("float32", 3, low=0, high=1), name="one pixel")
    yield case(op, numbers("float32", 4, 3, low=-2, high=9), name="out of range")
    yield case(
        op, numpy.array([[1, 1, 1], [0, 0, 0], [0.5, 0.5, 0.25], [1, 0.5, 1], [0.5, 1, 1]], "float32"), name="ties"
    )
    yield case(op, numpy.zeros((0, 3), "float32"), name="empty")
    yield case(op, numbers("float32", 2, 2, 3, low=0, high=1), name="unknown", unknown=True)
    yield case(op, numbers("float32", 3, 4), name="four colors", unknown=True)
    yield case(op, numpy.float32(1), name="scalar", unknown=True)


@samples("AdjustContrastv2 AdjustHue AdjustSaturation", ulps=16, n_eps=8)
def _adjust(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        for factor in (0.0, 0.25, -0.5, 1.0, 2.0):
            yield case(op, numbers(kind, 3, 4, 3, low=0, high=1), numpy.float32(factor), name=f"{kind}, {factor}")
    yield case(op, numbers("float32", 2, 2, 3, 3, low=0, high=1), numpy.float32(0.5), name="batch")
    yield case(op, numbers("float32", 2, 2, 3, 3, low=0, high=255), numpy.float32(0.5), name="large")
    grey = numpy.repeat(numbers("float32", 2, 3, 1, low=0, high=1), 3, 2)
    yield case(op, grey, numpy.float32(0.25), name="grey")
    yield case(op, numbers("float32", 2, 2, 3), numpy.float32(0.5), name="unknown", unknown=True)
    yield case(op, numpy.zeros((0, 2, 2, 3), "float32"), numpy.float32(0.5), name="empty")
    yield case(op, numbers("float32", 2, 3), numpy.float32(0.5), name="2 axes", unknown=True)
    yield case(op, numbers("float32", 2, 2, 3), numbers("float32", 2), name="two factors", unknown=True)
    if op != "AdjustContrastv2":
        yield case(op, numbers("float32", 2, 2, 4), numpy.float32(0.5), name="four colors", unknown=True)
