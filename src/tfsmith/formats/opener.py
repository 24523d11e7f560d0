"""Opens any MODEL: finds out what a path is, opens it, or says what to pass instead."""

from __future__ import annotations

import os
import re
from functools import partial
from pathlib import Path
from types import MappingProxyType

from tfsmith.errors import CorruptFileError, UnreadableFileError, UsageError, WrongFileError, nearest
from tfsmith.formats import MAIN_FILES, STATE_FILE, Sniffed, find_main_file, refuse_foreign, sniff
from tfsmith.formats.checkpoint import file_of, index_of, is_prefix, latest_prefix, open_checkpoint, prefixes_in
from tfsmith.formats.graph.graphdef import read_graph
from tfsmith.ir.body import Part
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.records import replace
from tfsmith.storage import Span, from_bytes, open_file, real_path

__all__ = ["attach_checkpoint", "open_model", "open_bytes"]

_DATA = r"(.+)\.data-\d{5}-of-\d{5}$"
_MESSAGES = MappingProxyType({"graphdef": "GraphDef", "metagraph": "MetaGraphDef", "saved_model": "SavedModel"})
_STEP_WHAT = "{step} chooses among the checkpoints of a folder"


def open_model(path: Path, *, checkpoint: Path | None = None, step: int | None = None) -> Model:
    """Opens a SavedModel folder, a `.meta`, a GraphDef, a checkpoint prefix, or a folder with checkpoints.

    Weights without a graph (`.safetensors`, its index, `.npz`) and Keras' files (`.h5`, `.keras`) open
    as a checkpoint does.

    Args:
        path: Any of these.
        checkpoint: The checkpoint (prefix or folder) that belongs to the graph, when it is not beside it.
        step: Which checkpoint of a folder; the latest by default.

    Raises:
        WrongFileError: The path is something else; the remedy says what to pass.
        UnreadableFileError: There is nothing there, or it may not be read.
        CorruptFileError: It is damaged.
    """
    try:
        return _with_origins(_open(path, step), path) if checkpoint is None else _open_both(path, checkpoint, step)
    except OSError as error:
        what = f"cannot be opened ({error.strerror or error})"
        place = path if error.filename is None else os.fsdecode(error.filename)
        raise UnreadableFileError(what, path=place, remedy="check the path and its permissions") from error


def _open_both(path: Path, checkpoint: Path, step: int | None) -> Model:
    """A graph, and the checkpoint that belongs to it."""
    model = _open(path, None)
    if not model.has_graph:
        remedy = "pass the graph as MODEL and the checkpoint as {checkpoint}"
        raise UsageError("MODEL is itself a checkpoint, so it has no graph for another one", path=path, remedy=remedy)
    if step is not None and not checkpoint.is_dir():
        raise UsageError(_STEP_WHAT, path=checkpoint, remedy="pass the folder as {checkpoint}")
    return attach_checkpoint(model, checkpoint, step)


def attach_checkpoint(model: Model, checkpoint: Path, step: int | None = None) -> Model:
    """The model with the variables of a checkpoint, given by its prefix, one of its files, or its folder.

    Raises:
        UnreadableFileError: There is no checkpoint there.
        CorruptFileError: Its index is damaged.
    """
    prefix = latest_prefix(checkpoint, step) if checkpoint.is_dir() else _prefix(checkpoint)
    found, variables = open_checkpoint(prefix)
    return _with_origins(replace(model, checkpoint=found, variables=variables), checkpoint)


def _with_origins(model: Model, path: Path) -> Model:
    """The model with a memory of the files that were read, which outlives what passes make of it."""
    stored = () if model.checkpoint is None else model.checkpoint.files
    state = path / STATE_FILE
    lists = (state,) if path.is_dir() and model.kind != "saved_model" and state.is_file() else ()
    return replace(model, origins=tuple(dict.fromkeys((*model.origins, *stored, *lists))))


def open_bytes(data: bytes, message: str = "") -> Model:
    """Opens a GraphDef, MetaGraphDef or SavedModel that is in memory, in either form.

    Args:
        data: The bytes.
        message: Which of these messages it is, if that is known.
    """
    span = from_bytes(data)
    kind = next((kind for kind, name in _MESSAGES.items() if name == message), None)
    return _open_message(span, sniff(span) if kind is None else Sniffed(kind), None)


