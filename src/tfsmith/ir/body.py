"""`Part`: a piece of a model that stays bytes until someone asks for it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, Generic, NamedTuple, TypeVar

from tfsmith.errors import InvalidModelError, NotFoundInModelError, UsageError, nearest
from tfsmith.ir.node import CONTROL, Endpoint, Node
from tfsmith.ir.opdef import OpLookup
from tfsmith.limits import MAX_DEPTH
from tfsmith.records import FrozenDict, Immutable
from tfsmith.storage import Span

__all__ = [
    "BACK_EDGES",
    "Body",
    "NODE_NAME",
    "Part",
    "Use",
    "FreeNames",
    "free_name",
]

T = TypeVar("T")
NODE_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*")
"""What TensorFlow takes as the name of a node."""


class Part(Generic[T]):
    """A value that is decoded on first use, with the bytes that it came from.

    Attributes:
        raw: The fields of the file that hold it, tags included, to be written back verbatim. None for a part that was
            made or changed in memory, which is encoded afresh.
    """

    def __init__(self, load: Callable[[], T], raw: tuple[Span, ...] | None) -> None:
        self._load = load
        self.raw = raw

    @staticmethod
    def of(value: T) -> Part[T]:
        """A part made in memory."""
        return Part(partial(_itself, value), None)

    @property
    def value(self) -> T:
        """The decoded value. If two threads ask first, both decode, and both get what was ready first."""
        if "_value" not in self.__dict__:
            self.__dict__.setdefault("_value", self._load())
        value: T = self.__dict__["_value"]
        return value

    def __repr__(self) -> str:
        return f"<Part {self.__dict__.get('_value', 'not read yet')!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """For `pickle`: how to decode it, not what was decoded."""
        return Part, (self._load, self.raw)


def _itself(value: T) -> T:
    return value


class Use(NamedTuple):
    """A place where an output is used: input number `input` of `node` takes output number `output`.

    A control edge has `output` -1 (`CONTROL`).
    """

    node: Node
    input: int
    output: int


class Body(Immutable, ABC):
    """Ordered, name-indexed nodes. A body never changes; indexes and use lists are made on first use and kept.

    Attributes:
        op_def: Finds the definition of an op by name, or None.
    """

    op_def: OpLookup

    @property
    @abstractmethod
    def title(self) -> str:
        """What to call it in messages."""

    @property
    @abstractmethod
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, in the file's order."""

    @abstractmethod
    def resolve(self, text: str) -> Endpoint:
        """The output that an input's text means. In a function, an argument's name is a node's name with output 0."""

    def source(self, text: str) -> str:
        """The name of the node or argument that an input's text means."""
        return self.resolve(text).node

    @property
    def args(self) -> tuple[str, ...]:
        """Names that are not nodes but can be inputs: a function's arguments. A graph has none."""
        return ()

    @cached_property
    def by_name(self) -> Mapping[str, Node]:
        """The nodes by name.

        Raises:
            InvalidModelError: Two nodes have one name.
        """
        index = FrozenDict({node.name: node for node in self.nodes})
        if len(index) != len(self.nodes):
            raise InvalidModelError(
                "two nodes have one name",
                where=f"{self.title}, node {_first_repeated(self.nodes)!r}",
                remedy="TensorFlow refuses this graph too; write it again from its source",
            )
        return index

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __contains__(self, name: object) -> bool:
        return name in self.by_name

    def __getstate__(self) -> dict[str, Any]:
        """For `pickle`: without the indexes, which are made again."""
        return {key: value for key, value in self.__dict__.items() if key not in ("by_name", "uses")}

    def __getitem__(self, name: str) -> Node:
        if not isinstance(name, str):
            remedy = 'use a name, as in graph["x"], or a number on its nodes, as in graph.nodes[0]'
            raise UsageError(f"{self.title} has nodes by name, and {name!r} is no name", remedy=remedy)
        found = self.by_name.get(name)
        if found is None:
            near = nearest(name, self.by_name)
            remedy = f"the nearest names are {', '.join(near)}" if near else "{show(model, nodes=True)} lists them"
            raise NotFoundInModelError(f"there is no node {name!r} in {self.title}", remedy=remedy)
        return found

    def inputs_of(self, node: Node) -> tuple[Endpoint, ...]:
        """The outputs that a node takes, in order, control edges last as in the file; no I/O."""
        return tuple(self.resolve(text) for text in node.inputs)

    def producer(self, node: Node, index: int) -> Node | None:
        """The node that gives input number `index`; None where a function's argument gives it.

        Raises:
            InvalidModelError: There is no such input, or it names a node that is not there.
        """
        if index >= len(node.inputs):
            remedy = "the graph is cut off or was pruned badly; write it again from its source"
            raise InvalidModelError(f"it has no input {index}", where=f"node {node.name!r}", remedy=remedy)
        name = self.resolve(node.inputs[index]).node
        if name in self.by_name:
            return self.by_name[name]
        if name in self.args:
            return None
        raise self._dangling(node, name)

    @cached_property
    def uses(self) -> Mapping[str, tuple[Use, ...]]:
        """All uses of each node or argument, by its name; linear in the edges.

        Raises:
            InvalidModelError: An input names a node that is not there.
        """
        uses: dict[str, list[Use]] = {name: [] for name in (*self.args, *self.by_name)}
        for node in self.nodes:
            for position, text in enumerate(node.inputs):
                source, output = self.resolve(text)
                if source not in uses:
                    raise self._dangling(node, source)
                uses[source].append(Use(node, position, output))
        return FrozenDict({name: tuple(found) for name, found in uses.items()})

    def consumers(self, name: str, output: int | None = None) -> tuple[Use, ...]:
        """Who takes a tensor of this node (only output number `output`, if given). Control edges do not count."""
        found = self.uses.get(name, ())
        if output is None:
            return tuple(use for use in found if use.output != CONTROL)
        return tuple(use for use in found if use.output == output)

    def control_consumers(self, name: str) -> tuple[Node, ...]:
        """The nodes that wait for this one without taking a tensor from it."""
        return tuple(use.node for use in self.uses.get(name, ()) if use.output == CONTROL)

    def scopes(self) -> dict[str, int]:
        """Every name scope with the number of nodes below it, in order of first appearance.

        Deeper ones than a hundred are left out: of one long name, they would take the square of its length.
        """
        counts: dict[str, int] = {}
        for node in self.nodes:
            at = node.name.find("/")
            for _ in range(MAX_DEPTH):
                if at < 0:
                    break
                scope = node.name[:at]
                counts[scope] = counts.get(scope, 0) + 1
                at = node.name.find("/", at + 1)
        return counts

    def in_scope(self, scope: str) -> Iterator[Node]:
        """The nodes below a name scope."""
        prefix = scope.rstrip("/") + "/"
        return (node for node in self.nodes if node.name.startswith(prefix))

    def topological_order(self) -> tuple[Node, ...]:
        """The nodes, each after those it needs. Linear.

        The back edges of TF1's loops (from NextIteration) are left out, as TensorFlow itself does.

        Raises:
            InvalidModelError: There is a cycle that is no loop.
        """
        waiting = dict.fromkeys(self.by_name, 0)
        for name, found in self.uses.items():
            if name in self.by_name and self.by_name[name].op not in BACK_EDGES:
                for use in found:
                    waiting[use.node.name] += 1
        ready = [node for node in self.nodes if not waiting[node.name]]
        for node in ready:  # grows while it is walked
            if node.op in BACK_EDGES:
                continue
            for use in self.uses[node.name]:
                waiting[use.node.name] -= 1
                if not waiting[use.node.name]:
                    ready.append(use.node)
        if len(ready) != len(self.nodes):
            stuck = next(name for name, count in waiting.items() if count)
            remedy = "no TensorFlow runs this graph; write it again from its source"
            raise InvalidModelError(
                "its inputs lead back to itself", where=f"{self.title}, node {stuck!r}", remedy=remedy
            )
        return tuple(ready)

    def check_order(self) -> None:
        """Checks that there is an order, as `topological_order`; quick where most nodes stand in one.

        Raises:
            InvalidModelError: There is a cycle that is no loop, or an input names a node that is not there.
        """
        known = set(self.args)
        waiting: Iterable[Node] = self.nodes
        for _ in range(_ROUNDS):
            later: list[Node] = []
            for node in waiting:
                for text in node.inputs:
                    if self.resolve(text).node not in known:
                        later.append(node)
                        break
                else:
                    known.add(node.name)
            if not later:
                return
            waiting = later
        self.topological_order()

    def ancestors(self, names: Iterable[str], known: Container[str] = ()) -> set[str]:
        """The names of all nodes that these need, control edges counted, themselves included. Linear.

        Args:
            names: The nodes.
            known: Nodes whose ancestors are known already: they, and what only they need, are left out.

        Raises:
            InvalidModelError: An input names a node that is not there.
        """
        seen: set[str] = set()
        args = frozenset(self.args)
        todo = [self[name].name for name in names]
        while todo:
            name = todo.pop()
            if name in seen or name in args or name in known:
                continue
            seen.add(name)
            node = self.by_name[name]
            for text in node.inputs:
                source = self.resolve(text).node
                if source not in self.by_name and source not in args:
                    raise self._dangling(node, source)
                todo.append(source)
        return seen

    def descendants(self, names: Iterable[str], *, control: bool = True) -> set[str]:
        """The names of all nodes that need these, themselves included. Linear.

        Args:
            names: The nodes.
            control: Whether control edges count.

        Raises:
            InvalidModelError: An input names a node that is not there.
        """
        seen = set(names)
        todo = list(seen)
        while todo:
            for use in self.uses[todo.pop()]:
                if use.node.name not in seen and (control or use.output != CONTROL):
                    seen.add(use.node.name)
                    todo.append(use.node.name)
        return seen

    def check_names(self) -> None:
        """Checks that names are unique and that every input is there; linear, and much cheaper than the use lists.

        Raises:
            InvalidModelError: Two nodes have one name, or an input names a node that is not there.
        """
        for node, name in self.missing_inputs():
            raise self._dangling(node, name)

    def missing_inputs(self) -> Iterator[tuple[Node, str]]:
        """The inputs that are not there, as in a graph that is cut off: each node and what it takes. Linear.

        Raises:
            InvalidModelError: Two nodes have one name.
        """
        known = {*self.by_name, *self.args}
        for node in self.nodes:
            for text in node.inputs:
                if text not in known and self.source(text) not in known:  # else it has an output's number, or a ^
                    yield node, self.source(text)

    def _dangling(self, node: Node, missing: str) -> InvalidModelError:
        return InvalidModelError(
            f"it takes {missing!r}, which is not in {self.title}",
            where=f"node {node.name!r}",
            remedy="the graph is cut off or was pruned badly; write it again from its source",
        )


