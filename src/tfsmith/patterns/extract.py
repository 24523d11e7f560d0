"""Cuts a piece out of a graph, from the seeds backwards to the barriers, and makes a recipe of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError, nearest
from tfsmith.ir.body import NODE_NAME, Body, FreeNames
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Node, is_index
from tfsmith.ir.opdef import OpLookup, builtin_op, is_commutative
from tfsmith.ir.recipe import ConstantQuery, NodeQuery, Pattern, Query, Recipe, TargetNode, Variant
from tfsmith.records import field, record

__all__ = ["extract", "Attrs", "recipe_from_pattern"]

_SHOWN = 8
"""So many names of a path, or of open ends, are shown."""


def extract(
    body: Body,
    seeds: Sequence[str],
    barriers: Sequence[str] = (),
    barrier_ops: Iterable[str] = (),
    *,
    constants: bool = False,
) -> Pattern:
    """The nodes that the seeds need, up to the barriers. Linear; no attribute is decoded, and nodes keep their bytes.

    Only inputs that carry tensors are followed. A control input is part of the pattern if its node is part of it for
    another reason; otherwise it stays in the node's bytes, is not among the pattern's inputs, and does not count when
    the pattern is looked for.

    Args:
        body: The graph or function.
        seeds: The names of the nodes to begin at.
        barriers: Nodes, or arguments of the function, at which to stop. Not all of them need be reached.
        barrier_ops: Every node of one of these ops is a barrier too.
        constants: Whether constants that are no barriers belong to the pattern; by default they are open ends.

    Returns:
        The pattern: its seeds in the order of the graph, its other nodes in the order in which the original tool finds
        them, the barriers that were reached (and function arguments, which need not be named), sorted.

    Raises:
        UsageError: No seed, a name that is given twice, one that is seed and barrier, or an end that is open: a node
            without inputs that is no barrier. The error names it, and the path to it.
        NotFoundInModelError: There is no such node.
    """
    names = _checked(body, seeds, barriers)
    walk = _Walk(body, names, frozenset(barriers), frozenset(barrier_ops), constants)
    for name in names:
        if walk.is_barrier(body[name]):
            what = f"seed {name!r} is a barrier by its op {body[name].op}"
            raise UsageError(what, remedy="leave the op out of {barrier_ops}, and name nodes in {barriers}")
    walk.run()
    if walk.open_ends:
        raise _open(body, walk)
    return Pattern(tuple(body[name] for name in names), tuple(walk.internal), tuple(sorted(walk.inputs)))


def _checked(body: Body, seeds: Sequence[str], barriers: Sequence[str]) -> list[str]:
    """The seeds in the order of the graph."""
    if not seeds:
        raise UsageError("there is no seed to begin at", remedy="name the nodes whose outputs the rest needs ({seeds})")
    for kind, names in (("seed", seeds), ("barrier", barriers)):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise UsageError(f"{kind} {name!r} is given twice", remedy="name it once")
            seen.add(name)
    args = frozenset(body.args)
    for name in seeds:
        if name in args:
            what = f"seed {name!r} is an argument of {body.title}, not a node"
            raise UsageError(what, remedy="begin at a node; an argument can be a barrier")
        _find(body, name, "seed")
    for name in barriers:
        if name not in args:
            _find(body, name, "barrier")
    both = sorted(set(seeds) & set(barriers))
    if both:
        remedy = "a seed belongs to the pattern, a barrier does not"
        raise UsageError(f"{both[0]!r} is seed and barrier at once", remedy=remedy)
    wanted = set(seeds)
    return [node.name for node in body if node.name in wanted]


def _find(body: Body, name: str, kind: str) -> None:
    if name in body:
        return
    near = nearest(name, (*body.by_name, *body.args))
    remedy = f"the nearest names are {', '.join(near)}" if near else "{show(model, nodes=True)} lists them"
    raise NotFoundInModelError(f"{kind} {name!r} is not in {body.title}", remedy=remedy)


@record(frozen=False)
class _Walk:
    """One search; what it found so far."""

    body: Body
    seeds: list[str]
    barriers: frozenset[str]
    barrier_ops: frozenset[str]
    constants: bool
    internal: list[Node] = field(default_factory=list)
    inputs: set[str] = field(default_factory=set)
    open_ends: list[Node] = field(default_factory=list)
    taken_by: dict[str, str] = field(default_factory=dict)
    """For each node that was reached, the one that takes its output: the way back to a seed."""

    def is_barrier(self, node: Node) -> bool:
        """Whether the search stops before this node."""
        return node.name in self.barriers or node.op in self.barrier_ops

    def run(self) -> None:
        """Follows the inputs, the last in the graph first, as the original tool does."""
        places = {node.name: place for place, node in enumerate(self.body.nodes)}
        args = frozenset(self.body.args)
        seeds = frozenset(self.seeds)
        seen: set[str] = set()
        todo = [self.body[name] for name in self.seeds]
        while todo:
            node = todo.pop()
            if node.name in seen:
                continue
            seen.add(node.name)
            if self.is_barrier(node):
                self.inputs.add(node.name)
                continue
            if node.name not in seeds:
                self.internal.append(node)
            sources = self._sources(node, args)
            if not sources and not (self.constants and node.op == "Const"):
                self.open_ends.append(node)
            nodes = sources & places.keys()
            self.inputs |= sources - nodes  # the function's arguments
            for name in sorted(nodes - seen - seeds, key=places.__getitem__):
                self.taken_by.setdefault(name, node.name)
                todo.append(self.body[name])

    def _sources(self, node: Node, args: frozenset[str]) -> set[str]:
        """The nodes and arguments that give this node's tensors."""
        found: set[str] = set()
        for number, text in enumerate(node.inputs):
            name, output = self.body.resolve(text)
            if output == CONTROL:
                continue
            if name not in self.body.by_name and name not in args:
                self.body.producer(node, number)  # which says what is wrong
            found.add(name)
        return found

    def path_to(self, name: str) -> list[str]:
        """The names from a seed to a node."""
        path = [name]
        while path[-1] in self.taken_by and path[-1] not in self.seeds:
            path.append(self.taken_by[path[-1]])
        return path[::-1]


