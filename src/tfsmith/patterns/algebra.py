"""Values of tensors, apart from the layout of their axes: sums of products, in which equal computations have one form.

An axis of a tensor is a run of *labels*, the slowest first: reshapes and transposes move labels and change no value.
An *atom* is a head and the axes that it is indexed by: a tensor of the graph, or a function of a *class*, which is a
value with numbered labels. A product is a set of atoms with exponents; a value is a sum of products with coefficients.
Sums inside of products and functions are classes, so every value stays small, whatever came before it.

Some forms are recognised as they arise, and replaced by one atom: a value less its mean, a variance, a layer norm, a
softmax, a GELU. Equal means equal in real arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from tfsmith.ops.sizes import Size, over, times

__all__ = [
    "Algebra",
    "Arg",
    "Atom",
    "Axes",
    "Head",
    "Label",
    "Product",
    "Reading",
    "Value",
    "ONE",
    "ZERO",
    "bound_of",
    "class_of",
    "constant_of",
    "is_close",
    "scaled",
]

Label: TypeAlias = int
Arg: TypeAlias = "tuple[Label, ...]"
"""One axis: labels, the slowest first; none for an axis of size one."""
Axes: TypeAlias = "tuple[Arg, ...]"
Head: TypeAlias = "tuple[str | int | float | tuple[int, ...], ...]"
"""What an atom is, apart from its labels: `("tensor", name)`, `("exp", class)`, `("mean", class, bound labels)`..."""
Atom: TypeAlias = "tuple[int, Axes]"
"""The number of a head, and the axes that it is indexed by."""
Product: TypeAlias = "tuple[tuple[Atom, float], ...]"
"""Atoms with their exponents, sorted."""
Value: TypeAlias = "tuple[tuple[Product, float], ...]"
"""Products with their coefficients, sorted; the constant term has an empty product and stands first."""


class Reading(NamedTuple):
    """What a tensor is: a value, and which labels its axes are."""

    value: Value
    axes: Axes


ZERO: Value = ()
ONE: Value = (((), 1.0),)
_ODD = frozenset({"erf", "tanh"})
_CLOSE = 1e-5
"""Coefficients that differ less than this, relative to their size, are spellings of one number."""


def constant_of(value: Value) -> float | None:
    """The number that a value is; None if it is none."""
    if not value:
        return 0.0
    return value[0][1] if len(value) == 1 and not value[0][0] else None


def scaled(value: Value, factor: float) -> Value:
    """A value times a number."""
    return tuple((product, number * factor) for product, number in value) if factor else ZERO


def is_close(one: float, other: float) -> bool:
    """Whether two numbers are spellings of one."""
    return one == other or abs(one - other) <= _CLOSE * max(abs(one), abs(other))


def _labels(axes: Axes) -> Iterator[Label]:
    for arg in axes:
        yield from arg


class Algebra:
    """Makes values, and knows the classes and the sizes of labels.

    One instance serves one graph or function body. Nothing is ever removed: its values can be compared by `==`.
    """

    def __init__(self) -> None:
        self._sizes: list[Size] = []
        self._classes: list[Value] = []
        self._class_sizes: list[tuple[Size, ...]] = []
        self._class_numbers: dict[Value, int] = {}
        self._interned: dict[Value, tuple[int, Axes]] = {}
        self._heads: list[Head] = []
        self._head_numbers: dict[Head, int] = {}

    def head(self, atom: Atom) -> Head:
        """What an atom is, apart from its labels."""
        return self._heads[atom[0]]

    def make(self, head: Head, axes: Axes) -> Atom:
        """An atom."""
        number = self._head_numbers.get(head)
        if number is None:
            number = self._head_numbers[head] = len(self._heads)
            self._heads.append(head)
        return number, axes

    def single(self, head: Head, axes: Axes) -> Value:
        """An atom as a value."""
        return ((((self.make(head, axes), 1.0),), 1.0),)

    # labels and axes

    def label(self, size: Size) -> Label:
        """A new label."""
        self._sizes.append(size)
        return len(self._sizes) - 1

    def size(self, label: Label) -> Size:
        """The size of a label."""
        return self._sizes[label]

    def axes(self, sizes: Sequence[Size]) -> Axes:
        """New labels for the axes of a tensor; an axis of size one has none."""
        return tuple(() if size == 1 else (self.label(size),) for size in sizes)

    def extent(self, arg: Arg) -> Size:
        """The size of an axis."""
        if len(arg) == 1:
            return self._sizes[arg[0]]
        return times([self._sizes[label] for label in arg])

    def refine(self, one: Arg, other: Arg) -> tuple[dict[Label, Arg], dict[Label, Arg]] | None:
        """What to put in place of the labels of two axes, so that both become the same; None if that is not known."""
        for_one: dict[Label, Arg] = {}
        for_other: dict[Label, Arg] = {}
        left, right = list(one), list(other)
        while left and right:
            first, second = left.pop(0), right.pop(0)
            wide, narrow = self._sizes[first], self._sizes[second]
            if first == second or wide == narrow or (not left and not right):
                if isinstance(wide, int) and isinstance(narrow, int) and wide != narrow:
                    return None
                kept = second if wide is None else first  # that of which the size is known
                _extend(for_one, first, (kept,))
                _extend(for_other, second, (kept,))
                continue
            rest = over(wide, narrow)
            if rest is not None and rest != 1:
                head, tail = self.label(narrow), self.label(rest)
                _split(for_one, first, (head, tail))
                _extend(for_other, second, (head,))
                left.insert(0, tail)
                continue
            rest = over(narrow, wide)
            if rest is None or rest == 1:
                return None
            tail = self.label(rest)
            _split(for_other, second, (first, tail))
            _extend(for_one, first, (first,))
            right.insert(0, tail)
        if left or right:
            return None
        return _flat(for_one, one), _flat(for_other, other)

    def regroup(self, axes: Axes, sizes: Sequence[Size | Arg]) -> tuple[Axes, dict[Label, Arg]] | None:
        """The axes of a reshaped tensor, and what to put in place of labels that were split; None if that is not known.

        Args:
            axes: The axes before.
            sizes: The sizes after, or axes that are as long; at most one of them may be unknown.
        """
        labels = list(_labels(axes))
        splits: dict[Label, Arg] = {}
        unknown = [number for number, size in enumerate(sizes) if size is None]
        if len(unknown) > 1:
            return None
        at = unknown[0] if unknown else len(sizes)
        front = self._take(labels, sizes[:at], splits, last=False)
        back = None if front is None else self._take(labels, sizes[at + 1 :][::-1], splits, last=True)
        if front is None or back is None or (labels and not unknown):
            return None
        middle: list[Arg] = [tuple(labels)] if unknown else []
        return (*front, *middle, *back[::-1]), splits

    def _take(
        self, labels: list[Label], sizes: Sequence[Size | Arg], splits: dict[Label, Arg], *, last: bool
    ) -> list[Arg] | None:
        """Takes labels off one end for each size."""
        found: list[Arg] = []
        for size in sizes:
            if isinstance(size, tuple):
                taken = labels[len(labels) - len(size) :] if last else labels[: len(size)]
                if tuple(taken) != size:
                    return None
                labels[:] = labels[: len(labels) - len(size)] if last else labels[len(size) :]
                found.append(size)
                continue
            arg: list[Label] = []
            rest = size
            while rest != 1:
                if not labels:
                    return None
                label = labels.pop(-1 if last else 0)
                left = over(rest, self._sizes[label])
                if left is None:
                    more = over(self._sizes[label], rest)
                    if more is None:
                        return None
                    inner, outer = self.label(rest), self.label(more)
                    parts = (outer, inner) if last else (inner, outer)
                    _replace_in(splits, label, parts)
                    labels.insert(len(labels) if last else 0, outer)
                    label, left = inner, 1
                arg.insert(0 if last else len(arg), label)
                rest = left
            found.append(tuple(arg))
        return found

    # substitution and classes

    def put(self, value: Value, labels: Mapping[Label, Arg]) -> Value:
        """A value with other labels, all at once."""
        if not labels:
            return value
        if len(value) == 1:  # as most are
            product, number = value[0]
            product = _put_product(product, labels)
            return ((tuple(sorted(product)) if len(product) > 1 else product, number),)
        return _sorted([(_put_product(product, labels), number) for product, number in value])

    def intern(self, value: Value, bound: frozenset[Label] = frozenset()) -> tuple[int, Axes]:
        """The class of a value, and what its numbered labels are here.

        Labels that always stand side by side become one, unless some of them are bound and others are not.
        """
        known = self._interned.get(value) if not bound else None
        if known is not None:
            return known
        chains = _chains(value, bound)
        merged = _merge(value, chains)
        numbers: dict[Label, int] = {}
        for product, _ in sorted(merged, key=_shape) if len(merged) > 1 else merged:
            for (_, own), _ in product:
                for arg in own:
                    for label in arg:
                        if label not in numbers:
                            numbers[label] = len(numbers)
        formal = self.put(merged, {label: (number,) for label, number in numbers.items()})
        formal = tuple([(product, _rounded(number)) for product, number in formal])
        found = self._class_numbers.get(formal)
        axes = tuple([chains.get(label, (label,)) for label in numbers])
        if found is None:
            found = self._class_numbers[formal] = len(self._classes)
            self._classes.append(formal)
            self._class_sizes.append(tuple([self.extent(arg) for arg in axes]))
        if not bound:
            self._interned[value] = found, axes
        return found, axes

    def value_of(self, number: int, axes: Axes) -> Value:
        """What a class is, with these labels."""
        return self.put(self._classes[number], dict(enumerate(axes)))

    def relabelled(self, axes: Axes, given: Axes, wanted: Axes) -> Axes:
        """Axes in other labels: those of a class in one place as those that it has in another."""
        labels: dict[Arg, Arg] = {}
        for here, there in zip(given, wanted, strict=True):
            pairs = list(zip(here, there, strict=False))
            if len(here) == len(there) and all(self.size(one) == self.size(other) for one, other in pairs):
                labels |= {(one,): (other,) for one, other in pairs}
            else:
                labels[here] = there
        found: list[Arg] = []
        for arg in axes:
            new: list[Label] = []
            rest = arg
            while rest:
                part = next((each for each in labels if each and rest[: len(each)] == each), rest[:1])
                new += labels.get(part, part)
                rest = rest[len(part) :]
            found.append(tuple(new))
        return tuple(found)

    def class_sizes(self, number: int) -> tuple[Size, ...]:
        """The sizes of a class's numbered labels."""
        return self._class_sizes[number]

    def atom(self, value: Value) -> tuple[Atom | None, float]:
        """A value as one atom and a coefficient; no atom for a constant."""
        number = constant_of(value)
        if number is not None:
            return None, number
        if len(value) == 1 and len(value[0][0]) == 1 and value[0][0][0][1] == 1:
            return value[0][0][0][0], value[0][1]
        leading = value[-1][1]
        found, axes = self.intern(scaled(value, 1 / leading))
        return self.make(("sum", found), axes), leading

    def inside(self, atom: Atom) -> Value:
        """The value that an atom is: of a sum its terms, else the atom itself."""
        head = self.head(atom)
        if head[0] == "sum":
            return self.value_of(class_of(head), atom[1])
        return ((((atom, 1.0),), 1.0),)

    def opened(self, head: Head, axes: Axes) -> tuple[Axes, frozenset[Label]]:
        """The labels of a reduction's class, new ones for those that are bound; and those new ones."""
        bound, free = bound_of(head), iter(axes)
        full: list[Arg] = []
        for at, size in enumerate(self._class_sizes[class_of(head)]):
            full.append((self.label(size),) if at in bound else next(free))
        return tuple(full), frozenset(label for at in bound for label in full[at])

    # arithmetic

    def add(self, one: Value, other: Value) -> Value:
        """The sum of two values that have the same labels where they mean the same."""
        return self._settled_sum(_gathered((*one, *other)))

    def multiply(self, one: Value, other: Value) -> Value:
        """The product of two values."""
        for number, value in ((constant_of(one), other), (constant_of(other), one)):
            if number is not None:
                return scaled(value, number)
        spread = self._spread(one, other) or self._spread(other, one)
        if spread is not None:
            return spread
        left, right = self._factors(one), self._factors(other)
        return self._term([*left[0], *right[0]], left[1] * right[1])

    def _spread(self, one: Value, other: Value) -> Value | None:
        """A power of an atom times a polynomial in the same atom, as a polynomial."""
        if len(other) == 1:
            return None
        product, number = self._factors(one)
        if len(product) != 1:
            return None
        atom = product[0][0]
        if not all(not each or (len(each) == 1 and each[0][0] == atom) for each, _ in other):
            return None
        found = ZERO
        for each, factor in other:
            found = self.add(found, self._term([*product, *each], number * factor))
        return found

    def power(self, value: Value, exponent: float) -> Value | None:
        """A value to a power; None where that is not the same in real arithmetic."""
        number = constant_of(value)
        if number is not None:
            return None if number < 0 or (number == 0 and exponent < 0) else (((), number**exponent),)
        atoms, factor = self._factors(value)
        if exponent != int(exponent) and (
            factor < 0 or any(power == int(power) and power % 2 == 0 for _, power in atoms)
        ):
            return None
        return self._term([(atom, power * exponent) for atom, power in atoms], factor**exponent)

    def apply(self, name: str, *values: Value, extra: tuple[str | int | float, ...] = ()) -> Value:
        """A function of values, element by element."""
        sign = 1.0
        if name in _ODD and values[0] and values[0][-1][1] < 0:
            sign, values = -1.0, (scaled(values[0], -1), *values[1:])
        classes: list[int] = []
        axes: list[Arg] = []
        for value in values:
            number, own = self.intern(value)
            classes += [number, len(own)]
            axes += own
        head: Head = (name, *(classes[:1] if len(values) == 1 else classes), *extra)
        return ((((self.make(head, tuple(axes)), 1.0),), sign),)

    def _factors(self, value: Value) -> tuple[list[tuple[Atom, float]], float]:
        """A value as atoms with exponents, and a coefficient."""
        if len(value) == 1:
            return list(value[0][0]), value[0][1]
        atom, number = self.atom(value)
        assert atom is not None
        return [(atom, 1.0)], number

    def _term(self, factors: Iterable[tuple[Atom, float]], number: float) -> Value:
        """A product in its one form."""
        powers: dict[Atom, float] = {}
        for atom, power in factors:
            powers[atom] = powers.get(atom, 0.0) + power
        product = tuple(sorted((atom, power) for atom, power in powers.items() if power))
        return self._settled_product(product, number)

    # reductions

    def reduce(self, value: Value, labels: frozenset[Label]) -> Value:
        """The sum over labels. A sum over one atom is its mean times the size, where that is known."""
        if not labels or not value:
            return value
        if len(value) > 1:
            atom, number = self.atom(value)
            assert atom is not None
            return self.reduce(((((atom, 1.0),), number),), labels)
        product, number = value[0]
        inner = tuple(factor for factor in product if labels.intersection(_labels(factor[0][1])))
        outer = tuple(factor for factor in product if factor not in inner)
        used = labels.intersection(label for (_, axes), _ in inner for label in _labels(axes))
        for label in labels - used:
            size = self._sizes[label]
            if isinstance(size, int):
                number *= size
            else:
                outer = (*outer, (self.make(("size", str(size) if size else f"label {label}"), ()), 1.0))
        if not used:
            return self._term(outer, number)
        return self._reduced(inner, outer, number, used)

    def _reduced(self, inner: Product, outer: Product, number: float, labels: frozenset[Label]) -> Value:
        count = times(self._sizes[label] for label in labels)
        is_mean = len(inner) == 1 and isinstance(count, int)
        if is_mean and isinstance(count, int):
            number *= count
        whole = self.inside(inner[0][0]) if len(inner) == 1 and inner[0][1] == 1 else ((inner, 1.0),)
        found, axes = self.intern(whole, labels)
        bound = tuple(at for at, arg in enumerate(axes) if labels.issuperset(arg))
        free = tuple(arg for at, arg in enumerate(axes) if at not in bound)
        kind = "mean" if is_mean else "total" if len(inner) == 1 else "contract"
        atom = (self._variance(inner, labels) if is_mean else None) or self.make((kind, found, bound), free)
        return self._term([*outer, (atom, 1.0)], number)

    def softmax(self, value: Value, labels: frozenset[Label], kind: str = "softmax") -> Value:
        """The softmax over labels, or its logarithm ("logsoftmax"); what does not depend on them has no effect."""
        kept = tuple(item for item in value if labels.intersection(_product_labels(item[0])))
        found, axes = self.intern(kept, labels)
        bound = tuple(at for at, arg in enumerate(axes) if arg and labels.issuperset(arg))
        return self.single((kind, found, bound), axes)

    def exp(self, value: Value) -> Value:
        """The exponential; that of a softmax's logarithm is the softmax, and a logarithm in a sum is a factor."""
        atom = value[0][0][0][0] if len(value) == 1 and len(value[0][0]) == 1 else None
        if atom is not None and value[0] == (((atom, 1.0),), 1.0) and self.head(atom)[0] == "logsoftmax":
            return self.single(("softmax", *self.head(atom)[1:]), atom[1])
        for item in value:
            factor = self._exp_of_log(item)
            if factor is not None:
                return self.multiply(self.exp(tuple(each for each in value if each is not item)), factor)
        return self.apply("exp", value) if value else ONE

    def _exp_of_log(self, item: tuple[Product, float]) -> Value | None:
        """The exponential of a term that is the logarithm of a sum of exponentials, or less it; None for all else."""
        product, number = item
        if len(product) != 1 or product[0][1] != 1 or number not in (1.0, -1.0):
            return None
        head = self.head(product[0][0])
        if head[0] != "log":
            return None
        inside = self.value_of(class_of(head), product[0][0][1])
        if len(inside) != 1 or inside[0][1] <= 0 or len(inside[0][0]) != 1 or inside[0][0][0][1] != 1:
            return None
        total = self.head(inside[0][0][0][0])
        if total[0] not in ("mean", "total"):
            return None
        terms = self._classes[class_of(total)]
        is_positive = all(
            factor > 0 and all(self._heads[one[0]][0] == "exp" for one, _ in each) for each, factor in terms
        )
        return self.power(inside, number) if is_positive else None

    def reduce_by(self, kind: str, value: Value, labels: frozenset[Label]) -> Value:
        """A reduction that is no sum, such as "max"."""
        found, axes = self.intern(value, labels)
        bound = tuple(at for at, arg in enumerate(axes) if arg and labels.issuperset(arg))
        return self.single((kind, found, bound), tuple(arg for at, arg in enumerate(axes) if at not in bound))

    # what is recognised

    def _settled_sum(self, value: Value) -> Value:
        """A sum in its one form: sums inside it are spread, and what has a name is recognised."""
        heads = self._heads
        if any(
            len(product) == 1 and product[0][1] == 1 and heads[product[0][0][0]][0] == "sum" for product, _ in value
        ):
            spread: list[tuple[Product, float]] = []
            for product, number in value:
                spread += scaled(self.inside(product[0][0]), number) if self._is_sum(product) else ((product, number),)
            value = _gathered(spread)
        for product, number in value:
            for atom, power in product:
                if heads[atom[0]][0] != "mean":
                    continue
                find = self._centered if power == 1 else self._variance_by_squares if power == 2 else None
                found = None if find is None else find(value, product, number, atom)
                if found is not None:
                    return found
        return value

    def _is_sum(self, product: Product) -> bool:
        return len(product) == 1 and product[0][1] == 1 and self._heads[product[0][0][0]][0] == "sum"

    def _centered(self, value: Value, product: Product, number: float, mean: Atom) -> Value | None:
        """`c * (x - mean(x))` as `c * centered(x)`."""
        head, axes = self.head(mean), mean[1]
        cofactor = tuple(factor for factor in product if factor[0] != mean)
        base, bound = class_of(head), bound_of(head)
        count = len(self._class_sizes[base])
        whole = self.single(("sum", base), tuple((at,) for at in range(count)))
        for formal in (self._classes[base], whole):
            for full in self._places(value, formal, (cofactor, -number), _given(axes, bound), count):
                wanted = {_joined(part, cofactor) for part, _ in self.put(formal, dict(enumerate(full)))}
                kept = tuple(item for item in value if item[0] != product and item[0] not in wanted)
                centered = self.make(("centered", base, bound), full)
                return self.add(kept, self._term([*cofactor, (centered, 1.0)], -number))
        return None

    def places(self, value: Value, formal: Value, count: int) -> Iterator[Axes]:
        """With which labels all products of a class are among those of a value."""
        return self._places(value, formal, ((), 1.0), {}, count)

    def _places(
        self, value: Value, formal: Value, term: tuple[Product, float], given: dict[int, Arg], count: int
    ) -> Iterator[Axes]:
        """With which labels all products of a class, times a term, are among those of a value."""
        terms = sorted(formal, key=lambda item: -len(set(_product_labels(item[0]))))
        for binding in self._bindings(value, terms, term, given):
            if len(binding) == count:
                yield tuple(binding[at] for at in range(count))

    def _bindings(
        self, value: Value, formal: Sequence[tuple[Product, float]], term: tuple[Product, float], given: dict[int, Arg]
    ) -> Iterator[dict[int, Arg]]:
        if not formal:
            yield given
            return
        cofactor, number = term
        first, own = formal[0]
        for item in value:
            if not is_close(item[1], number * own):
                continue
            for binding, rest in _matches(first, item[0], given):
                if rest == cofactor:
                    yield from self._bindings(
                        tuple(each for each in value if each is not item), formal[1:], term, binding
                    )

    def _variance(self, inner: Product, labels: frozenset[Label]) -> Atom | None:
        """The mean of a squared `centered` over its own labels."""
        (number, axes), power = inner[0]
        head = self._heads[number]
        if head[0] != "centered" or power != 2:
            return None
        bound = bound_of(head)
        if labels != {label for at in bound for label in axes[at]}:
            return None
        return self.make(("variance", head[1], bound), tuple(arg for at, arg in enumerate(axes) if at not in bound))

    def _variance_by_squares(self, value: Value, product: Product, number: float, mean: Atom) -> Value | None:
        """`mean(x * x) - mean(x) ** 2` as a variance."""
        head, axes = self.head(mean), mean[1]
        base, bound = class_of(head), bound_of(head)
        x = self._classes[base]
        square, order = self.intern(self.multiply(x, x))
        cofactor = tuple(factor for factor in product if factor[0] != mean)
        if len(order) != len(self._class_sizes[base]):
            return None
        for candidate, factor in value:
            for atom, power in candidate:
                other = self.head(atom)
                rest = tuple(each for each in candidate if each[0] != atom)
                if other[0] != "mean" or power != 1 or rest != cofactor or not is_close(factor, -number):
                    continue
                if other[1] == square and atom[1] == axes:
                    kept = tuple(item for item in value if item[0] not in (candidate, product))
                    variance = self.make(("variance", base, bound), axes)
                    return self.add(kept, self._term([*cofactor, (variance, 1.0)], factor))
        return None

    def _settled_product(self, product: Product, number: float) -> Value:
        """A product in its one form: what has a name is recognised."""
        for atom, power in product:
            kind = self._heads[atom[0]][0]
            found = None
            if kind == "centered" and power == 1:
                found = self._norm(product, number, atom)
            elif kind == "sum" and power == 1:
                found = self._gelu(product, number, atom)
            elif kind == "exp" and power == 1:
                found = self._softmax_by_exp(product, number, atom)
            elif kind == "sigmoid" and power == 1:
                found = self._gelu_by_sigmoid(product, number, atom)
            if found is not None:
                return found
        if self._is_sum(product):
            return scaled(self.inside(product[0][0]), number)
        return ((product, number),) if number else ZERO

    def _norm(self, product: Product, number: float, centered: Atom) -> Value | None:
        """`centered(x) / sqrt(variance(x) + epsilon)` as a norm."""
        head, axes = self.head(centered), centered[1]
        bound = bound_of(head)
        variance = self.make(("variance", head[1], bound), tuple(arg for at, arg in enumerate(axes) if at not in bound))
        for atom, power in product:
            if power != -0.5:
                continue
            terms = dict(self.inside(atom))
            epsilon = terms.pop((), 0.0)
            scale = terms.pop(((variance, 1.0),), 0.0)
            if terms or scale <= 0:
                continue
            norm = self.make(("norm", head[1], bound, float(f"{epsilon / scale:.6g}")), axes)
            rest = [factor for factor in product if factor[0] not in (atom, centered)]
            return self._term([*rest, (norm, 1.0)], number * scale**-0.5)
        return None

    def _gelu(self, product: Product, number: float, gate: Atom) -> Value | None:
        """`x * (1 + erf(x / sqrt(2)))` and its like with tanh as twice a GELU."""
        terms = dict(self.inside(gate))
        one = terms.pop((), 0.0)
        if len(terms) != 1:
            return None
        ((inner, slope),) = terms.items()
        if len(inner) != 1 or inner[0][1] != 1 or not is_close(one, slope):
            return None
        function = self.head(inner[0][0])
        if function[0] not in _ODD:
            return None
        argument = self.value_of(class_of(function), inner[0][0][1])
        for atom, power in product:
            if atom == gate or power != 1:
                continue
            x = self.inside(atom)
            fits = self._is_erf(argument, x) if function[0] == "erf" else self._is_tanh(argument, x, atom)
            if fits:
                base, axes = self.intern(x)
                rest = [factor for factor in product if factor[0] not in (atom, gate)]
                gelu = self.make(("gelu", base, function[0]), axes)
                return self._term([*rest, (gelu, 1.0)], number * one * 2)
        return None

    def _gelu_by_sigmoid(self, product: Product, number: float, gate: Atom) -> Value | None:
        """`x * sigmoid(2 * u)` as a GELU, where `1 + tanh(u)` would be its gate."""
        half = scaled(self.value_of(class_of(self.head(gate)), gate[1]), 0.5)
        for atom, power in product:
            x = self.inside(atom)
            if atom != gate and power == 1 and self._is_tanh(half, x, atom):
                base, axes = self.intern(x)
                rest = [factor for factor in product if factor[0] not in (atom, gate)]
                return self._term([*rest, (self.make(("gelu", base, "tanh"), axes), 1.0)], number)
        return None

    @staticmethod
    def _is_erf(argument: Value, x: Value) -> bool:
        return _alike(argument, scaled(x, math.sqrt(0.5)))

    @staticmethod
    def _is_tanh(argument: Value, x: Value, atom: Atom) -> bool:
        slope = math.sqrt(2 / math.pi)
        cube: Product = ((atom, 3.0),)
        terms = dict(argument)
        third = terms.pop(cube, None)
        if third is None and len(x) == 1:  # x has a coefficient of its own, or is a product
            cube = tuple((each, power * 3) for each, power in x[0][0])
            third = terms.pop(cube, None)
        return (
            third is not None and is_close(third, slope * 0.044715) and _alike(tuple(terms.items()), scaled(x, slope))
        )

    def _softmax_by_exp(self, product: Product, number: float, atom: Atom) -> Value | None:
        """`exp(x) / sum(exp(x))` as a softmax."""
        head, axes = self.head(atom), atom[1]
        for divisor, power in product:
            other = self.head(divisor)
            if power != -1 or other[0] not in ("mean", "total"):
                continue
            bound = bound_of(other)
            inner = self._classes[class_of(other)]
            if len(inner) != 1 or len(inner[0][0]) != 1 or inner[0][1] != 1 or inner[0][0][0][0][0] != atom[0]:
                continue
            binding = _bound_to(inner[0][0][0][0][1], axes, _given(divisor[1], bound))
            if binding is None or any(at not in binding for at in bound):
                continue
            labels = frozenset(label for at in bound for label in binding[at])
            count = times(self._sizes[label] for label in labels)
            if other[0] == "mean":
                if not isinstance(count, int):
                    continue
                number *= count
            rest = [factor for factor in product if factor[0] not in (atom, divisor)]
            soft = self.softmax(self.value_of(class_of(head), axes), labels)
            return self._term([*rest, *soft[0][0]], number)
        return None


