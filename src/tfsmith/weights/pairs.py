"""Pairs the weights of two files of one model whose names differ: by value, by shape, by likeness of names.

And drafts a map from such pairs, for a user to correct.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from tfsmith.errors import shortened
from tfsmith.ir.tensor import Tensor, Weights
from tfsmith.ir.tensor_views import ReshapedTensor, TransposedTensor
from tfsmith.ir.types import Shape
from tfsmith.records import record
from tfsmith.storage import Span

__all__ = ["Draft", "Pair", "draft_map", "pair_by_value"]


@record
class Pair:
    """Two weights that belong together.

    Attributes:
        first: The key in the first file.
        second: The key in the second.
        axes: How the first must be turned to be the second; () if it lies alike.
        shapes: The shapes of both, where they differ in axes of size one; None where they do not.
        how: "name", "value" or "shape": what they were paired by. A pair by shape is a guess.
    """

    first: str
    second: str
    axes: tuple[int, ...] = ()
    how: str = "value"
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None


def pair_by_value(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> list[Pair]:
    """Pairs of weights with the same shape, type and bytes, each used once, in the order of the files.

    Reads the values of all weights whose shape the other file has; memory does not grow with them. Of several weights
    with the same values, the ones with like names go together.
    """
    shapes = {_kind(tensor) for tensor in second.values()} & {_kind(tensor) for tensor in first.values()}
    waiting: dict[bytes, list[str]] = {}
    for key, tensor in second.items():
        if _kind(tensor) in shapes:
            waiting.setdefault(_digest(tensor), []).append(key)
    pairs: list[Pair] = []
    for key, tensor in first.items():
        found = waiting.get(_digest(tensor)) if _kind(tensor) in shapes else None
        if found:
            best = max(found, key=lambda other: _likeness(key, other))
            found.remove(best)
            pairs.append(Pair(key, best))
    return pairs


def _kind(tensor: Tensor) -> tuple[str, tuple[int, ...]]:
    return tensor.dtype.base.name, tuple(tensor.shape.dims or ())


def _digest(tensor: Tensor) -> bytes:
    found = hashlib.sha256(repr(_kind(tensor)).encode())
    if not tensor.dtype.itemsize:
        found.update(repr(tensor.numpy().tolist()).encode())
        return found.digest()
    for part in tensor.parts():
        for chunk in part.chunks() if isinstance(part, Span) else (part,):
            found.update(chunk)
    return found.digest()


def _likeness(one: str, other: str) -> float:
    """How much two names share: words and numbers, from the end."""
    left, right = _words(one), _words(other)
    shared = sum(1.0 for word in set(left) & set(right))
    tail = next((at for at, (a, b) in enumerate(zip(reversed(left), reversed(right), strict=False)) if a != b), 0)
    return shared + 0.5 * tail - 0.01 * abs(len(left) - len(right))


def _words(name: str) -> list[str]:
    text = "".join(letter if letter.isalnum() else " " for letter in name)
    return text.replace(" ATTRIBUTES VARIABLE VALUE", "").split()


_TURNS: Mapping[int, Sequence[tuple[int, ...]]] = {2: ((1, 0),), 3: ((2, 1, 0),), 4: ((3, 2, 0, 1), (2, 3, 1, 0))}
"""How frameworks differ in the layout of products and convolutions."""


@record
class Draft:
    """A map that was drafted.

    Attributes:
        text: The map, as TOML.
        pairs: What it pairs.
        left: The weights of the first file that nothing fits.
        missing: The weights of the second file that nothing fits.
    """

    text: str
    pairs: tuple[Pair, ...]
    left: tuple[str, ...]
    missing: tuple[str, ...]


def draft_map(first: Weights, second: Weights) -> Draft:
    """Drafts a map from the names of one file to those of another file of the same model.

    Weights are paired by value, as they lie, turned, and without axes of size one; then by name; then, where the values
    differ (another step of training), by shape and by likeness of names, which the map says in a comment. Reads all
    values of both.
    """
    left, missing = dict(first), dict(second)
    pairs: list[Pair] = []

    def take(found: Iterable[Pair]) -> None:
        for pair in found:
            if pair.first in left and pair.second in missing:
                del left[pair.first], missing[pair.second]
                pairs.append(pair)

    take(pair_by_value(left, missing))
    take(_turned_pairs(left, missing))
    take(_squeezed_pairs(left, missing))
    take(Pair(key, key, (), "name") for key in list(left) if key in missing and left[key].shape == missing[key].shape)
    take(_by_shape(left, missing))
    order = {key: number for number, key in enumerate(first)}
    pairs.sort(key=lambda pair: order[pair.first])
    return Draft(_toml(first, second, pairs, left, missing), tuple(pairs), tuple(left), tuple(missing))


def _turned_pairs(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Iterator[Pair]:
    for rank, turns in _TURNS.items():
        for axes in turns:
            turned = {key: TransposedTensor(tensor, axes) for key, tensor in first.items() if tensor.shape.rank == rank}
            others = {key: tensor for key, tensor in second.items() if tensor.shape.rank == rank}
            yield from (Pair(pair.first, pair.second, axes) for pair in pair_by_value(turned, others))


def _squeezed_pairs(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Iterator[Pair]:
    """Pairs whose shapes differ in axes of size one, such as the biases of GPT-2, which are rows in TensorFlow."""
    sides = [
        {key: ReshapedTensor(one, Shape(_plain_dims(one))) for key, one in side.items()} for side in (first, second)
    ]
    for pair in pair_by_value(*sides):
        shapes = tuple(first[pair.first].shape.dims or ()), tuple(second[pair.second].shape.dims or ())
        yield Pair(pair.first, pair.second, shapes=shapes)


def _plain_dims(tensor: Tensor) -> tuple[int, ...]:
    return tuple(size for size in tensor.shape.dims or () if size != 1)


def _by_shape(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> Iterator[Pair]:
    """Pairs of one shape, in the order of likeness; where a shape fits only turned, that is said."""
    found: list[tuple[float, str, str, tuple[int, ...]]] = []
    for key, tensor in first.items():
        dims = tuple(tensor.shape.dims or ())
        for axes in ((), *_TURNS.get(len(dims), ())):
            turned = tuple(dims[axis] for axis in axes) if axes else dims
            fitting = [other for other, one in second.items() if tuple(one.shape.dims or ()) == turned]
            found += [(_likeness(key, other), key, other, axes) for other in fitting]
            if fitting:
                break
    for _, key, other, axes in sorted(found, key=lambda item: -item[0]):
        yield Pair(key, other, axes, "shape")


def _toml(
    first: Weights, second: Weights, pairs: Sequence[Pair], left: Mapping[str, Tensor], missing: Mapping[str, Tensor]
) -> str:
    guesses = sum(pair.how == "shape" for pair in pairs)
    lines = [
        f"# A draft: {len(pairs)} of {len(first)} weights are paired, {guesses} of them by shape and name alone.",
        "# Correct it, then map the weights of the first file with it.",
        'name = "draft"',
    ]  # fmt: skip
    for pair in pairs:
        lines.append("")
        if pair.how == "shape":
            lines.append("# a guess, by shape and name: the values differ")
        lines += ["[[rules]]", f"from = {_quoted(pair.first)}", f"to = {_quoted(pair.second)}"]
        if pair.axes:
            is_plain = pair.axes == tuple(reversed(range(len(pair.axes))))
            lines.append("transpose = true" if is_plain else f"transpose = {list(pair.axes)}")
        if pair.shapes is not None:
            lines.append(f"reshape = {[list(sizes) for sizes in pair.shapes]}")
    for title, names in (("left over in the first file", left), ("without a source", missing)):
        if names:
            lines += ["", f"# {title}: {shortened(list(names), 2000)}".replace("\n", " ")]
    return "\n".join(lines) + "\n"


def _quoted(name: str) -> str:
    """A name as TOML has it; braces would be placeholders, and no weight has any."""
    return json.dumps(name, ensure_ascii=False)