BACK_EDGES = frozenset({"NextIteration", "RefNextIteration"})
_ROUNDS = 3
"""So often nodes are looked at that stand before what they wait for, as the results of functions do."""


def _first_repeated(nodes: tuple[Node, ...]) -> str:
    seen: set[str] = set()
    for node in nodes:
        if node.name in seen:
            return node.name
        seen.add(node.name)
    return ""


def free_name(wanted: str, taken: Container[str], *also: Container[str]) -> str:
    """The name itself if nothing has it, else the first of `wanted_1`, `wanted_2` and so on that is free.

    Args:
        wanted: The name.
        taken: Names that something has.
        also: More of them.
    """
    free, number = wanted, 0
    while free in taken or any(free in more for more in also):
        number += 1
        free = f"{wanted}_{number}"
    return free


class FreeNames(set[str]):
    """Names that are taken; `take` hands out another one each time.

    Args:
        taken: Names that something has already.
        first: The number of the second that asks for a name: 1 for `add` and `add_1`.
    """

    def __init__(self, taken: Iterable[str] = (), first: int = 1) -> None:
        super().__init__(taken)
        self._before_first = first - 1
        self._numbers: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """The name itself if it is free, else with the first number that makes it so; it is taken from then on."""
        free, number = wanted, self._numbers.get(wanted, self._before_first)
        while free in self:
            number += 1
            free = f"{wanted}_{number}"
        self._numbers[wanted] = number
        self.add(free)
        return free
