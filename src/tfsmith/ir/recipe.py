"""`Recipe`: what to look for in a graph and what to put in its place; `Pattern`, `Match`. Data only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from tfsmith.errors import UsageError
from tfsmith.ir.node import Attr, Endpoint, Node
from tfsmith.records import field, record

__all__ = [
    "NameRule",
    "parse_name_rule",
    "Pattern",
    "ConstantQuery",
    "Expression",
    "FormulaText",
    "NodeQuery",
    "Query",
    "Recipe",
    "Repeat",
    "TargetNode",
    "Variant",
    "Match",
    "Miss",
    "Unit",
]

_COUNT = re.compile(r"\{(?:([0-9]{1,6})\*?)?i(?:([+-])([0-9]{1,9}))?\}")
_DIGITS = "([0-9]{1,9})"
_MOST_TEXT = 1000
_FORMS = "write {i}, {i+1} or {6i+2} where the number stands"


@record
class NameRule:
    """A rule that a name fits if it ends so, from the beginning of a scope on: `a/{i}` fits `a/3` and `model/a/3`.

    `{i}` is a number. It is the same in all names of a unit, and one more in the unit that follows. `{6i+2}` is a
    number that is counted from it, for names that TensorFlow made unique. TensorFlow calls the first of these `dense`,
    not `dense_0`, so `dense_{i}` also fits a name without the number, which is 0 then.

    Attributes:
        text: The rule as it is written.
        expression: A regular expression that finds it at the end of a name; one group for each number.
        steps: For each number, by how much it goes up when `{i}` goes up by one, and what it is when `{i}` is 0.
    """

    text: str
    expression: re.Pattern[str] = field(compare=False, repr=False)
    steps: tuple[tuple[int, int], ...] = field(compare=False, repr=False)

    @property
    def counts(self) -> bool:
        """Whether it has a number."""
        return bool(self.steps)

    def count(self, names: Iterable[str], wanted: int | None = None) -> int | None:
        """What `{i}` is in the first of these names that fits; 0 if the rule has no number, None if no name fits.

        Args:
            names: All names of one thing.
            wanted: The number that it must be, if it is known.
        """
        for name in names:
            found = self._count(name)
            if found is not None and (not self.steps or wanted is None or found == wanted):
                return found
        return None

    def _count(self, name: str) -> int | None:
        match = self.expression.search(name)
        if match is None:
            return None
        found: set[int] = set()
        for group, (step, start) in zip(match.groups(), self.steps, strict=True):
            number, rest = divmod(int(group or "0") - start, step)
            if rest:
                return None
            found.add(number)
        if not found:
            return 0
        return found.pop() if len(found) == 1 else None


def parse_name_rule(text: str) -> NameRule:
    """Reads a rule for names.

    Raises:
        UsageError: No name can fit it, or it is not clear what is meant.
    """
    if not text.strip("/") or len(text) > _MOST_TEXT:
        raise UsageError(f"a rule for names has {len(text)} characters", remedy=f"write 1 to {_MOST_TEXT}")
    if re.search(r":[0-9]+$|^\^", text):
        raise UsageError(f"{text!r} names an output or a control input", remedy="write the name of the node alone")
    expression, steps, at = r"(?:^|/)", [], 0
    for found in _COUNT.finditer(text):
        before, after = text[at : found.start()], text[found.end() :]
        step = int(found[1] or "1")
        if not step:
            raise UsageError(f"{found[0]} in {text!r} does not count", remedy=_FORMS)
        if (at and not before) or before[-1:].isdigit() or after[:1].isdigit():
            what = f"{text!r} does not say where the number of {found[0]} ends"
            raise UsageError(what, remedy="let something else than a digit stand beside it")
        is_copy = before.endswith("_") and len(before.rpartition("/")[2]) > 1 and after[:1] in ("", "/")
        if is_copy:
            expression += re.escape(before[:-1]) + f"(?:_{_DIGITS})?"
        else:
            expression += re.escape(before) + _DIGITS
        steps.append((step, int(f"{found[2] or '+'}{found[3] or 0}")))
        at = found.end()
    rest = text[at:]
    if re.search(r"[{}]", _COUNT.sub("", text)):
        raise UsageError(f"{text!r} has braces that are no number", remedy=_FORMS)
    return NameRule(text, re.compile(f"{expression}{re.escape(rest)}\\Z"), tuple(steps))


@record
class Pattern:
    """Nodes cut out of a model, from the seeds back to the barriers; the barriers themselves are not part of it.

    Attributes:
        seed_nodes: The nodes whose outputs the rest of the model may use.
        internal_nodes: The nodes between the seeds and the barriers, in the order in which they were found.
        inputs: The names of the barrier nodes (or function arguments) that were reached, sorted.
    """

    seed_nodes: tuple[Node, ...]
    internal_nodes: tuple[Node, ...]
    inputs: tuple[str, ...]

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes, seeds first."""
        return (*self.seed_nodes, *self.internal_nodes)