def _rounded(number: float) -> float:
    return number if number in (1.0, -1.0) else float(f"{number:.6g}")


def class_of(head: Head) -> int:
    """The class of values that a function is applied to."""
    found = head[1]
    assert isinstance(found, int)
    return found


def bound_of(head: Head) -> tuple[int, ...]:
    """The axes of that class that the function binds."""
    found = head[2]
    assert isinstance(found, tuple)
    return found


def _shape(item: tuple[Product, float]) -> tuple[list[tuple[int, float]], float]:
    """What orders products, whatever their labels are."""
    return [(head, power) for (head, _), power in item[0]], item[1]


def _sorted(items: Iterable[tuple[Product, float]]) -> Value:
    found = [(tuple(sorted(product)) if len(product) > 1 else product, number) for product, number in items]
    if len(found) > 1:
        found.sort()
    return tuple(found)


def _gathered(items: Iterable[tuple[Product, float]]) -> Value:
    """Equal products added up."""
    terms: dict[Product, float] = {}
    largest: dict[Product, float] = {}
    for product, number in items:
        terms[product] = terms.get(product, 0.0) + number
        largest[product] = max(largest.get(product, 0.0), abs(number))
    return tuple(
        sorted((product, number) for product, number in terms.items() if abs(number) > 1e-12 * largest[product])
    )


