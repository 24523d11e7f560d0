"""Opening: `load`, and what is asked of a model that was opened. No commands of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith import records
from tfsmith.errors import NotFoundInModelError, TfsmithError, UnreadableFileError, UsageError
from tfsmith.formats.opener import attach_checkpoint, open_bytes, open_model
from tfsmith.ir.body import Body, Part
from tfsmith.ir.model import KERAS_REMEDY, KERAS_WHAT, Model, Saver
from tfsmith.ir.names import nearest
from tfsmith.storage.span import is_remote, spelled
from tfsmith.verbs._arguments import checked, shown

if TYPE_CHECKING:
    from tfsmith.verbs._shared import FilePath, ModelOrPath, Names

__all__ = [
    "load",
    "load_with",
    "with_saver",
    "with_checkpoint",
    "select_meta_graph",
    "body_of",
    "graph_text",
    "verify_checksums",
    "fitting_graphs",
    "require_graph",
]

_GRAPH_SUFFIXES = (".meta", ".pb", ".pbtxt")
_MOST_FILES = 50
_MOST_NAMES = 5


@checked
def load(
    source: ModelOrPath,
    *,
    tags: Names | None = None,
    checkpoint: FilePath | None = None,
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
    if isinstance(source, Model):
        remedy = "it is open already; pass what to open, or use Model.select"
        raise UsageError("a Model is no file", path=source.path, remedy=remedy)
    if isinstance(source, (str, os.PathLike)):
        try:
            model = open_model(_path(source), checkpoint=None if checkpoint is None else _path(checkpoint), step=step)
        except TfsmithError as error:
            if error.path is not None:
                error.at(spelled(error.path))
            raise
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
    if not is_remote(path):
        return Path(path)
    from tfsmith.storage.remote import local_path  # rare: loaded when needed

    return local_path(path)


def _serialized(source: Any) -> tuple[bytes, str]:
    """The bytes of a message, and its name."""
    serialize = getattr(source, "SerializeToString", None)
    if serialize is None or isinstance(source, type):
        what = f"{shown(source)} is no model"
        raise UsageError(what, remedy="pass a path, bytes, or a GraphDef, MetaGraphDef or SavedModel message")
    return bytes(serialize()), str(source.DESCRIPTOR.name)


def with_saver(model: Model, path: str | os.PathLike[str]) -> Model:
    """The model with the SaverDef of a file (binary or text), which says which variable is restored from which key."""
    from tfsmith.formats.write import read_saver_file

    saver: Part[Saver | None] = Part.of(read_saver_file(Path(path)))
    metas = tuple(records.replace(meta, saver_part=saver, raw=None) for meta in model.meta_graphs)
    return records.replace(model, meta_graphs=metas)


@checked
def graph_text(model: ModelOrPath) -> str:
    """The GraphDef of the selected meta graph as text, exactly as TensorFlow writes it. Reads the weights in it."""
    from tfsmith.formats.write import graph_to_text
    from tfsmith.verbs._shared import open_model as opened

    return graph_to_text(opened(model, {}).graph)


def body_of(model: Model, function: str | None) -> Body:
    """The nodes of a function of the model's library; without a name, those of its graph.

    Raises:
        NotFoundInModelError: There is no graph, or no such function; the remedy has the nearest.
    """
    if not model.has_graph:
        raise model.no_graph()
    if function is None:
        return model.graph
    found = model.graph.library.get(function)
    if found is None:
        near = nearest(function, model.graph.library)
        remedy = f"the nearest are {', '.join(near)}" if near else "{show(model, functions=True)} lists them"
        raise NotFoundInModelError(f"there is no function {function!r}", path=model.path, remedy=remedy)
    return found


@checked
def verify_checksums(model: ModelOrPath) -> int:
    """Reads every tensor of the model's checkpoint and checks its checksum, in constant memory.

    Returns:
        How many tensors were checked.

    Raises:
        ChecksumError: The first tensor that does not fit.
    """
    from tfsmith.verbs._shared import open_model as opened

    model = opened(model, {})
    if not model.variables:
        remedy = "a graph has no checksums; pass a model with its checkpoint"
        raise UsageError("there is no checkpoint to check", path=model.path, remedy=remedy)
    check = getattr(model.variables, "verify", None)
    if check is not None:
        check()
    return len(model.variables)


def with_checkpoint(model: Model, checkpoint: str | os.PathLike[str], step: int | None = None) -> Model:
    """The model with the variables of a checkpoint: a prefix, one of its files, or a folder and a step of it."""
    return attach_checkpoint(model, _path(checkpoint), step)


def select_meta_graph(model: Model, index: int) -> Model:
    """The same model, seen through its meta graph number `index`, counted from 0.

    Raises:
        NotFoundInModelError: It has no such number.
    """
    if not 0 <= index < len(model.meta_graphs):
        count = len(model.meta_graphs)
        there = f"it has {count}, counted from 0" if count else "it has none"
        raise NotFoundInModelError(f"there is no meta graph {index}", path=model.path, remedy=there)
    return records.replace(model, selected=index)


def fitting_graphs(checkpoint: Model) -> tuple[Path, ...]:
    """The graphs in a checkpoint's folder whose variables it has all of. Reads structure."""
    return tuple(_fitting(checkpoint))


def _fitting(checkpoint: Model) -> Iterator[Path]:
    from tfsmith.passes.variables import fit_checkpoint

    if checkpoint.path is None:
        return
    folder = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
    beside = sorted(path for path in folder.glob("*") if path.suffix in _GRAPH_SUFFIXES)
    for path in beside[:_MOST_FILES]:
        try:
            graph = open_model(path)
            both = records.replace(graph, variables=checkpoint.variables, checkpoint=checkpoint.checkpoint)
            if graph.has_graph and fit_checkpoint(both).is_whole:
                yield path
        except TfsmithError:  # what cannot be opened is no offer
            continue


def require_graph(model: Model, purpose: str) -> None:
    """Refuses a checkpoint alone, with what it holds and the graphs that would fit.

    Args:
        model: Any model.
        purpose: What a graph is wanted for, such as "export".

    Raises:
        UsageError: The model has no graph.
    """
    if model.has_graph:
        return
    if model.keras is not None:
        what = f"{KERAS_WHAT} to {purpose}"
        raise UsageError(what, path=model.path, remedy=KERAS_REMEDY)
    names = sorted(model.variables)
    shown = ", ".join(names[:_MOST_NAMES])
    shown += f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    what = f"a checkpoint alone has no graph to {purpose}; it holds {len(names)} tensors: {shown}"
    fitting = fitting_graphs(model)
    remedy = "pass the .meta or the graph as MODEL and this as {checkpoint}"
    if fitting:
        listed = ", ".join(str(path) for path in fitting[:_MOST_NAMES])
        remedy = f"its variables fit {listed}; pass that as MODEL and this as {{checkpoint}}"
    raise UsageError(what, path=model.path, remedy=remedy)
