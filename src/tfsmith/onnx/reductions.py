"""Reductions: sums, extremes, arguments of extremes, running sums, the largest k."""

from __future__ import annotations

from types import MappingProxyType

from tfsmith.ir.types import DType
from tfsmith.onnx.builder import BOOL, FLOAT32, INT32, INT64, Builder, Refusal, Val
from tfsmith.onnx.elementwise import FLOATS, NUMBERS, widened
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.ops.sizes import Known

__all__ = ["axis_of", "reduced"]

_KINDS = MappingProxyType(
    {
        "Sum": ("ReduceSum", NUMBERS),
        "Mean": ("ReduceMean", FLOATS),
        "Max": ("ReduceMax", NUMBERS),
        "Min": ("ReduceMin", NUMBERS),
        "Prod": ("ReduceProd", ("float32", "int32", "int64")),
        "EuclideanNorm": ("ReduceL2", ("float32",)),
    }
)


_OF_NOTHING = ("ReduceMean", "ReduceMax", "ReduceMin")


def axis_of(axis: int, rank: int) -> int:
    """An axis that may be counted from behind.

    Raises:
        Refusal: There is no such axis.
    """
    if not -rank <= axis < rank:
        raise Refusal(f"it has no axis {axis}")
    return axis % rank if rank else 0


@lowering(" ".join(_KINDS))
def _reduce(n: NodeContext) -> Val:
    op, kinds = _KINDS[n.op]
    if n.op == "EuclideanNorm":
        n.allow("float32")  # of halves, TensorFlow's squares overflow before they are added
    kind = widened(n.x.dtype, kinds, wraps=n.op in ("Sum", "Prod"))
    if n.op in ("Max", "Min") and n.x.dtype.name == "uint32":
        raise Refusal("onnxruntime has no kernel for uint32")
    if n.op == "Sum" and kind.name == "int32":  # onnxruntime stops at the largest int32, where TensorFlow goes round
        kind = INT64
    elif n.op == "Sum" and kind.name == "int64":
        return _whole_sum(n)
    if n.op == "Prod" and kind.name.startswith("int"):
        return _whole_product(n, kind)
    found = reduced(n, op, kind)
    if n.op in ("Max", "Min") and kind.name in FLOATS:
        return _with_nan(n, found, kind)
    return found


def _with_nan(n: NodeContext, found: Val, kind: DType) -> Val:
    """An extreme, or NaN where there was one, which onnxruntime passes over now and then."""
    b, x = n.b, n.x
    is_nan = b.op("IsNaN", b.cast(x, kind), dtype=BOOL)
    is_nan.known = Known(x.dims)
    n.inputs[0] = b.cast(is_nan, INT32)
    n.inputs[0].known = Known(x.dims)
    kept, n.dtypes[0] = n.dtypes[0], INT32
    count = reduced(n, "ReduceMax", INT32)
    n.inputs[0], n.dtypes[0] = x, kept
    is_there = b.op("Greater", count, b.const(0, INT32), dtype=BOOL)
    return b.cast(b.op("Where", is_there, b.const(float("nan"), kind), b.cast(found, kind), dtype=kind), n.dtype)


def _whole_sum(n: NodeContext) -> Val:
    """A sum of int64, of the high and the low halves: onnxruntime sums them as float64, which holds 53 bits."""
    b, x = n.b, n.x
    wide, half = b.cast(x, INT64), b.const(2**32)
    low = b.op("Mod", wide, half, known=Known(x.dims))
    high = b.op("Div", b.op("Sub", wide, low), half, known=Known(x.dims))
    sums: list[Val] = []
    kept = n.dtypes[0]
    n.dtypes[0] = INT64
    for part in (high, low):
        n.inputs[0] = part
        sums.append(reduced(n, "ReduceSum", INT64))
    n.inputs[0], n.dtypes[0] = x, kept
    return b.cast(b.op("Add", b.op("Mul", sums[0], half), sums[1]), n.dtype)


