"""`extract`: cuts a pattern out of a graph, from seed nodes back to barriers; patterns as files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from tfsmith import records
from tfsmith.api.files import _path, _refuse_own_files, load
from tfsmith.errors import NotFoundInModelError, OutputError
from tfsmith.ir.body import Body
from tfsmith.ir.model import Model
from tfsmith.ir.names import nearest
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Pattern
from tfsmith.storage.sink import explained

__all__ = ["extract", "known_barriers", "load_pattern", "refuse_sources", "save_pattern", "select_meta_graph"]


def extract(
    model: Model | str | os.PathLike[str],
    seeds: Sequence[str],
    barriers: Sequence[str] = (),
    barrier_ops: Iterable[str] = (),
    *,
    function: str | None = None,
    constants: bool = False,
) -> Pattern:
    """The nodes that the seeds need, up to the barriers. Reads no weights.

    Args:
        model: A model, or its path.
        seeds: The names of the nodes to begin at.
        barriers: The names of nodes at which to stop.
        barrier_ops: Ops at whose nodes to stop.
        function: The function to look in; the graph itself by default.
        constants: Whether constants that are no barriers belong to the pattern; by default they are open ends.

    Raises:
        UsageError: An end is open: a node without inputs that is no barrier.
        NotFoundInModelError: There is no such node or function.
    """
    from tfsmith.patterns.extract import extract as extract_nodes

    opened = model if isinstance(model, Model) else load(model)
    return extract_nodes(_body(opened, function), seeds, barriers, barrier_ops, constants=constants)


def known_barriers(
    model: Model, names: Sequence[str], *, function: str | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Those of these names that are in the graph, each once, and those that are not.

    A list of barriers serves for models that differ a little: what a model does not have cannot be reached.
    """
    body = _body(model, function)
    there = dict.fromkeys(name for name in names if name in body or name in body.args)
    return tuple(there), tuple(dict.fromkeys(name for name in names if name not in there))


def _body(model: Model, function: str | None) -> Body:
    if function is None:
        return model.graph
    found = model.graph.library.get(function)
    if found is None:
        near = nearest(function, model.graph.library)
        remedy = f"the nearest are {', '.join(near)}" if near else "`tfsmith show --functions` lists them"
        raise NotFoundInModelError(f"there is no function {function!r}", path=model.path, remedy=remedy)
    return found


def save_pattern(pattern: Pattern, path: str | os.PathLike[str], *, model: Model | None = None) -> None:
    """Writes a pattern in the format of the original tools; as text if the path ends in `.pbtxt`.

    Args:
        pattern: The pattern.
        path: Where; a file that is there is replaced.
        model: The model that it was extracted from, none of whose files is replaced.

    Raises:
        OutputError: It cannot be written there, or the pattern still lies in that file.
    """
    from tfsmith.formats.recipe.protobuf import write_pattern

    target = _path(path)
    with explained(target):
        if model is not None:
            _refuse_own_files(model, target)
        refuse_sources(pattern.nodes, target)
        write_pattern(target, pattern)


def refuse_sources(nodes: Iterable[Node], target: Path) -> None:
    """Nodes may still lie in the file that they were read from."""
    spans = [span for node in nodes if (span := node.base) is not None]
    for name in {span.name for span in spans}:
        if target.exists() and Path(name).exists() and target.samefile(name):
            raise OutputError("the output is also the input", path=target, remedy="choose another name")


def load_pattern(path: str | os.PathLike[str]) -> Pattern:
    """Reads a pattern file, binary or text."""
    from tfsmith.formats.recipe.protobuf import read_pattern

    return read_pattern(_path(path))


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
