"""Whether a match can be replaced: who outside uses its tensors, what goes, what stays, which names must stay valid."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.errors import UnsupportedError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function, Graph
from tfsmith.ir.model import MetaGraph, Model
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Node, parse_input
from tfsmith.ir.recipe import Match, Recipe
from tfsmith.ops import ENTERS, PLACEHOLDERS, SHAPE_MATH, SHAPE_QUERIES, SWITCHES, VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.ops.traits import leaves_no_trace
from tfsmith.passes.interface import check_tensor, guess_outputs, tensor_names
from tfsmith.records import field, record

if TYPE_CHECKING:
    from tfsmith.patterns.build import Built, InputRef, NewNode

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
    "enclosed_users",
    "Planned",
    "Skipped",
    "plan_match",
    "unmet",
]

_DEPTH = 20
Taken = Mapping[str, Mapping[Endpoint, str]]
"""By old node: those of its tensors that new nodes take, each with the name of one that does."""
_NOTHING: Taken = MappingProxyType({})
_CONTEXTS = ("while_context", "cond_context")
_STAYS = PLACEHOLDERS | {"_Arg", "_Retval"}
_SOURCES = VARIABLES | PLACEHOLDERS - {"PlaceholderWithDefault"} | {"Const", "ReadVariableOp"}

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
        if not function.uses[node.name] and (op is None or op.is_stateful) and not leaves_no_trace(node.op):
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
    if node.op in SHAPE_QUERIES:
        return True
    if node.op not in SHAPE_MATH or depth > _DEPTH:
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
    found.doomed = body.descendants(found.doomed) - gone
    for name in sorted(found.doomed & nodes):  # what leads nowhere leads back here: then it does count
        shared.setdefault(name, []).append("a path that leads back to it")
    found.shared = {name: tuple(dict.fromkeys(users)) for name, users in shared.items()}
    return found


def may_be_pruned(body: Body, outside: Outside, node: Node) -> bool:
    """Whether a node may go once nobody uses it: it has no effects, is no input, and nothing refers to it."""
    if node.name in outside.named or node.op in _STAYS:
        return False
    op = body.op_def(node.op)
    return leaves_no_trace(node.op) or (op is not None and not op.is_stateful)


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


_MOST = 10_000
"""Nodes outside that are looked at; a match that feeds more is not looked into."""


def enclosed_users(
    body: Body,
    outside: Outside,
    nodes: Set[str],
    shared: Collection[str],
    outputs: Collection[Endpoint],
    needed: Set[str],
    gone: Set[str],
    taken: Mapping[str, object],
) -> set[str] | None:
    """The nodes outside of a match that use its inner values, if all that they lead to is the match; else None.

    Args:
        body: The graph or function.
        outside: What is used of it.
        nodes: The nodes of the match.
        shared: Those of them that others use.
        outputs: Its outputs, which others may use.
        needed: Nodes that what takes the match's place needs.
        gone: Nodes that do not count, because they are gone already.
        taken: Nodes that new nodes of other matches take.
    """
    found: set[str] = set()
    for name in shared:
        named = [item for item in outside.named.get(name, ()) if item.endpoint not in outputs]
        if name in taken or any(item.kind != "control" for item in named):
            return None
        uses = [use for use in body.uses[name] if use.output != CONTROL and Endpoint(name, use.output) not in outputs]
        found |= {use.node.name for use in uses} - nodes - gone
    todo = list(found)
    while todo:
        name = todo.pop()
        if name in needed or name in taken or len(found) > _MOST or not may_be_pruned(body, outside, body[name]):
            return None
        for use in body.uses[name]:
            user = use.node.name
            if user in gone or (user in nodes and use.output != CONTROL):
                continue
            if user in nodes:
                return None  # the match waits for it
            if user not in found:
                found.add(user)
                todo.append(user)
    return found


@record
class Skipped:
    """A match that was left as it is.

    Attributes:
        match: The match.
        reason: Why, in a sentence.
        users: Who uses its inner values, if that is why.
    """

    match: Match
    reason: str
    users: tuple[str, ...] = ()


@record
class Planned:
    """A match that can be replaced.

    Attributes:
        match: The match.
        nodes: All its nodes.
        kept: Those that stay, because others use them or the new nodes take them.
        sharing: Who uses them besides.
        new_nodes: The new nodes. Those that stand at the front wait for what the match waited for.
        keepers: Further new nodes, which only keep names valid.
        outputs: For each output of the match, what takes its place.
    """

    match: Match
    nodes: frozenset[str]
    kept: frozenset[str]
    sharing: Sharing
    new_nodes: tuple[NewNode, ...]
    keepers: tuple[NewNode, ...]
    outputs: Mapping[Endpoint, InputRef]


def plan_match(
    match: Match,
    recipe: Recipe,
    body: Body,
    outside: Outside,
    inference: Inference,
    *,
    gone: Set[str] = frozenset(),
    taken: Taken = _NOTHING,
    keep_shared: bool = False,
) -> Planned | Skipped:
    """Whether and how a match can be replaced. Linear in its nodes and their uses.

    Args:
        match: The match.
        recipe: The recipe that it belongs to.
        body: The graph or function.
        outside: What is used of it.
        inference: What is known of its tensors.
        gone: Nodes that other matches took away.
        taken: What new nodes of other matches take.
        keep_shared: Whether inner nodes that others use stay beside the new ones, instead of being a reason to skip.

    Raises:
        UsageError: The recipe contradicts itself.
    """
    from tfsmith.patterns.build import build  # recipes alone need it

    nodes = frozenset(match.nodes)
    if nodes & gone:
        return Skipped(match, f"node {min(nodes & gone)!r} went with another match")
    try:
        lacking = unmet(match, body, inference)
        if lacking is not None:
            return Skipped(match, f"the recipe wants {lacking}, which is not so here")
        built = build(match, recipe, body, inference)
    except UnsupportedError as error:
        return Skipped(match, str(error))
    sharing = examine(body, outside, nodes, built.outputs.keys(), gone, taken)
    lost = next((name for name in sorted(sharing.doomed) if name in taken), None)
    if lost is not None:
        users = tuple(f"{new} (new)" for new in dict.fromkeys(taken[lost].values()))
        return Skipped(match, f"node {lost!r}, which uses it, is also used by {users[0]}", users)
    _let_go(body, outside, nodes, built, sharing, gone, taken)
    refusal = _refusal(match, body, outside, nodes, sharing, keep_shared)
    if refusal is not None:
        return refusal
    kept = _needed_within(body, nodes, {*sharing.shared, *built.kept})
    removed = nodes - kept
    try:
        keepers = _keepers(body, inference, built, sharing, nodes, kept)
        new_nodes = _with_controls(body, built, nodes, kept)
        _check_waiting(body, built, sharing, removed)
    except UnsupportedError as error:
        return Skipped(match, error.what)
    return Planned(match, nodes, kept, sharing, new_nodes, keepers, built.outputs)


def unmet(match: Match, body: Body, inference: Inference) -> str | None:
    """The first requirement of the recipe that the match does not meet; what is not known is not met."""
    from tfsmith.patterns.build import MatchFacts
    from tfsmith.patterns.expressions import evaluate

    facts = MatchFacts(match, body, inference)
    return next((one.text for one in match.variant.require if not evaluate(one.text, facts)), None)


def _let_go(
    body: Body, outside: Outside, nodes: Set[str], built: Built, sharing: Sharing, gone: Set[str], taken: Taken
) -> None:
    """Users of inner values that only serve the match itself do not count, and go with it."""
    costly = [name for name in sharing.shared if not _lies_ready(body, body[name], nodes)]
    is_live = any(output.node in outside.live for output in built.outputs)  # else, everybody counts
    if not costly or built.kept or not is_live:
        return
    sources = [source for new in built.new_nodes for source in (*new.inputs, *new.waits_for)]
    needed = {source.endpoint.node for source in (*sources, *built.outputs.values()) if source.kind != "new"}
    needed |= {control for new in built.new_nodes for control in new.controls}
    enclosed = enclosed_users(body, outside, nodes, costly, built.outputs.keys(), needed, gone, taken)
    if enclosed is not None:
        sharing.doomed |= enclosed
        for name in costly:
            del sharing.shared[name]


def _refusal(
    match: Match, body: Body, outside: Outside, nodes: Set[str], sharing: Sharing, keep_shared: bool
) -> Skipped | None:
    """Why shared nodes forbid the replacement, if they do."""
    for name in sorted(nodes):
        fed = [item.who for item in outside.named.get(name, ()) if item.kind == "fed"]
        if fed:
            return Skipped(match, f"values are put in at node {name!r}, which is {fed[0]}", tuple(fed))
    if keep_shared:
        return None
    costly = [name for name in sharing.shared if not _lies_ready(body, body[name], nodes)]
    if not costly:
        return None
    users = tuple(dict.fromkeys(user for name in costly for user in sharing.shared[name]))
    shown = ", ".join(users[:3]) + (f" and {len(users) - 3} more" if len(users) > 3 else "")
    also = f" (and {len(costly) - 1} other nodes of the match)" if len(costly) > 1 else ""
    return Skipped(match, f"node {costly[0]!r}{also} is also used by {shown}", users)


def _lies_ready(body: Body, node: Node, nodes: Set[str]) -> bool:
    """Whether keeping a node costs nothing: a constant or variable, or a read of one."""
    if is_source(node):
        return True
    if node.op not in ENTERS | {"Identity"} or not node.inputs:
        return False
    source = body.by_name.get(body.resolve(node.inputs[0]).node)
    return source is None or source.name not in nodes or is_source(source)


def _needed_within(body: Body, nodes: Set[str], names: Iterable[str]) -> frozenset[str]:
    """Those nodes of a match that these of them need, themselves included."""
    seen: set[str] = set()
    todo = [name for name in names if name in nodes]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += [source.node for source in body.inputs_of(body[name]) if source.node in nodes]
    return frozenset(seen)


def _keepers(
    body: Body, inference: Inference, built: Built, sharing: Sharing, nodes: Set[str], kept: Set[str]
) -> tuple[NewNode, ...]:
    """New nodes that bear the names of old ones to which something outside refers, so that nobody's fetch breaks.

    None is needed where a new node takes the old one's name and its outputs the same numbers.
    """
    found: list[NewNode] = []
    for seed in dict.fromkeys(endpoint.node for endpoint in built.outputs):
        named = [item for item in sharing.named.get(seed, ()) if item.kind == "name"]
        if seed in kept:
            if named and seed in built.kept:
                raise UnsupportedError(f"the new nodes take node {seed!r}, to whose name {named[0].who} refers")
            continue
        wanted = {item.endpoint.output for item in named}
        if isinstance(body, Graph) and not body.uses[seed]:
            mapped = sorted(endpoint.output for endpoint in built.outputs if endpoint.node == seed)
            wanted |= {output for at, output in enumerate(mapped) if at == output}
        if not wanted or _is_taken_over(built, seed, wanted):
            continue
        if not built.new_nodes and nodes == {seed} and body[seed].op == "Identity":
            who = named[0].who if named else "whoever asks for it"
            raise UnsupportedError(f"node {seed!r} is needed for its name, by {who}")
        found.append(_keeper(body, inference, built, seed, max(wanted) + 1))
    return tuple(found)


def _is_taken_over(built: Built, seed: str, outputs: Set[int]) -> bool:
    """Whether a new node has the old one's name, and the same numbers for its outputs."""
    from tfsmith.patterns.build import InputRef

    taker = next((new.key for new in built.new_nodes if new.name == seed), None)
    return taker is not None and all(
        built.outputs[Endpoint(seed, output)] == InputRef(Endpoint(taker, output), "new") for output in outputs
    )


