"""`record`: a class of named values that never change.

It has what we use of `dataclass(frozen=True, slots=True)`, for a small part of the time: a command makes fifty to a
hundred such classes before it does anything, and with dataclasses (and `inspect`, which they import) that was a sixth
of what `tfsmith show` takes: `docs/decisions/0008-records.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, overload

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_):
        """What it says is for type checkers."""
        return lambda made: made


__all__ = ["FrozenDict", "Immutable", "field", "record", "replace", "values"]

_Record = TypeVar("_Record")
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_NOTHING: Any = type("_Nothing", (), {"__repr__": lambda self: "..."})()


class _Field:
    """What is known about one field: nearly always nothing, or its default."""

    __slots__ = ("compare", "default", "factory", "init", "kind", "name", "repr")

    def __init__(self, default: Any, factory: Callable[[], Any] | None, init: bool, repr: bool, compare: bool) -> None:
        self.name = self.kind = ""
        self.default = default
        self.factory = factory
        self.init = init
        self.repr = repr
        self.compare = compare


def field(
    *,
    default: Any = _NOTHING,
    default_factory: Callable[[], Any] | None = None,
    init: bool = True,
    repr: bool = True,
    compare: bool = True,
) -> Any:
    """Says more of a field than its type: a default that is made anew, or where the field does not count."""
    return _Field(default, default_factory, init, repr, compare)


@overload
def record(cls: type[_Record], /) -> type[_Record]: ...
@overload
def record(*, eq: bool = True, repr: bool = True, frozen: bool = True) -> Callable[[type[_Record]], type[_Record]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[Any] | None = None, /, *, eq: bool = True, repr: bool = True, frozen: bool = True) -> Any:
    """Makes a record of a class: the annotated names are its fields, in their order, and its only attributes.

    Args:
        cls: The class, which may have methods, and a `__post_init__` that runs when the fields are set. Methods call
            those of a base by its name: `super()` alone does not work in them.
        eq: Whether two with equal fields are equal; else each is equal to itself only.
        repr: Whether to write a `__repr__`.
        frozen: Whether the fields stay as they are. The notes of a pass that is under way do not.
    """
    if cls is None:
        return lambda plain: _make(plain, eq=eq, repr=repr, frozen=frozen)
    return _make(cls, eq=eq, repr=repr, frozen=frozen)


def replace(original: _Record, /, **changes: Any) -> _Record:
    """A copy with other values in these fields."""
    kind = type(original)
    fields: tuple[_Field, ...] = kind.__record_fields__  # type: ignore[attr-defined]
    for known in fields:
        if known.init and known.name not in changes:
            changes[known.name] = getattr(original, known.name)
    return kind(**changes)


def values(original: object, /) -> dict[str, Any]:
    """The fields of a record by name, to make another kind of record of them that has more."""
    fields: tuple[_Field, ...] = type(original).__record_fields__  # type: ignore[attr-defined]
    return {known.name: getattr(original, known.name) for known in fields}


def _make(plain: type[Any], *, eq: bool, repr: bool, frozen: bool) -> type[Any]:
    inherited: tuple[_Field, ...] = getattr(plain, "__record_fields__", ())
    names = [name for name, kind in plain.__annotations__.items() if not kind.startswith("ClassVar")]
    members = dict(plain.__dict__)
    own = [_field(name, plain.__annotations__[name], members) for name in names]
    fields = (*(known for known in inherited if known.name not in names), *own)
    for name in (*names, "__dict__", "__weakref__"):
        members.pop(name, None)
    members["__slots__"] = tuple(names)
    members["__record_fields__"] = fields
    members["__match_args__"] = tuple(known.name for known in fields if known.init)
    members["__signature__"] = _SIGNATURE
    members.setdefault("__reduce__", _reduce)
    if frozen:
        members["__setattr__"] = members["__delattr__"] = _refuse_to_set
    if repr:
        members.setdefault("__repr__", _repr)
    if eq:
        values = attrgetter(*(known.name for known in fields if known.compare))
        members.setdefault("__eq__", _equality(values))
        members.setdefault("__hash__", _hashing(values) if frozen else None)
    kind: Any = type(plain)  # of an abstract class, another one
    made: type[Any] = kind(plain.__name__, plain.__bases__, members)
    made.__init__ = _unwritten(made)
    return made


def _field(name: str, kind: str, members: dict[str, Any]) -> _Field:
    default = members.get(name, _NOTHING)
    told = default if isinstance(default, _Field) else _Field(default, None, True, True, True)
    told.name, told.kind = name, kind
    return told


def _unwritten(made: type[Any]) -> Callable[..., None]:
    """An `__init__` that writes the real one when the first record is made: most that a command loads have none."""

    def __init__(self: Any, *args: Any, **named: Any) -> None:
        _constructor(made)(self, *args, **named)

    return __init__


class _Signature:
    """What `inspect.signature` asks a class for: that of the real `__init__`."""

    def __get__(self, made: object, kind: type[Any]) -> Any:
        import inspect

        if made is not None or "__record_fields__" not in kind.__dict__:
            raise AttributeError("__signature__")
        whole = inspect.signature(_constructor(kind))
        return whole.replace(parameters=list(whole.parameters.values())[1:])


_SIGNATURE = _Signature()


def _constructor(made: type[Any]) -> Callable[..., None]:
    """Writes `__init__`. It sets through the slots, which is faster than past our own `__setattr__`."""
    fields: tuple[_Field, ...] = made.__record_fields__
    needs: dict[str, Any] = {"_NOTHING": _NOTHING}
    parameters, lines = ["self"], []
    for known in fields:
        name = known.name
        needs[f"_set_{name}"] = getattr(made, name).__set__
        if not known.init:
            continue
        needs[f"_default_{name}"] = known.default if known.factory is None else known.factory
        if known.factory is not None:
            parameters.append(f"{name}=_NOTHING")
            lines.append(f"    _set_{name}(self, _default_{name}() if {name} is _NOTHING else {name})")
            continue
        parameters.append(name if known.default is _NOTHING else f"{name}=_default_{name}")
        lines.append(f"    _set_{name}(self, {name})")
    if hasattr(made, "__post_init__"):
        lines.append("    self.__post_init__()")
    exec(f"def __init__({', '.join(parameters)}):\n" + "\n".join(lines or ["    pass"]), needs)
    constructor: Callable[..., None] = needs["__init__"]
    constructor.__qualname__ = f"{made.__qualname__}.__init__"
    constructor.__module__ = made.__module__
    constructor.__annotations__ = {known.name: known.kind for known in fields}
    made.__init__ = constructor
    return constructor


def _equality(values: Callable[[Any], Any]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return bool(values(self) == values(other))

    return __eq__


def _hashing(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _repr(self: Any) -> str:
    shown = (f"{known.name}={getattr(self, known.name)!r}" for known in self.__record_fields__ if known.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _reduce(self: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """For `copy` and `pickle`."""
    return _restore, (type(self), *(getattr(self, known.name) for known in self.__record_fields__))


def _restore(kind: type[Any], *values: Any) -> Any:
    made: Any = object.__new__(kind)
    for known, value in zip(kind.__record_fields__, values, strict=True):
        object.__setattr__(made, known.name, value)
    return made


def _refuse_to_set(self: Any, name: str, *_: Any) -> NoReturn:
    """For an assignment and for `del`."""
    raise AttributeError(f"{type(self).__name__}.{name}: {_refusal(self)}")


def _refusal(immutable: Any) -> str:
    kind = type(immutable)
    return f"{kind.__name__} is immutable; {getattr(kind, '__remedy__', 'make another one')}"


class Immutable:
    """An object that says so when it is assigned to: attributes and items.

    `__remedy__` of a class, or of a frozen record, says what to do instead.
    """

    __slots__ = ()
    __remedy__ = "use `with model.edit() as g:`"

    if not TYPE_CHECKING:  # else the checker would think that any name and any item can be assigned to
        __setattr__ = __delattr__ = _refuse_to_set

        def __setitem__(self, *_):
            raise TypeError(_refusal(self))

        __delitem__ = __setitem__

    def __copy__(self: _Record) -> _Record:
        return self

    def __deepcopy__(self: _Record, memo: object) -> _Record:
        return self


class FrozenDict(dict[_Key, _Value]):
    """A dict that cannot be changed and says what to do instead."""

    __slots__ = ()
    __remedy__ = "use `with model.edit() as g:`"

    if not TYPE_CHECKING:

        def _refuse(self, *_, **__):
            raise TypeError(f"this mapping is immutable; {self.__remedy__}")

        __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict[_Key, _Value]:
        return self

    def __deepcopy__(self, memo: object) -> FrozenDict[_Key, _Value]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self),)
