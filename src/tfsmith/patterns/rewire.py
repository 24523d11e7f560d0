"""The changes that matches make to one graph or function: gathered match by match, then made at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from tfsmith.errors import InvalidModelError, UsageError
from tfsmith.ir.attr import Attr
from tfsmith.ir.body import Body
from tfsmith.ir.function import Function
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import CONTROL, Endpoint, Node
from tfsmith.ir.opdb import OpLookup
from tfsmith.ir.opdef import OpDef
from tfsmith.passes.prune import colocated
from tfsmith.patterns.build import Draft, Source
from tfsmith.patterns.planning import Planned
from tfsmith.patterns.users import Outside, may_be_pruned
from tfsmith.records import record

__all__ = ["Edit"]


@record
class _Place:
    """Where a tensor is now: with a new node, or with an old one, which may itself have been moved unless fixed."""

    endpoint: Endpoint
    kind: Literal["new", "old", "fixed"]
    match: int


@record
class _New:
    """A new node with its name."""

    name: str
    draft: Draft
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
        self._names = {*body.by_name, *body.args}
        self._position = {node.name: at for at, node in enumerate(body.nodes)}
        self._moved: dict[Endpoint, _Place] = {}
        self._waits: dict[str, _Place] = {}
        self._owner: dict[str, int] = {}
        self._inserted: dict[str, list[_New]] = {}
        self._new: dict[str, Draft] = {}
        self._count = 0
        self._numbers: dict[str, int] = {}
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
        self._names |= {draft.name for draft in plan.keepers}
        names = {draft.key: self._fresh(draft.name) for draft in plan.drafts}
        names |= {draft.key: draft.name for draft in plan.keepers}
        self.kept_names += [draft.name for draft in plan.keepers]
        last = max(plan.nodes, key=lambda name: self._position[name])
        for draft in (*plan.drafts, *plan.keepers):
            inputs = tuple(self._place(source, number, names) for source in draft.inputs)
            waits = tuple(self._place(source, number, names) for source in draft.waits_for)
            self._new[names[draft.key]] = draft
            for place in (*inputs, *waits):
                self._take(place, names[draft.key])
            self._inserted.setdefault(last, []).append(_New(names[draft.key], draft, inputs, waits))
            if not draft.is_known:
                self.made_ops[draft.op] = draft.op_def
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

    def _place(self, source: Source, number: int, names: Mapping[str, str]) -> _Place:
        if source.kind == "new":
            return _Place(Endpoint(names[source.endpoint.node], source.endpoint.output), "new", number)
        return _Place(source.endpoint, "fixed" if source.kind == "found" else "old", number)

    def _fresh(self, name: str) -> str:
        found, number = name, self._numbers.get(name, 0)
        while found in self._names:
            number += 1
            found = f"{name}_{number}"
        self._names.add(found)
        self._numbers[name] = number
        return found

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
        return lambda name: known(name) or made.get(name)

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
        draft = self._new.get(name) if place.kind == "new" else None
        if draft is not None:
            return f"{name}:{_output_name(draft.op_def, draft.attrs, output, draft.op)}"
        node = self._body.by_name.get(name)
        if node is not None:
            return f"{name}:{_output_name(self._body.op_def(node.op), node.attrs, output, node.op)}"
        assert isinstance(self._body, Function)
        is_list = any(
            arg.name == name and (arg.number_attr or arg.type_list_attr) for arg in self._body.signature.inputs
        )
        return f"{name}:{output}" if is_list else name

    def _made(self, new: _New) -> Node:
        data = [self._spelled(self._followed(place)) for place in new.inputs]
        waits = [f"^{self._awaited(place)}" for place in new.waits]
        waits += [self._text(f"^{name}", None) for name in new.draft.controls]
        return Node(new.name, new.draft.op, (*data, *dict.fromkeys(waits)), new.draft.attrs, new.draft.device)

    def _without_lost_places(self, node: Node, there: set[str]) -> Node:
        """The node without the wish to share the device of a node that is gone, which TensorFlow refuses to load."""
        wanted = colocated(node)
        kept = [name for name in wanted if name in there or name not in self.gone]
        if len(kept) == len(wanted):
            return node
        return node.replace(attrs={"_class": tuple(f"loc:@{name}".encode() for name in kept) or None})

    def _drop_orphans(self) -> None:
        """Drops what only the matches needed: constants, shapes and the like that nobody takes any more."""
        taken = set(self.taken)
        taken |= {self._followed(place).endpoint.node for place in self._moved.values() if place.kind == "old"}
        taken |= {name for news in self._inserted.values() for new in news for name in new.draft.controls}
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


def _output_name(op: OpDef | None, attrs: Mapping[str, Attr], output: int, op_name: str) -> str:
    found = None if op is None else op.output_name(output, attrs)
    if found is None:
        what = f"nobody knows what op {op_name!r} calls its output {output}, which functions must say"
        raise UsageError(what, remedy="name the outputs in the recipe (output_args)")
    return found
