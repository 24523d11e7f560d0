"""Samples of image files. PNG, GIF and BMP files are made here without compression; the JPEG files are literals."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.node import Attr, Node
from tfsmith.ir.types import as_dtype
from tfsmith.ops.samples import Case, case, chain, numbers, samples, string, texts

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_JPEG = MappingProxyType({
    "gray": (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAYEBQYFBAYGBQYHBwYIChAKCgkJChQODwwQFxQYGBcUFhYaHSUfGhsjHBYWICwgIyYnKSop"
        "GR8tMC0oMCUoKSj/wAALCAAJAAcBAREA/8QAFQABAQAAAAAAAAAAAAAAAAAABgf/xAAbEAABBAMAAAAAAAAAAAAAAAAGAAEjM0FRcf/a"
        "AAgBAQAAPwAqIgMbRY0rMI1txf/Z"
    ),
    "full": (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAoHBwgHBgoICAgLCgoLDhgQDg0NDh0VFhEYIx8lJCIfIiEmKzcvJik0KSEiMEExNDk7Pj4+"
        "JS5ESUM8SDc9Pjv/2wBDAQoLCw4NDhwQEBw7KCIoOzs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7Ozs7"
        "Ozv/wAARCAAFAAkDAREAAhEBAxEB/8QAFQABAQAAAAAAAAAAAAAAAAAAAwX/xAAgEAABAwIHAAAAAAAAAAAAAAARAAIFAQMEEhQxUpLh"
        "/8QAFgEBAQEAAAAAAAAAAAAAAAAABQQG/8QAHxEAAQMEAwEAAAAAAAAAAAAAAQACEQMEE5ESFlLR/9oADAMBAAIRAxEAPwBIWGwzGZgR"
        "Q7Jq4q4aL6sTxBOhKEAkwrWitcWdfVhez3nluj9VOFq//9k="
    ),
    "half": (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNS"
        "Mj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P"
        "T0//wAARCAAHABMDASEAAhEBAxEB/8QAFwAAAwEAAAAAAAAAAAAAAAAAAAIDBf/EACAQAAIBBAIDAQAAAAAAAAAAAAECAwAFETEEIRIi"
        "YYH/xAAWAQEBAQAAAAAAAAAAAAAAAAADBAX/xAAiEQACAQMCBwAAAAAAAAAAAAABAgQAAyEUMRUiMkFxkcH/2gAMAwEAAhEDEQA/AL26"
        "zpGFyoJOhTXC6w8JZIeNgyJlXkIPjE2cdDHsd/Nbo591pF7SJsOr4KOBFF1iz4VcnwKwJpjyZWnliMrv2XdwCfzHVFWrCCgAGtTj6pyp"
        "bwNs9vVf/9k="
    ),
    "quarter": (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAA0JCgsKCA0LCgsODg0PEyAVExISEyccHhcgLikxMC4pLSwzOko+MzZGNywtQFdBRkxOUlNS"
        "Mj5aYVpQYEpRUk//2wBDAQ4ODhMREyYVFSZPNS01T09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09PT09P"
        "T0//wAARCAASAAUDASIAAhEBAxEB/8QAFwABAAMAAAAAAAAAAAAAAAAAAAEDBP/EACEQAAEEAgAHAAAAAAAAAAAAAAEAAgMEBRETMTJx"
        "cpHR/8QAFgEBAQEAAAAAAAAAAAAAAAAABQAC/8QAHxEAAgIABwEAAAAAAAAAAAAAAQIAAwQRFCEiQYGh/9oADAMBAAIRAxEAPwCyphWM"
        "i04AHsiw3MvYmkAbJLC1hIEdcka8jsbPzkEWxdjm5BVA9P3MS0FK7PaAexIpNbwekekREpC5/9k="
    ),
    "progressive": (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAgGBgcGBQgHBwcJCQgKDBQNDAsLDBkSEw8UHRofHh0aHBwgJC4nICIsIxwcKDcpLDAxNDQ0"
        "Hyc5PTgyPC4zNDL/2wBDAQkJCQwLDBgNDRgyIRwhMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIy"
        "MjL/wgARCAAJABIDASIAAhEBAxEB/8QAGAAAAwEBAAAAAAAAAAAAAAAAAAMEAQb/xAAXAQADAQAAAAAAAAAAAAAAAAABAgMF/9oADAMB"
        "AAIQAxAAAAFu0c3A1jDQX//EABsQAAMAAgMAAAAAAAAAAAAAAAECAwAEEzM0/9oACAEBAAEFApawQV2UmOdzl/C3bn//xAAcEQACAQUB"
        "AAAAAAAAAAAAAAABAwACERUhUZH/2gAIAQMBAT8BUqhaS8i+5kG8Hk//xAAcEQABBAMBAAAAAAAAAAAAAAABAAIDUQQRFCH/2gAIAQIB"
        "AT8Bhec47f4KXLFS/8QAIRAAAQMBCQAAAAAAAAAAAAAAAAEDEQIQEiFBYnGBkbH/2gAIAQEABj8ClSG8dWSE33eyvj0Taz//xAAfEAAC"
        "AQMFAQAAAAAAAAAAAAAAAREhMWFBUaGxwfD/2gAIAQEAAT8hp1SSl4JSJrbjC1G1Kd1pD0+rA4Ptisj/2gAMAwEAAgADAAAAEG/v/8QA"
        "GhEBAAIDAQAAAAAAAAAAAAAAAQAxESFR0f/aAAgBAwEBPxDKSmANUbe3WoH4J//EABsRAAIBBQAAAAAAAAAAAAAAAAExERAhQWFx/9oA"
        "CAECAQE/EJ4QlFYBnL5qn//EAB0QAQEAAgEFAAAAAAAAAAAAAAERADEhEEFRYaH/2gAIAQEAAT8QhhEigAKq9jEcnuXlTRz23Wnkpi4N"
        "aFFfAQHo6y0Pmz//2Q=="
    ),
    "restarts": (
        "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDABALDA4MChAODQ4SERATGCgaGBYWGDEjJR0oOjM9PDkzODdASFxOQERXRTc4UG1RV19iZ2hn"
        "Pk1xeXBkeFxlZ2P/2wBDARESEhgVGC8aGi9jQjhCY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2NjY2Nj"
        "Y2P/wAARCAAJABEDASIAAhEBAxEB/8QAGAAAAgMAAAAAAAAAAAAAAAAAAAMBBAb/xAAqEAAABAMDDQAAAAAAAAAAAAAAAQIDBAURMUJh"
        "EhMVITQ1U3FygpOxsv/EABYBAQEBAAAAAAAAAAAAAAAAAAMCBP/EACARAAEEAQQDAAAAAAAAAAAAAAEAAgMRFAQhUVJBkdH/3QAEAAH/"
        "2gAMAwEAAhEDEQA/AGwcsbZRlLoRJKp11ULETFzNmHQaIY0qVZnLqTwK8duHMWJjuN/t+iGbd2pvoL2YCF515t+zePvKqKJkcBnIsg1X"
        "hf/QRpyN4rniQAKANGDB1CPNf1b6C//Z"
    ),
})  # fmt: skip


def _text(data: bytes) -> NDArray[Any]:
    found = numpy.empty((), object)
    found[()] = data
    return found


def _bytes(count: int, start: int = 0) -> bytes:
    return numbers("uint8", count, start=start, low=0, high=256).tobytes()


def _jpeg(name: str) -> bytes:
    return base64.b64decode("".join(_JPEG[name]))


def _png(width: int, height: int, bits: int, kind: int, *, lines: bytes | None = None, filters: Sequence[int] = (0,),
         chunks: Sequence[tuple[bytes, bytes]] = (), interlaced: bool = False) -> bytes:  # fmt: skip
    """A PNG file whose data is stored, not compressed."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[kind]
    if lines is None:
        size = (width * samples * bits + 7) // 8
        rows = (bytes([filters[row % len(filters)]]) + _bytes(size, start=row * 97) for row in range(height))
        lines = b"".join(rows)
    stored = struct.pack("<BHH", 1, len(lines), len(lines) ^ 0xFFFF) + lines
    packed = b"\x78\x01" + stored + struct.pack(">I", zlib.adler32(lines))
    header = struct.pack(">IIBBBBB", width, height, bits, kind, 0, 0, interlaced)
    whole = ((b"IHDR", header), *chunks, (b"IDAT", packed), (b"IEND", b""))
    parts = (struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
             for name, body in whole)  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _gif(frames: Sequence[tuple[int, int, int, int, int | None]], *, size: tuple[int, int] = (5, 4),
         woven: bool = False) -> bytes:  # fmt: skip
    """A GIF file of 8 colours; each frame has its left, top, width and height, and perhaps a transparent colour."""
    parts = [b"GIF89a", struct.pack("<HHBBB", *size, 0xF2, 0, 0), _bytes(24)]
    for number, (left, top, width, height, clear) in enumerate(frames):
        if clear is not None:
            parts.append(struct.pack("<BBBBHBB", 0x21, 0xF9, 4, 1, 9, clear, 0))
        indices = numbers("uint8", width * height, start=40 * number, low=0, high=8)
        codes = [code for index in indices.tolist() for code in (8, index)] + [9]  # 8 clears the table, 9 is the end
        packed = bytes(low | high << 4 for low, high in zip(codes[::2], [*codes[1::2], 0], strict=False))
        parts += [struct.pack("<BHHHHB", 0x2C, left, top, width, height, 64 if woven else 0), b"\x03",
                  bytes([len(packed)]), packed, b"\0"]  # fmt: skip
    return b"".join((*parts, b";"))


