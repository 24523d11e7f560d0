"""Drafts a recipe: finds the block that a network repeats, and its weights, without being told where."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal, NamedTuple

from tfsmith.errors import NotFoundInModelError, TfsmithError, UsageError, nearest
from tfsmith.ir.body import Body, FreeNames
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Endpoint, Node
from tfsmith.ir.opdef import is_commutative
from tfsmith.ir.recipe import (
    ConstantQuery,
    Expression,
    Match,
    NodeQuery,
    Query,
    Recipe,
    Repeat,
    TargetNode,
    Variant,
    parse_name_rule,
)
from tfsmith.ir.tensor import OpaqueTensor, Tensor
from tfsmith.ir.types import Shape
from tfsmith.ops import VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.patterns.index import BodyIndex, captured_variables
from tfsmith.patterns.matcher import Matcher
from tfsmith.patterns.query import is_same_attr
from tfsmith.patterns.replaceable import outside_of_function, outside_of_graph
from tfsmith.records import field, record, replace

__all__ = [
    "Alignment",
    "Entry",
    "align",
    "common_attrs",
    "reads_weight",
    "small_constant",
    "from_block_on",
    "is_made_unique",
    "local_name",
    "rule_of",
    "rules_of_units",
    "DraftOptions",
    "RepeatedBlock",
    "BlockInput",
    "draft",
]

_MOST_VALUES = 16
"""A constant with more values is a weight."""
_MOST_NODES = 5000
"""A block with more nodes is none."""
_NUMBERS = ("float", "bfloat", "half", "double")

Kind = Literal["carry", "shared", "weight", "other"]


class Entry(NamedTuple):
    """A tensor that enters the block.

    Attributes:
        kind: "carry": what the block before gives. "shared": the same for all. "weight": a block's own constant or
            variable. "other": something else, of which nobody knows what it has in common.
        first: The tensor at the earlier block.
        second: The tensor at the later one.
    """

    kind: Kind
    first: Endpoint
    second: Endpoint


@record(frozen=False)
class Alignment:
    """Two blocks on top of each other.

    Attributes:
        nodes: For each node of the later block, that of the earlier one.
        entries: What enters, by the pair of tensors.
        inputs: For each node of the later block, what it takes: an inner tensor, or an entry.
        constants: Nodes that are constants with the same small value in both.
    """

    nodes: dict[str, str] = field(default_factory=dict)
    entries: dict[tuple[Endpoint, Endpoint], Entry] = field(default_factory=dict)
    inputs: dict[str, list[Endpoint | Entry]] = field(default_factory=dict)
    constants: set[str] = field(default_factory=set)

    def of_kind(self, kind: Kind) -> list[Entry]:
        """The entries of one kind, in the order in which they were met."""
        return [entry for entry in self.entries.values() if entry.kind == kind]


def align(index: BodyIndex, first: str, second: str, barriers: Collection[str] = ()) -> Alignment | None:
    """Walks back from output 0 of two nodes, of which the second needs the first.

    Args:
        index: The graph or function.
        first: The node that gives the earlier block's output.
        second: The node that gives the later one's.
        barriers: Nodes that are outside of any block.

    Returns:
        What they have in common; None if they are no two blocks of a chain.
    """
    found = Alignment()
    early_nodes: set[str] = set()
    todo = [(second, first)]
    while todo:
        late, early = todo.pop()
        if found.nodes.get(late, early) != early:
            return None
        if late in found.nodes:
            continue
        found.nodes[late] = early
        if index.data(late):  # constants may be in both
            early_nodes.add(early)
            if late in early_nodes or early in found.nodes:
                return None  # this way leads past the block before
        if len(found.nodes) > _MOST_NODES:
            return None
        if _is_constant(index, late):
            found.constants.add(late)
        taken: list[Endpoint | Entry] = []
        for new, old in zip(index.data(late), index.data(early), strict=True):
            entry = _entry(index, first, new, old, barriers)
            if entry is not None:
                taken.append(found.entries.setdefault((old, new), entry))
            else:
                taken.append(new)
                todo.append((new.node, old.node))
        found.inputs[late] = taken
    return found if _is_chain(index, found) else None


def _entry(index: BodyIndex, first: str, new: Endpoint, old: Endpoint, barriers: Collection[str]) -> Entry | None:
    """Whether a pair of tensors enters from outside, and as what; None if both belong to their blocks."""
    if new == Endpoint(first, 0):
        return Entry("carry", old, new)
    one, other = index.nodes.get(new.node), index.nodes.get(old.node)
    if new == old:
        is_small = one is not None and small_constant(one) is not None
        return None if is_small else Entry("shared", old, new)
    if one is None or other is None:
        return Entry("weight", old, new)  # arguments of a function: mostly variables
    if new.node in barriers or old.node in barriers:
        return Entry("other", old, new)
    if reads_weight(index, one) and reads_weight(index, other) and not _is_same_constant(one, other):
        return Entry("weight", old, new)
    fits = one.op == other.op and new.output == old.output
    return None if fits and len(index.data(one.name)) == len(index.data(other.name)) else Entry("other", old, new)


def reads_weight(index: BodyIndex, node: Node) -> bool:
    """Whether a node gives a variable or a constant, be it through an Identity."""
    for _ in range(10):
        if node.op in VARIABLES or node.op == "ReadVariableOp":
            return True
        if node.op == "Const":
            return node.constant is not None and node.constant.dtype.name.startswith(_NUMBERS)
        data = index.data(node.name)
        below = index.nodes.get(data[0].node) if node.op == "Identity" and data else None
        if below is None:
            return False
        node = below
    return False


def small_constant(node: Node) -> Tensor | None:
    """The value of a constant of a few numbers."""
    tensor = node.constant
    if tensor is None or isinstance(tensor, OpaqueTensor):
        return None
    return tensor if 0 < (tensor.shape.elements or 0) <= _MOST_VALUES else None


def _is_same_constant(one: Node, other: Node) -> bool:
    left, right = small_constant(one), small_constant(other)
    if left is None or right is None or left.dtype != right.dtype or left.shape != right.shape:
        return False
    return bool(left.numpy().tolist() == right.numpy().tolist())


def _is_constant(index: BodyIndex, name: str) -> bool:
    return index.nodes[name].op == "Const"


def common_attrs(index: BodyIndex, late: str, early: str) -> dict[str, Attr]:
    """The attributes that the op's definition declares and that both have alike."""
    one, other = index.nodes[late], index.nodes[early]
    op = index.body.op_def(one.op)
    declared = {attr.name: attr.default for attr in op.attrs} if op is not None else dict.fromkeys(one.attrs)
    found: dict[str, Attr] = {}
    for name, default in sorted(declared.items()):
        left, right = one.attrs.get(name, default), other.attrs.get(name, default)
        if left is None or right is None or name.startswith("_") or (one.op, name) == ("Const", "value"):
            continue
        if is_same_attr(left, right):
            found[name] = left
    return found


