"""Models for the page: many nodes, functions, a graph that is cut off, names that want to be HTML."""

from __future__ import annotations

from pathlib import Path

from tfsmith.formats.graph.graphdef import plan_graph
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node
from tfsmith.ir.types import Shape, dtype_named

__all__ = ["HOSTILE", "write_cut_off", "write_hostile", "write_many"]

FLOAT = dtype_named("float32")
HOSTILE = (
    "<script>document.title='owned'</script>",
    "</script><img src=x onerror=document.title='owned'>",
    "\"quotes' & <b>&amp;</b>",
    "long/" + "n" * 10_000,
    "\u202eright-to-left",
    "עברית/شبكة",
    "a//b",
)


def write_many(path: Path, *, scopes: int = 50, blocks: int = 10, nodes: int = 100) -> Path:
    """A graph of scopes of blocks, each block another chain; one scope has all its nodes side by side."""
    made = [Node("x", "Placeholder", (), {"dtype": FLOAT, "shape": Shape((-1, 64))})]
    last = "x"
    for scope in range(scopes):
        for block in range(blocks):
            entry = last
            for number in range(nodes):
                name = (
                    f"scope_{scope}/flat_{block * nodes + number}"
                    if scope == 1
                    else f"scope_{scope}/block_{block}/n_{number}"
                )
                op = "Relu" if (number + scope) % 3 else "Tanh"
                if number % 10 == 9:
                    made.append(Node(name, "AddV2", (last, entry), {"T": FLOAT}))
                else:
                    made.append(Node(name, op, (last,), {"T": FLOAT}))
                last = name
    return _write(path, made)


def write_cut_off(path: Path) -> Path:
    """A graph that takes what is not there."""
    x = Node("x", "Placeholder", (), {"dtype": FLOAT})
    y = Node("net/y", "AddN", ("x", "gone", "lost:1"), {"T": FLOAT, "N": 3})
    return _write(path, [x, y, Node("net/z", "Relu", ("net/y",), {"T": FLOAT})])


def write_hostile(path: Path) -> Path:
    """A graph whose names, ops and texts want to be read as HTML."""
    made = [Node("x", "Placeholder", (), {"dtype": FLOAT})]
    for name in HOSTILE:
        made.append(Node(name, "Relu", (made[-1].name,), {"T": FLOAT, "_text": HOSTILE[0].encode()}))
    made.append(Node("custom", "<img src=x onerror=document.title='owned'>", (made[-1].name,), {}))
    return _write(path, made)


def _write(path: Path, nodes: list[Node]) -> Path:
    path.write_bytes(plan_graph(Graph(tuple(nodes))).tobytes())
    return path
