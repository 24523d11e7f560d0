"""Tells what a file is, by its content and not by its name, without decoding it."""

from __future__ import annotations

import re
from itertools import islice

from tfsmith.errors import CorruptFileError, WrongFileError
from tfsmith.records import record
from tfsmith.storage.span import Span
from tfsmith.wire.scan import BYTES, VARINT, RawField, fields

__all__ = ["Sniffed", "refuse_foreign", "refuse_pointer", "sniff"]

_TABLE_MAGIC = b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"
_PEEK = 64
_META_GRAPH_FIELDS = 7
_OP = rb"[A-Za-z_][A-Za-z0-9_.>\-]*"

_HDF5 = b"\x89HDF\r\n\x1a\n"
_LFS = (0, b"version https://git-lfs", "a Git LFS pointer, not the file itself", "run `git lfs pull` to fetch it")
_FOREIGN: tuple[tuple[int, bytes, str, str], ...] = (
    _LFS,
    (4, b"TFL3", "a TensorFlow Lite model", "pass the model that it was converted from"),
    (0, b"\x1f\x8b", "a gzip archive", "unpack it first (gunzip, or tar xzf)"),
    (0, b"\x93NUMPY", "a numpy array (.npy)", "pass a model"),
    (0, b"\x80\x02", "a Python pickle", "pass the TensorFlow model that it was made from"),
    (0, b"BZh", "a bzip2 archive", "unpack it first"),
    (0, b"\xfd7zXZ\x00", "an xz archive", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first (tar xf)"),
)


@record
class Sniffed:
    """What a file is.

    Attributes:
        kind: "graphdef", "metagraph", "saved_model", "table" (a checkpoint's index, or a V1 checkpoint), "state" (the
            `checkpoint` file), "chunked" (a split SavedModel), "safetensors", "safetensors_index", "npz" (weights
            without a graph), "hdf5" and "keras" (Keras' files), "pattern", "recipe", "empty", "foreign" or "unknown".
        text: Whether it is in text format.
        what: For a foreign file: what it is.
        remedy: For a foreign file: what to do.
    """

    kind: str
    text: bool = False
    what: str = ""
    remedy: str = ""


def sniff(span: Span) -> Sniffed:
    """Says what a file is. Reads a few bytes at its start and end."""
    if not len(span):
        return Sniffed("empty")
    head = span.source.buffer[span.start : min(span.start + 512, span.stop)].tobytes()
    tail = span.source.buffer[max(span.start, span.stop - 8) : span.stop].tobytes()
    if tail == _TABLE_MAGIC:
        return Sniffed("table")
    if head.startswith(_HDF5):
        return Sniffed("hdf5")
    for offset, magic, what, remedy in _FOREIGN:
        if head[offset : offset + len(magic)] == magic:
            return Sniffed("foreign", what=what, remedy=remedy)
    if head[:4] == b"PK\x03\x04":
        return _zip(span)
    if _is_safetensors(head, len(span)):
        return Sniffed("safetensors")
    if head.lstrip()[:1] == b"{" and b'"weight_map"' in span.source.buffer[span.start : span.start + 65536].tobytes():
        return Sniffed("safetensors_index")
    text = _text_kind(span)
    return _binary_kind(span) if text is None else text


def refuse_foreign(found: Sniffed, path: str) -> None:
    """Refuses what is no file of TensorFlow's at all, such as the pointer that Git LFS leaves in place of one.

    Raises:
        WrongFileError: It is empty or of another program; the remedy says what to do.
    """
    if found.kind == "empty":
        raise WrongFileError("the file is empty", path=path, remedy="its download or export failed; fetch it again")
    if found.kind == "foreign":
        raise WrongFileError(f"this is {found.what}", path=path, remedy=found.remedy)


def refuse_pointer(span: Span) -> None:
    """Refuses what Git LFS leaves in place of a file that it did not fetch.

    Raises:
        WrongFileError: It is such a pointer; the remedy says what to do.
    """
    _, magic, what, remedy = _LFS
    if span.source.buffer[span.start : min(span.start + len(magic), span.stop)].tobytes() == magic:
        raise WrongFileError(f"this is {what}", path=span.name, remedy=remedy)


def _zip(span: Span) -> Sniffed:
    names = span.source.buffer[max(span.start, span.stop - 65536) : span.stop].tobytes()
    if b"config.json" in names and (b"model.weights" in names or b"metadata.json" in names):
        return Sniffed("keras")
    if b".npy" in names:
        return Sniffed("npz")
    if b"data.pkl" in names:
        return Sniffed("foreign", what="a PyTorch file", remedy="pass a TensorFlow model")
    return Sniffed("foreign", what="a zip archive", remedy="unpack it first")


def _is_safetensors(head: bytes, size: int) -> bool:
    return len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") + 8 <= size


_TEXT_KINDS = (
    ("saved_model", ("saved_model_schema_version", "meta_graphs")),
    ("metagraph", ("meta_info_def", "graph_def", "saver_def", "collection_def", "signature_def", "asset_file_def")),
    ("state", ("model_checkpoint_path", "all_model_checkpoint_paths")),
    ("graphdef", ("node", "library", "versions", "version", "debug_info")),
    ("pattern", ("seed_nodes", "internal_nodes")),
    ("recipe", ("source_pattern", "target_node")),
)
_WORD = r"(?:\s|#[^\n]*\n)*([A-Za-z_]\w*)\s*[:{<]"


def _text_kind(span: Span) -> Sniffed | None:
    head = span.source.buffer[span.start : min(span.start + 65536, span.stop)].tobytes()
    if b"\x00" in head[:512]:
        return None
    found = re.match(_WORD, head.decode("utf-8", "replace"))
    if found is None:
        return None
    for kind, names in _TEXT_KINDS:
        if found[1] in names:
            return Sniffed(kind, text=True)
    return None


def _binary_kind(span: Span) -> Sniffed:
    try:
        peek = list(islice(fields(span), _PEEK))
    except CorruptFileError:
        # The start may still say what it was: a file that is cut off deserves a better word than "unknown".
        peek = _until_damage(span)
    if not peek:
        return Sniffed("unknown")
    types = {(field.number, field.wire_type) for field in peek}
    if (1, VARINT) in types and types & {(7, BYTES), (8, BYTES)}:
        return Sniffed("foreign", what="an ONNX model", remedy="pass the TensorFlow model that it was made from")
    if {kind for kind in types if kind[0] <= 2} <= {(1, VARINT), (2, BYTES)} and _holds_meta_graph(span, peek):
        return Sniffed("saved_model")
    if _is_meta_graph(span, peek):
        return Sniffed("metagraph")
    if _is_graph(span, peek):
        return Sniffed("pattern" if _is_pattern(span, peek) else "graphdef")
    if _is_recipe(span, peek):
        return Sniffed("recipe")
    return Sniffed("unknown")


def _until_damage(span: Span) -> list[RawField]:
    peek: list[RawField] = []
    try:
        for field in islice(fields(span), _PEEK):
            peek.append(field)
    except CorruptFileError:
        pass
    return peek


def _inner(span: Span, field: RawField) -> list[RawField]:
    if field.wire_type != BYTES:
        return []
    return _until_damage(Span(span.source, field.start, field.stop))


def _holds_meta_graph(span: Span, peek: list[RawField]) -> bool:
    metas = [field for field in peek if field.number == 2]
    return bool(metas) and all(_is_meta_graph(span, _inner(span, field)) for field in metas[:1])


def _is_meta_graph(span: Span, peek: list[RawField]) -> bool:
    """A meta graph has a graph_def (2) with nodes in it, or a meta_info_def (1) that is no node."""
    peek = [field for field in peek if field.number <= _META_GRAPH_FIELDS]  # others may come with a newer TensorFlow
    if not peek or any(field.wire_type != BYTES for field in peek):
        return False
    for field in peek:
        if field.number == 2:
            inside = _inner(span, field)
            return _is_graph(span, inside) and not _is_function_library(span, inside)
        if field.number == 1 and _is_node(span, field):
            return False
    return peek[0].number == 1 and len(peek) <= 8 and not _is_node(span, peek[0])


def _is_graph(span: Span, peek: list[RawField]) -> bool:
    nodes = [field for field in peek if field.number == 1]
    if nodes:
        return all(_is_node(span, field) for field in nodes[:3])
    return bool(peek) and all(field.number in (2, 3, 4, 5) for field in peek)


def _is_pattern(span: Span, peek: list[RawField]) -> bool:
    """A pattern begins as a graph does, but has nodes where a graph has its library (2), and names (3)."""
    second = next((field for field in peek if field.number == 2), None)
    return any(field.number == 3 and field.wire_type == BYTES for field in peek) or (
        second is not None and _is_node(span, second)
    )


def _is_recipe(span: Span, peek: list[RawField]) -> bool:
    """A recipe is a pattern (1) and a node (2)."""
    parts = {field.number: field for field in reversed(peek) if field.wire_type == BYTES}
    if 1 not in parts or 2 not in parts or not _is_node(span, parts[2]):
        return False
    inside = _inner(span, parts[1])
    return _is_graph(span, inside) and _is_pattern(span, inside)


def _is_function_library(span: Span, peek: list[RawField]) -> bool:
    """The `library` (2) of a graph also starts with messages (1), but theirs start with a message, not a name."""
    return bool(peek) and peek[0].number == 1 and not _is_node(span, peek[0])


def _is_node(span: Span, field: RawField) -> bool:
    """A node has a name (1) and an op (2), both text; in functions and meta infos these are messages."""
    inside = {part.number: part for part in reversed(_inner(span, field)) if part.wire_type == BYTES}
    if 1 not in inside or 2 not in inside:
        return False
    op = span.source.buffer[inside[2].start : min(inside[2].stop, inside[2].start + 200)].tobytes()
    return re.fullmatch(_OP, op) is not None
