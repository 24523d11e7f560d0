"""A recipe's query made ready for searching: checked, numbered, ordered; and whether one node is as it asks."""

from __future__ import annotations

import heapq
import itertools
import struct
from collections.abc import Collection, Iterator
from math import isfinite, prod
from typing import Any, NamedTuple

from tfsmith.errors import UsageError
from tfsmith.ir.node import CONTROL, Attr, Endpoint, Func, Node
from tfsmith.ir.recipe import ConstantQuery, NameRule, NodeQuery, Query, Recipe, Repeat
from tfsmith.ir.tensor import FilledTensor, OpaqueTensor, StringTensor, Tensor
from tfsmith.ir.types import Shape
from tfsmith.limits import MAX_SMALL_MESSAGE
from tfsmith.ops.shapes import flat_values
from tfsmith.patterns.index import BodyIndex
from tfsmith.records import record

__all__ = [
    "Plan",
    "Slot",
    "Step",
    "PlanNode",
    "depth_of",
    "make_plan",
    "check_connected",
    "validate",
    "attr_of",
    "constant_misfit",
    "is_same_attr",
    "misfit",
]


class Slot(NamedTuple):
    """What a wanted node takes at one place: an output of a wanted node, or an input of the query.

    Attributes:
        node: The number of the wanted node; -1 for an input of the query.
        input: The number of the input of the query; -1 for a wanted node.
        output: The output's number; `CONTROL` for a control edge.
    """

    node: int
    input: int
    output: int


@record(eq=False)
class PlanNode:
    """One wanted node.

    Attributes:
        number: Its place in the query.
        query: What the recipe says of it.
        ops: Any of these ops will do.
        data: The tensors that it takes, in order.
        controls: The nodes that it must wait for.
        swapped: `data` with the first two exchanged, where they may be and it makes a difference.
        rule: What its name must be like; None where that does not matter.
    """

    number: int
    query: NodeQuery
    ops: frozenset[str]
    data: tuple[Slot, ...]
    controls: tuple[Slot, ...]
    swapped: tuple[Slot, ...] | None
    rule: NameRule | None

    @property
    def name(self) -> str:
        """What the recipe calls it."""
        return self.query.name


class Step(NamedTuple):
    """How to go on when all that the nodes found so far need is found.

    Attributes:
        kind: "user": `node` is looked for among those that take `slot`, which is known, as a tensor.
            "waiter": `node` is looked for among those that wait for `slot`, which is known.
            "awaited": `slot` is looked for among those that `node`, which is known, waits for.
        node: The number of a wanted node.
        slot: One of its inputs.
    """

    kind: str
    node: int
    slot: Slot


@record(eq=False)
class Plan:
    """A query made ready.

    Attributes:
        query: The query.
        wanted: Its nodes.
        seed: The number of the node that the search begins at: the first output's, or the first that takes tensors.
        steps: How to go on from there.
        through: The ops that may be passed through.
        numbers: For each node's name, its number.
        inputs: For each input's name, its number.
        loose: The nodes that nothing connects with the seed. A sound query has none.
        rules: What the names of inputs must be like, by the input's number.
    """

    query: Query
    wanted: tuple[PlanNode, ...]
    seed: int
    steps: tuple[Step, ...]
    through: frozenset[str]
    numbers: dict[str, int]
    inputs: dict[str, int]
    loose: tuple[int, ...]
    rules: dict[int, NameRule]


def make_plan(query: Query, start: str | None = None, fixed: Collection[str] = ()) -> Plan:
    """Makes a query ready; it has distinct names, knows all that it names, and has no cycle. Linear, but for a sort.

    Args:
        query: The query.
        start: The node to begin at; by default an output.
        fixed: Inputs of the query that have a say outside of it, such as those that a chain carries on.
    """
    numbers = {node.name: number for number, node in enumerate(query.nodes)}
    inputs = {name: number for number, name in enumerate(query.inputs)}
    counts = dict.fromkeys(query.inputs, 0)
    for node in query.nodes:
        for name, _ in node.inputs:
            if name in counts:
                counts[name] += 1
    fixed = {*fixed, *query.names}
    free = {inputs[name] for name, count in counts.items() if count == 1 and name not in fixed}
    wanted = tuple(
        _wanted(number, node, numbers, inputs, free, query.names.get(node.name))
        for number, node in enumerate(query.nodes)
    )
    seed = _seed(query, wanted, numbers) if start is None else numbers[start]
    order = _Order(wanted, len(inputs))
    # Control edges are looked at last: by then, most of what they name is known.
    waits = [Step("awaited", one.number, slot) for one in wanted for slot in one.controls]
    steps = (*order.steps(seed), *waits)
    loose = tuple(number for number in range(len(wanted)) if number not in order.known)
    rules = {inputs[name]: rule for name, rule in query.names.items() if name in inputs}
    return Plan(query, wanted, seed, steps, frozenset(query.through), numbers, inputs, loose, rules)


