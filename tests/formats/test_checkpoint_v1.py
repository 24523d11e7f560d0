from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

import numpy
import pytest
from tests.support.table_files import block, entry, raw_table, snappy_compress, table
from tests.support.v1_files import FULL, TENSORS, VALUES, Slices, v1_entries, whole

from tfsmith.errors import CorruptFileError, TfsmithError, UnreadableFileError, UnsupportedError, WrongFileError
from tfsmith.formats.checkpoint.slices import encode_slice_key
from tfsmith.formats.checkpoint.version1 import open_checkpoint_v1, v1_files
from tfsmith.ir.tensor import SlicedTensor
from tfsmith.storage import Span
from tfsmith.wire import new


def test_reads_every_dtype(tmp_path: Path) -> None:
    path = tmp_path / "model.ckpt-7"
    path.write_bytes(table(v1_entries(TENSORS), block_size=200))
    checkpoint = open_checkpoint_v1(path)
    assert list(checkpoint) == sorted(TENSORS)
    assert {name: tensor.numpy().tolist() for name, tensor in checkpoint.items()} == VALUES
    for name, tensor in checkpoint.items():
        assert tensor.dtype.number == TENSORS[name][0]
        assert tensor.shape.dims == TENSORS[name][1]
        assert tensor.numpy().shape == TENSORS[name][1]
    checkpoint.verify()


def test_floats_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(table(v1_entries({"f": TENSORS["f"]})))
    (part,) = open_checkpoint_v1(path)["f"].parts()
    assert isinstance(part, Span)
    assert part.name == str(path)
    assert part.tobytes() == struct.pack("<4f", 1.5, -2, 0, 4)


def test_integers_give_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "m"
    path.write_bytes(table(v1_entries({"i": TENSORS["i"]})))
    parts = [bytes(part) for part in open_checkpoint_v1(path)["i"].parts() if not isinstance(part, Span)]
    assert b"".join(parts) == struct.pack("<3i", 1, -2, 2**31 - 1)


def test_values_that_are_not_packed(tmp_path: Path) -> None:
    entries = dict(v1_entries({"i": TENSORS["i"]}))
    key = encode_slice_key("i", (FULL,))
    proto = b"\x38\x01" + b"\x38" + b"\xfe" + b"\xff" * 8 + b"\x01" + b"\x3a\x01\x05"  # 1, -2, and a packed 5
    data = b"\x1a" + bytes((len(proto),)) + proto
    entries[key] = b"\x12" + bytes((len(data),)) + data
    (tmp_path / "m").write_bytes(table(sorted(entries.items())))
    assert open_checkpoint_v1(tmp_path / "m")["i"].numpy().tolist() == [1, -2, 5]


def test_compressed_tables(tmp_path: Path) -> None:
    entries = b"".join(entry(0, key, value) for key, value in v1_entries(TENSORS))
    (tmp_path / "m").write_bytes(raw_table([(b"\x01", snappy_compress(block(entries)))], kind=1))
    checkpoint = open_checkpoint_v1(tmp_path / "m")
    assert {name: tensor.numpy().tolist() for name, tensor in checkpoint.items()} == VALUES


def write_shards(folder: Path) -> None:
    first: Slices = [(((0, 2), FULL), {"float_val": [0, 1, 2, 3]})]
    second: Slices = [(((2, 1), FULL), {"float_val": [4, 5]})]
    (folder / "m-00000-of-00002").write_bytes(table(v1_entries({"p": (1, (3, 2), first), "f": TENSORS["f"]})))
    (folder / "m-00001-of-00002").write_bytes(table(v1_entries({"p": (1, (3, 2), second), "i": TENSORS["i"]})))


@pytest.mark.parametrize("name", ["m", "m-?????-of-00002", "m-?????-of-?????"])
def test_shards_are_one_checkpoint(tmp_path: Path, name: str) -> None:
    write_shards(tmp_path)
    assert [path.name for path in v1_files(tmp_path / name)] == ["m-00000-of-00002", "m-00001-of-00002"]
    checkpoint = open_checkpoint_v1(tmp_path / name)
    assert list(checkpoint) == ["f", "i", "p"]
    assert isinstance(checkpoint["p"], SlicedTensor)
    assert checkpoint["p"].numpy().tolist() == [[0, 1], [2, 3], [4, 5]]
    parts = b"".join(part.tobytes() if isinstance(part, Span) else part for part in checkpoint["p"].parts())
    assert parts == numpy.arange(6, dtype="float32").tobytes()
    checkpoint.verify()


