"""`replace` and `find`: where a recipe's pattern is in a model, and the recipe's nodes in its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import Hint, data_of
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Match, Miss, Recipe, Unit
from tfsmith.patterns.replace import Replacement, ReplaceOptions, Skipped, meeting, nearest_miss
from tfsmith.patterns.replace import find as find_matches
from tfsmith.patterns.replace import replace as replace_matches
from tfsmith.patterns.rule import Rule
from tfsmith.records import field, record
from tfsmith.verbs._declare import checked
from tfsmith.verbs._shared import ModelResult, Result, open_model, output_name, size_of, sized
from tfsmith.verbs.recipe import read_recipe
from tfsmith.view import plural

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.patterns.matcher import Found
    from tfsmith.verbs._prove import Checks, Verified
    from tfsmith.verbs._shared import FilePath, MatchingLoads, MatchingProves, ModelOrPath, Names, Out
    from tfsmith.verbs.recipe import RecipeOrPath

__all__ = ["FLAGS", "Matches", "Replaced", "find", "left_alone", "replace"]

FLAGS = MappingProxyType({"recipe": ("-r", "--recipe"), "out": ("--output",)})
_SHOWN = 100
"""So many matches or nodes are listed."""
_NAMES = re.compile(r"'[^']*'|\S+(?= \(\w+\))|\d+")
"""What differs in reasons that are alike: names in quotes, users with their ops, numbers."""


@record(eq=False)
class Matches(Result, Sequence[Match]):
    """Where a recipe's pattern is in a model; a sequence of `Match`.

    Attributes:
        matches: The matches: each has `nodes`, `outputs`, `bindings`, and `where` it is.
        notes: What the user should know.
    """

    matches: tuple[Match, ...]
    notes: tuple[str, ...] = ()
    _searched: Sequence[Found] = field(default=(), repr=False)
    _nearest: Miss | None = field(default=None, repr=False)

    def __getitem__(self, index: Any) -> Any:
        return self.matches[index]

    def __len__(self) -> int:
        return len(self.matches)

    def __bool__(self) -> bool:
        return bool(self.matches)

    @property
    def nearest_miss(self) -> Miss | None:
        """The attempt that failed and came nearest to a match, and why it failed. The first call is costly."""
        return self._nearest or nearest_miss(self._searched)

    def report(self) -> Iterator[str]:
        """One match on a line; the nearest miss if there is none."""
        yield from _match_lines(self.matches) if self.matches else _miss_lines(self.nearest_miss)

    def to_json(self) -> dict[str, Any]:
        """The matches, with all that was bound."""
        return {"matches": [_match_facts(match) for match in self.matches]}


@checked
def find(
    model: ModelOrPath, recipe: RecipeOrPath, *, functions: bool = True, **options: Unpack[MatchingLoads]
) -> Matches:
    """Finds all that fits a recipe, in the graph and in every function, and changes nothing. Reads no weights.

    Args:
        model: A model, or what `load` takes.
        recipe: The recipe, its file, or the name of one that comes with tfsmith.
        functions: Whether to look into functions, too.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    opened, found = open_model(model, options), read_recipe(recipe, options)
    if isinstance(found, Rule):
        from tfsmith.patterns.rule_search import find_rule

        of_rule = find_rule(opened, found, functions=functions)
        return Matches(tuple(meeting(opened, of_rule.matches)), _nearest=of_rule.nearest)
    searched = find_matches(opened, found, functions=functions)
    matches = meeting(opened, [match for each in searched for match in each.matches])
    return Matches(tuple(matches), _searched=searched)


