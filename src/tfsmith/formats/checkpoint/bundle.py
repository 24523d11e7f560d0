"""Reads checkpoints of version 2: a table `PREFIX.index`, and the tensors in `PREFIX.data-SSSSS-of-NNNNN`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.errors import (
    ChecksumError,
    CorruptFileError,
    LimitError,
    TruncatedFileError,
    UnreadableFileError,
    UnsupportedError,
)
from tfsmith.formats import refuse_pointer
from tfsmith.formats.checkpoint import file_of, index_of, is_slice_key, read_shape, require_numpy_rank
from tfsmith.formats.checkpoint.table import SortedTable
from tfsmith.ir.model import OBJECT_GRAPH_KEY
from tfsmith.ir.tensor import Piece, SlicedTensor, SpanTensor, Tensor, TensorBase
from tfsmith.ir.types import DType, Shape, dtype
from tfsmith.limits import MAX_SHARDS
from tfsmith.records import field, record
from tfsmith.storage import Span, extend, mask, open_file
from tfsmith.wire import parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfsmith.formats.checkpoint.slices import Box, Extents
    from tfsmith.formats.checkpoint.strings import ByteOrder, StoredStrings

__all__ = [
    "BundleEntry",
    "DataFiles",
    "StoredTensor",
    "StoredSlices",
    "data_file",
    "Bundle",
    "open_bundle",
]

_MOST_OPEN = 128
_OTHER_STEP = "the .index and the .data files seem to come from different steps; fetch the whole set again"


def data_file(prefix: Path, shard: int, shards: int) -> Path:
    """The name of a data file."""
    return file_of(prefix, f".data-{shard:05d}-of-{shards:05d}")


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

    def __reduce__(self) -> tuple[Any, ...]:
        return DataFiles, (self.prefix.absolute(), self.count, self.order)

    def whole(self, shard: int) -> Span:
        """All of a data file; opens it.

        Raises:
            UnreadableFileError: It is missing or cannot be read.
        """
        found = self._open.get(shard)
        if found is None:
            if len(self._open) >= _MOST_OPEN:
                self._open.pop(next(iter(tuple(self._open)), -1), None)  # other threads may do the same
            found = self._open[shard] = self._open_file(shard)
        return found

    def span(self, entry: BundleEntry, where: str) -> Span:
        """Where a tensor's bytes are; opens the file but reads none of them.

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
    """A tensor in a data file. Nothing but the index was read for it until its values are read."""

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
        """The bytes as they are in the file, in its byte order; opens the file, reads nothing."""
        return self.files.span(self.entry, self.label)

    def verify(self) -> bool:
        """Reads the values through a small buffer and compares their checksum; there always is one.

        Raises:
            ChecksumError: They are not what was written.
        """
        for _ in self.verifying():
            pass
        return True

    def verifying(self) -> Iterator[int]:
        """As `verify`, step by step: how many bytes were read in each."""
        span, crc = self.stored(), 0
        if self.dtype.name == "string" and self.entry.size:
            for reached, size in self._strings(span).crc_chunks():
                crc = reached
                yield size
        elif self.dtype.name == "variant":
            from tfsmith.formats.checkpoint.strings import variant_crc

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
        from tfsmith.formats.checkpoint.strings import read_strings  # few checkpoints hold strings

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


_READS_VERSION = 1
_REMEDY = "the file is damaged; fetch it again"


def open_bundle(prefix: Path) -> Bundle:
    """Opens a checkpoint by its prefix, such as `model.ckpt-1603` or `variables/variables`. Reads the index only.

    Raises:
        UnreadableFileError: There is no such index.
        CorruptFileError: The index is damaged.
        UnsupportedError: It was made for a newer TensorFlow.
    """
    return Bundle(prefix)


