"""Values of ops that end speech and text models: decoding of CTC, and the distance of two sequences."""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.errors import UnsupportedError
from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import check, check_room
from tfsmith.ops.values.sparse import check_bounds, check_sparse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_NEVER = -numpy.inf
"""The logarithm of the probability of what cannot be."""


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


class _Beam:
    """A sequence of labels that ends in this one, with the logarithms of its probabilities.

    Attributes:
        label: The last label; -1 for the sequence without labels.
        parent: The sequence without it.
        old: Its probability one frame ago: whole, and of those paths that end in a blank.
        whole: Its probability now.
        ends_blank: That of those paths that end in a blank.
        ends_label: That of those that end in the label.
    """

    __slots__ = ("children", "ends_blank", "ends_label", "label", "old", "parent", "whole")

    def __init__(self, label: int, parent: _Beam | None) -> None:
        self.label = label
        self.parent = parent
        self.children: dict[int, _Beam] = {}
        self.forget()
        self.old = (_NEVER, _NEVER)

    @property
    def is_active(self) -> bool:
        return self.whole != _NEVER

    def forget(self) -> None:
        self.whole = self.ends_blank = self.ends_label = _NEVER

    def labels(self, merge_repeated: bool) -> list[int]:
        found: list[int] = []
        beam, last = self, -1
        while beam.parent is not None:
            if not merge_repeated or beam.label != last:
                found.append(beam.label)
            last, beam = beam.label, beam.parent
        return found[::-1]


def _sum_of_logs(one: Any, other: Any) -> Any:
    return one if other == _NEVER else other if one == _NEVER else numpy.logaddexp(one, other)


def _step(beams: list[_Beam], logs: NDArray[Any], width: int) -> list[_Beam]:
    """The best sequences after one more frame, from those before it, the best first."""
    for beam in beams:
        beam.old = (beam.whole, beam.ends_blank)
    blank = logs[-1]
    for beam in beams:
        if beam.parent is not None:
            if beam.parent.is_active:
                before = beam.parent.old[beam.label == beam.parent.label]
                beam.ends_label = _sum_of_logs(beam.ends_label, before)
            beam.ends_label += logs[beam.label]
        beam.ends_blank = beam.old[0] + blank
        beam.whole = _sum_of_logs(beam.ends_blank, beam.ends_label)
    leaves = sorted(beams, key=lambda beam: -beam.whole)

    def fits(score: Any) -> bool:
        return bool(score > _NEVER and (len(leaves) < width or score > leaves[-1].whole))

    for beam in beams:
        if not fits(beam.old[0]):
            continue
        for label in range(len(logs) - 1):
            child = beam.children.get(label)
            if child is not None and child.is_active:
                continue
            score = logs[label] + beam.old[label == beam.label]
            if not fits(score):
                if child is not None:
                    child.old = (_NEVER, _NEVER)
                continue
            child = beam.children.setdefault(label, _Beam(label, beam))
            child.forget()
            child.ends_label = child.whole = score
            if len(leaves) == width:
                leaves.pop().forget()
            insort(leaves, child, key=lambda beam: -beam.whole)
    return leaves


@value("CTCBeamSearchDecoder")
def _beam_search(
    inputs: NDArray[Any], lengths: NDArray[Any], *, beam_width: int, top_paths: int, merge_repeated: bool
) -> tuple[Any, ...]:
    """The most probable sequences; the last class is the blank."""
    if inputs.dtype != numpy.float32:
        what = f"a beam search in {inputs.dtype} depends on how TensorFlow's C library rounds to 32 bits"
        raise UnsupportedError(what, remedy="use the engine tensorflow")
    check(inputs.ndim == 3 and lengths.ndim == 1, "inputs have three dimensions: time, batch and class")
    frames, batch, classes = inputs.shape
    check(len(lengths) == batch, f"{len(lengths)} lengths do not fit a batch of {batch}")
    check(frames > 0 and classes > 0, "there are no frames, or no classes")
    check(bool((lengths <= frames).all()), f"a sequence is longer than {frames}")
    check(0 < top_paths <= beam_width, f"{top_paths} paths are wanted of a beam of {beam_width}")
    top = inputs.max(2, keepdims=True)
    logs = inputs - (top + numpy.log(numpy.exp(inputs - top).sum(2, keepdims=True)))
    scores = numpy.zeros((batch, top_paths), inputs.dtype)
    found: list[list[list[int]]] = [[] for _ in range(top_paths)]
    for row in range(batch):
        root = _Beam(-1, None)
        root.whole = root.ends_blank = inputs.dtype.type(0)
        beams = [root]
        for frame in range(int(lengths[row])):
            beams = _step(beams, logs[frame, row], beam_width)
        check(len(beams) >= top_paths, f"there are {len(beams)} sequences, and {top_paths} are wanted")
        for path, beam in enumerate(beams[:top_paths]):
            scores[row, path] = beam.whole
            found[path].append(beam.labels(merge_repeated))
    indices, values, shapes = ([], [], [])  # type: tuple[list[Any], list[Any], list[Any]]
    for rows in found:
        places = [(row, place) for row, labels in enumerate(rows) for place in range(len(labels))]
        indices.append(numpy.array(places, numpy.int64).reshape(-1, 2))
        values.append(numpy.array([label for labels in rows for label in labels], numpy.int64))
        shapes.append(numpy.array([batch, max(map(len, rows), default=0)], numpy.int64))
    return (*indices, *values, *shapes, scores)


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
