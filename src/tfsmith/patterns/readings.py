"""How the raised graph reads each op: what a node gives, as a value of what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, isnan, pi, prod, sqrt
from struct import pack as pack_bytes
from struct import unpack
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.tensor import FilledTensor
from tfsmith.ir.types import SCALAR
from tfsmith.ops import COMPARISONS, PASSES_ON
from tfsmith.ops.shapes import flat_values
from tfsmith.ops.sizes import Size, times
from tfsmith.patterns.algebra import (
    ONE,
    ZERO,
    Algebra,
    Arg,
    Atom,
    Label,
    Product,
    Reading,
    Value,
    class_of,
    constant_of,
    scaled,
)
from tfsmith.patterns.parts import join, pack, take_part

if TYPE_CHECKING:
    from tfsmith.patterns.raised import Raised

__all__ = ["AT_NEED", "RULES", "TRUTHS"]

_FLOATS = ("float16", "bfloat16", "float32", "float64")
_INTEGERS = ("bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_NUMBERS = (*_FLOATS, *_INTEGERS)
_HALVES = _FLOATS[:2]
_FAR = 8
"""So many nodes are followed to see where a size comes from."""
_CONSTANTS = (0.044715, sqrt(2 / pi), sqrt(0.5), sqrt(2.0))
"""Numbers of GELUs, which half precision rounds."""

# The rules, by op. Each gives the reading of the node's first output, or None where it cannot say.

_Rule: TypeAlias = "Callable[[Raised, Node, Sequence[Endpoint]], Reading | None]"


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
    if raised.is_rounded and tensor.dtype.name in _HALVES:
        number = next((one for one in _CONSTANTS if _rounded(one, tensor.dtype.name) == number), number)
    if not isfinite(number):
        return Reading(
            scaled(raised.algebra.single(("infinity",), ()), -1 if number < 0 else 1), raised.algebra.axes(sizes)
        )
    return Reading((((), number),) if number else ZERO, raised.algebra.axes(sizes))


def _rounded(number: float, kind: str) -> float:
    """A number as half precision holds it."""
    if kind == "float16":
        return float(unpack("<e", pack_bytes("<e", number))[0])
    (bits,) = unpack("<I", pack_bytes("<f", number))
    return float(unpack("<f", pack_bytes("<I", (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000))[0])


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
    if raised.is_rounded and source.name in _FLOATS and target.name in _FLOATS:
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


def _divide_or_zero(algebra: Algebra, one: Value, other: Value) -> Value | None:
    """A quotient that is 0 where the divisor is: a quotient like any other only if that is never 0."""
    number = constant_of(other)
    if number is not None:
        return scaled(one, 1 / number) if number else ZERO
    if all(_is_never_zero(algebra, atom) for product, _ in other for atom, _ in product) and len(other) == 1:
        return _divide(algebra, one, other)
    return algebra.apply("divnonan", one, other)


def _is_never_zero(algebra: Algebra, atom: Atom) -> bool:
    """Whether an atom is a sum of squares and a number, an exponential, or a sum of such."""
    head = algebra.head(atom)
    if head[0] == "sum":
        terms = dict(algebra.inside(atom))
        least = terms.pop((), 0.0)
        return least > 0 and all(number > 0 and _is_positive(algebra, product) for product, number in terms.items())
    if head[0] in ("mean", "total"):
        axes = tuple((at,) for at in range(len(algebra.class_sizes(class_of(head)))))
        inside = algebra.value_of(class_of(head), axes)
        return all(number > 0 and all(algebra.head(one)[0] == "exp" for one, _ in each) for each, number in inside)
    return head[0] == "exp"


def _squared_difference(algebra: Algebra, one: Value, other: Value) -> Value | None:
    return algebra.power(algebra.add(one, scaled(other, -1)), 2)


def _power(algebra: Algebra, one: Value, other: Value) -> Value | None:
    exponent = constant_of(other)
    return None if exponent is None else algebra.power(one, exponent)


def _maximum(algebra: Algebra, one: Value, other: Value) -> Value:
    """A sum of squares and a constant is at least the constant; what is at least zero is a ReLU."""
    numbers = constant_of(one), constant_of(other)
    if numbers[0] is not None and numbers[1] is not None:
        return scaled(ONE, max(numbers[0], numbers[1]))
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
    wanted: Sequence[Size | Arg] = sizes
    if sum(size is None for size in sizes) > 1:
        by_axes = _by_axes(raised, inputs[1], _FAR)
        wanted = (
            sizes
            if len(by_axes) != len(sizes)
            else [s if s is not None else a for s, a in zip(sizes, by_axes, strict=True)]
        )
    found = raised.algebra.regroup(x.axes, wanted)
    return None if found is None else Reading(raised.algebra.put(x.value, found[1]), found[0])


def _by_axes(raised: Raised, shape: Endpoint, far: int) -> list[Arg | None]:
    """For each element of a shape the axis that is as long, where it was taken from a tensor's own shape."""
    node = raised.body.by_name.get(shape.node)
    if node is None or not far:
        return []
    inputs = raised.inputs(node)
    if node.op in PASSES_ON or node.op == "Cast":
        return _by_axes(raised, inputs[0], far - 1)
    if node.op == "Const":
        return [None] * len(raised.integers(shape) or ())
    if node.op == "Shape":
        reading = raised.reading(inputs[0])
        return [] if reading is None else [arg or None for arg in reading.axes]
    if node.op in ("Pack", "ConcatV2"):
        parts = [_by_axes(raised, one, far - 1) or [None] for one in inputs[: len(inputs) - (node.op == "ConcatV2")]]
        return [one for part in parts for one in part]
    whole = _by_axes(raised, inputs[0], far - 1) if node.op in ("GatherV2", "StridedSlice", "Unpack") else []
    if not whole:
        return []
    if node.op == "Unpack":
        return whole[shape.output : shape.output + 1]
    first = _numbers(raised, inputs[1])
    if node.op == "GatherV2":
        return [] if first is None else [whole[at] for at in first if -len(whole) <= at < len(whole)]
    is_one = node.get("shrink_axis_mask") == 1 and first is not None and len(first) == 1
    return [whole[first[0]]] if is_one and first and -len(whole) <= first[0] < len(whole) else []


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
        own = raised.algebra.extent(axes[at])
        if not axes[at] and size != 1:
            axes[at] = (raised.algebra.label(size),)
        elif size != own and None not in (size, own):
            return None
    return Reading(x.value, tuple(axes))


