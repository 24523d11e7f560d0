"""What a search asks of a graph or function again and again, computed once; and how much work it may still do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from tfsmith.errors import LimitError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function
from tfsmith.ir.model import MetaGraph
from tfsmith.ir.node import Endpoint, Node
from tfsmith.limits import MAX_MATCH_STEPS
from tfsmith.ops import VARIABLES

__all__ = ["Budget", "GaveUp", "BodyIndex", "captured_variables"]

_ATTEMPTS = 10
"""So many hopeless attempts may go to their limit before the whole search gives up."""
_STEPS_PER_NODE = 100
"""What the search of a large body may take besides; real ones take some ten."""


class GaveUp(Exception):
    """One attempt took more steps than it may. Never leaves this package."""


class Budget:
    """Counts steps: for one attempt at most `MAX_MATCH_STEPS`; for all of them, a multiple that grows with the body.

    Attributes:
        steps: All steps so far.
    """

    __slots__ = ("_attempt_ends", "_ends", "_what", "steps")

    def __init__(self, what: str, nodes: int) -> None:
        self.steps = 0
        self._what = what
        self._ends = _ATTEMPTS * MAX_MATCH_STEPS + _STEPS_PER_NODE * nodes
        self._attempt_ends = MAX_MATCH_STEPS

    def begin(self) -> None:
        """Another attempt begins.

        Raises:
            LimitError: All attempts together took too many steps.
        """
        self._attempt_ends = self.steps + MAX_MATCH_STEPS
        if self.steps > self._ends:
            raise LimitError(
                f"looking for it takes more than {self._ends} steps",
                where=self._what,
                remedy="say more in the recipe: ops, attributes, fewer commutative nodes, fewer ops to pass through",
            )

    def spend(self, count: int = 1) -> None:
        """So many steps more.

        Raises:
            GaveUp: The attempt took too many.
        """
        self.steps += count
        if self.steps > self._attempt_ends:
            raise GaveUp


_NO_NAMES: Mapping[str, str] = MappingProxyType({})
_READS = frozenset({"Identity", "ReadVariableOp"})
_READ_FROM = _READS | VARIABLES | {"Const"}
_MOST_READS = 10


class BodyIndex:
    """The nodes of a body by name and by op, and what each takes. Inputs are resolved when they are asked for."""

    def __init__(self, body: Body, variables: Mapping[str, str] = _NO_NAMES) -> None:
        """Begins with nothing worked out; `variables` are the names of those that a function captures, by argument."""
        self.body = body
        self._variables = variables
        self.nodes = body.by_name
        self._data: dict[str, tuple[Endpoint, ...]] = {}
        self._controls: dict[str, tuple[str, ...]] = {}

    def data(self, name: str) -> tuple[Endpoint, ...]:
        """The tensors that a node takes."""
        found = self._data.get(name)
        if found is None:
            resolve = self.body.resolve
            found = tuple([resolve(text) for text in self.nodes[name].inputs if not text.startswith("^")])
            self._data[name] = found
        return found

    def names(self, endpoint: Endpoint) -> list[str]:
        """What a tensor is called: as its node, and last as the variable or constant that it is read from."""
        if endpoint.node in self._variables:
            return [self._variables[endpoint.node]]
        found = [endpoint.node]
        for _ in range(_MOST_READS):
            node = self.nodes.get(found[-1])
            data = self.data(found[-1]) if node is not None and node.op in _READS else ()
            if not data:
                break
            if data[0].node in self._variables:
                return [*found, self._variables[data[0].node]]
            below = self.nodes.get(data[0].node)
            if below is None or below.op not in _READ_FROM:
                break
            found.append(below.name)
        return found

    def controls(self, name: str) -> tuple[str, ...]:
        """The names of the nodes that a node waits for without taking a tensor."""
        found = self._controls.get(name)
        if found is None:
            found = self._controls[name] = tuple(dict.fromkeys(self.nodes[name].control_inputs))
        return found

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        places: dict[str, list[int]] = {}
        for place, node in enumerate(self.body.nodes):
            places.setdefault(node.op, []).append(place)
        return places

    def of_ops(self, ops: Iterable[str]) -> list[Node]:
        """The nodes of these ops, in the file's order."""
        lists = [self._places[op] for op in dict.fromkeys(ops) if op in self._places]
        places = lists[0] if len(lists) == 1 else sorted(place for found in lists for place in found)
        return [self.body.nodes[place] for place in places]

    def count_ops(self, ops: Iterable[str]) -> int:
        """How many nodes have one of these ops."""
        return sum(len(self._places.get(op, ())) for op in ops)

    def through(self, endpoint: Endpoint, ops: Collection[str]) -> Endpoint | None:
        """The tensor that a node of these ops hands on; None where nothing hands it on."""
        node = self.nodes.get(endpoint.node)
        if node is None or node.op not in ops or endpoint.output != 0:
            return None
        data = self.data(node.name)
        return data[0] if len(data) == 1 else None

    def way_back(
        self, endpoint: Endpoint, ops: Collection[str], barred: Collection[str] = ()
    ) -> Iterator[tuple[Endpoint, int]]:
        """The tensor itself, then those that it was handed on from, each with the number of nodes in between.

        Args:
            endpoint: The tensor.
            ops: The ops that hand on.
            barred: Nodes that may not be passed.
        """
        yield endpoint, 0
        before = self.through(endpoint, ops) if ops else None
        if before is None:
            return
        passed: set[str] = set()
        while before is not None and endpoint.node not in passed and endpoint.node not in barred:
            passed.add(endpoint.node)
            endpoint = before
            yield endpoint, len(passed)
            before = self.through(endpoint, ops)

    def passed(self, endpoint: Endpoint, count: int) -> list[str]:
        """The first so many nodes on the way back from a tensor."""
        names = []
        for _ in range(count):
            names.append(endpoint.node)
            endpoint = self.data(endpoint.node)[0]
        return names

    @cached_property
    def _users(self) -> dict[Endpoint, list[Node]]:
        users: dict[Endpoint, list[Node]] = {}
        for node in self.body.nodes:
            for endpoint in self.data(node.name):
                users.setdefault(endpoint, []).append(node)
        return users

    def users(self, endpoint: Endpoint, ops: Collection[str]) -> Iterator[Node]:
        """The nodes that take a tensor, also by way of nodes of these ops; each once. The first call is linear."""
        seen: set[str] = set()
        todo = [endpoint]
        for tensor in todo:  # grows while it is walked
            for user in self._users.get(tensor, ()):
                if user.name in seen:
                    continue
                seen.add(user.name)
                yield user
                handed_on = Endpoint(user.name, 0)
                if ops and self.through(handed_on, ops) is not None:
                    todo.append(handed_on)

    @cached_property
    def _waiters(self) -> dict[str, list[Node]]:
        waiters: dict[str, list[Node]] = {}
        for node in self.body.nodes:
            for name in dict.fromkeys(node.control_inputs):
                waiters.setdefault(name, []).append(node)
        return waiters

    def waiters(self, name: str) -> Sequence[Node]:
        """The nodes that wait for a node without taking a tensor. The first call is linear."""
        return self._waiters.get(name, ())


def captured_variables(meta: MetaGraph, body: Body) -> dict[str, str]:
    """The names of the variables that a function captures, by argument, as Python's objects know them."""
    objects = meta.objects
    if objects is None or not isinstance(body, Function):
        return {}
    bound = objects.concrete_functions.get(body.name, {}).get("bound_inputs", ())
    args = body.args[len(body.args) - len(bound) :] if len(bound) <= len(body.args) else ()
    found: dict[str, str] = {}
    for arg, number in zip(args, bound, strict=False):
        if isinstance(number, int) and 0 <= number < len(objects.nodes):
            saved = objects.nodes[number]
            name = saved.details.get("name") if saved.kind == "variable" else None
            found |= {arg: name} if isinstance(name, str) and name else {}
    return found if len(set(found.values())) == len(found) else {}  # Keras may call all of them "kernel"
