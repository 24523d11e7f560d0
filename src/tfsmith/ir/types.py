"""What a tensor is made of: its type and its shape."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from functools import cache
from math import prod
from operator import index
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, overload

from tfsmith.errors import UnsupportedError, UsageError
from tfsmith.limits import MAX_ELEMENTS, MAX_RANK
from tfsmith.records import Immutable, record

if TYPE_CHECKING:
    import numpy

__all__ = ["DType", "SCALAR", "Shape", "UNKNOWN", "as_dtype", "dtype", "dtype_named", "reference_to"]


_REF = 100

# number, name in TensorFlow's Python, proto name without "DT_", bytes per element in memory and files (0: not fixed)
_TABLE: tuple[tuple[int, str, str, int], ...] = (
    (0, "invalid", "INVALID", 0),
    (1, "float32", "FLOAT", 4),
    (2, "float64", "DOUBLE", 8),
    (3, "int32", "INT32", 4),
    (4, "uint8", "UINT8", 1),
    (5, "int16", "INT16", 2),
    (6, "int8", "INT8", 1),
    (7, "string", "STRING", 0),
    (8, "complex64", "COMPLEX64", 8),
    (9, "int64", "INT64", 8),
    (10, "bool", "BOOL", 1),
    (11, "qint8", "QINT8", 1),
    (12, "quint8", "QUINT8", 1),
    (13, "qint32", "QINT32", 4),
    (14, "bfloat16", "BFLOAT16", 2),
    (15, "qint16", "QINT16", 2),
    (16, "quint16", "QUINT16", 2),
    (17, "uint16", "UINT16", 2),
    (18, "complex128", "COMPLEX128", 16),
    (19, "float16", "HALF", 2),
    (20, "resource", "RESOURCE", 0),
    (21, "variant", "VARIANT", 0),
    (22, "uint32", "UINT32", 4),
    (23, "uint64", "UINT64", 8),
    (24, "float8_e5m2", "FLOAT8_E5M2", 1),
    (25, "float8_e4m3fn", "FLOAT8_E4M3FN", 1),
    (26, "float8_e4m3fnuz", "FLOAT8_E4M3FNUZ", 1),
    (27, "float8_e4m3b11fnuz", "FLOAT8_E4M3B11FNUZ", 1),
    (28, "float8_e5m2fnuz", "FLOAT8_E5M2FNUZ", 1),
    (29, "int4", "INT4", 1),
    (30, "uint4", "UINT4", 1),
    (31, "int2", "INT2", 1),
    (32, "uint2", "UINT2", 1),
    (33, "float4_e2m1fn", "FLOAT4_E2M1FN", 1),
)
_OTHER_NAMES = MappingProxyType({"half": "float16", "double": "float64", "float": "float32", "object": "string"})
_IN_ML_DTYPES = ("bfloat16", "float8", "float4", "int4", "uint4", "int2", "uint2")


@record
class DType(Immutable):
    """An element type. It equals its names ("float32") and numpy's type (`numpy.float32`).

    A type newer than this table is kept by its number, so that looking at it still works.
    """

    __remedy__ = "name another one"

    number: int
    name: str
    """As TensorFlow's Python calls it, such as "float32" or "float32_ref"."""
    proto_name: str
    """As the proto enum calls it, such as "DT_FLOAT" or "DT_FLOAT_REF"."""
    itemsize: int
    """Bytes per element, in memory and in checkpoints; 0 for strings, resources and variants."""

    def __eq__(self, other: object) -> bool:
        if isinstance(other, DType):
            return self.number == other.number
        if not isinstance(other, str) and ("numpy" not in sys.modules or other is None):
            return NotImplemented
        try:
            return self.number == as_dtype(other).number
        except UnsupportedError:
            return False if isinstance(other, str) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"DType({self.name!r})"

    def __str__(self) -> str:
        return self.name

    @property
    def is_ref(self) -> bool:
        """Whether this is the reference form that TF1 variables have."""
        return _REF < self.number < 2 * _REF

    @property
    def base(self) -> DType:
        """The type without its reference mark."""
        return dtype(self.number - _REF) if self.is_ref else self

    def numpy(self) -> numpy.dtype[Any]:
        """The numpy type of its values; strings are objects (`bytes`), quantized types plain integers.

        Raises:
            UnsupportedError: There is none (resources, variants, types that are newer than this release).
        """
        return _numpy_dtype(self.base.name, self.base.itemsize)


_BY_NUMBER = MappingProxyType(
    {number: DType(number, name, f"DT_{proto}", size) for number, name, proto, size in _TABLE}
    | {n + _REF: DType(n + _REF, f"{name}_ref", f"DT_{proto}_REF", size) for n, name, proto, size in _TABLE if n}
)
_BY_NAME = MappingProxyType(
    {found.name: found for found in _BY_NUMBER.values()} | {found.proto_name: found for found in _BY_NUMBER.values()}
)


@cache
def _numpy_dtype(name: str, itemsize: int) -> numpy.dtype[Any]:
    import numpy

    if name == "string":
        return numpy.dtype(object)
    if name.startswith(_IN_ML_DTYPES):
        return _ml_dtype(name)
    if itemsize == 0:
        what = f"dtype {name} has no values that can be read outside of TensorFlow"
        raise UnsupportedError(what, remedy="leave this tensor out, or read it with TensorFlow")
    return numpy.dtype(name.removeprefix("q") if name.startswith("q") else name)


