"""`tfsmith scan`: of a BERT-base, and of a graph of 100,000 nodes."""

from __future__ import annotations

from benchmarks.measure import Command, script
from benchmarks.report import Row, under, within
from benchmarks.setup import Setup

__all__ = ["rows"]

_TOPIC = "scan"


def rows(setup: Setup) -> list[Row]:
    """All rows of this topic."""
    size = 1000 if setup.quick else 100_000
    saved_model, graph = setup.models.saved_model("ref"), setup.models.graph(size)
    found = setup.compare(
        {
            "bert": Command(script("tfsmith", "scan", saved_model), turns=3),
            "graph": Command(script("tfsmith", "scan", graph), turns=3),
        }
    )
    bert, large = found["bert"], found["graph"]
    return [
        Row(_TOPIC, "scan, BERT-base SavedModel", bert, goals=[within(0.5, bert), under(100, bert)]),
        Row(_TOPIC, f"scan, graph of {size:,} nodes", large, goals=[within(5, large)]),
    ]
