"""`find_matches`: where a recipe's query stands in a graph or function."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from tfsmith.ir.body import Body
from tfsmith.ir.match import Match, Miss, Unit
from tfsmith.ir.node import Endpoint
from tfsmith.ir.recipe import Recipe, Repeat, Variant
from tfsmith.patterns.body_index import BodyIndex
from tfsmith.patterns.budget import Budget
from tfsmith.patterns.chains import find_chains
from tfsmith.patterns.explain import Nearest
from tfsmith.patterns.moves import Goal
from tfsmith.patterns.plan import Plan, Slot, make_plan
from tfsmith.patterns.search import Search, owned_by
from tfsmith.patterns.validate import check_connected, validate
from tfsmith.records import record

__all__ = ["Found", "Matcher", "find_matches"]

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
