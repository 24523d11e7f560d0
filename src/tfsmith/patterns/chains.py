"""Repetition: occurrences of a query that feed each other become chains."""

from __future__ import annotations

from collections.abc import Mapping

from tfsmith.ir.match import Unit
from tfsmith.ir.node import Endpoint
from tfsmith.ir.recipe import Repeat
from tfsmith.patterns.moves import Rule
from tfsmith.patterns.search import Search
from tfsmith.records import replace

__all__ = ["find_chains"]


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
