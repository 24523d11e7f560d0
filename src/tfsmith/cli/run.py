"""`tfsmith run MODEL --input KEY=VALUE...`: asks a model, and shows or stores what it answers."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfsmith import api
from tfsmith.cli.common import DONE, complain, emit, warn
from tfsmith.cli.render import Section, print_sections
from tfsmith.cli.run_values import InputReader
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model
from tfsmith.storage.place import Output
from tfsmith.storage.sink import explained

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["add_arguments", "work"]

_SHOWN = 6
"""Values of an output in the table."""
_MOST_JSON = 10_000
"""Values of an output in JSON; larger ones go to a file (`-o`)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    parser.add_argument(
        "model", metavar="MODEL", help="SavedModel folder, .meta, GraphDef, checkpoint prefix or folder"
    )
    parser.add_argument(
        "-i",
        "--input",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="an input: .npy, .npz, .json or image file, JSON, text, random or zeros; without KEY for all inputs",
    )
    parser.add_argument("--signature", metavar="K", help="which signature (serving_default, or the only one)")
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of a SavedModel, as tags joined by commas")
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--step", type=int, metavar="N", help="which checkpoint of a folder (the latest by default)")
    parser.add_argument(
        "--fetch", metavar="NAME", action="append", default=[], help="answer this: an output's key, or any NAME:0"
    )
    parser.add_argument("--outputs", metavar="A,B", help="the same, several joined by commas")
    parser.add_argument("--engine", default="auto", help="openvino, tensorflow or auto (the first that can)")
    parser.add_argument(
        "--op-library", metavar="SO", action="append", default=[], help="a library of custom ops, for TensorFlow"
    )
    parser.add_argument("--repeat", type=int, metavar="N", help="run N times more, and tell median and spread")
    parser.add_argument("--batch", type=int, metavar="N", default=1, help="the batch size of random and zeros")
    parser.add_argument("--seed", type=int, metavar="N", default=0, help="of random inputs")
    parser.add_argument("--chunk", type=int, metavar="N", help="run so many rows of a batch at a time (0: never)")
    parser.add_argument("-o", "--output", metavar="OUT.npz", help="store the answers")
    parser.add_argument("--force", action="store_true", help="with -o: replace what is there")
    parser.add_argument("--json", action="store_true", help="tell the answers as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    _check(arguments)
    tags = None if arguments.tag_set is None else [tag for tag in arguments.tag_set.split(",") if tag]
    model = api.load(arguments.model, tags=tags, checkpoint=arguments.checkpoint, step=arguments.step)
    fetches = [*arguments.fetch, *(name.strip() for name in (arguments.outputs or "").split(",") if name.strip())]
    names = [text.partition("=")[0] for text in arguments.input if "=" in text]
    inputs, _ = _inputs(model, arguments, fetches, names)
    reader = InputReader(inputs, seed=arguments.seed, batch=arguments.batch)
    feeds = reader.read(arguments.input)
    sources = [*api.inputs_of(model), *reader.files]
    if arguments.output is not None:
        Output(arguments.output, inputs=sources, force=arguments.force).check()  # before the long work
    inputs, inner = _inputs(model, arguments, fetches, feeds)
    api.check_names(inputs, feeds)
    with (
        _folder(arguments.output) as folder,
        api.compile(
            model,
            fetches or None,
            signature=arguments.signature,
            inputs=inner,
            engine=arguments.engine,
            op_libraries=arguments.op_library,
        ) as runner,
    ):
        because = f", because {'; '.join(runner.refusals)}" if runner.refusals else ""
        complain(f"engine: {runner.engine} {runner.version}{because}")
        warn(runner.notes)
        answers, times = _answer(arguments, runner, feeds, Path(folder))
        warn(api.not_a_number(answers))
        if arguments.output is not None:
            api.save_answers(answers, arguments.output, inputs=sources, force=arguments.force)
        _tell(arguments, runner, answers, times)
        del answers  # they may be files of the folder
    return DONE


def _inputs(
    model: Model, arguments: argparse.Namespace, fetches: list[str], names: Iterable[str]
) -> tuple[Mapping[str, api.Port], list[str]]:
    """The inputs by key, and the inner tensors among these names, which are inputs then."""
    known, _ = api.interface(model, fetches or None, signature=arguments.signature)
    inner = [name for name in names if api.find_input(known, name) is None and api.has_tensor(model, name)]
    if inner:
        known, _ = api.interface(model, fetches or None, signature=arguments.signature, inputs=inner)
    return known, inner


def _folder(output: str | None) -> tempfile.TemporaryDirectory[str]:
    """Where answers are gathered: beside the output, for the folder of temporary files may be in memory."""
    beside = None if output is None or not Path(output).parent.is_dir() else Path(output).parent
    with explained(beside or Path(tempfile.gettempdir())):
        return tempfile.TemporaryDirectory(prefix=".tfsmith-", dir=beside)


def _check(arguments: argparse.Namespace) -> None:
    for name, least in (("repeat", 1), ("batch", 1), ("chunk", 0), ("seed", 0)):
        value = getattr(arguments, name)
        if value is not None and value < least:
            raise UsageError(f"--{name} {value} makes no sense", remedy=f"pass {least} or more")
    if arguments.repeat is not None and arguments.chunk:
        raise UsageError("--repeat times one run, --chunk makes many", remedy="leave one of them out")
    if arguments.output is not None and Path(arguments.output).suffix != ".npz":
        raise UsageError("answers are stored as .npz", path=arguments.output, remedy="call it NAME.npz")


def _answer(
    arguments: argparse.Namespace, runner: api.Runner, feeds: Mapping[str, Any], folder: Path
) -> tuple[dict[str, NDArray[Any]], list[float]]:
    """The answers, and how long each repetition took; the first run is a warm-up."""
    chunk = _chunk(arguments, runner, feeds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # told once, of all chunks
        if chunk:
            return api.run_in_chunks(runner, feeds, chunk, folder, _progress()), []
        answers = runner.run(feeds)
        times: list[float] = []
        for _ in range(arguments.repeat or 0):
            start = time.perf_counter()
            answers = runner.run(feeds, warn=False)
            times.append(time.perf_counter() - start)
    return answers, times


def _chunk(arguments: argparse.Namespace, runner: api.Runner, feeds: Mapping[str, Any]) -> int:
    """How many rows at a time; 0 for all at once. By itself only where that does not change the answers."""
    if arguments.repeat is not None:
        return 0
    chunk = api.chunk_rows(runner, feeds) if arguments.chunk is None else int(arguments.chunk)
    mixed = api.mixed_output(runner, feeds) if chunk else None
    if mixed is not None and arguments.chunk is None:
        complain(f"the batch is large, but runs in one: rows of output {mixed!r} depend on each other (--chunk N)")
        return 0
    if mixed is not None:
        warn([f"rows of output {mixed!r} depend on the other rows of their batch, so chunks change it"])
    elif chunk and arguments.chunk is None:
        complain(f"the batch is large: it runs in chunks of {chunk} rows (--chunk)")
    return chunk


def _progress() -> Callable[[int, int], None] | None:
    """Tells on a terminal how far it is, where it takes more than a second."""
    if not sys.stderr.isatty():
        return None
    begun = time.monotonic()

    def tell(done: int, rows: int) -> None:
        if time.monotonic() - begun > 1:
            sys.stderr.write(f"\r{done:,} of {rows:,} rows{chr(10) if done == rows else ''}")

    return tell


def _tell(
    arguments: argparse.Namespace, runner: api.Runner, answers: Mapping[str, NDArray[Any]], times: list[float]
) -> None:
    if arguments.json:
        emit(json.dumps(_facts(runner, answers, times), indent=2, allow_nan=False) + "\n")
        return
    rows = [(key, *_row(values)) for key, values in answers.items()]
    sections = [Section("outputs", rows, ("key", "dtype", "shape", "min", "mean", "max", "values"))]
    if times:
        sections.append(Section("time", [_time(times)], ("runs", "median", "fastest", "slowest", "spread"), ()))
    print_sections(sections)


def _time(times: list[float]) -> tuple[str, ...]:
    """The spread is the distance of the quartiles."""
    spread = _spread(times)
    shown = (f"{1000 * value:.2f} ms" for value in (statistics.median(times), min(times), max(times), spread))
    return (str(len(times)), *shown)


def _spread(times: list[float]) -> float:
    if len(times) < 2:
        return 0.0
    first, _, third = statistics.quantiles(times, n=4, method="inclusive")
    return third - first


def _row(values: NDArray[Any]) -> tuple[str, ...]:
    import numpy

    flat = values.reshape(-1)
    shown = ", ".join(map(_short, flat[:_SHOWN].tolist())) + (", ..." if flat.size > _SHOWN else "")
    dtype = "string" if values.dtype.kind == "O" else values.dtype.name
    if values.dtype.kind in "Oc" or not flat.size:
        return dtype, str(list(values.shape)), "", "", "", shown
    with numpy.errstate(all="ignore"):
        parts = [(block.min(), block.max(), block.sum(dtype=numpy.float64)) for block in api.blocks(values)]
        least, most, total = (numpy.array([part[index] for part in parts]) for index in range(3))
        facts = (least.min(), total.sum() / flat.size, most.max())
    return dtype, str(list(values.shape)), *(_short(fact.item()) for fact in facts), shown


def _short(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")[:60]
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _facts(runner: api.Runner, answers: Mapping[str, NDArray[Any]], times: list[float]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "engine": runner.engine,
        "version": runner.version,
        "outputs": {
            key: {
                "tensor": runner.outputs[key].tensor,
                "dtype": "string" if values.dtype.kind == "O" else values.dtype.name,
                "shape": list(values.shape),
                "values": _plain(values.tolist()) if values.size <= _MOST_JSON else None,
            }
            for key, values in answers.items()
        },
        "warnings": api.not_a_number(answers),
    }
    if times:
        facts["seconds"] = {
            "runs": len(times),
            "median": statistics.median(times),
            "fastest": min(times),
            "slowest": max(times),
            "spread": _spread(times),
        }
    return facts


def _plain(value: Any) -> Any:
    """As JSON can hold it: bytes are text, and what is no number is text, too."""
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, complex):
        return [_plain(value.real), _plain(value.imag)]
    if isinstance(value, float) and not -float("inf") < value < float("inf"):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return value
