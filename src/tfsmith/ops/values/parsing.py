"""Values of ops that decode bytes: tf.train.Example, CSV, raw numbers."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.errors import TfsmithError
from tfsmith.ir.types import DType, Shape
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.strings import read_number, texts
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import BYTES, FIXED32, VARINT, as_int64, fields, read_varint

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_FEATURES, _FEATURE_LISTS, _ENTRY, _KEY, _VALUE, _ITEMS = 1, 2, 1, 1, 2, 1
_KINDS = {1: "string", 2: "float32", 3: "int64"}
"""The lists of a Feature, by the numbers of their fields."""


class _Feature:
    """One feature of an Example: the kind of its list ("" for one without a list) and its values."""

    def __init__(self, kind: str = "", values: list[Any] | None = None) -> None:
        self.kind = kind
        self.values = values or []


def _inner(span: Span, start: int, stop: int) -> Span:
    return Span(span.source, start, stop)


def _example(data: bytes) -> dict[bytes, _Feature]:
    """The features of a serialized tf.train.Example; of two entries with one key the last counts.

    Raises:
        OpError: It is none.
    """
    try:
        return _features(_within(from_bytes(data), _FEATURES))
    except TfsmithError as error:
        raise OpError(f"an example cannot be read ({error.what})") from error


def _within(span: Span, number: int) -> Iterator[Span]:
    """The messages in the fields of this number."""
    return (
        _inner(span, field.start, field.stop)
        for field in fields(span)
        if field.number == number and field.wire_type == BYTES
    )


def _features(parts: Iterator[Span]) -> dict[bytes, _Feature]:
    return {key: _feature(span) for part in parts for key, span in _entries(part)}


def _entries(span: Span) -> Iterator[tuple[bytes, Span]]:
    """The entries of a map."""
    for entry in _within(span, _ENTRY):
        key = next(iter(reversed(list(_within(entry, _KEY)))), None)
        found = next(iter(reversed(list(_within(entry, _VALUE)))), None)
        yield b"" if key is None else key.tobytes(), _inner(entry, entry.start, entry.start) if found is None else found


def _feature(span: Span) -> _Feature:
    feature = _Feature()
    for one in fields(span):
        if one.number in _KINDS and one.wire_type == BYTES:
            kind = _KINDS[one.number]
            feature = _Feature(kind, list(_items(_inner(span, one.start, one.stop), kind)))
    return feature


def _items(span: Span, kind: str) -> Iterator[Any]:
    for field in fields(span):
        if field.number != _ITEMS:
            continue
        data = _inner(span, field.start, field.stop)
        if kind == "string" and field.wire_type == BYTES:
            yield data.tobytes()
        elif kind == "float32" and field.wire_type == FIXED32:
            yield struct.unpack("<f", data.tobytes())[0]
        elif kind == "float32" and field.wire_type == BYTES:
            yield from numpy.frombuffer(data.tobytes(), "<f4").tolist()
        elif kind == "int64" and field.wire_type == VARINT:
            yield as_int64(field.value)
        elif kind == "int64" and field.wire_type == BYTES:
            buffer, place = memoryview(data.tobytes()), 0
            while place < len(buffer):
                number, place = read_varint(buffer, place, len(buffer), "<memory>")
                yield as_int64(number)


def _array(values: Sequence[Any], kind: DType, shape: Sequence[int]) -> NDArray[Any]:
    if kind.name == "string":
        return texts(values, shape)
    return numpy.array(values, kind.numpy()).reshape(tuple(shape))


def _values(example: Mapping[bytes, _Feature], key: bytes, kind: DType) -> list[Any] | None:
    """The values of a feature; None where it is missing or has no list."""
    feature = example.get(key)
    if feature is None or not feature.kind:
        return None
    if feature.kind != kind.name:
        raise OpError(f"feature {key.decode('utf-8', 'replace')!r} holds {feature.kind}, not {kind.name}")
    return feature.values


def _dense(examples: Sequence[Mapping[bytes, _Feature]], key: bytes, kind: DType, shape: Shape,
           default: NDArray[Any]) -> NDArray[Any]:  # fmt: skip
    dims = list(shape.dims or ())
    if dims and dims[0] < 0:
        return _open(examples, key, kind, dims, default)
    count = int(numpy.prod(dims, dtype=numpy.int64))
    rows: list[Any] = []
    for example in examples:
        values = _values(example, key, kind)
        if values is None:
            if default.size != count:
                raise OpError(f"feature {key.decode('utf-8', 'replace')!r} is required, and missing")
            values = default.ravel().tolist()
        if len(values) != count:
            raise OpError(f"feature {key.decode('utf-8', 'replace')!r} has {len(values)} values, not {count}")
        rows += values
    return _array(rows, kind, (len(examples), *dims))


def _open(examples: Sequence[Mapping[bytes, _Feature]], key: bytes, kind: DType, dims: list[int],
          default: NDArray[Any]) -> NDArray[Any]:  # fmt: skip
    """A dense feature of any length: rows are filled up with the default."""
    step = int(numpy.prod(dims[1:], dtype=numpy.int64))
    found = [_values(example, key, kind) or [] for example in examples]
    for values in found:
        if step and len(values) % step:
            raise OpError(f"feature {key.decode('utf-8', 'replace')!r} has {len(values)} values, no multiple of {step}")
    longest = max((len(values) // max(step, 1) for values in found), default=0)
    fill = default.ravel().tolist()[0] if default.size else b"" if kind.name == "string" else 0
    rows = [item for values in found for item in (*values, *[fill] * (longest * step - len(values)))]
    return _array(rows, kind, (len(examples), longest, *dims[1:]))


def _sparse(examples: Sequence[Mapping[bytes, _Feature]], key: bytes, kind: DType) -> tuple[Any, Any, Any]:
    rows = [_values(example, key, kind) or [] for example in examples]
    places = [(number, place) for number, row in enumerate(rows) for place in range(len(row))]
    flat = [item for row in rows for item in row]
    shape = numpy.array([len(rows), max(map(len, rows), default=0)], numpy.int64)
    return numpy.array(places, numpy.int64).reshape(-1, 2), _array(flat, kind, (len(flat),)), shape


def _parsed(serialized: Sequence[bytes], sparse_keys: Sequence[bytes], sparse_types: Sequence[DType],
            dense_keys: Sequence[bytes], dense_types: Sequence[DType], dense_shapes: Sequence[Shape],
            dense_defaults: Sequence[NDArray[Any]]) -> tuple[list[Any], ...]:  # fmt: skip
    examples = [_example(bytes(text)) for text in serialized]
    sparse = [_sparse(examples, key, kind) for key, kind in zip(sparse_keys, sparse_types, strict=True)]
    dense = [_dense(examples, key, kind, shape, default) for key, kind, shape, default in
             zip(dense_keys, dense_types, dense_shapes, dense_defaults, strict=True)]  # fmt: skip
    indices, values, shapes = ([one[part] for one in sparse] for part in range(3))
    return indices, values, shapes, dense, examples


@value("ParseExample")
def _parse_example(
    serialized: NDArray[Any], names: NDArray[Any], sparse_keys: Sequence[NDArray[Any]],
    dense_keys: Sequence[NDArray[Any]], dense_defaults: Sequence[NDArray[Any]], *, sparse_types: tuple[DType, ...],
    Tdense: tuple[DType, ...], dense_shapes: tuple[Shape, ...],
) -> tuple[Any, ...]:  # fmt: skip
    if serialized.ndim != 1:
        raise OpError(f"the examples have shape {list(serialized.shape)}, and must be a vector")
    keys = ([bytes(key.item()) for key in sparse_keys], [bytes(key.item()) for key in dense_keys])
    found = _parsed(serialized.tolist(), keys[0], sparse_types, keys[1], Tdense, dense_shapes, dense_defaults)
    return tuple(one for part in found[:4] for one in part)


@value("ParseExampleV2")
def _parse_example_v2(
    serialized: NDArray[Any], names: NDArray[Any], sparse_keys: NDArray[Any], dense_keys: NDArray[Any],
    ragged_keys: NDArray[Any], dense_defaults: Sequence[NDArray[Any]], *, sparse_types: tuple[DType, ...],
    Tdense: tuple[DType, ...], dense_shapes: tuple[Shape, ...], ragged_value_types: tuple[DType, ...],
    ragged_split_types: tuple[DType, ...],
) -> tuple[Any, ...]:  # fmt: skip
    if serialized.ndim > 1:
        raise OpError(f"the examples have shape {list(serialized.shape)}, and must be a vector or a scalar")
    taken = [*sparse_keys.tolist(), *dense_keys.tolist(), *ragged_keys.tolist()]
    if len(set(taken)) < len(taken):
        raise OpError("a key is asked for twice")
    *parts, examples = _parsed(serialized.ravel().tolist(), sparse_keys.tolist(), sparse_types, dense_keys.tolist(),
                               Tdense, dense_shapes, dense_defaults)  # fmt: skip
    indices, values, shapes, dense = parts
    if not serialized.ndim:
        indices = [one[:, 1:] for one in indices]
        shapes = [one[1:] for one in shapes]
        dense = [one[0] for one in dense]
    ragged_values: list[Any] = []
    ragged_splits: list[Any] = []
    for key, kind, split in zip(ragged_keys.tolist(), ragged_value_types, ragged_split_types, strict=True):
        rows = [_values(example, key, kind) or [] for example in examples]
        flat = [item for row in rows for item in row]
        ragged_values.append(_array(flat, kind, (len(flat),)))
        ends = numpy.cumsum([0, *map(len, rows)]) if serialized.ndim else numpy.zeros(0)
        ragged_splits.append(ends.astype(split.numpy()))
    return (*indices, *values, *shapes, *dense, *ragged_values, *ragged_splits)


@value("ParseSingleExample")
def _parse_single_example(
    serialized: NDArray[Any], dense_defaults: Sequence[NDArray[Any]], *, sparse_keys: tuple[bytes, ...],
    dense_keys: tuple[bytes, ...], sparse_types: tuple[DType, ...], Tdense: tuple[DType, ...],
    dense_shapes: tuple[Shape, ...],
) -> tuple[Any, ...]:  # fmt: skip
    if serialized.ndim:
        raise OpError(f"the example has shape {list(serialized.shape)}, and must be a scalar")
    text = [bytes(serialized.item())]
    indices, values, shapes, dense, _ = _parsed(text, sparse_keys, sparse_types, dense_keys, Tdense, dense_shapes,
                                                dense_defaults)  # fmt: skip
    return (*(one[:, 1:] for one in indices), *values, *(one[1:] for one in shapes), *(one[0] for one in dense))


# Sequences


class _Sequence:
    """A serialized tf.train.SequenceExample: its context, and its lists of features.

    Raises:
        OpError: It is none.
    """

    def __init__(self, data: bytes) -> None:
        try:
            whole = from_bytes(data)
            self.context = _features(_within(whole, _FEATURES))
            self.lists = {
                key: [_feature(one) for one in _within(span, _ITEMS)]
                for part in _within(whole, _FEATURE_LISTS)
                for key, span in _entries(part)
            }
        except TfsmithError as error:
            raise OpError(f"a sequence example cannot be read ({error.what})") from error

    def steps(self, key: bytes, kind: DType) -> list[list[Any]] | None:
        """The values of a list of features, step by step; None where there is no such list."""
        found = self.lists.get(key)
        return None if found is None else [_values({key: one}, key, kind) or [] for one in found]


def _sequences(serialized: NDArray[Any]) -> list[_Sequence]:
    if not serialized.size:
        raise OpError("there are no sequence examples")
    return [_Sequence(bytes(text)) for text in serialized.ravel().tolist()]


def _list_sparse(examples: Sequence[_Sequence], key: bytes, kind: DType) -> tuple[Any, Any, Any]:
    rows = [example.steps(key, kind) or [] for example in examples]
    places = [
        (number, step, place)
        for number, row in enumerate(rows)
        for step, values in enumerate(row)
        for place in range(len(values))
    ]
    flat = [item for row in rows for values in row for item in values]
    longest = max((len(values) for row in rows for values in row), default=0)
    shape = numpy.array([len(rows), max(map(len, rows), default=0), longest], numpy.int64)
    return numpy.array(places, numpy.int64).reshape(-1, 3), _array(flat, kind, (len(flat),)), shape


def _list_dense(
    examples: Sequence[_Sequence], key: bytes, kind: DType, shape: Shape, may_miss: bool
) -> tuple[Any, Any]:
    """The values of a list of features, filled up to the longest, and how many steps each example has."""
    dims = list(shape.dims or ())
    count = int(numpy.prod(dims, dtype=numpy.int64))
    name = key.decode("utf-8", "replace")
    rows: list[list[list[Any]]] = []
    for example in examples:
        found = example.steps(key, kind)
        if found is None and not may_miss:
            raise OpError(f"feature list {name!r} is required, and missing")
        if any(len(values) != count for values in found or ()):
            raise OpError(f"a step of feature list {name!r} does not have {count} values")
        rows.append(found or [])
    longest = max(map(len, rows), default=0)
    fill = b"" if kind.name == "string" else 0
    flat = [item for row in rows for values in (*row, *[[fill] * count] * (longest - len(row))) for item in values]
    return _array(flat, kind, (len(rows), longest, *dims)), numpy.array(list(map(len, rows)), numpy.int64)


def _ragged(rows: Sequence[Sequence[Any]], kind: DType, split: DType) -> tuple[Any, Any]:
    flat = [item for row in rows for item in row]
    ends = numpy.cumsum([0, *map(len, rows)]).astype(split.numpy())
    return _array(flat, kind, (len(flat),)), ends


def _contexts(examples: Sequence[_Sequence], sparse: Sequence[tuple[bytes, DType]],
              dense: Sequence[tuple[bytes, DType, Shape, NDArray[Any]]]) -> tuple[list[Any], list[Any]]:  # fmt: skip
    contexts = [example.context for example in examples]
    return [_sparse(contexts, *one) for one in sparse], [_dense(contexts, *one) for one in dense]


def _parts(found: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    """Indices of all, then values of all, then shapes of all."""
    return tuple(one[part] for part in range(3) for one in found)


@value("ParseSequenceExample")
def _parse_sequence(
    serialized: NDArray[Any], debug_name: NDArray[Any], context_dense_defaults: Sequence[NDArray[Any]], *,
    feature_list_dense_missing_assumed_empty: tuple[bytes, ...], context_sparse_keys: tuple[bytes, ...],
    context_dense_keys: tuple[bytes, ...], feature_list_sparse_keys: tuple[bytes, ...],
    feature_list_dense_keys: tuple[bytes, ...], context_sparse_types: tuple[DType, ...],
    Tcontext_dense: tuple[DType, ...], feature_list_dense_types: tuple[DType, ...],
    context_dense_shapes: tuple[Shape, ...], feature_list_sparse_types: tuple[DType, ...],
    feature_list_dense_shapes: tuple[Shape, ...],
) -> tuple[Any, ...]:  # fmt: skip
    if serialized.ndim != 1:
        raise OpError(f"the examples have shape {list(serialized.shape)}, and must be a vector")
    examples = _sequences(serialized)
    sparse, dense = _contexts(
        examples, list(zip(context_sparse_keys, context_sparse_types, strict=True)),
        list(zip(context_dense_keys, Tcontext_dense, context_dense_shapes, context_dense_defaults, strict=True)),
    )  # fmt: skip
    list_sparse = [_list_sparse(examples, key, kind) for key, kind in
                   zip(feature_list_sparse_keys, feature_list_sparse_types, strict=True)]  # fmt: skip
    list_dense = [
        _list_dense(examples, key, kind, shape, key in feature_list_dense_missing_assumed_empty) for key, kind, shape in
        zip(feature_list_dense_keys, feature_list_dense_types, feature_list_dense_shapes, strict=True)
    ]  # fmt: skip
    return (*_parts(sparse), *dense, *_parts(list_sparse), *(one for one, _ in list_dense),
            *(lengths for _, lengths in list_dense))  # fmt: skip


@value("ParseSequenceExampleV2")
def _parse_sequence_v2(
    serialized: NDArray[Any], debug_name: NDArray[Any], context_sparse_keys: NDArray[Any],
    context_dense_keys: NDArray[Any], context_ragged_keys: NDArray[Any], feature_list_sparse_keys: NDArray[Any],
    feature_list_dense_keys: NDArray[Any], feature_list_ragged_keys: NDArray[Any], missing: NDArray[Any],
    context_dense_defaults: Sequence[NDArray[Any]], *, Tcontext_dense: tuple[DType, ...],
    context_sparse_types: tuple[DType, ...], context_ragged_value_types: tuple[DType, ...],
    context_ragged_split_types: tuple[DType, ...], context_dense_shapes: tuple[Shape, ...],
    feature_list_dense_types: tuple[DType, ...], feature_list_sparse_types: tuple[DType, ...],
    feature_list_ragged_value_types: tuple[DType, ...], feature_list_ragged_split_types: tuple[DType, ...],
    feature_list_dense_shapes: tuple[Shape, ...],
) -> tuple[Any, ...]:  # fmt: skip
    if serialized.ndim > 1:
        raise OpError(f"the examples have shape {list(serialized.shape)}, and must be a vector or a scalar")
    examples = _sequences(serialized)
    sparse, dense = _contexts(
        examples, list(zip(context_sparse_keys.tolist(), context_sparse_types, strict=True)),
        list(zip(context_dense_keys.tolist(), Tcontext_dense, context_dense_shapes, context_dense_defaults,
                 strict=True)),
    )  # fmt: skip
    list_sparse = [_list_sparse(examples, key, kind) for key, kind in
                   zip(feature_list_sparse_keys.tolist(), feature_list_sparse_types, strict=True)]  # fmt: skip
    list_dense = [
        _list_dense(examples, key, kind, shape, bool(may_miss)) for key, kind, shape, may_miss in
        zip(feature_list_dense_keys.tolist(), feature_list_dense_types, feature_list_dense_shapes, missing, strict=True)
    ]  # fmt: skip
    ragged = [
        _ragged([_values(one.context, key, kind) or [] for one in examples], kind, split) for key, kind, split in
        zip(context_ragged_keys.tolist(), context_ragged_value_types, context_ragged_split_types, strict=True)
    ]  # fmt: skip
    outer: list[Any] = []
    inner: list[tuple[Any, Any]] = []
    for key, kind, split in zip(feature_list_ragged_keys.tolist(), feature_list_ragged_value_types,
                                feature_list_ragged_split_types, strict=True):  # fmt: skip
        rows = [one.steps(key, kind) or [] for one in examples]
        outer.append(numpy.cumsum([0, *map(len, rows)]).astype(split.numpy()))
        inner.append(_ragged([values for row in rows for values in row], kind, split))
    is_one = not serialized.ndim
    if is_one:
        sparse = [(indices[:, 1:], values, shape[1:]) for indices, values, shape in sparse]
        list_sparse = [(indices[:, 1:], values, shape[1:]) for indices, values, shape in list_sparse]
        dense = [one[0] for one in dense]
        list_dense = [(one[0], lengths[0]) for one, lengths in list_dense]
        ragged = [(values, ends[0]) for values, ends in ragged]  # there are no rows to split into
        outer = [ends[0] for ends in outer]
    return (*_parts(sparse), *dense, *(one for one, _ in ragged), *(ends for _, ends in ragged), *_parts(list_sparse),
            *(one for one, _ in list_dense), *(lengths for _, lengths in list_dense), *(one for one, _ in inner),
            *outer, *(ends for _, ends in inner))  # fmt: skip


@value("ParseSingleSequenceExample")
def _parse_single_sequence(
    serialized: NDArray[Any], missing: NDArray[Any], context_sparse_keys: Sequence[NDArray[Any]],
    context_dense_keys: Sequence[NDArray[Any]], feature_list_sparse_keys: Sequence[NDArray[Any]],
    feature_list_dense_keys: Sequence[NDArray[Any]], context_dense_defaults: Sequence[NDArray[Any]],
    debug_name: NDArray[Any], *, context_sparse_types: tuple[DType, ...], Tcontext_dense: tuple[DType, ...],
    feature_list_dense_types: tuple[DType, ...], context_dense_shapes: tuple[Shape, ...],
    feature_list_sparse_types: tuple[DType, ...], feature_list_dense_shapes: tuple[Shape, ...],
) -> tuple[Any, ...]:  # fmt: skip
    if serialized.ndim:
        raise OpError(f"the example has shape {list(serialized.shape)}, and must be a scalar")
    examples = [_Sequence(bytes(serialized.item()))]
    assumed = set(missing.tolist())
    sparse, dense = _contexts(
        examples, [(key.item(), kind) for key, kind in zip(context_sparse_keys, context_sparse_types, strict=True)],
        [(key.item(), *rest) for key, *rest in
         zip(context_dense_keys, Tcontext_dense, context_dense_shapes, context_dense_defaults, strict=True)],
    )  # fmt: skip
    list_sparse = [_list_sparse(examples, key.item(), kind) for key, kind in
                   zip(feature_list_sparse_keys, feature_list_sparse_types, strict=True)]  # fmt: skip
    list_dense = [
        _list_dense(examples, key.item(), kind, shape, key.item() in assumed)[0][0] for key, kind, shape in
        zip(feature_list_dense_keys, feature_list_dense_types, feature_list_dense_shapes, strict=True)
    ]  # fmt: skip
    cut = [[(indices[:, 1:], values, shape[1:]) for indices, values, shape in one] for one in (sparse, list_sparse)]
    return (*_parts(cut[0]), *(one[0] for one in dense), *_parts(cut[1]), *list_dense)


# Raw numbers


@value("DecodeRaw")
def _decode_raw(data: NDArray[Any], *, out_type: DType, little_endian: bool) -> Any:
    sizes = {len(text) for text in data.ravel()}
    if len(sizes) > 1:
        raise OpError("the texts differ in length")
    kind = out_type.numpy()
    size = next(iter(sizes), 0)
    if size % kind.itemsize:
        raise OpError(f"a text of {size} bytes is no multiple of {kind.itemsize}")
    return _from_bytes(b"".join(data.ravel()), kind, little_endian).reshape(*data.shape, size // kind.itemsize)


@value("DecodePaddedRaw")
def _decode_padded(data: NDArray[Any], length: NDArray[Any], *, out_type: DType, little_endian: bool) -> Any:
    kind, size = out_type.numpy(), int(length)
    if size <= 0 or size % kind.itemsize:
        raise OpError(f"the length {size} is no multiple of {kind.itemsize}")
    whole = b"".join(bytes(text)[:size].ljust(size, b"\0") for text in data.ravel())
    return _from_bytes(whole, kind, little_endian).reshape(*data.shape, size // kind.itemsize)


def _from_bytes(data: bytes, kind: numpy.dtype[Any], little_endian: bool) -> Any:
    found: NDArray[Any] = numpy.frombuffer(data, numpy.uint8 if kind.kind == "b" else kind)
    if kind.kind == "b":
        return numpy.not_equal(found, 0)
    if not little_endian and kind.itemsize > 1:
        part = kind.itemsize // (2 if kind.kind == "c" else 1)
        found = numpy.frombuffer(data, f"u{part}").byteswap().view(kind)
    return found


# CSV


@value("DecodeCSV")
def _decode_csv(
    records: NDArray[Any], defaults: Sequence[NDArray[Any]], *, OUT_TYPE: tuple[DType, ...], field_delim: bytes,
    use_quote_delim: bool, na_value: bytes, select_cols: tuple[int, ...],
) -> tuple[Any, ...]:  # fmt: skip
    rows: list[list[bytes]] = []
    for record in records.ravel():
        row = _csv_row(bytes(record), field_delim, use_quote_delim)
        if select_cols:
            if max(select_cols) >= len(row):
                raise OpError(f"a record has {len(row)} fields, and field {max(select_cols)} is wanted")
            row = [row[place] for place in select_cols]
        if len(row) != len(defaults):
            raise OpError(f"a record has {len(row)} fields, not {len(defaults)}")
        rows.append(row)
    columns: list[Any] = []
    for place, (default, kind) in enumerate(zip(defaults, OUT_TYPE, strict=True)):
        found: list[Any] = []
        for row in rows:
            text = row[place]
            if not text or text == na_value:
                if not default.size:
                    raise OpError(f"field {place} is required, and empty")
                found.append(default.ravel()[0])
            else:
                found.append(text if kind.name == "string" else read_number(text, kind.numpy()))
        columns.append(_array(found, kind, records.shape))
    return tuple(columns)


def _csv_row(text: bytes, mark: bytes, quotes: bool) -> list[bytes]:
    if not quotes:
        return text.split(mark)
    found: list[bytes] = []
    place, size = 0, len(text)
    while True:
        if text[place : place + 1] == b'"':
            piece = b""
            place += 1
            while True:
                end = text.find(b'"', place)
                if end < 0:
                    raise OpError("a quoted field has no end")
                piece += text[place:end]
                place = end + 1
                if text[place : place + 1] != b'"':
                    break
                piece += b'"'
                place += 1
            if place < size and text[place : place + 1] != mark:
                raise OpError("a quote stands inside of a field")
        else:
            end = text.find(mark, place)
            end = size if end < 0 else end
            piece = text[place:end]
            if b'"' in piece:
                raise OpError("an unquoted field holds a quote")
            place = end
        found.append(piece)
        if place >= size:
            return found
        place += 1
