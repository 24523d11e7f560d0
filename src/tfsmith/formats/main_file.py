"""The main file of a model alone: a graph without the weights that lie beside it."""

from __future__ import annotations

from pathlib import Path

from tfsmith.errors import OutputError
from tfsmith.formats.graphdef import check_size, plan_graph
from tfsmith.formats.metagraph import plan_meta_graph
from tfsmith.formats.savedmodel import MAIN_FILES, find_main_file
from tfsmith.formats.savedmodel_saver import plan_saved_model
from tfsmith.formats.sniff import sniff
from tfsmith.formats.textfile import write_text_file
from tfsmith.ir.model import Model
from tfsmith.storage.sink import AtomicFile
from tfsmith.storage.source import open_file, real_path
from tfsmith.storage.span import Span
from tfsmith.wire.plan import WritePlan

__all__ = ["main_file", "refuse_other_files", "write_main_file"]


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
