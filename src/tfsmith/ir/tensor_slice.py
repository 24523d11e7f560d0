"""A part of a tensor, as `shape_and_slices` of TensorFlow's restore ops names it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfsmith.errors import InvalidModelError
from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import ArrayTensor, SlicedTensor, Tensor, TensorBase
from tfsmith.records import record
from tfsmith.storage.span import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PartTensor", "slice_tensor"]


@record(eq=False)
class PartTensor(TensorBase):
    """A block of another tensor; the whole is read when its values are wanted."""

    whole: Tensor
    start: tuple[int, ...]
    shape: Shape

    @property
    def dtype(self) -> DType:
        """The whole's dtype."""
        return self.whole.dtype

    def numpy(self) -> NDArray[Any]:
        """The block."""
        sizes = self.shape.dims or ()
        where = tuple(slice(at, at + size) for at, size in zip(self.start, sizes, strict=True))
        return self.whole.numpy()[where]

    def parts(self) -> Iterator[bytes | Span]:
        """A copy of the block's bytes."""
        return ArrayTensor(self.dtype, self.numpy()).parts()


def slice_tensor(tensor: Tensor, extents: str, label: str) -> Tensor:
    """The part that "10 4 0,5:-" names: of a whole of shape [10, 4], rows 0 to 4.

    A piece that lies in the file as it is wanted is given as it lies there.

    Raises:
        InvalidModelError: The text is no such thing, or does not fit the tensor.
    """
    full = tensor.shape.dims or ()
    try:
        *sizes, spans = extents.split()
        claimed = tuple(map(int, sizes))
        pairs = [(0, size) if span == "-" else _pair(span) for span, size in zip(spans.split(":"), full, strict=True)]
    except ValueError as error:
        raise _misfit(label, extents, tensor) from error
    if claimed != full or any(
        at < 0 or size < 0 or at + size > whole for (at, size), whole in zip(pairs, full, strict=True)
    ):
        raise _misfit(label, extents, tensor)
    start, shape = tuple(at for at, _ in pairs), Shape(tuple(size for _, size in pairs))
    if shape == tensor.shape:
        return tensor
    if isinstance(tensor, SlicedTensor):
        for piece in tensor.pieces:
            if piece.start == start and piece.tensor.shape == shape:
                return piece.tensor
    return PartTensor(tensor, start, shape)


def _pair(text: str) -> tuple[int, int]:
    at, _, size = text.partition(",")
    return int(at), int(size)


def _misfit(label: str, extents: str, tensor: Tensor) -> InvalidModelError:
    what = f"{label} is said to be the part {extents!r} of a tensor of shape {tensor.shape}"
    return InvalidModelError(what, remedy="graph and checkpoint do not belong together")