def _ml_dtype(name: str) -> numpy.dtype[Any]:
    import ml_dtypes
    import numpy

    found = getattr(ml_dtypes, name, None)
    if found is None:
        raise UnsupportedError(f"dtype {name} needs a newer ml_dtypes", remedy="pip install -U ml_dtypes")
    result: numpy.dtype[Any] = numpy.dtype(found)
    return result


def dtype(number: int) -> DType:
    """The type with this number in `DataType`; an unknown number gives a type that is only a name."""
    found = _BY_NUMBER.get(number)
    return DType(number, f"unknown_{number}", f"DT_{number}", 0) if found is None else found


def as_dtype(kind: object) -> DType:
    """The type that a DType, a name, a numpy dtype or a Python type means.

    Raises:
        UnsupportedError: TensorFlow has no such type, or this is none at all.
    """
    if isinstance(kind, DType):
        return kind
    if isinstance(kind, str):
        return dtype_named(kind)
    import numpy

    try:
        found = numpy.dtype(kind) if kind is not None else None  # type: ignore[call-overload]
    except (TypeError, ValueError, SyntaxError):  # of what has an attribute `dtype`, of bytes with a comma
        found = None
    if found is None:
        raise UnsupportedError(f"{kind!r} is no dtype", remedy="use a name such as float32, or numpy.float32")
    return dtype_named("string" if found.kind in "OSU" else found.name)


def reference_to(kind: DType) -> DType:
    """The dtype of a reference to such values, as TensorFlow 1's variables have it."""
    return dtype(kind.number + _REF)


def dtype_named(name: str) -> DType:
    """The type called "float32", "DT_FLOAT", "half" or as numpy or ml_dtypes call it.

    Raises:
        UnsupportedError: TensorFlow has no such type.
    """
    found = _BY_NAME.get(
        {"half": "float16", "double": "float64", "float": "float32", "object": "string"}.get(name, name)
    )
    if found is None:
        raise UnsupportedError(f"TensorFlow has no dtype {name!r}", remedy="use a name such as float32 or int64")
    return found


_SHOWN = 16
"""So many dimensions are printed; a hostile file may claim millions."""


@record
class Shape(Immutable):
    """A shape, which compares, counts and iterates as a tuple of its sizes, where None is an unknown one.

    `dims` has the same sizes with -1 for an unknown one; it is None when even their number is unknown.
    """

    __remedy__ = "make another one"

    dims: tuple[int, ...] | None

    @staticmethod
    def of(dims: Iterable[int | None] | None) -> Shape:
        """From numbers, where None or -1 means unknown."""
        try:
            return UNKNOWN if dims is None else Shape(tuple(-1 if dim is None else index(dim) for dim in dims))
        except TypeError:
            raise UsageError(f"{dims!r} is no shape", remedy="pass sizes, such as (None, 3)") from None

    @property
    def rank(self) -> int | None:
        """How many dimensions, if known."""
        return None if self.dims is None else len(self.dims)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is known."""
        return self.dims is not None and min(self.dims, default=0) >= 0

    @property
    def elements(self) -> int | None:
        """How many elements, if every dimension is known."""
        return prod(self.dims) if self.dims is not None and self.is_static else None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shape):
            return self.dims == other.dims
        if isinstance(other, (tuple, list)):
            return self.dims is not None and self._sizes() == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(None if self.dims is None else self._sizes())

    def __len__(self) -> int:
        return len(self._sizes())

    def __bool__(self) -> bool:
        """False for a scalar, as the empty tuple."""
        return self.dims != ()

    def __iter__(self) -> Iterator[int | None]:
        return iter(self._sizes())

    @overload
    def __getitem__(self, at: int) -> int | None: ...
    @overload
    def __getitem__(self, at: slice) -> Shape: ...
    def __getitem__(self, at: int | slice) -> int | Shape | None:
        """A size, None if it is unknown; of a slice, the shape of those sizes."""
        found = self._sizes()[at]
        return Shape.of(found) if isinstance(found, tuple) else found

    def _sizes(self) -> tuple[int | None, ...]:
        if self.dims is None:
            raise UsageError("even the rank of this shape is unknown", remedy="look at shape.rank first")
        return tuple(None if dim < 0 else dim for dim in self.dims)

    def flaw(self) -> str | None:
        """Why no tensor can have this shape, or None: the rules are TensorFlow's own."""
        dims = self.dims or ()
        if len(dims) > MAX_RANK:
            return f"it has {len(dims)} dimensions, and no tensor has more than {MAX_RANK}"
        if dims and min(dims) < -1:
            return f"it has a dimension of {min(dims)}"
        if abs(prod(dims)) > MAX_ELEMENTS:
            return "it has more elements than can be counted"
        return None

    def __repr__(self) -> str:
        return f"Shape.of({None if self.dims is None else list(self._sizes()[:_SHOWN])})"

    def __str__(self) -> str:
        if self.dims is None:
            return "?"
        shown = ["?" if dim < 0 else str(dim) for dim in self.dims[:_SHOWN]]
        return "[" + ", ".join([*shown, "..."] if len(self.dims) > _SHOWN else shown) + "]"


UNKNOWN = Shape(None)
SCALAR = Shape(())
