"""Random damage to checkpoints that their checksums do not see: nothing but our own errors may come of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.hostile_use import use, use_bundle
from tests.support.table_files import GOLDEN_INDEX, bundle_entry, raw_table, table, write_golden, write_raw_bundle
from tests.support.v1_files import TENSORS, v1_entries

from tfsmith.errors import ChecksumError, CorruptFileError, TfsmithError
from tfsmith.formats.checkpoint.slices import Extents, encode_slice_key
from tfsmith.formats.checkpoint.version1 import open_checkpoint_v1

RANDOM = settings(deadline=None, max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
PROTO_BYTES = st.binary(max_size=40)


def harmless(folder: Path, work: Callable[[], None]) -> None:
    """Does the work; it may fail with an error of ours that names a file of the folder."""
    try:
        work()
    except TfsmithError as error:
        named = error.path
    else:
        return
    assert named is not None
    assert named.startswith(str(folder))


@RANDOM
@given(st.lists(st.tuples(st.integers(0, len(GOLDEN_INDEX)), st.binary(max_size=4), st.integers(0, 4)), min_size=1))
def test_a_block_changed_and_sealed_again(tmp_path: Path, changes: list[tuple[int, bytes, int]]) -> None:
    """Random damage that the checksums do not see: nothing but our own errors comes of it."""
    contents = bytearray(GOLDEN_INDEX[:226])  # its one data block
    for position, data, cut in changes:
        position %= len(contents) + 1
        contents[position : position + cut] = data
    write_golden(tmp_path / "m")
    (tmp_path / "m.index").write_bytes(raw_table([(b"\xff", bytes(contents))]))
    harmless(tmp_path, lambda: use_bundle(tmp_path / "m"))


@RANDOM
@given(st.dictionaries(st.sampled_from([b"v", b"w", encode_slice_key("v", ((0, 1),))]), PROTO_BYTES), PROTO_BYTES)
def test_entries_of_any_bytes(tmp_path: Path, entries: dict[bytes, bytes], data: bytes) -> None:
    write_golden(tmp_path / "m")
    (tmp_path / "m.index").write_bytes(table([(b"", b"\x08\x01"), *sorted(entries.items())]))
    (tmp_path / "m.data-00000-of-00001").write_bytes(data)
    harmless(tmp_path, lambda: use_bundle(tmp_path / "m"))


@RANDOM
@given(
    st.integers(-3, 2**63 - 1), st.integers(-3, 20), st.integers(-1, 35), st.lists(st.integers(-2, 2**62), max_size=3)
)
def test_entries_of_any_numbers(tmp_path: Path, offset: int, size: int, dtype: int, dims: list[int]) -> None:
    proto = bundle_entry(0, dims, b"")
    proto.dtype, proto.offset, proto.size = dtype, offset, size
    write_raw_bundle(tmp_path / "m", {b"v": proto}, [bytes(64)])
    harmless(tmp_path, lambda: use_bundle(tmp_path / "m"))


def test_v1_cut_off_and_flipped(tmp_path: Path) -> None:
    path = tmp_path / "m"
    data = table(v1_entries({name: TENSORS[name] for name in ("f", "i", "s", "cut")}), block_size=100)
    for size in range(0, len(data), 3):
        path.write_bytes(data[:size])
        with pytest.raises(CorruptFileError) as caught:
            open_checkpoint_v1(path).verify()
        assert caught.value.path == str(path)
    for position in range(0, len(data) - 48, 3):
        damaged = bytearray(data)
        damaged[position] ^= 0x08
        path.write_bytes(damaged)
        with pytest.raises(ChecksumError) as caught:
            open_checkpoint_v1(path).verify()
        assert caught.value.path == str(path)


@RANDOM
@given(PROTO_BYTES, st.sampled_from([1, 3, 7, 8, 10, 19, 20, 0]), st.lists(st.integers(-1, 2**62), max_size=3))
def test_v1_entries_of_any_bytes(tmp_path: Path, value: bytes, dtype: int, dims: list[int]) -> None:
    path = tmp_path / "m"
    slices: list[tuple[Extents, dict[str, Any]]] = [(((0, -1),) * len(dims), {})]
    (head, (key, _)) = v1_entries({"x": (dtype, dims, slices)})
    inner = b"\x1a" + bytes((len(value),)) + value
    for stored in (value, b"\x12" + bytes((len(inner),)) + inner):
        path.write_bytes(table([head, (key, stored)]))
        harmless(tmp_path, lambda: use(open_checkpoint_v1(path)["x"]))
