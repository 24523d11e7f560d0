"""F4: What changed between two models."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from tfsmith.api.files import load_with
from tfsmith.errors import NotFoundInModelError, TfsmithError, UsageError
from tfsmith.ir.model import Model
from tfsmith.ir.names import OBJECT_GRAPH_KEY
from tfsmith.ir.tensor import FilledTensor, SpanTensor, Tensor
from tfsmith.ops.families import VARIABLES
from tfsmith.passes.diff import diff_structure
from tfsmith.passes.diff_bodies import StructureDifference, TensorPair, ValueChange
from tfsmith.passes.variables import find_value, restore_sources
from tfsmith.records import field, record, replace
from tfsmith.storage.span import open_file
from tfsmith.view.summary import difference_facts, shape_facts
from tfsmith.weights.compare import Comparison, pair_weights
from tfsmith.weights.compare import compare_weights as compare
from tfsmith.weights.source import weights_of

__all__ = ["diff", "Difference", "SECTIONS"]

SECTIONS = ("versions", "signatures", "nodes", "functions", "collections", "assets", "others", "weights")
"""What a model is compared by, in the order in which it is told."""


@record
class Difference:
    """What differs between two models.

    Attributes:
        first: The one model.
        second: The other.
        only: The sections that were compared.
        structure: Everything but the weights; empty where one of the models has no graph.
        weights: The weights that differ, by name.
        weight_count: How many weights were compared.
        notes: What could not be compared, and why.
    """

    first: Model
    second: Model
    only: tuple[str, ...]
    structure: StructureDifference
    weights: tuple[Comparison, ...] = ()
    weight_count: int = 0
    notes: tuple[str, ...] = ()
    _facts: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs in what was compared."""
        return not any(self.counts().values())

    def counts(self) -> dict[str, int]:
        """How many differences each section has."""
        return {section: _count(self.facts()[section]) for section in self.only}

    def facts(self) -> dict[str, Any]:
        """All of it as plain data, ready for JSON."""
        if not self._facts:
            facts = difference_facts(self.structure)
            facts["weights"] = [_weight(one) for one in self.weights]
            self._facts.update({section: facts[section] for section in self.only})
            self._facts["notes"] = list(self.notes)
            self._facts["weight_count"] = self.weight_count
        return self._facts


