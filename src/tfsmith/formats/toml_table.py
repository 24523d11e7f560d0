"""`Table`: takes values out of a TOML table, and says what is wrong with them, and where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from pathlib import Path
from typing import Any

from tfsmith.errors import UsageError
from tfsmith.ir.names import nearest
from tfsmith.records import record, replace

__all__ = ["Table"]


@record
class Table:
    """A table of a TOML file.

    Attributes:
        values: What is in it.
        path: The file, for errors.
        where: What to call the table in errors.
    """

    values: Mapping[str, Any]
    path: Path | None
    where: str

    def problem(self, what: str, remedy: str) -> UsageError:
        """What to raise about this table."""
        return UsageError(what, path=self.path, where=self.where, remedy=remedy)

    def unknown(self, name: str, known: Iterable[str], what: str) -> UsageError:
        """What to raise about a name that is not one of those known."""
        names = list(known)
        near = nearest(name, names) or names[:8]
        return self.problem(f"{name!r} is {what}", f"there is {', '.join(near)}" if near else "there is none")

    def called(self, where: str) -> Table:
        """The same table under another name."""
        return replace(self, where=where)

    def check(self, known: Set[str]) -> None:
        """Refuses keys that nobody knows."""
        for key in self.values:
            if key not in known:
                raise self.unknown(key, sorted(known), "nothing that this table has")

    def table(self, key: str, where: str | None = None) -> Table:
        """A table in it; an empty one if there is none."""
        found = self.values.get(key, {})
        if not isinstance(found, Mapping):
            raise self.problem(f"{key!r} is no table", f"write [{key}], or {{name = value}}")
        return Table(found, self.path, f"{self.where}, {where or key}")

    def tables(self, key: str) -> list[Table]:
        """A list of tables in it."""
        found = self.values.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, Mapping) for one in found):
            raise self.problem(f"{key!r} is no list of tables", f"write [[{key}]], with two brackets")
        return [Table(one, self.path, f"{key} {number}") for number, one in enumerate(found, 1)]

    def named_tables(self, key: str) -> list[Table]:
        """A list of tables with names, each name once."""
        found = self.tables(key)
        names = [one.text("name", "") for one in found]
        seen: set[str] = set()
        for name in names:
            if name in seen and name:
                raise self.problem(f"two tables of [[{key}]] have the name {name!r}", "choose another")
            seen.add(name)
        return [
            one.called(f"{self.where}, {key} {name!r}" if name else f"{self.where}, {one.where}")
            for one, name in zip(found, names, strict=True)
        ]

    def text(self, key: str, default: str) -> str:
        """Some text."""
        found = self.values.get(key, default)
        if not isinstance(found, str):
            raise self.problem(f"{key!r} is no text", f'write {key} = "..."')
        return found

    def texts(self, key: str) -> tuple[str, ...]:
        """One text, or several; none if there is none."""
        found = self.values.get(key, [])
        texts = [found] if isinstance(found, str) else found
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise self.problem(f"{key!r} is no text and no list of texts", f'write {key} = ["...", "..."]')
        return tuple(texts)

    def flag(self, key: str, default: bool) -> bool:
        """True or false."""
        found = self.values.get(key, default)
        if not isinstance(found, bool):
            raise self.problem(f"{key!r} is neither true nor false", f"write {key} = true")
        return found

    def number(self, key: str, default: float) -> float:
        """A number."""
        found = self.values.get(key, default)
        if isinstance(found, bool) or not isinstance(found, (int, float)):
            raise self.problem(f"{key!r} is no number", f"write {key} = 1.0")
        return float(found)
