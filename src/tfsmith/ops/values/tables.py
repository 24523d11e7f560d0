"""Values of ops on lookup tables: hash tables, what fills them (constants, text files), and looking things up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType, Shape
from tfsmith.ops.values import OpError, State, value

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Table"]

_WHOLE_LINE = -2
_LINE_NUMBER = -1


class Table:
    """A lookup table.

    Attributes:
        keys: The type of its keys.
        values: The type of its values.
        shape: The shape of a value.
        key_shape: The shape of a key.
        is_ready: Whether it may be read; one that is not mutable must be filled before.
        is_mutable: Whether keys may be inserted.
        never: Keys that it cannot hold.
    """

    def __init__(
        self,
        keys: DType,
        values: DType,
        shape: Shape | None = None,
        *,
        key_shape: tuple[int, ...] = (),
        is_mutable: bool = True,
    ) -> None:
        self.keys = keys
        self.values = values
        self.shape = () if shape is None or shape.dims is None else tuple(shape.dims)
        self.key_shape = key_shape
        self.is_mutable = is_mutable
        self.is_ready = is_mutable
        self.never: list[Any] = []
        self._found: dict[Any, Any] = {}

    def __len__(self) -> int:
        self._require()
        return len(self._found)

    def fill(self, keys: Iterable[Any], values: Iterable[Any]) -> None:
        """Fills a table that is not mutable, once.

        Raises:
            OpError: A key has two values.
        """
        if self.is_ready:
            return
        for key, found in zip(keys, values, strict=True):
            if self._found.setdefault(key, found) != found:
                raise OpError(f"key {_shown(key)} of the table has two values: {self._found[key]!r} and {found!r}")
        self.is_ready = True

    def insert(self, keys: NDArray[Any], values: NDArray[Any], *, clear: bool = False) -> None:
        """Inserts keys, or replaces their values."""
        if not self.is_mutable:
            raise OpError("keys cannot be inserted into a table that is not mutable")
        listed = self.listed(keys)
        rows = self._rows(values, len(listed))
        if clear:
            self._found.clear()
        for key, row in zip(listed, rows, strict=True):
            if key in self.never:
                raise OpError(f"key {_shown(key)} stands for an empty place, and cannot be inserted")
            self._found[key] = row

    def remove(self, keys: NDArray[Any]) -> None:
        """Removes keys, where they are there."""
        for key in self.listed(keys):
            self._found.pop(key, None)

    def find(self, keys: NDArray[Any], default: NDArray[Any]) -> NDArray[Any]:
        """The values of keys, or what stands for those that are not there."""
        self._require()
        listed = self.listed(keys)
        batch = keys.shape[: keys.ndim - len(self.key_shape)]
        if default.dtype != self.values.numpy():
            raise OpError(f"the default value has type {default.dtype}, and the table's values have {self.values}")
        if default.shape not in (self.shape, (*batch, *self.shape)):
            raise OpError(f"the default value has shape {list(default.shape)}, and a value has {list(self.shape)}")
        made = numpy.empty((len(listed), *self.shape), self.values.numpy())
        found = [self._found.get(key, _MISSING) for key in listed]
        if default.shape == self.shape:
            other = default if self.shape else default[()]
            made[...] = _listed_values([other if one is _MISSING else one for one in found], made)
        else:
            rows = default.reshape(made.shape)
            made[...] = _listed_values(
                [row if one is _MISSING else one for one, row in zip(found, rows, strict=True)], made
            )
        return made.reshape((*batch, *self.shape))

    def exported(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """All keys and values."""
        self._require()
        keys = numpy.empty((len(self._found), *self.key_shape), self.keys.numpy())
        values = numpy.empty((len(self._found), *self.shape), self.values.numpy())
        keys[...] = _listed_values(list(self._found), keys)
        values[...] = _listed_values(list(self._found.values()), values)
        return keys, values

    def listed(self, keys: NDArray[Any]) -> list[Any]:
        """Keys as Python's own values; keys that have a shape as tuples.

        Raises:
            OpError: They are of another type or shape than the table's.
        """
        if keys.dtype != self.keys.numpy():
            raise OpError(f"the keys have type {keys.dtype}, and those of the table have {self.keys}")
        if not self.key_shape:
            found: list[Any] = keys.reshape(-1).tolist()
            return found
        if keys.shape[keys.ndim - len(self.key_shape) :] != self.key_shape:
            raise OpError(f"keys of shape {list(keys.shape)} do not end in {list(self.key_shape)}")
        return [tuple(row.tolist()) for row in keys.reshape(-1, int(numpy.prod(self.key_shape)))]

    def _rows(self, values: NDArray[Any], count: int) -> list[Any]:
        if values.dtype != self.values.numpy():
            raise OpError(f"the values have type {values.dtype}, and those of the table have {self.values}")
        if values.size != count * int(numpy.prod(self.shape)):
            raise OpError(f"values of shape {list(values.shape)} do not fit {count} keys")
        if not self.shape:
            found: list[Any] = values.reshape(-1).tolist()
            return found
        return [row.copy() for row in values.reshape(count, *self.shape)]

    def _require(self) -> None:
        if not self.is_ready:
            remedy = "a plain graph has lost what fills its tables; run the SavedModel or .meta that it came from"
            raise OpError("the table is not filled", remedy)


_MISSING = object()


def _listed_values(found: list[Any], like: NDArray[Any]) -> Any:
    """Values in a form that numpy takes as they are: strings are not cut."""
    if like.dtype.kind != "O":
        return numpy.asarray(found, like.dtype).reshape(like.shape) if found else like
    made = numpy.empty(len(found), object)
    for number, one in enumerate(found):
        made[number] = one
    return made if like.ndim == 1 else like if not found else numpy.stack([numpy.asarray(one, object) for one in found])


def _shown(key: Any) -> str:
    return repr(key.decode("utf-8", "replace") if isinstance(key, bytes) else key)


def _kept(make: Callable[[], Table], state: State | None, container: bytes, shared_name: bytes | None) -> Table:
    """The table of a node, or the one that nodes share by name; one without a name at all is made anew each time."""
    if state is None or shared_name is None:
        return make()
    return state.keep("table", make, f"{container!r} {shared_name!r}" if shared_name else None)


@value("HashTable HashTableV2 AnonymousHashTable")
def _hash_table(
    *,
    key_dtype: DType,
    value_dtype: DType,
    state: State | None,
    container: bytes = b"",
    shared_name: bytes | None = None,
) -> Table:
    return _kept(lambda: Table(key_dtype, value_dtype, is_mutable=False), state, container, shared_name)


@value("MutableHashTable MutableHashTableV2 AnonymousMutableHashTable")
def _mutable_table(
    *,
    key_dtype: DType,
    value_dtype: DType,
    state: State | None,
    container: bytes = b"",
    shared_name: bytes | None = None,
) -> Table:
    return _kept(lambda: Table(key_dtype, value_dtype), state, container, shared_name)


@value("MutableHashTableOfTensors MutableHashTableOfTensorsV2 AnonymousMutableHashTableOfTensors")
def _table_of_tensors(
    *, key_dtype: DType, value_dtype: DType, value_shape: Shape, state: State | None, container: bytes = b"",
    shared_name: bytes | None = None,
) -> Table:  # fmt: skip
    return _kept(lambda: Table(key_dtype, value_dtype, value_shape), state, container, shared_name)


@value("MutableDenseHashTable MutableDenseHashTableV2 AnonymousMutableDenseHashTable")
def _dense_table(
    empty: NDArray[Any], deleted: NDArray[Any] | None = None, *, key_dtype: DType, value_dtype: DType,
    value_shape: Shape, state: State | None, container: bytes = b"", shared_name: bytes | None = None,
) -> Table:  # fmt: skip
    def make() -> Table:
        made = Table(key_dtype, value_dtype, value_shape, key_shape=empty.shape)
        made.never = [key for one in (empty, deleted) if one is not None for key in made.listed(one)]
        return made

    return _kept(make, state, container, shared_name)


@value("InitializeTable InitializeTableV2")
def _initialize_table(table: Table, keys: NDArray[Any], values: NDArray[Any]) -> tuple[Any, ...]:
    if keys.shape != values.shape:
        raise OpError(f"the table has {keys.size} keys and {values.size} values")
    table.fill(table.listed(keys), values.reshape(-1).tolist())
    return ()


@value("InitializeTableFromTextFile InitializeTableFromTextFileV2")
def _initialize_from_file(
    table: Table,
    filename: NDArray[Any],
    *,
    key_index: int,
    value_index: int,
    vocab_size: int,
    delimiter: bytes,
    offset: int,
    state: State | None,
) -> tuple[Any, ...]:
    if table.is_ready:
        return ()
    if state is None:
        raise OpError("it reads a file, and only a program that runs has files")
    path = state.file(filename.item())
    try:
        lines = path.read_bytes().replace(b"\r", b"").split(b"\n")
    except OSError as error:
        raise OpError(f"the file {path.name!r} cannot be read: {error.strerror}") from error
    if not lines[-1]:
        lines.pop()
    if len(lines) < vocab_size:
        raise OpError(f"the file {path.name!r} has {len(lines)} lines, and the table wants {vocab_size}")
    lines = lines if vocab_size < 0 else lines[:vocab_size]
    if b"" in lines:
        raise OpError(f"line {lines.index(b'') + 1} of the file {path.name!r} is empty")
    keys, values = (
        _column(lines, index, delimiter, kind, offset)
        for index, kind in ((key_index, table.keys), (value_index, table.values))
    )
    table.fill(keys, values)
    return ()


def _column(lines: Sequence[bytes], index: int, delimiter: bytes, kind: DType, offset: int) -> Iterator[Any]:
    """A column of a text file: numbers of the lines, the lines themselves, or what stands between delimiters."""
    if index == _LINE_NUMBER:
        if kind.name != "int64":
            raise OpError(f"numbers of lines are int64, and the table wants {kind}")
        yield from range(offset, offset + len(lines))
        return
    for number, line in enumerate(lines):
        tokens = [line] if index == _WHOLE_LINE else line.split(delimiter)
        if index >= len(tokens):
            raise OpError(f"line {number + 1} of the file has {len(tokens)} columns, and column {index} is wanted")
        yield _token(tokens[max(index, 0)], kind, number)


def _token(token: bytes, kind: DType, number: int) -> Any:
    if kind.name == "string":
        return token
    try:
        return int(token) if kind.name.startswith(("int", "uint")) else kind.numpy().type(float(token)).item()
    except ValueError as error:
        text = token.decode("utf-8", "replace")
        raise OpError(f"line {number + 1} of the file has {text!r}, which is no {kind}") from error


@value("LookupTableFind LookupTableFindV2")
def _find(table: Table, keys: NDArray[Any], default: NDArray[Any]) -> NDArray[Any]:
    return table.find(keys, default)


@value("LookupTableSize LookupTableSizeV2")
def _size(table: Table) -> NDArray[Any]:
    return numpy.asarray(len(table), numpy.int64)


@value("LookupTableExport LookupTableExportV2")
def _export(table: Table) -> tuple[Any, ...]:
    return table.exported()


@value("LookupTableInsert LookupTableInsertV2")
def _insert(table: Table, keys: NDArray[Any], values: NDArray[Any]) -> tuple[Any, ...]:
    table.insert(keys, values)
    return ()


@value("LookupTableImport LookupTableImportV2")
def _import(table: Table, keys: NDArray[Any], values: NDArray[Any]) -> tuple[Any, ...]:
    if not table.is_mutable:
        table.fill(table.listed(keys), values.reshape(-1).tolist())
        return ()
    table.insert(keys, values, clear=True)
    return ()


@value("LookupTableRemoveV2")
def _remove(table: Table, keys: NDArray[Any]) -> tuple[Any, ...]:
    table.remove(keys)
    return ()
