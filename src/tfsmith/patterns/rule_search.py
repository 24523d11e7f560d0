"""Finds rules in a model, and replaces what they find: matching is on the raised graph, replacing on the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tfsmith.errors import TfsmithError, UnsupportedError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function
from tfsmith.ir.model import Model
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.recipe import Expression, Match, Miss, NodeQuery, Query, Unit, Variant
from tfsmith.ops.inference import Inference
from tfsmith.passes.bert_node import served_nodes
from tfsmith.patterns.algebra import Arg, Atom, Axes, Head, Label, Reading, Value, is_close, scaled
from tfsmith.patterns.formula import Attention, Bound, Formula, Found, Heads, Kernel, LayerNorm, Norm
from tfsmith.patterns.raised import Raised
from tfsmith.patterns.replace import Replacement, ReplaceOptions, Skipped, replace_matches
from tfsmith.patterns.rule import Bindings, Form, Operand, Rule, Units
from tfsmith.patterns.rule_formula import Compiled, Links, Plain, RuleSearch, compile_form, roots
from tfsmith.patterns.rule_formula import Miss as FormulaMiss
from tfsmith.records import replace as changed

__all__ = ["RuleMatches", "describe_miss", "find_rule", "nearest_served", "replace_rule"]

_FORMULA = "formula"
_VECTORS = ("gamma", "beta", "bias")


class _RuleMatch(NamedTuple):
    """A match, what the parameters are bound to, and why it cannot be replaced, if it cannot."""

    match: Match
    found: Mapping[str, Any]
    problem: str | None


class RuleMatches(NamedTuple):
    """What a search found, and the nearest miss."""

    found: tuple[_RuleMatch, ...]
    nearest: Miss | None

    @property
    def matches(self) -> tuple[Match, ...]:
        """The matches alone."""
        return tuple(one.match for one in self.found)


def find_rule(model: Model, rule: Rule, *, functions: bool = True) -> RuleMatches:
    """Finds a rule in the graph and by default in every function. Reads no weights.

    Raises:
        UsageError: The rule makes no sense.
    """
    if rule.search is not None:
        done = rule.search(model, ReplaceOptions(functions=functions))
        whole = [_RuleMatch(match, {}, None) for match in done.matches]
        return RuleMatches(
            (*whole, *(_RuleMatch(one.match, {}, one.reason) for one in done.skipped)), done.nearest_miss
        )
    compiled = compile_form(rule)
    graph = model.graph
    bodies: list[tuple[str | None, Body]] = [(None, graph), *(graph.library.items() if functions else ())]
    found: list[_RuleMatch] = []
    misses: list[Miss] = []
    for name, body in bodies:
        inside = body if isinstance(body, Function) else None
        inference = Inference(graph, model.meta.objects, inside=inside, are_alike=True)
        work = _BodySearch(name, body, inference, compiled)
        found += work.find()
        misses += [] if work.miss is None else [work.miss]
    return RuleMatches(tuple(found), nearest_served(model, misses))


def nearest_served(model: Model, misses: Sequence[Miss]) -> Miss | None:
    """The nearest of several misses: of those in what signatures serve, if there are any."""
    if len(misses) < 2:
        return next(iter(misses), None)
    tensors = [info.name for one in model.signatures.values() for info in one.outputs.values() if info.name]
    served = {body for body, _ in served_nodes(model, tensors)}
    return max(misses, key=lambda miss: (miss.body in served, miss.matched))


def replace_rule(model: Model, rule: Rule, options: ReplaceOptions | None = None) -> Replacement:
    """Replaces every occurrence of a rule. Reads no weights, unless the rule's builder does.

    Raises:
        UsageError: The rule makes no sense, or has no builder.
    """
    options = ReplaceOptions() if options is None else options
    searched = find_rule(model, rule, functions=options.functions)
    matches: list[Match] = []
    skipped: list[Skipped] = []
    for one in searched.found:
        if one.problem is not None:
            skipped.append(Skipped(one.match, one.problem))
            continue
        try:
            added = rule.build(one.found)
        except UnsupportedError as error:
            skipped.append(Skipped(one.match, error.what))
            continue
        matches.append(changed(one.match, variant=added.put_into(one.match.variant)))
    done = replace_matches(model, rule, matches, options)
    skipped += done.skipped
    if done.matches:
        return changed(done, skipped=tuple(skipped))
    if skipped:
        reason = f"a match was found, but not replaced: {skipped[0].reason}"
        if len(skipped) > 1:
            reason = f"{len(skipped)} matches were found, and none could be replaced: {skipped[0].reason}"
        return changed(done, skipped=tuple(skipped), reason=reason)
    reason = f"recipe {rule.name!r} matches nothing in this model"
    return changed(done, reason=reason, nearest_miss=searched.nearest)


class _NoMatchError(Exception):
    """Why what the formula fits is no match after all."""


class _Place(NamedTuple):
    """A tensor for a parameter, with its axes in the labels of the match; for which part of the formula it stands."""

    tensor: Endpoint
    axes: Axes
    world: str
    role: str


class _BodySearch:
    """Searches one graph or function."""

    def __init__(self, name: str | None, body: Body, inference: Inference, compiled: Compiled) -> None:
        self._name = name
        self._body = body
        self._inference = inference
        self._compiled = compiled
        self._raised = Raised(body, inference)
        self._algebra = self._raised.algebra
        self._search = RuleSearch(self._raised)
        self._order = {node.name: at for at, node in enumerate(body)}
        self._refused: tuple[str, str] | None = None
        self._matched = 0

    def find(self) -> list[_RuleMatch]:
        """The matches, which do not overlap: where several could be, the largest of the last output."""
        found: list[_RuleMatch] = []
        taken: set[str] = set()
        for tensor, reading in reversed(list(self._candidates())):
            match = self._match_at(tensor, reading)
            if match is not None and match.problem is not None:
                match = self._elsewhere(tensor, reading) or match
            if match is not None and taken.isdisjoint(match.match.nodes):
                taken.update(match.match.nodes)
                found.append(match)
        self._matched = len(found)
        return found[::-1]

    def _candidates(self) -> Iterator[tuple[Endpoint, Reading]]:
        """The first tensor of each value that may be what the formula says."""
        formula = self._compiled.formula
        if isinstance(formula, Plain):
            for node in self._body:
                tensor = Endpoint(node.name, 0)
                reading = self._raised.reading(tensor) if node.op == formula.op else None
                if reading is not None:
                    yield tensor, reading
            return
        wanted = roots(formula)
        seen: set[int] = set()
        for tensor, reading in self._raised:
            number = self._search.number(reading.value)
            if number in seen:
                continue
            seen.add(number)
            if wanted is None or any(
                self._algebra.head(atom)[0] in wanted for product, _ in reading.value for atom, _ in product
            ):
                yield tensor, reading

    def _elsewhere(self, tensor: Endpoint, reading: Reading) -> _RuleMatch | None:
        """A match that can be replaced, at another tensor of the same value: where that lies in another layout."""
        for other in self._search.tensors(self._search.number(reading.value)):
            own = self._raised.reading(other) if other != tensor and other.node in self._order else None
            match = None if own is None else self._match_at(other, own)
            if match is not None and match.problem is None:
                return match
        return None

    def _match_at(self, output: Endpoint, reading: Reading) -> _RuleMatch | None:
        for found in self._search.match(self._compiled.formula, reading.value, {"@": ""}):
            try:
                return _Resolution(self._search, self._raised, self._inference, self._compiled, output, found).match(
                    self._name
                )
            except _NoMatchError as error:
                self._refused = self._refused or (str(error), output.node)
        return None

    @property
    def miss(self) -> Miss | None:
        """Where the search came nearest, in the terms of the raised graph."""
        if self._matched:
            return None
        if self._refused is not None:
            why, node = self._refused
            reason = f"{node!r} fits, but {why}"
            return Miss(self._name, _FORMULA, 1 + len(self._compiled.raised), self._compiled.rule.name, node, reason)
        nearest = self._search.nearest
        if nearest is None:
            return None
        place, reason = describe_miss(self._raised, self._search, nearest)
        return Miss(self._name, _FORMULA, nearest.depth, nearest.wanted, place, reason)


def describe_miss(raised: Raised, search: RuleSearch, nearest: FormulaMiss) -> tuple[str, str]:
    """The node where a search ended, "" if there is none, and what is wrong with what it gives."""
    found = next(iter(search.tensors(search.number(nearest.value))), None)
    node = "" if found is None else found.node
    where = repr(node) if node else "a value inside of it"
    said = f"{nearest.wanted} is wanted, and {where} is {_Words(raised).value(nearest.value)}"
    return node, _hint(raised, nearest.formula, nearest.value) or said


def _hint(raised: Raised, formula: Formula, value: Value) -> str | None:
    """What is wrong with something that is nearly what is wanted."""
    if isinstance(formula, Attention):
        return _after_softmax(raised, value)
    kinds = {raised.algebra.head(atom)[0] for product, _ in value for atom, _ in product}
    if isinstance(formula, LayerNorm) and _is_nearly_norm(raised, value):
        return "layer norm: no mean is taken off, or the epsilon stands beside the root"
    if isinstance(formula, LayerNorm) and "norm" in kinds:
        return "layer norm: its weights are not along the axes that it normalizes, or not stored as they are used"
    return None


class _Resolution:
    """The tensors of the graph that a formula's parameters are, and the nodes between them and the output."""

    def __init__(
        self,
        search: RuleSearch,
        raised: Raised,
        inference: Inference,
        compiled: Compiled,
        output: Endpoint,
        found: Found,
    ) -> None:
        self._search = search
        self._raised = raised
        self._algebra = raised.algebra
        self._inference = inference
        self._body = raised.body
        self._compiled = compiled
        self._output = output
        self._found = found
        self._values: dict[str, Any] = {}
        self._wanted: dict[str, tuple[int, Axes, str, str]] = {}  # class, labels, where it was found, role
        self._kernels: list[tuple[str, Kernel]] = []
        self._last: list[Arg] = []
        self._masks: dict[str, Heads] = {}
        self._inner_heads: set[Label] = set()  # of attentions inside of the formula
        self._is_attention = isinstance(compiled.formula, Attention)
        self._problem: str | None = None

    def match(self, body: str | None) -> _RuleMatch:
        """The match.

        Raises:
            _NoMatchError: A weight is missing or too much, a setting differs, or a guard says no.
        """
        rule = self._compiled.rule
        self._collect(self._compiled, self._found, "")
        for name in rule.parameters:
            self._variable(name, self._found, name)
        stops = {number for number, _, _, _ in self._wanted.values()}
        nodes, frontier = self._between(stops)
        if self._output.node not in nodes:
            raise _NoMatchError("it would take what it gives")
        operands = self._operands(frontier)
        found = {name: self._bound(name, operands) for name in rule.parameters}
        self._check_guards(found)
        ordered = [node.name for node in self._body if node.name in nodes]
        inputs = {name: operand.endpoint for name, operand in operands.items()}
        unit = Unit({name: name for name in ordered}, inputs)
        variant = Variant(_FORMULA, self._query(ordered, inputs), (), {}, require=self._requirements())
        return _RuleMatch(Match(body, variant, (unit,)), found, self._problem)

    def _requirements(self) -> tuple[Expression, ...]:
        return tuple(Expression(guard) for guard in self._compiled.rule.where if isinstance(guard, str))

    def _query(self, names: Sequence[str], inputs: Mapping[str, Endpoint]) -> Query:
        by_class = {self._search.number_of(tensor): key for key, tensor in inputs.items()}
        inside = set(names)
        nodes: list[NodeQuery] = []
        for name in names:
            node = self._body[name]
            ends = [self._body.resolve(text) for text in node.data_inputs]
            taken = [
                end if end.node in inside else Endpoint(by_class[number], 0)
                for end in ends
                if end.node in inside or (number := self._search.number_of(end)) in by_class
            ]
            nodes.append(NodeQuery(name, (node.op,), tuple(taken)))
        return Query(tuple(nodes), tuple(inputs), (self._output,))

    # what the formula found

    def _collect(self, compiled: Compiled, found: Found, prefix: str) -> None:
        """The weights and settings of raised forms."""
        for hidden, weighted in compiled.raised.items():
            item = found.get(hidden)
            if item is None:  # in a choice that was not taken
                continue
            facts: dict[str, Any] = {}
            if isinstance(item, Norm):
                facts["epsilon"] = item.epsilon
                self._weights({"gamma": item.gamma, "beta": item.beta}, weighted.weights, prefix)
                self._note_norm(item)
            elif isinstance(item, Kernel):
                self._weights({"kernel": item.kernel, "bias": item.bias}, weighted.weights, prefix)
                if "kernel" in weighted.weights:
                    self._kernels.append((prefix + weighted.weights["kernel"][0], item))
            elif isinstance(item, Heads):
                masking = self._attention(item, weighted.weights, prefix, any_mask="masking" in weighted.settings)
                layout = " ".join(one or "one" for one in self._layout(self._outer("")))
                facts |= {"scale": item.scale, "fill": item.mask.fill, "masking": masking, "layout": layout}
            elif isinstance(item, str):
                facts["kind"] = item
            elif isinstance(item, Bound):
                self._last += item.axes
            for key, given in weighted.settings.items():
                self._setting(key, facts[key], given, prefix)

    def _setting(self, key: str, value: Any, given: Any, prefix: str) -> None:
        if isinstance(given, Form):
            name = prefix + str(given.operands[0])
            if self._values.setdefault(name, value) != value:
                raise _NoMatchError(f"{name} is {self._values[name]} in one place, and {value} in another")
        elif not (is_close(value, given) if isinstance(given, (int, float)) else value == given):
            raise _NoMatchError(f"its {key} is {value}, and {given} is wanted")

    def _weights(self, atoms: Mapping[str, Atom | None], names: Mapping[str, tuple[str, bool]], prefix: str) -> None:
        for role, atom in atoms.items():
            name, is_optional = names.get(role, ("", True))
            if atom is None:
                if not is_optional:
                    raise _NoMatchError(f"it has no {role}, which is wanted")
                if name:
                    self._values[prefix + name] = None
            elif not name:
                raise _NoMatchError(f"it has a {role}, which is not wanted")
            else:
                number, axes = self._algebra.intern(((((atom, 1.0),), 1.0),))
                self._want(prefix + name, number, axes, "", role)

    def _want(self, name: str, number: int, axes: Axes, world: str, role: str) -> None:
        known = self._wanted.get(name)
        if known is not None and known[0] != number:
            raise _NoMatchError(f"{name} is one tensor in one place, and another one in another")
        self._wanted.setdefault(name, (number, axes, world, role))

    def _note_norm(self, norm: Norm) -> None:
        for weight in (norm.gamma, norm.beta):
            if weight is not None:
                self._last.append(tuple(label for arg in weight[1] for label in arg))

    def _attention(self, heads: Heads, names: Mapping[str, tuple[str, bool]], prefix: str, *, any_mask: bool) -> str:
        """What an attention takes; returns how its mask hides."""
        masking = f"{heads.mask.kind} and cleared" if heads.mask.is_cleared else heads.mask.kind
        name, is_optional = names.get("mask", ("", True))
        value = heads.mask.value
        if heads.mask.kind != "added" and not any_mask:
            raise _NoMatchError("its mask replaces scores, and is not added to them")
        if not value:
            if not is_optional:
                raise _NoMatchError("it has no mask, which is wanted")
            if name:
                self._values[prefix + name] = None
        elif not name:
            raise _NoMatchError("it has a mask, which is not wanted")
        else:
            number, axes = self._algebra.intern(value)
            wanted = self._as_added(number, axes) if heads.mask.kind == "added" else (number, axes)
            if any_mask and masking == "added" and not self._search.tensors(wanted[0]):
                wanted, masking = self._as_added(*self._algebra.intern(scaled(value, -1))), "subtracted"
            self._want(prefix + name, *wanted, "", "mask")
            self._masks[prefix + name] = heads
        key = names.get("key", ("", False))[0]
        self._others = (prefix + key, heads.others)
        self._heads = heads
        if not self._is_attention:
            self._inner_heads |= heads.heads
        self._taken = {prefix + names[role][0]: role for role in ("query", "key", "value", "mask") if role in names}
        return masking

    _others: tuple[str, frozenset[Label]] = ("", frozenset())
    _heads: Heads | None = None
    _taken: Mapping[str, str] = MappingProxyType({})

    def _layout(self, axes: Axes) -> tuple[str, ...]:
        """What each axis of something is that an attention takes; "" for one of size one, and "mixed" for several."""
        heads = self._heads
        assert heads is not None
        return tuple(
            ""
            if not arg
            else "words"
            if heads.words.issuperset(arg)
            else "others"
            if heads.others.issuperset(arg)
            else "batch"
            if (heads.batch | heads.heads).issuperset(arg)
            else "mixed"
            if (heads.batch | heads.heads | heads.words | heads.others).intersection(arg)
            else "size"
            for arg in axes
        )

    def _scores(self, outer: Axes) -> Axes:
        """The axes that the scores of an attention have behind its products: what is in the batch, words and others."""
        heads = self._heads
        assert heads is not None
        words = [arg for arg in outer if arg and heads.words.issuperset(arg)]
        return (*self._in_batch(outer), *words, tuple(sorted(heads.others)))

    def _in_batch(self, axes: Axes) -> list[Arg]:
        return [arg for arg, kind in zip(axes, self._layout(axes), strict=True) if kind in ("batch", "")]

    def _check_attention(self, places: Mapping[str, _Place]) -> None:
        """Checks that what an attention takes and gives has an axis for each thing, so that transposes do the rest."""
        wanted = {"query": ["size", "words"], "key": ["others", "size"], "value": ["others", "size"]}
        outer = self._layout(self._outer(""))
        if sorted(kind for kind in outer if kind not in ("batch", "")) != ["size", "words"]:
            self._problem = self._problem or "what it gives has words, heads and values joined in one axis"
        for name, role in self._taken.items():
            if role == "mask" or name not in places:
                continue
            layout = self._layout(places[name].axes)
            batch = [one for one in layout if one in ("batch", "")]
            rest = sorted(one for one in layout if one not in ("batch", ""))
            if rest != wanted[role] or len(batch) != len(outer) - 2:
                self._problem = self._problem or f"{name} ({places[name].tensor}) does not lie as the output does"

    def _as_added(self, number: int, axes: Axes) -> tuple[int, Axes]:
        """The class of a mask as the graph has it: a softmax does not see what is added everywhere."""
        if self._search.tensors(number):
            return number, axes
        return next(iter(self._search.with_constant(number)), number), axes

    def _variable(self, name: str, found: Found, key: str) -> None:
        """What a parameter is: a tensor, blocks of a chain, or nothing, where its part of the formula is not there."""
        item: Any = found.get(name)
        if isinstance(item, Bound):
            self._want(key, item.number, item.axes, str(found.get(f"@{name}", "")), "")
        elif isinstance(item, Links):
            self._links(key, item)
        elif key not in self._values and key not in self._wanted:
            self._values[key] = None

    def _links(self, key: str, links: Links) -> None:
        chain = next(each for each in _chains(self._compiled.formula) if each.name == key)
        block: Compiled = chain.block
        for at, (found, _) in enumerate(links.units):
            prefix = f"{key}[{at}]."
            self._collect(block, found, prefix)
            for name in block.rule.parameters[1:]:
                self._variable(name, found, prefix + name)
            for inner, outer in chain.shared.items():
                if prefix + inner in self._wanted:
                    self._want(outer, *self._wanted[prefix + inner])
                    if prefix + inner in self._masks:
                        self._masks.setdefault(outer, self._masks[prefix + inner])
        self._values[key] = (len(links.units), block.rule.parameters[1:])

    def _bound(self, name: str, operands: Mapping[str, Operand]) -> Any:
        if name in operands:
            return operands[name]
        value = self._values.get(name)
        if isinstance(value, tuple):
            count, parameters = value
            units = ({one: self._bound(f"{name}[{at}].{one}", operands) for one in parameters} for at in range(count))
            return Units(map(Bindings, units))
        return value

    def _check_guards(self, found: Mapping[str, Any]) -> None:
        for rule, names in self._compiled.guards:
            for guard in rule.where:
                if isinstance(guard, str):
                    continue
                code = guard.__code__
                wanted = code.co_varnames[: code.co_argcount]
                if any(names.get(one) not in found for one in wanted):
                    continue
                try:
                    holds = guard(*(found[names[one]] for one in wanted))
                except TfsmithError as error:
                    raise _NoMatchError(f"a guard of rule {rule.name!r} cannot tell: {error.what}") from error
                if not holds:
                    raise _NoMatchError(f"a guard of rule {rule.name!r} says no")

    # the nodes

    def _between(self, stops: set[int]) -> tuple[set[str], list[Endpoint]]:
        """The nodes between what was bound and the output, and what they take of it."""
        frontier: dict[Endpoint, None] = {}
        depends: dict[str, bool] = {}
        exact = {self._endpoint(world[1:]) for _, _, world, _ in self._wanted.values() if world.startswith("=")}
        stack: list[tuple[str, bool]] = [(self._output.node, False)]
        while stack:
            name, is_done = stack.pop()
            node = self._body.by_name.get(name)
            if node is None or (not is_done and name in depends):
                continue
            ends = list(self._value_inputs(node))
            if is_done:
                depends[name] = any(end in frontier or depends.get(end.node, False) for end in ends)
                continue
            depends[name] = False
            stack.append((name, True))
            for end in ends:
                if end in exact or self._search.number_of(end) in stops:
                    frontier[end] = None
                else:
                    stack.append((end.node, False))
        return {name for name, does in depends.items() if does}, list(frontier)

    def _value_inputs(self, node: Node) -> Iterator[Endpoint]:
        """The inputs of a node that its values are made of: not the integers that say a shape or an axis."""
        ends = [self._body.resolve(text) for text in node.data_inputs]
        kind = self._inference.dtype(self._body, Endpoint(node.name, 0))
        is_real = kind is not None and kind.name.startswith(("float", "bfloat"))
        for end in ends:
            own = self._inference.dtype(self._body, end)
            if len(ends) < 2 or not is_real or own is None or not own.name.startswith(("int", "uint")):
                yield end

    # the tensors

    def _operands(self, frontier: Sequence[Endpoint]) -> dict[str, Operand]:
        places: dict[str, _Place] = {}
        for name, (number, axes, world, role) in self._wanted.items():
            place = self._place(name, (number, axes, world, role), frontier)
            places[name] = place
        self._check_layout(places)
        if self._is_attention and self._heads is not None and "" not in self._taken:
            self._check_attention(places)
        found: dict[str, Operand] = {}
        for name, place in places.items():
            shape, kind = (
                self._inference.shape(self._body, place.tensor),
                self._inference.dtype(self._body, place.tensor),
            )
            is_turned = self._is_turned(name, place)
            constant = self._inference.constant(self._body, place.tensor)
            layout = self._layout(place.axes) if name in self._taken else ()
            found[name] = Operand(name, place.tensor, shape, kind, constant, is_turned, layout)
        return found

    @staticmethod
    def _endpoint(text: str) -> Endpoint:
        node, _, output = text.rpartition(":")
        return Endpoint(node, int(output))

    def _place(self, name: str, wanted: tuple[int, Axes, str, str], frontier: Sequence[Endpoint]) -> _Place:
        number, axes, world, role = wanted
        if world.startswith("="):
            return _Place(self._endpoint(world[1:]), (), world, role)
        tensors = self._search.tensors(number)
        nearest = [tensor for tensor in frontier if self._search.number_of(tensor) == number]
        candidates = [*nearest, *(tensor for tensor in reversed(tensors) if tensor not in nearest)]
        if role == "mask":
            candidates = list(tensors)  # the first: later ones may be made wide by what the attention computes
        places: list[_Place] = []
        for tensor in candidates:
            reading = self._raised.reading(tensor)
            if reading is not None:
                here = self._algebra.intern(reading.value)[1]
                own = self._algebra.relabelled(reading.axes, here, axes) if len(here) == len(axes) else ()
                known = {label for arg in axes for label in arg}
                outer = self._outer(world)
                if role == "mask" and self._is_attention:
                    outer = self._scores(outer)
                places.append(_Place(tensor, self._spread(own, known, outer), world, role))
        if not places:
            raise _NoMatchError(f"no tensor of the graph is {name}")
        if role == "mask":
            places.sort(key=lambda place: len(place.axes) != len(self._outer(world)))
        if role in _VECTORS:
            places.sort(key=lambda place: len(place.axes))  # as it is stored, before it was given axes of size one
        taken = self._taken.get(name, "")
        if role == "mask" and not self._is_attention and name in self._masks:
            of_mask = frozenset(label for arg in axes for label in arg)
            heads = self._masks[name]
            fitting = next((place for place in places if self._is_plain_mask(place.axes, heads, of_mask)), None)
        else:
            fitting = next((place for place in places if self._fits(place, taken)), None)
        if fitting is None:
            self._problem = f"{name} ({places[0].tensor}) does not lie as the output does"
        return fitting or places[0]

    def _spread(self, axes: Axes, known: set[Label], outer: Axes) -> Axes:
        """Axes along which a value only repeats, as those of the output, where these are as long."""
        if len(axes) != len(outer):
            return axes
        return tuple(self._spread_axis(arg, known, out) for arg, out in zip(axes, outer, strict=True))

    def _spread_axis(self, arg: Arg, known: set[Label], out: Arg) -> Arg:
        if arg and known.isdisjoint(arg) and self._algebra.extent(arg) == self._algebra.extent(out):
            return out
        if len(arg) != len(out):
            return arg
        size = self._algebra.size
        pairs = zip(arg, out, strict=True)
        return tuple(to if one not in known and size(one) == size(to) else one for one, to in pairs)

    def _outer(self, world: str) -> Axes:
        reading = self._raised.reading(self._endpoint(world) if world else self._output)
        return () if reading is None else reading.axes

    @staticmethod
    def _is_plain_mask(axes: Axes, heads: Heads, known: frozenset[Label]) -> bool:
        """Whether the mask of an attention inside of a formula has sentences first and words last.

        Between them it may have heads and queries, or repeat.
        """
        if len(axes) < 2 or not heads.batch.issuperset(axes[0]) or not heads.others.issuperset(axes[-1]):
            return False
        between = heads.heads | heads.words
        return bool(axes[-1]) and all(between.issuperset(arg) or known.isdisjoint(arg) for arg in axes[1:-1])

    def _fits(self, place: _Place, taken: str = "") -> bool:
        """Whether a tensor lies as the output does: each axis is that of the output, of size one, or summed over.

        What an attention takes may have its words elsewhere: a transpose does the rest.
        """
        if place.role == "kernel":
            return True
        outer = self._outer(place.world)
        if taken in ("query", "key", "value"):
            return len(place.axes) == len(outer) and self._in_batch(place.axes) == self._in_batch(outer)
        if place.role in _VECTORS:
            if len(place.axes) == 2 and self._is_of_heads(_joined(place.axes)):
                return True
            return len(place.axes) == 1 or (bool(place.axes) and not any(place.axes[:-1]))
        if place.role == "mask" and self._is_attention:
            outer = self._scores(outer)
            return len(place.axes) <= len(outer) and all(
                not arg or arg == out for arg, out in zip(place.axes[::-1], outer[::-1], strict=False)
            )
        if len(place.axes) > len(outer):
            return False
        labels = {label for arg in outer for label in arg}
        for arg, out in zip(place.axes, outer[len(outer) - len(place.axes) :], strict=True):
            is_new = labels.isdisjoint(arg)
            if arg and arg != out and (not is_new or len(place.axes) != len(outer)):
                return False
        inner = [last for last in self._last if labels.isdisjoint(last) and _meets(last, place.axes)]
        return all(place.axes[-1] == last for last in inner)

    def _check_layout(self, places: Mapping[str, _Place]) -> None:
        """Checks that all axes go together: those that share a label are the same, and each is there that is given."""
        outer = self._outer("")
        kernels = dict(self._kernels)
        groups = {arg for arg in outer if arg}
        covered: set[Label] = set()
        for name, place in places.items():
            covered |= {label for arg in place.axes for label in arg}
            if name in kernels:
                found = self._kernel_groups(kernels[name], place.axes)
                if found is None:
                    self._problem = self._problem or f"{name} ({place.tensor}) mixes rows and columns"
                    return
                groups |= {one for one in found if not self._is_of_heads(one)}
                if _meets(found[1], outer) and outer[-1] != found[1]:
                    self._problem = self._problem or "the product is not along the last axis"
            elif not place.world:
                whole = _joined(place.axes) if place.role in _VECTORS else ()
                of_heads = bool(whole) and self._is_of_heads(whole)
                groups |= {arg for arg in place.axes if arg and not of_heads and place.role != "mask"}
        seen: dict[Label, Arg] = {}
        for group in groups:
            for label in group:
                if seen.setdefault(label, group) != group:
                    self._problem = self._problem or "its axes are joined in one place, and apart in another"
        for last in self._last:
            if last and _meets(last, outer) and outer[-1] != last:
                self._problem = self._problem or "it is not over the last axis"
        is_whole = {label for arg in outer for label in arg} <= covered
        if not is_whole and not any(place.world for place in places.values()):
            self._problem = self._problem or "what it takes is smaller than what it gives"

    def _is_of_heads(self, group: Arg) -> bool:
        """Whether rows or columns are those of an attention's heads, one behind the other."""
        count = sum(label in self._inner_heads for label in group)
        return bool(count) and all(label in self._inner_heads for label in group[:count])

    @staticmethod
    def _kernel_groups(kernel: Kernel, axes: Axes) -> tuple[Arg, Arg] | None:
        """The rows and the columns of a weight; None if they are mixed."""
        is_row = [kernel.summed.issuperset(arg) for arg in axes if arg]
        args = [arg for arg in axes if arg]
        if is_row not in (sorted(is_row), sorted(is_row, reverse=True)):
            return None
        rows = tuple(label for arg, row in zip(args, is_row, strict=True) if row for label in arg)
        columns = tuple(label for arg, row in zip(args, is_row, strict=True) if not row for label in arg)
        return rows, columns

    def _is_turned(self, name: str, place: _Place) -> bool:
        for kernel, found in self._kernels:
            if kernel == name and place.axes:
                return not found.summed.issuperset(place.axes[0])
        key, others = self._others
        return key == name and bool(place.axes) and bool(others) and others == frozenset(place.axes[-1])


