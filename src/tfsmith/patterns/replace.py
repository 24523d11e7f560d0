"""Replaces what a recipe describes, in a model's graph and in its functions.

Nodes that no match touches keep their bytes. Names that something outside refers to (a signature, a collection, a
likely output) stay valid: where no new node has such a name, an Identity is put there that has. The definitions that a
meta graph carries of its ops stay as they are, for TensorFlow has its own; only an op that nobody knows is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tfsmith.errors import InvalidModelError
from tfsmith.ir.body import Body
from tfsmith.ir.function import Function
from tfsmith.ir.graph import Graph
from tfsmith.ir.match import Match, Miss
from tfsmith.ir.metagraph import MetaGraph
from tfsmith.ir.model import Model
from tfsmith.ir.opdef import OpDef
from tfsmith.ir.part import Part
from tfsmith.ir.recipe import Recipe
from tfsmith.passes.training import Note
from tfsmith.patterns.captured import captured_variables
from tfsmith.patterns.knowledge import Knowledge
from tfsmith.patterns.matcher import Found, Matcher
from tfsmith.patterns.planning import Planned, Skipped, plan_match
from tfsmith.patterns.rewire import Edit
from tfsmith.patterns.users import Outside, outside_of_function, outside_of_graph, stale_contexts
from tfsmith.records import record
from tfsmith.records import replace as changed

__all__ = ["ReplaceOptions", "Replaced", "Skipped", "replace", "replace_matches"]


@record
class ReplaceOptions:
    """How to replace.

    Attributes:
        keep_shared: Whether inner nodes that others use stay alive beside the new ones; else such a match is skipped.
        outputs: Tensors or nodes that count as outputs, besides those that the model names.
        limit: The most matches to replace.
        functions: Whether to look into functions, too.
    """

    keep_shared: bool = False
    outputs: tuple[str, ...] = ()
    limit: int | None = None
    functions: bool = True


@record
class Replaced:
    """What became of it.

    Attributes:
        model: The new model; the old one if nothing was replaced.
        matches: The matches that were replaced.
        skipped: The matches that were left as they are, and why.
        notes: What the user should know.
        reason: Why nothing was replaced, in a sentence; None if something was.
        nearest_miss: The attempt that came nearest, if nothing matched.
    """

    model: Model
    matches: tuple[Match, ...]
    skipped: tuple[Skipped, ...]
    notes: tuple[Note, ...]
    reason: str | None
    nearest_miss: Miss | None


def replace(model: Model, recipe: Recipe, options: ReplaceOptions | None = None) -> Replaced:
    """Replaces every occurrence of what a recipe describes. No weights are read.

    Args:
        model: The model; its selected meta graph counts.
        recipe: What to find and what to put there.
        options: How.

    Raises:
        UsageError: The recipe contradicts itself.
        NotFoundInModelError: An output is not in the graph.
    """
    options = ReplaceOptions() if options is None else options
    graph = model.graph
    matcher = Matcher(recipe)
    matches: list[Match] = []
    searched: list[Found] = []
    for name, body in _bodies(graph, options):
        variables = captured_variables(model.meta, body) if matcher.goes_by_names else {}
        found = matcher.find(body, name=name, variables=variables)
        matches += found.matches
        searched.append(found)
    done = replace_matches(model, recipe, matches, options)
    if done.matches or done.skipped:
        return done
    misses = [miss for found in searched if (miss := found.miss) is not None]
    nearest = max(misses, key=lambda miss: miss.matched, default=None)
    reason = f"recipe {recipe.name!r} matches nothing in this model"
    return changed(done, reason=reason, nearest_miss=nearest)


def _bodies(graph: Graph, options: ReplaceOptions) -> Iterator[tuple[str | None, Body]]:
    yield None, graph
    if options.functions:
        yield from graph.library.items()


def replace_matches(
    model: Model, recipe: Recipe, matches: Iterable[Match], options: ReplaceOptions | None = None
) -> Replaced:
    """Replaces these matches, which must not overlap. Linear in the nodes of the bodies that they are in."""
    options = ReplaceOptions() if options is None else options
    work = _Work(model, recipe, options)
    by_body: dict[str | None, list[Match]] = {}
    for match in matches:
        by_body.setdefault(match.body, []).append(match)
    for name, found in by_body.items():
        work.replace_in(name, found)
    return work.result()


class _Work:
    """One replacement in a whole model."""

    def __init__(self, model: Model, recipe: Recipe, options: ReplaceOptions) -> None:
        self._model = model
        self._recipe = recipe
        self._options = options
        self._knowledge = Knowledge(model.graph, model.meta.objects)
        self._bodies: dict[str | None, Body] = {}
        self._done: list[Match] = []
        self._skipped: list[Skipped] = []
        self._edits: dict[str | None, Edit] = {}

    def replace_in(self, name: str | None, matches: Sequence[Match]) -> None:
        """Replaces the matches of one body, as far as they can be."""
        graph = self._model.graph
        if name is None:
            body: Body = graph
            outside = outside_of_graph(self._model, self._options.outputs)
        else:
            function = graph.library[name]
            body, outside = function, outside_of_function(function, self._model.meta)
        plans, edit = self._plan(body, outside, matches)
        result = edit.finish()
        if edit.is_risky and _goes_in_circles(result) and not _goes_in_circles(body):
            plans, edit, result = self._one_by_one(body, outside, plans)
        if plans:
            self._bodies[name], self._edits[name] = result, edit
            self._done += [plan.match for plan in plans]

    def _plan(self, body: Body, outside: Outside, matches: Sequence[Match]) -> tuple[list[Planned], Edit]:
        edit = Edit(body, outside)
        plans: list[Planned] = []
        for match in matches:
            if self._options.limit is not None and len(self._done) + len(plans) >= self._options.limit:
                break
            plan = plan_match(
                match,
                self._recipe,
                body,
                outside,
                self._knowledge,
                gone=edit.gone,
                taken=edit.taken,
                keep_shared=self._options.keep_shared,
            )
            if isinstance(plan, Skipped):
                self._skipped.append(plan)
            else:
                edit.add(plan)
                plans.append(plan)
        return plans, edit

    def _one_by_one(self, body: Body, outside: Outside, plans: Sequence[Planned]) -> tuple[list[Planned], Edit, Body]:
        """The same without those matches that would make the graph wait for itself. Linear for each match; rare."""
        kept: list[Planned] = []
        for plan in plans:
            if _goes_in_circles(_edited(body, outside, [*kept, plan])[1]):
                reason = (
                    "one of its inputs needs one of its outputs, so that one node in its place would wait for itself"
                )
                self._skipped.append(Skipped(plan.match, reason))
            else:
                kept.append(plan)
        return kept, *_edited(body, outside, kept)

    def result(self) -> Replaced:
        """The model with all changes."""
        if not self._done:
            reason = None
            if self._skipped:
                count = len(self._skipped)
                reason = f"{count} matches were found, and none could be replaced: {self._skipped[0].reason}"
                reason = reason if count > 1 else f"a match was found, but not replaced: {self._skipped[0].reason}"
            return Replaced(self._model, (), tuple(self._skipped), (), reason, None)
        graph = self._bodies.get(None, self._model.graph)
        assert isinstance(graph, Graph)
        functions = {name: body for name, body in self._bodies.items() if isinstance(body, Function)}
        if functions:
            named = {name: functions.get(name, function) for name, function in graph.library.items()}
            graph = graph.replace(library=graph.library.replace(named))
        model = self._model.replace_graph(graph)
        meta, stale = self._cleaned(model.meta)
        if meta is not model.meta:
            metas = list(model.meta_graphs)
            metas[model.selected] = meta
            model = changed(model, meta_graphs=tuple(metas))
        return Replaced(model, tuple(self._done), tuple(self._skipped), tuple(self._notes(stale)), None, None)

    def _cleaned(self, meta: MetaGraph) -> tuple[MetaGraph, tuple[str, ...]]:
        """The meta graph with the ops that only the recipe knows, and without lists of nodes that are gone."""
        made: dict[str, OpDef] = {}
        for name, edit in self._edits.items():
            if name is not None:  # only functions name outputs by what the op calls them
                made |= {op: found for op, found in edit.made_ops.items() if found.outputs}
        if made and self._model.kind in ("saved_model", "metagraph"):
            info = changed(meta.info, ops={**meta.info.ops, **made})
            meta = changed(meta, info_part=Part.of(info))
        stale = stale_contexts(meta, self._edits[None].gone) if None in self._edits else ()
        if stale:
            kept = {key: found for key, found in meta.collections.items() if key not in stale}
            meta = changed(meta, collections_part=Part.of(kept))
        return meta, stale

    def _notes(self, stale: Sequence[str]) -> Iterator[Note]:
        doomed = sorted(name for edit in self._edits.values() for name in edit.doomed)
        if doomed:
            what = "nodes that used inner values of a match but lead to no output are gone"
            yield Note(what, tuple(doomed), "if one of them is wanted, name it as an output (--outputs)")
        names = [name for edit in self._edits.values() for name in edit.kept_names]
        if names:
            yield Note("an Identity keeps a name that is used from outside", tuple(names), "nothing is to be done")
        if stale:
            what = "TF1's records of loops and conditions named nodes that are gone, and were left out"
            yield Note(what, tuple(stale), "the model runs without them; only gradients need them")


def _edited(body: Body, outside: Outside, plans: Sequence[Planned]) -> tuple[Edit, Body]:
    edit = Edit(body, outside)
    for plan in plans:
        edit.add(plan)
    return edit, edit.finish()


def _goes_in_circles(body: Body) -> bool:
    try:
        body.topological_order()
    except InvalidModelError:
        return True
    return False
