"""F4: Conversion between formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tfsmith import records
from tfsmith.api.files import load, load_with
from tfsmith.api.output import place_model, with_assets
from tfsmith.formats.kinds import ALL_KINDS, As, destination_of
from tfsmith.ir.model import Model
from tfsmith.passes.convert import Converted, ConvertOptions

__all__ = ["convert"]


def convert(
    source: Model | str | os.PathLike[str] | bytes | Any,
    path: str | os.PathLike[str],
    *,
    format: As | None = None,
    options: ConvertOptions | None = None,
    tags: Iterable[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    step: int | None = None,
    shards: int | None = None,
    link: bool = False,
    force: bool = False,
    inputs: Iterable[str | os.PathLike[str]] = (),
    prove: Callable[[Path], bool] | None = None,
) -> Converted:
    """Writes a model as another kind of file, or changed: fewer, renamed or smaller variables, other signatures.

    What the options do not name is written back byte for byte. Weights are streamed.

    Args:
        source: A model, or what `load` takes.
        path: Where; its ending says what to write, as for `save`.
        format: What to write, whatever the path says.
        options: What to change.
        tags: Which meta graph of a SavedModel; only it is written. By default all.
        checkpoint: The checkpoint of the graph, when it does not lie beside it.
        step: Which checkpoint of a folder; the latest by default.
        shards: How many data files the checkpoint is to have; by default as many as it had.
        link: Whether to make hard links of weight files that did not change, in place of copies.
        force: Whether to replace what is there.
        inputs: What else was read, such as a file of names; none of it is replaced.
        prove: Looks at what was written, before it is put in place, and says whether it is right.

    Returns:
        What was written, which tensors have other names or types, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do; nothing is left half-written.
    """
    from tfsmith.formats.savedmodel.object_graph import rename_tracked
    from tfsmith.passes.convert import rework
    from tfsmith.passes.kinds import repack

    if isinstance(source, (str, os.PathLike)):
        model = load(source, checkpoint=checkpoint, step=step)
    else:
        model = load_with(source, checkpoint)
    model = model if tags is None else model.select(tags).alone()
    holds = destination_of(path, format, model.kind, may=ALL_KINDS).holds
    alone = repack(model, holds).model if holds == "checkpoint" else model  # then no graph is in the way
    converted = rework(alone, ConvertOptions() if options is None else options)
    packed = repack(converted.model, holds)
    result = rename_tracked(with_assets(packed.model, packed.assets, model), converted.names)
    placed = place_model(
        result, path, before=model, inputs=inputs, prove=prove, format=format, shards=shards, link=link, force=force
    )
    notes = (*converted.notes, *packed.notes, *placed.notes)
    return records.replace(converted, model=placed.model, path=placed.path, notes=notes)
