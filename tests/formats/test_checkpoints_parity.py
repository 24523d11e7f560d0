"""Checkpoints against the real TensorFlow: it reads what we write, we read what it writes, and the bytes are equal."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest
from tests.support.table_files import block, entry, raw_table, snappy_compress, table

from tfsmith.formats.checkpoint import read_checkpoint_state, write_checkpoint_state
from tfsmith.formats.checkpoint.bundle import Bundle, StoredSlices, StoredTensor, open_bundle
from tfsmith.formats.checkpoint.table import SortedTable, decompress
from tfsmith.formats.checkpoint.version1 import open_checkpoint_v1
from tfsmith.formats.checkpoint.writer import write_bundle
from tfsmith.ir.tensor import ArrayTensor, StringTensor, Tensor
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.storage import from_bytes, open_file
from tfsmith.wire import fields, parse, read_varint

pytestmark = pytest.mark.tensorflow

PLAIN = [
    *("float32", "float64", "float16", "bfloat16", "complex64", "complex128", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float4_e2m1fn"),
    *("int4", "uint4", "int2", "uint2"),
]
QUANTIZED = {"qint8": "int8", "quint8": "uint8", "qint16": "int16", "quint16": "uint16", "qint32": "int32"}
NOT_IN_V1 = {"qint16", "quint16", "uint32", "uint64", *PLAIN[PLAIN.index("float8_e5m2") :], "bfloat16"}
SHAPES: tuple[tuple[int, ...], ...] = ((), (3, 4), (0, 3), (2, 1, 5))


@pytest.fixture(scope="module")
def tf() -> Iterator[Any]:
    before = os.environ.get("TF_CPP_MIN_LOG_LEVEL")
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    yield tensorflow
    if before is None:
        del os.environ["TF_CPP_MIN_LOG_LEVEL"]
    else:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = before


def arrays() -> dict[str, numpy.ndarray[Any, Any]]:
    """An array of every dtype and shape; what TensorFlow calls a quantized type is a plain one here."""
    random = numpy.random.default_rng(1603)
    found = {}
    for name in [*PLAIN, *QUANTIZED]:
        kind = dtype_named(QUANTIZED.get(name, name)).numpy()
        for number, shape in enumerate(SHAPES):
            values = random.integers(0, 2, shape) if name.endswith(("2", "4")) else random.integers(-2, 100, shape)
            if name.startswith("uint"):
                values = abs(values)
            array = numpy.asarray(values).astype(kind)
            if array.dtype.kind == "c":
                array = array * array.dtype.type(0.5 - 2j)
            found[f"{name}/{number}"] = numpy.asarray(array)
    return found


def as_tensorflow(tf: Any, name: str, array: numpy.ndarray[Any, Any]) -> Any:
    kind = name.partition("/")[0]
    value = tf.constant(array)
    return tf.bitcast(value, tf.as_dtype(kind)) if kind in QUANTIZED else value


def save_v2(tf: Any, prefix: Path, tensors: dict[str, Any], slices: Sequence[str] | None = None) -> None:
    names = [name.partition("@")[0] for name in tensors]
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=names,
        shape_and_slices=slices or [""] * len(names),
        tensors=list(tensors.values()),
    )


def same_files(one: Path, other: Path) -> None:
    for suffix in (".data-00000-of-00001", ".index"):
        assert Path(f"{one}{suffix}").read_bytes() == Path(f"{other}{suffix}").read_bytes(), suffix


def same_values(bundle: Bundle, reader: Any) -> None:
    """Everything that TensorFlow's own reader gives, ours gives too."""
    shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    assert list(bundle) == sorted(shapes, key=str.encode)
    for name, tensor in bundle.items():
        assert tensor.shape.dims == tuple(shapes[name])
        assert tensor.dtype.number == kinds[name].as_datatype_enum
        wanted, found = numpy.asarray(reader.get_tensor(name)), tensor.numpy()
        assert found.shape == wanted.shape
        if tensor.dtype.name == "string":
            assert found.tolist() == wanted.tolist()
        else:
            assert found.tobytes() == wanted.tobytes()
        if not tensor.dtype.name.startswith(("string", "q")):
            assert found.dtype == wanted.dtype


