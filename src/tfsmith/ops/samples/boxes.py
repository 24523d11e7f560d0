"""Samples of ops on boxes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, numbers, samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_BOXES = (
    (0, 0, 1, 1), (0, 0.125, 1, 1.125), (0, -0.125, 1, 0.875), (0, 10, 1, 11), (0, 10.125, 1, 11.125),
    (0, 100, 1, 101), (1, 1, 0, 0), (0.5, 0.5, 0.5, 2),
)  # fmt: skip
_SCORES = (0.875, 0.75, 0.625, 0.9375, 0.5, 0.25, 0.8125, 0.6875)


def _boxes(kind: str) -> NDArray[Any]:
    return numpy.array(_BOXES).astype(as_dtype(kind).numpy())


def _scores(kind: str) -> NDArray[Any]:
    return numpy.array(_SCORES).astype(as_dtype(kind).numpy())


def _most(count: int) -> Any:
    return numpy.array(count, "int32")


@samples("NonMaxSuppression")
def _suppress(op: str) -> Iterator[Case]:
    boxes, scores = _boxes("float32"), _scores("float32")
    for count in (0, 1, 3, 30):
        yield case(op, boxes, scores, _most(count), name=f"{count}")
    for share in (0.0, 0.25, 0.75, 1.0, 1.5):
        yield case(op, boxes, scores, _most(8), name=f"threshold {share}", iou_threshold=share)


@samples("NonMaxSuppressionV2 NonMaxSuppressionV3 NonMaxSuppressionV4 NonMaxSuppressionV5")
def _suppress_more(op: str) -> Iterator[Case]:
    extra = {"2": 0, "3": 1, "4": 1, "5": 2}[op[-1]]
    for kind in ("float32", "float16"):
        plain = as_dtype(kind).numpy().type
        boxes, scores = _boxes(kind), _scores(kind)
        for count in (0, 1, 3, 30):
            rest = [plain(0.5), plain(0), plain(0)][: 1 + extra]
            yield case(op, boxes, scores, _most(count), *rest, name=f"{kind}, {count}")
        for share in (0.0, 0.25, 0.75, 1.0):
            rest = [plain(share), plain(0.375), plain(0)][: 1 + extra]
            yield case(op, boxes, scores, _most(8), *rest, name=f"{kind}, threshold {share}")
        if extra == 2:
            for sigma in (0.5, 0.125):
                rest = [plain(0.5), plain(0.0625), plain(sigma)]
                yield case(op, boxes, scores, _most(8), *rest, name=f"{kind}, sigma {sigma}")
                rest = [plain(1), plain(0.0625), plain(sigma)]
                yield case(op, boxes, scores, _most(8), *rest, name=f"{kind}, sigma {sigma}, soft only")
    f32 = numpy.float32
    boxes, scores = _boxes("float32"), _scores("float32")
    rest = [f32(0.5), f32(0.3), f32(0)][: 1 + extra]
    yield case(op, boxes, scores, _most(4), *rest, name="unknown", unknown=True)
    yield case(op, boxes[:0], scores[:0], _most(4), *rest, name="no boxes")
    yield case(op, boxes, scores * 0 + f32(0.5), _most(8), *rest, name="equal scores")
    odd = scores.copy()
    odd[:3] = numpy.nan, numpy.inf, -numpy.inf
    yield case(op, boxes, odd, _most(8), *rest, name="odd scores")
    yield case(op, boxes, scores[:3], _most(8), *rest, name="too few scores", unknown=True)
    yield case(op, boxes[:, :3], scores, _most(8), *rest, name="three numbers", unknown=True)
    yield case(op, boxes, scores, _most(-1), *rest, name="negative number", unknown=True)
    wrong = [f32(1.5), f32(0.3), f32(0)][: 1 + extra]
    yield case(op, boxes, scores, _most(8), *wrong, name="threshold above 1", unknown=True)
    if op[-1] in "45":
        yield case(op, boxes, scores, _most(12), *rest, name="filled", pad_to_max_output_size=True)


@samples("NonMaxSuppressionWithOverlaps")
def _suppress_overlaps(op: str) -> Iterator[Case]:
    overlaps, scores = numbers("float32", 6, 6, low=0, high=1), numbers("float32", 6, low=0, high=2, start=3)
    for share in (0.25, 0.5, 1.5):
        yield case(op, overlaps, scores, _most(4), numpy.float32(share), numpy.float32(0.1), name=f"threshold {share}")
    rest = [numpy.float32(0.5), numpy.float32(0)]
    yield case(op, overlaps[:0, :0], scores[:0], _most(4), *rest, name="no boxes")
    yield case(op, overlaps[:, :4], scores, _most(4), *rest, name="not square", unknown=True)
    yield case(op, overlaps, scores[:4], _most(4), *rest, name="too few scores", unknown=True)


@samples("CombinedNonMaxSuppression")
def _combined(op: str) -> Iterator[Case]:
    boxes = numpy.stack([_boxes("float32")] * 2)[:, :, None] / 8
    boxes[1, :, :, 1] += numpy.float32(0.0625)
    scores = numbers("float32", 2, 8, 3, low=0, high=1) + numpy.arange(48, dtype="float32").reshape(2, 8, 3) / 64
    rest = [numpy.float32(0.5), numpy.float32(0.25)]
    for most, total in ((2, 4), (4, 3), (1, 9)):
        for filled in (False, True):
            yield case(op, boxes, scores, _most(most), _most(total), *rest, name=f"{most}, {total}, filled {filled}",
                       pad_per_class=filled)  # fmt: skip
    yield case(op, boxes * 4, scores, _most(3), _most(6), *rest, name="clipped")
    yield case(op, boxes * 4, scores, _most(3), _most(6), *rest, name="not clipped", clip_boxes=False)
    own = numpy.concatenate([boxes[:1, :5], boxes[:1, 1:6], boxes[:1, 2:7]], 2)
    yield case(op, own, scores[:1, :5], _most(3), _most(6), *rest, name="boxes of classes")
    yield case(op, boxes, scores, _most(3), _most(6), *rest, name="unknown", unknown=True)
    yield case(op, boxes, scores, _most(3), _most(6), rest[0], numpy.float32(3), name="none good enough")
    yield case(op, own[:, :, :2], scores[:1, :5], _most(3), _most(6), *rest, name="two boxes", unknown=True)
    yield case(op, boxes, scores, _most(0), _most(6), *rest, name="none of a class", unknown=True)
    yield case(op, boxes, scores[:1], _most(3), _most(6), *rest, name="other batch", unknown=True)


@samples("DrawBoundingBoxes DrawBoundingBoxesV2", exact=True)
def _draw(op: str) -> Iterator[Case]:
    boxes = numpy.array([[[0, 0, 1, 1], [0.25, 0.3, 0.8, 0.9], [-0.5, 0.5, 0.5, 1.5], [0.6, 0.6, 0.2, 0.9]]], "float32")
    colors = numpy.array([[0.25, 0.5, 0.75, 1], [3, 2, 1, 0], [0.125, 0, 1, 1]], "float32")
    rest = [colors] if op.endswith("V2") else []
    for kind in ("float32", "float16"):
        for depth in (1, 3, 4):
            yield case(op, numbers(kind, 1, 4, 4, depth), boxes, *rest, name=f"{kind}, {depth} channels")
        yield case(op, numbers(kind, 1, 7, 9, 1), boxes[:, 1:2], *rest, name=f"{kind}, one box")
    x = numbers("float32", 1, 4, 4, 3)
    yield case(op, x, boxes[:, :0], *rest, name="no boxes")
    yield case(op, x, boxes[:, :, :3], *rest, name="three numbers", unknown=True)
    yield case(op, numbers("float32", 1, 4, 4, 2), boxes, *rest, name="two channels", unknown=True)
    if rest:
        yield case(op, x, boxes, colors[:0], name="no colors")
