"""Attributes as people write them: "float32", 3, true, [1, -1]; typed by the op's definition where there is one.

Where nobody knows the kind, or it is not the one that the value looks like, a table says it:

    {type = "float32"}   {shape = [1, -1]}   {shape = "?"}   {string = "=x"}   {hex = "ff00"}   {placeholder = "T"}
    {int = 3}   {float = 1}   {bool = true}   {none = true}   {func = "name", attrs = {...}}
    {tensor = [1.0, 2.0], type = "float32", shape = [2]}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tfsmith.errors import UnsupportedError, UsageError
from tfsmith.ir.node import Attr, Func, float32
from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.ir.types import UNKNOWN, DType, Shape, dtype_named

__all__ = ["attr_from_literal", "attr_from_text", "literal_of", "shortest"]

_MOST_VALUES = 4096
"""Values of a constant that are written out for people."""
_TYPE = re.compile(
    r"DT_(FLOAT|DOUBLE|HALF|BFLOAT16|U?INT(4|8|16|32|64)|QU?INT(8|16|32)|BOOL|STRING)|b?float(16|32|64)"
    r"|u?int(4|8|16|32|64)|qu?int(8|16|32)|complex(64|128)"
)
"""What is hardly ever meant as text."""
_TABLE_KINDS = ("string", "hex", "int", "float", "bool", "type", "shape", "tensor", "func", "placeholder", "none")


def attr_from_literal(value: Any, kind: str | None) -> Attr:
    """The attribute that a literal means.

    Args:
        value: Text, a number, a bool, a list, or a table such as `{"type": "float32"}`.
        kind: The attribute's kind by the op's definition; None where nobody knows it.

    Raises:
        UsageError: The value is not of this kind, or no attribute can hold it.
    """
    if isinstance(value, Mapping):
        return _of_kind(_from_table(value), kind)
    if isinstance(value, list):
        return _list(value, kind)
    if kind is None:
        return _guessed(value)
    return Attr.of_kind(kind, _scalar(value, kind))


def attr_from_text(text: str, kind: str | None) -> Attr:
    """The attribute that a word of the command line means: as a literal, but lists are joined by commas.

    Where nobody knows the kind, the name of a type such as "float32" is a type.

    Raises:
        UsageError: The word is not of this kind.
    """
    if kind is not None and kind.startswith("list("):
        words = [word.strip() for word in text.strip().removeprefix("[").removesuffix("]").split(",")]
        return _list([_word(word, kind[5:-1]) for word in words if word], kind)
    if kind == "shape":
        words = text.strip().removeprefix("[").removesuffix("]").split(",")
        dims: Any = "?" if text.strip() == "?" else [_word("-1" if w.strip() == "?" else w, "int") for w in words if w]
        return attr_from_literal(dims if isinstance(dims, str) else {"shape": dims}, kind)
    if kind is None and _TYPE.fullmatch(text):
        return Attr("type", _dtype(text))
    return attr_from_literal(_word(text, kind), kind)


def _word(text: str, kind: str | None) -> Any:
    """A word as the plain value that it spells."""
    if kind in ("string", "type", "shape", "func", "placeholder"):
        return text
    plain = text.strip()
    if kind in ("bool", None) and plain.lower() in ("true", "false"):
        return plain.lower() == "true"
    for python_type in (int, float):
        if kind == "bool":
            break
        try:
            return python_type(plain) if len(plain) < 100 else text
        except ValueError:
            continue
    return text


def _guessed(value: Any) -> Attr:
    if isinstance(value, bool):
        return Attr("bool", value)
    if isinstance(value, (int, float, str)):
        kind = "string" if isinstance(value, str) else "int" if isinstance(value, int) else "float"
        return Attr.of_kind(kind, _scalar(value, kind))
    raise UsageError(
        f"no attribute can hold {value!r}", remedy="write text, a number, true or false, a list or a table"
    )


def _scalar(value: Any, kind: str) -> Any:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind == "string" and isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if kind == "int" and is_number and isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise UsageError(f"{value} does not fit 64 bits", remedy="write a smaller number")
        return value
    if kind == "float" and is_number:
        return float32(value)
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "type" and isinstance(value, str):
        return _dtype(value)
    if kind == "shape" and value == "?":
        return UNKNOWN
    if kind == "func" and isinstance(value, str):
        return Func(value, {})
    if kind == "placeholder" and isinstance(value, str):
        return value
    raise UsageError(f"{value!r} is no {kind}", remedy=f"write {_EXAMPLES.get(kind, 'another value')}")


_EXAMPLES = {
    "string": 'text, such as "SAME"',
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "type": 'the name of a type, such as "float32"',
    "shape": 'a list of numbers, such as [1, -1], or "?"',
    "tensor": 'a table, such as {tensor = [1.0], type = "float32", shape = []}',
    "func": 'a table, such as {func = "name"}',
}


def _dtype(name: str) -> DType:
    try:
        return dtype_named(name)
    except UnsupportedError as error:
        raise UsageError(error.what, remedy=error.remedy) from error


def _list(values: list[Any], kind: str | None) -> Attr:
    if kind == "shape":
        return Attr.of_kind(kind, _shape(values))
    if kind is not None and not kind.startswith("list("):
        raise UsageError(f"a list is no {kind}", remedy=f"write {_EXAMPLES.get(kind, 'another value')}")
    items = [attr_from_literal(value, None if kind is None else kind[5:-1]) for value in values]
    kinds = {item.kind for item in items}
    if kind is None and kinds == {"int", "float"}:
        numbers = [item.value for item in items if isinstance(item.value, (int, float))]
        items, kinds = [Attr("float", float(number)) for number in numbers], {"float"}
    if len(kinds) > 1 or any(kind.startswith("list") or kind == "none" for kind in kinds):
        raise UsageError("a list attribute holds values of one kind, and no lists", remedy="write one kind of value")
    return Attr.of_kind(f"list({kinds.pop()})" if kinds else "list", tuple(item.value for item in items))


def _shape(value: Any) -> Shape:
    if value == "?":
        return UNKNOWN
    if not isinstance(value, list) or not all(type(dim) is int for dim in value):
        raise UsageError(f"{value!r} is no shape", remedy=f"write {_EXAMPLES['shape']}")
    shape = Shape(tuple(value))
    flaw = shape.flaw()
    if flaw is not None:
        raise UsageError(f"no tensor has the shape {shape}: {flaw}", remedy="write a shape that a tensor can have")
    return shape


def _from_table(table: Mapping[str, Any]) -> Attr:
    kinds = [key for key in _TABLE_KINDS if key in table]
    kind = "tensor" if "tensor" in kinds else kinds[0] if len(kinds) == 1 else ""
    also = {"tensor": {"type", "shape"}, "func": {"attrs"}}.get(kind, set())
    if not kind or set(table) - {kind} - also:
        shown = ", ".join(sorted(map(str, table))[:5])
        raise UsageError(
            f"a table with {shown or 'nothing'} is no attribute", remedy='write one such as {type = "float32"}'
        )
    value = table[kind]
    if kind == "none":
        return Attr("none", None)
    if kind == "hex":
        return Attr("string", _hex(value))
    if kind == "shape":
        return Attr.of_kind(kind, _shape(value))
    if kind == "func":
        attrs = table.get("attrs", {})
        if not isinstance(value, str) or not isinstance(attrs, Mapping):
            raise UsageError("a function has a name, and attributes in a table", remedy=f"write {_EXAMPLES['func']}")
        return Attr.of_kind(kind, Func(value, {key: attr_from_literal(one, None) for key, one in attrs.items()}))
    if kind == "tensor":
        return Attr.of_kind(kind, _tensor(value, table.get("type"), table.get("shape")))
    return Attr.of_kind(kind, _scalar(value, kind))


def _hex(value: Any) -> bytes:
    try:
        return bytes.fromhex(value)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{value!r} is no hex", remedy='write pairs of digits, such as {hex = "ff00"}') from error


def _tensor(value: Any, type_name: Any, dims: Any) -> Tensor:
    import numpy

    values = value if isinstance(value, list) else [value]
    remedy = f"write {_EXAMPLES['tensor']}"
    if not isinstance(type_name, str):
        raise UsageError("a tensor needs its type", remedy=remedy)
    kind = _dtype(type_name)
    shape = _shape(([] if not isinstance(value, list) else [len(values)]) if dims is None else dims)
    if not shape.is_static or (shape.elements != len(values) and len(values) != 1) or (shape.elements or 0) > 1 << 24:
        raise UsageError(f"{len(values)} values do not fill the shape {shape}", remedy=remedy)
    is_text = kind.name == "string"
    plain = [one.encode() if is_text and isinstance(one, str) else one for one in values]
    if any(isinstance(one, bytes) != is_text or isinstance(one, (list, Mapping)) for one in plain):
        raise UsageError(f"these are no values of type {kind}", remedy=remedy)
    try:
        array = numpy.array(plain, kind.numpy())
    except (OverflowError, ValueError, TypeError) as error:
        raise UsageError(f"these are no values of type {kind} ({error})", remedy=remedy) from error
    full = numpy.broadcast_to(array, (shape.elements or 0,)).reshape(shape.dims or ())
    return ArrayTensor.of(numpy.ascontiguousarray(full).reshape(shape.dims or ()), kind)


def _of_kind(attr: Attr, kind: str | None) -> Attr:
    """What a table says, if the definition allows it; a function's body may have a placeholder anywhere."""
    if kind is None or attr.kind in (kind, "placeholder", "none"):
        return attr
    raise UsageError(f"a {attr.kind} is no {kind}", remedy=f"write {_EXAMPLES.get(kind, f'a {kind}')}")


