"""What `tfsmith show` and `tfsmith diff` say of a model, as plain data. Structure only: no weight is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, prod
from re import split
from typing import TYPE_CHECKING, Any

from tfsmith.ir.graph import Graph, count_ops, graph_warning, missing_inputs
from tfsmith.ir.model import OBJECT_GRAPH_KEY, Collection, Model, Signature, TensorInfo, html_table, is_optimizer_slot
from tfsmith.ir.node import Attr, Func, Node, parse_input
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.types import UNKNOWN, DType, Shape, dtype_named
from tfsmith.ops import VARIABLES
from tfsmith.records import field, record

if TYPE_CHECKING:
    from tfsmith.passes.diff_bodies import (
        AttrChange,
        BodyDifference,
        FunctionDifference,
        NodeChange,
        StructureDifference,
        ValueChange,
    )

__all__ = [
    "Totals",
    "Summary",
    "summarize",
    "summary_facts",
    "signature_facts",
    "variable_facts",
    "op_facts",
    "scope_facts",
    "node_facts",
    "attr_facts",
    "collection_facts",
    "function_facts",
    "shape_facts",
    "difference_facts",
]


_DEEPEST = 6
"""So many parts of a name tell a scope."""


@record
class Totals:
    """How much a set of tensors is."""

    count: int = 0
    parameters: int = 0
    bytes: int = 0
    dtypes: Mapping[str, int] = field(default_factory=dict)
    """How many tensors each dtype has, most first."""


@record
class Summary:
    """The facts about a model that the summary shows.

    Attributes:
        title: What kind of file it is, in words.
        tensorflow_version: The release that wrote it, "" if the file does not say.
        producer: The graph's producer version.
        variables: The variables, from the checkpoint if there is one, else from the graph's nodes.
        variables_from: "checkpoint", "graph" or "".
        optimizer_slots: Those of the variables that only an optimizer needs.
        constants: The values in the graph itself.
        node_count: Nodes of the graph.
        function_nodes: Nodes inside functions.
        ops: Ops of graph and functions, by count.
        custom_ops: Ops that stock TensorFlow does not have.
        frozen: Whether the graph has no variables at all.
        missing: Nodes that take what is not there, with what they take: the graph is cut off.
        warning: That it is cut off, or why TensorFlow refuses it.
    """

    title: str
    tensorflow_version: str = ""
    producer: int = 0
    variables: Totals = Totals()
    variables_from: str = ""
    optimizer_slots: Totals = Totals()
    constants: Totals = Totals()
    node_count: int = 0
    function_count: int = 0
    function_nodes: int = 0
    ops: Mapping[str, int] = field(default_factory=dict)
    custom_ops: tuple[str, ...] = ()
    assets: tuple[str, ...] = ()
    frozen: bool = False
    missing: tuple[tuple[str, str], ...] = ()
    warning: str = ""

    def _repr_html_(self) -> str:
        """For notebooks."""
        rows = [
            ("written by", f"TensorFlow {self.tensorflow_version}" if self.tensorflow_version else ""),
            (
                "variables",
                f"{self.variables.count} ({self.variables.parameters} parameters, {self.variables.bytes} bytes)",
            ),
            ("constants", f"{self.constants.count} ({self.constants.bytes} bytes)"),
            ("nodes", f"{self.node_count}, and {self.function_nodes} in {self.function_count} functions"),
            ("ops", ", ".join(f"{op} {count}" for op, count in list(self.ops.items())[:8])),
            ("custom ops", ", ".join(self.custom_ops)),
        ]
        return html_table(self.title, [(name, value) for name, value in rows if value])


def summarize(model: Model) -> Summary:
    """The summary of the selected meta graph. Decodes all attributes; keeps those of constants and variables.

    Raises:
        InvalidModelError: Two nodes have one name.
    """
    in_checkpoint = {name: tensor for name, tensor in model.variables.items() if name != OBJECT_GRAPH_KEY}
    slots = {name: tensor for name, tensor in in_checkpoint.items() if is_optimizer_slot(name)}
    if not model.has_graph:
        kind = f"checkpoint (V{model.checkpoint.version})" if model.checkpoint else "weights"
        title = f"{kind} without a graph" if model.keras is None else model.keras.title
        return Summary(
            title,
            variables=_total(in_checkpoint.values()),
            variables_from="checkpoint",
            optimizer_slots=_total(slots.values()),
        )
    graph = model.graph
    missing = missing_inputs(graph)
    bodies = [node for function in graph.library.values() for node in function.nodes]
    variable_nodes = [node for node in (*graph.nodes, *bodies) if node.op in VARIABLES]
    variables = _total(in_checkpoint.values()) if in_checkpoint else _total_of_nodes(variable_nodes)
    return Summary(
        title=_title(model, frozen=not variable_nodes),
        tensorflow_version=model.meta.info.tensorflow_version,
        producer=graph.versions.producer,
        variables=variables,
        variables_from="checkpoint" if in_checkpoint else "graph" if variable_nodes else "",
        optimizer_slots=_total(slots.values()),
        constants=_constants(graph, bodies),
        node_count=len(graph),
        function_count=len(graph.library),
        function_nodes=len(bodies),
        ops=count_ops((*graph.nodes, *bodies)),
        custom_ops=graph.custom_ops(),
        assets=_assets(model),
        frozen=not variable_nodes,
        missing=tuple(missing),
        warning=graph_warning(graph, missing, attrs="needed"),
    )


def _title(model: Model, *, frozen: bool) -> str:
    if model.kind == "saved_model":
        return "SavedModel"
    if model.kind == "metagraph":
        return "MetaGraph (.meta) with its checkpoint" if model.variables else "MetaGraph (.meta)"
    return "frozen graph (GraphDef)" if frozen else "graph (GraphDef) without its variables' values"


def _assets(model: Model) -> tuple[str, ...]:
    """The asset files: of the meta graph, or as early TF1 kept them, in a collection."""
    if model.meta.assets:
        return tuple(asset.filename for asset in model.meta.assets)
    kept = model.collections.get("saved_model_assets")
    return tuple(str(message.get("filename", "")) for message in (kept.messages if kept is not None else ()))


def _total(tensors: Iterable[Tensor]) -> Totals:
    return _sum((tensor.dtype.base.name, tensor.shape.elements or 0, tensor.nbytes) for tensor in tensors)


def _total_of_nodes(nodes: Iterable[Node]) -> Totals:
    rows: list[tuple[str, int, int]] = []
    for node in nodes:
        dtype, shape = node.get("dtype"), node.get("shape")
        elements = (shape.elements or 0) if isinstance(shape, Shape) else 0
        is_known = isinstance(dtype, DType)
        rows.append((dtype.name, elements, elements * dtype.itemsize) if is_known else ("?", elements, 0))
    return _sum(rows)


def _constants(graph: Graph, bodies: list[Node]) -> Totals:
    values = [node.peek("value") for node in (*graph.nodes, *bodies) if node.op == "Const"]
    return _total(found.tensor for found in values if found is not None and found.tensor is not None)


def _sum(rows: Iterable[tuple[str, int, int]]) -> Totals:
    count = parameters = size = 0
    dtypes: dict[str, int] = {}
    for name, elements, nbytes in rows:
        count += 1
        parameters += elements
        size += nbytes
        dtypes[name] = dtypes.get(name, 0) + 1
    return Totals(count, parameters, size, dict(sorted(dtypes.items(), key=lambda item: (-item[1], item[0]))))


def summary_facts(model: Model) -> dict[str, Any]:
    """The summary. Reads structure only."""
    summary = summarize(model)
    facts: dict[str, Any] = {
        "path": None if model.path is None else str(model.path),
        "kind": model.kind,
        "title": summary.title,
        "tensorflow_version": summary.tensorflow_version,
        "tag_sets": [list(tags) for tags in model.tag_sets],
        "tag_set": list(model.meta.tags) if model.has_graph else [],
        "variables": {"from": summary.variables_from, **_totals(summary.variables)},
        "optimizer_slots": _totals(summary.optimizer_slots),
        "checkpoint": None,
    }
    if model.checkpoint is not None:
        found = model.checkpoint
        files = [{"name": path.name, "bytes": path.stat().st_size} for path in found.files]
        missing = [path.name for path in getattr(model.variables, "shards", ()) if not path.exists()]
        facts["checkpoint"] = {
            "prefix": str(found.prefix),
            "version": found.version,
            "step": found.step,
            "files": files,
            "missing": missing,
        }
    if not model.has_graph:
        return facts
    facts["signatures"] = signature_facts(model.signatures)
    facts["graph"] = {
        "producer": summary.producer,
        "frozen": summary.frozen,
        "nodes": summary.node_count,
        "functions": summary.function_count,
        "function_nodes": summary.function_nodes,
        "ops": dict(summary.ops),
        "custom_ops": list(summary.custom_ops),
    }
    if summary.missing:
        facts["graph"]["missing"] = [{"node": node, "takes": name} for node, name in summary.missing]
    if summary.warning:
        facts["graph"]["warning"] = summary.warning
    facts["constants"] = _totals(summary.constants)
    facts["assets"] = list(summary.assets)
    facts["side_files"] = [side.name for side in model.side_files]
    return facts


def _totals(totals: Totals) -> dict[str, Any]:
    return {
        "count": totals.count,
        "parameters": totals.parameters,
        "bytes": totals.bytes,
        "dtypes": dict(totals.dtypes),
    }


def shape_facts(shape: Shape) -> list[int] | None:
    """A shape as JSON has it: null for an unknown rank, -1 for an unknown dimension."""
    return None if shape.dims is None else list(shape.dims)


def signature_facts(signatures: Mapping[str, Signature]) -> dict[str, Any]:
    """All signatures by key."""
    return {
        key: {
            "method_name": signature.method_name,
            "inputs": {name: _tensor_info(info) for name, info in signature.inputs.items()},
            "outputs": {name: _tensor_info(info) for name, info in signature.outputs.items()},
        }
        for key, signature in signatures.items()
    }


def _tensor_info(info: TensorInfo) -> dict[str, Any]:
    facts: dict[str, Any] = {"dtype": info.dtype.name, "shape": shape_facts(info.shape), "name": info.name}
    if info.encoding != "dense":
        facts["encoding"] = info.encoding
        facts["components"] = {role: _tensor_info(part) for role, part in info.components.items()}
    return facts


def variable_facts(model: Model) -> list[dict[str, Any]]:
    """Every tensor of the checkpoint, by name; without one, every variable of the graph. No values are read.

    Where a name is a path of Python attributes, `variable` is what the variable itself is called.
    """
    from tfsmith.passes.variables import variable_names  # the summary alone does not need it

    names = variable_names(model)
    found = {name: tensor for name, tensor in model.variables.items() if name != OBJECT_GRAPH_KEY}
    if found or not model.has_graph:
        rows = [(name, tensor.dtype, tensor.shape) for name, tensor in found.items()]
    else:
        nodes = [node for node in model.graph if node.op in VARIABLES]
        rows = [(node.name, *_declared(node)) for node in nodes]
    return [
        {
            "name": name,
            "dtype": kind.name,
            "shape": shape_facts(shape),
            "bytes": found[name].nbytes if name in found else (shape.elements or 0) * kind.itemsize,
            "optimizer_slot": is_optimizer_slot(name),
            **({"variable": names[name][0]} if name in names else {}),
        }
        for name, kind, shape in sorted(rows, key=lambda row: row[0])
    ]


def scope_facts(model: Model, most: int = 24) -> list[dict[str, Any]]:
    """The parameters of each scope, in the order of their names; an optimizer's are left out. No values are read.

    A scope that holds more than a quarter of all is split into what is below it, as long as there is room for it.

    Args:
        model: The model.
        most: How many scopes to name at most.
    """
    sizes: dict[str, int] = {}
    for row in variable_facts(model):
        if not row["optimizer_slot"] and row["shape"] is not None:
            sizes[row.get("variable", row["name"])] = prod(max(size, 0) for size in row["shape"])
    groups = _split(sizes, 0)
    for depth in range(1, _DEEPEST):
        for scope in [name for name, inner in groups.items() if len(inner) > 1]:
            below = _split(groups[scope], depth)
            is_large = 4 * sum(groups[scope].values()) > sum(sizes.values())
            if is_large and scope not in below and len(groups) + len(below) - 1 <= most:
                at = list(groups.items())
                place = [name for name, _ in at].index(scope)
                groups = dict([*at[:place], *below.items(), *at[place + 1 :]])
    return [
        {"scope": scope, "parameters": sum(groups[scope].values()), "variables": len(groups[scope])}
        for scope in sorted(groups, key=_natural)
    ]


def _natural(name: str) -> list[tuple[int, str]]:
    """What to sort names by, so that `layer_10` comes behind `layer_9`."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in split(r"([0-9]+)", name)]


