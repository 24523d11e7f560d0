"""Diagonals of matrices: made, taken, set; bands; determinants."""

from __future__ import annotations

from tfsmith.onnx.builder import BOOL, INT64, Builder, Refusal, Val
from tfsmith.onnx.elementwise import widened
from tfsmith.onnx.registry import NodeContext, lowering
from tfsmith.onnx.segments import counted

__all__: list[str] = []

_FAR = 2**63 - 1
_KINDS = ("float32", "float64", "int32", "int64", "uint8", "bool")


def _one_diagonal(val: Val | None) -> int:
    """Which diagonal; the older ops have the main one only.

    Raises:
        Refusal: Several.
    """
    if val is None:
        return 0
    found = val.integers("which diagonals")
    if len(set(found)) != 1:
        raise Refusal("it takes a band of diagonals")
    return found[0]


def _last_size(b: Builder, x: Val, back: int) -> Val:
    """A size, counted from behind: a vector of one."""
    return b.size(x, x.rank - back)


def _grid(b: Builder, rows: Val, columns: Val, k: int) -> tuple[Val, Val]:
    """Of the places of a matrix: which lie on a diagonal, and the number along it of each, if it does."""
    down = b.unsqueeze(counted(b, rows), [1])
    across = b.unsqueeze(counted(b, columns), [0])
    is_on = b.op("Equal", b.op("Sub", across, down), b.const(k), dtype=BOOL, dims=(None, None))
    along = b.op("Where", is_on, down if k >= 0 else across, b.const(0), dtype=INT64, dims=(None, None))
    return is_on, along


def _on_diagonal(b: Builder, diagonal: Val, is_on: Val, along: Val, others: Val) -> Val:
    """A diagonal in a matrix of others; as numbers, for there are no kernels for truths."""
    kind = widened(diagonal.dtype, _KINDS)
    kind = INT64 if kind.name == "bool" else kind
    spread = b.op("Gather", b.cast(diagonal, kind), along, axis=-1)
    return b.cast(b.op("Where", is_on, spread, b.cast(others, kind), dtype=kind), diagonal.dtype)


@lowering("MatrixDiag MatrixDiagV2 MatrixDiagV3")
def _made(n: NodeContext) -> Val:
    b, diagonal = n.b, n.x
    k = _one_diagonal(n.y if len(n.inputs) > 1 else None)
    if diagonal.rank < 1 or 0 in (diagonal.dims or ()):
        raise Refusal("it has no diagonal")
    length = _last_size(b, diagonal, 1)
    rows = columns = b.op("Add", length, b.const([abs(k)]), dims=(1,)) if k else length
    others = b.const(0, diagonal.dtype)
    if len(n.inputs) > 1:
        asked = [n.inputs[at].integer("its sizes") for at in (2, 3)]
        size = (diagonal.dims or (None,))[-1]
        if asked != [-1, -1]:
            if not isinstance(size, int):
                raise Refusal("the size of its diagonal is not known before it runs")
            tall, broad = size + max(-k, 0), size + max(k, 0)
            found = [own if one == -1 else one for one, own in zip(asked, (tall, broad), strict=True)]
            if found[0] < tall or found[1] < broad or (found[0] > tall and found[1] > broad):
                raise Refusal("its sizes do not fit its diagonal")
            rows, columns = b.const(found[:1]), b.const(found[1:])
        others = b.reshape(n.inputs[4], [])
    return _on_diagonal(b, diagonal, *_grid(b, rows, columns, k), others)


@lowering("MatrixSetDiag MatrixSetDiagV2 MatrixSetDiagV3")
def _set(n: NodeContext) -> Val:
    b, x, diagonal = n.b, n.x, n.y
    k = _one_diagonal(n.inputs[2] if len(n.inputs) > 2 else None)
    if x.rank < 2 or diagonal.rank != x.rank - 1 or 0 in (x.dims or ()):
        raise Refusal("its diagonal does not fit its matrix")
    rows, columns = _last_size(b, x, 2), _last_size(b, x, 1)
    length = _length(b, x, k)
    own = _last_size(b, diagonal, 1)
    if own.known.numbers is None or own.known.numbers != length.known.numbers:
        columns = b.asserted(columns, b.op("Equal", own, length, dtype=BOOL))
    elif (x.dims or ())[:-2] != (diagonal.dims or ())[:-1]:
        raise Refusal("its diagonals are not known to be as many as its matrices")
    return _on_diagonal(b, diagonal, *_grid(b, rows, columns, k), x)


