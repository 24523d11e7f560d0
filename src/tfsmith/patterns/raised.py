"""The raised graph: every tensor of a body as a value, however it was spelled. Read-only, built in one pass.

A tensor that no rule explains is an atom of its own, so a reading always exists where the rank of the tensor is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from math import isfinite, isnan, prod
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from tfsmith.ir.body import Body
from tfsmith.ir.graph import Checker
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.op_database import builtin_op
from tfsmith.ir.shape import SCALAR
from tfsmith.ir.tensor import FilledTensor, Tensor
from tfsmith.ops.families import CONTROL_FLOW, PASSES_ON, VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.ops.shapes import flat_values
from tfsmith.ops.sizes import Size, times
from tfsmith.patterns.algebra import ONE, ZERO, Algebra, Arg, Atom, Axes, Label, Product, Value, constant_of, scaled

__all__ = ["Raised", "Reading"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_AXIS = re.compile(r"[^*+()]+\.(\d+)")
_NUMBERS = (*_FLOATS, *_INTEGERS)
_WEIGHTS = VARIABLES | {"Const", "ReadVariableOp"}
_NOT_COMPUTED = frozenset({"_output_shapes", "_class", "_XlaMustCompile"})
"""Attributes that say nothing of what a node computes."""
_FAR = 12
"""So many nodes are followed to see whether two leaves are one."""
_SMALL = 64
"""Constants of so many bytes are compared."""


class Reading(NamedTuple):
    """What a tensor is: a value, and which labels its axes are."""

    value: Value
    axes: Axes


class Raised:
    """The readings of a body's tensors.

    Args:
        body: A graph or function.
        inference: What is known of its tensors.
        only: The nodes to look at, if not all of them; the tensors of others are leaves.
    """

    def __init__(self, body: Body, inference: Inference, only: Set[str] | None = None) -> None:
        self.algebra = Algebra()
        self.body = body
        self._inference = inference
        self._checker = Checker(body)
        self._readings: dict[Endpoint, Reading | None] = {}
        self._axis_names: dict[str, str] = {}
        self._firsts: dict[str, str] = {}
        self._equal: dict[object, str] = {}
        for node in _in_order(body, inference, only):
            if node.op not in _AT_NEED:
                self._read(node)

    def __iter__(self) -> Iterator[tuple[Endpoint, Reading]]:
        """The tensors that have a reading, each after what it is made of."""
        return ((tensor, reading) for tensor, reading in self._readings.items() if reading is not None)

    def reading(self, tensor: Endpoint) -> Reading | None:
        """What a tensor is; None where not even its rank is known."""
        if tensor not in self._readings:  # a constant, an argument of a function, or a tensor that closes a loop
            node = self.body.by_name.get(tensor.node)
            if node is not None and node.op in _AT_NEED and tensor.output == 0:
                self._read(node)
            if tensor not in self._readings:
                self._readings[tensor] = self._leaf(tensor)
        return self._readings[tensor]

    def sizes(self, tensor: Endpoint) -> tuple[Size, ...] | None:
        """The sizes of a tensor."""
        return self._by_axis(self._inference.known(self.body, tensor).dims)

    def integers(self, tensor: Endpoint) -> tuple[Size, ...] | None:
        """The elements of a small tensor of integers, as far as they are known."""
        return self._by_axis(self._inference.known(self.body, tensor).values)

    def _by_axis(self, sizes: tuple[Size, ...] | None) -> tuple[Size, ...] | None:
        """Sizes in which the names of the same axis of different inputs are one: words and mask are equally long."""
        if sizes is None or all(type(size) is int for size in sizes):
            return sizes
        return tuple(self._axis_name(size) if isinstance(size, str) else size for size in sizes)

    def _axis_name(self, size: str) -> str:
        found = self._axis_names.get(size)
        if found is None:
            found = self._axis_names[size] = _AXIS.sub(r"axis\1", size)
        return found

    def constant(self, tensor: Endpoint) -> Tensor | None:
        """The constant that a tensor is."""
        return self._inference.constant(self.body, tensor)

    def is_weight(self, atom: Atom) -> bool:
        """Whether an atom is a constant or a variable, as it is stored."""
        head = self.algebra.head(atom)
        node = self.body.by_name.get(str(head[1]).rpartition(":")[0]) if head[0] == "tensor" else None
        return node is not None and node.op in _WEIGHTS

    def is_indicator(self, value: Value) -> bool:
        """Whether a value is 0 or 1 everywhere: what is true, as a number."""
        number = constant_of(value)
        if number is not None:
            return number in (0.0, 1.0)
        if len(value) == 2 and constant_of(value[:1]) == 1 and value[1][1] == -1:
            value = ((value[1][0], 1.0),)
        return len(value) == 1 and value[0][1] == 1 and all(self._is_truth(atom) for atom, _ in value[0][0])

    def _is_truth(self, atom: Atom) -> bool:
        """Whether an atom is 0 or 1."""
        head = self.algebra.head(atom)
        if head[0] == "tensor":
            name, _, output = str(head[1]).rpartition(":")
            kind = self._inference.dtype(self.body, Endpoint(name, int(output)))
            return kind is not None and kind.name == "bool"
        if head[0] == "sum":
            return self.is_indicator(self.algebra.inside(atom))
        return head[0] in _TRUTHS or (head[0] == "cast" and head[-1] == "bool")

    def recognised(self) -> Iterator[tuple[str, Endpoint, Atom]]:
        """Each layer norm, GELU, softmax and attention, with the first tensor that has it."""
        seen: set[int] = set()
        for tensor, reading in self:
            for product, _ in reading.value:
                for atom, _ in product:
                    if atom[0] in seen:
                        continue
                    seen.add(atom[0])
                    kind = str(self.algebra.head(atom)[0])
                    if kind == "contract" and self._is_attention(atom):
                        kind = "attention"
                    if kind in ("norm", "gelu", "softmax", "attention"):
                        yield kind, tensor, atom

    def _is_attention(self, atom: Atom) -> bool:
        """Whether a contraction is that of a softmax with something, over the softmax's own labels."""
        head = self.algebra.head(atom)
        number, bound = head[1], head[2]
        assert isinstance(number, int)
        assert isinstance(bound, tuple)
        positions = iter(atom[1])
        labels = tuple(
            (-1 - at,) if at in bound else next(positions) for at in range(len(self.algebra.class_sizes(number)))
        )
        for product, _ in self.algebra.value_of(number, labels):
            for inner, _ in product:
                other = self.algebra.head(inner)
                if other[0] == "softmax" and isinstance(other[2], tuple):
                    over = {label for at in other[2] for label in inner[1][at]}
                    if over == {-1 - at for at in bound}:
                        return True
        return False

    def _leaf(self, tensor: Endpoint) -> Reading | None:
        sizes = self.sizes(tensor)
        if sizes is None:
            return None
        axes = self.algebra.axes(sizes)
        node = self.body.by_name.get(tensor.node)
        name = tensor.node if node is None or node.op == "Const" else self._first(tensor.node, _FAR)  # weights stay two
        return Reading(self.algebra.single(("tensor", f"{name}:{tensor.output}"), axes), axes)

    def _first(self, name: str, far: int) -> str:
        """The first node that computes what this one does, of the same inputs: masks are often made for each layer."""
        found = self._firsts.get(name)
        if found is not None:
            return found
        node = self.body.by_name.get(name)
        found = name
        said = _settings(self.body, node) if node is not None and far else None
        if node is not None and said is not None:
            inputs = self._inference.inputs(self.body, node)
            taken = tuple([(self._first(one, far - 1), output) for one, output in inputs])
            found = self._equal.setdefault((node.op, taken, said), name)
        self._firsts[name] = found
        return found

    def _read(self, node: Node) -> None:
        rule = _RULES.get(node.op)
        first = Endpoint(node.name, 0)
        if rule is None:
            return
        inputs, definition = self._inference.inputs(self.body, node), builtin_op(node.op)
        if definition is not None and len(inputs) < len(definition.inputs):
            return  # a damaged graph: the rules take for granted what the op must be given
        if not self._checker.are_right(node):
            return
        found = rule(self, node, inputs)
        if found is not None:
            self._readings[first] = found

    # what the rules are made of

    def aligned(self, one: Reading, other: Reading) -> tuple[Value, Value, Axes] | None:
        """Two readings with the same labels for axes that are combined element by element."""
        if one.axes == other.axes or not other.axes:
            return one.value, other.value, one.axes
        rank = max(len(one.axes), len(other.axes))
        left = ((),) * (rank - len(one.axes)) + one.axes
        right = ((),) * (rank - len(other.axes)) + other.axes
        for_one: dict[Label, Arg] = {}
        for_other: dict[Label, Arg] = {}
        taken = {label for arg in left for label in arg}
        axes: list[Arg] = []
        for mine, theirs in zip(left, right, strict=True):
            if not theirs or mine == theirs:
                axes.append(mine)
            elif not mine:
                fresh = tuple(
                    self.algebra.label(self.algebra.size(label)) if label in taken else label for label in theirs
                )
                for_other |= {label: (new,) for label, new in zip(theirs, fresh, strict=True)}
                axes.append(fresh)
            else:
                found = self.algebra.refine(mine, theirs)
                if found is None:
                    return None
                for_one |= found[0]
                for_other |= found[1]
                axes.append(tuple(new for label in mine for new in found[0][label]))
        return self.algebra.put(one.value, for_one), self.algebra.put(other.value, for_other), tuple(axes)

    def contracted(self, operands: Sequence[tuple[Reading, str]], result: str) -> Reading | None:
        """The product of readings whose axes have letters, summed over the letters that the result lacks."""
        letters: dict[str, Arg] = {}
        values: list[Value] = []
        for reading, names in operands:
            if len(reading.axes) != len(names) or len(set(names)) != len(names):
                return None
            value, axes = reading.value, list(reading.axes)
            if values:  # the labels of the first stay
                fresh = self._fresh(axes, [letters.get(name, ()) for name in names])
                value = self.algebra.put(value, fresh)
                axes = [_put(arg, fresh) for arg in axes]
            for at, name in enumerate(names):
                mine = letters.get(name, ())
                if not mine or not axes[at] or mine == axes[at]:
                    letters[name] = mine or axes[at]
                    continue
                found = self.algebra.refine(mine, axes[at])
                if found is None:
                    return None
                values = [self.algebra.put(each, found[0]) for each in values]
                letters = {key: _put(arg, found[0]) for key, arg in letters.items()}
                value = self.algebra.put(value, found[1])
                axes = [_put(arg, found[1]) for arg in axes]
            values.append(value)
        product = ONE
        for value in values:
            product = self.algebra.multiply(product, value)
        gone = frozenset([label for name, arg in letters.items() if name not in result for label in arg])
        if any(name not in letters for name in result):
            return None
        return Reading(self.algebra.reduce(product, gone), tuple([letters[name] for name in result]))

    def _fresh(self, axes: Sequence[Arg], meets: Sequence[Arg]) -> dict[Label, Arg]:
        """Other labels for axes: those of axes that they meet, where these are as long, else new ones."""
        found: dict[Label, Arg] = {}
        size = self.algebra.size
        for arg, met in zip(axes, meets, strict=True):
            if len(arg) == len(met) == 1 and size(arg[0]) == size(met[0]):
                found[arg[0]] = met
            else:
                found |= {label: (self.algebra.label(size(label)),) for label in arg}
        return found


