"""Graphs: a module each for NodeDef, GraphDef and MetaGraphDef; here, TensorProto, in all its forms, <-> `Tensor`.

The values are in `tensor_content` (raw little-endian bytes), or in a list that the dtype names. A list may be shorter
than the shape, and then its last value repeats; an empty one means zeros. Half and bfloat16 are 16-bit patterns in
`half_val`, float8 and float4 are bytes in `float8_val`, complex numbers are pairs. Strings in `tensor_content`, as
TensorFlow's C++ may write them, are their lengths as varints, then the strings.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import accumulate
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import InvalidModelError
from tfsmith.ir.tensor import FilledTensor, OpaqueTensor, SpanTensor, StringTensor, Tensor
from tfsmith.ir.types import DType, Shape, dtype
from tfsmith.records import record
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import BYTES, VARINT, RawField, WritePlan, as_int32, fields, new, parse, read_varint

if TYPE_CHECKING:
    from tfsmith.ir.tensor_views import CastTensor

__all__ = ["tensor_from_message", "tensor_from_span", "plan_tensor", "shape_from_message", "set_shape"]

_DTYPE, _SHAPE, _CONTENT = 1, 2, 4

# dtype -> (field of TensorProto, struct code of one value); all others are in int_val
_LISTS = MappingProxyType(
    {
        "float32": ("float_val", "f"),
        "float64": ("double_val", "d"),
        "int64": ("int64_val", "q"),
        "bool": ("bool_val", "?"),
        "complex64": ("scomplex_val", "f"),
        "complex128": ("dcomplex_val", "d"),
        "uint32": ("uint32_val", "I"),
        "uint64": ("uint64_val", "Q"),
        "float16": ("half_val", "H"),
        "bfloat16": ("half_val", "H"),
    }
)
_INTEGERS = MappingProxyType(
    {"int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i"}
    | {"qint8": "b", "quint8": "B", "qint16": "h", "quint16": "H", "qint32": "i"}
)
"""How the numbers of `int_val` are laid out in memory."""
_IN_FLOAT8_VAL = ("float8", "float4")
_FEW = 1 << 12
_UNSIGNED = MappingProxyType({1: "B", 2: "H", 4: "I"})
# Lists whose wire form is already the raw little-endian bytes: field number and the dtypes that use it so.
_RAW_LISTS = MappingProxyType({5: "float32", 6: "float64", 9: "complex64", 12: "complex128"})
# TensorFlow's Python packs these dtypes into tensor_content, and all others into lists.
_CONTENT_DTYPES = frozenset([
    "float16", "float32", "float64", "int32", "uint8", "int16", "int8", "int64",
    "qint8", "quint8", "qint16", "quint16", "qint32", "uint32", "uint64", "bfloat16",
    "float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "float4_e2m1fn",
])  # fmt: skip


def shape_from_message(
    message: Any, label: str = "a tensor", path: str | None = None, *, is_note: bool = False
) -> Shape:
    """A TensorShapeProto.

    Args:
        message: The proto.
        label: What has the shape, for errors.
        path: The file, for errors.
        is_note: Whether an optimizer noted it: grappler numbers the sizes that it does not know, -2 and less.

    Raises:
        InvalidModelError: No tensor can have this shape.
    """
    if message.unknown_rank:
        return Shape(None)
    shape = Shape(tuple([max(dim.size, -1) if is_note else dim.size for dim in message.dim]))
    flaw = shape.flaw()
    if flaw is not None:
        first = ", ".join(str(dim.size) for dim in message.dim[:3])
        what = f"{label} has the impossible shape [{first}{', ...' * (len(message.dim) > 3)}]: {flaw}"
        raise InvalidModelError(what, path=path, remedy="the file is damaged; fetch it again")
    return shape


def set_shape(message: Any, shape: Shape) -> None:
    """Fills an empty TensorShapeProto."""
    if shape.dims is None:
        message.unknown_rank = True
        return
    message.SetInParent()
    for dim in shape.dims:
        message.dim.add(size=dim)


def tensor_from_message(message: Any, label: str = "a tensor", path: str | None = None) -> Tensor:
    """A TensorProto that is in memory already.

    Raises:
        InvalidModelError: Its shape cannot be, or does not fit its values.
    """
    kind, shape = dtype(message.dtype).base, _static(message.tensor_shape, label, path)
    if kind.name == "string":
        if message.tensor_content:
            return StringTensor(shape, _content_strings(message.tensor_content, shape, label, path))
        return StringTensor(shape, tuple(message.string_val)[: shape.elements])
    if kind.itemsize == 0:
        return OpaqueTensor(kind, shape, label)
    if message.tensor_content:
        return SpanTensor(kind, shape, from_bytes(message.tensor_content, path or "<memory>"), label=label)
    data = _list_bytes(message, kind)
    count = min(len(data) // kind.itemsize, shape.elements or 0)  # what is too much does not count
    return FilledTensor(kind, shape, data[: count * kind.itemsize])


def tensor_from_span(span: Span, label: str = "a tensor") -> Tensor:
    """A TensorProto in a file. Raw bytes and lists of floats stay where they are; other lists are parsed.

    Raises:
        CorruptFileError: It is no TensorProto.
        InvalidModelError: Its shape cannot be, or does not fit its values.
    """
    number, dims = 0, None
    payloads: list[RawField] = []
    for field in fields(span):
        if field.number == _DTYPE and field.wire_type == VARINT:
            number = as_int32(field.value)
        elif field.number == _SHAPE and field.wire_type == BYTES and dims is None:
            dims = Span(span.source, field.start, field.stop)
        else:
            payloads.append(field)
        if len(payloads) > 1:  # then all is parsed below; there may be millions
            break
    kind = dtype(number).base
    if len(payloads) == 1 and payloads[0].wire_type == BYTES and kind.itemsize:
        only = payloads[0]
        raw = only.number == _CONTENT or _RAW_LISTS.get(only.number) == kind.name
        values = Span(span.source, only.start, only.stop)
        shape = _static(parse("TensorShapeProto", b"" if dims is None else dims), label, span.name)
        if raw and (only.number == _CONTENT or len(values) == (shape.elements or 0) * kind.itemsize):
            return SpanTensor(kind, shape, values, label=label)
    return tensor_from_message(parse("TensorProto", span, label), label, span.name)


def _content_strings(data: bytes, shape: Shape, label: str, path: str | None) -> tuple[bytes, ...]:
    count, position, view = shape.elements or 0, 0, memoryview(data)
    lengths: list[int] = []
    while len(lengths) < count <= len(data):  # each takes at least a byte
        length, position = read_varint(view, position, len(data), path or "<memory>")
        lengths.append(length)
    if len(lengths) != count or position + sum(lengths) != len(data):
        what = f"{label} has {len(data)} bytes, which are not the {count} strings of its shape {shape}"
        raise InvalidModelError(what, path=path, remedy="the file is damaged; fetch it again")
    stops = [position + end for end in accumulate(lengths)]
    return tuple(data[stop - length : stop] for stop, length in zip(stops, lengths, strict=True))


def _static(message: Any, label: str, path: str | None) -> Shape:
    shape = shape_from_message(message, label, path)
    if not shape.is_static:
        remedy = "a constant must have a full shape; the file is damaged"
        raise InvalidModelError(f"{label} has the impossible shape {shape}", path=path, remedy=remedy)
    return shape


def _list_bytes(message: Any, kind: DType) -> bytes:
    """The values of the list that the dtype names, as little-endian bytes."""
    if kind.name.startswith(_IN_FLOAT8_VAL):
        return bytes(message.float8_val)
    field, code = _LISTS.get(kind.name, ("int_val", ""))
    values = getattr(message, field)
    wraps = not code or code == "H"  # narrow numbers are stored in wide ones; what does not fit wraps, as in TensorFlow
    code = code or _UNSIGNED[kind.itemsize]
    mask = (1 << 8 * struct.calcsize(code)) - 1
    numbers = (value & mask for value in values) if wraps else values
    if len(values) <= _FEW:
        return struct.pack(f"<{len(values)}{code}", *numbers)
    import numpy  # not needed for a few numbers, but many would take ten times the file's size as Python objects

    return numpy.fromiter(numbers, f"<{code}", len(values)).tobytes()


def plan_tensor(tensor: Tensor) -> WritePlan:
    """A TensorProto, encoded as TensorFlow's Python does it; values in a file stay spans until streamed."""
    from tfsmith.ir.tensor_views import CastTensor  # who only reads needs no views

    head = new("TensorProto")
    head.dtype = tensor.dtype.number
    set_shape(head.tensor_shape, tensor.shape)
    name = tensor.dtype.name
    plan = WritePlan()
    if name in _CONTENT_DTYPES and (tensor.shape.elements or 0) > 1 and not isinstance(tensor, FilledTensor):
        plan.add(head.SerializeToString())
        content = WritePlan()
        for part in (_Cast(tensor),) if isinstance(tensor, CastTensor) else tensor.parts():
            content.add(part)
        plan.add_field(_CONTENT, content)
        return plan
    _fill_list(head, tensor)
    plan.add(head.SerializeToString())
    return plan


