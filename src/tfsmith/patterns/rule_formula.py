"""The formulas of rules over the raised graph: what `Rule` adds to those of `patterns/formula.py`, and their search."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tfsmith.errors import UsageError
from tfsmith.ir.node import Endpoint
from tfsmith.patterns.algebra import ZERO, Algebra, Atom, Axes, Head, Product, Value, is_close, scaled
from tfsmith.patterns.formula import (
    Activation,
    Attention,
    Bound,
    Dense,
    Formula,
    Found,
    LayerNorm,
    OneOf,
    Plus,
    Search,
    Var,
)
from tfsmith.patterns.raised import Raised
from tfsmith.patterns.rule import FUNCTIONS, Form, Rule

__all__ = ["Compiled", "Miss", "RuleSearch", "compile_form", "roots"]

_ACTIVATIONS = ("gelu", "relu", "tanh", "sigmoid", "elu", "selu", "softplus")


class Constant(Formula):
    """A number that is added."""

    def __init__(self, number: float) -> None:
        self.number = number


class Term(Formula):
    """A product of formulas with exponents, times a number."""

    def __init__(self, number: float, factors: tuple[tuple[Formula, float], ...]) -> None:
        self.number, self.factors = number, factors


class Function(Formula):
    """A function of one value, element by element; of a GELU, also its kind."""

    def __init__(self, function: str, x: Formula, kind: str | None = None, name: str = "") -> None:
        self.function, self.x, self.kind, self.name = function, x, kind, name


class Softmax(Formula):
    """A softmax; found as the labels that it is over."""

    def __init__(self, x: Formula, name: str) -> None:
        self.x, self.name = x, name


class Plain(Formula):
    """A node of an op; operands that are no formulas are constants that must be equal."""

    def __init__(self, op: str, inputs: tuple[Any, ...], attrs: Mapping[str, Any]) -> None:
        self.op, self.inputs, self.attrs = op, inputs, attrs


class As(Formula):
    """Another formula, whose value is found under a name."""

    def __init__(self, name: str, inner: Formula) -> None:
        self.name, self.inner = name, inner


class Chain(Formula):
    """A chain of blocks; found as `Links`."""

    def __init__(self, block: Compiled, x: Formula, name: str, least: int, shared: Mapping[str, str]) -> None:
        self.block, self.x, self.name, self.least, self.shared = block, x, name, least, shared


class Links(NamedTuple):
    """What the blocks of a chain have found, first to last, with the value that each gives."""

    units: tuple[tuple[Found, Value], ...]


class Weighted(NamedTuple):
    """How a raised form's weights and settings are called in its rule."""

    weights: Mapping[str, tuple[str, bool]]
    settings: Mapping[str, Any]


class Compiled(NamedTuple):
    """A rule that can be searched for.

    Attributes:
        rule: The rule.
        formula: What to find.
        raised: For each raised form, by its hidden name, what its weights and settings are called.
        guards: Rules whose guards count, with the names that their parameters have here.
    """

    rule: Rule
    formula: Formula
    raised: Mapping[str, Weighted]
    guards: tuple[tuple[Rule, Mapping[str, str]], ...]


class Miss(NamedTuple):
    """Where a search ended: how far it came, what was wanted, and what was there."""

    depth: int
    wanted: str
    value: Value
    formula: Formula


def compile_form(rule: Rule) -> Compiled:
    """A rule as a formula over the raised graph.

    Raises:
        UsageError: A form is used in a way that makes no sense.
    """
    work = _Compiler(rule)
    formula = work.formula(rule.form)
    return Compiled(rule, formula, work.raised, ((rule, {name: name for name in rule.parameters}), *work.guards))


