"""Makes checkpoints of version 1 for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfsmith.formats.checkpoint.slices import Extents, encode_slice_key, fill_slice_proto
from tfsmith.wire import new

Slices = Sequence[tuple[Extents, dict[str, Any]]]
FULL = (0, -1)


def v1_entries(tensors: Mapping[str, tuple[int, Sequence[int], Slices]]) -> list[tuple[bytes, bytes]]:
    """The entries of a table: name -> (dtype's number, shape, slices with the values' list)."""
    head = new("SavedTensorSlices")
    head.meta.versions.producer = 1
    entries = {}
    for name, (number, dims, slices) in tensors.items():
        meta = head.meta.tensor.add(name=name, type=number)
        meta.shape.SetInParent()
        for dim in dims:
            meta.shape.dim.add().size = dim
        for extents, values in slices:
            fill_slice_proto(meta.slice.add(), extents)
            saved = new("SavedTensorSlices")
            saved.data.name = name
            fill_slice_proto(saved.data.slice, extents)
            saved.data.data.SetInParent()
            for field, numbers in values.items():
                getattr(saved.data.data, field).extend(numbers)
            entries[encode_slice_key(name, extents)] = saved.SerializeToString()
    return [(b"", head.SerializeToString()), *sorted(entries.items())]


def whole(values: dict[str, Any], rank: int = 1) -> Slices:
    return [((FULL,) * rank, values)]


TENSORS: dict[str, tuple[int, Sequence[int], Slices]] = {
    "f": (1, (2, 2), whole({"float_val": [1.5, -2, 0, 4]}, 2)),
    "d": (2, (1,), whole({"double_val": [0.1]})),
    "scalar": (3, (), [((), {"int_val": [-5]})]),
    "i": (3, (3,), whole({"int_val": [1, -2, 2**31 - 1]})),
    "u8": (4, (2,), whole({"int_val": [0, 255]})),
    "i16": (5, (2,), whole({"int_val": [-(2**15), 7]})),
    "s": (7, (3,), whole({"string_val": ["ü".encode(), b"", b"\xff"]})),
    "c": (8, (2,), whole({"scomplex_val": [1, 2, 0, -3]})),
    "l": (9, (2,), whole({"int64_val": [-(2**63), 2**63 - 1]})),
    "b": (10, (3,), whole({"bool_val": [True, False, True]})),
    "q": (11, (2,), whole({"int_val": [-128, 127]})),
    "h": (19, (2,), whole({"half_val": [0x3C00, 0xC000]})),
    "none": (1, (0, 3), whole({}, 2)),
    "cut": (3, (4,), [(((0, 3),), {"int_val": [1, 2, 3]}), (((3, 1),), {"int_val": [4]})]),
}
VALUES = {
    "f": [[1.5, -2], [0, 4]],
    "d": [0.1],
    "scalar": -5,
    "i": [1, -2, 2**31 - 1],
    "u8": [0, 255],
    "i16": [-(2**15), 7],
    "s": ["ü".encode(), b"", b"\xff"],
    "c": [1 + 2j, -3j],
    "l": [-(2**63), 2**63 - 1],
    "b": [True, False, True],
    "q": [-128, 127],
    "h": [1.0, -2.0],
    "none": [],
    "cut": [1, 2, 3, 4],
}
