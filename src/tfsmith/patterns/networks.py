"""What a model is: text models, convolutional and recurrent nets, found by what its graph computes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tfsmith.ir.graph import Function, Graph, check_nodes
from tfsmith.ir.model import Model
from tfsmith.ops import PRODUCTS, VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.passes.served import served_graphs
from tfsmith.patterns.attentions import Transformer, find_transformer
from tfsmith.patterns.convnet import ConvNet, find_convnet
from tfsmith.patterns.raised import Raised
from tfsmith.patterns.recurrent import RecurrentNet, find_recurrent
from tfsmith.patterns.text_model import TextModel, find_text_models
from tfsmith.records import record

__all__ = ["Network", "find_networks"]

_SHARES = frozenset({"Softmax", "Exp"})
_PRODUCTS = PRODUCTS - {"MatMul", "_FusedMatMul"}
"""Attention needs one of each."""
_Found: TypeAlias = "TextModel | Transformer | ConvNet | RecurrentNet"
_Likeness: TypeAlias = "tuple[tuple[str, str], ...]"
"""The ops of a graph in order, and its variables: graphs of two signatures with the same are the same network."""
_FRONT = 2
"""A transformer with so many convolutions that look at more than one place has a convolutional net before it."""


@record
class Network:
    """Something that was recognised.

    Attributes:
        found: What it is.
        signatures: The signatures that use it.
        function: The function that it is in, where no signature uses it; else None.
    """

    found: _Found
    signatures: tuple[str, ...] = ()
    function: str | None = None

    def __str__(self) -> str:
        return str(self.found)

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "text": str(self),
            "signatures": list(self.signatures),
            "function": self.function,
            **self.found.facts(),
        }


def find_networks(model: Model) -> tuple[Network, ...]:
    """What a model is. Looks at every node of what it serves, and reads no weight.

    What several signatures use is there once. Functions are looked at by themselves only where there is no signature.

    Raises:
        InvalidModelError: The graph is damaged; names the node.
    """
    found: dict[str, Network] = {}
    known: dict[_Likeness, tuple[_Found, ...]] = {}
    for served in served_graphs(model):
        likeness = tuple((node.op, node.name if node.op in VARIABLES else "") for node in served.graph)
        if likeness not in known:
            known[likeness] = tuple(_in_body(served.graph, model))
        for one in known[likeness]:
            text = str(one)
            before = found[text].signatures if text in found else ()
            key = () if served.signature is None else (served.signature,)
            found[text] = Network(one, (*before, *key))
    if not found and not model.signatures:
        for name, function in model.graph.library.items():
            check_nodes(function)
            for one in _in_body(function, model):
                found.setdefault(str(one), Network(one, function=name))
    return tuple(found.values())


def _in_body(body: Graph | Function, model: Model) -> Iterator[_Found]:
    graph = body if isinstance(body, Graph) else model.graph
    inside = body if isinstance(body, Function) else None
    inference = Inference(graph, model.meta.objects, inside=inside, are_alike=True)
    texts: tuple[TextModel, ...] = ()
    if _SHARES & {node.op for node in body} and _PRODUCTS & {node.op for node in body}:
        raised = Raised(body, inference, is_rounded=True)
        texts = find_text_models(raised, inference)
        known = frozenset(layer.kernel("query").kernel[0] for one in texts for layer in one.stack.layers)
        other = find_transformer(raised, known)
        yield from () if other is None else (other,)
    yield from texts
    net = find_convnet(body, inference)
    if net is not None and (not texts or sum(max(one.kernel) > 1 for one in net.convolutions) > _FRONT):
        yield net
    recurrent = find_recurrent(body, graph.library, inference)
    if recurrent is not None:
        yield recurrent
