"""F4: A checkpoint without its graph: which of the graphs that lie beside it belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tfsmith import records
from tfsmith.errors import TfsmithError, UsageError
from tfsmith.formats.opener import open_model
from tfsmith.ir.model import Model
from tfsmith.passes.variables import fit_checkpoint

__all__ = ["fitting_graphs", "require_graph"]

_SUFFIXES = (".meta", ".pb", ".pbtxt")
_MOST_FILES = 50
_MOST_NAMES = 5


def fitting_graphs(checkpoint: Model) -> tuple[Path, ...]:
    """The graphs in a checkpoint's folder whose variables it has all of. Reads structure."""
    return tuple(_fitting(checkpoint))


def _fitting(checkpoint: Model) -> Iterator[Path]:
    if checkpoint.path is None:
        return
    folder = checkpoint.path if checkpoint.path.is_dir() else checkpoint.path.parent
    beside = sorted(path for path in folder.glob("*") if path.suffix in _SUFFIXES)
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
    names = sorted(model.variables)
    shown = ", ".join(names[:_MOST_NAMES])
    shown += f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    what = f"a checkpoint alone has no graph to {purpose}; it holds {len(names)} tensors: {shown}"
    fitting = fitting_graphs(model)
    remedy = "pass the .meta or the graph as MODEL and this as --checkpoint"
    if fitting:
        listed = ", ".join(str(path) for path in fitting[:_MOST_NAMES])
        remedy = f"its variables fit {listed}; pass that as MODEL and this as --checkpoint"
    raise UsageError(what, path=model.path, remedy=remedy)
