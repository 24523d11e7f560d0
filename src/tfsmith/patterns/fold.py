"""Computes nodes whose inputs are constants. Nothing is read before the result's values are wanted or written.

Reshapes, transposes and joins reuse the tensors that `ir` has for them; arithmetic is a `ComputedTensor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tfsmith.ir.node import Attr
from tfsmith.ir.opdef import builtin_op
from tfsmith.ir.tensor import ArrayTensor, Tensor, TensorBase
from tfsmith.ir.tensor_views import JoinedTensor, ReshapedTensor, TransposedTensor
from tfsmith.ir.types import DType, Shape
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.ops import ARITHMETIC
from tfsmith.ops.shapes import constant, infer
from tfsmith.ops.sizes import Conflict
from tfsmith.ops.values import compute
from tfsmith.records import record
from tfsmith.storage import Span

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
        (found,) = compute(self.op, arrays, {"DstT": Attr("type", self.dtype)})
        array = numpy.array(found, self.dtype.numpy()).reshape(self.shape.dims or ())
        array.flags.writeable = False
        return array

    def parts(self) -> Iterator[bytes | Span]:
        """The values, computed; memory for one tensor."""
        return ArrayTensor(self.dtype, self.numpy()).parts()


def fold(op: str, inputs: Sequence[Tensor], attrs: Attrs) -> Tensor | None:
    """The constant that a node of this op gives, or None where it cannot be one. Reads shapes and axes, no weights.

    Args:
        op: One of `FOLDED_OPS`.
        inputs: Its inputs.
        attrs: Its attributes.
    """
    if op not in FOLDED_OPS or not _fits(op, len(inputs)):
        return None
    try:
        (known,) = infer(op, [constant(one) for one in inputs], attrs, 1)
    except Conflict:
        return None
    if not known.shape.is_static:
        return None
    found = _MOVES[op](inputs, attrs, known.shape) if op in _MOVES else _computed(op, inputs, attrs, known.shape)
    return None if found is None or found.nbytes > MAX_PROTO_BYTES else found


def _fits(op: str, count: int) -> bool:
    """Whether the op can take so many inputs."""
    definition = builtin_op(op)
    if definition is None:
        return False
    least = len(definition.inputs)
    return count >= least if any(arg.number_attr for arg in definition.inputs) else count == least


def _reshaped(inputs: Sequence[Tensor], attrs: Attrs, shape: Shape) -> Tensor | None:
    return ReshapedTensor(inputs[0], shape) if inputs[0].dtype.itemsize else None


def _transposed(inputs: Sequence[Tensor], attrs: Attrs, shape: Shape) -> Tensor | None:
    order = constant(inputs[1]).numbers
    rank = inputs[0].shape.rank or 0
    if order is None or not inputs[0].dtype.itemsize:
        return None
    return TransposedTensor(inputs[0], tuple(axis % rank for axis in order))


def _concatenated(inputs: Sequence[Tensor], attrs: Attrs, shape: Shape) -> Tensor | None:
    axes = constant(inputs[-1]).numbers
    return None if axes is None else _joined(inputs[:-1], axes[0] % (shape.rank or 1))


def _packed(inputs: Sequence[Tensor], attrs: Attrs, shape: Shape) -> Tensor | None:
    found = attrs.get("axis")
    axis = (0 if found is None or not isinstance(found.value, int) else found.value) % (shape.rank or 1)
    dims = shape.dims or ()
    row = Shape((*dims[:axis], 1, *dims[axis + 1 :]))
    return _joined([ReshapedTensor(one, row) for one in inputs], axis) if inputs[0].dtype.itemsize else None


def _joined(parts: Sequence[Tensor], axis: int) -> Tensor | None:
    if not parts[0].dtype.itemsize or any(part.dtype != parts[0].dtype for part in parts):
        return None
    return JoinedTensor(tuple(parts), axis)


_MOVES: Mapping[str, Callable[[Sequence[Tensor], Attrs, Shape], Tensor | None]] = MappingProxyType(
    {
        "Identity": lambda inputs, attrs, shape: inputs[0],
        "Reshape": _reshaped,
        "ExpandDims": _reshaped,
        "Squeeze": _reshaped,
        "Transpose": _transposed,
        "ConcatV2": _concatenated,
        "Pack": _packed,
    }
)
"""Ops that move elements: views of the tensors that they take."""
FOLDED_OPS = frozenset(_MOVES) | ARITHMETIC
"""The ops that can be computed."""


def _computed(op: str, inputs: Sequence[Tensor], attrs: Attrs, shape: Shape) -> Tensor | None:
    kind = inputs[0].dtype
    if op == "Cast":
        found = attrs.get("DstT")
        if found is None or not isinstance(found.value, DType):
            return None
        kind = found.value
        if any(not _is_number(one) and one.name != "bool" for one in (kind, inputs[0].dtype)):
            return None
        return ComputedTensor(op, kind, shape, (inputs[0],))
    if not _is_number(kind) or any(one.dtype != kind for one in inputs):
        return None
    definition = builtin_op(op)
    allowed = () if definition is None else definition.attrs[0].allowed
    if (allowed and kind not in allowed) or (op == "RealDiv" and "float" not in kind.name):
        return None
    return ComputedTensor(op, kind, shape, tuple(inputs))


def _is_number(kind: DType) -> bool:
    return kind.itemsize > 0 and kind.name.startswith(("float", "bfloat", "int", "uint"))
