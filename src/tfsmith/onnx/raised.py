"""What the raised graph knows and ONNX has one op for: layer norms and GELUs, however they were spelled."""

from __future__ import annotations

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import Endpoint, parse_input
from tfsmith.ops.inference import Inference
from tfsmith.patterns.algebra import Atom, Reading, Value, bound_of, class_of
from tfsmith.patterns.raised import Raised
from tfsmith.records import record

__all__ = ["Gelu", "Norm", "find_raised"]

_FLOAT = "float32"


@record
class Norm:
    """A layer norm over the last axis: what it normalizes, its weights, and what keeps it from dividing by zero."""

    x: Endpoint
    gamma: Endpoint | None
    beta: Endpoint | None
    epsilon: float


@record
class Gelu:
    """A GELU of this tensor, by erf or by tanh."""

    x: Endpoint
    by_tanh: bool


def find_raised(graph: Graph) -> dict[Endpoint, Norm | Gelu]:
    """The tensors of a graph that are layer norms or GELUs of other tensors. Linear; reads no weights."""
    ops = {node.op for node in graph}
    if "Mean" not in ops and ops.isdisjoint({"Erf", "Erfc"}) and "Tanh" not in ops:
        return {}  # nothing of the kind can be there
    inference = Inference(graph, trust_notes=False)
    raised = Raised(graph, inference)
    found: dict[Endpoint, Norm | Gelu] = {}
    known: dict[tuple[Value, object], Endpoint] = {}
    seen: set[Value] = set()
    for tensor, reading in raised:
        if reading.value in seen:  # a view of a tensor that was looked at
            known.setdefault((reading.value, reading.axes), tensor)
            continue
        seen.add(reading.value)
        made = _norm(raised, reading, known) or _gelu(raised, reading, known)
        if made is not None:
            ends = (tensor, made.x, *((made.gamma, made.beta) if isinstance(made, Norm) else ()))
            if all(one is None or _is_float(inference, graph, one) for one in ends):
                found[tensor] = made
        known.setdefault((reading.value, reading.axes), tensor)
    return found


def _is_float(inference: Inference, graph: Graph, tensor: Endpoint) -> bool:
    kind = inference.dtype(graph, tensor)
    return kind is not None and kind.base.name == _FLOAT


def _norm(raised: Raised, reading: Reading, known: dict[tuple[Value, object], Endpoint]) -> Norm | None:
    algebra = raised.algebra
    if not 1 <= len(reading.value) <= 2 or not reading.axes or len(reading.axes[-1]) != 1:
        return None
    label = reading.axes[-1][0]
    for product, number in reading.value:
        for atom, power in product:
            head = algebra.head(atom)
            if head[0] != "norm" or power != 1 or number != 1 or len(product) > 2:
                continue
            over = {one for at in bound_of(head) for one in atom[1][at]}
            x = known.get((algebra.value_of(class_of(head), atom[1]), reading.axes))
            epsilon = head[3]
            if over != {label} or x is None or not isinstance(epsilon, float):
                return None
            factors = [one for one, exponent in product if one != atom and exponent == 1]
            if len(factors) != len(product) - 1:
                return None
            gamma = _weight(raised, factors[0], label) if factors else None
            if factors and gamma is None:
                return None
            others = [item for item in reading.value if item[0] != product]
            if not others:
                return Norm(x, gamma, None, epsilon)
            added, times = others[0]
            if len(added) != 1 or times != 1 or added[0][1] != 1:
                return None
            beta = _weight(raised, added[0][0], label)
            return None if beta is None else Norm(x, gamma, beta, epsilon)
    return None


def _weight(raised: Raised, atom: Atom, label: int) -> Endpoint | None:
    """The weight that an atom is, if it is a vector along the axis."""
    head = raised.algebra.head(atom)
    if head[0] != "tensor" or atom[1] != ((label,),):
        return None
    return parse_input(str(head[1]))


def _gelu(raised: Raised, reading: Reading, known: dict[tuple[Value, object], Endpoint]) -> Gelu | None:
    if len(reading.value) != 1:
        return None
    product, number = reading.value[0]
    if len(product) != 1 or number != 1 or product[0][1] != 1:
        return None
    atom = product[0][0]
    head = raised.algebra.head(atom)
    if head[0] != "gelu":
        return None
    x = known.get((raised.algebra.value_of(class_of(head), atom[1]), reading.axes))
    return None if x is None else Gelu(x, head[2] == "tanh")
