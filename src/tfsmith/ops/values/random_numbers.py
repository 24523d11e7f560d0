"""Values of random ops: the numbers of Philox 4x32-10 (Salmon and others, 2011), bit by bit as TensorFlow draws them.

A generator is a key of 64 bits and a counter of 128; each counter gives four words of 32 bits. An op with seeds gives
the same numbers in each new program, and other ones each time it runs. Without seeds it starts anywhere.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, State, value
from tfsmith.ops.values.arguments import BFLOAT16, check, check_room, sizes_of
from tfsmith.ops.values.variables import Variable

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Generator", "drawn", "fractions_double", "shuffled"]

_WORD = 0xFFFFFFFF
_LONG = (1 << 64) - 1
_MULTIPLIERS = (numpy.uint64(0xD2511F53), numpy.uint64(0xCD9E8D57))
_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_HASH_KEY = 0x02461E293EC8F720
"""The key by which the seeds of stateless ops are mixed."""
_RESERVED = 256
"""Counters that an op leaves out for each number of its output, so that its next run gets other ones."""
_LIMIT = 2.0
"""Where normal numbers are truncated."""


class Generator:
    """The position of a generator.

    Attributes:
        key: 64 bits.
        counter: 128 bits.
    """

    def __init__(self, key: int, counter: int) -> None:
        self.key = key
        self.counter = counter

    def skip(self, count: int) -> Generator:
        """The generator so many counters later; this one stays."""
        low = (self.counter + count) & ((1 << 128) - 1)
        return Generator(self.key, low)

    def words(self, count: int) -> NDArray[Any]:
        """The words of the next counters: four for each."""
        return self.words_at(numpy.arange(count, dtype=numpy.uint64))

    def words_at(self, places: NDArray[Any]) -> NDArray[Any]:
        """The words of the counters at these distances: four for each."""
        low, high = numpy.uint64(self.counter & _LONG), numpy.uint64(self.counter >> 64)
        first = places + low
        second = numpy.where(first < low, high + numpy.uint64(1), high)
        mask, half = numpy.uint64(_WORD), numpy.uint64(32)
        c0, c1, c2, c3 = first & mask, first >> half, second & mask, second >> half
        k0, k1 = self.key & _WORD, self.key >> 32
        for _ in range(_ROUNDS):
            left, right = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
            c0, c1 = (right >> half) ^ c1 ^ numpy.uint64(k0), right & mask
            c2, c3 = (left >> half) ^ c3 ^ numpy.uint64(k1), left & mask
            k0, k1 = (k0 + _STEPS[0]) & _WORD, (k1 + _STEPS[1]) & _WORD
        return numpy.stack([c0, c1, c2, c3], -1).astype(numpy.uint32)


# With a state


@value("RandomUniform")
def _random_uniform(shape: NDArray[Any], *, dtype: DType, seed: int, seed2: int, state: State | None) -> Any:
    return _shaped(shape, lambda count: _uniform(drawn(state, seed, seed2, count * _RESERVED), count, dtype.numpy()))


@value("RandomUniformInt")
def _random_uniform_int(
    shape: NDArray[Any], minval: NDArray[Any], maxval: NDArray[Any], *, seed: int, seed2: int, state: State | None
) -> Any:
    return _shaped(shape, lambda count: _whole(drawn(state, seed, seed2, count * _RESERVED), count, minval, maxval))


@value("RandomStandardNormal")
def _random_normal(shape: NDArray[Any], *, dtype: DType, seed: int, seed2: int, state: State | None) -> Any:
    return _shaped(shape, lambda count: _normal(drawn(state, seed, seed2, count * _RESERVED), count, dtype.numpy()))


@value("TruncatedNormal")
def _truncated_normal(shape: NDArray[Any], *, dtype: DType, seed: int, seed2: int, state: State | None) -> Any:
    return _shaped(shape, lambda count: _truncated(drawn(state, seed, seed2, count * _RESERVED), count, dtype.numpy()))


@value("RandomShuffle")
def _random_shuffle(x: NDArray[Any], *, seed: int, seed2: int, state: State | None) -> Any:
    if x.ndim == 0 or len(x) <= 1:
        return x
    count = (len(x) + 2) // 4  # one word for each element but the last
    words = drawn(state, seed, seed2, count).words(count).reshape(-1)
    return x[shuffled(len(x), words)]


def shuffled(count: int, words: NDArray[Any]) -> list[int]:
    """Numbers below the count in another order, with a word for each but the last."""
    order = list(range(count))
    for place in range(count - 1):
        other = place + int(words[place]) % (count - place)
        order[place], order[other] = order[other], order[place]
    return order


@value("Multinomial")
def _multinomial(
    logits: NDArray[Any], num_samples: NDArray[Any], *, seed: int, seed2: int, output_dtype: DType, state: State | None
) -> Any:
    count = _check_logits(logits, num_samples)
    generator = drawn(state, seed, seed2, len(logits) * ((count + 3) // 4 * 8) * _RESERVED)
    return _chosen(generator, logits, count, output_dtype)


# Without


@value("StatelessRandomUniform")
def _stateless_uniform(shape: NDArray[Any], seed: NDArray[Any], *, dtype: DType) -> Any:
    return _shaped(shape, lambda count: _uniform(_seeded(seed), count, dtype.numpy()))


@value("StatelessRandomNormal")
def _stateless_normal(shape: NDArray[Any], seed: NDArray[Any], *, dtype: DType) -> Any:
    return _shaped(shape, lambda count: _normal(_seeded(seed), count, dtype.numpy()))


@value("StatelessTruncatedNormal")
def _stateless_truncated(shape: NDArray[Any], seed: NDArray[Any], *, dtype: DType) -> Any:
    return _shaped(shape, lambda count: _truncated(_seeded(seed), count, dtype.numpy()))


@value("StatelessRandomUniformInt")
def _stateless_uniform_int(shape: NDArray[Any], seed: NDArray[Any], minval: NDArray[Any], maxval: NDArray[Any]) -> Any:
    return _shaped(shape, lambda count: _whole(_seeded(seed), count, minval, maxval))


@value("StatelessRandomUniformFullInt")
def _stateless_full_int(shape: NDArray[Any], seed: NDArray[Any], *, dtype: DType) -> Any:
    return _shaped(shape, lambda count: _full(_seeded(seed), count, dtype.numpy()))


@value("StatelessMultinomial")
def _stateless_multinomial(
    logits: NDArray[Any], num_samples: NDArray[Any], seed: NDArray[Any], *, output_dtype: DType
) -> Any:
    return _chosen(_seeded(seed), logits, _check_logits(logits, num_samples), output_dtype)


@value("StatelessRandomGetKeyCounter")
def _stateless_key_counter(seed: NDArray[Any]) -> Any:
    found = _seeded(seed)
    return numpy.array([found.key], numpy.uint64), numpy.array(
        [found.counter & _LONG, found.counter >> 64], numpy.uint64
    )


@value("StatelessRandomGetAlg")
def _stateless_alg() -> Any:
    return numpy.array(1, numpy.int32)


@value("StatelessRandomGetKeyCounterAlg")
def _stateless_key_counter_alg(seed: NDArray[Any]) -> Any:
    return (*_stateless_key_counter(seed), _stateless_alg())


@value("StatelessRandomUniformV2")
def _stateless_uniform_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], *, dtype: DType
) -> Any:
    return _shaped(shape, lambda count: _uniform(_keyed(key, counter, alg), count, dtype.numpy()))


@value("StatelessRandomNormalV2")
def _stateless_normal_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], *, dtype: DType
) -> Any:
    return _shaped(shape, lambda count: _normal(_keyed(key, counter, alg), count, dtype.numpy()))


@value("StatelessTruncatedNormalV2")
def _stateless_truncated_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], *, dtype: DType
) -> Any:
    return _shaped(shape, lambda count: _truncated(_keyed(key, counter, alg), count, dtype.numpy()))


@value("StatelessRandomUniformIntV2")
def _stateless_uniform_int_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], minval: NDArray[Any],
    maxval: NDArray[Any],
) -> Any:  # fmt: skip
    return _shaped(shape, lambda count: _whole(_keyed(key, counter, alg), count, minval, maxval))


@value("StatelessRandomUniformFullIntV2")
def _stateless_full_int_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], *, dtype: DType
) -> Any:
    return _shaped(shape, lambda count: _full(_keyed(key, counter, alg), count, dtype.numpy()))


@value("StatelessShuffle")
def _stateless_shuffle(x: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any]) -> Any:
    if x.ndim == 0 or len(x) <= 1:
        return x
    return x[shuffled(len(x), _keyed(key, counter, alg).words((len(x) + 3) // 4).reshape(-1))]


# With the state in a variable: the counter, then the key


@value("StatefulUniform")
def _stateful_uniform(resource: Variable, algorithm: NDArray[Any], shape: NDArray[Any], *, dtype: DType) -> Any:
    return _shaped(shape, lambda count: _uniform(_moved(resource, algorithm, count), count, dtype.numpy()))


@value("StatefulStandardNormalV2")
def _stateful_normal(resource: Variable, algorithm: NDArray[Any], shape: NDArray[Any], *, dtype: DType) -> Any:
    return _shaped(shape, lambda count: _normal(_moved(resource, algorithm, count), count, dtype.numpy()))


@value("StatefulTruncatedNormal")
def _stateful_truncated(resource: Variable, algorithm: NDArray[Any], shape: NDArray[Any], *, dtype: DType) -> Any:
    return _shaped(shape, lambda count: _truncated(_moved(resource, algorithm, count), count, dtype.numpy()))


@value("StatefulUniformInt")
def _stateful_uniform_int(
    resource: Variable, algorithm: NDArray[Any], shape: NDArray[Any], minval: NDArray[Any], maxval: NDArray[Any]
) -> Any:
    return _shaped(shape, lambda count: _whole(_moved(resource, algorithm, count), count, minval, maxval))


@value("StatefulUniformFullInt")
def _stateful_full_int(resource: Variable, algorithm: NDArray[Any], shape: NDArray[Any], *, dtype: DType) -> Any:
    return _shaped(shape, lambda count: _full(_moved(resource, algorithm, count), count, dtype.numpy()))


@value("RngSkip")
def _rng_skip(resource: Variable, algorithm: NDArray[Any], delta: NDArray[Any]) -> tuple[Any, ...]:
    _moved(resource, algorithm, int(delta))
    return ()


@value("RngReadAndSkip")
def _rng_read_and_skip(resource: Variable, algorithm: NDArray[Any], delta: NDArray[Any]) -> Any:
    before = resource.read()
    _moved(resource, algorithm, int(delta))
    return before


def _moved(resource: Variable, algorithm: NDArray[Any], count: int) -> Generator:
    """The generator of a variable where it is now; the variable moves behind so many numbers."""
    check(algorithm.ndim == 0 and int(algorithm) == 1, "the algorithm is not Philox")
    held = resource.read()
    check(held.dtype == numpy.int64 and held.ndim == 1 and len(held) >= 3, "the variable is no state of Philox")
    low, high, key = (int(one) & _LONG for one in held[:3])
    now = Generator(key, low | high << 64)
    after = now.skip(count * _RESERVED).counter
    left = numpy.array([after & _LONG, after >> 64], numpy.uint64).view(numpy.int64)
    resource.value = numpy.concatenate([left, held[2:]])
    return now


# Where a generator starts


def drawn(state: State | None, seed: int, seed2: int, reserved: int) -> Generator:
    """The generator of a node where it is now; the next run starts behind what is reserved."""
    if state is None:
        raise OpError("random numbers need a program that keeps their state")

    def make() -> list[Generator]:
        if seed == seed2 == 0:
            return [Generator(secrets.randbits(64), secrets.randbits(128))]
        return [Generator(seed & _LONG, (seed2 & _LONG) << 64)]

    kept = state.keep("random", make)
    now = kept[0]
    kept[0] = now.skip(reserved)
    return now


def _seeded(seed: NDArray[Any]) -> Generator:
    """The generator of two seeds, which are mixed first."""
    check(seed.shape == (2,), f"the seed must be two numbers, not shape {list(seed.shape)}")
    low, high = (int(one) & _LONG for one in seed)
    mixed = [int(word) for word in Generator(_HASH_KEY, low | high << 64).words(1)[0]]
    return Generator(mixed[0] | mixed[1] << 32, (mixed[2] | mixed[3] << 32) << 64)


def _keyed(key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any]) -> Generator:
    check(int(alg) in (1, 3), f"algorithm {int(alg)} is not Philox")
    check(key.shape == (1,), f"the key must be one number, not shape {list(key.shape)}")
    check(counter.ndim == 1 and counter.size > 0, f"the counter must be two numbers, not shape {list(counter.shape)}")
    return Generator(int(key[0]), sum(int(part) << 64 * place for place, part in enumerate(counter[:2])))


# What is made of words


def _shaped(shape: NDArray[Any], make: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    sizes = sizes_of(shape, "the shape")
    check(all(size >= 0 for size in sizes), f"shape {sizes} has a negative size")
    check_room(sizes, numpy.dtype(numpy.float64))  # in which the widest are made
    return make(int(numpy.prod(sizes, dtype=numpy.int64))).reshape(sizes)


def _longs(words: NDArray[Any]) -> Any:
    """Two words as one of 64 bits, the low one first."""
    pairs = words.reshape(-1, 2).astype(numpy.uint64)
    return pairs[:, 0] | pairs[:, 1] << numpy.uint64(32)


def _full(generator: Generator, count: int, kind: numpy.dtype[Any]) -> Any:
    if kind.itemsize == 8:
        return _longs(generator.words((count + 1) // 2))[:count].view(kind)
    return generator.words((count + 3) // 4).reshape(-1)[:count].view(kind)


def _whole(generator: Generator, count: int, low: NDArray[Any], high: NDArray[Any]) -> Any:
    """Whole numbers from low to below high."""
    for one in (low, high):
        check(one.ndim == 0, f"a bound must be a scalar, and has shape {list(one.shape)}")
    if count == 0:
        return numpy.zeros(0, low.dtype)
    check(int(low) < int(high), f"the least number {int(low)} is not below {int(high)}")
    unsigned = numpy.dtype(f"u{low.dtype.itemsize}")
    drawn = _full(generator, count, unsigned) % unsigned.type(int(high) - int(low))
    return (drawn + low.astype(unsigned)).view(low.dtype)


def _uniform(generator: Generator, count: int, kind: numpy.dtype[Any]) -> Any:
    """Numbers from 0 to below 1: the bits of a number from 1 to 2, less 1."""
    if kind == numpy.float64:
        return fractions_double(generator.words((count + 1) // 2))[:count]
    words = generator.words((count + 3) // 4).reshape(-1)[:count]
    if kind == numpy.float32:
        return _fractions(words)
    digits, one = (7, 127 << 7) if kind == BFLOAT16 else (10, 15 << 10)
    bits = (words & numpy.uint32((1 << digits) - 1)).astype(numpy.uint16) | numpy.uint16(one)
    return numpy.asarray(bits.view(kind) - kind.type(1))


def _fractions(words: NDArray[Any]) -> Any:
    """Words as float32 from 0 to below 1."""
    return (words & numpy.uint32(0x7FFFFF) | numpy.uint32(127 << 23)).view(numpy.float32) - numpy.float32(1)


def fractions_double(words: NDArray[Any]) -> Any:
    """Pairs of words as float64 from 0 to below 1."""
    pairs = words.reshape(-1, 2).astype(numpy.uint64)
    bits = (pairs[:, 0] & numpy.uint64(0xFFFFF)) << numpy.uint64(32) | pairs[:, 1]
    return (bits | numpy.uint64(1023 << 52)).view(numpy.float64) - 1.0


def _check_logits(logits: NDArray[Any], num_samples: NDArray[Any]) -> int:
    """How many samples are wanted."""
    check(logits.ndim == 2, f"a matrix of logits is needed, not shape {list(logits.shape)}")
    check(num_samples.ndim == 0, f"the number of samples must be a scalar, not shape {list(num_samples.shape)}")
    count = int(num_samples)
    check(count >= 0, f"the number of samples is negative: {count}")
    check_room([len(logits), count], numpy.dtype(numpy.float64))
    check(logits.shape[1] > 0, "there are no classes to choose from")
    return count


def _chosen(generator: Generator, logits: NDArray[Any], count: int, kind: DType) -> NDArray[Any]:
    """Classes with the probabilities of their logits. Infinities and NaN are never chosen."""
    found = numpy.zeros((len(logits), count), kind.numpy())
    drawn = fractions_double(generator.words((found.size + 1) // 2))[: found.size].reshape(found.shape)
    for row, one in enumerate(logits.astype(numpy.float64)):
        finite = numpy.isfinite(one)
        weights = numpy.where(finite, numpy.exp(one - one[finite].max(initial=-numpy.inf)), 0.0)
        sums = numpy.cumsum(weights)
        found[row] = numpy.searchsorted(sums, drawn[row] * sums[-1], side="right")
    return found


def _normal(generator: Generator, count: int, kind: numpy.dtype[Any]) -> NDArray[Any]:
    if kind == numpy.float64:
        return _pairs_double(generator.words((count + 1) // 2)).reshape(-1)[:count]
    return _pairs(generator.words((count + 3) // 4)).reshape(-1)[:count].astype(kind)


def _truncated(generator: Generator, count: int, kind: numpy.dtype[Any]) -> NDArray[Any]:
    """Normal numbers; what is beyond the limit is drawn again, each group of the output from its own counters."""
    double = kind == numpy.float64
    size = 2 if double else 4
    groups = (count + size - 1) // size
    tries = 16
    starts = numpy.arange(groups, dtype=numpy.uint64) * numpy.uint64(size * _RESERVED // 4)
    found = numpy.zeros((groups, size), numpy.float64 if double else numpy.float32)
    for group in range(groups):
        places = starts[group] + numpy.arange(tries, dtype=numpy.uint64)
        words = generator.words_at(places)
        drawn = (_pairs_double(words) if double else _pairs(words)).reshape(-1)
        kept = drawn[numpy.abs(drawn) < _LIMIT]
        while len(kept) < size:
            places = places + numpy.uint64(tries)
            words = generator.words_at(places)
            drawn = (_pairs_double(words) if double else _pairs(words)).reshape(-1)
            kept = numpy.concatenate([kept, drawn[numpy.abs(drawn) < _LIMIT]])
        found[group] = kept[:size]
    return found.reshape(-1)[:count].astype(kind)


def _pairs(words: NDArray[Any]) -> NDArray[Any]:
    """Normal numbers, two of two words (Box and Muller)."""
    pairs = _fractions(words.reshape(-1, 2))
    radius = numpy.sqrt(numpy.float32(-2) * numpy.log(numpy.maximum(pairs[:, 0], numpy.float32(1e-7))))
    angle = (2 * numpy.pi * pairs[:, 1].astype(numpy.float64)).astype(numpy.float32)
    return numpy.stack([numpy.sin(angle) * radius, numpy.cos(angle) * radius], -1)


def _pairs_double(words: NDArray[Any]) -> NDArray[Any]:
    """Normal numbers, two of four words."""
    pairs = fractions_double(words).reshape(-1, 2)
    radius = numpy.sqrt(-2 * numpy.log(numpy.maximum(pairs[:, 0], 1e-7)))
    angle = 2 * numpy.pi * pairs[:, 1]
    return numpy.stack([numpy.sin(angle) * radius, numpy.cos(angle) * radius], -1)
