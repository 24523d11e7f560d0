"""`tfsmith recipe ACTION ...`: each action has a file of its own, `recipe_ACTION.py`."""

from __future__ import annotations

import argparse
from importlib import import_module
from types import MappingProxyType

__all__ = ["ACTIONS", "add_arguments", "work"]

ACTIONS = MappingProxyType(
    {
        "make": "a pattern and a node become a recipe",
        "draft": "the block that a model repeats, such as the layer of an encoder, becomes a recipe",
        "check": "where a recipe fits a model, and what would change; nothing is written",
        "draw": "what it looks for, what takes its place, and how each input is remapped, as a picture",
        "list": "the recipes that come with tfsmith",
    }
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The actions of the verb, with their arguments."""
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, what in ACTIONS.items():
        action = actions.add_parser(name, help=what, description=what[0].upper() + what[1:] + ".")
        import_module(f"tfsmith.cli.recipe_{name}").add_arguments(action)
        action.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help="show the traceback of an error"
        )


def work(arguments: argparse.Namespace) -> int:
    """Runs the action."""
    return int(import_module(f"tfsmith.cli.recipe_{arguments.action}").work(arguments))
