"""Pictures as arrays: PNG files in and out, and boxes with labels drawn into them. Needs numpy alone."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["PictureError", "draw_box", "read_png", "write_png"]

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 4: 2, 6: 4}  # by the colour type: grey, RGB, grey with alpha, RGB with alpha
_WHITE = (255, 255, 255)
# Five columns by seven rows, a row per number; the highest of the five bits is the left column.
_GLYPHS = {
    "A": (14, 17, 17, 31, 17, 17, 17),
    "C": (14, 17, 16, 16, 16, 17, 14),
    "E": (31, 16, 16, 30, 16, 16, 31),
    "G": (14, 17, 16, 23, 17, 17, 14),
    "I": (14, 4, 4, 4, 4, 4, 14),
    "L": (16, 16, 16, 16, 16, 16, 31),
    "N": (17, 25, 21, 19, 17, 17, 17),
    "Q": (14, 17, 17, 17, 21, 18, 13),
    "R": (30, 17, 17, 30, 20, 18, 17),
    "S": (15, 16, 16, 14, 1, 1, 30),
    "T": (31, 4, 4, 4, 4, 4, 4),
    "U": (17, 17, 17, 17, 17, 17, 14),
    "0": (14, 17, 19, 21, 25, 17, 14),
    "1": (4, 12, 4, 4, 4, 4, 14),
    "2": (14, 17, 1, 6, 8, 16, 31),
    "3": (14, 17, 1, 6, 1, 17, 14),
    "4": (2, 6, 10, 18, 31, 2, 2),
    "5": (31, 16, 30, 1, 1, 17, 14),
    "6": (6, 8, 16, 30, 17, 17, 14),
    "7": (31, 1, 2, 4, 8, 8, 8),
    "8": (14, 17, 17, 14, 17, 17, 14),
    "9": (14, 17, 17, 15, 1, 2, 12),
    "%": (25, 25, 2, 4, 8, 19, 19),
    " ": (0, 0, 0, 0, 0, 0, 0),
}


class PictureError(Exception):
    """A file is not a picture that we can read."""


def write_png(path: str | Path, picture: Any) -> None:
    """Writes a picture, uint8 [height, width, 3], as a PNG."""
    height, width, _ = picture.shape
    above = np.concatenate([np.zeros_like(picture[:1]), picture[:-1]])
    rows = (picture - above).reshape(height, width * 3)  # filter 2: the difference to the row above, modulo 256
    lines = np.concatenate([np.full((height, 1), 2, np.uint8), rows], 1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    parts = [_SIGNATURE]
    for kind, data in chunks:
        parts.append(struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)))
    Path(path).write_bytes(b"".join(parts))


def read_png(path: str | Path) -> Any:
    """Reads a PNG of 8 bits per channel as uint8 [height, width, 3]; alpha is dropped, grey becomes three channels.

    Raises:
        PictureError: It is another kind of file.
    """
    data = Path(path).read_bytes()
    if not data.startswith(_SIGNATURE):
        raise PictureError(f"{path} is not a PNG; convert it to one")
    chunks: dict[bytes, bytes] = {}
    at = len(_SIGNATURE)
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">I", data, at)
        kind = data[at + 4 : at + 8]
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + size]
        at += 12 + size
    width, height, bits, colours, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if bits != 8 or colours not in _CHANNELS or interlaced:
        raise PictureError(
            f"{path}: only PNGs of 8 bits per channel, without palette and interlacing, can be read here"
        )
    channels = _CHANNELS[colours]
    raw = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * channels)
    picture = _unfilter(raw, channels).reshape(height, width, channels)
    if colours in (4, 6):
        picture = picture[..., :-1]
    return np.ascontiguousarray(np.broadcast_to(picture, (height, width, 3)))


def _unfilter(raw: Any, channels: int) -> Any:
    rows = np.zeros((len(raw), raw.shape[1] - 1), np.uint8)
    above = np.zeros(rows.shape[1], np.uint8)
    for number, line in enumerate(raw):
        kind, row = line[0], line[1:]
        if kind == 0:
            rows[number] = row
        elif kind == 1:
            rows[number] = np.cumsum(row.reshape(-1, channels), 0, dtype=np.uint8).ravel()
        elif kind == 2:
            rows[number] = row + above
        else:
            rows[number] = _unfilter_slowly(int(kind), row.tolist(), above.tolist(), channels)
        above = rows[number]
    return rows


def _unfilter_slowly(kind: int, row: list[int], above: list[int], channels: int) -> list[int]:
    """Filters 3 (average) and 4 (Paeth), where each byte depends on the one before."""
    done = [0] * channels
    over = [0] * channels + above
    for at, value in enumerate(row):
        left, up, corner = done[at], over[at + channels], over[at]
        guess = (left + up) // 2
        if kind == 4:
            guess = min((left, up, corner), key=lambda near: abs(left + up - corner - near))
        done.append((value + guess) & 255)
    return done[channels:]


def draw_box(picture: Any, box: Sequence[float], label: str, colour: Sequence[int]) -> None:
    """Draws a box (ymin, xmin, ymax, xmax from 0 to 1) with a label into a picture, in place."""
    height, width, _ = picture.shape
    scale = max(1, round(min(height, width) / 320))
    top, bottom = (round(value * height) for value in (box[0], box[2]))
    left, right = (round(value * width) for value in (box[1], box[3]))
    for grow, thick, paint in ((scale, 4 * scale, _WHITE), (0, 2 * scale, colour)):  # a white edge on either side
        _frame(picture, top - grow, left - grow, bottom + grow, right + grow, thick, paint)
    text = _text(label, scale)
    y = top - len(text) if top >= len(text) else max(top, 0)  # above the box, or inside if there is no room
    x = max(min(left - scale, width - text.shape[1]), 0)
    tag = picture[y : y + text.shape[0], x : x + text.shape[1]]
    mask = text[: tag.shape[0], : tag.shape[1], None]
    tag[...] = np.where(mask, np.array(_WHITE, np.uint8), np.array(colour, np.uint8))


def _frame(picture: Any, top: int, left: int, bottom: int, right: int, thick: int, colour: Sequence[int]) -> None:
    """The four sides of a box; what lies outside of the picture is left out."""
    sides = [(top, bottom, left, left + thick), (top, bottom, right - thick, right)]
    sides += [(top, top + thick, left, right), (bottom - thick, bottom, left, right)]
    for y0, y1, x0, x1 in sides:
        picture[max(y0, 0) : max(y1, 0), max(x0, 0) : max(x1, 0)] = colour


def _text(label: str, scale: int) -> Any:
    """A label as a mask: glyphs of 5 by 7 points, a point of space around each."""
    columns = np.zeros((11, 3 + 6 * len(label)), bool)
    for number, letter in enumerate(label.upper()):
        rows = np.array(_GLYPHS.get(letter, _GLYPHS[" "]), np.uint8)
        columns[2:9, 2 + 6 * number : 7 + 6 * number] = (rows[:, None] >> np.arange(4, -1, -1)) & 1
    return columns.repeat(scale, 0).repeat(scale, 1)
