"""Fixes the shapes of a model's inputs, as a serving input function would."""

from __future__ import annotations

from collections.abc import Mapping

from tfsmith.errors import NotFoundInModelError, UsageError
from tfsmith.ir.graph import Graph
from tfsmith.ir.names import nearest
from tfsmith.ir.node import Node, parse_input
from tfsmith.ir.shape import UNKNOWN, Shape
from tfsmith.ir.tensor import Tensor
from tfsmith.limits import MAX_RANK
from tfsmith.passes.training import Note

__all__ = ["set_input_shapes", "batch_shapes", "is_refined"]

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2", "PlaceholderWithDefault"})
_SHAPE_INPUT = {"Reshape": 1, "Fill": 0, "BroadcastTo": 1, "Tile": 1, "RandomUniform": 0, "Slice": 2}


def batch_shapes(graph: Graph, size: int) -> dict[str, Shape]:
    """The shapes that the placeholders get when their first dimension becomes `size`; scalars have none.

    Raises:
        UsageError: The size is not positive.
    """
    if size < 1:
        raise UsageError(f"a batch of {size} cannot be", remedy="pass a positive number")
    shapes: dict[str, Shape] = {}
    for node in graph:
        old = node.get("shape", UNKNOWN) if node.op in _PLACEHOLDERS else None
        if isinstance(old, Shape) and old.dims:
            shapes[node.name] = Shape((size, *old.dims[1:]))
    return shapes


def set_input_shapes(graph: Graph, shapes: Mapping[str, Shape]) -> tuple[Graph, list[Note]]:
    """Gives placeholders new shapes and drops every `_output_shapes`, which no longer holds.

    Returns:
        The graph, and a note where constants bake in the old batch size.

    Raises:
        NotFoundInModelError: There is no such placeholder.
        UsageError: The new shape contradicts the old one's rank.
    """
    changes: dict[str, Node] = {}
    baked: set[int] = set()
    for name, shape in shapes.items():
        node = _placeholder(graph, parse_input(name).node)
        old = node.get("shape", UNKNOWN)
        flaw = shape.flaw()
        if flaw is not None:
            what = f"the new shape {shape} cannot be: {flaw}"
            raise UsageError(what, where=f"node {node.name!r}", remedy="pass a shape that a tensor can have")
        if isinstance(old, Shape) and old.dims is not None and shape.dims is not None:
            if len(old.dims) != len(shape.dims):
                what = f"the input has {len(old.dims)} dimensions {old}, not {len(shape.dims)}"
                raise UsageError(what, where=f"node {node.name!r}", remedy="pass a shape with as many dimensions")
            if old.dims and old.dims[0] >= 1 and old.dims[0] != shape.dims[0]:
                baked.add(old.dims[0])
        changes[node.name] = node.replace(attrs={"shape": shape, "_output_shapes": None})
    for node in graph:
        if "_output_shapes" in node.attrs and node.name not in changes:
            changes[node.name] = node.replace(attrs={"_output_shapes": None})
    changed = graph.map_nodes(changes)
    return changed, _baked_in(changed, baked)


def is_refined(before: Graph, after: Graph) -> bool:
    """Whether placeholders only got sizes that were open before, so that all that was known of shapes still holds."""
    if before is after:
        return True
    for node in before:
        if node.op not in _PLACEHOLDERS or node.name not in after:
            continue
        old, new = node.get("shape", UNKNOWN), after[node.name].get("shape", UNKNOWN)
        if not isinstance(old, Shape) or not isinstance(new, Shape) or old.dims is None:
            continue
        if new.dims is None or any(one not in (-1, other) for one, other in zip(old.dims, new.dims, strict=False)):
            return False
    return True


def _placeholder(graph: Graph, name: str) -> Node:
    found = graph.by_name.get(name)
    if found is not None and found.op in _PLACEHOLDERS:
        return found
    there = [node.name for node in graph if node.op in _PLACEHOLDERS]
    near = nearest(name, there) or there
    remedy = f"the placeholders are: {', '.join(near[:8])}" if near else "the graph has no placeholder"
    raise NotFoundInModelError(f"there is no placeholder {name!r}", remedy=remedy)


def _baked_in(graph: Graph, sizes: set[int]) -> list[Note]:
    """Constants that give a shape whose first dimension is the old batch size."""
    if not sizes:
        return []
    names: list[str] = []
    for node in graph:
        position = _SHAPE_INPUT.get(node.op)
        const = None if position is None or position >= len(node.inputs) else graph.producer(node, position)
        value = None if const is None or const.op != "Const" else const.attrs.get("value")
        if const is None or value is None or value.kind != "tensor":
            continue
        if _first_size(value.value) in sizes:
            names.append(const.name)
    if not names:
        return []
    what = f"constants bake in the old batch size {sorted(sizes)[0]}"
    return [Note(what, tuple(dict.fromkeys(names)), "export the model with an open batch size")]


def _first_size(shape: Tensor) -> int | None:
    """The first element of a constant that gives a shape; None if this one cannot."""
    if shape.dtype.name not in ("int32", "int64") or not 0 < (shape.shape.elements or 0) <= MAX_RANK:
        return None
    return int(shape.numpy().reshape(-1)[0])
