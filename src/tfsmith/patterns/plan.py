"""`Plan`: a query made ready for searching: numbers for names, and the order in which its nodes are looked for."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterator
from typing import NamedTuple

from tfsmith.ir.name_rule import NameRule
from tfsmith.ir.node import CONTROL
from tfsmith.ir.recipe import NodeQuery, Query
from tfsmith.records import record

__all__ = ["Plan", "Slot", "Step", "Wanted", "depth_of", "make_plan"]


class Slot(NamedTuple):
    """What a wanted node takes at one place: an output of a wanted node, or an input of the query.

    Attributes:
        node: The number of the wanted node; -1 for an input of the query.
        input: The number of the input of the query; -1 for a wanted node.
        output: The output's number; `CONTROL` for a control edge.
    """

    node: int
    input: int
    output: int


@record(eq=False)
class Wanted:
    """One wanted node.

    Attributes:
        number: Its place in the query.
        query: What the recipe says of it.
        ops: Any of these ops will do.
        data: The tensors that it takes, in order.
        controls: The nodes that it must wait for.
        swapped: `data` with the first two exchanged, where they may be and it makes a difference.
        rule: What its name must be like; None where that does not matter.
    """

    number: int
    query: NodeQuery
    ops: frozenset[str]
    data: tuple[Slot, ...]
    controls: tuple[Slot, ...]
    swapped: tuple[Slot, ...] | None
    rule: NameRule | None

    @property
    def name(self) -> str:
        """What the recipe calls it."""
        return self.query.name


class Step(NamedTuple):
    """How to go on when all that the nodes found so far need is found.

    Attributes:
        kind: "user": `node` is looked for among those that take `slot`, which is known, as a tensor.
            "waiter": `node` is looked for among those that wait for `slot`, which is known.
            "awaited": `slot` is looked for among those that `node`, which is known, waits for.
        node: The number of a wanted node.
        slot: One of its inputs.
    """

    kind: str
    node: int
    slot: Slot


@record(eq=False)
class Plan:
    """A query made ready.

    Attributes:
        query: The query.
        wanted: Its nodes.
        seed: The number of the node that the search begins at: the first output's, or the first that takes tensors.
        steps: How to go on from there.
        through: The ops that may be passed through.
        numbers: For each node's name, its number.
        inputs: For each input's name, its number.
        loose: The nodes that nothing connects with the seed. A sound query has none.
        rules: What the names of inputs must be like, by the input's number.
    """

    query: Query
    wanted: tuple[Wanted, ...]
    seed: int
    steps: tuple[Step, ...]
    through: frozenset[str]
    numbers: dict[str, int]
    inputs: dict[str, int]
    loose: tuple[int, ...]
    rules: dict[int, NameRule]


def make_plan(query: Query, start: str | None = None, fixed: Collection[str] = ()) -> Plan:
    """Makes a query ready; it has distinct names, knows all that it names, and has no cycle. Linear, but for a sort.

    Args:
        query: The query.
        start: The node to begin at; by default an output.
        fixed: Inputs of the query that have a say outside of it, such as those that a chain carries on.
    """
    numbers = {node.name: number for number, node in enumerate(query.nodes)}
    inputs = {name: number for number, name in enumerate(query.inputs)}
    counts = dict.fromkeys(query.inputs, 0)
    for node in query.nodes:
        for name, _ in node.inputs:
            if name in counts:
                counts[name] += 1
    fixed = {*fixed, *query.names}
    free = {inputs[name] for name, count in counts.items() if count == 1 and name not in fixed}
    wanted = tuple(
        _wanted(number, node, numbers, inputs, free, query.names.get(node.name))
        for number, node in enumerate(query.nodes)
    )
    seed = _seed(query, wanted, numbers) if start is None else numbers[start]
    order = _Order(wanted, len(inputs))
    # Control edges are looked at last: by then, most of what they name is known.
    waits = [Step("awaited", one.number, slot) for one in wanted for slot in one.controls]
    steps = (*order.steps(seed), *waits)
    loose = tuple(number for number in range(len(wanted)) if number not in order.known)
    rules = {inputs[name]: rule for name, rule in query.names.items() if name in inputs}
    return Plan(query, wanted, seed, steps, frozenset(query.through), numbers, inputs, loose, rules)


def _wanted(
    number: int,
    node: NodeQuery,
    numbers: dict[str, int],
    inputs: dict[str, int],
    free: set[int],
    rule: NameRule | None,
) -> Wanted:
    slots = [Slot(numbers.get(name, -1), inputs.get(name, -1), output) for name, output in node.inputs]
    data = tuple(slot for slot in slots if slot.output != CONTROL)
    controls = tuple(slot for slot in slots if slot.output == CONTROL)
    swapped = None
    # Two inputs that stand nowhere else fit in both orders or in none; the order as written will do.
    if node.is_commutative and data[0] != data[1] and not all(slot.input in free for slot in data[:2]):
        swapped = (data[1], data[0], *data[2:])
    return Wanted(number, node, frozenset(node.ops), data, controls, swapped, rule)


def _seed(query: Query, wanted: tuple[Wanted, ...], numbers: dict[str, int]) -> int:
    """A Const that is an output says little; one that takes tensors says where the others are."""
    seeds = [numbers[output.node] for output in query.outputs]
    return next((seed for seed in seeds if wanted[seed].data), seeds[0])


def depth_of(plan: Plan) -> int:
    """The nodes on the longest way down from the seed. Linear."""
    depths: dict[int, int] = {}
    stack = [plan.seed]
    while stack:
        number = stack[-1]
        below = {slot.node for slot in plan.wanted[number].data if slot.node >= 0}
        missing = [one for one in below if one not in depths]
        if missing and number not in depths:
            stack.extend(missing)
            continue
        depths[number] = 1 + max((depths[one] for one in below), default=0)
        stack.pop()
    return depths[plan.seed]


class _Order:
    """Works out the steps: nodes and inputs become known, and each may lead to nodes that are not."""

    def __init__(self, wanted: tuple[Wanted, ...], inputs: int) -> None:
        self._wanted = wanted
        self.known: set[int] = set()
        self._inputs: set[int] = set()
        self._node_users: list[list[tuple[int, Slot]]] = [[] for _ in wanted]
        self._input_users: list[list[tuple[int, Slot]]] = [[] for _ in range(inputs)]
        for one in wanted:
            for slot in (*one.data, *one.controls):
                users = self._node_users[slot.node] if slot.node >= 0 else self._input_users[slot.input]
                users.append((one.number, slot))
        # The best way on is the first of this heap: (how good it is, when it was found, the step).
        self._ways: list[tuple[int, int, Step]] = []
        self._clock = itertools.count()

    def steps(self, seed: int) -> Iterator[Step]:
        self._learn(seed)
        while self._ways:
            step = heapq.heappop(self._ways)[2]
            new = step.slot.node if step.kind == "awaited" else step.node
            if new in self.known:
                continue
            yield step
            self._learn(new)

    def _learn(self, start: int) -> None:
        """All that is reached from a node by the tensors that it takes is known with it."""
        stack = [start]
        while stack:
            number = stack.pop()
            if number in self.known:
                continue
            self.known.add(number)
            one = self._wanted[number]
            for user, slot in self._node_users[number]:
                self._offer(user, slot, 0 if one.data else 2)
            for slot in one.data:
                if slot.node >= 0:
                    stack.append(slot.node)
                elif slot.input not in self._inputs:
                    self._inputs.add(slot.input)
                    for user, taken in self._input_users[slot.input]:
                        self._offer(user, taken, 1)
            for slot in one.controls:
                if slot.node >= 0 and slot.node not in self.known:
                    self._push(3, Step("awaited", number, slot))

    def _offer(self, user: int, slot: Slot, rank: int) -> None:
        if user in self.known:
            return
        if slot.output == CONTROL:
            self._push(4, Step("waiter", user, slot))
        else:
            self._push(rank, Step("user", user, slot))

    def _push(self, rank: int, step: Step) -> None:
        heapq.heappush(self._ways, (rank, next(self._clock), step))
