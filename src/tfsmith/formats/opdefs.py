"""OpDef <-> `OpDef`, and the lookup that a model's graph and functions use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfsmith.formats.attrs import attr_from_message, plan_attr
from tfsmith.ir.dtype import dtype
from tfsmith.ir.opdb import OpLookup, builtin_op
from tfsmith.ir.opdef import ArgDef, AttrDef, OpDef
from tfsmith.wire.messages import new

__all__ = ["LazyOps", "op_from_message", "op_to_message", "op_lookup"]


class LazyOps(Mapping[str, OpDef]):
    """The ops of an OpList message, each decoded when first asked for."""

    def __init__(self, op_list: Any) -> None:
        self._messages = {op.name: op for op in op_list.op}
        self._decoded: dict[str, OpDef] = {}

    def __getitem__(self, name: str) -> OpDef:
        found = self._decoded.get(name)
        if found is None:
            found = self._decoded[name] = op_from_message(self._messages[name])
        return found

    def message(self, name: str) -> Any:
        """The message of an op, as it was read."""
        return self._messages[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)


def op_lookup(own: Callable[[], Mapping[str, OpDef]], library: Callable[[], Mapping[str, Any]]) -> OpLookup:
    """Finds an op among those that the model carries, then among TensorFlow's, then among the library's functions."""

    def find(name: str) -> OpDef | None:
        found = own().get(name) or builtin_op(name)
        if found is not None:
            return found
        function = library().get(name)
        return None if function is None else function.signature

    return find


def op_from_message(message: Any) -> OpDef:
    """An OpDef message, without its prose."""
    return OpDef(
        message.name,
        tuple(_arg(arg) for arg in message.input_arg),
        tuple(_arg(arg) for arg in message.output_arg),
        tuple(_attr(attr) for attr in message.attr),
        tuple(message.control_output),
        message.is_stateful,
        message.is_commutative,
        message.is_aggregate,
    )


def _arg(message: Any) -> ArgDef:
    return ArgDef(
        message.name,
        dtype(message.type) if message.type else None,
        message.type_attr,
        message.number_attr,
        message.type_list_attr,
        message.is_ref,
    )


def _attr(message: Any) -> AttrDef:
    default = attr_from_message(message.default_value, message.name) if message.HasField("default_value") else None
    return AttrDef(message.name, message.type, default)


def op_to_message(op: OpDef) -> Any:
    """An OpDef message."""
    message = new("OpDef")
    message.name = op.name
    for args, target in ((op.inputs, message.input_arg), (op.outputs, message.output_arg)):
        for arg in args:
            target.add(
                name=arg.name,
                type=0 if arg.type is None else arg.type.number,
                type_attr=arg.type_attr,
                number_attr=arg.number_attr,
                type_list_attr=arg.type_list_attr,
                is_ref=arg.is_ref,
            )
    for attr in op.attrs:
        added = message.attr.add(name=attr.name, type=attr.kind)
        if attr.default is not None:
            added.default_value.ParseFromString(plan_attr(attr.default).tobytes())
    message.control_output.extend(op.control_outputs)
    message.is_stateful = op.is_stateful
    message.is_commutative = op.is_commutative
    message.is_aggregate = op.is_aggregate
    return message
