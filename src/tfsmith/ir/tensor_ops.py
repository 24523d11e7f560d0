"""Tensors made of others without reading them: transposed, joined, cut. And how to read any tensor in pieces.

Values are read when the result's are. What is only joined or cut along the first axis streams as it lies in its file;
what is transposed or joined along another axis is held in memory, one tensor at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import FilledTensor, SlicedTensor, Tensor, TensorBase
from tfsmith.ir.tensor_slice import PartTensor
from tfsmith.records import record
from tfsmith.storage.span import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "TransposedTensor",
    "JoinedTensor",
    "RowsTensor",
    "ReshapedTensor",
    "resize_rows",
    "split_tensor",
    "verify_tensor",
    "read_array",
    "read_pieces",
]

_CHUNK = 1 << 20


@record(eq=False)
class TransposedTensor(TensorBase):
    """Another tensor with its axes in another order. Memory: one copy of the tensor while it is read."""

    source: Tensor
    axes: tuple[int, ...]

    @property
    def dtype(self) -> DType:
        """The source's dtype; no I/O."""
        return self.source.dtype

    @property
    def shape(self) -> Shape:
        """The source's sizes in the new order; no I/O."""
        dims = self.source.shape.dims or ()
        return Shape(tuple(dims[axis] for axis in self.axes))

    def verify(self) -> None:
        """Checks the source's checksum, if it has one."""
        verify_tensor(self.source)

    def numpy(self) -> NDArray[Any]:
        """The values; a view of the source's."""
        array: NDArray[Any] = self.source.numpy().transpose(self.axes)
        return array

    def parts(self) -> Iterator[bytes | Span]:
        """The values in their new order, some rows at a time."""
        yield from _rows(read_array(self.source).transpose(self.axes))


@record(eq=False)
class JoinedTensor(TensorBase):
    """Several tensors joined along an axis. Who makes one checks that dtypes and other sizes are the same."""

    sources: tuple[Tensor, ...]
    axis: int

    @property
    def dtype(self) -> DType:
        """The dtype of all; no I/O."""
        return self.sources[0].dtype

    @property
    def shape(self) -> Shape:
        """The sizes of the first, with the sum along the axis; no I/O."""
        dims = list(self.sources[0].shape.dims or ())
        dims[self.axis] = sum((source.shape.dims or ())[self.axis] for source in self.sources)
        return Shape(tuple(dims))

    def verify(self) -> None:
        """Checks the checksums of all that have one."""
        for source in self.sources:
            verify_tensor(source)

    def numpy(self) -> NDArray[Any]:
        """The whole, in memory."""
        import numpy

        array: NDArray[Any] = numpy.concatenate([source.numpy() for source in self.sources], self.axis)
        array.flags.writeable = False
        return array

    def parts(self) -> Iterator[bytes | Span]:
        """One after the other along the first axis, as they lie; a copy for any other axis."""
        import numpy

        if self.axis == 0:
            for source in self.sources:
                yield from source.parts()
            return
        yield from _rows(numpy.concatenate([read_array(source) for source in self.sources], self.axis))


@record(eq=False)
class RowsTensor(TensorBase):
    """Rows `start` to `stop` of another tensor: a part of its bytes."""

    source: Tensor
    start: int
    stop: int

    @property
    def dtype(self) -> DType:
        """The source's dtype; no I/O."""
        return self.source.dtype

    @property
    def shape(self) -> Shape:
        """The source's sizes with fewer rows; no I/O."""
        return Shape((self.stop - self.start, *(self.source.shape.dims or ())[1:]))

    def verify(self) -> None:
        """Checks the source's checksum, if it has one; reads all of it."""
        verify_tensor(self.source)

    def numpy(self) -> NDArray[Any]:
        """The rows; a view of the source's."""
        rows: NDArray[Any] = self.source.numpy()[self.start : self.stop]
        return rows

    def parts(self) -> Iterator[bytes | Span]:
        """Those of the source's bytes that are wanted."""
        rows = (self.source.shape.dims or (0,))[0]
        width = self.source.nbytes // rows if rows else 0
        start, stop, at = self.start * width, self.stop * width, 0
        for part in self.source.parts():
            first, last = max(0, start - at), min(len(part), stop - at)
            at += len(part)
            if first < last:
                yield part.sub(first, last) if isinstance(part, Span) else part[first:last]


