"""Applies a map: renames, joins, splits, transposes, resizes, casts; checked against a config. Reads no value."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError, nearest, shortened
from tfsmith.ir.model import training_names
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.ir.tensor_views import (
    JoinedTensor,
    ReshapedTensor,
    TransposedTensor,
    cast_tensor,
    resize_rows,
    split_tensor,
)
from tfsmith.ir.types import Shape, dtype_named
from tfsmith.records import record, replace
from tfsmith.weights.maps import Rule, Task, Template, WeightMap

__all__ = ["parse_config", "config_size", "check_shapes", "Mapped", "apply_map", "choose_task", "names_fit"]

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


@record(eq=False)
class Mapped:
    """What a map made.

    Attributes:
        weights: The new weights.
        task: The task that was chosen, "" if the map has none.
        left_over: Names that no rule took, and that are not to be dropped.
        dropped: Names that the map leaves out.
        notes: What the user should know.
    """

    weights: Weights
    task: str
    left_over: tuple[str, ...]
    dropped: tuple[str, ...]
    notes: tuple[str, ...] = ()


def apply_map(
    weights: Weights,
    found: WeightMap,
    config: Mapping[str, Any] | None = None,
    task: str | None = None,
    *,
    reverse: bool = False,
) -> Mapped:
    """Applies a map. No I/O.

    Args:
        weights: The weights to be mapped.
        found: The map.
        config: The sizes of the model, for rules that resize, and to know how many layers there must be.
        task: Which task; by default the first whose `when` fits.
        reverse: Whether to go from the map's target names to its source names.

    Raises:
        NotFoundInModelError: Weights are missing; the first are named.
        InvalidModelError: A weight has a shape that a rule cannot work with.
        UsageError: There is no such task.
    """
    chosen = choose_task(weights, found, task, reverse=reverse)
    rules = [_turned(_stripped(rule, chosen), reverse=reverse) for rule in found.rules if _is_of(rule.tasks, chosen)]
    work = _Work(weights, found, config)
    for rule in rules:
        if not (reverse and rule.copy):
            work.apply(rule, reverse=reverse)
    if work.missing:
        raise _missing(weights, work.missing, found, chosen)
    if reverse:
        work.taken |= {name for rule in rules if rule.copy for name in work.names_of(rule)}
    dropped = _dropped(weights, found, chosen) - work.taken
    left = tuple(name for name in weights if name not in work.taken and name not in dropped)
    metadata = {} if reverse else {**weights.metadata, **found.metadata}
    made = replace(weights, tensors=work.made, metadata=metadata)
    return Mapped(made, "" if chosen is None else chosen.name, left, tuple(sorted(dropped)))


def choose_task(weights: Iterable[str], found: WeightMap, task: str | None, *, reverse: bool = False) -> Task | None:
    """The task by its name, else the first whose glob fits, else the one without a glob.

    Raises:
        UsageError: There is none of this name.
    """
    if task is not None:
        for one in found.tasks:
            if one.name == task:
                return one
        names = ", ".join(one.name for one in found.tasks) or "none"
        raise UsageError(f"the map {found.name!r} has no task {task!r}", remedy=f"its tasks are: {names}")
    names_there = list(weights)
    for one in found.tasks:
        glob = one.when_reverse if reverse else one.when
        if any(fnmatchcase(name, other) for other in one.unless for name in names_there):
            continue
        if not glob or any(fnmatchcase(name, glob) for name in names_there):
            return one
    return None


def names_fit(found: WeightMap, names: Iterable[str]) -> bool:
    """Whether a map takes any of these names."""
    templates = [Template.of(source) for rule in found.rules for source in rule.sources]
    return any(template.match(name) is not None for name in names for template in templates)


def _is_of(tasks: Sequence[str], chosen: Task | None) -> bool:
    return not tasks or (chosen is not None and chosen.name in tasks)


def _stripped(rule: Rule, task: Task | None) -> Rule:
    if task is None or not task.strip:
        return rule
    return replace(rule, targets=tuple(name.removeprefix(task.strip) for name in rule.targets))


def _turned(rule: Rule, *, reverse: bool) -> Rule:
    return replace(rule, sources=rule.targets, targets=rule.sources) if reverse else rule


def _dropped(weights: Weights, found: WeightMap, task: Task | None) -> set[str]:
    dropped = training_names(weights) if found.drop_training else set()
    globs = [glob for drop in found.drops if _is_of(drop.tasks, task) for glob in drop.names]
    return dropped | {name for name in weights if any(fnmatchcase(name, glob) for glob in globs)}


def _missing(weights: Weights, missing: Sequence[str], found: WeightMap, task: Task | None) -> NotFoundInModelError:
    whose = f"the map {found.name!r}" if task is None else f"the task {task.name} of the map {found.name!r}"
    what = f"{len(missing)} weights that {whose} needs are missing: {shortened(missing, 60)}"
    others = shortened([one.name for one in found.tasks if task is None or one.name != task.name], 60)
    remedy = f"choose another task ({{task={others}}}), or another map" if others else "choose another map"
    return NotFoundInModelError(what, path=weights.path, remedy=remedy)


class _Work:
    """One application of a map."""

    def __init__(self, weights: Weights, found: WeightMap, config: Mapping[str, Any] | None) -> None:
        self._weights = weights
        self._map = found
        self._config = config
        self._bindings: dict[str, list[dict[str, str]]] = {}
        self.made: dict[str, Tensor] = {}
        self.taken: set[str] = set()
        self.missing: list[str] = []

    def names_of(self, rule: Rule) -> list[str]:
        """The weights that a rule's sources fit."""
        templates = [Template.of(source) for source in rule.sources]
        return [name for name in self._weights if any(one.match(name) is not None for one in templates)]

    def apply(self, rule: Rule, *, reverse: bool) -> None:
        """Makes what a rule makes, for every number of its layers."""
        sources = [Template.of(source) for source in rule.sources]
        for binding in self._all_bindings(sources):
            names = [source.fill(binding) for source in sources]
            gone = [name for name in names if name not in self._weights]
            if gone:
                if not rule.optional or len(gone) < len(names):
                    self.missing += gone
                continue
            self.taken |= set(names)
            tensors = [self._weights[name] for name in names]
            targets = [Template.of(target).fill(binding) for target in rule.targets]
            made = self._make(rule, names, tensors, len(targets), reverse=reverse)
            for target, tensor in zip(targets, made, strict=True):
                if target in self.made:
                    what = f"two rules make {target!r}"
                    raise UsageError(what, where=f"map {self._map.name!r}", remedy="correct the map")
                self.made[target] = tensor

    def _all_bindings(self, sources: Sequence[Template]) -> list[dict[str, str]]:
        """The values of the placeholders: as the config says, else as the names that are there show."""
        holes = sources[0].holes
        if not holes:
            return [{}]
        if len(holes) == 1 and self._config is not None and holes[0] in self._map.layers:
            count = config_size(self._config, self._map.layers[holes[0]])
            return [{holes[0]: str(number)} for number in range(count)]
        if any(hole not in self._map.layers for hole in holes):
            return self._found_bindings(holes, sources)
        key = ",".join(holes)
        if key not in self._bindings:
            every = [name for rule in self._map.rules for name in (*rule.sources, *rule.targets)]
            same = [one for one in map(Template.of, every) if one.holes == holes]
            self._bindings[key] = self._found_bindings(holes, [*sources, *same])
        return self._bindings[key]

    def _found_bindings(self, holes: Sequence[str], templates: Sequence[Template]) -> list[dict[str, str]]:
        """What the names show; for layers, of all rules, so that a layer that lacks one weight is noticed."""
        found: dict[tuple[str, ...], dict[str, str]] = {}
        for name in self._weights:
            for template in templates:
                binding = template.match(name)
                if binding is not None:
                    found[tuple(binding[hole] for hole in holes)] = binding
        return [found[key] for key in sorted(found, key=lambda values: [(len(value), value) for value in values])]

    def _make(
        self, rule: Rule, names: Sequence[str], tensors: Sequence[Tensor], count: int, *, reverse: bool
    ) -> list[Tensor]:
        """The tensors of one rule. The axis and the rows are those of the map's source side, before a transpose."""
        label = " + ".join(names)
        made = list(tensors)
        if rule.reshape and reverse:
            made = [_reshaped(tensor, rule.reshape[1], rule.reshape[0], label) for tensor in made]
        if rule.transpose and reverse:
            made = [_transposed(tensor, rule.transpose, label, reverse=True) for tensor in made]
        if len(made) > 1:
            made = [_joined(made, rule.axis, label)]
        if count > 1:
            made = list(_split(made[0], count, rule.axis, label))
        if rule.rows is not None and self._config is not None:
            rows = config_size(self._config, rule.rows)
            made = [_with_rows(tensor, rows, label) for tensor in made]
        if rule.transpose and not reverse:
            made = [_transposed(tensor, rule.transpose, label) for tensor in made]
        if rule.reshape and not reverse:
            made = [_reshaped(tensor, *rule.reshape, label) for tensor in made]
        if rule.cast is not None and not reverse:
            made = [cast_tensor(tensor, dtype_named(rule.cast), label) for tensor in made]
        return made