def test_every_dtype_and_shape(tf: Any, tmp_path: Path) -> None:
    values = arrays()
    save_v2(tf, tmp_path / "tf", {name: as_tensorflow(tf, name, array) for name, array in values.items()})
    bundle = open_bundle(tmp_path / "tf")
    same_values(bundle, tf.train.load_checkpoint(str(tmp_path / "tf")))
    bundle.verify()

    ours: dict[str, Tensor] = {
        name: ArrayTensor(dtype_named(name.partition("/")[0]), array) for name, array in values.items()
    }
    write_bundle(tmp_path / "ours", ours)
    same_files(tmp_path / "ours", tmp_path / "tf")
    write_bundle(tmp_path / "copy", bundle.stored_order())
    same_files(tmp_path / "copy", tmp_path / "tf")


WORDS = [b"", "grüße, 世界".encode(), b"\x00\xff\x00", b"x" * 127, b"y" * 128, b"z" * 100_000]


def test_strings(tf: Any, tmp_path: Path) -> None:
    tensors = {
        "vector": tf.constant(WORDS),
        "matrix": tf.constant([WORDS[:3], WORDS[3:]]),
        "scalar": tf.constant(WORDS[1]),
        "empty scalar": tf.constant(b""),
        "none": tf.zeros((0, 3), tf.string),
    }
    save_v2(tf, tmp_path / "tf", tensors)
    bundle = open_bundle(tmp_path / "tf")
    same_values(bundle, tf.train.load_checkpoint(str(tmp_path / "tf")))
    bundle.verify()
    ours: dict[str, Tensor] = {
        "vector": StringTensor(Shape((6,)), WORDS),
        "matrix": StringTensor(Shape((2, 3)), WORDS),
        "scalar": StringTensor(Shape(()), WORDS[1:2]),
        "empty scalar": StringTensor(Shape(()), ()),
        "none": StringTensor(Shape((0, 3)), ()),
    }
    write_bundle(tmp_path / "ours", ours)
    same_files(tmp_path / "ours", tmp_path / "tf")


def test_slices(tf: Any, tmp_path: Path) -> None:
    whole = numpy.arange(24, dtype="float32").reshape(4, 6)
    tensors = {
        "rows@0": tf.constant(whole[:3]),
        "rows@1": tf.constant(whole[3:]),
        "columns@0": tf.constant(whole[:, :2]),
        "columns@1": tf.constant(whole[:, 2:]),
        "one@0": tf.constant(whole),
        "plain": tf.constant(whole),
    }
    slices = ["4 6 0,3:-", "4 6 3,1:-", "4 6 0,4:0,2", "4 6 0,4:2,4", "4 6 0,4:0,6", ""]
    save_v2(tf, tmp_path / "tf", tensors, slices)
    bundle = open_bundle(tmp_path / "tf")
    assert isinstance(bundle["rows"], StoredSlices)
    assert not isinstance(bundle["one"], StoredSlices)
    same_values(bundle, tf.train.load_checkpoint(str(tmp_path / "tf")))
    write_bundle(tmp_path / "copy", bundle.stored_order())
    same_files(tmp_path / "copy", tmp_path / "tf")
    write_bundle(tmp_path / "shards", bundle, shards=4)
    same_values(bundle, tf.train.load_checkpoint(str(tmp_path / "shards")))


