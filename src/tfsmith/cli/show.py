"""`tfsmith show MODEL`: what is inside a model."""

from __future__ import annotations

import argparse
import json
from typing import Any

from tfsmith import api
from tfsmith.cli.common import DONE, emit
from tfsmith.cli.render import print_sections
from tfsmith.cli.show_text import sections
from tfsmith.errors import NotFoundInModelError
from tfsmith.ir.model import Model
from tfsmith.ir.names import nearest

__all__ = ["add_arguments", "work"]

_PARTS = ("variables", "ops", "nodes", "collections", "functions", "outputs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model", metavar="MODEL", help="SavedModel folder, .meta, GraphDef .pb/.pbtxt, checkpoint prefix or folder"
    )
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of a SavedModel, as tags joined by commas")
    parser.add_argument("--signature", metavar="K", help="only this signature")
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--step", type=int, metavar="N", help="which checkpoint of a folder (the latest by default)")
    parser.add_argument("--variables", action="store_true", help="every variable with dtype, shape and size")
    parser.add_argument("--ops", action="store_true", help="how often each op is used")
    parser.add_argument("--nodes", action="store_true", help="every node of the graph with op and inputs")
    parser.add_argument("--collections", action="store_true", help="collections, with messages in them decoded")
    parser.add_argument("--functions", action="store_true", help="the functions of the graph's library")
    parser.add_argument("--outputs", action="store_true", help="likely inputs and outputs, with the reason")
    parser.add_argument("--all", action="store_true", help="all of these")
    parser.add_argument("--text", action="store_true", help="the GraphDef as text, as TensorFlow writes it")
    parser.add_argument("--verify", action="store_true", help="read every tensor and check its checksum")
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    tags = None if arguments.tag_set is None else [tag for tag in arguments.tag_set.split(",") if tag]
    model = api.load(arguments.model, tags=tags, checkpoint=arguments.checkpoint, step=arguments.step)
    if arguments.text:
        emit(api.graph_text(model), exact=True)
        return DONE
    parts = {part for part in _PARTS if arguments.all or getattr(arguments, part)}
    summary = arguments.all or not (parts or arguments.signature)
    facts = api.show_facts(model, parts=parts, summary=summary)
    if arguments.signature:
        facts["signature"] = {arguments.signature: _signature(model, arguments.signature)}
    if arguments.verify:
        facts["verified"] = api.verify_checksums(model)
    if arguments.json:
        emit(json.dumps(facts, indent=2, allow_nan=False, default=str) + "\n", exact=True)
    else:
        print_sections(sections(facts, summary=summary))
    return DONE


def _signature(model: Model, key: str) -> dict[str, Any]:
    found = api.signature_facts(model.signatures).get(key)
    if found is None:
        near = nearest(key, model.signatures) or list(model.signatures)
        remedy = f"the signatures are: {', '.join(near)}" if near else "it has none; --outputs shows likely ones"
        raise NotFoundInModelError(f"there is no signature {key!r}", path=model.path, remedy=remedy)
    return dict(found)
