from __future__ import annotations

import contextlib
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.table_files import block, entry, raw_table, snappy_compress, table

from tfsmith.errors import CorruptFileError
from tfsmith.formats.checkpoint import slices as ordered_code
from tfsmith.formats.checkpoint.bundle import open_bundle
from tfsmith.formats.checkpoint.slices import Box, decode_slice_key, encode_slice_key, find_flaw
from tfsmith.formats.checkpoint.strings import decode_varints
from tfsmith.formats.checkpoint.table import SortedTable, decompress
from tfsmith.formats.checkpoint.writer import write_bundle
from tfsmith.ir.tensor import ArrayTensor, StringTensor, Tensor
from tfsmith.ir.types import Shape
from tfsmith.storage import from_bytes
from tfsmith.wire import encode_varint

pytestmark = pytest.mark.slow

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
UINT64 = st.integers(0, (1 << 64) - 1)
KEYS = st.one_of(st.binary(max_size=12), st.lists(st.sampled_from([b"a", b"layer/", b"\xff", b"\x00"])).map(b"".join))
EXTENTS = st.lists(st.tuples(INT64, INT64), max_size=6).map(tuple)
NAMES = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.dictionaries(KEYS, st.binary(max_size=40)), st.integers(1, 400), st.integers(1, 20))
def test_tables_round_trip(entries: dict[bytes, bytes], block_size: int, restart_interval: int) -> None:
    items = sorted(entries.items())
    data = table(items, block_size=block_size, restart_interval=restart_interval)
    found = SortedTable(from_bytes(data))
    assert list(found.entries()) == items
    assert [(key, span.tobytes()) for key, span in found.spans()] == items
    for key, value in items:
        assert found.get(key) == value
        assert (key + b"\x00" in entries) == (found.find(key + b"\x00") is not None)


@given(st.binary(max_size=300), st.integers(0, 300))
def test_a_block_of_any_bytes_does_no_harm(contents: bytes, restart: int) -> None:
    for data in (contents, block(contents, (0, restart))):
        try:
            found = SortedTable(from_bytes(raw_table([(b"\xff" * 9, data)])))
            entries = list(found.entries())
            keys = [key for key, _ in entries]
            assert keys == sorted(set(keys))
        except CorruptFileError:
            continue


@given(st.lists(st.tuples(st.integers(0, 5), st.binary(max_size=5), st.binary(max_size=5))), st.binary(max_size=5))
def test_lying_entries_do_no_harm(parts: list[tuple[int, bytes, bytes]], key: bytes) -> None:
    contents = block(b"".join(entry(*part) for part in parts))
    found = SortedTable(from_bytes(raw_table([(b"\xff" * 9, contents)])))
    try:
        entries = dict(found.entries())
    except CorruptFileError:
        return
    assert found.get(key) == entries.get(key)


@given(st.one_of(st.binary(max_size=400), st.lists(st.sampled_from([b"abcd", b"x", b"abcdefgh"])).map(b"".join)))
def test_snappy_round_trips(data: bytes) -> None:
    assert decompress(snappy_compress(data)) == data


@given(st.binary(max_size=60))
def test_snappy_of_any_bytes_does_no_harm(data: bytes) -> None:
    with contextlib.suppress(CorruptFileError):
        assert len(decompress(data)) <= 64 * len(data)


@given(UINT64, UINT64)
def test_numbers_sort_as_their_codes(a: int, b: int) -> None:
    assert ordered_code.read_num(ordered_code.write_num(a))[0] == a
    assert (a < b) == (ordered_code.write_num(a) < ordered_code.write_num(b))


@given(INT64, INT64)
def test_signed_numbers_sort_as_their_codes(a: int, b: int) -> None:
    assert ordered_code.read_signed(ordered_code.write_signed(a))[0] == a
    assert (a < b) == (ordered_code.write_signed(a) < ordered_code.write_signed(b))


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_strings_sort_as_their_codes(a: bytes, b: bytes) -> None:
    assert ordered_code.read_string(ordered_code.write_string(a))[0] == a
    assert (a < b) == (ordered_code.write_string(a) < ordered_code.write_string(b))


@given(NAMES, EXTENTS)
def test_slice_keys_round_trip(name: str, extents: tuple[tuple[int, int], ...]) -> None:
    assert decode_slice_key(encode_slice_key(name, extents)) == (name, extents)


