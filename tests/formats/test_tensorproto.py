"""TensorProto in all its forms: raw bytes, lists, a last value that repeats, bit patterns, strings."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy
import pytest
from numpy.typing import NDArray

from tfsmith.errors import CorruptFileError, InvalidModelError, LimitError, TfsmithError, UnsupportedError
from tfsmith.formats.graph import plan_tensor, shape_from_message, tensor_from_message, tensor_from_span
from tfsmith.formats.graph.nodes import attr_from_message
from tfsmith.ir.tensor import (
    ArrayTensor,
    FilledTensor,
    OpaqueTensor,
    SpanTensor,
    StringTensor,
    Tensor,
)
from tfsmith.ir.types import UNKNOWN, Shape, dtype, dtype_named
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import new, parse

Read = Callable[[Any], Tensor]


def _from_span(message: Any) -> Tensor:
    return tensor_from_span(from_bytes(message.SerializeToString()))


@pytest.fixture(params=["message", "span"])
def read(request: pytest.FixtureRequest) -> Read:
    """Both readers must agree."""
    return tensor_from_message if request.param == "message" else _from_span


def _proto(kind: str, dims: tuple[int, ...] = (), **values: Any) -> Any:
    message = new("TensorProto")
    message.dtype = dtype_named(kind).number
    message.tensor_shape.SetInParent()
    for dim in dims:
        message.tensor_shape.dim.add(size=dim)
    for field, value in values.items():
        if isinstance(value, bytes):
            setattr(message, field, value)
        else:
            getattr(message, field).extend(value)
    return message


LISTS: list[tuple[str, str, list[Any], list[Any]]] = [
    ("float32", "float_val", [1.5, -2.0], [1.5, -2.0]),
    ("float64", "double_val", [1e300, 2.0], [1e300, 2.0]),
    ("int32", "int_val", [-5, 2**31 - 1], [-5, 2**31 - 1]),
    ("int16", "int_val", [-5, 70000], [-5, 70000 - 65536]),
    ("int8", "int_val", [-128, 127], [-128, 127]),
    ("uint8", "int_val", [255, 1], [255, 1]),
    ("uint16", "int_val", [65535, 1], [65535, 1]),
    ("int64", "int64_val", [-(2**63), 5], [-(2**63), 5]),
    ("uint32", "uint32_val", [2**32 - 1, 5], [2**32 - 1, 5]),
    ("uint64", "uint64_val", [2**64 - 1, 5], [2**64 - 1, 5]),
    ("bool", "bool_val", [True, False], [True, False]),
    ("complex64", "scomplex_val", [1.0, 2.0, 3.0, -4.0], [1 + 2j, 3 - 4j]),
    ("complex128", "dcomplex_val", [1.0, 2.0, 3.0, -4.0], [1 + 2j, 3 - 4j]),
    ("float16", "half_val", [0x3C00, 0xC000], [1.0, -2.0]),
    ("bfloat16", "half_val", [0x3F80, 0xC000], [1.0, -2.0]),
    ("qint8", "int_val", [-3, 3], [-3, 3]),
    ("quint8", "int_val", [200, 3], [200, 3]),
    ("qint16", "int_val", [-300, 3], [-300, 3]),
    ("quint16", "int_val", [60000, 3], [60000, 3]),
    ("qint32", "int_val", [-70000, 3], [-70000, 3]),
    ("int4", "int_val", [-8, 7], [-8, 7]),
    ("uint4", "int_val", [15, 1], [15, 1]),
]


@pytest.mark.parametrize(("kind", "field", "stored", "values"), LISTS)
def test_lists(read: Read, kind: str, field: str, stored: list[Any], values: list[Any]) -> None:
    tensor = read(_proto(kind, (2,), **{field: stored}))
    assert (tensor.dtype.name, tensor.shape) == (kind, Shape((2,)))
    array = tensor.numpy()
    assert array.dtype == dtype_named(kind).numpy()
    assert array.tolist() == [dtype_named(kind).numpy().type(value) for value in values]
    assert not array.flags.writeable


@pytest.mark.parametrize(("kind", "field", "stored", "values"), LISTS)
def test_last_value_repeats(read: Read, kind: str, field: str, stored: list[Any], values: list[Any]) -> None:
    array = read(_proto(kind, (2, 3), **{field: stored})).numpy()
    assert array.reshape(-1).tolist() == [
        dtype_named(kind).numpy().type(value) for value in [*values, *[values[-1]] * 4]
    ]


@pytest.mark.parametrize(("kind", "field", "stored", "values"), LISTS)
def test_lists_are_written_as_they_were(
    read: Read, kind: str, field: str, stored: list[Any], values: list[Any]
) -> None:
    message = _proto(kind, (5,), **{field: stored})
    again = parse("TensorProto", plan_tensor(read(message)).tobytes())
    assert read(again).numpy().tolist() == read(message).numpy().tolist()
    if (kind, stored) != ("int16", [-5, 70000]):  # the number that does not fit comes back as what it meant
        assert again == message


@pytest.mark.parametrize(
    "kind", ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz"]
)
def test_float8(read: Read, kind: str) -> None:
    values = numpy.array([1.0, -2.0, 0.5], getattr(ml_dtypes, kind))
    tensor = read(_proto(kind, (4,), float8_val=values.tobytes()))
    assert tensor.numpy().astype(float).tolist() == [1.0, -2.0, 0.5, 0.5]
    assert parse("TensorProto", plan_tensor(tensor).tobytes()) == _proto(kind, (4,), float8_val=values.tobytes())


def test_content(read: Read) -> None:
    tensor = read(_proto("int16", (2, 2), tensor_content=struct.pack("<4h", 1, -2, 3, -4)))
    assert isinstance(tensor, SpanTensor)
    assert tensor.numpy().tolist() == [[1, -2], [3, -4]]
    assert tensor.nbytes == 8
    assert not tensor.numpy().flags.writeable


@pytest.mark.parametrize("size", [0, 3, 5, 8])
def test_content_of_another_size_is_refused(read: Read, size: int) -> None:
    with pytest.raises(InvalidModelError, match=r"a tensor has \d+ bytes, but int16 \[2\] takes 4"):
        read(_proto("int16", (2,), tensor_content=bytes(size))) if size else read(
            parse("TensorProto", _proto("int16", (2,)).SerializeToString() + b"\x22\x06" + bytes(6))
        )


def test_content_wins_over_a_list(read: Read) -> None:
    message = _proto("float32", (1,), tensor_content=struct.pack("<f", 2.0), float_val=[1.0])
    assert read(message).numpy().tolist() == [2.0]


def test_no_values_are_zeros(read: Read) -> None:
    assert read(_proto("float32", (2, 2))).numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert read(_proto("bool")).numpy().tolist() is False
    assert read(_proto("string", (2,))).numpy().tolist() == [b"", b""]
    assert read(_proto("complex64", (1,))).numpy().tolist() == [0j]


def test_more_values_than_elements_do_not_count(read: Read) -> None:
    assert read(_proto("float32", (2,), float_val=[1.0, 2.0, 3.0])).numpy().tolist() == [1.0, 2.0]
    assert read(_proto("float32", (0, 3), float_val=[1.0])).numpy().shape == (0, 3)
    assert read(_proto("complex64", (2,), scomplex_val=[1.0, 2.0, 9.0])).numpy().tolist() == [1 + 2j, 1 + 2j]
    assert read(_proto("string", (1,), string_val=[b"a", b"b"])).numpy().tolist() == [b"a"]


def test_empty_shapes(read: Read) -> None:
    for kind in ("float32", "string", "bool", "bfloat16"):
        tensor = read(_proto(kind, (0,)))
        assert tensor.numpy().shape == (0,)
        assert tensor.nbytes == 0


def test_strings(read: Read) -> None:
    tensor = read(_proto("string", (2, 2), string_val=[b"\xff\x00", b"last"]))
    assert isinstance(tensor, StringTensor)
    assert tensor.numpy().tolist() == [[b"\xff\x00", b"last"], [b"last", b"last"]]
    assert tensor.dtype.name == "string"
    assert tensor.nbytes == 6
    message = _proto("string", (2, 2), string_val=[b"\xff\x00", b"last"])
    assert parse("TensorProto", plan_tensor(tensor).tobytes()) == message


def test_strings_in_content(read: Read) -> None:
    """TensorFlow's C++ may put strings there: their lengths as varints, then the strings."""
    long = b"x" * 300
    tensor = read(_proto("string", (3,), tensor_content=b"\x01\x00\xac\x02" + b"a" + long))
    assert tensor.numpy().tolist() == [b"a", b"", long]


