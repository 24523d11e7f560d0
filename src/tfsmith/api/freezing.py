"""F4: Freezing."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tfsmith import records
from tfsmith.api.output import place_model
from tfsmith.formats.kinds import As, FileKind, kind_of
from tfsmith.ir.model import Model
from tfsmith.ir.shape import Shape
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.passes.freeze import FreezeOptions, Frozen
from tfsmith.passes.freeze import freeze as freeze_pass

__all__ = ["freeze", "freeze_report", "frozen_kind", "save_frozen"]

_MAY: tuple[FileKind, ...] = ("pb", "pbtxt", "saved_model")


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


def frozen_kind(path: str | os.PathLike[str], format: As | None = None) -> FileKind:
    """As what a frozen model is written under this name; a SavedModel keeps the tables with what fills them."""
    return kind_of(path, None if format == "keep" else format, may=_MAY)


def save_frozen(
    model: Model,
    frozen: Frozen,
    path: str | os.PathLike[str],
    *,
    format: As | None = None,
    force: bool = False,
    prove: Callable[[Path], bool] | None = None,
) -> Frozen:
    """Writes what freezing gave. As a SavedModel it may be of any size: over 2 GiB the weights stay in `variables/`.

    Args:
        model: The model that was frozen.
        frozen: What `freeze_report` gave for it.
        path: The file or folder to write.
        format: "pb", "pbtxt" or "saved_model"; by default as the path says.
        force: Whether to replace what is there.
        prove: Looks at what was written, before it is put in place, and says whether it is right.

    Returns:
        `frozen`, with a note if the weights stayed variables.
    """
    size = sum(model.variables[key].nbytes for key in set(frozen.converted.values()) if key in model.variables)
    kind = frozen_kind(path, format)
    if kind != "saved_model" or size <= MAX_PROTO_BYTES:
        placed = place_model(frozen.model, path, before=model, prove=prove, format=kind, force=force)
        return records.replace(frozen, notes=(*frozen.notes, *placed.notes))
    from tfsmith.api.freezing_large import export_instead  # seldom needed, and it loads all that export needs

    return export_instead(model, frozen, path, force=force, prove=prove)
