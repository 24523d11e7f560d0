"""A model as the page has it: plain data in columns, from any model that opens. Structure only, unless it is asked for.

Strings that repeat (ops, types, attributes, devices) are numbers of tables, so that 50,000 nodes take a few megabytes,
and a tenth of that when they are packed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import takewhile
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.errors import TfsmithError
from tfsmith.ir.body import Body
from tfsmith.ir.graph import Function
from tfsmith.ir.model import OBJECT_GRAPH_KEY, Model
from tfsmith.ir.node import CONTROL, Endpoint, Node, parse_input
from tfsmith.ir.opdef import op_summary
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import DType
from tfsmith.ops import VARIABLES
from tfsmith.ops.inference import Inference
from tfsmith.ops.traits import Trait, traits
from tfsmith.passes.interface import collected, guess_outputs
from tfsmith.passes.variables import find_value, restore_sources
from tfsmith.records import record
from tfsmith.view.other_graphs import keras_nodes, other_sheet
from tfsmith.view.raised_graph import RAISED_OPS, RaisedBody, RaisedNode, raised_graph
from tfsmith.view.summary import attr_facts, collection_facts, signature_facts, summary_facts, variable_facts

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GRAPH", "node_inputs", "page_data", "place_of", "tensor_facts", "tensor_of", "weight_tensors"]

GRAPH = ""
"""The name of the graph's own sheet; a function's sheet has the function's name."""
_FEW = 16
"""Constants of so many values are shown with them."""
_LONGEST_VALUE = 400
_BINS = 32
_AT_ONCE = 1 << 20
_SAID = frozenset({"_output_shapes"})
"""Attributes that say what shape inference finds, too."""
_MOST_COLLECTED = 200
_RAISED = "raised "
"""Before the names of ops in the table that only the raised graph has."""


