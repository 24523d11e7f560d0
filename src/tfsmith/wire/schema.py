"""Reads `tensorflow.schema`, the table of TensorFlow's messages, and nothing else."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal

from tfsmith.records import record
from tfsmith.wire import BYTES, FIXED32, FIXED64, VARINT

__all__ = [
    "Field",
    "Schema",
    "schema",
    "INTEGER_RANGES",
    "STRUCT_FORMS",
    "child_message",
    "fields_of",
    "is_map_entry",
    "is_packable",
    "wire_type",
]

Label = Literal["one", "many", "map"]


@record
class Field:
    """One field of a message. `type` is a scalar's name, or the name of a message or enum of the schema."""

    name: str
    number: int
    label: Label
    type: str
    oneof: str | None = None
    key_type: str | None = None


@record
class Schema:
    """All messages and enums, by name."""

    messages: MappingProxyType[str, tuple[Field, ...]]
    enums: MappingProxyType[str, MappingProxyType[str, int]]


@cache
def schema() -> Schema:
    """The packaged schema; read once, about a millisecond."""
    text = Path(__file__).with_name("tensorflow.schema").read_text("ascii")
    messages: dict[str, list[Field]] = {}
    enums: dict[str, dict[str, int]] = {}
    fields: list[Field] = []
    values: dict[str, int] = {}
    in_enum = False
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        words = line.split()
        if line.startswith("message "):
            in_enum, fields = False, messages.setdefault(words[1], [])
        elif line.startswith("enum "):
            in_enum, values = True, enums.setdefault(words[1], {})
        elif in_enum:
            values[words[1]] = int(words[0])
        else:
            fields.append(_field(words))
    return Schema(
        MappingProxyType({name: tuple(fields) for name, fields in messages.items()}),
        MappingProxyType({name: MappingProxyType(values) for name, values in enums.items()}),
    )


def _field(words: list[str]) -> Field:
    number, name, kind = words[0], words[1], words[2]
    if number.endswith("%"):
        return Field(name, int(number[:-1]), "map", words[3], key_type=kind)
    if number.endswith("*"):
        return Field(name, int(number[:-1]), "many", kind)
    return Field(name, int(number), "one", kind, words[3] if len(words) > 3 else None)


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
    """The fields of a message; "NodeDef/attr" means an entry of the map `attr` of NodeDef."""
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
