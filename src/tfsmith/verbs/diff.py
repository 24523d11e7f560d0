"""`diff`: what changed between two models."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from tfsmith.errors import Hint, NotFoundInModelError, TfsmithError, UsageError
from tfsmith.ir.graph import graph_warning
from tfsmith.ir.model import OBJECT_GRAPH_KEY, Model
from tfsmith.ir.tensor import FilledTensor, SpanTensor, Tensor
from tfsmith.ops import VARIABLES
from tfsmith.passes.diff import diff_structure
from tfsmith.passes.diff_bodies import StructureDifference, TensorPair, ValueChange
from tfsmith.passes.variables import find_value, restore_sources
from tfsmith.records import field, record, replace
from tfsmith.storage import open_file
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import Result, check_room, open_model
from tfsmith.view import Section, human_count
from tfsmith.view.summary import difference_facts
from tfsmith.weights.compare import Comparison, pair_weights
from tfsmith.weights.compare import compare_weights as compare
from tfsmith.weights.source import weights_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.verbs._shared import FilePath, Loads, ModelOrPath, Names

__all__ = ["SECTIONS", "ModelDiff", "diff"]

SECTIONS = ("versions", "signatures", "nodes", "functions", "collections", "assets", "others", "weights")
"""What a model is compared by, in the order of the report."""
_LONGEST = 120
"""Of a value that is shown; a list in an attribute may have thousands of items."""
_MOST_INPUTS = 8
"""Of a node that are shown; the node that restores all variables waits for hundreds."""
Row = tuple[str, ...]


@record
class ModelDiff(Result):
    """What differs between two models; true if nothing does.

    Attributes:
        first: The one model.
        second: The other.
        only: The sections that were compared.
        structure: Everything but the weights; empty where one of the models has no graph.
        weights: The weights that differ, by name.
        weight_count: How many weights were compared.
        notes: What could not be compared, and why.
        limit: How many entries of each section the report has.
        paths: What the two were called.
    """

    first: Model
    second: Model
    only: tuple[str, ...]
    structure: StructureDifference
    weights: tuple[Comparison, ...] = ()
    weight_count: int = 0
    notes: tuple[str, ...] = ()
    limit: int = 20
    paths: tuple[str, str] = ("", "")
    _facts: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_equal(self) -> bool:
        """Whether nothing differs in what was compared."""
        return not any(self.counts().values())

    def __bool__(self) -> bool:
        return self.is_equal

    @property
    def warnings(self) -> tuple[str, ...]:
        """None: the report has the notes."""
        return ()

    def report(self) -> Iterator[Section]:
        """One section for each kind of difference that there is, and a summary."""
        facts = self.facts()
        for name in self.only:
            part = facts[name]
            if name == "nodes":
                yield from _cut(name, part, _node_entries(part), self.limit)
            elif name == "functions":
                yield from _cut(name, part, _function_entries(part, self.limit), self.limit)
            else:
                row = _weight_row if name == "weights" else _value_row
                yield from _cut(name, part, ([row(one)] for one in part), self.limit)
        yield self._summary()

    def _summary(self) -> Section:
        """The last line, and what could not be compared."""
        counts = {name: count for name, count in self.counts().items() if count}
        total = sum(counts.values())
        same = []
        if "nodes" in self.only and self.first.has_graph and self.second.has_graph:
            same.append(f"{human_count(self.structure.nodes.same)} nodes")
        if "weights" in self.only:
            both = sum(one.first is not None and one.second is not None for one in self.weights)
            same.append(f"{human_count(self.weight_count - both)} weights")
        words = f" ({' and '.join(same)} are the same)" if same else ""
        parts = ", ".join(f"{name} {human_count(count)}" for name, count in counts.items())
        line = f"{human_count(total)} difference{'s' * (total != 1)}: {parts}" if total else "no difference"
        return Section(line + words, notes=tuple(f"note: {note}" for note in self.notes))

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"first": self.paths[0], "second": self.paths[1], "equal": self.is_equal, **self.facts()}

    def counts(self) -> dict[str, int]:
        """How many differences each section has."""
        return {section: _count(self.facts()[section]) for section in self.only}

    def facts(self) -> dict[str, Any]:
        """All of it as plain data, ready for JSON."""
        if not self._facts:
            facts = difference_facts(self.structure)
            facts["weights"] = [one.facts() for one in self.weights]
            self._facts.update({section: facts[section] for section in self.only})
            self._facts["notes"] = list(self.notes)
            self._facts["weight_count"] = self.weight_count
        return self._facts


@checked
def diff(
    a: ModelOrPath,
    b: ModelOrPath,
    *,
    only: Names = (),
    weights: bool = True,
    tolerance: float = 0.0,
    inferred_shapes: bool = False,
    limit: int = 20,
    all: bool = False,
    other_checkpoint: FilePath | None = None,
    **options: Unpack[Loads],
) -> ModelDiff:
    """Tells what changed between two models, of any two kinds. Linear; reads weights in pieces.

    Nodes and functions are paired by name, then by what they do: one that comes back under another name is renamed.

    Args:
        a: A SavedModel, a `.meta`, a GraphDef, a checkpoint prefix or folder.
        b: Another one, of the same kind or not.
        only: Compare only these sections: versions, signatures, nodes, functions, collections, assets, others, weights.
        weights: Read constants and variables and compare their values.
        tolerance: How far values may differ and still count as equal.
        inferred_shapes: Count the shapes that TensorFlow notes down at each node (`_output_shapes`), too.
        limit: Report so many entries of each section.
        all: Report them all.
        other_checkpoint: The checkpoint of B, if none lies beside its graph.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith diff model-1 model-2 --only signatures,nodes
    """
    wrong = [section for section in only if section not in SECTIONS]
    if wrong:
        raise UsageError(f"there is no section {wrong[0]!r}", remedy=f"the sections are: {', '.join(SECTIONS)}")
    if limit < 0:
        raise UsageError(f"{{limit={limit}}} shows nothing", remedy="pass 0 or more, or {all=True}")
    check_room(tolerance=tolerance)
    one, other = (_open(model, {**options, **more}) for model, more in ((a, {}), (b, {"checkpoint": other_checkpoint})))
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
    kept = tuple(note for note in notes if note)
    shown = sys.maxsize if all else limit
    return ModelDiff(one, other, wanted, structure, found, count, kept, shown, (_name(a, one), _name(b, other)))


def _open(model: ModelOrPath, options: Mapping[str, Any]) -> Model:
    """A model of the two; tags choose among meta graphs, where there are any."""
    opened = open_model(model, {**options, "tags": None})
    return opened if options.get("tags") is None or not opened.has_graph else opened.select(options["tags"])


def _name(given: ModelOrPath, model: Model) -> str:
    return str(given) if isinstance(given, (str, os.PathLike)) else str(model.path or "")


def _unequal_kinds(one: Model, other: Model) -> Iterator[str]:
    """What only one of the two files can hold, and where one lacks nodes."""
    for name, model in (("first", one), ("second", other)):
        warning = graph_warning(model.graph)
        if warning:
            yield f"of the {name}: {warning}"
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
            return pairs, [Hint(f"{what}: freeze it first ({{freeze(model)}}) to compare constant by constant")]
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


def _count(section: Any) -> int:
    if isinstance(section, dict):
        return sum(len(part) for part in section.values() if isinstance(part, list))
    return len(section)


def _cut(title: str, part: Any, entries: Iterable[list[Row]], limit: int) -> Iterator[Section]:
    count, words = _numbers(part)
    if not count:
        return
    rows = [row for entry in islice(entries, limit) for row in entry]
    left = count - limit
    notes = (Hint(f"and {human_count(left)} more; {{all=True}} shows them"),) if left > 0 else ()
    yield Section(f"{title}: {words}", rows, notes=notes)


def _numbers(part: Any) -> tuple[int, str]:
    if not isinstance(part, dict):
        return len(part), f"{human_count(len(part))} differ{'s' * (len(part) == 1)}"
    counts = {name: len(items) for name, items in part.items() if isinstance(items, list) and items}
    words = ", ".join(f"{human_count(count)} {name}" for name, count in counts.items())
    rewired = sum("inputs" in one for one in part["changed"])
    return sum(counts.values()), f"{words} ({human_count(rewired)} rewired)" if rewired else words


def _node_entries(part: dict[str, Any]) -> Iterator[list[Row]]:
    for one in part["changed"]:
        yield _changed(one)
    for one in part["renamed"]:
        yield [(">", f"{one['first']} -> {one['second']}", one["op"])]
    for one in part["removed"]:
        yield [("-", one["name"], one["op"])]
    for one in part["added"]:
        yield [("+", one["name"], one["op"])]


def _changed(one: dict[str, Any]) -> list[Row]:
    op = one["op"]
    rows: list[Row] = [("~", one["name"], op if isinstance(op, str) else f"{op['first']} -> {op['second']}")]
    inputs = one.get("inputs", ())
    for change in inputs[:_MOST_INPUTS]:
        what = "control input" if change["index"] is None else f"input {change['index']}"
        rows.append(("", f"  {what}", _arrow(change)))
    if len(inputs) > _MOST_INPUTS:
        rows.append(("", f"  and {human_count(len(inputs) - _MOST_INPUTS)} more inputs", ""))
    for change in one.get("attrs", ()):
        rows.append(("", f"  {change['name']}", _arrow(change)))
    if "device" in one:
        rows.append(("", "  device", _arrow(one["device"])))
    return rows


def _function_entries(part: dict[str, Any], limit: int) -> Iterator[list[Row]]:
    for one in part["changed"]:
        rows: list[Row] = [("~", one["name"], _numbers(one["nodes"])[1])]
        rows += [("", f"  {change['name']}", _arrow(change)) for change in (*one["facts"], *one["attrs"])]
        inner = islice(_node_entries(one["nodes"]), limit)
        rows += [("", f"  {mark or ' '} {name}", what) for entry in inner for mark, name, what in entry]
        left = _numbers(one["nodes"])[0] - limit
        yield [*rows, ("", f"  and {human_count(left)} more nodes", "")] if left > 0 else rows
    for one in part["renamed"]:
        yield [(">", f"{one['first']} -> {one['second']}")]
    for name in part["removed"]:
        yield [("-", name)]
    for name in part["added"]:
        yield [("+", name)]


def _value_row(change: dict[str, Any]) -> Row:
    mark = "+" if change["first"] is None else "-" if change["second"] is None else "~"
    if mark == "~":
        return (mark, change["name"], _arrow(change))
    return (mark, change["name"], _text(change["second"] if mark == "+" else change["first"]))


def _weight_row(one: dict[str, Any]) -> Row:
    if one["verdict"].startswith("only"):
        mark, there = ("-", one["first"]) if one["second"] is None else ("+", one["second"])
        return (mark, one["name"], f"{there[0]} {_text(there[1])}")
    if one["verdict"] == "shape" or one["first"] != one["second"]:
        what = " -> ".join(f"{there[0]} {_text(there[1])}" for there in (one["first"], one["second"]))
        return ("~", one["name"], what)
    most = one["max_difference"]
    number = "" if most is None else f"by at most {most:.4g}" if isinstance(most, float) else f"by {most}"
    values = "" if one["unequal"] is None else f"{human_count(one['unequal'])} values differ"
    return ("~", one["name"], " ".join(word for word in (values, number) if word) or "differs")


def _arrow(change: dict[str, Any]) -> str:
    return f"{_text(change['first'])} -> {_text(change['second'])}"


def _text(value: Any) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, dict) and set(value) == {"dtype", "shape"}:
        return f"{value['dtype']} {_text(value['shape'])}"
    if isinstance(value, dict) and set(value) == {"function"}:
        return str(value["function"])
    text = value if isinstance(value, str) and value else json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 3 :]}"
