"""`python -m tfsmith.compat.extract_pattern ...`: the flags of light-model-transformer's own script, verbatim."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tfsmith.cli.common import DONE, LineParser, complain, run_tool, warn
from tfsmith.verbs.extract import extract

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
    pattern = extract(
        flags.path,
        flags.seed_nodes,
        flags.barrier_nodes,
        flags.barrier_ops,
        function=flags.function or None,
        out=flags.output,
        force=True,
        meta_graph=flags.meta_graph,
    )
    if flags.log in ("DEBUG", "INFO", "WARN"):
        warn(pattern.notes)
    if flags.log == "DEBUG":
        for node in pattern.nodes:
            complain(f"DEBUG: node {node.name} ({node.op})")
    if flags.log in ("DEBUG", "INFO"):
        complain(f"INFO: {len(pattern.nodes)} nodes, {len(pattern.inputs)} inputs")
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the tool and gives the exit code."""
    return run_tool(_parser(), _work, argv)


if __name__ == "__main__":
    sys.exit(main())
