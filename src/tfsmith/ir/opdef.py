"""`OpDef`: what an op takes and gives, which is what turns names of outputs into numbers."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from tfsmith.errors import InvalidModelError
from tfsmith.ir.node import Attr, AttrValue
from tfsmith.ir.tensor import FilledTensor
from tfsmith.ir.types import DType, Shape, dtype
from tfsmith.limits import MAX_LIST_OUTPUTS
from tfsmith.records import field, record

__all__ = [
    "ArgDef",
    "AttrDef",
    "OpDatabase",
    "OpDef",
    "OpLookup",
    "builtin_op",
    "builtin_ops",
    "is_commutative",
    "op_summary",
]


_MOST_OUTPUTS = 1000
"""Of an op with lists among its outputs; real ones have a few."""
_SHOWN = 8
"""Values that an attribute may have, in a message."""
_REMEDY = "TensorFlow refuses this graph too; write it again from its source"


@record
class ArgDef:
    """An input or output of an op. Exactly one of `type`, `type_attr`, `type_list_attr` says its type."""

    name: str
    type: DType | None = None
    type_attr: str = ""
    number_attr: str = ""
    type_list_attr: str = ""
    is_ref: bool = False

    def count(self, attrs: Mapping[str, Attr]) -> int:
        """How many tensors it stands for in a node with these attributes.

        Raises:
            InvalidModelError: The attribute that says so is missing, is of another kind, or cannot be.
        """
        if not self.number_attr and not self.type_list_attr:
            return 1
        name = self.number_attr or self.type_list_attr
        found = attrs.get(name)
        count = None
        if self.number_attr and found is not None and isinstance(found.value, int) and found.kind == "int":
            count = found.value
        if self.type_list_attr and found is not None and found.kind in ("list", "list(type)"):
            count = len(found.items)
        if count is None:
            what = f"attribute {name!r}, which says how many tensors {self.name!r} is, is missing or of another kind"
            raise InvalidModelError(what, remedy=_REMEDY)
        if not 0 <= count <= MAX_LIST_OUTPUTS:
            what = f"attribute {name!r} says that {self.name!r} is {count} tensors, which cannot be"
            raise InvalidModelError(what, remedy=_REMEDY)
        return count

    def types(self, attrs: Mapping[str, Attr]) -> tuple[DType | None, ...]:
        """The types of those tensors; None where the attributes do not say."""
        if self.type_list_attr:
            found = attrs.get(self.type_list_attr)
            return () if found is None else found.dtypes
        single = self.type
        if single is None and self.type_attr in attrs:
            value = attrs[self.type_attr].value
            single = value if isinstance(value, DType) else None
        return (single,) * self.count(attrs)


@record
class AttrDef:
    """An attribute that an op has.

    Attributes:
        name: Its name.
        kind: Its kind, as in `Attr`.
        default: What it is where a node leaves it out; None if no node may.
        minimum: The least value of an int, or the least length of a list.
        allowed: The only values of a type or string, or of the items of a list of them; empty if any may be.
    """

    name: str
    kind: str
    default: Attr | None = None
    minimum: int | None = None
    allowed: tuple[DType | bytes, ...] = ()

    def value_problem(self, value: Attr) -> str | None:
        """What is wrong with a value of the right kind, or None."""
        is_list = self.kind.startswith("list(")
        if self.minimum is not None:
            if is_list and len(value.items) < self.minimum:
                return f"attribute {self.name!r} has {len(value.items)} items, and the least is {self.minimum}"
            if isinstance(value.value, int) and value.value < self.minimum:
                return f"attribute {self.name!r} is {value.value}, and the least is {self.minimum}"
        if not self.allowed:
            return None
        for item in value.items if is_list else (value.value,):
            if (item.base if isinstance(item, DType) else item) not in self.allowed:
                shown = [_text(one) for one in self.allowed]
                more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
                return f"attribute {self.name!r} cannot be {_text(item)}; it may be {', '.join(shown[:_SHOWN])}{more}"
        return None


def _text(value: AttrValue) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


@record
class OpDef:
    """The definition of an op, without its prose."""

    name: str
    inputs: tuple[ArgDef, ...] = ()
    outputs: tuple[ArgDef, ...] = ()
    attrs: tuple[AttrDef, ...] = ()
    control_outputs: tuple[str, ...] = ()
    is_stateful: bool = False
    is_commutative: bool = False
    is_aggregate: bool = False
    _defaults: Mapping[str, Attr] = field(init=False, repr=False, compare=False)
    """What attributes mean where the file leaves them out."""
    _single: Mapping[str, int] | None = field(init=False, repr=False, compare=False)
    """The number of each output, if none of them is a list. A file may define ops with thousands."""

    def __post_init__(self) -> None:
        defaults = {attr.name: attr.default for attr in self.attrs if attr.default is not None}
        has_lists = any(output.number_attr or output.type_list_attr for output in self.outputs)
        single = {output.name: index for index, output in enumerate(self.outputs)}
        object.__setattr__(self, "_defaults", defaults)
        object.__setattr__(self, "_single", None if has_lists or len(single) < len(self.outputs) else single)

    @property
    def gives_lists(self) -> bool:
        """Whether it is for the attributes of a node to say how many outputs it has."""
        return self._single is None

    def output_index(self, arg: str, offset: int, attrs: Mapping[str, Attr]) -> int | None:
        """The number of the output that a function calls `arg:offset`; None if the op has no such output."""
        if self._single is not None:
            return self._single.get(arg) if offset == 0 else None
        if len(self.outputs) > _MOST_OUTPUTS:
            raise InvalidModelError(f"op {self.name!r} has {len(self.outputs)} outputs", remedy=_REMEDY)
        index = 0
        attrs = self.with_defaults(attrs)
        for output in self.outputs:
            count = output.count(attrs)
            if output.name == arg:
                return index + offset if 0 <= offset < count else None
            index += count
        return None

    def output_name(self, index: int, attrs: Mapping[str, Attr]) -> str | None:
        """What a function calls output number `index`, such as "output:0"; None if the op has no such output."""
        attrs = self.with_defaults(attrs)
        for output in self.outputs:
            count = output.count(attrs)
            if index < count:
                return f"{output.name}:{index}" if index >= 0 else None
            index -= count
        return None

    def input_count(self, attrs: Mapping[str, Attr]) -> int:
        """How many tensors a node with these attributes takes."""
        attrs = self.with_defaults(attrs)
        return sum(arg.count(attrs) for arg in self.inputs)

    def output_count(self, attrs: Mapping[str, Attr]) -> int:
        """How many tensors a node with these attributes gives."""
        if not any(arg.number_attr or arg.type_list_attr for arg in self.outputs):
            return len(self.outputs)
        attrs = self.with_defaults(attrs)
        return sum(arg.count(attrs) for arg in self.outputs)

    def output_type(self, attrs: Mapping[str, Attr], index: int) -> DType | None:
        """The type of one output; None where there is no such output, or attributes do not say it."""
        try:
            types = self.output_types(attrs)
        except InvalidModelError:
            return None
        return types[index] if 0 <= index < len(types) else None

    def output_types(self, attrs: Mapping[str, Attr]) -> tuple[DType | None, ...]:
        """The type of each output of a node with these attributes; None where they do not say."""
        return tuple(found for _, found in self.outputs_of(attrs))

    def outputs_of(self, attrs: Mapping[str, Attr]) -> list[tuple[ArgDef, DType | None]]:
        """The argument and the type of each output of a node with these attributes; None where they do not say it."""
        attrs = self.with_defaults(attrs)
        return [(output, found) for output in self.outputs for found in output.types(attrs)]

    def with_defaults(self, attrs: Mapping[str, Attr]) -> Mapping[str, Attr]:
        """The attributes, with those that the file leaves out because they have their default."""
        return {**self._defaults, **attrs} if self._defaults else attrs


OpLookup = Callable[[str], "OpDef | None"]
"""Finds the definition of an op by name, or None."""


class OpDatabase(Mapping[str, OpDef]):
    """Op definitions by name. Lookups in the packaged part decode one line each."""

    def __init__(self, header: str, lines: Mapping[str, str]) -> None:
        self._header = header
        self._lines = lines
        self._decoded: dict[str, OpDef] = {}

    @property
    def version(self) -> str:
        """The TensorFlow release that the packaged part was taken from."""
        import json

        return str(json.loads(self._header)["tensorflow"])

    @property
    def producer(self) -> int:
        """The number that this release writes into graphs as their producer."""
        import json

        return int(json.loads(self._header)["producer"])

    def __getitem__(self, name: str) -> OpDef:
        found = self._decoded.get(name)
        if found is None:
            import json  # not loaded by who only asks whether there is such an op

            found = self._decoded[name] = _op(name, json.loads(self._lines[name]))
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, name: object) -> bool:
        return name in self._lines


@cache
def builtin_ops() -> OpDatabase:
    """The packaged database; read once, a few milliseconds."""
    text = zlib.decompress(Path(__file__).with_name("ops.json.zlib").read_bytes()).decode()
    header, *rows = text.splitlines()
    lines = dict(row.split("\t", 1) for row in rows)
    return OpDatabase(header, lines)


@cache
def _summaries() -> Mapping[str, str]:
    text = zlib.decompress(Path(__file__).with_name("op_summaries.zlib").read_bytes()).decode()
    return dict(row.split("\t", 1) for row in text.splitlines())


def op_summary(name: str) -> str:
    """What one of TensorFlow's own ops does, in a line; "" if nobody says it."""
    return _summaries().get(name, "")


