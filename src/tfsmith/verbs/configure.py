"""`configure`: sets attributes of nodes, in place or in a copy."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.api.files import load
from tfsmith.ir.model import Model
from tfsmith.storage.sink import explained
from tfsmith.storage.span import real_path

if TYPE_CHECKING:
    from tfsmith.passes.configure import Configured

__all__ = ["configure", "save_in_place"]


def configure(
    model: Model | str | os.PathLike[str],
    settings: Mapping[str, Any],
    *,
    ops: Sequence[str] = (),
    nodes: Sequence[str] = (),
) -> Configured:
    """Sets attributes of nodes, in all meta graphs and functions.

    Args:
        model: A model, or its path.
        settings: Values by attribute; text is read as the kind that the op's definition says.
        ops: Nodes of these ops are chosen.
        nodes: Nodes whose names fit one of these globs are chosen; if `ops` are given too, only if both fit.

    Raises:
        UsageError: The op has no such attribute, or the value is of another kind.
    """
    from tfsmith.passes.configure import configure as configure_pass

    opened = model if isinstance(model, Model) else load(model)
    return configure_pass(opened, settings, ops=ops, nodes=nodes)


def save_in_place(model: Model) -> Path:
    """Writes the graph of a changed model over the file that it was read from, in one step; gives the file.

    The weights beside it stay as they are. Where the file's name is a link, what it leads to is replaced.

    Raises:
        OutputError: It cannot be written; the file is as it was.
    """
    from tfsmith.formats.saver import main_file, write_main_file

    path = main_file(model)
    with explained(path):
        write_main_file(model, real_path(path))
    return path
