"""F4: Freezing."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence

from tfsmith.api.exporting import export
from tfsmith.api.files import Format, save
from tfsmith.api.look import likely_inputs
from tfsmith.ir.model import Model
from tfsmith.ir.shape import Shape
from tfsmith.ir.signature import SERVING_DEFAULT
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.passes.export import ExportOptions
from tfsmith.passes.freeze import FreezeOptions, Frozen
from tfsmith.passes.freeze import freeze as freeze_pass
from tfsmith.passes.training import Note

__all__ = ["freeze", "freeze_report", "save_frozen"]


def freeze(
    model: Model,
    outputs: Sequence[str] = (),
    *,
    signature: str | None = None,
    clear_devices: bool = False,
    only: Sequence[str] = (),
    excluded: Sequence[str] = (),
    ema: bool = False,
    batch_size: int | None = None,
    input_shapes: Mapping[str, Sequence[int | None]] | None = None,
    keep_init: bool = False,
) -> Model:
    """Turns variables into constants. Reads no value: saving the result streams them from the checkpoint.

    Args:
        model: A model with its checkpoint.
        outputs: Names of the outputs; by default those of the signature, else the likely one if it is clear.
        signature: Which signature.
        clear_devices: Whether to drop the devices of all nodes.
        only: Globs of variables to freeze; all others stay variables.
        excluded: Globs of variables to leave as they are.
        ema: Whether to take moving averages where the checkpoint has them.
        batch_size: Fixes the first dimension of every placeholder.
        input_shapes: New shapes of placeholders, by name.
        keep_init: Whether to keep signatures' tables with what fills them, for saving as a SavedModel.

    Returns:
        The frozen model; `freeze_report` also tells what was done.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    options = FreezeOptions(
        tuple(outputs),
        signature,
        clear_devices,
        tuple(only),
        tuple(excluded),
        ema,
        batch_size,
        {name: Shape.of(dims) for name, dims in (input_shapes or {}).items()},
        keep_init=keep_init,
    )
    return freeze_report(model, options).model


def freeze_report(model: Model, options: FreezeOptions) -> Frozen:
    """As `freeze`, and also says which variables were frozen, what the outputs are called, and what to beware of."""
    return freeze_pass(model, options)


def save_frozen(
    model: Model, frozen: Frozen, path: str | os.PathLike[str], *, format: Format | None = None, force: bool = False
) -> Frozen:
    """Writes what freezing gave. As a SavedModel it may be of any size: over 2 GiB the weights stay in `variables/`.

    Args:
        model: The model that was frozen.
        frozen: What `freeze_report` gave for it.
        path: The file or folder to write.
        format: "pb", "pbtxt" or "saved_model"; by default as the path says.
        force: Whether an existing SavedModel folder may be replaced.

    Returns:
        `frozen`, with a note if the weights stayed variables.
    """
    size = sum(model.variables[key].nbytes for key in set(frozen.converted.values()) if key in model.variables)
    if format != "saved_model" or size <= MAX_PROTO_BYTES:
        save(frozen.model, path, format=format, force=force)
        return frozen
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
    exported = export(
        model, path, options=ExportOptions(signatures, tags=model.meta.tags or ("serve",), prune=True), force=force
    )
    note = Note("the weights are over 2 GiB, so they stay variables", exported.variables, "a SavedModel reads them so")
    return dataclasses.replace(frozen, model=exported.model, converted={}, notes=(*frozen.notes, note))
