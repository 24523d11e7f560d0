"""Values of ops on texts: joining, splitting, regular expressions, numbers, Unicode, base64."""

from __future__ import annotations

import base64
import itertools
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from tfsmith.ir.types import DType
from tfsmith.ops.values import OpError, value

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["texts"]

_SPACES = b" \t\n\v\f\r"


def texts(found: Iterable[bytes], shape: Sequence[int]) -> NDArray[Any]:
    """An array of texts."""
    items = list(found)
    array = numpy.empty(len(items), object)
    array[:] = items
    return array.reshape(tuple(shape))


def _each(array: NDArray[Any], change: Callable[[bytes], bytes]) -> NDArray[Any]:
    return texts((change(text) for text in array.ravel()), array.shape)


def _is_utf8(encoding: bytes) -> bool:
    if encoding.lower() not in (b"", b"utf-8"):
        raise OpError(f"the encoding {encoding.decode('utf-8', 'replace')!r} is neither empty nor utf-8")
    return encoding.lower() == b"utf-8"


# Joining


@value("StringJoin")
def _join(inputs: Sequence[NDArray[Any]], *, separator: bytes) -> NDArray[Any]:
    shapes = {one.shape for one in inputs if one.ndim}
    if len(shapes) > 1:
        raise OpError(f"the texts have shapes {' and '.join(str(list(shape)) for shape in sorted(shapes)[:2])}")
    shape = next(iter(shapes), ())
    rows = [numpy.broadcast_to(one, shape).ravel() for one in inputs]
    return texts((separator.join(parts) for parts in zip(*rows, strict=True)), shape)


@value("ReduceJoin")
def _reduce_join(inputs: NDArray[Any], axes: NDArray[Any], *, keep_dims: bool, separator: bytes) -> NDArray[Any]:
    chosen: list[int] = []
    for axis in axes.ravel().tolist():
        if not -inputs.ndim <= axis < max(inputs.ndim, 1):
            raise OpError(f"axis {axis} is not one of {inputs.ndim}")
        if axis % max(inputs.ndim, 1) in chosen:
            raise OpError(f"axis {axis} is given twice")
        chosen.append(axis % max(inputs.ndim, 1))
    if not inputs.ndim:
        return inputs
    kept = [axis for axis in range(inputs.ndim) if axis not in chosen]
    moved = inputs.transpose([*kept, *reversed(chosen)])  # the first axis is joined first
    shape = [inputs.shape[axis] for axis in kept]
    count = int(numpy.prod([inputs.shape[axis] for axis in chosen], dtype=numpy.int64))
    rows = moved.reshape(int(numpy.prod(shape, dtype=numpy.int64)), count)
    joined = texts((separator.join(row) for row in rows), shape)
    return (
        joined.reshape([1 if axis in chosen else inputs.shape[axis] for axis in range(inputs.ndim)])
        if keep_dims
        else joined
    )


@value("UnsortedSegmentJoin")
def _segment_join(inputs: NDArray[Any], ids: NDArray[Any], number: NDArray[Any], *, separator: bytes) -> NDArray[Any]:
    count = int(number)
    if ids.shape != inputs.shape[: ids.ndim]:
        raise OpError(f"the segments have shape {list(ids.shape)}, the texts {list(inputs.shape)}")
    inner = inputs.shape[ids.ndim :]
    rows = inputs.reshape(ids.size, -1)
    parts: list[list[list[bytes]]] = [[[] for _ in range(rows.shape[1])] for _ in range(count)]
    for segment, row in zip(ids.ravel().tolist(), rows, strict=True):
        if segment >= count:
            raise OpError(f"segment {segment} is not one of {count}")
        for cell, text in zip(parts[segment], row, strict=True) if segment >= 0 else ():
            cell.append(text)
    return texts((_joined(cell, separator) for row in parts for cell in row), (count, *inner))


def _joined(cell: list[bytes], separator: bytes) -> bytes:
    found = b""
    for text in cell:
        found = found + separator + text if found else text
    return found


@value("StringFormat")
def _format(inputs: Sequence[NDArray[Any]], *, template: bytes, placeholder: bytes, summarize: int) -> NDArray[Any]:
    pieces = template.split(placeholder)
    if len(pieces) != len(inputs) + 1:
        raise OpError(f"the template has {len(pieces) - 1} places for {len(inputs)} tensors")
    found = pieces[0]
    for tensor, piece in zip(inputs, pieces[1:], strict=True):
        found += _summary(tensor, summarize) + piece
    return texts([found], ())


