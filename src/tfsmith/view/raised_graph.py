"""The raised graph as the page shows it, and which nodes make up the layers of what was recognised.

A node of the raised graph stands for the nodes of the graph that compute it, however they are spelled: a product with a
weight is a Contract with its equation, and attention, layer norms, GELUs and softmaxes are one node each. Reshapes and
transposes are gone, for they change no value. What was not recognised stands for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from string import ascii_letters
from typing import Any

from tfsmith.errors import TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function
from tfsmith.ir.model import Model
from tfsmith.ir.node import CONTROL, Endpoint
from tfsmith.ir.tensor import Tensor
from tfsmith.ops import BIASES, INITIAL_WRITES, PASSES_ON, PLACEHOLDERS, PRODUCTS, RESTORES, VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.patterns.algebra import Atom, bound_of, class_of
from tfsmith.patterns.architecture import find_stacks, raised_bodies
from tfsmith.patterns.formula import Attention, Dense, Heads, Search, Var
from tfsmith.patterns.raised import Raised
from tfsmith.records import field, record

__all__ = ["RAISED_OPS", "RaisedBody", "RaisedNode", "raised_graph", "recognised_scopes"]

RAISED_OPS: Mapping[str, str] = {
    "Contract": "Sums products of two tensors over the letters of its equation that the result lacks, and adds a bias.",
    "Attention": "Softmax attention: mixes values by how well queries fit keys.",
    "LayerNorm": "Normalizes to mean 0 and variance 1, then scales by gamma and shifts by beta.",
    "GELU": "Gaussian error linear unit.",
    "Softmax": "Shares that sum to one.",
    "Weight": "A weight of the model.",
}
"""The ops that only the raised graph has, with what they do."""
_LARGEST = 20_000
"""Bodies of so many nodes are raised."""
_SCALED = BIASES | {"Mul"}
_FAR = 8

_PARTS: Mapping[str, str] = {"norm": "layer norm", "gelu": "GELU", "softmax": "softmax"}


def recognised_scopes(model: Model) -> dict[str, dict[str, str]]:
    """For each function ("" for the graph) with recognised layers: the scope that each of their nodes is in.

    Nodes that several layers need, such as those of a mask, are in none. Looks at every node; reads no weight. Empty
    where nothing is recognised, or the graph is damaged.
    """
    found: dict[str, dict[str, str]] = {}
    try:
        for name, raised, _ in raised_bodies(model):
            scopes = _scopes(raised)
            if scopes:
                found[name or ""] = scopes
    except TfsmithError:
        return {}
    return found


def _scopes(raised: Raised) -> dict[str, str]:
    stacks = find_stacks(raised)
    if not stacks:
        return {}
    equal: dict[int, set[str]] = {}
    for tensor, reading in raised:
        equal.setdefault(raised.algebra.intern(reading.value)[0], set()).add(tensor.node)
    inside: list[tuple[str, set[str]]] = []
    for number, stack in enumerate(stacks):
        title = stack.kind if len(stacks) == 1 else f"{stack.kind} {number + 1}"
        stops = {name for layer in stack.layers for name in equal.get(layer.x.number, ())}
        for at, layer in enumerate(stack.layers):
            inside.append((f"{title}/layer {at + 1}", _between(raised.body, layer.output.node, stops)))
    counts: dict[str, int] = {}
    for _, nodes in inside:
        for node in nodes:
            counts[node] = counts.get(node, 0) + 1
    scopes = {node: scope for scope, nodes in inside for node in nodes if counts[node] == 1}
    return scopes | _parts(raised, equal, scopes) | _first_values(raised.body, scopes)


def _parts(raised: Raised, equal: Mapping[int, Set[str]], scopes: Mapping[str, str]) -> dict[str, str]:
    """Layer norms, GELUs and softmaxes: the nodes between what they take and what they give."""
    parts: dict[str, str] = {}
    numbers: dict[str, int] = {}
    for kind, tensor, atom in raised.recognised():
        scope, operand = scopes.get(tensor.node), raised.algebra.head(atom)[1]
        if kind not in _PARTS or scope is None or not isinstance(operand, int) or not equal.get(operand):
            continue
        nodes = {node for node in _between(raised.body, tensor.node, equal[operand]) if scopes.get(node) == scope}
        if len(nodes) < 2 or nodes & set(parts):
            continue
        title = f"{scope}/{_PARTS[kind]}"
        numbers[title] = numbers.get(title, 0) + 1
        parts |= dict.fromkeys(nodes, f"{title} {numbers[title]}")
    return parts


def _first_values(body: Body, scopes: Mapping[str, str]) -> dict[str, str]:
    """The nodes that give the layers' variables their first values: they lie beside the variables, not in their way."""
    found: dict[str, str] = {}
    for node in body.nodes:
        sources = [body.source(text) for text in node.data_inputs]
        if node.op not in INITIAL_WRITES or len(sources) < 2 or sources[0] not in scopes:
            continue
        value = body.by_name.get(sources[1])
        if value is not None and value.op not in RESTORES:
            needed = _between(body, node.name, scopes.keys()) - scopes.keys()
            found |= dict.fromkeys(needed, f"{scopes[sources[0]]}/first values")
    return found


