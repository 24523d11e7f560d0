"""Makes the new nodes of a match: a variant's targets, with what was found put in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfsmith.errors import TfsmithError, UnsupportedError, UsageError, nearest
from tfsmith.ir.body import Body
from tfsmith.ir.node import Attr, Endpoint, attr, is_index
from tfsmith.ir.opdef import ArgDef, OpDef
from tfsmith.ir.recipe import Expression, Match, Recipe, TargetNode, Unit
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import DType, Shape
from tfsmith.ops.inference import Inference
from tfsmith.patterns.expressions import evaluate, typed
from tfsmith.patterns.fold import fold
from tfsmith.records import field, record, replace

__all__ = [
    "MatchFacts",
    "common_scope",
    "split_output",
    "Built",
    "NewNode",
    "InputRef",
    "build",
    "target_name",
]


def common_scope(names: tuple[str, ...]) -> str:
    """The deepest name scope that all these nodes are in; "" if there is none."""
    scopes = [name.split("/")[:-1] for name in names]
    if not scopes:
        return ""
    first, last = min(scopes), max(scopes)
    count = next((at for at, word in enumerate(first) if at >= len(last) or last[at] != word), len(first))
    return "/".join(first[:count])


def split_output(text: str) -> tuple[str, int]:
    """A name and the number of an output: `node` or `node:1`."""
    name, colon, index = text.rpartition(":")
    return (name, int(index)) if colon and is_index(index) else (text, 0)


class MatchFacts:
    """Answers for the expressions of a recipe. Names mean the first unit, or what stands before the chain."""

    def __init__(self, match: Match, body: Body, inference: Inference) -> None:
        self._match = match
        self._body = body
        self._inference = inference

    @property
    def units(self) -> int:
        """How often the unit repeats in this match."""
        return len(self._match.units)

    def find(self, text: str, unit: Unit | None = None) -> Endpoint | None:
        """The tensor that a name means (in a unit, if given), or None."""
        places = [self._match.units[0] if unit is None else unit]
        places += [self._match.before] if self._match.before is not None else []
        name, output = split_output(text)
        for place in places:
            for key in (text, name) if output == 0 else (text,):
                if key in place.inputs:
                    return place.inputs[key]
            for key, number in ((text, 0), (name, output)):
                if key in place.nodes:
                    return Endpoint(place.nodes[key], number)
        return None

    def tensor(self, x: str) -> Endpoint:
        """The tensor that a name means.

        Raises:
            UsageError: The recipe has no such name.
        """
        found = self.find(x)
        if found is None:
            names = [name for unit in self._match.parts for name in (*unit.inputs, *unit.nodes)]
            near = nearest(x, dict.fromkeys(names)) or list(dict.fromkeys(names))[:5]
            what = f"there is no {x!r} among the inputs and nodes of the query"
            raise UsageError(what, remedy=f"the nearest names are {', '.join(near)}")
        return found

    def shape(self, x: str) -> Shape:
        """The shape of a tensor, as far as it is known."""
        return self._inference.shape(self._body, self.tensor(x))

    def dtype(self, x: str) -> DType | None:
        """The type of a tensor."""
        return self._inference.dtype(self._body, self.tensor(x))

    def constant(self, x: str) -> Tensor | None:
        """The value of a tensor that is a constant."""
        return self._inference.constant(self._body, self.tensor(x))

    def attr(self, node: str, name: str) -> Attr | None:
        """An attribute of a node (of an input: the node that gives it), or its default where it is left out."""
        found = self._body.by_name.get(self.tensor(node).node)
        if found is None:
            return None
        if name in found.attrs:
            return found.attrs[name]
        op = self._body.op_def(found.op)
        return None if op is None else next((attr.default for attr in op.attrs if attr.name == name), None)


_EACH = re.compile(r"^each\((.*)\)$", re.DOTALL)
_NAME = re.compile(r"^[A-Za-z0-9._][A-Za-z0-9_.\\/>-]*$")
_PLACE = re.compile(r"\{(scope|seed|name)\}")


@record
class InputRef:
    """What an input takes.

    Attributes:
        endpoint: The tensor; of a new node, under the name that the recipe has for it.
        kind: "given": a tensor that stood there, and may be moved by another match. "found": a node of the match
            itself, which is kept for it. "new": another new node.
    """

    endpoint: Endpoint
    kind: str


@record
class NewNode:
    """A node to be put in.

    Attributes:
        key: What the recipe calls it.
        name: What it would like to be called in the model.
        op: Its op.
        inputs: What it takes.
        waits_for: Nodes of the recipe's own that it waits for.
        attrs: Its attributes.
        device: Where it runs.
        op_def: The definition of its op; for an op that nobody knows, what the recipe says of it.
        is_known: Whether the definition is a real one.
        controls: Nodes of the model that it waits for.
    """

    key: str
    name: str
    op: str
    inputs: tuple[InputRef, ...]
    waits_for: tuple[InputRef, ...]
    attrs: Mapping[str, Attr]
    device: str
    op_def: OpDef
    is_known: bool
    controls: tuple[str, ...] = ()

    def waiting(self, names: Sequence[str]) -> NewNode:
        """The same node, which waits for these nodes of the model, too."""
        return replace(self, controls=tuple(dict.fromkeys((*self.controls, *names)))) if names else self


@record
class Built:
    """What takes the place of a match.

    Attributes:
        new_nodes: The new nodes, each behind those it takes.
        outputs: For each output of the match, what takes its place.
        kept: Nodes of the match that the new ones take.
    """

    new_nodes: tuple[NewNode, ...]
    outputs: Mapping[Endpoint, InputRef]
    kept: frozenset[str] = field(default_factory=frozenset)


def build(match: Match, recipe: Recipe, body: Body, inference: Inference) -> Built:
    """The new nodes for a match.

    Raises:
        UsageError: The recipe contradicts itself: an unknown name, an expression that is none.
        UnsupportedError: The recipe asks for something that is not known of this match.
    """
    return _Builder(match, recipe, body, inference).build()


def target_name(template: str, name: str, seed: str, nodes: tuple[str, ...]) -> str:
    """The name of a new node, from `{scope}/{name}` and its like.

    Raises:
        UsageError: It would be no name for a node.
    """
    words = {"scope": common_scope(nodes) if "{scope}" in template else "", "seed": seed, "name": name}
    found = _PLACE.sub(lambda place: words[place[1]], template).strip("/")
    if _NAME.match(found) is None:
        what = f"{found!r} is no name for a node"
        raise UsageError(what, remedy="use letters, digits, and . _ / - ; scope, seed and name in braces are filled in")
    return found


class _Builder:
    """Makes the new nodes of one match."""

    def __init__(self, match: Match, recipe: Recipe, body: Body, inference: Inference) -> None:
        self._match = match
        self._recipe = recipe
        self._body = body
        self._inference = inference
        self._facts = MatchFacts(match, body, inference)
        self._targets = {target.name: target for target in match.variant.targets}
        self._new: dict[str, NewNode] = {}
        self._nodes = match.nodes
        self._own = frozenset(self._nodes)
        first = next(iter(match.variant.outputs), None) or match.variant.query.outputs[0]
        self._seed = match.units[-1].nodes[first.node]

    def build(self) -> Built:
        for target in self._ordered():
            try:
                self._new[target.name] = self._new_node(target)
            except TfsmithError as error:
                raise self._placed(error, f"target {target.name!r}") from error
        outputs = {self._found(wanted): self._output(new) for wanted, new in self._match.variant.outputs.items()}
        new_nodes = _without_unused(list(self._new.values()), outputs.values())
        sources = [source for node in new_nodes for source in (*node.inputs, *node.waits_for)]
        kept = frozenset(source.endpoint.node for source in (*sources, *outputs.values()) if source.kind == "found")
        return Built(tuple(new_nodes), outputs, kept)

    def _placed(self, error: TfsmithError, place: str) -> TfsmithError:
        """The same error with its place in the recipe."""
        where = f"recipe {self._recipe.name!r}, variant {self._match.variant.name!r}, {place}"
        where = where if error.where is None else f"{where}, {error.where}"
        if isinstance(error, (UsageError, UnsupportedError)):
            return error.at(where=where)
        return UnsupportedError(error.what, path=error.path, offset=error.offset, where=where, remedy=error.remedy)

    def _found(self, wanted: Endpoint) -> Endpoint:
        found = self._match.units[-1].nodes.get(wanted.node)
        if found is None:
            what = f"it maps {wanted}, which is no output of the query"
            raise self._placed(UsageError(what, remedy="map outputs of wanted nodes"), "outputs")
        return Endpoint(found, wanted.output)

    def _output(self, new: Endpoint) -> InputRef:
        try:
            return self._source(new.node if new.output == 0 else f"{new.node}:{new.output}", "")
        except TfsmithError as error:
            raise self._placed(error, "outputs") from error

    def _ordered(self) -> list[TargetNode]:
        """The targets, each behind those it takes."""
        done: dict[str, TargetNode] = {}
        todo = list(self._targets.values())
        while todo:
            ready = [target for target in todo if all(name in done for name in self._needs(target))]
            if not ready:
                what = f"the targets {', '.join(target.name for target in todo)} take each other in a circle"
                raise UsageError(what, where=f"recipe {self._recipe.name!r}", remedy="no graph can be so")
            done |= {target.name: target for target in ready}
            todo = [target for target in todo if target.name not in done]
        return list(done.values())

    def _needs(self, target: TargetNode) -> Iterator[str]:
        for text in target.inputs:
            name = text.removeprefix("^")
            if name in self._inputs():
                continue
            for key in (name, split_output(name)[0]):
                if key in self._targets and key != target.name:
                    yield key
                    break

    def _inputs(self) -> Mapping[str, Endpoint]:
        return self._match.units[0].inputs

    def _source(self, text: str, user: str) -> InputRef:
        """What an input's text means: an input of the query, then a target, then a wanted node."""
        if text not in self._inputs():
            for key, output in ((text, 0), split_output(text)):
                if key in self._targets and key != user:
                    return InputRef(Endpoint(key, output), "new")
        found = self._facts.find(text)
        if found is None:
            self._facts.tensor(text)  # says what there is
            raise AssertionError
        return self._given(found)

    def _given(self, endpoint: Endpoint) -> InputRef:
        """A tensor that was there before; an input of a unit may well be given by the unit before it."""
        return InputRef(endpoint, "found" if endpoint.node in self._own else "given")

    def _sources(self, target: TargetNode) -> Iterator[InputRef]:
        for text in target.inputs:
            each = _EACH.match(text)
            if text.startswith("^"):
                continue
            if each is None:
                yield self._source(text, target.name)
                continue
            names = [name.strip() for name in each[1].split(",") if name.strip()]
            for unit in self._match.units:
                for name in names:
                    found = self._facts.find(name, unit)
                    if found is None:
                        self._facts.tensor(name)
                        raise AssertionError
                    yield self._given(found)

    def _new_node(self, target: TargetNode) -> NewNode:
        inputs = tuple(self._sources(target))
        waits = tuple(self._source(text[1:], target.name) for text in target.inputs if text.startswith("^"))
        known = self._body.op_def(target.op)
        op_def = known if known is not None else self._made_op(target)
        attrs = self._attrs(target, op_def if known is not None else None)
        if known is not None:
            attrs = self._completed(attrs, known, inputs)
        device = target.device or self._body[self._seed].device
        name = target_name(target.rename, target.name, self._seed, self._nodes)
        node = NewNode(target.name, name, target.op, inputs, waits, attrs, device, op_def, known is not None)
        folded = self._folded(node) if target.fold and not waits else None
        return node if folded is None else folded

    def _made_op(self, target: TargetNode) -> OpDef:
        """What the recipe says of an op that nobody knows: the names of its outputs."""
        types = {
            new.output: self._inference.dtype(self._body, self._found(wanted))
            for wanted, new in self._match.variant.outputs.items()
            if new.node == target.name
        }
        return OpDef(target.op, (), tuple(ArgDef(name, types.get(at)) for at, name in enumerate(target.output_args)))

    def _attrs(self, target: TargetNode, op: OpDef | None) -> dict[str, Attr]:
        kinds = {attr.name: attr.kind for attr in op.attrs} if op is not None else {}
        found: dict[str, Attr] = {}
        # A constant's type comes first, for its value is of that type.
        for name, given in sorted(target.attrs.items(), key=lambda item: item[0] != "dtype"):
            if isinstance(given, Attr):
                found[name] = given
                continue
            try:
                found[name] = self._computed(given, kinds.get(name, ""), found.get("dtype"))
            except TfsmithError as error:
                error.at(where=f"attribute {name!r}")
                raise
        return {name: found[name] for name in sorted(found)}

    def _computed(self, given: Expression, kind: str, dtype: Attr | None) -> Attr:
        of_type = dtype.value if dtype is not None and isinstance(dtype.value, DType) else None
        return typed(evaluate(given.text, self._facts), kind, of_type)

    def _completed(self, attrs: dict[str, Attr], op: OpDef, inputs: Sequence[InputRef]) -> dict[str, Attr]:
        """The attributes with those types and numbers that the inputs tell, where the recipe does not say them."""
        defaults = {attr.name: attr.default for attr in op.attrs if attr.name not in attrs}
        if not defaults:
            return attrs
        found = dict(attrs)
        for name, told in self._told(op, inputs):
            if name in defaults and told != defaults[name]:
                found.setdefault(name, told)
        missing = sorted(name for name, default in defaults.items() if default is None and name not in found)
        if missing:
            what = f"op {op.name} needs the attribute {missing[0]!r}, which neither the recipe nor its inputs tell"
            raise UnsupportedError(what, remedy=f"give it in the recipe, as a value or as attr(node, {missing[0]})")
        return {name: found[name] for name in sorted(found)}

    def _told(self, op: OpDef, inputs: Sequence[InputRef]) -> Iterator[tuple[str, Attr]]:
        """The attributes that inputs tell: their types, and how many there are of a list, if there is but one."""
        lists = sum(bool(arg.number_attr or arg.type_list_attr) for arg in op.inputs)
        at = 0
        for arg in op.inputs:
            is_list = bool(arg.number_attr or arg.type_list_attr)
            count = len(inputs) - len(op.inputs) + 1 if is_list else 1
            if (is_list and lists > 1) or count < 0:
                return
            types = [self._type_of(source) for source in inputs[at : at + count]]
            at += count
            if arg.number_attr:
                yield arg.number_attr, Attr("int", count)
            if arg.type_list_attr and None not in types:
                yield arg.type_list_attr, attr(types)
            if arg.type_attr and types and types[0] is not None:
                yield arg.type_attr, Attr("type", types[0].base)

    def _type_of(self, source: InputRef) -> DType | None:
        if source.kind != "new":
            return self._inference.dtype(self._body, source.endpoint)
        node = self._new[source.endpoint.node]
        return node.op_def.output_type(node.attrs, source.endpoint.output)

    def _constant(self, source: InputRef) -> Tensor | None:
        if source.kind != "new":
            return self._inference.constant(self._body, source.endpoint)
        node = self._new[source.endpoint.node]
        found = node.attrs.get("value") if node.op == "Const" else None
        return None if found is None else found.tensor

    def _folded(self, node: NewNode) -> NewNode | None:

        values = [self._constant(source) for source in node.inputs]
        known = [value for value in values if value is not None]
        op = self._body.op_def("Const")
        value = fold(node.op, known, node.attrs) if len(known) == len(values) else None
        if value is None or op is None:
            return None
        attrs = {"dtype": Attr("type", value.dtype), "value": Attr("tensor", value)}
        controls = tuple(dict.fromkeys(name for source in node.inputs for name in self._controls(source)))
        return replace(node, op="Const", inputs=(), attrs=attrs, op_def=op, is_known=True, controls=controls)

    def _controls(self, source: InputRef) -> tuple[str, ...]:
        """What a constant waits for: in TF1's loops, this says where it belongs."""
        if source.kind == "new":
            return self._new[source.endpoint.node].controls
        node = self._body.by_name.get(source.endpoint.node)
        return () if node is None else node.control_inputs


def _without_unused(new_nodes: list[NewNode], outputs: Iterable[InputRef]) -> list[NewNode]:
    """The new nodes without those constants that only served to compute others."""
    used = {source.endpoint.node for source in outputs if source.kind == "new"}
    for node in reversed(new_nodes):
        if node.op != "Const" or node.key in used:
            used |= {node.key} | {
                source.endpoint.node for source in (*node.inputs, *node.waits_for) if source.kind == "new"
            }
    return [node for node in new_nodes if node.key in used]
