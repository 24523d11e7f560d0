"""`tfsmith recipe list`: the recipes that come with tfsmith."""

from __future__ import annotations

import argparse
import json

from tfsmith import api
from tfsmith.cli.common import DONE, emit

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the action."""
    parser.add_argument("--json", action="store_true", help="as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the action."""
    found = api.list_recipes()
    if arguments.json:
        emit(json.dumps(found, indent=2) + "\n")
        return DONE
    width = max(map(len, found), default=0)
    emit("".join(f"{name:<{width}}  {what}\n" for name, what in found.items()))
    return DONE
