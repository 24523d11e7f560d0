"""`Node`: one operation of a graph or function."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, cast

from tfsmith.errors import InvalidModelError, TfsmithError
from tfsmith.ir.attr import Attr, AttrKind, AttrValue, Func, attr
from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.records import FrozenDict, Immutable
from tfsmith.storage.span import Span

__all__ = ["Node", "NodeOrigin", "Endpoint", "CONTROL", "is_index", "parse_input"]

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
        return tuple(name for name in self.inputs if not name.startswith("^"))

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
