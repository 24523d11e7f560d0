"""Safetensors files, read and written: eight bytes with the length of a JSON header, the header, the values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tfsmith.errors import (
    CorruptFileError,
    InvalidModelError,
    LimitError,
    OutputError,
    UnreadableFileError,
    UnsupportedError,
    UsageError,
)
from tfsmith.ir.tensor import OpaqueTensor, SpanTensor, Tensor, Weights
from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.limits import MAX_RANK, MAX_WEIGHTS_HEADER
from tfsmith.records import record
from tfsmith.storage import FileSink, Span, open_file

__all__ = [
    "DTYPES",
    "DTYPES_KEY",
    "INDEX_ENDING",
    "METADATA",
    "open_safetensors",
    "open_safetensors_index",
    "write_safetensors",
]

DTYPES = MappingProxyType(
    {
        "BOOL": "bool",
        "U8": "uint8",
        "I8": "int8",
        "F8_E5M2": "float8_e5m2",
        "F8_E4M3": "float8_e4m3fn",
        "F8_E4M3FNUZ": "float8_e4m3fnuz",
        "F8_E5M2FNUZ": "float8_e5m2fnuz",
        "I16": "int16",
        "U16": "uint16",
        "F16": "float16",
        "BF16": "bfloat16",
        "I32": "int32",
        "U32": "uint32",
        "F32": "float32",
        "C64": "complex64",
        "F64": "float64",
        "I64": "int64",
        "U64": "uint64",
    }
)
"""The format's names of dtypes, in the order in which its own library sorts them."""
DTYPES_KEY = "tensorflow_dtypes"
"""The key of the metadata under which we keep dtypes that the format has no name for, such as qint8."""
METADATA = "__metadata__"
INDEX_ENDING = ".safetensors.index.json"
_REMEDY = "the file is cut off or damaged; fetch it again"


def open_safetensors(span: Span, path: Path | None = None) -> Weights:
    """Opens a file. Reads its header only.

    Raises:
        CorruptFileError: It breaks a rule of the format.
        LimitError: Its header is larger than the format allows.
    """
    start, header = _header(span)
    metadata = _metadata(header.pop(METADATA, {}), span)
    entries = {name: _entry(name, found, span) for name, found in header.items()}
    _check_offsets(entries, len(span) - start, span)
    kinds = _other_dtypes(metadata)
    tensors = {name: _tensor(name, entry, span, start, kinds) for name, entry in entries.items()}
    return Weights(tensors, metadata, () if path is None else (path,), path)


def open_safetensors_index(span: Span, path: Path) -> Weights:
    """Opens the files that an index names. They must be beside it.

    Raises:
        CorruptFileError: The index is damaged, or does not fit the files.
        UnreadableFileError: A file is missing.
    """
    if len(span) > MAX_WEIGHTS_HEADER:
        what = f"the index has {len(span)} bytes, more than any real one"
        raise LimitError(what, path=span.name, remedy="do not trust the file")
    places = _json(span.tobytes(), span, 0).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(name, str) for name in places.values()):
        raise CorruptFileError("the index has no weight_map of names to files", path=span.name, remedy=_REMEDY)
    opened: dict[str, Weights] = {}
    metadata: dict[str, str] = {}
    for name in dict.fromkeys(places.values()):
        opened[name] = _open_shard(path, name)
        metadata |= opened[name].metadata
    missing = [name for name, file in places.items() if name not in opened[file]]
    if missing:
        what = f"tensor {missing[0]!r} is not in {places[missing[0]]}, where the index says it is"
        raise CorruptFileError(what, path=span.name, remedy="fetch index and files of one version")
    tensors = {name: opened[file][name] for name, file in places.items()}
    return Weights(tensors, metadata, (path, *(path.with_name(name) for name in opened)), path)


def _open_shard(index: Path, name: str) -> Weights:
    if name in ("", ".", "..") or "/" in name or "\\" in name or "\x00" in name:  # no file outside the model is read
        what = f"the index names the file {name!r}, which does not lie beside it"
        raise CorruptFileError(what, path=index, remedy="do not trust the file")
    shard = index.with_name(name)
    try:
        return open_safetensors(open_file(shard), shard)
    except UnreadableFileError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        what = "a file of the model is missing"
        raise UnreadableFileError(what, path=shard, remedy=f"{index.name} needs it; fetch it too") from error


def _header(span: Span) -> tuple[int, dict[str, Any]]:
    """Where the values begin, and the header."""
    if len(span) < 8:
        raise CorruptFileError("the file is too short for a header", path=span.name, offset=0, remedy=_REMEDY)
    size = int.from_bytes(span.sub(0, 8).tobytes(), "little")
    if size > MAX_WEIGHTS_HEADER:
        what = f"the header claims {size} bytes, but the format allows {MAX_WEIGHTS_HEADER}"
        raise LimitError(what, path=span.name, offset=0, remedy="do not trust the file")
    return 8 + size, _json(span.sub(8, 8 + size, "the header").tobytes(), span, 8)


