"""What a scan finds: kinds of findings, their levels, what a team has accepted, and the form that viewers read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Literal

from tfsmith.errors import UsageError
from tfsmith.records import record, replace

__all__ = ["KINDS", "LEVELS", "Allowance", "Finding", "Kind", "Level", "When", "allow", "read_allowances", "to_sarif"]

Level = Literal["note", "suspicious", "dangerous"]
When = Literal["at load", "at call", "never reached", "in the file"]
LEVELS: tuple[Level, ...] = ("note", "suspicious", "dangerous")
"""From the least to the worst."""


@record
class Kind:
    """A kind of finding: what it is called, and what it means to whoever runs the model."""

    title: str
    meaning: str


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "runs-code": Kind("runs code", "the model runs code that is no TensorFlow op, with the rights of the process"),
        "custom-op": Kind("custom op", "the op is not TensorFlow's own: it needs a library, which can do anything"),
        "keras-code": Kind("code in Keras metadata", "Keras runs this code when it loads the model"),
        "keras-class": Kind("class of the user's own", "the file has no code of it: who loads it brings the class"),
        "reads-files": Kind("reads files", "the model reads files of the machine that runs it"),
        "writes-files": Kind("writes files", "the model creates or replaces files on the machine that runs it"),
        "lists-files": Kind("lists files", "the model finds out which files there are"),
        "network": Kind("network", "the model talks to other processes or machines"),
        "file-flow": Kind("a file flows out", "what is read from a file is written to another one or sent away"),
        "process": Kind("process", "the model ends, delays or configures the process that runs it"),
        "program-inside": Kind("program inside", "the model carries another program as data"),
        "looks-like-program": Kind("looks like a program", "these bytes begin like an executable or an archive"),
        "foreign-file": Kind("foreign file", "this file lies in the model's folder and is no part of a model"),
        "leads-out": Kind("leads out", "the model points to a file outside of its folder"),
        "memory": Kind("demands memory", "a few bytes of the file make the process ask for gigabytes"),
        "endless-loop": Kind("endless loop", "the loop's condition is always true"),
        "unknown-field": Kind("unknown field", "TensorFlow's messages have no such field; other readers may see it"),
        "disguised": Kind("disguised", "the file is not what its name says"),
        "hidden-graph": Kind("hidden meta graph", "most tools look at the first meta graph alone"),
        "prints": Kind("prints", "the model prints or logs"),
        "summary": Kind("summaries", "the model writes summaries for TensorBoard"),
        "test-op": Kind("test op", "the op exists for TensorFlow's own tests"),
        "host": Kind("depends on the host", "the answer depends on the machine, the clock or the build"),
        "random": Kind("random", "the answer is drawn at random"),
        "not-finite": Kind("not finite", "weights hold NaN or infinities"),
    }
)  # fmt: skip


@record
class Finding:
    """One thing that a model can do.

    Attributes:
        kind: One of `KINDS`.
        level: How bad it is.
        what: The finding in a sentence.
        op: The op, if it is about one.
        node: The node, tensor or file.
        function: The function that it lies in, with the functions or graphs that lead there; empty for the graph.
        constant: The text that matters: a file name, an address.
        when: When it acts.
        count: How many nodes share it; `node` is the first of them.
        offset: Where it lies in the file, if that is known.
    """

    kind: str
    level: Level
    what: str
    op: str = ""
    node: str = ""
    function: str = ""
    constant: str = ""
    when: When = "at call"
    count: int = 1
    offset: int | None = None

    @property
    def rank(self) -> int:
        """The number of its level, from 0."""
        return LEVELS.index(self.level)

    def to_json(self) -> dict[str, Any]:
        """As plain data, with what its kind means."""
        kind = KINDS[self.kind]
        return {
            "kind": self.kind,
            "level": self.level,
            "what": self.what,
            "meaning": kind.meaning,
            "op": self.op or None,
            "node": self.node or None,
            "function": self.function or None,
            "constant": self.constant or None,
            "when": self.when,
            "count": self.count,
            "offset": self.offset,
        }


def grouped(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Worst first; findings that differ in nothing but the node become one, with their number.

    For notes the function counts as little as the node: a layer that is called in many places is one thing to know.
    """
    groups: dict[tuple[Any, ...], list[Finding]] = {}
    for one in found:
        function = "" if one.level == "note" else one.function
        groups.setdefault((one.kind, one.level, one.op, function, one.constant, one.when, one.what), []).append(one)
    merged = [replace(same[0], count=sum(one.count for one in same)) for same in groups.values()]
    return tuple(sorted(merged, key=lambda one: -one.rank))


