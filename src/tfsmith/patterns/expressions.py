"""The expressions of a recipe, such as `dim(kernel, 0) // attr(split, num_split)`: read, computed, typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tfsmith.errors import TfsmithError, UnsupportedError, UsageError
from tfsmith.ir.node import Attr, attr
from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.limits import MAX_DEPTH
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FORMS", "Call", "List", "Literal", "Name", "Sum", "Test", "parse_expression", "Facts", "evaluate", "typed"]

_TOKEN = re.compile(
    r"\s*(?:(?P<float>[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)|(?P<int>[0-9]+)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<name>[A-Za-z_][A-Za-z0-9_.]*(?::[0-9]+)?)|(?P<sign>//|[=!<>]=|[-+*/(),\[\]<>]))"
)
_MOST_TEXT = 2000
_MOST_DIGITS = 18
FORMS = "write numbers, text, + - * // / and functions such as dim(kernel, 0) or attr(mean, T)"
"""What an expression may consist of, in words."""


@record
class Literal:
    """A value that is written out."""

    value: Any


@record
class Name:
    """A name that is an argument of a function."""

    text: str


@record
class Call:
    """A function and its arguments."""

    function: str
    args: tuple[Any, ...]


@record
class Sum:
    """Two values and the sign between them."""

    sign: str
    left: Any
    right: Any


@record
class Test:
    """Two values that are compared."""

    sign: str
    left: Any
    right: Any


@record
class List:
    """Values in brackets."""

    items: tuple[Any, ...]


def parse_expression(text: str) -> object:
    """Reads an expression; what it gives is for `evaluate` alone.

    Raises:
        UsageError: It is no expression; the error says at which character.
    """
    return _Parser(text).parse()


class _Parser:
    """Reads one expression from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > _MOST_TEXT:
            raise UsageError(f"an expression has {len(text)} characters", remedy=f"the most is {_MOST_TEXT}")
        self._tokens: list[tuple[str, str, int]] = []
        at = 0
        while at < len(text.rstrip()):
            found = _TOKEN.match(text, at)
            if found is None or found.lastgroup is None:
                raise self._fault(at)
            self._tokens.append((found.lastgroup, found[found.lastgroup], found.start(found.lastgroup)))
            at = found.end()
        self._tokens.append(("end", "", len(text)))
        self._at = 0
        self._depth = 0

    def parse(self) -> Any:
        found = self._sum()
        sign = self._take(*_COMPARISONS)
        if sign is not None:
            found = Test(sign, found, self._sum())
        if self._tokens[self._at][0] != "end":
            raise self._fault(self._tokens[self._at][2])
        return found

    def _fault(self, at: int) -> UsageError:
        what = f"{self._text[:100]!r} is no expression: it goes wrong at {self._text[at : at + 20]!r}"
        return UsageError(what, remedy=FORMS)

    def _take(self, *signs: str) -> str | None:
        kind, text, _ = self._tokens[self._at]
        if kind != "sign" or text not in signs:
            return None
        self._at += 1
        return text

    def _need(self, sign: str) -> None:
        if self._take(sign) is None:
            raise self._fault(self._tokens[self._at][2])

    def _sum(self) -> Any:
        left = self._product()
        while (sign := self._take("+", "-")) is not None:
            left = Sum(sign, left, self._product())
        return left

    def _product(self) -> Any:
        left = self._unary()
        while (sign := self._take("*", "//", "/")) is not None:
            left = Sum(sign, left, self._unary())
        return left

    def _unary(self) -> Any:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault(self._tokens[self._at][2])
        try:
            return Sum("-", Literal(0), self._unary()) if self._take("-") else self._value()
        finally:
            self._depth -= 1

    def _value(self) -> Any:
        kind, text, at = self._tokens[self._at]
        if self._take("("):
            inner = self._sum()
            self._need(")")
            return inner
        if self._take("["):
            return List(self._items("]", self._sum))
        self._at += 1
        if kind == "int" and len(text) <= _MOST_DIGITS:
            return Literal(int(text))
        if kind == "float":
            return Literal(float(text))
        if kind == "text":
            return Literal(text[1:-1])
        if kind == "name" and text in ("true", "false"):
            return Literal(text == "true")
        if kind == "name" and self._take("("):
            return Call(text, self._items(")", self._argument))
        raise self._fault(at)

    def _items(self, end: str, item: Callable[[], Any]) -> tuple[Any, ...]:
        if self._take(end):
            return ()
        found = [item()]
        while self._take(","):
            found.append(item())
        self._need(end)
        return tuple(found)

    def _argument(self) -> Any:
        """A plain word is a name, unless it is the name of a function that is called."""
        (kind, text, _), (_, following, _) = (
            self._tokens[self._at],
            self._tokens[min(self._at + 1, len(self._tokens) - 1)],
        )
        if kind == "name" and following != "(" and text not in ("true", "false"):
            self._at += 1
            return Name(text)
        return self._sum()


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
    {"==": eq, "!=": ne, "<=": le, ">=": ge, "<": lt, ">": gt}
)
_SMALL = 1 << 20
"""Bytes of a constant of which `value` reads an element."""


