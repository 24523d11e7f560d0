"""`record` gives what a frozen dataclass with slots gives."""

from __future__ import annotations

import copy
import inspect
import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from tfsmith.records import field, record, replace


@record
class Point:
    """A point."""

    x: int
    y: int = 2
    names: Mapping[str, int] = field(default_factory=dict)
    note: str = field(default="", compare=False, repr=False)
    plane: ClassVar[str] = "flat"

    def moved(self, x: int) -> Point:
        return replace(self, x=self.x + x)


@record
class Named(Point):
    name: str = "?"


@record(eq=False)
class Alone:
    value: int


@record(frozen=False)
class Notes:
    seen: list[int] = field(default_factory=list)


class Shape(ABC):
    __slots__ = ()

    @property
    @abstractmethod
    def area(self) -> int: ...


@record
class Square(Shape):
    side: int
    _area: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_area", self.side**2)

    @property
    def area(self) -> int:
        return self._area


@record
class NoArea(Shape):
    side: int


def test_values_and_defaults() -> None:
    point = Point(1, names={"a": 1})
    assert (point.x, point.y, point.names, point.note, point.plane) == (1, 2, {"a": 1}, "", "flat")
    assert Point(1).names is not Point(1).names
    assert Named(1, name="n").name == "n"
    assert Square(3).area == 9


@pytest.mark.parametrize(("args", "told"), [((), "missing 1 required"), ((1, 2, {}, "", 5), "takes from 2 to 5")])
def test_wrong_arguments_are_told(args: tuple[Any, ...], told: str) -> None:
    with pytest.raises(TypeError, match=told):
        Point(*args)


def test_nothing_changes() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match=r"^Point\.x: Point is immutable; make another one$"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"^Point\.z: Point is immutable; make another one$"):
        point.z = 2  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"^Point\.x: Point is immutable; make another one$"):
        del point.x
    assert not hasattr(point, "__dict__")


def test_notes_change() -> None:
    notes = Notes()
    notes.seen = [1]
    assert notes == Notes([1])
    with pytest.raises(AttributeError):
        notes.other = 1  # type: ignore[attr-defined]
    with pytest.raises(TypeError, match="unhashable"):
        hash(notes)


def test_replace_gives_another() -> None:
    point = Point(1, 5, {"a": 1}, "n")
    other = point.moved(2)
    assert (other.x, other.y, other.names, other.note, point.x) == (3, 5, {"a": 1}, "n", 1)
    assert replace(Square(2), side=4).area == 16
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        replace(point, z=1)


def test_equal_by_what_is_compared() -> None:
    assert Point(1, note="a") == Point(1, note="b")
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    other: object = (1, 2, {}, "")
    assert Point(1) != other
    assert hash(Square(2)) == hash(Square(2))
    assert len({Square(2), Square(2), Square(3)}) == 2
    one = Alone(1)
    assert one == one
    assert one != Alone(1)
    assert len({one, Alone(1)}) == 2


def test_shown_as_it_is_made() -> None:
    assert repr(Point(1, note="n")) == "Point(x=1, y=2, names={})"
    assert repr(Square(2)) == "Square(side=2)"


def test_an_abstract_property_must_be_there() -> None:
    with pytest.raises(TypeError, match="abstract"):
        NoArea(1)  # type: ignore[abstract]


@pytest.mark.parametrize("made", [Point(1, 2, {"a": 1}, "n"), Square(3), Alone(4), Notes([1])])
def test_copied_and_pickled(made: Any) -> None:
    for other in (copy.copy(made), copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        assert repr(other) == repr(made)
        assert other is not made
    assert copy.copy(Square(3)).area == 9


def test_matched_by_position() -> None:
    match Named(1, 2, name="n"):
        case Named(x, y):
            assert (x, y) == (1, 2)
        case _:
            raise AssertionError


def test_its_signature_can_be_read() -> None:
    parameters = inspect.signature(Named).parameters
    assert list(parameters) == ["x", "y", "names", "note", "name"]
    assert parameters["x"].annotation == "int"
    assert parameters["y"].default == 2