def _is_chain(index: BodyIndex, found: Alignment) -> bool:
    """Whether the earlier block feeds the later one by one tensor, and constants are equal."""
    carried = {entry.first for entry in found.of_kind("carry")}
    constants_fit = all(
        found.nodes[name] == name or _is_same_constant(index.nodes[name], index.nodes[found.nodes[name]])
        for name in found.constants
    )
    return len(carried) == 1 and constants_fit and len(found.nodes) - len(found.constants) > 1


_NUMBER = re.compile(r"([0-9]{1,9})")
_READ = re.compile(r"/(Read/ReadVariableOp|ReadVariableOp(_\d+)?|read)$")
_COPY = re.compile(r"_[0-9]{1,6}")


def rule_of(first: str, second: str) -> str | None:
    """What two names have in common, with `{i}` for the number that counts layers; None if there is no such number."""
    words, others = first.split("/"), second.split("/")
    if len(words) != len(others):
        return None
    found: list[str] = []
    steps: set[int] = set()
    for word, other in zip(words, others, strict=True):
        if _COPY.fullmatch(other.removeprefix(word)):  # TensorFlow counts dense, dense_1, dense_2
            steps.add(int(other[len(word) + 1 :]))
            found.append(f"{word}_{{i}}")
            continue
        parts, changed = _NUMBER.split(word), _NUMBER.split(other)
        if len(parts) != len(changed) or parts[::2] != changed[::2]:
            return None
        text = ""
        for at, (part, new) in enumerate(zip(parts, changed, strict=True)):
            steps |= {int(new) - int(part)} if at % 2 and part != new else set()
            text += "{i}" if at % 2 and part != new else new
        found.append(text)
    return "/".join(found) if len(steps) == 1 else None


