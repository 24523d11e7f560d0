"""`tfsmith convert MODEL -o OUT`: another kind of file, other names, types and signatures."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, emit, human_bytes, warn
from tfsmith.cli.signatures import add_signature_arguments, asked_signatures, signature_lines
from tfsmith.cli.verified import Proof, add_verify_arguments, check_signatures
from tfsmith.errors import UnreadableFileError, UsageError
from tfsmith.passes.interface import INIT_SIGNATURE

__all__ = ["add_arguments", "work"]

_KINDS = {"graphdef": "graph", "metagraph": "graph", "saved_model": "SavedModel", "checkpoint": "checkpoint"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model", metavar="MODEL", help="SavedModel folder, .meta, GraphDef, checkpoint prefix or folder"
    )
    parser.add_argument(
        "-o",
        "--output-path",
        metavar="OUT",
        required=True,
        help="its ending decides: .pb, .pbtxt, .meta, .ckpt, .npz, .safetensors; without one a SavedModel folder",
    )
    parser.add_argument(
        "--as",
        dest="format",
        choices=("pb", "pbtxt", "meta", "saved_model", "checkpoint", "npz", "safetensors", "keep"),
        help="what to write, whatever OUT's ending says (keep: what it was)",
    )
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--step", type=int, metavar="N", help="which checkpoint of a folder (the latest by default)")
    parser.add_argument("--shards", type=int, metavar="N", help="split or merge the checkpoint into N data files")
    parser.add_argument("--inference-only", action="store_true", help="leave out what only training needs")
    parser.add_argument(
        "--rename",
        metavar="FILE|OLD=NEW",
        action="append",
        default=[],
        help="other names in the checkpoint; re:PATTERN=REPLACEMENT for many",
    )
    parser.add_argument("--drop", metavar="GLOB", action="append", default=[], help="leave these tensors out")
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), help="store the weights as this type")
    parser.add_argument("--only", metavar="GLOB", action="append", default=[], help="with --dtype: only these weights")
    parser.add_argument("--saturate", action="store_true", help="with --dtype: clip values that are too large for it")
    add_signature_arguments(parser, "--add-signature")
    parser.add_argument(
        "--rename-signature", metavar="OLD=NEW", action="append", default=[], help="another name for a signature"
    )
    parser.add_argument("--remove-signature", metavar="NAME", action="append", default=[], help="away with a signature")
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of a SavedModel, as tags joined by commas")
    parser.add_argument("--set-tags", metavar="A,B", help="the tags that it gets")
    parser.add_argument("--link", action="store_true", help="hard-link weight files that do not change")
    add_verify_arguments(parser)
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    edits = api.SignatureEdits(
        add=asked_signatures(arguments),
        rename=dict(_pair(text, "--rename-signature") for text in arguments.rename_signature),
        remove=tuple(arguments.remove_signature),
        method_name=arguments.method_name,
    )
    options = api.ConvertOptions(
        inference_only=arguments.inference_only,
        drop=tuple(arguments.drop),
        rename=tuple(_rules(arguments.rename)),
        dtype=arguments.dtype,
        only=tuple(arguments.only),
        saturate=arguments.saturate,
        signatures=edits,
        tags=_tags(arguments.set_tags) or (),
    )
    model = api.load(
        arguments.model, tags=_tags(arguments.tag_set), checkpoint=arguments.checkpoint, step=arguments.step
    )

    def check(path: Path) -> api.Verified:
        result = api.load(path)
        if not (model.has_graph and result.has_graph):
            what = "only a model with a graph can be run"
            raise UsageError(what, path=path.name, remedy="compare checkpoints with `tfsmith weights A --compare B`")
        return check_signatures(arguments, model, result, dtype=arguments.dtype)

    proof = Proof(check)
    converted = api.convert(
        model if arguments.tag_set is None else model.alone(),
        arguments.output_path,
        format=arguments.format,
        options=options,
        shards=arguments.shards,
        link=arguments.link,
        force=arguments.force,
        inputs=[text for text in arguments.rename if "=" not in text],
        prove=proof if arguments.verify else None,
    )
    code = proof.tell(arguments.output_path)
    if code == DONE:
        _tell(arguments, converted, has_signatures=bool(edits))
    return code


def _tags(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(tag for tag in text.split(",") if tag)


def _pair(text: str, option: str) -> tuple[str, str]:
    old, equals, new = text.rpartition("=") if text.startswith("re:") else text.partition("=")
    if not (old and equals and new):
        raise UsageError(f"{option} {text!r} is not understood", remedy="write OLD=NEW")
    return old, new


def _rules(texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The rules of `--rename`: pairs, or files of pairs."""
    for text in texts:
        if "=" in text:
            yield _pair(text, "--rename")
        else:
            yield from _file_rules(Path(text))


def _file_rules(path: Path) -> Iterator[tuple[str, str]]:
    """A file of rules: a JSON object, or lines with the old and the new name."""
    try:
        content = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else f"cannot be read ({error.strerror})"
        remedy = "pass a file of names, or OLD=NEW"
        raise UnreadableFileError(f"the file of names {reason}", path=path, remedy=remedy) from error
    if content.lstrip().startswith("{"):
        yield from _json_rules(content, path)
        return
    for number, line in enumerate(content.splitlines(), 1):
        words = line.split()
        if not words or line.lstrip().startswith("#"):
            continue
        if len(words) == 1 and words[0].startswith("re:") and "=" in words[0]:
            words = list(_pair(words[0], "--rename"))
        if len(words) != 2:
            what, remedy = f"line {number} is no pair of names", "write the old name, a space, and the new name"
            raise UsageError(what, path=path, remedy=remedy)
        yield words[0], words[1]


def _json_rules(content: str, path: Path) -> Iterator[tuple[str, str]]:
    remedy = 'write {"old": "new"}'
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is no JSON ({error})", path=path, remedy=remedy) from error
    if not all(isinstance(new, str) for new in found.values()):
        raise UsageError("the new names must be text", path=path, remedy=remedy)
    yield from found.items()


def _tell(arguments: argparse.Namespace, converted: api.Converted, *, has_signatures: bool) -> None:
    warn(converted.notes)
    model = converted.model
    renamed = {old: new for old, new in converted.names.items() if new is not None}
    dropped = sorted(old for old, new in converted.names.items() if new is None)
    signatures = api.signature_facts({key: found for key, found in model.signatures.items() if key != INIT_SIGNATURE})
    size = sum(tensor.nbytes for tensor in model.variables.values())
    if arguments.json:
        facts = {
            "output": str(converted.path),
            "kind": model.kind,
            "tensors": len(model.variables),
            "bytes": size,
            "renamed": renamed,
            "dropped": dropped,
            "cast": list(converted.cast),
            "signatures": signatures,
            "warnings": [str(note) for note in converted.notes],
        }
        emit(json.dumps(facts, indent=2) + "\n")
        return
    count = len(model.variables)
    weights = f", {count} tensor{'s' * (count != 1)}, {human_bytes(size)}" if count else ""
    emit(f"Wrote {converted.path} ({_KINDS[model.kind]}{weights})\n")
    done = [(len(dropped), "dropped"), (len(renamed), "renamed"), (len(converted.cast), f"cast to {arguments.dtype}")]
    emit("".join(f"{count} {what}\n" for count, what in done if count))
    emit(signature_lines(signatures) if has_signatures else "")
