"""Which ops give the same whatever the order of their first two inputs."""

from __future__ import annotations

from tfsmith.ir.attr import Attr
from tfsmith.ir.opdb import OpLookup, builtin_op

__all__ = ["is_commutative"]

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
        return kind is None or kind.kind != "type" or kind.value.base.name != "string"
    found = op_def(op)
    return found is not None and found.is_commutative and len(found.inputs) > 0