def _length(b: Builder, x: Val, k: int) -> Val:
    """How long a diagonal is: a vector of one.

    Raises:
        Refusal: The matrix has no such diagonal.
    """
    rows, columns = (x.dims or (None, None))[-2:]
    if isinstance(rows, int) and isinstance(columns, int):
        if not (-rows < k < columns or k == 0):
            raise Refusal("its matrix has no such diagonal")
        return b.const([min(rows + min(k, 0), columns - max(k, 0))])
    tall, broad = _last_size(b, x, 2), _last_size(b, x, 1)
    tall = b.op("Add", tall, b.const([k]), dims=(1,)) if k < 0 else tall
    broad = b.op("Sub", broad, b.const([k]), dims=(1,)) if k > 0 else broad
    found = b.op("Where", b.op("Less", tall, broad, dtype=BOOL), tall, broad, dtype=INT64, dims=(1,))
    return b.asserted(found, b.op("GreaterOrEqual", found, b.const([0]), dtype=BOOL))


@lowering("MatrixDiagPart MatrixDiagPartV2 MatrixDiagPartV3")
def _part(n: NodeContext) -> Val:
    """Row by row, the places of a diagonal are one more than the width apart."""
    b, x = n.b, n.x
    if x.rank < 2:
        raise Refusal("it takes matrices")
    k = _one_diagonal(n.y if len(n.inputs) > 1 else None)
    width = _last_size(b, x, 1)
    start = b.const([k]) if k >= 0 else b.op("Mul", width, b.const([-k]), dims=(1,))
    step = b.op("Add", width, b.const([1]), dims=(1,))
    places = b.op("Add", b.op("Mul", counted(b, _length(b, x, k)), step), start)
    lead = [b.size(x, at) for at in range(x.rank - 2)]
    area = b.op("Mul", _last_size(b, x, 2), width)
    flat = b.op("Reshape", x, b.concat([*lead, area], 0), allowzero=1)
    return b.op("Gather", flat, places, axis=-1)


@lowering("Diag")
def _whole(n: NodeContext) -> Val:
    b, x = n.b, n.x
    if x.rank < 1 or 0 in (x.dims or ()):
        raise Refusal("it has no diagonal")
    flat = b.reshape(x, [-1])
    count = b.op("Shape", flat, dtype=INT64, dims=(1,))
    found = _on_diagonal(b, flat, *_grid(b, count, count, 0), b.const(0, x.dtype))
    return b.reshape(found, b.concat([b.shape(x), b.shape(x)], 0))


@lowering("DiagPart")
def _whole_part(n: NodeContext) -> Val:
    b, x = n.b, n.x
    half = x.rank // 2
    dims = x.dims or ()
    if x.rank % 2 or not half or dims[:half] != dims[half:] or None in dims:
        raise Refusal("its sides are not known to be equal")
    shape = b.op("Slice", b.shape(x), b.const([0]), b.const([half]), b.const([0]), dims=(half,))
    count = b.op("ReduceProd", shape, keepdims=1, dims=(1,))
    places = b.op("Mul", counted(b, count), b.op("Add", count, b.const([1])))
    return b.op("Reshape", b.op("Gather", b.reshape(x, [-1]), places, axis=0), shape, allowzero=1)


@lowering("MatrixDeterminant")
def _determinant(n: NodeContext) -> Val:
    n.allow("float32")
    if n.x.rank < 2 or any(size == 0 for size in n.x.dims or ()):
        raise Refusal("it takes matrices")
    return n.b.op("Det", n.x)


@lowering("MatrixBandPart")
def _band(n: NodeContext) -> Val:
    b, x = n.b, n.x
    low, high = n.y.integer("how many diagonals below"), n.inputs[2].integer("how many diagonals above")
    if n.y.dims != () or n.inputs[2].dims != ():
        raise Refusal("how many diagonals is no scalar")
    kind = INT64 if x.dtype.name == "bool" else widened(x.dtype, ("float32", "float64", "int64"))
    found = b.cast(x, kind)
    if high >= 0:
        found = b.op("Trilu", found, _diagonal(b, x, high, -1), upper=0)
    if low >= 0:
        found = b.op("Trilu", found, b.op("Neg", _diagonal(b, x, low, -2)) if low else b.const(0), upper=1)
    return b.cast(found, x.dtype) if found is not x else b.op("Identity", x)


def _diagonal(b: Builder, x: Val, number: int, axis: int) -> Val:
    """A number of diagonals, which must not be over the size of an axis."""
    size = None if x.dims is None else x.dims[axis]
    if not number or (isinstance(size, int) and number <= size):
        return b.const(number)
    if isinstance(size, int):
        raise Refusal("it has fewer diagonals")
    there = b.squeeze(b.slice(b.shape(x), [axis], [axis + 1 or _FAR], [0]), [0])
    return b.asserted(b.const(number), b.op("LessOrEqual", b.const(number), there, dtype=BOOL))
