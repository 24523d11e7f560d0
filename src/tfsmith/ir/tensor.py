"""`Tensor`: a dtype, a shape, and values that may still lie in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from tfsmith.errors import ChecksumError, InvalidModelError, LimitError, UnsupportedError, UsageError
from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.limits import MAX_FILLED_BYTES, MAX_PROTO_BYTES
from tfsmith.records import field, record
from tfsmith.storage import Sink, Span, from_bytes, mask, span_crc32c

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from tfsmith.ir.keras import KerasFile

__all__ = [
    "ArrayTensor",
    "FilledTensor",
    "OpaqueTensor",
    "Piece",
    "SlicedTensor",
    "SpanTensor",
    "StringTensor",
    "Tensor",
    "TensorBase",
    "Weights",
    "flat_texts",
    "integer_tensor",
    "make_tensor",
]


_CHUNK = 1 << 20
_Tensor = TypeVar("_Tensor")


class Tensor(Protocol):
    """What every kind of tensor can do."""

    @property
    def dtype(self) -> DType:
        """The element type; no I/O."""
        ...

    @property
    def shape(self) -> Shape:
        """The shape, always static; no I/O."""
        ...

    @property
    def nbytes(self) -> int:
        """The size of the values in bytes; no I/O. For strings, what is known of it."""
        ...

    def numpy(self) -> NDArray[Any]:
        """The values, read-only. Reads them; checks their checksum where there is one."""
        ...

    def verify(self) -> bool:
        """Reads the stored bytes, in pieces, and compares their checksum.

        Returns:
            Whether all of them have one; nothing is read where there is none.

        Raises:
            ChecksumError: They are not what was written.
        """
        ...

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The values, for `numpy.asarray`; a copy where another dtype or a copy is asked for."""
        ...

    def parts(self) -> Iterator[bytes | Span]:
        """The raw little-endian bytes, in order, as spans where they lie in a file. Not for strings."""
        ...

    def write_to(self, sink: Sink) -> None:
        """Streams the raw little-endian bytes; memory does not grow with the tensor."""
        ...


