"""Reads the expressions of a recipe, such as `dim(kernel, 0) // attr(split, num_split)`.

    test    = sum [ ("==" | "!=" | "<=" | ">=" | "<" | ">") sum ]
    sum     = product { ("+" | "-") product }
    product = unary { ("*" | "//" | "/") unary }
    unary   = "-" unary | value
    value   = number | "text" | true | false | "(" sum ")" | "[" [ sum { "," sum } ] "]" | name "(" [ arguments ] ")"

Functions: `dim(x, axis)`, `rank(x)`, `size(x)`, `shape(x)` and `dtype(x)` of a tensor (`dim(x, axis, 128)`: 128 where
the file does not say it); `attr(node, Name)`;
`value(x, index...)`, an element of a small constant; `units()`, how often the unit of the recipe repeats, and
`count(a, b)`, how many inputs `each(a, b)` stands for. `x` is an input of the query or a wanted node (`node:1` for
another output than the first); a name that is no plain word is written in quotes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tfsmith.errors import UsageError
from tfsmith.limits import MAX_DEPTH
from tfsmith.records import record

__all__ = ["FORMS", "Call", "List", "Literal", "Name", "Sum", "Test", "parse_expression"]

_TOKEN = re.compile(
    r"\s*(?:(?P<float>[0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)|(?P<int>[0-9]+)"
    r"|(?P<text>\"[^\"]*\"|'[^']*')|(?P<name>[A-Za-z_][A-Za-z0-9_.]*(?::[0-9]+)?)|(?P<sign>//|[=!<>]=|[-+*/(),\[\]<>]))"
)
_TESTS = ("==", "!=", "<=", ">=", "<", ">")
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
        sign = self._take(*_TESTS)
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
