"""`weights`: the weights alone, as a table or a file, compared, renamed; and those of a BERT by its config."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.errors import NotFoundInModelError, UsageError, WrongFileError
from tfsmith.ir.model import Model
from tfsmith.ir.tensor import FilledTensor, Tensor, Weights
from tfsmith.records import record, replace
from tfsmith.storage import open_file
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import Result, check_room, open_model, output_name
from tfsmith.view import Section, human_bytes, human_count
from tfsmith.weights.compare import Comparison
from tfsmith.weights.compare import compare_weights as compare_by_name
from tfsmith.weights.mapping import Mapped, apply_map, check_shapes, names_fit, parse_config
from tfsmith.weights.maps import HUGGINGFACE, WeightMap, builtin_map, parse_map
from tfsmith.weights.source import select_weights, weights_of
from tfsmith.weights.table import ScopeRow, Stats, WeightRow, plain_number, require_finite, scope_rows, weight_rows

if TYPE_CHECKING:
    from typing import TypeAlias

    from typing_extensions import Unpack

    from tfsmith.verbs._shared import (
        Config,
        FilePath,
        Files,
        Globs,
        Loads,
        ModelOrPath,
        Out,
        Pairs,
        Tensors,
        TensorsOrPath,
        Texts,
    )

    MapOrPath: TypeAlias = FilePath | WeightMap

__all__ = [
    "FLAGS",
    "WeightReport",
    "compare_weights",
    "load_bert",
    "load_weights",
    "map_weights",
    "save_weights",
    "weights",
]

FLAGS = MappingProxyType({"training": ("--model-only",), "out": ("--output",)})
_SIZE = re.compile(r"(\d+(?:\.\d+)?) *([kKMGT]?)B?")
_UNITS = MappingProxyType({"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12})
_NAMED = 5
"""So many names of weights are shown."""


@record(eq=False)
class WeightReport(Result):
    """The weights of a model; true unless they were compared and differ.

    Attributes:
        weights: The weights.
        path: What the model was called.
        rows: A row for each of them, if they were not compared or written.
        scopes: The totals of each scope, if these were asked for.
        comparisons: How each compares to the other model's.
        other: What the other model was called.
        loose: Whether another dtype counts as equal.
        read: What else was read: the map and the config.
        files: The files that were written.
        notes: What the user should know.
        draft: The map that was drafted, as TOML.
    """

    weights: Weights
    path: str
    rows: tuple[WeightRow, ...] = ()
    scopes: tuple[ScopeRow, ...] | None = None
    comparisons: tuple[Comparison, ...] | None = None
    other: str = ""
    loose: bool = False
    read: tuple[FilePath, ...] = ()
    files: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    draft: str | None = None

    @property
    def text(self) -> str | None:
        """The map that was drafted, if one was."""
        return self.draft

    def __bool__(self) -> bool:
        return all(one.is_equal(any_dtype=self.loose) for one in self.comparisons or ())

    @checked
    def save(
        self,
        path: FilePath,
        *,
        metadata: Texts | None = None,
        max_shard_bytes: int | None = None,
        force: bool = False,
    ) -> WeightReport:
        """Writes the weights, as `save_weights` does.

        Raises:
            OutputError: There is something, which is not to be replaced.
        """
        files = save_weights(
            self.weights, path, metadata=metadata, max_shard_bytes=max_shard_bytes, inputs=self.read, force=force
        )
        return replace(self, files=files)

    def report(self) -> Iterator[Section | str]:
        """The table, the comparison, or what was written."""
        if self.comparisons is not None:
            yield _comparison_table(self.comparisons, loose=self.loose)
        elif self.files:
            total = human_bytes(sum(tensor.nbytes for tensor in self.weights.values()))
            yield f"Wrote {human_count(len(self.weights))} weights, {total}: {', '.join(map(output_name, self.files))}"
        else:
            yield _table(self.rows, self.scopes)

    def to_json(self) -> dict[str, Any]:
        """The same."""
        if self.draft is not None:
            return {"first": self.path, "map": self.draft}
        if self.comparisons is not None:
            rows = [{**one.facts(), "equal": one.is_equal(any_dtype=self.loose)} for one in self.comparisons]
            return {"first": self.path, "second": self.other, "equal": bool(self), "weights": rows}
        total = sum(tensor.nbytes for tensor in self.weights.values())
        if self.files:
            return {"output": [str(path) for path in self.files], "weights": list(self.weights), "bytes": total}
        facts: dict[str, Any] = {
            "path": self.path,
            "metadata": dict(self.weights.metadata),
            "count": len(self.rows),
            "parameters": sum(row.parameters for row in self.rows),
            "bytes": total,
        }
        if self.scopes is None:
            facts["weights"] = [_row_facts(row) for row in self.rows]
        else:
            facts["scopes"] = [
                {"name": row.name, "count": row.count, "parameters": row.parameters, "bytes": row.bytes}
                for row in self.scopes
            ]
        return facts


@checked
def weights(
    model: ModelOrPath,
    *,
    match: Globs = (),
    excluded: Globs = (),
    training: bool = True,
    constants: bool = False,
    stats: bool = False,
    sort: Literal["name", "bytes", "dtype", "shape", "file"] = "name",
    scopes: int | None = None,
    map: str | None = None,
    draft_map: FilePath | None = None,
    config: FilePath | None = None,
    task: str | None = None,
    reverse: bool = False,
    strict: bool = False,
    finite: bool = False,
    out: Out | None = None,
    max_shard_size: str | None = None,
    metadata: Pairs | None = None,
    compare: FilePath | None = None,
    tolerance: float = 0.0,
    force: bool = False,
    **options: Unpack[Loads],
) -> WeightReport:
    """Shows the weights of any model alone, writes them to a file, renames them, or compares them with others.

    Needs no graph. Reads no values, unless it is asked for what only they tell.

    Args:
        model: A checkpoint, a SavedModel, a `.meta`, a frozen graph (whose constants that were variables count), a
            `.safetensors` file or its index, an `.npz`, a Keras file (`.h5`, `.weights.h5`, `.keras`).
        match: Only weights with such names.
        excluded: Leave out such names.
        training: Keep what only training needs: slots of optimizers, the global step.
        constants: Take all constants of a graph, not only those that were variables.
        stats: Read the values: least, largest, mean, NaNs, infinities.
        sort: The order of the table.
        scopes: Totals per scope of so many words, in place of every weight.
        map: Rename and reshape by a map that comes with tfsmith, or by a file of your own. `huggingface` takes a
            `tf_model.h5` of transformers to the names of PyTorch.
        draft_map: Another file of the same model: print a map to its names, for you to correct. Reads all values.
        config: The sizes that shapes are checked against: `bert_config.json`, or a `config.json`, which `huggingface`
            finds beside the weights.
        task: Which of the map's tasks; by default, the one whose head is there.
        reverse: From the map's target names to its source names.
        strict: A weight that the map leaves over is an error.
        finite: NaNs and infinities are an error. Reads all values.
        out: Where to write: `NAME.safetensors`, `NAME.npz`, `NAME.h5`, `NAME.weights.h5`, `NAME.keras`, or `NAME.ckpt`:
            a checkpoint.
        max_shard_size: Several safetensors files of at most so much each, such as 5GB.
        metadata: Store this beside the weights.
        compare: Another model to compare with; the answer is no if they differ.
        tolerance: How far values may differ.
        force: Replace what is there.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith weights model.ckpt-1603 --model-only --stats
        tfsmith weights tf_model.h5 --map huggingface -o model.safetensors
        tfsmith weights bert_model.ckpt --map bert-to-huggingface --config bert_config.json -o model.safetensors
    """
    if compare is not None and out is not None:
        raise UsageError("{compare} writes nothing", remedy="leave one of them out")
    if draft_map is not None and (compare is not None or out is not None or map is not None):
        raise UsageError("{draft_map} prints a map and does nothing else", remedy="leave the other options out")
    for option, value in (("metadata", metadata), ("max_shard_size", max_shard_size)):
        if value and out is None:
            raise UsageError(f"{{{option}}} goes with {{out}}", remedy="add {out}, such as {out='model.safetensors'}")
    if tolerance and compare is None:
        raise UsageError("{tolerance} goes with {compare}", remedy="add {compare}, or leave it out")
    check_room(tolerance=tolerance)
    if scopes is not None and scopes < 1:
        raise UsageError(f"a scope of {scopes} words holds nothing", remedy="pass 1 or more")
    size = None if max_shard_size is None else _bytes(max_shard_size)
    opened = open_model(model, options)
    names = None if map is None or map == HUGGINGFACE else _find_map(map)
    found = _weights_for(names, opened, constants=constants)
    found = select_weights(found, match, excluded, training=training)
    path = str(model) if isinstance(model, (str, os.PathLike)) else str(found.path or "")
    notes: tuple[str, ...] = ()
    if draft_map is not None:
        return _drafted(found, path, load_weights(draft_map, constants=constants, training=training))
    if map == HUGGINGFACE:
        config = config or _config_beside(found)
        mapped = map_weights(found, map, config=config, task=task, reverse=reverse, strict=strict)
        notes = (_left_over(mapped.left_over, found),) if mapped.left_over else ()
        found = mapped.weights
    elif names is not None:
        found, notes = (found, ()) if reverse else _named_for(names, opened, found)
        mapped = map_weights(found, names, config=config, task=task, reverse=reverse, strict=strict)
        notes += (_left_over(mapped.left_over, found),) if mapped.left_over else ()
        found = mapped.weights
    elif config or task or reverse or strict:
        given = {"config": config, "task": task, "reverse": reverse, "strict": strict}
        option = next(name for name, value in given.items() if value)
        raise UsageError(f"{{{option}}} goes with {{map}}", remedy="add {map}, such as {map='bert'}")
    if finite:
        require_finite(found)
    read = tuple(one for one in (map, config) if one is not None and one != HUGGINGFACE)
    report = WeightReport(found, path, read=read, notes=notes)
    if compare is not None:
        second = load_weights(compare, constants=constants)
        second = select_weights(second, match, excluded, training=training, strict=False)
        compared = tuple(compare_by_name(found, second, tolerance=tolerance))
        return replace(report, comparisons=compared, other=str(compare), loose=tolerance > 0)
    if out is not None:
        return report.save(out, metadata=metadata, max_shard_bytes=size, force=force)
    rows = weight_rows(found, stats=stats, sort=sort)
    totals = None if scopes is None else tuple(scope_rows(rows, scopes))
    return replace(report, rows=tuple(rows), scopes=totals)


def _drafted(found: Weights, path: str, other: Weights) -> WeightReport:
    """A map from the names of one file to those of another, as text."""
    from tfsmith.weights.pairs import draft_map  # no other use of the verb needs it

    draft = draft_map(found, other)
    notes = []
    for count, what in ((len(draft.left), "left over"), (len(draft.missing), "without a source")):
        if count:
            notes.append(f"{human_count(count)} weights are {what}; the end of the map names them")
    return WeightReport(found, path, notes=tuple(notes), draft=draft.text)


def _config_beside(weights: Weights) -> Path | None:
    """The config of a transformers model, if it lies beside the weights."""
    beside = None if weights.path is None else weights.path.with_name("config.json")
    return beside if beside is not None and beside.is_file() else None


def _weights_for(names: WeightMap | None, model: Model, *, constants: bool = False) -> Weights:
    """The weights of a model; of a frozen BERT whose reads were folded all that may be one, for a map by structure."""
    try:
        return weights_of(model, constants=constants)
    except NotFoundInModelError:
        if names is None or not _takes_google_names(names) or not model.has_graph:
            raise
        every = weights_of(model, constants=True)
        kept = {name: tensor for name, tensor in every.items() if _may_be_weight(tensor)}
        if not kept:
            raise
        return replace(every, tensors=kept)


def _may_be_weight(tensor: Tensor) -> bool:
    """Whether a constant is of numbers with a fraction, and more than one number that is repeated."""
    return "float" in tensor.dtype.name and bool(tensor.shape.rank) and not isinstance(tensor, FilledTensor)


def _takes_google_names(names: WeightMap) -> bool:
    return "bert" in (names.name, names.checks)


def _named_for(names: WeightMap, model: Model, weights: Weights) -> tuple[Weights, tuple[str, ...]]:
    """Weights under the names that a map takes, and what the user should know.

    Where they have other names: the names of their variables, and else what each of them does.
    """
    if names_fit(names, weights):
        return weights, ()
    named = replace(weights, tensors={weights.names.get(key, (key,))[0]: tensor for key, tensor in weights.items()})
    if len(named) == len(weights) and names_fit(names, named):
        return named, ()
    if not _takes_google_names(names):
        return weights, ()
    from tfsmith.weights.structure import name_by_structure  # most maps need none of it

    found = name_by_structure(model, weights)
    return found.weights, (found.note,)


def _left_over(keys: Sequence[str], weights: Weights) -> str:
    """Which weights are left over: by the names of their variables, where their keys are paths of attributes."""
    names = [weights.names.get(key, (key,))[0] for key in keys]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{len(names)} weights are left over: {', '.join(names[:_NAMED])}{more}"


def _bytes(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        what = f"{{max_shard_size}} {text!r} is not understood"
        raise UsageError(what, remedy="write a size such as 5GB or 200MB")
    return int(float(found[1]) * _UNITS[found[2]])


def _row_facts(row: WeightRow) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": row.name, "dtype": row.dtype.name, "shape": list(row.shape.dims or ())}
    facts["bytes"] = row.bytes
    if row.variable is not None:
        facts["variable"] = row.variable
    if row.stats is not None:
        for key in ("min", "max", "mean", "nan", "inf"):
            facts[key] = plain_number(getattr(row.stats, key))
    return facts


def _table(rows: Sequence[WeightRow], scopes: Sequence[ScopeRow] | None) -> Section:
    """Every weight, or every scope; and the total."""
    stats = any(row.stats is not None for row in rows)
    total = sum(row.bytes for row in rows)
    parameters = sum(row.parameters for row in rows)
    kinds = Counter(row.dtype.name for row in rows)
    dtypes = ", ".join(f"{name} x{count}" if len(kinds) > 1 else name for name, count in kinds.most_common())
    note = f"{human_count(len(rows))} weights, {human_count(parameters)} parameters, {human_bytes(total)}; {dtypes}"
    if scopes is not None:
        table = [
            (row.name or "(none)", human_count(row.count), human_count(row.parameters), human_bytes(row.bytes))
            for row in scopes
        ]
        header: tuple[str, ...] = ("scope", "weights", "parameters", "size")
        return Section("", table, header, (note,), right=frozenset({1, 2, 3}))
    header = ("name", "dtype", "shape", "size", *(("min", "max", "mean", "NaN", "inf") if stats else ()))
    lines = [
        (row.name, row.dtype.name, str(row.shape), human_bytes(row.bytes), *(_stats(row.stats) if stats else ()))
        for row in rows
    ]
    if any(row.variable for row in rows):
        header = (*header, "variable")
        lines = [(*cells, row.variable or "") for cells, row in zip(lines, rows, strict=True)]
    last = 9 if stats else 4
    return Section(
        "", lines, header, (note,) if rows else ("there are none",), right=frozenset(range(3, last)), drop=(3, 1, 2)
    )


def _stats(stats: Stats | None) -> tuple[str, ...]:
    if stats is None:
        return ("-",) * 5
    return (*(_number(value) for value in (stats.min, stats.max, stats.mean)), str(stats.nan), str(stats.inf))


def _number(value: float | int | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _comparison_table(found: Sequence[Comparison], *, loose: bool) -> Section:
    """Every weight with how it compares; and how many are equal."""
    rows = [
        (one.name, one.verdict, "-" if one.max_difference is None else f"{one.max_difference:.4g}", _detail(one))
        for one in found
    ]
    equal = sum(one.is_equal(any_dtype=loose) for one in found)
    verdicts = Counter(one.verdict for one in found)
    words = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    note = f"{equal} of {len(found)} are equal ({words})" if found else "there is nothing to compare"
    return Section("", rows, ("name", "verdict", "max difference", ""), (note,), right=frozenset({2}))


def _detail(one: Comparison) -> str:
    if one.first is None or one.second is None:
        there = one.second if one.first is None else one.first
        return "" if there is None else f"{there.dtype} {there.shape}"
    if one.verdict == "shape":
        return f"{one.first.shape} and {one.second.shape}"
    if one.first.dtype != one.second.dtype:
        return f"{one.first.dtype} and {one.second.dtype}"
    return f"{human_count(one.unequal)} of {human_count(one.first.shape.elements or 0)} values" if one.unequal else ""


@checked
def load_weights(
    source: ModelOrPath,
    *,
    match: Globs = (),
    excluded: Globs = (),
    training: bool = True,
    constants: bool = False,
    **options: Unpack[Loads],
) -> Weights:
    """The weights of any model, as a mapping from names to tensors that are read when asked for. Needs no graph.

    Args:
        source: A model, or what `load` takes: a checkpoint, a SavedModel, a `.meta` with its checkpoint, a frozen graph
            (whose constants that were variables count), a `.safetensors` file or its index, an `.npz`, a Keras file.
        match: Globs of names to take; all by default.
        excluded: Globs of names to leave out.
        training: Whether to keep what only training needs: slots of optimizers, the global step.
        constants: Whether to take all constants of a graph, whatever they were.
        options: As for `load`: which meta graph, which checkpoint, which step.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    found = weights_of(open_model(source, options), constants=constants)
    return select_weights(found, match, excluded, training=training)


