"""What `tfsmith diff` tells, as sections of text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tfsmith import api
from tfsmith.cli.common import human_count
from tfsmith.cli.render import Section

__all__ = ["sections", "summary"]

_LONGEST = 120
"""Of a value that is shown; a list in an attribute may have thousands of items."""
_MOST_INPUTS = 8
"""Of a node that are shown; the node that restores all variables waits for hundreds."""
Row = tuple[str, ...]


def sections(found: api.ModelDiff, limit: int) -> list[Section]:
    """One section for each kind of difference that there is, cut after `limit` entries."""
    facts = found.facts()
    shown: list[Section] = []
    for name in found.only:
        part = facts[name]
        if name == "nodes":
            shown += _cut("nodes", part, _node_entries(part), limit)
        elif name == "functions":
            shown += _cut("functions", part, _function_entries(part, limit), limit)
        elif name == "weights":
            shown += _cut("weights", part, ([_weight(one)] for one in part), limit)
        else:
            shown += _cut(name, part, ([_value(one)] for one in part), limit)
    return shown


def _cut(title: str, part: Any, entries: Iterable[list[Row]], limit: int) -> Iterator[Section]:
    count, words = _numbers(part)
    if not count:
        return
    rows = [row for entry in islice(entries, limit) for row in entry]
    left = count - limit
    notes = (f"and {human_count(left)} more; --all shows them",) if left > 0 else ()
    yield Section(f"{title}: {words}", rows, notes=notes)


def _numbers(part: Any) -> tuple[int, str]:
    if not isinstance(part, dict):
        return len(part), f"{human_count(len(part))} differ{'s' * (len(part) == 1)}"
    counts = {name: len(items) for name, items in part.items() if isinstance(items, list) and items}
    words = ", ".join(f"{human_count(count)} {name}" for name, count in counts.items())
    rewired = sum("inputs" in one for one in part["changed"])
    return sum(counts.values()), f"{words} ({human_count(rewired)} rewired)" if rewired else words


def _node_entries(part: dict[str, Any]) -> Iterator[list[Row]]:
    for one in part["changed"]:
        yield _changed(one)
    for one in part["renamed"]:
        yield [(">", f"{one['first']} -> {one['second']}", one["op"])]
    for one in part["removed"]:
        yield [("-", one["name"], one["op"])]
    for one in part["added"]:
        yield [("+", one["name"], one["op"])]


def _changed(one: dict[str, Any]) -> list[Row]:
    op = one["op"]
    rows: list[Row] = [("~", one["name"], op if isinstance(op, str) else f"{op['first']} -> {op['second']}")]
    inputs = one.get("inputs", ())
    for change in inputs[:_MOST_INPUTS]:
        what = "control input" if change["index"] is None else f"input {change['index']}"
        rows.append(("", f"  {what}", _arrow(change)))
    if len(inputs) > _MOST_INPUTS:
        rows.append(("", f"  and {human_count(len(inputs) - _MOST_INPUTS)} more inputs", ""))
    for change in one.get("attrs", ()):
        rows.append(("", f"  {change['name']}", _arrow(change)))
    if "device" in one:
        rows.append(("", "  device", _arrow(one["device"])))
    return rows


def _function_entries(part: dict[str, Any], limit: int) -> Iterator[list[Row]]:
    for one in part["changed"]:
        rows: list[Row] = [("~", one["name"], _numbers(one["nodes"])[1])]
        rows += [("", f"  {change['name']}", _arrow(change)) for change in (*one["facts"], *one["attrs"])]
        inner = islice(_node_entries(one["nodes"]), limit)
        rows += [("", f"  {mark or ' '} {name}", what) for entry in inner for mark, name, what in entry]
        left = _numbers(one["nodes"])[0] - limit
        yield [*rows, ("", f"  and {human_count(left)} more nodes", "")] if left > 0 else rows
    for one in part["renamed"]:
        yield [(">", f"{one['first']} -> {one['second']}")]
    for name in part["removed"]:
        yield [("-", name)]
    for name in part["added"]:
        yield [("+", name)]


def _value(change: dict[str, Any]) -> Row:
    mark = "+" if change["first"] is None else "-" if change["second"] is None else "~"
    if mark == "~":
        return (mark, change["name"], _arrow(change))
    return (mark, change["name"], _text(change["second"] if mark == "+" else change["first"]))


def _weight(one: dict[str, Any]) -> Row:
    if one["verdict"].startswith("only"):
        mark, there = ("-", one["first"]) if one["second"] is None else ("+", one["second"])
        return (mark, one["name"], f"{there[0]} {_text(there[1])}")
    if one["verdict"] == "shape" or one["first"] != one["second"]:
        what = " -> ".join(f"{there[0]} {_text(there[1])}" for there in (one["first"], one["second"]))
        return ("~", one["name"], what)
    most = one["max_difference"]
    number = "" if most is None else f"by at most {most:.4g}" if isinstance(most, float) else f"by {most}"
    values = "" if one["unequal"] is None else f"{human_count(one['unequal'])} values differ"
    return ("~", one["name"], " ".join(word for word in (values, number) if word) or "differs")


def _arrow(change: dict[str, Any]) -> str:
    return f"{_text(change['first'])} -> {_text(change['second'])}"


def _text(value: Any) -> str:
    if value is None:
        return "(none)"
    if isinstance(value, dict) and set(value) == {"dtype", "shape"}:
        return f"{value['dtype']} {_text(value['shape'])}"
    if isinstance(value, dict) and set(value) == {"function"}:
        return str(value["function"])
    text = value if isinstance(value, str) and value else json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 3 :]}"


def summary(found: api.ModelDiff) -> Section:
    """The last line, after what could not be compared."""
    counts = {name: count for name, count in found.counts().items() if count}
    total = sum(counts.values())
    same = []
    if "nodes" in found.only and found.first.has_graph and found.second.has_graph:
        same.append(f"{human_count(found.structure.nodes.same)} nodes")
    if "weights" in found.only:
        both = sum(one.first is not None and one.second is not None for one in found.weights)
        same.append(f"{human_count(found.weight_count - both)} weights")
    words = f" ({' and '.join(same)} are the same)" if same else ""
    parts = ", ".join(f"{name} {human_count(count)}" for name, count in counts.items())
    line = f"{human_count(total)} difference{'s' * (total != 1)}: {parts}" if total else "no difference"
    line += words
    return Section(line, notes=tuple(f"note: {note}" for note in found.notes))
