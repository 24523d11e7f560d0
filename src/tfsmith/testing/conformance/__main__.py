"""`python -m tfsmith.testing.conformance ENGINE`: runs the cases on an engine and says what is not as in TensorFlow."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from typing import get_args

from tfsmith.engines.runner import check_engine
from tfsmith.ops.samples import samples_of
from tfsmith.testing.conformance.answers import load_answers
from tfsmith.testing.conformance.isolated import all_cases, check_isolated
from tfsmith.testing.conformance.runner import Kind, Verdict, check_samples, compute_values

__all__ = ["main"]

_ENGINES = "reference, openvino, tensorflow, auto; onnx: lowered, on onnxruntime; values: the definitions alone"


def main(arguments: list[str] | None = None) -> int:
    """Runs the command; the exit code is 1 where an answer is wrong, or a case has no answer."""
    parser = argparse.ArgumentParser(prog="python -m tfsmith.testing.conformance", description=__doc__)
    parser.add_argument(
        "engine",
        help="reference, openvino, tensorflow, auto; onnx: lowered, on onnxruntime; or values: the definitions alone",
    )
    parser.add_argument("--ops", default="", metavar="A,B", help="only these ops or families; all by default")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every so many cases: a piece of them")
    parser.add_argument("--start", type=int, default=0, metavar="N", help="the number of the first case")
    parser.add_argument("--json", action="store_true", help="all verdicts as JSON")
    given = parser.parse_args(arguments)
    names = [name for name in given.ops.split(",") if name]
    chosen = samples_of(*names)
    if given.engine == "values":
        verdicts = [verdict for samples in chosen for verdict in check_samples(samples, compute_values)]
    else:
        if given.engine != "onnx":
            check_engine(given.engine)
        count = sum(1 for _ in all_cases(names))
        verdicts = list(check_isolated(given.engine, names, range(given.start, count, max(given.every, 1))))
    versions = sorted({load_answers(samples.family).version for samples in chosen} - {""})
    if given.json:
        print(json.dumps(_as_json(given.engine, versions, verdicts)))  # noqa: T201
    else:
        for verdict in verdicts:
            if verdict.kind != "equal":
                print(verdict)  # noqa: T201
        counts = Counter(verdict.kind for verdict in verdicts)
        told = ", ".join(f"{counts[kind]} {kind}" for kind in get_args(Kind) if counts[kind])
        ops = len({verdict.op for verdict in verdicts})
        print(f"{len(verdicts)} cases of {ops} ops: {told or 'none'} (TensorFlow {', '.join(versions) or '-'})")  # noqa: T201
    return 1 if any(verdict.kind in ("wrong", "crashed", "unasked") for verdict in verdicts) else 0


def _as_json(engine: str, versions: list[str], verdicts: list[Verdict]) -> dict[str, object]:
    rows = [{"op": one.op, "case": one.case, "kind": one.kind, "reason": one.reason} for one in verdicts]
    return {"engine": engine, "tensorflow": versions, "cases": rows}


if __name__ == "__main__":
    sys.exit(main())
