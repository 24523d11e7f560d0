"""`Node`: one operation of a graph or function."""

from __future__ import annotations

import builtins
import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, get_args

from tfsmith.errors import InvalidModelError, TfsmithError, UnsupportedError, UsageError
from tfsmith.ir.tensor import ArrayTensor, Tensor, make_tensor
from tfsmith.ir.types import DType, Shape, as_dtype
from tfsmith.records import FrozenDict, Immutable, record
from tfsmith.storage import Span

__all__ = [
    "Attr",
    "AttrItem",
    "AttrKind",
    "AttrValue",
    "CONTROL",
    "Endpoint",
    "Func",
    "Node",
    "NodeOrigin",
    "attr",
    "float32",
    "is_index",
    "parse_input",
]


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


CONTROL = -1
"""The output index of a control edge, as TensorFlow numbers it."""

_NOTHING: FrozenDict[str, Any] = FrozenDict()
_PLACE = b"loc:@"
_SMALL = 4096
"""A larger node may hold weights, which are not to be read."""


class NodeOrigin(Protocol):
    """What can decode the nodes of one file."""

    def span(self, start: int, stop: int) -> Span:
        """The bytes of the node that stands there."""
        ...

    def attrs(self, start: int, stop: int, only: str | None = None) -> dict[str, Attr]:
        """The attributes of the node that stands there: all, or only the one with this name."""
        ...

    def stored_attrs(self, start: int, stop: int) -> bytes | None:
        """The bytes of the attributes of the node that stands there; None if they are many."""
        ...


class _Slots:
    """What a node holds; it can be set until the object becomes a `Node`."""

    __slots__ = ("_attrs", "_edits", "_origin", "_start", "_stop", "device", "inputs", "name", "op")

    name: str
    op: str
    inputs: tuple[str, ...]
    device: str
    _attrs: FrozenDict[str, Attr] | None
    _edits: FrozenDict[str, Attr | None] | None
    _origin: NodeOrigin | None
    _start: int
    _stop: int


_set_attrs = vars(_Slots)["_attrs"].__set__  # a setter of the slot, past `__setattr__`


