"""Writes weights as Keras keeps them: `.h5` (a group for each layer), `.weights.h5` and `.keras` (by place).

h5py makes the structure, with room for the values; these are then streamed into the file, so that memory does not grow
with them.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tfsmith.errors import OutputError, UnsupportedError, UsageError
from tfsmith.formats.keras.config import parse_json, snake_case
from tfsmith.formats.keras.files import ARCHIVE_CONFIG, ARCHIVE_METADATA, ARCHIVE_WEIGHTS
from tfsmith.formats.keras.hdf5 import import_h5py
from tfsmith.ir.keras import KerasFile, Layer
from tfsmith.ir.tensor import Tensor
from tfsmith.storage import Span, explained

__all__ = ["write_h5", "write_keras", "write_weights_h5"]

_MOST_HEADER = 64_512
"""HDF5 keeps at most 64 kB in the attributes of an object; Keras cuts longer lists of names at this size."""
_VERSION = "2.0.0"
"""What files from elsewhere say of Keras: its loaders take files without a version for those of Keras 1."""
_OPTIMIZER = "optimizer_weights/"


def write_h5(path: Path, tensors: Mapping[str, Tensor], keras: KerasFile | None, metadata: Mapping[str, str]) -> None:
    """Writes weights in the layout of Keras 2, which all versions of Keras load.

    Layers, the model's config and the training's are kept where they come from a Keras file and all weights of the
    model are there; else the first word of a name is taken for its layer.

    Raises:
        UnsupportedError: A tensor has no place in the format; or h5py is missing.
        OutputError: The disk refuses.
    """
    h5py = import_h5py()
    optimizer = [key for key in tensors if key.startswith(_OPTIMIZER)]
    if keras is not None and keras.form == "weights.h5":
        what = "a .weights.h5 does not say in which order its layers are, and by their order Keras loads a .h5"
        raise UsageError(what, path=path, remedy="write NAME.weights.h5, NAME.safetensors or NAME.npz")
    if keras is not None and keras.form == "keras":
        optimizer += [key for key in tensors if key.startswith("optimizer/")]
        tensors = {key: one for key, one in tensors.items() if not key.startswith("metrics/")}
    groups = _groups(keras, [key for key in tensors if key not in set(optimizer)])
    is_whole = keras is not None and bool(keras.config) and set(_all_keys(keras.layers)) <= set(tensors)
    room = _Room(h5py, path)
    with explained(path), h5py.File(path, "w") as file:
        root = file.create_group("model_weights") if is_whole else file
        _describe(file, keras, metadata)
        if is_whole:
            _describe(root, keras, {})
        if is_whole and keras is not None:
            file.attrs["model_config"] = keras.config.encode()
            if keras.training is not None and keras.form == "h5":
                file.attrs["training_config"] = json.dumps(dict(keras.training)).encode()
        _names(root, "layer_names", [name for name in groups if name != "top_level_model_weights"])
        for layer, keys in groups.items():
            group = root.create_group(layer)
            _fill(room, group, [(key, _stored(key, key, keras, layer), tensors[key]) for key in keys])
        if optimizer:
            rows = [
                (key, _stored(key, key.removeprefix(_OPTIMIZER), keras, "optimizer_weights"), tensors[key])
                for key in optimizer
            ]
            _fill(room, file.create_group("optimizer_weights"), rows)
    room.write()


def write_weights_h5(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Writes weights as Keras 3 does: each lies at its place in the model, such as `layers/dense/vars/0`.

    Raises:
        UsageError: The names are no such places.
        OutputError: The disk refuses.
    """
    h5py = import_h5py()
    other = next((name for name in tensors if not _is_place(name)), None)
    if other is not None:
        what = f"in .weights.h5 a weight is a place, such as layers/dense/vars/0, and {other[:80]!r} is none"
        raise UsageError(what, path=path, remedy="write NAME.h5, which keeps any names")
    room = _Room(h5py, path)
    with explained(path), h5py.File(path, "w") as file:
        _describe(file, None, metadata, "")
        for name, tensor in tensors.items():
            scope, _, last = name.rpartition("/")
            room.take(file.require_group(scope), last, name, tensor)
    room.write()


