"""Cuts a piece out of a graph or function: from the seeds backwards to the barriers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.body import Body
from tfsmith.ir.names import nearest
from tfsmith.ir.node import CONTROL, Node
from tfsmith.ir.pattern import Pattern
from tfsmith.records import field, record

__all__ = ["extract"]

_SHOWN = 8
"""So many names of a path, or of open ends, are shown."""


def extract(
    body: Body,
    seeds: Sequence[str],
    barriers: Sequence[str] = (),
    barrier_ops: Iterable[str] = (),
    *,
    constants: bool = False,
) -> Pattern:
    """The nodes that the seeds need, up to the barriers. Linear; no attribute is decoded, and nodes keep their bytes.

    Only inputs that carry tensors are followed. A control input is part of the pattern if its node is part of it for
    another reason; otherwise it stays in the node's bytes, is not among the pattern's inputs, and does not count when
    the pattern is looked for.

    Args:
        body: The graph or function.
        seeds: The names of the nodes to begin at.
        barriers: Nodes, or arguments of the function, at which to stop. Not all of them need be reached.
        barrier_ops: Every node of one of these ops is a barrier too.
        constants: Whether constants that are no barriers belong to the pattern; by default they are open ends.

    Returns:
        The pattern: its seeds in the order of the graph, its other nodes in the order in which the original tool finds
        them, the barriers that were reached (and function arguments, which need not be named), sorted.

    Raises:
        UsageError: No seed, a name that is given twice, one that is seed and barrier, or an end that is open: a node
            without inputs that is no barrier. The error names it, and the path to it.
        NotFoundInModelError: There is no such node.
    """
    names = _checked(body, seeds, barriers)
    walk = _Walk(body, names, frozenset(barriers), frozenset(barrier_ops), constants)
    for name in names:
        if walk.is_barrier(body[name]):
            what = f"seed {name!r} is a barrier by its op {body[name].op}"
            raise UsageError(what, remedy="leave the op out of the barriers (-B), and name the nodes instead (-b)")
    walk.run()
    if walk.open_ends:
        raise _open(body, walk)
    return Pattern(tuple(body[name] for name in names), tuple(walk.internal), tuple(sorted(walk.inputs)))


def _checked(body: Body, seeds: Sequence[str], barriers: Sequence[str]) -> list[str]:
    """The seeds in the order of the graph."""
    if not seeds:
        raise UsageError("there is no seed to begin at", remedy="name the nodes whose outputs the rest needs (-s)")
    for kind, names in (("seed", seeds), ("barrier", barriers)):
        seen: set[str] = set()
        for name in names:
            if name in seen:
                raise UsageError(f"{kind} {name!r} is given twice", remedy="name it once")
            seen.add(name)
    args = frozenset(body.args)
    for name in seeds:
        if name in args:
            what = f"seed {name!r} is an argument of {body.title}, not a node"
            raise UsageError(what, remedy="begin at a node; an argument can be a barrier")
        _find(body, name, "seed")
    for name in barriers:
        if name not in args:
            _find(body, name, "barrier")
    both = sorted(set(seeds) & set(barriers))
    if both:
        remedy = "a seed belongs to the pattern, a barrier does not"
        raise UsageError(f"{both[0]!r} is seed and barrier at once", remedy=remedy)
    wanted = set(seeds)
    return [node.name for node in body if node.name in wanted]


def _find(body: Body, name: str, kind: str) -> None:
    if name in body:
        return
    near = nearest(name, (*body.by_name, *body.args))
    remedy = f"the nearest names are {', '.join(near)}" if near else "`tfsmith show --nodes` lists them"
    raise NotFoundInModelError(f"{kind} {name!r} is not in {body.title}", remedy=remedy)


@record(frozen=False)
class _Walk:
    """One search; what it found so far."""

    body: Body
    seeds: list[str]
    barriers: frozenset[str]
    barrier_ops: frozenset[str]
    constants: bool
    internal: list[Node] = field(default_factory=list)
    inputs: set[str] = field(default_factory=set)
    open_ends: list[Node] = field(default_factory=list)
    taken_by: dict[str, str] = field(default_factory=dict)
    """For each node that was reached, the one that takes its output: the way back to a seed."""

    def is_barrier(self, node: Node) -> bool:
        """Whether the search stops before this node."""
        return node.name in self.barriers or node.op in self.barrier_ops

    def run(self) -> None:
        """Follows the inputs, the last in the graph first, as the original tool does."""
        places = {node.name: place for place, node in enumerate(self.body.nodes)}
        args = frozenset(self.body.args)
        seeds = frozenset(self.seeds)
        seen: set[str] = set()
        todo = [self.body[name] for name in self.seeds]
        while todo:
            node = todo.pop()
            if node.name in seen:
                continue
            seen.add(node.name)
            if self.is_barrier(node):
                self.inputs.add(node.name)
                continue
            if node.name not in seeds:
                self.internal.append(node)
            sources = self._sources(node, args)
            if not sources and not (self.constants and node.op == "Const"):
                self.open_ends.append(node)
            nodes = sources & places.keys()
            self.inputs |= sources - nodes  # the function's arguments
            for name in sorted(nodes - seen - seeds, key=places.__getitem__):
                self.taken_by.setdefault(name, node.name)
                todo.append(self.body[name])

    def _sources(self, node: Node, args: frozenset[str]) -> set[str]:
        """The nodes and arguments that give this node's tensors."""
        found: set[str] = set()
        for number, text in enumerate(node.inputs):
            name, output = self.body.resolve(text)
            if output == CONTROL:
                continue
            if name not in self.body.by_name and name not in args:
                self.body.producer(node, number)  # which says what is wrong
            found.add(name)
        return found

    def path_to(self, name: str) -> list[str]:
        """The names from a seed to a node."""
        path = [name]
        while path[-1] in self.taken_by and path[-1] not in self.seeds:
            path.append(self.taken_by[path[-1]])
        return path[::-1]


def _open(body: Body, walk: _Walk) -> UsageError:
    end, *others = walk.open_ends
    path = walk.path_to(end.name)
    if len(path) > _SHOWN:
        path = [*path[: _SHOWN // 2], "...", *path[-_SHOWN // 2 :]]
    what = f"node {end.name!r} has no inputs and is no barrier, so the pattern is open there (from the seed: "
    what += f"{' <- '.join(path)})"
    remedy = f"name it as a barrier (-b), or all nodes of its op (-B {end.op})"
    if others:
        shown = ", ".join(f"{node.name} ({node.op})" for node in others[:_SHOWN])
        remedy += f"; also open: {shown}{f' and {len(others) - _SHOWN} more' if len(others) > _SHOWN else ''}"
    return UsageError(what, where=body.title, remedy=remedy)