def _transposed(tensor: Tensor, order: bool | tuple[int, ...], label: str, *, reverse: bool = False) -> Tensor:
    """The tensor with its axes reversed, or in an order; `reverse` undoes that."""
    rank = tensor.shape.rank or 0
    if isinstance(order, tuple):
        if len(order) != rank:
            raise _misfit(f"{tensor.shape} has no {len(order)} axes", label)
        return TransposedTensor(tensor, tuple(order.index(axis) for axis in range(rank)) if reverse else order)
    return tensor if rank < 2 else TransposedTensor(tensor, tuple(reversed(range(rank))))


def _reshaped(tensor: Tensor, before: tuple[int, ...], after: tuple[int, ...], label: str) -> Tensor:
    """The same values under another shape."""
    if tensor.shape.dims != before:
        raise _misfit(f"its shape is {tensor.shape}, but the map reshapes {list(before)}", label)
    return ReshapedTensor(tensor, Shape(after))


def _joined(tensors: Sequence[Tensor], axis: int, label: str) -> Tensor:
    dims = [list(tensor.shape.dims or ()) for tensor in tensors]
    if axis >= len(dims[0]):
        raise _misfit(f"axis {axis} of {tensors[0].shape} cannot be joined", label)
    others = {(tensor.dtype.base, *size[:axis], *size[axis + 1 :]) for tensor, size in zip(tensors, dims, strict=True)}
    if len(others) > 1 or len({len(size) for size in dims}) > 1:
        shapes = ", ".join(f"{tensor.dtype} {tensor.shape}" for tensor in tensors)
        raise _misfit(f"{shapes} cannot be joined along axis {axis}", label)
    return JoinedTensor(tuple(tensors), axis)


def _split(tensor: Tensor, count: int, axis: int, label: str) -> tuple[Tensor, ...]:
    dims = tensor.shape.dims or ()
    if axis >= len(dims) or dims[axis] % count:
        raise _misfit(f"{tensor.shape} has no {count} equal parts along axis {axis}", label)
    return split_tensor(tensor, count, axis)


def _with_rows(tensor: Tensor, rows: int, label: str) -> Tensor:
    if not tensor.shape.rank:
        raise _misfit("a scalar has no rows", label)
    return resize_rows(tensor, rows)


def _misfit(what: str, label: str) -> InvalidModelError:
    return InvalidModelError(what, where=f"weight {label!r}", remedy="the map is for another model, or is wrong")
