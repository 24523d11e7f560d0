"""`tfsmith export MODEL -o DIR`: a SavedModel with real variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith import records
from tfsmith.errors import NotFoundInModelError, call, data_of
from tfsmith.formats import FileKind
from tfsmith.ir.model import PREDICT, SERVING_DEFAULT, Model, Signature
from tfsmith.ir.types import Shape
from tfsmith.passes.export import ExportedGraph, ExportOptions
from tfsmith.passes.export import export as export_pass
from tfsmith.verbs._declare import checked
from tfsmith.verbs._files import with_assets
from tfsmith.verbs._shared import (
    ModelResult,
    asked_signatures,
    open_model,
    output_name,
    signature_lines,
    size_of,
    sized,
)
from tfsmith.view.summary import signature_facts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.verbs._prove import Verified
    from tfsmith.verbs._shared import (
        Entries,
        ModelOrPath,
        Names,
        Out,
        ProvesFolder,
        Shapes,
        SignatureName,
        Signatures,
    )

__all__ = ["FLAGS", "Exported", "export", "export_frozen"]

FLAGS = {"out": ("--output-dir",)}


@records.record
class Exported(ExportedGraph, ModelResult):
    """What exporting gave.

    Attributes:
        source: The model that was exported.
        shards: Into how many data files its variables are split.
        out: Where it was written.
        verified: How it compares with the original.
    """

    source: Model
    shards: int | None = None
    out: Path | None = None
    verified: Verified | None = None

    def report(self) -> Iterator[str]:
        """How many variables it has, where it lies, its signatures and files."""
        place = "a SavedModel in memory" if self.out is None else sized(self.out)
        yield f"Exported {len(self.variables)} variables to {place}"
        yield from signature_lines(self.model.signatures)
        yield from (f"asset {asset.path}" for asset in self.assets)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "output": None if self.out is None else output_name(self.out),
            "bytes": size_of(self.out),
            "variables": list(self.variables),
            "signatures": signature_facts(self.model.signatures),
            "assets": [asset.path for asset in self.assets],
            "warnings": [str(note) for note in self.notes],
        }

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """The kind of file that it can be written as."""
        return ("saved_model",)


@checked
def export(
    model: ModelOrPath,
    out: Out = None,
    *,
    inputs: Entries | None = None,
    outputs: Entries | None = None,
    signature: SignatureName = SERVING_DEFAULT,
    signatures: Signatures | None = None,
    method_name: str = PREDICT,
    set_tags: Names = ("serve",),
    batch_size: int | None = None,
    input_shapes: Shapes | None = None,
    all_variables: bool = False,
    prune: bool = False,
    shards: int | None = None,
    **shared: Unpack[ProvesFolder],
) -> Exported:
    """Makes a SavedModel with real variables, ready for TensorFlow Serving.

    Reads no value: the variables are streamed from the checkpoint.

    Args:
        model: .meta, GraphDef, checkpoint prefix or folder, SavedModel folder; in Python also a message or bytes.
        out: The SavedModel folder to write.
        inputs: The inputs of one signature, keys to tensor names.
        outputs: Its outputs, keys to tensor names.
        signature: The key of that signature.
        signatures: A signature; the inputs and outputs after it are its own. By default the model's own signatures, or
            its collections `inputs` and `outputs`.
        method_name: The method of the signatures; predict by default.
        set_tags: The tags that the SavedModel gets; serve by default.
        batch_size: Fix the first dimension of every placeholder.
        input_shapes: Fix the shape of a placeholder; ? for an unknown size.
        all_variables: Keep variables that the outputs do not need.
        prune: Drop nodes that the outputs do not need.
        shards: Split the variables into so many data files; by default as many as there were.

    Returns:
        The SavedModel, the variables that it has, the files that it reads, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do; nothing is left half-written.

    Example:
        tfsmith export model.ckpt-1603 -o saved_model --input ids=input_ids:0 --output p=loss/output:0
    """
    source = open_model(model, shared, needs_graph="export")
    options = ExportOptions(
        signatures=asked_signatures(signatures, inputs, outputs, signature),
        method_name=method_name,
        tags=tuple(set_tags),
        batch_size=batch_size,
        input_shapes={name: Shape.of(dims) for name, dims in (input_shapes or {}).items()},
        all_variables=all_variables,
        prune=prune,
    )
    return _exported(source, options, shards).placed(out, shared)


def _exported(source: Model, options: ExportOptions, shards: int | None = None) -> Exported:
    try:
        made = export_pass(source, options)
    except NotFoundInModelError as error:
        if "{excluded}" in data_of(error.remedy or ""):  # a SavedModel cannot leave a variable without a value
            kept = call("convert", source.path or "MODEL", out="COPY")
            error.at(remedy=f"pass the checkpoint that belongs to the graph, or copy the model as it is: {kept}")
        raise
    found = Exported(**records.values(made), source=source, shards=shards)
    return records.replace(found, model=with_assets(found.model, found.assets, source))


def export_frozen(
    source: Model,
    signatures: Mapping[str, Signature],
    inputs: Mapping[str, str],
    outputs: Mapping[str, str],
) -> Exported:
    """Makes what is too large to be frozen a SavedModel with variables, and the signatures of the frozen graph.

    Args:
        source: The model that was to be frozen.
        signatures: Those that the frozen model has.
        inputs: Without signatures: the inputs, keys to tensor names.
        outputs: Without signatures: the outputs, keys to tensor names.
    """
    named = {
        key: (
            {name: info.name for name, info in old.inputs.items()},
            {name: info.name for name, info in old.outputs.items()},
        )
        for key, old in (source.signatures if signatures else {}).items()
        if key in signatures
    }
    asked = named or {SERVING_DEFAULT: (dict(inputs), dict(outputs))}
    tags = source.meta.tags or ("serve",)
    return _exported(source, ExportOptions(asked, tags=tags, prune=True))