def _settings(body: Body, node: Node) -> tuple[object, ...] | None:
    """What a node computes, besides its op and inputs; None where equal inputs may give other outputs.

    So it is of nodes with a state, in a loop, of calls, and of constants with many elements.
    """
    if any(text[:1] == "^" for text in node.inputs) or node.op in CONTROL_FLOW:
        return None
    if node.op == "Const":
        tensor = node.constant
        if tensor is None or not tensor.dtype.itemsize or tensor.nbytes > _SMALL:
            return None
        return tensor.dtype.name, tensor.shape.dims, tuple(flat_values(tensor))
    definition = body.op_def(node.op)
    if not node.inputs or definition is None or definition.is_stateful or node.op in VARIABLES:
        return None
    found = [(name, attr.kind, attr.value) for name, attr in node.attrs.items() if name not in _NOT_COMPUTED]
    return None if any("func" in kind or "tensor" in kind for _, kind, _ in found) else tuple(sorted(found, key=str))


def _put(arg: Arg, labels: Mapping[Label, Arg]) -> Arg:
    if len(arg) == 1:
        return labels.get(arg[0], arg)
    return tuple([new for label in arg for new in labels.get(label, (label,))])


def _in_order(body: Body, inference: Inference, only: Set[str] | None) -> Iterator[Node]:
    """The nodes, each after what it takes; those in a circle in any order. Linear, no recursion."""
    done: set[str] = set()
    by_name = body.by_name
    for root in body:
        if root.name in done or (only is not None and root.name not in only):
            continue
        if all(tensor.node in done or tensor.node not in by_name for tensor in inference.inputs(body, root)):
            done.add(root.name)  # as nearly all in a file
            yield root
            continue
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
                continue
            if node.name in done:
                continue
            done.add(node.name)
            stack.append((node, True))
            for tensor in inference.inputs(body, node):
                if tensor.node not in done and tensor.node in by_name:
                    stack.append((by_name[tensor.node], False))


