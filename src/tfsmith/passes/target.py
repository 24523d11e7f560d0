"""`Target`: another program that imports TensorFlow graphs, and the ops that it has an answer for.

The tables lie in `targets/`: lines `key: value`, an empty line, and the names of ops. That of TensorFlow has a part for
each release: `release X.Y GRAPH_VERSION`, then ops that came (+), ops that went (-), attributes that came later (@).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tfsmith.errors import UsageError
from tfsmith.ir.names import nearest
from tfsmith.ir.opdb import builtin_ops
from tfsmith.records import record

__all__ = ["Target", "find_target", "target_names"]

_FOLDER = Path(__file__).with_name("targets")
_RELEASE = re.compile(r"(?:tensorflow|tf)-(\d{1,4}\.\d{1,4})(?:\.\d+)*")


@record
class Target:
    """A program that imports graphs.

    Attributes:
        name: As `--for` takes it.
        title: What people call it.
        version: The version that the table speaks of.
        source: Where the table comes from.
        date: When it was taken.
        ops: The ops that it imports.
        ignores: Ops that it passes over, with all that only they need.
        by_name: Whether it also passes over nodes whose names contain such an op's.
        refuses: Dtypes of constants and inputs that it cannot hold.
        only_graphdef: Whether it reads nothing but one binary GraphDef.
        calls: Whether it follows calls of functions.
        freezes: Whether it freezes variables by itself.
        static_shapes: Whether every input needs a full shape.
        graph_version: TensorFlow's number for the graphs that it writes; 0 for others.
        later_attrs: Attributes, as "op.attr", that came after it.
        ignores_attrs: Whether it passes over attributes that it does not know, where others refuse the graph.
    """

    name: str
    title: str
    version: str
    source: str
    date: str
    ops: frozenset[str]
    ignores: frozenset[str] = frozenset()
    by_name: bool = False
    refuses: frozenset[str] = frozenset()
    only_graphdef: bool = False
    calls: bool = False
    freezes: bool = False
    static_shapes: bool = False
    graph_version: int = 0
    later_attrs: frozenset[str] = frozenset()
    ignores_attrs: bool = False


def target_names() -> list[str]:
    """What `--for` takes, sorted; TensorFlow's releases last."""
    releases = [f"tensorflow-{release}" for release in _releases()]
    return ["migraphx", "onnx", "openvino", "tflite", "tflite-flex", *releases]


def find_target(name: str) -> Target:
    """The target of this name.

    Raises:
        UsageError: There is none; the remedy has the nearest, and how to list them.
    """
    wanted = name.strip().lower()
    release = _RELEASE.fullmatch(wanted)
    if release is not None and release[1] in _releases():
        return _tensorflow(release[1])
    if wanted in ("migraphx", "onnx", "openvino", "tflite"):
        return _simple(wanted, wanted)
    if wanted == "tflite-flex":
        return _simple(wanted, "tflite", "flex")
    names = target_names()
    near = nearest(wanted, names) or ["migraphx", "openvino", "tflite", "onnx", names[-1]]
    raise UsageError(f"there is no target {name!r}", remedy=f"near are {', '.join(near)}; --list shows all")


def _simple(name: str, table: str, more: str = "") -> Target:
    head, lines = _read(table)
    ops = {word for line in lines for word in line.split()}
    title, source = head["title"], head["source"]
    if more:
        extra, lines = _read(more)
        ops |= {word for line in lines for word in line.split()}
        title, source = f"{title} with {extra['title']}", f"{source}; {extra['source']}"
    return Target(
        name,
        title,
        head["version"],
        source,
        head["date"],
        frozenset(ops),
        frozenset(head.get("ignores", "").split()),
        head.get("by_name") == "yes",
        frozenset(head.get("refuses", "").split()),
        only_graphdef=head.get("reads") == "graphdef",
        calls=head.get("calls") == "yes",
        freezes=head.get("freezes") == "yes",
        static_shapes=head.get("shapes") == "static",
    )


def _tensorflow(release: str) -> Target:
    head, _ = _read("tensorflow")
    ops: set[str] = set()
    named: set[str] = set()
    later: set[str] = set()
    version, is_past = 0, False
    known = builtin_ops().keys()  # what is there today never went: only its Python function did
    for number, graph_version, marks in _parts():
        for mark, words in marks:
            named |= words if mark != "@" else set()
            if is_past:
                later |= words if mark == "@" else set()
            elif mark == "+":
                ops.update(words)
            elif mark == "-":
                ops.difference_update(words - known)
        if number == release:
            version, is_past = graph_version, True
    ops |= known - named  # ops without Python functions: nothing says when they came
    return Target(
        f"tensorflow-{release}",
        f"TensorFlow {release}",
        release,
        head["source"],
        head["date"],
        frozenset(ops),
        calls=True,
        graph_version=version,
        later_attrs=frozenset(later),
        ignores_attrs=_number(release) >= _number(head["ignores_attributes_since"]),
    )


def _number(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


@cache
def _releases() -> tuple[str, ...]:
    return tuple(release for release, _, _ in _parts())


def _parts() -> Iterator[tuple[str, int, list[tuple[str, set[str]]]]]:
    """Each release with its graph version and its lines: a mark, and words."""
    _, lines = _read("tensorflow")
    release, version, marks = "", 0, list[tuple[str, set[str]]]()
    for line in lines:
        mark, *words = line.split()
        if mark != "release":
            marks.append((mark, set(words)))
            continue
        if release:
            yield release, version, marks
        release, version, marks = words[0], int(words[1]), []
    yield release, version, marks


def _read(name: str) -> tuple[dict[str, str], list[str]]:
    """The header of a table, and its other lines."""
    head, _, body = (_FOLDER / f"{name}.txt").read_text("utf-8").partition("\n\n")
    return dict(line.split(": ", 1) for line in head.splitlines()), [line for line in body.splitlines() if line]
