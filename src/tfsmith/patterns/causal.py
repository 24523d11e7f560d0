"""Whether the mask of an attention is causal: no word sees those behind it. By what the mask computes."""

from __future__ import annotations

from collections.abc import Iterator

from tfsmith.ir.node import Endpoint, Node
from tfsmith.ops import ADDS, COUNTS, MERGES, MOVES, SLICES
from tfsmith.patterns.algebra import Atom, Label, Value, constant_of
from tfsmith.patterns.formula import Heads
from tfsmith.patterns.raised import Raised

__all__ = ["is_causal", "shows_causal"]

_THROUGH = MOVES | SLICES
_SHIFTED = _THROUGH | ADDS | {"Sub"}
"""Numbers of words may be counted from elsewhere: i >= j - (one length) + (another)."""
_ORDERS = ("greaterequal", "lessequal", "greater", "less")
_COMPARES = (*_ORDERS, "notequal")
_TWO = (*_COMPARES, "logicaland", "logicalor", "minimum", "maximum")
_FAR = 30
_LARGEST = 1 << 22
"""Up to so many elements of a constant are read."""


def is_causal(raised: Raised, heads: Heads) -> bool:
    """Whether words see themselves and those before them, and no others."""
    mask = heads.mask
    look = _Look(raised, frozenset(heads.words), frozenset(heads.others))
    if mask.kind != "added":
        return look.shows(mask.value, shown=mask.kind == "kept")
    return any(look.shows(((product, number),), shown=number > 0) for product, number in mask.value)


def shows_causal(
    raised: Raised, words: frozenset[Label], others: frozenset[Label], value: Value, *, shown: bool
) -> bool:
    """Whether a value is true just for words that are not behind a word; with `shown` false, for those that are.

    Args:
        raised: The raised graph.
        words: The labels of the words that see.
        others: The labels of the words that are seen.
        value: What is true or false, as a number.
        shown: Which of both.
    """
    return _Look(raised, words, others).shows(value, shown=shown)


