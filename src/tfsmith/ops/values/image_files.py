"""Values of ops that read and write image files: PNG, JPEG, GIF, BMP, WebP. Only to write JPEG and to read WebP needs
Pillow.
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.errors import UnsupportedError
from tfsmith.ir.types import DType
from tfsmith.limits import MAX_IMAGE_SAMPLES
from tfsmith.ops.values import OpError, value
from tfsmith.ops.values.jpeg import decode_jpeg, read_jpeg

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__: list[str] = []

_PNG = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
"""Colour types of PNG and how many samples a pixel has."""
_PASSES = ((0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1))
"""The first row and column of each pass of an interlaced PNG, and the steps between them."""


def _contents(x: NDArray[Any]) -> bytes:
    if x.ndim:
        raise OpError(f"the contents must be a scalar, not the shape {list(x.shape)}")
    return bytes(x.item())


def _limited(height: int, width: int, depth: int) -> None:
    if height < 1 or width < 1 or height * width * depth > MAX_IMAGE_SAMPLES:
        raise OpError(f"an image of {height} x {width} pixels cannot be decoded")


class _Png:
    """A PNG file, decoded."""

    def __init__(self, data: bytes) -> None:
        self.palette = numpy.zeros((0, 3), numpy.uint8)
        self.clear: bytes | None = None
        packed: list[bytes] = []
        at = 8
        header = None
        while True:
            if at + 12 > len(data):
                raise OpError("the PNG file is cut off")
            size, kind = struct.unpack_from(">I4s", data, at)
            body = data[at + 8 : at + 8 + size]
            if len(data) < at + 12 + size:
                raise OpError("the PNG file is cut off")
            if zlib.crc32(kind + body) != struct.unpack_from(">I", data, at + 8 + size)[0]:
                raise OpError(f"the PNG file is damaged: the checksum of its {kind.decode('latin-1')} is wrong")
            at += 12 + size
            if kind == b"IHDR" and size == 13:
                header = struct.unpack(">IIBBBBB", body)
            elif kind == b"PLTE":
                self.palette = numpy.frombuffer(body[: size // 3 * 3], numpy.uint8).reshape(-1, 3)
            elif kind == b"tRNS":
                self.clear = body
            elif kind == b"IDAT":
                packed.append(body)
            elif kind == b"IEND":
                break
        if header is None:
            raise OpError("the PNG file has no header")
        self.width, self.height, self.bits, self.kind, _, _, interlaced = header
        if self.kind not in _CHANNELS or self.bits not in (1, 2, 4, 8, 16) or interlaced > 1:
            raise OpError(f"a PNG file of color type {self.kind} with {self.bits} bits is not known")
        _limited(self.height, self.width, _CHANNELS[self.kind])
        self._samples = _CHANNELS[self.kind]
        self.pixels = self._decoded(_inflated(b"".join(packed), self._size(bool(interlaced))), bool(interlaced))

    def _passes(self, interlaced: bool) -> list[tuple[int, int, int, int]]:
        return list(_PASSES) if interlaced else [(0, 0, 1, 1)]

    def _row_bytes(self, width: int) -> int:
        return int(width * self._samples * self.bits + 7) // 8

    def _size(self, interlaced: bool) -> int:
        total = 0
        for top, left, down, across in self._passes(interlaced):
            rows, columns = -((top - self.height) // down), -((left - self.width) // across)
            total += rows * (1 + self._row_bytes(columns)) if rows > 0 and columns > 0 else 0
        return total

    def _decoded(self, raw: bytes, interlaced: bool) -> NDArray[Any]:
        kind = numpy.uint16 if self.bits == 16 else numpy.uint8
        found = numpy.zeros((self.height, self.width, self._samples), kind)
        at = 0
        for top, left, down, across in self._passes(interlaced):
            rows, columns = -((top - self.height) // down), -((left - self.width) // across)
            if rows < 1 or columns < 1:
                continue
            size = self._row_bytes(columns)
            lines = _unfiltered(raw, at, rows, size, max(self._samples * self.bits // 8, 1))
            at += rows * (1 + size)
            found[top::down, left::across] = self._samples_of(lines, columns)
        return found

    def _samples_of(self, lines: NDArray[Any], columns: int) -> NDArray[Any]:
        if self.bits == 16:
            return lines.view(">u2").reshape(len(lines), columns, -1)
        if self.bits == 8:
            return lines.reshape(len(lines), columns, -1)
        spread = numpy.unpackbits(lines, axis=1).reshape(len(lines), -1, self.bits)
        weights = 1 << numpy.arange(self.bits - 1, -1, -1)
        return (spread @ weights).astype(numpy.uint8)[:, :columns, None]

    def image(self, channels: int, wide: bool) -> NDArray[Any]:
        """The image with so many channels (0: as the file has), of 16 bits or of 8."""
        pixels = self.pixels
        top = 65535 if self.bits == 16 else 255
        alpha: NDArray[Any] | None = None
        if self.kind == 3:
            if len(self.palette) <= int(pixels.max(initial=0)):
                raise OpError("the PNG file has a color that its palette lacks")
            if self.clear is not None:
                opacity = numpy.full(256, 255, numpy.uint8)
                opacity[: len(self.clear[:256])] = numpy.frombuffer(self.clear[:256], numpy.uint8)
                alpha = opacity[pixels]
            pixels = self.palette[pixels[..., 0]]
        elif self.kind in (4, 6):
            pixels, alpha = pixels[..., :-1], pixels[..., -1:]
        elif self.clear is not None:
            color = numpy.array(struct.unpack(f">{len(self.clear) // 2}H", self.clear))
            alpha = numpy.where((pixels == color).all(-1, keepdims=True), 0, top).astype(pixels.dtype)
        if self.kind == 0 and self.bits < 8:
            pixels = pixels * numpy.uint8(255 // ((1 << self.bits) - 1))
        wanted = channels or pixels.shape[-1] + (alpha is not None)
        if wanted < 3 and pixels.shape[-1] == 3:
            pixels = _gray(pixels)
        if wanted >= 3 and pixels.shape[-1] == 1:
            pixels = pixels.repeat(3, 2)
        if wanted in (2, 4):
            full = numpy.full((*pixels.shape[:2], 1), (1 << self.bits) - 1, pixels.dtype)  # as TensorFlow fills it
            pixels = numpy.concatenate([pixels, full if alpha is None else alpha], 2)
        if wide:
            return pixels if pixels.dtype == numpy.uint16 else pixels.astype(numpy.uint16) * numpy.uint16(257)
        return pixels if pixels.dtype == numpy.uint8 else (pixels >> 8).astype(numpy.uint8)


def _inflated(data: bytes, size: int) -> bytes:
    try:
        found = zlib.decompressobj().decompress(data, size)
    except zlib.error as error:
        raise OpError(f"the PNG file is damaged: {error}") from None
    if len(found) < size:
        raise OpError("the PNG file is cut off")
    return found


def _unfiltered(raw: bytes, at: int, rows: int, size: int, step: int) -> NDArray[Any]:
    """The lines of a PNG without their filters; `step` is the distance to the pixel before."""
    lines = numpy.zeros((rows + 1, size), numpy.uint8)
    for row in range(rows):
        start = at + row * (size + 1)
        line, above = numpy.frombuffer(raw, numpy.uint8, size, start + 1), lines[row]
        kind = raw[start]
        if kind == 0:
            lines[row + 1] = line
        elif kind == 1:
            for first in range(step):
                lines[row + 1, first::step] = numpy.cumsum(line[first::step], dtype=numpy.uint8)
        elif kind == 2:
            lines[row + 1] = line + above
        elif kind in (3, 4):
            combine = _average if kind == 3 else _paeth
            lines[row + 1] = numpy.frombuffer(combine(line.tobytes(), above.tobytes(), step), numpy.uint8)
        else:
            raise OpError(f"the PNG file has a filter {kind}, which does not exist")
    return lines[1:]


def _average(line: bytes, above: bytes, step: int) -> bytes:
    found = bytearray(line)
    for at, up in enumerate(above):
        left = found[at - step] if at >= step else 0
        found[at] = (line[at] + (left + up >> 1)) & 255
    return bytes(found)


def _paeth(line: bytes, above: bytes, step: int) -> bytes:
    found = bytearray(line)
    for at, up in enumerate(above):
        left, corner = (found[at - step], above[at - step]) if at >= step else (0, 0)
        by_left, by_up = abs(up - corner), abs(left - corner)
        by_corner = abs(left + up - 2 * corner)
        near = left if by_left <= by_up and by_left <= by_corner else up if by_up <= by_corner else corner
        found[at] = (line[at] + near) & 255
    return bytes(found)


def _gray(pixels: NDArray[Any]) -> NDArray[Any]:
    """The brightness of colours, by libpng's weights; it rounds 16 bits, and cuts 8 off."""
    weights = numpy.array([9797, 19234, 3737], numpy.int64)
    half = 16384 if pixels.dtype == numpy.uint16 else 0
    return ((pixels.astype(numpy.int64) @ weights + half) >> 15).astype(pixels.dtype)[..., None]