class Bundle(Mapping[str, Tensor]):
    """A checkpoint: names to tensors, in the order of the names. Tensors are made when needed, values read later.

    Attributes:
        prefix: The path that all files of the checkpoint begin with.
        num_shards: How many data files there are.
        endianness: The byte order of the data files.
        version: Which version of the format the writer used.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self._path = str(index_of(prefix))
        self._raw = dict(SortedTable(open_file(self._path)).entries())
        self._names = {self._decode(key): key for key in self._raw if key and not is_slice_key(key)}
        self._tensors: dict[str, Tensor] = {}
        header = self._header()
        self.num_shards: int = header.num_shards
        self.endianness: ByteOrder = "big" if header.endianness else "little"
        self.version: int = header.version.producer
        self._files = DataFiles(prefix, self.num_shards, self.endianness)

    def __getitem__(self, name: str) -> Tensor:
        found = self._tensors.get(name)
        if found is None:
            found = self._tensors[name] = self._make(name, self._names[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __repr__(self) -> str:
        return f"<Bundle {self.prefix}: {len(self)} tensors>"

    @property
    def shards(self) -> tuple[Path, ...]:
        """The data files that belong to the checkpoint, whether they are there or not."""
        return tuple(data_file(self.prefix, shard, self.num_shards) for shard in range(self.num_shards))

    @property
    def entries(self) -> dict[str, BundleEntry]:
        """What the index says of each tensor. Parses all of it."""
        return {name: self._entry(key, name) for name, key in self._names.items()}

    @cached_property
    def tracked_names(self) -> Mapping[str, str]:
        """The variables' full names by key, as the object graph of TensorFlow 2 has them; empty if there is none.

        Raises:
            CorruptFileError: The object graph is damaged.
        """
        tensor = self.get(OBJECT_GRAPH_KEY)
        if tensor is None or tensor.dtype.name != "string" or tensor.shape.elements != 1:
            return {}
        data = bytes(tensor.numpy().reshape(-1)[0])
        objects = parse("TrackableObjectGraph", data, OBJECT_GRAPH_KEY).nodes
        return {one.checkpoint_key: one.full_name for found in objects for one in found.attributes if one.full_name}

    def stored_order(self) -> dict[str, Tensor]:
        """The tensors in the order in which their values are in the data files.

        `write_bundle` keeps the order that it is given, so this is what makes a copy equal.

        Raises:
            CorruptFileError: Two tensors share bytes.
        """
        return {tensor.name: self[tensor.name] for tensor in self._layout()}

    def verify(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Reads all values, through a small buffer, and compares their checksums.

        Args:
            progress: Called with the bytes done and the bytes in all.

        Raises:
            ChecksumError: Some values are not what was written.
            UnreadableFileError: A data file is missing.
        """
        tensors = self._layout()
        total, done = sum(tensor.entry.size for tensor in tensors), 0
        for tensor in tensors:
            for step in tensor.verifying():
                done += step
                if progress is not None:
                    progress(done, total)

    def _layout(self) -> list[StoredTensor]:
        """All that is stored, in the order of the files; nothing may be there twice.

        A small file could otherwise claim the same bytes for a hundred thousand tensors.
        """
        tensors: list[StoredTensor] = []
        for tensor in self.values():
            if isinstance(tensor, StoredSlices):
                tensors.extend(tensor.stored())
            elif isinstance(tensor, StoredTensor):
                tensors.append(tensor)
        tensors.sort(key=lambda tensor: (tensor.entry.shard, tensor.entry.offset, tensor.entry.size))
        for before, after in pairwise(tensors):
            if (after.entry.shard, after.entry.offset) < (before.entry.shard, before.entry.offset + before.entry.size):
                raise self._damaged(f"its values lie where those of tensor {before.name!r} do", after.name)
        return tensors

    def _header(self) -> Any:
        raw = self._raw.get(b"")
        if raw is None:
            remedy = "pass the .index of a checkpoint"
            raise CorruptFileError("the table has no header of a checkpoint", path=self._path, remedy=remedy)
        header = self._parse("BundleHeaderProto", raw, "the header")
        if not 0 < header.num_shards <= MAX_SHARDS:
            what = f"the checkpoint claims {header.num_shards} data files"
            raise LimitError(what, path=self._path, where="the header", remedy=_REMEDY)
        version = header.version
        if version.min_consumer > _READS_VERSION or _READS_VERSION in version.bad_consumers:
            what = f"the checkpoint needs a reader of version {version.min_consumer}; this one knows {_READS_VERSION}"
            remedy = "update tfsmith, or save it again with an older TensorFlow"
            raise UnsupportedError(what, path=self._path, where="the header", remedy=remedy)
        return header

    def _make(self, name: str, key: bytes) -> Tensor:
        entry = self._entry(key, name)
        if not entry.slices:
            return StoredTensor(name, entry, self._files)
        boxes = self._boxes(entry, name)
        pieces: list[Piece] = []
        for extents, (starts, sizes) in zip(entry.slices, boxes, strict=True):
            part = self._slice_entry(name, extents)
            if part.dtype != entry.dtype or part.shape.dims != sizes:
                what = f"the slice {_spell(extents)} is {part.dtype} {part.shape}, not {entry.dtype} {Shape(sizes)}"
                raise self._damaged(what, name)
            pieces.append(Piece(starts, StoredTensor(name, part, self._files)))
        return StoredSlices(entry.dtype, entry.shape, tuple(pieces), name, entry.slices)

    def _boxes(self, entry: BundleEntry, name: str) -> list[Box]:
        """Where the slices of a partitioned variable are; they must cover it exactly once."""
        from tfsmith.formats.checkpoint.slices import box, find_flaw  # most checkpoints have none

        dims = entry.shape.dims or ()
        boxes = []
        for extents in entry.slices:
            found = box(extents, dims)
            if found is None:
                raise self._damaged(f"the slice {_spell(extents)} does not lie inside of {entry.shape}", name)
            boxes.append(found)
        flaw = "they overlap" if len(set(entry.slices)) < len(entry.slices) else find_flaw(boxes, dims)
        if flaw is not None:
            raise self._damaged(f"its slices do not cover it: {flaw}", name)
        return boxes

    def _slice_entry(self, name: str, extents: Extents) -> BundleEntry:
        from tfsmith.formats.checkpoint.slices import encode_slice_key

        try:
            key = encode_slice_key(name, extents)
        except ValueError as error:  # a number past 64 bits cannot come out of a proto, but rely on nothing
            raise self._damaged(f"the slice {_spell(extents)} cannot be", name) from error
        if key not in self._raw:
            raise self._damaged(f"its slice {_spell(extents)} is missing", name)
        entry = self._entry(key, name)
        if entry.slices:
            raise self._damaged(f"its slice {_spell(extents)} has slices itself", name)
        return entry

    def _entry(self, key: bytes, name: str) -> BundleEntry:
        proto = self._parse("BundleEntryProto", self._raw[key], f"tensor {name!r}")
        kind = dtype(proto.dtype)
        shape = read_shape(proto.shape, kind, path=self._path, where=f"tensor {name!r}")
        slices = _slices(proto) if proto.slices else ()
        entry = BundleEntry(kind, shape, proto.shard_id, proto.offset, proto.size, proto.crc32c, slices)
        if not slices:
            self._check_place(entry, name)
        return entry

    def _check_place(self, entry: BundleEntry, name: str) -> None:
        if not 0 <= entry.shard < self.num_shards:
            raise self._damaged(f"it is in data file {entry.shard}, but there are {self.num_shards}", name)
        if entry.offset < 0 or entry.size < 0:
            raise self._damaged(f"offset {entry.offset} and size {entry.size} cannot be", name)
        elements = prod(entry.shape.dims or ())
        wanted = elements * entry.dtype.itemsize
        if wanted != entry.size and entry.dtype.itemsize:
            what = f"it has {entry.size} bytes, but {entry.dtype} {entry.shape} takes {wanted}"
            raise self._damaged(what, name)
        if entry.dtype.name in ("string", "variant") and entry.size < elements:  # each takes at least a length
            raise self._damaged(f"{entry.size} bytes cannot hold {elements} elements of {entry.dtype}", name)

    def _parse(self, kind: str, data: bytes, where: str) -> Any:
        try:
            return parse(kind, data)
        except CorruptFileError as error:
            error.at(self._path, where=where)
            raise

    def _decode(self, key: bytes) -> str:
        try:
            return key.decode()
        except UnicodeDecodeError as error:
            what = "the name of a tensor is no UTF-8"
            raise CorruptFileError(what, path=self._path, where=f"key {key[:80]!r}", remedy=_REMEDY) from error

    def _damaged(self, what: str, name: str) -> CorruptFileError:
        return CorruptFileError(what, path=self._path, where=f"tensor {name!r}", remedy=_REMEDY)


def _slices(proto: Any) -> tuple[Extents, ...]:
    from tfsmith.formats.checkpoint.slices import extents_of

    return tuple(map(extents_of, proto.slices))


def _spell(extents: Extents) -> str:
    """A slice as TensorFlow writes it: "0,2:-"."""
    return ":".join("-" if length < 0 else f"{start},{length}" for start, length in extents)
