"""Values of crossed features: each combination of one feature of every column, joined or hashed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.arguments import check, scalar
from tfsmith.ops.values.hashing import fingerprint64, join_fingerprints, siphash
from tfsmith.ops.values.sparse import check_sparse
from tfsmith.ops.values.strings import texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_Column = Sequence[Sequence[Any]]
"""The features of a column, row by row: texts or whole numbers."""
_ALL = 2**64 - 1
_LARGEST = 2**63 - 1
_JOINT = b"_X_"


def _sparse_column(indices: NDArray[Any], values: NDArray[Any], shape: NDArray[Any]) -> _Column:
    check_sparse(indices, values, shape)
    check(len(shape) == 2, f"a column is a sparse matrix, and has {len(shape)} axes")
    rows: list[list[Any]] = [[] for _ in range(int(shape[0]))]
    for place, item in zip(indices[:, 0].tolist(), values.tolist(), strict=True):
        check(0 <= place < len(rows), f"row {place} is not in [0, {len(rows)})")
        rows[place].append(item)
    return rows


def _dense_column(x: NDArray[Any]) -> _Column:
    check(x.ndim == 2, f"a dense column is a matrix, and has shape {list(x.shape)}")
    rows: list[list[Any]] = x.tolist()
    return rows


def _columns(indices: Sequence[NDArray[Any]], values: Sequence[NDArray[Any]], shapes: Sequence[NDArray[Any]],
             dense: Sequence[NDArray[Any]]) -> list[_Column]:  # fmt: skip
    return [
        *(_sparse_column(*parts) for parts in zip(indices, values, shapes, strict=True)),
        *map(_dense_column, dense),
    ]


def _crossed(columns: Sequence[_Column], cross: Callable[[tuple[Any, ...]], Any]) -> list[list[Any]]:
    """The crosses of each row; the last column changes fastest."""
    check(bool(columns), "there are no columns to cross")
    check(len({len(column) for column in columns}) == 1, "the columns differ in their number of rows")
    return [[cross(parts) for parts in product(*row)] for row in zip(*columns, strict=True)]


def _joined(mark: bytes) -> Callable[[tuple[Any, ...]], bytes]:
    return lambda parts: mark.join(part if isinstance(part, bytes) else b"%d" % part for part in parts)


def _hashed(start: Sequence[int], buckets: int, hashed: Callable[[Any], int]) -> Callable[[tuple[Any, ...]], int]:
    def cross(parts: tuple[Any, ...]) -> int:
        found = reduce(join_fingerprints, [*(one & _ALL for one in start), *map(hashed, parts)])
        return found % (buckets if buckets > 0 else _LARGEST)

    return cross


def _plain_hash(part: Any) -> int:
    """Numbers are their own hashes."""
    return fingerprint64(part) if isinstance(part, bytes) else int(part) & _ALL


def _flat(rows: Sequence[Sequence[Any]], is_text: bool) -> NDArray[Any]:
    flat = [item for row in rows for item in row]
    return texts(flat, (len(flat),)) if is_text else numpy.array(flat, numpy.int64)


def _as_sparse(rows: Sequence[Sequence[Any]], is_text: bool) -> tuple[Any, Any, Any]:
    places = [(number, place) for number, row in enumerate(rows) for place in range(len(row))]
    shape = numpy.array([len(rows), max(map(len, rows), default=0)], numpy.int64)
    return numpy.array(places, numpy.int64).reshape(-1, 2), _flat(rows, is_text), shape


@value("SparseCross")
def _sparse_cross(
    indices: Sequence[NDArray[Any]], values: Sequence[NDArray[Any]], shapes: Sequence[NDArray[Any]],
    dense: Sequence[NDArray[Any]], *, hashed_output: bool, num_buckets: int, hash_key: int, out_type: DType,
    internal_type: DType,
) -> Any:  # fmt: skip
    check((out_type.name == "int64") == hashed_output, f"crosses are {out_type}, and hashed is {hashed_output}")
    check(hashed_output == (internal_type.name == "int64"), f"crosses are made of {internal_type}")
    cross = _hashed([hash_key], num_buckets, _plain_hash) if hashed_output else _joined(_JOINT)
    return _as_sparse(_crossed(_columns(indices, values, shapes, dense), cross), not hashed_output)


@value("SparseCrossV2")
def _sparse_cross_v2(
    indices: Sequence[NDArray[Any]], values: Sequence[NDArray[Any]], shapes: Sequence[NDArray[Any]],
    dense: Sequence[NDArray[Any]], mark: NDArray[Any],
) -> Any:  # fmt: skip
    cross = _joined(scalar(mark, "the separator"))
    return _as_sparse(_crossed(_columns(indices, values, shapes, dense), cross), True)


@value("SparseCrossHashed")
def _sparse_cross_hashed(
    indices: Sequence[NDArray[Any]], values: Sequence[NDArray[Any]], shapes: Sequence[NDArray[Any]],
    dense: Sequence[NDArray[Any]], buckets: NDArray[Any], strong: NDArray[Any], salt: NDArray[Any],
) -> Any:  # fmt: skip
    check(salt.shape == (2,), f"the salt has shape {list(salt.shape)}, not [2]")
    first, second = (int(one) & _ALL for one in salt)
    is_strong = bool(scalar(strong, "strong_hash"))

    def hashed(part: Any) -> int:
        return siphash(part, (first, second)) if is_strong else fingerprint64(part)

    def short(part: Any) -> int:  # its hash of a number in a sparse column is that of its lower four bytes
        return hashed((int(part) & (2**32 - 1)).to_bytes(4, "little"))

    def plain(part: Any) -> int:
        check(not is_strong, "a strong hash of numbers in a dense column is not defined")
        return int(part) & _ALL

    sparse = [_hashes(_sparse_column(*parts), hashed, short) for parts in zip(indices, values, shapes, strict=True)]
    columns = [*sparse, *(_hashes(_dense_column(x), hashed, plain) for x in dense)]
    cross = _hashed([], int(scalar(buckets, "num_buckets")), lambda part: int(part))
    return _as_sparse(_crossed(columns, cross), False)


def _hashes(column: _Column, of_text: Callable[[Any], int], of_number: Callable[[Any], int]) -> _Column:
    return [[of_text(one) if isinstance(one, bytes) else of_number(one) for one in row] for row in column]


@value("RaggedCross")
def _ragged_cross(
    ragged: Sequence[NDArray[Any]], splits: Sequence[NDArray[Any]], indices: Sequence[NDArray[Any]],
    values: Sequence[NDArray[Any]], shapes: Sequence[NDArray[Any]], dense: Sequence[NDArray[Any]], *,
    input_order: bytes, hashed_output: bool, num_buckets: int, hash_key: int, out_values_type: DType,
    out_row_splits_type: DType,
) -> Any:  # fmt: skip
    found = {
        "R": [_ragged_column(*parts) for parts in zip(ragged, splits, strict=True)],
        "S": [_sparse_column(*parts) for parts in zip(indices, values, shapes, strict=True)],
        "D": [_dense_column(x) for x in dense],
    }
    order = input_order.decode("ascii", "replace")
    if any(order.count(kind) != len(columns) for kind, columns in found.items()) or set(order) - set(found):
        raise OpError(f"the order of the inputs {order!r} does not fit them")
    taken = {kind: iter(columns) for kind, columns in found.items()}
    cross = _hashed([hash_key], num_buckets, _plain_hash) if hashed_output else _joined(_JOINT)
    rows = _crossed([next(taken[kind]) for kind in order], cross)
    ends = numpy.cumsum([0, *map(len, rows)]).astype(out_row_splits_type.numpy())
    return _flat(rows, not hashed_output), ends


def _ragged_column(values: NDArray[Any], splits: NDArray[Any]) -> _Column:
    check(splits.ndim == 1 and len(splits) > 0 and values.ndim == 1, "a ragged column is values and splits")
    ends = splits.tolist()
    check(
        ends[0] == 0 and ends[-1] == len(values) and ends == sorted(ends), f"{ends} do not split {len(values)} values"
    )
    items = values.tolist()
    return [items[start:stop] for start, stop in pairwise(ends)]
