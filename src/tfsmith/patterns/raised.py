"""The raised graph: every tensor of a body as a value, however it was spelled. Read-only, built in one pass.

A tensor that no rule explains is an atom of its own, so a reading always exists where the rank of the tensor is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set

from tfsmith.ir.body import Body
from tfsmith.ir.graph import Checker
from tfsmith.ir.node import Endpoint, Node
from tfsmith.ir.opdef import OpDef, builtin_op
from tfsmith.ir.tensor import Tensor
from tfsmith.ops import CONTROL_FLOW, VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.ops.shapes import flat_values
from tfsmith.ops.sizes import Size
from tfsmith.patterns.algebra import ONE, Algebra, Arg, Atom, Axes, Label, Reading, Value, constant_of
from tfsmith.patterns.parts import OF_MANY, cuts_of, part_of
from tfsmith.patterns.readings import AT_NEED, RULES, TRUTHS

__all__ = ["Raised", "Reading"]

_AXIS = re.compile(r"[^*+()]+\.(\d+)")
_WEIGHTS = VARIABLES | {"Const", "ReadVariableOp"}
_NOT_COMPUTED = frozenset({"_output_shapes", "_class", "_XlaMustCompile"})
"""Attributes that say nothing of what a node computes."""
_FAR = 12
"""So many nodes are followed to see whether two leaves are one."""
_SMALL = 64
"""Constants of so many bytes are compared."""


class Raised:
    """The readings of a body's tensors.

    Args:
        body: A graph or function.
        inference: What is known of its tensors.
        only: The nodes to look at, if not all of them; the tensors of others are leaves.
        is_rounded: Whether what is equal but for the rounding to half precision has one reading. Then it says what
            a network is, but not what can be put in its place.
    """

    def __init__(
        self, body: Body, inference: Inference, only: Set[str] | None = None, *, is_rounded: bool = False
    ) -> None:
        self.is_rounded = is_rounded
        self.algebra = Algebra()
        self.body = body
        self._inference = inference
        self._checker = Checker(body)
        self._readings: dict[Endpoint, Reading | None] = {}
        self._axis_names: dict[str, str] = {}
        self._firsts: dict[str, str] = {}
        self._equal: dict[object, str] = {}
        for node in _in_order(body, inference, only):
            if node.op not in AT_NEED:
                self._read(node)

    def __iter__(self) -> Iterator[tuple[Endpoint, Reading]]:
        """The tensors that have a reading, each after what it is made of."""
        return ((tensor, reading) for tensor, reading in self._readings.items() if reading is not None)

    def reading(self, tensor: Endpoint) -> Reading | None:
        """What a tensor is; None where not even its rank is known."""
        if tensor not in self._readings:  # a constant, an argument of a function, or a tensor that closes a loop
            node = self.body.by_name.get(tensor.node)
            if node is not None and node.op in AT_NEED and tensor.output == 0:
                self._read(node)
            elif node is not None and node.op in OF_MANY and self._checker.are_right(node):
                self._readings[tensor] = part_of(self, node, tensor.output) or self._leaf(tensor)
            if tensor not in self._readings:
                self._readings[tensor] = self._leaf(tensor)
        return self._readings[tensor]

    def inputs(self, node: Node) -> Sequence[Endpoint]:
        """The tensors that a node takes."""
        return self._inference.inputs(self.body, node)

    def sizes(self, tensor: Endpoint) -> tuple[Size, ...] | None:
        """The sizes of a tensor."""
        return self._by_axis(self._inference.known(self.body, tensor).dims)

    def integers(self, tensor: Endpoint) -> tuple[Size, ...] | None:
        """The elements of a small tensor of integers, as far as they are known."""
        return self._by_axis(self._inference.known(self.body, tensor).values)

    def _by_axis(self, sizes: tuple[Size, ...] | None) -> tuple[Size, ...] | None:
        """Sizes in which the names of the same axis of different inputs are one: words and mask are equally long."""
        if sizes is None or all(type(size) is int for size in sizes):
            return sizes
        return tuple(self._axis_name(size) if isinstance(size, str) else size for size in sizes)

    def _axis_name(self, size: str) -> str:
        found = self._axis_names.get(size)
        if found is None:
            found = self._axis_names[size] = _AXIS.sub(r"axis\1", size)
        return found

    def constant(self, tensor: Endpoint) -> Tensor | None:
        """The constant that a tensor is."""
        return self._inference.constant(self.body, tensor)

    def is_table(self, tensor: Endpoint) -> bool:
        """Whether a tensor is a constant or a variable, as it is stored."""
        node = self.body.by_name.get(tensor.node)
        return node is not None and node.op in _WEIGHTS

    def is_weight(self, atom: Atom) -> bool:
        """Whether an atom is a constant or a variable, as it is stored, or a part of one."""
        name, _ = cuts_of(self.algebra, atom)
        node = None if name is None else self.body.by_name.get(name.rpartition(":")[0])
        return node is not None and node.op in _WEIGHTS

    def is_indicator(self, value: Value) -> bool:
        """Whether a value is 0 or 1 everywhere: what is true, as a number."""
        number = constant_of(value)
        if number is not None:
            return number in (0.0, 1.0)
        if len(value) == 2 and constant_of(value[:1]) == 1 and value[1][1] == -1:
            value = ((value[1][0], 1.0),)
        return len(value) == 1 and value[0][1] == 1 and all(self._is_truth(atom) for atom, _ in value[0][0])

    def _is_truth(self, atom: Atom) -> bool:
        """Whether an atom is 0 or 1."""
        head = self.algebra.head(atom)
        if head[0] in ("tensor", "part"):
            name, _, output = str(cuts_of(self.algebra, atom)[0]).rpartition(":")
            kind = self._inference.dtype(self.body, Endpoint(name, int(output)))
            return kind is not None and kind.name == "bool"
        if head[0] == "sum":
            return self.is_indicator(self.algebra.inside(atom))
        return head[0] in TRUTHS or (head[0] == "cast" and head[-1] == "bool")

    def recognised(self) -> Iterator[tuple[str, Endpoint, Atom]]:
        """Each layer norm, GELU, softmax and attention, with the first tensor that has it."""
        seen: set[int] = set()
        for tensor, reading in self:
            for product, _ in reading.value:
                for atom, _ in product:
                    if atom[0] in seen:
                        continue
                    seen.add(atom[0])
                    kind = str(self.algebra.head(atom)[0])
                    if kind == "contract" and self._is_attention(atom):
                        kind = "attention"
                    if kind in ("norm", "gelu", "softmax", "attention"):
                        yield kind, tensor, atom

    def _is_attention(self, atom: Atom) -> bool:
        """Whether a contraction is that of a softmax with something, over the softmax's own labels."""
        head = self.algebra.head(atom)
        number, bound = head[1], head[2]
        assert isinstance(number, int)
        assert isinstance(bound, tuple)
        positions = iter(atom[1])
        labels = tuple(
            (-1 - at,) if at in bound else next(positions) for at in range(len(self.algebra.class_sizes(number)))
        )
        for product, _ in self.algebra.value_of(number, labels):
            for inner, _ in product:
                other = self.algebra.head(inner)
                if other[0] == "softmax" and isinstance(other[2], tuple):
                    over = {label for at in other[2] for label in inner[1][at]}
                    if over == {-1 - at for at in bound}:
                        return True
        return False

    def _leaf(self, tensor: Endpoint) -> Reading | None:
        sizes = self.sizes(tensor)
        if sizes is None:
            return None
        axes = self.algebra.axes(sizes)
        node = self.body.by_name.get(tensor.node)
        name = tensor.node if node is None or node.op == "Const" else self._first(tensor.node, _FAR)  # weights stay two
        return Reading(self.algebra.single(("tensor", f"{name}:{tensor.output}"), axes), axes)

    def _first(self, name: str, far: int) -> str:
        """The first node that computes what this one does, of the same inputs: masks are often made for each layer."""
        found = self._firsts.get(name)
        if found is not None:
            return found
        node = self.body.by_name.get(name)
        found = name
        said = _settings(self.body, node) if node is not None and far else None
        if node is not None and said is not None:
            inputs = self._inference.inputs(self.body, node)
            taken = tuple([(self._first(one, far - 1), output) for one, output in inputs])
            found = self._equal.setdefault((node.op, taken, said), name)
        self._firsts[name] = found
        return found

    def _read(self, node: Node) -> None:
        rule = RULES.get(node.op)
        first = Endpoint(node.name, 0)
        if rule is None:
            return
        inputs, definition = self.inputs(node), builtin_op(node.op)
        if definition is not None and len(inputs) < len(definition.inputs) and len(inputs) < max(1, _least(definition)):
            return  # a damaged graph: the rules take for granted what the op must be given
        if not self._checker.are_right(node):
            return
        found = rule(self, node, inputs)
        if found is not None:
            self._readings[first] = found

    # what the rules are made of

    def aligned(self, one: Reading, other: Reading) -> tuple[Value, Value, Axes] | None:
        """Two readings with the same labels for axes that are combined element by element."""
        if one.axes == other.axes or not other.axes:
            return one.value, other.value, one.axes
        rank = max(len(one.axes), len(other.axes))
        left = ((),) * (rank - len(one.axes)) + one.axes
        right = ((),) * (rank - len(other.axes)) + other.axes
        for_one: dict[Label, Arg] = {}
        for_other: dict[Label, Arg] = {}
        taken = {label for arg in left for label in arg}
        axes: list[Arg] = []
        for mine, theirs in zip(left, right, strict=True):
            if not theirs or mine == theirs:
                axes.append(mine)
            elif not mine:
                fresh = tuple(
                    self.algebra.label(self.algebra.size(label)) if label in taken else label for label in theirs
                )
                for_other |= {label: (new,) for label, new in zip(theirs, fresh, strict=True)}
                axes.append(fresh)
            else:
                found = self.algebra.refine(mine, theirs)
                if found is None:
                    return None
                for_one |= found[0]
                for_other |= found[1]
                axes.append(tuple(new for label in mine for new in found[0][label]))
        return self.algebra.put(one.value, for_one), self.algebra.put(other.value, for_other), tuple(axes)

    def contracted(self, operands: Sequence[tuple[Reading, str]], result: str) -> Reading | None:
        """The product of readings whose axes have letters, summed over the letters that the result lacks."""
        letters: dict[str, Arg] = {}
        values: list[Value] = []
        for reading, names in operands:
            if len(reading.axes) != len(names) or len(set(names)) != len(names):
                return None
            value, axes = reading.value, list(reading.axes)
            if values:  # the labels of the first stay
                fresh = self._fresh(axes, [letters.get(name, ()) for name in names])
                value = self.algebra.put(value, fresh)
                axes = [_put(arg, fresh) for arg in axes]
            for at, name in enumerate(names):
                mine = letters.get(name, ())
                if not mine or not axes[at] or mine == axes[at]:
                    letters[name] = mine or axes[at]
                    continue
                found = self.algebra.refine(mine, axes[at])
                if found is None:
                    return None
                values = [self.algebra.put(each, found[0]) for each in values]
                letters = {key: _put(arg, found[0]) for key, arg in letters.items()}
                value = self.algebra.put(value, found[1])
                axes = [_put(arg, found[1]) for arg in axes]
            values.append(value)
        product = ONE
        for value in values:
            product = self.algebra.multiply(product, value)
        gone = frozenset([label for name, arg in letters.items() if name not in result for label in arg])
        if any(name not in letters for name in result):
            return None
        return Reading(self.algebra.reduce(product, gone), tuple([letters[name] for name in result]))

    def _fresh(self, axes: Sequence[Arg], meets: Sequence[Arg]) -> dict[Label, Arg]:
        """Other labels for axes: those of axes that they meet, where these are as long, else new ones."""
        found: dict[Label, Arg] = {}
        size = self.algebra.size
        for arg, met in zip(axes, meets, strict=True):
            if len(arg) == len(met) == 1 and size(arg[0]) == size(met[0]):
                found[arg[0]] = met
            else:
                found |= {label: (self.algebra.label(size(label)),) for label in arg}
        return found


