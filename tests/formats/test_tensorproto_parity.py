"""TensorProto against the real TensorFlow, both ways, for all dtypes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
from numpy.typing import NDArray

from tfsmith.formats.graph import plan_tensor, tensor_from_message, tensor_from_span
from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.ir.types import dtype, dtype_named
from tfsmith.storage import from_bytes
from tfsmith.wire import parse

pytestmark = pytest.mark.tensorflow

KINDS = [dtype(number).name for number in range(1, 34) if number not in (20, 21)]
SHAPES: list[tuple[int, ...]] = [(), (1,), (0,), (0, 3), (2, 3), (3,), (1, 1, 1), (5000,)]
# TensorFlow has no list for these: a single value of them cannot be made at all.
_NO_LIST = {"float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"}


def _values(kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    random = numpy.random.default_rng(7)
    if kind == "string":
        flat = numpy.empty(int(numpy.prod(shape)), object)
        flat[:] = [b"\xff\x00" + str(number).encode() for number in range(flat.size)]
        return flat.reshape(shape)
    target = dtype_named(kind).numpy()
    if kind.startswith("complex"):
        return numpy.asarray(random.normal(size=shape) + 1j * random.normal(size=shape)).astype(target)
    if kind == "bool":
        return numpy.asarray(random.integers(0, 2, shape) == 1)
    if "float" in kind:
        return numpy.asarray(random.normal(size=shape)).astype(target)
    low = 0 if "uint" in kind else -1
    return numpy.asarray(random.integers(low, 2, shape)).astype(target)


def _same(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Equal in shape, type and value. Quantized types are plain integers to us; half-bytes have spare bits."""
    if ours.dtype == object or ours.dtype.itemsize != theirs.dtype.itemsize:
        return ours.shape == theirs.shape and ours.tolist() == theirs.tolist()
    if theirs.dtype.names:
        theirs = theirs[theirs.dtype.names[0]]
    if ours.dtype.name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
        return ours.shape == theirs.shape and ours.astype(float).tolist() == theirs.astype(float).tolist()
    return ours.shape == theirs.shape and ours.dtype == theirs.dtype and ours.tobytes() == theirs.tobytes()


def _read(message: Any) -> Iterator[Tensor]:
    data = message.SerializeToString()
    yield tensor_from_message(parse("TensorProto", data))
    yield tensor_from_span(from_bytes(data))


CASES = [(kind, shape) for kind in KINDS for shape in SHAPES if kind not in _NO_LIST or numpy.prod(shape) > 1]


@pytest.mark.parametrize(("kind", "shape"), CASES, ids=str)
def test_made_and_read_alike(kind: str, shape: tuple[int, ...]) -> None:
    import tensorflow as tf

    values = _values(kind, shape)
    theirs = tf.make_tensor_proto(values, tf.as_dtype(dtype_named(kind).number), shape)
    ours = type(theirs).FromString(plan_tensor(ArrayTensor.of(values, dtype_named(kind))).tobytes())
    assert ours == theirs
    assert ours.SerializeToString(deterministic=True) == theirs.SerializeToString(deterministic=True)
    for tensor in _read(theirs):
        assert _same(tensor.numpy(), tf.make_ndarray(theirs))
        again = type(theirs).FromString(plan_tensor(tensor).tobytes())
        assert again == theirs