def _joined(axes: Axes) -> Arg:
    return tuple(label for arg in axes for label in arg)


def _meets(group: Arg, axes: Axes) -> bool:
    return any(label in arg for arg in axes for label in group)


def _chains(formula: Any) -> Iterator[Any]:
    """The chains in a formula."""
    from tfsmith.patterns.rule_formula import Chain

    todo = [formula]
    while todo:
        one = todo.pop()
        if isinstance(one, Chain):
            yield one
        for part in vars(one).values() if hasattr(one, "__dict__") else ():
            if isinstance(part, (list, tuple)):
                todo += [each[0] if isinstance(each, tuple) else each for each in part if not isinstance(each, str)]
            elif hasattr(part, "__dict__"):
                todo.append(part)


class _Words:
    """Values in words."""

    def __init__(self, raised: Raised) -> None:
        self._raised = raised
        self._algebra = raised.algebra

    def value(self, value: Value) -> str:
        """A value in words, its first terms."""
        if not value:
            return "0"
        said = list(dict.fromkeys(self._product(product) for product, _ in value))
        shown = ", ".join(said[:3]) + (" and more" if len(said) > 3 else "")
        return shown if len(value) == 1 else f"a sum of {shown}"

    def _product(self, product: Any) -> str:
        if not product:
            return "a number"
        return " times ".join(dict.fromkeys(self._head(self._algebra.head(atom)) for atom, _ in product[:3]))

    def _head(self, head: Head) -> str:
        kind = str(head[0])
        if kind == "tensor":
            name = str(head[1]).removesuffix(":0")
            node = self._raised.body.by_name.get(name)
            return f"{name} ({node.op})" if node is not None else name
        named = {"norm": "a layer norm", "contract": "a product", "sum": "a sum", "gelu": f"a GELU by {head[-1]}"}
        return named.get(kind, f"a {kind}")


def _is_nearly_norm(raised: Raised, value: Value) -> bool:
    """Whether a value is divided by the root of a mean of squares, or by something with the root of a variance."""
    algebra = raised.algebra
    for product, _ in value:
        for atom, power in product:
            inside = algebra.inside(atom) if power in (-0.5, -1) else ()
            kinds = {algebra.head(one)[0] for part, _ in inside for one, _ in part}
            if kinds & {"mean", "variance"}:
                return True
    return False


def _after_softmax(raised: Raised, value: Value) -> str | None:
    """What is wrong with an attention in which something happens between the softmax and the product with values."""
    algebra = raised.algebra
    for product, _ in value:
        for atom, _ in product:
            head = algebra.head(atom)
            if head[0] != "contract" or not isinstance(head[1], int):
                continue
            axes = tuple((at,) for at in range(len(algebra.class_sizes(head[1]))))
            for inner, _ in algebra.value_of(head[1], axes):
                for factor, _ in inner:
                    terms = algebra.inside(factor)
                    kinds = [algebra.head(one)[0] for part, _ in terms for one, _ in part]
                    if len(terms) > 1 and "softmax" in kinds:
                        return "attention: the mask is added after the softmax"
    return None
