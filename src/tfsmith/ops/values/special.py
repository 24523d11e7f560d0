"""Values of special functions: errors, gamma, beta, zeta. numpy has none of them; these need no scipy.

The constants are fits of our own to the functions, made with 50 digits; each says on which range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import value
from tfsmith.ops.values.arguments import check, rounded

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["in_double", "log_gamma"]

_BLOCK = 1 << 15
"""Elements that are computed at a time, so that they stay in the cache."""
_ERF_END = 3.925
"""From here on the error function is 1 in float32."""
# erf(x) / x as a quotient of polynomials of x * x, for |x| < _ERF_END, within 2e-8
_ERF_OVER = (
    2.0459943686658326e-06, 0.00028482560063812577, 0.0037721060673503856, 0.05276789466657199, 0.19058454685450935,
    1.12837914592211,
)  # fmt: skip
_ERF_UNDER = (
    3.804649273887424e-05, 0.0011637353733721, 0.014982312249950778, 0.11417874819860553, 0.5022338900109354, 1.0,
)  # fmt: skip
# erf(x) / x in t = 2 x x - 1, for |x| < 1
_ERF_NEAR = (
    1.454817075960679e-14, -3.8078827395263415e-13, 9.167606746069445e-12, -2.035228404899467e-10,
    4.11580059766496e-09, -7.51156928660089e-08, 1.223382738352401e-06, -1.7537169441124826e-05, 0.00021751715604160108,
    -0.0022854855611441132, 0.019852496688983708, -0.1405360890227171, 0.9654687386698673,
)  # fmt: skip
# exp(x * x) * erfc(x) * (1 + 2 x) in t = (x - 3) / (x + 3), for x > 0
_ERFC_SCALED = (
    3.279209084370006e-11, -3.722451327004375e-11, -4.177382990003862e-10, 2.1675048969615204e-10,
    2.779959283189184e-09, 4.4817555029519333e-10, -1.3054345794248585e-08, -1.2581767405545219e-08,
    4.853892930954188e-08, 1.0126845607238986e-07, -1.481435666690587e-07, -6.163869055512103e-07,
    3.611513470953737e-07, 3.472390115145775e-06, -7.33453567712616e-07, -2.0100605325083817e-05,
    4.9500769060930365e-06, 0.00012509937456456623, -0.00010515991811680928, -0.0007798322781262303,
    0.0018886903738194515, 0.0025293918169509407, -0.023770514919666218, 0.06830802734391057, -0.119273663415274,
    0.1296451587027629, -0.04756229435345119, -0.1356211061245812, 1.2530080582697296,
)  # fmt: skip
# log(gamma(x)) / ((x - 1) * (x - 2)) in t = x - 2, for 1 <= x <= 3
_LOG_GAMMA = (
    4.2453673576593125e-10, -8.190037783551156e-10, -1.38994451662441e-09, 2.4694237633377504e-09,
    4.927878685807231e-09, -8.952022836709702e-09, -7.603161817337265e-10, -7.860744687083056e-10,
    2.6247261052647615e-08, -5.2038665332275675e-08, 8.745972665553556e-08, -1.861315818147291e-07,
    4.055632887824375e-07, -8.554816957122729e-07, 1.8074596187759183e-06, -3.846514242663473e-06,
    8.22234752455359e-06, -1.76618554743359e-05, 3.816886281372433e-05, -8.30950999467849e-05, 0.0001825526419770573,
    -0.0004057073999387517, 0.0009153769220606788, -0.0021081308338291313, 0.004998641164703877, -0.012384192193374355,
    0.03296500062115574, -0.1003173016743539, 0.42278433509846713,
)  # fmt: skip
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798, -174611 / 330)
"""The numbers of Bernoulli with even index, from 2 on."""


# Errors


@value("Erf")
def _erf(x: NDArray[Any]) -> Any:
    return rounded(lambda x: _erf_quick(x) if x.dtype == numpy.float32 else _erf_exact(x), x)


@value("Erfc")
def _erfc(x: NDArray[Any]) -> Any:
    return in_double(_erfc_exact, x)


@value("Erfinv")
def _erfinv(x: NDArray[Any]) -> Any:
    return in_double(lambda x: _normal_quantile((1 - numpy.abs(x)) / 2) * -numpy.sqrt(0.5) * numpy.sign(x), x)


@value("Ndtri")
def _ndtri(x: NDArray[Any]) -> Any:
    return in_double(_normal_quantile, x)


# Gamma


@value("Lgamma")
def _lgamma(x: NDArray[Any]) -> Any:
    return in_double(log_gamma, x)


@value("Digamma")
def _digamma(x: NDArray[Any]) -> Any:
    return in_double(_psi, x)


@value("Igamma")
def _igamma(a: NDArray[Any], x: NDArray[Any]) -> Any:
    return in_double(lambda a, x: _gamma_parts(a, x)[0], a, x)


@value("Igammac")
def _igammac(a: NDArray[Any], x: NDArray[Any]) -> Any:
    return in_double(lambda a, x: _gamma_parts(a, x)[1], a, x)


@value("Betainc")
def _betainc(a: NDArray[Any], b: NDArray[Any], x: NDArray[Any]) -> Any:
    shapes = {one.shape for one in (a, b, x) if one.ndim}
    check(len(shapes) <= 1, f"shapes {', '.join(str(list(shape)) for shape in sorted(shapes))} differ")
    return in_double(_beta_part, a, b, x)


@value("Zeta")
def _zeta(x: NDArray[Any], q: NDArray[Any]) -> Any:
    return in_double(_hurwitz, x, q)


@value("Polygamma")
def _polygamma(a: NDArray[Any], x: NDArray[Any]) -> Any:
    def polygamma(n: NDArray[Any], x: NDArray[Any]) -> Any:
        sign = numpy.where(n % 2 == 0, -1.0, 1.0)
        found = sign * numpy.exp(log_gamma(n + 1)) * _hurwitz(n + 1, x)
        return numpy.where((n < 0) | (n != numpy.floor(n)), numpy.nan, numpy.where(n == 0, _psi(x), found))

    return in_double(polygamma, a, x)


def log_gamma(x: NDArray[Any]) -> Any:
    """The logarithm of the absolute value of gamma, of float64."""
    small = x < 0.5
    y = numpy.where(small, 1 - x, x)  # gamma(x) * gamma(1 - x) = pi / sin(pi * x)
    found = _log_gamma_positive(y)
    sine = numpy.abs(numpy.sin(numpy.pi * (x - numpy.round(x))))
    reflected = numpy.log(numpy.pi / sine) - found
    near_zero = (x > -0.5) & small  # log(gamma(x)) = log(gamma(x + 1)) - log|x|, without loss near zero
    shifted = _log_gamma_positive(numpy.where(near_zero, x + 1, 1.0)) - numpy.log(numpy.abs(x))
    found = numpy.where(small, numpy.where(near_zero, shifted, reflected), found)
    return numpy.where(numpy.isinf(x), numpy.inf, found)


def _log_gamma_positive(x: NDArray[Any]) -> Any:
    """For x >= 0.5: down to [1, 3] by the recurrence, where it is below 12, and by Stirling's series above."""
    y = numpy.where(x < 12, x, 2.0)
    factor = numpy.ones_like(y)
    for _ in range(10):
        large = y > 3
        y = numpy.where(large, y - 1, y)
        factor = numpy.where(large, factor * y, factor)
    low = y < 1
    t = numpy.where(low, y - 1, y - 2)  # y + 1 would not be exact
    shift = numpy.where(low, -numpy.log1p(t), numpy.log(factor))
    near = shift + (t + 1) * t * _polynomial(_LOG_GAMMA, t)
    inverse = 1 / x
    series = numpy.zeros_like(x)
    for number in range(8, 0, -1):
        series = series * inverse * inverse + _BERNOULLI[number - 1] / (2 * number * (2 * number - 1))
    far = (x - 0.5) * numpy.log(x) - x + 0.5 * numpy.log(2 * numpy.pi) + series * inverse
    return numpy.where(x < 12, near, far)


