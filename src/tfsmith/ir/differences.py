"""`Difference`: what is not the same in two models, as data. `passes` finds it, `view` tells it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tfsmith.ir.attr import Attr
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import Tensor
from tfsmith.records import field, record

__all__ = [
    "AttrChange",
    "BodyDifference",
    "FunctionDifference",
    "InputChange",
    "NodeChange",
    "StructureDifference",
    "TensorPair",
    "ValueChange",
]


@record
class ValueChange:
    """A named fact that differs: None where one model does not have it. The values are plain data."""

    name: str
    first: Any
    second: Any


@record
class InputChange:
    """An input that leads elsewhere. `index` is None for a control input; `first` or `second` is None if it is new."""

    index: int | None
    first: str | None
    second: str | None


@record
class AttrChange:
    """An attribute that differs; None where a node does not have it."""

    name: str
    first: Attr | None
    second: Attr | None


@record
class NodeChange:
    """A node that both have, and what differs. The names differ where it was renamed."""

    first: Node
    second: Node
    inputs: tuple[InputChange, ...] = ()
    attrs: tuple[AttrChange, ...] = ()


@record
class BodyDifference:
    """What differs between two graphs, or two functions.

    Attributes:
        added: Nodes that only the second has, in its order.
        removed: Nodes that only the first has, in its order.
        renamed: Nodes that came back under another name with the same op, attributes and inputs.
        changed: Nodes of one name with another op, device, attributes or inputs.
        same: How many nodes are the same.
    """

    added: tuple[Node, ...] = ()
    removed: tuple[Node, ...] = ()
    renamed: tuple[tuple[Node, Node], ...] = ()
    changed: tuple[NodeChange, ...] = ()
    same: int = 0

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.renamed or self.changed)


@record
class FunctionDifference:
    """A function that both have, and what differs: its own name, what it takes and gives, its body."""

    first: str
    second: str
    facts: tuple[ValueChange, ...] = ()
    attrs: tuple[AttrChange, ...] = ()
    body: BodyDifference = field(default_factory=BodyDifference)


@record
class TensorPair:
    """Two constants of one dtype and shape whose values were not looked at."""

    name: str
    first: Tensor
    second: Tensor


@record
class StructureDifference:
    """What differs between two models, values of weights not looked at.

    Attributes:
        nodes: The graph itself.
        functions_added: Functions that only the second has.
        functions_removed: Functions that only the first has.
        functions: Functions that both have, where something differs.
        function_count: How many functions both have.
        signatures: Signatures, by key and part.
        collections: Collections, by key.
        assets: Asset files and the tensors that name them.
        versions: Who wrote the graphs, and who may read them.
        others: Saver, gradients and saved objects.
        constants: Constants to compare: by node name; in functions "function/node".
    """

    nodes: BodyDifference = field(default_factory=BodyDifference)
    functions_added: tuple[str, ...] = ()
    functions_removed: tuple[str, ...] = ()
    functions: tuple[FunctionDifference, ...] = ()
    function_count: int = 0
    signatures: tuple[ValueChange, ...] = ()
    collections: tuple[ValueChange, ...] = ()
    assets: tuple[ValueChange, ...] = ()
    versions: tuple[ValueChange, ...] = ()
    others: tuple[ValueChange, ...] = ()
    constants: tuple[TensorPair, ...] = ()
    renamed_nodes: Mapping[str, str] = field(default_factory=dict)