# The rules, by op. Each gives the reading of the node's first output, or None where it cannot say.

_Rule: TypeAlias = Callable[[Raised, Node, Sequence[Endpoint]], "Reading | None"]


def _same(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    return raised.reading(inputs[0])


def _constant(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """A constant of one element is its number, and so is one that repeats it along other axes than the last.

    All others are tensors like any other: weights may be all ones, too. Infinity is no number to compute with.
    """
    tensor = raised.constant(Endpoint(node.name, 0))
    sizes = None if tensor is None else tensor.shape.dims
    if tensor is None or (not sizes and sizes != ()) or tensor.dtype.name not in _NUMBERS:
        return None
    is_filled = isinstance(tensor, FilledTensor) and len(tensor.values) <= tensor.dtype.itemsize
    if prod(sizes) != 1 and (sizes[-1] != 1 or not is_filled):
        return None
    single = FilledTensor(tensor.dtype, SCALAR, tensor.values) if isinstance(tensor, FilledTensor) else tensor
    number = float(flat_values(single)[0])
    if isnan(number):
        return None
    if not isfinite(number):
        return Reading(
            scaled(raised.algebra.single(("infinity",), ()), -1 if number < 0 else 1), raised.algebra.axes(sizes)
        )
    return Reading((((), number),) if number else ZERO, raised.algebra.axes(sizes))


def _known_integer(raised: Raised, tensor: Endpoint) -> Reading | None:
    """A single integer that follows from shapes."""
    sizes, values = raised.sizes(tensor), raised.integers(tensor)
    if values is None or sizes is None or len(values) != 1 or not isinstance(values[0], int):
        return None
    return Reading((((), float(values[0])),) if values[0] else ZERO, ((),) * len(sizes))


def _integer(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    return _known_integer(raised, Endpoint(node.name, 0))


def _cast(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """Between numbers of which the second type holds all of the first, a cast changes no value."""
    x = raised.reading(inputs[0]) or _known_integer(raised, inputs[0])
    source, target = node.get("SrcT"), node.get("DstT")
    if x is None or source is None or target is None:
        return None
    if _holds(str(source.name), str(target.name)) or constant_of(x.value) is not None:
        return x
    if target.name == "bool" and raised.is_indicator(x.value):
        return x
    return Reading(raised.algebra.apply("cast", x.value, extra=(str(target.name),)), x.axes)


def _holds(source: str, target: str) -> bool:
    if source == target:
        return True
    if target in ("float32", "float64"):
        return source in _INTEGERS or source in _FLOATS[: _FLOATS.index(target)]
    return source == "bool" or (source == "int32" and target == "int64")


def _binary(combine: Callable[[Algebra, Value, Value], Value | None]) -> _Rule:
    def rule(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
        one, other = raised.reading(inputs[0]), raised.reading(inputs[1])
        if one is None or other is None:
            return None
        found = raised.aligned(one, other)
        if found is None:
            return None
        value = combine(raised.algebra, found[0], found[1])
        return None if value is None else Reading(value, found[2])

    return rule


def _add(algebra: Algebra, one: Value, other: Value) -> Value:
    return algebra.add(one, other)


def _subtract(algebra: Algebra, one: Value, other: Value) -> Value:
    return algebra.add(one, scaled(other, -1))


def _multiply(algebra: Algebra, one: Value, other: Value) -> Value:
    return algebra.multiply(one, other)


def _divide(algebra: Algebra, one: Value, other: Value) -> Value | None:
    number = constant_of(other)
    if number is not None:
        return scaled(one, 1 / number) if number else None
    inverse = algebra.power(other, -1)
    return None if inverse is None else algebra.multiply(one, inverse)


def _squared_difference(algebra: Algebra, one: Value, other: Value) -> Value | None:
    return algebra.power(algebra.add(one, scaled(other, -1)), 2)


def _power(algebra: Algebra, one: Value, other: Value) -> Value | None:
    exponent = constant_of(other)
    return None if exponent is None else algebra.power(one, exponent)


def _maximum(algebra: Algebra, one: Value, other: Value) -> Value:
    """A sum of squares and a constant is at least the constant; what is at least zero is a ReLU."""
    for value, bound in ((one, constant_of(other)), (other, constant_of(one))):
        if bound is not None and constant_of(value) is None:
            terms = dict(value)
            least = terms.pop((), 0.0)
            if least >= bound and all(
                number > 0 and _is_positive(algebra, product) for product, number in terms.items()
            ):
                return value
            if bound == 0:
                return algebra.apply("relu", value)
    return algebra.apply("maximum", *sorted((one, other), key=repr))


def _is_positive(algebra: Algebra, product: Product) -> bool:
    return all(power % 2 == 0 or algebra.head(atom)[0] in ("variance", "exp", "softmax") for atom, power in product)


def _function(name: str, *attrs: str) -> _Rule:
    """A function of one tensor, element by element."""

    def rule(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
        x = raised.reading(inputs[0])
        if x is None:
            return None
        extra = tuple(float(node.get(key, 0.0)) for key in attrs)
        return Reading(raised.algebra.apply(name, x.value, extra=extra), x.axes)

    return rule


def _unary(combine: Callable[[Algebra, Value], Value | None]) -> _Rule:
    def rule(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
        x = raised.reading(inputs[0])
        value = None if x is None else combine(raised.algebra, x.value)
        return None if x is None or value is None else Reading(value, x.axes)

    return rule


def _erfc(algebra: Algebra, value: Value) -> Value:
    return algebra.add(ONE, scaled(algebra.apply("erf", value), -1))


def _together(name: str) -> _Rule:
    """A function of two tensors, element by element."""
    return _binary(lambda algebra, one, other: algebra.apply(name, one, other))


def _and(algebra: Algebra, one: Value, other: Value) -> Value:
    return one if one == other else algebra.multiply(one, other)


def _or(algebra: Algebra, one: Value, other: Value) -> Value:
    """What is not neither of two."""
    return _not(algebra, _and(algebra, _not(algebra, one), _not(algebra, other)))


def _not(algebra: Algebra, value: Value) -> Value:
    return algebra.add(ONE, scaled(value, -1))


def _select(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    readings = [raised.reading(tensor) for tensor in inputs[:3]]
    condition, one, other = readings
    if condition is None or one is None or other is None:
        return None
    if node.op == "Select" and len(condition.axes) != len(one.axes):
        return None  # a condition of rank one chooses rows
    first = raised.aligned(one, other)
    if first is None:
        return None
    second = raised.aligned(Reading(first[0], first[2]), condition)
    if second is None:
        return None
    third = raised.aligned(Reading(first[1], first[2]), condition)
    if third is None or third[2] != second[2]:
        return None
    return Reading(_chosen(raised.algebra, second[1], second[0], third[0]), second[2])


def _chosen(algebra: Algebra, condition: Value, one: Value, other: Value) -> Value:
    """One value where a condition is 1, and another where it is 0. A choice of 0 is a product."""
    number = constant_of(condition)
    if number is not None:
        return one if number else other
    if len(condition) > 1 and constant_of(condition[:1]) == 1:  # what is not so
        condition, one, other = _not(algebra, condition), other, one
    numbers = constant_of(one), constant_of(other)
    if numbers[0] is not None and numbers[1] is not None:
        return algebra.add(other, scaled(condition, numbers[0] - numbers[1]))
    if numbers[1] == 0 and not _is_infinite(algebra, one):
        return algebra.multiply(condition, one)
    if numbers[0] == 0 and not _is_infinite(algebra, other):
        return algebra.multiply(_not(algebra, condition), other)
    return algebra.apply("select", condition, one, other)


def _is_infinite(algebra: Algebra, value: Value) -> bool:
    return any(algebra.head(atom)[0] == "infinity" for product, _ in value for atom, _ in product)


def _add_all(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    found = raised.reading(inputs[0])
    for tensor in inputs[1:]:
        other = raised.reading(tensor)
        both = None if found is None or other is None else raised.aligned(found, other)
        if both is None:
            return None
        found = Reading(raised.algebra.add(both[0], both[1]), both[2])
    return found


def _bias(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    x, bias = raised.reading(inputs[0]), raised.reading(inputs[1])
    if x is None or bias is None or not x.axes:
        return None
    behind = len(x.axes) - 2 if node.get("data_format") == b"NCHW" else 0
    both = raised.aligned(x, Reading(bias.value, (*bias.axes, *((),) * behind)))
    return None if both is None else Reading(raised.algebra.add(both[0], both[1]), both[2])


def _reshape(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    x, sizes = raised.reading(inputs[0]), raised.sizes(Endpoint(node.name, 0))
    if x is None or sizes is None:
        return None
    found = raised.algebra.regroup(x.axes, sizes)
    return None if found is None else Reading(raised.algebra.put(x.value, found[1]), found[0])


def _transpose(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    x, order = raised.reading(inputs[0]), _numbers(raised, inputs[1])
    if x is None or order is None or len(order) != len(x.axes):
        return None
    if sorted(at % len(order) for at in order) != list(range(len(order))):
        return None
    return Reading(x.value, tuple(x.axes[at] for at in order))


def _numbers(raised: Raised, tensor: Endpoint) -> list[int] | None:
    values = raised.integers(tensor)
    found = [value for value in values or () if isinstance(value, int)]
    return found if values is not None and len(found) == len(values) else None


def _expand(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    x, at = raised.reading(inputs[0]), _numbers(raised, inputs[1])
    if x is None or at is None or len(at) != 1:
        return None
    place = at[0] % (len(x.axes) + 1)
    return Reading(x.value, (*x.axes[:place], (), *x.axes[place:]))


def _squeeze(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    x, sizes = raised.reading(inputs[0]), raised.sizes(Endpoint(node.name, 0))
    asked = node.get("squeeze_dims") or ()
    if x is None or sizes is None or (asked and not x.axes):
        return None
    gone = {at % len(x.axes) for at in asked} if asked else {at for at, arg in enumerate(x.axes) if not arg}
    if any(x.axes[at] for at in gone) or len(x.axes) - len(gone) != len(sizes):
        return None
    return Reading(x.value, tuple(arg for at, arg in enumerate(x.axes) if at not in gone))


def _broadcast(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """Repeated along axes of size one: no value changes."""
    x, sizes = raised.reading(inputs[0]), raised.sizes(Endpoint(node.name, 0))
    if x is None or sizes is None or len(sizes) < len(x.axes):
        return None
    axes = [*((),) * (len(sizes) - len(x.axes)), *x.axes]
    for at, size in enumerate(sizes):
        if not axes[at] and size != 1:
            axes[at] = (raised.algebra.label(size),)
        elif size != raised.algebra.extent(axes[at]):
            return None
    return Reading(x.value, tuple(axes))


def _fill(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    sizes, value = raised.sizes(Endpoint(node.name, 0)), raised.reading(inputs[1])
    if sizes is None or value is None:
        return None
    return Reading(value.value, raised.algebra.axes(sizes))


def _filled(number: Value) -> _Rule:
    def rule(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
        x = raised.reading(inputs[0])
        return None if x is None else Reading(number, x.axes)

    return rule


def _slice(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """A slice that only adds axes, or takes all of each."""
    x = raised.reading(inputs[0])
    begins, steps = raised.integers(inputs[1]), _numbers(raised, inputs[3])
    known = _known_integer(raised, Endpoint(node.name, 0))
    if known is not None:
        return known
    if x is None or begins is None or steps is None:
        return None
    masks = {key: int(node.get(f"{key}_mask", 0)) for key in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    axes: list[Arg] = []
    left = list(x.axes)
    named = sum(1 for at in range(len(begins)) if not any(masks[key] >> at & 1 for key in ("ellipsis", "new_axis")))
    for at in range(len(begins)):
        if masks["ellipsis"] >> at & 1:
            while len(left) > named:
                axes.append(left.pop(0))
        elif masks["new_axis"] >> at & 1:
            axes.append(())
        else:
            named -= 1
            if not left:
                return None
            arg = left.pop(0)
            if masks["shrink_axis"] >> at & 1:
                if arg:
                    return None
                continue
            if steps[at] != 1 or not (masks["begin"] >> at & 1 or begins[at] == 0) or not masks["end"] >> at & 1:
                return None
            axes.append(arg)
    return Reading(x.value, (*axes, *left))


def _product(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    one, other = raised.reading(inputs[0]), raised.reading(inputs[1])
    if one is None or other is None or min(len(one.axes), len(other.axes)) < 2:
        return None
    turned = [bool(node.get(f"transpose_{key}") or node.get(f"adj_{'x' if key == 'a' else 'y'}")) for key in "ab"]
    rank = max(len(one.axes), len(other.axes)) - 2
    batch = "".join(chr(ord("A") + at) for at in range(rank))
    left = batch[rank - (len(one.axes) - 2) :] + ("ki" if turned[0] else "ik")
    right = batch[rank - (len(other.axes) - 2) :] + ("jk" if turned[1] else "kj")
    return raised.contracted([(one, left), (other, right)], batch + "ij")


def _einsum(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    equation = node.get("equation", b"").decode("ascii", "replace").replace(" ", "")
    given, arrow, result = equation.partition("->")
    names = given.split(",")
    readings = [raised.reading(tensor) for tensor in inputs]
    if not arrow or len(names) != len(readings):
        return None
    operands: list[tuple[Reading, str]] = []
    widest = 0
    for reading, letters in zip(readings, names, strict=True):
        if reading is None:
            return None
        if "..." in letters:
            count = len(reading.axes) - len(letters) + 3
            widest = max(widest, count)
            letters = letters.replace("...", "".join(chr(0x100 + count - 1 - at) for at in range(count)))
        operands.append((reading, letters))
    result = result.replace("...", "".join(chr(0x100 + widest - 1 - at) for at in range(widest)))
    return raised.contracted(operands, result)


def _convolution(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """A convolution with a kernel of one pixel is a product."""
    x, kernel = raised.reading(inputs[0]), raised.reading(inputs[1])
    if x is None or kernel is None or len(x.axes) != 4 or len(kernel.axes) != 4 or kernel.axes[0] or kernel.axes[1]:
        return None
    if any(step != 1 for step in node.get("strides", ())) or any(node.get("explicit_paddings") or ()):
        return None
    layout = "nchw" if node.get("data_format", b"NHWC") == b"NCHW" else "nhwc"
    return raised.contracted([(x, layout), (kernel, "yzco")], layout.replace("c", "o"))


def _reduced(kind: str) -> _Rule:
    def rule(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
        x, at = raised.reading(inputs[0]), _numbers(raised, inputs[1])
        if x is None or at is None:
            return None
        gone = {axis % len(x.axes) for axis in at} if x.axes else set()
        labels = frozenset(label for axis in gone for label in x.axes[axis])
        if kind in ("sum", "mean"):
            value = raised.algebra.reduce(x.value, labels)
            if kind == "mean":
                for label in labels:
                    size = raised.algebra.size(label)
                    if not isinstance(size, int):
                        return None
                    value = scaled(value, 1 / size) if size else value
        else:
            value = raised.algebra.reduce_by(kind, x.value, labels) if labels else x.value
        keep = bool(node.get("keep_dims"))
        axes = tuple(() if axis in gone else arg for axis, arg in enumerate(x.axes) if keep or axis not in gone)
        return Reading(value, axes)

    return rule


def _softmax(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    x = raised.reading(inputs[0])
    if x is None or not x.axes:
        return None
    kind = node.op.lower()
    if not x.axes[-1]:
        return Reading(ONE if kind == "softmax" else ZERO, x.axes)
    return Reading(raised.algebra.softmax(x.value, frozenset(x.axes[-1]), kind), x.axes)


def _batch_norm(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """A batch norm: in training, by the mean and variance of what it is given."""
    x, algebra = raised.reading(inputs[0]), raised.algebra
    if x is None or len(x.axes) != 4:
        return None
    channel = 1 if node.get("data_format", b"NHWC") == b"NCHW" else 3
    in_training = bool(node.get("is_training", True))
    vectors: list[Value] = []
    for tensor in inputs[1 : 3 if in_training else 5]:
        vector = raised.reading(tensor)
        if vector is None or len(vector.axes) != 1:
            return None
        both = raised.aligned(x, Reading(vector.value, (*vector.axes, *((),) * (3 - channel))))
        if both is None or both[2] != x.axes:
            return None
        vectors.append(both[1])
    if in_training:
        labels = frozenset(label for at, arg in enumerate(x.axes) if at != channel for label in arg)
        count = times(algebra.size(label) for label in labels)
        if not isinstance(count, int) or not count:
            return None
        mean = scaled(algebra.reduce(x.value, labels), 1 / count)
        square = algebra.power(algebra.add(x.value, scaled(mean, -1)), 2)
        if square is None:
            return None
        vectors += [mean, scaled(algebra.reduce(square, labels), 1 / count)]
    scale, offset, mean, variance = vectors
    centered = algebra.add(x.value, scaled(mean, -1))
    epsilon = float(node.get("epsilon", 1e-4))
    factor = algebra.power(algebra.add(variance, (((), epsilon),)), -0.5)
    if factor is None:
        return None
    return Reading(algebra.add(algebra.multiply(algebra.multiply(centered, factor), scale), offset), x.axes)


_FUNCTIONS = (
    *("Erf", "Tanh", "Sigmoid", "Relu", "Relu6", "Elu", "Selu", "Log", "Log1p", "Expm1", "Abs", "Sign", "Floor"),
    *("Ceil", "Round", "Sin", "Cos", "Softplus", "Softsign", "IsNan", "IsInf"),
)
_COMPARISONS = ("Equal", "NotEqual", "Greater", "GreaterEqual", "Less", "LessEqual")
_TRUTHS = frozenset(name.lower() for name in (*_COMPARISONS, "IsNan", "IsInf"))
_AT_NEED = frozenset(("Const", "Shape", "Size", "Rank", "Prod", "GatherV2", "Pack"))
"""What needs no other reading, and is seldom asked for."""
_RULES: Mapping[str, _Rule] = MappingProxyType(
    dict.fromkeys((*PASSES_ON, "CheckNumerics", "EnsureShape"), _same)
    | {name: _function(name.lower()) for name in _FUNCTIONS}
    | {name: _together(name.lower()) for name in (*_COMPARISONS, "Minimum")}
    | dict.fromkeys(("Add", "AddV2"), _binary(_add))
    | dict.fromkeys(("RealDiv", "Div", "DivNoNan"), _binary(_divide))
    | dict.fromkeys(("Mul", "MulNoNan"), _binary(_multiply))
    | dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _product)
    | dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm)
    | dict.fromkeys(("Select", "SelectV2"), _select)
    | dict.fromkeys(("Tile", "BroadcastTo"), _broadcast)
    | dict.fromkeys(("Shape", "Size", "Rank", "Prod", "GatherV2", "Pack"), _integer)
    | {
        "Const": _constant,
        "Cast": _cast,
        "Sub": _binary(_subtract),
        "SquaredDifference": _binary(_squared_difference),
        "Pow": _binary(_power),
        "Maximum": _binary(_maximum),
        "LogicalAnd": _binary(_and),
        "LogicalOr": _binary(_or),
        "LogicalNot": _unary(_not),
        "Neg": _unary(lambda _, value: scaled(value, -1)),
        "Square": _unary(lambda algebra, value: algebra.power(value, 2)),
        "Rsqrt": _unary(lambda algebra, value: algebra.power(value, -0.5)),
        "Sqrt": _unary(lambda algebra, value: algebra.power(value, 0.5)),
        "Reciprocal": _unary(lambda algebra, value: algebra.power(value, -1)),
        "Inv": _unary(lambda algebra, value: algebra.power(value, -1)),
        "Erfc": _unary(_erfc),
        "Exp": _unary(Algebra.exp),
        "LeakyRelu": _function("leakyrelu", "alpha"),
        "AddN": _add_all,
        "BiasAdd": _bias,
        "BiasAddV1": _bias,
        "Reshape": _reshape,
        "Transpose": _transpose,
        "ExpandDims": _expand,
        "Squeeze": _squeeze,
        "Fill": _fill,
        "OnesLike": _filled(ONE),
        "ZerosLike": _filled(ZERO),
        "StridedSlice": _slice,
        "Einsum": _einsum,
        "Conv2D": _convolution,
        "Sum": _reduced("sum"),
        "Mean": _reduced("mean"),
        "Max": _reduced("max"),
        "Min": _reduced("min"),
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
    }
)
