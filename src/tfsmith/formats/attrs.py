"""AttrValue <-> `Attr`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from tfsmith.errors import LimitError, UsageError
from tfsmith.formats.tensorproto import (
    plan_tensor,
    set_shape,
    shape_from_message,
    tensor_from_message,
    tensor_from_span,
)
from tfsmith.ir.attr import Attr, Func
from tfsmith.ir.dtype import dtype
from tfsmith.limits import MAX_DEPTH
from tfsmith.storage.span import Span
from tfsmith.wire.messages import new, parse
from tfsmith.wire.plan import WritePlan
from tfsmith.wire.scan import BYTES, fields

__all__ = ["attr_from_message", "attr_from_span", "attrs_from_map", "plan_attr", "plan_attr_entries"]

_TENSOR = 8
_LARGE = 4096
"""A value up to this size is parsed whole; in a larger one, the tensor's bytes stay in the file."""

_KIND_OF_FIELD = MappingProxyType(
    {"s": "string", "i": "int", "f": "float", "b": "bool", "type": "type", "shape": "shape", "tensor": "tensor"}
    | {"func": "func", "placeholder": "placeholder"}
)
_FIELD_OF_KIND = MappingProxyType({kind: field for field, kind in _KIND_OF_FIELD.items()})
_LIST_FIELDS = ("s", "i", "f", "b", "type", "shape", "tensor", "func")
_LIST_KIND_OF_FIELD = MappingProxyType({field: f"list({_KIND_OF_FIELD[field]})" for field in _LIST_FIELDS})
_PLAIN_FIELDS = frozenset({"s", "i", "f", "b", "placeholder"})
"""Fields whose values are plain already."""


def attrs_from_map(
    entries: Mapping[str, Any], path: str | None, depth: int = 0, *, only: str | None = None
) -> dict[str, Attr]:
    """A protobuf map of attributes: all of them, or the one of this name."""
    if only is not None:
        return {only: attr_from_message(entries[only], only, path, depth)} if only in entries else {}
    return {key: attr_from_message(value, key, path, depth) for key, value in entries.items()}


def attr_from_message(message: Any, name: str, path: str | None = None, depth: int = 0) -> Attr:
    """An AttrValue that is in memory already."""
    if depth > MAX_DEPTH:
        raise LimitError(f"attribute {name!r} is nested too deeply", path=path, remedy="do not trust the file")
    field = message.WhichOneof("value")
    if field is None:
        return Attr("none", None)
    if field in _PLAIN_FIELDS:
        return Attr(_KIND_OF_FIELD[field], getattr(message, field))
    if field != "list":
        return Attr(_KIND_OF_FIELD[field], _value(field, getattr(message, field), name, path, depth))
    for descriptor, items in message.list.ListFields():  # in the order of their numbers; the first one counts
        inner = descriptor.name
        if inner not in _PLAIN_FIELDS:
            items = [_value(inner, item, name, path, depth) for item in items]
        return Attr(_LIST_KIND_OF_FIELD[inner], tuple(items))
    return Attr("list", ())


def _value(field: str, value: Any, name: str, path: str | None, depth: int) -> Any:
    if field == "type":
        return dtype(value)
    if field == "shape":
        return shape_from_message(value, f"attribute {name!r}", path)
    if field == "tensor":
        return tensor_from_message(value, f"attribute {name!r}", path)
    if field == "func":
        return Func(value.name, attrs_from_map(value.attr, path, depth + 1))
    return value


def attr_from_span(span: Span, name: str) -> Attr:
    """An AttrValue in a file; a large tensor stays there."""
    if len(span) > _LARGE:
        found = list(islice(fields(span), 2))
        if len(found) == 1 and found[0].number == _TENSOR and found[0].wire_type == BYTES:
            inner = Span(span.source, found[0].start, found[0].stop)
            return Attr("tensor", tensor_from_span(inner, f"attribute {name!r}"))
    return attr_from_message(parse("AttrValue", span, f"attribute {name!r}"), name, span.name)


def plan_attr(attr: Attr) -> WritePlan:
    """An AttrValue; a tensor in a file stays there until it is streamed."""
    plan = WritePlan()
    if attr.kind == "tensor":
        plan.add_field(_TENSOR, plan_tensor(attr.value))
        return plan
    message = new("AttrValue")
    _fill(message, attr)
    plan.add(message.SerializeToString())
    return plan


def plan_attr_entries(plan: WritePlan, number: int, attrs: Iterable[tuple[str, Attr]]) -> None:
    """Adds the entries of a map of attributes as fields with this number."""
    for key, attr in attrs:
        entry = WritePlan()
        entry.add_field(1, key.encode())
        entry.add_field(2, plan_attr(attr))
        plan.add_field(number, entry)


def _fill(message: Any, attr: Attr) -> None:
    kind, value = attr.kind, attr.value
    if kind == "none":
        return
    if kind == "list":
        message.list.SetInParent()
        return
    if kind.startswith("list("):
        field = _FIELD_OF_KIND.get(kind[5:-1], "")
        if field not in _LIST_FIELDS:
            raise UsageError(f"there is no attribute of kind {kind!r}", remedy="use the kinds of OpDef")
        message.list.SetInParent()  # an empty list is a value, too
        for item in value:
            _append(getattr(message.list, field), field, item)
        return
    field = _FIELD_OF_KIND.get(kind, "")
    if not field:
        raise UsageError(f"there is no attribute of kind {kind!r}", remedy="use the kinds of OpDef")
    if field == "shape":
        set_shape(message.shape, value)
    elif field == "tensor":
        message.tensor.ParseFromString(plan_tensor(value).tobytes())
    elif field == "func":
        _fill_func(message.func, value)
    else:
        setattr(message, field, value.number if field == "type" else value)


def _append(items: Any, field: str, value: Any) -> None:
    if field == "shape":
        set_shape(items.add(), value)
    elif field == "tensor":
        items.add().ParseFromString(plan_tensor(value).tobytes())
    elif field == "func":
        _fill_func(items.add(), value)
    else:
        items.append(value.number if field == "type" else value)


def _fill_func(message: Any, func: Func) -> None:
    message.name = func.name
    for key, attr in func.attrs.items():
        _fill(message.attr[key], attr)
