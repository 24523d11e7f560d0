"""Writes a model as any kind of file that can hold it. Files are made at the given names, and must not exist.

`tfsmith.storage.place` puts them in place: whole or not at all.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from tfsmith.errors import InvalidModelError, OutputError, UsageError, WrongFileError
from tfsmith.formats import Destination, find_main_file
from tfsmith.formats.graph.graphdef import check_size, plan_graph
from tfsmith.ir.graph import Graph, check_graph
from tfsmith.ir.model import Model, Saver
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.records import record, replace
from tfsmith.storage import FileSink, Span, from_bytes, open_file, real_path
from tfsmith.wire import WritePlan

if TYPE_CHECKING:
    from tfsmith.ir.keras import KerasFile

__all__ = [
    "Written",
    "check_written",
    "graph_to_text",
    "inputs_of",
    "main_file",
    "read_saver_file",
    "write_main_file",
    "write_model",
    "write_weights",
]

_FINGERPRINT = "fingerprint.pb"
_WEIGHT_FILES = frozenset({"npz", "safetensors", "h5", "keras"})
_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")


@record
class Written:
    """What was written.

    Attributes:
        files: The files that the weights are in, if there are any.
        linked: Those of them that are links to the files of the model as it was.
        left_out: Files of the model as it was that are not true of it any more.
    """

    files: tuple[Path, ...] = ()
    linked: tuple[Path, ...] = ()
    left_out: tuple[str, ...] = ()


def inputs_of(model: Model) -> tuple[Path, ...]:
    """The files and folders that a model was read from; none of them may be replaced."""
    stored = () if model.checkpoint is None else model.checkpoint.files
    return tuple(path for path in dict.fromkeys((model.path, *model.origins, *stored)) if path is not None)


def check_written(model: Model) -> None:
    """Refuses graphs that TensorFlow would refuse to load, edited or as they were read. Decodes every node.

    Args:
        model: What is to be written.

    Raises:
        InvalidModelError: An input is not there, two nodes have one name, an attribute is of another kind, and so on.
    """
    try:
        for meta in model.meta_graphs:
            check_graph(meta.graph, attrs="all")
    except InvalidModelError as error:
        raise error.at(model.path if error.path is None else None) from None


def write_model(
    model: Model,
    destination: Destination,
    *,
    before: Model | None = None,
    shards: int | None = None,
    link: bool = False,
) -> Written:
    """Writes a model that is of the destination's kind. Weights are streamed; what nobody edited stays as it is.

    Args:
        model: What to write.
        destination: Where, and as what.
        before: The model as it was opened, if passes have changed it.
        shards: The number of data files of a checkpoint; None for as many as there were.
        link: Whether to make hard links of weight files that did not change.

    Raises:
        OutputError: It cannot be written there.
        LimitError: A message would be over 2 GiB.
    """
    old = () if before is None or before.checkpoint is None else before.checkpoint.files
    old = old or (() if model.checkpoint is None else model.checkpoint.files)
    if shards is not None:
        model = replace(model, checkpoint=None)
    count = max(1, sum(_DATA.search(path.name) is not None for path in old)) if shards is None else shards
    is_stale = before is not None and (model.raw is None or model.checkpoint is not before.checkpoint)
    sides = tuple(side for side in model.side_files if not (is_stale and side.name == _FINGERPRINT))
    left_out = (_FINGERPRINT,) if len(sides) < len(model.side_files) else ()
    is_untouched = before is None or model.variables is before.variables
    if destination.kept and destination.kind in _WEIGHT_FILES and is_untouched and _is_one_file(model.path):
        assert model.path is not None
        _write_plan(open_file(model.path), destination.path)
        return Written()
    _write(replace(model, side_files=sides), destination, count, link=link)
    prefix = destination.prefix
    files = tuple(_files_of(prefix)) if prefix is not None and model.variables else ()
    linked = tuple(file for file in files if any(path.exists() and file.samefile(path) for path in old))
    return Written(files, linked, left_out)


def _is_one_file(path: Path | None) -> bool:
    """Whether weights lie in this file, and not in those that an index names."""
    return path is not None and path.is_file() and path.suffix != ".json"


def _write(model: Model, destination: Destination, shards: int, *, link: bool) -> None:
    path, text = destination.path, destination.text
    if destination.kind in _WEIGHT_FILES:
        write_weights(model.variables, destination, keras=model.keras)
        return
    if destination.holds == "graphdef" and not text:
        _write_graph(model, path)
        return
    verify_new_values(model)
    if destination.alone:
        write_main_file(model, path)
    elif destination.kind == "saved_model":
        from tfsmith.formats.savedmodel import write_saved_model  # each kind of file loads what it needs

        write_saved_model(model, path, text=text, shards=shards, link=link)
    elif destination.kind == "meta":
        _write_meta(model, destination, shards, link=link)
    elif destination.kind == "checkpoint":
        _write_checkpoint(model, path, shards, link=link)
    else:
        from tfsmith.wire.text_writer import write_text_file

        write_text_file(path, "GraphDef", _graph_plan(model))


def write_weights(
    weights: Mapping[str, Tensor],
    destination: Destination,
    *,
    metadata: Mapping[str, str] | None = None,
    max_shard_bytes: int | None = None,
    keras: KerasFile | None = None,
) -> tuple[Path, ...]:
    """Writes tensors without a graph. Streams; checksums of what is copied are checked on the way.

    Args:
        weights: The tensors by name.
        destination: Where, and as what.
        metadata: What to store beside them, as text by key. Not in checkpoints.
        max_shard_bytes: For safetensors: begin another file where one would hold more; an index names them all.
        keras: For Keras' files: what the Keras file said that they come from.

    Returns:
        The files that were written.

    Raises:
        UnsupportedError: A tensor has no place in the format.
        OutputError: It cannot be written there.
    """
    path = destination.path
    if not weights:
        raise OutputError("there are no weights to write", path=path, remedy="check what was left out")
    if max_shard_bytes is not None and destination.kind != "safetensors":
        raise UsageError("only safetensors are split by size", path=path, remedy="write NAME.safetensors")
    if destination.kind == "safetensors":
        from tfsmith.formats.tensors.safetensors import write_safetensors  # looking should not load what writes

        return write_safetensors(path, weights, metadata or {}, max_shard_bytes=max_shard_bytes)
    if destination.kind == "npz":
        from tfsmith.formats.tensors.npz import write_npz

        write_npz(path, weights, metadata or {})
        return (path,)
    if destination.kind in ("h5", "keras"):
        from tfsmith.formats.keras.write import write_h5, write_keras, write_weights_h5

        about = weights.keras if keras is None and isinstance(weights, Weights) else keras
        if destination.kind == "keras":
            write_keras(path, weights, about)
        elif path.name.endswith(".weights.h5"):
            write_weights_h5(path, weights, metadata or {})
        else:
            write_h5(path, weights, about, metadata or {})
        return (path,)
    for tensor in weights.values():
        tensor.verify()
    _write_checkpoint(Model("checkpoint", (), weights), path, 1, link=False)
    return tuple(_files_of(path))


def verify_new_values(model: Model) -> None:
    """Checks the checksums of values that a pass moved into the graph, before they are copied without being looked at.

    Raises:
        ChecksumError: The checkpoint that they come from is damaged.
    """
    for meta in model.meta_graphs:
        if meta.raw is not None or meta.graph_part.raw is not None or model.raw is not None:
            continue
        for node in meta.graph:
            value = node.constant if node.raw is None else None
            if value is not None:
                value.verify()


def _graph_plan(model: Model) -> Span | WritePlan:
    return model.raw if model.kind == "graphdef" and model.raw is not None else plan_graph(model.graph)


def _write_graph(model: Model, path: Path) -> None:
    """Writes a GraphDef, and meanwhile checks the values in it; the file stays only if both end well."""
    plan = _graph_plan(model)
    check_size(plan, path)
    with FileSink(path) as sink:
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


def _write_meta(model: Model, destination: Destination, shards: int, *, link: bool) -> None:
    """The graph as a `.meta`, and the variables beside it under the same prefix."""
    from tfsmith.formats.graph.metagraph import plan_meta_graph

    plan = plan_meta_graph(model.meta)
    path, prefix = destination.path, destination.prefix
    if destination.text:
        from tfsmith.wire.text_writer import write_text_file

        write_text_file(path, "MetaGraphDef", plan)
    else:
        check_size(plan, path)
        _write_plan(plan, path)
    if model.variables and prefix is not None:
        _write_checkpoint(model, prefix, shards, link=link)


def _write_plan(plan: Span | WritePlan, path: Path) -> None:
    with FileSink(path) as sink:
        sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)


def _write_checkpoint(model: Model, prefix: Path, shards: int, *, link: bool) -> None:
    """A checkpoint, and the list of the folder's checkpoints, which names it as the only one."""
    if not model.variables:
        raise OutputError("the model has no variables to save", path=prefix, remedy="choose the format pb or meta")
    from tfsmith.formats.checkpoint import write_checkpoint_state
    from tfsmith.formats.checkpoint.writer import write_variables

    write_variables(model, prefix, shards=shards, link=link)
    write_checkpoint_state(prefix.parent, prefix.name)


