"""How the inputs of the new nodes are remapped: what each one is in the recipe, and in a model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfsmith.ir.match import Match
from tfsmith.ir.node import CONTROL, Endpoint
from tfsmith.ir.recipe import TargetNode, Variant
from tfsmith.records import record
from tfsmith.view.drawing.folding import fold_names

__all__ = ["Port", "ports", "input_in_model", "list_inputs", "names_in_model"]

_EACH = re.compile(r"each\(([^()]*)\)")


@record
class Port:
    """Some inputs of a new node that are drawn as one.

    Attributes:
        title: What they are called in the recipe.
        names: The inputs of the query that they take; none where they take another new node.
        numbers: Which inputs of the new node they are; of a chain of unknown length, those of its first unit.
        is_each: Whether there is one for each unit of a chain.
    """

    title: str
    names: tuple[str, ...]
    numbers: tuple[int, ...]
    is_each: bool = False

    @property
    def label(self) -> str:
        """The numbers, shortened."""
        if len(self.numbers) <= 2 and not self.is_each:
            return ", ".join(map(str, self.numbers))
        shown = [str(number) for number in self.numbers[:2]]
        return ", ".join([*shown, "…", *([str(self.numbers[-1])] if len(self.numbers) > 2 else [])])


def ports(variant: Variant, target: TargetNode, units: int = 1) -> list[Port]:
    """The inputs of a new node, folded where layers repeat.

    Args:
        variant: What the node belongs to.
        target: The node.
        units: How many units the chain has, as far as known.
    """
    known = _inputs(variant)
    order: dict[str, list[int]] = {}
    each: set[str] = set()
    number = 0
    for text in target.inputs:
        found = _EACH.fullmatch(text)
        listed = [text] if found is None else [name.strip() for name in found[1].split(",")]
        for _ in range(1 if found is None else units):
            for name in listed:
                order.setdefault(name, []).append(number)
                number += 1
        each |= set() if found is None else set(listed)
    return [
        Port(
            fold.title,
            tuple(name for name in fold.names if name in known),
            tuple(sorted(number for name in fold.names for number in order[name])),
            any(name in each for name in fold.names),
        )
        for fold in fold_names(order)
    ]


def _inputs(variant: Variant) -> set[str]:
    before = variant.repeat.before if variant.repeat is not None else None
    return {*variant.query.inputs, *(before.inputs if before is not None else ())}


def names_in_model(match: Match | None, names: Sequence[str]) -> list[str]:
    """The tensors that inputs of the query are bound to, unit after unit, each named once."""
    found: dict[str, None] = {}
    for unit in () if match is None else (*([match.before] if match.before else []), *match.units):
        for name in names:
            if name in unit.inputs:
                found[_text(unit.inputs[name])] = None
    return list(found)


def input_in_model(match: Match | None, port: Port) -> str:
    """What a folded input is in a model, in one line; "" where that is not known."""
    found = [fold.title for fold in fold_names(names_in_model(match, port.names))]
    return found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else "") if found else ""


def list_inputs(variant: Variant, target: TargetNode, match: Match | None) -> Iterator[tuple[int, str, str]]:
    """Every input of a new node: its number, its name in the recipe, and the tensor in the model."""
    units = match.units if match is not None else ()
    number = 0
    for text in target.inputs:
        each = _EACH.fullmatch(text)
        if each is None:
            yield number, text, ", ".join(names_in_model(match, [text.removeprefix("^")])[:1])
            number += 1
            continue
        listed = [name.strip() for name in each[1].split(",")]
        for turn in range(max(1, len(units))):
            for name in listed:
                bound = units[turn].inputs.get(name) if units else None
                title = f"{name} of unit {turn}" if units else f"{name} of each unit"
                yield number, title, "" if bound is None else _text(bound)
                number += 1


def _text(endpoint: Endpoint) -> str:
    return endpoint.node if endpoint.output in (0, CONTROL) else f"{endpoint.node}:{endpoint.output}"
