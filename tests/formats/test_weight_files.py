"""Safetensors and npz: what is written is read back, by us and by numpy; damage is named; nothing is half-written."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfsmith
from tfsmith.cli.main import main
from tfsmith.errors import (
    ChecksumError,
    CorruptFileError,
    LimitError,
    OutputError,
    TfsmithError,
    UnreadableFileError,
    UnsupportedError,
    UsageError,
)
from tfsmith.formats.tensors.npz import open_npz, write_npz
from tfsmith.formats.tensors.safetensors import DTYPES, open_safetensors, write_safetensors
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, SpanTensor, StringTensor, Tensor, Weights
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.storage import from_bytes, open_file

ALL = [*DTYPES.values(), "qint8", "quint8", "qint16", "quint16", "qint32"]
ONLY_NPZ = ["complex128", "float8_e4m3b11fnuz", "int4", "uint4"]


def some(kind: str, *dims: int) -> Tensor:
    """A tensor whose bytes are all different from those of its neighbours."""
    dtype = dtype_named(kind)
    count = int(np.prod(dims)) * dtype.itemsize
    data = bytes(number % 2 if kind == "bool" else number % 7 for number in range(1, count + 1))
    return SpanTensor(dtype, Shape(dims), from_bytes(data))


def raw(tensor: Tensor) -> bytes:
    return b"".join(part if isinstance(part, bytes) else part.tobytes() for part in tensor.parts())


def assert_same(found: Weights, wanted: dict[str, Tensor]) -> None:
    assert set(found) == set(wanted)
    for name, tensor in wanted.items():
        assert (found[name].dtype, found[name].shape) == (tensor.dtype, tensor.shape), name
        assert raw(found[name]) == raw(tensor), name
        assert found[name].numpy().tobytes() == tensor.numpy().tobytes(), name


def test_safetensors_of_every_dtype(tmp_path: Path) -> None:
    wanted = {f"a/{kind}": some(kind, 3, 5) for kind in ALL}
    wanted |= {"scalar": some("float32"), "empty": some("float32", 0, 4), "émoji ☃": some("int8", 3)}
    path = tmp_path / "w.safetensors"
    assert write_safetensors(path, wanted, {"format": "tf"}) == (path,)
    found = open_safetensors(open_file(path))
    assert_same(found, wanted)
    assert found.metadata["format"] == "tf"


def test_safetensors_values_are_aligned_and_sorted(tmp_path: Path) -> None:
    """As the format's own library does it: the largest elements first, then by name."""
    path = tmp_path / "w.safetensors"
    write_safetensors(path, {"b": some("int8", 3), "z": some("float32", 1), "a": some("float32", 1)}, {})
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    assert size % 8 == 0
    header = json.loads(data[8 : 8 + size])
    assert [(name, entry["data_offsets"]) for name, entry in header.items()] == [
        ("a", [0, 4]),
        ("z", [4, 8]),
        ("b", [8, 11]),
    ]


def test_safetensors_in_several_files(tmp_path: Path) -> None:
    wanted = {name: some("float32", 10) for name in "abcde"}
    files = write_safetensors(tmp_path / "model.safetensors", wanted, {"format": "pt"}, max_shard_bytes=80)
    assert [path.name for path in files] == [
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
        "model.safetensors.index.json",
    ]
    index = json.loads(files[-1].read_text())
    assert index["metadata"] == {"total_size": 200}
    assert index["weight_map"]["c"] == "model-00002-of-00003.safetensors"
    for source in (files[-1], tmp_path):
        found = tfsmith.load(source).variables
        assert isinstance(found, Weights)
        assert_same(found, wanted)
        assert set(found.files) == set(files)


