"""A Keras model's config (JSON) as a tree of layers; and what the weights of Keras' own layers are called."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tfsmith.errors import CorruptFileError, LimitError
from tfsmith.ir.keras import Layer
from tfsmith.limits import MAX_DEPTH, MAX_HDF5_OBJECTS, MAX_SMALL_MESSAGE
from tfsmith.records import replace

__all__ = [
    "layers_by_names",
    "layers_by_objects",
    "layers_by_paths",
    "layers_by_variables",
    "parse_json",
    "path_names",
    "snake_case",
]


def parse_json(text: str, path: str, what: str) -> dict[str, Any]:
    """A JSON object of a Keras file.

    Raises:
        CorruptFileError: It is none.
        LimitError: It is larger than any real one.
    """
    if len(text) > MAX_SMALL_MESSAGE:
        raise LimitError(f"{what} has {len(text)} characters", path=path, remedy="do not trust the file")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        remedy = "the file is damaged; fetch it again"
        raise CorruptFileError(f"{what} is no sound JSON ({str(error)[:80]})", path=path, remedy=remedy) from error
    if not isinstance(found, dict):
        raise CorruptFileError(f"{what} is no JSON object", path=path, remedy="the file is damaged; fetch it again")
    return found


def inner_layers(config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The layers right inside of a layer or model, as their configs."""
    inside = config.get("config")
    if isinstance(inside, list):  # a Sequential of Keras 1 and 2.0
        return [one for one in inside if isinstance(one, dict)]
    if not isinstance(inside, dict):
        return []
    found = inside.get("layers")
    listed = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    single = inside.get("layer")
    return listed + ([single] if isinstance(single, dict) and "class_name" in single else [])


def layer_name(config: Mapping[str, Any]) -> str:
    """The name of a layer, or of a model."""
    inside = config.get("config")
    name = inside.get("name") if isinstance(inside, dict) else None
    return str(name or config.get("name") or "")


def _layer(config: Mapping[str, Any], depth: int, budget: list[int]) -> Layer:
    budget[0] -= 1
    if depth > MAX_DEPTH or budget[0] < 0:
        raise LimitError("the config has more layers than any real one", remedy="do not trust the file")
    inside = config.get("config")
    trainable = inside.get("trainable") if isinstance(inside, dict) else None
    children = tuple(_layer(one, depth + 1, budget) for one in inner_layers(config))
    is_known = isinstance(trainable, bool)
    return Layer(layer_name(config), str(config.get("class_name", "")), (), children, trainable if is_known else None)


def tree_of(config: Mapping[str, Any]) -> tuple[Layer, ...]:
    """The layers of a model, without their weights."""
    budget = [MAX_HDF5_OBJECTS]
    return tuple(_layer(one, 0, budget) for one in inner_layers(config))


def layers_by_names(config: Mapping[str, Any] | None, groups: Mapping[str, Sequence[str]]) -> tuple[Layer, ...]:
    """The layers with their weights, as the older layout keeps them: a group for each layer of the model.

    Args:
        config: The model's config, if there is one.
        groups: The keys of the weights of each layer, by its name.
    """
    known = {layer.name: layer for layer in tree_of(config)} if config is not None else {}
    found: list[Layer] = []
    for name, layer in known.items():
        found.append(_with_weights(layer, groups.get(name, ())))
    for name, keys in groups.items():
        if name not in known and (keys or config is None):
            found.append(Layer(name, weights=tuple(keys)))
    return tuple(found)


def _with_weights(layer: Layer, keys: Sequence[str]) -> Layer:
    """A layer with its weights; those whose names go through a layer inside of it are that layer's."""
    if not layer.children:
        return replace(layer, weights=tuple(keys))
    left = list(keys)
    children = []
    for child in layer.children:
        names = {one.name for one in family(child)} - {""}
        taken = [key for key in left if names & set(key.split("/"))]
        left = [key for key in left if key not in set(taken)]
        children.append(_with_weights(child, taken))
    return replace(layer, weights=tuple(left), children=tuple(children))


