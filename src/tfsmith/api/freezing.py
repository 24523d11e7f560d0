"""F4: Freezing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from tfsmith.api.files import Format, save
from tfsmith.ir.model import Model
from tfsmith.ir.shape import Shape
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.passes.freeze import FreezeOptions, Frozen
from tfsmith.passes.freeze import freeze as freeze_pass

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
    if not model.has_graph:
        from tfsmith.api.fitting import require_graph

        require_graph(model, "freeze")
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
    from tfsmith.api.freezing_large import export_instead  # seldom needed, and it loads all that export needs

    return export_instead(model, frozen, path, force=force)
