"""Parts of partitioned variables: `X/part_0`, `X/part_1`, ... in a graph are one tensor `X` in the checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tfsmith.ir.graph import Graph
from tfsmith.ir.node import is_index
from tfsmith.ir.shape import Shape
from tfsmith.ir.tensor import Piece, SlicedTensor, Tensor
from tfsmith.records import record

__all__ = ["Place", "Stored", "store"]

_PART = re.compile(r"^(.+)/part_(\d+)$")


@record
class Place:
    """Where a variable's value lies in the checkpoint: its key and, for a part, the whole's shape and the start."""

    key: str
    full: tuple[int, ...] = ()
    start: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()

    @property
    def extents(self) -> str:
        """The part as `shape_and_slices` writes it, such as "10 4 0,5:0,4"; "" for all of it."""
        if not self.full:
            return ""
        spans = ":".join(f"{at},{size}" for at, size in zip(self.start, self.shape, strict=True))
        return " ".join(map(str, self.full)) + f" {spans}"


@record
class Stored:
    """What a checkpoint of some variables holds, sorted by key, and where each variable's value lies in it."""

    tensors: Mapping[str, Tensor]
    places: Mapping[str, Place]


def store(graph: Graph, values: Mapping[str, Tensor]) -> Stored:
    """Puts the parts of partitioned variables together. No value is read.

    Args:
        graph: The graph that has them, as constants or variables.
        values: The variables' values, by node.
    """
    tensors: dict[str, Tensor] = dict(values)
    places = {name: Place(name) for name in values}
    groups: dict[str, dict[int, str]] = {}
    for name in values:
        found = _PART.match(name)
        if found and is_index(found[2]) and found[1] not in values:
            groups.setdefault(found[1], {})[int(found[2])] = name
    for key, group in groups.items():
        names = [group[number] for number in sorted(group) if number < len(group)]
        whole = _join(graph, names, [values[name] for name in names]) if len(names) == len(group) else None
        if whole is None:
            continue
        tensors[key] = whole
        for name, piece in zip(names, whole.pieces, strict=True):
            places[name] = Place(key, whole.shape.dims or (), piece.start, piece.tensor.shape.dims or ())
            del tensors[name]
    return Stored({key: tensors[key] for key in sorted(tensors)}, places)


def _join(graph: Graph, names: Sequence[str], parts: Sequence[Tensor]) -> SlicedTensor | None:
    """The whole of some parts, or None if they are none of one whole."""
    shapes = [part.shape.dims or () for part in parts]
    first = shapes[0]
    if not first or any(part.dtype != parts[0].dtype or len(part.shape.dims or ()) != len(first) for part in parts):
        return None
    split = [axis for axis in range(len(first)) if any(shape[axis] != first[axis] for shape in shapes)]
    if len(split) > 1:
        return None
    axis = split[0] if split else _concat_axis(graph, names[0], len(first))
    pieces: list[Piece] = []
    at = 0
    for part, shape in zip(parts, shapes, strict=True):
        pieces.append(Piece((*(0,) * axis, at, *(0,) * (len(first) - axis - 1)), part))
        at += shape[axis]
    full = (*first[:axis], at, *first[axis + 1 :])
    return SlicedTensor(parts[0].dtype, Shape(full), tuple(pieces))


def _concat_axis(graph: Graph, name: str, rank: int) -> int:
    """Along which axis the graph itself puts parts of one shape together; the first if it does not."""
    reads = [name, *(use.node.name for use in graph.consumers(name) if use.node.op == "Identity")]
    for user in (use.node for read in reads for use in graph.consumers(read) if use.node.op == "ConcatV2"):
        axis = graph.producer(user, len(user.data_inputs) - 1)
        value = None if axis is None else axis.attrs.get("value")
        if value is not None and value.kind == "tensor" and value.value.dtype.name in ("int32", "int64"):
            number = int(value.value.numpy().reshape(-1)[:1].sum())
            return number % rank if -rank <= number < rank else 0
    return 0
