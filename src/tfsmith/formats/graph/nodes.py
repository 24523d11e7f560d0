"""NodeDef and AttrValue <-> `Node` and `Attr`: many at once, without decoding what nobody needs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, cast

from tfsmith.errors import CorruptFileError, LimitError, TruncatedFileError, UsageError
from tfsmith.formats.graph import plan_tensor, set_shape, shape_from_message, tensor_from_message, tensor_from_span
from tfsmith.ir.node import Attr, AttrKind, Func, Node
from tfsmith.ir.types import dtype
from tfsmith.limits import MAX_DEPTH, MAX_FIELDS, MAX_NODES
from tfsmith.storage import Span, from_bytes, release_pages
from tfsmith.wire import BYTES, RawField, WritePlan, encode_field, fields, message_class, new, parse, too_many_fields

__all__ = [
    "attr_from_message",
    "attr_from_span",
    "attrs_from_map",
    "plan_attr",
    "plan_attr_entries",
    "FileNodes",
    "plan_node",
    "read_nodes",
    "scan_places",
]

_TENSOR = 8
_LARGE = 4096
"""A node or value up to this size is parsed whole; in a larger one, the tensor's bytes stay in the file."""

# fmt: off
_KIND_OF_FIELD: Mapping[str, AttrKind] = MappingProxyType({
    "s": "string", "i": "int", "f": "float", "b": "bool", "type": "type", "shape": "shape", "tensor": "tensor",
    "func": "func", "placeholder": "placeholder",
})
# fmt: on
_FIELD_OF_KIND: Mapping[str, str] = MappingProxyType({kind: field for field, kind in _KIND_OF_FIELD.items()})
_LIST_FIELDS = ("s", "i", "f", "b", "type", "shape", "tensor", "func")
_LIST_KIND_OF_FIELD: Mapping[str, AttrKind] = MappingProxyType(
    {field: Attr.of_kind(f"list({_KIND_OF_FIELD[field]})", ()).kind for field in _LIST_FIELDS}
)
_PLAIN_FIELDS = frozenset({"s", "i", "f", "b", "placeholder"})
"""Fields whose values are plain already."""


def attrs_from_map(entries: Mapping[str, Any], path: str | None, depth: int = 0) -> dict[str, Attr]:
    """A protobuf map of attributes."""
    return {key: attr_from_message(value, key, path, depth) for key, value in entries.items()}


def attr_from_message(message: Any, name: str, path: str | None = None, depth: int = 0) -> Attr:
    """An AttrValue that is in memory already."""
    if depth > MAX_DEPTH:
        raise LimitError(f"attribute {name!r} is nested too deeply", path=path, remedy="do not trust the file")
    field = message.WhichOneof("value")
    if field is None:
        return Attr("none", None)
    if field in _PLAIN_FIELDS:
        return Attr(_KIND_OF_FIELD[field], getattr(message, field))
    if field != "list":
        return Attr(_KIND_OF_FIELD[field], _value(field, getattr(message, field), name, path, depth))
    for descriptor, items in message.list.ListFields():  # in the order of their numbers; the first one counts
        inner = descriptor.name
        if inner not in _PLAIN_FIELDS:
            items = [_value(inner, item, name, path, depth) for item in items]
        return Attr(_LIST_KIND_OF_FIELD[inner], tuple(items))
    return Attr("list", ())


def _value(field: str, value: Any, name: str, path: str | None, depth: int) -> Any:
    if field == "type":
        return dtype(value)
    if field == "shape":
        return shape_from_message(value, f"attribute {name!r}", path, is_note=_is_note(name))
    if field == "tensor":
        return tensor_from_message(value, f"attribute {name!r}", path)
    if field == "func":
        return Func(value.name, attrs_from_map(value.attr, path, depth + 1))
    return value


def _is_note(name: str) -> bool:
    """Whether an attribute is a note of an optimizer's to itself: TensorFlow reads of these its output shapes only."""
    return name.startswith("_") and name != "_output_shapes"