def _summary(array: NDArray[Any], most: int) -> bytes:
    """A tensor as PrintV2 and StringFormat show it: the first and last so many of each row."""
    if not array.ndim:
        item = array.item()
        return b'"%s"' % item if isinstance(item, bytes) else number_text(array.reshape(1)[0])
    if most < 0 or len(array) <= 2 * most:
        parts = [_summary(row, most) for row in _rows(array)]
    else:
        rows = [*_rows(array)]
        parts = [*(_summary(row, most) for row in rows[:most]), b"...", *(_summary(row, most) for row in rows[-most:])]
        parts = parts if most else [b"..."]
    return b"[" + (b" " if array.ndim == 1 else b"\n " + b" " * 0).join(parts) + b"]"


def _rows(array: NDArray[Any]) -> Iterator[NDArray[Any]]:
    for number in range(len(array)):
        yield numpy.asarray(array[number], array.dtype) if array.dtype != object else _object(array[number])


def _object(item: Any) -> NDArray[Any]:
    if isinstance(item, numpy.ndarray):
        return item
    found = numpy.empty((), object)
    found[()] = item
    return found


def number_text(item: Any) -> bytes:
    """A number as C++ streams print it: six digits."""
    if isinstance(item, (bool, numpy.bool_)):
        return b"1" if item else b"0"
    if numpy.issubdtype(type(item), numpy.integer):
        return b"%d" % int(item)
    return (f"{float(item):.6g}").encode()


# Splitting


def _check_split(inputs: NDArray[Any], mark: NDArray[Any], what: str) -> None:
    if inputs.ndim != 1:
        raise OpError(f"the texts have shape {list(inputs.shape)}, and must be a vector")
    if mark.ndim:
        raise OpError(f"{what} must be a scalar")


@value("StringSplit")
def _split(inputs: NDArray[Any], delimiter: NDArray[Any], *, skip_empty: bool) -> tuple[Any, ...]:
    _check_split(inputs, delimiter, "the delimiter")
    marks = bytes(delimiter.item())

    def parts(text: bytes) -> list[bytes]:
        if not text:
            return []
        if not marks:
            return [bytes([byte]) for byte in text]
        found = re.split(b"[" + b"".join(re.escape(bytes([mark])) for mark in marks) + b"]", text)
        return [part for part in found if part] if skip_empty else found

    return _sparse([parts(text) for text in inputs])


@value("StringSplitV2")
def _split_v2(inputs: NDArray[Any], separator: NDArray[Any], *, maxsplit: int) -> tuple[Any, ...]:
    _check_split(inputs, separator, "the separator")
    mark = bytes(separator.item())
    if mark:
        return _sparse([text.split(mark, maxsplit) if text else [b""] for text in inputs])
    return _sparse([_split_spaces(text, maxsplit) for text in inputs])


def _split_spaces(text: bytes, most: int) -> list[bytes]:
    """Words; behind so many of them the rest is one more, as it is, and be it empty."""
    if most < 0:
        return text.split()
    found: list[bytes] = []
    rest = text.lstrip(_SPACES)
    while rest and len(found) < most:
        word = rest.split(None, 1)[0]
        found.append(word)
        rest = rest[len(word) :].lstrip(_SPACES)
    return [*found, rest] if found and len(found) == most else found


def _sparse(rows: list[list[bytes]]) -> tuple[Any, ...]:
    indices = [(number, place) for number, row in enumerate(rows) for place in range(len(row))]
    values = [part for row in rows for part in row]
    shape = numpy.array([len(rows), max(map(len, rows), default=0)], numpy.int64)
    return numpy.array(indices, numpy.int64).reshape(-1, 2), texts(values, (len(values),)), shape


