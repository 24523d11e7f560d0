"""Samples of decoding: CTC, and the distance of sequences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy

from tfsmith.ops.samples import Case, case, numbers, samples, texts

__all__: list[str] = []


def _ints(*found: int, kind: str = "int64") -> Any:
    return numpy.array(found, kind)


@samples("CTCGreedyDecoder", n_eps=4)
def _greedy(op: str) -> Iterator[Case]:
    x = numbers("float32", 5, 2, 4)
    for merge in (False, True):
        for kind in ("float32", "float64"):
            lengths = _ints(5, 3, kind="int32")
            yield case(op, x.astype(kind), lengths, merge_repeated=merge, name=f"{kind}, merge {merge}")
        for blank in (0, 2, -2):
            lengths = _ints(4, 5, kind="int32")
            yield case(op, x, lengths, merge_repeated=merge, blank_index=blank, name=f"blank {blank}, merge {merge}")
    same = numpy.zeros((4, 1, 3), "float32")
    same[..., 1] = 1
    yield case(op, same, _ints(4, kind="int32"), name="the same")
    yield case(op, same, _ints(4, kind="int32"), merge_repeated=True, name="the same, merged")
    yield case(op, same, _ints(4, kind="int32"), blank_index=1, name="blanks only")
    yield case(op, same, _ints(5, kind="int32"), name="too long")
    yield case(op, same, _ints(4, 4, kind="int32"), name="another batch")
    yield case(op, same, _ints(4, kind="int32"), blank_index=3, name="no such blank")


@samples("CTCBeamSearchDecoder", n_eps=64)
def _beam_search(op: str) -> Iterator[Case]:
    x = numbers("float32", 6, 2, 5, low=-3, high=3) + numpy.arange(60).reshape(6, 2, 5).astype("float32") / 1024
    lengths = _ints(6, 4, kind="int32")
    for merge in (False, True):
        for width, paths in ((1, 1), (2, 1), (4, 3), (100, 2), (7, 7)):
            yield case(op, x, lengths, merge_repeated=merge, beam_width=width, top_paths=paths,
                       name=f"{paths} of {width}, merge {merge}")  # fmt: skip
    yield case(op, x, _ints(0, 3, kind="int32"), beam_width=10, top_paths=1, name="a length of 0")
    yield case(op, x, _ints(0, 3, kind="int32"), beam_width=10, top_paths=2, name="too few sequences")
    yield case(op, x, _ints(7, 3, kind="int32"), beam_width=10, top_paths=1, name="too long")
    yield case(op, x, lengths[:1], beam_width=10, top_paths=1, name="another batch")
    yield case(op, x, lengths, beam_width=2, top_paths=3, name="more paths than beams")
    sharp = numpy.full((5, 1, 4), -20, "float32")
    for frame, label in enumerate((1, 1, 3, 1, 2)):
        sharp[frame, 0, label] = 20
    yield case(op, sharp, _ints(5, kind="int32"), beam_width=8, top_paths=1, merge_repeated=False, name="sharp")


@samples("EditDistance", ulps=2)
def _edit_distance(op: str) -> Iterator[Case]:
    one = numpy.array([[0, 0], [0, 1], [0, 2], [1, 0]], "int64")
    other = numpy.array([[0, 0], [0, 1], [2, 0]], "int64")
    for normalize in (False, True):
        given: dict[str, Any] = {"normalize": normalize}
        yield case(
            op, one, _ints(1, 2, 3, 4), _ints(3, 3), other, _ints(1, 3, 4), _ints(3, 2), name=f"{given}", **given
        )
        words = texts([b"a", b"b", b"c", b"d"]), texts([b"b", b"c", b"d"])
        yield case(op, one, words[0], _ints(3, 3), other, words[1], _ints(3, 2), name=f"texts, {given}", **given)
    cube = numpy.array([[0, 0, 0], [0, 1, 0], [1, 1, 1]], "int64")
    shape = _ints(2, 2, 2)
    yield case(op, cube, _ints(1, 2, 3), shape, cube[:2], _ints(1, 9), shape, name="three axes")
    yield case(op, one, _ints(1, 2, 3, 4), _ints(3, 3), cube, _ints(1, 2, 3), shape, name="ranks differ")
