"""`python -m tfsmith.compat.extract_pattern ...`: the flags of light-model-transformer's own script, verbatim."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfsmith import api
from tfsmith.cli.common import BAD, DONE, LineParser, complain, run, warn

__all__ = ["main"]

_LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def _parser() -> LineParser:
    parser = LineParser(prog="extract_pattern", description="Extract a pattern from a model's graph.")
    parser.add_argument("path", help="folder of a SavedModel, or a frozen .pb")
    parser.add_argument("-s", "--seed-nodes", nargs="+", default=[], help="names of the nodes to begin at")
    parser.add_argument("-b", "--barrier-nodes", nargs="+", default=[], help="names of the nodes to stop at")
    parser.add_argument("-B", "--barrier-ops", nargs="+", default=[], help="ops at whose nodes to stop")
    parser.add_argument("-f", "--function", help="the function to look in; the graph itself by default")
    parser.add_argument("-m", "--meta-graph", type=int, default=0, help="which meta graph of a SavedModel")
    parser.add_argument("-l", "--log", choices=_LEVELS, default="WARN", help="how much to say on the way")
    parser.add_argument("-o", "--output", required=True, help="the file to write; text if it ends in .pbtxt")
    return parser


def _work(flags: argparse.Namespace) -> int:
    model = api.select_meta_graph(api.load(flags.path), flags.meta_graph)
    function = flags.function or None
    barriers, unknown = api.known_barriers(model, flags.barrier_nodes, function=function)
    if flags.log in ("DEBUG", "INFO", "WARN"):
        warn(f"barrier {name} is not in the graph, so nothing stops there" for name in unknown)
    pattern = api.extract(model, flags.seed_nodes, barriers, flags.barrier_ops, function=function)
    api.save_pattern(pattern, flags.output, model=model, force=True)
    if flags.log == "DEBUG":
        for node in pattern.nodes:
            complain(f"DEBUG: node {node.name} ({node.op})")
    if flags.log in ("DEBUG", "INFO"):
        complain(f"INFO: {len(pattern.nodes)} nodes, {len(pattern.inputs)} inputs")
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
