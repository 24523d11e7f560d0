"""The sizes of a model, as `bert_config.json` and its like have them; and weights checked against them."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tfsmith.errors import InvalidModelError, UsageError
from tfsmith.ir.names import nearest
from tfsmith.ir.tensor import Tensor
from tfsmith.weights.map_file import WeightMap
from tfsmith.weights.template import Template

__all__ = ["parse_config", "config_size", "check_shapes"]

_SIZE = re.compile(r"(?:(\d+) *\* *)?([A-Za-z_]\w*)|(\d+)")
_MOST_LAYERS = 100_000
_REMEDY = "pass the config that belongs to these weights"


def parse_config(text: str, label: str) -> dict[str, Any]:
    """Reads a config.

    Raises:
        UsageError: It is no JSON object, or its sizes make no sense.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        remedy = "pass the bert_config.json that came with the checkpoint"
        raise UsageError(f"no sound JSON ({error})", path=label, remedy=remedy) from error
    if not isinstance(found, dict):
        raise UsageError("the config is no JSON object", path=label, remedy="pass a bert_config.json")
    hidden, heads = found.get("hidden_size"), found.get("num_attention_heads")
    if type(hidden) is int and type(heads) is int and heads > 0 and hidden % heads:
        what = f"hidden_size {hidden} does not split into num_attention_heads {heads}"
        raise UsageError(what, path=label, remedy="this is not the config of a trained model")
    return found


def config_size(config: Mapping[str, Any], field: str) -> int:
    """A field of the config that is a size.

    Raises:
        UsageError: It is missing, or is no size.
    """
    if field not in config:
        near = nearest(field, config)
        hint = f"; it has {', '.join(near)}" if near else ""
        raise UsageError(f"the config has no {field!r}{hint}", remedy="pass the config of this model")
    size = config[field]
    most = _MOST_LAYERS if "layers" in field else 2**63 - 1
    if type(size) is not int or not 0 < size <= most:
        raise UsageError(f"the config says {field} is {size!r}, which is no size", remedy="correct the config")
    return size


def check_shapes(
    weights: Mapping[str, Tensor], found: WeightMap, config: Mapping[str, Any], resized: Collection[str] = ()
) -> None:
    """Checks each weight that a map has a shape for against the config's sizes. No I/O.

    Args:
        weights: The weights, under the names of the map's source side.
        found: The map.
        config: The sizes.
        resized: Fields that need not fit, because the weights will be padded or cropped to them.

    Raises:
        InvalidModelError: The first weight that does not fit; names it, both shapes, and the config's field.
    """
    for rule in found.rules:
        for source in rule.sources:
            template = Template.of(source)
            for name, tensor in weights.items():
                binding = template.match(name)
                if binding is None:
                    continue
                _check_layers(name, binding, found, config)
                if rule.shape is not None:
                    _check_shape(name, tensor, rule.shape, config, resized)


def _check_layers(name: str, binding: Mapping[str, str], found: WeightMap, config: Mapping[str, Any]) -> None:
    for hole, number in binding.items():
        field = found.layers.get(hole)
        if field is not None and int(number) >= config_size(config, field):
            what = f"it is of layer {number}, but the config says {field} is {config[field]}"
            raise InvalidModelError(what, where=f"weight {name!r}", remedy=_REMEDY)


def _check_shape(
    name: str, tensor: Tensor, shape: Sequence[str], config: Mapping[str, Any], resized: Collection[str]
) -> None:
    dims = tensor.shape.dims or ()
    sizes = [_size(config, word) for word in shape]
    wanted = "[" + ", ".join("?" if size is None else str(size) for size in sizes) + "]"
    if len(dims) != len(sizes):
        what = f"its shape is {tensor.shape}, but the config says {wanted} ({', '.join(shape)})"
        raise InvalidModelError(what, where=f"weight {name!r}", remedy=_REMEDY)
    for dim, size, word in zip(dims, sizes, shape, strict=True):
        if size is None or dim == size or word in resized:
            continue
        field = word.rpartition("*")[2].strip()
        reason = f"{field} is {config[field]}" if field in config else f"one size is always {word}"
        what = f"its shape is {tensor.shape}, but the config says {wanted}: {reason}"
        raise InvalidModelError(what, where=f"weight {name!r}", remedy=_REMEDY)


def _size(config: Mapping[str, Any], word: str) -> int | None:
    if word == "?":
        return None
    found = _SIZE.fullmatch(word)
    if found is None:
        raise UsageError(f"{word!r} is no size", remedy='write a field, "3*field", a number, or "?"')
    return int(found[3]) if found[3] else int(found[1] or 1) * config_size(config, found[2])
