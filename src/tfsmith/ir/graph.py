"""`Graph`: the nodes of a model, and its library of functions."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Literal

from tfsmith.errors import InvalidModelError, TfsmithError
from tfsmith.ir.body import NODE_NAME, Body, Part
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Node, is_index, parse_input
from tfsmith.ir.opdef import AttrDef, OpDef, OpLookup, builtin_op, builtin_ops
from tfsmith.records import FrozenDict, Immutable, field, record
from tfsmith.storage import Span

__all__ = [
    "Checker",
    "Function",
    "FunctionParts",
    "Graph",
    "Library",
    "Versions",
    "check_graph",
    "check_nodes",
    "graph_warning",
    "missing_inputs",
]


@record
class FunctionParts(Immutable):
    """What a function consists of.

    Attributes:
        signature: Its name, arguments and results.
        nodes: Its body.
        ret: For each result, the tensor in the body that gives it, such as "add:z:0".
        control_ret: For each control output, the node that must run.
        attrs: Its own attributes, such as "_input_shapes".
        arg_attrs: Attributes of arguments, by number.
    """

    signature: OpDef
    nodes: tuple[Node, ...]
    ret: Mapping[str, str]
    control_ret: Mapping[str, str] = field(default_factory=dict)
    attrs: Mapping[str, Attr] = field(default_factory=dict)
    arg_attrs: Mapping[int, Mapping[str, Attr]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("ret", "control_ret", "attrs", "arg_attrs"):
            value = getattr(self, name)
            if not isinstance(value, Immutable):
                object.__setattr__(self, name, FrozenDict(value))


class Function(Body):
    """A function. Inputs are written "argument", "node:output_arg:index" or "^node".

    Attributes:
        name: Its name; known without decoding the rest.
        part: Everything else, decoded on first use.
        base: The bytes that it was edited from, when its nodes or returns were replaced.
        op_def: Finds the definition of an op by name, or None.
    """

    name: str
    part: Part[FunctionParts]
    base: Span | None

    def __init__(
        self, name: str, part: Part[FunctionParts], ops: OpLookup = builtin_op, base: Span | None = None
    ) -> None:
        self.__dict__.update(name=name, part=part, base=base, op_def=ops)

    def __repr__(self) -> str:
        try:
            results = ", ".join(arg.name for arg in self.signature.outputs)
            return f"<Function {self.name!r} ({', '.join(self.args)}) -> ({results}), {len(self)} nodes>"
        except TfsmithError:  # it is damaged; who looks into it is told
            return f"<Function {self.name!r}>"

    @property
    def title(self) -> str:
        """What to call it in messages."""
        return f"function {self.name!r}"

    @property
    def raw(self) -> Span | None:
        """Its bytes, while nobody has edited it."""
        return self.part.raw[0] if self.part.raw else None

    @property
    def signature(self) -> OpDef:
        """Its name, arguments and results."""
        return self.part.value.signature

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the file's order."""
        return self.part.value.nodes

    @property
    def args(self) -> tuple[str, ...]:
        """The names of its arguments."""
        return tuple(arg.name for arg in self.signature.inputs)

    @property
    def ret(self) -> Mapping[str, str]:
        """For each result, the tensor that gives it."""
        return self.part.value.ret

    @property
    def control_ret(self) -> Mapping[str, str]:
        """For each control output, the node that must run."""
        return self.part.value.control_ret

    @property
    def attrs(self) -> Mapping[str, Attr]:
        """The function's own attributes."""
        return self.part.value.attrs

    def resolve(self, text: str) -> Endpoint:
        """Reads "argument", "argument:index" (of a list), "node:output_arg:index" or "^node".

        Raises:
            InvalidModelError: The node's op has no such output, or is not known.
        """
        if text.startswith("^"):
            return Endpoint(text[1:], CONTROL)
        name, _, rest = text.partition(":")
        if not rest:
            return Endpoint(name, 0)
        arg, colon, index = rest.rpartition(":")
        if not is_index(index):
            arg, colon, index = rest, ":", "0"
        if not colon:
            return Endpoint(name, int(index))
        if name not in self.by_name:
            return Endpoint(name, int(index))
        return Endpoint(name, self._output_index(self.by_name[name], arg, int(index)))

    def source(self, text: str) -> str:
        """The name of the node or argument that an input's text means; the op's definition is not needed for that."""
        return text.removeprefix("^").partition(":")[0]

    def _output_index(self, node: Node, arg: str, offset: int) -> int:
        op = self.op_def(node.op)
        if op is None:
            what = f"op {node.op!r} is not known, so its output {arg!r} has no number"
            remedy = "the file should carry its definition in meta_info_def.stripped_op_list"
            raise InvalidModelError(what, where=f"{self.title}, node {node.name!r}", remedy=remedy)
        index = op.output_index(arg, offset, node.attrs if op.gives_lists else {})
        if index is None:
            what = f"op {node.op!r} has no output {arg}:{offset}"
            raise InvalidModelError(what, where=f"{self.title}, node {node.name!r}", remedy="the file is damaged")
        return index

    def replace_nodes(
        self,
        nodes: tuple[Node, ...],
        *,
        ret: Mapping[str, str] | None = None,
        control_ret: Mapping[str, str] | None = None,
    ) -> Function:
        """Another function with these nodes, and if given these returns; everything else stays as it is."""
        old = self.part.value
        parts = FunctionParts(
            old.signature,
            nodes,
            old.ret if ret is None else ret,
            old.control_ret if control_ret is None else control_ret,
            old.attrs,
            old.arg_attrs,
        )
        return Function(self.name, Part.of(parts), self.op_def, self.base if self.raw is None else self.raw)


