"""F4: A BERT made faster: its encoder becomes one optimized op, proven against the original and timed beside it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from tfsmith import bert_op
from tfsmith.api.calibrating import Accuracy, Ranges, compare_answers, find_ranges, quantized
from tfsmith.api.feeding import bind_feeds
from tfsmith.api.files import load
from tfsmith.api.fusing import bert_nodes, change_bert_nodes, fuse_encoder
from tfsmith.api.patterning import save_replaced
from tfsmith.api.program import ModelProgram
from tfsmith.api.tolerance import tolerance_for
from tfsmith.api.trying import Feeds, Trial, batch_and_length, check_sizes, has_open_length, make_feeds, split_rows
from tfsmith.api.verifying import Verified
from tfsmith.api.verifying import verify as verify_models
from tfsmith.engines.tensorflow import measure_speed
from tfsmith.errors import UsageError
from tfsmith.formats.kinds import As, destination_of
from tfsmith.formats.write import inputs_of
from tfsmith.ir.attr import Attr
from tfsmith.ir.dtype import dtype_named
from tfsmith.ir.model import Model
from tfsmith.patterns.replace import Replaced
from tfsmith.records import record, replace

__all__ = ["Optimized", "Speed", "optimize"]

_LONGEST = 512
"""What BERT's own position embeddings allow, for models that leave the length open."""
_VERIFIED_ROWS = 3
_FLOAT = Attr("type", dtype_named("float32"))


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
class Optimized:
    """What came of it.

    Attributes:
        replaced: The encoders that were found; if there are none, the reason, and the nearest miss.
        written: The file or folder; None if nothing was written, as no encoder was found or the answers differ.
        verified: The original against the result, in floats or bfloat16; None if that was not asked for.
        speed: How fast both are; None if that was not asked for, or the answers differ.
        accuracy: With calibration: the original against the result in bytes, output by output.
        rows: How many rows of calibration data were run.
        notes: What the user should know.
    """

    replaced: Replaced
    written: Path | None = None
    verified: Verified | None = None
    speed: Speed | None = None
    accuracy: tuple[Accuracy, ...] = ()
    rows: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_right(self) -> bool:
        """Whether the result answers as the original, as far as that was asked; bytes must answer with numbers."""
        is_same = self.verified is None or self.verified.is_same
        return bool(self.replaced.matches) and is_same and all(one.max_abs < float("inf") for one in self.accuracy)

    @property
    def max_abs_diff(self) -> float | None:
        """The largest difference between answers of the original and of what was written; None if none was run."""
        found = [one.max_abs for one in self.accuracy]
        found = found or ([] if self.verified is None else [one.max_abs for one in self.verified.outputs])
        return max(found, default=None)


def optimize(
    model: Model | str | os.PathLike[str],
    output: str | os.PathLike[str],
    *,
    calibrate: Mapping[str, Any] | None = None,
    bfloat16: bool = False,
    inputs: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    sequence_length: int | None = None,
    max_sequence_length: int | None = None,
    outputs: Sequence[str] = (),
    signature: str | None = None,
    verify: bool = True,
    repeat: int = 20,
    seed: int = 0,
    op_library: str | os.PathLike[str] | None = None,
    format: As | None = None,
    link: bool = False,
    force: bool = False,
) -> Optimized:
    """Puts the op `Bert` in the place of a BERT's encoder, proves the result against the original, and times both.

    The result needs the op's library wherever it runs. The ending of the path decides what is written, as for `save`.

    Args:
        model: A model, or its path.
        output: Where to write.
        calibrate: Data, as arrays by input: the encoder computes with bytes, whose ranges are found by running it. They
            are in an attribute of its node.
        bfloat16: Whether what is not bytes is rounded to bfloat16 where it is multiplied.
        inputs: Arrays to verify and to time with, instead of made-up ones.
        batch_size: The batch size to time with, where the model leaves it open; 1 by default.
        sequence_length: The length of sequences, where the model leaves it open; 128 by default.
        max_sequence_length: The longest sequences that the op takes; by default those of the model, or 512.
        outputs: What counts as an output, besides what signatures name.
        signature: Which signature to run.
        verify: Whether to run both on the same inputs, and to write nothing if they answer otherwise.
        repeat: How many runs of each to time; 0 for none.
        seed: Of inputs that are made up.
        op_library: The op's library, if it is another than `tfsmith.bert_op.library()`.
        format: What to write, whatever the path says; see `save`.
        link: Whether to make hard links of weight files, in place of copies.
        force: Whether to replace what is there.

    Raises:
        TfsmithError: What is wrong, where, and what to do.
    """
    _check("repeat", repeat, 0)
    _check("batch-size", batch_size, 1)
    _check("sequence-length", sequence_length, 1)
    _check("max-sequence-length", max_sequence_length, 1)
    opened = model if isinstance(model, Model) else load(model)
    replaced = fuse_encoder(opened, outputs)
    if not replaced.matches:
        return Optimized(replaced)
    is_run = verify or repeat > 0 or calibrate is not None
    libraries = (bert_op.library() if op_library is None else Path(op_library),) if is_run else ()
    trial = Trial(tuple(outputs), signature, libraries)
    program = trial.program(opened)
    check_sizes(program, batch_size, sequence_length)
    known = max(node.get("MaxSequenceLength") for _, node in bert_nodes(replaced.model))
    longest = max_sequence_length or (max(_LONGEST, sequence_length or 0) if has_open_length(program) else known)
    fused = _configured(replaced.model, longest, bfloat16=bfloat16)
    given = None if inputs is None else bind_feeds(program.inputs, inputs)
    feeds = _Feeds(program, batch_size or 1, sequence_length or min(known, longest), seed, given)
    data = None if calibrate is None else split_rows(program, calibrate)
    destination = destination_of(output, format, opened.kind)
    destination.output(inputs_of(opened), force=force).check()  # before the long work
    with tempfile.TemporaryDirectory(prefix="tfsmith-") as folder:
        work = _Work(opened, fused, trial, Path(folder), bfloat16)
        found = work.try_out(replace(replaced, model=fused), feeds, data, verify=verify, repeat=repeat)
    if not found.is_right:
        return found
    notes = save_replaced(opened, found.replaced.model, output, format=format, link=link, force=force)
    notes_told = tuple(map(str, (*found.replaced.notes, *notes)))
    return replace(found, written=destination.path, notes=notes_told)


