"""`tfsmith freeze MODEL -o OUT`: variables become constants."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, emit, input_shape, printable, warn
from tfsmith.cli.verified import Proof, add_verify_arguments, check_outputs
from tfsmith.passes.variables import EMA_SUFFIX

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model", metavar="MODEL", help="SavedModel folder, .meta, GraphDef, checkpoint prefix or folder"
    )
    parser.add_argument("-o", "--output", metavar="OUT", required=True, help="the file (or SavedModel folder) to write")
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--step", type=int, metavar="N", help="which checkpoint of a folder (the latest by default)")
    parser.add_argument("--outputs", metavar="A,B", help="names of the outputs, joined by commas")
    parser.add_argument("--signature", metavar="K", help="take the outputs of this signature")
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of a SavedModel, as tags joined by commas")
    parser.add_argument("--clear-devices", action="store_true", help="drop the devices of all nodes")
    parser.add_argument("--only", metavar="GLOB", action="append", default=[], help="freeze only these variables")
    parser.add_argument(
        "--except", metavar="GLOB", action="append", default=[], dest="excluded", help="leave these variables"
    )
    parser.add_argument("--ema", action="store_true", help="take .../ExponentialMovingAverage where it exists")
    parser.add_argument("--batch-size", type=int, metavar="N", help="fix the first dimension of every placeholder")
    parser.add_argument(
        "--input-shape", metavar="NAME=1,128", action="append", default=[], help="fix a placeholder's shape"
    )
    parser.add_argument(
        "--fold-shapes", action="store_true", help="make constants of what follows from fixed shapes of inputs"
    )
    parser.add_argument(
        "--as", dest="format", choices=("pb", "pbtxt", "saved_model"), help="what to write, whatever OUT's ending says"
    )
    add_verify_arguments(parser)
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    tags = None if arguments.tag_set is None else [tag for tag in arguments.tag_set.split(",") if tag]
    model = api.load(arguments.model, tags=tags, checkpoint=arguments.checkpoint, step=arguments.step)
    options = api.FreezeOptions(
        outputs=tuple(name.strip() for name in (arguments.outputs or "").split(",") if name.strip()),
        signature=arguments.signature,
        clear_devices=arguments.clear_devices,
        only=tuple(arguments.only),
        excluded=tuple(arguments.excluded),
        ema=arguments.ema,
        batch_size=arguments.batch_size,
        input_shapes=dict(input_shape(text) for text in arguments.input_shape),
        keep_init=api.frozen_kind(arguments.output, arguments.format) == "saved_model",
        fold_shapes=arguments.fold_shapes,
    )
    frozen = api.freeze_report(model, options)

    def check(path: Path) -> api.Verified:
        names = (arguments.signature, None)
        return check_outputs(arguments, model, api.load(path), frozen.outputs, names)

    proof = Proof(check)
    written = api.save_frozen(
        model,
        frozen,
        arguments.output,
        format=arguments.format,
        force=arguments.force,
        prove=proof if arguments.verify else None,
    )
    code = proof.tell(arguments.output)
    if code == DONE:
        _tell(arguments, written)
    return code


def _tell(arguments: argparse.Namespace, frozen: api.Frozen) -> None:
    warnings = [str(note) for note in frozen.notes]
    if arguments.ema and not any(key.endswith(EMA_SUFFIX) for key in frozen.converted.values()):
        warnings.append("the checkpoint has no moving averages of these variables; leave --ema out")
    warn(warnings)
    if arguments.json:
        facts = {
            "output": str(Path(arguments.output)),
            "converted": dict(frozen.converted),
            "outputs": dict(frozen.outputs),
            "warnings": warnings,
        }
        emit(json.dumps(facts, indent=2) + "\n")
        return
    emit(f"Converted {len(frozen.converted)} variables to const ops.\n")
    for key, tensor in frozen.outputs.items():
        is_named = key not in (tensor, tensor.rpartition(":")[0])  # by a signature, not by its own name
        emit(printable(f"output {key}: {tensor}" if is_named else f"output {tensor}") + "\n")
