"""`tfsmith thaw FROZEN -o DIR`: the constants of a frozen graph become variables again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, emit, human_count, printable, warn
from tfsmith.cli.signatures import add_signature_arguments, asked_signatures, signature_lines
from tfsmith.cli.verified import Proof, add_verify_arguments, check_outputs, check_signatures

__all__ = ["add_arguments", "work"]

_MAY: tuple[api.FileKind, ...] = ("saved_model", "meta")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument("model", metavar="FROZEN", help="frozen graph (.pb, .pbtxt), or SavedModel without variables")
    parser.add_argument(
        "-o", "--output-dir", metavar="DIR", required=True, help="a SavedModel folder, or a .meta with its checkpoint"
    )
    parser.add_argument(
        "--as",
        dest="format",
        choices=_MAY,
        help="what to write, whatever OUT's ending says",
    )
    parser.add_argument(
        "--min-elements",
        type=int,
        metavar="N",
        help="thaw what has N elements or more (by default 1024, and all that shows that it was a variable)",
    )
    parser.add_argument(
        "--only", metavar="GLOB", action="append", default=[], help="thaw only these constants, integers too"
    )
    parser.add_argument(
        "--except", metavar="GLOB", action="append", default=[], dest="excluded", help="leave these constants"
    )
    add_signature_arguments(parser)
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of a SavedModel, as tags joined by commas")
    parser.add_argument("--shards", type=int, metavar="N", help="split the variables into N data files")
    add_verify_arguments(parser)
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    tags = None if arguments.tag_set is None else [tag for tag in arguments.tag_set.split(",") if tag]
    model = api.load(arguments.model, tags=tags)
    options = api.ThawOptions(
        min_elements=arguments.min_elements,
        only=tuple(arguments.only),
        excluded=tuple(arguments.excluded),
        signatures=asked_signatures(arguments),
        method_name=arguments.method_name,
        kind="metagraph" if api.kind_of(arguments.output_dir, arguments.format, may=_MAY) == "meta" else "saved_model",
    )
    thawed = api.thaw_report(model, options)

    def check(place: Path) -> api.Verified:
        result = api.load(place)
        return (check_signatures if result.signatures else check_outputs)(arguments, model, result)

    proof = Proof(check)
    placed = api.place_model(
        thawed.model,
        arguments.output_dir,
        before=model,
        format=arguments.format,
        may=_MAY,
        shards=arguments.shards,
        force=arguments.force,
        prove=proof if arguments.verify else None,
    )
    code = proof.tell(placed.path)
    if code == DONE:
        _tell(arguments, thawed, placed.path)
    return code


def _tell(arguments: argparse.Namespace, thawed: api.Thawed, path: Path) -> None:
    warn(thawed.notes)
    signatures = api.signature_facts(thawed.model.signatures)
    if arguments.json:
        facts = {
            "output": str(path),
            "variables": dict(thawed.variables),
            "trainable": list(thawed.trainable),
            "signatures": signatures,
            "assets": [asset.path for asset in thawed.assets],
            "warnings": [str(note) for note in thawed.notes],
        }
        emit(json.dumps(facts, indent=2) + "\n")
        return
    elements = sum(tensor.shape.elements or 0 for tensor in thawed.model.variables.values())
    count = len(thawed.variables)
    words = f"{count} constant{'s' * (count != 1)} ({human_count(elements)} elements)"
    emit(f"Thawed {words} to variables in {path}\n")
    emit(signature_lines(signatures))
    emit("".join(f"asset {printable(asset.path)}\n" for asset in thawed.assets))
