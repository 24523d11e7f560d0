"""Opens Keras' files: weights and whole models in HDF5, `.keras` archives, and the metadata of SavedModels."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tfsmith.errors import CorruptFileError, LimitError, TfsmithError, UnsupportedError, WrongFileError
from tfsmith.formats.keras.config import (
    layer_name,
    layers_by_names,
    layers_by_objects,
    layers_by_paths,
    layers_by_variables,
    parse_json,
    path_names,
    tree_of,
)
from tfsmith.formats.keras.hdf5 import Hdf5, open_hdf5
from tfsmith.formats.tensors.npz import BAD_ARCHIVE, stored_member
from tfsmith.ir.keras import KerasFile, Layer
from tfsmith.ir.model import Model, training_names
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.limits import MAX_DEFLATE_RATIO, MAX_SMALL_MESSAGE
from tfsmith.records import record, replace
from tfsmith.storage import Span, SpanFile, open_file

__all__ = [
    "ARCHIVE_CONFIG",
    "ARCHIVE_METADATA",
    "ARCHIVE_WEIGHTS",
    "keras_of",
    "open_keras_archive",
    "open_keras_folder",
    "open_keras_h5",
    "with_variables",
]

ARCHIVE_CONFIG, ARCHIVE_METADATA, ARCHIVE_WEIGHTS = "config.json", "metadata.json", "model.weights.h5"
_OPTIMIZER = "optimizer_weights"
_MOST_MEMBERS = 10_000
_REMEDY = "the file is cut off or damaged; fetch it again"


def open_keras_h5(span: Span, path: Path) -> Model:
    """Opens weights or a whole model in HDF5: of Keras 1, 2, tf.keras (a group for each layer), or Keras 3 (by place).

    Reads structure; values stay in the file.

    Raises:
        WrongFileError: It is HDF5, but not Keras'.
        UnsupportedError: h5py is missing, or the file uses what Keras never does.
        CorruptFileError: It is damaged.
    """
    found = open_hdf5(span)
    root = next((place for place in ("model_weights", "") if found.texts(place, "layer_names") is not None), None)
    if root is None and found.text("", "nb_layers"):
        return _model(_numbered(found, span), path)
    if root is not None:
        return _model(_legacy(found, root, span), path)
    if any(f"/{name}".rpartition("/")[0].endswith("/vars") for name in found.tensors):
        return _model(_placed(found, None, KerasFile("weights.h5", "Keras weights (.weights.h5)")), path)
    what = "this is an HDF5 file, but neither Keras' weights nor a model"
    raise WrongFileError(what, path=path, remedy="pass what model.save or model.save_weights wrote")


def open_keras_archive(span: Span, path: Path) -> Model:
    """Opens a `.keras` archive. Reads its JSON and the structure of its weights; values stay in the file.

    Weights that are compressed, which Keras does not do, are unpacked into a temporary file.

    Raises:
        CorruptFileError: It is damaged, or claims more than it can hold.
        UnsupportedError: h5py is missing, or the archive is encrypted.
    """
    archive = _Archive.of(span)
    texts = archive.text(ARCHIVE_CONFIG), archive.text(ARCHIVE_METADATA) if archive.has(ARCHIVE_METADATA) else "{}"
    if not archive.has(ARCHIVE_WEIGHTS):
        what = f"the archive has no {ARCHIVE_WEIGHTS}"
        remedy = "Keras keeps weights in several files or as .npz only when asked to; save the model again without"
        raise UnsupportedError(what, path=path, remedy=remedy)
    return _whole(texts, archive.span_of(ARCHIVE_WEIGHTS), span.name, path)


def open_keras_folder(folder: Path) -> Model:
    """Opens what was a `.keras` archive before somebody unpacked it. Reads no values.

    Raises:
        CorruptFileError: It is damaged.
        UnsupportedError: h5py is missing.
    """

    def text(name: str) -> str:
        span = open_file(folder / name)
        if len(span) > MAX_SMALL_MESSAGE:
            raise LimitError(f"it has {len(span)} bytes, more than any real one", path=span.name, remedy=_REMEDY)
        return span.tobytes().decode("utf-8", "replace")

    texts = text(ARCHIVE_CONFIG), text(ARCHIVE_METADATA) if (folder / ARCHIVE_METADATA).is_file() else "{}"
    model = _whole(texts, open_file(folder / ARCHIVE_WEIGHTS), str(folder), folder)
    files = tuple(folder / name for name in (ARCHIVE_CONFIG, ARCHIVE_METADATA, ARCHIVE_WEIGHTS))
    return replace(model, origins=tuple(file for file in files if file.is_file()))


def _whole(texts: tuple[str, str], weights: Span, name: str, path: Path) -> Model:
    """A model of its config, its metadata and its weights."""
    config = parse_json(texts[0], name, ARCHIVE_CONFIG)
    metadata = parse_json(texts[1], name, ARCHIVE_METADATA)
    about = KerasFile(
        "keras",
        "Keras model (.keras)",
        keras_version=str(metadata.get("keras_version", "")),
        saved=str(metadata.get("date_saved", "")),
        training=_training(config.get("compile_config")),
        config=texts[0],
    )
    return _model(_placed(open_hdf5(weights), config, about), path)


def _model(weights: Weights, path: Path) -> Model:
    weights = replace(weights, files=(path,), path=path)
    return Model("checkpoint", (), weights, path=path, keras=weights.keras)


def _legacy(found: Hdf5, root: str, span: Span) -> Weights:
    """The layout of Keras 1 and 2: a group for each layer, whose weights have the names of their variables."""
    tensors: dict[str, Tensor] = {}
    places: dict[str, str] = {}
    groups: dict[str, list[str]] = {}
    names: dict[str, tuple[str, ...]] = {}

    def take(group: str, label: str, scope: str) -> list[str]:
        keys: list[str] = []
        for name in found.texts(group, "weight_names") or ():
            place = f"{group}/{name}" if group else name
            if place not in found.tensors:
                what = f"the weight {name[:80]!r} is listed, but is not there"
                raise CorruptFileError(what, path=span.name, where=f"layer {label!r}", remedy=_REMEDY)
            plain = name.removesuffix(":0")
            key = f"{scope}{plain}"
            if key in tensors:  # layers of two models inside may share a name; their groups do not
                key = f"{scope}{label}/{plain}"
            if key in tensors:
                raise CorruptFileError("two weights have one name", path=span.name, where=f"{key!r}", remedy=_REMEDY)
            tensors[key], places[key] = found.tensors[place], place
            keys.append(key)
        return keys

    listed = found.texts(root, "layer_names") or ()
    for layer in dict.fromkeys((*listed, "top_level_model_weights")):
        place = f"{root}/{layer}" if root else layer
        if place in found.groups:
            groups[layer] = take(place, layer, "")
        elif layer in listed:
            what = f"the layer {layer[:80]!r} is listed, but is not there"
            raise CorruptFileError(what, path=span.name, remedy=_REMEDY)
    if not groups.get("top_level_model_weights"):
        groups.pop("top_level_model_weights", None)
    optimizer = take(_OPTIMIZER, "optimizer", f"{_OPTIMIZER}/") if _OPTIMIZER in found.groups else []
    config_text = found.text("", "model_config")
    config = parse_json(config_text, span.name, "model_config") if config_text else None
    training_text = found.text("", "training_config")
    training = parse_json(training_text, span.name, "training_config") if training_text else None
    about = KerasFile(
        "h5",
        "Keras model (.h5)" if config is not None else "Keras weights (.h5)",
        keras_version=found.text("", "keras_version") or found.text(root, "keras_version"),
        backend=found.text("", "backend") or found.text(root, "backend"),
        model_class="" if config is None else str(config.get("class_name", "")),
        model_name="" if config is None else layer_name(config),
        layers=layers_by_names(config, groups),
        optimizer=tuple(optimizer),
        training=_training(training),
        config=config_text,
        places=places,
        writer=_writer(found),
    )
    return Weights(tensors, _metadata(found), names=names, keras=about)


def _numbered(found: Hdf5, span: Span) -> Weights:
    """The first layout of Keras: `layer_0/param_0`, with the numbers of layers and of their weights."""
    tensors: dict[str, Tensor] = {}
    layers: list[Layer] = []
    for number in range(_count(found.text("", "nb_layers"), span)):
        place = f"layer_{number}"
        keys = [f"{place}/param_{one}" for one in range(_count(found.text(place, "nb_params") or "0", span))]
        missing = [key for key in keys if key not in found.tensors]
        if missing:
            raise CorruptFileError(f"the weight {missing[0]!r} is not there", path=span.name, remedy=_REMEDY)
        tensors |= {key: found.tensors[key] for key in keys}
        layers.append(Layer(place, weights=tuple(keys)))
    about = KerasFile("h5", "Keras weights (.h5), numbered", layers=tuple(layers), places={key: key for key in tensors})
    return Weights(tensors, keras=about)


def _count(text: str, span: Span) -> int:
    if not text.isdecimal() or int(text) > 100_000:
        raise CorruptFileError(f"{text[:40]!r} is no number of layers or weights", path=span.name, remedy=_REMEDY)
    return int(text)


def _placed(found: Hdf5, config: Mapping[str, Any] | None, about: KerasFile) -> Weights:
    """The layout of Keras 3: weights are numbered, and lie where their layer is in the model."""
    optimizer = tuple(name for name in found.tensors if name.startswith("optimizer/"))
    keys = [name for name in found.tensors if name not in set(optimizer)]
    labels = {
        place.removesuffix("/vars"): found.text(place, "name") for place in found.groups if found.text(place, "name")
    }
    weights = [key for key in keys if not key.startswith("metrics/")]
    layers = layers_by_paths(config, weights, labels)
    done = replace(
        about,
        model_class="" if config is None else str(config.get("class_name", "")),
        model_name=labels.get("vars", "") if config is None else layer_name(config),
        layers=layers,
        optimizer=optimizer,
        places={name: name for name in found.tensors},
        writer=_writer(found),
    )
    names = {} if config is None else path_names(config, layers)
    return Weights(dict(found.tensors), _metadata(found), names=names, keras=done)


def _writer(found: Hdf5) -> str:
    version = found.text("", "tfsmith_version")
    return f"tfsmith {version}" if version else ""


def _metadata(found: Hdf5) -> Mapping[str, str]:
    try:
        kept = json.loads(found.text("", "tfsmith_metadata") or "{}")
    except (ValueError, RecursionError):
        return {}
    is_plain = isinstance(kept, dict) and all(isinstance(value, str) for value in kept.values())
    return kept if is_plain else {}


def _training(found: Any) -> Mapping[str, Any] | None:
    return found if isinstance(found, dict) and found else None


def keras_of(model: Model) -> KerasFile | None:
    """What Keras knows of a model: of its own file, or of a SavedModel that it wrote; None for all others.

    Raises:
        CorruptFileError: The metadata beside a SavedModel cannot be read.
    """
    if model.keras is not None or model.kind != "saved_model":
        return model.keras
    from tfsmith.formats.oddities import keras_layers  # of SavedModels alone

    roots: list[dict[str, Any]] = []
    parts: dict[str, dict[str, Any]] = {}
    for place, text in keras_layers(model):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "class_name" in found:
            parts[place] = found
            if place == "root":
                roots.append(found)
    if not roots:
        return None
    root = roots[0]
    name = str(root.get("name", ""))
    config = {"class_name": root.get("class_name", ""), "config": root.get("config")}
    layers = tree_of(config) or layers_by_objects(parts)
    return KerasFile(
        "saved_model",
        "SavedModel of Keras",
        keras_version=str(root.get("keras_version", "")),
        backend=str(root.get("backend", "")),
        model_class=str(root.get("class_name", "")),
        model_name=name,
        layers=layers,
        training=_training(root.get("training_config")),
        config=json.dumps(config),
    )


def with_variables(keras: KerasFile, names: Mapping[str, tuple[str, ...]]) -> KerasFile:
    """A SavedModel's layers with their weights, by the names of its variables.

    Args:
        keras: What the metadata says.
        names: The names of the variables, by their keys in the checkpoint.
    """
    plain = {key: name for key, (name, *_) in names.items() if not training_names([key])}
    return replace(keras, layers=layers_by_variables(keras.layers, plain))


@record(eq=False)
class _Archive:
    """A zip archive whose members are looked at one by one."""

    span: Span
    archive: zipfile.ZipFile
    members: Mapping[str, zipfile.ZipInfo]

    @staticmethod
    def of(span: Span) -> _Archive:
        """Opens an archive; reads its directory."""
        try:
            archive = zipfile.ZipFile(SpanFile(span))
        except BAD_ARCHIVE as error:
            raise CorruptFileError(f"no sound zip archive ({error})", path=span.name, remedy=_REMEDY) from error
        infos = archive.infolist()
        if len(infos) > _MOST_MEMBERS:
            raise LimitError(f"the archive has {len(infos)} files", path=span.name, remedy="do not trust the file")
        members = {info.filename: info for info in infos}
        if len(members) != len(infos):
            what = "a file is in the archive twice, so that two readers may see two models"
            raise CorruptFileError(what, path=span.name, remedy="do not trust the file")
        return _Archive(span, archive, members)

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return name in self.members

    def _problem(self, name: str, what: str, kind: type[TfsmithError] = CorruptFileError) -> TfsmithError:
        return kind(what, path=self.span.name, where=name, remedy=_REMEDY)

    def _checked(self, name: str) -> zipfile.ZipInfo:
        if name not in self.members:
            raise self._problem(name, "the archive has no such file")
        info = self.members[name]
        if info.flag_bits & 1:
            raise self._problem(name, "it is encrypted", UnsupportedError)
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise self._problem(name, f"compression method {info.compress_type} is not known", UnsupportedError)
        ratio = 1 if info.compress_type == zipfile.ZIP_STORED else MAX_DEFLATE_RATIO
        if info.file_size > info.compress_size * ratio + 64:
            raise self._problem(name, f"{info.compress_size} bytes cannot hold {info.file_size}", LimitError)
        return info

    def text(self, name: str) -> str:
        """A small file as text."""
        info = self._checked(name)
        if info.file_size > MAX_SMALL_MESSAGE:
            raise self._problem(name, f"it has {info.file_size} bytes, more than any real one", LimitError)
        return b"".join(self._chunks(info)).decode("utf-8", "replace")

    def span_of(self, name: str) -> Span:
        """A file as it lies in the archive; a compressed one is unpacked into a temporary file."""
        info = self._checked(name)
        if info.compress_type == zipfile.ZIP_STORED:
            found = stored_member(self.span, info)
            if found is None:
                raise self._problem(name, "the archive's directory does not fit it")
            return found
        descriptor, place = tempfile.mkstemp(suffix=".h5")
        try:
            with os.fdopen(descriptor, "wb") as file:
                for chunk in self._chunks(info):
                    file.write(chunk)
            return open_file(place)
        finally:
            Path(place).unlink()

    def _chunks(self, info: zipfile.ZipInfo) -> Iterator[bytes]:
        """The bytes of a file, unpacked; never more than the directory says."""
        left = info.file_size
        try:
            with self.archive.open(info) as file:
                while data := file.read(min(1 << 18, left + 1)):
                    left -= len(data)
                    if left < 0:
                        raise self._problem(info.filename, f"it is larger than the {info.file_size} bytes it claims")
                    yield data
        except BAD_ARCHIVE as error:
            raise self._problem(info.filename, f"it cannot be unpacked ({error})") from error
