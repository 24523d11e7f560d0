"""Which nodes make up what was recognised: the layers of a transformer, and in them layer norms and GELUs."""

from __future__ import annotations

from collections.abc import Mapping, Set

from tfsmith.errors import TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.model import Model
from tfsmith.ops.families import INITIAL_WRITES, PLACEHOLDERS, RESTORES
from tfsmith.patterns.architecture import find_stacks, raised_bodies
from tfsmith.patterns.raised import Raised

__all__ = ["recognised_scopes"]

_PARTS: Mapping[str, str] = {"norm": "layer norm", "gelu": "GELU", "softmax": "softmax"}


def recognised_scopes(model: Model) -> dict[str, dict[str, str]]:
    """For each function ("" for the graph) with recognised layers: the scope that each of their nodes is in.

    Nodes that several layers need, such as those of a mask, are in none. Looks at every node; reads no weight. Empty
    where nothing is recognised, or the graph is damaged.
    """
    found: dict[str, dict[str, str]] = {}
    try:
        for name, raised, _ in raised_bodies(model):
            scopes = _scopes(raised)
            if scopes:
                found[name or ""] = scopes
    except TfsmithError:
        return {}
    return found


def _scopes(raised: Raised) -> dict[str, str]:
    stacks = find_stacks(raised)
    if not stacks:
        return {}
    equal: dict[int, set[str]] = {}
    for tensor, reading in raised:
        equal.setdefault(raised.algebra.intern(reading.value)[0], set()).add(tensor.node)
    inside: list[tuple[str, set[str]]] = []
    for number, stack in enumerate(stacks):
        title = stack.kind if len(stacks) == 1 else f"{stack.kind} {number + 1}"
        stops = {name for layer in stack.layers for name in equal.get(layer.x.number, ())}
        for at, layer in enumerate(stack.layers):
            inside.append((f"{title}/layer {at + 1}", _between(raised.body, layer.output.node, stops)))
    counts: dict[str, int] = {}
    for _, nodes in inside:
        for node in nodes:
            counts[node] = counts.get(node, 0) + 1
    scopes = {node: scope for scope, nodes in inside for node in nodes if counts[node] == 1}
    return scopes | _parts(raised, equal, scopes) | _first_values(raised.body, scopes)


def _parts(raised: Raised, equal: Mapping[int, Set[str]], scopes: Mapping[str, str]) -> dict[str, str]:
    """Layer norms, GELUs and softmaxes: the nodes between what they take and what they give."""
    parts: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for kind, tensor, atom in raised.recognised():
        scope, operand = scopes.get(tensor.node), raised.algebra.head(atom)[1]
        if kind not in _PARTS or scope is None or not isinstance(operand, int) or not equal.get(operand):
            continue
        nodes = {node for node in _between(raised.body, tensor.node, equal[operand]) if scopes.get(node) == scope}
        if len(nodes) < 2 or nodes & set(parts):
            continue
        title = f"{scope}/{_PARTS[kind]}"
        numbers[title] = numbers.get(title, 0) + 1
        parts |= dict.fromkeys(nodes, f"{title} {numbers[title]}")
    return parts


def _first_values(body: Body, scopes: Mapping[str, str]) -> dict[str, str]:
    """The nodes that give the layers' variables their first values: they lie beside the variables, not in their way."""
    found: dict[str, str] = {}
    for node in body.nodes:
        sources = [body.source(text) for text in node.data_inputs]
        if node.op not in INITIAL_WRITES or len(sources) < 2 or sources[0] not in scopes:
            continue
        value = body.by_name.get(sources[1])
        if value is not None and value.op not in RESTORES:
            needed = _between(body, node.name, scopes.keys()) - scopes.keys()
            found |= dict.fromkeys(needed, f"{scopes[sources[0]]}/first values")
    return found


def _between(body: Body, end: str, stops: Set[str]) -> set[str]:
    """The nodes that a node needs, up to others, which are left out; without placeholders. Linear."""
    seen: set[str] = set()
    todo = [end]
    while todo:
        name = todo.pop()
        node = body.by_name.get(name)
        if name in seen or (name in stops and name != end) or node is None or node.op in PLACEHOLDERS:
            continue
        seen.add(name)
        todo += [body.source(text) for text in node.data_inputs]
    return seen
