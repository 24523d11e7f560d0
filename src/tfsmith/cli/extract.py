"""`tfsmith extract MODEL -o PATTERN -s SEED... -b BARRIER... -B OP...`: cuts a pattern out of a graph."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, complain, emit, plural, warn
from tfsmith.cli.models import add_model_arguments, open_model

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    add_model_arguments(parser)
    parser.add_argument("-o", "--output", metavar="PATTERN", required=True, help="the .pb or .pbtxt to write")
    parser.add_argument(
        "-s", "--seed-nodes", metavar="SEED", nargs="+", action="extend", default=[], help="the nodes to begin at"
    )
    parser.add_argument(
        "-b", "--barrier-nodes", metavar="NODE", nargs="+", action="extend", default=[], help="stop at these nodes"
    )
    parser.add_argument(
        "-B",
        "--barrier-ops",
        metavar="OP",
        nargs="+",
        action="extend",
        default=[],
        help="stop at nodes of these ops",
    )
    parser.add_argument("-f", "--function", metavar="NAME", help="look in this function, not in the graph itself")
    parser.add_argument(
        "--constants",
        action="store_true",
        help="constants that are no barriers belong to the pattern",
    )
    parser.add_argument(
        "-l",
        "--log",
        choices=("DEBUG", "INFO", "WARN", "ERROR", "FATAL"),
        default="WARN",
        help="how much to say on the way (DEBUG: every node)",
    )
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="say what was found as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    model = open_model(arguments)
    barriers, unknown = api.known_barriers(model, arguments.barrier_nodes, function=arguments.function)
    warn(f"barrier {name} is not in the graph, so nothing stops there" for name in unknown)
    pattern = api.extract(
        model,
        arguments.seed_nodes,
        barriers,
        arguments.barrier_ops,
        function=arguments.function,
        constants=arguments.constants,
    )
    api.save_pattern(pattern, arguments.output, model=model, force=arguments.force)
    if arguments.log == "DEBUG":
        for node in pattern.nodes:
            complain(f"debug: node {node.name} ({node.op})")
        for name in pattern.inputs:
            complain(f"debug: input {name}")
    if arguments.json:
        facts = {
            "output": str(Path(arguments.output)),
            "seed_nodes": [node.name for node in pattern.seed_nodes],
            "internal_nodes": [node.name for node in pattern.internal_nodes],
            "inputs": list(pattern.inputs),
        }
        emit(json.dumps(facts, indent=2) + "\n")
        return DONE
    counts = (
        plural(len(pattern.seed_nodes), "seed"),
        plural(len(pattern.internal_nodes), "other node"),
        plural(len(pattern.inputs), "input"),
    )
    emit(f"Wrote {Path(arguments.output)} ({', '.join(counts)})\n")
    return DONE
