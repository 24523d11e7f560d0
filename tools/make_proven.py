"""Runs the conformance cases on an engine and writes what is proven of it: `src/tfsmith/engines/proven/`.

    python -m tools.make_proven openvino            all cases; a few minutes
    python -m tools.make_proven openvino TopKV2     prints what it would write for some ops or families; writes nothing
    python -m tools.make_proven openvino --verdicts FILE      keeps how each case went, and runs only cases that are new

The file has a line with the versions, then one for each op. For each combination of types: how many cases were equal,
the classes of attributes in them, the attributes of cases that were wrong, and a case for each kind of input (empty,
infinite or NaN, wide integers, bad) that the engine is wrong for, or that no case has.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy

from tfsmith.engines.conformance import BAD, EMPTY, FOLDER, NONFINITE, WIDE, WIDEST, node_kind
from tfsmith.ir.node import Attr, Node
from tfsmith.ir.tensor import ArrayTensor
from tfsmith.ir.types import DType
from tfsmith.ops import ID_INPUTS, LEAST_RANK, WHOLE_REFUSALS
from tfsmith.ops.inference import find_conflicts
from tfsmith.ops.samples import Case
from tfsmith.records import replace
from tfsmith.testing.conformance.answers import Answer, digest, load_answers
from tfsmith.testing.conformance.isolated import all_cases, check_isolated
from tfsmith.testing.conformance.runner import Verdict

_PACKAGES = {"onnx": "onnxruntime"}
"""What runs the cases, where the engine is called otherwise."""
_SHOWN = 160
_OFTEN = 50
_WIDE_TYPES = ("int64", "uint32", "uint64")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine")
    parser.add_argument("names", nargs="*", help="ops and families; all by default")
    parser.add_argument("--verdicts", type=Path, help="a file that keeps how each case went")
    given = parser.parse_intermixed_args()
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    counts: Counter[str] = Counter()
    versions = set()
    for case, answer, by, verdict in _verdicts(given.engine, given.names, given.verdicts):
        versions.add(by)
        counts[verdict.kind] += 1
        if answer is not None and answer.kind != "lacks":
            _enter(rows, case, answer, verdict)
    version = installed(_PACKAGES.get(given.engine, given.engine))
    header = {"engine": given.engine, "version": version, "tensorflow": sorted(versions), "cases": counts.total()}
    lines = [json.dumps({"op": op, "types": _sorted(rows[op])}) for op in sorted(rows)]
    text = "\n".join((json.dumps(header), *lines)) + "\n"
    if given.names:
        print(text)
    else:
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{given.engine}-{version}.jsonl").write_text(text)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))


def _verdicts(engine: str, names: list[str], kept: Path | None) -> Iterator[tuple[Case, Answer | None, str, Verdict]]:
    """All cases with TensorFlow's answer, its version, and how they went; those that are kept are not run again."""
    known: dict[str, list[Any]] = json.loads(kept.read_text()) if kept is not None and kept.is_file() else {}
    cases = [(samples, case, f"{samples.tolerance} {digest(case)}") for samples, case in all_cases(names)]
    new = [number for number, (_, _, key) in enumerate(cases) if key not in known]
    for number, verdict in zip(new, check_isolated(engine, names, set(new)), strict=True):
        known[cases[number][2]] = [verdict.kind, verdict.reason]
        if kept is not None and number % _OFTEN == 0:
            kept.write_text(json.dumps(known))
    if kept is not None:
        kept.write_text(json.dumps(known))
    for samples, case, key in cases:
        answers = load_answers(samples.family)
        kind, reason = known[key]
        verdict = Verdict(samples.family, samples.op, case.name, kind, reason)
        yield case, answers.by_digest.get(digest(case)), answers.version, verdict


