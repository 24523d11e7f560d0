"""Shapes as checkpoints store them, checked before anything is made of them."""

from __future__ import annotations

from math import prod
from typing import Any

from tfsmith.errors import CorruptFileError, UnsupportedError
from tfsmith.ir.dtype import DType
from tfsmith.ir.shape import Shape
from tfsmith.limits import MAX_RANK

__all__ = ["read_shape", "require_numpy_rank"]

_MAX_BYTES = 1 << 63


def read_shape(proto: Any, kind: DType, *, path: str, where: str) -> Shape:
    """The shape in a `TensorShapeProto` of a stored tensor.

    Raises:
        CorruptFileError: A dimension is unknown or negative, there are too many, or they multiply to too much.
    """
    dims = tuple([dim.size for dim in proto.dim])
    flaw = None
    if proto.unknown_rank or len(dims) > MAX_RANK or (dims and min(dims) < 0):
        flaw = "cannot be"
    elif prod(dim for dim in dims if dim) * max(kind.itemsize, 1) >= _MAX_BYTES:  # numpy counts so, too
        flaw = "is larger than any memory"
    if flaw is not None:
        what = f"its shape {Shape(dims)} {flaw}"
        raise CorruptFileError(what, path=path, where=where, remedy="the file is damaged; fetch it again")
    return Shape(dims)


def require_numpy_rank(shape: Shape, *, path: str, where: str) -> None:
    """Refuses a shape of more dimensions than an array can have (32 or 64, by numpy's release).

    Raises:
        UnsupportedError: It has more.
    """
    import numpy

    rank = shape.rank or 0
    if rank <= 32:
        return
    try:
        numpy.empty((0,) * rank)
    except ValueError as error:
        what = f"numpy cannot hold a tensor of rank {rank}"
        raise UnsupportedError(what, path=path, where=where, remedy="leave this tensor out") from error
