"""Pattern and Recipe files in the wire format of the original tools: `.pb`, and `.pbtxt` as protobuf prints it.

    Pattern { repeated NodeDef seed_nodes = 1; repeated NodeDef internal_nodes = 2; repeated string inputs = 3; }
    Recipe { Pattern source_pattern = 1; NodeDef target_node = 2; }

The content decides what a file is. A file of another kind is named, with what to pass instead.
"""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

from tfsmith.errors import CorruptFileError, UnreadableFileError, WrongFileError
from tfsmith.formats import refuse_foreign, sniff
from tfsmith.formats.graph.nodes import plan_node, read_nodes, scan_places
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Pattern
from tfsmith.limits import MAX_FIELDS
from tfsmith.storage import FileSink, Sink, Span, from_bytes, open_file
from tfsmith.wire import BYTES, RawField, WritePlan, fields, parse
from tfsmith.wire.text_reader import read_text
from tfsmith.wire.text_writer import Printer

__all__ = ["is_toml", "read_node", "read_pattern", "read_recipe", "write_pattern", "write_recipe"]

_SEEDS, _INTERNAL, _INPUTS = 1, 2, 3
_SOURCE, _TARGET = 1, 2
_PEEK = 64
_OP = re.compile(rb"[A-Za-z_][A-Za-z0-9_.>\-]*")
_WORD = re.compile(r"(?:\s|#[^\n]*\n)*([A-Za-z_][\w.]*)\s*[:{<]")
_TOML = re.compile(r"(?:\s|#[^\n]*\n)*(?:\[|[A-Za-z_][\w.-]*\s*=)")
_BINARY = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")
_TEXT_KINDS = {"seed_nodes": "pattern", "internal_nodes": "pattern", "inputs": "pattern"}
_TEXT_KINDS |= {"source_pattern": "recipe", "target_node": "recipe"}
_TEXT_KINDS |= dict.fromkeys(("name", "op", "input", "device", "attr", "experimental_debug_info"), "node")
_MESSAGES = {"pattern": "Pattern", "recipe": "Recipe", "node": "NodeDef"}
_NAMES = {
    "pattern": "a pattern",
    "recipe": "a recipe",
    "node": "a single node (NodeDef)",
    "toml": "the readable form of a recipe (TOML)",
    "graphdef": "a graph (GraphDef)",
    "metagraph": "a graph (MetaGraphDef)",
    "saved_model": "the graph of a SavedModel",
    "table": "a checkpoint, or its index",
}
_REMEDIES = {
    "pattern": "pass what {extract(model)} wrote",
    "recipe": "pass what {make_recipe()} wrote, a recipe in TOML, or a name of {list_recipes()}",
    "node": 'pass the new node alone, as text (name: "fused" op: "Bert" input: "x") or binary',
}


def read_pattern(path: Path) -> Pattern:
    """Reads a pattern, binary or text. Names, ops and inputs are read; attributes stay in the file.

    Raises:
        WrongFileError: It is something else; the remedy says what to pass.
        CorruptFileError: It is damaged.
    """
    return _pattern(_open(path, "pattern"))


def read_recipe(path: Path) -> tuple[Pattern, Node]:
    """Reads a recipe of the original tools, binary or text: its pattern, and the node to put in.

    Raises:
        WrongFileError: It is something else; the remedy says what to pass.
        CorruptFileError: It is damaged, or lacks one of the two.
    """
    span = _open(path, "recipe")
    found: dict[int, list[Span]] = {_SOURCE: [], _TARGET: []}
    for field in fields(span, MAX_FIELDS):
        if field.number in found and field.wire_type == BYTES:
            found[field.number].append(_inside(span, field))
    for number, name in ((_SOURCE, "pattern (source_pattern)"), (_TARGET, "node to put in (target_node)")):
        if not found[number]:
            raise CorruptFileError(f"the recipe has no {name}", path=path, remedy=_REMEDIES["recipe"])
    return _pattern(_merged(found[_SOURCE])), _node(_merged(found[_TARGET]))


