"""`tfsmith export MODEL -o DIR`: a SavedModel with real variables."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, emit, input_shape, printable, warn
from tfsmith.cli.signatures import add_signature_arguments, asked_signatures, signature_lines
from tfsmith.cli.verified import Proof, add_verify_arguments, check_signatures

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model", metavar="MODEL", help=".meta, GraphDef, checkpoint prefix or folder, SavedModel folder"
    )
    parser.add_argument("-o", "--output-dir", metavar="DIR", required=True, help="the SavedModel folder to write")
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--step", type=int, metavar="N", help="which checkpoint of a folder (the latest by default)")
    add_signature_arguments(parser)
    parser.add_argument("--tag-set", metavar="T", default="serve", help="the tags, joined by commas (serve by default)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="fix the first dimension of every placeholder")
    parser.add_argument(
        "--input-shape", metavar="NAME=1,128", action="append", default=[], help="fix a placeholder's shape"
    )
    parser.add_argument("--all-variables", action="store_true", help="keep variables that the outputs do not need")
    parser.add_argument("--prune", action="store_true", help="drop nodes that the outputs do not need")
    parser.add_argument("--shards", type=int, metavar="N", help="split the variables into N data files")
    add_verify_arguments(parser)
    parser.add_argument("--force", action="store_true", help="replace an existing folder")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    model = api.load(arguments.model, checkpoint=arguments.checkpoint, step=arguments.step)
    options = api.ExportOptions(
        signatures=asked_signatures(arguments),
        method_name=arguments.method_name,
        tags=tuple(tag for tag in arguments.tag_set.split(",") if tag),
        batch_size=arguments.batch_size,
        input_shapes=dict(input_shape(text) for text in arguments.input_shape),
        all_variables=arguments.all_variables,
        prune=arguments.prune,
    )

    def check(path: Path) -> api.Verified:
        return check_signatures(arguments, model, api.load(path))

    proof = Proof(check)
    written = api.export(
        model,
        arguments.output_dir,
        options=options,
        shards=arguments.shards,
        force=arguments.force,
        prove=proof if arguments.verify else None,
    )
    code = proof.tell(arguments.output_dir)
    if code == DONE:
        _tell(arguments, written)
    return code


def _tell(arguments: argparse.Namespace, exported: api.Exported) -> None:
    warn(exported.notes)
    signatures = api.signature_facts(exported.model.signatures)
    assets = [asset.path for asset in exported.assets]
    if arguments.json:
        facts = {
            "output": arguments.output_dir,
            "variables": list(exported.variables),
            "signatures": signatures,
            "assets": assets,
            "warnings": [str(note) for note in exported.notes],
        }
        emit(json.dumps(facts, indent=2) + "\n")
        return
    emit(f"Exported {len(exported.variables)} variables to {arguments.output_dir}\n")
    emit(signature_lines(signatures))
    emit("".join(f"asset {printable(path)}\n" for path in assets))
