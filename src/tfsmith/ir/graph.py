"""`Graph`: the nodes of a model, and its library of functions."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Literal

from tfsmith.errors import InvalidModelError
from tfsmith.ir.body import Body, Part
from tfsmith.ir.function import Library
from tfsmith.ir.node import Endpoint, Node, parse_input
from tfsmith.ir.op_database import OpLookup, builtin_op, builtin_ops
from tfsmith.ir.opdef import OpDef
from tfsmith.records import record
from tfsmith.storage.span import Span

__all__ = ["Graph", "Versions", "Checker", "check_graph", "check_nodes"]


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


def check_graph(graph: Graph, *, attrs: Literal["needed", "edited", "all"] = "needed") -> None:
    """Checks all nodes of a graph and of its functions; linear.

    Args:
        graph: The graph.
        attrs: Whose attributes are checked, as TensorFlow does when it loads a graph: those of nodes that passes look
            into, of nodes that are not as their file has them, or of all, which decodes them. Of ops that only the
            model's own file defines, none but the first.

    Raises:
        InvalidModelError: A node has no name or that of another, an input is not there, nodes wait for each other in a
            circle, or a node does not fit the definition of its op.
    """
    bodies: list[Body] = [graph, *graph.library.values()]
    for body in bodies:
        body.topological_order()
        if "" in body.by_name:
            raise InvalidModelError("a node has no name", where=body.title, remedy=_REMEDY)
        checker = Checker(body, attrs=attrs)
        for node in body:
            checker.check(node)


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
    required: frozenset[str]
    takes_lists: bool
    """Whether it is for the attributes to say how many tensors it takes."""


class Checker:
    """Holds the nodes of one body against the definitions of their ops. Ops that nobody defines pass."""

    def __init__(self, body: Body, *, attrs: Literal["needed", "edited", "all"] = "needed") -> None:
        self._body = body
        self._attrs = attrs
        self._is_graph = isinstance(body, Graph)
        self._known: dict[str, _Rules | None] = {}

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
            self._check_attrs(node, rules)
            self._check_inputs(node, rules)
        for text in node.inputs if self._is_graph else ():
            if ":" in text:
                self._check_output(node, text)

    def are_right(self, node: Node) -> bool:
        """Whether those attributes that the node has are values of the kinds that its op asks for; decodes them."""
        rules = self._rules(node.op)
        return rules is None or all(
            found.kind == kind
            or (found.kind == "list" and kind.startswith("list("))
            or (found.kind == "placeholder" and kind == "type")
            for name, kind in rules.kinds.items()
            if (found := node.attrs.get(name)) is not None
        )

    def _is_checked(self, node: Node) -> bool:
        if node.op in _LOOKED_INTO and self._attrs != "edited":
            return True
        is_meant = self._attrs == "all" or (self._attrs == "edited" and node.raw is None)
        return is_meant and builtin_op(node.op) is not None

    def _check_attrs(self, node: Node, rules: _Rules) -> None:
        attrs = node.attrs
        for name, kind in rules.kinds.items():
            found = attrs.get(name)
            if found is None:
                if name in rules.required:
                    raise self._refusal(f"attribute {name!r} of op {node.op} is missing", node)
            elif found.kind == "none" and self._attrs != "needed":
                continue  # nothing is stored, and so nothing of another kind
            elif found.kind != kind and not self._may_stand_for(found.kind, kind):
                what = f"attribute {name!r} of op {node.op} is of kind {found.kind}, not {kind}"
                raise self._refusal(what, node)

    def _may_stand_for(self, kind: str, wanted: str) -> bool:
        """An empty list has no kind; in a function, a placeholder stands for a type that the caller gives."""
        if kind == "placeholder":
            return not self._is_graph and "func" not in wanted
        return kind == "list" and wanted.startswith("list(")

    def _check_inputs(self, node: Node, rules: _Rules) -> None:
        given = len(node.data_inputs)
        if any(text.startswith("^") for text in node.inputs[:given]):
            raise self._refusal("a tensor stands behind a control input", node)
        if not self._is_graph and rules.takes_lists:
            return  # attributes may be placeholders there, and an input may be a list of several tensors
        wanted = rules.op.input_count(node.attrs)
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
        frozenset(attr.name for attr in op.attrs if attr.default is None),
        any(arg.number_attr or arg.type_list_attr for arg in op.inputs),
    )