@pytest.mark.parametrize("content", [b"\x01\x00\x01", b"\x01\x00\x00ab", b"\x80", b"\x05\x05", b"\xff" * 30])
def test_damaged_strings_in_content(read: Read, content: bytes) -> None:
    with pytest.raises((InvalidModelError, CorruptFileError)):
        read(_proto("string", (3,), tensor_content=content))


def test_raw_bytes_and_float_lists_stay_in_the_file() -> None:
    for message in (
        _proto("float32", (3,), tensor_content=struct.pack("<3f", 1, 2, 3)),
        _proto("float32", (3,), float_val=[1.0, 2.0, 3.0]),
        _proto("float64", (3,), double_val=[1.0, 2.0, 3.0]),
        _proto("complex64", (3,), scomplex_val=[1.0, 0.0, 2.0, 0.0, 3.0, 0.0]),
    ):
        span = from_bytes(message.SerializeToString())
        tensor = tensor_from_span(span)
        assert isinstance(tensor, SpanTensor)
        assert tensor.span.source is span.source
        assert tensor.numpy().tolist() == [1, 2, 3]


def test_lists_that_are_not_packed() -> None:
    """Old writers give each number a tag of its own."""
    data = _proto("float32", (3,)).SerializeToString() + b"".join(b"\x2d" + struct.pack("<f", v) for v in (1, 2, 3))
    assert tensor_from_span(from_bytes(data)).numpy().tolist() == [1.0, 2.0, 3.0]


