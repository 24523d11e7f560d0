"""HighwayHash-64, the keyed checksum of the Riegeli format, in plain Python.

The state is four arrays of four 64-bit lanes. A packet of 32 bytes is added to one array, the halves of two others are
multiplied, and a fixed shuffle of bytes (the "zipper") spreads the result. It was made for SIMD: here a packet costs
some microseconds, so this is for headers and small payloads, about 5 MB/s.
"""

from __future__ import annotations

import struct
from operator import itemgetter

__all__ = ["highwayhash64"]

Lanes = tuple[int, int, int, int]

_MASK = 0xFFFFFFFFFFFFFFFF
_LOW = 0xFFFFFFFF
_MUL0: Lanes = (0xDBE6D5D5FE4CCE2F, 0xA4093822299F31D0, 0x13198A2E03707344, 0x243F6A8885A308D3)
_MUL1: Lanes = (0x3BD39E10CB0EF593, 0xC0ACF169B5F18A8C, 0xBE5466CF34E90C6C, 0x452821E638D01377)
_PACKET = struct.Struct("<4Q")

# Byte i of a pair of lanes, after the zipper, is byte _ZIPPER[i] before it; the second pair is done alike.
_ZIPPER = (3, 12, 2, 5, 14, 1, 15, 0, 11, 4, 10, 13, 9, 6, 8, 7)
_zip = itemgetter(*_ZIPPER, *(16 + index for index in _ZIPPER))


def highwayhash64(key: Lanes, data: bytes) -> int:
    """The 64-bit hash of some bytes under a key of four 64-bit numbers."""
    state = _State(key)
    whole = len(data) & ~31
    for packet in _PACKET.iter_unpack(memoryview(data)[:whole]):
        state.update(packet)
    if whole < len(data):
        state.update_rest(data[whole:])
    return state.finish()


class _State:
    """The four arrays; `v0` and `v1` mix, `mul0` and `mul1` multiply."""

    __slots__ = ("mul0", "mul1", "v0", "v1")

    def __init__(self, key: Lanes) -> None:
        self.mul0, self.mul1 = _MUL0, _MUL1
        self.v0 = tuple(lane ^ part for lane, part in zip(_MUL0, key, strict=True))
        self.v1 = tuple(lane ^ _swap(part) for lane, part in zip(_MUL1, key, strict=True))

    def update(self, packet: Lanes) -> None:
        """Mixes one packet in. Written out lane by lane: this is the loop that costs."""
        p0, p1, p2, p3 = packet
        a0, a1, a2, a3 = self.v0
        b0, b1, b2, b3 = self.v1
        m0, m1, m2, m3 = self.mul0
        n0, n1, n2, n3 = self.mul1
        b0 = b0 + m0 + p0 & _MASK
        b1 = b1 + m1 + p1 & _MASK
        b2 = b2 + m2 + p2 & _MASK
        b3 = b3 + m3 + p3 & _MASK
        self.mul0 = (
            m0 ^ (b0 & _LOW) * (a0 >> 32),
            m1 ^ (b1 & _LOW) * (a1 >> 32),
            m2 ^ (b2 & _LOW) * (a2 >> 32),
            m3 ^ (b3 & _LOW) * (a3 >> 32),
        )
        a0 = a0 + n0 & _MASK
        a1 = a1 + n1 & _MASK
        a2 = a2 + n2 & _MASK
        a3 = a3 + n3 & _MASK
        self.mul1 = (
            n0 ^ (a0 & _LOW) * (b0 >> 32),
            n1 ^ (a1 & _LOW) * (b1 >> 32),
            n2 ^ (a2 & _LOW) * (b2 >> 32),
            n3 ^ (a3 & _LOW) * (b3 >> 32),
        )
        z0, z1, z2, z3 = _PACKET.unpack(bytes(_zip(_PACKET.pack(b0, b1, b2, b3))))
        a0, a1, a2, a3 = self.v0 = (a0 + z0 & _MASK, a1 + z1 & _MASK, a2 + z2 & _MASK, a3 + z3 & _MASK)
        z0, z1, z2, z3 = _PACKET.unpack(bytes(_zip(_PACKET.pack(a0, a1, a2, a3))))
        self.v1 = (b0 + z0 & _MASK, b1 + z1 & _MASK, b2 + z2 & _MASK, b3 + z3 & _MASK)

    def update_rest(self, rest: bytes) -> None:
        """Mixes in the last one to 31 bytes, and how many they are."""
        size = len(rest)
        self.v0 = tuple(lane + (size << 32 | size) & _MASK for lane in self.v0)
        self.v1 = tuple(_rotate_halves(lane, size) for lane in self.v1)
        packet = bytearray(32)
        words = size & ~3
        packet[:words] = rest[:words]
        if size & 16:
            packet[28:] = rest[-4:]
        elif odd := rest[words:]:
            packet[16:19] = bytes((odd[0], odd[len(odd) >> 1], odd[-1]))
        self.update(_PACKET.unpack(packet))

    def finish(self) -> int:
        """Four more rounds on the state itself, then the sum of the first lanes."""
        for _ in range(4):
            a0, a1, a2, a3 = self.v0
            self.update((_swap(a2), _swap(a3), _swap(a0), _swap(a1)))
        return self.v0[0] + self.v1[0] + self.mul0[0] + self.mul1[0] & _MASK


def _swap(lane: int) -> int:
    """Exchanges the 32-bit halves."""
    return lane >> 32 | (lane & _LOW) << 32


def _rotate_halves(lane: int, count: int) -> int:
    """Rotates each 32-bit half left by `count`, which is below 32."""
    low, high = lane & _LOW, lane >> 32
    low = (low << count | low >> 32 - count) & _LOW
    high = (high << count | high >> 32 - count) & _LOW
    return high << 32 | low
