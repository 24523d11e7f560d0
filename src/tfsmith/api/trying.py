"""F4: Inputs of a chosen size, and runs on them: what tries a changed model out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.api.feeding import check_names
from tfsmith.api.pairing import Sampler, pair_inputs
from tfsmith.api.program import ModelProgram, make_program
from tfsmith.api.running import compile
from tfsmith.engines.protocol import Port
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model
from tfsmith.ir.shape import Shape
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Feeds", "Trial", "batch_and_length", "check_sizes", "has_open_length", "make_feeds", "split_rows"]

Feeds = dict[str, "NDArray[Any]"]
_ROWS = 32
"""So many rows of data are run at a time, where the model leaves that open."""


@record
class Trial:
    """How to run models in TensorFlow.

    Attributes:
        outputs: What to fetch; what the model itself names by default.
        signature: Which signature.
        libraries: Shared libraries with custom ops.
    """

    outputs: tuple[str, ...] = ()
    signature: str | None = None
    libraries: tuple[Path, ...] = ()

    def program(self, model: Model) -> ModelProgram:
        """The model with these inputs and outputs."""
        return make_program(model, self.outputs or None, signature=self.signature)

    def run(self, model: Model, feeds: Iterable[Mapping[str, NDArray[Any]]]) -> list[Feeds]:
        """The answers to each of several feeds. Starts TensorFlow once."""
        with compile(
            model,
            self.outputs or None,
            signature=self.signature,
            engine="tensorflow",
            op_libraries=self.libraries,
        ) as runner:
            return [
                runner.run({key: value for key, value in one.items() if key in runner.inputs}, warn=False)
                for one in feeds
            ]


def has_open_length(program: ModelProgram) -> bool:
    """Whether sequences of any length can be fed."""
    return any(-1 in (port.shape.dims or ())[1:2] for port in program.inputs.values())


def check_sizes(program: ModelProgram, batch: int | None, length: int | None) -> None:
    """Sees that a model takes batches of this size and sequences of this length, where these are asked for.

    Raises:
        UsageError: The model fixes another size.
    """
    for port in program.inputs.values():
        dims = port.shape.dims or ()
        if not port.required or len(dims) < 2:
            continue
        if batch is not None and dims[0] not in (-1, batch):
            raise UsageError(f"the model takes batches of {dims[0]}, and no others", remedy="leave --batch-size out")
        if length is not None and dims[1] not in (-1, length):
            remedy = "leave --sequence-length out"
            raise UsageError(f"the model takes sequences of {dims[1]}, and no others", remedy=remedy)


def make_feeds(program: ModelProgram, batch: int, length: int, *, seed: int) -> Feeds:
    """Inputs made up for a model: ids of its vocabulary, sentences that are padded.

    Args:
        program: The model.
        batch: The size of first dimensions that the model leaves open.
        length: The size of other dimensions that it leaves open.
        seed: Of random numbers.
    """
    import numpy

    sized = {key: _sized(port, batch, length) for key, port in program.inputs.items()}
    same = ModelProgram(program.model, sized, program.outputs, program.signature, program.is_plain)
    return Sampler(same, same, pair_inputs(same, same)).make(batch, numpy.random.default_rng(seed))


def _sized(port: Port, batch: int, length: int) -> Port:
    if port.shape.dims is None:
        return port
    dims = (size if size >= 0 else length if number else batch for number, size in enumerate(port.shape.dims))
    return Port(port.tensor, port.dtype, Shape(tuple(dims)), port.required)


def batch_and_length(feeds: Mapping[str, NDArray[Any]]) -> tuple[int | None, int | None]:
    """The batch size and the length of sequences in what is fed; None where no input has them."""
    shapes = [value.shape for value in feeds.values() if value.ndim > 1]
    return (int(shapes[0][0]), int(shapes[0][1])) if shapes else (None, None)


def split_rows(program: ModelProgram, data: Mapping[str, Any]) -> tuple[list[Feeds], int]:
    """Data in batches that the model takes, by the keys of its inputs; and how many rows they are together.

    Rows at the end that do not fill a batch of the size that the model fixes are left out.

    Raises:
        TfsmithError: An input is missing or unknown, or they have different numbers of rows.
    """
    import numpy

    keys = check_names(program.inputs, data)
    values = {keys[name]: numpy.asarray(value) for name, value in data.items()}
    counts = {key: len(value) if value.ndim else 0 for key, value in values.items()}
    if len(set(counts.values())) != 1:
        told = ", ".join(f"{key} has {count}" for key, count in counts.items())
        raise UsageError(f"the data has different numbers of rows: {told}", remedy="give all the same rows")
    rows = next(iter(counts.values()))
    first = [dims[0] for key in values if (dims := program.inputs[key].shape.dims)]
    size = next((one for one in first if one > 0), None)
    used = rows if size is None else rows - rows % size
    if not used:
        remedy = "give as many, or export the model with another --batch-size"
        raise UsageError(f"{rows} rows of data do not fill a batch of {size or 1}", remedy=remedy)
    step = size or _ROWS
    starts = range(0, used, step)
    return [{key: value[start : min(start + step, used)] for key, value in values.items()} for start in starts], used
