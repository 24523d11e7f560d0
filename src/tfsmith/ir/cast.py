"""`CastTensor`: a tensor whose values change their type while they are written."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import LimitError
from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import FilledTensor, Piece, SlicedTensor, Tensor, TensorBase
from tfsmith.records import record, replace
from tfsmith.storage.span import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CastTensor", "cast_tensor"]

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

    def verify(self) -> None:
        """Reads the source and compares its checksum, if there is one."""
        check = getattr(self.source, "verify", None)
        if check is not None:
            check()

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
            remedy = "clip it (--saturate), take bfloat16, or leave this tensor as it is (--only names the others)"
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