def write_keras(path: Path, tensors: Mapping[str, Tensor], keras: KerasFile | None) -> None:
    """Writes a `.keras` archive: the config of the Keras file that the weights come from, and the weights.

    Weights of a `.h5` go to the places of their layers, where each layer has its weights itself.

    Raises:
        UsageError: They come from no Keras model, or from one that Keras 3 would not load so.
        OutputError: The disk refuses.
    """
    if keras is None or not keras.config:
        what = "a .keras file is a whole model, and these weights come without a Keras config"
        remedy = "convert with a Keras file of the same model ({like}); or write NAME.h5 or NAME.safetensors"
        raise UsageError(what, path=path, remedy=remedy)
    placed = dict(tensors) if keras.form == "keras" else _places(path, tensors, keras)
    config = keras.config if keras.form == "keras" else _config(path, keras)
    lost = [key for key in _all_keys(keras.layers) if key not in tensors]
    if lost:
        raise UsageError(f"the weight {lost[0]!r} of the model is missing", path=path, remedy="write NAME.h5 instead")
    inner = path.with_name(f"{path.name}.weights.h5")
    metadata = {"keras_version": keras.keras_version, "date_saved": keras.saved or "1980-01-01@00:00:00"}
    write_weights_h5(inner, placed, {})
    try:
        with explained(path), zipfile.ZipFile(path, "x") as archive:
            for name, text in ((ARCHIVE_METADATA, json.dumps(metadata)), (ARCHIVE_CONFIG, config)):
                archive.writestr(zipfile.ZipInfo(name), text)
            info = zipfile.ZipInfo(ARCHIVE_WEIGHTS)
            with inner.open("rb") as file, archive.open(info, "w", force_zip64=inner.stat().st_size > 1 << 30) as made:
                while data := file.read(1 << 20):
                    made.write(data)
    finally:
        inner.unlink()


def _places(path: Path, tensors: Mapping[str, Tensor], keras: KerasFile) -> dict[str, Tensor]:
    """The weights of a `.h5` at the places that Keras 3 gives them."""
    if not keras.keras_version.startswith("3."):
        what = f"the config is of Keras {keras.keras_version or '1 or 2'}, which a .keras file of Keras 3 cannot hold"
        raise UsageError(what, path=path, remedy="write NAME.h5, which Keras 3 loads; or NAME.safetensors")
    made: dict[str, Tensor] = {}
    _place(path, keras.layers, "", tensors, made)
    kept = [key for key in keras.optimizer if key in tensors]
    return made | {f"optimizer/vars/{number}": tensors[key] for number, key in enumerate(kept)}


_MODULES = {"Sequential": "keras", "Functional": "keras.src.models.functional", "Model": "keras"}


def _config(path: Path, keras: KerasFile) -> str:
    """The config of a `.h5` as an archive has it: with the module of the model's class."""
    found = parse_json(keras.config, str(path), "the config")
    if keras.model_class not in _MODULES:
        what = f"the model's class {keras.model_class!r} is not Keras' own, and a .h5 does not say where it is"
        raise UsageError(what, path=path, remedy="write NAME.h5 or NAME.safetensors")
    return json.dumps({"module": _MODULES[keras.model_class], "registered_name": None, **found})


_FLAT = frozenset(
    {"Dense", "Conv1D", "Conv2D", "Conv3D", "Conv1DTranspose", "Conv2DTranspose", "Conv3DTranspose", "DepthwiseConv1D",
     "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D", "EinsumDense", "BatchNormalization", "LayerNormalization",
     "GroupNormalization", "UnitNormalization", "Embedding", "PReLU", "Normalization"}
)  # fmt: skip
"""Layers that keep their weights themselves, in one order in both layouts."""


def _place(
    path: Path, layers: Sequence[Layer], scope: str, tensors: Mapping[str, Tensor], made: dict[str, Tensor]
) -> None:
    counts: dict[str, int] = {}
    for layer in layers:
        word = snake_case(layer.class_name)
        number = counts[word] = counts.get(word, -1) + 1
        place = f"{scope}layers/{word}{f'_{number}' if number else ''}"
        if layer.children and layer.class_name in ("Sequential", "Functional", "Model"):
            _place(path, layer.children, f"{place}/", tensors, made)
        elif layer.class_name in ("LSTM", "GRU", "SimpleRNN"):
            made |= {f"{place}/cell/vars/{at}": tensors[key] for at, key in enumerate(layer.weights) if key in tensors}
        elif layer.children or (layer.weights and layer.class_name not in _FLAT):
            what = f"where Keras 3 keeps the weights of layer {layer.name!r} ({layer.class_name}) is not known"
            raise UsageError(what, path=path, remedy="write NAME.h5, which Keras 3 loads")
        else:
            made |= {f"{place}/vars/{at}": tensors[key] for at, key in enumerate(layer.weights) if key in tensors}


def _is_place(name: str) -> bool:
    words = name.split("/")
    return len(words) > 1 and words[-2] == "vars" and all(words)


def _all_keys(layers: Iterable[Layer]) -> Iterable[str]:
    return (key for layer in layers for key in layer.all_weights())


def _groups(keras: KerasFile | None, keys: Sequence[str]) -> dict[str, list[str]]:
    """The weights of each layer of the model, in order."""
    left = dict.fromkeys(keys)
    groups: dict[str, list[str]] = {}
    for layer in keras.layers if keras is not None else ():
        own = [key for key in layer.all_weights() if key in left]
        groups[layer.name] = own
        for key in own:
            left.pop(key, None)
    for key in _in_order(left):
        groups.setdefault(key.partition("/")[0], []).append(key)
    return groups


_ORDER = ("depthwise_kernel", "pointwise_kernel", "kernel", "recurrent_kernel", "embeddings", "gamma", "beta", "bias",
          "moving_mean", "moving_variance")  # fmt: skip


