"""Writes checkpoints of version 2, byte for byte as TensorFlow does; what nobody changed is copied or linked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tfsmith.errors import TruncatedFileError, UnreadableFileError, UnsupportedError, UsageError
from tfsmith.formats.checkpoint import index_of
from tfsmith.formats.checkpoint.bundle import DataFiles, StoredSlices, StoredTensor, data_file
from tfsmith.formats.checkpoint.slices import Extents, encode_slice_key, fill_slice_proto
from tfsmith.formats.checkpoint.strings import encode_strings
from tfsmith.formats.checkpoint.table import TableWriter
from tfsmith.ir.model import Model
from tfsmith.ir.tensor import SpanTensor, Tensor
from tfsmith.limits import MAX_SHARDS
from tfsmith.records import record
from tfsmith.storage import FileSink, Span, extend, link_file, mask, open_file
from tfsmith.wire import new

__all__ = ["write_bundle", "write_index_of", "stored_files", "write_checkpoint", "write_variables"]

_WRITES_VERSION = 1


def write_bundle(prefix: Path, tensors: Mapping[str, Tensor], *, shards: int = 1) -> None:
    """Writes a checkpoint: `PREFIX.data-SSSSS-of-NNNNN`, and then `PREFIX.index`. The files must not exist.

    Values are laid out in the order of the mapping and streamed: memory does not grow with them. Tensors of another
    checkpoint are copied as they are, with the checksum that they have; partitioned variables keep their slices.

    Args:
        prefix: The path that all files begin with; its folder must exist.
        tensors: Names to tensors.
        shards: Into how many data files to spread the values, about evenly.

    Raises:
        UsageError: A name cannot be stored, or the number of shards makes no sense.
        UnsupportedError: A tensor's values cannot be read.
        OutputError: The files cannot be written.
    """
    if not 1 <= shards <= MAX_SHARDS:
        raise UsageError(f"a checkpoint cannot have {shards} data files", remedy=f"choose from 1 to {MAX_SHARDS}")
    items = list(_items(tensors))
    index: dict[bytes, bytes] = {}
    for shard, group in enumerate(_spread(items, shards)):
        with FileSink(data_file(prefix, shard, shards)) as sink:
            _write_data(sink, shard, group, index)
    _add_wholes(tensors, index)
    _write_index(index_of(prefix), shards, index)


def stored_files(tensors: Mapping[str, Tensor]) -> DataFiles | None:
    """The data files that hold these tensors and nothing else, so that they may be taken as they are; None if not so.

    Looks at the sizes of the files.
    """
    items = [item.tensor for item in _items(tensors)]
    stored = [tensor for tensor in items if isinstance(tensor, StoredTensor)]
    if not stored or len(stored) < len(items) or any(tensor.files is not stored[0].files for tensor in stored):
        return None
    files = stored[0].files
    try:
        size = sum(data_file(files.prefix, shard, files.count).stat().st_size for shard in range(files.count))
    except OSError:
        return None
    return files if size == sum(tensor.entry.size for tensor in stored) else None


def write_index_of(prefix: Path, tensors: Mapping[str, Tensor], stored: DataFiles) -> None:
    """Writes the index of tensors whose data files are taken as they are (see `stored_files`), under other names."""
    index: dict[bytes, bytes] = {}
    for item in _items(tensors):
        assert isinstance(item.tensor, StoredTensor)
        entry, proto = item.tensor.entry, _entry(item.tensor)
        proto.shard_id, proto.offset, proto.size = entry.shard, entry.offset, entry.size
        proto.crc32c = entry.masked_crc
        index[item.key] = proto.SerializeToString()
    _add_wholes(tensors, index)
    _write_index(index_of(prefix), stored.count, index, big=stored.order == "big")


@record
class _Item:
    """Values that get an entry of their own: a tensor, or a slice of one."""

    key: bytes
    name: str
    tensor: Tensor

    @property
    def size(self) -> int:
        """About how many bytes it takes; exact but for strings in memory."""
        return self.tensor.nbytes


def _items(tensors: Mapping[str, Tensor]) -> Iterator[_Item]:
    for name, tensor in tensors.items():
        key = _key(name)
        if not isinstance(tensor, StoredSlices):
            yield _Item(key, name, tensor)
            continue
        for extents, piece in zip(tensor.extents, tensor.pieces, strict=True):
            yield _Item(encode_slice_key(name, extents), name, piece.tensor)


def _key(name: str) -> bytes:
    try:
        key = name.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name!r} cannot be the name of a tensor", remedy="give it a name of real letters") from error
    if not key or key[0] == 0:
        what = f"{name!r} cannot be the name of a tensor in a checkpoint"
        raise UsageError(what, remedy="give it a name that is not empty and does not begin with a zero byte")
    return key


def _spread(items: list[_Item], shards: int) -> Iterator[list[_Item]]:
    """The items in order, cut into so many runs of about the same size."""
    total, done, start = sum(item.size for item in items), 0, 0
    for shard in range(1, shards):
        stop = start
        while stop < len(items) and (done + items[stop].size / 2) * shards <= total * shard:
            done += items[stop].size
            stop += 1
        yield items[start:stop]
        start = stop
    yield items[start:]


def _write_data(sink: FileSink, shard: int, items: Iterable[_Item], index: dict[bytes, bytes]) -> None:
    for item in items:
        proto = _entry(item.tensor)
        proto.shard_id = shard
        proto.offset = sink.tell()
        proto.crc32c = _write_values(sink, item)
        proto.size = sink.tell() - proto.offset
        index[item.key] = proto.SerializeToString()


def _write_values(sink: FileSink, item: _Item) -> int:
    """Writes the values; returns their masked checksum. What has one already is copied without looking at it."""
    tensor = item.tensor
    if isinstance(tensor, StoredTensor) and tensor.is_verbatim:
        sink.write_span(tensor.stored())
        return tensor.entry.masked_crc
    if isinstance(tensor, SpanTensor) and tensor.masked_crc is not None:
        sink.write_span(tensor.span)
        return tensor.masked_crc
    crc = 0
    if tensor.dtype.base.name == "string":
        for data, crc in encode_strings(_strings(item)):  # noqa: B007 (the last one is the result)
            sink.write(data)
        return mask(crc)
    if not tensor.dtype.itemsize:
        what = f"dtype {tensor.dtype} cannot be written"
        raise UnsupportedError(what, where=f"tensor {item.name!r}", remedy="leave this tensor out")
    for part in tensor.parts():
        # The checksum is of the very bytes that are written, so a span passes through our hands here.
        for chunk in part.chunks() if isinstance(part, Span) else (part,):
            crc = extend(crc, chunk)
            sink.write(chunk)
    return mask(crc)


def _strings(item: _Item) -> Iterator[bytes]:
    for value in item.tensor.numpy().reshape(-1).tolist():
        if isinstance(value, str):
            yield value.encode()
        elif isinstance(value, bytes):
            yield value
        else:
            what = f"a string tensor holds a {type(value).__name__}"
            raise UsageError(what, where=f"tensor {item.name!r}", remedy="give it bytes")


def _entry(tensor: Tensor, slices: Iterable[Extents] = ()) -> Any:
    proto = new("BundleEntryProto")
    proto.dtype = tensor.dtype.base.number
    proto.shape.SetInParent()
    for dim in tensor.shape.dims or ():
        proto.shape.dim.add().size = dim
    for extents in slices:
        fill_slice_proto(proto.slices.add(), extents)
    return proto


def _add_wholes(tensors: Mapping[str, Tensor], index: dict[bytes, bytes]) -> None:
    """The entries of partitioned variables, which have slices but no values of their own."""
    for name, tensor in tensors.items():
        if isinstance(tensor, StoredSlices):
            index[_key(name)] = _entry(tensor, tensor.extents).SerializeToString()


def _write_index(path: Path, shards: int, index: dict[bytes, bytes], *, big: bool = False) -> None:
    header = new("BundleHeaderProto")
    header.num_shards = shards
    header.endianness = int(big)
    header.version.producer = _WRITES_VERSION
    with FileSink(path) as sink:
        table = TableWriter(sink)
        table.add(b"", header.SerializeToString())
        for key in sorted(index):
            table.add(key, index[key])
        table.finish()


def write_variables(model: Model, prefix: Path, *, shards: int = 1, link: bool = False) -> None:
    """Writes a model's variables: the files of its V2 checkpoint as they are, else new ones.

    Args:
        model: The model.
        prefix: Where they go.
        shards: The number of data files that are written afresh.
        link: Whether to make hard links where the system can.

    Raises:
        OutputError: The disk refuses.
        UnreadableFileError: A file of the set is missing.
        TruncatedFileError: A file of the set is cut off.
    """
    checkpoint = model.checkpoint
    if checkpoint is None or checkpoint.version != 2:
        write_checkpoint(prefix, model.variables, shards=shards, link=link)
        return
    if checkpoint.missing:
        what = "a data file of the checkpoint is missing, so it cannot be copied"
        remedy = f"{checkpoint.prefix.name}.index needs it; fetch the whole set"
        raise UnreadableFileError(what, path=checkpoint.missing[0], remedy=remedy)
    _require_whole_files(model.variables)
    for path in checkpoint.files:
        ending = path.name[max(path.name.rfind(".index"), path.name.rfind(".data-")) :]
        _take(path, prefix.with_name(prefix.name + ending), link=link)


def _require_whole_files(tensors: Mapping[str, Tensor]) -> None:
    """Sees that data files that are copied without being looked at hold all that their index says."""
    ends: dict[str, int] = {}
    for item in _items(tensors):
        if isinstance(item.tensor, StoredTensor):
            entry, path = item.tensor.entry, item.tensor.path
            ends[path] = max(ends.get(path, 0), entry.offset + entry.size)
    for path, end in ends.items():
        size = Path(path).stat().st_size
        if size < end:
            what = f"the values end at byte {end}, but the file ends at {size}"
            raise TruncatedFileError(what, path=path, offset=size, remedy="the file is cut off; fetch it again")


def write_checkpoint(prefix: Path, tensors: Mapping[str, Tensor], *, shards: int = 1, link: bool = False) -> None:
    """Writes a V2 checkpoint. Streams; memory does not grow with the tensors.

    Where only names changed and the number of data files is to stay, these are copied (or linked) as they are.
    """
    stored = stored_files(tensors)
    if stored is None or stored.count != shards:
        write_bundle(prefix, tensors, shards=shards)
        return
    for shard in range(shards):
        _take(data_file(stored.prefix, shard, shards), data_file(prefix, shard, shards), link=link)
    write_index_of(prefix, tensors, stored)


def _take(source: Path, target: Path, *, link: bool) -> None:
    if link and link_file(source, target):
        return
    with FileSink(target) as sink:
        sink.write_span(open_file(source))