def _split(sizes: Mapping[str, int], depth: int) -> dict[str, dict[str, int]]:
    """Variables by the first parts of their names."""
    groups: dict[str, dict[str, int]] = {}
    for name, size in sizes.items():
        groups.setdefault("/".join(name.split("/")[: depth + 1]), {})[name] = size
    return groups


def _declared(node: Node) -> tuple[DType, Shape]:
    """What a variable's node says of its value; a damaged file may say anything."""
    kind, shape = node.get("dtype"), node.get("shape")
    return (
        kind if isinstance(kind, DType) else dtype_named("invalid"),
        shape if isinstance(shape, Shape) else UNKNOWN,
    )


def op_facts(model: Model) -> dict[str, int]:
    """How many nodes of graph and functions each op has, most first."""
    return dict(summarize(model).ops)


def node_facts(nodes: Iterable[Node]) -> list[dict[str, Any]]:
    """Nodes with ops, inputs and attributes; tensors are shown by dtype and shape."""
    return [
        {
            "name": node.name,
            "op": node.op,
            "inputs": list(node.inputs),
            "device": node.device,
            "attrs": {key: attr_facts(attr) for key, attr in sorted(node.attrs.items())},
        }
        for node in nodes
    ]


def attr_facts(attr: Attr) -> Any:
    """The value of an attribute as JSON has it; a tensor is shown by dtype and shape."""
    return _value(attr.value)


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_value(item) for item in value]
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Shape):
        return shape_facts(value)
    if isinstance(value, Func):
        return {"function": value.name}
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return {"dtype": value.dtype.name, "shape": shape_facts(value.shape)}  # a tensor


