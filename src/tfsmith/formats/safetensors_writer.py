"""Writes safetensors files, whole or in several with an index, as the hub's libraries expect them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tfsmith.errors import LimitError, OutputError, UnsupportedError, UsageError
from tfsmith.formats.safetensors import DTYPES, DTYPES_KEY, METADATA
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.tensor_ops import verify_tensor
from tfsmith.limits import MAX_WEIGHTS_HEADER
from tfsmith.storage.output import AtomicFiles
from tfsmith.storage.sink import FileSink

__all__ = ["write_safetensors"]

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
        OutputError: The disk refuses; nothing is left half-written.
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
    headers = [_header({name: tensors[name] for name in group}, metadata) for group in groups]
    written: list[Path] = []
    with AtomicFiles() as files:
        for file, (order, header) in zip(names, headers, strict=True):
            written.append(path.with_name(file))
            sink = files.open(written[-1])
            sink.write(header)
            for name in order:
                _write(sink, name, tensors[name])
        if len(groups) > 1:
            written.append(path.with_name(f"{path.name}.index.json"))
            files.open(written[-1]).write(_index(tensors, groups, names))
    return tuple(written)


def _stored_dtype(name: str, tensor: Tensor) -> str:
    """The format's name of the dtype; quantized integers are stored as plain ones."""
    plain = tensor.dtype.base.name
    stored = _STORED.get(plain.removeprefix("q"))
    if stored is not None:
        return stored
    what = f"safetensors has no type for {plain}"
    remedy = "leave it out (--except NAME)" if plain in ("string", "variant", "resource") else "cast it, or write .npz"
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


def _header(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> tuple[list[str], bytes]:
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
        raise LimitError(what, remedy="write several files (--max-shard-size), or fewer tensors")
    return order, len(data).to_bytes(8, "little") + data


def _write(sink: FileSink, name: str, tensor: Tensor) -> None:
    verify_tensor(tensor)
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
