"""Computes readings of the raised graph with numpy, from the values of the tensors that they are made of."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tfsmith.patterns.algebra import Algebra, Arg, Atom, Label, Reading, Value

__all__ = ["compute", "leaves"]

Array = NDArray[Any]
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp": np.exp,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0),
    "log": np.log,
    "abs": np.abs,
}
_PAIRS: dict[str, Callable[[Array, Array], Array]] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "greater": np.greater,
    "less": np.less,
    "equal": np.equal,
    "divnonan": lambda x, y: np.divide(x, y, out=np.zeros(np.broadcast_shapes(x.shape, y.shape)), where=y != 0),
}


def leaves(algebra: Algebra, value: Value) -> set[str]:
    """The names of the tensors that a value is made of."""
    found: set[str] = set()
    for product, _ in value:
        for atom, _ in product:
            head = algebra.head(atom)
            if head[0] == "tensor":
                found.add(str(head[1]))
            for number in _classes(head):
                sizes = algebra.class_sizes(number)
                found |= leaves(algebra, algebra.value_of(number, tuple((at,) for at in range(len(sizes)))))
    return found


def _classes(head: tuple[Any, ...]) -> tuple[int, ...]:
    if head[0] in ("tensor", "size"):
        return ()
    if head[0] in ("select", *_PAIRS):
        return tuple(head[1::2])
    return (head[1],)


def compute(algebra: Algebra, reading: Reading, tensors: Mapping[str, Array], named: Mapping[str, int]) -> Array:
    """The tensor that a reading says, in the layout of its axes; `named` has the sizes that have names."""
    sizes = _Sizes(algebra, named)
    labels = [label for arg in reading.axes for label in arg]
    flat = np.broadcast_to(_value(algebra, reading.value, labels, sizes, tensors), [sizes[label] for label in labels])
    return flat.reshape([math.prod(sizes[label] for label in arg) for arg in reading.axes])


class _Sizes:
    """The sizes of labels as numbers."""

    def __init__(self, algebra: Algebra, named: Mapping[str, int]) -> None:
        self._algebra = algebra
        self._named = named

    def __getitem__(self, label: Label) -> int:
        size = self._algebra.size(label)
        assert size is not None
        if isinstance(size, int):
            return size
        return math.prod(int(word) if word.isdecimal() else self._named[word] for word in size.split("*"))


def _value(algebra: Algebra, value: Value, labels: list[Label], sizes: _Sizes, tensors: Mapping[str, Array]) -> Array:
    total: Array = np.zeros([1] * len(labels))
    for product, number in value:
        term: Array = np.asarray(number, np.float64)
        for atom, power in product:
            term = term * _atom(algebra, atom, labels, sizes, tensors) ** power
        total = total + term
    return total


def _atom(algebra: Algebra, atom: Atom, labels: list[Label], sizes: _Sizes, tensors: Mapping[str, Array]) -> Array:
    head, axes = algebra.head(atom), atom[1]
    if head[0] == "tensor":
        own = [label for arg in axes for label in arg]
        array = np.asarray(tensors[str(head[1])], np.float64).reshape([sizes[label] for label in own])
        return _spread(array, own, labels)
    if head[0] in _PAIRS or head[0] == "select":
        parts, at = [], 0
        for number, count in zip(head[1::2], head[2::2], strict=True):
            assert isinstance(number, int)
            assert isinstance(count, int)
            part = algebra.value_of(number, axes[at : at + count])
            parts.append(_value(algebra, part, labels, sizes, tensors))
            at += count
        if head[0] == "select":
            return np.where(parts[0] != 0, parts[1], parts[2])
        return np.asarray(_PAIRS[str(head[0])](*parts), np.float64)
    number = head[1]
    assert isinstance(number, int)
    if head[0] in ("mean", "total", "contract", "variance", "max", "min"):
        return _reduced(algebra, head, axes, labels, sizes, tensors)
    inside = _value(algebra, algebra.value_of(number, axes), labels, sizes, tensors)
    bound = (
        tuple(labels.index(label) for at in head[2] for label in axes[at])
        if len(head) > 2 and isinstance(head[2], tuple)
        else ()
    )
    if head[0] == "sum":
        return inside
    if head[0] == "centered":
        return np.asarray(inside - inside.mean(axis=bound, keepdims=True))
    if head[0] == "norm":
        assert isinstance(head[3], float)
        centered = inside - inside.mean(axis=bound, keepdims=True)
        return np.asarray(centered / np.sqrt((centered**2).mean(axis=bound, keepdims=True) + head[3]))
    if head[0] == "softmax":
        powers = np.exp(inside - inside.max(axis=bound, keepdims=True))
        return np.asarray(powers / powers.sum(axis=bound, keepdims=True))
    if head[0] == "gelu":
        if head[2] == "erf":
            return np.asarray(inside * 0.5 * (1 + np.vectorize(math.erf)(inside / math.sqrt(2))))
        return np.asarray(inside * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (inside + 0.044715 * inside**3))))
    if head[0] == "erf":
        return np.asarray(np.vectorize(math.erf)(inside))
    return np.asarray(_FUNCTIONS[str(head[0])](inside), np.float64)


def _reduced(
    algebra: Algebra,
    head: tuple[Any, ...],
    axes: tuple[Arg, ...],
    labels: list[Label],
    sizes: _Sizes,
    tensors: Mapping[str, Array],
) -> Array:
    count = len(algebra.class_sizes(head[1]))
    free = iter(axes)
    own: list[Arg] = []
    for at in range(count):
        own.append((algebra.label(algebra.class_sizes(head[1])[at]),) if at in head[2] else next(free))
    value = algebra.value_of(head[1], tuple(own))
    more = [label for at in head[2] for label in own[at]]
    array = _value(algebra, value, [*labels, *more], sizes, tensors)
    array = np.broadcast_to(array, [*array.shape[: len(labels)], *(sizes[label] for label in more)])
    over = tuple(range(len(labels), len(labels) + len(more)))
    reduce: dict[str, Callable[..., Any]] = {
        "mean": np.mean,
        "total": np.sum,
        "contract": np.sum,
        "variance": np.var,
        "max": np.max,
        "min": np.min,
    }
    return np.asarray(reduce[head[0]](array, axis=over))


def _spread(array: Array, own: list[Label], labels: list[Label]) -> Array:
    order = sorted(range(len(own)), key=lambda at: labels.index(own[at]))
    shape = [array.shape[own.index(label)] if label in own else 1 for label in labels]
    return np.transpose(array, order).reshape(shape)
