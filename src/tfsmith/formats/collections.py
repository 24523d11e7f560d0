"""CollectionDef <-> `Collection`, with the serialized messages inside decoded on demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tfsmith.errors import CorruptFileError
from tfsmith.formats.plain import from_plain, to_plain
from tfsmith.ir.metagraph import Collection
from tfsmith.wire.messages import new, parse
from tfsmith.wire.plan import WritePlan
from tfsmith.wire.schema import schema

__all__ = ["collections_from_messages", "plan_collections"]

# The types that TensorFlow registers for its own collections; any other that holds messages is tried as VariableDef.
_TYPES = MappingProxyType(
    {
        "variables": "VariableDef",
        "trainable_variables": "VariableDef",
        "local_variables": "VariableDef",
        "model_variables": "VariableDef",
        "moving_average_variables": "VariableDef",
        "metric_variables": "VariableDef",
        "while_context": "WhileContextDef",
        "cond_context": "CondContextDef",
        "queue_runners": "QueueRunnerDef",
        "savers": "SaverDef",
    }
)
_FIELDS = MappingProxyType(
    {"node": "node_list", "bytes": "bytes_list", "int64": "int64_list", "float": "float_list", "any": "any_list"}
)
_KINDS = MappingProxyType({field: kind for kind, field in _FIELDS.items()})


def collections_from_messages(messages: Mapping[str, Any]) -> dict[str, Collection]:
    """All collections of a meta graph, sorted by key."""
    return {key: _collection(key, messages[key]) for key in sorted(messages)}


def _collection(key: str, message: Any) -> Collection:
    field = message.WhichOneof("kind")
    if field is None:
        return Collection("none", ())
    values = getattr(message, field).value
    kind: Any = _KINDS[field]
    if kind == "any":
        pairs = tuple((value.type_url, value.value) for value in values)
        return Collection("any", pairs, _any_decoder(pairs))
    return Collection(kind, tuple(values), _decoder(key, tuple(values)) if kind == "bytes" else None)


def _decoder(key: str, values: tuple[bytes, ...]) -> Callable[[], tuple[Mapping[str, Any], ...]]:
    def decode() -> tuple[Mapping[str, Any], ...]:
        name = _TYPES.get(key, "VariableDef")
        try:
            found = tuple(to_plain(parse(name, value)) for value in values)
        except CorruptFileError:
            return ()
        if name == "VariableDef" and not all("variable_name" in item for item in found):
            return ()
        return found

    return decode


def _any_decoder(pairs: tuple[tuple[str, bytes], ...]) -> Callable[[], tuple[Mapping[str, Any], ...]]:
    def decode() -> tuple[Mapping[str, Any], ...]:
        names = [url.rpartition("/")[2].removeprefix("tensorflow.") for url, _ in pairs]
        if any(name not in schema().messages for name in names):
            return ()
        try:
            return tuple(to_plain(parse(name, data)) for name, (_, data) in zip(names, pairs, strict=True))
        except CorruptFileError:
            return ()

    return decode


def plan_collections(plan: WritePlan, number: int, collections: Mapping[str, Collection]) -> None:
    """Adds the entries of the map, sorted by key, as fields with this number."""
    for key in sorted(collections):
        message = new("CollectionDef")
        collection = collections[key]
        if collection.kind == "any":
            message.any_list.SetInParent()
            for url, data in collection.values:
                message.any_list.value.add(type_url=url, value=data)
        elif collection.kind != "none":
            values = getattr(message, _FIELDS[collection.kind])
            values.SetInParent()
            values.value.extend(_encoded(key, value) for value in collection.values)
        entry = WritePlan()
        entry.add_field(1, key.encode())
        entry.add_field(2, message.SerializeToString())
        plan.add_field(number, entry)


def _encoded(key: str, value: Any) -> Any:
    """A value as the list takes it: a message that was made in memory is still plain data."""
    if not isinstance(value, Mapping):
        return value
    return from_plain(_TYPES.get(key, "VariableDef"), value).SerializeToString()
