"""F4: What becomes of a frozen SavedModel over 2 GiB: its weights stay in `variables/`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tfsmith import records
from tfsmith.api.exporting import export
from tfsmith.api.look import likely_inputs
from tfsmith.ir.metagraph import SERVING_DEFAULT
from tfsmith.ir.model import Model
from tfsmith.passes.export import ExportOptions
from tfsmith.passes.freeze import Frozen
from tfsmith.passes.interface import Note

__all__ = ["export_instead"]


def export_instead(
    model: Model,
    frozen: Frozen,
    path: str | os.PathLike[str],
    *,
    force: bool,
    prove: Callable[[Path], bool] | None = None,
) -> Frozen:
    """Writes a SavedModel with variables, whose signatures are those that the frozen one would have; says so."""
    found = model.signatures if frozen.model.signatures else {}
    named = {
        key: (
            {name: info.name for name, info in old.inputs.items()},
            {name: info.name for name, info in old.outputs.items()},
        )
        for key, old in found.items()
        if key in frozen.model.signatures
    }
    inputs = {found.tensor.rpartition(":")[0]: found.tensor for found in likely_inputs(frozen.model)}
    outputs = {key.rpartition("/")[2].partition(":")[0]: tensor for key, tensor in frozen.outputs.items()}
    signatures = named or {SERVING_DEFAULT: (inputs, outputs)}
    options = ExportOptions(signatures, tags=model.meta.tags or ("serve",), prune=True)
    exported = export(model, path, options=options, force=force, prove=prove)
    note = Note("the weights are over 2 GiB, so they stay variables", exported.variables, "a SavedModel reads them so")
    return records.replace(frozen, model=exported.model, converted={}, notes=(*frozen.notes, note))
