"""Reads checkpoints of version 2: a table `PREFIX.index` and the files `PREFIX.data-SSSSS-of-NNNNN`.

The index's key "" holds a `BundleHeaderProto`; every other key is a tensor's name with a `BundleEntryProto`. A
partitioned variable has an entry with `slices`, and its values lie under keys of their own (see `ordered_code`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

from tfsmith.errors import CorruptFileError, LimitError, UnsupportedError
from tfsmith.formats.bundle_data import BundleEntry, DataFiles, StoredSlices, StoredTensor, data_file
from tfsmith.formats.ordered_code import encode_slice_key, is_slice_key
from tfsmith.formats.sstable import Table
from tfsmith.formats.stored_shape import read_shape
from tfsmith.formats.string_values import ByteOrder
from tfsmith.formats.tensor_slices import Box, Extents, box, extents_of, find_flaw
from tfsmith.ir.dtype import dtype
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Piece, Tensor
from tfsmith.limits import MAX_SHARDS
from tfsmith.storage.source import open_file
from tfsmith.wire.messages import parse

__all__ = ["Bundle", "BundleEntry", "open_bundle", "index_file"]

_READS_VERSION = 1
_REMEDY = "the file is damaged; fetch it again"


def index_file(prefix: Path) -> Path:
    """The name of the index of a checkpoint."""
    return Path(f"{prefix}.index")


def open_bundle(prefix: Path) -> Bundle:
    """Opens a checkpoint by its prefix, such as `model.ckpt-1603` or `variables/variables`. Reads the index only.

    Raises:
        UnreadableFileError: There is no such index.
        CorruptFileError: The index is damaged.
        UnsupportedError: It was made for a newer TensorFlow.
    """
    return Bundle(prefix)


class Bundle(Mapping[str, Tensor]):
    """A checkpoint: names to tensors, in the order of the names. Tensors are made when asked for, values read later.

    Attributes:
        prefix: The path that all files of the checkpoint begin with.
        num_shards: How many data files there are.
        endianness: The byte order of the data files.
        version: Which version of the format the writer used.
    """

    def __init__(self, prefix: Path) -> None:
        self.prefix = prefix
        self._path = str(index_file(prefix))
        self._raw = dict(Table(open_file(self._path)).entries())
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

    def stored_order(self) -> dict[str, Tensor]:
        """The tensors in the order in which their values lie in the data files.

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
        """All that is stored, in the order in which it lies in the files; nothing may lie there twice.

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
        """Where the slices of a partitioned variable lie; they must cover it exactly once."""
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
        slices = tuple(map(extents_of, proto.slices)) if proto.slices else ()
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
            raise CorruptFileError(error.what, path=self._path, where=where, remedy=error.remedy) from error

    def _decode(self, key: bytes) -> str:
        try:
            return key.decode()
        except UnicodeDecodeError as error:
            what = "the name of a tensor is no UTF-8"
            raise CorruptFileError(what, path=self._path, where=f"key {key[:80]!r}", remedy=_REMEDY) from error

    def _damaged(self, what: str, name: str) -> CorruptFileError:
        return CorruptFileError(what, path=self._path, where=f"tensor {name!r}", remedy=_REMEDY)


def _spell(extents: Extents) -> str:
    """A slice as TensorFlow writes it: "0,2:-"."""
    return ":".join("-" if length < 0 else f"{start},{length}" for start, length in extents)
