"""Mutations of models, all told by a seed: of their bytes, and of the messages in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

from tfsmith.wire import new

__all__ = ["byte_mutations", "confuse", "mutate"]

TEXTS = ("", "^", "^a", ":0", "a:1", "a:99999999999", "x", "\x1b[31m", "\n", "y" * 3000, "w/part_" + "9" * 5000)
NUMBERS = (0, 1, -1, 2, 7, 20, 101, 2**31 - 1, -(2**31), 2**40, 2**62, 2**63 - 1, -(2**63))
BYTES = (b"", b"\xff\xfe", b"loc:@", b"loc:@\xff", b"abc", bytes(16), b"3 0,1", b" ", b"-", b"10 4 0,5:-")
OPS = (
    *("PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "While", "StatelessWhile"),
    *("VarHandleOp", "VariableV2", "ReadVariableOp", "ResourceGather", "AssignVariableOp", "Assign", "RestoreV2"),
    *("Identity", "IdentityN", "Merge", "Switch", "Enter", "Const", "Placeholder", "NoOp", "Reshape", "GatherV2"),
)


def byte_mutations(data: bytes, random: Random, count: int) -> Iterator[bytes]:
    """The bytes, each time damaged in another way."""
    for _ in range(count):
        at, other = sorted((random.randrange(len(data)), random.randrange(len(data))))
        yield random.choice(
            [
                data[:at],
                data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :],
                data[:at] + random.choice([b"\0", b"\xff", b"\x80", b"\x7f"]) + data[at + 1 :],
                data[:at] + random.randbytes(random.randrange(1, 200)),
                data[:at] + random.randbytes(random.randrange(1, 12)) + data[at:],
                data[:other] + data[at:other] + data[other:],
                data[:at] + data[other:],
            ]
        )


def mutate(message: Any, random: Random, names: Sequence[str], depth: int = 0) -> None:
    """Changes one thing somewhere in a message: drops it, copies it, or gives it another value."""
    set_fields = [field for field, _ in message.ListFields()]
    fields = set_fields if set_fields and random.random() < 0.9 else list(message.DESCRIPTOR.fields)
    if not fields:
        return
    field = random.choice(fields)
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        _mutate_map(field, value, random, names, depth)
    elif hasattr(value, "append"):
        _mutate_list(field, value, random, names, depth)
    elif field.message_type is not None and random.random() < 0.95:
        mutate(value, random, names, depth + 1)
    elif field.message_type is not None or random.random() < 0.2:
        message.ClearField(field.name)
    else:
        setattr(message, field.name, _scalar(field, random, names))


def _mutate_map(field: Any, entries: Any, random: Random, names: Sequence[str], depth: int) -> None:
    key_field, value_field = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    keys = sorted(entries)
    if keys and random.random() < 0.2:
        del entries[random.choice(keys)]
        return
    key = random.choice(keys) if keys and random.random() < 0.8 else _scalar(key_field, random, names)
    if value_field.message_type is None:
        entries[key] = _scalar(value_field, random, names)
    elif keys and random.random() < 0.3:
        entries[key].CopyFrom(entries[random.choice(keys)])
    else:
        mutate(entries[key], random, names, depth + 1)


def _mutate_list(field: Any, items: Any, random: Random, names: Sequence[str], depth: int) -> None:
    deed = random.random()
    if len(items) and deed < 0.2:
        del items[random.randrange(len(items))]
    elif field.message_type is None and len(items) and deed < 0.8:
        items[random.randrange(len(items))] = _scalar(field, random, names)
    elif field.message_type is None:
        items.append(_scalar(field, random, names))
    elif len(items) and deed < 0.85:
        mutate(random.choice(items), random, names, depth + 1)
    else:
        added = items.add()
        if len(items) > 1:
            added.CopyFrom(items[random.randrange(len(items) - 1)])


def _scalar(field: Any, random: Random, names: Sequence[str]) -> Any:
    if field.enum_type is not None:
        return random.choice([0, 1, 3, 7, 9, 10, 20, 21, 99, 101])
    if field.type == field.TYPE_BYTES:
        return random.choice(BYTES)
    if field.type == field.TYPE_STRING:
        return random.choice(names) if names and random.random() < 0.5 else random.choice(TEXTS)
    if field.type in (field.TYPE_FLOAT, field.TYPE_DOUBLE):
        return random.choice([0.0, 1.5, float("nan"), float("inf")])
    number = random.choice(NUMBERS)
    if field.cpp_type in (field.CPPTYPE_BOOL, field.CPPTYPE_UINT32, field.CPPTYPE_UINT64):
        return number % 2
    return max(-(2**31), min(2**31 - 1, number)) if field.cpp_type == field.CPPTYPE_INT32 else number


def confuse(graph: Any, random: Random) -> None:
    """Changes a node that passes look into, in the graph or in a function: an attribute, an input, its op."""
    functions = list(graph.library.function)
    body = graph.node if not functions or random.random() < 0.5 else random.choice(functions).node_def
    nodes = [node for node in body if node.op in OPS] or list(body)
    if not nodes:
        return
    node, deed = random.choice(nodes), random.random()
    if deed < 0.5:
        attrs = [*sorted(node.attr), "_class", "_output_shapes", "f", "value", "T", "Tin", "dtype", "shape"]
        node.attr[random.choice(attrs)].CopyFrom(_any_attr(graph, random))
    elif deed < 0.6 and len(node.attr):
        del node.attr[random.choice(sorted(node.attr))]
    elif deed < 0.75 and len(node.input):
        del node.input[random.randrange(len(node.input))]
    elif deed < 0.9:
        name = random.choice(list(body)).name
        texts = [name, f"{name}:1", f"^{name}", f"{name}:output:0", f"{name}:value:7", f"{name}:999999999"]
        node.input.insert(random.randrange(len(node.input) + 1), random.choice(texts))
    else:
        node.op = random.choice([*OPS, *(function.signature.name for function in functions)])


def _any_attr(graph: Any, random: Random) -> Any:
    value = new("AttrValue")
    mutate(value, random, [function.signature.name for function in graph.library.function])
    kinds: list[dict[str, Any]] = [{}, {"i": 2**62}, {"s": b"\xff"}, {"type": 99}, {"b": True}, {"placeholder": "T"}]
    return new("AttrValue").__class__(**random.choice(kinds)) if random.random() < 0.4 else value