def collection_facts(model: Model) -> dict[str, Any]:
    """Every collection with its kind and values; tensors come with dtype and shape where the graph has them."""
    return {
        key: {"kind": found.kind, "values": _collection_values(model, found)}
        for key, found in model.collections.items()
    }


def _collection_values(model: Model, collection: Collection) -> Sequence[Any]:
    if collection.kind == "node":
        return [_named_tensor(model, name) for name in collection.values]
    messages = collection.messages
    if messages:
        return [_plain(message) for message in messages]
    return [_plain(value) for value in collection.values]


def _named_tensor(model: Model, name: str) -> dict[str, Any]:
    endpoint = parse_input(name)
    node = model.graph.by_name.get(endpoint.node)
    return {"name": name, "op": None if node is None else node.op}


def _float(value: float) -> float | str:
    """JSON has no word for infinities and NaN."""
    return value if isfinite(value) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return _float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def function_facts(model: Model, only: str | None = None) -> list[dict[str, Any]]:
    """Every function of the library, or one alone, with its arguments, results and size. Decodes what it lists."""
    rows = []
    for name, function in model.graph.library.items():
        if only not in (None, name):
            continue
        signature = function.signature
        rows.append(
            {
                "name": name,
                "inputs": [_arg(arg.name, arg.type, arg.type_attr or arg.type_list_attr) for arg in signature.inputs],
                "outputs": [_arg(arg.name, arg.type, arg.type_attr or arg.type_list_attr) for arg in signature.outputs],
                "nodes": len(function.nodes),
                "stateful": signature.is_stateful,
            }
        )
    return rows