class Library(Immutable, Mapping[str, Function]):
    """The functions of a graph, by name, in the file's order, with whatever else the library holds.

    Attributes:
        gradients: For a function, the function that is its gradient.
        registered_gradients: For an op type that the model registered, the function that is its gradient.
        raw: The library's bytes, while nobody has edited it.
        extras: Other fields, tags included, which are written back as they are.
    """

    _functions: Mapping[str, Function]
    gradients: Mapping[str, str]
    registered_gradients: Mapping[str, str]
    raw: Span | None
    extras: tuple[Span, ...]

    def __init__(
        self,
        functions: Mapping[str, Function] | None = None,
        gradients: Mapping[str, str] | None = None,
        registered_gradients: Mapping[str, str] | None = None,
        *,
        raw: Span | None = None,
        extras: tuple[Span, ...] = (),
    ) -> None:
        self.__dict__.update(
            _functions=functions or {},
            gradients=FrozenDict(gradients or {}),
            registered_gradients=FrozenDict(registered_gradients or {}),
            raw=raw,
            extras=extras,
        )

    def __repr__(self) -> str:
        return f"<Library {len(self)} functions>"

    def __getitem__(self, name: str) -> Function:
        return self._functions[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._functions)

    def __len__(self) -> int:
        return len(self._functions)

    def __contains__(self, name: object) -> bool:
        return name in self._functions

    def replace(self, functions: Mapping[str, Function]) -> Library:
        """Another library with these functions; gradients and other fields stay."""
        return Library(functions, self.gradients, self.registered_gradients, extras=self.extras)


@record
class Versions:
    """Who may read a graph: the version that wrote it, and the oldest reader that it allows."""

    producer: int = 0
    min_consumer: int = 0
    bad_consumers: tuple[int, ...] = ()


_DEFAULT_VERSIONS = Versions()


