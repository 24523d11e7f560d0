"""Whether a match can be replaced, and what that takes: what goes, what stays, which names must stay valid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from types import MappingProxyType

from tfsmith.errors import UnsupportedError
from tfsmith.ir.attr import Attr
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Graph
from tfsmith.ir.match import Match
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.recipe import Recipe
from tfsmith.patterns.build import Built, Draft, Source, build
from tfsmith.patterns.enclosed import enclosed_users
from tfsmith.patterns.expression import evaluate
from tfsmith.patterns.facts import MatchFacts, match_nodes
from tfsmith.patterns.knowledge import Knowledge
from tfsmith.patterns.users import Outside, Sharing, Taken, examine, is_source
from tfsmith.records import record

__all__ = ["Planned", "Skipped", "plan_match"]

_NOTHING: Taken = MappingProxyType({})
_BRANCHES = frozenset({"Switch", "RefSwitch", "_SwitchN", "SwitchN"})
_READS = frozenset({"Identity", "Enter", "RefEnter"})


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
        drafts: The new nodes. Those that stand at the front wait for what the match waited for.
        keepers: Further new nodes, which only keep names valid.
        outputs: For each output of the match, what takes its place.
    """

    match: Match
    nodes: frozenset[str]
    kept: frozenset[str]
    sharing: Sharing
    drafts: tuple[Draft, ...]
    keepers: tuple[Draft, ...]
    outputs: Mapping[Endpoint, Source]


def plan_match(
    match: Match,
    recipe: Recipe,
    body: Body,
    outside: Outside,
    knowledge: Knowledge,
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
        knowledge: What is known of its tensors.
        gone: Nodes that other matches took away.
        taken: What new nodes of other matches take.
        keep_shared: Whether inner nodes that others use stay beside the new ones, instead of being a reason to skip.

    Raises:
        UsageError: The recipe contradicts itself.
    """
    nodes = frozenset(match_nodes(match))
    if nodes & gone:
        return Skipped(match, f"node {min(nodes & gone)!r} went with another match")
    try:
        unmet = _unmet(match, body, knowledge)
        if unmet is not None:
            return Skipped(match, f"the recipe wants {unmet}, which is not so here")
        built = build(match, recipe, body, knowledge)
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
        keepers = _keepers(body, knowledge, built, sharing, nodes, kept)
        drafts = _with_controls(body, built, nodes, kept)
        _check_waiting(body, built, sharing, removed)
    except UnsupportedError as error:
        return Skipped(match, error.what)
    return Planned(match, nodes, kept, sharing, drafts, keepers, built.outputs)


def _unmet(match: Match, body: Body, knowledge: Knowledge) -> str | None:
    """The first requirement of the recipe that the match does not meet; what is not known is not met."""
    facts = MatchFacts(match, body, knowledge)
    return next((one.text for one in match.variant.require if not evaluate(one.text, facts)), None)


def _let_go(
    body: Body, outside: Outside, nodes: Set[str], built: Built, sharing: Sharing, gone: Set[str], taken: Taken
) -> None:
    """Users of inner values that only serve the match itself do not count, and go with it."""
    costly = [name for name in sharing.shared if not _lies_ready(body, body[name], nodes)]
    is_live = any(output.node in outside.live for output in built.outputs)  # else, everybody counts
    if not costly or built.kept or not is_live:
        return
    sources = [source for draft in built.drafts for source in (*draft.inputs, *draft.waits_for)]
    needed = {source.endpoint.node for source in (*sources, *built.outputs.values()) if source.kind != "new"}
    needed |= {control for draft in built.drafts for control in draft.controls}
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
    if node.op not in _READS or not node.inputs:
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
    body: Body, knowledge: Knowledge, built: Built, sharing: Sharing, nodes: Set[str], kept: Set[str]
) -> tuple[Draft, ...]:
    """New nodes that bear the names of old ones to which something outside refers, so that nobody's fetch breaks.

    None is needed where a new node takes the old one's name and its outputs the same numbers.
    """
    found: list[Draft] = []
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
        if not built.drafts and nodes == {seed} and body[seed].op == "Identity":
            who = named[0].who if named else "whoever asks for it"
            raise UnsupportedError(f"node {seed!r} is needed for its name, by {who}")
        found.append(_keeper(body, knowledge, built, seed, max(wanted) + 1))
    return tuple(found)


def _is_taken_over(built: Built, seed: str, outputs: Set[int]) -> bool:
    """Whether a new node has the old one's name, and the same numbers for its outputs."""
    taker = next((draft.key for draft in built.drafts if draft.name == seed), None)
    return taker is not None and all(
        built.outputs[Endpoint(seed, output)] == Source(Endpoint(taker, output), "new") for output in outputs
    )


def _keeper(body: Body, knowledge: Knowledge, built: Built, seed: str, count: int) -> Draft:
    sources, types = [], []
    for output in range(count):
        old = Endpoint(seed, output)
        source, kind = built.outputs.get(old), knowledge.dtype(body, old)
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
    return Draft(f"^{seed}", seed, op, tuple(sources), (), attrs, body[seed].device, definition, True)


def _with_controls(body: Body, built: Built, nodes: Set[str], kept: Set[str]) -> tuple[Draft, ...]:
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
        return built.drafts
    if not built.drafts:
        what = f"it waits for {next(iter(waits))!r}, and nothing takes its place that could wait"
        raise UnsupportedError(what)
    sources = {draft.key for draft in built.drafts if not draft.inputs}
    inner = {
        draft.key
        for draft in built.drafts
        if any(source.kind == "new" and source.endpoint.node not in sources for source in draft.inputs)
    }
    front = {draft.key for draft in built.drafts} - sources - inner or {built.drafts[0].key}
    found_drafts = []
    for draft in built.drafts:
        added = tuple(waits) if draft.key in front else tuple(of_sources) if draft.key in sources else ()
        found_drafts.append(draft.waiting(added))
    return tuple(found_drafts)


def _check_waiting(body: Body, built: Built, sharing: Sharing, removed: Set[str]) -> None:
    """Whether those who wait for a node that goes can wait for what takes its place."""
    is_result = any(item.kind == "control" for name in removed for item in sharing.named.get(name, ()))
    if not (sharing.waiting or is_result):
        return
    first = next(iter(built.outputs.values()), None)
    if first is not None and first.kind == "new":
        return
    node = None if first is None else body.by_name.get(first.endpoint.node)
    if node is None or node.op in _BRANCHES:
        raise UnsupportedError("others wait for it, and nothing takes its place for which they could wait")