def _open(path: Path, step: int | None) -> Model:
    if path.is_dir():
        return _open_folder(path, step)
    if step is not None:
        raise UsageError(_STEP_WHAT, path=path, remedy="pass the folder")
    if path.name == ".index" and path.is_file():  # a checkpoint with an empty base name, whose prefix is its folder
        return _open_prefix(path.parent)
    if not path.exists():
        return _open_missing(path)
    if path.name in MAIN_FILES and find_main_file(path.parent) == path:
        from tfsmith.formats.savedmodel import open_saved_model

        return open_saved_model(path.parent, path)
    data = re.fullmatch(_DATA, path.name)
    if data:
        remedy = _set_remedy(path.with_name(data[1]))
        raise WrongFileError("this is a shard of a checkpoint's data", path=path, remedy=remedy)
    span = open_file(path)
    return _open_file(path, span, sniff(span))


def _open_file(path: Path, span: Span, found: Sniffed) -> Model:
    if found.kind == "table":
        return _open_table(path)
    refuse_foreign(found, str(path))
    if found.kind in ("safetensors", "safetensors_index", "npz"):
        return _open_weights(path, span, found.kind)
    if found.kind in ("hdf5", "keras"):
        from tfsmith.formats.keras.files import open_keras_archive, open_keras_h5  # needs h5py

        return (open_keras_h5 if found.kind == "hdf5" else open_keras_archive)(span, path)
    if found.kind == "state":
        what = "this is the list of a folder's checkpoints, not a checkpoint"
        raise WrongFileError(what, path=path, remedy=f"pass the folder {path.parent}")
    if found.kind in ("pattern", "recipe"):
        what = f"this is a {found.kind}, and a model is wanted"
        raise WrongFileError(what, path=path, remedy="pass the model that it is to be used on")
    if found.kind == "unknown":
        raise WrongFileError(
            "this is no TensorFlow model that we know",
            path=path,
            remedy="pass a SavedModel folder, a .meta, a GraphDef .pb or .pbtxt, a checkpoint prefix, or a Keras file",
        )
    return _open_message(span, found, path)


def _open_weights(path: Path, span: Span, kind: str) -> Model:
    """Weights without a graph, as other programs keep them."""
    from tfsmith.formats.tensors.npz import open_npz  # rare: loaded when needed
    from tfsmith.formats.tensors.safetensors import open_safetensors, open_safetensors_index

    if kind == "npz":
        return Model("checkpoint", (), open_npz(span, path), path=path)
    opened = open_safetensors_index(span, path) if kind == "safetensors_index" else open_safetensors(span, path)
    return Model("checkpoint", (), opened, path=path)


def _open_message(span: Span, found: Sniffed, path: Path | None) -> Model:
    if found.text and found.kind in _MESSAGES:
        from tfsmith.wire.text_reader import read_text  # each kind of file loads what it needs

        span = read_text(span, _MESSAGES[found.kind])
    if found.kind == "saved_model":  # under another name: the graph of a SavedModel, such as a replacement leaves
        from tfsmith.formats.savedmodel import read_saved_model

        return replace(read_saved_model(span), path=path)
    if found.kind == "metagraph":
        from tfsmith.formats.graph.metagraph import read_meta_graph

        model = Model("metagraph", (read_meta_graph(span),), path=path, raw=span)
        return model if path is None else _with_checkpoint_beside(model, path)
    if found.kind != "graphdef":
        remedy = "pass a GraphDef, a MetaGraphDef or a SavedModel"
        raise CorruptFileError("these bytes are no TensorFlow message that we know", path=path, remedy=remedy)
    graph = Part(partial(read_graph, span), None)
    return Model("graphdef", (MetaGraph(graph),), path=path, raw=span)


def _with_checkpoint_beside(model: Model, path: Path) -> Model:
    """A `.meta` and the checkpoint of the same name belong together."""
    prefix = path.with_suffix("") if path.suffix in (".meta", ".pbtxt") else path
    if not is_prefix(prefix):
        return model
    checkpoint, variables = open_checkpoint(prefix)
    return replace(model, checkpoint=checkpoint, variables=variables)


def _open_prefix(prefix: Path) -> Model:
    """A checkpoint, with its graph if a `.meta` is beside it."""
    meta = file_of(prefix, ".meta")
    if meta.is_file():
        span = open_file(meta)
        found = sniff(span)
        if found.kind == "metagraph":
            return _open_message(span, found, meta)
    checkpoint, variables = open_checkpoint(prefix)
    return Model("checkpoint", (), variables, path=prefix, checkpoint=checkpoint)


