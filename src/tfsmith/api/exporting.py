"""F4: Export, and the way back from a frozen graph."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tfsmith import records
from tfsmith.api.files import load_with
from tfsmith.api.fitting import require_graph
from tfsmith.api.output import foreign_assets, place_model, with_assets
from tfsmith.formats.kinds import FileKind
from tfsmith.ir.metagraph import SERVING_DEFAULT
from tfsmith.ir.model import Model
from tfsmith.passes.export import Exported, ExportOptions
from tfsmith.passes.export import export as export_pass
from tfsmith.passes.thaw import Thawed, ThawOptions
from tfsmith.passes.thaw import thaw as thaw_pass

__all__ = ["export", "thaw", "thaw_report"]

_MAY: tuple[FileKind, ...] = ("saved_model",)


def export(
    source: Model | str | os.PathLike[str] | bytes | Any,
    path: str | os.PathLike[str],
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    signature: str = SERVING_DEFAULT,
    options: ExportOptions | None = None,
    shards: int | None = None,
    force: bool = False,
    prove: Callable[[Path], bool] | None = None,
) -> Exported:
    """Writes a SavedModel with real `variables/`, ready for TensorFlow Serving. Streams; reads no value.

    Args:
        source: A model, a path, or a GraphDef or MetaGraphDef as bytes or as a message (`graph.as_graph_def()`).
        path: The folder to write.
        inputs: The signature's inputs, keys to tensor names.
        outputs: The signature's outputs, keys to tensor names. Without both, the model's own signatures or its
            collections `inputs` and `outputs` count.
        checkpoint: The checkpoint of the graph (prefix or folder), when it does not come with the source.
        signature: The signature's key.
        options: Everything else that can be told; `inputs` and `outputs` are added to its signatures.
        shards: The number of data files of the variables; by default as many as there were.
        force: Whether an existing folder may be replaced.
        prove: Looks at what was written, before it is put in place, and says whether it is right.

    Returns:
        What was written, the variables that it has, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do; nothing is left half-written.
    """
    model = source if isinstance(source, Model) and checkpoint is None else load_with(source, checkpoint)
    told = ExportOptions() if options is None else options
    if inputs or outputs:
        added = {**told.signatures, signature: (dict(inputs or {}), dict(outputs or {}))}
        told = records.replace(told, signatures=added)
    require_graph(model, "export")
    exported = export_pass(model, told)
    result = with_assets(exported.model, exported.assets, model)
    placed = place_model(result, path, before=model, prove=prove, may=_MAY, shards=shards, force=force)
    return records.replace(exported, model=result, notes=(*exported.notes, *placed.notes))


def thaw(
    model: Model,
    *,
    min_elements: int | None = None,
    only: Sequence[str] = (),
    excluded: Sequence[str] = (),
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    signature: str = SERVING_DEFAULT,
    kind: Literal["saved_model", "metagraph"] = "saved_model",
) -> Model:
    """Turns the constants of a frozen graph back into variables. Reads no value: saving the result streams them.

    Freezing the result gives back an equal graph.

    Args:
        model: A frozen graph, or a SavedModel without variables.
        min_elements: Thaw the constants with so many elements or more, and no others. By default those with 1024, and
            smaller ones whose readers show that they were variables.
        only: Globs of constants to thaw; integers count too. A name in full counts whatever its size.
        excluded: Globs of constants to leave as they are.
        inputs: The signature's inputs, keys to tensor names.
        outputs: The signature's outputs, keys to tensor names. Without both, the model's own signatures count, else
            the likely inputs and outputs if they are clear.
        signature: The signature's key.
        kind: What to save it as by default: a SavedModel, or a `.meta` with its checkpoint, which needs no signature.

    Returns:
        The model with variables; `thaw_report` also tells what was done.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    asked = {signature: (dict(inputs or {}), dict(outputs or {}))} if inputs or outputs else {}
    options = ThawOptions(min_elements, tuple(only), tuple(excluded), asked, kind=kind)
    return thaw_report(model, options).model


def thaw_report(model: Model, options: ThawOptions) -> Thawed:
    """As `thaw`, and also says which variables there are now, which of them to train, and what to beware of."""
    thawed = thaw_pass(model, options)
    result = with_assets(thawed.model, thawed.assets, model)
    return records.replace(thawed, model=result, notes=(*thawed.notes, *foreign_assets(result, model)))