@record(eq=False)
class ReshapedTensor(TensorBase):
    """The same bytes under another shape of as many elements."""

    source: Tensor
    shape: Shape

    @property
    def dtype(self) -> DType:
        """The source's dtype; no I/O."""
        return self.source.dtype

    def verify(self) -> None:
        """Checks the source's checksum, if it has one."""
        verify_tensor(self.source)

    def numpy(self) -> NDArray[Any]:
        """The values; a view where that is possible."""
        return self.source.numpy().reshape(self.shape.dims or ())

    def parts(self) -> Iterator[bytes | Span]:
        """The source's own."""
        return self.source.parts()


def resize_rows(tensor: Tensor, rows: int) -> Tensor:
    """The tensor with so many rows: cut, or with zeros behind. No I/O."""
    dims = tensor.shape.dims or ()
    if dims[0] == rows:
        return tensor
    if dims[0] > rows:
        return RowsTensor(tensor, 0, rows)
    return JoinedTensor((tensor, FilledTensor(tensor.dtype, Shape((rows - dims[0], *dims[1:])), b"")), 0)


def split_tensor(tensor: Tensor, count: int, axis: int) -> tuple[Tensor, ...]:
    """The tensor cut into so many equal parts along an axis. No I/O; the axis must be a multiple of the count."""
    dims = tensor.shape.dims or ()
    size = dims[axis] // count
    if axis == 0:
        return tuple(RowsTensor(tensor, number * size, (number + 1) * size) for number in range(count))
    shape = Shape((*dims[:axis], size, *dims[axis + 1 :]))
    starts = [(0,) * axis + (number * size,) + (0,) * (len(dims) - axis - 1) for number in range(count)]
    return tuple(PartTensor(tensor, start, shape) for start in starts)


def verify_tensor(tensor: Tensor) -> None:
    """Checks the checksums of a tensor, or of what it is made of, if there are any. Reads them in pieces.

    Raises:
        ChecksumError: The bytes are not what was written.
    """
    verify = getattr(tensor, "verify", None)
    if verify is not None:
        verify()
    elif isinstance(tensor, SlicedTensor):
        for piece in tensor.pieces:
            verify_tensor(piece.tensor)
    elif isinstance(tensor, PartTensor):
        verify_tensor(tensor.whole)


def read_array(tensor: Tensor) -> NDArray[Any]:
    """The values as a copy in memory, whose checksum was not looked at.

    Unlike `numpy()` this leaves no pages of a mapped file behind, which would count as memory of this process.
    """
    import numpy

    flat: NDArray[Any] = numpy.empty(tensor.shape.elements or 0, tensor.dtype.numpy())
    data = flat.view("u1")
    at = 0
    for part in tensor.parts():
        for chunk in part.chunks() if isinstance(part, Span) else (part,):
            data[at : at + len(chunk)] = numpy.frombuffer(chunk, "u1")
            at += len(chunk)
    return flat.reshape(tensor.shape.dims or ())


def read_pieces(tensor: Tensor) -> Iterator[NDArray[Any]]:
    """The values as flat arrays, some at a time, in order; memory does not grow with the tensor. Not for strings."""
    import numpy

    kind, rest = tensor.dtype.numpy(), b""
    for part in tensor.parts():
        for chunk in part.chunks() if isinstance(part, Span) else (part,):
            data = rest + chunk if rest else chunk
            count = len(data) // kind.itemsize
            rest = data[count * kind.itemsize :]
            if count:
                yield numpy.frombuffer(data, kind, count)


def _rows(array: NDArray[Any]) -> Iterator[bytes]:
    """The bytes of an array that need not lie one after the other, without a second copy of all of it."""
    if array.ndim < 2:
        yield array.tobytes()
        return
    step = max(1, _CHUNK * len(array) // max(1, array.nbytes))
    for start in range(0, len(array), step):
        yield array[start : start + step].tobytes()
