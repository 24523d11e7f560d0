"""Runs the cases: by the values of `ops/` directly, or on an engine, and compares with TensorFlow's answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy

from tfsmith.errors import TfsmithError, UnsupportedError
from tfsmith.ir.node import parse_input
from tfsmith.ops.samples import Case, Samples, Tolerance
from tfsmith.ops.values import OpError, State, bind, has_value
from tfsmith.records import record
from tfsmith.testing.conformance.answers import Answer, digest, load_answers
from tfsmith.testing.conformance.equality import difference

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Compute", "Kind", "Verdict", "check_case", "check_samples", "compute_values"]

Compute = Callable[[Case], Sequence[Any]]
"""Computes the fetches of a case. What it refuses raises `OpError`, or an error of tfsmith."""
Kind = Literal["equal", "wrong", "refused", "lacks", "crashed", "unasked"]
_REFUSALS = (OpError, TfsmithError, ValueError, IndexError, TypeError, KeyError, OverflowError, ArithmeticError)
"""What a computation raises for what it refuses; numpy's own errors are among them, which engines turn into theirs."""


@record
class Verdict:
    """How a case went.

    Attributes:
        family: Its family.
        op: Its op.
        case: Its name.
        kind: "equal"; "wrong" where the answer is another, or none was expected; "refused" where there should be one;
            "lacks" where the op is not there at all; "crashed" where the process died; "unasked" where TensorFlow's
            answer is not packed.
        reason: What was wrong, in words.
    """

    family: str
    op: str
    case: str
    kind: Kind
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.op} ({self.case}): {self.kind}{f': {self.reason}' if self.reason else ''}"


def check_samples(samples: Samples, compute: Compute) -> Iterator[Verdict]:
    """Runs all cases of an op."""
    answers = load_answers(samples.family).by_digest
    for case in samples.cases():
        kind, reason = check_case(case, answers.get(digest(case)), samples.tolerance, compute)
        yield Verdict(samples.family, samples.op, case.name, kind, reason)


def check_case(case: Case, answer: Answer | None, tolerance: Tolerance, compute: Compute) -> tuple[Kind, str]:
    """Runs a case, and says how it went and why."""
    if answer is None:
        return "unasked", f"make the answers: python -m tools.make_conformance {case.op}"
    try:
        found = compute(case)
    except UnsupportedError as error:
        return "lacks", str(error)
    except _REFUSALS as error:
        if answer.kind == "values":
            return "refused", f"{type(error).__name__}: {error}"
        return "equal", ""
    if answer.kind == "lacks":
        return "equal", ""
    if answer.kind == "refused":
        return "wrong", "TensorFlow refuses this"
    for name, one, wanted in zip(case.fetches, found, answer.values, strict=True):
        reason = difference(one, wanted, tolerance)
        if reason is not None:
            return "wrong", f"{name} {reason}"
    return "equal", ""


def compute_values(case: Case) -> list[NDArray[Any]]:
    """The fetches of a case by the values of its ops, node by node, without an engine.

    Raises:
        UnsupportedError: An op has no value, or the case calls functions.
        OpError: An op refuses its inputs.
    """
    missing = sorted({node.op for node in case.nodes if node.op != "Const" and not has_value(node.op)})
    if missing or case.functions:
        what = ", ".join(missing) or "functions"
        raise UnsupportedError(f"{what} cannot be computed without an engine", remedy="run the case on an engine")
    known: dict[str, tuple[Any, ...]] = {key: (array,) for key, array in case.feeds.items()}
    kept: dict[tuple[str, str], Any] = {}
    with numpy.errstate(all="ignore"):
        for node in case.nodes:
            if node.op == "Const":
                known[node.name] = (node.tensor("value").numpy(),)
                continue
            inputs = [_taken(known, text) for text in node.data_inputs]
            state = State(node.name, kept, _no_file, _say_nothing)
            known[node.name] = bind(node.op, node.attrs, state=state)(inputs)
    return [_taken(known, text) for text in case.fetches]


def _taken(known: Mapping[str, tuple[Any, ...]], text: str) -> Any:
    source = parse_input(text)
    return known[source.node][source.output]


def _no_file(name: bytes) -> Path:
    raise OpError(f"there is no file {name!r}")


def _say_nothing(line: str) -> None:
    """A case that prints has no reader."""
