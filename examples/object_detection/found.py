"""What a detector found in a picture: as lines to read, and as boxes in the picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pictures import draw_box
from shapes import NAMES

__all__ = ["Found", "draw_found", "read_answer"]

_COLOURS = {"circle": (214, 39, 40), "square": (23, 96, 165), "triangle": (20, 122, 60)}


@dataclass(frozen=True, slots=True)
class Found:
    """One detection: what it is, how sure, and its box (ymin, xmin, ymax, xmax, from 0 to 1)."""

    name: str
    score: float
    box: tuple[float, float, float, float]

    def __str__(self) -> str:
        """A line of a table."""
        top, left, bottom, right = self.box
        return f"{self.name:8}  {self.score:.3f}  x {left:.3f} to {right:.3f}  y {top:.3f} to {bottom:.3f}"


def read_answer(answer: Mapping[str, Any]) -> list[Found]:
    """The detections of one picture, of the outputs of the model for it."""
    count = int(answer["num_detections"])
    columns = (answer[f"detection_{name}"][:count] for name in ("classes", "scores", "boxes"))
    found = []
    for kind, score, box in zip(*columns, strict=True):
        top, left, bottom, right = map(float, box)
        found.append(Found(NAMES[int(kind) - 1], float(score), (top, left, bottom, right)))
    return found


def draw_found(picture: Any, found: Sequence[Found]) -> Any:
    """A copy of a picture with the boxes in it."""
    copy = picture.copy()
    for one in reversed(found):  # the surest comes last, and lies on top
        draw_box(copy, one.box, f"{one.name} {one.score:.0%}", _COLOURS[one.name])
    return copy