def test_missing_and_mixed_shards(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / "m-00001-of-00002").unlink()
    with pytest.raises(UnreadableFileError, match="shard") as caught:
        open_checkpoint_v1(tmp_path / "m")
    assert caught.value.path == str(tmp_path / "m-00001-of-00002")
    (tmp_path / "m-00000-of-00001").write_bytes(b"")
    with pytest.raises(WrongFileError, match="several"):
        open_checkpoint_v1(tmp_path / "m")
    with pytest.raises(UnreadableFileError):
        open_checkpoint_v1(tmp_path / "other")
    with pytest.raises(UnreadableFileError):
        open_checkpoint_v1(tmp_path / "no" / "folder")


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        ((1, (4,), whole({"float_val": [1, 2]})), "8 bytes"),
        ((3, (4,), whole({"int_val": [1, 2]})), "2 values"),
        ((3, (1 << 40,), whole({"int_val": [1, 2]})), "2 values"),
        ((1, (1 << 60, 1 << 60), whole({}, 2)), "larger than any memory"),
        ((1, (-1,), whole({})), "cannot be"),
        ((1, (1,) * 255, whole({}, 255)), "cannot be"),
        ((1, (1,) * 200, whole({"float_val": [1]}, 200)), "rank 200"),
        ((7, (2,), whole({"string_val": [b"a"]})), "1 strings"),
        ((3, (4,), [(((0, 5),), {"int_val": [1]})]), "inside"),
        ((3, (4,), [(((0, 3),), {"int_val": [1, 2, 3]})]), "hole"),
        ((3, (4,), []), "hole"),
        ((3, (4,), whole({}, 2)), "inside"),
        ((3, (1 << 40,), [(((0, 1 << 39),), {}), (((1 << 39, 1 << 39),), {})]), "more elements"),
        ((21, (1,), whole({})), "variant"),
        ((0, (1,), whole({})), "invalid"),
    ],
)
def test_refuses_what_does_not_fit(tmp_path: Path, tensor: tuple[int, Sequence[int], Slices], reason: str) -> None:
    path = tmp_path / "m"
    path.write_bytes(table(v1_entries({"x": tensor})))
    with pytest.raises(TfsmithError, match=reason) as caught:
        open_checkpoint_v1(path)["x"].numpy()
    assert caught.value.path == str(path)
    assert caught.value.remedy


def test_shards_that_disagree(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / "m-00001-of-00002").write_bytes(table(v1_entries({"p": (1, (4, 2), [])})))
    with pytest.raises(CorruptFileError, match=r"\[4, 2\] here"):
        open_checkpoint_v1(tmp_path / "m")


def test_missing_values_and_missing_list(tmp_path: Path) -> None:
    entries = v1_entries({"i": TENSORS["i"]})
    (tmp_path / "m").write_bytes(table(entries[:1]))
    with pytest.raises(CorruptFileError, match="missing"):
        open_checkpoint_v1(tmp_path / "m")["i"].numpy()
    (tmp_path / "m").write_bytes(table(entries[1:]))
    with pytest.raises(CorruptFileError, match="what it holds"):
        open_checkpoint_v1(tmp_path / "m")
    (tmp_path / "m").write_bytes(table([entries[0], (entries[1][0], b"")]))
    with pytest.raises(CorruptFileError, match="missing"):
        open_checkpoint_v1(tmp_path / "m")["i"].numpy()


def test_a_newer_version_is_told(tmp_path: Path) -> None:
    head = new("SavedTensorSlices")
    head.meta.versions.min_consumer = 2
    (tmp_path / "m").write_bytes(table([(b"", head.SerializeToString())]))
    with pytest.raises(UnsupportedError, match="version 2"):
        open_checkpoint_v1(tmp_path / "m")
