"""Writes any model in any format that can hold it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tfsmith.errors import OutputError, WrongFileError
from tfsmith.formats.checkpoint.find import write_checkpoint_state
from tfsmith.formats.checkpoint.writer import copy_checkpoint, write_checkpoint
from tfsmith.formats.graph.graphdef import check_size, plan_graph
from tfsmith.formats.graph.metagraph import plan_meta_graph, read_saver
from tfsmith.formats.savedmodel.folder import MAIN_FILES, find_main_file, plan_saved_model, save_saved_model
from tfsmith.formats.sniff import sniff
from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import Saver
from tfsmith.ir.model import Kind, Model
from tfsmith.ir.tensor import SlicedTensor
from tfsmith.ir.tensor_views import PartTensor
from tfsmith.records import record, replace
from tfsmith.storage.output import AtomicFiles
from tfsmith.storage.sink import AtomicFile
from tfsmith.storage.span import Span, from_bytes, open_file, real_path
from tfsmith.wire.plan import WritePlan
from tfsmith.wire.text_file import read_text, write_text_file
from tfsmith.wire.text_writer import write_text

__all__ = [
    "save_model",
    "graph_to_text",
    "Target",
    "Written",
    "choose_target",
    "write_target",
    "main_file",
    "refuse_other_files",
    "write_main_file",
    "read_saver_file",
]

_OF_KIND = {"graphdef": "pb", "metagraph": "meta", "saved_model": "saved_model", "checkpoint": "checkpoint"}


def save_model(
    model: Model, path: Path, *, format: str | None, shards: int = 1, force: bool = False, link: bool = False
) -> None:
    """Writes a model; see `tfsmith.api.save`."""
    text = path.suffix == ".pbtxt" or format == "pbtxt"
    chosen = _OF_KIND[model.kind] if format in (None, "pbtxt") else format
    if text and chosen == "checkpoint":
        chosen = "pb"  # which will say that a checkpoint has no graph
    if chosen == "pb" and not text:
        _save_graph(model, path)
        return
    verify_new_values(model)
    if chosen == "saved_model":
        save_saved_model(model, path, text=text, shards=shards, force=force, link=link)
    elif chosen == "meta":
        _save_meta(model, path, text=text, shards=shards, link=link)
    elif chosen == "checkpoint":
        with AtomicFiles() as files:
            _write_checkpoint(model, path, files, shards=shards, link=link)
        _write_state(path)
    elif chosen == "pb":
        write_text_file(path, "GraphDef", _graph_plan(model))
    else:
        remedy = "use pb, pbtxt, meta, saved_model or checkpoint"
        raise OutputError(f"there is no format {chosen!r}", path=path, remedy=remedy)


def verify_new_values(model: Model) -> None:
    """Checks the checksums of values that a pass moved into the graph, before they are copied without being looked at.

    Raises:
        ChecksumError: The checkpoint that they come from is damaged.
    """
    for meta in model.meta_graphs:
        if meta.raw is not None or meta.graph_part.raw is not None or model.raw is not None:
            continue
        for node in meta.graph:
            if node.op == "Const" and node.raw is None:
                _verify(node.get("value"))


def _verify(tensor: object) -> None:
    verify = getattr(tensor, "verify", None)
    if verify is not None:
        verify()
    elif isinstance(tensor, SlicedTensor):
        for piece in tensor.pieces:
            _verify(piece.tensor)
    elif isinstance(tensor, PartTensor):
        _verify(tensor.whole)


def _graph_plan(model: Model) -> Span | WritePlan:
    return model.raw if model.kind == "graphdef" and model.raw is not None else plan_graph(model.graph)


def _save_graph(model: Model, path: Path) -> None:
    """Writes a GraphDef, and meanwhile checks the values in it; the file appears only if both end well."""
    plan = _graph_plan(model)
    check_size(plan, path)
    with AtomicFile(path) as sink:
        check = _Check(model)
        try:
            sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)
        finally:
            check.join()
        if check.error is not None:
            raise check.error


class _Check(threading.Thread):
    """Verifies new values beside the writing: one reads and counts, the other copies in the kernel."""

    def __init__(self, model: Model) -> None:
        super().__init__(daemon=True)
        self._model = model
        self.error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            verify_new_values(self._model)
        except Exception as error:  # raised again by who waits for it
            self.error = error


def _save_meta(model: Model, path: Path, *, text: bool, shards: int, link: bool) -> None:
    """The graph as a `.meta`, and the variables beside it under the same prefix: all files or none."""
    plan = plan_meta_graph(model.meta)
    prefix = path.with_suffix("") if path.suffix in (".meta", ".pbtxt") else path
    if not text:
        check_size(plan, path)
    with AtomicFiles() as files:
        sink = files.open(path)
        if text:
            write_text("MetaGraphDef", plan if isinstance(plan, Span) else from_bytes(plan.tobytes()), sink)
        else:
            sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)
        if model.variables:
            _write_checkpoint(model, prefix, files, shards=shards, link=link)
    if model.variables:
        _write_state(prefix)


def _write_checkpoint(model: Model, prefix: Path, files: AtomicFiles, *, shards: int, link: bool) -> None:
    if not model.variables:
        raise OutputError("the model has no variables to save", path=prefix, remedy="choose the format pb or meta")
    if model.checkpoint is not None and model.checkpoint.version == 2 and shards == 1:
        copy_checkpoint(model.checkpoint, prefix, link=link, files=files)
    else:
        write_checkpoint(prefix, model.variables, shards=shards, link=link, files=files)


def _write_state(prefix: Path) -> None:
    """The folder's `checkpoint` file, unless there is one: that belongs to whoever trains there."""
    if not (prefix.parent / "checkpoint").exists():
        write_checkpoint_state(prefix.parent, prefix.name)