def test_messages_in_parts() -> None:
    first = _proto("float32", (2,)).SerializeToString()
    second = _proto("float32", (3,), tensor_content=struct.pack("<6f", *range(6))).SerializeToString()
    tensor = tensor_from_span(from_bytes(first + second))
    assert tensor.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("number", [-1, 500, 2**31 - 1])
def test_types_that_nobody_knows(read: Read, number: int) -> None:
    message = new("TensorProto")
    message.dtype = number
    message.tensor_content = b"1234"
    tensor = read(message)
    assert isinstance(tensor, OpaqueTensor)
    assert tensor.dtype == dtype(number)
    with pytest.raises(UnsupportedError, match="whose values only TensorFlow can read"):
        tensor.numpy()
    with pytest.raises(UnsupportedError):
        tensor.parts()


@pytest.mark.parametrize("dims", [(-1,), (3, -5)])
def test_unknown_dimensions_are_refused(read: Read, dims: tuple[int, ...]) -> None:
    with pytest.raises(InvalidModelError, match="has the impossible shape"):
        read(_proto("float32", dims, float_val=[1.0]))


def test_too_many_dimensions_are_refused(read: Read) -> None:
    with pytest.raises(InvalidModelError, match="impossible shape"):
        read(_proto("float32", (1,) * 255, float_val=[1.0]))
    tensor = read(_proto("float32", (1,) * 200, float_val=[1.0]))
    with pytest.raises(UnsupportedError, match="numpy has no array"):
        tensor.numpy()


@pytest.mark.parametrize("dims", [(2**40,), (2**62,)])
def test_claims_of_a_few_bytes_are_not_believed(read: Read, dims: tuple[int, ...]) -> None:
    for message in (_proto("float32", dims, float_val=[1.0]), _proto("string", dims, string_val=[b"x"])):
        tensor = read(message)
        with pytest.raises(LimitError, match="claims"):
            tensor.numpy()
    tensor = read(_proto("float32", dims, float_val=[1.0]))
    with pytest.raises(LimitError):
        next(tensor.parts())


def test_zero_elements_of_an_impossible_shape(read: Read) -> None:
    with pytest.raises(UnsupportedError, match="numpy has no array"):
        read(_proto("float32", (0, 2**62, 2**62))).numpy()