@record
class Allowance:
    """What a team has accepted: findings of this kind, on these ops and nodes.

    Attributes:
        kind: A kind, or "*".
        op: A glob of ops.
        node: A glob of nodes, tensors or files.
        line: Where it stands in its file.
    """

    kind: str
    op: str = "*"
    node: str = "*"
    line: int = 0

    def covers(self, found: Finding) -> bool:
        """Whether this finding is accepted."""
        wanted = ((found.kind, self.kind), (found.op, self.op), (found.node, self.node))
        return all(fnmatchcase(text, glob) for text, glob in wanted)


def read_allowances(text: str, path: str) -> tuple[Allowance, ...]:
    """Reads a file of lines `KIND [OP [NODE]]`, each word a glob; "#" starts a comment.

    Raises:
        UsageError: A line is something else.
    """
    found: list[Allowance] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) > 3 or not any(fnmatchcase(kind, words[0]) for kind in KINDS):
            what = f"line {number} is not understood: {line.strip()[:60]!r}"
            remedy = f"write KIND [OP [NODE]], with a KIND such as {', '.join(list(KINDS)[:3])}"
            raise UsageError(what, path=path, remedy=remedy)
        kind, op, node = (*words, "*", "*")[:3]
        found.append(Allowance(kind, op, node, number))
    return tuple(found)


def allow(
    found: Iterable[Finding], allowed: Sequence[Allowance]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], tuple[Allowance, ...]]:
    """Parts findings into those that count and those that were accepted; and the allowances that nothing needed."""
    counted: list[Finding] = []
    accepted: list[Finding] = []
    used: set[int] = set()
    for one in found:
        covering = [number for number, allowance in enumerate(allowed) if allowance.covers(one)]
        used.update(covering)
        (accepted if covering else counted).append(one)
    return tuple(counted), tuple(accepted), tuple(one for n, one in enumerate(allowed) if n not in used)


_SARIF_LEVELS = MappingProxyType({"note": "note", "suspicious": "warning", "dangerous": "error"})


def to_sarif(found: Sequence[Finding], path: str, version: str) -> dict[str, Any]:
    """The findings as SARIF 2.1.0, the form that code hosts and editors show.

    Args:
        found: The findings.
        path: The model's path, as it was given.
        version: tfsmith's version.
    """
    from urllib.parse import quote

    used = sorted({one.kind for one in found})
    rules = [
        {
            "id": kind,
            "name": "".join(word.capitalize() for word in kind.split("-")),
            "shortDescription": {"text": KINDS[kind].title},
            "fullDescription": {"text": KINDS[kind].meaning},
        }
        for kind in used
    ]
    driver = {"name": "tfsmith scan", "version": version, "semanticVersion": version, "rules": rules}
    return {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "results": [_sarif_result(one, used.index(one.kind), quote(path)) for one in found],
            }
        ],
    }


def _sarif_result(one: Finding, rule: int, uri: str) -> dict[str, Any]:
    place: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": uri}}}
    if one.offset is not None:
        place["physicalLocation"]["region"] = {"byteOffset": one.offset, "byteLength": 1}
    if one.node:
        name = f"{one.function}/{one.node}" if one.function else one.node
        place["logicalLocations"] = [{"name": one.node, "fullyQualifiedName": name, "kind": "member"}]
    facts = {"op": one.op, "when": one.when, "constant": one.constant, "count": one.count}
    return {
        "ruleId": one.kind,
        "ruleIndex": rule,
        "level": _SARIF_LEVELS[one.level],
        "message": {"text": f"{one.what}: {KINDS[one.kind].meaning}"},
        "locations": [place],
        "properties": {key: value for key, value in facts.items() if value},
    }
