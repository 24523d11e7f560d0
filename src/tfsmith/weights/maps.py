"""Maps from one set of names to another, as TOML files; and those that come with tfsmith."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from tfsmith.errors import UsageError, nearest
from tfsmith.records import field, record

__all__ = ["HUGGINGFACE", "Template", "Rule", "Task", "Drop", "WeightMap", "builtin_map", "builtin_maps", "parse_map"]

HUGGINGFACE = "huggingface"
"""The map that is a set of rules for names, and no table: `tfsmith.weights.huggingface`."""
_HOLE = re.compile(r"\{(\w+)(?::(\w+))?\}")
_KINDS = {None: r"\d+", "word": r"[^/.]+", "path": r".+"}


@record
class Template:
    """A name in which `{n}` is a number, `{x:word}` a word, `{x:path}` anything."""

    text: str
    holes: tuple[str, ...]
    pattern: re.Pattern[str]

    @staticmethod
    def of(text: str) -> Template:
        """Reads a template.

        Raises:
            UsageError: A placeholder is of no known kind.
        """
        holes: list[str] = []
        pattern, at = "", 0
        for hole in _HOLE.finditer(text):
            pattern += re.escape(text[at : hole.start()])
            name, kind = hole[1], hole[2]
            if kind not in _KINDS:
                what = f"the placeholder {hole[0]} is of no known kind"
                raise UsageError(what, where=f"name {text!r}", remedy="write {n}, {x:word} or {x:path}")
            pattern += f"(?P={name})" if name in holes else f"(?P<{name}>{_KINDS[kind]})"
            holes += [] if name in holes else [name]
            at = hole.end()
        try:
            return Template(text, tuple(holes), re.compile(pattern + re.escape(text[at:])))
        except re.error as error:  # such as a placeholder whose name begins with a digit
            raise UsageError(f"{text!r} is no name with placeholders ({error})", remedy="write {n}") from error

    def match(self, name: str) -> dict[str, str] | None:
        """The values of the placeholders in a name; None if it does not fit."""
        found = self.pattern.fullmatch(name)
        return None if found is None else found.groupdict()

    def fill(self, binding: Mapping[str, str]) -> str:
        """The name with its placeholders filled.

        Raises:
            UsageError: One of them is not bound: it is on one side of a rule only.
        """
        for hole in self.holes:
            if hole not in binding:
                what = f"the placeholder {{{hole}}} of {self.text!r} is not on the other side of its rule"
                raise UsageError(what, remedy="correct the map")
        return _HOLE.sub(lambda hole: binding[hole[1]], self.text)


_FOLDER = Path(__file__).with_name("maps")


@record
class Rule:
    """How some weights become others; see the file's format above."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    transpose: bool | tuple[int, ...] = False
    axis: int = 0
    rows: str | None = None
    cast: str | None = None
    shape: tuple[str, ...] | None = None
    tasks: tuple[str, ...] = ()
    optional: bool = False
    copy: bool = False
    reshape: tuple[tuple[int, ...], tuple[int, ...]] | None = None


@record
class Task:
    """One of the models that a map knows.

    Attributes:
        name: What to call it.
        when: A glob; the task is chosen if a weight to be mapped has such a name. "" is the last resort.
        when_reverse: The same for the other direction.
        strip: What the names of this task lack in front.
        unless: Globs; the task is not chosen if a weight has such a name.
    """

    name: str
    when: str = ""
    when_reverse: str = ""
    strip: str = ""
    unless: tuple[str, ...] = ()


@record
class Drop:
    """Weights to leave out."""

    names: tuple[str, ...]
    tasks: tuple[str, ...] = ()


@record
class WeightMap:
    """A map. `checks` names the map whose shapes the weights must have before they are mapped."""

    name: str
    rules: tuple[Rule, ...]
    description: str = ""
    tasks: tuple[Task, ...] = ()
    drops: tuple[Drop, ...] = ()
    drop_training: bool = False
    layers: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    checks: str = ""


def builtin_maps() -> list[str]:
    """The names of the maps that come with tfsmith."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def builtin_map(name: str) -> WeightMap:
    """A map that comes with tfsmith.

    Raises:
        UsageError: There is none of this name.
    """
    names = builtin_maps()
    if name not in names:
        near = nearest(name, (*names, HUGGINGFACE)) or (*names, HUGGINGFACE)
        remedy = f"there are {', '.join(near)}; or pass a file of your own, NAME.toml"
        raise UsageError(f"there is no map {name!r}", remedy=remedy)
    return parse_map((_FOLDER / f"{name}.toml").read_text("utf-8"), name)


def parse_map(text: str, label: str) -> WeightMap:
    """Reads a map.

    Args:
        text: The TOML.
        label: What to call it in errors.

    Raises:
        UsageError: It is no TOML, or a rule makes no sense.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib

    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise UsageError(f"no sound TOML ({error})", where=f"map {label!r}", remedy="correct the file") from error
    reader = _Reader(label)
    reader.check(
        found,
        {"name", "description", "rules", "tasks", "drop", "drop_training", "layers", "metadata", "checks"},
        "the map",
    )
    tasks = tuple(reader.task(one) for one in reader.tables(found, "tasks"))
    names = {task.name for task in tasks}
    return WeightMap(
        reader.text(found, "name", label),
        tuple(reader.rule(one, names) for one in reader.tables(found, "rules")),
        reader.text(found, "description", ""),
        tasks,
        tuple(reader.drop(one, names) for one in reader.tables(found, "drop")),
        reader.flag(found, "drop_training"),
        reader.texts_by_key(found, "layers"),
        reader.texts_by_key(found, "metadata"),
        reader.text(found, "checks", ""),
    )


