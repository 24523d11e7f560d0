"""Runs the conformance cases on an engine and writes what is proven of it: `src/tfsmith/engines/proven/`.

    python -m tools.make_proven openvino            all cases; a few minutes
    python -m tools.make_proven openvino TopKV2     prints what it would write for some ops or families; writes nothing

The file has a line with the versions, then one for each op. For each combination of types: how many cases were equal,
the classes of attributes in them, the attributes of cases that were wrong, and a case for each kind of input (empty,
infinite or NaN, bad) that the engine is wrong for.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.metadata import version as installed
from typing import Any

import numpy

from tfsmith.engines.conformance import BAD, EMPTY, FOLDER, NONFINITE, node_kind
from tfsmith.ops.samples import Case
from tfsmith.testing.conformance.answers import Answer, digest, load_answers
from tfsmith.testing.conformance.isolated import all_cases, check_isolated
from tfsmith.testing.conformance.runner import Verdict

_SHOWN = 160


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    engine, *names = sys.argv[1:]
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    counts: Counter[str] = Counter()
    given = set()
    for (samples, case), verdict in zip(all_cases(names), check_isolated(engine, names), strict=True):
        answers = load_answers(samples.family)
        answer = answers.by_digest.get(digest(case))
        given.add(answers.version)
        counts[verdict.kind] += 1
        if answer is not None and answer.kind != "lacks":
            _enter(rows, case, answer, verdict)
    version = installed(engine)
    header = {"engine": engine, "version": version, "tensorflow": sorted(given), "cases": counts.total()}
    lines = [json.dumps({"op": op, "types": _sorted(rows[op])}, ensure_ascii=True) for op in sorted(rows)]
    text = "\n".join((json.dumps(header), *lines)) + "\n"
    if names:
        print(text)
    else:
        (FOLDER / f"{engine}-{version}.jsonl").write_text(text)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))


def _sorted(types: dict[str, dict[str, Any]]) -> dict[str, Any]:
    found = {}
    for key in sorted(types):
        row = types[key]
        attrs = {name: sorted(values) for name, values in sorted(row["attrs"].items())}
        found[key] = {name: value for name, value in {**row, "attrs": attrs}.items() if value}
    return found


def _enter(rows: dict[str, dict[str, dict[str, Any]]], case: Case, answer: Answer, verdict: Verdict) -> None:
    """Takes note of a case, for each node of its op."""
    for node in case.nodes:
        kind = node_kind(node.op, node.attrs) if node.op == case.op else None
        if kind is None:
            continue
        row = rows.setdefault(node.op, {}).setdefault(kind.types, {"equal": 0, "attrs": {}, "wrong": []})
        condition = _condition(case, answer)
        reason = f"{verdict.case}: {verdict.reason}"[:_SHOWN]
        if verdict.kind == "equal":
            row["equal"] += condition in (None, NONFINITE)
            if condition != BAD:
                for name, value in kind.attrs.items():
                    row["attrs"].setdefault(name, set()).add(value)
        elif verdict.kind in ("refused", "lacks"):
            row.setdefault("refused", reason)
        elif condition is not None:
            row.setdefault(condition, reason)
        elif [dict(kind.attrs)] not in [wrong[:1] for wrong in row["wrong"]]:
            row["wrong"].append([dict(kind.attrs), reason])


def _condition(case: Case, answer: Answer) -> str | None:
    """What is special about the inputs of a case."""
    if answer.kind == "refused":
        return BAD
    arrays = [*case.feeds.values(), *answer.values]
    arrays += [node.tensor("value").numpy() for node in case.nodes if node.op == "Const"]
    if any(array.size == 0 for array in arrays):
        return EMPTY
    return NONFINITE if any(_is_nonfinite(array) for array in arrays) else None


def _is_nonfinite(array: Any) -> bool:
    if array.dtype.kind == "c":
        return not bool(numpy.isfinite(array).all())
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        return False
    return not bool(numpy.isfinite(array.astype(numpy.float64)).all())


if __name__ == "__main__":
    main()
