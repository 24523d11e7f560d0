"""The op database: the definitions of TensorFlow's own ops, packaged, so that nobody needs TensorFlow for them.

`ops.json.zlib` is made from an installed TensorFlow by `tools/make_op_database.py`: a header line, then a line per op.
An op's line is decoded when somebody asks for that op. `op_summaries.zlib` says what each op does, in a line; it is
read when somebody asks for that.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tfsmith.ir.attr import Attr
from tfsmith.ir.dtype import dtype
from tfsmith.ir.opdef import ArgDef, AttrDef, OpDef
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import FilledTensor

__all__ = ["OpDatabase", "OpLookup", "builtin_op", "builtin_ops", "is_commutative", "op_summary"]

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
