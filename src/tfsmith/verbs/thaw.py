"""`tfsmith thaw MODEL -o DIR`: the constants of a frozen graph become variables again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tfsmith import records
from tfsmith.formats import FileKind, kind_of
from tfsmith.ir.model import PREDICT, SERVING_DEFAULT, Model
from tfsmith.passes.thaw import ThawedGraph, ThawOptions
from tfsmith.passes.thaw import thaw as thaw_pass
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
from tfsmith.view import human_count, plural
from tfsmith.view.summary import signature_facts

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.verbs._prove import Checks, Verified
    from tfsmith.verbs._shared import Entries, Globs, ModelOrPath, Out, ProvesFolder, SignatureName, Signatures

__all__ = ["FLAGS", "Thawed", "thaw"]

FLAGS = {"out": ("--output-dir",)}
_KINDS: tuple[FileKind, ...] = ("saved_model", "meta")


@records.record
class Thawed(ThawedGraph, ModelResult):
    """What thawing gave.

    Attributes:
        source: The frozen model.
        shards: Into how many data files its variables are split.
        out: Where it was written.
        verified: How it compares with the original.
    """

    source: Model
    shards: int | None = None
    out: Path | None = None
    verified: Verified | None = None

    def report(self) -> Iterator[str]:
        """How many constants are variables now, where, its signatures and files."""
        elements = sum(tensor.shape.elements or 0 for tensor in self.model.variables.values())
        place = "" if self.out is None else f" in {sized(self.out)}"
        words = f"{plural(len(self.variables), 'constant')} ({human_count(elements)} elements)"
        yield f"Thawed {words} to variables{place}"
        yield from signature_lines(self.model.signatures)
        yield from (f"asset {asset.path}" for asset in self.assets)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "output": None if self.out is None else output_name(self.out),
            "bytes": size_of(self.out),
            "variables": dict(self.variables),
            "trainable": list(self.trainable),
            "signatures": signature_facts(self.model.signatures),
            "assets": [asset.path for asset in self.assets],
            "warnings": [str(note) for note in self.notes],
        }

    @property
    def kinds(self) -> tuple[FileKind, ...]:
        """The kinds of files that it can be written as."""
        return _KINDS

    def prove(self, written: Model, checks: Checks) -> Verified:
        """Compares its signatures with the original, or without any its outputs."""
        return (checks.signatures if written.signatures else checks.outputs)(self.source, written)


@checked
def thaw(
    model: ModelOrPath,
    *,
    out: Out = None,
    min_elements: int | None = None,
    only: Globs = (),
    excluded: Globs = (),
    inputs: Entries | None = None,
    outputs: Entries | None = None,
    signature: SignatureName = SERVING_DEFAULT,
    signatures: Signatures | None = None,
    method_name: str = PREDICT,
    shards: int | None = None,
    as_: Literal["saved_model", "meta"] | None = None,
    **shared: Unpack[ProvesFolder],
) -> Thawed:
    """Turns the constants of a frozen graph back into variables, to train it further.

    Reads no value: saving the result streams them. Freezing the result gives back an equal graph.

    Args:
        model: A frozen graph (.pb, .pbtxt), or a SavedModel without variables.
        out: The SavedModel folder, or the .meta with its checkpoint.
        min_elements: Thaw what has so many elements or more; by default 1024, and all that shows it was a variable.
        only: Thaw only these constants, integers too. A name in full counts whatever its size.
        excluded: Leave these constants as they are.
        inputs: The inputs of one signature, keys to tensor names.
        outputs: Its outputs, keys to tensor names.
        signature: The key of that signature.
        signatures: A signature; the inputs and outputs after it are its own. By default the model's own signatures,
            else the likely inputs and outputs if they are clear.
        method_name: The method of the signatures; predict by default.
        shards: Split the variables into so many data files.
        as_: What to write: a SavedModel, or a .meta with its checkpoint, which needs no signature. By default as the
            output's ending says.

    Returns:
        The model with variables, which of them an optimizer should change, and what to beware of.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith thaw frozen.pb -o saved_model
        tfsmith thaw frozen.pb -o model.ckpt.meta
    """
    source = open_model(model, shared)
    kind = as_ or ("saved_model" if out is None else kind_of(out, may=_KINDS))
    options = ThawOptions(
        min_elements,
        tuple(only),
        tuple(excluded),
        asked_signatures(signatures, inputs, outputs, signature),
        method_name,
        kind="metagraph" if kind == "meta" else "saved_model",
    )
    found = Thawed(**records.values(thaw_pass(source, options)), source=source, shards=shards)
    thawed = records.replace(found, model=with_assets(found.model, found.assets, source))
    return thawed.placed(out, {**shared, "as_": None if out is None else as_})
