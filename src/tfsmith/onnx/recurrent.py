"""Loops that are LSTM, GRU or a simple recurrent layer, and nothing else.

It is the body as ONNX that is looked at, so that it does not matter how the loop was spelled: by Keras, as a While with
lists of tensors, or by TensorFlow 1, with arrays. A step must read its row of the input, compute the gates as sums of
products, and give the new state; the loop must go over all rows, or end with the longest of the lengths that sequences
have, after which the state stays and the output is zero. What differs in anything (masks, projections, another
activation than ONNX has) stays a loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy
import onnx_ir

from tfsmith.ir.tensor import ArrayTensor, Tensor
from tfsmith.ir.tensor_views import JoinedTensor, PartTensor, ReshapedTensor, TransposedTensor
from tfsmith.ir.types import Shape
from tfsmith.onnx.builder import FLOAT32, INT32, Builder, Val
from tfsmith.ops.sizes import Known
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LoopBody", "recurrent"]

_ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "Softsign", "Softplus")
_HANDS_ON = ("Identity",)
_SAME_TRUTHS = ("Identity", "Reshape", "Squeeze", "Unsqueeze")
_SAME_NUMBER = ("Identity", "Cast", "Reshape", "Squeeze", "Unsqueeze")
_END = 2**31
_ALL = (0, _END)
"""All columns."""
_Results: TypeAlias = "tuple[list[Val], list[Val]]"
_Gate: TypeAlias = "tuple[Tensor, Tensor, NDArray[Any]]"


class LoopBody:
    """The body of a loop, lowered.

    Args:
        carried: For each tensor that it carries: what it is at first, in a step, and after it.
        items: What it stacks.
        goes_on: Whether there is another step.
        nodes: Its nodes.
    """

    def __init__(
        self,
        b: Builder,
        carried: Mapping[int, tuple[Val, onnx_ir.Value, onnx_ir.Value]],
        items: Mapping[int, onnx_ir.Value],
        goes_on: onnx_ir.Value,
        nodes: Sequence[onnx_ir.Node],
    ) -> None:
        self.b = b
        self.carried = carried
        self.items = items
        self._goes_on = goes_on
        self._nodes = {id(node) for node in nodes}
        self.counters = [at for at in carried if self._counts(at)]

    def is_inside(self, value: onnx_ir.Value) -> bool:
        """Whether a value is computed, or changes, with each step."""
        maker = value.producer()
        if maker is not None:
            return id(maker) in self._nodes
        return any(value is taken for _, taken, _ in self.carried.values())

    def maker(self, value: onnx_ir.Value | None, passed: Sequence[str] = _HANDS_ON) -> onnx_ir.Node | None:
        """The node of the body that computes a value, behind what hands it on; None of what comes from outside."""
        found = None if value is None else self.source(value, passed)
        return found.producer() if found is not None and self.is_inside(found) else None

    def source(self, value: onnx_ir.Value, passed: Sequence[str] = _HANDS_ON) -> onnx_ir.Value:
        """Where a value comes from, behind what hands it on."""
        maker = value.producer()
        while maker is not None and not maker.domain and maker.op_type in passed and maker.inputs[0] is not None:
            value = maker.inputs[0]
            maker = value.producer()
        return value

    def _counts(self, at: int) -> bool:
        """Whether a tensor begins at 0, and each step adds 1."""
        initial, taken, after = self.carried[at]
        node = self.maker(after)
        if initial.known.numbers != (0,) or node is None or node.op_type != "Add":
            return False
        ends = [self.source(value) for value in node.inputs if value is not None]
        others = [end for end in ends if end is not taken]
        one = self.b.const_of(others[0]) if len(ends) == 2 and len(others) == 1 else None
        return one is not None and one.size == 1 and one.reshape(-1)[0] == 1

    def counter_of(self, value: onnx_ir.Value) -> int | None:
        """Which tensor that counts the steps a value is; None if it is none."""
        found = self.source(value, _SAME_NUMBER)
        return next((at for at in self.counters if found is self.carried[at][1]), None)

    def limits(self) -> list[onnx_ir.Value]:
        """What the numbers of the steps stay below; empty if something else ends the loop, too."""
        found = list(self._limits(self._goes_on))
        return [] if None in found else [one for one in found if one is not None]

    def _limits(self, value: onnx_ir.Value) -> Iterator[onnx_ir.Value | None]:
        node = self.maker(value)
        if node is not None and node.op_type == "And":
            for one in node.inputs:
                yield from self._limits(one) if one is not None else (None,)
            return
        ends = [] if node is None or node.op_type != "Less" else list(node.inputs)
        if len(ends) != 2 or ends[0] is None or ends[1] is None:
            yield None
            return
        below, limit = self.source(ends[0]), ends[1]
        while self.is_inside(limit) and (outer := self.source(limit, _SAME_NUMBER)) is not limit:
            limit = outer
        is_counter = any(below is self.source(self.carried[at][2]) for at in self.counters)
        yield limit if is_counter and not self.is_inside(limit) else None

    def is_as_long_as(self, size: Val) -> bool:
        """Whether the loop has so many steps."""
        wanted = self.source(self.b.value(size), _SAME_NUMBER)
        limits = self.limits()
        return bool(limits) and all(
            self.source(one, _SAME_NUMBER) is wanted or _is_same(self.b.val_of(one), size) for one in limits
        )


def _is_same(one: Val, other: Val) -> bool:
    """Whether two integers are the same, whatever they are."""
    first, second = one.known.values, other.known.values
    return first is not None and second is not None and len(first) == len(second) == 1 and _agree(first[0], second[0])


def _agree(one: object, other: object) -> bool:
    return one is not None and one == other


@record(eq=False)
class _Term:
    """A part of a sum: a product of an operand with a matrix, or a bias.

    Attributes:
        of: "x" the row of the input, "h" the state, "rh" the state behind a gate, "r*" a sum behind a gate, "b" none.
        weight: The matrix, or the bias.
        gate: What the state or the sum is multiplied with.
        terms: The sum that is behind a gate.
    """

    of: str
    weight: Tensor | None = None
    gate: onnx_ir.Value | None = None
    terms: tuple[_Term, ...] = ()


@record(eq=False)
class _Active:
    """An activation of columns of a value."""

    kind: str
    value: onnx_ir.Value
    columns: tuple[int, int]


class _No(Exception):
    """The loop is something else."""


def recurrent(loop: LoopBody) -> _Results | None:
    """The loop as LSTM, GRU or RNN: what it carries, and what it stacks; None if it is something else."""
    states = [at for at in loop.carried if at not in loop.counters]
    if not 1 <= len(states) <= 2 or not loop.limits():
        return None
    readings = (
        [(_Lstm, tuple(states)), (_Lstm, tuple(states[::-1]))]
        if len(states) == 2
        else [(_Gru, tuple(states)), (_Rnn, tuple(states))]
    )
    for kind, order in readings:
        try:
            return kind(loop, *order).emit()
        except _No:
            continue
    return None


class _Cell(ABC):
    """What LSTM and GRU have in common.

    Args:
        loop: The loop.
        state: Which tensor is the state that is given.
    """

    op: str

    def __init__(self, loop: LoopBody, state: int) -> None:
        self.loop = loop
        self.b = loop.b
        self.state = state
        self.h = loop.carried[state][1]
        self.x: Val | None = None
        self.lengths: onnx_ir.Value | None = None
        after = self.after_step(state)
        if any(self._unmasked(item, self._is_zero) is not after for item in loop.items.values()):
            raise _No
        self.size = self._width(loop.carried[state][0].known)

    @abstractmethod
    def emit(self) -> _Results:
        """Emits the op: what the loop carries, and what it stacks."""

    # lengths

    def after_step(self, at: int) -> onnx_ir.Value:
        """What a step makes of a tensor that is carried, behind what keeps it as it was once a sequence has ended."""
        _, before, after = self.loop.carried[at]
        return self._unmasked(after, lambda kept: kept is before)

    def _unmasked(self, value: onnx_ir.Value, is_kept: Callable[[onnx_ir.Value], bool]) -> onnx_ir.Value:
        """What a value is while its sequence goes on; its lengths are noted down.

        Args:
            value: The value.
            is_kept: Whether it may be this afterwards.
        """
        node = self.loop.maker(value)
        if node is None or node.domain or node.op_type != "Where":
            if self.lengths is not None:
                raise _No
            return self.loop.source(value)
        ended = self.loop.maker(node.inputs[0], _SAME_TRUTHS)
        kept, new = node.inputs[1], node.inputs[2]
        if ended is None or ended.op_type != "GreaterOrEqual" or kept is None or new is None:
            raise _No
        step, lengths = ended.inputs[0], ended.inputs[1]
        if step is None or lengths is None or self.loop.counter_of(step) is None or self.loop.is_inside(lengths):
            raise _No
        lengths = self.loop.source(lengths)
        known = self.b.val_of(lengths).dims
        if known is None or len(known) != 1 or self.lengths not in (None, lengths):
            raise _No
        self.lengths = lengths
        if not is_kept(self.loop.source(kept)):
            raise _No
        return self.loop.source(new)

    def _is_zero(self, value: onnx_ir.Value) -> bool:
        """Whether a value is zeros."""
        found = self.b.const_of(self.loop.source(value, (*_HANDS_ON, "Expand", "Reshape")))
        return found is not None and found.size > 0 and not found.any()

    def _is_longest(self, value: onnx_ir.Value) -> bool:
        """Whether a number is the greatest of the lengths."""
        maker = self.loop.source(value, _SAME_NUMBER).producer()
        if self.lengths is None or maker is None or maker.op_type != "ReduceMax" or maker.inputs[0] is None:
            return False
        return self.loop.source(maker.inputs[0], _SAME_NUMBER) is self.loop.source(self.lengths, _SAME_NUMBER)

    @staticmethod
    def _width(known: Known) -> int:
        if known.dims is None or len(known.dims) != 2 or not isinstance(known.dims[1], int):
            raise _No
        return known.dims[1]

    # reading the body

    def node(self, value: onnx_ir.Value | None, *ops: str) -> onnx_ir.Node:
        """The node behind a value, which must be one of these ops."""
        found = self.loop.maker(value)
        if found is None or found.domain or found.op_type not in ops:
            raise _No
        return found

    def operands(self, value: onnx_ir.Value | None, op: str) -> tuple[onnx_ir.Value, onnx_ir.Value]:
        """The two operands of a sum or product."""
        node = self.node(value, op)
        one, other = node.inputs[0], node.inputs[1]
        if one is None or other is None:
            raise _No
        return self.loop.source(one), self.loop.source(other)

    def beside(self, value: onnx_ir.Value | None, factor: onnx_ir.Value) -> onnx_ir.Value:
        """What a factor is multiplied with."""
        one, other = self.operands(value, "Mul")
        if factor is one:
            return other
        if factor is other:
            return one
        raise _No

    def active(self, value: onnx_ir.Value | None) -> _Active:
        """An activation, or columns of one."""
        columns = _ALL
        node = self.node(value, *_ACTIVATIONS, "Split", "Slice")
        if node.op_type not in _ACTIVATIONS:
            assert value is not None
            columns = self._part(node, self.loop.source(value))
            node = self.node(node.inputs[0], *_ACTIVATIONS)
        if node.inputs[0] is None:
            raise _No
        return _Active(node.op_type, node.inputs[0], columns)

    def is_active(self, value: onnx_ir.Value | None) -> bool:
        """Whether a value is an activation."""
        try:
            self.active(value)
        except _No:
            return False
        return True

    def terms(self, value: onnx_ir.Value | None, columns: tuple[int, int] = _ALL) -> list[_Term]:
        """A sum as its parts, of these columns."""
        if value is None:
            raise _No
        value = self.loop.source(value)
        weight = self.weight(value)
        if weight is not None:
            return [_Term("b", _cut(weight, columns))]
        node = self.node(value, "Add", "Split", "Slice", "MatMul", "Mul")
        if node.op_type == "Add":
            return [*self.terms(node.inputs[0], columns), *self.terms(node.inputs[1], columns)]
        if node.op_type == "Mul":
            return [self._gated(node, columns)]
        if node.op_type == "MatMul":
            matrix = None if node.inputs[1] is None else self.weight(self.loop.source(node.inputs[1]))
            if matrix is None or len(matrix.shape.dims or ()) != 2 or node.inputs[0] is None:
                raise _No
            return list(self._products(self.loop.source(node.inputs[0]), _cut(matrix, columns)))
        start, stop = self._part(node, value)
        first, last = columns
        return self.terms(node.inputs[0], (start + first, min(start + last, stop)))

    def _part(self, node: onnx_ir.Node, value: onnx_ir.Value) -> tuple[int, int]:
        """The columns that a node takes of its input."""
        if node.op_type == "Split":
            sizes = self._constant(node.inputs[1])
            axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
            at = next(number for number, one in enumerate(node.outputs) if one is value)
            if axis not in (1, -1):
                raise _No
            return sum(sizes[:at]), sum(sizes[: at + 1])
        starts, ends, axes = (self._constant(one) for one in node.inputs[1:4])
        steps = self._constant(node.inputs[4]) if len(node.inputs) > 4 else [1] * len(axes)
        kept = [at for at, axis in enumerate(axes) if not (starts[at] == 0 and ends[at] >= _END and axis == 0)]
        if len(kept) != 1 or axes[kept[0]] not in (1, -1) or steps[kept[0]] != 1:
            raise _No
        start, stop = starts[kept[0]], ends[kept[0]]
        if start < 0 or stop < 0:
            raise _No
        return start, stop

    def _constant(self, value: onnx_ir.Value | None) -> list[int]:
        found = self.b.const_of(value)
        if found is None:
            raise _No
        return [int(one) for one in found.reshape(-1).tolist()]

    def _gated(self, node: onnx_ir.Node, columns: tuple[int, int]) -> _Term:
        """A gate times a sum: the gate is the operand that is an activation."""
        one, other = (None if value is None else self.loop.source(value) for value in node.inputs)
        if not self.is_active(one):
            one, other = other, one
        if columns != _ALL or not self.is_active(one):
            raise _No
        return _Term("r*", gate=one, terms=tuple(self.terms(other)))

    def _products(self, left: onnx_ir.Value, matrix: Tensor) -> Iterator[_Term]:
        """The products of an operand, or of operands side by side, with the rows of a matrix that belong to each."""
        if left is self.h:
            yield _Term("h", matrix)
            return
        node = self.node(left, "Gather", "Mul", "Concat")
        if node.op_type == "Gather":
            self._read(node)
            yield _Term("x", matrix)
        elif node.op_type == "Mul":
            yield _Term("rh", matrix, self.beside(left, self.h))
        else:
            if node.attributes["axis"].as_int() not in (1, -1):
                raise _No
            start = 0
            for part in node.inputs:
                assert part is not None
                inner = self.loop.source(part)
                width = self._input_width(inner)
                yield from self._products(inner, _block(matrix, (start, start + width), 0))
                start += width
            if start != (matrix.shape.dims or ())[0]:
                raise _No

    def _input_width(self, value: onnx_ir.Value) -> int:
        maker = self.loop.maker(value)
        if value is self.h or (maker is not None and maker.op_type == "Mul"):
            return self.size
        node = self.node(value, "Gather")
        self._read(node)
        assert self.x is not None
        return self._width(Known((self.x.dims or ())[1:]))

    def _read(self, node: onnx_ir.Node) -> None:
        """A row of the input, by the number of the step."""
        rows, index = node.inputs[0], node.inputs[1]
        axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 0
        if rows is None or index is None or axis != 0 or self.loop.counter_of(index) is None:
            raise _No
        if self.loop.is_inside(rows):
            raise _No
        found = self.b.val_of(rows)
        if self.x is not None and self.b.value(self.x) is not rows:
            raise _No
        self.x = found

    def weight(self, value: onnx_ir.Value) -> Tensor | None:
        """The constant that a value is, or a part of one."""
        found = self.b.tensor_of(value)
        if found is not None:
            return found
        maker = value.producer()
        if maker is None or maker.domain or maker.op_type not in ("Gather", "Split", "Slice", "Squeeze", "Reshape"):
            return None
        source = maker.inputs[0]
        whole = None if source is None else self.weight(self.loop.source(source))
        if whole is None:
            return None
        dims = whole.shape.dims or ()
        if maker.op_type == "Gather":
            index = self.b.const_of(maker.inputs[1])
            if index is None or index.ndim or maker.attributes["axis"].as_int() != 0:
                return None
            rows = PartTensor(whole, (int(index), *(0 for _ in dims[1:])), Shape((1, *dims[1:])))
            return ReshapedTensor(rows, Shape(dims[1:]))
        if maker.op_type in ("Squeeze", "Reshape"):
            return ReshapedTensor(whole, Shape(tuple(size for size in dims if size != 1))) if 1 in dims else None
        return _cut(whole, self._part(maker, value)) if len(dims) == 2 else None

    # writing

    def gate(self, active: _Active) -> _Gate:
        """The matrices for input and state, and the bias, of a gate that is an activation of their sum."""
        found = self.terms(active.value, active.columns)
        if sorted(one.of for one in found if one.of != "b") != ["h", "x"]:
            raise _No
        by = {one.of: one.weight for one in found}
        return self._matrix(by["x"]), self._matrix(by["h"], self.size), self.bias(found)

    def _matrix(self, weight: Tensor | None, rows: int | None = None) -> Tensor:
        dims = () if weight is None else weight.shape.dims or ()
        if weight is None or len(dims) != 2 or dims[1] != self.size or (rows is not None and dims[0] != rows):
            raise _No
        return weight

    def bias(self, terms: Sequence[_Term]) -> NDArray[Any]:
        """The sum of all biases; they are small."""
        total = numpy.zeros(self.size, numpy.float32)
        for one in terms:
            if one.of == "b" and one.weight is not None:
                values = one.weight.numpy().reshape(-1)
                if values.size not in (1, self.size) or len(one.weight.shape.dims or ()) > 2:
                    raise _No
                total = total + values
        return total

    def run(
        self,
        gates: Sequence[_Gate],
        more: NDArray[Any],
        states: Sequence[int],
        activations: Sequence[str],
        **attrs: Any,
    ) -> _Results:
        """Emits the op over the whole input."""
        b, loop, x = self.b, self.loop, self.x
        if x is None or x.dims is None or len(x.dims) != 3 or x.dtype != FLOAT32:
            raise _No
        length, batch = x.dims[0], x.dims[1]
        if not all(self._is_length(one, length) for one in loop.limits()):
            raise _No
        for at in states:
            known = loop.carried[at][0].known
            if self._width(known) != self.size or (known.dims[:1] == (1,) and batch != 1):  # type: ignore[index]
                raise _No
        name = b.prefix
        width = (gates[0][0].shape.dims or ())[0]
        if any((one[0].shape.dims or ())[0] != width for one in gates) or x.dims[2] not in (width, None):
            raise _No
        matrices = (
            self._stack([gate[0] for gate in gates], f"{name}/kernel"),
            self._stack([gate[1] for gate in gates], f"{name}/recurrent_kernel"),
        )
        biases = numpy.concatenate([*(gate[2] for gate in gates), more]).astype(numpy.float32)
        initial = [b.unsqueeze(loop.carried[at][0], [0]) for at in states]
        dims = (1, batch, self.size)
        knowns = [Known((length, *dims)), *(Known(dims) for _ in states)]
        found = b.ops(
            self.op,
            x,
            *matrices,
            b.weight(ArrayTensor(FLOAT32, biases[None]), f"{name}/bias"),
            None if self.lengths is None else b.cast(b.val_of(self.lengths), INT32),
            *initial,
            dtypes=[FLOAT32] * (1 + len(states)),
            knowns=knowns,
            hidden_size=self.size,
            activations=list(activations),
            **attrs,
        )
        rows = b.squeeze(found[0], [1])
        if self.lengths is None:
            b.keep_last_row(rows, found[1])
        after: dict[int, Val] = {at: b.squeeze(one, [0]) for at, one in zip(states, found[1:], strict=True)}
        count = b.squeeze(b.size(x, 0), [0]) if self.lengths is None else b.val_of(loop.limits()[0])
        for at in loop.counters:
            after[at] = b.cast(count, loop.carried[at][0].dtype)
        return [after[at] for at in loop.carried], [rows for _ in loop.items]

    def _is_length(self, value: onnx_ir.Value, length: object) -> bool:
        """Whether a number is the length of the input, or the lesser of it and of a number that is not below it."""
        if _agree((self.b.val_of(value).known.values or (None,))[0], length):
            return True
        maker = value.producer()
        if maker is None or maker.op_type != "Min":
            return False
        ends = [end for end in maker.inputs if end is not None]
        most = [end for end in ends if (above := end.producer()) is not None and above.op_type == "Max"]
        rest = [end for end in ends if not any(end is one for one in most)]
        return (
            all(self._is_length(end, length) for end in rest)
            and bool(rest)
            and all(
                any(end is not None and (self._is_length(end, length) or self._is_longest(end)) for end in above.inputs)
                for one in most
                if (above := one.producer()) is not None
            )
        )

    def _stack(self, parts: Sequence[Tensor], name: str) -> Val:
        """The matrices of all gates, as ONNX has them: for each gate the rows of what it gives."""
        joined = JoinedTensor(tuple(TransposedTensor(one, (1, 0)) for one in parts), 0)
        shape = Shape((1, *(joined.shape.dims or ())))
        return self.b.weight(ReshapedTensor(joined, shape), name)


class _Lstm(_Cell):
    """A loop of LSTM: c' = f * c + i * g, h' = o * act(c')."""

    op = "LSTM"

    def __init__(self, loop: LoopBody, state: int, memory: int) -> None:
        super().__init__(loop, state)
        self.memory = memory
        self.c = loop.carried[memory][1]
        self.after = self.after_step(memory)

    def emit(self) -> _Results:
        """Emits it, with ONNX' order of gates: i, o, f, c."""
        o, outer = self._outputs()
        one, other = self.operands(self.after, "Add")
        if self.c not in self._factors(one):
            one, other = other, one
        f = self.beside(one, self.c)
        i, g = self.operands(other, "Mul")
        kind = self.active(o).kind
        if self.active(i).kind != kind:
            i, g = g, i
        if self.active(i).kind != kind or self.active(f).kind != kind:
            raise _No
        gates = [self.gate(self.active(one)) for one in (i, o, f, g)]
        none = numpy.zeros(4 * self.size, numpy.float32)
        return self.run(gates, none, (self.state, self.memory), (kind, self.active(g).kind, outer))

    def _factors(self, value: onnx_ir.Value) -> list[onnx_ir.Value]:
        return list(self.operands(value, "Mul"))

    def _outputs(self) -> tuple[onnx_ir.Value, str]:
        """The gate of the output, and the activation of the memory."""
        one, other = self.operands(self.after_step(self.state), "Mul")
        for gate, memory in ((one, other), (other, one)):
            maker = self.loop.maker(memory)
            if maker is None or maker.op_type not in _ACTIVATIONS or maker.inputs[0] is None:
                continue
            if self.loop.source(maker.inputs[0]) is self.after:
                return gate, maker.op_type
        raise _No


class _Gru(_Cell):
    """A loop of GRU: h' = z * h + (1 - z) * n."""

    op = "GRU"

    def emit(self) -> _Results:
        """Emits it, with ONNX' order of gates: z, r, h."""
        one, other = self.operands(self.after_step(self.state), "Add")
        if self.h not in self.operands(one, "Mul"):
            one, other = other, one
        z = self.beside(one, self.h)
        left, right = self.operands(other, "Mul")
        if self._is_rest(left, z):
            new = right
        elif self._is_rest(right, z):
            new = left
        else:
            raise _No
        update, candidate = self.active(z), self.active(new)
        terms = self.terms(candidate.value, candidate.columns)
        by = {term.of: term for term in terms}
        behind = by.get("rh") or by.get("r*")
        if behind is None or sorted(term.of for term in terms if term.of != "b") != sorted((behind.of, "x")):
            raise _No
        reset = self.active(behind.gate)
        if reset.kind != update.kind:
            raise _No
        inner = [behind] if behind.of == "rh" else list(behind.terms)
        if sorted(term.of for term in inner if term.of != "b") != ["rh" if behind.of == "rh" else "h"]:
            raise _No
        recurrent_weight = next(term.weight for term in inner if term.of != "b")
        new_gate = (self._matrix(by["x"].weight), self._matrix(recurrent_weight, self.size), self.bias(terms))
        gates = [self.gate(update), self.gate(reset), new_gate]
        more = numpy.concatenate([numpy.zeros(2 * self.size, numpy.float32), self.bias(inner)])
        is_before = int(behind.of == "r*")
        kinds = (update.kind, candidate.kind)
        return self.run(gates, more, (self.state,), kinds, linear_before_reset=is_before)

    def _is_rest(self, value: onnx_ir.Value, gate: onnx_ir.Value) -> bool:
        """Whether a value is 1 less a gate."""
        maker = self.loop.maker(value)
        if maker is None or maker.op_type != "Sub" or maker.inputs[1] is None:
            return False
        one = self.b.const_of(maker.inputs[0])
        return (
            one is not None
            and one.size == 1
            and one.reshape(-1)[0] == 1
            and (self.loop.source(maker.inputs[1]) is gate)
        )


class _Rnn(_Cell):
    """A loop of a simple recurrent layer: h' = act(x W + h R + b)."""

    op = "RNN"

    def emit(self) -> _Results:
        """Emits it."""
        active = self.active(self.after_step(self.state))
        return self.run([self.gate(active)], numpy.zeros(self.size, numpy.float32), (self.state,), (active.kind,))


def _cut(tensor: Tensor, columns: tuple[int, int]) -> Tensor:
    """Columns of a matrix, or elements of a vector; a scalar stays."""
    rank = len(tensor.shape.dims or ())
    return _block(tensor, columns, rank - 1) if rank else tensor


def _block(tensor: Tensor, part: tuple[int, int], axis: int) -> Tensor:
    dims = tensor.shape.dims or ()
    start, stop = part[0], min(part[1], dims[axis])
    if dims[axis] == 1 and axis == len(dims) - 1:
        return tensor  # the same for all
    if not 0 <= start <= stop:
        raise _No
    if (start, stop) == (0, dims[axis]):
        return tensor
    begin = tuple(start if at == axis else 0 for at in range(len(dims)))
    return PartTensor(tensor, begin, Shape((*dims[:axis], stop - start, *dims[axis + 1 :])))
