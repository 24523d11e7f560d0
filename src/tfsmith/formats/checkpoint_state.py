"""The `checkpoint` file of a training folder: a text that names the latest checkpoint and those before it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tfsmith.errors import CorruptFileError, LimitError, TfsmithError
from tfsmith.formats.textfile import read_text
from tfsmith.limits import MAX_STATE_FILE
from tfsmith.records import record
from tfsmith.storage.sink import write_atomically
from tfsmith.storage.source import open_file
from tfsmith.wire.messages import new, parse

__all__ = ["CheckpointState", "read_checkpoint_state", "write_checkpoint_state", "STATE_FILE"]

STATE_FILE = "checkpoint"
_REMEDY = "pass the prefix of the checkpoint itself"


@record
class CheckpointState:
    """What a `checkpoint` file says.

    Attributes:
        file: The file.
        latest_name: The latest checkpoint, as it is written there.
        all_names: All checkpoints that were kept, oldest first, as they are written there.
        timestamps: When each was made, in seconds since 1970; often empty.
        last_preserved_timestamp: When one was last kept for good; None where the file does not say.
    """

    file: Path
    latest_name: str
    all_names: tuple[str, ...] = ()
    timestamps: tuple[float, ...] = ()
    last_preserved_timestamp: float | None = None

    @property
    def latest(self) -> Path:
        """The prefix of the latest checkpoint; no I/O."""
        return self.resolve(self.latest_name)

    @property
    def all(self) -> tuple[Path, ...]:
        """The prefixes of all checkpoints, oldest first; no I/O."""
        return tuple(map(self.resolve, self.all_names))

    def resolve(self, name: str) -> Path:
        """The prefix that a name in the file means; it never leads out of the file's folder.

        A relative name counts from the folder. An absolute one that leads elsewhere was written where the model was
        trained: the folder has moved since, and the checkpoint with it.

        Raises:
            CorruptFileError: A relative name leads out of the folder.
        """
        folder = self.file.parent
        inside = Path(os.path.normpath(name))
        if inside.is_absolute():
            home = Path(os.path.abspath(folder))  # noqa: PTH100 (resolve() would follow links, and reads the disk)
            return folder / (inside.relative_to(home) if inside.is_relative_to(home) else inside.name)
        if not name or ".." in inside.parts:
            what = f"the checkpoint {name!r} lies outside of the folder"
            raise CorruptFileError(what, path=self.file, remedy=_REMEDY)
        return folder / inside


def read_checkpoint_state(path: Path) -> CheckpointState:
    """Reads the `checkpoint` file of a folder, or one that is given itself.

    Raises:
        UnreadableFileError: There is none.
        CorruptFileError: It is no such file, or names no checkpoint.
    """
    file = path / STATE_FILE if path.is_dir() else path
    span = open_file(file)
    if len(span) > MAX_STATE_FILE:
        raise LimitError(f"{len(span)} bytes are too many for a `checkpoint` file", path=file, remedy=_REMEDY)
    try:
        message = parse("CheckpointState", read_text(span, "CheckpointState"))
    except TfsmithError as error:
        what = f"this is no `checkpoint` file ({error.what})"
        raise CorruptFileError(what, path=file, where=error.where, remedy=_REMEDY) from error
    if not message.model_checkpoint_path:
        raise CorruptFileError("the `checkpoint` file names no checkpoint", path=file, remedy=_REMEDY)
    return CheckpointState(
        file,
        message.model_checkpoint_path,
        tuple(message.all_model_checkpoint_paths),
        tuple(message.all_model_checkpoint_timestamps),
        message.last_preserved_timestamp or None,
    )


def write_checkpoint_state(
    folder: Path,
    latest: str,
    names: Sequence[str] = (),
    *,
    timestamps: Sequence[float] = (),
    last_preserved_timestamp: float | None = None,
) -> Path:
    """Writes the `checkpoint` file of a folder as TensorFlow does, whole or not at all.

    Args:
        folder: The folder.
        latest: The latest checkpoint, as a name in the folder.
        names: All checkpoints, oldest first; `latest` is added at the end if it is not there.
        timestamps: When each of `names` was made.
        last_preserved_timestamp: When one was last kept for good.

    Returns:
        The file.
    """
    from google.protobuf import text_format

    message = new("CheckpointState")
    message.model_checkpoint_path = latest
    message.all_model_checkpoint_paths.extend(names)
    if not names or names[-1] != latest:
        message.all_model_checkpoint_paths.append(latest)
    message.all_model_checkpoint_timestamps.extend(timestamps)
    if last_preserved_timestamp is not None:
        message.last_preserved_timestamp = last_preserved_timestamp
    file = folder / STATE_FILE
    write_atomically(file, text_format.MessageToString(message).encode())
    return file
