"""Checkpoints: found by prefix, folder or `checkpoint` file, and opened, whatever their version."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from tfsmith.errors import (
    CorruptFileError,
    LimitError,
    NotFoundInModelError,
    TfsmithError,
    UnreadableFileError,
    UnsupportedError,
    UsageError,
    WrongFileError,
)
from tfsmith.formats import STATE_FILE, refuse_foreign, sniff
from tfsmith.ir.model import Checkpoint
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import DType, Shape
from tfsmith.limits import MAX_RANK, MAX_STATE_FILE
from tfsmith.records import record
from tfsmith.storage import open_file
from tfsmith.wire import new, parse

__all__ = [
    "CheckpointState",
    "read_checkpoint_state",
    "write_checkpoint_state",
    "STATE_FILE",
    "open_checkpoint",
    "file_of",
    "index_of",
    "is_prefix",
    "prefixes_in",
    "latest_prefix",
    "step_of",
    "is_slice_key",
    "read_shape",
    "require_numpy_rank",
]

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
    from tfsmith.wire.text_reader import read_text

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

    from tfsmith.storage.place import write_file

    message = new("CheckpointState")
    message.model_checkpoint_path = latest
    message.all_model_checkpoint_paths.extend(names)
    if not names or names[-1] != latest:
        message.all_model_checkpoint_paths.append(latest)
    message.all_model_checkpoint_timestamps.extend(timestamps)
    if last_preserved_timestamp is not None:
        message.last_preserved_timestamp = last_preserved_timestamp
    file = folder / STATE_FILE
    write_file(file, text_format.MessageToString(message).encode(), force=True)
    return file


_STEP = r"-(\d+)$"
_SHARD = r"-\d{5}-of-\d{5}$"


def step_of(prefix: Path) -> int | None:
    """The number at the end of a prefix: 1603 for `model.ckpt-1603`."""
    found = re.search(_STEP, prefix.name)
    return int(found[1]) if found else None


def is_prefix(prefix: Path) -> bool:
    """Whether a checkpoint of either version has this prefix."""
    return index_of(prefix).is_file() or _is_v1_file(prefix) or bool(_v1_shards(prefix))


def _is_v1_file(path: Path) -> bool:
    """Whether this is a V1 checkpoint in one file: its name is the prefix itself."""
    return path.is_file() and sniff(open_file(path)).kind == "table"


def index_of(prefix: Path) -> Path:
    """The index file of a V2 checkpoint."""
    return file_of(prefix, ".index")


def file_of(prefix: Path, ending: str) -> Path:
    """The file of a checkpoint with this ending. One with an empty base name has its folder as prefix."""
    inside = prefix.is_dir() and (prefix / ".index").is_file()
    return prefix / ending if inside else Path(f"{prefix}{ending}")


def open_checkpoint(prefix: Path) -> tuple[Checkpoint, Mapping[str, Tensor]]:
    """Opens the checkpoint with this prefix (for V1 also: this file). Only its index is read.

    Raises:
        UnreadableFileError: There is none.
        WrongFileError: It is something else.
        CorruptFileError: Its index is damaged.
    """
    index = index_of(prefix)
    if index.is_file():
        from tfsmith.formats.checkpoint.bundle import open_bundle  # graphs alone need none of it

        refuse_foreign(sniff(open_file(index)), str(index))
        tensors = open_bundle(prefix)
        data = [path for path in tensors.shards if path.is_file()]
        missing = tuple(path for path in tensors.shards if path not in data)
        return Checkpoint(prefix, 2, (*data, index), step_of(prefix), missing), tensors
    files = (prefix,) if prefix.is_file() else _v1_shards(prefix)
    if not files:
        raise UnreadableFileError("there is no checkpoint with this prefix", path=prefix, remedy="check the path")
    from tfsmith.formats.checkpoint.version1 import open_checkpoint_v1  # old and rare: loaded when needed

    old = open_checkpoint_v1(prefix)
    if not old:  # TensorFlow writes no V1 checkpoint without any, but the index of V2 looks like one
        remedy = "if it is the index of a V2 checkpoint, give it back its name PREFIX.index, and pass the prefix"
        raise WrongFileError("this table holds no tensors", path=prefix, remedy=remedy)
    return Checkpoint(prefix, 1, files, step_of(prefix)), old


def _siblings(prefix: Path) -> list[Path]:
    try:
        return [path for path in prefix.parent.iterdir() if path.name.startswith(prefix.name)]
    except OSError:
        return []


def _v1_shards(prefix: Path) -> tuple[Path, ...]:
    return tuple(sorted(path for path in _siblings(prefix) if re.fullmatch(_SHARD, path.name[len(prefix.name) :])))


def prefixes_in(folder: Path) -> list[Path]:
    """The prefixes of all V2 checkpoints in a folder, by step, then name."""
    found = [_prefix_of(path) for path in folder.glob("*.index") if path.is_file()]
    return sorted(found, key=_step_and_name)


def _prefix_of(index: Path) -> Path:
    return index.parent if index.name == ".index" else index.with_suffix("")


def _step_and_name(prefix: Path) -> tuple[int, str]:
    step = step_of(prefix)
    return (-1 if step is None else step), prefix.name


def latest_prefix(folder: Path, step: int | None = None) -> Path:
    """The checkpoint that the folder's `checkpoint` file calls the latest, or the one of a step.

    Raises:
        NotFoundInModelError: The folder has no such step; the remedy lists those it has.
        UnreadableFileError: The latest one is gone.
    """
    there = prefixes_in(folder)
    if step is not None:
        if not str(step).isdecimal():
            raise UsageError(f"{step!r} is no step", path=folder, remedy="pass a whole number")
        for prefix in there:
            if step_of(prefix) == int(step):
                return prefix
        steps = ", ".join(str(found) for prefix in there if (found := step_of(prefix)) is not None)
        what = f"there is no checkpoint of step {step}"
        raise NotFoundInModelError(what, path=folder, remedy=f"the steps are: {steps or 'none'}")
    state = folder / "checkpoint"
    if not state.is_file():
        return _only(folder, there)
    prefix = read_checkpoint_state(state).latest
    if is_prefix(prefix):
        return prefix
    names = ", ".join(f"{path.name}/.index" if path == folder else path.name for path in there) or "none"
    what = f"the latest checkpoint is said to be {prefix.name!r}, which is not there"
    raise UnreadableFileError(what, path=state, remedy=f"pass one of those that are: {names}")


def _only(folder: Path, there: list[Path]) -> Path:
    if len(there) == 1:
        return there[0]
    names = ", ".join(path.name for path in there) or "none"
    what = f"the folder has no `checkpoint` file that says which of its {len(there)} checkpoints is the latest"
    raise UnreadableFileError(what, path=folder, remedy=f"pass one by its prefix or by {{step}}: {names}")


def is_slice_key(key: bytes) -> bool:
    """Whether a key of a table belongs to a slice: those begin with the number 0, which no name does."""
    return key[:1] == b"\x00"


_MAX_BYTES = 1 << 63


def read_shape(proto: Any, kind: DType, *, path: str, where: str) -> Shape:
    """The shape in a `TensorShapeProto` of a stored tensor.

    Raises:
        CorruptFileError: A dimension is unknown or negative, there are too many, or they multiply to too much.
    """
    dims = tuple([dim.size for dim in proto.dim])
    flaw = None
    if proto.unknown_rank or len(dims) > MAX_RANK or (dims and min(dims) < 0):
        flaw = "cannot be"
    elif prod(dim for dim in dims if dim) * max(kind.itemsize, 1) >= _MAX_BYTES:  # numpy counts so, too
        flaw = "is larger than any memory"
    if flaw is not None:
        what = f"its shape {Shape(dims)} {flaw}"
        raise CorruptFileError(what, path=path, where=where, remedy="the file is damaged; fetch it again")
    return Shape(dims)


def require_numpy_rank(shape: Shape, *, path: str, where: str) -> None:
    """Refuses a shape of more dimensions than an array can have (32 or 64, by numpy's release).

    Raises:
        UnsupportedError: It has more.
    """
    import numpy

    rank = shape.rank or 0
    if rank <= 32:
        return
    try:
        numpy.empty((0,) * rank)
    except ValueError as error:
        what = f"numpy cannot hold a tensor of rank {rank}"
        raise UnsupportedError(what, path=path, where=where, remedy="leave this tensor out") from error
