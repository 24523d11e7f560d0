"""GraphDef <-> `Graph`, with its functions, each decoded when looked into, and the definitions of its ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from tfsmith.errors import CorruptFileError, InvalidModelError, LimitError
from tfsmith.formats.graph.nodes import (
    attr_from_message,
    attrs_from_map,
    plan_attr,
    plan_attr_entries,
    plan_node,
    read_nodes,
    scan_places,
)
from tfsmith.ir.body import Part
from tfsmith.ir.graph import Function, FunctionParts, Graph, Library, Versions
from tfsmith.ir.node import attr as make_attr
from tfsmith.ir.opdef import ArgDef, AttrDef, OpDef, builtin_op
from tfsmith.ir.types import DType, dtype
from tfsmith.limits import MAX_FIELDS, MAX_PROTO_BYTES
from tfsmith.records import FrozenDict, Immutable
from tfsmith.storage import Span, from_bytes
from tfsmith.wire import BYTES, VARINT, RawField, WritePlan, encode_varint, fields, new, parse, tag

__all__ = [
    "LazyOps",
    "op_from_message",
    "op_to_message",
    "OpFinder",
    "read_library",
    "plan_library",
    "read_graph",
    "plan_graph",
    "check_size",
]


class LazyOps(Mapping[str, OpDef]):
    """The ops of an OpList message, each decoded when first used."""

    def __init__(self, op_list: Any) -> None:
        self._messages = {op.name: op for op in op_list.op}
        self._decoded: dict[str, OpDef] = {}

    def __getitem__(self, name: str) -> OpDef:
        found = self._decoded.get(name)
        if found is None:
            found = self._decoded[name] = op_from_message(self._messages[name])
        return found

    def __repr__(self) -> str:
        return f"<LazyOps {', '.join(self)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        op_list = new("OpList")
        op_list.op.extend(self._messages.values())
        return _lazy_ops, (op_list.SerializeToString(),)

    def message(self, name: str) -> Any:
        """The message of an op, as it was read."""
        return self._messages[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)


def _lazy_ops(data: bytes) -> LazyOps:
    return LazyOps(parse("OpList", data))


class OpFinder:
    """Finds an op among those that the model carries, then among TensorFlow's, then among the library's functions."""

    __slots__ = ("_found", "_library", "_own")

    def __init__(self, own: Callable[[], Mapping[str, OpDef]], library: Mapping[str, Function]) -> None:
        self._own = own
        self._library = library
        self._found: dict[str, OpDef | None] = {}

    def __reduce__(self) -> tuple[type[OpFinder], tuple[Callable[[], Mapping[str, OpDef]], Mapping[str, Function]]]:
        return OpFinder, (self._own, self._library)

    def __call__(self, name: str) -> OpDef | None:
        """The definition of an op by its name, or None."""
        if name not in self._found:
            found = self._own().get(name) or builtin_op(name)
            function = self._library.get(name) if found is None else None
            self._found[name] = found if function is None else function.signature
        return self._found[name]


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
    minimum = message.minimum if message.has_minimum else None
    found = attr_from_message(message.allowed_values, message.name) if message.HasField("allowed_values") else None
    allowed = tuple(item for item in (found.items if found is not None else ()) if isinstance(item, (DType, bytes)))
    return AttrDef(message.name, message.type, default, minimum, allowed)


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
        if attr.minimum is not None:
            added.has_minimum, added.minimum = True, attr.minimum
        if attr.allowed:
            added.allowed_values.ParseFromString(plan_attr(make_attr(attr.allowed)).tobytes())
    message.control_output.extend(op.control_outputs)
    message.is_stateful = op.is_stateful
    message.is_commutative = op.is_commutative
    message.is_aggregate = op.is_aggregate
    return message


_FUNCTION, _GRADIENT, _REGISTERED = 1, 2, 3  # of FunctionDefLibrary
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_SIGNATURE, _NODE_DEF, _RET, _ATTR, _CONTROL_RET, _ARG_ATTR = 1, 3, 4, 5, 6, 7  # of FunctionDef


def read_library(span: Span, own_ops: Callable[[], Mapping[str, OpDef]]) -> Library:
    """A library; of its functions only the names are read.

    Raises:
        InvalidModelError: Two functions have one name.
    """
    functions: dict[str, Function] = {}
    gradients: dict[str, str] = {}
    registered: dict[str, str] = {}
    extras: list[Span] = []
    ops = OpFinder(own_ops, functions)
    for field in fields(span, MAX_FIELDS):
        if field.number == _FUNCTION and field.wire_type == BYTES:
            inner = Span(span.source, field.start, field.stop)
            name = _name(inner)
            if name in functions:
                remedy = "TensorFlow refuses this graph too; write it again from its source"
                where = f"function {name!r}"
                raise InvalidModelError("two functions have one name", path=span.name, where=where, remedy=remedy)
            functions[name] = Function(name, Part(partial(_parts, inner), (inner,)), ops)
            continue
        if field.number == _GRADIENT and field.wire_type == BYTES:
            gradient = parse("GradientDef", Span(span.source, field.start, field.stop))
            gradients[gradient.function_name] = gradient.gradient_func
        elif field.number == _REGISTERED and field.wire_type == BYTES:
            entry = parse("RegisteredGradient", Span(span.source, field.start, field.stop))
            if entry.registered_op_type:
                registered[entry.registered_op_type] = entry.gradient_func
        extras.append(Span(span.source, field.tag_start, field.stop))
    return Library(functions, gradients, registered, raw=span, extras=tuple(extras))


def _name(span: Span) -> str:
    for field in fields(span):
        if field.number == _SIGNATURE and field.wire_type == BYTES:
            signature = parse("OpDef", Span(span.source, field.start, field.stop), "a function's signature")
            return str(signature.name)
    return ""


def _parts(span: Span) -> FunctionParts:
    places, others = scan_places(span, _NODE_DEF)
    message = parse("FunctionDef", _joined(span, others), f"a function at byte {span.start} of {span.name}")
    if message.signature.name != _name(span):  # readers that merge and readers that take the first would differ
        remedy = "the file was put together wrongly; write it again from its source"
        raise CorruptFileError("a function has two names", path=span.name, offset=span.start, remedy=remedy)
    return FunctionParts(
        op_from_message(message.signature),
        read_nodes(span, places, "FunctionDef", "node_def"),
        dict(sorted(message.ret.items())),  # protobuf gives a map in another order in each process
        dict(sorted(message.control_ret.items())),
        _Decoded(message.attr, lambda name, found: attr_from_message(found, name, span.name)),
        _Decoded(message.arg_attr, lambda _, found: FrozenDict(attrs_from_map(found.attr, span.name))),
    )


def _joined(span: Span, found: list[RawField]) -> bytes:
    """The bytes of these fields, tags included; those that follow each other are copied at once."""
    runs: list[tuple[int, int]] = []
    for field in found:
        if runs and runs[-1][1] == field.tag_start:
            runs[-1] = (runs[-1][0], field.stop)
        else:
            runs.append((field.tag_start, field.stop))
    return b"".join(Span(span.source, start, stop).tobytes() for start, stop in runs)


class _Decoded(Immutable, Mapping[_Key, _Value]):
    """A map of a message, of which each entry is decoded when it is looked up: a function may have hundreds."""

    __slots__ = ("_decode", "_known", "_messages")
    _messages: Mapping[_Key, Any]
    _decode: Callable[[_Key, Any], _Value]
    _known: dict[_Key, _Value]

    def __init__(self, messages: Mapping[_Key, Any], decode: Callable[[_Key, Any], _Value]) -> None:
        object.__setattr__(self, "_messages", messages)
        object.__setattr__(self, "_decode", decode)
        object.__setattr__(self, "_known", {})

    def __getitem__(self, key: _Key) -> _Value:
        if key not in self._known:
            if key not in self._messages:  # protobuf's own map would make an entry
                raise KeyError(key)
            self._known[key] = self._decode(key, self._messages[key])
        return self._known[key]

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._messages)

    def __len__(self) -> int:
        return len(self._messages)

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)


def plan_library(library: Library) -> Span | WritePlan:
    """The bytes of a library: its own while nobody edited it; each untouched function verbatim otherwise."""
    if library.raw is not None:
        return library.raw
    plan = WritePlan()
    for function in library.values():
        plan.add_field(_FUNCTION, _plan_function(function))
    for extra in library.extras:
        plan.add(extra)
    return plan


def _plan_function(function: Function) -> Span | WritePlan:
    if function.raw is not None:
        return function.raw
    plan = WritePlan()
    if function.base is None:
        _plan_shell(plan, function)
    else:  # only nodes and returns were edited
        kept = [field for field in fields(function.base) if field.number != _NODE_DEF or field.wire_type != BYTES]
        spans = {field: Span(function.base.source, field.tag_start, field.stop) for field in kept}
        returns = [field for field in kept if field.number in (_RET, _CONTROL_RET) and field.wire_type == BYTES]
        old = parse("FunctionDef", b"".join(spans[field].tobytes() for field in returns))
        parts = function.part.value
        is_same = dict(old.ret) == dict(parts.ret) and dict(old.control_ret) == dict(parts.control_ret)
        for field in kept:
            if is_same or field not in returns:
                plan.add(spans[field])
        if not is_same:
            _plan_returns(plan, parts)
    for node in function.nodes:
        plan.add_field(_NODE_DEF, plan_node(node))
    return plan


def _plan_returns(plan: WritePlan, parts: FunctionParts) -> None:
    message = new("FunctionDef")
    message.ret.update(parts.ret)
    message.control_ret.update(parts.control_ret)
    plan.add(message.SerializeToString(deterministic=True))


def _plan_shell(plan: WritePlan, function: Function) -> None:
    parts = function.part.value
    plan.add_field(_SIGNATURE, op_to_message(parts.signature).SerializeToString())
    _plan_returns(plan, parts)
    plan_attr_entries(plan, _ATTR, sorted(parts.attrs.items()))
    for number, attrs in sorted(parts.arg_attrs.items()):
        entry, value = WritePlan(), WritePlan()
        plan_attr_entries(value, 1, sorted(attrs.items()))
        entry.add(tag(1, VARINT) + encode_varint(number))
        entry.add_field(2, value)
        plan.add_field(_ARG_ATTR, entry)


_NODE, _LIBRARY, _VERSIONS = 1, 2, 4


def _no_ops() -> Mapping[str, OpDef]:
    return {}


def read_graph(span: Span, own_ops: Callable[[], Mapping[str, OpDef]] = _no_ops) -> Graph:
    """A graph. Names, ops and inputs of the nodes are read; attributes, functions and weights stay in the file.

    Args:
        span: The GraphDef.
        own_ops: Gives the op definitions that come with it, if any.

    Raises:
        CorruptFileError: The bytes are no GraphDef.
    """
    places, others = scan_places(span, _NODE)
    libraries: list[RawField] = []
    versions: list[RawField] = []
    extras: list[RawField] = []
    kept = {_LIBRARY: libraries, _VERSIONS: versions}
    for field in others:
        (kept.get(field.number, extras) if field.wire_type == BYTES else extras).append(field)
    library = read_library(_inner(span, libraries), own_ops) if libraries else Library()
    return Graph(
        read_nodes(span, places, "GraphDef", "node"),
        Part(partial(_versions, _inner(span, versions)), _wholes(span, versions)) if versions else Versions(),
        library,
        ops=OpFinder(own_ops, library),
        raw=span,
        extras=_wholes(span, extras),
    )


def _wholes(span: Span, found: list[RawField]) -> tuple[Span, ...]:
    """Fields as they are, tags included."""
    return tuple(Span(span.source, field.tag_start, field.stop) for field in found)


def _inner(span: Span, found: list[RawField]) -> Span:
    """The message in a field. Where it comes in parts, as protobuf allows, they add up."""
    parts = [Span(span.source, field.start, field.stop) for field in found]
    return parts[0] if len(parts) == 1 else from_bytes(b"".join(part.tobytes() for part in parts), span.name)


def _versions(span: Span) -> Versions:
    message = parse("VersionDef", span)
    return Versions(message.producer, message.min_consumer, tuple(message.bad_consumers))


def plan_graph(graph: Graph) -> Span | WritePlan:
    """The bytes of a graph: its own while nobody edited it; each untouched node verbatim otherwise."""
    if graph.raw is not None:
        return graph.raw
    plan = WritePlan()
    for node in graph.nodes:
        plan.add_field(_NODE, plan_node(node))
    if graph.library or graph.library.extras or graph.library.raw is not None:
        plan.add_field(_LIBRARY, plan_library(graph.library))
    _add_versions(plan, graph.versions_part)
    for extra in graph.extras:
        plan.add(extra)
    return plan


def _add_versions(plan: WritePlan, part: Part[Versions]) -> None:
    for raw in part.raw or ():
        plan.add(raw)
    if part.raw is not None or part.value == Versions():
        return
    message = new("VersionDef")
    message.producer, message.min_consumer = part.value.producer, part.value.min_consumer
    message.bad_consumers.extend(part.value.bad_consumers)
    plan.add_field(_VERSIONS, message.SerializeToString())


def check_size(plan: Span | WritePlan, path: object) -> None:
    """Refuses what protobuf cannot hold, before a byte is written.

    Raises:
        LimitError: It is 2 GiB or more.
    """
    size = plan.size if isinstance(plan, WritePlan) else len(plan)
    if size > MAX_PROTO_BYTES:
        raise LimitError(
            f"the result has {size} bytes, and no program can read a message over 2 GiB",
            path=str(path),
            remedy="keep the weights in a checkpoint: write a SavedModel instead ({as_='saved_model'})",
        )
