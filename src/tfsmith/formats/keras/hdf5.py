"""HDF5 files, looked at with suspicion: groups, attributes and numbers; nothing that leads out of the file.

h5py reads the structure. Values that lie in one piece become spans of the mapped file, which h5py never touches. What
HDF5 can do and Keras never does is refused: links by name or to other files, data in other files, virtual datasets,
references to objects, filters that are loaded as plugins, types that are no numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from math import prod
from struct import unpack_from
from typing import TYPE_CHECKING, Any, TypeVar

from tfsmith.errors import CorruptFileError, LimitError, TfsmithError, UnsupportedError
from tfsmith.ir.tensor import SpanTensor, Tensor, TensorBase
from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.limits import MAX_DEFLATE_RATIO, MAX_DEPTH, MAX_HDF5_CHUNK, MAX_HDF5_OBJECTS, MAX_RANK, MAX_SMALL_MESSAGE
from tfsmith.records import record
from tfsmith.storage import Span, SpanFile

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Hdf5", "MAGIC", "import_h5py", "open_hdf5"]

MAGIC = b"\x89HDF\r\n\x1a\n"
_Found = TypeVar("_Found")
_DAMAGED = "the file is cut off or damaged; fetch it again"
_DISTRUST = "do not trust the file"
_PIECE = 1 << 20
_FILTERS = frozenset({1, 2, 3, 32000})
"""deflate, shuffle, fletcher32 and h5py's own lzf. Others may be libraries that HDF5 would load."""
_MOST_TEXTS = 1_000_000
_HEAP, _HEAP_HEADER = b"GCOL\x01", 16
_BROKEN = (OSError, RuntimeError, ValueError, KeyError, TypeError, OverflowError, MemoryError, UnicodeError)
"""What h5py raises for damaged files."""


def import_h5py() -> Any:
    """h5py.

    Raises:
        UnsupportedError: It is not installed.
    """
    try:
        import h5py
    except ImportError as error:
        what = "Keras' files (.h5, .keras) need the package h5py, which is not installed"
        raise UnsupportedError(what, remedy="pip install 'tfsmith[keras]'") from error
    return h5py


@record(eq=False)
class Hdf5:
    """What a file holds. All paths are without a slash in front; the root is "".

    Attributes:
        groups: The texts that Keras attaches to each group, by its path: one, or several.
        tensors: The datasets, by path.
    """

    groups: Mapping[str, Mapping[str, str | tuple[str, ...]]]
    tensors: Mapping[str, Tensor]

    def text(self, path: str, name: str) -> str:
        """An attribute that is one text; "" if it is not there."""
        found = self.groups.get(path, {}).get(name, "")
        return found if isinstance(found, str) else " ".join(found[:1])

    def texts(self, path: str, name: str) -> tuple[str, ...] | None:
        """An attribute that is several texts, put together where Keras cut it (`name0`, `name1`); None if not there."""
        attributes = self.groups.get(path, {})
        if name in attributes:
            found = attributes[name]
            return (found,) if isinstance(found, str) else found
        pieces: list[str] = []
        number = 0
        while f"{name}{number}" in attributes:
            found = attributes[f"{name}{number}"]
            pieces += (found,) if isinstance(found, str) else found
            number += 1
        return tuple(pieces) if number else None


_WANTED = re.compile(
    r"(layer_names|weight_names)\d*|backend|keras_version|model_config|training_config|nb_layers|nb_params|name|dtype"
    r"|tfsmith_version|tfsmith_metadata"
)


def open_hdf5(span: Span) -> Hdf5:
    """Opens a file. Reads its structure; values stay where they are.

    Args:
        span: The bytes of the file, or of a part of another file.

    Raises:
        UnsupportedError: h5py is not installed, or the file uses what Keras never does.
        CorruptFileError: It is damaged.
        LimitError: It asks for more than any real one.
    """
    h5py = import_h5py()
    walk = _Walk(h5py, span)
    return walk.guarded("", walk.whole)


