"""SavedModel folders: `saved_model.pb` (or `.pbtxt`, or the split `.cpb`), `variables/`, `assets/` and the rest."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tfsmith.errors import CorruptFileError, InvalidModelError, LimitError
from tfsmith.formats.checkpoint import copy_checkpoint, open_checkpoint, write_checkpoint
from tfsmith.formats.chunked import read_chunked
from tfsmith.formats.graphdef import check_size
from tfsmith.formats.metagraph import plan_meta_graph, read_meta_graph
from tfsmith.formats.textfile import read_text_file, write_text_file
from tfsmith.ir.model import Model, SideFile
from tfsmith.storage.output import AtomicFolder
from tfsmith.storage.sink import AtomicFile
from tfsmith.storage.source import open_file
from tfsmith.storage.span import Span
from tfsmith.wire.plan import WritePlan, encode_varint, tag
from tfsmith.wire.scan import BYTES, VARINT, fields

__all__ = [
    "MAIN_FILES",
    "find_main_file",
    "open_saved_model",
    "read_saved_model",
    "save_saved_model",
    "plan_saved_model",
]

MAIN_FILES = ("saved_model.pb", "saved_model.cpb", "saved_model.pbtxt")
_SCHEMA_VERSION, _META_GRAPHS = 1, 2
_MAX_SIDE_FILES = 100_000


def find_main_file(folder: Path) -> Path | None:
    """The file that makes a folder a SavedModel, if it is one; TensorFlow's own order of preference."""
    return next((folder / name for name in MAIN_FILES if (folder / name).is_file()), None)


def open_saved_model(folder: Path, main: Path) -> Model:
    """Opens a SavedModel folder. The shell of the main file and the checkpoint's index are read, nothing else."""
    if main.suffix == ".pbtxt":
        span = read_text_file(main, "SavedModel")
    elif main.suffix == ".cpb":
        span = read_chunked(open_file(main))
    else:
        span = open_file(main)
    model = replace(read_saved_model(span), path=folder, side_files=_side_files(folder))
    prefix = folder / "variables" / "variables"
    if not prefix.with_name("variables.index").is_file():
        return model
    checkpoint, variables = open_checkpoint(prefix)
    return replace(model, checkpoint=checkpoint, variables=variables)


def read_saved_model(span: Span) -> Model:
    """The message SavedModel, without what lies beside it.

    Raises:
        InvalidModelError: It has no meta graph.
        CorruptFileError: It is no SavedModel.
    """
    metas = []
    extras = []
    for field in fields(span):
        if field.number == _META_GRAPHS and field.wire_type == BYTES:
            metas.append(read_meta_graph(Span(span.source, field.start, field.stop)))
            continue
        if field.number == _SCHEMA_VERSION and field.wire_type != VARINT:
            remedy = "pass a SavedModel; `tfsmith show` says what a file is"
            raise CorruptFileError("this is no SavedModel", path=span.name, offset=field.tag_start, remedy=remedy)
        extras.append(Span(span.source, field.tag_start, field.stop))
    if not metas:
        remedy = "the file is cut off, or the export failed; export it again"
        raise InvalidModelError("the SavedModel has no meta graph", path=span.name, remedy=remedy)
    return Model("saved_model", tuple(metas), raw=span, extras=tuple(extras))


def _side_files(folder: Path) -> tuple[SideFile, ...]:
    found: list[SideFile] = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = Path(root) / name
            relative = path.relative_to(folder).as_posix()
            if relative in MAIN_FILES or relative.startswith("variables/variables."):
                continue
            found.append(SideFile(relative, path))
            if len(found) > _MAX_SIDE_FILES:
                remedy = "pass the SavedModel's own folder"
                raise LimitError(f"the folder holds over {_MAX_SIDE_FILES} files", path=folder, remedy=remedy)
    return tuple(found)


def plan_saved_model(model: Model) -> Span | WritePlan:
    """The bytes of the main file: its own while nobody edited it; each untouched part verbatim otherwise."""
    if model.raw is not None and model.kind == "saved_model":
        return model.raw
    plan = WritePlan()
    if model.extras and model.kind == "saved_model":
        for extra in model.extras:
            plan.add(extra)
    else:
        plan.add(tag(_SCHEMA_VERSION, VARINT) + encode_varint(1))
    for meta in model.meta_graphs:
        plan.add_field(_META_GRAPHS, plan_meta_graph(meta))
    return plan


def save_saved_model(model: Model, folder: Path, *, text: bool = False, force: bool = False) -> None:
    """Writes a SavedModel folder, whole or not at all. Weights and assets are copied inside the kernel.

    Raises:
        OutputError: The folder exists and `force` is not set, or the disk refuses.
        LimitError: The main file would be over 2 GiB.
    """
    plan = plan_saved_model(model)
    check_size(plan, folder)
    with AtomicFolder(folder, replace=force) as work:
        if text:
            write_text_file(work / "saved_model.pbtxt", "SavedModel", plan)
        else:
            with AtomicFile(work / "saved_model.pb") as sink:
                sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)
        _write_variables(model, work / "variables")
        for side in model.side_files:
            target = work / side.name
            target.parent.mkdir(parents=True, exist_ok=True)
            with AtomicFile(target) as sink:
                sink.write_span(open_file(side.path))


def _write_variables(model: Model, folder: Path) -> None:
    if not model.variables:
        return
    folder.mkdir()
    if model.checkpoint is not None:
        copy_checkpoint(model.checkpoint, folder / "variables")
    else:
        write_checkpoint(folder / "variables", model.variables)