def _between(body: Body, end: str, stops: Set[str]) -> set[str]:
    """The nodes that a node needs, up to others, which are left out; without placeholders. Linear."""
    seen: set[str] = set()
    todo = [end]
    while todo:
        name = todo.pop()
        node = body.by_name.get(name)
        if name in seen or (name in stops and name != end) or node is None or node.op in PLACEHOLDERS:
            continue
        seen.add(name)
        todo += [body.source(text) for text in node.data_inputs]
    return seen


@record
class RaisedNode:
    """A node of the raised graph.

    Attributes:
        name: The node of the graph that gives its value.
        op: One of `RAISED_OPS`.
        attrs: Its parameters.
        nodes: The nodes of the graph that it stands for.
    """

    name: str
    op: str
    attrs: Mapping[str, Any]
    nodes: frozenset[str]


@record
class RaisedBody:
    """A graph or function, raised.

    Attributes:
        made: The nodes that stand for others, by name.
        views: Nodes that change no value, each with the node whose value it has.
        weights: Nodes that read a weight, each with the variable, constant or argument that is read.
        live: The nodes that the results need.
    """

    made: Mapping[str, RaisedNode]
    views: Mapping[str, str]
    weights: Mapping[str, str]
    live: Set[str] = field(repr=False)


def raised_graph(model: Model, outputs: Sequence[str]) -> dict[str, RaisedBody]:
    """The graph ("") and the functions in which something is recognised, raised. Reads no weight.

    Args:
        model: The model.
        outputs: The nodes that the graph's answers come from.
    """
    found: dict[str, RaisedBody] = {}
    for body in (model.graph, *model.graph.library.values()):
        if len(body.nodes) > _LARGEST or not any(node.op in PRODUCTS for node in body.nodes):
            continue
        inside = body if isinstance(body, Function) else None
        wanted = outputs if inside is None else [inside.source(text) for text in inside.ret.values()]
        try:
            live = body.ancestors([name for name in wanted if name in body.by_name])
            raised = Raised(body, Inference(model.graph, model.meta.objects, inside=inside), live)
            made = _Raiser(raised, live).body()
        except TfsmithError:  # it is damaged; it is shown as it is
            continue
        if made.made:
            found["" if inside is None else inside.name] = made
    return found