class _Table:
    """Texts by number, each once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        return list(self._numbers)


class _Tables:
    """What all sheets share."""

    def __init__(self) -> None:
        self.ops, self.types, self.attrs, self.devices = _Table(), _Table(), _Table(), _Table()
        self._types: dict[tuple[DType | None, tuple[Any, ...] | None], int] = {}
        self._kinds: dict[tuple[Any, ...], _NodeKind] = {}

    def type_number(self, dtype: DType | None, dims: tuple[Any, ...] | None) -> int:
        """A dtype with sizes: numbers, or names of open sizes, which the page shows as -1."""
        found = self._types.get((dtype, dims))
        if found is None:
            plain = None if dims is None else [size if isinstance(size, int) else -1 for size in dims]
            found = self.types.number(json.dumps([None if dtype is None else dtype.name, plain]))
            self._types[dtype, dims] = found
        return found

    def node_kind(self, body: Body, node: Node) -> _NodeKind:
        """What nodes of one op with the same attributes share. Nodes of a file share the attributes themselves."""
        try:
            attrs = node.attrs
        except TfsmithError:  # it is damaged
            return self._new_kind(body, node)
        key = (node.op, *attrs, *map(id, attrs.values()))
        if key not in self._kinds:
            self._kinds[key] = self._new_kind(body, node)
        return self._kinds[key]

    def _new_kind(self, body: Body, node: Node) -> _NodeKind:
        types = _output_types(body, node)
        return _NodeKind(self.ops.number(node.op), self.attrs.number(_attrs_text(node)), types)


@record
class _NodeKind:
    """The numbers of an op and of attributes, and the type of each output."""

    op: int
    attrs: int
    types: tuple[DType | None, ...]


def page_data(
    model: Model,
    *,
    networks: Iterable[Mapping[str, Any]] = (),
    recognised: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
    is_raised: bool = False,
) -> dict[str, Any]:
    """All that the page shows of a model. Decodes every node, reads no weight.

    Args:
        model: The model.
        networks: What was recognised in it, as `Network.facts` has it.
        recognised: For each function, scopes of nodes by what was recognised, as `recognised_scopes` has them.
        is_raised: Whether the page shows the raised graph, too.

    Raises:
        InvalidModelError: Two nodes have one name.
    """
    facts: dict[str, Any] = {
        "format": 1,
        "summary": summary_facts(model),
        "variables": variable_facts(model),
        "networks": list(networks),
        "signatures": {},
        "collections": {},
        "sheets": [],
        "raised": {},
    }
    if not model.has_graph and model.keras is not None and model.keras.layers:
        sheet, made = other_sheet(keras_nodes(model.keras, model.variables))
        return facts | {"sheets": [sheet], "tables": made}
    if not model.has_graph:
        return facts | {"tables": _tables_facts(_Tables(), model)}
    facts["signatures"] = signature_facts(model.signatures)
    facts["collections"] = _cut_collections(collection_facts(model))
    tables = _Tables()
    inference = Inference(model.graph, model.meta.objects)
    bodies: list[Body] = [model.graph, *model.graph.library.values()]
    facts["sheets"] = [_sheet(body, inference, tables) for body in bodies]
    facts["sheets"][0] |= {"outputs": _outputs(model), "keys": _keys(model)}
    if is_raised:
        graph, *_ = facts["sheets"]
        raised = raised_graph(model, [graph["names"][number] for number in graph["outputs"]])
        facts["raised"] = {
            sheet["name"]: _raised_sheet(sheet, raised[sheet["name"]], recognised.get(sheet["name"], {}), tables)
            for sheet in facts["sheets"]
            if sheet["name"] in raised
        }
    facts["tables"] = _tables_facts(tables, model)
    return facts


def _tables_facts(tables: _Tables, model: Model) -> dict[str, Any]:
    library = model.graph.library if model.has_graph else {}
    return {
        "ops": [_op_facts(name, model, name in library) for name in tables.ops.texts],
        "types": [json.loads(text) for text in tables.types.texts],
        "attrs": [json.loads(text) for text in tables.attrs.texts],
        "devices": tables.devices.texts,
    }


def _op_facts(name: str, model: Model, is_function: bool) -> dict[str, Any]:
    if name.startswith(_RAISED):
        op = name.removeprefix(_RAISED)
        kind = "constant" if op == "Weight" else "op"
        return {"name": op, "kind": kind, "doc": RAISED_OPS[op], "traits": ["raised"]}
    definition = model.graph.op_def(name)
    found = traits(name, model.graph.op_def) or Trait(0)
    kind = "op"
    if name in VARIABLES:
        kind = "variable"
    elif Trait.CONSTANT in found:
        kind = "constant"
    elif Trait.INPUT in found:
        kind = "input"
    elif name == "_Retval":
        kind = "output"
    elif Trait.CALL in found or is_function:
        kind = "call"
    facts: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "doc": "a function of the model" if is_function else op_summary(name),
        "traits": [trait.name.lower().replace("_", " ") for trait in Trait if trait in found and trait.name],
    }
    if definition is None:
        facts["unknown"] = not is_function
        return facts
    facts["inputs"] = [arg.name for arg in definition.inputs]
    facts["outputs"] = [arg.name for arg in definition.outputs]
    facts["single"] = [not (arg.number_attr or arg.type_list_attr) for arg in definition.inputs]
    facts["stateful"] = definition.is_stateful
    return facts


def _sheet(body: Body, inference: Inference, tables: _Tables) -> dict[str, Any]:
    """A body in columns. A function's arguments are nodes before its own, and its results are nodes behind them.

    `inputs` has for each node the number of its inputs, then for each of them the number of the node that gives it and
    of the output, -1 for a control edge; a node that is not there is -1 less its number in `missing`.
    """
    args = body.args
    rets = list(body.ret.items()) if isinstance(body, Function) else []
    names = [*args, *(node.name for node in body.nodes)]
    numbers = {name: number for number, name in enumerate(names)}
    free = {name for name, _ in rets} & set(names)
    names += [f"{name} (result)" if name in free else name for name, _ in rets]
    missing = _Table()
    inputs: list[int] = []

    def add_inputs(texts: Sequence[str]) -> None:
        inputs.append(len(texts))
        for text in texts:
            source, output = _resolved(body, text)
            inputs.append(numbers[source] if source in numbers else -1 - missing.number(source))
            inputs.append(output)

    ops, types, attrs, devices = [], [], [], []
    for name in args:
        inputs.append(0)
        ops.append(tables.ops.number("_Arg"))
        types.append(_types(inference, body, name, (inference.dtype(body, Endpoint(name, 0)),), tables))
        attrs.append(tables.attrs.number("{}"))
        devices.append(tables.devices.number(""))
    for node in body.nodes:
        add_inputs(node.inputs)
        kind = tables.node_kind(body, node)
        ops.append(kind.op)
        types.append(_types(inference, body, node.name, kind.types, tables))
        attrs.append(kind.attrs)
        devices.append(tables.devices.number(node.device))
    for _, text in rets:
        add_inputs([text])
        ops.append(tables.ops.number("_Retval"))
        types.append([])
        attrs.append(tables.attrs.number("{}"))
        devices.append(tables.devices.number(""))
    return {
        "name": body.name if isinstance(body, Function) else GRAPH,
        "names": names,
        "ops": ops,
        "inputs": inputs,
        "types": types,
        "attrs": attrs,
        "devices": devices,
        "missing": missing.texts,
        "args": len(args),
        "rets": len(rets),
    }


def _raised_sheet(
    sheet: Mapping[str, Any], body: RaisedBody, scopes: Mapping[str, str], tables: _Tables
) -> dict[str, Any]:
    """A sheet in which nodes of the raised graph stand for those that they are made of, in the same columns.

    `covers` has for each node the numbers of the nodes that it stands for, and `scopes` the scope that it is in.
    """
    names: list[str] = sheet["names"]
    count = len(names)
    numbers = {name: number for number, name in enumerate(names)}
    owner = {name: one for one in body.made.values() for name in one.nodes}
    sources = node_inputs(sheet)

    def source(number: int) -> int:
        """The node whose value a node has, in the raised graph."""
        for _ in range(count):
            name = names[number] if 0 <= number < count else ""
            if name in owner:
                return numbers[owner[name].name]
            if name in body.weights:
                return numbers.get(body.weights[name], number)
            if name not in body.views or body.views[name] not in numbers:
                return number
            number = numbers[body.views[name]]
        return number

    def inputs(number: int) -> list[tuple[int, int]]:
        made = owner.get(names[number])
        if names[number] in body.weights.values():
            return []
        nodes = {number} if made is None else {numbers[name] for name in made.nodes}
        found: dict[tuple[int, int], None] = {}
        todo, seen = [number], {number}
        while todo:  # of a view only what it is a view of counts, not how its shape is computed
            each = todo.pop()
            for one, output in sources[each][: 1 if names[each] in body.views else None]:
                if output == CONTROL or one in seen:
                    continue
                if one in nodes:
                    seen.add(one)
                    todo.append(one)
                elif source(one) != number:
                    found[source(one), output] = None
        return list(found)

    ends = [number for number in sheet.get("outputs", ()) if not sheet["rets"]] + list(
        range(count - sheet["rets"], count)
    )
    todo, kept = [source(number) for number in ends], dict[int, list[tuple[int, int]]]()
    while todo:
        number = todo.pop()
        if 0 <= number < count and number not in kept:
            kept[number] = inputs(number)
            todo += [one for one, _ in kept[number]]
    order = sorted(kept)
    place = {number: at for at, number in enumerate(order)}
    rows: list[int] = []
    for number in order:
        rows.append(len(kept[number]))
        for one, output in kept[number]:
            rows += [place.get(one, one), output if one < 0 or names[one] not in owner else 0]
    made = {number: body.made.get(names[number]) for number in order}
    weights = set(body.weights.values())
    readers = {root: numbers[name] for name, root in body.weights.items() if name in numbers}
    return {
        "name": sheet["name"],
        "names": [names[number] for number in order],
        "ops": [_raised_op(made[number], names[number] in weights, sheet["ops"][number], tables) for number in order],
        "inputs": rows,
        "types": [sheet["types"][readers.get(names[number], number)] for number in order],
        "attrs": [
            sheet["attrs"][number] if one is None else tables.attrs.number(json.dumps(one.attrs, default=str))
            for number, one in made.items()
        ],
        "devices": [sheet["devices"][number] for number in order],
        "missing": sheet["missing"],
        "args": sum(number < sheet["args"] for number in order),
        "rets": sum(number >= count - sheet["rets"] for number in order),
        "outputs": [place[source(number)] for number in sheet.get("outputs", ()) if source(number) in place],
        "keys": {str(place[number]): key for number, key in sheet.get("keys", {}).items() if number in place},
        "covers": [[] if one is None else sorted(numbers[name] for name in one.nodes) for one in made.values()],
        "scopes": _raised_scopes(order, kept, names, scopes, weights),
    }


def _raised_scopes(
    order: Sequence[int],
    inputs: Mapping[int, Sequence[tuple[int, int]]],
    names: Sequence[str],
    scopes: Mapping[str, str],
    weights: Set[str],
) -> list[str]:
    """The scope of each node: by layers inside of the scope that has them all, else by name.

    A weight is where it is taken, if that is one place.
    """
    parents = [names[number].split("/")[:-1] for number in order if names[number] in scopes]
    same = takewhile(lambda parts: len(set(parts)) == 1, zip(*parents, strict=False))
    common = "/".join(parts[0] for parts in same)
    users: dict[int, list[int]] = {}
    for number in order:
        for one, _ in inputs[number]:
            users.setdefault(one, []).append(number)

    def scope(number: int) -> str:
        found = scopes.get(names[number])
        if found is None:
            return names[number].rpartition("/")[0]
        return f"{common}/{found.partition('/')[2]}" if common else found

    return [
        scope(users[number][0] if names[number] in weights and len(users.get(number, ())) == 1 else number)
        for number in order
    ]


def _raised_op(made: RaisedNode | None, is_weight: bool, op: int, tables: _Tables) -> int:
    if made is not None:
        return tables.ops.number(f"{_RAISED}{made.op}")
    return tables.ops.number(f"{_RAISED}Weight") if is_weight else op


def node_inputs(sheet: Mapping[str, Any]) -> list[list[tuple[int, int]]]:
    """The inputs of each node of a sheet: the number of a node and of its output, as `_sheet` has them."""
    flat, at, found = sheet["inputs"], 0, []
    for _ in sheet["names"]:
        count = flat[at]
        pairs = flat[at + 1 : at + 1 + 2 * count]
        found.append(list(zip(pairs[::2], pairs[1::2], strict=True)))
        at += 1 + 2 * count
    return found


def _resolved(body: Body, text: str) -> Endpoint:
    """The tensor that an input's text means, where a damaged file allows to say it."""
    try:
        return body.resolve(text)
    except TfsmithError:
        return Endpoint(body.source(text), CONTROL if text[:1] == "^" else 0)


