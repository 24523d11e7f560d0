"""`tfsmith configure MODEL --op OP --set ATTR=VALUE...`: sets attributes of nodes, in place or in a copy."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from tfsmith import api
from tfsmith.cli.common import DONE, NO, emit, plural, printable, warn
from tfsmith.errors import UsageError
from tfsmith.ir.attr import Attr
from tfsmith.ir.literals import literal_of
from tfsmith.passes.configure import Setting

__all__ = ["add_arguments", "work"]

_SHOWN = 100


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model", metavar="MODEL", help="SavedModel folder, .meta, GraphDef, checkpoint prefix or folder"
    )
    parser.add_argument("--op", metavar="OP", action="append", default=[], help="nodes of this op")
    parser.add_argument(
        "--node",
        metavar="GLOB",
        action="append",
        default=[],
        help="nodes with such a name (with --op: of that op)",
    )
    parser.add_argument(
        "--set",
        metavar="ATTR=VALUE",
        action="append",
        default=[],
        dest="settings",
        help="an attribute and its value, typed by the op; lists are joined by commas; ATTR:KIND=VALUE for other ops",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="write it there, as its ending says: .pb, .pbtxt, .meta, a SavedModel folder; by default in place",
    )
    parser.add_argument(
        "--as",
        dest="format",
        choices=("pb", "pbtxt", "meta", "saved_model", "keep"),
        help="what to write, whatever OUT's ending says (keep: what it was)",
    )
    parser.add_argument("--link", action="store_true", help="with -o: hard-link the weight files")
    parser.add_argument("--force", action="store_true", help="with -o: replace what is there")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    model = api.load(arguments.model)
    settings = dict(map(_setting, arguments.settings))
    done = api.configure(model, settings, ops=arguments.op, nodes=arguments.node)
    if not done.changed and not done.unchanged:
        return _nothing(arguments, done)
    written: Path | None = None
    if arguments.output is not None:
        warn(
            api.save_replaced(
                model,
                done.model,
                arguments.output,
                format=arguments.format,
                link=arguments.link,
                force=arguments.force,
            )
        )
        written = Path(arguments.output)
    elif done.changed:
        written = api.save_in_place(done.model)
        if any(side.name == "fingerprint.pb" for side in model.side_files):
            warn(["fingerprint.pb is of the model as it was; nothing needs it, and you may remove it"])
    _tell(arguments, done, written)
    return DONE


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--set {text!r} is not understood", remedy="write --set ATTRIBUTE=VALUE")
    return name, value


def _nothing(arguments: argparse.Namespace, done: api.Configured) -> int:
    asked = [*(f"op {op}" for op in arguments.op), *(f"name {glob}" for glob in arguments.node)]
    near = f"; the nearest are {', '.join(done.nearest)}" if done.nearest else ""
    if arguments.json:
        facts = {"output": None, "changed": [], "unchanged": [], "nearest": list(done.nearest)}
        emit(json.dumps(facts, indent=2) + "\n")
    else:
        emit(printable(f"No node has {' and '.join(asked)}{near}; nothing was written") + "\n")
    return NO


def _tell(arguments: argparse.Namespace, done: api.Configured, written: Path | None) -> None:
    if arguments.json:
        facts = {
            "output": None if written is None else str(written),
            "changed": [_facts(one) for one in done.changed],
            "unchanged": [one.node for one in done.unchanged],
        }
        emit(json.dumps(facts, indent=2) + "\n")
        return
    for one in done.changed[:_SHOWN]:
        place = one.node if one.body is None else f"{one.node} in {one.body}"
        for key, value in one.after.items():
            if one.before[key] != value:
                emit(printable(f"{place}: {key} = {_shown(value)} (was {_shown(one.before[key])})") + "\n")
    if len(done.changed) > _SHOWN:
        emit(f"... and {plural(len(done.changed) - _SHOWN, 'more node')}\n")
    if done.unchanged:
        emit(f"{plural(len(done.unchanged), 'node')} had these values already\n")
    if written is not None:
        emit(f"Wrote {written}\n")


def _facts(setting: Setting) -> dict[str, object]:
    after = {key: _plain(value) for key, value in setting.after.items()}
    before = {key: _plain(value) for key, value in setting.before.items()}
    return {"function": setting.body, "node": setting.node, "op": setting.op, "before": before, "after": after}


def _plain(value: Attr | None) -> object:
    if value is None:
        return None
    if value.kind == "list":  # an empty one, of whatever
        return []
    return "a tensor" if "tensor" in value.kind else literal_of(value, value.kind)


def _shown(value: Attr | None) -> str:
    plain = _plain(value)
    return "not there" if value is None else plain if isinstance(plain, str) else json.dumps(plain)
