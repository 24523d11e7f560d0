"""What conformance has proven of an engine: which ops it computes as TensorFlow does, with which types and attributes.

The tables lie in `proven/`, one for each version of an engine, made by `tools/make_proven.py`: a line for each op. A
node is proven where its op was right with its types, each of its attributes was seen in a case that was right, and no
case with just these attributes was wrong. Where an engine is right only for some inputs, the proof says for which it
is not: `EMPTY`, `NONFINITE`, `WIDE`, `BAD`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from tfsmith.ir.node import Attr
from tfsmith.ir.opdef import builtin_op
from tfsmith.ops import GIVEN
from tfsmith.ops.traits import node_types
from tfsmith.records import record

__all__ = [
    "BAD",
    "DEATH",
    "EMPTY",
    "FOLDER",
    "NONFINITE",
    "WIDE",
    "WIDEST",
    "Condition",
    "NodeKind",
    "Proof",
    "node_kind",
    "proven",
]

Condition = Literal["empty", "nonfinite", "wide", "bad"]
EMPTY: Final = "empty"
"""The engine is not proven where a tensor of the node has no elements."""
NONFINITE: Final = "nonfinite"
"""The engine is not proven where a tensor of the node has infinities or NaN."""
WIDE: Final = "wide"
"""The engine is not proven where a tensor of the node has integers over `WIDEST`."""
WIDEST: Final = 2**24
"""Up to here float32 holds all whole numbers: OpenVINO computes int64 as int32, and some int32 as float32."""
BAD: Final = "bad"
"""The engine computes something for inputs that TensorFlow refuses: ids out of range, shapes that do not fit."""
DEATH: Final = "the process was ended by"
"""How the reason of a case begins that killed the process."""
FOLDER = Path(__file__).with_name("proven")


@record
class Proof:
    """What conformance says of a node on an engine.

    Attributes:
        reason: Why it is not proven, in words; "" if it is.
        except_for: Inputs for which it is not.
        dies_of: Those of them of which some kill the process.
    """

    reason: str = ""
    except_for: frozenset[Condition] = frozenset()
    dies_of: frozenset[Condition] = frozenset()

    def __bool__(self) -> bool:
        return not self.reason


@record
class NodeKind:
    """What a proof depends on in a node.

    Attributes:
        types: Its types, such as "T=float32 Tidx=int32".
        attrs: The classes of its other attributes: texts and truth values as they are, the signs of numbers.
    """

    types: str
    attrs: Mapping[str, str]


def node_kind(op: str, attrs: Mapping[str, Attr]) -> NodeKind | None:
    """What a proof depends on in a node of one of TensorFlow's own ops; None for any other op."""
    definition = builtin_op(op)
    if definition is None:
        return None
    whole = definition.with_defaults(attrs)
    counts = {arg.number_attr for arg in (*definition.inputs, *definition.outputs)}
    classes: dict[str, str] = {}
    for declared in definition.attrs:
        found = whole.get(declared.name)
        is_type = declared.kind in ("type", "list(type)")
        if found is not None and not is_type and declared.name not in counts and not declared.name.startswith("_"):
            classes[declared.name] = _class_of(declared.name, found)
    return NodeKind(node_types(op, attrs) or "", classes)


def _class_of(name: str, found: Attr) -> str:
    value = found.value
    if isinstance(value, bytes):
        text = value.decode("utf-8", "replace")
        return _letters(text) if name == "equation" else text if name in _CHOICES else "any"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return "0" if value == 0 else "+" if value > 0 else "-"
    if found.kind.startswith("list"):
        if name in _BY_AXIS:
            return "".join("1" if item == 1 else "+" for item in found.items)
        return "some" if found.items else "none"
    return "any"


_CHOICES = frozenset(
    {"padding", "data_format", "mode", "direction", "round_mode", "method", "unit", "combiner", "interpolation",
     "fill_mode", "activation", "bad_indices_policy", "error_mode", "output_encoding", "input_encoding"}
)  # fmt: skip
"""Attributes that are one of a few words. Others, such as names, do not change what is computed."""


_BY_AXIS = frozenset({"ksize", "ksizes", "strides", "dilations", "rates"})
"""Lists with a number for each axis; what matters is which of them are 1."""


def _letters(equation: str) -> str:
    """An equation of Einsum with its letters renamed in order, for they mean nothing."""
    names: dict[str, str] = {}
    return "".join(
        names.setdefault(letter, chr(ord("a") + len(names))) if letter.isalpha() else letter
        for letter in equation.replace(" ", "")
    )


def proven(engine: str, version: str, op: str, attrs: Mapping[str, Attr]) -> Proof:
    """What conformance says of a node with these attributes, on this version of an engine.

    Args:
        engine: The engine's name.
        version: Its version, exactly.
        op: The node's op.
        attrs: The node's attributes.
    """
    table = _table(engine, version)
    if table is None:
        return Proof(f"{engine} {version} was not checked")
    if op in GIVEN:
        return Proof()
    kind = node_kind(op, attrs)
    rows = table.get(op)
    if rows is None or kind is None:
        return Proof(f"{op} was not checked")
    row = rows.get(kind.types)
    if row is None:
        return Proof(f"{op} was not checked with {kind.types}")
    for attrs_of_wrong, reason in row.get("wrong", ()):
        if all(kind.attrs.get(name) == value for name, value in attrs_of_wrong.items()):
            return Proof(f"{op} with {kind.types} is wrong: {reason}" if kind.types else f"{op} is wrong: {reason}")
    if not row.get("equal"):
        return Proof(f"{op} was refused with {kind.types}: {row.get('refused', 'no case')}")
    for name, value in kind.attrs.items():
        if value not in row.get("attrs", {}).get(name, ()):
            return Proof(f"{op} was not checked with {name}={value}")
    except_for = frozenset(_conditions(row))
    return Proof("", except_for, frozenset(condition for condition in except_for if DEATH in row[condition]))


def _conditions(row: Mapping[str, Any]) -> Iterable[Condition]:
    if EMPTY in row:
        yield EMPTY
    if NONFINITE in row:
        yield NONFINITE
    if WIDE in row:
        yield WIDE
    if BAD in row:
        yield BAD


@cache
def _table(engine: str, version: str) -> Mapping[str, Any] | None:
    path = FOLDER / f"{engine}-{version}.jsonl"
    if not path.is_file():
        return None
    _, *lines = path.read_text("utf-8").splitlines()
    return {row["op"]: row["types"] for row in map(json.loads, lines)}
