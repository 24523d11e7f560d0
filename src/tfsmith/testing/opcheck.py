"""Checks nodes against the op database: attributes, their kinds, inputs, their dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfsmith.errors import InvalidModelError
from tfsmith.ir.attr import Attr
from tfsmith.ir.dtype import DType
from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.opdef import OpDef
from tfsmith.testing.values import reference_to

__all__ = ["graph_problems", "node_problems"]


def graph_problems(graph: Graph) -> Iterator[str]:
    """All that is wrong with the nodes of a graph, one sentence each; none if all is well. Decodes every node."""
    for node in graph.nodes:
        definition = graph.op_def(node.op)
        if definition is None:
            yield f"node {node.name!r}: there is no op {node.op!r}"
            continue
        yield from _dangling(graph, node)
        types = [_type_of(graph, text) for text in node.data_inputs]
        for problem in node_problems(definition, node.attrs, types):
            yield f"node {node.name!r} ({node.op}): {problem}"


def node_problems(
    definition: OpDef, attrs: Mapping[str, Attr], inputs: Sequence[DType | None], *, complete: bool = True
) -> Iterator[str]:
    """All that is wrong with one node.

    Args:
        definition: Its op.
        attrs: Its attributes.
        inputs: The dtypes of its inputs, references marked as such; None where one is not known.
        complete: Whether attributes with a default must be there as well, as TensorFlow writes them.
    """
    known = {attr.name: attr for attr in definition.attrs}
    for name, value in attrs.items():
        if name.startswith("_"):
            continue
        if name not in known:
            yield f"the op has no attribute {name!r}"
        elif value.kind != known[name].kind and not (value.kind == "list" and known[name].kind.startswith("list(")):
            yield f"attribute {name!r} is of kind {value.kind}, not {known[name].kind}"
    for name, attr in known.items():
        if name not in attrs and (complete or attr.default is None):
            yield f"attribute {name!r} is missing"
    yield from _input_problems(definition, attrs, inputs)


def _input_problems(definition: OpDef, attrs: Mapping[str, Attr], inputs: Sequence[DType | None]) -> Iterator[str]:
    try:
        wanted = [(arg, kind) for arg in definition.inputs for kind in arg.types(attrs)]
    except InvalidModelError as error:
        yield error.what
        return
    if len(wanted) != len(inputs):
        yield f"it has {len(inputs)} inputs, not {len(wanted)}"
        return
    for (arg, kind), given in zip(wanted, inputs, strict=True):
        if given is None:
            continue
        if kind is not None and given.base != kind.base:
            yield f"input {arg.name!r} is {given}, not {kind}"
        if arg.is_ref and not given.is_ref:
            yield f"input {arg.name!r} is {given}, not a reference"


def _dangling(graph: Graph, node: Node) -> Iterator[str]:
    for text in node.inputs:
        name, index = parse_input(text)
        if name not in graph:
            yield f"node {node.name!r}: its input {name!r} is not there"
        elif index >= len(_output_types(graph, graph[name])):
            yield f"node {node.name!r}: its input {text!r} does not exist"


def _output_types(graph: Graph, node: Node) -> tuple[DType | None, ...]:
    definition = graph.op_def(node.op)
    return () if definition is None else definition.output_types(node.attrs)


def _type_of(graph: Graph, text: str) -> DType | None:
    name, index = parse_input(text)
    if name not in graph:
        return None
    types = _output_types(graph, graph[name])
    found = types[index] if index < len(types) else None
    definition = graph.op_def(graph[name].op)
    if found is None or definition is None or not any(arg.is_ref for arg in definition.outputs):
        return found
    return reference_to(found)
