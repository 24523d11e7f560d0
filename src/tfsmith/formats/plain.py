"""Any message as plain data: dicts, tuples, numbers, text and bytes; what is not set is left out."""

from __future__ import annotations

from typing import Any

__all__ = ["to_plain"]


def to_plain(message: Any) -> dict[str, Any]:
    """A message as a dict. Enums become their names; maps become dicts with sorted keys."""
    return {field.name: _plain(field, value) for field, value in message.ListFields()}


def _plain(field: Any, value: Any) -> Any:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        inner = field.message_type.fields_by_name["value"]
        return {key: _one(inner, value[key]) for key in sorted(value)}
    if hasattr(value, "append"):  # a repeated field
        return tuple(_one(field, item) for item in value)
    return _one(field, value)


def _one(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        return to_plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value
