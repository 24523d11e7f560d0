"""Writes ONNX: the model's own messages, and weights as spans of where they lie. Nothing is held in memory.

A ModelProto has its graph in field 7, and the graph its weights (TensorProto) in field 5. Fields of a message may come
in any order, so that what is small comes first, as it was made, and the weights follow. External data lies in a file
beside, each tensor at a multiple of a page, as runtimes map it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tfsmith.errors import LimitError, UnsupportedError
from tfsmith.ir.tensor import SpanTensor, Tensor
from tfsmith.ir.types import DType
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.storage import FileSink, Span
from tfsmith.wire import WritePlan, encode_varint, tag

__all__ = ["ELEMENT_TYPES", "ExternalData", "plan_onnx", "write_onnx"]

ExternalData = Literal["auto", "always", "never"]
ELEMENT_TYPES: Mapping[str, int] = MappingProxyType(
    {
        "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "string": 8, "bool": 9,
        "float16": 10, "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16, "qint8": 3, "quint8": 2, "qint32": 6,
    }
)  # fmt: skip
"""The numbers of TensorProto.DataType."""
_GRAPH, _INITIALIZER = 7, 5
_DIMS, _DATA_TYPE, _STRINGS, _NAME, _RAW, _EXTERNAL, _LOCATION = 1, 2, 6, 8, 9, 13, 14
_PAGE = 4096
_LARGE_PAGE = 1 << 16
"""What Windows maps at once; tensors of a megabyte and more begin at a multiple of it."""
_LARGE = 1 << 20
_LEAST_EXTERNAL = 1024
"""Smaller tensors stay in the file: shapes are among them, which readers need to see."""
_MARGIN = 1 << 20


class _Elements:
    """The bytes of a tensor, made while they are written."""

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor

    def __len__(self) -> int:
        return self._tensor.nbytes

    def chunks(self) -> Iterator[bytes]:
        for part in self._tensor.parts():
            yield from part.chunks() if isinstance(part, Span) else (part,)


def write_onnx(
    path: Path, head: bytes, graph: bytes, weights: Mapping[str, Tensor], external: ExternalData = "auto"
) -> tuple[Path, ...]:
    """Writes a model; weights are streamed, and their checksums compared.

    Args:
        path: The file; external data goes beside it, under the same name with ".data" behind.
        head: A ModelProto without a graph.
        graph: Its GraphProto without initializers.
        weights: The initializers by name.
        external: Whether weights lie in a file of their own: where the model would be over 2 GiB, always, or never.

    Returns:
        The files that were written.

    Raises:
        LimitError: The model would be over 2 GiB, and its weights may not lie beside it.
        ChecksumError: A weight is damaged.
    """
    for tensor in weights.values():
        tensor.verify()
    total = len(head) + len(graph) + sum(tensor.nbytes + len(name) + 64 for name, tensor in weights.items())
    is_large = total + _MARGIN > MAX_PROTO_BYTES
    if is_large and external == "never":
        remedy = "leave {external_data} out, so that the weights lie in a file beside it"
        raise LimitError(f"the model would have {total} bytes, over protobuf's 2 GiB", path=path, remedy=remedy)
    beside = path.with_name(f"{path.name}.data")
    is_external = external == "always" or is_large
    data = WritePlan()
    plan = plan_onnx(head, graph, weights, (data, beside.name) if is_external else None)
    with FileSink(path) as sink:
        plan.write_to(sink)
    if not data.size:
        return (path,)
    with FileSink(beside) as sink:
        data.write_to(sink)
    return path, beside


def plan_onnx(
    head: bytes, graph: bytes, weights: Mapping[str, Tensor], external: tuple[WritePlan, str] | None = None
) -> WritePlan:
    """What a model's file will hold; nothing is read.

    Args:
        head: A ModelProto without a graph.
        graph: Its GraphProto without initializers.
        weights: The initializers by name.
        external: The plan of the file beside it that large weights go to, and its name; None if all stay.
    """
    body = WritePlan()
    body.add(graph)
    for name, tensor in weights.items():
        if external is None or tensor.nbytes < _LEAST_EXTERNAL or tensor.dtype.name == "string":
            body.add_field(_INITIALIZER, _inline(name, tensor))
            continue
        data, file = external
        data.add(bytes(-data.size % (_LARGE_PAGE if tensor.nbytes >= _LARGE else _PAGE)))
        body.add_field(_INITIALIZER, _external(name, tensor, file, data.size))
        _add_elements(data, tensor)
    plan = WritePlan()
    plan.add(head)
    plan.add_field(_GRAPH, body)
    return plan


def _add_elements(plan: WritePlan, tensor: Tensor) -> None:
    plan.add(tensor.span if isinstance(tensor, SpanTensor) else _Elements(tensor))


def _header(name: str, tensor: Tensor) -> WritePlan:
    plan = WritePlan()
    for size in tensor.shape.dims or ():
        plan.add(tag(_DIMS, 0) + encode_varint(size))
    plan.add(tag(_DATA_TYPE, 0) + encode_varint(_element_type(tensor.dtype)))
    plan.add_field(_NAME, name.encode())
    return plan


def _element_type(kind: DType) -> int:
    found = ELEMENT_TYPES.get(kind.base.name)
    if found is None:
        raise UnsupportedError(f"ONNX has no tensors of {kind.base.name}", remedy="leave it out")
    return found


def _inline(name: str, tensor: Tensor) -> WritePlan:
    plan = _header(name, tensor)
    if tensor.dtype.name == "string":
        for item in tensor.numpy().reshape(-1).tolist():
            plan.add_field(_STRINGS, bytes(item))
        return plan
    plan.add(tag(_RAW) + encode_varint(tensor.nbytes))
    _add_elements(plan, tensor)
    return plan


def _external(name: str, tensor: Tensor, file: str, offset: int) -> WritePlan:
    plan = _header(name, tensor)
    for key, value in (("location", file), ("offset", str(offset)), ("length", str(tensor.nbytes))):
        entry = WritePlan()
        entry.add_field(1, key.encode())
        entry.add_field(2, value.encode())
        plan.add_field(_EXTERNAL, entry)
    plan.add(tag(_LOCATION, 0) + encode_varint(1))
    return plan