def read_node(path: Path) -> Node:
    """Reads a single NodeDef, binary or text.

    Raises:
        WrongFileError: It is something else; the remedy says what to pass.
        CorruptFileError: It is damaged.
    """
    return _node(_open(path, "node"))


def is_toml(path: Path) -> bool:
    """Whether a file is a recipe in its readable form, by its content."""
    return not path.is_dir() and _kind(open_file(path)) == ("toml", True)


def write_pattern(path: Path, pattern: Pattern) -> None:
    """Writes a pattern; as text if its name ends in `.pbtxt`. Nodes keep their bytes."""
    with FileSink(path) as sink:
        if path.suffix == ".pbtxt":
            _write_text(sink, pattern, "", Printer(like_str=True))
        else:
            _plan_pattern(pattern).write_to(sink)


def write_recipe(path: Path, pattern: Pattern, target: Node) -> None:
    """Writes a recipe; as text if the name ends in `.pbtxt`."""
    if path.suffix != ".pbtxt":
        plan = WritePlan()
        plan.add_field(_SOURCE, _plan_pattern(pattern))
        plan.add_field(_TARGET, plan_node(target))
        with FileSink(path) as sink:
            plan.write_to(sink)
        return
    printer = Printer(like_str=True)
    with FileSink(path) as sink:
        sink.write(b"source_pattern {\n")
        _write_text(sink, pattern, "  ", printer)
        sink.write(b"}\n")
        _write_node(sink, "target_node", target, "", printer)


def _plan_pattern(pattern: Pattern) -> WritePlan:
    plan = WritePlan()
    for number, nodes in ((_SEEDS, pattern.seed_nodes), (_INTERNAL, pattern.internal_nodes)):
        for node in nodes:
            plan.add_field(number, plan_node(node))
    for name in pattern.inputs:
        plan.add_field(_INPUTS, name.encode())
    return plan


def _write_text(sink: Sink, pattern: Pattern, pad: str, printer: Printer) -> None:
    """A pattern as protobuf's `str` prints it, which is what the original tool writes; one node at a time."""
    for name, nodes in (("seed_nodes", pattern.seed_nodes), ("internal_nodes", pattern.internal_nodes)):
        for node in nodes:
            _write_node(sink, name, node, pad, printer)
    names = Pattern((), (), pattern.inputs)
    sink.write(printer.text("Pattern", parse("Pattern", _plan_pattern(names).tobytes()), pad).encode())


def _write_node(sink: Sink, field: str, node: Node, pad: str, printer: Printer) -> None:
    plan = plan_node(node)
    text = printer.text("NodeDef", parse("NodeDef", plan.tobytes()), f"{pad}  ")
    sink.write(f"{pad}{field} {{\n{text}{pad}}}\n".encode())


def _pattern(span: Span) -> Pattern:
    seeds, others = scan_places(span, _SEEDS)
    internal = [(field.tag_start, field.start, field.stop) for field in others if _is(field, _INTERNAL)]
    inputs = [_text(_inside(span, field)) for field in others if _is(field, _INPUTS)]
    return Pattern(
        read_nodes(span, seeds, "Pattern", "seed_nodes"),
        read_nodes(span, internal, "Pattern", "internal_nodes"),
        tuple(inputs),
    )


def _node(span: Span) -> Node:
    """A node that is a message of its own: it is read as the only one of a graph."""
    plan = WritePlan()
    plan.add_field(1, span)
    whole = from_bytes(plan.tobytes(), span.name)
    places, _ = scan_places(whole, 1)
    return read_nodes(whole, places, "GraphDef", "node")[0]


def _is(field: RawField, number: int) -> bool:
    return field.number == number and field.wire_type == BYTES


def _inside(span: Span, field: RawField) -> Span:
    return Span(span.source, field.start, field.stop)


def _merged(parts: list[Span]) -> Span:
    """The message in a field. Where it comes in parts, as protobuf allows, they add up."""
    return parts[0] if len(parts) == 1 else from_bytes(b"".join(part.tobytes() for part in parts), parts[0].name)


