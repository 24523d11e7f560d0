"""Values of ops that end speech and text models: decoding of CTC, and the distance of two sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import check, check_room
from tfsmith.ops.values.sparse import check_bounds, check_sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


@value("CTCGreedyDecoder")
def _greedy(inputs: NDArray[Any], lengths: NDArray[Any], *, merge_repeated: bool, blank_index: int) -> tuple[Any, ...]:
    """The best class of each frame, without blanks and repetitions."""
    check(inputs.ndim == 3 and lengths.ndim == 1, "inputs have three dimensions: time, batch and class")
    frames, batch, classes = inputs.shape
    check(len(lengths) == batch, f"{len(lengths)} lengths do not fit a batch of {batch}")
    check(bool((lengths <= frames).all()), f"a sequence is longer than {frames}")
    blank = blank_index + classes if blank_index < 0 else blank_index
    check(0 <= blank < classes, f"the blank {blank_index} is not one of {classes} classes")
    best = inputs.argmax(2)
    top = numpy.take_along_axis(inputs, best[..., None], 2)[..., 0]
    places: list[tuple[int, int]] = []
    found: list[int] = []
    scores = numpy.zeros((batch, 1), inputs.dtype)
    for row in range(batch):
        count, last = 0, -1
        for frame in range(int(lengths[row])):
            scores[row, 0] -= top[frame, row]
            label = int(best[frame, row])
            if label != blank and not (merge_repeated and label == last):
                places.append((row, count))
                found.append(label)
                count += 1
            last = label
    longest = max((place for _, place in places), default=-1) + 1
    shape = numpy.array([batch, longest], numpy.int64)
    return numpy.array(places, numpy.int64).reshape(-1, 2), numpy.array(found, numpy.int64), shape, scores


@value("EditDistance")
def _edit_distance(
    guess: NDArray[Any], guess_values: NDArray[Any], guess_shape: NDArray[Any], truth: NDArray[Any],
    truth_values: NDArray[Any], truth_shape: NDArray[Any], *, normalize: bool,
) -> NDArray[Any]:  # fmt: skip
    for indices, values, shape in ((guess, guess_values, guess_shape), (truth, truth_values, truth_shape)):
        check_sparse(indices, values, shape)
        check_bounds(indices, shape)
    check(len(guess_shape) == len(truth_shape) >= 2, "both must have two dimensions or more, and as many")
    sizes = numpy.maximum(guess_shape[:-1], truth_shape[:-1]).tolist()
    check_room(sizes, numpy.dtype(numpy.float32))
    found = numpy.zeros(sizes, numpy.float32)
    rows = _rows(guess, guess_values), _rows(truth, truth_values)
    for place in rows[0].keys() | rows[1].keys():
        one, other = (part.get(place, []) for part in rows)
        distance = float(_levenshtein(one, other))
        if normalize:
            distance = distance / len(other) if other else numpy.inf if one else 0.0
        found[place] = distance
    return found


def _rows(indices: NDArray[Any], values: NDArray[Any]) -> dict[tuple[int, ...], list[Any]]:
    rows: dict[tuple[int, ...], list[Any]] = {}
    for place, one in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        rows.setdefault(tuple(place), []).append(one)
    return rows


def _levenshtein(one: list[Any], other: list[Any]) -> int:
    """How many insertions, deletions and replacements make one sequence of the other."""
    costs = numpy.arange(len(other) + 1)
    steps = numpy.arange(len(other) + 1)
    for number, item in enumerate(one, 1):
        differs = numpy.array([item != another for another in other], numpy.int64)
        least = numpy.minimum(costs[1:] + 1, costs[:-1] + differs)
        row = numpy.concatenate([[number], least]) - steps
        costs = numpy.minimum.accumulate(row) + steps
    return int(costs[-1])