class Facts(Protocol):
    """What an expression may ask about a match. `x` is an input of the query or a wanted node, as the recipe names it.

    Each raises UsageError for a name that the recipe does not have, and UnsupportedError for what is not known.
    """

    def shape(self, x: str) -> Shape:
        """The shape of a tensor, as far as it is known."""
        ...

    def dtype(self, x: str) -> DType | None:
        """The type of a tensor."""
        ...

    def constant(self, x: str) -> Tensor | None:
        """The value of a tensor that is a constant."""
        ...

    def attr(self, node: str, name: str) -> Attr | None:
        """An attribute of a matched node, or what it means that it is left out."""
        ...

    @property
    def units(self) -> int:
        """How often the unit repeats in this match."""
        ...


def evaluate(text: str, facts: Facts) -> Any:
    """Computes an expression: a number, text, bool, DType, Shape, list of these, or an `Attr` that is copied whole.

    Raises:
        UsageError: It is no expression, or asks for something that the recipe does not have.
        UnsupportedError: What it asks for is not known for this match.
    """
    return _Evaluator(text, facts).value(parse_expression(text))


class _Evaluator:
    """Computes one expression for one match."""

    def __init__(self, text: str, facts: Facts) -> None:
        self._text = text
        self._facts = facts

    def value(self, tree: Any) -> Any:
        if isinstance(tree, Literal):
            return tree.value
        if isinstance(tree, List):
            return tuple(_plain(self.value(item)) for item in tree.items)
        if isinstance(tree, Sum):
            return self._sum(tree)
        if isinstance(tree, Test):
            return self._test(tree)
        if isinstance(tree, Name):
            raise UsageError(f"{tree.text!r} stands where a value is wanted", remedy=FORMS)
        function = _FUNCTIONS.get(tree.function)
        if function is None:
            what = f"there is no function {tree.function!r}"
            raise UsageError(what, remedy=f"the functions are {', '.join(sorted(_FUNCTIONS))}")
        return function(self, tree.args)

    def _sum(self, tree: Sum) -> int | float:
        # Long rows of sums lean to the left, so they are walked, not recursed into.
        rest = []
        left: Any = tree
        while isinstance(left, Sum):
            rest.append((left.sign, left.right))
            left = left.left
        total = self._number(left)
        for sign, right in reversed(rest):
            total = self._bounded(self._apply(sign, total, self._number(right)))
        return total

    def _test(self, tree: Test) -> bool:
        left, right = _plain(self.value(tree.left)), _plain(self.value(tree.right))
        if tree.sign in ("==", "!="):
            is_same = (left.name if isinstance(left, DType) else left) == right
            return is_same if tree.sign == "==" else not is_same
        if any(isinstance(one, bool) or not isinstance(one, (int, float)) for one in (left, right)):
            raise UsageError(f"{_shown(left)} {tree.sign} {_shown(right)} compares no numbers", remedy=FORMS)
        return _COMPARISONS[tree.sign](left, right)

    def _bounded(self, number: int | float) -> int | float:
        if not abs(number) <= 2**63:
            raise UnsupportedError(f"{self._text[:100]!r} grows out of all bounds")
        return number

    def _apply(self, sign: str, left: int | float, right: int | float) -> int | float:
        if sign in ("/", "//") and right == 0:
            raise UnsupportedError(f"{self._text!r} divides by zero")
        if sign == "+":
            return left + right
        if sign == "-":
            return left - right
        if sign == "*":
            return left * right
        return left / right if sign == "/" else left // right

    def _number(self, tree: Any) -> int | float:
        found = _plain(self.value(tree))
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise UsageError(f"{_shown(found)} is no number, and cannot be part of a sum", remedy=FORMS)
        return self._bounded(found)

    def name(self, args: Sequence[Any], number: int, function: str) -> str:
        """An argument that is a name."""
        found = args[number] if number < len(args) else None
        if isinstance(found, Name):
            return found.text
        if isinstance(found, Literal) and isinstance(found.value, str):
            return found.value
        raise UsageError(f"{function} wants a name as argument {number + 1}", remedy=FORMS)

    def integer(self, tree: Any, function: str) -> int:
        """An argument that is a whole number."""
        found = _plain(self.value(tree))
        if isinstance(found, bool) or not isinstance(found, int):
            raise UsageError(f"{function} wants a whole number, and has {_shown(found)}", remedy=FORMS)
        return found

    def known_shape(self, x: str) -> tuple[int, ...]:
        """The sizes of a tensor, some of which may be unknown; but not how many there are."""
        dims = self._facts.shape(x).dims
        if dims is None:
            raise UnsupportedError(f"the shape of {x!r} is not known")
        return dims

    def dim(self, args: Sequence[Any]) -> int:
        x = self.name(args, 0, "dim")
        _expect(args, 3 if len(args) == 3 else 2, "dim(x, axis)")
        axis, dims = self.integer(args[1], "dim"), self._facts.shape(x).dims
        if len(args) == 3 and (dims is None or not -len(dims) <= axis < len(dims) or dims[axis] < 0):
            return self.integer(args[2], "dim")
        dims = self.known_shape(x)
        if not -len(dims) <= axis < len(dims):
            raise UnsupportedError(f"{x!r} has the shape {Shape(dims)}, so it has no axis {axis}")
        if dims[axis] < 0:
            raise UnsupportedError(f"axis {axis} of {x!r}, whose shape is {Shape(dims)}, is not known")
        return dims[axis]

    def rank(self, args: Sequence[Any]) -> int:
        _expect(args, 1, "rank(x)")
        return len(self.known_shape(self.name(args, 0, "rank")))

    def size(self, args: Sequence[Any]) -> int:
        _expect(args, 1, "size(x)")
        x = self.name(args, 0, "size")
        elements = self._facts.shape(x).elements
        if elements is None:
            raise UnsupportedError(f"{x!r} has the shape {self._facts.shape(x)}, so its size is not known")
        return elements

    def shape(self, args: Sequence[Any]) -> Shape:
        _expect(args, 1, "shape(x)")
        return self._facts.shape(self.name(args, 0, "shape"))

    def dtype(self, args: Sequence[Any]) -> DType:
        _expect(args, 1, "dtype(x)")
        x = self.name(args, 0, "dtype")
        found = self._facts.dtype(x)
        if found is None:
            raise UnsupportedError(f"the type of {x!r} is not known")
        return found

    def attr(self, args: Sequence[Any]) -> Attr:
        _expect(args, 2, "attr(node, Name)")
        node, name = self.name(args, 0, "attr"), self.name(args, 1, "attr")
        found = self._facts.attr(node, name)
        if found is None:
            raise UnsupportedError(f"node {node!r} has no attribute {name!r}")
        return found

    def element(self, args: Sequence[Any]) -> Any:
        x = self.name(args, 0, "value")
        at = tuple(self.integer(arg, "value") for arg in args[1:])
        found = self._facts.constant(x)
        if found is None:
            raise UnsupportedError(f"{x!r} is no constant")
        if found.nbytes > _SMALL:
            raise UnsupportedError(f"{x!r} has {found.nbytes} bytes, which is too much to look for a value in")
        array: NDArray[Any] = found.numpy()
        if not at and array.size == 1:
            return array.reshape(-1)[0].item() if array.dtype.kind != "O" else array.reshape(-1)[0]
        if len(at) != array.ndim or any(not -dim <= index < dim for index, dim in zip(at, array.shape, strict=False)):
            what = f"{x!r} has the shape {found.shape}, in which there is no element {list(at)}"
            raise UnsupportedError(what, remedy="give an index for each axis: value(x, 0, 1)")
        item = array[at]
        return item.item() if hasattr(item, "item") else item

    def units(self, args: Sequence[Any]) -> int:
        _expect(args, 0, "units()")
        return self._facts.units

    def count(self, args: Sequence[Any]) -> int:
        for number in range(len(args)):
            self.name(args, number, "count")
        return self._facts.units * len(args)


