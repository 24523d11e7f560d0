"""F2: bytes on disk <-> the model in memory, a module or a folder per family of formats.

Here: what a file is, by its content, and what the name of an output means: one table from endings to kinds of files,
the same for every verb and in Python.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from tfsmith.errors import CorruptFileError, OutputError, UsageError, WrongFileError
from tfsmith.ir.model import Kind
from tfsmith.records import record, replace
from tfsmith.storage import Span
from tfsmith.wire import BYTES, VARINT, RawField, fields

if TYPE_CHECKING:
    from tfsmith.storage.place import Output

__all__ = [
    "ALL_KINDS",
    "As",
    "Destination",
    "FileKind",
    "KINDS",
    "MAIN_FILES",
    "MODEL_KINDS",
    "STATE_FILE",
    "Sniffed",
    "WEIGHT_KINDS",
    "destination_of",
    "find_main_file",
    "kind_of",
    "refuse_foreign",
    "refuse_pointer",
    "sniff",
]


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


FileKind = Literal["pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz", "safetensors", "h5", "keras"]
As = Literal["pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz", "safetensors", "h5", "keras", "keep"]
"""What overrides an ending. "keep" is the kind that the model has: of a SavedModel its folder, or under a name that
ends in `.pb` or `.pbtxt` its main file alone."""
MAIN_FILES = ("saved_model.pb", "saved_model.cpb", "saved_model.pbtxt")
"""The files that make a folder a SavedModel, in TensorFlow's own order of preference."""
STATE_FILE = "checkpoint"
"""The list of a folder's checkpoints. Saving replaces none: it belongs to whoever trains there."""


def find_main_file(folder: Path) -> Path | None:
    """The file that makes a folder a SavedModel, if it is one; TensorFlow's own order of preference."""
    return next((folder / name for name in MAIN_FILES if (folder / name).is_file()), None)


@record
class _Known:
    """A kind of file.

    Attributes:
        ending: How its names end, for people.
        title: What it is, for people.
        short: The same in a list, where the ending does not say it.
        holds: The kind of model that it holds; None where this version cannot write it.
    """

    ending: str
    title: str
    short: str = ""
    holds: Kind | None = None

    @property
    def listed(self) -> str:
        """The ending, and what it means where that is not plain."""
        return f"{self.ending} ({self.short})" if self.short else self.ending


KINDS = MappingProxyType(
    {
        "pb": _Known(".pb", "a GraphDef", "GraphDef", "graphdef"),
        "pbtxt": _Known(".pbtxt", "the text of a GraphDef", "its text", "graphdef"),
        "meta": _Known(".meta", "a MetaGraphDef with its checkpoint", "MetaGraphDef with its checkpoint", "metagraph"),
        "saved_model": _Known("no ending or /", "the folder of a SavedModel", "SavedModel folder", "saved_model"),
        "checkpoint": _Known(".ckpt", "a checkpoint", "checkpoint", "checkpoint"),
        "npz": _Known(".npz", "an archive of numpy arrays", "", "checkpoint"),
        "safetensors": _Known(".safetensors", "a file of safetensors", "", "checkpoint"),
        "onnx": _Known(".onnx", "ONNX"),
        "h5": _Known(".h5", "Keras' HDF5", "Keras' weights", "checkpoint"),
        "keras": _Known(".keras", "Keras' archives", "", "checkpoint"),
    }
)
"""All kinds of files that an ending may mean."""
MODEL_KINDS: tuple[FileKind, ...] = ("pb", "pbtxt", "meta", "saved_model", "checkpoint")
WEIGHT_KINDS: tuple[FileKind, ...] = ("checkpoint", "npz", "safetensors", "h5", "keras")
ALL_KINDS: tuple[FileKind, ...] = (
    "pb",
    "pbtxt",
    "meta",
    "saved_model",
    "checkpoint",
    "npz",
    "safetensors",
    "h5",
    "keras",
)
_OF_MODEL: MappingProxyType[Kind, FileKind] = MappingProxyType(
    {"graphdef": "pb", "metagraph": "meta", "saved_model": "saved_model", "checkpoint": "checkpoint"}
)
_WEIGHT_ENDINGS: MappingProxyType[str, FileKind] = MappingProxyType(
    {".npz": "npz", ".safetensors": "safetensors", ".h5": "h5", ".hdf5": "h5", ".keras": "keras"}
)
_CKPT = r"\.ckpt(-\d+)?$"
_PART = r"\.(index|data-\d{5}-of-\d{5})$"
_SET = r"(\.meta|\.index|\.data-\d{5}-of-\d{5})"