def graph_to_text(graph: Graph) -> str:
    """A GraphDef as TensorFlow prints it."""
    plan = plan_graph(graph)
    sink = _TextSink()
    write_text("GraphDef", plan if isinstance(plan, Span) else from_bytes(plan.tobytes()), sink)
    return b"".join(sink.pieces).decode()


class _TextSink:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.pieces.append(data)

    def write_span(self, span: Span) -> None:
        self.pieces.append(span.tobytes())


_FINGERPRINT = "fingerprint.pb"
_CKPT = re.compile(r"\.ckpt(-\d+)?$")
_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")
_KINDS: dict[str, Kind] = {
    "pb": "graphdef",
    "pbtxt": "graphdef",
    "meta": "metagraph",
    "saved_model": "saved_model",
    "checkpoint": "checkpoint",
}


@record
class Target:
    """What to write, and where.

    Attributes:
        path: The file, folder or prefix.
        kind: What kind the model must be of.
        text: Whether to write text.
        prefix: For a checkpoint, also one beside a `.meta`: its prefix.
    """

    path: Path
    kind: Kind
    text: bool = False
    prefix: Path | None = None

    @property
    def format(self) -> str | None:
        """What `save` must be told."""
        return "pbtxt" if self.text else None

    def refuse_existing(self) -> None:
        """Sees that nothing is there yet.

        Raises:
            OutputError: Something is.
        """
        if self.kind == "saved_model":
            return  # folders are looked at when they are made
        there = [self.path] if self.path.is_file() else []
        there += self.existing()
        if there:
            raise OutputError("the output exists already", path=there[0], remedy="choose another, or pass {force=True}")

    def existing(self) -> list[Path]:
        """The files of a checkpoint that are there under the prefix."""
        return [] if self.prefix is None else _files_of(self.prefix)