def _sorted(types: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The rows of an op in order. Empty tensors and wide integers that no case has are not proven."""
    found = {}
    for key in sorted(types):
        row = types[key]
        may_be_wide = any(kind in key for kind in _WIDE_TYPES)
        for condition in (EMPTY, WIDE) if may_be_wide else (EMPTY,):
            if condition not in row["seen"]:
                row.setdefault(condition, "no case has them")
        attrs = {name: sorted(values) for name, values in sorted(row["attrs"].items())}
        told = {name: value for name, value in row.items() if name != "seen"}
        found[key] = {name: value for name, value in {**told, "attrs": attrs}.items() if value}
    return found


def _enter(rows: dict[str, dict[str, dict[str, Any]]], case: Case, answer: Answer, verdict: Verdict) -> None:
    """Takes note of a case: what is equal speaks for all of its nodes, all else only against those of its op."""
    condition = _condition(case, answer)
    if condition == BAD and verdict.kind in ("wrong", "crashed") and not _can_be_seen(case):
        condition = None
    reason = f"{verdict.case}: {verdict.reason}"[:_SHOWN]
    for node in case.nodes:
        kind = node_kind(node.op, node.attrs)
        if kind is None or node.op == "Const" or (verdict.kind != "equal" and node.op != case.op):
            continue
        row = rows.setdefault(node.op, {}).setdefault(kind.types, {"equal": 0, "attrs": {}, "wrong": [], "seen": set()})
        if verdict.kind == "equal":
            row["equal"] += condition in (None, NONFINITE, WIDE)
            if condition in (EMPTY, WIDE):
                row["seen"].add(condition)
            for name, value in kind.attrs.items() if condition != BAD else ():
                row["attrs"].setdefault(name, set()).add(value)
        elif verdict.kind in ("refused", "lacks"):
            row.setdefault("refused", reason)
        elif condition is not None:
            row[condition] = reason if verdict.kind == "crashed" else row.get(condition, reason)
        elif dict(kind.attrs) not in [attrs for attrs, _ in row["wrong"]]:
            row["wrong"].append([dict(kind.attrs), reason])


def _condition(case: Case, answer: Answer) -> str | None:
    """What is special about the inputs of a case: what can be seen before a run, or in its shapes."""
    if answer.kind == "refused":
        return BAD
    arrays = [*case.feeds.values(), *(node.tensor("value").numpy() for node in case.nodes if node.op == "Const")]
    if any(array.size == 0 for array in (*arrays, *answer.values)):
        return EMPTY
    if any(_is_nonfinite(array) for array in arrays):
        return NONFINITE
    return WIDE if any(_is_wide(array) for array in arrays) else None


def _can_be_seen(case: Case) -> bool:
    """Whether the guard sees that TensorFlow refuses a case: from ids and divisors, which it computes before a run, or
    from shapes and the integers beside the first input (axes, sizes, bounds).

    Where it does not know such an integer before a run, it does not take the node for proven.
    """
    if case.op in ID_INPUTS or case.op in LEAST_RANK or case.op == "Assert":
        return True
    kinds = {kind.name for kind in case.types.values()}
    if case.op in WHOLE_REFUSALS and all(kind.startswith(("int", "uint")) for kind in kinds):
        return True
    first = case.nodes[-1].data_inputs[:1]
    whole = {key for key, kind in case.types.items() if kind.name in ("int32", "int64") and key not in first}
    nodes = (_constant(key, case.types[key], case.feeds[key]) for key in whole)
    left = {key: array for key, array in case.feeds.items() if key not in whole}
    known = replace(case, nodes=(*nodes, *case.nodes), feeds=left, shapes={})
    return next(iter(find_conflicts(known.graph())), None) is not None


def _constant(name: str, kind: DType, array: Any) -> Node:
    return Node(name, "Const", (), {"dtype": kind, "value": Attr("tensor", ArrayTensor(kind, array))})


def _is_wide(array: Any) -> bool:
    return array.dtype.kind in "iu" and bool((array.max() > WIDEST) | (array.min() < -WIDEST))


def _is_nonfinite(array: Any) -> bool:
    if array.dtype.kind == "c":
        return not bool(numpy.isfinite(array).all())
    if array.dtype.kind != "f" and array.dtype.name != "bfloat16":
        return False
    return not bool(numpy.isfinite(array.astype(numpy.float64)).all())


if __name__ == "__main__":
    main()