def _open_table(path: Path) -> Model:
    if path.name.endswith(".index"):
        prefix = path.with_suffix("")
        raise WrongFileError("this is the index of a checkpoint", path=path, remedy=_set_remedy(prefix))
    return _open_prefix(path)


def _set_remedy(prefix: Path) -> str:
    """What to pass in place of one file of a checkpoint."""
    if prefix.parent.name == "variables" and find_main_file(prefix.parent.parent):
        return f"pass the SavedModel's folder {prefix.parent.parent}, or for its variables alone the prefix {prefix}"
    if not index_of(prefix).is_file():
        return f"its index {index_of(prefix).name} is missing; fetch the whole set, then pass the prefix {prefix}"
    return f"pass the prefix {prefix}"


def _prefix(path: Path) -> Path:
    """A checkpoint given by its prefix, or by one of its files."""
    if path.name == ".index":
        return path.parent
    name = re.sub(_DATA, r"\1", path.name)
    for ending in (".index", ".meta"):
        name = name.removesuffix(ending)
    return path.with_name(name)


def _open_folder(folder: Path, step: int | None) -> Model:
    main = find_main_file(folder)
    if main is not None and step is None:
        from tfsmith.formats.savedmodel import open_saved_model

        return open_saved_model(folder, main)
    if main is not None and not prefixes_in(folder):
        raise UsageError(_STEP_WHAT, path=folder, remedy="this is a SavedModel; leave {step} out")
    if (folder / "checkpoint").is_file() or (step is not None and prefixes_in(folder)):
        return _open_prefix(latest_prefix(folder, step))
    if folder.name == "variables" and find_main_file(folder.parent):
        what = "this is the folder of a SavedModel's variables"
        raise WrongFileError(what, path=folder, remedy=_set_remedy(folder / "variables"))
    if prefixes_in(folder):
        return _open_prefix(latest_prefix(folder))
    if all((folder / name).is_file() for name in ("config.json", "model.weights.h5")):
        from tfsmith.formats.keras.files import open_keras_folder

        return open_keras_folder(folder)
    for ending in (".safetensors.index.json", ".safetensors", ".keras", ".h5"):
        files = sorted(folder.glob(f"*{ending}"))
        if len(files) == 1:
            return _open(files[0], None)
    versions = sorted(child for child in folder.iterdir() if child.is_dir() and find_main_file(child))
    if versions:
        names = ", ".join(str(child) for child in versions[:5])
        raise WrongFileError("this folder holds SavedModels in its folders", path=folder, remedy=f"pass one: {names}")
    inside = sorted(child.name for child in folder.iterdir())
    listing = f"it holds {', '.join(inside[:5])}{' ...' if len(inside) > 5 else ''}" if inside else "it is empty"
    raise WrongFileError(
        f"this folder is no SavedModel and has no checkpoint; {listing}",
        path=folder,
        remedy="pass a folder with saved_model.pb or a `checkpoint` file, or one of its files",
    )


def _open_missing(path: Path) -> Model:
    """A path with nothing there may be a checkpoint's prefix; else say what is near."""
    if is_prefix(path):
        return _open_prefix(path)
    if path.with_name(path.name + ".meta").is_file():
        meta = path.with_name(path.name + ".meta")
        what = "this prefix has a .meta but no .index: the checkpoint itself is missing"
        raise UnreadableFileError(what, path=path, remedy=f"for the graph alone pass {meta}")
    if path.is_symlink():
        is_loop = real_path(path).is_symlink()  # which follows all links that lead on
        gone = f"this is a link to {path.readlink()}, which is not there"
        what = "this link leads back to itself" if is_loop else gone
        raise UnreadableFileError(what, path=path, remedy="mend the link, or pass what it should lead to")
    if not path.parent.is_dir():
        raise UnreadableFileError("there is no such file or folder", path=path, remedy="check the path")
    near = nearest(path.name, [child.name for child in path.parent.iterdir()])
    remedy = f"did you mean {' or '.join(near)}?" if near else "check the path"
    raise UnreadableFileError("there is no such file, folder or checkpoint prefix", path=path, remedy=remedy)
