"""Reads `tensorflow.schema`, the table of TensorFlow's messages, and nothing else."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from tfsmith.records import record

__all__ = ["Field", "Schema", "schema"]

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
