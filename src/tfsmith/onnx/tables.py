"""Lookup tables: ai.onnx.ml has LabelEncoder, which holds keys and values as attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfsmith.ir.node import parse_input
from tfsmith.ir.types import dtype_named
from tfsmith.onnx.builder import BOOL, INT64, Refusal, Val
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops import FILES_OF_TABLES, TABLE_FILLS, TABLES
from tfsmith.ops.sizes import Known
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_DOMAIN = "ai.onnx.ml"
_FORMS = {"string": "strings", "int64": "int64s", "float32": "floats"}
_SINGLE = {"string": "string", "int64": "int64", "float32": "float"}
_WIDER = {"int32": "int64"}


@record(eq=False)
class _Table:
    """The keys and values of a table."""

    keys: NDArray[Any]
    values: NDArray[Any]


def _table(val: Val) -> _Table:
    if not isinstance(val.held, _Table):
        raise Refusal("its table comes from elsewhere")
    return val.held


@lowering(" ".join(sorted(TABLES)))
def _made(n: NodeContext) -> Val:
    """What fills it is in the model: constants, or a file among the assets."""
    found = n.driver.tables.get(n.node.name) or _in_graph(n)
    if found is None:
        raise Refusal("what fills its table is not in the graph; convert the SavedModel or .meta")
    keys, values = found
    if keys.ndim != 1 or values.ndim != 1:
        raise Refusal("its keys or values are no scalars")
    made = Val(n.dtype, Known(()), None, None)
    made.held = _Table(keys, values)
    return made


def _in_graph(n: NodeContext) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """The constants that a node of the graph itself fills the table with; None if there is no such node, or another."""
    graph = n.driver.graph
    fills = [
        node
        for node in graph
        if node.op in TABLE_FILLS and node.data_inputs and parse_input(node.data_inputs[0]).node == n.node.name
    ]
    if len(fills) != 1 or fills[0].op in FILES_OF_TABLES:
        return None
    nodes = [graph.by_name.get(parse_input(text).node) for text in fills[0].data_inputs[1:3]]
    keys, values = (None if node is None or node.constant is None else node.constant.numpy() for node in nodes)
    if keys is None or values is None or len(set(keys.reshape(-1).tolist())) < keys.size or keys.shape != values.shape:
        return None
    return keys, values


@lowering("InitializeTable InitializeTableV2 LookupTableImport LookupTableImportV2")
def _filled(n: NodeContext) -> list[Val]:
    _table(n.x)
    return []


@lowering("LookupTableSize LookupTableSizeV2")
def _size(n: NodeContext) -> Val:
    return n.b.const(len(_table(n.x).keys), INT64)


@lowering("LookupTableFind LookupTableFindV2")
def _find(n: NodeContext) -> Val:
    """Which key it is, then its value; the value itself where what stands for other keys is a constant scalar."""
    b, table, keys, other = n.b, _table(n.x), n.y, n.inputs[2]
    key_kind = _WIDER.get(keys.dtype.name, keys.dtype.name)
    value_kind = _WIDER.get(n.dtype.name, n.dtype.name)
    if key_kind not in ("string", "int64"):
        raise Refusal(f"it is not lowered for keys of {keys.dtype.name}")
    if not len(table.keys):
        raise Refusal("its table is empty")
    encoded: dict[str, Any] = {f"keys_{_FORMS[key_kind]}": _listed(table.keys)}
    wide = b.cast(keys, dtype_named(key_kind))
    known = Known(keys.dims)
    if value_kind in _FORMS and other.array is not None and other.array.ndim == 0:
        encoded[f"values_{_FORMS[value_kind]}"] = _listed(table.values)
        encoded[f"default_{_SINGLE[value_kind]}"] = _listed(other.array.reshape(1))[0]
        kind = dtype_named(value_kind)
        found = b.op("LabelEncoder", wide, dtype=kind, known=known, domain=_DOMAIN, **encoded)
        return b.cast(found, n.dtype)
    encoded["values_int64s"] = list(range(1, len(table.keys) + 1))
    place = b.op("LabelEncoder", wide, dtype=INT64, known=known, domain=_DOMAIN, default_int64=0, **encoded)
    padded = b.const([*table.values[:1], *table.values], n.dtype)
    found = b.op("Gather", padded, place, axis=0)
    is_there = b.op("Greater", place, b.const(0), dtype=BOOL)
    return b.op("Where", is_there, found, other, dtype=n.dtype, known=known)


def _listed(array: NDArray[Any]) -> list[Any]:
    """Elements as attributes hold them: strings are text."""
    try:
        return [one.decode() if isinstance(one, bytes) else one for one in array.reshape(-1).tolist()]
    except UnicodeDecodeError as error:
        raise Refusal("its strings are no UTF-8, which ONNX' are") from error
