from __future__ import annotations

import struct
from pathlib import Path

import numpy
import pytest
from tests.support.table_files import (
    GOLDEN_DATA,
    GOLDEN_INDEX,
    GOLDEN_VALUES,
    bundle_entry,
    header,
    write_golden,
    write_raw_bundle,
)

from tfsmith.errors import (
    ChecksumError,
    CorruptFileError,
    OutputError,
    UnreadableFileError,
    UnsupportedError,
    UsageError,
)
from tfsmith.formats.checkpoint.bundle import StoredSlices, StoredTensor, open_bundle
from tfsmith.formats.checkpoint.writer import write_bundle
from tfsmith.ir.tensor import ArrayTensor, FilledTensor, Piece, SlicedTensor, SpanTensor, StringTensor, Tensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.storage import Span, crc32c, extend, from_bytes, mask
from tfsmith.storage.place import Output

FLOAT, INT32, STRING, VARIANT, RESOURCE = 1, 3, 7, 21, 20


def golden_tensors() -> dict[str, Tensor]:
    """The golden checkpoint's tensors, in memory."""
    tensors: dict[str, Tensor] = {}
    for name, (kind, values) in GOLDEN_VALUES.items():
        if kind == "string":
            tensors[name] = StringTensor(Shape((len(values),)), values)
        else:
            tensors[name] = ArrayTensor.of(values, dtype_named(kind))
    return tensors


def raw(tensor: Tensor) -> bytes:
    return b"".join(part.tobytes() if isinstance(part, Span) else part for part in tensor.parts())


