"""`tfsmith recipe draw RECIPE -o X.svg|X.html`: what is found, what takes its place, how each input is remapped."""

from __future__ import annotations

import argparse

from tfsmith import api
from tfsmith.cli.common import DONE, NO, emit, printable
from tfsmith.cli.models import add_match_arguments, load_recipe

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the action."""
    parser.add_argument("recipe", metavar="RECIPE", help="a .toml, .pb or .pbtxt, or a name of `recipe list`")
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="the .svg or .html to write")
    parser.add_argument("--model", metavar="MODEL", help="draw the names that this model has")
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of a SavedModel, as tags joined by commas")
    parser.add_argument("--variant", metavar="NAME", help="draw this variant of the recipe")
    add_match_arguments(parser)
    parser.add_argument("--force", action="store_true", help="replace what is there")


def work(arguments: argparse.Namespace) -> int:
    """Runs the action."""
    recipe = load_recipe(arguments)
    tags = None if arguments.tag_set is None else [tag for tag in arguments.tag_set.split(",") if tag]
    model = None if arguments.model is None else api.load(arguments.model, tags=tags)
    matches = api.draw_recipe(
        recipe,
        arguments.output,
        model=model,
        variant=arguments.variant,
        inputs=[arguments.recipe],
        force=arguments.force,
    )
    emit(printable(f"Drew recipe {recipe.name} into {arguments.output}") + "\n")
    if model is None:
        return DONE
    count = len(matches)
    emit(f"{count} match{'' if count == 1 else 'es'} in the model\n")
    return DONE if matches else NO
