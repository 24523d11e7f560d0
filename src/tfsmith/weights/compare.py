"""Compares two sets of weights: names, shapes, values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from tfsmith.errors import InvalidModelError, NotFoundInModelError
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.ir.tensor_views import read_pieces
from tfsmith.records import record, replace
from tfsmith.weights.table import plain_number

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Comparison", "Verdict", "compare_weights", "pair_weights", "put_like", "same_values"]

Verdict = Literal["same", "close", "differs", "shape", "dtype", "only in first", "only in second"]


@record
class Comparison:
    """How a weight of one set compares to the one of the same name in another.

    Attributes:
        name: The name.
        verdict: "same" is bit for bit; "close" is within the tolerance; "differs" is not; "dtype" is the same values,
            or within the tolerance, in another type; "shape" is not comparable.
        first: The first one, None if it is not there.
        second: The second one, None if it is not there.
        max_difference: The largest difference of two values; None where there is nothing to subtract.
        unequal: How many values differ; a NaN equals a NaN.
    """

    name: str
    verdict: Verdict
    first: Tensor | None = None
    second: Tensor | None = None
    max_difference: float | None = None
    unequal: int | None = None

    def is_equal(self, *, any_dtype: bool = False) -> bool:
        """Whether the two count as equal."""
        return self.verdict in ("same", "close") or (any_dtype and self.verdict == "dtype")

    def facts(self) -> dict[str, Any]:
        """The comparison as plain data, ready for JSON."""
        return {
            "name": self.name,
            "verdict": self.verdict,
            "first": None if self.first is None else _type_facts(self.first),
            "second": None if self.second is None else _type_facts(self.second),
            "max_difference": plain_number(self.max_difference),
            "unequal": self.unequal,
        }


def _type_facts(tensor: Tensor) -> list[Any]:
    dims = tensor.shape.dims
    return [tensor.dtype.name, None if dims is None else list(dims)]


def compare_weights(
    first: Mapping[str, Tensor], second: Mapping[str, Tensor], *, tolerance: float = 0.0
) -> Iterator[Comparison]:
    """Compares weight by weight, by name (`pair_weights`). Reads both in pieces: memory does not grow with them.

    Weights of a Keras file are paired by more than names (`pair_weights`).

    Args:
        first: Some weights.
        second: Others.
        tolerance: How far values may differ and still be close.

    Raises:
        ChecksumError: Values are not what was written.
    """
    for name, one, other in sorted(pair_weights(first, second), key=lambda pair: pair[0]):
        if one is None or other is None:
            verdict: Verdict = "only in second" if one is None else "only in first"
            yield Comparison(name, verdict, one, other)
        elif one.shape != other.shape:
            yield Comparison(name, "shape", one, other)
        else:
            yield _compare(name, one, other, tolerance)


_Named = tuple[str, "Tensor | None", "Tensor | None"]


def pair_weights(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Iterable[_Named]:
    """The weights of both that belong together, with the name that they share; None where one has no such weight.

    They are paired by key, then by the names of the variables that the keys mean (`Weights.names`), so that a frozen
    constant meets the variable that it was. Reads no value, unless one of them is a Keras file, whose names may be
    those of layers or mere numbers: what no name pairs is then paired by value; by a name that differs only in the
    number that TensorFlow puts behind it, or in scopes around the layer; last by a shape that only one weight of each
    has. The name of such a pair
    tells both. What one file holds twice counts as what it is a copy of.
    """
    pairs = _pair_by_name(first, second)
    is_keras = any(isinstance(one, Weights) and one.keras is not None for one in (first, second))
    return _pair_the_rest(list(pairs)) if is_keras else pairs


def _pair_by_name(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Iterator[_Named]:
    left = dict(second)
    others: list[str] = []
    for key, tensor in first.items():
        if key in left:
            yield key, tensor, left.pop(key)
        else:
            others.append(key)
    known: dict[str, str] = {}
    for key in left:
        for name in (key, *_names(second, key)):
            known.setdefault(name, key)
    for key in others:
        shared = next((name for name in (key, *_names(first, key)) if known.get(name) in left), None)
        if shared is None:
            yield _names(first, key)[0] if _names(first, key) else key, first[key], None
        else:
            yield shared, first[key], left.pop(known[shared])
    for key, tensor in left.items():
        yield _names(second, key)[0] if _names(second, key) else key, None, tensor


def put_like(weights: Weights, like: Weights) -> Weights:
    """Weights under the keys of another file of the same model, and with what Keras knew of it. Reads no values.

    They are paired by key, by the names of the variables that the keys mean, and by names that differ only in scopes
    around the layer, where no other weight has such a name. An optimizer's state may be missing.

    Args:
        weights: The weights.
        like: Those whose places they take; a Keras file.

    Raises:
        NotFoundInModelError: A weight of the model is missing, or one has no place in it.
        InvalidModelError: A weight has another shape there.
    """
    keys = {id(tensor): key for mapping in (like, weights) for key, tensor in mapping.items()}
    pairs = list(_pair_by_name(like, weights))
    left = [keys[id(one)] for _, one, other in pairs if one is not None and other is None]
    right = [keys[id(other)] for _, one, other in pairs if one is None and other is not None]
    found = {keys[id(one)]: keys[id(other)] for _, one, other in pairs if one is not None and other is not None}
    found |= _in_other_scopes(like, left, weights, right)
    of_training = set(like.keras.optimizer) if like.keras is not None else set()
    missing = [key for key in left if key not in found and not _is_of_training(key, of_training)]
    taken = set(found.values())
    over = [key for key in right if key not in taken]
    for names, what, home in ((missing, "is missing", weights), (over, "has no place in the model", like)):
        if names:
            said = f"the weight {names[0]!r} {what}" + (f", like {len(names) - 1} more" if names[1:] else "")
            remedy = "pass weights of the same model; {rename}, {drop} and {inference_only} fit what is there to it"
            raise NotFoundInModelError(said, path=home.path, remedy=remedy)
    for key, other_key in found.items():
        if like[key].shape != weights[other_key].shape:
            what = f"it has the shape {weights[other_key].shape}, but {like[key].shape} in the model"
            remedy = "pass weights of the same model"
            raise InvalidModelError(what, path=weights.path, where=f"{other_key!r}", remedy=remedy)
    tensors = {key: weights[found[key]] for key in like if key in found}
    return replace(weights, tensors=tensors, names=like.names, keras=like.keras)


def _in_other_scopes(
    first: Weights, left: Sequence[str], second: Mapping[str, Tensor], right: Sequence[str]
) -> dict[str, str]:
    """The keys of those whose names differ only in scopes around the layer, where one name fits one other."""
    fits: dict[str, list[str]] = {}
    for key in left:
        ends = tuple(f"/{name}" for name in (key, *_names(first, key)))
        fits[key] = [other for other in right if other.endswith(ends) and second[other].shape == first[key].shape]
    count = Counter(other for others in fits.values() for other in others)
    return {key: others[0] for key, others in fits.items() if len(others) == 1 and count[others[0]] == 1}


def _is_of_training(key: str, optimizer: Collection[str]) -> bool:
    return key in optimizer or key.startswith("metrics/")


def _pair_the_rest(pairs: list[_Named]) -> list[_Named]:
    """The pairs, and what has no partner by name paired by more than that."""
    from tfsmith.weights.pairs import pair_by_value  # names pair nearly all files

    left = {name: one for name, one, other in pairs if one is not None and other is None}
    right = {name: other for name, one, other in pairs if other is not None and one is None}
    done = [pair for pair in pairs if pair[1] is not None and pair[2] is not None]

    def take(found: Iterable[tuple[str, str]]) -> None:
        for one, other in found:
            done.append((one if one == other else f"{one} = {other}", left.pop(one), right.pop(other)))

    take([(pair.first, pair.second) for pair in pair_by_value(left, right)])
    take(_alike(left, right, lambda name, tensor: (_COPY.sub("", name), tensor.shape.dims)))
    take(_alike(left, right, lambda name, tensor: (*_COPY.sub("", name).split("/")[-2:], tensor.shape.dims)))
    done += _copies(done, left, right)
    take(_alike(left, right, lambda _, tensor: tensor.shape.dims))
    done += [(name, tensor, None) for name, tensor in left.items()]
    return done + [(name, None, tensor) for name, tensor in right.items()]


_COPY = re.compile(r"_\d+$")


def _alike(
    first: Mapping[str, Tensor], second: Mapping[str, Tensor], key: Callable[[str, Tensor], object]
) -> list[tuple[str, str]]:
    """The names of those whose key only one weight of each has."""
    sides: list[dict[object, list[str]]] = [{}, {}]
    for found, weights in zip(sides, (first, second), strict=True):
        for name, tensor in weights.items():
            found.setdefault(key(name, tensor), []).append(name)
    return [(names[0], others[0]) for shared, names in sides[0].items()
            if len(names) == 1 and len(others := sides[1].get(shared, [])) == 1]  # fmt: skip


def _copies(done: Sequence[_Named], left: dict[str, Tensor], right: dict[str, Tensor]) -> Iterator[_Named]:
    """What a file holds once more under another name, as Keras 3 exports models, with the partner of the original."""
    from tfsmith.weights.pairs import pair_by_value

    for side, rest in ((1, left), (2, right)):
        while rest:
            originals = {name: tensor for name, *both in done if (tensor := both[side - 1]) is not None}
            partners = {name: both[2 - side] for name, *both in done}
            found = pair_by_value(rest, originals)
            for pair in found:
                copy, partner = rest.pop(pair.first), partners[pair.second]
                yield (f"{pair.second} = {pair.first}", *((copy, partner) if side == 1 else (partner, copy)))
            if not found:
                break


def _names(weights: Mapping[str, Tensor], key: str) -> tuple[str, ...]:
    return weights.names.get(key, ()) if isinstance(weights, Weights) else ()


def _compare(name: str, one: Tensor, other: Tensor, tolerance: float) -> Comparison:
    """Two tensors of one shape."""
    same_dtype = one.dtype.base == other.dtype.base
    if not one.dtype.itemsize or not other.dtype.itemsize:
        return _compare_strings(name, one, other)
    one.verify()
    other.verify()
    largest, unequal, exact = 0.0, 0, True
    for left, right in _pairs(one, other):
        if left.dtype == right.dtype and left.tobytes() == right.tobytes():
            continue
        exact = False
        most, count = _difference(left, right)
        largest, unequal = max(largest, most), unequal + count
    verdict: Verdict = "same" if exact and same_dtype else "close" if largest <= tolerance else "differs"
    if verdict == "close" and not same_dtype:
        verdict = "dtype"
    elif verdict == "close" and not tolerance and one.dtype.base.name != "bool":
        verdict = "differs"  # such as a zero that lost its sign: equal as numbers, but not bit for bit
    return Comparison(name, verdict, one, other, largest, unequal)


def same_values(one: Tensor, other: Tensor) -> bool:
    """Whether two tensors of numbers have the same type, shape and bytes. Reads both in pieces, up to a difference."""
    if one.shape != other.shape or one.dtype.base != other.dtype.base:
        return False
    return all(left.tobytes() == right.tobytes() for left, right in _pairs(one, other))


def _compare_strings(name: str, one: Tensor, other: Tensor) -> Comparison:
    if one.dtype.base != other.dtype.base or one.dtype.base.name != "string":
        return Comparison(name, "differs", one, other)
    unequal = int((one.numpy() != other.numpy()).sum())
    return Comparison(name, "differs" if unequal else "same", one, other, None, unequal)


def _pairs(one: Tensor, other: Tensor) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """The values of both, in pieces of the same length."""
    lefts, rights = read_pieces(one), read_pieces(other)
    left, right = next(lefts, None), next(rights, None)
    while left is not None and right is not None:
        count = min(left.size, right.size)
        yield left[:count], right[:count]
        left, right = left[count:], right[count:]
        left = left if left.size else next(lefts, None)
        right = right if right.size else next(rights, None)


def _difference(left: NDArray[Any], right: NDArray[Any]) -> tuple[float, int]:
    """The largest difference, infinite where only one is a NaN or an infinity; and how many values are not equal."""
    import numpy

    complex_ones = "c" in (left.dtype.kind, right.dtype.kind)
    unequal = left != right
    wide = numpy.complex128 if complex_ones else numpy.float64
    with numpy.errstate(invalid="ignore"):  # a signalling NaN
        a, b = left.astype(wide), right.astype(wide)
    unequal &= ~(numpy.isnan(a) & numpy.isnan(b))
    if not unequal.any():
        return 0.0, 0
    with numpy.errstate(invalid="ignore", over="ignore"):
        gaps = numpy.abs(a[unequal] - b[unequal])
    gaps[~numpy.isfinite(gaps)] = numpy.inf
    return float(gaps.max()), int(unequal.sum())
