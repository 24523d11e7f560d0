"""F4: Conversion between formats."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tfsmith import records
from tfsmith.api.exporting import _foreign_assets, _with_assets
from tfsmith.ir.model import Model
from tfsmith.passes.convert import Converted, ConvertOptions
from tfsmith.passes.interface import Note
from tfsmith.verbs.files import Format, _path, _refuse_own_files, load, load_with

__all__ = ["convert"]


def convert(
    source: Model | str | os.PathLike[str] | bytes | Any,
    path: str | os.PathLike[str],
    *,
    format: Format | None = None,
    options: ConvertOptions | None = None,
    tags: Iterable[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    step: int | None = None,
    shards: int | None = None,
    link: bool = False,
    force: bool = False,
) -> Converted:
    """Writes a model as another kind of file, or changed: fewer, renamed or smaller variables, other signatures.

    What the options do not name is written back byte for byte. Weights are streamed.

    Args:
        source: A model, or what `load` takes.
        path: Its ending says what to write: `.pb` and `.pbtxt` a graph, `.meta` a graph and the checkpoint beside it,
            `.ckpt` both too, anything else a SavedModel; if `source` is the path of a checkpoint, another of these.
        format: What to write, whatever the path says.
        options: What to change.
        tags: Which meta graph of a SavedModel; only it is written. By default all.
        checkpoint: The checkpoint of the graph, when it does not lie beside it.
        step: Which checkpoint of a folder; the latest by default.
        shards: How many data files the checkpoint is to have; by default as many as it had.
        link: Whether to make hard links of weight files that did not change, in place of copies.
        force: Whether to replace what is there.

    Returns:
        What was written, which tensors have other names or types, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do; nothing is left half-written.
    """
    from tfsmith.formats.savedmodel.object_graph import rename_tracked
    from tfsmith.formats.saver import choose_target, write_target
    from tfsmith.passes.convert import rework
    from tfsmith.passes.kinds import repack

    as_set = False
    if isinstance(source, (str, os.PathLike)):
        model = load(source, checkpoint=checkpoint, step=step)
        as_set = model.kind == "metagraph" and model.path != Path(source)  # by its prefix or folder, not by the .meta
    else:
        model = load_with(source, checkpoint)
    model = model if tags is None else model.select(tags).alone()
    target = choose_target(_path(path), format, model.kind, as_set=as_set, has_variables=bool(model.variables))
    _refuse_own_files(records.replace(model, kind=target.kind), target.path)
    if not force:
        target.refuse_existing()
    alone = repack(model, target.kind).model if target.kind == "checkpoint" else model  # then no graph is in the way
    converted = rework(alone, ConvertOptions() if options is None else options)
    packed = repack(converted.model, target.kind)
    result = rename_tracked(_with_assets(packed.model, packed.assets, model), converted.names)
    written = write_target(result, model, target, shards=shards, link=link, force=force)
    notes = [*converted.notes, *packed.notes, *_foreign_assets(result, model)]
    if link and len(written.linked) < len(written.files):
        copied = tuple(file.name for file in written.files if file not in written.linked)
        notes.append(Note("not linked", copied, "they changed, or lie on a disk that cannot link to the other"))
    if written.fingerprint:
        notes.append(Note("fingerprint.pb is left out", (), "it is of the model as it was"))
    return records.replace(converted, model=result, path=target.path, notes=tuple(notes))
