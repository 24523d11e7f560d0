"""`tfsmith thaw FROZEN -o DIR`: the constants of a frozen graph become variables again."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, emit, human_count, printable, warn
from tfsmith.cli.signatures import add_signature_arguments, asked_signatures, signature_lines
from tfsmith.cli.verified import add_verify_arguments, check_outputs, check_signatures, write_verified
from tfsmith.errors import OutputError

__all__ = ["add_arguments", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument("model", metavar="FROZEN", help="frozen graph (.pb, .pbtxt), or SavedModel without variables")
    parser.add_argument(
        "-o", "--output-dir", metavar="DIR", required=True, help="the SavedModel folder, or the .meta's prefix"
    )
    parser.add_argument(
        "--as",
        dest="format",
        choices=("saved_model", "meta"),
        default="saved_model",
        help="a SavedModel (by default), or a .meta with its checkpoint",
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
    parser.add_argument("--shards", type=int, default=1, metavar="N", help="split the variables into N data files")
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
        kind="metagraph" if arguments.format == "meta" else "saved_model",
    )
    thawed = api.thaw_report(model, options)
    path = Path(arguments.output_dir)
    if arguments.format == "meta":
        path = _meta_file(path, force=arguments.force)

    def write(place: Path) -> None:
        api.save(thawed.model, place, shards=arguments.shards, force=arguments.force)

    def prove(place: Path) -> api.Verified:
        result = api.load(place)
        check = check_signatures if result.signatures else check_outputs
        return check(arguments, model, result)

    overwrite = arguments.format == "meta" and arguments.force
    code = write_verified(arguments, model, path, write, prove, force=arguments.force, overwrite=overwrite)
    if code == DONE:
        _tell(arguments, thawed, path)
    return code


def _meta_file(path: Path, *, force: bool) -> Path:
    """The `.meta` with this prefix.

    Raises:
        OutputError: There is such a checkpoint already.
    """
    prefix = path.with_suffix("") if path.suffix == ".meta" else path / "model.ckpt" if path.is_dir() else path
    meta = prefix.with_name(f"{prefix.name}.meta")
    there = [found for found in (meta, prefix.with_name(f"{prefix.name}.index")) if found.exists()]
    if there and not force:
        raise OutputError("this file exists", path=there[0], remedy="choose another name, or --force")
    return meta


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