def graph_to_text(graph: Graph) -> str:
    """A GraphDef as TensorFlow prints it."""
    from tfsmith.wire.text_writer import write_text

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
        raise OutputError("the model has no file that could be changed in place", remedy="say where to write ({out})")
    if path.suffix == ".cpb":
        raise OutputError("a split SavedModel is not changed in place", path=path, remedy="say where to write ({out})")
    if model.path is not None and model.path.is_dir() and real_path(model.path) not in real_path(path).parents:
        what = "this is a link that leads out of the model, so it is not changed in place"
        raise OutputError(what, path=path, remedy="say where to write ({out})")
    return path


def write_main_file(model: Model, path: Path) -> None:
    """Writes the graph of a model, as SavedModel, MetaGraphDef or GraphDef; as text if the name ends in `.pbtxt`.

    Weights in the graph are streamed.

    Raises:
        OutputError: It cannot be written.
        LimitError: It would be over 2 GiB.
    """
    check_written(model)
    message, plan = _plan(model)
    if path.suffix == ".pbtxt":
        from tfsmith.wire.text_writer import write_text_file

        write_text_file(path, message, plan)
        return
    check_size(plan, path)
    _write_plan(plan, path)


def _plan(model: Model) -> tuple[str, Span | WritePlan]:
    if model.kind == "saved_model":
        from tfsmith.formats.savedmodel import plan_saved_model

        return "SavedModel", plan_saved_model(model)
    if model.kind == "metagraph":
        from tfsmith.formats.graph.metagraph import plan_meta_graph

        return "MetaGraphDef", plan_meta_graph(model.meta)
    return "GraphDef", plan_graph(model.graph)


_TEXT = tuple(name.encode() for name in ("filename_tensor_name", "save_tensor_name", "restore_op_name"))


def read_saver_file(path: Path) -> Saver:
    """Reads a SaverDef, binary or text.

    Raises:
        WrongFileError: The file is no SaverDef.
    """
    from tfsmith.formats.graph.metagraph import read_saver
    from tfsmith.wire.text_reader import read_text

    span = open_file(path)
    is_text = span.tobytes().lstrip().startswith(_TEXT) if len(span) < 1 << 20 else False
    saver = read_saver(read_text(span, "SaverDef") if is_text else span)
    if saver is None or not saver.restore_op_name:
        raise WrongFileError("this is no SaverDef", path=path, remedy="pass what tf.train.Saver.as_saver_def() gave")
    return saver
