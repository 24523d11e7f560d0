"""`optimize`: the encoder of a BERT becomes one optimized op, proven against the original and timed beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Literal

from tfsmith import bert_op
from tfsmith.engines.compare import Tolerance, compare_arrays, tolerance_for
from tfsmith.engines.feeds import bind_feeds
from tfsmith.engines.program import ModelProgram, make_program
from tfsmith.engines.runner import compile_program
from tfsmith.engines.samples import (
    Arrays,
    batch_and_length,
    check_sizes,
    has_open_length,
    make_feeds,
    split_rows,
    with_hidden_row,
)
from tfsmith.engines.tensorflow import measure_speed
from tfsmith.errors import EngineError, Hint, UsageError
from tfsmith.formats import destination_of
from tfsmith.formats.write import inputs_of
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.types import dtype_named
from tfsmith.passes.bert_node import (
    BERT,
    Ranges,
    bert_nodes,
    change_bert_nodes,
    quantize_bert_nodes,
    served_bert_nodes,
)
from tfsmith.records import record, replace
from tfsmith.verbs._declare import checked
from tfsmith.verbs._feed_values import read_feeds
from tfsmith.verbs._files import load, place_model
from tfsmith.verbs._shared import Result, names_of, open_model, output_name, size_of, sized
from tfsmith.verbs.replace import Replaced
from tfsmith.verbs.replace import replace as replace_nodes
from tfsmith.verbs.run import engine_options
from tfsmith.verbs.verify import Verified, verify_on
from tfsmith.view import Section

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tfsmith.verbs._shared import Feeds, Files, Loads, ModelOrPath, Names, Out, Progress

__all__ = ["FLAGS", "Accuracy", "Optimized", "Speed", "compare_results", "fuse_encoder", "optimize"]

FLAGS = {"out": ("--output",), "inputs": ("--inputs",)}
_RECIPE = "bert-encoder"
_MISSES = ("skipped", "reason", "nearest_miss")

_LONGEST = 512
"""What BERT's own position embeddings allow, for models that leave the length open."""
_VERIFIED_ROWS = 3
_ODD_LENGTHS = (37, 7, 3, 1)
"""No multiples of what the op computes at a time."""
_NEAR = Tolerance(1e-4, 1e-4)
"""How far float32 may be from the original."""
_FLOAT = Attr("type", dtype_named("float32"))
_ANY = Tolerance(0.0, float("inf"))


@record
class Speed:
    """How fast two models ran, in turns, in one TensorFlow.

    Attributes:
        before: Seconds of each run of the original.
        after: Seconds of each run of the result.
        batch: The batch size that was run; None if no input has one.
        sequence_length: The length of sequences that was run.
    """

    before: tuple[float, ...]
    after: tuple[float, ...]
    batch: int | None
    sequence_length: int | None

    @property
    def before_ms(self) -> float:
        """The median of the original, in milliseconds."""
        return 1000 * median(self.before)

    @property
    def after_ms(self) -> float:
        """The median of the result."""
        return 1000 * median(self.after)

    @property
    def speedup(self) -> float:
        """How many times faster the result is."""
        return self.before_ms / self.after_ms


@record
class Accuracy:
    """How far the results on the calibration data are from those of the original.

    Attributes:
        key: The output.
        max_abs: The largest difference; infinite where one of them is no number.
        same_argmax: In which share of rows the largest value is the same one; None if the output has no such rows.
    """

    key: str
    max_abs: float
    same_argmax: float | None


