"""The weights of a BERT by what they do: under Google's names, whatever they are called in the model.

The maps from Google's names to others then do the rest. No value is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tfsmith.errors import NotFoundInModelError
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import Endpoint
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.ir.tensor_views import PartTensor, ReshapedTensor, TransposedTensor
from tfsmith.ir.types import Shape
from tfsmith.ops import VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.passes.served import served_graphs
from tfsmith.passes.variables import CheckpointSlice, find_value, restore_sources
from tfsmith.patterns.algebra import Atom, Label, is_close
from tfsmith.patterns.flow import weight_node
from tfsmith.patterns.formula import Kernel, Norm
from tfsmith.patterns.parts import Cut, cuts_of
from tfsmith.patterns.raised import Raised
from tfsmith.patterns.text_model import Head, TextModel, find_text_models
from tfsmith.records import record, replace

__all__ = ["ByStructure", "name_by_structure"]

_HIDDEN_ACT: Mapping[str, str] = {"gelu erf": "gelu", "gelu tanh": "gelu_new"}
"""What transformers calls activations."""


@record(eq=False)
class ByStructure:
    """The weights of a BERT that was recognised.

    Attributes:
        weights: Them, under Google's names and in Google's layout; what is left over keeps its name.
        model: What was found.
        renamed: For each of Google's names, the weight's own.
    """

    weights: Weights
    model: TextModel
    renamed: Mapping[str, str]

    @property
    def note(self) -> str:
        """What the file does not say: how transformers must be configured to compute the same."""
        first = self.model.stack.layers[0]
        activation = str(first.found["activation"])
        act, epsilon = _HIDDEN_ACT.get(activation, activation), first.norm("norm1").epsilon
        return (
            f"the weights were named by what they do ({self.model}); "
            f'config.json needs "hidden_act": "{act}", "layer_norm_eps": {epsilon:g}'
        )


def name_by_structure(model: Model, weights: Weights) -> ByStructure:
    """The weights of a BERT under the names that Google's checkpoints have. Reads no value.

    Args:
        model: A model with its graph: a SavedModel, a `.meta` with its checkpoint, a frozen graph.
        weights: Its weights, by their own names.

    Raises:
        NotFoundInModelError: There is no graph, no BERT in it, or several; or it has parts that a BERT has not.
    """
    if not model.has_graph:
        what = "the weights do not have Google's names, and without a graph nothing says what each of them does"
        remedy = "pass the SavedModel, the .meta or the frozen graph, or a map of your own"
        raise NotFoundInModelError(what, path=model.path, remedy=remedy)
    reasons: list[str] = []
    found: dict[tuple[tuple[str, str], ...], ByStructure] = {}
    for served in served_graphs(model):
        inference = Inference(served.graph, model.meta.objects, are_alike=True)
        raised = Raised(served.graph, inference)
        for one in find_text_models(raised, inference):
            try:
                made = _Naming(model, weights, served.graph, raised).named(one)
                found.setdefault(tuple(made.renamed.items()), made)
            except _OtherModelError as error:
                reasons.append(str(error))
    if found:
        largest = max(found.values(), key=lambda one: len(one.renamed))
        if all(one.renamed.items() <= largest.renamed.items() for one in found.values()):
            return largest
        reasons = [f"it has {len(found)} encoders"]
    reason = reasons[0] if reasons else "no encoder is recognised in its graph"
    remedy = "{show(model, architecture=True)} says what it is; pass a map of your own"
    what = f"the weights do not have Google's names, and by structure this is no BERT: {reason}"
    raise NotFoundInModelError(what, path=model.path, remedy=remedy)


class _OtherModelError(Exception):
    """Why something is not a BERT."""


class _Naming:
    """Gives Google's names to the weights of one graph."""

    def __init__(self, model: Model, weights: Weights, graph: Graph, raised: Raised) -> None:
        self._model = model
        self._weights = weights
        self._graph = graph
        self._raised = raised
        self._algebra = raised.algebra
        self._sources: Mapping[str, CheckpointSlice] = restore_sources(model.meta)
        self._made: dict[str, Tensor] = {}
        self._renamed: dict[str, str] = {}

    def named(self, found: TextModel) -> ByStructure:
        """All weights of a text model.

        Raises:
            _OtherModelError: It is no BERT.
        """
        if found.family != "BERT":
            what = (
                "its embeddings are not words, positions and types" if found.family is None else f"it is {found.family}"
            )
            raise _OtherModelError(what)
        self._check_scale(found)
        for kind, name in _TABLES.items():
            table = found.table(kind)
            assert table is not None
            self._put(f"bert/embeddings/{name}", table.weight, None)
        assert found.norm is not None
        self._norm("bert/embeddings/LayerNorm", found.norm)
        for number, layer in enumerate(found.stack.layers):
            scope = f"bert/encoder/layer_{number}"
            heads = layer.heads
            for name in ("query", "key", "value"):
                self._dense(f"{scope}/attention/self/{name}", layer.kernel(name), heads.heads)
            self._dense(f"{scope}/attention/output/dense", layer.kernel("output"), heads.heads)
            self._norm(f"{scope}/attention/output/LayerNorm", layer.norm("norm1"))
            self._dense(f"{scope}/intermediate/dense", layer.kernel("inner"))
            self._dense(f"{scope}/output/dense", layer.kernel("outer"))
            self._norm(f"{scope}/output/LayerNorm", layer.norm("norm2"))
        if found.pooler is not None:
            self._dense("bert/pooler/dense", found.pooler)
        self._heads(found.heads)
        rest = self._rest()
        names = {key: value for key, value in self._weights.names.items() if key in rest}
        weights = replace(self._weights, tensors={**self._made, **rest}, names=names)
        return ByStructure(weights, found, dict(self._renamed))

    def _check_scale(self, found: TextModel) -> None:
        for layer in found.stack.layers:
            hidden, heads = layer.kernel("output").width, layer.heads.number
            if hidden is None or not heads or not is_close(layer.heads.scale, (hidden // heads) ** -0.5):
                raise _OtherModelError(f"its scores are multiplied by {layer.heads.scale:g}, not by 1/sqrt(head size)")

    def _heads(self, heads: Sequence[Head]) -> None:
        """The weights of the heads that Google's names have a word for."""
        is_pretraining = any(head.kind == "language model" for head in heads)
        classifiers = [head for head in heads if head.kind == "classifier" and not head.before]
        if len(classifiers) == 1:
            scope = "cls/seq_relationship/" if is_pretraining else ""
            self._rows(f"{scope}output_weights", f"{scope}output_bias", classifiers[0])
        for head in heads:
            if head.kind == "answer span":
                self._rows("cls/squad/output_weights", "cls/squad/output_bias", head)
            elif head.kind == "word classifier" and not head.before:
                self._rows("cls/tokens/output_weights", "cls/tokens/output_bias", head)
            elif head.kind == "language model" and head.norm is not None and len(head.before) == 1:
                self._dense("cls/predictions/transform/dense", head.before[0][0])
                self._norm("cls/predictions/transform/LayerNorm", head.norm)
                if head.bias is not None:
                    self._put("cls/predictions/output_bias", head.bias, None)

    def _rows(self, name: str, bias: str, head: Head) -> None:
        """A last product as Google stores it: a row for each value."""
        kernel = head.kernel
        assert kernel is not None
        given = _labels(kernel.kernel) - kernel.summed
        self._put_atom(name, kernel.kernel, [given, kernel.summed])
        if kernel.bias is not None:
            self._put_atom(bias, kernel.bias, [given])

    def _dense(self, scope: str, found: Kernel, first: frozenset[Label] = frozenset()) -> None:
        """A product: rows are summed over. The labels in `first` vary slowest among rows or columns."""
        given = _labels(found.kernel) - found.summed
        self._put_atom(f"{scope}/kernel", found.kernel, [found.summed, given], first)
        if found.bias is not None:
            self._put_atom(f"{scope}/bias", found.bias, [given], first)

    def _norm(self, scope: str, norm: Norm) -> None:
        for name, atom in (("gamma", norm.gamma), ("beta", norm.beta)):
            if atom is not None:
                self._put_atom(f"{scope}/{name}", atom, [_labels(atom)])

    def _put_atom(
        self, name: str, atom: Atom, groups: list[frozenset[Label]], first: frozenset[Label] = frozenset()
    ) -> None:
        """A weight in the layout that is wanted: an axis for each group of labels, in their stored order."""
        whole, cuts = cuts_of(self._algebra, atom)
        tensor, _, output = str(whole).rpartition(":")
        stored = [label for arg in atom[1] for label in arg]
        wanted = [
            [label for is_first in (True, False) for label in stored if label in group and (label in first) == is_first]
            for group in groups
        ]
        self._put(name, Endpoint(tensor, int(output)), (stored, wanted), cuts)

    def _put(
        self,
        name: str,
        weight: Endpoint,
        layout: tuple[list[Label], list[list[Label]]] | None,
        cuts: Sequence[Cut] = (),
    ) -> None:
        key, value = self._stored(weight)
        for cut in cuts:
            value = _part(value, cut)
        if key not in self._weights and key in self._model.variables:
            return  # it was left out
        if layout is None:
            dims = value.shape.dims or ()
            made = value if len(dims) <= 2 else ReshapedTensor(value, Shape(dims[-2:]))
        else:
            made = self._laid_out(value, *layout)
        self._made[name], self._renamed[name] = made, key

    def _stored(self, weight: Endpoint) -> tuple[str, Tensor]:
        """The key and the value of the variable or constant that a tensor is."""
        node = weight_node(self._graph, weight)
        assert node is not None
        if node.op in VARIABLES:
            return find_value(self._model, node, self._sources)
        value = node.constant
        assert value is not None
        folded = node.name.removesuffix("/read")
        return (node.name if node.name in self._weights else folded), value

    def _laid_out(self, value: Tensor, stored: list[Label], wanted: list[list[Label]]) -> Tensor:
        """A stored tensor with its labels in another order, and grouped."""
        order = [label for group in wanted for label in group]
        sizes = {label: size for label in stored if isinstance(size := self._algebra.size(label), int)}
        if sorted(stored) != sorted(order) or len(sizes) != len(stored):
            raise _OtherModelError("the layout of a weight is not known")
        made = value
        if stored != order:
            apart = _shaped(value, tuple(sizes[label] for label in stored))
            made = TransposedTensor(apart, tuple(stored.index(label) for label in order))
        return _shaped(made, tuple(prod(sizes[label] for label in group) for group in wanted))

    def _rest(self) -> dict[str, Tensor]:
        """The weights that have no part in it, under their own names."""
        used = set(self._renamed.values())
        return {name: tensor for name, tensor in self._weights.items() if name not in used}


_TABLES = {"words": "word_embeddings", "positions": "position_embeddings", "types": "token_type_embeddings"}


def _shaped(value: Tensor, sizes: tuple[int, ...]) -> Tensor:
    return value if value.shape.dims == sizes else ReshapedTensor(value, Shape(sizes))


def _part(value: Tensor, cut: Cut) -> Tensor:
    """A part of a tensor."""
    sizes = value.shape.dims or ()
    front, back = sizes[: cut.axis], sizes[cut.axis + 1 :]
    apart = _shaped(value, (*front, cut.before, cut.span, *back))
    start = (*(0 for _ in front), 0, cut.start, *(0 for _ in back))
    part = PartTensor(apart, start, Shape((*front, cut.before, cut.size, *back)))
    return _shaped(part, (*front, cut.before * cut.size, *back))


def _labels(atom: Atom) -> frozenset[Label]:
    return frozenset(label for arg in atom[1] for label in arg)
