"""What a network is, from what it computes: stacks of equal layers of transformers, by their formulas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function
from tfsmith.ir.model import Model
from tfsmith.ir.node import Endpoint
from tfsmith.ops import PRODUCTS
from tfsmith.ops.inference import Inference
from tfsmith.patterns.algebra import Reading
from tfsmith.patterns.formula import (
    Activation,
    Attention,
    Bound,
    Dense,
    Formula,
    Found,
    Heads,
    Kernel,
    LayerNorm,
    Norm,
    Search,
    Var,
)
from tfsmith.patterns.raised import Raised
from tfsmith.records import record

__all__ = [
    "LAYER",
    "Layer",
    "Stack",
    "candidates",
    "count_attentions",
    "find_stacks",
    "half_type",
    "model_stacks",
    "raised_bodies",
]


def _attention(x: Formula) -> Attention:
    return Attention(Dense(x, "query"), Dense(x, "key"), Dense(x, "value"), "attention")


def _post_norm() -> Formula:
    """A layer of BERT: attention and feed-forward, each added to what it was given and then normalized."""
    x = Var("x")
    y = LayerNorm(x + Dense(_attention(x), "output"), "norm1")
    return LayerNorm(y + Dense(Activation(Dense(y, "inner"), "activation"), "outer"), "norm2")


def _pre_norm() -> Formula:
    """A layer of GPT-2 or ViT: attention and feed-forward of what is normalized, each added to what it was given."""
    x = Var("x")
    y = x + Dense(_attention(LayerNorm(x, "norm1")), "output")
    return y + Dense(Activation(Dense(LayerNorm(y, "norm2"), "inner"), "activation"), "outer")


LAYER = _post_norm()
"""A layer of an encoder."""
_FORMULAS: Mapping[str, Formula] = MappingProxyType({"encoder": LAYER, "pre-norm transformer": _pre_norm()})


@record
class Layer:
    """One layer: the tensor that it gives, and what was found."""

    output: Endpoint
    found: Found

    def kernel(self, name: str) -> Kernel:
        """A weight, by its name in the formula."""
        found = self.found[name]
        assert isinstance(found, Kernel)
        return found

    def norm(self, name: str) -> Norm:
        """The weights of a layer norm, by its name in the formula."""
        found = self.found[name]
        assert isinstance(found, Norm)
        return found

    @property
    def heads(self) -> Heads:
        """How attention is done."""
        found = self.found["attention"]
        assert isinstance(found, Heads)
        return found

    @property
    def x(self) -> Bound:
        """What the layer takes."""
        found = self.found["x"]
        assert isinstance(found, Bound)
        return found


@record
class Stack:
    """Layers of which each takes what the one before it gives."""

    kind: str
    layers: tuple[Layer, ...]

    def __str__(self) -> str:
        first = self.layers[0]
        count = len(self.layers)
        sizes = {
            "hidden": first.kernel("output").width,
            "heads": first.heads.number,
            "intermediate": first.kernel("inner").width,
        }
        parts = [f"{self.kind} of {count} layer{'s' * (count != 1)}"]
        parts += [f"{name} {size}" for name, size in sizes.items() if size is not None]
        return ", ".join([*parts, str(first.found["activation"]), f"epsilon {first.norm('norm1').epsilon:g}"])


def raised_bodies(model: Model, *, functions: bool = True) -> Iterator[tuple[str | None, Raised, Inference]]:
    """The graph and the functions that have a softmax, each raised by itself, by the name of the function."""
    graph = model.graph
    bodies: list[tuple[str | None, Body]] = [(None, graph), *(graph.library.items() if functions else ())]
    for name, body in bodies:
        softmaxes = [node.name for node in body if node.op in ("Softmax", "Exp")]
        if softmaxes:
            inside = body if isinstance(body, Function) else None
            inference = Inference(graph, model.meta.objects, inside=inside, are_alike=True)
            yield name, Raised(body, inference, body.ancestors(body.descendants(softmaxes))), inference


def half_type(body: Body) -> str | None:
    """The type of half precision in which a body multiplies; None if there is none."""
    kinds = (node.get("T") for node in body if node.op in PRODUCTS)
    return next((str(kind.name) for kind in kinds if kind is not None and kind.name in ("float16", "bfloat16")), None)


def model_stacks(model: Model) -> Iterator[tuple[str | None, Stack]]:
    """The stacks of equal layers in a model's graph and functions, with the function that each is in."""
    for name, raised, _ in raised_bodies(model):
        for stack in find_stacks(raised):
            yield name, stack


def count_attentions(raised: Raised) -> int:
    """How many attentions there are."""
    return sum(kind == "attention" for kind, _, _ in raised.recognised())


def find_stacks(raised: Raised) -> tuple[Stack, ...]:
    """The stacks of equal layers in a raised graph."""
    search = Search(raised)
    found: list[Stack] = []
    for kind, formula in _FORMULAS.items():
        if found and sum(len(stack.layers) for stack in found) == count_attentions(raised):
            break
        by_norm: dict[int, Layer] = {}
        for tensor, reading in candidates(raised, "norm" if kind == "encoder" else "contract"):
            match = next(search.match(formula, reading.value, {}), None)
            if match is not None:
                layer = Layer(tensor, match)
                by_norm[layer.norm("norm2").number] = layer  # before beta is added, it is not the whole layer
        found += _stacked(kind, {_number(raised, layer): layer for layer in by_norm.values()})
    return tuple(found)


def _number(raised: Raised, layer: Layer) -> int:
    """The class of what a layer gives."""
    reading = raised.reading(layer.output)
    assert reading is not None
    return raised.algebra.intern(reading.value)[0]


def candidates(raised: Raised, wanted: str) -> Iterator[tuple[Endpoint, Reading]]:
    """Tensors that may be what a layer gives: the first of each value that has an atom of this kind."""
    seen: set[object] = set()
    for tensor, reading in raised:
        if reading.value in seen:
            continue
        seen.add(reading.value)
        if any(raised.algebra.head(atom)[0] == wanted for product, _ in reading.value for atom, _ in product):
            yield tensor, reading


def _stacked(kind: str, layers: Mapping[int, Layer]) -> Iterator[Stack]:
    followers = {layer.x.number: number for number, layer in layers.items()}
    for number, layer in layers.items():
        if layer.x.number in layers:
            continue
        chain = [number]
        while chain[-1] in followers and followers[chain[-1]] not in chain:
            chain.append(followers[chain[-1]])
        yield Stack(kind, tuple(layers[each] for each in chain))
