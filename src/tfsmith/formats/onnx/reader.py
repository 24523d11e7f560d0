"""What is inside an ONNX file, read without loading its weights, and without any package of ONNX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from tfsmith.errors import WrongFileError
from tfsmith.formats.onnx.writer import ELEMENT_TYPES
from tfsmith.records import record
from tfsmith.storage import Span, open_file
from tfsmith.wire import BYTES, VARINT, as_int64, fields

__all__ = ["OnnxFacts", "OnnxNode", "OnnxTensor", "read_onnx"]

_MOST = 5_000_000
"""Fields of one message; no real model has more nodes."""
_DEPTH = 32
_LONGEST = 1000
"""Attributes of so many bytes are read."""
_NAMES = MappingProxyType({number: name for name, number in reversed(list(ELEMENT_TYPES.items()))})


@record
class OnnxTensor:
    """A name with a type and sizes, of which open ones are names or "?"."""

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    nbytes: int = 0


@record
class OnnxNode:
    """A node: its name, or that of its first output; its op; the tensors that it takes and gives; its attributes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, object]


@record
class OnnxFacts:
    """What an ONNX file holds.

    Attributes:
        ir_version: The version of the file format.
        opsets: The version of the ops of each domain.
        producer: Who wrote it.
        inputs: Its inputs.
        outputs: Its outputs.
        ops: How many nodes of each op it has, those of bodies included, most first.
        weights: Its weights; those in files beside it too.
        external: The files beside it that weights lie in.
        nodes: The nodes of its graph.
        shapes: What it says of the tensors inside.
    """

    ir_version: int
    opsets: dict[str, int]
    producer: str
    inputs: tuple[OnnxTensor, ...]
    outputs: tuple[OnnxTensor, ...]
    ops: dict[str, int]
    weights: tuple[OnnxTensor, ...]
    external: tuple[str, ...] = ()
    nodes: tuple[OnnxNode, ...] = ()
    shapes: tuple[OnnxTensor, ...] = ()


def read_onnx(path: Path) -> OnnxFacts:
    """Reads what is inside; elements of weights are passed over.

    Raises:
        WrongFileError: This is no ONNX model.
        CorruptFileError: It is damaged.
    """
    span = open_file(path)
    version, producer = 0, ["", ""]
    opsets: dict[str, int] = {}
    graph: Span | None = None
    for number, kind, value, inner in _fields(span):
        if number == 1 and kind == VARINT:
            version = value
        elif number in (2, 3) and kind == BYTES:
            producer[number - 2] = _text(inner)
        elif number == 7 and kind == BYTES:
            graph = inner
        elif number == 8 and kind == BYTES:
            domain, found = "", 0
            for part, part_kind, part_value, text in _fields(inner):
                if part == 1 and part_kind == BYTES:
                    domain = _text(text)
                elif part == 2 and part_kind == VARINT:
                    found = part_value
            opsets[domain] = found
    if graph is None or not version or not opsets:
        raise WrongFileError(
            "this is no ONNX model", path=path, remedy="pass a file that convert wrote, or another ONNX"
        )
    counts: dict[str, int] = {}
    inputs: list[OnnxTensor] = []
    outputs: list[OnnxTensor] = []
    weights: list[OnnxTensor] = []
    external: dict[str, None] = {}
    nodes: list[OnnxNode] = []
    shapes: list[OnnxTensor] = []
    for number, kind, _, inner in _fields(graph):
        if kind != BYTES:
            continue
        if number == 1:
            _count(inner, counts, 0)
            nodes.append(_node(inner))
        elif number == 13:
            shapes.append(_port(inner))
        elif number == 5:
            weights.append(_weight(inner, external))
        elif number == 11:
            inputs.append(_port(inner))
        elif number == 12:
            outputs.append(_port(inner))
    names = {one.name for one in weights}
    ops = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    taken = tuple(one for one in inputs if one.name not in names)
    return OnnxFacts(
        version,
        opsets,
        " ".join(filter(None, producer)),
        taken,
        tuple(outputs),
        ops,
        tuple(weights),
        tuple(external),
        tuple(nodes),
        tuple(shapes),
    )


def _node(node: Span) -> OnnxNode:
    texts: dict[int, list[str]] = {1: [], 2: [], 3: [], 4: [], 7: []}
    attrs: dict[str, object] = {}
    for number, kind, _, inner in _fields(node):
        if kind == BYTES and number in texts:
            texts[number].append(_text(inner))
        elif kind == BYTES and number == 5:
            key, value = _attribute(inner)
            attrs[key] = value
    op = ":".join(filter(None, (*texts[7][-1:], *texts[4][-1:])))
    name = next(filter(None, (*texts[3][-1:], *texts[2])), op)
    return OnnxNode(name, op, tuple(texts[1]), tuple(texts[2]), attrs)


