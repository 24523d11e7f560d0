"""F4: The weights alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.api.files import load, load_with
from tfsmith.errors import NotFoundInModelError, UsageError, WrongFileError
from tfsmith.ir.model import Model
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.weights import Weights
from tfsmith.storage.span import open_file
from tfsmith.weights.compare import Comparison
from tfsmith.weights.compare import compare_weights as compare
from tfsmith.weights.mapping import Mapped, apply_map, check_shapes, parse_config
from tfsmith.weights.maps import WeightMap, builtin_map, parse_map
from tfsmith.weights.source import select_weights, weights_of

if TYPE_CHECKING:
    from tfsmith.formats.kinds import As

__all__ = ["load_weights", "save_weights", "compare_weights", "map_weights", "load_bert"]


def load_weights(
    source: Model | str | os.PathLike[str] | bytes | Any,
    *,
    match: Sequence[str] = (),
    excluded: Sequence[str] = (),
    training: bool = True,
    constants: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    step: int | None = None,
) -> Weights:
    """The weights of any model, as a mapping from names to tensors that are read when asked for. Needs no graph.

    Args:
        source: A model, or what `load` takes: a checkpoint, a SavedModel, a `.meta` with its checkpoint, a frozen graph
            (whose constants that were variables count), a `.safetensors` file or its index, an `.npz`.
        match: Globs of names to take; all by default.
        excluded: Globs of names to leave out.
        training: Whether to keep what only training needs: slots of optimizers, the global step.
        constants: Whether to take all constants of a graph, whatever they were.
        checkpoint: The checkpoint of the graph, when it does not lie beside it.
        step: Which checkpoint of a folder; the latest by default.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    if isinstance(source, (str, os.PathLike)):
        model = load(source, checkpoint=checkpoint, step=step)
    else:
        model = load_with(source, checkpoint)
    found = weights_of(model, constants=constants)
    return select_weights(found, match, excluded, training=training)


def save_weights(
    weights: Mapping[str, Tensor],
    path: str | os.PathLike[str],
    *,
    format: As | None = None,
    metadata: Mapping[str, str] | None = None,
    max_shard_bytes: int | None = None,
    inputs: Iterable[str | os.PathLike[str]] = (),
    force: bool = False,
) -> tuple[Path, ...]:
    """Writes weights, whole or not at all. Streams: memory does not grow with them.

    Args:
        weights: Tensors by name; `load_weights` gives them.
        path: `NAME.safetensors`, `NAME.npz`, or `NAME.ckpt`: a checkpoint that TensorFlow restores by names.
        format: "safetensors", "npz" or "checkpoint", whatever the name says.
        metadata: What to store beside them, as text by key, on top of what their own file said. Not in checkpoints.
        max_shard_bytes: For safetensors: begin another file where one would hold more; an index names them all.
        inputs: What else was read, such as a map; none of it is replaced.
        force: Whether to replace what is there.

    Returns:
        The files that were written.

    Raises:
        UnsupportedError: A tensor has no place in the format.
        OutputError: It cannot be written there; what was there before is untouched.
    """
    from tfsmith.formats.kinds import WEIGHT_KINDS, destination_of  # looking should not load what writes
    from tfsmith.formats.write import write_weights

    told = {**(weights.metadata if isinstance(weights, Weights) else {}), **(metadata or {})}
    destination = destination_of(path, format, "checkpoint", may=WEIGHT_KINDS)
    if metadata and destination.kind == "checkpoint":
        remedy = "leave it out, or write .npz or .safetensors"
        raise UsageError("a checkpoint holds no metadata", path=path, remedy=remedy)
    own = weights.files if isinstance(weights, Weights) else ()
    with destination.output((*own, *inputs), force=force) as output:
        place = destination.at(output.aside)
        files = write_weights(weights, place, metadata=told, max_shard_bytes=max_shard_bytes)
        return tuple(map(output.final, files))