def family(layer: Layer) -> Iterator[Layer]:
    """A layer, and all that are inside of it."""
    yield layer
    for child in layer.children:
        yield from family(child)


def layers_by_variables(layers: Sequence[Layer], names: Mapping[str, str]) -> tuple[Layer, ...]:
    """The layers with their weights, as the names of variables show them: `inner/dense/kernel` is of the layer `dense`.

    Args:
        layers: The layers, without weights.
        names: The names of the variables, by the keys of the weights.
    """
    homes: dict[str, str] = {layer.name: layer.name for layer in layers}
    for layer in layers:
        for one in family(layer):
            homes.setdefault(one.name, layer.name)
    groups: dict[str, dict[str, str]] = {}
    for key, name in names.items():
        home = next((homes[word] for word in name.split("/") if word in homes), None)
        if home is not None:
            groups.setdefault(home, {})[name] = key
    return tuple(_keyed(_with_weights(layer, list(groups.get(layer.name, {}))), groups) for layer in layers)


def _keyed(layer: Layer, groups: Mapping[str, Mapping[str, str]], top: str = "") -> Layer:
    """A layer whose weights are keys in place of names, in the order that Keras has them in."""
    top = top or layer.name
    order = _VARIABLES.get(layer.class_name, ())
    known = {word: at for at, word in enumerate(order)}
    own = sorted(layer.weights, key=lambda name: known.get(name.rpartition("/")[2], len(known)))
    children = tuple(_keyed(child, groups, top) for child in layer.children)
    return replace(layer, weights=tuple(groups[top][name] for name in own), children=children)


def layers_by_objects(parts: Mapping[str, Mapping[str, Any]]) -> tuple[Layer, ...]:
    """The layers of a model of the user's own class, as a SavedModel keeps them: by the attributes that hold them.

    Args:
        parts: What Keras kept of each object, by its path, such as `root.encoder.dense`.
    """
    found: dict[str, list[str]] = {}
    layers = {place for place, one in parts.items() if "trainable" in one or place == "root"}
    for place in layers - {"root"}:
        above = place.rpartition(".")[0]
        while above and above not in layers:
            above = above.rpartition(".")[0]
        found.setdefault(above, []).append(place)

    def made(place: str, depth: int) -> Layer:
        if depth > MAX_DEPTH:
            raise LimitError("the metadata has more layers than any real one", remedy="do not trust the file")
        one = parts[place]
        children = tuple(made(inner, depth + 1) for inner in sorted(found.get(place, ())))
        trainable = one.get("trainable")
        is_known = isinstance(trainable, bool)
        name = str(one.get("name") or place.rpartition(".")[2])
        return Layer(name, str(one.get("class_name", "")), (), children, trainable if is_known else None)

    return tuple(made(place, 0) for place in sorted(found.get("root", ())))


_FIRST = re.compile(r"(.)([A-Z][a-z0-9]+)")
_SECOND = re.compile(r"([a-z])([A-Z])")


def snake_case(name: str) -> str:
    """A class as Keras 3 calls it in files: `Conv2D` is `conv2d`, `LayerNormalization` `layer_normalization`."""
    plain = re.sub(r"\W+", "", name)
    return _SECOND.sub(r"\1_\2", _FIRST.sub(r"\1_\2", plain)).lower()


def layers_by_paths(
    config: Mapping[str, Any] | None, keys: Iterable[str], names: Mapping[str, str]
) -> tuple[Layer, ...]:
    """The layers with their weights, as Keras 3 keeps them: by their place in the model.

    Args:
        config: The model's config, if there is one.
        keys: The paths of all weights that are not an optimizer's.
        names: The names that the file gives to places.
    """
    left = dict.fromkeys(keys)
    found = list(_placed(tree_of(config), "", left)) if config is not None else []
    return (*found, *_by_words(left, names))