def _in_order(keys: Iterable[str]) -> list[str]:
    """Names that come from elsewhere, those of one layer in the order in which Keras makes them and loads them."""
    places = {key: number for number, key in enumerate(keys)}
    scopes: dict[str, int] = {}
    for key, number in places.items():
        scopes.setdefault(key.rpartition("/")[0].replace("/backward_", "/forward_"), number)

    def rank(key: str) -> tuple[int, bool, int, int]:
        scope, _, last = key.rpartition("/")
        known = _ORDER.index(last) if last in _ORDER else len(_ORDER)
        return scopes[scope.replace("/backward_", "/forward_")], "/backward_" in key, known, places[key]

    return sorted(places, key=rank)


def _stored(key: str, name: str, keras: KerasFile | None, group: str) -> str:
    """The name of a weight in its group: as its own file had it; others end in `:0`, as all do in Keras 2."""
    place = (keras.places or {}).get(key) if keras is not None and keras.form == "h5" else None
    inside = "" if place is None else place.removeprefix("model_weights/")
    return inside[len(group) + 1 :] if inside.startswith(f"{group}/") else f"{name}:0"


def _describe(group: Any, keras: KerasFile | None, metadata: Mapping[str, str], version: str = _VERSION) -> None:
    from tfsmith import __version__

    if keras is not None and keras.keras_version:
        version = keras.keras_version
    if version:
        group.attrs["keras_version"] = version.encode()
        group.attrs["backend"] = (keras.backend if keras is not None and keras.backend else "tensorflow").encode()
    if group.name == "/":
        group.attrs["tfsmith_version"] = __version__.encode()
        if metadata:
            group.attrs["tfsmith_metadata"] = json.dumps(dict(metadata), sort_keys=True).encode()


def _names(group: Any, name: str, texts: Sequence[str]) -> None:
    """A list of names as an attribute, cut where it is too long for one."""
    import numpy

    data = [text.encode() for text in texts]
    width = max((len(one) for one in data), default=1)
    if width > _MOST_HEADER:
        raise UnsupportedError(f"a name of {width} bytes is too long for this format", remedy="rename it")
    step = max(1, _MOST_HEADER // max(1, width))
    if len(data) <= step:
        group.attrs[name] = numpy.array(data, f"S{width}") if data else numpy.zeros(0, "S1")
        return
    for number, start in enumerate(range(0, len(data), step)):
        group.attrs[f"{name}{number}"] = numpy.array(data[start : start + step], f"S{width}")


def _fill(room: _Room, group: Any, rows: Sequence[tuple[str, str, Tensor]]) -> None:
    _names(group, "weight_names", [name for _, name, _ in rows])
    for key, name, tensor in rows:
        room.take(group, name, key, tensor)


class _Room:
    """Makes datasets with room for their values, and writes these when the structure is there."""

    def __init__(self, h5py: Any, path: Path) -> None:
        self._h5py = h5py
        self._path = path
        self._waiting: list[tuple[int, str, Tensor]] = []

    def take(self, group: Any, name: str, key: str, tensor: Tensor) -> None:
        """Makes a dataset for a tensor.

        Raises:
            UnsupportedError: It holds no numbers that HDF5 has.
        """
        import numpy

        h5py, kind = self._h5py, tensor.dtype.base
        if not kind.itemsize or (kind.numpy().kind not in "biufc" and kind.name != "bfloat16"):
            remedy = "leave it out ({excluded}), or write .npz"
            raise UnsupportedError(f"Keras' files have no type for {kind}", where=f"tensor {key!r}", remedy=remedy)
        plain = numpy.dtype("V2") if kind.name == "bfloat16" else kind.numpy()
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        plist.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
        plist.set_obj_track_times(False)
        links = h5py.h5p.create(h5py.h5p.LINK_CREATE)
        links.set_create_intermediate_group(True)
        space = h5py.h5s.create_simple(tuple(tensor.shape.dims or ()))
        if not tensor.shape.rank:
            space = h5py.h5s.create(h5py.h5s.SCALAR)
        made = h5py.h5d.create(group.id, name.encode(), h5py.h5t.py_create(plain, logical=True), space, plist, links)
        if kind.name == "bfloat16":
            h5py.Dataset(made).attrs["dtype"] = "bfloat16"
        if tensor.nbytes:
            self._waiting.append((int(made.get_offset()), key, tensor))

    def write(self) -> None:
        """Streams all values into the file, whose structure is complete and closed."""
        with explained(self._path), open(self._path, "r+b", buffering=0) as file:
            for offset, key, tensor in sorted(self._waiting, key=lambda one: one[0]):
                tensor.verify()
                file.seek(offset)
                size = 0
                for part in tensor.parts():
                    for chunk in part.chunks() if isinstance(part, Span) else (part,):
                        size += file.write(chunk)
                if size != tensor.nbytes:
                    what = f"gave {size} bytes, but {tensor.dtype} {tensor.shape} takes {tensor.nbytes}"
                    remedy = "the file that it comes from is damaged"
                    raise OutputError(what, where=f"tensor {key!r}", remedy=remedy)
