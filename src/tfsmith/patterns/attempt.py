"""One attempt to find a query at one place: what it has to reach, how it could, and what failed nearest to a match."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from tfsmith.ir.node import CONTROL, Endpoint, Node
from tfsmith.ir.recipe import Miss, NameRule, Unit
from tfsmith.limits import MAX_MATCH_STEPS
from tfsmith.patterns.index import BodyIndex, Budget, GaveUp
from tfsmith.patterns.query import Plan, PlanNode, Slot, Step, misfit

__all__ = ["Goal", "Move", "Rule", "Cones", "Attempt", "Nearest", "describe_misfit", "describe_name"]

Rule = Callable[[Endpoint], bool]
"""Whether an input of the query may stand for this tensor."""


class Nearest:
    """Keeps the nearest miss of a search. A sentence is made only for one that is nearer than those before.

    Attributes:
        miss: The nearest so far; None while nothing failed.
        already: Nodes that fitted before the present attempt began, and count with it.
    """

    __slots__ = ("_body", "_is_fixed", "_outside", "_variant", "already", "miss")

    def __init__(self, body: str | None, outside: Container[str] = ()) -> None:
        """Begins without a miss; `outside` are the nodes that something other than this search has taken."""
        self.miss: Miss | None = None
        self.already = 0
        self._body = body
        self._outside = outside
        self._variant = ""
        self._is_fixed = False

    def turn_to(self, variant: str) -> None:
        """From here on, another variant is looked for."""
        self._variant = variant

    def is_own(self, name: str) -> bool:
        """Whether a node that is taken was taken by this search."""
        return name not in self._outside

    def is_beaten_by(self, matched: int) -> bool:
        """Whether an attempt in which so many nodes fitted is nearer than all before; of equals, the first counts."""
        return not self._is_fixed and (self.miss is None or matched + self.already > self.miss.matched)

    def offer(self, matched: int, wanted: str, found: str, reason: str, *, must: bool = False) -> None:
        """A failed attempt. One that `must` be told stays the nearest."""
        if self.is_beaten_by(matched) or (must and not self._is_fixed):
            self.miss = Miss(self._body, self._variant, matched + self.already, wanted, found, reason)
            self._is_fixed = must


def describe_misfit(wanted: PlanNode, endpoint: Endpoint, output: int, index: BodyIndex) -> str:
    """What is wrong with what stands in the place of a wanted node."""
    node = index.nodes.get(endpoint.node)
    ops = " or ".join(wanted.query.ops)
    if node is None:
        what = "it is an argument of the function" if endpoint.node in index.body.args else "there is no such node"
        return f"{what}, and the op must be {ops}"
    if endpoint.output != output:
        return f"it must be output {output}, and it is output {endpoint.output}"
    return misfit(wanted, node, index) or "it does not fit"


def describe_name(rule: NameRule, names: Sequence[str], number: int | None) -> str | None:
    """What is wrong with the names of one thing; None if they fit. `number` is what `{i}` is elsewhere in the unit."""
    found = rule.count(names)
    if found is None:
        return f"its name must fit {rule.text!r}, and it is {names[-1]!r}"
    if rule.count(names, number) is None:
        return f"{{i}} is {number} in other names of the unit, and {found} in {names[-1]!r}"
    return None


class Goal(NamedTuple):
    """That a wanted node's output must be this tensor.

    Attributes:
        slot: The wanted node and its output.
        endpoint: The tensor.
        user: The number of the wanted node that takes it; -1 for none.
        is_exact: Whether nothing may be passed through on the way.
    """

    slot: Slot
    endpoint: Endpoint
    user: int = -1
    is_exact: bool = False


class Move(NamedTuple):
    """One way to reach a goal.

    Attributes:
        wanted: The wanted node that is bound; None where it is bound already.
        found: The node that it is bound to.
        slots: What it takes, in one of the orders that it may have.
        start: Where passing through begins.
        passed: How many nodes are passed.
        input: The number of the input of the query that is bound to `start`, if that is what the move does.
    """

    wanted: PlanNode | None
    found: str
    slots: tuple[Slot, ...]
    start: Endpoint
    passed: int = 0
    input: int = -1


_MOST_PAIRS = 500_000
"""What is remembered, some 100 MB; beyond that, it is worked out again."""

_Pair = tuple[int, str]


class Cones:
    """What can stand where, for one query in one body."""

    def __init__(self, plan: Plan, index: BodyIndex, budget: Budget) -> None:
        self._plan = plan
        self._index = index
        self._budget = budget
        self._known: dict[_Pair, bool] = {}

    def can_stand(self, slot: Slot, endpoint: Endpoint) -> bool:
        """Whether this output of a wanted node, with all that it needs, can be this tensor. Never recurses.

        Raises:
            GaveUp: It takes too many steps.
        """
        if len(self._known) > _MOST_PAIRS:
            self._known.clear()
        todo: list[_Pair] = []
        while True:
            verdict = self._at(slot, endpoint, todo)
            if verdict is not None:
                return verdict
            while todo:
                pair = todo[-1]
                judged = True if pair in self._known else self._judge(pair, todo)
                if judged is None:
                    continue
                self._known.setdefault(pair, judged)
                todo.pop()

    def _at(self, slot: Slot, endpoint: Endpoint, todo: list[_Pair]) -> bool | None:
        """Whether one of the nodes on the way back from a tensor will do; None, and more to do, if nobody knows yet."""
        ops = self._plan.wanted[slot.node].ops
        unknown: list[_Pair] = []
        for (name, output), _ in self._index.way_back(endpoint, self._plan.through):
            self._budget.spend()
            node = self._index.nodes.get(name)
            if node is None or output != slot.output or node.op not in ops:
                continue
            pair = (slot.node, name)
            verdict = self._known.get(pair)
            if verdict:
                return True
            if verdict is None:
                unknown.append(pair)
        todo.extend(unknown)
        return None if unknown else False

    def _judge(self, pair: _Pair, todo: list[_Pair]) -> bool | None:
        """Whether a node will do for a wanted one; None, and more to do, if nobody knows yet."""
        self._budget.spend()
        wanted = self._plan.wanted[pair[0]]
        if misfit(wanted, self._index.nodes[pair[1]], self._index) is not None:
            return False
        data = self._index.data(pair[1])
        for slots in (wanted.data, wanted.swapped):
            if slots is None:
                continue
            unknown: list[_Pair] = []
            verdicts = [
                self._at(slot, endpoint, unknown) for slot, endpoint in zip(slots, data, strict=True) if slot.node >= 0
            ]
            if all(verdicts):
                return True
            if False not in verdicts:
                todo.extend(unknown)
                return None
        return False


_Agenda = tuple[Goal, "_Agenda | None"]
_Table = dict[int, str] | dict[str, int] | dict[int, Endpoint] | dict[int, int]
_NO_RULES: Mapping[int, Rule] = MappingProxyType({})
_COUNT = 0
"""Where the number is kept that `{i}` is in all names of a unit."""


class Attempt:
    """One try. Takes at most `MAX_MATCH_STEPS` steps; a search for which that is too few fails and says so."""

    def __init__(
        self,
        plan: Plan,
        index: BodyIndex,
        cones: Cones,
        budget: Budget,
        nearest: Nearest,
        *,
        taken: Collection[str] = (),
        rules: Mapping[int, Rule] = _NO_RULES,
    ) -> None:
        self._plan = plan
        self._index = index
        self._cones = cones
        self._budget = budget
        self._nearest = nearest
        self._taken = taken
        self._rules = rules
        self._bound: dict[int, str] = {}
        self._owner: dict[str, int] = {}
        self._tensors: dict[int, Endpoint] = {}
        self._passed: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        self._goals: list[Goal] = []
        self._trail: list[tuple[_Table, int | str]] = []

    def run(self, goals: Iterable[Goal]) -> Unit | None:
        """The occurrence in which these goals are reached, or None.

        Raises:
            LimitError: This and the attempts before took too many steps.
        """
        self._budget.begin()
        agenda: _Agenda | None = None
        for goal in reversed(list(goals)):
            agenda = (goal, agenda)
        try:
            return self._search(agenda)
        except GaveUp:
            wanted = self._plan.wanted[self._plan.seed].name
            reason = f"the search was given up after {MAX_MATCH_STEPS} steps; say more in the recipe"
            self._nearest.offer(len(self._bound), wanted, self._bound.get(self._plan.seed, ""), reason, must=True)
            return None

    def _search(self, agenda: _Agenda | None) -> Unit | None:
        steps = self._plan.steps
        step = 0
        choices: list[tuple[int, _Agenda | None, int, Iterator[Move]]] = []
        while agenda is not None or step < len(steps):
            self._budget.spend()
            if agenda is not None:
                goal, agenda = agenda
                moves = self._reach(goal)
            else:
                moves = self._go_on(steps[step])
                step += 1
            move = next(moves, None)
            choices.append((len(self._trail), agenda, step, moves))
            while move is None or not self._make(move):
                if move is None:
                    choices.pop()
                if not choices:
                    return None
                start, agenda, step, moves = choices[-1]
                self._take_back(start)
                move = next(moves, None)
            for goal in self._goals:
                agenda = (goal, agenda)
        return self._unit()

    def _unit(self) -> Unit:
        query = self._plan.query
        nodes = {node.name: self._bound[number] for number, node in enumerate(query.nodes)}
        inputs = {name: self._tensors[number] for number, name in enumerate(query.inputs)}
        meant = set(self._bound.values())
        passed = tuple(name for name in self._passed if name not in meant)
        return Unit(nodes, inputs, passed, self._numbers.get(_COUNT))

    def _take_back(self, start: int) -> None:
        while len(self._trail) > start:
            table, key = self._trail.pop()
            del table[key]  # type: ignore[arg-type]  # each key was put into its own table

    # Goals: what could reach them

    def _reach(self, goal: Goal) -> Iterator[Move]:
        slot, endpoint = goal.slot, goal.endpoint
        known = self._bound.get(slot.node)
        through = () if goal.is_exact else self._plan.through
        moves: list[Move] = []
        for place, passed in self._index.way_back(endpoint, through, self._taken):
            if passed:
                self._budget.spend()
            if place.output != slot.output:
                continue
            if known is None:
                moves += self._bindings(slot.node, place.node, endpoint, passed)
            elif place.node == known:
                return iter([Move(None, known, (), endpoint, passed)])
        if not moves:
            self._miss_goal(goal)
        return iter(self._sifted(moves))

    def _bindings(self, number: int, name: str, start: Endpoint, passed: int = 0) -> list[Move]:
        """The ways to bind a wanted node to this one; none if it does not fit."""
        wanted = self._plan.wanted[number]
        node = self._index.nodes.get(name)
        if node is None or node.op not in wanted.ops or name in self._taken:
            return []
        if misfit(wanted, node, self._index) is not None:
            return []
        if name in self._owner and node.op != "Const":  # equal constants are often merged into one
            return []
        if wanted.rule is not None and wanted.rule.count((name,), self._numbers.get(_COUNT)) is None:
            self._miss_number(wanted, name)
            return []
        moves = [Move(wanted, name, wanted.data, start, passed)]
        if wanted.swapped is not None:
            data = self._index.data(name)
            if data[0] != data[1]:
                moves.append(Move(wanted, name, wanted.swapped, start, passed))
        return moves

    def _go_on(self, step: Step) -> Iterator[Move]:
        found = self._known(step.slot)
        if step.kind == "awaited":
            return iter(self._await(self._plan.wanted[step.node], step.slot))
        assert found is not None  # the plan goes from what is known to what is not
        if step.node in self._bound:
            return iter([Move(None, "", (), found)])
        if step.kind == "waiter":
            return self._among(step, found, self._index.waiters(found.node))
        return self._among(step, found, self._index.users(found, self._plan.through))

    def _among(self, step: Step, found: Endpoint, users: Iterable[Node]) -> Iterator[Move]:
        """The ways to bind a wanted node to one of these; there may be thousands, so one after the other."""
        ops = self._plan.wanted[step.node].ops
        best: Move | None = None
        first = ""
        has_any = False
        for user in users:
            self._budget.spend()
            if user.op not in ops or user.name in self._taken:
                first = first or user.name
                continue
            for move in self._bindings(step.node, user.name, Endpoint(user.name, 0)):
                best = best or move
                if not self._flaws(move) and self._can_stand(move):
                    has_any = True
                    yield move
            if best is None:
                first = user.name
        if best is None:
            self._miss_user(step, found, first)
        elif not has_any:
            yield best  # it fails, and says what is wrong

    def _known(self, slot: Slot) -> Endpoint | None:
        if slot.node < 0:
            return self._tensors.get(slot.input)
        name = self._bound.get(slot.node)
        return None if name is None else Endpoint(name, slot.output)

    def _await(self, wanted: PlanNode, slot: Slot) -> list[Move]:
        """The ways to bind what a wanted node waits for to one of those that the found node waits for."""
        user = self._bound[wanted.number]
        names = self._index.controls(user)
        known = self._known(slot)
        moves: list[Move] = []
        for name in names:
            self._budget.spend()
            endpoint = Endpoint(name, CONTROL)
            if known is not None and known.node == name:
                return [Move(None, name, (), endpoint)]
            if known is None and slot.node >= 0:
                moves += self._bindings(slot.node, name, endpoint)
            elif known is None:
                moves.append(Move(None, name, (), endpoint, input=slot.input))
        if not moves:
            query = self._plan.query
            missing = query.nodes[slot.node].name if slot.node >= 0 else query.inputs[slot.input]
            reason = f"{user!r} must wait for {missing!r} by a control edge, and does not"
            self._nearest.offer(len(self._bound), wanted.name, user, reason)
        return self._sifted(moves)

    def _sifted(self, moves: list[Move]) -> list[Move]:
        """Only those that can succeed; if none can, the one that goes furthest, which then says what is wrong."""
        if len(moves) < 2:
            return moves
        flaws = [self._flaws(move) for move in moves]
        least = min(flaws)
        if least:
            return [moves[flaws.index(least)]]
        moves = [move for move, count in zip(moves, flaws, strict=True) if not count]
        if len(moves) < 2:
            return moves
        return [move for move in moves if self._can_stand(move)] or moves[:1]

    def _flaws(self, move: Move) -> int:
        """How many inputs of a node are wrong at first sight."""
        if move.wanted is None:
            return 0
        count = 0
        self._budget.spend(len(move.slots))
        for slot, endpoint in zip(move.slots, self._index.data(move.found), strict=True):
            fits = self._may_stand(slot.input, endpoint) if slot.node < 0 else self._may_be(slot, endpoint)
            if fits:
                continue
            count += 1
            # Of two orders, the one in which names are off only by their number says better what is wrong.
            rule = self._plan.rules.get(slot.input)
            count += rule is not None and rule.count(self._index.names(endpoint)) is None
        return count

    def _may_be(self, slot: Slot, endpoint: Endpoint) -> bool:
        known = self._bound.get(slot.node)
        ops = self._plan.wanted[slot.node].ops
        first = self._index.nodes.get(endpoint.node)
        if first is None or first.op not in self._plan.through:  # nothing to pass: the most frequent case
            is_it = first is not None and (endpoint.node == known if known is not None else first.op in ops)
            return is_it and endpoint.output == slot.output
        for place, passed in self._index.way_back(endpoint, self._plan.through, self._taken):
            if passed:
                self._budget.spend()
            node = self._index.nodes.get(place.node)
            if node is None or place.output != slot.output:
                continue
            if place.node == known or (known is None and node.op in ops):
                return True
        return False

    def _can_stand(self, move: Move) -> bool:
        return move.wanted is None or all(
            slot.node < 0 or self._cones.can_stand(slot, endpoint)
            for slot, endpoint in zip(move.slots, self._index.data(move.found), strict=True)
        )

    # Moves

    def _make(self, move: Move) -> bool:
        """Makes a move, and leaves what follows from it in `_goals`, last first. False if it cannot be made."""
        self._goals = []
        for name in self._index.passed(move.start, move.passed):
            if name not in self._passed:
                self._put(self._passed, name, 0)
        if move.input >= 0 and not self._stand(move.input, move.start, None):
            return False
        if move.wanted is None:
            return True
        number = move.wanted.number
        self._put(self._bound, number, move.found)
        if move.wanted.rule is not None:
            self._count(move.wanted.rule, (move.found,))
        if move.found not in self._owner:
            self._put(self._owner, move.found, number)
        self._budget.spend(len(move.slots))
        for slot, endpoint in zip(move.slots, self._index.data(move.found), strict=True):
            if slot.node >= 0:
                self._goals.append(Goal(slot, endpoint, number))
            elif not self._stand(slot.input, endpoint, move):
                return False
        self._goals.reverse()
        return True

    def _count(self, rule: NameRule, names: Iterable[str]) -> None:
        """What `{i}` is in the first name, it is in all."""
        if rule.counts and _COUNT not in self._numbers:
            self._put(self._numbers, _COUNT, rule.count(names))

    def _put(self, table: _Table, key: int | str, value: object) -> None:
        table[key] = value  # type: ignore[index, assignment]  # each caller puts what its table holds
        self._trail.append((table, key))

    def _may_stand(self, number: int, endpoint: Endpoint) -> bool:
        known = self._tensors.get(number)
        if known is not None:
            return known == endpoint
        rule = self._rules.get(number)
        if rule is not None and not rule(endpoint):
            return False
        called = self._plan.rules.get(number)
        return called is None or called.count(self._index.names(endpoint), self._numbers.get(_COUNT)) is not None

    def _stand(self, number: int, endpoint: Endpoint, move: Move | None) -> bool:
        """Lets an input of the query stand for a tensor, or says that it cannot."""
        if self._may_stand(number, endpoint):
            if number not in self._tensors:
                self._put(self._tensors, number, endpoint)
                if number in self._plan.rules:
                    self._count(self._plan.rules[number], self._index.names(endpoint))
            return True
        if self._nearest.is_beaten_by(len(self._bound)):
            self._miss_input(number, endpoint, move)
        return False

    # What went wrong

    def _miss_goal(self, goal: Goal) -> None:
        if not self._nearest.is_beaten_by(len(self._bound)):
            return
        name = goal.endpoint.node
        user = self._bound.get(goal.user)
        head = f"{name!r} stands" if user is None else f"{user!r} takes {name!r}"
        self._miss_node(goal.slot, goal.endpoint, head)

    def _miss_user(self, step: Step, found: Endpoint, first: str) -> None:
        if not self._nearest.is_beaten_by(len(self._bound)):
            return
        if first:
            self._miss_node(Slot(step.node, -1, 0), Endpoint(first, 0), f"{first!r} takes {found}")
            return
        name = self._plan.wanted[step.node].name
        self._nearest.offer(len(self._bound), name, "", f"{name!r} must take {found}, and nothing does")

    def _miss_node(self, slot: Slot, endpoint: Endpoint, head: str) -> None:
        wanted = self._plan.wanted[slot.node]
        name = endpoint.node
        known = self._bound.get(slot.node)
        owner = self._owner.get(name)
        if known is not None:
            why = f"that is {Endpoint(known, slot.output)} elsewhere"
        elif name in self._taken:
            if self._nearest.is_own(name):
                return  # an occurrence that overlaps a match is no miss
            why = "it belongs to something else already"
        elif owner is not None and owner != slot.node:
            why = f"it is {self._plan.wanted[owner].name!r} already"
        else:
            why = describe_misfit(wanted, endpoint, slot.output, self._index)
        reason = f"{head} in the place of {wanted.name!r}, but {why}"
        self._nearest.offer(len(self._bound), wanted.name, name, reason)

    def _miss_number(self, wanted: PlanNode, name: str) -> None:
        assert wanted.rule is not None  # else it has no number
        if self._nearest.is_beaten_by(len(self._bound)):
            why = describe_name(wanted.rule, (name,), self._numbers.get(_COUNT))
            reason = f"{name!r} stands in the place of {wanted.name!r}, but {why}"
            self._nearest.offer(len(self._bound), wanted.name, name, reason)

    def _miss_input(self, number: int, endpoint: Endpoint, move: Move | None) -> None:
        name = self._plan.query.inputs[number]
        known = self._tensors.get(number)
        wanted, found = name, endpoint.node
        if move is not None and move.wanted is not None:
            wanted, found = move.wanted.name, move.found
        called = self._plan.rules.get(number)
        why = None if called is None else describe_name(called, self._index.names(endpoint), self._numbers.get(_COUNT))
        if known is not None or why is None:
            why = f"that is {known} elsewhere" if known is not None else "something else is linked there"
        reason = f"{found!r} takes {endpoint} in the place of {name!r}, but {why}"
        self._nearest.offer(len(self._bound), wanted, found, reason)
