"""Formulas over the raised graph: what a block of a network computes, found however it is spelled.

A formula reads like the block itself: `LayerNorm(x + Dense(Attention(...)))`. Its variables are found along the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations, permutations
from math import copysign, inf
from typing import NamedTuple, TypeAlias

from tfsmith.patterns.algebra import (
    ONE,
    ZERO,
    Atom,
    Axes,
    Label,
    Product,
    Value,
    bound_of,
    class_of,
    constant_of,
    is_close,
    scaled,
)
from tfsmith.patterns.raised import Raised

__all__ = [
    "Activation",
    "Attention",
    "Bound",
    "Dense",
    "Formula",
    "Found",
    "Heads",
    "Kernel",
    "LayerNorm",
    "Mask",
    "Norm",
    "OneOf",
    "Plus",
    "Search",
    "Var",
    "labels_of",
]

_MOST_FACTORS = 4
"""Scores of more factors than this are not looked into."""
_ACTIVATIONS = ("gelu", "relu", "tanh", "sigmoid", "elu", "selu", "softplus")


class Formula:
    """A part of a formula."""

    def __add__(self, other: Formula) -> Formula:
        return Plus((self, other))


class Var(Formula):
    """A tensor that is found: all that is not explained otherwise, and the same wherever the name stands."""

    def __init__(self, name: str) -> None:
        self.name = name


class Plus(Formula):
    """A sum, in any order."""

    def __init__(self, parts: tuple[Formula, ...]) -> None:
        flat: list[Formula] = []
        for part in parts:
            flat += part.parts if isinstance(part, Plus) else (part,)
        self.parts: tuple[Formula, ...] = tuple(flat)


class OneOf(Formula):
    """The first of several that fits."""

    def __init__(self, *choices: Formula) -> None:
        self.choices = choices


class LayerNorm(Formula):
    """A layer norm over the last axis; found as a `Norm`."""

    def __init__(self, x: Formula, name: str) -> None:
        self.x, self.name = x, name


class Dense(Formula):
    """A product with a weight, and a bias if there is one; found as a `Kernel`."""

    def __init__(self, x: Formula, name: str) -> None:
        self.x, self.name = x, name


class Activation(Formula):
    """An activation; found as its kind: "gelu erf", "gelu tanh", "relu" or another."""

    def __init__(self, x: Formula, name: str) -> None:
        self.x, self.name = x, name


class Attention(Formula):
    """Softmax attention, before the heads are joined; found as `Heads`. Query, key and value are products."""

    def __init__(self, query: Dense, key: Dense, value: Dense, name: str) -> None:
        self.query, self.key, self.value, self.name = query, key, value, name


class Bound(NamedTuple):
    """A tensor that was found: a class, and the labels that it has here."""

    number: int
    axes: Axes


class Norm(NamedTuple):
    """A layer norm: the class of what it normalizes, and its weights, either of which may not be there."""

    number: int
    gamma: Atom | None
    beta: Atom | None
    epsilon: float
    width: int | None


class Kernel(NamedTuple):
    """A weight and its bias, with the labels that are summed over, and how many values it gives."""

    kernel: Atom
    bias: Atom | None
    summed: frozenset[Label]
    width: int | None


class Mask(NamedTuple):
    """How words are hidden.

    Attributes:
        kind: "added" if the value is added to the scores; "kept" or "hidden" if scores are replaced by `fill` where
            the value is false, or where it is true.
        value: The value; nothing if no word is hidden.
        fill: What hidden scores are.
        is_cleared: Whether hidden words have no share at all, even where all are hidden.
    """

    kind: str
    value: Value
    fill: float = 0.0
    is_cleared: bool = False


class Heads(NamedTuple):
    """How attention is done.

    Attributes:
        scale: What the scores are multiplied by.
        mask: How words are hidden.
        number: How many heads there are.
        heads: The labels of the heads.
        batch: The labels that query, key and value have in common, besides the heads.
        words: The labels of the query alone.
        others: The labels of key and value alone, over which the shares sum to one.
    """

    scale: float
    mask: Mask
    number: int | None
    heads: frozenset[Label]
    batch: frozenset[Label]
    words: frozenset[Label]
    others: frozenset[Label]


Found: TypeAlias = "Mapping[str, Bound | Norm | Kernel | Heads | str]"
"""What was found, by the names in a formula."""


class Search:
    """Finds formulas in a raised graph."""

    def __init__(self, raised: Raised) -> None:
        self._raised = raised
        self._algebra = raised.algebra
        self._opened: dict[Atom, tuple[Product, float, frozenset[Label]]] = {}
        self._values: dict[tuple[int, Axes], Value] = {}

    def match(self, formula: Formula, value: Value, found: Found) -> Iterator[Found]:
        """All ways in which a value is what a formula says."""
        for more, rest in self._take(formula, value, found):
            if not rest:
                yield more

    def _take(self, formula: Formula, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        """All ways in which some terms of a value are what a formula says; with the other terms."""
        if isinstance(formula, Var):
            yield from self._take_variable(formula, value, found)
        elif isinstance(formula, Plus):
            yield from self._take_sum(formula.parts, value, found)
        elif isinstance(formula, OneOf):
            for choice in formula.choices:
                yield from self._take(choice, value, found)
        elif isinstance(formula, LayerNorm):
            yield from self._take_norm(formula, value, found)
        elif isinstance(formula, Dense):
            yield from self._take_dense(formula, value, found)
        elif isinstance(formula, Activation):
            yield from self._take_activation(formula, value, found)
        elif isinstance(formula, Attention):
            yield from self._take_attention(formula, value, found)

    def _take_variable(self, formula: Var, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        if not value:
            return
        known = found.get(formula.name)
        if isinstance(known, Bound):
            rest = self._without(value, known)
            if rest is not None:
                yield found, rest
            return
        yield {**found, formula.name: Bound(*self._algebra.intern(value))}, ZERO

    def _without(self, value: Value, known: Bound) -> Value | None:
        """The terms of a value besides those of a class, which must be among them with any labels."""
        whole = self._value_of(known.number, tuple((at,) for at in range(len(known.axes))))
        for axes in self._algebra.places(value, whole, len(known.axes)):
            wanted = {product for product, _ in self._value_of(known.number, axes)}
            return tuple(item for item in value if item[0] not in wanted)
        return None

    def _take_sum(self, parts: tuple[Formula, ...], value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        """Parts with a form of their own first, then variables that are known, then those that take what is left."""
        if not parts:
            yield found, value
            return

        def order(part: Formula) -> int:
            return 0 if not isinstance(part, Var) else 1 if part.name in found else 2

        first = min(parts, key=order)
        others = tuple(part for part in parts if part is not first)
        for more, rest in self._take(first, value, found):
            yield from self._take_sum(others, rest, more)

    def _take_norm(self, formula: LayerNorm, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        for product, number in value:
            for atom, power in product:
                head = self._algebra.head(atom)
                if head[0] != "norm" or power != 1 or not is_close(number, 1):
                    continue
                labels = frozenset(label for at in bound_of(head) for label in atom[1][at])
                gamma = [factor for factor, _ in product if factor != atom]
                if len(gamma) > 1 or any(not self._is_weight(each, labels) for each in gamma):
                    continue
                rest = tuple(item for item in value if item[0] != product)
                epsilon = head[3]
                assert isinstance(epsilon, float)
                inside = self._value_of(class_of(head), atom[1])
                for result in self.match(formula.x, inside, found):
                    for beta, others in self._weights(rest, labels):
                        norm = Norm(class_of(head), gamma[0] if gamma else None, beta, epsilon, self._width(labels))
                        yield {**result, formula.name: norm}, others

    def _width(self, labels: frozenset[Label]) -> int | None:
        size = self._algebra.extent(tuple(labels))
        return size if isinstance(size, int) else None

    def _weights(self, value: Value, labels: frozenset[Label]) -> Iterator[tuple[Atom | None, Value]]:
        """Each weight with just these labels that is added, with the other terms; then that there is none."""
        for product, number in value:
            is_one = len(product) == 1 and product[0][1] == 1 and is_close(number, 1)
            if is_one and self._is_weight(product[0][0], labels):
                yield product[0][0], tuple(item for item in value if item[0] != product)
        yield None, value

    def _is_weight(self, atom: Atom, labels: frozenset[Label]) -> bool:
        return self._raised.is_weight(atom) and labels_of(atom) == labels

    def _contractions(self, value: Value) -> Iterator[tuple[Product, float, Product, frozenset[Label]]]:
        """The terms of a value that are one contraction: with its factors, and the labels that are summed over."""
        for product, number in value:
            if len(product) != 1 or product[0][1] != 1:
                continue
            atom = product[0][0]
            known = self._opened.get(atom)
            if known is None:
                head = self._algebra.head(atom)
                if head[0] != "contract":
                    continue
                full, labels = self._algebra.opened(head, atom[1])
                ((factors, own),) = self._algebra.value_of(class_of(head), full)
                known = self._opened[atom] = factors, own, labels
            factors, own, labels = known
            yield product, number * own, factors, labels

    def _value_of(self, number: int, axes: Axes) -> Value:
        """What a class is, with these labels; formulas ask for the same ones again and again."""
        found = self._values.get((number, axes))
        if found is None:
            found = self._values[number, axes] = self._algebra.value_of(number, axes)
        return found

    def _take_dense(self, formula: Dense, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        for product, number, factors, summed in self._contractions(value):
            if len(factors) != 2 or any(power != 1 for _, power in factors):
                continue
            for (kernel, _), (x, _) in (factors, factors[::-1]):
                given = labels_of(kernel) - summed
                if not self._raised.is_weight(kernel) or given & labels_of(x):
                    continue
                rest = tuple(item for item in value if item[0] != product)
                for result in self.match(formula.x, scaled(self._algebra.inside(x), number), found):
                    for bias, others in self._weights(rest, given):
                        yield {**result, formula.name: Kernel(kernel, bias, summed, self._width(given))}, others

    def _take_activation(self, formula: Activation, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        for product, number in value:
            if len(product) != 1 or product[0][1] != 1 or not is_close(number, 1):
                continue
            head = self._algebra.head(product[0][0])
            if head[0] not in _ACTIVATIONS:
                continue
            kind = f"{head[0]} {head[2]}" if head[0] == "gelu" else str(head[0])
            inside = self._value_of(class_of(head), product[0][0][1])
            for more in self.match(formula.x, inside, {**found, formula.name: kind}):
                yield more, tuple(item for item in value if item[0] != product)

    def _take_attention(self, formula: Attention, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        for product, number, factors, summed in self._contractions(value):
            if len(factors) not in (2, 3) or not is_close(number, 1) or any(power != 1 for _, power in factors):
                continue
            for (shares, _), *others in permutations(factors):
                head = self._algebra.head(shares)
                if head[0] != "softmax" or {label for at in bound_of(head) for label in shares[1][at]} != summed:
                    continue
                scores = self._value_of(class_of(head), shares[1])
                cleared = tuple(atom for atom, _ in others[1:])
                for more in self._scores(formula, scores, (others[0][0], *cleared), summed, found):
                    yield more, tuple(item for item in value if item[0] != product)

    def _scores(
        self, formula: Attention, scores: Value, values: tuple[Atom, ...], over: frozenset[Label], found: Found
    ) -> Iterator[Found]:
        """Query, key and value behind the scores of an attention.

        Args:
            formula: What query, key and value are.
            scores: What the softmax is of.
            values: What its shares are multiplied with: the value, and a mask that clears the shares of hidden words.
            over: The labels that the softmax is over.
            found: What was found before.
        """
        for mask, inside in (*self._additions(scores), *self._selections(scores), *self._multiplications(scores)):
            if len(values) > 1:
                if not self._is_shown(mask, values[1]):
                    continue
                mask = mask._replace(is_cleared=True)
            for _, scale, factors, summed in self._contractions(inside):
                if len(inside) != 1:
                    continue
                for query, key in self._halves(factors):
                    if labels_of(key) - labels_of(query) == over:
                        yield from self._projections(formula, (query, key, values[0]), (scale, mask, summed), found)

    def _halves(self, factors: Product) -> Iterator[tuple[Atom, Atom]]:
        """All ways to make two of a few factors: query or key may be products of several."""
        if not 2 <= len(factors) <= _MOST_FACTORS:
            return
        for count in range(1, len(factors)):
            for part in combinations(factors, count):
                others = tuple(factor for factor in factors if factor not in part)
                one, other = self._algebra.atom(((part, 1.0),)), self._algebra.atom(((others, 1.0),))
                if one[0] is not None and other[0] is not None:
                    yield one[0], other[0]

    def _is_shown(self, mask: Mask, atom: Atom) -> bool:
        """Whether an atom is 1 for the words that a mask shows, and 0 for the others."""
        if mask.kind == "added":
            return False
        shown = mask.value if mask.kind == "kept" else self._algebra.add(ONE, scaled(mask.value, -1))
        return self._algebra.inside(atom) == shown

    def _additions(self, scores: Value) -> Iterator[tuple[Mask, Value]]:
        """Scores to which something is added: what, and the scores themselves."""
        for product, _, _, _ in self._contractions(scores):
            inside = tuple(item for item in scores if item[0] == product)
            rest = tuple(item for item in scores if item[0] != product)
            chosen = [mask for mask, other in self._selections(rest) if not other]  # 0 or infinite
            yield from ((mask, inside) for mask in chosen or [Mask("added", rest)])

    def _selections(self, scores: Value) -> Iterator[tuple[Mask, Value]]:
        """Scores of which some are replaced by a number: how, and the scores themselves."""
        if len(scores) != 1 or len(scores[0][0]) != 1 or scores[0][0][0][1] != 1 or not is_close(scores[0][1], 1):
            return
        atom = scores[0][0][0][0]
        head = self._algebra.head(atom)
        if head[0] != "select":
            return
        values, at = [], 0
        for number, count in zip(head[1::2], head[2::2], strict=True):
            assert isinstance(number, int)
            assert isinstance(count, int)
            values.append(self._value_of(number, atom[1][at : at + count]))
            at += count
        for kind, inside, other in (("kept", values[1], values[2]), ("hidden", values[2], values[1])):
            fill = self._fill(other)
            if fill is not None and self._fill(inside) in (None, 0.0):
                yield Mask(kind, values[0], fill), inside

    def _multiplications(self, scores: Value) -> Iterator[tuple[Mask, Value]]:
        """Scores times what is 1 or 0, less a number where it is 0: the number is in their place."""
        for (shown, fill), (product, number) in (scores, scores[::-1]) if len(scores) == 2 else ():
            rest = tuple(factor for factor in product if factor not in shown)
            is_part = shown and len(rest) == 1 and len(product) == len(shown) + 1
            if is_part and fill > 0 and self._raised.is_indicator(((shown, 1.0),)):
                yield Mask("kept", ((shown, 1.0),), -fill), ((rest, number),)

    def _fill(self, value: Value) -> float | None:
        """The number that a value is, which may be infinite."""
        number = constant_of(value)
        if number is not None or len(value) != 1 or len(value[0][0]) != 1:
            return number
        (atom, power), factor = value[0][0][0], value[0][1]
        return copysign(inf, factor) if self._algebra.head(atom)[0] == "infinity" and power == 1 else None

    def _projections(
        self,
        formula: Attention,
        atoms: tuple[Atom, Atom, Atom],
        scores: tuple[float, Mask, frozenset[Label]],
        found: Found,
    ) -> Iterator[Found]:
        query, key, values = atoms
        scale, mask, summed = scores
        words, others = labels_of(query) - labels_of(key), labels_of(key) - labels_of(query)
        common = (labels_of(query) & labels_of(key) & labels_of(values)) - summed
        for for_query, for_key in self._coefficients(query, key):
            for first in self.match(formula.query, scaled(self._algebra.inside(query), for_query), found):
                kernel = first[formula.query.name]
                own = common & (labels_of(kernel.kernel) if isinstance(kernel, Kernel) else frozenset())
                left = scale / (for_query * for_key)
                heads = Heads(left, mask, self._width(own), own, common - own, words, others)
                inside = scaled(self._algebra.inside(key), for_key)
                for second in self.match(formula.key, inside, {**first, formula.name: heads}):
                    yield from self.match(formula.value, self._algebra.inside(values), second)

    def _coefficients(self, query: Atom, key: Atom) -> Iterator[tuple[float, float]]:
        """What two factors are to be multiplied by, so that they are tensors; the rest belongs to the product."""
        yield 1.0, 1.0


def labels_of(atom: Atom) -> frozenset[Label]:
    """The labels that an atom has."""
    return frozenset(label for arg in atom[1] for label in arg)