@record
class Optimized(Result):
    """What optimizing gave. It is true if the result computes what the original does, and is not slower or was wanted.

    Attributes:
        replaced: The encoders that were found; if there are none, the reason, and the nearest miss.
        out: The file or folder; None if nothing was written, as no encoder was found or the results differ.
        verified: The original against the result, in float32 or bfloat16; None if that was not asked for.
        speed: How fast both are; None if that was not asked for, or the results differ.
        accuracy: With calibration: the original against the result in int8, output by output.
        rows: How many rows of calibration data were run.
        notes: What the user should know.
    """

    replaced: Replaced
    out: Path | None = None
    verified: Verified | None = None
    speed: Speed | None = None
    accuracy: tuple[Accuracy, ...] = ()
    rows: int = 0
    notes: tuple[object, ...] = ()

    @property
    def model(self) -> Model:
        """The model with the optimized op; the original if no encoder was found."""
        return self.replaced.model

    @property
    def is_right(self) -> bool:
        """Whether the result computes what the original does, as far as that was asked; int8 must give numbers."""
        is_same = self.verified is None or self.verified.is_same
        return bool(self.replaced.matches) and is_same and all(one.max_abs < float("inf") for one in self.accuracy)

    @property
    def is_slower(self) -> bool:
        """Whether it was timed, and the result takes longer than the original."""
        return self.speed is not None and self.speed.speedup < 1

    def __bool__(self) -> bool:
        return self.is_right and (not self.is_slower or self.out is not None)

    @property
    def max_abs_diff(self) -> float | None:
        """The largest difference between results of the original and of what was written; None if none was run."""
        found = [one.max_abs for one in self.accuracy]
        found = found or ([] if self.verified is None else [one.max_abs for one in self.verified.outputs])
        return max(found, default=None)

    @property
    def remarks(self) -> tuple[str, ...]:
        """That it got slower, or was not written."""
        found: list[str] = []
        if self.is_slower:  # without AMX, small models, or a busy machine
            slow = "the result is slower than the original here"
            what = "" if self.out is not None else ", so it was not written; {force=True} writes it all the same"
            found.append(Hint(f"{slow}{what}; time it again with more {{repeat}}, on the sizes that you use"))
        if self.replaced.matches and not self.is_right:
            found.append("error: the result does not answer as the original does; it was not written")
        return tuple(found)

    def report(self) -> Iterator[Section | str]:
        """The encoders, and tables of what was verified, calibrated and timed."""
        yield from self.replaced.report()
        if self.verified is not None:
            rows = [
                (one.key, f"{one.max_abs:.3g}", one.tolerance.shown(), one.reason or "same")
                for one in self.verified.outputs
            ]
            yield Section("", rows, ("output", "max abs", "allowed", "verdict"))
        if self.accuracy:
            shares = ["" if one.same_argmax is None else f"{100 * one.same_argmax:.1f} %" for one in self.accuracy]
            parts = zip(self.accuracy, shares, strict=True)
            rows = [(one.key, f"{one.max_abs:.3g}", share, str(self.rows)) for one, share in parts]
            yield Section("", rows, ("output, in int8", "max abs", "same argmax", "rows"))
        if self.speed is not None:
            speed = self.speed
            sizes = ["" if size is None else str(size) for size in (speed.batch, speed.sequence_length)]
            row = (*sizes, f"{speed.before_ms:.2f} ms", f"{speed.after_ms:.2f} ms", f"{speed.speedup:.2f}")
            yield Section("", [row], ("batch", "sequence", "before", "after", "times faster"))
        if self.out is not None:
            yield f"Wrote {sized(self.out)}"

    def to_json(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        speed = self.speed
        found = self.replaced.to_json()
        calibration = {
            "rows": self.rows,
            "outputs": [
                {"key": one.key, "max_abs_diff": one.max_abs, "same_argmax": one.same_argmax} for one in self.accuracy
            ],
        }
        return {
            "output": None if self.out is None else output_name(self.out),
            "bytes": size_of(self.out),
            "before_ms": None if speed is None else speed.before_ms,
            "after_ms": None if speed is None else speed.after_ms,
            "speedup": None if speed is None else speed.speedup,
            "max_abs_diff": self.max_abs_diff,
            "batch": None if speed is None else speed.batch,
            "sequence_length": None if speed is None else speed.sequence_length,
            "encoders": [
                {"function": match.body, "variant": match.variant.name, "layers": len(match.units)}
                for match in self.replaced.matches
            ],
            "verified": None if self.verified is None else self.verified.is_same,
            "calibration": calibration if self.accuracy else None,
            **{key: found[key] for key in _MISSES},
            "warnings": list(map(str, self.notes)),
        }


@checked
def optimize(
    model: ModelOrPath,
    out: Out = None,
    *,
    calibrate: Feeds = (),
    bfloat16: bool = False,
    inputs: Feeds = (),
    batch_size: int | None = None,
    sequence_length: int | None = None,
    max_sequence_length: int | None = None,
    outputs: Names = (),
    signature: str | None = None,
    verify: bool = True,
    repeat: int = 20,
    seed: int = 0,
    op_libraries: Files = (),
    as_: Literal["pb", "pbtxt", "meta", "saved_model", "keep"] | None = None,
    link: bool = False,
    force: bool = False,
    progress: Progress | None = None,
    **shared: Unpack[Loads],
) -> Optimized:
    """Makes a BERT faster: its encoder becomes one optimized op, proven against the original and timed beside it.

    The result needs the op's library wherever it runs. The ending of the output decides what is written.

    Args:
        model: SavedModel folder, .meta, GraphDef, checkpoint prefix or folder.
        out: Its ending decides: .pb, .pbtxt, .meta with its checkpoint; without one a SavedModel folder.
        calibrate: Data, as .npz, or as arrays by input: the encoder computes in int8, whose ranges are found by
            running it. They are in an attribute of its node.
        bfloat16: Round to bfloat16 what is multiplied and is not int8.
        inputs: Verify and time on these inputs, not on made-up ones: arrays by key, or an .npz.
        batch_size: The batch size to time with, where the model leaves it open; 1 by default.
        sequence_length: The length of sequences, where the model leaves it open; 128 by default.
        max_sequence_length: The longest sequences that the op takes; by default those of the model, or 512.
        outputs: What counts as an output, besides what signatures name.
        signature: Which signature to run; serving_default, or the only one, by default.
        verify: Run the original against the result, on padded, odd and hidden sentences; write nothing if they differ.
        repeat: How many runs of each to time; 0 for none.
        seed: Of inputs that are made up.
        op_libraries: The library of the op, if not the one that is installed.
        as_: What to write, whatever the ending says; keep is what it was.
        link: Hard-link the weight files of a folder.
        force: Replace what is there, and write a result that is slower, too.
        progress: Is called with the name of each step that begins.

    Returns:
        The encoders that were found, how far results are apart, and how fast both models are.

    Raises:
        TfsmithError: What is wrong, where, and what to do.

    Example:
        tfsmith optimize saved_model -o fast
        tfsmith optimize frozen.pb -o small.pb --calibrate typical.npz
    """
    _check("repeat", repeat, 0)
    _check("seed", seed, 0)
    _check("batch_size", batch_size, 1)
    _check("sequence_length", sequence_length, 1)
    _check("max_sequence_length", max_sequence_length, 1)
    step = progress or (lambda name: None)
    step("opening the model")
    opened = open_model(model, shared, needs_graph="optimize")
    names = names_of(outputs)
    step("looking for the encoder")
    replaced = fuse_encoder(opened, names)
    if not replaced.matches:
        return Optimized(replaced)
    program = make_program(opened, names or None, signature=signature)
    replaced = _served(program, replaced)
    if not replaced.matches:
        return Optimized(replaced)
    check_sizes(program, batch_size, sequence_length)
    known = max(node.get("MaxSequenceLength") for _, node in bert_nodes(replaced.model))
    longest = max_sequence_length or (max(_LONGEST, sequence_length or 0) if has_open_length(program) else known)
    fused = _configured(replaced.model, longest, bfloat16=bfloat16)
    given = bind_feeds(program.inputs, _read(program, inputs)) if inputs else None
    read = (*_files(inputs), *_files(calibrate), *op_libraries)
    tried = _Inputs(program, batch_size or 1, sequence_length or min(known, longest), seed, given)
    data = split_rows(program, _read(program, calibrate)) if calibrate else None
    is_run = verify or repeat > 0 or data is not None
    libraries = (tuple(map(Path, op_libraries)) or (bert_op.library(),)) if is_run else ()

    def trial() -> Optimized:
        with tempfile.TemporaryDirectory(prefix="tfsmith-") as folder:
            found = _Trial(program, fused, names, libraries, Path(folder), bfloat16, step)
            return found.run(replace(replaced, model=fused), tried, data, verify=verify, repeat=repeat)

    if out is None:
        return trial()
    destination_of(out, as_, opened.kind).output(
        (*inputs_of(opened), *read), force=force
    ).check()  # before the long work
    found = trial()
    if not found.is_right or (found.is_slower and not force):
        return found
    step("writing")
    placed = place_model(found.model, out, before=opened, inputs=read, format=as_, link=link, force=force)
    return replace(found, out=placed.path, notes=(*found.notes, *placed.notes))


def _read(program: ModelProgram, feeds: Feeds) -> dict[str, Any]:
    """Data by input. In text it is the name of an .npz.

    Raises:
        UsageError: It is another file.
    """
    for text in _files(feeds):
        if Path(text).suffix != ".npz":
            raise UsageError(
                "inputs are given as .npz", path=text, remedy="save them with numpy.savez, each by its key"
            )
    return read_feeds(program.inputs, feeds)[0]


def _files(feeds: Feeds) -> tuple[str, ...]:
    """The files that data are read from."""
    return () if isinstance(feeds, Mapping) else names_of(feeds)


def fuse_encoder(model: Model, outputs: Sequence[str] = ()) -> Replaced:
    """Puts one node `Bert` in the place of each encoder. No weights are read.

    Other than `replace` alone, it leaves the epsilon and what is added to hidden scores in the node, defaults too.
    """
    done = replace(replace_nodes(model, _RECIPE, outputs=outputs), explain=True)
    if done.matches:
        return replace(done, model=change_bert_nodes(done.model, _defaults))
    old = [node.name for _, node in bert_nodes(model)]
    if not old:
        return done
    reason = f"it has a node Bert already, {old[0]}, and {{configure(model)}} sets its attributes"
    return replace(done, reason=Hint(reason))


def _defaults(body: str | None, node: Node) -> dict[str, Attr]:
    said = ("LayerNormEpsilon", "MaskAdder")
    defaults = {one.name: one.default for one in BERT.attrs if one.name in said and one.name not in node.attrs}
    return {name: value for name, value in defaults.items() if value is not None}


def _served(program: ModelProgram, replaced: Replaced) -> Replaced:
    """The same where the outputs need what was replaced; else as if nothing was, with the reason."""
    tensors = [port.tensor for port in program.outputs.values()]
    if not program.is_plain or any(served_bert_nodes(replaced.model, tensors)):
        return replaced
    places = ", ".join(sorted({match.body or "the graph" for match in replaced.matches}))
    where = "its outputs" if program.signature is None else f"signature {program.signature}"
    reasons = "; ".join(dict.fromkeys(one.reason for one in replaced.skipped))
    why = f"; what it needs was left alone: {reasons}" if reasons else ""
    reason = f"{where} does not need the encoders that were found, in {places}{why}"
    return replace(replaced, model=replaced.source, matches=(), reason=reason)


def _check(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{{{name}={value}}} makes no sense", remedy=f"pass {least} or more")


def _configured(model: Model, longest: int, *, bfloat16: bool) -> Model:
    settings = {"MaxSequenceLength": Attr("int", longest)}
    if bfloat16:
        settings["NonQuantizableDataType"] = Attr("type", dtype_named("bfloat16"))
    return change_bert_nodes(model, lambda body, node: settings)


@record
class _Inputs:
    """What the models are run on."""

    program: ModelProgram
    batch: int
    length: int
    seed: int
    given: Arrays | None

    def make(self, rows: int) -> Arrays:
        """The caller's own inputs, or made-up ones with at least so many rows, if the model takes so many."""
        if self.given is not None:
            return self.given
        return make_feeds(self.program, max(rows, self.batch), self.length, seed=self.seed)

    def several(self) -> list[Arrays]:
        """The caller's own inputs, or made-up ones: padded, of an odd length if that is open, and with hidden rows."""
        first = self.make(_VERIFIED_ROWS)
        if self.given is not None:
            return [first]
        found = [first]
        odd = next((length for length in _ODD_LENGTHS if length < self.length), None)
        if odd is not None and has_open_length(self.program):
            found.append(make_feeds(self.program, max(_VERIFIED_ROWS, self.batch), odd, seed=self.seed + 1))
        return [*found, *(hidden for feeds in found if (hidden := with_hidden_row(feeds)) is not None)]


@record
class _Trial:
    """The original and the result, how TensorFlow is to run them, and a folder for what it is to load."""

    before: ModelProgram
    after: Model
    outputs: tuple[str, ...]
    libraries: tuple[Path, ...]
    folder: Path
    is_short: bool
    step: Progress

    def run(
        self, replaced: Replaced, inputs: _Inputs, data: tuple[list[Arrays], int] | None, *, verify: bool, repeat: int
    ) -> Optimized:
        """All that is asked for: verified, calibrated, timed; later steps only if the earlier ones went well."""
        found = Optimized(replaced, notes=tuple(replaced.notes))
        result = self.after
        if verify or (repeat and data is None):
            result = self._stored(self.after, "float32")
        if verify:
            self.step("verifying")
            verified = self._verify(result, inputs.several())
            found = replace(found, verified=verified, notes=(*found.notes, *verified.notes))
        if data is not None and found.is_right:
            self.step("calibrating")
            batches, rows = data
            rounded = quantize_bert_nodes(self.after, self._find_ranges(batches))
            result = self._stored(rounded, "int8")
            accuracy = compare_results(self._results(self.before, batches), self._results(self._of(result), batches))
            found = replace(found, replaced=replace(replaced, model=rounded), accuracy=accuracy, rows=rows)
        if repeat and found.is_right:
            self.step("timing")
            found = replace(found, speed=self._time(result, inputs.make(1), repeat))
        return found

    def _of(self, model: Model) -> ModelProgram:
        return make_program(model, self.outputs or None, signature=self.before.signature)

    def _stored(self, model: Model, name: str) -> Model:
        """A SavedModel as TensorFlow will load it; other models are frozen when they run, before and after alike."""
        if model.kind != "saved_model":
            return model
        place_model(model, self.folder / name, before=self.before.model, link=True)
        return load(self.folder / name, tags=model.meta.tags)

    def _verify(self, result: Model, feeds: Sequence[Arrays]) -> Verified:
        room = tolerance_for("bfloat16", reordered=False) if self.is_short else _NEAR
        return verify_on(
            self.before.model,
            result,
            {name: name for name in self.outputs},
            feeds,
            signature=self.before.signature,
            room=room,
            engine="tensorflow",
            op_libraries=self.libraries,
        )

    def _results(self, program: ModelProgram, batches: Sequence[Arrays]) -> list[Arrays]:
        """The results for each of several feeds. Starts TensorFlow once."""
        with compile_program(program, "tensorflow", engine_options(self.libraries)) as runner:
            return [
                runner.run({key: value for key, value in feeds.items() if key in runner.inputs}, warn=False)
                for feeds in batches
            ]

    def _find_ranges(self, batches: Sequence[Arrays]) -> Ranges:
        """Runs the nodes `Bert` on data, in float32, and gives the ranges of values that these have met.

        Raises:
            EngineError: No node met anything: the outputs do not need it.
        """
        folder = self.folder / "ranges"
        folder.mkdir()
        places = {
            (body, node.name): folder / f"{number}.txt" for number, (body, node) in enumerate(bert_nodes(self.after))
        }

        def record_ranges(body: str | None, node: Node) -> dict[str, Attr]:
            path = str(places[body, node.name].absolute()).encode("utf-8", "surrogateescape")
            changes = {"CalibrateQuantFactors": Attr("bool", True), "QuantizationFactorsPath": Attr("string", path)}
            return {**changes, "NonQuantizableDataType": _FLOAT}

        self._results(self._of(change_bert_nodes(self.after, record_ranges)), batches)
        texts = {place: path.read_text() for place, path in places.items() if path.is_file()}
        if not texts:
            what = "the outputs that were run need no node Bert, so it has met no values"
            raise EngineError(what, path=self.before.path, remedy="choose another signature, or other outputs")
        return {place: tuple(map(float, text.split())) for place, text in texts.items()}

    def _time(self, result: Model, feeds: Arrays, repeat: int) -> Speed:
        programs = [self.before, self._of(result)]
        before, after = measure_speed(programs, feeds, engine_options(self.libraries), repeat=repeat)
        return Speed(before, after, *batch_and_length(feeds))


def compare_results(before: Sequence[Arrays], after: Sequence[Arrays]) -> tuple[Accuracy, ...]:
    """How far two models' results for the same feeds are apart, output by output."""
    import numpy

    found: list[Accuracy] = []
    for key in [key for key in before[0] if key in after[0]]:
        pairs = [(one[key], other[key]) for one, other in zip(before, after, strict=True)]
        worst = max(compare_arrays(one, other, _ANY).max_abs for one, other in pairs)
        share = None
        if all(one.ndim > 1 and one.shape[-1] > 1 and one.dtype.kind == "f" for one, _ in pairs):
            same = [(one.argmax(-1) == other.argmax(-1)).reshape(-1) for one, other in pairs]
            share = float(numpy.concatenate(same).mean())
        found.append(Accuracy(key, worst, share))
    return tuple(found)
