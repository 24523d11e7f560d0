"""What `tfsmith show` tells of a model, as data. Structure only: no weight is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tfsmith.ir.dtype import DType
from tfsmith.ir.graph import Graph, count_ops
from tfsmith.ir.model import Model
from tfsmith.ir.node import Node
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.ir.variable_names import OBJECT_GRAPH_KEY, is_optimizer_slot
from tfsmith.records import field, record

__all__ = ["Totals", "Summary", "summarize", "VARIABLE_OPS"]

VARIABLE_OPS = frozenset({"Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable"})


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
        constants: The values that lie in the graph itself.
        node_count: Nodes of the graph.
        function_nodes: Nodes inside functions.
        ops: Ops of graph and functions, by count.
        custom_ops: Ops that stock TensorFlow does not have.
        frozen: Whether the graph has no variables at all.
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


def summarize(model: Model) -> Summary:
    """The summary of the selected meta graph. Decodes node attributes of constants and variables, nothing else.

    Raises:
        InvalidModelError: Two nodes have one name, or an input is not there.
    """
    in_checkpoint = {name: tensor for name, tensor in model.variables.items() if name != OBJECT_GRAPH_KEY}
    slots = {name: tensor for name, tensor in in_checkpoint.items() if is_optimizer_slot(name)}
    if not model.has_graph:
        kind = f"checkpoint (V{model.checkpoint.version})" if model.checkpoint else "weights"
        title = f"{kind} without a graph"
        return Summary(
            title,
            variables=_total(in_checkpoint.values()),
            variables_from="checkpoint",
            optimizer_slots=_total(slots.values()),
        )
    graph = model.graph
    for body in (graph, *graph.library.values()):
        body.check_names()
    bodies = [node for function in graph.library.values() for node in function.nodes]
    variable_nodes = [node for node in (*graph.nodes, *bodies) if node.op in VARIABLE_OPS]
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
    return _total(found.value for found in values if found is not None and found.kind == "tensor")


def _sum(rows: Iterable[tuple[str, int, int]]) -> Totals:
    count = parameters = size = 0
    dtypes: dict[str, int] = {}
    for name, elements, nbytes in rows:
        count += 1
        parameters += elements
        size += nbytes
        dtypes[name] = dtypes.get(name, 0) + 1
    return Totals(count, parameters, size, dict(sorted(dtypes.items(), key=lambda item: (-item[1], item[0]))))