def _put_product(product: Product, labels: Mapping[Label, Arg]) -> Product:
    found: list[tuple[Atom, float]] = []
    get = labels.get
    for (head, axes), power in product:
        new = [
            get(arg[0], arg) if len(arg) == 1 else tuple([each for label in arg for each in get(label, (label,))])
            for arg in axes
        ]
        found.append(((head, tuple(new)), power))
    return tuple(found)


def _product_labels(product: Product) -> Iterator[Label]:
    for (_, axes), _ in product:
        yield from _labels(axes)


def _chains(value: Value, bound: frozenset[Label]) -> dict[Label, Arg]:
    """Labels that always stand side by side, by the first of them."""
    if not _has_runs(value):
        return {}
    after: dict[Label, set[Label | None]] = {}
    before: dict[Label, set[Label | None]] = {}
    for product, _ in value:
        for (_, axes), _ in product:
            for arg in axes:
                for at, label in enumerate(arg):
                    after.setdefault(label, set()).add(arg[at + 1] if at + 1 < len(arg) else None)
                    before.setdefault(label, set()).add(arg[at - 1] if at else None)
    joined: dict[Label, Label] = {}
    for label, found in after.items():
        if len(found) == 1:
            (second,) = found
            if second is not None and before[second] == {label} and (label in bound) == (second in bound):
                joined[label] = second
    chains: dict[Label, Arg] = {}
    for label in after:
        if label in joined and label not in joined.values():
            chain = [label]
            while chain[-1] in joined:
                chain.append(joined[chain[-1]])
            chains[label] = tuple(chain)
    return chains


