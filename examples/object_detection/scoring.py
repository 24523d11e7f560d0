"""How good a detector is, told by pictures that it has never seen; `python scoring.py FILE.npz` stores eight."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from shapes import Scene, draw, make_scene

__all__ = ["HELD_OUT", "Score", "held_out", "overlaps", "score"]

HELD_OUT = 100
_FIRST_SEED = 100_000
_SIZE = 128  # not the size of training: the detector scales pictures itself
_BATCH = 25


@dataclass(frozen=True, slots=True)
class Score:
    """Of the shapes, how many were found; of what was found, how much is right; how well the boxes fit."""

    shapes: int
    recall: float
    precision: float
    overlap: float

    def __str__(self) -> str:
        """All of it in a line."""
        parts = f"recall {self.recall:.3f}, precision {self.precision:.3f}, mean overlap {self.overlap:.3f}"
        return f"{self.shapes} shapes, {parts}"


def held_out(count: int = HELD_OUT) -> tuple[list[Scene], Any]:
    """Scenes that training does not use, and their pictures, uint8 [count, 128, 128, 3]."""
    scenes = [make_scene(_FIRST_SEED + number) for number in range(count)]
    return scenes, np.stack([draw(scene, _SIZE) for scene in scenes])


def overlaps(boxes: Any, others: Any) -> Any:
    """The intersection over the union of each box with each other, [boxes, others]."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    common = np.prod(np.maximum(high - low, 0), -1)
    area, other = (np.prod(rows[:, 2:] - rows[:, :2], -1) for rows in (boxes, others))
    return common / (area[:, None] + other - common)


def score(detect: Callable[[Any], Mapping[str, Any]]) -> Score:
    """Asks a detector for the held-out pictures. A shape is found if a box of its class overlaps it by half."""
    scenes, pictures = held_out()
    asked = [detect(pictures[at : at + _BATCH]) for at in range(0, len(pictures), _BATCH)]
    found = {key: np.concatenate([answer[key] for answer in asked]) for key in asked[0]}
    fits: list[float] = []
    detections = 0
    for number, scene in enumerate(scenes):
        count = int(found["num_detections"][number])
        boxes, kinds = found["detection_boxes"][number, :count], found["detection_classes"][number, :count]
        overlap = overlaps(scene.boxes(), boxes) * (scene.classes()[:, None] == kinds)
        detections += count
        fits += _match(overlap)
    shapes = sum(len(scene.shapes) for scene in scenes)
    mean = float(np.mean(fits)) if fits else 0.0
    return Score(shapes, len(fits) / shapes, len(fits) / max(detections, 1), mean)


def _match(overlap: Any) -> list[float]:
    """The overlaps of the shapes that were found; a box, the best first, counts for one shape only."""
    free = set(range(len(overlap)))
    fits = []
    for column in overlap.T:
        best = max(free, key=lambda row: column[row], default=None)
        if best is not None and column[best] >= 0.5:
            free.remove(best)
            fits.append(float(column[best]))
    return fits


if __name__ == "__main__":
    np.savez_compressed(sys.argv[1], inputs=held_out(8)[1])
