"""Computed values as attributes, of the kind that an op's definition asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tfsmith.errors import TfsmithError, UsageError
from tfsmith.ir.attr import Attr, attr
from tfsmith.ir.dtype import DType, dtype_named
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import ArrayTensor, Tensor

__all__ = ["typed"]


def typed(value: Any, kind: str, dtype: DType | None = None) -> Attr:
    """A computed value as an attribute of this kind ("" where the op's definition is not known: the value's own).

    Args:
        value: What `evaluate` gave.
        kind: "int", "float", "type", ..., in the words of OpDef.
        dtype: For a tensor: its type, which the node's own attribute `dtype` says.

    Raises:
        UsageError: It cannot be that.
    """
    if isinstance(value, Attr) and (not kind or value.kind in (kind, "placeholder")):
        return value
    plain = value.value if isinstance(value, Attr) else value
    if not kind:
        return attr(plain)
    if kind == "tensor":
        return Attr(kind, _tensor(plain, dtype))
    if kind.startswith("list("):
        items = plain.dims if isinstance(plain, Shape) else plain
        if not isinstance(items, tuple):
            raise UsageError(f"{repr(plain)[:80]} is no {kind}", remedy="write [a, b]")
        found = tuple(_single(item, kind[5:-1]) for item in items)
        return Attr(kind if found else "list", found)
    return Attr(kind, _single(plain, kind))


def _single(plain: Any, kind: str) -> Any:
    convert = _CONVERSIONS.get(kind)
    found = None if convert is None else convert(plain)
    if found is None:
        raise UsageError(f"{repr(plain)[:80]} is no {kind}", remedy=f"the attribute must be of kind {kind}")
    return found


def _to_int(plain: Any) -> int | None:
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return plain if isinstance(plain, int) and not isinstance(plain, bool) and abs(plain) < 2**63 else None


def _to_float(plain: Any) -> float | None:
    return float(plain) if isinstance(plain, (int, float)) and not isinstance(plain, bool) else None


def _to_bool(plain: Any) -> bool | None:
    return bool(plain) if isinstance(plain, bool) or (isinstance(plain, int) and plain in (0, 1)) else None


def _to_bytes(plain: Any) -> bytes | None:
    if isinstance(plain, str):
        return plain.encode()
    return plain if isinstance(plain, bytes) else None


def _to_type(plain: Any) -> DType | None:
    if isinstance(plain, DType):
        return plain.base
    try:
        return dtype_named(plain) if isinstance(plain, str) else None
    except TfsmithError:
        return None


def _to_shape(plain: Any) -> Shape | None:
    if isinstance(plain, Shape):
        return plain
    dims = [_to_int(item) for item in plain] if isinstance(plain, tuple) else [None]
    return None if None in dims else Shape.of(dims)


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "int": _to_int,
        "float": _to_float,
        "bool": _to_bool,
        "string": _to_bytes,
        "type": _to_type,
        "shape": _to_shape,
    }
)


def _tensor(plain: Any, dtype: DType | None) -> Tensor:
    """A constant of a number or a row of numbers."""
    values = list(plain.dims or ()) if isinstance(plain, Shape) else plain
    items = values if isinstance(values, (tuple, list)) else (values,)
    if not all(isinstance(item, (bool, int, float)) for item in items):
        raise UsageError(f"{repr(plain)[:80]} is no number or row of numbers", remedy="write value(x) or [a, b]")
    whole = all(isinstance(item, int) for item in items)
    kind = dtype or dtype_named("int32" if whole else "float32")
    try:
        if not kind.itemsize:
            raise ValueError
        return ArrayTensor.of(values, kind)
    except (ValueError, OverflowError) as error:
        what = f"a constant of type {kind} cannot hold {repr(plain)[:80]}"
        raise UsageError(what, remedy="give the target another `dtype`") from error
