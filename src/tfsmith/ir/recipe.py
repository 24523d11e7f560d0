"""`Recipe`: what to look for in a graph and what to put in its place. Data only; `patterns` does the work.

A recipe is written by hand (a TOML file), drafted from a model, or made from an extracted `Pattern` and a node. All
three give the same type, in which edges are pairs of a name and an output index, so that one recipe fits graphs and
functions alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tfsmith.ir.attr import Attr
from tfsmith.ir.name_rule import NameRule
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.pattern import Pattern
from tfsmith.records import field, record

__all__ = ["ConstantQuery", "Expression", "NodeQuery", "Query", "Recipe", "Repeat", "TargetNode", "Variant"]

_NO_ATTRS: Mapping[str, Attr] = MappingProxyType({})
_NO_ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType({})
_NO_RULES: Mapping[str, NameRule] = MappingProxyType({})


@record
class ConstantQuery:
    """What the values of a Const must be: these, in this shape (a single value also fits a constant filled with it).

    Attributes:
        values: The wanted values, flat; numbers or bytes.
        shape: The wanted shape, or None where it does not matter.
        tolerance: How far a floating-point value may be off, relative to the wanted one.
    """

    values: tuple[float | int | bool | bytes, ...]
    shape: tuple[int, ...] | None = None
    tolerance: float = 1e-6


@record
class NodeQuery:
    """One node to be found.

    Attributes:
        name: What the recipe calls it.
        ops: Any of these ops will do.
        inputs: What it takes: outputs of other wanted nodes, or inputs of the query (always with index 0). A control
            edge has index `CONTROL`. All inputs are listed; control inputs of the found node that are not listed are
            carried over to what replaces the match.
        attrs: Attributes that must be equal. Others do not matter.
        constant: What the values must be, for a Const.
        is_commutative: Whether the first two inputs may stand in either order.
    """

    name: str
    ops: tuple[str, ...]
    inputs: tuple[Endpoint, ...] = ()
    attrs: Mapping[str, Attr] = field(default_factory=lambda: _NO_ATTRS)
    constant: ConstantQuery | None = None
    is_commutative: bool = False


@record
class Query:
    """A connected piece of graph to be found.

    Attributes:
        nodes: The nodes, in any order.
        inputs: Names for the tensors that enter from outside; each is bound to whatever tensor stands there, and to
            the same one at every place.
        outputs: The outputs of wanted nodes that the rest of the graph may use.
        through: Ops of one input that may stand on any edge without being wanted, such as Identity; they are passed
            through, and belong to the match.
        names: For an input or a wanted node, the rule that its name in the model must fit. An input also has the name
            of the variable or constant that it is read from. `{i}` is one number in all names of a unit; where the
            query repeats, the unit that follows has the next one.
    """

    nodes: tuple[NodeQuery, ...]
    inputs: tuple[str, ...]
    outputs: tuple[Endpoint, ...]
    through: tuple[str, ...] = ()
    names: Mapping[str, NameRule] = field(default_factory=lambda: _NO_RULES)


@record
class Repeat:
    """How a query repeats: as a chain of units, each feeding the next, all of them one match.

    Attributes:
        carry: For an input of the query, the output of the unit before it that must stand there.
        shared: Inputs of the query that must be bound to one and the same tensor in every unit.
        before: What must stand in front of the chain, once; its nodes belong to the match.
        links: For a shared input of the query, the output of `before` that gives it.
        least: The smallest number of units that counts as a match.
    """

    carry: Mapping[str, Endpoint]
    shared: tuple[str, ...] = ()
    before: Query | None = None
    links: Mapping[str, Endpoint] = field(default_factory=lambda: _NO_ENDPOINTS)
    least: int = 1


@record
class Expression:
    """A value that is computed for each match from what was found, such as `dim(kernel, 0)` or `attr(mean, T)`."""

    text: str


@record
class TargetNode:
    """One node to be put in.

    Attributes:
        name: What the recipe calls it.
        op: Its op.
        inputs: Names of query inputs, `node` or `node:1` for an output of another target node or of a wanted node,
            `^node` for a control edge. `each(a, b, c)` stands for the inputs a, b, c of the first unit, then of the
            second, and so on to the last.
        attrs: Attributes, or how to compute them.
        device: Where it runs; "" for no choice.
        rename: The name in the model; `{scope}` is the deepest name scope that the matched nodes have in common,
            `{seed}` the name of the first output's node. Made unique where it is taken.
        fold: Whether it becomes a constant where all its inputs are constants.
        output_args: The names of the op's outputs, for an op whose definition nobody knows; inside of functions, edges
            are spelled with them.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    attrs: Mapping[str, Attr | Expression] = field(default_factory=lambda: _NO_ATTRS)
    device: str = ""
    rename: str = "{scope}/{name}"
    fold: bool = False
    output_args: tuple[str, ...] = ()


@record
class Variant:
    """One way in which the wanted piece is built, and what replaces it there.

    Attributes:
        name: What it is called in reports.
        query: What to look for; the unit, if it repeats.
        targets: The nodes to put in; they may use each other.
        outputs: For each output of the query: the target's output that takes its place, or an input of the query (the
            match is then removed and its input passed on). Of a repeated query, the outputs of the last unit.
        repeat: How the query repeats, if it does.
        require: What must be true of a match, such as `rank(x) == 2`; otherwise it is left alone.
    """

    name: str
    query: Query
    targets: tuple[TargetNode, ...]
    outputs: Mapping[Endpoint, Endpoint]
    repeat: Repeat | None = None
    require: tuple[Expression, ...] = ()


@record
class Recipe:
    """What to find, in one or several variants, and what to put there.

    Attributes:
        name: Its name.
        description: What it does, in a sentence.
        variants: Tried in this order; a node that one of them matched is not matched by a later one.
        source_pattern: The extracted nodes that it was made from, if it was.
        target_node: The node that it was made with, if it was; `source_pattern` and `target_node` are what its file
            in the wire format holds.
    """

    name: str
    description: str
    variants: tuple[Variant, ...]
    source_pattern: Pattern | None = None
    target_node: Node | None = None
