"""`python -m tfsmith.compat.make_recipe PATTERN NODEDEF RECIPE`: as light-model-transformer's own script."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfsmith.cli.common import DONE, LineParser, run_tool
from tfsmith.verbs.recipe import make_recipe

__all__ = ["main"]


def _parser() -> LineParser:
    parser = LineParser(prog="make_recipe", description="Create a recipe from a pattern and a node.")
    parser.add_argument("pattern", help="the pattern's .pb or .pbtxt")
    parser.add_argument("node_def", metavar="node-def", help="the NodeDef's .pb or .pbtxt")
    parser.add_argument("output", help="the recipe's .pb to write")
    return parser


def _work(flags: argparse.Namespace) -> int:
    make_recipe(flags.pattern, flags.node_def, flags.output, force=True)
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and gives the exit code."""
    return run_tool(_parser(), _work, argv)


if __name__ == "__main__":
    sys.exit(main())
