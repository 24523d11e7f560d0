"""Numpy archives (`.npz`): a zip of `.npy` files, read lazily and written as a stream.

Numpy has no name for bfloat16, float8, quantized and 4-bit types. As numpy itself does with the arrays of `ml_dtypes`,
their values are stored as raw elements (`|V2`, `|V1`): `array.view(ml_dtypes.bfloat16)` returns them. The comment of
the member in the zip says which type it is (`dtype=bfloat16`), so that we read back what we wrote; numpy does not look
at it. The archive's comment holds the metadata as JSON. Nothing is ever unpickled.
"""

from __future__ import annotations

import ast
import io
import json
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.errors import (
    ChecksumError,
    CorruptFileError,
    LimitError,
    OutputError,
    TfsmithError,
    UnsupportedError,
    UsageError,
)
from tfsmith.ir.tensor import SpanTensor, Tensor, TensorBase, Weights
from tfsmith.ir.tensor_views import TransposedTensor
from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.limits import MAX_DEFLATE_RATIO, MAX_RANK
from tfsmith.records import record
from tfsmith.storage import FileSink, Span, SpanFile

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

__all__ = ["BAD_ARCHIVE", "open_npz", "stored_member", "write_arrays", "write_npz"]

_REMEDY = "the file is cut off or damaged; fetch it again"
_LOCAL_HEADER = 30
_MOST_HEADER = 10_000
_CHUNK = 1 << 18
_COMMENT = b"dtype="
BAD_ARCHIVE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError, OSError)
"""What zipfile raises for bad archives; a RuntimeError for a compression that it does not know, and for a password."""


def stored_member(span: Span, info: zipfile.ZipInfo) -> Span | None:
    """The bytes of a member that is stored as it is; None if the archive's directory does not fit it.

    Args:
        span: The archive.
        info: What its directory says of the member.
    """
    at = info.header_offset
    header = span.sub(at, at + _LOCAL_HEADER, "the header of a member").tobytes()
    if header[:4] != b"PK\x03\x04" or info.compress_size != info.file_size:
        return None
    start = at + _LOCAL_HEADER + int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return span.sub(start, start + info.file_size, "a member")


def open_npz(span: Span, path: Path | None = None) -> Weights:
    """Opens an archive. Reads its directory and the header of each array.

    Raises:
        CorruptFileError: It is damaged.
        UnsupportedError: An array is of a type that is no tensor's, such as a pickled object.
    """
    try:
        archive = zipfile.ZipFile(SpanFile(span))
    except BAD_ARCHIVE as error:
        raise CorruptFileError(f"no sound zip archive ({error})", path=span.name, remedy=_REMEDY) from error
    tensors: dict[str, Tensor] = {}
    for info in archive.infolist():
        if not info.filename.endswith(".npy"):
            continue
        name = info.filename.removesuffix(".npy")
        if name in tensors:
            raise CorruptFileError("it is there twice", path=span.name, where=f"array {name!r}", remedy=_REMEDY)
        tensors[name] = _tensor(_Member(archive, info, span, name))
    files = () if path is None else (path,)
    return Weights(tensors, _metadata(archive.comment), files, path)


