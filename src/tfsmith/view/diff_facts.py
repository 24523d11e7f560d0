"""What `tfsmith diff` tells, as plain data: what `--json` prints, and what the text is made from."""

from __future__ import annotations

from typing import Any

from tfsmith.ir.attr import Attr
from tfsmith.ir.differences import (
    AttrChange,
    BodyDifference,
    FunctionDifference,
    NodeChange,
    StructureDifference,
    ValueChange,
)
from tfsmith.ir.node import Node
from tfsmith.ir.shape import Shape
from tfsmith.view.facts import attr_facts, shape_facts

__all__ = ["difference_facts"]


def difference_facts(found: StructureDifference) -> dict[str, Any]:
    """The differences by section, each a list or a dict that is empty where nothing differs. Decodes what differs."""
    return {
        "versions": [_value(change) for change in found.versions],
        "signatures": [_value(change) for change in found.signatures],
        "nodes": _body(found.nodes),
        "functions": {
            "added": list(found.functions_added),
            "removed": list(found.functions_removed),
            "renamed": [
                {"first": one.first, "second": one.second} for one in found.functions if one.first != one.second
            ],
            "changed": [_function(one) for one in found.functions if one.facts or one.attrs or one.body],
            "same": found.function_count - len(found.functions),
        },
        "collections": [_value(change) for change in found.collections],
        "assets": [_value(change) for change in found.assets],
        "others": [_value(change) for change in found.others],
    }


def _value(change: ValueChange) -> dict[str, Any]:
    return {"name": change.name, "first": _plain(change.first), "second": _plain(change.second)}


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, list)):
        return value
    if isinstance(value, Shape):
        return shape_facts(value)
    kind = "list" if isinstance(value, tuple) else "other"
    return attr_facts(Attr(kind, value))


def _body(body: BodyDifference) -> dict[str, Any]:
    return {
        "added": [_node(node) for node in body.added],
        "removed": [_node(node) for node in body.removed],
        "renamed": [{"first": old.name, "second": new.name, "op": new.op} for old, new in body.renamed],
        "changed": [_change(change) for change in body.changed],
        "same": body.same,
    }


def _node(node: Node) -> dict[str, Any]:
    return {"name": node.name, "op": node.op, "inputs": list(node.inputs)}


def _change(change: NodeChange) -> dict[str, Any]:
    first, second = change.first, change.second
    facts: dict[str, Any] = {"name": second.name, "op": second.op}
    if first.op != second.op:
        facts["op"] = {"first": first.op, "second": second.op}
    if first.device != second.device:
        facts["device"] = {"first": first.device, "second": second.device}
    if change.inputs:
        facts["inputs"] = [{"index": one.index, "first": one.first, "second": one.second} for one in change.inputs]
    if change.attrs:
        facts["attrs"] = [_attr(one) for one in change.attrs]
    return facts


def _attr(change: AttrChange) -> dict[str, Any]:
    first, second = (None if one is None else attr_facts(one) for one in (change.first, change.second))
    return {"name": change.name, "first": first, "second": second}


def _function(one: FunctionDifference) -> dict[str, Any]:
    return {
        "name": one.second,
        "facts": [_value(change) for change in one.facts],
        "attrs": [_attr(change) for change in one.attrs],
        "nodes": _body(one.body),
    }