def _open(body: Body, walk: _Walk) -> UsageError:
    end, *others = walk.open_ends
    path = walk.path_to(end.name)
    if len(path) > _SHOWN:
        path = [*path[: _SHOWN // 2], "...", *path[-_SHOWN // 2 :]]
    what = f"node {end.name!r} has no inputs and is no barrier, so the pattern is open there (from the seed: "
    what += f"{' <- '.join(path)})"
    remedy = f"name it as a barrier ({{barriers}}), or all nodes of its op ({{barrier_ops={end.op}}})"
    if others:
        shown = ", ".join(f"{node.name} ({node.op})" for node in others[:_SHOWN])
        remedy += f"; also open: {shown}{f' and {len(others) - _SHOWN} more' if len(others) > _SHOWN else ''}"
    return UsageError(what, where=body.title, remedy=remedy)


Attrs = Literal["declared", "types", "none"]

_MOST_VALUES = 16
"""A constant with more values is a weight, and weights differ from model to model."""
_OUTPUT_ARGS = {"Bert": ("encoded",)}
"""The outputs of ops that stock TensorFlow does not have, but the original tools put in."""
_REMEDY = "extract the pattern again"


def recipe_from_pattern(
    pattern: Pattern,
    target: Node,
    *,
    attrs: Attrs = "declared",
    ignore_attrs: Iterable[str] = (),
    match_attrs: Iterable[str] = (),
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
        ignore_attrs: Attributes that need not be equal nevertheless.
        match_attrs: Attributes that must be equal besides, such as "_output_shapes".
        values: Whether constants of up to 16 values inside the pattern must have the same values.
        op_def: Finds the definition of an op.

    Raises:
        InvalidModelError: The pattern is not sound: two nodes of one name, no seed, an output that its op lacks.
        NotFoundInModelError: An input of the node is no tensor that the pattern knows.
        UsageError: The node has no name or op, or `attrs` is none of these words.
    """
    if attrs not in ("declared", "types", "none"):
        raise UsageError(f"attributes cannot be compared by {attrs!r}", remedy="say declared, types or none")
    if not target.op or not NODE_NAME.fullmatch(target.name):
        what = f"the new node has {'no op' if not target.op else f'no sound name ({target.name!r})'}"
        raise UsageError(what, remedy='give it both, such as name: "bert/fused" op: "Bert"')
    builder = _Builder(pattern, op_def)
    choice = _Choice(attrs, frozenset(ignore_attrs), frozenset(match_attrs), values)
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
    _taken: FreeNames = field(default_factory=FreeNames)
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
        self._taken = FreeNames(self._nodes)
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
        return self._taken.take(name)

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
    tensor = None if found is None else found.tensor
    if tensor is None:
        return None
    count = tensor.shape.elements or 0
    if not 0 < count <= _MOST_VALUES or (tensor.dtype.itemsize == 0 and tensor.dtype.name != "string"):
        return None
    if tensor.dtype.name.startswith("complex"):
        return None
    values = tensor.numpy().reshape(-1).tolist()
    plain = tuple(value if isinstance(value, (bool, int, float, bytes)) else float(value) for value in values)
    return ConstantQuery(plain, tensor.shape.dims)