# The other way


def literal_of(attr: Attr, kind: str | None) -> Any:
    """The literal that `attr_from_literal` reads as this attribute, given the same kind.

    Raises:
        UnsupportedError: It holds more values than anybody would write out.
    """
    inner = kind[5:-1] if kind is not None and kind.startswith("list(") else None
    if attr.kind == "list" and (kind is None or inner is not None):
        return []
    if attr.kind.startswith("list("):
        wanted = inner if attr.kind == kind else None
        return [literal_of(Attr.of_kind(attr.kind[5:-1], item), wanted) for item in attr.items]
    plain = _plain(attr)
    is_clear = attr.kind == kind or (kind is None and attr.kind in ("string", "int", "float", "bool"))
    if not is_clear or isinstance(plain, Mapping) or (isinstance(plain, str) and plain.startswith("=")):
        return plain if isinstance(plain, Mapping) else {attr.kind: plain}
    return plain


def _plain(attr: Attr) -> Any:
    value: Any = attr.value
    if attr.kind == "string":
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"hex": value.hex()}
    if attr.kind == "float":
        return shortest(value)
    if attr.kind == "type":
        return value.name
    if attr.kind == "shape":
        return "?" if value.dims is None else list(value.dims)
    if attr.kind == "func":
        attrs = {key: literal_of(one, None) for key, one in value.attrs.items()}
        return {"func": value.name, "attrs": attrs} if attrs else {"func": value.name}
    if attr.kind == "tensor":
        return _tensor_literal(value)
    if attr.kind in ("none", "list"):
        return {"none": True}
    return value


def shortest(value: float) -> float:
    """The float with the fewest digits that 32 bits cannot tell from this one."""
    if value != value or value in (float("inf"), float("-inf")):
        return value
    return next((short for digits in range(1, 10) if float32(short := float(f"{value:.{digits}g}")) == value), value)


def _tensor_literal(tensor: Tensor) -> dict[str, Any]:
    count = tensor.shape.elements or 0
    if count > _MOST_VALUES:
        what = f"a constant of {count} values is too large to be written out"
        raise UnsupportedError(what, remedy="keep the recipe in its wire format (.pb)")
    values = tensor.numpy().reshape(-1).tolist()
    if tensor.dtype.name == "string":
        values = [value.decode("utf-8", "surrogateescape") for value in values]
    elif tensor.dtype.name.startswith("complex"):
        what = "a constant of complex numbers cannot be written out"
        raise UnsupportedError(what, remedy="keep the recipe in its wire format (.pb)")
    elif values and not isinstance(values[0], (int, float)):
        values = [float(value) for value in values]  # bfloat16 and its like
    return {"tensor": values, "type": tensor.dtype.name, "shape": list(tensor.shape.dims or ())}