def _json(data: bytes, span: Span, offset: int) -> dict[str, Any]:
    try:
        found = json.loads(data.decode("utf-8"), object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"no sound JSON ({error})", path=span.name, offset=offset, remedy=_REMEDY) from error
    if not isinstance(found, dict):
        raise CorruptFileError("the JSON is no object", path=span.name, offset=offset, remedy=_REMEDY)
    return found


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key is there twice")
    return found


def _metadata(found: Any, span: Span) -> dict[str, str]:
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise CorruptFileError("the metadata is not text by key", path=span.name, offset=8, remedy=_REMEDY)
    return found


@record
class _Entry:
    """What the header says of a tensor."""

    kind: str
    dims: tuple[int, ...]
    start: int
    stop: int


def _entry(name: str, found: Any, span: Span) -> _Entry:
    known = isinstance(found, dict) and found.keys() == {"dtype", "shape", "data_offsets"}
    dims, offsets = (found["shape"], found["data_offsets"]) if known else (None, None)
    if (
        not isinstance(dims, list)
        or not isinstance(offsets, list)
        or not isinstance(found["dtype"], str)
        or len(offsets) != 2
        or len(dims) > MAX_RANK
        or not all(type(size) is int and 0 <= size < 2**63 for size in (*dims, *offsets))
        or offsets[0] > offsets[1]
    ):
        what = "its entry in the header is not dtype, shape and two offsets"
        raise CorruptFileError(what, path=span.name, offset=8, where=f"tensor {name!r}", remedy=_REMEDY)
    return _Entry(found["dtype"], tuple(dims), offsets[0], offsets[1])


def _check_offsets(entries: Mapping[str, _Entry], size: int, span: Span) -> None:
    """The values follow each other and fill the file: no hole, no overlap, nothing behind."""
    at, where = 0, None
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start != at:
            what = f"its values begin at {entry.start}, but those before it end at {at}"
            raise CorruptFileError(what, path=span.name, offset=8, where=f"tensor {name!r}", remedy=_REMEDY)
        at, where = entry.stop, name
    if at != size:
        what = f"the values take {at} bytes, but the file has {size} behind its header"
        last = None if where is None else f"tensor {where!r}"
        raise CorruptFileError(what, path=span.name, offset=len(span) - size, where=last, remedy=_REMEDY)


def _other_dtypes(metadata: Mapping[str, str]) -> Mapping[str, str]:
    try:
        found = json.loads(metadata.get(DTYPES_KEY, "{}"))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _tensor(name: str, entry: _Entry, span: Span, start: int, kinds: Mapping[str, str]) -> Tensor:
    shape, label = Shape(entry.dims), f"tensor {name!r}"
    if entry.kind not in DTYPES:
        kind = DType(0, entry.kind.lower(), "DT_INVALID", 0)
        return _ForeignTensor(kind, shape, label)
    kind = _dtype(entry.kind, kinds.get(name))
    try:
        return SpanTensor(kind, shape, span.sub(start + entry.start, start + entry.stop, label), label=label)
    except InvalidModelError as error:
        raise CorruptFileError(error.what, path=span.name, offset=8, remedy=_REMEDY) from error


def _dtype(stored: str, told: object) -> DType:
    """The dtype by the format's name, or the one that the metadata names, if it is stored so."""
    plain = dtype_named(DTYPES[stored])
    if not isinstance(told, str) or told != f"q{plain.name}":
        return plain
    return dtype_named(told) if told in ("qint8", "quint8", "qint16", "quint16", "qint32") else plain


@record(eq=False)
class _ForeignTensor(OpaqueTensor):
    """A tensor of a type that TensorFlow does not have."""

    def _refusal(self) -> UnsupportedError:
        what = f"{self.label} is of type {self.dtype.name.upper()}, which TensorFlow does not have"
        return UnsupportedError(what, remedy="leave it out")


_STORED = {name: stored for stored, name in DTYPES.items()}
_RANKS = {stored: rank for rank, stored in enumerate(DTYPES)}


