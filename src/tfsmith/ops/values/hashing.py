"""Hashes of texts that give TensorFlow's own numbers: Fingerprint64 of FarmHash, SipHash-2-4, and the old hash."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ops.values import OpError, value

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["fingerprint64", "join_fingerprints", "old_hash64", "siphash"]

_JOINT = 0xC6A4A7935BD1E995
_ALL = (1 << 64) - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_OLD, _OLD_SEED = 0xC6A4A7935BD1E995, 0xDECAFCAFFE


def _rotate(value: int, shift: int) -> int:
    return ((value >> shift) | (value << (64 - shift))) & _ALL


def _left(value: int, shift: int) -> int:
    return _rotate(value, 64 - shift)


def _at(data: bytes, place: int) -> int:
    return int.from_bytes(data[place : place + 8], "little")


def _mix(first: int, second: int, factor: int) -> int:
    a = ((first ^ second) * factor) & _ALL
    a ^= a >> 47
    b = ((second ^ a) * factor) & _ALL
    b ^= b >> 47
    return (b * factor) & _ALL


def _shifted(value: int) -> int:
    return value ^ (value >> 47)


def fingerprint64(data: bytes) -> int:
    """The fingerprint of a text, which never changes between releases; for short texts a few microseconds."""
    size = len(data)
    if size <= 16:
        return _short(data, size)
    if size <= 64:
        return _medium(data, size)
    return _long(data, size)


def join_fingerprints(first: int, second: int) -> int:
    """The fingerprint of two things, of their fingerprints in order."""
    found = first ^ _JOINT
    found ^= (_shifted((second * _JOINT) & _ALL) * _JOINT) & _ALL
    found = (found * _JOINT) & _ALL
    return _shifted((_shifted(found) * _JOINT) & _ALL)


def _short(data: bytes, size: int) -> int:
    factor = (_K2 + size * 2) & _ALL
    if size >= 8:
        a = (_at(data, 0) + _K2) & _ALL
        b = _at(data, size - 8)
        c = (_rotate(b, 37) * factor + a) & _ALL
        d = ((_rotate(a, 25) + b) * factor) & _ALL
        return _mix(c, d, factor)
    if size >= 4:
        first, last = struct.unpack_from("<I", data)[0], struct.unpack_from("<I", data, size - 4)[0]
        return _mix(size + (first << 3), last, factor)
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        return (_shifted((y * _K2 ^ z * _K0) & _ALL) * _K2) & _ALL
    return _K2


def _medium(data: bytes, size: int) -> int:
    factor = (_K2 + size * 2) & _ALL
    a = (_at(data, 0) * (_K1 if size <= 32 else _K2)) & _ALL
    b = _at(data, 8)
    c = (_at(data, size - 8) * factor) & _ALL
    d = (_at(data, size - 16) * _K2) & _ALL
    y = (_rotate((a + b) & _ALL, 43) + _rotate(c, 30) + d) & _ALL
    z = _mix(y, (a + _rotate((b + _K2) & _ALL, 18) + c) & _ALL, factor)
    if size <= 32:
        return z
    e = (_at(data, 16) * factor) & _ALL
    f = _at(data, 24)
    g = ((y + _at(data, size - 32)) * factor) & _ALL
    h = ((z + _at(data, size - 24)) * factor) & _ALL
    first = (_rotate((e + f) & _ALL, 43) + _rotate(g, 30) + h) & _ALL
    return _mix(first, (e + _rotate((f + a) & _ALL, 18) + g) & _ALL, factor)


def _weak(data: bytes, place: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = struct.unpack_from("<4Q", data, place)
    a = (a + w) & _ALL
    b = _rotate((b + a + z) & _ALL, 21)
    c = a
    a = (a + x + y) & _ALL
    b = (b + _rotate(a, 44)) & _ALL
    return (a + z) & _ALL, (b + c) & _ALL


def _long(data: bytes, size: int) -> int:
    x = 81
    y = (81 * _K1 + 113) & _ALL
    z = (_shifted((y * _K2 + 113) & _ALL) * _K2) & _ALL
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _at(data, 0)) & _ALL
    end = (size - 1) // 64 * 64
    for place in range(0, end, 64):
        x, y, z, v, w = _round(data, place, x, y, z, v, w, _K1, 1)
    factor = (_K1 + ((z & 0xFF) << 1)) & _ALL
    rest = (size - 1) & 63
    w = ((w[0] + rest) & _ALL, w[1])
    v = ((v[0] + w[0]) & _ALL, v[1])
    w = ((w[0] + v[0]) & _ALL, w[1])
    x, y, z, v, w = _round(data, end + rest - 63, x, y, z, v, w, factor, 9)
    first = (_mix(v[0], w[0], factor) + _shifted(y) * _K0 + z) & _ALL
    return _mix(first, (_mix(v[1], w[1], factor) + x) & _ALL, factor)


def _round(
    data: bytes, place: int, x: int, y: int, z: int, v: tuple[int, int], w: tuple[int, int], factor: int, times: int
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    """Takes 64 bytes in; the last ones count nine times."""
    x = (_rotate((x + y + v[0] + _at(data, place + 8)) & _ALL, 37) * factor) & _ALL
    y = (_rotate((y + v[1] + _at(data, place + 48)) & _ALL, 42) * factor) & _ALL
    x ^= (w[1] * times) & _ALL
    y = (y + v[0] * times + _at(data, place + 40)) & _ALL
    z = (_rotate((z + w[0]) & _ALL, 33) * factor) & _ALL
    v = _weak(data, place, (v[1] * factor) & _ALL, (x + w[0]) & _ALL)
    w = _weak(data, place + 32, (z + w[1]) & _ALL, (y + _at(data, place + 16)) & _ALL)
    return z, y, x, v, w


def siphash(data: bytes, key: tuple[int, int]) -> int:
    """SipHash-2-4 of a text."""
    k0, k1 = key[0] & _ALL, key[1] & _ALL
    state = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    whole = len(data) // 8 * 8
    last = data[whole:] + bytes(7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for word in (*struct.unpack(f"<{whole // 8}Q", data[:whole]), int.from_bytes(last, "little")):
        state[3] ^= word
        _sip_rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _sip_rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def _sip_rounds(state: list[int], count: int) -> None:
    a, b, c, d = state
    for _ in range(count):
        a = (a + b) & _ALL
        b = _left(b, 13) ^ a
        a = _left(a, 32)
        c = (c + d) & _ALL
        d = _left(d, 16) ^ c
        a = (a + d) & _ALL
        d = _left(d, 21) ^ a
        c = (c + b) & _ALL
        b = _left(b, 17) ^ c
        c = _left(c, 32)
    state[:] = a, b, c, d


def old_hash64(data: bytes) -> int:
    """The hash of `StringToHashBucket`, which TensorFlow keeps for old graphs."""
    found = _OLD_SEED ^ (len(data) * _OLD & _ALL)
    whole = len(data) // 8 * 8
    for (word,) in struct.iter_unpack("<Q", data[:whole]):
        word = (word * _OLD) & _ALL
        word ^= word >> 47
        found = ((found ^ (word * _OLD & _ALL)) * _OLD) & _ALL
    if whole < len(data):
        found = ((found ^ int.from_bytes(data[whole:], "little")) * _OLD) & _ALL
    found ^= found >> 47
    found = (found * _OLD) & _ALL
    return found ^ (found >> 47)


def _buckets(texts: NDArray[Any], number: int, hashed: Any) -> NDArray[Any]:
    if number < 1:
        raise OpError(f"num_buckets is {number}, which is less than 1")
    found = [hashed(text) % number for text in texts.ravel()]
    return numpy.array(found, numpy.uint64).astype(numpy.int64).reshape(texts.shape)


@value("StringToHashBucketFast")
def _fast(texts: NDArray[Any], *, num_buckets: int) -> NDArray[Any]:
    return _buckets(texts, num_buckets, fingerprint64)


@value("StringToHashBucket")
def _old(texts: NDArray[Any], *, num_buckets: int) -> NDArray[Any]:
    return _buckets(texts, num_buckets, old_hash64)


@value("StringToHashBucketStrong")
def _strong(texts: NDArray[Any], *, num_buckets: int, key: tuple[int, ...]) -> NDArray[Any]:
    if len(key) != 2:
        raise OpError(f"the key has {len(key)} numbers, and must have 2")
    return _buckets(texts, num_buckets, lambda text: siphash(text, (key[0], key[1])))


@value("Fingerprint")
def _fingerprint(data: NDArray[Any], method: NDArray[Any]) -> NDArray[Any]:
    if method.ndim or bytes(method.item()) != b"farmhash64":
        raise OpError("the method must be farmhash64")
    if not data.ndim:
        raise OpError("data must have a batch dimension")
    if data.dtype == object and data.ndim == 1:
        rows = [fingerprint64(bytes(text)) for text in data]
    elif data.dtype == object:
        rows = []
        for row in data.reshape(len(data), -1):  # the fingerprints of a row's texts, joined and hashed again
            inner = b"".join(struct.pack("<Q", fingerprint64(bytes(text))) for text in row)
            rows.append(fingerprint64(inner))
    else:
        rows = [fingerprint64(numpy.ascontiguousarray(row).tobytes()) for row in data]
    return numpy.frombuffer(b"".join(struct.pack("<Q", row) for row in rows), numpy.uint8).reshape(len(data), 8)
