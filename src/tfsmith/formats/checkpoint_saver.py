"""Writes checkpoints: copied whole where nobody changed them, else made afresh."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tfsmith.formats.bundle_writer import write_bundle
from tfsmith.ir.model import Checkpoint
from tfsmith.ir.tensor import Tensor
from tfsmith.storage.output import AtomicFiles
from tfsmith.storage.source import open_file

__all__ = ["copy_checkpoint", "write_checkpoint"]


def copy_checkpoint(checkpoint: Checkpoint, prefix: Path) -> None:
    """Copies the files of a V2 checkpoint to another prefix, byte for byte, all or none.

    Raises:
        OutputError: The disk refuses.
    """
    with AtomicFiles() as files:
        for path in checkpoint.files:
            suffix = path.name[len(checkpoint.prefix.name) :]
            files.open(prefix.with_name(prefix.name + suffix)).write_span(open_file(path))


def write_checkpoint(prefix: Path, tensors: Mapping[str, Tensor], *, shards: int = 1) -> None:
    """Writes a V2 checkpoint, all of its files or none. Streams; memory does not grow with the tensors."""
    write_bundle(prefix, tensors, shards=shards)
