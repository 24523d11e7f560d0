"""Graphs and marks as Model Explorer takes them: plain data in the form of its JSON files.

Its ids are our names: a graph is called by its function, or `graph`; a node by its name. So marks find their nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tfsmith.ir.node import CONTROL
from tfsmith.view.page import Overlay
from tfsmith.view.page_data import GRAPH, node_inputs

__all__ = ["GRAPH_ID", "explorer_graphs", "explorer_node_data"]

GRAPH_ID = "graph"
"""What the graph itself is called; a function is called by its own name."""
_CONTROL_PORT = "control"


def explorer_graphs(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A model as graphs: one for the graph, one for each function; of a checkpoint one of its variables.

    Args:
        data: What `page_data` gave.
    """
    if not data["sheets"]:
        nodes = [_variable(one) for one in data["variables"]]
        return [{"id": "variables", "nodes": nodes, "groupNodeAttributes": {"": _summary(data)}}]
    functions = {sheet["name"] for sheet in data["sheets"]} - {GRAPH}
    graphs: list[dict[str, Any]] = [
        {"id": graph_id(sheet["name"]), "nodes": list(_nodes(sheet, data, functions))} for sheet in data["sheets"]
    ]
    graphs[0]["groupNodeAttributes"] = {"": _summary(data)}
    return graphs


def graph_id(sheet: str) -> str:
    """What a sheet is called in Model Explorer."""
    return sheet or GRAPH_ID


def explorer_node_data(overlay: Overlay) -> dict[str, Any]:
    """The marks of an overlay as node data, by graph: what was measured as numbers, else the kinds as words."""
    found: dict[str, dict[str, Any]] = {}
    for mark in overlay.marks:
        if not mark.node or (overlay.measure and mark.value is None):
            continue
        label, _, color = overlay.kinds[mark.kind]
        value: float | str = label
        if overlay.measure and mark.value is not None:
            value = mark.value * 1e3 if overlay.measure == "seconds" else mark.value
        facts = {"value": value, "bgColor": color, "textColor": "#ffffff"}
        found.setdefault(graph_id(mark.sheet), {}).setdefault(mark.node, facts)
    unit = {"seconds": " (ms)", "difference": " (largest difference)"}.get(overlay.measure, "")
    return {graph: {"name": f"tfsmith {overlay.title}{unit}", "results": results} for graph, results in found.items()}


def _nodes(sheet: Mapping[str, Any], data: Mapping[str, Any], functions: set[str]) -> Iterator[dict[str, Any]]:
    tables = data["tables"]
    names = [*sheet["names"], *sheet["missing"]]
    real = len(sheet["names"])
    for number, (name, sources) in enumerate(zip(sheet["names"], node_inputs(sheet), strict=True)):
        op = tables["ops"][sheet["ops"][number]]
        attrs = tables["attrs"][sheet["attrs"][number]]
        device = tables["devices"][sheet["devices"][number]]
        pairs = [("op", op["name"]), *attrs.items(), *([("device", device)] if device else [])]
        if op["doc"]:
            pairs.append(("documentation", op["doc"]))
        called = [one for one in dict.fromkeys((op["name"], *_functions(attrs))) if one in functions]
        types = [tables["types"][one] for one in sheet["types"][number]]
        yield {
            "id": name,
            "label": op["name"],
            "namespace": name.rpartition("/")[0],
            "subgraphIds": called,
            "attrs": [{"key": key, "value": _text(value)} for key, value in pairs],
            "incomingEdges": [
                {
                    "sourceNodeId": names[source if source >= 0 else real - 1 - source],
                    "sourceNodeOutputId": _CONTROL_PORT if output == CONTROL else str(output),
                    "targetNodeInputId": str(at),
                }
                for at, (source, output) in enumerate(sources)
            ],
            "outputsMetadata": [
                {"id": str(at), "attrs": [{"key": "tensor_shape", "value": _type(one)}]} for at, one in enumerate(types)
            ],
        }
    for name in sheet["missing"]:
        yield {"id": name, "label": "(not in the file)", "namespace": "", "attrs": []}


def _variable(one: Mapping[str, Any]) -> dict[str, Any]:
    name = one.get("variable") or one["name"]
    shape = _type([one["dtype"], one["shape"]])
    attrs = {"name": one["name"], "shape": shape, "bytes": one["bytes"]}
    return {
        "id": one["name"],
        "label": name.rpartition("/")[2] or name,
        "namespace": name.rpartition("/")[0],
        "attrs": [{"key": key, "value": _text(value)} for key, value in attrs.items()],
        "outputsMetadata": [{"id": "0", "attrs": [{"key": "tensor_shape", "value": shape}]}],
    }


def _summary(data: Mapping[str, Any]) -> dict[str, str]:
    summary = data["summary"]
    found = {"kind": summary["title"], "recognised": "; ".join(one["text"] for one in data["networks"])}
    if summary.get("tensorflow_version"):
        found["written by"] = f"TensorFlow {summary['tensorflow_version']}"
    return {key: value for key, value in found.items() if value}


def _functions(value: Any) -> Iterator[str]:
    """The functions that attributes name."""
    if isinstance(value, Mapping):
        if isinstance(value.get("function"), str):
            yield value["function"]
        for one in value.values():
            yield from _functions(one)
    elif isinstance(value, list):
        for one in value:
            yield from _functions(one)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _type(one: Any) -> str:
    dtype, dims = one
    shape = "?" if dims is None else ",".join("?" if size is None or size < 0 else str(size) for size in dims)
    return f"{dtype or '?'}[{shape}]"
