"""What the name of an output means: one table from endings to kinds of files, the same for every verb and in Python."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from tfsmith.errors import OutputError, UsageError
from tfsmith.ir.model import Kind
from tfsmith.records import record, replace

if TYPE_CHECKING:
    from tfsmith.storage.place import Output

__all__ = [
    "ALL_KINDS",
    "KINDS",
    "MAIN_FILES",
    "MODEL_KINDS",
    "STATE_FILE",
    "WEIGHT_KINDS",
    "As",
    "Destination",
    "FileKind",
    "destination_of",
    "find_main_file",
    "kind_of",
]

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
    """

    path: Path
    kind: FileKind
    text: bool = False
    alone: bool = False

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
    path: str | os.PathLike[str], chosen: As | None, kind: Kind, *, may: Collection[FileKind] = ALL_KINDS
) -> Destination:
    """Where an output goes, by its name.

    Args:
        path: What the user said.
        chosen: What to write, whatever the name says.
        kind: What the model is.
        may: The kinds of files that the verb writes.

    Raises:
        OutputError: The ending is of no kind, or of one that cannot be written, or cannot hold a checkpoint alone.
    """
    found = kind_of(path, _kept(kind, path) if chosen == "keep" else chosen, may=may)
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
    return Destination(target, found, text=found == "pbtxt" or (found == "meta" and target.suffix == ".pbtxt"))


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


def _kept(kind: Kind, path: str | os.PathLike[str]) -> FileKind:
    """What "keep" means for a model of this kind: what it was, and text if the name says so."""
    return "pbtxt" if kind == "graphdef" and Path(path).suffix == ".pbtxt" else _OF_MODEL[kind]
