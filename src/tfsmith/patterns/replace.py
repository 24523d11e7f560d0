"""Replaces what a recipe describes, in a model's graph and in its functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from tfsmith.errors import InvalidModelError, Note, UnsupportedError, UsageError
from tfsmith.ir.body import Body, FreeNames, Part
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Node
from tfsmith.ir.opdef import OpDef, OpLookup
from tfsmith.ir.recipe import Match, Miss, Recipe
from tfsmith.ops.inference import Inference
from tfsmith.patterns.replaceable import (
    Outside,
    Planned,
    Skipped,
    may_be_pruned,
    outside_of_function,
    outside_of_graph,
    plan_match,
    stale_contexts,
    unmet,
)
from tfsmith.records import record
from tfsmith.records import replace as changed

if TYPE_CHECKING:
    from tfsmith.patterns.build import InputRef, NewNode
    from tfsmith.patterns.matcher import Found

__all__ = [
    "Edit",
    "ReplaceOptions",
    "Replacement",
    "Skipped",
    "find",
    "lost_users",
    "meeting",
    "nearest_miss",
    "replace",
    "replace_matches",
]

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


@record
class _Place:
    """Where a tensor is now: with a new node, or with an old one, which may itself have been moved unless fixed."""

    endpoint: Endpoint
    kind: Literal["new", "old", "fixed"]
    match: int


@record
class _NamedNode:
    """A new node with its name."""

    name: str
    node: NewNode
    inputs: tuple[_Place, ...]
    waits: tuple[_Place, ...]


class Edit:
    """Changes to one body.

    Attributes:
        gone: Nodes that are no longer there.
        doomed: Those of them that used a match but led nowhere.
        kept_names: New nodes that only keep a name valid.
        made_ops: What recipes say of ops that nobody knows.
        taken: What new nodes take of old ones.
        is_risky: Whether something that was put in might wait for itself.
    """

    def __init__(self, body: Body, outside: Outside) -> None:
        self._body = body
        self._outside = outside
        self._names = FreeNames([*body.by_name, *body.args])
        self._position = {node.name: at for at, node in enumerate(body.nodes)}
        self._moved: dict[Endpoint, _Place] = {}
        self._waits: dict[str, _Place] = {}
        self._owner: dict[str, int] = {}
        self._inserted: dict[str, list[_NamedNode]] = {}
        self._new: dict[str, NewNode] = {}
        self._count = 0
        self._known: dict[Endpoint, _Place] = {}
        self.gone: set[str] = set()
        self.doomed: set[str] = set()
        self.kept_names: list[str] = []
        self.made_ops: dict[str, OpDef] = {}
        self.taken: dict[str, dict[Endpoint, str]] = {}
        self.is_risky = False

    def add(self, plan: Planned) -> None:
        """Replaces a match."""
        number, self._count = self._count, self._count + 1
        removed = plan.nodes - plan.kept
        self.gone |= removed | plan.sharing.doomed
        self.doomed |= plan.sharing.doomed
        self._owner |= dict.fromkeys(plan.kept, number)
        self._names -= removed
        self._names |= {node.name for node in plan.keepers}
        names = {node.key: self._names.take(node.name) for node in plan.new_nodes}
        names |= {node.key: node.name for node in plan.keepers}
        self.kept_names += [node.name for node in plan.keepers]
        last = max(plan.nodes, key=lambda name: self._position[name])
        for node in (*plan.new_nodes, *plan.keepers):
            inputs = tuple(self._place(source, number, names) for source in node.inputs)
            waits = tuple(self._place(source, number, names) for source in node.waits_for)
            self._new[names[node.key]] = node
            for place in (*inputs, *waits):
                self._take(place, names[node.key])
            self._inserted.setdefault(last, []).append(_NamedNode(names[node.key], node, inputs, waits))
            if not node.is_known:
                self.made_ops[node.op] = node.op_def
        places = {old: self._place(source, number, names) for old, source in plan.outputs.items()}
        self._moved |= places
        for old, place in places.items():
            self._take(place, old.node)
        if places:
            self._waits |= dict.fromkeys(removed, next(iter(places.values())))
        self.is_risky |= len({endpoint.node for endpoint in places}) > 1 or plan.sharing.waiting

    def _take(self, place: _Place, user: str) -> None:
        if place.kind != "new":
            self.taken.setdefault(place.endpoint.node, {})[place.endpoint] = user

    def _place(self, source: InputRef, number: int, names: Mapping[str, str]) -> _Place:
        if source.kind == "new":
            return _Place(Endpoint(names[source.endpoint.node], source.endpoint.output), "new", number)
        return _Place(source.endpoint, "fixed" if source.kind == "found" else "old", number)

    def finish(self) -> Body:
        """The body with all changes. Nodes that no change touches are the very same objects.

        Raises:
            UsageError: In a function, an output of an op that nobody knows has no name.
        """
        self._drop_orphans()
        touched = self._touched()
        nodes: list[Node] = []
        for node in self._body.nodes:
            if node.name not in self.gone:
                nodes.append(self._rewritten(node) if node.name in touched else node)
            nodes += [self._made(new) for new in self._inserted.get(node.name, ())]
        there = {node.name for node in nodes}
        kept = tuple(self._without_lost_places(node, there) for node in nodes)
        if isinstance(self._body, Graph):
            old = self._body
            return Graph(kept, old.versions_part, old.library, ops=self._ops(), extras=old.extras)
        assert isinstance(self._body, Function)
        return self._function(self._body, kept)

    def _function(self, function: Function, nodes: tuple[Node, ...]) -> Function:
        """The function with other nodes; what it gives is rewritten only where a match gave it."""
        ret = {key: self._text(text, None) for key, text in function.ret.items()}
        control_ret = {key: self._text(f"^{name}", None)[1:] for key, name in function.control_ret.items()}
        made = function.replace_nodes(nodes)
        if ret == dict(function.ret) and control_ret == dict(function.control_ret):
            return Function(made.name, made.part, self._ops(), made.base)
        changed = function.replace_nodes(nodes, ret=ret, control_ret=control_ret)
        return Function(changed.name, changed.part, self._ops(), changed.base)

    def _ops(self) -> OpLookup:
        """Finds ops as before, and besides those of which only the recipe knows something."""
        if not self.made_ops:
            return self._body.op_def
        known, made = self._body.op_def, dict(self.made_ops)
        return partial(_find_op, known, made)

    def _touched(self) -> set[str]:
        """The nodes that take a tensor which was moved, or wait for a node that is gone."""
        names = {endpoint.node for endpoint in self._moved} | self.gone
        return {use.node.name for name in names for use in self._body.uses[name]} - self.gone

    def _rewritten(self, node: Node) -> Node:
        data = [self._text(text, node.name) for text in node.inputs if not text.startswith("^")]
        controls = [self._text(text, node.name) for text in node.inputs if text.startswith("^")]
        inputs = (*data, *dict.fromkeys(controls))
        return node if inputs == node.inputs else node.replace(inputs=inputs, attrs={})

    def _text(self, text: str, user: str | None) -> str:
        """An input's text after all changes, as seen by a node, or by what a function gives."""
        endpoint = self._body.resolve(text)
        if endpoint.output == CONTROL:
            place = self._waits.get(endpoint.node) if endpoint.node in self.gone else None
            return text if place is None else f"^{self._awaited(place)}"
        place = self._moved.get(endpoint)
        if place is None or (user is not None and self._owner.get(user) == place.match):
            return text  # a node of the match that is kept goes on taking what it took
        return self._spelled(self._followed(place))

    def _followed(self, place: _Place) -> _Place:
        """Where a tensor is in the end: what took its place may have been replaced in its turn."""
        path: list[Endpoint] = []
        while place.kind == "old" and place.endpoint in self._moved:
            known = self._known.get(place.endpoint)
            if known is not None:
                place = known
                break
            path.append(place.endpoint)
            place = self._moved[place.endpoint]
            if len(path) > len(self._moved):
                what, remedy = "its inputs lead back to itself", "no TensorFlow runs this graph"
                raise InvalidModelError(what, where=f"node {place.endpoint.node!r}", remedy=remedy)
        self._known |= dict.fromkeys(path, place)  # a long row of removed nodes is walked once
        return place

    def _awaited(self, place: _Place) -> str:
        """The node to wait for in place of one that is gone."""
        for _ in range(len(self._moved) + 1):
            place = self._followed(place)
            following = self._waits.get(place.endpoint.node) if place.kind == "old" else None
            if following is None:
                break
            place = following
        return place.endpoint.node

    def _spelled(self, place: _Place) -> str:
        """A tensor as an input of this body is written."""
        name, output = place.endpoint
        if isinstance(self._body, Graph):
            return name if output == 0 else f"{name}:{output}"
        new = self._new.get(name) if place.kind == "new" else None
        if new is not None:
            return f"{name}:{_output_name(new.op_def, new.attrs, output, new.op)}"
        node = self._body.by_name.get(name)
        if node is not None:
            return f"{name}:{_output_name(self._body.op_def(node.op), node.attrs, output, node.op)}"
        assert isinstance(self._body, Function)
        is_list = any(
            arg.name == name and (arg.number_attr or arg.type_list_attr) for arg in self._body.signature.inputs
        )
        return f"{name}:{output}" if is_list else name

    def _made(self, new: _NamedNode) -> Node:
        data = [self._spelled(self._followed(place)) for place in new.inputs]
        waits = [f"^{self._awaited(place)}" for place in new.waits]
        waits += [self._text(f"^{name}", None) for name in new.node.controls]
        return Node(new.name, new.node.op, (*data, *dict.fromkeys(waits)), new.node.attrs, new.node.device)

    def _without_lost_places(self, node: Node, there: set[str]) -> Node:
        """The node without the wish to share the device of a node that is gone, which TensorFlow refuses to load."""
        wanted = node.colocated
        kept = [name for name in wanted if name in there or name not in self.gone]
        return node if len(kept) == len(wanted) else node.colocate(kept)

    def _drop_orphans(self) -> None:
        """Drops what only the matches needed: constants, shapes and the like that nobody takes any more."""
        taken = set(self.taken)
        taken |= {self._followed(place).endpoint.node for place in self._moved.values() if place.kind == "old"}
        taken |= {name for news in self._inserted.values() for new in news for name in new.node.controls}
        todo = [source for name in self.gone for source in self._sources(name)] + list(self._owner)
        while todo:
            name = todo.pop()
            node = self._body.by_name.get(name)
            if node is None or name in self.gone or name in taken or self._is_used(name):
                continue
            if may_be_pruned(self._body, self._outside, node):
                self.gone.add(name)
                todo += self._sources(name)

    def _sources(self, name: str) -> list[str]:
        return [endpoint.node for endpoint in self._body.inputs_of(self._body[name])]

    def _is_used(self, name: str) -> bool:
        """Whether an old node that stays still takes something of this one, or waits for it."""
        for use in self._body.uses[name]:
            place = self._moved.get(Endpoint(name, use.output))
            is_moved = place is not None and self._owner.get(use.node.name) != place.match
            if use.node.name not in self.gone and not is_moved:
                return True
        return False