def _has_runs(value: Value) -> bool:
    """Whether an axis of an atom is a run of several labels."""
    for product, _ in value:
        for (_, axes), _ in product:
            for arg in axes:
                if len(arg) > 1:
                    return True
    return False


def _merge(value: Value, chains: Mapping[Label, Arg]) -> Value:
    """A value in which the first label of each chain stands for all of it."""
    if not chains:
        return value
    gone: dict[Label, Arg] = {label: () for chain in chains.values() for label in chain[1:]}
    return tuple((_put_product(product, gone), number) for product, number in value)


def _extend(labels: dict[Label, Arg], label: Label, arg: Arg) -> None:
    labels.setdefault(label, arg)


def _split(labels: dict[Label, Arg], label: Label, parts: Arg) -> None:
    labels[label] = parts


def _flat(labels: dict[Label, Arg], arg: Arg) -> dict[Label, Arg]:
    """What is finally put in place of each label of an axis, where parts were split again."""

    def parts(label: Label) -> Arg:
        found = labels.get(label, (label,))
        return (
            found
            if found == (label,)
            else tuple(each for part in found for each in (parts(part) if part in labels else (part,)))
        )

    return {label: parts(label) for label in arg}


def _replace_in(splits: dict[Label, Arg], label: Label, parts: Arg) -> None:
    for key, found in splits.items():
        if label in found:
            at = found.index(label)
            splits[key] = (*found[:at], *parts, *found[at + 1 :])
            return
    splits[label] = parts


