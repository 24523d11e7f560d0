"""`tfsmith optimize MODEL -o OUT`: the encoder of a BERT becomes one optimized op, proven and timed."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from tfsmith import api
from tfsmith.cli.common import DONE, NO, complain, emit, printable, warn
from tfsmith.cli.matches import match_facts, match_text, miss_text
from tfsmith.cli.models import add_model_arguments, open_model
from tfsmith.cli.render import Section, print_sections
from tfsmith.cli.run_values import InputReader
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model

__all__ = ["add_arguments", "work"]

_MISSES = ("skipped", "reason", "nearest_miss")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    add_model_arguments(parser)
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="a graph (.pb, .pbtxt), or for a SavedModel also a folder, with its weights",
    )
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of a graph that has none beside it")
    parser.add_argument("--signature", metavar="K", help="which signature to run (serving_default, or the only one)")
    parser.add_argument("--outputs", metavar="A,B", help="what counts as an output, besides what signatures name")
    parser.add_argument(
        "--calibrate", metavar="DATA.npz", help="compute with bytes, whose ranges are found by running these inputs"
    )
    parser.add_argument("--bfloat16", action="store_true", help="round to bfloat16 what is multiplied, and no bytes")
    parser.add_argument("--batch-size", type=int, metavar="N", help="to time with, where the model leaves it open (1)")
    parser.add_argument(
        "--sequence-length", type=int, metavar="N", help="to time with, where the model leaves it open (128)"
    )
    parser.add_argument(
        "--max-sequence-length", type=int, metavar="N", help="the longest that the op takes (the model's own, or 512)"
    )
    parser.add_argument("--inputs", metavar="FILE.npz", help="verify and time on these inputs, not on made-up ones")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs that are made up")
    parser.add_argument("--repeat", type=int, default=20, metavar="N", help="runs of each to time (0: do not time)")
    parser.add_argument("--no-verify", action="store_true", help="do not run the original against the result")
    parser.add_argument("--op-library", metavar="SO", help="the op's library, if not the one that is installed")
    parser.add_argument(
        "--as",
        dest="format",
        choices=("pb", "pbtxt", "meta", "saved_model", "keep"),
        help="what to write, whatever OUT's ending says (keep: what it was)",
    )
    parser.add_argument("--link", action="store_true", help="hard-link the weight files of a folder")
    parser.add_argument("--force", action="store_true", help="replace what is there")
    parser.add_argument("--json", action="store_true", help="say what was done as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    model = open_model(arguments, checkpoint=arguments.checkpoint)
    outputs = tuple(name.strip() for name in (arguments.outputs or "").split(",") if name.strip())
    done = api.optimize(
        model,
        arguments.output,
        calibrate=_read(model, arguments.calibrate, arguments, outputs),
        bfloat16=arguments.bfloat16,
        inputs=_read(model, arguments.inputs, arguments, outputs),
        batch_size=arguments.batch_size,
        sequence_length=arguments.sequence_length,
        max_sequence_length=arguments.max_sequence_length,
        outputs=outputs,
        signature=arguments.signature,
        verify=not arguments.no_verify,
        repeat=arguments.repeat,
        seed=arguments.seed,
        op_library=arguments.op_library,
        format=arguments.format,
        link=arguments.link,
        force=arguments.force,
    )
    warn((*done.notes, *(() if done.verified is None else done.verified.notes)))
    if arguments.json:
        emit(json.dumps(_facts(model, done), indent=2) + "\n")
    else:
        _tell(model, done)
    if done.speed is not None and done.speed.speedup < 1:  # small models, long sequences, or a busy machine
        complain(
            "the result is slower than the original here; time it again with more --repeat, on the sizes that you use"
        )
    if done.replaced.matches and not done.is_right:
        complain(f"error: the result does not answer as the original does; {arguments.output} was not written")
    return DONE if done.is_right else NO


def _read(
    model: Model, path: str | None, arguments: argparse.Namespace, outputs: tuple[str, ...]
) -> dict[str, Any] | None:
    if path is None:
        return None
    if Path(path).suffix != ".npz":
        raise UsageError("inputs are given as .npz", path=path, remedy="save them with numpy.savez, each by its key")
    known, _ = api.interface(model, outputs or None, signature=arguments.signature)
    return InputReader(known, seed=arguments.seed, batch=1).read([path])


def _tell(model: Model, done: api.Optimized) -> None:
    replaced = done.replaced
    if not replaced.matches:
        emit(printable(f"No match: {replaced.reason}; nothing was written") + "\n")
        emit("" if replaced.skipped else miss_text(replaced.nearest_miss))
        return
    emit(match_text(model, replaced, done=True))
    sections: list[Section] = []
    if done.verified is not None:
        rows = [
            (one.key, f"{one.max_abs:.3g}", f"{one.tolerance.absolute:g} + {one.tolerance.relative:g}|a|",
             one.reason or "same")
            for one in done.verified.outputs
        ]  # fmt: skip
        sections.append(Section("", rows, ("output", "max abs", "allowed", "verdict")))
    if done.accuracy:
        rows = [(one.key, f"{one.max_abs:.3g}", _share(one.same_argmax), str(done.rows)) for one in done.accuracy]
        sections.append(Section("", rows, ("output, in bytes", "max abs", "same argmax", "rows")))
    if done.speed is not None:
        speed = done.speed
        sizes = [_size(size) for size in (speed.batch, speed.sequence_length)]
        row = (*sizes, f"{speed.before_ms:.2f} ms", f"{speed.after_ms:.2f} ms", f"{speed.speedup:.2f}")
        sections.append(Section("", [row], ("batch", "sequence", "before", "after", "times faster")))
    print_sections(sections)
    if done.written is not None:
        emit(f"Wrote {done.written}\n")


def _share(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _size(size: int | None) -> str:
    return "" if size is None else str(size)


def _facts(model: Model, done: api.Optimized) -> dict[str, Any]:
    speed = done.speed
    facts: dict[str, Any] = {
        "output": None if done.written is None else str(done.written),
        "before_ms": None if speed is None else speed.before_ms,
        "after_ms": None if speed is None else speed.after_ms,
        "speedup": None if speed is None else speed.speedup,
        "max_abs_diff": _number(done.max_abs_diff),
        "batch": None if speed is None else speed.batch,
        "sequence_length": None if speed is None else speed.sequence_length,
        "encoders": [
            {"function": match.body, "variant": match.variant.name, "layers": len(match.units)}
            for match in done.replaced.matches
        ],
        "verified": None if done.verified is None else done.verified.is_same,
        "calibration": None,
    }
    if done.accuracy:
        facts["calibration"] = {
            "rows": done.rows,
            "outputs": [
                {"key": one.key, "max_abs_diff": _number(one.max_abs), "same_argmax": one.same_argmax}
                for one in done.accuracy
            ],
        }
    found = match_facts(model, done.replaced)
    return {**facts, **{key: found[key] for key in _MISSES}, "warnings": list(done.notes)}


def _number(value: float | None) -> float | None:
    """JSON has no infinity."""
    return None if value is None or value == float("inf") else value
