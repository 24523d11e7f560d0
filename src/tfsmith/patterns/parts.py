"""Parts of tensors in the raised graph: a part of a product is the product with a part of a weight.

So one product that gives queries, keys and values, and is then split, reads as three products. An atom `("part", head,
axis, before, span, start, size)` is what `head` is, where of its axis, cut into `before` times `span` elements, only
`size` from `start` on are taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tfsmith.ir.node import Endpoint, Node
from tfsmith.ops import SPLITS
from tfsmith.patterns.algebra import ONE, Algebra, Arg, Atom, Axes, Label, Reading, Value, class_of, scaled

if TYPE_CHECKING:
    from tfsmith.patterns.raised import Raised

__all__ = ["OF_MANY", "Cut", "cuts_of", "join", "pack", "part_of", "take_part"]

OF_MANY = SPLITS
"""Ops that give parts of what they take, each as an output of its own."""


class Cut(NamedTuple):
    """Which part of a tensor is taken: of an axis, cut into `before` times `span`, `size` from `start` on."""

    axis: int
    before: int
    span: int
    start: int
    size: int


def cuts_of(algebra: Algebra, atom: Atom) -> tuple[str | None, tuple[Cut, ...]]:
    """The tensor that an atom is a part of, and what is cut off, the first cut first; no tensor if it is none."""
    cuts: list[Cut] = []
    number = atom[0]
    while algebra.head((number, ()))[0] == "part":
        _, inner, *rest = algebra.head((number, ()))
        cuts.insert(0, Cut(*(one for one in rest if isinstance(one, int))))
        assert isinstance(inner, int)
        number = inner
    head = algebra.head((number, ()))
    return (str(head[1]) if head[0] == "tensor" else None), tuple(cuts)


def take_part(raised: Raised, x: Reading, axis: int, start: int, count: int) -> Reading | None:
    """The elements of an axis from `start` on; an axis of one element stays. None where that is not known."""
    algebra = raised.algebra
    size = algebra.extent(x.axes[axis])
    if not isinstance(size, int) or start < 0 or count < 1 or start + count > size:
        return None
    if count == size:
        return x
    if len(x.axes[axis]) > 1:
        return _aligned_part(raised, x, axis, start, count, size)
    (label,) = x.axes[axis]
    new: Arg = () if count == 1 else (algebra.label(count),)
    value = _Restriction(raised, label, new, start, count).of(x.value)
    return None if value is None else Reading(value, (*x.axes[:axis], new, *x.axes[axis + 1 :]))


def _aligned_part(raised: Raised, x: Reading, axis: int, start: int, count: int, size: int) -> Reading | None:
    """One of equal parts of an axis of several labels."""
    if size % count or start % count:
        return None
    cut = _cut_axis(raised, x, axis, size // count, count)
    if cut is None or len(cut.axes[axis]) != 1:
        return None
    found = take_part(raised, cut, axis, start // count, 1)
    return None if found is None else Reading(found.value, (*found.axes[:axis], *found.axes[axis + 1 :]))


def _cut_axis(raised: Raised, x: Reading, axis: int, count: int, size: int | None) -> Reading | None:
    """With an axis as two: so many parts, and what each of them has."""
    algebra = raised.algebra
    found = algebra.regroup((x.axes[axis],), (count, size))
    if found is None:
        return None
    axes: list[Arg] = []
    for at, arg in enumerate(x.axes):
        axes += found[0] if at == axis else (tuple(new for label in arg for new in found[1].get(label, (label,))),)
    return Reading(algebra.put(x.value, found[1]), tuple(axes))


class _Restriction:
    """Puts part of a label's range in place of the label."""

    def __init__(self, raised: Raised, label: Label, new: Arg, start: int, count: int) -> None:
        self._raised = raised
        self._algebra = raised.algebra
        self._label, self._new, self._start, self._count = label, new, start, count

    def of(self, value: Value) -> Value | None:
        """A value in which only part of the range is left; None where that is not known."""
        total: Value = ()
        for product, number in value:
            term: Value | None = scaled(ONE, number)
            for atom, power in product:
                factor: Value | None = ((((atom, 1.0),), 1.0),)
                if any(self._label in arg for arg in atom[1]):
                    factor = self._atom(atom)
                factor = factor if factor is None or power == 1 else self._algebra.power(factor, power)
                if factor is None or term is None:
                    return None
                term = self._algebra.multiply(term, factor)
            if term is None:
                return None
            total = self._algebra.add(total, term)
        return total

    def _atom(self, atom: Atom) -> Value | None:
        head = self._algebra.head(atom)
        if head[0] in ("tensor", "part"):
            return self._leaf(atom)
        if head[0] == "sum":
            return self.of(self._algebra.inside(atom))
        if head[0] not in ("contract", "mean", "total"):
            return None
        full, bound = self._algebra.opened(head, atom[1])
        inside = self.of(self._algebra.value_of(class_of(head), full))
        if inside is None:
            return None
        found = self._algebra.reduce(inside, bound)
        size = self._algebra.extent(tuple(bound)) if head[0] == "mean" else 1
        return scaled(found, 1 / size) if isinstance(size, int) and size else None

    def _leaf(self, atom: Atom) -> Value | None:
        """A part of a tensor."""
        places = [at for at, arg in enumerate(atom[1]) if self._label in arg]
        if len(places) != 1 or atom[1][places[0]].count(self._label) != 1:
            return None
        axis, arg = places[0], atom[1][places[0]]
        at = arg.index(self._label)
        before, after = self._algebra.extent(arg[:at]), self._algebra.extent(arg[at + 1 :])
        size = self._algebra.size(self._label)
        if not (isinstance(before, int) and isinstance(after, int) and isinstance(size, int)):
            return None
        axes = (*atom[1][:axis], (*arg[:at], *self._new, *arg[at + 1 :]), *atom[1][axis + 1 :])
        cut = Cut(axis, before, size * after, self._start * after, self._count * after)
        operand = self._operand(atom, axes, cut)
        if operand is not None:
            return operand
        inner, cut = self._merged(atom[0], cut)
        return self._algebra.single(("part", inner, *cut), axes)

    def _merged(self, number: int, cut: Cut) -> tuple[int, Cut]:
        """A part of a part as a part of the whole, where both take a run of the same axis."""
        head = self._algebra.head((number, ()))
        if head[0] != "part":
            return number, cut
        _, inner, *rest = head
        outer = Cut(*(one for one in rest if isinstance(one, int)))
        if outer.axis != cut.axis or outer.before != 1 or cut.before != 1:
            return number, cut
        assert isinstance(inner, int)
        return inner, outer._replace(start=outer.start + cut.start, size=cut.size)

    def _operand(self, atom: Atom, axes: Axes, cut: Cut) -> Value | None:
        """That of joined tensors which a part is, if it is just one of them."""
        name, cuts = cuts_of(self._algebra, atom)
        node = self._raised.body.by_name.get((name or "").rpartition(":")[0])
        if node is None or cuts or node.op != "ConcatV2" or cut.before != 1:
            return None
        *joined, last = self._raised.inputs(node)
        at = self._raised.integers(last)
        if not at or not isinstance(at[0], int) or at[0] % len(axes) != cut.axis:
            return None
        start = 0
        for tensor in joined:
            reading = self._raised.reading(tensor)
            size = None if reading is None else self._algebra.extent(reading.axes[cut.axis])
            if reading is None or not isinstance(size, int):
                return None
            if (start, size) == (cut.start, cut.size):
                return self._with_axes(reading, axes)
            start += size
        return None

    def _with_axes(self, reading: Reading, axes: Axes) -> Value | None:
        """A reading with other labels for its axes."""
        labels: dict[Label, Arg] = {}
        for own, wanted in zip(reading.axes, axes, strict=True):
            if len(own) > 1 or bool(own) != bool(wanted):
                return None
            labels |= dict.fromkeys(own, wanted)
        return self._algebra.put(reading.value, labels)


