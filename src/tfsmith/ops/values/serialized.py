"""Values of tensors as texts: serialized ones, sparse ones that are serialized, and compressed bytes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.errors import TfsmithError
from tfsmith.ir.types import DType, as_dtype, dtype
from tfsmith.limits import MAX_FILLED_BYTES
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import check
from tfsmith.ops.values.sparse import check_sparse
from tfsmith.ops.values.strings import texts
from tfsmith.wire import VARINT, encode_field, encode_varint, parse, read_varint, tag

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_LISTS = MappingProxyType(
    {
        "float32": "float_val",
        "float64": "double_val",
        "int64": "int64_val",
        "bool": "bool_val",
        "complex64": "scomplex_val",
        "complex128": "dcomplex_val",
        "uint32": "uint32_val",
        "uint64": "uint64_val",
        "float16": "half_val",
        "bfloat16": "half_val",
        "string": "string_val",
    }
)
"""Where a TensorProto keeps values of a type; all others are in `int_val`."""


@value("SerializeTensor")
def _serialize_tensor(x: NDArray[Any], *, T: DType) -> Any:
    return texts([_proto(x, T)], ())


@value("ParseTensor")
def _parse_tensor(serialized: NDArray[Any], *, out_type: DType) -> Any:
    check(serialized.ndim == 0, f"a scalar is needed, not shape {list(serialized.shape)}")
    return _tensor(serialized.item(), out_type)


def _proto(x: NDArray[Any], kind: DType, *, listed: bool = True) -> bytes:
    """A TensorProto as TensorFlow's kernels write it: the bytes of numbers, and a list of strings, or their lengths
    and then the strings."""
    sizes = b"".join(
        encode_field(2, tag(1, VARINT) + encode_varint(size) if size else b"") for size in x.shape
    )  # 0 is not written
    head = tag(1, VARINT) + encode_varint(kind.number) + encode_field(2, sizes)
    if kind.name == "string":
        words = x.reshape(-1).tolist()
        if listed:
            return head + b"".join(encode_field(8, one) for one in words)
        content = b"".join([*(encode_varint(len(one)) for one in words), *words])
        return head + encode_field(4, content) if words else head
    return head + encode_field(4, numpy.ascontiguousarray(x).tobytes()) if x.size else head


def _tensor(data: bytes, kind: DType) -> NDArray[Any]:
    """What a TensorProto holds.

    Raises:
        OpError: It is none, or holds another type.
    """
    try:
        proto = parse("TensorProto", data)
        found = dtype(proto.dtype)
    except TfsmithError as error:
        raise OpError("the text is no serialized tensor") from error
    check(found == kind, f"the serialized tensor is {found}, not {kind}")
    shape = [int(one.size) for one in proto.tensor_shape.dim]
    check(not proto.tensor_shape.unknown_rank and all(size >= 0 for size in shape), "its shape is not known")
    count = 1
    for size in shape:
        count *= size
    check(count * max(kind.itemsize, 1) <= MAX_FILLED_BYTES, f"a tensor of shape {shape} is too large")
    if proto.tensor_content and kind.name == "string":
        return texts(_words(proto.tensor_content, count), shape)
    if proto.tensor_content:
        check(len(proto.tensor_content) == count * kind.itemsize, f"its bytes do not fit shape {shape}")
        return numpy.frombuffer(proto.tensor_content, kind.numpy()).reshape(shape)
    return _listed(list(getattr(proto, _LISTS.get(kind.name, "int_val"))), kind, count).reshape(shape)


def _words(content: bytes, count: int) -> list[bytes]:
    """So many strings: their lengths, then the strings."""
    view = memoryview(content)
    at, lengths, found = 0, [], []
    try:
        for _ in range(count):
            length, at = read_varint(view, at, len(view), "<serialized tensor>")
            lengths.append(length)
    except TfsmithError as error:
        raise OpError("the text is no serialized tensor") from error
    check(at + sum(lengths) == len(content), "the text is no serialized tensor")
    for length in lengths:
        found.append(content[at : at + length])
        at += length
    return found


def _listed(values: list[Any], kind: DType, count: int) -> NDArray[Any]:
    """The values of a list; the last one repeats."""
    if kind.name == "string":
        return texts([*values[:count], *[values[-1] if values else b""] * (count - len(values))], (count,))
    held = kind.numpy()
    if kind.name in ("float16", "bfloat16"):
        found = numpy.array(values, numpy.uint16).view(held)
    elif held.kind == "c":
        found = numpy.array(values, held.type(0).real.dtype).view(held)
    else:
        found = numpy.array(values, numpy.int64 if held.kind == "i" else None).astype(held)
    rest = numpy.full(max(count - len(found), 0), found[-1] if len(found) else 0, held)
    return numpy.concatenate([found[:count], rest])


# Sparse tensors: three texts, or three tensors in a variant


@value("SerializeSparse")
def _serialize_sparse(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], *, T: DType, out_type: DType
) -> Any:
    check_sparse(indices, values, shape)
    return _three((indices, values, shape), T, out_type)


@value("SerializeManySparse")
def _serialize_many(
    indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any], *, T: DType, out_type: DType
) -> Any:
    check_sparse(indices, values, shape)
    check(len(shape) > 1, "a batch of sparse tensors has at least two axes")
    rows = indices[:, 0]
    check(bool((numpy.diff(rows) >= 0).all()), "the rows are out of order")
    check(not len(rows) or (rows[0] >= 0 and rows[-1] < shape[0]), f"a row is not one of {int(shape[0])}")
    found = numpy.empty((int(shape[0]), 3), object)
    for row in range(len(found)):
        here = slice(*numpy.searchsorted(rows, [row, row + 1]))
        found[row] = _three((indices[here, 1:], values[here], shape[1:]), T, out_type)
    return found


def _three(parts: Sequence[NDArray[Any]], kind: DType, form: DType) -> NDArray[Any]:
    whole = as_dtype("int64")
    found = numpy.empty(3, object)
    for place, (one, held) in enumerate(zip(parts, (whole, kind, whole), strict=True)):
        found[place] = _proto(one, held, listed=False) if form.name == "string" else _Held(one)
    return found


class _Held:
    """A tensor as one element of a tensor of variants."""

    def __init__(self, array: NDArray[Any]) -> None:
        self.array = array


@value("DeserializeManySparse")
def _deserialize_many(serialized: NDArray[Any], *, dtype: DType) -> Any:
    check(serialized.ndim == 2, f"a matrix of texts is needed, not shape {list(serialized.shape)}")
    return _deserialize(serialized, dtype=dtype)


@value("DeserializeSparse")
def _deserialize(serialized: NDArray[Any], *, dtype: DType) -> Any:
    check(serialized.ndim > 0 and serialized.shape[-1] == 3, f"shape {list(serialized.shape)} does not end in 3")
    check(serialized.size > 0, f"there are no sparse tensors in shape {list(serialized.shape)}")
    batch = serialized.shape[:-1]
    whole = as_dtype("int64")
    found = [
        tuple(_opened(one, kind) for one, kind in zip(row, (whole, dtype, whole), strict=True))
        for row in serialized.reshape(-1, 3).tolist()
    ]
    for parts in found:
        check_sparse(*parts)
        check(parts[2].shape == found[0][2].shape, "the sparse tensors differ in rank")
    if not batch:
        return found[0]
    places = numpy.stack(numpy.unravel_index(numpy.arange(len(found)), batch), 1)
    indices = [
        numpy.concatenate([numpy.repeat(places[number : number + 1], len(parts[0]), 0), parts[0]], 1)
        for number, parts in enumerate(found)
    ]
    shape = numpy.concatenate([numpy.array(batch), numpy.max([parts[2] for parts in found], 0)])
    values = numpy.concatenate([parts[1] for parts in found])
    return numpy.concatenate(indices).astype(numpy.int64), values, shape.astype(numpy.int64)


def _opened(one: Any, kind: DType) -> NDArray[Any]:
    if isinstance(one, _Held):
        check(one.array.dtype == kind.numpy(), f"the sparse tensor holds {one.array.dtype}, not {kind}")
        return one.array
    return _tensor(one, kind)


@value("DecodeCompressed")
def _decode_compressed(data: NDArray[Any], *, compression_type: bytes) -> Any:
    if not compression_type:
        return data
    check(
        compression_type in (b"ZLIB", b"GZIP"),
        f"compression {compression_type.decode('utf-8', 'replace')!r} is not known",
    )
    width = 15 if compression_type == b"ZLIB" else 31
    return texts([_inflated(one, width) for one in data.reshape(-1).tolist()], data.shape)


def _inflated(data: bytes, width: int) -> bytes:
    """The contents; those of a file that is cut off as far as they go."""
    reader = zlib.decompressobj(width)
    try:
        found = reader.decompress(data, MAX_FILLED_BYTES)
    except zlib.error as error:
        raise OpError(f"the bytes are not compressed so: {error}") from error
    check(not reader.unconsumed_tail, f"it is longer than {MAX_FILLED_BYTES:,} bytes when it is read")
    return found
