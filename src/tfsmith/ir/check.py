"""Holds nodes against the definitions of their ops: attributes, inputs, dtypes. One sentence for each problem."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tfsmith.errors import InvalidModelError
from tfsmith.ir.body import BACK_EDGES, Body
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.node import CONTROL, Attr, Node
from tfsmith.ir.opdef import AttrDef, OpDef
from tfsmith.ir.types import DType, reference_to

__all__ = [
    "attr_problem",
    "attrs_problems",
    "find_cycle",
    "graph_problems",
    "input_problems",
    "node_problems",
    "tensor_type",
    "type_problems",
]


def graph_problems(graph: Graph) -> Iterator[str]:
    """All that is wrong with the nodes of a graph, one sentence each; none if all is well. Decodes every node."""
    for node in graph.nodes:
        if graph.op_def(node.op) is None:
            yield f"node {node.name!r}: there is no op {node.op!r}"
            continue
        for problem in input_problems(graph, node):
            yield f"node {node.name!r}: {problem}"
        for problem in node_problems(graph, node, complete=True):
            yield f"node {node.name!r} ({node.op}): {problem}"


def input_problems(body: Body, node: Node) -> Iterator[str]:
    """Inputs of a node that are not there: the node, or the output of that number."""
    for text in node.inputs:
        name = body.source(text)
        if name in body.args:
            continue
        if name not in body:
            yield f"its input {name!r} is not there"
            continue
        source = body[name]
        try:
            output = body.resolve(text).output
            definition = body.op_def(source.op)
            count = None if definition is None else definition.output_count(source.attrs)
        except InvalidModelError:
            yield f"its input {text!r} does not exist"
            continue
        if count is not None and output >= count:
            yield f"its input {text!r} does not exist: op {source.op} has {count} output{'s' * (count != 1)}"


def node_problems(body: Body, node: Node, *, complete: bool = False) -> Iterator[str]:
    """All that is wrong with one node by the definition of its op; nothing if nobody defines it.

    Args:
        body: The graph or function that it is in.
        node: The node.
        complete: Whether attributes with a default must be there as well, as TensorFlow writes them.
    """
    definition = body.op_def(node.op)
    if definition is None:
        return
    in_function = isinstance(body, Function)
    yield from attrs_problems(definition, node.attrs, complete=complete, in_function=in_function)
    inputs = [tensor_type(body, text) for text in node.data_inputs]
    if any(text.startswith("^") for text in node.inputs[: len(inputs)]):
        yield "a tensor stands behind a control input"
    yield from type_problems(definition, node.attrs, inputs, in_function=in_function)
    value, kind = node.constant, node.attrs.get("dtype")
    if value is not None and kind is not None and kind.dtype is not None and value.dtype != kind.dtype.base:
        yield f"attribute 'value' is {value.dtype}, but 'dtype' is {kind.dtype}"


def attrs_problems(
    definition: OpDef, attrs: Mapping[str, Attr], *, complete: bool = False, in_function: bool = False
) -> Iterator[str]:
    """What is wrong with the attributes of a node of this op."""
    known = {one.name: one for one in definition.attrs}
    for name, value in attrs.items():
        if name.startswith("_"):
            continue
        problem = attr_problem(known.get(name), name, value, in_function=in_function)
        if problem is not None:
            yield problem
    for name, wanted in known.items():
        if name not in attrs and (complete or wanted.default is None):
            yield f"attribute {name!r} is missing"


def attr_problem(wanted: AttrDef | None, name: str, value: Attr, *, in_function: bool = False) -> str | None:
    """What is wrong with an attribute's value, or None.

    Args:
        wanted: Its definition; None if the op has no such attribute.
        name: Its name.
        value: Its value.
        in_function: Whether a placeholder may be in the value's place, as in the body of a function.
    """
    if wanted is None:
        return f"the op has no attribute {name!r}"
    if value.kind == "placeholder" and in_function:
        return None
    is_list = wanted.kind.startswith("list(")
    if value.kind != wanted.kind and not (value.kind == "list" and is_list):
        return f"attribute {name!r} is of kind {value.kind}, not {wanted.kind}"
    return wanted.value_problem(value)


def type_problems(
    definition: OpDef, attrs: Mapping[str, Attr], inputs: Sequence[DType | None], *, in_function: bool = False
) -> Iterator[str]:
    """What is wrong with the number and the dtypes of a node's inputs.

    Args:
        definition: Its op.
        attrs: Its attributes.
        inputs: The dtypes of its inputs, references marked as such; None where one is not known.
        in_function: Whether an input may be a list of several tensors, as in the body of a function.
    """
    try:
        wanted = [(arg, kind) for arg in definition.inputs for kind in arg.types(definition.with_defaults(attrs))]
    except InvalidModelError as error:
        if not in_function:
            yield error.what
        return
    if len(wanted) != len(inputs):
        if not in_function or len(inputs) > len(wanted):
            yield f"it has {len(inputs)} input{'s' * (len(inputs) != 1)}, not {len(wanted)}"
        return
    for (arg, kind), given in zip(wanted, inputs, strict=True):
        if given is None:
            continue
        if kind is not None and given.base != kind.base:
            yield f"input {arg.name!r} is {given}, not {kind}"
        if arg.is_ref and not given.is_ref:
            yield f"input {arg.name!r} is {given}, not a reference"


def tensor_type(body: Body, text: str) -> DType | None:
    """The dtype of the tensor that an input's text names, references marked as such; None if nothing says it."""
    name = body.source(text)
    try:
        output = body.resolve(text).output
        if isinstance(body, Function) and name in body.args:
            return next(arg.type for arg in body.signature.inputs if arg.name == name)
        if output == CONTROL or name not in body:
            return None
        node = body[name]
        definition = body.op_def(node.op)
        pairs = [] if definition is None else definition.outputs_of(node.attrs)
    except InvalidModelError:
        return None
    if output >= len(pairs):
        return None
    arg, kind = pairs[output]
    return reference_to(kind) if kind is not None and arg.is_ref and not kind.is_ref else kind


def find_cycle(body: Body) -> list[str]:
    """The names of nodes of which each needs the next, and the last the first; empty if there are none. Linear.

    The back edges of TF1's loops (from NextIteration) are left out, as TensorFlow itself does.
    """
    nodes = body.by_name
    done: set[str] = set()
    for root in nodes:
        path: dict[str, None] = {}
        stack = [root]
        while stack:
            name = stack[-1]
            if name in done or name in path:  # all that it needs was looked at
                path.pop(name, None)
                done.add(stack.pop())
                continue
            path[name] = None
            for source in map(body.source, nodes[name].inputs):
                if source in path and nodes[source].op not in BACK_EDGES:
                    names = list(path)
                    return names[names.index(source) :]
                if source in nodes and source not in done and nodes[source].op not in BACK_EDGES:
                    stack.append(source)
    return []
