"""`tfsmith recipe check RECIPE MODEL`: where a recipe fits, and what would change; nothing is written."""

from __future__ import annotations

import argparse
import json

from tfsmith import api
from tfsmith.cli.common import DONE, NO, emit, plural, printable, warn
from tfsmith.cli.matches import match_facts, match_text, miss_text
from tfsmith.cli.models import add_match_arguments, add_model_arguments, load_recipe, open_model

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the action."""
    parser.add_argument("recipe", metavar="RECIPE", help="a .toml, .pb or .pbtxt, or a name of `recipe list`")
    add_model_arguments(parser)
    parser.add_argument("--keep-shared", action="store_true", help="as for `tfsmith replace`")
    parser.add_argument("--outputs", metavar="A,B", help="what counts as an output, besides what signatures name")
    add_match_arguments(parser)
    parser.add_argument("--json", action="store_true", help="all that was found, as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the action."""
    recipe = load_recipe(arguments)
    model = open_model(arguments)
    outputs = tuple(name.strip() for name in (arguments.outputs or "").split(",") if name.strip())
    replaced = api.replace(model, recipe, keep_shared=arguments.keep_shared, outputs=outputs)
    if replaced.matches or len(replaced.skipped) > 1:  # else the reason says it
        warn(f"a match would be left alone: {one.reason}" for one in replaced.skipped)
    warn(replaced.notes)
    if arguments.json:
        emit(json.dumps(match_facts(model, replaced), indent=2) + "\n")
    elif replaced.matches:
        count = plural(len(replaced.matches), "match").replace("matchs", "matches")
        emit(printable(f"Recipe {recipe.name}: {count} would be replaced") + "\n")
        emit(match_text(model, replaced, done=False))
    else:
        emit(printable(f"No match: {replaced.reason}") + "\n")
        emit("" if replaced.skipped else miss_text(replaced.nearest_miss))
    return DONE if replaced.matches else NO
