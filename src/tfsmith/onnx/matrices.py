"""Products of matrices, sums of products by letters, softmax, biases."""

from __future__ import annotations

import onnx_ir

from tfsmith.onnx.builder import FLOAT32, Builder, Refusal, Val
from tfsmith.onnx.elementwise import FLOATS, NUMBERS, widened
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops.sizes import Known

_ATTENTION = 23
"""The first version of the ops that has Attention."""
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
    attended = _attention(b, x, y) if b.opset >= _ATTENTION and kind == FLOAT32 else None
    if attended is not None:
        return attended
    return b.cast(b.cast(b.op("MatMul", b.cast(x, kind), b.cast(y, kind)), kind), n.dtype)


def _attention(b: Builder, weights: Val, values: Val) -> Val | None:
    """A product of a softmax with values as Attention: softmax(scale * q k^T + mask) v; None if it is another.

    What it was made of stays in the graph only where somebody else uses it.
    """
    softmax = _maker(weights, "Softmax")
    if softmax is None or weights.rank != 4 or values.rank != 4:
        return None
    scores, mask = softmax.inputs[0], None
    masked = _maker_of(scores, "Add")
    while masked is not None and (number := b.const_of(masked.inputs[1])) is not None and number.size == 1:
        scores = masked.inputs[0]  # the same for all, which softmax takes out again
        masked = _maker_of(scores, "Add")
    if masked is not None:
        scores, mask = masked.inputs
        if _scores(b, scores) is None:
            scores, mask = mask, scores
    found = _scores(b, scores)
    if found is None:
        return None
    scale, query, key = found
    if not _same_heads(query, key, values):
        return None
    more = None if mask is None else b.val_of(mask)
    if more is not None:
        if more.dims is None or query.dims is None or key.dims is None or not 2 <= len(more.dims) <= 4:
            return None
        if more.dims[-1] != key.dims[2] or more.dims[-2] != query.dims[2]:  # runtimes broadcast batches and heads only
            whole = b.concat([b.const([1] * (len(more.dims) - 2)), b.size(query, 2), b.size(key, 2)], 0)
            more = b.op("Expand", more, whole, dims=(*more.dims[:-2], query.dims[2], key.dims[2]))
    known = Known((*(query.dims or ())[:3], (values.dims or ())[3]))
    return b.op("Attention", query, key, values, more, scale=scale, known=known)


def _same_heads(query: Val, key: Val, values: Val) -> bool:
    """Whether batches and heads are the same, and not repeated by being 1."""
    if query.dims is None or key.dims is None or values.dims is None or query.rank != 4 or key.rank != 4:
        return False
    return query.dims[:2] == key.dims[:2] == values.dims[:2] and None not in query.dims[:2]


def _scores(b: Builder, value: onnx_ir.Value | None) -> tuple[float, Val, Val] | None:
    """Scores of attention: the number that they are multiplied with, queries and keys, heads before places."""
    found = _product(b, value)
    if found is not None:
        return 1.0, *found
    for op, by in (("Mul", 1), ("Div", -1)):
        node = _maker_of(value, op)
        number = None if node is None else b.const_of(node.inputs[1])
        found = None if node is None else _product(b, node.inputs[0])
        if found is not None and number is not None and number.size == 1 and float(number.reshape(-1)[0]) > 0:
            return float(number.reshape(-1)[0]) ** by, *found
    return None


def _product(b: Builder, value: onnx_ir.Value | None) -> tuple[Val, Val] | None:
    """Queries and keys whose product a value is, by MatMul or by letters."""
    node = _maker_of(value, "MatMul")
    if node is not None:
        turned = _maker_of(node.inputs[1], "Transpose")
        if turned is None or list(turned.attributes["perm"].as_ints()) != [0, 1, 3, 2]:
            return None
        query, key = node.inputs[0], turned.inputs[0]
        return None if query is None or key is None else (b.val_of(query), b.val_of(key))
    node = _maker_of(value, "Einsum")
    equation = "" if node is None else node.attributes["equation"].as_string()
    left, _, right = equation.partition("->")
    names = left.split(",")
    if node is None or len(names) != 2 or [len(one) for one in (*names, right)] != [4, 4, 4]:
        return None
    batch, heads, rows, columns = tuple(right)
    depth = (set(left) - set(right) - {","}) or {""}
    found: dict[str, Val] = {}
    for letters, operand in zip(names, node.inputs, strict=True):
        for place in (rows, columns):
            wanted = (batch, heads, place, *depth)
            if operand is not None and sorted(letters) == sorted(wanted):
                found[place] = b.transpose(b.val_of(operand), [letters.index(letter) for letter in wanted])
    return (found[rows], found[columns]) if len(found) == 2 else None


def _attended_by_letters(n: NodeContext, equation: str) -> Val | None:
    """A sum of products that is the last of attention; None if it is another."""
    left, _, right = equation.partition("->")
    names = left.split(",")
    if len(names) != 2 or [len(one) for one in (*names, right)] != [4, 4, 4]:
        return None
    at = next((at for at, one in enumerate(n.inputs) if _maker(one, "Softmax") is not None), None)
    if at is None:
        return None
    batch, heads, rows, columns = tuple(names[at])
    depth = set(right) - set(names[at])
    if len(depth) != 1 or sorted(right) != sorted((batch, heads, rows, *depth)):
        return None
    order = (batch, heads, columns, *depth)
    if sorted(names[1 - at]) != sorted(order):
        return None
    values = n.b.transpose(n.inputs[1 - at], [names[1 - at].index(letter) for letter in order])
    found = _attention(n.b, n.inputs[at], values)
    given = (batch, heads, rows, *depth)
    return None if found is None else n.b.transpose(found, [given.index(letter) for letter in right])


def _maker(val: Val, op: str) -> onnx_ir.Node | None:
    value = val.main_value()
    return None if value is None else _maker_of(value, op)


def _maker_of(value: onnx_ir.Value | None, op: str) -> onnx_ir.Node | None:
    """The node that computes a value, behind what hands it on, if it is of this op."""
    node = None if value is None else value.producer()
    while node is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        node = node.inputs[0].producer()
    return node if node is not None and not node.domain and node.op_type == op else None


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
    attended = _attended_by_letters(n, equation) if b.opset >= _ATTENTION and kind == FLOAT32 else None
    if attended is not None:
        return attended
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
