"""Values of tensors in variants: ragged rows, maps from tensors to tensors, values that may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType, Shape
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import check, variants
from tfsmith.ops.values.sparse import check_splits
from tfsmith.records import record

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


# Ragged tensors


@record(eq=False)
class Ragged:
    """A ragged tensor, or one row of it.

    Attributes:
        splits: Its row splits, the outermost first; none for a plain tensor.
        values: Its innermost rows.
    """

    splits: tuple[NDArray[Any], ...]
    values: NDArray[Any]

    def rows(self) -> list[Ragged]:
        """Its rows, which have one partition less."""
        if not self.splits:
            return [Ragged((), row) for row in self.values]
        first, *rest = self.splits
        return [self._between(rest, int(start), int(stop)) for start, stop in pairwise(first)]

    def _between(self, splits: Sequence[NDArray[Any]], start: int, stop: int) -> Ragged:
        found = []
        for one in splits:
            part = one[start : stop + 1]
            start, stop = int(part[0]), int(part[-1])
            found.append(part - part[0])
        return Ragged(tuple(found), self.values[start:stop])

    def __len__(self) -> int:
        return len(self.splits[0]) - 1 if self.splits else len(self.values)


@value("RaggedTensorToVariant")
def _ragged_to_variant(splits: Sequence[NDArray[Any]], values: NDArray[Any], *, batched_input: bool) -> Any:
    for one, size in zip(
        splits, [*(len(two) - 1 for two in splits[1:]), len(values) if values.ndim else 0], strict=True
    ):
        check_splits(one, size)
    whole = Ragged(tuple(splits), values)
    if not batched_input:
        return whole
    check(values.ndim > 0, "a scalar is no batch")
    return variants(whole.rows())


@value("RaggedTensorFromVariant")
def _ragged_from_variant(
    encoded: Any, *, input_ragged_rank: int, output_ragged_rank: int, Tvalues: DType, Tsplits: DType
) -> tuple[Any, ...]:
    batch = encoded.shape if isinstance(encoded, numpy.ndarray) else ()
    inner = output_ragged_rank - len(batch) if input_ragged_rank == -1 else input_ragged_rank
    check(inner >= 0 and inner + len(batch) == output_ragged_rank,
          f"ragged rank {inner} in {len(batch)} axes is not {output_ragged_rank}")  # fmt: skip
    rows = encoded.reshape(-1).tolist() if isinstance(encoded, numpy.ndarray) else [encoded]
    for row in rows:
        check(isinstance(row, Ragged), "the variant is no ragged tensor")
        check(len(row.splits) == inner, f"the variant has ragged rank {len(row.splits)}, not {inner}")
        check(row.values.dtype == Tvalues.numpy(), f"the variant holds {row.values.dtype}, not {Tvalues}")
        check(all(one.dtype == Tsplits.numpy() for one in row.splits), f"the variant's splits are no {Tsplits}")
    kind = Tsplits.numpy()
    if not batch:
        return (*rows[0].splits, rows[0].values)
    outer = [
        numpy.arange(0, int(numpy.prod(batch[: axis + 1])) + 1, max(batch[axis], 1)) for axis in range(1, len(batch))
    ]
    check(all(row.values.ndim > 0 for row in rows) or not inner, "a scalar has no rows")
    found = [numpy.cumsum([0, *map(_length, rows)])]
    for level in range(inner):
        lengths = [numpy.diff(row.splits[level]) for row in rows]
        found.append(numpy.cumsum([0, *(numpy.concatenate(lengths) if lengths else ())]))
    parts = [row.values for row in rows]
    for part in parts:
        check(part.shape[1:] == parts[0].shape[1:], f"rows of {list(parts[0].shape)} and {list(part.shape)} do not fit")
    values = numpy.concatenate(parts) if parts else numpy.zeros(0, Tvalues.numpy())
    return (*(one.astype(kind) for one in (*outer, *found)), values)


def _length(row: Ragged) -> int:
    check(row.values.ndim > 0, "a scalar has no rows")
    return len(row)


@record(eq=False)
class _Composite:
    """The tensors that make up another one."""

    metadata: bytes
    components: tuple[Any, ...]


@value("CompositeTensorVariantFromComponents")
def _composite(components: tuple[Any, ...], *, metadata: bytes) -> Any:
    return _Composite(metadata, components)


@value("CompositeTensorVariantToComponents")
def _components(encoded: Any, *, Tcomponents: tuple[DType, ...]) -> tuple[Any, ...]:
    check(isinstance(encoded, _Composite), "the variant is no composite tensor")
    found: tuple[Any, ...] = encoded.components
    check(len(found) == len(Tcomponents), f"the variant has {len(found)} components, not {len(Tcomponents)}")
    return found


# Values that may be missing


@record(eq=False)
class _Optional:
    """Tensors, or none."""

    components: tuple[Any, ...] | None


@value("OptionalNone")
def _optional_none() -> Any:
    return _Optional(None)


@value("OptionalFromValue")
def _optional_from_value(components: tuple[Any, ...]) -> Any:
    return _Optional(components)


@value("OptionalHasValue")
def _optional_has_value(optional: Any) -> Any:
    check(isinstance(optional, _Optional), "the variant is no optional")
    return numpy.asarray(optional.components is not None)


@value("OptionalGetValue")
def _optional_get_value(
    optional: Any, *, output_types: tuple[DType, ...], output_shapes: tuple[Shape, ...]
) -> tuple[Any, ...]:
    check(isinstance(optional, _Optional), "the variant is no optional")
    found = optional.components
    if found is None:
        raise OpError("the optional has no value")
    check(len(found) == len(output_types) == len(output_shapes), f"the optional has {len(found)} components")
    for one, kind, shape in zip(found, output_types, output_shapes, strict=True):
        fits = shape.dims is None or (
            len(shape.dims) == one.ndim
            and all(size in (-1, there) for size, there in zip(shape.dims, one.shape, strict=True))
        )
        check(one.dtype == kind.numpy() and fits, f"{one.dtype} of shape {list(one.shape)} is no {kind} of {shape}")
    return tuple(found)


# Maps

_Key = tuple[str, tuple[int, ...], bytes]


@record(eq=False)
class _Map:
    """Tensors by tensors. Ops make a new one."""

    items: Mapping[_Key, tuple[NDArray[Any], Any]]


def _key(key: NDArray[Any]) -> _Key:
    data = repr(key.tolist()).encode() if key.dtype == object else numpy.ascontiguousarray(key).tobytes()
    return key.dtype.name, key.shape, data


def _map_of(handle: Any) -> _Map:
    if not isinstance(handle, _Map):
        raise OpError("the variant is no map")
    return handle


@value("EmptyTensorMap")
def _empty_map() -> Any:
    return _Map({})


@value("TensorMapInsert")
def _map_insert(handle: Any, key: NDArray[Any], item: Any) -> Any:
    return _Map({**_map_of(handle).items, _key(key): (key, item)})


@value("TensorMapLookup")
def _map_lookup(handle: Any, key: NDArray[Any]) -> Any:
    found = _map_of(handle).items.get(_key(key))
    if found is None:
        raise OpError("the map has no such key")
    return found[1]


@value("TensorMapErase")
def _map_erase(handle: Any, key: NDArray[Any]) -> Any:
    items = dict(_map_of(handle).items)
    if items.pop(_key(key), None) is None:
        raise OpError("the map has no such key")
    return _Map(items)


@value("TensorMapHasKey")
def _map_has_key(handle: Any, key: NDArray[Any]) -> Any:
    return numpy.asarray(_key(key) in _map_of(handle).items)


@value("TensorMapSize")
def _map_size(handle: Any) -> Any:
    return numpy.asarray(len(_map_of(handle).items), numpy.int32)


@value("TensorMapStackKeys")
def _map_stack_keys(handle: Any, *, key_dtype: DType) -> Any:
    keys = [key for key, _ in _map_of(handle).items.values()]
    check(bool(keys), "the map is empty")
    check(all(key.dtype == key_dtype.numpy() and key.shape == keys[0].shape for key in keys),
          "the keys differ in type or shape")  # fmt: skip
    return numpy.stack(keys)
