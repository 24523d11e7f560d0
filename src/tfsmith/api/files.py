"""F4: Opening."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tfsmith import records
from tfsmith.errors import UnreadableFileError, UsageError
from tfsmith.formats.opener import attach_checkpoint, open_bytes, open_model
from tfsmith.ir.body import Part
from tfsmith.ir.metagraph import Saver
from tfsmith.ir.model import Model

__all__ = ["load", "load_with", "with_saver", "graph_text", "verify_checksums"]


def load(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    tags: Iterable[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    step: int | None = None,
) -> Model:
    """Opens any TensorFlow model. Its structure is found; weights stay in the file until they are asked for.

    Args:
        source: A path (SavedModel folder, `.meta`, GraphDef as `.pb` or `.pbtxt`, checkpoint prefix, folder with
            checkpoints), or a GraphDef, MetaGraphDef or SavedModel as bytes or as a protobuf message.
        tags: Which meta graph of a SavedModel, by its tag set; the first by default.
        checkpoint: The checkpoint of the graph, when it does not lie beside it.
        step: Which checkpoint of a folder; the latest by default.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    if isinstance(source, (str, os.PathLike)):
        model = open_model(_path(source), checkpoint=None if checkpoint is None else _path(checkpoint), step=step)
    else:
        model = open_bytes(source) if isinstance(source, bytes) else open_bytes(*_serialized(source))
    return model if tags is None else model.select(tags)


def load_with(source: Any, checkpoint: str | os.PathLike[str] | None) -> Model:
    """As `load`; a source in memory, or a model, takes its variables from the checkpoint given."""
    if isinstance(source, (str, os.PathLike)):
        return load(source, checkpoint=checkpoint)
    model = source if isinstance(source, Model) else load(source)
    return model if checkpoint is None else attach_checkpoint(model, Path(checkpoint))


def _path(path: str | os.PathLike[str]) -> Path:
    """A path that the user gave. Python takes an empty one for the current folder, which nobody means."""
    if not os.fspath(path):
        raise UsageError("the path is empty", remedy="pass the path of a file, a folder, or a checkpoint prefix")
    if "\0" in os.fspath(path):
        raise UnreadableFileError("no file can have this name", path=path, remedy="leave the zero byte out")
    return Path(path)


def _serialized(source: Any) -> tuple[bytes, str]:
    """The bytes of a message, and its name."""
    serialize = getattr(source, "SerializeToString", None)
    if serialize is None:
        what = f"a {type(source).__name__} is no model"
        raise UsageError(what, remedy="pass a path, bytes, or a GraphDef, MetaGraphDef or SavedModel message")
    return bytes(serialize()), str(source.DESCRIPTOR.name)


def with_saver(model: Model, path: str | os.PathLike[str]) -> Model:
    """The model with the SaverDef of a file (binary or text), which says which variable is restored from which key."""
    from tfsmith.formats.write import read_saver_file

    saver: Part[Saver | None] = Part.of(read_saver_file(Path(path)))
    metas = tuple(records.replace(meta, saver_part=saver, raw=None) for meta in model.meta_graphs)
    return records.replace(model, meta_graphs=metas)


def graph_text(model: Model) -> str:
    """The GraphDef of the selected meta graph as text, exactly as TensorFlow writes it. Reads the weights in it."""
    from tfsmith.formats.write import graph_to_text

    return graph_to_text(model.graph)


def verify_checksums(model: Model) -> int:
    """Reads every tensor of the model's checkpoint and checks its checksum, in constant memory.

    Returns:
        How many tensors were checked.

    Raises:
        ChecksumError: The first tensor that does not fit.
    """
    if not model.variables:
        remedy = "a graph has no checksums; pass a model with its checkpoint"
        raise UsageError("there is no checkpoint to check", path=model.path, remedy=remedy)
    check = getattr(model.variables, "verify", None)
    if check is not None:
        check()
    return len(model.variables)
