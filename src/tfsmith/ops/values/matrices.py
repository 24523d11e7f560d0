"""Values of products of matrices and of einsum. They go to BLAS wherever the type has it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import check, rounded, wide

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []


@value("MatMul")
def _mat_mul(a: NDArray[Any], b: NDArray[Any], *, transpose_a: bool, transpose_b: bool) -> Any:
    for one in (a, b):
        check(one.ndim == 2, f"a matrix is needed, not shape {list(one.shape)}")
    return _product(a.T if transpose_a else a, b.T if transpose_b else b)


@value("BatchMatMul")
def _batch_mat_mul(x: NDArray[Any], y: NDArray[Any], *, adj_x: bool, adj_y: bool) -> Any:
    check(x.shape[:-2] == y.shape[:-2], f"the batches of {list(x.shape)} and {list(y.shape)} differ")
    return _batch_mat_mul_v2(x, y, adj_x=adj_x, adj_y=adj_y)


@value("BatchMatMulV2")
def _batch_mat_mul_v2(x: NDArray[Any], y: NDArray[Any], *, adj_x: bool, adj_y: bool) -> Any:
    for one in (x, y):
        check(one.ndim >= 2, f"a matrix is needed, not shape {list(one.shape)}")
    return _product(_adjoint(x) if adj_x else x, _adjoint(y) if adj_y else y)


@value("BatchMatMulV3")
def _batch_mat_mul_v3(x: NDArray[Any], y: NDArray[Any], *, adj_x: bool, adj_y: bool, Tout: DType) -> Any:
    kind = Tout.numpy()
    if x.dtype == y.dtype == kind:
        return _batch_mat_mul_v2(x, y, adj_x=adj_x, adj_y=adj_y)
    return _batch_mat_mul_v2(_in_kind(x, kind), _in_kind(y, kind), adj_x=adj_x, adj_y=adj_y).astype(kind, copy=False)


@value("SparseMatMul")
def _sparse_mat_mul(a: NDArray[Any], b: NDArray[Any], *, transpose_a: bool, transpose_b: bool) -> Any:
    left, right = wide(a), wide(b)
    return _mat_mul(left, right, transpose_a=transpose_a, transpose_b=transpose_b)


@value("Cross")
def _cross(a: NDArray[Any], b: NDArray[Any]) -> Any:
    check(a.shape == b.shape, f"shapes {list(a.shape)} and {list(b.shape)} differ")
    check(a.ndim > 0 and a.shape[-1] == 3, f"the last axis of shape {list(a.shape)} must have three elements")
    turned = [1, 2, 0]
    left, right = a[..., turned], b[..., turned]
    return (a * right - left * b)[..., turned]


@value("Einsum")
def _einsum(inputs: tuple[NDArray[Any], ...], *, equation: bytes) -> Any:
    """One or two operands. Labels that both have and the output has not become one product of matrices."""
    terms, result = _labels(equation.decode("ascii", "replace"), inputs)
    kind = inputs[0].dtype
    sizes: dict[Any, int] = {}
    for one, labels in zip(inputs, terms, strict=True):
        for label, size in zip(labels, one.shape, strict=True):
            known = sizes.setdefault(label, size)
            # the axes of an ellipsis broadcast
            fits = known == size or (isinstance(label, int) and 1 in (known, size))
            check(fits, f"{equation.decode('ascii', 'replace')} has label {label} of sizes {known} and {size}")
            sizes[label] = size if known == 1 else known
    kept = set(result)
    parts = []
    for number, (one, labels) in enumerate(zip(inputs, terms, strict=True)):
        others = {label for place, term in enumerate(terms) if place != number for label in term}
        parts.append(_reduced(wide(one), labels, kept | others))
    if len(parts) == 1:
        found, labels = parts[0]
    else:
        found, labels = _contracted(*parts[0], *parts[1], kept)
    return _arranged(found, labels, result, sizes).astype(kind, copy=False)


def _in_kind(x: NDArray[Any], kind: numpy.dtype[Any]) -> NDArray[Any]:
    return wide(x) if kind.itemsize == 2 else x.astype(kind)


def _adjoint(x: NDArray[Any]) -> Any:
    turned = x.swapaxes(-1, -2)
    return turned.conj() if x.dtype.kind == "c" else turned


def _product(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    check(a.shape[-1] == b.shape[-2], f"shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied")
    return rounded(numpy.matmul, a, b)


def _labels(equation: str, inputs: tuple[NDArray[Any], ...]) -> tuple[list[list[Any]], list[Any]]:
    """The labels of each operand and of the output: letters, and negative numbers for the axes of an ellipsis."""
    left, arrow, right = equation.partition("->")
    words = left.split(",")
    check(
        bool(arrow) and len(words) == len(inputs) <= 2, f"the equation {equation!r} does not fit {len(inputs)} inputs"
    )
    terms = []
    for word, one in zip(words, inputs, strict=True):
        named = len(word.replace("...", ""))
        check(
            named == one.ndim or (named < one.ndim and "..." in word),
            f"{word!r} in the equation {equation!r} does not fit shape {list(one.shape)}",
        )
        terms.append(_spelled(word, one.ndim - named, equation))
    free = [label for term in terms for label in term if isinstance(label, int)]
    result = _spelled(right, -min(free, default=0), equation)
    known = {label for term in terms for label in term}
    check(set(result) <= known, f"the output of the equation {equation!r} has a label that no input has")
    check(not free or "..." in right, f"the output of the equation {equation!r} has no ellipsis")
    return terms, result


def _spelled(word: str, count: int, equation: str) -> list[Any]:
    """The labels of a term whose ellipsis has this many axes."""
    before, dots, after = word.partition("...")
    check((before + after).isalpha() or not before + after, f"the equation {equation!r} is not one of letters")
    middle = range(-count, 0) if dots else ()
    return [*before, *middle, *after]


def _reduced(x: NDArray[Any], labels: list[Any], wanted: set[Any]) -> tuple[NDArray[Any], list[Any]]:
    """An operand with each label once (the diagonal of those it has twice), without those that nobody wants."""
    for label in [one for number, one in enumerate(labels) if one in labels[:number]]:
        first, second = [place for place, one in enumerate(labels) if one == label][:2]
        x = numpy.diagonal(x, 0, first, second)
        labels = [one for place, one in enumerate(labels) if place not in (first, second)] + [label]
    gone = tuple(place for place, label in enumerate(labels) if label not in wanted)
    if gone:
        x = x.sum(axis=gone, dtype=x.dtype)
    return x, [label for label in labels if label in wanted]


def _contracted(
    x: NDArray[Any], left: list[Any], y: NDArray[Any], right: list[Any], kept: set[Any]
) -> tuple[NDArray[Any], list[Any]]:
    """The product of two operands as one product of matrices for each element of the batch that they share."""
    both = [label for label in left if label in right]
    batch = [label for label in both if label in kept]
    inner = [label for label in both if label not in kept]
    rows = [label for label in left if label not in right]
    columns = [label for label in right if label not in left]
    a = x.transpose([left.index(label) for label in (*batch, *rows, *inner)])
    b = y.transpose([right.index(label) for label in (*batch, *inner, *columns)])
    height, depth = a.shape[len(batch) : len(batch) + len(rows)], a.shape[len(batch) + len(rows) :]
    width = b.shape[len(batch) + len(inner) :]
    many, deep, wide_ = (int(numpy.prod(sizes, dtype=numpy.int64)) for sizes in (height, depth, width))
    a = a.reshape((*a.shape[: len(batch)], many, deep))
    b = b.reshape((*b.shape[: len(batch)], deep, wide_))
    product = numpy.matmul(a, b) if inner else a * b
    return product.reshape((*product.shape[: len(batch)], *height, *width)), [*batch, *rows, *columns]


def _arranged(x: NDArray[Any], labels: list[Any], result: list[Any], sizes: dict[Any, int]) -> Any:
    """The axes in the order of the output; a label that it has twice becomes a diagonal."""
    once = list(dict.fromkeys(result))
    moved = x.transpose([labels.index(label) for label in once])
    if len(once) == len(result):
        return moved
    found = numpy.zeros([sizes[label] for label in result], x.dtype)
    grid = numpy.ix_(*(numpy.arange(sizes[label]) for label in once))
    found[tuple(grid[once.index(label)] for label in result)] = moved
    return found
