"""Lays two pieces of a graph on top of each other: what do two layers of a network have in common?

Both are walked back from their outputs at once. Where both have the same op, the node is part of the block; where they
read different weights, the block takes a weight; where both take the very same tensor, it is shared by all layers; and
where the second takes the output of the first, a layer feeds the next.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal, NamedTuple

from tfsmith.ir.attr import Attr
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.tensor import OpaqueTensor, Tensor
from tfsmith.patterns.body_index import BodyIndex
from tfsmith.patterns.fitting import is_same_attr
from tfsmith.records import field, record

__all__ = ["Alignment", "Entry", "align", "common_attrs", "reads_weight", "small_constant"]

_MOST_VALUES = 16
"""A constant with more values is a weight."""
_MOST_NODES = 5000
"""A block with more nodes is none."""
_VARIABLES = frozenset({"VariableV2", "Variable", "VarHandleOp", "ReadVariableOp"})
_NUMBERS = ("float", "bfloat", "half", "double")

Kind = Literal["carry", "shared", "weight", "other"]


class Entry(NamedTuple):
    """A tensor that enters the block.

    Attributes:
        kind: "carry": what the block before gives. "shared": the same for all. "weight": a block's own constant or
            variable. "other": something else, of which nobody knows what it has in common.
        first: The tensor at the earlier block.
        second: The tensor at the later one.
    """

    kind: Kind
    first: Endpoint
    second: Endpoint


@record(frozen=False)
class Alignment:
    """Two blocks on top of each other.

    Attributes:
        nodes: For each node of the later block, that of the earlier one.
        entries: What enters, by the pair of tensors.
        inputs: For each node of the later block, what it takes: an inner tensor, or an entry.
        constants: Nodes that are constants with the same small value in both.
    """

    nodes: dict[str, str] = field(default_factory=dict)
    entries: dict[tuple[Endpoint, Endpoint], Entry] = field(default_factory=dict)
    inputs: dict[str, list[Endpoint | Entry]] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)

    def of_kind(self, kind: Kind) -> list[Entry]:
        """The entries of one kind, in the order in which they were met."""
        return [entry for entry in self.entries.values() if entry.kind == kind]


def align(index: BodyIndex, first: str, second: str, barriers: Collection[str] = ()) -> Alignment | None:
    """Walks back from output 0 of two nodes, of which the second needs the first.

    Args:
        index: The graph or function.
        first: The node that gives the earlier block's output.
        second: The node that gives the later one's.
        barriers: Nodes that are outside of any block.

    Returns:
        What they have in common; None if they are no two blocks of a chain.
    """
    found = Alignment()
    early_nodes: set[str] = set()
    todo = [(second, first)]
    while todo:
        late, early = todo.pop()
        if found.nodes.get(late, early) != early:
            return None
        if late in found.nodes:
            continue
        found.nodes[late] = early
        if index.data(late):  # constants may be in both
            early_nodes.add(early)
            if late in early_nodes or early in found.nodes:
                return None  # this way leads past the block before
        if len(found.nodes) > _MOST_NODES:
            return None
        if _is_constant(index, late):
            found.constants.add(late)
        taken: list[Endpoint | Entry] = []
        for new, old in zip(index.data(late), index.data(early), strict=True):
            entry = _entry(index, first, new, old, barriers)
            if entry is not None:
                taken.append(found.entries.setdefault((old, new), entry))
            else:
                taken.append(new)
                todo.append((new.node, old.node))
        found.inputs[late] = taken
    return found if _is_chain(index, found) else None


def _entry(index: BodyIndex, first: str, new: Endpoint, old: Endpoint, barriers: Collection[str]) -> Entry | None:
    """Whether a pair of tensors enters from outside, and as what; None if both belong to their blocks."""
    if new == Endpoint(first, 0):
        return Entry("carry", old, new)
    one, other = index.nodes.get(new.node), index.nodes.get(old.node)
    if new == old:
        is_small = one is not None and small_constant(one) is not None
        return None if is_small else Entry("shared", old, new)
    if one is None or other is None:
        return Entry("weight", old, new)  # arguments of a function: mostly variables
    if new.node in barriers or old.node in barriers:
        return Entry("other", old, new)
    if reads_weight(index, one) and reads_weight(index, other) and not _is_same_constant(one, other):
        return Entry("weight", old, new)
    fits = one.op == other.op and new.output == old.output
    return None if fits and len(index.data(one.name)) == len(index.data(other.name)) else Entry("other", old, new)


def reads_weight(index: BodyIndex, node: Node) -> bool:
    """Whether a node gives a variable or a constant, be it through an Identity."""
    for _ in range(10):
        if node.op in _VARIABLES:
            return True
        if node.op == "Const":
            found = node.attrs.get("value")
            return found is not None and found.kind == "tensor" and found.value.dtype.name.startswith(_NUMBERS)
        data = index.data(node.name)
        below = index.nodes.get(data[0].node) if node.op == "Identity" and data else None
        if below is None:
            return False
        node = below
    return False


def small_constant(node: Node) -> Tensor | None:
    """The value of a constant of a few numbers."""
    found = node.attrs.get("value") if node.op == "Const" else None
    if found is None or found.kind != "tensor" or isinstance(found.value, OpaqueTensor):
        return None
    tensor: Tensor = found.value
    return tensor if 0 < (tensor.shape.elements or 0) <= _MOST_VALUES else None


def _is_same_constant(one: Node, other: Node) -> bool:
    left, right = small_constant(one), small_constant(other)
    if left is None or right is None or left.dtype != right.dtype or left.shape != right.shape:
        return False
    return bool(left.numpy().tolist() == right.numpy().tolist())


def _is_constant(index: BodyIndex, name: str) -> bool:
    return index.nodes[name].op == "Const"


def common_attrs(index: BodyIndex, late: str, early: str) -> dict[str, Attr]:
    """The attributes that the op's definition declares and that both have alike."""
    one, other = index.nodes[late], index.nodes[early]
    op = index.body.op_def(one.op)
    declared = {attr.name: attr.default for attr in op.attrs} if op is not None else dict.fromkeys(one.attrs)
    found: dict[str, Attr] = {}
    for name, default in sorted(declared.items()):
        left, right = one.attrs.get(name, default), other.attrs.get(name, default)
        if left is None or right is None or name.startswith("_") or (one.op, name) == ("Const", "value"):
            continue
        if is_same_attr(left, right):
            found[name] = left
    return found


def _is_chain(index: BodyIndex, found: Alignment) -> bool:
    """Whether the earlier block feeds the later one by one tensor, and constants are equal."""
    carried = {entry.first for entry in found.of_kind("carry")}
    constants_fit = all(
        found.nodes[name] == name or _is_same_constant(index.nodes[name], index.nodes[found.nodes[name]])
        for name in found.constants
    )
    return len(carried) == 1 and constants_fit and len(found.nodes) - len(found.constants) > 1