@record(eq=False)
class Replaced(Replacement, ModelResult):
    """What came of a replacement.

    Attributes:
        model: The new model; the old one if nothing was replaced.
        matches: The matches that were replaced.
        skipped: The matches that were left as they are, and why.
        notes: What the user should know.
        reason: Why nothing was replaced, in a sentence; None if something was.
        nearest_miss: The attempt that came nearest, if nothing matched.
        source: The model as it was.
        recipe: The recipe.
        outputs: What counted as an output besides what signatures name.
        explain: Whether the report has the nearest miss.
        read: The file of the recipe.
        link: Whether weight files are hard-linked.
        is_trial: Whether nothing was to be written.
        out: Where the model was written, if it was.
        verified: How its outputs compare with the original's, if that was asked for.
    """

    source: Model
    recipe: Recipe
    outputs: tuple[str, ...] = ()
    explain: bool = False
    read: tuple[FilePath, ...] = ()
    link: bool = False
    is_trial: bool = False
    out: Path | None = None
    verified: Verified | None = None

    def __bool__(self) -> bool:
        """Whether something was replaced, and the result computes what the original does, as far as that was asked."""
        return bool(self.matches) and ModelResult.__bool__(self)

    def report(self) -> Iterator[str]:
        """The matches, the new nodes, and how many are gone; or why nothing matched."""
        if not self.matches:
            yield Hint(f"No match: {data_of(self.reason or '')}{'' if self.is_trial else '; nothing was written'}")
            if self.explain and not self.skipped:
                yield from _miss_lines(self.nearest_miss)
            return
        if self.is_trial:
            yield f"Recipe {self.recipe.name}: {_matches(len(self.matches))} would be replaced"
        yield from _match_lines(self.matches)
        added, removed = self._changes()
        for node in added[:_SHOWN]:
            yield f"  + {node.name} ({node.op}, {plural(len(node.data_inputs), 'input')})"
        if len(added) > _SHOWN:
            yield f"  + {len(added) - _SHOWN:,} more"
        if removed:
            yield f"  - {plural(removed, 'node')}{' would go' if self.is_trial else ''}"
        if self.out is not None:
            yield f"Wrote {sized(self.out)}"

    def to_json(self) -> dict[str, Any]:
        """The same, with all that was bound."""
        added, removed = self._changes()
        miss = self.nearest_miss
        return {
            "output": None if self.out is None else output_name(self.out),
            "bytes": size_of(self.out),
            "matches": [_match_facts(match) for match in self.matches],
            "added": [{"name": node.name, "op": node.op, "inputs": list(node.inputs)} for node in added],
            "removed": removed,
            "skipped": [skipped.reason for skipped in self.skipped],
            "warnings": [str(note) for note in self.notes],
            "reason": self.reason,
            "nearest_miss": None
            if miss is None
            else {
                "function": miss.body,
                "variant": miss.variant,
                "matched": miss.matched,
                "wanted_node": miss.wanted_node,
                "found_node": miss.found_node,
                "reason": miss.reason,
            },
        }

    def _changes(self) -> tuple[list[Node], int]:
        """The nodes that are new, and how many are gone."""
        if not self.model.has_graph:  # it was written as a checkpoint alone
            return [], 0
        before, after = self.source.graph, self.model.graph
        pairs = [(before, after), *((before.library[name], one) for name, one in after.library.items())]
        added: list[Node] = []
        removed = 0
        for old, new in pairs:
            if old is new:
                continue
            for node in new:
                same = old.by_name.get(node.name)
                if same is None or (same is not node and same.op != node.op):
                    added.append(node)
            removed += sum(name not in new.by_name for name in old.by_name)
        return added, removed

    def prove(self, written: Model, checks: Checks) -> Verified:
        """Compares the outputs. A graph alone has no weights beside it, so it is run as it is in memory."""
        is_alone = bool(self.source.variables) and not written.variables
        return checks.outputs(self.source, self.model if is_alone else written, {one: one for one in self.outputs})