def test_reads_a_checkpoint_of_tensorflow(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    bundle = open_bundle(tmp_path / "m")
    assert list(bundle) == ["layer/bias", "layer/kernel", "part", "step", "words"]
    assert (bundle.num_shards, bundle.endianness, bundle.version) == (1, "little", 1)
    assert bundle.shards == (tmp_path / "m.data-00000-of-00001",)
    for name, (kind, values) in GOLDEN_VALUES.items():
        tensor = bundle[name]
        array = tensor.numpy()
        assert tensor.dtype.name == kind
        assert array.tolist() == values
        assert array.shape == tensor.shape.dims
        assert not array.flags.writeable
    assert raw(bundle["layer/bias"]) == struct.pack("<3f", -1, 0.5, 2)
    assert raw(bundle["part"]) == struct.pack("<8i", *range(1, 9))
    assert raw(bundle["words"]) == "grüße".encode() + b"\x00\xff"


def test_is_a_mapping(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    bundle = open_bundle(tmp_path / "m")
    assert len(bundle) == 5
    assert "step" in bundle
    assert "" not in bundle
    assert bundle.get("nothing") is None
    assert bundle["step"] is bundle["step"]
    entry = bundle.entries["step"]
    assert (entry.dtype.name, entry.shape, entry.offset, entry.size) == ("int64", Shape(()), 52, 8)
    assert bundle.entries["part"].slices == (((0, 3), (0, 2)), ((3, 1), (0, 2)))


def test_looking_needs_the_index_alone(tmp_path: Path) -> None:
    (tmp_path / "m.index").write_bytes(GOLDEN_INDEX)
    bundle = open_bundle(tmp_path / "m")
    assert {name: str(tensor.shape) for name, tensor in bundle.items()} == {
        "layer/bias": "[3]",
        "layer/kernel": "[2, 3]",
        "part": "[4, 2]",
        "step": "[]",
        "words": "[3]",
    }
    assert bundle["layer/kernel"].nbytes == 24
    with pytest.raises(UnreadableFileError, match="data file of the checkpoint is missing") as caught:
        bundle["part"].numpy()
    assert caught.value.path == str(tmp_path / "m.data-00000-of-00001")
    assert "m.index needs m.data-00000-of-00001" in str(caught.value.remedy)


def test_writes_the_bytes_of_tensorflow(tmp_path: Path) -> None:
    tensors = golden_tensors()
    write_golden(tmp_path / "m")
    tensors["part"] = open_bundle(tmp_path / "m")["part"]  # only a checkpoint's tensor remembers its slices
    write_bundle(tmp_path / "own", tensors)
    assert (tmp_path / "own.index").read_bytes() == GOLDEN_INDEX
    assert (tmp_path / "own.data-00000-of-00001").read_bytes() == GOLDEN_DATA


def test_a_copy_is_equal(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    write_bundle(tmp_path / "copy", open_bundle(tmp_path / "m").stored_order())
    assert (tmp_path / "copy.index").read_bytes() == GOLDEN_INDEX
    assert (tmp_path / "copy.data-00000-of-00001").read_bytes() == GOLDEN_DATA


def test_a_checkpoint_can_take_its_own_place(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    with Output(tmp_path / "m", force=True) as output:
        write_bundle(output.aside, open_bundle(tmp_path / "m").stored_order())
    assert (tmp_path / "m.data-00000-of-00001").read_bytes() == GOLDEN_DATA
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.data-00000-of-00001", "m.index"]


@pytest.mark.parametrize("shards", [1, 2, 3, 5, 12])
def test_shards(tmp_path: Path, shards: int) -> None:
    write_golden(tmp_path / "m")
    write_bundle(tmp_path / "s", open_bundle(tmp_path / "m").stored_order(), shards=shards)
    bundle = open_bundle(tmp_path / "s")
    assert bundle.num_shards == shards
    assert all(path.is_file() for path in bundle.shards)
    assert sum(path.stat().st_size for path in bundle.shards) == len(GOLDEN_DATA)
    assert {name: bundle[name].numpy().tolist() for name in bundle} == {
        name: values for name, (_, values) in GOLDEN_VALUES.items()
    }
    bundle.verify()


def test_shards_are_about_even(tmp_path: Path) -> None:
    tensors = {f"v{number}": ArrayTensor.of(numpy.zeros(100 + number, "float32")) for number in range(40)}
    write_bundle(tmp_path / "s", tensors, shards=4)
    sizes = [path.stat().st_size for path in open_bundle(tmp_path / "s").shards]
    assert max(sizes) - min(sizes) < 1000


def test_more_shards_than_a_process_may_open(tmp_path: Path) -> None:
    import resource

    count = 400
    entries = {}
    for number in range(count):
        entries[b"v%03d" % number] = bundle_entry(INT32, (), struct.pack("<i", number))
        entries[b"v%03d" % number].shard_id = number
    write_raw_bundle(tmp_path / "m", entries, [struct.pack("<i", number) for number in range(count)])
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (350, hard))
    try:
        bundle = open_bundle(tmp_path / "m")
        bundle.verify()
        values = [tensor.numpy() for tensor in bundle.values()]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert [int(value) for value in values] == list(range(count))


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    write_bundle(tmp_path / "s", open_bundle(tmp_path / "m"), shards=3)
    (tmp_path / "s.data-00001-of-00003").unlink()
    with pytest.raises(UnreadableFileError) as caught:
        open_bundle(tmp_path / "s").verify()
    assert caught.value.path == str(tmp_path / "s.data-00001-of-00003")
    assert "s.data-00000-of-00003 to s.data-00002-of-00003" in str(caught.value.remedy)


def test_no_checkpoint_there(tmp_path: Path) -> None:
    with pytest.raises(UnreadableFileError) as caught:
        open_bundle(tmp_path / "nothing")
    assert caught.value.path == str(tmp_path / "nothing.index")


def test_verify_reads_everything_and_tells_how_far(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    steps: list[tuple[int, int]] = []
    open_bundle(tmp_path / "m").verify(lambda done, total: steps.append((done, total)))
    assert steps[-1][0] == len(GOLDEN_DATA) - 3  # the lengths of three strings are read before
    assert {total for _, total in steps} == {len(GOLDEN_DATA)}


@pytest.mark.parametrize(("position", "name"), [(0, "layer/kernel"), (35, "layer/bias"), (45, "words"), (91, "part")])
def test_damaged_values_are_found(tmp_path: Path, position: int, name: str) -> None:
    write_golden(tmp_path / "m")
    data = bytearray(GOLDEN_DATA)
    data[position] ^= 4
    (tmp_path / "m.data-00000-of-00001").write_bytes(data)
    bundle = open_bundle(tmp_path / "m")
    for read in (bundle.verify, bundle[name].numpy):
        with pytest.raises(ChecksumError, match=name) as caught:
            read()
        assert caught.value.path == str(tmp_path / "m.data-00000-of-00001")
        assert "different steps" in str(caught.value) or "another step" in str(caught.value)


def test_a_data_file_of_another_step_is_told(tmp_path: Path) -> None:
    write_golden(tmp_path / "m")
    (tmp_path / "m.data-00000-of-00001").write_bytes(GOLDEN_DATA[:40])
    bundle = open_bundle(tmp_path / "m")
    assert bundle["layer/bias"].numpy().tolist() == [-1.0, 0.5, 2.0]
    with pytest.raises(CorruptFileError, match=r"tensor 'step'.*ends at 40.*different steps"):
        bundle["step"].numpy()


def test_big_endian_values_are_swapped(tmp_path: Path) -> None:
    prefix = tmp_path / "big"
    values = {
        "f": (1, numpy.array([[1.5, -2], [3, 4]], ">f4")),
        "c": (8, numpy.array([1 + 2j, -3j], ">c8")),
        "u": (4, numpy.array([1, 2, 255], "u1")),
        "h": (19, numpy.array(0.5, ">f2")),
        "l": (9, numpy.arange(300_000, dtype=">i8")),
    }
    data, entries = b"", {}
    for name, (number, array) in values.items():
        entries[name.encode()] = bundle_entry(number, array.shape, array.tobytes(), offset=len(data))
        data += array.tobytes()
    lengths_crc = crc32c(struct.pack(">2I", 3, 0))
    stored = struct.pack(">I", mask(lengths_crc)) + b"abc"
    entries[b"s"] = bundle_entry(STRING, (2,), b"\x03\x00" + stored, offset=len(data), crc=extend(lengths_crc, stored))
    data += b"\x03\x00" + stored
    write_raw_bundle(prefix, entries, [data], header(1, big_endian=True))

    bundle = open_bundle(prefix)
    assert bundle.endianness == "big"
    for name, (_, array) in values.items():
        assert bundle[name].numpy().tolist() == array.tolist()
        assert raw(bundle[name]) == array.astype(array.dtype.newbyteorder("<")).tobytes()
    assert bundle["s"].numpy().tolist() == [b"abc", b""]
    bundle.verify()

    write_bundle(tmp_path / "little", bundle)
    little = open_bundle(tmp_path / "little")
    assert little.endianness == "little"
    little.verify()
    for name in bundle:
        assert little[name].numpy().tolist() == bundle[name].numpy().tolist()


@pytest.mark.parametrize(("number", "kind"), [(VARIANT, "variant"), (RESOURCE, "resource"), (99, "unknown_99")])
def test_what_has_no_values_for_us_is_shown_and_copied(tmp_path: Path, number: int, kind: str) -> None:
    element = b"anything"
    crc = crc32c(struct.pack("<Q", len(element)) + element)
    checksum = struct.pack("<I", mask(crc))
    stored = bytes((len(element),)) + element + checksum
    whole = extend(crc, checksum) if number == VARIANT else crc32c(stored)
    write_raw_bundle(tmp_path / "m", {b"v": bundle_entry(number, (1,), stored, crc=whole)}, [stored])
    bundle = open_bundle(tmp_path / "m")
    assert bundle["v"].dtype.name == kind
    assert bundle["v"].shape == Shape((1,))
    bundle.verify()
    with pytest.raises(UnsupportedError, match=kind) as caught:
        bundle["v"].numpy()
    assert caught.value.where == "tensor 'v'"
    with pytest.raises(UnsupportedError):
        raw(bundle["v"])
    write_bundle(tmp_path / "copy", bundle)
    assert (tmp_path / "copy.index").read_bytes() == (tmp_path / "m.index").read_bytes()
    (tmp_path / "m.data-00000-of-00001").write_bytes(stored.replace(b"any", b"AnY"))
    with pytest.raises(ChecksumError):
        open_bundle(tmp_path / "m").verify()


def test_long_strings_are_counted_in_64_bits() -> None:
    from tfsmith.formats.checkpoint.strings import _lengths_crc

    lengths = numpy.array([5, 1 << 32], numpy.uint64)
    assert _lengths_crc(lengths, "little") == crc32c(struct.pack("<IQ", 5, 1 << 32))
    assert _lengths_crc(lengths, "big") == crc32c(struct.pack(">IQ", 5, 1 << 32))


def test_all_kinds_of_tensors_can_be_written(tmp_path: Path) -> None:
    floats = dtype_named("float32")
    values = numpy.arange(6, dtype="float32").reshape(2, 3)
    halves = [Piece((0, 0), ArrayTensor.of(values[:, :1])), Piece((0, 1), ArrayTensor.of(values[:, 1:]))]
    span = SpanTensor(floats, Shape((2, 3)), from_bytes(values.tobytes()))
    tensors: dict[str, Tensor] = {
        "array": ArrayTensor.of(values),
        "fortran": ArrayTensor.of(numpy.asfortranarray(values)),
        "swapped": ArrayTensor(floats, values.astype(">f4")),
        "span": span,
        "span with crc": SpanTensor(floats, span.shape, span.span, mask(crc32c(values.tobytes()))),
        "sliced": SlicedTensor(floats, Shape((2, 3)), tuple(halves)),
    }
    tensors["filled"] = FilledTensor(floats, Shape((2, 3)), values.tobytes()[:8])
    tensors["objects"] = ArrayTensor.of(numpy.array([b"a", "ü", b""], object))
    write_bundle(tmp_path / "m", tensors)
    bundle = open_bundle(tmp_path / "m")
    bundle.verify()
    assert bundle["filled"].numpy().tolist() == [[0, 1, 1], [1, 1, 1]]
    assert bundle["objects"].numpy().tolist() == [b"a", "ü".encode(), b""]
    for name in ("array", "fortran", "swapped", "span", "span with crc", "sliced"):
        assert bundle[name].numpy().tolist() == values.tolist()
        assert bundle.entries[name].masked_crc == bundle.entries["array"].masked_crc


def test_empty_tensors(tmp_path: Path) -> None:
    tensors: dict[str, Tensor] = {
        "none": ArrayTensor.of(numpy.zeros((0, 3), "float32")),
        "no strings": StringTensor(Shape((3, 0)), ()),
    }
    write_bundle(tmp_path / "m", tensors)
    bundle = open_bundle(tmp_path / "m")
    bundle.verify()
    assert bundle["none"].numpy().shape == (0, 3)
    assert bundle["no strings"].numpy().shape == (3, 0)
    write_bundle(tmp_path / "nothing", {})
    assert len(open_bundle(tmp_path / "nothing")) == 0


def test_a_failed_write_leaves_what_was_there(tmp_path: Path) -> None:
    class Broken(StringTensor):
        def numpy(self) -> numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.object_]]:
            return numpy.array([1.5], object)

    write_golden(tmp_path / "m")
    with pytest.raises(UsageError, match="holds a float"), Output(tmp_path / "m", force=True) as output:
        write_bundle(output.aside, {"a": ArrayTensor.of([1.0]), "b": Broken(Shape((1,)), ())})
    assert (tmp_path / "m.index").read_bytes() == GOLDEN_INDEX
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.data-00000-of-00001", "m.index"]
    with pytest.raises(OutputError):
        write_bundle(tmp_path / "no" / "folder", {})


@pytest.mark.parametrize("name", ["", "\x00a", "\ud800"])
def test_names_that_cannot_be_stored(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="name"):
        write_bundle(tmp_path / "m", {name: ArrayTensor.of([1.0])})


@pytest.mark.parametrize("shards", [0, -1, 100_001])
def test_numbers_of_shards_that_make_no_sense(tmp_path: Path, shards: int) -> None:
    with pytest.raises(UsageError):
        write_bundle(tmp_path / "m", {}, shards=shards)


def test_slices_along_any_axis(tmp_path: Path) -> None:
    from tfsmith.formats.checkpoint.slices import encode_slice_key, fill_slice_proto

    whole = numpy.arange(24, dtype="int32").reshape(4, 6)
    extents = [((0, -1), (0, 2)), ((0, 1), (2, 4)), ((1, 3), (2, 4))]
    parts = [whole[:, :2], whole[:1, 2:], whole[1:, 2:]]
    parent = bundle_entry(INT32, (4, 6), b"")
    data, entries = b"", {b"v": parent}
    for extent, part in zip(extents, parts, strict=True):
        fill_slice_proto(parent.slices.add(), extent)
        entries[encode_slice_key("v", extent)] = bundle_entry(INT32, part.shape, part.tobytes(), offset=len(data))
        data += part.tobytes()
    write_raw_bundle(tmp_path / "m", entries, [data])
    bundle = open_bundle(tmp_path / "m")
    tensor = bundle["v"]
    assert isinstance(tensor, StoredSlices)
    assert all(isinstance(part, StoredTensor) for part in tensor.stored())
    assert tensor.numpy().tolist() == whole.tolist()
    assert raw(tensor) == whole.tobytes()
    write_bundle(tmp_path / "copy", bundle)
    assert open_bundle(tmp_path / "copy").entries["v"].slices == tuple(extents)
    assert open_bundle(tmp_path / "copy")["v"].numpy().tolist() == whole.tolist()