class _Gif:
    """A GIF file, decoded: all of its frames."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        try:
            self.frames = self._read()
        except (IndexError, struct.error, ValueError):
            raise OpError("the GIF file is damaged or cut off") from None

    def _read(self) -> NDArray[Any]:
        data = self._data
        flags = data[10]
        at = 13
        common = None
        if flags & 128:
            count = 2 << (flags & 7)
            common = numpy.frombuffer(data, numpy.uint8, 3 * count, at).reshape(-1, 3)
            at += 3 * count
        clear = -1
        found: list[tuple[int, int, NDArray[Any], NDArray[Any], int]] = []
        while data[at] != 0x3B:
            if data[at] == 0x21:
                if data[at + 1] == 0xF9 and data[at + 2] >= 4:
                    clear = data[at + 6] if data[at + 3] & 1 else -1
                at = self._skipped(at + 2)
                continue
            if data[at] != 0x2C:
                raise OpError(f"the GIF file is damaged at byte {at}")
            left, top, width, height, flags = struct.unpack_from("<HHHHB", data, at + 1)
            _limited(height, width, 3)
            at += 10
            colors = common
            if flags & 128:
                count = 2 << (flags & 7)
                colors = numpy.frombuffer(data, numpy.uint8, 3 * count, at).reshape(-1, 3)
                at += 3 * count
            if colors is None:
                raise OpError("the GIF file has a frame without colors")
            end = self._skipped(at + 1)
            indices = numpy.frombuffer(_unpacked(data[at], self._blocks(at + 1), width * height), numpy.uint8)
            indices = indices.reshape(height, width)
            if flags & 64:
                order = [row for first, step in ((0, 8), (4, 8), (2, 4), (1, 2)) for row in range(first, height, step)]
                woven = numpy.empty_like(indices)
                woven[order] = indices
                indices = woven
            found.append((top, left, indices, colors, clear))
            clear = -1
            at = end
        if not found:
            raise OpError("the GIF file has no frames")
        return _composed(found)

    def _skipped(self, at: int) -> int:
        while self._data[at]:
            at += 1 + self._data[at]
        return at + 1

    def _blocks(self, at: int) -> bytes:
        parts = []
        while self._data[at]:
            parts.append(self._data[at + 1 : at + 1 + self._data[at]])
            at += 1 + self._data[at]
        return b"".join(parts)


def _unpacked(bits: int, data: bytes, size: int) -> bytes:
    """The indices that the codes of a GIF frame stand for."""
    clear, end = 1 << bits, (1 << bits) + 1
    table: list[bytes] = []
    found = bytearray()
    width, before = bits + 1, b""
    held = count = at = 0
    while len(found) < size:
        while count < width:
            held |= data[at] << count
            count += 8
            at += 1
        code, held, count = held & ((1 << width) - 1), held >> width, count - width
        if code == clear:
            table = [bytes([number]) for number in range(clear)] + [b"", b""]
            width, before = bits + 1, b""
            continue
        if code == end or not table:
            break
        if code > len(table) or (code == len(table) and not before):
            raise OpError("the GIF file has a code that stands for nothing")
        piece = table[code] if code < len(table) else before + before[:1]
        found += piece
        if before and len(table) < 4096:
            table.append(before + piece[:1])
        if len(table) == 1 << width and width < 12:
            width += 1
        before = piece
    if len(found) < size:
        raise OpError("the GIF file is cut off")
    return bytes(found[:size])


def _composed(frames: list[tuple[int, int, NDArray[Any], NDArray[Any], int]]) -> NDArray[Any]:
    """Each frame on top of the one before; what is transparent stays, and is black in the first."""
    height = max(indices.shape[0] for _, _, indices, _, _ in frames)
    width = max(indices.shape[1] for _, _, indices, _, _ in frames)
    _limited(height * len(frames), width, 3)
    found = numpy.zeros((len(frames), height, width, 3), numpy.uint8)
    for number, (top, left, indices, colors, clear) in enumerate(frames):
        canvas = found[number]
        if number:
            canvas[:] = found[number - 1]
        part = indices[: max(height - top, 0), : max(width - left, 0)]
        seen = part != clear
        if (part[seen] >= len(colors)).any():
            raise OpError("the GIF file has a color that its palette lacks")
        place = canvas[top : top + part.shape[0], left : left + part.shape[1]]
        place[seen] = colors[part[seen]]
    return found


def _bmp(data: bytes, channels: int) -> NDArray[Any]:
    if len(data) < 32:
        raise OpError("the BMP file is cut off")
    start, width, height, bits = (struct.unpack_from(form, data, at)[0]
                                  for form, at in (("<i", 10), ("<i", 18), ("<i", 22), ("<H", 28)))  # fmt: skip
    depth = bits // 8
    if channels not in (0, 3, 4):
        raise OpError(f"a BMP file has 0, 3 or 4 channels, not {channels}")
    if depth not in (1, 3, 4):
        raise OpError(f"a BMP file of {bits} bits is not known")
    rows = abs(height)
    _limited(rows, width, depth)
    step = (depth * width + 3) // 4 * 4
    last = len(data) - start - step * (rows - 1)
    if start < 0 or last < depth * width:
        raise OpError("the BMP file is cut off")
    lines = numpy.zeros(rows * step, numpy.uint8)
    body = numpy.frombuffer(data, numpy.uint8, min(rows * step, len(data) - start), start)
    lines[: len(body)] = body
    pixels = lines.reshape(rows, step)[:, : width * depth].reshape(rows, width, depth)
    if height > 0:
        pixels = pixels[::-1]
    pixels = pixels[..., [2, 1, 0, 3][:depth]] if depth > 1 else pixels
    if channels and depth == 1:
        pixels = pixels.repeat(3, 2)
    if channels == 4 and depth != 4:
        return numpy.concatenate([pixels, numpy.full((rows, width, 1), 255, numpy.uint8)], 2)
    return pixels[..., :channels] if channels else pixels


def _jpeg(data: bytes, channels: int, method: bytes = b"", fancy: bool = True) -> NDArray[Any]:
    if channels not in (0, 1, 3):
        raise OpError(f"a JPEG file has 1 or 3 channels, not {channels}")
    pixels = decode_jpeg(data, gray=channels == 1, accurate=method == b"INTEGER_ACCURATE", fancy=fancy)
    return pixels.repeat(3, 2) if channels == 3 and pixels.shape[2] == 1 else pixels


def _is_gif(data: bytes) -> bool:
    return data[:4] == b"GIF8"


def _gif(data: bytes, channels: int) -> NDArray[Any]:
    if channels not in (0, 3):
        raise OpError(f"a GIF file has 3 channels, not {channels}")
    return _Gif(data).frames


def _still(data: bytes, channels: int, wide: bool, jpeg: Callable[[bytes, int], NDArray[Any]] = _jpeg) -> NDArray[Any]:
    """The image of a PNG or JPEG file, or of a GIF file of one frame."""
    if channels not in (0, 1, 3, 4):
        raise OpError(f"there are images of 0, 1, 3 or 4 channels, not of {channels}")
    if data.startswith(_PNG):
        return _Png(data).image(channels, wide)
    if data.startswith(b"\xff\xd8\xff"):
        return jpeg(data, channels)
    if _is_gif(data):
        frames = _gif(data, channels)
        if len(frames) > 1:
            raise OpError(f"the GIF file has {len(frames)} frames, not one")
        first: NDArray[Any] = frames[0]
        return first
    raise OpError("the contents are no PNG, JPEG or GIF file")


@value("DecodePng")
def _decode_png(contents: NDArray[Any], *, channels: int, dtype: DType) -> Any:
    data = _contents(contents)
    wide = dtype.name == "uint16"
    if wide and not data.startswith(_PNG):
        raise OpError("only PNG files have 16 bits")
    return _still(data, channels, wide)


@value("DecodeJpeg")
def _decode_jpeg(
    contents: NDArray[Any], *, channels: int, ratio: int, fancy_upscaling: bool, try_recover_truncated: bool,
    dct_method: bytes,
) -> Any:  # fmt: skip
    if ratio not in (1, 2, 4, 8):
        raise OpError(f"the ratio must be 1, 2, 4 or 8, not {ratio}")
    if ratio != 1 or try_recover_truncated:
        raise UnsupportedError("a JPEG file can be decoded whole only", remedy="use the engine tensorflow")
    return _still(_contents(contents), channels, False, lambda data, wanted: _jpeg(data, wanted, dct_method,
                                                                                 fancy_upscaling))  # fmt: skip


@value("DecodeAndCropJpeg")
def _decode_and_crop(
    contents: NDArray[Any], window: NDArray[Any], *, channels: int, ratio: int, fancy_upscaling: bool,
    try_recover_truncated: bool, dct_method: bytes,
) -> Any:  # fmt: skip
    data = _contents(contents)
    if not data.startswith(b"\xff\xd8\xff"):
        raise OpError("the contents are no JPEG file")
    pixels = _decode_jpeg(contents, channels=channels, ratio=ratio, fancy_upscaling=fancy_upscaling,
                          try_recover_truncated=try_recover_truncated, dct_method=dct_method)  # fmt: skip
    if window.shape != (4,):
        raise OpError(f"the window must be four numbers, not the shape {list(window.shape)}")
    top, left, height, width = (int(one) for one in window)
    if min(top, left) < 0 or min(height, width) < 1 or top + height > len(pixels) or left + width > pixels.shape[1]:
        raise OpError(f"the window {window.tolist()} lies outside of the image {list(pixels.shape[:2])}")
    return pixels[top : top + height, left : left + width]


@value("ExtractJpegShape")
def _jpeg_shape(contents: NDArray[Any], *, output_type: DType) -> Any:
    jpeg = read_jpeg(_contents(contents), scans=False)
    return numpy.array([jpeg.height, jpeg.width, len(jpeg.components)], output_type.numpy())


@value("DecodeGif")
def _decode_gif(contents: NDArray[Any]) -> Any:
    data = _contents(contents)
    return _gif(data, 0) if _is_gif(data) else _still(data, 3, False)[None]


@value("DecodeBmp")
def _decode_bmp(contents: NDArray[Any], *, channels: int) -> Any:
    data = _contents(contents)
    if data[:2] != b"BM":
        raise OpError("the contents are no BMP file")
    return _bmp(data, channels)


@value("DecodeWebP")
def _decode_webp(contents: NDArray[Any], *, channels: int) -> Any:
    if channels not in (0, 3, 4):
        raise OpError(f"a WebP file has 3 or 4 channels, not {channels}")
    return _webp(_contents(contents), channels)


def _webp(data: bytes, channels: int) -> NDArray[Any]:
    """The one frame of a WebP file."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP":
        raise OpError("the contents are no WebP file")
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("reading a WebP file needs Pillow", remedy="pip install 'tfsmith[image]'") from None
    try:
        with Image.open(io.BytesIO(data), formats=["WEBP"]) as image:
            depth = 4 if image.mode == "RGBA" else 3
            if getattr(image, "is_animated", False):
                raise UnsupportedError("a WebP file with several pictures cannot be read", remedy="give it one picture")
            if channels not in (0, depth):
                raise OpError(f"the image has {depth} channels, not {channels}")
            _limited(image.height, image.width, depth)
            return numpy.asarray(image.convert("RGBA" if depth == 4 else "RGB"))[None]
    except (OSError, ValueError, SyntaxError) as error:
        raise OpError(f"the WebP file cannot be read: {error}") from error