def diff(
    first: Model | str | os.PathLike[str] | Any,
    second: Model | str | os.PathLike[str] | Any,
    *,
    only: Collection[str] = (),
    weights: bool = True,
    tolerance: float = 0.0,
    inferred_shapes: bool = False,
) -> Difference:
    """What changed between two models, of any two kinds. Linear; reads weights in pieces, and none if told so.

    Nodes and functions are paired by name, then by what they do: one that comes back under another name is renamed.

    Args:
        first: A model, or what `load` takes.
        second: Another.
        only: The sections to compare, of `SECTIONS`; all by default.
        weights: Whether to read constants and variables and compare their values.
        tolerance: How far values may differ and still count as equal.
        inferred_shapes: Whether the shapes that TensorFlow notes down at each node (`_output_shapes`) count.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    wrong = [section for section in only if section not in SECTIONS]
    if wrong:
        raise UsageError(f"there is no section {wrong[0]!r}", remedy=f"the sections are: {', '.join(SECTIONS)}")
    one, other = load_with(first, None), load_with(second, None)
    wanted = tuple(name for name in SECTIONS if (not only or name in only) and (weights or name != "weights"))
    notes: list[str] = []
    structure = StructureDifference()
    if one.has_graph and other.has_graph:
        structure = diff_structure(one, other, read_values="weights" in wanted, inferred_shapes=inferred_shapes)
        structure = replace(structure, assets=(*structure.assets, *_diff_files(one, other)))
        notes += _unequal_kinds(one, other)
    else:
        lacking = " and ".join(
            name for name, model in (("the first", one), ("the second", other)) if not model.has_graph
        )
        notes.append(f"{lacking} has no graph: only weights are compared" if one.has_graph or other.has_graph else "")
    found: tuple[Comparison, ...] = ()
    count = 0
    if "weights" in wanted:
        pairs, alone, told = _pairs(one, other, structure)
        notes += told
        found, count = _compare(pairs, tolerance)
        found = tuple(sorted((*found, *alone), key=lambda comparison: comparison.name))
    return Difference(one, other, wanted, structure, found, count, tuple(note for note in notes if note))


def _unequal_kinds(one: Model, other: Model) -> Iterator[str]:
    """What only one of the two files can hold, and where one lacks nodes."""
    for name, model in (("first", one), ("second", other)):
        missing = next(model.graph.missing_inputs(), None)
        if missing is not None:
            yield f"the {name} is cut off: node {missing[0].name!r} takes {missing[1]!r}, which is not there"
    for name, model, counterpart in (("first", one, other), ("second", other, one)):
        if model.kind == "graphdef" and counterpart.kind != "graphdef":
            yield f"the {name} is a graph alone, so it has no signatures, collections, assets and saver to compare"


def _diff_files(one: Model, other: Model) -> Iterator[ValueChange]:
    """Asset files of one name whose bytes differ. Reads both."""
    theirs = {side.name: side for side in other.side_files}
    for side in one.side_files:
        match = theirs.get(side.name)
        if match is None or not side.name.startswith(("assets/", "assets.extra/")) or side.leads_out or match.leads_out:
            continue
        ours, yours = open_file(side.path), open_file(match.path)
        same = len(ours) == len(yours) and all(a == b for a, b in zip(ours.chunks(), yours.chunks(), strict=True))
        if not same:
            yield ValueChange(f"{side.name}, its content", f"{len(ours)} bytes", f"{len(yours)} bytes")


def _pairs(
    one: Model, other: Model, structure: StructureDifference
) -> tuple[list[TensorPair], list[Comparison], list[str]]:
    """The weights to compare, those that only one has, and what cannot be compared."""
    pairs, alone = list(structure.constants), list[Comparison]()
    if one.has_graph and other.has_graph and not (one.variables and other.variables):
        crossed, told = _cross(one, other, structure)
        return pairs + crossed, [], told
    try:
        first, second = (weights_of(model) for model in (one, other))
    except NotFoundInModelError as error:
        return pairs, [], [str(error)]
    for name, left, right in sorted(pair_weights(first, second), key=lambda pair: pair[0]):
        if left is not None and right is not None:
            pairs.append(TensorPair(name, left, right))
        else:
            alone.append(Comparison(name, "only in first" if right is None else "only in second", left, right))
    return pairs, alone, []


def _cross(one: Model, other: Model, structure: StructureDifference) -> tuple[list[TensorPair], list[str]]:
    """Variables of one model against constants of their names in the other: a frozen graph and what it was made of."""
    pairs, missing = [], 0
    for name, model, is_first in (("first", one, True), ("second", other, False)):
        if not model.variables:
            continue
        sources = restore_sources(model.meta)
        taken = 0
        for change in structure.nodes.changed:
            node, constant = (change.first, change.second) if is_first else (change.second, change.first)
            value = constant.get("value") if constant.op == "Const" else None
            if node.op not in VARIABLES or not hasattr(value, "parts"):
                continue
            try:
                _, tensor = find_value(model, node, sources)
            except TfsmithError:
                continue
            taken += 1
            pairs.append(TensorPair(change.second.name, *((tensor, value) if is_first else (value, tensor))))
        left = len([key for key in model.variables if key != OBJECT_GRAPH_KEY]) - taken
        missing += left
        if left:
            what = f"{left} variables of the {name} have no constant of their name in the other"
            return pairs, [f"{what}: freeze it first (`tfsmith freeze`) to compare constant by constant"]
    return pairs, []


def _compare(pairs: Iterable[TensorPair], tolerance: float) -> tuple[tuple[Comparison, ...], int]:
    """Those that differ, and how many were compared."""
    found, count = [], 0
    for pair in pairs:
        first, second = pair.first, pair.second
        if not first.dtype.itemsize and first.dtype.base.name != "string":
            continue  # a resource has no values to compare
        count += 1
        if _same_place(first, second):
            continue
        found += [
            one
            for one in compare({pair.name: first}, {pair.name: second}, tolerance=tolerance)
            if not one.is_equal(any_dtype=tolerance > 0)
        ]
    return tuple(found), count


def _same_place(first: Tensor, second: Tensor) -> bool:
    """Whether both are the same bytes of one file, so that nothing need be read."""
    if isinstance(first, SpanTensor) and isinstance(second, SpanTensor):
        one, other = first.span, second.span
        identity = getattr(one.source, "identity", None)
        same_file = one.source is other.source or (
            identity is not None and identity == getattr(other.source, "identity", None)
        )
        place = (one.start, one.stop, first.dtype, first.shape)
        return same_file and place == (other.start, other.stop, second.dtype, second.shape)
    if isinstance(first, FilledTensor) and isinstance(second, FilledTensor):
        return (first.dtype, first.shape, first.values) == (second.dtype, second.shape, second.values)
    return first is second


def _weight(one: Comparison) -> dict[str, Any]:
    most = one.max_difference
    return {
        "name": one.name,
        "verdict": one.verdict,
        "first": None if one.first is None else [one.first.dtype.name, shape_facts(one.first.shape)],
        "second": None if one.second is None else [one.second.dtype.name, shape_facts(one.second.shape)],
        "max_difference": most if most is None or abs(most) != float("inf") else str(most),
        "unequal": one.unequal,
    }


def _count(section: Any) -> int:
    if isinstance(section, dict):
        return sum(len(part) for part in section.values() if isinstance(part, list))
    return len(section)