class Node(_Slots, Immutable):
    """One operation. Nodes never change: `replace` gives another one, and graphs share the untouched.

    A node that was read from a file and not edited still knows its bytes, and is written back verbatim.
    """

    __slots__ = ()

    def __new__(
        cls,
        name: str,
        op: str,
        inputs: tuple[str, ...] = (),
        attrs: Mapping[str, Any] = _NOTHING,
        device: str = "",
    ) -> Node:
        """A new node; attribute values are plain values or `Attr`s."""
        made = FrozenDict({key: attr(value) for key, value in attrs.items()})
        return _node(name, op, inputs, device, made, None, None, 0, 0)

    @staticmethod
    def from_file(
        name: str,
        op: str,
        inputs: tuple[str, ...],
        device: str,
        origin: NodeOrigin,
        start: builtins.int,
        stop: builtins.int,
    ) -> Node:
        """A node as it stands in a file. Its attributes are decoded when they are asked for."""
        return _node(name, op, inputs, device, None, None, origin, start, stop)

    def __reduce__(self) -> tuple[Any, ...]:
        attrs = self._attrs if self._origin is None else None
        fields = (self.name, self.op, self.inputs, self.device, attrs, self._edits)
        return _node, (*fields, self._origin, self._start, self._stop)

    @property
    def attrs(self) -> Mapping[str, Attr]:
        """The attributes, by name; decoded on first use. Tensors among them stay spans."""
        if self._attrs is None:
            attrs = self._read_attrs()
            for key, value in (self._edits or _NOTHING).items():
                attrs.pop(key, None)
                if value is not None:
                    attrs[key] = value
            frozen = FrozenDict(attrs)
            _set_attrs(self, frozen)
            return frozen
        return self._attrs

    @property
    def stored_attrs(self) -> bytes | None:
        """The bytes of the attributes, which are the same where these are; None if they are many, or were edited."""
        if self._origin is None or self._edits is not None:
            return None
        return self._origin.stored_attrs(self._start, self._stop)

    def read_attrs(self) -> Mapping[str, Attr]:
        """The attributes, when they will not be asked for again: nothing is kept."""
        return self.attrs if self._attrs is not None or self._edits is not None else self._read_attrs()

    def peek(self, name: str) -> Attr | None:
        """One attribute, when no other will be asked for: the rest is not decoded, and nothing is kept."""
        if self._attrs is not None or self._edits is not None:
            return self.attrs.get(name)
        return self._read_attrs(name).get(name)

    def _read_attrs(self, only: str | None = None) -> dict[str, Attr]:
        assert self._origin is not None
        try:
            return self._origin.attrs(self._start, self._stop, only)
        except TfsmithError as error:
            error.at(where=f"node {self.name!r}")
            raise

    def get(self, name: str, default: Any = None) -> Any:
        """The plain value of an attribute, or `default`."""
        found = self.attrs.get(name)
        return default if found is None else found.value

    @property
    def constant(self) -> Tensor | None:
        """The value of a Const; None of any other node, and where the attribute holds no tensor."""
        found = self.attrs.get("value") if self.op == "Const" else None
        return None if found is None else found.tensor

    # Attributes of a known kind. Each raises InvalidModelError if the attribute is of another kind, or is not there and
    # no default is given.

    def string(self, name: str, default: bytes | None = None) -> bytes:
        """The bytes of an attribute."""
        return cast("bytes", self._typed(name, "string", default))

    def int(self, name: str, default: builtins.int | None = None) -> builtins.int:
        """The whole number in an attribute."""
        return cast("builtins.int", self._typed(name, "int", default))

    def float(self, name: str, default: builtins.float | None = None) -> builtins.float:
        """The number in an attribute."""
        return cast("builtins.float", self._typed(name, "float", default))

    def bool(self, name: str, default: builtins.bool | None = None) -> builtins.bool:
        """Whether an attribute is set."""
        return cast("builtins.bool", self._typed(name, "bool", default))

    def dtype(self, name: str, default: DType | None = None) -> DType:
        """The type in an attribute."""
        return cast("DType", self._typed(name, "type", default))

    def shape(self, name: str, default: Shape | None = None) -> Shape:
        """The shape in an attribute."""
        return cast("Shape", self._typed(name, "shape", default))

    def tensor(self, name: str, default: Tensor | None = None) -> Tensor:
        """The tensor in an attribute; no I/O."""
        return cast("Tensor", self._typed(name, "tensor", default))

    def func(self, name: str, default: Func | None = None) -> Func:
        """The function that an attribute names."""
        return cast("Func", self._typed(name, "func", default))

    def ints(self, name: str, default: tuple[builtins.int, ...] | None = None) -> tuple[builtins.int, ...]:
        """The whole numbers in an attribute."""
        return cast("tuple[builtins.int, ...]", self._typed(name, "list(int)", default))

    def dtypes(self, name: str, default: tuple[DType, ...] | None = None) -> tuple[DType, ...]:
        """The types in an attribute."""
        return cast("tuple[DType, ...]", self._typed(name, "list(type)", default))

    def shapes(self, name: str, default: tuple[Shape, ...] | None = None) -> tuple[Shape, ...]:
        """The shapes in an attribute."""
        return cast("tuple[Shape, ...]", self._typed(name, "list(shape)", default))

    def _typed(self, name: str, kind: AttrKind, default: AttrValue) -> AttrValue:
        found = self.attrs.get(name)
        if found is None and default is not None:
            return default
        if found is None or (found.kind != kind and not (found.kind == "list" and kind.startswith("list("))):
            what = "is missing" if found is None else f"is of kind {found.kind}, not {kind}"
            remedy = "node.attrs has what is there; if its op wants it so, the file is damaged"
            raise InvalidModelError(
                f"attribute {name!r} {what}", where=f"node {self.name!r} ({self.op})", remedy=remedy
            )
        return found.value

    @property
    def raw(self) -> Span | None:
        """The node's bytes in its file, if it was never edited."""
        return self.base if self._edits is None else None

    @property
    def base(self) -> Span | None:
        """The bytes that this node was edited from, or its own; None for a node made in memory."""
        return None if self._origin is None else self._origin.span(self._start, self._stop)

    @property
    def edits(self) -> Mapping[str, Attr | None]:
        """What changed in the attributes since `base`; None means dropped."""
        return _NOTHING if self._edits is None else self._edits

    @property
    def data_inputs(self) -> tuple[str, ...]:
        """The inputs that carry tensors."""
        return tuple([name for name in self.inputs if name[:1] != "^"])

    @property
    def control_inputs(self) -> tuple[str, ...]:
        """The names of the nodes that must run before."""
        return tuple(name[1:] for name in self.inputs if name.startswith("^"))

    @property
    def colocated(self) -> tuple[str, ...]:
        """The names of the nodes that this one wants to share a device with."""
        base = self.base
        if "_class" not in self.edits and base is not None and len(base) <= _SMALL and _PLACE not in base.tobytes():
            return ()  # few nodes have such a wish, and to look into the attributes of all takes much longer
        found = self.peek("_class")
        names = [item for item in (found.items if found is not None else ()) if isinstance(item, bytes)]
        return tuple(name.decode("utf-8", "replace")[len(_PLACE) :] for name in names if name.startswith(_PLACE))

    def colocate(self, names: Iterable[str]) -> Node:
        """Another node, which wants to share a device with these and no others."""
        listed = tuple(_PLACE + name.encode() for name in names)
        return self.replace(attrs={"_class": listed or None})

    def replace(
        self,
        *,
        name: str | None = None,
        op: str | None = None,
        inputs: tuple[str, ...] | None = None,
        device: str | None = None,
        attrs: Mapping[str, Any] = _NOTHING,
    ) -> Node:
        """Another node with these changes. In `attrs`, None drops an attribute; all others stay as they are."""
        changes = {key: None if value is None else attr(value) for key, value in attrs.items()}
        made = None
        if self._origin is None:
            kept = {key: value for key, value in self.attrs.items() if key not in changes}
            made = FrozenDict(kept | {key: value for key, value in changes.items() if value is not None})
        return _node(
            self.name if name is None else name,
            self.op if op is None else op,
            self.inputs if inputs is None else inputs,
            self.device if device is None else device,
            made,
            FrozenDict({**self.edits, **changes}),
            self._origin,
            self._start,
            self._stop,
        )

    def __repr__(self) -> str:
        return f"<Node {self.name!r} op={self.op}>"


