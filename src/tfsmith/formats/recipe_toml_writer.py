"""Writes a recipe in its readable form; see `tfsmith.formats.recipe_toml`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from tfsmith.formats.recipe_toml import attr_kind, usually_commutative
from tfsmith.ir.attr import Attr
from tfsmith.ir.literals import literal_of, shortest
from tfsmith.ir.node import CONTROL, Endpoint
from tfsmith.ir.recipe import ConstantQuery, Expression, NodeQuery, Query, Recipe, Repeat, TargetNode, Variant

__all__ = ["recipe_toml"]

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WIDTH = 100
"""A longer list is written with one value on a line."""


def recipe_toml(recipe: Recipe) -> str:
    """The text of a recipe, which reads as the same recipe again (but for the files that it was made from).

    Raises:
        UnsupportedError: It puts in a constant that is too large to be written out.
    """
    lines = ["[recipe]", _pair("name", recipe.name)]
    lines += [_pair("description", recipe.description)] if recipe.description else []
    for variant in recipe.variants:
        lines += _variant(variant)
    return "\n".join(lines) + "\n"


def _variant(variant: Variant) -> list[str]:
    lines = ["", "[[variant]]", _pair("name", variant.name), *_head(variant.query)]
    lines += [_pair("require", [one.text for one in variant.require])] if variant.require else []
    for node in variant.query.nodes:
        lines += ["", "[[variant.node]]", *_node(node)]
    lines += _names(variant.query, "[variant.names]")
    if variant.repeat is not None:
        lines += _repeat(variant.repeat)
    for target in variant.targets:
        lines += ["", "[[variant.target]]", *_target(target)]
    lines += ["", "[variant.replace]"]
    return lines + [f"{_string(_text(old))} = {_string(str(new))}" for old, new in variant.outputs.items()]


def _head(query: Query) -> list[str]:
    lines = [_pair("inputs", list(query.inputs))] if query.inputs else []
    lines.append(_pair("outputs", [_text(output) for output in query.outputs]))
    return lines + ([_pair("through", list(query.through))] if query.through else [])


def _repeat(repeat: Repeat) -> list[str]:
    lines = ["", "[variant.repeat]", _pair("carry", {key: _text(output) for key, output in repeat.carry.items()})]
    lines += [_pair("shared", list(repeat.shared))] if repeat.shared else []
    lines += [_pair("least", repeat.least)] if repeat.least != 1 else []
    if repeat.before is None:
        return lines
    links = {key: _text(output) for key, output in repeat.links.items()}
    lines += ["", "[variant.before]", *_head(repeat.before), _pair("links", links)]
    for node in repeat.before.nodes:
        lines += ["", "[[variant.before.node]]", *_node(node)]
    return lines + _names(repeat.before, "[variant.before.names]")


def _names(query: Query, title: str) -> list[str]:
    return ["", title, *(_pair(key, rule.text) for key, rule in query.names.items())] if query.names else []


def _node(node: NodeQuery) -> list[str]:
    ops: Any = node.ops[0] if len(node.ops) == 1 else list(node.ops)
    lines = [_pair("name", node.name), _pair("op", ops)]
    lines += [_pair("inputs", [_text(one) for one in node.inputs])] if node.inputs else []
    attrs = {key: literal_of(value, attr_kind(key, node.ops)) for key, value in node.attrs.items()}
    lines += [_pair("attrs", attrs)] if attrs else []
    lines += [_pair("value", _constant(node.constant))] if node.constant is not None else []
    usual = usually_commutative(node.ops, node.inputs, node.attrs)
    return lines + ([] if usual == node.is_commutative else [_pair("commutative", node.is_commutative)])


def _constant(constant: ConstantQuery) -> Any:
    values = [one.decode("utf-8", "replace") if isinstance(one, bytes) else _number(one) for one in constant.values]
    if constant.shape is None and constant.tolerance == 1e-6:
        return values[0] if len(values) == 1 else values
    table: dict[str, Any] = {"values": values}
    if constant.shape is not None:
        table["shape"] = list(constant.shape)
    if constant.tolerance != 1e-6:
        table["tolerance"] = constant.tolerance
    return table


def _number(value: float) -> float:
    """Constants are mostly of 32 bits; whoever compares them allows for more than what is cut off here."""
    return shortest(value) if isinstance(value, float) and abs(value) < 1e38 else value


def _target(target: TargetNode) -> list[str]:
    lines = [_pair("name", target.name), _pair("op", target.op)]
    lines += [_pair("inputs", list(target.inputs))] if target.inputs else []
    attrs = {key: _attr(value, key, target.op) for key, value in target.attrs.items()}
    lines += [_pair("attrs", attrs)] if attrs else []
    lines += [_pair("device", target.device)] if target.device else []
    lines += [_pair("rename", target.rename)] if target.rename != "{scope}/{name}" else []
    lines += [_pair("fold", True)] if target.fold else []
    return lines + ([_pair("output_args", list(target.output_args))] if target.output_args else [])


def _attr(value: Attr | Expression, name: str, op: str) -> Any:
    return f"={value.text}" if isinstance(value, Expression) else literal_of(value, attr_kind(name, (op,)))


def _text(endpoint: Endpoint) -> str:
    if endpoint.output == CONTROL:
        return f"^{endpoint.node}"
    return f"{endpoint.node}:{endpoint.output}" if endpoint.output else endpoint.node


def _pair(key: str, value: Any) -> str:
    text = _value(value)
    if isinstance(value, list) and len(text) > _WIDTH:
        text = "[\n" + "".join(f"    {_value(item)},\n" for item in value) + "]"
    return f"{_key(key)} = {text}"


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _string(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    return str(value)


def _float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return repr(value)  # also "inf" and "-inf"


def _string(text: str) -> str:
    """A basic string: TOML escapes as JSON does, and also wants the delete character escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