@record
class _Cast:
    """Values that are cast while they are written, so that memory does not grow with them."""

    tensor: CastTensor

    def __len__(self) -> int:
        return self.tensor.nbytes

    def chunks(self) -> Iterator[bytes]:
        """The values, piece by piece."""
        return (part.tobytes() if isinstance(part, Span) else part for part in self.tensor.parts())


def _fill_list(message: Any, tensor: Tensor) -> None:
    name = tensor.dtype.name
    if name == "string":
        values = tensor.values if isinstance(tensor, StringTensor) else tensor.numpy().reshape(-1).tolist()
        message.string_val.extend(values)
        return
    if isinstance(tensor, FilledTensor):
        data = tensor.values
    else:
        data = b"".join(part.tobytes() if isinstance(part, Span) else bytes(part) for part in tensor.parts())
    if name.startswith(_IN_FLOAT8_VAL):
        message.float8_val = data
        return
    field, code = _LISTS.get(name, ("int_val", ""))
    code = code or _INTEGERS.get(name, "")
    if code:  # without numpy, which takes longer to load than a graph's scalars to write
        getattr(message, field).extend(struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data))
        return
    import numpy

    array = numpy.frombuffer(data, tensor.dtype.numpy())
    getattr(message, field).extend(array.astype(numpy.int64).tolist())
