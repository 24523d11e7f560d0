"""`Attr`: one attribute of a node, as a plain value with its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfsmith.errors import UsageError
from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.records import FrozenDict, Immutable, record

__all__ = ["Attr", "Func", "attr"]


@record
class Func(Immutable):
    """A reference to a function, with the attributes that bind its type parameters."""

    name: str
    attrs: Mapping[str, Attr]

    def __post_init__(self) -> None:
        object.__setattr__(self, "attrs", FrozenDict(self.attrs))


@record
class Attr(Immutable):
    """A value and its kind, in the words of OpDef.

    Attributes:
        kind: "string", "int", "float", "bool", "type", "shape", "tensor", "func", "placeholder", one of these in
            "list(...)", "list" for an empty list (which carries no kind), or "none" for an attribute without value.
        value: `bytes`, `int`, `float`, `bool`, `DType`, `Shape`, `Tensor`, `Func`, `str` for a placeholder, a tuple of
            them for a list, or None.
    """

    kind: str
    value: Any


def attr(value: Any) -> Attr:
    """An attribute from a plain value, its kind told by its Python type; text is stored as UTF-8.

    Raises:
        UsageError: No attribute can hold this value.
    """
    if isinstance(value, Attr):
        return value
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        items = [attr(item) for item in value]
        kinds = {item.kind for item in items}
        if len(kinds) > 1:
            raise UsageError(f"a list attribute cannot mix {' and '.join(sorted(kinds))}", remedy="use one kind")
        return Attr(f"list({kinds.pop()})" if kinds else "list", tuple(item.value for item in items))
    if isinstance(value, str):
        return Attr("string", value.encode())
    for kind, python_type in _KINDS:
        if isinstance(value, python_type):
            return Attr(kind, value)
    if all(hasattr(value, name) for name in ("dtype", "shape", "parts")):
        tensor: Tensor = value
        return Attr("tensor", tensor)
    raise UsageError(f"no attribute can hold a {type(value).__name__}", remedy="pass a plain value, a DType or a Shape")


_KINDS: tuple[tuple[str, type], ...] = (
    ("bool", bool),  # before int: a bool is an int to Python
    ("int", int),
    ("float", float),
    ("string", bytes),
    ("type", DType),
    ("shape", Shape),
    ("func", Func),
)
