"""`Weights`: tensors by name, without a graph, and what their file says of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tfsmith.errors import UnsupportedError
from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.records import field, record

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfsmith.ir.keras import KerasFile

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
        keras: What else their Keras file says; None if they come from another file.
    """

    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, str] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    path: Path | None = None
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    keras: KerasFile | None = None

    @staticmethod
    def of(tensors: Mapping[str, Tensor | NDArray[Any]]) -> Weights:
        """From tensors or arrays by name. Copies no values."""
        if isinstance(tensors, Weights):
            return tensors
        return Weights({name: _tensor(one) for name, one in tensors.items()})

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


def _tensor(values: Tensor | NDArray[Any]) -> Tensor:
    return cast(Tensor, values) if hasattr(values, "write_to") else ArrayTensor.of(values)
