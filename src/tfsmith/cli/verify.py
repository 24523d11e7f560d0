"""`tfsmith verify A B`: do two models answer the same?"""

from __future__ import annotations

import argparse
import json
from typing import Any

from tfsmith import api
from tfsmith.cli.common import DONE, NO, complain, emit, printable, warn
from tfsmith.cli.render import Section, print_sections
from tfsmith.cli.run_values import InputReader
from tfsmith.errors import UsageError
from tfsmith.ir.model import Model

__all__ = ["add_arguments", "tell", "work"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the verb."""
    model = "SavedModel folder, .meta, GraphDef, checkpoint prefix or folder"
    parser.add_argument("a", metavar="A", help=f"a model: {model}")
    parser.add_argument("b", metavar="B", help="the model to compare it with")
    parser.add_argument("--checkpoint", metavar="PREFIX", help="the checkpoint of A, if A is a bare graph")
    parser.add_argument("--other-checkpoint", metavar="PREFIX", help="that of B")
    parser.add_argument("--tag-set", metavar="T", help="which meta graph of A, as tags joined by commas")
    parser.add_argument("--other-tag-set", metavar="T", help="which meta graph of B")
    parser.add_argument("--signature", metavar="K", help="which signature, of both")
    parser.add_argument("--other-signature", metavar="K", help="which signature of B, if another")
    parser.add_argument(
        "--output", metavar="A[=B]", action="append", default=[], help="compare this output (with that one of B)"
    )
    parser.add_argument("--inputs", metavar="FILE.npz", help="run them on these inputs, not on made-up ones")
    parser.add_argument("--samples", type=int, default=1, metavar="N", help="inputs to make for each batch size")
    parser.add_argument("--batches", default="1,3", metavar="N,M", help="batch sizes, where the models leave them open")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the inputs that are made up")
    parser.add_argument("--rtol", type=float, metavar="R", help="relative tolerance (that of the dtype by default)")
    parser.add_argument("--atol", type=float, metavar="A", help="absolute tolerance (that of the dtype by default)")
    parser.add_argument("--engine", default="auto", help="openvino, tensorflow or auto (the first that can)")
    parser.add_argument("--other-engine", help="what to run B on, if on another")
    parser.add_argument(
        "--op-library", metavar="SO", action="append", default=[], help="a library of custom ops, for TensorFlow"
    )
    parser.add_argument("--bisect", action="store_true", help="name the first node at which they part")
    parser.add_argument("--json", action="store_true", help="all that was found, as JSON")


def work(arguments: argparse.Namespace) -> int:
    """Runs the verb."""
    a = api.load(arguments.a, tags=_tags(arguments.tag_set), checkpoint=arguments.checkpoint)
    b = api.load(arguments.b, tags=_tags(arguments.other_tag_set), checkpoint=arguments.other_checkpoint)
    found = api.verify(
        a,
        b,
        samples=_at_least(arguments.samples, "--samples"),
        batches=[_at_least(_integer(text), "--batches") for text in arguments.batches.split(",")],
        seed=arguments.seed,
        inputs=None if arguments.inputs is None else _inputs(a, arguments),
        outputs=dict(_output(text) for text in arguments.output),
        signature=arguments.signature,
        other_signature=arguments.other_signature,
        rtol=arguments.rtol,
        atol=arguments.atol,
        engine=arguments.engine,
        other_engine=arguments.other_engine,
        op_libraries=arguments.op_library,
        bisect=arguments.bisect,
    )
    if arguments.json:
        warn(found.notes)
        emit(json.dumps(_facts(found), indent=2) + "\n")
    else:
        tell(found)
    return DONE if found.is_same else NO


def _inputs(a: Model, arguments: argparse.Namespace) -> dict[str, Any]:
    known = api.make_program(a, signature=arguments.signature).inputs
    return InputReader(known, seed=arguments.seed, batch=1).read([arguments.inputs])


def _tags(text: str | None) -> list[str] | None:
    return None if text is None else [tag for tag in text.split(",") if tag]


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no number", remedy="pass numbers joined by commas, such as 1,8") from None


def _at_least(value: int, name: str) -> int:
    if value < 1:
        raise UsageError(f"{name} {value} makes no sense", remedy="pass 1 or more")
    return value


def _output(text: str) -> tuple[str, str]:
    one, _, other = text.partition("=")
    return one, other or one


def tell(found: api.Verified, *, to_stderr: bool = False) -> None:
    """Writes what verifying found: the table to stdout, unless that is for other data, what is strange to stderr."""
    warn(found.notes)
    ran = found.engines[0] if found.engines[0] == found.engines[1] else " against ".join(found.engines)
    sizes = f", batch sizes {', '.join(map(str, found.batches))}" if found.batches else ""
    complain(f"engine: {ran}; {found.samples} run{'' if found.samples == 1 else 's'}{sizes}")
    rows = [
        (
            one.key,
            one.dtype,
            f"{one.max_abs:.3g}",
            f"{one.max_rel:.3g}",
            f"{one.tolerance.absolute:g} + {one.tolerance.relative:g}|a|",
            one.reason or "same",
        )
        for one in found.outputs
    ]
    header = ("output", "dtype", "max abs", "max rel", "allowed", "verdict")
    verdict = "The models answer the same." if found.is_same else "The models differ."
    if to_stderr:
        for row in rows:
            complain(f"output {row[0]}: {row[5]}; the largest difference is {row[2]} (allowed: {row[4]})")
        complain(verdict)
        return
    print_sections([Section("", rows, header)])
    emit(f"{verdict}\n")
    if found.parted is not None:
        place = f"{found.parted.node} ({found.parted.op}), behind {found.parted.checked} nodes that agree"
        emit(printable(f"They part at {place}: {found.parted.reason}") + "\n")


def _facts(found: api.Verified) -> dict[str, Any]:
    parted = found.parted
    return {
        "same": found.is_same,
        "outputs": [
            {
                "key": one.key,
                "tensor_a": one.tensor_a,
                "tensor_b": one.tensor_b,
                "dtype": one.dtype,
                "max_abs": _number(one.max_abs),
                "max_rel": _number(one.max_rel),
                "atol": one.tolerance.absolute,
                "rtol": one.tolerance.relative,
                "same": one.is_same,
                "reason": one.reason,
            }
            for one in found.outputs
        ],
        "engines": list(found.engines),
        "samples": found.samples,
        "batches": list(found.batches),
        "notes": list(found.notes),
        "parted": None
        if parted is None
        else {"node": parted.node, "op": parted.op, "reason": parted.reason, "checked": parted.checked},
    }


def _number(value: float) -> float | None:
    """JSON has no infinity."""
    return value if value < float("inf") else None
