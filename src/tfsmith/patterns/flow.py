"""How data flows through a body: from where a tensor comes, what lies between, which dense layers are last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from tfsmith.ir.body import Body
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ops import BIASES, HANDS_ON, MOVES, OF_WEIGHTS, PASSES_ON, PRODUCTS, SHARES, VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.ops.sizes import Size
from tfsmith.records import record

__all__ = ["DenseEnd", "Flow", "weight_node"]

_FAR = 50
"""So many nodes are followed to find where a tensor comes from."""
_NEAR = MOVES | BIASES
"""What may lie between the last product and its activation."""


def weight_node(body: Body, tensor: Endpoint) -> Node | None:
    """The variable or constant that a tensor is, as it is stored; None if it is computed or given from outside."""
    return _stored(body, tensor, frozenset())


def _stored(body: Body, tensor: Endpoint, through: Collection[str]) -> Node | None:
    for _ in range(_FAR):
        node = body.by_name.get(tensor.node)
        if node is None or node.op in VARIABLES or node.op == "Const":
            return node
        is_same = node.op in PASSES_ON or node.op in HANDS_ON or node.op == "ReadVariableOp" or node.op in through
        if not is_same or not node.data_inputs:
            return None
        tensor = body.resolve(node.data_inputs[0])
    return None


@record
class DenseEnd:
    """A dense layer that no other follows.

    Attributes:
        node: Its product.
        size: How many values it gives.
        activation: "softmax" or "sigmoid" if that follows; else "".
    """

    node: str
    size: int | None
    activation: str

    def __str__(self) -> str:
        if self.size is None:
            return "a classifier" if self.activation else "a dense output"
        if self.activation:
            return f"classifier of {self.size}"
        return f"{self.size} output{'s' * (self.size != 1)}"


class Flow:
    """The nodes of a body in order, with what each of them depends on."""

    def __init__(self, body: Body, inference: Inference) -> None:
        self.body = body
        self._inference = inference

    def node(self, tensor: Endpoint) -> Node | None:
        """The node that gives a tensor, behind nodes that only pass it on; None for an argument."""
        for _ in range(_FAR):
            node = self.body.by_name.get(tensor.node)
            if node is None or node.op not in PASSES_ON or not node.data_inputs:
                return node
            tensor = self.body.resolve(node.data_inputs[0])
        return None

    def inputs(self, node: Node) -> list[Node]:
        """The nodes that give a node's inputs, behind nodes that only pass on; without arguments."""
        found = (self.node(self.body.resolve(text)) for text in node.data_inputs)
        return [one for one in found if one is not None]

    def sizes(self, node: Node, output: int = 0) -> tuple[Size, ...] | None:
        """The sizes of what a node gives."""
        return self._inference.known(self.body, Endpoint(node.name, output)).dims

    def input_sizes(self, node: Node, number: int) -> tuple[Size, ...] | None:
        """The sizes of what a node takes."""
        if number >= len(node.data_inputs):
            return None
        return self._inference.known(self.body, self.body.resolve(node.data_inputs[number])).dims

    def integers(self, node: Node, number: int) -> tuple[int, ...] | None:
        """The elements of a small tensor of integers that a node takes."""
        if number >= len(node.data_inputs):
            return None
        return self._inference.integers(self.body, self.body.resolve(node.data_inputs[number]))

    def takes_weight(self, node: Node, number: int) -> bool:
        """Whether an input is a weight: stored, and at most moved, scaled or quantized."""
        if number >= len(node.data_inputs):
            return False
        return _stored(self.body, self.body.resolve(node.data_inputs[number]), OF_WEIGHTS) is not None

    def behind(self, is_wanted: Callable[[Node], bool]) -> set[str]:
        """The nodes that are, or depend on, such nodes. Linear; no recursion."""
        found: set[str] = set()
        todo = [node.name for node in self.body if is_wanted(node)]
        while todo:
            name = todo.pop()
            if name in found:
                continue
            found.add(name)
            todo += [use.node.name for use in self.body.consumers(name) if use.node.name not in found]
        return found

    def before(self, names: Iterable[str], most: int) -> Iterator[Node]:
        """The nodes that some nodes take something from, the nearest first; at most so many."""
        todo, seen = list(names), set[str]()
        for name in todo:
            node = self.body.by_name.get(name)
            if node is None or name in seen:
                continue
            seen.add(name)
            if len(seen) > most:
                return
            yield node
            todo += [self.body.resolve(text).node for text in node.data_inputs]

    def dense_ends(self, features: Collection[str]) -> tuple[DenseEnd, ...]:
        """The last dense layers among the nodes that depend on features."""
        products = {
            node.name: node
            for node in self.body
            if node.op in PRODUCTS and node.name in features and self.takes_weight(node, 1)
        }
        inner = {
            before.name
            for node in products.values()
            for before in self.before(node.data_inputs and [self.body.resolve(node.data_inputs[0]).node], _FAR)
            if before.name in products
        }
        return tuple(
            DenseEnd(name, self._width(node), self.activation(node))
            for name, node in products.items()
            if name not in inner
        )

    def _width(self, node: Node) -> int | None:
        sizes = self.input_sizes(node, 1)
        if sizes is None or len(sizes) < 2:
            return None
        size = sizes[-2 if node.get("transpose_b") or node.get("adj_y") else -1]
        return size if isinstance(size, int) else None

    def activation(self, node: Node) -> str:
        """Whether a softmax or sigmoid is next."""
        todo, seen = [node.name], set[str]()
        while todo and len(seen) < _FAR:
            name = todo.pop()
            seen.add(name)
            for use in self.body.consumers(name):
                if use.node.op in SHARES:
                    return "sigmoid" if use.node.op == "Sigmoid" else "softmax"
                if use.node.op in _NEAR and use.node.name not in seen:
                    todo.append(use.node.name)
        return ""
