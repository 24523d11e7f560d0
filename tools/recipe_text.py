"""Variants of a recipe as the compact TOML of the shipped files: one line for a node."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HEADER = "# Put together by tools/make_recipes.py from tools/recipe_folding.py; change that.\n"


ADD = ["AddV2", "Add"]


@dataclass
class Nodes:
    """The wanted nodes of a query, added one by one; each call gives the name that the next ones take."""

    lines: list[dict[str, Any]] = field(default_factory=list)

    def add(self, name: str, op: str | list[str], *inputs: str, **more: Any) -> str:
        line: dict[str, Any] = {"name": name, "op": op}
        if inputs:
            line["inputs"] = list(inputs)
        self.lines.append(line | more)
        return name

    def const(self, name: str, value: Any = None) -> str:
        return self.add(name, "Const") if value is None else self.add(name, "Const", value=value)


@dataclass
class Variant:
    """One variant, as its tables will be written."""

    name: str
    nodes: Nodes
    targets: Sequence[dict[str, Any]]
    replace: Mapping[str, str]
    through: Sequence[str] = ()
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