def _output_types(body: Body, node: Node) -> tuple[DType | None, ...]:
    """The type of each output of a node, where a damaged file allows to say it."""
    definition = body.op_def(node.op)
    try:
        return (None,) if definition is None else definition.output_types(node.attrs)
    except TfsmithError:
        return (None,)


def _types(inference: Inference, body: Body, name: str, dtypes: Sequence[DType | None], tables: _Tables) -> list[int]:
    """The types and sizes of a node's outputs, as numbers of the table."""
    try:
        found = [inference.known(body, Endpoint(name, at)).dims for at in range(len(dtypes))]
    except TfsmithError:
        return [tables.types.number("[null, null]")] * len(dtypes)
    return [tables.type_number(dtype, dims) for dtype, dims in zip(dtypes, found, strict=True)]


def _attrs_text(node: Node) -> str:
    try:
        facts = {key: attr_facts(attr) for key, attr in sorted(node.attrs.items()) if key not in _SAID}
        if node.op == "Const" and node.constant is not None:
            facts["value"] |= _few_values(node.constant)
    except TfsmithError as error:
        facts = {"(damaged)": str(error)}
    return json.dumps({key: _cut(value) for key, value in facts.items()}, default=str)


def _cut(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return value if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]} ... ({len(text):,} characters)"


