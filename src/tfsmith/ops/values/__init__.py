"""Values in numpy: what an op computes, as TensorFlow's kernels for the CPU define it. One module per family of ops.

A function takes one argument for each input of the op's definition: an array, or a tuple of arrays where the
definition says that the input is a list. What else it needs, it asks for by keyword: attributes by their names (with
the definition's defaults; types are `DType`, shapes are `Shape`, tensors are arrays, strings are bytes, lists are
tuples), and `state`, the `State` of the program that runs. It returns one array, or a tuple of all outputs in order
where there is not exactly one. Strings are arrays of objects, each of them `bytes`; resources and variants are Python
objects. What cannot be computed raises `OpError` with the reason in words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from tfsmith.errors import UnsupportedError
from tfsmith.ir.node import Attr
from tfsmith.ir.opdef import OpDef, builtin_op
from tfsmith.ir.tensor import Tensor, TensorBase

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["OpError", "OpFunction", "State", "bind", "compute", "has_value", "load_modules", "value", "value_ops"]

_FUNCTIONS: dict[str, Callable[..., Any]] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])
_Kept = TypeVar("_Kept")
OpFunction = Callable[[Sequence[Any]], tuple[Any, ...]]
"""What computes one node: its data inputs in order to its outputs in order."""


class OpError(Exception):
    """An op cannot compute its outputs from these inputs; the text says why. The engine adds the node.

    Attributes:
        remedy: What to do about it, where that is not to feed other values.
    """

    def __init__(self, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.remedy = remedy


class State:
    """What a program keeps between its nodes and from run to run: random numbers, resources, files, what it prints.

    One of its nodes sees it so; it starts anew with each program that is compiled.

    Attributes:
        node: The node's name.
        say: Takes a line that the program prints.
    """

    def __init__(self, node: str, kept: dict[tuple[str, str], Any], files: Callable[[bytes], Path],
                 say: Callable[[str], None]) -> None:  # fmt: skip
        self.node = node
        self.say = say
        self._kept = kept
        self._files = files

    def keep(self, kind: str, make: Callable[[], _Kept], name: str | None = None) -> _Kept:
        """What the program keeps under this name (the node's by default); `make` makes it the first time."""
        key = (kind, self.node if name is None else name)
        if key not in self._kept:
            self._kept[key] = make()
        found: _Kept = self._kept[key]
        return found

    def file(self, name: bytes) -> Path:
        """The file of this name, if it belongs to the model.

        Raises:
            OpError: It lies outside of the model, or is missing.
        """
        return self._files(name)


def value(ops: str) -> Callable[[_Function], _Function]:
    """Declares the function that computes these ops."""

    def declare(function: _Function) -> _Function:
        for op in ops.split():
            assert op not in _FUNCTIONS, f"{op} has two values"
            _FUNCTIONS[op] = function
        return function

    return declare


def value_ops() -> Mapping[str, Callable[..., Any]]:
    """All ops that have a value, with their functions. Loads every family the first time."""
    return _loaded()


def load_modules(package: str, search: Iterable[str]) -> None:
    """Loads all modules of a package: each declares its ops when it is loaded."""
    from pkgutil import iter_modules

    for module in iter_modules(search):
        import_module(f"{package}.{module.name}")


@cache
def _loaded() -> Mapping[str, Callable[..., Any]]:
    load_modules(__name__, __path__)
    return MappingProxyType(_FUNCTIONS)


def has_value(op: str) -> bool:
    """Whether a function computes this op."""
    return op in value_ops()


def bind(
    op: str, attrs: Mapping[str, Attr], *, state: State | None = None, definition: OpDef | None = None
) -> OpFunction:
    """The function of a node: inputs in order to outputs in order, with its attributes bound.

    Infinities and NaN come without a warning only inside of `numpy.errstate(all="ignore")`, which the caller holds.

    Args:
        op: The op.
        attrs: The attributes of its node.
        state: The state of the program, for ops that keep one.
        definition: The op's definition, where it is not TensorFlow's own.

    Raises:
        UnsupportedError: No function computes this op, or TensorFlow does not define it.
        InvalidModelError: An attribute that says how many inputs there are is missing.
    """
    function = value_ops().get(op)
    definition = definition or builtin_op(op)
    if function is None or definition is None:
        raise UnsupportedError(f"op {op!r} cannot be computed without TensorFlow", remedy="leave it in the graph")
    whole = definition.with_defaults(attrs)
    code = function.__code__
    asked = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    keywords = {name: _plain(whole[name].value) for name in asked if name in whole}
    if "state" in asked:
        keywords["state"] = state
    is_list = [bool(arg.number_attr or arg.type_list_attr) for arg in definition.inputs]
    if not any(is_list):
        return lambda inputs: _outputs(function(*inputs, **keywords))
    counts = [arg.count(whole) for arg in definition.inputs]

    def grouped(inputs: Sequence[Any]) -> tuple[Any, ...]:
        arguments: list[Any] = []
        start = 0
        for count, listed in zip(counts, is_list, strict=True):
            arguments.append(tuple(inputs[start : start + count]) if listed else inputs[start])
            start += count
        return _outputs(function(*arguments, **keywords))

    return grouped


def compute(op: str, inputs: Sequence[NDArray[Any]], attrs: Mapping[str, Attr] | None = None) -> tuple[Any, ...]:
    """What an op gives for these inputs. Infinities and NaN come without a warning, as from TensorFlow.

    Args:
        op: The op.
        inputs: Its inputs in order, lists flat.
        attrs: Its attributes.

    Raises:
        UnsupportedError: No function computes this op.
        OpError: The op cannot compute its outputs from these inputs.
    """
    import numpy

    with numpy.errstate(all="ignore"):
        return bind(op, attrs or {})(inputs)


def _plain(value: Any) -> Any:
    if isinstance(value, TensorBase):
        return cast("Tensor", value).numpy()
    if isinstance(value, tuple):
        return tuple(map(_plain, value))
    return value


def _outputs(found: Any) -> tuple[Any, ...]:
    return tuple(map(_array, found)) if type(found) is tuple else (_array(found),)


def _array(found: Any) -> Any:
    """A scalar of numpy, which arithmetic on arrays without dimensions gives, as such an array."""
    import numpy

    return numpy.asarray(found) if isinstance(found, numpy.generic) else found
