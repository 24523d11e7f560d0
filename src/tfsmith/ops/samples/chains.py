"""Samples of chains: what engines fuse or move. Transposes and reshapes around an op, bias, activation, pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from tfsmith.ir.attr import Attr
from tfsmith.ir.dtype import as_dtype
from tfsmith.ir.node import Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ops.samples import Case, chain, numbers, samples

__all__ = ["Draft"]


class Draft:
    """A chain that is being written: nodes in order, their types filled in by the op's definition."""

    def __init__(self, kind: str = "float32") -> None:
        self.kind = as_dtype(kind)
        self.nodes: list[Node] = []
        self.feeds: dict[str, Any] = {}

    def feed(self, values: Any) -> str:
        """An input."""
        name = f"x{len(self.feeds)}"
        self.feeds[name] = numpy.asarray(values)
        return name

    def const(self, values: Any, kind: str = "int32") -> str:
        """A constant."""
        name = f"c{len(self.nodes)}"
        found = as_dtype(kind)
        tensor = ArrayTensor(found, numpy.asarray(values, found.numpy()))
        self.nodes.append(Node(name, "Const", (), {"dtype": found, "value": Attr("tensor", tensor)}))
        return name

    def add(self, op: str, *inputs: str, **attrs: Any) -> str:
        """A node; `T` is the chain's type where nothing else is said. The name of its first output."""
        name = f"n{len(self.nodes)}"
        self.nodes.append(Node(name, op, inputs, {"T": self.kind, **attrs}))
        return name

    def transpose(self, x: str, order: Sequence[int]) -> str:
        """A transpose by a constant order."""
        return self.add("Transpose", x, self.const(order), Tperm=as_dtype("int32"))

    def reshape(self, x: str, shape: Sequence[int]) -> str:
        """A reshape to a constant shape."""
        return self.add("Reshape", x, self.const(shape), Tshape=as_dtype("int32"))

    def case(self, op: str, name: str, *fetches: str) -> Case:
        """The chain as a case."""
        return chain(op, name, self.nodes, self.feeds, [one if ":" in one else f"{one}:0" for one in fetches])


@samples("LogSoftmax Softmax", ulps=8, n_eps=8)
def _softmaxes(op: str) -> Iterator[Case]:
    for order in ((0, 2, 1), (1, 0, 2), (2, 1, 0), (2, 0, 1)):
        draft = Draft()
        inner = draft.add(op, draft.transpose(draft.feed(numbers("float32", 2, 3, 4)), order))
        yield draft.case(op, f"after transpose {list(order)}", inner)
        yield draft.case(op, f"between transposes {list(order)}", draft.transpose(inner, order))
    draft = Draft()
    flat = draft.add(op, draft.reshape(draft.feed(numbers("float32", 2, 3, 4)), (6, 4)))
    yield draft.case(op, "between reshapes", draft.reshape(flat, (2, 3, 4)))
