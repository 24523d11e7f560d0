"""A program that is ready to run: the engine is chosen, feeds are checked, large batches run in chunks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tfsmith.engines.choose import compile_on
from tfsmith.engines.compare import compare_arrays, non_finite, tolerance_for
from tfsmith.engines.feeds import bind_feeds, find_input, unknown_input
from tfsmith.engines.onnxruntime import OnnxProgram
from tfsmith.engines.program import ModelProgram
from tfsmith.engines.protocol import ENGINES, Compiled, LackError, Options, Port, engine_named
from tfsmith.engines.split import SPLIT, compile_split
from tfsmith.errors import EngineError, TfsmithError, UsageError
from tfsmith.storage import explained

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "AUTO",
    "Runner",
    "batch_rows",
    "check_engine",
    "chunk_rows",
    "compile_other",
    "compile_program",
    "mixed_output",
    "run_in_chunks",
]

AUTO = "auto"
_SECOND = ("reference", "tensorflow", "openvino")
"""Engines that say whether another one is right, the most exact first."""
_CHUNK_BYTES = 1 << 25
"""Inputs of one chunk, at most."""
_INNER = 1000
"""What a model computes on the way may be so many times as large as its inputs: a BERT makes 3072 floats of an id."""
_LEAST_ROWS = 32
_LARGE = 8
"""A batch of so many chunks is large."""
_SOME = 4


def check_engine(name: str) -> None:
    """Checks that there is an engine of this name. Loads nothing.

    Raises:
        UsageError: There is none.
    """
    if name != AUTO:
        engine_named(name)


def compile_program(program: ModelProgram, engine: str, options: Options) -> Runner:
    """Makes a program ready to run, on the engine of this name, or with "auto" on the first that is proven to.

    Raises:
        EngineError: No engine is installed that has all that the program needs.
        UsageError: There is no such engine.
    """
    if isinstance(program, OnnxProgram):
        return Runner(program, "onnxruntime", program.compiled())
    names = ENGINES if engine == AUTO else (engine,)
    if engine == AUTO and options.op_libraries:
        names = ("tensorflow",)  # the only one that can load them
    refusals: list[str] = []
    error: TfsmithError | None = None
    for name in names:
        found = engine_named(name)
        try:
            missing = found.available()
            if missing is not None and len(names) > 1:
                refusals.append(missing)
                continue
            compiled = compile_on(found, program, options, only_proven=engine == AUTO)
            return Runner(program, name, compiled, tuple(refusals))
        except LackError as refused:
            error = refused
            refusals.append(refused.what)
            parts = compile_split(program, options, refused.lacks) if name == "openvino" and engine == AUTO else None
            if parts is not None:
                return Runner(program, SPLIT, parts)
        except TfsmithError as refused:
            if name == names[-1]:
                raise
            error = refused
            refusals.append("; ".join(part for part in (refused.what, refused.remedy) if part))
    if error is not None and len(refusals) == 1:
        raise error
    reasons = "; ".join(refusals)
    remedy = None if error is None or "pip install" in reasons else error.remedy  # that of the last, which can most
    raise EngineError(f"no engine can run it: {reasons}", path=program.path, remedy=remedy)


def compile_other(program: ModelProgram, used: Collection[str], options: Options) -> Runner | None:
    """Makes a program ready to run on an engine besides these: the first that can; None if none can."""
    for name in _SECOND:
        if name in used or engine_named(name).available() is not None:
            continue
        try:
            return compile_program(program, name, options)
        except TfsmithError:  # it cannot; there may be another
            continue
    return None


class Runner:
    """A model that is ready to run. Close it, or use it as a context, to let go of the engine.

    Many threads may call it: one run follows the other, and each uses all cores.

    Attributes:
        inputs: What it takes, by key: tensor, dtype, shape, and whether it is required.
        outputs: What it computes, by key.
        engine: The engine's name.
        version: The engine's version.
        refusals: Why engines before this one were passed over.
    """

    def __init__(self, program: ModelProgram, engine: str, compiled: Compiled, refusals: tuple[str, ...] = ()) -> None:
        self.inputs: Mapping[str, Port] = program.inputs
        self.outputs: Mapping[str, Port] = program.outputs
        self.engine = engine
        self.version = compiled.version
        self.refusals = refusals
        self._path = program.path
        self._compiled: Compiled | None = compiled
        self._lock = Lock()

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know of how the engine computes, and what the model printed; nothing once it is closed."""
        compiled = self._compiled
        return () if compiled is None else compiled.notes

    def __repr__(self) -> str:
        state = " (closed)" if self._compiled is None else ""
        return f"<Runner {self.engine} {self.version}{state}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    def run(self, feeds: Mapping[str, Any], *, warn: bool = True) -> dict[str, NDArray[Any]]:
        """Runs once.

        Args:
            feeds: Arrays, numbers, texts or lists of them, by key, or by names of tensors or nodes.
            warn: Whether to warn of results that are NaN or infinite.

        Raises:
            NotFoundInModelError: There is no such input.
            UsageError: An input is missing, or of another type or shape than the model wants.
            EngineError: The engine failed, or the runner was closed.
        """
        results = self.run_bound(bind_feeds(self.inputs, feeds))
        for note in non_finite(results) if warn else ():
            warnings.warn(note, RuntimeWarning, stacklevel=2)
        return results

    def run_bound(self, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Runs once, on what `bind_feeds` made; warns of nothing.

        Raises:
            EngineError: The engine failed, or the runner was closed.
        """
        with self._lock:
            if self._compiled is None:
                raise EngineError("the runner was closed", path=self._path, remedy="compile the model again")
            return self._compiled.run(feeds)

    def close(self) -> None:
        """Lets go of the engine when no run is under way; may be called again."""
        with self._lock:
            compiled, self._compiled = self._compiled, None
        if compiled is not None:
            compiled.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def batch_rows(runner: Runner, feeds: Mapping[str, Any]) -> int | None:
    """How many rows a batch has: the first dimension of all inputs that leave it open; None if there is none.

    Raises:
        UsageError: They differ.
    """
    found = {key: len(feeds[name]) for name, key in _batched(runner, feeds).items()}
    if len(set(found.values())) > 1:
        sizes = ", ".join(f"{key} has {rows}" for key, rows in found.items())
        raise UsageError(f"the inputs are batches of different sizes: {sizes}", remedy="give all the same rows")
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
        if compare_arrays(values[:2], two[key], tolerance_for(values.dtype.name, reordered=True)).reason:
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
        folder: Where the results are gathered; they are files there, mapped into memory.
        progress: Is called with how many rows of how many are done.

    Raises:
        UsageError: There is no batch to cut, or an output does not have the batch as its first dimension.
    """
    rows = batch_rows(runner, feeds)
    if rows is None or chunk < 1:
        what = "there is no input whose first dimension is open" if chunk > 0 else "a chunk has at least one row"
        raise UsageError(what, remedy="run the batch in one")
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
            raise UsageError(what, remedy="run the batch in one, or leave the output out")
        if self._dtype is not None and values.shape[1:] != self._inner:
            what = f"output {self._key!r} has rows of shape {list(values.shape[1:])} after {list(self._inner)}"
            raise UsageError(what, remedy="run the batch in one, or leave the output out")
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
