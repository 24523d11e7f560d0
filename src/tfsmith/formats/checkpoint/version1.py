"""Reads checkpoints of version 1: one file, or shards `PREFIX-SSSSS-of-NNNNN`, each a table of `SavedTensorSlices`.

The key "" holds what there is: names, dtypes, shapes and slices. Under the key of each slice is a TensorProto that
has nothing but a list of values: floats as they are in memory, integers, booleans and halves as varints.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import CorruptFileError, LimitError, UnreadableFileError, UnsupportedError, WrongFileError
from tfsmith.formats.checkpoint import read_shape, require_numpy_rank
from tfsmith.formats.checkpoint.slices import Extents, box, encode_slice_key, extents_of, find_flaw
from tfsmith.formats.checkpoint.strings import decode_varints
from tfsmith.formats.checkpoint.table import SortedTable
from tfsmith.ir.tensor import ArrayTensor, Piece, SlicedTensor, SpanTensor, StringTensor, Tensor, TensorBase
from tfsmith.ir.types import DType, Shape, dtype
from tfsmith.limits import MAX_SHARDS, MAX_SMALL_MESSAGE, MAX_SNAPPY_RATIO
from tfsmith.records import field, record
from tfsmith.storage import Span, from_bytes, open_file
from tfsmith.wire import BYTES, fields, parse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CheckpointV1", "open_checkpoint_v1", "v1_files"]

_READS_VERSION = 1
_REMEDY = "the file is damaged; fetch it again"
_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})")
_PATTERN = re.compile(r"(.+)-\?{5}-of-(\?{5}|\d{5})")

_DATA, _SLICE_DATA = 2, 3  # SavedTensorSlices.data, SavedSlice.data
_RAW_LISTS = MappingProxyType({"float32": 5, "float64": 6, "complex64": 9, "complex128": 12})
_STRINGS = 8
_VARINT_LISTS = MappingProxyType(
    {"int64": 10, "bool": 11, "float16": 13, "bfloat16": 13, "uint32": 16, "uint64": 17}
    | dict.fromkeys(("int32", "int16", "int8", "uint16", "uint8"), 7)
    | dict.fromkeys(("qint32", "qint16", "qint8", "quint16", "quint8"), 7)
)


def open_checkpoint_v1(path: Path) -> CheckpointV1:
    """Opens a checkpoint of version 1: a file, the prefix of its shards, or `PREFIX-?????-of-00002`.

    Reads the indexes of the tables and what the files say they hold; no values.

    Raises:
        UnreadableFileError: There is no such checkpoint, or a shard is missing.
        CorruptFileError: A file is damaged or of another kind.
    """
    return CheckpointV1(v1_files(path))


def v1_files(path: Path) -> tuple[Path, ...]:
    """The files that a checkpoint of version 1 is made of. Lists the folder; opens nothing.

    Raises:
        UnreadableFileError: There is none, or a shard is missing.
        WrongFileError: There are several with this prefix.
    """
    if path.is_file():
        return (path,)
    pattern = _PATTERN.fullmatch(path.name)
    prefix = pattern[1] if pattern else path.name
    found: dict[int, set[int]] = {}
    for file in path.parent.iterdir() if path.parent.is_dir() else ():
        shard = _SHARD.fullmatch(file.name)
        if shard is not None and shard[1] == prefix:
            found.setdefault(int(shard[3]), set()).add(int(shard[2]))
    if pattern is not None and pattern[2].isdigit():
        found = {count: shards for count, shards in found.items() if count == int(pattern[2])}
    found.pop(0, None)
    if not found:
        remedy = "pass the checkpoint's file, or the prefix of its shards"
        raise UnreadableFileError("there is no checkpoint of version 1", path=path, remedy=remedy)
    if len(found) > 1:
        sets = " and ".join(f"{prefix}-?????-of-{count:05d}" for count in sorted(found))
        raise WrongFileError("several checkpoints have this prefix", path=path, remedy=f"pass one of {sets}")
    ((count, shards),) = found.items()
    for shard_number in range(min(count, MAX_SHARDS)):
        if shard_number not in shards:
            name = f"{prefix}-{shard_number:05d}-of-{count:05d}"
            remedy = f"the checkpoint has {count} files, and all are needed"
            raise UnreadableFileError("a shard of the checkpoint is missing", path=path.parent / name, remedy=remedy)
    return tuple(path.parent / f"{prefix}-{number:05d}-of-{count:05d}" for number in range(count))


class CheckpointV1(Mapping[str, Tensor]):
    """A checkpoint of version 1: names to tensors, in the order of the names; values are read when needed.

    Attributes:
        files: The files that it is made of.
    """

    def __init__(self, files: tuple[Path, ...]) -> None:
        self.files = files
        self._tables = [SortedTable(open_file(path)) for path in files]
        found: dict[str, _Saved] = {}
        for table in self._tables:
            for meta in _read_meta(table).tensor:
                _add(found, meta, table)
        self._saved = {name: found[name] for name in sorted(found, key=str.encode)}
        self._tensors: dict[str, Tensor] = {}

    def __getitem__(self, name: str) -> Tensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            tensor = self._tensors[name] = self._saved[name].tensor()
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self._saved)

    def __len__(self) -> int:
        return len(self._saved)

    def __contains__(self, name: object) -> bool:
        return name in self._saved

    def __repr__(self) -> str:
        return f"<CheckpointV1 {self.files[0]}: {len(self)} tensors>"

    def verify(self, progress: Callable[[int, int], None] | None = None) -> None:
        """Reads all files and compares their checksums; also decodes every value.

        Args:
            progress: Called with the tensors done and the tensors in all.

        Raises:
            ChecksumError: Some bytes are not what was written.
        """
        for table in self._tables:
            for _ in table.spans():
                pass
        for done, name in enumerate(self, 1):
            self[name].numpy()
            if progress is not None:
                progress(done, len(self))


@record
class _Saved:
    """What the files say of one tensor: its slices may be spread over them."""

    name: str
    dtype: DType
    shape: Shape
    path: str
    slices: list[tuple[Extents, SortedTable]] = field(default_factory=list)

    def tensor(self) -> Tensor:
        dims = self.shape.dims or ()
        boxes, pieces = [], []
        for extents, table in self.slices:
            found = box(extents, dims)
            if found is None:
                raise self.damaged(f"a slice does not lie inside of {self.shape}")
            boxes.append(found)
            key = encode_slice_key(self.name, extents)
            pieces.append(Piece(found[0], _SliceTensor(self.name, self.dtype, Shape(found[1]), key, table)))
        flaw = find_flaw(boxes, dims)
        if flaw is not None:
            raise self.damaged(f"its slices do not cover it: {flaw}")
        if len(pieces) == 1:
            return pieces[0].tensor
        # Every element takes a byte at least, so a shape that is out of proportion must not allocate memory.
        if (self.shape.elements or 0) > MAX_SNAPPY_RATIO * sum(
            table.size for table in {table for _, table in self.slices}
        ):
            raise self.damaged(f"its shape {self.shape} has more elements than the files can hold")
        return SlicedTensor(self.dtype, self.shape, tuple(pieces))

    def damaged(self, what: str) -> CorruptFileError:
        return CorruptFileError(what, path=self.path, where=f"tensor {self.name!r}", remedy=_REMEDY)


@record(eq=False)
class _SliceTensor(TensorBase):
    """A slice in a table, often a whole tensor; looked up when its values are wanted."""

    name: str
    dtype: DType
    shape: Shape
    key: bytes
    table: SortedTable

    def verify(self) -> bool:
        """Reads the block of the table, whose checksum is compared each time."""
        self._tensor_proto()
        return True

    def numpy(self) -> NDArray[Any]:
        """The values; floats are a view of the mapped file where that is possible, others are decoded."""
        return self._values().numpy()

    def parts(self) -> Iterator[bytes | Span]:
        """The raw bytes; floats stay where they are."""
        return self._values().parts()

    def _values(self) -> Tensor:
        require_numpy_rank(self.shape, path=self.table.name, where=f"tensor {self.name!r}")
        proto = self._tensor_proto()
        if self.dtype.name == "string":
            return self._strings(proto)
        number = _RAW_LISTS.get(self.dtype.name)
        if number is None:
            return ArrayTensor(self.dtype, self._integers(proto))
        payload = self._list(proto, number)
        if len(payload) != self.nbytes:
            raise self._damaged(f"it has {len(payload)} bytes, but {self.dtype} {self.shape} takes {self.nbytes}")
        return SpanTensor(self.dtype, self.shape, payload, label=f"tensor {self.name!r}")

    def _strings(self, proto: Span) -> StringTensor:
        elements = self.shape.elements or 0
        buffer = proto.source.buffer
        values = tuple(buffer[f.start : f.stop].tobytes() for f in fields(proto) if f.number == _STRINGS)
        if len(values) != elements:
            raise self._damaged(f"it has {len(values)} strings, but its shape {self.shape} has {elements}")
        return StringTensor(self.shape, values)

    def _integers(self, proto: Span) -> NDArray[Any]:
        number = _VARINT_LISTS.get(self.dtype.name)
        if number is None:
            what = f"its dtype {self.dtype} has no values that can be read from such a checkpoint"
            where = f"tensor {self.name!r}"
            raise UnsupportedError(what, path=self.table.name, where=where, remedy="leave this tensor out")
        payload = self._list(proto, number)
        wide, _ = decode_varints(payload.view(), None, path=payload.name, offset=payload.start)
        if wide.size != self.shape.elements:
            raise self._damaged(f"it has {wide.size} values, but its shape {self.shape} has {self.shape.elements}")
        kind = self.dtype.numpy()
        if number == _VARINT_LISTS["bool"]:
            array = wide != 0
        elif number == _VARINT_LISTS["float16"]:
            array = wide.astype("<u2").view(kind)
        else:
            array = wide.astype(kind)  # keeps the low bits, as C does: right for negative numbers too
        shaped: NDArray[Any] = array.reshape(self.shape.dims or ())
        return shaped

    def _list(self, proto: Span, number: int) -> Span:
        """The bytes of a list of numbers: packed into one field as a rule, else put together."""
        found = [Span(proto.source, f.start, f.stop) for f in fields(proto) if f.number == number]
        return found[0] if len(found) == 1 else from_bytes(b"".join(part.tobytes() for part in found), proto.name)

    def _tensor_proto(self) -> Span:
        value = self.table.find(self.key)
        if value is None:
            raise self._damaged("its values are missing")
        data = self._field(value, _DATA)
        return self._field(data, _SLICE_DATA)

    def _field(self, span: Span, number: int) -> Span:
        found = [f for f in fields(span) if f.number == number and f.wire_type == BYTES]
        if len(found) != 1:
            raise self._damaged("its values are missing, or are there twice")
        return Span(span.source, found[0].start, found[0].stop)

    def _damaged(self, what: str) -> CorruptFileError:
        return CorruptFileError(what, path=self.table.name, where=f"tensor {self.name!r}", remedy=_REMEDY)


def _read_meta(table: SortedTable) -> Any:
    span = table.find(b"")
    if span is None:
        what = "the table does not say what it holds"
        raise CorruptFileError(what, path=table.name, remedy="pass a checkpoint of version 1")
    if len(span) > MAX_SMALL_MESSAGE:
        what = f"the list of tensors takes {len(span)} bytes"
        raise LimitError(what, path=table.name, remedy="no real checkpoint has this; do not trust the file")
    meta = parse("SavedTensorSlices", span, "the list of tensors").meta
    versions = meta.versions
    if versions.min_consumer > _READS_VERSION or _READS_VERSION in versions.bad_consumers:
        what = f"the checkpoint needs a reader of version {versions.min_consumer}; this one knows {_READS_VERSION}"
        raise UnsupportedError(what, path=table.name, remedy="save it again with an older TensorFlow")
    return meta


def _add(found: dict[str, _Saved], meta: Any, table: SortedTable) -> None:
    """Adds what one file says of a tensor; files must agree."""
    kind = dtype(meta.type).base
    shape = read_shape(meta.shape, kind, path=table.name, where=f"tensor {meta.name!r}")
    new = _Saved(meta.name, kind, shape, table.name)
    saved = found.setdefault(meta.name, new)
    if (saved.dtype, saved.shape) != (new.dtype, new.shape):
        raise new.damaged(f"it is {new.dtype} {new.shape} here, but {saved.dtype} {saved.shape} in {saved.path}")
    saved.slices.extend((extents_of(proto), table) for proto in meta.slice)
