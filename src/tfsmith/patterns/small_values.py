"""The values of small constants, read without numpy: importing that takes longer than most searches."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tfsmith.ir.tensor import StringTensor, Tensor
from tfsmith.storage.span import Span

__all__ = ["flat_values"]

_FORMATS: Mapping[str, str] = MappingProxyType(
    {"float32": "f", "float64": "d", "int32": "i", "int64": "q", "int8": "b", "uint8": "B", "int16": "h", "uint16": "H"}
    | {"uint32": "I", "uint64": "Q", "bool": "?"}
)


def flat_values(tensor: Tensor) -> list[Any]:
    """The values of a tensor, flat, as Python's own; reads it. What `tensor.numpy().reshape(-1).tolist()` gives."""
    code, count = _FORMATS.get(tensor.dtype.name), tensor.shape.elements
    if code is not None and count is not None and not isinstance(tensor, StringTensor):
        data = b"".join(part.tobytes() if isinstance(part, Span) else bytes(part) for part in tensor.parts())
        if len(data) == count * tensor.dtype.itemsize:
            return list(struct.unpack(f"<{count}{code}", data))
    return list(tensor.numpy().reshape(-1).tolist())  # other types; and it says what is wrong with a broken one