@value("StringNGrams")
def _ngrams(
    data: NDArray[Any], splits: NDArray[Any], *, separator: bytes, ngram_widths: tuple[int, ...], left_pad: bytes,
    right_pad: bytes, pad_width: int, preserve_short_sequences: bool,
) -> tuple[Any, ...]:  # fmt: skip
    bounds = splits.tolist()
    if bounds and (bounds[0] != 0 or any(a > b for a, b in itertools.pairwise(bounds)) or bounds[-1] != data.size):
        raise OpError("the splits do not fit the texts")
    found: list[bytes] = []
    ends = [0] if bounds else []
    for start, stop in itertools.pairwise(bounds):
        row = data[start:stop].tolist()
        made = [
            gram for width in ngram_widths for gram in _grams(row, width, separator, left_pad, right_pad, pad_width)
        ]
        if not made and preserve_short_sequences and row and len(row) < min(ngram_widths, default=0):
            made = [separator.join(row)]
        found += made
        ends.append(len(found))
    return texts(found, (len(found),)), numpy.array(ends, splits.dtype)


def _grams(row: list[bytes], width: int, separator: bytes, left: bytes, right: bytes, pad: int) -> Iterator[bytes]:
    count = min(width - 1, pad) if pad >= 0 else width - 1
    padded = [left] * count + row + [right] * count
    for start in range(len(padded) - width + 1):
        yield separator.join(padded[start : start + width])


# Pieces and letters


@value("StringLength")
def _length(inputs: NDArray[Any], *, unit: bytes) -> NDArray[Any]:
    if unit == b"UTF8_CHAR":
        sizes = [sum(byte & 0xC0 != 0x80 for byte in text) for text in inputs.ravel()]
    else:
        sizes = [len(text) for text in inputs.ravel()]
    return numpy.array(sizes, numpy.int32).reshape(inputs.shape)


@value("Substr")
def _substr(inputs: NDArray[Any], pos: NDArray[Any], length: NDArray[Any], *, unit: bytes) -> NDArray[Any]:
    if pos.shape != length.shape:
        raise OpError(f"positions have shape {list(pos.shape)}, lengths {list(length.shape)}")
    try:
        shape = numpy.broadcast_shapes(inputs.shape, pos.shape)
    except ValueError as error:
        raise OpError(f"shapes {list(inputs.shape)} and {list(pos.shape)} do not broadcast") from error
    arrays = [numpy.broadcast_to(one, shape).ravel() for one in (inputs, pos, length)]
    return texts((_piece(text, int(p), int(n), unit) for text, p, n in zip(*arrays, strict=True)), shape)


def _piece(text: bytes, place: int, length: int, unit: bytes) -> bytes:
    marks = [i for i, byte in enumerate(text) if byte & 0xC0 != 0x80] if unit == b"UTF8_CHAR" else range(len(text))
    if not -len(marks) <= place <= len(marks):
        raise OpError(f"position {place} lies outside of a text of {len(marks)}")
    start = place if place >= 0 else place + len(marks)
    stop = len(marks) if length < 0 else min(start + length, len(marks))  # a size has no sign in C++
    ends = [*marks, len(text)]
    return text[ends[start] : ends[stop]] if stop > start else b""


@value("StringStrip")
def _strip(inputs: NDArray[Any]) -> NDArray[Any]:
    return _each(inputs, lambda text: text.strip(_SPACES))


@value("StringLower")
def _lower(inputs: NDArray[Any], *, encoding: bytes) -> NDArray[Any]:
    if _is_utf8(encoding):
        return _each(inputs, lambda text: text.decode("utf-8", "replace").lower().encode())
    return _each(inputs, bytes.lower)


@value("StringUpper")
def _upper(inputs: NDArray[Any], *, encoding: bytes) -> NDArray[Any]:
    if _is_utf8(encoding):
        return _each(inputs, lambda text: text.decode("utf-8", "replace").upper().encode())
    return _each(inputs, bytes.upper)


# Regular expressions


@lru_cache(maxsize=256)
def _pattern(pattern: bytes) -> re.Pattern[str]:
    """RE2's expressions in Python's: `\\z` and `\\pL` are what most differs; what RE2 has not is refused."""
    text = pattern.decode("utf-8", "surrogateescape")
    if re.search(r"\\[1-9]|\(\?[=!<#(]", text.replace("(?<name", "").replace("\\\\", "")):
        raise OpError(f"the expression {text[:60]!r} has what RE2 does not know")
    if re.search(r"\\[pPCQ]", text):
        raise OpError(f"the expression {text[:60]!r} needs RE2")
    text = text.replace(r"\z", r"\Z")
    text = re.sub(r"\[\[:(\w+):\]\]", _posix, text)
    try:
        return re.compile(text, re.ASCII)
    except re.error as error:
        raise OpError(f"the expression {text[:60]!r} is not understood ({error})") from error


