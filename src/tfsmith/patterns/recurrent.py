"""LSTMs and GRUs by their gates: in loops of either TensorFlow, unrolled, or as one op.

An LSTM is `h = o * tanh(c)` with `c = f * c' + i * tanh(g)`; a GRU is `h = z * h' + (1 - z) * tanh(...)`, with a
second gate inside of the tanh. The gates are sigmoids of products with weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function
from tfsmith.ir.node import Endpoint, Func, Node
from tfsmith.ops import (
    ADDS,
    BOUNDS,
    CELLS,
    CUDNN_LAYERS,
    EXITS,
    GATES,
    LOOPS,
    NEXT_ITERATIONS,
    PASSES_ON,
    PRODUCTS,
    REVERSES,
    SLICES,
    SPLITS,
    TO_GATES,
)
from tfsmith.ops.inference import Inference
from tfsmith.patterns.flow import DenseEnd, Flow, weight_node
from tfsmith.records import record

__all__ = ["Recurrent", "RecurrentNet", "find_recurrent"]

_PARTS = SPLITS | SLICES
_FAR = 40
_FAR_BACK = 200


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
        inner = library.get(function.name) if isinstance(function, Func) else None
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
    return RecurrentNet(layers, flow.dense_ends(features - body.ancestors(roots)))


def _in_order(body: Body) -> Iterable[Node]:
    """The nodes, each after what it takes; with TensorFlow 1's loops, which are circles, in the file's order."""
    return body if any(node.op in NEXT_ITERATIONS for node in body) else body.topological_order()


@record
class _Cell:
    """A cell: its last node, what it is, its weights, how often it is there, and whether it goes both ways."""

    node: str
    kind: str
    units: int | None
    weights: frozenset[str]
    times: int = 1
    is_both: bool = False


def _layer(cell: _Cell, flow: Flow, node: str) -> Recurrent:
    steps = cell.times if cell.times > 1 else 0
    return Recurrent(cell.kind, cell.units, _is_backward(flow, node), steps, cell.is_both)


def _is_backward(flow: Flow, name: str) -> bool:
    """Whether the words are turned around before a node takes them; what comes before another loop does not count."""
    todo, seen = [name], set[str]()
    for each in todo:
        node = flow.body.by_name.get(each)
        if node is None or each in seen or len(seen) > _FAR_BACK:
            continue
        seen.add(each)
        if node.op in REVERSES:
            return True
        if each == name or not (node.op in LOOPS or node.op in CUDNN_LAYERS or node.op in EXITS):
            todo += [flow.body.resolve(text).node for text in node.data_inputs]
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
        cell = None
        if node.op in CELLS or node.op in CUDNN_LAYERS:
            cell = _op_cell(flow, node)
        elif node.op == "Mul":
            cell = _lstm(flow, node)
        elif node.op in ADDS:
            cell = _gru(flow, node)
        if cell is not None:
            groups.setdefault((cell.kind, *sorted(cell.weights)), []).append(cell)
    for cells in groups.values():
        last = cells[-1]
        units = next((cell.units for cell in cells if cell.units is not None), None)
        yield _Cell(last.node, last.kind, units, last.weights, len(cells), last.is_both)


def _op_cell(flow: Flow, node: Node) -> _Cell | None:
    """An op that is a cell, or layers of it."""
    if node.op in CUDNN_LAYERS:
        kind = {b"lstm": "LSTM", b"gru": "GRU"}.get(node.get("rnn_mode", b"lstm"))
        is_both = node.get("direction", b"") == b"bidirectional"
        units = _last_size(flow.input_sizes(node, 1))
        return None if kind is None else _Cell(node.name, kind, units, frozenset({node.name}), is_both=is_both)
    kind, number, parts = CELLS[node.op]
    width = _last_size(flow.input_sizes(node, number))
    weights = frozenset({_weight_name(flow.body, node, number)})
    return _Cell(node.name, kind, None if width is None else width // parts, weights)


def _last_size(sizes: Sequence[object] | None) -> int | None:
    return sizes[-1] if sizes and isinstance(sizes[-1], int) else None


def _weight_name(body: Body, node: Node, number: int) -> str:
    tensor = body.resolve(node.data_inputs[number])
    found = weight_node(body, tensor)
    return tensor.node if found is None else found.name


class _Part:
    """A part of a cell: a tensor, behind nodes that only pass it on."""

    def __init__(self, flow: Flow, tensor: Endpoint) -> None:
        self._flow = flow
        self.tensor = tensor
        self.node = flow.body.by_name.get(tensor.node)
        for _ in range(_FAR):
            if self.node is None or self.node.op not in PASSES_ON or not self.node.data_inputs:
                break
            self.tensor = flow.body.resolve(self.node.data_inputs[0])
            self.node = flow.body.by_name.get(self.tensor.node)

    @property
    def op(self) -> str:
        """Its op; "" for an argument."""
        return "" if self.node is None else self.node.op

    @property
    def inputs(self) -> list[_Part]:
        """What it is made of."""
        texts = () if self.node is None else self.node.data_inputs
        return [_Part(self._flow, self._flow.body.resolve(text)) for text in texts]

    @property
    def is_gate(self) -> bool:
        """Whether it is a sigmoid, or a part of one."""
        if self.op in GATES:
            return True
        return self.op in _PARTS and any(one.op in GATES for one in self.inputs)

    @property
    def is_candidate(self) -> bool:
        """Whether it is a tanh."""
        return self.op == "Tanh"

    def products(self) -> dict[str, str]:
        """The products that it is of, each with its weight: the nearest."""
        found: dict[str, str] = {}
        todo, seen = self.inputs, set[Endpoint]()
        for part in todo:
            node = part.node
            if node is None or part.tensor in seen or len(seen) > _FAR:
                continue
            seen.add(part.tensor)
            if node.op in PRODUCTS and len(node.data_inputs) == 2:
                found[node.name] = _weight_name(self._flow.body, node, 1)
            elif node.op in TO_GATES or node.op in GATES:
                todo += part.inputs
        return found


def _lstm(flow: Flow, node: Node) -> _Cell | None:
    """`h = o * tanh(c)`, with `c = f * c' + i * tanh(g)`."""
    output, squashed = _pair(_Part(flow, Endpoint(node.name, 0)))
    state = None if squashed is None else _unclipped(squashed.inputs[0])
    terms = [] if state is None else state.inputs
    if output is None or len(terms) != 2 or any(term.op != "Mul" for term in terms):
        return None
    for kept, new in (terms, terms[::-1]):
        entry, candidate = _pair(new)
        forget = next((one for one in kept.inputs if one.is_gate), None)
        if entry is None or candidate is None or forget is None:
            continue
        products = [one.products() for one in (output, entry, forget, candidate)]
        if all(products):
            return _cell(flow, node, "LSTM", 4, products)
    return None


def _gru(flow: Flow, node: Node) -> _Cell | None:
    """`h = z * h' + (1 - z) * tanh(...)`, with a second gate inside of the tanh."""
    terms = _Part(flow, Endpoint(node.name, 0)).inputs
    if len(terms) != 2 or any(term.op != "Mul" for term in terms):
        return None
    for kept, new in (terms, terms[::-1]):
        candidate = next((one for one in new.inputs if one.is_candidate), None)
        rest = next((one for one in new.inputs if one.op == "Sub"), None)
        if candidate is None or rest is None:
            continue
        inside = {one.tensor for one in rest.inputs}
        update = next((one for one in kept.inputs if one.is_gate and one.tensor in inside), None)
        if update is None or not _has_reset(candidate, update):
            continue
        products = [one.products() for one in (update, candidate)]
        if all(products):
            return _cell(flow, node, "GRU", 3, products)
    return None


def _cell(flow: Flow, node: Node, kind: str, parts: int, products: Sequence[Mapping[str, str]]) -> _Cell:
    """A cell with its weights. Where all parts are of one product, its columns are shared between them."""
    weights = frozenset(name for one in products for name in one.values())
    units = _last_size(flow.sizes(node))
    if units is None:
        widths = [_last_size(flow.input_sizes(flow.body[name], 1)) for name in products[-1]]
        is_one = all(set(one) == set(products[-1]) for one in products)
        width = next((size for size in widths if size is not None), None)
        units = width if width is None or not is_one else width // parts
    return _Cell(node.name, kind, units, weights)


def _unclipped(part: _Part) -> _Part | None:
    """The sum that a state is, where it is kept within bounds."""
    for _ in range(3):
        if part.op in ADDS:
            return part
        if part.op not in BOUNDS:
            return None
        part = part.inputs[0]
    return None


def _has_reset(candidate: _Part, update: _Part) -> bool:
    """Whether another gate weighs what goes into a tanh."""
    todo, seen = candidate.inputs, set[Endpoint]()
    for part in todo:
        if part.tensor in seen or len(seen) > _FAR:
            continue
        seen.add(part.tensor)
        if part.op == "Mul" and any(one.is_gate and one.tensor != update.tensor for one in part.inputs):
            return True
        if part.op in TO_GATES or part.op in PRODUCTS:
            todo += part.inputs
    return False


def _pair(product: _Part) -> tuple[_Part | None, _Part | None]:
    """The gate and the tanh that a product is of; else nothing."""
    parts = product.inputs
    for one, other in (parts, parts[::-1]) if product.op == "Mul" and len(parts) == 2 else ():
        if one.is_gate and other.is_candidate and other.inputs:
            return one, other
    return None, None
