"""`find_matches`: where a recipe's query stands in a graph or function."""

from __future__ import annotations

from collections.abc import Collection

from tfsmith.ir.body import Body
from tfsmith.ir.match import Match, Miss, Unit
from tfsmith.ir.recipe import Recipe, Repeat, Variant
from tfsmith.patterns.attempt import Goal
from tfsmith.patterns.body_index import BodyIndex
from tfsmith.patterns.budget import Budget
from tfsmith.patterns.chains import find_chains
from tfsmith.patterns.explain import Nearest
from tfsmith.patterns.plan import Plan, Slot, make_plan
from tfsmith.patterns.search import Search, owned_by
from tfsmith.patterns.validate import validate
from tfsmith.records import record

__all__ = ["Found", "Matcher", "find_matches"]


@record
class Found:
    """What a search found.

    Attributes:
        matches: The matches, none of which overlap: by variant, then in the body's order.
        miss: The attempt that failed and came nearest to a match; None where nothing failed.
        steps: How much work it was.
    """

    matches: tuple[Match, ...]
    miss: Miss | None
    steps: int = 0


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

    def find(self, body: Body, *, name: str | None = None, taken: Collection[str] = ()) -> Found:
        """As `find_matches`."""
        index = BodyIndex(body)
        outside = {one for one in taken if one in index.nodes and index.data(one)}
        nearest = Nearest(name, outside)
        used = set(outside)
        matches: list[Match] = []
        steps = 0
        for variant, plan, before in self._plans:
            nearest.turn_to(variant.name)
            budget = Budget(f"recipe {self._recipe.name!r}, variant {variant.name!r}, {body.title}", len(body))
            search = Search(plan, index, budget, nearest, used)
            if variant.repeat is None:
                matches += [Match(name, variant, (unit,)) for unit in search.units()]
                used = search.taken
            else:
                matches += _Repeated(name, variant, variant.repeat, before, search, budget).matches(used)
            steps += budget.steps
        return Found(tuple(matches), nearest.miss, steps)


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
        for chain in find_chains(self.search, self.repeat):
            owned = owned_by(chain, index)
            if len(chain) < self.repeat.least:
                self._miss_length(chain)
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

    def _miss_length(self, chain: tuple[Unit, ...]) -> None:
        seed = self.search.plan.wanted[self.search.plan.seed].name
        first, last = chain[0].nodes[seed], chain[-1].nodes[seed]
        reason = (
            f"at least {self.repeat.least} in a row are wanted, and from {first!r} to {last!r} there are {len(chain)}"
        )
        matched = len(chain) * len(self.variant.query.nodes)
        self.search.nearest.offer(matched, seed, last, reason)
