"""Writes checkpoints: copied or linked where nobody changed them, else made afresh."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

from tfsmith.errors import UnreadableFileError
from tfsmith.formats.bundle_data import data_file
from tfsmith.formats.bundle_writer import stored_files, write_bundle, write_index_of
from tfsmith.ir.model import Checkpoint
from tfsmith.ir.tensor import Tensor
from tfsmith.storage.output import AtomicFiles
from tfsmith.storage.source import open_file

__all__ = ["copy_checkpoint", "write_checkpoint"]


def copy_checkpoint(
    checkpoint: Checkpoint, prefix: Path, *, link: bool = False, files: AtomicFiles | None = None
) -> None:
    """Copies the files of a V2 checkpoint to another prefix, byte for byte, all or none.

    Args:
        checkpoint: The checkpoint.
        prefix: Where it goes.
        link: Whether to make hard links where the system can.
        files: A set of files that these are to be part of; they then appear with it.

    Raises:
        OutputError: The disk refuses.
        UnreadableFileError: A file of the set is missing.
    """
    if checkpoint.missing:
        what = "a data file of the checkpoint is missing, so it cannot be copied"
        remedy = f"{checkpoint.prefix.name}.index needs it; fetch the whole set"
        raise UnreadableFileError(what, path=checkpoint.missing[0], remedy=remedy)
    with AtomicFiles() if files is None else nullcontext(files) as opened:
        for path in checkpoint.files:
            suffix = path.name[len(checkpoint.prefix.name) :]
            _take(path, prefix.with_name(prefix.name + suffix), opened, link=link)


def write_checkpoint(
    prefix: Path,
    tensors: Mapping[str, Tensor],
    *,
    shards: int = 1,
    link: bool = False,
    files: AtomicFiles | None = None,
) -> None:
    """Writes a V2 checkpoint, all of its files or none. Streams; memory does not grow with the tensors.

    Where only names changed and the number of data files is to stay, these are copied (or linked) as they are.
    """
    stored = stored_files(tensors)
    if stored is None or stored.count != shards:
        write_bundle(prefix, tensors, shards=shards, files=files)
        return
    with AtomicFiles() if files is None else nullcontext(files) as opened:
        for shard in range(shards):
            source, target = data_file(stored.prefix, shard, shards), data_file(prefix, shard, shards)
            _take(source, target, opened, link=link)
        write_index_of(prefix, tensors, stored, opened)


def _take(source: Path, target: Path, files: AtomicFiles, *, link: bool) -> None:
    if not link or not files.link(source, target):
        files.open(target).write_span(open_file(source))
