"""Whether a recipe's queries make sense, before anything is searched for."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, prod

from tfsmith.errors import UsageError
from tfsmith.ir.node import CONTROL, Endpoint
from tfsmith.ir.recipe import ConstantQuery, NodeQuery, Query, Recipe, Repeat
from tfsmith.patterns.plan import Plan

__all__ = ["check_connected", "validate"]

_REMEDY = "correct the recipe"


def validate(recipe: Recipe) -> None:
    """Looks at all queries of a recipe; what it puts in their place is not looked at. Linear.

    Raises:
        UsageError: A query names what it does not have, has a name twice, a cycle, nodes that its outputs do not need,
            or says something else that cannot be.
    """
    if not recipe.variants:
        raise UsageError("it has no variants", where=f"recipe {recipe.name!r}", remedy=_REMEDY)
    for variant in recipe.variants:
        where = f"recipe {recipe.name!r}, variant {variant.name!r}"
        _check_query(variant.query, where)
        if variant.repeat is not None:
            _check_repeat(variant.repeat, variant.query, where)


def _check_query(query: Query, where: str) -> None:
    _check_names(query, where)
    inputs = frozenset(query.inputs)
    by_name = {node.name: node for node in query.nodes}
    for node in query.nodes:
        flaw = next(_flaws(node, by_name, inputs), None)
        if flaw is not None:
            raise UsageError(flaw, where=f"{where}, node {node.name!r}", remedy=_REMEDY)
    _check_outputs(query, by_name, where)
    unused = inputs.difference(name for node in query.nodes for name, _ in node.inputs)
    if unused:
        what = f"no node takes the input {min(unused)!r}"
        raise UsageError(what, where=where, remedy="take it out of the query's inputs, or let a node take it")
    _check_order(query, by_name, where)


def check_connected(plan: Plan, where: str) -> None:
    """Sees that a query is one piece.

    Raises:
        UsageError: Nothing connects one of its nodes with the others.
    """
    if plan.loose:
        what = "nothing connects it with the first output"
        remedy = "make two recipes of it: a query is one connected piece"
        raise UsageError(what, where=f"{where}, node {plan.query.nodes[plan.loose[0]].name!r}", remedy=remedy)


def _check_names(query: Query, where: str) -> None:
    if not query.nodes:
        raise UsageError("its query has no nodes", where=where, remedy=_REMEDY)
    seen: set[str] = set()
    for name in (*query.inputs, *(node.name for node in query.nodes)):
        if name in seen:
            what = "two nodes or inputs of the query have this name"
            raise UsageError(what, where=f"{where}, node {name!r}", remedy="give each its own")
        seen.add(name)
    unknown = next((name for name in query.names if name not in seen), None)
    if unknown is not None:
        what = f"it has a rule for the names of {unknown!r}, which is no node and no input of the query"
        raise UsageError(what, where=where, remedy=_REMEDY)


def _flaws(node: NodeQuery, by_name: dict[str, NodeQuery], inputs: frozenset[str]) -> Iterator[str]:
    if not node.ops:
        yield "it names no op"
    for name, output in node.inputs:
        if name not in by_name and name not in inputs:
            yield f"it takes {name!r}, which is neither a node nor an input of the query"
        if name in inputs and output not in (0, CONTROL):
            yield f"it takes output {output} of {name!r}, which is an input of the query and has only output 0"
        if output < CONTROL:
            yield f"it takes output {output} of {name!r}, which cannot be"
    if node.is_commutative and sum(output != CONTROL for _, output in node.inputs) < 2:
        yield "it is commutative, but has fewer than two inputs"
    if node.constant is not None:
        yield from _constant_flaws(node.constant)


def _constant_flaws(constant: ConstantQuery) -> Iterator[str]:
    if not isfinite(constant.tolerance) or constant.tolerance < 0:
        yield f"its constant has a tolerance of {constant.tolerance}"
    if constant.shape is None:
        return
    if any(dim < 0 for dim in constant.shape):
        yield "the shape of its constant has a negative dimension"
    elif len(constant.values) not in (1, prod(constant.shape)):
        yield f"its constant has {len(constant.values)} values, but its shape takes {prod(constant.shape)}"


def _check_outputs(query: Query, by_name: dict[str, NodeQuery], where: str) -> None:
    if not query.outputs:
        raise UsageError("its query has no outputs", where=where, remedy="name at least one")
    for output in query.outputs:
        _check_output(output, by_name, "the output", where)
    if len(set(query.outputs)) < len(query.outputs):
        raise UsageError("its query names an output twice", where=where, remedy=_REMEDY)


def _check_output(output: Endpoint, by_name: dict[str, NodeQuery], what: str, where: str) -> None:
    if output.node not in by_name:
        raise UsageError(f"{what} {output} is of no node of the query", where=where, remedy=_REMEDY)
    if output.output < 0:
        raise UsageError(f"{what} {output} is no tensor", where=where, remedy=_REMEDY)


def _check_order(query: Query, by_name: dict[str, NodeQuery], where: str) -> None:
    """Every node is needed by an output, and none needs itself."""
    done: set[str] = set()
    on_way: set[str] = set()
    stack = [output.node for output in reversed(query.outputs)]
    while stack:
        name = stack[-1]
        if name in done or name in on_way:  # met again: all that it needs is done
            done.add(name)
            on_way.discard(name)
            stack.pop()
            continue
        on_way.add(name)
        for source, _ in by_name[name].inputs:
            if source in on_way:
                what = "its inputs lead back to itself"
                raise UsageError(what, where=f"{where}, node {source!r}", remedy=_REMEDY)
            if source in by_name and source not in done:
                stack.append(source)
    lost = next((node.name for node in query.nodes if node.name not in done), None)
    if lost is not None:
        remedy = "add what it gives to the outputs, or take it out"
        raise UsageError("no output of the query needs it", where=f"{where}, node {lost!r}", remedy=remedy)


def _check_repeat(repeat: Repeat, query: Query, where: str) -> None:
    if not repeat.carry:
        raise UsageError("it repeats, but carries nothing from unit to unit", where=where, remedy=_REMEDY)
    if repeat.least < 1:
        raise UsageError(f"it repeats at least {repeat.least} times", where=where, remedy="1 is the least")
    for name in (*repeat.carry, *repeat.shared, *repeat.links):
        if name not in query.inputs:
            raise UsageError(
                f"its repetition names {name!r}, which is no input of the query", where=where, remedy=_REMEDY
            )
    both = set(repeat.carry).intersection(repeat.shared)
    if both:
        raise UsageError(f"input {min(both)!r} is both carried and shared", where=where, remedy=_REMEDY)
    _check_rules(repeat, query, where)
    by_name = {node.name: node for node in query.nodes}
    for output in repeat.carry.values():
        _check_output(output, by_name, "the carried output", where)
    if (repeat.before is None) != (not repeat.links):
        what = "`before` and `links` go together: what stands in front gives at least one input"
        raise UsageError(what, where=where, remedy=_REMEDY)
    if repeat.before is None:
        return
    where = f"{where}, before"
    _check_query(repeat.before, where)
    by_name = {node.name: node for node in repeat.before.nodes}
    for output in repeat.links.values():
        _check_output(output, by_name, "the linked output", where)


def _check_rules(repeat: Repeat, query: Query, where: str) -> None:
    """What units hand on is called otherwise in front of the first one; what they share has one name."""
    for name, rule in query.names.items():
        if name in repeat.carry:
            what = f"the input {name!r} has a rule for its names, but it is carried from unit to unit"
            raise UsageError(what, where=where, remedy="write a rule for the node that gives it")
        if name in repeat.shared and rule.counts:
            what = f"{rule.text!r} counts, but all units share the input {name!r}"
            raise UsageError(what, where=where, remedy="write its name without {i}, or do not share it")
