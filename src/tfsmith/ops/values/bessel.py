"""Values of Bessel functions and of integrals that numpy lacks: Dawson, Fresnel, Spence, the exponential integral.

Where a series converges it is summed. Elsewhere an integral along a path without oscillation is summed by the rule of
trapezoids, whose error falls exponentially with the number of points, since the integrands are analytic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import value
from tfsmith.ops.values.special import in_double

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_POINTS = 400
_SMALL = 40.0
"""exp(-40) is less than the last bit of a float64."""
_TURN = 20.0
"""Up to here the series of I0 and I1 are summed, and the asymptotic ones above."""
_EULER = 0.5772156649015329


def _declare_bessel(op: str, function: Callable[[NDArray[Any]], Any]) -> None:
    @value(op)
    def compute(x: NDArray[Any]) -> Any:
        return in_double(function, x)


# Modified
_declare_bessel("BesselI0", lambda x: _scaled_i(0, x) * numpy.exp(numpy.abs(x)))
_declare_bessel("BesselI0e", lambda x: _scaled_i(0, x))
_declare_bessel("BesselI1", lambda x: _scaled_i(1, x) * numpy.exp(numpy.abs(x)) * numpy.sign(x))
_declare_bessel("BesselI1e", lambda x: _scaled_i(1, x) * numpy.sign(x))
_declare_bessel("BesselK0", lambda x: _scaled_k(0, x) * numpy.exp(-x))
_declare_bessel("BesselK0e", lambda x: _scaled_k(0, x))
_declare_bessel("BesselK1", lambda x: _scaled_k(1, x) * numpy.exp(-x))
_declare_bessel("BesselK1e", lambda x: _scaled_k(1, x))

# Oscillating
_declare_bessel("BesselJ0", lambda x: _near_or_far(0, x))
_declare_bessel("BesselJ1", lambda x: _near_or_far(1, x) * numpy.where(x < 0, -1.0, 1.0))
_declare_bessel("BesselY0", lambda x: _second_kind(0, x))
_declare_bessel("BesselY1", lambda x: _second_kind(1, x))


# Integrals


@value("Dawsn")
def _dawsn(x: NDArray[Any]) -> Any:
    def dawson(x: NDArray[Any]) -> Any:
        """The sum of Rybicki: exp(-(x - n h)^2) / n over odd n, around the nearest even one."""
        step = 0.25
        size = numpy.abs(x)
        middle = 2 * numpy.round(numpy.where(size < 50, size, 0.0) / (2 * step))
        rest = size - middle * step
        total = numpy.zeros_like(x)
        for odd in range(-29, 30, 2):
            total = total + numpy.exp(-((rest - odd * step) ** 2)) / (middle + odd)
        inverse = 1 / (2 * size * size)
        far = (1 + inverse * (1 + 3 * inverse * (1 + 5 * inverse))) / (2 * size)
        near = x * (1 - x * x * (2 / 3) * (1 - x * x * 0.4 * (1 - x * x * (2 / 7))))
        found = numpy.sign(x) * numpy.where(size < 50, total / numpy.sqrt(numpy.pi), far)
        return numpy.where(size < 0.002, near, found)

    return in_double(dawson, x)


@value("Expint")
def _expint(x: NDArray[Any]) -> Any:
    def expint(x: NDArray[Any]) -> Any:
        y = numpy.where((x > 0) & (x < _SMALL), x, 1.0)
        term = numpy.ones_like(y)
        total = numpy.zeros_like(y)
        for number in range(1, 160):
            term = term * y / number
            total = total + term / number
        near = _EULER + numpy.log(y) + total
        far = _asymptotic(numpy.where(x >= _SMALL, x, _SMALL), lambda number, x: number / x, 40)
        found = numpy.where(x < _SMALL, near, numpy.exp(x) / x * far)
        found = numpy.where(x == numpy.inf, numpy.inf, found)
        return numpy.where(x > 0, found, numpy.where(x == 0, -numpy.inf, numpy.nan))

    return in_double(expint, x)


@value("FresnelCos")
def _fresnel_cos(x: NDArray[Any]) -> Any:
    return in_double(lambda x: numpy.real(_fresnel(x)), x)


@value("FresnelSin")
def _fresnel_sin(x: NDArray[Any]) -> Any:
    return in_double(lambda x: numpy.imag(_fresnel(x)), x)


@value("Spence")
def _spence(x: NDArray[Any]) -> Any:
    return in_double(_dilogarithm, x)


def _scaled_i(order: int, x: NDArray[Any]) -> Any:
    """exp(-|x|) * I(|x|)."""
    size = numpy.abs(x)
    y = numpy.where(size < _TURN, size, 1.0)
    term = numpy.ones_like(y) if order == 0 else y / 2
    total = term
    for number in range(1, 60):
        term = term * (y * y / 4) / (number * (number + order))
        total = total + term
    far = _asymptotic(
        numpy.where(size < _TURN, _TURN, size),
        lambda number, x: ((2 * number - 1) ** 2 - 4 * order) / (8 * number * x),
        36,
    )
    found = numpy.where(size < _TURN, total * numpy.exp(-y), far / numpy.sqrt(2 * numpy.pi * size))
    return numpy.where(numpy.isnan(x), numpy.nan, found)


def _scaled_k(order: int, x: NDArray[Any]) -> Any:
    """exp(x) * K(x): the integral of exp(-x (cosh t - 1)) * cosh(order * t) over t > 0."""
    y = numpy.where(x > 0, x, 1.0)
    found = _trapezoids(
        lambda t, y: numpy.exp(-y * 2 * numpy.sinh(t / 2) ** 2) * numpy.cosh(order * t),
        numpy.arccosh(1 + _SMALL / y),
        y,
    )
    return numpy.where(x > 0, found, numpy.where(x <= 0, numpy.inf, numpy.nan))


def _near_or_far(order: int, x: NDArray[Any]) -> Any:
    """J of |x|: its series up to 2, and the real part of Hankel's function above."""
    size = numpy.abs(x)
    y = numpy.where(size < 2, size, 1.0)
    term = numpy.ones_like(y) if order == 0 else y / 2
    total = term
    for number in range(1, 20):
        term = -term * (y * y / 4) / (number * (number + order))
        total = total + term
    return numpy.where(size < 2, total, _hankel(order, size)[0])


