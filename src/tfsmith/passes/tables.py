"""Tables and vocabularies: what fills them, and the files that they are filled from."""

from __future__ import annotations

from types import MappingProxyType

from tfsmith.ir.graph import Graph
from tfsmith.ir.metagraph import Asset, MetaGraph
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.tensor import StringTensor
from tfsmith.passes.interface import init_nodes
from tfsmith.passes.saver_ops import free_scope
from tfsmith.records import record

__all__ = ["TABLE_FILLS", "AssetFile", "add_main_op", "find_assets"]

TABLE_FILLS = frozenset(
    {"InitializeTable", "InitializeTableV2", "InitializeTableFromTextFile", "InitializeTableFromTextFileV2"}
    | {"LookupTableImport", "LookupTableImportV2"}
)
_FILE_INPUT = MappingProxyType({"InitializeTableFromTextFile": 1, "InitializeTableFromTextFileV2": 1})


@record
class AssetFile:
    """A file that a table is filled from: the tensor that names it, and its path as the graph has it."""

    tensor_name: str
    path: str

    def definition(self) -> Asset:
        """How a SavedModel tells of it: by its name among the assets."""
        return Asset(self.tensor_name, self.path.replace("\\", "/").rpartition("/")[2])


def add_main_op(meta: MetaGraph, graph: Graph) -> tuple[Graph, str | None]:
    """The graph with a node that fills all tables, and that node's name; None if there is nothing to fill.

    A node that the model has for it already is used as it is.
    """
    there = [name for name in init_nodes(meta) if name in graph]
    if len(there) == 1:
        return graph, there[0]
    collected = meta.collections.get("table_initializer")
    names = there or [parse_input(name).node for name in (collected.values if collected is not None else ())]
    names = [name for name in names if name in graph] or [node.name for node in graph if node.op in TABLE_FILLS]
    if not names:
        return graph, None
    name = free_scope(graph, "init_all_tables")
    node = Node(name, "NoOp", tuple(f"^{found}" for found in dict.fromkeys(names)))
    return graph.replace(nodes=(*graph.nodes, node)), name


def find_assets(meta: MetaGraph, graph: Graph) -> list[AssetFile]:
    """The files that the graph reads when its tables are filled, by the constants that name them."""
    named = meta.collections.get("asset_filepaths")
    tensors = [parse_input(name).node for name in (named.values if named is not None and named.kind == "node" else ())]
    for node in graph:
        position = _FILE_INPUT.get(node.op)
        if position is not None and position < len(node.inputs):
            tensors.append(graph.resolve(node.inputs[position]).node)
    found: dict[str, AssetFile] = {}
    for name in tensors:
        value = graph[name].get("value") if name in graph and graph[name].op == "Const" else None
        if isinstance(value, StringTensor) and value.shape.elements == 1:
            found[name] = AssetFile(f"{name}:0", value.numpy().reshape(-1)[0].decode("utf-8", "replace"))
    return list(found.values())