def test_a_shard_index_reaches_no_other_folder(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
    with pytest.raises(CorruptFileError, match="does not lie beside it"):
        tfsmith.load(path)
    path.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    with pytest.raises(UnreadableFileError, match="a file of the model is missing"):
        tfsmith.load(path)
    write_safetensors(tmp_path / "model-1.safetensors", {"b": some("int8", 1)}, {})
    with pytest.raises(CorruptFileError, match="'a' is not in model-1"):
        tfsmith.load(path)


def test_strings_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    wanted = {"a": some("float32", 2), "words": StringTensor(Shape((1,)), [b"x"])}
    with pytest.raises(UnsupportedError, match="'words': safetensors has no type for string; leave it out"):
        write_safetensors(tmp_path / "w.safetensors", wanted, {})
    with pytest.raises(UnsupportedError, match="'words': an array of string would have to be pickled"):
        write_npz(tmp_path / "w.npz", wanted, {})
    with pytest.raises(UnsupportedError, match=r"complex128; cast it, or write \.npz"):
        write_safetensors(tmp_path / "w.safetensors", {"a": some("complex128", 1)}, {})
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_source_leaves_nothing_behind(tmp_path: Path) -> None:
    broken = SpanTensor(dtype_named("int8"), Shape((3,)), from_bytes(b"abc"), masked_crc=1)
    for write in (write_safetensors, write_npz):
        with pytest.raises(ChecksumError):
            write(tmp_path / "w.safetensors", {"a": some("float32", 2), "b": broken}, {})
    assert list(tmp_path.iterdir()) == []


def test_bad_names(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"does not end in \.safetensors"):
        write_safetensors(tmp_path / "w.bin", {}, {})
    with pytest.raises(UsageError, match="__metadata__"):
        write_safetensors(tmp_path / "w.safetensors", {"__metadata__": some("int8", 1)}, {})
    with pytest.raises(UsageError, match="no text"):
        write_safetensors(tmp_path / "w.safetensors", {"\ud800": some("int8", 1)}, {})
    with pytest.raises(UsageError, match="zip archive"):
        write_npz(tmp_path / "w.npz", {"a\x00b": some("int8", 1)}, {})
    with pytest.raises(UsageError, match="holds nothing"):
        write_safetensors(tmp_path / "w.safetensors", {}, {}, max_shard_bytes=0)


def packed(header: object, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(kind: str, dims: list[Any], start: int, stop: int) -> dict[str, Any]:
    return {"dtype": kind, "shape": dims, "data_offsets": [start, stop]}


HOSTILE = [
    (b"\x01\x02", CorruptFileError, "too short"),
    ((200).to_bytes(8, "little") + b"{}", CorruptFileError, "past the end"),
    ((1 << 40).to_bytes(8, "little") + b"{}", LimitError, "claims 1099511627776 bytes"),
    (packed(b"{"), CorruptFileError, "no sound JSON"),
    (packed(b"[" * 200_000), CorruptFileError, "no sound JSON"),
    (packed(b'{"a": 1' + b"1" * 5000 + b"}"), CorruptFileError, "no sound JSON"),
    (packed(b"\xff\xfe{}"), CorruptFileError, "no sound JSON"),
    (packed([]), CorruptFileError, "no object"),
    (packed(b'{"a":1,"a":2}'), CorruptFileError, "a key is there twice"),
    (packed({"a": 5}), CorruptFileError, "its entry in the header"),
    (packed({"a": {"dtype": "F32"}}), CorruptFileError, "its entry in the header"),
    (packed({"a": entry("F32", [1], 4, 0)}, bytes(4)), CorruptFileError, "its entry in the header"),
    (packed({"a": entry("F32", [-1], 0, 4)}, bytes(4)), CorruptFileError, "its entry in the header"),
    (packed({"a": entry("F32", [True], 0, 4)}, bytes(4)), CorruptFileError, "its entry in the header"),
    (packed({"a": entry("F32", [1.0], 0, 4)}, bytes(4)), CorruptFileError, "its entry in the header"),
    (packed({"a": entry("F32", [1] * 300, 0, 4)}, bytes(4)), CorruptFileError, "its entry in the header"),
    (packed({"a": entry("F32", [2], 0, 4)}, bytes(4)), CorruptFileError, "'a' has 4 bytes, but"),
    (packed({"a": entry("F32", [1], 0, 4)}, bytes(5)), CorruptFileError, "the values take 4 bytes"),
    (packed({"a": entry("F32", [1], 0, 4)}, bytes(3)), CorruptFileError, "the values take 4 bytes"),
    (packed({"a": entry("F32", [1], 4, 8)}, bytes(8)), CorruptFileError, "begin at 4"),
    (
        packed({"a": entry("U8", [4], 0, 4), "b": entry("U8", [4], 2, 6)}, bytes(6)),
        CorruptFileError,
        "'b': its values begin at 2",
    ),
    (packed({"__metadata__": {"a": 1}}), CorruptFileError, "metadata"),
    (packed({"__metadata__": "x"}), CorruptFileError, "metadata"),
]


@pytest.mark.parametrize(("data", "error", "words"), HOSTILE)
def test_damaged_safetensors(data: bytes, error: type[TfsmithError], words: str) -> None:
    with pytest.raises(error, match=words):
        open_safetensors(from_bytes(data))


def test_types_of_others_are_listed_but_not_read() -> None:
    found = open_safetensors(from_bytes(packed({"a": entry("F8_E8M0", [4], 0, 4)}, bytes(4))))
    assert str(found["a"].dtype) == "f8_e8m0"
    with pytest.raises(UnsupportedError, match="F8_E8M0, which TensorFlow does not have"):
        found["a"].numpy()


def test_npz_of_every_dtype(tmp_path: Path) -> None:
    wanted = {f"a/{kind}": some(kind, 3, 5) for kind in [*ALL, *ONLY_NPZ]}
    wanted |= {"scalar": some("float32"), "empty": some("float32", 0, 4), "émoji ☃": some("int8", 3)}
    wanted["filled"] = FilledTensor(dtype_named("float32"), Shape((1000, 700)), b"\x00\x00\x80\x3f")
    path = tmp_path / "w.npz"
    write_npz(path, wanted, {"format": "tf"})
    found = open_npz(open_file(path))
    assert_same(found, wanted)
    assert found.metadata == {"format": "tf"}
    model = tfsmith.load(path)
    assert model.kind == "checkpoint"
    assert not model.has_graph


def test_numpy_reads_our_npz(tmp_path: Path) -> None:
    import ml_dtypes

    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    wanted = {"a/b": ArrayTensor.of(values), "half": ArrayTensor.of(values.astype(ml_dtypes.bfloat16))}
    write_npz(tmp_path / "w.npz", wanted, {})
    with np.load(tmp_path / "w.npz") as found:
        assert found.files == ["a/b", "half"]
        np.testing.assert_array_equal(found["a/b"], values)
        np.testing.assert_array_equal(found["half"].view(ml_dtypes.bfloat16).astype(np.float32), values)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_we_read_numpys_npz(tmp_path: Path, save: Any) -> None:
    import ml_dtypes

    arrays: dict[str, Any] = {
        "plain": np.arange(600_000, dtype=np.float32).reshape(600, 1000),
        "fortran": np.asfortranarray(np.arange(24, dtype=np.int64).reshape(2, 3, 4)),
        "big": np.arange(7, dtype=">f8"),
        "big complex": np.arange(7, dtype=">c8") * 1j,
        "flag": np.array([True, False]),
        "scalar": np.float32(3),
    }
    save(tmp_path / "w.npz", **arrays, half=np.ones(3, ml_dtypes.bfloat16))
    found = tfsmith.load(tmp_path / "w.npz").variables
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name].numpy(), array)
        little = np.ascontiguousarray(array).astype(np.asarray(array).dtype.newbyteorder("<"))
        assert raw(found[name]) == little.tobytes()
    assert found["half"].dtype.name == "bfloat16"