@checked
def save_weights(
    weights: Tensors,
    path: FilePath,
    *,
    as_: Literal["checkpoint", "npz", "safetensors", "h5", "keras"] | None = None,
    metadata: Texts | None = None,
    max_shard_bytes: int | None = None,
    inputs: Files = (),
    force: bool = False,
) -> tuple[Path, ...]:
    """Writes weights, whole or not at all. Streams: memory does not grow with them.

    Args:
        weights: Tensors or arrays by name; `load_weights` gives them.
        path: `NAME.safetensors`, `NAME.npz`, `NAME.h5` or `NAME.keras`, or `NAME.ckpt`: a checkpoint that TensorFlow
            restores by names.
        as_: What to write, whatever the name says.
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
    from tfsmith.formats import WEIGHT_KINDS, destination_of  # looking should not load what writes
    from tfsmith.formats.write import write_weights

    given = Weights.of(weights)
    stored = {**given.metadata, **(metadata or {})}
    destination = destination_of(path, as_, "checkpoint", may=WEIGHT_KINDS)
    if metadata and destination.kind in ("checkpoint", "keras"):
        remedy = "leave it out, or write .npz, .h5 or .safetensors"
        what = (
            "a checkpoint holds no metadata" if destination.kind == "checkpoint" else "a .keras file holds only its own"
        )
        raise UsageError(what, path=path, remedy=remedy)
    with destination.output((*given.files, *inputs), force=force) as output:
        place = destination.at(output.aside)
        files = write_weights(given, place, metadata=stored, max_shard_bytes=max_shard_bytes)
        return tuple(output.final(file) for file in files)


@checked
def compare_weights(
    first: TensorsOrPath,
    second: TensorsOrPath,
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
    one, other = (Weights.of(one) if isinstance(one, Mapping) else load_weights(one) for one in (first, second))
    return list(compare_by_name(one, other, tolerance=tolerance))


@checked
def map_weights(
    weights: TensorsOrPath,
    map: MapOrPath,
    *,
    config: Config | None = None,
    task: str | None = None,
    reverse: bool = False,
    strict: bool = False,
) -> Mapped:
    """Renames and reshapes weights by a map. Reads no value: the result's tensors do when theirs are asked for.

    Args:
        weights: Tensors by name; `load_weights` gives them. Or a model, or what `load` takes: where its weights do not
            have the names that a map of BERT takes, they are found by what they do.
        map: The name of a map that comes with tfsmith (`builtin_maps` lists them), or a file of your own.
        config: The model's sizes (`bert_config.json`): shapes are checked against it, and rules that resize need it.
        task: Which of the map's tasks; by default the one whose head is there.
        reverse: Whether to go from the map's target names to its source names.
        strict: Whether a weight that no rule takes is an error.

    Raises:
        NotFoundInModelError: Weights are missing, or, if `strict`, left over.
        InvalidModelError: A shape is not what the config says; names the weight, both shapes and the field.
    """
    if map == HUGGINGFACE:
        return _map_huggingface(weights, config, task=task, reverse=reverse, strict=strict)
    found = map if isinstance(map, WeightMap) else _find_map(map)
    sizes = config if config is None or isinstance(config, Mapping) else _read_config(Path(config))
    notes: tuple[str, ...] = ()
    if isinstance(weights, Mapping):
        given = Weights.of(weights)
    else:
        opened = open_model(weights, {})
        given = _weights_for(found, opened)
        given, notes = (given, ()) if reverse else _named_for(found, opened, given)
    checks = builtin_map(found.checks) if found.checks else found
    resized = {rule.rows for rule in found.rules if rule.rows}
    if sizes is not None and not reverse:
        check_shapes(given, checks, sizes, resized)
    mapped = apply_map(given, found, sizes, task, reverse=reverse)
    if sizes is not None and reverse:
        check_shapes(mapped.weights, checks, sizes)
    if strict and mapped.left_over:
        remedy = "leave them out ({excluded}), or choose another task or map"
        raise NotFoundInModelError(_left_over(mapped.left_over, given), path=given.path, remedy=remedy)
    return replace(mapped, notes=notes)


def _map_huggingface(
    weights: TensorsOrPath, config: Config | None, *, task: str | None, reverse: bool, strict: bool
) -> Mapped:
    from tfsmith.weights.huggingface import map_huggingface

    for option, value in (("task", task), ("reverse", reverse)):
        if value:
            what = f"{{{option}}} does not go with the map {HUGGINGFACE!r}, which reads names alone"
            raise UsageError(what, remedy="leave it out")
    given = Weights.of(weights) if isinstance(weights, Mapping) else load_weights(weights)
    sizes = config if config is None or isinstance(config, Mapping) else _read_config(Path(config))
    mapped = map_huggingface(given, sizes)
    if strict and mapped.left_over:
        remedy = "leave them out ({excluded})"
        raise NotFoundInModelError(_left_over(mapped.left_over, given), path=given.path, remedy=remedy)
    return mapped


@checked
def load_bert(
    path: ModelOrPath,
    config: Config = "bert_config.json",
    task: str | None = None,
    *,
    map: FilePath = "bert",
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
    model = open_model(path, {})
    sizes = config
    if not isinstance(config, Mapping) and not Path(config).exists() and model.path is not None:
        beside = (model.path if model.path.is_dir() else model.path.parent) / Path(config).name
        sizes = beside if beside.exists() else config
    return map_weights(model, map, config=sizes, task=task).weights


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
