"""Puts test models on disk, as TensorFlow would have; memory does not grow with the weights."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tfsmith.formats.bundle_writer import write_bundle
from tfsmith.formats.checkpoint_state import write_checkpoint_state
from tfsmith.formats.graphdef import check_size, plan_graph
from tfsmith.formats.metagraph import plan_meta_graph
from tfsmith.formats.savedmodel_saver import save_saved_model
from tfsmith.formats.tensorbundle import open_bundle
from tfsmith.formats.textfile import write_text_file
from tfsmith.storage.sink import AtomicFile
from tfsmith.storage.span import Span
from tfsmith.testing.frozen import frozen_graph
from tfsmith.testing.models import TestModel
from tfsmith.wire.plan import WritePlan

__all__ = ["write_checkpoint_files", "write_frozen", "write_saved_model"]


def write_checkpoint_files(model: TestModel, folder: Path, *, step: int = 1603, name: str = "model.ckpt") -> Path:
    """Writes what a training leaves behind: the checkpoint, its `.meta`, `graph.pbtxt` and the `checkpoint` file.

    Args:
        model: The model.
        folder: The folder; made if it is missing.
        step: The number at the end of the prefix.
        name: The beginning of the prefix.

    Returns:
        The checkpoint's prefix.
    """
    folder.mkdir(parents=True, exist_ok=True)
    prefix = folder / f"{name}-{step}"
    graph = plan_graph(model.model.graph)
    write_text_file(folder / "graph.pbtxt", "GraphDef", graph)
    write_bundle(prefix, model.model.variables)
    _write(prefix.with_name(f"{prefix.name}.meta"), plan_meta_graph(model.model.meta))
    write_checkpoint_state(folder, prefix.name)
    return prefix


def write_saved_model(model: TestModel, folder: Path) -> Path:
    """Writes a SavedModel with the signature `serving_default`, as SavedModelBuilder would; gives the folder."""
    save_saved_model(model.saved_model(), folder)
    return folder


def write_frozen(model: TestModel, path: Path) -> Path:
    """Writes the graph with constants in place of variables, pruned to the outputs; gives the path.

    The values go to a file beside it first, because a message needs all its sizes before its bytes, and are then
    copied inside the kernel.
    """
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        prefix = Path(work) / "values"
        write_bundle(prefix, model.model.variables)
        plan = plan_graph(frozen_graph(model.model.graph, open_bundle(prefix), model.output_nodes))
        check_size(plan, path)
        _write(path, plan)
    return path


def _write(path: Path, plan: Span | WritePlan) -> None:
    with AtomicFile(path) as sink:
        sink.write_span(plan) if isinstance(plan, Span) else plan.write_to(sink)