def _placed(layers: Sequence[Layer], scope: str, left: dict[str, None]) -> Iterator[Layer]:
    """Layers with their weights. Each place is the class, with a number from the second one of a class on."""
    counts: dict[str, int] = {}
    for layer in layers:
        word = snake_case(layer.class_name)
        number = counts[word] = counts.get(word, -1) + 1
        place = f"{scope}layers/{word}{f'_{number}' if number else ''}/"
        children = tuple(_placed(layer.children, place, left)) if f"{place}layers/" in "\n".join(left) else ()
        own = tuple(key for key in left if key.startswith(place))
        for key in own:
            del left[key]
        yield replace(layer, weights=_in_order(own), children=children)


def _in_order(keys: Iterable[str]) -> tuple[str, ...]:
    """Numbers by their value: 2 before 10."""
    return tuple(
        sorted(keys, key=lambda key: [(int(word), "") if word.isdecimal() else (-1, word) for word in key.split("/")])
    )


def _by_words(keys: Iterable[str], names: Mapping[str, str]) -> Iterator[Layer]:
    """Layers as the places show them, where no config tells more."""
    groups: dict[str, list[str]] = {}
    for key in _in_order(keys):
        groups.setdefault(key.rpartition("/vars/")[0] or key.rpartition("/")[0], []).append(key)
    for place, own in groups.items():
        shown = "/".join(word for word in place.split("/") if word not in ("layers", "_layer_checkpoint_dependencies"))
        yield Layer(names.get(place) or shown or "(model)", "", tuple(own))


_KERNEL = ("kernel", "bias")
_NORM = ("gamma", "beta")
_RNN = ("kernel", "recurrent_kernel", "bias")
_VARIABLES = MappingProxyType(
    {
        **dict.fromkeys(("Dense", "Conv1D", "Conv2D", "Conv3D", "EinsumDense", "DepthwiseConv1D"), _KERNEL),
        **dict.fromkeys(("Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "DepthwiseConv2D"), _KERNEL),
        **dict.fromkeys(("SeparableConv1D", "SeparableConv2D"), ("depthwise_kernel", "pointwise_kernel", "bias")),
        "BatchNormalization": (*_NORM, "moving_mean", "moving_variance"),
        **dict.fromkeys(("LayerNormalization", "GroupNormalization"), _NORM),
        "Embedding": ("embeddings",),
        "Normalization": ("mean", "variance", "count"),
        "PReLU": ("alpha",),
        **dict.fromkeys(("LSTM", "GRU", "SimpleRNN"), _RNN),
    }
)
"""What the variables of Keras' own layers are called, in their order."""
_WITHOUT = MappingProxyType({"bias": "use_bias", "gamma": "scale", "beta": "center"})


def path_names(config: Mapping[str, Any], layers: Sequence[Layer]) -> dict[str, tuple[str, ...]]:
    """What weights that Keras 3 knows by numbers are called: `layers/dense/vars/0` is `first/kernel`.

    Args:
        config: The model's config.
        layers: Its layers with their weights.
    """
    found: dict[str, tuple[str, ...]] = {}
    for settings, layer in zip(inner_layers(config), layers, strict=False):
        if layer.children:
            found |= path_names(settings, layer.children)
            continue
        inside = settings.get("config")
        inside = inside if isinstance(inside, dict) else {}
        words = [word for word in _VARIABLES.get(layer.class_name, ()) if inside.get(_WITHOUT.get(word, ""), True)]
        if len(words) != len(layer.weights):
            continue
        # The variables of a recurrent layer are its cell's, and a `.h5` calls them so.
        scopes = (layer.name, *((f"{layer.name}/{snake_case(layer.class_name)}_cell",) if words == [*_RNN] else ()))
        for key, word in zip(layer.weights, words, strict=True):
            found[key] = tuple(f"{scope}/{word}" for scope in scopes)
    return found