def _whole_product(n: NodeContext, kind: DType) -> Val:
    """A product of whole numbers, row by row: onnxruntime's own stops at the largest, where TensorFlow goes round."""
    b, x = n.b, n.x
    axes = sorted({axis_of(axis, x.rank) for axis in n.y.integers("its axes")})
    if len(axes) < len(n.y.integers("its axes")):
        raise Refusal("an axis stands twice")
    if not axes:
        return b.op("Identity", x)
    others = [at for at in range(x.rank) if at not in axes]
    moved = b.transpose(b.cast(x, kind), [*axes, *others])
    sizes = [b.size(x, at) for at in others]
    dims = tuple((x.dims or ())[at] for at in others)
    rows = moved
    if len(axes) > 1:
        rows = b.op("Reshape", moved, b.concat([b.const([-1]), *sizes], 0), dims=(None, *dims))
    whole = b.concat(sizes, 0) if sizes else b.const([])
    start = b.op("Expand", b.const(1, kind), whole, dims=dims)
    found = b.running(n.driver, start, rows, lambda total, row: b.op("Mul", total, row, dims=dims), n.node.name)[0]
    if n.attr("keep_dims"):
        found = b.unsqueeze(found, axes)
    return b.cast(found, n.dtype)


def reduced(n: NodeContext, op: str, kind: DType) -> Val:
    """A reduction of the first input over the axes that the second has, computed in this type."""
    b, x = n.b, n.x
    keep = bool(n.attr("keep_dims"))
    if not n.y.is_constant:
        if op in _OF_NOTHING and any(size == 0 for size in x.dims or ()):
            raise Refusal("it reduces what has no elements, of which runtimes make different things")
        axes = b.int64(n.y)
        axes = b.reshape(axes, [-1]) if n.y.dims is None or len(n.y.dims) == 0 else axes
        axes = axes if n.y.dims in ((), (1,)) else _distinct(b, x, axes)
        found = b.op(op, b.cast(x, kind), axes, keepdims=int(keep), noop_with_empty_axes=1)
        return b.cast(found, n.dtype)
    rank = x.rank
    chosen = sorted(axis_of(axis, rank) for axis in n.y.integers("its axes"))
    if len(set(chosen)) < len(chosen):
        raise Refusal("an axis stands twice")
    if not chosen:
        return b.op("Abs" if op == "ReduceL2" else "Identity", x)
    if op in _OF_NOTHING and any((x.dims or ())[at] == 0 for at in chosen):
        raise Refusal("it reduces an axis without elements, of which runtimes make different things")
    if x.is_first and chosen == list(range(1, rank - 1)):  # over all places: the channels stay
        first = b.cast(b.first(x), kind)
        found = b.cast(b.reduce(op, first, range(2, rank), keep=keep), n.dtype)
        if not keep:
            return found
        dims = n.out.dims
        found.known = Known(None if dims is None else (dims[0], dims[-1], *dims[1:-1]))
        return b.last(found, n.out)
    return b.cast(b.reduce(op, b.cast(x, kind), chosen, keep=keep), n.dtype)


def _distinct(b: Builder, x: Val, axes: Val) -> Val:
    """Axes, none of which may stand twice: TensorFlow refuses that."""
    rank = b.op("Max", b.op("Size", b.shape(x), dtype=INT64, dims=()), b.const(1))
    places = b.op("Mod", axes, rank, known=Known((None,)))
    pairs = b.op("Equal", b.unsqueeze(places, [0]), b.unsqueeze(places, [1]), dtype=BOOL, dims=(None, None))
    count = b.op("ReduceSum", b.cast(pairs, INT64), keepdims=0)
    return b.asserted(axes, b.op("Equal", count, b.op("Size", axes, dtype=INT64), dtype=BOOL))


@lowering("All Any")
def _truth(n: NodeContext) -> Val:
    """By counting, which is right also where there is nothing to count."""
    b = n.b
    known = n.x.known
    x = n.x if n.op == "Any" else b.op("Not", n.x)
    n.inputs[0] = b.cast(x, INT32)
    n.inputs[0].known = Known(known.dims)
    n.dtypes[0] = INT32
    count = reduced(n, "ReduceSum", INT32)
    zero = b.const(0, INT32)
    found = b.op("Greater", count, zero, dtype=BOOL)
    return found if n.op == "Any" else b.op("Not", found)


