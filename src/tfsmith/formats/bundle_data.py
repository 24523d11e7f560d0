"""The data files of a checkpoint (version 2), and the tensors that lie in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.errors import ChecksumError, LimitError, TruncatedFileError, UnreadableFileError, UnsupportedError
from tfsmith.formats.sniff import refuse_pointer
from tfsmith.formats.stored_shape import require_numpy_rank
from tfsmith.formats.string_values import ByteOrder, StoredStrings, read_strings, variant_crc
from tfsmith.formats.tensor_slices import Extents
from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import SlicedTensor, SpanTensor, TensorBase
from tfsmith.records import field, record
from tfsmith.storage.crc32c import extend, mask
from tfsmith.storage.source import open_file
from tfsmith.storage.span import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BundleEntry", "DataFiles", "StoredTensor", "StoredSlices", "data_file"]

_MOST_OPEN = 128
_OTHER_STEP = "the .index and the .data files seem to come from different steps; fetch the whole set again"


def data_file(prefix: Path, shard: int, shards: int) -> Path:
    """The name of a data file."""
    return Path(f"{prefix}.data-{shard:05d}-of-{shards:05d}")


@record
class BundleEntry:
    """What the index says of a tensor. For one with `slices`, everything from `shard` to `masked_crc` means nothing."""

    dtype: DType
    shape: Shape
    shard: int
    offset: int
    size: int
    masked_crc: int
    slices: tuple[Extents, ...] = ()


@record(eq=False)
class DataFiles:
    """The data files of one checkpoint. Each is opened when its first value is wanted, and mapped once.

    Of very many files, those opened first are let go again: a process may have only so many.
    """

    prefix: Path
    count: int
    order: ByteOrder
    _open: dict[int, Span] = field(default_factory=dict)

    def whole(self, shard: int) -> Span:
        """All of a data file; opens it.

        Raises:
            UnreadableFileError: It is missing or cannot be read.
        """
        found = self._open.get(shard)
        if found is None:
            if len(self._open) >= _MOST_OPEN:
                del self._open[next(iter(self._open))]
            found = self._open[shard] = self._open_file(shard)
        return found

    def span(self, entry: BundleEntry, where: str) -> Span:
        """Where a tensor's bytes lie; opens the file but reads none of them.

        Raises:
            TruncatedFileError: The file ends before them.
        """
        whole = self.whole(entry.shard)
        stop = entry.offset + entry.size
        if stop > len(whole):
            refuse_pointer(whole)
            what = f"its values end at byte {stop}, but the file ends at {len(whole)}"
            raise TruncatedFileError(what, path=whole.name, offset=len(whole), where=where, remedy=_OTHER_STEP)
        return Span(whole.source, entry.offset, stop)

    def _open_file(self, shard: int) -> Span:
        path = data_file(self.prefix, shard, self.count)
        try:
            return open_file(path)
        except UnreadableFileError as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            first, last = (
                data_file(self.prefix, 0, self.count).name,
                data_file(self.prefix, self.count - 1, self.count).name,
            )
            names = first if self.count == 1 else f"{first} to {last}"
            what = "a data file of the checkpoint is missing"
            remedy = f"{self.prefix.name}.index needs {names} beside it; fetch them too"
            raise UnreadableFileError(what, path=path, remedy=remedy) from error


@record(eq=False, repr=False)
class StoredTensor(TensorBase):
    """A tensor in a data file. Nothing but the index was read for it until its values are asked for."""

    name: str
    entry: BundleEntry
    files: DataFiles

    @property
    def dtype(self) -> DType:
        """As the index says; no I/O."""
        return self.entry.dtype

    @property
    def shape(self) -> Shape:
        """As the index says; no I/O."""
        return self.entry.shape

    @property
    def nbytes(self) -> int:
        """The size of the values in bytes; for strings and variants, what they take in the file."""
        return self.entry.size

    @property
    def label(self) -> str:
        """What to call it in an error."""
        return f"tensor {self.name!r}"

    @property
    def path(self) -> str:
        """The data file that holds it; no I/O."""
        return str(data_file(self.files.prefix, self.entry.shard, self.files.count))

    @property
    def is_verbatim(self) -> bool:
        """Whether the stored bytes, and their checksum, may go into another checkpoint as they are."""
        return self.files.order == "little" or self._component_size == 1

    def stored(self) -> Span:
        """The bytes as they lie in the file, in its byte order; opens the file, reads nothing."""
        return self.files.span(self.entry, self.label)

    def verify(self) -> None:
        """Reads the values through a small buffer and compares their checksum.

        Raises:
            ChecksumError: They are not what was written.
        """
        for _ in self.verifying():
            pass

    def verifying(self) -> Iterator[int]:
        """As `verify`, step by step: how many bytes were read in each."""
        span, crc = self.stored(), 0
        if self.dtype.name == "string" and self.entry.size:
            for reached, size in self._strings(span).crc_chunks():
                crc = reached
                yield size
        elif self.dtype.name == "variant":
            crc = variant_crc(span, self.shape.elements or 0)
            yield len(span)
        else:
            for chunk in span.chunks():
                crc = extend(crc, chunk)
                yield len(chunk)
        self._compare(crc)

    def numpy(self) -> NDArray[Any]:
        """The values, checked: a read-only view of the mapped file where that is possible, else a copy.

        Raises:
            UnsupportedError: The dtype has no values that can be read outside of TensorFlow, or its rank is too high.
        """
        if self.dtype.name == "string":
            return self._string_array()
        self._require_values()
        require_numpy_rank(self.shape, path=self.path, where=self.label)
        span = self.stored()
        tensor = SpanTensor(self.dtype, self.shape, span, self.entry.masked_crc, self.label)
        array: NDArray[Any]
        if self.is_verbatim:
            array = tensor.numpy()
            if self.files.count <= _MOST_OPEN:
                return array
            array = array.copy()  # a view would keep its file open
        else:
            tensor.verify()
            array = self._swapped(span.view()).view(self.dtype.numpy()).reshape(self.shape.dims or ())
        array.flags.writeable = False
        return array

    def parts(self) -> Iterator[bytes | Span]:
        """The span itself, or swapped copies of it in pieces. Strings come one after the other, without lengths."""
        if self.dtype.name == "string":
            yield from self.numpy().reshape(-1).tolist()
            return
        self._require_values()
        if self.is_verbatim:
            yield self.stored()
            return
        for chunk in self.stored().chunks():  # pieces of a whole number of elements: their size is a power of two
            yield self._swapped(chunk).tobytes()

    @property
    def _component_size(self) -> int:
        """The size of what bytes are swapped in: half an element for complex numbers; 0 for what has no fixed size."""
        return self.dtype.itemsize // (2 if self.dtype.name.startswith("complex") else 1)

    def _swapped(self, data: bytes | memoryview) -> NDArray[Any]:
        import numpy

        return numpy.frombuffer(data, f">u{self._component_size}").astype(f"<u{self._component_size}")

    def _strings(self, span: Span) -> StoredStrings:
        return read_strings(span, self.shape.elements or 0, self.files.order)

    def _string_array(self) -> NDArray[Any]:
        import numpy

        require_numpy_rank(self.shape, path=self.path, where=self.label)
        self.verify()
        array = numpy.empty(self.shape.elements or 0, object)
        array[:] = self._strings(self.stored()).values() if self.entry.size else b""
        array.flags.writeable = False
        return array.reshape(self.shape.dims or ())

    def _compare(self, crc: int) -> None:
        if mask(crc) != self.entry.masked_crc:
            refuse_pointer(self.files.whole(self.entry.shard))
            what = f"the values of {self.label} do not fit their checksum"
            remedy = f"the file is damaged, or {_OTHER_STEP}"
            raise ChecksumError(what, path=self.path, offset=self.entry.offset, remedy=remedy)

    def _require_values(self) -> None:
        if self.dtype.itemsize:
            return
        raise UnsupportedError(
            f"its dtype {self.dtype} has no values that can be read outside of TensorFlow",
            path=self.path,
            where=self.label,
            remedy="leave this tensor out",
        )


@record(eq=False, repr=False)
class StoredSlices(SlicedTensor):
    """A partitioned variable in a checkpoint; it remembers how the file spelled its slices."""

    name: str
    extents: tuple[Extents, ...]
    """For each piece, in the same order."""

    def numpy(self) -> NDArray[Any]:
        """The whole, assembled in memory; every piece is checked.

        Raises:
            LimitError: It does not fit into memory.
        """
        for tensor in self.stored():
            tensor.stored()  # before memory is set aside, see that the files have so many bytes
            require_numpy_rank(self.shape, path=tensor.path, where=tensor.label)
        try:
            return SlicedTensor.numpy(self)  # a record cannot use super()
        except MemoryError as error:
            what = f"the {self.nbytes} bytes of tensor {self.name!r} do not fit into memory"
            path = next(tensor.path for tensor in self.stored())
            raise LimitError(what, path=path, remedy="use a machine with more") from error

    def stored(self) -> tuple[StoredTensor, ...]:
        """The pieces' tensors."""
        return tuple(piece.tensor for piece in self.pieces if isinstance(piece.tensor, StoredTensor))
