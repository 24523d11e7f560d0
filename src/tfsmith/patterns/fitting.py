"""Whether one node is as a wanted one, apart from what its inputs are: op, number of inputs, attributes, value."""

from __future__ import annotations

import struct
from typing import Any

from tfsmith.ir.attr import Attr, Func
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import ConstantQuery
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import FilledTensor, OpaqueTensor, StringTensor, Tensor
from tfsmith.limits import MAX_SMALL_MESSAGE
from tfsmith.patterns.body_index import BodyIndex
from tfsmith.patterns.plan import Wanted
from tfsmith.patterns.small_values import flat_values

__all__ = ["attr_of", "constant_misfit", "is_same_attr", "misfit"]

_SHOWN = 60
"""Characters of a value in a message."""


def misfit(wanted: Wanted, node: Node, index: BodyIndex) -> str | None:
    """Why this node is not as the wanted one, in a sentence; None if it is.

    Reads the values of a constant only where the recipe wants certain values, and never more than it wants.
    """
    if node.op not in wanted.ops:
        return f"the op must be {' or '.join(wanted.query.ops)}, and it is {node.op}"
    count = len(index.data(node.name))
    if count != len(wanted.data):
        return f"it must have {_count(len(wanted.data), 'input')}, and it has {count}"
    if wanted.rule is not None and wanted.rule.count((node.name,)) is None:
        return f"its name must fit {wanted.rule.text!r}, and it is {node.name!r}"
    for name, value in wanted.query.attrs.items():
        found = attr_of(node, name, index)
        if found is None:
            return f"attribute {name} must be {_text(value.value)}, and it has none"
        if not is_same_attr(value, found):
            return f"attribute {name} must be {_text(value.value)}, and it is {_text(found.value)}"
    return None if wanted.query.constant is None else constant_misfit(wanted.query.constant, node)


def attr_of(node: Node, name: str, index: BodyIndex) -> Attr | None:
    """An attribute of a node; where the file leaves it out, the default that the op's definition gives it."""
    found = node.attrs.get(name)
    if found is not None:
        return found
    op = index.body.op_def(node.op)
    return None if op is None else next((known.default for known in op.attrs if known.name == name), None)


def is_same_attr(wanted: Attr, found: Attr) -> bool:
    """Whether two attributes are equal. Floats are compared as the file stores them, in 32 bits; NaN equals nothing."""
    if wanted.kind.startswith("list") and found.kind.startswith("list"):
        if len(wanted.value) != len(found.value):
            return False
        same_kind = not wanted.value or wanted.kind == found.kind  # an empty list carries no kind
        return same_kind and all(map(_is_same, wanted.value, found.value))
    return wanted.kind == found.kind and _is_same(wanted.value, found.value)


def _is_same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return _single(wanted) == _single(found)
    if isinstance(wanted, Func) and isinstance(found, Func):
        if wanted.name != found.name or wanted.attrs.keys() != found.attrs.keys():
            return False
        return all(is_same_attr(value, found.attrs[name]) for name, value in wanted.attrs.items())
    if hasattr(wanted, "parts") and hasattr(found, "parts"):
        return _is_same_tensor(wanted, found)
    return bool(wanted == found)


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return value


def _is_same_tensor(wanted: Tensor, found: Tensor) -> bool:
    if wanted is found:
        return True
    if wanted.dtype != found.dtype or wanted.shape != found.shape:
        return False
    if isinstance(wanted, OpaqueTensor) or isinstance(found, OpaqueTensor) or wanted.nbytes > MAX_SMALL_MESSAGE:
        return False
    return bool(wanted.numpy().tolist() == found.numpy().tolist())


def constant_misfit(wanted: ConstantQuery, node: Node) -> str | None:
    """Why a constant does not have the wanted values; None if it has them.

    Reads no tensor that has more elements than are wanted. One that says in a few bytes that it is filled with one
    value is not made either.
    """
    value = node.attrs.get("value")
    if value is None or value.kind != "tensor":
        return f"its value must be {_values(wanted)}, and it has none"
    tensor: Tensor = value.value
    if isinstance(tensor, OpaqueTensor):
        return f"its value must be {_values(wanted)}, and it is of dtype {tensor.dtype}"
    if wanted.shape is not None and tensor.shape.dims != wanted.shape:
        return f"its value must have the shape {Shape(wanted.shape)}, and it has {tensor.shape}"
    elements = tensor.shape.elements or 0
    fill = _fill(tensor, elements) if len(wanted.values) == 1 else None
    if fill is not None:
        fits = _is_value(wanted, 0, fill, tensor)
        return None if fits else f"its value must be {_values(wanted)}, and it is {_text(fill)}"
    most = len(wanted.values) if wanted.shape is None else Shape(wanted.shape).elements
    if elements != most:
        return f"its value must be {_values(wanted)}, and it has {_count(elements, 'element')}"
    found = flat_values(tensor)
    step = 1 if len(wanted.values) > 1 else 0
    for at, one in enumerate(found):
        if not _is_value(wanted, at * step, one, tensor):
            return f"its value must be {_values(wanted)}, and it is {_text(found[0] if elements == 1 else found)}"
    return None


def _fill(tensor: Tensor, elements: int) -> Any:
    """The one value that fills a tensor, where its few bytes say so; else None."""
    if not elements:
        return None
    if isinstance(tensor, FilledTensor) and len(tensor.values) <= tensor.dtype.itemsize:
        return flat_values(FilledTensor(tensor.dtype, Shape(()), tensor.values))[0]
    if isinstance(tensor, StringTensor) and len(tensor.values) <= 1:
        return tensor.values[0] if tensor.values else b""
    return None


def _is_value(wanted: ConstantQuery, at: int, found: Any, tensor: Tensor) -> bool:
    value = wanted.values[at]
    if isinstance(value, bytes) or isinstance(found, bytes):
        return bool(value == found)
    if value == found:
        return True
    if not isinstance(found, (float, complex)):
        return False  # integers have no tolerance
    try:
        is_near = abs(found - value) <= wanted.tolerance * abs(value) < float("inf")
    except OverflowError:  # an integer that no float can hold
        return False
    return is_near or _is_rounded(value, found, tensor)


def _is_rounded(value: float, found: complex, tensor: Tensor) -> bool:
    """Whether a short type such as bfloat16 cannot say the value better than this."""
    if tensor.dtype.name in ("float32", "float64"):
        rounded = _single(value) if tensor.dtype.name == "float32" else value
        return bool(rounded == found and rounded and abs(rounded) < float("inf"))
    import numpy

    with numpy.errstate(all="ignore"):
        rounded = numpy.asarray(value, numpy.float64).astype(tensor.dtype.numpy()).tolist()
    return bool(rounded == found and rounded and abs(rounded) < float("inf"))


def _values(wanted: ConstantQuery) -> str:
    return _text(wanted.values[0] if len(wanted.values) == 1 else list(wanted.values))


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        text = "[" + ", ".join(_text(one) for one in value[:_SHOWN]) + "]"
    elif isinstance(value, (str, bytes, float, int, bool)):
        text = repr(value)
    else:
        text = value.name if isinstance(value, Func) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
