"""The lowerings by op, and what each of them is handed: a node with its inputs and attributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from tfsmith.ir.node import Attr, Node
from tfsmith.ir.types import DType
from tfsmith.onnx.builder import Builder, Refusal, Val
from tfsmith.ops.sizes import Known
from tfsmith.records import record

if TYPE_CHECKING:
    from tfsmith.onnx.lower import Driver

__all__ = [
    "Complex",
    "Lowering",
    "NodeContext",
    "Result",
    "complex_lowering",
    "is_lowered",
    "lowering",
    "lowering_of",
    "lowerings",
]

_MODULES: tuple[str, ...] = (
    "elementwise",
    "reductions",
    "arrays",
    "matrices",
    "convolution",
    "images",
    "boxes",
    "segments",
    "sparse",
    "diagonals",
    "strings",
    "signal",
    "quantize",
    "random_numbers",
    "flow",
    "tables",
)
"""The families; each module declares its lowerings when it is loaded."""
_FOUND: dict[str, Lowering] = {}
_OF_COMPLEX: dict[str, Lowering] = {}
Result: TypeAlias = "Val | Sequence[Val | None]"
_Function = TypeVar("_Function", bound=Callable[..., Any])


@record(eq=False)
class Complex:
    """What stands for complex numbers: their real and their imaginary parts."""

    real: Val
    imaginary: Val


@record
class Lowering:
    """How an op becomes ONNX.

    Attributes:
        function: Emits it: takes the node, returns its outputs.
        elementwise: Whether it works element by element, so that it may run with the channels first.
    """

    function: Callable[[NodeContext], Result]
    elementwise: bool = False


def lowering(ops: str, *, elementwise: bool = False) -> Callable[[_Function], _Function]:
    """Declares the function that lowers these ops."""

    def declare(function: _Function) -> _Function:
        for op in ops.split():
            assert op not in _FOUND, f"{op} has two lowerings"
            _FOUND[op] = Lowering(function, elementwise)
        return function

    return declare


def complex_lowering(ops: str) -> Callable[[_Function], _Function]:
    """Declares the function that lowers these ops where complex numbers come in."""

    def declare(function: _Function) -> _Function:
        for op in ops.split():
            assert op not in _OF_COMPLEX, f"{op} has two lowerings"
            _OF_COMPLEX[op] = Lowering(function)
        return function

    return declare


def lowering_of(op: str, inputs: Sequence[Val]) -> Lowering | None:
    """The lowering of an op with these inputs; None if there is none."""
    found = lowerings().get(op)
    if any(isinstance(one.held, Complex) for one in inputs):
        return _OF_COMPLEX.get(op)
    return found


@cache
def lowerings() -> Mapping[str, Lowering]:
    """All lowerings by op. Loads every family the first time."""
    for module in _MODULES:
        import_module(f"tfsmith.onnx.{module}")
    return MappingProxyType(_FOUND)


def is_lowered(op: str) -> bool:
    """Whether an op has a lowering."""
    return op in lowerings()


class NodeContext:
    """A node that is to be lowered.

    Attributes:
        driver: Lowers functions that the node calls.
        b: Emits nodes.
        node: The node.
        attrs: Its attributes, with the defaults of the op's definition.
        inputs: Its data inputs, lists flat.
        known: What is known of each output.
        dtypes: The type of each output.
    """

    def __init__(
        self,
        driver: Driver,
        node: Node,
        attrs: Mapping[str, Attr],
        inputs: Sequence[Val],
        known: Sequence[Known],
        dtypes: Sequence[DType | None],
    ) -> None:
        self.driver = driver
        self.b: Builder = driver.b
        self.node = node
        self.attrs = attrs
        self.inputs = list(inputs)
        self.known = list(known)
        self.dtypes = list(dtypes)

    @property
    def op(self) -> str:
        """The node's op."""
        return self.node.op

    @property
    def x(self) -> Val:
        """The first input."""
        return self.inputs[0]

    @property
    def y(self) -> Val:
        """The second input."""
        return self.inputs[1]

    @property
    def out(self) -> Known:
        """What is known of the first output."""
        return self.known[0]

    @property
    def rank(self) -> int:
        """The rank of the first output.

        Raises:
            Refusal: Nobody knows it.
        """
        if self.known[0].dims is None:
            raise Refusal("the rank of its output is not known before it runs")
        return len(self.known[0].dims)

    @property
    def dtype(self) -> DType:
        """The type of the first output."""
        found = self.dtypes[0]
        if found is None:
            raise Refusal("the type of its output is not known")
        return found.base

    def attr(self, name: str) -> Any:
        """The plain value of an attribute; None where it is not there."""
        found = self.attrs.get(name)
        return None if found is None else found.value

    def text(self, name: str) -> str:
        """An attribute that is a string."""
        found = self.attr(name)
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else ""

    def ints(self, name: str) -> list[int]:
        """An attribute that is a list of integers."""
        found = self.attr(name)
        return [int(one) for one in found] if isinstance(found, tuple) else []

    def allow(self, *names: str, what: Val | None = None) -> None:
        """Refuses types that are not among these.

        Raises:
            Refusal: The type of the first input, or of `what`, is another.
        """
        kind = (what or self.x).dtype.name
        if kind not in names:
            raise Refusal(f"it is not lowered for {kind}")