def test_large_fill_takes_no_memory(read: Read) -> None:
    array = read(_proto("float32", (1000, 1000, 1000), float_val=[2.0])).numpy()
    assert array.shape == (1000, 1000, 1000)
    assert array.strides == (0, 0, 0)


@pytest.mark.parametrize("data", [b"\x08", b"\x12\x05a", b"\x22\xff\xff\xff\xff\x0f", b"\x0b"])
def test_damaged_messages(data: bytes) -> None:
    with pytest.raises(TfsmithError):
        tensor_from_span(from_bytes(data))


def test_shapes() -> None:
    message = new("TensorShapeProto")
    assert shape_from_message(message) == Shape(())
    message.unknown_rank = True
    assert shape_from_message(message) is not UNKNOWN
    assert shape_from_message(message) == UNKNOWN


# Writing


def _planned(values: Any, kind: str | None = None) -> Any:
    tensor = ArrayTensor.of(values, None if kind is None else dtype_named(kind))
    return parse("TensorProto", plan_tensor(tensor).tobytes())


def test_scalars_go_into_lists_and_the_rest_into_content() -> None:
    assert _planned(numpy.float32(1.5)) == _proto("float32", (), float_val=[1.5])
    assert _planned(numpy.array([1.5], numpy.float32)) == _proto("float32", (1,), float_val=[1.5])
    assert _planned(numpy.array([1.5, 2], numpy.float32)) == _proto(
        "float32", (2,), tensor_content=struct.pack("<2f", 1.5, 2)
    )
    assert _planned([True, False]) == _proto("bool", (2,), bool_val=[True, False])
    assert _planned(numpy.array([1 + 2j, 3], numpy.complex64)) == _proto(
        "complex64", (2,), scomplex_val=[1.0, 2.0, 3.0, 0.0]
    )
    assert _planned([["a"], ["b"]]) == _proto("string", (2, 1), string_val=[b"a", b"b"])
    assert _planned([-1, 2], "int4") == _proto("int4", (2,), int_val=[-1, 2])
    assert _planned(numpy.zeros((0, 3), numpy.float32)) == _proto("float32", (0, 3))


def test_values_in_a_file_stay_there() -> None:
    span = from_bytes(bytes(range(64)))
    plan = plan_tensor(SpanTensor(dtype_named("float32"), Shape((4, 4)), span))
    assert any(isinstance(part, Span) and part.source is span.source for part in plan.parts())


def test_array_in_another_byte_order_or_layout() -> None:
    array: NDArray[Any] = numpy.arange(6, dtype=">i4").reshape(2, 3).T
    assert b"".join(
        part.tobytes() if not isinstance(part, bytes) else part for part in ArrayTensor.of(array).parts()
    ) == (struct.pack("<6i", 0, 3, 1, 4, 2, 5))


def test_strings_in_an_array_are_not_pointers() -> None:
    tensor = ArrayTensor.of(numpy.array([b"a\x00", "ü"], object))
    assert list(tensor.parts()) == [b"a\x00", "ü".encode()]
    assert ArrayTensor.of([b"a\x00"]).numpy().tolist() == [b"a\x00"]
    assert ArrayTensor.of("text").shape == Shape(())


def test_filled_parts_are_all_values() -> None:
    tensor = FilledTensor(dtype_named("int16"), Shape((700_000,)), struct.pack("<2h", 1, 2))
    data = b"".join(bytes(part) for part in tensor.parts() if isinstance(part, bytes))
    assert data == struct.pack("<h", 1) + struct.pack("<h", 2) * 699_999
    with pytest.raises(InvalidModelError, match="do not fit"):
        FilledTensor(dtype_named("int16"), Shape((1,)), b"123")


def test_sizes_that_grappler_numbered_are_unknown() -> None:
    """It notes them down at nodes, and TensorFlow reads of such notes only `_output_shapes`."""
    message = new("AttrValue")
    for size in (-36, 32):
        message.shape.dim.add(size=size)
    found = attr_from_message(message, "_input_shapes")
    assert found.value == Shape((-1, 32))
    for name in ("shape", "_output_shapes"):
        with pytest.raises(InvalidModelError, match="dimension of -36"):
            attr_from_message(message, name)
