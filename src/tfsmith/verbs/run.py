"""`run`: computes what a model gives for an input; `compile` keeps it ready for more."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.engines.compare import (
    ArrayDifference,
    Tolerance,
    blocks,
    compare_arrays,
    non_finite,
    tolerance_for,
)
from tfsmith.engines.feeds import check_names
from tfsmith.engines.program import ModelProgram, make_program
from tfsmith.engines.protocol import Lack, Options, Port, engine_named
from tfsmith.engines.runner import (
    AUTO,
    Runner,
    check_engine,
    chunk_rows,
    compile_other,
    compile_program,
    mixed_output,
    run_in_chunks,
)
from tfsmith.errors import EngineError, Hint, UsageError
from tfsmith.formats.write import inputs_of
from tfsmith.ir.model import Model
from tfsmith.records import record
from tfsmith.storage import explained
from tfsmith.storage.place import Output
from tfsmith.verbs._declare import checked
from tfsmith.verbs._feed_values import read_feeds
from tfsmith.verbs._files import save
from tfsmith.verbs._shared import Result, names_of, open_model
from tfsmith.view import Section, json_value

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import Unpack

    from tfsmith.verbs._shared import Feeds, Files, Loads, ModelOrPath, Names, Out, Progress

__all__ = ["FLAGS", "CrossCheck", "RunResult", "compile", "engine_lacks", "engine_options", "run"]

FLAGS = {"out": ("--output",), "outputs": ("--fetch",)}
_SHOWN = 6
"""Values of an output in the table."""
_MOST_JSON = 10_000
"""Values of an output in JSON; larger ones go to a file."""


@record
class CrossCheck:
    """The results of another engine, held against those of the first. It is true if they are the same.

    Attributes:
        engine: The other engine's name.
        version: Its version.
        outputs: How far apart the results are, by key.
        tolerances: How far apart they may be.
    """

    engine: str
    version: str
    outputs: Mapping[str, ArrayDifference]
    tolerances: Mapping[str, Tolerance]

    @property
    def is_same(self) -> bool:
        """Whether both engines computed the same."""
        return not any(found.reason for found in self.outputs.values())

    def __bool__(self) -> bool:
        return self.is_same

    def report(self, first: str) -> Iterator[Section | str]:
        """A row for each output, and the verdict."""
        rows = [
            (key, f"{found.max_abs:.3g}", f"{found.max_rel:.3g}", self.tolerances[key].shown(), found.reason or "same")
            for key, found in self.outputs.items()
        ]
        yield Section(f"cross-check on {self.engine}", rows, ("key", "max abs", "max rel", "allowed", "verdict"))
        said = "compute the same" if self.is_same else "differ"
        yield f"The engines {first} and {self.engine} {said}."

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {
            "engine": self.engine,
            "version": self.version,
            "same": self.is_same,
            "outputs": {
                key: {
                    "max_abs": found.max_abs,
                    "max_rel": found.max_rel,
                    "atol": self.tolerances[key].absolute,
                    "rtol": self.tolerances[key].relative,
                    "reason": found.reason,
                }
                for key, found in self.outputs.items()
            },
        }


@record(eq=False, repr=False)
class RunResult(Result, Mapping[str, Any]):
    """What a model computed: the arrays by key, as a mapping, and how they were computed.

    Attributes:
        results: The arrays by key.
        outputs: The tensor, dtype and shape of each, as the model says them.
        engine: The engine's name.
        version: The engine's version.
        refusals: Why engines before this one were passed over.
        seconds: How long each repetition took.
        out: Where the arrays were written, if they were.
        notes: What to beware of: values that are NaN or infinite, and how the engine computes.
        remarks: How it was run.
        crossed: How the results compare with those of another engine, if that was asked for.
    """

    results: Mapping[str, NDArray[Any]]
    outputs: Mapping[str, Port]
    engine: str
    version: str
    refusals: tuple[str, ...] = ()
    seconds: tuple[float, ...] = ()
    out: Path | None = None
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    crossed: CrossCheck | None = None

    def __getitem__(self, key: str) -> NDArray[Any]:
        return self.results[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __bool__(self) -> bool:
        return self.crossed is None or self.crossed.is_same

    def __repr__(self) -> str:
        return repr(dict(self.results))

    def report(self) -> Iterator[Section | str]:
        """A row for each output, how long the repetitions took, and how another engine compares."""
        rows = [(key, *_row(values)) for key, values in self.results.items()]
        yield Section("outputs", rows, ("key", "dtype", "shape", "min", "mean", "max", "values"))
        if self.seconds:
            times = (median(self.seconds), min(self.seconds), max(self.seconds), self._spread())
            row = (str(len(self.seconds)), *(f"{1000 * value:.2f} ms" for value in times))
            yield Section("time", [row], ("runs", "median", "fastest", "slowest", "spread"))
        if self.crossed is not None:
            yield from self.crossed.report(self.engine)

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        facts: dict[str, Any] = {
            "engine": self.engine,
            "version": self.version,
            "outputs": {
                key: {
                    "tensor": self.outputs[key].tensor,
                    "dtype": _dtype(values),
                    "shape": list(values.shape),
                    "values": json_value(values.tolist()) if values.size <= _MOST_JSON else None,
                }
                for key, values in self.results.items()
            },
            "warnings": non_finite(self.results),
        }
        if self.seconds:
            facts["seconds"] = {
                "runs": len(self.seconds),
                "median": median(self.seconds),
                "fastest": min(self.seconds),
                "slowest": max(self.seconds),
                "spread": self._spread(),
            }
        if self.crossed is not None:
            facts["cross_check"] = self.crossed.to_json()
        return facts

    def _spread(self) -> float:
        """The distance of the quartiles."""
        if len(self.seconds) < 2:
            return 0.0
        first, _, third = quantiles(self.seconds, n=4, method="inclusive")
        return third - first


@checked
def run(
    model: ModelOrPath,
    inputs: Feeds = (),
    outputs: Names = (),
    *,
    out: Out | None = None,
    signature: str | None = None,
    engine: str = AUTO,
    op_libraries: Files = (),
    repeat: int | None = None,
    batch: int = 1,
    seed: int = 0,
    chunk: int | None = None,
    cross_check: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    **shared: Unpack[Loads],
) -> RunResult:
    """Runs a model and shows what it computes.

    To run it again and again, `tfsmith.compile` it.

    Args:
        model: SavedModel folder, .meta, GraphDef, checkpoint prefix or folder.
        inputs: An input: .npy, .npz, .json or image file, JSON, text, random or zeros; without KEY for all inputs. In
            Python also arrays, numbers, texts or lists of them, by the signature's keys, or by names of tensors or
            nodes. An inner tensor that is fed replaces what would give it.
        outputs: What to compute: keys of the signature's outputs, or names of any tensors; its outputs by default.
        out: Store the arrays as .npz.
        signature: Which signature; serving_default, or the only one, by default.
        engine: openvino, reference, tensorflow, or auto for the first that is installed and can run the model.
        op_libraries: A library of custom ops, for TensorFlow.
        repeat: Run so many times more, and measure median and spread.
        batch: The batch size of random and zeros.
        seed: Of random inputs.
        chunk: Run so many rows of a batch at a time; 0 for never. By itself only where a batch is large.
        cross_check: Run it on another engine, too, and compare.
        force: Replace the file that is there.
        progress: Is called with the name of each step that begins.

    Returns:
        The arrays by key. It is false if a cross-check found a difference.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith run saved_model --input "x=[[1, 2, 3, 4]]"
        tfsmith run model.ckpt-1603 -i random --outputs loss/output -o out.npz
    """
    check_engine(engine)
    _check(repeat, batch, seed, chunk, out)
    step = progress or (lambda name: None)
    step("opening the model")
    program = _program(model, outputs, signature, shared)
    values, files = read_feeds(program.inputs, inputs, seed=seed, batch=batch)
    read = (*(() if program.path is None else (program.path,)), *inputs_of(program.model), *files)
    if out is not None:
        Output(out, inputs=read, force=force).check()  # before the long work
    program = program.feeding(values)
    check_names(program.inputs, values)
    step("compiling")
    options = engine_options(op_libraries)
    with _folder(out) as folder, compile_program(program, engine, options) as runner:
        step("running")
        rows, remarks, notes = _chunk(runner, values, chunk) if repeat is None else (0, (), ())
        results: dict[str, NDArray[Any]]
        seconds: list[float] = []
        if rows:
            tell = _rows_done(progress)
            results = run_in_chunks(runner, values, rows, Path(folder), tell)
        else:
            results = runner.run(values, warn=False)
            for _ in range(repeat or 0):
                start = time.perf_counter()
                results = runner.run(values, warn=False)
                seconds.append(time.perf_counter() - start)
        crossed: CrossCheck | None = None
        if cross_check:
            step("running on another engine")
            with _other(program, runner.engine, options) as other:
                crossed = _crossed(other, values, rows, Path(folder) / "other", results)
        if out is not None:
            from tfsmith.formats.tensors.npz import write_arrays

            step("writing")
            with Output(out, inputs=read, force=force) as output:
                write_arrays(output.aside, results)
        because = f", because {'; '.join(runner.refusals)}" if runner.refusals else ""
        return RunResult(
            results,
            runner.outputs,
            runner.engine,
            runner.version,
            runner.refusals,
            tuple(seconds),
            None if out is None else Path(out),
            (*runner.notes, *notes, *non_finite(results)),
            (f"engine: {runner.engine} {runner.version}{because}", *remarks),
            crossed,
        )


def _program(model: ModelOrPath, outputs: Names, signature: str | None, shared: Mapping[str, Any]) -> ModelProgram:
    """What is to run: a model of TensorFlow, or an ONNX file."""
    if isinstance(model, (str, os.PathLike)) and Path(model).suffix == ".onnx":
        from tfsmith.verbs._onnx import open_onnx  # few files are

        return open_onnx(model, names_of(outputs))
    source = open_model(model, shared, needs_graph="run")
    return make_program(source, names_of(outputs) or None, signature=signature)


def _other(program: ModelProgram, used: str, options: Options) -> Runner:
    found = compile_other(program, (used,), options)
    if found is None:
        remedy = "install another: pip install 'tfsmith[openvino]' or 'tfsmith[tensorflow]'"
        raise EngineError(f"no engine besides {used} can run it to compare", path=program.path, remedy=remedy)
    return found


def _crossed(
    other: Runner, feeds: Mapping[str, Any], rows: int, folder: Path, results: Mapping[str, NDArray[Any]]
) -> CrossCheck:
    """Runs the same on another engine, in as many chunks, and compares."""
    if rows:
        folder.mkdir()
    found = run_in_chunks(other, feeds, rows, folder) if rows else other.run(feeds, warn=False)
    tolerances = {key: tolerance_for(values.dtype.name, reordered=True) for key, values in results.items()}
    compared = {key: compare_arrays(values, found[key], tolerances[key]) for key, values in results.items()}
    return CrossCheck(other.engine, other.version, compared, tolerances)


def _check(repeat: int | None, batch: int, seed: int, chunk: int | None, out: Out) -> None:
    numbers = (("repeat", repeat, 1), ("batch", batch, 1), ("chunk", chunk, 0), ("seed", seed, 0))
    for name, value, least in numbers:
        if value is not None and value < least:
            raise UsageError(f"{{{name}={value}}} makes no sense", remedy=f"pass {least} or more")
    if repeat is not None and chunk:
        raise UsageError("{repeat} times one run, {chunk} makes many", remedy="leave one of them out")
    if out is not None and Path(out).suffix != ".npz":
        raise UsageError("results are stored as .npz", path=out, remedy="call it NAME.npz")


def _folder(out: Out) -> tempfile.TemporaryDirectory[str]:
    """Where results are gathered: beside the output, for the folder of temporary files may be in memory.

    What is mapped from there stays readable when the folder is gone.
    """
    beside = None if out is None or not Path(out).parent.is_dir() else Path(out).parent
    with explained(beside or Path(tempfile.gettempdir())):
        return tempfile.TemporaryDirectory(prefix=".tfsmith-", dir=beside, ignore_cleanup_errors=True)


def _chunk(runner: Runner, feeds: Mapping[str, Any], asked: int | None) -> tuple[int, tuple[str, ...], tuple[str, ...]]:
    """How many rows at a time, 0 for all at once, what to remark and what to warn of.

    By itself it cuts a batch only where that does not change the results.
    """
    chunk = chunk_rows(runner, feeds) if asked is None else asked
    mixed = mixed_output(runner, feeds) if chunk else None
    if mixed is not None and asked is None:
        return (
            0,
            (Hint(f"the batch is large, but runs in one: rows of output {mixed!r} depend on each other ({{chunk}})"),),
            (),
        )
    if mixed is not None:
        return chunk, (), (f"rows of output {mixed!r} depend on the other rows of their batch, so chunks change it",)
    if chunk and asked is None:
        return chunk, (f"the batch is large: it runs in chunks of {chunk} rows ({{chunk}})",), ()
    return chunk, (), ()


def _rows_done(progress: Progress | None) -> Any:
    return None if progress is None else lambda done, rows: progress(f"running: {done:,} of {rows:,} rows")


def _row(values: NDArray[Any]) -> tuple[str, ...]:
    """An output in the table: dtype, shape, smallest, mean and largest value, and the first ones."""
    import numpy

    flat = values.reshape(-1)
    shown = ", ".join(map(_short, flat[:_SHOWN].tolist())) + (", ..." if flat.size > _SHOWN else "")
    if values.dtype.kind in "Oc" or not flat.size:
        return _dtype(values), str(list(values.shape)), "", "", "", shown
    with numpy.errstate(all="ignore"):
        parts = [(block.min(), block.max(), block.sum(dtype=numpy.float64)) for block in blocks(values)]
        least, most, total = (numpy.array([part[index] for part in parts]) for index in range(3))
        facts = (least.min(), total.sum() / flat.size, most.max())
    return _dtype(values), str(list(values.shape)), *(_short(fact.item()) for fact in facts), shown


def _dtype(values: NDArray[Any]) -> str:
    return "string" if values.dtype.kind == "O" else values.dtype.name


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")[:60]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@checked
def compile(
    model: ModelOrPath,
    outputs: Names = (),
    *,
    signature: str | None = None,
    inputs: Names = (),
    engine: str = AUTO,
    op_libraries: Files = (),
    **shared: Unpack[Loads],
) -> Runner:
    """Makes a model ready to run, as often as wanted and from many threads.

    Args:
        model: A model, or its path.
        outputs: What to compute: keys of the signature's outputs, or names of any tensors; its outputs by default.
        signature: Which signature; serving_default, or the only one, by default.
        inputs: Names of inner tensors that are to be fed besides.
        engine: "openvino", "reference", "tensorflow", or "auto" for the first that can.
        op_libraries: Shared libraries with custom ops, for TensorFlow.
        **shared: Which meta graph, checkpoint and step, as `load` takes them.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    check_engine(engine)
    source = open_model(model, shared, needs_graph="run")
    program = make_program(source, names_of(outputs) or None, signature=signature, inputs=names_of(inputs))
    return compile_program(program, engine, engine_options(op_libraries))


def engine_options(op_libraries: Files = ()) -> Options:
    """How engines are to run a program: with these libraries of custom ops."""
    return Options(_write, tuple(map(Path, op_libraries)))


def _write(model: Model, path: Path, kind: Literal["pb", "saved_model"]) -> None:
    save(model, path, format=kind)


def engine_lacks(model: Model, engine: str, outputs: Names = (), *, signature: str | None = None) -> tuple[Lack, ...]:
    """What a model needs and an engine has not: ops with their nodes and the reason. Runs nothing.

    Raises:
        EngineError: The engine is not installed.
    """
    return engine_named(engine).lacks(make_program(model, names_of(outputs) or None, signature=signature))