def _second_kind(order: int, x: NDArray[Any]) -> Any:
    found = _hankel(order, x)[1]
    return numpy.where(x > 0, found, numpy.where(x <= 0, -numpy.inf, numpy.nan))


def _hankel(order: int, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """J and Y as the parts of one integral, on the path of steepest descent: s + i gd(s), s > 0."""
    y = numpy.where((x > 0) & numpy.isfinite(x), x, 1.0)
    reach = numpy.arccosh(1 + _SMALL / y) + 2 / (1 + y)

    def even(s: NDArray[Any], y: NDArray[Any]) -> Any:
        fall = numpy.sinh(s) * numpy.tanh(s)
        secant = 1 / numpy.cosh(s)
        return numpy.exp(-y * fall) * (1 if order == 0 else 1 - fall * secant)

    def odd(s: NDArray[Any], y: NDArray[Any]) -> Any:
        fall = numpy.sinh(s) * numpy.tanh(s)
        secant = 1 / numpy.cosh(s)
        return numpy.exp(-y * fall) * (secant if order == 0 else secant + fall)

    p, q = _trapezoids(even, reach, y), _trapezoids(odd, reach, y)
    sine, cosine = numpy.sin(y), numpy.cos(y)
    first, second = p * sine + q * cosine, q * sine - p * cosine
    if order == 1:
        first, second = q * sine - p * cosine, -(p * sine + q * cosine)
    bad = numpy.isnan(x)
    limit = numpy.isinf(x)
    scale = 2 / numpy.pi
    found = tuple(numpy.where(bad, numpy.nan, numpy.where(limit, 0.0, part * scale)) for part in (first, second))
    return found[0], found[1]


def _fresnel(x: NDArray[Any]) -> Any:
    """C + i S: their series up to 1.5, and Faddeeva's function above (the sum of Matta and Reichel)."""
    size = numpy.abs(x)
    y = numpy.where(size < 1.5, size, 1.0)
    power = 0.5j * numpy.pi * y * y
    term = y.astype(numpy.complex128)
    total = term
    for number in range(1, 40):
        term = term * power / number
        total = total + term / (2 * number + 1)

    far = numpy.where((size >= 1.5) & (size < 1e7), size, 2.0)
    z = numpy.sqrt(numpy.pi) / 2 * (1 + 1j) * far
    step = 0.5
    sums = numpy.zeros_like(z)
    for number in range(14):
        node = (number + 0.5) * step
        sums = sums + numpy.exp(-node * node) / (z * z - node * node)
    w = 2j * step / numpy.pi * z * sums
    pole = 2 * numpy.exp(-z * z) / (1 + numpy.exp(-2j * numpy.pi * z / step))
    w = numpy.where(z.imag < numpy.pi / step, w + pole, w)
    quarter = numpy.exp(0.5j * numpy.pi * ((far * far) % 4))
    beyond = (1 + 1j) / 2 * (1 - quarter * w)
    found = numpy.where(size < 1.5, total, numpy.where(size < 1e7, beyond, 0.5 + 0.5j))
    return numpy.where(numpy.isnan(x), numpy.nan * (1 + 1j), found * numpy.sign(x))


def _dilogarithm(x: NDArray[Any]) -> Any:
    """The dilogarithm of 1 - x, brought to where the series in Bernoulli's numbers converges quickly."""
    y = numpy.where(x > 0, x, 1.0)
    large, small = y > 2, y < 0.5
    z = numpy.where(large, 1 / (1 - y), numpy.where(small, y, 1 - y))
    u = -numpy.log1p(-numpy.where(z == 1, 0.0, z))
    square = u * u
    total = numpy.zeros_like(u)
    for constant in _SERIES:
        total = total * square + constant
    total = u * (1 - u / 4 + square * total)
    sixth = numpy.pi**2 / 6
    log_z = numpy.log(numpy.where(small, 1 - y, 1.0))
    from_large = -sixth - numpy.log(numpy.where(large, y - 1, 1.0)) ** 2 / 2 - total
    from_small = sixth - numpy.log(y) * log_z - total
    found = numpy.where(large, from_large, numpy.where(small, from_small, total))
    found = numpy.where(x == 0, sixth, found)
    return numpy.where((x < 0) | numpy.isnan(x), numpy.nan, found)


def _bernoulli_over_factorial(count: int) -> tuple[float, ...]:
    """B(2n) / (2n + 1)! for n = count, ..., 1."""
    numbers = [1.0]
    for order in range(1, 2 * count + 1):
        total, binomial = 0.0, 1.0
        for number in range(order):
            total += binomial * numbers[number]
            binomial = binomial * (order + 1 - number) / (number + 1)
        numbers.append(-total / (order + 1))
    found = []
    factorial = 1.0
    for order in range(1, 2 * count + 1):
        factorial *= order
        if order % 2 == 0:
            found.append(numbers[order] / (factorial * (order + 1)))
    return tuple(reversed(found))


_SERIES = _bernoulli_over_factorial(11)


def _asymptotic(x: NDArray[Any], factor: Callable[[int, NDArray[Any]], Any], count: int) -> Any:
    """1 + f(1) + f(1) f(2) + ... as long as the terms fall."""
    term = numpy.ones_like(x)
    total = numpy.ones_like(x)
    for number in range(1, count):
        following = term * factor(number, x)
        term = numpy.where(numpy.abs(following) < numpy.abs(term), following, 0.0)
        total = total + term
    return total


def _trapezoids(function: Callable[..., Any], reach: NDArray[Any], x: NDArray[Any]) -> Any:
    """The integral of an even function of t from 0 to a reach that is another for each x."""
    step = reach / _POINTS
    total = 0.5 * function(numpy.zeros_like(x), x)
    for number in range(1, _POINTS):
        total = total + function(step * number, x)
    return total * step