FORMS: list[tuple[str, int, str, list[Any]]] = [
    ("float32", 4, "float_val", [1.5, -2.0]),
    ("float64", 4, "double_val", [1.5]),
    ("int32", 4, "int_val", [7, -7]),
    ("int16", 3, "int_val", [70000, -3]),
    ("uint8", 3, "int_val", [255, 256]),
    ("int8", 3, "int_val", [200]),
    ("uint16", 3, "int_val", [65535]),
    ("int64", 3, "int64_val", [-(2**63), 5]),
    ("uint32", 3, "uint32_val", [2**32 - 1]),
    ("uint64", 3, "uint64_val", [2**64 - 1]),
    ("bool", 3, "bool_val", [True]),
    ("complex64", 3, "scomplex_val", [1.0, 2.0]),
    ("complex64", 3, "scomplex_val", [1.0, 2.0, 3.0]),
    ("complex128", 3, "dcomplex_val", [1.0, 2.0, 3.0, 4.0]),
    ("float16", 3, "half_val", [0x3C00, 0xC000]),
    ("bfloat16", 3, "half_val", [0x3F80, 0xC000]),
    ("string", 3, "string_val", [b"a", b"b"]),
    ("qint8", 3, "int_val", [-3]),
    ("quint8", 3, "int_val", [200]),
    ("qint16", 3, "int_val", [-300]),
    ("quint16", 3, "int_val", [60000]),
    ("qint32", 3, "int_val", [-70000]),
    ("float32", 2, "float_val", [1.0, 2.0, 3.0]),
    ("float32", 3, "float_val", []),
    ("string", 2, "string_val", []),
]


@pytest.mark.parametrize(("kind", "count", "field", "values"), FORMS)
def test_lists_mean_what_tensorflow_makes_of_them(kind: str, count: int, field: str, values: list[Any]) -> None:
    """Lists that are short, long, empty, or hold what does not fit: as TensorFlow's own runtime reads them."""
    import tensorflow as tf

    proto = tf.make_tensor_proto(0).__class__()
    proto.dtype = dtype_named(kind).number
    proto.tensor_shape.dim.add(size=count)
    getattr(proto, field).extend(values)
    wanted = tf.io.parse_tensor(proto.SerializeToString(), tf.as_dtype(proto.dtype)).numpy()
    for tensor in _read(proto):
        assert _same(tensor.numpy(), wanted)


def test_strings_in_content_mean_what_tensorflow_makes_of_them() -> None:
    import tensorflow as tf

    proto = tf.make_tensor_proto(0).__class__()
    proto.dtype = 7
    proto.tensor_shape.dim.add(size=3)
    proto.tensor_content = b"\x01\x00\xac\x02" + b"a" + b"x" * 300
    wanted = tf.io.parse_tensor(proto.SerializeToString(), tf.string).numpy().tolist()
    assert wanted == [b"a", b"", b"x" * 300]
    for tensor in _read(proto):
        assert tensor.numpy().tolist() == wanted


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "int64", "complex64", "string", "bool", "uint16"])
def test_what_the_runtime_serializes_is_read(kind: str) -> None:
    """TensorFlow's C++ chooses its own form."""
    import tensorflow as tf

    for shape in ((), (2, 2), (0,), (700,)):
        values = _values(kind, shape)
        data = tf.io.serialize_tensor(tf.constant(values, tf.as_dtype(dtype_named(kind).number), shape)).numpy()
        for tensor in (tensor_from_message(parse("TensorProto", data)), tensor_from_span(from_bytes(data))):
            assert _same(tensor.numpy(), values)


def test_constants_of_a_graph() -> None:
    """Const nodes as TensorFlow puts them into graphs, ones that repeat a value too."""
    import tensorflow as tf

    import tfsmith

    with tf.Graph().as_default() as graph:
        for number, kind in enumerate(KINDS):
            if kind not in _NO_LIST:
                tf.constant(_values(kind, (2, 3)), tf.as_dtype(dtype_named(kind).number), name=f"c{number}")
        tf.constant(5.0, shape=[1000, 10], name="filled")
        tf.zeros([3000], name="zeros")
    graph_def = graph.as_graph_def()
    model = tfsmith.load(graph_def)
    for node in graph_def.node:
        if node.op == "Const":
            wanted = tf.make_ndarray(node.attr["value"].tensor)
            assert _same(model.graph[node.name].get("value").numpy(), wanted), node.name
    assert "filled" in model.graph