class _Compiler:
    """Compiles the form of one rule."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._algebra = Algebra()
        self._leaves: list[Form] = []
        self._made: dict[int, Formula] = {}
        self.raised: dict[str, Weighted] = {}
        self.guards: list[tuple[Rule, Mapping[str, str]]] = []

    def formula(self, form: Form) -> Formula:
        """The formula of a form: arithmetic is computed first, so that it has one form whatever its spelling."""
        return self._of_value(self._value(form))

    def _wrong(self, what: str, remedy: str) -> UsageError:
        return UsageError(what, where=f"rule {self._rule.name!r}", remedy=remedy)

    def _value(self, form: Any) -> Value:
        if isinstance(form, (int, float)):
            return (((), float(form)),) if form else ZERO
        if not isinstance(form, Form):
            raise self._wrong(f"its formula has {form!r} in it", "formulas have forms and numbers")
        algebra = self._algebra
        if form.kind == "add":
            one, other = map(self._value, form.operands)
            return algebra.add(one, other)
        if form.kind == "multiply":
            one, other = map(self._value, form.operands)
            return algebra.multiply(one, other)
        if form.kind == "power":
            base, exponent = form.operands
            if not isinstance(exponent, (int, float)):
                raise self._wrong("an exponent is no number", "write a number")
            found = algebra.power(self._value(base), float(exponent))
            if found is None:
                raise self._wrong(f"{form!r} is not the same in all of real arithmetic", "write it in another way")
            return found
        if form.kind in FUNCTIONS:
            return algebra.apply(form.kind, self._value(form.operands[0]))
        for number, known in enumerate(self._leaves):
            if known is form or (known.kind == form.kind == "var" and known.operands == form.operands):
                return algebra.single(("form", number), ())
        self._leaves.append(form)
        return algebra.single(("form", len(self._leaves) - 1), ())

    def _of_value(self, value: Value) -> Formula:
        parts = [self._of_term(product, number) for product, number in value]
        if not parts:
            raise self._wrong("its formula is 0, whatever is found", "write what is to be found")
        return parts[0] if len(parts) == 1 else Plus(tuple(parts))

    def _of_term(self, product: Product, number: float) -> Formula:
        if not product:
            return Constant(number)
        factors = tuple((self._of_head(self._algebra.head(atom), atom[1]), power) for atom, power in product)
        if len(factors) == 1 and factors[0][1] == 1 and is_close(number, 1):
            return factors[0][0]
        return Term(number, factors)

    def _of_head(self, head: Head, axes: Axes) -> Formula:
        number = head[1]
        assert isinstance(number, int)
        if head[0] == "form":
            if number not in self._made:
                self._made[number] = self._of_leaf(self._leaves[number])
            return self._made[number]
        inside = self._of_value(self._algebra.value_of(number, axes))
        if head[0] == "sum":
            return inside
        return Function(str(head[0]), inside, str(head[2]) if head[0] == "gelu" else None)

    def _of_leaf(self, form: Form) -> Formula:
        if form.kind == "var":
            return Var(str(form.operands[0]))
        if form.kind == "OneOf":
            return OneOf(*(self.formula(choice) for choice in form.operands))
        if form.kind == "Optional":
            raise self._wrong("op.Optional with one argument is no weight", "say what is there otherwise")
        if form.kind == "Repeat":
            return self._chain(form)
        if form.kind == "rule":
            return self._called(form)
        if form.kind.startswith("op "):
            inputs = tuple(self.formula(one) if isinstance(one, Form) else one for one in form.operands)
            return Plain(form.kind[3:], inputs, form.settings)
        return self._raised(form)

    def _raised(self, form: Form) -> Formula:
        hidden = f"#{len(self.raised) + 1}"
        self.raised[hidden] = Weighted({}, form.settings)  # keeps the number
        kind, operands = form.kind, form.operands
        weights: dict[str, tuple[str, bool]] = {}
        roles = {"LayerNorm": ("gamma", "beta"), "Dense": ("kernel", "bias")}.get(kind, ())
        for role, given in zip(roles, operands[1:], strict=False):
            self._weigh(weights, role, given)
        if kind == "Attention":
            self._weigh(weights, "mask", operands[3])
        self.raised[hidden] = Weighted(weights, form.settings)
        if kind == "LayerNorm":
            return LayerNorm(self.formula(operands[0]), hidden)
        if kind == "Dense":
            return Dense(self.formula(operands[0]), hidden)
        if kind == "Activation":
            return Activation(self.formula(operands[0]), hidden)
        if kind == "Gelu":
            return Function("gelu", self.formula(operands[0]), name=hidden)
        if kind == "Softmax":
            return Softmax(self.formula(operands[0]), hidden)
        if kind != "Attention":
            raise self._wrong(f"there is no form {kind!r}", "see tfsmith.op")
        query, key, value = (self._named(one) for one in operands[:3])
        weights |= {"query": (query.name, False), "key": (key.name, False), "value": (value.name, False)}
        return Attention(query, key, value, hidden)

    def _weigh(self, weights: dict[str, tuple[str, bool]], role: str, given: Any) -> None:
        if given is None:
            return
        is_optional = isinstance(given, Form) and given.kind == "Optional"
        inner = given.operands[0] if is_optional else given
        if not isinstance(inner, Form) or inner.kind != "var":
            raise self._wrong(f"the {role} of a form is no parameter", "pass a parameter of the formula")
        weights[role] = (str(inner.operands[0]), is_optional)

    def _named(self, form: Any) -> Any:
        """A formula that has a name: a variable, a product, or another one under a hidden name."""
        made = self.formula(form)
        if isinstance(made, (Var, Dense)):
            return made
        return As(f"#as{id(made)}", made)

    def _chain(self, form: Form) -> Formula:
        block, x, units = form.operands
        if not isinstance(block, Rule) or not isinstance(units, Form) or units.kind != "var":
            raise self._wrong("op.Repeat takes a rule, what the first block takes, and a parameter", "see its docs")
        settings = dict(form.settings)
        least = settings.pop("least")
        for name, given in settings.items():
            if name not in block.parameters[1:] or not isinstance(given, Form) or given.kind != "var":
                what = f"{name!r} is no parameter that blocks {block.name!r} can share"
                raise self._wrong(what, f"they have {', '.join(block.parameters[1:])}")
        shared = {name: str(given.operands[0]) for name, given in settings.items()}
        return Chain(compile_form(block), self.formula(x), str(units.operands[0]), least, shared)

    def _called(self, form: Form) -> Formula:
        """A rule inside of a formula: its form with the arguments put in; arguments that it guards get names."""
        inner, *arguments = form.operands
        names: dict[str, str] = {}
        given: list[Any] = []
        for parameter, argument in zip(inner.parameters, arguments, strict=True):
            if isinstance(argument, Form) and argument.kind == "var":
                names[parameter] = str(argument.operands[0])
            given.append(argument)
        if inner.where:
            self.guards.append((inner, names))
        return self.formula(inner.formula(*given))


def roots(formula: Formula) -> frozenset[str] | None:
    """The kinds of atoms of which one is in every value that a formula fits; None if that is not known."""
    if isinstance(formula, LayerNorm):
        return frozenset({"norm"})
    if isinstance(formula, (Dense, Attention)):
        return frozenset({"contract"})
    if isinstance(formula, Activation):
        return frozenset(_ACTIVATIONS)
    if isinstance(formula, Function):
        return frozenset({formula.function})
    if isinstance(formula, Softmax):
        return frozenset({"softmax"})
    if isinstance(formula, As):
        return roots(formula.inner)
    if isinstance(formula, Chain):
        return roots(formula.block.formula)
    if isinstance(formula, OneOf):
        choices = [roots(choice) for choice in formula.choices]
        known = [one for one in choices if one is not None]
        return frozenset[str]().union(*known) if len(known) == len(choices) else None
    parts: Sequence[Formula] = ()
    if isinstance(formula, Plus):
        parts = formula.parts
    elif isinstance(formula, Term):
        parts = [part for part, _ in formula.factors if not isinstance(part, Plus)]
    return next((found for part in parts if (found := roots(part)) is not None), None)


class RuleSearch(Search):
    """Finds the formulas of rules in a raised graph.

    Attributes:
        nearest: Where the search came farthest without finding what it wanted.
    """

    def __init__(self, raised: Raised) -> None:
        Search.__init__(self, raised)
        self.nearest: Miss | None = None
        self._path: list[Formula] = []
        self._places: dict[int, list[Endpoint]] = {}
        self._numbers: dict[Endpoint, int] = {}
        self._shifted: dict[int, list[int]] | None = None
        self._scaled: dict[int, list[tuple[Endpoint, float]]] | None = None
        for tensor, reading in raised:
            number = self._numbers[tensor] = self._algebra.intern(reading.value)[0]
            self._places.setdefault(number, []).append(tensor)

    def number_of(self, tensor: Endpoint) -> int | None:
        """The class of a tensor; None if nothing is known of it."""
        if tensor not in self._numbers:
            reading = self._raised.reading(tensor)
            if reading is None:
                return None
            number = self._numbers[tensor] = self.number(reading.value)
            self._places.setdefault(number, []).append(tensor)
        return self._numbers[tensor]

    def with_constant(self, number: int) -> Sequence[int]:
        """The classes of tensors that differ from a class only by a number that is added."""
        if self._shifted is None:
            self._shifted = {}
            for other, tensors in list(self._places.items()):
                reading = self._raised.reading(tensors[0])
                if reading is not None and len(reading.value) > 1 and not reading.value[0][0]:
                    self._shifted.setdefault(self.number(reading.value[1:]), []).append(other)
        return self._shifted.get(number, ())

    def tensors(self, number: int) -> Sequence[Endpoint]:
        """The tensors of a class, in any layout, each after what it is made of."""
        return self._places.get(number, ())

    def number(self, value: Value) -> int:
        """The class of a value."""
        return self._algebra.intern(value)[0]

    def _take(self, formula: Formula, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        if isinstance(formula, (Var, Plus, OneOf, Constant, Term, As)):
            yield from self._take_part(formula, value, found)
            return
        results = self._take_part(formula, value, found)
        is_there = False
        while True:
            self._path.append(formula)
            item = next(results, None)
            self._path.pop()
            if item is None:
                break
            is_there = True
            yield item
        depth = len(self._path)
        is_nearer = self.nearest is None or depth >= self.nearest.depth
        if not is_there and is_nearer and (not isinstance(formula, Attention) or self._has_softmax(value)):
            self.nearest = Miss(depth, _wanted(formula), value, formula)

    def _has_softmax(self, value: Value) -> bool:
        """Whether a value is a product with a softmax, or with something that is made of one."""
        atoms = [atom for _, _, factors, _ in self._contractions(value) for atom, _ in factors]
        inner = [one for atom in atoms for product, _ in self._algebra.inside(atom) for one, _ in product]
        return any(self._algebra.head(atom)[0] == "softmax" for atom in inner)

    def _take_part(self, formula: Formula, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        if isinstance(formula, Constant):
            number = dict(value).get((), 0.0)
            if is_close(number, formula.number):
                yield found, tuple(item for item in value if item[0])
        elif isinstance(formula, Term):
            yield from self._take_term(formula, value, found)
        elif isinstance(formula, Function):
            yield from self._take_function(formula, value, found)
        elif isinstance(formula, Softmax):
            yield from self._take_softmax(formula, value, found)
        elif isinstance(formula, Plain):
            yield from self._take_plain(formula, value, found)
        elif isinstance(formula, As):
            for more, rest in self._take(formula.inner, value, found):
                taken = tuple(item for item in value if item not in rest)
                yield {**more, formula.name: Bound(*self._algebra.intern(taken))}, rest
        elif isinstance(formula, Chain):
            yield from self._take_chain(formula, value, found)
        elif isinstance(formula, Attention):
            for product, number, _, _ in self._contractions(value):
                # what the product is multiplied by belongs to the values
                values = Term(1 / number, ((formula.value, 1.0),))
                inner = Attention(formula.query, formula.key, values, formula.name)  # type: ignore[arg-type]
                term = tuple(item for item in value if item[0] == product)
                for more, _ in Search._take(self, inner, scaled(term, 1 / number), found):
                    yield more, tuple(item for item in value if item[0] != product)
        else:
            yield from Search._take(self, formula, value, found)

    def _take_variable(self, formula: Var, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        is_new = formula.name not in found
        for more, rest in Search._take_variable(self, formula, value, found):
            # where it was found: the labels of a node's input have nothing to do with those of its output
            yield (self._placed(formula.name, value, more) if is_new else more), rest

    def _placed(self, name: str, value: Value, found: Found) -> Found:
        """What was found, with where; of a value that no tensor has, the tensor that is the same but for rounding."""
        bound = found[name]
        assert isinstance(bound, Bound)
        if value[-1][0] and not self.tensors(bound.number):
            for tensor, factor in self._multiples(value):
                number = self.number_of(tensor)
                if number is not None and is_close(factor, value[-1][1]):
                    bound = Bound(number, bound.axes)
        return {**found, name: bound, f"@{name}": found.get("@", "")}

    def _take_sum(self, parts: tuple[Formula, ...], value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        free = [part for part in parts if isinstance(part, Var) and part.name not in found]
        if len(free) < 2 or len(free) != len(parts):
            yield from Search._take_sum(self, parts, value, found)
            return
        # several unknown summands: as the nodes that add them have them
        first, *others = free
        for number in self._summands(value):
            known = Bound(number, self._axes(number))
            rest = self._without(value, known)
            if rest:
                taken = tuple(item for item in value if item not in rest)
                more = {**found, first.name: Bound(*self._algebra.intern(taken)), f"@{first.name}": found.get("@", "")}
                yield from self._take_sum(tuple(others), rest, more)

    def _axes(self, number: int) -> Axes:
        return tuple((at,) for at in range(len(self._algebra.class_sizes(number))))

    def _summands(self, value: Value) -> Iterator[int]:
        """The classes of what nodes add to give a value."""
        body = self._raised.body
        for tensor in self.tensors(self.number(value)):
            node = body.by_name.get(tensor.node)
            for text in () if node is None else node.data_inputs:
                reading = self._raised.reading(body.resolve(text))
                if reading is not None:
                    yield self.number(reading.value)

    def _take_term(self, formula: Term, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        if len(formula.factors) == 1 and formula.factors[0][1] == 1:
            for more, rest in self._take(formula.factors[0][0], scaled(value, 1 / formula.number), found):
                yield more, scaled(rest, formula.number)
            return
        for item in value:
            for more in self._factors(formula.factors, item[0], item[1] / formula.number, found):
                yield more, tuple(other for other in value if other is not item)

    def _factors(
        self, wanted: tuple[tuple[Formula, float], ...], product: Product, number: float, found: Found
    ) -> Iterator[Found]:
        """All ways in which a product is that of formulas: those with a form first, unknown variables last."""
        if not wanted:
            if not product and is_close(number, 1):
                yield found
            return

        def order(item: tuple[Formula, float]) -> int:
            part = item[0]
            return 0 if not isinstance(part, Var) else 1 if part.name in found else 2

        first = min(wanted, key=order)
        others = tuple(item for item in wanted if item is not first)
        part, power = first
        if not isinstance(part, Var):
            yield from self._atoms(part, power, (others, product, number), found)
        elif part.name in found:
            known = found[part.name]
            whole = self._algebra.value_of(*known) if isinstance(known, Bound) else ZERO
            inverse = self._algebra.power(whole, -power)
            left = None if inverse is None else self._algebra.multiply(((product, number),), inverse)
            if left is not None and len(left) == 1 and len(left[0][0]) < len(product):
                yield from self._factors(others, left[0][0], left[0][1], found)
        elif not others:
            base = self._algebra.power(((product, number),), 1 / power) if product else None
            if base is not None:
                yield from self.match(part, base, found)
        else:
            for item in product:
                if item[1] == power:
                    rest = tuple(other for other in product if other is not item)
                    for more in self.match(part, self._algebra.inside(item[0]), found):
                        yield from self._factors(others, rest, number, more)

    def _atoms(
        self,
        part: Formula,
        power: float,
        left: tuple[tuple[tuple[Formula, float], ...], Product, float],
        found: Found,
    ) -> Iterator[Found]:
        """All ways in which one atom of a product is a formula; of a sum, any coefficient may be the leading one."""
        others, product, number = left
        for item in product:
            if item[1] != power:
                continue
            rest = tuple(other for other in product if other is not item)
            inside = self._algebra.inside(item[0])
            scales = {1.0}
            if isinstance(part, Plus) and len(inside) > 1:
                mine = [term.number for term in part.parts if isinstance(term, (Term, Constant))]
                scales |= {own / theirs for own in (1.0, *mine) for _, theirs in inside}
            for scale in sorted(scales, key=lambda one: one != 1):
                for more in self.match(part, scaled(inside, scale), found):
                    yield from self._factors(others, rest, number / scale**power, more)

    def _take_function(self, formula: Function, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        for product, number in value:
            if len(product) != 1 or product[0][1] != 1 or not is_close(number, 1):
                continue
            head = self._algebra.head(product[0][0])
            if head[0] != formula.function or (formula.kind is not None and head[2] != formula.kind):
                continue
            inner = head[1]
            assert isinstance(inner, int)
            named = {**found, formula.name: str(head[2])} if formula.name else found
            for more in self.match(formula.x, self._algebra.value_of(inner, product[0][0][1]), named):
                yield more, tuple(item for item in value if item[0] != product)

    def _take_softmax(self, formula: Softmax, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        for product, number in value:
            if len(product) != 1 or product[0][1] != 1 or not is_close(number, 1):
                continue
            atom = product[0][0]
            head = self._algebra.head(atom)
            inner, bound = head[1], head[2] if len(head) > 2 else ()
            if head[0] != "softmax" or not isinstance(inner, int) or not isinstance(bound, tuple):
                continue
            labels = tuple(label for at in bound for label in atom[1][at])
            inside = self._algebra.value_of(inner, atom[1])
            named: Found = {**found, formula.name: Bound(-1, (labels,))}
            for more in self.match(formula.x, inside, named):
                yield more, tuple(item for item in value if item[0] != product)

    def _take_plain(self, formula: Plain, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        wholes = [(value, ZERO)]
        if len(value) > 1:
            wholes += [((item,), tuple(other for other in value if other is not item)) for item in value]
        body = self._raised.body
        for whole, rest in wholes:
            for tensor in self.tensors(self.number(whole)):
                node = body.by_name.get(tensor.node)
                if node is None or node.op != formula.op or tensor.output or not _has(node, formula.attrs):
                    continue
                inputs = [body.resolve(text) for text in node.data_inputs]
                if len(inputs) != len(formula.inputs):
                    continue
                for more in self._inputs(list(zip(formula.inputs, inputs, strict=True)), {**found, "@": str(tensor)}):
                    yield {**more, "@": found.get("@", "")}, rest

    def _inputs(self, pairs: list[tuple[Any, Endpoint]], found: Found) -> Iterator[Found]:
        if not pairs:
            yield found
            return
        (wanted, tensor), *others = pairs
        if not isinstance(wanted, Formula):
            if self._is_constant(tensor, wanted):
                yield from self._inputs(others, found)
            return
        if isinstance(wanted, Var):
            known = found.get(wanted.name)
            reading = self._raised.reading(tensor)
            number = None if reading is None else self.number(reading.value)
            if known is None or (isinstance(known, Bound) and known.number == number):
                # this very tensor, whatever it is
                bound = known if known is not None else Bound(-1 if number is None else number, ())
                yield from self._inputs(others, {f"@{wanted.name}": f"={tensor}", **found, wanted.name: bound})
            return
        reading = self._raised.reading(tensor)
        if reading is not None:
            for more in self.match(wanted, reading.value, {**found, "@": str(tensor)}):
                yield from self._inputs(others, more)

    def _is_constant(self, tensor: Endpoint, wanted: Any) -> bool:
        known = self._raised.constant(tensor)
        if known is None:
            return False
        from tfsmith.ops.shapes import flat_values

        values = flat_values(known)
        given = list(wanted) if isinstance(wanted, (list, tuple)) else [wanted]
        return values is not None and len(values) == len(given) and all(map(is_close, values, given))

    def _coefficients(self, query: Atom, key: Atom) -> Iterator[tuple[float, float]]:
        """As the nodes have them that multiply the two."""
        body = self._raised.body
        for one, for_query in self._multiples(self._algebra.inside(query)):
            users = {use.node.name for use in body.uses[one.node] if use.output == one.output}
            for other, for_key in self._multiples(self._algebra.inside(key)):
                if any(use.output == other.output and use.node.name in users for use in body.uses[other.node]):
                    yield for_query, for_key
        yield 1.0, 1.0

    def _multiples(self, value: Value) -> Sequence[tuple[Endpoint, float]]:
        """The tensors that are a value times a number, in any layout; with the factor of their last term."""
        if self._scaled is None:
            self._scaled = {}
            for tensors in list(self._places.values()):
                reading = self._raised.reading(tensors[0])
                if reading is not None and reading.value and reading.value[-1][0]:
                    factor = reading.value[-1][1]
                    number = self.number(scaled(reading.value, 1 / factor))
                    self._scaled.setdefault(number, []).extend((tensor, factor) for tensor in tensors)
        return self._scaled.get(self.number(scaled(value, 1 / value[-1][1])), ())

    def _take_chain(self, formula: Chain, value: Value, found: Found) -> Iterator[tuple[Found, Value]]:
        """As many blocks as there are, the last one first."""
        carry = formula.block.rule.parameters[0]
        units: list[tuple[Found, Value]] = []
        current = value
        shared: dict[str, Any] = {inner: found[outer] for inner, outer in formula.shared.items() if outer in found}
        while True:
            result = next(self.match(formula.block.formula, current, {"@": found.get("@", ""), **shared}), None)
            bound = None if result is None else result[carry]
            if result is None or not isinstance(bound, Bound):
                break
            units.append((result, current))
            # a mask or weight is found with its form, and compared when tensors are looked for
            shared |= {inner: result[inner] for inner in formula.shared if inner in result}
            current = self._algebra.value_of(*bound)
        if len(units) < formula.least:
            return
        named: dict[str, Any] = {**found, formula.name: Links(tuple(units[::-1]))}
        for inner, outer in formula.shared.items():
            if inner in units[0][0]:
                named.setdefault(outer, units[0][0][inner])
                named.setdefault(f"@{outer}", units[0][0].get(f"@{inner}", ""))
        for more in self.match(formula.x, current, named):
            yield more, ZERO


def _has(node: Any, attrs: Mapping[str, Any]) -> bool:
    """Whether a node has these attributes; text counts as bytes, and names of types as types."""
    for key, wanted in attrs.items():
        value = node.get(key)
        given = wanted.encode() if isinstance(wanted, str) and isinstance(value, bytes) else wanted
        given = tuple(given) if isinstance(given, list) else given
        if value != given and getattr(value, "name", value) != given:
            return False
    return True


def _wanted(formula: Formula) -> str:
    """A formula in words."""
    if isinstance(formula, LayerNorm):
        return "a layer norm"
    if isinstance(formula, Dense):
        return "a product with a weight"
    if isinstance(formula, Attention):
        return "attention"
    if isinstance(formula, Activation):
        return "an activation"
    if isinstance(formula, Softmax):
        return "a softmax"
    if isinstance(formula, Function):
        return (
            "a GELU" + (f" by {formula.kind}" if formula.kind else "")
            if formula.function == "gelu"
            else formula.function
        )
    if isinstance(formula, Plain):
        return f"a node {formula.op}"
    if isinstance(formula, Chain):
        return f"{formula.least} or more blocks {formula.block.rule.name}"
    return "something else"