def choose_target(path: Path, format: str | None, kind: Kind, *, as_set: bool, has_variables: bool) -> Target:
    """What an output path means for a model of some kind.

    Args:
        path: What the user said.
        format: "pb", "pbtxt", "meta", "saved_model", "checkpoint", or None: the path's ending decides.
        kind: What the model is.
        as_set: Whether the model was given as a checkpoint, so that a path without ending is the prefix of another.
        has_variables: Whether there is a checkpoint to write.

    Raises:
        OutputError: That kind of file cannot hold this model.
    """
    if format is not None and format not in _KINDS:
        remedy = "use pb, pbtxt, meta, saved_model or checkpoint"
        raise OutputError(f"there is no format {format!r}", path=path, remedy=remedy)
    chosen = _by_ending(path, kind, as_set=as_set) if format is None else format
    wanted = _KINDS[chosen]
    if kind == "checkpoint" and wanted != "checkpoint":
        what = f"a checkpoint has no graph, so it cannot become {_WORDS[chosen]}"
        remedy = "pass its graph as MODEL and the checkpoint as --checkpoint, or choose another prefix as OUT"
        raise OutputError(what, path=path, remedy=remedy)
    if path.suffix == ".index" or _DATA.search(path.name):
        what = "this is the name of one file of a checkpoint"
        raise OutputError(what, path=path, remedy=f"pass the prefix {path.with_suffix('').name}")
    text = chosen == "pbtxt" or (path.suffix == ".pbtxt" and format == "meta")
    if chosen == "pbtxt" and kind == "saved_model" and path.suffix not in (".pbtxt", ".pb", ".txt"):
        wanted = "saved_model"  # the folder, with its main file as text
    if wanted == "checkpoint":
        return Target(path, wanted, prefix=path)
    if wanted != "metagraph":
        return Target(path, wanted, text)
    if not text and path.suffix != ".meta":
        path = path.with_name(f"{path.name}.meta")
    return Target(path, wanted, text, path.with_suffix("") if has_variables else None)


_WORDS = {"pb": "a .pb", "pbtxt": "a .pbtxt", "meta": "a .meta", "saved_model": "a SavedModel", "checkpoint": "it"}


def _by_ending(path: Path, kind: Kind, *, as_set: bool) -> str:
    if path.is_dir():
        return "saved_model"
    ending = path.suffix[1:]
    if ending in ("pb", "pbtxt", "meta"):
        return ending
    if kind == "checkpoint":
        return "checkpoint"
    return "meta" if as_set or _CKPT.search(path.name) else "saved_model"


@record
class Written:
    """What happened on the way.

    Attributes:
        files: The files that the weights are in, if there are any.
        linked: Those of them that are links to the files of the model as it was.
        fingerprint: Whether a `fingerprint.pb` was left out, because it is of the model as it was.
    """

    files: tuple[Path, ...]
    linked: tuple[Path, ...]
    fingerprint: bool


def write_target(
    model: Model, before: Model, target: Target, *, shards: int | None, link: bool, force: bool
) -> Written:
    """Writes a converted model, whole or not at all.

    Args:
        model: What to write; it is of the target's kind.
        before: The model as it was opened.
        target: Where it goes.
        shards: The number of data files; None for as many as there were.
        link: Whether to make hard links of weight files that did not change.
        force: Whether to replace what is there.
    """
    old = () if before.checkpoint is None else before.checkpoint.files
    count = max(1, sum(_DATA.search(path.name) is not None for path in old)) if shards is None else shards
    if shards is not None:
        model = replace(model, checkpoint=None)
    is_stale = model.raw is None or model.checkpoint is not before.checkpoint
    sides = tuple(side for side in model.side_files if not (is_stale and side.name == _FINGERPRINT))
    replaced = target.existing()
    save_model(
        replace(model, side_files=sides),
        target.path,
        format=target.format,
        shards=1 if model.checkpoint is not None and model.checkpoint.version == 2 else count,
        force=force,
        link=link,
    )
    _remove_others(replaced, count)
    prefix = target.path / "variables" / "variables" if target.kind == "saved_model" else target.prefix
    files = tuple(_files_of(prefix)) if prefix is not None and model.variables else ()
    linked = tuple(file for file in files if any(path.exists() and file.samefile(path) for path in old))
    return Written(files, linked, len(sides) < len(model.side_files))


