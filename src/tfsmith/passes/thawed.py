"""How thawing marks the nodes that it changes or adds, so that freezing gives back the very nodes that were there.

A constant becomes a VarHandleOp, an Identity of it a ReadVariableOp, both in their places and with all their other
attributes. Whatever else took the constant takes a ReadVariableOp that is added, and that freezing takes out again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tfsmith.ir.dtype import DType
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.shape import SCALAR
from tfsmith.ir.tensor import Tensor

__all__ = [
    "added_read",
    "added_reads",
    "const_to_handle",
    "handle_to_const",
    "identity_to_read",
    "read_to_identity",
    "renamed_input",
    "without_reads",
]

_MARK = "_tfsmith_thawed"
"""The attribute with the op that a node had before; empty for a read that was not there. TensorFlow keeps attributes
that begin with an underscore, and asks nothing about them."""
_HANDLE_ATTRS = ("shape", "shared_name", "container", "debug_name", "allowed_devices")


def const_to_handle(const: Node, tensor: Tensor) -> Node:
    """The variable in the constant's place."""
    attrs: dict[str, object] = {"value": None, "shape": tensor.shape, "shared_name": const.name, "container": ""}
    attrs[_MARK] = "Const"
    if "_output_shapes" in const.attrs:  # TensorFlow compares them with what it infers, and a handle is a scalar
        attrs["_output_shapes"] = (SCALAR,)
    return const.replace(op="VarHandleOp", attrs=attrs)


def handle_to_const(variable: Node, tensor: Tensor) -> Node:
    """The constant in the variable's place; if it was one before, with all that it had then."""
    if variable.get(_MARK) != b"Const":
        kind = variable.get("dtype", tensor.dtype)
        return Node(variable.name, "Const", (), {"dtype": kind, "value": tensor})
    attrs: dict[str, object] = {"value": tensor, _MARK: None, **dict.fromkeys(_HANDLE_ATTRS)}
    if "_output_shapes" in variable.attrs:
        attrs["_output_shapes"] = (tensor.shape,)
    return variable.replace(op="Const", attrs=attrs)


def identity_to_read(node: Node, kind: DType) -> Node:
    """The read of a variable of this type in the place of an Identity of the constant."""
    return node.replace(op="ReadVariableOp", attrs={"T": None, "dtype": kind, _MARK: "Identity"})


def read_to_identity(node: Node) -> Node | None:
    """The Identity that a read was before; None if it was none."""
    if node.get(_MARK) != b"Identity":
        return None
    return node.replace(op="Identity", attrs={"dtype": None, "T": node.get("dtype"), _MARK: None})


def added_read(name: str, variable: Node) -> Node:
    """A read of a variable for whatever took the constant itself."""
    return Node(name, "ReadVariableOp", (variable.name,), {"dtype": variable.get("dtype"), _MARK: ""})


def added_reads(graph: Graph, variables: Collection[str]) -> dict[str, str]:
    """The reads of these variables that thawing added: their names, and their variables' names."""
    return {
        node.name: node.inputs[0]
        for node in graph
        if node.op == "ReadVariableOp" and len(node.inputs) == 1 and node.inputs[0] in variables
        if node.get(_MARK) == b""
    }


def without_reads(nodes: Iterable[Node], reads: Mapping[str, str]) -> list[Node]:
    """The nodes without these reads; what took them takes what they read."""
    found: list[Node] = []
    for node in nodes:
        if node.name in reads:
            continue
        inputs = tuple(renamed_input(text, reads) for text in node.inputs)
        found.append(node if inputs == node.inputs else node.replace(inputs=inputs))
    return found


def renamed_input(text: str, names: Mapping[str, str]) -> str:
    """An input in the form that it had ("a", "a:0", "^a"), from a node of another name."""
    name = parse_input(text).node
    return text.replace(name, names[name], 1) if name in names else text