class _Walk:
    """Looks at every object of one file, once."""

    def __init__(self, h5py: Any, span: Span) -> None:
        self._h5py = h5py
        self._span = span
        self._groups: dict[str, Mapping[str, str | tuple[str, ...]]] = {}
        self._tensors: dict[str, Tensor] = {}
        self._seen: set[int] = set()
        self._count = 0
        self._file = _Watched(span)

    def guarded(self, path: str, work: Callable[[], _Found]) -> _Found:
        """What the work gives; what h5py raises becomes an error of ours."""
        try:
            return work()
        except TfsmithError:
            raise
        except _BROKEN as error:
            words = " ".join(str(error).split())[:120]
            raise self._problem(f"HDF5 cannot read it ({words})", path) from error

    def _problem(
        self, what: str, path: str, kind: type[TfsmithError] = CorruptFileError, remedy: str = _DAMAGED
    ) -> TfsmithError:
        shown = path if len(path) < 80 else f"{path[:77]}..."
        return kind(what, path=self._span.name, where=f"{shown!r}" if path else None, remedy=remedy)

    def whole(self) -> Hdf5:
        """Everything."""
        file = self._h5py.File(self._file, "r")
        self._group(file["/"], "", 0)
        self._file.rest()
        return Hdf5(self._groups, self._tensors)

    def _group(self, group: Any, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise self._problem(f"groups are nested more than {MAX_DEPTH} deep", path, LimitError, _DISTRUST)
        address = self._h5py.h5o.get_info(group.id).addr
        if address in self._seen:
            raise self._problem("a group is there twice, so its groups may have no end", path, remedy=_DISTRUST)
        self._seen.add(address)
        self._groups[path] = self._attributes(group, path)
        hard = self._h5py.h5l.TYPE_HARD
        for name in group.id:
            self._count += 1
            if self._count > MAX_HDF5_OBJECTS:
                what = f"it has more than {MAX_HDF5_OBJECTS} objects"
                raise self._problem(what, path, LimitError, _DISTRUST)
            text = name.decode("utf-8", "surrogateescape")
            inner = f"{path}/{text}" if path else text
            if group.id.links.get_info(name).type != hard:
                what = "this is a link by name or to another file, which Keras never writes and tfsmith never follows"
                raise self._problem(what, inner, UnsupportedError, _DISTRUST)
            self.guarded(inner, partial(self._object, group, name, inner, depth))

    def _object(self, group: Any, name: bytes, path: str, depth: int) -> None:
        h5py = self._h5py
        found = h5py.h5o.open(group.id, name)
        if isinstance(found, h5py.h5g.GroupID):
            self._group(h5py.Group(found), path, depth + 1)
        elif isinstance(found, h5py.h5d.DatasetID):
            self._tensors[path] = self._dataset(h5py.Dataset(found), path)
        else:
            raise self._problem("this is neither a group nor data", path, UnsupportedError, _DISTRUST)

    def _attributes(self, found: Any, path: str) -> dict[str, str | tuple[str, ...]]:
        h5a = self._h5py.h5a
        texts: dict[str, str | tuple[str, ...]] = {}
        count = h5a.get_num_attrs(found.id)
        if count > MAX_HDF5_OBJECTS:
            raise self._problem(f"it has {count} attributes", path, LimitError, _DISTRUST)
        for number in range(count):
            attribute = h5a.open(found.id, index=number)
            name = attribute.name.decode("utf-8", "replace")
            kind = attribute.get_type().get_class()
            if kind == self._h5py.h5t.REFERENCE:
                what = f"its attribute {name[:40]!r} is a reference to an object, which Keras never writes"
                raise self._problem(what, path, UnsupportedError, _DISTRUST)
            if _WANTED.fullmatch(name):
                value = self._text(found, attribute, name, path)
                if value is not None:
                    texts[name] = value
        return texts

    def _text(self, found: Any, attribute: Any, name: str, path: str) -> str | tuple[str, ...] | None:
        """An attribute's text or texts, or a number as text; None for what is neither."""
        h5t = self._h5py.h5t
        kind, dims = attribute.get_type(), attribute.shape
        count = prod(dims) if dims else 1
        if count == 0:
            return ()
        size = attribute.get_storage_size()
        if count > _MOST_TEXTS or size > MAX_SMALL_MESSAGE:
            what = f"its attribute {name!r} claims {count} values in {size} bytes"
            raise self._problem(what, path, LimitError, _DISTRUST)
        if kind.get_class() == h5t.STRING:
            value = self._variable_texts(found, count, name, path) if kind.is_variable_str() else found.attrs[name]
        elif kind.get_class() in (h5t.INTEGER, h5t.FLOAT) and count == 1:
            return str(found.attrs[name])
        else:
            return None
        if isinstance(value, (str, bytes)):
            return _decoded(value)
        return tuple(_decoded(one) for one in value.reshape(-1).tolist())

    def _variable_texts(self, found: Any, count: int, name: str, path: str) -> Any:
        """Texts of any length. They lie in heaps, where many of them may share one place: a bomb of a few bytes."""
        if self._file.longest > len(self._span):
            what = f"a text claims {self._file.longest} bytes, more than the file has"
            raise self._problem(what, path)
        is_small = count * len(self._span) <= MAX_SMALL_MESSAGE
        most = len(self._span) if is_small else 4 * MAX_SMALL_MESSAGE // count
        try:
            with self._file.heaps_below(most):
                return found.attrs[name]
        except _HeapError:
            pass  # perhaps of a heap that other texts lie in, such as the model's config: look at this one alone
        file = _Watched(self._span)
        try:
            with file.heaps_below(most):
                return self._h5py.File(file, "r")[f"/{path}"].attrs[name]
        except _HeapError as error:
            what = f"its attribute {name!r} may hold {count} texts of {file.largest} bytes each"
            raise self._problem(what, path, LimitError, _DISTRUST) from error

    def _dataset(self, dataset: Any, path: str) -> Tensor:
        h5py, stored = self._h5py, dataset.id
        plist = stored.get_create_plist()
        layout = plist.get_layout()
        if layout == h5py.h5d.VIRTUAL or (layout == h5py.h5d.CONTIGUOUS and plist.get_external_count()):
            what = "its values lie in other files, which Keras never writes and tfsmith never opens"
            raise self._problem(what, path, UnsupportedError, _DISTRUST)
        if stored.get_space().get_simple_extent_type() == h5py.h5s.NULL:
            raise self._problem("it has no values at all", path, UnsupportedError, _DISTRUST)
        dims = tuple(stored.shape)
        dtype = self._dtype(dataset, path)
        if len(dims) > MAX_RANK or prod(dims) >= 2**63:
            raise self._problem(f"the shape {str(dims)[:60]} cannot be", path)
        shape, label = Shape(dims), f"tensor {path!r}"
        size = prod(dims) * dtype.itemsize
        held = stored.get_storage_size()
        if layout == h5py.h5d.CHUNKED:
            self._check_chunks(plist, dtype, size, held, path)
        elif held != size:
            raise self._problem(f"its shape takes {size} bytes, but {held} are stored", path)
        offset = stored.get_offset() if layout == h5py.h5d.CONTIGUOUS else None
        plain = stored.get_type() == h5py.h5t.py_create(stored.dtype) and stored.dtype.byteorder != ">"
        if size and offset is not None and plain:
            return SpanTensor(dtype, shape, self._span.sub(offset, offset + size, label), label=label)
        if layout == h5py.h5d.CONTIGUOUS and size and offset is None:
            raise self._problem("its values were never written", path)
        return Hdf5Tensor(dtype, shape, dataset, self._span.name, path)

    def _check_chunks(self, plist: Any, dtype: DType, size: int, held: int, path: str) -> None:
        for number in range(plist.get_nfilters()):
            code = plist.get_filter(number)[0]
            if code not in _FILTERS:
                what = f"it is packed by the filter {code}, for which HDF5 would load a library"
                raise self._problem(what, path, UnsupportedError, "save it again without compression")
        ratio = MAX_DEFLATE_RATIO if plist.get_nfilters() else 1
        chunk = prod(plist.get_chunk()) * dtype.itemsize
        if chunk > MAX_HDF5_CHUNK or size > held * ratio + 64:
            what = f"{held} bytes are stored for a shape of {size}, in pieces of {chunk}"
            raise self._problem(what, path, LimitError, _DISTRUST)

    def _dtype(self, dataset: Any, path: str) -> DType:
        h5t = self._h5py.h5t
        kind = dataset.id.get_type()
        family = kind.get_class()
        if family == h5t.OPAQUE and kind.get_size() == 2:
            return dtype_named("bfloat16")  # numpy has no name for it, so h5py stores two bytes without a type
        if family == h5t.REFERENCE:
            what = "it holds references to objects, which Keras never writes"
            raise self._problem(what, path, UnsupportedError, _DISTRUST)
        known = (h5t.INTEGER, h5t.FLOAT, h5t.ENUM, h5t.COMPOUND)
        plain = dataset.id.dtype if family in known else None
        is_enum = family == h5t.ENUM and plain is not None and plain.kind != "b"
        if plain is None or plain.kind not in "biufc" or is_enum:
            what = "its values are no numbers (text, objects or bytes), so it is no weight"
            remedy = "pickled or other objects are never read; save plain numbers"
            raise self._problem(what, path, UnsupportedError, remedy)
        try:
            return dtype_named(plain.name)
        except UnsupportedError as error:
            raise self._problem(error.what, path, UnsupportedError, "save it as another type") from error


def _decoded(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


class _HeapError(Exception):
    """A heap is larger than it may be."""


class _Watched(SpanFile):
    """A file whose heaps are seen as HDF5 reads them.

    A heap begins with GCOL, a version and its size. HDF5 copies texts out of it only after it has read all of it.

    HDF5 asks for memory by the length that an attribute gives for its text, before it looks at the heap. So attributes
    are looked at as they are read, too.

    Attributes:
        largest: The size of the largest heap of which every byte was read so far; no text is longer.
        longest: The largest length of a text that an attribute claimed so far.
    """

    def __init__(self, span: Span) -> None:
        super().__init__(span)
        self._all = span
        self._is_watched = True
        self._most = len(span)
        self._read: list[tuple[int, int]] = []
        self._heaps: dict[int, int] = {}
        self.largest = 0
        self.longest = 0

    @contextmanager
    def heaps_below(self, most: int) -> Iterator[None]:
        """While this lasts, HDF5 cannot read a larger heap, and so does not copy out of one.

        Raises:
            _HeapError: It tried to, or has read one before.
        """
        if self.largest > most:
            raise _HeapError
        self._most = most
        try:
            yield
        except _BROKEN as error:
            if self.largest > most:
                raise _HeapError from error
            raise
        finally:
            self._most = len(self._all)

    def rest(self) -> None:
        """Ends the watch: what is read from now on are values."""
        self._is_watched = False

    def readinto(self, buffer: Any) -> int:
        """Reads some bytes.

        Raises:
            OSError: They are the last ones of a heap that is too large.
        """
        if not self._is_watched:
            return super().readinto(buffer)
        start, whole = self.tell(), len(self._all)
        count = max(0, min(len(buffer), whole - start))
        data = self._all.sub(start, min(start + count + _HEAP_HEADER, whole)).tobytes() if count else b""
        buffer[:count] = data[:count]
        self.seek(start + count)
        at = data.find(_HEAP)
        while 0 <= at < count:
            size = int.from_bytes(data[at + 8 : at + _HEAP_HEADER], "little")
            self._heaps[start + at] = min(size, whole - start - at)
            at = data.find(_HEAP, at + 1)
        known = self._cover(start, start + count)
        before = max(known, start - _ATTRIBUTE)  # one may begin in what was read before
        self.longest = max(self.longest, _longest_text(self._all.sub(before, start + count).tobytes()))
        if self.largest > self._most:
            raise OSError("a heap is too large")
        return count

    def _cover(self, start: int, stop: int) -> int:
        """Notes what was read, and which heaps are whole by that; returns where the piece that it belongs to begins."""
        first = bisect_left(self._read, start, key=lambda one: one[1])
        last = bisect_right(self._read, stop, key=lambda one: one[0])
        for one in self._read[first:last]:
            start, stop = min(start, one[0]), max(stop, one[1])
        self._read[first:last] = [(start, stop)]
        for place in [one for one, size in self._heaps.items() if start <= one and one + size <= stop]:
            self.largest = max(self.largest, self._heaps.pop(place))
        return start


_ATTRIBUTE = 1024
"""No attribute that Keras writes has a longer header."""
_NAMES = re.compile(f"(?:{_WANTED.pattern})\0".encode())
_VARIABLE_LENGTH = 9


def _longest_text(data: bytes) -> int:
    """The largest length that attributes in some bytes give for texts in heaps; 0 if there are none.

    An attribute is a message of a version, flags, the sizes of its name, type and space; these; and its values. In the
    first version each of them fills up eight bytes; the third has a byte more in front of the name.
    """
    longest = 0
    for found in _NAMES.finditer(data):
        for version, header in ((1, 8), (2, 8), (3, 9)):
            at = found.start() - header
            if at < 0 or data[at] != version:
                continue
            name, kind, space = unpack_from("<HHH", data, at + 2)
            if name != found.end() - found.start():
                continue
            step = 8 if version == 1 else 1
            type_at = at + header + -(-name // step) * step
            space_at = type_at + -(-kind // step) * step
            values = space_at + -(-space // step) * step
            if values <= len(data) and kind >= 8 and data[type_at] & 15 == _VARIABLE_LENGTH:
                size = max(4, *unpack_from("<I", data, type_at + 4))  # of a reference, which begins with the length
                stop = min(len(data) - 3, values + size * _elements(data[space_at:values]))
                lengths = (unpack_from("<I", data, one)[0] for one in range(values, stop, size))
                longest = max(longest, max(lengths, default=0))
    return longest


def _elements(space: bytes) -> int:
    """How many elements a space has: its version, its rank, and in the first version after eight bytes, its sizes."""
    if len(space) < 2:
        return 0
    sizes_at = 8 if space[0] == 1 else 4
    sizes = space[sizes_at : sizes_at + 8 * space[1]]
    return prod(int.from_bytes(sizes[at : at + 8], "little") for at in range(0, len(sizes), 8))


@record(eq=False)
class Hdf5Tensor(TensorBase):
    """Values that h5py reads: compressed, in pieces, or in another order of bytes."""

    dtype: DType
    shape: Shape
    dataset: Any
    file: str
    label: str

    def numpy(self) -> NDArray[Any]:
        """The values, in memory."""
        import numpy

        flat = numpy.frombuffer(bytearray().join(self.parts()), self.dtype.numpy())  # type: ignore[arg-type]
        flat.flags.writeable = False
        return flat.reshape(self.shape.dims or ())

    def parts(self) -> Iterator[bytes | Span]:
        """The values in pieces: whole rows of the first axis, about a megabyte at a time."""
        dims = self.shape.dims or ()
        if not dims:
            yield self._bytes(())
            return
        step = max(1, _PIECE * dims[0] // max(1, self.nbytes)) if dims[0] else 1
        if self.dataset.chunks is not None:
            step = -(-step // self.dataset.chunks[0]) * self.dataset.chunks[0]
        for start in range(0, dims[0], step):
            yield self._bytes((slice(start, min(start + step, dims[0])),))

    def _bytes(self, where: tuple[slice, ...]) -> bytes:
        import numpy

        try:
            found = numpy.asarray(self.dataset[where])
        except _BROKEN as error:
            words = " ".join(str(error).split())[:120]
            what = f"its values cannot be read ({words})"
            raise CorruptFileError(what, path=self.file, where=f"{self.label!r}", remedy=_DAMAGED) from error
        if found.dtype.byteorder == ">":
            found = found.astype(found.dtype.newbyteorder("<"))
        return found.tobytes()
