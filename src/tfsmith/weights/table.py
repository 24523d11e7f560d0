"""The table of weights: names, types and sizes, statistics of values on request, totals per scope."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from tfsmith.errors import InvalidModelError
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.ir.tensor_views import read_pieces
from tfsmith.ir.types import DType, Shape
from tfsmith.records import record

__all__ = [
    "Stats",
    "WeightRow",
    "ScopeRow",
    "Sort",
    "weight_rows",
    "scope_rows",
    "measure",
    "require_finite",
    "plain_number",
]

Sort = Literal["name", "bytes", "dtype", "shape", "file"]


@record
class Stats:
    """What the values of a tensor are like. The least, largest and mean value are of those that are numbers at all.

    Attributes:
        min: The least value; None if there is none.
        max: The largest.
        mean: The mean, computed in float64.
        nan: How many are not a number.
        inf: How many are infinite.
    """

    min: float | int | None
    max: float | int | None
    mean: float | None
    nan: int = 0
    inf: int = 0


@record
class WeightRow:
    """A weight, as the table shows it.

    Attributes:
        name: Its key.
        dtype: Its type.
        shape: Its shape.
        bytes: Its size.
        stats: What its values are like; None if not read, or if they are no numbers.
        variable: The name of its variable, where the key is a path of Python attributes; else None.
    """

    name: str
    dtype: DType
    shape: Shape
    bytes: int
    stats: Stats | None = None
    variable: str | None = None

    @property
    def parameters(self) -> int:
        """How many elements."""
        return self.shape.elements or 0


@record
class ScopeRow:
    """The totals of a scope."""

    name: str
    count: int
    parameters: int
    bytes: int


def weight_rows(weights: Mapping[str, Tensor], *, stats: bool = False, sort: Sort = "name") -> list[WeightRow]:
    """A row for each weight. Reads values only for the statistics, in pieces: memory does not grow with them."""
    names = weights.names if isinstance(weights, Weights) else {}
    rows = [
        WeightRow(
            name,
            tensor.dtype.base,
            tensor.shape,
            tensor.nbytes,
            measure(tensor) if stats else None,
            names[name][0] if name in names else None,
        )
        for name, tensor in weights.items()
    ]
    if sort == "name":
        rows.sort(key=lambda row: row.name)
    elif sort == "bytes":
        rows.sort(key=lambda row: (-row.bytes, row.name))
    elif sort == "dtype":
        rows.sort(key=lambda row: (row.dtype.name, row.name))
    elif sort == "shape":
        rows.sort(key=lambda row: (row.shape.dims or (), row.name))
    return rows


def scope_rows(rows: Iterable[WeightRow], depth: int) -> list[ScopeRow]:
    """Totals per scope, by the scopes' names; a scope is the first `depth` words of a name, but not the last."""
    found = list(rows)
    separator = "/" if any("/" in row.name for row in found) else "."
    totals: dict[str, tuple[int, int, int]] = {}
    for row in found:
        scope = separator.join(row.name.split(separator)[:-1][:depth])
        count, parameters, size = totals.get(scope, (0, 0, 0))
        totals[scope] = (count + 1, parameters + row.parameters, size + row.bytes)
    return [ScopeRow(scope, *totals[scope]) for scope in _natural(totals)]


def _natural(names: Iterable[str]) -> Sequence[str]:
    """By name, but with layer_2 before layer_10."""
    return sorted(
        names, key=lambda name: [(len(word), word) if word.isdecimal() else (0, word) for word in _words(name)]
    )


def _words(name: str) -> list[str]:
    return re.split(r"(\d+)", name)


def measure(tensor: Tensor) -> Stats | None:
    """The statistics of a tensor; None for strings and types without numbers. Checks the checksum first.

    Raises:
        ChecksumError: The values are not what was written.
    """
    if not tensor.dtype.itemsize or tensor.dtype.base.name.startswith("complex"):
        return None
    import numpy

    tensor.verify()
    least: Any = None
    most: Any = None
    total, numbers, nan, inf = 0.0, 0, 0, 0
    for piece in read_pieces(tensor):
        values, lost, endless = _numbers(piece)
        nan, inf = nan + lost, inf + endless
        if not values.size:
            continue
        least = values.min() if least is None else min(least, values.min())
        most = values.max() if most is None else max(most, values.max())
        with numpy.errstate(invalid="ignore"):  # infinities of both signs have no mean
            total += float(values.sum(dtype="float64"))
        numbers += values.size
    if least is None:
        return Stats(None, None, None, nan, inf)
    return Stats(least.item(), most.item(), total / numbers, nan, inf)


def _numbers(piece: Any) -> tuple[Any, int, int]:
    """The values that are numbers, as a type that numpy computes with; how many are not, and how many are infinite."""
    import numpy

    if piece.dtype.kind in "iub":
        return piece, 0, 0
    values = piece if piece.dtype.kind == "f" and piece.dtype.itemsize >= 4 else piece.astype(numpy.float32)
    lost = numpy.isnan(values)
    count = int(lost.sum())
    return (values[~lost] if count else values), count, int(numpy.isinf(values).sum())


def require_finite(weights: Mapping[str, Tensor]) -> None:
    """Reads all values, and refuses NaNs and infinities.

    Raises:
        InvalidModelError: The weights that have some, by name.
    """
    found = {name: stats for name, tensor in weights.items() if (stats := measure(tensor)) and stats.nan + stats.inf}
    if not found:
        return
    names = ", ".join(f"{name!r} ({stats.nan} NaN, {stats.inf} infinite)" for name, stats in list(found.items())[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    what = f"values that are not finite: {names}{more}"
    raise InvalidModelError(what, remedy="take the weights of an earlier step, before training went wrong")


def plain_number(value: float | int | None) -> float | int | str | None:
    """A number as JSON has it, which has no word for infinities and NaN."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