def _arg(name: str, dtype: DType | None, attr: str) -> dict[str, Any]:
    return {"name": name, "dtype": attr if dtype is None else dtype.name}


def difference_facts(found: StructureDifference) -> dict[str, Any]:
    """The differences by section, each a list or a dict that is empty where nothing differs. Decodes what differs."""
    return {
        "versions": [_change(change) for change in found.versions],
        "signatures": [_change(change) for change in found.signatures],
        "nodes": _body(found.nodes),
        "functions": {
            "added": list(found.functions_added),
            "removed": list(found.functions_removed),
            "renamed": [
                {"first": one.first, "second": one.second} for one in found.functions if one.first != one.second
            ],
            "changed": [_function(one) for one in found.functions if one.facts or one.attrs or one.body],
            "same": found.function_count - len(found.functions),
        },
        "collections": [_change(change) for change in found.collections],
        "assets": [_change(change) for change in found.assets],
        "others": [_change(change) for change in found.others],
    }


def _change(change: ValueChange) -> dict[str, Any]:
    return {"name": change.name, "first": _side(change.first), "second": _side(change.second)}


def _side(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str, list)):
        return value
    if isinstance(value, Shape):
        return shape_facts(value)
    return _value(value)


def _body(body: BodyDifference) -> dict[str, Any]:
    return {
        "added": [_node(node) for node in body.added],
        "removed": [_node(node) for node in body.removed],
        "renamed": [{"first": old.name, "second": new.name, "op": new.op} for old, new in body.renamed],
        "changed": [_node_change(change) for change in body.changed],
        "same": body.same,
    }


def _node(node: Node) -> dict[str, Any]:
    return {"name": node.name, "op": node.op, "inputs": list(node.inputs)}


def _node_change(change: NodeChange) -> dict[str, Any]:
    first, second = change.first, change.second
    facts: dict[str, Any] = {"name": second.name, "op": second.op}
    if first.op != second.op:
        facts["op"] = {"first": first.op, "second": second.op}
    if first.device != second.device:
        facts["device"] = {"first": first.device, "second": second.device}
    if change.inputs:
        facts["inputs"] = [{"index": one.index, "first": one.first, "second": one.second} for one in change.inputs]
    if change.attrs:
        facts["attrs"] = [_attr(one) for one in change.attrs]
    return facts


def _attr(change: AttrChange) -> dict[str, Any]:
    first, second = (None if one is None else attr_facts(one) for one in (change.first, change.second))
    return {"name": change.name, "first": first, "second": second}


def _function(one: FunctionDifference) -> dict[str, Any]:
    return {
        "name": one.second,
        "facts": [_change(change) for change in one.facts],
        "attrs": [_attr(change) for change in one.attrs],
        "nodes": _body(one.body),
    }
