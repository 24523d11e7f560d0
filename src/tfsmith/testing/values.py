"""What flows along the edges of a graph that is being built: dtype, shape, and what is known of the values."""

from __future__ import annotations

from typing import Final

from tfsmith.ir.types import DType, Shape, dtype_named
from tfsmith.ops.sizes import Known
from tfsmith.records import record

__all__ = [
    "BOOL",
    "FLOAT32",
    "FLOAT64",
    "INT32",
    "INT64",
    "RESOURCE",
    "STRING",
    "Operation",
    "Output",
]

BOOL: Final = dtype_named("bool")
FLOAT32: Final = dtype_named("float32")
FLOAT64: Final = dtype_named("float64")
INT32: Final = dtype_named("int32")
INT64: Final = dtype_named("int64")
RESOURCE: Final = dtype_named("resource")
STRING: Final = dtype_named("string")


@record
class Output:
    """One output of a node."""

    node: str
    index: int
    dtype: DType
    known: Known

    @property
    def shape(self) -> Shape:
        """Its shape, as far as it is known."""
        return self.known.shape

    @property
    def dims(self) -> tuple[int, ...]:
        """Its dimensions, -1 where one is unknown; none at all for an unknown rank."""
        return self.known.shape.dims or ()

    @property
    def text(self) -> str:
        """How a node's input names it: "node", or "node:1"."""
        return self.node if self.index == 0 else f"{self.node}:{self.index}"

    @property
    def tensor_name(self) -> str:
        """How signatures and collections name it: always with its number, "node:0"."""
        return f"{self.node}:{self.index}"


@record
class Operation:
    """A node that was added."""

    name: str
    outputs: tuple[Output, ...]

    @property
    def out(self) -> Output:
        """The first output."""
        return self.outputs[0]