def write_safetensors(
    path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], *, max_shard_bytes: int | None = None
) -> tuple[Path, ...]:
    """Writes tensors. Streams; memory does not grow with them. Checksums of what is copied are checked on the way.

    Args:
        path: The file.
        tensors: The tensors by name.
        metadata: What else to say, as text by key.
        max_shard_bytes: Begin another file where one would have more bytes of values. With more than one file, they are
            called `NAME-00001-of-00002.safetensors`, and `NAME.safetensors.index.json` says which tensor is in which.

    Returns:
        The files, the index last.

    Raises:
        UnsupportedError: A dtype has no place in the format; nothing was written.
        OutputError: The disk refuses.
    """
    if not path.name.endswith(".safetensors"):
        raise OutputError("the name does not end in .safetensors", path=path, remedy="add it")
    for name, tensor in tensors.items():
        _stored_dtype(name, tensor)
        if name == METADATA:
            raise UsageError(
                f"no tensor can be called {METADATA!r} in this format", remedy="rename it, or leave it out"
            )
    groups = list(_shards(tensors, max_shard_bytes))
    names = [path.name] if len(groups) == 1 else [_shard_name(path, at, len(groups)) for at in range(len(groups))]
    headers = [_new_header({name: tensors[name] for name in group}, metadata) for group in groups]
    written: list[Path] = []
    for file, (order, header) in zip(names, headers, strict=True):
        written.append(path.with_name(file))
        with FileSink(written[-1]) as sink:
            sink.write(header)
            for name in order:
                _write(sink, name, tensors[name])
    if len(groups) > 1:
        written.append(path.with_name(f"{path.name}.index.json"))
        with FileSink(written[-1]) as sink:
            sink.write(_index(tensors, groups, names))
    return tuple(written)


def _stored_dtype(name: str, tensor: Tensor) -> str:
    """The format's name of the dtype; quantized integers are stored as plain ones."""
    plain = tensor.dtype.base.name
    stored = _STORED.get(plain.removeprefix("q"))
    if stored is not None:
        return stored
    what = f"safetensors has no type for {plain}"
    remedy = "leave it out ({excluded})" if plain in ("string", "variant", "resource") else "cast it, or write .npz"
    raise UnsupportedError(what, where=f"tensor {name!r}", remedy=remedy)


def _shards(tensors: Mapping[str, Tensor], most: int | None) -> Iterator[list[str]]:
    """The names, cut into runs of at most so many bytes; a tensor that is larger has a file of its own."""
    if most is not None and most < 1:
        raise UsageError(f"a file of at most {most} bytes holds nothing", remedy="pass a size such as 5GB")
    group: list[str] = []
    size = 0
    for name, tensor in tensors.items():
        if group and most is not None and size + tensor.nbytes > most:
            yield group
            group, size = [], 0
        group.append(name)
        size += tensor.nbytes
    yield group


def _shard_name(path: Path, number: int, count: int) -> str:
    return f"{path.name.removesuffix('.safetensors')}-{number + 1:05d}-of-{count:05d}.safetensors"


def _new_header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> tuple[list[str], bytes]:
    """The order of the values, and the bytes before them: the largest elements first, so that all are aligned."""
    stored = {name: _stored_dtype(name, tensor) for name, tensor in tensors.items()}
    order = sorted(tensors, key=lambda name: (-_RANKS[stored[name]], name))
    quantized = {name: tensor.dtype.name for name, tensor in tensors.items() if tensor.dtype.name.startswith("q")}
    told = {key: value for key, value in metadata.items() if key != DTYPES_KEY}
    if quantized:
        told[DTYPES_KEY] = json.dumps(quantized, sort_keys=True)
    header: dict[str, object] = {METADATA: told} if told else {}
    at = 0
    for name in order:
        tensor = tensors[name]
        stop = at + tensor.nbytes
        header[name] = {"dtype": stored[name], "shape": list(tensor.shape.dims or ()), "data_offsets": [at, stop]}
        at = stop
    try:
        data = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise UsageError("a tensor's name is no text", remedy="give it a name of real letters") from error
    data += b" " * (-len(data) % 8)
    if len(data) > MAX_WEIGHTS_HEADER:
        what = f"the header would have {len(data)} bytes, but the format allows {MAX_WEIGHTS_HEADER}"
        raise LimitError(what, remedy="write several files ({max_shard_size}), or fewer tensors")
    return order, len(data).to_bytes(8, "little") + data


def _write(sink: FileSink, name: str, tensor: Tensor) -> None:
    tensor.verify()
    start = sink.tell()
    tensor.write_to(sink)
    if sink.tell() - start != tensor.nbytes:
        what = f"gave {sink.tell() - start} bytes, but {tensor.dtype} {tensor.shape} takes {tensor.nbytes}"
        raise OutputError(what, where=f"tensor {name!r}", remedy="the file that it comes from is damaged")


def _index(tensors: Mapping[str, Tensor], groups: list[list[str]], names: list[str]) -> bytes:
    places = {name: file for group, file in zip(groups, names, strict=True) for name in group}
    total = sum(tensor.nbytes for tensor in tensors.values())
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}, indent=2)
    return text.encode() + b"\n"