class TensorBase:
    """What all kinds of tensors share."""

    __slots__ = ()

    def __repr__(self: Tensor) -> str:
        return f"<{type(self).__name__} {self.dtype} {self.shape}>"

    def __deepcopy__(self: _Tensor, memo: object) -> _Tensor:
        return self

    @property
    def nbytes(self: Tensor) -> int:
        """The size of the values in bytes; no I/O."""
        return (self.shape.elements or 0) * self.dtype.itemsize

    def verify(self: Tensor) -> bool:
        """Has nothing to compare: there is no checksum."""
        return False

    def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The values, for `numpy.asarray`: read-only; a copy where another dtype or a copy is asked for."""
        array = self.numpy()
        wanted = None if dtype is None else dtype.numpy() if isinstance(dtype, DType) else dtype
        if wanted is None or array.dtype == wanted:
            return array.copy() if copy else array
        if copy is False:
            raise ValueError(f"values of {array.dtype} cannot become {wanted} without a copy")
        return array.astype(wanted)

    def write_to(self: Tensor, sink: Sink) -> None:
        """Streams the raw little-endian bytes; memory does not grow with the tensor."""
        for part in self.parts():
            if isinstance(part, Span):
                sink.write_span(part)
            else:
                sink.write(part)


@record(eq=False, repr=False)
class SpanTensor(TensorBase):
    """Values that lie in a file, one after the other, little-endian.

    Attributes:
        span: Where they lie.
        masked_crc: Their checksum as a checkpoint stores it; None where the format has none.
        label: What to call it in an error.
    """

    dtype: DType
    shape: Shape
    span: Span
    masked_crc: int | None = None
    label: str = "tensor"

    def __post_init__(self) -> None:
        if len(self.span) != self.nbytes:
            what = f"{self.label} has {len(self.span)} bytes, but {self.dtype} {self.shape} takes {self.nbytes}"
            remedy = "the file is damaged; fetch it again"
            raise InvalidModelError(what, path=self.span.name, offset=self.span.start, remedy=remedy)

    def verify(self) -> bool:
        """Reads all bytes and compares their checksum; returns whether there is one.

        Raises:
            ChecksumError: They are not what was written.
        """
        if self.masked_crc is None:
            return False
        if mask(span_crc32c(self.span)) != self.masked_crc:
            raise ChecksumError(
                f"the values of {self.label} do not fit their checksum",
                path=self.span.name,
                offset=self.span.start,
                remedy="the file is damaged, or comes from another step than its index; fetch the set again",
            )
        return True

    def numpy(self) -> NDArray[Any]:
        """The values: a read-only view of the mapped file where it is aligned, else a copy."""
        import numpy

        self.verify()
        kind = self.dtype.numpy()
        array = _shaped(numpy.frombuffer(self.span.view(), kind), self.shape)
        if not array.flags.aligned:
            array = array.copy()
            array.flags.writeable = False
        return array

    def parts(self) -> Iterator[bytes | Span]:
        """The span itself; nothing is read."""
        yield self.span


def integer_tensor(values: int | Sequence[int], dtype: DType) -> SpanTensor:
    """A scalar or a vector of integers, made without numpy, which takes longer to load than most graphs to change."""
    shape = Shape(()) if isinstance(values, int) else Shape((len(values),))
    numbers = (values,) if isinstance(values, int) else values
    return SpanTensor(
        dtype, shape, from_bytes(b"".join(one.to_bytes(dtype.itemsize, "little", signed=True) for one in numbers))
    )


@record(eq=False, repr=False)
class ArrayTensor(TensorBase):
    """Values in memory. Make it with `ArrayTensor.of(array)`."""

    dtype: DType
    array: NDArray[Any]

    @staticmethod
    def of(values: Any, dtype: DType | None = None) -> ArrayTensor:
        """From anything that numpy takes; the dtype is numpy's own unless given. Text becomes UTF-8."""
        import numpy

        array = numpy.asarray(values, None if dtype is None else dtype.numpy())
        if array.dtype.kind in "SU" and not isinstance(values, numpy.ndarray):
            array = numpy.asarray(values, object)  # numpy's own strings lose the zeros at their ends
        if array.dtype.kind in "OSU":
            strings = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
            array = numpy.array(strings, object).reshape(array.shape)
        found = dtype_named(array.dtype.name) if dtype is None else dtype
        return ArrayTensor(found, array)

    @staticmethod
    def copy_of(values: Any, dtype: DType | None = None) -> ArrayTensor:
        """As `of`, with an array of its own, which nobody else can change."""
        import numpy

        return ArrayTensor.of(numpy.array(values) if isinstance(values, numpy.ndarray) else values, dtype)

    @property
    def shape(self) -> Shape:
        """The array's shape."""
        return Shape(self.array.shape)

    def numpy(self) -> NDArray[Any]:
        """A read-only view of the array."""
        view: NDArray[Any] = self.array.view()
        view.flags.writeable = False
        return view

    def parts(self) -> Iterator[bytes | Span]:
        """A copy of the bytes, in pieces."""
        import numpy

        flat: numpy.ndarray[Any, Any] = numpy.ascontiguousarray(self.array).reshape(-1)
        if flat.dtype.kind == "O":
            yield from flat.tolist()
            return
        if flat.dtype.byteorder == ">":
            flat = flat.astype(flat.dtype.newbyteorder("<"))
        step = max(1, _CHUNK // max(1, flat.dtype.itemsize))
        for start in range(0, flat.size, step):
            yield flat[start : start + step].tobytes()


@record(eq=False, repr=False)
class FilledTensor(TensorBase):
    """A few values of which the last repeats to the end, as a TensorProto may say it. Empty `values` means zeros."""

    dtype: DType
    shape: Shape
    values: bytes
    """The given values, little-endian."""

    def __post_init__(self) -> None:
        if len(self.values) % self.dtype.itemsize or len(self.values) > self.nbytes:
            what = f"{len(self.values)} bytes of values do not fit {self.dtype} {self.shape}"
            raise InvalidModelError(what, remedy="the file is damaged; fetch it again")

    def numpy(self) -> NDArray[Any]:
        """The values; a single one is broadcast and takes no memory."""
        import numpy

        self._check_size(MAX_FILLED_BYTES)
        kind = self.dtype.numpy()
        given = numpy.frombuffer(self.values or bytes(self.dtype.itemsize), kind)
        if given.size == 1:
            return _shaped(numpy.broadcast_to(given[0], (self.shape.elements or 0,)), self.shape)
        self._check_size(MAX_PROTO_BYTES)  # from here on it takes memory
        array = numpy.empty(self.shape.elements or 0, kind)
        array[: given.size] = given
        array[given.size :] = given[-1]
        array.flags.writeable = False
        return _shaped(array, self.shape)

    def parts(self) -> Iterator[bytes | Span]:
        """The values and then the last one again and again, in pieces."""
        self._check_size(MAX_FILLED_BYTES)
        yield self.values
        item = self.values[-self.dtype.itemsize :] or bytes(self.dtype.itemsize)
        left = (self.nbytes - len(self.values)) // len(item)
        step = max(1, _CHUNK // len(item))
        block = item * min(step, left)
        while left:
            count = min(step, left)
            yield block if count == step else item * count
            left -= count

    def _check_size(self, most: int) -> None:
        if self.nbytes > most:
            what = f"a constant of a few values claims {self.nbytes} bytes"
            raise LimitError(what, remedy="no real model has this; do not trust the file")


@record(eq=False, repr=False)
class StringTensor(TensorBase):
    """Strings in memory."""

    shape: Shape
    values: Sequence[bytes]
    """The strings; as in a TensorProto, the last one repeats, and none at all means empty strings."""

    @property
    def dtype(self) -> DType:
        """Always string."""
        return dtype_named("string")

    @property
    def nbytes(self) -> int:
        """The length of all given strings."""
        return sum(map(len, self.values))

    def numpy(self) -> NDArray[Any]:
        """An object array of `bytes`."""
        import numpy

        count = self.shape.elements or 0
        if count * 8 > MAX_PROTO_BYTES:
            raise LimitError(f"a constant of a few strings claims {count} of them", remedy="do not trust the file")
        array = numpy.full(count, self.values[-1] if self.values else b"", object)
        array[: len(self.values)] = numpy.array(list(self.values), object)[:count]
        array.flags.writeable = False
        return _shaped(array, self.shape)

    def parts(self) -> Iterator[bytes | Span]:
        """The strings, one after the other, without their lengths."""
        yield from self.values


def flat_texts(tensor: Tensor) -> Sequence[bytes]:
    """The strings of a tensor of strings, flat; one that repeats up to the end comes once. No numpy where it can be."""
    if isinstance(tensor, StringTensor):
        return tensor.values or (b"",)
    return [bytes(text) for text in tensor.numpy().ravel()]


@record(eq=False, repr=False)
class OpaqueTensor(TensorBase):
    """A resource, a variant, or a type newer than this release: it has a dtype and a shape, but no values for us."""

    dtype: DType
    shape: Shape
    label: str = "tensor"

    def numpy(self) -> NDArray[Any]:
        """Always refuses."""
        raise self._refusal()

    def parts(self) -> Iterator[bytes | Span]:
        """Always refuses."""
        raise self._refusal()

    def _refusal(self) -> UnsupportedError:
        what = f"{self.label} is of dtype {self.dtype}, whose values only TensorFlow can read"
        return UnsupportedError(what, remedy="leave it out, or read the model with TensorFlow")


@record(eq=False)
class Piece:
    """A part of a partitioned variable: where it starts in the whole, and its values."""

    start: tuple[int, ...]
    tensor: Tensor


@record(eq=False, repr=False)
class SlicedTensor(TensorBase):
    """A partitioned variable: put together only when its values are wanted.

    The pieces must cover the whole without overlap; who makes one checks that.
    """

    dtype: DType
    shape: Shape
    pieces: tuple[Piece, ...]

    def verify(self) -> bool:
        """Compares the checksums of all pieces; returns whether each has one."""
        return False not in {piece.tensor.verify() for piece in self.pieces}

    def numpy(self) -> NDArray[Any]:
        """The whole, assembled in memory."""
        import numpy

        whole = numpy.empty(self.shape.dims or (), self.dtype.numpy())
        for piece in self.pieces:
            sizes = piece.tensor.shape.dims or ()
            where = tuple(slice(at, at + size) for at, size in zip(piece.start, sizes, strict=True))
            whole[where] = piece.tensor.numpy()
        whole.flags.writeable = False
        return whole

    def parts(self) -> Iterator[bytes | Span]:
        """The pieces' own bytes where they lie one after the other (split along the first axis), else a copy."""
        if self._is_split_along_first_axis():
            for piece in sorted(self.pieces, key=lambda piece: piece.start):
                yield from piece.tensor.parts()
        else:
            yield from ArrayTensor(self.dtype, self.numpy()).parts()

    def _is_split_along_first_axis(self) -> bool:
        inner = (self.shape.dims or ())[1:]
        return all((piece.tensor.shape.dims or ())[1:] == inner for piece in self.pieces)


def make_tensor(value: Any, dtype: DType | None = None) -> Tensor:
    """A tensor from a plain value or an array, which is copied; plain numbers are int32 or float32, as in TensorFlow.

    Raises:
        UsageError: No tensor can have these values.
    """
    import numpy

    try:
        array = numpy.array(value)
    except ValueError as error:
        remedy = "pass an array, or lists of one length"
        raise UsageError(f"these are no values of a tensor: {error}", remedy=remedy) from error
    if array.dtype.kind in "SUO":
        flat = [item.encode() if isinstance(item, str) else item for item in array.reshape(-1).tolist()]
        if not all(isinstance(item, bytes) for item in flat):
            raise UsageError("these are no values of a tensor", remedy="pass numbers, or strings")
        return StringTensor(Shape(array.shape), tuple(flat))
    if dtype is None and array.dtype.kind in "iuf" and not isinstance(value, (numpy.ndarray, numpy.generic)):
        dtype = dtype_named("float32" if array.dtype.kind == "f" else "int32")
    return ArrayTensor.of(array, dtype)


def _shaped(array: NDArray[Any], shape: Shape) -> NDArray[Any]:
    """The array in this shape, which TensorFlow allows more dimensions than numpy does.

    Raises:
        UnsupportedError: Numpy has no array of such a shape.
    """
    try:
        return array.reshape(shape.dims or ())
    except ValueError as error:
        what = f"numpy has no array of the shape {shape}"
        raise UnsupportedError(what, remedy="read this tensor with TensorFlow") from error


@record(eq=False)
class Weights(Mapping[str, Tensor]):
    """A read-only mapping from names to tensors that are read when asked for.

    Attributes:
        tensors: The tensors, in the order of their file.
        metadata: What else the file says, as text by key.
        files: The files that hold them; none may be written to while the tensors are used.
        path: What the user called them.
        names: For tensors whose key is a path of Python attributes, the names of their variables, the best one first.
        keras: What else their Keras file says; None if they come from another file.
    """

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    path: Path | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keras: KerasFile | None = None

    @staticmethod
    def of(tensors: Mapping[str, Tensor | NDArray[Any]]) -> Weights:
        """From tensors or arrays by name. Copies no values."""
        if isinstance(tensors, Weights):
            return tensors
        return Weights({name: _tensor(one) for name, one in tensors.items()})

    def __repr__(self) -> str:
        place = "" if self.path is None else f" {str(self.path)!r}"
        return f"<Weights{place}, {len(self)} tensors>"

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def verify(self) -> None:
        """Reads every tensor and checks its checksum, in constant memory.

        Raises:
            UnsupportedError: None has a checksum.
            ChecksumError: The first tensor that does not fit.
        """
        if True not in {tensor.verify() for tensor in self.tensors.values()}:
            remedy = "leave {checksums=True} out"
            raise UnsupportedError("this format keeps no checksums", path=self.path, remedy=remedy)


def _tensor(values: Tensor | NDArray[Any]) -> Tensor:
    return cast(Tensor, values) if hasattr(values, "write_to") else ArrayTensor.of(values)
