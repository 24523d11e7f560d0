"""Values in numpy: what an op computes. One module per family of ops, loaded when an op of it is asked for.

A function takes the inputs as arrays, in their order, and attributes as keywords of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from tfsmith.errors import UnsupportedError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["FAMILIES", "compute", "value"]

FAMILIES: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(
        ["Add", "AddV2", "Cast", "Identity", "Mul", "Neg", "RealDiv", "Rsqrt", "Sqrt", "Square", "Sub"], "elementwise"
    )
)
"""The module with an op's function, by op."""
_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def value(ops: str) -> Callable[[_Function], _Function]:
    """Declares the function that computes these ops."""

    def declare(function: _Function) -> _Function:
        _FUNCTIONS.update(dict.fromkeys(ops.split(), function))
        return function

    return declare


def compute(op: str, inputs: Sequence[NDArray[Any]], attrs: Mapping[str, Any] | None = None) -> NDArray[Any]:
    """What an op with one output gives. Infinities and NaN come without a warning, as from TensorFlow.

    Args:
        op: The op.
        inputs: Its inputs.
        attrs: Its attributes, as plain values; those that the function does not ask for are ignored.

    Raises:
        UnsupportedError: No function computes this op.
    """
    import numpy

    if op not in FAMILIES:
        raise UnsupportedError(f"op {op!r} cannot be computed without TensorFlow", remedy="leave it in the graph")
    import_module(f"tfsmith.ops.values.{FAMILIES[op]}")
    function = _FUNCTIONS[op]
    code = function.__code__
    asked = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    keywords = {name: attrs[name] for name in asked if attrs is not None and name in attrs}
    with numpy.errstate(all="ignore"):
        return numpy.asarray(function(*inputs, **keywords))
