"""Checkpoints that no honest writer makes: each is refused quickly, with an error that names the file, and no other."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.hostile_use import use_bundle
from tests.support.table_files import (
    GOLDEN_DATA,
    GOLDEN_INDEX,
    GOLDEN_VALUES,
    block,
    bundle_entry,
    entry,
    header,
    place,
    raw_table,
    sealed,
    snappy_compress,
    table,
    write_golden,
    write_raw_bundle,
)

from tfsmith.errors import (
    ChecksumError,
    CorruptFileError,
    LimitError,
    TfsmithError,
    TruncatedFileError,
    UnreadableFileError,
    UnsupportedError,
)
from tfsmith.formats.checkpoint.bundle import open_bundle
from tfsmith.formats.checkpoint.slices import Extents, encode_slice_key, fill_slice_proto
from tfsmith.formats.checkpoint.table import SortedTable
from tfsmith.storage import crc32c, extend, from_bytes, mask

FLOAT, INT32, STRING, VARIANT = 1, 3, 7, 21


def fails(prefix: Path, kind: type[TfsmithError] = CorruptFileError, match: str = ".") -> TfsmithError:
    """Checks that using a checkpoint fails as it should."""
    with pytest.raises(kind, match=match) as caught:
        use_bundle(prefix)
    assert caught.value.path is not None
    assert caught.value.path.startswith(str(prefix))
    assert caught.value.remedy
    return caught.value


def same_as_golden(prefix: Path) -> bool:
    bundle = open_bundle(prefix)
    return {name: bundle[name].numpy().tolist() for name in bundle} == {
        name: values for name, (_, values) in GOLDEN_VALUES.items()
    }


def test_an_index_cut_off_at_any_length(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    for size in range(len(GOLDEN_INDEX)):
        (tmp_path / "m.index").write_bytes(GOLDEN_INDEX[:size])
        fails(tmp_path / "m")


def test_an_index_with_any_byte_flipped(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    for position in range(len(GOLDEN_INDEX)):
        for bit in (0x01, 0x40):
            damaged = bytearray(GOLDEN_INDEX)
            damaged[position] ^= bit
            (tmp_path / "m.index").write_bytes(damaged)
            if len(GOLDEN_INDEX) - 42 <= position < len(GOLDEN_INDEX) - 8:  # the padding of the footer means nothing
                assert same_as_golden(tmp_path / "m")
            else:
                fails(tmp_path / "m")


def test_data_with_any_byte_flipped(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    for position in range(len(GOLDEN_DATA)):
        damaged = bytearray(GOLDEN_DATA)
        damaged[position] ^= 0x20
        (tmp_path / "m.data-00000-of-00001").write_bytes(damaged)
        fails(tmp_path / "m")


def test_data_cut_off_at_any_length(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    for size in range(len(GOLDEN_DATA)):
        (tmp_path / "m.data-00000-of-00001").write_bytes(GOLDEN_DATA[:size])
        error = fails(tmp_path / "m", TruncatedFileError, "the file ends at")
        assert "different steps" in str(error)


def test_a_missing_data_file(tmp_path: Path) -> None:
    (tmp_path / "m.index").write_bytes(GOLDEN_INDEX)
    assert "m.data-00000-of-00001" in str(fails(tmp_path / "m", UnreadableFileError))


def test_a_data_file_that_is_a_folder(tmp_path: Path) -> None:
    (tmp_path / "m.index").write_bytes(GOLDEN_INDEX)
    (tmp_path / "m.data-00000-of-00001").mkdir()
    fails(tmp_path / "m", UnreadableFileError, "folder")


def test_two_steps_of_the_same_shapes_are_told_by_their_checksums(tmp_path: Path) -> None:
    one, two = struct.pack("<2f", 1, 2), struct.pack("<2f", 3, 4)
    write_raw_bundle(tmp_path / "m", {b"v": bundle_entry(FLOAT, (2,), one)}, [two])
    assert "another step" in str(fails(tmp_path / "m", ChecksumError))


def changed(**changes: Any) -> Any:
    """A sound entry of two floats, with some fields changed."""
    proto = bundle_entry(FLOAT, (2,), struct.pack("<2f", 1, 2))
    for field, value in changes.items():
        setattr(proto, field, value)
    return proto


def with_dims(*dims: int, dtype: int = FLOAT, size: int = 8) -> Any:
    proto = bundle_entry(dtype, dims, b"")
    proto.size = size
    return proto


@pytest.mark.parametrize(
    ("proto", "match"),
    [
        (changed(size=7), "7 bytes"),
        (changed(size=12), "12 bytes"),
        (changed(size=-8), "-8"),
        (changed(size=2**63 - 1), "bytes"),
        (changed(offset=-1), "-1"),
        (changed(offset=2**63 - 1), "the file ends at"),
        (changed(offset=1), "the file ends at"),
        (changed(shard_id=1), "data file 1"),
        (changed(shard_id=-1), "data file -1"),
        (changed(crc32c=0), "checksum"),
        (changed(dtype=2), "takes 16"),
        (with_dims(3), "takes 12"),
        (with_dims(-2), "cannot be"),
        (with_dims(2**62), "larger than any memory"),
        (with_dims(2**40, 2**40, 2**40), "larger than any memory"),
        (with_dims(0, 2**62, 2**62, size=0), "larger than any memory"),
        (with_dims(2**40), "takes"),
        (with_dims(*(1,) * 255, size=4), "cannot be"),
        (with_dims(2**40, dtype=STRING), "cannot hold"),
        (with_dims(2**40, dtype=VARIANT), "cannot hold"),
        (with_dims(9, dtype=STRING), "cannot hold"),
    ],
)
def test_entries_that_cannot_be(tmp_path: Path, proto: Any, match: str) -> None:
    write_raw_bundle(tmp_path / "m", {b"v": proto}, [struct.pack("<2f", 1, 2)])
    assert "tensor 'v'" in str(fails(tmp_path / "m", CorruptFileError, match))


def test_a_shape_of_unknown_rank(tmp_path: Path) -> None:
    proto = changed()
    proto.shape.unknown_rank = True
    write_raw_bundle(tmp_path / "m", {b"v": proto}, [bytes(8)])
    fails(tmp_path / "m", CorruptFileError, "cannot be")


def test_more_dimensions_than_numpy_has(tmp_path: Path) -> None:
    data = struct.pack("<f", 1)
    write_raw_bundle(tmp_path / "m", {b"v": bundle_entry(FLOAT, (1,) * 254, data)}, [data])
    fails(tmp_path / "m", UnsupportedError, "rank 254")


@pytest.mark.parametrize("shards", [0, -1, 100_001, 2**31 - 1])
def test_impossible_numbers_of_shards(tmp_path: Path, shards: int) -> None:
    write_raw_bundle(tmp_path / "m", {}, [b""], header(shards))
    fails(tmp_path / "m", LimitError, "data files")


def test_a_newer_version(tmp_path: Path) -> None:
    for field in ("min_consumer", "bad_consumers"):
        head = header()
        if field == "min_consumer":
            head.version.min_consumer = 2
        else:
            head.version.bad_consumers.append(1)
        write_raw_bundle(tmp_path / "m", {}, [b""], head)
        fails(tmp_path / "m", UnsupportedError, "version")


@pytest.mark.parametrize(
    ("items", "match"),
    [
        ([], "no header"),
        ([(b"v", b"")], "no header"),
        ([(b"", b"\xff\xff")], "cannot be decoded"),
        ([(b"", b"\x08\x01"), (b"v", b"\xff\xff")], "tensor 'v'"),
        ([(b"", b"\x08\x01"), (b"\xc3\x28", b"")], "UTF-8"),
    ],
)
def test_tables_that_are_no_checkpoint(tmp_path: Path, items: list[tuple[bytes, bytes]], match: str) -> None:
    (tmp_path / "m.index").write_bytes(table(items))
    fails(tmp_path / "m", CorruptFileError, match)


def test_an_index_that_is_another_file(tmp_path: Path) -> None:
    for contents in (b"", b"PK\x03\x04" + bytes(500), b"model_checkpoint_path: 'a'\n" * 9):
        (tmp_path / "m.index").write_bytes(contents)
        fails(tmp_path / "m")


Change = Callable[[dict[bytes, Any], Any], None]
LEFT: Extents = ((0, 1),)
RIGHT: Extents = ((1, 1),)


def _drop_slice(entries: dict[bytes, Any], parent: Any) -> None:
    del entries[encode_slice_key("v", RIGHT)]


def _drop_one_from_list(entries: dict[bytes, Any], parent: Any) -> None:
    del parent.slices[1]


def _list_twice(entries: dict[bytes, Any], parent: Any) -> None:
    fill_slice_proto(parent.slices.add(), LEFT)


def _list_twice_instead(entries: dict[bytes, Any], parent: Any) -> None:
    parent.slices[1].CopyFrom(parent.slices[0])


def _out_of_range(entries: dict[bytes, Any], parent: Any) -> None:
    fill_slice_proto(parent.slices.add(), ((2, 1),))


def _negative(entries: dict[bytes, Any], parent: Any) -> None:
    fill_slice_proto(parent.slices.add(), ((-1, 1),))


def _huge(entries: dict[bytes, Any], parent: Any) -> None:
    fill_slice_proto(parent.slices.add(), ((2**63 - 1, 2**63 - 1),))


def _wrong_rank(entries: dict[bytes, Any], parent: Any) -> None:
    fill_slice_proto(parent.slices.add(), ((0, 1), (0, 1)))


def _no_rank(entries: dict[bytes, Any], parent: Any) -> None:
    parent.slices.add()


def _full(entries: dict[bytes, Any], parent: Any) -> None:
    fill_slice_proto(parent.slices.add(), ((0, -1),))


def _nested(entries: dict[bytes, Any], parent: Any) -> None:
    fill_slice_proto(entries[encode_slice_key("v", LEFT)].slices.add(), LEFT)


def _other_dtype(entries: dict[bytes, Any], parent: Any) -> None:
    entries[encode_slice_key("v", LEFT)].dtype = INT32


def _other_shape(entries: dict[bytes, Any], parent: Any) -> None:
    entries[encode_slice_key("v", LEFT)].shape.dim.add().size = 1


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (_drop_slice, "missing"),
        (_drop_one_from_list, "hole"),
        (_list_twice, "overlap"),
        (_list_twice_instead, "overlap"),
        (_out_of_range, "inside"),
        (_negative, "inside"),
        (_huge, "inside"),
        (_wrong_rank, "inside"),
        (_no_rank, "inside"),
        (_full, "overlap"),
        (_nested, "slices itself"),
        (_other_dtype, "int32"),
        (_other_shape, r"\[1, 1\]"),
    ],
)
def test_slices_that_cannot_be(tmp_path: Path, change: Change, match: str) -> None:
    parent = bundle_entry(FLOAT, (2,), b"")
    entries = {b"v": parent}
    data = struct.pack("<2f", 1, 2)
    for at, extents in enumerate((LEFT, RIGHT)):
        fill_slice_proto(parent.slices.add(), extents)
        entries[encode_slice_key("v", extents)] = bundle_entry(FLOAT, (1,), data[4 * at : 4 * at + 4], offset=4 * at)
    write_raw_bundle(tmp_path / "m", entries, [data])
    use_bundle(tmp_path / "m")
    change(entries, parent)
    write_raw_bundle(tmp_path / "m", entries, [data])
    assert "tensor 'v'" in str(fails(tmp_path / "m", CorruptFileError, match))


def test_slices_of_a_whole_that_is_not_there_ask_for_no_memory(tmp_path: Path) -> None:
    half = 2**39
    parent = bundle_entry(FLOAT, (2 * half, 2), b"")
    entries = {b"v": parent}
    for start in (0, half):
        extents: Extents = ((start, half), (0, -1))
        fill_slice_proto(parent.slices.add(), extents)
        entries[encode_slice_key("v", extents)] = with_dims(half, 2, size=8 * half)
    write_raw_bundle(tmp_path / "m", entries, [bytes(100)])
    fails(tmp_path / "m", TruncatedFileError)


def test_a_slice_that_is_listed_again_and_again(tmp_path: Path) -> None:
    empty: Extents = ((0, 0),)
    parent = bundle_entry(FLOAT, (1,), b"")
    fill_slice_proto(parent.slices.add(), LEFT)
    for _ in range(200_000):
        fill_slice_proto(parent.slices.add(), empty)
    parts = {encode_slice_key("v", empty): with_dims(0, size=0), encode_slice_key("v", LEFT): with_dims(1, size=4)}
    write_raw_bundle(tmp_path / "m", {b"v": parent, **parts}, [bytes(4)])
    fails(tmp_path / "m", CorruptFileError, "overlap")


def test_the_same_bytes_for_many_tensors(tmp_path: Path) -> None:
    data = bytes(1000)
    entries = {b"%05d" % number: bundle_entry(FLOAT, (250,), data) for number in range(2000)}
    write_raw_bundle(tmp_path / "m", entries, [data])
    bundle = open_bundle(tmp_path / "m")
    for read in (bundle.verify, bundle.stored_order):
        with pytest.raises(CorruptFileError, match="lie where those"):
            read()


def string_entry(stored: bytes, crc: int, count: int) -> tuple[dict[bytes, Any], list[bytes]]:
    return {b"s": bundle_entry(STRING, (count,), stored, crc=crc)}, [stored]


@pytest.mark.parametrize(
    ("lengths", "rest", "count"),
    [
        ([3, 9], b"abcdef", 2),  # a length past the end
        ([3], b"abcdef", 1),  # bytes that belong to nobody
        ([2**63, 2**63 + 3], b"abc", 2),  # lengths whose sum wraps around
        ([2**64 - 1, 4], b"abc", 2),
    ],
)
def test_lengths_of_strings_that_lie(tmp_path: Path, lengths: list[int], rest: bytes, count: int) -> None:
    from tfsmith.wire import encode_varint

    crc = crc32c(b"".join(struct.pack("<I" if length < 2**32 else "<Q", length) for length in lengths))
    checksum = struct.pack("<I", mask(crc))
    stored = b"".join(map(encode_varint, lengths)) + checksum + rest
    write_raw_bundle(tmp_path / "m", *string_entry(stored, extend(crc, checksum + rest), count))
    fails(tmp_path / "m", CorruptFileError, "add up")


@pytest.mark.parametrize(
    ("stored", "count", "match"),
    [
        (b"\xff" * 20, 1, "cut off|ten bytes"),
        (b"\x80" * 10 + b"\x01" + bytes(9), 1, "cut off|ten bytes"),
        (b"\x01\x01", 2, "cut off"),
        (b"\x01\x01abc", 2, "cut off"),
        (b"\x01\x01abcdef", 2, "lengths of strings do not fit"),
        (b"\x80\x80\x80", 3, "cut off"),
    ],
)
def test_strings_that_are_cut_off(tmp_path: Path, stored: bytes, count: int, match: str) -> None:
    write_raw_bundle(tmp_path / "m", *string_entry(stored, crc32c(stored), count))
    fails(tmp_path / "m", CorruptFileError, match)


@pytest.mark.parametrize("stored", [b"\xff\x01abc", b"\x02ab", b"\x02abcdefgh", b"\x80\x80\x80\x80"])
def test_variants_that_are_cut_off(tmp_path: Path, stored: bytes) -> None:
    write_raw_bundle(tmp_path / "m", {b"v": bundle_entry(VARIANT, (1,), stored)}, [stored])
    with pytest.raises(CorruptFileError) as caught:
        open_bundle(tmp_path / "m").verify()
    assert caught.value.path == str(tmp_path / "m.data-00000-of-00001")


def test_a_snappy_bomb(tmp_path: Path) -> None:
    runs = b"\x00a" + b"\xfe\x01\x00" * 30_000  # 64 bytes out of three, again and again
    for claim in (b"\xff\xff\xff\xff\x0f", b"\x80\x80\x20"):
        (tmp_path / "m.index").write_bytes(raw_table([(b"z", claim + runs)], kind=1))
        fails(tmp_path / "m", CorruptFileError, "compressed block")


def test_a_compressed_index_is_read(tmp_path: Path) -> None:
    entries = b"".join(entry(0, key, value) for key, value in SortedTable(from_bytes(GOLDEN_INDEX)).entries())
    write_golden(tmp_path / "m")
    (tmp_path / "m.index").write_bytes(raw_table([(b"z", snappy_compress(block(entries)))], kind=1))
    assert same_as_golden(tmp_path / "m")


def test_an_index_that_leads_to_itself(tmp_path: Path) -> None:
    contents = block(entry(0, b"", b"\x08\x01"))
    looped = block(entry(0, b"a", place(0, len(contents))) + entry(0, b"b", place(0, len(contents))))
    (tmp_path / "m.index").write_bytes(raw_table([(b"a", contents)], index=looped))
    fails(tmp_path / "m", CorruptFileError, "makes no sense")
    at = len(sealed(contents)) + len(sealed(block(b"")))
    itself = block(entry(0, b"a", place(at, 20)))
    (tmp_path / "m.index").write_bytes(raw_table([(b"a", contents)], index=itself))
    fails(tmp_path / "m")