def test_an_index_of_many_blocks(tf: Any, tmp_path: Path) -> None:
    names = [f"model/layer_{number}/{'long_' * (number % 13)}kernel" for number in range(12_000)]
    one = numpy.float32(1.5)
    save_v2(tf, tmp_path / "tf", dict.fromkeys(names, tf.constant(one)))
    assert (tmp_path / "tf.index").stat().st_size > 2 * 262144
    write_bundle(tmp_path / "ours", dict.fromkeys(names, ArrayTensor.of(one)))
    same_files(tmp_path / "ours", tmp_path / "tf")
    bundle = open_bundle(tmp_path / "tf")
    assert len(bundle) == len(names)
    bundle.verify()


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_tensorflow_restores_what_we_write(tf: Any, tmp_path: Path, shards: int) -> None:
    values = arrays()
    tensors: dict[str, Tensor] = {
        name: ArrayTensor(dtype_named(name.partition("/")[0]), array) for name, array in values.items()
    }
    tensors["words"] = StringTensor(Shape((6,)), WORDS)
    write_bundle(tmp_path / "m", tensors, shards=shards)
    same_values(open_bundle(tmp_path / "m"), tf.train.load_checkpoint(str(tmp_path / "m")))
    names = list(tensors)
    restored = tf.raw_ops.RestoreV2(
        prefix=str(tmp_path / "m"),
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        dtypes=[tf.as_dtype(tensor.dtype.name) for tensor in tensors.values()],
    )
    for name, tensor in zip(names, restored, strict=True):
        assert tensor.shape == tensors[name].shape.dims
    assert restored[names.index("float32/1")].numpy().tolist() == values["float32/1"].tolist()


def test_checkpoints_merged_by_tensorflow(tf: Any, tmp_path: Path) -> None:
    whole = numpy.arange(12, dtype="int64").reshape(6, 2)
    save_v2(tf, tmp_path / "a", {"a": tf.constant([1.0, 2.0]), "p": tf.constant(whole[:4])}, ["", "6 2 0,4:0,2"])
    save_v2(tf, tmp_path / "b", {"b": tf.constant(["x"]), "p": tf.constant(whole[4:])}, ["", "6 2 4,2:0,2"])
    prefixes = [str(tmp_path / "a"), str(tmp_path / "b")]
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=str(tmp_path / "m"))
    bundle = open_bundle(tmp_path / "m")
    assert bundle.num_shards == 2
    same_values(bundle, tf.train.load_checkpoint(str(tmp_path / "m")))
    bundle.verify()
    write_bundle(tmp_path / "one", bundle)
    same_values(open_bundle(tmp_path / "one"), tf.train.load_checkpoint(str(tmp_path / "m")))


def test_a_variant_is_shown_verified_and_copied(tf: Any, tmp_path: Path) -> None:
    handle = tf.raw_ops.TensorListFromTensor(tensor=tf.constant([[1.0, 2.0]]), element_shape=[2])
    save_v2(tf, tmp_path / "tf", {"list": handle})
    bundle = open_bundle(tmp_path / "tf")
    assert bundle["list"].dtype.name == "variant"
    bundle.verify()
    write_bundle(tmp_path / "copy", bundle)
    same_files(tmp_path / "copy", tmp_path / "tf")


def test_the_checkpoint_of_an_object(tf: Any, tmp_path: Path) -> None:
    model = tf.Module()
    model.kernel = tf.Variable(numpy.arange(6, dtype="float32").reshape(2, 3), name="kernel")
    prefix = tf.train.Checkpoint(model=model, step=tf.Variable(7, dtype=tf.int64)).save(str(tmp_path / "ckpt"))
    bundle = open_bundle(Path(prefix))
    assert "_CHECKPOINTABLE_OBJECT_GRAPH" in bundle
    same_values(bundle, tf.train.load_checkpoint(prefix))
    write_bundle(tmp_path / "copy", bundle.stored_order())
    same_files(tmp_path / "copy", Path(prefix))


