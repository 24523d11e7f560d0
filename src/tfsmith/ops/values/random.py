"""Values of random ops, bit for bit as TensorFlow's CPU kernels draw them: Philox 4x32-10 and what is made of it.

An op with both seeds 0 draws other numbers on every run, as in TensorFlow. Seeded ones go on where their last run
ended: TensorFlow keeps 256 draws for each number of the output, and so does this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.dtype import DType
from tfsmith.limits import MAX_PROTO_BYTES
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.state import State

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Philox"]

_LOW = (1 << 32) - 1
_ALL = (1 << 64) - 1
_SCRAMBLER = 0x02461E293EC8F720
"""The key of the generator that mixes the two seeds of an op without state."""
_KEPT = 256
"""Draws that TensorFlow reserves for each number of an output."""


class Philox:
    """A generator: a key of 64 bits, and a counter of 128 that says how many groups of four were drawn."""

    def __init__(self, key: int, counter: int) -> None:
        self.key = key & _ALL
        self.counter = counter & ((1 << 128) - 1)

    def groups(self, count: int, start: int = 0, step: int = 1) -> NDArray[Any]:
        """So many groups of four numbers of 32 bits, as [count, 4]; group i is at counter + start + i * step."""
        base = self.counter + start
        places = numpy.arange(count, dtype=numpy.uint64) * numpy.uint64(step)
        low = (numpy.uint64(base & _ALL) + places).astype(numpy.uint64)
        high = numpy.full(count, (base >> 64) & _ALL, numpy.uint64) + (low < numpy.uint64(base & _ALL)).astype(
            numpy.uint64
        )
        mask, shift = numpy.uint64(_LOW), numpy.uint64(32)
        words = [low & mask, low >> shift, high & mask, high >> shift]
        keys = [self.key & _LOW, self.key >> 32]
        for _ in range(10):
            first = words[0] * numpy.uint64(0xD2511F53)
            second = words[2] * numpy.uint64(0xCD9E8D57)
            words = [
                (second >> shift) ^ words[1] ^ numpy.uint64(keys[0]),
                second & mask,
                (first >> shift) ^ words[3] ^ numpy.uint64(keys[1]),
                first & mask,
            ]
            keys = [(keys[0] + 0x9E3779B9) & _LOW, (keys[1] + 0xBB67AE85) & _LOW]
        return numpy.stack(words, 1).astype(numpy.uint32)

    def skip(self, count: int) -> None:
        """Passes over so many groups."""
        self.counter = (self.counter + count) & ((1 << 128) - 1)


def _seeded(seed: int, seed2: int, state: State | None) -> Philox:
    """The generator of a node, which lives as long as its program."""

    def make() -> Philox:
        if not seed and not seed2:
            drawn = numpy.random.SeedSequence().generate_state(2, numpy.uint64)
            return Philox(int(drawn[0]), int(drawn[1]) << 64)
        return Philox(seed, (seed2 & _ALL) << 64)

    return make() if state is None else state.keep("philox", make)


def _size(shape: NDArray[Any]) -> tuple[tuple[int, ...], int]:
    if shape.ndim != 1:
        raise OpError(f"the shape is a tensor of {shape.ndim} dimensions, and must be a vector")
    dims = tuple(shape.tolist())
    if any(size < 0 for size in dims):
        raise OpError(f"the shape {list(dims)} has a negative size")
    count = 1
    for size in dims:
        count *= size
    if count * 8 > 4 * MAX_PROTO_BYTES:
        raise OpError(f"{count} numbers are more than the memory of this engine")
    return dims, count


def _reserved(generator: Philox, count: int) -> Philox:
    """The generator as it is now; the node's own goes on behind what is reserved for this run."""
    now = Philox(generator.key, generator.counter)
    generator.skip(count * _KEPT)
    return now


# Numbers of bits