def zipped(name: str, data: bytes, method: int = zipfile.ZIP_STORED) -> bytearray:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        archive.writestr(name, data)
    return bytearray(buffer.getvalue())


def npy(array: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


ONES = npy(np.ones(4, np.float32))


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"PK\x03\x04 cut off", CorruptFileError, "no sound zip archive"),
        (zipped("a.npy", b"nothing"), CorruptFileError, "header is damaged"),
        (zipped("a.npy", b""), CorruptFileError, "header is damaged"),
        (zipped("a.npy", ONES[:-1]), CorruptFileError, "it has 15 bytes, but its header says 16"),
        (zipped("a.npy", ONES.replace(b"(4,)", b"(-4,)")), CorruptFileError, "header is damaged|cannot be"),
        (zipped("a.npy", ONES.replace(b"(4,), ", b"(-4,),")), CorruptFileError, "cannot be"),
        (zipped("a.npy", ONES.replace(b"<f4", b"<q4")), CorruptFileError, "header is damaged"),
        (zipped("a.npy", npy(np.array([{}]), allow_pickle=True)), UnsupportedError, "never read"),
        (zipped("a.npy", npy(np.array(["x"]))), UnsupportedError, "no tensor"),
        (zipped("a.npy", ONES, zipfile.ZIP_BZIP2), UnsupportedError, "compression method 12"),
    ],
)
def test_damaged_npz(data: bytes, error: type[TfsmithError], words: str) -> None:
    with pytest.raises(error, match=words):
        open_npz(from_bytes(bytes(data)))