def _text(span: Span) -> str:
    try:
        return span.tobytes().decode()
    except UnicodeDecodeError as error:
        remedy = "the file is damaged or is of another kind; fetch it again"
        raise CorruptFileError("a name is not text", path=span.name, offset=span.start, remedy=remedy) from error


# What a file is


def _open(path: Path, wanted: str) -> Span:
    """The wire bytes of the message that is wanted.

    Raises:
        WrongFileError: The file is something else.
    """
    if path.is_dir():
        what = f"this is a folder, and {_NAMES[wanted]} is wanted"
        raise UnreadableFileError(what, path=path, remedy=_REMEDIES[wanted])
    span = open_file(path)
    kind, is_text = _kind(span)
    if kind == "unknown" and path.suffix == ".pbtxt":
        kind, is_text = wanted, True  # the parser says what is wrong, and where
    if kind != wanted:
        raise _wrong(path, span, kind, wanted)
    return read_text(span, _MESSAGES[wanted]) if is_text else span


def _wrong(path: Path, span: Span, kind: str, wanted: str) -> WrongFileError:
    found = sniff(span)
    refuse_foreign(found, str(path))
    kind = found.kind if kind == "unknown" else kind
    remedy = _REMEDIES[wanted]
    if (wanted, kind) == ("recipe", "pattern"):
        remedy = "add what to put in its place: {make_recipe('PATTERN', 'NODE', 'RECIPE')}"
    if kind not in _NAMES:
        return WrongFileError(f"this is not {_NAMES[wanted]}, nor any file that we know", path=path, remedy=remedy)
    return WrongFileError(f"this is {_NAMES[kind]}, and {_NAMES[wanted]} is wanted", path=path, remedy=remedy)


def _kind(span: Span) -> tuple[str, bool]:
    """What a file is ("unknown" if it is none of these messages), and whether it is text. Reads its beginning."""
    head = span.source.buffer[span.start : min(span.start + 65536, span.stop)].tobytes()
    if b"\x00" not in head[:512]:
        text = head.decode("utf-8", "replace")
        word = _WORD.match(text)
        if word is not None and word[1] in _TEXT_KINDS:
            return _TEXT_KINDS[word[1]], True
        if word is None and _TOML.match(text) and not _BINARY.search(head):
            return "toml", True
    found = _peek(span)
    if _is_node(span):
        return "node", False
    if not found or any(field.wire_type != BYTES for field in found if field.number <= _INPUTS):
        return "unknown", False
    numbers = {field.number for field in found}
    seeds = [_inside(span, field) for field in found if field.number == 1]
    others = [_inside(span, field) for field in found if field.number == 2]
    if seeds and _holds_seed(seeds[0]) and all(map(_is_node, others[:1])):
        return "recipe", False
    if not (numbers & {_INTERNAL, _INPUTS}) or 4 in numbers:
        return "unknown", False  # only nodes, or nodes and versions: a graph
    if seeds and _is_node(seeds[0]) and all(map(_is_node, others[:1])):
        return "pattern", False
    return "unknown", False


def _peek(span: Span) -> list[RawField]:
    """The first fields, as far as they are sound."""
    found: list[RawField] = []
    try:
        for field in islice(fields(span), _PEEK):
            found.append(field)
    except CorruptFileError:
        pass
    return found


def _is_node(span: Span) -> bool:
    """A node has a name (1) and an op (2), both text; elsewhere these are messages."""
    inside = {field.number: field for field in reversed(_peek(span)) if field.wire_type == BYTES}
    if 1 not in inside or 2 not in inside:
        return False
    op = _inside(span, inside[2])
    return len(op) < 1000 and _OP.fullmatch(op.tobytes()) is not None


def _holds_seed(span: Span) -> bool:
    seeds = [field for field in _peek(span) if _is(field, _SEEDS)]
    return bool(seeds) and _is_node(_inside(span, seeds[0]))