@lru_cache(4096)
def builtin_op(name: str) -> OpDef | None:
    """The definition of one of TensorFlow's own ops."""
    return builtin_ops().get(name)


def _op(name: str, row: dict[str, Any]) -> OpDef:
    flags = row.get("f", "")
    return OpDef(
        name,
        tuple(_arg(arg) for arg in row.get("i", ())),
        tuple(_arg(arg) for arg in row.get("o", ())),
        tuple(_attr(attr) for attr in row.get("a", ())),
        is_stateful="s" in flags,
        is_commutative="c" in flags,
        is_aggregate="g" in flags,
    )


def _arg(row: list[Any]) -> ArgDef:
    """[name, how, is_ref]: how is a dtype number, "attr", "N*attr", "N*number" or "[list attr]"."""
    name, how, is_ref = row
    if isinstance(how, int):
        return ArgDef(name, type=dtype(how), is_ref=bool(is_ref))
    if how.startswith("["):
        return ArgDef(name, type_list_attr=how[1:-1], is_ref=bool(is_ref))
    number, star, kind = how.rpartition("*")
    if not star:
        return ArgDef(name, type_attr=kind, is_ref=bool(is_ref))
    if kind.isdecimal():
        return ArgDef(name, type=dtype(int(kind)), number_attr=number, is_ref=bool(is_ref))
    return ArgDef(name, type_attr=kind, number_attr=number, is_ref=bool(is_ref))


