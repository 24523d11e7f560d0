"""The arguments by which verbs take a model, and the opening of it."""

from __future__ import annotations

import argparse

from tfsmith import api
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model

__all__ = ["add_model_arguments", "open_model"]


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL, and which of its meta graphs."""
    parser.add_argument(
        "model", metavar="MODEL", help="SavedModel folder, .meta, GraphDef, checkpoint prefix or folder"
    )
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of a SavedModel, as tags joined by commas")
    parser.add_argument("-m", "--meta-graph", type=int, metavar="N", help="the same, as a number (0 by default)")


def open_model(arguments: argparse.Namespace, *, checkpoint: str | None = None) -> Model:
    """The model that the arguments name.

    Raises:
        UsageError: The meta graph is chosen twice.
    """
    if arguments.tag_set is not None and arguments.meta_graph is not None:
        raise UsageError("--tag-set and --meta-graph both choose a meta graph", remedy="give one of them")
    tags = None if arguments.tag_set is None else [tag for tag in arguments.tag_set.split(",") if tag]
    model = api.load(arguments.model, tags=tags, checkpoint=checkpoint)
    if not model.has_graph:
        raise model.no_graph()
    return model if arguments.meta_graph is None else api.select_meta_graph(model, arguments.meta_graph)
