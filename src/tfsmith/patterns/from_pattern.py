"""Makes a recipe of an extracted pattern and a node, as the files of the original tools hold them.

The node's inputs name tensors of the model that the pattern was extracted from: "name", "name:1", or "name:arg:0" as
functions spell it. Each must be a tensor that some node of the pattern takes. In a model that matches, the new node
gets whatever stands at the same place there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError
from tfsmith.ir.attr import Attr
from tfsmith.ir.commutative import is_commutative
from tfsmith.ir.names import nearest
from tfsmith.ir.node import CONTROL, Endpoint, Node, is_index
from tfsmith.ir.opdb import OpLookup, builtin_op
from tfsmith.ir.pattern import Pattern
from tfsmith.ir.recipe import ConstantQuery, NodeQuery, Query, Recipe, TargetNode, Variant
from tfsmith.ir.tensor import Tensor
from tfsmith.records import field, record

__all__ = ["Attrs", "recipe_from_pattern"]

Attrs = Literal["declared", "types", "none"]

_MOST_VALUES = 16
"""A constant with more values is a weight, and weights differ from model to model."""
_OUTPUT_ARGS = {"Bert": ("encoded",)}
"""The outputs of ops that stock TensorFlow does not have, but the original tools put in."""
_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
_REMEDY = "extract the pattern again"


def recipe_from_pattern(
    pattern: Pattern,
    target: Node,
    *,
    attrs: Attrs = "declared",
    ignore: Iterable[str] = (),
    also: Iterable[str] = (),
    values: bool = True,
    op_def: OpLookup = builtin_op,
) -> Recipe:
    """A recipe that finds what is built like the pattern, and puts the node in its place. Decodes attributes.

    Output 0 of every seed is replaced by output 0 of the new node; if that has several outputs by its op's definition,
    and there are several seeds, output 0 of seed number k by output k.

    Args:
        pattern: What to find.
        target: What to put there.
        attrs: Which attributes must be equal: "declared" (all that the op's definition declares; of an op that nobody
            knows, all whose names do not begin with "_"), "types" (those that are types) or "none".
        ignore: Attributes that need not be equal nevertheless.
        also: Attributes that must be equal besides, such as "_output_shapes".
        values: Whether constants of up to 16 values inside the pattern must have the same values.
        op_def: Finds the definition of an op.

    Raises:
        InvalidModelError: The pattern is not sound: two nodes of one name, no seed, an output that its op lacks.
        NotFoundInModelError: An input of the node is no tensor that the pattern knows.
        UsageError: The node has no name or op, or `attrs` is none of these words.
    """
    if attrs not in ("declared", "types", "none"):
        raise UsageError(f"attributes cannot be compared by {attrs!r}", remedy="say declared, types or none")
    if not target.op or not _NAME.fullmatch(target.name):
        what = f"the new node has {'no op' if not target.op else f'no sound name ({target.name!r})'}"
        raise UsageError(what, remedy='give it both, such as name: "bert/fused" op: "Bert"')
    builder = _Builder(pattern, op_def)
    choice = _Choice(attrs, frozenset(ignore), frozenset(also), values)
    nodes = tuple(builder.query(node, choice) for node in pattern.nodes)
    seeds = tuple(Endpoint(node.name, 0) for node in pattern.seed_nodes)
    name = builder.free_name(target.name)
    new = TargetNode(
        name,
        target.op,
        tuple(builder.target_input(text) for text in target.inputs),
        target.attrs,
        target.device,
        rename=target.name,
        output_args=() if op_def(target.op) is not None else _OUTPUT_ARGS.get(target.op, ()),
    )
    count = _output_count(target, op_def) if len(seeds) > 1 else 1
    if 1 < count < len(seeds):
        what = f"the new node has {count} outputs, and the pattern has {len(seeds)} seeds"
        raise UsageError(what, where=f"node {target.name!r}", remedy="extract a pattern with as many seeds")
    outputs = {seed: Endpoint(name, number if count > 1 else 0) for number, seed in enumerate(seeds)}
    query = Query(nodes, tuple(builder.inputs.values()), seeds)
    description = f"{len(pattern.nodes)} nodes become one {target.op}"
    variant = Variant("pattern", query, (new,), outputs)
    return Recipe(target.name, description, (variant,), pattern, target)


def _output_count(target: Node, op_def: OpLookup) -> int:
    found = op_def(target.op)
    return 1 if found is None else found.output_count(target.attrs)


@record
class _Choice:
    """What of a node must be equal."""

    attrs: Attrs
    ignore: frozenset[str]
    also: frozenset[str]
    values: bool


@record
class _Source:
    """An input's text, taken apart: the node, the output's name in a function, and its number."""

    node: str
    arg: str
    index: int

    @staticmethod
    def of(text: str) -> _Source:
        """Reads "name", "name:1", "name:arg:0" or "^name"."""
        if text.startswith("^"):
            return _Source(text[1:], "", CONTROL)
        name, _, rest = text.partition(":")
        arg, colon, index = rest.rpartition(":")
        if not rest or is_index(rest):
            return _Source(name, "", int(rest or 0))
        if not is_index(index):
            return _Source(name, rest, 0)
        return _Source(name, arg if colon else "", int(index))


@record(frozen=False)
class _Builder:
    """Turns the nodes of a pattern into wanted nodes, and the texts of their inputs into endpoints."""

    pattern: Pattern
    op_def: OpLookup
    inputs: dict[_Source, str] = field(default_factory=dict)
    """The names of the tensors that enter from outside, in the order in which the pattern takes them."""
    _nodes: dict[str, Node] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)
    _args: dict[str, str] = field(default_factory=dict)
    """For a node whose op nobody knows: the one output of it that the pattern names."""

    def __post_init__(self) -> None:
        if not self.pattern.seed_nodes:
            raise InvalidModelError("the pattern has no seed", remedy=_REMEDY)
        for node in self.pattern.nodes:
            if node.name in self._nodes or not node.name or not node.op:
                what = "the pattern has two nodes of this name" if node.op and node.name else "it has no name or no op"
                raise InvalidModelError(what, where=f"node {node.name!r}", remedy=_REMEDY)
            self._nodes[node.name] = node
        self._taken = set(self._nodes)
        for node in self.pattern.nodes:
            for text in node.inputs:
                self._add_input(_Source.of(text))

    def _add_input(self, source: _Source) -> None:
        """Gives a tensor from outside a name without a colon, which would read as one of several outputs."""
        if source.index == CONTROL or source.node in self._nodes or source in self.inputs:
            return
        parts = [source.node, source.arg, str(source.index) if source.index else ""]
        name = source.node if source.node not in self._taken else ".".join(part for part in parts if part)
        self.inputs[source] = self.free_name(name)

    def free_name(self, name: str) -> str:
        """This name, or one like it that nothing in the recipe has; it is then taken."""
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name

    def query(self, node: Node, choice: _Choice) -> NodeQuery:
        """What to look for."""
        sources = [_Source.of(text) for text in node.inputs]
        endpoints = [self._endpoint(source, node) for source in sources]
        kind = node.attrs.get("T")
        return NodeQuery(
            node.name,
            (node.op,),
            tuple(endpoint for endpoint in endpoints if endpoint is not None),
            self._attrs(node, choice),
            _constant(node) if choice.values and node.op == "Const" else None,
            is_commutative(node.op, kind, self.op_def) and len(node.data_inputs) > 1,
        )

    def _endpoint(self, source: _Source, user: Node) -> Endpoint | None:
        """None for a control edge from outside."""
        if source.index == CONTROL:
            return Endpoint(source.node, CONTROL) if source.node in self._nodes else None
        if source.node not in self._nodes:
            return Endpoint(self.inputs[source], 0)
        return Endpoint(source.node, self._index(source, user))

    def _index(self, source: _Source, user: Node) -> int:
        """The number of an output of a node of the pattern."""
        node = self._nodes[source.node]
        if not source.arg:
            return source.index
        op = self.op_def(node.op)
        if op is None:
            if self._args.setdefault(node.name, source.arg) == source.arg:
                return source.index  # its only output, as far as anybody can tell
            what = (
                f"op {node.op!r} is not known, so its outputs {self._args[node.name]} and {source.arg} have no numbers"
            )
            raise InvalidModelError(what, where=f"node {user.name!r}", remedy="replace the node by one that is known")
        index = op.output_index(source.arg, source.index, node.attrs)
        if index is None:
            what = f"op {node.op!r} has no output {source.arg}:{source.index}"
            raise InvalidModelError(what, where=f"node {user.name!r}", remedy=_REMEDY)
        return index

    def _attrs(self, node: Node, choice: _Choice) -> dict[str, Attr]:
        op = self.op_def(node.op)
        found = {name: value for name, value in node.attrs.items() if (node.op, name) != ("Const", "value")}
        if op is None:
            wanted = {name: value for name, value in found.items() if not name.startswith("_")}
        else:  # an attribute that has its default may be left out in the file
            declared = {one.name: found.get(one.name, one.default) for one in op.attrs}
            wanted = {name: value for name, value in declared.items() if value is not None}
        if choice.attrs == "types":
            wanted = {name: value for name, value in wanted.items() if value.kind in ("type", "list(type)")}
        if choice.attrs == "none":
            wanted = {}
        wanted |= {name: found[name] for name in choice.also if name in found}
        return {name: value for name, value in sorted(wanted.items()) if name not in choice.ignore}

    def target_input(self, text: str) -> str:
        """What an input of the new node is called in the recipe.

        Raises:
            NotFoundInModelError: No node of the pattern takes such a tensor.
        """
        source = _Source.of(text)
        mark = "^" if source.index == CONTROL else ""
        if source.node in self._nodes:
            if mark:
                return text
            index = self._index(source, self._nodes[source.node])
            return f"{source.node}:{index}" if index else source.node
        if source in self.inputs:
            return self.inputs[source]
        others = [found for found in self.inputs if found.node == source.node]
        if others and (mark or ":" not in text):  # as the original: the first output of it that the pattern takes
            return mark + self.inputs[others[0]]
        one_is_of_a_function = len(others) == 1 and bool(others[0].arg) != bool(source.arg)
        if one_is_of_a_function and source.index == others[0].index:  # the other is spelled as in a graph
            return self.inputs[others[0]]
        raise self._unknown(text, source)

    def _unknown(self, text: str, source: _Source) -> NotFoundInModelError:
        near = nearest(source.node, [*(one.node for one in self.inputs), *self._nodes])
        remedy = f"the nearest are {', '.join(near)}" if near else "name a tensor that the pattern takes from outside"
        what = f"input {text!r} of the new node is no tensor that the pattern takes"
        return NotFoundInModelError(what, remedy=remedy)


def _constant(node: Node) -> ConstantQuery | None:
    found = node.attrs.get("value")
    if found is None or found.kind != "tensor":
        return None
    tensor: Tensor = found.value
    count = tensor.shape.elements or 0
    if not 0 < count <= _MOST_VALUES or (tensor.dtype.itemsize == 0 and tensor.dtype.name != "string"):
        return None
    if tensor.dtype.name.startswith("complex"):
        return None
    values = tensor.numpy().reshape(-1).tolist()
    plain = tuple(value if isinstance(value, (bool, int, float, bytes)) else float(value) for value in values)
    return ConstantQuery(plain, tensor.shape.dims)
