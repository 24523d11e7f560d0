"""Samples of variables that are left in a graph: reading and changing some of their rows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy

from tfsmith.ops.samples import Case, numbers, samples
from tfsmith.ops.samples.draft import Draft

__all__: list[str] = []


def _variable(draft: Draft, start: Any) -> tuple[str, str]:
    """A variable with its first value, and the node that gave it."""
    kind = "string" if start.dtype == object else start.dtype.name
    handle = draft.add("VarHandleOp", dtype=kind, shape=list(start.shape), shared_name="v")
    return handle, draft.add("AssignVariableOp", handle, draft.feed(start))


def _changed(op: str, name: str, start: Any, *inputs: Any, **attrs: Any) -> Case:
    """What a variable is after an op has changed it."""
    draft = Draft()
    handle, filled = _variable(draft, start)
    done = draft.add(op, handle, *(draft.feed(one) for one in inputs), after=[filled], **attrs)
    kind = "string" if start.dtype == object else start.dtype.name
    return draft.case(op, name, draft.add("ReadVariableOp", handle, after=[done], dtype=kind))


def _read(op: str, name: str, start: Any, *inputs: Any, **attrs: Any) -> Case:
    draft = Draft()
    handle, filled = _variable(draft, start)
    return draft.case(op, name, draft.add(op, handle, *(draft.feed(one) for one in inputs), after=[filled], **attrs))


def _ids(*values: Any, kind: str = "int32") -> Any:
    return numpy.array(values, kind)


@samples("AssignAddVariableOp AssignSubVariableOp", exact=True)
def _assign(op: str) -> Iterator[Case]:
    for kind in ("float32", "float64", "int32", "int64"):
        yield _changed(op, kind, numbers(kind, 2, 3), numbers(kind, 2, 3, start=7))
    yield _changed(op, "another shape", numbers("float32", 2, 3), numbers("float32", 3))


@samples("ResourceGather ResourceGatherNd", exact=True)
def _gather(op: str) -> Iterator[Case]:
    for kind, index in product(("float32", "int64", "string"), ("int32", "int64")):
        x = numbers(kind, 3, 2, 4)
        yield _read(op, f"{kind}, {index}", x, _ids([2, 1], [0, 1], kind=index), dtype=kind)
        if op == "ResourceGather":
            yield _read(op, f"{kind}, {index}, by batches", x, _ids([1, 0], [0, 0], [1, 1], kind=index), dtype=kind,
                        batch_dims=1)  # fmt: skip
    x = numbers("float32", 3, 2)
    yield _read(op, "outside", x, _ids([0, 3]), dtype="float32")
    yield _read(op, "negative", x, _ids([-1, 0]), dtype="float32")
    yield _read(op, "none", x, numpy.zeros((0, 1), "int32"), dtype="float32")


@samples("ResourceScatterAdd ResourceScatterSub ResourceScatterMul ResourceScatterDiv ResourceScatterMin"
         " ResourceScatterMax ResourceScatterUpdate", ulps=2)  # fmt: skip
def _scatter(op: str) -> Iterator[Case]:
    for kind, index in (("float32", "int32"), ("float64", "int64"), ("int32", "int32"), ("int64", "int64")):
        x, given = numbers(kind, 4, 3), numbers(kind, 3, 3, start=20, low=1)
        yield _changed(op, f"{kind}, {index}", x, _ids(2, 0, 2, kind=index), given, dtype=kind)
        yield _changed(op, f"{kind}, {index}, one for all", x, _ids([1, 3], kind=index), numbers(kind, low=2, start=3),
                       dtype=kind)  # fmt: skip
    x = numbers("float32", 4, 3)
    yield _changed(op, "a matrix of ids", x, _ids([0, 1], [2, 2]), numbers("float32", 2, 2, 3, low=1), dtype="float32")
    yield _changed(op, "no ids", x, numpy.zeros(0, "int32"), numbers("float32", 0, 3), dtype="float32")
    yield _changed(op, "outside", x, _ids(4), numbers("float32", 1, 3), dtype="float32")
    yield _changed(op, "negative", x, _ids(-1), numbers("float32", 1, 3), dtype="float32")
    yield _changed(op, "rows that do not fit", x, _ids(1), numbers("float32", 1, 2), dtype="float32")
    if op == "ResourceScatterDiv":
        yield _changed(op, "by zero", x, _ids(1), numpy.zeros((1, 3), "float32"), dtype="float32")


@samples("ResourceScatterNdAdd ResourceScatterNdSub ResourceScatterNdMin ResourceScatterNdMax"
         " ResourceScatterNdUpdate", exact=True)  # fmt: skip
def _scatter_nd(op: str) -> Iterator[Case]:
    for kind, index in (("float32", "int32"), ("float64", "int64"), ("int32", "int32")):
        x = numbers(kind, 4, 3)
        yield _changed(op, f"{kind}, {index}, rows", x, _ids([2], [0], kind=index), numbers(kind, 2, 3, start=20))
        yield _changed(
            op, f"{kind}, {index}, elements", x, _ids([2, 1], [0, 0], kind=index), numbers(kind, 2, start=20)
        )
    x = numbers("float32", 4, 3)
    yield _changed(op, "outside", x, _ids([4]), numbers("float32", 1, 3))
    yield _changed(op, "do not fit", x, _ids([1]), numbers("float32", 1, 2))


@samples("ResourceStridedSliceAssign", exact=True)
def _strided(op: str) -> Iterator[Case]:
    for kind in ("float32", "int64", "string"):
        given = _ids(0, 3), _ids(3, 0), _ids(2, -1), numbers(kind, 2, 3, start=9)
        yield _changed(op, kind, numbers(kind, 3, 4), *given)
    x, row = numbers("float32", 3, 4), numbers("float32", 4, start=9)
    yield _changed(op, "one row", x, _ids(1), _ids(2), _ids(1), row, shrink_axis_mask=1)
    yield _changed(op, "a short row", x, _ids(1), _ids(2), _ids(1), row[:3], shrink_axis_mask=1)
    yield _changed(op, "ellipsis", x, _ids(0, 1), _ids(0, 2), _ids(1, 1), x[:, :1] + 1, ellipsis_mask=1)


@samples("ResourceCountUpTo", exact=True)
def _count(op: str) -> Iterator[Case]:
    for kind in ("int32", "int64"):
        yield _read(op, kind, numpy.array(2, kind), limit=3, T=kind)
    yield _read(op, "at its limit", numpy.array(3, "int32"), limit=3, T="int32")
    draft = Draft()
    handle, filled = _variable(draft, numpy.array(0, "int64"))
    first = draft.add(op, handle, after=[filled], limit=9, T="int64")
    yield draft.case(op, "twice", first, draft.add(op, handle, after=[first], limit=9, T="int64"))


_STATE = numpy.array([5, -2, 1234567890123], "int64")


@samples("StatefulUniform StatefulUniformInt StatefulUniformFullInt RngSkip RngReadAndSkip", exact=True)
def _stateful(op: str) -> Iterator[Case]:
    one = numpy.array(1, "int64")
    if op.startswith("Rng"):
        kind = "uint64" if op == "RngReadAndSkip" else "int64"
        algorithm = one.astype("int32") if op == "RngReadAndSkip" else one
        for delta in (0, 1, 1000, 2**40):
            yield _changed(op, f"by {delta}", _STATE, algorithm, numpy.array(delta, kind))
        if op == "RngReadAndSkip":
            yield _read(op, "what was before", _STATE, algorithm, numpy.array(3, kind))
        return
    for kind in {"StatefulUniform": ("float32", "float64", "float16", "bfloat16")}.get(op, ("int32", "int64")):
        bounds = [numpy.array(end, kind) for end in (-5, 17)] if op == "StatefulUniformInt" else []
        for shape in ((), (5,), (3, 4), (0,)):
            given = one, numpy.array(shape, "int32"), *bounds
            yield _read(op, f"{kind}, {shape}", _STATE, *given, dtype=kind)
            yield _changed(op, f"{kind}, {shape}, the state after it", _STATE, *given, dtype=kind)
    yield _read(op, "another algorithm", _STATE, one * 7, numpy.array([2], "int32"), *bounds, dtype=kind)
    yield _read(op, "a short state", _STATE[:2], one, numpy.array([2], "int32"), *bounds, dtype=kind)


@samples("StatefulStandardNormalV2 StatefulTruncatedNormal", ulps=8, n_eps=8)
def _stateful_normal(op: str) -> Iterator[Case]:
    for kind, shape in product(("float32", "float64", "float16"), ((), (5,), (3, 4))):
        given = numpy.array(1, "int64"), numpy.array(shape, "int32")
        yield _read(op, f"{kind}, {shape}", _STATE, *given, dtype=kind)