def _node(
    name: str,
    op: str,
    inputs: tuple[str, ...],
    device: str,
    attrs: FrozenDict[str, Attr] | None,
    edits: FrozenDict[str, Attr | None] | None,
    origin: NodeOrigin | None,
    start: int,
    stop: int,
) -> Node:
    """Makes a node. To set the fields first and the class last takes a third of the time of setters."""
    node = _Slots()
    node.name = name
    node.op = op
    node.inputs = inputs
    node.device = device
    node._attrs = attrs
    node._edits = edits
    node._origin = origin
    node._start = start
    node._stop = stop
    node.__class__ = Node  # a subclass with the same slots
    return node  # type: ignore[return-value]


class Endpoint(NamedTuple):
    """A node's name and one of its outputs (`CONTROL` for a control edge)."""

    node: str
    output: int

    def __str__(self) -> str:
        return f"^{self.node}" if self.output == CONTROL else f"{self.node}:{self.output}"


_tuple = tuple.__new__


@lru_cache(1 << 13)
def parse_input(text: str) -> Endpoint:
    """Reads "node", "node:1" or "^node", as graphs (not functions) write them."""
    if text[:1] == "^":
        return Endpoint(text[1:], CONTROL)
    if ":" in text:
        name, _, index = text.rpartition(":")
        if is_index(index):
            return Endpoint(name, int(index))
    return _tuple(Endpoint, (text, 0))  # most are so, and `Endpoint(text, 0)` takes twice as long


def is_index(text: str) -> bool:
    """Whether this is the number of an output. A long row of digits is none: `int` itself refuses thousands of them."""
    return len(text) < 10 and text.isascii() and text.isdecimal()