@given(st.binary(max_size=30))
def test_a_slice_key_has_one_form(key: bytes) -> None:
    try:
        name, extents = decode_slice_key(b"\x00" + key)
    except CorruptFileError:
        return
    assert encode_slice_key(name, extents) == b"\x00" + key


@given(st.lists(UINT64), st.binary(max_size=20))
def test_varints_round_trip(numbers: list[int], behind: bytes) -> None:
    data = b"".join(map(encode_varint, numbers))
    found, used = decode_varints(data + behind, len(numbers), path="x", offset=0)
    assert found.tolist() == numbers
    assert used == len(data)
    whole, used = decode_varints(data, None, path="x", offset=0)
    assert whole.tolist() == numbers
    if numbers:
        with pytest.raises(CorruptFileError):
            decode_varints(data[:-1], len(numbers), path="x", offset=0)


@st.composite
def covers(draw: st.DrawFn) -> tuple[tuple[int, ...], list[Box]]:
    """A shape and boxes that cover it, made by cutting boxes in two."""
    dims = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    boxes: list[Box] = [(tuple(0 for _ in dims), dims)]
    for _ in range(draw(st.integers(0, 5))):
        starts, sizes = boxes.pop(draw(st.integers(0, len(boxes) - 1)))
        axis = draw(st.integers(0, len(dims) - 1))
        cut = draw(st.integers(0, sizes[axis]))
        boxes.append((starts, (*sizes[:axis], cut, *sizes[axis + 1 :])))
        moved = (*starts[:axis], starts[axis] + cut, *starts[axis + 1 :])
        boxes.append((moved, (*sizes[:axis], sizes[axis] - cut, *sizes[axis + 1 :])))
    return dims, draw(st.permutations(boxes))


@given(covers(), st.data())
def test_covers_are_told_from_others(cover: tuple[tuple[int, ...], list[Box]], data: st.DataObject) -> None:
    dims, boxes = cover
    assert find_flaw(boxes, dims) is None
    other = list(boxes)
    at = data.draw(st.integers(0, len(other) - 1))
    starts = tuple(data.draw(st.integers(0, dim)) for dim in dims)
    other[at] = (starts, tuple(data.draw(st.integers(0, dim - at)) for at, dim in zip(starts, dims, strict=True)))
    count = numpy.zeros(dims, int)
    for begin, sizes in other:
        count[tuple(slice(at, at + size) for at, size in zip(begin, sizes, strict=True))] += 1
    assert (find_flaw(other, dims) is None) == bool((count == 1).all())


ARRAYS = st.sampled_from(["float32", "float16", "int64", "uint8", "bool", "complex64"]).flatmap(
    lambda kind: st.lists(st.integers(0, 4), max_size=3).map(
        lambda dims: ArrayTensor.of(numpy.arange(numpy.prod(dims, dtype=int)).astype(kind).reshape(dims))
    )
)
STRINGS = st.lists(st.binary(max_size=200), max_size=6).map(lambda found: StringTensor(Shape((len(found),)), found))


@settings(deadline=None)  # it writes files
@given(st.dictionaries(NAMES.filter(lambda name: name[:1] > "\x00"), st.one_of(ARRAYS, STRINGS)), st.integers(1, 4))
def test_checkpoints_round_trip(tensors: dict[str, Tensor], shards: int) -> None:
    with TemporaryDirectory() as folder:
        prefix, copy = Path(folder, "m"), Path(folder, "copy")
        write_bundle(prefix, tensors, shards=shards)
        bundle = open_bundle(prefix)
        bundle.verify()
        assert list(bundle) == sorted(tensors, key=str.encode)
        for name, tensor in tensors.items():
            assert (bundle[name].dtype, bundle[name].shape) == (tensor.dtype, tensor.shape)
            assert bundle[name].numpy().tolist() == tensor.numpy().tolist()
        write_bundle(copy, bundle.stored_order(), shards=shards)
        again = open_bundle(copy)
        assert {name: again[name].numpy().tolist() for name in again} == {
            name: bundle[name].numpy().tolist() for name in bundle
        }
        if shards == 1:
            for path in (prefix, copy):
                assert path.with_suffix(".index").read_bytes() == prefix.with_suffix(".index").read_bytes()