def _given(axes: Axes, bound: tuple[int, ...]) -> dict[int, Arg]:
    """The numbered labels that are not bound, as an atom's axes give them."""
    given: dict[int, Arg] = {}
    at = 0
    for arg in axes:
        while at in bound:
            at += 1
        given[at] = arg
        at += 1
    return given


def _matches(formal: Product, product: Product, binding: dict[int, Arg]) -> Iterator[tuple[dict[int, Arg], Product]]:
    """All ways in which the atoms of a class's product are among those of another; with what is left over."""
    if not formal:
        yield binding, product
        return
    (head, axes), power = formal[0]
    for at, ((other, own), exponent) in enumerate(product):
        if other != head or exponent != power:
            continue
        found = _bound_to(axes, own, binding)
        if found is not None:
            yield from _matches(formal[1:], (*product[:at], *product[at + 1 :]), found)


def _bound_to(formal: Axes, axes: Axes, binding: dict[int, Arg]) -> dict[int, Arg] | None:
    found = dict(binding)
    for wanted, arg in zip(formal, axes, strict=True):
        if len(wanted) == 1:
            if found.setdefault(wanted[0], arg) != arg:
                return None
        elif len(wanted) != len(arg):
            return None
        else:
            for label, each in zip(wanted, arg, strict=True):
                if found.setdefault(label, (each,)) != (each,):
                    return None
    return found


def _joined(one: Product, other: Product) -> Product:
    return tuple(sorted((*one, *other)))


def _alike(one: Value, other: Value) -> bool:
    """Whether two values are the same up to the rounding of coefficients."""
    terms = dict(other)
    return len(one) == len(terms) and all(
        product in terms and is_close(number, terms[product]) for product, number in one
    )