class Graph(Body):
    """A graph. Inputs are written "node", "node:1" or "^node".

    Attributes:
        versions_part: Producer and consumer versions.
        library: The functions that nodes may call, by name, with gradients.
        op_def: Finds the definition of an op by name, or None: the model's own, then TensorFlow's.
        raw: Its bytes, while nobody has edited it.
        extras: Other fields of its file, tags included, which are written back as they are.
    """

    _nodes: tuple[Node, ...]
    versions_part: Part[Versions]
    library: Library
    raw: Span | None
    extras: tuple[Span, ...]

    def __init__(
        self,
        nodes: tuple[Node, ...],
        versions: Versions | Part[Versions] = _DEFAULT_VERSIONS,
        library: Library | None = None,
        *,
        ops: OpLookup = builtin_op,
        raw: Span | None = None,
        extras: tuple[Span, ...] = (),
    ) -> None:
        self.__dict__.update(
            op_def=ops,
            _nodes=nodes,
            versions_part=Part.of(versions) if isinstance(versions, Versions) else versions,
            library=Library() if library is None else library,
            raw=raw,
            extras=extras,
        )

    def __repr__(self) -> str:
        return f"<Graph {len(self._nodes)} nodes, {len(self.library)} functions>"

    @property
    def title(self) -> str:
        """What to call it in messages."""
        return "the graph"

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the file's order."""
        return self._nodes

    @property
    def versions(self) -> Versions:
        """Producer and consumer versions."""
        return self.versions_part.value

    @property
    def functions(self) -> Library:
        """The functions by name; another word for `library`."""
        return self.library

    def resolve(self, text: str) -> Endpoint:
        """Reads "node", "node:1" or "^node"."""
        return parse_input(text)

    def replace(
        self,
        *,
        nodes: tuple[Node, ...] | None = None,
        versions: Versions | None = None,
        library: Library | None = None,
        ops: OpLookup | None = None,
    ) -> Graph:
        """Another graph with these changes; what is not named stays as it is, byte for byte."""
        return Graph(
            self._nodes if nodes is None else nodes,
            self.versions_part if versions is None else versions,
            self.library if library is None else library,
            ops=self.op_def if ops is None else ops,
            extras=self.extras,
        )

    def map_nodes(self, changes: Mapping[str, Node]) -> Graph:
        """Another graph in which the nodes named are swapped for others, in their places."""
        return self.replace(nodes=tuple(changes.get(node.name, node) for node in self._nodes))

    def op_counts(self) -> dict[str, int]:
        """How many nodes each op has, most first."""
        return count_ops(self._nodes)

    def custom_ops(self) -> tuple[str, ...]:
        """Ops that stock TensorFlow does not have and that are no functions of the library, sorted."""
        known = builtin_ops()
        used = {node.op for node in self._nodes}
        for function in self.library.values():
            used |= {node.op for node in function.nodes}
        return tuple(sorted(op for op in used if op not in known and op not in self.library))