def _find_op(known: OpLookup, made: Mapping[str, OpDef], name: str) -> OpDef | None:
    return known(name) or made.get(name)


def _output_name(op: OpDef | None, attrs: Mapping[str, Attr], output: int, op_name: str) -> str:
    found = None if op is None else op.output_name(output, attrs)
    if found is None:
        what = f"nobody knows what op {op_name!r} calls its output {output}, which functions must say"
        raise UsageError(what, remedy="name the outputs in the recipe (output_args)")
    return found


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
class Replacement:
    """What became of a search for a recipe.

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


def replace(model: Model, recipe: Recipe, options: ReplaceOptions | None = None) -> Replacement:
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
    searched = find(model, recipe, functions=options.functions)
    done = replace_matches(model, recipe, [match for found in searched for match in found.matches], options)
    if done.matches or done.skipped:
        return done
    reason = f"recipe {recipe.name!r} matches nothing in this model"
    return changed(done, reason=reason, nearest_miss=nearest_miss(searched))


def find(model: Model, recipe: Recipe, *, functions: bool = True) -> list[Found]:
    """Searches the graph, and by default every function, for what a recipe describes. No weights are read.

    Raises:
        UsageError: The recipe contradicts itself.
    """
    from tfsmith.patterns.index import captured_variables  # rules need none of this
    from tfsmith.patterns.matcher import Matcher

    matcher = Matcher(recipe)
    bodies: list[tuple[str | None, Body]] = [(None, model.graph)]
    bodies += model.graph.library.items() if functions else ()
    return [
        matcher.find(
            body, name=name, variables=captured_variables(model.meta, body) if matcher.goes_by_names else _NO_NAMES
        )
        for name, body in bodies
    ]


def meeting(model: Model, matches: Iterable[Match]) -> list[Match]:
    """Those of the matches that meet what their recipe requires; what is not known is not met."""
    known = Inference(model.graph, model.meta.objects)
    found: list[Match] = []
    for match in matches:
        with suppress(UnsupportedError):
            found += [match] if unmet(match, _body(model.graph, match.body), known) is None else []
    return found


def _body(graph: Graph, name: str | None) -> Body:
    return graph if name is None else graph.library[name]


def nearest_miss(searched: Iterable[Found]) -> Miss | None:
    """Of all attempts that failed, the one in which most nodes fitted. Costly."""
    misses = [miss for found in searched if (miss := found.miss) is not None]
    return max(misses, key=lambda miss: miss.matched, default=None)


def replace_matches(
    model: Model, recipe: Recipe, matches: Iterable[Match], options: ReplaceOptions | None = None
) -> Replacement:
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
        self._inference = Inference(model.graph, model.meta.objects)
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
                self._inference,
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

    def result(self) -> Replacement:
        """The model with all changes."""
        if not self._done:
            reason = None
            if self._skipped:
                count = len(self._skipped)
                reason = f"{count} matches were found, and none could be replaced: {self._skipped[0].reason}"
                reason = reason if count > 1 else f"a match was found, but not replaced: {self._skipped[0].reason}"
            return Replacement(self._model, (), tuple(self._skipped), (), reason, None)
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
        return Replacement(model, tuple(self._done), tuple(self._skipped), tuple(self._notes(stale)), None, None)

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
            yield lost_users(doomed)
        names = [name for edit in self._edits.values() for name in edit.kept_names]
        if names:
            yield Note("an Identity keeps a name that is used from outside", tuple(names), "nothing is to be done")
        if stale:
            what = "TF1's records of loops and conditions named nodes that are gone, and were left out"
            yield Note(what, tuple(stale), "the model runs without them; only gradients need them")


def lost_users(names: Sequence[str]) -> Note:
    """What is to be known of nodes that went with a match."""
    what = "nodes that used inner values of a match but lead to no output are gone"
    return Note(what, tuple(names), "if one of them is wanted, name it as an output ({outputs})")


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