_NO_ATTRS: Mapping[str, Attr] = MappingProxyType({})
_NO_ENDPOINTS: Mapping[str, Endpoint] = MappingProxyType({})
_NO_RULES: Mapping[str, NameRule] = MappingProxyType({})


@record
class ConstantQuery:
    """What the values of a Const must be: these, in this shape (a single value also fits a constant filled with it).

    Attributes:
        values: The wanted values, flat; numbers or bytes.
        shape: The wanted shape, or None where it does not matter.
        tolerance: How far a floating-point value may be off, relative to the wanted one.
    """

    values: tuple[float | int | bool | bytes, ...]
    shape: tuple[int, ...] | None = None
    tolerance: float = 1e-6


@record
class NodeQuery:
    """One node to be found.

    Attributes:
        name: What the recipe calls it.
        ops: Any of these ops will do.
        inputs: What it takes: outputs of other wanted nodes, or inputs of the query (always with index 0). A control
            edge has index `CONTROL`. All inputs are listed; control inputs of the found node that are not listed are
            carried over to what replaces the match.
        attrs: Attributes that must be equal. Others do not matter.
        constant: What the values must be, for a Const.
        is_commutative: Whether the first two inputs may stand in either order.
    """

    name: str
    ops: tuple[str, ...]
    inputs: tuple[Endpoint, ...] = ()
    attrs: Mapping[str, Attr] = field(default_factory=lambda: _NO_ATTRS)
    constant: ConstantQuery | None = None
    is_commutative: bool = False


@record
class Query:
    """A connected piece of graph to be found.

    Attributes:
        nodes: The nodes, in any order.
        inputs: Names for the tensors that enter from outside; each is bound to whatever tensor stands there, and to
            the same one at every place.
        outputs: The outputs of wanted nodes that the rest of the graph may use.
        through: Ops of one input that may stand on any edge without being wanted, such as Identity; they are passed
            through, and belong to the match.
        names: For an input or a wanted node, the rule that its name in the model must fit. An input also has the name
            of the variable or constant that it is read from. `{i}` is one number in all names of a unit; where the
            query repeats, the unit that follows has the next one.
    """

    nodes: tuple[NodeQuery, ...]
    inputs: tuple[str, ...]
    outputs: tuple[Endpoint, ...]
    through: tuple[str, ...] = ()
    names: Mapping[str, NameRule] = field(default_factory=lambda: _NO_RULES)


@record
class Repeat:
    """How a query repeats: as a chain of units, each feeding the next, all of them one match.

    Attributes:
        carry: For an input of the query, the output of the unit before it that must stand there.
        shared: Inputs of the query that must be bound to one and the same tensor in every unit.
        before: What must stand in front of the chain, once; its nodes belong to the match.
        links: For a shared input of the query, the output of `before` that gives it.
        least: The smallest number of units that counts as a match.
    """

    carry: Mapping[str, Endpoint]
    shared: tuple[str, ...] = ()
    before: Query | None = None
    links: Mapping[str, Endpoint] = field(default_factory=lambda: _NO_ENDPOINTS)
    least: int = 1


@record
class Expression:
    """A value that is computed for each match from what was found, such as `dim(kernel, 0)` or `attr(mean, T)`."""

    text: str


@record
class TargetNode:
    """One node to be put in.

    Attributes:
        name: What the recipe calls it.
        op: Its op.
        inputs: Names of query inputs, `node` or `node:1` for an output of another target node or of a wanted node,
            `^node` for a control edge. `each(a, b, c)` stands for the inputs a, b, c of the first unit, then of the
            second, and so on to the last.
        attrs: Attributes, or how to compute them.
        device: Where it runs; "" for no choice.
        rename: The name in the model; `{scope}` is the deepest name scope that the matched nodes have in common,
            `{seed}` the name of the first output's node. Made unique where it is taken.
        fold: Whether it becomes a constant where all its inputs are constants.
        output_args: The names of the op's outputs, for an op whose definition nobody knows; inside of functions, edges
            are spelled with them.
    """

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    attrs: Mapping[str, Attr | Expression] = field(default_factory=lambda: _NO_ATTRS)
    device: str = ""
    rename: str = "{scope}/{name}"
    fold: bool = False
    output_args: tuple[str, ...] = ()


