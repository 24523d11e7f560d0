"""`OpDef`: what an op takes and gives, which is what turns names of outputs into numbers."""

from __future__ import annotations

from collections.abc import Mapping

from tfsmith.errors import InvalidModelError
from tfsmith.ir.attr import Attr
from tfsmith.ir.dtype import DType
from tfsmith.limits import MAX_LIST_OUTPUTS
from tfsmith.records import field, record

__all__ = ["OpDef", "ArgDef", "AttrDef"]

_MOST_OUTPUTS = 1000
"""Of an op with lists among its outputs; real ones have a few."""
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
