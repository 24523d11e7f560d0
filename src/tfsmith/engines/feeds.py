"""What a caller feeds, checked against what the model wants; and arrays made up for an input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.engines.protocol import Port
from tfsmith.errors import NotFoundInModelError, UsageError, nearest
from tfsmith.ir.node import parse_input
from tfsmith.ir.types import DType, Shape
from tfsmith.limits import MAX_FILLED_BYTES

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

__all__ = ["bind_feeds", "check_names", "find_input", "as_fed", "make_input", "unknown_input", "Fill"]

Fill = Literal["random", "zeros", "wide", "pixels"]
"""What to fill a made-up array with. "wide" floats are ten times as large, "pixels" are 0 to 255; texts vary, too."""
_SHOWN = 8
_WORDS = (b"text", b"", b"7", b"a longer text, with words")
_MADE_SIZE = 16
"""The size of unknown dimensions, but the first."""


def find_input(inputs: Mapping[str, Port], name: str) -> str | None:
    """The key of the input that is called so: by key, tensor or node, or by the end of its name where that is clear."""
    if name in inputs:
        return name
    tensor = str(parse_input(name))
    by_tensor = [key for key, port in inputs.items() if port.tensor == tensor]
    if by_tensor:
        return by_tensor[0]
    ends = [key for key, port in inputs.items() if parse_input(port.tensor).node.rpartition("/")[2] == name]
    return ends[0] if len(ends) == 1 else None


def bind_feeds(inputs: Mapping[str, Port], feeds: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """The arrays by key, each of the type and shape that the model wants.

    Raises:
        NotFoundInModelError: There is no such input; the remedy has the nearest.
        UsageError: One is missing, is given twice, or has another type or shape than the model wants.
    """
    if not isinstance(feeds, Mapping):
        what = f"inputs are arrays by name, not of type {type(feeds).__name__}"
        raise UsageError(what, remedy=f"pass a dict; the inputs are: {', '.join(inputs)}")
    keys = check_names(inputs, feeds)
    return {key: as_fed(key, inputs[key], feeds[name]) for name, key in keys.items()}


def check_names(inputs: Mapping[str, Port], names: Iterable[str]) -> dict[str, str]:
    """The key of each name that is fed. Looks at no value.

    Raises:
        NotFoundInModelError: There is no such input; the remedy has the nearest.
        UsageError: One is missing, or is given twice.
    """
    keys: dict[str, str] = {}
    for name in names:
        key = find_input(inputs, name)
        if key is None:
            raise unknown_input(inputs, name)
        if key in keys.values():
            raise UsageError(f"input {key!r} is given twice", remedy="leave one of them out")
        keys[name] = key
    missing = [key for key, port in inputs.items() if port.required and key not in keys.values()]
    if missing:
        told = ", ".join(f"{key} ({inputs[key].wants()})" for key in missing)
        raise UsageError(f"the model {'also ' if keys else ''}wants {told}", remedy="feed all of its inputs")
    return keys


def unknown_input(inputs: Mapping[str, Port], name: str) -> NotFoundInModelError:
    """What to raise for a name that no input has."""
    near = nearest(name, inputs)
    told = [f"the nearest is {near[0]}"] if near else []
    if len(inputs) > len(told):
        more = f" and {len(inputs) - _SHOWN} more" if len(inputs) > _SHOWN else ""
        told.append(f"the inputs are: {', '.join(list(inputs)[:_SHOWN])}{more}")
    return NotFoundInModelError(f"the model has no input {name!r}", remedy="; ".join(told) or "it takes none")


def as_fed(key: str, port: Port, value: Any) -> NDArray[Any]:
    """A value as an array of the type and shape that an input wants. An array that fits is not copied.

    Raises:
        UsageError: It is of another type or shape. Only casts that keep every value are made, within one kind
            (integers, floats); Python's own numbers, which have no such types, are taken for what the model wants.
    """
    import numpy

    is_array = isinstance(value, (numpy.ndarray, numpy.generic))
    try:
        array = numpy.asarray(value)
    except (ValueError, TypeError) as error:
        raise UsageError(f"input {key!r} is no array ({error})", remedy=_wanted(port)) from error
    wanted = array.dtype if port.dtype is None else port.dtype.numpy()
    if wanted.kind == "O" or array.dtype.kind in "OSU":
        array = _as_strings(key, port, value, array)
    elif array.dtype != wanted:
        array = _cast(key, port, array, wanted, is_array=is_array)
    _check_shape(key, port, array)
    return array


def _wanted(port: Port) -> str:
    return f"the model wants {port.wants()}"


def _as_strings(key: str, port: Port, value: Any, array: NDArray[Any]) -> NDArray[Any]:
    import numpy

    is_wanted = port.dtype is None or port.dtype.base.name == "string"
    items = numpy.asarray(value, object) if not isinstance(value, numpy.ndarray) else array.astype(object)
    flat = items.reshape(-1).tolist()
    if not is_wanted or not all(isinstance(item, (str, bytes)) for item in flat):
        what = "strings" if array.dtype.kind in "SU" else "Python objects" if array.dtype.kind == "O" else array.dtype
        raise UsageError(f"input {key!r} is given {what}", remedy=_wanted(port))
    found = numpy.empty(len(flat), object)
    found[:] = [item.encode() if isinstance(item, str) else item for item in flat]
    return found.reshape(items.shape)


def _cast(key: str, port: Port, array: NDArray[Any], wanted: numpy.dtype[Any], *, is_array: bool) -> NDArray[Any]:
    """The array as another type, if nothing is lost by that."""
    import numpy

    from_kind, to_kind = _kind(array.dtype), _kind(wanted)
    is_rounded = not is_array and from_kind in "if" and to_kind == "f"  # Python has but one type of floats
    if from_kind == to_kind or is_rounded or (not is_array and not array.size):
        with numpy.errstate(all="ignore"):
            found = array.astype(wanted)
            back = found.astype(array.dtype)
        is_same = bool(numpy.array_equal(back, array, equal_nan=to_kind == "f"))
        if is_rounded or not array.size or (is_same and not _wraps(array, wanted)):
            return found
    given = f"input {key!r} is given {array.dtype} {list(array.shape)}"
    if from_kind == to_kind == "i":  # to convert it would change these values
        raise UsageError(f"{given} with values from {array.min()} to {array.max()}", remedy=_wanted(port))
    remedy = f"{_wanted(port)}; convert it, as with .astype({port.dtype and port.dtype.base.name!r})"
    raise UsageError(given, remedy=remedy)


def _kind(found: numpy.dtype[Any]) -> str:
    """Integers, floats, or what it is: bfloat16 and its like are floats to us, though numpy calls them void."""
    if found.kind in "iu":
        return "i"
    return "f" if found.kind == "f" or "float" in found.name else found.kind


def _wraps(array: NDArray[Any], wanted: numpy.dtype[Any]) -> bool:
    """Whether an integer is outside of what a type holds; a cast there and back hides that for signed and unsigned."""
    import numpy

    if wanted.kind not in "iu":
        return False
    limits = numpy.iinfo(wanted)
    return int(array.min()) < int(limits.min) or int(array.max()) > int(limits.max)


def _check_shape(key: str, port: Port, array: NDArray[Any]) -> None:
    dims = port.shape.dims
    if dims is None:
        return
    fits = len(dims) == array.ndim and all(want in (-1, have) for want, have in zip(dims, array.shape, strict=True))
    if fits:
        return
    rest = dims[1:]
    lacks_batch = len(rest) == array.ndim and all(
        want in (-1, have) for want, have in zip(rest, array.shape, strict=True)
    )
    more = "; add the batch dimension, as with array[None]" if lacks_batch and dims[0] in (-1, 1) else ""
    raise UsageError(f"input {key!r} is given shape {list(array.shape)}", remedy=f"{_wanted(port)}{more}")


def make_input(port: Port, fill: Fill, *, generator: Any = None, batch: int = 1) -> NDArray[Any]:
    """An array that an input takes: zeros, or random values that any model can stand.

    Random integers are 0 or 1, which are ids in any vocabulary and masks; bytes are those of pixels; floats are normal.

    Args:
        port: The input.
        fill: What to fill it with.
        generator: Numpy's, for all but "zeros".
        batch: The size of the first dimension where it is unknown; other unknown ones are 16.
    """
    import numpy

    kind = port.dtype
    shape = _made_shape(port, batch)
    if kind is None:
        raise UsageError(f"the model does not say of what type {port.tensor} is", remedy="feed an array")
    draw = numpy.random.default_rng() if generator is None else generator
    if kind.base.name == "string":
        if fill in ("wide", "pixels"):
            return numpy.array(_WORDS, object)[draw.integers(0, len(_WORDS), shape)]
        return numpy.full(shape, b"text" if fill == "random" else b"", object)
    element = _element(kind, port)
    if fill == "zeros":
        return numpy.zeros(shape, element)
    if kind.base.name == "uint8":
        return numpy.asarray(draw.integers(0, 256, shape), element)
    if _kind(element) in "ib":
        return numpy.asarray(draw.integers(0, 2, shape), element)
    if fill == "pixels":
        return numpy.asarray(draw.uniform(0, 255, shape)).astype(element)
    return numpy.asarray(draw.standard_normal(shape) * (10 if fill == "wide" else 1)).astype(element)


def _element(kind: DType, port: Port) -> numpy.dtype[Any]:
    found = kind.numpy()
    if found.kind == "V" and "float" not in found.name and "int" not in found.name:
        raise UsageError(f"no values of {kind} can be made up for {port.tensor}", remedy="feed an array")
    return found


def _made_shape(port: Port, batch: int) -> tuple[int, ...]:
    dims = port.shape.dims
    if dims is None:
        raise UsageError(f"the model does not say what shape {port.tensor} has", remedy="feed an array")
    if batch < 1:
        raise UsageError(f"a batch of {batch} cannot be", remedy="pass a positive number")
    shape = tuple(dim if dim >= 0 else batch if number == 0 else _MADE_SIZE for number, dim in enumerate(dims))
    size = prod(shape) * (8 if port.dtype is None else max(1, port.dtype.itemsize))
    if size > MAX_FILLED_BYTES:
        what = f"a batch of {batch} takes {size:,} bytes for {port.tensor}, {Shape(shape)}"
        raise UsageError(what, remedy="pass a smaller batch, or feed an array")
    return shape