def _attribute(span: Span) -> tuple[str, object]:
    """The name of an attribute, and its value if it is an integer, a text or a list of integers."""
    name, value = "", "..."
    listed: list[int] = []
    for number, kind, integer, inner in _fields(span):
        if kind == BYTES and number in (1, 4) and len(inner) <= _LONGEST:
            name, value = (_text(inner), value) if number == 1 else (name, _text(inner))
        elif kind == VARINT and number == 3:
            value = str(as_int64(integer))
        elif kind == VARINT and number == 8:
            listed.append(as_int64(integer))
        elif kind == BYTES and number == 8 and len(inner) <= _LONGEST:
            listed += [one for one in _packed(inner) if isinstance(one, int)]
    return name, listed or value


def _fields(span: Span) -> Iterator[tuple[int, int, int, Span]]:
    for found in fields(span, _MOST):
        yield found.number, found.wire_type, found.value, Span(span.source, found.start, found.stop)


def _text(span: Span) -> str:
    return span.tobytes().decode("utf-8", "replace")


def _count(node: Span, counts: dict[str, int], depth: int) -> None:
    """Counts a node and those of its bodies (attributes of field 6 or 11 that are graphs)."""
    op = domain = ""
    for number, kind, _, inner in _fields(node):
        if kind != BYTES:
            continue
        if number == 4:
            op = _text(inner)
        elif number == 7:
            domain = _text(inner)
        elif number == 5 and depth < _DEPTH:
            for part, part_kind, _, body in _fields(inner):
                if part_kind == BYTES and part in (6, 11):
                    for field, field_kind, _, one in _fields(body):
                        if field == 1 and field_kind == BYTES:
                            _count(one, counts, depth + 1)
    name = f"{domain}:{op}" if domain else op
    counts[name] = counts.get(name, 0) + 1


def _weight(tensor: Span, external: dict[str, None]) -> OnnxTensor:
    dims: list[int | str] = []
    name, kind_of, size = "", 0, 0
    for number, kind, value, inner in _fields(tensor):
        if number == 1 and kind == VARINT:
            dims.append(as_int64(value))
        elif number == 1 and kind == BYTES:
            dims += _packed(inner)
        elif number == 2 and kind == VARINT:
            kind_of = value
        elif number == 8 and kind == BYTES:
            name = _text(inner)
        elif kind == BYTES and number in (4, 5, 6, 7, 9, 10, 11):
            size += len(inner)
        elif number == 13 and kind == BYTES:
            entry = {part: _text(text) for part, part_kind, _, text in _fields(inner) if part_kind == BYTES}
            if entry.get(1) == "location":
                external[entry.get(2, "")] = None
            elif entry.get(1) == "length" and entry.get(2, "").isdecimal() and len(entry[2]) < 20:
                size += int(entry[2])
    return OnnxTensor(name, _NAMES.get(kind_of, f"type {kind_of}"), tuple(dims), size)


def _packed(span: Span) -> list[int | str]:
    from tfsmith.wire import read_varint

    found: list[int | str] = []
    at = span.start
    while at < span.stop:
        value, at = read_varint(span.source.buffer, at, span.stop, span.name)
        found.append(as_int64(value))
    return found


def _port(info: Span) -> OnnxTensor:
    name, dtype = "", "?"
    shape: tuple[int | str, ...] | None = None
    for number, kind, _, inner in _fields(info):
        if number == 1 and kind == BYTES:
            name = _text(inner)
        elif number == 2 and kind == BYTES:
            for part, part_kind, _, tensor in _fields(inner):
                if part == 1 and part_kind == BYTES:
                    dtype, shape = _tensor_type(tensor)
    return OnnxTensor(name, dtype, shape)


def _tensor_type(span: Span) -> tuple[str, tuple[int | str, ...] | None]:
    dtype = "?"
    shape: tuple[int | str, ...] | None = None
    for number, kind, value, inner in _fields(span):
        if number == 1 and kind == VARINT:
            dtype = _NAMES.get(value, f"type {value}")
        elif number == 2 and kind == BYTES:
            shape = tuple(_size(dim) for part, part_kind, _, dim in _fields(inner) if part == 1 and part_kind == BYTES)
    return dtype, shape


def _size(dim: Span) -> int | str:
    for number, kind, value, inner in _fields(dim):
        if number == 1 and kind == VARINT:
            return as_int64(value)
        if number == 2 and kind == BYTES:
            return _text(inner)
    return "?"