def part_of(raised: Raised, node: Node, output: int) -> Reading | None:
    """What an output of a node is that cuts a tensor into parts."""
    inputs = raised.inputs(node)
    x = raised.reading(inputs[1 if node.op == "Split" else 0]) if len(inputs) >= 1 + (node.op == "Split") else None
    place = _place(raised, node, inputs)
    if x is None or place is None or not x.axes:
        return None
    axis = place % len(x.axes)
    if node.op == "Unpack":
        found = take_part(raised, x, axis, output, 1)
        return None if found is None else Reading(found.value, (*x.axes[:axis], *x.axes[axis + 1 :]))
    size = raised.algebra.extent(x.axes[axis])
    sizes = _split_sizes(raised, node, inputs, size if isinstance(size, int) else None)
    if sizes is None or output >= len(sizes):
        return None
    found = take_part(raised, x, axis, sum(sizes[:output]), sizes[output])
    return None if found is None else Reading(found.value, found.axes)


def _place(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> int | None:
    """The axis that a node cuts or joins."""
    if node.op in ("Unpack", "Pack"):
        return int(node.get("axis", 0))
    at = {"Split": 0, "SplitV": 2, "ConcatV2": len(inputs) - 1}[node.op]
    found = raised.integers(inputs[at]) if at < len(inputs) else None
    return found[0] if found and isinstance(found[0], int) else None


def _split_sizes(raised: Raised, node: Node, inputs: Sequence[Endpoint], size: int | None) -> list[int] | None:
    if node.op == "Split":
        count = int(node.get("num_split", 0))
        return [size // count] * count if size is not None and count and size % count == 0 else None
    given = raised.integers(inputs[1])
    found = [one for one in given or () if isinstance(one, int)]
    if given is None or len(found) != len(given):
        return None
    open_at = [at for at, one in enumerate(found) if one == -1]
    if open_at and size is not None:
        found[open_at[0]] = size - sum(one for one in found if one != -1)
    return found if len(open_at) <= 1 and min(found, default=-1) >= 0 else None


def join(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """All parts of one tensor, joined in their order along an axis: the parts are the slower part of that axis."""
    axis = _place(raised, node, inputs)
    cut = _all_parts(raised, inputs[:-1])
    if axis is None or cut is None:
        return None
    x, at = cut
    axes = [*x.axes[:at], *x.axes[at + 1 :]]
    axis %= len(axes)
    axes[axis] = (*x.axes[at], *axes[axis])
    return Reading(x.value, tuple(axes))


def pack(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """All parts of one tensor, stacked in their order: the parts are an axis of their own."""
    cut = _all_parts(raised, inputs)
    if cut is None:
        return None
    x, at = cut
    axes = [*x.axes[:at], *x.axes[at + 1 :]]
    axes.insert(int(node.get("axis", 0)) % (len(axes) + 1), x.axes[at])
    return Reading(x.value, tuple(axes))


def _all_parts(raised: Raised, inputs: Sequence[Endpoint]) -> tuple[Reading, int] | None:
    """The tensor that these are all parts of, in their order, with the parts as an axis; and which axis that is."""
    node = raised.body.by_name.get(inputs[0].node)
    if node is None or node.op not in OF_MANY or list(inputs) != [Endpoint(node.name, at) for at in range(len(inputs))]:
        return None
    given = raised.inputs(node)
    x, place = raised.reading(given[1 if node.op == "Split" else 0]), _place(raised, node, given)
    if x is None or place is None or not x.axes:
        return None
    axis, size = place % len(x.axes), raised.algebra.extent(x.axes[place % len(x.axes)])
    if node.op == "Unpack":
        return (x, axis) if size == len(inputs) else None
    if node.op == "SplitV":
        sizes = _split_sizes(raised, node, given, size if isinstance(size, int) else None)
        if sizes is None or len(set(sizes)) != 1 or len(sizes) != len(inputs):
            return None
    elif int(node.get("num_split", 0)) != len(inputs):
        return None
    found = _cut_axis(raised, x, axis, len(inputs), None)
    return None if found is None else (found, axis)