def graph_session(tf: Any, save: Any) -> None:
    """Builds a TF1 graph with variables of many kinds, and calls `save(v1, session)`."""
    v1 = tf.compat.v1
    config = v1.ConfigProto(device_count={"CPU": 2})
    with tf.Graph().as_default(), v1.Session(config=config) as session:
        v1.get_variable("scalar", initializer=numpy.float32(3.5), use_resource=False)
        v1.get_variable("ints", initializer=numpy.array([[1, -2], [3, 2**31 - 1]], "int32"), use_resource=False)
        v1.get_variable("longs", initializer=numpy.array([-(2**63), 2**63 - 1]), use_resource=True)
        v1.get_variable("words", initializer=tf.constant(WORDS), use_resource=False)
        v1.get_variable("flags", initializer=numpy.array([True, False]), use_resource=False)
        v1.get_variable("half", initializer=numpy.array([0.5, -2], "float16"), use_resource=False)
        v1.get_variable(
            "parted",
            shape=(5, 3),
            partitioner=v1.fixed_size_partitioner(2),
            initializer=v1.random_normal_initializer(),
            use_resource=False,
        )
        with v1.device("/cpu:1"):
            v1.get_variable("placed", shape=(700, 300), initializer=v1.random_normal_initializer(), use_resource=False)
        session.run(v1.global_variables_initializer())
        save(v1, session)


def graph_values(v1: Any, session: Any) -> dict[str, Any]:
    found = {variable.op.name: session.run(variable) for variable in v1.global_variables()}
    found["parted"] = numpy.concatenate([found.pop("parted/part_0"), found.pop("parted/part_1")])
    return found


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("version", [1, 2])
def test_savers_of_both_versions(tf: Any, tmp_path: Path, version: int, sharded: bool) -> None:
    wanted: dict[str, Any] = {}
    paths: list[str] = []

    def save(v1: Any, session: Any) -> None:
        saver = v1.train.Saver(write_version=version, sharded=sharded)
        paths.append(saver.save(session, str(tmp_path / "m.ckpt"), global_step=7))
        wanted.update(graph_values(v1, session))

    graph_session(tf, save)
    state = read_checkpoint_state(tmp_path)
    assert state.latest == Path(paths[0])
    found: Any = open_bundle(state.latest) if version == 2 else open_checkpoint_v1(state.latest)
    assert list(found) == sorted(wanted)
    files = found.shards if version == 2 else found.files
    assert len(files) == (2 if sharded else 1)
    for name, values in wanted.items():
        assert found[name].numpy().tolist() == values.tolist()
        assert found[name].numpy().shape == values.shape
    found.verify()
    if version == 1:
        assert open_checkpoint_v1(tmp_path / "m.ckpt-7").files == found.files
        write_bundle(tmp_path / "converted", found)
        same_values(open_bundle(tmp_path / "converted"), tf.train.load_checkpoint(str(tmp_path / "converted")))


def test_v1_of_every_dtype(tf: Any, tmp_path: Path) -> None:
    for name, array in arrays().items():
        path = tmp_path / "m"
        try:
            tf.raw_ops.Save(filename=str(path), tensor_names=["x"], data=[as_tensorflow(tf, name, array)])
        except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError):
            assert name.partition("/")[0] in NOT_IN_V1
            continue
        found = open_checkpoint_v1(path)["x"]
        assert found.dtype.name == name.partition("/")[0]
        assert found.numpy().shape == array.shape
        assert found.numpy().tobytes() == array.tobytes()


def test_v1_of_several_shards(tf: Any, tmp_path: Path) -> None:
    whole = numpy.arange(24, dtype="float64").reshape(4, 6)
    for shard, (text, part) in enumerate((("4 6 0,3:-", whole[:3]), ("4 6 3,1:-", whole[3:]))):
        tf.raw_ops.SaveSlices(
            filename=str(tmp_path / f"m-{shard:05d}-of-00002"),
            tensor_names=["p", f"own{shard}"],
            shapes_and_slices=[text, ""],
            data=[tf.constant(part), tf.constant([shard])],
        )
    checkpoint = open_checkpoint_v1(tmp_path / "m")
    assert {name: tensor.numpy().tolist() for name, tensor in checkpoint.items()} == {
        "own0": [0],
        "own1": [1],
        "p": whole.tolist(),
    }