def _attr(row: list[Any]) -> AttrDef:
    """[name, kind], then [default] or nothing, then [allowed] and [minimum] where there are any."""
    name, kind, *more = row
    default, allowed, minimum = [*more, (), (), ()][:3]
    return AttrDef(
        name,
        kind,
        _default(kind, default[0]) if default else None,
        minimum[0] if minimum else None,
        tuple(dtype(one) if isinstance(one, int) else one.encode("latin-1") for one in allowed),
    )


def _default(kind: str, value: Any) -> Attr:
    if kind.startswith("list("):
        inner = kind[5:-1]
        return Attr.of_kind(kind if value else "list", tuple(_default(inner, item).value for item in value))
    if kind == "type":
        return Attr.of_kind(kind, dtype(value))
    if kind == "shape":
        return Attr.of_kind(kind, Shape.of(value))
    if kind == "string":
        return Attr.of_kind(kind, value.encode("latin-1"))
    if kind == "tensor":
        number, dims, values = value
        return Attr.of_kind(kind, FilledTensor(dtype(number), Shape.of(dims), values.encode("latin-1")))
    return Attr.of_kind(kind, value)


_OTHERS = frozenset({"Add", "Maximum", "Minimum"})
"""Ops that are so, though their definitions do not say it: `Add` also joins strings, whose order matters."""


def is_commutative(op: str, kind: Attr | None = None, op_def: OpLookup = builtin_op) -> bool:
    """Whether the first two inputs of an op may stand in either order.

    Args:
        op: The op's name.
        kind: Its attribute `T`, if that is known.
        op_def: Finds the definition of an op.
    """
    if op in _OTHERS:
        return kind is None or kind.dtype is None or kind.dtype.base.name != "string"
    found = op_def(op)
    return found is not None and found.is_commutative and len(found.inputs) > 0