def _least(definition: OpDef) -> int:
    """How many inputs an op takes at least: its lists may be empty."""
    return sum(not one.number_attr and not one.type_list_attr for one in definition.inputs)


def _settings(body: Body, node: Node) -> tuple[object, ...] | None:
    """What a node computes, besides its op and inputs; None where equal inputs may give other outputs.

    So it is of nodes with a state, in a loop, of calls, and of constants with many elements.
    """
    if any(text[:1] == "^" for text in node.inputs) or node.op in CONTROL_FLOW:
        return None
    if node.op == "Const":
        tensor = node.constant
        if tensor is None or not tensor.dtype.itemsize or tensor.nbytes > _SMALL:
            return None
        return tensor.dtype.name, tensor.shape.dims, tuple(flat_values(tensor))
    definition = body.op_def(node.op)
    if not node.inputs or definition is None or definition.is_stateful or node.op in VARIABLES:
        return None
    found = [(name, attr.kind, attr.value) for name, attr in node.attrs.items() if name not in _NOT_COMPUTED]
    return None if any("func" in kind or "tensor" in kind for _, kind, _ in found) else tuple(sorted(found, key=str))


def _put(arg: Arg, labels: Mapping[Label, Arg]) -> Arg:
    if len(arg) == 1:
        return labels.get(arg[0], arg)
    return tuple([new for label in arg for new in labels.get(label, (label,))])


def _in_order(body: Body, inference: Inference, only: Set[str] | None) -> Iterator[Node]:
    """The nodes, each after what it takes; those in a circle in any order. Linear, no recursion."""
    done: set[str] = set()
    by_name = body.by_name
    for root in body:
        if root.name in done or (only is not None and root.name not in only):
            continue
        for source, _ in inference.inputs(body, root):
            if source not in done and source in by_name:
                break
        else:
            done.add(root.name)  # as nearly all in a file
            yield root
            continue
        stack = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                yield node
                continue
            if node.name in done:
                continue
            done.add(node.name)
            stack.append((node, True))
            for tensor in inference.inputs(body, node):
                if tensor.node not in done and tensor.node in by_name:
                    stack.append((by_name[tensor.node], False))
