"""Tensors made of others without reading them: cut, joined, transposed, cast. And how to read any tensor in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import InvalidModelError, LimitError
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, Piece, SlicedTensor, Tensor, TensorBase
from tfsmith.ir.types import DType, Shape
from tfsmith.records import record, replace
from tfsmith.storage import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "PartTensor",
    "slice_tensor",
    "TransposedTensor",
    "JoinedTensor",
    "RowsTensor",
    "ReshapedTensor",
    "resize_rows",
    "split_tensor",
    "read_array",
    "read_pieces",
    "CastTensor",
    "cast_tensor",
]


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

    def verify(self) -> bool:
        """Compares the whole's checksum; returns whether it has one."""
        return self.whole.verify()

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


_CHUNK = 1 << 20
_TILE = 128
"""So many columns of a transposed array are copied at a time."""


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

    def verify(self) -> bool:
        """Compares the source's checksum; returns whether it has one."""
        return self.source.verify()

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

    def verify(self) -> bool:
        """Compares the checksums of all sources; returns whether each has one."""
        return False not in {source.verify() for source in self.sources}

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

    def verify(self) -> bool:
        """Compares the source's checksum, all of it; returns whether it has one."""
        return self.source.verify()

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

    def verify(self) -> bool:
        """Compares the source's checksum; returns whether it has one."""
        return self.source.verify()

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
    """The bytes of an array that need not lie one after the other, without a second copy of all of it.

    What is transposed is copied a few columns at a time, which are rows of the source: whole rows at once would load a
    line of the cache for each value, four times as slow.
    """
    import numpy

    if array.ndim < 2:
        yield array.tobytes()
        return
    step = max(1, _CHUNK * len(array) // max(1, array.nbytes))
    for start in range(0, len(array), step):
        rows = array[start : start + step]
        made = numpy.empty(rows.shape, rows.dtype)
        for column in range(0, rows.shape[-1], _TILE):
            made[..., column : column + _TILE] = rows[..., column : column + _TILE]
        yield made.tobytes()


_LARGEST = MappingProxyType({"float16": 65504.0, "bfloat16": float.fromhex("0x1.FEp127")})
"""The largest finite values of the types that weights are made small with."""


@record(eq=False)
class CastTensor(TensorBase):
    """Another tensor's values as another floating type, rounded to the nearest as TensorFlow does it.

    Attributes:
        source: Where the values come from. Its checksum, if it has one, is checked before they are used.
        label: What to call it in an error.
        saturate: Whether a value that is too large becomes the largest that there is; else it is an error.
    """

    dtype: DType
    source: Tensor
    label: str = "tensor"
    saturate: bool = False

    @property
    def shape(self) -> Shape:
        """The source's shape; no I/O."""
        return self.source.shape

    def verify(self) -> bool:
        """Compares the source's checksum; returns whether it has one."""
        return self.source.verify()

    def numpy(self) -> NDArray[Any]:
        """The values, in memory."""
        array = self._cast(self.source.numpy())
        array.flags.writeable = False
        return array

    def parts(self) -> Iterator[bytes | Span]:
        """The values, read and cast in pieces; memory does not grow with the tensor.

        Raises:
            LimitError: A value is too large for the new type, and `saturate` is not set.
        """
        import numpy

        self.verify()
        kind, rest = self.source.dtype.numpy(), b""
        for part in self.source.parts():
            for chunk in part.chunks() if isinstance(part, Span) else (part,):
                data = rest + chunk if rest else chunk
                whole = len(data) - len(data) % kind.itemsize
                rest = data[whole:]
                yield self._cast(numpy.frombuffer(data, kind, whole // kind.itemsize)).tobytes()

    def _cast(self, values: NDArray[Any]) -> NDArray[Any]:
        import numpy

        with numpy.errstate(over="ignore", invalid="ignore"):
            array = numpy.array(values.astype(self.dtype.numpy()))  # numpy makes no array of a scalar's cast
        lost = numpy.isinf(array) & numpy.isfinite(values)
        if not lost.any():
            return array
        largest = _LARGEST.get(self.dtype.name)
        if largest is None or not self.saturate:
            first = values[lost].reshape(-1)[0]
            limit = "" if largest is None else f", whose largest value is {largest:g}"
            what = f"the value {float(first):g} does not fit into {self.dtype}{limit}"
            remedy = "clip it ({saturate=True}), take bfloat16, or leave this tensor as it is ({only} names the others)"
            raise LimitError(what, where=self.label, remedy=remedy)
        array[lost] = numpy.copysign(largest, values[lost]).astype(array.dtype)
        return array


def cast_tensor(tensor: Tensor, dtype: DType, label: str, *, saturate: bool = False) -> Tensor:
    """A tensor as another floating type. Its values are read when the result's are, piece by piece.

    A few values that repeat stay few, and the slices of a partitioned variable stay slices.
    """
    if isinstance(tensor, FilledTensor):
        given = FilledTensor(tensor.dtype, Shape((len(tensor.values) // tensor.dtype.itemsize,)), tensor.values)
        values = b"".join(_bytes(CastTensor(dtype, given, label, saturate))) if tensor.values else b""
        return FilledTensor(dtype, tensor.shape, values)
    if isinstance(tensor, SlicedTensor):
        pieces = tuple(
            Piece(piece.start, cast_tensor(piece.tensor, dtype, label, saturate=saturate)) for piece in tensor.pieces
        )
        return replace(tensor, dtype=dtype, pieces=pieces)
    return CastTensor(dtype, tensor, label, saturate)


def _bytes(tensor: CastTensor) -> Iterator[bytes]:
    return (part.tobytes() if isinstance(part, Span) else part for part in tensor.parts())