def _uniform(generator: Philox, count: int, kind: numpy.dtype[Any]) -> Any:
    """Numbers from 0 up to 1: random bits below the point, behind a one that is taken away again."""
    name = kind.name
    if name == "float64":
        pairs = generator.groups(-(-count // 2)).reshape(-1, 2).astype(numpy.uint64)
        bits = ((pairs[:, 0] & numpy.uint64(0xFFFFF)) << numpy.uint64(32)) | pairs[:, 1] | numpy.uint64(1023 << 52)
        return (bits.view(numpy.float64) - 1.0)[:count]
    words = generator.groups(-(-count // 4)).ravel()[:count]
    if name == "float32":
        return ((words & numpy.uint32(0x7FFFFF)) | numpy.uint32(127 << 23)).view(numpy.float32) - numpy.float32(1)
    if name == "float16":
        halves = ((words & numpy.uint32(0x3FF)) | numpy.uint32(15 << 10)).astype(numpy.uint16)
        return halves.view(numpy.float16) - numpy.float16(1)
    brains = ((words & numpy.uint32(0x7F)) | numpy.uint32(127 << 7)).astype(numpy.uint16)
    return (brains.view(kind).astype(numpy.float32) - numpy.float32(1)).astype(kind)


def _integers(generator: Philox, count: int, kind: numpy.dtype[Any]) -> Any:
    """All bits of an integer type, without sign."""
    if kind.itemsize == 8:
        pairs = generator.groups(-(-count // 2)).reshape(-1, 2).astype(numpy.uint64)
        return (pairs[:, 0] | (pairs[:, 1] << numpy.uint64(32)))[:count]
    return generator.groups(-(-count // 4)).ravel()[:count]


def _in_range(generator: Philox, count: int, low: NDArray[Any], high: NDArray[Any]) -> Any:
    if low.ndim or high.ndim:
        raise OpError("the bounds must be scalars")
    if int(low) >= int(high):
        raise OpError(f"the range from {int(low)} to {int(high)} is empty")
    bits = _integers(generator, count, low.dtype)
    span = bits.dtype.type((int(high) - int(low)) & (_ALL if bits.dtype.itemsize == 8 else _LOW))
    found = bits % span
    return (found + numpy.array(int(low)).astype(bits.dtype)).astype(low.dtype)


def _normal_pairs(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two uniform numbers become two normal ones, by Box and Muller."""
    kind = first.dtype.type
    least = kind(1e-7)
    first = numpy.where(first < least, least, first)
    angle = kind(2 * numpy.pi) * second
    radius = numpy.sqrt(kind(-2) * numpy.log(first))
    return numpy.sin(angle) * radius, numpy.cos(angle) * radius


def _to_unit(words: NDArray[Any]) -> Any:
    return ((words & numpy.uint32(0x7FFFFF)) | numpy.uint32(127 << 23)).view(numpy.float32) - numpy.float32(1)


def _to_unit_double(first: NDArray[Any], second: NDArray[Any]) -> Any:
    low = second.astype(numpy.uint64)
    bits = ((first.astype(numpy.uint64) & numpy.uint64(0xFFFFF)) << numpy.uint64(32)) | low | numpy.uint64(1023 << 52)
    return bits.view(numpy.float64) - 1.0


def _normal(generator: Philox, count: int, kind: numpy.dtype[Any]) -> Any:
    if kind.name == "float64":
        words = generator.groups(-(-count // 2))
        sines, cosines = _normal_pairs(
            _to_unit_double(words[:, 0], words[:, 1]), _to_unit_double(words[:, 2], words[:, 3])
        )
    else:
        words = generator.groups(-(-count // 4)).reshape(-1, 2)
        sines, cosines = _normal_pairs(_to_unit(words[:, 0]), _to_unit(words[:, 1]))
    return numpy.stack([sines, cosines], 1).ravel()[:count].astype(kind)


def _truncated(generator: Philox, count: int, kind: numpy.dtype[Any]) -> Any:
    """Normal numbers within two deviations; each group of the output draws from its own place until it is full."""
    size = 2 if kind.name == "float64" else 4
    number = -(-count // size)
    found = numpy.zeros((number, size), numpy.float64 if size == 2 else numpy.float32)
    filled = numpy.zeros(number, numpy.int64)
    skip = size * _KEPT // 4
    rows = numpy.arange(number)
    turn = 0
    while (filled < size).any():
        words = generator.groups(number, turn, skip)
        if size == 2:
            pairs = [
                _normal_pairs(_to_unit_double(words[:, 0], words[:, 1]), _to_unit_double(words[:, 2], words[:, 3]))
            ]
        else:
            pairs = [_normal_pairs(_to_unit(words[:, at]), _to_unit(words[:, at + 1])) for at in (0, 2)]
        for one in (one for pair in pairs for one in pair):
            taken = (numpy.abs(one) < 2) & (filled < size)
            found[rows[taken], filled[taken]] = one[taken]
            filled[taken] += 1
        turn += 1
    return found.ravel()[:count].astype(kind)


# Ops with state


@value("RandomUniform")
def _random_uniform(shape: NDArray[Any], *, seed: int, seed2: int, dtype: DType, state: State) -> Any:
    dims, count = _size(shape)
    return _uniform(_reserved(_seeded(seed, seed2, state), count), count, dtype.numpy()).reshape(dims)


@value("RandomStandardNormal")
def _random_normal(shape: NDArray[Any], *, seed: int, seed2: int, dtype: DType, state: State) -> Any:
    dims, count = _size(shape)
    return _normal(_reserved(_seeded(seed, seed2, state), count), count, dtype.numpy()).reshape(dims)


@value("TruncatedNormal")
def _truncated_normal(shape: NDArray[Any], *, seed: int, seed2: int, dtype: DType, state: State) -> Any:
    dims, count = _size(shape)
    return _truncated(_reserved(_seeded(seed, seed2, state), count), count, dtype.numpy()).reshape(dims)


@value("RandomUniformInt")
def _random_int(
    shape: NDArray[Any], low: NDArray[Any], high: NDArray[Any], *, seed: int, seed2: int, state: State
) -> Any:
    dims, count = _size(shape)
    if not count:
        return numpy.zeros(dims, low.dtype)
    return _in_range(_reserved(_seeded(seed, seed2, state), count), count, low, high).reshape(dims)


# Ops whose seed is an input


def _scrambled(seed: NDArray[Any]) -> Philox:
    """The generator that two seeds mean: its key and counter are what another one draws first."""
    if seed.shape != (2,):
        raise OpError(f"the seed has shape {list(seed.shape)}, not [2]")
    first, second = (int(one) & _ALL for one in seed)
    words = [int(word) for word in Philox(_SCRAMBLER, first | second << 64).groups(1)[0]]
    return Philox(words[0] | words[1] << 32, (words[2] | words[3] << 32) << 64)


def _given(key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any]) -> Philox:
    if int(alg) not in (1, 3):
        raise OpError(f"algorithm {int(alg)} is not Philox")
    if key.shape != (1,) or counter.ndim != 1 or counter.size < 2:
        raise OpError("the key must be one number, the counter two")
    return Philox(int(key[0]), int(counter[0]) | int(counter[1]) << 64)


@value("StatelessRandomGetKeyCounter")
def _key_counter(seed: NDArray[Any]) -> tuple[Any, ...]:
    found = _scrambled(seed)
    counter = numpy.array([found.counter & _ALL, found.counter >> 64], numpy.uint64)
    return numpy.array([found.key], numpy.uint64), counter


@value("StatelessRandomGetAlg")
def _algorithm() -> Any:
    return numpy.array(1, numpy.int32)


@value("StatelessRandomGetKeyCounterAlg")
def _key_counter_alg(seed: NDArray[Any]) -> tuple[Any, ...]:
    return (*_key_counter(seed), _algorithm())


@value("StatelessRandomUniform")
def _stateless_uniform(shape: NDArray[Any], seed: NDArray[Any], *, dtype: DType) -> Any:
    dims, count = _size(shape)
    return _uniform(_scrambled(seed), count, dtype.numpy()).reshape(dims)


@value("StatelessRandomUniformV2")
def _stateless_uniform_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], *, dtype: DType
) -> Any:
    dims, count = _size(shape)
    return _uniform(_given(key, counter, alg), count, dtype.numpy()).reshape(dims)


@value("StatelessRandomNormal")
def _stateless_normal(shape: NDArray[Any], seed: NDArray[Any], *, dtype: DType) -> Any:
    dims, count = _size(shape)
    return _normal(_scrambled(seed), count, dtype.numpy()).reshape(dims)


@value("StatelessRandomNormalV2")
def _stateless_normal_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], *, dtype: DType
) -> Any:
    dims, count = _size(shape)
    return _normal(_given(key, counter, alg), count, dtype.numpy()).reshape(dims)


@value("StatelessTruncatedNormal")
def _stateless_truncated(shape: NDArray[Any], seed: NDArray[Any], *, dtype: DType) -> Any:
    dims, count = _size(shape)
    return _truncated(_scrambled(seed), count, dtype.numpy()).reshape(dims)


@value("StatelessTruncatedNormalV2")
def _stateless_truncated_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], *, dtype: DType
) -> Any:
    dims, count = _size(shape)
    return _truncated(_given(key, counter, alg), count, dtype.numpy()).reshape(dims)


@value("StatelessRandomUniformInt")
def _stateless_int(shape: NDArray[Any], seed: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Any:
    dims, count = _size(shape)
    return _in_range(_scrambled(seed), count, low, high).reshape(dims)


@value("StatelessRandomUniformIntV2")
def _stateless_int_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], low: NDArray[Any],
    high: NDArray[Any],
) -> Any:  # fmt: skip
    dims, count = _size(shape)
    return _in_range(_given(key, counter, alg), count, low, high).reshape(dims)


@value("StatelessRandomUniformFullInt")
def _stateless_full(shape: NDArray[Any], seed: NDArray[Any], *, dtype: DType) -> Any:
    dims, count = _size(shape)
    return _integers(_scrambled(seed), count, dtype.numpy()).astype(dtype.numpy()).reshape(dims)


@value("StatelessRandomUniformFullIntV2")
def _stateless_full_v2(
    shape: NDArray[Any], key: NDArray[Any], counter: NDArray[Any], alg: NDArray[Any], *, dtype: DType
) -> Any:
    dims, count = _size(shape)
    return _integers(_given(key, counter, alg), count, dtype.numpy()).astype(dtype.numpy()).reshape(dims)