@record
class Variant:
    """One way in which the wanted piece is built, and what replaces it there.

    Attributes:
        name: What it is called in reports.
        query: What to look for; the unit, if it repeats.
        targets: The nodes to put in; they may use each other.
        outputs: For each output of the query: the target's output that takes its place, or an input of the query (the
            match is then removed and its input passed on). Of a repeated query, the outputs of the last unit.
        repeat: How the query repeats, if it does.
        require: What must be true of a match, such as `rank(x) == 2`; otherwise it is left alone.
    """

    name: str
    query: Query
    targets: tuple[TargetNode, ...]
    outputs: Mapping[Endpoint, Endpoint]
    repeat: Repeat | None = None
    require: tuple[Expression, ...] = ()


@record
class FormulaText:
    """A formula over the raised graph, and the nodes that take the place of what it finds.

    Attributes:
        lines: The formula: `name = form` on all lines but the last, which is the whole.
        blocks: The formulas of the blocks that it repeats.
        targets: The nodes to put in. `each(units)` among their inputs is all that the blocks of a chain have bound; an
            attribute `=epsilon` is what a setting is bound to, and `=count(units)` how many tensors `each(units)` is.
        result: The target's output, or the parameter, that takes its place; None if it only finds.
        require: What must be true of a match.
        parameters: What is found, in this order; those of the formula that are not in it come behind.
        block_parameters: The same for each block; the first is what it takes of the block before.
    """

    lines: tuple[str, ...]
    blocks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    targets: tuple[TargetNode, ...] = ()
    result: Endpoint | None = None
    require: tuple[Expression, ...] = ()
    parameters: tuple[str, ...] = ()
    block_parameters: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@record
class Recipe:
    """What to find, in one or several variants, and what to put there.

    Attributes:
        name: Its name.
        description: What it does, in a sentence.
        variants: Tried in this order; a node that one of them matched is not matched by a later one.
        source_pattern: The extracted nodes that it was made from, if it was.
        target_node: The node that it was made with, if it was; `source_pattern` and `target_node` are what its file
            in the wire format holds.
        formula_text: What to find as a formula, if that is how it is said; it has no variants then.
    """

    name: str
    description: str
    variants: tuple[Variant, ...]
    source_pattern: Pattern | None = None
    target_node: Node | None = None
    formula_text: FormulaText | None = None


@record
class Unit:
    """One occurrence of a query.

    Attributes:
        nodes: For each wanted node, the name of the node that was found.
        inputs: For each input of the query, the output that stands there.
        passed: Names of the nodes that were passed through.
        number: What `{i}` is in its names, where the query has rules for names that count.
    """

    nodes: Mapping[str, str]
    inputs: Mapping[str, Endpoint]
    passed: tuple[str, ...] = ()
    number: int | None = None

    @property
    def bindings(self) -> dict[str, str]:
        """For each name in the query, the node or tensor (`node:0`) of the model that it is bound to."""
        return {**self.nodes, **{name: str(endpoint) for name, endpoint in self.inputs.items()}}


@record
class Match:
    """One occurrence of a variant: a unit, or a chain of them.

    Attributes:
        body: The name of the function that it is in; None for the graph itself.
        variant: What was looked for.
        units: The occurrences of the query, first to last; one where it does not repeat.
        before: The occurrence of what stands in front of the chain.
    """

    body: str | None
    variant: Variant
    units: tuple[Unit, ...]
    before: Unit | None = None

    @property
    def where(self) -> str:
        """Where it is: "the graph", or "function NAME"."""
        return "the graph" if self.body is None else f"function {self.body}"

    @property
    def parts(self) -> tuple[Unit, ...]:
        """All occurrences of queries: the units, and what stands in front of them."""
        return self.units if self.before is None else (*self.units, self.before)

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of all nodes, each once, in the order of the units."""
        return tuple(dict.fromkeys(name for unit in self.parts for name in (*unit.nodes.values(), *unit.passed)))

    @property
    def outputs(self) -> tuple[str, ...]:
        """The nodes whose outputs the rest of the model may use; of a chain, those of its last unit."""
        return tuple(dict.fromkeys(self.units[-1].nodes[output.node] for output in self.variant.query.outputs))

    @property
    def bindings(self) -> dict[str, str]:
        """For each name in the recipe, the node or tensor that it is bound to; of a chain, in its first unit."""
        return {**(self.before.bindings if self.before is not None else {}), **self.units[0].bindings}


@record
class Miss:
    """The attempt that came nearest to a match.

    Attributes:
        body: The name of the function; None for the graph itself.
        variant: The variant's name.
        matched: How many nodes of the query fitted.
        wanted_node: The first node of the query that did not fit.
        found_node: The node that stood in its place; "" where there was none.
        reason: What was wanted and what was found, in a sentence.
    """

    body: str | None
    variant: str
    matched: int
    wanted_node: str
    found_node: str
    reason: str
