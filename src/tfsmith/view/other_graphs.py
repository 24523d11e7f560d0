"""What is no graph of TensorFlow, as a sheet of the page: the layers of a Keras file, the nodes of an ONNX file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from tfsmith.ir.keras import KerasFile, Layer
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.records import field, record

__all__ = ["OtherNode", "keras_nodes", "other_sheet"]

_LONGEST = 400
_DEEPEST = 60


@record
class OtherNode:
    """A node that is none of TensorFlow's.

    Attributes:
        name: Its name, the only one of its sheet.
        op: What it does.
        inputs: The nodes that it takes, with the number of the output; what is not there is shown as missing.
        kind: "op", "input", "output" or "constant".
        attrs: Its settings.
        types: The dtype and the sizes of what it gives, as far as they are known; -1 for a size that is open.
        key: What its weight is called, if it is one.
    """

    name: str
    op: str
    inputs: Sequence[tuple[str, int]] = ()
    kind: str = "op"
    attrs: Mapping[str, Any] = field(default_factory=dict)
    types: Sequence[tuple[str | None, Sequence[int] | None]] = ()
    key: str | None = None


def other_sheet(nodes: Sequence[OtherNode]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The nodes as the page's columns, and the tables that these are numbers of."""
    numbers = {node.name: number for number, node in enumerate(nodes)}
    tables: dict[str, dict[str, int]] = {"ops": {}, "types": {}, "attrs": {}}
    missing: dict[str, int] = {}

    def number(table: str, value: Any) -> int:
        known = tables[table]
        return known.setdefault(json.dumps(value, default=str), len(known))

    inputs: list[int] = []
    for node in nodes:
        inputs.append(len(node.inputs))
        for source, output in node.inputs:
            inputs += [numbers[source] if source in numbers else -1 - missing.setdefault(source, len(missing)), output]
    sheet = {
        "name": "",
        "names": [node.name for node in nodes],
        "ops": [number("ops", {"name": node.op, "kind": node.kind, "doc": "", "traits": []}) for node in nodes],
        "inputs": inputs,
        "types": [[number("types", [dtype, dims]) for dtype, dims in node.types] for node in nodes],
        "attrs": [number("attrs", {key: _cut(value) for key, value in node.attrs.items()}) for node in nodes],
        "devices": [0] * len(nodes),
        "missing": list(missing),
        "args": 0,
        "rets": 0,
        "outputs": [at for at, node in enumerate(nodes) if node.kind == "output"],
        "keys": {str(at): node.key for at, node in enumerate(nodes) if node.key is not None},
        "scopes": _scopes(nodes),
    }
    return sheet, {name: [json.loads(text) for text in table] for name, table in tables.items()} | {"devices": [""]}


def _scopes(nodes: Sequence[OtherNode]) -> list[str]:
    """The scope of each node, by its name; a constant without one is where all lie that take it."""
    takers: dict[str, list[list[str]]] = {}
    outer = {node.name.rpartition("/")[0] for node in nodes}
    found = {node.name: node.name if node.name in outer else node.name.rpartition("/")[0] for node in nodes}
    for node in nodes:
        for source, _ in node.inputs:
            takers.setdefault(source, []).append(found[node.name].split("/"))
    for node in nodes:
        if node.kind == "constant" and not found[node.name] and node.name in takers:
            same = takewhile(lambda parts: len(set(parts)) == 1, zip(*takers[node.name], strict=False))
            found[node.name] = "/".join(parts[0] for parts in same)
    return [found[node.name] for node in nodes]


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return value if len(text) <= _LONGEST else f"{text[:_LONGEST]} ... ({len(text):,} characters)"


def keras_nodes(keras: KerasFile, tensors: Mapping[str, Tensor]) -> list[OtherNode]:
    """The layers with their weights, connected as the config says; without one, by nothing. No I/O.

    Args:
        keras: What the file says.
        tensors: The weights, `Model.variables`.
    """
    try:
        config = json.loads(keras.config or "{}")
    except ValueError:
        config = {}
    return list(_layers(keras.layers, config, "", tensors, 0))


def _layers(
    layers: Sequence[Layer], config: Any, scope: str, tensors: Mapping[str, Tensor], depth: int
) -> Iterator[OtherNode]:
    named = _configs(config)
    present = {layer.name for layer in layers}
    is_chain = isinstance(config, Mapping) and config.get("class_name") == "Sequential"
    missing = [name for name in named if name not in present]  # layers without weights that the file's tree leaves out
    before = ""
    for layer in (*(Layer(name, str(named[name].get("class_name", ""))) for name in missing), *layers):
        own = named.get(layer.name, {})
        path = f"{scope}{layer.name}"
        sources = list(dict.fromkeys(_inbound(own.get("inbound_nodes"), named, 0)))
        inputs = [(f"{scope}{name}", output) for name, output in sources]
        if is_chain and before and not missing:
            inputs = [(before, 0)]
        weights = [key for key in layer.weights if key in tensors]
        known = tensors.names if isinstance(tensors, Weights) else {}
        names = {key: f"{path}/{(known.get(key) or (key,))[0].rpartition('/')[2]}" for key in weights}
        inputs += [(name, 0) for name in names.values()]
        settings = own.get("config")
        attrs = (
            {key: value for key, value in settings.items() if key != "layers"} if isinstance(settings, Mapping) else {}
        )
        class_name = layer.class_name or str(own.get("class_name", "")) or "layer"
        yield OtherNode(path, class_name, inputs, "input" if class_name == "InputLayer" else "op", attrs)
        for key, name in names.items():
            tensor = tensors[key]
            kind = (tensor.dtype.base.name, tensor.shape.dims)
            yield OtherNode(name, "Weight", (), "constant", {"key": key}, (kind,), key)
        if layer.children and depth < _DEEPEST:
            yield from _layers(layer.children, own, f"{path}/", tensors, depth + 1)
        before = path


def _configs(config: Any) -> dict[str, Mapping[str, Any]]:
    """The configs of the layers of a model, by their names."""
    inner = config.get("config") if isinstance(config, Mapping) else None
    listed: Any = inner.get("layers") if isinstance(inner, Mapping) else inner  # Keras 1 and 2.0 have the list itself
    found: dict[str, Mapping[str, Any]] = {}
    for one in listed if isinstance(listed, list) else ():
        settings = one.get("config") if isinstance(one, Mapping) else None
        name = (
            None
            if settings is None
            else one.get("name") or (settings.get("name") if isinstance(settings, Mapping) else None)
        )
        if isinstance(name, str):
            found[name] = one
    return found


def _inbound(value: Any, siblings: Iterable[str], depth: int) -> Iterator[tuple[str, int]]:
    """The layers that a layer takes: `[name, node, output, ...]` somewhere in it, in Keras 2 and 3 alike."""
    if depth > _DEEPEST:
        return
    if (
        isinstance(value, list)
        and len(value) >= 3
        and isinstance(value[0], str)
        and value[0] in siblings
        and isinstance(value[2], int)
    ):
        yield str(value[0]), value[2]
        return
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for one in inner:
        yield from _inbound(one, siblings, depth + 1)