def write_npz(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Writes tensors, uncompressed. Streams; memory does not grow with them.

    Raises:
        UnsupportedError: A tensor holds strings or the like; nothing was written.
        OutputError: The disk refuses.
    """
    comment = json.dumps(dict(metadata), separators=(",", ":")).encode() if metadata else b""
    if len(comment) >= 1 << 16:
        what = f"{len(comment)} bytes of metadata do not fit into the archive"
        raise LimitError(what, remedy="write safetensors instead")
    _write_archive(path, [_new_array(name, tensor) for name, tensor in tensors.items()], comment)


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Writes numpy's own arrays, uncompressed; memory does not grow with them.

    Strings are stored as numpy's bytes of a fixed length, for Python objects would have to be pickled.

    Raises:
        OutputError: The disk refuses.
    """
    _write_archive(path, [_plain_array(name, values) for name, values in arrays.items()], b"")


@record(eq=False)
class _NewArray:
    """An array that is to be written: its name, its header, its values as pieces and how many bytes these have."""

    name: str
    header: bytes
    size: int
    pieces: Callable[[], Iterator[bytes]]
    comment: bytes = b""


def _write_archive(path: Path, arrays: Iterable[_NewArray], comment: bytes) -> None:
    with FileSink(path) as sink, zipfile.ZipFile(_Stream(sink), "w") as archive:  # type: ignore[call-overload]
        archive.comment = comment
        for array in arrays:
            info = zipfile.ZipInfo(f"{array.name}.npy")
            info.comment = array.comment
            with archive.open(info, "w", force_zip64=array.size > 1 << 30) as member:
                member.write(array.header)
                size = sum(member.write(piece) for piece in array.pieces())
            if size != array.size:
                what = f"gave {size} bytes, but its type and shape take {array.size}"
                remedy = "the file that it comes from is damaged"
                raise OutputError(what, where=f"tensor {array.name!r}", remedy=remedy)


def _plain_array(name: str, values: NDArray[Any]) -> _NewArray:
    import numpy
    from numpy.lib import format as npy

    if values.dtype.kind == "O":
        items = values.reshape(-1).tolist()
        values = numpy.array(items or [b""], "S")[: len(items)].reshape(values.shape)
    has_name = values.dtype.kind != "V" and values.dtype.isbuiltin != 2  # bfloat16 and its like have none
    descr = npy.dtype_to_descr(values.dtype) if has_name else f"|V{values.dtype.itemsize}"

    def pieces() -> Iterator[bytes]:
        flat = numpy.ascontiguousarray(values).reshape(-1)
        step = max(1, _CHUNK // max(1, flat.dtype.itemsize))
        for start in range(0, flat.size, step):
            yield flat[start : start + step].tobytes()

    return _NewArray(name, _npy_header(descr, values.shape), values.nbytes, pieces)


def _new_array(name: str, tensor: Tensor) -> _NewArray:
    from numpy.lib import format as npy

    def pieces() -> Iterator[bytes]:
        tensor.verify()
        for part in tensor.parts():
            yield from part.chunks() if isinstance(part, Span) else (part,)

    kind = tensor.dtype.base
    if not kind.itemsize:
        what = f"an array of {kind} would have to be pickled"
        raise UnsupportedError(what, where=f"tensor {name!r}", remedy="leave it out ({excluded})")
    if "\x00" in name or not name.isprintable() or len(name.encode()) > 60_000:
        raise UsageError(f"{name[:100]!r} cannot be a name in a zip archive", remedy="rename it, or write safetensors")
    raw = _is_raw(kind) and not kind.name.startswith("q")
    descr = f"|V{kind.itemsize}" if raw else npy.dtype_to_descr(kind.numpy())
    comment = _COMMENT + kind.name.encode() if _is_raw(kind) else b""
    return _NewArray(name, _npy_header(descr, tensor.shape.dims or ()), tensor.nbytes, pieces, comment)


def _npy_header(descr: Any, dims: tuple[int, ...]) -> bytes:
    from numpy.lib import format as npy

    buffer = io.BytesIO()
    npy.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": dims})
    return buffer.getvalue()


def _is_raw(kind: DType) -> bool:
    """Whether numpy has no name for the type."""
    return kind.base.numpy().name != kind.base.name or kind.base.numpy().kind == "V" or kind.base.number >= 24


class _Stream:
    """A sink as the zip writer wants it: it can be written to, and nothing else."""

    def __init__(self, sink: FileSink) -> None:
        self._sink = sink

    def write(self, data: Any) -> int:
        """Takes some bytes."""
        self._sink.write(bytes(data))
        return len(data)

    def flush(self) -> None:
        """There is nothing to do."""


@record(eq=False)
class _Member:
    """A file of the archive."""

    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    span: Span
    name: str

    def problem(self, what: str, kind: type[TfsmithError] = CorruptFileError, remedy: str = _REMEDY) -> TfsmithError:
        """What to raise about it."""
        return kind(what, path=self.span.name, where=f"array {self.name!r}", remedy=remedy)

    @property
    def is_stored(self) -> bool:
        """Whether its bytes are in the archive as they are."""
        return self.info.compress_type == zipfile.ZIP_STORED

    def check(self) -> None:
        """Refuses what cannot be read."""
        if self.info.flag_bits & 1:
            raise self.problem("it is encrypted", UnsupportedError, "decrypt it first")
        if self.info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            what = f"compression method {self.info.compress_type} is not one of numpy's"
            raise self.problem(what, UnsupportedError, "save it with numpy.savez")
        if self.info.file_size > self.info.compress_size * (1 if self.is_stored else MAX_DEFLATE_RATIO) + 64:
            raise self.problem(f"{self.info.compress_size} bytes cannot hold {self.info.file_size}")

    def stored(self) -> Span:
        """Its bytes, where they are stored as they are."""
        found = stored_member(self.span, self.info)
        if found is None:
            raise self.problem("the archive's directory does not fit it")
        return found

    def chunks(self) -> Iterator[bytes]:
        """Its bytes, decompressed, in pieces."""
        if self.is_stored:
            yield from self.stored().chunks()
            return
        try:
            with self.archive.open(self.info) as file:
                while data := file.read(_CHUNK):
                    yield data
        except BAD_ARCHIVE as error:
            raise self.problem(f"it cannot be decompressed ({error})") from error


def _tensor(member: _Member) -> Tensor:
    """The array as a tensor; only its header is read."""
    member.check()
    kind, dims, fortran, start = _read_header(member)
    if len(dims) > MAX_RANK or not all(type(size) is int and 0 <= size < 2**63 for size in dims):
        raise member.problem(f"the shape {dims} cannot be")
    dtype = _dtype(member, kind)
    swapped = kind.byteorder == ">"
    shape = Shape(tuple(reversed(dims)) if fortran else tuple(dims))
    tensor = NpzTensor(dtype, shape, member, start, swapped)
    if tensor.nbytes != member.info.file_size - start:
        raise member.problem(f"it has {member.info.file_size - start} bytes, but its header says {tensor.nbytes}")
    return TransposedTensor(tensor, tuple(reversed(range(len(dims))))) if fortran and len(dims) > 1 else tensor


def _read_header(member: _Member) -> tuple[numpy.dtype[Any], tuple[int, ...], bool, int]:
    """The dtype, the shape, whether it is in Fortran's order, and how long the header is."""
    import numpy

    head = next(member.chunks(), b"")
    width = {1: 2, 2: 4, 3: 4}.get(head[6] if len(head) > 6 else 0, 0)
    size = int.from_bytes(head[8 : 8 + width], "little")
    start = 8 + width + size
    try:
        if head[:6] != b"\x93NUMPY" or not width or not size <= _MOST_HEADER or start > len(head):
            raise ValueError("no magic number, or a wrong length")
        found = ast.literal_eval(head[8 + width : start].decode("utf-8"))
        if not isinstance(found, dict) or found.keys() != {"descr", "fortran_order", "shape"}:
            raise ValueError("other keys than descr, fortran_order and shape")
        kind = numpy.dtype(found["descr"])
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise member.problem(f"its header is damaged ({str(error)[:200]})") from error
    dims, fortran = found["shape"], found["fortran_order"]
    if not isinstance(dims, tuple) or type(fortran) is not bool:
        raise member.problem("its header is damaged (shape or order)")
    return kind, dims, fortran, start


def _dtype(member: _Member, kind: numpy.dtype[Any]) -> DType:
    comment = member.info.comment
    if comment.startswith(_COMMENT) and kind.itemsize:
        told = dtype_named(comment[len(_COMMENT) :].decode("utf-8", "replace"))
        if told.itemsize != kind.itemsize:
            raise member.problem(f"its comment says {told}, but its elements have {kind.itemsize} bytes")
        return told
    if kind.kind == "V" and kind.names is None and kind.itemsize == 2:
        return dtype_named("bfloat16")  # the only type of two bytes that numpy stores so
    if kind.kind in "OUSVmM":
        what = f"an array of {kind} is no tensor"
        remedy = "Python objects are never read; save plain numbers" if kind.kind == "O" else "save plain numbers"
        raise member.problem(what, UnsupportedError, remedy)
    try:
        return dtype_named(kind.name)
    except UnsupportedError as error:
        raise member.problem(error.what, UnsupportedError, "save it as another type") from error


@record(eq=False)
class NpzTensor(TensorBase):
    """An array of an archive. Its values are read, and decompressed if they must be, when they are needed."""

    dtype: DType
    shape: Shape
    member: _Member
    start: int
    """The length of the header before the values."""
    swapped: bool = False

    def verify(self) -> bool:
        """Reads the member and compares its checksum, which covers the header too; there always is one.

        Raises:
            ChecksumError: It is not what was written.
        """
        crc = 0
        for chunk in self.member.chunks():
            crc = zlib.crc32(chunk, crc)
        if crc != self.member.info.CRC:
            raise self.member.problem("its bytes do not fit their checksum", ChecksumError)
        return True

    def numpy(self) -> NDArray[Any]:
        """The values: a view of the mapped file where that is possible, else a copy."""
        import numpy

        if self.member.is_stored and not self.swapped:
            self.verify()
            return SpanTensor(self.dtype, self.shape, self._span()).numpy()
        array = numpy.frombuffer(bytearray().join(self._pieces()), self.dtype.numpy())
        array.flags.writeable = False
        return array.reshape(self.shape.dims or ())

    def parts(self) -> Iterator[bytes | Span]:
        """The span where it is stored as it is, else pieces of it, decompressed."""
        if self.member.is_stored and not self.swapped:
            yield self._span()
            return
        yield from self._pieces()

    def _span(self) -> Span:
        whole = self.member.stored()
        return whole.sub(self.start, len(whole))

    def _pieces(self) -> Iterator[bytes]:
        """The values, little-endian, in pieces of whole elements."""
        skip, rest, size = self.start, b"", 0
        for chunk in self.member.chunks():
            data = rest + chunk[skip:]
            skip = max(0, skip - len(chunk))
            count = len(data) - len(data) % self.dtype.itemsize
            rest, size = data[count:], size + count
            yield self._swapped(data[:count]) if self.swapped else data[:count]
        if size != self.nbytes or rest:
            raise self.member.problem(f"it has {size} bytes, but its header says {self.nbytes}")

    def _swapped(self, data: bytes) -> bytes:
        import numpy

        size = self.dtype.itemsize // (2 if self.dtype.name.startswith("complex") else 1)
        return numpy.frombuffer(data, f">u{size}").astype(f"<u{size}").tobytes()


def _metadata(comment: bytes) -> Mapping[str, str]:
    try:
        found = json.loads(comment) if comment else {}
    except (ValueError, RecursionError):
        return {}
    known = isinstance(found, dict) and all(isinstance(value, str) for value in found.values())
    return found if known else {}
