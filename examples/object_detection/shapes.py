"""Pictures with circles, squares and triangles, and where these are. `python shapes.py FILE.png` draws one.

A picture is made of a seed: the same seed gives the same scene, at any size.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["NAMES", "Scene", "Shape", "draw", "make_scene"]

NAMES = ("circle", "square", "triangle")  # class 1, 2 and 3; 0 is the background


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape in a picture that is 1 wide and 1 high: its class (from 1 on), centre, radius, angle and colour."""

    kind: int
    y: float
    x: float
    radius: float
    angle: float
    colour: tuple[float, float, float]

    def corners(self) -> Any:
        """The corners of a square or triangle, as rows of y and x; a circle has none."""
        count = {2: 4, 3: 3}.get(self.kind, 0)
        turn = self.angle + 2 * np.pi * np.arange(count) / max(count, 1)
        return np.stack([self.y + self.radius * np.sin(turn), self.x + self.radius * np.cos(turn)], -1)

    def box(self) -> tuple[float, float, float, float]:
        """The smallest box around it: ymin, xmin, ymax, xmax."""
        if self.kind == 1:
            return self.y - self.radius, self.x - self.radius, self.y + self.radius, self.x + self.radius
        corners = self.corners()
        (top, left), (bottom, right) = corners.min(0), corners.max(0)
        return float(top), float(left), float(bottom), float(right)


@dataclass(frozen=True, slots=True)
class Scene:
    """Shapes, and what lies behind them: two colours that blend, and thin lines that are nothing."""

    shapes: tuple[Shape, ...]
    colours: Any
    lines: Any

    def boxes(self) -> Any:
        """The boxes of the shapes, float32 [N, 4]."""
        return np.array([shape.box() for shape in self.shapes], np.float32).reshape(-1, 4)

    def classes(self) -> Any:
        """The classes of the shapes, int32 [N]."""
        return np.array([shape.kind for shape in self.shapes], np.int32)


def make_scene(seed: int) -> Scene:
    """Two to six shapes, of which none hides another."""
    random = np.random.default_rng(seed)
    colours = random.uniform(0.1, 0.9, (2, 3))
    shapes: list[Shape] = []
    wanted = int(random.integers(2, 7))
    for _ in range(60):  # tries: a full picture has no room for one more
        if len(shapes) == wanted:
            break
        shape = _make_shape(random, colours.mean(0))
        near = [max(abs(shape.y - other.y), abs(shape.x - other.x)) - other.radius for other in shapes]
        if all(distance > 0.8 * shape.radius for distance in near):
            shapes.append(shape)
    return Scene(tuple(shapes), colours, random.uniform(0, 1, (int(random.integers(0, 4)), 7)))


def _make_shape(random: Any, background: Any) -> Shape:
    kind = int(random.integers(1, 4))
    radius = float(random.uniform(0.09, 0.21)) * (1.0 if kind == 1 else 1.15)
    y, x = random.uniform(radius, 1 - radius, 2).tolist()
    colour = random.uniform(0, 1, 3)
    while np.abs(colour - background).sum() < 0.9:  # it must stand out
        colour = random.uniform(0, 1, 3)
    red, green, blue = colour.tolist()
    upright = np.pi / 4 if kind == 2 else -np.pi / 2
    return Shape(kind, y, x, radius, upright + float(random.uniform(-0.25, 0.25)), (red, green, blue))


def draw(scene: Scene, size: int) -> Any:
    """The picture of a scene, uint8 [size, size, 3], with smooth edges."""
    y, x = np.mgrid[0:size, 0:size].astype(np.float32) / size + 0.5 / size
    blend = ((y + x) / 2)[..., None]
    picture = ((1 - blend) * scene.colours[0] + blend * scene.colours[1]).astype(np.float32)
    for y0, x0, y1, x1, *colour in scene.lines:
        length = np.hypot(y1 - y0, x1 - x0) + 1e-6
        away = np.abs((y - y0) * (x1 - x0) - (x - x0) * (y1 - y0)) / length
        _paint(picture, 0.006 - away, np.array(colour), size)
    for shape in scene.shapes:
        rows, columns = (_around(middle, shape.radius, size) for middle in (shape.y, shape.x))
        inside = _inside(shape, y[rows, columns], x[rows, columns])
        _paint(picture[rows, columns], inside, np.array(shape.colour), size)
    return np.round(picture * 255).astype(np.uint8)


def _around(middle: float, radius: float, size: int) -> slice:
    """The rows or columns that a shape can touch; the others need not be looked at."""
    return slice(max(int((middle - radius) * size) - 1, 0), int((middle + radius) * size) + 2)


def _inside(shape: Shape, y: Any, x: Any) -> Any:
    """How far each point lies inside of a shape; below zero outside."""
    if shape.kind == 1:
        return shape.radius - np.hypot(y - shape.y, x - shape.x)
    corners = shape.corners()
    edges = []
    for (y0, x0), (y1, x1) in zip(corners, np.roll(corners, -1, 0), strict=True):
        edges.append(((y - y0) * (x1 - x0) - (x - x0) * (y1 - y0)) / np.hypot(y1 - y0, x1 - x0))
    return np.minimum.reduce(edges)


def _paint(picture: Any, inside: Any, colour: Any, size: int) -> None:
    cover = np.clip(inside * size + 0.5, 0, 1).astype(np.float32)[..., None]
    picture += cover * (colour.astype(np.float32) - picture)


def main() -> None:
    """Draws the scene of a seed into a file."""
    from pictures import write_png

    parser = argparse.ArgumentParser(description="Draws a picture with circles, squares and triangles.")
    parser.add_argument("file", metavar="FILE.png")
    parser.add_argument("--seed", type=int, default=100_227)
    parser.add_argument("--size", type=int, default=640, help="pixels (default: 640)")
    told = parser.parse_args()
    scene = make_scene(told.seed)
    write_png(told.file, draw(scene, told.size))
    print(f"{told.file}: {', '.join(NAMES[shape.kind - 1] for shape in scene.shapes)}")


if __name__ == "__main__":
    main()
