"""FunctionDef and FunctionDefLibrary <-> `Function` and `Library`. Functions are decoded when looked into."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfsmith.errors import InvalidModelError
from tfsmith.formats.attrs import attrs_from_map, plan_attr_entries
from tfsmith.formats.nodes import plan_node, read_nodes, scan_places
from tfsmith.formats.opdefs import op_from_message, op_lookup, op_to_message
from tfsmith.ir.function import Function, FunctionParts, Library
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.part import Part
from tfsmith.limits import MAX_FIELDS
from tfsmith.storage.span import Span
from tfsmith.wire.messages import new, parse
from tfsmith.wire.plan import WritePlan, encode_varint, tag
from tfsmith.wire.scan import BYTES, VARINT, fields

__all__ = ["read_library", "plan_library"]

_FUNCTION, _GRADIENT, _REGISTERED = 1, 2, 3  # of FunctionDefLibrary
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
    ops = op_lookup(own_ops, lambda: functions)
    for field in fields(span, MAX_FIELDS):
        if field.number == _FUNCTION and field.wire_type == BYTES:
            inner = Span(span.source, field.start, field.stop)
            name = _name(inner)
            if name in functions:
                remedy = "TensorFlow refuses this graph too; write it again from its source"
                where = f"function {name!r}"
                raise InvalidModelError("two functions have one name", path=span.name, where=where, remedy=remedy)
            functions[name] = Function(name, Part(_loader(inner), (inner,)), ops)
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


def _loader(span: Span) -> Callable[[], FunctionParts]:
    def load() -> FunctionParts:
        places, others = scan_places(span, _NODE_DEF)
        shell = WritePlan()
        for field in others:
            shell.add(Span(span.source, field.tag_start, field.stop))
        message = parse("FunctionDef", shell.tobytes(), f"a function at byte {span.start} of {span.name}")
        return FunctionParts(
            op_from_message(message.signature),
            read_nodes(span, places, "FunctionDef", "node_def"),
            dict(message.ret),
            dict(message.control_ret),
            attrs_from_map(message.attr, span.name),
            {number: attrs_from_map(arg.attr, span.name) for number, arg in message.arg_attr.items()},
        )

    return load


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
