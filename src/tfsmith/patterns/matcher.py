"""`find_matches`: where a recipe's query stands in a graph or function; occurrences that feed each other are chains."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import islice
from types import MappingProxyType

from tfsmith.errors import LimitError
from tfsmith.ir.body import Body
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.recipe import Match, Miss, Recipe, Repeat, Unit, Variant
from tfsmith.patterns.attempt import Attempt, Cones, Goal, Nearest, Rule
from tfsmith.patterns.index import BodyIndex, Budget
from tfsmith.patterns.query import Plan, Slot, check_connected, depth_of, make_plan, validate
from tfsmith.records import record, replace

__all__ = ["reachable_seeds", "Search", "owned_by", "find_chains", "Found", "Matcher", "find_matches"]

_RARE = 2
"""How many times rarer than the seed a node must be to be worth the walk."""
_STEPS_PER_SEED = 16
"""How far the walk may go for each node that the search could begin at; it is cheaper than an attempt."""


def reachable_seeds(plan: Plan, index: BodyIndex) -> set[str] | None:
    """The nodes that a node of the rarest wanted op leads up to, by the way that the query shows.

    An occurrence begins at one of them. None where there is no rare op, or where the ways branch so much that nothing
    is gained. Takes no more steps than a few for each node of the seed's op.
    """
    ways = _ways_up(plan)
    seeds = index.count_ops(plan.wanted[plan.seed].ops)
    counts = {number: index.count_ops(plan.wanted[number].ops) for number in ways}
    rarest = min(ways, key=lambda number: counts[number])  # of equals the first, which is the nearest to the seed
    if counts[rarest] * _RARE > seeds:
        return None
    level = {node.name for node in index.of_ops(plan.wanted[rarest].ops)}
    left = seeds * _STEPS_PER_SEED
    number = rarest
    while number != plan.seed and level:
        user, output = ways[number]
        ops = plan.wanted[user].ops
        above: set[str] = set()
        for name in level:
            for node in index.users(Endpoint(name, output), plan.through):
                left -= 1
                if node.op in ops:
                    above.add(node.name)
            if left < 0:
                return None
        level, number = above, user
    return level


def _ways_up(plan: Plan) -> dict[int, tuple[int, int]]:
    """For each wanted node below the seed: the one that takes it on a shortest way up, and the output that it takes."""
    ways = {plan.seed: (plan.seed, 0)}
    todo = [plan.seed]
    for number in todo:  # grows while it is walked
        for slot in plan.wanted[number].data:
            if slot.node >= 0 and slot.node not in ways:
                ways[slot.node] = (number, slot.output)
                todo.append(slot.node)
    return ways


_NO_RULES: Mapping[int, Rule] = MappingProxyType({})
_DEEP = 32
"""Queries that go down this far are not tried where the body does not."""
_MANY = 200
"""With more places to begin at than this, it pays to look for the rarest node first."""
_EXPLAIN_STEPS = 100_000
"""What the nearest miss may cost besides; some 0.2 s. In a large body, only the first places are looked at."""


def owned_by(units: Iterable[Unit], index: BodyIndex) -> set[str]:
    """The nodes that no other match may have: all, but for constants and the like, which take nothing."""
    return {name for unit in units for name in (*unit.nodes.values(), *unit.passed) if index.data(name)}


class Search:
    """A search for one query. What it finds is taken; what is taken, it does not find.

    Attributes:
        plan: The query.
        index: The body.
        taken: Nodes that belong to a match already.
    """

    def __init__(self, plan: Plan, index: BodyIndex, budget: Budget, nearest: Nearest, taken: Collection[str]) -> None:
        self.plan = plan
        self.index = index
        self.taken = set(taken)
        self.nearest = nearest
        self._budget = budget
        self._cones = Cones(plan, index, budget)
        self._depths: dict[str, float] = {}
        self._untried: Sequence[Node] = ()
        self._failed: list[str] = []
        self._skipped: list[str] = []

    def units(self) -> list[Unit]:
        """All occurrences, first come, first served, in the order of the nodes that give the query's output.

        Raises:
            LimitError: It takes too many steps.
        """
        seed = self.plan.wanted[self.plan.seed]
        candidates = self.index.of_ops(seed.query.ops)
        if not candidates:
            reason = f"there is no node of op {' or '.join(seed.query.ops)}"
            self.nearest.offer(0, seed.name, "", reason)
        if not self._has_enough():
            self._untried = candidates
            return []
        return self._try(candidates)

    def _try(self, candidates: Sequence[Node]) -> list[Unit]:
        reachable = reachable_seeds(self.plan, self.index) if len(candidates) > _MANY else None
        units: list[Unit] = []
        for node in candidates:
            if node.name in self.taken:
                continue
            if self._is_too_shallow(node.name) or (reachable is not None and node.name not in reachable):
                self._skipped.append(node.name)
                continue
            unit = self.at(node.name)
            if unit is None:
                self._failed.append(node.name)
            else:
                units.append(unit)
                self.taken |= owned_by([unit], self.index)
        return units

    def _has_enough(self) -> bool:
        """Whether there are as many free nodes of each op as the query wants. The rarest op is looked at first."""
        wants = Counter(wanted.ops for wanted in self.plan.wanted if wanted.data)
        for ops in sorted(wants, key=self.index.count_ops):
            free = (node for node in self.index.of_ops(ops) if node.name not in self.taken)
            if sum(1 for _ in islice(free, wants[ops])) < wants[ops]:
                return False
        return True

    def explain(self) -> None:
        """Looks how near to a match the places are where `units` found none."""
        from tfsmith.patterns.misses import Resemblance  # most searches find something

        with contextlib.suppress(LimitError):  # what was seen by then must do
            self._try(self._untried)
        steps = 0
        for name in (*self._failed, *sorted(self._skipped, key=lambda name: -self._depths.get(name, 0))):
            if name in self.taken or steps >= _EXPLAIN_STEPS:
                continue
            walk = Resemblance(self.plan, self.index, self.taken, self.nearest)
            walk.walk(name, _EXPLAIN_STEPS - steps)
            steps += walk.steps

    def at(self, name: str, rules: Mapping[int, Rule] = _NO_RULES) -> Unit | None:
        """The occurrence that begins at a node, if there is one."""
        goal = Goal(Slot(self.plan.seed, -1, 0), Endpoint(name, 0), is_exact=True)
        return self.reach([goal], rules)

    def reach(self, goals: Iterable[Goal], rules: Mapping[int, Rule] = _NO_RULES) -> Unit | None:
        """The occurrence in which these goals are reached, if there is one."""
        attempt = Attempt(self.plan, self.index, self._cones, self._budget, self.nearest, taken=self.taken, rules=rules)
        return attempt.run(goals)

    def again(self, unit: Unit, rules: Mapping[int, Rule]) -> Unit | None:
        """Another occurrence in the place of this one, in which the inputs follow these rules. Counts as no miss."""
        taken, nearest = self.taken, self.nearest
        self.taken = taken - owned_by([unit], self.index)
        self.nearest = Nearest(None)
        other = self.at(unit.nodes[self.plan.wanted[self.plan.seed].name], rules)
        self.nearest = nearest
        self.taken = taken if other is None else self.taken | owned_by([other], self.index)
        return other

    @cached_property
    def _wanted_depth(self) -> int:
        return depth_of(self.plan)

    def _is_too_shallow(self, name: str) -> bool:
        """Whether the longest way down from a node, over nodes that are free, is shorter than the query's.

        A node's depth is worked out once; those that are taken later only make it less.
        """
        if self._wanted_depth < _DEEP:
            return False
        depths = self._depths
        open_nodes: set[str] = set()
        stack = [name]
        while stack:
            one = stack[-1]
            if one in depths:
                stack.pop()
                continue
            below = [source for source, _ in self.index.data(one) if source in self.index.nodes]
            missing = [source for source in below if source not in depths and source not in self.taken]
            if one not in open_nodes and missing:
                open_nodes.add(one)
                stack.extend(source for source in missing if source not in open_nodes)
                continue
            # What is still missing here is above itself: a loop, which is as deep as one likes.
            values = [depths.get(source, float("inf")) for source in below if source not in self.taken]
            depths[one] = 1 + max(values, default=0)
            stack.pop()
        return depths[name] < self._wanted_depth


def find_chains(search: Search, repeat: Repeat) -> list[tuple[Unit, ...]]:
    """The maximal chains of a repeated query, first units in order. Where two units follow one, the first does.

    What hands a tensor on between two units (`Query.through`) is passed, and belongs to the second.

    Raises:
        LimitError: It takes too many steps.
    """
    links = _Links(search, repeat, search.units())
    if any(wanted.swapped is not None for wanted in search.plan.wanted):
        links.rebind()
    return links.chains()


class _Links:
    """Which unit follows which."""

    def __init__(self, search: Search, repeat: Repeat, units: list[Unit]) -> None:
        self._search = search
        self._repeat = repeat
        self._units = units
        # For each carried input, the unit that gives a tensor to it.
        self._givers: dict[str, dict[Endpoint, int]] = {name: {} for name in repeat.carry}
        for number, unit in enumerate(units):
            self._enter(number, unit)

    def _enter(self, number: int, unit: Unit) -> None:
        for name, source in self._repeat.carry.items():
            self._givers[name][Endpoint(unit.nodes[source.node], source.output)] = number

    def rebind(self) -> None:
        """Where inputs may be exchanged, a unit may have been found in the order that does not link; tries the other.

        Only units that follow none are looked at: the heads of chains, mostly.
        """
        for number, unit in enumerate(self._units):
            if self._before(number) is not None:
                continue
            carried = self._carry_rules(number)
            other = self._search.again(unit, carried)
            if other is None:
                continue
            self._swap(number, other)
            self._agree(number, carried)

    def _agree(self, number: int, carried: Mapping[int, Rule]) -> None:
        """A unit and the one before it may have bound a shared input to the two sides of one exchange."""
        giver = self._giver(self._units[number])
        if giver is None or self._shares(giver, number):
            return
        other = self._search.again(self._units[number], {**carried, **self._shared_rules(giver)})
        if other is not None:
            self._swap(number, other)
        elif self._before(giver) is None:
            first = self._search.again(self._units[giver], self._shared_rules(number))
            if first is not None:
                self._swap(giver, first)

    def _swap(self, number: int, unit: Unit) -> None:
        self._units[number] = unit
        self._enter(number, unit)

    def _carry_rules(self, number: int) -> dict[int, Rule]:
        def rule(name: str) -> Rule:
            return lambda endpoint: self._source(name, endpoint)[0] not in (None, number)

        return {self._search.plan.inputs[name]: rule(name) for name in self._repeat.carry}

    def _shared_rules(self, number: int) -> dict[int, Rule]:
        def rule(tensor: Endpoint) -> Rule:
            return lambda endpoint: endpoint == tensor

        unit = self._units[number]
        return {self._search.plan.inputs[name]: rule(unit.inputs[name]) for name in self._repeat.shared}

    def _source(self, name: str, endpoint: Endpoint) -> tuple[int | None, int]:
        """The unit that gives a tensor to a carried input, and the number of nodes that are passed on the way."""
        search = self._search
        for place, passed in search.index.way_back(endpoint, search.plan.through, search.taken):
            giver = self._givers[name].get(place)
            if giver is not None:
                return giver, passed
        return None, 0

    def _giver(self, unit: Unit) -> int | None:
        """The one unit that gives all carried inputs of this one."""
        givers = {self._source(name, unit.inputs[name])[0] for name in self._repeat.carry}
        return givers.pop() if len(givers) == 1 else None

    def _shares(self, first: int, second: int) -> bool:
        one, other = self._units[first].inputs, self._units[second].inputs
        return all(one[name] == other[name] for name in self._repeat.shared)

    def _before(self, number: int) -> int | None:
        giver = self._giver(self._units[number])
        if giver is None or giver == number or not self._shares(giver, number):
            return None
        return giver if self._counts_on(giver, number) else None

    def _counts_on(self, first: int, second: int) -> bool:
        """Whether the numbers in the names of two units follow each other, where names have numbers."""
        one, other = self._units[first].number, self._units[second].number
        return one is None or other is None or one + 1 == other

    def chains(self) -> list[tuple[Unit, ...]]:
        followers: dict[int, int] = {}
        linked: set[int] = set()
        for number in range(len(self._units)):
            before = self._before(number)
            if before is not None and before not in followers:
                followers[before] = number
                linked.add(number)
        heads = [number for number in range(len(self._units)) if number not in linked]
        chains: list[tuple[Unit, ...]] = []
        seen: set[int] = set()
        for head in (*heads, *sorted(linked)):  # the linked ones are seen by then, unless they make a ring
            chain: list[Unit] = []
            at: int | None = head
            while at is not None and at not in seen:
                seen.add(at)
                chain.append(self._joined(at) if chain else self._units[at])
                at = followers.get(at)
            if chain:
                chains.append(tuple(chain))
        return chains

    def _joined(self, number: int) -> Unit:
        """The unit with the nodes that were passed between it and the one before."""
        unit = self._units[number]
        passed = dict.fromkeys(unit.passed)
        for name in self._repeat.carry:
            count = self._source(name, unit.inputs[name])[1]
            passed.update(dict.fromkeys(self._search.index.passed(unit.inputs[name], count)))
        return replace(unit, passed=tuple(passed))


_NO_NAMES: Mapping[str, str] = MappingProxyType({})


class Found:
    """What a search found.

    Attributes:
        matches: The matches, none of which overlap: by variant, then in the body's order.
        steps: How much work it was.
    """

    __slots__ = ("_nearest", "_unexplained", "matches", "steps")

    def __init__(
        self, matches: tuple[Match, ...], steps: int, nearest: Nearest, searches: Iterable[tuple[str, Search]]
    ) -> None:
        """Keeps the searches, by variant, until somebody asks what they missed."""
        self.matches = matches
        self.steps = steps
        self._nearest = nearest
        self._unexplained = list(searches)

    @property
    def miss(self) -> Miss | None:
        """The attempt that failed and came nearest to a match; None where nothing failed. The first call is costly."""
        for variant, search in self._unexplained:
            self._nearest.turn_to(variant)
            search.explain()
        self._unexplained.clear()
        return self._nearest.miss


def find_matches(body: Body, recipe: Recipe, *, name: str | None = None, taken: Collection[str] = ()) -> Found:
    """Finds all places where a recipe's query stands, first come, first served.

    No node is in two matches, except for constants and others that take no tensor. Linear in the body for all real
    models. Whether a subgraph stands somewhere can take any time in general; therefore one attempt ends after
    `limits.MAX_MATCH_STEPS` steps as a miss that says so, and so does the whole search after some ten of those.

    Args:
        body: The graph or function to search in.
        recipe: What to search for.
        name: The function's name; None for the graph itself.
        taken: Names of nodes that no match may have. Those that take no tensor do not count.

    Raises:
        UsageError: A query of the recipe makes no sense.
        LimitError: The search takes too many steps.
        InvalidModelError: The body has two nodes of one name, or an input that cannot be resolved.
    """
    return Matcher(recipe).find(body, name=name, taken=taken)


class Matcher:
    """A recipe made ready, for more than one search."""

    def __init__(self, recipe: Recipe) -> None:
        """Makes a recipe ready; linear in its queries.

        Raises:
            UsageError: A query of the recipe makes no sense.
        """
        validate(recipe)
        self._recipe = recipe
        self._plans = [(variant, _plan(variant), _plan_before(variant)) for variant in recipe.variants]
        for variant, plan, before in self._plans:
            where = f"recipe {recipe.name!r}, variant {variant.name!r}"
            check_connected(plan, where)
            if before is not None:
                check_connected(before, f"{where}, before")

    @property
    def goes_by_names(self) -> bool:
        """Whether a query has rules for names."""
        return any(plan.query.names for _, plan, _ in self._plans)

    def find(
        self,
        body: Body,
        *,
        name: str | None = None,
        taken: Collection[str] = (),
        variables: Mapping[str, str] = _NO_NAMES,
    ) -> Found:
        """As `find_matches`. `variables` are the names of those that a function captures, by argument."""
        return self.find_in(BodyIndex(body, variables), name=name, taken=taken)

    def find_in(self, index: BodyIndex, *, name: str | None = None, taken: Collection[str] = ()) -> Found:
        """As `find_matches`, where much of the body may be worked out already."""
        body = index.body
        outside = {one for one in taken if one in index.nodes and index.data(one)}
        nearest = Nearest(name, outside)
        used = set(outside)
        matches: list[Match] = []
        searches: list[tuple[str, Search]] = []
        steps = 0
        for variant, plan, before in self._plans:
            nearest.turn_to(variant.name)
            budget = Budget(f"recipe {self._recipe.name!r}, variant {variant.name!r}, {body.title}", len(body))
            search = Search(plan, index, budget, nearest, used)
            searches.append((variant.name, search))
            if variant.repeat is None:
                matches += [Match(name, variant, (unit,)) for unit in search.units()]
                used = search.taken
            else:
                matches += _Repeated(name, variant, variant.repeat, before, search, budget).matches(used)
            steps += budget.steps
        return Found(tuple(matches), steps, nearest, searches)


def _plan(variant: Variant) -> Plan:
    repeat = variant.repeat
    return make_plan(variant.query, fixed=() if repeat is None else {*repeat.carry, *repeat.shared, *repeat.links})


def _plan_before(variant: Variant) -> Plan | None:
    repeat = variant.repeat
    if repeat is None or repeat.before is None:
        return None
    return make_plan(repeat.before, next(iter(repeat.links.values())).node)


@record
class _Repeated:
    """The search for a variant that repeats."""

    name: str | None
    variant: Variant
    repeat: Repeat
    before: Plan | None
    search: Search
    budget: Budget

    def matches(self, used: set[str]) -> list[Match]:
        """The chains that are long enough and have in front of them what they must have; adds their nodes to `used`."""
        matches: list[Match] = []
        index = self.search.index
        chains = find_chains(self.search, self.repeat)
        for chain in chains:
            owned = owned_by(chain, index)
            if len(chain) < self.repeat.least:
                self._miss_length(chain, chains)
            if len(chain) < self.repeat.least or not owned.isdisjoint(used):
                continue
            before = self._find_before(chain, used | owned)
            if before is None and self.before is not None:
                continue
            matches.append(Match(self.name, self.variant, chain, before))
            used |= owned if before is None else owned | owned_by([before], index)
        return matches

    def _find_before(self, chain: tuple[Unit, ...], taken: set[str]) -> Unit | None:
        if self.before is None:
            return None
        nearest = self.search.nearest
        nearest.already = len(chain) * len(self.variant.query.nodes)
        goals = [
            Goal(Slot(self.before.numbers[output.node], -1, output.output), chain[0].inputs[name])
            for name, output in self.repeat.links.items()
        ]
        unit = Search(self.before, self.search.index, self.budget, nearest, taken).reach(goals)
        nearest.already = 0
        return unit

    def _miss_length(self, chain: tuple[Unit, ...], chains: Iterable[tuple[Unit, ...]]) -> None:
        matched = len(chain) * len(self.variant.query.nodes)
        if not self.search.nearest.is_beaten_by(matched):
            return
        seed = self.search.plan.wanted[self.search.plan.seed].name
        first, last = chain[0].nodes[seed], chain[-1].nodes[seed]
        reason = (
            f"at least {self.repeat.least} in a row are wanted, and from {first!r} to {last!r} there are {len(chain)}"
        )
        last_number, next_number = chain[-1].number, self._next_number(chain[-1], chains)
        if last_number is not None and next_number is not None:
            reason += f"; {{i}} is {last_number} in its last names, and {next_number} in those of the next one"
        self.search.nearest.offer(matched, seed, last, reason)

    def _next_number(self, last: Unit, chains: Iterable[tuple[Unit, ...]]) -> int | None:
        """The number of a unit that takes what this one gives, and follows it but for its names."""
        given = {name: Endpoint(last.nodes[end.node], end.output) for name, end in self.repeat.carry.items()}
        firsts = (chain[0] for chain in chains)
        return next((one.number for one in firsts if all(one.inputs[name] == given[name] for name in given)), None)
