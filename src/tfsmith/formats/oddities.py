"""What is odd about a model's file itself: fields that no message has, text under a binary name; Keras' metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tfsmith.formats.kinds import MAIN_FILES, find_main_file
from tfsmith.formats.sniff import sniff
from tfsmith.ir.model import Model
from tfsmith.storage.span import Span, open_file
from tfsmith.wire.scan import BYTES, fields
from tfsmith.wire.schema import child_message, fields_of

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
"""Messages that are looked into; those with many fields of one kind are not looked into further."""
_MOST = 100
_KERAS_NODE, _KERAS_PATH, _KERAS_METADATA = 1, 3, 5


class UnknownField(NamedTuple):
    """A field that its message does not have."""

    message: str
    number: int
    size: int
    offset: int


def unknown_fields(model: Model) -> Iterator[UnknownField]:
    """The first hundred unknown fields in the shells of a model's main file. Touches tags and lengths only."""
    name = _MESSAGES.get(model.kind)
    if name is not None and model.raw is not None:
        yield from islice(_unknown(name, model.raw), _MOST)


def _unknown(message: str, span: Span) -> Iterator[UnknownField]:
    known = {field.number: child_message(message, field) for field in fields_of(message)}
    for field in fields(span):
        if field.number not in known:
            yield UnknownField(message, field.number, field.stop - field.start, field.tag_start)
            continue
        child = known[field.number]
        if child in _SHELLS and field.wire_type == BYTES:
            yield from _unknown(child, Span(span.source, field.start, field.stop))


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
