"""Cases on an engine, in processes of their own: native code may die of one, and the others must still be heard."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tfsmith.engines.child import start_code
from tfsmith.engines.frames import parent_pipes
from tfsmith.engines.onnxruntime import OnnxSession
from tfsmith.engines.program import make_program
from tfsmith.engines.protocol import LackError
from tfsmith.engines.runner import compile_program
from tfsmith.errors import UnsupportedError
from tfsmith.ir.body import Part
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ops.samples import Case, Samples, samples_of
from tfsmith.records import replace
from tfsmith.testing.conformance.answers import digest, load_answers
from tfsmith.testing.conformance.equality import for_engines
from tfsmith.testing.conformance.runner import Compute, Verdict, check_case
from tfsmith.verbs._onnx import OnnxOptions, lower_program, onnx_bytes
from tfsmith.verbs.run import engine_options

__all__ = ["all_cases", "check_isolated", "engine_compute", "main", "with_constants"]

_START = start_code("tfsmith.testing.conformance.isolated")
_PATIENCE = 60.0
_OTHER_FORM: Mapping[str, tuple[str, ...]] = {"reference": (), "tensorflow": ()}
"""Verdicts after which a case runs again with constants for what was fed: many engines take axes, shapes and weights
only so, and compute what is constant when they compile. It makes no difference to these two."""
_OVER = b"over"
_LATEST = 20
"""The version of ONNX' ops for what the default one lacks: it has strings."""


def engine_compute(engine: str) -> Compute:
    """What computes a case on the engine of this name, or with "auto" on the one that is chosen.

    "onnx" lowers the case to ONNX, and runs that on onnxruntime.
    """
    if engine == "onnx":
        return _onnx_compute
    options = replace(engine_options(), isolate=False)

    def compute(case: Case) -> Sequence[Any]:
        model = Model("graphdef", (MetaGraph(Part.of(case.graph())),))
        try:
            with compile_program(make_program(model, case.fetches), engine, options) as runner:
                found = runner.run({key: case.feeds[key] for key in runner.inputs if key in case.feeds}, warn=False)
        except LackError as error:
            raise UnsupportedError(str(error)) from error
        return [found[name] for name in case.fetches]

    return compute


def _onnx_compute(case: Case) -> Sequence[Any]:
    model = Model("graphdef", (MetaGraph(Part.of(case.graph())),))
    lowered = lower_program(make_program(model, case.fetches), OnnxOptions())
    if lowered.lacks:  # some ops are in later versions only
        lowered = lower_program(make_program(model, case.fetches), OnnxOptions(opset=_LATEST))
    if lowered.lacks:
        raise UnsupportedError("; ".join(f"{one.op}: {one.reason}" for one in lowered.lacks))
    with OnnxSession(onnx_bytes(lowered)) as session:
        return session.compute({key: case.feeds[key] for key in session.inputs}, case.fetches)


def with_constants(case: Case) -> Iterator[Case]:
    """The case with constants for all that is fed but the first, and but the last; the answer is the same."""
    for kept in dict.fromkeys((*list(case.feeds)[:1], *list(case.feeds)[-1:])) if len(case.feeds) > 1 else ():
        nodes = tuple(
            Node(key, "Const", (), {"dtype": kind, "value": Attr("tensor", ArrayTensor(kind, case.feeds[key]))})
            for key, kind in case.types.items()
            if key != kept
        )
        yield replace(case, nodes=(*nodes, *case.nodes), feeds={kept: case.feeds[kept]})


def all_cases(names: Sequence[str]) -> Iterator[tuple[Samples, Case]]:
    """The cases of these ops and families, in an order that is the same in each process."""
    return ((samples, case) for samples in samples_of(*names) for case in samples.cases())


def check_isolated(engine: str, names: Sequence[str] = (), only: Collection[int] | None = None) -> Iterator[Verdict]:
    """Runs cases on an engine, many to a process; another takes up where one has died.

    Args:
        engine: The engine's name.
        names: Ops and families; all by default.
        only: The numbers of the cases to run, in the order of `all_cases`; all by default.
    """
    cases = list(all_cases(names))
    left = [number for number in range(len(cases)) if only is None or number in only]
    while left:
        done = 0
        for kind, reason in _process(engine, names, left):
            samples, case = cases[left[done]]
            yield Verdict(samples.family, samples.op, case.name, kind, reason)
            done += 1
        left = left[done:]


def _process(engine: str, names: Sequence[str], numbers: Sequence[int]) -> Iterator[tuple[Any, str]]:
    """How these cases went in one process; the last of them may be its death."""
    search = [str(Path(entry).absolute()) for entry in sys.path if entry]
    child = subprocess.Popen(
        [sys.executable, "-I", "-c", _START, json.dumps(search)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    is_over = False
    try:
        child.stdin.write(json.dumps({"engine": engine, "names": list(names), "numbers": list(numbers)}).encode())
        child.stdin.close()
        for line in _patient(child.stdout):
            if line == _OVER:
                is_over = True
                break
            kind, reason = json.loads(line)
            yield kind, reason
    finally:
        child.stdout.close()
        if child.poll() is None:
            child.kill()
        code = child.wait()
    if not is_over:
        yield "crashed", _death(code)


def _patient(stream: IO[bytes]) -> Iterator[bytes]:
    """The lines of a process, until it ends or is silent for too long."""
    rest = b""
    while select.select([stream], [], [], _PATIENCE)[0]:
        data = os.read(stream.fileno(), 1 << 16)
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from lines


def _death(code: int) -> str:
    if code == -signal.SIGKILL:
        return f"no answer within {_PATIENCE:.0f} s"
    return f"the process was ended by {signal.Signals(-code).name}" if code < 0 else f"the process ended with {code}"


def main() -> None:
    """The process: runs its cases, a line of JSON for each. What engines print goes to stderr."""
    requests, lines = parent_pipes()
    asked = json.load(requests)
    warnings.simplefilter("ignore")
    compute = engine_compute(asked["engine"])
    numbers = set(asked["numbers"])
    for number, (samples, case) in enumerate(all_cases(asked["names"])):
        if number not in numbers:
            continue
        answer = load_answers(samples.family).by_digest.get(digest(case))
        tolerance = for_engines(samples.tolerance)
        told = check_case(case, answer, tolerance, compute)
        if told[0] in _OTHER_FORM.get(asked["engine"], ("refused", "lacks", "equal")):
            variants = (check_case(one, answer, tolerance, compute) for one in with_constants(case))
            better, worse = ("equal", "wrong", "crashed"), ("wrong", "crashed")
            wanted = worse if told[0] == "equal" else better
            told = next(
                ((kind, f"as constants: {why}" if why else why) for kind, why in variants if kind in wanted), told
            )
        lines.write(json.dumps(told).encode() + b"\n")
        lines.flush()
    lines.write(_OVER + b"\n")
    lines.flush()