def _few_values(tensor: Tensor) -> dict[str, Any]:
    """The values of a small constant."""
    count = tensor.shape.elements
    if count is None or count > _FEW:
        return {}
    found = tensor.numpy().reshape(-1).tolist()
    return {"values": [_plain(value) for value in found]}


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return _cut(value.decode("utf-8", "backslashreplace"))
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    return value if isinstance(value, (bool, int, str)) else str(value)


def _outputs(model: Model) -> list[int]:
    """The numbers of the nodes that the graph's answers come from: of signatures, else the likely ones."""
    if model.signatures:
        found = [info.name for signature in model.signatures.values() for info in signature.outputs.values()]
    else:
        try:
            found = [one.tensor for one in (collected(model, "outputs") or guess_outputs(model.graph))]
        except TfsmithError:  # it is cut off
            return []
    wanted = {parse_input(text).node for text in found}
    return [number for number, node in enumerate(model.graph.nodes) if node.name in wanted]


def _keys(model: Model) -> dict[int, str]:
    """For each variable of the graph, by its node's number, what it is called in the checkpoint."""
    if not model.variables:
        return {}
    try:
        sources = restore_sources(model.meta)
    except TfsmithError:  # it is cut off
        sources = {}
    keys = {}
    for number, node in enumerate(model.graph.nodes):
        if node.op not in VARIABLES:
            continue
        try:
            keys[number] = find_value(model, node, sources)[0]
        except TfsmithError:
            continue
    return keys


