"""Models in and out: `load`, and `save`, the one way out for models and for what verbs make of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from tfsmith import records
from tfsmith.errors import Note, NotFoundInModelError, TfsmithError, UnreadableFileError, UsageError, nearest
from tfsmith.formats import ALL_KINDS, As, FileKind, destination_of
from tfsmith.formats.opener import attach_checkpoint, open_bytes, open_model
from tfsmith.ir.body import Body, Part
from tfsmith.ir.model import KERAS_REMEDY, KERAS_WHAT, Model, Saver, SideFile
from tfsmith.storage import is_remote, real_path, spelled
from tfsmith.verbs._declare import checked, shown

if TYPE_CHECKING:
    from tfsmith.verbs._shared import FilePath, ModelOrPath, Names

if TYPE_CHECKING:  # most outputs need none of it
    from tfsmith.passes.export import AssetFile
    from tfsmith.verbs._shared import FilePath, ModelOrResult, ModelResult
    from tfsmith.verbs.verify import Verified

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
    "Placed",
    "foreign_assets",
    "place_model",
    "place_result",
    "prove_result",
    "save",
    "with_assets",
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


_Made = TypeVar("_Made", bound="ModelResult")


@checked
def save(
    model: ModelOrResult,
    path: FilePath,
    *,
    as_: Literal["pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz", "safetensors", "h5", "keras", "keep"]
    | None = None,
    shards: int | None = None,
    link: bool = False,
    force: bool = False,
    format: Literal["pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz", "safetensors", "h5", "keras", "keep"]
    | None = None,
) -> tuple[object, ...]:
    """Writes a model, whole or not at all. What nobody edited is written back byte for byte.

    Args:
        model: The model, or what a verb gave that has one.
        path: Its ending decides: `.pb` a GraphDef, `.pbtxt` its text, `.meta` a MetaGraphDef with its checkpoint,
            `.ckpt` or `.ckpt-N` a checkpoint, `.npz`, `.safetensors`, `.h5` and `.keras` its variables, a name
            without ending (`v1.0` has none) or with a slash at its end a SavedModel folder.
        as_: What to write, whatever the name says: "pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz",
            "safetensors", "h5", "keras", or "keep": what it was (of a SavedModel, under a name that ends in `.pb`, its
            main file).
        shards: The number of data files of a checkpoint; by default as many as there were.
        link: Whether to make hard links of weight files that did not change, in place of copies.
        force: Whether to replace what is there. Files that the model was read from are never replaced.
        format: Another word for `as_`.

    Returns:
        What to beware of.

    Raises:
        OutputError: It cannot be written there; what was there before is untouched.
        LimitError: A message would be over 2 GiB.
    """
    if as_ is not None and format is not None:
        raise UsageError("{as_} and {format} are the same", remedy="give one of them")
    as_ = format if as_ is None else as_
    if not isinstance(model, Model):
        return tuple(model.save(path, as_=as_, force=force).notes)
    return place_model(model, path, format=as_, shards=shards, link=link, force=force).notes


@records.record
class Placed:
    """A model that was written.

    Attributes:
        model: The model as it was written: of the kind that the output holds.
        path: Its main file, its folder, or its prefix.
        kind: The kind of file.
        notes: What to beware of.
        is_right: Whether it was proven, or there was nothing to prove; if not, it was not put in place.
    """

    model: Model
    path: Path
    kind: FileKind
    notes: tuple[Note, ...]
    is_right: bool


def place_model(
    model: Model,
    path: str | os.PathLike[str],
    *,
    before: Model | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
    prove: Callable[[Path], bool] | None = None,
    format: As | None = None,
    may: Collection[FileKind] = ALL_KINDS,
    shards: int | None = None,
    link: bool = False,
    force: bool = False,
) -> Placed:
    """Writes a model aside, has it proven there, and puts it in place. As `save`, for verbs.

    Args:
        model: What to write.
        path: Where; its ending decides.
        before: The model as it was opened.
        inputs: What else the command read; none of it is replaced.
        prove: Looks at what was written, where it lies for now, and says whether it is right.
        format: What to write, whatever the name says.
        may: The kinds of files that the verb writes.
        shards: The number of data files of a checkpoint; by default as many as there were.
        link: Whether to make hard links of weight files that did not change.
        force: Whether to replace what is there.
    """
    original = model if before is None else before
    from tfsmith.formats.write import check_written, inputs_of, write_model  # who only looks needs no writers

    destination = destination_of(path, format, model.kind, was=original.path, may=may)
    output = destination.output((*inputs_of(original), *inputs_of(model), *inputs), force=force)
    output.check()
    notes: list[Note] = []
    if model.kind != destination.holds:
        from tfsmith.passes.kinds import repack

        packed = repack(model, destination.holds)
        model = with_assets(packed.model, packed.assets, original)
        notes += (*packed.notes, *foreign_assets(model, original))
    elif destination.kind == "saved_model":
        notes += foreign_assets(model, original)
    if format is None and destination.kind == "checkpoint" and original.has_graph:
        notes.append(Note("a checkpoint has no graph", (), f"write {destination.path.name}.meta to keep it"))
    check_written(model)
    is_right = True
    with output:
        place = destination.at(output.aside)
        written = write_model(model, place, before=before, shards=shards, link=link)
        if prove is not None and not prove(output.aside):
            is_right = False
            output.discard()
    if link and len(written.linked) < len(written.files):
        copied = tuple(file.name for file in written.files if file not in written.linked)
        notes.append(Note("not linked", copied, "they changed, or lie on a disk that cannot link to the other"))
    notes += [Note(f"{name} is left out", (), "it is of the model as it was") for name in written.left_out]
    return Placed(model, destination.path, destination.kind, tuple(notes), is_right)


def place_result(result: _Made, out: str | os.PathLike[str], options: Mapping[str, Any]) -> _Made:
    """Writes what a verb made; gives the result as it was written.

    Args:
        result: What the verb made.
        out: Where; its ending decides what is written.
        options: The verb's shared options. With `verify`, only what computes the same as the original is put in place.
    """
    as_ = options.get("as_")
    made = result.made_for(destination_of(out, as_, result.model.kind, was=result.source.path, may=result.kinds))
    found: list[Verified] = []

    def prove(path: Path) -> bool:

        found.append(_proof(made, load(path), options))
        return found[-1].is_same

    placed = place_model(
        made.model,
        out,
        before=made.source,
        inputs=made.read,
        prove=prove if options.get("verify") else None,
        format=as_,
        may=made.kinds,
        shards=made.shards,
        link=made.link,
        force=bool(options.get("force")),
    )
    return records.replace(
        made,
        model=placed.model,
        notes=(*made.notes, *placed.notes),
        out=placed.path if placed.is_right else None,
        verified=found[-1] if found else None,
    )


def prove_result(result: _Made, options: Mapping[str, Any]) -> _Made:
    """What a verb made, with whether it computes the same as the original; nothing is written.

    Args:
        result: What the verb made.
        options: The verb's shared options.
    """
    return records.replace(result, verified=_proof(result, result.model, options))


def _proof(made: ModelResult, written: Model, options: Mapping[str, Any]) -> Verified:
    from tfsmith.verbs._prove import Checks  # loads what runs models

    return made.prove(written, Checks(options.get("verify_engine", "auto"), tuple(options.get("op_libraries", ()))))


def with_assets(result: Model, assets: Iterable[AssetFile], source: Model) -> Model:
    """A model that is to be a SavedModel, with the files that its tables are filled from."""
    found = [SideFile(f"assets/{Path(asset.path).name}", _asset_file(asset, source)) for asset in assets]
    known = {side.name for side in found}
    beside = tuple(side for side in result.side_files if side.name not in known)
    return records.replace(result, side_files=(*beside, *found))


def foreign_assets(result: Model, source: Model) -> list[Note]:
    """Notes files that a graph named and that lie elsewhere: a hostile one may name any file of the user's."""
    known = {side.path for side in source.side_files}
    sides = [side.path for side in result.side_files if side.path not in known]
    if not sides:
        return []
    home = real_path(_home(source))
    foreign = tuple(str(path) for path in sides if not real_path(path).is_relative_to(home))
    remedy = "the graph names them; see that they hold nothing private before you pass the model on"
    return [Note("files from outside of the model are copied into it", foreign, remedy)] if foreign else []


def _asset_file(asset: AssetFile, model: Model) -> Path:
    """Where the file that a table is filled from lies: as the graph says, or beside the model."""
    name = Path(asset.path.replace("\\", "/")).name
    folder = _home(model)
    for candidate in (folder / "assets" / name, folder / name, Path(asset.path)):
        if name and candidate.is_file():
            return candidate
    what = f"the file {asset.path!r}, which fills a table, is not there"
    raise UnreadableFileError(
        what, where=f"tensor {asset.tensor_name!r}", remedy=f"put {name or 'it'} beside the model"
    )


def _home(model: Model) -> Path:
    """The folder that a model lies in."""
    if model.path is None:
        return Path()
    return model.path if model.path.is_dir() else model.path.parent
