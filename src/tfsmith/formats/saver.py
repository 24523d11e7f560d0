"""Writes any model in any format that can hold it."""

from __future__ import annotations

import threading
from pathlib import Path

from tfsmith.errors import OutputError
from tfsmith.formats.checkpoint_saver import copy_checkpoint, write_checkpoint
from tfsmith.formats.checkpoint_state import write_checkpoint_state
from tfsmith.formats.graphdef import check_size, plan_graph
from tfsmith.formats.metagraph import plan_meta_graph
from tfsmith.formats.savedmodel_saver import save_saved_model
from tfsmith.formats.textfile import write_text_file
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.tensor import SlicedTensor
from tfsmith.ir.tensor_slice import PartTensor
from tfsmith.storage.output import AtomicFiles
from tfsmith.storage.sink import AtomicFile
from tfsmith.storage.source import from_bytes
from tfsmith.storage.span import Span
from tfsmith.wire.plan import WritePlan
from tfsmith.wire.text_writer import write_text

__all__ = ["save_model", "graph_to_text"]

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