def test_tables_with_large_values_are_written_as_tensorflow_does(tf: Any, tmp_path: Path) -> None:
    sizes = (10, 70_000, 131_072, 300_000, 5, 140_000, 1)
    tf.raw_ops.Save(
        filename=str(tmp_path / "m"),
        tensor_names=[f"v{at}" for at in range(len(sizes))],
        data=[tf.ones(size) for size in sizes],
    )
    entries = list(SortedTable(open_file(tmp_path / "m")).entries())
    assert table(entries) == (tmp_path / "m").read_bytes()
    found = open_checkpoint_v1(tmp_path / "m")
    assert [found[name].numpy().size for name in found] == list(sizes)
    assert all((tensor.numpy() == 1).all() for tensor in found.values())


def test_the_state_file_is_that_of_tensorflow(tf: Any, tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for folder in (ours, theirs):
        folder.mkdir()
    names = ['a "b" \\ ü\t1', "model.ckpt-2", "model.ckpt-3"]
    times = [1731640000.123456, 1731640001.0, 2e9]
    for kept in (0, 2, 3):
        chosen, stamps = names[:kept], times[: max(kept, 1)] if kept != 2 else []
        tf.compat.v1.train.update_checkpoint_state(
            str(theirs),
            str(theirs / names[2]),
            [str(theirs / name) for name in chosen],
            all_model_checkpoint_timestamps=stamps or None,
            last_preserved_timestamp=stamps[0] if stamps else None,
        )
        text = (theirs / "checkpoint").read_text().replace(f"{theirs}/", "")
        write_checkpoint_state(
            ours, names[2], chosen, timestamps=stamps, last_preserved_timestamp=stamps[0] if stamps else None
        )
        assert (ours / "checkpoint").read_text() == text
        state = read_checkpoint_state(theirs)
        assert state.latest == theirs / names[2]
        read = tf.train.get_checkpoint_state(str(ours))
        assert read.model_checkpoint_path == str(ours / names[2])
        assert [Path(path) for path in read.all_model_checkpoint_paths] == list(read_checkpoint_state(ours).all)


def test_snappy_of_tensorflow(tf: Any, tmp_path: Path) -> None:
    """TensorFlow compresses elements of a dataset with the same Snappy; they can be saved as variants."""
    from tensorflow.python.data.experimental.ops import compression_ops

    array = numpy.concatenate([numpy.arange(20_000, dtype="int32") // 7, numpy.zeros(50_000, "int32")])
    save_v2(tf, tmp_path / "m", {"x": compression_ops.compress(tf.constant(array))})
    tensor = open_bundle(tmp_path / "m")["x"]
    assert isinstance(tensor, StoredTensor)
    stored = tensor.stored()
    _, start = read_varint(stored.view(), 0, len(stored), "m")
    variant = parse("VariantTensorDataProto", stored.sub(start, len(stored) - 4))
    (packed, *_) = fields(from_bytes(variant.metadata))  # CompressedElement.data
    plain = decompress(variant.metadata[packed.start : packed.stop])
    assert packed.number == 1
    assert plain == array.tobytes()


def test_tensorflow_reads_compressed_tables_as_we_do(tf: Any, tmp_path: Path) -> None:
    """Proves the tests' own compressor, and with it our reader, against TensorFlow's."""
    names = [f"layer_{number}/kernel" for number in range(300)]
    save_v2(tf, tmp_path / "m", {name: tf.constant(float(at)) for at, name in enumerate(names)})
    plain = block(
        b"".join(entry(0, key, value) for key, value in SortedTable(open_file(tmp_path / "m.index")).entries())
    )
    (tmp_path / "m.index").write_bytes(raw_table([(b"m", snappy_compress(plain))], kind=1))
    same_values(open_bundle(tmp_path / "m"), tf.train.load_checkpoint(str(tmp_path / "m")))
