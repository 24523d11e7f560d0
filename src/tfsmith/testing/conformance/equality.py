"""What equal means: exactly for integers, strings and moves, within ulps or multiples of epsilon for the rest."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.samples import Tolerance

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["difference", "for_engines"]

# digits of the significand, and the exponent of the least number above zero
_FLOATS = MappingProxyType(
    {"float64": (53, -1074), "float32": (24, -149), "float16": (11, -24), "bfloat16": (8, -133)}
    | {"complex128": (53, -1074), "complex64": (24, -149)}
)
_ENGINE_ULPS = 16
_ENGINE_EPS = 16


def for_engines(tolerance: Tolerance) -> Tolerance:
    """What an engine with kernels of its own may differ: it may add in another order, and take other approximations."""
    if tolerance.exact:
        return tolerance
    return Tolerance(False, max(tolerance.ulps, _ENGINE_ULPS), max(tolerance.n_eps, _ENGINE_EPS), tolerance.scale)


def difference(found: NDArray[Any], wanted: NDArray[Any], tolerance: Tolerance) -> str | None:
    """What is wrong with an answer, in words; None if it is equal to TensorFlow's.

    NaN equals NaN, and an infinity only itself. Where the tolerance is exact, 0 is not -0.

    Args:
        found: The answer.
        wanted: TensorFlow's.
        tolerance: How near floating numbers must be.
    """
    found = numpy.asarray(found)
    if found.dtype != wanted.dtype:
        return f"is {found.dtype}, not {wanted.dtype}"
    if found.shape != wanted.shape:
        return f"has shape {list(found.shape)}, not {list(wanted.shape)}"
    if wanted.dtype.name not in _FLOATS or not wanted.size:
        same = numpy.asarray(found == wanted, bool)
        return None if same.all() else _worst(found, wanted, ~same)
    digits, least = _FLOATS[wanted.dtype.name]
    with numpy.errstate(all="ignore"):
        wrong = _far(_real(found), _real(wanted), tolerance, digits, least)
    if not wrong.any():
        return None
    if wanted.dtype.kind == "c":
        wrong = numpy.any(wrong.reshape(-1, 2), axis=1, keepdims=True)
    return _worst(found, wanted, wrong.reshape(wanted.shape))


def _far(
    found: NDArray[Any], wanted: NDArray[Any], tolerance: Tolerance, digits: int, least: int
) -> NDArray[numpy.bool_]:
    """Where numbers are too far from each other."""
    both_nan = numpy.isnan(found) & numpy.isnan(wanted)
    if tolerance.exact:
        wrong: NDArray[Any] = ((found != wanted) | (numpy.signbit(found) != numpy.signbit(wanted))) & ~both_nan
        return wrong
    finite = numpy.isfinite(wanted)
    _, exponents = numpy.frexp(numpy.where(finite, wanted, 0))
    ulp = numpy.ldexp(1.0, numpy.maximum(exponents - digits, least))
    largest = numpy.abs(wanted[finite]).max(initial=tolerance.scale)
    allowed = numpy.maximum(tolerance.ulps * ulp, tolerance.n_eps * largest * 2.0 ** (1 - digits))
    near = numpy.where(finite, numpy.abs(found - wanted) <= allowed, found == wanted)
    return numpy.asarray(~near & ~both_nan, bool)


def _real(values: NDArray[Any]) -> NDArray[Any]:
    flat = numpy.ascontiguousarray(values).reshape(-1)
    return flat.view(flat.real.dtype) if values.dtype.kind == "c" else flat.astype(numpy.float64)


def _worst(found: NDArray[Any], wanted: NDArray[Any], wrong: NDArray[numpy.bool_]) -> str:
    """The first wrong element; the farthest would be a matter of taste where there are infinities."""
    place = tuple(int(index[0]) for index in numpy.nonzero(numpy.atleast_1d(wrong)))[: found.ndim]
    where = f" at {list(place)}" if place else ""
    return f"{int(wrong.sum())} of {wrong.size} differ: {found[place]!r}, not {wanted[place]!r}{where}"