def _wanted(
    number: int,
    node: NodeQuery,
    numbers: dict[str, int],
    inputs: dict[str, int],
    free: set[int],
    rule: NameRule | None,
) -> PlanNode:
    slots = [Slot(numbers.get(name, -1), inputs.get(name, -1), output) for name, output in node.inputs]
    data = tuple(slot for slot in slots if slot.output != CONTROL)
    controls = tuple(slot for slot in slots if slot.output == CONTROL)
    swapped = None
    # Two inputs that stand nowhere else fit in both orders or in none; the order as written will do.
    if node.is_commutative and data[0] != data[1] and not all(slot.input in free for slot in data[:2]):
        swapped = (data[1], data[0], *data[2:])
    return PlanNode(number, node, frozenset(node.ops), data, controls, swapped, rule)


def _seed(query: Query, wanted: tuple[PlanNode, ...], numbers: dict[str, int]) -> int:
    """A Const that is an output says little; one that takes tensors says where the others are."""
    seeds = [numbers[output.node] for output in query.outputs]
    return next((seed for seed in seeds if wanted[seed].data), seeds[0])


def depth_of(plan: Plan) -> int:
    """The nodes on the longest way down from the seed. Linear."""
    depths: dict[int, int] = {}
    stack = [plan.seed]
    while stack:
        number = stack[-1]
        below = {slot.node for slot in plan.wanted[number].data if slot.node >= 0}
        missing = [one for one in below if one not in depths]
        if missing and number not in depths:
            stack.extend(missing)
            continue
        depths[number] = 1 + max((depths[one] for one in below), default=0)
        stack.pop()
    return depths[plan.seed]


class _Order:
    """Works out the steps: nodes and inputs become known, and each may lead to nodes that are not."""

    def __init__(self, wanted: tuple[PlanNode, ...], inputs: int) -> None:
        self._wanted = wanted
        self.known: set[int] = set()
        self._inputs: set[int] = set()
        self._node_users: list[list[tuple[int, Slot]]] = [[] for _ in wanted]
        self._input_users: list[list[tuple[int, Slot]]] = [[] for _ in range(inputs)]
        for one in wanted:
            for slot in (*one.data, *one.controls):
                users = self._node_users[slot.node] if slot.node >= 0 else self._input_users[slot.input]
                users.append((one.number, slot))
        # The best way on is the first of this heap: (how good it is, when it was found, the step).
        self._ways: list[tuple[int, int, Step]] = []
        self._clock = itertools.count()

    def steps(self, seed: int) -> Iterator[Step]:
        self._learn(seed)
        while self._ways:
            step = heapq.heappop(self._ways)[2]
            new = step.slot.node if step.kind == "awaited" else step.node
            if new in self.known:
                continue
            yield step
            self._learn(new)

    def _learn(self, start: int) -> None:
        """All that is reached from a node by the tensors that it takes is known with it."""
        stack = [start]
        while stack:
            number = stack.pop()
            if number in self.known:
                continue
            self.known.add(number)
            one = self._wanted[number]
            for user, slot in self._node_users[number]:
                self._offer(user, slot, 0 if one.data else 2)
            for slot in one.data:
                if slot.node >= 0:
                    stack.append(slot.node)
                elif slot.input not in self._inputs:
                    self._inputs.add(slot.input)
                    for user, taken in self._input_users[slot.input]:
                        self._offer(user, taken, 1)
            for slot in one.controls:
                if slot.node >= 0 and slot.node not in self.known:
                    self._push(3, Step("awaited", number, slot))

    def _offer(self, user: int, slot: Slot, rank: int) -> None:
        if user in self.known:
            return
        if slot.output == CONTROL:
            self._push(4, Step("waiter", user, slot))
        else:
            self._push(rank, Step("user", user, slot))

    def _push(self, rank: int, step: Step) -> None:
        heapq.heappush(self._ways, (rank, next(self._clock), step))


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


_SHOWN = 60
"""Characters of a value in a message."""


def misfit(wanted: PlanNode, node: Node, index: BodyIndex) -> str | None:
    """Why this node is not as the wanted one, in a sentence; None if it is.

    Reads the values of a constant only where the recipe wants certain values, and never more than it wants.
    """
    if node.op not in wanted.ops:
        return f"the op must be {' or '.join(wanted.query.ops)}, and it is {node.op}"
    count = len(index.data(node.name))
    if count != len(wanted.data):
        return f"it must have {_count(len(wanted.data), 'input')}, and it has {count}"
    if wanted.rule is not None and wanted.rule.count((node.name,)) is None:
        return f"its name must fit {wanted.rule.text!r}, and it is {node.name!r}"
    for name, value in wanted.query.attrs.items():
        found = attr_of(node, name, index)
        if found is None:
            return f"attribute {name} must be {_text(value.value)}, and it has none"
        if not is_same_attr(value, found):
            return f"attribute {name} must be {_text(value.value)}, and it is {_text(found.value)}"
    return None if wanted.query.constant is None else constant_misfit(wanted.query.constant, node)


def attr_of(node: Node, name: str, index: BodyIndex) -> Attr | None:
    """An attribute of a node; where the file leaves it out, the default that the op's definition gives it."""
    found = node.attrs.get(name)
    if found is not None:
        return found
    op = index.body.op_def(node.op)
    return None if op is None else next((known.default for known in op.attrs if known.name == name), None)