def _check(name: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"--{name} {value} makes no sense", remedy=f"pass {least} or more")


def _configured(model: Model, longest: int, *, bfloat16: bool) -> Model:
    settings = {"MaxSequenceLength": Attr("int", longest)}
    if bfloat16:
        settings["NonQuantizableDataType"] = Attr("type", dtype_named("bfloat16"))
    return change_bert_nodes(model, lambda body, node: settings)


@record
class _Feeds:
    """What the models are run on."""

    program: ModelProgram
    batch: int
    length: int
    seed: int
    given: Feeds | None

    def make(self, rows: int) -> Feeds:
        """The caller's own inputs, or made-up ones with at least so many rows, if the model takes so many."""
        if self.given is not None:
            return self.given
        return make_feeds(self.program, max(rows, self.batch), self.length, seed=self.seed)


@record
class _Work:
    """The original and the result, and a folder for what TensorFlow is to load."""

    before: Model
    after: Model
    trial: Trial
    folder: Path
    is_short: bool

    def try_out(
        self, replaced: Replaced, feeds: _Feeds, data: tuple[list[Feeds], int] | None, *, verify: bool, repeat: int
    ) -> Optimized:
        """All that is asked for: verified, calibrated, timed; later steps only if the earlier ones went well."""
        found = Optimized(replaced)
        result = self.after
        if verify or (repeat and data is None):
            result = self._stored(self.after, "floats")
        if verify:
            found = replace(found, verified=self._verify(result, feeds.make(_VERIFIED_ROWS)))
        if data is not None and found.is_right:
            batches, rows = data
            rounded = quantized(self.after, self._find_ranges(batches))
            result = self._stored(rounded, "bytes")
            accuracy = compare_answers(self.trial.run(self.before, batches), self.trial.run(result, batches))
            found = replace(found, replaced=replace(replaced, model=rounded), accuracy=accuracy, rows=rows)
        if repeat and found.is_right:
            found = replace(found, speed=self._time(result, feeds.make(1), repeat))
        return found

    def _stored(self, model: Model, name: str) -> Model:
        """A SavedModel as TensorFlow will load it; other models are frozen when they run, before and after alike."""
        if model.kind != "saved_model":
            return model
        save_replaced(self.before, model, self.folder / name, link=True)
        return load(self.folder / name, tags=model.meta.tags)

    def _verify(self, result: Model, feeds: Feeds) -> Verified:
        room = tolerance_for("bfloat16", reordered=False) if self.is_short else None
        return verify_models(
            self.before,
            result,
            inputs=feeds,
            outputs={name: name for name in self.trial.outputs} or None,
            signature=self.trial.signature,
            rtol=None if room is None else room.relative,
            atol=None if room is None else room.absolute,
            engine="tensorflow",
            op_libraries=self.trial.libraries,
        )

    def _find_ranges(self, batches: Sequence[Feeds]) -> Ranges:
        folder = self.folder / "ranges"
        folder.mkdir()
        model = change_bert_nodes(self.after, lambda body, node: {"NonQuantizableDataType": _FLOAT})
        return find_ranges(model, self.trial, batches, folder)

    def _time(self, result: Model, feeds: Feeds, repeat: int) -> Speed:
        programs = [self.trial.program(model) for model in (self.before, result)]
        before, after = measure_speed(programs, feeds, op_libraries=self.trial.libraries, repeat=repeat)
        return Speed(before, after, *batch_and_length(feeds))
