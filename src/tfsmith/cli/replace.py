"""`tfsmith replace MODEL -r RECIPE -o OUT`: finds what a recipe describes, and puts its nodes in the place."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, NO, emit, printable, warn
from tfsmith.cli.matches import match_facts, match_text, miss_text
from tfsmith.cli.models import add_match_arguments, add_model_arguments, load_recipe, open_model
from tfsmith.cli.verified import Proof, add_verify_arguments, check_outputs

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    add_model_arguments(parser)
    parser.add_argument(
        "-r", "--recipe", required=True, metavar="RECIPE", help="a .toml, .pb or .pbtxt, or a name of `recipe list`"
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="its ending decides: .pb, .pbtxt, .meta with its checkpoint; without one a SavedModel folder",
    )
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument(
        "--keep-shared", action="store_true", help="keep nodes of a match that others use, beside the new ones"
    )
    parser.add_argument("--outputs", metavar="A,B", help="what counts as an output, besides what signatures name")
    add_match_arguments(parser)
    parser.add_argument("--explain", action="store_true", help="if nothing matches: what came nearest, and why not")
    parser.add_argument(
        "--as",
        dest="format",
        choices=("pb", "pbtxt", "meta", "saved_model", "keep"),
        help="what to write, whatever OUT's ending says (keep: what it was)",
    )
    parser.add_argument("--link", action="store_true", help="hard-link the weight files of a folder")
    add_verify_arguments(parser)
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    recipe = load_recipe(arguments)
    model = open_model(arguments, checkpoint=arguments.checkpoint)
    outputs = tuple(name.strip() for name in (arguments.outputs or "").split(",") if name.strip())
    replaced = api.replace(model, recipe, keep_shared=arguments.keep_shared, outputs=outputs)
    if replaced.matches or len(replaced.skipped) > 1:  # else the reason says it
        warn(f"a match was left alone: {skipped.reason}" for skipped in replaced.skipped)
    if not replaced.matches:
        if arguments.json:
            emit(json.dumps({"output": None, **match_facts(model, replaced)}, indent=2) + "\n")
            return NO
        emit(printable(f"No match: {replaced.reason}; nothing was written") + "\n")
        emit(miss_text(replaced.nearest_miss) if arguments.explain and not replaced.skipped else "")
        return NO

    def check(path: Path) -> api.Verified:
        # a graph alone has no weights beside it, so it is run as it is in memory
        is_alone = model.kind != "graphdef" and path.is_file() and path.suffix in (".pb", ".pbtxt")
        result = replaced.model if is_alone else api.load(path)
        return check_outputs(arguments, model, result, {one: one for one in outputs})

    proof = Proof(check)
    notes = api.save_replaced(
        model,
        replaced.model,
        arguments.output,
        format=arguments.format,
        inputs=[arguments.recipe],
        prove=proof if arguments.verify else None,
        link=arguments.link,
        force=arguments.force,
    )
    code = proof.tell(arguments.output)
    if code != DONE:
        return code
    warn((*replaced.notes, *notes))
    if arguments.json:
        facts = {"output": str(Path(arguments.output)), **match_facts(model, replaced)}
        facts["warnings"] += [str(note) for note in notes]
        emit(json.dumps(facts, indent=2) + "\n")
        return DONE
    emit(match_text(model, replaced, done=True))
    emit(f"Wrote {Path(arguments.output)}\n")
    return DONE
