"""`tfsmith freeze MODEL -o OUT`: variables become constants."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfsmith import records
from tfsmith.errors import Note
from tfsmith.formats import FileKind, kind_of
from tfsmith.ir.model import Model
from tfsmith.ir.types import Shape
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.passes.freeze import FreezeOptions, FrozenGraph
from tfsmith.passes.freeze import freeze as freeze_pass
from tfsmith.passes.interface import init_nodes
from tfsmith.passes.variables import EMA_SUFFIX
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import ModelResult, open_model, output_name, size_of, sized

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.formats import Destination
    from tfsmith.verbs._prove import Checks, Verified
    from tfsmith.verbs._shared import Globs, ModelOrPath, Names, Out, ProvesFolder, Shapes

__all__ = ["FLAGS", "Frozen", "freeze"]

FLAGS = {"out": ("--output",)}
_KINDS: tuple[FileKind, ...] = ("pb", "pbtxt", "saved_model")


@records.record
class Frozen(FrozenGraph, ModelResult):
    """What freezing gave.

    Attributes:
        source: The model that was frozen.
        options: What was asked for.
        out: Where it was written.
        verified: How it compares with the original.
    """

    source: Model
    options: FreezeOptions
    out: Path | None = None
    verified: Verified | None = None

    def report(self) -> Iterator[str]:
        """How many variables were frozen, the outputs, and what was written."""
        yield f"Converted {len(self.converted)} variables to const ops."
        for key, tensor in self.outputs.items():
            is_named = key not in (tensor, tensor.rpartition(":")[0])  # by a signature, not by its own name
            yield f"output {key}: {tensor}" if is_named else f"output {tensor}"
        if self.out is not None:
            yield f"Wrote {sized(self.out)}"

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "output": None if self.out is None else output_name(self.out),
            "bytes": size_of(self.out),
            "converted": dict(self.converted),
            "outputs": dict(self.outputs),
            "warnings": [str(note) for note in self.notes],
        }

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """The kinds of files that it can be written as."""
        return _KINDS

    def made_for(self, destination: Destination) -> Frozen:
        """As a SavedModel it has what fills its tables; and it may be of any size, for over 2 GiB its weights stay."""
        if destination.kind != "saved_model":
            return self
        if not self.options.keep_init and init_nodes(self.source.meta):
            return _frozen(self.source, records.replace(self.options, keep_init=True)).made_for(destination)
        stored = self.source.variables
        size = sum(stored[key].nbytes for key in set(self.converted.values()) if key in stored)
        if size <= MAX_PROTO_BYTES:
            return self
        from tfsmith.verbs.export import export_frozen  # seldom needed, and it loads all that export needs
        from tfsmith.verbs.show import likely_inputs

        inputs = {found.tensor.rpartition(":")[0]: found.tensor for found in likely_inputs(self.model)}
        outputs = {key.rpartition("/")[2].partition(":")[0]: tensor for key, tensor in self.outputs.items()}
        exported = export_frozen(self.source, self.model.signatures, inputs, outputs)
        what, remedy = "the weights are over 2 GiB, so they stay variables", "a SavedModel reads them so"
        notes = (*self.notes, Note(what, exported.variables, remedy))
        return records.replace(self, model=exported.model, converted={}, notes=notes)

    def prove(self, written: Model, checks: Checks) -> Verified:
        """Compares the outputs that were asked for."""
        return checks.outputs(self.source, written, self.outputs, (self.options.signature, None))


@checked
def freeze(
    model: ModelOrPath,
    outputs: Names = (),
    *,
    out: Out = None,
    signature: str | None = None,
    clear_devices: bool = False,
    only: Globs = (),
    excluded: Globs = (),
    ema: bool = False,
    batch_size: int | None = None,
    input_shapes: Shapes | None = None,
    fold_shapes: bool = False,
    inline: bool | None = None,
    initializers: Names = (),
    as_: Literal["pb", "pbtxt", "saved_model"] | None = None,
    **shared: Unpack[ProvesFolder],
) -> Frozen:
    """Turns variables into constants: one self-contained graph.

    Reads no value: saving the result streams them from the checkpoint. For TF1 graphs the result is, node for node,
    what TensorFlow's `freeze_graph` writes; a TensorFlow 2 model is inlined into one flat graph.

    Args:
        model: A model with its checkpoint: SavedModel folder, .meta, GraphDef, checkpoint prefix or folder.
        outputs: Names of the outputs; by default those of the signature, else the likely one if it is clear.
        out: The file or SavedModel folder to write.
        signature: Take the outputs of this signature.
        clear_devices: Drop the devices of all nodes.
        only: Freeze only these variables; all others stay variables.
        excluded: Leave these variables as they are.
        ema: Take .../ExponentialMovingAverage where the checkpoint has it.
        batch_size: Fix the first dimension of every placeholder.
        input_shapes: Fix the shape of a placeholder; ? for an unknown size.
        fold_shapes: Make constants of what follows from fixed shapes of inputs.
        inline: Inline functions; by default for models that TensorFlow 2 saved.
        initializers: Nodes that initialize variables; their constants count where the checkpoint has no value.
        as_: What to write, if the ending of the output does not say it. A SavedModel keeps what fills its tables.

    Returns:
        The frozen model, which variables were frozen, what the outputs are called now, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith freeze model.ckpt-1603 -o frozen.pb --outputs loss/output
    """
    source = open_model(model, shared, needs_graph="freeze")
    options = FreezeOptions(
        tuple(outputs),
        signature,
        clear_devices,
        tuple(only),
        tuple(excluded),
        ema,
        batch_size,
        {name: Shape.of(dims) for name, dims in (input_shapes or {}).items()},
        inline=inline,
        initializers=tuple(initializers),
        keep_init=(as_ if out is None else kind_of(out, as_, may=_KINDS)) == "saved_model",
        fold_shapes=fold_shapes,
    )
    return _frozen(source, options).placed(out, {**shared, "as_": None if out is None else as_})


def _frozen(source: Model, options: FreezeOptions) -> Frozen:
    found = Frozen(**records.values(freeze_pass(source, options)), source=source, options=options)
    if not options.ema or any(key.endswith(EMA_SUFFIX) for key in found.converted.values()):
        return found
    note = Note("the checkpoint has no moving averages of these variables", (), "leave {ema=True} out")
    return records.replace(found, notes=(*found.notes, note))
