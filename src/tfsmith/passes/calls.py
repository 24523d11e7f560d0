"""Nodes that call functions, and how the nodes inside of functions name each other's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tfsmith.ir.node import Node

__all__ = ["CALLERS", "rename_output", "rename_outputs"]

CALLERS: Mapping[str, tuple[int, str, tuple[str, ...]]] = MappingProxyType(
    {
        "If": (1, "Tin", ("then_branch", "else_branch")),
        "StatelessIf": (1, "Tin", ("then_branch", "else_branch")),
        "Case": (1, "Tin", ("branches",)),
        "StatelessCase": (1, "Tin", ("branches",)),
        "While": (0, "T", ("body", "cond")),
        "StatelessWhile": (0, "T", ("body", "cond")),
        "PartitionedCall": (0, "Tin", ("f",)),
        "StatefulPartitionedCall": (0, "Tin", ("f",)),
    }
)
"""Ops that call functions: which input is the functions' first, the attribute with the types, those with functions."""


def rename_outputs(nodes: Iterable[Node], outputs: Mapping[str, str]) -> tuple[Node, ...]:
    """The nodes of a function, some of which became other ops, whose outputs have other names: by node, that name."""
    return tuple(_renamed(node, outputs) for node in nodes)


def _renamed(node: Node, outputs: Mapping[str, str]) -> Node:
    if not any(text.partition(":")[0] in outputs for text in node.inputs):
        return node
    return node.replace(inputs=tuple(rename_output(text, outputs) for text in node.inputs))


def rename_output(text: str, outputs: Mapping[str, str]) -> str:
    """In functions an input names the output argument, whose name differs from op to op."""
    name, _, rest = text.partition(":")
    if name not in outputs or not rest:
        return text
    return f"{name}:{outputs[name]}:{rest.rpartition(':')[2] if ':' in rest else '0'}"