@record
class Destination:
    """Where an output goes, and as what.

    Attributes:
        path: The file or folder, or the prefix of a checkpoint.
        kind: The kind of file.
        text: Whether to write text.
        alone: Whether to write the main file of a SavedModel alone.
        kept: Whether it is to be what the model was read from.
    """

    path: Path
    kind: FileKind
    text: bool = False
    alone: bool = False
    kept: bool = False

    @property
    def holds(self) -> Kind:
        """The kind that a model must be of to be written there."""
        found = KINDS[self.kind].holds
        assert found is not None, "such a kind has no destination"
        return found

    @property
    def prefix(self) -> Path | None:
        """The prefix of the checkpoint that is written, also of one beside a graph; None if there is none."""
        if self.kind == "saved_model":
            return None if self.alone else self.path / "variables" / "variables"
        if self.kind == "meta":
            return self.path.with_suffix("")
        return self.path if self.kind == "checkpoint" else None

    def output(self, inputs: Iterable[str | os.PathLike[str]], *, force: bool) -> Output:
        """The context that puts it in place; see `tfsmith.storage.place`.

        Args:
            inputs: All that the command read.
            force: Whether what is there may be replaced.
        """
        from tfsmith.storage.place import Output  # looking should not load what writes

        if self.kind == "saved_model" and not self.alone:
            marks = MAIN_FILES
            return Output(self.path, inputs=inputs, force=force, folder=True, marks=marks, what="SavedModel")
        if self.prefix is not None:
            files = re.compile(re.escape(self.prefix.name) + _SET)
            return Output(self.path, inputs=inputs, force=force, others=files, shared=STATE_FILE)
        others = None
        if self.kind == "safetensors":
            stem = re.escape(self.path.name.removesuffix(".safetensors"))
            others = re.compile(rf"{stem}(-\d{{5}}-of-\d{{5}}\.safetensors|\.safetensors\.index\.json)")
        return Output(self.path, inputs=inputs, force=force, others=others)

    def at(self, path: Path) -> Destination:
        """The same under another name."""
        return replace(self, path=path)


def destination_of(
    path: str | os.PathLike[str],
    chosen: As | None,
    kind: Kind,
    *,
    was: Path | None = None,
    may: Collection[FileKind] = ALL_KINDS,
) -> Destination:
    """Where an output goes, by its name.

    Args:
        path: What the user said.
        chosen: What to write, whatever the name says.
        kind: What the model is.
        was: The file that it was read from.
        may: The kinds of files that the verb writes.

    Raises:
        OutputError: The ending is of no kind, or of one that cannot be written, or cannot hold a checkpoint alone.
    """
    found = kind_of(path, _kept(kind, path, was) if chosen == "keep" else chosen, may=may)
    target = Path(path)
    part = re.search(_PART, target.name)
    if part and found == "checkpoint":
        what, prefix = "this is the name of one file of a checkpoint", target.name[: part.start()]
        raise OutputError(what, path=target, remedy=f"pass the prefix {prefix}")
    if kind == "checkpoint" and KINDS[found].holds != "checkpoint":
        what = f"a checkpoint has no graph, so it cannot become {KINDS[found].title}"
        remedy = "pass its graph as MODEL and the checkpoint as {checkpoint}, or choose a name that ends in .ckpt"
        raise OutputError(what, path=path, remedy=remedy)
    if found == "saved_model" and chosen == "keep" and target.suffix in (".pb", ".pbtxt"):
        return Destination(target, "saved_model", text=target.suffix == ".pbtxt", alone=True)
    if found == "pbtxt" and kind == "saved_model" and target.suffix not in (".pbtxt", ".pb", ".txt"):
        return Destination(target, "saved_model", text=True)  # the folder, with its main file as text
    if found in ("meta", "checkpoint") and chosen is not None and target.is_dir():
        target /= "model.ckpt"
    if found == "meta" and target.suffix not in (".meta", ".pbtxt"):
        target = target.with_name(f"{target.name}.meta")
    text = found == "pbtxt" or (found == "meta" and target.suffix == ".pbtxt")
    return Destination(target, found, text=text, kept=chosen == "keep")


def kind_of(
    path: str | os.PathLike[str], chosen: FileKind | None = None, *, may: Collection[FileKind] = ALL_KINDS
) -> FileKind:
    """The kind of file that a name means; no I/O.

    Args:
        path: The name.
        chosen: The kind, whatever the name says.
        may: The kinds of files that the verb writes.

    Raises:
        OutputError: The ending is of no kind, or of one that cannot be written; the remedy lists those that can.
    """
    if not os.fspath(path):
        raise UsageError("the path is empty", remedy="pass the path of the output")
    if os.fspath(path) == "-":
        raise OutputError("a model is not written to stdout", path=path, remedy="pass the name of a file or folder")
    found = _by_ending(os.fspath(path)) if chosen is None else chosen
    for one in may:
        if one == found:
            return one
    if chosen is not None and found not in KINDS:
        raise OutputError(f"there is no format {chosen!r}", path=path, remedy=f"use {', '.join(may)}")
    if found not in KINDS:
        what = f"the ending {found} is of no kind of file that is written"
    elif found == "onnx":
        what = "only convert writes ONNX, to a name that ends in .onnx"
    elif KINDS[found].holds is None:
        what = f"this version cannot write {KINDS[found].title}"
    else:
        what = f"the output cannot be {KINDS[found].title}"
    listed = ", ".join(KINDS[one].listed for one in may)
    raise OutputError(what, path=path, remedy=f"use {listed}")


def _by_ending(path: str) -> str:
    if path.endswith(("/", os.sep)):
        return "saved_model"
    name = Path(path).name
    if re.search(_CKPT, name):
        return "checkpoint"
    if re.search(_PART, name):
        return "checkpoint"  # one file of it, which is refused with what to pass
    ending = Path(path).suffix
    if not ending or ending[1:].isdecimal():  # "v1.0" has no ending
        return "saved_model"
    return ending[1:] if ending[1:] in KINDS else ending


def _kept(kind: Kind, path: str | os.PathLike[str], was: Path | None) -> FileKind:
    """What "keep" means for a model of this kind: what it was, and text if the name says so."""
    if kind == "checkpoint" and was is not None:
        name = was.name.lower().removesuffix(".index.json")
        for ending, found in _WEIGHT_ENDINGS.items():
            if name.endswith(ending):
                return found
    return "pbtxt" if kind == "graphdef" and Path(path).suffix == ".pbtxt" else _OF_MODEL[kind]
