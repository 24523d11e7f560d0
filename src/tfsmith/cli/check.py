"""`tfsmith check MODEL --for TARGET`: which parts of a model another program cannot import."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from tfsmith import api
from tfsmith.cli.common import DONE, NO, emit, human_count
from tfsmith.cli.render import Section, print_sections
from tfsmith.errors import UsageError

__all__ = ["add_arguments", "work"]

_FEW = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="SavedModel folder, .meta, GraphDef .pb/.pbtxt",
    )
    parser.add_argument(
        "--for", dest="target", metavar="TARGET", help="migraphx, openvino, tflite, tflite-flex, onnx, tensorflow-X.Y"
    )
    parser.add_argument("--list", action="store_true", help="the targets, with the versions of their tables")
    parser.add_argument("--outputs", metavar="A,B", help="only what these outputs need, joined by commas")
    parser.add_argument("--signature", metavar="K", help="only what this signature needs")
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of a SavedModel, as tags joined by commas")
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--all", action="store_true", help=f"name all nodes, not the first {_FEW}")
    parser.add_argument("--json", action="store_true", help="the same as JSON, with all nodes")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    if arguments.list:
        return _list(arguments)
    if arguments.model is None or arguments.target is None:
        raise UsageError("a model and a target are wanted", remedy="tfsmith check MODEL --for TARGET; --list has them")
    tags = None if arguments.tag_set is None else [tag for tag in arguments.tag_set.split(",") if tag]
    found = api.check(
        api.load(arguments.model, tags=tags, checkpoint=arguments.checkpoint),
        arguments.target,
        outputs=[name.strip() for name in (arguments.outputs or "").split(",") if name.strip()],
        signature=arguments.signature,
    )
    if arguments.json:
        emit(json.dumps(_facts(arguments.model, found), indent=2, allow_nan=False) + "\n", exact=True)
    else:
        print_sections(list(_sections(found, sys.maxsize if arguments.all else _FEW)))
    return DONE if found.is_clean else NO


def _list(arguments: argparse.Namespace) -> int:
    found = api.targets()
    if arguments.json:
        rows = [
            {"name": one.name, "title": one.title, "version": one.version, "ops": len(one.ops), "date": one.date}
            | {"source": one.source}
            for one in found
        ]
        emit(json.dumps(rows, indent=2) + "\n")
        return DONE
    lines = [(one.name, one.title, one.version, human_count(len(one.ops)), one.date) for one in found]
    print_sections([Section("", lines, ("target", "", "version", "ops", "taken"), right=frozenset({3}))])
    return DONE


def _facts(path: str, found: api.Checked) -> dict[str, Any]:
    target = found.target
    return {
        "path": path,
        "target": {"name": target.name, "version": target.version, "source": target.source, "date": target.date},
        "clean": found.is_clean,
        "nodes": found.node_count,
        "as_frozen": found.frozen,
        "obstacles": [
            {"kind": one.kind, "subject": one.subject, "what": one.what, "nodes": list(one.nodes), "remedy": one.remedy}
            for one in found.obstacles
        ],
        "notes": list(found.notes),
    }


def _sections(found: api.Checked, most: int) -> list[Section]:
    sections = [_section(one, most) for one in found.obstacles]
    target = found.target
    count = len(found.obstacles)
    nodes = f"{human_count(found.node_count)} nodes{', as freezing leaves them' if found.frozen else ''}"
    table = target.title if target.version in target.title else f"{target.title} {target.version}"
    line = f"{table}: {f'{count} obstacle' + 's' * (count != 1) if count else 'nothing stands in the way'} ({nodes})"
    return [*sections, Section(line, notes=tuple(f"note: {note}" for note in found.notes))]


def _section(one: api.Obstacle, most: int) -> Section:
    count = f": {human_count(len(one.nodes))} node{'s' * (len(one.nodes) != 1)}" if one.nodes else ""
    rows = [(name,) for name in one.nodes[:most]]
    left = len(one.nodes) - most
    notes = (f"and {human_count(left)} more; --all shows them",) if left > 0 else ()
    return Section(f"{one.what}{count}", rows, notes=(*notes, *((f"-> {one.remedy}",) if one.remedy else ())))
