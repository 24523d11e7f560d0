"""Values of ops on boxes: non-maximum suppression in its versions, and drawing."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.windows import lowest, require_rank

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

__all__: list[str] = []

_COLORS = (
    (1, 1, 0, 1), (0, 0, 1, 1), (1, 0, 0, 1), (0, 1, 0, 1), (0.5, 0, 0.5, 1), (0.5, 0.5, 0, 1), (0.5, 0, 0, 1),
    (0, 0, 0.5, 1), (0, 1, 1, 1), (1, 0, 1, 1),
)  # fmt: skip
"""What boxes are drawn in, in turn."""


class _Overlaps:
    """The overlap of one box with all: intersection over union, in the type of the boxes."""

    def __init__(self, boxes: NDArray[Any]) -> None:
        self._top, self._bottom = numpy.minimum(boxes[:, 0], boxes[:, 2]), numpy.maximum(boxes[:, 0], boxes[:, 2])
        self._left, self._right = numpy.minimum(boxes[:, 1], boxes[:, 3]), numpy.maximum(boxes[:, 1], boxes[:, 3])
        self._area = (self._bottom - self._top) * (self._right - self._left)

    def of(self, one: int) -> Any:
        zero = self._area.dtype.type(0)
        tall = numpy.minimum(self._bottom, self._bottom[one]) - numpy.maximum(self._top, self._top[one])
        broad = numpy.minimum(self._right, self._right[one]) - numpy.maximum(self._left, self._left[one])
        both = numpy.maximum(tall, zero) * numpy.maximum(broad, zero)
        share = both / (self._area + self._area[one] - both)
        return numpy.where((self._area <= 0) | (self._area[one] <= 0), zero, share)


def _order(scores: NDArray[Any], threshold: Any) -> NDArray[Any]:
    """The boxes whose score is above the threshold, best first; of equal ones the first."""
    found = numpy.flatnonzero(scores > threshold)
    return found[numpy.argsort(-scores[found], kind="stable")]


def _chosen(order: NDArray[Any], most: int, threshold: Any, overlap: Callable[[int], Any]) -> list[int]:
    """The boxes that no better one suppresses."""
    found: list[int] = []
    alive = order
    while len(alive) and len(found) < most:
        best = int(alive[0])
        found.append(best)
        alive = alive[1:]
        alive = alive[~(overlap(best)[alive] > threshold)]
    return found


def _softly_chosen(
    scores: NDArray[Any], most: int, overlap: Callable[[int], Any], threshold: Any, least: Any, sigma: Any
) -> tuple[list[int], list[Any]]:
    """The boxes and their scores, where each box that is chosen lowers the scores of those that it overlaps."""
    kind = scores.dtype.type
    scale = kind(-0.5) / sigma
    queue = [(-float(scores[one]), int(one), 0) for one in numpy.flatnonzero(scores > least)]
    heapq.heapify(queue)
    found: list[int] = []
    kept: list[Any] = []
    rows: list[Any] = []
    while queue and len(found) < most:
        minus, one, begin = heapq.heappop(queue)
        score = before = kind(-minus)
        for row in reversed(rows[begin:]):
            alike = row[one]
            score = score * numpy.exp(scale * alike * alike)
            if score <= least:
                break
        if score == before:
            found.append(one)
            kept.append(score)
            rows.append(overlap(one))
        elif score > least:
            heapq.heappush(queue, (-float(score), one, len(found)))
    return found, kept


def _checked(boxes: NDArray[Any], scores: NDArray[Any], most: NDArray[Any]) -> int:
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise OpError(f"boxes must have four numbers each, not the shape {list(boxes.shape)}")
    if scores.shape != boxes.shape[:1]:
        raise OpError(f"there are {len(boxes)} boxes, but the scores have the shape {list(scores.shape)}")
    return _most(most)


def _most(most: NDArray[Any]) -> int:
    if most.ndim:
        raise OpError("the number of boxes to choose must be a scalar")
    if most < 0:
        raise OpError(f"the number of boxes to choose must not be negative, as {most} is")
    return int(most)


def _share(threshold: Any) -> Any:
    if numpy.ndim(threshold):
        raise OpError("the threshold must be a scalar")
    if not 0 <= threshold <= 1:
        raise OpError(f"the threshold of overlaps must be in [0, 1], not {threshold}")
    return threshold


def _least(threshold: NDArray[Any], kind: Any) -> Any:
    if threshold.ndim:
        raise OpError("the threshold of scores must be a scalar")
    return kind(threshold)


def _hard(boxes: NDArray[Any], scores: NDArray[Any], most: int, threshold: Any, least: Any) -> list[int]:
    return _chosen(_order(scores, least), most, threshold, _Overlaps(boxes).of)


@value("NonMaxSuppression")
def _suppress(boxes: NDArray[Any], scores: NDArray[Any], most: NDArray[Any], *, iou_threshold: float) -> Any:
    count = _checked(boxes, scores, most)
    share = _share(numpy.float32(iou_threshold))
    return numpy.array(_hard(boxes, scores, count, share, lowest(boxes.dtype)), numpy.int32)


@value("NonMaxSuppressionV2")
def _suppress_v2(boxes: NDArray[Any], scores: NDArray[Any], most: NDArray[Any], threshold: NDArray[Any]) -> Any:
    count = _checked(boxes, scores, most)
    share = boxes.dtype.type(_share(threshold))
    return numpy.array(_hard(boxes, scores, count, share, lowest(boxes.dtype)), numpy.int32)


@value("NonMaxSuppressionV3")
def _suppress_v3(
    boxes: NDArray[Any], scores: NDArray[Any], most: NDArray[Any], threshold: NDArray[Any], least: NDArray[Any]
) -> Any:
    count, kind = _checked(boxes, scores, most), boxes.dtype.type
    return numpy.array(_hard(boxes, scores, count, kind(_share(threshold)), _least(least, kind)), numpy.int32)


@value("NonMaxSuppressionV4")
def _suppress_v4(
    boxes: NDArray[Any], scores: NDArray[Any], most: NDArray[Any], threshold: NDArray[Any], least: NDArray[Any],
    *, pad_to_max_output_size: bool,
) -> Any:  # fmt: skip
    count, kind = _checked(boxes, scores, most), boxes.dtype.type
    found = _hard(boxes, scores, count, kind(_share(threshold)), _least(least, kind))
    filled = found + [0] * (count - len(found)) if pad_to_max_output_size else found
    return numpy.array(filled, numpy.int32), numpy.array(len(found), numpy.int32)


@value("NonMaxSuppressionV5")
def _suppress_v5(
    boxes: NDArray[Any], scores: NDArray[Any], most: NDArray[Any], threshold: NDArray[Any], least: NDArray[Any],
    sigma: NDArray[Any], *, pad_to_max_output_size: bool,
) -> Any:  # fmt: skip
    count, kind = _checked(boxes, scores, most), boxes.dtype.type
    share, floor = kind(_share(threshold)), _least(least, kind)
    if sigma.ndim or sigma < 0:
        raise OpError(f"sigma must be a number that is not negative, not {sigma.tolist()}")
    if sigma > 0:
        found, kept = _softly_chosen(scores, count, _Overlaps(boxes).of, share, floor, kind(sigma))
    else:
        found = _hard(boxes, scores, count, share, floor)
        kept = [scores[one] for one in found]
    fill = count - len(found) if pad_to_max_output_size else 0
    return (
        numpy.array(found + [0] * fill, numpy.int32),
        numpy.array(kept + [0] * fill, scores.dtype),
        numpy.array(len(found), numpy.int32),
    )


@value("NonMaxSuppressionWithOverlaps")
def _suppress_with_overlaps(
    overlaps: NDArray[Any], scores: NDArray[Any], most: NDArray[Any], threshold: NDArray[Any], least: NDArray[Any]
) -> Any:
    if overlaps.ndim != 2 or overlaps.shape[0] != overlaps.shape[1]:
        raise OpError(f"the overlaps must be a square matrix, not the shape {list(overlaps.shape)}")
    if scores.shape != overlaps.shape[:1]:
        raise OpError(f"there are {len(overlaps)} boxes, but the scores have the shape {list(scores.shape)}")
    if threshold.ndim or least.ndim:
        raise OpError("the thresholds must be scalars")
    found = _chosen(_order(scores, least), _most(most), threshold, lambda one: overlaps[:, one])
    return numpy.array(found, numpy.int32)


@value("CombinedNonMaxSuppression")
def _combined(
    boxes: NDArray[Any], scores: NDArray[Any], most: NDArray[Any], total: NDArray[Any], threshold: NDArray[Any],
    least: NDArray[Any], *, pad_per_class: bool, clip_boxes: bool,
) -> Any:  # fmt: skip
    require_rank(boxes, 4, "the boxes")
    require_rank(scores, 3, "the scores")
    batch, count, kinds, four = boxes.shape
    classes = scores.shape[2]
    if four != 4 or kinds not in (1, classes) or scores.shape[:2] != (batch, count):
        raise OpError(f"boxes {list(boxes.shape)} and scores {list(scores.shape)} do not fit together")
    if most.ndim or total.ndim or most <= 0 or total <= 0:
        raise OpError(f"the numbers of boxes to choose must be above 0, not {most} and {total}")
    share = _share(threshold)
    if least.ndim:
        raise OpError("the threshold of scores must be a scalar")
    wanted = min(int(total), int(most) * classes) if pad_per_class else int(total)
    found_boxes = numpy.zeros((batch, wanted, 4), boxes.dtype)
    found_scores, found_classes = (numpy.zeros((batch, wanted), scores.dtype) for _ in range(2))
    valid = numpy.zeros(batch, numpy.int32)
    for one in range(batch):
        overlaps = [_Overlaps(boxes[one, :, kind]) for kind in range(kinds)]
        chosen: list[tuple[float, int, int]] = []
        for kind in range(classes):
            order = _order(scores[one, :, kind], least)
            kept = _chosen(order, min(int(most), count), share, overlaps[kind if kinds > 1 else 0].of)
            chosen += [(float(scores[one, box, kind]), kind, box) for box in kept]
        chosen.sort(key=lambda three: -three[0])
        chosen = chosen[:wanted]
        valid[one] = len(chosen)
        for place, (score, kind, box) in enumerate(chosen):
            found = boxes[one, box, kind if kinds > 1 else 0]
            found_boxes[one, place] = numpy.clip(found, 0, 1) if clip_boxes else found
            found_scores[one, place], found_classes[one, place] = score, kind
    return found_boxes, found_scores, found_classes, valid


@value("DrawBoundingBoxes")
def _draw(images: NDArray[Any], boxes: NDArray[Any]) -> Any:
    return _drawn(images, boxes, numpy.zeros((0, 4), numpy.float32))


@value("DrawBoundingBoxesV2")
def _draw_v2(images: NDArray[Any], boxes: NDArray[Any], colors: NDArray[Any]) -> Any:
    return _drawn(images, boxes, colors)


def _drawn(images: NDArray[Any], boxes: NDArray[Any], colors: NDArray[Any]) -> Any:
    require_rank(images, 4, "the images")
    require_rank(boxes, 3, "the boxes")
    batch, height, width, depth = images.shape
    if len(boxes) != batch or boxes.shape[2] != 4:
        raise OpError(f"boxes {list(boxes.shape)} do not fit images {list(images.shape)}")
    if depth not in (1, 3, 4):
        raise OpError(f"images must have 1, 3 or 4 channels, not {depth}")
    table = numpy.array(_COLORS, numpy.float32)
    if depth == 1:
        table[:, 0] = 1
    if colors.ndim == 2 and len(colors):
        if colors.shape[1] < depth:
            raise OpError(f"colors must have {depth} numbers, not {colors.shape[1]}")
        table = colors
    drawn = images.copy()
    for one, row in numpy.ndindex(boxes.shape[:2]):
        color = table[row % len(table), :depth].astype(images.dtype)
        edges = boxes[one, row] * numpy.array([height - 1, width - 1] * 2, numpy.float32)
        top, left, bottom, right = (int(edge) for edge in edges)
        if top > bottom or left > right or top >= height or bottom < 0 or left >= width or right < 0:
            continue
        rows, columns = slice(max(top, 0), min(bottom, height - 1) + 1), slice(max(left, 0), min(right, width - 1) + 1)
        if top >= 0:
            drawn[one, top, columns] = color
        if bottom < height:
            drawn[one, bottom, columns] = color
        if left >= 0:
            drawn[one, rows, left] = color
        if right < width:
            drawn[one, rows, right] = color
    return drawn
