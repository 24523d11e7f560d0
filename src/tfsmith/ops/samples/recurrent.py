"""Samples of the recurrent blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


def _weights(kind: str, inputs: int, size: int) -> list[NDArray[Any]]:
    """The state, h, w, three peepholes and b."""
    return [
        numbers(kind, 2, size, start=1, low=-1, high=1),
        numbers(kind, 2, size, start=9, low=-1, high=1),
        numbers(kind, inputs + size, 4 * size, start=20, low=-1, high=1),
        *(numbers(kind, size, start=start, low=-1, high=1) for start in (70, 75, 80)),
        numbers(kind, 4 * size, start=90, low=-1, high=1),
    ]


@samples("LSTMBlockCell", ulps=32, n_eps=16)
def _cell(op: str) -> Iterator[Case]:
    for kind in ("float32", "float16"):
        x, rest = numbers(kind, 2, 3, low=-2, high=2), _weights(kind, 3, 2)
        for peephole in (False, True):
            yield case(op, x, *rest, name=f"{kind}, peephole {peephole}", use_peephole=peephole)
    x, rest = numbers("float32", 2, 3, low=-2, high=2), _weights("float32", 3, 2)
    yield case(op, x, *rest, name="no clip", cell_clip=-1.0)
    yield case(op, x, *rest, name="clipped", cell_clip=0.25)
    yield case(op, x, *rest, name="no forget bias", forget_bias=0.0)
    yield case(op, x, *rest, name="constants", constants=(3, 4, 5, 6, 7))
    yield case(op, x, *rest, name="unknown", unknown=True)
    yield case(op, x[:1], *rest, name="other batch", unknown=True)
    yield case(op, x[:, :2], *rest, name="other inputs", unknown=True)


@samples("BlockLSTM BlockLSTMV2", ulps=64, n_eps=32)
def _layer(op: str) -> Iterator[Case]:
    for kind in ("float32", "float16"):
        x, rest = numbers(kind, 4, 2, 3, low=-2, high=2), _weights(kind, 3, 2)
        for peephole in (False, True):
            for length in (4, 2, 0):
                whole = case(op, numpy.int64(length), x, *rest, name=f"{kind}, {length} steps, peephole {peephole}",
                             use_peephole=peephole)  # fmt: skip
                yield whole if length == len(x) else _states(whole)
    x, rest = numbers("float32", 4, 2, 3, low=-2, high=2), _weights("float32", 3, 2)
    yield case(op, numpy.int64(4), x, *rest, name="clipped", cell_clip=0.25)
    yield case(op, numpy.int64(4), x, *rest, name="no clip", cell_clip=-1.0)
    yield _states(case(op, numpy.int64(3), x, *rest, name="unknown", unknown=True))
    yield case(op, numpy.int64(4), x[:, :1], *rest, name="other batch", unknown=True)


def _states(whole: Case) -> Case:
    """The case without the gates: TensorFlow leaves them as they are in memory after a sequence's end."""
    fetches = (whole.fetches[1], whole.fetches[6])
    return Case(whole.op, whole.name, whole.nodes, whole.feeds, fetches, whole.types, whole.shapes)


@samples("GRUBlockCell", ulps=32, n_eps=16)
def _gru(op: str) -> Iterator[Case]:
    x, hidden = numbers("float32", 2, 3, low=-2, high=2), numbers("float32", 2, 4, start=7, low=-1, high=1)
    rest = [
        numbers("float32", 7, 8, start=20, low=-1, high=1), numbers("float32", 7, 4, start=90, low=-1, high=1),
        numbers("float32", 8, start=5, low=-1, high=1), numbers("float32", 4, start=15, low=-1, high=1),
    ]  # fmt: skip
    yield case(op, x, hidden, *rest, name="float32")
    yield case(op, x, hidden, *rest, name="constants", constants=(2, 3, 4, 5))
    yield case(op, x, hidden, *rest, name="unknown", unknown=True)
    yield case(op, x[:0], hidden[:0], *rest, name="no batch")
    yield case(op, x[:1], hidden, *rest, name="other batch", unknown=True)
    yield case(op, x[:, :2], hidden, *rest, name="other inputs", unknown=True)
