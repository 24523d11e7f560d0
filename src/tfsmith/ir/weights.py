"""`Weights`: tensors by name, without a graph, and what their file says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from tfsmith.errors import UnsupportedError
from tfsmith.ir.tensor import Tensor
from tfsmith.records import field, record

__all__ = ["Weights"]


@record(eq=False)
class Weights(Mapping[str, Tensor]):
    """A read-only mapping from names to tensors that are read when asked for.

    Attributes:
        tensors: The tensors, in the order of their file.
        metadata: What else the file says, as text by key.
        files: The files that hold them; none may be written to while the tensors are used.
        path: What the user called them.
        names: For tensors whose key is a path of Python attributes, the names of their variables, the best one first.
    """

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    path: Path | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __repr__(self) -> str:
        place = "" if self.path is None else f" {str(self.path)!r}"
        return f"<Weights{place}, {len(self)} tensors>"

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def verify(self) -> None:
        """Reads every tensor and checks its checksum, in constant memory.

        Raises:
            UnsupportedError: None has a checksum.
            ChecksumError: The first tensor that does not fit.
        """
        if True not in {tensor.verify() for tensor in self.tensors.values()}:
            remedy = "leave {checksums=True} out"
            raise UnsupportedError("this format keeps no checksums", path=self.path, remedy=remedy)