@checked
def replace(
    model: ModelOrPath,
    recipe: RecipeOrPath,
    *,
    out: Out = None,
    keep_shared: bool = False,
    outputs: Names = (),
    limit: int | None = None,
    functions: bool = True,
    explain: bool = False,
    link: bool = False,
    **options: Unpack[MatchingProves],
) -> Replaced:
    """Finds all that fits a recipe, in the graph and in every function, and puts the recipe's nodes in its place.

    Everything else stays as it is, byte for byte; no weights are read.

    Args:
        model: A SavedModel, a `.meta`, a GraphDef, or a checkpoint with its graph.
        recipe: A `.toml`, `.pb` or `.pbtxt`, or a name of `recipe list`.
        out: Its ending decides: `.pb`, `.pbtxt`, `.meta` with its checkpoint; without one a SavedModel folder.
        keep_shared: Keep nodes of a match that others use, beside the new ones; else such a match is left alone.
        outputs: What counts as an output, besides what signatures name; of a graph without any, the likely ones.
        limit: Replace so many matches at most.
        functions: Look into functions, too.
        explain: If nothing matches: report what came nearest, and why not.
        link: Hard-link the weight files of a folder, in place of copies.

    Returns:
        The model and the matches; if there are none, the reason, and the nearest miss.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith replace frozen.pb -r bert-encoder -o fused.pb
    """
    found = read_recipe(recipe, options)
    source = open_model(model, options)
    if not source.has_graph:
        raise source.no_graph()
    names = tuple(outputs)
    how = ReplaceOptions(keep_shared, names, limit, functions)
    done = _replace_rule(source, found, how) if isinstance(found, Rule) else replace_matches(source, found, how)
    notes: list[Any] = list(done.notes)
    if done.matches or len(done.skipped) > 1:  # else the reason says it
        notes[:0] = left_alone(done.skipped)
    result = Replaced(
        done.model, done.matches, done.skipped, tuple(notes), done.reason, done.nearest_miss, source, found, names,
        explain, () if isinstance(recipe, Recipe) else (recipe,), link,
    )  # fmt: skip
    return result.placed(out, options) if done.matches else result


def _replace_rule(model: Model, rule: Rule, options: ReplaceOptions) -> Replacement:
    if rule.search is not None:
        found: Replacement = rule.search(model, options)
        return found
    from tfsmith.patterns.rule_search import replace_rule

    return replace_rule(model, rule, options)


def left_alone(skipped: Sequence[Skipped]) -> Iterator[str]:
    """A line for each kind of reason, however many matches it is about."""
    groups: dict[str, list[Skipped]] = {}
    for one in skipped:
        groups.setdefault(_NAMES.sub("", one.reason), []).append(one)
    for alike in groups.values():
        first = alike[0].reason
        if len(alike) == 1:
            yield f"a match was left alone: {first}"
        elif all(one.reason == first for one in alike):
            yield f"{len(alike):,} matches were left alone: {first}"
        else:
            yield f"{len(alike):,} matches were left alone, the first because {first}, the others likewise"


def _matches(count: int) -> str:
    return f"{count:,} match{'' if count == 1 else 'es'}"


def _match_lines(matches: Sequence[Match]) -> Iterator[str]:
    for number, match in enumerate(matches[:_SHOWN], 1):
        units = f" in {plural(len(match.units), 'unit')}" if match.variant.repeat is not None else ""
        yield f"match {number} in {match.where}: {', '.join(match.outputs)} ({plural(len(match.nodes), 'node')}{units})"
    if len(matches) > _SHOWN:
        yield f"... and {len(matches) - _SHOWN:,} more"


def _miss_lines(miss: Miss | None) -> Iterator[str]:
    """The attempt that came nearest, and why it failed."""
    if miss is None:
        yield "No node of the model is like any output that is wanted"
        return
    place = "the graph" if miss.body is None else f"function {miss.body}"
    yield f"nearest miss in {place} (variant {miss.variant}): {plural(miss.matched, 'node')} fitted"
    yield f"  wanted {miss.wanted_node}: {miss.reason}"


def _match_facts(match: Match) -> dict[str, Any]:
    return {
        "function": match.body,
        "variant": match.variant.name,
        "outputs": list(match.outputs),
        "units": [_unit_facts(unit) for unit in match.units],
        "before": None if match.before is None else _unit_facts(match.before),
    }


def _unit_facts(unit: Unit) -> dict[str, Any]:
    inputs = {name: str(endpoint) for name, endpoint in unit.inputs.items()}
    return {"nodes": dict(unit.nodes), "inputs": inputs, "passed": list(unit.passed)}
