"""Encoders of BERT as one node `Bert` each: found by what they compute, in the graph and in functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, isfinite, sqrt
from types import MappingProxyType
from typing import Any, NamedTuple

from tfsmith.errors import Note
from tfsmith.ir.body import Body, free_name
from tfsmith.ir.body_editor import BodyEditor
from tfsmith.ir.graph import Function
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Endpoint, Node, parse_input
from tfsmith.ir.recipe import Match, Miss, Query, Repeat, Unit, Variant
from tfsmith.ir.types import DType, dtype_named
from tfsmith.ops import COMPARISONS, PASSES_ON, SHAPES, VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.ops.sizes import Size
from tfsmith.passes.bert_node import BERT, change_bert_nodes, with_bert_op
from tfsmith.patterns.algebra import Arg, Atom, Axes, Label, Product, Reading, Value, constant_of, is_close
from tfsmith.patterns.architecture import (
    LAYER,
    Layer,
    Stack,
    candidates,
    count_attentions,
    find_stacks,
    half_type,
    raised_bodies,
)
from tfsmith.patterns.causal import is_causal
from tfsmith.patterns.formula import Attention, Bound, Dense, Heads, Kernel, Search, Var
from tfsmith.patterns.parts import Cut, cuts_of
from tfsmith.patterns.raised import Raised
from tfsmith.patterns.replace import Replacement, ReplaceOptions, Skipped, lost_users
from tfsmith.patterns.replaceable import Outside, outside_of_function, outside_of_graph
from tfsmith.records import record

__all__ = ["Encoder", "Fused", "Refusal", "fuse_encoders", "replace_encoders"]

_ACTIVATIONS = MappingProxyType({"gelu erf": "gelu_erf", "gelu tanh": "gelu_tanh", "relu": "relu"})
FLOAT = dtype_named("float32")
_OUTPUT = Endpoint("output_norm", 0)
_BY_STRUCTURE = Variant("by structure", Query((), ("x",), (_OUTPUT,)), (), {}, Repeat({"x": _OUTPUT}))
_COMPARED = MappingProxyType({op.lower(): op for op in COMPARISONS})
"""Comparisons, by what they are in the raised graph."""
_MASK_TYPES = ("int32", "int64", "float32", "bool")
_ATTENTION = Attention(Dense(Var("x"), "query"), Dense(Var("y"), "key"), Dense(Var("z"), "value"), "attention")
"""Any attention, of whatever tensors."""
_NAME = "bert-encoder"
_SAID = frozenset(
    {
        *("HiddenAct", "HiddenSize", "IntermediateSize", "MaskT", "MaxSequenceLength", "NonQuantizableDataType"),
        *("NumAttentionHeads", "NumWeights", "QuantizableDataType"),
    }
)
"""The attributes that each node has, as the op of light-model-transformer wants them."""
_LARGE = 1e4
"""What is at least taken off the scores of words that are hidden."""
_LARGEST = 3.4028234663852886e38
"""A score less this is the same for all words: where all are hidden, all count alike, as where scores are replaced."""
_LONGEST = 128
"""How long sequences may be where the graph leaves it open."""


@record
class Encoder:
    """An encoder that became one node.

    Attributes:
        body: The function that it is in; None for the graph itself.
        node: The name of the new node.
        stack: What was found.
        removed: How many nodes are gone.
        layers: The nodes of each layer.
        dangling: Nodes that took inner values and led to no output, and are gone.
    """

    body: str | None
    node: str
    stack: Stack
    removed: int
    layers: tuple[frozenset[str], ...] = ()
    dangling: frozenset[str] = frozenset()

    @property
    def match(self) -> Match:
        """The same as a match of a recipe: its layers are the units."""
        return _match(self.body, self.stack, self.layers)


@record
class Refusal:
    """An encoder that stays as it is, why, and who uses what is inside of it, if that is why."""

    body: str | None
    stack: Stack
    reason: str
    users: tuple[str, ...] = ()

    @property
    def match(self) -> Match:
        """The same as a match of a recipe: its layers are the units."""
        return _match(self.body, self.stack)


def _match(body: str | None, stack: Stack, layers: Sequence[frozenset[str]] = ()) -> Match:
    units = []
    for number, layer in enumerate(stack.layers):
        others = layers[number] - {layer.output.node} if layers else ()
        units.append(Unit({_OUTPUT.node: layer.output.node, **{name: name for name in sorted(others)}}, {}))
    return Match(body, _BY_STRUCTURE, tuple(units))


@record
class Fused:
    """What became of a model.

    Attributes:
        model: The new model; the old one if nothing was fused.
        encoders: The encoders that became one node.
        refused: The encoders that stay as they are.
        others: Attentions that are no part of an encoder: in which function, and a line that says where and why.
    """

    model: Model
    encoders: tuple[Encoder, ...]
    refused: tuple[Refusal, ...]
    others: tuple[tuple[str | None, str], ...] = ()


class _CannotFuseError(Exception):
    """Why an encoder stays as it is; and who uses what is inside of it, if that is why."""

    def __init__(self, reason: str, users: Sequence[str] = ()) -> None:
        Exception.__init__(self, reason)
        self.users = tuple(users)


def fuse_encoders(model: Model, outputs: Sequence[str] = (), options: ReplaceOptions | None = None) -> Fused:
    """Puts one node `Bert` in the place of each encoder, in the graph and in its functions. Reads no weight.

    Args:
        model: The model.
        outputs: Tensors or nodes of the graph that must stay, besides those of its signatures.
        options: How, as for recipes; it has outputs of its own.
    """
    how = ReplaceOptions(outputs=tuple(outputs)) if options is None else options
    encoders: list[Encoder] = []
    refused: list[Refusal] = []
    others: dict[tuple[str | None, str], list[str]] = {}
    with with_bert_op(model).edit() as editor:
        for name, raised, inference in raised_bodies(model, functions=how.functions):
            stacks = find_stacks(raised)
            half = None if stacks else half_type(raised.body)
            if half is not None:
                rounded = Raised(raised.body, inference, is_rounded=True)
                said = f"it computes in {half}, and the op in float32"
                halves = [Refusal(name, one, said) for one in find_stacks(rounded) if one.kind == "encoder"]
                refused += halves
                if halves:
                    continue
            for tensor, reason in _other_attentions(raised, stacks):
                others.setdefault((name, reason), []).append(str(tensor))
            found = [stack for stack in stacks if stack.kind == "encoder"]
            if not found:
                continue
            body = raised.body
            if isinstance(body, Function):
                outside = outside_of_function(body, model.meta)
            else:
                outside = outside_of_graph(model, how.outputs)
            place = editor if name is None else editor.function(name)
            job = _Fusion(raised, inference, place, outside, keep_shared=how.keep_shared)
            for part in reversed(
                [part for stack in found for part in job.parts(stack)]
            ):  # what takes before what gives
                if how.limit is not None and len(encoders) >= how.limit:
                    break
                try:
                    encoders.append(job.fuse(name, part))
                except _CannotFuseError as error:
                    refused.append(Refusal(name, part, str(error), error.users))
    lines = [
        (body, f"attention is left alone at {_listed(places)}: {reason}") for (body, reason), places in others.items()
    ]
    return Fused(editor.model if encoders else model, tuple(encoders[::-1]), tuple(refused[::-1]), tuple(lines))


def replace_encoders(model: Model, options: ReplaceOptions | None = None) -> Replacement:
    """What the recipe `bert-encoder` does: `fuse_encoders`, as the replacement of a recipe.

    The nodes have the attributes of light-model-transformer's op, and of those that ours adds what is no default.
    """
    found = fuse_encoders(model, options=options)
    skipped = tuple(Skipped(one.match, one.reason, one.users) for one in found.refused)
    if not found.encoders:
        reasons = list(dict.fromkeys(one.reason for one in found.refused))
        others = list(dict.fromkeys(line for _, line in found.others))
        reason = f"recipe {_NAME!r} matches nothing in this model" + "".join(f"; {line}" for line in others)
        if reasons:
            reason = f"an encoder was found, but {'; '.join(reasons)}"
        return Replacement(model, (), skipped, (), reason, None if reasons else _nearest_miss(model))
    places = {one.body for one in found.encoders}
    notes = [Note(line, (), "the op has no form for it") for body, line in found.others if body in places]
    dangling = sorted(name for one in found.encoders for name in one.dangling)
    if dangling:
        notes.append(lost_users(dangling))
    fused = change_bert_nodes(found.model, _without_defaults)
    return Replacement(fused, tuple(one.match for one in found.encoders), skipped, tuple(notes), None, None)


def _without_defaults(body: str | None, node: Node) -> dict[str, Attr | None]:
    defaults = {one.name: one.default for one in BERT.attrs if one.name not in _SAID}
    return {name: None for name, attr in node.attrs.items() if name in defaults and attr == defaults[name]}


def _nearest_miss(model: Model) -> Miss | None:
    """What came nearest to a layer of an encoder, and what is wrong with it."""
    from tfsmith.patterns.rule_formula import RuleSearch  # seldom needed
    from tfsmith.patterns.rule_search import describe_miss, nearest_served

    found: list[Miss] = []
    for name, raised, _ in raised_bodies(model):
        search = RuleSearch(raised)
        for _, reading in candidates(raised, "norm"):
            next(search.match(LAYER, reading.value, {}), None)
        nearest = search.nearest
        if nearest is not None:
            place, reason = describe_miss(raised, search, nearest)
            layer = _layer_number(raised.body, place)
            said = reason.replace("attention:", f"attention of layer {layer}:", 1)
            said = said if said != reason else f"layer {layer}: {reason}"
            found.append(Miss(name, _BY_STRUCTURE.name, nearest.depth, nearest.wanted, place, said))
    return nearest_served(model, found)


def _layer_number(body: Body, node: str) -> int:
    """In which layer a node is: how many softmaxes it needs, but for its own."""
    needed = body.ancestors([node]) if node else ()
    return max(sum(body[name].op == "Softmax" for name in needed) - 1, 0)


def _listed(places: Sequence[str]) -> str:
    return places[0] if len(places) == 1 else f"{places[0]} and {len(places) - 1:,} more"


def _other_attentions(raised: Raised, stacks: Sequence[Stack]) -> Iterator[tuple[Endpoint, str]]:
    """Attentions that are no part of an encoder, each with the tensor that has it, and why."""
    kinds = {layer.kernel("query").kernel[0]: stack.kind for stack in stacks for layer in stack.layers}
    of_encoders = sum(len(stack.layers) for stack in stacks if stack.kind == "encoder")
    if of_encoders == count_attentions(raised):
        return
    search = Search(raised)
    for kind, tensor, atom in raised.recognised():
        if kind != "attention":
            continue
        found = next(search.match(_ATTENTION, ((((atom, 1.0),), 1.0),), {}), None)
        if found is None:
            yield tensor, "it has more than queries, keys, values and a mask, such as dropout or relative positions"
            continue
        query, keys, heads = found["query"], {found[name] for name in ("x", "y", "z")}, found["attention"]
        assert isinstance(query, Kernel)
        assert isinstance(heads, Heads)
        of = kinds.get(query.kernel[0])
        hidden = {label for product, _ in heads.mask.value for one, _ in product for label in _labels_of(one)}
        if of == "encoder":
            continue
        if len({one.number for one in keys if isinstance(one, Bound)}) > 1:
            yield tensor, "its keys or values are of another tensor than its queries, as in cross attention"
        elif hidden & heads.words:
            yield tensor, "its mask is another for each word, as in a decoder"
        elif of is not None:
            yield tensor, f"it is of a {of}, and the op normalizes behind each part"
        else:
            yield tensor, "what is around it is no layer of BERT"


class _Fusion:
    """Replaces encoders of one body."""

    def __init__(
        self, raised: Raised, inference: Inference, editor: BodyEditor, outside: Outside, *, keep_shared: bool
    ) -> None:
        self._raised = raised
        self._algebra = raised.algebra
        self._inference = inference
        self._editor = editor
        self._body = raised.body
        self._keep_shared = keep_shared
        self._live = outside.live
        self._ends = set(outside.named)
        self._kept = {
            name for name, found in outside.named.items() if any(one.kind in ("name", "fed") for one in found)
        }
        self._tensors: dict[int, list[tuple[Endpoint, Reading, Axes]]] = {}
        for tensor, reading in raised:
            number, axes = self._algebra.intern(reading.value)
            self._tensors.setdefault(number, []).append((tensor, reading, axes))

    def parts(self, stack: Stack) -> Iterator[Stack]:
        """A stack, cut behind each layer whose output something else takes, and where layers are of another kind."""
        layers: list[Layer] = []
        for number, layer in enumerate(stack.layers):
            layers.append(layer)
            after = stack.layers[number + 1] if number + 1 < len(stack.layers) else None
            if (
                after is None
                or self._settings(layer) != self._settings(after)
                or (not self._keep_shared and self._is_used_besides(layer, after))
            ):
                yield Stack(stack.kind, tuple(layers))
                layers = []

    def _settings(self, layer: Layer) -> tuple[object, ...]:
        """What must be the same for all layers of one node."""
        mask = layer.heads.mask
        return (
            *(layer.kernel(name).width for name in ("output", "inner")),
            layer.heads.number,
            layer.found["activation"],
            layer.norm("norm1").epsilon,
            *(self._algebra.intern(mask.value)[0], mask.kind, mask.fill, mask.is_cleared),
        )

    def _is_used_besides(self, layer: Layer, after: Layer) -> bool:
        """Whether something besides the next layer takes what a layer gives."""
        same = self._same(self._number(layer.output))
        inside = self._between(after, same) | same
        return any(name in self._ends or self._outside_users(name, inside) for name in same)

    def _number(self, tensor: Endpoint) -> int:
        reading = self._raised.reading(tensor)
        assert reading is not None
        return self._algebra.intern(reading.value)[0]

    def _users(self, name: str) -> set[str]:
        """The nodes that take something from a node, or wait for it."""
        return {use.node.name for use in self._body.uses.get(name, ())}

    def _same(self, number: int) -> set[str]:
        """The nodes that give a value, in any layout."""
        return {tensor.node for tensor, _, _ in self._tensors.get(number, ())}

    def _outside_users(self, name: str, inside: set[str]) -> set[str]:
        """The users of a node that are not inside, lead to an output, and take more of it than its shape."""
        found = self._users(name) - inside
        is_live = name in self._live  # in a part that leads nowhere itself, everybody counts
        return {user for user in found if (user in self._live or not is_live) and self._body[user].op not in SHAPES}

    def _between(self, layer: Layer, ends: set[str]) -> set[str]:
        """The nodes from what a layer gives back to given ones, and to those of which only the shape is taken."""
        found: set[str] = set()
        todo = [tensor.node for tensor in self._copies(layer.output)]
        while todo:
            name = todo.pop()
            node = self._body.by_name.get(name)
            if node is not None and name not in found and name not in ends:
                found.add(name)
                if node.op not in SHAPES:
                    todo += [source for source, _ in self._raised.inputs(node)]
        return found

    def _copies(self, tensor: Endpoint) -> list[Endpoint]:
        """A tensor, and those that are computed just as it is beside it: a model may call its encoder twice."""
        reading = self._raised.reading(tensor)
        assert reading is not None
        number, own = self._algebra.intern(reading.value)
        same = [
            one
            for one, other, axes in self._tensors.get(number, ())
            if self._algebra.relabelled(other.axes, axes, own) == reading.axes and one.node in self._editor
        ]
        names = {one.node for one in same}
        made = [one for one in same if not any(end.node in names for end in self._raised.inputs(self._body[one.node]))]
        return [tensor, *(one for one in made if one != tensor)]

    def fuse(self, body: str | None, stack: Stack) -> Encoder:
        """Replaces one stack.

        Raises:
            _CannotFuseError: It cannot be.
        """
        last = stack.layers[-1]
        attrs = self._attributes(stack)
        mask = self._mask(stack)
        embedded, rank = self._embedded(stack)
        shape = self._output_shape(last, rank)
        weights, repeats = self._passed([tuple(self._weights(layer)) for layer in stack.layers])
        ends = self._same(stack.layers[0].x.number) | ({mask.tensor.node} if mask else set())
        layers = self._inside(stack, ends)
        if not self._keep_shared:
            self._check_inside(stack, layers)
        editor, before = self._editor, len(self._editor)
        kind, hides = self._made_mask(mask) if mask else self._ones(embedded, rank, last)
        attrs |= {"MaskT": kind, "MaskAdder": mask.adder if mask else -_LARGE, "NumWeights": len(weights)}
        if stack.layers[0].heads.mask.is_cleared:
            attrs["ClearMasked"] = True
        if repeats > 1:
            attrs["WeightRepeats"] = repeats
        inputs: list[Any] = [embedded, hides, *(self._made(weight) for weight in weights)]
        scope = _common_scope([layer.output.node for layer in stack.layers])
        node = editor.add("Bert", [*inputs[:2], inputs[2:]], attrs, name=free_name(f"{scope}fused_bert", editor))
        result: Any = node if shape is None else editor.add("Reshape", [node, shape])
        olds = [self._put_in(tensor, result) for tensor in self._copies(last.output)]
        dangling = self._dangling(frozenset().union(*layers))
        editor.remove(dangling)
        for old in olds:
            editor.remove_unused(old, keep=self._ends - {old})
        gone = tuple(frozenset(name for name in layer if name not in editor) for layer in layers)
        inside = frozenset().union(*layers)
        shown = [name for name in dangling if self._body[name].op not in SHAPES and self._takes(name, inside)]
        return Encoder(body, str(node).partition(":")[0], stack, before - len(editor), gone, frozenset(shown))

    def _takes(self, name: str, nodes: frozenset[str]) -> bool:
        """Whether a node takes values of these nodes, and not only sizes."""
        ends = [self._body.resolve(text) for text in self._body[name].data_inputs]
        return any(end.node in nodes and self._inference.dtype(self._body, end) == FLOAT for end in ends)

    def _dangling(self, inside: frozenset[str]) -> frozenset[str]:
        """The nodes that take what is inside of an encoder and lead to no output."""
        found: set[str] = set()
        todo = [name for name in inside if name in self._live]
        while todo:
            users = self._users(todo.pop()) - self._live - inside - found
            found |= users
            todo += users
        return frozenset(name for name in found if name in self._editor)

    def _attributes(self, stack: Stack) -> dict[str, Any]:
        """The attributes of the node that the layers say.

        Raises:
            _CannotFuseError: The op has none for what they compute, or layers differ.
        """
        found: set[tuple[int, int, int, str, float]] = set()
        for layer in stack.layers:
            hidden, inner = layer.kernel("output").width, layer.kernel("inner").width
            heads, epsilons = layer.heads.number, {layer.norm("norm1").epsilon, layer.norm("norm2").epsilon}
            if hidden is None or inner is None or heads is None or hidden % heads:
                raise _CannotFuseError("the sizes of its weights are not known")
            if not is_close(layer.heads.scale, 1 / sqrt(hidden // heads)):
                raise _CannotFuseError(f"its scores are multiplied by {layer.heads.scale:g}, not by 1/sqrt(head size)")
            if len(epsilons) != 1:
                both = " and ".join(f"{one:g}" for one in sorted(epsilons))
                raise _CannotFuseError(f"the two layer norms of a layer have the epsilons {both}; the op has one")
            found.add((hidden, heads, inner, str(layer.found["activation"]), epsilons.pop()))
        if len(found) != 1:
            raise _CannotFuseError("its layers differ in size, activation or epsilon")
        width, count, middle, activation, epsilon = found.pop()
        if activation not in _ACTIVATIONS:
            raise _CannotFuseError(f"its activation is {activation}; the op has GELU and ReLU only")
        return {
            "HiddenSize": width,
            "NumAttentionHeads": count,
            "IntermediateSize": middle,
            "HiddenAct": _ACTIVATIONS[activation].encode(),
            "LayerNormEpsilon": epsilon,
            "MaxSequenceLength": self._longest(stack),
            "QuantizableDataType": FLOAT,
            "NonQuantizableDataType": FLOAT,
        }

    def _longest(self, stack: Stack) -> int:
        size = self._algebra.extent(tuple(stack.layers[-1].heads.words))
        return size if isinstance(size, int) else _LONGEST

    def _made_mask(self, mask: _Hidden) -> tuple[DType, Any]:
        """The mask that the op takes, 1 for each word that counts, and its type."""
        editor, kind = self._editor, self._inference.dtype(self._body, mask.tensor)
        made: Any = mask.tensor
        assert kind is not None
        if mask.compared is not None:
            op, bound = mask.compared
            made = editor.add(op, [made, self._number_of(bound, kind)])
            kind = dtype_named("bool")
        if mask.is_turned and kind.name == "bool":
            made = editor.add("LogicalNot", [made])
        elif mask.is_turned:
            made = editor.add("Sub", [self._number_of(1, kind), made])
        return kind, made

    def _number_of(self, number: float, kind: DType) -> Any:
        """A constant."""
        import numpy

        return self._editor.const(numpy.asarray(number, kind.numpy()))

    def _ones(self, embedded: Endpoint, rank: int, layer: Layer) -> tuple[DType, Any]:
        """A mask that hides nothing, where there is none, and its type.

        Raises:
            _CannotFuseError: Sentences are not apart, and their length is open.
        """
        editor, sizes = self._editor, self._editor.add("Shape", [embedded])
        if rank == 3:
            sizes = editor.add("Slice", [sizes, [0], [2]])
        else:
            length = self._algebra.extent(tuple(layer.heads.words))
            if not isinstance(length, int):
                raise _CannotFuseError("it has no mask, and the length of sequences is open")
            counts = [editor.add("FloorDiv", [editor.add("Slice", [sizes, [0], [1]]), [length]]), [length]]
            sizes = editor.add("ConcatV2", [counts, 0])
        kind = dtype_named("int32")
        return kind, editor.add("Fill", [sizes, self._number_of(1, kind)])

    def _mask(self, stack: Stack) -> _Hidden | None:
        """Which tensor hides words; None if no word is hidden.

        Raises:
            _CannotFuseError: There is no such tensor.
        """
        heads = stack.layers[0].heads
        mask = heads.mask
        masks = {
            (self._algebra.intern(one.value)[0], one.kind, one.fill, one.is_cleared)
            for one in (layer.heads.mask for layer in stack.layers)
        }
        if len(masks) != 1:
            raise _CannotFuseError("its layers have different masks")
        if not mask.value:
            return None
        if len(mask.value) != 1:
            raise _CannotFuseError("it has several masks")
        if is_causal(self._raised, heads):
            raise _CannotFuseError("its mask hides the words behind each word, as in a decoder")
        product, factor = mask.value[0]
        value, adder = ((product, 1.0),), -factor  # a softmax does not see what is taken off everywhere
        is_turned = mask.kind == "hidden"
        if mask.kind == "added" and factor < 0 and self._raised.is_indicator(value):
            adder, is_turned = factor, True
        if mask.kind != "added":
            adder = mask.fill
            if adder > -_LARGE:
                raise _CannotFuseError(f"its mask sets scores to {adder:g}, which does not hide a word")
            adder = -_LARGEST if isfinite(adder) else adder
        if any(self._algebra.head(atom)[0] == "infinity" for atom, _ in product) or adder >= 0:
            raise _CannotFuseError("its mask is added to the scores in a way that the op does not know")
        tensors = sorted(self._laid_out(value, heads), key=self._is_unusual)
        if tensors:
            return _Hidden(tensors[0], adder, is_turned)
        for source, compared in self._compared(product, heads):
            return _Hidden(source, adder, is_turned, compared)
        raise _CannotFuseError("its mask is laid out in a way that the op does not know")

    def _compared(self, product: Product, heads: Heads) -> Iterator[tuple[Endpoint, tuple[str, float]]]:
        """The tensors of which a mask is a comparison with a number, and which one."""
        head = self._algebra.head(product[0][0]) if len(product) == 1 and product[0][1] == 1 else ("",)
        if head[0] not in _COMPARED or len(head) != 5:
            return
        first, count, other, _ = (one for one in head[1:] if isinstance(one, int))
        bound = constant_of(self._algebra.value_of(other, ()))
        if bound is not None:
            inside = self._algebra.value_of(first, product[0][0][1][:count])
            for tensor in self._laid_out(inside, heads):
                yield tensor, (_COMPARED[str(head[0])], bound)

    def _is_unusual(self, mask: Endpoint) -> bool:
        """Whether a mask has another rank than light-model-transformer's op takes."""
        return self._inference.shape(self._body, mask).rank != 3

    def _laid_out(self, value: Value, heads: Heads) -> Iterator[Endpoint]:
        """The tensors that have a value, sentences first, words last, and nothing but queries between."""
        number, own = self._algebra.intern(value)
        for tensor, reading, axes in self._tensors.get(number, ()):
            here = self._algebra.relabelled(reading.axes, axes, own)
            kind = self._inference.dtype(self._body, tensor)
            is_right = (
                len(here) in (2, 3, 4) and frozenset(here[0]) == heads.batch and frozenset(here[-1]) == heads.others
            )
            between = [arg for arg in here[1:-1] if arg]
            is_right &= not between or (between == [here[-2]] and self._is_of_queries(here[-2], own, heads))
            if is_right and kind is not None and kind.name in _MASK_TYPES:
                yield tensor

    def _is_of_queries(self, arg: Arg, own: Axes, heads: Heads) -> bool:
        """Whether an axis is that of the queries, or one as long along which a mask only repeats."""
        if frozenset(arg) == heads.words:
            return True
        known = {label for each in own for label in each}
        return known.isdisjoint(arg) and self._algebra.extent(arg) == self._algebra.extent(tuple(heads.words))

    def _embedded(self, stack: Stack) -> tuple[Endpoint, int]:
        """The tensor that the first layer takes, as sentences, words and values, or with the first two as one.

        Raises:
            _CannotFuseError: There is none.
        """
        first = stack.layers[0]
        target = self._rank(stack.layers[-1])
        found: dict[int, Endpoint] = {}
        for tensor, reading, axes in self._tensors.get(first.x.number, ()):
            rank = _layout(self._algebra.relabelled(reading.axes, axes, first.x.axes), first.heads)
            kind = self._inference.dtype(self._body, tensor)
            if rank is not None and kind is not None and kind.name == "float32":
                found.setdefault(rank, tensor)
        for rank in (target, 3, 2):
            if rank in found:
                return found[rank], rank
        raise _CannotFuseError("what it takes is laid out in a way that the op does not know, or is not float32")

    def _rank(self, layer: Layer) -> int:
        reading = self._raised.reading(layer.output)
        rank = None if reading is None else _layout(reading.axes, layer.heads)
        if rank is None:
            raise _CannotFuseError("what it gives is laid out in a way that the op does not know")
        return rank

    def _output_shape(self, last: Layer, rank: int) -> list[int] | None:
        """What to reshape the node's output to; None if that is not needed.

        Raises:
            _CannotFuseError: It is needed, and the length of sequences is open.
        """
        wanted = self._rank(last)
        if wanted == rank:
            return None
        width = last.kernel("output").width
        assert width is not None
        if wanted == 2:
            return [-1, width]
        length = self._algebra.extent(tuple(last.heads.words))
        if not isinstance(length, int):
            raise _CannotFuseError("its output has another rank than its input, and the length of sequences is open")
        return [-1, length, width]

    def _weights(self, layer: Layer) -> Iterator[_Weight]:
        """The weights of a layer, in the order of the op.

        Raises:
            _CannotFuseError: One is stored in a way that the op does not know.
        """
        hidden, inner = layer.kernel("output").width, layer.kernel("inner").width
        assert hidden is not None
        assert inner is not None
        head = sorted(layer.heads.heads)
        for name in ("query", "key", "value"):
            found = layer.kernel(name)
            own = _labels_of(found.kernel) - found.summed - layer.heads.heads
            yield from self._pair(found, [sorted(found.summed)], [head, sorted(own)], hidden, f"the kernel of {name}")
        found = layer.kernel("output")
        own = found.summed - layer.heads.heads
        given = sorted(_labels_of(found.kernel) - found.summed)
        yield from self._pair(found, [head, sorted(own)], [given], hidden, "the kernel behind the attention")
        yield from self._norm(layer, "norm1", hidden)
        for name, width in (("inner", inner), ("outer", hidden)):
            found = layer.kernel(name)
            given = sorted(_labels_of(found.kernel) - found.summed)
            yield from self._pair(found, [sorted(found.summed)], [given], width, f"the {name} kernel")
        yield from self._norm(layer, "norm2", hidden)

    def _passed(self, layers: Sequence[tuple[_Weight, ...]]) -> tuple[list[_Weight], int]:
        """The weights to pass, and how many layers in a row have the same: all of ALBERT's have."""
        runs: list[int] = []
        before: tuple[object, ...] = ()
        for layer in layers:
            stored = tuple(map(self._stored, layer))
            if stored == before:
                runs[-1] += 1
            else:
                runs.append(1)
            before = stored
        repeats = gcd(*runs)
        return [weight for layer in layers[::repeats] for weight in layer], repeats

    def _stored(self, weight: _Weight) -> object:
        """Where a weight is stored, and how it is made of that: what two reads of one variable have in common."""
        if weight.atom is None:
            return weight
        name, cuts = cuts_of(self._algebra, weight.atom)
        tensor = parse_input(str(name))
        node = self._body.by_name.get(tensor.node)
        while node is not None and node.data_inputs and (node.op == "ReadVariableOp" or node.op in PASSES_ON):
            tensor = self._body.resolve(node.data_inputs[0])
            node = self._body.by_name.get(tensor.node)
        users = {use.node.op for use in self._body.consumers(tensor.node) if use.node.name in self._live}
        if (node is None or node.op != "Const") and not users <= {"ReadVariableOp", *PASSES_ON}:
            tensor = parse_input(str(name))  # something may write it between two reads
        return tensor, cuts, weight.filled, weight.width, weight.is_turned, weight.shape

    def _norm(self, layer: Layer, name: str, hidden: int) -> Iterator[_Weight]:
        norm = layer.norm(name)
        yield self._vector(norm.gamma, 1.0, hidden)
        yield self._vector(norm.beta, 0.0, hidden)

    @staticmethod
    def _vector(atom: Atom | None, filled: float, width: int) -> _Weight:
        """A vector, which may be stored with axes of size one."""
        has_more = atom is not None and () in atom[1]
        return _Weight(atom, filled=filled, width=width, shape=(width,) if has_more else None)

    def _pair(
        self, found: Kernel, rows: list[list[Label]], columns: list[list[Label]], width: int, what: str
    ) -> Iterator[_Weight]:
        """A kernel and its bias: with an axis for each group of labels, or with the rows and the columns joined."""
        apart = (*map(tuple, rows), *map(tuple, columns))
        flat_rows, flat_columns = _joined(rows), _joined(columns)
        axes = tuple(arg for arg in found.kernel[1] if arg)  # a kernel of one pixel has axes of size one
        shape = None if axes == found.kernel[1] else tuple(map(self._algebra.extent, axes))
        if axes in (apart, (flat_rows, flat_columns)):
            yield _Weight(found.kernel, width=width, shape=shape)
        elif axes == (flat_columns, flat_rows):
            yield _Weight(found.kernel, width=width, is_turned=True, shape=shape)
        else:
            raise _CannotFuseError(f"{what} is stored in an order of axes that the op does not know")
        bias = found.bias
        spelled = () if bias is None else tuple(arg for arg in bias[1] if arg)
        if bias is not None and spelled not in ((flat_columns,), tuple(map(tuple, columns))):
            raise _CannotFuseError(f"the bias of {what} is stored in an order of axes that the op does not know")
        yield self._vector(bias, 0.0, width)

    def _read(self, tensor: Endpoint) -> Endpoint:
        """A weight as other nodes read it: a variable of TensorFlow 1 has a node for that."""
        reading = self._raised.reading(tensor)
        if reading is None or self._body[tensor.node].op not in VARIABLES:
            return tensor
        same = self._tensors.get(self._number(tensor), ())
        reads = (one for one, other, _ in same if one != tensor and other.axes == reading.axes)
        return next((one for one in reads if one.node in self._editor), tensor)

    def _made(self, weight: _Weight) -> Any:
        """A weight as an input of the node: itself, turned, or a constant where the graph has none."""
        if weight.atom is None:
            import numpy

            return self._editor.const(numpy.full(weight.width, weight.filled, numpy.float32))
        stored, cuts = cuts_of(self._algebra, weight.atom)
        name, _, output = str(stored).rpartition(":")
        made: Any = self._read(Endpoint(name, int(output)))
        kind = self._inference.dtype(self._body, made)
        sizes = list(self._inference.shape(self._body, made).dims or ())
        for cut in cuts:
            made = self._part(made, sizes, cut)
        if kind not in (FLOAT, None):
            made = self._editor.add("Cast", [made], SrcT=kind, DstT=FLOAT)
        if weight.shape is not None:
            made = self._editor.add("Reshape", [made, list(weight.shape)])
        return self._editor.add("Transpose", [made, [1, 0]]) if weight.is_turned else made

    def _part(self, tensor: Any, sizes: list[int], cut: Cut) -> Any:
        """A part of a tensor; its sizes become those of the part."""
        front, back = sizes[: cut.axis], sizes[cut.axis + 1 :]
        if cut.before == 1:
            sizes[cut.axis] = cut.size
            begin = [0] * len(front) + [cut.start] + [0] * len(back)
            return self._editor.add("Slice", [tensor, begin, list(sizes)])
        apart = self._editor.add("Reshape", [tensor, [*front, cut.before, cut.span, *back]])
        begin = [0] * (len(front) + 1) + [cut.start] + [0] * len(back)
        part = self._editor.add("Slice", [apart, begin, [*front, cut.before, cut.size, *back]])
        sizes[cut.axis] = cut.before * cut.size
        return self._editor.add("Reshape", [part, list(sizes)])

    def _inside(self, stack: Stack, ends: set[str]) -> tuple[frozenset[str], ...]:
        """The nodes of each layer."""
        layers: list[frozenset[str]] = []
        before = ends
        for layer in stack.layers:
            layers.append(frozenset(self._between(layer, before)))
            before = before | layers[-1]
        return tuple(layers)

    def _check_inside(self, stack: Stack, layers: Sequence[frozenset[str]]) -> None:
        """Checks that nothing else takes what is computed inside of a stack.

        Raises:
            _CannotFuseError: Something does.
        """
        inside = set().union(*layers)
        given = self._same(self._number(stack.layers[-1].output))
        all_of_it = inside | given
        for name in sorted(inside - given):
            users = self._outside_users(name, all_of_it)
            if (users or name in self._ends) and self._is_costly(name):
                who = min(users, default="an output of the model")
                raise _CannotFuseError(f"{who} takes {name}, which is inside of it", sorted(users))

    def _is_costly(self, name: str) -> bool:
        """Whether a node inside of a layer does part of its work, other than what makes weights and masks ready."""
        reading = self._raised.reading(Endpoint(name, 0))
        if reading is None:
            return False
        kinds = {self._algebra.head(atom)[0] for product, _ in reading.value for atom, _ in product}
        return bool(kinds & {"softmax", "contract", "norm", "gelu"})

    def _put_in(self, old: Endpoint, new: Any) -> str:
        """Lets all users take the new tensor, and returns the old node; a name that must stay becomes an Identity's."""
        editor = self._editor
        if old.node in self._kept:
            aside = free_name(f"{old.node}_before", editor)
            editor.rename(old.node, aside)
            new = editor.add("Identity", [new], name=old.node)
            old = Endpoint(aside, old.output)
        editor.rewire(old, new, signatures=True)
        return old.node