@value("DecodeImage")
def _decode_image(contents: NDArray[Any], *, channels: int, dtype: DType, expand_animations: bool) -> Any:
    data = _contents(contents)
    wide = dtype.name != "uint8"
    if data.startswith(_PNG):
        pixels = _still(data, channels, wide)
    elif data[:2] == b"BM":
        pixels = _bmp(data, channels)
    elif _is_gif(data):
        pixels = _gif(data, channels)
        pixels = pixels if expand_animations else pixels[0]
    else:
        pixels = _still(data, channels, False)
    if dtype.name == "float32":
        return pixels.astype(numpy.float32) / numpy.float32(65535 if pixels.dtype == numpy.uint16 else 255)
    if dtype.name == "uint16" and pixels.dtype == numpy.uint8:
        return pixels.astype(numpy.uint16) * numpy.uint16(256)
    return pixels


def _texts(parts: list[bytes], shape: tuple[int, ...]) -> NDArray[Any]:
    found = numpy.empty(len(parts), object)
    found[:] = parts
    return found.reshape(shape)


@value("EncodePng")
def _encode_png(image: NDArray[Any], *, compression: int) -> Any:
    """The bytes are not TensorFlow's, whose compressor chooses otherwise; the image in them is the same."""
    if image.ndim < 3 or not 1 <= image.shape[-1] <= 4:
        raise OpError(f"an image has 1 to 4 channels, not the shape {list(image.shape)}")
    if not -1 <= compression <= 9:
        raise OpError(f"the compression must be in [-1, 9], not {compression}")
    height, width, depth = image.shape[-3:]
    _limited(height, width, depth)
    flat = image.astype(image.dtype.newbyteorder(">")).reshape(-1, height, width * depth)
    parts = [_png_of(numpy.ascontiguousarray(one), width, depth, compression) for one in flat]
    return _texts(parts, image.shape[:-3])