class _Reader:
    """Takes values out of a map's tables, and says what is wrong with them."""

    def __init__(self, label: str) -> None:
        self._label = label

    def problem(self, what: str) -> UsageError:
        """What to raise."""
        return UsageError(what, where=f"map {self._label!r}", remedy="correct the file; the guide tells its format")

    def check(self, table: Mapping[str, Any], known: set[str], where: str) -> None:
        """Refuses keys that nobody knows."""
        for key in table:
            if key not in known:
                near = nearest(key, known) or sorted(known)
                raise self.problem(f"{where} has {key!r}, which means nothing here (did you mean {near[0]!r}?)")

    def tables(self, table: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
        """A list of tables."""
        found = table.get(key, [])
        if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
            raise self.problem(f"{key!r} is not a list of tables ([[{key}]])")
        return found

    def text(self, table: Mapping[str, Any], key: str, default: str) -> str:
        """Some text."""
        found = table.get(key, default)
        if not isinstance(found, str):
            raise self.problem(f"{key!r} is not text")
        return found

    def flag(self, table: Mapping[str, Any], key: str) -> bool:
        """True or false."""
        found = table.get(key, False)
        if not isinstance(found, bool):
            raise self.problem(f"{key!r} is not true or false")
        return found

    def texts(self, table: Mapping[str, Any], key: str) -> tuple[str, ...]:
        """One text, or several."""
        found = table.get(key, [])
        texts = [found] if isinstance(found, str) else found
        if not isinstance(texts, list) or not all(isinstance(one, str) for one in texts):
            raise self.problem(f"{key!r} is not a name or a list of names")
        return tuple(texts)

    def texts_by_key(self, table: Mapping[str, Any], key: str) -> dict[str, str]:
        """Text by key."""
        found = table.get(key, {})
        if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
            raise self.problem(f"{key!r} is not text by key")
        return found

    def task(self, table: Mapping[str, Any]) -> Task:
        """A task."""
        self.check(table, {"name", "when", "when_reverse", "strip", "unless"}, "a task")
        name = self.text(table, "name", "")
        if not name:
            raise self.problem("a task has no name")
        when, reverse, strip = (self.text(table, key, "") for key in ("when", "when_reverse", "strip"))
        return Task(name, when, reverse, strip, self.texts(table, "unless"))

    def drop(self, table: Mapping[str, Any], tasks: set[str]) -> Drop:
        """A list of what to leave out."""
        self.check(table, {"names", "tasks"}, "a drop")
        return Drop(self.texts(table, "names"), self._tasks(table, tasks))

    def rule(self, table: Mapping[str, Any], tasks: set[str]) -> Rule:
        """A rule."""
        known = {"from", "to", "transpose", "axis", "rows", "cast", "shape", "tasks", "optional", "copy", "reshape"}
        self.check(table, known, "a rule")
        sources, targets = self.texts(table, "from"), self.texts(table, "to")
        if not sources or not targets or (len(sources) > 1 and len(targets) > 1):
            raise self.problem(f"the rule from {list(sources)} to {list(targets)} needs one name on one side")
        axis = table.get("axis", 0)
        if type(axis) is not int or axis < 0:
            raise self.problem(f"the axis {axis!r} is not 0 or more")
        shape = table.get("shape")
        if shape is not None and not isinstance(shape, list):
            raise self.problem(f"the shape {shape!r} is not a list")
        return Rule(
            sources,
            targets,
            self._transpose(table),
            axis,
            self.text(table, "rows", "") or None,
            self.text(table, "cast", "") or None,
            None if shape is None else tuple(map(str, shape)),
            self._tasks(table, tasks),
            self.flag(table, "optional"),
            self.flag(table, "copy"),
            self._reshape(table),
        )

    def _reshape(self, table: Mapping[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The sizes before and after, of as many elements."""
        found = table.get("reshape")
        if found is None:
            return None
        is_pair = isinstance(found, list) and len(found) == 2 and all(isinstance(sizes, list) for sizes in found)
        if (
            not is_pair
            or not all(type(size) is int and size >= 0 for sizes in found for size in sizes)
            or prod(found[0]) != prod(found[1])
        ):
            raise self.problem(f"reshape = {found!r} is no pair of shapes of as many elements, such as [[1, 8], [8]]")
        return tuple(found[0]), tuple(found[1])

    def _transpose(self, table: Mapping[str, Any]) -> bool | tuple[int, ...]:
        """Whether axes are reversed; or their order."""
        found = table.get("transpose", False)
        if not isinstance(found, list):
            return self.flag(table, "transpose")
        if not all(type(axis) is int for axis in found) or sorted(found) != list(range(len(found))):
            raise self.problem(f"transpose = {found!r} is no order of axes, such as [3, 2, 0, 1]")
        return tuple(found)

    def _tasks(self, table: Mapping[str, Any], known: set[str]) -> tuple[str, ...]:
        found = self.texts(table, "tasks")
        for name in found:
            if name not in known:
                raise self.problem(f"there is no task {name!r}; the tasks are {', '.join(sorted(known)) or 'none'}")
        return found
