"""Attentions in no layer whose formula is known: decoders and cross attention, as far as their structure says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tfsmith.ir.node import Endpoint
from tfsmith.ops import SLICES, SPLITS
from tfsmith.patterns.algebra import Atom, Label, Value, bound_of, class_of
from tfsmith.patterns.causal import shows_causal
from tfsmith.patterns.formula import Search, labels_of
from tfsmith.patterns.raised import Raised
from tfsmith.records import record

__all__ = ["Attended", "Transformer", "find_transformer"]

_FAR = 20
"""So many products and parts are followed to find what a query is of."""


class Attended(NamedTuple):
    """One attention.

    Attributes:
        tensor: The tensor that has it.
        is_causal: Whether no word sees those behind it.
        is_cross: Whether keys are of another tensor than queries.
        heads: How many heads it has; None if that is not known.
        size: How large each head is.
    """

    tensor: Endpoint
    is_causal: bool
    is_cross: bool
    heads: int | None
    size: int | None


@record
class Transformer:
    """Attentions, and nothing that is known of the layers around them."""

    attentions: tuple[Attended, ...]

    @property
    def decoder_layers(self) -> int:
        """How many attentions see no word behind, or else take keys of another tensor."""
        return sum(one.is_causal for one in self.attentions) or sum(one.is_cross for one in self.attentions)

    @property
    def encoder_layers(self) -> int:
        """How many attentions see all words of their own tensor."""
        return sum(not one.is_causal and not one.is_cross for one in self.attentions)

    @property
    def is_causal(self) -> bool:
        """Whether there are attentions that see no word behind."""
        return any(one.is_causal for one in self.attentions)

    @property
    def has_cross_attention(self) -> bool:
        """Whether there are attentions whose keys are of another tensor."""
        return any(one.is_cross for one in self.attentions)

    def __str__(self) -> str:
        first = self.attentions[0]
        parts = [f"{count} layer{'s' * (count != 1)}" for count in (self.encoder_layers, self.decoder_layers)]
        if not self.decoder_layers:
            text = f"transformer of {parts[0]}"
        elif not self.encoder_layers:
            text = f"decoder of {parts[1]}"
        else:
            text = f"encoder of {parts[0]}, decoder of {parts[1]}"
        found = [text, *(["causal"] if self.is_causal else []), *(["cross attention"] * self.has_cross_attention)]
        if first.heads is not None and all((one.heads, one.size) == first[-2:] for one in self.attentions):
            found.append(f"heads {first.heads}" + (f" of size {first.size}" if first.size is not None else ""))
        return ", ".join(found)

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "kind": "decoder" if self.decoder_layers and not self.encoder_layers else "transformer",
            "encoder_layers": self.encoder_layers,
            "decoder_layers": self.decoder_layers,
            "causal": self.is_causal,
            "cross_attention": self.has_cross_attention,
            "attentions": [str(one.tensor) for one in self.attentions],
        }


def find_transformer(raised: Raised, known: frozenset[int]) -> Transformer | None:
    """The attentions of a raised graph, without those of layers that are known.

    Args:
        raised: The raised graph.
        known: The heads of the query kernels of layers that are known, as `Atom` has them.
    """
    work = _Attentions(raised, known)
    found = [one for kind, tensor, atom in raised.recognised() if kind == "attention" for one in work.of(tensor, atom)]
    return Transformer(tuple(found)) if found else None


class _Attentions(Search):
    """Looks into attentions."""

    def __init__(self, raised: Raised, known: frozenset[int]) -> None:
        Search.__init__(self, raised)
        self._known = known
        self._seen: set[int] = set()

    def of(self, tensor: Endpoint, atom: Atom) -> Iterator[Attended]:
        """What an attention is, if its scores can be read and it is in no known layer."""
        for _, _, factors, over in self._contractions(((((atom, 1.0),), 1.0),)):
            for shares, _ in factors:
                head = self._algebra.head(shares)
                if head[0] != "softmax" or {label for at in bound_of(head) for label in shares[1][at]} != over:
                    continue
                if shares[0] in self._seen:  # whose shares are of something else, too, such as relative positions
                    continue
                self._seen.add(shares[0])
                values = [other for other, _ in factors if other != shares]
                scores = self._algebra.value_of(class_of(head), shares[1])
                yield from self._of_scores(tensor, scores, over, values)

    def _of_scores(
        self, tensor: Endpoint, scores: Value, over: frozenset[Label], values: Sequence[Atom]
    ) -> Iterator[Attended]:
        moved = self._before_moves(scores)
        if moved is not None:
            yield from self._of_scores(tensor, moved[0], moved[1], ())
            return
        chosen = list(self._selections(scores))
        for mask, inside in [*chosen, (None, scores)]:
            for query, key, words in self._pairs(inside, over):
                if not self._known.isdisjoint(self._weights_of(query)):
                    return
                is_causal = mask is not None and shows_causal(
                    self._raised, words, over, mask.value, shown=mask.kind == "kept"
                )
                is_causal = is_causal or any(
                    shows_causal(self._raised, words, over, ((rest, number),), shown=number > 0)
                    for product, number in inside
                    if (rest := tuple(one for one in product if self._algebra.head(one[0])[0] != "contract"))
                )
                common = labels_of(query) & labels_of(key)
                own = [label for label in common if all(label in labels_of(value) for value in values[:1])]
                counts = [self._algebra.size(label) for label in own if isinstance(self._algebra.size(label), int)]
                heads = counts[0] if len(counts) == 1 and isinstance(counts[0], int) else None
                size = self._algebra.extent(tuple(common.difference(own)))
                yield Attended(
                    tensor, is_causal, self._is_cross(query, key), heads, size if isinstance(size, int) else None
                )
                return

    def _before_moves(self, scores: Value) -> tuple[Value, frozenset[Label]] | None:
        """Scores behind reshapes to sizes that are not known, and the labels of their last axis there."""
        atom = scores[0][0][0][0] if len(scores) == 1 and len(scores[0][0]) == 1 else None
        head = ("",) if atom is None else self._algebra.head(atom)
        node = self._raised.body.by_name.get(str(head[1]).rpartition(":")[0]) if head[0] == "tensor" else None
        if node is None or node.op != "Reshape":
            return None
        reading = self._raised.reading(self._raised.body.resolve(node.data_inputs[0]))
        if reading is None or not reading.axes or not reading.axes[-1]:
            return None
        return reading.value, frozenset(reading.axes[-1])

    def _pairs(self, scores: Value, over: frozenset[Label]) -> Iterator[tuple[Atom, Atom, frozenset[Label]]]:
        """The query and the key of scores, a product of theirs is in one of the terms; and the labels of the words."""
        for product, _ in scores:
            for atom, _ in product:
                moved = self._before_moves(((((atom, 1.0),), 1.0),)) if len(atom[1]) > 1 else None
                for query, key, _ in () if moved is None else self._pairs(*moved):
                    yield query, key, frozenset(atom[1][-2])
                for _, _, factors, _ in self._contractions(((((atom, 1.0),), 1.0),)):
                    for query, key in self._halves(factors):
                        if labels_of(key) - labels_of(query) == over:
                            yield query, key, labels_of(query) - labels_of(key)

    def _weights_of(self, atom: Atom) -> Iterator[int]:
        """The weights that a query is a product with."""
        for _, _, factors, _ in self._contractions(self._algebra.inside(atom)):
            yield from (one[0] for one, _ in factors if self._raised.is_weight(one))

    def _is_cross(self, query: Atom, key: Atom) -> bool:
        """Whether a key is of another tensor than a query; where that is not known, whether it may be longer."""
        one, other = self._root(query), self._root(key)
        if one is not None and other is not None:
            return one != other
        sizes = [
            {self._algebra.size(label) for label in labels_of(mine) - labels_of(theirs)}
            for mine, theirs in ((query, key), (key, query))
        ]
        return None not in sizes[0] | sizes[1] and sizes[0] != sizes[1]

    def _root(self, atom: Atom) -> frozenset[int] | None:
        """The heads of what a query or key is a product of, also where that is split; None if not known."""
        for _ in range(_FAR):
            head = self._algebra.head(atom)
            if head[0] == "tensor":
                part = self._whole(str(head[1]))
                if part is None:
                    return None
                atom = part
                continue
            for product, _ in self._algebra.inside(atom):
                for _, _, factors, _ in self._contractions(tuple(((one,), 1.0) for one in product)):
                    others = [one for one, _ in (*factors, *product) if self._algebra.head(one)[0] != "contract"]
                    return frozenset(one[0] for one in others if not self._raised.is_weight(one))
            return frozenset((atom[0],))
        return None

    def _whole(self, name: str) -> Atom | None:
        """What a tensor is a part of, as one atom; None if it is no part."""
        node = self._raised.body.by_name.get(name.rpartition(":")[0])
        if node is None or node.op not in SPLITS | SLICES:
            return None
        inputs = [self._raised.body.resolve(text) for text in node.data_inputs]
        reading = self._raised.reading(inputs[1 if node.op == "Split" else 0])
        return None if reading is None or not reading.value else self._algebra.atom(reading.value)[0]
