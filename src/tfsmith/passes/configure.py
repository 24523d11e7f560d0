"""Sets attributes of nodes, chosen by op or by name, in the graph and in all functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import translate
from re import Pattern as Regex
from re import compile as compile_regex
from typing import Any

from tfsmith.errors import UsageError, nearest
from tfsmith.ir.body import Body
from tfsmith.ir.editor import Editor
from tfsmith.ir.graph import Graph
from tfsmith.ir.literals import attr_from_text
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Node, attr
from tfsmith.ir.opdef import OpLookup
from tfsmith.records import record, replace

__all__ = ["ConfiguredNodes", "NodeSetting", "configure"]

_KINDS = ("string", "int", "float", "bool", "type", "shape", "func")


@record
class NodeSetting:
    """A node whose attributes were asked to be set.

    Attributes:
        body: The function that it is in; None for the graph itself.
        node: Its name.
        op: Its op.
        before: The attributes as they were; None where there was none.
        after: The attributes as they are.
    """

    body: str | None
    node: str
    op: str
    before: Mapping[str, Attr | None]
    after: Mapping[str, Attr]


@record
class ConfiguredNodes:
    """What came of it.

    Attributes:
        model: The model; its bytes are the old ones, but for the nodes that changed.
        changed: The nodes that changed.
        unchanged: The nodes that were chosen and had these values already.
        nearest: If no node was chosen: ops or nodes with names like those asked for.
    """

    model: Model
    changed: tuple[NodeSetting, ...]
    unchanged: tuple[NodeSetting, ...]
    nearest: tuple[str, ...]


def configure(
    model: Model, settings: Mapping[str, Any], *, ops: Sequence[str] = (), nodes: Sequence[str] = ()
) -> ConfiguredNodes:
    """Sets attributes of nodes in all meta graphs and their functions. Linear; decodes the nodes that are chosen.

    Args:
        model: The model.
        settings: Values by attribute. Text is read as the kind that the op's definition says ("float32", "true", "3",
            "1,2"); of an op that nobody knows, as the kind that the attribute has now, else as what it looks like, or
            as what stands behind the attribute's name ("name:type"). Other values are taken as they are.
        ops: Nodes of these ops are chosen.
        nodes: Nodes whose names fit one of these globs are chosen; if `ops` are given too, only if both fit.

    Raises:
        UsageError: Nothing is asked for, the op has no such attribute, or a value is of another kind or not allowed.
        InvalidModelError: The values do not fit what nodes take and give.
    """
    if not ops and not nodes:
        raise UsageError("no node is chosen", remedy="choose by op ({ops}) or by name ({nodes})")
    if not settings:
        raise UsageError("there is nothing to set", remedy="give attributes and values ({settings})")
    if not model.has_graph:
        raise model.no_graph()
    chooser = _Chooser(frozenset(ops), tuple(compile_regex(translate(glob)) for glob in nodes))
    found: list[NodeSetting] = []
    metas = []
    for number in range(len(model.meta_graphs)):
        with replace(model, selected=number).edit() as editor:
            found += _set_in_graph(editor, model.meta_graphs[number].graph, chooser, settings)
        metas.append(editor.model.meta)
    changed = tuple(one for one in found if dict(one.before) != dict(one.after))
    unchanged = tuple(one for one in found if dict(one.before) == dict(one.after))
    result = replace(model, meta_graphs=tuple(metas), raw=None) if changed else model
    return ConfiguredNodes(result, changed, unchanged, () if found else _nearest(model, ops, nodes))


@record
class _Chooser:
    ops: frozenset[str]
    names: tuple[Regex[str], ...]

    def choose(self, body: Body) -> Iterator[Node]:
        for node in body:
            if self.ops and node.op not in self.ops:
                continue
            if not self.names or any(name.match(node.name) for name in self.names):
                yield node


def _set_in_graph(
    editor: Editor, graph: Graph, chooser: _Chooser, settings: Mapping[str, Any]
) -> Iterator[NodeSetting]:
    """Sets the attributes in the graph and its functions; gives all nodes that were chosen."""
    for name, body in ((None, graph), *graph.library.items()):
        for node in chooser.choose(body):
            after = dict(_value(node, key, value, body.op_def) for key, value in settings.items())
            before = {key: node.attrs.get(key) for key in after}
            if before != after:
                (editor if name is None else editor.function(name)).set(node, after)
            yield NodeSetting(name, node.name, node.op, before, after)


def _value(node: Node, name: str, value: Any, op_def: OpLookup) -> tuple[str, Attr]:
    key, _, said = name.partition(":")
    if said and said.removeprefix("list(").removesuffix(")") not in _KINDS:
        raise UsageError(f"there is no kind {said!r} of attributes", remedy=f"the kinds are: {', '.join(_KINDS)}")
    op = op_def(node.op)
    kind = None if op is None else next((one.kind for one in op.attrs if one.name == key), None)
    if op is not None and kind is None and not key.startswith("_"):
        known = ", ".join(one.name for one in op.attrs) or "none"
        what = f"op {node.op} has no attribute {key!r}"
        raise UsageError(what, where=f"node {node.name!r}", remedy=f"its attributes are: {known}")
    if kind is None:
        now = node.attrs.get(key)
        kind = None if now is None or now.kind in ("none", "list", "placeholder") else now.kind
        kind = said or kind
    try:
        new = attr_from_text(value, kind) if isinstance(value, str) else attr(value, kind)
    except UsageError as error:
        what = f"attribute {key!r} cannot be set: {error.what}"
        raise UsageError(what, where=f"node {node.name!r}", remedy=error.remedy) from error
    return key, new


def _nearest(model: Model, ops: Sequence[str], nodes: Sequence[str]) -> tuple[str, ...]:
    bodies: list[Body] = []
    for meta in model.meta_graphs:
        bodies += [meta.graph, *meta.graph.library.values()]
    known = {node.op for body in bodies for node in body}
    missing = [op for op in ops if op not in known]
    there = known if missing else {node.name for body in bodies for node in body}
    near = [name for wanted in missing or nodes for name in nearest(wanted, sorted(there))]
    return tuple(dict.fromkeys(near))