def local_name(rule: str | None, op: str) -> str:
    """A short name for a node or tensor inside of its layer: what follows the layer's own scope."""
    if rule is None:
        return op.lower()
    text = _READ.sub("", rule)
    before, mark, rest = text.rpartition("{i}")
    if not mark:
        return text.rpartition("/")[2] or op.lower()
    scope, slash, name = rest.partition("/")
    if slash and not scope:
        return name
    stem = before.rpartition("/")[2]
    return "/".join(part for part in (scope.strip("_.") or stem.strip("_."), name) if part) or op.lower()


class _Number(NamedTuple):
    """A number in the names of all blocks: what it is in the first, and by how much it goes up with each."""

    start: int
    step: int


def rules_of_units(names: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Rules for names, as `ir.name_rule` has them.

    Args:
        names: For each input of a block, what it is called in the first block, the second, and so on to the last.

    Returns:
        For each input whose names are counted evenly, its rule. `{i}` is what most of them count.
    """
    found = {name: parts for name, texts in names.items() if (parts := _counted(texts)) is not None}
    starts = Counter(
        part.start for parts in found.values() for part in parts if isinstance(part, _Number) and part.step == 1
    )
    first = starts.most_common(1)[0][0] if starts else 0
    return {name: "".join(_text(part, first) for part in parts) for name, parts in found.items()}


def _counted(names: Sequence[str]) -> list[str | _Number] | None:
    """A name in parts, of which some are numbers that go up evenly; None if the names differ otherwise."""
    rows = [_NUMBER.split(name) for name in _with_zeros(names)]
    if len({len(row) for row in rows}) != 1:
        return None
    found: list[str | _Number] = []
    has_number = False
    for at, column in enumerate(zip(*rows, strict=True)):
        if len(set(column)) == 1:
            found.append(column[0])
            continue
        values = [int(text) for text in column] if at % 2 else []
        step = values[1] - values[0] if values else 0
        if step < 1 or any(later - value != step for value, later in itertools.pairwise(values)):
            return None
        found.append(_Number(values[0], step))
        has_number = True
    return found if has_number else None


def _with_zeros(names: Sequence[str]) -> list[str]:
    """TensorFlow counts dense, dense_1, dense_2; that is dense_0, dense_1, dense_2."""
    first, *others = (name.split("/") for name in names)
    if not others or any(len(words) != len(first) for words in others):
        return list(names)
    filled = [
        f"{word}_0" if _COPY.fullmatch(other.removeprefix(word)) and other != word else word
        for word, other in zip(first, others[0], strict=True)
    ]
    return ["/".join(filled), *names[1:]]


def _text(part: str | _Number, first: int) -> str:
    if isinstance(part, str):
        return part
    offset = part.start - part.step * first
    return f"{{{part.step if part.step > 1 else ''}i{f'{offset:+d}' if offset else ''}}}"


def is_made_unique(rule: str) -> bool:
    """Whether a rule counts otherwise than block by block, as names do that TensorFlow made unique."""
    return "{i}" not in rule or rule.count("{") != rule.count("{i}")


def from_block_on(rule: str) -> str:
    """A rule without the scopes that are the same for all blocks; what a model is called differs."""
    words = rule.split("/")
    at = next((number for number, word in enumerate(words) if "{" in word), 0)
    return "/".join(words[at:])


_DEPTHS = (3, 6, 10)
"""How deep down two nodes must look the same to be tried. The way to the layer before may be short."""
_TRIED = 6
"""How many nodes that look the same are tried as the one before the last."""
_ENOUGH = 0.9
_SEARCHED = 8
"""How many of the best blocks are searched for."""
_OP = re.compile(r"[A-Z_][A-Za-z0-9_>]*")


@record
class DraftOptions:
    """What to draft.

    Attributes:
        scope: A glob; only blocks whose output's name fits it count.
        seeds: The outputs of the last block; found by itself if there are none.
        barriers: Nodes that are outside of any block.
        op: The op of the new node.
        name: The recipe's name.
    """

    scope: str | None = None
    seeds: Sequence[str] = ()
    barriers: Sequence[str] = ()
    op: str = "Fused"
    name: str = "draft"


@record
class BlockInput:
    """A tensor that enters the block.

    Attributes:
        name: What the recipe calls it.
        kind: "carry", "shared", "weight" or "other".
        rule: What the names in the model have in common, such as `encoder/layer_{i}/query/kernel`; "" if nothing.
        shape: The shape at the last block, as far as it is known.
        used: Whether the new node takes it.
    """

    name: str
    kind: str
    rule: str
    shape: Shape
    used: bool


@record
class RepeatedBlock:
    """A drafted recipe, and what it found in the model that it was drafted from.

    Attributes:
        recipe: The recipe.
        body: The function that the blocks are in; None for the graph itself.
        units: How many blocks there are in a row.
        nodes: How many nodes a block has.
        inputs: What enters a block.
    """

    recipe: Recipe
    body: str | None
    units: int
    nodes: int
    inputs: tuple[BlockInput, ...]


def draft(model: Model, options: DraftOptions | None = None) -> RepeatedBlock:
    """Finds the block that a model repeats, and makes a recipe of it. Reads small constants, and no weights.

    Linear in the nodes for real models; 100,000 nodes take some seconds.

    Raises:
        NotFoundInModelError: Nothing repeats, or there is no such seed or barrier.
        UsageError: The op is no name for an op.
    """
    options = DraftOptions() if options is None else options
    if not _OP.fullmatch(options.op):
        raise UsageError(f"{options.op!r} is no name for an op", remedy="write one such as MyEncoder")
    _check_names(model, [*options.seeds, *options.barriers])
    blocks = [
        block
        for name, body, live in _bodies(model)
        for block in _blocks(name, body, live, options, captured_variables(model.meta, body))
    ]
    if not blocks:
        remedy = "give {seeds} and {barriers}, or a {scope}; {extract(model)} cuts out a block that stands alone"
        raise NotFoundInModelError("no block of this model repeats", path=model.path, remedy=remedy)
    most = max(block.covered for block in blocks)
    # Two layers may count as one block, too; the smallest block that covers about as much is meant.
    best = max((block for block in blocks if block.covered >= _ENOUGH * most), key=lambda block: block.rank)
    return best.drafted(model)


def _check_names(model: Model, names: Sequence[str]) -> None:
    bodies: list[Body] = [model.graph, *model.graph.library.values()]
    for name in names:
        if not any(name in body for body in bodies):
            near = nearest(name, [known for body in bodies for known in body.by_name])
            remedy = f"the nearest are {', '.join(near)}" if near else "{show(model, nodes=True)} lists the nodes"
            raise NotFoundInModelError(f"there is no node {name!r}", path=model.path, remedy=remedy)


def _bodies(model: Model) -> Iterator[tuple[str | None, Body, Collection[str]]]:
    yield None, model.graph, outside_of_graph(model).live
    for name, function in model.graph.library.items():
        yield name, function, outside_of_function(function, model.meta).live


@record
class _Block:
    """A block that was found when it was searched for."""

    index: BodyIndex
    name: str | None
    alignment: Alignment
    recipe: Recipe
    inputs: tuple[tuple[str, Entry, str], ...]
    match: Match

    @property
    def covered(self) -> int:
        """How much of the model it covers."""
        return len(self.match.units) * len(self.alignment.nodes)

    @property
    def rank(self) -> tuple[int, int, int]:
        """Many blocks are better than few; then much covered, then little that enters."""
        return len(self.match.units), self.covered, -len(self.inputs)

    def drafted(self, model: Model) -> RepeatedBlock:
        inference = Inference(model.graph, model.meta.objects)
        found = []
        rules = self._rules()
        for name, entry, rule in self.inputs:
            used = entry.kind in ("carry", "shared", "weight")
            shape = inference.shape(self.index.body, entry.second)
            rule = rule if entry.kind == "shared" else rules.get(name, "")
            found.append(BlockInput(name, entry.kind, rule, shape, used))
        recipe = self._named(rules)
        return RepeatedBlock(recipe, self.name, len(self.match.units), len(self.alignment.nodes), tuple(found))

    def _rules(self) -> dict[str, str]:
        """What the tensors of all blocks are called, with `{i}` for the number of the block."""
        names = {
            name: [self.index.names(unit.inputs[name])[-1] for unit in self.match.units]
            for name, entry, _ in self.inputs
            if entry.kind in ("weight", "other")
        }
        return rules_of_units(names)

    def _named(self, rules: Mapping[str, str]) -> Recipe:
        """The recipe with rules for the names of weights, where these are counted as the blocks are.

        Names that TensorFlow made unique are left out: another model of the kind may have others.
        """
        weights = {name for name, entry, _ in self.inputs if entry.kind == "weight"}
        counted = {name: rule for name, rule in rules.items() if name in weights and not is_made_unique(rule)}
        (variant,) = self.recipe.variants
        try:
            parsed = {name: parse_name_rule(from_block_on(rule)) for name, rule in counted.items()}
        except UsageError:  # names of thousands of characters
            return self.recipe
        query = replace(variant.query, names=parsed)
        named = replace(self.recipe, variants=(replace(variant, query=query),))
        again = Matcher(named).find_in(self.index, name=self.name).matches
        return named if any(match.units[-1].nodes == self.match.units[-1].nodes for match in again) else self.recipe


def _blocks(
    name: str | None, body: Body, live: Collection[str], options: DraftOptions, variables: Mapping[str, str]
) -> Iterator[_Block]:
    """The most promising blocks of a body, searched for."""
    index = BodyIndex(body, variables)
    found: list[tuple[tuple[int, float], str, Alignment]] = []
    for (first, second), count in _pairs(index, live, options).items():
        alignment = align(index, first, second, options.barriers)
        if alignment is not None:
            # A way past the block before means that the cut is in the middle of a layer.
            found.append(((len(alignment.of_kind("other")), -count * len(alignment.nodes)), second, alignment))
    found.sort(key=lambda item: item[0])
    for _, seed, alignment in found[:_SEARCHED]:
        recipe, inputs = _Writer(index, alignment, seed, options).write()
        try:
            matches = Matcher(recipe).find(body, name=name).matches
        except TfsmithError:  # too many steps, or a query that cannot be
            continue
        for match in matches:
            if len(match.units) > 1:
                yield _Block(index, name, alignment, recipe, inputs, match)


def _pairs(index: BodyIndex, live: Collection[str], options: DraftOptions) -> dict[tuple[str, str], float]:
    """Pairs of nodes that look the same, of which the second stands later; for each, how many there may be."""
    order = [node.name for node in index.body.topological_order() if node.name in live and index.data(node.name)]
    found: dict[tuple[str, str], float] = {}
    for labels in _labels(index):
        alike: dict[int, list[str]] = {}
        for name in order:
            alike.setdefault(labels[name], []).append(name)
        for names in alike.values():
            last = [name for name in names if name in options.seeds] if options.seeds else names[-1:]
            for second in last:
                if options.scope is not None and not fnmatchcase(second, options.scope):
                    continue
                before = names[: names.index(second)][-_TRIED:]
                for distance, first in enumerate(reversed(before), 1):
                    pair = (first, second)
                    found[pair] = max(found.get(pair, 0), len(names) / distance)
    return found


def _labels(index: BodyIndex) -> Iterator[dict[str, int]]:
    """For each node, a number that is the same for all that look the same down to some depth."""
    ops = {name: hash(node.op) for name, node in index.nodes.items()}
    labels = dict(ops)
    for depth in range(1, max(_DEPTHS) + 1):
        labels = {
            name: hash((op, *[(labels.get(end.node, 0), end.output) for end in index.data(name)]))
            for name, op in ops.items()
        }
        if depth in _DEPTHS:
            yield labels


class _Writer:
    """Makes a recipe of two blocks that lie on top of each other."""

    def __init__(self, index: BodyIndex, alignment: Alignment, seed: str, options: DraftOptions) -> None:
        self._index = index
        self._alignment = alignment
        self._seed = seed
        self._options = options
        self._taken = FreeNames(first=2)
        self._inputs: dict[tuple[Endpoint, Endpoint], tuple[str, Entry, str]] = {}
        for key, entry in self._ordered():
            rule = self._rule(entry)
            self._inputs[key] = (self._entry_name(entry, rule), entry, rule)
        self._names = {late: self._name(early, late) for late, early in alignment.nodes.items()}

    def _ordered(self) -> list[tuple[tuple[Endpoint, Endpoint], Entry]]:
        """What enters: what the block before gives, what all share, and weights in the order of the file."""
        places = {node.name: at for at, node in enumerate(self._index.body.nodes)}
        first: dict[Entry, int] = {}
        for name, taken in self._alignment.inputs.items():
            for entry in taken:
                if isinstance(entry, Entry):
                    first[entry] = min(places[name], first.get(entry, len(places)))
        entries = self._alignment.entries.items()
        return sorted(entries, key=lambda item: (_KINDS.index(item[1].kind), first[item[1]]))

    def _name(self, early: str, late: str) -> str:
        return self._taken.take(local_name(rule_of(early, late), self._index.nodes[late].op))

    def _rule(self, entry: Entry) -> str:
        first, second = (self._index.names(end)[-1] for end in (entry.first, entry.second))
        return second if entry.kind == "shared" else rule_of(first, second) or ""

    def _entry_name(self, entry: Entry, rule: str) -> str:
        if entry.kind == "carry":
            return self._taken.take("x")
        if entry.kind == "shared":
            return self._taken.take(rule.rpartition("/")[2].lower() or "shared")
        return self._taken.take(local_name(rule or None, entry.kind))

    def write(self) -> tuple[Recipe, tuple[tuple[str, Entry, str], ...]]:
        """The recipe, and for each input its name, the tensors, and the rule of their names."""
        nodes = tuple(self._query(late) for late in self._alignment.nodes)
        inputs = tuple(self._inputs.values())
        by_kind = {kind: [name for name, entry, _ in inputs if entry.kind == kind] for kind in _KINDS}
        output = Endpoint(self._names[self._seed], 0)
        query = Query(nodes, tuple(name for name, _, _ in inputs), (output,))
        repeat = Repeat(dict.fromkeys(by_kind["carry"], output), tuple(by_kind["shared"]))
        target = self._target(by_kind)
        variant = Variant("drafted", query, (target,), {output: Endpoint(target.name, 0)}, repeat)
        what = f"a block of {len(nodes)} nodes that repeats becomes one {self._options.op}"
        return Recipe(self._options.name, what, (variant,)), inputs

    def _target(self, by_kind: dict[str, list[str]]) -> TargetNode:
        weights = ", ".join(by_kind["weight"])
        inputs = [*by_kind["carry"], *by_kind["shared"], *([f"each({weights})"] if weights else [])]
        attrs = {"T": Expression(f'dtype("{by_kind["carry"][0]}")'), "Units": Expression("units()")}
        if weights:
            attrs["NumWeights"] = Expression(f"units() * {len(by_kind['weight'])}")
        name = self._taken.take("fused")
        return TargetNode(name, self._options.op, tuple(inputs), attrs, output_args=("output",))

    def _query(self, late: str) -> NodeQuery:
        node = self._index.nodes[late]
        taken: list[Endpoint] = []
        for one in self._alignment.inputs[late]:
            if isinstance(one, Entry):
                taken.append(Endpoint(self._inputs[(one.first, one.second)][0], 0))
            else:
                taken.append(Endpoint(self._names[one.node], one.output))
        commutes = len(taken) > 1 and is_commutative(node.op, node.attrs.get("T"))
        constant = self._constant(late) if late in self._alignment.constants else None
        attrs = common_attrs(self._index, late, self._alignment.nodes[late])
        return NodeQuery(self._names[late], (node.op,), tuple(taken), attrs, constant, commutes)

    def _constant(self, name: str) -> ConstantQuery | None:
        tensor = small_constant(self._index.nodes[name])
        if tensor is None or tensor.dtype.name.startswith("complex"):
            return None
        values = tensor.numpy().reshape(-1).tolist()
        plain = tuple(value if isinstance(value, (bool, int, float, bytes)) else float(value) for value in values)
        return ConstantQuery(plain, tensor.shape.dims)


_KINDS = ("carry", "shared", "weight", "other")
