"""The facts that `tfsmith show` tells, as plain data: what `--json` prints, and what the text is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any

from tfsmith.ir.attr import Attr, Func
from tfsmith.ir.dtype import DType, dtype_named
from tfsmith.ir.metagraph import Collection
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.shape import UNKNOWN, Shape
from tfsmith.ir.signature import Signature, TensorInfo
from tfsmith.ir.variable_names import OBJECT_GRAPH_KEY, is_optimizer_slot
from tfsmith.view.summary import VARIABLE_OPS, Totals, summarize

__all__ = [
    "summary_facts",
    "signature_facts",
    "variable_facts",
    "op_facts",
    "node_facts",
    "attr_facts",
    "collection_facts",
    "function_facts",
    "shape_facts",
]


def summary_facts(model: Model) -> dict[str, Any]:
    """The summary. Reads structure only."""
    summary = summarize(model)
    facts: dict[str, Any] = {
        "path": None if model.path is None else str(model.path),
        "kind": model.kind,
        "title": summary.title,
        "tensorflow_version": summary.tensorflow_version,
        "tag_sets": [list(tags) for tags in model.tag_sets],
        "tag_set": list(model.meta.tags) if model.has_graph else [],
        "variables": {"from": summary.variables_from, **_totals(summary.variables)},
        "optimizer_slots": _totals(summary.optimizer_slots),
        "checkpoint": None,
    }
    if model.checkpoint is not None:
        found = model.checkpoint
        files = [{"name": path.name, "bytes": path.stat().st_size} for path in found.files]
        missing = [path.name for path in getattr(model.variables, "shards", ()) if not path.exists()]
        facts["checkpoint"] = {
            "prefix": str(found.prefix),
            "version": found.version,
            "step": found.step,
            "files": files,
            "missing": missing,
        }
    if not model.has_graph:
        return facts
    facts["signatures"] = signature_facts(model.signatures)
    facts["graph"] = {
        "producer": summary.producer,
        "frozen": summary.frozen,
        "nodes": summary.node_count,
        "functions": summary.function_count,
        "function_nodes": summary.function_nodes,
        "ops": dict(summary.ops),
        "custom_ops": list(summary.custom_ops),
    }
    facts["constants"] = _totals(summary.constants)
    facts["assets"] = list(summary.assets)
    facts["side_files"] = [side.name for side in model.side_files]
    return facts


def _totals(totals: Totals) -> dict[str, Any]:
    return {
        "count": totals.count,
        "parameters": totals.parameters,
        "bytes": totals.bytes,
        "dtypes": dict(totals.dtypes),
    }


def shape_facts(shape: Shape) -> list[int] | None:
    """A shape as JSON has it: null for an unknown rank, -1 for an unknown dimension."""
    return None if shape.dims is None else list(shape.dims)


def signature_facts(signatures: Mapping[str, Signature]) -> dict[str, Any]:
    """All signatures by key."""
    return {
        key: {
            "method_name": signature.method_name,
            "inputs": {name: _tensor_info(info) for name, info in signature.inputs.items()},
            "outputs": {name: _tensor_info(info) for name, info in signature.outputs.items()},
        }
        for key, signature in signatures.items()
    }


def _tensor_info(info: TensorInfo) -> dict[str, Any]:
    facts: dict[str, Any] = {"dtype": info.dtype.name, "shape": shape_facts(info.shape), "name": info.name}
    if info.encoding != "dense":
        facts["encoding"] = info.encoding
        facts["components"] = {role: _tensor_info(part) for role, part in info.components.items()}
    return facts


def variable_facts(model: Model) -> list[dict[str, Any]]:
    """Every tensor of the checkpoint, by name; without one, every variable of the graph. No values are read."""
    found = {name: tensor for name, tensor in model.variables.items() if name != OBJECT_GRAPH_KEY}
    if found or not model.has_graph:
        rows = [(name, tensor.dtype, tensor.shape) for name, tensor in found.items()]
    else:
        nodes = [node for node in model.graph if node.op in VARIABLE_OPS]
        rows = [(node.name, *_declared(node)) for node in nodes]
    return [
        {
            "name": name,
            "dtype": kind.name,
            "shape": shape_facts(shape),
            "bytes": found[name].nbytes if name in found else (shape.elements or 0) * kind.itemsize,
            "optimizer_slot": is_optimizer_slot(name),
        }
        for name, kind, shape in sorted(rows, key=lambda row: row[0])
    ]


def _declared(node: Node) -> tuple[DType, Shape]:
    """What a variable's node says of its value; a damaged file may say anything."""
    kind, shape = node.get("dtype"), node.get("shape")
    return (
        kind if isinstance(kind, DType) else dtype_named("invalid"),
        shape if isinstance(shape, Shape) else UNKNOWN,
    )


def op_facts(model: Model) -> dict[str, int]:
    """How many nodes of graph and functions each op has, most first."""
    return dict(summarize(model).ops)


def node_facts(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Nodes with ops, inputs and attributes; tensors are told by dtype and shape."""
    return [
        {
            "name": node.name,
            "op": node.op,
            "inputs": list(node.inputs),
            "device": node.device,
            "attrs": {key: attr_facts(attr) for key, attr in sorted(node.attrs.items())},
        }
        for node in nodes
    ]


def attr_facts(attr: Attr) -> Any:
    """The value of an attribute as JSON has it; a tensor is told by dtype and shape."""
    return [_value(item) for item in attr.value] if isinstance(attr.value, tuple) else _value(attr.value)


def _value(value: Any) -> Any:
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Shape):
        return shape_facts(value)
    if isinstance(value, Func):
        return {"function": value.name}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return {"dtype": value.dtype.name, "shape": shape_facts(value.shape)}  # a tensor


def collection_facts(model: Model) -> dict[str, Any]:
    """Every collection with its kind and values; tensors come with dtype and shape where the graph tells them."""
    return {
        key: {"kind": found.kind, "values": _collection_values(model, found)}
        for key, found in model.collections.items()
    }


def _collection_values(model: Model, collection: Collection) -> Sequence[Any]:
    if collection.kind == "node":
        return [_named_tensor(model, name) for name in collection.values]
    messages = collection.messages
    if messages:
        return [_plain(message) for message in messages]
    return [_plain(value) for value in collection.values]


def _named_tensor(model: Model, name: str) -> dict[str, Any]:
    endpoint = parse_input(name)
    node = model.graph.by_name.get(endpoint.node)
    return {"name": name, "op": None if node is None else node.op}


def _float(value: float) -> float | str:
    """JSON has no word for infinities and NaN."""
    return value if isfinite(value) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def function_facts(model: Model) -> list[dict[str, Any]]:
    """Every function of the library with its arguments, results and size. Decodes them all."""
    rows = []
    for name, function in model.graph.library.items():
        signature = function.signature
        rows.append(
            {
                "name": name,
                "inputs": [_arg(arg.name, arg.type, arg.type_attr or arg.type_list_attr) for arg in signature.inputs],
                "outputs": [_arg(arg.name, arg.type, arg.type_attr or arg.type_list_attr) for arg in signature.outputs],
                "nodes": len(function.nodes),
                "stateful": signature.is_stateful,
            }
        )
    return rows


def _arg(name: str, dtype: DType | None, attr: str) -> dict[str, Any]:
    return {"name": name, "dtype": attr if dtype is None else dtype.name}