def _cut_collections(facts: dict[str, Any]) -> dict[str, Any]:
    return {
        key: {"kind": one["kind"], "count": len(one["values"]), "values": one["values"][:_MOST_COLLECTED]}
        for key, one in facts.items()
    }


def place_of(model: Model, name: str) -> tuple[str, str] | None:
    """The sheet and the node that a node of the flat graph was, in which calls are replaced by what they call.

    There the nodes of a body are named "call/node". None if there is no such node.
    """
    body: Body = model.graph
    for _ in range(name.count("/") + 1):
        if name in body.by_name:
            return (body.name if isinstance(body, Function) else GRAPH), name
        at = name.find("/")
        while at > 0 and name[:at] not in body.by_name:
            at = name.find("/", at + 1)
        if at <= 0:
            return None
        call = body[name[:at]]
        found = call.attrs.get("f")
        called = call.op if call.op in model.graph.library else found.funcs[0].name if found and found.funcs else ""
        if called not in model.graph.library:
            return None
        body, name = model.graph.library[called], name[at + 1 :]
    return None


# Weights


def weight_tensors(model: Model) -> Iterator[tuple[str, Tensor]]:
    """All weights, by what the page calls them: `variable:KEY`, and `node:FUNCTION:NAME` for constants. No I/O."""
    for name, tensor in model.variables.items():
        if name != OBJECT_GRAPH_KEY:
            yield f"variable:{name}", tensor
    if not model.has_graph:
        return
    for body in (model.graph, *model.graph.library.values()):
        sheet = body.name if isinstance(body, Function) else GRAPH
        for node in body.nodes:
            value = node.constant
            if value is not None and (value.shape.elements or 0) > _FEW:
                yield f"node:{sheet}:{node.name}", value


def tensor_of(model: Model, key: str) -> Tensor | None:
    """The weight that the page calls so, or None."""
    kind, _, rest = key.partition(":")
    if kind == "variable":
        return None if rest == OBJECT_GRAPH_KEY else model.variables.get(rest)
    sheet, _, name = rest.partition(":")
    if kind != "node" or not model.has_graph:
        return None
    body: Body | None = model.graph if sheet == GRAPH else model.graph.library.get(sheet)
    node = None if body is None else body.by_name.get(name)
    return None if node is None else node.constant


def tensor_facts(tensor: Tensor) -> dict[str, Any]:
    """Statistics and a histogram of a weight. Reads it in pieces; of texts it has no statistics, but the first ones."""
    import numpy as np

    facts: dict[str, Any] = {"count": tensor.shape.elements or 0, "dtype": tensor.dtype.base.name}
    values = np.asarray(tensor.numpy()).reshape(-1)
    if values.dtype.kind in "OSU":
        return facts | {"first": [_plain(value) for value in values[:_FEW].tolist()]}
    if values.dtype.kind == "c":
        values = np.abs(values)
    low, high, total, squares, finite, zeros, nans = np.inf, -np.inf, 0.0, 0.0, 0, 0, 0
    for piece in _pieces(values):
        nans += int(np.isnan(piece).sum())
        kept = piece[np.isfinite(piece)]
        zeros += int((kept == 0).sum())
        finite += kept.size
        if kept.size:
            low, high = min(low, float(kept.min())), max(high, float(kept.max()))
            total += float(kept.sum())
    mean = total / finite if finite else 0.0
    counts = np.zeros(_BINS, np.int64)
    for piece in _pieces(values):
        kept = piece[np.isfinite(piece)]
        squares += float(((kept - mean) ** 2).sum())
        if finite and isfinite(high - low):
            counts += np.histogram(kept, bins=_BINS, range=(low, high))[0]
    facts |= {"finite": finite, "nan": nans, "infinite": values.size - finite - nans, "zeros": zeros}
    if finite:
        deviation = (squares / finite) ** 0.5
        facts |= {"min": low, "max": high, "mean": mean, "deviation": deviation, "histogram": counts.tolist()}
    return {key: _plain(value) if isinstance(value, float) else value for key, value in facts.items()}


def _pieces(values: NDArray[Any]) -> Iterator[NDArray[Any]]:
    import numpy as np

    for start in range(0, values.size, _AT_ONCE):
        yield values[start : start + _AT_ONCE].astype(np.float64)