class _Raiser:
    """Finds what nodes of a body make up one node of the raised graph."""

    def __init__(self, raised: Raised, live: Set[str]) -> None:
        self._raised = raised
        self._body = raised.body
        self._live = live
        self._made: dict[str, RaisedNode] = {}
        self._covered: dict[str, str] = {}
        self._users: dict[str, set[str]] = {name: set() for name in live}
        for name in live:
            for source in self._sources(name):
                if source in self._users:
                    self._users[source].add(name)
        self._classes = {tensor: raised.algebra.intern(reading.value)[0] for tensor, reading in raised}
        self._views = self._find_views()

    def body(self) -> RaisedBody:
        found = list(self._atoms())
        for kind, tensor, atom in found:  # products with weights first: they are where attention begins
            if kind == "contract" and self._has_weight(atom):
                self._cover("Contract", tensor, self._product_attrs(atom, tensor), self._operands(atom), BIASES)
        for kind, tensor, _ in found:
            if kind == "attention":
                self._cover("Attention", tensor, self._attention_attrs(tensor))
        for kind, tensor, atom in found:
            head, stops = self._raised.algebra.head(atom), self._operands(atom)
            if kind == "norm":
                self._cover("LayerNorm", tensor, {"epsilon": head[3], **self._width(atom)}, stops, _SCALED)
            elif kind == "gelu":
                self._cover("GELU", tensor, {"by": head[2]}, stops)
            elif kind == "softmax":
                self._cover("Softmax", tensor, self._width(atom), stops)
            elif kind == "contract":
                self._cover("Contract", tensor, self._product_attrs(atom, tensor), stops)
        weights = {name: root for name in self._live if (root := self._weight(name)) is not None}
        return RaisedBody(self._made, self._views, weights, self._live)

    def _atoms(self) -> Iterator[tuple[str, Endpoint, Atom]]:
        """What is recognised, with the first tensor that has it; products too."""
        named = {atom[0]: kind for kind, _, atom in self._raised.recognised()}
        seen: set[int] = set()
        for tensor, reading in self._raised:
            for product, _ in reading.value:
                for atom, _ in product:
                    kind = named.get(atom[0]) or str(self._raised.algebra.head(atom)[0])
                    if atom[0] not in seen and kind in ("attention", "norm", "gelu", "softmax", "contract"):
                        seen.add(atom[0])
                        yield kind, tensor, atom

    def _sources(self, name: str) -> list[str]:
        node = self._body.by_name.get(name)
        return [] if node is None else [self._body.source(text) for text in node.data_inputs]

    def _find_views(self) -> dict[str, str]:
        """Nodes that change no value, with where it comes from."""
        found: dict[str, str] = {}
        for tensor, number in self._classes.items():
            node = self._body.by_name.get(tensor.node)
            if node is None or tensor.output or tensor.node not in self._live:
                continue
            for source in self._body.inputs_of(node)[:1]:
                reading = None if source.output == CONTROL else self._raised.reading(source)
                if (
                    reading is not None
                    and self._raised.algebra.intern(reading.value)[0] == number
                    and not source.output
                ):
                    found[tensor.node] = source.node
        return found

    def _weight(self, name: str) -> str | None:
        """The variable, constant or argument that a node reads, if it does nothing else."""
        for _ in range(_FAR):
            node = self._body.by_name.get(name)
            if node is None:
                return None
            if node.op in VARIABLES or (node.op == "Const" and _is_weight(node.constant)):
                return name
            if node.op == "ReadVariableOp":
                source = self._body.source(node.inputs[0])
                inner = self._body.by_name.get(source)
                while inner is not None and inner.op in PASSES_ON:
                    source = self._body.source(inner.inputs[0])
                    inner = self._body.by_name.get(source)
                return source
            if node.op not in PASSES_ON and name not in self._views:
                return None
            name = self._body.source(node.inputs[0])
        return None

    def _has_weight(self, atom: Atom) -> bool:
        return any(self._raised.is_weight(each) or self._is_read(each) for each in self._factors(atom))

    def _is_read(self, atom: Atom) -> bool:
        head = self._raised.algebra.head(atom)
        return head[0] == "tensor" and self._weight(str(head[1]).rpartition(":")[0]) is not None

    def _factors(self, atom: Atom) -> list[Atom]:
        """The tensors that a contraction multiplies, with numbered labels."""
        algebra = self._raised.algebra
        number = class_of(algebra.head(atom))
        labels = tuple((at,) for at in range(len(algebra.class_sizes(number))))
        return [each for product, _ in algebra.value_of(number, labels) for each, _ in product]

    def _operands(self, atom: Atom) -> set[int]:
        """The classes of what an atom is made of."""
        algebra = self._raised.algebra
        head = algebra.head(atom)
        if head[0] != "contract":
            return {class_of(head)}
        return {algebra.intern(algebra.inside(each))[0] for each in self._factors(atom)}

    def _product_attrs(self, atom: Atom, tensor: Endpoint) -> dict[str, Any]:
        algebra, head = self._raised.algebra, self._raised.algebra.head(atom)
        sizes, bound = algebra.class_sizes(class_of(head)), bound_of(head)
        factors = sorted(self._factors(atom), key=lambda each: self._raised.is_weight(each) or self._is_read(each))
        labels = [[label for arg in each[1] for label in arg] for each in factors]
        for number, side in enumerate(labels):  # as is usual: what is summed over meets in the middle
            side.sort(key=lambda label: (label in bound) != bool(number))
        order = list(dict.fromkeys(label for side in labels for label in side))
        letters = dict(zip(order, ascii_letters, strict=False))
        if len(letters) < len(order):
            return {}
        sides = ["".join(letters[label] for label in side) for side in labels]
        result = "".join(letters[label] for label in order if label not in bound)
        attrs: dict[str, Any] = {"equation": f"{','.join(sides)}->{result}"}
        attrs["sizes"] = ", ".join(f"{letters[at]}={_size(sizes[at])}" for at in order)
        kind = self._raised.body.by_name[tensor.node].attrs.get("T")
        return attrs if kind is None or kind.dtype is None else attrs | {"compute_dtype": kind.dtype.name}

    def _width(self, atom: Atom) -> dict[str, Any]:
        algebra, head = self._raised.algebra, self._raised.algebra.head(atom)
        sizes = algebra.class_sizes(class_of(head))
        found = [_size(sizes[at]) for at in bound_of(head)]
        return {"over": ", ".join(found)} if found else {}

    def _attention_attrs(self, tensor: Endpoint) -> dict[str, Any]:
        """How many heads there are, how scores are scaled and words hidden; nothing where it is of another form."""
        reading = self._raised.reading(tensor)
        formula = Attention(Dense(Var("x"), "query"), Dense(Var("y"), "key"), Dense(Var("z"), "value"), "attention")
        found = None if reading is None else next(Search(self._raised).match(formula, reading.value, {}), None)
        heads = None if found is None else found["attention"]
        if found is None or not isinstance(heads, Heads):
            return {}
        attrs: dict[str, Any] = {"scale": float(f"{heads.scale:.6g}")}
        if heads.number is not None:
            attrs["heads"] = heads.number
        attrs["mask"] = heads.mask.kind if heads.mask.value else "none"
        return attrs

    def _cover(
        self,
        op: str,
        tensor: Endpoint,
        attrs: Mapping[str, Any],
        stops: Set[int] = frozenset(),
        tail: Set[str] = frozenset(),
    ) -> None:
        """Makes one node of all that lead to a tensor and to nothing else, and of a bias or scale behind it.

        Args:
            op: What it is.
            tensor: The tensor.
            attrs: Its parameters.
            stops: The classes of values that it takes.
            tail: Ops that belong to it where they only add a weight to what it gives, or multiply it with one.
        """
        if tensor.node in self._covered or tensor.node not in self._live:
            return
        more = self._followed(tensor.node, tail)
        end = more[-1] if more else tensor.node
        inside = {*self._reach(tensor.node, stops), *more}
        todo = [name for name in inside if name != end and not self._users[name] <= inside]
        while todo:  # what somebody else takes stays a node of its own, with all that it takes
            name = todo.pop()
            if name in inside and name != end:
                inside.discard(name)
                todo += [source for source in self._sources(name) if source in inside]
        self._made[end] = RaisedNode(end, op, attrs, frozenset(inside))
        self._covered |= dict.fromkeys(inside, end)

    def _reach(self, end: str, stops: Set[int]) -> set[str]:
        """The nodes that one needs, up to weights, to what is made already, and to what has one of these values."""
        seen: set[str] = set()
        todo = [end]
        while todo:
            name = todo.pop()
            node = self._body.by_name.get(name)
            if name in seen or name in self._covered or node is None or node.op in PLACEHOLDERS:
                continue
            if name != end and (self._classes.get(Endpoint(name, 0)) in stops or self._weight(name) is not None):
                continue
            seen.add(name)
            todo += self._sources(name)
        return seen

    def _followed(self, end: str, tail: Set[str]) -> list[str]:
        """The nodes of a scale and a bias behind a node; none if there are none."""
        path: list[str] = []
        count, seen = 0, set()
        at = end
        for _ in range(_FAR):
            users = self._users.get(at, set())
            user = next(iter(users), "")
            if len(users) != 1 or user in self._covered:
                break
            is_view = self._views.get(user) == at
            others = [source for source in self._sources(user) if source != at]
            what = "scale" if self._body[user].op == "Mul" else "bias"
            if not is_view:
                is_part = self._body[user].op in tail and len(others) == 1 and self._weight(others[0]) is not None
                if not is_part or what in seen:
                    break
                seen.add(what)
            path.append(user)
            at = user
            count = count if is_view else len(path)
        return path[:count]


def _is_weight(tensor: Tensor | None) -> bool:
    """Whether a constant is a weight: several floats, not a number or a shape."""
    return tensor is not None and bool(tensor.shape.dims) and "float" in tensor.dtype.base.name


def _size(size: Any) -> str:
    return str(size) if isinstance(size, int) else "?"
