"""Formulas of what a graph computes, in the terms of the raised graph: of a tensor, or of a block that is repeated."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfsmith.errors import NotFoundInModelError, UnsupportedError, UsageError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function
from tfsmith.ir.model import Model
from tfsmith.ir.node import Endpoint
from tfsmith.ir.recipe import Expression, FormulaText, Recipe, TargetNode
from tfsmith.ops.inference import Inference
from tfsmith.patterns.algebra import Atom, Product, Reading, Value, class_of
from tfsmith.patterns.formula import Attention, Bound, Dense, Found, Heads, Kernel, LayerNorm, Norm, Var
from tfsmith.patterns.formula_text import FileRule, formula_lines
from tfsmith.patterns.raised import Raised
from tfsmith.patterns.rule import FUNCTIONS, Form, op
from tfsmith.patterns.rule_formula import RuleSearch
from tfsmith.patterns.rule_search import find_rule
from tfsmith.records import record

__all__ = ["RaisedBlock", "RaisedInput", "draft_raised", "extract_raised"]

_MOST_PARTS = 400
"""A formula with more parts is none that anybody reads."""
_NEAR = 120
"""So many values are between the outputs of two blocks, at most."""
_LAST = 80
"""So many of the last values are tried as the output of the last block."""
_KINDS = ("norm", "gelu", "relu", "contract", "tanh", "softmax")


@record
class RaisedInput:
    """What enters a formula: its parameter, its kind ("input" or "weight"), and the tensor that it is in the model."""

    name: str
    kind: str
    tensor: Endpoint


@record
class RaisedBlock:
    """A formula that was found.

    Attributes:
        recipe: It, as data.
        body: The function that it is in; None for the graph itself.
        output: The tensor that it is.
        units: How many blocks there are in a row; 1 if nothing is repeated.
        inputs: What enters it; of blocks, the last of them.
    """

    recipe: Recipe
    body: str | None
    output: Endpoint
    units: int
    inputs: tuple[RaisedInput, ...]


def extract_raised(
    model: Model, body: Body, seed: str, barriers: Sequence[str] = (), *, name: str = "extracted", op_name: str = ""
) -> RaisedBlock:
    """The formula of what a node gives, back to the barriers. Reads no weights.

    Args:
        model: The model.
        body: Its graph, or a function of it.
        seed: The node.
        barriers: The nodes whose outputs are parameters; other parameters are weights, and what no formula can say.
        name: What the recipe is called.
        op_name: The op of a node that takes the place of a match; nothing if the recipe only finds.

    Raises:
        UsageError: The seed has nothing that a formula can say.
    """
    for one in (seed, *barriers):
        if one not in body and one not in body.args:
            raise NotFoundInModelError(f"{one!r} is not in {body.title}", remedy="{show(model, nodes=True)} lists them")
    raised = _raise(model, body)
    work = _Formula(raised, RuleSearch(raised), {})
    for number, barrier in enumerate(barriers, 1):
        work.stop(Endpoint(barrier, 0), "x" if len(barriers) == 1 else f"x_{number}")
    output = Endpoint(seed, 0)
    form = work.of(output)
    if form.kind == "var":
        what = f"{seed!r} gives nothing that a formula can say"
        raise UsageError(what, where=body.title, remedy="extract its nodes, or choose a seed behind a layer norm")
    text = _text(form, [one.name for one in work.inputs], op_name)
    recipe = Recipe(name, f"What {seed} computes", (), formula_text=text)
    _prove(model, recipe, seed)
    function = body.name if isinstance(body, Function) else None
    return RaisedBlock(recipe, function, output, 1, tuple(work.inputs))


def draft_raised(
    model: Model, *, seeds: Sequence[str] = (), name: str = "draft", op_name: str = "Fused"
) -> RaisedBlock:
    """The formula of the block that a model repeats, however each is spelled. Reads no weights.

    Args:
        model: The model.
        seeds: The output of the last block; found by itself if there is none.
        name: What the recipe is called.
        op_name: The op of the node that takes the place of the chain.

    Raises:
        NotFoundInModelError: Nothing repeats, or there is no such seed.
    """
    bodies: list[tuple[str | None, Body]] = [(None, model.graph), *model.graph.library.items()]
    for function, body in bodies:
        if seeds and seeds[0] not in body:
            continue
        found = _Chain(_raise(model, body)).longest(seeds[0] if seeds else None)
        if found is None:
            continue
        output, units, form, work = found
        shared = [one.name for one in work.inputs if one.kind == "input" and one.name != "x"]
        weights = [one.name for one in work.inputs if one.kind == "weight"]
        same = "".join(f", {one}={one}" for one in shared)
        target = TargetNode(
            "fused",
            op_name,
            ("x", *shared, "each(units)"),
            {"NumWeights": Expression("count(units)")},
            rename="{scope}/fused",
            output_args=("output",),
        )
        text = FormulaText(
            (f"Repeat(block, x, units, least=2{same})",),
            {"block": formula_lines(form)},
            (target,),
            Endpoint("fused", 0),
            (),
            ("x", *shared, "units"),
            {"block": ("x", *shared, *weights)},
        )
        recipe = Recipe(name, f"{units} blocks in a row, by what they compute", (), formula_text=text)
        _prove(model, recipe, output.node)
        return RaisedBlock(recipe, function, output, units, tuple(work.inputs))
    if seeds and not any(seeds[0] in body for _, body in bodies):
        raise NotFoundInModelError(f"there is no node {seeds[0]!r}", remedy="{show(model, nodes=True)} lists them")
    raise NotFoundInModelError("no block repeats that a formula can say", remedy="draft it by its nodes")


def _raise(model: Model, body: Body) -> Raised:
    inside = body if isinstance(body, Function) else None
    return Raised(body, Inference(model.graph, model.meta.objects, inside=inside, are_alike=True))


def _text(form: Form, parameters: Sequence[str], op_name: str) -> FormulaText:
    lines = formula_lines(form)
    if not op_name:
        return FormulaText(lines, parameters=tuple(parameters))
    target = TargetNode("fused", op_name, tuple(parameters), rename="{scope}/fused", output_args=("output",))
    return FormulaText(lines, {}, (target,), Endpoint("fused", 0), (), tuple(parameters))


def _prove(model: Model, recipe: Recipe, seed: str) -> None:
    """Checks that a recipe finds what it was made of.

    Raises:
        UnsupportedError: It does not.
    """
    assert recipe.formula_text is not None
    rule = FileRule(recipe.name, recipe.description, recipe.formula_text)
    found = find_rule(model, rule)
    if not any(seed in match.nodes for match in found.matches):
        said = "" if found.nearest is None else f": {found.nearest.reason}"
        raise UnsupportedError(f"the formula of {seed!r} does not find it again{said}", remedy="extract its nodes")


class _TooLargeError(Exception):
    """The formula has too many parts."""


class _Formula:
    """Writes values as forms."""

    def __init__(self, raised: Raised, search: RuleSearch, stops: Mapping[int, tuple[str, Endpoint]]) -> None:
        self._raised = raised
        self._algebra = raised.algebra
        self._search = search
        self._stops: dict[int, tuple[str, Endpoint]] = dict(stops)
        self._made: dict[int, Form] = {}
        self._layer_norms: dict[tuple[object, ...], Form] = {}
        self._vars: dict[str, Form] = {}
        self.inputs: list[RaisedInput] = []
        self._parts = 0

    def stop(self, tensor: Endpoint, name: str) -> None:
        """Lets a tensor be a parameter."""
        reading = self._raised.reading(tensor)
        if reading is None:
            raise UsageError(f"nothing is known of {str(tensor)!r}", remedy="choose another barrier")
        self._stops[self._search.number(reading.value)] = (name, tensor)

    def of(self, tensor: Endpoint) -> Form:
        """The form of what a tensor is.

        Raises:
            UsageError: Nothing is known of it, or it is too large.
        """
        reading = self._raised.reading(tensor)
        if reading is None:
            raise UsageError(f"nothing is known of {str(tensor)!r}", remedy="choose another seed")
        try:
            return self.form(reading.value)
        except _TooLargeError:
            what = f"the formula of {tensor.node!r} has more than {_MOST_PARTS} parts"
            raise UsageError(what, remedy="name barriers that are nearer") from None

    def form(self, value: Value) -> Form:
        """The form of a value."""
        number = self._search.number(value)
        if number in self._stops:
            name, tensor = self._stops[number]
            return self._variable(name, "input", tensor)
        if number not in self._made:
            self._parts += 1
            if self._parts > _MOST_PARTS:
                raise _TooLargeError
            self._made[number] = self._composed(value)
        return self._made[number]

    def _variable(self, name: str, kind: str, tensor: Endpoint) -> Form:
        if name not in self._vars:
            self._vars[name] = Form("var", (name,))
            self.inputs.append(RaisedInput(name, kind, tensor))
        return self._vars[name]

    def _new(self, stem: str, kind: str, tensor: Endpoint) -> Form:
        """A parameter for a tensor, the same wherever that is used."""
        for known in self.inputs:
            if known.tensor == tensor:
                return self._vars[known.name]
        name, number = stem, 1
        while name in self._vars or any(name == one for one, _ in self._stops.values()):
            number += 1
            name = f"{stem}_{number}"
        return self._variable(name, kind, tensor)

    def _composed(self, value: Value) -> Form:
        for number, (name, tensor) in self._stops.items():
            sizes = self._algebra.class_sizes(number)
            rest = self._search._without(value, Bound(number, tuple((at,) for at in range(len(sizes)))))
            if rest:
                return self._variable(name, "input", tensor) + self.form(rest)
        for taken, rest in (*self._norms(value), *self._attentions(value), *self._products(value)):
            return taken + self.form(rest) if rest else taken
        terms = [self._term(product, number) for product, number in value]
        if not terms:
            raise UsageError("it is 0, whatever it is given", remedy="choose another seed")
        found = terms[0]
        for term in terms[1:]:
            found = Form("add", (found, term))
        if not isinstance(found, Form):
            raise UsageError("it is a number", remedy="choose another seed")
        return found

    def _weight(self, atom: Atom | None, stem: str) -> Form | None:
        if atom is None:
            return None
        found = self._tensor(((((atom, 1.0),), 1.0),))
        return None if found is None else self._new(stem, "weight", found)

    def _tensor(self, value: Value) -> Endpoint | None:
        tensors = self._search.tensors(self._search.number(value))
        if tensors:
            return tensors[0]
        is_one = len(value) == 1 and len(value[0][0]) == 1 and value[0][0][0][1] == value[0][1] == 1
        head = self._algebra.head(value[0][0][0][0]) if is_one else ("",)
        if head[0] != "tensor":
            return None
        name, _, output = str(head[1]).rpartition(":")
        return Endpoint(name, int(output))

    def _found(self, formula: Any, value: Value) -> Iterator[tuple[Found, Value]]:
        return self._search._take(formula, value, {})

    def _norms(self, value: Value) -> Iterator[tuple[Form, Value]]:
        for found, rest in self._found(LayerNorm(Var("x"), "norm"), value):
            norm, x = found["norm"], found["x"]
            if isinstance(norm, Norm) and isinstance(x, Bound):
                key = (norm.number, norm.epsilon, *(one and one[0] for one in (norm.gamma, norm.beta)))
                if key not in self._layer_norms:
                    inside = self._inside(x)
                    gamma, beta = self._weight(norm.gamma, "gamma"), self._weight(norm.beta, "beta")
                    self._layer_norms[key] = op.LayerNorm(inside, gamma, beta, epsilon=norm.epsilon)
                yield self._layer_norms[key], rest
                return

    def _inside(self, bound: Bound) -> Form:
        return self.form(self._algebra.value_of(bound.number, bound.axes))

    def _attentions(self, value: Value) -> Iterator[tuple[Form, Value]]:
        formula = Attention(Dense(Var("x"), "query"), Dense(Var("y"), "key"), Dense(Var("z"), "value"), "heads")
        for found, rest in self._found(formula, value):
            heads = found["heads"]
            if not isinstance(heads, Heads):
                continue
            query, key, values = (
                self._dense(found[kind], found[x], f"{kind}_kernel", f"{kind}_bias")
                for kind, x in (("query", "x"), ("key", "y"), ("value", "z"))
            )
            mask = None
            if heads.mask.value:
                tensor = self._tensor(heads.mask.value) or next(self._shifted(heads.mask.value), None)
                if tensor is None:
                    return
                mask = self._new("mask", "input", tensor)
            if heads.mask.kind != "added":
                kind = f"{heads.mask.kind} and cleared" if heads.mask.is_cleared else heads.mask.kind
                yield (
                    op.Attention(query, key, values, mask, scale=heads.scale, masking=kind, fill=heads.mask.fill),
                    rest,
                )
            else:
                yield op.Attention(query, key, values, mask, scale=heads.scale), rest
            return

    def _shifted(self, value: Value) -> Iterator[Endpoint]:
        """Tensors that are a value up to what is added everywhere, which a softmax does not see."""
        for number in self._search.with_constant(self._search.number(value)):
            yield from self._search.tensors(number)

    def _products(self, value: Value) -> Iterator[tuple[Form, Value]]:
        for found, rest in self._found(Dense(Var("x"), "kernel"), value):
            yield self._dense(found["kernel"], found["x"], "kernel", "bias"), rest
            return

    def _dense(self, kernel: Any, x: Any, stem: str, bias: str) -> Form:
        assert isinstance(kernel, Kernel)
        assert isinstance(x, Bound)
        inside = self._inside(x)
        weight = self._weight(kernel.kernel, stem)
        assert weight is not None
        return op.Dense(inside, weight, self._weight(kernel.bias, bias))

    def _term(self, product: Product, number: float) -> Form | float:
        found: Form | float = number
        for atom, power in product:
            factor = self._atom(atom)
            factor = factor if power == 1 else factor**power
            found = factor if found == 1 and not isinstance(found, Form) else Form("multiply", (found, factor))
        return found

    def _atom(self, atom: Atom) -> Form:
        head = self._algebra.head(atom)
        kind = str(head[0])
        if kind == "gelu":
            return op.Gelu(self.form(self._algebra.value_of(class_of(head), atom[1])), kind=str(head[2]))
        if kind in FUNCTIONS and len(head) == 2:
            return Form(kind, (self.form(self._algebra.value_of(class_of(head), atom[1])),))
        if kind == "softmax":
            return op.Softmax(self.form(self._algebra.value_of(class_of(head), atom[1])))
        if kind == "sum":
            return self.form(self._algebra.inside(atom))
        tensor = self._tensor(((((atom, 1.0),), 1.0),))
        if tensor is None:
            raise UsageError(f"it has a {kind} in it, which no formula can say", remedy="name barriers behind it")
        is_weight = self._raised.is_weight(atom)
        return self._new("weight" if is_weight else "input", "weight" if is_weight else "input", tensor)


class _Chain:
    """Finds blocks of which each takes what the one before it gives, and computes the same with other weights."""

    def __init__(self, raised: Raised) -> None:
        self._raised = raised
        self._search = RuleSearch(raised)
        self._tensors: list[Endpoint] = []
        self._places: dict[int, int] = {}
        for tensor, reading in raised:
            number = self._search.number(reading.value)
            if number not in self._places and self._is_output(reading):
                self._places[number] = len(self._tensors)
                self._tensors.append(tensor)

    def _is_output(self, reading: Reading) -> bool:
        heads = (self._raised.algebra.head(atom)[0] for product, _ in reading.value for atom, _ in product)
        return len(reading.value) > 1 or any(head in _KINDS for head in heads)

    def longest(self, seed: str | None) -> tuple[Endpoint, int, Form, _Formula] | None:
        """The output, the number of blocks, and the form of the last; None if nothing repeats."""
        ends = self._ends(seed)
        best: tuple[Endpoint, int, Form, _Formula] | None = None
        for end in ends:
            for step in range(1, min(end, _NEAR) + 1):
                found = self._block(end, end - step)
                if found is None:
                    continue
                units, text, at = 1, formula_lines(found[0]), end - step
                while (start := self._start(at, step, text, found[1])) is not None:
                    units, at = units + 1, start
                if units > 1 and len(found[1].inputs) > 2:
                    if best is None or units > best[1]:
                        best = (self._tensors[end], units, *found)
                    break
            if best is not None:
                return best
        return best

    def _start(self, end: int, step: int, text: tuple[str, ...], like: _Formula) -> int | None:
        """Where the block begins that ends somewhere, computes as others do, and shares what they share."""
        near = range(end - 1, max(end - 2 * step, -1), -1)
        for start in sorted(near, key=lambda one: abs(end - step - one)):
            found = self._block(end, start)
            if found is not None and formula_lines(found[0]) == text and self._shares(like, found[1]):
                return start
        return None

    def _ends(self, seed: str | None) -> list[int]:
        if seed is None:
            return list(range(len(self._tensors) - 1, max(len(self._tensors) - _LAST, 0), -1))
        reading = self._raised.reading(Endpoint(seed, 0))
        place = None if reading is None else self._places.get(self._search.number(reading.value))
        return [] if place is None else [place]

    def _block(self, end: int, start: int) -> tuple[Form, _Formula] | None:
        """The form of one tensor, of another one and weights."""
        work = _Formula(self._raised, self._search, {})
        try:
            work.stop(self._tensors[start], "x")
            form = work.of(self._tensors[end])
        except UsageError:
            return None
        is_of = any(one.name == "x" for one in work.inputs)
        others = [one for one in work.inputs if one.kind == "input" and one.name not in ("x", "mask")]
        has_weights = any(one.kind == "weight" for one in work.inputs)
        return (form, work) if is_of and has_weights and not others and form.kind != "var" else None

    def _shares(self, one: _Formula, other: _Formula) -> bool:
        """Whether two blocks take the same, besides what is between them and their weights."""
        taken = [
            {each.name: self._search.number_of(each.tensor) for each in work.inputs if each.kind == "input"}
            for work in (one, other)
        ]
        return {**taken[0], "x": None} == {**taken[1], "x": None}