_POSIX = {"alnum": "A-Za-z0-9", "alpha": "A-Za-z", "digit": "0-9", "lower": "a-z", "upper": "A-Z", "space": r"\s",
          "punct": r"!-/:-@\[-`{-~", "word": r"\w", "xdigit": "0-9A-Fa-f", "blank": " \t"}  # fmt: skip


def _posix(found: re.Match[str]) -> str:
    if found[1] not in _POSIX:
        raise OpError(f"the class [:{found[1]}:] is not known")
    return f"[{_POSIX[found[1]]}]"


def _rewrite(rewrite: bytes, pattern: re.Pattern[str]) -> Callable[[re.Match[str]], str]:
    text = rewrite.decode("utf-8", "surrogateescape")
    parts = re.split(r"\\([0-9\\])", text)
    for mark in parts[1::2]:
        if mark != "\\" and int(mark) > pattern.groups:
            raise OpError(f"the replacement names group {mark}, and the expression has {pattern.groups}")
    if any("\\" in part for part in parts[::2]):
        raise OpError("the replacement has a backslash that means nothing")

    def made(found: re.Match[str]) -> str:
        pieces = [part if number % 2 == 0 else "\\" if part == "\\" else found[int(part)] or ""
                  for number, part in enumerate(parts)]  # fmt: skip
        return "".join(pieces)

    return made


def _replaced(inputs: NDArray[Any], pattern: bytes, rewrite: bytes, replace_global: bool) -> NDArray[Any]:
    compiled = _pattern(pattern)
    made = _rewrite(rewrite, compiled)

    def change(text: bytes) -> bytes:
        plain = text.decode("utf-8", "surrogateescape")
        return "".join(_pieces(compiled, made, plain, replace_global)).encode("utf-8", "surrogateescape")

    return _each(inputs, change)


def _pieces(
    pattern: re.Pattern[str], made: Callable[[re.Match[str]], str], text: str, replace_global: bool
) -> Iterator[str]:
    """The text with its matches replaced. As in RE2, an empty match right behind another match is none."""
    done, last = 0, -1
    for found in pattern.finditer(text):
        if found.start() == found.end() == last:
            continue
        yield text[done : found.start()]
        yield made(found)
        done = last = found.end()
        if not replace_global:
            break
    yield text[done:]


@value("RegexReplace")
def _regex_replace(
    inputs: NDArray[Any], pattern: NDArray[Any], rewrite: NDArray[Any], *, replace_global: bool
) -> NDArray[Any]:
    if pattern.ndim or rewrite.ndim:
        raise OpError("the expression and its replacement must be scalars")
    return _replaced(inputs, pattern.item(), rewrite.item(), replace_global)


@value("StaticRegexReplace")
def _static_replace(inputs: NDArray[Any], *, pattern: bytes, rewrite: bytes, replace_global: bool) -> NDArray[Any]:
    return _replaced(inputs, pattern, rewrite, replace_global)


def _matched(inputs: NDArray[Any], pattern: bytes) -> NDArray[Any]:
    compiled = _pattern(pattern)
    found = [compiled.fullmatch(text.decode("utf-8", "surrogateescape")) is not None for text in inputs.ravel()]
    return numpy.array(found, bool).reshape(inputs.shape)


@value("RegexFullMatch")
def _full_match(inputs: NDArray[Any], pattern: NDArray[Any]) -> NDArray[Any]:
    if pattern.ndim:
        raise OpError("the expression must be a scalar")
    return _matched(inputs, pattern.item())


@value("StaticRegexFullMatch")
def _static_match(inputs: NDArray[Any], *, pattern: bytes) -> NDArray[Any]:
    return _matched(inputs, pattern)


# Numbers

_FLOATS = re.compile(rb"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|inf(?:inity)?|nan)", re.IGNORECASE)
_INTEGERS = re.compile(rb"[+-]?\d+")


@value("StringToNumber")
def _to_number(inputs: NDArray[Any], *, out_type: DType) -> NDArray[Any]:
    kind = out_type.numpy()
    found = numpy.empty(inputs.size, kind)
    for number, text in enumerate(inputs.ravel()):
        found[number] = read_number(text, kind)
    return found.reshape(inputs.shape)