def count_ops(nodes: tuple[Node, ...]) -> dict[str, int]:
    """How many nodes each op has, most first."""
    counts: dict[str, int] = {}
    for node in nodes:
        counts[node.op] = counts.get(node.op, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


_LOOKED_INTO = frozenset(
    {"Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"}
    | {"VarIsInitializedOp", "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "IsVariableInitialized"}
    | {"PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase"}
    | {"While", "StatelessWhile", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}
    | {"Restore", "RestoreSlice", "RestoreV2", "IdentityN"}
)
_REMEDY = "TensorFlow refuses this graph too; write it again from its source"


def check_graph(graph: Graph, *, attrs: Literal["needed", "all"] = "needed") -> None:
    """Checks all nodes of a graph and of its functions; linear.

    Args:
        graph: The graph.
        attrs: Whose attributes are checked: of nodes that passes look into, for their kinds, or of all, which decodes
            them, for their kinds and values as TensorFlow does when it loads a graph. Of ops that only the model's own
            file defines, none but the first. Values are left alone in graphs of a later TensorFlow than the one whose
            ops we know, for it may take more of them.

    Raises:
        InvalidModelError: A node has no name or that of another, an input is not there, nodes wait for each other in a
            circle, or a node does not fit the definition of its op.
    """
    bodies: list[Body] = [graph, *graph.library.values()]
    values = attrs == "all" and graph.versions.producer <= builtin_ops().producer
    for body in bodies:
        body.check_order()
        if "" in body.by_name:
            raise InvalidModelError("a node has no name", where=body.title, remedy=_REMEDY)
        if attrs == "all" and body is graph:
            _check_names(body)
        checker = Checker(body, attrs=attrs, values=values)
        for node in body:
            checker.check(node)


def _check_names(body: Body) -> None:
    """Checks the names of a graph's nodes. Those in functions are read by nobody until TensorFlow has renamed them.

    TensorFlow's own nodes, which begin with an underscore, are in graphs that it wrote for people to look at.
    """
    for name in body.by_name:
        if NODE_NAME.fullmatch(name.lstrip("_")) is None:
            where = f"{body.title}, node {name!r}"
            raise InvalidModelError("TensorFlow takes no node of this name", where=where, remedy=_REMEDY)


def missing_inputs(graph: Graph) -> list[tuple[str, str]]:
    """The inputs of nodes that are not there, in the graph and its functions: the node, and what it takes."""
    return [(node.name, name) for body in (graph, *graph.library.values()) for node, name in body.missing_inputs()]


def graph_warning(
    graph: Graph, missing: Sequence[tuple[str, str]] | None = None, *, attrs: Literal["needed", "all"] = "all"
) -> str:
    """What who looks at a graph should know: that it is cut off, or why TensorFlow refuses it; empty if it does not.

    Args:
        graph: The graph.
        missing: Its `missing_inputs`, where they are known.
        attrs: Whose attributes are checked, as by `check_graph`.
    """
    if missing is None:
        missing = missing_inputs(graph)
    if missing:
        more = f", and {len(missing) - 1:,} more inputs are missing" if len(missing) > 1 else ""
        return f"the graph is cut off: {missing[0][0]} takes {missing[0][1]!r}, which is not there{more}"
    try:
        check_graph(graph, attrs=attrs)
    except InvalidModelError as error:
        return f"TensorFlow refuses the graph: {error.where}: {error.what}"
    return ""


def check_nodes(body: Body, among: Container[str] | None = None) -> None:
    """Checks that every node of a body fits the definition of its op; linear, decodes all attributes.

    Args:
        body: The graph or function.
        among: The names of the nodes that are meant; all by default.

    Raises:
        InvalidModelError: An attribute is missing or of another kind, or the number of inputs is wrong.
    """
    checker = Checker(body)
    for node in body:
        if among is None or node.name in among:
            checker.check(node, every=True)


@record
class _Rules:
    """What an op asks of its nodes."""

    op: OpDef
    kinds: Mapping[str, str]
    limits: Mapping[str, AttrDef]
    """The attributes that cannot have any value of their kind."""
    required: frozenset[str]
    takes_lists: bool
    """Whether it is for the attributes to say how many tensors it takes."""


class Checker:
    """Holds the nodes of one body against the definitions of their ops. Ops that nobody defines pass.

    Args:
        body: The graph or function.
        attrs: Whose attributes are checked, as by `check_graph`.
        values: Whether their values are checked, not only their kinds.
    """

    def __init__(self, body: Body, *, attrs: Literal["needed", "all"] = "needed", values: bool = False) -> None:
        self._body = body
        self._attrs = attrs
        self._values = values
        self._is_graph = isinstance(body, Graph)
        self._known: dict[str, _Rules | None] = {}
        self._wanted: dict[tuple[str, bytes], int | None] = {}

    def check(self, node: Node, *, every: bool = False) -> None:
        """Checks one node; decodes its attributes if passes look into such nodes.

        Args:
            node: The node.
            every: Whether its attributes and inputs are checked whatever its op is.

        Raises:
            InvalidModelError: An attribute is missing or of another kind, or the number of inputs is wrong.
        """
        rules = self._rules(node.op) if every or self._is_checked(node) else None
        if rules is not None:
            self._check_inputs(node, self._inputs_wanted(node, rules))
        for text in node.inputs if self._is_graph else ():
            if ":" in text:
                self._check_output(node, text)

    def are_right(self, node: Node) -> bool:
        """Whether those attributes that the node has are values of the kinds that its op asks for; decodes them."""
        rules = self._rules(node.op)
        if rules is None:
            return True
        for name, found in node.attrs.items():
            kind, wanted = found.kind, rules.kinds.get(name)
            if wanted is None or kind == wanted:
                continue
            if not (kind == "list" and wanted.startswith("list(")) and not (kind == "placeholder" and wanted == "type"):
                return False
        return True

    def _is_checked(self, node: Node) -> bool:
        return node.op in _LOOKED_INTO or (self._attrs == "all" and builtin_op(node.op) is not None)

    def _inputs_wanted(self, node: Node, rules: _Rules) -> int | None:
        """Checks the attributes of a node; returns how many tensors it takes, None where they do not say."""
        stored = node.stored_attrs if self._attrs == "all" else None  # most nodes have those of another
        if stored is not None and (node.op, stored) in self._wanted:
            return self._wanted[node.op, stored]
        attrs = node.read_attrs() if self._attrs == "all" else node.attrs
        self._check_attrs(node, rules, attrs)
        # in a function, attributes may be placeholders, and an input may be a list of several tensors
        wanted = rules.op.input_count(attrs) if self._is_graph or not rules.takes_lists else None
        if stored is not None:
            self._wanted[node.op, stored] = wanted
        return wanted

    def _check_attrs(self, node: Node, rules: _Rules, attrs: Mapping[str, Attr]) -> None:
        for name, kind in rules.kinds.items():
            found = attrs.get(name)
            if found is None:
                if name in rules.required:
                    raise self._refusal(f"attribute {name!r} of op {node.op} is missing", node)
            elif found.kind != kind and not self._may_stand_for(found.kind, kind):
                what = f"attribute {name!r} of op {node.op} is of kind {found.kind}, not {kind}"
                raise self._refusal(what, node)
            elif self._values and name in rules.limits and found.kind != "placeholder":
                problem = rules.limits[name].value_problem(found)
                if problem is not None:
                    raise self._refusal(f"op {node.op}: {problem}", node)

    def _may_stand_for(self, kind: str, wanted: str) -> bool:
        """An empty list has no kind; in a function, a placeholder stands for a type that the caller gives."""
        if kind == "placeholder":
            return not self._is_graph and "func" not in wanted
        return kind == "list" and wanted.startswith("list(")

    def _check_inputs(self, node: Node, wanted: int | None) -> None:
        given = len(node.data_inputs)
        if any(text.startswith("^") for text in node.inputs[:given]):
            raise self._refusal("a tensor stands behind a control input", node)
        if wanted is None:
            return
        # in a function, `node:output` may stand for a list of several tensors, `node:output:0` for one
        is_exact = self._is_graph or all(text.count(":") == 2 for text in node.inputs[:given])
        if given > wanted or (given < wanted and is_exact):
            raise self._refusal(f"op {node.op} takes {wanted} tensors, but it has {given}", node)

    def _check_output(self, node: Node, text: str) -> None:
        """The output that an input names must be one that its node has."""
        name, output = parse_input(text)
        source = self._body.by_name.get(name)
        rules = None if source is None or output == 0 else self._rules(source.op)
        if source is None or rules is None:
            return
        count = rules.op.output_count(source.attrs)
        if output >= count:
            what = f"it takes output {output} of node {name!r}, whose op {source.op} has {count}"
            raise self._refusal(what, node)

    def _rules(self, op: str) -> _Rules | None:
        if op not in self._known:
            # TensorFlow's own definition first: what a file says of a stock op is no better than the file.
            found = builtin_op(op) or self._body.op_def(op)
            self._known[op] = None if found is None else _rules_of(found)
        return self._known[op]

    def _refusal(self, what: str, node: Node) -> InvalidModelError:
        return InvalidModelError(what, where=f"{self._body.title}, node {node.name!r}", remedy=_REMEDY)


def _rules_of(op: OpDef) -> _Rules:
    return _Rules(
        op,
        {attr.name: attr.kind for attr in op.attrs},
        {attr.name: attr for attr in op.attrs if attr.allowed or attr.minimum is not None},
        frozenset(attr.name for attr in op.attrs if attr.default is None),
        any(arg.number_attr or arg.type_list_attr for arg in op.inputs),
    )
