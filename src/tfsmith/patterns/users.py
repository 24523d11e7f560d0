"""What counts as used: who outside of a match takes its tensors, and which of those users lead nowhere.

A user counts if an output of the model needs it: a signature, a collection, the saver, an initializer, an asset, a
Python object, or a result of a function. In a graph that names no outputs, every end of it counts, but for ends that
only look at shapes: `Shape` nodes that nobody uses are left behind by many programs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, Literal

from tfsmith.ir.body import Body
from tfsmith.ir.function import Function
from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import MetaGraph
from tfsmith.ir.model import Model
from tfsmith.ir.node import CONTROL, Endpoint, Node, parse_input
from tfsmith.passes.endpoints import guess_outputs
from tfsmith.passes.interface import check_tensor, tensor_names
from tfsmith.records import field, record

__all__ = [
    "Named",
    "Outside",
    "Sharing",
    "Taken",
    "examine",
    "is_source",
    "may_be_pruned",
    "outside_of_function",
    "outside_of_graph",
    "stale_contexts",
]

_SHAPE_OPS = frozenset({"Shape", "ShapeN", "Size", "Rank", "VariableShape", "BroadcastArgs", "BroadcastGradientArgs"})
_SHAPE_MATH = frozenset(
    {"StridedSlice", "Slice", "Pack", "Unpack", "ConcatV2", "Cast", "Identity", "Gather", "GatherV2", "Prod", "Squeeze"}
    | {"ExpandDims", "Mul", "Add", "AddV2", "Sub", "FloorDiv", "Maximum", "Reshape", "Range"}
)
"""What is often done with a shape, and leads nowhere if all that it takes is shapes and constants."""
_DEPTH = 20
Taken = Mapping[str, Mapping[Endpoint, str]]
"""By old node: those of its tensors that new nodes take, each with the name of one that does."""
_NOTHING: Taken = MappingProxyType({})
_CONTEXTS = ("while_context", "cond_context")
_STAYS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "_Arg", "_Retval"})
_HARMLESS = frozenset(
    {"ReadVariableOp", "RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal", "VariableShape"}
)
"""Ops that are called stateful, but whose going nobody notices."""
_SOURCES = frozenset(
    {"Const", "VariableV2", "Variable", "VarHandleOp", "Placeholder", "PlaceholderV2", "ReadVariableOp"}
)

Kind = Literal["name", "fed", "result", "control"]


@record
class Named:
    """Something besides nodes that refers to a tensor or node.

    Attributes:
        endpoint: The tensor, or with `CONTROL` the node as such.
        who: What refers to it, in words.
        kind: "name": by a name that must stay valid. "fed": values are put in there. "result" and "control": a
            function gives it, by an entry that can be changed.
    """

    endpoint: Endpoint
    who: str
    kind: Kind = "name"


@record
class Outside:
    """What is used of a body besides by its own nodes.

    Attributes:
        named: By node, what refers to it.
        live: The names of all nodes that any of these needs.
    """

    named: Mapping[str, tuple[Named, ...]]
    live: Set[str]


@record(frozen=False)
class Sharing:
    """Who uses the nodes of a match besides itself.

    Attributes:
        shared: For a node of the match whose tensor is used elsewhere: by whom.
        doomed: Nodes outside of the match that use it, but lead nowhere.
        named: For a node of the match that gives an output: what refers to that output by its name.
        waiting: Whether nodes outside wait for it without taking a tensor.
    """

    shared: dict[str, tuple[str, ...]] = field(default_factory=dict)
    doomed: set[str] = field(default_factory=set)
    named: dict[str, tuple[Named, ...]] = field(default_factory=dict)
    waiting: bool = False


def outside_of_graph(model: Model, outputs: Sequence[str] = ()) -> Outside:
    """What is used of the selected graph. Linear.

    Args:
        model: The model.
        outputs: Tensors or nodes that count as outputs besides those that the model names itself.

    Raises:
        NotFoundInModelError: An output is not in the graph; the remedy has the nearest names.
    """
    graph = model.graph
    found = [Named(check_tensor(model, name), f"the output {name!r}") for name in outputs]
    found += _of_meta(model.meta)
    has_signatures = any(signature.outputs for signature in model.signatures.values())
    if not outputs and not has_signatures:
        known: dict[str, bool] = {}
        likely = [parse_input(candidate.tensor) for candidate in guess_outputs(graph)]
        likely = [tensor for tensor in likely if not _is_of_shapes(graph, graph[tensor.node], known, 0)]
        found += [Named(tensor, f"the likely output {str(tensor)!r}") for tensor in likely]
        ends = _ends(graph, known)
        found += [Named(Endpoint(node.name, 0), "the end of the graph that it is") for node in ends]
    return _outside(graph, found)


def outside_of_function(function: Function, meta: MetaGraph) -> Outside:
    """What is used of a function: its results, its control outputs, and ends that have effects. Linear."""
    found: list[Named] = []
    for key, text in function.ret.items():
        found.append(Named(function.resolve(text), f"the result {key!r} of the function", "result"))
    for key, name in function.control_ret.items():
        found.append(Named(Endpoint(name, CONTROL), f"the control output {key!r} of the function", "control"))
    for node in function:
        op = function.op_def(node.op)
        if not function.uses[node.name] and (op is None or op.is_stateful) and node.op not in _HARMLESS:
            found.append(Named(Endpoint(node.name, CONTROL), "the end with effects that it is"))
    objects = meta.objects
    for saved in () if objects is None else objects.nodes:
        if saved.kind == "captured_tensor" and saved.details.get("concrete_function") == function.name:
            found.append(Named(_endpoint(saved.details.get("name")), "a Python object"))
    return _outside(function, found)


def _outside(body: Body, found: Sequence[Named]) -> Outside:
    named: dict[str, list[Named]] = {}
    for item in found:
        if item.endpoint.node in body:
            named.setdefault(item.endpoint.node, []).append(item)
    roots = [name for name, items in named.items() if any(item.kind != "fed" for item in items)]
    return Outside({name: tuple(items) for name, items in named.items()}, body.ancestors(roots))


def _endpoint(name: object) -> Endpoint:
    return parse_input(name) if isinstance(name, str) else Endpoint("", 0)


def _of_meta(meta: MetaGraph) -> Iterator[Named]:
    """What the parts of a meta graph besides the graph refer to."""
    for key, signature in meta.signatures.items():
        for name, info in signature.outputs.items():
            for text in tensor_names(info):
                yield Named(parse_input(text), f"output {name!r} of signature {key!r}")
        for name, info in signature.inputs.items():
            for text in tensor_names(info):
                yield Named(parse_input(text), f"input {name!r} of signature {key!r}", "fed")
    if meta.saver is not None:
        for text in (meta.saver.filename_tensor_name, meta.saver.save_tensor_name, meta.saver.restore_op_name):
            yield Named(parse_input(text), "the saver")
    for asset in meta.assets:
        yield Named(parse_input(asset.tensor_name), f"the asset {asset.filename!r}")
    for key, collection in meta.collections.items():
        if collection.kind == "node":
            yield from (Named(_endpoint(name), f"the collection {key!r}") for name in collection.values)
        for message in collection.messages:
            yield from (Named(parse_input(name), f"the collection {key!r}") for name in _names(message))
    for saved in () if meta.objects is None else meta.objects.nodes:
        if saved.kind == "constant":
            yield Named(_endpoint(saved.details.get("operation")), "a Python object")


def _names(plain: Any, depth: int = 0) -> Iterator[str]:
    """The names of nodes in a message: what stands in fields called so. The list of a context does not count."""
    if not isinstance(plain, Mapping) or depth > _DEPTH:
        return
    for key, value in plain.items():
        if isinstance(value, str):
            if key.endswith("_name"):
                yield value
        elif key == "external_values" and isinstance(value, Mapping):
            yield from (name for name in value.values() if isinstance(name, str))
        elif isinstance(value, (tuple, list)):
            if key.endswith(("_names", "_name")):
                yield from (name for name in value if isinstance(name, str))
            else:
                for item in value:
                    yield from _names(item, depth + 1)
        else:
            yield from _names(value, depth + 1)


def _ends(graph: Graph, known: dict[str, bool]) -> Iterator[Node]:
    """The nodes that nobody uses or waits for, but for those that only look at shapes."""
    for node in graph:
        if not graph.uses[node.name] and not _is_of_shapes(graph, node, known, 0):
            yield node


def _is_of_shapes(graph: Graph, node: Node, known: dict[str, bool], depth: int) -> bool:
    """Whether a node looks at nothing but shapes."""
    if node.op in _SHAPE_OPS:
        return True
    if node.op not in _SHAPE_MATH or depth > _DEPTH:
        return False
    if node.name not in known:
        sources = [graph.by_name.get(graph.resolve(text).node) for text in node.data_inputs]
        others = [source for source in sources if source is not None and source.op != "Const"]
        known[node.name] = False  # a loop comes back here
        known[node.name] = bool(others) and all(_is_of_shapes(graph, one, known, depth + 1) for one in others)
    return known[node.name]


def examine(
    body: Body,
    outside: Outside,
    nodes: Set[str],
    outputs: Collection[Endpoint],
    gone: Set[str] = frozenset(),
    taken: Taken = _NOTHING,
) -> Sharing:
    """Who uses the nodes of a match besides itself. Linear in their uses, and in the nodes that lead nowhere.

    Args:
        body: The graph or function.
        outside: What is used of it.
        nodes: The nodes of the match.
        outputs: Their outputs that others may use, because something takes their place.
        gone: Nodes that do not count, because they are gone already.
        taken: What the nodes take that took their place.
    """
    found = Sharing()
    shared: dict[str, list[str]] = {}
    # In a part that leads nowhere itself, everybody counts.
    is_live = any(output.node in outside.live for output in outputs)
    for name in sorted(nodes):
        for use in body.uses[name]:
            user = use.node.name
            if user in nodes or user in gone:
                continue
            if use.output == CONTROL:
                found.waiting = True
            elif Endpoint(name, use.output) not in outputs:
                if is_live and user not in outside.live:
                    found.doomed.add(user)
                else:
                    shared.setdefault(name, []).append(f"{user} ({use.node.op})")
        for tensor, new in taken.get(name, {}).items():
            if tensor not in outputs:
                shared.setdefault(name, []).append(f"{new} (new)")
        for item in outside.named.get(name, ()):
            if item.kind != "fed" and (item.endpoint in outputs or item.kind == "control"):
                found.named[name] = (*found.named.get(name, ()), item)
            else:
                shared.setdefault(name, []).append(item.who)
    found.doomed = _with_users(body, found.doomed) - gone
    for name in sorted(found.doomed & nodes):  # what leads nowhere leads back here: then it does count
        shared.setdefault(name, []).append("a path that leads back to it")
    found.shared = {name: tuple(dict.fromkeys(users)) for name, users in shared.items()}
    return found


def _with_users(body: Body, names: Set[str]) -> set[str]:
    """These nodes, and all that needs them."""
    seen = set(names)
    todo = list(names)
    while todo:
        for use in body.uses[todo.pop()]:
            if use.node.name not in seen:
                seen.add(use.node.name)
                todo.append(use.node.name)
    return seen


def may_be_pruned(body: Body, outside: Outside, node: Node) -> bool:
    """Whether a node may go once nobody uses it: it has no effects, is no input, and nothing refers to it."""
    if node.name in outside.named or node.op in _STAYS:
        return False
    op = body.op_def(node.op)
    return node.op in _HARMLESS or (op is not None and not op.is_stateful)


def is_source(node: Node) -> bool:
    """Whether a node only gives a value that lies ready, so that keeping it costs nothing."""
    return node.op in _SOURCES


def stale_contexts(meta: MetaGraph, gone: Set[str]) -> tuple[str, ...]:
    """The collections of TF1's loops and conditions that list nodes which are gone."""
    found = []
    for key in _CONTEXTS:
        collection = meta.collections.get(key)
        if collection is not None and any(_lists(message, gone, 0) for message in collection.messages):
            found.append(key)
    return tuple(found)


def _lists(plain: Any, gone: Set[str], depth: int) -> bool:
    if isinstance(plain, str):
        return parse_input(plain).node in gone
    if depth > _DEPTH or not isinstance(plain, (Mapping, tuple, list)):
        return False
    items = (*plain.keys(), *plain.values()) if isinstance(plain, Mapping) else plain
    return any(_lists(item, gone, depth + 1) for item in items)