def read_number(text: bytes, kind: numpy.dtype[Any]) -> Any:
    """A number in a text, as TensorFlow reads it: spaces around it are passed over.

    Raises:
        OpError: It is none, or too large for its type.
    """
    plain = text.strip(_SPACES)
    if kind.kind == "f":
        if re.fullmatch(rb"[+-]?0x[0-9a-f]+", plain, re.IGNORECASE):
            return kind.type(float.fromhex(plain.decode()))
        if _FLOATS.fullmatch(plain) is None:
            raise OpError(f"{text[:60]!r} is not a number")
        return kind.type(float(plain))
    if _INTEGERS.fullmatch(plain) is None or not numpy.iinfo(kind).min <= int(plain) <= numpy.iinfo(kind).max:
        raise OpError(f"{text[:60]!r} is not a number of type {kind}")
    return kind.type(int(plain))


@value("AsString")
def _as_string(
    inputs: NDArray[Any], *, precision: int, scientific: bool, shortest: bool, width: int, fill: bytes
) -> NDArray[Any]:
    kind = inputs.dtype.kind
    name = inputs.dtype.name
    is_float = kind == "f" or "float" in name
    if scientific and shortest:
        raise OpError("scientific and shortest exclude each other")
    if len(fill) > 1:
        raise OpError("fill must be one letter")
    if not is_float and kind != "c" and precision > -1:
        raise OpError("precision is for floating numbers")
    digits = f".{precision}" if precision > -1 else ""
    form = "e" if scientific else "g" if shortest else "f"
    pad = "" if width < 0 else str(width)
    flag = {b"": "", b"0": "0", b"-": "-", b"+": "+", b" ": " "}.get(fill)
    if flag is None:
        raise OpError(f"fill {fill!r} is not one of 0, -, + and space")

    def shown(item: Any) -> bytes:
        if item.dtype == object:
            return bytes(item.item())
        if kind == "b":
            return f"%{flag.replace('0', '').replace('+', '').replace(' ', '')}{pad}s".encode() % (
                b"true" if item else b"false"
            )
        if kind == "c":
            real, imaginary = (f"%{flag}{pad}{digits}{form}" % part for part in (item.real, item.imag))
            return f"({real},{imaginary})".encode()
        if is_float:
            return _c_text(f"%{flag}{pad}{digits}{form}" % float(item), float(item))
        return (f"%{flag}{pad}d" % int(item)).encode()

    if inputs.dtype == object:
        return inputs
    return texts((shown(item) for item in inputs.ravel()), inputs.shape)


def _c_text(text: str, number: float) -> bytes:
    return text.replace("0nan", " nan").replace("0inf", " inf").encode() if number != number else text.encode()


# Unicode and base64

_CODECS = {b"UTF-8": "utf-8", b"UTF-16-BE": "utf-16-be", b"UTF-32-BE": "utf-32-be", b"UTF-16BE": "utf-16-be",
           b"UTF-32BE": "utf-32-be", b"US-ASCII": "ascii", b"ASCII": "ascii", b"ISO-8859-1": "latin-1",
           b"LATIN1": "latin-1", b"UTF8": "utf-8"}  # fmt: skip


def _codec(name: bytes) -> str:
    found = _CODECS.get(name.upper())
    if found is None:
        raise OpError(f"the encoding {name.decode('utf-8', 'replace')!r} is not known")
    return found


def _points(text: bytes, codec: str, errors: bytes, replacement: int, control: bool) -> Iterator[tuple[int, int]]:
    """The code points of a text with the bytes where they begin."""
    place = 0
    while place < len(text):
        try:
            rest = text[place:].decode(codec)
            stop = len(text)
        except UnicodeDecodeError as error:
            rest = text[place : place + error.start].decode(codec)
            stop = place + error.start
            size = max(error.end - error.start, 1)
        for letter in rest:
            point = ord(letter)
            is_control = control and (point < 32 or 127 <= point < 160)
            yield (replacement if is_control else point), place
            place += len(letter.encode(codec))
        if stop == len(text):
            return
        if errors == b"strict":
            raise OpError("a text has bytes that the encoding does not know")
        if errors == b"replace":
            yield replacement, place
        place += size


@value("UnicodeDecode")
def _unicode_decode(
    inputs: NDArray[Any], *, input_encoding: bytes, errors: bytes, replacement_char: int,
    replace_control_characters: bool, Tsplits: DType,
) -> tuple[Any, ...]:  # fmt: skip
    return _decoded(inputs, input_encoding, errors, replacement_char, replace_control_characters, Tsplits)[:2]