def test_damaged_values_of_an_npz() -> None:
    data = zipped("a.npy", ONES)
    data[data.index(ONES) + len(ONES) - 1] ^= 1
    with pytest.raises(ChecksumError, match="array 'a'"):
        open_npz(from_bytes(bytes(data)))["a"].numpy()
    data = zipped("a.npy", npy(np.arange(100_000)), zipfile.ZIP_DEFLATED)
    for at in range(len(data) // 3, len(data) // 3 + 40):
        data[at] ^= 0x55
    with pytest.raises(CorruptFileError):
        open_npz(from_bytes(bytes(data)))["a"].numpy()


@pytest.mark.parametrize("make", [write_safetensors, write_npz])
def test_any_cut_or_changed_byte_is_an_error_of_ours(tmp_path: Path, make: Any) -> None:
    """Whatever a byte becomes: the file opens and can be read, or we say what is wrong."""
    path = tmp_path / "w.safetensors"
    make(path, {"a": some("float32", 2, 3), "bf": some("bfloat16", 3)}, {"k": "v"})
    data = path.read_bytes()
    variants = [data[:at] for at in range(len(data))]
    variants += [
        data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :] for at in range(len(data)) for bit in (1, 32, 128)
    ]
    opened = 0
    for variant in variants:
        try:
            found = (open_safetensors if make is write_safetensors else open_npz)(from_bytes(variant))
            for tensor in found.values():
                tensor.numpy()
                raw(tensor)
            opened += 1
        except TfsmithError:
            pass
    assert 0 < opened < len(variants)


def test_show_tells_what_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"a": some("float32", 2, 3)}
    write_npz(tmp_path / "w.npz", wanted, {})
    write_safetensors(tmp_path / "w.safetensors", wanted, {})
    assert main(["show", str(tmp_path / "w.npz"), "--verify"]) == 0
    out = capsys.readouterr().out
    assert "weights without a graph" in out
    assert "1 tensors read" in out
    assert main(["show", str(tmp_path / "w.safetensors")]) == 0
    assert main(["show", str(tmp_path / "w.safetensors"), "--verify"]) == 2
    assert "this format keeps no checksums" in capsys.readouterr().err
    data = bytearray((tmp_path / "w.npz").read_bytes())
    data[data.index(raw(wanted["a"]))] ^= 1
    (tmp_path / "w.npz").write_bytes(data)
    assert main(["show", str(tmp_path / "w.npz"), "--verify"]) == 2
