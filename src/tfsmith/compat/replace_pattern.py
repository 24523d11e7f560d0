"""`python -m tfsmith.compat.replace_pattern ...`: the flags of light-model-transformer's own script, verbatim."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfsmith import api
from tfsmith.cli.common import BAD, DONE, NO, LineParser, complain, run, warn

__all__ = ["main"]

_LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def _parser() -> LineParser:
    parser = LineParser(prog="replace_pattern", description="Replace a pattern in a model with an equivalent.")
    parser.add_argument("source_model", help="folder of a SavedModel, or a frozen .pb")
    parser.add_argument("-m", "--meta-graph", type=int, default=0, help="which meta graph of a SavedModel")
    parser.add_argument("-l", "--log", choices=_LEVELS, default="WARN", help="how much to say on the way")
    parser.add_argument("-r", "--recipe", required=True, help="the recipe")
    parser.add_argument("-o", "--output", required=True, help="the file to write")
    return parser


def _work(flags: argparse.Namespace) -> int:
    model = api.select_meta_graph(api.load(flags.source_model), flags.meta_graph)
    replaced = api.replace(model, flags.recipe)
    if not replaced.matches:
        complain(f"ERROR: Failed to find and replace the pattern in the model: {replaced.reason}")
        if flags.log in ("DEBUG", "INFO") and replaced.nearest_miss is not None:
            complain(f"INFO: nearest miss: {replaced.nearest_miss.reason}")
        return NO
    if model.kind == "saved_model":
        api.save_main_file(replaced.model, flags.output, force=True)
    else:
        api.save_replaced(model, replaced.model, flags.output, format="pb", inputs=[flags.recipe], force=True)
    if flags.log not in ("ERROR", "FATAL"):
        warn(replaced.notes)
    if flags.log in ("DEBUG", "INFO"):
        for match in replaced.matches:
            complain(f"INFO: Pattern located and replaced in {match.body or 'graph_def'}.")
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
