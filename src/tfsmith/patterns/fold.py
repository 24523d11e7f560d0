"""Computes nodes whose inputs are constants. Nothing is read before the result's values are wanted or written.

Reshapes, transposes and joins reuse the tensors that `ir` has for them; arithmetic is a `ComputedTensor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.ir.attr import Attr
from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import SCALAR, Shape
from tfsmith.ir.tensor import ArrayTensor, Tensor, TensorBase
from tfsmith.ir.tensor_views import JoinedTensor, ReshapedTensor, TransposedTensor
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.patterns.tensor_facts import small_integers
from tfsmith.records import record
from tfsmith.storage.span import Span

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ComputedTensor", "FOLDED_OPS", "fold"]

Attrs = Mapping[str, Attr]


@record(eq=False)
class ComputedTensor(TensorBase):
    """Values that are computed from those of other tensors, each time that they are wanted.

    Attributes:
        op: How; an op of TensorFlow's.
        sources: What from. Their checksums, where they have one, are checked before they are used.
    """

    op: str
    dtype: DType
    shape: Shape
    sources: tuple[Tensor, ...]

    def verify(self) -> bool:
        """Compares the checksums of the sources; returns whether each has one."""
        return False not in {source.verify() for source in self.sources}

    def numpy(self) -> NDArray[Any]:
        """The values, in memory; reads the sources."""
        import numpy

        arrays = [source.numpy() for source in self.sources]
        with numpy.errstate(all="ignore"):  # TensorFlow gives inf and nan, and no warning
            found = _compute(self.op, arrays).astype(self.dtype.numpy(), copy=False)
        array = numpy.array(found).reshape(self.shape.dims or ())
        array.flags.writeable = False
        return array

    def parts(self) -> Iterator[bytes | Span]:
        """The values, computed; memory for one tensor."""
        return ArrayTensor(self.dtype, self.numpy()).parts()


def _compute(op: str, arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    import numpy

    one = arrays[0]
    if op == "Rsqrt":
        return numpy.asarray(one.dtype.type(1) / numpy.sqrt(one))
    name = _FUNCTIONS[op]
    return one if name is None else numpy.asarray(getattr(numpy, name)(*arrays))


_FUNCTIONS: Mapping[str, str | None] = MappingProxyType(
    {
        "Mul": "multiply",
        "Add": "add",
        "AddV2": "add",
        "Sub": "subtract",
        "RealDiv": "divide",
        "Neg": "negative",
        "Sqrt": "sqrt",
        "Rsqrt": "sqrt",
        "Square": "square",
        "Cast": None,
    }
)
"""What numpy calls them; None for what only changes the type."""


def fold(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    """The constant that a node of this op gives, or None where it cannot be one. Reads shapes and axes, no weights.

    Args:
        op: One of `FOLDED_OPS`.
        inputs: Its inputs.
        attrs: Its attributes.
    """
    rule = _RULES.get(op)
    count = len(inputs)
    if rule is None or not rule[0] <= count or (op not in _LISTS and count > rule[1]):
        return None
    found = rule[2](op, inputs, attrs)
    return None if found is None or found.nbytes > MAX_PROTO_BYTES else found


def _identity(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    return inputs[0]


def _reshape(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    dims, size = small_integers(inputs[1]), inputs[0].shape.elements
    if dims is None or size is None or dims.count(-1) > 1 or min(dims, default=0) < -1:
        return None
    known = 1
    for dim in dims:
        known *= 1 if dim < 0 else dim
    if -1 in dims:
        if not known or size % known:
            return None
        dims = tuple(size // known if dim < 0 else dim for dim in dims)
    elif known != size:
        return None
    return _with_shape(inputs[0], Shape(dims))


def _with_shape(tensor: Tensor, shape: Shape) -> Tensor | None:
    return ReshapedTensor(tensor, shape) if tensor.dtype.itemsize else None


def _transpose(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    order, rank = small_integers(inputs[1]), inputs[0].shape.rank
    if order is None or rank is None or sorted(order) != list(range(rank)) or not inputs[0].dtype.itemsize:
        return None
    return TransposedTensor(inputs[0], order)


def _concat(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    axes = small_integers(inputs[-1])
    return None if axes is None or len(axes) != 1 else _joined(inputs[:-1], axes[0])


def _joined(parts: Sequence[Tensor], axis: int) -> Tensor | None:
    first = parts[0].shape.dims or ()
    axis = axis + len(first) if axis < 0 else axis
    if not 0 <= axis < len(first) or not parts[0].dtype.itemsize:
        return None
    for part in parts:
        dims = part.shape.dims or ()
        same = len(dims) == len(first) and (*dims[:axis], *dims[axis + 1 :]) == (*first[:axis], *first[axis + 1 :])
        if part.dtype != parts[0].dtype or not same:
            return None
    return JoinedTensor(tuple(parts), axis)


def _pack(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    found = attrs.get("axis")
    axis, rank = 0 if found is None or found.kind != "int" else found.value, inputs[0].shape.rank or 0
    axis = axis + rank + 1 if axis < 0 else axis
    if not 0 <= axis <= rank:
        return None
    rows = [_inserted(tensor, axis) for tensor in inputs]
    kept = [row for row in rows if row is not None]
    return _joined(kept, axis) if len(kept) == len(rows) else None


def _inserted(tensor: Tensor, axis: int) -> Tensor | None:
    dims = tensor.shape.dims or ()
    return _with_shape(tensor, Shape((*dims[:axis], 1, *dims[axis:]))) if axis <= len(dims) else None


def _expand(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    axes, rank = small_integers(inputs[1]), inputs[0].shape.rank or 0
    if axes is None or len(axes) != 1 or not -rank - 1 <= axes[0] <= rank:
        return None
    return _inserted(inputs[0], axes[0] + rank + 1 if axes[0] < 0 else axes[0])


def _squeeze(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    dims, found = inputs[0].shape.dims or (), attrs.get("squeeze_dims")
    axes = found.value if found is not None and found.kind == "list(int)" else ()
    gone = {axis + len(dims) if axis < 0 else axis for axis in axes}
    gone = gone or {axis for axis, dim in enumerate(dims) if dim == 1}
    if any(not 0 <= axis < len(dims) or dims[axis] != 1 for axis in gone):
        return None
    return _with_shape(inputs[0], Shape(tuple(dim for axis, dim in enumerate(dims) if axis not in gone)))


def _unary(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    kind = inputs[0].dtype
    if not _is_number(kind) or (op in ("Sqrt", "Rsqrt") and "float" not in kind.name):
        return None
    return ComputedTensor(op, kind, inputs[0].shape, (inputs[0],))


def _cast(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    found = attrs.get("DstT")
    if found is None or found.kind != "type":
        return None
    kind: DType = found.value
    if any(not _is_number(one) and one.name != "bool" for one in (kind, inputs[0].dtype)):
        return None
    return ComputedTensor(op, kind, inputs[0].shape, (inputs[0],))


def _binary(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    kind, shape = inputs[0].dtype, _broadcast(inputs[0].shape, inputs[1].shape)
    if inputs[1].dtype != kind or shape is None or not _is_number(kind):
        return None
    if op == "RealDiv" and "float" not in kind.name:
        return None
    return ComputedTensor(op, kind, shape, tuple(inputs))


def _is_number(kind: DType) -> bool:
    return kind.itemsize > 0 and kind.name.startswith(("float", "bfloat", "int", "uint"))


def _broadcast(left: Shape, right: Shape) -> Shape | None:
    one, other = left.dims or (), right.dims or ()
    rank = max(len(one), len(other))
    one, other = (1,) * (rank - len(one)) + one, (1,) * (rank - len(other)) + other
    if any(a != b and 1 not in (a, b) for a, b in zip(one, other, strict=True)):
        return None
    return Shape(tuple(b if a == 1 else a for a, b in zip(one, other, strict=True))) if rank else SCALAR


_LISTS = frozenset({"ConcatV2", "Pack"})
_RULES: Mapping[str, tuple[int, int, Callable[[str, Sequence[Tensor], Attrs], Tensor | None]]] = MappingProxyType(
    {
        "Identity": (1, 1, _identity),
        "Reshape": (2, 2, _reshape),
        "Transpose": (2, 2, _transpose),
        "ConcatV2": (2, 2, _concat),
        "Pack": (1, 1, _pack),
        "ExpandDims": (2, 2, _expand),
        "Squeeze": (1, 1, _squeeze),
        "Cast": (1, 1, _cast),
    }
    | dict.fromkeys(("Neg", "Sqrt", "Rsqrt", "Square"), (1, 1, _unary))
    | dict.fromkeys(("Mul", "Add", "AddV2", "Sub", "RealDiv"), (2, 2, _binary))
)
"""For an op: the fewest and most inputs, and its rule."""
FOLDED_OPS = frozenset(_RULES)
"""The ops that can be computed."""
