"""What passes rely on, checked once before they run. TensorFlow refuses the same graphs when it loads them.

A file may give any attribute any kind of value and any node any number of inputs. A pass that looked out for this at
every step would be unreadable, so nodes are held against the definitions of their ops first. Attributes are decoded
only of those nodes that passes look into: of a large graph, these are a few.
"""

from __future__ import annotations

from collections.abc import Mapping

from tfsmith.errors import InvalidModelError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.opdb import builtin_op
from tfsmith.ir.opdef import OpDef
from tfsmith.records import record

__all__ = ["Checker", "check_graph"]

_LOOKED_INTO = frozenset(
    {"Variable", "VariableV2", "VarHandleOp", "ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"}
    | {"VarIsInitializedOp", "Assign", "AssignAdd", "AssignSub", "AssignVariableOp", "IsVariableInitialized"}
    | {"PartitionedCall", "StatefulPartitionedCall", "If", "StatelessIf", "Case", "StatelessCase"}
    | {"While", "StatelessWhile", "Placeholder", "PlaceholderV2", "PlaceholderWithDefault"}
    | {"Restore", "RestoreSlice", "RestoreV2", "IdentityN"}
)
_REMEDY = "TensorFlow refuses this graph too; write it again from its source"


def check_graph(graph: Graph) -> None:
    """Checks all nodes of a graph and of its functions; linear.

    Raises:
        InvalidModelError: Two nodes have one name, an input is not there, nodes wait for each other in a circle, or a
            node that passes look into does not fit the definition of its op.
    """
    bodies: list[Body] = [graph, *graph.library.values()]
    for body in bodies:
        body.topological_order()
        checker = Checker(body)
        for node in body:
            checker.check(node)


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

    def __init__(self, body: Body) -> None:
        self._body = body
        self._is_graph = isinstance(body, Graph)
        self._known: dict[str, _Rules | None] = {}

    def check(self, node: Node) -> None:
        """Checks one node; decodes its attributes if passes look into such nodes.

        Raises:
            InvalidModelError: An attribute is missing or of another kind, or the number of inputs is wrong.
        """
        rules = self._rules(node.op) if node.op in _LOOKED_INTO else None
        if rules is not None:
            self._check_attrs(node, rules)
            self._check_inputs(node, rules)
        for text in node.inputs if self._is_graph else ():
            if ":" in text:
                self._check_output(node, text)

    def _check_attrs(self, node: Node, rules: _Rules) -> None:
        attrs = node.attrs
        for name, kind in rules.kinds.items():
            found = attrs.get(name)
            if found is None:
                if name in rules.required:
                    raise self._refusal(f"attribute {name!r} of op {node.op} is missing", node)
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
        if given > wanted or (given < wanted and self._is_graph):
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
