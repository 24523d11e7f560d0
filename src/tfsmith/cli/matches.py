"""What a replacement did, or would do: as text, and as facts for JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tfsmith import api
from tfsmith.cli.common import plural, printable
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Graph
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.recipe import Match, Miss, Unit

__all__ = ["match_facts", "match_text", "miss_text"]

_SHOWN = 100
"""So many matches or nodes are listed."""


def match_text(before: Model, replaced: api.Replaced, *, done: bool) -> str:
    """The matches and what became of them, one on a line."""
    lines: list[str] = []
    for number, match in enumerate(replaced.matches[:_SHOWN], 1):
        count = len({name for unit in _units(match) for name in (*unit.nodes.values(), *unit.passed)})
        units = f" in {plural(len(match.units), 'unit')}" if match.variant.repeat is not None else ""
        place = "the graph" if match.body is None else f"function {match.body}"
        lines.append(f"match {number} in {place}: {', '.join(_outputs(match))} ({plural(count, 'node')}{units})")
    if len(replaced.matches) > _SHOWN:
        lines.append(f"... and {len(replaced.matches) - _SHOWN:,} more")
    added, removed = _difference(before, replaced.model)
    for node in added[:_SHOWN]:
        lines.append(f"  + {node.name} ({node.op}, {plural(len(node.data_inputs), 'input')})")
    if len(added) > _SHOWN:
        lines.append(f"  + {len(added) - _SHOWN:,} more")
    if removed:
        lines.append(f"  - {plural(removed, 'node')}{'' if done else ' would go'}")
    return "".join(f"{printable(line)}\n" for line in lines)


def miss_text(miss: Miss | None) -> str:
    """The attempt that came nearest, and why it failed."""
    if miss is None:
        return "No node of the model is like any output that is wanted\n"
    place = "the graph" if miss.body is None else f"function {miss.body}"
    lines = (
        f"nearest miss in {place} (variant {miss.variant}): {plural(miss.matched, 'node')} fitted",
        f"  wanted {miss.wanted_node}: {miss.reason}",
    )
    return "".join(f"{printable(line)}\n" for line in lines)


def match_facts(before: Model, replaced: api.Replaced) -> dict[str, Any]:
    """The same for programs, with all that was bound."""
    added, removed = _difference(before, replaced.model)
    miss = replaced.nearest_miss
    return {
        "matches": [
            {
                "function": match.body,
                "variant": match.variant.name,
                "outputs": _outputs(match),
                "units": [_unit(unit) for unit in match.units],
                "before": None if match.before is None else _unit(match.before),
            }
            for match in replaced.matches
        ],
        "added": [{"name": node.name, "op": node.op, "inputs": list(node.inputs)} for node in added],
        "removed": removed,
        "skipped": [skipped.reason for skipped in replaced.skipped],
        "warnings": [str(note) for note in replaced.notes],
        "reason": replaced.reason,
        "nearest_miss": None
        if miss is None
        else {
            "function": miss.body,
            "variant": miss.variant,
            "matched": miss.matched,
            "wanted_node": miss.wanted_node,
            "found_node": miss.found_node,
            "reason": miss.reason,
        },
    }


def _unit(unit: Unit) -> dict[str, Any]:
    inputs = {name: str(endpoint) for name, endpoint in unit.inputs.items()}
    return {"nodes": dict(unit.nodes), "inputs": inputs, "passed": list(unit.passed)}


def _units(match: Match) -> Iterator[Unit]:
    yield from match.units
    if match.before is not None:
        yield match.before


def _outputs(match: Match) -> list[str]:
    """The nodes whose outputs are replaced; of a chain, those of its last unit."""
    return list(dict.fromkeys(match.units[-1].nodes[output.node] for output in match.variant.query.outputs))


def _difference(before: Model, after: Model) -> tuple[list[Node], int]:
    """The nodes that are new, and how many are gone."""
    added: list[Node] = []
    removed = 0
    for old, new in _pairs(before.graph, after.graph):
        if old is not new:
            added += [node for node in new if old.by_name.get(node.name) is None or _is_other(old[node.name], node)]
            removed += sum(name not in new.by_name for name in old.by_name)
    return added, removed


def _is_other(old: Node, new: Node) -> bool:
    """Whether another node has the name now."""
    return old is not new and old.op != new.op


def _pairs(before: Graph, after: Graph) -> Iterator[tuple[Body, Body]]:
    yield before, after
    for name, function in after.library.items():
        if name in before.library:
            yield before.library[name], function