def _bmp(width: int, height: int, bits: int) -> bytes:
    step = (width * bits // 8 + 3) // 4 * 4
    body = _bytes(step * abs(height))
    head = struct.pack("<2sIHHIIiiHHIIiiII", b"BM", 54 + len(body), 0, 0, 54, 40, width, height, 1, bits, 0, len(body),
                       2835, 2835, 0, 0)  # fmt: skip
    return head + body


_COLORS = (b"PLTE", _bytes(48))


@samples("DecodePng")
def _decode_png(op: str) -> Iterator[Case]:
    files = {
        "gray": _png(5, 4, 8, 0, filters=(0, 1, 2, 3, 4)), "gray, 16 bits": _png(3, 4, 16, 0, filters=(4, 3, 1)),
        "colors": _png(4, 4, 8, 2, filters=(1, 2, 3, 4)), "colors, 16 bits": _png(3, 4, 16, 2, filters=(3, 4)),
        "gray with alpha": _png(4, 3, 8, 4, filters=(4, 1)), "colors with alpha": _png(3, 3, 8, 6, filters=(2, 4, 3)),
        "palette": _png(7, 3, 4, 3, chunks=[_COLORS]), "bits": _png(11, 3, 1, 0), "two bits": _png(6, 3, 2, 0),
        "four bits": _png(5, 3, 4, 0),
        "palette with alpha": _png(7, 3, 4, 3, chunks=[_COLORS, (b"tRNS", b"\x00\x80\x40")]),
    }  # fmt: skip
    for name, data in files.items():
        for channels in (0, 1, 3, 4):
            yield case(op, _text(data), name=f"{name}, {channels} channels", channels=channels)
        yield case(op, _text(data), name=f"{name}, uint16", dtype="uint16")
        yield case(op, _text(data), name=f"{name}, gray, uint16", dtype="uint16", channels=1)
    lines = b"".join(b"\0" + _bytes(count, start=count) for count in (1, 1, 2, 1, 1, 3, 3, 5, 5))
    woven = _png(5, 5, 8, 0, lines=lines, interlaced=True)
    yield case(op, _text(woven), name="interlaced")
    yield case(op, _text(files["gray"]), name="two channels", channels=2, unknown=True)
    yield case(op, _text(files["gray"][:-30]), name="cut off")
    yield case(op, _text(files["gray"].replace(b"IDAT", b"IDAU")), name="damaged")
    yield case(op, _text(b""), name="empty")
    yield case(op, _text(b"no image"), name="no image")
    yield case(op, _text(_jpeg("gray")), name="a JPEG file")
    yield case(op, _text(_gif([(0, 0, 5, 4, None)])), name="a GIF file")
    yield case(op, _text(_bmp(3, 2, 24)), name="a BMP file")


@samples("DecodeJpeg")
def _decode_jpeg(op: str) -> Iterator[Case]:
    for name in _JPEG:
        data = _text(_jpeg(name))
        for channels in (0, 1, 3):
            yield case(op, data, name=f"{name}, {channels} channels", channels=channels)
        yield case(op, data, name=f"{name}, accurate", dct_method="INTEGER_ACCURATE")
        yield case(op, data, name=f"{name}, fast", dct_method="INTEGER_FAST")
        yield case(op, data, name=f"{name}, plain", fancy_upscaling=False)
    whole = _jpeg("half")
    yield case(op, _text(whole[:-20]), name="cut off")
    yield case(op, _text(whole[:100]), name="no scan")
    yield case(op, _text(b""), name="empty")
    yield case(op, _text(whole), name="4 channels", channels=4)
    yield case(op, _text(_png(4, 4, 8, 2)), name="a PNG file")
    yield case(op, _text(_gif([(0, 0, 5, 4, None)])), name="a GIF file")
    yield case(op, _text(_bmp(3, 2, 24)), name="a BMP file")


@samples("DecodeAndCropJpeg")
def _decode_and_crop(op: str) -> Iterator[Case]:
    for name in ("gray", "full", "half", "quarter"):
        for window in ([0, 0, 4, 3], [1, 2, 4, 3], [2, 1, 1, 4]):
            yield case(op, _text(_jpeg(name)), numpy.array(window, "int32"), name=f"{name}, {window}")
    yield case(op, _text(_jpeg("gray")), numpy.array([0, 0, 40, 3], "int32"), name="too large")
    yield case(op, _text(_jpeg("gray")), numpy.array([0, -1, 2, 3], "int32"), name="negative")
    yield case(op, _text(_png(4, 4, 8, 2)), numpy.array([0, 0, 2, 2], "int32"), name="a PNG file")


@samples("ExtractJpegShape")
def _jpeg_shape(op: str) -> Iterator[Case]:
    for name in _JPEG:
        for kind in ("int32", "int64"):
            yield case(op, _text(_jpeg(name)), name=f"{name}, {kind}", output_type=kind)
    yield case(op, _text(b"no image"), name="no image")


_GIFS = MappingProxyType({
    "one": _gif([(0, 0, 5, 4, None)]), "woven": _gif([(0, 0, 5, 4, None)], woven=True),
    "two": _gif([(0, 0, 5, 4, None), (1, 1, 3, 2, None)]), "clear": _gif([(0, 0, 5, 4, 2), (0, 0, 5, 4, 3)]),
    "part": _gif([(1, 2, 3, 2, None), (0, 0, 5, 4, 5)]),
})  # fmt: skip


@samples("DecodeGif")
def _decode_gif(op: str) -> Iterator[Case]:
    for name, data in _GIFS.items():
        yield case(op, _text(data), name=name)
    yield case(op, _text(_GIFS["one"][:-12]), name="cut off")
    yield case(op, _text(_png(4, 4, 8, 2)), name="a PNG file")
    yield case(op, _text(_jpeg("gray")), name="a JPEG file")
    yield case(op, _text(b"no image"), name="no image")


@samples("DecodeBmp")
def _decode_bmp(op: str) -> Iterator[Case]:
    for bits in (8, 24, 32):
        for channels in (0, 1, 3, 4):
            yield case(op, _text(_bmp(3, 4, bits)), name=f"{bits} bits, {channels} channels", channels=channels)
        yield case(op, _text(_bmp(3, -4, bits)), name=f"{bits} bits, from the top")
    yield case(op, _text(_bmp(3, 4, 16)), name="16 bits")
    yield case(op, _text(_bmp(3, 4, 24)[:-20]), name="cut off")
    yield case(op, _text(_png(4, 4, 8, 2)), name="a PNG file")


@samples("DecodeImage")
def _decode_image(op: str) -> Iterator[Case]:
    files = {"PNG": _png(4, 4, 8, 2, filters=(1, 4)), "wide PNG": _png(3, 4, 16, 0), "BMP": _bmp(3, 4, 24),
             "JPEG": _jpeg("half"), "GIF": _GIFS["two"]}  # fmt: skip
    for name, data in files.items():
        for kind in ("uint8", "uint16", "float32"):
            yield case(op, _text(data), name=f"{name}, {kind}", dtype=kind)
        for channels in (1, 3, 4):
            yield case(op, _text(data), name=f"{name}, {channels} channels", channels=channels)
        yield case(op, _text(data), name=f"{name}, still", expand_animations=False)
    yield case(op, _text(b"no image"), name="no image")
    yield case(op, _text(b""), name="empty")


@samples("EncodePng")
def _encode_png(op: str) -> Iterator[Case]:
    for kind in ("uint8", "uint16"):
        for depth in (1, 2, 3, 4):
            image = numbers(kind, 3, 5, depth, low=0, high=256 if kind == "uint8" else 65536)
            yield _there_and_back(op, f"{kind}, {depth} channels", "DecodePng", {}, image)
    yield case(op, numbers("uint8", 3, 5), name="2 axes", unknown=True)
    yield case(op, numbers("uint8", 2, 5, 5), name="five channels", unknown=True)


def _there_and_back(op: str, name: str, decode: str, attrs: dict[str, Any], image: NDArray[Any]) -> Case:
    """Encodes an image and decodes it again: the bytes in between are the encoder's own affair."""
    kind = as_dtype(image.dtype)
    nodes = [
        Node("e", op, ("x",), {"T": kind, **attrs} if op == "EncodePng" else attrs),
        Node("y", decode, ("e",), {"dtype": kind} if decode == "DecodePng" else {}),
    ]
    return chain(op, name, nodes, {"x": image}, ["y:0"])


@samples("EncodeJpeg")
def _encode_jpeg(op: str) -> Iterator[Case]:
    image = numbers("uint8", 3, 7, 3, low=0, high=256)
    for name, attrs in {
        "plain": {}, "quality 50": {"quality": Attr("int", 50)}, "full": {"chroma_downsampling": Attr("bool", False)},
        "progressive": {"progressive": Attr("bool", True)}, "small": {"optimize_size": Attr("bool", True)},
        "rgb": {"format": Attr("string", b"rgb")},
    }.items():  # fmt: skip
        yield _there_and_back(op, name, "DecodeJpeg", attrs, image)
    yield _there_and_back(op, "gray", "DecodeJpeg", {}, image[..., :1])
    yield case(op, image[..., :2], name="two channels", unknown=True)
    yield case(op, image, name="quality 101", quality=101)
    yield case(op, image, name="not gray", format="grayscale")


@samples("EncodeJpegVariableQuality")
def _encode_jpeg_quality(op: str) -> Iterator[Case]:
    image = numbers("uint8", 3, 7, 3, low=0, high=256)
    for quality in (10, 75, 100):
        nodes = [Node("e", op, ("x", "q"), {}), Node("y", "DecodeJpeg", ("e",), {})]
        yield chain(op, f"quality {quality}", nodes, {"x": image, "q": numpy.array(quality, "int32")}, ["y:0"])
    yield case(op, image, numpy.array(101, "int32"), name="quality 101")


_WEBP = {
    "lossless": bytes.fromhex(
        "5249464636000000574542505650384c2a0000002f02c000005f20164cce11e46f1bc354dca162fe13db41412349cdf74af3"
        "84273ce138a2ff71e8ea8bdf"
    ),
    "lossy": bytes.fromhex(
        "5249464634000000574542505650382028000000d001009d012a03000400014026259c0274010efa61ac0000f6bed5ff24f1"
        "5932a193bd1a4b000000"
    ),
    "transparent": bytes.fromhex(
        "5249464636000000574542505650384c2a0000002f02c000105f20164cce11e46f1bc354dca1622812fa41412349cdf74af3"
        "84273ce138a2ff71e8ea8bdf"
    ),
}
"""Files that Pillow wrote: 4 rows of 3 pixels."""


@samples("DecodeWebP", exact=True)
def _webp(op: str) -> Iterator[Case]:
    for name, data in _WEBP.items():
        for channels in (0, 3, 4):
            yield case(op, string(data), name=f"{name}, {channels} channels", channels=channels)
    yield case(op, string(_WEBP["lossless"]), name="one channel", channels=1)
    yield case(op, string(_WEBP["lossless"][:30]), name="cut off")
    yield case(op, string(b"no image"), name="no image")
    yield case(op, texts([_WEBP["lossless"]]), name="a vector", unknown=True)
