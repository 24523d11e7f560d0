"""Values as text format shows them: numbers, enums, strings.

Protobuf has two printers, which spell floats differently: `text_format.MessageToString` and `str()`.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping

from tfsmith.wire.scan import as_int64
from tfsmith.wire.schema import schema

__all__ = ["shown_bytes", "shown_string", "value_printer"]

_PLAIN = re.compile(rb"[ !#-&(-\[\]-~]*")
_STRING_ESCAPES = {code: f"\\{code:03o}" for code in (*range(32), 127)} | {
    ord("\t"): r"\t", ord("\n"): r"\n", ord("\r"): r"\r", ord('"'): r"\"", ord("'"): r"\'", ord("\\"): r"\\",
}  # fmt: skip
_BYTE_TEXTS = tuple(_STRING_ESCAPES.get(code, chr(code) if code < 128 else f"\\{code:03o}") for code in range(256))
_PIECE = 1 << 16
_FLOAT = struct.Struct("<f")


def shown_string(data: bytes) -> str:
    """A string field's UTF-8 with its escapes, without the quotes."""
    if _PLAIN.fullmatch(data) is not None:
        return data.decode("ascii")
    return data.decode("utf-8").translate(_STRING_ESCAPES)


def shown_bytes(data: bytes) -> str:
    """A bytes field with its escapes, without the quotes; about 50 ms a megabyte."""
    if _PLAIN.fullmatch(data) is not None:
        return data.decode("ascii")
    pieces = (data[start : start + _PIECE] for start in range(0, len(data), _PIECE))
    return "".join(["".join([_BYTE_TEXTS[byte] for byte in piece]) for piece in pieces])


def value_printer(type_name: str, like_str: bool) -> Callable[[float], str]:
    """The function that shows a number: the unsigned varint of a field, or what its fixed bytes hold."""
    if type_name == "bool":
        return _shown_bool
    if type_name == "float":
        return _float_like_str if like_str else _shown_float
    if type_name == "double" and like_str:
        return _double_like_str
    if type_name in ("int32", "int64"):
        return _shown_signed
    if type_name in ("sint32", "sint64"):
        return _shown_zigzag
    enum = schema().enums.get(type_name)
    return str if enum is None else _enum_printer(enum)


def _shown_bool(value: float) -> str:
    return "true" if value else "false"


def _shown_signed(value: float) -> str:
    return str(as_int64(int(value)))


def _shown_zigzag(value: float) -> str:
    number = int(value)
    return str(number >> 1 ^ -(number & 1))


def _shown_float(value: float) -> str:
    """The fewest digits, six at least, that give the same 32-bit float; then as Python shows the number they make."""
    if math.isnan(value):
        return str(value)
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if _as_float32(short) == value:
            return str(short)
    return str(float(f"{value:.9g}"))


def _float_like_str(value: float) -> str:
    short = f"{value:.6g}"
    return short if math.isnan(value) or _as_float32(float(short)) == value else f"{value:.9g}"


def _double_like_str(value: float) -> str:
    short = f"{value:.15g}"
    return short if math.isnan(value) or float(short) == value else f"{value:.17g}"


def _as_float32(value: float) -> float:
    if math.isinf(value):
        return value
    rounded: float = _FLOAT.unpack(_FLOAT.pack(value))[0]
    return rounded


def _enum_printer(values: Mapping[str, int]) -> Callable[[float], str]:
    names = {number: name for name, number in values.items()}

    def show(value: float) -> str:
        number = as_int64(int(value))
        return names.get(number) or str(number)

    return show
