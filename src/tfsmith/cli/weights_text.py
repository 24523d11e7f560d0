"""What `tfsmith weights` tells, as sections of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tfsmith import api
from tfsmith.cli.common import human_bytes, human_count
from tfsmith.cli.render import Section

__all__ = ["table_sections", "comparison_sections"]


def table_sections(
    rows: Sequence[api.WeightRow], scopes: Sequence[api.ScopeRow] | None, *, stats: bool
) -> list[Section]:
    """Every weight, or every scope; and the total."""
    total = sum(row.bytes for row in rows)
    parameters = sum(row.parameters for row in rows)
    kinds = Counter(row.dtype.name for row in rows)
    dtypes = ", ".join(f"{name} x{count}" if len(kinds) > 1 else name for name, count in kinds.most_common())
    note = f"{human_count(len(rows))} weights, {human_count(parameters)} parameters, {human_bytes(total)}; {dtypes}"
    if scopes is not None:
        table = [
            (row.name or "(none)", human_count(row.count), human_count(row.parameters), human_bytes(row.bytes))
            for row in scopes
        ]
        header: tuple[str, ...] = ("scope", "weights", "parameters", "size")
        return [Section("", table, header, (note,), right=frozenset({1, 2, 3}))]
    header = ("name", "dtype", "shape", "size", *(("min", "max", "mean", "NaN", "inf") if stats else ()))
    lines = [
        (row.name, row.dtype.name, str(row.shape), human_bytes(row.bytes), *(_stats(row.stats) if stats else ()))
        for row in rows
    ]
    if any(row.variable for row in rows):
        header = (*header, "variable")
        lines = [(*cells, row.variable or "") for cells, row in zip(lines, rows, strict=True)]
    last = 9 if stats else 4
    return [Section("", lines, header, (note,) if rows else ("there are none",), right=frozenset(range(3, last)))]


def _stats(stats: api.Stats | None) -> tuple[str, ...]:
    if stats is None:
        return ("-",) * 5
    return (*(_number(value) for value in (stats.min, stats.max, stats.mean)), str(stats.nan), str(stats.inf))


def _number(value: float | int | None) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def comparison_sections(found: Sequence[api.Comparison], *, loose: bool) -> list[Section]:
    """Every weight with how it compares; and how many are equal."""
    rows = [
        (one.name, one.verdict, "-" if one.max_difference is None else f"{one.max_difference:.4g}", _detail(one))
        for one in found
    ]
    equal = sum(one.is_equal(any_dtype=loose) for one in found)
    verdicts = Counter(one.verdict for one in found)
    words = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    note = f"{equal} of {len(found)} are equal ({words})" if found else "there is nothing to compare"
    return [Section("", rows, ("name", "verdict", "max difference", ""), (note,), right=frozenset({2}))]


def _detail(one: api.Comparison) -> str:
    if one.first is None or one.second is None:
        there = one.second if one.first is None else one.first
        return "" if there is None else f"{there.dtype} {there.shape}"
    if one.verdict == "shape":
        return f"{one.first.shape} and {one.second.shape}"
    if one.first.dtype != one.second.dtype:
        return f"{one.first.dtype} and {one.second.dtype}"
    return f"{human_count(one.unequal)} of {human_count(one.first.shape.elements or 0)} values" if one.unequal else ""
