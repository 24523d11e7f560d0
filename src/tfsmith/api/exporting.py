"""F4: Export, and the way back from a frozen graph."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tfsmith import records
from tfsmith.errors import UnreadableFileError
from tfsmith.ir.metagraph import SERVING_DEFAULT
from tfsmith.ir.model import Model, SideFile
from tfsmith.passes.export import AssetFile, Exported, ExportOptions
from tfsmith.passes.export import export as export_pass
from tfsmith.passes.interface import Note
from tfsmith.passes.thaw import Thawed, ThawOptions
from tfsmith.passes.thaw import thaw as thaw_pass
from tfsmith.storage.span import real_path
from tfsmith.verbs.files import load_with, require_graph, save

__all__ = ["export", "thaw", "thaw_report"]


def export(
    source: Model | str | os.PathLike[str] | bytes | Any,
    path: str | os.PathLike[str],
    *,
    inputs: Mapping[str, str] | None = None,
    outputs: Mapping[str, str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    signature: str = SERVING_DEFAULT,
    options: ExportOptions | None = None,
    shards: int = 1,
    force: bool = False,
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
        shards: Into how many data files to split variables that are written afresh.
        force: Whether an existing folder may be replaced.

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
    result = _with_assets(exported.model, exported.assets, model)
    save(result, path, shards=shards, force=force)
    notes = (*exported.notes, *_foreign_assets(result, model))
    return records.replace(exported, model=result, notes=notes)


def _with_assets(result: Model, assets: Iterable[AssetFile], source: Model) -> Model:
    """A model that is to be a SavedModel, with the files that its tables are filled from."""
    found = [SideFile(f"assets/{Path(asset.path).name}", _asset_file(asset, source)) for asset in assets]
    known = {side.name for side in found}
    beside = tuple(side for side in result.side_files if side.name not in known)
    return records.replace(result, side_files=(*beside, *found))


def _foreign_assets(result: Model, source: Model) -> list[Note]:
    """Tells of files that a graph named and that lie elsewhere: a hostile one may name any file of the user's."""
    home = real_path(_home(source))
    known = {side.path for side in source.side_files}
    sides = [side.path for side in result.side_files if side.path not in known]
    foreign = tuple(str(path) for path in sides if not real_path(path).is_relative_to(home))
    if not foreign:
        return []
    remedy = "the graph names them; see that they hold nothing private before you pass the model on"
    return [Note("files from outside of the model are copied into it", foreign, remedy)]


def _asset_file(asset: AssetFile, model: Model) -> Path:
    """Where the file that a table is filled from lies: as the graph says, or beside the model."""
    name = Path(asset.path.replace("\\", "/")).name
    folder = _home(model)
    for candidate in (folder / "assets" / name, folder / name, Path(asset.path)):
        if name and candidate.is_file():
            return candidate
    what = f"the file {asset.path!r}, which fills a table, is not there"
    raise UnreadableFileError(
        what, where=f"tensor {asset.tensor_name!r}", remedy=f"put {name or 'it'} beside the model"
    )


def _home(model: Model) -> Path:
    """The folder that a model lies in."""
    if model.path is None:
        return Path()
    return model.path if model.path.is_dir() else model.path.parent


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
    result = _with_assets(thawed.model, thawed.assets, model)
    return records.replace(thawed, model=result, notes=(*thawed.notes, *_foreign_assets(result, model)))
