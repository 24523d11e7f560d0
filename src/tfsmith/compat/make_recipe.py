"""`python -m tfsmith.compat.make_recipe PATTERN NODEDEF RECIPE`: as light-model-transformer's own script."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfsmith import api
from tfsmith.cli.common import BAD, DONE, LineParser, run

__all__ = ["main"]


def _parser() -> LineParser:
    parser = LineParser(prog="make_recipe", description="Create a recipe from a pattern and a node.")
    parser.add_argument("pattern", help="the pattern's .pb or .pbtxt")
    parser.add_argument("node_def", metavar="node-def", help="the NodeDef's .pb or .pbtxt")
    parser.add_argument("output", help="the recipe's .pb to write")
    return parser


def _work(flags: argparse.Namespace) -> int:
    inputs = [flags.pattern, flags.node_def]
    api.save_recipe(api.make_recipe(*inputs), flags.output, inputs=inputs, force=True)
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and gives the exit code."""
    try:
        flags = _parser().parse_args(argv)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else BAD
    return run(lambda: _work(flags))


if __name__ == "__main__":
    sys.exit(main())