def _keeper(body: Body, inference: Inference, built: Built, seed: str, count: int) -> NewNode:
    from tfsmith.patterns.build import NewNode

    sources, types = [], []
    for output in range(count):
        old = Endpoint(seed, output)
        source, kind = built.outputs.get(old), inference.dtype(body, old)
        if source is None:
            raise UnsupportedError(f"nothing takes the place of {old}, by whose name something asks for {seed!r}")
        if kind is None:
            raise UnsupportedError(f"the type of {old}, whose name must stay, is not known")
        sources.append(source)
        types.append(kind.base)
    op = "Identity" if count == 1 else "IdentityN"
    definition = body.op_def(op)
    assert definition is not None  # an op of TensorFlow's
    attrs = {"T": Attr("type", types[0]) if count == 1 else Attr("list(type)", tuple(types))}
    return NewNode(f"^{seed}", seed, op, tuple(sources), (), attrs, body[seed].device, definition, True)


def _with_controls(body: Body, built: Built, nodes: Set[str], kept: Set[str]) -> tuple[NewNode, ...]:
    """The new nodes, of which those at the front wait for what the nodes of the match waited for.

    New constants wait for what the match's own constants waited for: in TF1's loops, this says where they belong.
    """
    waits: dict[str, None] = {}
    of_sources: dict[str, None] = {}
    for name in sorted(nodes - kept):
        node = body[name]
        found = [control for control in node.control_inputs if control not in nodes or control in kept]
        waits |= dict.fromkeys(found)
        if not node.data_inputs:
            of_sources |= dict.fromkeys(found)
    if not waits:
        return built.new_nodes
    if not built.new_nodes:
        what = f"it waits for {next(iter(waits))!r}, and nothing takes its place that could wait"
        raise UnsupportedError(what)
    sources = {new.key for new in built.new_nodes if not new.inputs}
    inner = {
        new.key
        for new in built.new_nodes
        if any(source.kind == "new" and source.endpoint.node not in sources for source in new.inputs)
    }
    front = {new.key for new in built.new_nodes} - sources - inner or {built.new_nodes[0].key}
    waiting = []
    for new in built.new_nodes:
        added = tuple(waits) if new.key in front else tuple(of_sources) if new.key in sources else ()
        waiting.append(new.waiting(added))
    return tuple(waiting)


def _check_waiting(body: Body, built: Built, sharing: Sharing, removed: Set[str]) -> None:
    """Whether those who wait for a node that goes can wait for what takes its place."""
    is_result = any(item.kind == "control" for name in removed for item in sharing.named.get(name, ()))
    if not (sharing.waiting or is_result):
        return
    first = next(iter(built.outputs.values()), None)
    if first is not None and first.kind == "new":
        return
    node = None if first is None else body.by_name.get(first.endpoint.node)
    if node is None or node.op in SWITCHES:
        raise UnsupportedError("others wait for it, and nothing takes its place for which they could wait")