class _Hidden(NamedTuple):
    """How words are hidden.

    Attributes:
        tensor: What is 1 for each word that counts, or is to be compared to say so.
        adder: What is added to the scores of the others.
        is_turned: Whether it is 1 for each word that does not count.
        compared: By which op, and with which number.
    """

    tensor: Endpoint
    adder: float
    is_turned: bool
    compared: tuple[str, float] | None = None


@record
class _Weight:
    """A weight of a layer as the op wants it.

    Attributes:
        atom: What it is in the graph; None if there is none, and `filled` stands for it.
        filled: What each element is where the graph has none.
        width: How many elements a vector has.
        is_turned: Whether rows and columns must be exchanged.
        shape: What it is without axes of size one, if it has such.
    """

    atom: Atom | None
    filled: float = 0.0
    width: int = 0
    is_turned: bool = False
    shape: tuple[Size, ...] | None = None


def _labels_of(atom: Atom) -> frozenset[Label]:
    return frozenset(label for arg in atom[1] for label in arg)


def _joined(groups: list[list[Label]]) -> Arg:
    return tuple(label for group in groups for label in group)


def _layout(axes: Axes, heads: Heads) -> int | None:
    """3 for sentences, words and values; 2 for the first two as one; None for all else."""
    if len(axes) == 3 and frozenset(axes[0]) == heads.batch and frozenset(axes[1]) == heads.words and axes[2]:
        return 3
    both = heads.batch | heads.words
    if len(axes) == 2 and frozenset(axes[0]) == both and axes[1]:
        is_ordered = all(label in heads.batch for label in axes[0][: len(heads.batch)])
        return 2 if is_ordered else None
    return None


def _common_scope(names: Sequence[str]) -> str:
    """The scope that all names are in, with a slash at its end; nothing if there is none."""
    parts = [name.split("/")[:-1] for name in names]
    common: list[str] = []
    for level in zip(*parts, strict=False):
        if len(set(level)) != 1:
            break
        common.append(level[0])
    return "".join(f"{part}/" for part in common)