def attr_from_span(span: Span, name: str) -> Attr:
    """An AttrValue in a file; a large tensor stays there."""
    if len(span) > _LARGE:
        found = list(islice(fields(span), 2))
        if len(found) == 1 and found[0].number == _TENSOR and found[0].wire_type == BYTES:
            inner = Span(span.source, found[0].start, found[0].stop)
            return Attr("tensor", tensor_from_span(inner, f"attribute {name!r}"))
    return attr_from_message(parse("AttrValue", span, f"attribute {name!r}"), name, span.name)


def plan_attr(attr: Attr) -> WritePlan:
    """An AttrValue; a tensor in a file stays there until it is streamed."""
    plan = WritePlan()
    if attr.tensor is not None:
        plan.add_field(_TENSOR, plan_tensor(attr.tensor))
    else:
        plan.add(_encoded(attr))
    return plan


def _encoded(attr: Attr) -> bytes:
    message = new("AttrValue")
    _fill(message, attr)
    return bytes(message.SerializeToString())


def plan_attr_entries(plan: WritePlan, number: int, attrs: Iterable[tuple[str, Attr]]) -> None:
    """Adds the entries of a map of attributes as fields with this number."""
    for key, attr in attrs:
        if attr.kind == "type" and attr.dtype is not None:
            plan.add(_type_entry(number, key, attr.dtype.number))
            continue
        head = encode_field(1, key.encode())
        if attr.tensor is None:
            plan.add(encode_field(number, head + encode_field(2, _encoded(attr))))
            continue
        entry = WritePlan()
        entry.add(head)
        entry.add_field(2, plan_attr(attr))
        plan.add_field(number, entry)


@lru_cache(1 << 10)
def _type_entry(number: int, key: str, kind: int) -> bytes:
    """An attribute that is a type, as a field of a map; most attributes are, and of few types."""
    message = new("AttrValue")
    message.type = kind
    return encode_field(number, encode_field(1, key.encode()) + encode_field(2, message.SerializeToString()))


def _fill(message: Any, attr: Attr) -> None:
    kind, value = attr.kind, cast("Any", attr.value)
    if kind == "none":
        return
    if kind == "list":
        message.list.SetInParent()
        return
    if kind.startswith("list("):
        field = _FIELD_OF_KIND.get(kind[5:-1], "")
        if field not in _LIST_FIELDS:
            raise UsageError(f"there is no attribute of kind {kind!r}", remedy="use the kinds of OpDef")
        message.list.SetInParent()  # an empty list is a value, too
        for item in value:
            _append(getattr(message.list, field), field, item)
        return
    field = _FIELD_OF_KIND.get(kind, "")
    if not field:
        raise UsageError(f"there is no attribute of kind {kind!r}", remedy="use the kinds of OpDef")
    if field == "shape":
        set_shape(message.shape, value)
    elif field == "tensor":
        message.tensor.ParseFromString(plan_tensor(value).tobytes())
    elif field == "func":
        _fill_func(message.func, value)
    else:
        setattr(message, field, value.number if field == "type" else value)


def _append(items: Any, field: str, value: Any) -> None:
    if field == "shape":
        set_shape(items.add(), value)
    elif field == "tensor":
        items.add().ParseFromString(plan_tensor(value).tobytes())
    elif field == "func":
        _fill_func(items.add(), value)
    else:
        items.append(value.number if field == "type" else value)


def _fill_func(message: Any, func: Func) -> None:
    message.name = func.name
    for key, attr in func.attrs.items():
        _fill(message.attr[key], attr)