class _Look:
    """Looks through the parts of a mask."""

    def __init__(self, raised: Raised, words: frozenset[Label], others: frozenset[Label]) -> None:
        self._raised = raised
        self._algebra = raised.algebra
        self._words, self._others = words, others

    def shows(self, value: Value, *, shown: bool) -> bool:
        """Whether a value is true just for what causal attention shows; with `shown` false, for what it hides."""
        terms = [item for item in value if item[0]]
        if len(terms) != 1:
            return False
        product, number = terms[0]
        if len(value) == 2 and number < 0:  # one less something
            shown = not shown
        if not shown and len(product) > 1:
            return False  # a product hides less than each of its factors
        return any(power == 1 and self._atom(atom, shown=shown) for atom, power in product)

    def _atom(self, atom: Atom, *, shown: bool) -> bool:
        head = self._algebra.head(atom)
        name = head[0]
        if name == "tensor":
            return self._leaf(atom, shown=shown)
        if name == "sum":
            return self.shows(self._algebra.inside(atom), shown=shown)
        if name in ("cast", "logicalnot"):
            number = head[1]
            assert isinstance(number, int)
            return self.shows(self._algebra.value_of(number, atom[1]), shown=shown != (name == "logicalnot"))
        parts = list(self._parts(atom)) if name in _TWO else []
        if len(parts) != 2:
            return False
        if name in (("logicaland", "minimum") if shown else ("logicalor", "maximum")):
            return any(self.shows(part, shown=shown) for part in parts)
        bound = constant_of(parts[1])
        if bound is not None:  # zeros and ones as false and true
            is_truth = 0 <= bound < 1 if name == "greater" else bound == 0 and name == "notequal"
            return is_truth and self.shows(parts[0], shown=shown)
        if name not in _ORDERS:
            return False
        rows, columns = parts if str(name).startswith("greater") == shown else parts[::-1]
        return self._counts(rows, self._words) and self._counts(columns, self._others)

    def _parts(self, atom: Atom) -> Iterator[Value]:
        """The values that a function of several is of."""
        head, at = self._algebra.head(atom), 0
        for number, count in zip(head[1::2], head[2::2], strict=True):
            assert isinstance(number, int)
            assert isinstance(count, int)
            yield self._algebra.value_of(number, atom[1][at : at + count])
            at += count

    def _counts(self, value: Value, labels: frozenset[Label]) -> bool:
        """Whether a value is the numbers of words along one axis, up to what is the same for all."""
        terms = [(product, number) for product, number in value if any(arg for (_, axes), _ in product for arg in axes)]
        if len(terms) != 1 or terms[0][1] != 1 or len(terms[0][0]) != 1:
            return False
        atom, power = terms[0][0][0]
        if power != 1 or frozenset(label for arg in atom[1] for label in arg) != labels:
            return False
        node = self._behind(atom, _SHIFTED)
        return node is not None and node.op in COUNTS

    def _behind(self, atom: Atom, through: frozenset[str]) -> Node | None:
        head = self._algebra.head(atom)
        if head[0] != "tensor":
            return None
        name = str(head[1]).rpartition(":")[0]
        for _ in range(_FAR):
            node = self._raised.body.by_name.get(name)
            if node is None or node.op not in through or not node.data_inputs:
                return node
            name = self._raised.body.resolve(node.data_inputs[0]).node
        return None

    def _leaf(self, atom: Atom, *, shown: bool) -> bool:
        """A triangle: a band of a matrix, a constant, or a comparison that is repeated along other axes."""
        args = [frozenset(arg) for arg in atom[1] if arg]
        node = self._behind(atom, _THROUGH)
        if node is None or args[-2:] != [self._words, self._others]:
            return False
        if node.op == "MatrixBandPart":
            return self._is_band(node, shown=shown)
        if node.op == "Const":
            return shown and self._is_triangle(node)
        if node.op in MERGES:  # for one word alone, decoders take another branch
            return any(self._of_tensor(self._raised.body.resolve(text), shown=shown) for text in node.data_inputs)
        inner = self._behind(atom, MOVES)
        reading = None if inner is None else self._raised.reading(Endpoint(inner.name, 0))
        if (
            inner is None
            or reading is None
            or len(reading.axes) < 2
            or str(self._algebra.head(atom)[1]) == f"{inner.name}:0"
        ):
            return False
        own = _Look(self._raised, frozenset(reading.axes[-2]), frozenset(reading.axes[-1]))
        return own.shows(reading.value, shown=shown)

    def _is_band(self, node: Node, *, shown: bool) -> bool:
        """The lower triangle shows, and so does the upper one if it is of a negative number."""
        inputs = [self._raised.body.resolve(text) for text in node.data_inputs]
        ends = [self._raised.integers(tensor) for tensor in inputs[1:3]]
        below, above = (end[0] if end and isinstance(end[0], int) else None for end in ends)
        if below is None or above is None:
            return False
        if below < 0 and above == 0:
            return shown
        reading = self._raised.reading(inputs[0])
        number = None if reading is None else constant_of(reading.value)
        return below == 0 and above < 0 and number is not None and shown == (number < 0)

    def _of_tensor(self, tensor: Endpoint, *, shown: bool) -> bool:
        """The same of one term of a tensor, whose last axes are both kinds of words."""
        reading = self._raised.reading(tensor)
        if reading is None or len(reading.axes) < 2:
            return False
        own = _Look(self._raised, frozenset(reading.axes[-2]), frozenset(reading.axes[-1]))
        return any(own.shows(((product, number),), shown=(number > 0) == shown) for product, number in reading.value)

    def _is_triangle(self, node: Node) -> bool:
        tensor = self._raised.constant(Endpoint(node.name, 0))
        sizes = () if tensor is None else tuple(size for size in tensor.shape.dims or () if size != 1)
        if tensor is None or len(sizes) != 2 or sizes[0] != sizes[1] or sizes[0] * sizes[1] > _LARGEST:
            return False
        if not tensor.dtype.itemsize:
            return False
        import numpy

        array = tensor.numpy().reshape(sizes).astype(bool)
        return bool((array == numpy.tri(sizes[0], dtype=bool)).all())