_FUNCTIONS: Mapping[str, Callable[[_Evaluator, Sequence[Any]], Any]] = MappingProxyType(
    {
        "attr": _Evaluator.attr,
        "count": _Evaluator.count,
        "dim": _Evaluator.dim,
        "dtype": _Evaluator.dtype,
        "rank": _Evaluator.rank,
        "shape": _Evaluator.shape,
        "size": _Evaluator.size,
        "units": _Evaluator.units,
        "value": _Evaluator.element,
    }
)


def _expect(args: Sequence[Any], count: int, form: str) -> None:
    if len(args) != count:
        raise UsageError(f"{form} has {len(args)} arguments", remedy=f"write {form}")


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Attr) else value


def _shown(value: Any) -> str:
    return repr(value)[:80]


def typed(value: Any, kind: str, dtype: DType | None = None) -> Attr:
    """A computed value as an attribute of this kind ("" where the op's definition is not known: the value's own).

    Args:
        value: What `evaluate` gave.
        kind: "int", "float", "type", ..., in the words of OpDef.
        dtype: For a tensor: its type, which the node's own attribute `dtype` says.

    Raises:
        UsageError: It cannot be that.
    """
    if isinstance(value, Attr) and (not kind or value.kind in (kind, "placeholder")):
        return value
    plain = value.value if isinstance(value, Attr) else value
    if not kind:
        return attr(plain)
    if kind == "tensor":
        return Attr("tensor", _tensor(plain, dtype))
    if kind.startswith("list("):
        items = plain.dims if isinstance(plain, Shape) else plain
        if not isinstance(items, tuple):
            raise UsageError(f"{repr(plain)[:80]} is no {kind}", remedy="write [a, b]")
        found = tuple(_single(item, kind[5:-1]) for item in items)
        return Attr.of_kind(kind if found else "list", found)
    return Attr.of_kind(kind, _single(plain, kind))


