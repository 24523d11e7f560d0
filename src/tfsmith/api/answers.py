"""F4: Answers on disk: an `.npz` that any numpy opens, written as a stream; and batches that run in chunks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith.api.feeding import find_input, unknown_input
from tfsmith.api.tolerance import difference, tolerance_for
from tfsmith.errors import UsageError
from tfsmith.formats.tensors.npz import write_arrays
from tfsmith.storage.place import Output
from tfsmith.storage.sink import explained

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tfsmith.api.running import Runner

__all__ = ["save_answers", "run_in_chunks", "batch_rows", "chunk_rows", "mixed_output"]

_CHUNK = 1 << 20
_CHUNK_BYTES = 1 << 25
"""Inputs of one chunk, at most."""
_INNER = 1000
"""What a model computes on the way may be so many times as large as its inputs: a BERT makes 3072 floats of an id."""
_LEAST_ROWS = 32
_LARGE = 8
"""A batch of so many chunks is large."""
_SOME = 4


def save_answers(
    answers: Mapping[str, NDArray[Any]],
    path: str | os.PathLike[str],
    *,
    inputs: Iterable[str | os.PathLike[str]] = (),
    force: bool = False,
) -> None:
    """Writes arrays by key, whole or not at all; memory does not grow with them.

    Strings are stored as numpy's bytes of a fixed length, for Python objects would have to be pickled.

    Raises:
        OutputError: It cannot be written there; what was there before is untouched.
    """
    with Output(path, inputs=inputs, force=force) as output:
        write_arrays(output.aside, answers)


def batch_rows(runner: Runner, feeds: Mapping[str, Any]) -> int | None:
    """How many rows a batch has: the first dimension of all inputs that leave it open; None if there is none.

    Raises:
        UsageError: They differ.
    """
    found = {key: len(feeds[name]) for name, key in _batched(runner, feeds).items()}
    if len(set(found.values())) > 1:
        told = ", ".join(f"{key} has {rows}" for key, rows in found.items())
        raise UsageError(f"the inputs are batches of different sizes: {told}", remedy="give all the same rows")
    return next(iter(found.values()), None)


def _batched(runner: Runner, feeds: Mapping[str, Any]) -> dict[str, str]:
    """The feeds that can be cut along their first dimension, with their keys."""
    import numpy

    found: dict[str, str] = {}
    for name, value in feeds.items():
        key = find_input(runner.inputs, name)
        if key is None:
            raise unknown_input(runner.inputs, name)
        dims = runner.inputs[key].shape.dims
        if isinstance(value, numpy.ndarray) and value.ndim and (dims is None or (len(dims) > 0 and dims[0] < 0)):
            found[name] = key
    return found


def chunk_rows(runner: Runner, feeds: Mapping[str, Any]) -> int:
    """How many rows of a large batch to run at a time; 0 for a batch that is not large, or is none. Reads no value."""
    rows = batch_rows(runner, feeds)
    if not rows:
        return 0
    row = max(1, sum(feeds[name].nbytes for name in _batched(runner, feeds)) // rows)
    chunk = min(max(_LEAST_ROWS, _CHUNK_BYTES // (_INNER * row)), max(1, _CHUNK_BYTES // row))
    return chunk if rows > _LARGE * chunk else 0


def mixed_output(runner: Runner, feeds: Mapping[str, Any]) -> str | None:
    """An output whose rows depend on the other rows of the batch, so that chunks would change it.

    Runs four rows of the batch, and two of them without the others. None if no output shows a difference.
    """
    rows = batch_rows(runner, feeds) or 0
    if rows < _SOME:
        return None
    some = (0, 1, rows - 2, rows - 1)
    batched = _batched(runner, feeds)
    four, two = (
        runner.run(
            {name: value[list(taken)] if name in batched else value for name, value in feeds.items()}, warn=False
        )
        for taken in (some, some[:2])
    )
    for key, values in four.items():
        if values.ndim == 0 or len(values) != len(some):
            return key
        if difference(values[:2], two[key], tolerance_for(values.dtype.name, reordered=True)).reason:
            return key
    return None


def run_in_chunks(
    runner: Runner,
    feeds: Mapping[str, Any],
    chunk: int,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, NDArray[Any]]:
    """Runs a batch that may be larger than memory, so many rows at a time.

    Args:
        runner: The compiled model.
        feeds: As `Runner.run` takes them; the large ones best memory-mapped.
        chunk: Rows at a time.
        folder: Where the answers are gathered; they are files there, mapped into memory.
        progress: Is told how many rows of how many are done.

    Raises:
        UsageError: There is no batch to cut, or an output does not have the batch as its first dimension.
    """
    rows = batch_rows(runner, feeds)
    if rows is None or chunk < 1:
        what = "there is no input whose first dimension is open" if chunk > 0 else "a chunk has at least one row"
        raise UsageError(what, remedy="leave the chunks out (--chunk 0)")
    batched = _batched(runner, feeds)
    gathered = {key: _Gathered(key, folder / f"{number}.bin") for number, key in enumerate(runner.outputs)}
    for start in range(0, max(rows, 1), chunk):
        stop = min(start + chunk, rows)
        part = {name: value[start:stop] if name in batched else value for name, value in feeds.items()}
        for key, values in runner.run(part).items():
            gathered[key].add(values, stop - start)
        if progress is not None:
            progress(stop, rows)
    return {key: found.whole(rows) for key, found in gathered.items()}


class _Gathered:
    """An output that comes in pieces: numbers go to a file, strings stay in memory."""

    def __init__(self, key: str, path: Path) -> None:
        self._key = key
        self._path = path
        self._inner: tuple[int, ...] = ()
        self._dtype: Any = None
        self._strings: list[NDArray[Any]] = []

    def add(self, values: NDArray[Any], rows: int) -> None:
        if values.ndim == 0 or len(values) != rows or self._dtype not in (None, values.dtype):
            what = f"output {self._key!r} has shape {list(values.shape)} for {rows} rows, so it is not one row for each"
            raise UsageError(what, remedy="run the batch in one (--chunk 0), or leave the output out (--fetch)")
        if self._dtype is not None and values.shape[1:] != self._inner:
            what = f"output {self._key!r} has rows of shape {list(values.shape[1:])} after {list(self._inner)}"
            raise UsageError(what, remedy="run the batch in one (--chunk 0), or leave the output out (--fetch)")
        self._dtype, self._inner = values.dtype, values.shape[1:]
        if values.dtype.kind == "O":
            self._strings.append(values)
            return
        with explained(self._path), open(self._path, "ab") as file:
            file.write(values.tobytes())

    def whole(self, rows: int) -> NDArray[Any]:
        import numpy

        shape = (rows, *self._inner)
        if self._strings:
            return numpy.concatenate(self._strings)
        if not rows or not all(self._inner):
            return numpy.empty(shape, self._dtype)
        return numpy.memmap(self._path, self._dtype, "r", shape=shape)
