"""LSTMs and GRUs by their gates: in loops of either TensorFlow, unrolled, or as one op.

An LSTM is `h = o * tanh(c)` with `c = f * c' + i * tanh(g)`; a GRU is `h = z * h' + (1 - z) * tanh(...)`, with a
second gate inside of the tanh. The gates are sigmoids of products with weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tfsmith.ir.body import Body
from tfsmith.ir.function import Function
from tfsmith.ir.node import Node
from tfsmith.ops.families import LOOPS, NEXT_ITERATIONS, PASSES_ON
from tfsmith.ops.inference import Inference
from tfsmith.patterns.flow import DenseEnd, Flow, weight_node
from tfsmith.records import record

__all__ = ["Recurrent", "RecurrentNet", "find_recurrent"]

_GATES = frozenset({"Sigmoid", "ClipByValue", "Minimum", "Relu6"})
"""A sigmoid, or the straight lines that stand for one."""
_ADDS = ("Add", "AddV2")
_TO_PRODUCT = frozenset(
    (
        *PASSES_ON,
        *("Split", "SplitV", "StridedSlice", "Slice", "Unpack", "ConcatV2", "Reshape"),
        *("BiasAdd", "Add", "AddV2", "Sub", "Mul", "Minimum", "Maximum", "ClipByValue", "Relu6"),
    )
)
"""What lies between a product and the sigmoid of a gate."""
_PRODUCTS = ("MatMul", "BatchMatMulV2", "Einsum")
_CELLS: Mapping[str, tuple[str, int, int]] = MappingProxyType(
    {
        "LSTMBlockCell": ("LSTM", 3, 4),
        "BlockLSTM": ("LSTM", 4, 4),
        "BlockLSTMV2": ("LSTM", 4, 4),
        "GRUBlockCell": ("GRU", 2, 2),
    }
)
"""Ops that are a cell or a loop of it: what they are, which input is the kernel, and how many columns a unit has."""
_CUDNN = ("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
_REVERSES = ("ReverseV2", "Reverse", "ReverseSequence")
_FAR = 40


@record
class Recurrent:
    """A layer that goes from word to word.

    Attributes:
        kind: "LSTM" or "GRU".
        units: How many values it gives for each word; None if that is not known.
        is_backward: Whether it goes from the last word to the first.
        steps: How often the cell is there, where the loop is unrolled; else 0.
        is_both: Whether one op goes both ways.
    """

    kind: str
    units: int | None
    is_backward: bool = False
    steps: int = 0
    is_both: bool = False

    def __str__(self) -> str:
        units = "" if self.units is None else f", {self.units} units"
        unrolled = f", unrolled to {self.steps} steps" if self.steps else ""
        if self.is_both:
            return f"bidirectional {self.kind}{units} each way{unrolled}"
        return f"{self.kind}{units}{', backward' * self.is_backward}{unrolled}"

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "kind": self.kind,
            "units": self.units,
            "backward": self.is_backward,
            "bidirectional": self.is_both,
            "unrolled": self.steps or None,
        }


@record
class RecurrentNet:
    """Recurrent layers in the order of the data, and the dense layers behind them."""

    layers: tuple[Recurrent, ...]
    ends: tuple[DenseEnd, ...]

    def __str__(self) -> str:
        return "; ".join([*map(str, self.layers), *map(str, self.ends)])

    def facts(self) -> dict[str, Any]:
        """The same as plain data."""
        return {
            "kind": "recurrent net",
            "layers": [layer.facts() for layer in self.layers],
            "outputs_of": [{"size": end.size, "activation": end.activation or None} for end in self.ends],
        }


def find_recurrent(body: Body, library: Mapping[str, Function], inference: Inference) -> RecurrentNet | None:
    """The recurrent layers of a body and of its loops; None if there are none."""
    flow = Flow(body, inference)
    places = {node.name: at for at, node in enumerate(_in_order(body))}
    found: list[tuple[int, Recurrent]] = []
    roots: set[str] = set()
    for cell in _in_body(flow):
        found.append((places[cell.node], _layer(cell, flow, cell.node)))
        roots.add(cell.node)
    for node in body:
        function = node.get("body") if node.op in LOOPS else None
        inner = None if function is None else library.get(function.name)
        if inner is None:
            continue
        for cell in _in_body(Flow(inner, inference)):
            found.append((places[node.name], _layer(cell, flow, node.name)))
            roots.add(node.name)
    if not found:
        return None
    found.sort(key=lambda item: item[0])
    features = flow.behind(lambda node: node.name in roots)
    layers = tuple(_paired([layer for _, layer in found]))
    return RecurrentNet(layers, flow.dense_ends(features - roots))


def _in_order(body: Body) -> Iterable[Node]:
    """The nodes, each after what it takes; with TensorFlow 1's loops, which are circles, in the file's order."""
    return body if any(node.op in NEXT_ITERATIONS for node in body) else body.topological_order()


@record
class _Cell:
    """A cell: its last node, its kind, how many units, how often, and whether it goes both ways."""

    node: str
    kind: str
    units: int | None
    times: int = 1
    is_both: bool = False


def _layer(cell: _Cell, flow: Flow, node: str) -> Recurrent:
    steps = cell.times if cell.times > 1 else 0
    return Recurrent(cell.kind, cell.units, _is_backward(flow, node), steps, cell.is_both)


def _is_backward(flow: Flow, name: str) -> bool:
    """Whether the words are turned around before a node takes them."""
    for node in flow.before([name], _FAR):
        if node.op in _REVERSES:
            return True
        if node.name != name and (node.op in LOOPS or node.op in _CUDNN):
            return False
    return False


def _paired(layers: Sequence[Recurrent]) -> Iterator[Recurrent]:
    """Two neighbours that are equal, one forward and one backward, as one."""
    at = 0
    while at < len(layers):
        one, other = layers[at], layers[at + 1] if at + 1 < len(layers) else None
        is_pair = other is not None and (one.kind, one.units, one.steps) == (other.kind, other.units, other.steps)
        if other is not None and is_pair and one.is_backward != other.is_backward:
            yield Recurrent(one.kind, one.units, steps=one.steps, is_both=True)
            at += 2
        else:
            yield one
            at += 1


def _in_body(flow: Flow) -> Iterator[_Cell]:
    """The cells of a body; those that have the same weights, as where a loop is unrolled, as one."""
    groups: dict[tuple[str, ...], list[_Cell]] = {}
    for node in flow.body:
        cell = _op_cell(flow, node)
        weights: tuple[str, ...] = ()
        if cell is not None:
            weights = (_weight_name(flow.body, node, _CELLS[node.op][1]),) if node.op in _CELLS else (node.name,)
        elif node.op == "Mul":
            cell, weights = _lstm(flow, node)
        elif node.op in _ADDS:
            cell, weights = _gru(flow, node)
        if cell is not None:
            groups.setdefault(weights, []).append(cell)
    for cells in groups.values():
        last = cells[-1]
        units = next((cell.units for cell in cells if cell.units is not None), None)
        yield _Cell(last.node, last.kind, units, len(cells), last.is_both)


def _op_cell(flow: Flow, node: Node) -> _Cell | None:
    """An op that is a cell, or layers of it."""
    if node.op in _CUDNN:
        mode = node.get("rnn_mode", b"lstm")
        sizes = flow.input_sizes(node, 1)
        units = sizes[-1] if sizes else None
        kind = {b"lstm": "LSTM", b"gru": "GRU"}.get(mode)
        is_both = node.get("direction", b"") == b"bidirectional"
        return None if kind is None else _Cell(node.name, kind, units if isinstance(units, int) else None, 1, is_both)
    if node.op not in _CELLS:
        return None
    kind, number, parts = _CELLS[node.op]
    sizes = flow.input_sizes(node, number)
    width = sizes[-1] if sizes else None
    return _Cell(node.name, kind, width // parts if isinstance(width, int) else None)


def _weight_name(body: Body, node: Node, number: int) -> str:
    tensor = body.resolve(node.data_inputs[number])
    found = weight_node(body, tensor)
    return tensor.node if found is None else found.name


def _lstm(flow: Flow, node: Node) -> tuple[_Cell | None, tuple[str, ...]]:
    """`h = o * tanh(c)`, with `c = f * c' + i * tanh(g)`."""
    nothing: tuple[None, tuple[str, ...]] = (None, ())
    output, squashed = _split_pair(flow.inputs(node), _GATES, {"Tanh"})
    if output is None or squashed is None:
        return nothing
    (state,) = flow.inputs(squashed)[:1] or (None,)
    if state is None or state.op not in _ADDS:
        state = _unclipped(flow, state)
    if state is None:
        return nothing
    terms = flow.inputs(state)
    if len(terms) != 2 or any(term.op != "Mul" for term in terms):
        return nothing
    for kept, new in (terms, terms[::-1]):
        entry, candidate = _split_pair(flow.inputs(new), _GATES, {"Tanh"})
        forget = next((one for one in flow.inputs(kept) if one.op in _GATES), None)
        if entry is None or candidate is None or forget is None:
            continue
        weights = [_weights_of(flow, one) for one in (output, entry, forget, candidate)]
        if all(weights):
            units = _units(flow, node, squashed, state)
            return _Cell(node.name, "LSTM", units), tuple(sorted({name for one in weights for name in one}))
    return nothing


def _unclipped(flow: Flow, node: Node | None) -> Node | None:
    """The sum that a state is, where it is kept within bounds."""
    for _ in range(3):
        if node is None or node.op in _ADDS:
            return node
        if node.op not in ("ClipByValue", "Minimum", "Maximum"):
            return None
        (node,) = flow.inputs(node)[:1] or (None,)
    return None


def _gru(flow: Flow, node: Node) -> tuple[_Cell | None, tuple[str, ...]]:
    """`h = z * h' + (1 - z) * tanh(...)`, with a second gate inside of the tanh."""
    nothing: tuple[None, tuple[str, ...]] = (None, ())
    terms = flow.inputs(node)
    if len(terms) != 2 or any(term.op != "Mul" for term in terms):
        return nothing
    for kept, new in (terms, terms[::-1]):
        rest, candidate = _split_pair(flow.inputs(new), {"Sub"}, {"Tanh"})
        gates = [one for one in flow.inputs(kept) if one.op in _GATES]
        if rest is None or candidate is None or not gates:
            continue
        update = next((gate for gate in gates if any(one is gate for one in flow.inputs(rest))), None)
        if update is None or not _has_reset(flow, candidate, update):
            continue
        weights = [_weights_of(flow, one) for one in (update, candidate)]
        if all(weights):
            units = _units(flow, node, candidate, update)
            return _Cell(node.name, "GRU", units), tuple(sorted({name for one in weights for name in one}))
    return nothing


def _has_reset(flow: Flow, candidate: Node, update: Node) -> bool:
    """Whether another gate weighs what goes into a tanh."""
    todo, seen = flow.inputs(candidate), set[str]()
    while todo and len(seen) < _FAR:
        node = todo.pop()
        if node.name in seen:
            continue
        seen.add(node.name)
        if node.op == "Mul" and any(one.op in _GATES and one is not update for one in flow.inputs(node)):
            return True
        if node.op in _TO_PRODUCT or node.op in _PRODUCTS:
            todo += flow.inputs(node)
    return False


def _split_pair(
    nodes: Sequence[Node], first: frozenset[str] | set[str], second: frozenset[str] | set[str]
) -> tuple[Node | None, Node | None]:
    """Two nodes of which one is of the first ops and the other of the second; else nothing."""
    if len(nodes) == 2:
        for one, other in (nodes, nodes[::-1]):
            if one.op in first and other.op in second:
                return one, other
    return None, None


def _weights_of(flow: Flow, gate: Node) -> set[str]:
    """The weights of the products that a gate is of; none if it is of none."""
    found: set[str] = set()
    todo, seen = flow.inputs(gate), set[str]()
    while todo and len(seen) < _FAR:
        node = todo.pop()
        if node.name in seen:
            continue
        seen.add(node.name)
        if node.op in _PRODUCTS and len(node.data_inputs) == 2:
            found.add(_weight_name(flow.body, node, 1))
        elif node.op in _TO_PRODUCT:
            todo += flow.inputs(node)
    return found


def _units(flow: Flow, *nodes: Node) -> int | None:
    for node in nodes:
        sizes = flow.sizes(node)
        if sizes and isinstance(sizes[-1], int):
            return sizes[-1]
    return None