def _single(plain: Any, kind: str) -> Any:
    convert = _CONVERSIONS.get(kind)
    found = None if convert is None else convert(plain)
    if found is None:
        raise UsageError(f"{repr(plain)[:80]} is no {kind}", remedy=f"the attribute must be of kind {kind}")
    return found


def _to_int(plain: Any) -> int | None:
    if isinstance(plain, float) and plain.is_integer():
        plain = int(plain)
    return plain if isinstance(plain, int) and not isinstance(plain, bool) and abs(plain) < 2**63 else None


def _to_float(plain: Any) -> float | None:
    return float(plain) if isinstance(plain, (int, float)) and not isinstance(plain, bool) else None


def _to_bool(plain: Any) -> bool | None:
    return bool(plain) if isinstance(plain, bool) or (isinstance(plain, int) and plain in (0, 1)) else None


def _to_bytes(plain: Any) -> bytes | None:
    if isinstance(plain, str):
        return plain.encode()
    return plain if isinstance(plain, bytes) else None


def _to_type(plain: Any) -> DType | None:
    if isinstance(plain, DType):
        return plain.base
    try:
        return dtype_named(plain) if isinstance(plain, str) else None
    except TfsmithError:
        return None


def _to_shape(plain: Any) -> Shape | None:
    if isinstance(plain, Shape):
        return plain
    dims = [_to_int(item) for item in plain] if isinstance(plain, tuple) else [None]
    return None if None in dims else Shape.of(dims)


_CONVERSIONS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "int": _to_int,
        "float": _to_float,
        "bool": _to_bool,
        "string": _to_bytes,
        "type": _to_type,
        "shape": _to_shape,
    }
)


def _tensor(plain: Any, dtype: DType | None) -> Tensor:
    """A constant of a number or a row of numbers."""
    values = list(plain.dims or ()) if isinstance(plain, Shape) else plain
    items = values if isinstance(values, (tuple, list)) else (values,)
    if not all(isinstance(item, (bool, int, float)) for item in items):
        raise UsageError(f"{repr(plain)[:80]} is no number or row of numbers", remedy="write value(x) or [a, b]")
    whole = all(isinstance(item, int) for item in items)
    kind = dtype or dtype_named("int32" if whole else "float32")
    try:
        if not kind.itemsize:
            raise ValueError
        return ArrayTensor.of(values, kind)
    except (ValueError, OverflowError) as error:
        what = f"a constant of type {kind} cannot hold {repr(plain)[:80]}"
        raise UsageError(what, remedy="give the target another `dtype`") from error