@value("UnicodeDecodeWithOffsets")
def _unicode_offsets(
    inputs: NDArray[Any], *, input_encoding: bytes, errors: bytes, replacement_char: int,
    replace_control_characters: bool, Tsplits: DType,
) -> tuple[Any, ...]:  # fmt: skip
    return _decoded(inputs, input_encoding, errors, replacement_char, replace_control_characters, Tsplits)


def _decoded(
    inputs: NDArray[Any], encoding: bytes, errors: bytes, replacement: int, control: bool, splits: DType
) -> tuple[Any, ...]:
    codec = _codec(encoding)
    rows = [list(_points(text, codec, errors, replacement, control)) for text in inputs.ravel()]
    ends = numpy.concatenate([[0], numpy.cumsum([len(row) for row in rows])]).astype(splits.numpy())
    flat = [one for row in rows for one in row]
    return ends, numpy.array([one[0] for one in flat], numpy.int32), numpy.array([one[1] for one in flat], numpy.int64)


@value("UnicodeEncode")
def _unicode_encode(
    points: NDArray[Any], splits: NDArray[Any], *, errors: bytes, output_encoding: bytes, replacement_char: int
) -> NDArray[Any]:
    codec = _codec(output_encoding)
    bounds = splits.tolist()
    if not bounds or bounds[0] != 0 or bounds[-1] != points.size or bounds != sorted(bounds):
        raise OpError("the splits do not fit the code points")
    rows = [points[start:stop].tolist() for start, stop in itertools.pairwise(bounds)]
    return texts((b"".join(_encoded(row, codec, errors, replacement_char)) for row in rows), (len(rows),))


def _encoded(points: Iterable[int], codec: str, errors: bytes, replacement: int) -> Iterator[bytes]:
    for point in points:
        if 0 <= point < 0x110000 and not 0xD800 <= point < 0xE000:
            yield chr(point).encode(codec)
        elif errors == b"strict":
            raise OpError(f"{point} is no code point")
        elif errors == b"replace":
            yield chr(replacement).encode(codec)


@value("UnicodeScript")
def _unicode_script(x: NDArray[Any]) -> Any:
    """The number that ICU gives the script of each code point; -1 for what is none."""
    table = _scripts()
    known = (x >= 0) & (x < len(table))
    return numpy.where(known, table[numpy.where(known, x, 0)], -1).astype(numpy.int32)


@cache
def _scripts() -> NDArray[Any]:
    data = zlib.decompress(Path(__file__).with_name("unicode_scripts.zlib").read_bytes())
    runs = len(data) // 6
    lengths, scripts = numpy.frombuffer(data, "<u4", runs), numpy.frombuffer(data, "<i2", offset=4 * runs)
    return numpy.repeat(scripts, lengths)


@value("UnicodeTranscode")
def _transcode(
    inputs: NDArray[Any], *, input_encoding: bytes, output_encoding: bytes, errors: bytes, replacement_char: int,
    replace_control_characters: bool,
) -> NDArray[Any]:  # fmt: skip
    source, target = _codec(input_encoding), _codec(output_encoding)

    def change(text: bytes) -> bytes:
        points = _points(text, source, errors, replacement_char, replace_control_characters)
        return "".join(chr(point) for point, _ in points).encode(target)

    return _each(inputs, change)


@value("EncodeBase64")
def _encode_base64(inputs: NDArray[Any], *, pad: bool) -> NDArray[Any]:
    return _each(
        inputs, lambda text: base64.urlsafe_b64encode(text) if pad else base64.urlsafe_b64encode(text).rstrip(b"=")
    )


@value("DecodeBase64")
def _decode_base64(inputs: NDArray[Any]) -> NDArray[Any]:
    def change(text: bytes) -> bytes:
        plain = text.rstrip(b"=")
        if (
            re.fullmatch(rb"[A-Za-z0-9_-]*", plain) is None
            or len(plain) % 4 == 1
            or (len(text) > len(plain) and (len(text) % 4 or len(text) - len(plain) > 2))
        ):
            raise OpError(f"{text[:60]!r} is not base64 for the web")
        return base64.urlsafe_b64decode(plain + b"=" * (-len(plain) % 4))

    return _each(inputs, change)