def is_same_attr(wanted: Attr, found: Attr) -> bool:
    """Whether two attributes are equal. Floats are compared as the file stores them, in 32 bits; NaN equals nothing."""
    if wanted.kind.startswith("list") and found.kind.startswith("list"):
        if len(wanted.items) != len(found.items):
            return False
        same_kind = not wanted.items or wanted.kind == found.kind  # an empty list carries no kind
        return same_kind and all(map(_is_same, wanted.items, found.items))
    return wanted.kind == found.kind and _is_same(wanted.value, found.value)


def _is_same(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        return _single(wanted) == _single(found)
    if isinstance(wanted, Func) and isinstance(found, Func):
        if wanted.name != found.name or wanted.attrs.keys() != found.attrs.keys():
            return False
        return all(is_same_attr(value, found.attrs[name]) for name, value in wanted.attrs.items())
    if hasattr(wanted, "parts") and hasattr(found, "parts"):
        return _is_same_tensor(wanted, found)
    return bool(wanted == found)


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return value


def _is_same_tensor(wanted: Tensor, found: Tensor) -> bool:
    if wanted is found:
        return True
    if wanted.dtype != found.dtype or wanted.shape != found.shape:
        return False
    if isinstance(wanted, OpaqueTensor) or isinstance(found, OpaqueTensor) or wanted.nbytes > MAX_SMALL_MESSAGE:
        return False
    return bool(wanted.numpy().tolist() == found.numpy().tolist())


def constant_misfit(wanted: ConstantQuery, node: Node) -> str | None:
    """Why a constant does not have the wanted values; None if it has them.

    Reads no tensor that has more elements than are wanted. One that says in a few bytes that it is filled with one
    value is not made either.
    """
    value = node.attrs.get("value")
    tensor = None if value is None else value.tensor
    if tensor is None:
        return f"its value must be {_values(wanted)}, and it has none"
    if isinstance(tensor, OpaqueTensor):
        return f"its value must be {_values(wanted)}, and it is of dtype {tensor.dtype}"
    if wanted.shape is not None and tensor.shape.dims != wanted.shape:
        return f"its value must have the shape {Shape(wanted.shape)}, and it has {tensor.shape}"
    elements = tensor.shape.elements or 0
    fill = _fill(tensor, elements) if len(wanted.values) == 1 else None
    if fill is not None:
        fits = _is_value(wanted, 0, fill, tensor)
        return None if fits else f"its value must be {_values(wanted)}, and it is {_text(fill)}"
    most = len(wanted.values) if wanted.shape is None else Shape(wanted.shape).elements
    if elements != most:
        return f"its value must be {_values(wanted)}, and it has {_count(elements, 'element')}"
    found = flat_values(tensor)
    step = 1 if len(wanted.values) > 1 else 0
    for at, one in enumerate(found):
        if not _is_value(wanted, at * step, one, tensor):
            return f"its value must be {_values(wanted)}, and it is {_text(found[0] if elements == 1 else found)}"
    return None


def _fill(tensor: Tensor, elements: int) -> Any:
    """The one value that fills a tensor, where its few bytes say so; else None."""
    if not elements:
        return None
    if isinstance(tensor, FilledTensor) and len(tensor.values) <= tensor.dtype.itemsize:
        return flat_values(FilledTensor(tensor.dtype, Shape(()), tensor.values))[0]
    if isinstance(tensor, StringTensor) and len(tensor.values) <= 1:
        return tensor.values[0] if tensor.values else b""
    return None


def _is_value(wanted: ConstantQuery, at: int, found: Any, tensor: Tensor) -> bool:
    value = wanted.values[at]
    if isinstance(value, bytes) or isinstance(found, bytes):
        return bool(value == found)
    if value == found:
        return True
    if not isinstance(found, (float, complex)):
        return False  # integers have no tolerance
    try:
        is_near = abs(found - value) <= wanted.tolerance * abs(value) < float("inf")
    except OverflowError:  # an integer that no float can hold
        return False
    return is_near or _is_rounded(value, found, tensor)


def _is_rounded(value: float, found: complex, tensor: Tensor) -> bool:
    """Whether a short type such as bfloat16 cannot say the value better than this."""
    if tensor.dtype.name in ("float32", "float64"):
        rounded = _single(value) if tensor.dtype.name == "float32" else value
        return bool(rounded == found and rounded and abs(rounded) < float("inf"))
    import numpy

    with numpy.errstate(all="ignore"):
        rounded = numpy.asarray(value, numpy.float64).astype(tensor.dtype.numpy()).tolist()
    return bool(rounded == found and rounded and abs(rounded) < float("inf"))


def _values(wanted: ConstantQuery) -> str:
    return _text(wanted.values[0] if len(wanted.values) == 1 else list(wanted.values))


def _text(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        text = "[" + ", ".join(_text(one) for one in value[:_SHOWN]) + "]"
    elif isinstance(value, (str, bytes, float, int, bool)):
        text = repr(value)
    else:
        text = value.name if isinstance(value, Func) else str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
