"""`tfsmith export MODEL -o DIR`: a SavedModel with real variables."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from tfsmith import api
from tfsmith.cli.common import DONE, emit, input_shape
from tfsmith.errors import UsageError
from tfsmith.ir.signature import PREDICT, SERVING_DEFAULT

__all__ = ["add_arguments", "work"]


class _Ordered(argparse.Action):
    """Keeps --signature, --input and --output in the order given: each input belongs to the signature before it."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Adds one to the list."""
        namespace.words = [*(getattr(namespace, "words", None) or []), (self.dest, values)]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model", metavar="MODEL", help=".meta, GraphDef, checkpoint prefix or folder, SavedModel folder"
    )
    parser.add_argument("-o", "--output-dir", metavar="DIR", required=True, help="the SavedModel folder to write")
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--step", type=int, metavar="N", help="which checkpoint of a folder (the latest by default)")
    parser.add_argument(
        "--signature", metavar="NAME", action=_Ordered, help="the inputs and outputs after it are this one's"
    )
    parser.add_argument("--input", metavar="KEY=TENSOR", action=_Ordered, help="an input of the signature")
    parser.add_argument("--output", metavar="KEY=TENSOR", action=_Ordered, help="an output of the signature")
    parser.add_argument("--method-name", default=PREDICT, help="the signature's method (predict by default)")
    parser.add_argument("--tag-set", metavar="T", default="serve", help="the tags, joined by commas (serve by default)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="fix the first dimension of every placeholder")
    parser.add_argument(
        "--input-shape", metavar="NAME=1,128", action="append", default=[], help="fix a placeholder's shape"
    )
    parser.add_argument("--all-variables", action="store_true", help="keep variables that the outputs do not need")
    parser.add_argument("--prune", action="store_true", help="drop nodes that the outputs do not need")
    parser.add_argument("--shards", type=int, default=1, metavar="N", help="split the variables into N data files")
    parser.add_argument("--force", action="store_true", help="replace an existing folder")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    model = api.load(arguments.model, checkpoint=arguments.checkpoint, step=arguments.step)
    options = api.ExportOptions(
        signatures=_signatures(getattr(arguments, "words", None) or []),
        method_name=arguments.method_name,
        tags=tuple(tag for tag in arguments.tag_set.split(",") if tag),
        batch_size=arguments.batch_size,
        input_shapes=dict(input_shape(text) for text in arguments.input_shape),
        all_variables=arguments.all_variables,
        prune=arguments.prune,
    )
    exported = api.export(model, arguments.output_dir, options=options, shards=arguments.shards, force=arguments.force)
    _tell(arguments, exported)
    return DONE


def _signatures(words: Sequence[tuple[str, str]]) -> dict[str, tuple[dict[str, str], dict[str, str]]]:
    found: dict[str, tuple[dict[str, str], dict[str, str]]] = {}
    name = SERVING_DEFAULT
    for what, text in words:
        if what == "signature":
            name = text
            found.setdefault(name, ({}, {}))
            continue
        key, equals, tensor = text.partition("=")
        if not (key and equals and tensor):
            raise UsageError(f"--{what} {text!r} is not understood", remedy="write KEY=TENSOR, such as x=input_ids:0")
        found.setdefault(name, ({}, {}))[what == "output"][key] = tensor
    for key, (_, outputs) in found.items():
        if not outputs:
            raise UsageError(f"signature {key!r} has no output", remedy="add --output KEY=TENSOR")
    return found


def _tell(arguments: argparse.Namespace, exported: api.Exported) -> None:
    for note in exported.notes:
        sys.stderr.write(f"warning: {note}\n")
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
    emit("".join(f"signature {key}: {_arrow(found)}\n" for key, found in signatures.items()))
    emit("".join(f"asset {path}\n" for path in assets))


def _arrow(signature: dict[str, Any]) -> str:
    return f"{', '.join(signature['inputs'])} -> {', '.join(signature['outputs'])}"
