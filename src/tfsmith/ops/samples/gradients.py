"""Samples of derivatives of elementwise ops."""

from __future__ import annotations

from collections.abc import Iterator

import numpy

from tfsmith.ir.dtype import as_dtype
from tfsmith.ops.samples import Case, case, numbers, samples, types_of

__all__: list[str] = []

_EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 6.0, 7.0, float("inf"), -float("inf"), float("nan"))


@samples("TanhGrad SigmoidGrad InvGrad ReciprocalGrad SqrtGrad RsqrtGrad", ulps=8, n_eps=8)
def _of_result(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        if op in ("TanhGrad", "SigmoidGrad") and kind.startswith("complex"):
            continue
        y, dy = numbers(kind, 3, 4, low=1, high=3), numbers(kind, 3, 4, start=30)
        yield case(op, y, dy, name=kind)
    yield case(op, numbers("float32", 0), numbers("float32", 0), name="empty")
    yield case(op, numbers("float32", low=1), numbers("float32", start=3), name="scalars")
    yield case(op, numbers("float32", 2, 3), numbers("float32", 3), name="shapes differ", unknown=True)


@samples("ReluGrad Relu6Grad LeakyReluGrad EluGrad SeluGrad SoftplusGrad SoftsignGrad", ulps=8, n_eps=4)
def _of_activation(op: str) -> Iterator[Case]:
    for kind in types_of(op):
        low, high = (-1, 2) if op in ("EluGrad", "SeluGrad") else (-8, 8)
        yield case(op, numbers(kind, 3, 4, start=30), numbers(kind, 3, 4, low=low, high=high), name=kind)
        if kind.startswith(("float", "bfloat")):
            x = numpy.array(_EDGES).astype(as_dtype(kind).numpy())
            yield case(op, numbers(kind, len(_EDGES), start=30), x, name=f"{kind}, edges")
    if op == "LeakyReluGrad":
        yield case(op, numbers("float32", 6, start=30), numbers("float32", 6), name="alpha", alpha=0.5)
    yield case(op, numbers("float32", 0), numbers("float32", 0), name="empty")
    yield case(op, numbers("float32", 2, 3), numbers("float32", 3), name="shapes differ", unknown=True)
