"""What a match found, under the names that the recipe has for it."""

from __future__ import annotations

from collections.abc import Iterator

from tfsmith.errors import UsageError
from tfsmith.ir.attr import Attr
from tfsmith.ir.body import Body
from tfsmith.ir.dtype import DType
from tfsmith.ir.match import Match, Unit
from tfsmith.ir.names import nearest
from tfsmith.ir.node import Endpoint, is_index
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.patterns.knowledge import Knowledge

__all__ = ["MatchFacts", "common_scope", "match_nodes", "split_output"]


def match_nodes(match: Match) -> tuple[str, ...]:
    """The names of all nodes of a match, each once, in the order of its units."""
    return tuple(dict.fromkeys(name for unit in _units(match) for name in (*unit.nodes.values(), *unit.passed)))


def _units(match: Match) -> Iterator[Unit]:
    yield from match.units
    if match.before is not None:
        yield match.before


def common_scope(names: tuple[str, ...]) -> str:
    """The deepest name scope that all these nodes are in; "" if there is none."""
    scopes = [name.split("/")[:-1] for name in names]
    if not scopes:
        return ""
    first, last = min(scopes), max(scopes)
    count = next((at for at, word in enumerate(first) if at >= len(last) or last[at] != word), len(first))
    return "/".join(first[:count])


def split_output(text: str) -> tuple[str, int]:
    """A name and the number of an output: `node` or `node:1`."""
    name, colon, index = text.rpartition(":")
    return (name, int(index)) if colon and is_index(index) else (text, 0)


class MatchFacts:
    """Answers for the expressions of a recipe. Names mean the first unit, or what stands before the chain."""

    def __init__(self, match: Match, body: Body, knowledge: Knowledge) -> None:
        self._match = match
        self._body = body
        self._knowledge = knowledge

    @property
    def units(self) -> int:
        """How often the unit repeats in this match."""
        return len(self._match.units)

    def find(self, text: str, unit: Unit | None = None) -> Endpoint | None:
        """The tensor that a name means (in a unit, if given), or None."""
        places = [self._match.units[0] if unit is None else unit]
        places += [self._match.before] if self._match.before is not None else []
        name, output = split_output(text)
        for place in places:
            for key in (text, name) if output == 0 else (text,):
                if key in place.inputs:
                    return place.inputs[key]
            for key, number in ((text, 0), (name, output)):
                if key in place.nodes:
                    return Endpoint(place.nodes[key], number)
        return None

    def tensor(self, x: str) -> Endpoint:
        """The tensor that a name means.

        Raises:
            UsageError: The recipe has no such name.
        """
        found = self.find(x)
        if found is None:
            units = list(_units(self._match))
            names = [name for unit in units for name in (*unit.inputs, *unit.nodes)]
            near = nearest(x, dict.fromkeys(names)) or list(dict.fromkeys(names))[:5]
            what = f"there is no {x!r} among the inputs and nodes of the query"
            raise UsageError(what, remedy=f"the nearest names are {', '.join(near)}")
        return found

    def shape(self, x: str) -> Shape:
        """The shape of a tensor, as far as it is known."""
        return self._knowledge.shape(self._body, self.tensor(x))

    def dtype(self, x: str) -> DType | None:
        """The type of a tensor."""
        return self._knowledge.dtype(self._body, self.tensor(x))

    def constant(self, x: str) -> Tensor | None:
        """The value of a tensor that is a constant."""
        return self._knowledge.constant(self._body, self.tensor(x))

    def attr(self, node: str, name: str) -> Attr | None:
        """An attribute of a node (of an input: the node that gives it), or its default where it is left out."""
        found = self._body.by_name.get(self.tensor(node).node)
        if found is None:
            return None
        if name in found.attrs:
            return found.attrs[name]
        op = self._body.op_def(found.op)
        return None if op is None else next((attr.default for attr in op.attrs if attr.name == name), None)
