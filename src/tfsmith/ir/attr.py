"""`Attr`: one attribute of a node, as a plain value with its kind."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast, get_args

from tfsmith.errors import UnsupportedError, UsageError
from tfsmith.ir.dtype import DType, as_dtype
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import ArrayTensor, Tensor, make_tensor
from tfsmith.records import FrozenDict, Immutable, record

__all__ = ["Attr", "AttrItem", "AttrKind", "AttrValue", "Func", "attr", "float32"]


# fmt: off
AttrKind: TypeAlias = Literal[
    "string", "int", "float", "bool", "type", "shape", "tensor", "func", "placeholder", "none", "list", "list(string)",
    "list(int)", "list(float)", "list(bool)", "list(type)", "list(shape)", "list(tensor)", "list(func)",
    "list(placeholder)",
]
# fmt: on
"""What an attribute can be, in the words of OpDef; "list" is an empty list, which carries no kind."""
AttrItem: TypeAlias = "bytes | int | float | bool | DType | Shape | Tensor | Func | str"
AttrValue: TypeAlias = "AttrItem | tuple[AttrItem, ...] | None"


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

    kind: AttrKind
    value: AttrValue

    @staticmethod
    def of_kind(kind: str, value: Any) -> Attr:
        """An attribute of a kind that is only known when the program runs; who calls it knows that the value fits.

        Raises:
            UsageError: There is no such kind.
        """
        if kind not in _ALL_KINDS:
            raise UsageError(f"there is no attribute of kind {kind!r}", remedy="use the kinds of OpDef")
        return Attr(cast("AttrKind", kind), value)

    @property
    def tensor(self) -> Tensor | None:
        """The value, if it is a tensor."""
        return cast("Tensor", self.value) if self.kind == "tensor" else None

    @property
    def dtype(self) -> DType | None:
        """The value, if it is a type."""
        return self.value if isinstance(self.value, DType) else None

    @property
    def items(self) -> tuple[AttrItem, ...]:
        """The items of a list; none of anything else."""
        return self.value if isinstance(self.value, tuple) else ()

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The types in a list; none of anything else."""
        return tuple(item for item in self.items if isinstance(item, DType))

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes in a list; none of anything else."""
        return tuple(item for item in self.items if isinstance(item, Shape))

    @property
    def funcs(self) -> tuple[Func, ...]:
        """The function, or those of a list; none of anything else."""
        return tuple(item for item in (self.value, *self.items) if isinstance(item, Func))


def attr(value: Any, kind: str | None = None) -> Attr:
    """An attribute from a plain value; text is stored as UTF-8.

    Args:
        value: A plain value, or one of numpy's. Where a type is wanted, "float32" and `numpy.float32` are one; where
            a shape is wanted, so is `(1, None)`; where a tensor is wanted, an array.
        kind: What the definition of the op says that it is; if None, the value's Python type says it.

    Raises:
        UsageError: No attribute can hold this value, or none of this kind.
    """
    if isinstance(value, Attr):
        return value
    if kind is not None:
        return _of_kind(value, kind)
    value = _unpacked(value)
    for found, python_type in _KINDS:
        if isinstance(value, python_type):
            return Attr.of_kind(found, value)
    if isinstance(value, str):
        return Attr("string", value.encode())
    if _is_sequence(value):
        items = [attr(item) for item in value]
        kinds = {item.kind for item in items}
        if len(kinds) > 1:
            raise UsageError(f"a list attribute cannot mix {' and '.join(sorted(kinds))}", remedy="use one kind")
        return Attr.of_kind(f"list({kinds.pop()})" if kinds else "list", tuple(item.value for item in items))
    if _is_tensor(value):
        return Attr("tensor", value)
    if hasattr(value, "__array__"):
        return Attr("tensor", ArrayTensor.copy_of(value))
    raise UsageError(f"no attribute can hold a {type(value).__name__}", remedy="pass a plain value, a DType or a Shape")


def _of_kind(value: Any, kind: str) -> Attr:
    if not kind.startswith("list("):
        return Attr.of_kind(kind, _coerced(value, kind))
    if not _is_sequence(value) and not hasattr(value, "tolist"):
        raise _misfit(value, kind)
    items = value.tolist() if hasattr(value, "tolist") else value
    return Attr.of_kind(kind if len(items) else "list", tuple(_coerced(item, kind[5:-1]) for item in items))


def _coerced(value: Any, kind: str) -> Any:
    """The value as an attribute of this kind holds it."""
    if kind == "type":
        try:
            return as_dtype(value)
        except UnsupportedError as error:
            raise UsageError(error.what, remedy=error.remedy) from error
    if kind == "shape" and (value is None or isinstance(value, Shape) or _is_sequence(value)):
        try:
            shape = value if isinstance(value, Shape) else Shape.of(value)
        except TypeError as error:
            raise _misfit(value, kind) from error
        flaw = shape.flaw()
        if flaw is not None:
            raise UsageError(f"no tensor has the shape {shape}: {flaw}", remedy="pass a shape that a tensor can have")
        return shape
    if kind == "tensor":
        return value if _is_tensor(value) else make_tensor(value)
    value = _unpacked(value)
    if kind == "string" and isinstance(value, (str, bytes)):
        return value.encode() if isinstance(value, str) else value
    if kind == "func" and isinstance(value, (str, Func)):
        return Func(value, {}) if isinstance(value, str) else value
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind in ("int", "float") and isinstance(value, int) and not isinstance(value, bool):
        if kind == "int" and not -(2**63) <= value < 2**63:
            raise UsageError(f"{value} does not fit 64 bits", remedy="pass a smaller number")
        return value if kind == "int" else float32(value)
    if kind == "float" and isinstance(value, float):
        return float32(value)
    raise _misfit(value, kind)


def _misfit(value: Any, kind: str) -> UsageError:
    shown = repr(value)
    article = "an" if kind == "int" else "a"
    short = shown if len(shown) < 60 else f"{shown[:57]}..."
    return UsageError(f"{short} is no {kind}", remedy=f"pass {article} {kind}")


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, Shape))


def _is_tensor(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("dtype", "shape", "parts"))


def _unpacked(value: Any) -> Any:
    """One of numpy's numbers as Python's own."""
    return value.item() if getattr(value, "ndim", None) == 0 and hasattr(value, "item") else value


def float32(value: float) -> float:
    """A number as an attribute holds it: in 32 bits."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError as error:
        raise UsageError(f"{value} is too large for a float", remedy="pass a smaller number") from error


_ALL_KINDS = frozenset(get_args(AttrKind))
_KINDS: tuple[tuple[str, type], ...] = (
    ("bool", bool),  # before int: a bool is an int to Python
    ("int", int),
    ("float", float),
    ("string", bytes),
    ("type", DType),
    ("shape", Shape),
    ("func", Func),
)
