"""Facts about the schema's fields that both directions of text format need."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tfsmith.wire.scan import BYTES, FIXED32, FIXED64, VARINT
from tfsmith.wire.schema import Field, schema

__all__ = ["INTEGER_RANGES", "STRUCT_FORMS", "child_message", "fields_of", "is_map_entry", "is_packable", "wire_type"]

_I32, _I64 = (-(2**31), 2**31), (-(2**63), 2**63)

INTEGER_RANGES: Final = MappingProxyType({
    "int32": _I32, "sint32": _I32, "sfixed32": _I32, "int64": _I64, "sint64": _I64, "sfixed64": _I64,
    "uint32": (0, 2**32), "fixed32": (0, 2**32), "uint64": (0, 2**64), "fixed64": (0, 2**64),
})  # fmt: skip
"""Lowest value and one past the highest."""

STRUCT_FORMS: Final = MappingProxyType(
    {"fixed32": "<I", "sfixed32": "<i", "float": "<f", "fixed64": "<Q", "sfixed64": "<q", "double": "<d"}
)
"""How the types of fixed size are stored."""


def fields_of(message: str) -> tuple[Field, ...]:
    """The fields of a message; "NodeDef/attr" stands for an entry of the map `attr` of NodeDef."""
    outer, _, name = message.partition("/")
    fields = schema().messages[outer]
    if not name:
        return fields
    field = next(field for field in fields if field.name == name)
    return (Field("key", 1, "one", str(field.key_type)), Field("value", 2, "one", field.type))


def is_map_entry(message: str) -> bool:
    """Whether this is the name of a map's entry."""
    return "/" in message


def child_message(message: str, field: Field) -> str | None:
    """The name of the message that the field holds, or None for a scalar."""
    if field.label == "map":
        return f"{message}/{field.name}"
    return field.type if field.type in schema().messages else None


def wire_type(field: Field) -> int:
    """How one value of the field is stored."""
    form = STRUCT_FORMS.get(field.type)
    if form is not None and field.label != "map":
        return FIXED32 if form in ("<I", "<i", "<f") else FIXED64
    is_number = field.type == "bool" or field.type in INTEGER_RANGES or field.type in schema().enums
    return VARINT if is_number and field.label != "map" else BYTES


def is_packable(field: Field) -> bool:
    """Whether the values of this field share one field on the wire, as proto3 stores repeated numbers."""
    return field.label == "many" and wire_type(field) != BYTES
