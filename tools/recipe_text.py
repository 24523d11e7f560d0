"""Variants of a recipe as the compact TOML of the shipped files: one line for a node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.recipe_parts import Nodes

HEADER = "# Put together by tools/make_recipes.py from the pieces in tools/recipe_parts.py; change those.\n"


@dataclass
class Variant:
    """One variant, as its tables will be written."""

    name: str
    nodes: Nodes
    targets: Sequence[dict[str, Any]]
    replace: Mapping[str, str]
    through: Sequence[str] = ()
    repeat: dict[str, Any] = field(default_factory=dict)
    before: Nodes | None = None
    links: dict[str, str] = field(default_factory=dict)
    comment: str = ""
    require: Sequence[str] = ()


def recipe_text(name: str, description: str, variants: Sequence[Variant]) -> str:
    """The text of a recipe's file."""
    lines = [HEADER, "[recipe]", f"name = {_value(name)}", f"description = {_value(description)}"]
    for variant in variants:
        lines += _variant(variant)
    return "\n".join(lines) + "\n"


def _variant(variant: Variant) -> list[str]:
    lines = ["", *(f"# {line}" for line in variant.comment.splitlines()), "[[variant]]"]
    lines += [f"name = {_value(variant.name)}", *_list("inputs", entering(variant.nodes))]
    lines += [f"outputs = {_value(list(variant.replace))}"]
    lines += [f"through = {_value(list(variant.through))}"] if variant.through else []
    lines += [f"require = {_value(list(variant.require))}"] if variant.require else []
    lines += _rows("node", variant.nodes.lines)
    lines += _rows("target", variant.targets)
    if variant.repeat:
        lines += ["[variant.repeat]", *(f"{key} = {_value(value)}" for key, value in variant.repeat.items())]
    if variant.before is not None:
        lines += ["[variant.before]", *_list("inputs", entering(variant.before)), f"links = {_value(variant.links)}"]
        lines += _rows("node", variant.before.lines)
    lines += ["[variant.replace]", *(f"{_value(old)} = {_value(new)}" for old, new in variant.replace.items())]
    return lines


def entering(nodes: Nodes) -> list[str]:
    """What the nodes take that none of them gives."""
    own = {line["name"] for line in nodes.lines}
    taken = [name for line in nodes.lines for name in line.get("inputs", ())]
    return [name for name in dict.fromkeys(taken) if name.partition(":")[0] not in own]


def _list(key: str, values: Sequence[str]) -> list[str]:
    text = f"{key} = {_value(list(values))}"
    if len(text) <= 120:
        return [text]
    rows, row = [f"{key} = ["], "   "
    for value in values:
        if len(row) + len(value) + 4 > 120:
            rows, row = [*rows, row], "   "
        row += f" {_value(value)},"
    return [*rows, row, "]"]


def _rows(key: str, tables: Sequence[Mapping[str, Any]]) -> list[str]:
    return [f"{key} = [", *(f"    {_value(table)}," for table in tables), "]"] if tables else []


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + "}"
    return json.dumps(value) if isinstance(value, str) else repr(value)
