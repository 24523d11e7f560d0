"""The node `Bert`, which computes the encoder of a BERT: its definition, and its attributes in a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from tfsmith.ir.body import Body, Part
from tfsmith.ir.graph import Function
from tfsmith.ir.model import Model
from tfsmith.ir.node import Attr, Node, float32
from tfsmith.ir.opdef import ArgDef, AttrDef, OpDef, OpLookup
from tfsmith.ir.types import dtype_named
from tfsmith.records import replace

__all__ = [
    "BERT",
    "Change",
    "Ranges",
    "bert_nodes",
    "change_bert_nodes",
    "quantize_bert_nodes",
    "served_bert_nodes",
    "served_nodes",
    "with_bert_op",
]

_INT8 = Attr("type", dtype_named("qint8"))
_FLOAT = dtype_named("float32")
BERT = OpDef(
    "Bert",
    (ArgDef("embedded", _FLOAT), ArgDef("input_mask", type_attr="MaskT"), ArgDef("weights", _FLOAT, "", "NumWeights")),
    (ArgDef("encoded", _FLOAT),),
    (
        AttrDef("MaskT", "type", allowed=tuple(map(dtype_named, ("int32", "int64", "float32", "bool")))),
        AttrDef("QuantizableDataType", "type", Attr("type", _FLOAT), allowed=(_FLOAT, dtype_named("qint8"))),
        AttrDef("NonQuantizableDataType", "type", Attr("type", _FLOAT), allowed=(_FLOAT, dtype_named("bfloat16"))),
        AttrDef("NumWeights", "int", minimum=16),
        AttrDef("HiddenSize", "int", Attr("int", 768)),
        AttrDef("NumAttentionHeads", "int", Attr("int", 12)),
        AttrDef("IntermediateSize", "int", Attr("int", 3072)),
        AttrDef("MaxSequenceLength", "int", Attr("int", 128)),
        AttrDef("HiddenAct", "string", Attr("string", b"gelu_tanh"), allowed=(b"gelu_tanh", b"gelu_erf", b"relu")),
        AttrDef("CalibrateQuantFactors", "bool", Attr("bool", False)),
        AttrDef("QuantizationFactorsPath", "string", Attr("string", b"")),
        AttrDef("QuantizationFactors", "list(float)", Attr("list", ())),
        AttrDef("LayerNormEpsilon", "float", Attr("float", float32(1e-12))),
        AttrDef("MaskAdder", "float", Attr("float", -10000.0)),
        AttrDef("ClearMasked", "bool", Attr("bool", False)),
        AttrDef("WeightRepeats", "int", Attr("int", 1)),
    ),
)
"""The op as `native/bert_op` defines it."""

Change = Callable[[str | None, Node], Mapping[str, Attr] | Mapping[str, Attr | None]]
"""Attributes to set in a node, None to drop one; by its function (None for the graph itself) and the node."""
Ranges = Mapping[tuple[str | None, str], tuple[float, ...]]
"""Ranges for each node `Bert`, by its function and its name: low and high of four places, layer by layer."""


class _Ops:
    """Finds the op `Bert` besides those that a model knows."""

    __slots__ = ("_others",)

    def __init__(self, others: OpLookup) -> None:
        self._others = others

    def __call__(self, name: str) -> OpDef | None:
        return BERT if name == BERT.name else self._others(name)


def with_bert_op(model: Model) -> Model:
    """The model with the definition of the op, which names its output inside of functions. Nothing else changes."""
    ops = _Ops(model.graph.op_def)
    functions = {name: Function(name, one.part, ops, one.base) for name, one in model.graph.library.items()}
    library = model.graph.library.replace(functions) if functions else None
    known = model.replace_graph(model.graph.replace(library=library, ops=ops))
    if known.kind not in ("saved_model", "metagraph"):
        return known
    info = replace(known.meta.info, ops={**known.meta.info.ops, BERT.name: BERT})
    metas = list(known.meta_graphs)
    metas[known.selected] = replace(known.meta, info_part=Part.of(info))
    return replace(known, meta_graphs=tuple(metas))


def bert_nodes(model: Model) -> Iterator[tuple[str | None, Node]]:
    """The nodes `Bert` of a model, each with the function that it is in."""
    bodies: list[tuple[str | None, Body]] = [(None, model.graph), *model.graph.library.items()]
    for name, body in bodies:
        for node in body:
            if node.op == BERT.name:
                yield name, node


def served_bert_nodes(model: Model, tensors: Iterable[str]) -> Iterator[tuple[str | None, Node]]:
    """The nodes `Bert` that tensors of the graph need, in the graph and in what it calls. Linear."""
    return ((body, node) for body, node in served_nodes(model, tensors) if node.op == BERT.name)


def served_nodes(model: Model, tensors: Iterable[str]) -> Iterator[tuple[str | None, Node]]:
    """The nodes that tensors of the graph need, each with the function that it is in. Linear."""
    graph = model.graph
    todo: list[tuple[str | None, str]] = [(None, graph.resolve(text).node) for text in tensors]
    seen = set(todo)
    while todo:
        place = todo.pop()
        body: Body = graph if place[0] is None else graph.library[place[0]]
        node = body.by_name.get(place[1])
        if node is None:
            continue
        yield place[0], node
        found = {(place[0], body.source(text)) for text in node.inputs}
        for name in _called(node, graph.library):
            function = graph.library[name]
            ends = [*function.ret.values(), *(f"^{end}" for end in function.control_ret.values())]
            found |= {(name, function.source(text)) for text in ends}
        todo += found - seen
        seen |= found


def _called(node: Node, library: Mapping[str, Function]) -> Iterator[str]:
    """The functions that a node calls."""
    funcs = [func.name for attr in node.attrs.values() for func in attr.funcs]
    yield from (name for name in (node.op, *funcs) if name in library)


def change_bert_nodes(model: Model, change: Change) -> Model:
    """The model with other attributes of its nodes `Bert`. All else stays as it is, byte for byte."""
    changes: dict[str | None, dict[str, Node]] = {}
    for name, node in bert_nodes(model):
        changes.setdefault(name, {})[node.name] = node.replace(attrs=dict(change(name, node)))
    graph = model.graph.map_nodes(changes.pop(None, {}))
    functions = dict(graph.library)
    for name, nodes in changes.items():
        assert name is not None
        function = functions[name]
        functions[name] = function.replace_nodes(tuple(nodes.get(node.name, node) for node in function))
    if changes:
        graph = graph.replace(library=graph.library.replace(functions))
    return model.replace_graph(graph)


def quantize_bert_nodes(model: Model, ranges: Ranges) -> Model:
    """The model with nodes `Bert` that compute in int8; those without ranges round each row to its own."""

    def change(body: str | None, node: Node) -> dict[str, Attr]:
        numbers = ranges.get((body, node.name), ())
        factors = Attr("list(float)", numbers) if numbers else Attr("list", ())
        return {"QuantizableDataType": _INT8, "QuantizationFactors": factors}

    return change_bert_nodes(model, change)