_NAME, _OP, _INPUT, _DEVICE, _ATTR = 1, 2, 3, 4, 5
_WHOLE = 1 << 14
"""A node up to this size is parsed whole for its name, op and inputs, which may be hundreds."""
_ATTR_TAG = _ATTR << 3 | BYTES
_HEAD_TAGS = frozenset(number << 3 | BYTES for number in (_NAME, _OP, _INPUT, _DEVICE))
_REMEMBERED = 256
"""Entries of attributes up to this size are decoded once for all nodes that have the same bytes: most do."""
_MOST_REMEMBERED = 1 << 14
_RUN = 1 << 20
"""So many bytes of small nodes are parsed at once."""
_BLOCK = 1 << 14
"""So many bytes are read at once where the attributes of a small node are asked for."""
_TOUCHED = 1 << 24
"""Behind so many bytes, the pages that were looked at are let go: for a byte, the system may map megabytes."""
_DAMAGED = "the file is damaged or is of another kind; fetch it again"


class FileNodes:
    """Decodes the nodes of one file; nodes keep a reference to it."""

    __slots__ = ("_block", "_entries", "_touched", "_whole")

    def __init__(self, whole: Span) -> None:
        self._whole = whole
        self._touched = 0
        self._block = (0, b"")
        self._entries: dict[bytes, tuple[str, Attr]] = {}

    def __reduce__(self) -> tuple[type[FileNodes], tuple[Span]]:
        return FileNodes, (self._whole,)

    def touched(self, size: int) -> None:
        """To be called when a node of this size was looked into without being read as a whole."""
        self._touched += min(size, _TOUCHED // 4)
        if self._touched >= _TOUCHED:
            release_pages(self._whole)
            self._touched = 0

    def span(self, start: int, stop: int) -> Span:
        """The bytes of the node that is there."""
        return Span(self._whole.source, start, stop)

    def attrs(self, start: int, stop: int, only: str | None = None) -> dict[str, Attr]:
        """The attributes of the node that is there, or the one of this name; large tensors stay in the file."""
        if stop - start <= _LARGE:
            small = self._small_attrs(self._small(start, stop), self._whole.name)
            if small is not None:
                return small if only is None else {only: small[only]} if only in small else {}
        span = self.span(start, stop)
        attrs: dict[str, Attr] = {}
        for field in fields(span, MAX_FIELDS):
            if field.number == _ATTR and field.wire_type == BYTES:
                key, value = _entry(self.span(field.start, field.stop))
                if only is None or key == only:
                    attrs[key] = attr_from_span(value, key)
        self.touched(stop - start)
        return attrs

    def stored_attrs(self, start: int, stop: int) -> bytes | None:
        """The bytes of the attributes of the node that is there; None if they are many, or it is laid out unusually."""
        if stop - start > _LARGE:
            return None
        data = self._small(start, stop)
        position, last = 0, len(data) - 1
        while position < last and data[position] in _HEAD_TAGS:
            size = data[position + 1]
            if size >= 0x80:
                return None
            position += size + 2
        return data[position:] if len(data) - position <= _REMEMBERED else None

    def _small(self, start: int, stop: int) -> bytes:
        """The bytes of a small node. Nodes are read one after the other, and lie so: several are read at once."""
        first, block = self._block
        if start < first or stop > first + len(block):
            first, block = start, self.span(start, max(stop, min(start + _BLOCK, self._whole.stop))).tobytes()
            self._block = first, block
        return block[start - first : stop - first]

    def _small_attrs(self, data: bytes, path: str) -> dict[str, Attr] | None:
        """The attributes in the bytes of a small node; None if something about them is unusual.

        The loop is written out because it runs once per node; `fields` says the same more slowly.
        """
        attrs: dict[str, Attr] = {}
        entries, position, stop = self._entries, 0, len(data)
        while position < stop - 1:
            tag, size = data[position], data[position + 1]
            position += 2
            if tag & 7 != BYTES or tag >= 0x80:
                return None
            if size >= 0x80:  # no more than two bytes: a small node is shorter than 16,384
                if position >= stop or data[position] >= 0x80:
                    return None
                size = size & 0x7F | data[position] << 7
                position += 1
            end = position + size
            if end > stop:
                return None
            if tag == _ATTR_TAG:
                raw = data[position:end]
                found = entries.get(raw) or self._decoded(raw, path)
                if found is None:
                    return None
                attrs[found[0]] = found[1]
            position = end
        return attrs if position == stop else None

    def _decoded(self, raw: bytes, path: str) -> tuple[str, Attr] | None:
        """An entry of the attributes; None if it is damaged or has unknown fields."""
        from google.protobuf.message import DecodeError
        from google.protobuf.unknown_fields import UnknownFieldSet  # where protobuf puts entries with unknown fields

        try:
            message = message_class("NodeDef.AttrEntry").FromString(raw)
        except DecodeError:
            return None
        if len(UnknownFieldSet(message)):
            return None
        found = message.key, attr_from_message(message.value, message.key, path)
        if len(raw) <= _REMEMBERED and len(self._entries) < _MOST_REMEMBERED:
            self._entries[raw] = found
        return found


def read_nodes(whole: Span, places: list[tuple[int, int, int]], message: str, field: str) -> tuple[Node, ...]:
    """Makes nodes of the places found by a scan.

    Args:
        whole: The message that holds the nodes.
        places: For each node: where its tag starts, where its bytes start, where they end.
        message: The name of the message that holds them ("GraphDef", "FunctionDef").
        field: The name of the field ("node", "node_def").

    Raises:
        CorruptFileError: A node cannot be decoded; the error has its offset.
    """
    from google.protobuf.message import DecodeError

    origin = FileNodes(whole)
    holder = message_class(message)
    nodes: list[Node] = []
    count, first = len(places), 0
    while first < count:
        tag_start, start, stop = places[first]
        if stop - start > _WHOLE:
            nodes.append(_scan_node(origin, start, stop))
            first += 1
            continue
        last = first + 1
        while last < count:
            next_tag, next_start, next_stop = places[last]
            if next_tag != stop or next_stop - next_start > _WHOLE or next_stop - tag_start > _RUN:
                break
            stop = next_stop
            last += 1
        run = places[first:last]
        try:
            parsed = getattr(holder.FromString(origin.span(tag_start, stop).tobytes()), field)
        except DecodeError as error:
            raise _explain(origin, run) from error
        for found, (_, start, stop) in zip(parsed, run, strict=True):
            op = sys.intern(found.op)
            nodes.append(Node.from_file(found.name, op, tuple(found.input), found.device, origin, start, stop))
        first = last
    return tuple(nodes)


def _explain(origin: FileNodes, run: list[tuple[int, int, int]]) -> CorruptFileError:
    """Finds the node that protobuf could not parse, by parsing one at a time."""
    for _, start, stop in run:
        try:
            parse("NodeDef", origin.span(start, stop), "a node")
        except CorruptFileError as found:
            return found
    # Each is sound by itself, but inside of the graph one of them goes deeper than protobuf allows.
    span = origin.span(run[0][1], run[-1][2])
    return CorruptFileError("a node is nested too deeply", path=span.name, offset=span.start, remedy=_DAMAGED)


def _scan_node(origin: FileNodes, start: int, stop: int) -> Node:
    span = origin.span(start, stop)
    name = op = device = ""
    inputs: list[str] = []
    for field in fields(span, MAX_FIELDS):
        if field.wire_type != BYTES or field.number >= _ATTR:
            continue
        text = _text(origin.span(field.start, field.stop))
        if field.number == _NAME:
            name = text
        elif field.number == _OP:
            op = text
        elif field.number == _INPUT:
            inputs.append(text)
        else:
            device = text
    origin.touched(stop - start)
    return Node.from_file(name, sys.intern(op), tuple(inputs), device, origin, start, stop)


def _entry(span: Span) -> tuple[str, Span]:
    """An entry of a map with text keys."""
    key, values = "", []
    for field in fields(span, MAX_FIELDS):
        if field.wire_type == BYTES and field.number == 1:
            key = _text(Span(span.source, field.start, field.stop))
        elif field.wire_type == BYTES and field.number == 2:
            values.append(Span(span.source, field.start, field.stop))
    if len(values) == 1:
        return key, values[0]
    return key, from_bytes(b"".join(value.tobytes() for value in values), span.name)  # parts of a message add up


def _text(span: Span) -> str:
    try:
        return span.tobytes().decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError("a name is not text", path=span.name, offset=span.start, remedy=_DAMAGED) from error


def scan_places(span: Span, number: int) -> tuple[list[tuple[int, int, int]], list[RawField]]:
    """Splits a message into the places of its fields with this number, and its other fields.

    The loop is written out because it runs once per node; `fields` says the same more slowly.
    """
    buffer, position, stop = span.source.buffer, span.start, span.stop
    release_at = position + _TOUCHED
    wanted = number << 3 | BYTES
    places: list[tuple[int, int, int]] = []
    others: list[RawField] = []
    while position < stop:
        if buffer[position] != wanted or position + 1 >= stop:
            for field in fields(Span(span.source, position, stop)):
                position = field.stop
                if field.number == number and field.wire_type == BYTES:  # its tag takes more bytes than it needs
                    places.append((field.tag_start, field.start, field.stop))
                    break
                others.append(field)
                if len(others) > MAX_FIELDS:
                    raise too_many_fields(span, field)
                if position < stop and buffer[position] == wanted:
                    break
            continue
        tag_start = position
        length = buffer[position + 1]
        position += 2
        if length >= 0x80:
            length &= 0x7F
            shift = 7
            while True:
                if position >= stop or shift > 63:
                    raise _cut(span, tag_start)
                byte = buffer[position]
                position += 1
                length |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
        start = position
        position += length
        if position > stop:
            raise _cut(span, tag_start)
        places.append((tag_start, start, position))
        if position >= release_at:
            release_pages(span)
            release_at = position + _TOUCHED
        if len(places) > MAX_NODES:
            remedy = "no real model has so many; do not trust the file"
            raise LimitError(f"there are over {MAX_NODES} nodes", path=span.name, offset=tag_start, remedy=remedy)
    return places, others


def _cut(span: Span, offset: int) -> TruncatedFileError:
    what = f"a node reaches past the end of what holds it ({span.stop})"
    return TruncatedFileError(what, path=span.name, offset=offset, remedy="the file is cut off; fetch it again")


def plan_node(node: Node) -> Span | WritePlan:
    """The bytes of a node: its own, if nobody edited it; else encoded, with its untouched attributes verbatim."""
    raw = node.raw
    if raw is not None:
        return raw
    plan = WritePlan()
    head = [encode_field(_NAME, node.name.encode()), encode_field(_OP, node.op.encode())]
    head += [encode_field(_INPUT, name.encode()) for name in node.inputs]
    if node.device:
        head.append(encode_field(_DEVICE, node.device.encode()))
    plan.add(b"".join(head))
    base = node.base
    if base is None:
        plan_attr_entries(plan, _ATTR, sorted(node.attrs.items()))
        return plan
    start = stop = 0  # of what is kept and follows each other
    for field in fields(base):
        if field.number < _ATTR and field.wire_type == BYTES:
            continue
        if field.number == _ATTR and field.wire_type == BYTES and node.edits:
            key, _ = _entry(Span(base.source, field.start, field.stop))
            if key in node.edits:
                continue
        if field.tag_start != stop:
            plan.add(Span(base.source, start, stop))
            start = field.tag_start
        stop = field.stop
    plan.add(Span(base.source, start, stop))
    if len(base) > _TOUCHED // 4:
        release_pages(base)
    plan_attr_entries(plan, _ATTR, sorted((key, value) for key, value in node.edits.items() if value is not None))
    return plan
