"""Decoding JPEG as libjpeg-turbo does, bit by bit: baseline and progressive, both of its integer transforms.

TensorFlow decodes with the fast transform by default, which other decoders do not have; its pixels are up to 6 levels
from the accurate ones. The entropy decoding is a loop over symbols, about one microsecond each.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.limits import MAX_IMAGE_SAMPLES
from tfsmith.ops.values import OpError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Jpeg", "decode_jpeg", "read_jpeg"]

_ZIGZAG = (
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6, 7, 14, 21,
    28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54,
    47, 55, 62, 63,
)  # fmt: skip
_AAN = (1.0, 1.387039845, 1.306562965, 1.175875602, 1.0, 0.785694958, 0.541196100, 0.275899379)
"""The scales of the fast transform along one axis."""


class _Component:
    """One colour: how it is sampled, its tables and its coefficients."""

    def __init__(self, name: int, across: int, down: int, table: int) -> None:
        self.name, self.across, self.down, self.table = name, across, down, table
        self.wide = self.tall = self.columns = self.rows = 0
        self.coefficients = array("i")
        self.last = 0


class Jpeg:
    """What the headers of a JPEG file say.

    Attributes:
        height: Rows of pixels.
        width: Columns of pixels.
        components: How each colour is stored.
    """

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.height = self.width = 0
        self.components: list[_Component] = []
        self.progressive = False
        self.transform: int | None = None
        self.tables: dict[int, NDArray[Any]] = {}
        self.codes: dict[int, list[int]] = {}
        self.restart = 0

    def frame(self, body: bytes, progressive: bool) -> None:
        """Reads the frame's header."""
        bits, self.height, self.width, count = struct.unpack_from(">BHHB", body)
        if bits != 8 or len(body) < 6 + 3 * count or self.components:
            raise OpError(f"a JPEG file with {bits} bits per color is not known")
        if not self.height or not self.width or self.height * self.width * count > MAX_IMAGE_SAMPLES:
            raise OpError(f"a JPEG file of {self.height} x {self.width} pixels cannot be decoded")
        self.progressive = progressive
        for number in range(count):
            name, sampling, table = body[6 + 3 * number : 9 + 3 * number]
            if not 1 <= sampling >> 4 <= 4 or not 1 <= sampling & 15 <= 4:
                raise OpError("the JPEG file has impossible sampling factors")
            self.components.append(_Component(name, sampling >> 4, sampling & 15, table))
        most_across, most_down = self.factors
        for one in self.components:
            one.wide = -(-self.width * one.across // most_across)
            one.tall = -(-self.height * one.down // most_down)
            one.columns = -(-self.width // (8 * most_across)) * one.across
            one.rows = -(-self.height // (8 * most_down)) * one.down

    @property
    def factors(self) -> tuple[int, int]:
        """The greatest sampling factors, across and down."""
        return max(one.across for one in self.components), max(one.down for one in self.components)


def read_jpeg(data: bytes, *, scans: bool) -> Jpeg:
    """Reads a file's headers, and its coefficients if asked.

    Raises:
        OpError: It is no JPEG file, damaged, or of a kind that is not known.
    """
    if data[:2] != b"\xff\xd8":
        raise OpError("the contents are no JPEG file")
    jpeg = Jpeg(data)
    at = 2
    try:
        while True:
            if data[at] != 0xFF:
                raise OpError(f"the JPEG file is damaged at byte {at}")
            while data[at] == 0xFF:
                at += 1
            marker, at = data[at], at + 1
            if marker == 0xD9:
                break
            if marker == 1 or 0xD0 <= marker <= 0xD7:
                continue
            size = struct.unpack_from(">H", data, at)[0]
            body = data[at + 2 : at + size]
            if len(body) != size - 2:
                raise OpError("the JPEG file is cut off")
            at += size
            if marker in (0xC0, 0xC1, 0xC2):
                jpeg.frame(body, marker == 0xC2)
                if not scans:
                    return jpeg
            elif 0xC3 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
                raise OpError("a lossless or arithmetic JPEG file is not known")
            elif marker == 0xC4:
                _read_codes(body, jpeg.codes)
            elif marker == 0xDB:
                _read_tables(body, jpeg.tables)
            elif marker == 0xDD:
                jpeg.restart = struct.unpack(">H", body)[0]
            elif marker == 0xEE and body[:5] == b"Adobe":
                jpeg.transform = body[11]
            elif marker == 0xDA:
                at = _Scan(jpeg, body, at).read()
    except (IndexError, OverflowError, ValueError, struct.error):
        raise OpError("the JPEG file is damaged or cut off") from None
    if not jpeg.components:
        raise OpError("the JPEG file has no frame")
    return jpeg


def _read_tables(body: bytes, tables: dict[int, NDArray[Any]]) -> None:
    at = 0
    while at < len(body):
        wide = body[at] >> 4
        values = numpy.frombuffer(body, ">u2" if wide else "u1", 64, at + 1).astype(numpy.int64)
        table = numpy.zeros(64, numpy.int64)
        table[list(_ZIGZAG)] = values
        tables[body[at] & 15] = table
        at += 1 + (128 if wide else 64)


def _read_codes(body: bytes, codes: dict[int, list[int]]) -> None:
    """Each table maps the next 16 bits to the length of a code and its symbol."""
    at = 0
    while at < len(body):
        counts = body[at + 1 : at + 17]
        symbols = iter(body[at + 17 : at + 17 + sum(counts)])
        table: list[int] = []
        for length, count in enumerate(counts, 1):
            for _ in range(count):
                table += [length << 8 | next(symbols, 0)] * (1 << (16 - length))
        if len(table) > 1 << 16:
            raise OpError("the JPEG file has an impossible code")
        codes[body[at]] = table + [0] * ((1 << 16) - len(table))
        at += 17 + sum(counts)


class _Scan:
    """One pass over the coefficients."""

    def __init__(self, jpeg: Jpeg, body: bytes, at: int) -> None:
        self._jpeg, self._at = jpeg, at
        count = body[0]
        byname = {one.name: one for one in jpeg.components}
        self._parts: list[tuple[_Component, list[int], list[int]]] = []
        for number in range(count):
            name, codes = body[1 + 2 * number : 3 + 2 * number]
            if name not in byname:
                raise OpError("the JPEG file has a scan without a frame")
            self._parts.append((byname[name], jpeg.codes.get(codes >> 4, []), jpeg.codes.get(16 | (codes & 15), [])))
        self._first, self._last, approximation = body[1 + 2 * count : 4 + 2 * count]
        self._high, self._low = approximation >> 4, approximation & 15
        if self._last > 63 or self._first > self._last:
            raise OpError("the JPEG file has an impossible scan")
        if sum(one.rows * one.columns for one in jpeg.components) > 8 * len(jpeg.data):
            raise OpError("the JPEG file is cut off: each block of pixels takes a bit at least")
        for one in jpeg.components:
            if not one.coefficients:
                one.coefficients = array("i", bytes(4 * 64 * one.rows * one.columns))
        self._bits = self._count = 0
        self._run = 0
        self._data = b""
        self._place = 0

    def read(self) -> int:
        """Reads the scan; returns where the next marker is."""
        segments, end = self._segments()
        units = self._units()
        blocks = sum(one.across * one.down for one, _, _ in self._parts) if len(self._parts) > 1 else 1
        step = self._jpeg.restart * blocks or len(units)
        if len(segments) < -(-len(units) // step):
            raise OpError("the JPEG file is cut off")
        decode = self._decoder()
        for number, start in enumerate(range(0, len(units), step)):
            self._data, self._place = segments[number], 0
            self._bits = self._count = self._run = 0
            for one, _, _ in self._parts:
                one.last = 0
            for part, block in units[start : start + step]:
                decode(*self._parts[part], block * 64)
            if self._place - self._count // 8 > len(self._data) + 8:
                raise OpError("the JPEG file is cut off")
        return end

    def _segments(self) -> tuple[list[bytes], int]:
        """The coded bytes between restarts, and where they end."""
        data, at = self._jpeg.data, self._at
        segments: list[bytes] = []
        start = at
        while True:
            at = data.find(b"\xff", at)
            if at < 0 or at + 1 >= len(data):
                raise OpError("the JPEG file is cut off")
            marker = data[at + 1]
            if marker == 0:
                at += 2
            elif marker == 0xFF:
                at += 1
            else:
                segments.append(data[start:at].replace(b"\xff\x00", b"\xff"))
                if not 0xD0 <= marker <= 0xD7:
                    return segments, at
                at = start = at + 2

    def _units(self) -> list[tuple[int, int]]:
        """The blocks in the order in which they are coded: the part of the scan, and the number of the block."""
        if len(self._parts) == 1:
            one = self._parts[0][0]
            columns = -(-one.wide // 8)
            return [(0, row * one.columns + column) for row in range(-(-one.tall // 8)) for column in range(columns)]
        most_across, most_down = self._jpeg.factors
        down, across = -(-self._jpeg.height // (8 * most_down)), -(-self._jpeg.width // (8 * most_across))
        return [
            (part, (row * one.down + below) * one.columns + column * one.across + beside)
            for row in range(down)
            for column in range(across)
            for part, (one, _, _) in enumerate(self._parts)
            for below in range(one.down)
            for beside in range(one.across)
        ]

    def _decoder(self) -> Any:
        if not self._jpeg.progressive:
            return self._whole
        if self._first == 0:
            return self._refine_mean if self._high else self._mean
        return self._refine if self._high else self._band

    def _fill(self) -> None:
        data = self._data[self._place : self._place + 8]
        self._place += 8
        self._bits = (self._bits & ((1 << self._count) - 1)) << 64 | int.from_bytes(data.ljust(8, b"\0"), "big")
        self._count += 64

    def _take(self, count: int) -> int:
        if self._count < count:
            self._fill()
        self._count -= count
        return self._bits >> self._count & ((1 << count) - 1)

    def _symbol(self, codes: list[int]) -> int:
        if self._count < 16:
            self._fill()
        found = codes[self._bits >> (self._count - 16) & 0xFFFF]
        if not found:
            raise OpError("the JPEG file has a code that stands for nothing")
        self._count -= found >> 8
        return found & 255

    def _number(self, size: int) -> int:
        found = self._take(size)
        return found if found >> (size - 1) else found - (1 << size) + 1

    def _whole(self, one: _Component, mean: list[int], rest: list[int], base: int) -> None:
        coefficients = one.coefficients
        size = self._symbol(mean)
        if size:
            one.last += self._number(size)
        coefficients[base] = one.last
        place, bits, count = 1, self._bits, self._count  # the loop is `_symbol` and `_number`, without the calls
        while place < 64:
            if count < 32:
                self._bits, self._count = bits, count
                self._fill()
                bits, count = self._bits, self._count
            symbol = rest[bits >> (count - 16) & 0xFFFF]
            count -= symbol >> 8
            size = symbol & 15
            if size:
                place += symbol >> 4 & 15
                count -= size
                number = bits >> count & ((1 << size) - 1)
                coefficients[base + _ZIGZAG[place & 63]] = number if number >> (size - 1) else number - (1 << size) + 1
                place += 1
            elif symbol & 255 == 0xF0:
                place += 16
            elif symbol:
                break
            else:
                raise OpError("the JPEG file has a code that stands for nothing")
        self._bits, self._count = bits, count

    def _mean(self, one: _Component, mean: list[int], rest: list[int], base: int) -> None:
        size = self._symbol(mean)
        if size:
            one.last += self._number(size)
        one.coefficients[base] = one.last << self._low

    def _refine_mean(self, one: _Component, mean: list[int], rest: list[int], base: int) -> None:
        if self._take(1):
            one.coefficients[base] |= 1 << self._low

    def _band(self, one: _Component, mean: list[int], rest: list[int], base: int) -> None:
        if self._run:
            self._run -= 1
            return
        place = self._first
        while place <= self._last:
            symbol = self._symbol(rest)
            run, size = symbol >> 4, symbol & 15
            if size:
                place += run
                one.coefficients[base + _ZIGZAG[place & 63]] = self._number(size) << self._low
                place += 1
            elif run == 15:
                place += 16
            else:
                self._run = (1 << run) - 1 + (self._take(run) if run else 0)
                break

    def _refine(self, one: _Component, mean: list[int], rest: list[int], base: int) -> None:
        coefficients, bit = one.coefficients, 1 << self._low
        place = self._first
        if not self._run:
            while place <= self._last:
                symbol = self._symbol(rest)
                run, size = symbol >> 4, symbol & 15
                new = 0
                if size:
                    new = bit if self._take(1) else -bit
                elif run != 15:
                    self._run = (1 << run) + (self._take(run) if run else 0)
                    break
                while place <= self._last:
                    where = base + _ZIGZAG[place]
                    if coefficients[where]:
                        self._correct(coefficients, where, bit)
                    elif run == 0:
                        if new:
                            coefficients[where] = new
                        place += 1
                        break
                    else:
                        run -= 1
                    place += 1
        if self._run:
            for further in range(place, self._last + 1):
                where = base + _ZIGZAG[further]
                if coefficients[where]:
                    self._correct(coefficients, where, bit)
            self._run -= 1

    def _correct(self, coefficients: array[int], where: int, bit: int) -> None:
        if self._take(1) and not abs(coefficients[where]) & bit:
            coefficients[where] += bit if coefficients[where] > 0 else -bit


def decode_jpeg(data: bytes, *, gray: bool, accurate: bool, fancy: bool) -> NDArray[Any]:
    """The pixels of a file: rows, columns, and 1 or 3 channels.

    Args:
        data: The file.
        gray: Whether only the brightness is asked for.
        accurate: Whether the accurate transform is used, not the fast one.
        fancy: Whether colours that are stored in less detail are interpolated, not repeated.

    Raises:
        OpError: It is no JPEG file, damaged, or of a kind that is not known.
    """
    jpeg = read_jpeg(data, scans=True)
    count = len(jpeg.components)
    if count not in (1, 3) or not jpeg.components[0].coefficients:
        raise OpError(f"a JPEG file with {count} colors is not known")
    plain = count == 3 and (jpeg.transform == 0 or (
        jpeg.transform is None and bytes(one.name for one in jpeg.components) == b"RGB"))  # fmt: skip
    if gray and plain:
        raise OpError("a JPEG file in RGB cannot be decoded to gray")
    wanted = jpeg.components[:1] if gray else jpeg.components
    planes = [_upsampled(_plane(one, jpeg, accurate), one, jpeg, fancy) for one in wanted]
    if len(planes) == 1:
        return planes[0][..., None].astype(numpy.uint8)
    return numpy.stack(planes if plain else _to_rgb(*planes), -1).astype(numpy.uint8)


def _plane(one: _Component, jpeg: Jpeg, accurate: bool) -> Any:
    """The samples of one colour."""
    if one.table not in jpeg.tables:
        raise OpError("the JPEG file lacks a quantization table")
    steps = jpeg.tables[one.table]
    blocks = numpy.frombuffer(one.coefficients, numpy.int32).reshape(-1, 64)
    if accurate:
        found = _accurate(blocks * steps)
    else:
        scales = numpy.floor(numpy.outer(_AAN, _AAN) * 16384 + 0.5).astype(numpy.int64).reshape(-1)
        found = _fast(blocks * (steps * scales + 2048 >> 12))
    rows = found.reshape(one.rows, one.columns, 8, 8).swapaxes(1, 2).reshape(one.rows * 8, one.columns * 8)
    return rows[: one.tall, : one.wide]


def _fast(blocks: NDArray[Any]) -> Any:
    """libjpeg's fast inverse transform, with 8 bits after the point."""
    x = blocks.reshape(-1, 8, 8)
    x = _fast_pass([x[:, row] for row in range(8)], 1)
    x = _fast_pass([x[:, :, column] for column in range(8)], 2)
    return numpy.clip((x >> 5) + 128, 0, 255)


def _fast_pass(x: Sequence[NDArray[Any]], axis: int) -> NDArray[Any]:
    even, other = x[0] + x[4], x[0] - x[4]
    third = x[2] + x[6]
    second = ((x[2] - x[6]) * 362 >> 8) - third
    a, d, b, c = even + third, even - third, other + second, other - second
    z13, z10, z11, z12 = x[5] + x[3], x[5] - x[3], x[1] + x[7], x[1] - x[7]
    s7 = z11 + z13
    z5 = (z10 + z12) * 473 >> 8
    s6 = (z10 * -669 >> 8) + z5 - s7
    s5 = ((z11 - z13) * 362 >> 8) - s6
    s4 = (z12 * 277 >> 8) - z5 + s5
    return numpy.stack([a + s7, b + s6, c + s5, d - s4, d + s4, c - s5, b - s6, a - s7], axis)


def _accurate(blocks: NDArray[Any]) -> Any:
    """libjpeg's accurate inverse transform, with 13 bits after the point."""
    x = blocks.reshape(-1, 8, 8)
    x = (_accurate_pass([x[:, row] for row in range(8)], 1) + (1 << 10)) >> 11
    x = (_accurate_pass([x[:, :, column] for column in range(8)], 2) + (1 << 17)) >> 18
    return numpy.clip(x + 128, 0, 255)


def _accurate_pass(x: Sequence[NDArray[Any]], axis: int) -> NDArray[Any]:
    z1 = (x[2] + x[6]) * 4433
    second, third = z1 - x[6] * 15137, z1 + x[2] * 6270
    even, other = (x[0] + x[4]) << 13, (x[0] - x[4]) << 13
    a, d, b, c = even + third, even - third, other + second, other - second
    z1, z2, z3, z4 = x[7] + x[1], x[5] + x[3], x[7] + x[3], x[5] + x[1]
    z5 = (z3 + z4) * 9633
    z1, z2, z3, z4 = z1 * -7373, z2 * -20995, z3 * -16069 + z5, z4 * -3196 + z5
    s0, s1 = x[7] * 2446 + z1 + z3, x[5] * 16819 + z2 + z4
    s2, s3 = x[3] * 25172 + z2 + z3, x[1] * 12299 + z1 + z4
    return numpy.stack([a + s3, b + s2, c + s1, d + s0, d - s0, c - s1, b - s2, a - s3], axis)


def _upsampled(plane: NDArray[Any], one: _Component, jpeg: Jpeg, fancy: bool) -> NDArray[Any]:
    """A colour's samples for each pixel."""
    most_across, most_down = jpeg.factors
    if most_across % one.across or most_down % one.down:
        raise OpError("a JPEG file with sampling factors that are no multiples is not known")
    across, down = most_across // one.across, most_down // one.down
    smooth = fancy and one.wide > 2
    if (across, down) == (2, 1) and smooth:
        plane = _triangle(plane, 1, 2, 4)
    elif (across, down) == (2, 2) and smooth:
        plane = _triangle(_tall(plane), 8, 7, 16)
    elif (across, down) == (1, 2) and fancy:
        plane = _tall(plane)
        plane[0::2] += 1
        plane[1::2] += 2
        plane >>= 2
    else:
        plane = plane.repeat(across, 1).repeat(down, 0)
    return plane[: jpeg.height, : jpeg.width]


def _tall(plane: NDArray[Any]) -> NDArray[Any]:
    """Twice as many rows, each 3 parts of the nearest one and 1 of the next; not yet divided by 4."""
    above, below = numpy.concatenate([plane[:1], plane[:-1]]), numpy.concatenate([plane[1:], plane[-1:]])
    return numpy.stack([3 * plane + above, 3 * plane + below], 1).reshape(-1, plane.shape[1])


def _triangle(plane: NDArray[Any], left: int, right: int, divisor: int) -> NDArray[Any]:
    """Twice as many columns, each 3 parts of the nearest one and 1 of the next; `left` and `right` are for rounding."""
    before, after = numpy.roll(plane, 1, 1), numpy.roll(plane, -1, 1)
    before[:, 0], after[:, -1] = plane[:, 0], plane[:, -1]
    return numpy.stack([3 * plane + before + left, 3 * plane + after + right], 2).reshape(len(plane), -1) // divisor


def _to_rgb(y: NDArray[Any], blue: NDArray[Any], red: NDArray[Any]) -> list[NDArray[Any]]:
    blue, red = blue - 128, red - 128
    found = (
        y + (91881 * red + 32768 >> 16),
        y + (-22554 * blue - 46802 * red + 32768 >> 16),
        y + (116130 * blue + 32768 >> 16),
    )
    return [numpy.clip(plane, 0, 255) for plane in found]
