"""Writes SavedModel folders, whole or not at all."""

from __future__ import annotations

from pathlib import Path

from tfsmith.errors import OutputError, UnreadableFileError
from tfsmith.formats.checkpoint_saver import copy_checkpoint, write_checkpoint
from tfsmith.formats.graphdef import check_size
from tfsmith.formats.metagraph import plan_meta_graph
from tfsmith.formats.savedmodel import META_GRAPHS, SCHEMA_VERSION, find_main_file
from tfsmith.formats.textfile import write_text_file
from tfsmith.ir.model import Model
from tfsmith.storage.output import AtomicFolder
from tfsmith.storage.sink import AtomicFile, explained
from tfsmith.storage.source import open_file
from tfsmith.storage.span import Span
from tfsmith.wire.plan import WritePlan, encode_varint, tag
from tfsmith.wire.scan import VARINT

__all__ = ["plan_saved_model", "save_saved_model"]


def plan_saved_model(model: Model) -> Span | WritePlan:
    """The bytes of the main file: its own while nobody edited it; each untouched part verbatim otherwise."""
    if model.raw is not None and model.kind == "saved_model":
        return model.raw
    plan = WritePlan()
    if model.extras and model.kind == "saved_model":
        for extra in model.extras:
            plan.add(extra)
    else:
        plan.add(tag(SCHEMA_VERSION, VARINT) + encode_varint(1))
    for meta in model.meta_graphs:
        plan.add_field(META_GRAPHS, plan_meta_graph(meta))
    return plan


def save_saved_model(
    model: Model, folder: Path, *, text: bool = False, shards: int = 1, force: bool = False, link: bool = False
) -> None:
    """Writes a SavedModel folder, whole or not at all. Weights and assets are copied inside the kernel.

    Raises:
        OutputError: The folder exists and `force` is not set, it is no SavedModel, or the disk refuses.
        LimitError: The main file would be over 2 GiB.
    """
    if force and folder.is_dir() and not find_main_file(folder) and next(folder.iterdir(), None) is not None:
        remedy = "choose another name, or remove the folder yourself"
        raise OutputError("the folder exists and is no SavedModel, so it is not replaced", path=folder, remedy=remedy)
    plan = plan_saved_model(model)
    check_size(plan, folder)
    with AtomicFolder(folder, replace=force) as work:
        if text:
            write_text_file(work / "saved_model.pbtxt", "SavedModel", plan)
        else:
            with AtomicFile(work / "saved_model.pb") as sink:
                sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)
        _write_variables(model, work / "variables", shards, link=link)
        for side in model.side_files:
            if side.leads_out:
                what = "this link leads out of the model, so it is not copied"
                remedy = "replace it by what it leads to, if you trust it (cp -rL copies a folder so), or remove it"
                raise UnreadableFileError(what, path=side.path, remedy=remedy)
            target = work / side.name
            with explained(target):
                target.parent.mkdir(parents=True, exist_ok=True)
            with AtomicFile(target) as sink:
                sink.write_span(open_file(side.path))


def _write_variables(model: Model, folder: Path, shards: int, *, link: bool) -> None:
    if not model.variables:
        return
    with explained(folder):
        folder.mkdir()
    if model.checkpoint is not None and model.checkpoint.version == 2 and shards == 1:
        copy_checkpoint(model.checkpoint, folder / "variables", link=link)
    else:
        write_checkpoint(folder / "variables", model.variables, shards=shards, link=link)