def _remove_others(files: Iterable[Path], count: int) -> None:
    """Removes the data files of a checkpoint that was replaced by one with another number of them."""
    for path in files:
        if _DATA.search(path.name) and not path.name.endswith(f"-of-{count:05d}"):
            with suppress(OSError):
                path.unlink()


def _files_of(prefix: Path) -> list[Path]:
    """The files of the checkpoint with this prefix that are there."""
    folder = prefix.parent
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    endings = [(name, name[len(prefix.name) :]) for name in names if name.startswith(prefix.name)]
    return sorted(folder / name for name, end in endings if end == ".index" or _DATA.fullmatch(end))


def main_file(model: Model) -> Path:
    """The file that a model's graph was read from.

    Raises:
        OutputError: It was not read from a file, or from one that cannot be written in place.
    """
    path = model.path
    if path is not None and path.is_dir():
        path = find_main_file(path)
    if path is None or not path.is_file():
        raise OutputError("the model has no file that could be changed in place", remedy="say where to write it (-o)")
    if path.suffix == ".cpb":
        raise OutputError("a split SavedModel is not changed in place", path=path, remedy="say where to write it (-o)")
    if model.path is not None and model.path.is_dir() and real_path(model.path) not in real_path(path).parents:
        what = "this is a link that leads out of the model, so it is not changed in place"
        raise OutputError(what, path=path, remedy="say where to write it (-o)")
    return path


def write_main_file(model: Model, path: Path) -> None:
    """Writes the graph of a model, as SavedModel, MetaGraphDef or GraphDef; as text if the name ends in `.pbtxt`.

    The file appears whole or not at all. Weights in the graph are streamed.

    Raises:
        OutputError: It cannot be written.
        LimitError: It would be over 2 GiB.
    """
    message, plan = _plan(model)
    if path.suffix == ".pbtxt":
        write_text_file(path, message, plan)
        return
    check_size(plan, path)
    with AtomicFile(path) as sink:
        sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)


def _plan(model: Model) -> tuple[str, Span | WritePlan]:
    if model.kind == "saved_model":
        return "SavedModel", plan_saved_model(model)
    if model.kind == "metagraph":
        return "MetaGraphDef", plan_meta_graph(model.meta)
    return "GraphDef", plan_graph(model.graph)


def refuse_other_files(model: Model, target: Path) -> None:
    """Sees that a graph written into its own SavedModel's folder replaces at most a graph that was so written before.

    Raises:
        OutputError: It would replace a file of the model.
    """
    if not target.exists() or model.path is None:
        return
    folder = model.path if model.path.is_dir() else None
    own = [model.path, *model.origins, *(model.checkpoint.files if model.checkpoint else ())]
    own += [] if folder is None else [folder / name for name in MAIN_FILES]
    if any(path.exists() and target.samefile(path) for path in own):
        raise OutputError("the output is also the input", path=target, remedy="choose another name")
    is_inside = folder is not None and real_path(folder) in real_path(target).parents
    if is_inside and not (target.is_file() and sniff(open_file(target)).kind == "saved_model"):
        raise OutputError("this is a file of the model", path=target, remedy="choose another name")


_TEXT = tuple(name.encode() for name in ("filename_tensor_name", "save_tensor_name", "restore_op_name"))


def read_saver_file(path: Path) -> Saver:
    """Reads a SaverDef, binary or text.

    Raises:
        WrongFileError: The file is no SaverDef.
    """
    span = open_file(path)
    is_text = span.tobytes().lstrip().startswith(_TEXT) if len(span) < 1 << 20 else False
    saver = read_saver(read_text(span, "SaverDef") if is_text else span)
    if saver is None or not saver.restore_op_name:
        raise WrongFileError("this is no SaverDef", path=path, remedy="pass what tf.train.Saver.as_saver_def() gave")
    return saver
