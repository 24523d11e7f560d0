"""Weights that are made when they are read: the same for the same seed and name, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from zlib import crc32

from tfsmith.ir.tensor import ArrayTensor, Tensor, TensorBase
from tfsmith.ir.types import DType, Shape
from tfsmith.records import record
from tfsmith.storage import Span
from tfsmith.testing.values import FLOAT32, FLOAT64
from tfsmith.testing.variables import Values

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SeededTensor", "Weights", "fixed"]

_PIECE = 1 << 18
"""Elements that are drawn at once: a megabyte of float32."""
_BOUND = 2.0
"""A truncated normal has no values beyond so many standard deviations."""


@record(eq=False)
class SeededTensor(TensorBase):
    """Float32 values from a truncated normal distribution, drawn anew each time that they are read."""

    name: str
    shape: Shape
    seed: int
    stddev: float
    center: float

    @property
    def dtype(self) -> DType:
        """Always float32."""
        return FLOAT32

    def numpy(self) -> NDArray[Any]:
        """All values; makes them in memory."""
        import numpy

        whole = numpy.empty(self.shape.elements or 0, numpy.float32)
        for number, piece in enumerate(self._pieces()):
            whole[number * _PIECE : number * _PIECE + piece.size] = piece
        whole.flags.writeable = False
        return whole.reshape(self.shape.dims or ())

    def parts(self) -> Iterator[bytes | Span]:
        """The bytes, a megabyte at a time; memory stays at that."""
        for piece in self._pieces():
            yield piece.astype("<f4", copy=False).tobytes()

    def _pieces(self) -> Iterator[NDArray[Any]]:
        import numpy

        total = self.shape.elements or 0
        for number in range(-(-total // _PIECE)):
            # Every piece has a generator of its own, so that the values do not depend on how they are read.
            draw = numpy.random.Generator(numpy.random.SFC64([self.seed, crc32(self.name.encode()), number]))
            piece = draw.standard_normal(min(_PIECE, total - number * _PIECE), numpy.float32)
            beyond = numpy.flatnonzero(numpy.abs(piece) > _BOUND)
            while beyond.size:
                piece[beyond] = draw.standard_normal(beyond.size, numpy.float32)
                beyond = beyond[numpy.abs(piece[beyond]) > _BOUND]
            piece *= numpy.float32(self.stddev)
            piece += numpy.float32(self.center)
            yield piece


@record
class Weights:
    """Makes weights; all of them follow from one seed and the variables' names."""

    seed: int = 0

    def normal(self, *dims: int, stddev: float = 0.02, center: float = 0.0) -> Values:
        """A truncated normal around `center`."""

        def make(name: str) -> Tensor:
            return SeededTensor(name, Shape(dims), self.seed, stddev, center)

        return make


def fixed(value: Any, dtype: DType = FLOAT64) -> Values:
    """The same value, whatever the name."""

    def make(_: str) -> Tensor:
        return ArrayTensor.of(value, dtype)

    return make
