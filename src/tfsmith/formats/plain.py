"""Any message as plain data: dicts, tuples, numbers, text and bytes; what is not set is left out. And back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfsmith.errors import TfsmithError
from tfsmith.formats.tensorproto import tensor_from_message
from tfsmith.wire.messages import new

__all__ = ["to_plain", "from_plain"]


def to_plain(message: Any) -> dict[str, Any]:
    """A message as a dict. Enums become their names; maps become dicts with sorted keys; tensors become `Tensor`s."""
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
        return _tensor(value) if field.message_type.name == "TensorProto" else to_plain(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def _tensor(message: Any) -> Any:
    """A tensor inside a message is a few numbers, such as the bounds of a spec. A damaged one stays plain data."""
    try:
        return tensor_from_message(message, "a tensor value")
    except TfsmithError:
        return to_plain(message)


def from_plain(name: str, plain: Mapping[str, Any]) -> Any:
    """The message that `to_plain` would give this dict of. For messages without maps and tensors."""
    message = new(name)
    _fill(message, plain)
    return message


def _fill(message: Any, plain: Mapping[str, Any]) -> None:
    for key, value in plain.items():
        if isinstance(value, Mapping):
            getattr(message, key).SetInParent()
            _fill(getattr(message, key), value)
        elif not isinstance(value, (tuple, list)):
            setattr(message, key, _number(message, key, value))
        elif value and isinstance(value[0], Mapping):
            for item in value:
                _fill(getattr(message, key).add(), item)
        else:
            getattr(message, key).extend(_number(message, key, item) for item in value)


def _number(message: Any, key: str, value: Any) -> Any:
    """An enum's number by its name; any other value as it is."""
    enum = message.DESCRIPTOR.fields_by_name[key].enum_type
    return enum.values_by_name[value].number if enum is not None and isinstance(value, str) else value
