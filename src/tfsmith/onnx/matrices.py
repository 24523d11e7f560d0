"""Products of matrices, sums of products by letters, softmax, biases."""

from __future__ import annotations

from tfsmith.onnx.builder import Refusal, Val
from tfsmith.onnx.elementwise import FLOATS, NUMBERS, widened
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops.sizes import Known

_PRODUCTS = ("float32", "float64", "int32", "int64", "uint32", "uint64")


def _turned(n: NodeContext, x: Val) -> Val:
    """The tensor with its last two axes exchanged."""
    rank = x.rank
    return n.b.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


@lowering("MatMul BatchMatMul BatchMatMulV2 BatchMatMulV3")
def _matmul(n: NodeContext) -> Val:
    b, x, y = n.b, n.x, n.y
    if x.dtype != y.dtype:
        raise Refusal("its inputs have different types")
    names = ("transpose_a", "transpose_b") if n.op == "MatMul" else ("adj_x", "adj_y")
    if x.rank < 2 or y.rank < 2 or (n.op == "BatchMatMul" and x.rank != y.rank):
        raise Refusal("it takes matrices")
    if n.op == "BatchMatMul" and any(
        isinstance(one, int) and isinstance(other, int) and one != other
        for one, other in zip((x.dims or ())[:-2], (y.dims or ())[:-2], strict=True)
    ):
        raise Refusal("its batches differ")
    x = _turned(n, x) if n.attr(names[0]) else x
    y = _turned(n, y) if n.attr(names[1]) else y
    kind = widened(x.dtype, _PRODUCTS)
    return b.cast(b.cast(b.op("MatMul", b.cast(x, kind), b.cast(y, kind)), kind), n.dtype)


@lowering("Einsum")
def _einsum(n: NodeContext) -> Val:
    b = n.b
    equation = n.text("equation").replace(" ", "")
    kind = widened(n.x.dtype, NUMBERS)
    left, arrow, right = equation.partition("->")
    if not arrow or " " in n.text("equation"):
        raise Refusal("its equation does not say what it gives")
    sizes: dict[str, object] = {}
    for one, names in zip(n.inputs, left.split(","), strict=True):
        letters = names.replace("...", "")
        if len(letters) > one.rank or (letters == names and len(letters) != one.rank):
            raise Refusal(f"{equation!r} does not fit the ranks of its inputs")
        for letter, size in zip(letters, (one.dims or ())[one.rank - len(letters) :], strict=True):
            if isinstance(sizes.get(letter, size), int) and isinstance(size, int) and sizes.get(letter, size) != size:
                raise Refusal(f"the sizes of {letter!r} differ")
            sizes.setdefault(letter, size)
    for names in (*left.split(","), right):
        plain = names.replace("...", "")
        if len(set(plain)) != len(plain):
            raise Refusal(f"a letter stands twice in {equation!r}")
    if "..." in equation:
        batches = [
            None if one.dims is None else one.dims[: len(one.dims) - len(names.replace("...", ""))]
            for one, names in zip(n.inputs, left.split(","), strict=True)
            if "..." in names
        ]
        if not all(names.startswith("...") for names in (*left.split(","), right) if "..." in names):
            raise Refusal(f"the open axes of {equation!r} do not come first")
        if any(one is None or one != batches[0] for one in batches):
            raise Refusal(f"the open axes of {equation!r} are not known to be the same")
    return b.cast(b.op("Einsum", *(b.cast(one, kind) for one in n.inputs), equation=equation), n.dtype)


@lowering("BiasAdd BiasAddV1")
def _bias(n: NodeContext) -> Val:
    b, x, bias = n.b, n.x, n.y
    kind = widened(x.dtype, NUMBERS, wraps=True)
    layout = n.text("data_format") or "NHWC"
    rank = x.rank
    if bias.rank != 1:
        raise Refusal("its bias is no vector")
    channels = (x.dims or ())[1 if layout == "NCHW" and rank > 2 else -1]
    if isinstance(channels, int) and (bias.dims or (channels,))[0] not in (channels, None):
        raise Refusal("its bias does not fit its channels")
    if layout == "NCHW" and rank > 2:
        wide = b.unsqueeze(bias, [0, *range(2, rank)])
    elif x.is_first:
        wide = b.unsqueeze(bias, [0, *range(2, rank)])
        found = b.cast(b.op("Add", b.cast(b.first(x), kind), b.cast(wide, kind)), n.dtype)
        dims = n.out.dims or (None,) * rank
        found.known = Known((dims[0], dims[-1], *dims[1:-1]))
        return b.last(found, n.out)
    else:
        wide = bias
    return b.cast(b.op("Add", b.cast(x, kind), b.cast(wide, kind)), n.dtype)


@lowering("Softmax LogSoftmax")
def _softmax(n: NodeContext) -> Val:
    b = n.b
    kind = widened(n.x.dtype, FLOATS)
    return b.cast(b.op(n.op, b.cast(n.x, kind), axis=-1), n.dtype)


@lowering("Cross")
def _cross(n: NodeContext) -> Val:
    b = n.b
    if n.x.dims is None or n.x.dims != n.y.dims:
        raise Refusal("its shapes are not known to be the same")
    kind = widened(n.x.dtype, NUMBERS)
    x, y = b.cast(n.x, kind), b.cast(n.y, kind)
    one, two = b.const([1, 2, 0]), b.const([2, 0, 1])

    def turned(value: Val, order: Val) -> Val:
        return b.op("Gather", value, order, axis=-1)

    left = b.op("Mul", turned(x, one), turned(y, two))
    return b.cast(b.op("Sub", left, b.op("Mul", turned(x, two), turned(y, one))), n.dtype)


__all__: list[str] = []
