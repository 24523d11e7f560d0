"""The arguments by which verbs take a model, and the opening of it."""

from __future__ import annotations

import argparse

from tfsmith import api
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model

__all__ = ["add_match_arguments", "add_model_arguments", "load_recipe", "open_model"]


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


def add_match_arguments(parser: argparse.ArgumentParser) -> None:
    """What must be equal, for recipes that do not say it themselves."""
    parser.add_argument(
        "--attrs",
        choices=("declared", "types", "none"),
        default="declared",
        help="of a recipe made of a pattern: which attributes must be equal (all that the ops declare, by default)",
    )
    parser.add_argument(
        "--ignore-attr", metavar="NAME", action="append", default=[], help="this attribute need not be equal"
    )
    parser.add_argument(
        "--match-attr", metavar="NAME", action="append", default=[], help="this one must, such as _output_shapes"
    )
    parser.add_argument(
        "--no-values", action="store_true", help="small constants inside the pattern may have other values"
    )


def load_recipe(arguments: argparse.Namespace) -> api.Recipe:
    """The recipe that the arguments name."""
    return api.load_recipe(
        arguments.recipe,
        attrs=arguments.attrs,
        ignore=arguments.ignore_attr,
        also=arguments.match_attr,
        values=not arguments.no_values,
    )