def _psi(x: NDArray[Any]) -> Any:
    """The derivative of `log_gamma`."""
    negative = x <= 0
    y = numpy.where(negative, 1 - x, x)
    shift = numpy.zeros_like(y)
    for _ in range(10):
        small = y < 10
        shift = numpy.where(small, shift + 1 / y, shift)
        y = numpy.where(small, y + 1, y)
    square = 1 / (y * y)
    series = numpy.zeros_like(y)
    for number in range(8, 0, -1):
        series = (series + _BERNOULLI[number - 1] / (2 * number)) * square
    found = numpy.log(y) - 0.5 / y - series - shift
    rest = x - numpy.round(x)
    reflected = found - numpy.pi / numpy.tan(numpy.pi * rest)
    found = numpy.where(negative, numpy.where(rest == 0, numpy.nan, reflected), found)
    return numpy.where(x == numpy.inf, numpy.inf, found)


def _gamma_parts(a: NDArray[Any], x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """The lower and the upper part of the gamma function, which add up to 1."""
    good = (x > 0) & (a > 0) & numpy.isfinite(x) & numpy.isfinite(a)
    s, y = numpy.where(good, a, 1.0), numpy.where(good, x, 1.0)
    scale = numpy.exp(s * numpy.log(y) - y - log_gamma(s))
    rising = (y <= 1) | (y <= s)

    term = total = numpy.ones_like(y)
    count = s
    for _ in range(_ROUNDS):  # y^n / ((s + 1) ... (s + n))
        count = count + 1
        term = numpy.where(rising, term * y / count, 0.0)
        total = total + term
        if not (term > total * _NEAR).any():
            break
    lower = total * scale / s

    fraction = _fraction(y, s, rising) * scale
    low = numpy.where(rising, lower, 1 - fraction)
    high = numpy.where(rising, 1 - lower, fraction)
    zero = (x == 0) & (a > 0) | (numpy.isinf(a) & (a > 0) & (x >= 0) & numpy.isfinite(x))
    one = (x == numpy.inf) & (a > 0) & numpy.isfinite(a)
    low = numpy.where(good, low, numpy.where(zero | (x == 0), 0.0, numpy.where(one, 1.0, numpy.nan)))
    high = numpy.where(good, high, numpy.where(zero, 1.0, numpy.where(one, 0.0, numpy.nan)))
    return low, high


_ROUNDS = 2000
_NEAR = 2.0**-54
_TINY = 1e-300


def _fraction(x: NDArray[Any], a: NDArray[Any], done: NDArray[Any]) -> Any:
    """The continued fraction of the upper part of gamma, by the algorithm of Lentz."""
    b = x + 1 - a
    b = numpy.where(done, 1.0, b)
    c = numpy.full_like(x, 1 / _TINY)
    d = 1 / b
    found = d
    for number in range(1, _ROUNDS):
        over = number * (a - number)
        b = b + 2
        d = _away(over * d + b)
        c = _away(b + over / c)
        d = 1 / d
        step = c * d
        found = found * numpy.where(done, 1.0, step)
        done = done | ~(numpy.abs(step - 1) > _NEAR * 4)
        if done.all():
            break
    return found


def _beta_part(a: NDArray[Any], b: NDArray[Any], x: NDArray[Any]) -> Any:
    """The regularized incomplete beta function."""
    inside = (x > 0) & (x < 1) & (a > 0) & (b > 0)
    p, q, y = (numpy.where(inside, one, 0.5) for one in (a, b, x))
    turned = y > (p + 1) / (p + q + 2)
    p, q, y = numpy.where(turned, q, p), numpy.where(turned, p, q), numpy.where(turned, 1 - y, y)
    scale = numpy.exp(log_gamma(p + q) - log_gamma(p) - log_gamma(q) + p * numpy.log(y) + q * numpy.log1p(-y))
    c = numpy.ones_like(y)
    d = 1 / _away(1 - (p + q) * y / (p + 1))
    found = d
    done = ~inside
    for number in range(1, _ROUNDS):
        even = number * (q - number) * y / ((p + 2 * number - 1) * (p + 2 * number))
        odd = -(p + number) * (p + q + number) * y / ((p + 2 * number) * (p + 2 * number + 1))
        for over in (even, odd):
            d = 1 / _away(1 + over * d)
            c = _away(1 + over / c)
            found = found * numpy.where(done, 1.0, c * d)
        done = done | ~(numpy.abs(c * d - 1) > _NEAR * 4)
        if done.all():
            break
    part = scale * found / p
    part = numpy.where(turned, 1 - part, part)
    good = (a > 0) & (b > 0)
    return numpy.where(inside, part, numpy.where(good & (x == 0), 0.0, numpy.where(good & (x == 1), 1.0, numpy.nan)))


def _hurwitz(x: NDArray[Any], q: NDArray[Any]) -> Any:
    """The sum of (n + q) ** -x over n = 0, 1, ..., by the formula of Euler and Maclaurin."""
    terms = 12
    good = (x > 1) & ((q > 0) | (x == numpy.floor(x)))
    s, start = numpy.where(good, x, 2.0), numpy.where(good & (q > -200), q, 1.0)
    before = numpy.zeros_like(s)
    while (start < 0).any():  # whole powers have a sum from below zero, too
        before = numpy.where(start < 0, before + start**-s, before)
        start = numpy.where(start < 0, start + 1, start)
    total = before
    for number in range(terms):
        total = total + (start + number) ** -s
    end = start + terms
    total = total + end ** (1 - s) / (s - 1) + 0.5 * end**-s
    factor = s * end ** (-s - 1)
    for number, bernoulli in enumerate(_BERNOULLI, 1):
        total = total + bernoulli * factor / float(numpy.prod(numpy.arange(1.0, 2 * number + 1)))
        factor = factor * (s + 2 * number - 1) * (s + 2 * number) / (end * end)
    pole = (q <= 0) & (q == numpy.floor(q))
    at_pole = numpy.where(x % 2 == 0, numpy.inf, numpy.nan)  # odd powers have both signs there
    found = numpy.where(good, numpy.where(pole, at_pole, total), numpy.nan)
    return numpy.where(x == 1, numpy.inf, numpy.where(numpy.isnan(q), numpy.nan, found))


def _erf_quick(x: NDArray[Any]) -> NDArray[Any]:
    """The error function of float32, within 8 ulps."""
    flat = x.reshape(-1)
    found = numpy.empty(flat.shape, x.dtype)
    for start in range(0, flat.size, _BLOCK):
        part = numpy.clip(flat[start : start + _BLOCK], -_ERF_END, _ERF_END)
        square = part * part
        over, under = square * x.dtype.type(_ERF_OVER[0]), square * x.dtype.type(_ERF_UNDER[0])
        for sums, constants in ((over, _ERF_OVER), (under, _ERF_UNDER)):
            for constant in constants[1:-1]:
                sums += x.dtype.type(constant)
                sums *= square
            sums += x.dtype.type(constants[-1])
        over /= under
        over *= part
        numpy.clip(over, -1, 1, out=found[start : start + _BLOCK])
    return found.reshape(x.shape)


def _erf_exact(x: NDArray[Any]) -> Any:
    size = numpy.abs(x)
    near = x * _polynomial(_ERF_NEAR, 2 * x * x - 1)
    far = numpy.copysign(1 - _erfc_positive(size), x)
    return numpy.where(size < 1, near, far)


def _erfc_exact(x: NDArray[Any]) -> Any:
    size = numpy.abs(x)
    far = _erfc_positive(size)
    return numpy.where(size < 0.5, 1 - _erf_exact(x), numpy.where(x < 0, 2 - far, far))


def _erfc_positive(x: NDArray[Any]) -> Any:
    x = numpy.minimum(x, 1e3)  # far beyond the last that is not 0
    scaled = _polynomial(_ERFC_SCALED, (x - 3) / (x + 3)) / (1 + 2 * x)
    high = x.astype(numpy.float32).astype(numpy.float64)  # its square is exact
    return scaled * numpy.exp(-high * high) * numpy.exp((high - x) * (high + x))


def _normal_quantile(p: NDArray[Any]) -> Any:
    """Where the normal distribution reaches p: a first guess (Abramowitz and Stegun 26.2.23), then Halley's steps."""
    low = numpy.minimum(p, 1 - p)
    inside = low > 0
    tail = numpy.where(inside, low, 0.25)
    t = numpy.sqrt(-2 * numpy.log(tail))
    under = ((0.001308 * t + 0.189269) * t + 1.432788) * t + 1
    x = ((0.010328 * t + 0.802853) * t + 2.515517) / under - t
    for _ in range(3):
        error = (0.5 * _erfc_exact(-x * numpy.sqrt(0.5)) - tail) * numpy.sqrt(2 * numpy.pi) * numpy.exp(x * x / 2)
        x = x - error / (1 + x * error / 2)
    found = numpy.where(inside, numpy.where(p > 0.5, -x, x), numpy.where(p == 0, -numpy.inf, numpy.inf))
    return numpy.where((p < 0) | (p > 1) | numpy.isnan(p), numpy.nan, numpy.where(p == 0.5, 0.0, found))


def _polynomial(constants: tuple[float, ...], x: NDArray[Any]) -> Any:
    """A polynomial by Horner's rule, the highest power first."""
    found = numpy.full(numpy.shape(x), constants[0])
    for constant in constants[1:]:
        found = found * x + constant
    return found


def _away(x: NDArray[Any]) -> Any:
    """Numbers that are not quite 0, as Lentz needs them."""
    return numpy.where(numpy.abs(x) < _TINY, _TINY, x)


def in_double(function: Callable[..., Any], *inputs: NDArray[Any]) -> Any:
    """What a function gives for inputs in float64, rounded to their own type."""
    kind = inputs[0].dtype
    wide = numpy.broadcast_arrays(*(one.astype(numpy.float64) for one in inputs))
    return numpy.asarray(function(*wide)).astype(kind)
