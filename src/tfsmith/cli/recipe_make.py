"""`tfsmith recipe make PATTERN NODE RECIPE`: a pattern and a node become a recipe."""

from __future__ import annotations

import argparse
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, emit, plural
from tfsmith.cli.models import add_match_arguments

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the action."""
    parser.add_argument("pattern", metavar="PATTERN", help="what `tfsmith extract` wrote")
    parser.add_argument("node", metavar="NODE", help="the new node: a NodeDef, as text or binary")
    parser.add_argument("recipe", metavar="RECIPE", help="the .pb, .pbtxt or .toml to write")
    add_match_arguments(parser)
    parser.add_argument("--force", action="store_true", help="replace what is there")


def work(arguments: argparse.Namespace) -> int:
    """Runs the action."""
    recipe = api.make_recipe(
        arguments.pattern,
        arguments.node,
        attrs=arguments.attrs,
        ignore=arguments.ignore_attr,
        also=arguments.match_attr,
        values=not arguments.no_values,
    )
    inputs = [arguments.pattern, arguments.node]
    api.save_recipe(recipe, arguments.recipe, inputs=inputs, force=arguments.force)
    query, target = recipe.variants[0].query, recipe.variants[0].targets[0]
    found = plural(len(query.nodes), "node")
    taken = f"takes {len(target.inputs)} of {plural(len(query.inputs), 'input')}"
    emit(f"Wrote {Path(arguments.recipe)} ({found} become {target.rename}, a {target.op}, which {taken})\n")
    return DONE
