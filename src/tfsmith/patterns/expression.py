"""Computes the expressions of a recipe for a match. What they may say: `tfsmith.patterns.syntax`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import eq, ge, gt, le, lt, ne
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tfsmith.errors import UnsupportedError, UsageError
from tfsmith.ir.attr import Attr
from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.patterns.syntax import FORMS, List, Literal, Name, Sum, Test, parse_expression

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Facts", "evaluate", "parse_expression"]

_TESTS: Mapping[str, Callable[[Any, Any], bool]] = MappingProxyType(
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
        return _TESTS[tree.sign](left, right)

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
