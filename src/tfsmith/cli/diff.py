"""`tfsmith diff A B`: what changed between two models."""

from __future__ import annotations

import argparse
import json
import sys

from tfsmith import api
from tfsmith.cli.common import DONE, NO, emit
from tfsmith.cli.diff_text import sections, summary
from tfsmith.cli.render import print_sections
from tfsmith.errors import UsageError

__all__ = ["add_arguments", "work"]

_MODEL = "SavedModel folder, .meta, GraphDef .pb/.pbtxt, checkpoint prefix or folder"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument("first", metavar="A", help=_MODEL)
    parser.add_argument("second", metavar="B", help="another one, of the same kind or not")
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of SavedModels, as tags joined by commas")
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of A, if none lies beside its graph")
    parser.add_argument("--other-checkpoint", metavar="PREFIX", help="the checkpoint of B")
    parser.add_argument(
        "--only",
        metavar="SECTION",
        action="append",
        default=[],
        help=f"compare only this: {', '.join(api.SECTIONS)}; several, or joined by commas",
    )
    parser.add_argument("--no-weights", action="store_true", help="do not read constants and variables")
    parser.add_argument(
        "--inferred-shapes", action="store_true", help="count shapes noted down at each node (_output_shapes), too"
    )
    parser.add_argument(
        "--tolerance", type=float, default=0.0, metavar="T", help="how far values may differ (0 by default)"
    )
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="show so many of each section (20)")
    parser.add_argument("--all", action="store_true", help="show them all")
    parser.add_argument("--json", action="store_true", help="all of it as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    if arguments.limit < 0:
        raise UsageError(f"--limit {arguments.limit} shows nothing", remedy="pass 0 or more, or --all")
    tags = None if arguments.tag_set is None else [tag for tag in arguments.tag_set.split(",") if tag]
    found = api.diff(
        _load(arguments.first, arguments.checkpoint, tags),
        _load(arguments.second, arguments.other_checkpoint, tags),
        only=[name.strip() for text in arguments.only for name in text.split(",") if name.strip()],
        weights=not arguments.no_weights,
        tolerance=arguments.tolerance,
        inferred_shapes=arguments.inferred_shapes,
    )
    if arguments.json:
        facts = {"first": arguments.first, "second": arguments.second, "equal": found.is_equal, **found.facts()}
        emit(json.dumps(facts, indent=2, allow_nan=False, default=str) + "\n", exact=True)
    else:
        limit = sys.maxsize if arguments.all else arguments.limit
        print_sections([*sections(found, limit), summary(found)])
    return DONE if found.is_equal else NO


def _load(path: str, checkpoint: str | None, tags: list[str] | None) -> api.Model:
    model = api.load(path, checkpoint=checkpoint)
    return model.select(tags) if tags is not None and model.has_graph else model