def _png_of(lines: NDArray[Any], width: int, depth: int, compression: int) -> bytes:
    raw = b"".join(b"\0" + line.tobytes() for line in lines)
    kind = {1: 0, 2: 4, 3: 2, 4: 6}[depth]
    header = struct.pack(">IIBBBBB", width, len(lines), 8 * lines.dtype.itemsize, kind, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, compression)), (b"IEND", b""))
    return _PNG + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )


@value("EncodeJpeg")
def _encode_jpeg(
    image: NDArray[Any], *, format: bytes, quality: int, progressive: bool, optimize_size: bool,
    chroma_downsampling: bool, density_unit: bytes, x_density: int, y_density: int, xmp_metadata: bytes,
) -> Any:  # fmt: skip
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        raise OpError(f"an image has 1 or 3 channels, not the shape {list(image.shape)}")
    if format and image.shape[2] != (1 if format == b"grayscale" else 3):
        raise OpError(f"an image of {image.shape[2]} channels cannot be written as {format.decode(errors='replace')}")
    if not 0 <= quality <= 100:
        raise OpError(f"the quality must be in [0, 100], not {quality}")
    if density_unit != b"in" or xmp_metadata:
        raise UnsupportedError("only JPEG files with a density in inches and without XMP can be written",
                               remedy="use the engine tensorflow")  # fmt: skip
    return _texts([_jpeg_of(image, quality, chroma_downsampling, (x_density, y_density), progressive,
                            optimize_size)], ())  # fmt: skip


def _jpeg_of(
    image: NDArray[Any], quality: int, downsample: bool, density: tuple[int, int] = (300, 300),
    progressive: bool = False, optimize: bool = False,
) -> bytes:  # fmt: skip
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("writing a JPEG file needs Pillow", remedy="pip install 'tfsmith[image]'") from None
    _limited(*image.shape)
    out = io.BytesIO()
    whole = Image.fromarray(image[..., 0] if image.shape[2] == 1 else image)
    whole.save(out, "JPEG", quality=quality or 1, subsampling=2 if downsample else 0, dpi=density,
               progressive=progressive, optimize=optimize)  # fmt: skip
    return out.getvalue()


@value("EncodeJpegVariableQuality")
def _encode_jpeg_quality(image: NDArray[Any], quality: NDArray[Any]) -> Any:
    if image.ndim != 3 or image.shape[2] not in (1, 3):
        raise OpError(f"an image has 1 or 3 channels, not the shape {list(image.shape)}")
    if quality.ndim or not 0 <= quality <= 100:
        raise OpError(f"the quality must be a number in [0, 100], not {quality.tolist()}")
    return _texts([_jpeg_of(image, int(quality), True)], ())
