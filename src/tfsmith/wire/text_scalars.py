"""The values of text format, one at a time: what stands after `name:` becomes the payload of a field.

Only the spellings that printers use are known here. Anything else raises `Unusual`, and the general parser decides.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType

from tfsmith.wire.plan import encode_varint
from tfsmith.wire.schema import schema
from tfsmith.wire.text_fields import INTEGER_RANGES, STRUCT_FORMS

__all__ = ["Unusual", "encoder"]

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")
_FLOAT = re.compile(r"-?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf|nan)")
_STRANGE_ESCAPE = re.compile(r"""\\(?![abfnrtv'"0-3]|[4-7][0-7]?(?![0-7])|x[0-9a-fA-F]{2})""")
"""A backslash before anything but the escapes that Python's codec and protobuf read alike."""
_BOOLS = MappingProxyType(
    {"true": b"\1", "t": b"\1", "1": b"\1", "True": b"\1", "false": b"\0", "f": b"\0", "0": b"\0", "False": b"\0"}
)


class Unusual(Exception):
    """The text is not as a printer writes it. It may still be right: the general parser must say."""


def encoder(type_name: str) -> Callable[[str], bytes]:
    """The function that turns a value's text into the field's payload; strings get their length in front.

    It raises `Unusual` for what it does not know, which includes all that is wrong.
    """
    if type_name == "string":
        return _encode_string
    if type_name == "bytes":
        return _encode_bytes
    if type_name == "bool":
        return _encode_bool
    if type_name in ("float", "double"):
        return _float_encoder(STRUCT_FORMS[type_name])
    if type_name in INTEGER_RANGES:
        return _integer_encoder(type_name)
    return _enum_encoder(schema().enums[type_name])


def _encode_bool(value: str) -> bytes:
    payload = _BOOLS.get(value)
    if payload is None:
        raise Unusual
    return payload


def _float_encoder(form: str) -> Callable[[str], bytes]:
    pack = struct.Struct(form).pack

    def encode(value: str) -> bytes:
        if _FLOAT.fullmatch(value) is None:
            raise Unusual
        try:
            return pack(float(value))
        except OverflowError as error:  # beyond what a float can hold
            raise Unusual from error

    return encode


def _integer_encoder(type_name: str) -> Callable[[str], bytes]:
    low, high = INTEGER_RANGES[type_name]
    form = STRUCT_FORMS.get(type_name)
    zigzag = type_name.startswith("sint")

    def encode(value: str) -> bytes:
        number = _integer(value, low, high)
        if form is not None:
            return struct.pack(form, number)
        if zigzag:
            number = number << 1 if number >= 0 else (~number << 1) | 1
        return encode_varint(number)

    return encode


def _enum_encoder(values: Mapping[str, int]) -> Callable[[str], bytes]:
    known = {name: encode_varint(number) for name, number in values.items()}
    low, high = INTEGER_RANGES["int32"]

    def encode(value: str) -> bytes:
        payload = known.get(value)
        return encode_varint(_integer(value, low, high)) if payload is None else payload

    return encode


def _integer(value: str, low: int, high: int) -> int:
    if _INTEGER.fullmatch(value) is None:
        raise Unusual
    number = int(value)
    if not low <= number < high:
        raise Unusual
    return number


def _encode_string(value: str) -> bytes:
    data = _unquote(value)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unusual from error
    return encode_varint(len(data)) + data


def _encode_bytes(value: str) -> bytes:
    data = _unquote(value)
    return encode_varint(len(data)) + data


def _unquote(value: str) -> bytes:
    quote, body = value[:1], value[1:-1]
    if len(value) < 2 or quote not in ('"', "'") or value[-1] != quote:
        raise Unusual
    try:
        if "\\" in body:
            return _unescape(body, quote)
        if quote in body:  # two strings side by side
            raise Unusual
        return body.encode("utf-8")
    except UnicodeError as error:  # a lone surrogate
        raise Unusual from error


def _unescape(body: str, quote: str) -> bytes:
    single = body.replace(r"\\", " ")  # now each backslash that is left begins an escape of another kind
    if _STRANGE_ESCAPE.search(single) is not None or single.count(quote) != single.count("\\" + quote):
        raise Unusual
    return body.encode("utf-8").decode("unicode_escape").encode("latin-1")
