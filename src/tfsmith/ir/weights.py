"""`Weights`: tensors by name, without a graph, and what their file says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tfsmith.ir.tensor import Tensor

__all__ = ["Weights"]


@dataclass(frozen=True, slots=True, eq=False)
class Weights(Mapping[str, Tensor]):
    """A read-only mapping from names to tensors that are read when asked for.

    Attributes:
        tensors: The tensors, in the order of their file.
        metadata: What else the file says, as text by key.
        files: The files that hold them; none may be written to while the tensors are used.
        path: What the user called them.
    """

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    path: Path | None = None

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)