def compare_weights(
    first: Mapping[str, Tensor] | str | os.PathLike[str],
    second: Mapping[str, Tensor] | str | os.PathLike[str],
    *,
    tolerance: float = 0.0,
) -> list[Comparison]:
    """Compares weights by name: shapes, dtypes, values. Reads both in pieces: memory does not grow with them.

    Args:
        first: Weights, or what `load_weights` takes.
        second: Others.
        tolerance: How far values may differ and still count as close.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    one, other = (found if isinstance(found, Mapping) else load_weights(found) for found in (first, second))
    return list(compare(one, other, tolerance=tolerance))


def map_weights(
    weights: Weights | Mapping[str, Tensor],
    map: str | os.PathLike[str] | WeightMap,
    *,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    task: str | None = None,
    reverse: bool = False,
    strict: bool = False,
) -> Mapped:
    """Renames and reshapes weights by a map. Reads no value: the result's tensors do when theirs are asked for.

    Args:
        weights: Tensors by name; `load_weights` gives them.
        map: The name of a map that comes with tfsmith (`builtin_maps` lists them), or a file of your own.
        config: The model's sizes (`bert_config.json`): shapes are checked against it, and rules that resize need it.
        task: Which of the map's tasks; by default the one whose head is there.
        reverse: Whether to go from the map's target names to its source names.
        strict: Whether a weight that no rule takes is an error.

    Raises:
        NotFoundInModelError: Weights are missing, or, if `strict`, left over.
        InvalidModelError: A shape is not what the config says; names the weight, both shapes and the field.
    """
    found = map if isinstance(map, WeightMap) else _find_map(map)
    sizes = config if config is None or isinstance(config, Mapping) else _read_config(Path(config))
    given = weights if isinstance(weights, Weights) else Weights(weights)
    checks = builtin_map(found.checks) if found.checks else found
    resized = {rule.rows for rule in found.rules if rule.rows}
    if sizes is not None and not reverse:
        check_shapes(given, checks, sizes, resized)
    mapped = apply_map(given, found, sizes, task, reverse=reverse)
    if sizes is not None and reverse:
        check_shapes(mapped.weights, checks, sizes)
    if strict and mapped.left_over:
        names = ", ".join(mapped.left_over[:5])
        more = f" and {len(mapped.left_over) - 5} more" if len(mapped.left_over) > 5 else ""
        what = f"{len(mapped.left_over)} weights are left over: {names}{more}"
        remedy = "leave them out (--except GLOB), or choose another task or map"
        raise NotFoundInModelError(what, path=given.path, remedy=remedy)
    return mapped


def load_bert(
    path: Model | str | os.PathLike[str],
    config: str | os.PathLike[str] | Mapping[str, Any] = "bert_config.json",
    task: str | None = None,
    *,
    map: str | os.PathLike[str] = "bert",
) -> Weights:
    """The weights of a BERT, complete and with every shape checked against its config. Reads no value.

    Args:
        path: A checkpoint, a frozen graph, or anything else that `load_weights` takes.
        config: Its `bert_config.json`; one that is not there is looked for beside the weights.
        task: Whose head must be there: "PRETRAINING", "SQUAD", "CLASSIFIER", "ENCODER" (none), or a task of `map`; by
            default, the one that is.
        map: The names to give them: by default those of Google's checkpoints.

    Raises:
        NotFoundInModelError: Weights are missing; they are named.
        InvalidModelError: A shape is not what the config says; names the weight, both shapes and the field.
    """
    weights = load_weights(path)
    sizes = config
    if not isinstance(config, Mapping) and not Path(config).exists() and weights.path is not None:
        beside = (weights.path if weights.path.is_dir() else weights.path.parent) / Path(config).name
        sizes = beside if beside.exists() else config
    return map_weights(weights, map, config=sizes, task=task).weights


def _find_map(name: str | os.PathLike[str]) -> WeightMap:
    path = Path(name)
    if path.suffix != ".toml" and not path.is_file():
        return builtin_map(os.fspath(name))
    return parse_map(_read_text(path), str(path))


def _read_config(path: Path) -> dict[str, Any]:
    return parse_config(_read_text(path), str(path))


def _read_text(path: Path) -> str:
    try:
        return open_file(path).tobytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise WrongFileError("this is no text", path=path, remedy="pass a text file in UTF-8") from error
