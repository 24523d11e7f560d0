"""What `tfsmith convert` may be told, and what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfsmith.ir.model import Model
from tfsmith.ir.signature import PREDICT
from tfsmith.passes.signatures import Interface
from tfsmith.passes.training import Note
from tfsmith.records import field, record

__all__ = ["ConvertOptions", "Converted", "SignatureEdits"]


@record
class SignatureEdits:
    """What to do to the signatures: first remove, then rename, then add."""

    add: Interface = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)
    remove: tuple[str, ...] = ()
    method_name: str = PREDICT

    def __bool__(self) -> bool:
        return bool(self.add or self.rename or self.remove)


@record
class ConvertOptions:
    """What converting may change.

    Attributes:
        inference_only: Whether to leave out what only training needs.
        drop: Globs of tensors of the checkpoint to leave out.
        rename: Old and new names of tensors of the checkpoint; `re:PATTERN` and a replacement.
        dtype: The type to store weights as: "float16" or "bfloat16".
        only: Globs of the weights to change the type of; all by default.
        saturate: Whether values that are too large for the type are clipped; else they are an error.
        signatures: What to do to the signatures.
        tags: The new tag set.
    """

    inference_only: bool = False
    drop: tuple[str, ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    dtype: str | None = None
    only: tuple[str, ...] = ()
    saturate: bool = False
    signatures: SignatureEdits = field(default_factory=SignatureEdits)
    tags: tuple[str, ...] = ()

    @property
    def changes_variables(self) -> bool:
        """Whether the saver must be made anew."""
        return self.inference_only or bool(self.drop) or self.dtype is not None


@record
class Converted:
    """What came out.

    Attributes:
        model: The model.
        names: For each tensor of the checkpoint that has another name now, that name; None for those left out.
        cast: The weights that have another type now.
        notes: What the user should know.
        path: Where it was written.
    """

    model: Model
    names: Mapping[str, str | None]
    cast: tuple[str, ...]
    notes: tuple[Note, ...]
    path: Path | None = None
