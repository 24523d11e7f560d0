"""What is odd about a model's file itself: fields that no message has, text under a binary name; Keras' metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tfsmith.errors import TfsmithError
from tfsmith.formats import MAIN_FILES, find_main_file, sniff
from tfsmith.ir.model import Model
from tfsmith.limits import MAX_DEPTH
from tfsmith.storage import Span, open_file
from tfsmith.wire import BYTES, RawField, fields, parse
from tfsmith.wire.schema import child_message, fields_of, is_packable, wire_type

__all__ = [
    "KERAS_METADATA",
    "UnknownField",
    "keras_layers",
    "other_main_files",
    "text_in_disguise",
    "unknown_fields",
]

KERAS_METADATA = "keras_metadata.pb"
_MESSAGES = MappingProxyType({"graphdef": "GraphDef", "metagraph": "MetaGraphDef", "saved_model": "SavedModel"})
_SHELLS = frozenset({"SavedModel", "MetaGraphDef", "MetaGraphDef.MetaInfoDef", "GraphDef", "FunctionDefLibrary"})
"""Messages that are walked; what they hold is asked many at a time whether there is anything unknown in it."""
_RUN_BYTES = 1 << 20
_NAMES = MappingProxyType({"NodeDef": 1, "OpDef": 1})
"""The field that names such a message."""
_MOST = 100
_MOST_FIELDS = 100_000
_LONGEST_NAME = 1000
_KERAS_NODE, _KERAS_PATH, _KERAS_METADATA = 1, 3, 5


class UnknownField(NamedTuple):
    """A field that its message does not have, or has as another type, which readers keep apart likewise."""

    message: str
    number: int
    size: int
    offset: int
    inside: str = ""
    """The name of the node that it lies in, if it lies in one."""


def unknown_fields(model: Model) -> Iterator[UnknownField]:
    """The first hundred unknown fields in a model's main file, in its nodes too. Values over 1 MB are not read."""
    name = _MESSAGES.get(model.kind)
    if name is not None and model.raw is not None:
        yield from islice(_in_shell(name, model.raw), _MOST)


def _in_shell(message: str, span: Span) -> Iterator[UnknownField]:
    """Those of a message that is walked. What it holds is parsed in runs: few files have anything unknown there."""
    known = {field.number: child_message(message, field) for field in fields_of(message)}
    run: list[RawField] = []
    for field in fields(span):
        child = known.get(field.number)
        is_new = bool(run) and (field.tag_start != run[-1].stop or field.stop - run[0].tag_start > _RUN_BYTES)
        if field.number not in known:
            yield UnknownField(message, field.number, field.stop - field.start, field.tag_start)
        elif child in _SHELLS and field.wire_type == BYTES:
            yield from _in_shell(child, Span(span.source, field.start, field.stop))
        elif field.stop - field.start > _RUN_BYTES:
            yield from _in_field(message, span, field)
        else:
            if is_new:
                yield from _in_run(message, span, run)
                run = []
            run.append(field)
    yield from _in_run(message, span, run)


def _in_run(message: str, span: Span, run: list[RawField]) -> Iterator[UnknownField]:
    """Those of some fields that lie side by side."""
    if not run:
        return
    try:
        parsed = parse(message, Span(span.source, run[0].tag_start, run[-1].stop))
        size = parsed.ByteSize()
        parsed.DiscardUnknownFields()
        is_plain = parsed.ByteSize() == size
    except TfsmithError:
        is_plain = False
    for field in () if is_plain else run:
        yield from _in_field(message, span, field)


def _in_field(message: str, span: Span, field: RawField, inside: str = "", depth: int = 0) -> Iterator[UnknownField]:
    """Whether a field is unknown, and those that are unknown in what it holds."""
    known = next((one for one in fields_of(message) if one.number == field.number), None)
    packed = known is not None and is_packable(known) and field.wire_type == BYTES
    if known is None or (field.wire_type != wire_type(known) and not packed):
        yield UnknownField(message.partition("/")[0], field.number, field.stop - field.start, field.tag_start, inside)
        return
    child = child_message(message, known)
    if child is None or depth > MAX_DEPTH:
        return
    inner = Span(span.source, field.start, field.stop)
    try:
        found = list(fields(inner, _MOST_FIELDS))
    except TfsmithError:  # so long a list holds numbers, or the file cannot be read at all
        return
    name = next((one for one in found if one.number == _NAMES.get(child) and one.wire_type == BYTES), None)
    if name is not None:
        stop = min(name.stop, name.start + _LONGEST_NAME)
        inside = Span(span.source, name.start, stop).tobytes().decode("utf-8", "replace")
    for one in found:
        yield from _in_field(child, inner, one, inside, depth + 1)


def other_main_files(model: Model) -> Iterator[str]:
    """The main files of a SavedModel's folder that were not the one that was opened."""
    if model.kind == "saved_model" and model.path is not None and model.path.is_dir():
        there = [name for name in MAIN_FILES if (model.path / name).is_file()]
        opened = find_main_file(model.path)
        yield from (name for name in there if opened is None or name != opened.name)


def text_in_disguise(model: Model) -> Path | None:
    """The main file, if it is text and its name says otherwise; None for all others."""
    if model.path is None or model.path.suffix not in (".pb", ".meta") or not model.path.is_file():
        return None
    return model.path if sniff(open_file(model.path)).text else None


def keras_layers(model: Model) -> Iterator[tuple[str, str]]:
    """What Keras kept of its layers: where each lies, and its metadata as JSON.

    Raises:
        CorruptFileError: The metadata cannot be read.
    """
    if model.keras is not None:
        yield model.keras.title, model.keras.config
        yield "the training configuration", json.dumps(model.keras.training)
    for side in model.side_files:
        if side.name != KERAS_METADATA or side.leads_out:
            continue
        span = open_file(side.path)
        for field in fields(span):
            if field.number == _KERAS_NODE and field.wire_type == BYTES:
                inner = {one.number: one for one in fields(Span(span.source, field.start, field.stop))
                         if one.wire_type == BYTES}  # fmt: skip
                texts = {
                    number: Span(span.source, one.start, one.stop).tobytes().decode("utf-8", "replace")
                    for number, one in inner.items()
                }
                yield texts.get(_KERAS_PATH, side.name), texts.get(_KERAS_METADATA, "")
    for meta in model.meta_graphs:
        for number, node in enumerate(meta.objects.nodes if meta.objects is not None else ()):
            text = node.details.get("metadata")
            if node.kind == "user_object" and isinstance(text, str) and text:
                yield f"object {number}", text