@lowering("ArgMax ArgMin")
def _arg(n: NodeContext) -> Val:
    b, x = n.b, n.x
    axis = axis_of(n.y.integer("its axis"), x.rank)
    kind = widened(x.dtype, ("float32", "float64", "int32"))
    x = b.cast(x, kind)
    if kind.name != "int32":  # what is no number is never chosen
        worst = b.const(float("-inf" if n.op == "ArgMax" else "inf"), kind)
        x = b.op("Where", b.op("IsNaN", x, dtype=BOOL), worst, x, dtype=kind)
    found = b.op(n.op, x, dtype=INT64, axis=axis, keepdims=0)
    return b.narrow(found, n.dtype)


@lowering("Cumsum")
def _cumsum(n: NodeContext) -> Val:
    b = n.b
    kind = widened(n.x.dtype, NUMBERS, wraps=True)
    if n.y.dims != ():
        raise Refusal("its axis is not known to be one number")
    axis = b.int64(n.y)
    found = b.op("CumSum", b.cast(n.x, kind), axis, exclusive=int(n.attr("exclusive")), reverse=int(n.attr("reverse")))
    return b.cast(found, n.dtype)


@lowering("Cumprod CumulativeLogsumexp")
def _running(n: NodeContext) -> Val:
    """Step by step, as ONNX has a running sum only."""
    b, x = n.b, n.x
    axis = axis_of(n.y.integer("its axis"), x.rank)
    if n.y.dims != ():
        raise Refusal("its axis is no scalar")
    is_product = n.op == "Cumprod"
    kind = widened(x.dtype, NUMBERS if is_product else FLOATS, wraps=True)
    order = [axis, *(at for at in range(x.rank) if at != axis)]
    rows = b.transpose(b.cast(x, kind), order)
    dims = tuple((x.dims or ())[at] for at in order)
    if n.attr("reverse"):
        rows = b.slice(rows, [-1], [-(2**63)], [0], [-1])
        rows.known = Known(dims)
    sizes = [b.size(x, at) for at in order[1:]]
    whole = b.concat(sizes, 0) if sizes else b.const([])
    start = b.op("Expand", b.const(1 if is_product else float("-inf"), kind), whole, dims=dims[1:])

    def step(total: Val, row: Val) -> Val:
        if is_product:
            return b.op("Mul", total, row, dims=dims[1:])
        return _log_sum(b, total, row, Known(dims[1:]))

    found = b.running(n.driver, start, rows, step, n.node.name, is_before=bool(n.attr("exclusive")))[1]
    found.known = Known(dims)
    if n.attr("reverse"):
        found = b.slice(found, [-1], [-(2**63)], [0], [-1])
        found.known = Known(dims)
    back = [order.index(at) for at in range(x.rank)]
    return b.cast(b.transpose(found, back), n.dtype)


def _log_sum(b: Builder, one: Val, other: Val, known: Known) -> Val:
    """log(exp(x) + exp(y)), by the larger of them; of equal infinities, that infinity."""
    is_more = b.op("Greater", one, other, dtype=BOOL)
    most = b.op("Where", is_more, one, other, dtype=one.dtype)
    least = b.op("Where", is_more, other, one, dtype=one.dtype)
    more = b.op("Log", b.op("Add", b.op("Exp", b.op("Sub", least, most)), b.const(1, one.dtype)))
    same = b.op("And", b.op("IsInf", most, dtype=BOOL), b.op("Equal", most, least, dtype=BOOL))
    return b.op("Where", same, most, b.op("Add", most, more), dtype=one.dtype, known=known)


@lowering("TopKV2 TopK")
def _top_k(n: NodeContext) -> list[Val]:
    b, x = n.b, n.x
    kind = widened(x.dtype, NUMBERS)
    k = b.const([int(n.attr("k"))]) if n.op == "TopK" else b.reshape(b.int64(n.y), [1])
    values, indices = b.ops(
        "TopK", b.cast(x, kind), k, dtypes=(kind, INT64), axis=-1, largest=1, sorted=int(n.attr("sorted"))
    )
    return [b.cast(values, x.dtype), b.narrow(indices, n.dtypes[1] or INT32)]


@lowering("L2Loss")
def _l2_loss(n: NodeContext) -> Val:
    b = n.b
    n.allow("float32")
    total = b.op("ReduceSumSquare", b.reshape(n.x, [-1]), keepdims=0)
    return b.op("Mul", total, b.const(0.5, FLOAT32))