def _tile(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """Repeated as a whole: the repeats are the slower part of an axis, and no value changes."""
    x, counts = raised.reading(inputs[0]), raised.integers(inputs[1])
    if x is None or counts is None or len(counts) != len(x.axes):
        return _broadcast(raised, node, inputs)
    axes: list[Arg] = []
    for arg, count in zip(x.axes, counts, strict=True):
        axes.append(arg if count == 1 else (raised.algebra.label(count), *arg))
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
    """A slice that adds axes, takes all of each, or a run of an axis whose size is known."""
    x = raised.reading(inputs[0])
    begins, ends, steps = raised.integers(inputs[1]), raised.integers(inputs[2]), _numbers(raised, inputs[3])
    known = _known_integer(raised, Endpoint(node.name, 0))
    if known is not None:
        return known
    if x is None or begins is None or steps is None:
        return None
    masks = {key: int(node.get(f"{key}_mask", 0)) for key in ("begin", "end", "ellipsis", "new_axis", "shrink_axis")}
    done, left = 0, len(x.axes)  # axes of what is read so far: those before `done` are final
    named = sum(1 for at in range(len(begins)) if not any(masks[key] >> at & 1 for key in ("ellipsis", "new_axis")))
    for at in range(len(begins)):
        if masks["ellipsis"] >> at & 1:
            done, left = done + max(left - named, 0), min(left, named)
        elif masks["new_axis"] >> at & 1:
            x, done = Reading(x.value, (*x.axes[:done], (), *x.axes[done:])), done + 1
        else:
            named, left = named - 1, left - 1
            if left < 0:
                return None
            is_one = bool(masks["shrink_axis"] >> at & 1)
            begin: Size = 0 if masks["begin"] >> at & 1 and not is_one else begins[at]
            end: Size = -1 if masks["end"] >> at & 1 or ends is None else ends[at]
            x = _run(raised, x, done, begin, None if masks["end"] >> at & 1 else (end,), steps[at], is_one=is_one)
            if x is None:
                return None
            done += not is_one
    return x


def _run(
    raised: Raised, x: Reading, axis: int, begin: Size, end: tuple[Size] | None, step: int, *, is_one: bool
) -> Reading | None:
    """A run of an axis; without the axis, if only one element is taken. No end is the end of the axis."""
    size = raised.algebra.extent(x.axes[axis])
    if not isinstance(begin, int) or (step != 1 and not is_one):
        return None
    if begin == 0 and (end is None or (end[0] is not None and end[0] == size)) and not is_one:
        return x
    if not isinstance(size, int):
        return None
    start = begin + size if begin < 0 else begin
    if is_one:
        found = take_part(raised, x, axis, start, 1)
        return None if found is None else Reading(found.value, (*found.axes[:axis], *found.axes[axis + 1 :]))
    last = size if end is None else end[0]
    if not isinstance(last, int):
        return None
    last = min(last + size if last < 0 else last, size)
    return take_part(raised, x, axis, start, last - start)


def _slice_by_size(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    x, begins, sizes = raised.reading(inputs[0]), raised.integers(inputs[1]), raised.integers(inputs[2])
    if x is None or begins is None or sizes is None or not len(begins) == len(sizes) == len(x.axes):
        return None
    for axis, (begin, size) in enumerate(zip(begins, sizes, strict=True)):
        end: tuple[Size] | None = None
        if size != -1:
            if not isinstance(begin, int) or size is None or (begin and not isinstance(size, int)):
                return None
            end = (begin + size if isinstance(size, int) else size,)
        found = _run(raised, x, axis, begin, end, 1, is_one=False)
        if found is None:
            return None
        x = found
    return x


def _gather(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """One element of an axis, whose number is known."""
    known = _known_integer(raised, Endpoint(node.name, 0))
    if known is not None:
        return known
    at, axes = _numbers(raised, inputs[1]), _numbers(raised, inputs[2])
    if not at or not axes or len(at) != 1 or raised.sizes(inputs[1]) != () or node.get("batch_dims"):
        return None
    x = raised.reading(inputs[0])
    if x is None or not x.axes or raised.is_table(inputs[0]):
        return None
    return _run(raised, x, axes[0] % len(x.axes), at[0], None, 1, is_one=True)


def _pack(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    return _known_integer(raised, Endpoint(node.name, 0)) or pack(raised, node, inputs)


_TURNED = (("transpose_a", "adj_x"), ("transpose_b", "adj_y"))
"""The attributes of products that say whether rows and columns of an input are exchanged."""


def _product(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    one, other = raised.reading(inputs[0]), raised.reading(inputs[1])
    if one is None or other is None or min(len(one.axes), len(other.axes)) < 2:
        return None
    turned = [bool(node.get(plain) or node.get(batched)) for plain, batched in _TURNED]
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
    if node.get("filter_format", b"HWIO") != b"HWIO":  # of the fused op, where it may be another
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


def _for_all(combine: Callable[[Algebra, Value, Value], Value]) -> _Rule:
    """Whether all, or any, of several tensors are true that were joined or stacked to say so, as Keras does."""

    def rule(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
        at, joined = _numbers(raised, inputs[1]), raised.body.by_name.get(inputs[0].node)
        if joined is None or joined.op not in ("ConcatV2", "Pack") or at is None or len(at) != 1:
            return None
        is_pack = joined.op == "Pack"
        given = list(raised.inputs(joined))
        axis = [int(joined.get("axis", 0))] if is_pack else _numbers(raised, given.pop())
        readings = [raised.reading(tensor) for tensor in given]
        found: Reading | None = None
        for one in readings:
            if one is None or not axis:
                return None
            rank = len(one.axes) + is_pack
            if not rank or axis[0] % rank != at[0] % rank or (not is_pack and one.axes[at[0] % rank]):
                return None
            if not is_pack:
                one = Reading(one.value, (*one.axes[: at[0] % rank], *one.axes[at[0] % rank + 1 :]))
            both = (one.value, one.value, one.axes) if found is None else raised.aligned(found, one)
            if both is None:
                return None
            found = Reading(combine(raised.algebra, both[0], both[1]), both[2])
        if found is None or not node.get("keep_dims"):
            return found
        place = at[0] % (len(found.axes) + 1)
        return Reading(found.value, (*found.axes[:place], (), *found.axes[place:]))

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
    epsilon = float(node.get("epsilon", 1e-4))
    factor = algebra.power(algebra.add(variance, (((), epsilon),)), -0.5)
    if factor is None:
        return None
    if not in_training:  # as tf.nn.batch_normalization spells it
        slope = algebra.multiply(factor, scale)
        shift = algebra.add(offset, scaled(algebra.multiply(mean, slope), -1))
        return Reading(algebra.add(algebra.multiply(x.value, slope), shift), x.axes)
    centered = algebra.add(x.value, scaled(mean, -1))
    return Reading(algebra.add(algebra.multiply(algebra.multiply(centered, factor), scale), offset), x.axes)


def _layer_norm(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """oneDNN's layer norm, over the last axis."""
    x, scale, offset = (raised.reading(tensor) for tensor in inputs[:3])
    if x is None or scale is None or offset is None or not x.axes or not x.axes[-1]:
        return None
    normal = _normalized(raised.algebra, x.value, frozenset(x.axes[-1]), float(node.get("epsilon", 1e-3)))
    times_scale = None if normal is None else raised.aligned(Reading(normal, x.axes), scale)
    if times_scale is None:
        return None
    found = Reading(raised.algebra.multiply(times_scale[0], times_scale[1]), times_scale[2])
    both = raised.aligned(found, offset)
    return None if both is None else Reading(raised.algebra.add(both[0], both[1]), both[2])


def _normalized(algebra: Algebra, value: Value, labels: frozenset[Label], epsilon: float) -> Value | None:
    """A value less its mean over labels, divided by the root of its variance."""
    count = times(algebra.size(label) for label in labels)
    if not isinstance(count, int) or not count:
        return None
    centered = algebra.add(value, scaled(algebra.reduce(value, labels), -1 / count))
    square = algebra.power(centered, 2)
    if square is None:
        return None
    variance = scaled(algebra.reduce(square, labels), 1 / count)
    factor = algebra.power(algebra.add(variance, (((), epsilon),)), -0.5)
    return None if factor is None else algebra.multiply(centered, factor)


def _fused(first: _Rule) -> _Rule:
    """An op with what grappler put behind it: a bias, something added, an activation."""

    def rule(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
        found, more = first(raised, node, inputs), list(inputs[2:])
        for name in (one.decode("ascii", "replace") for one in node.get("fused_ops", ())):
            if found is None:
                return None
            if name in _FUSED_PAIRS:
                other = raised.reading(more.pop(0)) if more else None
                both = None if other is None else raised.aligned(found, other)
                if both is None or (name == "BiasAdd" and node.get("data_format", b"NHWC") != b"NHWC"):
                    return None
                value = _FUSED_PAIRS[name](raised.algebra, both[0], both[1])
                found = Reading(value, both[2])
            elif name in _FUSED_FUNCTIONS:
                found = Reading(_FUSED_FUNCTIONS[name](raised.algebra, found.value), found.axes)
            else:
                return None
        return None if more else found

    return rule


def _fused_batch_norm(raised: Raised, node: Node, inputs: Sequence[Endpoint]) -> Reading | None:
    """A batch norm with something added, and a ReLU behind it."""
    found = _batch_norm(raised, node, inputs[:5])
    for tensor in inputs[5:]:
        other = raised.reading(tensor)
        both = None if found is None or other is None else raised.aligned(found, other)
        if both is None:
            return None
        found = Reading(raised.algebra.add(both[0], both[1]), both[2])
    mode = node.get("activation_mode", b"Identity")
    if found is None or mode == b"Identity":
        return found
    return Reading(raised.algebra.apply("relu", found.value), found.axes) if mode == b"Relu" else None


_FUSED_PAIRS: Mapping[str, Callable[[Algebra, Value, Value], Value]] = MappingProxyType(
    {"BiasAdd": _add, "Add": _add, "Mul": _multiply}
)
_FUSED_FUNCTIONS: Mapping[str, Callable[[Algebra, Value], Value]] = MappingProxyType(
    {
        "GeluExact": lambda algebra, value: _gelu(algebra, value, "erf"),
        "GeluApproximate": lambda algebra, value: _gelu(algebra, value, "tanh"),
        "Relu": lambda algebra, value: algebra.apply("relu", value),
        "Relu6": lambda algebra, value: algebra.apply("relu6", value),
        "Elu": lambda algebra, value: algebra.apply("elu", value),
        "Tanh": lambda algebra, value: algebra.apply("tanh", value),
        "Sigmoid": lambda algebra, value: algebra.apply("sigmoid", value),
    }
)


def _gelu(algebra: Algebra, value: Value, kind: str) -> Value:
    number, axes = algebra.intern(value)
    return algebra.single(("gelu", number, kind), axes)


_FUNCTIONS = (
    *("Erf", "Tanh", "Sigmoid", "Relu", "Relu6", "Elu", "Selu", "Log", "Log1p", "Expm1", "Abs", "Sign", "Floor"),
    *("Ceil", "Round", "Sin", "Cos", "Softplus", "Softsign", "IsNan", "IsInf", "IsFinite"),
)
TRUTHS = frozenset(name.lower() for name in (*COMPARISONS, "IsNan", "IsInf", "IsFinite"))
AT_NEED = frozenset(("Const", "Shape", "Size", "Rank", "Prod", "GatherV2", "Pack"))
"""What needs no other reading, and is seldom asked for."""
RULES: Mapping[str, _Rule] = MappingProxyType(
    dict.fromkeys((*PASSES_ON, "CheckNumerics", "EnsureShape"), _same)
    | {name: _function(name.lower()) for name in _FUNCTIONS}
    | {name: _together(name.lower()) for name in (*COMPARISONS, "Minimum")}
    | dict.fromkeys(("Add", "AddV2"), _binary(_add))
    | dict.fromkeys(("RealDiv", "Div"), _binary(_divide))
    | dict.fromkeys(("Mul", "MulNoNan"), _binary(_multiply))
    | dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _product)
    | dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _batch_norm)
    | dict.fromkeys(("Select", "SelectV2"), _select)
    | dict.fromkeys(("Shape", "Size", "Rank", "Prod"), _integer)
    | {
        "Const": _constant,
        "Cast": _cast,
        "Sub": _binary(_subtract),
        "DivNoNan": _binary(_divide_or_zero),
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
        "BroadcastTo": _broadcast,
        "Tile": _tile,
        "Fill": _fill,
        "OnesLike": _filled(ONE),
        "ZerosLike": _filled(ZERO),
        "StridedSlice": _slice,
        "Slice": _slice_by_size,
        "GatherV2": _gather,
        "ConcatV2": join,
        "Pack": _pack,
        "_FusedMatMul": _fused(_product),
        "_MklFusedBatchMatMulV2": _fused(_product),
        "_FusedConv2D": _fused(_convolution),
        "_FusedBatchNormEx": _fused_batch_norm,
        "_MklLayerNorm": _layer_norm,
        "Einsum": _einsum,
        "Conv2D": _convolution,
        "Sum": _reduced("sum"),
        "Mean": _reduced("mean"),
        "Max": _reduced("max"),
        "Min": _reduced("min"),
        "All": _for_all(_and),
        "Any": _for_all(_or),
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
    }
)
