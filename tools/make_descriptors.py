"""Writes src/tfsmith/wire/tensorflow.descriptors: the schema as protobuf descriptors, ready for a pool.

Run it when `tensorflow.schema` has changed:

    python -m tools.make_descriptors
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tfsmith import wire as descriptors
from tfsmith.wire import WritePlan, full_name
from tfsmith.wire.schema import Field, schema

_PACKAGES = {"google": "google.protobuf", "error": "tensorflow.error", "serving": "tensorflow.serving"}
_SCALARS = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_MESSAGE, _ENUM = 11, 14
_OPTIONAL, _REPEATED = 1, 3


def main() -> None:
    target = Path(descriptors.__file__).with_name("tensorflow.descriptors")
    target.write_bytes(descriptor_set())
    print(f"{target}: {target.stat().st_size:,} bytes")


def descriptor_set() -> bytes:
    """A FileDescriptorSet with a file for each package; a file comes after those that it needs."""
    files: dict[str, Any] = {}
    for package in ("google.protobuf", "tensorflow.error", "tensorflow", "tensorflow.serving"):
        files[package] = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    files["tensorflow"].dependency.extend(["google.protobuf.proto", "tensorflow.error.proto"])
    files["tensorflow.serving"].dependency.extend([files[name].name for name in list(files)[:3]])
    messages: dict[str, Any] = {}
    table = schema()
    for name in sorted(table.messages):  # an outer message sorts before those inside it
        outer, simple = _outer(name, files, messages)
        nested = name.rpartition(".")[0] in messages
        messages[name] = (outer.nested_type if nested else outer.message_type).add(name=simple)
    for name, values in table.enums.items():
        outer, simple = _outer(name, files, messages)
        enum = outer.enum_type.add(name=simple)
        for value, number in values.items():
            enum.value.add(name=value, number=number)
    for name, fields in table.messages.items():
        for field in fields:
            _add_field(messages[name], name, field)
    plan = WritePlan()
    for file in files.values():
        plan.add_field(1, file.SerializeToString(deterministic=True))
    return plan.tobytes()


def _outer(name: str, files: dict[str, Any], messages: dict[str, Any]) -> tuple[Any, str]:
    """What a message or enum is declared in (a file or another message), and its own short name."""
    outer, _, simple = name.rpartition(".")
    if outer in messages:
        return messages[outer], simple
    return files[_PACKAGES.get(outer.partition(".")[0], "tensorflow")], simple


def _add_field(message: Any, message_name: str, field: Field) -> None:
    target = message.field.add(name=field.name, number=field.number)
    if field.label == "map":
        entry = message.nested_type.add(name=_entry_name(field.name))
        entry.options.map_entry = True
        _set_type(entry.field.add(name="key", number=1, label=_OPTIONAL), str(field.key_type))
        _set_type(entry.field.add(name="value", number=2, label=_OPTIONAL), field.type)
        target.label, target.type = _REPEATED, _MESSAGE
        target.type_name = f".{full_name(message_name)}.{entry.name}"
        return
    target.label = _REPEATED if field.label == "many" else _OPTIONAL
    _set_type(target, field.type)
    if field.oneof is not None:
        names = [oneof.name for oneof in message.oneof_decl]
        if field.oneof not in names:
            message.oneof_decl.add(name=field.oneof)
            names.append(field.oneof)
        target.oneof_index = names.index(field.oneof)


def _entry_name(field_name: str) -> str:
    return "".join(part.capitalize() for part in field_name.split("_")) + "Entry"


def _set_type(target: Any, name: str) -> None:
    if name in _SCALARS:
        target.type = _SCALARS[name]
        return
    target.type = _ENUM if name in schema().enums else _MESSAGE
    target.type_name = f".{full_name(name)}"


if __name__ == "__main__":
    main()
